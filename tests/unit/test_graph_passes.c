/* Loops and rewriting: what is captured, what stays, and which simplifications are made and which must not
 * be. */
#include "graph_session.h"

#define OPEN                                                                                                 \
    fixture fix, *f = &fix;                                                                                  \
    fixture_open(f);                                                                                         \
    ls_session *s = session_of(f)
#define IN(...) input(f, LS_F32, LS_SHAPE(__VA_ARGS__))
#define C(x) ls_full(s, LS_F32, LS_SHAPE(2, 3), (x))

/* ---- loops ---- */

typedef struct outside {
    ls_tensor *w, *k;
} outside;

/* carry' = carry * exp(w) + padded(k) window sum + iteration; y = carry + xs */
static ls_status step(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                      ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    outside *o = ctx;
    ls_tensor *scaled = ls_mul(s, carry[0], ls_exp(s, o->w));
    ls_tensor *wide = ls_pad_absent(s, o->k, (ls_pad_spec[]){{1, 0, 0}});
    ls_tensor *gates = ls_mul(s, carry[0], ls_exp(s, ls_neg(s, o->w)));
    ls_contract_spec outer = {.n_contract = 1, .contract_a = {0}, .contract_b = {0}};
    ls_tensor *dot =
        ls_contract(s, ls_narrow(s, ls_concat(s, (ls_tensor *[]){carry[0], carry[0]}, 2, 0), 0, 0, 4), wide,
                    &outer, LS_F32);
    ls_tensor *t = ls_cast(s, iteration, LS_F32);
    out_carry[0] =
        ls_add(s, ls_add(s, scaled, gates), ls_add(s, dot, ls_add(s, t, ls_full(s, LS_F32, LS_SCALAR, 2))));
    out_ys[0] = ls_add(s, carry[0], xs[0]);
    return LS_OK;
}

static void loop_captures_what_is_outside(void **state) {
    (void)state;
    OPEN;
    ls_tensor *h = IN(3), *xs = IN(5, 3), *last, *ys;
    outside o = {IN(3), IN(3)};
    size_t before = alive(f);
    assert_int_equal(ls_loop(s, ls_dim_of(5), 1, &h, 1, &xs, 1, step, &o, &last, &ys), LS_OK);
    assert_tensor(f, last, "f32[3]");
    assert_tensor(f, ys, "f32[5,3]");
    ls_tensor *loop = last->src[0];
    assert_int_equal(loop->op, LS_OP_LOOP);
    assert_ptr_equal(ys->src[0], loop);
    ls_body *body = loop->attr.loop.body;
    assert_int_equal(body->refs, 1);
    /* exp(w) and exp(-w) are computed outside, once; k is captured below its padding, which stays absent
     * inside. */
    assert_int_equal(body->n_captures, 3);
    assert_int_equal(loop->n_src, 5);
    assert_ptr_equal(loop->src[0], h);
    assert_ptr_equal(loop->src[1], xs);
    int exps = 0, ks = 0;
    for (int i = 2; i < 5; i++) {
        exps += loop->src[i]->op == LS_OP_EXP;
        ks += loop->src[i] == o.k;
        assert_int_equal(body->params[i]->op, LS_OP_PARAM);
        assert_true(ls_shape_equal(&body->params[i]->shape, &loop->src[i]->shape));
    }
    assert_int_equal(exps, 2);
    assert_int_equal(ks, 1);
    ls_arena arena;
    ls_arena_init(&arena, &f->heap);
    int count, params = 0, pads = 0;
    ls_tensor **order = ls_graph_order(&arena, body->results, 2, &count);
    for (int i = 0; i < count; i++) {
        params += order[i]->op == LS_OP_PARAM;
        pads += order[i]->op == LS_OP_PAD && order[i]->absent;
        assert_true(order[i]->op != LS_OP_INPUT && order[i]->op != LS_OP_EXP);
    }
    assert_int_equal(params, 6); /* iteration, carry, x, three captures */
    assert_int_equal(pads, 1);
    ls_arena_free(&arena);
    assert_true(alive(f) > before);
    fixture_close(f);
}

static ls_status inner_step(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                            ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    outside *o = ctx; /* w is the outer loop's carried value */
    (void)iteration, (void)xs, (void)out_ys;
    out_carry[0] = ls_add(s, ls_mul(s, carry[0], ls_exp(s, o->w)), o->k);
    return LS_OK;
}

static ls_status outer_step(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                            ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    outside *o = ctx, in = {carry[0], o->k};
    (void)iteration, (void)out_ys;
    return ls_loop(s, ls_dim_of(4), 1, (ls_tensor *[]){xs[0]}, 0, NULL, 0, inner_step, &in, out_carry, NULL);
}

static void loops_nest(void **state) {
    (void)state;
    OPEN;
    outside o = {NULL, IN(3)};
    ls_tensor *h = IN(3), *xs = IN(5, 3), *last;
    assert_int_equal(ls_scope_begin(s), LS_OK);
    assert_int_equal(ls_loop(s, ls_dim_of(5), 1, &h, 1, &xs, 0, outer_step, &o, &last, NULL), LS_OK);
    ls_body *outer = last->src[0]->attr.loop.body;
    assert_int_equal(outer->n_captures, 1); /* k, which only the inner loop reads */
    ls_tensor *inner = outer->results[0]->src[0];
    assert_int_equal(inner->op, LS_OP_LOOP);
    assert_int_equal(inner->n_src, 3); /* the slice, exp(outer carry), k's parameter */
    assert_ptr_equal(inner->src[0], outer->params[1]);
    assert_ptr_equal(inner->src[2], outer->params[2]);
    assert_int_equal(inner->src[1]->op, LS_OP_EXP);
    assert_ptr_equal(inner->src[1]->src[0], outer->params[0]);
    ls_text text;
    ls_text_init(&text, &f->heap);
    ls_graph_print(&text, &last, 1);
    assert_non_null(strstr(text.data, "body of %"));
    assert_non_null(strstr(text.data, "trip=[4]"));
    ls_text_free(&text);
    assert_int_equal(ls_rewrite(s, &last, 1), LS_OK);
    ls_scope_end(s);
    assert_int_equal(alive(f), 3); /* h, xs, k: bodies are gone with their loops */
    fixture_close(f);
}

static ls_status passes_through(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                                ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)s, (void)iteration, (void)xs;
    out_carry[0] = ctx; /* an outside tensor, straight */
    out_ys[0] = carry[0];
    return LS_OK;
}

static void loop_results_may_be_outside(void **state) {
    (void)state;
    OPEN;
    ls_tensor *h = IN(3), *w = IN(3), *last, *ys;
    assert_int_equal(ls_loop(s, ls_dim_of(0), 1, &h, 0, NULL, 1, passes_through, w, &last, &ys), LS_OK);
    assert_tensor(f, ys, "f32[0,3]");
    ls_body *body = last->src[0]->attr.loop.body;
    assert_ptr_equal(body->results[0], body->params[1]);
    assert_ptr_equal(body->results[1], body->params[0]);
    fixture_close(f);
}

static void build_loop(fixture *f) {
    ls_session *s = session_of(f);
    ls_tensor *h = ls_input(s, "h", LS_F32, LS_SHAPE(3)), *xs = ls_input(s, "xs", LS_F32, LS_SHAPE(5, 3)),
              *last, *ys;
    outside o = {ls_input(s, "w", LS_F32, LS_SHAPE(3)), ls_input(s, "k", LS_F32, LS_SHAPE(3))};
    if (h && xs && o.w && o.k) {
        (void)ls_loop(s, ls_dim_of(5), 1, &h, 1, &xs, 1, step, &o, &last, &ys);
    }
}

static void build_nested(fixture *f) {
    ls_session *s = session_of(f);
    outside o = {NULL, ls_input(s, "k", LS_F32, LS_SHAPE(3))};
    ls_tensor *h = ls_input(s, "h", LS_F32, LS_SHAPE(3)), *xs = ls_input(s, "xs", LS_F32, LS_SHAPE(5, 3)),
              *last;
    if (h && xs && o.k) {
        (void)ls_loop(s, ls_dim_of(5), 1, &h, 1, &xs, 0, outer_step, &o, &last, NULL);
    }
}

static void loop_allocations_fail(void **state) {
    (void)state;
    fail_each_allocation(build_loop);
    fail_each_allocation(build_nested);
}

/* ---- rewriting ---- */

static ls_tensor *rewritten(fixture *f, ls_tensor *x) {
    assert_non_null(x);
    assert_int_equal(ls_rewrite(session_of(f), &x, 1), LS_OK);
    return x;
}

static void movement_composes(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = IN(2, 3, 4), *y;
    y = rewritten(f, ls_reshape(s, ls_reshape(s, x, LS_SHAPE(6, 4)), LS_SHAPE(24)));
    assert_ptr_equal(y, ls_reshape(s, x, LS_SHAPE(24)));
    assert_ptr_equal(rewritten(f, ls_reshape(s, ls_reshape(s, x, LS_SHAPE(24)), LS_SHAPE(2, 3, 4))), x);
    y = rewritten(f, ls_permute(s, ls_permute(s, x, (int[]){2, 0, 1}), (int[]){0, 2, 1}));
    assert_ptr_equal(y, ls_permute(s, x, (int[]){2, 1, 0}));
    assert_ptr_equal(rewritten(f, ls_permute(s, ls_permute(s, x, (int[]){2, 0, 1}), (int[]){1, 2, 0})), x);
    ls_tensor *one = IN(1, 1);
    assert_ptr_equal(rewritten(f, ls_expand(s, ls_expand(s, one, LS_SHAPE(2, 1)), LS_SHAPE(2, 5))),
                     ls_expand(s, one, LS_SHAPE(2, 5)));
    ls_tensor *line = IN(20);
    y = rewritten(
        f, ls_slice(s, ls_slice(s, line, (ls_slice_spec[]){{18, 1, -2}}), (ls_slice_spec[]){{1, 8, 3}}));
    assert_ptr_equal(y, ls_slice(s, line, (ls_slice_spec[]){{16, 3, -6}})); /* 16, 10, 4 */
    assert_ptr_equal(rewritten(f, ls_flip(s, ls_flip(s, line, 0), 0)), line);
    assert_ptr_equal(rewritten(f, ls_exp(s, ls_stop_gradient(s, line))), ls_exp(s, line));
    fixture_close(f);
}

static void constants_move(void **state) {
    (void)state;
    OPEN;
    ls_tensor *c = ls_full(s, LS_F32, LS_SCALAR, 3), *want = C(3), *z = ls_full(s, LS_F32, LS_SHAPE(2, 1), 3);
    assert_ptr_equal(rewritten(f, ls_expand(s, c, LS_SHAPE(2, 3))), want);
    assert_ptr_equal(rewritten(f, ls_pad(s, z, (ls_pad_spec[]){{0, 0, 0}, {1, 1, 0}}, 3)), want);
    assert_ptr_equal(rewritten(f, ls_concat(s, (ls_tensor *[]){z, z, z}, 3, 1)), want);
    assert_int_equal(rewritten(f, ls_pad(s, z, (ls_pad_spec[]){{0, 0, 0}, {1, 1, 0}}, 0))->op, LS_OP_PAD);
    assert_int_equal(
        rewritten(f, ls_pad_absent(s, ls_full(s, LS_F32, LS_SHAPE(2), 0), (ls_pad_spec[]){{1, 1, 0}}))->op,
        LS_OP_PAD);
    double value;
    assert_true(ls_is_const(ls_expand(s, c, LS_SHAPE(2, 3)), &value) && value == 3);
    assert_false(ls_is_const(ls_pad(s, z, (ls_pad_spec[]){{0, 0, 0}, {1, 1, 0}}, 3), NULL));
    assert_false(ls_is_const(IN(2), NULL));
    fixture_close(f);
}

static void identities_vanish(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = IN(2, 3), *i = input(f, LS_I8, LS_SHAPE(2, 3)), *i0 = ls_const_like(s, i, 0),
              *i1 = ls_const_like(s, i, 1);
    assert_ptr_equal(rewritten(f, ls_mul(s, x, C(1))), x);
    assert_ptr_equal(rewritten(f, ls_mul(s, C(1), x)), x);
    assert_ptr_equal(rewritten(f, ls_div(s, x, ls_full(s, LS_F32, LS_SCALAR, 1))), x);
    assert_ptr_equal(rewritten(f, ls_add(s, x, C(-0.0))), x);
    assert_ptr_equal(rewritten(f, ls_sub(s, x, C(0))), x);
    assert_ptr_equal(rewritten(f, ls_neg(s, ls_neg(s, x))), x);
    assert_ptr_equal(rewritten(f, ls_not(s, ls_not(s, i))), i);
    assert_ptr_equal(rewritten(f, ls_add(s, i0, i)), i);
    assert_ptr_equal(rewritten(f, ls_sub(s, i, i0)), i);
    assert_ptr_equal(rewritten(f, ls_mul(s, i, i1)), i);
    assert_ptr_equal(rewritten(f, ls_where(s, ls_full(s, LS_BOOL, LS_SCALAR, 1), x, C(5))), x);
    assert_ptr_equal(rewritten(f, ls_where(s, ls_full(s, LS_BOOL, LS_SCALAR, 0), C(5), x)), x);
    assert_ptr_equal(rewritten(f, ls_div(s, x, C(-8))), ls_mul(s, x, C(-0.125)));
    ls_tensor *h = input(f, LS_F16, LS_SHAPE(4));
    assert_ptr_equal(rewritten(f, ls_cast(s, ls_cast(s, h, LS_F32), LS_F16)), h);
    assert_ptr_equal(rewritten(f, ls_cast(s, ls_cast(s, h, LS_F32), LS_I8)), ls_cast(s, h, LS_I8));
    assert_ptr_equal(rewritten(f, ls_cast(s, ls_cast(s, i, LS_BF16), LS_I8)), i);
    fixture_close(f);
}

static ls_tensor *sloped(fixture *f, ls_tensor *x, double slope) {
    ls_session *s = session_of(f);
    return ls_where(s, ls_lt(s, x, ls_const_like(s, x, 0)), ls_mul(s, ls_const_like(s, x, slope), x), x);
}

static void slopes_become_maxima(void **state) {
    (void)state;
    OPEN;
    const ls_dtype dtypes[] = {LS_F16, LS_BF16, LS_F32, LS_F64};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        ls_tensor *x = input(f, dtypes[i], LS_SHAPE(2, 3));
        assert_ptr_equal(rewritten(f, sloped(f, x, 0.25)), ls_max(s, x, ls_mul(s, ls_const_like(s, x, 0.25), x)));
    }
    ls_tensor *x = IN(2, 3);
    assert_ptr_equal(rewritten(f, ls_leaky_relu(s, x, 0.01)), ls_max(s, x, ls_mul(s, x, C(0.01))));
    fixture_close(f);
}

static void constants_fold(void **state) {
    (void)state;
    OPEN;
#define F(dtype, value) ls_full(s, dtype, LS_SHAPE(2), (value))
    const struct {
        ls_tensor *x, *want;
    } cases[] = {
        {ls_add(s, F(LS_F32, 0.1), F(LS_F32, 0.2)), F(LS_F32, (double)(0.1f + 0.2f))},
        {ls_div(s, F(LS_F64, 1), F(LS_F64, 3)), F(LS_F64, 1.0 / 3)},
        {ls_mul(s, F(LS_F16, 300), F(LS_F16, 300)), F(LS_F16, 1e30)}, /* 90000 is infinity in f16 */
        {ls_sub(s, F(LS_BF16, 1), F(LS_BF16, 0x1p-8)), F(LS_BF16, 0.99609375)},
        {ls_div(s, F(LS_F32, 0), F(LS_F32, 0)), F(LS_F32, 0.0 / 0.0)},
        {ls_neg(s, F(LS_F32, 0)), F(LS_F32, -0.0)},
        {ls_sqrt(s, F(LS_F32, 2)), F(LS_F32, 1.41421353816986083984375)},
        {ls_mul(s, F(LS_F32, 0x1p-100), F(LS_F32, 0x1p-49)), F(LS_F32, 0x1p-149)}, /* subnormals are kept */
        {ls_add(s, F(LS_U8, 200), F(LS_U8, 100)), F(LS_U8, 44)},
        {ls_neg(s, F(LS_I8, -128)), F(LS_I8, -128)},
        {ls_cast(s, F(LS_I32, 300), LS_U8), F(LS_U8, 44)},
        {ls_cast(s, F(LS_F32, 300), LS_U8), F(LS_U8, 255)},
        {ls_cast(s, F(LS_I8, -1), LS_F16), F(LS_F16, -1)},
        {ls_cast(s, F(LS_F64, 0.1), LS_BF16), F(LS_BF16, 0.1)},
        {ls_cast(s, F(LS_I32, 256), LS_BOOL), F(LS_BOOL, 1)},
        {ls_add(s, ls_expand(s, ls_full(s, LS_F32, LS_SCALAR, 1), LS_SHAPE(2)), F(LS_F32, 1)), F(LS_F32, 2)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_ptr_equal(rewritten(f, cases[i].x), cases[i].want);
    }
    ls_tensor *big = ls_cast(s, ls_full_i64(s, LS_I64, LS_SHAPE(2), -1), LS_U64); /* 2^64 - 1 */
    big = rewritten(f, big);
    assert_int_equal(big->attr.value, UINT64_MAX);
    ls_tensor *stay[] = {ls_cast(s, big, LS_F32), ls_exp(s, F(LS_F32, 1)),
                         ls_lt(s, F(LS_F32, 1), F(LS_F32, 2)), ls_div(s, F(LS_I32, 7), F(LS_I32, 0)),
                         ls_bitcast(s, F(LS_F32, 1), LS_I32)};
    for (size_t i = 0; i < sizeof stay / sizeof *stay; i++) {
        assert_ptr_equal(rewritten(f, stay[i]), stay[i]);
    }
    fixture_close(f);
}

/* Each of these would change a bit of some input. */
static void what_changes_bits_stays(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = IN(2, 3), *h = input(f, LS_BF16, LS_SHAPE(2, 3)), *u = input(f, LS_U16, LS_SHAPE(2, 3));
    ls_tensor *i = input(f, LS_I32, LS_SHAPE(2, 3));
    ls_tensor *stay[] = {
        ls_add(s, x, C(0)),                         /* -0 + 0 = +0 */
        ls_sub(s, x, C(-0.0)),                      /* the same */
        ls_mul(s, x, C(0)),                         /* infinities, NaN, signs */
        ls_sub(s, x, x),                            /* infinities, NaN */
        ls_div(s, x, C(3)),                         /* 1/3 is not exact */
        ls_div(s, x, C(0x1p-149)),                  /* 1/c overflows */
        ls_div(s, x, C(0)),                         /* NaN */
        ls_div(s, i, ls_const_like(s, i, 8)),       /* towards zero */
        ls_cast(s, ls_cast(s, x, LS_F16), LS_F32),  /* rounds */
        ls_cast(s, ls_cast(s, h, LS_F16), LS_BF16), /* overflows */
        ls_cast(s, ls_cast(s, u, LS_F16), LS_U16),  /* 11 bits of 16 */
        ls_cast(s, ls_cast(s, u, LS_I16), LS_U16),  /* wraps: equal, but not on the list */
        ls_neg(s, ls_abs(s, x)),
        sloped(f, x, 0),                            /* 0 * -infinity */
        sloped(f, x, 1.5),                          /* above x where that is positive */
        sloped(f, x, -0.5),
    };
    for (size_t k = 0; k < sizeof stay / sizeof *stay; k++) {
        assert_ptr_equal(rewritten(f, stay[k]), stay[k]);
    }
    /* A MAP makes absent elements +0; without it a maximum would skip them. */
    ls_tensor *p = ls_pad_absent(s, x, (ls_pad_spec[]){{0, 0, 0}, {1, 0, 0}}), *one = ls_const_like(s, p, 1);
    ls_tensor *m = ls_amax(s, ls_mul(s, p, one), 1, (int[]){1}, 0);
    assert_ptr_equal(rewritten(f, m), m);
    ls_tensor *n = ls_neg(s, ls_neg(s, p));
    assert_ptr_equal(rewritten(f, n), n);
    fixture_close(f);
}

/* In fast arithmetic a batch norm divides its scale once, not each element; in locked, and by rows, it does not. */
static void a_scale_is_divided_once(void **state) {
    (void)state;
    for (int fast = 0; fast < 2; fast++) {
        OPEN;
        f->session.graph.math = fast ? LS_FAST : LS_LOCKED;
        ls_tensor *x = IN(2, 3, 4, 5), *c[4] = {IN(3), IN(3), IN(3), IN(3)};
        ls_tensor *y = ls_batch_norm(s, x, c[0], c[1], c[2], c[3], 0.5);
        assert_int_equal(ls_rewrite(s, &y, 1), LS_OK);
        const ls_tensor *scaled = y->src[0]; /* + beta */
        assert_int_equal(scaled->op, LS_OP_MUL);
        assert_int_equal(scaled->src[0]->op, fast ? LS_OP_SUB : LS_OP_DIV);
        if (fast) {
            const ls_tensor *once = scaled->src[1]->src[0];
            assert_int_equal(once->op, LS_OP_DIV);
            assert_tensor(f, once, "f32[1,3,1,1]");
            assert_ptr_equal(once->src[0]->src[0], c[2]);
        }
        ls_tensor *z = ls_layer_norm(s, x, -1, IN(5), NULL, 0.5); /* a root a row, a scale a column */
        assert_int_equal(ls_rewrite(s, &z, 1), LS_OK);
        assert_int_equal(z->src[0]->op, LS_OP_DIV);
        fixture_close(f);
    }
}

static void rewriting_reaches_inside_and_keeps_kinds(void **state) {
    (void)state;
    OPEN;
    ls_tensor *x = IN(2, 3);
    s->graph.math = LS_FAST;
    ls_tensor *fast = ls_exp(s, ls_mul(s, ls_reshape(s, ls_reshape(s, x, LS_SHAPE(6)), LS_SHAPE(3, 2)),
                                       ls_full(s, LS_F32, LS_SCALAR, 1)));
    ls_tensor *want = ls_exp(s, ls_reshape(s, x, LS_SHAPE(3, 2)));
    s->graph.math = LS_LOCKED;
    assert_ptr_equal(rewritten(f, fast), want);
    ls_tensor *roots[] = {ls_mul(s, x, C(1)), x, ls_neg(s, ls_neg(s, x))};
    assert_int_equal(ls_rewrite(s, roots, 3), LS_OK);
    assert_ptr_equal(roots[0], x);
    assert_ptr_equal(roots[1], x);
    assert_ptr_equal(roots[2], x);
    assert_null(x->mark);
    fixture_close(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loop_captures_what_is_outside),
        cmocka_unit_test(loops_nest),
        cmocka_unit_test(loop_results_may_be_outside),
        cmocka_unit_test(loop_allocations_fail),
        cmocka_unit_test(movement_composes),
        cmocka_unit_test(constants_move),
        cmocka_unit_test(identities_vanish),
        cmocka_unit_test(slopes_become_maxima), cmocka_unit_test(constants_fold),
        cmocka_unit_test(what_changes_bits_stays),
        cmocka_unit_test(a_scale_is_divided_once),
        cmocka_unit_test(rewriting_reaches_inside_and_keeps_kinds),
    };
    return cmocka_run_group_tests_name("graph passes", tests, NULL, NULL);
}
