/* Pictures, decoded by stb_image (Debian's libstb-dev): a header that is compiled here, without its floating-point parts, files
 * and messages. It takes memory from the heap of the call, which it finds in a variable of the thread. */
#include "io/onnx/decode.h"
#include <limits.h>
#include <string.h>

static _Thread_local ls_heap *heap_in_use;

static void *take(size_t size) {
    return ls_alloc(heap_in_use, size);
}
static void *grow(void *block, size_t size) {
    return block ? ls_realloc(heap_in_use, block, size) : take(size);
}
static void give(void *block) {
    ls_free(heap_in_use, block);
}

#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ASSERT(x) ((void)0)
#define STBI_MALLOC(size) take(size)
#define STBI_REALLOC(block, size) grow(block, size)
#define STBI_FREE(block) give(block)
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_NO_FAILURE_STRINGS
#define STBI_NO_SIMD
#define STBI_ONLY_BMP
#define STBI_ONLY_JPEG
#define STBI_ONLY_PNG
#define STBI_ONLY_PNM
#include <stb_image.h>

/* What a file that stb_image does not read says it is; NULL: nothing known. */
static const char *other_format(const uint8_t *b, size_t size) {
    static const struct {
        const char *name;
        size_t at, length;
        const char *bytes;
    } formats[] = {
        {"TIFF", 0, 4, "II*\0"}, {"TIFF", 0, 4, "MM\0*"},          {"WebP", 8, 4, "WEBP"},          {"JPEG 2000", 4, 4, "jP  "},
        {"GIF", 0, 4, "GIF8"},   {"JPEG 2000", 0, 4, "\xff\x4f\xff\x51"}, {"AVIF", 4, 8, "ftypavif"},
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (size >= formats[i].at + formats[i].length && !memcmp(b + formats[i].at, formats[i].bytes, formats[i].length)) {
            return formats[i].name;
        }
    }
    return NULL;
}

ls_status ls_image_decode(ls_heap *heap, const void *bytes, size_t size, int channels, int64_t out_dims[3], uint8_t **out_pixels,
                          ls_error *err) {
    int width = 0, height = 0, stored = 0;
    const char *other = other_format(bytes, size);
    if (other) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "an image in %s: BMP, JPEG, PNG and PNM can be decoded", other);
    }
    if (size > INT_MAX) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "an image of %zu bytes: expected at most %d", size, INT_MAX);
    }
    heap_in_use = heap;
    *out_pixels = stbi_load_from_memory(bytes, (int)size, &width, &height, &stored, 3);
    heap_in_use = NULL;
    if (!*out_pixels) {
        return LS_FAIL(err, LS_ERR_FORMAT, "the image is damaged, or in a format other than BMP, JPEG, PNG and PNM");
    }
    for (size_t i = 0, n = (size_t)width * (size_t)height; channels == 1 && i < n; i++) {
        const uint8_t *rgb = *out_pixels + 3 * i;
        (*out_pixels)[i] = (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 32768u) >> 16); /* BT.601's luma */
    }
    out_dims[0] = height;
    out_dims[1] = width;
    out_dims[2] = channels;
    return LS_OK;
}
