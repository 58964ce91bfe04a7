/* Convolution, pooling, dropout and local response normalisation.
 *
 * Geometry is read once, by `geometry`: auto_pad becomes pads, and ceil_mode becomes more padding at the end, absent so that it
 * neither wins nor counts. */
#include "io/onnx/extent.h"
#include "io/onnx/windows.h"
#include <inttypes.h>
#include <string.h>

/* One number an axis; what is missing is `otherwise`. */
static ls_status per_axis(ls_onnx_node *n, const char *name, int count, int64_t otherwise, int64_t *out) {
    int given;
    const int64_t *list = ls_onnx_attr_ints(n, name, &given);
    if (given && given != count) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "attribute %s has %d numbers: expected %d", name, given, count);
    }
    for (int i = 0; i < count; i++) {
        out[i] = given ? list[i] : otherwise;
    }
    return LS_OK;
}

static ls_status spatial_axes(ls_onnx_node *n, int rank, int *out_d) {
    *out_d = rank - 2;
    if (rank < 3 || rank > LS_MAX_SPATIAL + 2) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "operand of rank %d: expected 1 to %d spatial axes", rank,
                            LS_MAX_SPATIAL);
    }
    return LS_OK;
}

typedef enum auto_pad { PAD_GIVEN, PAD_UPPER, PAD_LOWER, PAD_VALID } auto_pad;

static ls_status read_auto_pad(ls_onnx_node *n, auto_pad *out) {
    static const char *const names[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
    const char *given = ls_onnx_attr_string(n, "auto_pad", "NOTSET");
    for (int i = 0; given && i < 4; i++) {
        if (strcmp(given, names[i]) == 0) {
            *out = (auto_pad)i;
            return LS_OK;
        }
    }
    return ls_onnx_fail(n, LS_ERR_INVALID,
                        "auto_pad \"%s\": expected NOTSET, SAME_UPPER, SAME_LOWER or VALID",
                        given ? given : "");
}

/* Divides a total into low and high. */
static void split_pad(auto_pad mode, int64_t total, int64_t *low, int64_t *high) {
    total = total > 0 ? total : 0;
    *low = mode == PAD_LOWER ? total - total / 2 : total / 2;
    *high = total - *low;
}

/* strides, dilations, pads and auto_pad for windows of `kernel` over an operand of d spatial extents. */
static ls_status geometry(ls_onnx_node *n, int d, const int64_t *in, const int64_t *kernel,
                          ls_conv_spec *out) {
    int64_t pads[2 * LS_MAX_SPATIAL];
    auto_pad mode;
    *out = (ls_conv_spec){.spatial = d};
    LS_TRY(n->err, per_axis(n, "strides", d, 1, out->stride));
    LS_TRY(n->err, per_axis(n, "dilations", d, 1, out->dilation));
    LS_TRY(n->err, per_axis(n, "pads", 2 * d, 0, pads));
    LS_TRY(n->err, read_auto_pad(n, &mode));
    for (int i = 0; i < d; i++) {
        int64_t reach;
        if (out->stride[i] < 1 || out->dilation[i] < 1 || kernel[i] < 1 ||
            __builtin_mul_overflow(kernel[i] - 1, out->dilation[i], &reach) || reach > INT64_MAX / 4 ||
            out->stride[i] > INT64_MAX / 4 || pads[i] > INT64_MAX / 8 || pads[d + i] > INT64_MAX / 8 ||
            pads[i] < -(INT64_MAX / 8) || pads[d + i] < -(INT64_MAX / 8)) {
            return ls_onnx_fail(n, LS_ERR_INVALID,
                                "spatial axis %d: kernel %" PRId64 ", stride %" PRId64 ", dilation %" PRId64
                                ": out of range",
                                i, kernel[i], out->stride[i], out->dilation[i]);
        }
        if (in[i] < 0) { /* it can be built, but no kernel for windows is quick with such extents */
            return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "the extent of spatial axis %d has a symbol: expected a fixed one", i);
        }
        if (mode == PAD_GIVEN) {
            out->pad_low[i] = pads[i];
            out->pad_high[i] = pads[d + i];
        } else if (mode != PAD_VALID && in[i] > 0) {
            int64_t steps = (in[i] - 1) / out->stride[i];
            split_pad(mode, steps * out->stride[i] + reach + 1 - in[i], &out->pad_low[i], &out->pad_high[i]);
        }
    }
    return LS_OK;
}

/* A kernel's extents from a filter of rank d + 2; kernel_shape, where it is given, must agree. */
static ls_status filter_kernel(ls_onnx_node *n, ls_tensor *w, int d, int64_t *kernel) {
    int64_t dims[LS_MAX_RANK], said[LS_MAX_SPATIAL];
    int rank = ls_onnx_dims(w, dims);
    if (rank != d + 2) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "the filter has rank %d: expected %d", rank, d + 2);
    }
    LS_TRY(n->err, per_axis(n, "kernel_shape", d, -1, said));
    for (int i = 0; i < d; i++) {
        kernel[i] = dims[2 + i];
        if (said[i] != -1 && said[i] != kernel[i]) {
            return ls_onnx_fail(n, LS_ERR_SHAPE,
                                "kernel_shape says %" PRId64
                                " on spatial axis %d and the filter has %" PRId64,
                                said[i], i, kernel[i]);
        }
    }
    return LS_OK;
}

ls_status ls_onnx_conv_spec(ls_onnx_node *n, ls_tensor *x, ls_tensor *w, ls_conv_spec *out) {
    int64_t in[LS_MAX_RANK], kernel[LS_MAX_SPATIAL];
    int d;
    LS_TRY(n->err, spatial_axes(n, ls_onnx_dims(x, in), &d));
    LS_TRY(n->err, filter_kernel(n, w, d, kernel));
    LS_TRY(n->err, geometry(n, d, in + 2, kernel, out));
    out->groups = ls_onnx_attr_int(n, "group", 1);
    return LS_OK;
}

ls_status ls_onnx_conv(ls_onnx_node *n, ls_tensor **out) {
    ls_tensor *x = ls_onnx_in(n, 0), *w = ls_onnx_in(n, 1), *bias = ls_onnx_in(n, 2);
    ls_conv_spec spec;
    if (!x || !w) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, ls_onnx_conv_spec(n, x, w, &spec));
    *out = ls_conv(n->s, x, w, bias, &spec);
    return *out ? LS_OK : ls_onnx_out(n, 0, NULL);
}

static ls_status conv(ls_onnx_node *n) {
    ls_tensor *y;
    LS_TRY(n->err, ls_onnx_conv(n, &y));
    return ls_onnx_out(n, 0, y);
}

static ls_status conv_transpose(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *w = ls_onnx_in(n, 1), *bias = ls_onnx_in(n, 2);
    int64_t in[LS_MAX_RANK], kernel[LS_MAX_SPATIAL], wanted[LS_MAX_SPATIAL], none[LS_MAX_SPATIAL] = {0};
    ls_conv_spec spec;
    auto_pad mode;
    int d, given;
    if (!x || !w) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, spatial_axes(n, ls_onnx_dims(x, in), &d));
    LS_TRY(n->err, filter_kernel(n, w, d, kernel));
    LS_TRY(n->err, geometry(n, d, none, kernel, &spec));
    LS_TRY(n->err, read_auto_pad(n, &mode));
    LS_TRY(n->err, per_axis(n, "output_padding", d, 0, spec.output_padding));
    const int64_t *list = ls_onnx_attr_ints(n, "output_shape", &given);
    if (given && given != d) { /* some writers put batch and channels in front */
        if (given != d + 2) {
            return ls_onnx_fail(n, LS_ERR_SHAPE, "output_shape has %d numbers: expected %d", given, d);
        }
        list += 2;
    }
    for (int i = 0; i < d; i++) {
        bool same = mode == PAD_UPPER || mode == PAD_LOWER;
        if (!given && !same) {
            continue;
        }
        int64_t full, shrink;
        bool over = __builtin_mul_overflow(spec.stride[i], in[2 + i] - 1, &full) ||
                    __builtin_add_overflow(full, (kernel[i] - 1) * spec.dilation[i] + 1, &full) ||
                    __builtin_add_overflow(full, spec.output_padding[i], &full) ||
                    __builtin_mul_overflow(in[2 + i], spec.stride[i], &wanted[i]);
        wanted[i] = given ? list[i] : wanted[i];
        if (over || wanted[i] < 0 || __builtin_sub_overflow(full, wanted[i], &shrink)) {
            return ls_onnx_fail(n, LS_ERR_INVALID, "spatial axis %d: its output's extent is out of range", i);
        }
        if (full < wanted[i]) { /* more at the end, where no input reaches */
            spec.pad_low[i] = 0;
            spec.pad_high[i] = shrink;
        } else {
            split_pad(mode == PAD_UPPER ? PAD_UPPER : PAD_LOWER, shrink, &spec.pad_low[i],
                      &spec.pad_high[i]);
        }
    }
    spec.groups = ls_onnx_attr_int(n, "group", 1);
    return ls_onnx_out(n, 0, ls_conv_transpose(n->s, x, w, bias, &spec));
}

static ls_status deform_conv(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *w = ls_onnx_in(n, 1), *offset = ls_onnx_in(n, 2);
    ls_tensor *bias = ls_onnx_in(n, 3), *mask = ls_onnx_in(n, 4);
    int64_t in[LS_MAX_RANK], kernel[LS_MAX_SPATIAL];
    ls_conv_spec spec;
    int d;
    if (!x || !w || !offset) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, spatial_axes(n, ls_onnx_dims(x, in), &d));
    LS_TRY(n->err, filter_kernel(n, w, d, kernel));
    LS_TRY(n->err, geometry(n, d, in + 2, kernel, &spec));
    spec.groups = ls_onnx_attr_int(n, "group", 1);
    int64_t groups = ls_onnx_attr_int(n, "offset_group", 1);
    return ls_onnx_out(n, 0, ls_deform_conv(n->s, x, w, offset, mask, bias, groups, &spec));
}

/* A depthwise convolution over the last axis whose first window ends at the first element; what came before is the state. */
static ls_status causal_conv(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *w = ls_onnx_in(n, 1), *bias = ls_onnx_in(n, 2),
              *past = ls_onnx_in(n, 3);
    int64_t in[LS_MAX_RANK], filter[LS_MAX_RANK];
    const char *activation = ls_onnx_attr_string(n, "activation", "none");
    if (!x || !w) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (ls_onnx_dims(x, in) != 3 || ls_onnx_dims(w, filter) != 3 || filter[2] < 1) {
        return ls_onnx_fail(n, LS_ERR_SHAPE,
                            "expected an input [batch, channels, length] and a filter [channels, 1, kernel]");
    }
    bool silu = strcmp(activation, "silu") == 0 || strcmp(activation, "swish") == 0;
    if (!silu && strcmp(activation, "none") != 0) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "activation \"%s\": expected none, silu or swish",
                            activation);
    }
    int64_t kept = filter[2] - 1;
    if (!past) {
        past = ls_full(n->s, ls_tensor_dtype(x), LS_SHAPE(in[0], in[1], kept), 0);
    }
    ls_tensor *both[] = {past, x}, *all = ls_concat(n->s, both, 2, 2);
    ls_conv_spec spec = {.spatial = 1, .groups = in[1]};
    ls_tensor *y = ls_conv(n->s, all, w, bias, &spec);
    LS_TRY(n->err, ls_onnx_out(n, 0, silu ? ls_silu(n->s, y) : y));
    return ls_onnx_out(n, 1, ls_narrow(n->s, all, 2, in[2], kept));
}

/* ---- pooling ---- */

/* The geometry of a pool over operand 0. With ceil_mode the end is padded so that the last window that starts inside the
 * padded input fits; `out_extra` says by how much, within pad_high. */
static ls_status pool_geometry(ls_onnx_node *n, ls_tensor *x, int64_t *in, int64_t *kernel,
                               ls_conv_spec *spec, int64_t *out_extra) {
    int d;
    LS_TRY(n->err, spatial_axes(n, ls_onnx_dims(x, in), &d));
    LS_TRY(n->err, per_axis(n, "kernel_shape", d, 0, kernel));
    LS_TRY(n->err, geometry(n, d, in + 2, kernel, spec));
    bool ceil = ls_onnx_attr_int(n, "ceil_mode", 0) != 0;
    for (int i = 0; i < d; i++) {
        int64_t reach = (kernel[i] - 1) * spec->dilation[i], stride = spec->stride[i];
        int64_t room = in[2 + i] + spec->pad_low[i] + spec->pad_high[i] - reach - 1;
        out_extra[i] = 0;
        if (ceil && room >= 0) {
            int64_t last = (room + stride - 1) / stride;
            last -= last * stride >= in[2 + i] + spec->pad_low[i];
            out_extra[i] = last * stride > room ? last * stride - room : 0;
            spec->pad_high[i] += out_extra[i];
        }
    }
    return LS_OK;
}

static ls_status max_pool(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0);
    int64_t in[LS_MAX_RANK], kernel[LS_MAX_SPATIAL], extra[LS_MAX_SPATIAL];
    ls_conv_spec spec;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, pool_geometry(n, x, in, kernel, &spec, extra));
    LS_TRY(n->err, ls_onnx_out(n, 0, ls_max_pool(n->s, x, kernel, &spec)));
    if (!ls_onnx_wants(n, 1)) {
        return LS_OK;
    }
    bool column_major = ls_onnx_attr_int(n, "storage_order", 0) != 0;
    return ls_onnx_out(n, 1, ls_max_pool_indices(n->s, x, kernel, &spec, column_major));
}

ls_status ls_onnx_avg_pool(ls_onnx_node *n, ls_tensor *x, ls_tensor **out) {
    int64_t in[LS_MAX_RANK], kernel[LS_MAX_SPATIAL], extra[LS_MAX_SPATIAL];
    ls_conv_spec spec;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, pool_geometry(n, x, in, kernel, &spec, extra));
    if (ls_onnx_attr_int(n, "count_include_pad",
                         0)) { /* the padding becomes real zeros, ceil_mode's stays absent */
        ls_pad_spec pads[LS_MAX_RANK] = {{0, 0, 0}};
        for (int i = 0; i < spec.spatial; i++) {
            pads[2 + i] = (ls_pad_spec){spec.pad_low[i], spec.pad_high[i] - extra[i], 0};
            spec.pad_low[i] = 0;
            spec.pad_high[i] = extra[i];
        }
        x = ls_pad(n->s, x, pads, 0);
    }
    *out = ls_avg_pool(n->s, x, kernel, &spec, 0);
    return *out ? LS_OK : ls_onnx_out(n, 0, NULL);
}

static ls_status avg_pool(ls_onnx_node *n) {
    ls_tensor *y;
    LS_TRY(n->err, ls_onnx_avg_pool(n, ls_onnx_in(n, 0), &y));
    return ls_onnx_out(n, 0, y);
}

static ls_status lp_pool(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0);
    int64_t in[LS_MAX_RANK], kernel[LS_MAX_SPATIAL], extra[LS_MAX_SPATIAL];
    ls_conv_spec spec;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, pool_geometry(n, x, in, kernel, &spec, extra));
    return ls_onnx_out(n, 0, ls_lp_pool(n->s, x, kernel, &spec, (double)ls_onnx_attr_int(n, "p", 2)));
}

static ls_status global_lp_pool(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0);
    int64_t in[LS_MAX_RANK];
    int d;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, spatial_axes(n, ls_onnx_dims(x, in), &d));
    ls_conv_spec spec = {.spatial = d};
    return ls_onnx_out(n, 0, ls_lp_pool(n->s, x, in + 2, &spec, (double)ls_onnx_attr_int(n, "p", 2)));
}

/* Every spatial axis to extent 1. */
static ls_status global_pool(ls_onnx_node *n, bool mean) {
    ls_tensor *x = ls_onnx_in(n, 0);
    int64_t in[LS_MAX_RANK];
    int axes[LS_MAX_RANK], count = 0;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    int rank = ls_onnx_dims(x, in);
    for (int i = 2; i < rank; i++) {
        axes[count++] = i;
    }
    if (count == 0) {
        return ls_onnx_out(n, 0, x);
    }
    return ls_onnx_out(n, 0, mean ? ls_mean(n->s, x, count, axes, 1) : ls_amax(n->s, x, count, axes, 1));
}

static ls_status global_avg_pool(ls_onnx_node *n) {
    return global_pool(n, true);
}

static ls_status global_max_pool(ls_onnx_node *n) {
    return global_pool(n, false);
}

static ls_status max_unpool(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *index = ls_onnx_in(n, 1);
    int64_t in[LS_MAX_RANK], kernel[LS_MAX_SPATIAL], shape[LS_MAX_RANK], *wanted;
    ls_conv_spec spec;
    int d, given;
    if (!x || !index) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, spatial_axes(n, ls_onnx_dims(x, in), &d));
    LS_TRY(n->err, per_axis(n, "kernel_shape", d, 0, kernel));
    LS_TRY(n->err, geometry(n, d, in + 2, kernel, &spec));
    shape[0] = in[0];
    shape[1] = in[1];
    for (int i = 0; i < d; i++) {
        shape[2 + i] = (in[2 + i] - 1) * spec.stride[i] - spec.pad_low[i] - spec.pad_high[i] + kernel[i];
    }
    ls_tensor *y = ls_max_unpool(n->s, x, index, ls_shape_make(d + 2, shape));
    if (ls_onnx_has(n, 2)) { /* the indices count in the shape above; what is asked for beyond it is zeros */
        ls_pad_spec pads[LS_MAX_RANK] = {{0, 0, 0}};
        LS_TRY(n->err, ls_onnx_ints(n, 2, &wanted, &given));
        if (given != d + 2) {
            return ls_onnx_fail(n, LS_ERR_SHAPE, "output_shape has %d numbers: expected %d", given, d + 2);
        }
        for (int i = 0; i < given; i++) {
            if (wanted[i] < 0) {
                return ls_onnx_fail(n, LS_ERR_SHAPE, "output_shape has %lld: expected extents", (long long)wanted[i]);
            }
            pads[i].high = wanted[i] - shape[i];
        }
        y = ls_pad(n->s, y, pads, 0);
    }
    return ls_onnx_out(n, 0, y);
}

/* ---- the rest ---- */

static ls_status lrn(ls_onnx_node *n) {
    int64_t size = ls_onnx_attr_int(n, "size", 0);
    double alpha = ls_onnx_attr_float(n, "alpha", 0.0001f), beta = ls_onnx_attr_float(n, "beta", 0.75);
    double bias = ls_onnx_attr_float(n, "bias", 1);
    ls_tensor *x = ls_onnx_in(n, 0);
    const ls_shape shape = x ? ls_tensor_shape(x) : LS_SCALAR;
    bool any;
    LS_TRY(n->err, shape.rank > 1 ? ls_onnx_at_least(n, shape.dim[1], ls_dim_of(1), &any) : LS_OK); /* or the builder says that it is empty */
    return ls_onnx_out(n, 0, ls_local_response_norm(n->s, x, size, alpha, beta, bias));
}

static ls_status dropout(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *mask = NULL;
    double ratio = 0.5;
    int64_t training = 0;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (n->version < 7 && !ls_onnx_attr_int(n, "is_test", 0)) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "is_test is 0: training is supported from opset 12 on");
    }
    if (n->version >= 12) {
        LS_TRY(n->err, ls_onnx_int(n, 2, 0, &training));
        if (training) {
            LS_TRY(n->err, ls_onnx_float(n, 1, 0.5, &ratio));
        }
    }
    ls_shape shape = ls_tensor_shape(x);
    ls_dtype dtype = ls_tensor_dtype(x);
    if (!training || ratio == 0) {
        mask = ls_full(n->s, n->version < 10 ? dtype : LS_BOOL, shape, 1);
    } else if (!(ratio > 0 && ratio < 1)) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "ratio %g: expected 0 or more and less than 1", ratio);
    } else {
        ls_tensor *key = ls_random_key(n->s, ls_onnx_stream(n, ls_onnx_attr(n, "seed"), (uint64_t)ls_onnx_attr_int(n, "seed", 0)));
        ls_tensor *u = ls_random_uniform(n->s, key, shape, LS_F32);
        mask = ls_ge(n->s, u, ls_full(n->s, LS_F32, LS_SCALAR, ratio));
        x = ls_dropout(n->s, x, ratio, key);
    }
    LS_TRY(n->err, ls_onnx_out(n, 0, x));
    return ls_onnx_wants(n, 1) ? ls_onnx_out(n, 1, mask) : LS_OK;
}

const ls_onnx_op ls_onnx_nn_ops[] = {{"", "Conv", 1, 2, 3, conv, ONNX_SYMBOLS},
                                     {"", "ConvTranspose", 1, 2, 3, conv_transpose, 0},
                                     {"", "DeformConv", 1, 3, 5, deform_conv, 0},
                                     {"", "CausalConvWithState", 1, 2, 4, causal_conv, 0},
                                     {"", "MaxPool", 1, 1, 1, max_pool, ONNX_SYMBOLS},
                                     {"", "AveragePool", 1, 1, 1, avg_pool, ONNX_SYMBOLS},
                                     {"", "LpPool", 1, 1, 1, lp_pool, 0},
                                     {"", "GlobalAveragePool", 1, 1, 1, global_avg_pool, ONNX_SYMBOLS},
                                     {"", "GlobalMaxPool", 1, 1, 1, global_max_pool, ONNX_SYMBOLS},
                                     {"", "GlobalLpPool", 1, 1, 1, global_lp_pool, 0},
                                     {"", "MaxUnpool", 1, 2, 3, max_unpool, 0},
                                     {"", "LRN", 1, 1, 1, lrn, ONNX_SYMBOLS},
                                     {"", "Dropout", 1, 1, 3, dropout, ONNX_DEVICE | ONNX_SYMBOLS},
                                     {0}};
