/* Builders of gather, scatter, sorting order, positions, random bits, extents as values, and copies. */
#include "graph/build.h"
#include <inttypes.h>
#include <string.h>

static bool index_check(ls_session *s, const char *name, const ls_tensor *index) {
    if (index->dtype == LS_I32 || index->dtype == LS_I64) {
        return true;
    }
    LS_NODE_FAIL(s, LS_ERR_DTYPE, "%s: the index is %s: expected i32 or i64", name, LS_TEXT(index));
    return false;
}

/* x's shape with `axis` replaced by the index's axes. */
static bool gathered_shape(ls_session *s, const char *name, const ls_tensor *x, const ls_tensor *index,
                           int axis, ls_shape *out) {
    int rank = x->shape.rank - 1 + index->shape.rank;
    if (rank > LS_MAX_RANK) {
        LS_NODE_FAIL(s, LS_ERR_SHAPE, "%s: %s at index %s gives rank %d: expected at most %d", name,
                     LS_TEXT(x), LS_TEXT(index), rank, LS_MAX_RANK);
        return false;
    }
    ls_shape r = {.rank = rank};
    for (int i = 0; i < rank; i++) {
        int n = index->shape.rank;
        r.dim[i] = i < axis       ? x->shape.dim[i]
                   : i < axis + n ? index->shape.dim[i - axis]
                                  : x->shape.dim[i - n + 1];
    }
    *out = r;
    return true;
}

ls_tensor *ls_gather(ls_session *s, ls_tensor *x, ls_tensor *index, int axis) {
    ls_tensor *src[] = {x, index};
    ls_attr attr;
    memset(&attr, 0, sizeof attr);
    ls_shape shape;
    if (!ls_check_operands(s, "gather", 2, src) || !index_check(s, "gather", index) ||
        !ls_axis_check(s, "gather", x, axis, &attr.axis.axis) ||
        !gathered_shape(s, "gather", x, index, attr.axis.axis, &shape)) {
        return NULL;
    }
    return ls_node(s, LS_OP_GATHER, x->dtype, &shape, 2, src, &attr);
}

ls_tensor *ls_scatter(ls_session *s, ls_tensor *base, ls_tensor *index, ls_tensor *updates, int axis,
                      ls_scatter_kind kind) {
    ls_tensor *src[] = {base, index, updates};
    ls_attr attr;
    memset(&attr, 0, sizeof attr);
    ls_shape shape;
    if (!ls_check_operands(s, "scatter", 3, src) || !index_check(s, "scatter", index) ||
        !ls_check_same_dtype(s, "scatter", updates, base) ||
        !ls_axis_check(s, "scatter", base, axis, &attr.axis.axis) ||
        !gathered_shape(s, "scatter", base, index, attr.axis.axis, &shape)) {
        return NULL;
    }
    if (!ls_shape_equal(&shape, &updates->shape)) {
        return LS_NODE_FAIL(
            s, LS_ERR_SHAPE,
            "scatter: base %s, index %s and axis %d with updates %s: expected updates of shape %s",
            LS_TEXT(base), LS_TEXT(index), attr.axis.axis, LS_TEXT(updates), LS_SHAPE_TEXT_OF(&shape));
    }
    if ((unsigned)kind > LS_SCATTER_MAX) {
        return LS_NODE_FAIL(s, LS_ERR_INVALID, "scatter: kind %d: expected one of ls_scatter_kind",
                            (int)kind);
    }
    if (base->dtype == LS_BOOL && (kind == LS_SCATTER_ADD || kind == LS_SCATTER_MUL)) {
        return LS_NODE_FAIL(s, LS_ERR_DTYPE,
                            "scatter: base is %s: expected a numeric dtype to add or multiply",
                            LS_TEXT(base));
    }
    attr.axis.kind = (int)kind;
    return ls_node(s, LS_OP_SCATTER, base->dtype, &base->shape, 3, src, &attr);
}

ls_tensor *ls_argsort(ls_session *s, ls_tensor *x, int axis, int descending) {
    ls_attr attr;
    memset(&attr, 0, sizeof attr);
    if (!ls_check_operands(s, "argsort", 1, &x) || !ls_axis_check(s, "argsort", x, axis, &attr.axis.axis)) {
        return NULL;
    }
    attr.axis.kind = descending != 0;
    return ls_node(s, LS_OP_ARGSORT, LS_I64, &x->shape, 1, &x, &attr);
}

ls_tensor *ls_iota(ls_session *s, ls_dtype dtype, ls_shape shape, int axis) {
    ls_attr attr;
    memset(&attr, 0, sizeof attr);
    if (!ls_shape_check(s, "iota", &shape)) {
        return NULL;
    }
    if ((unsigned)dtype >= LS_DTYPE_COUNT || !ls_op_accepts(LS_OP_IOTA, dtype)) {
        return LS_NODE_FAIL(s, LS_ERR_DTYPE, "iota: %s%s: expected %s", ls_dtype_name(dtype),
                            LS_SHAPE_TEXT_OF(&shape), ls_dtypes_text(ls_ops[LS_OP_IOTA].dtypes));
    }
    if (axis < -shape.rank || axis >= shape.rank) {
        return LS_NODE_FAIL(s, LS_ERR_INVALID, "iota: axis %d of %s: expected %d to %d", axis,
                            LS_SHAPE_TEXT_OF(&shape), -shape.rank, shape.rank - 1);
    }
    attr.axis.axis = axis < 0 ? axis + shape.rank : axis;
    return ls_node(s, LS_OP_IOTA, dtype, &shape, 0, NULL, &attr);
}

ls_tensor *ls_random_bits(ls_session *s, ls_tensor *key, ls_shape shape) {
    if (!ls_check_operands(s, "random_bits", 1, &key) || !ls_shape_check(s, "random_bits", &shape)) {
        return NULL;
    }
    if (key->dtype != LS_U32 || key->shape.rank != 1 || !ls_dim_equal(key->shape.dim[0], ls_dim_fixed(2))) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE, "random_bits: the key is %s: expected u32[2]", LS_TEXT(key));
    }
    return ls_node(s, LS_OP_RANDOM, LS_U32, &shape, 1, &key, NULL);
}

ls_tensor *ls_dim_value(ls_session *s, ls_dim dim) {
    ls_shape scalar = LS_SCALAR, one = {.rank = 1, .dim = {dim}};
    ls_attr attr;
    memset(&attr, 0, sizeof attr);
    if (!ls_shape_check(s, "dim", &one)) {
        return NULL;
    }
    if (ls_dim_is_fixed(dim)) {
        return ls_full_i64(s, LS_I64, scalar, dim.offset);
    }
    attr.dim = dim;
    return ls_node(s, LS_OP_DIM, LS_I64, &scalar, 0, NULL, &attr);
}
