/* Composites: shapes, dtypes and every error. Their values: test_composite_values.c. */
#include "graph_session.h"

#define OPEN                                                                                                 \
    fixture fix, *f = &fix;                                                                                  \
    fixture_open(f);                                                                                         \
    ls_session *s = session_of(f)
#define IN(...) input(f, LS_F32, LS_SHAPE(__VA_ARGS__))
#define IN_OF(dtype, ...) input(f, dtype, LS_SHAPE(__VA_ARGS__))
#define FAILS(code, call, ...) assert_failed(f, (call), code, __VA_ARGS__, NULL)
#define SHAPE_ERR LS_ERR_SHAPE
#define DTYPE_ERR LS_ERR_DTYPE
#define INVALID LS_ERR_INVALID

static ls_symbol batch = {.name = (char *)"B", .bound = 64, .index = 0}, length = {.name = (char *)"T", .bound = 100, .index = 1};
#define B ls_dim_symbol(&batch, 1, 0)
#define T ls_dim_symbol(&length, 1, 0)
#define D(n) ls_dim_of(n)
#define SHAPE(...)                                                                                           \
    (ls_shape) {                                                                                             \
        .rank = sizeof((ls_dim[]){__VA_ARGS__}) / sizeof(ls_dim), .dim = { __VA_ARGS__ }                     \
    }

static void reductions_and_activations(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = IN_OF(LS_F16, 2, 3, 4), *i = IN_OF(LS_I32, 3);
    assert_tensor(f, ls_mean(s, x, 1, (int[]){1}, 0), "f16[2,4]");
    assert_tensor(f, ls_mean(s, x, 0, NULL, 1), "f16[1,1,1]");
    assert_tensor(f, ls_variance(s, x, 2, (int[]){0, -1}, 1, 1), "f16[1,3,1]");
    assert_tensor(f, ls_mean(s, input(f, LS_F32, SHAPE(B, D(3))), 1, (int[]){0}, 0), "f32[3]");
    ls_tensor *(*const activations[])(ls_session *, ls_tensor *) = {ls_relu, ls_gelu, ls_gelu_tanh, ls_silu,
                                                                    ls_sigmoid};
    for (size_t k = 0; k < sizeof activations / sizeof *activations; k++) {
        assert_tensor(f, activations[k](s, x), "f16[2,3,4]");
    }
    assert_tensor(f, ls_softmax(s, x, 1), "f16[2,3,4]");
    assert_tensor(f, ls_log_softmax(s, x, -1), "f16[2,3,4]");
    assert_tensor(f, ls_relu(s, i), "i32[3]");
    assert_tensor(f, ls_dropout(s, x, 0.5, ls_random_key(s, 1)), "f16[2,3,4]");
    assert_ptr_equal(ls_dropout(s, x, 0, ls_random_key(s, 1)), x);
    FAILS(DTYPE_ERR, ls_mean(s, i, 0, NULL, 0), "mean: operand is i32[3]: expected a floating dtype");
    FAILS(DTYPE_ERR, ls_variance(s, i, 0, NULL, 0, 0), "variance: operand is i32[3]");
    FAILS(INVALID, ls_mean(s, x, 1, (int[]){3}, 0), "mean: axis 3 of f16[2,3,4]");
    FAILS(DTYPE_ERR, ls_relu(s, IN_OF(LS_BOOL, 2)), "relu: operand is bool[2]");
    FAILS(DTYPE_ERR, ls_gelu(s, i), "gelu: operand is i32[3]");
    FAILS(DTYPE_ERR, ls_gelu_tanh(s, i), "gelu_tanh: operand is i32[3]");
    FAILS(DTYPE_ERR, ls_silu(s, i), "silu: operand is i32[3]");
    FAILS(DTYPE_ERR, ls_sigmoid(s, i), "sigmoid: operand is i32[3]");
    FAILS(INVALID, ls_softmax(s, x, 3), "softmax: axis 3 of f16[2,3,4]");
    FAILS(DTYPE_ERR, ls_log_softmax(s, i, 0), "log_softmax: operand is i32[3]");
    FAILS(INVALID, ls_dropout(s, x, 1, ls_random_key(s, 1)),
          "dropout: p 1 of f16[2,3,4]: expected 0 <= p < 1");
    FAILS(INVALID, ls_dropout(s, x, -0.1, ls_random_key(s, 1)), "dropout: p -0.1");
    FAILS(SHAPE_ERR, ls_dropout(s, x, 0.5, i), "random_bits: the key is i32[3]: expected u32[2]");
    fixture_close(f);
}

static void norms(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = IN(2, 6, 4), *g = IN(4), *c = IN(6), *mean, *variance;
    assert_tensor(f, ls_layer_norm(s, x, -1, g, g, 1e-5), "f32[2,6,4]");
    assert_tensor(f, ls_layer_norm(s, x, 1, IN(6, 4), NULL, 1e-5), "f32[2,6,4]");
    assert_tensor(f, ls_rms_norm(s, x, -1, g, 0), "f32[2,6,4]");
    assert_tensor(f, ls_group_norm(s, x, 3, c, c, 1e-5), "f32[2,6,4]");
    assert_tensor(f, ls_group_norm(s, input(f, LS_BF16, SHAPE(B, D(6), T, D(2))), 3, NULL, NULL, 1e-5),
                  "bf16[B,6,T,2]");
    assert_tensor(f, ls_group_norm(s, IN(0, 6, 4), 2, c, c, 1e-5), "f32[0,6,4]");
    assert_tensor(f, ls_batch_norm(s, x, c, c, c, NULL, 1e-5), "f32[2,6,4]");
    assert_tensor(f, ls_batch_norm_train(s, x, c, c, 1e-5, &mean, &variance), "f32[2,6,4]");
    assert_tensor(f, mean, "f32[6]");
    assert_tensor(f, variance, "f32[6]");
    FAILS(SHAPE_ERR, ls_layer_norm(s, x, -1, IN(6), NULL, 0),
          "layer_norm: operand is f32[2,6,4] and gamma is f32[6]: expected shape [4]");
    FAILS(SHAPE_ERR, ls_layer_norm(s, x, 1, NULL, g, 0), "layer_norm",
          "beta is f32[4]: expected shape [6,4]");
    FAILS(INVALID, ls_layer_norm(s, x, 3, NULL, NULL, 0), "layer_norm: axis 3 of f32[2,6,4]");
    FAILS(INVALID, ls_layer_norm(s, x, 1, NULL, NULL, -1), "layer_norm: eps -1");
    FAILS(DTYPE_ERR, ls_layer_norm(s, x, -1, IN_OF(LS_F16, 4), NULL, 0),
          "layer_norm: operands are f32[2,6,4] and f16[4]");
    FAILS(DTYPE_ERR, ls_rms_norm(s, IN_OF(LS_I8, 3), 0, NULL, 0), "rms_norm: operand is i8[3]");
    FAILS(SHAPE_ERR, ls_rms_norm(s, x, 2, c, 0), "rms_norm", "gamma is f32[6]: expected shape [4]");
    FAILS(INVALID, ls_group_norm(s, x, 4, NULL, NULL, 0),
          "group_norm: groups 4 of f32[2,6,4]: expected a divisor");
    FAILS(INVALID, ls_group_norm(s, x, 0, NULL, NULL, 0), "group_norm: groups 0");
    FAILS(SHAPE_ERR, ls_group_norm(s, x, 3, g, NULL, 0), "group_norm", "gamma is f32[4]: expected shape [6]");
    FAILS(SHAPE_ERR, ls_group_norm(s, g, 2, NULL, NULL, 0),
          "group_norm: operand is f32[4]: expected rank 2 to 8");
    FAILS(SHAPE_ERR, ls_batch_norm(s, x, g, c, NULL, NULL, 0), "batch_norm",
          "mean is f32[4]: expected shape [6]");
    FAILS(INVALID, ls_batch_norm(s, x, c, NULL, NULL, NULL, 0), "batch_norm: operand 2 is NULL");
    FAILS(SHAPE_ERR, ls_batch_norm_train(s, x, c, g, 0, &mean, &variance), "batch_norm_train",
          "beta is f32[4]");
    assert_null(mean);
    fixture_close(f);
}

static void indexed(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = IN(2, 5), *i = IN_OF(LS_I64, 2, 3), *values, *indices;
    assert_tensor(f, ls_take_along(s, x, i, 1), "f32[2,3]");
    assert_tensor(f, ls_take_along(s, input(f, LS_F32, SHAPE(B, D(5))), input(f, LS_I32, SHAPE(B, D(1))), 1),
                  "f32[B,1]");
    assert_tensor(f, ls_sort(s, x, 0, 1), "f32[2,5]");
    assert_int_equal(ls_topk(s, x, 3, -1, 1, &values, &indices), LS_OK);
    assert_tensor(f, values, "f32[2,3]");
    assert_tensor(f, indices, "i64[2,3]");
    assert_tensor(f, ls_one_hot(s, i, 7, LS_F32), "f32[2,3,7]");
    assert_tensor(f, ls_embedding(s, IN(10, 4), i), "f32[2,3,4]");
    ls_tensor *key = ls_random_key(s, 7);
    assert_tensor(f, key, "u32[2]");
    assert_ptr_equal(key, ls_random_key(s, 7));
    assert_ptr_not_equal(key, ls_random_key(s, 7ull << 32));
    assert_ptr_not_equal(ls_random_split(s, key, 1), ls_random_split(s, key, 2));
    assert_tensor(f, ls_random_split(s, key, 1), "u32[2]");
    assert_tensor(f, ls_random_uniform(s, key, LS_SHAPE(3), LS_F64), "f64[3]");
    assert_tensor(f, ls_random_normal(s, key, SHAPE(B, D(2)), LS_BF16), "bf16[B,2]");
    FAILS(SHAPE_ERR, ls_take_along(s, x, IN_OF(LS_I64, 3, 3), 1),
          "take_along: operand is f32[2,5] and index i64[3,3]", "axes other than 1");
    FAILS(SHAPE_ERR, ls_take_along(s, x, IN_OF(LS_I64, 2), 1),
          "take_along: operand is f32[2,5] and index i64[2]: expected the same rank");
    FAILS(DTYPE_ERR, ls_take_along(s, x, x, 1), "take_along: the index is f32[2,5]: expected i32 or i64");
    FAILS(INVALID, ls_sort(s, x, 2, 0), "sort: axis 2 of f32[2,5]");
    FAILS(INVALID, (ls_topk(s, x, 6, 1, 1, &values, &indices), values), "topk: k 6 along axis 1 of f32[2,5]");
    FAILS(INVALID, (ls_topk(s, x, 1, 4, 1, &values, &indices), values), "topk: axis 4 of f32[2,5]");
    FAILS(DTYPE_ERR, ls_one_hot(s, x, 3, LS_F32), "one_hot: the index is f32[2,5]");
    FAILS(INVALID, ls_one_hot(s, i, -1, LS_F32), "one_hot: -1 classes of index i64[2,3]");
    FAILS(SHAPE_ERR, ls_embedding(s, IN(4), i), "embedding: the table is f32[4]: expected [entries, width]");
    FAILS(DTYPE_ERR, ls_embedding(s, x, x), "gather: the index is f32[2,5]");
    FAILS(DTYPE_ERR, ls_random_uniform(s, key, LS_SHAPE(3), LS_I32),
          "random_uniform: i32: expected a floating dtype");
    FAILS(DTYPE_ERR, ls_random_normal(s, key, LS_SHAPE(3), LS_BOOL), "random_normal: bool");
    fixture_close(f);
}

/* ---- convolution ---- */

static void convolutions(void **state) {
    (void)state;
    OPEN;
    ls_conv_spec one = {.spatial = 1, .stride = {2}, .pad_low = {1}, .pad_high = {2}};
    assert_tensor(f, ls_conv(s, IN(2, 3, 10), IN(4, 3, 3), IN(4), &one), "f32[2,4,6]");
    ls_conv_spec two = {.spatial = 2, .stride = {1, 2}, .dilation = {2, 1}, .groups = 2};
    assert_tensor(
        f, ls_conv(s, input(f, LS_F16, SHAPE(B, D(4), D(9), D(8))), IN_OF(LS_F16, 6, 2, 3, 2), NULL, &two),
        "f16[B,6,5,4]");
    ls_conv_spec three = {.spatial = 3};
    assert_tensor(f, ls_conv(s, IN(1, 4, 5, 6, 7), IN(2, 4, 2, 2, 2), IN(2), &three), "f32[1,2,4,5,6]");
    for (three.groups = 1; three.groups <= 4;
         three.groups *= 2) { /* contracted whole, by group, a channel a group */
        assert_tensor(f, ls_conv(s, IN(1, 4, 5, 6, 7), IN(8, 4 / three.groups, 2, 2, 2), NULL, &three),
                      "f32[1,8,4,5,6]");
        assert_tensor(f,
                      ls_conv_transpose(s, IN(1, 4, 5, 6, 7), IN(4, 8 / three.groups, 2, 2, 2), NULL, &three),
                      "f32[1,8,6,7,8]");
    }
    ls_conv_spec nhwc = {.spatial = 2,
                         .axes = {.set = 1,
                                  .input_batch = 0,
                                  .input_channel = 3,
                                  .input_spatial = {1, 2},
                                  .filter_out = 3,
                                  .filter_in = 2,
                                  .filter_spatial = {0, 1},
                                  .output_batch = 3,
                                  .output_channel = 0,
                                  .output_spatial = {2, 1}}};
    assert_tensor(f, ls_conv(s, IN(2, 8, 9, 3), IN(3, 2, 3, 5), IN(5), &nhwc), "f32[5,8,6,2]");
    ls_conv_spec up = {
        .spatial = 2, .stride = {2, 3}, .pad_low = {1, 0}, .pad_high = {0, 2}, .output_padding = {1, 0}};
    assert_tensor(f, ls_conv_transpose(s, IN(2, 3, 4, 5), IN(3, 6, 3, 4), IN(6), &up), "f32[2,6,9,14]");
    assert_tensor(f, ls_conv_transpose(s, IN(0, 3, 4, 5), IN(3, 6, 3, 4), IN(6), &up), "f32[0,6,9,14]");
    FAILS(SHAPE_ERR, ls_depth_to_space(s, IN(1, 0, 3, 2), INT64_C(1) << 31, 0), "shape [1,2147483648,2147483648,0,3,2] has more than 2^");
    FAILS(SHAPE_ERR, ls_depth_to_space(s, IN(1, 0, INT64_C(1) << 33, 2), INT64_C(1) << 31, 0), "depth_to_space: block 2147483648 of f32[1,0,8589934592,2]");
    fixture_close(f);
}

static void convolution_errors(void **state) {
    (void)state;
    OPEN;
    ls_conv_spec spec = {.spatial = 1};
    ls_tensor *x = IN(2, 4, 10), *w = IN(6, 4, 3);
#define WITH(field, value) (&(ls_conv_spec){.spatial = 1, .field = value})
#define ONE(n) {n}
    FAILS(SHAPE_ERR, ls_conv(s, IN(2, 4), w, NULL, &spec),
          "conv: operand is f32[2,4] with 1 spatial axes: expected 1 to 3, and rank 3");
    FAILS(SHAPE_ERR, ls_conv(s, x, w, NULL, &(ls_conv_spec){.spatial = 4}), "conv", "4 spatial axes");
    FAILS(SHAPE_ERR, ls_conv(s, x, IN(6, 4), NULL, &spec),
          "conv: operand is f32[2,4,10] and filter f32[6,4]: expected a filter of rank 3");
    FAILS(
        SHAPE_ERR, ls_conv(s, x, IN(6, 3, 3), NULL, &spec),
        "conv: operand is f32[2,4,10] with 4 channels and filter f32[6,3,3] with 3 in 1 groups: expected 4");
    FAILS(INVALID, ls_conv(s, x, w, NULL, WITH(groups, 3)),
          "conv: groups 3 of operand f32[2,4,10] and filter f32[6,4,3]");
    FAILS(INVALID, ls_conv(s, x, w, NULL, WITH(groups, -1)), "conv: groups -1: expected 1 or more");
    FAILS(INVALID, ls_conv(s, x, w, NULL, (&(ls_conv_spec){.spatial = 1, .stride = ONE(-1)})),
          "conv: stride -1 of spatial axis 0");
    FAILS(INVALID, ls_conv(s, x, w, NULL, (&(ls_conv_spec){.spatial = 1, .dilation = ONE(-2)})),
          "conv: dilation -2 of spatial axis 0: expected 1 or more");
    FAILS(INVALID, ls_conv(s, x, w, NULL, (&(ls_conv_spec){.spatial = 1, .output_padding = ONE(1)})),
          "conv: output_padding 1 of spatial axis 0: expected 0");
    FAILS(SHAPE_ERR, ls_conv(s, x, IN(6, 4, 13), NULL, (&(ls_conv_spec){.spatial = 1, .pad_low = ONE(2)})),
          "conv: kernel 13 with dilation 1 of spatial axis 0 is larger than operand f32[2,4,10] padded by 2 "
          "and 0");
    FAILS(INVALID, ls_conv(s, x, IN(6, 4, 0), NULL, &spec), "conv: kernel 0 of spatial axis 0");
    FAILS(SHAPE_ERR, ls_conv(s, x, w, IN(5), &spec),
          "conv: bias is f32[5] for filter f32[6,4,3]: expected [6]");
    FAILS(DTYPE_ERR, ls_conv(s, x, IN_OF(LS_F16, 6, 4, 3), NULL, &spec),
          "conv: operands are f32[2,4,10] and f16[6,4,3]");
    FAILS(DTYPE_ERR, ls_conv(s, IN_OF(LS_BOOL, 1, 1, 1), IN_OF(LS_BOOL, 1, 1, 1), NULL, &spec),
          "conv: operand is bool[1,1,1]");
    FAILS(INVALID, ls_conv(s, x, w, NULL, NULL), "conv: the spec is NULL");
    FAILS(INVALID, ls_max_pool(s, x, NULL, &spec), "max_pool: the kernel is NULL");
    FAILS(INVALID, ls_im2col(s, x, NULL, NULL), "im2col: the spec is NULL");
    FAILS(INVALID, ls_attention(s, x, x, x, NULL), "attention: the spec is NULL");
    ls_conv_spec axes = {.spatial = 1, .axes = {.set = 1}};
    FAILS(INVALID, ls_conv(s, x, w, NULL, &axes),
          "conv: the axes of the input: axis 0 is out of range or given twice");
    axes.axes.input_channel = 1, axes.axes.input_spatial[0] = 2;
    FAILS(INVALID, ls_conv(s, x, w, NULL, &axes), "conv: the axes of the output");
    axes.axes.output_channel = 1, axes.axes.output_spatial[0] = 2, axes.axes.filter_in = 3;
    FAILS(INVALID, ls_conv(s, x, w, NULL, &axes), "conv: the axes of the filter: axis 3");
    FAILS(SHAPE_ERR, ls_conv_transpose(s, x, IN(5, 2, 3), NULL, &spec),
          "conv_transpose: operand is f32[2,4,10] with 4 channels and filter f32[5,2,3] with 5");
    FAILS(SHAPE_ERR,
          ls_conv_transpose(s, x, IN(4, 2, 3), NULL, (&(ls_conv_spec){.spatial = 1, .pad_low = ONE(12)})),
          "conv_transpose: padding 12 and 0 of spatial axis 0 leave nothing of operand f32[2,4,10]");
    FAILS(INVALID,
          ls_conv_transpose(s, x, IN(4, 2, 3), NULL,
                            (&(ls_conv_spec){.spatial = 1, .output_padding = ONE(-1)})),
          "output_padding -1");
    FAILS(INVALID, ls_conv_transpose(s, x, IN(4, 2, 0), NULL, &spec), "conv_transpose: kernel 0");
    FAILS(INVALID,
          ls_conv_transpose(s, x, IN(4, 2, 3), NULL, (&(ls_conv_spec){.spatial = 1, .stride = ONE(3), .output_padding = ONE(INT64_MAX - 9)})),
          "conv_transpose: padding 0 and 0 and output padding 9223372036854775798 of spatial axis 0: out of range");
    fixture_close(f);
}

static void pools_and_patches(void **state) {
    (void)state;
    OPEN;
    int64_t k[] = {2, 3};
    ls_conv_spec spec = {.spatial = 2, .stride = {2, 3}, .pad_low = {1, 0}};
    ls_tensor *x = IN(2, 3, 7, 9), *cols = IN(2, 18, 12);
    assert_tensor(f, ls_max_pool(s, x, k, &spec), "f32[2,3,4,3]");
    assert_tensor(f, ls_max_pool(s, IN_OF(LS_U8, 2, 3, 7, 9), k, &spec), "u8[2,3,4,3]");
    assert_tensor(f, ls_avg_pool(s, IN_OF(LS_BF16, 2, 3, 7, 9), k, &spec, 0), "bf16[2,3,4,3]");
    assert_tensor(f, ls_avg_pool(s, x, k, &spec, 1), "f32[2,3,4,3]");
    ls_conv_spec last = {.spatial = 2,
                         .axes = {.set = 1,
                                  .input_channel = 3,
                                  .input_spatial = {1, 2},
                                  .output_channel = 3,
                                  .output_spatial = {1, 2}}};
    assert_tensor(f, ls_max_pool(s, x, k, &last), "f32[2,2,5,9]");
    assert_tensor(f, ls_im2col(s, x, k, &spec), "f32[2,18,12]");
    assert_tensor(f,
                  ls_im2col(s, input(f, LS_F16, SHAPE(B, D(3), T, D(9))), k, &(ls_conv_spec){.spatial = 2}),
                  "f16[B,18,7*T-7]");
    assert_tensor(f, ls_col2im(s, cols, LS_SHAPE(2, 3, 7, 9), k, &spec), "f32[2,3,7,9]");
    FAILS(INVALID, ls_max_pool(s, x, (int64_t[]){2, -3}, &spec), "max_pool: kernel -3 of spatial axis 1");
    FAILS(SHAPE_ERR, ls_max_pool(s, x, (int64_t[]){9, 1}, &spec),
          "max_pool: kernel 9 with dilation 1 of spatial axis 0 is larger than operand f32[2,3,7,9]");
    FAILS(SHAPE_ERR, ls_avg_pool(s, IN(2, 3), k, &spec, 0),
          "avg_pool: operand is f32[2,3] with 2 spatial axes");
    FAILS(DTYPE_ERR, ls_avg_pool(s, IN_OF(LS_I32, 2, 3, 7, 9), k, &spec, 0),
          "avg_pool: operand is i32[2,3,7,9]");
    FAILS(SHAPE_ERR, ls_im2col(s, x, (int64_t[]){2, 10}, &spec), "im2col: kernel 10");
    FAILS(LS_ERR_UNSUPPORTED, ls_im2col(s, x, k, &last), "im2col: axes are given");
    FAILS(SHAPE_ERR, ls_col2im(s, cols, LS_SHAPE(2, 4, 7, 9), k, &spec),
          "col2im: operand is f32[2,18,12] for image f32[2,4,7,9]: expected [batch, channels * 6 taps, 12 "
          "positions]");
    FAILS(SHAPE_ERR, ls_col2im(s, cols, LS_SHAPE(2, 3, 7), k, &spec),
          "col2im: operand is f32[2,3,7] with 2 spatial axes");
    FAILS(SHAPE_ERR, ls_col2im(s, cols, LS_SHAPE(2, -1, 7, 9), k, &spec), "col2im: shape [2,-1,7,9]");
    fixture_close(f);
}

static void networks(void **state) {
    (void)state;
    OPEN;
    ls_attention_spec plain = {0}, causal = {.causal = 1};
    ls_tensor *q = IN(2, 6, 5, 8), *k = IN(2, 3, 7, 8), *v = IN(2, 3, 7, 4), *h, *c;
    assert_tensor(f, ls_attention(s, q, k, v, &plain), "f32[2,6,5,4]");
    assert_tensor(f, ls_attention(s, IN(2, 3, 5, 8), k, v, &causal), "f32[2,3,5,4]");
    ls_tensor *kt = input(f, LS_F16, SHAPE(B, D(3), T, D(8)));
    assert_tensor(f, ls_attention(s, input(f, LS_F16, SHAPE(B, D(6), D(1), D(8))), kt, kt, &causal),
                  "f16[B,6,1,8]");
    ls_attention_spec masked = {.mask = IN_OF(LS_BOOL, 2, 1, 5, 7)}, bad = {.mask = IN_OF(LS_I32, 5, 7)},
                      off = {.mask = IN(6, 7)};
    assert_tensor(f, ls_attention(s, q, k, v, &masked), "f32[2,6,5,4]");
    FAILS(SHAPE_ERR, ls_attention(s, q, k, IN(2, 3, 6, 4), &plain),
          "attention: operands are f32[2,6,5,8], f32[2,3,7,8] and f32[2,3,6,4]");
    FAILS(SHAPE_ERR, ls_attention(s, q, IN(2, 4, 7, 8), IN(2, 4, 7, 4), &plain),
          "attention: operands are f32[2,6,5,8] and f32[2,4,7,8]: expected the heads");
    FAILS(DTYPE_ERR, ls_attention(s, q, k, v, &bad), "attention: the mask is i32[5,7]: expected bool or f32");
    FAILS(SHAPE_ERR, ls_attention(s, q, k, v, &off), "attention: f32[6,7] does not broadcast to [2,6,5,7]");
    FAILS(DTYPE_ERR, ls_attention(s, IN_OF(LS_I8, 1, 1, 1, 1), k, v, &plain),
          "attention: operand is i8[1,1,1,1]");
    ls_tensor *x = IN(9, 2, 3), *h0 = IN(2, 4), *wx = IN(16, 3), *wh = IN(16, 4);
    assert_tensor(f, ls_lstm(s, x, h0, h0, wx, wh, IN(16), &h, &c), "f32[9,2,4]");
    assert_tensor(f, h, "f32[2,4]");
    assert_tensor(f, c, "f32[2,4]");
    assert_tensor(f, ls_lstm(s, input(f, LS_F32, SHAPE(T, D(2), D(3))), h0, h0, wx, wh, NULL, NULL, NULL),
                  "f32[T,2,4]");
    FAILS(SHAPE_ERR, ls_lstm(s, x, h0, h0, wx, IN(16, 5), NULL, NULL, NULL),
          "lstm: operands are f32[9,2,3], f32[2,4]", "f32[16,5] and NULL: expected x[T,B,I]");
    FAILS(DTYPE_ERR, ls_lstm(s, x, h0, h0, wx, IN_OF(LS_F64, 16, 4), NULL, NULL, NULL),
          "lstm: operands are f32[9,2,3] and f64[16,4]");
    assert_tensor(f, ls_cross_entropy(s, input(f, LS_F32, SHAPE(B, D(10))), input(f, LS_I32, SHAPE(B))),
                  "f32[]");
    FAILS(SHAPE_ERR, ls_cross_entropy(s, IN(4, 10), IN_OF(LS_I32, 5)),
          "cross_entropy: operands are f32[4,10] and i32[5]");
    FAILS(SHAPE_ERR, ls_cross_entropy(s, IN(4, 10), IN(4)),
          "cross_entropy: operands are f32[4,10] and f32[4]: expected logits[N,C] and labels[N]");
    assert_tensor(f, ls_mse(s, IN(3, 4), IN(3, 4)), "f32[]");
    FAILS(SHAPE_ERR, ls_mse(s, IN(3, 4), IN(4)),
          "mse: operands are f32[3,4] and f32[4]: expected equal shapes");
    fixture_close(f);
}

/* ---- every allocation fails once ---- */

static void build_network(fixture *f) {
    ls_session *s = session_of(f);
    ls_tensor *x = ls_input(s, "x", LS_F16, LS_SHAPE(2, 4, 8, 8)),
              *w = ls_input(s, "w", LS_F16, LS_SHAPE(4, 2, 3, 3));
    ls_conv_spec spec = {.spatial = 2, .groups = 2, .pad_low = {1, 1}, .pad_high = {1, 1}};
    ls_tensor *y = ls_conv(s, x, w, NULL, &spec), *mean, *variance, *values, *indices;
    y = ls_batch_norm_train(s, ls_relu(s, y), NULL, NULL, 1e-5, &mean, &variance);
    y = y ? ls_max_pool(s, y, (int64_t[]){2, 2}, &(ls_conv_spec){.spatial = 2, .stride = {2, 2}}) : NULL;
    y = ls_layer_norm(s, ls_gelu(s, y), -1, NULL, NULL, 1e-5);
    y = ls_attention(s, y, y, y, &(ls_attention_spec){.causal = 1});
    y = y ? ls_dropout(s, y, 0.1, ls_random_key(s, 3)) : NULL;
    if (y) {
        (void)ls_topk(s, y, 2, -1, 1, &values, &indices);
    }
}

static void build_lstm(fixture *f) {
    ls_session *s = session_of(f);
    ls_tensor *x = ls_input(s, "x", LS_F32, LS_SHAPE(5, 2, 3)), *h = ls_input(s, "h", LS_F32, LS_SHAPE(2, 4));
    ls_tensor *w = ls_input(s, "w", LS_F32, LS_SHAPE(16, 3)), *u = ls_input(s, "u", LS_F32, LS_SHAPE(16, 4));
    (void)ls_lstm(s, x, h, h, w, u, NULL, NULL, NULL);
}

static void build_conv_by_group(fixture *f) {
    ls_session *s = session_of(f);
    ls_tensor *x = ls_input(s, "x", LS_F32, LS_SHAPE(1, 4, 3, 3, 3)),
              *w = ls_input(s, "w", LS_F32, LS_SHAPE(4, 2, 2, 2, 2));
    (void)ls_conv(s, x, w, NULL, &(ls_conv_spec){.spatial = 3, .groups = 2});
}

static void allocations_fail(void **state) {
    (void)state;
    fail_each_allocation(build_network);
    fail_each_allocation(build_lstm);
    fail_each_allocation(build_conv_by_group);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions_and_activations),
        cmocka_unit_test(norms),
        cmocka_unit_test(indexed),
        cmocka_unit_test(convolutions),
        cmocka_unit_test(convolution_errors),
        cmocka_unit_test(pools_and_patches),
        cmocka_unit_test(networks),
        cmocka_unit_test(allocations_fail),
    };
    return cmocka_run_group_tests_name("composites", tests, NULL, NULL);
}
