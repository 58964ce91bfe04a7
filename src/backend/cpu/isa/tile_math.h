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
void LS_TILE_MATH(fast_exp, f32)(void *dst, const void *a, const void *b, const void *c, int64_t n); /* tile_math_fast.c's */

#if defined(LS_ISA_AVX512)
/* What is done at once with an error function: with `by` (erf(x * times) + plus) * (by[i] * factor) * then, as in a GELU, else erf(x)
 * alone. */
typedef struct ls_erf_around {
    const float *by;
    float times, plus, factor, then;
    uintptr_t fetch; /* bytes behind x that are fetched meanwhile */
    bool second;     /* into the second-level cache */
    bool far;        /* dst goes past the caches */
} ls_erf_around;
/* As many of n lanes as are whole blocks; how many. NaN canonical. dst may be x or `by`. */
int64_t LS_TILE_NAME(ls_erf_blocks)(float *dst, const float *x, int64_t n, const ls_erf_around *around);

/* f(x + plus[0] + plus[1]) * times + more, of elements each, what is NULL left out: a gate of a recurrent cell, whose function is tanh or
 * the sigmoid of ls_tile_isa. */
typedef struct ls_gate {
    bool tanh;
    const float *x, *plus[2], *times, *more;
    float *to; /* may be any of them */
} ls_gate;
enum { LS_GATE_LANES = 128 };
/* n: a multiple of LS_GATE_LANES. NaN canonical. */
void LS_TILE_NAME(ls_gate_run)(const ls_gate *gate, int64_t n);
#endif

/* The functions that networks of f32 spend their time in take LS_TILE_MANY vectors at once (math/ops_many.inc). */
#if defined(LS_ISA_AVX2)
#define LS_TILE_MANY 2 /* of sixteen registers */
#else
#define LS_TILE_MANY 4
#endif
#if defined(LS_ISA_AVX512)
#define LS_TILE_OFTEN(X) X(exp) X(log) /* erf_fast.c has erf, gates_fast.c tanh */
#else
#define LS_TILE_OFTEN(X) X(exp) X(log) X(tanh) X(erf)
#endif
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
#endif
