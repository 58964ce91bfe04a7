/* Baseline TIFF: 8-bit grey, RGB or RGBA (the opacity is dropped) in strips, stored as they are or packed by PackBits. Every offset
 * and count of the file is checked against its size before it is followed. */
#include "io/onnx/decode.h"
#include <inttypes.h>
#include <string.h>

typedef struct file {
    const uint8_t *bytes;
    size_t size;
    bool big; /* most significant byte first */
} file;

enum { WIDTH = 256, HEIGHT = 257, BITS = 258, COMPRESSION = 259, PHOTOMETRIC = 262, STRIPS = 273, SAMPLES = 277, ROWS = 278,
       STRIP_BYTES = 279, PLANAR = 284, TILES = 322, FIRST_TAG = WIDTH, LAST_TAG = TILES };

/* A field of the directory: `count` numbers of `size` bytes each, at `at`. count 0: it is not there. */
typedef struct field {
    size_t at, size;
    uint32_t count;
} field;

static uint32_t number_at(const file *f, size_t at, size_t size) {
    uint32_t x = 0;
    for (size_t i = 0; i < size; i++) {
        x |= (uint32_t)f->bytes[at + i] << 8 * (f->big ? size - 1 - i : i);
    }
    return x;
}

static uint32_t value_of(const file *f, const field *e, uint32_t i, uint32_t otherwise) {
    return i < e->count ? number_at(f, e->at + i * e->size, e->size) : otherwise;
}

static ls_status read_directory(const file *f, field fields[LAST_TAG - FIRST_TAG + 1], ls_error *err) {
    size_t at = f->size >= 8 ? number_at(f, 4, 4) : f->size, count = at + 2 <= f->size ? number_at(f, at, 2) : 0;
    if (count == 0 || (f->size - at - 2) / 12 < count) {
        return LS_FAIL(err, LS_ERR_FORMAT, "the TIFF image's directory lies outside of the file");
    }
    for (size_t i = 0; i < count; i++) {
        size_t entry = at + 2 + 12 * i, tag = number_at(f, entry, 2), type = number_at(f, entry + 2, 2);
        size_t size = type == 3 ? 2 : type == 4 ? 4 : type == 1 ? 1 : 0;
        if (tag < FIRST_TAG || tag > LAST_TAG || size == 0) {
            continue;
        }
        field e = {entry + 8, size, number_at(f, entry + 4, 4)};
        if (e.count > 4 / size) {
            e.at = number_at(f, e.at, 4);
        }
        if (e.at > f->size || (f->size - e.at) / size < e.count) {
            return LS_FAIL(err, LS_ERR_FORMAT, "field %zu of the TIFF image lies outside of the file", tag);
        }
        fields[tag - FIRST_TAG] = e;
    }
    return LS_OK;
}

/* Fills `out` from a strip; false when the strip holds less. */
static bool read_strip(const uint8_t *in, size_t size, bool packed, uint8_t *out, size_t wanted) {
    if (!packed) {
        memcpy(out, in, size < wanted ? size : wanted);
        return size >= wanted;
    }
    size_t at = 0, done = 0;
    while (done < wanted && at < size) { /* n < 128: n + 1 bytes follow; n > 128: one byte, 257 - n times */
        size_t n = in[at++], run = n < 128 ? n + 1 : n > 128 ? 257 - n : 0, source = n < 128 ? run : run > 0;
        if (source > size - at || run > wanted - done) {
            return false;
        }
        if (n < 128) {
            memcpy(out + done, in + at, run);
        } else if (run) {
            memset(out + done, in[at], run);
        }
        at += source;
        done += run;
    }
    return done == wanted;
}

ls_status ls_tiff_decode(ls_heap *heap, const void *bytes, size_t size, int64_t out_dims[3], uint8_t **out_pixels, ls_error *err) {
    file f = {bytes, size, size > 0 && *(const uint8_t *)bytes == 'M'};
    field fields[LAST_TAG - FIRST_TAG + 1] = {{0, 0, 0}};
#define FIELD(tag, i, otherwise) value_of(&f, &fields[(tag)-FIRST_TAG], (i), (otherwise))
    LS_TRY(err, read_directory(&f, fields, err));
    uint32_t width = FIELD(WIDTH, 0, 0), height = FIELD(HEIGHT, 0, 0), samples = FIELD(SAMPLES, 0, 1), rows = FIELD(ROWS, 0, height);
    uint32_t compression = FIELD(COMPRESSION, 0, 1), photometric = FIELD(PHOTOMETRIC, 0, 1);
    bool grey = samples == 1 && photometric <= 1, color = (samples == 3 || samples == 4) && photometric == 2;
    bool fits = grey || color;
    for (uint32_t i = 0; fits && i < samples; i++) {
        fits = FIELD(BITS, i, 1) == 8;
    }
    if ((compression != 1 && compression != 32773) || !fits || FIELD(PLANAR, 0, 1) != 1 || fields[TILES - FIRST_TAG].count) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED,
                       "a TIFF image of %" PRIu32 " samples with compression %" PRIu32 " and photometric interpretation %" PRIu32
                       ": 8-bit grey and RGB in strips can be decoded, stored or packed by PackBits",
                       samples, compression, photometric);
    }
    if (width == 0 || height == 0 || width > 1 << 24 || height > 1 << 24 || rows == 0) {
        return LS_FAIL(err, LS_ERR_FORMAT, "a TIFF image of %" PRIu32 " by %" PRIu32 " in strips of %" PRIu32 " rows", width, height, rows);
    }
    size_t line = (size_t)width * samples, pixels = (size_t)width * height;
    if (line * height / 128 > size) { /* PackBits makes 128 bytes of two at best */
        return LS_FAIL(err, LS_ERR_FORMAT, "the TIFF image says it holds more than its file can");
    }
    uint8_t *stored = ls_alloc(heap, line * height), *rgb = ls_alloc(heap, pixels * 3);
    bool whole = stored && rgb;
    for (uint32_t y = 0, i = 0; whole && y < height; i++) {
        uint32_t count = rows < height - y ? rows : height - y;
        size_t at = FIELD(STRIPS, i, UINT32_MAX), length = FIELD(STRIP_BYTES, i, 0);
        whole = at <= size && length <= size - at && read_strip(f.bytes + at, length, compression != 1, stored + y * line, count * line);
        y += count;
    }
#undef FIELD
    for (size_t i = 0; whole && i < pixels; i++) {
        for (size_t c = 0; c < 3; c++) {
            uint8_t v = stored[i * samples + (samples > 1 ? c : 0)];
            rgb[3 * i + c] = photometric == 0 ? 255 - v : v; /* 0: white is zero */
        }
    }
    bool memory = stored && rgb;
    ls_free(heap, stored);
    if (!whole) {
        ls_free(heap, rgb);
        return memory ? LS_FAIL(err, LS_ERR_FORMAT, "a strip of the TIFF image is damaged or lies outside of the file")
                      : LS_FAIL_MEMORY(err, "a TIFF image");
    }
    out_dims[0] = height;
    out_dims[1] = width;
    *out_pixels = rgb;
    return LS_OK;
}
