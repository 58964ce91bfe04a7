/* Tiles over taps that end with bounds, and lines of sums that are put where results lie (gemm_isa.h): the bits of straight loops on every instruction
 * set here that has them, whatever the extents, with what is awkward among sums and bounds; nothing beside the results is written. */
#define _DEFAULT_SOURCE

#include "base/bits.h"
#include "base/half.h"
#include "gemm_support.h"
#include <math.h>

enum { MOST_K = 40, MOST_VECTORS = 6, MOST_COLUMNS = MOST_VECTORS * 16, SHIFTS = 60, IMAGE = MOST_COLUMNS + SHIFTS, GAP = 3, ROUNDS = 400, SCALARS = 4 };

static float number(void) {
    return (float)((double)random_below(1 << 20) / (1 << 19) - 1);
}

/* A number, or what is awkward. */
static float bound(void) {
    static const float awkward[] = {0.0f, -0.0f, 0.25f, NAN, INFINITY, -INFINITY};
    return random_below(3) ? number() : awkward[random_below(6)];
}

/* A sum is never -0. */
static float sum(void) {
    static const float awkward[] = {0.0f, NAN, INFINITY, -INFINITY, 1e-40f, -1e-40f};
    const float x = random_below(3) ? number() : awkward[random_below(6)];
    return x == 0 ? 0.0f : x;
}

static float bounded(float x, const ls_bounds *b, int64_t row) {
    const float *numbers = b->scalars + row * b->n_scalars;
    x = b->after[0] < 0 ? x : x + numbers[b->after[0]];
    x = b->after[1] < 0 ? x : extreme(x, numbers[b->after[1]], true);
    return b->after[2] < 0 ? x : extreme(x, numbers[b->after[2]], false);
}

static void check_bits(float found, float expected, bool canonical, const char *what, int isa, int64_t row, int64_t column) {
    uint32_t f, e;
    expected = isnan(expected) ? ls_f32_of(LS_NAN_F32) : expected;
    memcpy(&f, &found, sizeof f);
    memcpy(&e, &expected, sizeof e);
    if (f != e && (canonical || !isnan(found) || !isnan(expected))) {
        fail_msg("%s, instruction set %d: row %d, column %d is %08x, expected %08x", what, isa, (int)row, (int)column, f, e);
    }
}

static void check_ends(const ls_gemm_kernels *kernels, bool fused, int isa) {
    const bool add = random_below(2), canonical = random_below(3), lines = fused && random_below(2);
    const int64_t n = kernels->lanes * (2 + random_below(MOST_VECTORS - 1)), ldc = n + GAP, k = lines ? random_below(MOST_K / 3 + 1) * 3 : random_below(MOST_K + 1);
    float a[MOST_K * LS_ENDS_ROWS], image[IMAGE], ends[LS_ENDS_ROWS][2], from[LS_ENDS_ROWS * (MOST_COLUMNS + GAP)];
    int64_t at[MOST_K];
    for (int64_t i = 0; i < k * LS_ENDS_ROWS; i++) {
        a[i] = number();
    }
    for (int64_t i = 0; i < k; i++) {
        at[i] = lines && i % 3 ? at[i - 1] + 1 : random_below(SHIFTS - 2);
    }
    for (int i = 0; i < IMAGE; i++) {
        image[i] = random_below(200) ? number() : sum();
    }
    for (int i = 0; i < LS_ENDS_ROWS; i++) {
        ends[i][0] = bound();
        ends[i][1] = isnan(ends[i][0]) ? 0 : bound();
        ends[i][0] = isnan(ends[i][1]) ? NAN : ends[i][0];
    }
    const size_t bytes = (size_t)((LS_ENDS_ROWS - 1) * ldc + n) * sizeof(float);
    char *memory = guarded(bytes);
    float *c = (float *)(void *)(memory + GUARD);
    for (size_t i = 0; i < bytes / sizeof *c; i++) {
        from[i] = c[i] = sum();
    }
    kernels->ends(k, n, a, at, image, c, ldc, add, canonical ? ends[0] : NULL, lines);
    for (int64_t i = 0; i < LS_ENDS_ROWS; i++) {
        for (int64_t j = 0; j < ldc && i * ldc + j < (int64_t)(bytes / sizeof *c); j++) {
            float x = 0, *kept = &from[i * ldc + j];
            if (j >= n) {
                assert_memory_equal(&c[i * ldc + j], kept, sizeof *kept);
                continue;
            }
            for (int64_t p = 0; p < k; p++) {
                const float y = a[p * LS_ENDS_ROWS + i], z = image[at[p] + j];
                x = fused ? fmaf(y, z, x) : x + y * z;
            }
            x = add ? *kept + x : x;
            x = canonical ? extreme(x + ends[i][0], ends[i][1], true) : x;
            check_bits(c[i * ldc + j], x, canonical, fused ? "tiles over taps in fast" : "tiles over taps", isa, i, j);
        }
    }
    check_guard(memory, bytes, "ends");
    free(memory);
}

static void ends(void **state) {
    (void)state;
    for (int s = 0; s < isa_count; s++) {
        for (int round = 0; isas[s]->f32->ends && round < 2 * ROUNDS; round++) {
            check_ends(isas[s]->f32, false, s);
            check_ends(isas[s]->f32_fast, true, s);
        }
    }
}

static void lines(void **state) {
    enum { ROWS = 5, LINES = 4 };
    (void)state;
    for (int s = 0; s < isa_count; s++) {
        for (int round = 0; isas[s]->moves->put_lines && round < ROUNDS; round++) {
            float scalars[ROWS * SCALARS], src[ROWS * LINES * (MOST_COLUMNS + GAP)], kept[ROWS * LINES * (MOST_COLUMNS + GAP)];
            const int64_t lanes = isas[s]->f32->lanes, n = lanes + random_below(3 * lanes), line = n + random_below(GAP);
            ls_put_lines p = {.rows = 1 + random_below(ROWS), .lines = 1 + random_below(LINES), .n = n, .src_line = line, .src_row = LINES * line,
                              .dst_line = n, .bounds = {.scalars = scalars, .n_scalars = SCALARS}};
            p.dst_row = p.lines * n + GAP;
            for (int i = 0; i < ROWS * SCALARS; i++) {
                scalars[i] = bound();
            }
            for (int i = 0; i < 3; i++) {
                p.bounds.after[i] = (int)random_below(SCALARS + 1) - 1;
            }
            for (size_t i = 0; i < sizeof src / sizeof *src; i++) {
                src[i] = sum();
            }
            const int64_t size = (p.rows - 1) * p.dst_row + p.lines * n;
            char *memory = guarded((size_t)size * sizeof(float));
            float *dst = (float *)(void *)(memory + GUARD);
            memcpy(kept, dst, (size_t)size * sizeof *dst);
            isas[s]->moves->put_lines(&p, src, dst);
            for (int64_t i = 0; i < size; i++) {
                const int64_t row = i / p.dst_row, at = i % p.dst_row;
                if (at >= p.lines * n) {
                    assert_memory_equal(&dst[i], &kept[i], sizeof *dst);
                } else {
                    check_bits(dst[i], bounded(src[row * p.src_row + at / n * line + at % n], &p.bounds, row), true, "lines", s, row, at);
                }
            }
            check_guard(memory, (size_t)size * sizeof(float), "put_lines");
            free(memory);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends),
        cmocka_unit_test(lines),
    };
    return cmocka_run_group_tests_name("taps", tests, find_isas, NULL);
}
