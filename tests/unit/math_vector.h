/* Body of the tests that vector.h has the bits of math.h. The including test may set MATH_TARGET (a string
 * for the target attribute), MATH_CPU (the feature asked of the processor) and LS_LANES before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "math_cases.h"

#define MATH_PRAGMA_(x) _Pragma(#x)
#define MATH_PRAGMA(x) MATH_PRAGMA_(x)
#ifdef MATH_TARGET
#include <immintrin.h>
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpsabi"
MATH_PRAGMA(clang attribute push(__attribute__((target(MATH_TARGET))), apply_to = function))
#else
#pragma GCC push_options
MATH_PRAGMA(GCC target(MATH_TARGET))
#endif
#endif

#include "math/vector.h"

enum { BLOCK = 4096, SAMPLES = 1 << 20 };

#define LOOPS(name)                                                                                          \
    static void run_##name##_f32(const float *x, float *y) {                                                 \
        for (int i = 0; i < BLOCK; i += LS_LANES) {                                                          \
            ls_vf32 v;                                                                                       \
            memcpy(&v, x + i, sizeof v);                                                                     \
            v = ls_v##name##_f32(v);                                                                         \
            memcpy(y + i, &v, sizeof v);                                                                     \
        }                                                                                                    \
    }                                                                                                        \
    static void run_##name##_f64(const double *x, double *y) {                                               \
        for (int i = 0; i < BLOCK; i += LS_LANES_F64) {                                                      \
            ls_vf64 v;                                                                                       \
            memcpy(&v, x + i, sizeof v);                                                                     \
            v = ls_v##name##_f64(v);                                                                         \
            memcpy(y + i, &v, sizeof v);                                                                     \
        }                                                                                                    \
    }
LS_MATH_UNARY(LOOPS)

static void run_pow_f32(const float *x, const float *e, float *y) {
    for (int i = 0; i < BLOCK; i += LS_LANES) {
        ls_vf32 v, w;
        memcpy(&v, x + i, sizeof v);
        memcpy(&w, e + i, sizeof w);
        v = ls_vpow_f32(v, w);
        memcpy(y + i, &v, sizeof v);
    }
}

static void run_pow_f64(const double *x, const double *e, double *y) {
    for (int i = 0; i < BLOCK; i += LS_LANES_F64) {
        ls_vf64 v, w;
        memcpy(&v, x + i, sizeof v);
        memcpy(&w, e + i, sizeof w);
        v = ls_vpow_f64(v, w);
        memcpy(y + i, &v, sizeof v);
    }
}

#ifdef MATH_TARGET
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

static const struct {
    const char *name;
    float (*f32)(float);
    double (*f64)(double);
    void (*v32)(const float *, float *);
    void (*v64)(const double *, double *);
} loops[] = {
#define LOOP_ROW(name) {#name, ls_##name##_f32, ls_##name##_f64, run_##name##_f32, run_##name##_f64},
    LS_MATH_UNARY(LOOP_ROW)};
enum { LOOP_COUNT = sizeof loops / sizeof *loops };

static int available(void) {
#ifdef MATH_CPU
    return __builtin_cpu_supports(MATH_CPU) != 0;
#else
    return 1;
#endif
}

static void vectors_have_the_bits_of_scalars(void **state) {
    (void)state;
    if (!available()) {
        print_message("this processor has not the instruction set\n");
        skip();
    }
    float x[BLOCK], y[BLOCK];
    double xd[BLOCK], yd[BLOCK];
    uint64_t count = 0;
    for (int k = 0; k < LOOP_COUNT; k++) {
        ls_rng rng = {.key = ls_rng_key(3, (uint64_t)k)};
        for (uint64_t n = 0; n < SAMPLES; n += BLOCK) {
            for (int i = 0; i < BLOCK; i++) {
                x[i] = math_sample32(n + (uint64_t)i, &rng);
            }
            loops[k].v32(x, y);
            for (int i = 0; i < BLOCK; i++, count++) {
                float want = loops[k].f32(x[i]);
                if (bits_of(y[i]) != bits_of(want)) {
                    fail_msg("%s(%a) in f32 is %a, as a vector %a", loops[k].name, x[i], want, y[i]);
                }
            }
            if (n >= SAMPLES / 4) {
                continue;
            }
            for (int i = 0; i < BLOCK; i++) {
                xd[i] = math_sample64(n + (uint64_t)i, &rng);
            }
            loops[k].v64(xd, yd);
            for (int i = 0; i < BLOCK; i++, count++) {
                double want = loops[k].f64(xd[i]);
                if (bits_of_double(yd[i]) != bits_of_double(want)) {
                    fail_msg("%s(%a) in f64 is %a, as a vector %a", loops[k].name, xd[i], want, yd[i]);
                }
            }
        }
    }
    print_message("%d f32 and %d f64 lanes, %llu values\n", LS_LANES, LS_LANES_F64,
                  (unsigned long long)count);
}

static void vector_pow_has_the_bits_of_scalars(void **state) {
    (void)state;
    if (!available()) {
        skip();
    }
    float x[BLOCK], e[BLOCK], y[BLOCK];
    double xd[BLOCK], ed[BLOCK], yd[BLOCK];
    ls_rng rng = {.key = ls_rng_key(3, 100)};
    for (uint64_t n = 0; n < SAMPLES; n += BLOCK) {
        for (int i = 0; i < BLOCK; i++) {
            x[i] = math_sample32(n + (uint64_t)i, &rng);
            e[i] = math_sample32((n + (uint64_t)i) * 7919 % SAMPLES, &rng);
            xd[i] = math_sample64(n + (uint64_t)i, &rng);
            ed[i] = math_sample64((n + (uint64_t)i) * 7919 % SAMPLES, &rng);
        }
        run_pow_f32(x, e, y);
        run_pow_f64(xd, ed, yd);
        for (int i = 0; i < BLOCK; i++) {
            if (bits_of(y[i]) != bits_of(ls_pow_f32(x[i], e[i]))) {
                fail_msg("pow(%a, %a) in f32 is not %a", x[i], e[i], y[i]);
            }
            if (bits_of_double(yd[i]) != bits_of_double(ls_pow_f64(xd[i], ed[i]))) {
                fail_msg("pow(%a, %a) in f64 is not %a", xd[i], ed[i], yd[i]);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors_have_the_bits_of_scalars),
        cmocka_unit_test(vector_pow_has_the_bits_of_scalars),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
