/* Composites that move elements: tiling, padding with the operand's own elements, blocks of depth and space, and
 * gathers and scatters by several coordinates. Coordinates out of range become row -1, as in composite_index.c. */
#include "graph/build.h"
#include <inttypes.h>

static bool fixed_check(ls_session *s, const char *name, const ls_tensor *x) {
    if (ls_shape_is_fixed(&x->shape)) {
        return true;
    }
    LS_NODE_FAIL(s, LS_ERR_UNSUPPORTED, "%s: operand is %s: expected fixed extents", name, LS_TEXT(x));
    return false;
}

/* The product of extents first .. end - 1. */
static int64_t extents_product(const ls_shape *shape, int first, int end) {
    int64_t n = 1;
    for (int i = first; i < end; i++) {
        n *= shape->dim[i].offset;
    }
    return n;
}

static ls_tensor *i64_scalar(ls_session *s, int64_t value) {
    return ls_full_i64(s, LS_I64, LS_SCALAR, value);
}

/* ---- tiling and padding ---- */

ls_tensor *ls_tile(ls_session *s, ls_tensor *x, const int64_t *repeats) {
    if (!ls_check_operands(s, "tile", 1, &x) || !fixed_check(s, "tile", x) || !ls_check_given(s, "tile", "list of repeats", repeats)) {
        return NULL;
    }
    ls_shape shape = x->shape;
    ls_tensor *y = ls_own(s, x);
    for (int i = 0; i < shape.rank && y; i++) {
        int64_t extent = shape.dim[i].offset;
        if (repeats[i] < 0 || __builtin_mul_overflow(extent, repeats[i], &shape.dim[i].offset)) {
            return LS_NODE_FAIL(s, LS_ERR_INVALID,
                                "tile: %" PRId64 " repeats of axis %d of %s: expected 0 or more", repeats[i], i,
                                LS_TEXT(x));
        }
        if (repeats[i] == 1) {
            continue;
        }
        int64_t before = extents_product(&shape, 0, i), after = extents_product(&y->shape, i, shape.rank);
        if (!ls_shape_check(s, "tile", &shape)) {
            return NULL;
        }
        ls_tensor *line = ls_reshape(s, y, LS_SHAPE(before, 1, after));
        y = ls_reshape(s, ls_expand(s, line, LS_SHAPE(before, repeats[i], after)), shape);
    }
    return y;
}

/* Which element of n stands at i of the padded axis: an index tensor. */
static ls_tensor *pad_index(ls_session *s, int64_t n, const ls_pad_spec *p, ls_pad_kind kind) {
    int64_t length = n + p->low + p->high;
    ls_tensor *i = ls_sub(s, ls_iota(s, LS_I64, LS_SHAPE(length), 0), i64_scalar(s, p->low));
    ls_tensor *last = i64_scalar(s, n - 1);
    if (kind == LS_PAD_EDGE) {
        return ls_min(s, ls_max(s, i, i64_scalar(s, 0)), last);
    }
    int64_t period = kind == LS_PAD_WRAP ? n : n > 1 ? 2 * (n - 1) : 1;
    int64_t lead = p->low > 0 ? (p->low + period - 1) / period * period : 0;
    ls_tensor *r = ls_rem(s, ls_add(s, i, i64_scalar(s, lead)), i64_scalar(s, period));
    return kind == LS_PAD_WRAP ? r : ls_min(s, r, ls_sub(s, i64_scalar(s, n > 1 ? period : 0), r));
}

ls_tensor *ls_pad_with(ls_session *s, ls_tensor *x, const ls_pad_spec *pads, ls_pad_kind kind) {
    if (!ls_check_operands(s, "pad_with", 1, &x) || !ls_check_given(s, "pad_with", "spec", pads)) {
        return NULL;
    }
    if ((unsigned)kind > LS_PAD_WRAP) {
        return LS_NODE_FAIL(s, LS_ERR_INVALID, "pad_with: kind %d: expected one of ls_pad_kind", (int)kind);
    }
    ls_pad_spec crop[LS_MAX_RANK] = {{0, 0, 0}}, grow[LS_MAX_RANK] = {{0, 0, 0}};
    for (int i = 0; i < x->shape.rank; i++) {
        crop[i].low = pads[i].low < 0 ? pads[i].low : 0;
        crop[i].high = pads[i].high < 0 ? pads[i].high : 0;
        grow[i].low = pads[i].low - crop[i].low;
        grow[i].high = pads[i].high - crop[i].high;
        if (pads[i].interior || grow[i].low > INT64_MAX / 4 || grow[i].high > INT64_MAX / 4) {
            return LS_NODE_FAIL(s, LS_ERR_INVALID,
                                "pad_with: low %" PRId64 ", high %" PRId64 " and interior %" PRId64
                                " of axis %d of %s: expected no interior, and ends that fit",
                                pads[i].low, pads[i].high, pads[i].interior, i, LS_TEXT(x));
        }
    }
    ls_tensor *y = ls_pad(s, x, crop, 0);
    for (int i = 0; y && i < y->shape.rank; i++) {
        if (!grow[i].low && !grow[i].high) {
            continue;
        }
        ls_dim d = y->shape.dim[i];
        if (!ls_dim_is_fixed(d) || d.offset == 0) {
            return LS_NODE_FAIL(s, LS_ERR_SHAPE, "pad_with: axis %d of %s: expected a fixed extent that leaves elements", i,
                                LS_TEXT(x));
        }
        y = ls_gather(s, y, pad_index(s, d.offset, &grow[i], kind), i);
    }
    return y;
}

/* ---- blocks ---- */

static bool block_check(ls_session *s, const char *name, const ls_tensor *x, int64_t block, bool depth) {
    if (!fixed_check(s, name, x)) {
        return false;
    }
    const ls_dim *d = x->shape.dim;
    int64_t area = 0, more;
    bool fits = x->shape.rank == 4 && block > 0 && !__builtin_mul_overflow(block, block, &area) &&
                (depth ? d[1].offset % area == 0 && !__builtin_mul_overflow(d[2].offset, block, &more) && !__builtin_mul_overflow(d[3].offset, block, &more)
                       : d[2].offset % block == 0 && d[3].offset % block == 0 && !__builtin_mul_overflow(d[1].offset, area, &more));
    if (!fits) {
        LS_NODE_FAIL(s, LS_ERR_SHAPE,
                     "%s: block %" PRId64 " of %s: expected [N,C,H,W] with %s that the block divides", name, block,
                     LS_TEXT(x), depth ? "channels" : "a height and a width");
    }
    return fits;
}

ls_tensor *ls_depth_to_space(ls_session *s, ls_tensor *x, int64_t block, int depth_last) {
    static const int first_axes[] = {0, 3, 4, 1, 5, 2}, last_axes[] = {0, 1, 4, 2, 5, 3};
    if (!ls_check_operands(s, "depth_to_space", 1, &x) || !block_check(s, "depth_to_space", x, block, true)) {
        return NULL;
    }
    int64_t n = x->shape.dim[0].offset, h = x->shape.dim[2].offset, w = x->shape.dim[3].offset;
    int64_t c = x->shape.dim[1].offset / (block * block);
    ls_shape split = depth_last ? LS_SHAPE(n, c, block, block, h, w) : LS_SHAPE(n, block, block, c, h, w);
    ls_tensor *y = ls_permute(s, ls_reshape(s, x, split), depth_last ? last_axes : first_axes);
    return ls_reshape(s, y, LS_SHAPE(n, c, h * block, w * block));
}

ls_tensor *ls_space_to_depth(ls_session *s, ls_tensor *x, int64_t block) {
    static const int axes[] = {0, 3, 5, 1, 2, 4};
    if (!ls_check_operands(s, "space_to_depth", 1, &x) || !block_check(s, "space_to_depth", x, block, false)) {
        return NULL;
    }
    int64_t n = x->shape.dim[0].offset, c = x->shape.dim[1].offset;
    int64_t h = x->shape.dim[2].offset / block, w = x->shape.dim[3].offset / block;
    ls_tensor *y = ls_permute(s, ls_reshape(s, x, LS_SHAPE(n, c, h, block, w, block)), axes);
    return ls_reshape(s, y, LS_SHAPE(n, c * block * block, h, w));
}

/* ---- several coordinates ---- */

/* The row of x that each vector along index's last axis names, x's first batch + k axes being the rows and the first `batch`
 * of the index their own coordinates; -1 where one is out of range. */
static ls_tensor *row_index(ls_session *s, const ls_tensor *x, ls_tensor *index, int batch) {
    int last = index->shape.rank - 1;
    int64_t k = index->shape.dim[last].offset;
    ls_shape shape = ls_shape_remove(&index->shape, last);
    ls_tensor *row = i64_scalar(s, 0), *valid = NULL;
    for (int i = 0; row && i < batch; i++) {
        int64_t step = extents_product(&x->shape, i + 1, batch + (int)k);
        row = ls_add(s, row, ls_mul(s, ls_iota(s, LS_I64, shape, i), i64_scalar(s, step)));
    }
    for (int j = 0; row && j < k; j++) {
        int64_t extent = x->shape.dim[batch + j].offset, step = extents_product(&x->shape, batch + j + 1, batch + (int)k);
        ls_tensor *at = ls_cast(s, ls_reshape(s, ls_narrow(s, index, last, j, 1), shape), LS_I64);
        ls_tensor *low = ls_le(s, i64_scalar(s, 0), at), *high = ls_lt(s, at, i64_scalar(s, extent));
        ls_tensor *inside = ls_and(s, low, high);
        valid = valid ? ls_and(s, valid, inside) : inside;
        row = ls_add(s, row, ls_mul(s, at, i64_scalar(s, step)));
    }
    row = valid ? ls_where(s, valid, row, i64_scalar(s, -1)) : row;
    return row ? ls_expand(s, row, shape) : NULL;
}

/* x as rows: its first `axes` axes as one. */
static ls_tensor *as_rows(ls_session *s, ls_tensor *x, int axes) {
    ls_shape shape = {.rank = 1, .dim = {ls_dim_fixed(extents_product(&x->shape, 0, axes))}};
    for (int i = axes; i < x->shape.rank; i++) {
        shape.dim[shape.rank++] = x->shape.dim[i];
    }
    return ls_reshape(s, x, shape);
}

static bool nd_check(ls_session *s, const char *name, const ls_tensor *x, const ls_tensor *index, int batch) {
    if (!fixed_check(s, name, x) || !fixed_check(s, name, index)) {
        return false;
    }
    int rank = index->shape.rank, room = x->shape.rank - batch;
    bool fits = (index->dtype == LS_I32 || index->dtype == LS_I64) && batch >= 0 && rank > batch && room >= 0 &&
                index->shape.dim[rank - 1].offset <= room;
    for (int i = 0; fits && i < batch; i++) {
        fits = ls_dim_equal(x->shape.dim[i], index->shape.dim[i]);
    }
    int64_t k = fits ? index->shape.dim[rank - 1].offset : 0;
    if (fits && k + batch == 0 && x->shape.rank == LS_MAX_RANK) { /* the rows would be a ninth axis */
        fits = false;
    }
    if (!fits) {
        LS_NODE_FAIL(s, LS_ERR_SHAPE,
                     "%s: operand %s at index %s with %d batch axes: expected an i32 or i64 index whose last axis holds coordinates of "
                     "the operand, and equal batch axes",
                     name, LS_TEXT(x), LS_TEXT(index), batch);
    }
    return fits;
}

ls_tensor *ls_gather_nd(ls_session *s, ls_tensor *x, ls_tensor *index, int batch) {
    if (!ls_check_operands(s, "gather_nd", 2, (ls_tensor *[]){x, index}) || !nd_check(s, "gather_nd", x, index, batch)) {
        return NULL;
    }
    int k = (int)index->shape.dim[index->shape.rank - 1].offset;
    ls_tensor *rows = as_rows(s, x, batch + k);
    return ls_gather(s, rows, row_index(s, x, index, batch), 0);
}

ls_tensor *ls_scatter_nd(ls_session *s, ls_tensor *base, ls_tensor *index, ls_tensor *updates, ls_scatter_kind kind) {
    if (!ls_check_operands(s, "scatter_nd", 3, (ls_tensor *[]){base, index, updates}) ||
        !nd_check(s, "scatter_nd", base, index, 0)) {
        return NULL;
    }
    int k = (int)index->shape.dim[index->shape.rank - 1].offset;
    ls_tensor *rows = as_rows(s, base, k);
    ls_tensor *y = ls_scatter(s, rows, row_index(s, base, index, 0), updates, 0, kind);
    return y ? ls_reshape(s, y, base->shape) : NULL;
}

ls_tensor *ls_put_along(ls_session *s, ls_tensor *base, ls_tensor *index, ls_tensor *updates, int axis,
                        ls_scatter_kind kind) {
    if (!ls_check_operands(s, "put_along", 3, (ls_tensor *[]){base, index, updates}) ||
        !ls_axis_check(s, "put_along", base, axis, &axis) || !fixed_check(s, "put_along", base) ||
        !fixed_check(s, "put_along", index)) {
        return NULL;
    }
    bool fits = (index->dtype == LS_I32 || index->dtype == LS_I64) && index->shape.rank == base->shape.rank &&
                ls_shape_equal(&index->shape, &updates->shape);
    for (int i = 0; fits && i < base->shape.rank; i++) {
        fits = i == axis || index->shape.dim[i].offset <= base->shape.dim[i].offset;
    }
    if (!fits) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE,
                            "put_along: base %s, index %s, updates %s: expected an i32 or i64 index and updates of one shape, "
                            "no larger than the base on axes other than %d",
                            LS_TEXT(base), LS_TEXT(index), LS_TEXT(updates), axis);
    }
    ls_tensor *at = ls_reshape(s, ls_linear_index(s, base, index, axis), LS_SHAPE(-1));
    ls_tensor *flat = ls_reshape(s, base, LS_SHAPE(-1)), *line = ls_reshape(s, updates, LS_SHAPE(-1));
    ls_tensor *y = ls_scatter(s, flat, at, line, 0, kind);
    return y ? ls_reshape(s, y, base->shape) : NULL;
}
