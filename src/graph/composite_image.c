/* Sampling images at places that are values themselves: grids and regions. Every neighbour is gathered from the image laid flat,
 * at an index that is inside of it by construction, and weighted; what lies outside has weight 0. */
#include "graph/build.h"
#include <inttypes.h>

static ls_tensor *i64_scalar(ls_session *s, int64_t value) {
    return ls_full_i64(s, LS_I64, LS_SCALAR, value);
}

static ls_tensor *number(ls_session *s, const ls_tensor *like, double value) {
    return ls_full(s, like->dtype, LS_SCALAR, value);
}

static ls_tensor *add_number(ls_session *s, ls_tensor *x, double value) {
    return x ? ls_add(s, x, number(s, x, value)) : NULL;
}

static ls_tensor *mul_number(ls_session *s, ls_tensor *x, double value) {
    return x ? ls_mul(s, x, number(s, x, value)) : NULL;
}

static ls_tensor *clamp(ls_session *s, ls_tensor *x, double low, double high) {
    return x ? ls_min(s, ls_max(s, x, number(s, x, low)), number(s, x, high)) : NULL;
}

/* x with a new axis for all of `after` more, so that it broadcasts against them. */
static ls_tensor *widen(ls_session *s, ls_tensor *x, int after) {
    for (int i = 0; x && i < after; i++) {
        x = ls_unsqueeze(s, x, -1);
    }
    return x;
}

static bool fixed_check(ls_session *s, const char *name, const ls_tensor *x) {
    if (ls_shape_is_fixed(&x->shape)) {
        return true;
    }
    LS_NODE_FAIL(s, LS_ERR_UNSUPPORTED, "%s: operand is %s: expected fixed extents", name, LS_TEXT(x));
    return false;
}

/* ---- grids ---- */

typedef struct sampler {
    ls_sample_mode mode;
    ls_sample_padding padding;
    bool corners;
} sampler;

/* How far coordinates go: from low to high. */
static void borders(const sampler *p, int64_t n, double *low, double *high) {
    *low = p->corners ? 0 : -0.5;
    *high = (double)n - (p->corners ? 1 : 0.5);
}

/* Places outside folded back in at both borders, over and over. */
static ls_tensor *reflect(ls_session *s, ls_tensor *x, double low, double high) {
    if (high == low) {
        return mul_number(s, x, 0);
    }
    ls_tensor *far = ls_abs(s, add_number(s, x, -low));
    ls_tensor *turns = ls_floor(s, ls_div(s, far, number(s, far, high - low)));
    ls_tensor *rest = ls_sub(s, far, mul_number(s, turns, high - low));
    ls_tensor *half = mul_number(s, turns, 0.5);
    ls_tensor *even = half ? ls_eq(s, half, ls_floor(s, half)) : NULL;
    ls_tensor *there = add_number(s, rest, low), *back = ls_neg(s, add_number(s, rest, -high));
    return even ? ls_where(s, even, there, back) : NULL;
}

/* A coordinate of the grid as a place along an axis of n pixels. */
static ls_tensor *grid_place(ls_session *s, const sampler *p, ls_tensor *g, int64_t n) {
    double low, high;
    borders(p, n, &low, &high);
    ls_tensor *x = add_number(s, g, 1);
    x = p->corners ? mul_number(s, mul_number(s, x, 0.5), (double)n - 1)
                   : mul_number(s, add_number(s, mul_number(s, x, (double)n), -1), 0.5);
    if (x && p->mode == LS_SAMPLE_NEAREST) {
        x = ls_rint(s, x);
    }
    if (!x || p->padding == LS_SAMPLE_ZEROS) {
        return x;
    }
    ls_tensor *moved = p->padding == LS_SAMPLE_BORDER ? clamp(s, x, 0, (double)n - 1) : reflect(s, x, low, high);
    ls_tensor *in_low = ls_le(s, number(s, x, low), x), *in_high = ls_le(s, x, number(s, x, high));
    ls_tensor *in = ls_and(s, in_low, in_high);
    return moved ? ls_where(s, in, x, moved) : NULL;
}

/* i into 0 .. n - 1; *valid becomes false where padding with zeros leaves nothing. */
static ls_tensor *pad_place(ls_session *s, const sampler *p, ls_tensor *i, int64_t n, ls_tensor **valid) {
    ls_tensor *zero = i64_scalar(s, 0), *last = i64_scalar(s, n - 1);
    if (p->padding == LS_SAMPLE_REFLECTION) {
        int64_t period = p->corners ? (n > 1 ? 2 * (n - 1) : 1) : 2 * n, turn = p->corners ? 2 * (n - 1) : 2 * n - 1;
        ls_tensor *span = i64_scalar(s, period);
        ls_tensor *r = ls_rem(s, ls_add(s, ls_rem(s, i, span), span), span);
        return ls_min(s, r, ls_sub(s, i64_scalar(s, turn), r));
    }
    ls_tensor *inside = ls_max(s, ls_min(s, i, last), zero);
    if (p->padding == LS_SAMPLE_ZEROS) {
        ls_tensor *in = ls_eq(s, inside, i);
        *valid = *valid ? ls_and(s, *valid, in) : in;
    }
    return inside;
}

/* Weights of the kernel at some distances. */
static ls_tensor *kernel(ls_session *s, const sampler *p, ls_tensor *distance) {
    const double a = -0.75;
    ls_tensor *d = distance ? ls_abs(s, distance) : NULL;
    if (!d || p->mode == LS_SAMPLE_LINEAR) {
        return d ? ls_sub(s, number(s, d, 1), d) : NULL;
    }
    ls_tensor *near = add_number(s, mul_number(s, d, a + 2), -(a + 3));
    near = add_number(s, ls_mul(s, ls_mul(s, near, d), d), 1);
    ls_tensor *far = add_number(s, mul_number(s, d, a), -5 * a);
    far = add_number(s, ls_mul(s, far, d), 8 * a);
    far = add_number(s, ls_mul(s, far, d), -4 * a);
    return near && far ? ls_where(s, ls_le(s, d, number(s, d, 1)), near, far) : NULL;
}

/* Indices into the image laid flat, weights (NULL: 1) and validity (NULL: all) of every neighbour, [N,places,neighbours]. */
typedef struct neighbours {
    ls_tensor *index, *weight, *valid;
    int64_t count;
} neighbours;

static bool find_neighbours(ls_session *s, const sampler *p, ls_tensor *grid, const int64_t *size, int d, neighbours *out) {
    int taps = p->mode == LS_SAMPLE_NEAREST ? 1 : p->mode == LS_SAMPLE_LINEAR ? 2 : 4;
    ls_tensor *step = ls_add(s, ls_iota(s, LS_I64, LS_SHAPE(taps), 0), i64_scalar(s, taps == 4 ? -1 : 0));
    *out = (neighbours){.count = 1};
    for (int i = 0; i < d && step; i++) { /* [N,places] gains an axis of taps each time */
        ls_tensor *g = ls_squeeze(s, ls_narrow(s, grid, 2, d - 1 - i, 1), 2);
        ls_tensor *x = grid_place(s, p, g, size[i]);
        if (!x) {
            return false;
        }
        ls_tensor *base = ls_floor(s, x), *ratio = widen(s, ls_sub(s, x, base), 1), *valid = NULL, *weight = NULL;
        ls_tensor *at = ls_add(s, widen(s, ls_cast(s, base, LS_I64), 1), step);
        at = at ? pad_place(s, p, at, size[i], &valid) : NULL;
        if (taps > 1 && ratio) {
            weight = kernel(s, p, ls_sub(s, ratio, ls_cast(s, step, ratio->dtype)));
        }
        if (i == 0) {
            out->index = at;
            out->weight = weight;
            out->valid = valid;
        } else if (at) {
            ls_shape one = at->shape; /* [N,places,1..,taps] */
            one.dim[one.rank++] = one.dim[2];
            one.dim[2] = ls_dim_fixed(1);
            ls_tensor *rows = ls_mul(s, widen(s, out->index, 1), i64_scalar(s, size[i]));
            out->index = ls_add(s, rows, ls_reshape(s, at, one));
            out->weight = weight ? ls_mul(s, widen(s, out->weight, 1), ls_reshape(s, weight, one)) : NULL;
            out->valid = valid ? ls_and(s, widen(s, out->valid, 1), ls_reshape(s, valid, one)) : NULL;
        }
        out->count *= taps;
        ls_tensor **all[] = {&out->index, &out->weight, &out->valid};
        for (int k = 0; k < 3 && at; k++) {
            ls_shape flat = {.rank = 3, .dim = {at->shape.dim[0], at->shape.dim[1], ls_dim_fixed(out->count)}};
            *all[k] = *all[k] ? ls_reshape(s, *all[k], flat) : NULL;
        }
        if (!out->index || (taps > 1 && !out->weight) || (p->padding == LS_SAMPLE_ZEROS && !out->valid)) {
            return false;
        }
    }
    return step != NULL;
}

static bool grid_check(ls_session *s, const ls_tensor *x, const ls_tensor *grid) {
    if (!fixed_check(s, "grid_sample", x) || !fixed_check(s, "grid_sample", grid)) {
        return false;
    }
    int d = x->shape.rank - 2;
    bool fits = d >= 1 && d <= 3 && grid->shape.rank == d + 2 && ls_dim_equal(grid->shape.dim[d + 1], ls_dim_fixed(d)) &&
                ls_dim_equal(x->shape.dim[0], grid->shape.dim[0]) && ls_dtype_is_float(grid->dtype);
    for (int i = 0; fits && i < d; i++) {
        fits = x->shape.dim[2 + i].offset > 0;
    }
    if (!fits) {
        LS_NODE_FAIL(s, LS_ERR_SHAPE,
                     "grid_sample: operand is %s and grid %s: expected [N,C,spatial...] of 1 to 3 axes that have elements, and floats "
                     "[N,positions...,d]",
                     LS_TEXT(x), LS_TEXT(grid));
    }
    return fits;
}

ls_tensor *ls_grid_sample(ls_session *s, ls_tensor *x, ls_tensor *grid, ls_sample_mode mode, ls_sample_padding padding,
                          int align_corners) {
    if (!ls_check_operands(s, "grid_sample", 2, (ls_tensor *[]){x, grid}) || !grid_check(s, x, grid)) {
        return NULL;
    }
    sampler p = {mode, padding, align_corners != 0};
    int d = x->shape.rank - 2;
    int64_t n = x->shape.dim[0].offset, c = x->shape.dim[1].offset, pixels = 1, places = 1, size[LS_MAX_SPATIAL];
    ls_shape shape = {.rank = d + 2, .dim = {x->shape.dim[0], x->shape.dim[1]}};
    for (int i = 0; i < d; i++) {
        size[i] = x->shape.dim[2 + i].offset;
        pixels *= size[i];
        shape.dim[2 + i] = grid->shape.dim[1 + i];
        places *= shape.dim[2 + i].offset;
    }
    bool moves = mode == LS_SAMPLE_NEAREST;
    ls_dtype wide = moves ? x->dtype : ls_dtype_is_float(x->dtype) ? ls_dtype_compute(x->dtype) : LS_F32;
    ls_tensor *flat = ls_reshape(s, grid, LS_SHAPE(n, places, d));
    neighbours near;
    flat = flat ? ls_cast(s, flat, ls_dtype_compute(grid->dtype)) : NULL;
    if (!flat || !find_neighbours(s, &p, flat, size, d, &near)) {
        return NULL;
    }
    ls_shape each = LS_SHAPE(n, c, places * near.count), split = LS_SHAPE(n, c, places, near.count);
    ls_tensor *index = ls_expand(s, ls_reshape(s, near.index, LS_SHAPE(n, 1, places * near.count)), each);
    ls_tensor *image = ls_cast(s, ls_reshape(s, x, LS_SHAPE(n, c, pixels)), wide);
    ls_tensor *y = ls_reshape(s, ls_take_along(s, image, index, 2), split);
    if (y && near.valid) {
        y = ls_where(s, ls_unsqueeze(s, near.valid, 1), y, number(s, y, 0));
    }
    if (y && near.weight) {
        y = ls_mul(s, y, ls_cast(s, ls_unsqueeze(s, near.weight, 1), wide));
    }
    y = moves ? y : ls_sum(s, y, 1, (int[]){3}, 0);
    return y ? ls_cast(s, ls_reshape(s, y, shape), x->dtype) : NULL;
}

ls_tensor *ls_affine_grid(ls_session *s, ls_tensor *theta, const int64_t *size, int align_corners) {
    if (!ls_check_operands(s, "affine_grid", 1, &theta) || !ls_check_float(s, "affine_grid", theta)) {
        return NULL;
    }
    int d = theta->shape.rank == 3 && ls_dim_is_fixed(theta->shape.dim[1]) ? (int)theta->shape.dim[1].offset : 0;
    if (d < 2 || d > 3 || !ls_dim_equal(theta->shape.dim[2], ls_dim_fixed(d + 1))) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE, "affine_grid: theta is %s: expected [N,2,3] or [N,3,4]", LS_TEXT(theta));
    }
    ls_dtype wide = ls_dtype_compute(theta->dtype);
    ls_shape image = {.rank = d}, result = {.rank = d + 2, .dim = {theta->shape.dim[0]}};
    for (int i = 0; i < d; i++) {
        image.dim[i] = result.dim[1 + i] = ls_dim_fixed(size[i]);
    }
    result.dim[d + 1] = ls_dim_fixed(d);
    if (!ls_shape_check(s, "affine_grid", &image)) {
        return NULL;
    }
    ls_tensor *rows[LS_MAX_SPATIAL + 1];
    int64_t places = 1;
    for (int i = 0; i < d; i++) { /* the last axis first: (2 i + 1 - n) / n, or (2 i - (n - 1)) / (n - 1) */
        int axis = d - 1 - i;
        int64_t n = size[axis], span = align_corners ? (n > 1 ? n - 1 : 1) : n;
        ls_tensor *at = ls_iota(s, LS_I64, image, axis);
        at = ls_add(s, ls_mul(s, at, i64_scalar(s, 2)), i64_scalar(s, 1 - n));
        at = at ? ls_cast(s, at, wide) : NULL;
        rows[i] = at ? ls_reshape(s, ls_div(s, at, number(s, at, (double)span)), LS_SHAPE(-1)) : NULL;
        if (!rows[i]) {
            return NULL;
        }
        places *= n;
    }
    rows[d] = ls_full(s, wide, LS_SHAPE(places), 1);
    ls_tensor *y = ls_matmul(s, ls_cast(s, theta, wide), ls_stack(s, rows, d + 1, 0));
    y = y ? ls_transpose(s, y, 1, 2) : NULL;
    return y ? ls_cast(s, ls_reshape(s, y, result), theta->dtype) : NULL;
}
