/* Normalisations. As the specification's functions do it: the statistics and the quotient are computed in the stash type, rounded to
 * the operand's type, then scaled and shifted in that. Variances take two passes. */
#include "io/onnx/extent.h"
#include <inttypes.h>
#include <string.h>

/* A parameter of the channels in front of `behind` more axes: [C] to [C,1,...]. */
static ls_tensor *per_channel(ls_onnx_node *n, ls_tensor *w, int behind) {
    int64_t dims[LS_MAX_RANK];
    if (!w) {
        return NULL;
    }
    int rank = ls_onnx_dims(w, dims);
    for (int i = 0; i < behind && rank < LS_MAX_RANK; i++) {
        dims[rank++] = 1;
    }
    return ls_onnx_shaped(n, w, rank, dims);
}

static ls_status stash_dtype(ls_onnx_node *n, ls_dtype *out) {
    int64_t type = ls_onnx_attr_int(n, "stash_type", ONNX_FLOAT);
    *out = ls_onnx_carrier((int)type);
    if (*out != LS_F16 && *out != LS_BF16 && *out != LS_F32 && *out != LS_F64) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "stash_type %" PRId64 ": expected a floating type", type);
    }
    return LS_OK;
}

/* (x - mean) / sqrt(variance + eps) over some axes in `stash`, rounded to x's dtype; the statistics keep the axes as 1. */
static ls_tensor *normalized(ls_onnx_node *n, ls_tensor *x, int count, const int *axes, double eps,
                             ls_dtype stash, bool center, ls_tensor **out_mean, ls_tensor **out_root) {
    ls_tensor *d = ls_cast(n->s, x, stash), *e = ls_onnx_scalar(n, stash, eps);
    *out_mean = NULL;
    if (center) {
        *out_mean = ls_mean(n->s, d, count, axes, 1);
        d = ls_sub(n->s, d, *out_mean);
    }
    *out_root = ls_sqrt(n->s, ls_add(n->s, ls_mean(n->s, ls_mul(n->s, d, d), count, axes, 1), e));
    return ls_cast(n->s, ls_div(n->s, d, *out_root), ls_tensor_dtype(x));
}

static ls_status last_axes(ls_onnx_node *n, ls_tensor *x, int *axes, int *out_count) {
    int64_t dims[LS_MAX_RANK];
    int rank = ls_onnx_dims(x, dims), first;
    LS_TRY(n->err, ls_onnx_axis(n, ls_onnx_attr_int(n, "axis", -1), rank, &first));
    *out_count = 0;
    for (int i = first; i < rank; i++) {
        axes[(*out_count)++] = i;
    }
    return LS_OK;
}

static ls_status layer_norm(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *scale = ls_onnx_in(n, 1), *bias = ls_onnx_in(n, 2), *mean, *root;
    int axes[LS_MAX_RANK], count;
    ls_dtype stash;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, last_axes(n, x, axes, &count));
    LS_TRY(n->err, stash_dtype(n, &stash));
    ls_tensor *y =
        normalized(n, x, count, axes, ls_onnx_attr_float(n, "epsilon", 1e-5f), stash, true, &mean, &root);
    y = ls_mul(n->s, y, scale);
    LS_TRY(n->err, ls_onnx_out(n, 0, bias ? ls_add(n->s, y, bias) : y));
    LS_TRY(n->err, ls_onnx_out(n, 1, mean));
    return ls_onnx_wants(n, 2) ? ls_onnx_out(n, 2, ls_recip(n->s, root)) : LS_OK;
}

static ls_status rms_norm(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *scale = ls_onnx_in(n, 1), *mean, *root;
    int axes[LS_MAX_RANK], count;
    ls_dtype stash;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, last_axes(n, x, axes, &count));
    LS_TRY(n->err, stash_dtype(n, &stash));
    ls_tensor *y =
        normalized(n, x, count, axes, ls_onnx_attr_float(n, "epsilon", 1e-5f), stash, false, &mean, &root);
    return ls_onnx_out(n, 0, ls_mul(n->s, y, scale));
}

/* x[N,C,...] normalized in groups of its channels; scale and bias are [C], or [groups] before version 21. */
static ls_status grouped(ls_onnx_node *n, ls_tensor *x, int64_t groups, ls_dtype stash) {
    ls_tensor *parameters[2] = {ls_onnx_in(n, 1), ls_onnx_in(n, 2)}, *mean, *root;
    int64_t dims[LS_MAX_RANK], given[LS_MAX_RANK];
    int rank = ls_onnx_dims(x, dims), axis = 2;
    const ls_shape shape = ls_tensor_shape(x);
    ls_shape cut = {.rank = 3};
    if (rank < 2 || groups < 1 || dims[1] < 0 || dims[1] % groups != 0) {
        return ls_onnx_fail(n, LS_ERR_SHAPE,
                            "%" PRId64
                            " groups over an operand of rank %d: expected a divisor of its channels, axis 1",
                            groups, rank);
    }
    LS_TRY(n->err, ls_onnx_volume(n, &shape, 2, rank, &cut.dim[2]));
    if (!ls_onnx_times(cut.dim[2], ls_dim_of(dims[1] / groups), &cut.dim[2])) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "too many elements");
    }
    cut.dim[0] = shape.dim[0];
    cut.dim[1] = ls_dim_of(groups);
    double eps = ls_onnx_attr_float(n, "epsilon", 1e-5f);
    ls_tensor *y = normalized(n, ls_reshape(n->s, x, cut), 1, &axis, eps, stash, true, &mean, &root);
    y = y ? ls_reshape(n->s, y, shape) : NULL;
    for (int i = 0; i < 2 && y; i++) {
        ls_tensor *w = parameters[i];
        if (w && ls_onnx_dims(w, given) == 1 && given[0] == groups && groups != dims[1]) {
            w = ls_expand(n->s, per_channel(n, w, 1), LS_SHAPE(groups, dims[1] / groups));
            w = w ? ls_onnx_shaped(n, w, 1, dims + 1) : NULL;
        }
        w = per_channel(n, w ? ls_cast(n->s, w, ls_tensor_dtype(x)) : NULL, rank - 2);
        y = i ? ls_add(n->s, y, w) : ls_mul(n->s, y, w);
    }
    return ls_onnx_out(n, 0, y);
}

static ls_status group_norm(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0);
    ls_dtype stash;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, stash_dtype(n, &stash));
    return grouped(n, x, ls_onnx_attr_int(n, "num_groups", 0), stash);
}

static ls_status instance_norm(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0);
    int64_t dims[LS_MAX_RANK];
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    int rank = ls_onnx_dims(x, dims);
    return grouped(n, x, rank > 1 ? dims[1] : 0, ls_tensor_dtype(x) == LS_F64 ? LS_F64 : LS_F32);
}

/* ---- batch normalisation ---- */

typedef struct batch_norm {
    ls_tensor *x, *scale, *bias, *mean,
        *variance; /* all in the compute dtype; parameters stand before the trailing axes */
    int rank;
    double eps;
} batch_norm;

static ls_tensor *batch_apply(ls_onnx_node *n, const batch_norm *b, ls_tensor *mean, ls_tensor *variance) {
    ls_tensor *root = ls_sqrt(n->s, ls_add(n->s, variance, ls_onnx_scalar(n, ls_tensor_dtype(b->x), b->eps)));
    ls_tensor *y = ls_div(n->s, ls_sub(n->s, b->x, mean), root);
    return ls_add(n->s, ls_mul(n->s, y, b->scale), b->bias);
}

/* old * momentum + now * (1 - momentum), as `like` is shaped and typed. */
static ls_tensor *running(ls_onnx_node *n, ls_tensor *old, ls_tensor *now, ls_tensor *like, double momentum) {
    ls_dtype dtype = ls_tensor_dtype(now);
    int64_t dims[LS_MAX_RANK];
    ls_tensor *m = ls_onnx_scalar(n, dtype, momentum), *rest = ls_sub(n->s, ls_onnx_scalar(n, dtype, 1), m);
    ls_tensor *sum =
        ls_add(n->s, ls_mul(n->s, old, m), ls_mul(n->s, ls_reshape(n->s, now, ls_tensor_shape(old)), rest));
    int rank = ls_onnx_dims(like, dims);
    return sum ? ls_cast(n->s, ls_onnx_shaped(n, sum, rank, dims), ls_tensor_dtype(like)) : NULL;
}

/* With the statistics of the batch, over all axes but the channels (or, per activation, the batch alone). */
static ls_status batch_train(ls_onnx_node *n, const batch_norm *b, bool spatial, ls_dtype dtype,
                             ls_tensor *y_shape) {
    int axes[LS_MAX_RANK] = {0}, count = 1;
    for (int i = 2; spatial && i < b->rank; i++) {
        axes[count++] = i;
    }
    ls_tensor *mean = ls_mean(n->s, b->x, count, axes, 1), *d = ls_sub(n->s, b->x, mean);
    ls_tensor *variance = ls_mean(n->s, ls_mul(n->s, d, d), count, axes, 1);
    ls_tensor *y = batch_apply(n, b, mean, variance);
    if (!y) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, ls_onnx_out(n, 0, ls_cast(n->s, ls_reshape(n->s, y, ls_tensor_shape(y_shape)), dtype)));
    double momentum = ls_onnx_attr_float(n, "momentum", 0.9f);
    LS_TRY(n->err, ls_onnx_out(n, 1, running(n, b->mean, mean, ls_onnx_in(n, 3), momentum)));
    LS_TRY(n->err, ls_onnx_out(n, 2, running(n, b->variance, variance, ls_onnx_in(n, 4), momentum)));
    if (n->version >= 14) {
        return LS_OK;
    }
    LS_TRY(n->err, ls_onnx_out(n, 3, running(n, b->mean, mean, ls_onnx_in(n, 3), 0)));
    return ls_onnx_out(n, 4, running(n, b->variance, variance, ls_onnx_in(n, 4), 0));
}

static ls_status batch_normalization(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *parameters[4];
    int64_t dims[LS_MAX_RANK];
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    ls_dtype dtype = ls_tensor_dtype(x), wide = dtype == LS_F64 ? LS_F64 : LS_F32;
    batch_norm b = {.rank = ls_onnx_dims(x, dims), .eps = ls_onnx_attr_float(n, "epsilon", 1e-5f)};
    bool spatial = n->version >= 9 || ls_onnx_attr_int(n, "spatial", 1) != 0;
    if (b.rank == 0) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "the operand is a scalar: expected [batch, channels, ...]");
    }
    if (b.rank == 1) { /* one channel */
        b.rank = 2;
        b.x = ls_cast(n->s, ls_unsqueeze(n->s, x, 1), wide);
    } else {
        b.x = ls_cast(n->s, x, wide);
    }
    for (int i = 0; i < 4; i++) {
        ls_tensor *p = ls_onnx_in(n, i + 1);
        parameters[i] = p ? per_channel(n, ls_cast(n->s, p, wide), spatial ? b.rank - 2 : 0) : NULL;
    }
    b.scale = parameters[0];
    b.bias = parameters[1];
    b.mean = parameters[2];
    b.variance = parameters[3];
    bool train = n->version >= 14 ? ls_onnx_attr_int(n, "training_mode", 0) != 0
                                  : n->n_out > 1 && (n->version >= 7 || !ls_onnx_attr_int(n, "is_test", 0));
    if (train) {
        return batch_train(n, &b, spatial, dtype, x);
    }
    ls_tensor *y = batch_apply(n, &b, b.mean, b.variance);
    return ls_onnx_out(n, 0, y ? ls_cast(n->s, ls_reshape(n->s, y, ls_tensor_shape(x)), dtype) : NULL);
}

const ls_onnx_op ls_onnx_norm_ops[] = {{"", "BatchNormalization", 1, 5, 5, batch_normalization, ONNX_SYMBOLS},
                                       {"", "InstanceNormalization", 1, 3, 3, instance_norm, ONNX_SYMBOLS},
                                       {"", "GroupNormalization", 18, 3, 3, group_norm, ONNX_SYMBOLS},
                                       {"", "LayerNormalization", 17, 2, 3, layer_norm, ONNX_SYMBOLS},
                                       {"", "RMSNormalization", 23, 2, 2, rms_norm, ONNX_SYMBOLS},
                                       {0}};
