/* How tiles across are stored (gemm_isa.h): sums of outputs by rows become rows of outputs, after a chain of one scalar a row, on every instruction
 * set here that has such tiles; and how some of them are summed. */
#define _DEFAULT_SOURCE

#include "base/half.h"
#include "gemm_support.h"
#include <math.h>

enum { PANELS = 3, MOST_STEPS = 3, SCALARS = 4, GAP = 5 };

static float apply(int op, float x, float y) {
    return op == LS_CHAIN_ADD   ? x + y
           : op == LS_CHAIN_SUB ? x - y
           : op == LS_CHAIN_MUL ? x * y
           : op == LS_CHAIN_MIN ? extreme(x, y, false)
                                : extreme(x, y, true);
}

/* Numbers, and what is awkward: both zeros above all. */
static float some_number(void) {
    static const float awkward[] = {0.0f, -0.0f, 0.0f, -0.0f, NAN, INFINITY, -INFINITY, 1e-40f, -1.0f, 1.0f};
    const int64_t bits = random_below(1 << 20);
    return bits % 3 == 0 ? awkward[bits / 3 % 10] : (float)((double)bits / (1 << 19) - 1);
}

/* Those that kernels of four, five and six make up. */
static int64_t some_outputs(void) {
    return random_below(4) ? 8 + random_below(LS_ACROSS_OUTPUTS - 7) : 4 + random_below(3);
}

static void stored(void **state) {
    (void)state;
    static const int ops[] = {LS_CHAIN_ADD, LS_CHAIN_SUB, LS_CHAIN_MUL, LS_CHAIN_MIN, LS_CHAIN_MAX};
    for (int s = 0; s < isa_count; s++) {
        const ls_gemm_kernels *kernels = isas[s]->f32;
        const int64_t rows = 2 * kernels->lanes;
        for (int round = 0; kernels->across && round < 400; round++) {
            static float sums[PANELS * LS_ACROSS_SUMS], kept[PANELS * LS_ACROSS_SUMS];
            const int64_t outputs = kernels->runs[3] ? LS_ACROSS_ALIKE : some_outputs(), ldc = outputs + GAP;
            const int64_t stored = kernels->runs[3] || outputs <= 8 ? 1 + random_below(outputs) : outputs;
            float scalars[PANELS * LS_ACROSS_ROWS * SCALARS], c[PANELS * LS_ACROSS_ROWS * (LS_ACROSS_OUTPUTS + GAP)];
            ls_chain_step steps[MOST_STEPS];
            const int panels = 1 + (int)random_below(PANELS), n_steps = (int)random_below(MOST_STEPS + 1);
            for (int k = 0; k < n_steps; k++) {
                steps[k] = (ls_chain_step){.op = (uint8_t)ops[random_below(5)], .kind = LS_CHAIN_SCALAR, .at = (uint8_t)random_below(SCALARS)};
            }
            for (int64_t i = 0; i < panels * rows * SCALARS; i++) {
                scalars[i] = some_number();
            }
            for (int64_t i = 0; i < panels * rows * outputs; i++) {
                sums[i] = kept[i] = some_number();
            }
            for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
                c[i] = 77;
            }
            const ls_gemm_runs t = {.ldc = ldc, .panels = panels, .sums = sums, .outputs = outputs, .stored = stored,
                                    .rows = {.steps = steps, .n_steps = n_steps, .scalars = scalars, .n_scalars = SCALARS}};
            isas[s]->moves->across(&t, c);
            for (int64_t r = 0; r < panels * rows; r++) {
                for (int64_t o = 0; o < ldc; o++) {
                    float want = o < stored ? kept[(r / rows * outputs + o) * rows + r % rows] : 77;
                    for (int k = 0; k < n_steps && o < stored; k++) {
                        want = apply(steps[k].op, want, scalars[r * SCALARS + steps[k].at]);
                    }
                    uint32_t got, expected;
                    memcpy(&got, &c[r * ldc + o], sizeof got);
                    memcpy(&expected, &want, sizeof expected);
                    expected = want != want ? LS_NAN_F32 : expected;
                    if (got != expected) {
                        fail_msg("instruction set %d, round %d, row %d, output %d: %08x instead of %08x", s, round, (int)r, (int)o, got, expected);
                    }
                }
            }
        }
    }
}

/* Small whole numbers, so that sums are exact in any order. */
static float whole_number(void) {
    return (float)(random_below(17) - 8);
}

/* Sums of tiles whose taps are side by side in lines: nothing beyond a line is used, nothing behind the image read, and lines beyond the image are left out. */
static void summed_in_lines(void **state) {
    (void)state;
    enum { LINES = 12, BEYOND = 3, K = (LINES + 2 * BEYOND) * 7, ROWS = LS_ACROSS_ROWS / 2, PITCH = 80 };
    for (int s = 0; s < isa_count; s++) {
        for (int round = 0; isas[s]->f32_fast->lines[0][3] && round < 600; round++) {
            static _Alignas(64) float a[PANELS * K * ROWS]; /* as panels are */
            static float sums[PANELS * LS_ACROSS_SUMS], kept[PANELS * LS_ACROSS_SUMS];
            const int64_t taps = round % 2 ? 3 : 7, step = 1 + random_below(2), outputs = some_outputs();
            const int64_t lines = random_below(LINES + 1), above = random_below(BEYOND), below = random_below(BEYOND), panels = 1 + random_below(PANELS);
            const int64_t low = random_below(2) * random_below(3 * step + 1), high = random_below(2) * random_below(3 * step + 1);
            const int64_t width = (outputs - 1) * step + taps, all = above + lines + below, panel = all * taps * ROWS;
            const size_t bytes = (size_t)(lines > 0 ? (lines - 1) * PITCH + width - high : 0) * sizeof(float);
            void *map;
            size_t map_size;
            float *image = (float *)(void *)before_wall(bytes, &map, &map_size), c[ROWS];
            int64_t shifts[K + 1] = {0};
            for (int64_t i = 0; i < (int64_t)(bytes / sizeof *image); i++) {
                const int64_t at = i % PITCH;
                image[i] = at < low || at >= width - high ? NAN : whole_number();
            }
            for (int64_t l = 0, p = 0; l < all; l++) {
                for (int64_t t = 0; t < taps; t++) {
                    shifts[p++] = l < above || l >= above + lines ? 1 << 30 : (l - above) * PITCH + t;
                }
            }
            for (int64_t i = 0; i < panels * panel; i++) {
                a[i] = whole_number();
            }
            for (int64_t i = 0; i < panels * outputs * ROWS; i++) {
                sums[i] = kept[i] = whole_number();
            }
            const ls_gemm_edge edges[] = {{above * taps, LS_BEYOND_ALL}, {lines * taps, 0}, {below * taps, LS_BEYOND_ALL}};
            ls_gemm_runs t = {.shifts = shifts, .k = all * taps, .panels = panels, .panel = panel, .sums = sums, .add = round % 3 > 0, .step = step,
                              .outputs = outputs, .of = isas[s]->f32_fast->lines[taps == 7], .taps = taps, .low = low, .high = high,
                              .edges = edges + !above, .n_edges = 1 + (above > 0) + (below > 0)};
            isas[s]->f32_fast->across(&t, a, image, c);
            for (int64_t i = 0; i < panels * outputs * ROWS; i++) {
                const int64_t row = i % ROWS, output = i / ROWS % outputs, own = i / ROWS / outputs;
                float want = t.add ? kept[i] : 0;
                for (int64_t p = 0; p < lines * taps; p++) {
                    const int64_t column = output * step + p % taps;
                    const float x = column < low || column >= width - high ? 0 : image[p / taps * PITCH + column];
                    want += x * a[own * panel + (above * taps + p) * ROWS + row];
                }
                if (sums[i] != want) {
                    fail_msg("instruction set %d, round %d, panel %d, output %d of %d, row %d: %g instead of %g", s, round, (int)own, (int)output,
                             (int)outputs, (int)row, (double)sums[i], (double)want);
                }
            }
            munmap(map, map_size);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(stored), cmocka_unit_test(summed_in_lines)};
    return cmocka_run_group_tests(tests, find_isas, NULL);
}
