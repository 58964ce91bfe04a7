/* Random numbers: functions of a key alone, the same on every device and in every run. The key comes from
 * the seed, or from the node's name where it has none (ls_onnx_stream). */
#include "io/onnx/onnx.h"
#include <string.h>

static ls_tensor *key_of(ls_onnx_node *n) {
    float seed = (float)ls_onnx_attr_float(n, "seed", 0);
    uint32_t bits;
    memcpy(&bits, &seed, sizeof bits);
    return ls_random_key(n->s, ls_onnx_stream(n, ls_onnx_attr(n, "seed"), bits));
}

/* The floating dtype that a result of ONNX type `type` is computed in. */
static ls_dtype wide_of(int type) {
    return ls_onnx_carrier(type) == LS_F64 ? LS_F64 : LS_F32;
}

static ls_status floating(ls_onnx_node *n, int type) {
    return type == ONNX_FLOAT || type == ONNX_DOUBLE || type == ONNX_FLOAT16 || type == ONNX_BFLOAT16
               ? LS_OK
               : ls_onnx_fail(n, LS_ERR_DTYPE, "dtype %s: expected float, double, float16 or bfloat16",
                              ls_onnx_type_name(type));
}

/* x * scale + offset, rounded to the type. */
static ls_status out_affine(ls_onnx_node *n, ls_tensor *x, double scale, double offset, int type) {
    ls_dtype wide = wide_of(type);
    x = ls_mul(n->s, x, ls_onnx_scalar(n, wide, scale));
    x = ls_add(n->s, x, ls_onnx_scalar(n, wide, offset));
    return ls_onnx_out_as(n, 0, ls_cast(n->s, x, ls_onnx_carrier(type)), type);
}

static ls_status fill(ls_onnx_node *n, ls_shape shape, int type, bool normal) {
    LS_TRY(n->err, floating(n, type));
    if (normal) {
        ls_tensor *x = ls_random_normal(n->s, key_of(n), shape, wide_of(type));
        return out_affine(n, x, ls_onnx_attr_float(n, "scale", 1), ls_onnx_attr_float(n, "mean", 0), type);
    }
    double low = ls_onnx_attr_float(n, "low", 0), high = ls_onnx_attr_float(n, "high", 1);
    return out_affine(n, ls_random_uniform(n->s, key_of(n), shape, wide_of(type)), high - low, low, type);
}

static ls_status of_shape(ls_onnx_node *n, bool normal) {
    int rank = 0;
    const int64_t *dims = ls_onnx_attr_ints(n, "shape", &rank);
    if (!ls_onnx_attr(n, "shape") || rank > LS_MAX_RANK) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "attribute shape: expected 0 to %d extents", LS_MAX_RANK);
    }
    return fill(n, ls_shape_make(rank, dims), (int)ls_onnx_attr_int(n, "dtype", ONNX_FLOAT), normal);
}

static ls_status like(ls_onnx_node *n, bool normal) {
    ls_tensor *x = ls_onnx_in(n, 0);
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    return fill(n, ls_tensor_shape(x), (int)ls_onnx_attr_int(n, "dtype", ls_onnx_in_type(n, 0)), normal);
}

static ls_status random_normal(ls_onnx_node *n) {
    return of_shape(n, true);
}
static ls_status random_uniform(ls_onnx_node *n) {
    return of_shape(n, false);
}
static ls_status random_normal_like(ls_onnx_node *n) {
    return like(n, true);
}
static ls_status random_uniform_like(ls_onnx_node *n) {
    return like(n, false);
}

/* 1 with probability x. */
static ls_status bernoulli(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0);
    int type = (int)ls_onnx_attr_int(n, "dtype", ls_onnx_in_type(n, 0));
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (ls_onnx_carrier(type) == LS_DTYPE_COUNT) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "dtype %s", ls_onnx_type_name(type));
    }
    ls_dtype wide = wide_of(ls_onnx_in_type(n, 0));
    ls_tensor *u = ls_random_uniform(n->s, key_of(n), ls_tensor_shape(x), wide);
    return ls_onnx_out_as(n, 0, ls_cast(n->s, ls_lt(n->s, u, ls_cast(n->s, x, wide)), ls_onnx_carrier(type)),
                          type);
}

/* Samples classes of x[batch, classes], logarithms of weights, by their running sum: how many of its
 * entries are at most u * total. A class without weight is never drawn. */
static ls_status multinomial(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0);
    int64_t dims[LS_MAX_RANK] = {0}, samples = ls_onnx_attr_int(n, "sample_size", 1);
    int type = (int)ls_onnx_attr_int(n, "dtype", ONNX_INT32);
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (ls_onnx_dims(x, dims) != 2 || dims[1] < 1 || samples < 1) {
        return ls_onnx_fail(n, LS_ERR_SHAPE,
                            "expected an operand [batch, classes] and a positive sample_size");
    }
    if (type != ONNX_INT32 && type != ONNX_INT64) {
        return ls_onnx_fail(n, LS_ERR_DTYPE, "dtype %s: expected int32 or int64", ls_onnx_type_name(type));
    }
    ls_session *s = n->s;
    ls_dtype wide = wide_of(ls_onnx_in_type(n, 0)), whole = ls_onnx_carrier(type);
    x = ls_cast(s, x, wide);
    ls_tensor *weight = ls_exp(s, ls_sub(s, x, ls_amax(s, x, 1, (const int[]){1}, 1)));
    ls_tensor *running = ls_scan(s, weight, LS_SCAN_SUM, 1, 0, 0);
    ls_tensor *total = ls_narrow(s, running, 1, dims[1] - 1, 1);
    ls_tensor *u = ls_mul(s, ls_random_uniform(s, key_of(n), LS_SHAPE(dims[0], samples), wide), total);
    ls_tensor *below = ls_le(s, ls_unsqueeze(s, running, 1), ls_unsqueeze(s, u, 2));
    ls_tensor *index = ls_sum(s, ls_cast(s, below, whole), 1, (const int[]){2}, 0);
    return ls_onnx_out_as(n, 0, ls_min(s, index, ls_onnx_scalar(n, whole, (double)(dims[1] - 1))), type);
}

const ls_onnx_op ls_onnx_random_ops[] = {
    {"", "RandomNormal", 1, 0, 0, random_normal, ONNX_DEVICE},
    {"", "RandomUniform", 1, 0, 0, random_uniform, ONNX_DEVICE},
    {"", "RandomNormalLike", 1, 1, 1, random_normal_like, ONNX_DEVICE},
    {"", "RandomUniformLike", 1, 1, 1, random_uniform_like, ONNX_DEVICE},
    {"", "Bernoulli", 15, 1, 1, bernoulli, ONNX_DEVICE},
    {"", "Multinomial", 7, 1, 1, multinomial, ONNX_DEVICE},
    {0},
};
