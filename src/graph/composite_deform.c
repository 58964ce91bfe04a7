/* Deformable convolution: bilinear reads, by gather, of every tap of every window, then one convolution over
 * [taps, positions]. */
#include "graph/conv_geometry.h"
#include <inttypes.h>

/* What the steps share. Coordinates are [N, parts, taps, positions], in the compute dtype. */
typedef struct deform {
    int d;
    int64_t batch, channels, parts, taps, positions, image;
    int64_t extent[LS_MAX_SPATIAL], count[LS_MAX_SPATIAL];
    ls_dtype wide;
    ls_tensor *x;                     /* [N, parts, C/parts, image] */
    ls_tensor *whole[LS_MAX_SPATIAL]; /* the element below a coordinate */
    ls_tensor *part[LS_MAX_SPATIAL];  /* how far beyond it */
} deform;

static ls_tensor *scalar(ls_session *s, ls_dtype dtype, double value) {
    return ls_full(s, dtype, (ls_shape){.rank = 0}, value);
}

static ls_tensor *shaped(ls_session *s, ls_tensor *x, int rank, const int64_t *dims) {
    return ls_reshape(s, x, ls_shape_make(rank, dims));
}

/* Where each tap would be read on spatial axis i without an offset: [taps, positions]. */
static ls_tensor *grid(ls_session *s, const deform *c, const ls_geometry *g, int i) {
    int64_t dims[LS_MAX_RANK], flat[] = {c->taps, c->positions};
    for (int j = 0; j < c->d; j++) {
        dims[j] = g->kernel[j];
        dims[c->d + j] = c->count[j];
    }
    ls_shape shape = ls_shape_make(2 * c->d, dims);
    ls_tensor *tap = ls_mul(s, ls_iota(s, LS_I64, shape, i),
                            ls_full_i64(s, LS_I64, (ls_shape){.rank = 0}, g->dilation[i]));
    ls_tensor *at = ls_mul(s, ls_iota(s, LS_I64, shape, c->d + i),
                           ls_full_i64(s, LS_I64, (ls_shape){.rank = 0}, g->stride[i]));
    ls_tensor *sum = ls_sub(s, ls_add(s, tap, at), ls_full_i64(s, LS_I64, (ls_shape){.rank = 0}, g->low[i]));
    return ls_cast(s, shaped(s, sum, 2, flat), c->wide);
}

/* One corner of the cells: values [N, parts, C/parts, taps, positions] times their weights. Bit i of `corner` takes the upper
 * element of axis i. */
static ls_tensor *corner_values(ls_session *s, const deform *c, unsigned corner) {
    ls_tensor *index = NULL, *weight = NULL, *inside = NULL, *zero = scalar(s, c->wide, 0),
              *one = scalar(s, c->wide, 1);
    for (int i = 0; i < c->d; i++) {
        bool upper = corner >> i & 1;
        ls_tensor *at = upper ? ls_add(s, c->whole[i], one) : c->whole[i],
                  *top = scalar(s, c->wide, (double)(c->extent[i] - 1));
        ls_tensor *in = ls_and(s, ls_ge(s, at, zero), ls_le(s, at, top));
        ls_tensor *w = upper ? c->part[i] : ls_sub(s, one, c->part[i]);
        ls_tensor *element = ls_cast(s, ls_where(s, in, at, zero), LS_I64);
        ls_tensor *extent = ls_full_i64(s, LS_I64, (ls_shape){.rank = 0}, c->extent[i]);
        inside = i ? ls_and(s, inside, in) : in;
        weight = i ? ls_mul(s, weight, w) : w;
        index = i ? ls_add(s, ls_mul(s, index, extent), element) : element;
    }
    int64_t line[] = {c->batch, c->parts, 1, c->taps * c->positions};
    int64_t all[] = {c->batch, c->parts, c->channels / c->parts, c->taps * c->positions};
    ls_tensor *which = ls_expand(s, shaped(s, index, 4, line), ls_shape_make(4, all));
    ls_tensor *read = ls_take_along(s, c->x, which, 3);
    weight = shaped(s, ls_where(s, inside, weight, zero), 4, line);
    return ls_mul(s, read, weight);
}

static bool deform_check(ls_session *s, ls_tensor *x, ls_tensor *w, ls_tensor *offset, ls_tensor *mask,
                         int64_t parts, const ls_conv_spec *spec, ls_geometry *g, deform *c) {
    ls_tensor *src[] = {x, w, offset, mask};
    if (!ls_check_operands(s, "deform_conv", mask ? 4 : 3, src) || !ls_check_float(s, "deform_conv", x) ||
        !ls_geometry_read(s, "deform_conv", spec, x, false, g) ||
        !ls_check_same_dtype(s, "deform_conv", w, x) || !ls_check_same_dtype(s, "deform_conv", offset, x) ||
        !ls_check_same_dtype(s, "deform_conv", mask, x)) {
        return false;
    }
    c->d = g->d;
    c->wide = ls_dtype_compute(x->dtype);
    bool fits = !spec->axes.set && ls_shape_is_fixed(&x->shape) && ls_shape_is_fixed(&w->shape) &&
                w->shape.rank == g->d + 2 && parts >= 1 && x->shape.dim[1].offset % parts == 0;
    int64_t kernel[LS_MAX_SPATIAL], dims[LS_MAX_RANK] = {0};
    c->taps = c->positions = c->image = 1;
    for (int i = 0; fits && i < g->d; i++) {
        kernel[i] = w->shape.dim[2 + i].offset;
        c->taps *= kernel[i];
    }
    if (fits && !ls_geometry_fit(s, g, x, kernel)) {
        return false;
    }
    for (int i = 0; fits && i < g->d; i++) {
        c->extent[i] = x->shape.dim[2 + i].offset;
        c->image *= c->extent[i];
        c->count[i] =
            (c->extent[i] + g->low[i] + g->high[i] - (kernel[i] - 1) * g->dilation[i] - 1) / g->stride[i] + 1;
        dims[2 + i] = c->count[i];
        fits = c->extent[i] > 0 && !__builtin_mul_overflow(c->positions, c->count[i], &c->positions);
    }
    if (fits) {
        c->parts = parts;
        dims[0] = c->batch = x->shape.dim[0].offset;
        c->channels = x->shape.dim[1].offset;
        dims[1] = parts * c->taps * g->d;
        ls_shape expected = ls_shape_make(g->d + 2, dims);
        dims[1] = parts * c->taps;
        ls_shape masks = ls_shape_make(g->d + 2, dims);
        fits = ls_shape_equal(&offset->shape, &expected) && (!mask || ls_shape_equal(&mask->shape, &masks));
    }
    if (!fits) {
        LS_NODE_FAIL(s, LS_ERR_SHAPE,
                     "deform_conv: operands are %s, filter %s, offset %s and mask %s with %" PRId64
                     " parts: expected fixed x[N,C,spatial...], offset[N,parts*taps*%d,positions...] and "
                     "mask[N,parts*taps,positions...] or NULL",
                     LS_TEXT(x), LS_TEXT(w), LS_TEXT(offset), LS_TEXT(mask), parts, g->d);
    }
    return fits;
}

ls_tensor *ls_deform_conv(ls_session *s, ls_tensor *x, ls_tensor *w, ls_tensor *offset, ls_tensor *mask,
                          ls_tensor *bias, int64_t parts, const ls_conv_spec *spec) {
    ls_geometry g;
    deform c = {0};
    if (!deform_check(s, x, w, offset, mask, parts, spec, &g, &c)) {
        return NULL;
    }
    int64_t split[] = {c.batch, c.parts, c.taps, c.d, c.positions},
            planes[] = {c.batch, c.parts, c.taps, c.positions};
    int64_t lines[] = {c.batch, c.parts, c.channels / c.parts, c.image};
    ls_tensor *offsets = shaped(s, ls_cast(s, offset, c.wide), 5, split);
    c.x = shaped(s, ls_cast(s, x, c.wide), 4, lines);
    for (int i = 0; i < c.d; i++) {
        ls_tensor *moved = shaped(s, ls_narrow(s, offsets, 3, i, 1), 4, planes);
        ls_tensor *at = ls_add(s, moved, grid(s, &c, &g, i));
        c.whole[i] = ls_floor(s, at);
        c.part[i] = ls_sub(s, at, c.whole[i]);
    }
    ls_tensor *value = NULL;
    for (unsigned corner = 0; corner < 1u << c.d; corner++) {
        ls_tensor *v = corner_values(s, &c, corner);
        value = corner ? ls_add(s, value, v) : v;
    }
    if (mask) {
        int64_t dims[] = {c.batch, c.parts, 1, c.taps * c.positions};
        value = ls_mul(s, value, shaped(s, ls_cast(s, mask, c.wide), 4, dims));
    }
    int64_t patches[] = {c.batch, c.channels, c.taps, c.positions}, filter[LS_MAX_RANK], result[LS_MAX_RANK];
    filter[0] = result[1] = w->shape.dim[0].offset;
    filter[1] = w->shape.dim[1].offset;
    filter[2] = c.taps;
    filter[3] = 1;
    result[0] = c.batch;
    for (int i = 0; i < c.d; i++) {
        result[2 + i] = c.count[i];
    }
    ls_conv_spec plain = {.spatial = 2, .groups = g.groups};
    ls_tensor *columns = ls_cast(s, shaped(s, value, 4, patches), x->dtype);
    ls_tensor *y = ls_conv(s, columns, shaped(s, w, 4, filter), bias, &plain);
    return shaped(s, y, c.d + 2, result);
}
