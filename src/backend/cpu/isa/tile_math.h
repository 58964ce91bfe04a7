/* The elementary functions over tiles (tile_math.c). */
#ifndef LOCKSTEP_BACKEND_CPU_ISA_TILE_MATH_H
#define LOCKSTEP_BACKEND_CPU_ISA_TILE_MATH_H

#include "backend/cpu/isa/tile_isa.h"
#include "math/math.h"

#define LS_TILE_MATH(name, tag) LS_TILE_NAME(ls_tile_##name##_##tag)
#define LS_TILE_MATH_DECLARE(name)                                                                           \
    void LS_TILE_MATH(name, f32)(void *dst, const void *a, const void *b, const void *c, int64_t n);         \
    void LS_TILE_MATH(name, f64)(void *dst, const void *a, const void *b, const void *c, int64_t n);
LS_MATH_UNARY(LS_TILE_MATH_DECLARE)
LS_TILE_MATH_DECLARE(pow)
#undef LS_TILE_MATH_DECLARE

/* The functions that networks of f32 spend their time in take LS_TILE_MANY vectors at once (math/ops_many.inc). */
#if defined(LS_ISA_AVX2)
#define LS_TILE_MANY 2 /* of sixteen registers */
#else
#define LS_TILE_MANY 4
#endif
#define LS_TILE_OFTEN(X) X(exp) X(log) X(tanh) X(erf)
#define LS_TILE_SELDOM(X)                                                                                    \
    X(exp2)                                                                                                  \
    X(expm1) X(log2) X(log1p) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(erfc) X(sqrt)   \
        X(rsqrt) X(cbrt) X(floor) X(ceil) X(trunc) X(rint)
/* The last lanes go by way of a block of their own. */
#define LS_TILE_SEVERAL(name)                                                                                \
    void LS_TILE_MATH(name, f32)(void *dst, const void *a, const void *b, const void *c, int64_t n) {        \
        enum { WIDTH = (int)(sizeof(ls_mf32) / sizeof(float)) };                                             \
        float *d = dst;                                                                                      \
        const float *x = a;                                                                                  \
        int64_t i = 0;                                                                                       \
        for (; i + WIDTH <= n; i += WIDTH) {                                                                 \
            ls_many_store(d + i, ls_m##name##_f32(ls_many_load(x + i)));                                     \
        }                                                                                                    \
        if (i < n) {                                                                                         \
            float part[WIDTH] = {0};                                                                         \
            memcpy(part, x + i, (size_t)(n - i) * sizeof *x);                                                \
            LS_TILE_MATH(name, f32)(part, part, b, c, WIDTH);                                                \
            memcpy(d + i, part, (size_t)(n - i) * sizeof *x);                                                \
        }                                                                                                    \
    }
/* Of x - minus, and their sum: lanes that go to the same partials one after another, which stay in registers meanwhile. */
#define LS_TILE_FOLD_OF(name)                                                                                \
    void LS_TILE_NAME(ls_tile_fold_##name)(float *partials, float *dst, const float *x, float minus, int64_t n, bool first, bool fetches) { \
        enum { WIDTH = (int)(sizeof(ls_mf32) / sizeof(float)) };                                             \
        const ls_mf32 apart = ls_many_c((ls_many_v){0} + minus);                                             \
        const uintptr_t ahead = fetches ? LS_FETCH_AHEAD : 0;                                                \
        for (int64_t at = 0; at < LS_TILE_PARTIALS; at += WIDTH) {                                           \
            ls_mf32 sum = ls_many_c((ls_many_v){0});                                                         \
            int64_t i = at;                                                                                  \
            if (!first) {                                                                                    \
                sum = ls_many_load(partials + at);                                                           \
            }                                                                                                \
            for (; i + WIDTH <= n; i += LS_TILE_PARTIALS) {                                                  \
                ls_mf32 v = ls_m##name##_f32(ls_many_sub(ls_many_load(x + i), apart));                       \
                ls_many_store(dst + i, v);                                                                   \
                for (int k = 0; k < WIDTH; k += 16) { /* it may be the result, past the caches */            \
                    __builtin_prefetch((const void *)((uintptr_t)(dst + i + k) + ahead));                    \
                }                                                                                            \
                sum = ls_many_add(sum, v);                                                                   \
            }                                                                                                \
            ls_many_store(partials + at, sum);                                                               \
            if (i < n) {                                                                                     \
                float part[WIDTH] = {0}, sums[LS_TILE_PARTIALS];                                             \
                memcpy(part, x + i, (size_t)(n - i) * sizeof *x);                                            \
                LS_TILE_NAME(ls_tile_fold_##name)(sums, part, part, minus, WIDTH, true, false);              \
                memcpy(dst + i, part, (size_t)(n - i) * sizeof *x);                                          \
                for (int64_t k = i; k < n; k++) {                                                            \
                    partials[k % LS_TILE_PARTIALS] += dst[k];                                                \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }

#endif
