/* Operations on tensors.
 *
 * Each returns a new tensor owned by the innermost scope (tensor.h), or NULL with an error in the session.
 * Operands are of one session, one device and, unless said otherwise, one dtype: nothing is promoted
 * silently. Binary operations broadcast as NumPy does. Axes may be negative, counted from the end. Formulas
 * and rounding: docs/contract.md.
 * */
#ifndef LOCKSTEP_OPS_H
#define LOCKSTEP_OPS_H

#include <lockstep/image.h>
#include <lockstep/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LS_T LS_API ls_tensor *

/* ---- element by element, one operand ---- */
LS_T ls_neg(ls_session *s, ls_tensor *x);
LS_T ls_abs(ls_session *s, ls_tensor *x);
LS_T ls_sign(ls_session *s, ls_tensor *x);
LS_T ls_floor(ls_session *s, ls_tensor *x);
LS_T ls_ceil(ls_session *s, ls_tensor *x);
LS_T ls_trunc(ls_session *s, ls_tensor *x);
LS_T ls_rint(ls_session *s, ls_tensor *x); /* half to even */
LS_T ls_sqrt(ls_session *s, ls_tensor *x);
LS_T ls_rsqrt(ls_session *s, ls_tensor *x);
LS_T ls_cbrt(ls_session *s, ls_tensor *x);
LS_T ls_recip(ls_session *s, ls_tensor *x);
LS_T ls_exp(ls_session *s, ls_tensor *x);
LS_T ls_exp2(ls_session *s, ls_tensor *x);
LS_T ls_expm1(ls_session *s, ls_tensor *x);
LS_T ls_log(ls_session *s, ls_tensor *x);
LS_T ls_log2(ls_session *s, ls_tensor *x);
LS_T ls_log1p(ls_session *s, ls_tensor *x);
LS_T ls_sin(ls_session *s, ls_tensor *x);
LS_T ls_cos(ls_session *s, ls_tensor *x);
LS_T ls_tan(ls_session *s, ls_tensor *x);
LS_T ls_asin(ls_session *s, ls_tensor *x);
LS_T ls_acos(ls_session *s, ls_tensor *x);
LS_T ls_atan(ls_session *s, ls_tensor *x);
LS_T ls_sinh(ls_session *s, ls_tensor *x);
LS_T ls_cosh(ls_session *s, ls_tensor *x);
LS_T ls_tanh(ls_session *s, ls_tensor *x);
LS_T ls_asinh(ls_session *s, ls_tensor *x);
LS_T ls_acosh(ls_session *s, ls_tensor *x);
LS_T ls_atanh(ls_session *s, ls_tensor *x);
LS_T ls_erf(ls_session *s, ls_tensor *x);
LS_T ls_erfc(ls_session *s, ls_tensor *x);
LS_T ls_not(ls_session *s, ls_tensor *x); /* logical for bool, bitwise for integers */
LS_T ls_isnan(ls_session *s, ls_tensor *x);
LS_T ls_isinf(ls_session *s, ls_tensor *x);
LS_T ls_popcount(ls_session *s, ls_tensor *x);
LS_T ls_cast(ls_session *s, ls_tensor *x, ls_dtype dtype);    /* rounds once; float to integer saturates, NaN gives 0 */
LS_T ls_bitcast(ls_session *s, ls_tensor *x, ls_dtype dtype); /* same size */

/* ---- element by element, two or three operands, broadcast ---- */
LS_T ls_add(ls_session *s, ls_tensor *a, ls_tensor *b);
LS_T ls_sub(ls_session *s, ls_tensor *a, ls_tensor *b);
LS_T ls_mul(ls_session *s, ls_tensor *a, ls_tensor *b);
LS_T ls_div(ls_session *s, ls_tensor *a, ls_tensor *b); /* integers: towards zero; x/0 = 0 */
LS_T ls_rem(ls_session *s, ls_tensor *a, ls_tensor *b); /* sign of a; x%0 = 0 for integers */
LS_T ls_mod(ls_session *s, ls_tensor *a, ls_tensor *b); /* sign of b, as Python's % */
LS_T ls_pow(ls_session *s, ls_tensor *a, ls_tensor *b); /* floats */
/* Integers, of two dtypes if need be; the result is of a's, and wraps. A negative power is truncated: 0 but for 1 and -1. */
LS_T ls_pow_int(ls_session *s, ls_tensor *a, ls_tensor *b);
LS_T ls_min(ls_session *s, ls_tensor *a, ls_tensor *b); /* NaN propagates */
LS_T ls_max(ls_session *s, ls_tensor *a, ls_tensor *b);
LS_T ls_and(ls_session *s, ls_tensor *a, ls_tensor *b);
LS_T ls_or(ls_session *s, ls_tensor *a, ls_tensor *b);
LS_T ls_xor(ls_session *s, ls_tensor *a, ls_tensor *b);
LS_T ls_shl(ls_session *s, ls_tensor *a, ls_tensor *b);
LS_T ls_shr(ls_session *s, ls_tensor *a, ls_tensor *b);
LS_T ls_eq(ls_session *s, ls_tensor *a, ls_tensor *b); /* bool, as the comparisons below */
LS_T ls_ne(ls_session *s, ls_tensor *a, ls_tensor *b);
LS_T ls_lt(ls_session *s, ls_tensor *a, ls_tensor *b);
LS_T ls_le(ls_session *s, ls_tensor *a, ls_tensor *b);
LS_T ls_gt(ls_session *s, ls_tensor *a, ls_tensor *b);
LS_T ls_ge(ls_session *s, ls_tensor *a, ls_tensor *b);
LS_T ls_where(ls_session *s, ls_tensor *condition, ls_tensor *a, ls_tensor *b); /* condition is bool */

/* ---- movement: pure index maps, no arithmetic ---- */
LS_T ls_reshape(ls_session *s, ls_tensor *x, ls_shape shape); /* one fixed extent may be -1 */
LS_T ls_permute(ls_session *s, ls_tensor *x, const int *axes); /* result axis i is x's axis axes[i] */
LS_T ls_transpose(ls_session *s, ls_tensor *x, int axis0, int axis1);
LS_T ls_expand(ls_session *s, ls_tensor *x, ls_shape shape); /* NumPy broadcast_to */
typedef struct ls_pad_spec {
    int64_t low, high; /* elements before and after; negative crops */
    int64_t interior;  /* elements between neighbours; at least 0 */
} ls_pad_spec;
/* One ls_pad_spec an axis; the new elements are real and equal `value` (rounded to dtype). */
LS_T ls_pad(ls_session *s, ls_tensor *x, const ls_pad_spec *pads, double value);
/* As ls_pad, but the new elements are absent: reductions and contractions skip them, anything else reads +0.
 */
LS_T ls_pad_absent(ls_session *s, ls_tensor *x, const ls_pad_spec *pads);
typedef struct ls_slice_spec {
    int64_t start, stop, step; /* as Python's x[start:stop:step], already clipped: step not 0; negative steps go down */
} ls_slice_spec;
LS_T ls_slice(ls_session *s, ls_tensor *x, const ls_slice_spec *slices); /* one an axis */
LS_T ls_narrow(ls_session *s, ls_tensor *x, int axis, int64_t start, int64_t length);
LS_T ls_flip(ls_session *s, ls_tensor *x, int axis);
typedef struct ls_window_spec {
    int64_t size, stride, dilation; /* all at least 1; {1,1,1} leaves an axis as it is but adds its window axis */
} ls_window_spec;
/* Sliding windows over the `count` axes listed: each becomes the window's position, and its offset is a new
 * last axis (in the order listed): y[..o..,..t..] = x[..o * stride + t * dilation..]. The lazy im2col. */
LS_T ls_window(ls_session *s, ls_tensor *x, int count, const int *axes, const ls_window_spec *windows);
LS_T ls_concat(ls_session *s, ls_tensor *const *xs, int count, int axis);
LS_T ls_stack(ls_session *s, ls_tensor *const *xs, int count, int axis);
LS_T ls_squeeze(ls_session *s, ls_tensor *x, int axis);
LS_T ls_unsqueeze(ls_session *s, ls_tensor *x, int axis);
/* x repeats[i] times along each axis i (NumPy's tile). */
LS_T ls_tile(ls_session *s, ls_tensor *x, const int64_t *repeats);
typedef enum ls_pad_kind {
    LS_PAD_EDGE,    /* a a|a b c|c c */
    LS_PAD_REFLECT, /* c b|a b c|b a, over and over; the ends are not repeated */
    LS_PAD_WRAP     /* b c|a b c|a b */
} ls_pad_kind;
/* As ls_pad without interior, but the new elements are the operand's own; what is cropped is cropped first. */
LS_T ls_pad_with(ls_session *s, ls_tensor *x, const ls_pad_spec *pads, ls_pad_kind kind);
/* x[N, C, H, W] to [N, C/b^2, H b, W b]: channels split as [b, b, C/b^2], or [C/b^2, b, b] when depth_last, become rows and
 * columns of blocks. ls_space_to_depth undoes the first. */
LS_T ls_depth_to_space(ls_session *s, ls_tensor *x, int64_t block, int depth_last);
LS_T ls_space_to_depth(ls_session *s, ls_tensor *x, int64_t block);

/* ---- reductions: `count` axes in the order that the contract linearises them; 0 axes: all ---- */
LS_T ls_sum(ls_session *s, ls_tensor *x, int count, const int *axes, int keep_dims);
LS_T ls_prod(ls_session *s, ls_tensor *x, int count, const int *axes, int keep_dims);
LS_T ls_amin(ls_session *s, ls_tensor *x, int count, const int *axes, int keep_dims);
LS_T ls_amax(ls_session *s, ls_tensor *x, int count, const int *axes, int keep_dims);
LS_T ls_argmin(ls_session *s, ls_tensor *x, int count, const int *axes, int keep_dims); /* i64, linear over the axes */
LS_T ls_argmax(ls_session *s, ls_tensor *x, int count, const int *axes, int keep_dims); /* first NaN, else lowest index */
LS_T ls_mean(ls_session *s, ls_tensor *x, int count, const int *axes, int keep_dims);
/* Two-pass; divides by n - correction. */
LS_T ls_variance(ls_session *s, ls_tensor *x, int count, const int *axes, int keep_dims, int correction);

LS_T ls_logsumexp(ls_session *s, ls_tensor *x, int count, const int *axes, int keep_dims); /* log of the sum of e^x */

typedef enum ls_scan_kind { LS_SCAN_SUM, LS_SCAN_PROD, LS_SCAN_MIN, LS_SCAN_MAX } ls_scan_kind;
LS_T ls_scan(ls_session *s, ls_tensor *x, ls_scan_kind kind, int axis, int exclusive, int reverse);

/* ---- contractions ---- */
/* sum over the contracted axis pairs, in the order listed, of a*b; result axes: batch pairs, a's others, b's
 * others. The result dtype `dtype` is the operands' own, f32 for f16 and bf16, or i32 for 8- and 16-bit
 * integers. */
typedef struct ls_contract_spec {
    int n_batch, n_contract;
    int batch_a[LS_MAX_RANK], batch_b[LS_MAX_RANK];
    int contract_a[LS_MAX_RANK], contract_b[LS_MAX_RANK];
} ls_contract_spec;
LS_T ls_contract(ls_session *s, ls_tensor *a, ls_tensor *b, const ls_contract_spec *spec, ls_dtype dtype);
LS_T ls_matmul(ls_session *s, ls_tensor *a, ls_tensor *b); /* as NumPy's @ : batch axes broadcast, vectors allowed */
/* x[..., in] times w[out, in] transposed, plus bias[out] (may be NULL). */
LS_T ls_linear(ls_session *s, ls_tensor *x, ls_tensor *w, ls_tensor *bias);
/* Sum of products by labels, as NumPy's einsum: letters, an ellipsis, with or without "->"; from left to right, one contraction
 * for each operand after the first, over what no later operand and not the result names. 1 to 32 operands. */
LS_T ls_einsum(ls_session *s, const char *equation, ls_tensor *const *xs, int count);
LS_T ls_det(ls_session *s, ls_tensor *x); /* of x[..., n, n]; elimination with partial pivoting */

/* ---- indexed ---- */
/* y[.., i.., ..] = x[.., index[i..], ..]: index's axes stand where `axis` was. Index i32 or i64; negative
 * ones are out of range: they read NaN (0 for integers) and the run reports LS_ERR_RANGE naming the node. */
LS_T ls_gather(ls_session *s, ls_tensor *x, ls_tensor *index, int axis);
/* y[i,j] = x[i, index[i,j]] along `axis` (GatherElements, take_along_axis). */
LS_T ls_take_along(ls_session *s, ls_tensor *x, ls_tensor *index, int axis);
typedef enum ls_scatter_kind { LS_SCATTER_SET, LS_SCATTER_ADD, LS_SCATTER_MUL, LS_SCATTER_MIN, LS_SCATTER_MAX } ls_scatter_kind;
/* base with updates[.., i.., ..] combined into [.., index[i..], ..], in ascending position of the updates. */
LS_T ls_scatter(ls_session *s, ls_tensor *base, ls_tensor *index, ls_tensor *updates, int axis, ls_scatter_kind kind);
/* base with updates[i,j] combined into [i, index[i,j]] along `axis` (ScatterElements, put_along_axis), in ascending position. */
LS_T ls_put_along(ls_session *s, ls_tensor *base, ls_tensor *index, ls_tensor *updates, int axis, ls_scatter_kind kind);
/* y[b.., i.., ..] = x[b.., index[b.., i.., 0], .., index[b.., i.., k-1], ..]: vectors along index's last axis name k axes of x,
 * after `batch` axes that both have. Out of range as for ls_gather. */
LS_T ls_gather_nd(ls_session *s, ls_tensor *x, ls_tensor *index, int batch);
/* base with updates[i.., ..] combined into [index[i.., 0], .., index[i.., k-1], ..], in ascending position. */
LS_T ls_scatter_nd(ls_session *s, ls_tensor *base, ls_tensor *index, ls_tensor *updates, ls_scatter_kind kind);
LS_T ls_one_hot(ls_session *s, ls_tensor *index, int64_t classes, ls_dtype dtype);
LS_T ls_embedding(ls_session *s, ls_tensor *table, ls_tensor *index); /* table[v, d] -> index.shape + [d] */
LS_T ls_argsort(ls_session *s, ls_tensor *x, int axis, int descending); /* i64; stable; NaN last */
LS_T ls_sort(ls_session *s, ls_tensor *x, int axis, int descending);
/* The k largest (or smallest), best first: values and i64 indices. */
LS_API ls_status ls_topk(ls_session *s, ls_tensor *x, int64_t k, int axis, int largest, ls_tensor **out_values,
                         ls_tensor **out_indices);

/* ---- made ---- */
LS_T ls_iota(ls_session *s, ls_dtype dtype, ls_shape shape, int axis);
/* u32 bits: element i of the result is Threefry-2x32-20(key, i). `key` is u32[2]. */
LS_T ls_random_bits(ls_session *s, ls_tensor *key, ls_shape shape);
LS_T ls_random_uniform(ls_session *s, ls_tensor *key, ls_shape shape, ls_dtype dtype); /* [0, 1) */
LS_T ls_random_normal(ls_session *s, ls_tensor *key, ls_shape shape, ls_dtype dtype);
LS_T ls_random_key(ls_session *s, uint64_t seed);                      /* a constant key */
LS_T ls_random_split(ls_session *s, ls_tensor *key, uint32_t purpose); /* another key */
LS_T ls_dim_value(ls_session *s, ls_dim dim);                          /* an extent as an i64 scalar */

/* ---- loop ---- */
/* The body of a loop: builds out_carry (as many as carried, same dtypes and shapes) and out_ys from the
 * iteration's number (i64 scalar), the carried values and the iteration's slices of xs. Runs once, when the
 * loop is built. */
typedef ls_status (*ls_loop_fn)(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                                ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys);
/* Runs body `trip` times over carried values and slices of xs along axis 0; ys are stacked along axis 0.
 * Tensors that the body uses from outside are captured. Differentiable. */
LS_API ls_status ls_loop(ls_session *s, ls_dim trip, int n_carry, ls_tensor *const *carry, int n_xs, ls_tensor *const *xs,
                         int n_ys, ls_loop_fn body, void *ctx, ls_tensor **out_carry, ls_tensor **out_ys);

/* ---- networks: activations ---- */
LS_T ls_relu(ls_session *s, ls_tensor *x);
LS_T ls_gelu(ls_session *s, ls_tensor *x);      /* x * 0.5 * (1 + erf(x / sqrt 2)) */
LS_T ls_gelu_tanh(ls_session *s, ls_tensor *x); /* Hendrycks and Gimpel's tanh form */
LS_T ls_silu(ls_session *s, ls_tensor *x);
LS_T ls_sigmoid(ls_session *s, ls_tensor *x);
LS_T ls_softplus(ls_session *s, ls_tensor *x);                  /* log(1 + e^x) */
LS_T ls_mish(ls_session *s, ls_tensor *x);                      /* x * tanh(softplus(x)) */
LS_T ls_elu(ls_session *s, ls_tensor *x, double alpha);         /* alpha * (e^x - 1) below 0 */
LS_T ls_leaky_relu(ls_session *s, ls_tensor *x, double slope);  /* slope * x below 0 */
LS_T ls_softmax(ls_session *s, ls_tensor *x, int axis);
LS_T ls_log_softmax(ls_session *s, ls_tensor *x, int axis);
/* As ls_softmax, but what is -inf gives exactly +0, also where nothing else is. */
LS_T ls_masked_softmax(ls_session *s, ls_tensor *x, int axis);
/* Zeroes with probability p and scales by 1/(1-p); the bits come from `key` alone. */
LS_T ls_dropout(ls_session *s, ls_tensor *x, double p, ls_tensor *key);

/* ---- networks: norms; gamma and beta may be NULL ---- */
LS_T ls_layer_norm(ls_session *s, ls_tensor *x, int axis, ls_tensor *gamma, ls_tensor *beta, double eps); /* axes axis.. */
LS_T ls_rms_norm(ls_session *s, ls_tensor *x, int axis, ls_tensor *gamma, double eps);
LS_T ls_group_norm(ls_session *s, ls_tensor *x, int64_t groups, ls_tensor *gamma, ls_tensor *beta, double eps); /* x[N,C,...], of 7 axes at most */
/* With given statistics (inference); x[N,C,...]. */
LS_T ls_batch_norm(ls_session *s, ls_tensor *x, ls_tensor *mean, ls_tensor *variance, ls_tensor *gamma, ls_tensor *beta,
                   double eps);
/* With the batch's own statistics (training), which are returned too. */
LS_T ls_batch_norm_train(ls_session *s, ls_tensor *x, ls_tensor *gamma, ls_tensor *beta, double eps, ls_tensor **out_mean,
                         ls_tensor **out_variance);
/* x / (k + alpha / size * sum of the squares of `size` neighbouring channels)^beta; (size - 1) / 2 of them come before;
 * x[N,C,...]. */
LS_T ls_local_response_norm(ls_session *s, ls_tensor *x, int64_t size, double alpha, double beta, double k);

/* ---- networks: convolution and pooling ---- */
#define LS_MAX_SPATIAL 3
/* Which axis is which; a permutation. The default (all zero) is NCHW input and output, OIHW filter. */
typedef struct ls_conv_axes {
    int set;                                                         /* 0: the default */
    int input_batch, input_channel, input_spatial[LS_MAX_SPATIAL];   /* of the input */
    int filter_out, filter_in, filter_spatial[LS_MAX_SPATIAL];       /* of the filter */
    int output_batch, output_channel, output_spatial[LS_MAX_SPATIAL];/* of the result */
} ls_conv_axes;
typedef struct ls_conv_spec {
    int spatial; /* 1 to 3 */
    int64_t stride[LS_MAX_SPATIAL], dilation[LS_MAX_SPATIAL];         /* 0 stands for 1 */
    int64_t pad_low[LS_MAX_SPATIAL], pad_high[LS_MAX_SPATIAL];
    int64_t output_padding[LS_MAX_SPATIAL];                           /* transposed only */
    int64_t groups;                                                   /* 0 stands for 1 */
    ls_conv_axes axes;
} ls_conv_spec;
LS_T ls_conv(ls_session *s, ls_tensor *x, ls_tensor *w, ls_tensor *bias, const ls_conv_spec *spec);
/* The same for 8- and 16-bit integers, summed exactly in i32. */
LS_T ls_conv_i32(ls_session *s, ls_tensor *x, ls_tensor *w, const ls_conv_spec *spec);
/* The adjoint of ls_conv in x. The filter is [in, out/groups, kernel...] by default, as PyTorch's. */
LS_T ls_conv_transpose(ls_session *s, ls_tensor *x, ls_tensor *w, ls_tensor *bias, const ls_conv_spec *spec);
/* x[N,C,spatial...] -> [N, C*kernel..., positions]; missing elements are 0. col2im is its adjoint. */
LS_T ls_im2col(ls_session *s, ls_tensor *x, const int64_t *kernel, const ls_conv_spec *spec);
LS_T ls_col2im(ls_session *s, ls_tensor *cols, ls_shape image, const int64_t *kernel, const ls_conv_spec *spec);
/* x[N,C,spatial...]; kernel and spec as for convolution. Padding never wins, nor counts in the mean unless
 * count_pad. */
LS_T ls_max_pool(ls_session *s, ls_tensor *x, const int64_t *kernel, const ls_conv_spec *spec);
LS_T ls_avg_pool(ls_session *s, ls_tensor *x, const int64_t *kernel, const ls_conv_spec *spec, int count_pad);
/* (sum |x|^p)^(1/p) over each window; p > 0. */
LS_T ls_lp_pool(ls_session *s, ls_tensor *x, const int64_t *kernel, const ls_conv_spec *spec, double p);
/* Where each window's maximum lies, i64: the position in x laid out row-major, or, when column_major, with each image's
 * spatial axes reversed. Fixed extents, default axes. */
LS_T ls_max_pool_indices(ls_session *s, ls_tensor *x, const int64_t *kernel, const ls_conv_spec *spec, int column_major);
/* Zeros of `shape` with x put where its row-major `index` says; the last of equal indices stays. */
LS_T ls_max_unpool(ls_session *s, ls_tensor *x, ls_tensor *index, ls_shape shape);
/* A convolution whose taps are read beside their places: x[N,C,spatial...], offset[N, parts*taps*d, positions...] with the d
 * offsets of a tap together and the channels cut into `parts`, mask[N, parts*taps, positions...] or NULL (all 1). Values between
 * elements are linear in each axis, 0 outside of x. Default axes. */
LS_T ls_deform_conv(ls_session *s, ls_tensor *x, ls_tensor *w, ls_tensor *offset, ls_tensor *mask, ls_tensor *bias,
                    int64_t parts, const ls_conv_spec *spec);

/* ---- networks: attention, recurrence, losses ---- */
typedef struct ls_attention_spec {
    double scale;    /* 0: 1/sqrt(d) */
    int causal;      /* query i sees keys 0 .. i + (keys - queries) */
    ls_tensor *mask; /* bool (true: seen) or added in x's dtype; broadcasts to [batch, heads, queries, keys]; may be NULL */
} ls_attention_spec;
/* q[B,H,L,D], k[B,G,S,D], v[B,G,S,E] -> [B,H,L,E]; G divides H (grouped heads). Masked entries are exactly
 * +0. */
LS_T ls_attention(ls_session *s, ls_tensor *q, ls_tensor *k, ls_tensor *v, const ls_attention_spec *spec);
/* Rotary positions (Su et al.): of the D features of x[B,H,S,D] the first 2R turn in pairs by angles whose cosines and sines, [..,R],
 * broadcast to [B,H,S,R]: (a, b) -> (a cos - b sin, a sin + b cos). Feature i pairs with i + R or, when interleaved, 2i with 2i + 1. */
LS_T ls_rotary_embedding(ls_session *s, ls_tensor *x, ls_tensor *cosine, ls_tensor *sine, int interleaved);
typedef struct ls_linear_attention_spec {
    double scale;     /* 0: 1/sqrt(d) */
    ls_tensor *decay; /* exponents, broadcast to [B,G,T,D]; NULL: none */
    ls_tensor *beta;  /* the delta rule's rates, broadcast to [B,G,T,1]; NULL: v is written as it is */
} ls_linear_attention_spec;
/* The recurrence S = e^decay S; v = beta (v - k S); S = S + k^T v; y = scale q S over q[B,H,T,D], k[B,G,T,D], v[B,G,T,E] and the state
 * S[B,G,D,E]; G divides H. All of one dtype. Returns y[B,H,T,E] and the last state. */
LS_T ls_linear_attention(ls_session *s, ls_tensor *q, ls_tensor *k, ls_tensor *v, ls_tensor *state,
                         const ls_linear_attention_spec *spec, ls_tensor **out_state);
/* x[T,B,I], h0 and c0[B,H], w_x[4H,I], w_h[4H,H], bias[4H] or NULL; gates in the order i, f, g, o
 * (PyTorch's). Returns h of all steps [T,B,H]. */
LS_T ls_lstm(ls_session *s, ls_tensor *x, ls_tensor *h0, ls_tensor *c0, ls_tensor *w_x, ls_tensor *w_h, ls_tensor *bias,
             ls_tensor **out_h, ls_tensor **out_c);
/* h' = tanh(x w_x^T + b_x + h w_h^T + b_h) over x[T,B,I] from h0[B,H]; w_x[H,I], w_h[H,H]; the biases may be NULL. */
LS_T ls_rnn(ls_session *s, ls_tensor *x, ls_tensor *h0, ls_tensor *w_x, ls_tensor *w_h, ls_tensor *b_x, ls_tensor *b_h,
            ls_tensor **out_h);
/* PyTorch's: w_x[3H,I], w_h[3H,H], gates r, z, n; n = tanh(x_n + r (h w_n^T + b_n)); h' = (1 - z) n + z h. */
LS_T ls_gru(ls_session *s, ls_tensor *x, ls_tensor *h0, ls_tensor *w_x, ls_tensor *w_h, ls_tensor *b_x, ls_tensor *b_h,
            ls_tensor **out_h);
typedef enum ls_recurrent_cell { LS_CELL_RNN, LS_CELL_GRU, LS_CELL_LSTM } ls_recurrent_cell;
typedef struct ls_recurrent_spec {
    ls_recurrent_cell cell;
    int reverse;             /* from the last step to the first; results stay in the order of x */
    int linear_before_reset; /* GRU: n from r (h w_n^T + b_n), else from (r h) w_n^T + b_n */
    int coupled;             /* LSTM: f = 1 - i */
    double clip;             /* bounds what goes into activations 0 and 1 to [-clip, clip]; 0: no bound */
    ls_tensor *lengths;      /* i32 or i64 [B], how many steps each sequence has; NULL: all T */
    ls_tensor *peephole;     /* LSTM: [3H], what of c is added to i, o (of the new c) and f; NULL: nothing */
    /* The cell's activation 0, 1, 2: of the gates, of the new value, of an LSTM's c. NULL: sigmoid, tanh, tanh (RNN: tanh). */
    ls_tensor *(*activation)(ls_session *s, void *ctx, int which, ls_tensor *x);
    void *ctx;
} ls_recurrent_spec;
/* The cells as ONNX has them: gates z, r, n of a GRU and i, o, f, c of an LSTM; c0 for an LSTM alone. Returns h of all steps [T,B,H]. */
LS_T ls_recurrent(ls_session *s, ls_tensor *x, ls_tensor *h0, ls_tensor *c0, ls_tensor *w_x, ls_tensor *w_h, ls_tensor *b_x,
                  ls_tensor *b_h, const ls_recurrent_spec *spec, ls_tensor **out_h, ls_tensor **out_c);
/* Mean over the batch of -log softmax(logits[N,C])[label]; labels i32 or i64 [N]. */
LS_T ls_cross_entropy(ls_session *s, ls_tensor *logits, ls_tensor *labels);
LS_T ls_mse(ls_session *s, ls_tensor *prediction, ls_tensor *target);
typedef enum ls_reduction { LS_REDUCTION_NONE, LS_REDUCTION_SUM, LS_REDUCTION_MEAN } ls_reduction;
/* -weight[label] * log_p[label] over log_p[N,C,...] and labels[N,...] (i32 or i64); weight[C] may be NULL (all 1). A label equal to
 * *ignore (NULL: none) counts for nothing, whatever its value. The mean is over the sum of the weights taken. */
LS_T ls_nll_loss(ls_session *s, ls_tensor *log_p, ls_tensor *labels, ls_tensor *weight, const int64_t *ignore,
                 ls_reduction reduction);

/* ---- signals ---- */
typedef struct ls_dft_spec {
    int axis;
    int64_t length;    /* of the signal; 0: x's extent, or 2 * (x's - 1) for the inverse of a onesided one */
    int inverse;       /* e^(+2 pi j k n / length) / length instead of e^(-2 pi j k n / length) */
    int onesided;      /* only the bins 0 .. length/2; the inverse takes those of a real signal, which it gives */
    ls_tensor *matrix; /* NULL, or what ls_dft_matrix gives for this x: it may have been computed once */
} ls_dft_spec;
/* Discrete Fourier transform of x[..., 1 or 2], real or (real, imaginary), along `axis`, by its matrix: y[.., k, ..] =
 * sum over n of x[.., n, ..] e^(-2 pi j k n / length), [..., 2], or [..., 1] for the inverse of a onesided one. Elements beyond
 * `length` are left out, missing ones are 0. */
LS_T ls_dft(ls_session *s, ls_tensor *x, const ls_dft_spec *spec);
/* Its matrix [n, parts of x, k, parts of y] for x of `extent` along the axis and `parts` 1 or 2. The angles are reduced to an eighth of
 * a turn in integers. */
LS_T ls_dft_matrix(ls_session *s, ls_dtype dtype, int64_t extent, int parts, const ls_dft_spec *spec);
/* a0 - a1 cos(2 pi i / N) + a2 cos(4 pi i / N) for i < n; N is n when periodic, else n - 1. [n]; all ones for n = 1. */
LS_T ls_cosine_window(ls_session *s, ls_dtype dtype, int64_t n, int periodic, double a0, double a1, double a2);
LS_T ls_hann_window(ls_session *s, ls_dtype dtype, int64_t n, int periodic);     /* 0.5, 0.5, 0 */
LS_T ls_hamming_window(ls_session *s, ls_dtype dtype, int64_t n, int periodic);  /* 25/46, 21/46, 0 */
LS_T ls_blackman_window(ls_session *s, ls_dtype dtype, int64_t n, int periodic); /* 0.42, 0.5, 0.08 */
/* Short-time transform of x[batch, samples, 1 or 2]: frames of window[w]'s length every `step` samples, times the window ->
 * [batch, frames, bins, 2]. Of `spec` length (at least w), onesided and matrix count. */
LS_T ls_stft(ls_session *s, ls_tensor *x, int64_t step, ls_tensor *window, const ls_dft_spec *spec);

#undef LS_T

#ifdef __cplusplus
}
#endif
#endif
