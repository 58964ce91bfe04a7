/* Builders of reductions and scans. A REDUCE node drops its axes; keep_dims puts them back with RESHAPE. A
 * rank-0 operand is reduced as one of shape [1], so that every REDUCE has an axis. */
#include "graph/build.h"
#include <string.h>

static ls_tensor *reduce(ls_session *s, const char *name, ls_op op, ls_tensor *x, int count, const int *axes,
                         int keep_dims) {
    ls_attr attr;
    memset(&attr, 0, sizeof attr);
    if (!ls_check_operands(s, name, 1, &x) || !ls_axes_check(s, name, x, count, axes, attr.axes.axes)) {
        return NULL;
    }
    if (!ls_op_accepts(op, x->dtype)) {
        return LS_NODE_FAIL(s, LS_ERR_DTYPE, "%s: operand is %s: expected %s", name, LS_TEXT(x),
                            ls_dtypes_text(ls_ops[op].dtypes));
    }
    bool index = op == LS_OP_ARGMIN || op == LS_OP_ARGMAX;
    ls_shape kept = x->shape;
    if (x->shape.rank == 0) {
        ls_shape one = LS_SHAPE(1);
        x = ls_node(s, LS_OP_RESHAPE, x->dtype, &one, 1, &x, NULL);
        if (!x) {
            return NULL;
        }
    }
    if (count == 0) {
        count = x->shape.rank;
        for (int i = 0; i < count; i++) {
            attr.axes.axes[i] = i;
        }
    }
    attr.axes.count = count;
    unsigned reduced = 0;
    for (int i = 0; i < count; i++) {
        int axis = attr.axes.axes[i];
        if (index && ls_dim_equal(x->shape.dim[axis], ls_dim_fixed(0))) {
            return LS_NODE_FAIL(s, LS_ERR_SHAPE, "%s: axis %d of %s is empty: expected at least one element",
                                name, axis, LS_TEXT(x));
        }
        reduced |= 1u << axis;
        if (axis < kept.rank) {
            kept.dim[axis] = ls_dim_fixed(1);
        }
    }
    ls_shape shape = {.rank = 0};
    for (int i = 0; i < x->shape.rank; i++) {
        if (!(reduced >> i & 1)) {
            shape.dim[shape.rank++] = x->shape.dim[i];
        }
    }
    ls_tensor *y = ls_node(s, op, index ? LS_I64 : x->dtype, &shape, 1, &x, &attr);
    return y && keep_dims ? ls_reshape(s, y, kept) : y;
}

#define REDUCE(fn, OP)                                                                                       \
    ls_tensor *ls_##fn(ls_session *s, ls_tensor *x, int count, const int *axes, int keep_dims) {             \
        return reduce(s, #fn, LS_OP_##OP, x, count, axes, keep_dims);                                        \
    }
REDUCE(sum, SUM)
REDUCE(prod, PROD)
REDUCE(amin, AMIN)
REDUCE(amax, AMAX)
REDUCE(argmin, ARGMIN)
REDUCE(argmax, ARGMAX)

ls_tensor *ls_scan(ls_session *s, ls_tensor *x, ls_scan_kind kind, int axis, int exclusive, int reverse) {
    ls_attr attr;
    memset(&attr, 0, sizeof attr);
    if (!ls_check_operands(s, "scan", 1, &x) || !ls_axis_check(s, "scan", x, axis, &attr.axis.axis)) {
        return NULL;
    }
    if (!ls_op_accepts(LS_OP_SCAN, x->dtype)) {
        return LS_NODE_FAIL(s, LS_ERR_DTYPE, "scan: operand is %s: expected %s", LS_TEXT(x),
                            ls_dtypes_text(ls_ops[LS_OP_SCAN].dtypes));
    }
    if ((unsigned)kind > LS_SCAN_MAX) {
        return LS_NODE_FAIL(s, LS_ERR_INVALID, "scan: kind %d: expected one of ls_scan_kind", (int)kind);
    }
    attr.axis.kind = (int)kind;
    attr.axis.exclusive = exclusive != 0;
    attr.axis.reverse = reverse != 0;
    return ls_node(s, LS_OP_SCAN, x->dtype, &x->shape, 1, &x, &attr);
}
