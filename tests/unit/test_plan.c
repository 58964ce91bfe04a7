/* Fusion boundaries: what shares a kernel and what does not, and that every plan is in order and complete. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "unit/spec_support.h"

static ls_tensor *input(bench *b, const char *name, ls_shape shape) {
    return ls_input(b->s, name, LS_F32, shape);
}

/* Every read is a leaf or stored by an earlier group; every root that is no leaf is stored once; every
 * kernel's spec verifies. */
static void check_plan(bench *b, const ls_plan *plan, ls_tensor *const *roots, int n_roots) {
    for (int i = 0; i < plan->n_groups; i++) {
        const ls_group *g = &plan->groups[i];
        for (int r = 0; r < g->n_reads; r++) {
            bool found = ls_plan_is_leaf(g->reads[r]);
            for (int j = 0; j < i && !found; j++) {
                for (int k = 0; k < plan->groups[j].n_roots; k++) {
                    found |= plan->groups[j].roots[k] == g->reads[r];
                }
            }
            assert_true(found);
        }
        if (g->kind != LS_GROUP_LOOP && g->kind != LS_GROUP_COPY) {
            ls_spec spec;
            bench_spec(b, g, &spec);
        }
    }
    for (int r = 0; r < n_roots; r++) {
        int stored = 0;
        for (int i = 0; i < plan->n_groups; i++) {
            for (int k = 0; k < plan->groups[i].n_roots; k++) {
                stored += plan->groups[i].roots[k] == roots[r];
            }
        }
        assert_int_equal(stored, ls_plan_is_leaf(roots[r]) ? 0 : 1);
    }
}

/* The kinds of the groups of a plan, as letters: pointwise, reduce, contract, scan (n), sort (o), scatter
 * (t), loop, copy (y). */
static void expect(bench *b, ls_tensor *const *roots, int n_roots, int fusion, const char *kinds) {
    static const char letters[] = "prcnotly";
    char got[64] = {0};
    ls_plan plan;
    bench_plan(b, roots, n_roots, fusion, &plan);
    assert_true(plan.n_groups < 64);
    for (int i = 0; i < plan.n_groups; i++) {
        got[i] = letters[plan.groups[i].kind];
    }
    assert_string_equal(got, kinds);
    check_plan(b, &plan, roots, n_roots);
}

static void expect_one(bench *b, ls_tensor *root, const char *fused, const char *unfused) {
    expect(b, &root, 1, 1, fused);
    expect(b, &root, 1, 0, unfused);
}

static void maps_and_movement_share_a_kernel(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_tensor *x = input(&b, "x", LS_SHAPE(4, 8)), *y = input(&b, "y", LS_SHAPE(8));
    expect_one(&b, x, "", "");
    expect_one(&b, ls_transpose(b.s, x, 0, 1), "p", "p");
    expect_one(&b, ls_exp(b.s, ls_add(b.s, x, y)), "p", "pp");
    expect_one(&b, ls_full(b.s, LS_F32, LS_SHAPE(3), 2), "p", "p");
    expect_one(
        &b,
        ls_add(b.s, x, ls_mul(b.s, ls_iota(b.s, LS_F32, LS_SHAPE(8), 0), ls_full(b.s, LS_F32, LS_SCALAR, 3))),
        "p", "pp");
    bench_close(&b);
}

static void rows_share_a_kernel(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_tensor *x = input(&b, "x", LS_SHAPE(4, 8)), *tall = input(&b, "tall", LS_SHAPE(2, 100000));
    expect_one(&b, ls_softmax(b.s, x, 1), "r", "rpprp");
    expect_one(&b, ls_layer_norm(b.s, x, 1, NULL, NULL, 1e-5), "r", "rppprpppp");
    expect_one(&b, ls_softmax(b.s, x, 0), "rprp", "rpprp"); /* its rows are not the innermost axis */
    ls_tensor *wide = ls_softmax(b.s, tall, 1);             /* rows too long to read twice */
    expect(&b, &wide, 1, 1, "rprp");
    bench_close(&b);
}

/* Channels that are normalised in groups, by way of a reshape, in the space of what reads them. */
static void split_axes_share_a_kernel(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_tensor *x = input(&b, "x", LS_SHAPE(2, 8, 4, 4)), *scale = input(&b, "scale", LS_SHAPE(8)), *y = ls_group_norm(b.s, ls_neg(b.s, x), 2, scale, NULL, 1e-5);
    ls_tensor *roots[] = {y, ls_add(b.s, ls_silu(b.s, y), x), ls_group_norm(b.s, x, 8, scale, NULL, 1e-5)};
    for (int i = 0; i < 3; i++) {
        expect(&b, &roots[i], 1, 1, "r");
    }
    ls_tensor *deep = ls_neg(b.s, ls_group_norm(b.s, input(&b, "deep", LS_SHAPE(3, 8, 1, 1, 1, 1, 5)), 4, NULL, NULL, 1e-5));
    expect(&b, &deep, 1, 1, "r");
    ls_tensor *apart = ls_permute(b.s, y, (int[]){0, 2, 3, 1}); /* channels are not together there */
    expect(&b, &apart, 1, 1, "rrp");
    bench_close(&b);
}

static void contractions_take_what_follows(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_tensor *x = input(&b, "x", LS_SHAPE(16, 8)), *w = input(&b, "w", LS_SHAPE(8, 8)),
              *bias = input(&b, "bias", LS_SHAPE(8));
    ls_tensor *h = ls_relu(b.s, ls_add(b.s, ls_matmul(b.s, x, w), bias));
    expect_one(&b, h, "c", "cpp");
    expect_one(&b, ls_matmul(b.s, h, w), "cc", "cppc"); /* relu ends the first, not begins the second */
    expect_one(&b, ls_matmul(b.s, ls_exp(b.s, x), w), "pc", "pc");
    expect_one(&b, ls_matmul(b.s, ls_neg(b.s, x), w), "c", "pc");
    expect_one(&b, ls_add(b.s, ls_matmul(b.s, x, w), ls_matmul(b.s, h, w)), "cc", "cppcp");
    expect_one(&b, ls_softmax(b.s, ls_matmul(b.s, x, w), 1), "cr", "crpprp");
    expect_one(
        &b, ls_permute(b.s, ls_reshape(b.s, ls_matmul(b.s, x, w), LS_SHAPE(4, 4, 2, 4)), (int[]){0, 2, 1, 3}),
        "c", "cp");
    ls_pad_spec pads[] = {{1, 1, 0}, {0, 0, 0}};
    expect_one(&b, ls_neg(b.s, ls_pad(b.s, ls_matmul(b.s, x, w), pads, 0)), "cp", "cp");
    bench_close(&b);
}

static void what_is_read_often_is_computed_once(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_tensor *x = input(&b, "x", LS_SHAPE(4, 32)), *row = input(&b, "row", LS_SHAPE(32));
    ls_window_spec window = {5, 1, 1};
    int axis = 1, last = 2;
    expect_one(&b, ls_add(b.s, x, ls_exp(b.s, row)), "pp", "pp"); /* exp once a column, not once a row */
    expect_one(&b, ls_add(b.s, x, ls_neg(b.s, row)), "p", "pp");
    expect_one(&b, ls_sum(b.s, ls_window(b.s, ls_exp(b.s, x), 1, &axis, &window), 1, &last, 0), "pr", "pr");
    ls_tensor *e = ls_exp(b.s, x), *two[] = {ls_neg(b.s, e), ls_sum(b.s, e, 1, &axis, 0)};
    expect(&b, two, 2, 1, "pr"); /* neg's kernel stores exp for the sum */
    ls_tensor *swapped[] = {two[1], two[0]};
    expect(&b, swapped, 2, 1, "pr"); /* and comes first wherever it stands */
    bench_close(&b);
}

static void a_group_stores_what_others_read(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_plan plan;
    ls_tensor *x = input(&b, "x", LS_SHAPE(16, 8)), *w = input(&b, "w", LS_SHAPE(8, 8)),
              *g = input(&b, "g", LS_SHAPE(16, 8));
    ls_tensor *pre = ls_matmul(b.s, x, w), *post = ls_relu(b.s, pre);
    ls_tensor *mask = ls_transpose(b.s, ls_where(b.s, ls_lt(b.s, g, pre), g, pre), 0, 1);
    ls_tensor *outputs[] = {ls_sum(b.s, ls_matmul(b.s, post, w), 0, NULL, 0),
                            ls_sum(b.s, ls_exp(b.s, mask), 0, NULL, 0)};
    bench_plan(&b, outputs, 2, 1, &plan);
    check_plan(&b, &plan, outputs, 2);
    assert_int_equal(plan.groups[0].kind, LS_GROUP_CONTRACT);
    assert_int_equal(plan.groups[0].n_roots, 2);
    assert_ptr_equal(plan.groups[0].roots[0], post);
    assert_ptr_equal(plan.groups[0].roots[1], pre);
    /* a residual: the last sum needs the norm in between, so the norm's kernel stores h, never the sum's */
    ls_tensor *h = ls_add(b.s, x, g), *norm = ls_layer_norm(b.s, h, 1, NULL, NULL, 1e-5),
              *sum = ls_add(b.s, h, ls_matmul(b.s, norm, w));
    bench_plan(&b, &sum, 1, 1, &plan);
    check_plan(&b, &plan, &sum, 1);
    assert_int_equal(plan.n_groups, 2);
    assert_int_equal(plan.groups[0].n_roots, 2);
    assert_ptr_equal(plan.groups[0].roots[1], h);
    /* the product needs the sum, which a gather reads from below movement: it cannot store the sum's operand */
    ls_tensor *row = input(&b, "row", LS_SHAPE(47)), *e = ls_exp(b.s, row), *total = ls_sum(b.s, e, 1, (const int[]){0}, 1);
    ls_tensor *index = ls_input(b.s, "index", LS_I32, LS_SHAPE(1)), *product = ls_mul(b.s, e, ls_exp(b.s, ls_gather(b.s, total, index, 0)));
    bench_plan(&b, &product, 1, 1, &plan);
    check_plan(&b, &plan, &product, 1);
    bench_close(&b);
}

/* relu read by a pooling, its argmax and a mask: each computes it from what is stored once, before it. */
static void cheap_maps_are_computed_again(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_plan plan;
    int axis = 1;
    ls_tensor *x = input(&b, "x", LS_SHAPE(16, 8)), *w = input(&b, "w", LS_SHAPE(8, 8));
    ls_tensor *pre = ls_matmul(b.s, x, w), *post = ls_relu(b.s, pre);
    ls_tensor *outputs[] = {ls_amax(b.s, post, 1, &axis, 0), ls_argmax(b.s, post, 1, &axis, 0),
                            ls_sum(b.s, ls_mul(b.s, pre, x), 1, &axis, 0)};
    bench_plan(&b, outputs, 3, 1, &plan);
    check_plan(&b, &plan, outputs, 3);
    assert_int_equal(plan.n_groups, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(plan.groups[i].n_roots, 1);
        assert_ptr_equal(i ? plan.groups[i].reads[0] : plan.groups[i].roots[0], pre);
    }
    /* exp is not cheap: it is stored */
    ls_tensor *e = ls_exp(b.s, pre);
    outputs[0] = ls_amax(b.s, e, 1, &axis, 0);
    outputs[1] = ls_argmax(b.s, e, 1, &axis, 0);
    bench_plan(&b, outputs, 3, 1, &plan);
    check_plan(&b, &plan, outputs, 3);
    assert_int_equal(plan.groups[0].n_roots, 2);
    assert_ptr_equal(plan.groups[0].roots[0], e);
    bench_close(&b);
}

static void absent_elements_are_never_stored_on_the_way(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_plan plan;
    ls_tensor *x = input(&b, "x", LS_SHAPE(4, 8)), *index = ls_input(b.s, "i", LS_I64, LS_SHAPE(3));
    ls_pad_spec pads[] = {{1, 1, 0}, {0, 0, 0}};
    ls_tensor *padded = ls_pad_absent(b.s, x, pads), *turned = ls_transpose(b.s, padded, 0, 1);
    int axis = 1;
    /* padded is an output, gathered from, and reduced: the reduction still reads x */
    ls_tensor *outputs[] = {padded, ls_gather(b.s, padded, index, 0), ls_amax(b.s, turned, 1, &axis, 0)};
    bench_plan(&b, outputs, 3, 1, &plan);
    check_plan(&b, &plan, outputs, 3);
    assert_int_equal(plan.n_groups, 3);
    for (int i = 0; i < 3; i++) {
        const ls_group *g = &plan.groups[i];
        assert_ptr_equal(g->reads[0], g->roots[0] == outputs[1] ? padded : x);
    }
    ls_buffer *some = (ls_buffer *)(void *)&b;
    assert_true(ls_plan_has_absent(turned));
    assert_false(ls_plan_is_leaf(turned));
    turned->value = some; /* as after it was read once: its value has +0 where elements are absent */
    assert_false(ls_plan_is_leaf(turned));
    outputs[1]->value = some;
    assert_true(ls_plan_is_leaf(outputs[1]));
    turned->value = outputs[1]->value = NULL;
    bench_close(&b);
}

static void heavy_operations_are_groups_of_their_own(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_tensor *x = input(&b, "x", LS_SHAPE(4, 8)), *u = input(&b, "u", LS_SHAPE(3, 8)),
              *index = ls_input(b.s, "i", LS_I64, LS_SHAPE(3));
    ls_tensor *key = ls_input(b.s, "key", LS_U32, LS_SHAPE(2));
    expect_one(&b, ls_neg(b.s, ls_scan(b.s, ls_exp(b.s, x), LS_SCAN_SUM, 1, 0, 0)), "np", "pnp");
    expect_one(&b, ls_argsort(b.s, ls_neg(b.s, x), 1, 0), "po", "po");
    expect_one(&b, ls_scatter(b.s, ls_neg(b.s, x), index, ls_exp(b.s, u), 0, LS_SCATTER_ADD), "t", "ppt");
    expect_one(&b, ls_exp(b.s, ls_gather(b.s, x, index, 0)), "p", "pp");
    expect_one(&b, ls_gather(b.s, ls_transpose(b.s, ls_exp(b.s, x), 0, 1), index, 0), "pp", "pp");
    expect_one(&b, ls_random_uniform(b.s, key, LS_SHAPE(4, 8), LS_F32), "p", "pppp");
    bench_close(&b);
}

static ls_status add_one(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                         ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)ctx, (void)iteration;
    out_carry[0] = ls_add(s, carry[0], xs[0]);
    out_ys[0] = ls_neg(s, carry[0]);
    return LS_OK;
}

static void loops_store_their_results(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_tensor *x = input(&b, "x", LS_SHAPE(5, 8)), *start = ls_exp(b.s, input(&b, "start", LS_SHAPE(8))),
              *carry, *ys;
    assert_int_equal(ls_loop(b.s, ls_dim_of(5), 1, &start, 1, &x, 1, add_one, NULL, &carry, &ys), LS_OK);
    ls_plan plan;
    ls_tensor *root = ls_neg(b.s, ys);
    bench_plan(&b, &root, 1, 1, &plan);
    check_plan(&b, &plan, &root, 1);
    assert_int_equal(plan.n_groups, 3);
    const ls_group *loop = &plan.groups[1];
    assert_int_equal(loop->kind, LS_GROUP_LOOP);
    assert_int_equal(loop->n_roots, 2);
    assert_null(loop->roots[0]);
    assert_ptr_equal(loop->roots[1], ys);
    assert_int_equal(loop->n_reads, 2);
    assert_ptr_equal(loop->reads[0], start);
    assert_ptr_equal(loop->reads[1], x);
    bench_close(&b);
}

/* Movement that reads itself twice, thirty times over: two to the thirtieth ways to the leaf, were none
 * materialised. */
static void doubling_stays_small(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_plan plan;
    ls_tensor *x = input(&b, "x", LS_SHAPE(4, 2));
    for (int i = 0; i < 30; i++) {
        ls_tensor *both[] = {ls_flip(b.s, x, 1), x};
        x = ls_narrow(b.s, ls_concat(b.s, both, 2, 0), 0, 2, 4);
    }
    bench_plan(&b, &x, 1, 1, &plan);
    check_plan(&b, &plan, &x, 1);
    assert_in_range(plan.n_groups, 2, 30);
    bench_close(&b);
}

static void long_chains_are_cut(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_plan plan;
    ls_tensor *x = input(&b, "x", LS_SHAPE(4));
    for (int i = 0; i < 5000; i++) {
        x = i % 2 ? ls_neg(b.s, x) : ls_add(b.s, x, x);
    }
    bench_plan(&b, &x, 1, 1, &plan);
    check_plan(&b, &plan, &x, 1);
    assert_in_range(plan.n_groups, 20, 60);
    bench_close(&b);
}

static void long_movement_is_cut(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_plan plan;
    ls_tensor *x = input(&b, "x", LS_SHAPE(4, 4)),
              *c = ls_expand(b.s, ls_full(b.s, LS_F32, LS_SHAPE(1, 1), 2), LS_SHAPE(4, 4));
    for (int i = 0; i < 20000; i++) {
        x = i % 2 ? ls_flip(b.s, x, 0) : ls_transpose(b.s, x, 0, 1);
        c = i % 2 ? ls_flip(b.s, c, 0) : ls_transpose(b.s, c, 0, 1);
    }
    ls_tensor *sum = ls_add(b.s, x, c);
    bench_plan(&b, &sum, 1, 1, &plan);
    check_plan(&b, &plan, &sum, 1);
    assert_in_range(plan.n_groups, 300, 2 * 20000 / 60);
    bench_close(&b);
}

/* The same graph gives the same plan, to the letter; and every failed allocation is reported without a
 * leak. */
static void plans_are_deterministic_and_survive_failures(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_tensor *x = input(&b, "x", LS_SHAPE(2, 3, 8, 8)), *w = input(&b, "w", LS_SHAPE(4, 3, 3, 3));
    ls_tensor *y =
        ls_softmax(b.s,
                   ls_max_pool(b.s, ls_relu(b.s, ls_conv(b.s, x, w, NULL, &(ls_conv_spec){.spatial = 2})),
                               (int64_t[]){2, 2}, &(ls_conv_spec){.spatial = 2, .stride = {2, 2}}),
                   3);
    ls_text texts[2];
    for (int i = 0; i < 2; i++) {
        ls_plan plan;
        ls_text_init(&texts[i], &b.heap);
        bench_plan(&b, &y, 1, 1, &plan);
        ls_plan_print(&texts[i], &plan);
    }
    assert_string_equal(texts[0].data, texts[1].data);
    ls_text_free(&texts[0]);
    ls_text_free(&texts[1]);
    long failures = 0;
    for (long n = 0;; n++) {
        ls_arena arena;
        ls_plan plan;
        ls_error err = {0};
        ls_arena_init(&arena, &b.heap);
        b.heap.fail_after = n;
        ls_status status = ls_plan_build(&arena, &y, 1, 1, &plan, &err);
        for (int i = 0; status == LS_OK && i < plan.n_groups; i++) {
            ls_spec spec;
            status = ls_spec_build(&arena, &plan.groups[i], &spec, &err);
        }
        b.heap.fail_after = -1;
        ls_arena_free(&arena);
        for (const ls_tensor *t = y; t->n_src; t = t->src[0]) {
            assert_null(t->mark);
        }
        if (status == LS_OK) {
            break;
        }
        assert_int_equal(status, LS_ERR_MEMORY);
        failures++;
    }
    assert_true(failures > 0);
    bench_close(&b);
}

/* Channels first in memory when that is how it is read; a map that follows has its own order. */
static void convolutions_are_stored_as_they_are_read(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_plan plan;
    ls_tensor *x = input(&b, "x", LS_SHAPE(1, 3, 8, 8)), *w = input(&b, "w", LS_SHAPE(3, 3, 3, 3));
    ls_conv_spec spec = {.spatial = 2, .pad_low = {1, 1}, .pad_high = {1, 1}};
    ls_tensor *inner = ls_conv(b.s, x, w, NULL, &spec), *y = ls_conv(b.s, inner, w, NULL, &spec), *relu = ls_conv(b.s, ls_relu(b.s, inner), w, NULL, &spec);
    for (int permuted = 0; permuted < 2; permuted++) {
        bench_plan(&b, &y, 1, LS_PLAN_FUSION | (permuted ? LS_PLAN_PERMUTED : 0), &plan);
        assert_int_equal(plan.n_groups, 2);
        assert_int_equal(plan.groups[0].kind, LS_GROUP_CONTRACT);
        assert_int_equal(plan.groups[0].roots[0]->op, permuted ? LS_OP_PERMUTE : LS_OP_CONTRACT);
        check_plan(&b, &plan, &y, 1);
        bench_plan(&b, &relu, 1, LS_PLAN_FUSION | (permuted ? LS_PLAN_PERMUTED : 0), &plan);
        assert_int_equal(plan.n_groups, 2);
        assert_int_equal(ls_ops[plan.groups[0].roots[0]->op].op_class, LS_CLASS_MAP);
    }
    bench_close(&b);
}

/* Where convolutions are stored as they are read, bias and activation are theirs, not a pooling's that follows. */
static void poolings_read_what_convolutions_finish(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_plan plan;
    ls_tensor *x = input(&b, "x", LS_SHAPE(2, 3, 8, 8)), *w = input(&b, "w", LS_SHAPE(4, 3, 3, 3)), *bias = input(&b, "b", LS_SHAPE(4));
    ls_conv_spec spec = {.spatial = 2, .pad_low = {1, 1}, .pad_high = {1, 1}}, by_two = {.spatial = 2, .stride = {2, 2}};
    ls_tensor *y = ls_max_pool(b.s, ls_relu(b.s, ls_conv(b.s, x, w, bias, &spec)), (int64_t[]){2, 2}, &by_two);
    for (int permuted = 0; permuted < 2; permuted++) {
        bench_plan(&b, &y, 1, LS_PLAN_FUSION | (permuted ? LS_PLAN_PERMUTED : 0), &plan);
        assert_int_equal(plan.n_groups, 2);
        assert_int_equal(plan.groups[0].kind, LS_GROUP_CONTRACT);
        assert_int_equal(plan.groups[0].roots[0]->op, permuted ? LS_OP_MAX : LS_OP_CONTRACT);
        assert_int_equal(plan.groups[1].kind, LS_GROUP_REDUCE);
        check_plan(&b, &plan, &y, 1);
    }
    bench_close(&b);
}

/* Convolutions that read each other's halves, shuffled, would read tensors joined of joined ones. */
static void shuffled_channels_are_stored(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_plan plan;
    ls_tensor *x = input(&b, "x", LS_SHAPE(1, 8, 6, 6)), *w = input(&b, "w", LS_SHAPE(4, 4, 1, 1));
    for (int i = 0; i < 3; i++) {
        ls_tensor *half = ls_narrow(b.s, x, 1, 4, 4),
                  *both[] = {ls_narrow(b.s, x, 1, 0, 4), ls_relu(b.s, ls_conv(b.s, half, w, NULL, &(ls_conv_spec){.spatial = 2}))};
        ls_tensor *joined = ls_reshape(b.s, ls_concat(b.s, both, 2, 1), LS_SHAPE(1, 2, 4, 6, 6));
        x = ls_reshape(b.s, ls_transpose(b.s, joined, 1, 2), LS_SHAPE(1, 8, 6, 6));
    }
    for (int permuted = 0; permuted < 2; permuted++) {
        bench_plan(&b, &x, 1, LS_PLAN_FUSION | (permuted ? LS_PLAN_PERMUTED : 0), &plan);
        assert_int_equal(plan.n_groups, permuted ? 6 : 4); /* the last is wanted */
        int stored = 0;
        for (int i = 0; i < plan.n_groups; i++) {
            stored += plan.groups[i].kind == LS_GROUP_POINTWISE;
            if (permuted && plan.groups[i].kind == LS_GROUP_CONTRACT) { /* the copy after it does nothing else */
                assert_int_equal(plan.groups[i].roots[0]->op, LS_OP_MAX);
            }
        }
        assert_int_equal(stored, permuted ? 3 : 1);
        check_plan(&b, &plan, &x, 1);
    }
    bench_close(&b);
}

/* However many maps follow a convolution whose result is joined, none of the planner's calls stands for each of them. */
static void long_ends_do_not_recurse(void **state) {
    enum { LONG = 400000 };
    (void)state;
    bench b;
    bench_open(&b);
    ls_plan plan;
    ls_tensor *x = input(&b, "x", LS_SHAPE(1, 4, 6, 6)), *w = input(&b, "w", LS_SHAPE(4, 4, 1, 1));
    ls_tensor *both[] = {x, ls_conv(b.s, x, w, NULL, &(ls_conv_spec){.spatial = 2})};
    for (int i = 0; i < LONG; i++) {
        both[1] = (i % 2 ? ls_neg : ls_exp)(b.s, both[1]);
    }
    ls_tensor *joined = ls_reshape(b.s, ls_concat(b.s, both, 2, 1), LS_SHAPE(1, 2, 4, 6, 6)), *y = ls_transpose(b.s, joined, 1, 2);
    bench_plan(&b, &y, 1, LS_PLAN_FUSION | LS_PLAN_PERMUTED, &plan);
    assert_true(plan.n_groups > 1);
    bench_close(&b);
}

/* Each product of a depthwise convolution reads one of the joined tensors; one of all channels reads both. */
static void joined_channels_of_groups_are_stored(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_plan plan;
    ls_tensor *both[] = {input(&b, "x", LS_SHAPE(1, 4, 8)), input(&b, "y", LS_SHAPE(1, 4, 8))}, *joined = ls_concat(b.s, both, 2, 1);
    for (int grouped = 0; grouped < 2; grouped++) {
        ls_tensor *w = input(&b, "w", LS_SHAPE(8, grouped ? 1 : 8, 5));
        ls_tensor *y = ls_conv(b.s, joined, w, NULL, &(ls_conv_spec){.spatial = 1, .pad_low = {2}, .pad_high = {2}, .groups = grouped ? 8 : 1});
        for (int permuted = 0; permuted < 2; permuted++) {
            bench_plan(&b, &y, 1, LS_PLAN_FUSION | (permuted ? LS_PLAN_PERMUTED : 0), &plan);
            assert_int_equal(plan.n_groups, grouped && permuted ? 2 : 1);
            check_plan(&b, &plan, &y, 1);
        }
    }
    bench_close(&b);
}

/* The heads of a detector: each is turned once, not by every reader of them all. */
static void joined_parts_are_turned_before(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_plan plan;
    ls_tensor *heads[2];
    for (int i = 0; i < 2; i++) {
        ls_tensor *x = input(&b, i ? "small" : "large", LS_SHAPE(1, 6, i ? 2 : 4, 4));
        heads[i] = ls_reshape(b.s, ls_permute(b.s, x, (int[]){0, 2, 3, 1}), LS_SHAPE(i ? 24 : 48, 2));
    }
    ls_tensor *scores = ls_softmax(b.s, ls_concat(b.s, heads, 2, 0), 1);
    for (int permuted = 0; permuted < 2; permuted++) {
        bench_plan(&b, &scores, 1, LS_PLAN_FUSION | (permuted ? LS_PLAN_PERMUTED : 0), &plan);
        assert_int_equal(plan.n_groups, permuted ? 3 : 1);
        assert_int_equal(plan.groups[plan.n_groups - 1].kind, LS_GROUP_REDUCE);
        check_plan(&b, &plan, &scores, 1);
    }
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_and_movement_share_a_kernel),
        cmocka_unit_test(rows_share_a_kernel), cmocka_unit_test(split_axes_share_a_kernel),
        cmocka_unit_test(contractions_take_what_follows),
        cmocka_unit_test(what_is_read_often_is_computed_once),
        cmocka_unit_test(a_group_stores_what_others_read),
        cmocka_unit_test(cheap_maps_are_computed_again),
        cmocka_unit_test(absent_elements_are_never_stored_on_the_way),
        cmocka_unit_test(heavy_operations_are_groups_of_their_own),
        cmocka_unit_test(loops_store_their_results),
        cmocka_unit_test(doubling_stays_small),
        cmocka_unit_test(long_chains_are_cut),
        cmocka_unit_test(long_movement_is_cut),
        cmocka_unit_test(convolutions_are_stored_as_they_are_read),
        cmocka_unit_test(poolings_read_what_convolutions_finish),
        cmocka_unit_test(shuffled_channels_are_stored),
        cmocka_unit_test(long_ends_do_not_recurse),
        cmocka_unit_test(joined_channels_of_groups_are_stored),
        cmocka_unit_test(joined_parts_are_turned_before),
        cmocka_unit_test(plans_are_deterministic_and_survive_failures),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
