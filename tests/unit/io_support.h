/* What the tests of files share: a context, a scratch folder, whole files, arrays of every dtype. */
#ifndef LOCKSTEP_TESTS_UNIT_IO_SUPPORT_H
#define LOCKSTEP_TESTS_UNIT_IO_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include <lockstep/io.h>
#include <lockstep/verify.h>

static ls_context *context;
static char folder[64];

static inline int files_setup(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s/lockstep-io-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"); /* in memory if we can */
    return mkdtemp(folder) && ls_context_create(NULL, &context, NULL) == LS_OK ? 0 : -1;
}

static inline int files_teardown(void **state) {
    (void)state;
    char command[128];
    ls_context_destroy(context);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* A path in the scratch folder; one of four buffers in turn. */
static inline const char *in_folder(const char *name) {
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static inline void write_bytes(const char *path, const void *bytes, size_t size) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* A whole file; the caller frees it. */
static inline uint8_t *read_bytes(const char *path, size_t *out_size) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    uint8_t *bytes = malloc(1 << 20);
    *out_size = fread(bytes, 1, 1 << 20, f);
    assert_true(*out_size < 1 << 20);
    fclose(f);
    return bytes;
}

/* Bytes that are different everywhere; 0 and 1 for bools. */
static inline ls_data *pattern(ls_dtype dtype, int rank, const int64_t *dims) {
    size_t n = ls_dtype_size(dtype);
    for (int i = 0; i < rank; i++) {
        n *= (size_t)dims[i];
    }
    uint8_t *bytes = malloc(n + 1);
    for (size_t i = 0; i < n; i++) {
        bytes[i] = dtype == LS_BOOL ? i % 3 == 1 : (uint8_t)(i * 37 + 11 + (i >> 8));
    }
    ls_data *data = NULL;
    assert_int_equal(ls_data_create(context, dtype, rank, dims, bytes, &data, NULL), LS_OK);
    free(bytes);
    return data;
}

static inline void assert_same_bytes(const ls_data *a, const ls_data *b) {
    assert_int_equal(ls_data_dtype(a), ls_data_dtype(b));
    assert_int_equal(ls_data_rank(a), ls_data_rank(b));
    for (int i = 0; i < ls_data_rank(a); i++) {
        assert_int_equal(ls_data_dims(a)[i], ls_data_dims(b)[i]);
    }
    assert_memory_equal(ls_data_bytes(a), ls_data_bytes(b), ls_data_size(a));
}

/* A failure whose message holds every one of the parts (ending in NULL). */
static inline void assert_message(ls_status got, ls_status want, const ls_error *err, ...) {
    va_list parts;
    if (got != want) {
        fail_msg("%s instead of %s: %s", ls_status_name(got), ls_status_name(want), err->message);
    }
    va_start(parts, err);
    for (const char *part = va_arg(parts, const char *); part; part = va_arg(parts, const char *)) {
        if (!strstr(err->message, part)) {
            fail_msg("\"%s\" does not mention \"%s\"", err->message, part);
        }
    }
    va_end(parts);
}

#endif
