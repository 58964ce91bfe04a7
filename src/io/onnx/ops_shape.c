/* ONNX: shapes, padding, and tensors made from numbers that are attributes or known when the graph is built. What is cut and joined:
 * ops_move.c. */
#include "io/onnx/extent.h"
#include "io/onnx/moved.h"
#include <inttypes.h>
#include <string.h>

/* ---- shapes ---- */

/* Operand 0 in another shape. */
static ls_status shaped(ls_onnx_node *n, ls_tensor *x, const ls_shape *shape) {
    return ls_onnx_moved_out(n, 0, x ? ls_reshape(n->s, x, *shape) : NULL, 0);
}

/* An extent of Reshape's operand as one of the new shape: 0 copies that of the old one. What has a symbol is 0 or more, and no 0 that copies. */
static ls_status new_extent(ls_onnx_node *n, const ls_shape *from, int i, bool allow_zero, ls_dim *d) {
    bool fits = true, zero;
    if (!d->symbol && d->offset == 0 && !allow_zero) {
        if (i >= from->rank) {
            return ls_onnx_fail(n, LS_ERR_SHAPE, "extent %d of the new shape is 0 and copies none of rank %d", i, from->rank);
        }
        *d = from->dim[i];
    } else if (d->symbol) {
        LS_TRY(n->err, ls_onnx_at_least(n, *d, ls_dim_of(0), &fits));
        bool copies = i < from->rank && ls_onnx_same(*d, from->dim[i]);
        if (fits && !allow_zero && !copies) {
            LS_TRY(n->err, ls_onnx_equal(n, *d, ls_dim_of(0), &zero));
        }
    }
    return fits && d->offset >= (d->symbol ? INT64_MIN : -1)
               ? LS_OK
               : ls_onnx_fail(n, LS_ERR_SHAPE, "extent %d of the new shape is %" PRId64 ": expected 0 or more, and -1 once", i, d->offset);
}

static ls_status reshape(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    ls_dim *dims, known = ls_dim_of(1);
    int count, hole = -1;
    bool allow_zero = ls_onnx_attr_int(n, "allowzero", 0) != 0;
    LS_TRY(n->err, ls_onnx_extents(n, 1, &dims, &count));
    LS_TRY(n->err, ls_onnx_check_rank(n, count));
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    const ls_shape from = ls_tensor_shape(x);
    ls_shape to = {.rank = count};
    for (int i = 0; i < count; i++) {
        LS_TRY(n->err, new_extent(n, &from, i, allow_zero, &dims[i]));
        bool is_hole = !dims[i].symbol && dims[i].offset == -1;
        if (is_hole && hole >= 0) {
            return ls_onnx_fail(n, LS_ERR_SHAPE, "extent %d of the new shape is -1: expected 0 or more, and -1 once", i);
        }
        hole = is_hole ? i : hole;
        if (!is_hole && !dims[i].symbol && !ls_onnx_times(known, dims[i], &known)) {
            return ls_onnx_fail(n, LS_ERR_SHAPE, "the new shape has too many elements");
        }
        to.dim[i] = dims[i];
    }
    bool any = known.offset != 0;
    for (int i = 0; i < count && hole >= 0 && any; i++) {
        LS_TRY(n->err, dims[i].symbol ? ls_onnx_at_least(n, dims[i], ls_dim_of(1), &any) : LS_OK);
    }
    if (hole >= 0 && !any) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "the new shape's -1 cannot be told: it has no elements");
    }
    return shaped(n, x, &to);
}

static ls_status flatten(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    int64_t axis = ls_onnx_attr_int(n, "axis", 1);
    const ls_shape from = x ? ls_tensor_shape(x) : LS_SCALAR;
    ls_shape flat = {.rank = 2};
    int rank = from.rank;
    if (axis < -rank || axis > rank) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "axis %" PRId64 " of rank %d", axis, rank);
    }
    axis += axis < 0 ? rank : 0;
    LS_TRY(n->err, ls_onnx_volume(n, &from, 0, (int)axis, &flat.dim[0]));
    LS_TRY(n->err, ls_onnx_volume(n, &from, (int)axis, rank, &flat.dim[1]));
    return shaped(n, x, &flat);
}

/* The axes of a list, as bits. */
static ls_status axis_bits(ls_onnx_node *n, const int64_t *axes, int count, int rank, unsigned *out) {
    *out = 0;
    for (int i = 0; i < count; i++) {
        int axis;
        LS_TRY(n->err, ls_onnx_axis(n, axes[i], rank, &axis));
        if (*out >> axis & 1) {
            return ls_onnx_fail(n, LS_ERR_INVALID, "axis %d is given twice", axis);
        }
        *out |= 1u << axis;
    }
    return LS_OK;
}

static ls_status squeeze(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    const ls_shape from = x ? ls_tensor_shape(x) : LS_SCALAR;
    ls_shape left = {.rank = 0};
    int rank = from.rank, count;
    const int64_t *axes;
    unsigned bits;
    LS_TRY(n->err, ls_onnx_operand_or_attr(n, 1, "axes", &axes, &count));
    LS_TRY(n->err, axis_bits(n, axes, count, x ? rank : LS_MAX_RANK, &bits));
    for (int i = 0; i < rank; i++) {
        bool drop = bits >> i & 1;
        if (count < 0) {
            LS_TRY(n->err, ls_onnx_equal(n, from.dim[i], ls_dim_of(1), &drop));
        } else if (drop && !ls_onnx_same(from.dim[i], ls_dim_of(1))) {
            return ls_onnx_fail(n, from.dim[i].symbol ? LS_ERR_UNSUPPORTED : LS_ERR_SHAPE, "axis %d has extent %" PRId64 "%s: expected 1", i,
                                from.dim[i].offset, from.dim[i].symbol ? " and more" : "");
        }
        if (!drop) {
            left.dim[left.rank++] = from.dim[i];
        }
    }
    return shaped(n, x, &left);
}

static ls_status unsqueeze(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    const ls_shape from = x ? ls_tensor_shape(x) : LS_SCALAR;
    ls_shape more;
    int rank = from.rank, count, next = 0;
    const int64_t *axes;
    unsigned bits;
    LS_TRY(n->err, ls_onnx_operand_or_attr(n, 1, "axes", &axes, &count));
    count = count < 0 ? 0 : count;
    LS_TRY(n->err, ls_onnx_check_rank(n, rank + (int64_t)count));
    LS_TRY(n->err, axis_bits(n, axes, count, rank + count, &bits));
    more.rank = rank + count;
    for (int i = 0; i < more.rank; i++) {
        more.dim[i] = bits >> i & 1 ? ls_dim_of(1) : from.dim[next++];
    }
    return shaped(n, x, &more);
}

/* Operators that look at a shape alone take what has one. */
static ls_status check_array(ls_onnx_node *n, bool strings) {
    bool fits = n->in[0]->kind == ONNX_TENSOR || (strings && n->in[0]->kind == ONNX_STRINGS);
    return fits ? LS_OK : ls_onnx_fail(n, LS_ERR_DTYPE, "the operand is no tensor%s", strings ? "" : " of numbers");
}

static ls_status shape(ls_onnx_node *n) {
    LS_TRY(n->err, check_array(n, true));
    const ls_shape all = ls_onnx_value_shape(n->in[0]);
    int64_t rank = all.rank;
    int64_t start = ls_onnx_attr_int(n, "start", 0), end = ls_onnx_attr_int(n, "end", rank);
    start += start < 0 ? rank : 0;
    end += end < 0 ? rank : 0;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end < start ? start : end > rank ? rank : end;
    return ls_onnx_out_extents(n, 0, ONNX_INT64, 1, (int)(end - start), all.dim + start);
}

static ls_status size(ls_onnx_node *n) {
    LS_TRY(n->err, check_array(n, true));
    const ls_shape all = ls_onnx_value_shape(n->in[0]);
    ls_dim count;
    LS_TRY(n->err, ls_onnx_volume(n, &all, 0, all.rank, &count));
    return ls_onnx_out_extents(n, 0, ONNX_INT64, 0, 1, &count);
}

/* ---- padding ---- */

/* x padded with a scalar of its dtype. */
static ls_tensor *pad_by(ls_onnx_node *n, ls_tensor *x, const ls_pad_spec *pads, ls_tensor *value) {
    ls_tensor *old = ls_full_i64(n->s, LS_BOOL, ls_tensor_shape(x), 1);
    ls_tensor *is_old = ls_pad(n->s, old, pads, 0), *padded = ls_pad(n->s, x, pads, 0);
    return ls_where(n->s, is_old, padded, ls_reshape(n->s, value, LS_SCALAR));
}

static ls_status pad(ls_onnx_node *n) {
    static const char *const modes[] = {"edge", "reflect", "wrap"};
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    const char *mode = ls_onnx_attr_string(n, "mode", "constant");
    const int64_t *list;
    int64_t dims[LS_MAX_RANK], *axes = NULL;
    int rank = x ? ls_onnx_dims(x, dims) : 0, count, n_axes = rank;
    LS_TRY(n->err, ls_onnx_operand_or_attr(n, 1, "pads", &list, &count));
    if (ls_onnx_has(n, 3)) {
        LS_TRY(n->err, ls_onnx_ints(n, 3, &axes, &n_axes));
    }
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (count != 2 * n_axes) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "%d pads for %d axes: expected two for each", count, n_axes);
    }
    ls_pad_spec pads[LS_MAX_RANK] = {{0, 0, 0}};
    for (int i = 0; i < n_axes; i++) {
        int axis = i;
        if (axes) {
            LS_TRY(n->err, ls_onnx_axis(n, axes[i], rank, &axis));
        }
        pads[axis] = (ls_pad_spec){list[i], list[n_axes + i], 0};
    }
    for (int k = 0; k < 3; k++) {
        if (!strcmp(mode, modes[k])) {
            return ls_onnx_moved_out(n, 0, ls_pad_with(n->s, x, pads, (ls_pad_kind)k), 0);
        }
    }
    if (strcmp(mode, "constant") != 0) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "mode \"%s\"", mode);
    }
    if (n->in[0]->kind == ONNX_STRINGS && !ls_onnx_has(n, 2)) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "strings padded with empty ones");
    }
    if (!ls_onnx_has(n, 2)) {
        return ls_onnx_moved_out(n, 0, ls_pad(n->s, x, pads, ls_onnx_attr_float(n, "value", 0)), 0);
    }
    ls_dtype dtype = ls_tensor_dtype(x);
    if (!n->in[2]->known || dtype == LS_I64 || dtype == LS_U64) {
        ls_tensor *value = ls_onnx_moved_in(n, 2);
        return ls_onnx_moved_out(n, 0, value ? pad_by(n, x, pads, value) : NULL, 0);
    }
    double value;
    LS_TRY(n->err, ls_onnx_float(n, 2, 0, &value));
    return ls_onnx_moved_out(n, 0, ls_pad(n->s, x, pads, value), 0);
}

/* Half of the difference goes before, rounded down. */
static ls_status center_crop_pad(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0);
    int64_t dims[LS_MAX_RANK], *wanted;
    int rank = x ? ls_onnx_dims(x, dims) : 0, count, n_axes;
    const int64_t *axes = ls_onnx_attr_ints(n, "axes", &n_axes);
    LS_TRY(n->err, ls_onnx_ints(n, 1, &wanted, &count));
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (count != (axes ? n_axes : rank)) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "%d extents for %d axes", count, axes ? n_axes : rank);
    }
    ls_pad_spec pads[LS_MAX_RANK] = {{0, 0, 0}};
    for (int i = 0; i < count; i++) {
        int axis;
        LS_TRY(n->err, ls_onnx_axis(n, axes ? axes[i] : i, rank, &axis));
        if (wanted[i] < 0) {
            return ls_onnx_fail(n, LS_ERR_INVALID, "extent %" PRId64, wanted[i]);
        }
        int64_t more = wanted[i] - dims[axis], low = more < 0 ? -(-more / 2) : more / 2;
        pads[axis] = (ls_pad_spec){low, more - low, 0};
    }
    return ls_onnx_out_as(n, 0, ls_pad(n->s, x, pads, 0), ls_onnx_in_type(n, 0));
}

/* ---- made ---- */

static ls_status strings_out(ls_onnx_node *n, int rank, int count, const char *const *strings) {
    ls_onnx_value *v = ls_onnx_value_new(n, ONNX_STRINGS, ONNX_STRING);
    const char **copy = ls_arena_copy(ls_onnx_arena(n), strings, sizeof *strings * (size_t)count);
    if (!v || !copy) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for %d strings", count);
    }
    v->known = true;
    v->rank = rank;
    v->dims[0] = count;
    v->strings = copy;
    return ls_onnx_out_value(n, 0, v);
}

static ls_status constant(ls_onnx_node *n) {
    int count;
    ls_onnx_value *tensor = ls_onnx_attr_tensor(n, "value");
    if (tensor) {
        return ls_onnx_out_value(n, 0, tensor);
    }
    if (ls_onnx_attr(n, "value_int")) {
        int64_t value = ls_onnx_attr_int(n, "value_int", 0);
        return ls_onnx_out_from(n, 0, ONNX_INT64, 0, NULL, &value);
    }
    if (ls_onnx_attr(n, "value_float")) {
        float value = (float)ls_onnx_attr_float(n, "value_float", 0);
        return ls_onnx_out_from(n, 0, ONNX_FLOAT, 0, NULL, &value);
    }
    if (ls_onnx_attr(n, "value_string")) {
        const char *value = ls_onnx_attr_string(n, "value_string", "");
        return strings_out(n, 0, 1, &value);
    }
    if (ls_onnx_attr(n, "value_ints")) {
        const int64_t *values = ls_onnx_attr_ints(n, "value_ints", &count);
        return ls_onnx_out_from(n, 0, ONNX_INT64, 1, (int64_t[]){count}, values);
    }
    if (ls_onnx_attr(n, "value_floats")) {
        const float *values = ls_onnx_attr_floats(n, "value_floats", &count);
        return ls_onnx_out_from(n, 0, ONNX_FLOAT, 1, (int64_t[]){count}, values);
    }
    if (ls_onnx_attr(n, "value_strings")) {
        const char *const *values = ls_onnx_attr_strings(n, "value_strings", &count);
        return strings_out(n, 1, count, values);
    }
    return ls_onnx_attr(n, "sparse_value") ? ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "a sparse tensor as value")
                                           : ls_onnx_fail(n, LS_ERR_FORMAT, "no value");
}

static ls_status constant_of_shape(ls_onnx_node *n) {
    ls_dim *dims;
    int count;
    LS_TRY(n->err, ls_onnx_extents(n, 0, &dims, &count));
    LS_TRY(n->err, ls_onnx_check_rank(n, count));
    ls_onnx_value *value = ls_onnx_attr_tensor(n, "value");
    ls_shape shape_of = {.rank = count};
    for (int i = 0; i < count; i++) {
        bool fits;
        LS_TRY(n->err, ls_onnx_at_least(n, dims[i], ls_dim_of(0), &fits));
        shape_of.dim[i] = fits ? dims[i] : ls_dim_of(-1);
    }
    if (!value) {
        return ls_onnx_out(n, 0, ls_full(n->s, LS_F32, shape_of, 0));
    }
    if (value->kind != ONNX_TENSOR) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "strings as value");
    }
    ls_tensor *one = ls_onnx_tensor(n, value);
    return ls_onnx_out_as(n, 0, one ? ls_expand(n->s, ls_reshape(n->s, one, LS_SCALAR), shape_of) : NULL, value->type);
}

/* ceil((limit - start) / delta), at least 0. */
static int64_t range_count(double start, double limit, double delta) {
    double q = (limit - start) / delta;
    if (!(q > 0)) {
        return 0;
    }
    if (q >= 72057594037927936.0) { /* more than any tensor has */
        return INT64_MAX;
    }
    int64_t whole = (int64_t)q;
    return whole + ((double)whole < q);
}

/* How many steps of 1 or -1 lead from a start to a limit, one of which has a symbol. */
static ls_status range_symbolic(ls_onnx_node *n, ls_dim *out_count) {
    ls_dim *ends[3];
    int counts[3];
    for (int i = 0; i < 3; i++) {
        LS_TRY(n->err, ls_onnx_extents(n, i, &ends[i], &counts[i]));
        if (counts[i] != 1) {
            return ls_onnx_fail(n, LS_ERR_SHAPE, "operand %d: expected one number, got %d", i, counts[i]);
        }
    }
    bool any, unit = !ends[2]->symbol && (ends[2]->offset == 1 || ends[2]->offset == -1);
    if (!unit || !ls_onnx_minus(*ends[1], *ends[0], out_count) || !ls_onnx_times(*out_count, *ends[2], out_count)) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "ends with a symbol in steps other than 1 and -1");
    }
    LS_TRY(n->err, ls_onnx_at_least(n, *out_count, ls_dim_of(0), &any));
    *out_count = any ? *out_count : ls_dim_of(0);
    return LS_OK;
}

static ls_status range(ls_onnx_node *n) {
    ls_tensor *start = ls_onnx_in(n, 0), *limit = ls_onnx_in(n, 1), *delta = ls_onnx_in(n, 2);
    if (!start || !limit || !delta) {
        return ls_onnx_out(n, 0, NULL);
    }
    int64_t count = 0;
    ls_shape line = {.rank = 1};
    bool symbolic = n->in[0]->extents || n->in[1]->extents || n->in[2]->extents;
    ls_dtype dtype = ls_tensor_dtype(start), wide = dtype == LS_F16 || dtype == LS_BF16 ? LS_F32 : dtype;
    if (symbolic) {
        LS_TRY(n->err, range_symbolic(n, &line.dim[0]));
    } else if (dtype >= LS_F16) {
        double from, to, step;
        LS_TRY(n->err, ls_onnx_float(n, 0, 0, &from));
        LS_TRY(n->err, ls_onnx_float(n, 1, 0, &to));
        LS_TRY(n->err, ls_onnx_float(n, 2, 0, &step));
        if (step == 0) {
            return ls_onnx_fail(n, LS_ERR_INVALID, "delta is 0");
        }
        count = range_count(from, to, step);
    } else {
        int64_t from, to, step;
        LS_TRY(n->err, ls_onnx_int(n, 0, 0, &from));
        LS_TRY(n->err, ls_onnx_int(n, 1, 0, &to));
        LS_TRY(n->err, ls_onnx_int(n, 2, 0, &step));
        if (step == 0) {
            return ls_onnx_fail(n, LS_ERR_INVALID, "delta is 0");
        }
        uint64_t apart = step > 0 ? (uint64_t)to - (uint64_t)from : (uint64_t)from - (uint64_t)to;
        uint64_t stride = step > 0 ? (uint64_t)step : -(uint64_t)step;
        bool any = step > 0 ? from < to : to < from;
        uint64_t steps = any ? apart / stride + (apart % stride != 0) : 0;
        count = steps > INT64_MAX ? INT64_MAX : (int64_t)steps;
    }
    if (n->version >= 27 && wide != dtype && ls_onnx_attr_int(n, "stash_type", ONNX_FLOAT) == ONNX_DOUBLE) {
        wide = LS_F64;
    }
    line.dim[0] = symbolic ? line.dim[0] : ls_dim_of(count);
    ls_tensor *i = ls_iota(n->s, wide, line, 0);
    ls_tensor *step = ls_cast(n->s, ls_reshape(n->s, delta, LS_SCALAR), wide);
    ls_tensor *from = ls_cast(n->s, ls_reshape(n->s, start, LS_SCALAR), wide);
    ls_tensor *y = ls_add(n->s, from, ls_mul(n->s, i, step));
    return ls_onnx_out(n, 0, y ? ls_cast(n->s, y, dtype) : NULL);
}

/* Positions along an axis of the last two, as i64. */
static ls_tensor *positions(ls_onnx_node *n, const int64_t dims[2], int axis) {
    return ls_iota(n->s, LS_I64, ls_shape_make(2, dims), axis);
}

static ls_status eye_like(ls_onnx_node *n) {
    LS_TRY(n->err, check_array(n, false));
    int64_t dims[LS_MAX_RANK], k = ls_onnx_attr_int(n, "k", 0);
    int type = (int)ls_onnx_attr_int(n, "dtype", n->in[0]->type);
    if (ls_onnx_value_dims(n->in[0], dims) != 2) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "the operand is no matrix");
    }
    if (ls_onnx_carrier(type) == LS_DTYPE_COUNT || ls_onnx_type_of(ls_onnx_carrier(type)) != type) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "a matrix of %s", ls_onnx_type_name(type));
    }
    ls_tensor *row = positions(n, dims, 0), *column = positions(n, dims, 1);
    ls_tensor *on = ls_eq(n->s, ls_sub(n->s, column, row), ls_full_i64(n->s, LS_I64, LS_SCALAR, k));
    return ls_onnx_out_as(n, 0, ls_cast(n->s, on, ls_onnx_carrier(type)), type);
}

static ls_status trilu(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *k = ls_onnx_has(n, 1) ? ls_onnx_in(n, 1) : ls_full_i64(n->s, LS_I64, LS_SCALAR, 0);
    if (!x || !k) {
        return ls_onnx_out(n, 0, NULL);
    }
    const ls_shape shape = ls_tensor_shape(x);
    if (shape.rank < 2) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "the operand has rank %d: expected 2 or more", shape.rank);
    }
    const ls_shape last = {.rank = 2, .dim = {shape.dim[shape.rank - 2], shape.dim[shape.rank - 1]}};
    ls_tensor *row = ls_iota(n->s, LS_I64, last, 0), *column = ls_iota(n->s, LS_I64, last, 1);
    ls_tensor *off = ls_sub(n->s, column, row), *at = ls_reshape(n->s, k, LS_SCALAR);
    ls_tensor *keep = ls_onnx_attr_int(n, "upper", 1) ? ls_ge(n->s, off, at) : ls_le(n->s, off, at);
    ls_tensor *zero = ls_full_i64(n->s, ls_tensor_dtype(x), LS_SCALAR, 0);
    return ls_onnx_out_as(n, 0, ls_where(n->s, keep, x, zero), ls_onnx_in_type(n, 0));
}

/* ---- blocks, sequences, selections ---- */

static ls_status depth_to_space(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    const char *mode = ls_onnx_attr_string(n, "mode", "DCR");
    if (strcmp(mode, "DCR") != 0 && strcmp(mode, "CRD") != 0) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "mode \"%s\": expected DCR or CRD", mode);
    }
    int64_t block = ls_onnx_attr_int(n, "blocksize", 0);
    return ls_onnx_moved_out(n, 0, x ? ls_depth_to_space(n->s, x, block, mode[0] == 'C') : NULL, 0);
}

static ls_status space_to_depth(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    return ls_onnx_moved_out(n, 0, x ? ls_space_to_depth(n->s, x, ls_onnx_attr_int(n, "blocksize", 0)) : NULL, 0);
}

/* y at time t is x at length - 1 - t while t is below the length. */
static ls_status reverse_sequence(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0), *lengths = ls_onnx_in(n, 1);
    int64_t dims[LS_MAX_RANK], shape_of[LS_MAX_RANK];
    int time, batch;
    if (!x || !lengths) {
        return ls_onnx_out(n, 0, NULL);
    }
    int rank = ls_onnx_dims(x, dims);
    LS_TRY(n->err, ls_onnx_axis(n, ls_onnx_attr_int(n, "time_axis", 0), rank, &time));
    LS_TRY(n->err, ls_onnx_axis(n, ls_onnx_attr_int(n, "batch_axis", 1), rank, &batch));
    if (time == batch || ls_tensor_numel(n->s, lengths) != dims[batch]) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "%" PRId64 " lengths for time axis %d and batch axis %d", ls_tensor_numel(n->s, lengths), time,
                            batch);
    }
    for (int i = 0; i < rank; i++) {
        shape_of[i] = i == batch ? dims[i] : 1;
    }
    ls_tensor *length = ls_onnx_shaped(n, ls_cast(n->s, lengths, LS_I64), rank, shape_of);
    ls_tensor *t = ls_iota(n->s, LS_I64, ls_shape_make(rank, dims), time);
    ls_tensor *back = ls_sub(n->s, ls_sub(n->s, length, ls_full_i64(n->s, LS_I64, LS_SCALAR, 1)), t);
    ls_tensor *from = ls_where(n->s, ls_lt(n->s, t, length), back, t);
    return ls_onnx_moved_out(n, 0, ls_take_along(n->s, x, from, time), 0);
}

static ls_status compress(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    int64_t dims[LS_MAX_RANK], *keep, kept = 0;
    int count, axis = 0;
    LS_TRY(n->err, ls_onnx_ints(n, 1, &keep, &count));
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (ls_onnx_attr(n, "axis")) {
        LS_TRY(n->err, ls_onnx_axis(n, ls_onnx_attr_int(n, "axis", 0), ls_onnx_dims(x, dims), &axis));
    } else {
        x = ls_reshape(n->s, x, LS_SHAPE(-1));
        if (!x) {
            return ls_onnx_out(n, 0, NULL);
        }
        ls_onnx_dims(x, dims);
    }
    if (count > dims[axis]) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "%d conditions for extent %" PRId64, count, dims[axis]);
    }
    for (int i = 0; i < count; i++) { /* the list becomes that of the places kept */
        if (keep[i]) {
            keep[kept++] = i;
        }
    }
    ls_tensor *index = ls_onnx_indices(n, 1, &kept, keep);
    return ls_onnx_moved_out(n, 0, ls_gather(n->s, x, index, axis), 0);
}

const ls_onnx_op ls_onnx_shape_ops[] = {
    {"", "Reshape", 5, 2, 2, reshape, ONNX_SYMBOLS},
    {"", "Flatten", 1, 1, 1, flatten, ONNX_SYMBOLS},
    {"", "Squeeze", 1, 1, 2, squeeze, ONNX_SYMBOLS},
    {"", "Unsqueeze", 1, 1, 2, unsqueeze, ONNX_SYMBOLS},
    {"", "Shape", 1, 1, 1, shape, ONNX_HOST | ONNX_SYMBOLS},
    {"", "Size", 1, 1, 1, size, ONNX_HOST | ONNX_SYMBOLS},
    {"", "Pad", 2, 1, 4, pad, ONNX_SYMBOLS},
    {"", "CenterCropPad", 18, 2, 2, center_crop_pad, 0},
    {"", "Constant", 1, 0, 0, constant, ONNX_HOST},
    {"", "ConstantOfShape", 9, 1, 1, constant_of_shape, ONNX_SYMBOLS},
    {"", "Range", 11, 3, 3, range, ONNX_SYMBOLS},
    {"", "EyeLike", 9, 1, 1, eye_like, ONNX_HOST},
    {"", "Trilu", 14, 1, 2, trilu, ONNX_SYMBOLS},
    {"", "DepthToSpace", 1, 1, 1, depth_to_space, 0},
    {"", "SpaceToDepth", 1, 1, 1, space_to_depth, 0},
    {"", "ReverseSequence", 10, 2, 2, reverse_sequence, 0},
    {"", "Compress", 9, 2, 2, compress, 0},
    {0},
};
