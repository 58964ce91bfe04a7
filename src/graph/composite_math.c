/* Composites of elementwise operations and reductions. f16 and bf16 are computed in f32 and rounded once
 * at the end. */
#include "graph/build.h"
#include <lockstep/grad.h>

ls_tensor *ls_along(ls_session *s, ls_tensor *w, int axis, int rank) {
    if (!w) {
        return NULL;
    }
    ls_shape shape = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        shape.dim[i] = i == axis ? w->shape.dim[0] : ls_dim_fixed(1);
    }
    return ls_reshape(s, w, shape);
}

ls_tensor *ls_count(ls_session *s, const ls_shape *shape, int count, const int *axes, int64_t minus,
                    ls_dtype dtype) {
    ls_shape scalar = LS_SCALAR;
    int64_t fixed = 1;
    ls_tensor *symbolic = NULL;
    for (int i = 0; i < count; i++) {
        ls_dim d = shape->dim[axes[i]];
        if (ls_dim_is_fixed(d)) {
            fixed *= d.offset;
            continue;
        }
        ls_tensor *n = ls_dim_value(s, d);
        symbolic = symbolic ? ls_mul(s, symbolic, n) : n;
        if (!symbolic) {
            return NULL;
        }
    }
    if (!symbolic) {
        return ls_full_i64(s, dtype, scalar, fixed - minus);
    }
    if (fixed != 1) {
        symbolic = ls_mul(s, symbolic, ls_full_i64(s, LS_I64, scalar, fixed));
    }
    if (minus) {
        symbolic = ls_sub(s, symbolic, ls_full_i64(s, LS_I64, scalar, minus));
    }
    return ls_cast(s, symbolic, dtype);
}

/* The axes of a reduction, with none standing for all. */
static bool reduced_axes(ls_session *s, const char *name, const ls_tensor *x, int *count, const int *axes,
                         int *out_axes) {
    if (!ls_check_float(s, name, x) || !ls_axes_check(s, name, x, *count, axes, out_axes)) {
        return false;
    }
    if (*count == 0) {
        *count = x->shape.rank;
        for (int i = 0; i < *count; i++) {
            out_axes[i] = i;
        }
    }
    return true;
}

ls_tensor *ls_mean(ls_session *s, ls_tensor *x, int count, const int *axes, int keep_dims) {
    int list[LS_MAX_RANK];
    if (!ls_check_operands(s, "mean", 1, &x) || !reduced_axes(s, "mean", x, &count, axes, list)) {
        return NULL;
    }
    ls_dtype wide = ls_dtype_compute(x->dtype);
    ls_tensor *total = ls_sum(s, ls_cast(s, x, wide), count, list, keep_dims);
    return ls_cast(s, ls_div(s, total, ls_count(s, &x->shape, count, list, 0, wide)), x->dtype);
}

ls_tensor *ls_variance(ls_session *s, ls_tensor *x, int count, const int *axes, int keep_dims,
                       int correction) {
    int list[LS_MAX_RANK];
    if (!ls_check_operands(s, "variance", 1, &x) || !reduced_axes(s, "variance", x, &count, axes, list)) {
        return NULL;
    }
    ls_dtype wide = ls_dtype_compute(x->dtype);
    ls_tensor *w = ls_cast(s, x, wide);
    ls_tensor *d = ls_sub(s, w, ls_mean(s, w, count, list, 1));
    ls_tensor *total = ls_sum(s, ls_mul(s, d, d), count, list, keep_dims);
    return ls_cast(s, ls_div(s, total, ls_count(s, &x->shape, count, list, correction, wide)), x->dtype);
}

/* ---- activations ---- */

ls_tensor *ls_relu(ls_session *s, ls_tensor *x) {
    if (!ls_check_operands(s, "relu", 1, &x)) {
        return NULL;
    }
    if (x->dtype == LS_BOOL) {
        return LS_NODE_FAIL(s, LS_ERR_DTYPE, "relu: operand is %s: expected a numeric dtype", LS_TEXT(x));
    }
    return ls_max(s, x, ls_const_like(s, x, 0));
}

/* Checks a floating operand and casts it to what is computed in. */
static ls_tensor *enter(ls_session *s, const char *name, ls_tensor *x) {
    return ls_check_operands(s, name, 1, &x) && ls_check_float(s, name, x)
               ? ls_cast(s, x, ls_dtype_compute(x->dtype))
               : NULL;
}

/* 1 / (1 + e^min(-x, limit)): the limit keeps e^-x finite, and with it the derivative. */
static ls_tensor *sigmoid(ls_session *s, ls_tensor *w) {
    if (!w) {
        return NULL;
    }
    double limit = w->dtype == LS_F64 ? 709 : 88;
    ls_tensor *e = ls_exp(s, ls_min(s, ls_neg(s, w), ls_const_like(s, w, limit)));
    return ls_recip(s, ls_add(s, ls_const_like(s, w, 1), e));
}

ls_tensor *ls_sigmoid(ls_session *s, ls_tensor *x) {
    ls_tensor *w = enter(s, "sigmoid", x);
    return w ? ls_cast(s, sigmoid(s, w), x->dtype) : NULL;
}

ls_tensor *ls_silu(ls_session *s, ls_tensor *x) {
    ls_tensor *w = enter(s, "silu", x);
    return w ? ls_cast(s, ls_mul(s, w, sigmoid(s, w)), x->dtype) : NULL;
}

ls_tensor *ls_gelu(ls_session *s, ls_tensor *x) {
    ls_tensor *w = enter(s, "gelu", x);
    if (!w) {
        return NULL;
    }
    ls_tensor *half = ls_mul(s, w, ls_const_like(s, w, 0.5));
    ls_tensor *e = ls_erf(s, ls_mul(s, w, ls_const_like(s, w, 0.70710678118654752440)));
    return ls_cast(s, ls_mul(s, half, ls_add(s, ls_const_like(s, w, 1), e)), x->dtype);
}

ls_tensor *ls_gelu_tanh(ls_session *s, ls_tensor *x) {
    ls_tensor *w = enter(s, "gelu_tanh", x);
    if (!w) {
        return NULL;
    }
    ls_tensor *cube = ls_mul(s, ls_mul(s, w, w), w);
    ls_tensor *inner = ls_add(s, w, ls_mul(s, cube, ls_const_like(s, w, 0.044715)));
    ls_tensor *t =
        ls_tanh(s, ls_mul(s, inner, ls_const_like(s, w, 0.79788456080286535588))); /* sqrt(2 / pi) */
    ls_tensor *half = ls_mul(s, w, ls_const_like(s, w, 0.5));
    return ls_cast(s, ls_mul(s, half, ls_add(s, ls_const_like(s, w, 1), t)), x->dtype);
}

/* x - max over the axis. The maximum changes no derivative, so none flows through it. */
static ls_tensor *below_max(ls_session *s, ls_tensor *w, int axis) {
    return ls_sub(s, w, ls_stop_gradient(s, ls_amax(s, w, 1, &axis, 1)));
}

ls_tensor *ls_softmax(ls_session *s, ls_tensor *x, int axis) {
    ls_tensor *w = enter(s, "softmax", x);
    if (!w || !ls_axis_check(s, "softmax", x, axis, &axis)) {
        return NULL;
    }
    ls_tensor *e = ls_exp(s, below_max(s, w, axis));
    return ls_cast(s, ls_div(s, e, ls_sum(s, e, 1, &axis, 1)), x->dtype);
}

ls_tensor *ls_log_softmax(ls_session *s, ls_tensor *x, int axis) {
    ls_tensor *w = enter(s, "log_softmax", x);
    if (!w || !ls_axis_check(s, "log_softmax", x, axis, &axis)) {
        return NULL;
    }
    ls_tensor *d = below_max(s, w, axis);
    ls_tensor *total = ls_log(s, ls_sum(s, ls_exp(s, d), 1, &axis, 1));
    return ls_cast(s, ls_sub(s, d, total), x->dtype);
}
