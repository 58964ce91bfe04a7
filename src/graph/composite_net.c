/* Attention, recurrence and losses. */
#include "base/numerics.h"
#include "graph/build.h"
#include <lockstep/grad.h>
#include <inttypes.h>
#include <string.h>

/* ---- attention ---- */

static bool attention_check(ls_session *s, ls_tensor *q, ls_tensor *k, ls_tensor *v,
                            const ls_attention_spec *spec) {
    if (!ls_check_given(s, "attention", "spec", spec)) {
        return false;
    }
    ls_tensor *src[] = {q, k, v, spec->mask};
    if (!ls_check_operands(s, "attention", spec->mask ? 4 : 3, src) || !ls_check_float(s, "attention", q) ||
        !ls_check_same_dtype(s, "attention", k, q) || !ls_check_same_dtype(s, "attention", v, q)) {
        return false;
    }
    const ls_dim *dq = q->shape.dim, *dk = k->shape.dim, *dv = v->shape.dim;
    if (q->shape.rank != 4 || k->shape.rank != 4 || v->shape.rank != 4 || !ls_dim_equal(dq[0], dk[0]) ||
        !ls_dim_equal(dq[0], dv[0]) || !ls_dim_equal(dk[1], dv[1]) || !ls_dim_equal(dk[2], dv[2]) ||
        !ls_dim_equal(dq[3], dk[3])) {
        LS_NODE_FAIL(s, LS_ERR_SHAPE,
                     "attention: operands are %s, %s and %s: expected q[B,H,L,D], k[B,G,S,D] and v[B,G,S,E]",
                     LS_TEXT(q), LS_TEXT(k), LS_TEXT(v));
        return false;
    }
    if (!ls_dim_is_fixed(dq[1]) || !ls_dim_is_fixed(dk[1]) || dk[1].offset < 1 ||
        dq[1].offset % dk[1].offset) {
        LS_NODE_FAIL(s, LS_ERR_SHAPE,
                     "attention: operands are %s and %s: expected the heads of the keys to divide those of "
                     "the queries",
                     LS_TEXT(q), LS_TEXT(k));
        return false;
    }
    if (spec->mask && spec->mask->dtype != LS_BOOL && spec->mask->dtype != q->dtype) {
        LS_NODE_FAIL(s, LS_ERR_DTYPE, "attention: the mask is %s: expected bool or %s", LS_TEXT(spec->mask),
                     ls_dtype_name(q->dtype));
        return false;
    }
    if (spec->scale == 0 && !ls_dim_is_fixed(dq[3])) {
        LS_NODE_FAIL(s, LS_ERR_INVALID, "attention: scale 0 for %s: expected a scale, as D has a symbol",
                     LS_TEXT(q));
        return false;
    }
    return true;
}

static double attention_scale(const ls_tensor *q, const ls_attention_spec *spec) {
    if (spec->scale != 0) {
        return spec->scale;
    }
    ls_numerics state = ls_numerics_enter();
    double scale = 1 / __builtin_sqrt((double)q->shape.dim[3].offset);
    ls_numerics_leave(state);
    return scale;
}

/* bool[L,S]: key j is seen by query i when j <= i + (S - L). */
static ls_tensor *causal_mask(ls_session *s, ls_dim queries, ls_dim keys) {
    ls_shape shape = {.rank = 2, .dim = {queries, keys}};
    ls_tensor *i = ls_iota(s, LS_I64, shape, 0), *j = ls_iota(s, LS_I64, shape, 1);
    ls_tensor *shift = ls_sub(s, ls_dim_value(s, keys), ls_dim_value(s, queries));
    return ls_le(s, j, ls_add(s, i, shift));
}

ls_tensor *ls_masked_softmax(ls_session *s, ls_tensor *x, int axis) {
    if (!ls_check_operands(s, "masked_softmax", 1, &x) || !ls_check_float(s, "masked_softmax", x)) {
        return NULL;
    }
    ls_dtype dtype = x->dtype;
    x = ls_cast(s, x, ls_dtype_compute(dtype));
    ls_tensor *m = ls_stop_gradient(s, ls_amax(s, x, 1, &axis, 1));
    if (!m) {
        return NULL;
    }
    ls_tensor *none = ls_const_like(s, m, -__builtin_inf()), *zero = ls_const_like(s, m, 0),
              *one = ls_const_like(s, m, 1);
    m = ls_where(s, ls_eq(s, m, none), zero, m);
    ls_tensor *e = ls_exp(s, ls_sub(s, x, m)), *total = ls_sum(s, e, 1, &axis, 1);
    return ls_cast(s, ls_div(s, e, ls_where(s, ls_eq(s, total, zero), one, total)), dtype);
}

/* Scores [B,G,R,L,S] (or [B,H,L,S]) to probabilities. */
static ls_tensor *attention_weights(ls_session *s, ls_tensor *scores, const ls_shape *full,
                                    const ls_attention_spec *spec) {
    if (!scores) {
        return NULL;
    }
    ls_tensor *mask = spec->mask, *seen = NULL;
    if (mask) {
        mask = ls_reshape(s, ls_broadcast_to(s, "attention", mask, full), scores->shape);
        if (!mask) {
            return NULL;
        }
        if (mask->dtype == LS_BOOL) {
            seen = mask;
        } else {
            scores = ls_add(s, scores, ls_cast(s, mask, scores->dtype));
        }
    }
    if (spec->causal) {
        ls_tensor *causal = causal_mask(s, full->dim[2], full->dim[3]);
        seen = seen ? ls_and(s, seen, causal) : causal;
        if (!seen) {
            return NULL;
        }
    }
    if (seen) {
        scores = ls_where(s, seen, scores, ls_const_like(s, scores, -__builtin_inf()));
    }
    return mask || seen ? ls_masked_softmax(s, scores, -1) : ls_softmax(s, scores, -1);
}

ls_tensor *ls_attention(ls_session *s, ls_tensor *q, ls_tensor *k, ls_tensor *v,
                        const ls_attention_spec *spec) {
    if (!attention_check(s, q, k, v, spec)) {
        return NULL;
    }
    const ls_dim *dq = q->shape.dim;
    int64_t groups = k->shape.dim[1].offset, repeat = dq[1].offset / groups;
    ls_shape grouped = {.rank = 5, .dim = {dq[0], ls_dim_fixed(groups), ls_dim_fixed(repeat), dq[2], dq[3]}};
    ls_shape full = {.rank = 4, .dim = {dq[0], dq[1], dq[2], k->shape.dim[2]}};
    ls_shape result = {.rank = 4, .dim = {dq[0], dq[1], dq[2], v->shape.dim[3]}};
    ls_tensor *gq = repeat == 1 ? q : ls_reshape(s, q, grouped);
    if (!gq) {
        return NULL;
    }
    int rank = gq->shape.rank;
    ls_dtype wide = ls_dtype_compute(q->dtype);
    ls_contract_spec spec_qk = {.n_batch = 2,
                                .batch_a = {0, 1},
                                .batch_b = {0, 1},
                                .n_contract = 1,
                                .contract_a = {rank - 1},
                                .contract_b = {3}};
    ls_contract_spec spec_pv = spec_qk;
    spec_pv.contract_b[0] = 2;
    ls_tensor *scores = ls_contract(s, gq, k, &spec_qk, wide);
    scores = scores ? ls_mul(s, scores, ls_const_like(s, scores, attention_scale(q, spec))) : NULL;
    ls_tensor *p = attention_weights(s, scores, &full, spec);
    ls_tensor *y = p ? ls_contract(s, ls_cast(s, p, q->dtype), v, &spec_pv, q->dtype) : NULL;
    return y ? ls_reshape(s, y, result) : NULL;
}

/* ---- recurrence ---- */

typedef struct lstm {
    ls_tensor *w_h;
    int64_t hidden;
} lstm;

/* carry: h, c. xs: this step's x w_x^T + bias, [B, 4H]. */
static ls_status lstm_step(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                           ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    const lstm *cell = ctx;
    (void)iteration;
    ls_tensor *gates = ls_add(s, xs[0], ls_linear(s, carry[0], cell->w_h, NULL)), *part[4];
    for (int i = 0; i < 4; i++) {
        part[i] = ls_narrow(s, gates, 1, i * cell->hidden, cell->hidden);
        part[i] = i == 2 ? ls_tanh(s, part[i]) : ls_sigmoid(s, part[i]);
    }
    ls_tensor *c = ls_add(s, ls_mul(s, part[1], carry[1]), ls_mul(s, part[0], part[2]));
    ls_tensor *h = ls_mul(s, part[3], ls_tanh(s, c));
    out_carry[0] = h;
    out_carry[1] = c;
    out_ys[0] = h;
    return h ? LS_OK : ls_graph_of(s)->error.code;
}

static bool lstm_check(ls_session *s, ls_tensor *x, ls_tensor *h0, ls_tensor *c0, ls_tensor *w_x,
                       ls_tensor *w_h, ls_tensor *bias) {
    ls_tensor *src[] = {x, h0, c0, w_x, w_h, bias};
    int n = bias ? 6 : 5;
    if (!ls_check_operands(s, "lstm", n, src) || !ls_check_float(s, "lstm", x)) {
        return false;
    }
    for (int i = 1; i < n; i++) {
        if (!ls_check_same_dtype(s, "lstm", src[i], x)) {
            return false;
        }
    }
    const ls_dim *dx = x->shape.dim, *dh = h0->shape.dim;
    ls_dim four;
    bool fits = x->shape.rank == 3 && h0->shape.rank == 2 && w_x->shape.rank == 2 && w_h->shape.rank == 2 &&
                ls_shape_equal(&h0->shape, &c0->shape) && ls_dim_equal(dx[1], dh[0]) &&
                ls_dim_is_fixed(dh[1]) && ls_dim_affine(dh[1], 4, 0, &four) &&
                ls_dim_equal(w_x->shape.dim[0], four) && ls_dim_equal(w_x->shape.dim[1], dx[2]) &&
                ls_dim_equal(w_h->shape.dim[0], four) && ls_dim_equal(w_h->shape.dim[1], dh[1]) &&
                (!bias || (bias->shape.rank == 1 && ls_dim_equal(bias->shape.dim[0], four)));
    if (!fits) {
        LS_NODE_FAIL(
            s, LS_ERR_SHAPE,
            "lstm: operands are %s, %s, %s, %s, %s and %s: expected x[T,B,I], h0 and c0[B,H], w_x[4H,I], "
            "w_h[4H,H] and bias[4H] or NULL",
            LS_TEXT(x), LS_TEXT(h0), LS_TEXT(c0), LS_TEXT(w_x), LS_TEXT(w_h), LS_TEXT(bias));
    }
    return fits;
}

ls_tensor *ls_lstm(ls_session *s, ls_tensor *x, ls_tensor *h0, ls_tensor *c0, ls_tensor *w_x, ls_tensor *w_h,
                   ls_tensor *bias, ls_tensor **out_h, ls_tensor **out_c) {
    if (!lstm_check(s, x, h0, c0, w_x, w_h, bias)) {
        return NULL;
    }
    lstm cell = {w_h, h0->shape.dim[1].offset};
    ls_tensor *projected = ls_linear(s, x, w_x, bias); /* all steps at once */
    ls_tensor *carry[] = {h0, c0}, *last[2], *ys = NULL;
    if (!projected ||
        ls_loop(s, x->shape.dim[0], 2, carry, 1, &projected, 1, lstm_step, &cell, last, &ys) != LS_OK) {
        return NULL;
    }
    if (out_h) {
        *out_h = last[0];
    }
    if (out_c) {
        *out_c = last[1];
    }
    return ys;
}

/* ---- losses ---- */

ls_tensor *ls_cross_entropy(ls_session *s, ls_tensor *logits, ls_tensor *labels) {
    if (!ls_check_operands(s, "cross_entropy", 2, (ls_tensor *[]){logits, labels}) ||
        !ls_check_float(s, "cross_entropy", logits)) {
        return NULL;
    }
    if (logits->shape.rank != 2 || labels->shape.rank != 1 ||
        !ls_dim_equal(logits->shape.dim[0], labels->shape.dim[0]) ||
        (labels->dtype != LS_I32 && labels->dtype != LS_I64)) {
        return LS_NODE_FAIL(
            s, LS_ERR_SHAPE,
            "cross_entropy: operands are %s and %s: expected logits[N,C] and labels[N] of i32 or i64",
            LS_TEXT(logits), LS_TEXT(labels));
    }
    ls_tensor *p = ls_log_softmax(s, ls_cast(s, logits, ls_dtype_compute(logits->dtype)), 1);
    ls_tensor *picked = ls_take_along(s, p, ls_unsqueeze(s, labels, 1), 1);
    return ls_cast(s, ls_neg(s, ls_mean(s, picked, 0, NULL, 0)), logits->dtype);
}

ls_tensor *ls_mse(ls_session *s, ls_tensor *prediction, ls_tensor *target) {
    if (!ls_check_operands(s, "mse", 2, (ls_tensor *[]){prediction, target}) ||
        !ls_check_float(s, "mse", prediction) || !ls_check_same_dtype(s, "mse", target, prediction)) {
        return NULL;
    }
    if (!ls_shape_equal(&prediction->shape, &target->shape)) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE, "mse: operands are %s and %s: expected equal shapes",
                            LS_TEXT(prediction), LS_TEXT(target));
    }
    ls_dtype wide = ls_dtype_compute(prediction->dtype);
    ls_tensor *d = ls_sub(s, ls_cast(s, prediction, wide), ls_cast(s, target, wide));
    return ls_cast(s, ls_mean(s, ls_mul(s, d, d), 0, NULL, 0), prediction->dtype);
}

ls_tensor *ls_nll_loss(ls_session *s, ls_tensor *log_p, ls_tensor *labels, ls_tensor *weight,
                       const int64_t *ignore, ls_reduction reduction) {
    if (!ls_check_operands(s, "nll_loss", weight ? 3 : 2, (ls_tensor *[]){log_p, labels, weight}) ||
        !ls_check_float(s, "nll_loss", log_p) || !ls_check_same_dtype(s, "nll_loss", weight, log_p)) {
        return NULL;
    }
    ls_shape expected = log_p->shape.rank > 1 ? ls_shape_remove(&log_p->shape, 1) : log_p->shape;
    if (log_p->shape.rank < 2 || !ls_shape_equal(&labels->shape, &expected) ||
        (labels->dtype != LS_I32 && labels->dtype != LS_I64) ||
        (weight && (weight->shape.rank != 1 || !ls_dim_equal(weight->shape.dim[0], log_p->shape.dim[1])))) {
        return LS_NODE_FAIL(
            s, LS_ERR_SHAPE,
            "nll_loss: operands are %s, %s and weight %s: expected log_p[N,C,...], labels[N,...] of i32 or "
            "i64, and weight[C] or NULL",
            LS_TEXT(log_p), LS_TEXT(labels), LS_TEXT(weight));
    }
    ls_dtype wide = ls_dtype_compute(log_p->dtype);
    ls_tensor *ignored = NULL, *share = NULL, *at = labels,
              *zero = ls_full(s, wide, (ls_shape){.rank = 0}, 0);
    if (ignore) {
        ignored =
            ls_eq(s, ls_cast(s, labels, LS_I64), ls_full_i64(s, LS_I64, (ls_shape){.rank = 0}, *ignore));
        at = ls_where(s, ignored, ls_full_i64(s, labels->dtype, (ls_shape){.rank = 0}, 0), labels);
    }
    ls_tensor *loss = ls_take_along(s, ls_cast(s, log_p, wide), ls_unsqueeze(s, at, 1), 1);
    loss = ls_neg(s, ls_squeeze(s, loss, 1));
    if (weight) {
        share = ls_gather(s, ls_cast(s, weight, wide), at, 0);
        loss = ls_mul(s, loss, share);
    }
    if (ignore) {
        share = ls_where(s, ignored, zero, share ? share : ls_full(s, wide, (ls_shape){.rank = 0}, 1));
        loss = ls_where(s, ignored, zero, loss);
    }
    if (reduction == LS_REDUCTION_MEAN) {
        loss = share ? ls_div(s, ls_sum(s, loss, 0, NULL, 0), ls_sum(s, share, 0, NULL, 0))
                     : ls_mean(s, loss, 0, NULL, 0);
    } else if (reduction == LS_REDUCTION_SUM) {
        loss = ls_sum(s, loss, 0, NULL, 0);
    }
    return loss ? ls_cast(s, loss, log_p->dtype) : NULL;
}
