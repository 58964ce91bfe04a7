/* ai.onnx.preview.training: Adagrad, Adam, Momentum, and Gradient by ls_grad. */
#include "io/onnx/frame.h"
#include <lockstep/grad.h>
#include <string.h>

/* Operands: rate, update count, then `parts` groups of equally many tensors: the optimised ones, their
 * gradients, their states. */
typedef struct step {
    int count;
    ls_tensor *rate, *updates; /* scalars of the first tensor's dtype */
    ls_dtype dtype;
} step;

static ls_status step_begin(ls_onnx_node *n, int parts, step *out) {
    out->count = (n->n_in - 2) / parts;
    if (out->count < 1 || n->n_in != 2 + parts * out->count || n->n_out > (parts - 1) * out->count) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "%d operands and %d results: expected 2 and a multiple of %d",
                            n->n_in, n->n_out, parts);
    }
    ls_tensor *x = ls_onnx_in(n, 2);
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    out->dtype = ls_tensor_dtype(x);
    out->rate = ls_reshape(n->s, ls_cast(n->s, ls_onnx_in(n, 0), out->dtype), LS_SCALAR);
    out->updates = ls_reshape(n->s, ls_cast(n->s, ls_onnx_in(n, 1), out->dtype), LS_SCALAR);
    return out->rate && out->updates ? LS_OK : ls_onnx_out(n, 0, NULL);
}

/* Tensor i of a group. */
static ls_tensor *member(ls_onnx_node *n, const step *st, int group, int i) {
    return ls_onnx_in(n, 2 + group * st->count + i);
}

static ls_tensor *number(ls_onnx_node *n, const step *st, const char *name, double otherwise) {
    return ls_onnx_scalar(n, st->dtype, ls_onnx_attr_float(n, name, otherwise));
}

/* The gradient with that of the norm: norm_coefficient * x + g. */
static ls_tensor *regularized(ls_onnx_node *n, const step *st, int i) {
    ls_tensor *norm = ls_mul(n->s, number(n, st, "norm_coefficient", 0), member(n, st, 0, i));
    return ls_add(n->s, norm, member(n, st, 1, i));
}

static ls_status adagrad(ls_onnx_node *n) {
    step st;
    ls_session *s = n->s;
    LS_TRY(n->err, step_begin(n, 3, &st));
    ls_tensor *one = ls_onnx_scalar(n, st.dtype, 1);
    ls_tensor *rate =
        ls_div(s, st.rate, ls_add(s, one, ls_mul(s, st.updates, number(n, &st, "decay_factor", 0))));
    for (int i = 0; i < st.count; i++) {
        ls_tensor *g = regularized(n, &st, i), *h = ls_add(s, member(n, &st, 2, i), ls_mul(s, g, g));
        ls_tensor *scale = ls_add(s, ls_sqrt(s, h), number(n, &st, "epsilon", 0));
        ls_tensor *x = ls_sub(s, member(n, &st, 0, i), ls_div(s, ls_mul(s, rate, g), scale));
        LS_TRY(n->err, ls_onnx_out(n, i, x));
        LS_TRY(n->err, ls_onnx_out(n, st.count + i, h));
    }
    return LS_OK;
}

/* 1 - b^t without cancellation: -expm1(t log b). */
static ls_tensor *bias(ls_onnx_node *n, const step *st, ls_tensor *b) {
    return ls_neg(n->s, ls_expm1(n->s, ls_mul(n->s, st->updates, ls_log(n->s, b))));
}

/* a * x + (1 - a) * y */
static ls_tensor *blend(ls_onnx_node *n, const step *st, ls_tensor *a, ls_tensor *x, ls_tensor *y) {
    ls_tensor *rest = ls_sub(n->s, ls_onnx_scalar(n, st->dtype, 1), a);
    return ls_add(n->s, ls_mul(n->s, a, x), ls_mul(n->s, rest, y));
}

static ls_status adam(ls_onnx_node *n) {
    step st;
    ls_session *s = n->s;
    LS_TRY(n->err, step_begin(n, 4, &st));
    ls_tensor *alpha = number(n, &st, "alpha", 0.9f), *beta = number(n, &st, "beta", 0.999f),
              *zero = ls_onnx_scalar(n, st.dtype, 0);
    ls_tensor *corrected = ls_div(s, ls_mul(s, st.rate, ls_sqrt(s, bias(n, &st, beta))), bias(n, &st, alpha));
    ls_tensor *rate = ls_where(s, ls_gt(s, st.updates, zero), corrected, st.rate);
    ls_tensor *keep = ls_sub(s, ls_onnx_scalar(n, st.dtype, 1), number(n, &st, "norm_coefficient_post", 0));
    for (int i = 0; i < st.count; i++) {
        ls_tensor *g = regularized(n, &st, i);
        ls_tensor *v = blend(n, &st, alpha, member(n, &st, 2, i), g);
        ls_tensor *h = blend(n, &st, beta, member(n, &st, 3, i), ls_mul(s, g, g));
        ls_tensor *scale = ls_add(s, ls_sqrt(s, h), number(n, &st, "epsilon", 0));
        ls_tensor *x = ls_sub(s, member(n, &st, 0, i), ls_mul(s, rate, ls_div(s, v, scale)));
        LS_TRY(n->err, ls_onnx_out(n, i, ls_mul(s, keep, x)));
        LS_TRY(n->err, ls_onnx_out(n, st.count + i, v));
        LS_TRY(n->err, ls_onnx_out(n, 2 * st.count + i, h));
    }
    return LS_OK;
}

static ls_status momentum(ls_onnx_node *n) {
    step st;
    ls_session *s = n->s;
    const char *mode = ls_onnx_attr_string(n, "mode", "standard");
    bool nesterov = !strcmp(mode, "nesterov");
    LS_TRY(n->err, step_begin(n, 3, &st));
    if (!nesterov && strcmp(mode, "standard") != 0) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "mode \"%s\": expected standard or nesterov", mode);
    }
    ls_tensor *alpha = number(n, &st, "alpha", 0), *zero = ls_onnx_scalar(n, st.dtype, 0),
              *one = ls_onnx_scalar(n, st.dtype, 1);
    ls_tensor *beta = ls_where(s, ls_gt(s, st.updates, zero), number(n, &st, "beta", 0), one);
    for (int i = 0; i < st.count; i++) {
        ls_tensor *g = regularized(n, &st, i);
        ls_tensor *v = ls_add(s, ls_mul(s, alpha, member(n, &st, 2, i)), ls_mul(s, beta, g));
        ls_tensor *along = nesterov ? ls_add(s, g, ls_mul(s, alpha, v)) : v;
        LS_TRY(n->err, ls_onnx_out(n, i, ls_sub(s, member(n, &st, 0, i), ls_mul(s, st.rate, along))));
        LS_TRY(n->err, ls_onnx_out(n, st.count + i, v));
    }
    return LS_OK;
}

/* The operands must be the tensors that xs and zs name: y is differentiated where it stands, and not built
 * again elsewhere. */
static ls_status gradient(ls_onnx_node *n) {
    int n_xs, n_zs;
    const char *const *xs = ls_onnx_attr_strings(n, "xs", &n_xs), *const *zs =
                                                                      ls_onnx_attr_strings(n, "zs", &n_zs);
    const char *y = ls_onnx_attr_string(n, "y", "");
    ls_onnx_value *v;
    if (n_xs < 1 || n_xs + n_zs != n->n_in || n->n_out > n_xs) {
        return ls_onnx_fail(n, LS_ERR_FORMAT,
                            "%d operands and %d results: expected one for each of the %d xs and %d zs",
                            n->n_in, n->n_out, n_xs, n_zs);
    }
    ls_tensor **at = LS_ARENA_ARRAY(ls_onnx_arena(n), ls_tensor *, n_xs),
              **slopes = LS_ARENA_ARRAY(ls_onnx_arena(n), ls_tensor *, n_xs);
    if (!at || !slopes) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for %d gradients", n_xs);
    }
    for (int i = 0; i < n->n_in; i++) {
        const char *name = i < n_xs ? xs[i] : zs[i - n_xs];
        LS_TRY(n->err, ls_onnx_named(n, name, &v));
        if (!v || v != n->in[i]) {
            return ls_onnx_fail(n, LS_ERR_UNSUPPORTED,
                                "operand %d is not \"%s\": gradients are taken where the graph was built", i,
                                name);
        }
        if (i < n_xs) {
            at[i] = ls_onnx_tensor(n, v);
        }
    }
    LS_TRY(n->err, ls_onnx_named(n, y, &v));
    if (!v) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "y: \"%s\" is made by no node before this one", y);
    }
    ls_tensor *of = ls_onnx_tensor(n, v);
    if (!of || ls_grad(n->s, of, NULL, n_xs, at, slopes) != LS_OK) {
        return ls_onnx_out(n, 0, NULL);
    }
    for (int i = 0; i < n_xs; i++) {
        LS_TRY(n->err, ls_onnx_out(n, i, slopes[i]));
    }
    return LS_OK;
}

#define TRAINING "ai.onnx.preview.training"
const ls_onnx_op ls_onnx_train_ops[] = {
    {TRAINING, "Adagrad", 1, 3, -1, adagrad, 0},
    {TRAINING, "Adam", 1, 3, -1, adam, 0},
    {TRAINING, "Momentum", 1, 3, -1, momentum, 0},
    {TRAINING, "Gradient", 1, 1, -1, gradient, ONNX_DEVICE},
    {0},
};
