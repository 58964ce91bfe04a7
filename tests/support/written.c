#include "support/written.h"

#define FULL(value) ls_full(s, LS_F32, LS_SCALAR, value)

ls_tensor *written_softmax(ls_session *s, ls_tensor *x) {
    ls_tensor *e = ls_exp(s, ls_sub(s, x, ls_amax(s, x, 1, (const int[]){-1}, 1)));
    return ls_div(s, e, ls_sum(s, e, 1, (const int[]){-1}, 1));
}

ls_tensor *written_scores(ls_session *s, ls_tensor *q, ls_tensor *k) {
    return ls_matmul(s, q, ls_transpose(s, k, 2, 3));
}

static ls_tensor *scale_after(ls_session *s, const written_operands *x) {
    return ls_matmul(s, written_softmax(s, ls_mul(s, written_scores(s, x->q, x->k), FULL(0.25))), x->v);
}

static ls_tensor *divided(ls_session *s, const written_operands *x) {
    return ls_matmul(s, written_softmax(s, ls_div(s, written_scores(s, x->q, x->k), FULL(4))), x->v);
}

static ls_tensor *scale_on_queries(ls_session *s, const written_operands *x) {
    return ls_matmul(s, written_softmax(s, written_scores(s, ls_mul(s, x->q, FULL(0.25)), x->k)), x->v);
}

static ls_tensor *scale_on_both(ls_session *s, const written_operands *x) {
    ls_tensor *k = ls_mul(s, ls_transpose(s, x->k, 2, 3), FULL(0.5));
    return ls_matmul(s, written_softmax(s, ls_matmul(s, ls_mul(s, x->q, FULL(0.5)), k)), x->v);
}

/* Scores that are not seen at -10000, as GPT-2's are. */
static ls_tensor *masked(ls_session *s, const written_operands *x) {
    ls_tensor *scores = ls_mul(s, written_scores(s, x->q, x->k), FULL(0.25));
    scores = ls_where(s, ls_lt(s, x->mask, FULL(0)), FULL(-10000), scores);
    return ls_matmul(s, written_softmax(s, scores), x->v);
}

static ls_tensor *added_mask(ls_session *s, const written_operands *x) {
    ls_tensor *scores = ls_add(s, ls_mul(s, written_scores(s, x->q, x->k), FULL(0.25)), ls_max(s, x->mask, FULL(-10000)));
    return ls_matmul(s, written_softmax(s, scores), x->v);
}

/* Rows of which nothing is seen are made 0 by what the mask says, as the ONNX function does; as the other arm, too. */
static ls_tensor *rows_made_zero(ls_session *s, const written_operands *x) {
    ls_tensor *p = written_softmax(s, ls_add(s, written_scores(s, x->q, x->k), x->mask));
    ls_tensor *none = ls_eq(s, ls_amax(s, x->mask, 1, (const int[]){-1}, 1), FULL(-__builtin_inf()));
    p = ls_where(s, ls_not(s, none), ls_where(s, none, FULL(0), p), FULL(0));
    return ls_matmul(s, p, x->v);
}

/* The same by what came out, as PyTorch's exporter does. */
static ls_tensor *nan_made_zero(ls_session *s, const written_operands *x) {
    ls_tensor *p = written_softmax(s, ls_add(s, written_scores(s, x->q, x->k), x->mask));
    return ls_matmul(s, ls_where(s, ls_isnan(s, p), FULL(0), p), x->v);
}

/* Batch and heads joined for the products, apart for the mask. */
static ls_tensor *joined(ls_session *s, const written_operands *x) {
    ls_tensor *q = ls_reshape(s, x->q, LS_SHAPE(4, 19, 16)), *k = ls_reshape(s, x->k, LS_SHAPE(4, 21, 16));
    ls_tensor *scores = ls_reshape(s, ls_matmul(s, q, ls_transpose(s, k, 1, 2)), LS_SHAPE(2, 2, 19, 21));
    ls_tensor *p = written_softmax(s, ls_add(s, scores, ls_max(s, x->mask, FULL(-10000))));
    return ls_matmul(s, ls_reshape(s, p, LS_SHAPE(4, 19, 21)), ls_reshape(s, x->v, LS_SHAPE(4, 21, 16)));
}

/* Keys and values of one head, repeated for the others. */
static ls_tensor *repeated(ls_session *s, const written_operands *x) {
    ls_tensor *part[2] = {x->k, x->v};
    for (int i = 0; i < 2; i++) {
        ls_tensor *one = ls_reshape(s, ls_narrow(s, part[i], 1, 0, 1), LS_SHAPE(2, 1, 1, 21, 16));
        part[i] = ls_reshape(s, ls_expand(s, one, LS_SHAPE(2, 1, 2, 21, 16)), LS_SHAPE(2, 2, 21, 16));
    }
    return ls_matmul(s, written_softmax(s, written_scores(s, ls_mul(s, x->q, FULL(0.25)), ls_mul(s, part[0], FULL(0.5)))), part[1]);
}

const written_form written_forms[WRITTEN_FORMS] = {
    {"scale after the product", scale_after}, {"divided", divided},       {"scale on the queries", scale_on_queries},
    {"scale on both", scale_on_both},         {"masked", masked},         {"added mask", added_mask},
    {"rows made 0", rows_made_zero},          {"NaN made 0", nan_made_zero}, {"heads joined", joined},
    {"heads repeated", repeated},
};
