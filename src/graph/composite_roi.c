/* Regions of interest of images [N,C,H,W]: bilinear samples, and the largest pixels. */
#include "graph/build.h"
#include <inttypes.h>

static ls_tensor *number(ls_session *s, const ls_tensor *like, double value) {
    return ls_full(s, like->dtype, LS_SCALAR, value);
}

static ls_tensor *add_number(ls_session *s, ls_tensor *x, double value) {
    return x ? ls_add(s, x, number(s, x, value)) : NULL;
}

static ls_tensor *mul_number(ls_session *s, ls_tensor *x, double value) {
    return x ? ls_mul(s, x, number(s, x, value)) : NULL;
}

static ls_tensor *i64_scalar(ls_session *s, int64_t value) {
    return ls_full_i64(s, LS_I64, LS_SCALAR, value);
}

static bool roi_check(ls_session *s, const char *name, const ls_tensor *x, const ls_tensor *rois, const ls_tensor *batch,
                      int64_t height, int64_t width) {
    bool fits = x->shape.rank == 4 && rois->shape.rank == 2 && batch->shape.rank == 1 && ls_shape_is_fixed(&x->shape) &&
                ls_shape_is_fixed(&rois->shape) && ls_dim_equal(rois->shape.dim[1], ls_dim_fixed(4)) &&
                ls_dim_equal(rois->shape.dim[0], batch->shape.dim[0]) && batch->dtype == LS_I64 && x->dtype == rois->dtype &&
                ls_dtype_is_float(x->dtype) && x->shape.dim[2].offset > 0 && x->shape.dim[3].offset > 0 && height > 0 && width > 0 &&
                height <= 1 << 24 && width <= 1 << 24;
    if (!fits) {
        LS_NODE_FAIL(s, LS_ERR_SHAPE,
                     "%s: operand is %s, regions %s of images %s, to %" PRId64 " by %" PRId64 ": expected floats [N,C,H,W] and [K,4], i64 "
                     "[K], and sizes above 0",
                     name, LS_TEXT(x), LS_TEXT(rois), LS_TEXT(batch), height, width);
    }
    return fits;
}

/* Column `at` of rois[K,4]: [K]. */
static ls_tensor *column(ls_session *s, ls_tensor *rois, int at) {
    return ls_squeeze(s, ls_narrow(s, rois, 1, at, 1), 1);
}

/* ---- bilinear samples ---- */

/* Along one axis of n pixels: of each region, bin and sample the two neighbours' indices and weights, [K,bins,samples,2], whether
 * the sample is one, [K,bins,samples], and how many there are, [K,1]. */
typedef struct axis_samples {
    ls_tensor *index, *weight, *is_one, *count;
} axis_samples;

static bool axis_sample(ls_session *s, const ls_roi_spec *spec, ls_tensor *first, ls_tensor *last, int64_t n, int64_t bins,
                        axis_samples *out) {
    double shift = spec->half_pixel ? -0.5 : 0;
    int64_t k = first->shape.dim[0].offset, most = spec->samples;
    ls_tensor *start = add_number(s, mul_number(s, first, spec->scale), shift);
    ls_tensor *end = add_number(s, mul_number(s, last, spec->scale), shift);
    ls_tensor *length = ls_sub(s, end, start);
    if (length && !spec->half_pixel) {
        length = ls_max(s, length, number(s, length, 1));
    }
    ls_tensor *bin = length ? ls_div(s, length, number(s, length, (double)bins)) : NULL;
    if (!bin) {
        return false;
    }
    ls_tensor *count = ls_full(s, bin->dtype, bin->shape, (double)most);
    if (spec->adaptive) {
        count = ls_max(s, ls_min(s, ls_ceil(s, bin), count), number(s, bin, 0));
    }
    ls_shape all = LS_SHAPE(k, bins, most), one = LS_SHAPE(k, 1, 1);
    ls_tensor *which = ls_iota(s, bin->dtype, all, 2), *wide_bin = ls_reshape(s, bin, one), *wide_count = ls_reshape(s, count, one);
    ls_tensor *part = ls_div(s, ls_mul(s, add_number(s, which, 0.5), wide_bin), wide_count);
    ls_tensor *at = ls_add(s, ls_reshape(s, start, one), ls_mul(s, ls_iota(s, bin->dtype, all, 1), wide_bin));
    ls_tensor *y = ls_add(s, at, part);
    if (!y) {
        return false;
    }
    ls_tensor *is_one = ls_lt(s, which, wide_count);
    ls_tensor *low_in = ls_le(s, number(s, y, -1), y), *high_in = ls_le(s, y, number(s, y, (double)n));
    ls_tensor *inside = ls_and(s, ls_and(s, low_in, high_in), is_one);
    y = ls_min(s, ls_max(s, y, number(s, y, 0)), number(s, y, (double)(n - 1)));
    y = y ? ls_where(s, inside, y, number(s, y, 0)) : NULL; /* no NaN of a region without samples */
    ls_tensor *low = ls_floor(s, y), *rest = ls_sub(s, y, low);
    ls_tensor *left = ls_cast(s, low, LS_I64), *right = ls_min(s, ls_add(s, left, i64_scalar(s, 1)), i64_scalar(s, n - 1));
    if (!rest || !right) {
        return false;
    }
    ls_tensor *w[] = {ls_sub(s, number(s, rest, 1), rest), rest}, *i[] = {left, right};
    ls_tensor *weight = ls_stack(s, w, 2, -1);
    out->weight = weight ? ls_where(s, ls_unsqueeze(s, inside, -1), weight, number(s, weight, 0)) : NULL;
    out->index = ls_stack(s, i, 2, -1);
    out->is_one = is_one;
    out->count = ls_reshape(s, count, LS_SHAPE(k, 1));
    return out->weight && out->index && out->is_one && out->count;
}

/* [K,bins,samples,2] as [K,all], then with a new axis before or behind. */
static ls_tensor *spread(ls_session *s, ls_tensor *x, bool rows, int behind) {
    if (!x) {
        return NULL;
    }
    int64_t k = x->shape.dim[0].offset;
    int64_t n = ls_shape_numel(&x->shape, NULL) / (k ? k : 1);
    ls_shape shape = rows ? LS_SHAPE(k, n, 1, 1) : LS_SHAPE(k, 1, n, 1);
    shape.rank -= !behind;
    return ls_reshape(s, x, shape);
}

ls_tensor *ls_roi_align(ls_session *s, ls_tensor *x, ls_tensor *rois, ls_tensor *batch, const ls_roi_spec *spec) {
    if (!ls_check_operands(s, "roi_align", 3, (ls_tensor *[]){x, rois, batch}) || !ls_check_given(s, "roi_align", "spec", spec) ||
        !roi_check(s, "roi_align", x, rois, batch, spec->height, spec->width)) {
        return NULL;
    }
    int64_t n = x->shape.dim[0].offset, c = x->shape.dim[1].offset, h = x->shape.dim[2].offset, w = x->shape.dim[3].offset;
    int64_t k = rois->shape.dim[0].offset, most = spec->samples, oh = spec->height, ow = spec->width;
    if (most > 1 << 16) {
        return LS_NODE_FAIL(s, LS_ERR_UNSUPPORTED, "roi_align: %" PRId64 " samples a bin: expected at most 65536", most);
    }
    if (most < 1 || k == 0) {
        return ls_full(s, x->dtype, LS_SHAPE(k, c, oh, ow), 0);
    }
    ls_dtype wide = ls_dtype_compute(x->dtype);
    ls_tensor *boxes = ls_cast(s, rois, wide), *edge[4];
    for (int i = 0; i < 4; i++) {
        edge[i] = boxes ? column(s, boxes, i) : NULL;
        if (!edge[i]) {
            return NULL;
        }
    }
    axis_samples v, u;
    if (!axis_sample(s, spec, edge[1], edge[3], h, oh, &v) || !axis_sample(s, spec, edge[0], edge[2], w, ow, &u)) {
        return NULL;
    }
    static const int last[] = {0, 2, 3, 1}, back[] = {0, 3, 1, 2};
    ls_tensor *rows = ls_cast(s, ls_reshape(s, ls_permute(s, x, last), LS_SHAPE(n * h * w, c)), wide);
    ls_tensor *first = ls_mul(s, ls_reshape(s, batch, LS_SHAPE(k, 1, 1)), i64_scalar(s, h * w));
    ls_tensor *line = ls_mul(s, spread(s, v.index, true, 0), i64_scalar(s, w));
    ls_tensor *at = ls_add(s, ls_add(s, first, line), spread(s, u.index, false, 0));
    ls_tensor *weight = ls_mul(s, spread(s, v.weight, true, 1), spread(s, u.weight, false, 1));
    ls_tensor *y = ls_mul(s, ls_gather(s, rows, at, 0), weight); /* [K, oh*most*2, ow*most*2, C] */
    y = y ? ls_reshape(s, y, LS_SHAPE(k, oh, most * 2, ow, most * 2, c)) : NULL;
    if (y && spec->max) {
        ls_shape two = LS_SHAPE(k, oh, most, 2), two_w = LS_SHAPE(k, ow, most, 2);
        ls_tensor *row = ls_reshape(s, ls_expand(s, ls_unsqueeze(s, v.is_one, -1), two), LS_SHAPE(k, oh, most * 2, 1, 1, 1));
        ls_tensor *col = ls_reshape(s, ls_expand(s, ls_unsqueeze(s, u.is_one, -1), two_w), LS_SHAPE(k, 1, 1, ow, most * 2, 1));
        y = ls_where(s, ls_and(s, row, col), y, number(s, y, -__builtin_inf()));
        y = ls_amax(s, y, 2, (int[]){2, 4}, 0);
        y = y ? ls_where(s, ls_eq(s, y, number(s, y, -__builtin_inf())), number(s, y, 0), y) : NULL;
    } else if (y) {
        ls_tensor *count = ls_mul(s, v.count, u.count);
        count = count ? ls_reshape(s, ls_max(s, count, number(s, count, 1)), LS_SHAPE(k, 1, 1, 1)) : NULL;
        y = ls_div(s, ls_sum(s, y, 2, (int[]){2, 4}, 0), count);
    }
    return y ? ls_cast(s, ls_permute(s, y, back), x->dtype) : NULL;
}

/* ---- the largest pixels ---- */

/* Which of n pixels belong to each bin along an axis: bool [K,bins,n]. */
static ls_tensor *bin_pixels(ls_session *s, ls_tensor *first, ls_tensor *last, double scale, int64_t n, int64_t bins) {
    int64_t k = first->shape.dim[0].offset;
    ls_tensor *start = ls_floor(s, add_number(s, mul_number(s, first, scale), 0.5)); /* half away from zero, as these are not negative */
    ls_tensor *end = ls_floor(s, add_number(s, mul_number(s, last, scale), 0.5));
    ls_tensor *length = add_number(s, ls_sub(s, end, start), 1);
    length = length ? ls_max(s, length, number(s, length, 1)) : NULL;
    if (!length) {
        return NULL;
    }
    ls_tensor *bin = ls_reshape(s, ls_div(s, length, number(s, length, (double)bins)), LS_SHAPE(k, 1, 1));
    ls_shape shape = LS_SHAPE(k, bins, 1), all = LS_SHAPE(k, bins, n);
    ls_tensor *which = ls_iota(s, length->dtype, shape, 1), *from = ls_reshape(s, start, LS_SHAPE(k, 1, 1));
    ls_tensor *low = ls_add(s, ls_floor(s, ls_mul(s, which, bin)), from);
    ls_tensor *high = ls_add(s, ls_ceil(s, ls_mul(s, add_number(s, which, 1), bin)), from);
    ls_tensor *at = ls_iota(s, length->dtype, all, 2);
    return ls_and(s, ls_le(s, low, at), ls_lt(s, at, high));
}

ls_tensor *ls_roi_max_pool(ls_session *s, ls_tensor *x, ls_tensor *rois, ls_tensor *batch, int64_t height, int64_t width,
                           double scale) {
    if (!ls_check_operands(s, "roi_max_pool", 3, (ls_tensor *[]){x, rois, batch}) ||
        !roi_check(s, "roi_max_pool", x, rois, batch, height, width)) {
        return NULL;
    }
    int64_t c = x->shape.dim[1].offset, h = x->shape.dim[2].offset, w = x->shape.dim[3].offset, k = rois->shape.dim[0].offset;
    ls_tensor *boxes = ls_cast(s, rois, ls_dtype_compute(rois->dtype)), *edge[4];
    for (int i = 0; i < 4; i++) {
        edge[i] = boxes ? column(s, boxes, i) : NULL;
        if (!edge[i]) {
            return NULL;
        }
    }
    ls_tensor *rows = bin_pixels(s, edge[1], edge[3], scale, h, height), *cols = bin_pixels(s, edge[0], edge[2], scale, w, width);
    ls_tensor *images = ls_gather(s, x, batch, 0), *least = number(s, x, -__builtin_inf());
    if (!rows || !cols || !images) {
        return NULL;
    }
    ls_tensor *y = ls_reshape(s, images, LS_SHAPE(k, c, 1, h, w));
    y = ls_where(s, ls_reshape(s, rows, LS_SHAPE(k, 1, height, h, 1)), y, least);
    y = ls_amax(s, y, 1, (int[]){3}, 0); /* [K,C,height,W] */
    y = y ? ls_reshape(s, y, LS_SHAPE(k, c, height, 1, w)) : NULL;
    y = y ? ls_where(s, ls_reshape(s, cols, LS_SHAPE(k, 1, 1, width, w)), y, least) : NULL;
    y = y ? ls_amax(s, y, 1, (int[]){4}, 0) : NULL;
    return y ? ls_where(s, ls_eq(s, y, least), number(s, y, 0), y) : NULL;
}
