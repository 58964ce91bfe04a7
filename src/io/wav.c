/* RIFF WAVE: chunks, of which "fmt " says what the samples are and "data" has them. Nothing in a file is trusted: every length is held to what
 * is left of it. */
#include "base/os.h"
#include "base/status.h"
#include <lockstep/io.h>
#include <string.h>

enum { PCM = 1, FLOATS = 3, EXTENSIBLE = 0xfffe, MOST_CHANNELS = 64 };

typedef struct wav {
    const char *path;
    const uint8_t *at, *end; /* what is left */
    int kind, channels, rate, bits;
    const uint8_t *samples;
    size_t size;
} wav;

static uint32_t little(const uint8_t *p, int bytes) {
    uint32_t x = 0;
    for (int i = bytes; i-- > 0;) {
        x = x << 8 | p[i];
    }
    return x;
}

/* WAVE_FORMAT_EXTENSIBLE has the kind in a GUID, of which the rest is this. */
static bool read_kind(wav *w, const uint8_t *p, size_t size) {
    static const uint8_t rest[14] = {0, 0, 0, 0, 0x10, 0, 0x80, 0, 0, 0xaa, 0, 0x38, 0x9b, 0x71};
    w->kind = (int)little(p, 2);
    if (w->kind != EXTENSIBLE) {
        return true;
    }
    if (size < 40 || memcmp(p + 26, rest, sizeof rest) != 0) {
        return false;
    }
    w->kind = (int)little(p + 24, 2);
    return true;
}

static ls_status read_format(wav *w, const uint8_t *p, size_t size, ls_error *err) {
    if (size < 16 || !read_kind(w, p, size)) {
        return LS_FAIL(err, LS_ERR_FORMAT, "%s: its \"fmt \" chunk of %zu bytes describes no samples", w->path, size);
    }
    uint32_t rate = little(p + 4, 4);
    w->channels = (int)little(p + 2, 2);
    w->bits = (int)little(p + 14, 2);
    bool whole = w->kind == PCM && (w->bits == 8 || w->bits == 16 || w->bits == 24 || w->bits == 32);
    if (!whole && !(w->kind == FLOATS && (w->bits == 32 || w->bits == 64))) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "%s: samples of format %d with %d bits: expected PCM of 8, 16, 24 or 32 bits, or floats of 32 or 64", w->path,
                       w->kind, w->bits);
    }
    if (w->channels < 1 || w->channels > MOST_CHANNELS || rate < 1 || rate > INT32_MAX || (int)little(p + 12, 2) != w->channels * w->bits / 8) {
        return LS_FAIL(err, LS_ERR_FORMAT, "%s: %d channels, %u samples a second and %u bytes for each: expected 1 to %d channels and as many bytes as they have", w->path,
                       w->channels, (unsigned)rate, (unsigned)little(p + 12, 2), MOST_CHANNELS);
    }
    w->rate = (int)rate;
    return LS_OK;
}

static ls_status read_samples(wav *w, const uint8_t *p, size_t size, ls_error *err) {
    size_t frame = (size_t)(w->channels * w->bits / 8);
    if (!w->channels) {
        return LS_FAIL(err, LS_ERR_FORMAT, "%s: its samples come before the \"fmt \" chunk that describes them", w->path);
    }
    if (size % frame) {
        return LS_FAIL(err, LS_ERR_FORMAT, "%s: %zu bytes of samples are no whole number of %zu", w->path, size, frame);
    }
    w->samples = p;
    w->size = size;
    return LS_OK;
}

static ls_status read_chunks(wav *w, ls_error *err) {
    if (w->end - w->at < 12 || memcmp(w->at, "RIFF", 4) != 0 || memcmp(w->at + 8, "WAVE", 4) != 0) {
        return LS_FAIL(err, LS_ERR_FORMAT, "%s: no WAVE file: it does not begin with RIFF....WAVE", w->path);
    }
    w->at += 12;
    while (!w->samples) {
        size_t left = (size_t)(w->end - w->at), size = left >= 8 ? little(w->at + 4, 4) : 0;
        const uint8_t *name = w->at, *p = w->at + 8;
        if (left < 8) {
            return LS_FAIL(err, LS_ERR_FORMAT, "%s: it ends before its samples", w->path);
        }
        bool data = memcmp(name, "data", 4) == 0;
        size = data && size == UINT32_MAX ? left - 8 : size; /* written to a pipe: nobody knew */
        if (size > left - 8) {
            return LS_FAIL(err, LS_ERR_FORMAT, "%s: chunk \"%.4s\" has %zu bytes, of which %zu are there", w->path, data ? "data" : memcmp(name, "fmt ", 4) ? "...." : "fmt ",
                           size, left - 8);
        }
        if (memcmp(name, "fmt ", 4) == 0) {
            LS_TRY(err, read_format(w, p, size, err));
        } else if (data) {
            LS_TRY(err, read_samples(w, p, size, err));
        }
        w->at = p + size + (size % 2 && size < left - 8);
    }
    return LS_OK;
}

/* One sample: whole numbers over the largest magnitude, 2^(bits-1), those of 8 bits around 128; rounded once. */
static float sample(const wav *w, const uint8_t *p) {
    if (w->kind == FLOATS) {
        uint64_t bits = little(p, 4);
        float x;
        double y;
        if (w->bits == 32) {
            uint32_t low = (uint32_t)bits;
            memcpy(&x, &low, sizeof x);
            return x;
        }
        bits |= (uint64_t)little(p + 4, 4) << 32;
        memcpy(&y, &bits, sizeof y);
        return (float)y;
    }
    uint32_t x = little(p, w->bits / 8) << (32 - w->bits);
    x = w->bits == 8 ? x ^ UINT32_C(0x80000000) : x;
    return (float)(x & UINT32_C(0x80000000) ? (double)x - 0x1p32 : (double)x) * 0x1p-31f;
}

ls_status ls_wav_load(ls_context *context, const char *path, ls_data **out_data, int *out_rate, ls_error *err) {
    ls_mapping map;
    ls_data *data = NULL;
    LS_TRY(err, ls_file_map(path, &map, err));
    wav w = {.path = path, .at = map.data, .end = map.data ? map.data + map.size : NULL};
    ls_status status = read_chunks(&w, err);
    size_t each = status == LS_OK ? (size_t)w.bits / 8 : 1, n = w.size / each;
    if (status == LS_OK) {
        const int64_t dims[2] = {(int64_t)n / w.channels, w.channels};
        status = ls_data_create(context, LS_F32, 2, dims, NULL, &data, err);
    }
    float *x = status == LS_OK ? (float *)ls_data_bytes(data) : NULL;
    for (size_t i = 0; x && i < n; i++) {
        x[i] = sample(&w, w.samples + i * each);
    }
    ls_file_unmap(&map);
    if (status == LS_OK) {
        *out_data = data;
        *out_rate = w.rate;
    }
    return status;
}
