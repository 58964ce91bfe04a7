/* The kernels of depthwise convolutions, alone: on whole numbers every order and rounding gives the same sums, so locked and fast
 * kernels are held to the same plain loops, with NaN where nothing may be read and a mark where nothing may be written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "backend/cpu/gemm_isa.h"
#include "base/rng.h"
#include <stdlib.h>
#include <string.h>

enum { SIDE = 80, ROOM = 8 * SIDE, MARK = 12345, SCALARS = 3 };

typedef struct plane {
    float image[5 * SIDE * SIDE + 2 * ROOM], filter[4 * LS_DEPTHWISE_TAPS * LS_DEPTHWISE_TAPS];
    float out[4 * SIDE * SIDE + 2 * ROOM], scalars[4 * SCALARS];
} plane;

static float expected(const ls_depthwise *d, const float *image, const float *filter, int64_t r, int64_t j) {
    float sum = 0;
    for (int64_t i = 0; i < d->taps[0]; i++) {
        for (int64_t t = 0; t < d->taps[1]; t++) {
            int64_t v = d->stride[0] * r + d->step[0] * i, u = d->stride[1] * j + d->step[1] * t;
            if (v >= d->low[0] && v < d->high[0] && u >= d->low[1] && u < d->high[1]) {
                sum += filter[i * d->taps[1] + t] * image[v * d->line + u];
            }
        }
    }
    return sum;
}

static float bounded(const ls_depthwise *d, const float *scalars, float sum) {
    sum += d->bounds.after[0] < 0 ? 0 : scalars[d->bounds.after[0]];
    sum = d->bounds.after[1] >= 0 && sum < scalars[d->bounds.after[1]] ? scalars[d->bounds.after[1]] : sum;
    return d->bounds.after[2] >= 0 && sum > scalars[d->bounds.after[2]] ? scalars[d->bounds.after[2]] : sum;
}

static int64_t below(ls_rng *rng, int64_t n) {
    return (int64_t)ls_rng_below(rng, (uint64_t)n);
}

static ls_depthwise geometry(ls_rng *rng) {
    ls_depthwise d = {.rows = 1 + below(rng, 20), .columns = 1 + below(rng, 40), .line = SIDE};
    bool known = below(rng, 4), by_two = below(rng, 2);
    int64_t taps = 3 + 2 * below(rng, 3);
    d.columns = below(rng, 2) ? d.columns : 1 + below(rng, 8); /* planes in halves of vectors */
    d.columns = below(rng, 4) ? d.columns : 8 + 8 * below(rng, 5); /* whole vectors */
    for (int i = 0; i < 2; i++) {
        d.taps[i] = known ? taps : 1 + below(rng, i ? 16 : 6);
        d.stride[i] = known ? 1 + by_two : 1 + below(rng, i ? 2 : 3);
        d.step[i] = known ? 1 : below(rng, 4) ? 1 + below(rng, 2) : -1;
        int64_t extent = i ? d.columns : d.rows, span = d.stride[i] * (extent - 1) + d.step[i] * (d.taps[i] - 1);
        d.low[i] = (d.step[i] < 0 ? -d.taps[i] : 0) + below(rng, 4);
        d.high[i] = d.low[i] + 1 + below(rng, span < 4 ? 4 : span);
        d.high[i] = below(rng, 2) && span - 1 > d.low[i] ? span + 1 - below(rng, 3) : d.high[i]; /* some taps alone beyond the end */
        d.high[i] = d.high[i] > SIDE ? SIDE : d.high[i];
    }
    d.out_line = d.columns + below(rng, 3);
    d.planes = 1 + below(rng, 4);
    d.image_plane = SIDE * SIDE;
    d.filter_plane = d.taps[0] * d.taps[1];
    d.out_plane = d.rows * d.out_line + below(rng, 20);
    d.bounds.n_scalars = SCALARS;
    for (int i = 0; i < 3; i++) {
        d.bounds.after[i] = below(rng, 2) ? (int)below(rng, SCALARS) : -1;
    }
    d.by_lines = below(rng, 2);
    return d;
}

static void check_kernel(ls_depthwise_kernel kernel, const char *what, plane *p) {
    for (uint64_t seed = 1; seed < 4000; seed++) {
        ls_rng rng = {ls_rng_key(seed, 0), 0};
        ls_depthwise d = geometry(&rng);
        float *image = p->image + ROOM + SIDE, *out = p->out + ROOM;
        for (int i = 0; i < 4 * SCALARS; i++) {
            p->scalars[i] = (float)(below(&rng, 401) - 200);
        }
        d.bounds.scalars = p->scalars;
        for (size_t i = 0; i < sizeof p->image / 4; i++) {
            p->image[i] = __builtin_nanf("");
        }
        for (int64_t v = d.low[0]; v < d.high[0]; v++) {
            for (int64_t u = d.low[1]; u < d.high[1]; u++) {
                for (int64_t q = 0; q < d.planes; q++) {
                    image[q * d.image_plane + v * d.line + u] = (float)(below(&rng, 17) - 8);
                }
            }
        }
        for (size_t i = 0; i < sizeof p->filter / 4; i++) {
            p->filter[i] = (float)(below(&rng, 17) - 8);
        }
        for (size_t i = 0; i < sizeof p->out / 4; i++) {
            p->out[i] = MARK;
        }
        kernel(&d, image, p->filter, out);
        for (int64_t i = -ROOM; i < 4 * SIDE * SIDE + ROOM; i++) {
            int64_t q = i / d.out_plane, r = i % d.out_plane / d.out_line, j = i % d.out_plane % d.out_line;
            bool own = i >= 0 && q < d.planes && r < d.rows && j < d.columns;
            float want = MARK;
            if (own) {
                want = bounded(&d, p->scalars + q * SCALARS, expected(&d, image + q * d.image_plane, p->filter + q * d.filter_plane, r, j));
            }
            if (out[i] != want) {
                fail_msg("%s, seed %llu: element %lld is %g, not %g", what, (unsigned long long)seed, (long long)i, (double)out[i],
                         (double)want);
            }
        }
    }
}

static void kernels(void **state) {
    (void)state;
    plane *p = malloc(sizeof *p);
    int n = 0;
    assert_non_null(p);
    ls_cpu cpu;
    ls_cpu_detect(&cpu);
    for (int i = 0; i < LS_CPU_ISA_COUNT; i++) {
        const ls_gemm_isa *isa = ls_gemm_isa_get((ls_cpu_isa)i);
        if (isa && cpu.has[i] && isa->f32->depthwise) {
            check_kernel(isa->f32->depthwise, ls_cpu_isa_name(isa->isa), p);
            check_kernel(isa->f32_fast->depthwise, "fast", p);
            n++;
        }
    }
    free(p);
    print_message("%d instruction sets\n", n);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels)};
    return cmocka_run_group_tests_name("depthwise", tests, NULL, NULL);
}
