/* exp and erf for fast arithmetic, in f32: the polynomials and the reduction of math.inc without its second words, by fused
 * multiply-adds where the device has them. Within 1.5 ULP, fused or not, over all arguments (tests/unit/test_kir_math.c has
 * a sweep), of the 2 that a result in fast arithmetic may differ by. */
#include "kir/build_math.h"
#include "math/const32.h"

enum { MOST_TERMS = 8 };

static ls_val real(ls_kb *kb, float x) {
    return ls_kb_f32(kb, x);
}

static ls_val fused(ls_kb *kb, ls_val a, ls_val b, ls_val c) {
    return ls_kb_pure(kb, LS_K_FMA, a, b, c, LS_KF_FAST);
}

/* Coefficients ascending, by Horner's rule. */
static ls_val polynomial(ls_kb *kb, ls_val x, const float *of, int n) {
    ls_val y = real(kb, of[n - 1]);
    for (int i = n - 2; i >= 0; i--) {
        y = fused(kb, y, x, real(kb, of[i]));
    }
    return y;
}

typedef struct list {
    int n;
    float of[MOST_TERMS];
} list;
#define LIST_(count, ...) {count, {__VA_ARGS__}}
#define LIST(...) LIST_(__VA_ARGS__)
static const list exp_terms = LIST(LS_K32_EXP), erf_terms = LIST(LS_K32_ERF), far_terms = LIST(LS_K32_LOGERFC);

/* exp(x) = y 2^k, y in [0.7, 1.42], for x whose k fits a word's exponent twice. *out_k is k plus a number that power_of_two shifts
 * out, and of which it does so with half. */
static ls_val exp_parts(ls_kb *kb, ls_val x, ls_val *out_k) {
    /* Not fused: a device that simplifies (t + magic) - magic must not see through it, and fast instructions are left to it. */
    ls_val magic = real(kb, LS_K32_MAGIC), scaled = ls_kb_mul(kb, x, real(kb, LS_K32_INVLN2));
    ls_val t = ls_kb_add(kb, scaled, magic);
    ls_val n = ls_kb_sub(kb, t, magic);
    ls_val r = fused(kb, n, real(kb, -LS_K32_LN2_1), x);
    /* Nor are both parts of ln 2: it would put them together. */
    r = ls_kb_pure(kb, LS_K_SUB, r, ls_kb_mul(kb, n, real(kb, LS_K32_LN2_2)), LS_VAL_NONE, LS_KF_FAST);
    ls_val y = polynomial(kb, r, exp_terms.of, exp_terms.n); /* of r^3 on */
    y = fused(kb, y, r, real(kb, 0.5F));
    y = fused(kb, y, r, real(kb, 1));
    y = fused(kb, y, r, real(kb, 1));
    _Static_assert((LS_K32_MAGICBITS & 0x3ff) == 0, "half of it ends with nine zeros");
    *out_k = ls_kb_bitcast(kb, t, LS_I32);
    return y;
}

static ls_val power_of_two(ls_kb *kb, ls_val k) {
    return ls_kb_bitcast(kb, ls_kb_add(kb, ls_kb_shl(kb, k, ls_kb_i32(kb, 23)), ls_kb_i32(kb, 0x3f800000)), LS_F32);
}

static ls_val exp_f32(ls_kb *kb, ls_val x) {
    ls_val k;
    x = ls_kb_max(kb, ls_kb_min(kb, x, real(kb, LS_K32_EXP_MAX)), real(kb, LS_K32_EXP_MIN));
    ls_val y = exp_parts(kb, x, &k), half = ls_kb_shr(kb, k, ls_kb_i32(kb, 1));
    y = ls_kb_mul(kb, y, power_of_two(kb, half)); /* in two steps: results may be subnormal */
    return ls_kb_mul(kb, y, power_of_two(kb, ls_kb_sub(kb, k, half)));
}

static ls_val erf_f32(ls_kb *kb, ls_val x) {
    ls_val k, ax = ls_kb_abs(kb, x), one = real(kb, 1);
    ls_val near = fused(kb, polynomial(kb, ls_kb_mul(kb, ax, ax), erf_terms.of, erf_terms.n), ax, ax);
    ls_val tiny = ls_kb_mul(kb, ax, real(kb, 1.1283792F)); /* 2 / sqrt(pi); not fast: subnormals are kept */
    near = ls_kb_select(kb, ls_kb_lt(kb, ax, real(kb, 0x1p-100F)), tiny, near);
    ls_val t = ls_kb_sub(kb, ls_kb_min(kb, ax, real(kb, LS_K32_ERF_MAX)), one);
    ls_val g = ls_kb_add(kb, polynomial(kb, t, far_terms.of, far_terms.n), real(kb, LS_K32_LOGERFC_0));
    ls_val e = exp_parts(kb, g, &k); /* erfc(1 + t) */
    ls_val far = fused(kb, ls_kb_neg(kb, e), power_of_two(kb, k), one);
    ls_val y = ls_kb_select(kb, ls_kb_lt(kb, ax, real(kb, LS_K32_ERF_SPLIT)), near, far);
    ls_val sign = ls_kb_and(kb, ls_kb_bitcast(kb, x, LS_U32), ls_kb_u32(kb, 0x80000000U));
    return ls_kb_bitcast(kb, ls_kb_or(kb, ls_kb_bitcast(kb, y, LS_U32), sign), LS_F32);
}

static ls_val through_f32(ls_kb *kb, ls_val x, ls_val (*f)(ls_kb *kb, ls_val x), ls_val (*otherwise)(ls_kb *kb, ls_val x)) {
    ls_dtype type = x < 0 || x >= kb->kernel.n_body ? LS_F32 : (ls_dtype)kb->kernel.body[x].dtype;
    return type == LS_F64 ? otherwise(kb, x) : ls_kb_cast(kb, f(kb, ls_kb_cast(kb, x, LS_F32)), type);
}
ls_val ls_kb_fast_exp(ls_kb *kb, ls_val x) {
    return through_f32(kb, x, exp_f32, ls_kb_math_exp);
}
ls_val ls_kb_fast_erf(ls_kb *kb, ls_val x) {
    return through_f32(kb, x, erf_f32, ls_kb_math_erf);
}
