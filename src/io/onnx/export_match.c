/* Composites in the graph, as the format's operators.
 *
 * Each function takes the node that would be a composite's last, follows operands down to what its inputs would be, and asks the
 * library's own builder for the composite of those. Only if that is the node itself is it written as the operator. Attributes are
 * floats in a file, so builders are called with what a reader will see. */
#include "io/onnx/export.h"
#include <lockstep/grad.h>
#include <string.h>

static bool is(const ls_tensor *x, ls_op op) {
    return x && x->op == op;
}

/* Operand i, behind nothing. */
static ls_tensor *src(const ls_tensor *x, int i) {
    return x && i < x->n_src ? x->src[i] : NULL;
}

/* Down first operands: by one for each letter of `ops`, which must be so. */
static ls_tensor *down(ls_tensor *x, int n, const ls_op *ops) {
    for (int i = 0; i < n && x; i++) {
        x = x->op == ops[i] ? x->src[0] : NULL;
    }
    return x;
}
#define DOWN(x, ...)                                                                                         \
    down((x), (int)(sizeof((ls_op[]){__VA_ARGS__}) / sizeof(ls_op)), (const ls_op[]){__VA_ARGS__})

/* Behind movement of one operand, as far as it goes. */
static ls_tensor *unmoved(ls_tensor *x) {
    while (x && ls_ops[x->op].op_class == LS_CLASS_MOVE && x->n_src == 1) {
        x = x->src[0];
    }
    return x;
}

/* Composites compute halves in f32: what a half's composite computes before its last rounding, and what that is computed from. */
static ls_tensor *inside(ls_tensor *y) {
    bool half = y->dtype == LS_F16 || y->dtype == LS_BF16;
    return !half ? y : is(y, LS_OP_CAST) && y->src[0]->dtype == LS_F32 ? y->src[0] : NULL;
}
static ls_tensor *outside(const ls_tensor *y, ls_tensor *w) {
    bool half = y->dtype == LS_F16 || y->dtype == LS_BF16;
    return !half ? w : is(w, LS_OP_CAST) && w->src[0]->dtype == y->dtype ? w->src[0] : NULL;
}

/* A parameter of rank 1 that was broadcast. */
static ls_tensor *vector(const ls_tensor *y, ls_tensor *x) {
    while (x && (x->op == LS_OP_EXPAND || (x->op == LS_OP_RESHAPE && x->shape.rank > 1))) {
        x = x->src[0];
    }
    x = is(x, LS_OP_CAST) && x->src[0]->dtype == y->dtype ? x->src[0] : x; /* halves */
    while (x && x->op == LS_OP_RESHAPE && x->shape.rank > 1) {
        x = x->src[0];
    }
    return x && x->shape.rank == 1 ? x : NULL;
}

static bool constant(const ls_tensor *x, double *out) {
    return x && ls_is_const(x, out);
}

/* The operator that the step becomes, if the guess was right. */
static Onnx__NodeProto *found(ls_onnx_export *e, ls_onnx_step *step, const ls_tensor *guess, const char *type,
                              int n_in, ls_tensor *const *in) {
    if (guess != step->node || !ls_export_operands(e, step, n_in, in)) {
        return NULL;
    }
    return step->proto = ls_export_op(e, type, 0);
}

/* ---- element by element ---- */

typedef ls_tensor *(*unary_fn)(ls_session *s, ls_tensor *x);

static bool unary(ls_onnx_export *e, ls_onnx_step *step, ls_tensor *w, unary_fn f, const char *type) {
    ls_tensor *x = w ? outside(step->node, w) : NULL;
    return x && found(e, step, f(e->s, x), type, 1, &x);
}

static bool match_relu(ls_onnx_export *e, ls_onnx_step *step) {
    ls_tensor *x = src(step->node, 0);
    return is(step->node, LS_OP_MAX) && found(e, step, ls_relu(e->s, x), "Relu", 1, &x);
}

static bool match_sigmoid(ls_onnx_export *e, ls_onnx_step *step) {
    ls_tensor *y = inside(step->node),
              *e_x = is(y, LS_OP_RECIP) && is(y->src[0], LS_OP_ADD) ? src(y->src[0], 1) : NULL;
    return unary(e, step, DOWN(e_x, LS_OP_EXP, LS_OP_MIN, LS_OP_NEG), ls_sigmoid, "Sigmoid");
}

static bool match_product(ls_onnx_export *e, ls_onnx_step *step) {
    ls_tensor *y = inside(step->node), *a = is(y, LS_OP_MUL) ? y->src[0] : NULL;
    if (!a) {
        return false;
    }
    if (is(y->src[1], LS_OP_TANH) && unary(e, step, a, ls_mish, "Mish")) {
        return true;
    }
    if (is(y->src[1], LS_OP_ADD) && is(a, LS_OP_MUL)) {
        bool erf = is(src(y->src[1], 1), LS_OP_ERF);
        if (unary(e, step, a->src[0], erf ? ls_gelu : ls_gelu_tanh, "Gelu")) {
            ls_export_string(e, step->proto, "approximate", erf ? "none" : "tanh");
            return true;
        }
    }
    return is(a, LS_OP_SUB) && unary(e, step, DOWN(a->src[0], LS_OP_LOG1P), ls_atanh, "Atanh");
}

/* where(test, ..): the operand in one arm, something of it times a slope in the other. */
static bool match_sloped(ls_onnx_export *e, ls_onnx_step *step, ls_tensor *y, int plain, int sloped,
                         ls_tensor *(*build)(ls_session *s, ls_tensor *x, double slope), const char *op) {
    ls_tensor *x = outside(step->node, y->src[plain]);
    double slope;
    if (!x || !is(y->src[sloped], LS_OP_MUL) || !constant(y->src[sloped]->src[1], &slope) ||
        !found(e, step, build(e->s, x, (float)slope), op, 1, &x)) {
        return false;
    }
    ls_export_float(e, step->proto, "alpha", slope);
    return true;
}

static bool match_choice(ls_onnx_export *e, ls_onnx_step *step) {
    ls_tensor *y = inside(step->node), *test = is(y, LS_OP_WHERE) ? y->src[0] : NULL;
    if (!is(test, LS_OP_LT)) {
        return false;
    }
    return unary(e, step, test->src[1], ls_softplus, "Softplus") || match_sloped(e, step, y, 1, 2, ls_elu, "Elu") ||
           match_sloped(e, step, y, 2, 1, ls_leaky_relu, "LeakyRelu") || unary(e, step, test->src[0], ls_asinh, "Asinh") ||
           unary(e, step, test->src[1], ls_acosh, "Acosh");
}

/* ---- along axes ---- */

/* The REDUCE that is under movement. */
static ls_tensor *reduction(ls_tensor *x, ls_op op) {
    x = unmoved(x);
    return is(x, op) ? x : NULL;
}

static bool match_softmax(ls_onnx_export *e, ls_onnx_step *step) {
    ls_tensor *y = inside(step->node), *sum, *x;
    if (is(y, LS_OP_DIV)) {
        sum = reduction(y->src[1], LS_OP_SUM);
        x = DOWN(y->src[0], LS_OP_EXP, LS_OP_SUB);
    } else {
        ls_tensor *log = is(y, LS_OP_SUB) ? unmoved(y->src[1]) : NULL;
        sum = is(log, LS_OP_LOG) ? reduction(log->src[0], LS_OP_SUM) : NULL;
        x = sum ? DOWN(y->src[0], LS_OP_SUB) : NULL;
    }
    x = x ? outside(step->node, x) : NULL;
    if (!sum || !x) {
        return false;
    }
    int axis = sum->attr.axes.axes[0];
    bool plain = is(y, LS_OP_DIV);
    ls_tensor *guess = plain ? ls_softmax(e->s, x, axis) : ls_log_softmax(e->s, x, axis);
    if (!found(e, step, guess, plain ? "Softmax" : "LogSoftmax", 1, &x)) {
        return false;
    }
    ls_export_int(e, step->proto, "axis", axis);
    return true;
}

/* A constant operand: a list of axes. */
static ls_tensor *axes_tensor(ls_onnx_export *e, int count, const int *axes) {
    int64_t list[LS_MAX_RANK];
    for (int i = 0; i < count; i++) {
        list[i] = axes[i];
    }
    return ls_tensor_from(e->s, LS_I64, LS_SHAPE(count), list);
}

static bool ascending(const ls_attr_axes *axes) {
    for (int i = 1; i < axes->count; i++) {
        if (axes->axes[i] < axes->axes[i - 1]) {
            return false;
        }
    }
    return true;
}

static bool match_mean(ls_onnx_export *e, ls_onnx_step *step) {
    ls_tensor *y = inside(step->node), *total = is(y, LS_OP_DIV) ? y->src[0] : NULL;
    bool keep = is(total, LS_OP_RESHAPE);
    ls_tensor *sum = keep ? total->src[0] : total, *in[2];
    if (!is(sum, LS_OP_SUM) || !ascending(&sum->attr.axes) || !(in[0] = outside(step->node, sum->src[0]))) {
        return false;
    }
    const ls_attr_axes *axes = &sum->attr.axes;
    in[1] = axes_tensor(e, axes->count, axes->axes);
    if (!in[1] || !found(e, step, ls_mean(e->s, in[0], axes->count, axes->axes, keep), "ReduceMean", 2, in)) {
        return false;
    }
    ls_export_int(e, step->proto, "keepdims", keep);
    return true;
}

/* ---- norms: d / sqrt(v + eps) * gamma + beta ---- */

typedef struct norm {
    ls_tensor *quotient, *gamma, *beta; /* as they are multiplied and added */
    ls_tensor *variance;                /* to which eps is added */
    double eps;
} norm;

static bool norm_read(ls_tensor *y, norm *out) {
    ls_tensor *scaled = is(y, LS_OP_ADD) ? y->src[0] : y;
    *out = (norm){.beta = is(y, LS_OP_ADD) ? y->src[1] : NULL};
    if (!is(scaled, LS_OP_MUL) || !is(scaled->src[0], LS_OP_DIV)) {
        return false;
    }
    out->quotient = scaled->src[0];
    out->gamma = scaled->src[1];
    ls_tensor *root = unmoved(out->quotient->src[1]), *sum = is(root, LS_OP_SQRT) ? root->src[0] : NULL;
    out->variance = is(sum, LS_OP_ADD) ? sum->src[0] : NULL;
    return out->variance && constant(sum->src[1], &out->eps);
}

/* gamma or beta of a layer norm: of the shape of the axes that are normalised. */
static ls_tensor *trailing(ls_tensor *x, int rank) {
    while (x && (x->op == LS_OP_EXPAND || (x->op == LS_OP_RESHAPE && x->shape.rank > rank))) {
        x = x->src[0];
    }
    return x;
}

static bool match_layer_norm(ls_onnx_export *e, ls_onnx_step *step) {
    ls_tensor *y = step->node, *x, *sum;
    norm n;
    if (y->dtype != LS_F32 ||
        !norm_read(y, &n)) { /* a file's halves are rounded between, its doubles computed in f32 */
        return false;
    }
    x = DOWN(n.quotient->src[0], LS_OP_SUB);
    sum = is(n.variance, LS_OP_DIV) ? unmoved(n.variance->src[0]) : NULL;
    if (!x || !is(sum, LS_OP_SUM)) {
        return false;
    }
    int count = sum->attr.axes.count, axis = x->shape.rank - count;
    ls_tensor *in[3] = {x, trailing(n.gamma, count), trailing(n.beta, count)};
    ls_tensor *guess = ls_layer_norm(e->s, x, axis, in[1], in[2], (float)n.eps);
    if (!found(e, step, guess, "LayerNormalization", in[2] ? 3 : 2, in)) {
        return false;
    }
    ls_export_int(e, step->proto, "axis", axis);
    ls_export_float(e, step->proto, "epsilon", n.eps);
    return true;
}

static bool match_batch_norm(ls_onnx_export *e, ls_onnx_step *step) {
    ls_tensor *y = inside(step->node);
    norm n;
    if (!y || !norm_read(y, &n) || !n.beta || !is(n.quotient->src[0], LS_OP_SUB)) {
        return false;
    }
    ls_tensor *d = n.quotient->src[0], *in[5] = {outside(step->node, d->src[0])};
    ls_tensor *parameters[4] = {n.gamma, n.beta, d->src[1], n.variance};
    for (int i = 0; i < 4; i++) {
        in[i + 1] = vector(step->node, parameters[i]);
        if (!in[0] || !in[i + 1]) {
            return false;
        }
    }
    ls_tensor *guess = ls_batch_norm(e->s, in[0], in[3], in[4], in[1], in[2], (float)n.eps);
    if (!found(e, step, guess, "BatchNormalization", 5, in)) {
        return false;
    }
    ls_export_float(e, step->proto, "epsilon", n.eps);
    return true;
}

/* ---- windows ---- */

/* What lies under a contraction or reduction: movement, down to what could be the operand. */
typedef struct windows {
    const ls_tensor *window, *pad; /* pad: directly below, absent; NULL: none */
    ls_tensor *below;              /* what is windowed, or padded */
} windows;

static bool windows_read(ls_tensor *x, windows *out) {
    while (x && x->op != LS_OP_WINDOW && ls_ops[x->op].op_class == LS_CLASS_MOVE && x->n_src == 1) {
        x = x->src[0]; /* flips */
    }
    if (!is(x, LS_OP_WINDOW)) {
        return false;
    }
    *out = (windows){.window = x, .below = x->src[0]};
    if (is(out->below, LS_OP_PAD) && out->below->attr.pad.absent) {
        out->pad = out->below;
        out->below = out->below->src[0];
    }
    return out->window->attr.window.count <= LS_MAX_SPATIAL;
}

/* The geometry of a forward convolution or pool; pads at most as long as readers take them. */
static bool windows_spec(const windows *w, ls_conv_spec *out, int64_t *kernel) {
    const ls_attr_window *a = &w->window->attr.window;
    *out = (ls_conv_spec){.spatial = a->count};
    for (int i = 0; i < a->count; i++) {
        int axis = a->axes[i];
        kernel[i] = a->size[i];
        out->stride[i] = a->stride[i];
        out->dilation[i] = a->dilation[i];
        out->pad_low[i] = w->pad ? w->pad->attr.pad.low[axis] : 0;
        out->pad_high[i] = w->pad ? w->pad->attr.pad.high[axis] : 0;
        if (out->pad_low[i] < 0 || out->pad_high[i] < 0) {
            return false;
        }
    }
    return true;
}

/* ls_conv_transpose pads by kernel reach less the padding given, spreads by the stride, and flips. */
static bool windows_transposed(const windows *w, ls_conv_spec *out) {
    const ls_attr_window *a = &w->window->attr.window;
    *out = (ls_conv_spec){.spatial = a->count};
    for (int i = 0; i < a->count; i++) {
        int axis = a->axes[i];
        int64_t reach = (a->size[i] - 1) * a->dilation[i];
        out->stride[i] = w->pad ? w->pad->attr.pad.interior[axis] + 1 : 1;
        out->dilation[i] = a->dilation[i];
        out->pad_low[i] = reach - (w->pad ? w->pad->attr.pad.low[axis] : 0);
        out->pad_high[i] = reach - (w->pad ? w->pad->attr.pad.high[axis] : 0);
        if (out->pad_high[i] < 0) {
            out->output_padding[i] = -out->pad_high[i];
            out->pad_high[i] = 0;
        }
        if (out->pad_low[i] < 0 || a->stride[i] != 1) {
            return false;
        }
    }
    return true;
}

static void conv_attributes(ls_onnx_export *e, Onnx__NodeProto *node, const ls_conv_spec *spec,
                            const int64_t *kernel) {
    int64_t pads[2 * LS_MAX_SPATIAL];
    int d = spec->spatial;
    bool padded = false, dilated = false;
    for (int i = 0; i < d; i++) {
        pads[i] = spec->pad_low[i];
        pads[d + i] = spec->pad_high[i];
        padded |= pads[i] || pads[d + i];
        dilated |= spec->dilation[i] != 1;
    }
    ls_export_ints(e, node, "kernel_shape", d, kernel);
    ls_export_ints(e, node, "strides", d, spec->stride);
    if (padded) {
        ls_export_ints(e, node, "pads", 2 * d, pads);
    }
    if (dilated) {
        ls_export_ints(e, node, "dilations", d, spec->dilation);
    }
    if (spec->groups > 1) {
        ls_export_int(e, node, "group", spec->groups);
    }
}

/* The CONTRACT of a convolution, with or without groups, and its bias. */
typedef struct conv_parts {
    ls_tensor *contract, *bias;
} conv_parts;

static bool conv_read(ls_tensor *y, conv_parts *out) {
    *out = (conv_parts){.contract = unmoved(y)};
    if (is(y, LS_OP_ADD)) {
        out->contract = unmoved(y->src[0]);
        out->bias = vector(y, y->src[1]);
        if (!out->bias) {
            return false;
        }
    }
    return is(out->contract, LS_OP_CONTRACT);
}

/* One guess at the operand and the filter. `core`: the node to hit is the contraction, and what is written is a transposition of it. */
static bool conv_guess(ls_onnx_export *e, ls_onnx_step *step, const windows *w, ls_tensor *x,
                       ls_tensor *filter, ls_tensor *bias) {
    ls_conv_spec spec;
    ls_tensor *in[3] = {x, filter, bias};
    int64_t kernel[LS_MAX_SPATIAL];
    int d = w->window->attr.window.count, n_in = bias ? 3 : 2;
    if (x->shape.rank != d + 2 || filter->shape.rank != d + 2 || !ls_dim_is_fixed(x->shape.dim[1]) ||
        !ls_shape_is_fixed(&filter->shape)) {
        return false;
    }
    int64_t channels = x->shape.dim[1].offset, in_channels = filter->shape.dim[1].offset;
    if (windows_spec(w, &spec, kernel) && in_channels > 0 && channels % in_channels == 0) {
        spec.groups = channels / in_channels;
        if (spec.groups > 0 && found(e, step, ls_conv(e->s, x, filter, bias, &spec), "Conv", n_in, in)) {
            conv_attributes(e, step->proto, &spec, kernel);
            return true;
        }
    }
    if (!windows_transposed(w, &spec) || filter->shape.dim[0].offset != channels) {
        return false;
    }
    int64_t results = step->node->shape.rank == d + 2 && ls_dim_is_fixed(step->node->shape.dim[1])
                          ? step->node->shape.dim[1].offset
                          : 0;
    spec.groups = in_channels > 0 && results % in_channels == 0 ? results / in_channels : 0;
    if (spec.groups < 1 ||
        !found(e, step, ls_conv_transpose(e->s, x, filter, bias, &spec), "ConvTranspose", n_in, in)) {
        return false;
    }
    conv_attributes(e, step->proto, &spec, w->window->attr.window.size);
    bool more = false;
    for (int i = 0; i < d; i++) {
        more |= spec.output_padding[i] != 0;
    }
    if (more) {
        ls_export_ints(e, step->proto, "output_padding", d, spec.output_padding);
    }
    return true;
}

static bool is_view(const ls_tensor *x) {
    return is(x, LS_OP_RESHAPE) || is(x, LS_OP_PERMUTE);
}

static bool match_conv(ls_onnx_export *e, ls_onnx_step *step) {
    conv_parts parts;
    windows w;
    if (!conv_read(step->node, &parts) || is(step->node, LS_OP_CONTRACT) ||
        !windows_read(parts.contract->src[0], &w)) {
        return false;
    }
    /* The operand and the filter lie below what groups and layouts put on them, or are that. */
    for (ls_tensor *x = w.below; x; x = is_view(x) ? x->src[0] : NULL) {
        for (ls_tensor *filter = parts.contract->src[1]; filter;
             filter = is_view(filter) ? filter->src[0] : NULL) {
            if (conv_guess(e, step, &w, x, filter, parts.bias)) {
                return true;
            }
        }
    }
    return false;
}

static bool match_max_pool(ls_onnx_export *e, ls_onnx_step *step) {
    windows w;
    ls_conv_spec spec;
    int64_t kernel[LS_MAX_SPATIAL];
    if (!is(step->node, LS_OP_AMAX) || !windows_read(step->node->src[0], &w) ||
        !windows_spec(&w, &spec, kernel)) {
        return false;
    }
    for (int i = 0; i < spec.spatial; i++) {
        if (spec.pad_low[i] >= kernel[i] || spec.pad_high[i] >= kernel[i]) {
            return false; /* readers refuse a window of padding alone */
        }
    }
    if (!found(e, step, ls_max_pool(e->s, w.below, kernel, &spec), "MaxPool", 1, &w.below)) {
        return false;
    }
    conv_attributes(e, step->proto, &spec, kernel);
    return true;
}

static bool match_avg_pool(ls_onnx_export *e, ls_onnx_step *step) {
    windows w;
    ls_conv_spec spec;
    int64_t kernel[LS_MAX_SPATIAL];
    ls_tensor *y = inside(step->node), *sum = is(y, LS_OP_DIV) ? y->src[0] : NULL;
    ls_tensor *x = is(sum, LS_OP_SUM) && windows_read(sum->src[0], &w) ? outside(step->node, w.below) : NULL;
    if (!x || !windows_spec(&w, &spec, kernel)) {
        return false;
    }
    for (int i = 0; i < spec.spatial; i++) {
        if (spec.pad_low[i] >= kernel[i] || spec.pad_high[i] >= kernel[i]) {
            return false;
        }
    }
    for (int all = 0; all < 2; all++) {
        if (found(e, step, ls_avg_pool(e->s, x, kernel, &spec, all), "AveragePool", 1, &x)) {
            conv_attributes(e, step->proto, &spec, kernel);
            if (all) {
                ls_export_int(e, step->proto, "count_include_pad", 1);
            }
            return true;
        }
    }
    return false;
}

/* ---- products with a bias ---- */

/* a b^T + c and the like over matrices: what a layer of features is. */
static bool match_gemm(ls_onnx_export *e, ls_onnx_step *step) {
    ls_tensor *y = step->node, *product = is(y, LS_OP_ADD) ? y->src[0] : y;
    bool plain = y->dtype == LS_F32 || y->dtype == LS_F64 || y->dtype == LS_I32 || y->dtype == LS_I64;
    if (!plain || !is(product, LS_OP_CONTRACT) || product->src[0]->dtype != y->dtype ||
        product->src[0]->shape.rank != 2 || product->src[1]->shape.rank != 2 ||
        product->attr.contract.n_batch || product->attr.contract.n_contract != 1 || product->src[0]->absent ||
        product->src[1]->absent) {
        return false;
    }
    bool a_turned = product->attr.contract.contract_a[0] == 0,
         b_turned = product->attr.contract.contract_b[0] == 1;
    ls_tensor *in[3] = {product->src[0], product->src[1],
                        y == product ? NULL : ls_export_narrow(e, y->src[1])};
    bool simple = y == product && !a_turned && !b_turned;
    if (!found(e, step, y, simple ? "MatMul" : "Gemm", in[2] ? 3 : 2, in)) {
        return false;
    }
    if (a_turned) {
        ls_export_int(e, step->proto, "transA", 1);
    }
    if (b_turned) {
        ls_export_int(e, step->proto, "transB", 1);
    }
    return true;
}

bool ls_export_match(ls_onnx_export *e, ls_onnx_step *step) {
    static bool (*const all[])(ls_onnx_export *, ls_onnx_step *) = {match_relu,
                                                                    match_sigmoid,
                                                                    match_product,
                                                                    match_choice,
                                                                    match_softmax,
                                                                    match_layer_norm,
                                                                    match_batch_norm,
                                                                    match_mean,
                                                                    match_conv,
                                                                    match_max_pool,
                                                                    match_avg_pool,
                                                                    match_gemm,
                                                                    ls_export_match_recurrent};
    for (size_t i = 0; i < sizeof all / sizeof *all && !step->node->absent && !ls_export_failed(e); i++) {
        if (all[i](e, step)) {
            return true;
        }
    }
    return false;
}
