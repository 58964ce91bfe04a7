/* What gates of recurrent cells are made of, tanh and 1 / (1 + exp(min(-x, 88))), over tiles in locked arithmetic: the bits of math.inc's,
 * for eight vectors in a fixed order. Products that are exact, or by powers of two, and half of a square are fused with the addition behind
 * them; the test that forbids fused multiply-adds leaves out files of this name. */
#include "backend/cpu/isa/chain_ops.h"
#include "backend/cpu/isa/tile_math.h"

#if defined(LS_ISA_AVX512)
#include "backend/cpu/isa/eight.h"
#include <string.h>

/* A list of coefficients begins with their number: coefficient i of the first is constants[EXP + i]. */
static const float constants[] = {LS_K32_EXP,         LS_K32_TANH,  LS_K32_TANH_SPLIT *LS_K32_TANH_SPLIT, LS_K32_TANH_MAX,
                                  2 * LS_K32_INVLN2,  LS_K32_LN2_1, LS_K32_LN2_2,                         0.5f,
                                  -LS_K32_INVLN2,     LS_SIGMOID_MAX};
enum { EXP = 1, NEAR = EXP + 6, SPLIT = NEAR + 5, MAX, BY_LN2, LN2_1, LN2_2, HALF, BY_MINUS_LN2, SIGMOID_MAX };

/* n ln 2 + r of t */
#define TIMES(i) V n##i = _mm512_mul_ps(t##i, a);
#define PUT_N(i) STORE(exponents, i, n##i)
#define LESS(i) V l##i = _mm512_mul_ps(n##i, b);
#define REDUCED(i) V r##i = _mm512_sub_ps(t##i, l##i);

/* What comes before and after. */
#define BEFORE(i) STORE(own, i, _mm512_add_ps(X(i), _mm512_loadu_ps(plus + 16 * i)))
#define TIMES_ITS(i) l##i = _mm512_mul_ps(l##i, _mm512_loadu_ps(g->times + at + 16 * i));
#define AND_ITS(i) l##i = _mm512_add_ps(l##i, _mm512_loadu_ps(g->more + at + 16 * i));
#define NO_NUMBERS(i, j) _mm512_cmp_ps_mask(X(i), X(j), _CMP_UNORD_Q)
#define NO_NUMBER(i)                                                                                         \
    l##i = _mm512_mask_mov_ps(l##i, _mm512_cmp_ps_mask(X(i), X(i), _CMP_UNORD_Q), nan);
#define NEITHER(i, j) _mm512_cmp_ps_mask(l##i, l##j, _CMP_UNORD_Q)
#define BEGIN_GATE                                                                                           \
    const float *x = g->x + at;                                                                              \
    for (int k = 0; k < 2 && g->plus[k]; k++) {                                                              \
        const float *plus = g->plus[k] + at;                                                                 \
        ALL(BEFORE)                                                                                          \
        x = own;                                                                                             \
    }
#define END_GATE(FOUR, i, j, p, q)                                                                           \
    if (__builtin_expect((NO_NUMBERS(i, j) | NO_NUMBERS(p, q)) != 0, 0)) {                                   \
        const V nan = (V)_mm512_set1_epi32(LS_K32_QNAN);                                                     \
        FOUR(NO_NUMBER)                                                                                      \
    }                                                                                                        \
    if (g->times) {                                                                                          \
        FOUR(TIMES_ITS)                                                                                      \
    }                                                                                                        \
    if (g->more) {                                                                                           \
        FOUR(AND_ITS)                                                                                        \
    }                                                                                                        \
    if (__builtin_expect((NEITHER(i, j) | NEITHER(p, q)) != 0, 0)) {                                         \
        FOUR(CANONICAL)                                                                                      \
    }                                                                                                        \
    FOUR(PUT)

/* ---- sigmoid ---- */
#define WITHIN(i) V t##i = _mm512_range_ps(X(i), b, 2); /* -88 to 88, of a NaN, too */
#define REDUCE_MINUS(i) t##i = _mm512_fnmsub_ps(n##i, a, t##i); /* exact, of -x */
#define SCALE(i) l##i = _mm512_scalef_ps(l##i, LOAD(exponents, i));
#define AND_ONE(i) l##i = _mm512_add_ps(l##i, one);
#define RECIPROCAL(i) l##i = _mm512_div_ps(one, l##i);

static void sigmoid_block(const ls_gate *g, int64_t at) {
    _Alignas(64) float own[LANES], exponents[LANES];
    float *dst = g->to + at;
    const float *c = constants;
    BEGIN_GATE
    CONSTANTS
    const V one = _mm512_set1_ps(1.0f);
    V a = SPLAT(BY_MINUS_LN2), b = SPLAT(SIGMOID_MAX);
    ALL(WITHIN) KEEP(t)
    LOW(TIMES) KEEP_LOW(n) LOW(NEAREST) HIGH(TIMES) KEEP(n) HIGH(NEAREST) KEEP_HIGH(n)
    a = SPLAT(LN2_1), b = SPLAT(LN2_2);
    LOW(REDUCE_MINUS) LOW(LESS) LOW(PUT_N) KEEP_LOW(t) KEEP_LOW(l) HIGH(REDUCE_MINUS) HIGH(LESS) HIGH(PUT_N) KEEP_HIGH(t) KEEP_HIGH(l)
    ALL(REDUCED) KEEP(r)
    CONSTANTS
    EXPONENTIAL
    LOW(SUM) KEEP_LOW(l) HIGH(BY_CUBE) HIGH(LOST) KEEP_HIGH(p) KEEP_HIGH(l)
    LOW(SCALE) HIGH(HALF_SQUARE) HIGH(LEFT) KEEP(l) KEEP_HIGH(p)
    LOW(AND_ONE) HIGH(TAIL) KEEP(l) LOW(RECIPROCAL) HIGH(SUM) KEEP(l) HIGH(SCALE) KEEP_HIGH(l) HIGH(AND_ONE) KEEP_HIGH(l) HIGH(RECIPROCAL)
    END_GATE(LOW, 0, 1, 2, 3)
    END_GATE(HIGH, 4, 5, 6, 7)
}

/* ---- tanh ---- */
#define NEAR_BY_X(i) u##i = _mm512_mul_ps(u##i, X(i));
#define NEAR_END(i) STORE(near, i, _mm512_add_ps(u##i, X(i)))
#define TWICE(i) t##i = _mm512_add_ps(t##i, t##i);
#define REDUCE(i) t##i = _mm512_fnmadd_ps(n##i, a, t##i); /* exact */
/* exp(2 |x|) = (e + l) g; d + l of it and 1 */
#define WHOLE(i) V e##i = _mm512_add_ps(h##i, l##i);
#define ROUNDED(i) h##i = _mm512_sub_ps(h##i, e##i);
#define REST(i) l##i = _mm512_add_ps(h##i, l##i);
#define POWER(i) V g##i = _mm512_scalef_ps(one, LOAD(exponents, i));
#define MORE(i) V d##i = _mm512_fmadd_ps(e##i, g##i, one);
#define MORE_LOST(i) e##i = _mm512_fmsub_ps(e##i, g##i, d##i);
#define MORE_LEFT(i) e##i = _mm512_add_ps(e##i, one);
#define MORE_REST(i) l##i = _mm512_fmadd_ps(l##i, g##i, e##i);
/* 2 / (d + l) = f - what is left; 1 - that */
#define QUOTIENT(i) d##i = _mm512_div_ps(two, d##i);
#define HALVED(i) l##i = _mm512_mul_ps(l##i, half);
#define SQUARED(i) e##i = _mm512_mul_ps(d##i, d##i);
#define LEFT_OVER(i) l##i = _mm512_mul_ps(e##i, l##i);
#define FROM_ONE(i) e##i = _mm512_sub_ps(one, d##i);
#define FROM_LOST(i) g##i = _mm512_sub_ps(one, e##i);
#define FROM_LEFT(i) g##i = _mm512_sub_ps(g##i, d##i);
#define FROM_REST(i) l##i = _mm512_add_ps(g##i, l##i);
#define FAR(i) l##i = _mm512_add_ps(e##i, l##i);
#define CHOOSE(i) l##i = _mm512_mask_mov_ps(l##i, _mm512_cmp_ps_mask(LOAD(squares, i), split, _CMP_LT_OQ), LOAD(near, i));
#define PLUS_B(i) p##i = _mm512_add_ps(b, p##i);

static void tanh_block(const ls_gate *g, int64_t at) {
    _Alignas(64) float own[LANES], exponents[LANES], squares[LANES], near[LANES];
    const __m512i sign = _mm512_set1_epi32(INT32_MIN);
    float *dst = g->to + at;
    const float *c = constants;
    BEGIN_GATE
    CONSTANTS
    const V one = _mm512_set1_ps(1.0f);
    V a = SPLAT(NEAR + 4), b = SPLAT(MAX);
    ALL(NEAR_BEGIN) KEEP(u)
    a = SPLAT(NEAR + 3);
    LOW(NEAR_PLUS) LOW(SMALLER) HIGH(NEAR_PLUS) HIGH(SMALLER) KEEP(u) KEEP(t)
    a = SPLAT(BY_LN2);
    LOW(NEAR_TIMES) LOW(TIMES) HIGH(NEAR_TIMES) HIGH(TIMES) KEEP(u) KEEP(n)
    a = SPLAT(NEAR + 2);
    LOW(NEAR_PLUS) LOW(TWICE) HIGH(NEAR_PLUS) HIGH(TWICE) KEEP(u) KEEP(t)
    LOW(NEAR_TIMES) LOW(NEAREST) HIGH(NEAR_TIMES) HIGH(NEAREST) KEEP(u) KEEP(n)
    CONSTANTS
    a = SPLAT(LN2_1), b = SPLAT(LN2_2);
    LOW(REDUCE) LOW(LESS) LOW(PUT_N) KEEP_LOW(t) KEEP_LOW(l) HIGH(REDUCE) HIGH(LESS) HIGH(PUT_N) KEEP_HIGH(t) KEEP_HIGH(l)
    a = SPLAT(NEAR + 1);
    LOW(NEAR_PLUS) LOW(REDUCED) HIGH(NEAR_PLUS) HIGH(REDUCED) KEEP(u) KEEP(r)
    ALL(NEAR_TIMES) KEEP(u)
    a = SPLAT(NEAR);
    ALL(NEAR_PLUS) KEEP(u)
    ALL(NEAR_TIMES) KEEP(u) ALL(NEAR_BY_X) KEEP(u) ALL(NEAR_END)
    CONSTANTS
    const V two = _mm512_set1_ps(2.0f), half = SPLAT(HALF);
    a = SPLAT(EXP + 4);
    ALL(BEGIN) KEEP(p)
    a = SPLAT(EXP + 3);
    LOW(PLUS) KEEP_LOW(p) LOW(BY_R) KEEP_LOW(p)
    b = SPLAT(EXP + 2);
    LOW(PLUS_B) HIGH(PLUS) KEEP(p) LOW(BY_R) HIGH(BY_R) KEEP(p)
    a = SPLAT(EXP + 1);
    LOW(PLUS) HIGH(PLUS_B) KEEP(p) LOW(BY_R) HIGH(BY_R) KEEP(p)
    CONSTANTS
    b = SPLAT(EXP);
    LOW(PLUS_B) KEEP_LOW(p) LOW(SQUARE) KEEP_LOW(z) HIGH(PLUS) KEEP_HIGH(p)
    LOW(CUBE) KEEP_LOW(q) LOW(ONE_MORE) KEEP_LOW(h) HIGH(BY_R) KEEP_HIGH(p)
    LOW(BY_CUBE) LOW(LOST) KEEP_LOW(p) KEEP_LOW(l) HIGH(PLUS_B) KEEP_HIGH(p)
    LOW(HALF_SQUARE) LOW(LEFT) KEEP_LOW(p) KEEP_LOW(l) LOW(TAIL) KEEP_LOW(l) LOW(POWER) KEEP_LOW(g) LOW(WHOLE) KEEP_LOW(e)
    HIGH(SQUARE) KEEP_HIGH(z) LOW(MORE) LOW(ROUNDED) KEEP_LOW(d) KEEP_LOW(h)
    HIGH(CUBE) LOW(MORE_LOST) LOW(REST) KEEP_LOW(e) KEEP_LOW(l) KEEP_HIGH(q) LOW(QUOTIENT) KEEP_LOW(d) HIGH(ONE_MORE) KEEP_HIGH(h)
    LOW(MORE_LEFT) HIGH(BY_CUBE) HIGH(LOST) KEEP_LOW(e) KEEP_HIGH(p) KEEP_HIGH(l) LOW(MORE_REST) KEEP_LOW(l)
    HIGH(HALF_SQUARE) HIGH(LEFT) KEEP_HIGH(p) KEEP_HIGH(l) LOW(HALVED) KEEP_LOW(l) HIGH(TAIL) KEEP_HIGH(l) HIGH(POWER) KEEP_HIGH(g) HIGH(WHOLE) KEEP_HIGH(e)
    LOW(SQUARED) KEEP_LOW(e) HIGH(MORE) HIGH(ROUNDED) KEEP_HIGH(d) KEEP_HIGH(h)
    LOW(LEFT_OVER) KEEP_LOW(l) LOW(FROM_ONE) KEEP_LOW(e) HIGH(MORE_LOST) HIGH(REST) KEEP_HIGH(e) KEEP_HIGH(l) HIGH(QUOTIENT) KEEP_HIGH(d)
    LOW(FROM_LOST) KEEP_LOW(g) HIGH(MORE_LEFT) KEEP_HIGH(e) LOW(FROM_LEFT) KEEP_LOW(g) HIGH(MORE_REST) KEEP_HIGH(l) LOW(FROM_REST) KEEP_LOW(l) HIGH(HALVED) KEEP_HIGH(l)
    const V split = SPLAT(SPLIT);
    LOW(FAR) LOW(CHOOSE) LOW(SIGN)
    END_GATE(LOW, 0, 1, 2, 3)
    HIGH(SQUARED) KEEP_HIGH(e) HIGH(LEFT_OVER) KEEP_HIGH(l) HIGH(FROM_ONE) KEEP_HIGH(e) HIGH(FROM_LOST) KEEP_HIGH(g) HIGH(FROM_LEFT) HIGH(FROM_REST) HIGH(FAR) HIGH(CHOOSE) HIGH(SIGN)
    END_GATE(HIGH, 4, 5, 6, 7)
}

void LS_TILE_NAME(ls_gate_sigmoid)(const ls_gate *g, int64_t n) {
    for (int64_t at = 0; at < n; at += LANES) {
        sigmoid_block(g, at);
    }
}

void LS_TILE_NAME(ls_gate_tanh)(const ls_gate *g, int64_t n) {
    for (int64_t at = 0; at < n; at += LANES) {
        tanh_block(g, at);
    }
}

/* A block takes as long as its chain of operations, however few lanes are wanted: of a few, narrower vectors have the same bits sooner. */
#ifdef LS_HAVE_ISA_AVX2
void ls_tile_tanh_f32__avx2(void *dst, const void *a, const void *b, const void *c, int64_t n);
enum { FEW = 32 };
#else
enum { FEW = 0 };
#define ls_tile_tanh_f32__avx2 LS_TILE_MATH(tanh, f32)
#endif

static void of_any(void *dst, const void *x, ls_gate_fn *run, int64_t n) {
    const int64_t whole = n - n % LANES;
    run(&(ls_gate){.x = x, .to = dst}, whole);
    if (run == LS_TILE_NAME(ls_gate_tanh) && whole < n && n - whole <= FEW) {
        ls_tile_tanh_f32__avx2((float *)dst + whole, (const float *)x + whole, NULL, NULL, n - whole);
    } else if (whole < n) {
        float part[LANES] = {0};
        memcpy(part, (const float *)x + whole, (size_t)(n - whole) * sizeof *part);
        run(&(ls_gate){.x = part, .to = part}, LANES);
        memcpy((float *)dst + whole, part, (size_t)(n - whole) * sizeof *part);
    }
}
void LS_TILE_NAME(ls_tile_sigmoid_f32)(void *dst, const void *a, const void *b, const void *c, int64_t n) {
    (void)b, (void)c;
    of_any(dst, a, LS_TILE_NAME(ls_gate_sigmoid), n);
}
void LS_TILE_MATH(tanh, f32)(void *dst, const void *a, const void *b, const void *c, int64_t n) {
    (void)b, (void)c;
    of_any(dst, a, LS_TILE_NAME(ls_gate_tanh), n);
}
#endif
