/* ONNX: shapes, and moving elements about by numbers that are attributes or known when the graph is built. */
#include "io/onnx/moved.h"
#include <inttypes.h>
#include <string.h>

/* ---- shapes ---- */

static ls_status check_rank(ls_onnx_node *n, int64_t rank) {
    return rank <= LS_MAX_RANK ? LS_OK
                               : ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "a tensor of rank %" PRId64 ": at most %d is supported",
                                              rank, LS_MAX_RANK);
}

/* Operand 0 in another shape. */
static ls_status shaped(ls_onnx_node *n, ls_tensor *x, int rank, const int64_t *dims) {
    return ls_onnx_moved_out(n, 0, x ? ls_onnx_shaped(n, x, rank, dims) : NULL, 0);
}

static ls_status reshape(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    int64_t from[LS_MAX_RANK], *dims, known = 1, all = 1;
    int rank = x ? ls_onnx_dims(x, from) : 0, count, hole = -1;
    bool allow_zero = ls_onnx_attr_int(n, "allowzero", 0) != 0;
    LS_TRY(n->err, ls_onnx_ints(n, 1, &dims, &count));
    LS_TRY(n->err, check_rank(n, count));
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    for (int i = 0; i < rank; i++) {
        all *= from[i];
    }
    for (int i = 0; i < count; i++) {
        if (dims[i] == 0 && !allow_zero) {
            if (i >= rank) {
                return ls_onnx_fail(n, LS_ERR_SHAPE, "extent %d of the new shape is 0 and copies none of rank %d", i, rank);
            }
            dims[i] = from[i];
        }
        if (dims[i] < -1 || (dims[i] == -1 && hole >= 0)) {
            return ls_onnx_fail(n, LS_ERR_SHAPE, "extent %d of the new shape is %" PRId64 ": expected 0 or more, and -1 once", i, dims[i]);
        }
        if (dims[i] == -1) {
            hole = i;
        } else if (__builtin_mul_overflow(known, dims[i], &known)) {
            return ls_onnx_fail(n, LS_ERR_SHAPE, "the new shape has too many elements");
        }
    }
    if (hole >= 0) {
        if (known == 0 || all % known) {
            return ls_onnx_fail(n, LS_ERR_SHAPE, "the new shape's -1 cannot be told from %" PRId64 " elements", all);
        }
        dims[hole] = all / known;
    }
    return shaped(n, x, count, dims);
}

static ls_status flatten(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    int64_t dims[LS_MAX_RANK], flat[2] = {1, 1}, axis = ls_onnx_attr_int(n, "axis", 1);
    int rank = x ? ls_onnx_dims(x, dims) : 0;
    if (axis < -rank || axis > rank) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "axis %" PRId64 " of rank %d", axis, rank);
    }
    axis += axis < 0 ? rank : 0;
    for (int i = 0; i < rank; i++) {
        flat[i >= axis] *= dims[i];
    }
    return shaped(n, x, 2, flat);
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
    int64_t dims[LS_MAX_RANK], left[LS_MAX_RANK];
    int rank = x ? ls_onnx_dims(x, dims) : 0, count, kept = 0;
    const int64_t *axes;
    unsigned bits;
    LS_TRY(n->err, ls_onnx_operand_or_attr(n, 1, "axes", &axes, &count));
    LS_TRY(n->err, axis_bits(n, axes, count, x ? rank : LS_MAX_RANK, &bits));
    for (int i = 0; i < rank; i++) {
        bool drop = count < 0 ? dims[i] == 1 : bits >> i & 1;
        if (drop && dims[i] != 1) {
            return ls_onnx_fail(n, LS_ERR_SHAPE, "axis %d has extent %" PRId64 ": expected 1", i, dims[i]);
        }
        if (!drop) {
            left[kept++] = dims[i];
        }
    }
    return shaped(n, x, kept, left);
}

static ls_status unsqueeze(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    int64_t dims[LS_MAX_RANK], more[LS_MAX_RANK];
    int rank = x ? ls_onnx_dims(x, dims) : 0, count, next = 0;
    const int64_t *axes;
    unsigned bits;
    LS_TRY(n->err, ls_onnx_operand_or_attr(n, 1, "axes", &axes, &count));
    count = count < 0 ? 0 : count;
    LS_TRY(n->err, check_rank(n, rank + (int64_t)count));
    LS_TRY(n->err, axis_bits(n, axes, count, rank + count, &bits));
    for (int i = 0; i < rank + count; i++) {
        more[i] = bits >> i & 1 ? 1 : dims[next++];
    }
    return shaped(n, x, rank + count, more);
}

/* Operators that look at a shape alone take what has one. */
static ls_status check_array(ls_onnx_node *n, bool strings) {
    bool fits = n->in[0]->kind == ONNX_TENSOR || (strings && n->in[0]->kind == ONNX_STRINGS);
    return fits ? LS_OK : ls_onnx_fail(n, LS_ERR_DTYPE, "the operand is no tensor%s", strings ? "" : " of numbers");
}

static ls_status shape(ls_onnx_node *n) {
    LS_TRY(n->err, check_array(n, true));
    int64_t dims[LS_MAX_RANK], rank = ls_onnx_value_dims(n->in[0], dims);
    int64_t start = ls_onnx_attr_int(n, "start", 0), end = ls_onnx_attr_int(n, "end", rank);
    start += start < 0 ? rank : 0;
    end += end < 0 ? rank : 0;
    start = start < 0 ? 0 : start > rank ? rank : start;
    end = end < start ? start : end > rank ? rank : end;
    int64_t count = end - start;
    return ls_onnx_out_from(n, 0, ONNX_INT64, 1, &count, dims + start);
}

static ls_status size(ls_onnx_node *n) {
    LS_TRY(n->err, check_array(n, true));
    int64_t dims[LS_MAX_RANK], count = 1;
    int rank = ls_onnx_value_dims(n->in[0], dims);
    for (int i = 0; i < rank; i++) {
        count *= dims[i];
    }
    return ls_onnx_out_from(n, 0, ONNX_INT64, 0, NULL, &count);
}

/* ---- permuting, joining, cutting ---- */

static ls_status transpose(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    int64_t dims[LS_MAX_RANK];
    int rank = x ? ls_onnx_dims(x, dims) : 0, count, axes[LS_MAX_RANK];
    const int64_t *perm = ls_onnx_attr_ints(n, "perm", &count);
    if (x && perm && count != rank) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "perm lists %d axes of rank %d", count, rank);
    }
    for (int i = 0; i < rank; i++) {
        axes[i] = rank - 1 - i;
        if (perm) {
            LS_TRY(n->err, ls_onnx_axis(n, perm[i], rank, &axes[i]));
        }
    }
    return ls_onnx_moved_out(n, 0, x ? ls_permute(n->s, x, axes) : NULL, 0);
}

static ls_status concat(ls_onnx_node *n) {
    ls_tensor **xs = LS_ARENA_ARRAY(ls_onnx_arena(n), ls_tensor *, n->n_in);
    int64_t dims[LS_MAX_RANK];
    int axis;
    if (!xs) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for %d operands", n->n_in);
    }
    for (int i = 0; i < n->n_in; i++) {
        xs[i] = ls_onnx_moved_in(n, i);
        if (!xs[i]) {
            return ls_onnx_out(n, 0, NULL);
        }
    }
    if (!ls_onnx_attr(n, "axis")) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "attribute axis is missing");
    }
    LS_TRY(n->err, ls_onnx_axis(n, ls_onnx_attr_int(n, "axis", 0), ls_onnx_dims(xs[0], dims), &axis));
    return ls_onnx_moved_out(n, 0, ls_concat(n->s, xs, n->n_in, axis), 0);
}

static ls_status split(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    int64_t dims[LS_MAX_RANK], start = 0;
    int axis, count;
    const int64_t *sizes;
    LS_TRY(n->err, ls_onnx_operand_or_attr(n, 1, "split", &sizes, &count));
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, ls_onnx_axis(n, ls_onnx_attr_int(n, "axis", 0), ls_onnx_dims(x, dims), &axis));
    int64_t parts = count >= 0 ? count : ls_onnx_attr_int(n, "num_outputs", n->n_out), extent = dims[axis];
    if (parts < n->n_out || parts < 1 || (count < 0 && n->version < 18 && extent % parts)) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "%d outputs from %" PRId64 " parts of extent %" PRId64, n->n_out, parts, extent);
    }
    int64_t each = extent / parts + (extent % parts != 0);
    for (int64_t i = 0; i < (count >= 0 ? count : n->n_out); i++) {
        int64_t length = count >= 0 ? sizes[i] : each < extent - start ? each : extent - start;
        if (length < 0 || length > extent - start) {
            return ls_onnx_fail(n, LS_ERR_SHAPE, "part %" PRId64 " has %" PRId64 " of the %" PRId64 " elements that are left", i, length,
                                extent - start);
        }
        if (i < n->n_out && ls_onnx_wants(n, (int)i)) {
            LS_TRY(n->err, ls_onnx_moved_out(n, (int)i, ls_narrow(n->s, x, axis, start, length), 0));
        }
        start += length;
    }
    return start == extent || count < 0 ? LS_OK
                                        : ls_onnx_fail(n, LS_ERR_SHAPE, "the parts hold %" PRId64 " of extent %" PRId64, start, extent);
}

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* Python's x[start:end:step] for an extent, as ls_slice wants it. */
static ls_slice_spec slice_spec(int64_t extent, int64_t start, int64_t end, int64_t step) {
    start += start < 0 ? extent : 0;
    end += end < 0 ? extent : 0;
    if (step > 0) {
        start = clamp(start, 0, extent);
        return (ls_slice_spec){start, clamp(end, start, extent), step};
    }
    if (extent == 0) {
        return (ls_slice_spec){0, 0, 1};
    }
    start = clamp(start, -1, extent - 1);
    end = clamp(end, -1, start);
    return start == end ? (ls_slice_spec){0, 0, 1} : (ls_slice_spec){start, end, step};
}

static ls_status slice(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    const int64_t *starts, *ends, *axes, *steps;
    int64_t dims[LS_MAX_RANK];
    int n_starts, n_ends, n_axes, n_steps, rank = x ? ls_onnx_dims(x, dims) : 0;
    LS_TRY(n->err, ls_onnx_operand_or_attr(n, 1, "starts", &starts, &n_starts));
    LS_TRY(n->err, ls_onnx_operand_or_attr(n, 2, "ends", &ends, &n_ends));
    LS_TRY(n->err, ls_onnx_operand_or_attr(n, 3, "axes", &axes, &n_axes));
    LS_TRY(n->err, ls_onnx_operand_or_attr(n, 4, "steps", &steps, &n_steps));
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (n_starts < 0 || n_ends != n_starts || (n_axes >= 0 && n_axes != n_starts) || (n_steps >= 0 && n_steps != n_starts)) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "%d starts, %d ends, %d axes and %d steps: expected as many of each", n_starts, n_ends,
                            n_axes, n_steps);
    }
    ls_slice_spec specs[LS_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        specs[i] = (ls_slice_spec){0, dims[i], 1};
    }
    for (int i = 0; i < n_starts; i++) {
        int axis;
        LS_TRY(n->err, ls_onnx_axis(n, n_axes < 0 ? i : axes[i], rank, &axis));
        int64_t step = n_steps < 0 ? 1 : steps[i];
        if (step == 0) {
            return ls_onnx_fail(n, LS_ERR_INVALID, "step %d is 0", i);
        }
        step = step < -INT64_MAX ? -INT64_MAX : step;
        specs[axis] = slice_spec(dims[axis], starts[i], ends[i], step);
    }
    return ls_onnx_moved_out(n, 0, ls_slice(n->s, x, specs), 0);
}

/* ---- repeating and padding ---- */

static ls_status expand(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    int64_t dims[LS_MAX_RANK], both[LS_MAX_RANK], *wanted;
    int rank = x ? ls_onnx_dims(x, dims) : 0, count;
    LS_TRY(n->err, ls_onnx_ints(n, 1, &wanted, &count));
    LS_TRY(n->err, check_rank(n, count));
    int all = rank > count ? rank : count;
    for (int i = 0; i < all && x; i++) {
        int64_t a = i < all - rank ? 1 : dims[i - (all - rank)], b = i < all - count ? 1 : wanted[i - (all - count)];
        if (a != b && a != 1 && b != 1) {
            return ls_onnx_fail(n, LS_ERR_SHAPE, "extents %" PRId64 " and %" PRId64 " do not broadcast", a, b);
        }
        both[i] = a == 1 ? b : a;
    }
    return ls_onnx_moved_out(n, 0, x ? ls_expand(n->s, x, ls_shape_make(all, both)) : NULL, 0);
}

static ls_status tile(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    int64_t dims[LS_MAX_RANK], *repeats;
    int rank = x ? ls_onnx_dims(x, dims) : 0, count;
    LS_TRY(n->err, ls_onnx_ints(n, 1, &repeats, &count));
    if (x && count != rank) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "%d repeats of rank %d", count, rank);
    }
    return ls_onnx_moved_out(n, 0, x ? ls_tile(n->s, x, repeats) : NULL, 0);
}

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
    int64_t *dims;
    int count;
    LS_TRY(n->err, ls_onnx_ints(n, 0, &dims, &count));
    LS_TRY(n->err, check_rank(n, count));
    ls_onnx_value *value = ls_onnx_attr_tensor(n, "value");
    ls_shape shape_of = ls_shape_make(count, dims);
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

static ls_status range(ls_onnx_node *n) {
    ls_tensor *start = ls_onnx_in(n, 0), *limit = ls_onnx_in(n, 1), *delta = ls_onnx_in(n, 2);
    if (!start || !limit || !delta) {
        return ls_onnx_out(n, 0, NULL);
    }
    int64_t count;
    ls_dtype dtype = ls_tensor_dtype(start), wide = dtype == LS_F16 || dtype == LS_BF16 ? LS_F32 : dtype;
    if (dtype >= LS_F16) {
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
    ls_tensor *i = ls_iota(n->s, wide, ls_shape_make(1, &count), 0);
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
    int64_t dims[LS_MAX_RANK];
    if (!x || !k) {
        return ls_onnx_out(n, 0, NULL);
    }
    int rank = ls_onnx_dims(x, dims);
    if (rank < 2) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "the operand has rank %d: expected 2 or more", rank);
    }
    ls_tensor *row = positions(n, dims + rank - 2, 0), *column = positions(n, dims + rank - 2, 1);
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
    {"", "Reshape", 5, 2, 2, reshape, 0},
    {"", "Flatten", 1, 1, 1, flatten, 0},
    {"", "Squeeze", 1, 1, 2, squeeze, 0},
    {"", "Unsqueeze", 1, 1, 2, unsqueeze, 0},
    {"", "Shape", 1, 1, 1, shape, ONNX_HOST},
    {"", "Size", 1, 1, 1, size, ONNX_HOST},
    {"", "Transpose", 1, 1, 1, transpose, 0},
    {"", "Concat", 4, 1, -1, concat, 0},
    {"", "Split", 2, 1, 2, split, 0},
    {"", "Slice", 1, 1, 5, slice, 0},
    {"", "Expand", 8, 2, 2, expand, 0},
    {"", "Tile", 6, 2, 2, tile, 0},
    {"", "Pad", 2, 1, 4, pad, 0},
    {"", "CenterCropPad", 18, 2, 2, center_crop_pad, 0},
    {"", "Constant", 1, 0, 0, constant, ONNX_HOST},
    {"", "ConstantOfShape", 9, 1, 1, constant_of_shape, 0},
    {"", "Range", 11, 3, 3, range, 0},
    {"", "EyeLike", 9, 1, 1, eye_like, ONNX_HOST},
    {"", "Trilu", 14, 1, 2, trilu, 0},
    {"", "DepthToSpace", 1, 1, 1, depth_to_space, 0},
    {"", "SpaceToDepth", 1, 1, 1, space_to_depth, 0},
    {"", "ReverseSequence", 10, 2, 2, reverse_sequence, 0},
    {"", "Compress", 9, 2, 2, compress, 0},
    {0},
};
