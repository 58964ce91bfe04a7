/* The error function over tiles in locked arithmetic: the bits of math.inc's, whose two branches, a polynomial and 1 less an exponential,
 * are made for eight vectors in a fixed order. The one product that is exact, and half of a square, are fused with the addition behind
 * them; the test that forbids fused multiply-adds leaves out files of this name. */
#include "backend/cpu/isa/chain_ops.h"
#include "backend/cpu/isa/tile_math.h"

#if defined(LS_ISA_AVX512)
#include "backend/cpu/isa/eight.h"
#include <string.h>

/* A list of coefficients begins with their number: coefficient i of the first is constants[NEAR + i]. */
static const float constants[] = {LS_K32_ERF,    LS_K32_LOGERFC, LS_K32_EXP, LS_K32_ERF_MAX, LS_K32_LOGERFC_0, LS_K32_INVLN2, LS_K32_LN2_1,
                                  LS_K32_LN2_2, 0.5f,           1.0f,       LS_K32_ERF_SPLIT *LS_K32_ERF_SPLIT};
enum { NEAR = 1, FAR = NEAR + 7, EXP = FAR + 8, MAX = EXP + 5, LOG, BY_LN2, LN2_1, LN2_2, HALF, ONE, SPLIT };

/* near: u, x times a polynomial of s = x squared; far: v, a polynomial of t = |x| - 1, |x| at most 3.9375. a and b are vectors of a
 * constant each. */
#define APART(i) t##i = _mm512_sub_ps(t##i, one);
#define NEAR_END(i) STORE(near, i, _mm512_mul_ps(u##i, X(i)))
#define FAR_BEGIN(i) V v##i = _mm512_mul_ps(t##i, b);
#define FAR_PLUS(i) v##i = _mm512_add_ps(v##i, b);
#define FAR_TIMES(i) v##i = _mm512_mul_ps(v##i, t##i);
/* log(erfc(|x|)) = g + l, and that n ln 2 + r */
#define WHOLE(i) V g##i = _mm512_add_ps(a, v##i);
#define ROUNDED(i) V l##i = _mm512_sub_ps(a, g##i);
#define REST(i) l##i = _mm512_add_ps(l##i, v##i);
#define TIMES(i) V n##i = _mm512_mul_ps(g##i, b);
#define REDUCE(i) g##i = _mm512_fnmadd_ps(n##i, a, g##i); /* exact */
#define LESS(i) V m##i = _mm512_mul_ps(n##i, b);
#define PUT_N(i) STORE(exponents, i, n##i)
#define REDUCED(i) g##i = _mm512_sub_ps(g##i, m##i);
#define R(i) V r##i = _mm512_add_ps(g##i, l##i);
#define SCALE(i) l##i = _mm512_scalef_ps(l##i, LOAD(exponents, i));
#define FROM_ONE(i) l##i = _mm512_sub_ps(one, l##i);
/* near, too, where x is no number, which the other branch forgot */
#define CHOOSE(i) l##i = _mm512_mask_add_ps(l##i, _mm512_cmp_ps_mask(LOAD(squares, i), split, _CMP_NGE_UQ), X(i), LOAD(near, i));
#define UNORDERED(i, j) _mm512_cmp_ps_mask(l##i, l##j, _CMP_UNORD_Q)
#define BEFORE(i) STORE(own, i, _mm512_mul_ps(X(i), times))
#define AFTER(i) l##i = _mm512_mul_ps(_mm512_add_ps(l##i, plus), _mm512_mul_ps(_mm512_loadu_ps(by + 16 * i), factor));
#define THEN(i) l##i = _mm512_mul_ps(l##i, then);
#define PUT_FAR(i) _mm512_stream_ps(dst + 16 * i, l##i);
#define FETCH(i) ls_fetch_line(fetch + 64 * i, around->second);
/* What four vectors end with. */
#define END(FOUR, any)                                                                                       \
    FOUR(CHOOSE)                                                                                             \
    if (__builtin_expect(by != NULL, 1)) {                                                                   \
        const V plus = _mm512_set1_ps(around->plus), factor = _mm512_set1_ps(around->factor);                \
        FOUR(AFTER)                                                                                          \
        if (around->then != 1) {                                                                             \
            const V then = _mm512_set1_ps(around->then);                                                     \
            FOUR(THEN)                                                                                       \
        }                                                                                                    \
    }                                                                                                        \
    if (__builtin_expect(any, 0)) {                                                                          \
        FOUR(CANONICAL)                                                                                      \
    }                                                                                                        \
    if (around->far) {                                                                                       \
        FOUR(PUT_FAR)                                                                                        \
    } else {                                                                                                 \
        FOUR(PUT)                                                                                            \
    }
#define BOTH(next_a, one_op, next_b, other)                                                                  \
    a = SPLAT(next_a), b = SPLAT(next_b);                                                                    \
    LOW(one_op) LOW(other) HIGH(one_op) HIGH(other) KEEP(u) KEEP(v)

int64_t LS_TILE_NAME(ls_erf_blocks)(float *dst, const float *from, int64_t n, const ls_erf_around *around) {
    _Alignas(64) float own[LANES], squares[LANES], near[LANES], exponents[LANES];
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    const V times = _mm512_set1_ps(around->times);
    const float *c = constants;
    int64_t at = 0;
    for (; at + LANES <= n; at += LANES, from += LANES, dst += LANES) {
        const float *x = from, *by = around->by ? around->by + at : NULL;
        const uintptr_t fetch = (uintptr_t)from + around->fetch;
        if (by) {
            ALL(BEFORE)
            x = own;
        }
        CONSTANTS
        const V one = SPLAT(ONE);
        V a = SPLAT(NEAR + 5), b = SPLAT(MAX);
        ALL(SMALLER) ALL(NEAR_BEGIN) KEEP(u) KEEP(t) ALL(APART) KEEP(t)
        a = SPLAT(NEAR + 4), b = SPLAT(FAR + 6);
        LOW(NEAR_PLUS) LOW(FAR_BEGIN) HIGH(NEAR_PLUS) HIGH(FAR_BEGIN) KEEP(u) KEEP(v)
        BOTH(0, NEAR_TIMES, FAR + 5, FAR_PLUS)
        BOTH(NEAR + 3, NEAR_PLUS, 0, FAR_TIMES)
        BOTH(0, NEAR_TIMES, FAR + 4, FAR_PLUS)
        BOTH(NEAR + 2, NEAR_PLUS, 0, FAR_TIMES)
        CONSTANTS
        BOTH(0, NEAR_TIMES, FAR + 3, FAR_PLUS)
        BOTH(NEAR + 1, NEAR_PLUS, 0, FAR_TIMES)
        BOTH(0, NEAR_TIMES, FAR + 2, FAR_PLUS)
        BOTH(NEAR, NEAR_PLUS, 0, FAR_TIMES)
        b = SPLAT(FAR + 1);
        LOW(NEAR_END) LOW(FAR_PLUS) HIGH(NEAR_END) HIGH(FAR_PLUS) KEEP(v) ALL(FAR_TIMES) KEEP(v)
        CONSTANTS
        b = SPLAT(FAR);
        ALL(FAR_PLUS) KEEP(v)
        a = SPLAT(LOG), b = SPLAT(BY_LN2);
        ALL(WHOLE) KEEP(g)
        LOW(TIMES) LOW(ROUNDED) HIGH(TIMES) HIGH(ROUNDED) KEEP(n) KEEP(l)
        LOW(NEAREST) LOW(REST) HIGH(NEAREST) HIGH(REST) KEEP(n) KEEP(l)
        a = SPLAT(LN2_1), b = SPLAT(LN2_2);
        LOW(REDUCE) LOW(LESS) LOW(PUT_N) KEEP_LOW(g) KEEP_LOW(m) HIGH(REDUCE) HIGH(LESS) HIGH(PUT_N) KEEP_HIGH(g) KEEP_HIGH(m)
        ALL(REDUCED) KEEP(g) ALL(R) KEEP(r)
        CONSTANTS
        EXPONENTIAL
        LOW(SUM) KEEP_LOW(l) HIGH(BY_CUBE) HIGH(LOST) KEEP_HIGH(p) KEEP_HIGH(l)
        LOW(SCALE) HIGH(HALF_SQUARE) HIGH(LEFT) KEEP(l) KEEP_HIGH(p)
        LOW(FROM_ONE) KEEP_LOW(l) HIGH(TAIL) KEEP_HIGH(l) HIGH(SUM) KEEP_HIGH(l)
        const V split = SPLAT(SPLIT);
        LOW(SIGN) KEEP_LOW(l) HIGH(SCALE) HIGH(FROM_ONE) KEEP_HIGH(l)
        END(LOW, UNORDERED(0, 1) | UNORDERED(2, 3))
        HIGH(SIGN)
        END(HIGH, UNORDERED(4, 5) | UNORDERED(6, 7))
        ALL(FETCH)
    }
    return at;
}

void LS_TILE_MATH(erf, f32)(void *to, const void *from, const void *unused, const void *none, int64_t n) {
    const float *x = from;
    const int64_t done = LS_TILE_NAME(ls_erf_blocks)(to, x, n, &(ls_erf_around){0});
    if (done < n) {
        float part[LANES] = {0};
        memcpy(part, x + done, (size_t)(n - done) * sizeof *x);
        LS_TILE_MATH(erf, f32)(part, part, unused, none, LANES);
        memcpy((float *)to + done, part, (size_t)(n - done) * sizeof *x);
    }
}
#endif
