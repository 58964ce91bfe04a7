/* WAVE files: every encoding, and everything that may be wrong with one. */
#define _GNU_SOURCE
#include "io_support.h"
#include "base/rng.h"

enum { PCM = 1, FLOATS = 3, EXTENSIBLE = 0xfffe };

typedef struct file {
    uint8_t bytes[512];
    size_t size;
} file;

static void put(file *f, const void *bytes, size_t n) {
    assert_true(f->size + n <= sizeof f->bytes);
    memcpy(f->bytes + f->size, bytes, n);
    f->size += n;
}
static void put_number(file *f, uint64_t x, int bytes) {
    for (int i = 0; i < bytes; i++) {
        put(f, &(uint8_t){(uint8_t)(x >> (8 * i))}, 1);
    }
}

static void begin(file *f) {
    f->size = 0;
    put(f, "RIFF\0\0\0\0WAVE", 12);
}
static void chunk(file *f, const char *name, uint32_t size) {
    put(f, name, 4);
    put_number(f, size, 4);
}
static void format(file *f, int kind, int channels, uint32_t rate, int bits) {
    chunk(f, "fmt ", kind == EXTENSIBLE ? 40 : 16);
    put_number(f, (uint64_t)kind, 2);
    put_number(f, (uint64_t)channels, 2);
    put_number(f, rate, 4);
    put_number(f, rate * (uint32_t)(channels * bits / 8), 4);
    put_number(f, (uint64_t)(channels * bits / 8), 2);
    put_number(f, (uint64_t)bits, 2);
}
static file whole(int kind, int channels, int bits, const void *samples, size_t size) {
    file f;
    begin(&f);
    format(&f, kind, channels, 16000, bits);
    chunk(&f, "data", (uint32_t)size);
    put(&f, samples, size);
    return f;
}

static ls_status load(const file *f, ls_data **out, int *out_rate, ls_error *err) {
    const char *path = in_folder("t.wav");
    *out = NULL;
    *err = (ls_error){.code = LS_OK};
    write_bytes(path, f->bytes, f->size);
    ls_status status = ls_wav_load(context, path, out, out_rate, err);
    if (status != LS_OK && (!strstr(err->message, path) || *out)) {
        fail_msg("\"%s\" does not name the file", err->message);
    }
    return status;
}

static void holds(const file *f, int64_t frames, int64_t channels, const float *want) {
    ls_data *x;
    ls_error err;
    int rate = 0;
    if (load(f, &x, &rate, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(rate, 16000);
    assert_int_equal(ls_data_dtype(x), LS_F32);
    assert_int_equal(ls_data_dims(x)[0], frames);
    assert_int_equal(ls_data_dims(x)[1], channels);
    assert_memory_equal(ls_data_bytes(x), want, sizeof *want * (size_t)(frames * channels));
    ls_data_release(x);
}

static void is_refused(const file *f, ls_status code, const char *says) {
    ls_data *x;
    ls_error err;
    int rate;
    ls_status status = load(f, &x, &rate, &err);
    ls_data_release(x);
    if (status != code || !strstr(err.message, says)) {
        fail_msg("status %d, \"%s\": expected %d and \"%s\"", (int)status, err.message, (int)code, says);
    }
}

static void test_encodings(void **state) {
    (void)state;
    file f = whole(PCM, 1, 8, "\0\100\200\377", 4);
    holds(&f, 4, 1, (const float[]){-1, -0.5f, 0, 127 / 128.0f});
    f = whole(PCM, 2, 16, "\0\200\377\177\1\0\377\377", 8);
    holds(&f, 2, 2, (const float[]){-1, 32767 / 32768.0f, 1 / 32768.0f, -1 / 32768.0f});
    f = whole(PCM, 1, 24, "\0\0\200\377\377\177\1\0\0\377\377\377", 12);
    holds(&f, 4, 1, (const float[]){-1, 8388607 / 8388608.0f, 0x1p-23f, -0x1p-23f});
    f = whole(PCM, 1, 32, "\0\0\0\200\377\377\377\177\1\0\0\0", 12);
    holds(&f, 3, 1, (const float[]){-1, 1, 0x1p-31f}); /* the largest is rounded up, once */
    const float x[3] = {0.1f, -2.5f, __builtin_inff()};
    f = whole(FLOATS, 3, 32, x, sizeof x);
    holds(&f, 1, 3, x);
    const double y[2] = {0.1, 1 + 0x1p-24 + 0x1p-50};
    f = whole(FLOATS, 1, 64, y, sizeof y);
    holds(&f, 2, 1, (const float[]){0.1f, 1 + 0x1p-23f});
}

static void put_extension(file *f, int kind, const char *guid) {
    put_number(f, 22, 2);
    put_number(f, 16, 2);
    put_number(f, 0, 4);
    put_number(f, (uint64_t)kind, 2);
    put(f, guid, 14);
}

static void test_chunks(void **state) {
    (void)state;
    static const char guid[] = "\0\0\0\0\20\0\200\0\0\252\0\70\233\161";
    const float half[1] = {0.5f};
    file f;
    for (int good = 0; good < 2; good++) {
        begin(&f);
        format(&f, EXTENSIBLE, 1, 16000, 16);
        put_extension(&f, PCM, good ? guid : "something else");
        chunk(&f, "data", 2);
        put(&f, "\0\100", 2);
        if (good) {
            holds(&f, 1, 1, half);
        } else {
            is_refused(&f, LS_ERR_FORMAT, "describes no samples");
        }
    }
    begin(&f);
    chunk(&f, "LIST", 3); /* of odd length: a byte of padding */
    put(&f, "abc", 4);
    format(&f, PCM, 1, 16000, 16);
    chunk(&f, "data", 2);
    put(&f, "\0\100", 2);
    chunk(&f, "LIST", 77); /* what comes after the samples does not matter */
    holds(&f, 1, 1, half);
    begin(&f);
    format(&f, PCM, 1, 16000, 16);
    chunk(&f, "data", UINT32_MAX); /* as pipes have it */
    put(&f, "\0\100\0\100", 4);
    holds(&f, 2, 1, (const float[]){0.5f, 0.5f});
    f = whole(PCM, 1, 16, "", 0);
    holds(&f, 0, 1, half);
}

static void test_refused(void **state) {
    (void)state;
    file f = whole(PCM, 1, 12, "abcd", 4);
    is_refused(&f, LS_ERR_UNSUPPORTED, "12 bits");
    f = whole(FLOATS, 1, 16, "abcd", 4);
    is_refused(&f, LS_ERR_UNSUPPORTED, "format 3 with 16 bits");
    f = whole(7, 1, 8, "abcd", 4); /* mu-law */
    is_refused(&f, LS_ERR_UNSUPPORTED, "format 7");
    f = whole(PCM, 0, 16, "abcd", 4);
    is_refused(&f, LS_ERR_FORMAT, "0 channels");
    f = whole(PCM, 65, 8, "abcd", 4);
    is_refused(&f, LS_ERR_FORMAT, "65 channels");
    f = whole(PCM, 2, 16, "abcdef", 6);
    is_refused(&f, LS_ERR_FORMAT, "6 bytes of samples are no whole number of 4");
    f = whole(PCM, 1, 16, "abcd", 4);
    f.bytes[24] = f.bytes[25] = 0; /* the rate */
    is_refused(&f, LS_ERR_FORMAT, "0 samples a second");
    f = whole(PCM, 1, 16, "abcd", 4);
    f.bytes[32] = 4; /* the bytes of a frame */
    is_refused(&f, LS_ERR_FORMAT, "4 bytes for each");
    f = whole(PCM, 1, 16, "abcd", 4);
    memset(f.bytes + 40, 0xfe, 4); /* far more samples than there are */
    is_refused(&f, LS_ERR_FORMAT, "of which 4 are there");
    f = whole(PCM, 1, 16, "abcd", 4);
    memcpy(f.bytes, "RIFX", 4);
    is_refused(&f, LS_ERR_FORMAT, "no WAVE file");
    begin(&f);
    chunk(&f, "data", 4);
    put(&f, "abcd", 4);
    is_refused(&f, LS_ERR_FORMAT, "before the \"fmt \" chunk");
    begin(&f);
    chunk(&f, "fmt ", 15);
    put(&f, "0123456789abcdef", 16);
    is_refused(&f, LS_ERR_FORMAT, "15 bytes");
    f.size = 0;
    is_refused(&f, LS_ERR_FORMAT, "no WAVE file");
}

static void test_truncated(void **state) {
    (void)state;
    const file f = whole(PCM, 2, 16, "abcdefgh", 8);
    for (size_t n = 0; n < f.size; n++) {
        file cut = f;
        cut.size = n;
        is_refused(&cut, LS_ERR_FORMAT, "");
    }
}

/* Files with a few bytes changed are read or refused, and nothing is kept of them. */
static void test_mutated(void **state) {
    (void)state;
    const file f = whole(PCM, 2, 16, "abcdefgh", 8);
    ls_rng rng = {ls_rng_key(21, 0), 0};
    int refused = 0, accepted = 0;
    size_t before, after, peak;
    ls_context_memory(context, &before, &peak);
    for (int i = 0; i < 3000; i++) {
        file copy = f;
        ls_data *x;
        ls_error err;
        int rate;
        for (uint64_t n = ls_rng_below(&rng, 3) + 1; n > 0; n--) {
            copy.bytes[ls_rng_below(&rng, copy.size)] = (uint8_t)ls_rng_u32(&rng);
        }
        *(load(&copy, &x, &rate, &err) == LS_OK ? &accepted : &refused) += 1;
        ls_data_release(x);
    }
    ls_context_memory(context, &after, &peak);
    assert_int_equal(before, after);
    assert_true(refused > 500 && accepted > 500);
}

static void test_missing(void **state) {
    (void)state;
    ls_data *x = NULL;
    ls_error err = {.code = LS_OK};
    int rate;
    assert_int_equal(ls_wav_load(context, in_folder("none.wav"), &x, &rate, &err), LS_ERR_IO);
    assert_non_null(strstr(err.message, "none.wav"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encodings), cmocka_unit_test(test_chunks),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_truncated), cmocka_unit_test(test_mutated), cmocka_unit_test(test_missing),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
