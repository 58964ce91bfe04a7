/* Normalisations. Two passes: mean, then the mean of squared differences; f16 and bf16 are computed in
 * f32. */
#include "graph/build.h"
#include <inttypes.h>

static ls_tensor *wide_cast(ls_session *s, ls_tensor *x) {
    return x ? ls_cast(s, x, ls_dtype_compute(x->dtype)) : NULL;
}

/* y * gamma + beta, either of which may be NULL; they broadcast from the last axis on. */
static ls_tensor *scale_shift(ls_session *s, ls_tensor *y, ls_tensor *gamma, ls_tensor *beta) {
    y = gamma ? ls_mul(s, y, wide_cast(s, gamma)) : y;
    return beta ? ls_add(s, y, wide_cast(s, beta)) : y;
}

/* d / sqrt(v + eps) */
static ls_tensor *over_root(ls_session *s, ls_tensor *d, ls_tensor *v, double eps) {
    return v ? ls_div(s, d, ls_sqrt(s, ls_add(s, v, ls_const_like(s, v, eps)))) : NULL;
}

static bool norm_check(ls_session *s, const char *name, ls_tensor *x, ls_tensor *gamma, ls_tensor *beta,
                       double eps) {
    ls_tensor *src[3] = {x};
    int n = 1;
    src[n] = gamma;
    n += gamma != NULL;
    src[n] = beta;
    n += beta != NULL;
    if (!ls_check_operands(s, name, n, src) || !ls_check_float(s, name, x) ||
        !ls_check_same_dtype(s, name, gamma, x) || !ls_check_same_dtype(s, name, beta, x)) {
        return false;
    }
    if (!(eps >= 0)) {
        LS_NODE_FAIL(s, LS_ERR_INVALID, "%s: eps %g: expected 0 or more", name, eps);
        return false;
    }
    return true;
}

static bool parameter_check(ls_session *s, const char *name, const char *which, const ls_tensor *x,
                            const ls_tensor *w, const ls_shape *shape) {
    if (!w || ls_shape_equal(&w->shape, shape)) {
        return true;
    }
    LS_NODE_FAIL(s, LS_ERR_SHAPE, "%s: operand is %s and %s is %s: expected shape %s", name, LS_TEXT(x),
                 which, LS_TEXT(w), LS_SHAPE_TEXT_OF(shape));
    return false;
}

/* The axes from `axis` on, and their shape. */
static int trailing(const ls_tensor *x, int axis, int *out_axes, ls_shape *out_shape) {
    *out_shape = (ls_shape){.rank = 0};
    for (int i = axis; i < x->shape.rank; i++) {
        out_axes[out_shape->rank] = i;
        out_shape->dim[out_shape->rank++] = x->shape.dim[i];
    }
    return out_shape->rank;
}

ls_tensor *ls_layer_norm(ls_session *s, ls_tensor *x, int axis, ls_tensor *gamma, ls_tensor *beta,
                         double eps) {
    int axes[LS_MAX_RANK];
    ls_shape shape;
    if (!norm_check(s, "layer_norm", x, gamma, beta, eps) ||
        !ls_axis_check(s, "layer_norm", x, axis, &axis)) {
        return NULL;
    }
    int n = trailing(x, axis, axes, &shape);
    if (!parameter_check(s, "layer_norm", "gamma", x, gamma, &shape) ||
        !parameter_check(s, "layer_norm", "beta", x, beta, &shape)) {
        return NULL;
    }
    ls_tensor *w = wide_cast(s, x), *d = ls_sub(s, w, ls_mean(s, w, n, axes, 1));
    ls_tensor *y = over_root(s, d, ls_mean(s, ls_mul(s, d, d), n, axes, 1), eps);
    return ls_cast(s, scale_shift(s, y, gamma, beta), x->dtype);
}

ls_tensor *ls_rms_norm(ls_session *s, ls_tensor *x, int axis, ls_tensor *gamma, double eps) {
    int axes[LS_MAX_RANK];
    ls_shape shape;
    if (!norm_check(s, "rms_norm", x, gamma, NULL, eps) || !ls_axis_check(s, "rms_norm", x, axis, &axis)) {
        return NULL;
    }
    int n = trailing(x, axis, axes, &shape);
    if (!parameter_check(s, "rms_norm", "gamma", x, gamma, &shape)) {
        return NULL;
    }
    ls_tensor *w = wide_cast(s, x);
    ls_tensor *y = over_root(s, w, ls_mean(s, ls_mul(s, w, w), n, axes, 1), eps);
    return ls_cast(s, scale_shift(s, y, gamma, NULL), x->dtype);
}

/* A parameter of the channels, where channels are axis 1 of rank `rank`. */
static ls_tensor *per_channel(ls_session *s, ls_tensor *w, int rank) {
    return w ? ls_along(s, w, 1, rank) : NULL;
}

static bool channels_check(ls_session *s, const char *name, const ls_tensor *x, int n,
                           ls_tensor *const *parameters, const char *const *names) {
    if (!ls_check_rank(s, name, x, 2, LS_MAX_RANK)) {
        return false;
    }
    ls_shape shape = {.rank = 1, .dim = {x->shape.dim[1]}};
    for (int i = 0; i < n; i++) {
        if (!parameter_check(s, name, names[i], x, parameters[i], &shape)) {
            return false;
        }
    }
    return true;
}

ls_tensor *ls_group_norm(ls_session *s, ls_tensor *x, int64_t groups, ls_tensor *gamma, ls_tensor *beta,
                         double eps) {
    static const char *const names[] = {"gamma", "beta"};
    if (!norm_check(s, "group_norm", x, gamma, beta, eps) ||
        !channels_check(s, "group_norm", x, 2, (ls_tensor *[]){gamma, beta}, names)) {
        return NULL;
    }
    ls_dim channels = x->shape.dim[1];
    if (groups < 1 || !ls_dim_is_fixed(channels) || channels.offset % groups) {
        return LS_NODE_FAIL(s, LS_ERR_INVALID,
                            "group_norm: groups %" PRId64
                            " of %s: expected a divisor of the channels (axis 1)",
                            groups, LS_TEXT(x));
    }
    if (x->shape.rank == LS_MAX_RANK) {
        return LS_NODE_FAIL(s, LS_ERR_UNSUPPORTED, "group_norm: operand is %s: expected at most %d axes", LS_TEXT(x), LS_MAX_RANK - 1);
    }
    /* A group's channels keep an axis of their own, as pixels keep theirs: what scales them may be in the same kernel then. */
    ls_shape split = x->shape;
    split.dim[1] = ls_dim_fixed(groups);
    split = ls_shape_insert(&split, 2, ls_dim_fixed(channels.offset / groups));
    ls_shape parameter = split;
    int axes[LS_MAX_RANK], n = 0;
    for (int i = 0; i < split.rank; i++) {
        parameter.dim[i] = i == 1 || i == 2 ? split.dim[i] : ls_dim_fixed(1);
        axes[n] = i;
        n += i > 1;
    }
    ls_tensor *w = ls_reshape(s, wide_cast(s, x), split), *d = ls_sub(s, w, ls_mean(s, w, n, axes, 1));
    ls_tensor *y = over_root(s, d, ls_mean(s, ls_mul(s, d, d), n, axes, 1), eps);
    y = scale_shift(s, y, gamma ? ls_reshape(s, gamma, parameter) : NULL, beta ? ls_reshape(s, beta, parameter) : NULL);
    return ls_cast(s, ls_reshape(s, y, x->shape), x->dtype);
}

ls_tensor *ls_batch_norm(ls_session *s, ls_tensor *x, ls_tensor *mean, ls_tensor *variance, ls_tensor *gamma,
                         ls_tensor *beta, double eps) {
    static const char *const names[] = {"mean", "variance", "gamma", "beta"};
    if (!ls_check_operands(s, "batch_norm", 3, (ls_tensor *[]){x, mean, variance}) ||
        !norm_check(s, "batch_norm", x, gamma, beta, eps) || !ls_check_same_dtype(s, "batch_norm", mean, x) ||
        !ls_check_same_dtype(s, "batch_norm", variance, x) ||
        !channels_check(s, "batch_norm", x, 4, (ls_tensor *[]){mean, variance, gamma, beta}, names)) {
        return NULL;
    }
    int rank = x->shape.rank;
    ls_tensor *d = ls_sub(s, wide_cast(s, x), wide_cast(s, per_channel(s, mean, rank)));
    ls_tensor *y = over_root(s, d, wide_cast(s, per_channel(s, variance, rank)), eps);
    return ls_cast(s, scale_shift(s, y, per_channel(s, gamma, rank), per_channel(s, beta, rank)), x->dtype);
}

ls_tensor *ls_batch_norm_train(ls_session *s, ls_tensor *x, ls_tensor *gamma, ls_tensor *beta, double eps,
                               ls_tensor **out_mean, ls_tensor **out_variance) {
    static const char *const names[] = {"gamma", "beta"};
    int axes[LS_MAX_RANK] = {0}, n = 1;
    *out_mean = *out_variance = NULL;
    if (!norm_check(s, "batch_norm_train", x, gamma, beta, eps) ||
        !channels_check(s, "batch_norm_train", x, 2, (ls_tensor *[]){gamma, beta}, names)) {
        return NULL;
    }
    int rank = x->shape.rank;
    for (int i = 2; i < rank; i++) {
        axes[n++] = i;
    }
    ls_tensor *w = wide_cast(s, x), *mean = ls_mean(s, w, n, axes, 1), *d = ls_sub(s, w, mean);
    ls_tensor *variance = ls_mean(s, ls_mul(s, d, d), n, axes, 1);
    ls_tensor *y = over_root(s, d, variance, eps);
    y = ls_cast(s, scale_shift(s, y, per_channel(s, gamma, rank), per_channel(s, beta, rank)), x->dtype);
    ls_shape channels = {.rank = 1, .dim = {x->shape.dim[1]}};
    *out_mean = ls_cast(s, ls_reshape(s, mean, channels), x->dtype);
    *out_variance = ls_cast(s, ls_reshape(s, variance, channels), x->dtype);
    return *out_mean && *out_variance ? y : NULL;
}

ls_tensor *ls_local_response_norm(ls_session *s, ls_tensor *x, int64_t size, double alpha, double beta,
                                  double k) {
    if (!ls_check_operands(s, "local_response_norm", 1, &x) || !ls_check_float(s, "local_response_norm", x) ||
        !ls_check_rank(s, "local_response_norm", x, 2, LS_MAX_RANK - 1)) {
        return NULL;
    }
    if (size < 1) {
        return LS_NODE_FAIL(s, LS_ERR_INVALID,
                            "local_response_norm: size %" PRId64 " of %s: expected 1 or more", size,
                            LS_TEXT(x));
    }
    ls_pad_spec pads[LS_MAX_RANK] = {{0, 0, 0}, {(size - 1) / 2, size - 1 - (size - 1) / 2, 0}};
    ls_window_spec window = {size, 1, 1};
    int channel = 1, last = x->shape.rank;
    ls_tensor *w = wide_cast(s, x), *squares = ls_pad_absent(s, ls_mul(s, w, w), pads);
    squares = ls_sum(s, ls_window(s, squares, 1, &channel, &window), 1, &last, 0);
    if (!squares) {
        return NULL;
    }
    ls_tensor *share = ls_div(s, ls_const_like(s, w, alpha), ls_const_like(s, w, (double)size));
    ls_tensor *base = ls_add(s, ls_const_like(s, w, k), ls_mul(s, share, squares));
    return ls_cast(s, ls_div(s, w, ls_pow(s, base, ls_const_like(s, w, beta))), x->dtype);
}
