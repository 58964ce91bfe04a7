/* Derivatives of every differentiable primitive and of the composites, against central differences in float64; second derivatives the
 * same way; and the museum's equalities between two ways to the same gradient. */
#include "graph/grad.h"
#include "support/world.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A case builds y from up to three inputs of the shapes given; what is differentiated is sum(y * weights). */
typedef ls_tensor *(*build_fn)(ls_session *s, ls_tensor **x);
typedef struct grad_case {
    const char *name;
    build_fn build;
    int n_inputs;
    int rank[3];
    int64_t dims[3][4];
    double low, high; /* of the inputs */
} grad_case;

#define UNARY(name) \
    static ls_tensor *b_##name(ls_session *s, ls_tensor **x) { \
        return ls_##name(s, x[0]); \
    }
UNARY(neg) UNARY(abs) UNARY(sqrt) UNARY(rsqrt) UNARY(cbrt) UNARY(recip) UNARY(exp) UNARY(exp2) UNARY(expm1) UNARY(log) UNARY(log2)
UNARY(log1p) UNARY(sin) UNARY(cos) UNARY(tan) UNARY(asin) UNARY(acos) UNARY(atan) UNARY(sinh) UNARY(cosh) UNARY(tanh) UNARY(erf)
UNARY(erfc) UNARY(relu) UNARY(gelu) UNARY(gelu_tanh) UNARY(silu) UNARY(sigmoid)
#define BINARY(name) \
    static ls_tensor *b_##name(ls_session *s, ls_tensor **x) { \
        return ls_##name(s, x[0], x[1]); \
    }
BINARY(add) BINARY(sub) BINARY(mul) BINARY(div) BINARY(rem) BINARY(pow) BINARY(min) BINARY(max) BINARY(matmul) BINARY(mse)
#define CASE(name, ...) \
    static ls_tensor *b_##name(ls_session *s, ls_tensor **x) { \
        __VA_ARGS__ \
    }
CASE(where, return ls_where(s, ls_lt(s, x[0], x[1]), ls_mul(s, x[0], x[1]), x[1]);)
CASE(cast, return ls_cast(s, ls_cast(s, x[0], LS_F64), LS_F64);)
CASE(reshape, return ls_reshape(s, x[0], LS_SHAPE(4, 3));)
CASE(permute, return ls_permute(s, x[0], (const int[]){2, 0, 1});)
CASE(expand, return ls_mul(s, ls_expand(s, x[0], LS_SHAPE(4, 2, 3)), x[1]);)
CASE(pad, return ls_pad(s, x[0], (const ls_pad_spec[]){{1, 2, 1}, {-1, 3, 0}}, 5);)
CASE(slice, return ls_slice(s, x[0], (const ls_slice_spec[]){{0, 5, 2}, {5, -1, -2}});)
CASE(window, return ls_window(s, x[0], 2, (const int[]){1, 0}, (const ls_window_spec[]){{2, 1, 2}, {3, 2, 1}});)
CASE(tiles, return ls_window(s, x[0], 2, (const int[]){0, 1}, (const ls_window_spec[]){{2, 2, 1}, {3, 3, 1}});)
CASE(concat, return ls_concat(s, (ls_tensor *[]){x[0], x[1], x[0]}, 3, 1);)
CASE(sum, return ls_sum(s, x[0], 2, (const int[]){2, 0}, 0);)
CASE(prod, return ls_prod(s, x[0], 2, (const int[]){0, 2}, 1);)
CASE(prod_zero, return ls_prod(s, ls_mul(s, x[0], ls_cast(s, ls_iota(s, LS_I32, LS_SHAPE(5), 0), LS_F64)), 0, NULL, 0);)
CASE(amax, return ls_amax(s, x[0], 2, (const int[]){2, 0}, 0);)
CASE(amin, return ls_amin(s, x[0], 1, (const int[]){1}, 0);)
CASE(scan_sum, return ls_scan(s, x[0], LS_SCAN_SUM, 1, 1, 1);)
CASE(scan_prod, return ls_scan(s, x[0], LS_SCAN_PROD, 1, 0, 0);)
CASE(scan_prod_back, return ls_scan(s, x[0], LS_SCAN_PROD, 0, 1, 1);)
CASE(scan_max, return ls_scan(s, x[0], LS_SCAN_MAX, 1, 0, 0);)
CASE(scan_min_back, return ls_narrow(s, ls_scan(s, x[0], LS_SCAN_MIN, 1, 1, 1), 1, 0, 5);) /* the sixth is the identity */
CASE(contract, ls_contract_spec c = {.n_batch = 1, .n_contract = 2, .batch_a = {1}, .batch_b = {2}, .contract_a = {3, 0}, .contract_b = {0, 3}};
     return ls_contract(s, x[0], x[1], &c, LS_F64);)
CASE(gather, const int32_t i[] = {2, 0, 2, 1}; return ls_gather(s, x[0], ls_tensor_from(s, LS_I32, LS_SHAPE(2, 2), i), 1);)
CASE(take_along, const int64_t i[] = {1, 0, 0, 1, 1, 1};
     return ls_take_along(s, x[0], ls_tensor_from(s, LS_I64, LS_SHAPE(2, 3), i), 0);)
static ls_tensor *scatter_of(ls_session *s, ls_tensor **x, ls_scatter_kind kind) {
    const int32_t i[] = {2, 0, 2};
    return ls_scatter(s, x[0], ls_tensor_from(s, LS_I32, LS_SHAPE(3), i), x[1], 1, kind);
}
CASE(scatter_add, return scatter_of(s, x, LS_SCATTER_ADD);)
CASE(scatter_set, return scatter_of(s, x, LS_SCATTER_SET);)
CASE(scatter_max, return scatter_of(s, x, LS_SCATTER_MAX);)
CASE(sort, return ls_sort(s, x[0], 1, 1);)
CASE(softmax, return ls_softmax(s, x[0], 1);)
CASE(log_softmax, return ls_log_softmax(s, x[0], 0);)
CASE(variance, return ls_variance(s, x[0], 1, (const int[]){1}, 1, 1);)
CASE(layer_norm, return ls_layer_norm(s, x[0], 1, x[1], x[2], 1e-3);)
CASE(rms_norm, return ls_rms_norm(s, x[0], 1, x[1], 1e-3);)
CASE(group_norm, return ls_group_norm(s, x[0], 2, NULL, NULL, 1e-3);)
CASE(conv2d, ls_conv_spec c = {.spatial = 2, .stride = {2, 1}, .dilation = {1, 2}, .pad_low = {1, 0}, .pad_high = {0, 2}};
     return ls_conv(s, x[0], x[1], NULL, &c);)
CASE(conv_groups, ls_conv_spec c = {.spatial = 1, .stride = {2}, .pad_low = {1}, .pad_high = {1}, .groups = 2};
     return ls_conv(s, x[0], x[1], x[2], &c);)
CASE(conv_transpose, ls_conv_spec c = {.spatial = 1, .stride = {2}, .pad_low = {1}, .pad_high = {0}};
     return ls_conv_transpose(s, x[0], x[1], NULL, &c);)
CASE(max_pool, ls_conv_spec c = {.spatial = 2, .stride = {2, 1}, .pad_low = {1, 0}, .pad_high = {0, 1}};
     return ls_max_pool(s, x[0], (const int64_t[]){2, 2}, &c);)
CASE(avg_pool, ls_conv_spec c = {.spatial = 2, .stride = {2, 2}, .pad_low = {1, 0}, .pad_high = {0, 1}};
     return ls_avg_pool(s, x[0], (const int64_t[]){2, 2}, &c, 0);)
CASE(im2col, ls_conv_spec c = {.spatial = 2, .pad_low = {1, 1}, .pad_high = {1, 1}};
     return ls_im2col(s, x[0], (const int64_t[]){3, 3}, &c);)
CASE(attention, ls_attention_spec a = {.causal = 1}; return ls_attention(s, x[0], x[1], x[2], &a);)
CASE(cross_entropy, const int32_t labels[] = {2, 0}; return ls_cross_entropy(s, x[0], ls_tensor_from(s, LS_I32, LS_SHAPE(2), labels));)
static ls_status step_body(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry, ls_tensor *const *xs,
                           ls_tensor **out_carry, ls_tensor **out_ys) {
    ls_tensor *scale = ctx;
    (void)iteration;
    out_carry[0] = ls_tanh(s, ls_add(s, ls_mul(s, carry[0], scale), xs[0]));
    out_ys[0] = ls_mul(s, out_carry[0], xs[0]);
    return LS_OK;
}
CASE(loop, ls_tensor *carry, *ys;
     ls_loop(s, ls_dim_of(4), 1, &x[0], 1, &x[1], 1, step_body, x[2], &carry, &ys);
     return ls_concat(s, (ls_tensor *[]){ls_reshape(s, carry, LS_SHAPE(1, 3)), ys}, 2, 0);)
CASE(lstm, ls_tensor *h, *c;
     ls_tensor *zero = ls_full(s, LS_F64, LS_SHAPE(2, 2), 0);
     return ls_lstm(s, x[0], zero, zero, x[1], x[2], NULL, &h, &c);)

static const grad_case cases[] = {
#define U(name, lo, hi) {#name, b_##name, 1, {2}, {{3, 2}}, lo, hi}
    U(neg, -2, 2), U(abs, 0.1, 2), U(sqrt, 0.1, 3), U(rsqrt, 0.1, 3), U(cbrt, 0.1, 3), U(recip, 0.2, 3), U(exp, -2, 2), U(exp2, -2, 2),
    U(expm1, -2, 2), U(log, 0.1, 5), U(log2, 0.1, 5), U(log1p, -0.5, 3), U(sin, -4, 4), U(cos, -4, 4), U(tan, -1, 1), U(asin, -0.9, 0.9),
    U(acos, -0.9, 0.9), U(atan, -3, 3), U(sinh, -2, 2), U(cosh, -2, 2), U(tanh, -2, 2), U(erf, -2, 2), U(erfc, -2, 2), U(relu, -1, 1),
    U(gelu, -2, 2), U(gelu_tanh, -2, 2), U(silu, -3, 3), U(sigmoid, -3, 3),
#define B(name, lo, hi) {#name, b_##name, 2, {2, 2}, {{3, 2}, {3, 2}}, lo, hi}
    B(add, -1, 1), B(sub, -1, 1), B(mul, -2, 2), B(div, 0.5, 3), B(rem, 0.6, 3), B(pow, 0.3, 2), B(min, -1, 1), B(max, -1, 1), B(mse, -1, 1),
    {"where", b_where, 2, {1, 1}, {{7}, {7}}, -1, 1},
    {"cast", b_cast, 1, {1}, {{3}}, -1, 1},
    {"reshape", b_reshape, 1, {2}, {{2, 6}}, -1, 1},
    {"permute", b_permute, 1, {3}, {{2, 3, 2}}, -1, 1},
    {"expand", b_expand, 2, {2, 3}, {{2, 1}, {4, 2, 3}}, -1, 1},
    {"pad", b_pad, 1, {2}, {{3, 4}}, -1, 1},
    {"slice", b_slice, 1, {2}, {{5, 6}}, -1, 1},
    {"window", b_window, 1, {2}, {{7, 5}}, -1, 1},
    {"tiles", b_tiles, 1, {2}, {{4, 6}}, -1, 1},
    {"concat", b_concat, 2, {2, 2}, {{2, 3}, {2, 1}}, -1, 1},
    {"sum", b_sum, 1, {3}, {{2, 3, 2}}, -1, 1},
    {"prod", b_prod, 1, {3}, {{2, 2, 3}}, -2, 2},
    {"prod with a zero", b_prod_zero, 1, {1}, {{5}}, -2, 2},
    {"amax", b_amax, 1, {3}, {{2, 3, 3}}, -1, 1},
    {"amin", b_amin, 1, {2}, {{3, 4}}, -1, 1},
    {"scan sum", b_scan_sum, 1, {2}, {{2, 5}}, -1, 1},
    {"scan prod", b_scan_prod, 1, {2}, {{2, 5}}, -2, 2},
    {"scan prod reversed", b_scan_prod_back, 1, {2}, {{4, 2}}, -2, 2},
    {"scan max", b_scan_max, 1, {2}, {{2, 6}}, -1, 1},
    {"scan min reversed", b_scan_min_back, 1, {2}, {{2, 6}}, -1, 1},
    {"contract", b_contract, 2, {4, 4}, {{2, 3, 2, 4}, {4, 2, 3, 2}}, -1, 1},
    {"matmul broadcast", b_matmul, 2, {3, 2}, {{2, 3, 4}, {4, 2}}, -1, 1},
    {"gather", b_gather, 1, {2}, {{2, 3}}, -1, 1},
    {"take_along", b_take_along, 1, {2}, {{2, 3}}, -1, 1},
    {"scatter add", b_scatter_add, 2, {2, 2}, {{2, 3}, {2, 3}}, -1, 1},
    {"scatter set", b_scatter_set, 2, {2, 2}, {{2, 3}, {2, 3}}, -1, 1},
    {"scatter max", b_scatter_max, 2, {2, 2}, {{2, 3}, {2, 3}}, -1, 1},
    {"sort", b_sort, 1, {2}, {{2, 4}}, -1, 1},
    {"softmax", b_softmax, 1, {2}, {{2, 4}}, -2, 2},
    {"log_softmax", b_log_softmax, 1, {2}, {{3, 2}}, -2, 2},
    {"variance", b_variance, 1, {2}, {{2, 4}}, -1, 1},
    {"layer_norm", b_layer_norm, 3, {2, 1, 1}, {{2, 4}, {4}, {4}}, -1, 1},
    {"rms_norm", b_rms_norm, 2, {2, 1}, {{2, 4}, {4}}, -1, 1},
    {"group_norm", b_group_norm, 1, {3}, {{1, 4, 2}}, -1, 1},
    {"conv2d", b_conv2d, 2, {4, 4}, {{1, 2, 5, 5}, {2, 2, 2, 3}}, -1, 1},
    {"conv groups", b_conv_groups, 3, {3, 3, 1}, {{2, 4, 5}, {2, 2, 3}, {2}}, -1, 1},
    {"conv_transpose", b_conv_transpose, 2, {3, 3}, {{1, 2, 4}, {2, 3, 3}}, -1, 1},
    {"max_pool", b_max_pool, 1, {4}, {{1, 2, 5, 4}}, -1, 1},
    {"avg_pool", b_avg_pool, 1, {4}, {{1, 1, 5, 5}}, -1, 1},
    {"im2col", b_im2col, 1, {4}, {{1, 2, 3, 4}}, -1, 1},
    {"attention", b_attention, 3, {4, 4, 4}, {{1, 2, 3, 2}, {1, 1, 3, 2}, {1, 1, 3, 2}}, -1, 1},
    {"cross_entropy", b_cross_entropy, 1, {2}, {{2, 3}}, -1, 1},
    {"loop", b_loop, 3, {1, 2, 1}, {{3}, {4, 3}, {3}}, -1, 1},
    {"lstm", b_lstm, 3, {3, 2, 2}, {{3, 2, 2}, {8, 2}, {8, 2}}, -1, 1},
};
#define N_CASES ((int)(sizeof cases / sizeof *cases))

static double sample(uint64_t *state, double low, double high) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(*state >> 11) / 9007199254740992.0;
}

typedef struct setup {
    int64_t n[3];
    double *x[3];
} setup;

static setup setup_of(const grad_case *c) {
    setup u = {{0}, {NULL}};
    uint64_t state = 12345;
    for (int i = 0; i < c->n_inputs; i++) {
        u.n[i] = 1;
        for (int d = 0; d < c->rank[i]; d++) {
            u.n[i] *= c->dims[i][d];
        }
        u.x[i] = malloc(sizeof(double) * (size_t)u.n[i]);
        for (int64_t k = 0; k < u.n[i]; k++) {
            u.x[i][k] = sample(&state, c->low, c->high);
        }
    }
    return u;
}
static void setup_free(setup *u) {
    for (int i = 0; i < 3; i++) {
        free(u->x[i]);
    }
}

/* sum(y * w) with weights that tell the elements of y apart; its gradients too when wanted; with `twice`, what is summed is the
 * sum of weighted gradients instead. */
static ls_tensor *weighted(ls_session *s, ls_tensor *y) {
    if (!y) {
        return NULL;
    }
    ls_tensor *flat = ls_reshape(s, y, LS_SHAPE(-1));
    ls_tensor *w = ls_add(s, ls_sin(s, ls_cast(s, ls_iota(s, LS_I32, ls_tensor_shape(flat), 0), LS_F64)),
                          ls_full(s, LS_F64, ls_tensor_shape(flat), 1.5));
    return ls_sum(s, ls_mul(s, flat, w), 0, NULL, 0);
}

static ls_tensor *loss_of(world *w, const grad_case *c, const setup *u, int twice, ls_tensor **leaves) {
    ls_session *s = w->session;
    for (int i = 0; i < c->n_inputs; i++) {
        leaves[i] = ls_tensor_from(s, LS_F64, ls_shape_make(c->rank[i], c->dims[i]), u->x[i]);
    }
    ls_tensor *loss = weighted(s, c->build(s, leaves));
    if (!loss) {
        fail_msg("%s: %s", c->name, ls_session_error(s)->message);
    }
    if (twice) {
        ls_tensor *grads[3], *sum = NULL;
        world_ok(w, ls_grad(s, loss, NULL, c->n_inputs, leaves, grads));
        for (int i = 0; i < c->n_inputs; i++) {
            ls_tensor *part = weighted(s, grads[i]);
            sum = sum ? ls_add(s, sum, part) : part;
        }
        loss = sum;
    }
    return loss;
}

static double value_of(world *w, const grad_case *c, const setup *u, int twice) {
    ls_tensor *leaves[3];
    double v = 0;
    ls_scope_begin(w->session);
    world_ok(w, ls_read(w->session, loss_of(w, c, u, twice, leaves), &v, sizeof v));
    ls_scope_end(w->session);
    return v;
}

static void check_case(world *w, const grad_case *c, int twice) {
    setup u = setup_of(c);
    ls_tensor *leaves[3], *grads[3];
    ls_scope_begin(w->session);
    ls_tensor *loss = loss_of(w, c, &u, twice, leaves);
    ls_status status = ls_grad(w->session, loss, NULL, c->n_inputs, leaves, grads);
    if (status != LS_OK) {
        fail_msg("%s: %s", c->name, ls_session_error(w->session)->message);
    }
    for (int i = 0; i < c->n_inputs; i++) {
        double got[128];
        assert_true(u.n[i] <= 128);
        world_ok(w, ls_read(w->session, grads[i], got, sizeof(double) * (size_t)u.n[i]));
        for (int64_t k = 0; k < u.n[i]; k += 1 + u.n[i] / 16) {
            /* Central differences err by h^2 f'''/6 + eps f/h: with h = 1e-5 both are near 1e-10 of the magnitudes here. */
            double x = u.x[i][k], h = 1e-5;
            u.x[i][k] = x + h;
            double up = value_of(w, c, &u, twice);
            u.x[i][k] = x - h;
            double down = value_of(w, c, &u, twice);
            u.x[i][k] = x;
            double want = (up - down) / (2 * h), gap = fabs(got[k] - want);
            if (!(gap <= 1e-6 * (1 + fabs(want)))) {
                fail_msg("%s%s: input %d element %lld: gradient %.12g, central difference %.12g", c->name, twice ? " (second)" : "", i,
                         (long long)k, got[k], want);
            }
        }
    }
    ls_scope_end(w->session);
    setup_free(&u);
}

static void first_derivatives(void **state) {
    (void)state;
    world w = world_open("ref");
    for (int i = 0; i < N_CASES; i++) {
        check_case(&w, &cases[i], 0);
    }
    world_close(&w);
}

static void second_derivatives(void **state) {
    (void)state;
    static const char *const names[] = {"exp", "tanh", "gelu", "div", "softmax", "layer_norm", "conv2d", "attention", "loop", "scan prod", "pow"};
    world w = world_open("ref");
    int found = 0;
    for (int i = 0; i < N_CASES; i++) {
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            if (strcmp(cases[i].name, names[k]) == 0) {
                check_case(&w, &cases[i], 1);
                found++;
            }
        }
    }
    assert_int_equal(found, (int)(sizeof names / sizeof *names));
    world_close(&w);
}

/* Every MAP, MOVE, REDUCE, ... of op.def either has a rule or is a step function, an integer operation, or a leaf. */
static void every_operation_is_covered(void **state) {
    (void)state;
    static const ls_op none[] = {LS_OP_SIGN, LS_OP_FLOOR, LS_OP_CEIL, LS_OP_TRUNC, LS_OP_RINT, LS_OP_NOT, LS_OP_ISNAN, LS_OP_ISINF,
                                 LS_OP_POPCOUNT, LS_OP_BITCAST, LS_OP_AND, LS_OP_OR, LS_OP_XOR, LS_OP_SHL, LS_OP_SHR, LS_OP_EQ,
                                 LS_OP_NE, LS_OP_LT, LS_OP_LE, LS_OP_DETACH, LS_OP_ARGMIN, LS_OP_ARGMAX, LS_OP_ARGSORT, LS_OP_RANDOM,
                                 LS_OP_LOOP, LS_OP_RESULT};
    for (int op = 0; op < LS_OP_COUNT; op++) {
        bool listed = ls_ops[op].op_class == LS_CLASS_LEAF;
        for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
            listed |= none[i] == (ls_op)op;
        }
        if (listed == (ls_grad_rule_of((ls_op)op) != NULL)) {
            fail_msg("%s: %s", ls_ops[op].name, listed ? "has a rule but is listed as having none" : "has no rule");
        }
    }
}

static void errors(void **state) {
    (void)state;
    world w = world_open("ref");
    ls_session *s = w.session;
    ls_tensor *i = ls_full_i64(s, LS_I32, LS_SHAPE(2), 1), *f = ls_full(s, LS_F32, LS_SHAPE(2), 1), *out;
    assert_int_equal(ls_grad(s, i, NULL, 1, &f, &out), LS_ERR_DTYPE);
    assert_non_null(strstr(ls_session_error(s)->message, "i32[2]"));
    ls_session_clear_error(s);
    assert_int_equal(ls_grad(s, f, NULL, 1, &i, &out), LS_ERR_DTYPE);
    ls_session_clear_error(s);
    assert_int_equal(ls_grad(s, f, NULL, -1, &f, &out), LS_ERR_INVALID);
    ls_session_clear_error(s);
    assert_int_equal(ls_grad(s, f, NULL, 1, NULL, &out), LS_ERR_INVALID);
    ls_session_clear_error(s);
    ls_tensor *seed = ls_full(s, LS_F32, LS_SHAPE(3), 1);
    assert_int_equal(ls_grad(s, f, seed, 1, &f, &out), LS_ERR_SHAPE);
    assert_non_null(strstr(ls_session_error(s)->message, "f32[3]"));
    ls_session_clear_error(s);
    float x[2] = {1, 2}, got[2];
    ls_tensor *a = ls_tensor_from(s, LS_F32, LS_SHAPE(2), x), *stopped = ls_mul(s, a, ls_stop_gradient(s, a));
    world_ok(&w, ls_grad(s, stopped, NULL, 1, &a, &out));
    world_ok(&w, ls_read(s, out, got, sizeof got));
    assert_true(got[0] == 1 && got[1] == 2);
    world_close(&w);
}

/* Museum 2d: the input gradient of a convolution, by autodiff and as a transposed convolution, has the same bits. */
static void input_gradient_is_transposed_convolution(void **state) {
    (void)state;
    world w = world_open("ref");
    ls_session *s = w.session;
    float x[2 * 4 * 9 * 8], k[6 * 2 * 3 * 3], g[2 * 6 * 5 * 4], a[sizeof x / 4], b[sizeof x / 4];
    uint64_t r = 5;
    for (size_t i = 0; i < sizeof x / 4; i++) x[i] = (float)sample(&r, -1, 1);
    for (size_t i = 0; i < sizeof k / 4; i++) k[i] = (float)sample(&r, -1, 1);
    for (size_t i = 0; i < sizeof g / 4; i++) g[i] = (float)sample(&r, -1, 1);
    ls_conv_spec c = {.spatial = 2, .stride = {2, 2}, .pad_low = {1, 1}, .pad_high = {1, 1}, .groups = 2};
    ls_tensor *tx = ls_tensor_from(s, LS_F32, LS_SHAPE(2, 4, 9, 8), x), *tk = ls_tensor_from(s, LS_F32, LS_SHAPE(6, 2, 3, 3), k);
    ls_tensor *tg = ls_tensor_from(s, LS_F32, LS_SHAPE(2, 6, 5, 4), g), *dx;
    world_ok(&w, ls_grad(s, ls_conv(s, tx, tk, NULL, &c), tg, 1, &tx, &dx));
    world_ok(&w, ls_read(s, dx, a, sizeof a));
    c.output_padding[1] = 1;
    world_ok(&w, ls_read(s, ls_conv_transpose(s, tg, tk, NULL, &c), b, sizeof b));
    assert_memory_equal(a, b, sizeof a);
    world_close(&w);
}

/* Products along an axis of a tensor of no elements. */
static void product_of_nothing(void **state) {
    (void)state;
    world w = world_open("ref");
    ls_tensor *x = ls_input(w.session, "x", LS_F32, LS_SHAPE(0, 3)), *g = NULL;
    world_ok(&w, ls_grad(w.session, ls_prod(w.session, x, 1, (const int[]){1}, 0), NULL, 1, &x, &g));
    assert_int_equal(ls_tensor_shape(g).dim[0].offset, 0);
    assert_int_equal(ls_tensor_shape(g).dim[1].offset, 3);
    world_close(&w);
}

/* The second extent is at most 9. */
static ls_shape two_by_a_symbol(world *w) {
    ls_error err;
    ls_shape shape = LS_SHAPE(2, 9);
    shape.dim[1] = ls_dim_symbol(ls_symbol_create(w->context, "n", 9, &err), 1, 0);
    return shape;
}

/* Behind an operand whose extent is a symbol nobody knows where another begins: an error where its gradient is asked for, and nowhere else. */
static void joined_after_a_symbol(void **state) {
    (void)state;
    world w = world_open("ref");
    ls_session *s = w.session;
    const ls_shape shape = two_by_a_symbol(&w);
    ls_tensor *first = ls_input(s, "first", LS_F32, LS_SHAPE(2, 3)), *x = ls_input(s, "x", LS_F32, shape);
    ls_tensor *last = ls_input(s, "last", LS_F32, LS_SHAPE(2, 4));
    ls_tensor *all[] = {first, x, x, last}, *before[] = {first, x}, *g[2];
    world_ok(&w, ls_grad(s, ls_concat(s, before, 2, 1), NULL, 2, before, g));
    world_ok(&w, ls_grad(s, ls_concat(s, all, 4, 1), NULL, 1, &first, g));
    assert_int_equal(ls_session_error(s)->code, LS_OK);
    assert_int_equal(ls_grad(s, ls_concat(s, all, 4, 1), NULL, 1, &last, g), LS_ERR_UNSUPPORTED);
    ls_session_clear_error(s);
    assert_int_equal(ls_grad(s, ls_concat(s, all, 4, 1), NULL, 1, &x, g), LS_ERR_UNSUPPORTED);
    world_close(&w);
}

/* Nobody asks for what lies below a slice or a window: that it has no gradient there is no error. */
static void below_what_is_asked(void **state) {
    (void)state;
    world w = world_open("ref");
    ls_session *s = w.session;
    const ls_shape shape = two_by_a_symbol(&w);
    ls_tensor *first = ls_input(s, "first", LS_F32, LS_SHAPE(2, 3)), *x = ls_input(s, "x", LS_F32, shape), *g;
    ls_tensor *joined = ls_exp(s, ls_concat(s, (ls_tensor *[]){first, x}, 2, 1));
    world_ok(&w, ls_grad(s, ls_mul(s, joined, joined), NULL, 1, &first, &g));
    ls_tensor *all[] = {g, ls_window(s, x, 1, (const int[]){1}, &(ls_window_spec){3, 1, 1})};
    for (int i = 0; i < 2; i++) {
        ls_tensor *square = ls_mul(s, all[i], all[i]);
        world_ok(&w, ls_grad(s, square, NULL, 1, &all[i], &g));
        assert_int_equal(ls_session_error(s)->code, LS_OK);
        assert_int_equal(ls_grad(s, square, NULL, 1, &x, &g), LS_ERR_UNSUPPORTED);
        ls_session_clear_error(s);
    }
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_derivatives),          cmocka_unit_test(second_derivatives),
        cmocka_unit_test(every_operation_is_covered), cmocka_unit_test(errors),
        cmocka_unit_test(input_gradient_is_transposed_convolution),
        cmocka_unit_test(product_of_nothing),         cmocka_unit_test(joined_after_a_symbol),
        cmocka_unit_test(below_what_is_asked),
    };
    return cmocka_run_group_tests_name("grad", tests, NULL, NULL);
}
