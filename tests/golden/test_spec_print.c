/* The text of specs: what lowering makes of common operations, word for word. A change here is a change of
 * kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "unit/spec_support.h"

static ls_symbol symbol = {.name = "B", .bound = 6, .index = 0};

/* The specs of the plan of each case, one after another. */
static ls_tensor *build(ls_session *s, int which) {
    ls_tensor *x = ls_input(s, "x", LS_F32, LS_SHAPE(4, 8)), *w = ls_input(s, "w", LS_F32, LS_SHAPE(8, 6));
    ls_tensor *gamma = ls_input(s, "gamma", LS_F32, LS_SHAPE(8)),
              *beta = ls_input(s, "beta", LS_F32, LS_SHAPE(8));
    ls_tensor *bias = ls_input(s, "bias", LS_F32, LS_SHAPE(6)),
              *index = ls_input(s, "index", LS_I64, LS_SHAPE(5));
    ls_tensor *image = ls_input(s, "image", LS_F32, LS_SHAPE(2, 3, 5, 5)),
              *filter = ls_input(s, "filter", LS_F32, LS_SHAPE(4, 3, 3, 3));
    ls_tensor *updates = ls_input(s, "updates", LS_F32, LS_SHAPE(5, 8));
    ls_shape batch = LS_SHAPE(1, 6), flat = LS_SHAPE(1);
    batch.dim[0] = ls_dim_symbol(&symbol, 1, 0);
    flat.dim[0] = ls_dim_symbol(&symbol, 6, 0);
    switch (which) {
    case 0:
        return ls_relu(s, ls_add(s, x, beta));
    case 1:
        return ls_softmax(s, x, -1);
    case 2:
        return ls_layer_norm(s, x, 1, gamma, beta, 1e-5);
    case 3:
        return ls_relu(s, ls_add(s, ls_matmul(s, x, w), bias));
    case 4:
        return ls_conv(
            s, image, filter, NULL,
            &(ls_conv_spec){.spatial = 2, .pad_low = {1, 1}, .pad_high = {1, 1}, .stride = {2, 1}});
    case 5:
        return ls_conv_transpose(
            s, image, ls_permute(s, filter, (int[]){1, 0, 2, 3}), NULL,
            &(ls_conv_spec){.spatial = 2, .stride = {2, 2}, .pad_low = {1, 1}, .pad_high = {1, 1}});
    case 6:
        return ls_max_pool(
            s, image, (int64_t[]){3, 3},
            &(ls_conv_spec){.spatial = 2, .stride = {2, 2}, .pad_low = {1, 1}, .pad_high = {1, 1}});
    case 7:
        return ls_embedding(s, x, index);
    case 8:
        return ls_gather(s, ls_slice(s, ls_transpose(s, x, 0, 1), (ls_slice_spec[]){{6, -1, -2}, {0, 4, 1}}),
                         index, 0);
    case 9:
        return ls_scatter(s, x, index, ls_exp(s, updates), 0, LS_SCATTER_ADD);
    case 10:
        return ls_neg(s, ls_permute(s, image, (int[]){0, 2, 3, 1}));
    case 11:
        return ls_slice(s, x, (ls_slice_spec[]){{3, -1, -1}, {1, 8, 3}});
    case 12:
        return ls_concat(s, (ls_tensor *[]){x, ls_neg(s, x), x}, 3, 1);
    case 13:
        return ls_sum(s, ls_pad(s, x, (ls_pad_spec[]){{1, 0, 0}, {0, 2, 1}}, 7.5), 1, (int[]){1}, 0);
    case 14:
        return ls_amin(s, ls_pad_absent(s, x, (ls_pad_spec[]){{1, 1, 0}, {0, 0, 0}}), 2, (int[]){1, 0}, 0);
    case 15:
        return ls_variance(s, ls_transpose(s, x, 0, 1), 1, (int[]){1}, 0, 0);
    case 16:
        return ls_sum(s, ls_reshape(s, ls_permute(s, image, (int[]){0, 2, 3, 1}), LS_SHAPE(2, 75)), 1,
                      (int[]){1}, 0);
    case 17:
        return ls_permute(s, ls_reshape(s, ls_matmul(s, x, w), LS_SHAPE(2, 2, 3, 2)), (int[]){0, 2, 1, 3});
    case 18:
        return ls_mean(s, ls_input(s, "t", LS_F16, batch), 1, (int[]){0}, 0);
    case 19:
        return ls_reshape(s, ls_permute(s, ls_input(s, "t", LS_F16, batch), (int[]){1, 0}), flat);
    case 20:
        return ls_scan(s, ls_exp(s, x), LS_SCAN_SUM, 1, 1, 1);
    case 21:
        return ls_argsort(s, x, 0, 1);
    case 22:
        return ls_dropout(s, x, 0.25, ls_input(s, "key", LS_U32, LS_SHAPE(2)));
    case 23: /* each element six times in a row: a quotient alone */
        return ls_neg(s, ls_reshape(s, ls_expand(s, ls_reshape(s, gamma, LS_SHAPE(8, 1)), LS_SHAPE(8, 6)), LS_SHAPE(48)));
    case 24: /* the line six times: a remainder alone */
        return ls_neg(s, ls_reshape(s, ls_expand(s, ls_reshape(s, gamma, LS_SHAPE(1, 8)), LS_SHAPE(6, 8)), LS_SHAPE(48)));
    default:
        return NULL;
    }
}

static const struct {
    const char *name, *text;
} cases[] = {
    {"bias_relu", "add_max: locked pointwise\n"
                  "  axes i:4 j:8\n"
                  "  args a0:f32[32] a1:f32[8] -> a2:f32[32]\n"
                  "  v0{i,j} f32 = LOAD a0[8*i + j]\n"
                  "  v1{j} f32 = LOAD a1[j]\n"
                  "  v2{i,j} f32 = add(v0, v1)\n"
                  "  v3{} f32 = 0.0\n"
                  "  v4{i,j} f32 = max(v2, v3)\n"
                  "  a2[8*i + j] = v4 over (i,j)\n"},
    {"softmax", "amax_sub_exp_sum_div: locked reduce\n"
                "  axes i:4 j:8\n"
                "  args a0:f32[32] -> a1:f32[32]\n"
                "  v0{i,j} f32 = LOAD a0[8*i + j]\n"
                "  v1{i} f32 = AMAX{j}(v0)\n"
                "  v2{i,j} f32 = sub(v0, v1)\n"
                "  v3{i,j} f32 = exp(v2)\n"
                "  v4{i} f32 = SUM{j}(v3)\n"
                "  v5{i,j} f32 = div(v3, v4)\n"
                "  a1[8*i + j] = v5 over (i,j)\n"},
    {"layer_norm", "sum_div_sub_mul_sum_div_add_sqrt_div_mul_add: locked reduce\n"
                   "  axes i:4 j:8\n"
                   "  args a0:f32[32] a1:f32[8] a2:f32[8] -> a3:f32[32]\n"
                   "  v0{i,j} f32 = LOAD a0[8*i + j]\n"
                   "  v1{i} f32 = SUM{j}(v0)\n"
                   "  v2{} f32 = 8.0\n"
                   "  v3{i} f32 = div(v1, v2)\n"
                   "  v4{i,j} f32 = sub(v0, v3)\n"
                   "  v5{i,j} f32 = mul(v4, v4)\n"
                   "  v6{i} f32 = SUM{j}(v5)\n"
                   "  v7{i} f32 = div(v6, v2)\n"
                   "  v8{} f32 = 9.999999747378752e-06\n"
                   "  v9{i} f32 = add(v7, v8)\n"
                   "  v10{i} f32 = sqrt(v9)\n"
                   "  v11{i,j} f32 = div(v4, v10)\n"
                   "  v12{j} f32 = LOAD a1[j]\n"
                   "  v13{i,j} f32 = mul(v11, v12)\n"
                   "  v14{j} f32 = LOAD a2[j]\n"
                   "  v15{i,j} f32 = add(v13, v14)\n"
                   "  a3[8*i + j] = v15 over (i,j)\n"},
    {"matmul_bias_relu", "contract_add_max: locked contract\n"
                         "  axes i:4 j:6 k:8\n"
                         "  args a0:f32[32] a1:f32[48] a2:f32[6] -> a3:f32[24]\n"
                         "  v0{i,k} f32 = LOAD a0[8*i + k]\n"
                         "  v1{j,k} f32 = LOAD a1[j + 6*k]\n"
                         "  v2{i,j} f32 = SUM{k}(v0*v1)\n"
                         "  v3{j} f32 = LOAD a2[j]\n"
                         "  v4{i,j} f32 = add(v2, v3)\n"
                         "  v5{} f32 = 0.0\n"
                         "  v6{i,j} f32 = max(v4, v5)\n"
                         "  a3[6*i + j] = v6 over (i,j)\n"},
    {"conv_padded",
     "contract: locked contract\n"
     "  axes i:2 j:4 k:3 l:5 m:3 n:3 o:3\n"
     "  args a0:f32[150] a1:f32[108] -> a2:f32[120]\n"
     "  v0{i,k,l,m,n,o} f32 = LOAD a0[75*i + 10*k + l + 25*m + 5*n + o - 6] if 0 <= 2*k + n - 1 < 5,"
     " 0 <= l + o - 1 < 5\n"
     "  v1{i,k,l,m,n,o} f32 = v0 if 0 <= 2*k + n - 1 < 5, 0 <= l + o - 1 < 5 else absent\n"
     "  v2{j,m,n,o} f32 = LOAD a1[27*j + 9*m + 3*n + o]\n"
     "  v3{i,j,k,l} f32 = SUM{n,o,m}(v1*v2)\n"
     "  a2[60*i + 15*j + 5*k + l] = v3 over (i,j,k,l)\n"},
    {"conv_transposed",
     "contract: locked contract\n"
     "  axes i:2 j:4 k:9 l:9 m:3 n:3 o:3\n"
     "  args a0:f32[150] a1:f32[108] -> a2:f32[648]\n"
     "  v0{i,k,l,m,n,o} f32 = LOAD a0[75*i + 25*m + 5*((k - n + 1) div 2) + ((l - o + 1) div 2)] if"
     " (k - n + 1) mod 2 = 0, 0 <= ((k - n + 1) div 2) < 5, (l - o + 1) mod 2 = 0, 0 <= ((l - o + 1)"
     " div 2) < 5\n"
     "  v1{i,k,l,m,n,o} f32 = v0 if (k - n + 1) mod 2 = 0, 0 <= ((k - n + 1) div 2) < 5, (l - o + 1)"
     " mod 2 = 0, 0 <= ((l - o + 1) div 2) < 5 else absent\n"
     "  v2{j,m,n,o} f32 = LOAD a1[27*j + 9*m + 3*n + o]\n"
     "  v3{i,j,k,l} f32 = SUM{n,o,m}(v1*v2)\n"
     "  a2[324*i + 81*j + 9*k + l] = v3 over (i,j,k,l)\n"},
    {"max_pool",
     "amax: locked reduce\n"
     "  axes i:2 j:3 k:3 l:3 m:3 n:3\n"
     "  args a0:f32[150] -> a1:f32[54]\n"
     "  v0{i,j,k,l,m,n} f32 = LOAD a0[75*i + 25*j + 10*k + 2*l + 5*m + n - 6] if 0 <= 2*k + m - 1 <"
     " 5, 0 <= 2*l + n - 1 < 5\n"
     "  v1{i,j,k,l,m,n} f32 = v0 if 0 <= 2*k + m - 1 < 5, 0 <= 2*l + n - 1 < 5 else absent\n"
     "  v2{i,j,k,l} f32 = AMAX{m,n}(v1)\n"
     "  a1[27*i + 9*j + 3*k + l] = v2 over (i,j,k,l)\n"},
    {"gather", "gather: locked pointwise\n"
               "  axes i:5 j:8\n"
               "  args a0:f32[32] a1:i64[5] -> a2:f32[40]\n"
               "  v0{i} i64 = LOAD a1[i]\n"
               "  v1{i,j} f32 = LOAD a0[j + 8*v0] check 0 <= v0 < 4\n"
               "  a2[8*i + j] = v1 over (i,j)\n"},
    {"gather_of_a_view", "gather: locked pointwise\n"
                         "  axes i:5 j:4\n"
                         "  args a0:f32[32] a1:i64[5] -> a2:f32[20]\n"
                         "  v0{i} i64 = LOAD a1[i]\n"
                         "  v1{i,j} f32 = LOAD a0[8*j + -2*v0 + 6] check 0 <= v0 < 4\n"
                         "  a2[4*i + j] = v1 over (i,j)\n"},
    {"scatter_add", "scatter_exp: locked scatter\n"
                    "  axes i:4 j:8 k:5 l:8\n"
                    "  args a0:f32[32] a1:i64[5] a2:f32[40] -> a3:f32[32]\n"
                    "  v0{i,j} f32 = LOAD a0[8*i + j]\n"
                    "  v1{k} i64 = LOAD a1[k]\n"
                    "  v2{k,l} f32 = LOAD a2[8*k + l]\n"
                    "  v3{k,l} f32 = exp(v2)\n"
                    "  a3[8*i + j] = v0 over (i,j)\n"
                    "  a3[l + 8*v1] += v3 over (k,l) check 0 <= v1 < 4\n"},
    {"permuted", "neg: locked pointwise\n"
                 "  axes i:2 j:5 k:5 l:3\n"
                 "  args a0:f32[150] -> a1:f32[150]\n"
                 "  v0{i,j,k,l} f32 = LOAD a0[75*i + 5*j + k + 25*l]\n"
                 "  v1{i,j,k,l} f32 = neg(v0)\n"
                 "  a1[75*i + 15*j + 3*k + l] = v1 over (i,j,k,l)\n"},
    {"negative_step", "copy: locked pointwise\n"
                      "  axes i:4 j:3\n"
                      "  args a0:f32[32] -> a1:f32[12]\n"
                      "  v0{i,j} f32 = LOAD a0[-8*i + 3*j + 25]\n"
                      "  a1[3*i + j] = v0 over (i,j)\n"},
    {"concat", "neg: locked pointwise\n"
               "  axes i:4 j:24\n"
               "  args a0:f32[32] -> a1:f32[96]\n"
               "  v0{i,j} f32 = LOAD a0[8*i + j - 16] if 0 <= j - 16 < 8\n"
               "  v1{i,j} f32 = LOAD a0[8*i + j - 8] if 0 <= j - 8 < 8\n"
               "  v2{i,j} f32 = neg(v1)\n"
               "  v3{i,j} f32 = v2 if 0 <= j - 8 < 8 else v0\n"
               "  v4{i,j} f32 = LOAD a0[8*i + j] if 0 <= j < 8\n"
               "  v5{i,j} f32 = v4 if 0 <= j < 8 else v3\n"
               "  a1[24*i + j] = v5 over (i,j)\n"},
    {"pad_sum",
     "sum: locked reduce\n"
     "  axes i:5 j:17\n"
     "  args a0:f32[32] -> a1:f32[5]\n"
     "  v0{} f32 = 7.5\n"
     "  v1{i,j} f32 = LOAD a0[8*i + (j div 2) - 8] if j mod 2 = 0, 0 <= i - 1 < 4, 0 <= (j div 2) < 8\n"
     "  v2{i,j} f32 = v1 if j mod 2 = 0, 0 <= i - 1 < 4, 0 <= (j div 2) < 8 else v0\n"
     "  v3{i} f32 = SUM{j}(v2)\n"
     "  a1[i] = v3 over (i)\n"},
    {"pad_absent_amin", "amin: locked reduce\n"
                        "  axes i:6 j:8\n"
                        "  args a0:f32[32] -> a1:f32[1]\n"
                        "  v0{i,j} f32 = LOAD a0[8*i + j - 8] if 0 <= i - 1 < 4\n"
                        "  v1{i,j} f32 = v0 if 0 <= i - 1 < 4 else absent\n"
                        "  v2{} f32 = AMIN{j,i}(v1)\n"
                        "  a1[0] = v2 over ()\n"},
    {"variance_of_transposed", "sum_div_sub_mul_sum_div: locked reduce\n"
                               "  axes i:8 j:4\n"
                               "  args a0:f32[32] -> a1:f32[8]\n"
                               "  v0{i,j} f32 = LOAD a0[i + 8*j]\n"
                               "  v1{i} f32 = SUM{j}(v0)\n"
                               "  v2{} f32 = 4.0\n"
                               "  v3{i} f32 = div(v1, v2)\n"
                               "  v4{i,j} f32 = sub(v0, v3)\n"
                               "  v5{i,j} f32 = mul(v4, v4)\n"
                               "  v6{i} f32 = SUM{j}(v5)\n"
                               "  v7{i} f32 = div(v6, v2)\n"
                               "  a1[i] = v7 over (i)\n"},
    {"sum_of_reshaped", "sum: locked reduce\n"
                        "  axes i:2 j:25 k:3\n"
                        "  args a0:f32[150] -> a1:f32[2]\n"
                        "  v0{i,j,k} f32 = LOAD a0[75*i + 25*k + j]\n"
                        "  v1{i} f32 = SUM{j,k}(v0)\n"
                        "  a1[i] = v1 over (i)\n"},
    {"split_heads", "contract: locked contract\n"
                    "  axes i:2 j:3 k:2 l:2 m:8\n"
                    "  args a0:f32[32] a1:f32[48] -> a2:f32[24]\n"
                    "  v0{i,k,m} f32 = LOAD a0[16*i + 8*k + m]\n"
                    "  v1{j,l,m} f32 = LOAD a1[2*j + l + 6*m]\n"
                    "  v2{i,j,k,l} f32 = SUM{m}(v0*v1)\n"
                    "  a2[12*i + 4*j + 2*k + l] = v2 over (i,j,k,l)\n"},
    {"mean_over_symbol", "cast_sum_cast_div_cast: locked reduce\n"
                         "  axes i:6 j:B\n"
                         "  args a0:f16[36] -> a1:f16[6]\n"
                         "  v0{i,j} f16 = LOAD a0[i + 6*j]\n"
                         "  v1{i,j} f32 = cast(v0)\n"
                         "  v2{i} f32 = SUM{j}(v1)\n"
                         "  v3{} i64 = INDEX B\n"
                         "  v4{} f32 = cast(v3)\n"
                         "  v5{i} f32 = div(v2, v4)\n"
                         "  v6{i} f16 = cast(v5)\n"
                         "  a1[i] = v6 over (i)\n"},
    {"reshape_symbol", "copy: locked pointwise\n"
                       "  axes i:6*B\n"
                       "  args a0:f16[36] -> a1:f16[36]\n"
                       "  v0{i} f16 = LOAD a0[6*(i mod B) + ((i div B) mod 6)]\n"
                       "  a1[i] = v0 over (i)\n"},
    {"scan", "exp_scan: locked scan\n"
             "  axes i:4 j:8\n"
             "  args a0:f32[32] -> a1:f32[32]\n"
             "  v0{i,j} f32 = LOAD a0[8*i + j]\n"
             "  v1{i,j} f32 = exp(v0)\n"
             "  v2{i,j} f32 = SCAN sum exclusive reverse{j}(v1)\n"
             "  a1[8*i + j] = v2 over (i,j)\n"},
    {"argsort", "argsort: locked sort\n"
                "  axes i:4 j:8\n"
                "  args a0:f32[32] -> a1:i64[32]\n"
                "  v0{i,j} f32 = LOAD a0[8*i + j]\n"
                "  v1{i,j} i64 = SORT descending{i}(v0)\n"
                "  a1[8*i + j] = v1 over (i,j)\n"},
    {"dropout", "random_shr_cast_mul_le_mul_where: locked pointwise\n"
                "  axes i:4 j:8\n"
                "  args a0:u32[2] a1:f32[32] -> a2:f32[32]\n"
                "  v0{} f32 = 0.25\n"
                "  v1{} u32 = LOAD a0[0]\n"
                "  v2{} u32 = LOAD a0[1]\n"
                "  v3{i,j} u32 = RANDOM(v1, v2) at 8*i + j\n"
                "  v4{} u32 = 8\n"
                "  v5{i,j} u32 = shr(v3, v4)\n"
                "  v6{i,j} f32 = cast(v5)\n"
                "  v7{} f32 = 5.9604644775390625e-08\n"
                "  v8{i,j} f32 = mul(v6, v7)\n"
                "  v9{i,j} bool = le(v0, v8)\n"
                "  v10{i,j} f32 = LOAD a1[8*i + j]\n"
                "  v11{} f32 = 1.3333333730697632\n"
                "  v12{i,j} f32 = mul(v10, v11)\n"
                "  v13{} f32 = 0.0\n"
                "  v14{i,j} f32 = where(v9, v12, v13)\n"
                "  a2[8*i + j] = v14 over (i,j)\n"},
    {"repeated", "neg: locked pointwise\n"
                 "  axes i:8 j:6\n"
                 "  args a0:f32[8] -> a1:f32[48]\n"
                 "  v0{i} f32 = LOAD a0[i]\n"
                 "  v1{i} f32 = neg(v0)\n"
                 "  a1[j + 6*i] = v1 over (i,j)\n"},
    {"tiled", "neg: locked pointwise\n"
              "  axes i:6 j:8\n"
              "  args a0:f32[8] -> a1:f32[48]\n"
              "  v0{j} f32 = LOAD a0[j]\n"
              "  v1{j} f32 = neg(v0)\n"
              "  a1[j + 8*i] = v1 over (i,j)\n"},
};

static void specs_read_as_written(void **state) {
    (void)state;
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        bench b;
        ls_plan plan;
        ls_text text;
        bench_open(&b);
        ls_text_init(&text, &b.heap);
        ls_tensor *root = build(b.s, i);
        bench_plan(&b, &root, 1, 1, &plan);
        for (int j = 0; j < plan.n_groups; j++) {
            ls_spec spec;
            bench_spec(&b, &plan.groups[j], &spec);
            ls_spec_print(&text, &spec);
        }
        assert_false(text.failed);
        if (strcmp(text.data, cases[i].text) != 0) {
            fail_msg("%s: expected\n%s\nbut it is\n%s", cases[i].name, cases[i].text, text.data);
        }
        ls_text_free(&text);
        bench_close(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(specs_read_as_written)};
    return cmocka_run_group_tests_name("spec_print", tests, NULL, NULL);
}
