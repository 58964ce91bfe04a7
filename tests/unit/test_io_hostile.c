/* Files that are damaged, cut short or made to deceive: always an error that names the file, never a crash, never a wild size. */
#define _GNU_SOURCE
#include "io_support.h"
#include "base/rng.h"
#include <zlib.h>

typedef enum kind { NPY, NPZ, SAFETENSORS, IDX, N_KINDS } kind;
static const char *const kind_names[N_KINDS] = {"h.npy", "h.npz", "h.safetensors", "h.idx"};

/* Reads all that a file holds. The first failure's record must name the file. */
static ls_status read_all(kind k, const char *path, ls_error *err) {
    ls_data *x = NULL;
    ls_archive *a = NULL;
    ls_status status;
    *err = (ls_error){.code = LS_OK};
    if (k == NPY || k == IDX) {
        status = k == NPY ? ls_npy_load(context, path, &x, err) : ls_idx_load(context, path, &x, err);
    } else {
        status = ls_archive_open(context, path, &a, err);
    }
    for (int i = 0; a && i < ls_archive_count(a) && status == LS_OK; i++) {
        ls_data_release(x);
        x = NULL;
        assert_non_null(ls_archive_name(a, i));
        status = ls_archive_get_at(a, i, &x, err);
    }
    if (status == LS_OK && x) { /* the bytes are really there */
        char hex[65];
        ls_data_sha256(x, hex);
    }
    ls_data_release(x);
    ls_archive_close(a);
    if (status != LS_OK && !strstr(err->message, path)) {
        fail_msg("\"%s\" does not name the file", err->message);
    }
    return status;
}

static ls_status read_bytes_as(kind k, const void *bytes, size_t size, ls_error *err) {
    write_bytes(in_folder(kind_names[k]), bytes, size);
    return read_all(k, in_folder(kind_names[k]), err);
}

/* A valid file of each kind. */
static uint8_t *valid(kind k, size_t *out_size) {
    const char *path = in_folder(kind_names[k]);
    static const uint8_t idx[] = {0, 0, 0x0b, 2, 0, 0, 0, 2, 0, 0, 0, 3, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6};
    ls_data *x = pattern(LS_F32, 2, (const int64_t[]){2, 3}), *y = pattern(LS_BOOL, 1, (const int64_t[]){5});
    const ls_named_data arrays[] = {{"weight", x}, {"mask", y}};
    const ls_metadata metadata[] = {{"key", "value \\ \""}};
    switch (k) {
    case NPY:
        assert_int_equal(ls_npy_save(context, path, x, NULL), LS_OK);
        break;
    case NPZ:
        assert_int_equal(ls_npz_save(context, path, 2, arrays, NULL), LS_OK);
        break;
    case SAFETENSORS:
        assert_int_equal(ls_safetensors_save(context, path, 2, arrays, 1, metadata, NULL), LS_OK);
        break;
    default:
        write_bytes(path, idx, sizeof idx);
    }
    ls_data_release(x);
    ls_data_release(y);
    return read_bytes(path, out_size);
}

/* Cut after any byte, and with a byte too many. */
static void test_truncated(void **state) {
    (void)state;
    for (int k = 0; k < N_KINDS; k++) {
        size_t size;
        ls_error err;
        uint8_t *bytes = valid((kind)k, &size);
        assert_int_equal(read_bytes_as((kind)k, bytes, size, &err), LS_OK);
        for (size_t n = 0; n < size; n++) {
            if (read_bytes_as((kind)k, bytes, n, &err) != LS_ERR_FORMAT) {
                fail_msg("%s cut to %zu of %zu bytes: %s", kind_names[k], n, size, err.message);
            }
        }
        bytes[size] = 0;
        assert_int_equal(read_bytes_as((kind)k, bytes, size + 1, &err), LS_ERR_FORMAT);
        free(bytes);
    }
}

static void test_truncated_gzip(void **state) {
    (void)state;
    const char *path = in_folder("t.idx.gz");
    size_t plain, size;
    uint8_t *bytes = valid(IDX, &plain);
    gzFile f = gzopen(path, "wb");
    assert_int_equal(gzwrite(f, bytes, (unsigned)plain), (int)plain);
    gzclose(f);
    free(bytes);
    bytes = read_bytes(path, &size);
    ls_error err;
    assert_int_equal(read_all(IDX, path, &err), LS_OK);
    for (size_t n = 0; n < size; n++) {
        write_bytes(path, bytes, n);
        if (read_all(IDX, path, &err) != LS_ERR_FORMAT) {
            fail_msg("cut to %zu of %zu bytes: %s", n, size, err.message);
        }
    }
    assert_true(size > 8);
    bytes[size - 6] ^= 1; /* of the CRC */
    write_bytes(path, bytes, size);
    assert_int_equal(read_all(IDX, path, &err), LS_ERR_FORMAT);
    free(bytes);
}

/* Thousands of files with a few bytes changed, from fixed seeds: each is refused with a message or still valid. */
static void test_mutated(void **state) {
    (void)state;
    int refused = 0, accepted = 0;
    for (int k = 0; k < N_KINDS; k++) {
        size_t size;
        uint8_t *bytes = valid((kind)k, &size), *copy = malloc(size);
        ls_rng rng = {ls_rng_key(20, (uint64_t)k), 0};
        for (int i = 0; i < 1500; i++) {
            static const uint8_t loved[] = {0, 1, 0x7f, 0x80, 0xff, '"', '\\', '{', '[', '9', ','};
            memcpy(copy, bytes, size);
            for (uint64_t n = ls_rng_below(&rng, 3) + 1; n > 0; n--) {
                uint8_t *at = copy + ls_rng_below(&rng, size);
                *at = ls_rng_below(&rng, 2) ? (uint8_t)ls_rng_u32(&rng)
                                            : loved[ls_rng_below(&rng, sizeof loved)];
            }
            ls_error err;
            *(read_bytes_as((kind)k, copy, size, &err) == LS_OK ? &accepted : &refused) += 1;
        }
        free(bytes);
        free(copy);
    }
    print_message("%d mutated files refused, %d still valid\n", refused, accepted);
    assert_true(refused > 2000 && accepted > 100);
}

/* ---- safetensors ---- */

static ls_status safetensors_of(uint64_t length, const char *json, size_t json_size, size_t data_size,
                                ls_error *err) {
    uint8_t *bytes = calloc(1, 8 + json_size + data_size + 1);
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(length >> 8 * i);
    }
    memcpy(bytes + 8, json, json_size);
    ls_status status = read_bytes_as(SAFETENSORS, bytes, 8 + json_size + data_size, err);
    free(bytes);
    return status;
}

typedef struct header_case {
    const char *json;
    size_t data;
    ls_status status;
    const char *says;
} header_case;
#define T(dtype, shape, begin, end)                                                                          \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" begin "," end "]}"
static const header_case header_cases[] = {
    {"{\"a\":" T("F32", "[2]", "0", "8") "}", 8, LS_OK, ""},
    {"{\"a\\\\\":" T("F32", "[2]", "0", "8") ",\"{[[[[[[[[[\":" T("U8", "[0]", "8", "8") "}  \n", 8, LS_OK,
     ""},
    {"{\"a\":" T("F32", "[2]", "0", "8") ",\"b\":" T("F32", "[1]", "4", "8") "}", 8, LS_ERR_FORMAT,
     "\"b\" begins at byte"}, /* overlap */
    {"{\"a\":" T("F32", "[1]", "0", "4") ",\"b\":" T("F32", "[1]", "8", "12") "}", 12, LS_ERR_FORMAT,
     "\"b\" begins at byte"}, /* gap */
    {"{\"a\":" T("F32", "[1]", "4", "8") "}", 8, LS_ERR_FORMAT, "\"a\" begins at byte"},
    {"{\"a\":" T("F32", "[2]", "0", "8") "}", 12, LS_ERR_FORMAT, "4 bytes after the last array"},
    {"{\"a\":" T("F32", "[2]", "0", "8") "}", 4, LS_ERR_FORMAT, "expected 8 bytes inside the file's 4"},
    {"{\"a\":" T("F32", "[3]", "0", "8") "}", 8, LS_ERR_FORMAT, "\"a\": its data_offsets: expected 12 bytes"},
    {"{\"a\":" T("F32", "[2]", "8", "0") "}", 8, LS_ERR_FORMAT, "data_offsets"},
    {"{\"a\":" T("F32", "[2]", "-8", "0") "}", 8, LS_ERR_FORMAT, "data_offsets"},
    {"{\"a\":" T("F32", "[2]", "0", "18446744073709551624") "}", 8, LS_ERR_FORMAT, "data_offsets"},
    {"{\"a\":" T("F32", "[2]", "0.5", "8.5") "}", 8, LS_ERR_FORMAT, "data_offsets"},
    {"{\"a\":" T("F32", "[-2]", "0", "8") "}", 8, LS_ERR_FORMAT, "its shape"},
    {"{\"a\":" T("F32", "[1e400]", "0", "8") "}", 8, LS_ERR_FORMAT, "its shape"},
    {"{\"a\":" T("F32", "[4294967296,4294967296]", "0", "0") "}", 0, LS_ERR_FORMAT, "its shape"},
    {"{\"a\":" T("F32", "[1,1,1,1,1,1,1,1,2]", "0", "8") "}", 8, LS_ERR_FORMAT, "at most 8 extents"},
    {"{\"a\":" T("F32", "\"2\"", "0", "8") "}", 8, LS_ERR_FORMAT, "\"a\": expected {"},
    {"{\"a\":" T("C64", "[1]", "0", "8") "}", 8, LS_ERR_UNSUPPORTED, "dtype \"C64\""},
    {"{\"a\":" T("f32", "[2]", "0", "8") "}", 8, LS_ERR_UNSUPPORTED, "dtype \"f32\""},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":{\"b\":0,\"c\":8}}}", 8, LS_ERR_FORMAT,
     "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}", 8, LS_ERR_FORMAT, "data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, LS_ERR_FORMAT, "data_offsets"},
    {"{\"a\":[]}", 0, LS_ERR_FORMAT, "\"a\": expected {"},
    {"{\"a\":" T("U8", "[4]", "0", "4") ",\"b\":" T("U8", "[0]", "4", "4") ",\"a\":" T("U8", "[4]", "4",
                                                                                       "8") "}",
     8, LS_ERR_FORMAT, "\"a\" is there twice"},
    {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, LS_ERR_FORMAT, "\"k\" is there twice"},
    {"{\"__metadata__\":{\"k\":1}}", 0, LS_ERR_FORMAT, "\"k\": expected a string"},
    {"{\"__metadata__\":[]}", 0, LS_ERR_FORMAT, "__metadata__: expected an object"},
    {"{\"a\\u0000b\":" T("F32", "[2]", "0", "8") "}", 8, LS_ERR_FORMAT, "without NUL"},
    {"{\"a\":[[[[[[[[[[]]]]]]]]]]}", 0, LS_ERR_FORMAT, "no deeper"},
    {"{\"a\\\\\":[[[[[[[[[[]]]]]]]]]]}", 0, LS_ERR_FORMAT,
     "no deeper"}, /* the quote after two backslashes ends the name */
    {"{\"a\":" T("F32", "[2]", "0", "8") "} x", 8, LS_ERR_FORMAT, "its header: expected a JSON object"},
    {"{\"a\":" T("F32", "[2]", "0", "8") "", 8, LS_ERR_FORMAT, "its header: expected a JSON object"},
    {"{]", 0, LS_ERR_FORMAT, "its header: expected a JSON object"},
    {"[]", 0, LS_ERR_FORMAT, "expected an .npz or .safetensors"},
};

static void test_safetensors_headers(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof header_cases / sizeof *header_cases; i++) {
        const header_case *c = &header_cases[i];
        ls_error err;
        ls_status status = safetensors_of(strlen(c->json), c->json, strlen(c->json), c->data, &err);
        if (status != c->status || !strstr(err.message, c->says)) {
            fail_msg("%s: %s: \"%s\"", c->json, ls_status_name(status), err.message);
        }
    }
}

static void test_safetensors_lengths(void **state) {
    (void)state;
    static const uint64_t lengths[] = {
        0, 1, 3, 1000, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX, UINT64_MAX - 7};
    ls_error err;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        assert_int_equal(safetensors_of(lengths[i], "{}", 2, 0, &err), LS_ERR_FORMAT);
    }
    assert_int_equal(safetensors_of(2, "{}", 2, 0, &err), LS_OK);
    assert_int_equal(safetensors_of(4, "{}\0 ", 4, 0, &err), LS_ERR_FORMAT);
}

/* Deep nesting and many names cost no more than their bytes. */
static void test_safetensors_large_headers(void **state) {
    (void)state;
    enum { DEEP = 1 << 18, MANY = 20000 };
    char *text = malloc(DEEP + MANY * 80);
    memset(text, '[', DEEP);
    memcpy(text, "{\"a\":", 5);
    ls_error err;
    assert_int_equal(safetensors_of(DEEP, text, DEEP, 0, &err), LS_ERR_FORMAT);
    size_t n = (size_t)sprintf(text, "{");
    for (int i = 0; i < MANY; i++) {
        n += (size_t)sprintf(text + n, "%s\"%d\":" T("U8", "[1]", "%d", "%d"), i ? "," : "", i, i, i + 1);
    }
    n += (size_t)sprintf(text + n, "}");
    if (safetensors_of(n, text, n, MANY, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    free(text);
}

static void test_bools(void **state) {
    (void)state;
    for (int k = NPY; k <= SAFETENSORS; k++) {
        ls_data *x = pattern(LS_BOOL, 1, (const int64_t[]){40});
        const ls_named_data arrays[] = {{"mask", x}};
        const char *path = in_folder(kind_names[k]);
        ls_status status = k == NPY   ? ls_npy_save(context, path, x, NULL)
                           : k == NPZ ? ls_npz_save(context, path, 1, arrays, NULL)
                                      : ls_safetensors_save(context, path, 1, arrays, 0, NULL, NULL);
        assert_int_equal(status, LS_OK);
        size_t size;
        uint8_t *bytes = read_bytes(path, &size), *data = memmem(bytes, size, ls_data_bytes(x), 40), *sum;
        data[12] = 2;
        if (k == NPZ) { /* with a CRC that fits */
            uint32_t crc = (uint32_t)crc32(0, data - 128, 168);
            memcpy(bytes + 14, &crc, 4);
            memcpy((uint8_t *)memmem(bytes, size, "PK\1\2", 4) + 16, &crc, 4);
        } else if (k == SAFETENSORS) { /* without a checksum */
            sum = memmem(bytes, size, "sha256.mask", 11);
            memcpy(sum, "another", 7);
        }
        ls_error err;
        assert_message(read_bytes_as((kind)k, bytes, size, &err), LS_ERR_FORMAT, &err, "element 12",
                       "is 2: expected 0 or 1", NULL);
        free(bytes);
        ls_data_release(x);
    }
}

/* ---- npy ---- */

static void test_npy_headers(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t data;
        const char *says; /* NULL: valid */
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 8, NULL},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4)}", 0, NULL},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 7, "7 bytes of elements"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 9, "9 bytes of elements"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}", 8, "of a dtype"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", 8, "of a dtype"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}      \n", 8, "its header \"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}\": expected"},
        {"{'descr': '|O',\n'fortran_order': False}", 8, "its header \"{'descr': '|O', 'fortran_order': False}\": expected"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", 4, "of a dtype"},
        {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,)}", 8, "expected descr"},
        {"{'descr': '<f4', 'shape': (2,)}", 8, "expected descr"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,", 8, "expected descr"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", 8, "expected descr"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,2)}", 8, "at most 8 axes"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 8, "expected descr"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", 0,
         "more elements than memory could"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}", 0, "more elements than memory could"},
        {"", 0, "expected descr"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char bytes[512] = "\x93NUMPY\1";
        size_t n = strlen(cases[i].text);
        ls_error err;
        bytes[8] = (char)n;
        memcpy(bytes + 10, cases[i].text, n);
        ls_status status = read_bytes_as(NPY, bytes, 10 + n + cases[i].data, &err);
        if (status != (cases[i].says ? LS_ERR_FORMAT : LS_OK) ||
            (cases[i].says && !strstr(err.message, cases[i].says))) {
            fail_msg("%s: %s: \"%s\"", cases[i].text, ls_status_name(status), err.message);
        }
    }
}

/* ---- npz ---- */

static void put(uint8_t *p, uint32_t v, int n) {
    for (int i = 0; i < n; i++) {
        p[i] = (uint8_t)(v >> 8 * i);
    }
}

/* Fields of the directory and of the end record that lie. */
static void test_npz_fields(void **state) {
    (void)state;
    size_t size;
    uint8_t *bytes = valid(NPZ, &size), *copy = malloc(size);
    size_t central = (size_t)((uint8_t *)memmem(bytes, size, "PK\1\2", 4) - bytes), end = size - 22;
    const struct {
        size_t at;
        int n;
        uint32_t value;
        ls_status status;
        const char *says;
    } cases[] = {
        {central + 16, 4, 0x12345678, LS_ERR_FORMAT, "weight: its CRC"},
        {central + 8, 2, 1, LS_ERR_UNSUPPORTED, "unencrypted"},
        {central + 10, 2, 12, LS_ERR_UNSUPPORTED, "stored or deflated"},
        {central + 10, 2, 8, LS_ERR_FORMAT, "expected deflated data"},
        {central + 20, 4, 0xffffff00, LS_ERR_FORMAT, "a member inside the file"},
        {central + 20, 4, 0xffffffff, LS_ERR_UNSUPPORTED, "under 4 GiB"},
        {central + 24, 4, 0xffffff00, LS_ERR_FORMAT, "a member inside the file"},
        {central + 28, 2, 0xffff, LS_ERR_FORMAT, "points to a member"},
        {central + 28, 2, 0, LS_ERR_FORMAT, "a member's name"},
        {central + 42, 4, 5, LS_ERR_FORMAT, "points to a member"},
        {central + 42, 4, 0xfffffff0, LS_ERR_FORMAT, "points to a member"},
        {central + 48, 1, 0, LS_ERR_FORMAT, "without NUL"},
        {26, 2, 0xffff, LS_ERR_FORMAT, "a member inside the file"},
        {end + 10, 2, 3, LS_ERR_FORMAT, "an entry of the zip directory"},
        {end + 10, 2, 0xffff, LS_ERR_UNSUPPORTED, "zip64"},
        {end + 12, 4, 0x7fffffff, LS_ERR_FORMAT, "before its end record"},
        {end + 16, 4, 0x7fffffff, LS_ERR_FORMAT, "before its end record"},
        {end + 20, 2, 1, LS_ERR_FORMAT, "the end record"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_error err;
        memcpy(copy, bytes, size);
        put(copy + cases[i].at, cases[i].value, cases[i].n);
        ls_status status = read_bytes_as(NPZ, copy, size, &err);
        if (status != cases[i].status || !strstr(err.message, cases[i].says)) {
            fail_msg("case %zu: %s: \"%s\"", i, ls_status_name(status), err.message);
        }
    }
    free(bytes);
    free(copy);
}

/* A member that claims 4 GB from 100 bytes is refused before memory is asked for; one that unpacks to more than it says as well. */
static void test_npz_bombs(void **state) {
    (void)state;
    enum { FULL = 100000 };
    static uint8_t zeros[FULL], packed[1024], file[2048];
    z_stream z = {.next_in = zeros, .avail_in = FULL, .next_out = packed, .avail_out = sizeof packed};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    uint32_t n = (uint32_t)z.total_out;
    deflateEnd(&z);
    static const uint32_t claims[] = {0xfffffff0, FULL - 1, FULL + 1, 10, 0};
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        memset(file, 0, sizeof file);
        put(file, 0x04034b50, 4);
        put(file + 8, 8, 2);
        put(file + 26, 5, 2);
        memcpy(file + 30, "a.npy", 5);
        memcpy(file + 35, packed, n);
        uint8_t *central = file + 35 + n, *end = central + 46 + 5;
        put(central, 0x02014b50, 4);
        put(central + 10, 8, 2);
        put(central + 20, n, 4);
        put(central + 24, claims[i], 4);
        put(central + 28, 5, 2);
        memcpy(central + 46, "a.npy", 5);
        put(end, 0x06054b50, 4);
        put(end + 10, 1, 2);
        put(end + 12, 51, 4);
        put(end + 16, 35 + n, 4);
        ls_error err;
        size_t used, before, after;
        ls_context_memory(context, &used, &before);
        assert_int_equal(read_bytes_as(NPZ, file, (size_t)(end + 22 - file), &err), LS_ERR_FORMAT);
        ls_context_memory(context, &used, &after);
        assert_true(after < before + (1 << 20));
    }
}

/* ---- idx ---- */

static void test_idx(void **state) {
    (void)state;
    static const struct {
        uint8_t bytes[24];
        size_t size;
        const char *says; /* NULL: valid */
    } cases[] = {
        {{0, 0, 8, 1, 0, 0, 0, 2, 7, 9}, 10, NULL},
        {{0, 0, 8, 1, 0, 0, 0, 0}, 8, NULL},
        {{1, 0, 8, 1, 0, 0, 0, 2, 7, 9}, 10, "two zero bytes"},
        {{0, 0, 10, 1, 0, 0, 0, 2, 7, 9}, 10, "dtype code"},
        {{0, 0, 8, 0, 7}, 5, "rank 1 to 8"},
        {{0, 0, 8, 9, 7}, 5, "rank 1 to 8"},
        {{0, 0, 8, 2, 0, 0, 0, 2, 0, 0}, 10, "extents of the header"},
        {{0, 0, 8, 1, 0, 0, 0, 2, 7}, 9, "cut short"},
        {{0, 0, 8, 1, 0, 0, 0, 2, 7, 9, 9}, 11, "no bytes after"},
        {{0, 0, 14, 2, 255, 255, 255, 255, 255, 255, 255, 255}, 12, "fits in memory"},
        {{0, 0, 14, 2, 0, 255, 255, 255, 0, 0, 255, 255},
         12,
         "cut short"}, /* a terabyte is never asked for */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_error err;
        ls_status status = read_bytes_as(IDX, cases[i].bytes, cases[i].size, &err);
        if (status != (cases[i].says ? LS_ERR_FORMAT : LS_OK) ||
            (cases[i].says && !strstr(err.message, cases[i].says))) {
            fail_msg("case %zu: %s: \"%s\"", i, ls_status_name(status), err.message);
        }
    }
    static const struct {
        uint8_t code, bytes[8];
        size_t size;
    } elements[] = {{8, {200}, 1},
                    {9, {200}, 1},
                    {11, {1, 2}, 2},
                    {12, {1, 2, 3, 4}, 4},
                    {13, {0x3f, 0x80, 0, 0}, 4},
                    {14, {0xc0, 0, 0, 0, 0, 0, 0, 0}, 8}};
    static const double values[] = {200, -56, 258, 16909060, 1, -2};
    for (int i = 0; i < 6; i++) {
        uint8_t bytes[16] = {0, 0, elements[i].code, 1, 0, 0, 0, 1};
        ls_data *x = NULL;
        memcpy(bytes + 8, elements[i].bytes, 8);
        write_bytes(in_folder("one.idx"), bytes, 8 + elements[i].size);
        assert_int_equal(ls_idx_load(context, in_folder("one.idx"), &x, NULL), LS_OK);
        const void *p = ls_data_bytes(x);
        double got = i == 0   ? *(const uint8_t *)p
                     : i == 1 ? *(const int8_t *)p
                     : i == 2 ? *(const int16_t *)p
                     : i == 3 ? *(const int32_t *)p
                     : i == 4 ? (double)*(const float *)p
                              : *(const double *)p;
        assert_true(got == values[i]);
        ls_data_release(x);
    }
}

static void test_not_files(void **state) {
    (void)state;
    ls_error err;
    for (int k = 0; k < N_KINDS; k++) {
        assert_int_equal(read_all((kind)k, in_folder("missing"), &err), LS_ERR_IO);
        assert_int_equal(read_all((kind)k, folder, &err), LS_ERR_IO);
        assert_int_equal(read_all((kind)k, "/dev/null", &err), LS_ERR_IO);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_truncated_gzip),
        cmocka_unit_test(test_mutated),
        cmocka_unit_test(test_safetensors_headers),
        cmocka_unit_test(test_safetensors_lengths),
        cmocka_unit_test(test_safetensors_large_headers),
        cmocka_unit_test(test_bools),
        cmocka_unit_test(test_npy_headers),
        cmocka_unit_test(test_npz_fields),
        cmocka_unit_test(test_npz_bombs),
        cmocka_unit_test(test_idx),
        cmocka_unit_test(test_not_files),
    };
    return cmocka_run_group_tests(tests, files_setup, files_teardown);
}
