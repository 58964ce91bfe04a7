/* Pooling, im2col and col2im. */
#include "graph/conv_geometry.h"
#include <inttypes.h>
#include <string.h>

/* ---- pooling ---- */

static bool pool_check(ls_session *s, const char *name, ls_tensor *x, const int64_t *kernel,
                       const ls_conv_spec *spec, ls_geometry *g, ls_tensor **out_canonical) {
    if (!ls_check_operands(s, name, 1, &x) || !ls_geometry_read(s, name, spec, x, false, g)) {
        return false;
    }
    *out_canonical = ls_to_canonical(s, g, x);
    return *out_canonical && ls_geometry_fit(s, g, *out_canonical, kernel);
}

/* The window axes of [N,C,positions...,kernel...]. */
static const int *kernel_axes(int d) {
    static const int axes[LS_MAX_SPATIAL + 1][LS_MAX_SPATIAL] = {{0, 0, 0}, {3, 0, 0}, {4, 5, 0}, {5, 6, 7}};
    return axes[d];
}

ls_tensor *ls_max_pool(ls_session *s, ls_tensor *x, const int64_t *kernel, const ls_conv_spec *spec) {
    ls_geometry g;
    ls_tensor *c;
    if (!pool_check(s, "max_pool", x, kernel, spec, &g, &c)) {
        return NULL;
    }
    ls_tensor *y = ls_amax(s, ls_patches(s, &g, c, true), g.d, kernel_axes(g.d), 0);
    return y ? ls_from_canonical(s, &g, y) : NULL;
}

/* How many real elements each window holds: a scalar, or [1,1,positions...]. */
static ls_tensor *window_counts(ls_session *s, const ls_geometry *g, const ls_tensor *c, ls_dtype dtype,
                                bool all) {
    int64_t n = 1;
    for (int i = 0; i < g->d; i++) {
        n *= g->kernel[i];
    }
    bool padded = false;
    for (int i = 0; i < g->d; i++) {
        padded |= g->low[i] > 0 || g->high[i] > 0;
    }
    if (all || !padded) {
        ls_shape scalar = LS_SCALAR;
        return ls_full_i64(s, dtype, scalar, n);
    }
    ls_shape image = c->shape;
    image.dim[0] = image.dim[1] = ls_dim_fixed(1);
    return ls_sum(s, ls_patches(s, g, ls_full_beside(s, c, dtype, &image, 1), true), g->d, kernel_axes(g->d), 0);
}

ls_tensor *ls_avg_pool(ls_session *s, ls_tensor *x, const int64_t *kernel, const ls_conv_spec *spec,
                       int count_pad) {
    ls_geometry g;
    ls_tensor *c;
    if (!pool_check(s, "avg_pool", x, kernel, spec, &g, &c) || !ls_check_float(s, "avg_pool", x)) {
        return NULL;
    }
    ls_dtype wide = ls_dtype_compute(x->dtype);
    ls_tensor *total = ls_sum(s, ls_patches(s, &g, ls_cast(s, c, wide), true), g.d, kernel_axes(g.d), 0);
    ls_tensor *y = ls_cast(s, ls_div(s, total, window_counts(s, &g, c, wide, count_pad)), x->dtype);
    return y ? ls_from_canonical(s, &g, y) : NULL;
}

ls_tensor *ls_lp_pool(ls_session *s, ls_tensor *x, const int64_t *kernel, const ls_conv_spec *spec,
                      double p) {
    ls_geometry g;
    ls_tensor *c;
    if (!pool_check(s, "lp_pool", x, kernel, spec, &g, &c) || !ls_check_float(s, "lp_pool", x)) {
        return NULL;
    }
    if (!(p > 0)) {
        return LS_NODE_FAIL(s, LS_ERR_INVALID, "lp_pool: p %g of %s: expected more than 0", p, LS_TEXT(x));
    }
    ls_tensor *w = ls_cast(s, c, ls_dtype_compute(x->dtype));
    if (!w) {
        return NULL;
    }
    ls_tensor *power = p == 2 ? ls_mul(s, w, w) : ls_abs(s, w);
    power = p == 1 || p == 2 ? power : ls_pow(s, power, ls_const_like(s, w, p));
    ls_tensor *y = ls_sum(s, ls_patches(s, &g, power, true), g.d, kernel_axes(g.d), 0);
    if (y && p == 2) {
        y = ls_sqrt(s, y);
    } else if (y && p != 1) {
        y = ls_pow(s, y, ls_div(s, ls_const_like(s, y, 1), ls_const_like(s, y, p)));
    }
    y = y ? ls_cast(s, y, x->dtype) : NULL;
    return y ? ls_from_canonical(s, &g, y) : NULL;
}

static ls_tensor *i64_scalar(ls_session *s, int64_t value) {
    return ls_full_i64(s, LS_I64, (ls_shape){.rank = 0}, value);
}

/* sum + (position on `axis`) * step */
static ls_tensor *plus_position(ls_session *s, ls_tensor *sum, int axis, int64_t step) {
    return sum ? ls_add(s, sum, ls_mul(s, ls_iota(s, LS_I64, sum->shape, axis), i64_scalar(s, step))) : NULL;
}

ls_tensor *ls_max_pool_indices(ls_session *s, ls_tensor *x, const int64_t *kernel, const ls_conv_spec *spec,
                               int column_major) {
    ls_geometry g;
    ls_tensor *c;
    if (!pool_check(s, "max_pool_indices", x, kernel, spec, &g, &c)) {
        return NULL;
    }
    if (spec->axes.set || !ls_shape_is_fixed(&x->shape)) {
        return LS_NODE_FAIL(s, LS_ERR_UNSUPPORTED,
                            "max_pool_indices: operand is %s: expected fixed extents and the default axes",
                            LS_TEXT(x));
    }
    ls_tensor *tap = ls_argmax(s, ls_patches(s, &g, c, true), g.d, kernel_axes(g.d), 0);
    int64_t image = 1, step = 1, strides[LS_MAX_SPATIAL];
    for (int i = 0; i < g.d; i++) {
        int axis = column_major ? i : g.d - 1 - i;
        strides[axis] = image;
        image *= x->shape.dim[2 + axis].offset;
    }
    if (!tap) {
        return NULL;
    }
    ls_tensor *y = ls_mul(s, tap, i64_scalar(s, 0));
    y = plus_position(s, plus_position(s, y, 0, x->shape.dim[1].offset * image), 1, image);
    for (int i = g.d; y && i-- > 0; step *= g.kernel[i]) {
        ls_tensor *offset = ls_rem(s, ls_div(s, tap, i64_scalar(s, step)), i64_scalar(s, g.kernel[i]));
        offset = ls_sub(s, ls_mul(s, offset, i64_scalar(s, g.dilation[i])), i64_scalar(s, g.low[i]));
        y = ls_add(s, y, ls_mul(s, offset, i64_scalar(s, strides[i])));
        y = plus_position(s, y, 2 + i, g.stride[i] * strides[i]);
    }
    return y;
}

ls_tensor *ls_max_unpool(ls_session *s, ls_tensor *x, ls_tensor *index, ls_shape shape) {
    ls_shape line = {.rank = 1, .dim = {ls_dim_fixed(-1)}};
    if (!ls_check_operands(s, "max_unpool", 2, (ls_tensor *[]){x, index}) ||
        !ls_shape_check(s, "max_unpool", &shape)) {
        return NULL;
    }
    if (!ls_shape_equal(&x->shape, &index->shape) || !ls_shape_is_fixed(&shape)) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE,
                            "max_unpool: operands are %s and %s: expected equal shapes, and a fixed result",
                            LS_TEXT(x), LS_TEXT(index));
    }
    ls_shape flat = {.rank = 1, .dim = {ls_dim_fixed(ls_shape_numel(&shape, NULL))}};
    ls_tensor *y = ls_scatter(s, ls_full(s, x->dtype, flat, 0), ls_reshape(s, index, line),
                              ls_reshape(s, x, line), 0, LS_SCATTER_SET);
    return y ? ls_reshape(s, y, shape) : NULL;
}

/* ---- im2col and col2im ---- */

static bool patch_check(ls_session *s, const char *name, const ls_tensor *x, const ls_conv_spec *spec,
                        ls_geometry *g) {
    if (spec && spec->axes.set) {
        LS_NODE_FAIL(s, LS_ERR_UNSUPPORTED,
                     "%s: axes are given: expected the default [N,C,spatial...] (permute the operand)", name);
        return false;
    }
    return ls_geometry_read(s, name, spec, x, false, g);
}

ls_tensor *ls_im2col(ls_session *s, ls_tensor *x, const int64_t *kernel, const ls_conv_spec *spec) {
    ls_geometry g;
    if (!ls_check_operands(s, "im2col", 1, &x) || !patch_check(s, "im2col", x, spec, &g) ||
        !ls_geometry_fit(s, &g, x, kernel)) {
        return NULL;
    }
    ls_tensor *v = ls_patches(s, &g, x, false);
    int axes[LS_MAX_RANK] = {0, 1};
    ls_shape rows = {.rank = 1}, positions = {.rank = 0}, hole = LS_SHAPE(-1);
    if (!v) {
        return NULL;
    }
    rows.dim[0] = x->shape.dim[1];
    for (int i = 0; i < g.d; i++) {
        axes[2 + i] = 2 + g.d + i;
        axes[2 + g.d + i] = 2 + i;
        rows.dim[rows.rank++] = ls_dim_fixed(kernel[i]);
        positions.dim[positions.rank++] = v->shape.dim[2 + i];
    }
    ls_shape merged = {.rank = 3, .dim = {x->shape.dim[0]}}, part = hole;
    if (!ls_shape_infer(&rows, &part)) {
        return LS_NODE_FAIL(s, LS_ERR_UNSUPPORTED, "im2col: operand is %s: expected fixed channels",
                            LS_TEXT(x));
    }
    merged.dim[1] = part.dim[0];
    part = hole;
    if (!ls_shape_infer(&positions, &part)) {
        return LS_NODE_FAIL(s, LS_ERR_UNSUPPORTED,
                            "im2col: operand is %s: expected at most one spatial symbol", LS_TEXT(x));
    }
    merged.dim[2] = part.dim[0];
    return ls_reshape(s, ls_permute(s, v, axes), merged);
}

/* One tap's column as an image: cols[:, :, tap..., :] put where the window read it from. */
static ls_tensor *tap_image(ls_session *s, const ls_geometry *g, ls_tensor *cols, const int64_t *positions,
                            const int64_t *extents, int64_t tap, const ls_shape *grid) {
    int64_t low[LS_MAX_SPATIAL], high[LS_MAX_SPATIAL], interior[LS_MAX_SPATIAL], rest = tap;
    for (int i = g->d; i-- > 0;) {
        int64_t offset = rest % g->kernel[i] * g->dilation[i];
        rest /= g->kernel[i];
        interior[i] = g->stride[i] - 1;
        low[i] = offset - g->low[i];
        high[i] = extents[i] - low[i] - ((positions[i] - 1) * g->stride[i] + 1);
    }
    ls_tensor *column = ls_narrow(s, cols, 2, tap, 1);
    return column ? ls_pad_spatial(s, ls_reshape(s, column, *grid), g->d, low, high, interior, false) : NULL;
}

ls_tensor *ls_col2im(ls_session *s, ls_tensor *cols, ls_shape image, const int64_t *kernel,
                     const ls_conv_spec *spec) {
    ls_geometry g;
    ls_tensor like = {.dtype = LS_F32, .shape = image}; /* stands for the image in checks and messages */
    if (!ls_check_operands(s, "col2im", 1, &cols) || !ls_shape_check(s, "col2im", &image) ||
        !patch_check(s, "col2im", &like, spec, &g) || !ls_geometry_fit(s, &g, &like, kernel)) {
        return NULL;
    }
    like.dtype = cols->dtype;
    int64_t taps = 1, count = 1, positions[LS_MAX_SPATIAL], extents[LS_MAX_SPATIAL];
    ls_shape grid = {.rank = 2 + g.d, .dim = {image.dim[0], image.dim[1]}};
    for (int i = 0; i < g.d; i++) {
        ls_dim d = image.dim[2 + i];
        extents[i] = d.offset;
        positions[i] =
            (d.offset + g.low[i] + g.high[i] - (kernel[i] - 1) * g.dilation[i] - 1) / g.stride[i] + 1;
        grid.dim[2 + i] = ls_dim_fixed(positions[i]);
        if (!ls_dim_is_fixed(d) || __builtin_mul_overflow(taps, kernel[i], &taps) || __builtin_mul_overflow(count, positions[i], &count)) {
            return LS_NODE_FAIL(s, LS_ERR_UNSUPPORTED, "col2im: image %s: expected fixed spatial extents",
                                LS_TEXT(&like));
        }
    }
    ls_dim rows;
    if (cols->shape.rank != 3 || !ls_dim_affine(image.dim[1], taps, 0, &rows) ||
        !ls_dim_equal(cols->shape.dim[0], image.dim[0]) || !ls_dim_equal(cols->shape.dim[1], rows) ||
        !ls_dim_equal(cols->shape.dim[2], ls_dim_fixed(count))) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE,
                            "col2im: operand is %s for image %s: expected [batch, channels * %" PRId64
                            " taps, %" PRId64 " positions]",
                            LS_TEXT(cols), LS_TEXT(&like), taps, count);
    }
    ls_shape split = {.rank = 4,
                      .dim = {image.dim[0], image.dim[1], ls_dim_fixed(taps), ls_dim_fixed(count)}};
    ls_tensor *by_tap = ls_reshape(s, cols, split), *y = NULL;
    for (int64_t t = 0; by_tap && t < taps; t++) {
        ls_tensor *part = tap_image(s, &g, by_tap, positions, extents, t, &grid);
        y = t ? ls_add(s, y, part) : part;
        if (!y) {
            return NULL;
        }
    }
    return y;
}
