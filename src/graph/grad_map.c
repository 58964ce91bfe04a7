/* Derivatives of element-wise operations. `y` is the result's node, used where the derivative is simplest in
 * it; `g` its cotangent. */
#include "graph/grad.h"

#define RULE(name) static void name(ls_grad_state *st, ls_tensor *y, ls_tensor *g)
#define S st->s
#define A y->src[0]
#define B y->src[1]
#define C y->src[2]
#define LIKE(value) ls_const_like(S, y, (value))
#define GIVE(x, expr)                                                                                        \
    do {                                                                                                     \
        if (ls_grad_wanted(st, (x))) {                                                                       \
            ls_grad_give(st, (x), (expr));                                                                   \
        }                                                                                                    \
    } while (0)

/* one operand: a's cotangent is an expression in a, y and g */
#define UNARY(name, expr)                                                                                    \
    RULE(name) {                                                                                             \
        GIVE(A, (expr));                                                                                     \
    }
#define SQUARE(x) ls_mul(S, (x), (x))

UNARY(neg_rule, ls_neg(S, g))
UNARY(abs_rule, ls_mul(S, g, ls_sign(S, A)))
UNARY(sqrt_rule, ls_div(S, g, ls_mul(S, LIKE(2), y)))
UNARY(rsqrt_rule, ls_mul(S, ls_mul(S, g, LIKE(-0.5)), ls_div(S, y, A)))
UNARY(cbrt_rule, ls_div(S, g, ls_mul(S, LIKE(3), SQUARE(y))))
UNARY(recip_rule, ls_neg(S, ls_mul(S, g, SQUARE(y))))
UNARY(exp_rule, ls_mul(S, g, y))
UNARY(exp2_rule, ls_mul(S, g, ls_mul(S, y, LIKE(0x1.62e42fefa39efp-1))))
UNARY(expm1_rule, ls_mul(S, g, ls_add(S, y, LIKE(1))))
UNARY(log_rule, ls_div(S, g, A))
UNARY(log2_rule, ls_div(S, ls_mul(S, g, LIKE(0x1.71547652b82fep+0)), A))
UNARY(log1p_rule, ls_div(S, g, ls_add(S, A, LIKE(1))))
UNARY(sin_rule, ls_mul(S, g, ls_cos(S, A)))
UNARY(cos_rule, ls_neg(S, ls_mul(S, g, ls_sin(S, A))))
UNARY(tan_rule, ls_mul(S, g, ls_add(S, LIKE(1), SQUARE(y))))
UNARY(asin_rule, ls_div(S, g, ls_sqrt(S, ls_sub(S, LIKE(1), SQUARE(A)))))
UNARY(acos_rule, ls_neg(S, ls_div(S, g, ls_sqrt(S, ls_sub(S, LIKE(1), SQUARE(A))))))
UNARY(atan_rule, ls_div(S, g, ls_add(S, LIKE(1), SQUARE(A))))
UNARY(sinh_rule, ls_mul(S, g, ls_cosh(S, A)))
UNARY(cosh_rule, ls_mul(S, g, ls_sinh(S, A)))
UNARY(tanh_rule, ls_mul(S, g, ls_sub(S, LIKE(1), SQUARE(y))))
/* 2/sqrt(pi) * exp(-x^2) */
#define GAUSS ls_mul(S, LIKE(0x1.20dd750429b6dp+0), ls_exp(S, ls_neg(S, SQUARE(A))))
UNARY(erf_rule, ls_mul(S, g, GAUSS))
UNARY(erfc_rule, ls_neg(S, ls_mul(S, g, GAUSS)))
UNARY(cast_rule, ls_cast(S, g, A->dtype))

RULE(add_rule) {
    GIVE(A, g);
    GIVE(B, g);
}
RULE(sub_rule) {
    GIVE(A, g);
    GIVE(B, ls_neg(S, g));
}
RULE(mul_rule) {
    GIVE(A, ls_mul(S, g, B));
    GIVE(B, ls_mul(S, g, A));
}
RULE(div_rule) {
    GIVE(A, ls_div(S, g, B));
    GIVE(B, ls_neg(S, ls_mul(S, g, ls_div(S, y, B))));
}
RULE(rem_rule) {
    GIVE(A, g);
    GIVE(B, ls_neg(S, ls_mul(S, g, ls_trunc(S, ls_div(S, A, B)))));
}
RULE(pow_rule) { /* b * a^(b-1), 0 where b is 0; y * log(a), 0 where a is 0 */
    ls_tensor *zero = LIKE(0);
    GIVE(A, ls_mul(S, g,
                   ls_where(S, ls_eq(S, B, zero), zero, ls_mul(S, B, ls_pow(S, A, ls_sub(S, B, LIKE(1)))))));
    GIVE(B, ls_mul(S, g, ls_where(S, ls_eq(S, A, zero), zero, ls_mul(S, y, ls_log(S, A)))));
}
/* Where both are equal the second operand is the one taken: max(x, 0) has derivative 0 at 0. */
static void take(ls_grad_state *st, ls_tensor *y, ls_tensor *g, ls_tensor *first) {
    ls_tensor *zero = LIKE(0);
    GIVE(A, ls_where(S, first, g, zero));
    GIVE(B, ls_where(S, first, zero, g));
}
/* a < b where min(a, b) < b. By the result, so that an activation's operand need not be kept beside it. */
RULE(min_rule) {
    take(st, y, g, ls_lt(S, y, B));
}
RULE(max_rule) {
    take(st, y, g, ls_lt(S, B, y));
}
RULE(where_rule) {
    ls_tensor *zero = LIKE(0);
    GIVE(B, ls_where(S, A, g, zero));
    GIVE(C, ls_where(S, A, zero, g));
}

const ls_grad_rule ls_grad_map_rules[LS_OP_COUNT] = {
    [LS_OP_NEG] = neg_rule,     [LS_OP_ABS] = abs_rule,   [LS_OP_SQRT] = sqrt_rule,
    [LS_OP_RSQRT] = rsqrt_rule, [LS_OP_CBRT] = cbrt_rule, [LS_OP_RECIP] = recip_rule,
    [LS_OP_EXP] = exp_rule,     [LS_OP_EXP2] = exp2_rule, [LS_OP_EXPM1] = expm1_rule,
    [LS_OP_LOG] = log_rule,     [LS_OP_LOG2] = log2_rule, [LS_OP_LOG1P] = log1p_rule,
    [LS_OP_SIN] = sin_rule,     [LS_OP_COS] = cos_rule,   [LS_OP_TAN] = tan_rule,
    [LS_OP_ASIN] = asin_rule,   [LS_OP_ACOS] = acos_rule, [LS_OP_ATAN] = atan_rule,
    [LS_OP_SINH] = sinh_rule,   [LS_OP_COSH] = cosh_rule, [LS_OP_TANH] = tanh_rule,
    [LS_OP_ERF] = erf_rule,     [LS_OP_ERFC] = erfc_rule, [LS_OP_CAST] = cast_rule,
    [LS_OP_ADD] = add_rule,     [LS_OP_SUB] = sub_rule,   [LS_OP_MUL] = mul_rule,
    [LS_OP_DIV] = div_rule,     [LS_OP_REM] = rem_rule,   [LS_OP_POW] = pow_rule,
    [LS_OP_MIN] = min_rule,     [LS_OP_MAX] = max_rule,   [LS_OP_WHERE] = where_rule,
};
