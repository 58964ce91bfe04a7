/* The base library without threads and files: errors, heap, arenas, arrays, maps, text, halves, random bits, hashes,
 * dtypes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/crc.h"
#include "base/half.h"
#include "base/map.h"
#include "base/os.h"
#include "base/pages.h"
#include "base/rng.h"
#include "base/sha256.h"
#include "base/status.h"
#include "base/text.h"
#include <lockstep/dtype.h>
#include <lockstep/version.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>

static ls_status inner(ls_error *err, int n) {
    if (n < 0) {
        return LS_FAIL(err, LS_ERR_INVALID, "n is %d, expected at least 0", n);
    }
    return LS_OK;
}

static ls_status outer(ls_error *err, int n) {
    LS_TRY(err, inner(err, n));
    return LS_OK;
}

static void status_keeps_first_failure(void **state) {
    (void)state;
    ls_error err = {0};
    assert_int_equal(outer(&err, 1), LS_OK);
    assert_int_equal(err.code, LS_OK);
    assert_int_equal(outer(&err, -4), LS_ERR_INVALID);
    assert_string_equal(err.message, "n is -4, expected at least 0");
    assert_int_equal(err.trail_len, 2);
#ifndef LS_NO_TRAIL
    assert_true(err.trail[1].line > err.trail[0].line);
#endif
    assert_int_equal(LS_FAIL(&err, LS_ERR_IO, "later"), LS_ERR_IO);
    assert_int_equal(err.code, LS_ERR_INVALID);
    assert_string_equal(err.message, "n is -4, expected at least 0");
    for (int i = 0; i < 2 * LS_TRAIL_MAX; i++) {
        ls_error_forward(&err, LS_ERR_INVALID, "f", i);
    }
    assert_int_equal(err.trail_len, LS_TRAIL_MAX);
    assert_int_equal(outer(NULL, -1), LS_ERR_INVALID);
    ls_error_clear(&err);
    assert_int_equal(err.code, LS_OK);
    char big[3000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = 0;
    (void)LS_FAIL(&err, LS_ERR_IO, "%s", big);
    assert_int_equal(strlen(err.message), LS_MESSAGE_MAX - 1);
    assert_string_equal(ls_status_name(LS_ERR_INTERNAL), "internal");
    assert_string_equal(ls_status_name((ls_status)99), "unknown");
    assert_string_equal(ls_version(), LS_VERSION);
}

typedef struct tally {
    long live;
    size_t bytes;
} tally;

static void *tally_alloc(void *user, size_t size, size_t align) {
    tally *t = user;
    t->live++;
    t->bytes += size;
    return aligned_alloc(align, size);
}

static void tally_free(void *user, void *ptr, size_t size, size_t align) {
    tally *t = user;
    (void)align;
    t->live--;
    t->bytes -= size;
    free(ptr);
}

static void heap_accounts_and_limits(void **state) {
    (void)state;
    tally t = {0};
    ls_allocator allocator = {tally_alloc, tally_free, &t};
    ls_heap heap;
    ls_heap_init(&heap, &allocator, 10000);
    char *a = ls_alloc(&heap, 1), *b = ls_alloc(&heap, 0);
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal((uintptr_t)a % LS_ALIGN, 0);
    assert_null(ls_alloc(&heap, 20000));
    assert_null(ls_alloc(&heap, SIZE_MAX - 3));
    char *z = ls_alloc_zeroed(&heap, 300);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(z[i], 0);
        z[i] = (char)i;
    }
    assert_null(ls_realloc(&heap, z, 50000));
    z = ls_realloc(&heap, z, 600);
    for (int i = 0; i < 300; i++) {
        assert_int_equal(z[i], (char)i);
    }
    z = ls_realloc(&heap, z, 10);
    assert_int_equal(z[9], 9);
    assert_int_equal(atomic_load(&heap.used), t.bytes);
    assert_true(atomic_load(&heap.peak) > t.bytes);
    ls_free(&heap, a);
    ls_free(&heap, b);
    ls_free(&heap, z);
    ls_free(&heap, NULL);
    assert_int_equal(t.live, 0);
    assert_int_equal(atomic_load(&heap.used), 0);
    size_t v;
    assert_false(ls_size_mul(SIZE_MAX / 2, 3, &v));
    assert_false(ls_size_add(SIZE_MAX, 1, &v));
    assert_true(ls_size_mul(6, 7, &v) && v == 42);
}

static void large_blocks_are_kept_by_size(void **state) {
    (void)state;
    if (ls_pages_from == SIZE_MAX) {
        skip();
    }
    ls_heap heap;
    ls_heap_init(&heap, NULL, 64 << 20);
    heap.keeps = true;
    size_t sizes[] = {ls_pages_from, ls_pages_from + 5000, 9 << 20};
    char *blocks[3];
    for (int i = 0; i < 3; i++) {
        blocks[i] = ls_alloc(&heap, sizes[i]);
        assert_int_equal((uintptr_t)blocks[i] % LS_ALIGN, 0);
        blocks[i][0] = blocks[i][sizes[i] - 1] = (char)i;
    }
    for (int i = 0; i < 3; i++) {
        ls_free(&heap, blocks[i]);
    }
    assert_int_equal(atomic_load(&heap.used), 0);
    assert_null(ls_alloc(&heap, 65 << 20));
    assert_null(ls_alloc(&heap, SIZE_MAX - 3));
    /* The last two were kept, each for its size alone. */
    char *other = ls_alloc(&heap, sizes[1] - 4096), *same = ls_alloc(&heap, sizes[1]), *largest = ls_alloc(&heap, sizes[2]);
    assert_ptr_not_equal(other, blocks[1]);
    assert_ptr_equal(same, blocks[1]);
    assert_ptr_equal(largest, blocks[2]);
    other[sizes[1] - 4097] = 1;
    ls_free(&heap, other);
    ls_free(&heap, same);
    ls_free(&heap, largest);
    ls_heap_end(&heap);
    for (size_t i = 0; i < sizeof heap.kept / sizeof *heap.kept; i++) {
        assert_null(atomic_load(&heap.kept[i]));
    }
}

static bool key_equal(const void *a, const void *b) {
    return *(const uint64_t *)a == *(const uint64_t *)b;
}

/* Uses every container once; false when any allocation failed. */
static bool use_everything(ls_heap *heap) {
    bool ok = true;
    LS_ARRAY(int) array = {0};
    for (int i = 0; i < 100; i++) {
        ok = ls_array_push(heap, &array, i) && ok;
    }
    for (size_t i = 1; ok && i < array.len; i++) {
        ok = array.data[i] == (int)i;
    }
    ls_array_free(heap, &array);
    ls_arena arena;
    ls_arena_init(&arena, heap);
    ok = ls_arena_printf(&arena, "%d", 5) && ok;
    ok = ls_arena_alloc(&arena, 100000) && ok;
    ok = ls_arena_copy(&arena, "abc", 4) && ok;
    ls_arena_free(&arena);
    static uint64_t keys[40];
    ls_map map;
    ls_map_init(&map, heap, key_equal);
    for (int i = 0; i < 40; i++) {
        keys[i] = (uint64_t)i;
        ok = ls_map_put(&map, ls_hash_u64(keys[i], 0), &keys[i], &keys[i]) && ok;
    }
    ls_map_free(&map);
    ls_text text;
    ls_text_init(&text, heap);
    for (int i = 0; i < 40; i++) {
        ls_text_printf(&text, "line %d\n", i);
    }
    ok = !text.failed && ok;
    ls_text_free(&text);
    char *copy = ls_strdup(heap, "text");
    ok = copy && ok;
    ls_free(heap, copy);
    return ok;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    tally t = {0};
    ls_allocator allocator = {tally_alloc, tally_free, &t};
    ls_heap heap;
    ls_heap_init(&heap, &allocator, 0);
    int failures = 0;
    for (long n = 0;; n++) {
        atomic_store(&heap.fail_after, n);
        bool ok = use_everything(&heap);
        bool reached = atomic_load(&heap.fail_after) < 0;
        assert_int_equal(t.live, 0);
        if (!reached) {
            assert_true(ok);
            break;
        }
        assert_false(ok);
        failures++;
    }
    assert_true(failures > 10);
}

static void arena_aligns_and_zeroes(void **state) {
    (void)state;
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    ls_arena arena;
    ls_arena_init(&arena, &heap);
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 3000; i++) {
            unsigned char *p = ls_arena_alloc(&arena, i % 97);
            assert_int_equal((uintptr_t)p % 16, 0);
            for (size_t j = 0; j < i % 97; j++) {
                assert_int_equal(p[j], 0);
                p[j] = 0xff;
            }
        }
        assert_null(ls_arena_alloc(&arena, SIZE_MAX - 4));
        assert_null(LS_ARENA_ARRAY(&arena, uint64_t, SIZE_MAX / 8 + 2));
        assert_string_equal(ls_arena_printf(&arena, "%s-%d", "x", 12), "x-12");
        ls_arena_free(&arena);
        assert_int_equal(atomic_load(&heap.used), 0);
    }
}

static void map_against_a_plain_table(void **state) {
    (void)state;
    enum { N = 4096 };
    static uint64_t keys[N];
    static void *plain[N];
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    ls_map map;
    ls_map_init(&map, &heap, key_equal);
    ls_rng rng = {7, 0};
    size_t live = 0;
    for (size_t i = 0; i < N; i++) {
        keys[i] = i * 977;
    }
    for (int step = 0; step < 200000; step++) {
        size_t i = ls_rng_below(&rng, N);
        uint64_t hash = ls_hash_u64(keys[i], 0) & 0x3f1; /* many collisions: keys decide, not hashes */
        uint64_t probe = keys[i];
        assert_ptr_equal(ls_map_get(&map, hash, &probe), plain[i]);
        if (plain[i]) {
            assert_ptr_equal(ls_map_remove(&map, hash, &probe), plain[i]);
            plain[i] = NULL;
            live--;
        } else if (live < 300) {
            plain[i] = &plain[ls_rng_below(&rng, N)];
            assert_true(ls_map_put(&map, hash, &keys[i], plain[i]));
            live++;
        }
        assert_int_equal(map.len, live);
    }
    assert_true(map.cap <= 2048); /* removed entries are swept */
    size_t pos = 0, seen = 0;
    while (ls_map_next(&map, &pos)) {
        seen++;
    }
    assert_int_equal(seen, live);
    ls_map_free(&map);
    assert_int_equal(atomic_load(&heap.used), 0);
    assert_true(ls_hash("abc", 3, 0) != ls_hash("abc\0", 4, 0));
    assert_true(ls_hash("abc", 3, 0) != ls_hash("abc", 3, 1));
    /* a literal: the same on every machine, in every version that keeps its caches */
    assert_true(ls_hash("lockstep", 8, 1) == 0xb45cb9b6e7b88951u);
}

static void text_numbers(void **state) {
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{0, "0.0"},
                 {-0.0, "-0.0"},
                 {1, "1.0"},
                 {0.1, "0.1"},
                 {1e30, "1.0e+30"},
                 {1.5e-7, "1.5e-07"},
                 {1.0 / 3, "0.3333333333333333"},
                 {5e-324, "5.0e-324"},
                 {INFINITY, "inf"},
                 {-INFINITY, "-inf"},
                 {NAN, "nan"},
                 {123456789, "123456789.0"},
                 {0.1f, "0.10000000149011612"}};
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    /* a host that set a comma must not change a file */
    const char *comma = setlocale(LC_ALL, "de_DE.UTF-8");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_text text;
        ls_text_init(&text, &heap);
        ls_text_double(&text, cases[i].value);
        assert_string_equal(text.data, cases[i].text);
        ls_text_free(&text);
    }
    ls_rng rng = {3, 0};
    for (int i = 0; i < 3000; i++) {
        uint64_t bits = ls_rng_u64(&rng);
        double value, back;
        memcpy(&value, &bits, sizeof value);
        ls_text text;
        ls_text_init(&text, &heap);
        ls_text_double(&text, value);
        assert_true(ls_parse_double(text.data, &back));
        assert_true(value != value ? back != back : !memcmp(&value, &back, sizeof value));
        ls_text_free(&text);
    }
    if (comma) {
        setlocale(LC_ALL, "C");
    }
    double d;
    static const char *const bad[] = {"", " 1", "1 ", "1,5", "x", "-", "1e", "1e999", "--1", "."};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(ls_parse_double(bad[i], &d));
    }
    assert_true(ls_parse_double("-1.5e3", &d) && d == -1500);
    assert_true(ls_parse_double(".5", &d) && d == 0.5);
    int64_t v;
    assert_true(ls_parse_i64("-9223372036854775808", &v) && v == INT64_MIN);
    assert_true(ls_parse_i64("9223372036854775807", &v) && v == INT64_MAX);
    assert_true(ls_parse_i64("+12", &v) && v == 12);
    static const char *const bad_int[] = {"",   "-", "9223372036854775808", "-9223372036854775809", "1.0",
                                          " 1", "1x"};
    for (size_t i = 0; i < sizeof bad_int / sizeof *bad_int; i++) {
        assert_false(ls_parse_i64(bad_int[i], &v));
    }
}

/* The nearest f16 or bf16 to x by search over exact values in double: an independent reading of the rule. */
typedef float (*widen_fn)(uint16_t);

static uint16_t nearest(double x, widen_fn widen, uint16_t inf, double limit) {
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    double mag = fabs(x);
    if (isnan(x)) {
        return (uint16_t)(inf | (inf == 0x7c00 ? 0x200 : 0x40));
    }
    if (mag >= limit) { /* halfway between the largest finite value and the next power of two */
        return sign | inf;
    }
    uint16_t low = 0, high = (uint16_t)(inf - 1);
    while (low < high) { /* the last value not above mag */
        uint16_t mid = (uint16_t)((low + high + 1) / 2);
        if ((double)widen(mid) <= mag) {
            low = mid;
        } else {
            high = (uint16_t)(mid - 1);
        }
    }
    if (low == inf - 1) {
        return sign | low;
    }
    double below = mag - (double)widen(low), above = (double)widen((uint16_t)(low + 1)) - mag;
    return (uint16_t)(sign | (below < above || (below == above && !(low & 1)) ? low : low + 1));
}

static void check_narrow(double x) {
    float f = (float)x;
    assert_int_equal(ls_f64_to_f16(x), nearest(x, ls_f16_to_f32, 0x7c00, 65520.0));
    assert_int_equal(ls_f64_to_bf16(x), nearest(x, ls_bf16_to_f32, 0x7f80, 0x1.ffp127));
    assert_int_equal(ls_f32_to_f16(f), nearest(f, ls_f16_to_f32, 0x7c00, 65520.0));
    assert_int_equal(ls_f32_to_bf16(f), nearest(f, ls_bf16_to_f32, 0x7f80, 0x1.ffp127));
}

static double half_value(uint16_t h) { /* by the formula of IEEE 754, without bits of f32 */
    double sign = h & 0x8000 ? -1 : 1;
    int e = (h >> 10) & 31, m = h & 0x3ff;
    if (e == 31) {
        return m ? NAN : sign * INFINITY;
    }
    return e ? sign * ldexp(1024 + m, e - 25) : sign * ldexp(m, -24);
}

static void halves_exhaustive(void **state) {
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t h = (uint16_t)i;
        float f = ls_f16_to_f32(h), b = ls_bf16_to_f32(h);
        double want = half_value(h);
        if (isnan(want)) {
            uint32_t bits;
            memcpy(&bits, &f, 4);
            assert_int_equal(bits, LS_NAN_F32);
            assert_int_equal(ls_f32_to_f16(f), LS_NAN_F16);
        } else {
            assert_true((double)f == want && !signbit(f) == !signbit(want));
            assert_int_equal(ls_f32_to_f16(f), h);
            assert_int_equal(ls_f64_to_f16(want), h);
        }
        uint32_t bits, bf = i << 16;
        memcpy(&bits, &b, 4);
        if ((i & 0x7fff) > 0x7f80) {
            assert_int_equal(bits, LS_NAN_F32);
        } else {
            assert_int_equal(bits, bf);
            assert_int_equal(ls_f32_to_bf16(b), h);
            assert_int_equal(ls_f64_to_bf16(b), h);
        }
        /* the midpoint to the next value, and a hair to both sides, in f32 and in f64 */
        uint16_t next = (uint16_t)(h + 1);
        if ((h & 0x7fff) < 0x7bff) {
            double mid = (half_value(h) + half_value(next)) / 2;
            check_narrow(mid);
            check_narrow(nextafter(mid, INFINITY));
            check_narrow(nextafter(mid, -INFINITY));
            check_narrow((double)nextafterf((float)mid, INFINITY));
            check_narrow((double)nextafterf((float)mid, -INFINITY));
        }
        if ((h & 0x7fff) < 0x7f7f) {
            double mid = ((double)b + (double)ls_bf16_to_f32(next)) / 2;
            check_narrow(mid);
            check_narrow(nextafter(mid, INFINITY));
            check_narrow(nextafter(mid, -INFINITY));
        }
    }
    static const double edges[] = {65504,
                                   65519.999,
                                   65520,
                                   -65520,
                                   1e300,
                                   -1e300,
                                   0x1p-24,
                                   0x1p-25,
                                   0x1.8p-25,
                                   0x1.fffffffffffffp-26,
                                   0x1.0000000000001p-25,
                                   -0x1p-25,
                                   0x1p-133,
                                   0x1p-134,
                                   0x1.0000000000001p-134,
                                   0x1p-1074,
                                   0x1.fep127,
                                   0x1.ffp127,
                                   0x1.fefffffffffffp127};
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
        check_narrow(edges[i]);
    }
    /* rounding to f32 first would give a tie, and the wrong neighbour */
    assert_int_equal(ls_f64_to_f16(1 + 0x1p-11 + 0x1p-40), 0x3c01);
    assert_int_equal(ls_f32_to_f16((float)(1 + 0x1p-11 + 0x1p-40)), 0x3c00);
    assert_int_equal(ls_f64_to_bf16(1 + 0x1p-8 + 0x1p-40), 0x3f81);
    assert_int_equal(ls_f32_to_bf16((float)(1 + 0x1p-8 + 0x1p-40)), 0x3f80);
    ls_rng rng = {11, 0};
    for (int i = 0; i < 200000; i++) {
        uint64_t bits = ls_rng_u64(&rng);
        uint32_t low = (uint32_t)bits;
        double x;
        float f;
        memcpy(&x, &bits, sizeof x);
        memcpy(&f, &low, sizeof f);
        check_narrow(x);
        check_narrow((double)f);
    }
}

static void threefry_known_answers(void **state) {
    (void)state;
    /* Random123's kat_vectors, threefry2x32 with 20 rounds; the second word is seen through ls_rng_u64 */
    assert_int_equal(ls_threefry(0, 0, 0), 0x6b200159);
    assert_int_equal(ls_threefry(0xffffffff, 0xffffffff, UINT64_MAX), 0x1cb996fc);
    assert_int_equal(ls_threefry(0x13198a2e, 0x03707344, 0x85a308d3243f6a88u), 0xc4923a9c);
    ls_rng zero = {0, 0}, ones = {UINT64_MAX, UINT64_MAX}, pi = {0x0370734413198a2eu, 0x85a308d3243f6a88u};
    assert_true(ls_rng_u64(&zero) == 0x99ba4efe6b200159u);
    assert_true(ls_rng_u64(&ones) == 0xbb002be71cb996fcu);
    assert_true(ls_rng_u64(&pi) == 0x483df7a0c4923a9cu);
}

static void random_streams(void **state) {
    (void)state;
    ls_rng rng = {ls_rng_key(1, 2), 0};
    assert_true(ls_rng_key(1, 2) != ls_rng_key(2, 1));
    ls_rng many = {rng.key, UINT32_MAX - 20}, single = many; /* several at once: over the end of the low word, too */
    double units[45];
    for (int round = 0; round < 3; round++) {
        ls_rng_units(&many, units, 45 - round);
        for (int i = 0; i < 45 - round; i++) {
            assert_true(units[i] == ls_rng_unit(&single));
        }
        assert_true(many.counter == single.counter);
    }
    int counts[7] = {0};
    double sum = 0, squares = 0, fourth = 0, unit = 0;
    enum { N = 70000 };
    for (int i = 0; i < N; i++) {
        counts[ls_rng_below(&rng, 7)]++;
        double u = ls_rng_unit(&rng), x = ls_rng_normal(&rng);
        assert_true(u >= 0 && u < 1);
        unit += u;
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
    }
    for (int i = 0; i < 7; i++) {
        assert_in_range(counts[i], N / 7 - 500, N / 7 + 500); /* five deviations */
    }
    assert_true(fabs(unit / N - 0.5) < 0.006);
    assert_true(fabs(sum / N) < 0.02);
    assert_true(fabs(squares / N - 1) < 0.03);
    assert_true(fabs(fourth / N - 3) < 0.2);
    assert_int_equal(ls_rng_below(&rng, 1), 0);
}

static void sha256_vectors(void **state) {
    (void)state;
    static const struct {
        const char *text, *hex;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    char hex[65], million_hex[65];
    for (size_t i = 0; i < 6; i++) { /* each twice: by the processor's instructions, where it has them, and without */
        ls_sha256 sha;
        ls_sha256_init(&sha);
        sha.portable = i >= 3;
        ls_sha256_add(&sha, cases[i % 3].text, strlen(cases[i % 3].text));
        ls_sha256_hex(&sha, hex);
        assert_string_equal(hex, cases[i % 3].hex);
    }
    static char million[1000000];
    memset(million, 'a', sizeof million);
    ls_sha256 sha;
    ls_sha256_init(&sha);
    ls_sha256_add(&sha, million, sizeof million);
    ls_sha256_hex(&sha, million_hex);
    assert_string_equal(million_hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    /* in pieces of every small size: the same */
    for (size_t piece = 1; piece < 200; piece += 7) {
        ls_sha256_init(&sha);
        sha.portable = piece % 2 == 0;
        for (size_t at = 0; at < sizeof million; at += piece) {
            ls_sha256_add(&sha, million + at, at + piece > sizeof million ? sizeof million - at : piece);
        }
        ls_sha256_hex(&sha, hex);
        assert_string_equal(hex, million_hex);
    }
}

static void crc_of_lanes(void **state) {
    (void)state;
    static uint8_t bytes[32 * 70 + 31];
    static const size_t sizes[] = {0, 1, 31, 32, 33, 32 * 33 + 7, sizeof bytes};
    char plain[LS_CRC_HEX], hex[LS_CRC_HEX];
    if (!ls_crc_lanes(true, "123456789", 9, plain)) {
        skip(); /* a page's module */
    }
    assert_string_equal(plain, "e3069283000000000000000000000000"); /* the check value of CRC-32C, and three empty lanes */
    for (size_t i = 0; i < 32; i++) {
        bytes[i] = i < 8 ? 0 : i < 16 ? 0xff : i < 24 ? (uint8_t)i : (uint8_t)(31 - i);
    }
    assert_true(ls_crc_lanes(true, bytes, 32, plain)); /* by long division, of each 8 bytes */
    assert_string_equal(plain, "8c28b28a48674bc76b72e49d80f88a52");
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)ls_hash_u64(i, 7);
    }
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        assert_true(ls_crc_lanes(true, bytes, sizes[k], plain) && ls_crc_lanes(false, bytes, sizes[k], hex));
        assert_string_equal(plain, hex);
        for (size_t i = 0; i < sizes[k]; i += 13) {
            bytes[i] ^= 1 << i % 8;
            assert_true(ls_crc_lanes(false, bytes, sizes[k], hex));
            assert_string_not_equal(plain, hex);
            bytes[i] ^= 1 << i % 8;
        }
    }
}

static void dtype_names(void **state) {
    (void)state;
    static const size_t sizes[LS_DTYPE_COUNT] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
    for (int i = 0; i < LS_DTYPE_COUNT; i++) {
        assert_int_equal(ls_dtype_size((ls_dtype)i), sizes[i]);
        assert_int_equal(ls_dtype_parse(ls_dtype_name((ls_dtype)i)), i);
    }
    assert_int_equal(ls_dtype_size(LS_DTYPE_COUNT), 0);
    assert_string_equal(ls_dtype_name(LS_DTYPE_COUNT), "?");
    assert_int_equal(ls_dtype_parse("float"), LS_DTYPE_COUNT);
    assert_string_equal(ls_dtype_name(LS_BF16), "bf16");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_keeps_first_failure),
        cmocka_unit_test(heap_accounts_and_limits),
        cmocka_unit_test(large_blocks_are_kept_by_size),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(arena_aligns_and_zeroes),
        cmocka_unit_test(map_against_a_plain_table),
        cmocka_unit_test(text_numbers),
        cmocka_unit_test(halves_exhaustive),
        cmocka_unit_test(threefry_known_answers),
        cmocka_unit_test(random_streams),
        cmocka_unit_test(sha256_vectors),
        cmocka_unit_test(crc_of_lanes),
        cmocka_unit_test(dtype_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
