/* Pictures, decoded by stb_image (Debian's libstb-dev): a header that is compiled here, without its floating-point parts, files
 * and messages. It takes memory from the heap of the call, which it finds in a variable of the thread. */
#include "io/onnx/decode.h"
#include <limits.h>
#include <string.h>

static _Thread_local ls_heap *heap_in_use;
static _Thread_local bool out_of_memory;

/* Zeros: a file that is cut short is read as what it says, never as what was in the memory. */
static void *take(size_t size) {
    void *block = ls_alloc_zeroed(heap_in_use, size);
    out_of_memory |= !block;
    return block;
}
static void *grow(void *block, size_t size) {
    void *more = block ? ls_realloc(heap_in_use, block, size) : take(size);
    out_of_memory |= !more;
    return more;
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

/* ---- JPEG to the bit as libjpeg decodes it, but for chroma that is halved in one direction alone ----
 * stb_image's own steps round otherwise, by one in a few pixels of a hundred. These take their places in its decoder. */

static uint8_t clamp_byte(int64_t x) {
    return x < 0 ? 0 : x > 255 ? 255 : (uint8_t)x;
}

/* BT.601 with coefficients in 16 bits. */
static void row_to_rgb(stbi_uc *out, const stbi_uc *y, const stbi_uc *blue, const stbi_uc *red, int count, int step) {
    for (int i = 0; i < count; i++, out += step) {
        int cb = blue[i] - 128, cr = red[i] - 128;
        out[0] = clamp_byte(y[i] + ((91881 * cr + 32768) >> 16));
        out[1] = clamp_byte(y[i] + ((-22554 * cb - 46802 * cr + 32768) >> 16));
        out[2] = clamp_byte(y[i] + ((116130 * cb + 32768) >> 16));
    }
}

/* Twice as wide, between two rows: weights 3 to 1 in both directions; halves go up on the left and down on the right. */
static stbi_uc *row_twice(stbi_uc *out, stbi_uc *near_row, stbi_uc *far_row, int width, int unused) {
    (void)unused;
    for (int i = 0; i < width; i++) {
        int left = i ? i - 1 : 0, right = i + 1 < width ? i + 1 : i;
        int here = 3 * near_row[i] + far_row[i];
        out[2 * i] = (stbi_uc)((3 * here + 3 * near_row[left] + far_row[left] + 8) >> 4);
        out[2 * i + 1] = (stbi_uc)((3 * here + 3 * near_row[right] + far_row[right] + 7) >> 4);
    }
    return out;
}

/* The inverse cosine transform of eight coefficients by Loeffler, Ligtenberg and Moschytz, constants in 13 bits. */
static void inverse_line(const int64_t *c, int step, int64_t *out, int shift) {
    int64_t c1 = c[step], c2 = c[2 * step], c3 = c[3 * step], c5 = c[5 * step], c6 = c[6 * step], c7 = c[7 * step];
    int64_t turn = (c2 + c6) * 4433, low = turn - c6 * 15137, high = turn + c2 * 6270;
    int64_t sum = (c[0] + c[4 * step]) * 8192, difference = (c[0] - c[4 * step]) * 8192;
    int64_t p = -7373 * (c1 + c7), q = -20995 * (c3 + c5), all = (c1 + c3 + c5 + c7) * 9633;
    int64_t r = all - 16069 * (c3 + c7), t = all - 3196 * (c1 + c5), half = (int64_t)1 << (shift - 1);
    int64_t even[] = {sum + high, difference + low, difference - low, sum - high};
    int64_t odd[] = {c1 * 12299 + p + t, c3 * 25172 + q + r, c5 * 16819 + q + t, c7 * 2446 + p + r};
    for (int i = 0; i < 4; i++) {
        out[i * step] = (even[i] + odd[i] + half) >> shift;
        out[(7 - i) * step] = (even[i] - odd[i] + half) >> shift;
    }
}

static void inverse_block(stbi_uc *out, int stride, short data[64]) {
    int64_t in[64], columns[64], rows[64];
    for (int i = 0; i < 64; i++) {
        in[i] = data[i];
    }
    for (int i = 0; i < 8; i++) {
        inverse_line(in + i, 8, columns + i, 11);
    }
    for (int i = 0; i < 8; i++) {
        inverse_line(columns + 8 * i, 1, rows + 8 * i, 18);
        for (int k = 0; k < 8; k++) {
            out[i * stride + k] = clamp_byte(rows[8 * i + k] + 128);
        }
    }
}

/* stb_image follows a table of Huffman codes past its end when the file says that it has more than 256: looks at all that there may be,
 * wherever they stand. */
static bool huffman_tables_fit(const uint8_t *b, size_t size) {
    for (size_t i = 0; i + 4 <= size; i++) {
        if (b[i] != 0xff || b[i + 1] != 0xc4) {
            continue;
        }
        size_t at = i + 4;
        for (int left = b[i + 2] * 256 + b[i + 3] - 2; left > 0 && at < size;) {
            int codes = 0;
            for (size_t k = 1; k <= 16 && at + k < size; k++) {
                codes += b[at + k];
            }
            if (codes > 256) {
                return false;
            }
            left -= 17 + codes;
            at += 17 + (size_t)codes;
        }
    }
    return true;
}

static uint8_t *decode_jpeg(const void *bytes, int size, int *width, int *height) {
    stbi__context file;
    int stored;
    stbi__jpeg *jpeg = huffman_tables_fit(bytes, (size_t)size) ? take(sizeof *jpeg) : NULL;
    if (!jpeg) {
        return NULL;
    }
    memset(jpeg, 0, sizeof *jpeg);
    stbi__start_mem(&file, bytes, size);
    jpeg->s = &file;
    stbi__setup_jpeg(jpeg);
    jpeg->idct_block_kernel = inverse_block;
    jpeg->resample_row_hv_2_kernel = row_twice;
    jpeg->YCbCr_to_RGB_kernel = row_to_rgb;
    uint8_t *pixels = load_jpeg_image(jpeg, width, height, &stored, 3);
    give(jpeg);
    return pixels;
}

/* What a file that stb_image does not read says it is; NULL: nothing known. */
static const char *other_format(const uint8_t *b, size_t size) {
    static const struct {
        const char *name;
        size_t at, length;
        const char *bytes;
    } formats[] = {
        {"WebP", 8, 4, "WEBP"},  {"JPEG 2000", 4, 4, "jP  "},
        {"GIF", 0, 4, "GIF8"},   {"JPEG 2000", 0, 4, "\xff\x4f\xff\x51"}, {"AVIF", 4, 8, "ftypavif"},
    };
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (size >= formats[i].at + formats[i].length && !memcmp(b + formats[i].at, formats[i].bytes, formats[i].length)) {
            return formats[i].name;
        }
    }
    return NULL;
}

/* Whether so small a file can hold so many pixels: 64 take a bit of a JPEG or more, 8 a byte that deflate makes 1,032 of by one (PNG), or a byte. */
static bool can_hold(const uint8_t *b, size_t size) {
    int width = 0, height = 0, stored = 0;
    if (!stbi_info_from_memory(b, (int)size, &width, &height, &stored)) {
        return true; /* decoding says what is wrong */
    }
    const size_t most = b[0] == 0xff ? 512 : b[0] == 0x89 ? 8 * 1032 : 8;
    return (size_t)width * (size_t)height / most <= size;
}

ls_status ls_image_decode(ls_heap *heap, const void *bytes, size_t size, int channels, int64_t out_dims[3], uint8_t **out_pixels,
                          ls_error *err) {
    int width = 0, height = 0, stored = 0;
    const char *other = other_format(bytes, size);
    if (other) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "an image in %s: BMP, JPEG, PNG, PNM and TIFF can be decoded", other);
    }
    if (size > INT_MAX) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "an image of %zu bytes: expected at most %d", size, INT_MAX);
    }
    if (size > 3 && (!memcmp(bytes, "II*\0", 4) || !memcmp(bytes, "MM\0*", 4))) {
        LS_TRY(err, ls_tiff_decode(heap, bytes, size, out_dims, out_pixels, err));
    } else {
        const uint8_t *b = bytes;
        bool jpeg = size > 1 && b[0] == 0xff && (b[1] == 0xd8 || b[1] == 0xff);
        heap_in_use = heap;
        out_of_memory = false;
        const bool holds = can_hold(b, size);
        *out_pixels = !holds ? NULL
                      : jpeg ? decode_jpeg(bytes, (int)size, &width, &height)
                             : stbi_load_from_memory(bytes, (int)size, &width, &height, &stored, 3);
        heap_in_use = NULL;
        if (!holds) {
            return LS_FAIL(err, LS_ERR_FORMAT, "the image's header asks for more pixels than its %zu bytes can hold", size);
        }
        out_dims[0] = height;
        out_dims[1] = width;
    }
    if (!*out_pixels && out_of_memory) {
        return LS_FAIL_MEMORY(err, "an image");
    }
    if (!*out_pixels) {
        return LS_FAIL(err, LS_ERR_FORMAT, "the image is damaged, or in a format other than BMP, JPEG, PNG, PNM and TIFF");
    }
    for (size_t i = 0, n = (size_t)(out_dims[0] * out_dims[1]); channels == 1 && i < n; i++) {
        const uint8_t *rgb = *out_pixels + 3 * i;
        (*out_pixels)[i] = (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 32768u) >> 16); /* BT.601's luma */
    }
    out_dims[2] = channels;
    return LS_OK;
}
