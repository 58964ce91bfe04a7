/* Files of arrays as they should be: round trips, other writers' layouts, checksums, atomic saves. */
#define _GNU_SOURCE
#include "io_support.h"
#include "base/alloc.h"
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <zlib.h>

/* Every dtype at every rank from 0 to 8, with extents of 1 to 3, and shapes without elements. */
enum { N_SHAPES = 13 };
static const struct {
    int rank;
    int64_t dims[LS_MAX_RANK];
} shapes[N_SHAPES] = {{0, {0}},
                      {1, {5}},
                      {2, {2, 3}},
                      {3, {3, 1, 2}},
                      {4, {2, 2, 1, 3}},
                      {5, {1, 2, 2, 1, 2}},
                      {6, {2, 1, 2, 1, 2, 1}},
                      {7, {1, 1, 3, 1, 2, 1, 1}},
                      {8, {2, 1, 2, 1, 2, 1, 2, 1}},
                      {1, {0}},
                      {3, {2, 0, 3}},
                      {8, {0, 1, 2, 3, 0, 5, 6, 7}},
                      {2, {7, 513}}};

static void test_npy_round_trip(void **state) {
    (void)state;
    int cases = 0;
    for (int d = 0; d < LS_DTYPE_COUNT; d++) {
        for (int i = 0; i < N_SHAPES; i++) {
            ls_data *x = pattern((ls_dtype)d, shapes[i].rank, shapes[i].dims), *y = NULL;
            ls_error err = {.code = LS_OK};
            assert_int_equal(ls_npy_save(context, in_folder("x.npy"), x, &err), LS_OK);
            assert_int_equal(ls_npy_load(context, in_folder("x.npy"), &y, &err), LS_OK);
            assert_same_bytes(x, y);
            ls_data_release(x);
            ls_data_release(y);
            cases++;
        }
    }
    assert_int_equal(cases, 13 * N_SHAPES);
}

/* All arrays of all dtypes and shapes in one file. */
static void archive_round_trip(const char *path,
                               ls_status (*save)(const char *path, int n, const ls_named_data *arrays)) {
    enum { N = LS_DTYPE_COUNT * N_SHAPES };
    static char names[N][64];
    ls_named_data arrays[N];
    for (int i = 0; i < N; i++) { /* not in the order of their names */
        snprintf(names[i], sizeof names[i], "%c.\"%s\"\\%d.caf\xc3\xa9", 'a' + i * 7 % 26,
                 ls_dtype_name((ls_dtype)(i / N_SHAPES)), i);
        arrays[i] = (ls_named_data){names[i], pattern((ls_dtype)(i / N_SHAPES), shapes[i % N_SHAPES].rank,
                                                      shapes[i % N_SHAPES].dims)};
    }
    assert_int_equal(save(path, N, arrays), LS_OK);
    ls_archive *a = NULL;
    ls_error err = {.code = LS_OK};
    if (ls_archive_open(context, path, &a, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(ls_archive_count(a), N);
    ls_data *kept = NULL;
    for (int i = 0; i < N; i++) {
        ls_data *x = NULL;
        assert_int_equal(ls_archive_get(a, names[i], &x, &err), LS_OK);
        assert_same_bytes(arrays[i].data, x);
        ls_data_release(kept);
        kept = x;
    }
    ls_data *none = NULL;
    assert_message(ls_archive_get(a, "missing", &none, &err), LS_ERR_INVALID, &err, path, "\"missing\"",
                   "169", NULL);
    ls_error_clear(&err);
    assert_message(ls_archive_get_at(a, N, &none, &err), LS_ERR_INVALID, &err, path, "169", NULL);
    assert_null(ls_archive_name(a, -1));
    assert_null(ls_archive_name(a, N));
    ls_archive_close(a);
    assert_same_bytes(arrays[N - 1].data, kept); /* an array outlives its archive */
    ls_data_release(kept);
    for (int i = 0; i < N; i++) {
        ls_data_release((ls_data *)arrays[i].data);
    }
}

static ls_status save_npz(const char *path, int n, const ls_named_data *arrays) {
    return ls_npz_save(context, path, n, arrays, NULL);
}
static ls_status save_safetensors(const char *path, int n, const ls_named_data *arrays) {
    return ls_safetensors_save(context, path, n, arrays, 0, NULL, NULL);
}
static void test_npz_round_trip(void **state) {
    (void)state;
    archive_round_trip(in_folder("all.npz"), save_npz);
}
static void test_safetensors_round_trip(void **state) {
    (void)state;
    archive_round_trip(in_folder("all.safetensors"), save_safetensors);
}

/* The same bytes as the file has; an array outlives both the archive and the bytes it was opened over. */
static void test_in_memory(void **state) {
    (void)state;
    ls_data *x = pattern(LS_F32, 2, (const int64_t[]){3, 5}), *y = pattern(LS_U8, 1, (const int64_t[]){3});
    const ls_named_data arrays[] = {{"x", x}, {"a", y}};
    const ls_metadata metadata[] = {{"key", "value"}};
    const char *const paths[] = {in_folder("memory.safetensors"), in_folder("memory.npz")};
    ls_error err = {.code = LS_OK};
    assert_int_equal(ls_safetensors_save(context, paths[0], 2, arrays, 1, metadata, &err), LS_OK);
    assert_int_equal(ls_npz_save(context, paths[1], 2, arrays, &err), LS_OK);
    for (int i = 0; i < 3; i++) {
        ls_data *file = NULL, *got = NULL;
        size_t size;
        uint8_t *bytes = read_bytes(paths[i == 1], &size);
        if (i == 2) {
            assert_int_equal(ls_safetensors_encode(context, 2, arrays, 1, metadata, &file, &err), LS_OK);
            assert_int_equal(ls_data_size(file), size);
            assert_memory_equal(ls_data_bytes(file), bytes, size);
        } else {
            assert_int_equal(ls_data_create(context, LS_U8, 1, (const int64_t[]){(int64_t)size}, bytes, &file, &err), LS_OK);
        }
        ls_archive *a = NULL;
        assert_int_equal(ls_archive_open_data(context, "fetched", file, &a, &err), LS_OK);
        ls_data_release(file);
        assert_int_equal(ls_archive_count(a), 2);
        assert_int_equal(ls_archive_get(a, "x", &got, &err), LS_OK);
        ls_archive_close(a);
        assert_same_bytes(x, got);
        ls_data_release(got);

        /* cut short: refused under the name that was given */
        assert_int_equal(ls_data_create(context, LS_U8, 1, (const int64_t[]){(int64_t)size - 1}, bytes, &file, &err), LS_OK);
        assert_message(ls_archive_open_data(context, "fetched", file, &a, &err), LS_ERR_FORMAT, &err, "fetched", NULL);
        ls_error_clear(&err);
        ls_data_release(file);
        free(bytes);
    }
    ls_archive *a = NULL;
    assert_message(ls_archive_open_data(context, "fetched", x, &a, &err), LS_ERR_INVALID, &err, "fetched", "u8", NULL);
    ls_error_clear(&err);
    const ls_named_data twice[] = {{"x", x}, {"x", x}};
    ls_data *file = NULL;
    assert_message(ls_safetensors_encode(context, 2, twice, 0, NULL, &file, &err), LS_ERR_INVALID, &err, "\"x\"", NULL);
    ls_data_release(x);
    ls_data_release(y);
}

static void test_empty_archives(void **state) {
    (void)state;
    const char *const names[] = {"none.npz", "none.safetensors"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal((i ? save_safetensors : save_npz)(in_folder(names[i]), 0, NULL), LS_OK);
        ls_archive *a = NULL;
        assert_int_equal(ls_archive_open(context, in_folder(names[i]), &a, NULL), LS_OK);
        assert_int_equal(ls_archive_count(a), 0);
        ls_archive_close(a);
    }
}

static void test_names_that_are_refused(void **state) {
    (void)state;
    ls_data *x = pattern(LS_U8, 0, NULL);
    const ls_named_data twice[] = {{"b", x}, {"a", x}, {"b", x}}, empty[] = {{"", x}},
                        reserved[] = {{"__metadata__", x}};
    const ls_metadata sums[] = {{"sha256.b", "0"}}, same[] = {{"k", "1"}, {"k", "2"}};
    const char *path = in_folder("refused");
    ls_error err = {.code = LS_OK};
    assert_message(ls_safetensors_save(context, path, 3, twice, 0, NULL, &err), LS_ERR_INVALID, &err, path,
                   "\"b\"", NULL);
    ls_error_clear(&err);
    assert_message(ls_npz_save(context, path, 3, twice, &err), LS_ERR_INVALID, &err, path, "\"b\"", NULL);
    assert_int_equal(ls_safetensors_save(context, path, 1, empty, 0, NULL, NULL), LS_ERR_INVALID);
    assert_int_equal(ls_npz_save(context, path, 1, empty, NULL), LS_ERR_INVALID);
    assert_int_equal(ls_safetensors_save(context, path, 1, reserved, 0, NULL, NULL), LS_ERR_INVALID);
    assert_int_equal(ls_safetensors_save(context, path, 1, twice, 1, sums, NULL), LS_ERR_INVALID);
    assert_int_equal(ls_safetensors_save(context, path, 1, twice, 2, same, NULL), LS_ERR_INVALID);
    static const char *const not_utf8[] = {"\xff", "a\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80", "\xe2\x82"};
    for (size_t i = 0; i < sizeof not_utf8 / sizeof *not_utf8; i++) {
        const ls_named_data named = {not_utf8[i], x}, good = {"a", x};
        const ls_metadata key = {not_utf8[i], "1"}, text = {"k", not_utf8[i]};
        ls_error_clear(&err);
        assert_message(ls_safetensors_save(context, path, 1, &named, 0, NULL, &err), LS_ERR_INVALID, &err, path, "UTF-8", NULL);
        ls_error_clear(&err);
        assert_message(ls_safetensors_save(context, path, 1, &good, 1, &key, &err), LS_ERR_INVALID, &err, path, "UTF-8", NULL);
        ls_error_clear(&err);
        assert_message(ls_safetensors_save(context, path, 1, &good, 1, &text, &err), LS_ERR_INVALID, &err, path, "UTF-8", NULL);
    }
    assert_int_equal(access(path, F_OK), -1); /* nothing was written */
    const ls_named_data wide = {"\xc2\x80\xe0\xa0\x80\xed\x9f\xbf\xef\xbf\xbf\xf0\x90\x80\x80\xf4\x8f\xbf\xbf", x};
    assert_int_equal(ls_safetensors_save(context, path, 1, &wide, 0, NULL, NULL), LS_OK);
    ls_data_release(x);
}

static void test_metadata(void **state) {
    (void)state;
    ls_data *x = pattern(LS_F32, 2, (const int64_t[]){2, 2});
    const ls_named_data arrays[] = {{"w", x}};
    const ls_metadata metadata[] = {{"step", "12"}, {"quote \"", "line\nend \\"}};
    assert_int_equal(ls_safetensors_save(context, in_folder("m"), 1, arrays, 2, metadata, NULL), LS_OK);
    ls_archive *a = NULL;
    assert_int_equal(ls_archive_open(context, in_folder("m"), &a, NULL), LS_OK);
    assert_string_equal(ls_archive_metadata(a, "step"), "12");
    assert_string_equal(ls_archive_metadata(a, "quote \""), "line\nend \\");
    assert_null(ls_archive_metadata(a, "none"));
    ls_error err = {.code = LS_OK};
    assert_message(ls_archive_get(a, NULL, &(ls_data *){NULL}, &err), LS_ERR_INVALID, &err, "no array \"(null)\"", NULL);
    char hex[65];
    ls_data_sha256(x, hex); /* no NaN among them */
    assert_string_equal(ls_archive_metadata(a, "sha256.w"), hex);
    ls_archive_close(a);
    ls_data_release(x);
}

/* A header whose length, as bytes, begins like a zip archive: 19280 is "PK". */
static void test_header_that_looks_like_zip(void **state) {
    (void)state;
    char text[19280];
    memset(text, ' ', sizeof text);
    const char *json = "{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}";
    memcpy(text, json, strlen(json));
    FILE *f = fopen(in_folder("pk"), "wb");
    fwrite("PK\0\0\0\0\0\0", 1, 8, f);
    fwrite(text, 1, sizeof text, f);
    fwrite("\7\11", 1, 2, f);
    fclose(f);
    ls_archive *a = NULL;
    ls_data *x = NULL;
    ls_error err = {.code = LS_OK};
    if (ls_archive_open(context, in_folder("pk"), &a, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(ls_archive_get(a, "x", &x, NULL), LS_OK);
    assert_memory_equal(ls_data_bytes(x), "\7\11", 2);
    ls_data_release(x);
    ls_archive_close(a);
}

/* Writes a .npy by hand: version, header text, elements. */
static void npy_by_hand(const char *path, int version, const char *text, const void *bytes, size_t size) {
    FILE *f = fopen(path, "wb");
    size_t n = strlen(text);
    fprintf(f, "\x93NUMPY%c%c%c%c", version, 0, (int)(n & 255), (int)(n >> 8));
    if (version > 1) {
        fwrite("\0\0", 1, 2, f);
    }
    fwrite(text, 1, n, f);
    fwrite(bytes, 1, size, f);
    assert_int_equal(fclose(f), 0);
}

static void test_npy_of_other_writers(void **state) {
    (void)state;
    const uint8_t fortran[12] = {0, 0, 0, 3, 0, 1, 0, 4, 0, 2, 0, 5}; /* big-endian, column by column */
    for (int version = 1; version <= 3; version++) {
        npy_by_hand(in_folder("f.npy"), version,
                    "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n", fortran, sizeof fortran);
        ls_data *x = NULL;
        assert_int_equal(ls_npy_load(context, in_folder("f.npy"), &x, NULL), LS_OK);
        const int16_t *v = ls_data_bytes(x);
        assert_int_equal(ls_data_dtype(x), LS_I16);
        for (int i = 0; i < 6; i++) {
            assert_int_equal(v[i], i);
        }
        ls_data_release(x);
    }
    const uint8_t big[8] = {0x3f, 0xf8, 0, 0, 0, 0, 0, 0}, cube[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    ls_data *x = NULL;
    npy_by_hand(in_folder("b.npy"), 1, "{'shape': (), 'fortran_order': False, 'descr': '>f8'}", big, 8);
    assert_int_equal(ls_npy_load(context, in_folder("b.npy"), &x, NULL), LS_OK);
    assert_true(*(const double *)ls_data_bytes(x) == 1.5);
    ls_data_release(x);
    npy_by_hand(in_folder("c.npy"), 1, "{'descr':'|u1','fortran_order':True,'shape':(2,2,2)}", cube, 8);
    assert_int_equal(ls_npy_load(context, in_folder("c.npy"), &x, NULL), LS_OK);
    assert_memory_equal(ls_data_bytes(x), ((const uint8_t[]){0, 4, 2, 6, 1, 5, 3, 7}), 8);
    ls_data_release(x);
    npy_by_hand(in_folder("d.npy"), 1, "{'descr':'bfloat16','fortran_order':False,'shape':(1,)}", "\x80\x3f",
                2);
    assert_int_equal(ls_npy_load(context, in_folder("d.npy"), &x, NULL), LS_OK);
    assert_int_equal(ls_data_dtype(x), LS_BF16);
    ls_data_release(x);
}

static void test_npz_deflated(void **state) {
    (void)state;
    const char *script =
        "import zipfile, sys\n"
        "head = b'\\x93NUMPY\\x01\\x00' + (118).to_bytes(2, 'little')\n"
        "text = \"{'descr': '<i4', 'fortran_order': False, 'shape': (1000,), }\".ljust(117) + '\\n'\n"
        "body = b''.join((i % 7).to_bytes(4, 'little') for i in range(1000))\n"
        "with zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as z:\n"
        "    z.writestr('caf\\u00e9.npy', head + text.encode() + body)\n"
        "    z.comment = b'a comment'\n";
    char command[1024];
    write_bytes(in_folder("deflate.py"), script, strlen(script));
    snprintf(command, sizeof command, "python3 %s %s", in_folder("deflate.py"), in_folder("deflated.npz"));
    if (system("python3 -c 'import zipfile' 2>/dev/null") != 0) {
        print_message("skipped: there is no python3\n");
        skip();
    }
    assert_int_equal(system(command), 0);
    ls_archive *a = NULL;
    ls_data *x = NULL;
    ls_error err = {.code = LS_OK};
    if (ls_archive_open(context, in_folder("deflated.npz"), &a, &err) != LS_OK ||
        ls_archive_get(a, "caf\xc3\xa9", &x, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(((const int32_t *)ls_data_bytes(x))[i], i % 7);
    }
    ls_data_release(x);
    ls_archive_close(a);
}

/* NumPy reads what is written here, and what NumPy writes is read here; both hash the same bytes. */
static void test_numpy(void **state) {
    (void)state;
    const char *python = "python3";
    if (system("python3 -c 'import numpy' 2>/dev/null") != 0) {
        python = "/usr/bin/python3"; /* the one that packages of the system belong to */
    }
    if (system("python3 -c 'import numpy' 2>/dev/null || /usr/bin/python3 -c 'import numpy' 2>/dev/null") !=
        0) {
        print_message("skipped: python3 has no numpy\n");
        skip();
    }
    static const ls_dtype dtypes[] = {LS_BOOL, LS_U8,  LS_U16, LS_U32, LS_U64, LS_I8,
                                      LS_I16,  LS_I32, LS_I64, LS_F16, LS_F32, LS_F64};
    enum { N = sizeof dtypes / sizeof *dtypes };
    ls_named_data arrays[N];
    for (int i = 0; i < N; i++) {
        arrays[i] =
            (ls_named_data){ls_dtype_name(dtypes[i]), pattern(dtypes[i], shapes[i].rank, shapes[i].dims)};
        char name[32];
        snprintf(name, sizeof name, "np_%s.npy", arrays[i].name);
        assert_int_equal(ls_npy_save(context, in_folder(name), arrays[i].data, NULL), LS_OK);
    }
    assert_int_equal(ls_npz_save(context, in_folder("np_all.npz"), N, arrays, NULL), LS_OK);
    const char *script =
        "import numpy as np, sys, glob, os\n"
        "d = sys.argv[1]\n"
        "z = np.load(d + '/np_all.npz')\n"
        "names = sorted(z.files)\n"
        "assert len(names) == 12, names\n"
        "for n in names:\n"
        "    a = np.load(d + '/np_' + n + '.npy')\n"
        "    assert a.tobytes() == z[n].tobytes() and a.dtype == z[n].dtype and a.shape == z[n].shape, n\n"
        "    want = {'bool': '|b1', 'u8': '|u1', 'i8': '|i1'}.get(n, '<' + n[0] + str(int(n[1:] or 0) // 8) "
        "if n[1:].isdigit() else n)\n"
        "    assert a.dtype.str == want, (n, a.dtype.str)\n"
        "    np.save(d + '/back_' + n + '.npy', np.array(a, dtype=a.dtype.newbyteorder('>'), order='F'))\n"
        "np.savez_compressed(d + '/back.npz', **{n: z[n] for n in names})\n"
        "np.savez(d + '/back_stored.npz', **{n: z[n] for n in names})\n";
    char command[1024];
    write_bytes(in_folder("numpy.py.txt"), script, strlen(script));
    snprintf(command, sizeof command, "%s %s %s", python, in_folder("numpy.py.txt"), folder);
    assert_int_equal(system(command), 0);
    const char *const back[] = {"back.npz", "back_stored.npz"};
    for (int k = 0; k < 3; k++) {
        ls_archive *a = NULL;
        assert_true(k == 2 || ls_archive_open(context, in_folder(back[k]), &a, NULL) == LS_OK);
        for (int i = 0; i < N; i++) {
            ls_data *x = NULL;
            char name[32];
            ls_error err = {.code = LS_OK};
            snprintf(name, sizeof name, "back_%s.npy", arrays[i].name);
            ls_status status = k == 2 ? ls_npy_load(context, in_folder(name), &x, &err)
                                      : ls_archive_get(a, arrays[i].name, &x, &err);
            if (status != LS_OK) {
                fail_msg("%s", err.message);
            }
            assert_same_bytes(arrays[i].data, x);
            ls_data_release(x);
        }
        ls_archive_close(a);
    }
    for (int i = 0; i < N; i++) {
        ls_data_release((ls_data *)arrays[i].data);
    }
}

/* ---- damage ---- */

/* Every single flipped data byte is noticed, and says which array it is in. */
static void test_flipped_bytes(void **state) {
    (void)state;
    ls_data *x = pattern(LS_F32, 2, (const int64_t[]){3, 5}), *y = pattern(LS_U8, 1, (const int64_t[]){7});
    const ls_named_data arrays[] = {{"first", x}, {"second", y}};
    for (int zip = 0; zip < 2; zip++) {
        const char *path = in_folder(zip ? "flip.npz" : "flip.safetensors");
        assert_int_equal((zip ? save_npz : save_safetensors)(path, 2, arrays), LS_OK);
        size_t size;
        uint8_t *bytes = read_bytes(path, &size);
        const uint8_t *data[2] = {memmem(bytes, size, ls_data_bytes(x), ls_data_size(x)), NULL};
        data[1] = memmem(data[0] + ls_data_size(x), size - (size_t)(data[0] - bytes) - ls_data_size(x),
                         ls_data_bytes(y), 7);
        for (int k = 0; k < 2; k++) {
            assert_non_null(data[k]);
            for (size_t i = (size_t)(data[k] - bytes);
                 i < (size_t)(data[k] - bytes) + ls_data_size(arrays[k].data); i++) {
                ls_archive *a = NULL;
                ls_data *got = NULL;
                ls_error err = {.code = LS_OK};
                bytes[i] ^= 0x10;
                write_bytes(path, bytes, size);
                bytes[i] ^= 0x10;
                assert_int_equal(ls_archive_open(context, path, &a, &err), LS_OK);
                assert_message(ls_archive_get(a, arrays[k].name, &got, &err), LS_ERR_FORMAT, &err, path,
                               arrays[k].name, "damaged", NULL);
                assert_int_equal(ls_archive_get(a, arrays[!k].name, &got, NULL), LS_OK);
                ls_data_release(got);
                ls_archive_close(a);
            }
        }
        free(bytes);
    }
    ls_data_release(x);
    ls_data_release(y);
}

/* A large array has two checksums, and a reader that finds one of them alone compares that one. */
static void test_flipped_bytes_of_a_large_array(void **state) {
    (void)state;
    enum { N = 20001 };
    ls_data *x = pattern(LS_F32, 1, (const int64_t[]){N});
    const ls_named_data arrays[] = {{"large", x}};
    const char *path = in_folder("large.safetensors"), *const keys[] = {NULL, "sha256.large", "crc32cx4.large"};
    assert_int_equal(save_safetensors(path, 1, arrays), LS_OK);
    for (int k = 0; k < 3; k++) {
        size_t size;
        uint8_t *bytes = read_bytes(path, &size), *data = memmem(bytes, size, ls_data_bytes(x), 4 * N);
        assert_non_null(data);
        if (keys[k]) {
            uint8_t *key = memmem(bytes, size, keys[k], strlen(keys[k]));
            if (!memmem(bytes, size, keys[2], strlen(keys[2]))) { /* a page's module writes no CRC: the SHA-256 is all there is */
                free(bytes);
                continue;
            }
            assert_non_null(key);
            memcpy(key, "unkno", 5);
        }
        for (size_t i = 0; i <= 4 * N; i += i % 3 ? 997 : 1024) { /* the last time whole */
            const bool whole = i + 1024 > 4 * N;
            ls_data *file = NULL, *got = NULL;
            ls_archive *a = NULL;
            ls_error err = {.code = LS_OK};
            data[i] ^= whole ? 0 : 0x10;
            assert_int_equal(ls_data_create(context, LS_U8, 1, (const int64_t[]){(int64_t)size}, bytes, &file, NULL), LS_OK);
            data[i] ^= whole ? 0 : 0x10;
            assert_int_equal(ls_archive_open_data(context, "large", file, &a, &err), LS_OK);
            if (whole) {
                assert_int_equal(ls_archive_get(a, "large", &got, &err), LS_OK);
                ls_data_release(got);
            } else {
                assert_message(ls_archive_get(a, "large", &got, &err), LS_ERR_FORMAT, &err, "large", "damaged", NULL);
            }
            ls_archive_close(a);
            ls_data_release(file);
        }
        free(bytes);
    }
    ls_data_release(x);
}

static void assert_one_entry(const char *path) {
    DIR *dir = opendir(path);
    int n = 0;
    for (const struct dirent *e = readdir(dir); e; e = readdir(dir)) {
        n += e->d_name[0] != '.';
    }
    closedir(dir);
    assert_int_equal(n, 1);
}

static ls_status save_as(int kind, const char *path, const ls_data *x, ls_error *err) {
    const ls_named_data arrays[] = {{"x", x}};
    return kind == 0   ? ls_npy_save(context, path, x, err)
           : kind == 1 ? ls_npz_save(context, path, 1, arrays, err)
                       : ls_safetensors_save(context, path, 1, arrays, 0, NULL, err);
}

/* A disk that is full after any number of bytes leaves the old file, and nothing beside it. */
static void test_full_disk(void **state) {
    (void)state;
    struct rlimit old;
    ls_data *small = pattern(LS_U8, 1, (const int64_t[]){3}),
            *large = pattern(LS_U8, 1, (const int64_t[]){100000});
    assert_int_equal(mkdir(in_folder("disk"), 0777), 0);
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    for (int kind = 0; kind < 3; kind++) {
        const char *path = in_folder("disk/x");
        assert_int_equal(save_as(kind, path, small, NULL), LS_OK);
        size_t size, size_after;
        uint8_t *bytes = read_bytes(path, &size), *after;
        for (rlim_t room = 0; room <= 90000; room += 45000) {
            struct rlimit limit = {room, old.rlim_max};
            ls_error err = {.code = LS_OK};
            assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
            ls_status status = save_as(kind, path, large, &err);
            assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
            assert_message(status, LS_ERR_IO, &err, path, NULL);
        }
        after = read_bytes(path, &size_after);
        assert_int_equal(size, size_after);
        assert_memory_equal(bytes, after, size);
        assert_one_entry(in_folder("disk"));
        ls_error err = {.code = LS_OK};
        if (access("/dev/full", W_OK) == 0) {
            assert_message(save_as(kind, "/dev/full", small, &err), LS_ERR_IO, &err, "/dev/full", NULL);
        }
        ls_error_clear(&err);
        assert_message(save_as(kind, in_folder("no/such/x"), small, &err), LS_ERR_IO, &err, "no/such/x",
                       NULL);
        ls_error_clear(&err);
        assert_message(save_as(kind, in_folder("disk"), small, &err), LS_ERR_IO, &err, "disk", NULL);
        free(bytes);
        free(after);
    }
    signal(SIGXFSZ, before);
    ls_data_release(small);
    ls_data_release(large);
}

/* Each allocation failed in turn: an error, no leak, and the old file stays. */
static void test_failing_allocations(void **state) {
    (void)state;
    ls_heap *heap = ls_context_heap(context);
    ls_data *x = pattern(LS_I32, 2, (const int64_t[]){2, 3});
    const ls_metadata metadata[] = {{"key", "value"}};
    const ls_named_data arrays[] = {{"x", x}, {"y", x}};
    const char *path = in_folder("alloc");
    ls_data *file = NULL;
    assert_int_equal(ls_safetensors_encode(context, 2, arrays, 1, metadata, &file, NULL), LS_OK);
    for (int kind = 0; kind < 6; kind++) { /* 1 and 3 open what 0 and 2 saved */
        bool done = false;
        size_t used = atomic_load(&heap->used);
        for (long n = 0; n < 200 && !done; n++) {
            ls_archive *a = NULL;
            ls_data *got = NULL;
            ls_error err = {.code = LS_OK};
            atomic_store(&heap->fail_after, n);
            ls_status status = kind == 0   ? ls_npz_save(context, path, 2, arrays, &err)
                               : kind == 2 ? ls_safetensors_save(context, path, 2, arrays, 1, metadata, &err)
                               : kind == 4 ? ls_archive_open_data(context, "fetched", file, &a, &err)
                               : kind == 5 ? ls_safetensors_encode(context, 2, arrays, 1, metadata, &got, &err)
                                           : ls_archive_open(context, path, &a, &err);
            if (a) {
                status = ls_archive_get_at(a, 1, &got, &err);
            }
            atomic_store(&heap->fail_after, -1);
            done = status == LS_OK;
            assert_true(done || (status == LS_ERR_MEMORY && err.message[0]));
            ls_data_release(got);
            ls_archive_close(a);
            assert_int_equal(atomic_load(&heap->used), used);
        }
        assert_true(done);
    }
    ls_data_release(file);
    ls_data_release(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_npy_round_trip),
        cmocka_unit_test(test_npz_round_trip),
        cmocka_unit_test(test_safetensors_round_trip),
        cmocka_unit_test(test_in_memory),
        cmocka_unit_test(test_empty_archives),
        cmocka_unit_test(test_names_that_are_refused),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_header_that_looks_like_zip),
        cmocka_unit_test(test_npy_of_other_writers),
        cmocka_unit_test(test_npz_deflated),
        cmocka_unit_test(test_numpy),
        cmocka_unit_test(test_flipped_bytes),
        cmocka_unit_test(test_flipped_bytes_of_a_large_array),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
