/* Pictures from files, for the inputs of models. */
#include "base/os.h"
#include "io/onnx/decode.h"
#include <lockstep/io.h>

typedef struct picture {
    ls_heap *heap;
    void *pixels;
} picture;

static void drop(void *owner) {
    picture *p = owner;
    ls_heap *heap = p->heap;
    ls_free(heap, p->pixels);
    ls_free(heap, p);
}

ls_status ls_image_load(ls_context *context, const char *path, int channels, ls_data **out_data,
                        ls_error *err) {
    ls_heap *heap = ls_context_heap(context);
    ls_mapping map;
    int64_t dims[3];
    uint8_t *pixels = NULL;
    ls_error why = {.code = LS_OK};
    if (channels != 1 && channels != 3) {
        return LS_FAIL(err, LS_ERR_INVALID, "%s: expected 1 or 3 channels, got %d", path, channels);
    }
    LS_TRY(err, ls_file_map(path, &map, err));
    ls_status status = ls_image_decode(heap, map.data, map.size, channels, dims, &pixels, &why);
    ls_file_unmap(&map);
    if (status != LS_OK) {
        return LS_FAIL(err, status, "%s: %s", path, why.message);
    }
    picture *p = ls_alloc(heap, sizeof *p);
    if (!p) {
        ls_free(heap, pixels);
        return LS_FAIL_MEMORY(err, path);
    }
    *p = (picture){heap, pixels};
    status = ls_data_wrap(context, LS_U8, 3, dims, pixels, drop, p, out_data, err);
    if (status != LS_OK) {
        drop(p);
    }
    return status;
}
