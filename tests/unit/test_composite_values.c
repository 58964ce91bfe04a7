/* What composites compute: the graph, evaluated by the oracle in float64, against definitions written out
 * as loops. */
#include "graph_session.h"
#include "base/rng.h"
#include "oracle/oracle.h"
#include <math.h>

typedef struct bench {
    fixture f;
    ls_arena arena;
    ls_rng rng;
    int n;
    struct {
        const ls_tensor *node;
        const void *data;
    } leaf[64];
} bench;

#define OPEN                                                                                                 \
    bench ben, *b = &ben;                                                                                    \
    memset(b, 0, sizeof *b);                                                                                 \
    fixture_open(&b->f);                                                                                     \
    ls_arena_init(&b->arena, &b->f.heap);                                                                    \
    b->rng.key = 42;                                                                                         \
    ls_session *s = session_of(&b->f)

static void close_bench(bench *b) {
    ls_arena_free(&b->arena);
    fixture_close(&b->f);
}

static void *room(bench *b, int64_t n, size_t size) {
    void *data = ls_arena_alloc(&b->arena, (size_t)n * size + 1);
    assert_non_null(data);
    return data;
}

static ls_tensor *leaf_of(bench *b, ls_dtype dtype, ls_shape shape, const void *data) {
    ls_tensor *x = ls_input(session_of(&b->f), "x", dtype, shape);
    assert_non_null(x);
    assert_true(b->n < 64);
    b->leaf[b->n].node = x;
    b->leaf[b->n++].data = data;
    return x;
}

/* Whole numbers from -8 to 8, so that products and sums are exact; `scale` other than 0: uniform in
 * +-scale. */
static ls_tensor *random_leaf(bench *b, ls_shape shape, double scale, double **out) {
    int64_t n = ls_shape_numel(&shape, NULL);
    double *data = room(b, n, sizeof *data);
    for (int64_t i = 0; i < n; i++) {
        data[i] = scale == 0 ? (double)ls_rng_below(&b->rng, 17) - 8 : (2 * ls_rng_unit(&b->rng) - 1) * scale;
    }
    *out = data;
    return leaf_of(b, LS_F64, shape, data);
}

static ls_status leaf_values(void *ctx, const ls_tensor *node, const void **out_data, ls_error *err) {
    bench *b = ctx;
    for (int i = 0; i < b->n; i++) {
        if (b->leaf[i].node == node) {
            *out_data = b->leaf[i].data;
            return LS_OK;
        }
    }
    return LS_FAIL(err, LS_ERR_INTERNAL, "no data for %s", ls_ops[node->op].name);
}

/* Values of x, and the same after rewriting: bit for bit the same middle. */
static ls_balls eval(bench *b, ls_tensor *x) {
    ls_session *s = session_of(&b->f);
    if (!x) {
        fail_msg("%s", b->f.session.graph.error.message);
    }
    ls_balls y, z;
    ls_error err = {0};
    ls_oracle_source source = {.ctx = b, .values = leaf_values};
    ls_tensor *simple = x;
    assert_int_equal(ls_rewrite(s, &simple, 1), LS_OK);
    if (ls_oracle_eval(&b->arena, &source, &x, 1, &y, &err) != LS_OK ||
        ls_oracle_eval(&b->arena, &source, &simple, 1, &z, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    for (int64_t i = 0; i < y.n; i++) {
        if (y.mid ? memcmp(&y.mid[i], &z.mid[i], 8) != 0 && !(y.mid[i] != y.mid[i] && z.mid[i] != z.mid[i])
                  : y.exact[i] != z.exact[i]) {
            fail_msg("rewriting changed element %d", (int)i);
        }
    }
    return y;
}

static void assert_values(bench *b, ls_tensor *x, const double *want, int64_t n, double tolerance) {
    ls_balls y = eval(b, x);
    assert_int_equal(y.n, n);
    for (int64_t i = 0; i < n; i++) {
        double got = y.mid ? y.mid[i] : (double)y.exact[i];
        bool same = want[i] != want[i]
                        ? got != got
                        : got == want[i] || fabs(got - want[i]) <= tolerance * (1 + fabs(want[i]));
        if (!same) {
            fail_msg("element %d is %.17g, expected %.17g", (int)i, got, want[i]);
        }
    }
}

/* ---- convolution ---- */

typedef struct conv_case {
    int d;
    int64_t n, c, o, groups, in[3], k[3], stride[3], dilation[3], low[3], high[3], extra[3];
} conv_case;

static int64_t product(const int64_t *v, int n) {
    int64_t p = 1;
    for (int i = 0; i < n; i++) {
        p *= v[i];
    }
    return p;
}

static void unravel(int64_t at, const int64_t *dims, int n, int64_t *out) {
    for (int i = n; i-- > 0;) {
        out[i] = at % dims[i];
        at /= dims[i];
    }
}

/* Calls visit(y position, x position, tap) for every pair that meets, in the forward direction. */
static void each_pair(const conv_case *c, const int64_t *out, const int64_t *in,
                      void (*visit)(void *, int64_t, int64_t, int64_t), void *ctx) {
    int64_t o[3], t[3];
    for (int64_t p = 0; p < product(out, c->d); p++) {
        unravel(p, out, c->d, o);
        for (int64_t q = 0; q < product(c->k, c->d); q++) {
            unravel(q, c->k, c->d, t);
            int64_t at = 0;
            bool inside = true;
            for (int i = 0; i < c->d; i++) {
                int64_t x = o[i] * c->stride[i] + t[i] * c->dilation[i] - c->low[i];
                inside &= x >= 0 && x < in[i];
                at = at * in[i] + x;
            }
            if (inside) {
                visit(ctx, p, at, q);
            }
        }
    }
}

typedef struct conv_data {
    const conv_case *c;
    const double *x, *w;
    double *y;
    int64_t xs, ys, ks; /* spatial elements, taps */
} conv_data;

static void forward_pair(void *ctx, int64_t p, int64_t q, int64_t t) {
    conv_data *d = ctx;
    const conv_case *c = d->c;
    int64_t cg = c->c / c->groups, og = c->o / c->groups;
    for (int64_t n = 0; n < c->n; n++) {
        for (int64_t o = 0; o < c->o; o++) {
            for (int64_t i = 0; i < cg; i++) {
                d->y[(n * c->o + o) * d->ys + p] +=
                    d->x[(n * c->c + o / og * cg + i) * d->xs + q] * d->w[(o * cg + i) * d->ks + t];
            }
        }
    }
}

/* The adjoint: x plays the result; w is [c, o/groups, taps]. */
static void backward_pair(void *ctx, int64_t p, int64_t q, int64_t t) {
    conv_data *d = ctx;
    const conv_case *c = d->c;
    int64_t cg = c->c / c->groups, og = c->o / c->groups;
    for (int64_t n = 0; n < c->n; n++) {
        for (int64_t i = 0; i < c->c; i++) {
            for (int64_t j = 0; j < og; j++) {
                d->y[(n * c->o + i / cg * og + j) * d->ys + q] +=
                    d->x[(n * c->c + i) * d->xs + p] * d->w[(i * og + j) * d->ks + t];
            }
        }
    }
}

static ls_conv_spec spec_of(const conv_case *c) {
    ls_conv_spec spec = {.spatial = c->d, .groups = c->groups};
    for (int i = 0; i < c->d; i++) {
        spec.stride[i] = c->stride[i];
        spec.dilation[i] = c->dilation[i];
        spec.pad_low[i] = c->low[i];
        spec.pad_high[i] = c->high[i];
        spec.output_padding[i] = c->extra[i];
    }
    return spec;
}

static ls_shape shape_of(int64_t a, int64_t b, const int64_t *rest, int d) {
    ls_shape shape = {.rank = 2 + d, .dim = {ls_dim_of(a), ls_dim_of(b)}};
    for (int i = 0; i < d; i++) {
        shape.dim[2 + i] = ls_dim_of(rest[i]);
    }
    return shape;
}

static const conv_case conv_cases[] = {
    {1, 2, 3, 4, 1, {9}, {3}, {1}, {1}, {0}, {0}, {0}},
    {1, 1, 4, 6, 2, {11}, {4}, {3}, {2}, {2}, {4}, {1}},
    {2, 2, 3, 2, 1, {5, 6}, {3, 2}, {2, 1}, {1, 2}, {1, 0}, {0, 2}, {1, 0}},
    {2, 2, 4, 8, 4, {5, 4}, {2, 3}, {1, 2}, {2, 1}, {1, 1}, {1, 1}, {0, 1}}, /* one channel a group */
    {2, 1, 6, 4, 2, {4, 4}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, {1, 1}},
    {3, 1, 2, 3, 1, {3, 4, 3}, {2, 2, 2}, {1, 2, 1}, {1, 1, 2}, {1, 0, 1}, {0, 1, 1}, {0, 1, 0}},
    {3, 1, 4, 4, 2, {3, 3, 2}, {2, 2, 1}, {1, 1, 1}, {1, 1, 1}, {0, 1, 0}, {1, 0, 0}, {0, 0, 0}},
    {3, 1, 3, 3, 3, {3, 3, 2}, {2, 2, 1}, {2, 1, 1}, {1, 2, 1}, {0, 1, 0}, {1, 0, 0}, {1, 0, 0}},
    {2, 1, 1, 1, 1, {3, 3}, {1, 1}, {2, 2}, {1, 1}, {-1, 0}, {0, -1}, {0, 0}}, /* negative padding crops */
};
#define N_CASES (sizeof conv_cases / sizeof *conv_cases)

static void convolution_is_its_definition(void **state) {
    (void)state;
    OPEN;
    for (size_t k = 0; k < N_CASES; k++) {
        conv_case c = conv_cases[k];
        int64_t out[3];
        memset(c.extra, 0, sizeof c.extra);
        for (int i = 0; i < c.d; i++) {
            out[i] = (c.in[i] + c.low[i] + c.high[i] - (c.k[i] - 1) * c.dilation[i] - 1) / c.stride[i] + 1;
        }
        double *x, *w, *bias;
        ls_tensor *tx = random_leaf(b, shape_of(c.n, c.c, c.in, c.d), 0, &x);
        ls_tensor *tw = random_leaf(b, shape_of(c.o, c.c / c.groups, c.k, c.d), 0, &w),
                  *tb = random_leaf(b, LS_SHAPE(c.o), 0, &bias);
        ls_conv_spec spec = spec_of(&c);
        ls_tensor *y = ls_conv(s, tx, tw, tb, &spec);
        conv_data d = {&c, x, w, NULL, product(c.in, c.d), product(out, c.d), product(c.k, c.d)};
        d.y = room(b, c.n * c.o * d.ys, sizeof(double));
        for (int64_t i = 0; i < c.n * c.o * d.ys; i++) {
            d.y[i] = bias[i / d.ys % c.o];
        }
        each_pair(&c, out, c.in, forward_pair, &d);
        assert_values(b, y, d.y, c.n * c.o * d.ys, 0);
    }
    close_bench(b);
}

static void transposed_convolution_is_the_adjoint(void **state) {
    (void)state;
    OPEN;
    for (size_t k = 0; k < N_CASES; k++) {
        conv_case c = conv_cases[k];
        int64_t out[3];
        for (int i = 0; i < c.d; i++) {
            out[i] = (c.in[i] - 1) * c.stride[i] - c.low[i] - c.high[i] + c.dilation[i] * (c.k[i] - 1) +
                     c.extra[i] + 1;
        }
        double *x, *w;
        ls_tensor *tx = random_leaf(b, shape_of(c.n, c.c, c.in, c.d), 0, &x);
        ls_tensor *tw = random_leaf(b, shape_of(c.c, c.o / c.groups, c.k, c.d), 0, &w);
        ls_conv_spec spec = spec_of(&c);
        ls_tensor *y = ls_conv_transpose(s, tx, tw, NULL, &spec);
        conv_data d = {&c, x, w, NULL, product(c.in, c.d), product(out, c.d), product(c.k, c.d)};
        d.y = room(b, c.n * c.o * d.ys, sizeof(double));
        each_pair(&c, c.in, out, backward_pair, &d);
        assert_values(b, y, d.y, c.n * c.o * d.ys, 0);
    }
    close_bench(b);
}

/* One contraction, over (taps ascending, channel): what the contract orders. */
static void convolutions_are_one_contraction(void **state) {
    (void)state;
    OPEN;
    double *x, *w;
    ls_tensor *tx = random_leaf(b, LS_SHAPE(1, 3, 5, 5), 0, &x),
              *tw = random_leaf(b, LS_SHAPE(3, 3, 2, 2), 0, &w);
    ls_conv_spec spec = {.spatial = 2, .stride = {2, 2}, .pad_low = {1, 1}};
    ls_tensor *roots[] = {ls_conv(s, tx, tw, NULL, &spec), ls_conv_transpose(s, tx, tw, NULL, &spec)};
    for (int r = 0; r < 2; r++) {
        int count, contractions = 0;
        ls_tensor **order = ls_graph_order(&b->arena, &roots[r], 1, &count);
        for (int i = 0; i < count; i++) {
            const ls_contract_spec *c = &order[i]->attr.contract;
            if (order[i]->op == LS_OP_CONTRACT) {
                contractions++;
                assert_int_equal(c->n_contract, 3);
                assert_memory_equal(c->contract_a, ((int[]){4, 5, 1}), 3 * sizeof(int));
                assert_memory_equal(c->contract_b, ((int[]){2, 3, !r}), 3 * sizeof(int));
                assert_true(order[i]->src[0]->absent);
            }
        }
        assert_int_equal(contractions, 1);
    }
    close_bench(b);
}

/* All 24 orders of the filter's axes, and of the input's and the result's, agree. */
static void every_layout_agrees(void **state) {
    (void)state;
    OPEN;
    double *x, *w;
    ls_tensor *tx = random_leaf(b, LS_SHAPE(2, 3, 5, 4), 0, &x),
              *tw = random_leaf(b, LS_SHAPE(5, 3, 3, 2), 0, &w);
    ls_conv_spec spec = {.spatial = 2, .stride = {2, 1}, .pad_low = {1, 0}, .pad_high = {0, 2}};
    ls_balls want = eval(b, ls_conv(s, tx, tw, NULL, &spec));
    for (int code = 0; code < 256; code++) {
        int p[4] = {code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6},
            at[4]; /* axis i of the layout is canonical axis p[i] */
        if ((1 << p[0] | 1 << p[1] | 1 << p[2] | 1 << p[3]) != 15) {
            continue;
        }
        for (int i = 0; i < 4; i++) {
            at[p[i]] = i;
        }
        for (int which = 0; which < 3; which++) {
            ls_conv_axes a = {.set = 1,
                              .input_channel = 1,
                              .input_spatial = {2, 3},
                              .filter_in = 1,
                              .filter_spatial = {2, 3},
                              .output_channel = 1,
                              .output_spatial = {2, 3}};
            if (which == 0) {
                a.input_batch = at[0], a.input_channel = at[1], a.input_spatial[0] = at[2],
                a.input_spatial[1] = at[3];
            } else if (which == 1) {
                a.filter_out = at[0], a.filter_in = at[1], a.filter_spatial[0] = at[2],
                a.filter_spatial[1] = at[3];
            } else {
                a.output_batch = at[0], a.output_channel = at[1], a.output_spatial[0] = at[2],
                a.output_spatial[1] = at[3];
            }
            spec.axes = a;
            ls_tensor *y = ls_conv(s, which == 0 ? ls_permute(s, tx, p) : tx,
                                   which == 1 ? ls_permute(s, tw, p) : tw, NULL, &spec);
            y = which == 2 ? ls_permute(s, y, at) : y;
            assert_values(b, y, want.mid, want.n, 0);
        }
    }
    close_bench(b);
}

/* The example of docs/layouts.md. */
static void a_filter_is_read_by_its_axes(void **state) {
    (void)state;
    OPEN;
    static const double x[] = {0, 1, 0, 0, 0, 0}, w[] = {1, 2, 3, 4, 5, 6, 7, 8};
    ls_tensor *tx = leaf_of(b, LS_F64, LS_SHAPE(1, 3, 2), x), *tw = leaf_of(b, LS_F64, LS_SHAPE(2, 2, 2), w);
    static const struct {
        int out, in, spatial;
        double want[2];
    } readings[] = {{2, 0, 1, {5, 6}}, {2, 1, 0, {3, 4}}, {0, 2, 1, {2, 6}}, {0, 1, 2, {3, 7}}};
    for (size_t i = 0; i < sizeof readings / sizeof *readings; i++) {
        ls_conv_spec spec = {.spatial = 1,
                             .axes = {.set = 1,
                                      .input_batch = 0,
                                      .input_spatial = {1},
                                      .input_channel = 2,
                                      .filter_out = readings[i].out,
                                      .filter_in = readings[i].in,
                                      .filter_spatial = {readings[i].spatial},
                                      .output_batch = 0,
                                      .output_spatial = {1},
                                      .output_channel = 2}};
        if (i == 0) {
            ls_tensor *y = ls_conv(s, tx, tw, NULL, &spec);
            ls_text text;
            ls_text_init(&text, &b->f.heap);
            ls_graph_print(&text, &y, 1);
            assert_string_equal(text.data, "%0 = input f64[1,3,2] \"x\"\n"
                                           "%1 = permute f64[1,2,3] %0 axes=0,2,1\n"
                                           "%2 = window f64[1,2,2,2] %1 axes=2 size=2 stride=1 dilation=1\n"
                                           "%3 = input f64[2,2,2] \"x\"\n"
                                           "%4 = permute f64[2,2,2] %3 axes=2,0,1\n"
                                           "%5 = contract f64[1,2,2] %2 %4 contract=3,1 with=2,1\n"
                                           "-> %5\n");
            ls_text_free(&text);
        }
        double want[4] = {readings[i].want[0], readings[i].want[1], 0, 0};
        assert_values(b, ls_conv(s, tx, tw, NULL, &spec), want, 4, 0);
    }
    close_bench(b);
}

/* Padding is absent: an infinite weight over it gives no NaN. */
static void padding_meets_no_weight(void **state) {
    (void)state;
    OPEN;
    static const double x[] = {1, 2}, w[] = {INFINITY, 1, INFINITY}, want[] = {INFINITY, INFINITY},
                        v[] = {3, -1, 0};
    ls_tensor *tx = leaf_of(b, LS_F64, LS_SHAPE(1, 1, 2), x), *tw = leaf_of(b, LS_F64, LS_SHAPE(1, 1, 3), w);
    ls_conv_spec spec = {.spatial = 1, .pad_low = {1}, .pad_high = {1}};
    assert_values(b, ls_conv(s, tx, tw, NULL, &spec), want, 2, 0); /* zeros would give NaN */
    ls_tensor *tv = leaf_of(b, LS_F64, LS_SHAPE(1, 1, 3), v);
    static const double means[] = {3, 1, -0.5}, with_pad[] = {1.5, 1, -0.5};
    ls_conv_spec pool = {.spatial = 1, .stride = {2}, .pad_low = {1}};
    assert_values(b, ls_max_pool(s, tv, (int64_t[]){2}, &pool), (double[]){3, 0}, 2, 0);
    ls_conv_spec one = {.spatial = 1, .pad_low = {1}};
    assert_values(b, ls_avg_pool(s, tv, (int64_t[]){2}, &one, 0), means, 3, 0);
    assert_values(b, ls_avg_pool(s, tv, (int64_t[]){2}, &one, 1), with_pad, 3, 0);
    ls_tensor *negative = leaf_of(b, LS_F64, LS_SHAPE(1, 1, 2), (const double[]){-5, -6});
    assert_values(b, ls_max_pool(s, negative, (int64_t[]){2}, &one), (double[]){-5, -5}, 2,
                  0); /* padding never wins */
    close_bench(b);
}

static void im2col_and_back(void **state) {
    (void)state;
    OPEN;
    double *x;
    ls_tensor *tx = random_leaf(b, LS_SHAPE(2, 3, 5, 6), 0, &x);
    ls_conv_spec spec = {
        .spatial = 2, .stride = {2, 1}, .dilation = {1, 2}, .pad_low = {1, 0}, .pad_high = {2, 3}};
    int64_t k[] = {3, 2}, out[] = {3, 7}; /* (5 + 3 - 3) / 2 + 1, 6 + 3 - 3 + 1 */
    double *cols = room(b, 2 * 18 * 21, sizeof *cols), *back = room(b, 2 * 3 * 30, sizeof *back),
           total[2][90] = {{0}};
    for (int64_t i = 0; i < 2 * 18 * 21; i++) {
        int64_t n = i / (18 * 21), row = i / 21 % 18, p = i % 21, c = row / 6, t = row % 6;
        int64_t h = p / out[1] * 2 + t / 2 - 1, w = p % out[1] + t % 2 * 2;
        bool inside = h >= 0 && h < 5 && w >= 0 && w < 6;
        int64_t at = ((n * 3 + c) * 5 + h) * 6 + w;
        cols[i] = inside ? x[at] : 0;
        if (inside) {
            total[n][at - n * 90] += cols[i];
        }
    }
    memcpy(back, total, sizeof total);
    ls_tensor *tc = ls_im2col(s, tx, k, &spec);
    assert_values(b, tc, cols, 2 * 18 * 21, 0);
    assert_values(b, ls_col2im(s, tc, LS_SHAPE(2, 3, 5, 6), k, &spec), back, 180, 0);
    close_bench(b);
}

/* ---- elementwise, norms, softmax ---- */

static void activations(void **state) {
    (void)state;
    OPEN;
    static const double x[] = {-800, -20, -1.5, -0.0, 0.25, 3, 30, 800, NAN};
    enum { N = sizeof x / sizeof *x };
    ls_tensor *t = leaf_of(b, LS_F64, LS_SHAPE(N), x);
    double relu[N], gelu[N], tanhed[N], silu[N], sig[N];
    for (int i = 0; i < N; i++) {
        sig[i] = x[i] < 0 ? exp(x[i]) / (1 + exp(x[i])) : 1 / (1 + exp(-x[i]));
        silu[i] = x[i] * sig[i];
        relu[i] = x[i] > 0 || x[i] != x[i] ? x[i] : 0;
        gelu[i] = x[i] * 0.5 * (1 + erf(x[i] / sqrt(2)));
        tanhed[i] = x[i] * 0.5 * (1 + tanh(sqrt(2 / acos(-1.0)) * (x[i] + 0.044715 * x[i] * x[i] * x[i])));
    }
    assert_values(b, ls_relu(s, t), relu, N, 0);
    assert_values(b, ls_gelu(s, t), gelu, N, 1e-14);
    assert_values(b, ls_gelu_tanh(s, t), tanhed, N, 1e-14);
    assert_values(b, ls_sigmoid(s, t), sig, N, 1e-14);
    assert_values(b, ls_silu(s, t), silu, N, 1e-14);
    assert_false(signbit(eval(b, ls_relu(s, t)).mid[3])); /* max(-0, +0) = +0 */
    close_bench(b);
}

static void norms_and_softmax(void **state) {
    (void)state;
    OPEN;
    enum { N = 3, C = 4, L = 5 };
    double *x, *g, *beta, *gc, *bc, y[N * C * L], m[N * C * L], v[N * C * L];
    ls_tensor *t = random_leaf(b, LS_SHAPE(N, C, L), 3, &x), *tg = random_leaf(b, LS_SHAPE(L), 2, &g);
    ls_tensor *tb = random_leaf(b, LS_SHAPE(L), 2, &beta), *tgc = random_leaf(b, LS_SHAPE(C), 2, &gc),
              *tbc = random_leaf(b, LS_SHAPE(C), 2, &bc);
    for (int r = 0; r < N * C; r++) { /* rows: mean, biased variance, softmax */
        double sum = 0, sq = 0, most = -INFINITY, e = 0;
        for (int j = 0; j < L; j++) {
            sum += x[r * L + j];
            most = fmax(most, x[r * L + j]);
        }
        for (int j = 0; j < L; j++) {
            sq += (x[r * L + j] - sum / L) * (x[r * L + j] - sum / L);
            e += exp(x[r * L + j] - most);
        }
        m[r] = sum / L;
        v[r] = sq / L;
        for (int j = 0; j < L; j++) {
            y[r * L + j] = exp(x[r * L + j] - most) / e;
        }
    }
    int last = 2;
    assert_values(b, ls_mean(s, t, 1, &last, 0), m, N * C, 1e-14);
    assert_values(b, ls_variance(s, t, 1, &last, 1, 0), v, N * C, 1e-14);
    double unbiased[N * C];
    for (int r = 0; r < N * C; r++) {
        unbiased[r] = v[r] * L / (L - 1);
    }
    assert_values(b, ls_variance(s, t, 1, &last, 0, 1), unbiased, N * C, 1e-13);
    assert_values(b, ls_softmax(s, t, -1), y, N * C * L, 1e-14);
    for (int i = 0; i < N * C * L; i++) {
        y[i] = log(y[i]);
    }
    assert_values(b, ls_log_softmax(s, t, 2), y, N * C * L, 1e-13);
    for (int i = 0; i < N * C * L; i++) {
        y[i] = (x[i] - m[i / L]) / sqrt(v[i / L] + 1e-3) * g[i % L] + beta[i % L];
    }
    assert_values(b, ls_layer_norm(s, t, -1, tg, tb, 1e-3), y, N * C * L, 1e-13);
    for (int i = 0; i < N * C * L; i++) {
        y[i] = x[i] / sqrt(v[i / L] + m[i / L] * m[i / L] + 1e-3) * g[i % L];
    }
    assert_values(b, ls_rms_norm(s, t, 2, tg, 1e-3), y, N * C * L, 1e-13);
    for (int n = 0; n < N; n++) {
        for (int k = 0; k < 2; k++) { /* groups of two channels */
            const double *p = x + (n * C + 2 * k) * L;
            double sum = 0, sq = 0;
            for (int i = 0; i < 2 * L; i++) {
                sum += p[i] / (2 * L);
            }
            for (int i = 0; i < 2 * L; i++) {
                sq += (p[i] - sum) * (p[i] - sum) / (2 * L);
            }
            for (int i = 0; i < 2 * L; i++) {
                int c = 2 * k + i / L;
                y[p - x + i] = (p[i] - sum) / sqrt(sq + 1e-3) * gc[c] + bc[c];
            }
        }
    }
    assert_values(b, ls_group_norm(s, t, 2, tgc, tbc, 1e-3), y, N * C * L, 1e-13);
    double cm[C] = {0}, cv[C] = {0};
    for (int i = 0; i < N * C * L; i++) {
        cm[i / L % C] += x[i] / (N * L);
    }
    for (int i = 0; i < N * C * L; i++) {
        cv[i / L % C] += (x[i] - cm[i / L % C]) * (x[i] - cm[i / L % C]) / (N * L);
    }
    for (int i = 0; i < N * C * L; i++) {
        int c = i / L % C;
        y[i] = (x[i] - cm[c]) / sqrt(cv[c] + 1e-3) * gc[c] + bc[c];
    }
    ls_tensor *mean, *variance;
    assert_values(b, ls_batch_norm_train(s, t, tgc, tbc, 1e-3, &mean, &variance), y, N * C * L, 1e-13);
    assert_values(b, mean, cm, C, 1e-13);
    assert_values(b, variance, cv, C, 1e-13);
    assert_values(b, ls_batch_norm(s, t, mean, variance, tgc, tbc, 1e-3), y, N * C * L, 1e-13);
    close_bench(b);
}

/* ---- indexed and random ---- */

static void sorted_and_taken(void **state) {
    (void)state;
    OPEN;
    static const double x[] = {3, NAN, -1, 3, 0, 7, 7, 7, -2, 1};
    ls_tensor *t = leaf_of(b, LS_F64, LS_SHAPE(2, 5), x), *values, *indices;
    assert_values(b, ls_sort(s, t, 1, 0), (double[]){-1, 0, 3, 3, NAN, -2, 1, 7, 7, 7}, 10, 0);
    assert_values(b, ls_sort(s, t, 1, 1), (double[]){3, 3, 0, -1, NAN, 7, 7, 7, 1, -2}, 10, 0);
    assert_int_equal(ls_topk(s, t, 2, -1, 1, &values, &indices), LS_OK);
    assert_values(b, values, (double[]){3, 3, 7, 7}, 4, 0);
    assert_values(b, indices, (double[]){0, 3, 0, 1}, 4, 0);
    static const int64_t take[] = {4, 0, 9, 2, -1, 0};
    ls_tensor *ti = leaf_of(b, LS_I64, LS_SHAPE(2, 3), take);
    assert_values(b, ls_take_along(s, t, ti, 1), (double[]){0, 3, NAN, 7, NAN, 7}, 6,
                  0); /* never the neighbouring row */
    static const int64_t rows[] = {1, 0, 1};
    ls_tensor *tr = leaf_of(b, LS_I64, LS_SHAPE(1, 3), rows);
    assert_values(b, ls_take_along(s, t, tr, 0), (double[]){7, NAN, 7}, 3, 0);
    assert_values(b, ls_one_hot(s, ls_reshape(s, tr, LS_SHAPE(3)), 2, LS_F64), (double[]){0, 1, 1, 0, 0, 1},
                  6, 0);
    assert_values(b, ls_embedding(s, t, tr), (double[]){7, 7, 7, -2, 1, 3, NAN, -1, 3, 0, 7, 7, 7, -2, 1}, 15,
                  0);
    close_bench(b);
}

static void random_numbers(void **state) {
    (void)state;
    OPEN;
    enum { N = 4000 };
    ls_tensor *key = ls_random_key(s, 0x123456789abcdefull);
    assert_values(b, key, (double[]){0x89abcdefu, 0x1234567u}, 2, 0);
    ls_balls u = eval(b, ls_random_uniform(s, key, LS_SHAPE(N), LS_F32));
    for (uint64_t i = 0; i < N; i++) {
        assert_true(u.mid[i] == (double)(ls_threefry(0x89abcdefu, 0x1234567u, i) >> 8) * 0x1p-24);
        assert_true(u.rad[i] < 0x1p-24);
    }
    static const ls_dtype dtypes[] = {LS_F16, LS_BF16, LS_F32, LS_F64};
    for (int k = 0; k < 4; k++) {
        ls_balls v = eval(b, ls_random_uniform(s, key, LS_SHAPE(N), dtypes[k])),
                 n = eval(b, ls_random_normal(s, key, LS_SHAPE(N), dtypes[k]));
        double mean = 0, normal = 0, square = 0, least = 1, most = 0;
        for (int i = 0; i < N; i++) {
            mean += v.mid[i] / N;
            least = fmin(least, v.mid[i]);
            most = fmax(most, v.mid[i]);
            normal += n.mid[i] / N;
            square += n.mid[i] * n.mid[i] / N;
        }
        assert_true(least >= 0 && most < 1 && most > 0.99 && fabs(mean - 0.5) < 0.02);
        assert_true(fabs(normal) < 0.06 && fabs(square - 1) < 0.08);
    }
    ls_balls a = eval(b, ls_random_split(s, key, 1)), c = eval(b, ls_random_split(s, key, 2));
    assert_true(a.exact[0] != c.exact[0] && a.exact[1] != c.exact[1]);
    double *x;
    ls_tensor *t = random_leaf(b, LS_SHAPE(N), 5, &x);
    ls_balls d = eval(b, ls_dropout(s, t, 0.25, key));
    int zeros = 0;
    for (int i = 0; i < N; i++) {
        bool dropped = u.mid[i] < 0.25;
        zeros += dropped;
        assert_true(dropped ? d.mid[i] == 0 : fabs(d.mid[i] - x[i] / 0.75) < 1e-14);
    }
    assert_true(zeros > N / 5 && zeros < N / 3);
    close_bench(b);
}

/* ---- attention, recurrence, losses ---- */

static void attention(void **state) {
    (void)state;
    OPEN;
    enum { BATCH = 2, H = 4, G = 2, QL = 3, KS = 5, DQ = 6, E = 2 };
    double *q, *k, *v;
    ls_tensor *tq = random_leaf(b, LS_SHAPE(BATCH, H, QL, DQ), 1, &q),
              *tk = random_leaf(b, LS_SHAPE(BATCH, G, KS, DQ), 1, &k);
    ls_tensor *tv = random_leaf(b, LS_SHAPE(BATCH, G, KS, E), 1, &v);
    uint8_t *seen = room(b, BATCH * QL * KS, 1);
    double *bias = room(b, QL * KS, sizeof *bias);
    for (int i = 0; i < BATCH * QL * KS; i++) {
        seen[i] = i / KS == 1 ? 0 : ls_rng_below(&b->rng, 3) > 0; /* row 1 of batch 0 sees nothing */
    }
    for (int i = 0; i < QL * KS; i++) {
        bias[i] = i % 4 ? ls_rng_unit(&b->rng) : -INFINITY;
    }
    ls_tensor *mask = leaf_of(b, LS_BOOL, LS_SHAPE(BATCH, 1, QL, KS), seen),
              *added = leaf_of(b, LS_F64, LS_SHAPE(QL, KS), bias);
    for (int form = 0; form < 5; form++) { /* plain, causal, mask, both, added */
        double want[BATCH * H * QL * E] = {0};
        for (int r = 0; r < BATCH * H * QL; r++) {
            int n = r / (H * QL), h = r / QL % H, i = r % QL, g = h / (H / G);
            double e[KS], total = 0;
            for (int j = 0; j < KS; j++) {
                double dot = 0;
                for (int d = 0; d < DQ; d++) {
                    dot += q[r * DQ + d] * k[((n * G + g) * KS + j) * DQ + d];
                }
                bool visible = (form != 1 && form != 3) || j <= i + KS - QL;
                visible = visible && ((form != 2 && form != 3) || seen[(n * QL + i) * KS + j]);
                e[j] = visible ? exp(dot / sqrt(DQ) + (form == 4 ? bias[i * KS + j] : 0)) : 0;
                total += e[j];
            }
            for (int j = 0; j < KS * E && total > 0; j++) {
                want[r * E + j % E] += e[j / E] / total * v[((n * G + g) * KS) * E + j];
            }
        }
        ls_attention_spec spec = {.causal = form == 1 || form == 3,
                                  .mask = form == 2 || form == 3 ? mask
                                          : form == 4            ? added
                                                                 : NULL};
        assert_values(b, ls_attention(s, tq, tk, tv, &spec), want, BATCH * H * QL * E, 1e-13);
    }
    close_bench(b);
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static void lstm(void **state) {
    (void)state;
    OPEN;
    enum { STEPS = 4, BATCH = 2, I = 3, H = 5 };
    double *x, *h0, *c0, *wx, *wh, *bias, h[BATCH * H], c[BATCH * H], want[STEPS * BATCH * H];
    ls_tensor *tx = random_leaf(b, LS_SHAPE(STEPS, BATCH, I), 1, &x),
              *th = random_leaf(b, LS_SHAPE(BATCH, H), 1, &h0);
    ls_tensor *tc = random_leaf(b, LS_SHAPE(BATCH, H), 1, &c0),
              *twx = random_leaf(b, LS_SHAPE(4 * H, I), 1, &wx);
    ls_tensor *twh = random_leaf(b, LS_SHAPE(4 * H, H), 1, &wh),
              *tb = random_leaf(b, LS_SHAPE(4 * H), 1, &bias), *out_h, *out_c;
    memcpy(h, h0, sizeof h);
    memcpy(c, c0, sizeof c);
    for (int t = 0; t < STEPS; t++) {
        double next[BATCH * H];
        for (int n = 0; n < BATCH * H; n++) {
            double gate[4];
            for (int k = 0; k < 4; k++) {
                int row = k * H + n % H;
                gate[k] = bias[row];
                for (int i = 0; i < I; i++) {
                    gate[k] += wx[row * I + i] * x[(t * BATCH + n / H) * I + i];
                }
                for (int i = 0; i < H; i++) {
                    gate[k] += wh[row * H + i] * h[n / H * H + i];
                }
            }
            c[n] = sigmoid(gate[1]) * c[n] + sigmoid(gate[0]) * tanh(gate[2]);
            next[n] = want[t * BATCH * H + n] = sigmoid(gate[3]) * tanh(c[n]);
        }
        memcpy(h, next, sizeof h);
    }
    assert_values(b, ls_lstm(s, tx, th, tc, twx, twh, tb, &out_h, &out_c), want, STEPS * BATCH * H, 1e-13);
    assert_values(b, out_h, h, BATCH * H, 1e-13);
    assert_values(b, out_c, c, BATCH * H, 1e-13);
    close_bench(b);
}

static void losses(void **state) {
    (void)state;
    OPEN;
    double *x, *y, loss = 0, square = 0;
    static const int32_t labels[] = {2, 0, 3};
    ls_tensor *tx = random_leaf(b, LS_SHAPE(3, 4), 4, &x), *ty = random_leaf(b, LS_SHAPE(3, 4), 4, &y);
    ls_tensor *tl = leaf_of(b, LS_I32, LS_SHAPE(3), labels);
    for (int n = 0; n < 3; n++) {
        double e = 0;
        for (int c = 0; c < 4; c++) {
            e += exp(x[n * 4 + c]);
            square += (x[n * 4 + c] - y[n * 4 + c]) * (x[n * 4 + c] - y[n * 4 + c]) / 12;
        }
        loss += (log(e) - x[n * 4 + labels[n]]) / 3;
    }
    assert_values(b, ls_cross_entropy(s, tx, tl), &loss, 1, 1e-13);
    assert_values(b, ls_mse(s, tx, ty), &square, 1, 1e-13);
    close_bench(b);
}

static void products(void **state) {
    (void)state;
    OPEN;
    double *x, *w, want[2 * 3 * 4 * 5];
    ls_tensor *tx = random_leaf(b, LS_SHAPE(4, 6), 0, &x), *tw = random_leaf(b, LS_SHAPE(2, 3, 6, 5), 0, &w);
    for (int i = 0; i < 2 * 3 * 4 * 5; i++) {
        want[i] = 0;
        for (int k = 0; k < 6; k++) {
            want[i] += x[i / 5 % 4 * 6 + k] * w[(i / 20 * 6 + k) * 5 + i % 5];
        }
    }
    assert_values(b, ls_matmul(s, tx, tw), want, 120, 0);
    assert_values(b, ls_matmul(s, ls_expand(s, tx, LS_SHAPE(3, 4, 6)), tw), want, 120, 0);
    ls_contract_spec outer = {0};
    ls_tensor *u = leaf_of(b, LS_F64, LS_SHAPE(2), (const double[]){2, -3}),
              *v = leaf_of(b, LS_F64, LS_SHAPE(3), (const double[]){1, 5, 7});
    assert_values(b, ls_contract(s, u, v, &outer, LS_F64), (double[]){2, 10, 14, -3, -15, -21}, 6, 0);
    assert_values(b, ls_matmul(s, v, v), (double[]){75}, 1, 0);
    close_bench(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_is_its_definition),
        cmocka_unit_test(transposed_convolution_is_the_adjoint),
        cmocka_unit_test(convolutions_are_one_contraction),
        cmocka_unit_test(every_layout_agrees),
        cmocka_unit_test(a_filter_is_read_by_its_axes),
        cmocka_unit_test(padding_meets_no_weight),
        cmocka_unit_test(im2col_and_back),
        cmocka_unit_test(activations),
        cmocka_unit_test(norms_and_softmax),
        cmocka_unit_test(sorted_and_taken),
        cmocka_unit_test(random_numbers),
        cmocka_unit_test(attention),
        cmocka_unit_test(lstm),
        cmocka_unit_test(losses),
        cmocka_unit_test(products),
    };
    return cmocka_run_group_tests_name("composites' values", tests, NULL, NULL);
}
