/* The composites of recurrent nets, attention, pooling and losses: derivatives against finite differences, and values against
 * plain loops. */
#include "support/world.h"
#include "base/rng.h"
#include <stdlib.h>
#include <string.h>

static ls_tensor *must(world *w, ls_tensor *x) {
    world_ok(w, x ? LS_OK : ls_session_error(w->session)->code);
    assert_non_null(x);
    return x;
}

/* n elements from `start` of a line, in a shape. */
static ls_tensor *cut(ls_session *s, ls_tensor *x, int64_t start, ls_shape shape) {
    int64_t n = 1;
    for (int i = 0; i < shape.rank; i++) {
        n *= shape.dim[i].offset;
    }
    return ls_reshape(s, ls_narrow(s, x, 0, start, n), shape);
}

/* ---- derivatives: models of a line of 300 numbers ---- */

typedef ls_tensor *(*model)(ls_session *s, ls_tensor *x);

static const ls_conv_spec window = {
    .spatial = 2, .stride = {2, 1}, .dilation = {1, 2}, .pad_low = {1, 0}, .pad_high = {0, 1}};
static const int64_t kernel[] = {2, 2};

static ls_tensor *lp_pools(ls_session *s, ls_tensor *x) {
    ls_tensor *image = cut(s, x, 0, LS_SHAPE(2, 2, 4, 5));
    return ls_add(s, ls_lp_pool(s, image, kernel, &window, 2), ls_lp_pool(s, image, kernel, &window, 3));
}
static ls_tensor *unpool(ls_session *s, ls_tensor *x) {
    ls_conv_spec two = {.spatial = 2, .stride = {2, 2}};
    ls_tensor *image = cut(s, x, 0, LS_SHAPE(2, 2, 4, 6)), *most = ls_max_pool(s, image, kernel, &two);
    return ls_max_unpool(s, most, ls_max_pool_indices(s, image, kernel, &two, 0), LS_SHAPE(2, 2, 4, 6));
}
static ls_tensor *deformed(ls_session *s, ls_tensor *x) {
    ls_conv_spec spec = {.spatial = 2, .pad_low = {1, 0}, .pad_high = {0, 1}, .groups = 2};
    ls_tensor *offset = cut(s, x, 100, LS_SHAPE(1, 16, 3, 3)), *half = ls_full(s, LS_F64, LS_SCALAR, 0.3);
    return ls_deform_conv(s, cut(s, x, 0, LS_SHAPE(1, 4, 3, 3)), cut(s, x, 40, LS_SHAPE(2, 2, 2, 2)),
                          ls_mul(s, offset, half), cut(s, x, 60, LS_SHAPE(1, 8, 3, 3)),
                          cut(s, x, 250, LS_SHAPE(2)), 2, &spec);
}
static ls_tensor *responses(ls_session *s, ls_tensor *x) {
    return ls_local_response_norm(s, cut(s, x, 0, LS_SHAPE(2, 6, 3)), 4, 0.5, 0.75, 1.5);
}
static ls_tensor *nll(ls_session *s, ls_tensor *x) {
    static const int64_t labels[] = {0, 9, 2, 1, 3, 9}, ignored = 9;
    ls_tensor *p = ls_log_softmax(s, cut(s, x, 0, LS_SHAPE(2, 4, 3)), 1),
              *at = ls_tensor_from(s, LS_I64, LS_SHAPE(2, 3), labels);
    return ls_nll_loss(s, p, at, ls_exp(s, cut(s, x, 40, LS_SHAPE(4))), &ignored, LS_REDUCTION_MEAN);
}
static ls_tensor *cells(ls_session *s, ls_tensor *x) {
    static const int32_t steps[] = {4, 2};
    ls_tensor *xs = cut(s, x, 0, LS_SHAPE(4, 2, 3)), *h = cut(s, x, 30, LS_SHAPE(2, 2)), *last, *c;
    ls_tensor *wx = cut(s, x, 40, LS_SHAPE(8, 3)), *wh = cut(s, x, 80, LS_SHAPE(8, 2)),
              *b = cut(s, x, 120, LS_SHAPE(8));
    ls_recurrent_spec spec = {.cell = LS_CELL_LSTM,
                              .reverse = 1,
                              .peephole = cut(s, x, 140, LS_SHAPE(6)),
                              .clip = 2.5,
                              .lengths = ls_tensor_from(s, LS_I32, LS_SHAPE(2), steps)};
    ls_tensor *y = ls_recurrent(s, xs, h, h, wx, wh, b, NULL, &spec, &last, &c);
    y = ls_add(s, ls_sum(s, y, 1, (int[]){0}, 0), ls_mul(s, last, c));
    ls_tensor *g = ls_gru(s, xs, h, ls_narrow(s, wx, 0, 0, 6), ls_narrow(s, wh, 0, 0, 6), NULL,
                          ls_narrow(s, b, 0, 0, 6), &last);
    y = ls_add(s, y, ls_mul(s, last, ls_sum(s, g, 1, (int[]){0}, 0)));
    g = ls_rnn(s, xs, h, ls_narrow(s, wx, 0, 0, 2), ls_narrow(s, wh, 0, 0, 2), NULL, ls_narrow(s, b, 0, 0, 2),
               &last);
    y = ls_add(s, y, ls_mul(s, last, ls_sum(s, g, 1, (int[]){0}, 0)));
    spec = (ls_recurrent_spec){.cell = LS_CELL_GRU};
    g = ls_recurrent(s, xs, h, NULL, ls_narrow(s, wx, 0, 0, 6), ls_narrow(s, wh, 0, 0, 6), NULL,
                     ls_narrow(s, b, 0, 0, 6), &spec, &last, NULL);
    return ls_add(s, y, ls_mul(s, last, ls_sum(s, g, 1, (int[]){0}, 0)));
}
static ls_tensor *linear(ls_session *s, ls_tensor *x) {
    ls_tensor *state, *q = cut(s, x, 0, LS_SHAPE(1, 4, 3, 2)), *k = cut(s, x, 30, LS_SHAPE(1, 2, 3, 2));
    ls_linear_attention_spec spec = {0, ls_neg(s, ls_exp(s, cut(s, x, 60, LS_SHAPE(1, 2, 3, 1)))),
                                     ls_sigmoid(s, cut(s, x, 80, LS_SHAPE(1, 1, 3, 1)))};
    ls_tensor *y = ls_linear_attention(s, q, k, cut(s, x, 100, LS_SHAPE(1, 2, 3, 3)),
                                       cut(s, x, 150, LS_SHAPE(1, 2, 2, 3)), &spec, &state);
    return ls_add(s, ls_sum(s, y, 0, NULL, 0), ls_sum(s, ls_mul(s, state, state), 0, NULL, 0));
}
static ls_tensor *turned(ls_session *s, ls_tensor *x) {
    ls_tensor *in = cut(s, x, 0, LS_SHAPE(1, 2, 3, 6)), *c = cut(s, x, 40, LS_SHAPE(3, 2)),
              *t = cut(s, x, 50, LS_SHAPE(3, 2));
    ls_tensor *y = ls_rotary_embedding(s, in, c, t, 0);
    return ls_masked_softmax(s, ls_mul(s, y, ls_rotary_embedding(s, in, t, c, 1)), 1);
}

enum { LINE = 300 };

static double loss_of(world *w, model f, const double *data, const double *seed) {
    ls_session *s = w->session;
    double value;
    world_ok(w, ls_scope_begin(s));
    ls_tensor *y = must(w, f(s, ls_tensor_from(s, LS_F64, LS_SHAPE(LINE), data)));
    ls_tensor *sum = ls_sum(s, ls_mul(s, y, ls_tensor_from(s, LS_F64, ls_tensor_shape(y), seed)), 0, NULL, 0);
    world_ok(w, ls_read(s, sum, &value, sizeof value));
    ls_scope_end(s);
    return value;
}

static void derivatives_match_differences(void **state) {
    (void)state;
    static const struct {
        const char *name;
        model f;
    } models[] = {{"lp_pools", lp_pools},   {"unpool", unpool}, {"deformed", deformed},
                  {"responses", responses}, {"nll", nll},       {"cells", cells},
                  {"linear", linear},       {"turned", turned}};
    world w = world_open("ref");
    ls_rng rng = {3, 0};
    static double x[LINE], grad[LINE], seed[512];
    for (int i = 0; i < LINE; i++) {
        x[i] = ls_rng_normal(&rng);
    }
    for (int i = 0; i < 512; i++) {
        seed[i] = ls_rng_normal(&rng);
    }
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        ls_session *s = w.session;
        world_ok(&w, ls_scope_begin(s));
        ls_tensor *in = ls_tensor_from(s, LS_F64, LS_SHAPE(LINE), x), *y = must(&w, models[m].f(s, in)), *g;
        world_ok(&w, ls_grad(s, y, ls_tensor_from(s, LS_F64, ls_tensor_shape(y), seed), 1, &in, &g));
        world_ok(&w, ls_read(s, g, grad, sizeof grad));
        ls_scope_end(s);
        int moved = 0;
        for (int at = 0; at < LINE; at += 7) {
            double old = x[at], h = 1e-6, value[2];
            for (int side = 0; side < 2; side++) {
                x[at] = old + (side ? h : -h);
                value[side] = loss_of(&w, models[m].f, x, seed);
            }
            x[at] = old;
            double want = (value[1] - value[0]) / (2 * h), off = grad[at] - want;
            moved += want != 0;
            if (!((off < 0 ? -off : off) <= 1e-7 * (1 + (want < 0 ? -want : want)))) {
                fail_msg("%s: derivative %d is %.12g, expected %.12g", models[m].name, at, grad[at], want);
            }
        }
        if (moved < 3) {
            fail_msg("%s: only %d derivatives are not 0", models[m].name, moved);
        }
    }
    world_close(&w);
}

/* ---- values ---- */

static void indices_count_in_the_operand(const char *device) {
    world w = world_open(device);
    ls_session *s = w.session;
    enum { H = 5, W = 4 };
    static const int8_t image[2 * H * W] = {3,  1, 4, 1, 5,  9, 2, 6,  5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4,
                                            -6, 2, 6, 4, -3, 3, 8, -3, 2, 7, 9, 5, 0, 2, 8, 8, 4, 1, 9, 7};
    ls_conv_spec spec = {.spatial = 2, .stride = {2, 1}, .pad_low = {1, 1}, .dilation = {2, 1}};
    ls_tensor *x = ls_tensor_from(s, LS_I8, LS_SHAPE(1, 2, H, W), image);
    for (int column_major = 0; column_major < 2; column_major++) {
        ls_tensor *y = must(&w, ls_max_pool_indices(s, x, kernel, &spec, column_major));
        int64_t got[2 * 2 * 4];
        assert_int_equal(ls_tensor_bytes(s, y), sizeof got);
        world_ok(&w, ls_read(s, y, got, sizeof got));
        for (int i = 0; i < 16; i++) {
            int c = i / 8, oh = i / 4 % 2, ow = i % 4, best = -1, at = 0;
            for (int t = 0; t < 4; t++) {
                int h = oh * 2 - 1 + t / 2 * 2, v = ow - 1 + t % 2;
                if (h >= 0 && h < H && v >= 0 && v < W &&
                    (best < 0 || image[c * H * W + h * W + v] > image[best])) {
                    best = c * H * W + h * W + v;
                    at = c * H * W + (column_major ? h + v * H : h * W + v);
                }
            }
            assert_int_equal(got[i], at);
        }
    }
    world_close(&w);
}

static void indices_on_cpu(void **state) {
    (void)state;
    indices_count_in_the_operand("cpu");
}

static void indices_on_ref(void **state) {
    (void)state;
    indices_count_in_the_operand("ref");
}

static ls_tensor *as_it_is(ls_session *s, void *ctx, int which, ls_tensor *x) {
    (void)s, (void)ctx, (void)which;
    return x;
}

/* The state stays where a sequence has ended, and what comes after is 0; a reversed net begins at the end. Sums, by a net whose
 * activation is the identity. */
static void sequences_end(void **state) {
    (void)state;
    static const float x[] = {1, 2, 3, 4, 5, 6}, one = 1, none[] = {0, 0}; /* [3 steps, 2 batches, 1] */
    static const int32_t lengths[] = {3, 1};
    static const float want_y[2][6] = {{1, 2, 4, 0, 9, 0}, {9, 2, 8, 0, 5, 0}}, want_h[] = {9, 2};
    world w = world_open("cpu");
    ls_session *s = w.session;
    ls_tensor *weight = ls_tensor_from(s, LS_F32, LS_SHAPE(1, 1), &one),
              *h0 = ls_tensor_from(s, LS_F32, LS_SHAPE(2, 1), none);
    ls_tensor *steps = ls_tensor_from(s, LS_F32, LS_SHAPE(3, 2, 1), x), *last;
    for (int reverse = 0; reverse < 2; reverse++) {
        ls_recurrent_spec spec = {.cell = LS_CELL_RNN,
                                  .reverse = reverse,
                                  .activation = as_it_is,
                                  .lengths = ls_tensor_from(s, LS_I32, LS_SHAPE(2), lengths)};
        float y[6], h[2];
        ls_tensor *ys =
            must(&w, ls_recurrent(s, steps, h0, NULL, weight, weight, NULL, NULL, &spec, &last, NULL));
        world_ok(&w, ls_read(s, ys, y, sizeof y));
        world_ok(&w, ls_read(s, last, h, sizeof h));
        assert_memory_equal(y, want_y[reverse], sizeof y);
        assert_memory_equal(h, want_h, sizeof h);
    }
    world_close(&w);
}

static void nothing_seen_is_zero(void **state) {
    (void)state;
    const float inf = __builtin_inff(), x[] = {-inf, -inf, 0, -inf};
    static const float want[] = {0, 0, 1, 0};
    float y[4];
    world w = world_open("cpu");
    ls_tensor *t = ls_tensor_from(w.session, LS_F32, LS_SHAPE(2, 2), x);
    world_ok(&w, ls_read(w.session, must(&w, ls_masked_softmax(w.session, t, -1)), y, sizeof y));
    assert_memory_equal(y, want, sizeof y);
    world_close(&w);
}

static void wrong_operands_are_named(void **state) {
    (void)state;
    static const int64_t labels[] = {0, 1};
    world w = world_open("cpu");
    ls_session *s = w.session;
    ls_tensor *x = ls_full(s, LS_F32, LS_SHAPE(2, 3), 1);
    assert_null(
        ls_nll_loss(s, x, ls_tensor_from(s, LS_I64, LS_SHAPE(1, 2), labels), NULL, NULL, LS_REDUCTION_SUM));
    assert_int_equal(ls_session_error(s)->code, LS_ERR_SHAPE);
    assert_non_null(strstr(ls_session_error(s)->message, "nll_loss: operands are f32[2,3], i64[1,2]"));
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(derivatives_match_differences),
        cmocka_unit_test(indices_on_cpu),
        cmocka_unit_test(indices_on_ref),
        cmocka_unit_test(sequences_end),
        cmocka_unit_test(nothing_seen_is_zero),
        cmocka_unit_test(wrong_operands_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
