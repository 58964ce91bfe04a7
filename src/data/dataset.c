/* Data sets from IDX files, and batches of a data set in an order that (seed, epoch) alone decide. */
#include "base/alloc.h"
#include "base/numerics.h"
#include "base/rng.h"
#include "base/status.h"
#include <lockstep/data.h>
#include <lockstep/io.h>
#include <stdio.h>
#include <string.h>

void ls_dataset_release(ls_dataset *set) {
    if (set) {
        ls_data_release(set->images);
        ls_data_release(set->labels);
        *set = (ls_dataset){NULL, NULL};
    }
}

/* FOLDER/NAME or FOLDER/NAME.gz, whichever is there. */
static ls_status load(ls_context *context, const char *folder, const char *name, ls_data **out_data,
                      ls_error *err) {
    char path[1024];
    ls_error first = {.code = LS_OK}, second = {.code = LS_OK};
    if (snprintf(path, sizeof path, "%s/%s.gz", folder, name) >= (int)sizeof path) {
        return LS_FAIL(err, LS_ERR_INVALID, "data folder %.64s...: the path is too long", folder);
    }
    if (ls_idx_load(context, path, out_data, &first) == LS_OK) {
        return LS_OK;
    }
    path[strlen(path) - 3] = '\0';
    if (ls_idx_load(context, path, out_data, &second) == LS_OK) {
        return LS_OK;
    }
    const ls_error *told =
        first.code == LS_ERR_IO ? &second : &first; /* of the file that is there, if one is */
    return LS_FAIL(err, told->code, "%s", told->message);
}

static ls_status load_part(ls_context *context, const char *folder, const char *which, ls_dataset *set,
                           ls_error *err) {
    char images[64], labels[64];
    snprintf(images, sizeof images, "%s-images-idx3-ubyte", which);
    snprintf(labels, sizeof labels, "%s-labels-idx1-ubyte", which);
    LS_TRY(err, load(context, folder, images, &set->images, err));
    LS_TRY(err, load(context, folder, labels, &set->labels, err));
    if (ls_data_dtype(set->images) != LS_U8 || ls_data_rank(set->images) != 3 ||
        ls_data_dtype(set->labels) != LS_U8 || ls_data_rank(set->labels) != 1 ||
        ls_data_dims(set->images)[0] != ls_data_dims(set->labels)[0]) {
        return LS_FAIL(err, LS_ERR_FORMAT,
                       "%s: %s and %s: expected u8 [N,rows,columns] and as many u8 labels", folder, images,
                       labels);
    }
    return LS_OK;
}

ls_status ls_dataset_idx(ls_context *context, const char *folder, ls_dataset *out_train, ls_dataset *out_test,
                         ls_error *err) {
    ls_dataset train = {NULL, NULL}, test = {NULL, NULL};
    ls_status status = load_part(context, folder, "train", &train, err);
    status = status == LS_OK ? load_part(context, folder, "t10k", &test, err) : status;
    if (status != LS_OK) {
        ls_dataset_release(&train);
        ls_dataset_release(&test);
        return status;
    }
    *out_train = train;
    *out_test = test;
    return LS_OK;
}

/* ---- batches ---- */

struct ls_loader {
    ls_heap *heap;
    ls_dataset set;
    int64_t n, pixels, batch, epoch;
    uint64_t seed;
    int drop_last, shift;
    int64_t *order; /* of `epoch` */
};

ls_status ls_loader_create(ls_context *context, const ls_dataset *set, int64_t batch, uint64_t seed,
                           int drop_last, ls_loader **out_loader, ls_error *err) {
    if (ls_data_dtype(set->images) != LS_U8 || ls_data_rank(set->images) < 1 ||
        ls_data_dtype(set->labels) != LS_U8 || ls_data_rank(set->labels) != 1 ||
        ls_data_dims(set->images)[0] != ls_data_dims(set->labels)[0]) {
        return LS_FAIL(err, LS_ERR_SHAPE, "loader: expected u8 images [N,...] and as many u8 labels [N]");
    }
    int64_t n = ls_data_dims(set->labels)[0];
    if (batch < 1 || n < 1 || (drop_last && batch > n)) {
        return LS_FAIL(err, LS_ERR_INVALID, "loader: batches of %lld from %lld images: expected 1 to %lld",
                       (long long)batch, (long long)n, (long long)n);
    }
    ls_heap *heap = ls_context_heap(context);
    ls_loader *loader = ls_alloc_zeroed(heap, sizeof *loader);
    int64_t *order = ls_alloc(heap, sizeof *order * (size_t)n);
    if (!loader || !order) {
        ls_free(heap, loader);
        ls_free(heap, order);
        return LS_FAIL_MEMORY(err, "a loader");
    }
    *loader = (ls_loader){.heap = heap,
                          .set = {ls_data_retain(set->images), ls_data_retain(set->labels)},
                          .n = n,
                          .pixels = ls_data_numel(set->images) / n,
                          .batch = batch,
                          .epoch = -1,
                          .seed = seed,
                          .drop_last = drop_last,
                          .order = order};
    *out_loader = loader;
    return LS_OK;
}

void ls_loader_set_shift(ls_loader *loader, int pixels) {
    loader->shift = pixels;
}

void ls_loader_destroy(ls_loader *loader) {
    if (loader) {
        ls_dataset_release(&loader->set);
        ls_free(loader->heap, loader->order);
        ls_free(loader->heap, loader);
    }
}

int64_t ls_loader_batches(const ls_loader *loader) {
    return loader->drop_last ? loader->n / loader->batch : (loader->n - 1) / loader->batch + 1;
}

static void order_epoch(ls_loader *loader, int64_t epoch) {
    ls_rng rng = {ls_rng_key(loader->seed, (uint64_t)epoch), 0};
    for (int64_t i = 0; i < loader->n; i++) {
        loader->order[i] = i;
    }
    for (int64_t i = loader->n - 1; i > 0; i--) {
        int64_t j = (int64_t)ls_rng_below(&rng, (uint64_t)i + 1), swap = loader->order[i];
        loader->order[i] = loader->order[j];
        loader->order[j] = swap;
    }
    loader->epoch = epoch;
}

/* Writes an image, moved by (down, right); what comes in is pixel value 0. */
static void place(const ls_loader *loader, const uint8_t *image, int64_t down, int64_t right,
                  const float *value, float *out) {
    int64_t columns = ls_data_dims(loader->set.images)[2], rows = loader->pixels / columns;
    for (int64_t y = 0; y < rows; y++) {
        for (int64_t x = 0; x < columns; x++) {
            int64_t from_y = y - down, from_x = x - right;
            bool inside = from_y >= 0 && from_y < rows && from_x >= 0 && from_x < columns;
            out[y * columns + x] = value[inside ? image[from_y * columns + from_x] : 0];
        }
    }
}

int64_t ls_loader_get(ls_loader *loader, int64_t epoch, int64_t batch, float mean, float deviation,
                      float *out_images, int32_t *out_labels) {
    if (batch < 0 || batch >= ls_loader_batches(loader)) {
        return 0;
    }
    if (loader->epoch != epoch) {
        order_epoch(loader, epoch);
    }
    int64_t first = batch * loader->batch,
            n = loader->n - first < loader->batch ? loader->n - first : loader->batch;
    float value[256];
    ls_numerics numerics = ls_numerics_enter();
    for (int i = 0; i < 256; i++) {
        value[i] = ((float)i / 255 - mean) / deviation;
    }
    ls_numerics_leave(numerics);
    const uint8_t *images = ls_data_bytes(loader->set.images), *labels = ls_data_bytes(loader->set.labels);
    for (int64_t i = 0; i < n; i++) {
        const uint8_t *image = images + loader->order[first + i] * loader->pixels;
        ls_rng rng = {ls_rng_key(loader->seed + 1, (uint64_t)epoch), 2 * (uint64_t)(first + i)};
        int64_t down = 0, right = 0;
        if (loader->shift > 0) {
            down = (int64_t)(ls_rng_u32(&rng) % (uint32_t)(2 * loader->shift + 1)) - loader->shift;
            right = (int64_t)(ls_rng_u32(&rng) % (uint32_t)(2 * loader->shift + 1)) - loader->shift;
        }
        place(loader, image, down, right, value, out_images + i * loader->pixels);
        out_labels[i] = labels[loader->order[first + i]];
    }
    return n;
}
