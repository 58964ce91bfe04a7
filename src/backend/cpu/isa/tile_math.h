/* The elementary functions over tiles (tile_math.c). */
#ifndef LOCKSTEP_BACKEND_CPU_ISA_TILE_MATH_H
#define LOCKSTEP_BACKEND_CPU_ISA_TILE_MATH_H

#include "backend/cpu/chain.h"
#include "backend/cpu/isa/tile_isa.h"
#include "math/math.h"

#define LS_TILE_MATH(name, tag) LS_TILE_NAME(ls_tile_##name##_##tag)
#define LS_TILE_MATH_DECLARE(name)                                                                           \
    void LS_TILE_MATH(name, f32)(void *dst, const void *a, const void *b, const void *c, int64_t n);         \
    void LS_TILE_MATH(name, f64)(void *dst, const void *a, const void *b, const void *c, int64_t n);
LS_MATH_UNARY(LS_TILE_MATH_DECLARE)
LS_TILE_MATH_DECLARE(pow)
#undef LS_TILE_MATH_DECLARE
/* tile_math_fast.c's; gates_fast.c has what AVX-512 takes for the tanh. */
void LS_TILE_MATH(fast_exp, f32)(void *dst, const void *a, const void *b, const void *c, int64_t n);
void LS_TILE_MATH(fast_tanh, f32)(void *dst, const void *a, const void *b, const void *c, int64_t n);
void LS_TILE_MATH(fast_erf, f32)(void *dst, const void *a, const void *b, const void *c, int64_t n);

#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
/* What is done at once with an error function: with `by` (erf(x * times) + plus) * (by[i] * factor) * then, as in a GELU, else erf(x)
 * alone (AVX-512). */
typedef struct ls_erf_around {
    const float *by;
    float times, plus, factor, then;
    uintptr_t fetch; /* bytes behind x that are fetched meanwhile */
    bool second;     /* into the second-level cache */
    bool far;        /* dst goes past the caches */
} ls_erf_around;
/* As many of n lanes as are whole blocks; how many. NaN canonical. dst may be x or `by`. */
typedef int64_t ls_erf_fn(float *dst, const float *x, int64_t n, const ls_erf_around *around);
ls_erf_fn LS_TILE_NAME(ls_erf_blocks), LS_TILE_NAME(ls_fast_erf_blocks); /* the latter by AVX2 alone */
#endif

#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
/* f(x + plus[0] + plus[1]) * times + more, of elements each, what is NULL left out: a gate of a recurrent cell, whose function is tanh or
 * a sigmoid of ls_tile_isa. */
typedef struct ls_gate ls_gate;
typedef void ls_gate_fn(const ls_gate *gate, int64_t n); /* n: a multiple of LS_GATE_LANES. NaN canonical */
struct ls_gate {
    ls_gate_fn *run;
    const float *x, *plus[2], *times, *more;
    float *to; /* may be any of them */
};
ls_gate_fn LS_TILE_NAME(ls_gate_tanh), LS_TILE_NAME(ls_gate_sigmoid);
#if defined(LS_ISA_AVX512)
enum { LS_GATE_LANES = 128 };
#else
enum { LS_GATE_LANES = 16 };
ls_gate_fn LS_TILE_NAME(ls_gate_fast_tanh), LS_TILE_NAME(ls_gate_fast_sigmoid); /* tile_math_fast.c's */
#endif
#endif

/* The functions that networks of f32 spend their time in take LS_TILE_MANY vectors at once (math/ops_many.inc). */
#if defined(LS_ISA_AVX2)
#define LS_TILE_MANY 2 /* of sixteen registers */
#else
#define LS_TILE_MANY 4
#endif
#if defined(LS_ISA_AVX512)
#define LS_TILE_OFTEN(X) X(exp) X(log) /* erf_fast.c has erf, gates_fast.c tanh */
#elif defined(LS_ISA_AVX2)
#define LS_TILE_OFTEN(X) X(exp) X(log) X(erf) /* tanh is a gate's */
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
/* A gate, and the function that it has. */
#define LS_TILE_GATE(name, of)                                                                               \
    void LS_TILE_NAME(ls_gate_##name)(const ls_gate *g, int64_t n) {                                         \
        const ls_many_v nan = (ls_many_v)((ls_many_vi){0} + LS_K32_QNAN);                                    \
        for (int64_t i = 0; i < n; i += LS_GATE_LANES) {                                                     \
            ls_mf32 x = ls_many_load(g->x + i);                                                              \
            for (int k = 0; k < 2 && g->plus[k]; k++) {                                                      \
                x = ls_many_add(x, ls_many_load(g->plus[k] + i));                                            \
            }                                                                                                \
            x = of(x);                                                                                       \
            x = g->times ? ls_many_mul(x, ls_many_load(g->times + i)) : x;                                   \
            x = g->more ? ls_many_add(x, ls_many_load(g->more + i)) : x;                                     \
            ls_many_store(g->to + i, ls_many_sel(ls_many_eq(x, x), x, ls_many_c(nan)));                      \
        }                                                                                                    \
    }                                                                                                        \
    void LS_TILE_MATH(name, f32)(void *dst, const void *a, const void *b, const void *c, int64_t n) {        \
        const int64_t whole = n - n % LS_GATE_LANES;                                                         \
        LS_TILE_NAME(ls_gate_##name)(&(ls_gate){.x = a, .to = dst}, whole);                                  \
        if (whole < n) {                                                                                     \
            float part[LS_GATE_LANES] = {0};                                                                 \
            memcpy(part, (const float *)a + whole, (size_t)(n - whole) * sizeof *part);                      \
            LS_TILE_MATH(name, f32)(part, part, b, c, LS_GATE_LANES);                                        \
            memcpy((float *)dst + whole, part, (size_t)(n - whole) * sizeof *part);                          \
        }                                                                                                    \
    }
/* An error function with what is around it. */
#define LS_TILE_ERF(name, of)                                                                                \
    int64_t LS_TILE_NAME(ls_##name##_blocks)(float *dst, const float *x, int64_t n, const ls_erf_around *around) { \
        enum { WIDTH = (int)(sizeof(ls_mf32) / sizeof(float)) };                                             \
        const ls_many_v zero = {0}, nan = (ls_many_v)((ls_many_vi){0} + LS_K32_QNAN);                        \
        const ls_erf_around a = *around;                                                                     \
        int64_t i = 0;                                                                                       \
        for (; i + WIDTH <= n; i += WIDTH) {                                                                 \
            ls_mf32 y = of(ls_many_mul(ls_many_load(x + i), ls_many_c(zero + a.times)));                     \
            y = ls_many_mul(ls_many_add(y, ls_many_c(zero + a.plus)), ls_many_mul(ls_many_load(a.by + i), ls_many_c(zero + a.factor))); \
            y = ls_many_mul(y, ls_many_c(zero + a.then));                                                    \
            y = ls_many_sel(ls_many_eq(y, y), y, ls_many_c(nan));                                            \
            if (a.fetch) {                                                                                   \
                ls_fetch_line((uintptr_t)(x + i) + a.fetch, a.second);                                       \
            }                                                                                                \
            if (a.far) {                                                                                     \
                ls_many_stream(dst + i, y);                                                                  \
            } else {                                                                                         \
                ls_many_store(dst + i, y);                                                                   \
            }                                                                                                \
        }                                                                                                    \
        return i;                                                                                            \
    }
#define LS_TILE_SIGMOID(name, exp)                                                                           \
    static inline __attribute__((always_inline)) ls_mf32 name(ls_mf32 x) {                                   \
        const ls_mf32 one = ls_many_c((ls_many_v){0} + 1.0f), most = ls_many_c((ls_many_v){0} + LS_SIGMOID_MAX); \
        x = ls_many_sub(ls_many_c((ls_many_v){0}), x);                                                       \
        return ls_many_div(one, ls_many_add(exp(ls_many_sel(ls_many_lt(most, x), most, x)), one));           \
    }
#endif
