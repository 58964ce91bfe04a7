/* The kernels of quantised columns against straight loops: every instruction set that this machine has, 4 and 8 bits, f16 and f32 scales, in
 * memory that is exactly as large as it must be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "backend/cpu/quant.h"
#include "base/half.h"
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = LS_QUANT_STRIP };

static uint32_t seed;
static uint32_t bits32(void) {
    return seed = seed * 1664525u + 1013904223u;
}

/* Scales of columns: any, 1, or 1 and 1/2. */
enum { ANY, ONES, POWERS };

static ls_quant_pack pack_of(int bits, bool half, int64_t blocks, int scales) {
    ls_quant_pack w = {bits, half, blocks, aligned_alloc(64, (size_t)(COLUMNS / 16 * blocks * bits * 64)),
                       malloc((size_t)(COLUMNS * blocks) * (half ? 2 : 4))};
    for (int64_t i = 0; i < COLUMNS / 16 * blocks * bits * 64; i++) {
        w.codes[i] = (uint8_t)(bits32() >> 24);
    }
    for (int64_t i = 0; i < COLUMNS * blocks; i++) {
        if (half) {
            ((uint16_t *)w.scales)[i] = scales == ANY    ? (uint16_t)(0x3000 | (bits32() >> 22))
                                        : scales == ONES ? 0x3c00
                                                         : (uint16_t)(0x3800 + (bits32() >> 31 << 10));
        } else {
            ((float *)w.scales)[i] = scales == ANY    ? (float)(bits32() >> 8) / (1 << 24)
                                     : scales == ONES ? 1
                                                      : 1 - (float)(bits32() >> 31) / 2;
        }
    }
    return w;
}

static void drop(ls_quant_pack *w) {
    free(w->codes);
    free(w->scales);
}

static int code_at(const ls_quant_pack *w, int64_t j, int64_t k) {
    const uint8_t *block = w->codes + (j / 16 * w->blocks + k / 32) * w->bits * 64;
    int64_t c = j % 16, q = k % 32;
    return w->bits == 8 ? block[q / 4 * 64 + c * 4 + q % 4] - 128 : (block[q / 8 * 64 + c * 4 + q % 4] >> (q & 4) & 15) - 8;
}

static float number_at(const ls_quant_pack *w, int64_t j, int64_t k) {
    int64_t at = (j / 16 * w->blocks + k / 32) * 16 + j % 16;
    float d = w->half ? ls_f16_to_f32(((uint16_t *)w->scales)[at]) : ((float *)w->scales)[at];
    return (float)code_at(w, j, k) * d;
}

/* Whole numbers times powers of two, whose sums lose nothing in any order. */
static void check_fast(const ls_quant_isa *isa, LS_QUANT_MATVEC((*fast))) {
    for (int form = 0; form < 4; form++) {
        enum { BLOCKS = 21, K = BLOCKS * 32 };
        seed = 8;
        ls_quant_pack w = pack_of(form / 2 ? 8 : 4, form % 2, BLOCKS, POWERS);
        float x[K], y[COLUMNS];
        for (int k = 0; k < K; k++) {
            x[k] = (float)((int)(bits32() >> 8) % 31 - 15) * 0x1p56f;
        }
        for (int64_t j = 0; j < COLUMNS; j += isa->columns) {
            fast(&w, j, x, y + j);
        }
        for (int j = 0; j < COLUMNS; j++) {
            double sum = 0;
            for (int k = 0; k < K; k++) {
                sum += (double)x[k] * number_at(&w, j, k);
            }
            assert_true(y[j] == (float)sum);
        }
        drop(&w);
    }
}

static void check_isa(const ls_quant_isa *isa) {
    for (int form = 0; form < 4; form++) {
        enum { BLOCKS = 35, K = BLOCKS * 32, PART = 50 };
        seed = 7;
        ls_quant_pack w = pack_of(form / 2 ? 8 : 4, form % 2, BLOCKS, ANY);
        float x[K], y[COLUMNS], *panel = malloc(sizeof(float) * PART * 32);
        for (int k = 0; k < K; k++) {
            x[k] = (float)(bits32() >> 8) / (1 << 23) - 1;
        }
        for (int64_t j = 0; j < COLUMNS; j += isa->columns) {
            isa->matvec(&w, j, x, y + j);
        }
        for (int j = 0; j < COLUMNS; j++) {
            float sum = 0, chunk = 0;
            for (int k = 0; k < K; k++) {
                chunk = chunk + x[k] * number_at(&w, j, k);
                if (k % 512 == 511 || k == K - 1) {
                    sum = k < 512 ? chunk : sum + chunk;
                    chunk = 0;
                }
            }
            assert_true(y[j] == sum);
        }
        isa->unpack(&w, 32, 32, 64, PART, 32, panel);
        for (int i = 0; i < PART * 32; i++) {
            assert_true(panel[i] == number_at(&w, 32 + i % 32, 64 + i / 32));
        }
        free(panel);
        drop(&w);
    }
}

static void numbers(void **state) {
    (void)state;
    ls_cpu cpu;
    ls_cpu_detect(&cpu);
#if defined(__wasm__)
    check_isa(&ls_quant__simd128);
#else
    check_isa(&ls_quant__scalar);
#endif
#if defined(__aarch64__)
    check_isa(&ls_quant__neon);
    check_fast(&ls_quant__neon, ls_quant_fast_matvec__neon);
#elif defined(__x86_64__)
    if (cpu.has[LS_CPU_AVX2]) {
        check_isa(&ls_quant__avx2);
        check_fast(&ls_quant__avx2, ls_quant_fast_matvec__avx2);
    }
    if (cpu.has[LS_CPU_AVX512]) {
        check_isa(&ls_quant__avx512);
        check_fast(&ls_quant__avx512, ls_quant_fast_matvec__avx512);
    }
#endif
}

#if defined(__x86_64__)
/* Whole numbers, which lose nothing in 8 bits: all of them; or small ones, of which sums are exact also times a power of two for each block of a
 * row and of a column; or the largest alone, of one sign in a column and in a row: what sums in too few bits would not hold. */
enum { WHOLE = ONES, SMALL = POWERS, LARGEST };

static void check_dots(const ls_quant_dots *dots, int bits, int64_t m, int64_t k, int kind) {
    int64_t blocks = (k + 31) / 32, tiles = (m + LS_QUANT_TILE - 1) / LS_QUANT_TILE, cells = tiles * blocks * LS_QUANT_TILE;
    seed = (uint32_t)(m * 31 + k);
    ls_quant_pack w = pack_of(bits, bits == 4, blocks, kind == SMALL ? POWERS : ONES);
    ls_quant_rows a = {blocks, ls_quant_height(m), malloc((size_t)cells * 32), malloc((size_t)cells * 4), malloc((size_t)cells * 4)};
    float *x = malloc((size_t)(m * k) * 4), *c = malloc((size_t)(tiles * LS_QUANT_TILE * COLUMNS) * 4);
    for (int64_t i = 0; i < m * k; i++) {
        int most = kind == SMALL ? 15 : 127;
        x[i] = i % k % 32 == 0 ? 127 : (float)((int)(bits32() >> 8) % (2 * most + 1) - most);
        x[i] *= (float)(kind == SMALL ? 1 << (i / k + i % k / 32) % 2 : 1);
        x[i] = kind != LARGEST ? x[i] : i / k % 2 ? 127 : -127;
    }
    for (int64_t i = 0; kind == LARGEST && i < COLUMNS * blocks * 4 * bits; i++) {
        w.codes[i] = i / 4 % 16 % 3 ? 0xff : 0;
    }
    for (int64_t i = 0; i < m; i += a.height) {
        assert_true(dots->rows(&a, x, k, m, i, k, bits == 4 ? 8 : 128));
    }
    for (int64_t group = 0; group < COLUMNS / 16; group += 2) {
        dots->product(&w, group, &a, 0, m, c + group * 16, COLUMNS);
    }
    int64_t last = (m - 1) / a.height, left = m - last * a.height;
    float again[LS_QUANT_TILE * COLUMNS];
    dots->product(&w, 0, &a, last, left, again, COLUMNS);
    for (int64_t i = 0; i < left * COLUMNS; i++) {
        assert_true(i % COLUMNS >= 32 || again[i] == c[last * a.height * COLUMNS + i]);
    }
    for (int64_t i = 0; i < m * COLUMNS; i++) {
        double sum = 0;
        for (int64_t p = 0; p < k; p++) {
            sum += (double)x[i / COLUMNS * k + p] * number_at(&w, i % COLUMNS, p);
        }
        assert_true(c[i] == (float)sum);
    }
    x[m * k / 2] = __builtin_inff();
    assert_false(dots->rows(&a, x, k, m, m / 2 / a.height * a.height, k, 8));
    x[m * k / 2] = -__builtin_nanf("");
    assert_false(dots->rows(&a, x, k, m, m / 2 / a.height * a.height, k, 8));
    for (int64_t i = 0; i < m * k; i++) {
        x[i] = i % 2 ? 0 : -0x1p-101f;
    }
    assert_false(dots->rows(&a, x, k, m, 0, k, 8));
    free(a.codes), free(a.scales), free(a.begins), free(x), free(c);
    drop(&w);
}

static void check_all_dots(const ls_quant_dots *dots) {
    for (int64_t m = 1; m < 38; m += m < 9 || m == 22 ? 1 : m == 9 ? 13 : 7) {
        for (int64_t k = 20; k < 700; k += 97) {
            for (int kind = WHOLE; kind <= LARGEST; kind++) {
                check_dots(dots, 4, m, k, kind);
                check_dots(dots, 8, m, k, kind);
            }
        }
    }
}
#endif

static void dots(void **state) {
    (void)state;
    bool any = false;
#if defined(__x86_64__)
    ls_cpu cpu;
    ls_cpu_detect(&cpu);
    if (cpu.has[LS_CPU_AVX2]) {
        check_all_dots(&ls_quant_dots__avx2);
        any = true;
    }
    if (cpu.has[LS_CPU_AVX512] && cpu.avx512_vnni) {
        check_all_dots(&ls_quant_dots__avx512);
        any = true;
    }
#endif
    if (!any) {
        print_message("no products of bytes here (AVX2)\n");
        skip();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(numbers), cmocka_unit_test(dots)};
    return cmocka_run_group_tests_name("quant", tests, NULL, NULL);
}
