/* Attention that is written out is found by the planner, as one group; what has to be kept apart is not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "spec_support.h"
#include "support/written.h"

static written_operands operands(ls_session *s) {
    return (written_operands){ls_input(s, "q", LS_F32, LS_SHAPE(2, 2, 19, 16)), ls_input(s, "k", LS_F32, LS_SHAPE(2, 2, 21, 16)),
                              ls_input(s, "v", LS_F32, LS_SHAPE(2, 2, 21, 16)), ls_input(s, "mask", LS_F32, LS_SHAPE(19, 21))};
}

static void start(bench *b, written_operands *x) {
    bench_open(b);
    b->graph.math = LS_FAST;
    *x = operands(b->s);
}

/* The groups that are attention; with what they read. */
static int attentions(bench *b, ls_tensor *const *roots, int n, int *out_groups, const char **out_why) {
    ls_plan plan;
    int found = 0;
    *out_why = NULL;
    bench_plan(b, roots, n, LS_PLAN_FUSION | LS_PLAN_ATTENTION, &plan);
    for (int i = 0; i < plan.n_groups; i++) {
        found += plan.groups[i].kind == LS_GROUP_ATTENTION;
        *out_why = plan.groups[i].not_fused ? plan.groups[i].not_fused : *out_why;
    }
    *out_groups = plan.n_groups;
    return found;
}

static void written_forms_are_found(void **state) {
    (void)state;
    for (int i = 0; i < WRITTEN_FORMS; i++) {
        bench b;
        written_operands x;
        const char *why;
        int groups;
        start(&b, &x);
        ls_tensor *y = written_forms[i].build(b.s, &x);
        int found = attentions(&b, &y, 1, &groups, &why);
        int most = strcmp(written_forms[i].name, "rows made 0") == 0 ? 2 : 1; /* the mask's largest of each row */
        if (found != 1 || groups > most) {
            fail_msg("%s: %d of %d groups are attention; %s", written_forms[i].name, found, groups, why ? why : "no reason");
        }
        bench_close(&b);
    }
}

/* One group each for scores, softmax and product at least; `expected` is of the reason, or NULL. */
static void assert_apart(bench *b, ls_tensor *const *roots, int n, const char *expected) {
    const char *why;
    int groups;
    assert_int_equal(attentions(b, roots, n, &groups, &why), 0);
    assert_true(groups >= 3);
    if (expected ? !why || !strstr(why, expected) : why != NULL) {
        fail_msg("the reason is \"%s\", expected \"%s\"", why ? why : "none", expected ? expected : "none");
    }
    bench_close(b);
}

static void other_readers_keep_it_apart(void **state) {
    (void)state;
    bench b;
    written_operands x;
    start(&b, &x);
    ls_tensor *p = written_softmax(b.s, written_scores(b.s, x.q, x.k));
    assert_apart(&b, (ls_tensor *[]){ls_matmul(b.s, p, x.v), p}, 2, "needed elsewhere");
    start(&b, &x);
    p = written_softmax(b.s, written_scores(b.s, x.q, x.k));
    assert_apart(&b, (ls_tensor *[]){ls_add(b.s, ls_matmul(b.s, p, x.v), ls_matmul(b.s, p, ls_neg(b.s, x.v)))}, 1, "needed elsewhere");
    start(&b, &x);
    ls_tensor *scores = written_scores(b.s, x.q, x.k);
    assert_apart(&b, (ls_tensor *[]){ls_matmul(b.s, written_softmax(b.s, scores), x.v), ls_exp(b.s, scores)}, 2, "needed elsewhere");
}

static void locked_keeps_it_apart(void **state) {
    (void)state;
    bench b;
    written_operands x;
    bench_open(&b);
    x = operands(b.s);
    assert_apart(&b, (ls_tensor *[]){written_forms[0].build(b.s, &x)}, 1, "locked");
}

/* Like it, and not it. */
static void others_are_not_taken_for_it(void **state) {
    (void)state;
    ls_tensor *half;
    bench b;
    written_operands x;
    start(&b, &x); /* single probabilities made 0, not rows */
    half = ls_full(b.s, LS_F32, LS_SCALAR, 0.5);
    ls_tensor *p = written_softmax(b.s, written_scores(b.s, x.q, x.k)), *zero = ls_full(b.s, LS_F32, LS_SCALAR, 0);
    assert_apart(&b, (ls_tensor *[]){ls_matmul(b.s, ls_where(b.s, ls_lt(b.s, x.mask, half), zero, p), x.v)}, 1, NULL);
    start(&b, &x); /* rows made something else */
    half = ls_full(b.s, LS_F32, LS_SCALAR, 0.5);
    p = written_softmax(b.s, written_scores(b.s, x.q, x.k));
    ls_tensor *row = ls_lt(b.s, ls_narrow(b.s, x.mask, 1, 0, 1), half);
    assert_apart(&b, (ls_tensor *[]){ls_matmul(b.s, ls_where(b.s, row, half, p), x.v)}, 1, NULL);
    start(&b, &x); /* rows chosen by their scores */
    ls_tensor *scores = written_scores(b.s, x.q, x.k);
    half = ls_full(b.s, LS_F32, LS_SCALAR, 0.5), zero = ls_full(b.s, LS_F32, LS_SCALAR, 0);
    row = ls_lt(b.s, ls_sum(b.s, scores, 1, (const int[]){-1}, 1), half);
    assert_apart(&b, (ls_tensor *[]){ls_matmul(b.s, ls_where(b.s, row, zero, written_softmax(b.s, scores)), x.v)}, 1, NULL);
    start(&b, &x); /* a softmax over the queries */
    scores = ls_transpose(b.s, written_scores(b.s, x.q, x.k), 2, 3);
    p = ls_transpose(b.s, written_softmax(b.s, scores), 2, 3);
    assert_apart(&b, (ls_tensor *[]){ls_matmul(b.s, p, x.v)}, 1, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(written_forms_are_found),
        cmocka_unit_test(other_readers_keep_it_apart),
        cmocka_unit_test(locked_keeps_it_apart),
        cmocka_unit_test(others_are_not_taken_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
