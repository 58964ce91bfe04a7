/* Operators of ONNX Runtime's domain, com.microsoft, that exported and fused models carry; their definitions are its ContribOperators
 * page's. Attention and its relatives: ops_contrib_attention.c. */
#include "io/onnx/contrib.h"
#include "io/onnx/extent.h"
#include <inttypes.h>
#include <string.h>

/* ---- norms ---- */

/* Layer (or, without beta's centre, RMS) normalisation of the last axis of x, with results 0 to 2 of the operator. */
static ls_status last_norm(ls_onnx_node *n, ls_tensor *x, ls_tensor *gamma, ls_tensor *beta, bool center,
                           double eps) {
    int last = -1;
    if (!x || !gamma) {
        return ls_onnx_out(n, 0, NULL);
    }
    ls_tensor *d = ls_cast(n->s, x, ls_tensor_dtype(x) == LS_F64 ? LS_F64 : LS_F32), *mean = NULL;
    ls_dtype wide = d ? ls_tensor_dtype(d) : LS_F32;
    if (center) {
        mean = ls_mean(n->s, d, 1, &last, 1);
        d = ls_sub(n->s, d, mean);
    }
    ls_tensor *variance = ls_mean(n->s, ls_mul(n->s, d, d), 1, &last, 1);
    ls_tensor *root = ls_sqrt(n->s, ls_add(n->s, variance, ls_onnx_scalar(n, wide, eps)));
    ls_tensor *y = ls_mul(n->s, ls_div(n->s, d, root), ls_cast(n->s, gamma, wide));
    y = beta ? ls_add(n->s, y, ls_cast(n->s, beta, wide)) : y;
    LS_TRY(n->err, ls_onnx_out(n, 0, y ? ls_cast(n->s, y, ls_tensor_dtype(x)) : NULL));
    if (mean) {
        LS_TRY(n->err, ls_onnx_out(n, 1, mean));
    }
    return ls_onnx_wants(n, center ? 2 : 1) ? ls_onnx_out(n, center ? 2 : 1, ls_recip(n->s, root)) : LS_OK;
}

static ls_status skip_norm(ls_onnx_node *n, bool center) {
    ls_tensor *x = ls_onnx_in(n, 0), *skip = ls_onnx_in(n, 1), *gamma = ls_onnx_in(n, 2);
    ls_tensor *beta = center ? ls_onnx_in(n, 3) : NULL, *bias = ls_onnx_in(n, center ? 4 : 3);
    ls_tensor *sum = ls_add(n->s, x, skip);
    sum = bias ? ls_add(n->s, sum, bias) : sum;
    if (!center && (ls_onnx_wants(n, 1) || ls_onnx_wants(n, 2))) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "the statistics as results");
    }
    LS_TRY(n->err, last_norm(n, sum, gamma, beta, center, ls_onnx_attr_float(n, "epsilon", 1e-12f)));
    return ls_onnx_wants(n, 3) ? ls_onnx_out(n, 3, sum) : LS_OK;
}

static ls_status skip_layer_norm(ls_onnx_node *n) {
    return skip_norm(n, true);
}

static ls_status skip_simplified_layer_norm(ls_onnx_node *n) {
    return skip_norm(n, false);
}

static ls_status simplified_layer_norm(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0);
    int64_t dims[LS_MAX_RANK];
    int axis;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    int rank = ls_onnx_dims(x, dims);
    LS_TRY(n->err, ls_onnx_axis(n, ls_onnx_attr_int(n, "axis", -1), rank, &axis));
    if (axis != rank - 1) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "axis %d of rank %d: expected the last", axis, rank);
    }
    return last_norm(n, x, ls_onnx_in(n, 1), NULL, false, ls_onnx_attr_float(n, "epsilon", 1e-5f));
}

/* Words, positions and segments looked up, added and normalised. */
static ls_status embed_layer_norm(ls_onnx_node *n) {
    ls_tensor *ids = ls_onnx_in(n, 0), *segments = ls_onnx_in(n, 1), *words = ls_onnx_in(n, 2),
              *places = ls_onnx_in(n, 3);
    ls_tensor *kinds = ls_onnx_in(n, 4), *gamma = ls_onnx_in(n, 5), *beta = ls_onnx_in(n, 6),
              *mask = ls_onnx_in(n, 7);
    ls_tensor *at = ls_onnx_in(n, 8);
    if (!ids || !words || !places) {
        return ls_onnx_out(n, 0, NULL);
    }
    const ls_shape shape = ls_tensor_shape(ids);
    if (shape.rank != 2) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "expected input_ids [batch, steps]");
    }
    const ls_shape line = {.rank = 2, .dim = {ls_dim_of(1), shape.dim[1]}}, each = {.rank = 1, .dim = {shape.dim[0]}};
    at = at ? at : ls_iota(n->s, LS_I32, line, 1);
    ls_tensor *sum = ls_add(n->s, ls_gather(n->s, words, ids, 0), ls_gather(n->s, places, at, 0));
    if (segments && kinds) {
        sum = ls_add(n->s, sum, ls_gather(n->s, kinds, segments, 0));
    }
    /* the norm's own results 1 and 2 are not this operator's: only its first is made here */
    int last = -1;
    ls_tensor *w = sum ? ls_cast(n->s, sum, ls_tensor_dtype(sum) == LS_F64 ? LS_F64 : LS_F32) : NULL;
    if (!w || !gamma || !beta) {
        return ls_onnx_out(n, 0, NULL);
    }
    ls_dtype wide = ls_tensor_dtype(w);
    ls_tensor *y = ls_layer_norm(n->s, w, -1, ls_cast(n->s, gamma, wide), ls_cast(n->s, beta, wide),
                                 ls_onnx_attr_float(n, "epsilon", 1e-12f));
    LS_TRY(n->err, ls_onnx_out(n, 0, y ? ls_cast(n->s, y, ls_tensor_dtype(sum)) : NULL));
    if (ls_onnx_wants(n, 1)) {
        ls_tensor *count = mask ? ls_sum(n->s, mask, 1, &last, 0) : ls_full(n->s, LS_I32, each, 0);
        LS_TRY(n->err, ls_onnx_out(n, 1, count));
    }
    return ls_onnx_wants(n, 2) ? ls_onnx_out(n, 2, sum) : LS_OK;
}

/* ---- activations ---- */

static ls_tensor *biased(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *bias = ls_onnx_in(n, 1);
    return bias ? ls_add(n->s, x, bias) : x;
}

static ls_status fast_gelu(ls_onnx_node *n) {
    ls_tensor *x = biased(n);
    return ls_onnx_out(n, 0, x ? ls_gelu_tanh(n->s, x) : NULL);
}

static ls_status gelu(ls_onnx_node *n) {
    ls_tensor *x = biased(n);
    return ls_onnx_out(n, 0, x ? ls_gelu(n->s, x) : NULL);
}

static ls_status quick_gelu(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0);
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    ls_tensor *alpha = ls_onnx_scalar(n, ls_tensor_dtype(x), ls_onnx_attr_float(n, "alpha", 1.702f));
    return ls_onnx_out(n, 0, ls_mul(n->s, x, ls_sigmoid(n->s, ls_mul(n->s, x, alpha))));
}

static ls_status bias_add(ls_onnx_node *n) {
    return ls_onnx_out(n, 0,
                       ls_add(n->s, ls_add(n->s, ls_onnx_in(n, 0), ls_onnx_in(n, 1)), ls_onnx_in(n, 2)));
}

/* The activation that a fused operator names. */
static ls_status activated(ls_onnx_node *n, ls_tensor *x, ls_tensor **out) {
    const char *name = ls_onnx_attr_string(n, "activation", "");
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    int count;
    const float *p = ls_onnx_attr_floats(n, "activation_params", &count);
    double alpha = count > 0 ? p[0] : ls_onnx_attr_float(n, "activation_alpha", 0.01f);
    double beta = count > 1 ? p[1] : ls_onnx_attr_float(n, "activation_beta", 0);
    ls_dtype dtype = ls_tensor_dtype(x);
    ls_tensor *a = ls_onnx_scalar(n, dtype, alpha), *b = ls_onnx_scalar(n, dtype, beta),
              *zero = ls_onnx_scalar(n, dtype, 0);
    if (strcmp(name, "Relu") == 0) {
        *out = ls_relu(n->s, x);
    } else if (strcmp(name, "Tanh") == 0) {
        *out = ls_tanh(n->s, x);
    } else if (strcmp(name, "Sigmoid") == 0) {
        *out = ls_sigmoid(n->s, x);
    } else if (strcmp(name, "LeakyRelu") == 0) {
        *out = ls_where(n->s, ls_lt(n->s, x, zero), ls_mul(n->s, x, a), x);
    } else if (strcmp(name, "Clip") == 0 && count == 2) {
        *out = ls_min(n->s, ls_max(n->s, x, a), b);
    } else if (strcmp(name, "HardSigmoid") == 0) {
        *out = ls_max(n->s, ls_min(n->s, ls_add(n->s, ls_mul(n->s, x, a), b), ls_onnx_scalar(n, dtype, 1)),
                      zero);
    } else if (*name == '\0') {
        *out = x;
    } else {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "activation \"%s\"", name);
    }
    return LS_OK;
}

/* ---- products ---- */

/* The operand of FusedMatMul as [batch..., rows, columns]: `batch` brings its first axis behind the others, then `swap` exchanges the last two. */
static ls_tensor *matrix_operand(ls_onnx_node *n, ls_tensor *x, bool swap, bool batch) {
    int64_t d[LS_MAX_RANK];
    int axes[LS_MAX_RANK];
    if (!x) {
        return NULL;
    }
    int rank = ls_onnx_dims(x, d);
    if (batch && rank > 2) {
        for (int i = 0; i < rank - 2; i++) {
            axes[i] = i + 1;
        }
        axes[rank - 2] = 0;
        axes[rank - 1] = rank - 1;
        x = ls_permute(n->s, x, axes);
    }
    return swap && rank > 1 ? ls_transpose(n->s, x, -2, -1) : x;
}

static ls_status fused_matmul(ls_onnx_node *n) {
    ls_tensor *a = matrix_operand(n, ls_onnx_in(n, 0), ls_onnx_attr_int(n, "transA", 0),
                                  ls_onnx_attr_int(n, "transBatchA", 0));
    ls_tensor *b = matrix_operand(n, ls_onnx_in(n, 1), ls_onnx_attr_int(n, "transB", 0),
                                  ls_onnx_attr_int(n, "transBatchB", 0));
    double alpha = ls_onnx_attr_float(n, "alpha", 1);
    ls_tensor *y = a && b ? ls_matmul(n->s, a, b) : NULL;
    if (y && alpha != 1) {
        y = ls_mul(n->s, y, ls_onnx_scalar(n, ls_tensor_dtype(y), alpha));
    }
    LS_TRY(n->err, activated(n, y, &y));
    return ls_onnx_out(n, 0, y);
}

static ls_status fused_gemm(ls_onnx_node *n) {
    ls_tensor *a = matrix_operand(n, ls_onnx_in(n, 0), ls_onnx_attr_int(n, "transA", 0), false),
              *c = ls_onnx_in(n, 2);
    ls_tensor *b = matrix_operand(n, ls_onnx_in(n, 1), ls_onnx_attr_int(n, "transB", 0), false);
    double alpha = ls_onnx_attr_float(n, "alpha", 1), beta = ls_onnx_attr_float(n, "beta", 1);
    ls_tensor *y = a && b ? ls_matmul(n->s, a, b) : NULL;
    if (y && alpha != 1) {
        y = ls_mul(n->s, y, ls_onnx_scalar(n, ls_tensor_dtype(y), alpha));
    }
    if (y && c) {
        y = ls_add(n->s, y, beta == 1 ? c : ls_mul(n->s, c, ls_onnx_scalar(n, ls_tensor_dtype(y), beta)));
    }
    LS_TRY(n->err, activated(n, y, &y));
    return ls_onnx_out(n, 0, y);
}

/* Convolution, plus operand 3 where there is one, and an activation. */
static ls_status fused_conv(ls_onnx_node *n) {
    ls_tensor *y, *more = ls_onnx_in(n, 3);
    LS_TRY(n->err, ls_onnx_conv(n, &y));
    LS_TRY(n->err, activated(n, more ? ls_add(n->s, y, more) : y, &y));
    return ls_onnx_out(n, 0, y);
}

/* Codes of `bits` bits, low ones first in each byte: u8 [..., bytes] to `dtype` [..., bytes * 8 / bits]. */
static ls_tensor *unpacked(ls_onnx_node *n, ls_tensor *x, int64_t bits, ls_dtype dtype) {
    int64_t d[LS_MAX_RANK];
    ls_tensor *parts[8];
    if (!x) {
        return NULL;
    }
    int rank = ls_onnx_dims(x, d), count = (int)(8 / bits);
    for (int i = 0; i < count; i++) {
        ls_tensor *code = ls_shr(n->s, x, ls_onnx_scalar(n, LS_U8, (double)(i * bits)));
        parts[i] = ls_and(n->s, code, ls_onnx_scalar(n, LS_U8, (double)((1 << bits) - 1)));
    }
    ls_tensor *all = ls_stack(n->s, parts, count, rank);
    d[rank - 1] *= count;
    return all ? ls_cast(n->s, ls_onnx_shaped(n, all, rank, d), dtype) : NULL;
}

/* a[..., K] by the transpose of a matrix [N, K] in blocks of block_size codes along K with a scale and a zero point each. */
static ls_status matmul_nbits(ls_onnx_node *n) {
    ls_tensor *a = ls_onnx_in(n, 0), *codes = ls_onnx_in(n, 1), *scales = ls_onnx_in(n, 2),
              *zeros = ls_onnx_in(n, 3);
    ls_tensor *order = ls_onnx_in(n, 4), *bias = ls_onnx_in(n, 5), *zero;
    int64_t k = ls_onnx_attr_int(n, "K", 0), rows = ls_onnx_attr_int(n, "N", 0),
            bits = ls_onnx_attr_int(n, "bits", 4);
    int64_t block = ls_onnx_attr_int(n, "block_size", 0);
    if (!a || !codes || !scales) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (k < 1 || rows < 1 || block < 1 || k > INT64_MAX / 2 - block ||
        (bits != 2 && bits != 4 && bits != 8)) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED,
                            "K %" PRId64 ", N %" PRId64 ", block_size %" PRId64 ", bits %" PRId64
                            ": expected positive numbers, and 2, 4 or 8 bits",
                            k, rows, block, bits);
    }
    ls_dtype dtype = ls_tensor_dtype(a);
    int64_t blocks = (k + block - 1) / block, packed = (blocks * bits + 7) / 8;
    const int64_t grid[] = {rows, blocks, block}, each[] = {rows, blocks, 1}, line[] = {rows, blocks * block},
                  lines[] = {rows, packed};
    if (!zeros) {
        zero = ls_onnx_scalar(n, dtype, (double)(1 << (bits - 1)));
    } else if (ls_tensor_dtype(zeros) == LS_U8) {
        ls_tensor *all = unpacked(n, ls_onnx_shaped(n, zeros, 2, lines), bits, dtype);
        zero = ls_onnx_shaped(n, ls_narrow(n->s, all, 1, 0, blocks), 3, each);
    } else {
        zero = ls_onnx_shaped(n, ls_cast(n->s, zeros, dtype), 3, each);
    }
    if (order) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "g_idx");
    }
    ls_tensor *w = unpacked(n, codes, bits, dtype);
    w = w ? ls_sub(n->s, ls_onnx_shaped(n, w, 3, grid), zero) : NULL;
    w = w ? ls_mul(n->s, w, ls_onnx_shaped(n, ls_cast(n->s, scales, dtype), 3, each)) : NULL;
    w = w ? ls_narrow(n->s, ls_onnx_shaped(n, w, 2, line), 1, 0, k) : NULL;
    return ls_onnx_out(n, 0, w ? ls_linear(n->s, a, w, bias) : NULL);
}

/* ---- quantised element by element: dequantised to f32, computed, quantised ---- */

/* (x - zero) * scale, operands i, i + 1 and i + 2; the zero point may be left out. */
static ls_tensor *real_numbers(ls_onnx_node *n, int i) {
    ls_tensor *x = ls_onnx_in(n, i), *scale = ls_onnx_in(n, i + 1), *zero = ls_onnx_in(n, i + 2);
    if (!x || !scale) {
        return NULL;
    }
    x = ls_cast(n->s, x, LS_I32);
    x = zero ? ls_sub(n->s, x, ls_cast(n->s, zero, LS_I32)) : x;
    return ls_mul(n->s, ls_cast(n->s, x, LS_F32), scale);
}

/* round(x / scale) + zero, saturated to `dtype`; operands i and i + 1. */
static ls_status codes_out(ls_onnx_node *n, ls_tensor *x, int i, ls_dtype dtype) {
    ls_tensor *scale = ls_onnx_in(n, i), *zero = ls_onnx_in(n, i + 1);
    if (!x || !scale) {
        return ls_onnx_out(n, 0, NULL);
    }
    ls_tensor *q = ls_rint(n->s, ls_div(n->s, x, scale));
    q = zero ? ls_add(n->s, q, ls_cast(n->s, zero, LS_F32)) : q;
    return ls_onnx_out(n, 0, ls_cast(n->s, q, dtype));
}

static ls_status qlinear_binary(ls_onnx_node *n, bool product) {
    ls_tensor *a = real_numbers(n, 0), *b = real_numbers(n, 3);
    if (!a || !b) {
        return ls_onnx_out(n, 0, NULL);
    }
    return codes_out(n, product ? ls_mul(n->s, a, b) : ls_add(n->s, a, b), 6,
                     ls_tensor_dtype(ls_onnx_in(n, 0)));
}

static ls_status qlinear_add(ls_onnx_node *n) {
    return qlinear_binary(n, false);
}

static ls_status qlinear_mul(ls_onnx_node *n) {
    return qlinear_binary(n, true);
}

static ls_status qlinear_sigmoid(ls_onnx_node *n) {
    ls_tensor *x = real_numbers(n, 0);
    return x ? codes_out(n, ls_sigmoid(n->s, x), 3, ls_tensor_dtype(ls_onnx_in(n, 0)))
             : ls_onnx_out(n, 0, NULL);
}

static ls_status qlinear_leaky_relu(ls_onnx_node *n) {
    ls_tensor *x = real_numbers(n, 0);
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    ls_tensor *zero = ls_onnx_scalar(n, LS_F32, 0),
              *alpha = ls_onnx_scalar(n, LS_F32, ls_onnx_attr_float(n, "alpha", 0.01f));
    return codes_out(n, ls_where(n->s, ls_lt(n->s, x, zero), ls_mul(n->s, x, alpha), x), 3,
                     ls_tensor_dtype(ls_onnx_in(n, 0)));
}

static ls_status qlinear_global_average_pool(ls_onnx_node *n) {
    ls_tensor *x = real_numbers(n, 0);
    int64_t d[LS_MAX_RANK];
    int axes[LS_MAX_RANK], count = 0;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    int rank = ls_onnx_dims(x, d), first = ls_onnx_attr_int(n, "channels_last", 0) ? 1 : 2;
    for (int i = first; i < rank - (first == 1); i++) {
        axes[count++] = i;
    }
    x = count ? ls_mean(n->s, x, count, axes, 1) : x;
    return codes_out(n, x, 3, ls_tensor_dtype(ls_onnx_in(n, 0)));
}

static ls_status qlinear_concat(ls_onnx_node *n) {
    ls_arena *arena = ls_onnx_arena(n);
    int count = (n->n_in - 2) / 3;
    ls_tensor **parts = ls_arena_alloc(arena, sizeof *parts * (size_t)(count + 1));
    if (!parts || count < 1 || n->n_in != 2 + 3 * count) {
        return ls_onnx_fail(n, parts ? LS_ERR_INVALID : LS_ERR_MEMORY,
                            "%d operands: expected 2 and then 3 for each tensor", n->n_in);
    }
    for (int i = 0; i < count; i++) {
        parts[i] = real_numbers(n, 2 + 3 * i);
        if (!parts[i]) {
            return ls_onnx_out(n, 0, NULL);
        }
    }
    ls_tensor *all = ls_concat(n->s, parts, count, (int)ls_onnx_attr_int(n, "axis", 0));
    return codes_out(n, all, 0, ls_tensor_dtype(ls_onnx_in(n, 2)));
}

/* x[N,...,C] to [N,C,...], or back. */
static ls_tensor *channels_moved(ls_onnx_node *n, ls_tensor *x, bool first) {
    int64_t d[LS_MAX_RANK];
    int axes[LS_MAX_RANK], rank = x ? ls_onnx_dims(x, d) : 0;
    for (int i = 0; i < rank; i++) {
        axes[i] = i == 0 ? 0 : first ? (i == 1 ? rank - 1 : i - 1) : (i == rank - 1 ? 1 : i + 1);
    }
    return x ? ls_permute(n->s, x, axes) : NULL;
}

/* Its mean is rounded after the zero point was added, which decides ties another way than QuantizeLinear's. */
static ls_status qlinear_average_pool(ls_onnx_node *n) {
    ls_tensor *x = real_numbers(n, 0), *scale = ls_onnx_in(n, 3), *zero = ls_onnx_in(n, 4), *y;
    bool last = ls_onnx_attr_int(n, "channels_last", 0) != 0;
    LS_TRY(n->err, ls_onnx_avg_pool(n, last ? channels_moved(n, x, true) : x, &y));
    if (!scale) {
        return ls_onnx_out(n, 0, NULL);
    }
    y = ls_div(n->s, last ? channels_moved(n, y, false) : y, scale);
    y = zero ? ls_add(n->s, y, ls_cast(n->s, zero, LS_F32)) : y;
    return ls_onnx_out(n, 0, ls_cast(n->s, ls_rint(n->s, y), ls_tensor_dtype(ls_onnx_in(n, 0))));
}

static ls_status qlinear_softmax(ls_onnx_node *n) {
    ls_tensor *x = real_numbers(n, 0);
    int64_t d[LS_MAX_RANK];
    int axis;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, ls_onnx_axis(n, ls_onnx_attr_int(n, "axis", -1), ls_onnx_dims(x, d), &axis));
    if (ls_onnx_attr_int(n, "opset", 13) < 13 && axis != ls_onnx_dims(x, d) - 1) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "opset below 13 with an axis that is not the last");
    }
    return codes_out(n, ls_softmax(n->s, x, axis), 3, ls_tensor_dtype(ls_onnx_in(n, 0)));
}

/* (a - a's zero) (b - b's zero) in i32, times both scales, plus the bias; a's zero and scale are given, b's are operands. */
static ls_status scaled_product(ls_onnx_node *n, ls_tensor *a, ls_tensor *a_zero, ls_tensor *a_scale,
                                int b_scale_at, int b_zero_at, int bias_at) {
    ls_tensor *b = ls_onnx_in(n, 1), *b_scale = ls_onnx_in(n, b_scale_at), *b_zero = ls_onnx_in(n, b_zero_at);
    ls_tensor *bias = ls_onnx_in(n, bias_at);
    if (!a || !b || !a_scale || !b_scale) {
        return ls_onnx_out(n, 0, NULL);
    }
    a = ls_cast(n->s, a, LS_I32);
    a = a_zero ? ls_sub(n->s, a, ls_cast(n->s, a_zero, LS_I32)) : a;
    b = ls_cast(n->s, b, LS_I32);
    b = b_zero ? ls_sub(n->s, b, ls_cast(n->s, b_zero, LS_I32)) : b;
    ls_tensor *y = ls_cast(n->s, ls_matmul(n->s, a, b), LS_F32);
    y = ls_mul(n->s, y, ls_mul(n->s, a_scale, b_scale));
    return ls_onnx_out(n, 0, bias ? ls_add(n->s, y, bias) : y);
}

static ls_status matmul_integer_to_float(ls_onnx_node *n) {
    return scaled_product(n, ls_onnx_in(n, 0), ls_onnx_in(n, 4), ls_onnx_in(n, 2), 3, 5, 6);
}

/* a is quantised as DynamicQuantizeLinear does: u8 over its range with 0 in it. */
static ls_status dynamic_quantize_matmul(ls_onnx_node *n) {
    ls_tensor *a = ls_onnx_in(n, 0), *b = ls_onnx_in(n, 1), *zero = ls_onnx_scalar(n, LS_F32, 0);
    ls_tensor *most = ls_onnx_scalar(n, LS_F32, 255), *one = ls_onnx_scalar(n, LS_F32, 1);
    if (!a || !b) {
        return ls_onnx_out(n, 0, NULL);
    }
    ls_tensor *low = ls_min(n->s, ls_amin(n->s, a, 0, NULL, 0), zero),
              *high = ls_max(n->s, ls_amax(n->s, a, 0, NULL, 0), zero);
    ls_tensor *scale = ls_div(n->s, ls_sub(n->s, high, low), most);
    scale = ls_where(n->s, ls_eq(n->s, scale, zero), one, scale);
    ls_tensor *offset =
        ls_rint(n->s, ls_min(n->s, ls_max(n->s, ls_div(n->s, ls_neg(n->s, low), scale), zero), most));
    ls_tensor *codes = ls_cast(n->s, ls_add(n->s, ls_rint(n->s, ls_div(n->s, a, scale)), offset), LS_U8);
    return scaled_product(n, codes, offset, scale, 2, 3, 4);
}

/* An operator that ai.onnx took over as it is, from the version named. */
static ls_status as_standard(ls_onnx_node *n, const char *name, int version) {
    const ls_onnx_op *op = ls_onnx_find("", name, version);
    if (!op) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "%s of ai.onnx is not there", name);
    }
    int own = n->version;
    n->version = version;
    ls_status status = op->fn(n);
    n->version = own;
    return status;
}

static ls_status quantize_linear(ls_onnx_node *n) {
    return as_standard(n, "QuantizeLinear", 21);
}

static ls_status dequantize_linear(ls_onnx_node *n) {
    return as_standard(n, "DequantizeLinear", 21);
}

static ls_status trilu(ls_onnx_node *n) {
    return as_standard(n, "Trilu", 14);
}

static ls_status qlinear_conv(ls_onnx_node *n) {
    if (ls_onnx_attr_int(n, "channels_last", 0)) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "channels_last");
    }
    return as_standard(n, "QLinearConv", 10);
}

#define MS "com.microsoft"
const ls_onnx_op ls_onnx_contrib_ops[] = {
    {MS, "Attention", 1, 2, 7, ls_onnx_ms_attention, ONNX_SYMBOLS},
    {MS, "MultiHeadAttention", 1, 1, 10, ls_onnx_ms_multi_head_attention, ONNX_SYMBOLS},
    {MS, "GroupQueryAttention", 1, 1, 14, ls_onnx_ms_group_query_attention, 0},
    {MS, "RotaryEmbedding", 1, 4, 4, ls_onnx_ms_rotary_embedding, ONNX_SYMBOLS},
    {MS, "SkipLayerNormalization", 1, 3, 5, skip_layer_norm, ONNX_SYMBOLS},
    {MS, "SkipSimplifiedLayerNormalization", 1, 3, 4, skip_simplified_layer_norm, ONNX_SYMBOLS},
    {MS, "SimplifiedLayerNormalization", 1, 2, 2, simplified_layer_norm, ONNX_SYMBOLS},
    {"", "SimplifiedLayerNormalization", 1, 2, 2, simplified_layer_norm, ONNX_SYMBOLS},
    {MS, "EmbedLayerNormalization", 1, 1, 9, embed_layer_norm, ONNX_SYMBOLS},
    {MS, "FastGelu", 1, 1, 2, fast_gelu, ONNX_SYMBOLS},
    {MS, "Gelu", 1, 1, 1, gelu, ONNX_SYMBOLS},
    {MS, "BiasGelu", 1, 2, 2, gelu, ONNX_SYMBOLS},
    {MS, "QuickGelu", 1, 1, 1, quick_gelu, ONNX_SYMBOLS},
    {MS, "BiasAdd", 1, 3, 3, bias_add, ONNX_SYMBOLS},
    {MS, "FusedMatMul", 1, 2, 2, fused_matmul, ONNX_SYMBOLS},
    {MS, "TransposeMatMul", 1, 2, 2, fused_matmul, ONNX_SYMBOLS},
    {MS, "FusedMatMulActivation", 1, 2, 2, fused_matmul, ONNX_SYMBOLS},
    {MS, "FusedGemm", 1, 2, 3, fused_gemm, ONNX_SYMBOLS},
    {MS, "FusedConv", 1, 2, 4, fused_conv, 0},
    {MS, "QLinearAveragePool", 1, 2, 5, qlinear_average_pool, 0},
    {MS, "QLinearSoftmax", 1, 2, 5, qlinear_softmax, 0},
    {MS, "QLinearConv", 1, 8, 9, qlinear_conv, 0},
    {MS, "MatMulIntegerToFloat", 1, 4, 7, matmul_integer_to_float, 0},
    {MS, "DynamicQuantizeMatMul", 1, 3, 5, dynamic_quantize_matmul, 0},
    {MS, "QuantizeLinear", 1, 2, 3, quantize_linear, 0},
    {MS, "DequantizeLinear", 1, 2, 3, dequantize_linear, ONNX_BLOCKS},
    {MS, "Trilu", 1, 1, 2, trilu, ONNX_SYMBOLS},
    {MS, "MatMulNBits", 1, 3, 6, matmul_nbits, ONNX_SYMBOLS},
    {MS, "QLinearAdd", 1, 2, 8, qlinear_add, 0},
    {MS, "QLinearMul", 1, 2, 8, qlinear_mul, 0},
    {MS, "QLinearSigmoid", 1, 2, 5, qlinear_sigmoid, 0},
    {MS, "QLinearLeakyRelu", 1, 2, 5, qlinear_leaky_relu, 0},
    {MS, "QLinearGlobalAveragePool", 1, 5, 5, qlinear_global_average_pool, 0},
    {MS, "QLinearConcat", 1, 1, -1, qlinear_concat, 0},
    {0}};
