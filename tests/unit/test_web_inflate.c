/* Deflate as pages' modules read it (web/deps): what zlib packs comes back, and of damaged data zlib's verdict. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <zlib.h>

int web_inflate_init(z_streamp z, int window_bits, const char *version, int size);
int web_inflate(z_streamp z, int flush);
int web_inflate_end(z_streamp z);
uLong web_crc32(uLong crc, const Bytef *data, z_size_t size);
#define inflateInit2_ web_inflate_init
#define inflate web_inflate
#define inflateEnd web_inflate_end
#define crc32_z web_crc32
#include "../../web/deps/inflate.c"
#undef inflateInit2_
#undef inflate
#undef inflateEnd
#undef crc32_z

enum { MOST = 70000 };
static uint8_t data[MOST], packed[MOST + 1000], got[MOST + 1], expected[MOST + 1];
static uint64_t state = 88172645463325252u;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* Text-like, sparse, random, and runs. */
static void fill(size_t size, int kind) {
    for (size_t i = 0; i < size; i++) {
        uint64_t x = next();
        data[i] = kind == 0   ? (uint8_t)(x % 7 * x % 23 + 'a')
                  : kind == 1 ? (uint8_t)(x % 50 ? 0 : x >> 8)
                  : kind == 2 ? (uint8_t)x
                              : (uint8_t)(i && x % 30 ? data[i - 1] : x >> 8);
    }
}

static size_t pack(size_t size, int level, int strategy) {
    z_stream z = {.next_in = data, .avail_in = (uInt)size, .next_out = packed, .avail_out = sizeof packed};
    assert_int_equal(deflateInit2(&z, level, Z_DEFLATED, -MAX_WBITS, 8, strategy), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    assert_int_equal(deflateEnd(&z), Z_OK);
    return sizeof packed - z.avail_out;
}

static bool unpack_web(size_t n, uint8_t *to, size_t size, size_t *out_left) {
    z_stream z = {.next_in = packed, .avail_in = (uInt)n, .next_out = to, .avail_out = (uInt)size};
    assert_int_equal(web_inflate_init(&z, -MAX_WBITS, ZLIB_VERSION, (int)sizeof z), Z_OK);
    int code = web_inflate(&z, Z_FINISH);
    assert_int_equal(web_inflate_end(&z), Z_OK);
    *out_left = z.avail_in;
    return code == Z_STREAM_END && z.avail_out == 0;
}

static bool unpack_zlib(size_t n, uint8_t *to, size_t size, size_t *out_left) {
    z_stream z = {.next_in = packed, .avail_in = (uInt)n, .next_out = to, .avail_out = (uInt)size};
    assert_int_equal(inflateInit2(&z, -MAX_WBITS), Z_OK);
    int code = inflate(&z, Z_FINISH);
    assert_int_equal(inflateEnd(&z), Z_OK);
    *out_left = z.avail_in;
    return code == Z_STREAM_END && z.avail_out == 0;
}

static void test_inflate(void **unused) {
    (void)unused;
    static const size_t sizes[] = {0, 1, 2, 3, 100, 4000, MOST};
    static const int strategies[] = {Z_DEFAULT_STRATEGY, Z_HUFFMAN_ONLY, Z_RLE, Z_FIXED};
    size_t left;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int kind = 0; kind < 4; kind++) {
            fill(sizes[i], kind);
            for (int level = 0; level <= 9; level += 3) {
                for (int s = 0; s < 4; s++) {
                    size_t n = pack(sizes[i], level, strategies[s]);
                    assert_true(unpack_web(n, got, sizes[i], &left));
                    assert_int_equal(left, 0);
                    assert_memory_equal(got, data, sizes[i]);
                    assert_false(unpack_web(n, got, sizes[i] + 1, &left));
                    assert_false(sizes[i] && unpack_web(n, got, sizes[i] - 1, &left));
                    assert_false(unpack_web(n - 1, got, sizes[i], &left));
                }
            }
            assert_int_equal(
                web_crc32(web_crc32(0, data, sizes[i] / 3), data + sizes[i] / 3, sizes[i] - sizes[i] / 3),
                crc32_z(0, data, sizes[i]));
        }
    }
}

/* A byte or two changed: refused, or read as zlib reads it. */
static void test_damaged(void **unused) {
    (void)unused;
    int refused = 0, read = 0;
    for (int round = 0; round < 40000; round++) {
        size_t size = next() % 300, left, left_zlib;
        fill(size, (int)(next() % 4));
        size_t n = pack(size, (int)(next() % 10), next() % 4 ? Z_DEFAULT_STRATEGY : Z_FIXED);
        for (int i = (int)(next() % 2); i >= 0; i--) {
            packed[next() % (next() % 2 ? n : n < 12 ? n : 12)] ^= (uint8_t)(1 << next() % 8);
        }
        memset(got, 0, size);
        memset(expected, 0, size);
        bool good = unpack_web(n, got, size, &left), good_zlib = unpack_zlib(n, expected, size, &left_zlib);
        assert_int_equal(good, good_zlib);
        if (good) {
            assert_memory_equal(got, expected, size);
            assert_int_equal(left, left_zlib);
        }
        refused += !good;
        read += good;
    }
    assert_true(refused > 1000 && read > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_inflate), cmocka_unit_test(test_damaged)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
