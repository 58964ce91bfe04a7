/* Contractions by strategy, forced and chosen, against ref: sizes around tiles and chunks, layouts, symbols,
 * what is fused before and after, absent elements beside infinities. LOCKSTEP_PRINT=1 prints the kernels that
 * differ. */
#include "test_emit.h"

static float value_at(int64_t i) {
    return (float)(i * 7919 % 1009 - 500) / 64;
}

static ls_tensor *data_of(ls_session *s, ls_dtype dtype, ls_shape shape) {
    int64_t n = 1;
    for (int i = 0; i < shape.rank; i++) {
        n *= shape.dim[i].offset;
    }
    float *x = malloc(sizeof(float) * (size_t)(n + 1));
    for (int64_t i = 0; i < n; i++) {
        x[i] = value_at(i + 17 * n);
    }
    ls_tensor *t = ls_tensor_from(s, LS_F32, shape, x);
    free(x);
    return ls_cast(s, t, dtype);
}

static void realize(world *w, ls_tensor *t) {
    ls_data *data = NULL;
    if (!t || ls_data_from_tensor(w->session, t, &data) != LS_OK) {
        fail_msg("%s", ls_session_error(w->session)->message);
    }
    ls_data_release(data);
}

/* Runs a graph with each strategy, forced where it applies, and by choice, and on devices with less shared
 * memory and fewer threads. */
typedef ls_tensor *(*builder)(ls_session *s, int n);
static const char *const strategies[] = {"tiled", "gemv", NULL};
static const ls_emit_caps devices[] = {{0}, {.max_threads = 64}, {.max_shared = 9000, .max_groups = 3}};
static void all_ways(builder build, int n, bool must_tile) {
    for (int i = 0; i < 3; i++) {
        for (int d = 0; d < (i == 0 && n % 3 == 0 ? 3 : 1); d++) {
            long forced = total.forced;
            world w = open_checked();
            ls_tensor *t = build(w.session, n); /* and what it needs, before the check counts */
            total.strategy = strategies[i];
            total.caps = devices[d];
            realize(&w, t);
            if (i == 0 && d == 0 && must_tile) {
                assert_true(total.forced > forced);
            }
            total.strategy = NULL;
            total.caps = devices[0];
            world_close(&w);
        }
    }
}

/* ---- products ---- */

static const int64_t sizes[][3] = {{1, 1, 1},      {64, 64, 16},  {63, 65, 17},  {128, 128, 8},
                                   {129, 127, 9},  {16, 16, 511}, {8, 16, 512},  {9, 8, 513},
                                   {12, 16, 1025}, {32, 33, 31},  {5, 300, 40},  {300, 5, 40},
                                   {0, 4, 4},      {4, 4, 0},     {97, 101, 13}, {64, 8, 1536}};
static ls_tensor *product(ls_session *s, int n) {
    const int64_t *z = sizes[n % 16];
    ls_dtype dtype = n / 16 == 0   ? LS_F32
                     : n / 16 == 1 ? LS_F16
                     : n / 16 == 2 ? LS_BF16
                     : n / 16 == 3 ? LS_F64
                                   : LS_I8;
    return ls_matmul(s, data_of(s, dtype, LS_SHAPE(z[0], z[2])), data_of(s, dtype, LS_SHAPE(z[2], z[1])));
}
static ls_tensor *transposed(ls_session *s, int n) {
    const int64_t *z = sizes[n % 16];
    ls_tensor *a = data_of(s, LS_F32, n & 16 ? LS_SHAPE(z[2], z[0]) : LS_SHAPE(z[0], z[2]));
    ls_tensor *b = data_of(s, LS_F32, n & 32 ? LS_SHAPE(z[1], z[2]) : LS_SHAPE(z[2], z[1]));
    a = n & 16 ? ls_transpose(s, a, 0, 1) : a;
    b = n & 32 ? ls_transpose(s, b, 0, 1) : b;
    ls_tensor *y = ls_matmul(s, a, b);
    return n & 64 ? ls_neg(s, ls_transpose(s, y, 0, 1)) : y;
}
static void products(void **state) {
    (void)state;
    for (int n = 0; n < 16 * 5; n += n < 16 ? 1 : 3) {
        all_ways(product, n, sizes[n % 16][0] * sizes[n % 16][1] * sizes[n % 16][2] > 0);
    }
    for (int n = 17; n < 128; n += 6) {
        all_ways(transposed, n, false);
    }
}

static ls_tensor *integers(ls_session *s, ls_dtype dtype, ls_shape shape) {
    ls_tensor *x = data_of(s, LS_F32, shape);
    return ls_cast(s, ls_rint(s, ls_mul(s, x, ls_full(s, LS_F32, LS_SHAPE(1), 0.5))), dtype);
}
/* A few rows times columns side by side: one chunk and several, whole tiles and not, with what is fused around. */
static const int64_t few[][3] = {{1, 64, 1536}, {3, 36, 2048}, {8, 132, 640}, {2, 20, 16}, {1, 1024, 512}};
static ls_tensor *vector(ls_session *s, int n, ls_tensor *(*data)(ls_session *, ls_dtype, ls_shape)) {
    const int64_t *z = few[n % 5];
    const ls_dtype dtypes[] = {LS_F32, LS_F16, LS_I8};
    ls_dtype dtype = dtypes[n / 5 % 3];
    ls_tensor *a = data(s, dtype, LS_SHAPE(z[0], z[2])), *b = data(s, dtype, LS_SHAPE(z[2], z[1]));
    if (n % 2) {
        a = ls_transpose(s, data(s, dtype, LS_SHAPE(z[2], z[0])), 0, 1);
        b = ls_abs(s, b);
    }
    if (n >= 30) { /* columns along the contracted line */
        b = ls_transpose(s, data(s, dtype, LS_SHAPE(z[1], z[2])), 0, 1);
        return n % 2 ? ls_relu(s, ls_matmul(s, a, b)) : ls_matmul(s, a, b);
    }
    ls_tensor *y = n % 3 ? ls_matmul(s, a, b) : ls_matmul(s, ls_transpose(s, b, 0, 1), ls_transpose(s, a, 0, 1));
    return n % 2 ? ls_neg(s, y) : y;
}
static void vectors(void **state) {
    (void)state;
    int along = 0;
    for (int n = 0; n < 60; n++) {
        for (int fast = 0; fast < 2; fast++) { /* of whole numbers any order gives the same */
            world w = open_checked();
            ls_session_set_math(w.session, fast ? LS_FAST : LS_LOCKED);
            ls_tensor *t = vector(w.session, n, fast ? integers : data_of);
            total.strategy = "gemv";
            total.caps.subgroup = n % 3 ? 32 : 0;
            total.cover = 0;
            realize(&w, t);
            assert_true(n % 2 == 0 || n >= 30 || total.cover >> LS_COVER_VECTOR & 1);
            along += total.cover >> LS_COVER_VECTOR_ALONG & 1;
            total.strategy = NULL;
            total.caps = devices[0];
            world_close(&w);
        }
    }
    assert_int_equal(along, 6);
}

/* ---- what is fused, and how operands are laid out ---- */

static ls_tensor *fused(ls_session *s, int n) {
    ls_tensor *a = data_of(s, LS_F32, LS_SHAPE(3, 20, 24)), *b = data_of(s, LS_F32, LS_SHAPE(3, 24, 36)), *i;
    const int32_t picks[20] = {1, 0, 2, 3, 5, 7, 11, 13, 17, 19, 18, 16, 15, 14, 12, 10, 9, 8, 6, 4};
    ls_slice_spec back[3] = {{0, 3, 1}, {19, -1, -2}, {23, -1, -1}};
    switch (n) {
    case 0: /* before */
        a = ls_exp(s, ls_mul(s, a, data_of(s, LS_F32, LS_SHAPE(24))));
        return ls_matmul(s, a, ls_relu(s, b));
    case 1: /* behind */
        a = ls_matmul(s, a, b);
        a = ls_add(s, a, data_of(s, LS_F32, LS_SHAPE(36)));
        return ls_mul(s, ls_relu(s, a), data_of(s, LS_F32, LS_SHAPE(3, 20, 36)));
    case 2: /* one batch for all */
        return ls_matmul(s, a, ls_narrow(s, b, 0, 1, 1));
    case 3:
        return ls_matmul(s, ls_slice(s, a, back), b);
    case 4: /* a gather */
        i = ls_tensor_from(s, LS_I32, LS_SHAPE(20), picks);
        return ls_matmul(s, ls_gather(s, a, i, 1), b);
    case 5: /* a sum of halves, stored beside its activation */
        a = ls_cast(s, ls_matmul(s, ls_cast(s, a, LS_F16), ls_cast(s, b, LS_F16)), LS_F32);
        return ls_add(s, a, ls_sigmoid(s, a));
    case 6: /* concatenated operands */
        a = ls_concat(s, (ls_tensor *[]){a, ls_neg(s, a)}, 2, 2);
        return ls_matmul(s, a, ls_concat(s, (ls_tensor *[]){b, b}, 2, 1));
    case 7: /* several contracted axes, in another order */
        return ls_contract(s, a, b,
                           &(ls_contract_spec){.n_contract = 2, .contract_a = {2, 0}, .contract_b = {1, 0}},
                           LS_F32);
    default: /* the outer product */
        return ls_contract(s, a, b, &(ls_contract_spec){.n_batch = 1, .batch_a = {0}, .batch_b = {0}},
                           LS_F32);
    }
}
static void fusions(void **state) {
    (void)state;
    for (int n = 0; n < 9; n++) {
        all_ways(fused, n, true);
    }
}

/* ---- convolutions, their gradients, and infinite weights beside padding ---- */

static ls_tensor *convolution(ls_session *s, int n) {
    ls_conv_spec spec = {.spatial = 2,
                         .stride = {1 + n % 2, 1},
                         .dilation = {1, 1 + n / 2 % 2},
                         .pad_low = {1, 1},
                         .pad_high = {1, 2}};
    spec.groups = n == 3 ? 2 : 1;
    if (n >= 4) { /* channels last */
        spec.axes = (ls_conv_axes){1, 0, 3, {1, 2}, 0, 3, {1, 2}, 0, 3, {1, 2}};
    }
    int64_t in = n == 3 ? 2 : 4;
    ls_tensor *x = data_of(s, LS_F32, n >= 4 ? LS_SHAPE(2, 7, 9, 4) : LS_SHAPE(2, 4, 7, 9));
    ls_tensor *w = data_of(s, LS_F32, n >= 4 ? LS_SHAPE(12, 3, 3, in) : LS_SHAPE(12, in, 3, 3));
    if (n % 2) {
        w = ls_div(s, w, ls_full(s, LS_F32, LS_SHAPE(1), 0)); /* infinite, and NaN */
    }
    ls_tensor *y = ls_relu(s, ls_conv(s, x, w, n == 1 ? data_of(s, LS_F32, LS_SHAPE(12)) : NULL, &spec));
    if (n == 2 || n == 4 || n == 3) {
        ls_tensor *grads[2];
        if (ls_grad(s, y, NULL, 2, (ls_tensor *[]){x, w}, grads) != LS_OK) {
            return NULL;
        }
        return ls_add(s, ls_sum(s, grads[0], 0, NULL, 0),
                      ls_sum(s, ls_mul(s, grads[1], grads[1]), 0, NULL, 0));
    }
    return y;
}
static ls_tensor *deconvolution(ls_session *s, int n) {
    ls_conv_spec spec = {
        .spatial = 2, .stride = {2, 1 + n}, .pad_low = {1, 0}, .pad_high = {1, 1}, .output_padding = {1, 0}};
    return ls_conv_transpose(s, data_of(s, LS_F32, LS_SHAPE(2, 6, 5, 4)),
                             data_of(s, LS_F32, LS_SHAPE(6, 9, 3, 3)), NULL, &spec);
}
static void convolutions(void **state) {
    (void)state;
    for (int n = 0; n < 6; n++) {
        all_ways(convolution, n, true);
    }
    all_ways(deconvolution, 0, true);
    all_ways(deconvolution, 1, true);
}

/* ---- symbols, at values from 0 to the bound ---- */

static void symbols(void **state) {
    (void)state;
    enum { SMALL = 70, LARGE = 1100 };
    static const int64_t values[] = {0, 1, 2, 31, 64, 69, SMALL, 511, 512, 513, 1024, 1025, LARGE};
    static float x[LARGE * 24 * 3], y[SMALL * SMALL * 3];
    for (int i = 0; i < LARGE * 24 * 3; i++) {
        x[i] = value_at(i);
    }
    for (int way = 0; way < 6; way++) {
        int64_t bound = way < 3 ? SMALL : LARGE;
        world w = open_checked();
        ls_session *s = w.session;
        ls_error err = {.code = LS_OK};
        ls_symbol *n = ls_symbol_create(w.context, "N", bound, &err);
        assert_non_null(n);
        ls_shape shape = {.rank = 3, .dim = {ls_dim_of(3), ls_dim_symbol(n, 1, 0), ls_dim_of(24)}};
        ls_tensor *in = ls_input(s, "x", LS_F32, shape), *back = ls_transpose(s, in, 1, 2);
        ls_tensor *outs[] = {
            ls_matmul(s, in, back), ls_matmul(s, back, in),
            ls_matmul(s, in, data_of(s, LS_F32, LS_SHAPE(24, 20))),
            ls_contract(s, in, in,
                        &(ls_contract_spec){.n_contract = 2, .contract_a = {1, 0}, .contract_b = {1, 0}},
                        LS_F32)};
        for (size_t i = way < 3 ? 0 : 1; i < sizeof outs / sizeof *outs; i += way < 3 ? 1 : 2) {
            ls_program *program;
            world_ok(&w, outs[i] ? LS_OK : ls_session_error(s)->code);
            world_ok(&w, ls_program_compile(s, &in, 1, &outs[i], 1, &program));
            total.strategy = strategies[way % 3];
            for (size_t v = 0; v < sizeof values / sizeof *values && values[v] <= bound; v++) {
                world_ok(&w, ls_symbol_bind(s, n, values[v]));
                world_ok(&w, ls_program_run(program, (const void *[]){x}, (void *[]){y}));
            }
            total.strategy = NULL;
            ls_program_destroy(program);
        }
        world_close(&w);
    }
}

/* ---- fast and reduced arithmetic, on integers whose sums are exact in any order ---- */

static ls_tensor *exact(ls_session *s, int n) {
    const int64_t *z = sizes[n % 16];
    if (n % 48 == 3) { /* so many that tiles are large */
        return ls_matmul(s, integers(s, LS_F16, LS_SHAPE(100, 17, 40)),
                         integers(s, LS_F16, LS_SHAPE(100, 40, 12)));
    }
    static const ls_dtype dtypes[] = {LS_F16, LS_BF16, LS_F32};
    ls_dtype dtype = dtypes[n / 16 % 3];
    int turns = n % 4;
    ls_tensor *a = integers(s, dtype, turns & 1 ? LS_SHAPE(z[2], z[0]) : LS_SHAPE(z[0], z[2]));
    ls_tensor *b = integers(s, dtype, turns & 2 ? LS_SHAPE(z[1], z[2]) : LS_SHAPE(z[2], z[1]));
    a = turns & 1 ? ls_transpose(s, a, 0, 1) : a;
    b = turns & 2 ? ls_transpose(s, b, 0, 1) : b;
    return ls_relu(s, ls_matmul(s, a, b));
}
/* With channels last, so that operands move as words: a product with absent elements, or the gradient of the filter. */
static ls_tensor *channels_last(ls_session *s, bool gradient) {
    ls_conv_spec spec = {.spatial = 2, .stride = {2, 1}, .pad_low = {1, 1}, .pad_high = {1, 1}, .groups = 2};
    ls_tensor *x = ls_permute(s, integers(s, LS_F16, LS_SHAPE(2, 6, 5, 64)), (int[]){0, 3, 1, 2}), *gw = NULL;
    ls_tensor *w = integers(s, LS_F16, LS_SHAPE(64, 3, 3, 32));
    ls_tensor *y = ls_conv(s, x, ls_permute(s, w, (int[]){0, 3, 1, 2}), NULL, &spec);
    ls_tensor *g = ls_permute(s, integers(s, LS_F16, LS_SHAPE(2, 3, 5, 64)), (int[]){0, 3, 1, 2});
    return !gradient ? y : ls_grad(s, y, g, 1, &w, &gw) == LS_OK ? gw : NULL;
}
static ls_tensor *exact_convolution(ls_session *s, int n) {
    ls_conv_spec spec = {.spatial = 2, .pad_low = {1, 1}, .pad_high = {1, 2}};
    if (n > 1) {
        return channels_last(s, n == 3);
    }
    ls_tensor *x = integers(s, LS_F16, LS_SHAPE(2, 16, 7, 9)),
              *w = integers(s, LS_F16, LS_SHAPE(36, 16, 3, 3));
    if (n == 1) { /* some infinite, some NaN */
        w = ls_div(s, w, ls_cast(s, ls_iota(s, LS_I32, LS_SHAPE(36, 1, 1, 1), 0), LS_F16));
        w = ls_where(
            s, ls_lt(s, ls_iota(s, LS_I32, LS_SHAPE(36, 1, 1, 1), 0), ls_full_i64(s, LS_I32, LS_SHAPE(1), 1)),
            w, integers(s, LS_F16, LS_SHAPE(36, 16, 3, 3)));
    }
    return ls_conv(s, x, w, NULL, &spec);
}

static void in_any_order(void **state) {
    (void)state;
    static const char *const names[] = {"matrix", "tiled", "gemv", NULL};
    static const int subgroups[] = {32, 16, 64};
    long forced[4] = {0};
    for (int n = 0; n < 48 + 4; n += n < 16 || n >= 48 ? 1 : 2) {
        for (int i = 0; i < 4; i++) {
            world w = open_checked();
            ls_session_set_math(w.session, n / 16 % 3 == 2 ? LS_REDUCED : LS_FAST);
            ls_tensor *t = n < 48 ? exact(w.session, n) : exact_convolution(w.session, n - 48);
            long before_it = total.forced;
            total.strategy = names[i];
            total.caps = (ls_emit_caps){.subgroup = subgroups[n % 3],
                                        .n_frags = 2,
                                        .frags = {{LS_F16, 16, 16, 16}, {LS_BF16, 16, 16, 16}},
                                        .frag_words = n % 2};
            realize(&w, t);
            forced[i] += total.forced - before_it;
            total.strategy = NULL;
            total.caps = devices[0];
            world_close(&w);
        }
    }
    assert_true(forced[0] >= 25 && forced[1] >= 25 && forced[2] > 8);
}

/* ---- reasons ---- */

static ls_emit_strategy listed[LS_EMIT_STRATEGIES];
static ls_status list_after(const ls_check_event *event, void *state, ls_error *err) {
    snapshot *s = state;
    LS_TRY(err, ls_emit_strategies(&s->arena, event->spec, NULL, listed, err));
    for (int i = 0; i < LS_EMIT_STRATEGIES;
         i++) { /* what is listed as available is, and the rest is refused for that reason */
        ls_kernel_list list;
        ls_error own = {.code = LS_OK};
        ls_status status = ls_emit(&s->arena, event->spec, NULL, listed[i].name, &list, &own);
        assert_int_equal(status, listed[i].reason ? LS_ERR_UNSUPPORTED : LS_OK);
        assert_true(!listed[i].reason || strstr(own.message, listed[i].reason));
        listed[i].reason = listed[i].reason ? "no" : NULL; /* the text is the arena's */
    }
    ls_kernel_list list;
    ls_error own = {.code = LS_OK};
    assert_int_equal(ls_emit(&s->arena, event->spec, NULL, "quantum", &list, &own), LS_ERR_UNSUPPORTED);
    drop(event, state);
    return LS_OK;
}

static void reasons(void **state) {
    (void)state;
    static const ls_check_hooks listing = {before, list_after, drop};
    world w = world_open("ref");
    ls_session *s = w.session;
    ls_tensor *x = data_of(s, LS_F32, LS_SHAPE(12, 12)), *sum = ls_sum(s, x, 0, NULL, 0),
              *y = ls_matmul(s, x, x);
    ls_engine_set_check(w.context, LS_CHECK_BITS, &listing);
    realize(&w, y);
    assert_true(!listed[0].reason && !listed[1].reason);
    realize(&w, sum);
    assert_true(!listed[0].reason && listed[1].reason && listed[2].reason && listed[3].reason);
    world_close(&w);
}

int main(void) {
    cmocka_set_test_filter(getenv("LOCKSTEP_TEST"));
    const struct CMUnitTest tests[] = {cmocka_unit_test(products),     cmocka_unit_test(vectors),      cmocka_unit_test(fusions),
                                       cmocka_unit_test(convolutions), cmocka_unit_test(symbols),
                                       cmocka_unit_test(reasons),      cmocka_unit_test(in_any_order)};
    int failed = cmocka_run_group_tests_name("emit_tiled", tests, NULL, NULL);
    printf("specs: %ld (%ld as forced) as %ld kernels of %ld instructions\n", total.specs, total.forced,
           total.kernels, total.instructions);
    return failed;
}
