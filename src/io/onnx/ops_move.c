/* ONNX: permuting, joining, cutting and repeating, by numbers that are attributes, known when the graph is built, or extents with a symbol. */
#include "io/onnx/extent.h"
#include "io/onnx/moved.h"
#include <inttypes.h>

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

/* The lengths of the parts that Split cuts an extent into: given, or as equal as they can be. */
static ls_status split_lengths(ls_onnx_node *n, ls_dim extent, ls_dim **out_lengths, int *out_count) {
    ls_dim *given = NULL;
    int count = -1;
    if (ls_onnx_has(n, 1)) {
        LS_TRY(n->err, ls_onnx_extents(n, 1, out_lengths, out_count));
        return LS_OK;
    }
    const int64_t *list = ls_onnx_attr(n, "split") ? ls_onnx_attr_ints(n, "split", &count) : NULL;
    int64_t parts = count >= 0 ? count : ls_onnx_attr_int(n, "num_outputs", n->n_out), left = extent.offset;
    if (parts < n->n_out || parts < 1 ||
        (count < 0 && ((n->version < 18 && extent.offset % parts) || extent.scale % parts))) {
        return ls_onnx_fail(n, extent.symbol ? LS_ERR_UNSUPPORTED : LS_ERR_SHAPE,
                            "%d outputs from %" PRId64 " parts of extent %" PRId64, n->n_out, parts,
                            extent.offset);
    }
    *out_count = count >= 0 ? count : n->n_out;
    *out_lengths = given = LS_ARENA_ARRAY(ls_onnx_arena(n), ls_dim, *out_count + 1);
    if (!given) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for %d parts", *out_count);
    }
    if (extent.symbol && count < 0 && extent.offset % parts) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "parts of an extent with a symbol that are not equal");
    }
    int64_t each = extent.offset / parts + (extent.offset % parts != 0);
    for (int i = 0; i < *out_count; i++) {
        int64_t length = count >= 0 ? list[i] : extent.symbol || each < left ? each : left;
        given[i] = extent.symbol && count < 0 ? ls_dim_symbol(extent.symbol, extent.scale / parts, length)
                                              : ls_dim_of(length);
        left -= length;
    }
    return LS_OK;
}

static ls_status split(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    ls_dim *lengths, start = ls_dim_of(0), left;
    int axis, count;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    const ls_shape from = ls_tensor_shape(x);
    LS_TRY(n->err, ls_onnx_axis(n, ls_onnx_attr_int(n, "axis", 0), from.rank, &axis));
    LS_TRY(n->err, split_lengths(n, left = from.dim[axis], &lengths, &count));
    if (count < n->n_out) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "%d outputs from %d parts", n->n_out, count);
    }
    for (int i = 0; i < count; i++) {
        bool any, fits = false;
        LS_TRY(n->err, ls_onnx_at_least(n, lengths[i], ls_dim_of(0), &any));
        if (any) {
            LS_TRY(n->err, ls_onnx_at_least(n, left, lengths[i], &fits));
        }
        if (!fits || !ls_onnx_minus(left, lengths[i], &left)) {
            return ls_onnx_fail(n, LS_ERR_SHAPE,
                                "part %d has %" PRId64 " of the %" PRId64 " elements that are left", i,
                                lengths[i].offset, left.offset);
        }
        if (i < n->n_out && ls_onnx_wants(n, i)) {
            LS_TRY(n->err, ls_onnx_moved_out(n, i, ls_onnx_part(n, x, axis, start, lengths[i]), 0));
        }
        if (!ls_onnx_plus(start, lengths[i], &start)) {
            return ls_onnx_fail(n, LS_ERR_UNSUPPORTED,
                                "parts that are no multiples of a symbol plus a number");
        }
    }
    bool equal_parts = !ls_onnx_has(n, 1) && !ls_onnx_attr(n, "split");
    return equal_parts || ls_onnx_same(left, ls_dim_of(0))
               ? LS_OK
               : ls_onnx_fail(n, LS_ERR_SHAPE, "the parts hold %" PRId64 " of extent %" PRId64, start.offset,
                              from.dim[axis].offset);
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

/* low <= *d <= high afterwards; ends of the 64-bit range stand for "as far as there is". */
static ls_status clamped(ls_onnx_node *n, ls_dim low, ls_dim high, ls_dim *d) {
    bool below, above;
    if (!d->symbol && (d->offset > INT64_MAX / 2 || d->offset < INT64_MIN / 2)) {
        *d = d->offset > 0 ? high : low;
        return LS_OK;
    }
    LS_TRY(n->err, ls_onnx_at_least(n, high, *d, &below));
    LS_TRY(n->err, ls_onnx_at_least(n, *d, low, &above));
    *d = !below ? high : !above ? low : *d;
    return LS_OK;
}

/* Python's x[start:end:step] along one axis, where the extent or an end has a symbol: steps of 1, or all of it backwards. */
static ls_status slice_symbolic(ls_onnx_node *n, int axis, ls_dim start, ls_dim end, int64_t step,
                                ls_tensor **x) {
    ls_dim extent = ls_tensor_shape(*x).dim[axis], zero = ls_dim_of(0), *ends[] = {&start, &end}, length;
    if (step == -1 && !start.symbol && !end.symbol && (start.offset == -1 || start.offset > INT64_MAX / 2) &&
        end.offset < INT64_MIN / 2) {
        *x = ls_flip(n->s, *x, axis);
        return *x ? LS_OK : ls_onnx_out(n, 0, NULL);
    }
    if (step != 1) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED,
                            "steps of %" PRId64 " along axis %d, whose extent or ends have a symbol", step,
                            axis);
    }
    for (int i = 0; i < 2; i++) {
        bool from_front = true;
        if (ends[i]->symbol || ends[i]->offset > INT64_MIN / 2) {
            LS_TRY(n->err, ls_onnx_at_least(n, *ends[i], zero, &from_front));
        }
        if (!from_front && !ls_onnx_plus(*ends[i], extent, ends[i])) {
            return ls_onnx_fail(n, LS_ERR_UNSUPPORTED,
                                "an end that is no multiple of a symbol plus a number");
        }
        LS_TRY(n->err, clamped(n, zero, extent, ends[i]));
    }
    bool any;
    LS_TRY(n->err, ls_onnx_at_least(n, end, start, &any));
    end = any ? end : start;
    if (!ls_onnx_minus(end, start, &length)) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "a length that is no multiple of a symbol plus a number");
    }
    *x = ls_onnx_part(n, *x, axis, start, length);
    return *x ? LS_OK : ls_onnx_out(n, 0, NULL);
}

/* A list of numbers from operand i or an attribute; *out_count -1: neither is there. */
static ls_status operand_or_attr(ls_onnx_node *n, int i, const char *name, ls_dim **out_list,
                                 int *out_count) {
    *out_list = NULL;
    *out_count = -1;
    if (ls_onnx_has(n, i)) {
        return ls_onnx_extents(n, i, out_list, out_count);
    }
    const int64_t *list = ls_onnx_attr(n, name) ? ls_onnx_attr_ints(n, name, out_count) : NULL;
    if (list) {
        *out_list = LS_ARENA_ARRAY(ls_onnx_arena(n), ls_dim, *out_count + 1);
    }
    for (int k = 0; *out_list && k < *out_count; k++) {
        (*out_list)[k] = ls_dim_of(list[k]);
    }
    return !list || *out_list ? LS_OK
                              : ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for attribute %s", name);
}

static ls_status slice(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    const int64_t *axes, *steps;
    ls_dim *starts, *ends;
    const ls_shape from = x ? ls_tensor_shape(x) : LS_SCALAR;
    int n_starts, n_ends, n_axes, n_steps, rank = from.rank;
    LS_TRY(n->err, operand_or_attr(n, 1, "starts", &starts, &n_starts));
    LS_TRY(n->err, operand_or_attr(n, 2, "ends", &ends, &n_ends));
    LS_TRY(n->err, ls_onnx_operand_or_attr(n, 3, "axes", &axes, &n_axes));
    LS_TRY(n->err, ls_onnx_operand_or_attr(n, 4, "steps", &steps, &n_steps));
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (n_starts < 0 || n_ends != n_starts || (n_axes >= 0 && n_axes != n_starts) ||
        (n_steps >= 0 && n_steps != n_starts)) {
        return ls_onnx_fail(n, LS_ERR_INVALID,
                            "%d starts, %d ends, %d axes and %d steps: expected as many of each", n_starts,
                            n_ends, n_axes, n_steps);
    }
    ls_slice_spec specs[LS_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        specs[i] = (ls_slice_spec){0, from.dim[i].symbol ? INT64_MAX : from.dim[i].offset, 1};
    }
    for (int i = 0; i < n_starts; i++) {
        int axis;
        LS_TRY(n->err, ls_onnx_axis(n, n_axes < 0 ? i : axes[i], rank, &axis));
        int64_t step = n_steps < 0 ? 1 : steps[i];
        if (step == 0) {
            return ls_onnx_fail(n, LS_ERR_INVALID, "step %d is 0", i);
        }
        if (from.dim[axis].symbol || starts[i].symbol || ends[i].symbol) {
            LS_TRY(n->err, slice_symbolic(n, axis, starts[i], ends[i], step, &x));
            specs[axis] = (ls_slice_spec){
                0, ls_tensor_shape(x).dim[axis].symbol ? INT64_MAX : ls_tensor_shape(x).dim[axis].offset, 1};
            continue;
        }
        step = step < -INT64_MAX ? -INT64_MAX : step;
        specs[axis] = slice_spec(from.dim[axis].offset, starts[i].offset, ends[i].offset, step);
    }
    return ls_onnx_moved_out(n, 0, ls_slice(n->s, x, specs), 0);
}

/* ---- repeating ---- */

static ls_status expand(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    const ls_shape from = x ? ls_tensor_shape(x) : LS_SCALAR;
    ls_dim *wanted, one = ls_dim_of(1);
    int rank = from.rank, count;
    LS_TRY(n->err, ls_onnx_extents(n, 1, &wanted, &count));
    LS_TRY(n->err, ls_onnx_check_rank(n, count));
    ls_shape both = {.rank = rank > count ? rank : count};
    for (int i = 0; i < both.rank && x; i++) {
        ls_dim a = i < both.rank - rank ? one : from.dim[i - (both.rank - rank)],
               b = i < both.rank - count ? one : wanted[i - (both.rank - count)];
        if (!ls_onnx_same(a, b) && !ls_onnx_same(a, one) && !ls_onnx_same(b, one)) {
            return ls_onnx_fail(n, a.symbol || b.symbol ? LS_ERR_UNSUPPORTED : LS_ERR_SHAPE,
                                "extents %" PRId64 "%s and %" PRId64 "%s do not broadcast", a.offset,
                                a.symbol ? " and more" : "", b.offset, b.symbol ? " and more" : "");
        }
        both.dim[i] = ls_onnx_same(a, one) ? b : a;
        bool fits = true;
        if (b.symbol) {
            LS_TRY(n->err, ls_onnx_at_least(n, b, ls_dim_of(0), &fits));
        }
        if (!fits || (!both.dim[i].symbol && both.dim[i].offset < 0)) {
            return ls_onnx_fail(n, LS_ERR_SHAPE, "extent %d is %" PRId64 ": expected 0 or more", i,
                                both.dim[i].offset);
        }
    }
    return ls_onnx_moved_out(n, 0, x ? ls_expand(n->s, x, both) : NULL, 0);
}

/* An axis repeated: a new one before it, and both as one. */
static ls_status repeated(ls_onnx_node *n, int axis, ls_dim times, ls_tensor **x) {
    ls_shape shape = ls_tensor_shape(*x), wide = shape;
    bool fits = true;
    if (times.symbol) {
        LS_TRY(n->err, ls_onnx_at_least(n, times, ls_dim_of(0), &fits));
    }
    if (!fits || shape.rank == LS_MAX_RANK || !ls_onnx_times(shape.dim[axis], times, &shape.dim[axis])) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED,
                            "axis %d of rank %d repeated: its extent or the repeats have a symbol", axis,
                            shape.rank);
    }
    for (int i = wide.rank++; i > axis; i--) {
        wide.dim[i] = wide.dim[i - 1];
    }
    wide.dim[axis] = times;
    *x = ls_expand(n->s, ls_unsqueeze(n->s, *x, axis), wide);
    *x = *x ? ls_reshape(n->s, *x, shape) : NULL;
    return *x ? LS_OK : ls_onnx_out(n, 0, NULL);
}

static ls_status tile(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    int64_t fixed[LS_MAX_RANK];
    ls_dim *repeats;
    const ls_shape from = x ? ls_tensor_shape(x) : LS_SCALAR;
    int rank = from.rank, count;
    bool symbolic = false;
    LS_TRY(n->err, ls_onnx_extents(n, 1, &repeats, &count));
    if (x && count != rank) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "%d repeats of rank %d", count, rank);
    }
    for (int i = 0; i < rank; i++) {
        symbolic |= from.dim[i].symbol || repeats[i].symbol;
        fixed[i] = repeats[i].offset;
    }
    for (int i = 0; i < rank && symbolic; i++) {
        if (!ls_onnx_same(repeats[i], ls_dim_of(1))) {
            LS_TRY(n->err, repeated(n, i, repeats[i], &x));
        }
    }
    return ls_onnx_moved_out(n, 0, x && !symbolic ? ls_tile(n->s, x, fixed) : x, 0);
}

const ls_onnx_op ls_onnx_move_ops[] = {
    {"", "Transpose", 1, 1, 1, transpose, ONNX_SYMBOLS},
    {"", "Concat", 4, 1, -1, concat, ONNX_SYMBOLS},
    {"", "Split", 2, 1, 2, split, ONNX_SYMBOLS},
    {"", "Slice", 1, 1, 5, slice, ONNX_SYMBOLS},
    {"", "Expand", 8, 2, 2, expand, ONNX_SYMBOLS},
    {"", "Tile", 6, 2, 2, tile, ONNX_SYMBOLS},
    {0},
};
