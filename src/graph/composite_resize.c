/* Resizing: along each axis in turn, every element is a weighted sum of a few neighbours. Places and weights depend on the
 * geometry alone; they are worked out here in double precision and become constants. */
#include "base/numerics.h"
#include "graph/build.h"
#include <inttypes.h>
#include <string.h>

/* One axis on its way. */
typedef struct line {
    int64_t from, to;
    double scale, width; /* width: scale * from */
    double start, end; /* the part of the axis that CROP takes, in units of its length */
    int taps;
    double reach;      /* by how much the kernel shrinks in the operand's coordinates: below 1 when it is stretched */
} line;

static double floor_of(double x) {
    if (!(x > -9e15 && x < 9e15)) { /* whole already, or no number */
        return x;
    }
    double whole = (double)(int64_t)x;
    return whole > x ? whole - 1 : whole;
}

/* Where element i of the result lies in the operand. */
static double source_of(const ls_resize_spec *spec, const line *l, int64_t i) {
    double n = (double)l->from, width = l->width, x = (double)i;
    switch (spec->coords) {
    case LS_RESIZE_ALIGN_CORNERS: return width == 1 ? 0 : x * (n - 1) / (width - 1);
    case LS_RESIZE_ASYMMETRIC: return x / l->scale;
    case LS_RESIZE_TF_HALF_PIXEL: return (x + 0.5) / l->scale;
    case LS_RESIZE_PYTORCH_HALF_PIXEL: return l->to > 1 ? (x + 0.5) / l->scale - 0.5 : 0;
    case LS_RESIZE_HALF_PIXEL_SYMMETRIC: return n / 2 * (1 - (double)l->to / width) + (x + 0.5) / l->scale - 0.5;
    case LS_RESIZE_CROP: {
        double part = (l->end - l->start) * (n - 1);
        return l->start * (n - 1) + (l->to == 1 ? part / 2 : x * part / ((double)l->to - 1));
    }
    default: return (x + 0.5) / l->scale - 0.5;
    }
}

static double weight_of(const ls_resize_spec *spec, double distance) {
    double a = spec->cubic_a, d = distance < 0 ? -distance : distance;
    if (spec->mode == LS_RESIZE_LINEAR) {
        return d < 1 ? 1 - d : 0;
    }
    return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

static int64_t clamp(int64_t x, int64_t n) {
    return x < 0 ? 0 : x >= n ? n - 1 : x;
}

/* The neighbours of x and their weights. x itself belongs to the left of its two neighbours: (base, base + 1]. */
static void place(const ls_resize_spec *spec, const line *l, double x, int64_t *index, double *weights) {
    double base = floor_of(x), total = 0;
    base -= base == x ? 1 : 0;
    double ratio = x - base;
    if (spec->mode == LS_RESIZE_NEAREST) {
        bool up = spec->nearest == LS_NEAREST_CEIL || (spec->nearest == LS_NEAREST_PREFER_FLOOR && ratio > 0.5) ||
                  (spec->nearest == LS_NEAREST_PREFER_CEIL && ratio >= 0.5);
        index[0] = clamp((int64_t)base + (up || ratio == 1), l->from);
        weights[0] = 1;
        return;
    }
    for (int k = 0; k < l->taps; k++) {
        int64_t at = k + 1 - l->taps / 2;
        weights[k] = weight_of(spec, l->reach * ((double)at - ratio));
        at += (int64_t)base;
        index[k] = clamp(at, l->from);
        weights[k] = spec->exclude_outside && index[k] != at ? 0 : weights[k];
        total += weights[k];
    }
    for (int k = 0; (l->reach < 1 || spec->exclude_outside) && total != 0 && k < l->taps; k++) {
        weights[k] /= total;
    }
}

/* x[before, from, after] along its middle axis. */
static ls_tensor *resize_line(ls_session *s, const ls_resize_spec *spec, const line *l, ls_tensor *x) {
    ls_heap *heap = ls_graph_of(s)->heap;
    size_t count = (size_t)l->to * (size_t)l->taps;
    int64_t *index = ls_alloc(heap, count * sizeof *index);
    double *weights = ls_alloc(heap, count * sizeof *weights);
    uint8_t *outside = ls_alloc_zeroed(heap, (size_t)l->to);
    ls_tensor *y = NULL;
    if (!index || !weights || !outside) {
        LS_NODE_FAIL(s, LS_ERR_MEMORY, "out of memory for the places of resize");
        goto done;
    }
    bool any = false;
    ls_numerics state = ls_numerics_enter();
    for (int64_t i = 0; i < l->to; i++) {
        double at = source_of(spec, l, i);
        outside[i] = spec->coords == LS_RESIZE_CROP && !(at >= 0 && at <= (double)(l->from - 1));
        any |= outside[i];
        double limit = (double)l->from + (double)l->taps; /* farther out all neighbours are the last element */
        at = at > limit ? limit : at > -limit ? at : -limit;
        place(spec, l, at, index + i * l->taps, weights + i * l->taps);
    }
    ls_numerics_leave(state);
    if (spec->mode == LS_RESIZE_NEAREST) {
        y = ls_gather(s, x, ls_tensor_from(s, LS_I64, LS_SHAPE(l->to), index), 1);
    } else {
        ls_tensor *taps = ls_gather(s, x, ls_tensor_from(s, LS_I64, LS_SHAPE(l->to, l->taps), index), 1);
        size_t size = taps ? ls_dtype_size(taps->dtype) : 0;
        for (size_t i = 0; taps && i < count; i++) { /* in place: devices without f64 resize too */
            uint64_t bits = ls_value_from_f64(taps->dtype, weights[i]);
            memcpy((char *)weights + i * size, &bits, size);
        }
        ls_tensor *w = taps ? ls_tensor_from(s, taps->dtype, LS_SHAPE(l->to, l->taps, 1), weights) : NULL;
        y = w ? ls_sum(s, ls_mul(s, taps, w), 1, (int[]){2}, 0) : NULL;
    }
    if (y && any) {
        ls_tensor *out = ls_tensor_from(s, LS_BOOL, LS_SHAPE(l->to, 1), outside);
        y = ls_where(s, out, ls_const_like(s, y, spec->extrapolation), y);
    }
done:
    ls_free(heap, outside);
    ls_free(heap, weights);
    ls_free(heap, index);
    return y;
}

/* The taps of a kernel of some radius, stretched when antialiased. */
static int taps_of(const ls_resize_spec *spec, line *l) {
    l->reach = spec->antialias && l->scale < 1 ? l->scale : 1;
    if (spec->mode == LS_RESIZE_NEAREST) {
        return 1;
    }
    double radius = spec->mode == LS_RESIZE_CUBIC ? 2 : 1;
    return radius / l->reach < 1e6 ? 2 * (int)-floor_of(-radius / l->reach) : 0;
}

static bool line_of(ls_session *s, const ls_resize_spec *spec, const ls_tensor *x, int axis, line *l) {
    ls_dim d = x->shape.dim[axis];
    l->from = d.offset;
    l->to = spec->size[axis];
    l->scale = spec->scale[axis] ? spec->scale[axis] : (double)l->to / (double)l->from;
    l->width = spec->scale[axis] ? l->scale * (double)l->from : (double)l->to;
    l->start = spec->coords == LS_RESIZE_CROP ? spec->start[axis] : 0;
    l->end = spec->coords == LS_RESIZE_CROP ? spec->end[axis] : 1;
    if (!ls_dim_is_fixed(d) || l->to < 0 || l->to > INT32_MAX || (l->from == 0 && l->to > 0) || (l->to > 0 && !(l->scale > 0 && l->scale < 1e12))) {
        LS_NODE_FAIL(s, LS_ERR_SHAPE,
                     "resize: axis %d of %s to %" PRId64 " with scale %g: expected a fixed extent that has elements, and a scale "
                     "above 0",
                     axis, LS_TEXT(x), l->to, l->scale);
        return false;
    }
    l->taps = l->to ? taps_of(spec, l) : 1;
    if (l->taps < 1) {
        LS_NODE_FAIL(s, LS_ERR_UNSUPPORTED, "resize: axis %d of %s by %g: so small a scale cannot be antialiased", axis, LS_TEXT(x),
                     l->scale);
    }
    return l->taps >= 1;
}

ls_tensor *ls_resize(ls_session *s, ls_tensor *x, const ls_resize_spec *spec) {
    if (!ls_check_operands(s, "resize", 1, &x) || !ls_check_given(s, "resize", "spec", spec)) {
        return NULL;
    }
    bool moves = spec->mode == LS_RESIZE_NEAREST, real = ls_dtype_is_float(x->dtype);
    if ((!moves && x->dtype == LS_BOOL) || (moves && spec->antialias)) {
        return LS_NODE_FAIL(s, LS_ERR_DTYPE, "resize: operand is %s: expected numbers to interpolate, and no antialiasing of the nearest",
                            LS_TEXT(x));
    }
    ls_dtype wide = moves ? x->dtype : real ? ls_dtype_compute(x->dtype) : ls_dtype_size(x->dtype) < 4 ? LS_F32 : LS_F64;
    ls_tensor *y = ls_cast(s, x, wide);
    for (int i = 0; y && i < x->shape.rank; i++) {
        line l = {0};
        if (!line_of(s, spec, x, i, &l)) {
            return NULL;
        }
        double off = l.scale - 1;
        if (l.from == l.to && off < 1e-9 && off > -1e-9 && l.start == 0 && l.end == 1) {
            continue;
        }
        ls_shape shape = y->shape;
        shape.dim[i] = ls_dim_fixed(l.to);
        int64_t before = 1, after = 1;
        for (int k = 0; k < shape.rank; k++) {
            if (k != i && !ls_dim_is_fixed(shape.dim[k])) {
                return LS_NODE_FAIL(s, LS_ERR_UNSUPPORTED, "resize: operand is %s: expected fixed extents", LS_TEXT(x));
            }
        }
        if (!ls_shape_check(s, "resize", &shape)) {
            return NULL;
        }
        for (int k = 0; k < shape.rank; k++) {
            *(k < i ? &before : &after) *= k == i ? 1 : shape.dim[k].offset;
        }
        if (before == 0 || after == 0 || l.to == 0) {
            y = ls_full(s, wide, shape, 0);
            continue;
        }
        y = resize_line(s, spec, &l, ls_reshape(s, y, LS_SHAPE(before, l.from, after)));
        y = y ? ls_reshape(s, y, shape) : NULL;
    }
    if (y && !moves && !real) {
        y = ls_rint(s, y);
    }
    return y ? ls_cast(s, y, x->dtype) : NULL;
}
