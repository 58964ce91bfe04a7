/* Reading, checking and applying the geometry of convolutions and pools. */
#include "graph/conv_geometry.h"
#include <inttypes.h>
#include <string.h>

static void default_axes(ls_conv_axes *a, int d, bool transposed) {
    *a = (ls_conv_axes){.set = 1,
                        .input_channel = 1,
                        .output_channel = 1,
                        .filter_out = transposed,
                        .filter_in = !transposed};
    for (int i = 0; i < d; i++) {
        a->input_spatial[i] = a->filter_spatial[i] = a->output_spatial[i] = 2 + i;
    }
}

static bool permutation_check(ls_session *s, const char *name, const char *which, int d, int first,
                              int second, const int *spatial) {
    unsigned seen = 0;
    for (int i = 0; i < d + 2; i++) {
        int axis = i == 0 ? first : i == 1 ? second : spatial[i - 2];
        if (axis < 0 || axis >= d + 2 || (seen >> axis & 1)) {
            LS_NODE_FAIL(
                s, LS_ERR_INVALID,
                "%s: the axes of the %s: axis %d is out of range or given twice (expected each of 0 to %d)",
                name, which, axis, d + 1);
            return false;
        }
        seen |= 1u << axis;
    }
    return true;
}

static bool positive(ls_session *s, const char *name, const char *what, int i, int64_t value) {
    if (value > 0) {
        return true;
    }
    LS_NODE_FAIL(s, LS_ERR_INVALID, "%s: %s %" PRId64 " of spatial axis %d: expected 1 or more", name, what,
                 value, i);
    return false;
}

bool ls_geometry_read(ls_session *s, const char *name, const ls_conv_spec *spec, const ls_tensor *x,
                      bool transposed, ls_geometry *out) {
    if (!ls_check_given(s, name, "spec", spec)) {
        return false;
    }
    if (spec->spatial < 1 || spec->spatial > LS_MAX_SPATIAL || x->shape.rank != spec->spatial + 2) {
        LS_NODE_FAIL(s, LS_ERR_SHAPE, "%s: operand is %s with %d spatial axes: expected 1 to %d, and rank %d",
                     name, LS_TEXT(x), spec->spatial, LS_MAX_SPATIAL, spec->spatial + 2);
        return false;
    }
    ls_geometry g = {
        .name = name, .d = spec->spatial, .groups = spec->groups ? spec->groups : 1, .axes = spec->axes};
    for (int i = 0; i < g.d; i++) {
        g.stride[i] = spec->stride[i] ? spec->stride[i] : 1;
        g.dilation[i] = spec->dilation[i] ? spec->dilation[i] : 1;
        g.low[i] = spec->pad_low[i];
        g.high[i] = spec->pad_high[i];
        g.output_padding[i] = spec->output_padding[i];
        if (!positive(s, name, "stride", i, g.stride[i]) ||
            !positive(s, name, "dilation", i, g.dilation[i])) {
            return false;
        }
        if (g.output_padding[i] < 0 || (!transposed && g.output_padding[i])) {
            LS_NODE_FAIL(s, LS_ERR_INVALID, "%s: output_padding %" PRId64 " of spatial axis %d: expected %s",
                         name, g.output_padding[i], i,
                         transposed ? "0 or more" : "0 (it is conv_transpose's)");
            return false;
        }
    }
    if (g.groups < 1) {
        LS_NODE_FAIL(s, LS_ERR_INVALID, "%s: groups %" PRId64 ": expected 1 or more", name, g.groups);
        return false;
    }
    if (!spec->axes.set) {
        default_axes(&g.axes, g.d, transposed);
    }
    *out = g;
    const ls_conv_axes *a = &out->axes;
    return permutation_check(s, name, "input", g.d, a->input_batch, a->input_channel, a->input_spatial) &&
           permutation_check(s, name, "output", g.d, a->output_batch, a->output_channel, a->output_spatial);
}

bool ls_geometry_filter_check(ls_session *s, const ls_geometry *g) {
    const ls_conv_axes *a = &g->axes;
    return permutation_check(s, g->name, "filter", g->d, a->filter_out, a->filter_in, a->filter_spatial);
}

bool ls_geometry_fit(ls_session *s, ls_geometry *g, const ls_tensor *x, const int64_t *kernel) {
    if (!ls_check_given(s, g->name, "kernel", kernel)) {
        return false;
    }
    for (int i = 0; i < g->d; i++) {
        int64_t reach, ends;
        ls_dim d = x->shape.dim[2 + i], room;
        g->kernel[i] = kernel[i];
        if (!positive(s, g->name, "kernel", i, kernel[i])) {
            return false;
        }
        if (__builtin_mul_overflow(kernel[i] - 1, g->dilation[i], &reach) || reach == INT64_MAX ||
            __builtin_add_overflow(g->low[i], g->high[i], &ends) || !ls_dim_affine(d, 1, ends, &room) ||
            !ls_dim_affine(room, 1, -(reach + 1), &room)) {
            LS_NODE_FAIL(s, LS_ERR_SHAPE,
                         "%s: kernel %" PRId64 " with dilation %" PRId64
                         " of spatial axis %d is larger than operand %s "
                         "padded by %" PRId64 " and %" PRId64,
                         g->name, kernel[i], g->dilation[i], i, LS_TEXT(x), g->low[i], g->high[i]);
            return false;
        }
    }
    return true;
}

ls_tensor *ls_to_canonical(ls_session *s, const ls_geometry *g, ls_tensor *x) {
    int axes[LS_MAX_RANK] = {g->axes.input_batch, g->axes.input_channel};
    memcpy(axes + 2, g->axes.input_spatial, sizeof g->axes.input_spatial);
    return ls_permute(s, x, axes);
}

static ls_tensor *to_output(ls_session *s, const ls_geometry *g, ls_tensor *y, int channel, int spatial) {
    int axes[LS_MAX_RANK] = {0};
    axes[g->axes.output_batch] = 0;
    axes[g->axes.output_channel] = channel;
    for (int i = 0; i < g->d; i++) {
        axes[g->axes.output_spatial[i]] = spatial + i;
    }
    return ls_permute(s, y, axes);
}

ls_tensor *ls_from_channels_last(ls_session *s, const ls_geometry *g, ls_tensor *y) {
    return to_output(s, g, y, g->d + 1, 1);
}

ls_tensor *ls_from_canonical(ls_session *s, const ls_geometry *g, ls_tensor *y) {
    return to_output(s, g, y, 1, 2);
}

ls_tensor *ls_pad_spatial(ls_session *s, ls_tensor *x, int d, const int64_t *low, const int64_t *high,
                          const int64_t *interior, bool absent) {
    ls_pad_spec pads[LS_MAX_RANK] = {{0, 0, 0}};
    if (!x) {
        return NULL;
    }
    for (int i = 0; i < d; i++) {
        pads[x->shape.rank - d + i] = (ls_pad_spec){low[i], high[i], interior ? interior[i] : 0};
    }
    return absent ? ls_pad_absent(s, x, pads) : ls_pad(s, x, pads, 0);
}

ls_tensor *ls_window_spatial(ls_session *s, ls_tensor *x, int d, const int64_t *size, const int64_t *stride,
                             const int64_t *dilation) {
    ls_window_spec windows[LS_MAX_SPATIAL];
    int axes[LS_MAX_SPATIAL];
    if (!x) {
        return NULL;
    }
    for (int i = 0; i < d; i++) {
        windows[i] = (ls_window_spec){size[i], stride ? stride[i] : 1, dilation[i]};
        axes[i] = x->shape.rank - d + i;
    }
    return ls_window(s, x, d, axes, windows);
}

ls_tensor *ls_patches(ls_session *s, const ls_geometry *g, ls_tensor *x, bool absent) {
    ls_tensor *padded = ls_pad_spatial(s, x, g->d, g->low, g->high, NULL, absent);
    return ls_window_spatial(s, padded, g->d, g->kernel, g->stride, g->dilation);
}
