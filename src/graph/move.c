/* Builders of movement: index maps without arithmetic. A map that would change nothing returns its
 * operand. */
#include "graph/build.h"
#include <inttypes.h>
#include <string.h>

ls_tensor *ls_reshape(ls_session *s, ls_tensor *x, ls_shape shape) {
    if (!ls_check_operands(s, "reshape", 1, &x)) {
        return NULL;
    }
    ls_shape full = shape;
    if (shape.rank < 0 || shape.rank > LS_MAX_RANK || !ls_shape_infer(&x->shape, &full)) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE,
                            "reshape: %s to %s: expected at most one -1, which other extents determine",
                            LS_TEXT(x), LS_SHAPE_TEXT_OF(&shape));
    }
    if (!ls_shape_check(s, "reshape", &full)) {
        return NULL;
    }
    if (!ls_shape_same_numel(&x->shape, &full)) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE, "reshape: %s to %s: expected as many elements", LS_TEXT(x),
                            LS_SHAPE_TEXT_OF(&full));
    }
    return ls_shape_equal(&x->shape, &full) ? ls_own(s, x)
                                            : ls_node(s, LS_OP_RESHAPE, x->dtype, &full, 1, &x, NULL);
}

ls_tensor *ls_permute(ls_session *s, ls_tensor *x, const int *axes) {
    ls_attr attr;
    memset(&attr, 0, sizeof attr);
    if (!ls_check_operands(s, "permute", 1, &x) ||
        !ls_axes_check(s, "permute", x, x->shape.rank, axes, attr.axes.axes)) {
        return NULL;
    }
    attr.axes.count = x->shape.rank;
    ls_shape shape = {.rank = x->shape.rank};
    bool same = true;
    for (int i = 0; i < shape.rank; i++) {
        shape.dim[i] = x->shape.dim[attr.axes.axes[i]];
        same &= attr.axes.axes[i] == i;
    }
    return same ? ls_own(s, x) : ls_node(s, LS_OP_PERMUTE, x->dtype, &shape, 1, &x, &attr);
}

ls_tensor *ls_transpose(ls_session *s, ls_tensor *x, int axis0, int axis1) {
    if (!ls_check_operands(s, "transpose", 1, &x) || !ls_axis_check(s, "transpose", x, axis0, &axis0) ||
        !ls_axis_check(s, "transpose", x, axis1, &axis1)) {
        return NULL;
    }
    int axes[LS_MAX_RANK];
    for (int i = 0; i < x->shape.rank; i++) {
        axes[i] = i == axis0 ? axis1 : i == axis1 ? axis0 : i;
    }
    return ls_permute(s, x, axes);
}

ls_tensor *ls_expand(ls_session *s, ls_tensor *x, ls_shape shape) {
    return ls_check_operands(s, "expand", 1, &x) ? ls_broadcast_to(s, "expand", x, &shape) : NULL;
}

static ls_tensor *pad(ls_session *s, const char *name, ls_tensor *x, const ls_pad_spec *pads, double value,
                      bool absent) {
    if (!ls_check_operands(s, name, 1, &x) || !ls_check_given(s, name, "spec", pads)) {
        return NULL;
    }
    ls_attr attr;
    memset(&attr, 0, sizeof attr);
    ls_shape shape = {.rank = x->shape.rank};
    bool same = true;
    for (int i = 0; i < shape.rank; i++) {
        ls_dim d = x->shape.dim[i];
        ls_pad_spec p = pads[i];
        int64_t ends;
        if (p.interior < 0) {
            return LS_NODE_FAIL(s, LS_ERR_INVALID,
                                "%s: interior %" PRId64 " of axis %d of %s: expected 0 or more", name,
                                p.interior, i, LS_TEXT(x));
        }
        if (p.interior && !ls_dim_is_fixed(d)) {
            return LS_NODE_FAIL(s, LS_ERR_UNSUPPORTED,
                                "%s: interior %" PRId64 " of axis %d of %s: expected an axis of fixed extent",
                                name, p.interior, i, LS_TEXT(x));
        }
        if (__builtin_add_overflow(p.low, p.high, &ends) ||
            (p.interior && d.offset &&
             (p.interior == INT64_MAX || !ls_dim_affine(d, p.interior + 1, -p.interior, &d))) ||
            !ls_dim_affine(d, 1, ends, &shape.dim[i])) {
            return LS_NODE_FAIL(s, LS_ERR_SHAPE,
                                "%s: low %" PRId64 " and high %" PRId64
                                " of axis %d of %s: expected an extent of 0 or more to remain",
                                name, p.low, p.high, i, LS_TEXT(x));
        }
        attr.pad.low[i] = p.low;
        attr.pad.high[i] = p.high;
        attr.pad.interior[i] = p.interior;
        same &= !p.low && !p.high && !p.interior;
    }
    attr.pad.value = absent ? 0 : ls_value_from_f64(x->dtype, value);
    attr.pad.absent = absent;
    return same ? ls_own(s, x) : ls_node(s, LS_OP_PAD, x->dtype, &shape, 1, &x, &attr);
}

ls_tensor *ls_pad(ls_session *s, ls_tensor *x, const ls_pad_spec *pads, double value) {
    return pad(s, "pad", x, pads, value, false);
}

ls_tensor *ls_pad_absent(ls_session *s, ls_tensor *x, const ls_pad_spec *pads) {
    return pad(s, "pad_absent", x, pads, 0, true);
}

ls_tensor *ls_slice_to(ls_session *s, ls_tensor *x, const int64_t *start, const int64_t *step,
                       const ls_shape *shape) {
    ls_attr attr;
    memset(&attr, 0, sizeof attr);
    bool same = ls_shape_equal(&x->shape, shape);
    for (int i = 0; i < x->shape.rank; i++) {
        attr.slice.start[i] = start[i];
        attr.slice.step[i] = step[i];
        same &= start[i] == 0 && step[i] == 1;
    }
    return same ? ls_own(s, x) : ls_node(s, LS_OP_SLICE, x->dtype, shape, 1, &x, &attr);
}

/* The extent that start:stop:step leaves of n; -1 when out of range. */
static int64_t slice_extent(int64_t n, ls_slice_spec c) {
    if (c.step > 0) {
        return c.start < 0 || c.stop < c.start || c.stop > n
                   ? -1
                   : (c.stop - c.start) / c.step + ((c.stop - c.start) % c.step != 0);
    }
    if (c.step == 0 || c.step == INT64_MIN || c.start >= n || c.stop < -1 || c.start < c.stop) {
        return -1;
    }
    int64_t step = -c.step;
    return (c.start - c.stop) / step + ((c.start - c.stop) % step != 0);
}

ls_tensor *ls_slice(ls_session *s, ls_tensor *x, const ls_slice_spec *slices) {
    if (!ls_check_operands(s, "slice", 1, &x) || !ls_check_given(s, "slice", "spec", slices)) {
        return NULL;
    }
    ls_shape shape = {.rank = x->shape.rank};
    int64_t start[LS_MAX_RANK], step[LS_MAX_RANK];
    for (int i = 0; i < shape.rank; i++) {
        ls_dim d = x->shape.dim[i];
        ls_slice_spec c = slices[i];
        start[i] = c.start;
        step[i] = c.step;
        if (!ls_dim_is_fixed(d)) { /* only its head can be cut, so that the rest is affine in the symbol */
            if (c.start < 0 || c.step != 1 || c.stop < ls_dim_bound(d) ||
                !ls_dim_affine(d, 1, -c.start, &shape.dim[i])) {
                return LS_NODE_FAIL(s, LS_ERR_SHAPE,
                                    "slice: %" PRId64 ":%" PRId64 ":%" PRId64
                                    " of axis %d of %s: an axis with a symbol is sliced by "
                                    "start:%" PRId64 ":1 alone",
                                    c.start, c.stop, c.step, i, LS_TEXT(x), ls_dim_bound(d));
            }
            continue;
        }
        int64_t n = slice_extent(d.offset, c);
        if (n < 0) {
            return LS_NODE_FAIL(s, LS_ERR_INVALID,
                                "slice: %" PRId64 ":%" PRId64 ":%" PRId64
                                " of axis %d of %s: expected a step other than 0 and "
                                "bounds clipped to the axis",
                                c.start, c.stop, c.step, i, LS_TEXT(x));
        }
        shape.dim[i] = ls_dim_fixed(n);
        start[i] = n ? c.start : 0; /* an empty slice is one thing, however it is written */
        step[i] = n > 1 ? c.step : 1;
    }
    return ls_slice_to(s, x, start, step, &shape);
}

ls_tensor *ls_narrow(ls_session *s, ls_tensor *x, int axis, int64_t start, int64_t length) {
    if (!ls_check_operands(s, "narrow", 1, &x) || !ls_axis_check(s, "narrow", x, axis, &axis)) {
        return NULL;
    }
    int64_t n = ls_dim_bound(x->shape.dim[axis]);
    if (!ls_dim_is_fixed(x->shape.dim[axis]) || start < 0 || length < 0 || start > n || length > n - start) {
        return LS_NODE_FAIL(s, LS_ERR_INVALID,
                            "narrow: start %" PRId64 " and length %" PRId64
                            " of axis %d of %s: expected a part "
                            "of a fixed extent",
                            start, length, axis, LS_TEXT(x));
    }
    int64_t starts[LS_MAX_RANK] = {0}, steps[LS_MAX_RANK];
    ls_shape shape = x->shape;
    for (int i = 0; i < shape.rank; i++) {
        steps[i] = 1;
    }
    starts[axis] = length ? start : 0;
    shape.dim[axis] = ls_dim_fixed(length);
    return ls_slice_to(s, x, starts, steps, &shape);
}

/* Where a slice would start depends on a symbol: x at n - 1 - i. A gather reads values, so absent elements
 * would be lost. */
static ls_tensor *flip_symbolic(ls_session *s, ls_tensor *x, int axis) {
    ls_shape line = {.rank = 1, .dim = {x->shape.dim[axis]}};
    if (x->absent) {
        return LS_NODE_FAIL(s, LS_ERR_UNSUPPORTED,
                            "flip: axis %d of %s with absent elements: expected an axis of fixed extent",
                            axis, LS_TEXT(x));
    }
    ls_tensor *last = ls_sub(s, ls_dim_value(s, line.dim[0]), ls_full_i64(s, LS_I64, LS_SCALAR, 1));
    return ls_gather(s, x, ls_sub(s, last, ls_iota(s, LS_I64, line, 0)), axis);
}

ls_tensor *ls_flip(ls_session *s, ls_tensor *x, int axis) {
    if (!ls_check_operands(s, "flip", 1, &x) || !ls_axis_check(s, "flip", x, axis, &axis)) {
        return NULL;
    }
    if (!ls_dim_is_fixed(x->shape.dim[axis])) {
        return flip_symbolic(s, x, axis);
    }
    int64_t n = x->shape.dim[axis].offset, starts[LS_MAX_RANK] = {0}, steps[LS_MAX_RANK];
    for (int i = 0; i < x->shape.rank; i++) {
        steps[i] = 1;
    }
    starts[axis] = n > 1 ? n - 1 : 0;
    steps[axis] = n > 1 ? -1 : 1;
    return ls_slice_to(s, x, starts, steps, &x->shape);
}

/* The number of positions of a window along an extent; false with a recorded error. */
static bool window_extent(ls_session *s, const ls_tensor *x, int axis, ls_window_spec w, ls_dim *out) {
    static const char *const names[] = {"size", "stride", "dilation"};
    int64_t values[] = {w.size, w.stride, w.dilation}, reach;
    ls_dim d = x->shape.dim[axis], room;
    for (int i = 0; i < 3; i++) {
        if (values[i] < 1) {
            LS_NODE_FAIL(s, LS_ERR_INVALID, "window: %s %" PRId64 " of axis %d of %s: expected 1 or more",
                         names[i], values[i], axis, LS_TEXT(x));
            return false;
        }
    }
    if (__builtin_mul_overflow(w.size - 1, w.dilation, &reach) || reach == INT64_MAX ||
        !ls_dim_affine(d, 1, -(reach + 1), &room)) {
        LS_NODE_FAIL(s, LS_ERR_SHAPE,
                     "window: size %" PRId64 " with dilation %" PRId64
                     " of axis %d of %s: larger than the axis",
                     w.size, w.dilation, axis, LS_TEXT(x));
        return false;
    }
    if (room.symbol && room.scale % w.stride) {
        LS_NODE_FAIL(s, LS_ERR_UNSUPPORTED,
                     "window: stride %" PRId64 " of axis %d of %s: expected a divisor of the symbol's scale",
                     w.stride, axis, LS_TEXT(x));
        return false;
    }
    int64_t q = room.offset / w.stride - (room.offset % w.stride < 0); /* floor */
    *out = (ls_dim){room.symbol, room.symbol ? room.scale / w.stride : 0, q + 1};
    return true;
}

ls_tensor *ls_window(ls_session *s, ls_tensor *x, int count, const int *axes, const ls_window_spec *windows) {
    ls_attr attr;
    memset(&attr, 0, sizeof attr);
    if (!ls_check_operands(s, "window", 1, &x) ||
        !ls_axes_check(s, "window", x, count, axes, attr.window.axes)) {
        return NULL;
    }
    if (x->shape.rank + count > LS_MAX_RANK) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE,
                            "window: %d axes of %s: expected at most rank %d with the windows' axes", count,
                            LS_TEXT(x), LS_MAX_RANK);
    }
    ls_shape shape = x->shape;
    for (int i = 0; i < count; i++) {
        int axis = attr.window.axes[i];
        if (!window_extent(s, x, axis, windows[i], &shape.dim[axis])) {
            return NULL;
        }
        shape.dim[shape.rank++] = ls_dim_fixed(windows[i].size);
        attr.window.size[i] = windows[i].size;
        attr.window.stride[i] = windows[i].stride;
        attr.window.dilation[i] = windows[i].dilation;
    }
    attr.window.count = count;
    return count ? ls_node(s, LS_OP_WINDOW, x->dtype, &shape, 1, &x, &attr) : ls_own(s, x);
}

ls_tensor *ls_concat(ls_session *s, ls_tensor *const *xs, int count, int axis) {
    if (count < 1) {
        return LS_NODE_FAIL(s, LS_ERR_INVALID, "concat: %d operands: expected 1 or more", count);
    }
    ls_attr attr;
    memset(&attr, 0, sizeof attr);
    if (!ls_check_operands(s, "concat", count, xs) ||
        !ls_axis_check(s, "concat", xs[0], axis, &attr.axis.axis)) {
        return NULL;
    }
    axis = attr.axis.axis;
    ls_shape shape = xs[0]->shape;
    for (int i = 1; i < count; i++) {
        ls_shape other = xs[i]->shape;
        bool fits =
            other.rank == shape.rank && ls_dim_add(shape.dim[axis], other.dim[axis], &shape.dim[axis]);
        if (fits) {
            other.dim[axis] = shape.dim[axis];
        }
        if (!fits || !ls_shape_equal(&shape, &other) || xs[i]->dtype != xs[0]->dtype) {
            return LS_NODE_FAIL(s, xs[i]->dtype != xs[0]->dtype ? LS_ERR_DTYPE : LS_ERR_SHAPE,
                                "concat: operands 0 and %d are %s and %s: expected one dtype, and equal "
                                "extents but for axis %d",
                                i, LS_TEXT(xs[0]), LS_TEXT(xs[i]), axis);
        }
    }
    return count == 1 ? ls_own(s, xs[0]) : ls_node(s, LS_OP_CONCAT, xs[0]->dtype, &shape, count, xs, &attr);
}

/* An axis that the result has and x has not. */
static bool new_axis_check(ls_session *s, const char *name, const ls_tensor *x, int axis, int *out_axis) {
    int rank = x->shape.rank;
    if (rank == LS_MAX_RANK || axis < -rank - 1 || axis > rank) {
        LS_NODE_FAIL(s, LS_ERR_INVALID,
                     "%s: a new axis %d of %s: expected %d to %d, and at most rank %d in all", name, axis,
                     LS_TEXT(x), -rank - 1, rank, LS_MAX_RANK);
        return false;
    }
    *out_axis = axis < 0 ? axis + rank + 1 : axis;
    return true;
}

ls_tensor *ls_stack(ls_session *s, ls_tensor *const *xs, int count, int axis) {
    if (count < 1) {
        return LS_NODE_FAIL(s, LS_ERR_INVALID, "stack: %d operands: expected 1 or more", count);
    }
    if (!ls_check_operands(s, "stack", count, xs) || !new_axis_check(s, "stack", xs[0], axis, &axis)) {
        return NULL;
    }
    ls_heap *heap = ls_graph_of(s)->heap;
    ls_tensor **parts = ls_alloc(heap, sizeof *parts * (size_t)count), *result = NULL;
    if (!parts) {
        return LS_NODE_FAIL(s, LS_ERR_MEMORY, "out of memory for the operands of stack");
    }
    bool fits = true;
    for (int i = 0; i < count && fits; i++) {
        if (!ls_shape_equal(&xs[i]->shape, &xs[0]->shape) || xs[i]->dtype != xs[0]->dtype) {
            LS_NODE_FAIL(s, xs[i]->dtype != xs[0]->dtype ? LS_ERR_DTYPE : LS_ERR_SHAPE,
                         "stack: operands 0 and %d are %s and %s: expected one dtype and one shape", i,
                         LS_TEXT(xs[0]), LS_TEXT(xs[i]));
            fits = false;
        } else {
            parts[i] = ls_unsqueeze(s, xs[i], axis);
            fits = parts[i] != NULL;
        }
    }
    if (fits) {
        result = ls_concat(s, parts, count, axis);
    }
    ls_free(heap, parts);
    return result;
}

ls_tensor *ls_squeeze(ls_session *s, ls_tensor *x, int axis) {
    if (!ls_check_operands(s, "squeeze", 1, &x) || !ls_axis_check(s, "squeeze", x, axis, &axis)) {
        return NULL;
    }
    if (!ls_dim_equal(x->shape.dim[axis], ls_dim_fixed(1))) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE, "squeeze: axis %d of %s: expected an extent of 1", axis,
                            LS_TEXT(x));
    }
    ls_shape shape = ls_shape_remove(&x->shape, axis);
    return ls_node(s, LS_OP_RESHAPE, x->dtype, &shape, 1, &x, NULL);
}

ls_tensor *ls_unsqueeze(ls_session *s, ls_tensor *x, int axis) {
    if (!ls_check_operands(s, "unsqueeze", 1, &x) || !new_axis_check(s, "unsqueeze", x, axis, &axis)) {
        return NULL;
    }
    ls_shape shape = ls_shape_insert(&x->shape, axis, ls_dim_fixed(1));
    return ls_node(s, LS_OP_RESHAPE, x->dtype, &shape, 1, &x, NULL);
}
