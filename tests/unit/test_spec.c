/* Specs as a whole: that equal kernels are equal and different ones are not, copies, the verifier against
 * damaged specs, shared values and axes, and the variance of every permutation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "spec/build.h"
#include "unit/spec_support.h"

static void one_spec(bench *b, ls_tensor *root, ls_spec *out_spec) {
    ls_plan plan;
    bench_plan(b, &root, 1, 1, &plan);
    assert_int_equal(plan.n_groups, 1);
    bench_spec(b, &plan.groups[0], out_spec);
}

static ls_tensor *conv_of(bench *b, const char *name, int64_t pad) {
    ls_tensor *x = ls_input(b->s, name, LS_F32, LS_SHAPE(2, 3, 8, 8)),
              *w = ls_input(b->s, "w", LS_F32, LS_SHAPE(4, 3, 3, 3));
    return ls_relu(b->s,
                   ls_conv(b->s, x, w, NULL,
                           &(ls_conv_spec){.spatial = 2, .pad_low = {pad, pad}, .pad_high = {pad, pad}}));
}

static void equal_kernels_are_equal(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_spec one, two, other, copy;
    one_spec(&b, conv_of(&b, "x", 1), &one);
    one_spec(&b, conv_of(&b, "y", 1), &two); /* other nodes, the same kernel */
    one_spec(&b, conv_of(&b, "y", 2), &other);
    assert_int_not_equal(one.stores[0].origin, two.stores[0].origin);
    assert_true(one.hash == two.hash && ls_spec_equal(&one, &two));
    assert_false(ls_spec_equal(&one, &other));
    ls_arena arena;
    ls_arena_init(&arena, &b.heap);
    assert_int_equal(ls_spec_copy(&arena, &one, &copy, &b.err), LS_OK);
    assert_true(ls_spec_equal(&one, &copy) && copy.values != one.values && copy.ix != one.ix &&
                copy.stores != one.stores);
    assert_int_equal(ls_spec_verify(&copy, &b.err), LS_OK);
    copy.values[copy.n_values - 1].map = LS_OP_MIN;
    assert_false(ls_spec_equal(&one, &copy));
    ls_arena_free(&arena);
    bench_close(&b);
}

static void math_and_dtype_make_other_kernels(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_spec one, fast, half;
    one_spec(&b, ls_neg(b.s, ls_input(b.s, "x", LS_F32, LS_SHAPE(4))), &one);
    one_spec(&b, ls_neg(b.s, ls_input(b.s, "x", LS_F16, LS_SHAPE(4))), &half);
    b.graph.math = LS_FAST;
    one_spec(&b, ls_neg(b.s, ls_input(b.s, "x", LS_F32, LS_SHAPE(4))), &fast);
    assert_int_equal(fast.math, LS_FAST);
    assert_false(ls_spec_equal(&one, &fast) || ls_spec_equal(&one, &half));
    bench_close(&b);
}

/* Every damage to a copy of a good spec is found. */
typedef void (*damage)(ls_spec *spec);
static ls_value *find(ls_spec *spec, ls_value_op op) {
    for (int i = 0; i < spec->n_values; i++) {
        if (spec->values[i].op == op) {
            return &spec->values[i];
        }
    }
    fail_msg("no such value");
    return NULL;
}
static void drop_predicate(ls_spec *spec) {
    find(spec, LS_V_LOAD)->n_preds--;
}
static void wrong_pred(ls_spec *spec) {
    spec->ix[spec->preds[0].limit].k++, spec->ix[spec->preds[0].limit].hi++;
}
static void forward_operand(ls_spec *spec) {
    find(spec, LS_V_CONTRACT)->a = spec->n_values - 1;
}
static void wrong_dtype(ls_spec *spec) {
    find(spec, LS_V_MAP)->dtype = LS_F16;
}
static void wrong_arg(ls_spec *spec) {
    find(spec, LS_V_LOAD)->arg = 99;
}
static void small_arg(ls_spec *spec) {
    spec->args[0].numel--;
}
static void small_result(ls_spec *spec) {
    spec->args[spec->n_args - 1].numel--;
}
static void read_only_result(ls_spec *spec) {
    spec->args[spec->n_args - 1].written = false;
}
static void bound_twice(ls_spec *spec) {
    find(spec, LS_V_CONTRACT)->bound[1] = find(spec, LS_V_CONTRACT)->bound[0];
}
static void unbound(ls_spec *spec) {
    find(spec, LS_V_CONTRACT)->n_bound--;
}
static void store_misses_axis(ls_spec *spec) {
    spec->stores[0].n_axes--;
}
static void absent_in_map(ls_spec *spec) {
    find(spec, LS_V_MAP)->a = (int32_t)(find(spec, LS_V_GUARD) - spec->values);
}
static void no_such_map(ls_spec *spec) {
    find(spec, LS_V_MAP)->map = LS_OP_SUM;
}
static void wrong_arity(ls_spec *spec) {
    find(spec, LS_V_MAP)->b = LS_SPEC_NONE;
}
static void ix_forward(ls_spec *spec) {
    spec->ix[spec->n_ix - 1].a = spec->n_ix - 1;
}
static void wrong_axes(ls_spec *spec) {
    find(spec, LS_V_CONTRACT)->axes = 0;
}

static void the_verifier_finds_damage(void **state) {
    (void)state;
    static const struct {
        const char *name;
        damage fn;
    } damages[] = {
        {"drop_predicate", drop_predicate},
        {"wrong_pred", wrong_pred},
        {"forward_operand", forward_operand},
        {"wrong_dtype", wrong_dtype},
        {"wrong_arg", wrong_arg},
        {"small_arg", small_arg},
        {"small_result", small_result},
        {"read_only_result", read_only_result},
        {"bound_twice", bound_twice},
        {"unbound", unbound},
        {"store_misses_axis", store_misses_axis},
        {"absent_in_map", absent_in_map},
        {"no_such_map", no_such_map},
        {"wrong_arity", wrong_arity},
        {"ix_forward", ix_forward},
        {"wrong_axes", wrong_axes},
    };
    bench b;
    bench_open(&b);
    ls_spec good;
    one_spec(&b, conv_of(&b, "x", 1), &good);
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        ls_spec bad;
        ls_error err = {0};
        assert_int_equal(ls_spec_copy(&b.arena, &good, &bad, &err), LS_OK);
        damages[i].fn(&bad);
        if (ls_spec_verify(&bad, &err) != LS_ERR_INTERNAL || !strstr(err.message, good.name)) {
            fail_msg("%s was not found: '%s'", damages[i].name, err.message);
        }
    }
    bench_close(&b);
}

/* What intervals cannot prove is evaluated: 2*(i mod 3) + 3*(i mod 2) fits, and one element more does not. */
static void indices_are_evaluated_where_not_proved(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_spec spec;
    ls_error err = {0};
    ls_tensor *x = ls_input(b.s, "x", LS_F32, LS_SHAPE(8, 6));
    one_spec(&b, ls_neg(b.s, x), &spec);
    spec.values[0].ix = spec.stores[0].ix;
    int n = spec.n_ix;
    ls_ix *ix =
        LS_ARENA_ARRAY(&b.arena, ls_ix, n + 4); /* (8-row index div 2) * -12 + old index: needs correlation */
    memcpy(ix, spec.ix, sizeof *ix * (size_t)n);
    int32_t two = n, half = n + 1, minus = n + 2;
    ix[two] = (ls_ix){.op = LS_IX_CONST, .k = 6, .lo = 6, .hi = 6};
    ix[half] = (ls_ix){.op = LS_IX_MOD, .a = spec.stores[0].ix, .b = two, .lo = 0, .hi = 5, .axes = 3};
    ix[minus] = (ls_ix){.op = LS_IX_ADD, .a = spec.stores[0].ix, .b = half, .lo = 0, .hi = 52, .axes = 3};
    spec.ix = ix;
    spec.n_ix = n + 3;
    spec.values[0].ix = minus; /* at most 47 + 5 = 52, and it is reached: out of range */
    assert_int_equal(ls_spec_verify(&spec, &err), LS_ERR_INTERNAL);
    assert_non_null(strstr(err.message, "expected 0 to 47"));
    ls_error_clear(&err);
    spec.args[0].numel = 53;
    assert_int_equal(ls_spec_verify(&spec, &err), LS_OK);
    spec.args[0].numel = 48;
    ix[half + 1] = (ls_ix){.op = LS_IX_CONST, .k = -1, .lo = -1, .hi = -1};
    ix[n + 3] = (ls_ix){.op = LS_IX_MUL, .a = half, .b = half + 1, .lo = -5, .hi = 0, .axes = 3};
    ls_ix difference = {.op = LS_IX_ADD, .a = spec.stores[0].ix, .b = n + 3, .lo = -5, .hi = 47, .axes = 3};
    ls_ix *more = LS_ARENA_ARRAY(&b.arena, ls_ix, n + 5);
    memcpy(more, ix, sizeof *ix * (size_t)(n + 4));
    more[n + 4] = difference; /* k - k mod 6 is never below 0, which intervals do not see */
    spec.ix = more;
    spec.n_ix = n + 5;
    spec.values[0].ix = n + 4;
    assert_int_equal(ls_spec_verify(&spec, &err), LS_OK);
    bench_close(&b);
}

static void swap(int *a, int *b) {
    int t = *a;
    *a = *b;
    *b = t;
}

static bool next_permutation(int *p, int n) {
    int i = n - 2, j = n - 1;
    while (i >= 0 && p[i] > p[i + 1]) {
        i--;
    }
    if (i < 0) {
        return false;
    }
    while (p[j] < p[i]) {
        j--;
    }
    swap(&p[i], &p[j]);
    for (int a = i + 1, c = n - 1; a < c; a++, c--) {
        swap(&p[a], &p[c]);
    }
    return true;
}

/* Variance written out over a permuted tensor, for every permutation of rank 2 to 5 and every axis: one
 * kernel, and one load that both passes share. */
static void variance_of_every_permutation(void **state) {
    (void)state;
    static const int64_t dims[] = {2, 3, 2, 4, 3};
    int cases = 0;
    for (int rank = 2; rank <= 5; rank++) {
        int p[] = {0, 1, 2, 3, 4};
        do {
            for (int axis = 0; axis < rank; axis++, cases++) {
                bench b;
                bench_open(&b);
                ls_tensor *x = ls_permute(b.s, ls_input(b.s, "x", LS_F32, ls_shape_make(rank, dims)), p);
                ls_tensor *mean = ls_mean(b.s, x, 1, &axis, 1), *d = ls_sub(b.s, x, mean);
                ls_tensor *n = ls_full(b.s, LS_F32, LS_SCALAR, (double)ls_tensor_shape(x).dim[axis].offset);
                ls_tensor *v = ls_div(
                    b.s, ls_sum(b.s, ls_pow(b.s, d, ls_full(b.s, LS_F32, LS_SCALAR, 2)), 1, &axis, 1), n);
                ls_spec spec;
                one_spec(&b, v, &spec);
                int loads = 0, sums = 0;
                for (int i = 0; i < spec.n_values; i++) {
                    loads += spec.values[i].op == LS_V_LOAD;
                    sums += spec.values[i].op == LS_V_REDUCE;
                }
                assert_int_equal(loads, 1);
                assert_int_equal(sums, 2);
                ls_plan plan;
                bench_plan(&b, &v, 1, 0, &plan);
                assert_true(plan.n_groups >= 6);
                for (int i = 0; i < plan.n_groups; i++) {
                    bench_spec(&b, &plan.groups[i], &spec);
                }
                bench_close(&b);
            }
        } while (next_permutation(p, rank));
    }
    assert_int_equal(cases, 2 * 2 + 6 * 3 + 24 * 4 + 120 * 5);
}

/* A REDUCE under an outer index of the same extent must not bind the axis that it depends on. */
static void bound_axes_never_capture(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_spec spec;
    ls_tensor *x = ls_input(b.s, "x", LS_F32, LS_SHAPE(5, 5));
    int zero = 0, one = 1;
    ls_tensor *columns = ls_sum(b.s, x, 1, &zero, 0);
    ls_plan plan;
    ls_tensor *root =
        ls_sub(b.s, x, ls_expand(b.s, ls_reshape(b.s, columns, LS_SHAPE(5, 1)), LS_SHAPE(5, 5)));
    bench_plan(&b, &root, 1, 1, &plan);
    for (int i = 0; i < plan.n_groups; i++) {
        bench_spec(&b, &plan.groups[i], &spec);
    }
    /* x[i,j] - sum over rows of x[., i]: the load under the sum runs down column i, over axis j */
    const ls_value *sum = NULL;
    for (int i = 0; i < spec.n_values; i++) {
        sum = spec.values[i].op == LS_V_REDUCE ? &spec.values[i] : sum;
    }
    assert_non_null(sum);
    int64_t stride;
    assert_int_equal(sum->bound[0], 1);
    assert_true(ls_ix_affine(&spec, spec.values[sum->a].ix, 1, &stride) && stride == 5);
    assert_true(ls_ix_affine(&spec, spec.values[sum->a].ix, 0, &stride) && stride == 1);
    one_spec(&b, ls_sum(b.s, ls_mul(b.s, x, ls_sum(b.s, x, 1, &one, 1)), 1, &one, 0), &spec);
    bench_close(&b);
}

/* Reductions of a group's channels bind the piece that the channels' axis is split into, though lines and columns have as many elements: it then is the
 * space of the last map, too. */
static void pieces_are_bound(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_spec spec;
    ls_tensor *norm = ls_group_norm(b.s, ls_input(b.s, "x", LS_F32, LS_SHAPE(3, 12, 4, 4)), 3, NULL, NULL, 1e-5);
    one_spec(&b, ls_silu(b.s, norm), &spec);
    assert_int_equal(spec.n_axes, 5);
    int sums = 0;
    for (int i = 0; i < spec.n_values; i++) {
        const ls_value *v = &spec.values[i];
        if (v->op == LS_V_REDUCE) {
            sums++;
            assert_int_equal(v->n_bound, 3);
            for (int j = 0; j < 3; j++) {
                assert_int_equal(v->bound[j], 2 + j);
            }
        }
    }
    assert_int_equal(sums, 2);
    bench_close(&b);
}

/* An axis of extent 1 is no axis of a store, except the one that a scan or sort runs along. */
static void axes_of_one(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_spec spec;
    ls_tensor *x = ls_input(b.s, "x", LS_F32, LS_SHAPE(3, 1, 4, 1));
    one_spec(&b, ls_neg(b.s, x), &spec);
    assert_int_equal(spec.stores[0].n_axes, 2);
    ls_tensor *along[] = {ls_scan(b.s, x, LS_SCAN_SUM, 3, 0, 0), ls_argsort(b.s, x, 1, 0)};
    for (int i = 0; i < 2; i++) {
        one_spec(&b, along[i], &spec);
        const ls_value *v = &spec.values[spec.stores[0].value];
        assert_int_equal(spec.stores[0].n_axes, 3);
        assert_int_equal(v->n_bound, 1);
        assert_int_equal(v->bound[0], spec.stores[0].axes[i == 0 ? 2 : 1]);
        assert_int_equal(ls_dim_bound(spec.extents_of_axes[v->bound[0]]), 1);
    }
    bench_close(&b);
}

/* What is proved of symbols holds for every value of each, together. */
static void symbols_are_told_apart(void **state) {
    (void)state;
    static ls_symbol symbols[2] = {{.name = "B", .bound = 9, .index = 0},
                                   {.name = "C", .bound = 9, .index = 1}};
    bench b;
    bench_open(&b);
    ls_dim dims[2] = {ls_dim_symbol(&symbols[0], 1, 0), ls_dim_symbol(&symbols[1], 2, 1)};
    ls_spec spec = {.n_axes = 2, .extents_of_axes = dims};
    ls_spec_builder sb = {.arena = &b.arena, .err = &b.err, .spec = &spec};
    int32_t zero = ls_ix_const(&sb, 0), i = ls_ix_axis(&sb, 0), j = ls_ix_axis(&sb, 1);
    int32_t bound = ls_ix_dim(&sb, dims[0]), other = ls_ix_dim(&sb, dims[1]),
            both = ls_ix_add(&sb, bound, other);
    assert_int_equal(sb.status, LS_OK);
    assert_int_equal(spec.ix[zero].op, LS_IX_CONST);
    assert_true(ls_ix_proved_below(&spec, i, bound));
    assert_true(ls_ix_proved_below(&spec, j, other));
    assert_false(ls_ix_proved_below(&spec, i, other));
    assert_false(ls_ix_proved_below(&spec, j, bound));
    assert_false(ls_ix_proved_below(&spec, ls_ix_add_const(&sb, i, 1), bound));
    assert_true(ls_ix_proved_below(&spec, ls_ix_add(&sb, i, j), both));
    assert_true(ls_ix_proved_below(&spec, ls_ix_add_const(&sb, ls_ix_add(&sb, i, j), 1), both));
    assert_false(ls_ix_proved_below(&spec, ls_ix_add_const(&sb, ls_ix_add(&sb, i, j), 2), both));
    assert_false(ls_ix_proved_below(&spec, ls_ix_scale(&sb, i, 2), both));
    assert_true(ls_ix_proved_below(&spec, ls_ix_sub(&sb, i, bound), zero));
    assert_true(ls_ix_proved_below(&spec, ls_ix_mod(&sb, j, bound), bound));
    bench_close(&b);
}

static void damaged_groups_are_refused(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_spec spec;
    ls_tensor *x = ls_input(b.s, "x", LS_F32, LS_SHAPE(4)), *y = ls_neg(b.s, x);
    ls_group missing = {.kind = LS_GROUP_POINTWISE, .n_roots = 1, .roots = &y};
    assert_int_equal(ls_spec_build(&b.arena, &missing, &spec, &b.err), LS_ERR_INTERNAL);
    ls_error_clear(&b.err);
    ls_group loop = {.kind = LS_GROUP_LOOP, .n_roots = 1, .roots = &y};
    assert_int_equal(ls_spec_build(&b.arena, &loop, &spec, &b.err), LS_ERR_INVALID);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_kernels_are_equal),
        cmocka_unit_test(math_and_dtype_make_other_kernels),
        cmocka_unit_test(the_verifier_finds_damage),
        cmocka_unit_test(indices_are_evaluated_where_not_proved),
        cmocka_unit_test(variance_of_every_permutation),
        cmocka_unit_test(bound_axes_never_capture),
        cmocka_unit_test(pieces_are_bound),
        cmocka_unit_test(axes_of_one),
        cmocka_unit_test(symbols_are_told_apart),
        cmocka_unit_test(damaged_groups_are_refused),
    };
    return cmocka_run_group_tests_name("spec", tests, NULL, NULL);
}
