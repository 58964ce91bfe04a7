/* Locked bits that must never change without a new version of the contract: SHA-256 of results as literals, the same on every device. */
#include "support/world.h"
#include <lockstep/nn.h>
#include <lockstep/optim.h>
#include <math.h>
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
};

static void hashes(void **state) {
    (void)state;
    static const char *const devices[] = {"ref", "cpu"};
    int wrong = 0;
    for (size_t d = 0; d < 2; d++) {
        for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
            world w = world_open(devices[d]);
            ls_tensor *t = goldens[i].build(w.session);
            ls_data *data = NULL;
            char hex[65];
            world_ok(&w, t ? ls_data_from_tensor(w.session, t, &data) : ls_session_error(w.session)->code);
            ls_data_sha256(data, hex);
            if (strcmp(hex, goldens[i].sha256) != 0) {
                print_error("%s on %s: %s, expected %s\n", goldens[i].name, devices[d], hex, goldens[i].sha256);
                wrong++;
            }
            ls_data_release(data);
            world_close(&w);
        }
    }
    assert_int_equal(wrong, 0);
}

/* Three steps of Adam on a small network over made-up images: forward, backward, optimiser, first weights. */
static void trained(void **state) {
    (void)state;
    enum { N = 4 };
    static const char golden[] = "060a04826da6f4c8688a995ba28347d4eb3b189639df316b1d732d1085bb1768";
    static const char *const devices[] = {"ref", "cpu"};
    for (size_t d = 0; d < 2; d++) {
        world w = world_open(devices[d]);
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
            fail_msg("%s: %s, expected %s", devices[d], hex, golden);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(hashes), cmocka_unit_test(trained)};
    return cmocka_run_group_tests_name("hashes", tests, NULL, NULL);
}
