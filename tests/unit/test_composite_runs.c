/* Composites, run on devices: derivatives against finite differences, the adjoint of a convolution against the transposed
 * convolution, and programs with a symbol against graphs of fixed extents. */
#include "support/world.h"
#include "base/rng.h"
#include <stdlib.h>
#include <string.h>

static ls_tensor *must(world *w, ls_tensor *x) {
    world_ok(w, x ? LS_OK : ls_session_error(w->session)->code);
    assert_non_null(x);
    return x;
}

static int64_t numel(const ls_shape *shape) {
    int64_t n = 1;
    for (int i = 0; i < shape->rank; i++) {
        n *= shape->dim[i].offset;
    }
    return n;
}

static ls_shape flat(int64_t n) {
    return LS_SHAPE(n);
}

/* The first n elements, as a line. */
static ls_tensor *head(ls_session *s, ls_tensor *x, int64_t n) {
    return ls_narrow(s, ls_reshape(s, x, flat(-1)), 0, 0, n);
}

/* ---- derivatives ---- */

typedef ls_tensor *(*model)(ls_session *s, ls_tensor *x, ls_tensor *w);

static const ls_conv_spec spatial = {
    .spatial = 3, .stride = {1, 2, 1}, .pad_low = {1, 0, 1}, .pad_high = {0, 1, 1}};
static const int64_t cube[] = {2, 2, 2};

static ls_tensor *conv(ls_session *s, ls_tensor *x, ls_tensor *w) {
    return ls_conv(s, x, w, NULL, &spatial);
}
static ls_tensor *conv_groups(ls_session *s, ls_tensor *x, ls_tensor *w) {
    ls_conv_spec spec = spatial;
    spec.groups = 2;
    return ls_conv(s, x, w, NULL, &spec);
}
static ls_tensor *conv_depthwise(ls_session *s, ls_tensor *x, ls_tensor *w) {
    ls_conv_spec spec = spatial;
    spec.groups = 4;
    return ls_conv(s, x, w, NULL, &spec);
}
static ls_tensor *conv_transpose(ls_session *s, ls_tensor *x, ls_tensor *w) {
    return ls_conv_transpose(s, x, w, NULL, &spatial);
}
static ls_tensor *pools(ls_session *s, ls_tensor *x, ls_tensor *w) {
    ls_tensor *most = ls_mul(s, ls_max_pool(s, x, cube, &spatial), ls_sum(s, w, 0, NULL, 0));
    return ls_add(s, most, ls_avg_pool(s, x, cube, &spatial, 0));
}
static ls_tensor *patches(ls_session *s, ls_tensor *x, ls_tensor *w) {
    ls_tensor *cols = ls_im2col(s, x, cube, &spatial);
    ls_tensor *y = ls_col2im(s, ls_mul(s, cols, cols), ls_tensor_shape(x), cube, &spatial);
    return ls_mul(s, y, ls_sum(s, w, 0, NULL, 0));
}
static ls_tensor *attention(ls_session *s, ls_tensor *x, ls_tensor *w) {
    ls_tensor *q = ls_reshape(s, head(s, x, 48), LS_SHAPE(1, 4, 3, 4)),
              *k = ls_reshape(s, head(s, w, 32), LS_SHAPE(1, 2, 4, 4));
    return ls_attention(s, q, k, k, &(ls_attention_spec){.causal = 1});
}
static ls_tensor *activations(ls_session *s, ls_tensor *x, ls_tensor *w) {
    ls_tensor *p = ls_mul(s, head(s, x, 32), head(s, w, 32));
    ls_tensor *a = ls_add(s, ls_gelu(s, p), ls_gelu_tanh(s, p)), *b = ls_add(s, ls_silu(s, p), ls_relu(s, p));
    ls_tensor *c = ls_add(s, ls_softmax(s, p, 0), ls_log_softmax(s, p, 0));
    return ls_add(s, ls_add(s, a, b), c);
}
static ls_tensor *norms(ls_session *s, ls_tensor *x, ls_tensor *w) {
    ls_tensor *g = head(s, w, 4), *mean, *variance, *last = head(s, w, 3);
    ls_tensor *y = ls_add(s, ls_group_norm(s, x, 2, g, NULL, 1e-3),
                          ls_batch_norm_train(s, x, NULL, g, 1e-3, &mean, &variance));
    return ls_add(s, y,
                  ls_add(s, ls_layer_norm(s, x, -1, last, last, 1e-3), ls_rms_norm(s, x, -1, last, 1e-3)));
}
static ls_tensor *sorted(ls_session *s, ls_tensor *x, ls_tensor *w) {
    return ls_mul(s, ls_sort(s, ls_reshape(s, x, LS_SHAPE(16, 18)), 1, 1), ls_sum(s, w, 0, NULL, 0));
}
static ls_tensor *recurrent(ls_session *s, ls_tensor *x, ls_tensor *w) {
    ls_tensor *h = ls_reshape(s, head(s, x, 6), LS_SHAPE(3, 2)), *c, *last;
    ls_tensor *xs = ls_reshape(s, head(s, x, 60), LS_SHAPE(5, 3, 4)),
              *wh = ls_reshape(s, head(s, w, 16), LS_SHAPE(8, 2));
    ls_tensor *wx = ls_reshape(s, head(s, w, 32), LS_SHAPE(8, 4));
    ls_tensor *ys = ls_lstm(s, xs, h, h, wx, wh, head(s, w, 8), &last, &c);
    return ls_add(s, ls_sum(s, ys, 1, (int[]){0}, 0), ls_mul(s, last, c));
}
static ls_tensor *losses(ls_session *s, ls_tensor *x, ls_tensor *w) {
    ls_tensor *logits = ls_reshape(s, head(s, x, 32), LS_SHAPE(4, 8)),
              *target = ls_reshape(s, head(s, w, 32), LS_SHAPE(4, 8));
    ls_tensor *labels = ls_argmax(s, ls_exp(s, target), 1, (int[]){1}, 0);
    return ls_add(s, ls_cross_entropy(s, logits, labels), ls_mse(s, logits, target));
}

static double loss_of(world *w, model f, const ls_shape *shapes, double *const *data, const double *seed) {
    ls_session *s = w->session;
    double value;
    world_ok(w, ls_scope_begin(s));
    ls_tensor *x = ls_tensor_from(s, LS_F64, shapes[0], data[0]),
              *p = ls_tensor_from(s, LS_F64, shapes[1], data[1]);
    ls_tensor *y = must(w, f(s, x, p));
    ls_tensor *sum = ls_sum(s, ls_mul(s, y, ls_tensor_from(s, LS_F64, ls_tensor_shape(y), seed)), 0, NULL, 0);
    world_ok(w, ls_read(s, sum, &value, sizeof value));
    ls_scope_end(s);
    return value;
}

static void derivatives_match_differences(void **state) {
    (void)state;
    const ls_shape image = LS_SHAPE(2, 4, 3, 4, 3), filter = LS_SHAPE(4, 4, 2, 2, 2),
                   half = LS_SHAPE(4, 2, 2, 2, 2);
    const struct {
        const char *name;
        model f;
        ls_shape w;
    } models[] = {
        {"conv", conv, filter},
        {"conv_groups", conv_groups, half},
        {"conv_depthwise", conv_depthwise, LS_SHAPE(4, 1, 2, 2, 2)},
        {"conv_transpose", conv_transpose, half},
        {"pools", pools, flat(3)},
        {"patches", patches, flat(3)},
        {"attention", attention, flat(32)},
        {"activations", activations, flat(32)},
        {"norms", norms, flat(8)},
        {"sorted", sorted, flat(3)},
        {"recurrent", recurrent, flat(32)},
        {"losses", losses, flat(32)},
    };
    world w = world_open("ref");
    ls_rng rng = {7, 0};
    static double x[288], p[128], seed[4096];
    double *data[] = {x, p};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        x[i] = ls_rng_normal(&rng);
    }
    for (size_t i = 0; i < sizeof p / sizeof *p; i++) {
        p[i] = ls_rng_normal(&rng);
    }
    for (size_t i = 0; i < sizeof seed / sizeof *seed; i++) {
        seed[i] = ls_rng_normal(&rng);
    }
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        ls_shape shapes[] = {image, models[m].w};
        world_ok(&w, ls_scope_begin(w.session));
        ls_tensor *in[] = {ls_tensor_from(w.session, LS_F64, shapes[0], x),
                           ls_tensor_from(w.session, LS_F64, shapes[1], p)},
                  *grads[2];
        ls_tensor *y = must(&w, models[m].f(w.session, in[0], in[1]));
        world_ok(&w, ls_grad(w.session, y, ls_tensor_from(w.session, LS_F64, ls_tensor_shape(y), seed), 2, in,
                             grads));
        for (int k = 0; k < 2; k++) {
            static double grad[288];
            int64_t n = numel(&shapes[k]);
            world_ok(&w, ls_read(w.session, grads[k], grad, (size_t)n * sizeof *grad));
            for (int probe = 0; probe < 8; probe++) {
                int64_t at = (int64_t)ls_rng_below(&rng, (uint64_t)n);
                double old = data[k][at], h = 1e-6, value[2];
                for (int side = 0; side < 2; side++) {
                    data[k][at] = old + (side ? h : -h);
                    value[side] = loss_of(&w, models[m].f, shapes, data, seed);
                }
                data[k][at] = old;
                double want = (value[1] - value[0]) / (2 * h), off = grad[at] - want;
                if (!((off < 0 ? -off : off) <= 1e-7 * (1 + (want < 0 ? -want : want)))) {
                    fail_msg("%s: derivative %d of operand %d is %.12g, expected %.12g", models[m].name,
                             (int)at, k, grad[at], want);
                }
            }
        }
        ls_scope_end(w.session);
    }
    world_close(&w);
}

/* The derivative of a convolution in its input is the transposed convolution, to the bit: both sum in ascending
 * (tap of the forward filter, channel). */
static void adjoint_is_transposed_convolution(const char *device) {
    static const struct {
        int64_t channels, out, groups, in[2], kernel[2], stride[2], dilation[2], low, high;
    } cases[] = {
        {3, 4, 1, {6, 7}, {3, 3}, {1, 1}, {1, 1}, 1, 1},   {4, 6, 2, {9, 8}, {3, 2}, {2, 1}, {1, 2}, 1, 0},
        {4, 8, 4, {7, 7}, {3, 3}, {2, 2}, {1, 1}, 1, 1},   {4, 4, 1, {8, 8}, {2, 2}, {2, 2}, {1, 1}, 0, 0},
        {600, 4, 1, {4, 4}, {2, 2}, {1, 1}, {1, 1}, 0, 0}, {4, 600, 1, {4, 5}, {2, 2}, {1, 2}, {1, 1}, 0, 0},
    };
    world w = world_open(device);
    ls_session *s = w.session;
    ls_rng rng = {11, 0};
    static float data[32768], a[32768], b[32768];
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) {
        data[i] = (float)ls_rng_normal(&rng);
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_conv_spec spec = {.spatial = 2, .groups = cases[i].groups};
        for (int k = 0; k < 2; k++) {
            spec.stride[k] = cases[i].stride[k];
            spec.dilation[k] = cases[i].dilation[k];
            spec.pad_low[k] = cases[i].low;
            spec.pad_high[k] = cases[i].high;
        }
        ls_tensor *x =
            ls_tensor_from(s, LS_F32, LS_SHAPE(2, cases[i].channels, cases[i].in[0], cases[i].in[1]), data);
        ls_shape filter = LS_SHAPE(cases[i].out, cases[i].channels / cases[i].groups, cases[i].kernel[0],
                                   cases[i].kernel[1]);
        ls_tensor *f = ls_tensor_from(s, LS_F32, filter, data + 1),
                  *y = must(&w, ls_conv(s, x, f, NULL, &spec)), *dx;
        ls_shape out = ls_tensor_shape(y);
        ls_tensor *g = ls_tensor_from(s, LS_F32, out, data + 2);
        world_ok(&w, ls_grad(s, y, g, 1, &x, &dx));
        for (int k = 0; k < 2; k++) {
            int64_t n = (out.dim[2 + k].offset - 1) * spec.stride[k] - spec.pad_low[k] - spec.pad_high[k] +
                        spec.dilation[k] * (cases[i].kernel[k] - 1) + 1;
            spec.output_padding[k] = cases[i].in[k] - n;
        }
        ls_tensor *z = must(&w, ls_conv_transpose(s, g, f, NULL, &spec));
        size_t size = ls_tensor_bytes(s, dx);
        assert_int_equal(ls_tensor_bytes(s, z), size);
        assert_true(size <= sizeof a);
        world_ok(&w, ls_read(s, dx, a, size));
        world_ok(&w, ls_read(s, z, b, size));
        assert_memory_equal(a, b, size);
    }
    world_close(&w);
}

static void adjoint_is_transposed_convolution_ref(void **state) {
    (void)state;
    adjoint_is_transposed_convolution("ref");
}

static void adjoint_is_transposed_convolution_cpu(void **state) {
    (void)state;
    adjoint_is_transposed_convolution("cpu");
}

/* ---- symbols ---- */

static float pool[8192];

/* x[n, 2, 4, 4] with n as a symbol or fixed. */
typedef ls_tensor *(*sized)(ls_session *s, ls_tensor *x, ls_dim n);

static ls_tensor *weights(ls_session *s, ls_shape shape, int offset) {
    return ls_tensor_from(s, LS_F32, shape, pool + offset);
}

static ls_tensor *sized_network(ls_session *s, ls_tensor *x, ls_dim n) {
    ls_conv_spec same = {.spatial = 2, .pad_low = {1, 1}, .pad_high = {1, 1}},
                 two = {.spatial = 2, .stride = {2, 2}};
    ls_tensor *h = ls_conv(s, x, weights(s, LS_SHAPE(3, 2, 3, 3), 0), weights(s, LS_SHAPE(3), 60), &same);
    h = ls_max_pool(s, ls_relu(s, h), (int64_t[]){2, 2}, &two);
    ls_shape lines = {.rank = 2, .dim = {n, ls_dim_of(12)}};
    return ls_softmax(s, ls_linear(s, ls_reshape(s, h, lines), weights(s, LS_SHAPE(5, 12), 70), NULL), -1);
}
static ls_tensor *sized_training(ls_session *s, ls_tensor *x, ls_dim n) {
    ls_conv_spec spec = {.spatial = 2, .pad_low = {1, 1}, .stride = {2, 1}};
    ls_tensor *w = weights(s, LS_SHAPE(3, 2, 3, 3), 0), *g = NULL;
    ls_shape lines = {.rank = 2, .dim = {n, ls_dim_of(-1)}};
    ls_tensor *y = ls_reshape(s, ls_conv(s, x, w, NULL, &spec), lines);
    ls_tensor *labels = ls_argmax(s, ls_sin(s, y), 1, (int[]){1}, 0);
    return ls_grad(s, ls_cross_entropy(s, y, labels), NULL, 1, &w, &g) == LS_OK ? g : NULL;
}
static ls_tensor *sized_norms(ls_session *s, ls_tensor *x, ls_dim n) {
    ls_tensor *mean, *variance;
    (void)n;
    return ls_add(s, ls_batch_norm_train(s, x, NULL, NULL, 1e-5, &mean, &variance),
                  ls_group_norm(s, x, 2, NULL, NULL, 1e-5));
}
static ls_tensor *sized_recurrence(ls_session *s, ls_tensor *x, ls_dim n) { /* n is the number of steps */
    ls_shape steps = {.rank = 3, .dim = {n, ls_dim_of(4), ls_dim_of(8)}};
    ls_tensor *g = NULL, *h0 = weights(s, LS_SHAPE(4, 3), 0), *w = weights(s, LS_SHAPE(12, 8), 40);
    ls_tensor *y =
        ls_lstm(s, ls_reshape(s, x, steps), h0, h0, w, weights(s, LS_SHAPE(12, 3), 200), NULL, NULL, NULL);
    return ls_grad(s, y, NULL, 1, &x, &g) == LS_OK ? g : NULL;
}
static ls_tensor *sized_attention(ls_session *s, ls_tensor *x, ls_dim n) { /* n is the number of keys */
    ls_shape keys = {.rank = 3, .dim = {n, ls_dim_of(2), ls_dim_of(16)}};
    ls_tensor *k = ls_unsqueeze(s, ls_permute(s, ls_reshape(s, x, keys), (int[]){1, 0, 2}), 0);
    return ls_attention(s, weights(s, LS_SHAPE(1, 4, 1, 16), 0), k, k, &(ls_attention_spec){.causal = 1});
}
static ls_tensor *sized_folds(ls_session *s, ls_tensor *x, ls_dim n) {
    (void)n;
    ls_tensor *p = ls_pad_absent(s, x, (ls_pad_spec[]){{2, 0, 0}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}});
    ls_tensor *most =
        ls_amax(s, ls_window(s, p, 1, (int[]){0}, (ls_window_spec[]){{3, 1, 1}}), 1, (int[]){-1}, 0);
    ls_tensor *v = ls_variance(s, x, 2, (int[]){0, 2}, 1, 1), *run = ls_scan(s, x, LS_SCAN_SUM, 0, 0, 1);
    return ls_add(s, ls_add(s, most, v), ls_add(s, run, ls_flip(s, ls_sort(s, x, 0, 1), 0)));
}
static ls_tensor *sized_random(ls_session *s, ls_tensor *x, ls_dim n) {
    (void)n;
    ls_tensor *parts[] = {ls_dropout(s, x, 0.5, ls_random_key(s, 3)), weights(s, LS_SHAPE(1, 2, 4, 4), 0),
                          ls_exp(s, x)};
    return ls_concat(s, parts, 3, 0);
}

/* A program with a symbol compiles once and gives, at every value, the bits of the graph of that size. */
static void symbols_on(const char *device) {
    static const struct {
        const char *name;
        sized f;
    } models[] = {
        {"network", sized_network},       {"training", sized_training},   {"norms", sized_norms},
        {"recurrence", sized_recurrence}, {"attention", sized_attention}, {"folds", sized_folds},
        {"random", sized_random},
    };
    enum { BOUND = 7 };
    ls_rng rng = {5, 0};
    for (size_t i = 0; i < sizeof pool / sizeof *pool; i++) {
        pool[i] = (float)ls_rng_normal(&rng);
    }
    world w = world_open(device);
    ls_session *s = w.session;
    ls_error err = {0};
    ls_symbol *symbol = ls_symbol_create(w.context, "N", BOUND, &err);
    assert_non_null(symbol);
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        static char a[65536], b[65536];
        ls_dim n = ls_dim_symbol(symbol, 1, 0);
        ls_shape shape = {.rank = 4, .dim = {n, ls_dim_of(2), ls_dim_of(4), ls_dim_of(4)}};
        ls_tensor *x = must(&w, ls_input(s, "x", LS_F32, shape)), *y = must(&w, models[m].f(s, x, n));
        ls_program *program;
        world_ok(&w, ls_program_compile(s, &x, 1, &y, 1, &program));
        for (int64_t size = 1; size <= BOUND; size += 2) {
            world_ok(&w, ls_symbol_bind(s, symbol, size));
            size_t bytes = ls_tensor_bytes(s, y);
            uint64_t compiles = ls_session_get_stats(s).compiles;
            world_ok(&w, ls_program_run(program, (const void *[]){pool + 1000}, (void *[]){a}));
            assert_int_equal(ls_session_get_stats(s).compiles, compiles);
            ls_tensor *fixed =
                must(&w, models[m].f(s, weights(s, LS_SHAPE(size, 2, 4, 4), 1000), ls_dim_of(size)));
            assert_int_equal(ls_tensor_bytes(s, fixed), bytes);
            assert_true(bytes <= sizeof a);
            world_ok(&w, ls_read(s, fixed, b, bytes));
            if (memcmp(a, b, bytes) != 0) {
                fail_msg("%s differs at N = %d", models[m].name, (int)size);
            }
        }
        ls_program_destroy(program);
    }
    world_close(&w);
}

static void symbols_on_ref(void **state) {
    (void)state;
    symbols_on("ref");
}

static void symbols_on_cpu(void **state) {
    (void)state;
    symbols_on("cpu");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(derivatives_match_differences),
        cmocka_unit_test(adjoint_is_transposed_convolution_ref),
        cmocka_unit_test(adjoint_is_transposed_convolution_cpu),
        cmocka_unit_test(symbols_on_ref),
        cmocka_unit_test(symbols_on_cpu),
    };
    return cmocka_run_group_tests_name("composites on devices", tests, NULL, NULL);
}
