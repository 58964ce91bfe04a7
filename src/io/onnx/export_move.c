/* Movement: index maps as the format has them. Windows, which it has none for, are gathered. */
#include "io/onnx/export.h"
#include <string.h>

static const char *emit_same(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    (void)e;
    (void)step;
    return in[0];
}

static const char *emit_reshape(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    const ls_shape *from = &step->node->src[0]->shape, *to = &step->node->shape;
    if (to->rank == 2 && from->rank > 2 && ls_dim_equal(to->dim[0], from->dim[0])) {
        Onnx__NodeProto *flatten = ls_export_op(e, "Flatten", 1, in[0]);
        ls_export_int(e, flatten, "axis", 1);
        return ls_export_result(e, flatten);
    }
    return ls_export_result(e, ls_export_reshape(e, in[0], to));
}

static const char *emit_permute(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    const ls_attr_axes *axes = &step->node->attr.axes;
    int64_t list[LS_MAX_RANK];
    for (int i = 0; i < axes->count; i++) {
        list[i] = axes->axes[i];
    }
    Onnx__NodeProto *transpose = ls_export_op(e, "Transpose", 1, in[0]);
    ls_export_ints(e, transpose, "perm", axes->count, list);
    return ls_export_result(e, transpose);
}

static const char *emit_expand(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    return ls_export_result(e, ls_export_op(e, "Expand", 2, in[0], ls_export_shape(e, &step->node->shape)));
}

/* ---- pad ---- */

/* The number that changes nothing for who reads it. */
static uint64_t fill_bits(ls_dtype dtype, ls_onnx_fill fill) {
    bool low = fill == ONNX_FILL_LOWEST;
    double far = low ? -__builtin_inf() : __builtin_inf(); /* saturates to an integer's ends */
    return fill == ONNX_FILL_LOWEST || fill == ONNX_FILL_HIGHEST
               ? ls_value_from_f64(dtype, far)
               : ls_value_from_f64(dtype, fill == ONNX_FILL_ONE);
}

static const char *pad(ls_onnx_export *e, const char *x, int rank, const int64_t *low, const int64_t *high,
                       ls_dtype dtype, uint64_t value) {
    int64_t pads[2 * LS_MAX_RANK];
    bool none = true;
    for (int i = 0; i < rank; i++) {
        pads[i] = low[i];
        pads[rank + i] = high[i];
        none &= !low[i] && !high[i];
    }
    return none ? x
                : ls_export_result(e, ls_export_op(e, "Pad", 3, x, ls_export_list(e, 2 * rank, pads),
                                                   ls_export_scalar(e, dtype, value)));
}

/* x with `interior` elements after each of an axis: each becomes a row that is padded, and rows become the axis again. */
static const char *spread(ls_onnx_export *e, const char *x, ls_shape *shape, int axis, int64_t interior,
                          ls_dtype dtype, uint64_t value) {
    int64_t low[LS_MAX_RANK + 1] = {0}, high[LS_MAX_RANK + 1] = {0}, cut[LS_MAX_RANK] = {0}, last = axis + 1,
                              n = shape->dim[axis].offset;
    const char *rows = ls_export_result(e, ls_export_op(e, "Unsqueeze", 2, x, ls_export_list(e, 1, &last)));
    high[axis + 1] = interior;
    rows = pad(e, rows, shape->rank + 1, low, high, dtype, value);
    shape->dim[axis] = ls_dim_fixed(n * (interior + 1));
    const char *y = ls_export_result(e, ls_export_reshape(e, rows, shape));
    cut[axis] = n ? -interior : 0;
    shape->dim[axis].offset += cut[axis];
    return pad(e, y, shape->rank, low, cut, dtype, value);
}

static const char *emit_pad(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    const ls_tensor *x = step->node;
    const ls_attr_pad *a = &x->attr.pad;
    uint64_t value = a->absent ? fill_bits(x->dtype, step->fill) : a->value;
    ls_shape shape = x->src[0]->shape;
    const char *y = in[0];
    for (int i = 0; i < shape.rank; i++) {
        y = a->interior[i] ? spread(e, y, &shape, i, a->interior[i], x->dtype, value) : y;
    }
    return pad(e, y, shape.rank, a->low, a->high, x->dtype, value);
}

/* ---- slice ---- */

static const char *emit_slice(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    const ls_tensor *x = step->node;
    const ls_attr_slice *a = &x->attr.slice;
    int64_t starts[LS_MAX_RANK], ends[LS_MAX_RANK], axes[LS_MAX_RANK], steps[LS_MAX_RANK];
    int n = 0;
    for (int i = 0; i < x->shape.rank; i++) {
        ls_dim from = x->src[0]->shape.dim[i], to = x->shape.dim[i];
        if (a->start[i] == 0 && a->step[i] == 1 && ls_dim_equal(from, to)) {
            continue;
        }
        int64_t left =
            from.offset - a->start[i] - to.offset; /* after the end, when both grow with the symbol */
        if (ls_dim_is_fixed(to)) {
            int64_t end = a->start[i] + a->step[i] * to.offset;
            ends[n] = end < 0 ? INT64_MIN : end;
        } else if (from.symbol == to.symbol && from.scale == to.scale && a->step[i] == 1 && left >= 0) {
            ends[n] = left ? -left : INT64_MAX;
        } else {
            ls_export_refuse(e, x, "where the slice ends depends on a symbol");
            return NULL;
        }
        starts[n] = a->start[i];
        steps[n] = a->step[i];
        axes[n++] = i;
    }
    const char *operands[] = {in[0], ls_export_list(e, n, starts), ls_export_list(e, n, ends),
                              ls_export_list(e, n, axes), ls_export_list(e, n, steps)};
    return ls_export_result(e, ls_export_op_list(e, "Slice", 5, operands));
}

/* ---- windows and concatenation ---- */

/* The positions that the windows of an axis read, [places, offsets]. */
static const char *window_index(ls_onnx_export *e, const ls_tensor *x, int i) {
    const ls_attr_window *a = &x->attr.window;
    int64_t places = x->shape.dim[a->axes[i]].offset, size = a->size[i];
    size_t count;
    ls_data *data = NULL;
    if (!ls_size_mul((size_t)places, (uint64_t)size, &count) ||
        ls_data_create(ls_session_context(e->s), LS_I64, 2, (const int64_t[]){places, size}, NULL, &data,
                       e->err) != LS_OK) {
        LS_FAIL(e->err, LS_ERR_MEMORY, "%s: out of memory", e->path);
        return NULL;
    }
    int64_t *list = (int64_t *)ls_data_bytes(data); /* nobody else has it yet */
    for (size_t k = 0; k < count; k++) {
        list[k] = (int64_t)k / size * a->stride[i] + (int64_t)k % size * a->dilation[i];
    }
    return ls_export_data(e, NULL, data);
}

static const char *emit_window(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    const ls_tensor *x = step->node;
    const ls_attr_window *a = &x->attr.window;
    int rank = x->src[0]->shape.rank, label[LS_MAX_RANK], n = rank, order[LS_MAX_RANK];
    const char *y = in[0];
    for (int i = 0; i < rank; i++) {
        label[i] = i; /* which axis of the result stands here */
    }
    for (int i = 0; i < a->count; i++) {
        int at = 0;
        if (!ls_dim_is_fixed(x->shape.dim[a->axes[i]])) {
            ls_export_refuse(e, x, "windows along a symbol");
            return NULL;
        }
        while (label[at] != a->axes[i]) {
            at++;
        }
        Onnx__NodeProto *gather = ls_export_op(e, "Gather", 2, y, window_index(e, x, i));
        ls_export_int(e, gather, "axis", at);
        y = ls_export_result(e, gather);
        memmove(label + at + 2, label + at + 1, sizeof *label * (size_t)(n - at - 1));
        label[at + 1] = rank + i;
        n++;
    }
    for (int i = 0; i < n; i++) {
        order[label[i]] = i;
    }
    return ls_export_transpose(e, y, n, order);
}

static const char *emit_concat(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    Onnx__NodeProto *concat = ls_export_op_list(e, "Concat", step->n_in, in);
    ls_export_int(e, concat, "axis", step->node->attr.axis.axis);
    return ls_export_result(e, concat);
}

bool ls_export_plan_move(ls_onnx_export *e, ls_onnx_step *step) {
    ls_tensor *x = step->node;
    step->in_fill = step->fill;
    step->emit = x->op == LS_OP_RESHAPE   ? emit_reshape
                 : x->op == LS_OP_PERMUTE ? emit_permute
                 : x->op == LS_OP_EXPAND  ? emit_expand
                 : x->op == LS_OP_PAD     ? emit_pad
                 : x->op == LS_OP_SLICE   ? emit_slice
                 : x->op == LS_OP_WINDOW  ? emit_window
                 : x->op == LS_OP_CONCAT  ? emit_concat
                                          : emit_same;
    ls_tensor *narrow = x->op == LS_OP_EXPAND ? ls_export_narrow(e, x->src[0]) : NULL;
    return ls_export_operands(e, step, x->n_src, narrow ? &narrow : x->src);
}
