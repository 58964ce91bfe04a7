/* ONNX: reductions, ArgMax and ArgMin, running sums, and what is normalised by a reduction (Softmax,
 * Hardmax, LpNormalization, MeanVarianceNormalization). Sums of f16 and bf16 are taken in f32 and rounded
 * once. */
#include "base/dtype.h"
#include "io/onnx/convert.h"
#include "io/onnx/extent.h"

typedef enum reduction {
    RED_SUM,
    RED_PROD,
    RED_MIN,
    RED_MAX,
    RED_MEAN,
    RED_L1,
    RED_L2,
    RED_LOG_SUM,
    RED_LOG_SUM_EXP,
    RED_SUM_SQUARE
} reduction;

typedef struct over {
    int count, axes[LS_MAX_RANK];
    int keep;
    bool nothing; /* no axis is reduced, though the element-by-element part is done */
} over;

/* The axes: an attribute in old versions, an operand since 13 (ReduceSum) or 18. None: all, or nothing if
 * the node says so. */
static ls_status read_axes(ls_onnx_node *n, int rank, over *o) {
    const int64_t *list;
    int count = 0;
    int64_t *from_operand = NULL;
    list = ls_onnx_attr_ints(n, "axes", &count);
    if (ls_onnx_has(n, 1)) {
        LS_TRY(n->err, ls_onnx_ints(n, 1, &from_operand, &count));
        list = from_operand;
    }
    *o = (over){.keep = ls_onnx_attr_int(n, "keepdims", 1) != 0};
    if (count > LS_MAX_RANK) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "%d axes: expected at most %d", count, LS_MAX_RANK);
    }
    for (int i = 0; i < count; i++) {
        LS_TRY(n->err, ls_onnx_axis(n, list[i], rank, &o->axes[o->count++]));
    }
    if (count == 0) {
        o->nothing = rank == 0 || ls_onnx_attr_int(n, "noop_with_empty_axes", 0) != 0;
        for (int i = 0; i < rank && !o->nothing; i++) {
            o->axes[o->count++] = i;
        }
    }
    return LS_OK;
}

static ls_tensor *sum_over(ls_onnx_node *n, ls_tensor *x, const over *o) {
    return o->nothing ? x : ls_sum(n->s, x, o->count, o->axes, o->keep);
}

static ls_tensor *mean_over(ls_onnx_node *n, ls_tensor *x, const over *o) {
    int64_t count = 1;
    if (!x || o->nothing) {
        return x;
    }
    const ls_shape shape = ls_tensor_shape(x);
    ls_tensor *symbolic = NULL;
    for (int i = 0; i < o->count; i++) {
        ls_dim d = shape.dim[o->axes[i]];
        count *= d.symbol ? 1 : d.offset;
        ls_tensor *more = d.symbol ? ls_dim_value(n->s, d) : symbolic;
        symbolic = d.symbol && symbolic ? ls_mul(n->s, symbolic, more) : more;
    }
    ls_tensor *divisor = ls_full_i64(n->s, symbolic ? LS_I64 : ls_tensor_dtype(x), LS_SCALAR, count);
    divisor = symbolic ? ls_cast(n->s, ls_mul(n->s, symbolic, divisor), ls_tensor_dtype(x)) : divisor;
    return ls_div(n->s, sum_over(n, x, o), divisor);
}

/* The smallest or largest of nothing is the other end of the type. */
static ls_tensor *extreme_over(ls_onnx_node *n, ls_tensor *x, const over *o, bool largest) {
    const ls_shape from = ls_tensor_shape(x);
    ls_shape shape = {.rank = 0};
    bool empty = false, gone[LS_MAX_RANK] = {false};
    if (o->nothing) {
        return x;
    }
    for (int i = 0; i < o->count; i++) {
        bool none;
        if (ls_onnx_equal(n, from.dim[o->axes[i]], ls_dim_of(0), &none) != LS_OK) {
            return NULL;
        }
        empty |= none;
        gone[o->axes[i]] = true;
    }
    if (!empty) {
        return largest ? ls_amax(n->s, x, o->count, o->axes, o->keep)
                       : ls_amin(n->s, x, o->count, o->axes, o->keep);
    }
    for (int i = 0; i < from.rank; i++) {
        if (!gone[i] || o->keep) {
            shape.dim[shape.rank++] = gone[i] ? ls_dim_of(1) : from.dim[i];
        }
    }
    return ls_full(n->s, ls_tensor_dtype(x), shape, largest ? -__builtin_inf() : __builtin_inf());
}

/* Roots and logarithms of integers are taken in floating point. */
static ls_tensor *root_or_log(ls_onnx_node *n, ls_tensor *x, ls_tensor *(*f)(ls_session *, ls_tensor *)) {
    if (!x) {
        return NULL;
    }
    ls_dtype dtype = ls_tensor_dtype(x);
    ls_dtype wide = ls_dtype_is_float(dtype) ? dtype : ls_dtype_size(dtype) <= 2 ? LS_F32 : LS_F64;
    ls_tensor *y = f(n->s, ls_cast(n->s, x, wide));
    return y ? ls_cast(n->s, y, dtype) : NULL;
}

static ls_tensor *log_sum_exp(ls_onnx_node *n, ls_tensor *x, const over *o) {
    ls_dtype dtype = ls_tensor_dtype(x);
    ls_dtype wide = ls_dtype_is_float(dtype) ? dtype : LS_F64;
    ls_tensor *y = o->nothing ? x : ls_logsumexp(n->s, ls_cast(n->s, x, wide), o->count, o->axes, o->keep);
    return y ? ls_cast(n->s, y, dtype) : NULL;
}

static ls_tensor *reduced(ls_onnx_node *n, reduction r, ls_tensor *x, const over *o) {
    ls_session *s = n->s;
    switch (r) {
    case RED_SUM:
        return sum_over(n, x, o);
    case RED_PROD:
        return o->nothing ? x : ls_prod(s, x, o->count, o->axes, o->keep);
    case RED_MIN:
        return extreme_over(n, x, o, false);
    case RED_MAX:
        return extreme_over(n, x, o, true);
    case RED_MEAN:
        return mean_over(n, x, o);
    case RED_L1:
        return sum_over(n, ls_abs(s, x), o);
    case RED_L2:
        return root_or_log(n, sum_over(n, ls_mul(s, x, x), o), ls_sqrt);
    case RED_LOG_SUM:
        return root_or_log(n, sum_over(n, x, o), ls_log);
    case RED_LOG_SUM_EXP:
        return log_sum_exp(n, x, o);
    case RED_SUM_SQUARE:
        return sum_over(n, ls_mul(s, x, x), o);
    }
    return NULL;
}

static ls_status reduce(ls_onnx_node *n, reduction r) {
    ls_tensor *x = ls_onnx_in(n, 0);
    int64_t dims[LS_MAX_RANK];
    over o;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, read_axes(n, ls_onnx_dims(x, dims), &o));
    ls_dtype dtype = ls_tensor_dtype(x);
    ls_tensor *w = ls_cast(n->s, x, ls_onnx_wide(dtype));
    ls_tensor *y = w ? reduced(n, r, w, &o) : NULL;
    return ls_onnx_out(n, 0, y ? ls_cast(n->s, y, dtype) : NULL);
}

#define REDUCE(name, r)                                                                                      \
    static ls_status name(ls_onnx_node *n) {                                                                 \
        return reduce(n, r);                                                                                 \
    }
REDUCE(reduce_sum, RED_SUM)
REDUCE(reduce_prod, RED_PROD)
REDUCE(reduce_min, RED_MIN)
REDUCE(reduce_max, RED_MAX)
REDUCE(reduce_mean, RED_MEAN)
REDUCE(reduce_l1, RED_L1)
REDUCE(reduce_l2, RED_L2)
REDUCE(reduce_log_sum, RED_LOG_SUM)
REDUCE(reduce_log_sum_exp, RED_LOG_SUM_EXP)
REDUCE(reduce_sum_square, RED_SUM_SQUARE)

/* ---- positions of extremes ---- */

static ls_status arg_extreme(ls_onnx_node *n, bool largest) {
    ls_session *s = n->s;
    ls_tensor *x = ls_onnx_in(n, 0);
    int axis;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    const ls_shape shape = ls_tensor_shape(x);
    LS_TRY(n->err, ls_onnx_axis(n, ls_onnx_attr_int(n, "axis", 0), shape.rank, &axis));
    bool any, last = ls_onnx_attr_int(n, "select_last_index", 0) != 0;
    LS_TRY(n->err, ls_onnx_at_least(n, shape.dim[axis], ls_dim_of(1), &any)); /* or the builder says that it is empty */
    int keep = ls_onnx_attr_int(n, "keepdims", 1) != 0;
    x = last ? ls_flip(s, x, axis) : x;
    ls_tensor *y = largest ? ls_argmax(s, x, 1, &axis, keep) : ls_argmin(s, x, 1, &axis, keep);
    return ls_onnx_out(n, 0, last ? ls_sub(s, ls_sub(s, ls_onnx_extent_tensor(n, shape.dim[axis]), ls_full_i64(s, LS_I64, LS_SCALAR, 1)), y) : y);
}

static ls_status arg_max(ls_onnx_node *n) {
    return arg_extreme(n, true);
}

static ls_status arg_min(ls_onnx_node *n) {
    return arg_extreme(n, false);
}

/* ---- running sums and products ---- */

static ls_status running(ls_onnx_node *n, ls_scan_kind kind) {
    ls_tensor *x = ls_onnx_in(n, 0);
    int64_t dims[LS_MAX_RANK], where = 0;
    int axis;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, ls_onnx_int(n, 1, 0, &where));
    LS_TRY(n->err, ls_onnx_axis(n, where, ls_onnx_dims(x, dims), &axis));
    int exclusive = ls_onnx_attr_int(n, "exclusive", 0) != 0,
        reverse = ls_onnx_attr_int(n, "reverse", 0) != 0;
    return ls_onnx_out(n, 0, ls_scan(n->s, x, kind, axis, exclusive, reverse));
}

static ls_status cum_sum(ls_onnx_node *n) {
    return running(n, LS_SCAN_SUM);
}

static ls_status cum_prod(ls_onnx_node *n) {
    return running(n, LS_SCAN_PROD);
}

/* ---- over one axis, or, before opset 13, over all from it on ---- */

static ls_tensor *hardmax(ls_session *s, ls_tensor *x, int axis) {
    if (!x) {
        return NULL;
    }
    ls_tensor *best = ls_argmax(s, x, 1, &axis, 1), *at = ls_iota(s, LS_I64, ls_tensor_shape(x), axis);
    return ls_cast(s, ls_eq(s, at, best), ls_tensor_dtype(x));
}

static ls_status along(ls_onnx_node *n, ls_tensor *(*f)(ls_session *, ls_tensor *, int)) {
    ls_tensor *x = ls_onnx_in(n, 0);
    int axis;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    const ls_shape shape = ls_tensor_shape(x);
    ls_shape flat = {.rank = 2};
    int rank = shape.rank;
    bool old = n->version < 13;
    int64_t where = ls_onnx_attr_int(n, "axis", old ? 1 : -1);
    if (old && where == rank) { /* one row for each element */
        axis = rank;
    } else {
        LS_TRY(n->err, ls_onnx_axis(n, where, rank, &axis));
    }
    for (int i = 0; i < rank; i++) {
        if (ls_onnx_same(shape.dim[i], ls_dim_of(0))) {
            return ls_onnx_out(n, 0, x);
        }
    }
    if (!old || axis == rank - 1) {
        return ls_onnx_out(n, 0, f(n->s, x, axis));
    }
    LS_TRY(n->err, ls_onnx_volume(n, &shape, 0, axis, &flat.dim[0]));
    LS_TRY(n->err, ls_onnx_volume(n, &shape, axis, rank, &flat.dim[1]));
    ls_tensor *y = f(n->s, ls_reshape(n->s, x, flat), 1);
    return ls_onnx_out(n, 0, ls_reshape(n->s, y, shape));
}

static ls_status softmax(ls_onnx_node *n) {
    return along(n, ls_softmax);
}

static ls_status log_softmax(ls_onnx_node *n) {
    return along(n, ls_log_softmax);
}

static ls_status op_hardmax(ls_onnx_node *n) {
    return along(n, hardmax);
}

/* x / |x|_p along an axis; 0 where the norm is 0. */
static ls_status lp_normalization(ls_onnx_node *n) {
    ls_session *s = n->s;
    ls_tensor *x = ls_onnx_in(n, 0);
    int64_t dims[LS_MAX_RANK], p = ls_onnx_attr_int(n, "p", 2);
    int axis;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, ls_onnx_axis(n, ls_onnx_attr_int(n, "axis", -1), ls_onnx_dims(x, dims), &axis));
    if (p != 1 && p != 2) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "attribute p is %lld: expected 1 or 2", (long long)p);
    }
    ls_dtype dtype = ls_tensor_dtype(x), wide = ls_onnx_wide(dtype);
    ls_tensor *w = ls_cast(s, x, wide), *zero = ls_onnx_scalar(n, wide, 0);
    ls_tensor *norm =
        p == 1 ? ls_sum(s, ls_abs(s, w), 1, &axis, 1) : ls_sqrt(s, ls_sum(s, ls_mul(s, w, w), 1, &axis, 1));
    ls_tensor *none = ls_eq(s, norm, zero), *safe = ls_where(s, none, ls_onnx_scalar(n, wide, 1), norm);
    ls_tensor *y = ls_where(s, none, zero, ls_div(s, w, safe));
    return ls_onnx_out(n, 0, y ? ls_cast(s, y, dtype) : NULL);
}

/* (x - mean) / (deviation + 1e-9). The variance is of the differences, not a difference of squares. */
static ls_status mean_variance_normalization(ls_onnx_node *n) {
    static const int64_t usual[] = {0, 2, 3};
    ls_session *s = n->s;
    ls_tensor *x = ls_onnx_in(n, 0);
    int64_t dims[LS_MAX_RANK];
    over o = {.keep = 1};
    int count;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    int rank = ls_onnx_dims(x, dims);
    const int64_t *axes = ls_onnx_attr_ints(n, "axes", &count);
    count = axes ? count : 3;
    axes = axes ? axes : usual;
    if (count > LS_MAX_RANK) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "%d axes: expected at most %d", count, LS_MAX_RANK);
    }
    for (int i = 0; i < count; i++) {
        LS_TRY(n->err, ls_onnx_axis(n, axes[i], rank, &o.axes[o.count++]));
    }
    ls_dtype dtype = ls_tensor_dtype(x), wide = ls_onnx_wide(dtype);
    ls_tensor *w = ls_cast(s, x, wide), *d = ls_sub(s, w, mean_over(n, w, &o));
    ls_tensor *deviation = ls_sqrt(s, mean_over(n, ls_mul(s, d, d), &o));
    ls_tensor *y = ls_div(s, d, ls_add(s, deviation, ls_onnx_scalar(n, wide, 1e-9f)));
    return ls_onnx_out(n, 0, y ? ls_cast(s, y, dtype) : NULL);
}

const ls_onnx_op ls_onnx_reduce_ops[] = {
    {"", "ReduceSum", 1, 1, 2, reduce_sum, ONNX_SYMBOLS},
    {"", "ReduceProd", 1, 1, 2, reduce_prod, ONNX_SYMBOLS},
    {"", "ReduceMin", 1, 1, 2, reduce_min, ONNX_SYMBOLS},
    {"", "ReduceMax", 1, 1, 2, reduce_max, ONNX_SYMBOLS},
    {"", "ReduceMean", 1, 1, 2, reduce_mean, ONNX_SYMBOLS},
    {"", "ReduceL1", 1, 1, 2, reduce_l1, ONNX_SYMBOLS},
    {"", "ReduceL2", 1, 1, 2, reduce_l2, ONNX_SYMBOLS},
    {"", "ReduceLogSum", 1, 1, 2, reduce_log_sum, ONNX_SYMBOLS},
    {"", "ReduceLogSumExp", 1, 1, 2, reduce_log_sum_exp, ONNX_SYMBOLS},
    {"", "ReduceSumSquare", 1, 1, 2, reduce_sum_square, ONNX_SYMBOLS},
    {"", "ArgMax", 1, 1, 1, arg_max, ONNX_SYMBOLS},
    {"", "ArgMin", 1, 1, 1, arg_min, ONNX_SYMBOLS},
    {"", "CumSum", 1, 2, 2, cum_sum, ONNX_SYMBOLS},
    {"", "CumProd", 1, 2, 2, cum_prod, ONNX_SYMBOLS},
    {"", "Softmax", 1, 1, 1, softmax, ONNX_SYMBOLS},
    {"", "LogSoftmax", 1, 1, 1, log_softmax, ONNX_SYMBOLS},
    {"", "Hardmax", 1, 1, 1, op_hardmax, ONNX_SYMBOLS},
    {"", "LpNormalization", 1, 1, 1, lp_normalization, ONNX_SYMBOLS},
    {"", "MeanVarianceNormalization", 9, 1, 1, mean_variance_normalization, ONNX_SYMBOLS},
    {0}};
