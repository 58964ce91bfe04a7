/* Arrays on the host, the data sets and the loader. */
#define _GNU_SOURCE
#include "io_support.h"
#include "base/alloc.h"
#include <fenv.h>
#include <sys/stat.h>
#include <zlib.h>

static void test_data_basics(void **state) {
    (void)state;
    const int64_t dims[] = {2, 3}, bad[] = {2, -1}, huge[] = {INT64_C(1) << 40, INT64_C(1) << 40};
    ls_data *x = NULL;
    ls_error err = {.code = LS_OK};
    assert_int_equal(ls_data_create(context, LS_I16, 2, dims, NULL, &x, &err), LS_OK);
    assert_int_equal(ls_data_numel(x), 6);
    assert_int_equal(ls_data_size(x), 12);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(((const int16_t *)ls_data_bytes(x))[i], 0);
    }
    assert_ptr_equal(ls_data_retain(x), x);
    ls_data_release(x);
    ls_data_release(x);
    ls_data_release(NULL);
    assert_null(ls_data_retain(NULL));
    ls_dataset_release(NULL);
    assert_int_equal(ls_data_create(context, LS_F32, 2, bad, NULL, &x, &err), LS_ERR_SHAPE);
    assert_int_equal(ls_data_create(context, LS_F32, 2, huge, NULL, &x, NULL), LS_ERR_SHAPE);
    assert_int_equal(ls_data_create(context, LS_F32, 9, dims, NULL, &x, NULL), LS_ERR_SHAPE);
    assert_int_equal(ls_data_create(context, LS_DTYPE_COUNT, 1, dims, NULL, &x, NULL), LS_ERR_SHAPE);
}

static void count_drop(void *owner) {
    ++*(int *)owner;
}

static void test_data_wrap(void **state) {
    (void)state;
    static const float values[] = {1, 2, 3};
    int drops = 0;
    ls_data *x = NULL;
    assert_int_equal(
        ls_data_wrap(context, LS_F32, 1, (const int64_t[]){3}, values, count_drop, &drops, &x, NULL), LS_OK);
    assert_ptr_equal(ls_data_bytes(x), values);
    ls_data_retain(x);
    ls_data_release(x);
    assert_int_equal(drops, 0);
    ls_data_release(x);
    assert_int_equal(drops, 1);
}

static void test_data_sha256(void **state) {
    (void)state;
    static const uint32_t odd[] = {0x7f800001, 0xffc00000}, canonical[] = {0x7fc00000, 0x7fc00000};
    char a[65], b[65];
    ls_data *x = NULL, *y = NULL;
    assert_int_equal(ls_data_create(context, LS_F32, 1, (const int64_t[]){2}, odd, &x, NULL), LS_OK);
    assert_int_equal(ls_data_create(context, LS_F32, 1, (const int64_t[]){2}, canonical, &y, NULL), LS_OK);
    ls_data_sha256(x, a);
    ls_data_sha256(y, b);
    assert_string_equal(a, b);
    ls_data_release(x);
    ls_data_release(y);
    assert_int_equal(ls_data_create(context, LS_U8, 1, (const int64_t[]){3}, "abc", &x, NULL), LS_OK);
    ls_data_sha256(x, a);
    assert_string_equal(
        a, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"); /* FIPS 180's example */
    ls_data_release(x);
}

/* ---- the digits ---- */

static void assert_sha(const ls_data *data, const char *want) {
    char hex[65];
    ls_data_sha256(data, hex);
    assert_string_equal(hex, want);
}

static void test_digits(void **state) {
    (void)state;
    if (access("build/data/digits/9.json", R_OK) != 0) {
        print_message("skipped: no build/data/digits: run \"make data\"\n");
        skip();
    }
    ls_dataset train, test;
    ls_error err = {.code = LS_OK};
    if (ls_dataset_digits(context, "build/data/digits", &train, &test, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(ls_data_dims(train.images)[0], 9000);
    assert_int_equal(ls_data_numel(train.images), 9000 * 784);
    assert_int_equal(ls_data_numel(train.labels), 9000);
    assert_int_equal(ls_data_numel(test.images), 1000 * 784);
    assert_int_equal(ls_data_numel(test.labels), 1000);
    assert_sha(train.images, "31602aebbef38a6776ca8519deb157aa9da9914266a5ce7188f28eded03e9d77");
    assert_sha(train.labels, "808588b024d857b639a56a69f9f8be1b033e240afd096932ecd1251a1111bb13");
    assert_sha(test.images, "4462bfd10abcbc8bfcf1c48492c2d8d1d4aa43654f7435779165e92a0f64100f");
    assert_sha(test.labels, "ddf22349c86fc5d10372fe99c5d3b244d31e1ec6c1913b1b35befeb1faed30ab");
    int of_class[10] = {0};
    for (int i = 0; i < 10000; i++) {
        const ls_data *labels = i < 9000 ? train.labels : test.labels;
        of_class[((const uint8_t *)ls_data_bytes(labels))[i < 9000 ? i : i - 9000]]++;
    }
    static const int classes[10] = {1001, 1127, 991, 1032, 980, 863, 1014, 1070, 944, 978};
    assert_memory_equal(of_class, classes, sizeof classes);
    ls_dataset_release(&train);
    ls_dataset_release(&test);
}

static void digits_fail(const char *text, const char *says) {
    ls_dataset train = {NULL, NULL}, test = {NULL, NULL};
    ls_error err = {.code = LS_OK};
    mkdir(in_folder("digits"), 0777);
    write_bytes(in_folder("digits/0.json"), text, strlen(text));
    assert_message(ls_dataset_digits(context, in_folder("digits"), &train, &test, &err), LS_ERR_FORMAT, &err,
                   "digits/0.json", says, NULL);
    assert_null(train.images);
}

static void test_bad_digits(void **state) {
    (void)state;
    digits_fail("", "at byte 0: expected {\"data\":[");
    digits_fail("{\"data\":[]}", "at byte 9: expected a pixel");
    digits_fail("{\"data\":[0.5,1.5]}", "expected a pixel");
    digits_fail("{\"data\":[0.5,-1]}", "expected a pixel");
    digits_fail("{\"data\":[0.5,0.25", "expected \",\"");
    digits_fail("{\"data\":[0.5,0.25]}", "2 pixels: expected a multiple of 784");
    ls_dataset train, test;
    ls_error err = {.code = LS_OK};
    assert_message(ls_dataset_digits(context, in_folder("none"), &train, &test, &err), LS_ERR_IO, &err,
                   "none/0.json", NULL);
}

/* ---- IDX folders ---- */

static void idx_part(const char *name, int n, int rank3, bool gz) {
    uint8_t bytes[256] = {0, 0, 8, (uint8_t)(rank3 ? 3 : 1), 0, 0, 0, (uint8_t)n, 0, 0, 0, 2, 0, 0, 0, 3};
    size_t head = rank3 ? 16 : 8, size = head + (size_t)(rank3 ? n * 6 : n);
    for (size_t i = head; i < size; i++) {
        bytes[i] = (uint8_t)(i - head);
    }
    char path[400];
    snprintf(path, sizeof path, "%s/idx/%s%s", folder, name, gz ? ".gz" : "");
    gzFile f = gzopen(path, gz ? "wb" : "wbT");
    assert_int_equal(gzwrite(f, bytes, (unsigned)size), (int)size);
    gzclose(f);
}

static void test_idx_folder(void **state) {
    (void)state;
    ls_dataset train = {NULL, NULL}, test = {NULL, NULL};
    ls_error err = {.code = LS_OK};
    assert_int_equal(mkdir(in_folder("idx"), 0777), 0);
    idx_part("train-images-idx3-ubyte", 5, 1, false);
    idx_part("train-labels-idx1-ubyte", 5, 0, true);
    idx_part("t10k-images-idx3-ubyte", 4, 1, true);
    assert_message(ls_dataset_idx(context, in_folder("idx"), &train, &test, &err), LS_ERR_IO, &err,
                   "t10k-labels-idx1-ubyte", NULL);
    ls_error_clear(&err);
    idx_part("t10k-labels-idx1-ubyte", 3, 0, false);
    assert_message(ls_dataset_idx(context, in_folder("idx"), &train, &test, &err), LS_ERR_FORMAT, &err,
                   "as many u8 labels", NULL);
    ls_error_clear(&err);
    idx_part("t10k-labels-idx1-ubyte", 4, 0, false);
    if (ls_dataset_idx(context, in_folder("idx"), &train, &test, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(ls_data_dims(train.images)[0], 5);
    assert_int_equal(ls_data_dims(test.images)[2], 3);
    assert_int_equal(((const uint8_t *)ls_data_bytes(test.images))[23], 23);
    ls_dataset_release(&train);
    ls_dataset_release(&test);
    assert_null(train.images);
    assert_int_equal(truncate(in_folder("idx/t10k-images-idx3-ubyte.gz"), 30), 0);
    assert_message(ls_dataset_idx(context, in_folder("idx"), &train, &test, &err), LS_ERR_FORMAT, &err,
                   "t10k-images-idx3-ubyte.gz", NULL);
}

/* ---- the loader ---- */

enum { N = 11, PIXELS = 6 };

/* Image i holds i in its first pixel and in its label. */
static ls_dataset small_set(void) {
    uint8_t images[N * PIXELS], labels[N];
    ls_dataset set = {NULL, NULL};
    for (int i = 0; i < N * PIXELS; i++) {
        images[i] = (uint8_t)(i % PIXELS ? i * 5 : i / PIXELS);
    }
    for (int i = 0; i < N; i++) {
        labels[i] = (uint8_t)i;
    }
    assert_int_equal(ls_data_create(context, LS_U8, 3, (const int64_t[]){N, 2, 3}, images, &set.images, NULL),
                     LS_OK);
    assert_int_equal(ls_data_create(context, LS_U8, 1, (const int64_t[]){N}, labels, &set.labels, NULL),
                     LS_OK);
    return set;
}

static ls_loader *loader_of(const ls_dataset *set, int64_t batch, uint64_t seed, int drop_last) {
    ls_loader *loader = NULL;
    assert_int_equal(ls_loader_create(context, set, batch, seed, drop_last, &loader, NULL), LS_OK);
    return loader;
}

static void epoch_of(ls_loader *loader, int64_t epoch, int64_t batch, int32_t *out_labels) {
    float images[N * PIXELS];
    for (int64_t b = 0; b < ls_loader_batches(loader); b++) {
        int64_t n = ls_loader_get(loader, epoch, b, 0, 1, images, out_labels + b * batch);
        for (int64_t i = 0; i < n; i++) {
            assert_true(images[i * PIXELS] ==
                        (float)out_labels[b * batch + i] / 255); /* image and label go together */
        }
    }
}

static void test_loader_order(void **state) {
    (void)state;
    ls_dataset set = small_set();
    ls_loader *four = loader_of(&set, 4, 3, 0), *three = loader_of(&set, 3, 3, 0),
              *other = loader_of(&set, 4, 4, 0);
    int32_t a[N + 4], b[N + 4], seen[N] = {0};
    assert_int_equal(ls_loader_batches(four), 3);
    epoch_of(four, 2, 4, a);
    epoch_of(four, 7, 4, b);
    assert_memory_not_equal(a, b, N * 4); /* another epoch */
    epoch_of(three, 2, 3, b);
    assert_memory_equal(a, b, N * 4); /* whatever came before, whatever the batch */
    epoch_of(other, 2, 4, b);
    assert_memory_not_equal(a, b, N * 4); /* another seed */
    for (int i = 0; i < N; i++) {
        seen[a[i]]++;
    }
    for (int i = 0; i < N; i++) {
        assert_int_equal(seen[i], 1);
    }
    float images[N * PIXELS], again[N * PIXELS];
    int32_t last[4];
    assert_int_equal(ls_loader_get(four, 2, 2, 0.5f, 0.25f, images, last), 3); /* any batch in any order */
    assert_memory_equal(last, a + 8, 12);
    assert_true(images[0] == ((float)last[0] / 255 - 0.5f) / 0.25f);
    assert_int_equal(ls_loader_get(four, 2, 3, 0, 1, images, last), 0);
    assert_int_equal(ls_loader_get(four, 2, -1, 0, 1, images, last), 0);
    assert_int_equal(ls_loader_get(four, 0, 0, 0.1307f, 0.3081f, images, last), 4);
    fesetround(FE_UPWARD);
    assert_int_equal(ls_loader_get(four, 0, 0, 0.1307f, 0.3081f, again, last), 4);
    fesetround(FE_TONEAREST);
    assert_memory_equal(images, again, 4 * PIXELS * sizeof *images);
    ls_loader_destroy(three);
    ls_loader_destroy(other);
    ls_loader_destroy(four);
    ls_dataset_release(&set);
}

static void test_loader_batches(void **state) {
    (void)state;
    ls_dataset set = small_set(), mixed = {set.labels, set.images};
    ls_loader *loader = loader_of(&set, 4, 0, 1);
    float images[N * PIXELS];
    int32_t labels[N];
    assert_int_equal(ls_loader_batches(loader), 2);
    assert_int_equal(ls_loader_get(loader, 0, 2, 0, 1, images, labels), 0);
    ls_loader_destroy(loader);
    loader = loader_of(&set, INT64_MAX, 0, 0);
    assert_int_equal(ls_loader_batches(loader), 1);
    ls_dataset_release(&set); /* the loader retains the data */
    assert_int_equal(ls_loader_get(loader, 0, 0, 0, 1, images, labels), N);
    ls_loader_destroy(loader);
    set = small_set();
    mixed = (ls_dataset){set.labels, set.images};
    assert_int_equal(ls_loader_create(context, &set, 0, 0, 0, &loader, NULL), LS_ERR_INVALID);
    assert_int_equal(ls_loader_create(context, &set, N + 1, 0, 1, &loader, NULL), LS_ERR_INVALID);
    assert_int_equal(ls_loader_create(context, &mixed, 2, 0, 1, &loader, NULL), LS_ERR_SHAPE);
    ls_dataset_release(&set);
}

static void test_failing_allocations(void **state) {
    (void)state;
    ls_heap *heap = ls_context_heap(context);
    ls_dataset set = small_set();
    size_t used = atomic_load(&heap->used);
    bool done = false;
    for (long n = 0; n < 50 && !done; n++) {
        ls_loader *loader = NULL;
        ls_error err = {.code = LS_OK};
        atomic_store(&heap->fail_after, n);
        ls_status status = ls_loader_create(context, &set, 2, 0, 0, &loader, &err);
        atomic_store(&heap->fail_after, -1);
        done = status == LS_OK;
        assert_true(done || (status == LS_ERR_MEMORY && err.message[0]));
        ls_loader_destroy(loader);
        assert_int_equal(atomic_load(&heap->used), used);
    }
    assert_true(done);
    ls_dataset_release(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data_basics),         cmocka_unit_test(test_data_wrap),
        cmocka_unit_test(test_data_sha256),         cmocka_unit_test(test_digits),
        cmocka_unit_test(test_bad_digits),          cmocka_unit_test(test_idx_folder),
        cmocka_unit_test(test_loader_order),        cmocka_unit_test(test_loader_batches),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
