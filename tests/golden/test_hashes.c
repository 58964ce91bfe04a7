/* Locked bits that must never change without a new version of the contract: SHA-256 of results as literals, the same on every device.
 * On LOCKSTEP_DEVICE where it is set, else on the host's. */
#include "support/world.h"
#include <lockstep/device.h>
#include <lockstep/nn.h>
#include <lockstep/optim.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef ls_tensor *(*build_fn)(ls_session *s);

/* f32 values of mixed magnitude from integer arithmetic alone. */
static ls_tensor *values(ls_session *s, uint64_t seed, int64_t rows, int64_t columns) {
    int64_t n = rows * columns;
    float *x = malloc(sizeof *x * (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)((int64_t)(seed >> 33) - (INT64_C(1) << 30)) * (i % 5 == 0 ? 0x1p-24f : 0x1p-29f);
    }
    ls_tensor *t = ls_tensor_from(s, LS_F32, LS_SHAPE(rows, columns), x);
    free(x);
    return t;
}

static ls_tensor *elementary(ls_session *s) {
    ls_tensor *x = values(s, 1, 40, 100), *p = ls_add(s, ls_abs(s, x), ls_full(s, LS_F32, LS_SHAPE(40, 100), 0x1p-10));
    ls_tensor *unit = ls_div(s, x, ls_add(s, ls_full(s, LS_F32, LS_SHAPE(40, 100), 1), ls_abs(s, x)));
    ls_tensor *all[] = {ls_exp(s, x), ls_expm1(s, x), ls_exp2(s, x), ls_log(s, p), ls_log2(s, p), ls_log1p(s, p), ls_sin(s, x), ls_cos(s, x),
                        ls_tan(s, x), ls_asin(s, unit), ls_acos(s, unit), ls_atan(s, x), ls_sinh(s, unit), ls_cosh(s, unit), ls_tanh(s, x),
                        ls_erf(s, x), ls_erfc(s, x), ls_pow(s, p, unit), ls_sqrt(s, p), ls_rsqrt(s, p), ls_cbrt(s, x)};
    return ls_concat(s, all, sizeof all / sizeof *all, 0);
}
static ls_tensor *sums(ls_session *s) {
    ls_tensor *x = values(s, 2, 70, 300);
    ls_tensor *all[] = {ls_sum(s, x, 2, (const int[]){0, 1}, 0), ls_sum(s, x, 2, (const int[]){1, 0}, 0),
                        ls_prod(s, ls_narrow(s, x, 1, 0, 3), 0, NULL, 0)};
    for (int i = 0; i < 3; i++) {
        all[i] = ls_reshape(s, all[i], LS_SHAPE(1));
    }
    return ls_concat(s, (ls_tensor *[]){all[0], all[1], all[2], ls_sum(s, x, 1, (const int[]){0}, 0), ls_sum(s, x, 1, (const int[]){1}, 0)}, 5, 0);
}
static ls_tensor *product(ls_session *s) {
    return ls_matmul(s, values(s, 3, 37, 1100), values(s, 4, 1100, 29));
}
static ls_tensor *scan(ls_session *s) {
    return ls_scan(s, values(s, 5, 3, 1700), LS_SCAN_SUM, 1, 0, 0);
}
static ls_tensor *rows(ls_session *s) {
    ls_tensor *x = values(s, 6, 9, 5000);
    return ls_concat(s, (ls_tensor *[]){ls_softmax(s, x, 1), ls_layer_norm(s, x, 1, NULL, NULL, 1e-5)}, 2, 0);
}
static ls_tensor *convolution(ls_session *s) {
    ls_tensor *x = ls_reshape(s, values(s, 7, 6, 169), LS_SHAPE(2, 3, 13, 13)), *w = ls_reshape(s, values(s, 8, 4, 27), LS_SHAPE(4, 3, 3, 3));
    ls_conv_spec c = {.spatial = 2, .stride = {2, 1}, .dilation = {1, 2}, .pad_low = {1, 2}, .pad_high = {0, 1}};
    ls_tensor *y = ls_gelu(s, ls_conv(s, x, w, NULL, &c)), *xs[2] = {x, w}, *g[2] = {NULL, NULL};
    if (ls_grad(s, y, NULL, 2, xs, g) != LS_OK) {
        return NULL;
    }
    return ls_concat(s, (ls_tensor *[]){ls_reshape(s, y, LS_SHAPE(-1)), ls_reshape(s, g[0], LS_SHAPE(-1)), ls_reshape(s, g[1], LS_SHAPE(-1))}, 3, 0);
}
static ls_tensor *halves(ls_session *s) {
    ls_tensor *x = values(s, 9, 20, 600);
    ls_tensor *h = ls_cast(s, x, LS_F16), *b = ls_cast(s, x, LS_BF16);
    ls_tensor *p = ls_matmul(s, h, ls_transpose(s, h, 0, 1)), *q = ls_matmul(s, b, ls_transpose(s, b, 0, 1));
    return ls_concat(s, (ls_tensor *[]){ls_cast(s, ls_tanh(s, p), LS_F32), ls_cast(s, ls_exp(s, ls_neg(s, ls_abs(s, q))), LS_F32)}, 2, 0);
}
static ls_tensor *noise(ls_session *s) {
    return ls_random_normal(s, ls_random_split(s, ls_random_key(s, 42), 7), LS_SHAPE(1000), LS_F32);
}


/* Results of several dtypes side by side: each element's bits, as u64. */
static ls_tensor *bits(ls_session *s, int count, ls_tensor *const *xs) {
    static const ls_dtype of_size[9] = {[1] = LS_U8, [2] = LS_U16, [4] = LS_U32, [8] = LS_U64};
    ls_tensor *flat[32];
    for (int i = 0; i < count; i++) {
        ls_tensor *x = xs[i];
        if (x && ls_tensor_dtype(x) != LS_BOOL) {
            x = ls_bitcast(s, x, of_size[ls_dtype_size(ls_tensor_dtype(x))]);
        }
        flat[i] = ls_reshape(s, ls_cast(s, x, LS_U64), LS_SHAPE(-1));
    }
    return ls_concat(s, flat, count, 0);
}
#define BITS(s, ...) bits(s, sizeof((ls_tensor *[]){__VA_ARGS__}) / sizeof(ls_tensor *), (ls_tensor *[]){__VA_ARGS__})

/* The result and its gradients in the given tensors. */
static ls_tensor *with_gradients(ls_session *s, ls_tensor *y, int count, ls_tensor *const *xs) {
    ls_tensor *all[9] = {y};
    return y && ls_grad(s, y, NULL, count, xs, all + 1) == LS_OK ? bits(s, count + 1, all) : NULL;
}

static ls_tensor *any_bits(ls_session *s, uint64_t seed, ls_dtype type, int64_t n) {
    ls_tensor *words = ls_random_bits(s, ls_random_key(s, seed), LS_SHAPE(n));
    return type == LS_U32 ? words : ls_bitcast(s, words, type);
}
static ls_tensor *integers(ls_session *s) {
    ls_tensor *a = any_bits(s, 1, LS_I32, 300), *b = ls_shr(s, any_bits(s, 2, LS_I32, 300), ls_full_i64(s, LS_I32, LS_SCALAR, 20));
    ls_tensor *c = ls_mul(s, ls_cast(s, a, LS_I64), ls_cast(s, any_bits(s, 3, LS_I32, 300), LS_I64)), *d = ls_cast(s, b, LS_I64);
    ls_tensor *u = ls_bitcast(s, c, LS_U64), *v = ls_bitcast(s, d, LS_U64), *bytes = ls_cast(s, a, LS_I8), *by = ls_cast(s, b, LS_I8);
    ls_tensor *m = ls_reshape(s, bytes, LS_SHAPE(15, 20)), *n = ls_reshape(s, by, LS_SHAPE(20, 15));
    return BITS(s, ls_add(s, a, b), ls_mul(s, a, b), ls_div(s, a, b), ls_rem(s, a, b), ls_shl(s, a, b), ls_shr(s, a, b), ls_add(s, c, d),
                ls_mul(s, c, d), ls_div(s, c, d), ls_rem(s, c, d), ls_div(s, u, v), ls_rem(s, u, v), ls_shr(s, c, d), ls_min(s, u, v),
                ls_max(s, c, d), ls_popcount(s, c), ls_lt(s, c, d), ls_lt(s, u, v), ls_mul(s, bytes, by), ls_div(s, bytes, by),
                ls_matmul(s, m, n), ls_sum(s, bytes, 0, NULL, 0), ls_sum(s, c, 0, NULL, 0), ls_prod(s, a, 0, NULL, 0), ls_sign(s, c), ls_abs(s, a));
}
static ls_tensor *conversions(ls_session *s) {
    static const ls_dtype types[] = {LS_BOOL, LS_I8, LS_U8, LS_I16, LS_U16, LS_I32, LS_U32, LS_I64, LS_U64, LS_F16, LS_BF16};
    enum { N = sizeof types / sizeof *types };
    ls_tensor *x = any_bits(s, 4, LS_F32, 2000), *far = ls_cast(s, any_bits(s, 5, LS_U32, 2000), LS_U64), *all[2 * N + 1];
    ls_tensor *wide = ls_mul(s, far, far);
    for (int i = 0; i < N; i++) {
        all[i] = ls_cast(s, x, types[i]);
        all[N + i] = ls_cast(s, wide, types[i]);
    }
    all[2 * N] = ls_cast(s, wide, LS_F32);
    return bits(s, 2 * N + 1, all);
}
static ls_tensor *extremes(ls_session *s) {
    ls_tensor *x = any_bits(s, 6, LS_F32, 700), *y = ls_flip(s, x, 0), *zero = ls_mul(s, ls_sign(s, values(s, 1, 1, 700)), ls_full(s, LS_F32, LS_SCALAR, 0));
    zero = ls_reshape(s, zero, LS_SHAPE(700));
    return BITS(s, ls_min(s, x, y), ls_max(s, x, y), ls_max(s, zero, ls_neg(s, zero)), ls_min(s, zero, ls_neg(s, zero)), ls_rem(s, x, y),
                ls_argmax(s, x, 0, NULL, 0), ls_argmin(s, x, 0, NULL, 0), ls_amax(s, x, 0, NULL, 0), ls_amin(s, zero, 0, NULL, 0), ls_sign(s, x),
                ls_floor(s, x), ls_rint(s, x), ls_recip(s, x), ls_lt(s, x, y), ls_ne(s, x, x), ls_eq(s, zero, ls_neg(s, zero)),
                ls_scan(s, x, LS_SCAN_MAX, 0, 0, 1), ls_scan(s, zero, LS_SCAN_MIN, 0, 1, 0));
}
static ls_tensor *order(ls_session *s) {
    ls_tensor *x = ls_reshape(s, any_bits(s, 7, LS_F32, 600), LS_SHAPE(4, 150)), *ties = ls_rem(s, any_bits(s, 8, LS_U32, 90), ls_full_i64(s, LS_U32, LS_SCALAR, 7));
    ls_tensor *best, *where;
    if (ls_topk(s, x, 5, 1, 1, &best, &where) != LS_OK) {
        return NULL;
    }
    return BITS(s, ls_sort(s, x, 1, 0), ls_argsort(s, x, 1, 1), ls_argsort(s, x, 0, 0), ls_argsort(s, ties, 0, 1), best, where);
}
static ls_tensor *indexed(ls_session *s) {
    ls_tensor *x = values(s, 10, 23, 17), *updates = values(s, 11, 200, 17);
    ls_tensor *index = ls_cast(s, ls_rem(s, any_bits(s, 9, LS_U32, 200), ls_full_i64(s, LS_U32, LS_SCALAR, 23)), LS_I32);
    ls_tensor *read = ls_gather(s, x, index, 0);
    return BITS(s, read, with_gradients(s, ls_mul(s, ls_embedding(s, x, index), updates), 2, (ls_tensor *[]){x, updates}),
                ls_scatter(s, x, index, updates, 0, LS_SCATTER_ADD), ls_scatter(s, x, index, updates, 0, LS_SCATTER_SET),
                ls_scatter(s, x, index, updates, 0, LS_SCATTER_MUL), ls_scatter(s, x, index, updates, 0, LS_SCATTER_MAX));
}
static ls_tensor *attention(ls_session *s) {
    ls_tensor *q = ls_reshape(s, values(s, 12, 24, 48), LS_SHAPE(2, 4, 9, 16)), *k = ls_reshape(s, values(s, 13, 20, 32), LS_SHAPE(2, 2, 10, 16));
    ls_tensor *v = ls_reshape(s, values(s, 14, 20, 32), LS_SHAPE(2, 2, 10, 16)), *tenth = ls_full(s, LS_F32, LS_SCALAR, 0.1);
    q = ls_mul(s, q, tenth);
    return with_gradients(s, ls_attention(s, q, k, v, &(ls_attention_spec){.causal = 1}), 3, (ls_tensor *[]){q, k, v});
}
static ls_tensor *recurrent(ls_session *s) {
    ls_tensor *x = ls_reshape(s, values(s, 15, 14, 5), LS_SHAPE(7, 2, 5)), *h = values(s, 16, 2, 6), *c = values(s, 17, 2, 6);
    ls_tensor *w = values(s, 18, 24, 5), *r = values(s, 19, 24, 6), *last, *cell;
    ls_tensor *y = ls_lstm(s, x, h, c, w, r, NULL, &last, &cell);
    return BITS(s, last, cell, with_gradients(s, y, 5, (ls_tensor *[]){x, h, c, w, r}));
}
static ls_tensor *norms(ls_session *s) {
    ls_tensor *x = ls_reshape(s, values(s, 20, 60, 77), LS_SHAPE(5, 12, 7, 11)), *gamma = ls_reshape(s, values(s, 21, 1, 12), LS_SHAPE(12));
    ls_tensor *mean, *variance, *y = ls_batch_norm_train(s, x, gamma, NULL, 1e-5, &mean, &variance);
    return BITS(s, mean, variance, with_gradients(s, y, 2, (ls_tensor *[]){x, gamma}),
                with_gradients(s, ls_group_norm(s, x, 3, gamma, NULL, 1e-5), 2, (ls_tensor *[]){x, gamma}), ls_rms_norm(s, x, 3, NULL, 1e-6),
                ls_log_softmax(s, x, 1));
}
static ls_tensor *pools(ls_session *s) {
    ls_tensor *x = ls_reshape(s, values(s, 22, 12, 81), LS_SHAPE(2, 6, 9, 9)), *w = ls_reshape(s, values(s, 23, 6, 12), LS_SHAPE(6, 2, 2, 3));
    ls_conv_spec c = {.spatial = 2, .stride = {2, 2}, .pad_low = {1, 1}, .pad_high = {1, 1}}, up = {.spatial = 2, .stride = {2, 3}, .groups = 3};
    const int64_t kernel[] = {3, 3};
    return BITS(s, with_gradients(s, ls_max_pool(s, x, kernel, &c), 1, &x), with_gradients(s, ls_avg_pool(s, x, kernel, &c, 0), 1, &x),
                with_gradients(s, ls_conv_transpose(s, x, w, NULL, &up), 2, (ls_tensor *[]){x, w}));
}
static ls_tensor *doubles(ls_session *s) {
    ls_tensor *x = ls_cast(s, values(s, 24, 40, 100), LS_F64), *y = ls_cast(s, values(s, 25, 40, 100), LS_F64);
    ls_tensor *p = ls_add(s, ls_abs(s, x), ls_full(s, LS_F64, LS_SCALAR, 0x1p-10)), *q = ls_div(s, x, p);
    ls_tensor *all[] = {ls_exp(s, x), ls_expm1(s, x), ls_exp2(s, x), ls_log(s, p), ls_log2(s, p), ls_log1p(s, p), ls_sin(s, x), ls_cos(s, x),
                        ls_tan(s, x), ls_asin(s, q), ls_acos(s, q), ls_atan(s, x), ls_sinh(s, x), ls_cosh(s, x), ls_tanh(s, x), ls_erf(s, x),
                        ls_erfc(s, x), ls_pow(s, p, q), ls_sqrt(s, p), ls_rsqrt(s, p), ls_cbrt(s, x), ls_matmul(s, x, ls_transpose(s, y, 0, 1)),
                        ls_sum(s, x, 0, NULL, 0), ls_cast(s, ls_div(s, x, y), LS_F16), ls_cast(s, ls_div(s, x, y), LS_F32), ls_cast(s, ls_exp(s, x), LS_I64)};
    return bits(s, sizeof all / sizeof *all, all);
}
static ls_tensor *second_order(ls_session *s) {
    ls_tensor *x = values(s, 26, 6, 8), *g;
    ls_tensor *y = ls_sum(s, ls_softmax(s, ls_tanh(s, ls_matmul(s, x, ls_transpose(s, x, 0, 1))), 1), 1, (const int[]){0}, 0);
    y = ls_mul(s, y, y);
    return ls_grad(s, y, NULL, 1, &x, &g) == LS_OK ? with_gradients(s, ls_mul(s, g, g), 1, &x) : NULL;
}

/* One for each part of docs/contract.md. These are version 1 of it. */
static const struct {
    const char *name;
    build_fn build;
    const char *sha256;
} goldens[] = {
    {"elementary", elementary,
     "b2a15babcb6332e77101a5ee99ecb248808044c82b3dec34993f0f8ee84e93e0"},
    {"sums", sums,
     "1986dbc543ad4b6a52f5034d4ce6e18ea1c5ccb9d674b36b363012ae2c9b2b99"},
    {"product", product,
     "2cade2577a94bad5211a6e1ebef0fbd54eb9096187b1e321b59bb1146d37750d"},
    {"scan", scan,
     "99f5e81f426b9e7ca3b6fed44e8600e33db2b14fa27a68fabf6639c3b9146034"},
    {"rows", rows,
     "1aa4610bb026cfaf107a75c14616ade7f84e3270b1a1e794df10984c97611afb"},
    {"convolution", convolution,
     "f085a7af184d9ef58f8acbeefe820559e129ac17ff4d7ac136651c67a10bb407"},
    {"halves", halves,
     "d26a0f0572bf138dda85fd259805630daf42ce25547ead4e5357fac6f64e1fa8"},
    {"noise", noise,
     "db8532d93b471b999412c6f639717ff9034639f6b2791533d91170c5f7b31f61"},
    {"integers", integers,
     "f68d90499533007926eb76061eef5906d710d277ea340beed7ec5aeb57097afc"},
    {"conversions", conversions,
     "86a7d5cdeb105ed014450f77f140c882d0d05019463e9cedc3bfe128e360124d"},
    {"extremes", extremes,
     "5b3aa6cd2c62f6515d6bdbd531eec1b3293c3550c24ce588c0ebc697cc7a8a23"},
    {"order", order,
     "889109491c5b9e71993cce114ecd22f1b671951e909a4b816d12113d8c9b675a"},
    {"indexed", indexed,
     "b923dfae9c1635941b8074f1886495c26f92c32b68faf9bf8eddcc317bcaecb3"},
    {"attention", attention,
     "c0f36a95c937d3a6f48a541b9a7784208ddeed2f1e5f8de18fdade4f59d09c29"},
    {"recurrent", recurrent,
     "619e5af02953a5bac7bce4578995c5650aff6f69e9903d3371bedc30dbe2b2d7"},
    {"norms", norms,
     "64d3551be741f78d57075bce460b21a5d8d52ba23cce3a4e71fcc9a4af537e2a"},
    {"pools", pools,
     "a48a5a4677d0c5a1cc94c4b334ae980e5c77475f0b3c95368a8a545aeaa5c067"},
    {"doubles", doubles,
     "6156a78f2dbdb034dc2e19c71d2a426072af690a254ce212b81d1f27c774f191"},
    {"second_order", second_order,
     "37a4fe7ab3a60344b5c297095f2858577db8fe307254f9d9fa22b0d23f404ff0"},
};

/* The devices to try, ended by NULL. */
static const char *const *devices(void) {
    static const char *const host[] = {"ref", "cpu", NULL};
    static const char *one[] = {NULL, NULL};
    one[0] = getenv("LOCKSTEP_DEVICE");
    return one[0] && *one[0] ? one : host;
}

static void hashes(void **state) {
    (void)state;
    int wrong = 0;
    for (const char *const *device = devices(); *device; device++) {
        world w = world_open(*device);
        for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
            if (goldens[i].build == doubles && !(ls_device_caps(w.device)->dtypes >> LS_F64 & 1)) {
                printf("%s on %s: left out, it has no f64\n", goldens[i].name, *device);
                continue;
            }
            ls_data *data = NULL;
            char hex[65];
            world_ok(&w, ls_scope_begin(w.session));
            ls_tensor *t = goldens[i].build(w.session);
            world_ok(&w, t ? ls_data_from_tensor(w.session, t, &data) : ls_session_error(w.session)->code);
            ls_data_sha256(data, hex);
            if (strcmp(hex, goldens[i].sha256) != 0) {
                print_error("%s on %s: %s, expected %s\n", goldens[i].name, *device, hex, goldens[i].sha256);
                wrong++;
            }
            ls_data_release(data);
            ls_scope_end(w.session);
        }
        world_close(&w);
    }
    assert_int_equal(wrong, 0);
}

/* Three steps of Adam on a small network over made-up images: forward, backward, optimiser, first weights. */
static void trained(void **state) {
    (void)state;
    enum { N = 4 };
    static const char golden[] = "060a04826da6f4c8688a995ba28347d4eb3b189639df316b1d732d1085bb1768";
    for (const char *const *device = devices(); *device; device++) {
        world w = world_open(*device);
        ls_session *s = w.session;
        float images[N * 784], rate = 0.01f, loss;
        int32_t labels[N] = {3, 1, 4, 1};
        for (int i = 0; i < N * 784; i++) {
            images[i] = (float)(i * 37 % 256) / 256;
        }
        ls_params *params;
        ls_optimizer *optimizer;
        ls_program *program;
        ls_optimizer_options options = {.kind = LS_OPTIM_ADAM};
        ls_tensor *in[3] = {ls_input(s, "images", LS_F32, LS_SHAPE(N, 1, 28, 28)), ls_input(s, "labels", LS_I32, LS_SHAPE(N)),
                            ls_input(s, "rate", LS_F32, LS_SCALAR)};
        world_ok(&w, ls_params_create(s, 5, &params));
        ls_tensor *y = ls_cross_entropy(s, ls_nn_network(s, params, "mnist:small", in[0]), in[1]);
        world_ok(&w, ls_optimizer_create(s, params, &options, &optimizer));
        world_ok(&w, ls_optimizer_step(s, optimizer, y, in[2]));
        world_ok(&w, ls_program_compile(s, in, 3, &y, 1, &program));
        const void *inputs[3] = {images, labels, &rate};
        void *outputs[1] = {&loss};
        for (int step = 0; step < 3; step++) {
            world_ok(&w, ls_program_run(program, inputs, outputs));
        }
        char hex[65];
        ls_error err = {.code = LS_OK};
        assert_int_equal(ls_params_sha256(s, params, hex, &err), LS_OK);
        ls_program_destroy(program);
        ls_optimizer_destroy(optimizer);
        ls_params_destroy(params);
        world_close(&w);
        if (strcmp(hex, golden) != 0) {
            fail_msg("%s: %s, expected %s", *device, hex, golden);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(hashes), cmocka_unit_test(trained)};
    return cmocka_run_group_tests_name("hashes", tests, NULL, NULL);
}
