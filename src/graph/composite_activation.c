/* Activations and inverse hyperbolic functions as composites. f16 and bf16 are computed in f32 and
 * rounded once at the end. Branches that are not taken stay finite, so that no derivative becomes 0 *
 * infinity. */
#include "graph/build.h"

static ls_tensor *enter(ls_session *s, const char *name, ls_tensor *x) {
    return ls_check_operands(s, name, 1, &x) && ls_check_float(s, name, x)
               ? ls_cast(s, x, ls_dtype_compute(x->dtype))
               : NULL;
}

/* log(1 + e^w); from `limit` on 1 is below w's rounding. */
static ls_tensor *softplus(ls_session *s, ls_tensor *w) {
    ls_tensor *limit = ls_const_like(s, w, w->dtype == LS_F64 ? 40 : 30);
    ls_tensor *low = ls_log1p(s, ls_exp(s, ls_min(s, w, limit)));
    return ls_where(s, ls_lt(s, limit, w), w, low);
}

ls_tensor *ls_softplus(ls_session *s, ls_tensor *x) {
    ls_tensor *w = enter(s, "softplus", x);
    return w ? ls_cast(s, softplus(s, w), x->dtype) : NULL;
}

ls_tensor *ls_mish(ls_session *s, ls_tensor *x) {
    ls_tensor *w = enter(s, "mish", x);
    return w ? ls_cast(s, ls_mul(s, w, ls_tanh(s, softplus(s, w))), x->dtype) : NULL;
}

ls_tensor *ls_elu(ls_session *s, ls_tensor *x, double alpha) {
    ls_tensor *w = enter(s, "elu", x);
    if (!w) {
        return NULL;
    }
    ls_tensor *zero = ls_const_like(s, w, 0);
    ls_tensor *low = ls_mul(s, ls_expm1(s, ls_min(s, w, zero)), ls_const_like(s, w, alpha));
    return ls_cast(s, ls_where(s, ls_lt(s, zero, w), w, low), x->dtype);
}

ls_tensor *ls_leaky_relu(ls_session *s, ls_tensor *x, double slope) {
    ls_tensor *w = enter(s, "leaky_relu", x);
    if (!w) {
        return NULL;
    }
    ls_tensor *below = ls_lt(s, w, ls_const_like(s, w, 0));
    return ls_cast(s, ls_where(s, below, ls_mul(s, w, ls_const_like(s, w, slope)), w), x->dtype);
}

/* ---- inverse hyperbolic functions: by log1p near 0 or 1, and as log(2a) where a's square would overflow
 * ---- */

#define LN2 0.69314718055994530942
#define FAR 0x1p30

static ls_tensor *or_far(ls_session *s, ls_tensor *a, ls_tensor *near) {
    ls_tensor *far = ls_add(s, ls_log(s, ls_max(s, a, ls_const_like(s, a, 1))), ls_const_like(s, a, LN2));
    return ls_where(s, ls_lt(s, ls_const_like(s, a, FAR), a), far, near);
}

ls_tensor *ls_asinh(ls_session *s, ls_tensor *x) {
    ls_tensor *w = enter(s, "asinh", x);
    if (!w) {
        return NULL;
    }
    ls_tensor *below = ls_lt(s, w, ls_const_like(s, w, 0)), *one = ls_const_like(s, w, 1);
    ls_tensor *a = ls_where(s, below, ls_neg(s, w), w);
    if (!a) {
        return NULL;
    }
    ls_tensor *u = ls_min(s, a, ls_const_like(s, a, FAR)), *square = ls_mul(s, u, u);
    ls_tensor *root = ls_sqrt(s, ls_add(s, square, one));
    ls_tensor *near = ls_log1p(s, ls_add(s, u, ls_div(s, square, ls_add(s, root, one))));
    ls_tensor *y = or_far(s, a, near);
    return ls_cast(s, ls_where(s, below, ls_neg(s, y), y), x->dtype);
}

ls_tensor *ls_acosh(ls_session *s, ls_tensor *x) {
    ls_tensor *w = enter(s, "acosh", x);
    if (!w) {
        return NULL;
    }
    ls_tensor *u = ls_min(s, ls_sub(s, w, ls_const_like(s, w, 1)), ls_const_like(s, w, FAR));
    ls_tensor *root = ls_sqrt(s, ls_mul(s, u, ls_add(s, u, ls_const_like(s, w, 2))));
    return ls_cast(s, or_far(s, w, ls_log1p(s, ls_add(s, u, root))), x->dtype);
}

ls_tensor *ls_atanh(ls_session *s, ls_tensor *x) {
    ls_tensor *w = enter(s, "atanh", x);
    if (!w) {
        return NULL;
    }
    ls_tensor *d = ls_sub(s, ls_log1p(s, w), ls_log1p(s, ls_neg(s, w)));
    return ls_cast(s, ls_mul(s, d, ls_const_like(s, w, 0.5)), x->dtype);
}
