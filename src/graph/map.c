/* Builders of elementwise operations. Operands are broadcast as NumPy does, by RESHAPE and EXPAND, so that
 * a MAP node's operands have its own shape; dtypes must agree. */
#include "graph/build.h"
#include <string.h>

ls_tensor *ls_broadcast_to(ls_session *s, const char *operation, ls_tensor *x, const ls_shape *shape) {
    ls_shape joint;
    if (!ls_shape_check(s, operation, shape)) {
        return NULL;
    }
    if (ls_shape_equal(&x->shape, shape)) {
        return ls_own(s, x);
    }
    if (!ls_shape_broadcast(&x->shape, shape, &joint) || !ls_shape_equal(&joint, shape)) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE, "%s: %s does not broadcast to %s", operation, LS_TEXT(x),
                            LS_SHAPE_TEXT_OF(shape));
    }
    if (x->shape.rank < shape->rank) {
        ls_shape padded = {.rank = shape->rank};
        int lead = shape->rank - x->shape.rank;
        for (int i = 0; i < padded.rank; i++) {
            padded.dim[i] = i < lead ? ls_dim_fixed(1) : x->shape.dim[i - lead];
        }
        x = ls_node(s, LS_OP_RESHAPE, x->dtype, &padded, 1, &x, NULL);
    }
    if (!x || ls_shape_equal(&x->shape, shape)) {
        return x;
    }
    return ls_node(s, LS_OP_EXPAND, x->dtype, shape, 1, &x, NULL);
}

static ls_tensor *fail_two(ls_session *s, const char *name, ls_tensor *a, ls_tensor *b, ls_status code,
                           const char *why) {
    return LS_NODE_FAIL(s, code, "%s: operands are %s and %s: %s", name, LS_TEXT(a), LS_TEXT(b), why);
}

/* `first` is the first operand whose dtype must be the op's (WHERE: after its condition). */
static ls_tensor *map_build(ls_session *s, const char *name, ls_op op, ls_dtype dtype, int n, int first,
                            ls_tensor **src) {
    if (!ls_check_operands(s, name, n, src)) {
        return NULL;
    }
    for (int i = first; i < n; i++) {
        if (src[i]->dtype != src[first]->dtype) {
            return fail_two(s, name, src[first], src[i], LS_ERR_DTYPE, "dtypes must agree (cast one)");
        }
        if (!ls_op_accepts(op, src[i]->dtype)) {
            return LS_NODE_FAIL(s, LS_ERR_DTYPE, "%s: operand %d is %s: expected %s", name, i,
                                LS_TEXT(src[i]), ls_dtypes_text(ls_ops[op].dtypes));
        }
    }
    ls_shape shape = src[0]->shape;
    for (int i = 1; i < n; i++) {
        if (!ls_shape_broadcast(&shape, &src[i]->shape, &shape)) {
            return fail_two(s, name, src[0], src[i], LS_ERR_SHAPE,
                            "shapes do not broadcast (equal extents, or 1, from the last axis on)");
        }
    }
    ls_tensor *wide[3];
    for (int i = 0; i < n; i++) {
        wide[i] = ls_shape_equal(&src[i]->shape, &shape) ? src[i] : ls_broadcast_to(s, name, src[i], &shape);
        if (!wide[i]) {
            return NULL;
        }
    }
    return ls_node(s, op, dtype == LS_DTYPE_COUNT ? src[first]->dtype : dtype, &shape, n, wide, NULL);
}

#define UNARY(fn, OP, dtype)                                                                                 \
    ls_tensor *ls_##fn(ls_session *s, ls_tensor *x) {                                                        \
        return map_build(s, #fn, LS_OP_##OP, dtype, 1, 0, (ls_tensor *[]){x});                               \
    }
#define SAME LS_DTYPE_COUNT
UNARY(neg, NEG, SAME)
UNARY(abs, ABS, SAME)
UNARY(sign, SIGN, SAME)
UNARY(floor, FLOOR, SAME)
UNARY(ceil, CEIL, SAME)
UNARY(trunc, TRUNC, SAME)
UNARY(rint, RINT, SAME)
UNARY(sqrt, SQRT, SAME)
UNARY(rsqrt, RSQRT, SAME)
UNARY(cbrt, CBRT, SAME)
UNARY(recip, RECIP, SAME)
UNARY(exp, EXP, SAME)
UNARY(exp2, EXP2, SAME)
UNARY(expm1, EXPM1, SAME)
UNARY(log, LOG, SAME)
UNARY(log2, LOG2, SAME)
UNARY(log1p, LOG1P, SAME)
UNARY(sin, SIN, SAME)
UNARY(cos, COS, SAME)
UNARY(tan, TAN, SAME)
UNARY(asin, ASIN, SAME)
UNARY(acos, ACOS, SAME)
UNARY(atan, ATAN, SAME)
UNARY(sinh, SINH, SAME)
UNARY(cosh, COSH, SAME)
UNARY(tanh, TANH, SAME)
UNARY(erf, ERF, SAME)
UNARY(erfc, ERFC, SAME)
UNARY(not, NOT, SAME)
UNARY(isnan, ISNAN, LS_BOOL)
UNARY(isinf, ISINF, LS_BOOL)
UNARY(popcount, POPCOUNT, SAME)

#define BINARY(fn, OP, dtype, a, b)                                                                          \
    ls_tensor *ls_##fn(ls_session *s, ls_tensor *x, ls_tensor *y) {                                          \
        return map_build(s, #fn, LS_OP_##OP, dtype, 2, 0, (ls_tensor *[]){a, b});                            \
    }
BINARY(add, ADD, SAME, x, y)
BINARY(sub, SUB, SAME, x, y)
BINARY(mul, MUL, SAME, x, y)
BINARY(div, DIV, SAME, x, y)
BINARY(rem, REM, SAME, x, y)
BINARY(pow, POW, SAME, x, y)
BINARY(min, MIN, SAME, x, y)
BINARY(max, MAX, SAME, x, y)
BINARY(and, AND, SAME, x, y)
BINARY(or, OR, SAME, x, y)
BINARY(xor, XOR, SAME, x, y)
BINARY(shl, SHL, SAME, x, y)
BINARY(shr, SHR, SAME, x, y)
BINARY(eq, EQ, LS_BOOL, x, y)
BINARY(ne, NE, LS_BOOL, x, y)
BINARY(lt, LT, LS_BOOL, x, y)
BINARY(le, LE, LS_BOOL, x, y)
BINARY(gt, LT, LS_BOOL, y, x)
BINARY(ge, LE, LS_BOOL, y, x)

ls_tensor *ls_where(ls_session *s, ls_tensor *condition, ls_tensor *a, ls_tensor *b) {
    ls_tensor *src[] = {condition, a, b};
    if (!ls_check_operands(s, "where", 3, src)) {
        return NULL;
    }
    if (condition->dtype != LS_BOOL) {
        return LS_NODE_FAIL(s, LS_ERR_DTYPE, "where: the condition is %s: expected bool", LS_TEXT(condition));
    }
    return map_build(s, "where", LS_OP_WHERE, SAME, 3, 1, src);
}

ls_tensor *ls_cast(ls_session *s, ls_tensor *x, ls_dtype dtype) {
    if (!ls_check_operands(s, "cast", 1, &x)) {
        return NULL;
    }
    if ((unsigned)dtype >= LS_DTYPE_COUNT) {
        return LS_NODE_FAIL(s, LS_ERR_DTYPE, "cast: %d is not a dtype (operand %s)", (int)dtype, LS_TEXT(x));
    }
    return dtype == x->dtype ? ls_own(s, x) : ls_node(s, LS_OP_CAST, dtype, &x->shape, 1, &x, NULL);
}

ls_tensor *ls_bitcast(ls_session *s, ls_tensor *x, ls_dtype dtype) {
    if (!ls_check_operands(s, "bitcast", 1, &x)) {
        return NULL;
    }
    if ((unsigned)dtype >= LS_DTYPE_COUNT || ls_dtype_size(dtype) != ls_dtype_size(x->dtype) ||
        (dtype == LS_BOOL && x->dtype != LS_BOOL)) {
        return LS_NODE_FAIL(s, LS_ERR_DTYPE,
                            "bitcast: %s to %s: expected a dtype of the same size, and not bool", LS_TEXT(x),
                            ls_dtype_name(dtype));
    }
    return dtype == x->dtype ? ls_own(s, x) : ls_node(s, LS_OP_BITCAST, dtype, &x->shape, 1, &x, NULL);
}

/* ---- checks and pieces that composites share ---- */

ls_dtype ls_dtype_compute(ls_dtype dtype) {
    return dtype == LS_F16 || dtype == LS_BF16 ? LS_F32 : dtype;
}

bool ls_check_rank(ls_session *s, const char *operation, const ls_tensor *x, int at_least, int at_most) {
    if (x->shape.rank >= at_least && x->shape.rank <= at_most) {
        return true;
    }
    LS_NODE_FAIL(s, LS_ERR_SHAPE, "%s: operand is %s: expected rank %d to %d", operation, LS_TEXT(x),
                 at_least, at_most);
    return false;
}

bool ls_check_float(ls_session *s, const char *operation, const ls_tensor *x) {
    if (ls_dtype_is_float(x->dtype)) {
        return true;
    }
    LS_NODE_FAIL(s, LS_ERR_DTYPE, "%s: operand is %s: expected a floating dtype", operation, LS_TEXT(x));
    return false;
}

bool ls_check_same_dtype(ls_session *s, const char *operation, const ls_tensor *x, const ls_tensor *y) {
    if (!x || x->dtype == y->dtype) {
        return true;
    }
    LS_NODE_FAIL(s, LS_ERR_DTYPE, "%s: operands are %s and %s: dtypes must agree (cast one)", operation,
                 LS_TEXT(y), LS_TEXT(x));
    return false;
}
