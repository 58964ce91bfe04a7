/* Convolution and transposed convolution: one contraction of windows of the padded input with the filter,
 * over (kernel spatial..., channel) in that order, whatever the layouts. Padding is absent, never zeros.
 * Groups are a batch axis of the contraction. */
#include "graph/conv_geometry.h"
#include <inttypes.h>
#include <string.h>

/* How the input is padded and read; the filter is [G*n, m, kernel...], of which `channel_first` says which
 * of n and m is contracted. */
typedef struct core {
    int d;
    ls_dtype dtype; /* of the sums */
    int64_t groups, low[LS_MAX_SPATIAL], high[LS_MAX_SPATIAL], interior[LS_MAX_SPATIAL];
    int64_t kernel[LS_MAX_SPATIAL], stride[LS_MAX_SPATIAL], dilation[LS_MAX_SPATIAL];
    bool flip;          /* taps run against the window's offsets */
    bool channel_first; /* the filter's first axis is the input's channels: transposed */
} core;

/* The windows of x[..., spatial...]: [..., positions..., taps...]. */
static ls_tensor *core_windows(ls_session *s, const core *c, ls_tensor *x) {
    ls_tensor *v = ls_pad_spatial(s, x, c->d, c->low, c->high, c->interior, true);
    v = ls_window_spatial(s, v, c->d, c->kernel, c->stride, c->dilation);
    for (int i = 0; v && c->flip && i < c->d; i++) {
        v = ls_flip(s, v, v->shape.rank - c->d + i);
    }
    return v;
}

/* x[N,C,spatial...] with w[a,b,kernel...] -> [N, positions..., out]. */
static ls_tensor *core_plain(ls_session *s, const core *c, ls_tensor *x, ls_tensor *w) {
    ls_tensor *v = core_windows(s, c, x);
    ls_contract_spec spec = {.n_contract = c->d + 1};
    for (int i = 0; i < c->d; i++) {
        spec.contract_a[i] = 2 + c->d + i;
        spec.contract_b[i] = 2 + i;
    }
    spec.contract_a[c->d] = 1;
    spec.contract_b[c->d] = c->channel_first ? 0 : 1;
    return v && w ? ls_contract(s, v, w, &spec, c->dtype) : NULL;
}

/* [G, N, positions..., n] -> [N, positions..., G*n] */
static ls_tensor *merge_groups(ls_session *s, const core *c, ls_tensor *y) {
    int axes[LS_MAX_RANK];
    if (!y) {
        return NULL;
    }
    for (int i = 0; i <= c->d; i++) {
        axes[i] = i + 1;
    }
    axes[c->d + 1] = 0;
    axes[c->d + 2] = c->d + 2;
    ls_tensor *p = ls_permute(s, y, axes);
    if (!p) {
        return NULL;
    }
    ls_shape merged = p->shape;
    merged.rank--;
    merged.dim[c->d + 1] = ls_dim_fixed(y->shape.dim[0].offset * y->shape.dim[c->d + 2].offset);
    return ls_reshape(s, p, merged);
}

/* Splits an axis of fixed extent into [groups, rest]; drops a rest of 1 when `drop`. */
static ls_tensor *split_axis(ls_session *s, ls_tensor *x, int axis, int64_t groups, bool drop) {
    if (!x) {
        return NULL;
    }
    int64_t rest = x->shape.dim[axis].offset / groups;
    ls_shape shape = x->shape;
    shape.dim[axis] = ls_dim_fixed(groups);
    if (!drop) {
        shape = ls_shape_insert(&shape, axis + 1, ls_dim_fixed(rest));
    }
    return ls_reshape(s, x, shape);
}

/* Groups as a batch axis. One channel a group needs no axis for it, which keeps 3-D within the rank limit. */
static ls_tensor *core_batched(ls_session *s, const core *c, ls_tensor *x, ls_tensor *w, bool single) {
    ls_tensor *v = core_windows(s, c, split_axis(s, x, 1, c->groups, single));
    ls_tensor *f = split_axis(s, w, 0, c->groups, single && c->channel_first);
    if (f && single && !c->channel_first) {
        f = ls_squeeze(s, f, 2);
    }
    if (!v || !f) {
        return NULL;
    }
    ls_contract_spec spec = {.n_batch = 1, .batch_a = {1}, .batch_b = {0}, .n_contract = c->d + !single};
    for (int i = 0; i < c->d; i++) {
        spec.contract_a[i] = v->shape.rank - c->d + i;
        spec.contract_b[i] = f->shape.rank - c->d + i;
    }
    if (!single) {
        spec.contract_a[c->d] = 2;
        spec.contract_b[c->d] = c->channel_first ? 1 : 2;
    }
    return merge_groups(s, c, ls_contract(s, v, f, &spec, c->dtype));
}

/* A contraction a group, where a batch axis would pass the rank limit. */
static ls_tensor *core_by_group(ls_session *s, const core *c, ls_tensor *x, ls_tensor *w) {
    ls_heap *heap = ls_graph_of(s)->heap;
    ls_tensor **parts = ls_alloc(heap, sizeof *parts * (size_t)c->groups), *y = NULL;
    if (!parts) {
        return LS_NODE_FAIL(s, LS_ERR_MEMORY, "out of memory for the groups of a convolution");
    }
    int64_t nx = x->shape.dim[1].offset / c->groups, nw = w->shape.dim[0].offset / c->groups, i = 0;
    for (; i < c->groups; i++) {
        ls_tensor *xi = ls_narrow(s, x, 1, i * nx, nx), *wi = ls_narrow(s, w, 0, i * nw, nw);
        parts[i] = xi && wi ? core_plain(s, c, xi, wi) : NULL;
        if (!parts[i]) {
            break;
        }
    }
    if (i == c->groups) {
        y = ls_concat(s, parts, (int)c->groups, -1);
    }
    ls_free(heap, parts);
    return y;
}

static ls_tensor *core_apply(ls_session *s, const core *c, ls_tensor *x, ls_tensor *w) {
    if (c->groups == 1) {
        return core_plain(s, c, x, w);
    }
    bool single = x->shape.dim[1].offset == c->groups;
    if (3 + 2 * c->d > LS_MAX_RANK && !single) {
        return core_by_group(s, c, x, w);
    }
    return core_batched(s, c, x, w, single);
}

/* ---- the public functions ---- */

static bool conv_check(ls_session *s, const char *name, ls_tensor *x, ls_tensor *w, ls_tensor *bias,
                       const ls_conv_spec *spec, bool transposed, ls_geometry *g) {
    if (!ls_check_operands(s, name, bias ? 3 : 2, (ls_tensor *[]){x, w, bias}) ||
        !ls_geometry_read(s, name, spec, x, transposed, g) || !ls_geometry_filter_check(s, g)) {
        return false;
    }
    if (!ls_check_same_dtype(s, name, w, x) || !ls_check_same_dtype(s, name, bias, x)) {
        return false;
    }
    if (x->dtype == LS_BOOL) {
        LS_NODE_FAIL(s, LS_ERR_DTYPE, "%s: operand is %s: expected a numeric dtype", name, LS_TEXT(x));
        return false;
    }
    if (w->shape.rank != g->d + 2 || !ls_shape_is_fixed(&w->shape) ||
        !ls_dim_is_fixed(x->shape.dim[g->axes.input_channel])) {
        LS_NODE_FAIL(
            s, LS_ERR_SHAPE,
            "%s: operand is %s and filter %s: expected a filter of rank %d, and fixed channels and kernel",
            name, LS_TEXT(x), LS_TEXT(w), g->d + 2);
        return false;
    }
    int64_t channels = x->shape.dim[g->axes.input_channel].offset;
    int64_t in = w->shape.dim[g->axes.filter_in].offset, out = w->shape.dim[g->axes.filter_out].offset;
    int64_t results, operands;
    bool many = __builtin_mul_overflow(out, transposed ? g->groups : 1, &results) || __builtin_mul_overflow(in, transposed ? 1 : g->groups, &operands);
    if (many || channels % g->groups || results % g->groups) {
        LS_NODE_FAIL(s, LS_ERR_INVALID,
                     "%s: groups %" PRId64 " of operand %s and filter %s: expected a divisor of the %" PRId64
                     " channels and of the filter's %" PRId64 " results",
                     name, g->groups, LS_TEXT(x), LS_TEXT(w), channels, out);
        return false;
    }
    if (operands != channels) {
        LS_NODE_FAIL(s, LS_ERR_SHAPE,
                     "%s: operand is %s with %" PRId64 " channels and filter %s with %" PRId64 " in %" PRId64
                     " groups: expected %" PRId64,
                     name, LS_TEXT(x), channels, LS_TEXT(w), in, g->groups,
                     transposed ? channels : channels / g->groups);
        return false;
    }
    if (bias && (bias->shape.rank != 1 || !ls_dim_equal(bias->shape.dim[0], ls_dim_fixed(results)))) {
        LS_NODE_FAIL(s, LS_ERR_SHAPE, "%s: bias is %s for filter %s: expected [%" PRId64 "]", name,
                     LS_TEXT(bias), LS_TEXT(w), results);
        return false;
    }
    return true;
}

/* The filter as [first, second, kernel...]. */
static ls_tensor *filter_permuted(ls_session *s, const ls_geometry *g, ls_tensor *w, bool transposed) {
    int out = g->axes.filter_out, in = g->axes.filter_in;
    int axes[LS_MAX_RANK] = {transposed ? in : out, transposed ? out : in};
    memcpy(axes + 2, g->axes.filter_spatial, sizeof g->axes.filter_spatial);
    return ls_permute(s, w, axes);
}

static ls_tensor *finish(ls_session *s, const ls_geometry *g, ls_tensor *y, ls_tensor *bias) {
    y = y ? ls_from_channels_last(s, g, y) : NULL;
    return bias ? ls_add(s, y, ls_along(s, bias, g->axes.output_channel, g->d + 2)) : y;
}

static ls_tensor *conv(ls_session *s, const char *name, ls_tensor *x, ls_tensor *w, ls_tensor *bias,
                       const ls_conv_spec *spec, bool into_i32) {
    ls_geometry g;
    if (!conv_check(s, name, x, w, bias, spec, false, &g)) {
        return NULL;
    }
    if (into_i32 && (!ls_dtype_is_int(x->dtype) || ls_dtype_size(x->dtype) > 2)) {
        return LS_NODE_FAIL(s, LS_ERR_DTYPE, "%s: operand is %s: expected an 8- or 16-bit integer dtype", name,
                            LS_TEXT(x));
    }
    ls_tensor *cx = ls_to_canonical(s, &g, x), *cw = filter_permuted(s, &g, w, false);
    if (!cx || !cw) {
        return NULL;
    }
    core c = {.d = g.d, .dtype = into_i32 ? LS_I32 : x->dtype, .groups = g.groups};
    for (int i = 0; i < g.d; i++) {
        c.kernel[i] = cw->shape.dim[2 + i].offset;
    }
    if (!ls_geometry_fit(s, &g, cx, c.kernel)) {
        return NULL;
    }
    memcpy(c.low, g.low, sizeof c.low);
    memcpy(c.high, g.high, sizeof c.high);
    memcpy(c.stride, g.stride, sizeof c.stride);
    memcpy(c.dilation, g.dilation, sizeof c.dilation);
    return finish(s, &g, core_apply(s, &c, cx, cw), bias);
}

ls_tensor *ls_conv(ls_session *s, ls_tensor *x, ls_tensor *w, ls_tensor *bias, const ls_conv_spec *spec) {
    return conv(s, "conv", x, w, bias, spec, false);
}

ls_tensor *ls_conv_i32(ls_session *s, ls_tensor *x, ls_tensor *w, const ls_conv_spec *spec) {
    return conv(s, "conv_i32", x, w, NULL, spec, true);
}

/* y[o] sums x[(o + low - t * dilation) / stride] w[t] where that is whole: windows of x spread by stride -
 * 1, read backwards. */
ls_tensor *ls_conv_transpose(ls_session *s, ls_tensor *x, ls_tensor *w, ls_tensor *bias,
                             const ls_conv_spec *spec) {
    ls_geometry g;
    if (!conv_check(s, "conv_transpose", x, w, bias, spec, true, &g)) {
        return NULL;
    }
    ls_tensor *cx = ls_to_canonical(s, &g, x), *cw = filter_permuted(s, &g, w, true);
    if (!cx || !cw) {
        return NULL;
    }
    core c = {.d = g.d, .dtype = x->dtype, .groups = g.groups, .flip = true, .channel_first = true};
    for (int i = 0; i < g.d; i++) {
        int64_t reach;
        c.kernel[i] = cw->shape.dim[2 + i].offset;
        c.stride[i] = 1;
        c.dilation[i] = g.dilation[i];
        c.interior[i] = g.stride[i] - 1;
        if (c.kernel[i] < 1 || __builtin_mul_overflow(c.kernel[i] - 1, g.dilation[i], &reach) ||
            __builtin_sub_overflow(reach, g.low[i], &c.low[i]) ||
            __builtin_sub_overflow(reach, g.high[i], &c.high[i]) ||
            __builtin_add_overflow(c.high[i], g.output_padding[i], &c.high[i])) {
            return LS_NODE_FAIL(s, LS_ERR_INVALID,
                                "conv_transpose: kernel %" PRId64 " with dilation %" PRId64
                                " of spatial axis %d: out of "
                                "range",
                                c.kernel[i], g.dilation[i], i);
        }
        ls_dim n = cx->shape.dim[2 + i], room = {0};
        const bool fixed = ls_dim_is_fixed(n), fits = !fixed || (n.offset > 0 && ls_dim_affine(n, g.stride[i], 1 - g.stride[i], &room));
        int64_t outputs; /* of a fixed extent */
        if (__builtin_add_overflow(c.low[i] - reach, c.high[i], &outputs) || __builtin_add_overflow(outputs, room.offset, &outputs)) {
            return LS_NODE_FAIL(s, LS_ERR_INVALID, "conv_transpose: padding %" PRId64 " and %" PRId64 " and output padding %" PRId64 " of spatial axis %d: out of range",
                                g.low[i], g.high[i], g.output_padding[i], i);
        }
        if (!fits || (fixed && outputs < 1)) {
            return LS_NODE_FAIL(s, LS_ERR_SHAPE,
                                "conv_transpose: padding %" PRId64 " and %" PRId64
                                " of spatial axis %d leave nothing of operand "
                                "%s with kernel %" PRId64 " and stride %" PRId64,
                                g.low[i], g.high[i], i, LS_TEXT(cx), c.kernel[i], g.stride[i]);
        }
    }
    return finish(s, &g, core_apply(s, &c, cx, cw), bias);
}
