/* What goes with attention: rotary positions, and attention by a linear recurrence. */
#include "base/numerics.h"
#include "graph/build.h"

ls_tensor *ls_rotary_embedding(ls_session *s, ls_tensor *x, ls_tensor *cosine, ls_tensor *sine,
                               int interleaved) {
    if (!ls_check_operands(s, "rotary_embedding", 3, (ls_tensor *[]){x, cosine, sine}) ||
        !ls_check_float(s, "rotary_embedding", x) || !ls_check_same_dtype(s, "rotary_embedding", cosine, x) ||
        !ls_check_same_dtype(s, "rotary_embedding", sine, x)) {
        return NULL;
    }
    int rank = cosine->shape.rank;
    bool fits = x->shape.rank == 4 && rank > 0 && ls_shape_equal(&cosine->shape, &sine->shape) &&
                ls_dim_is_fixed(x->shape.dim[3]) && ls_dim_is_fixed(cosine->shape.dim[rank - 1]);
    int64_t half = fits ? cosine->shape.dim[rank - 1].offset : 0,
            features = fits ? x->shape.dim[3].offset : 0;
    if (!fits || half > features / 2) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE,
                            "rotary_embedding: operands are %s, %s and %s: expected x[B,H,S,D], and cosine "
                            "and sine[..,R] for at "
                            "most D / 2 pairs",
                            LS_TEXT(x), LS_TEXT(cosine), LS_TEXT(sine));
    }
    ls_dtype wide = ls_dtype_compute(x->dtype);
    ls_tensor *w = ls_cast(s, x, wide), *c = ls_cast(s, cosine, wide), *t = ls_cast(s, sine, wide), *a, *b;
    ls_tensor *turned = ls_narrow(s, w, 3, 0, 2 * half);
    if (interleaved && turned) {
        ls_shape pairs = ls_shape_insert(&turned->shape, 4, ls_dim_fixed(2));
        pairs.dim[3] = ls_dim_fixed(half);
        ls_tensor *both = ls_reshape(s, turned, pairs);
        a = ls_squeeze(s, ls_narrow(s, both, 4, 0, 1), 4);
        b = ls_squeeze(s, ls_narrow(s, both, 4, 1, 1), 4);
    } else {
        a = ls_narrow(s, turned, 3, 0, half);
        b = ls_narrow(s, turned, 3, half, half);
    }
    ls_tensor *parts[] = {ls_sub(s, ls_mul(s, c, a), ls_mul(s, t, b)),
                          ls_add(s, ls_mul(s, t, a), ls_mul(s, c, b))};
    ls_tensor *y = interleaved ? ls_stack(s, parts, 2, 4) : ls_concat(s, parts, 2, 3);
    y = interleaved && y && turned ? ls_reshape(s, y, turned->shape) : y;
    ls_tensor *whole[] = {y, ls_narrow(s, w, 3, 2 * half, features - 2 * half)};
    return ls_cast(s, 2 * half < features ? ls_concat(s, whole, 2, 3) : y, x->dtype);
}

/* ---- linear attention ---- */

typedef struct recurrence {
    ls_tensor *scale;
    bool decay, beta;
    ls_shape grouped, heads; /* of one step's q: [B,G,R,D]; of its result: [B,H,E] */
} recurrence;

/* carry: the state [B,G,D,E]. xs: q[B,H,D], k[B,G,D], v[B,G,E], then decay [B,G,D or 1] and beta [B,G or 1,1] if there are such. */
static ls_status linear_step(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                             ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    const recurrence *r = ctx;
    (void)iteration;
    ls_contract_spec rows = {.n_batch = 2,
                             .batch_a = {0, 1},
                             .batch_b = {0, 1},
                             .n_contract = 1,
                             .contract_a = {2},
                             .contract_b = {2}};
    ls_tensor *state = carry[0], *k = xs[1], *v = xs[2];
    int next = 3;
    if (!state) {
        return ls_graph_of(s)->error.code;
    }
    ls_dtype dtype = state->dtype;
    if (r->decay) {
        state = ls_mul(s, state, ls_unsqueeze(s, ls_exp(s, xs[next++]), 3));
    }
    if (r->beta) {
        ls_tensor *known = ls_contract(s, k, state, &rows, dtype);
        v = ls_mul(s, xs[next], ls_sub(s, v, known));
    }
    state = ls_add(s, state, ls_mul(s, ls_unsqueeze(s, k, 3), ls_unsqueeze(s, v, 2)));
    rows.contract_a[0] = 3;
    ls_tensor *y = ls_contract(s, ls_reshape(s, xs[0], r->grouped), state, &rows, dtype); /* [B,G,R,E] */
    out_ys[0] = y ? ls_mul(s, ls_reshape(s, y, r->heads), r->scale) : NULL;
    out_carry[0] = state;
    return out_ys[0] && state ? LS_OK : ls_graph_of(s)->error.code;
}

/* [B,H,T,D] to [T,B,H,D] */
static ls_tensor *time_first(ls_session *s, ls_tensor *x) {
    static const int axes[] = {2, 0, 1, 3};
    return ls_permute(s, x, axes);
}

static bool linear_check(ls_session *s, ls_tensor *q, ls_tensor *k, ls_tensor *v, ls_tensor *state,
                         const ls_linear_attention_spec *spec) {
    if (!ls_check_given(s, "linear_attention", "spec", spec)) {
        return false;
    }
    ls_tensor *src[6] = {q, k, v, state}, *extra[] = {spec->decay, spec->beta};
    int n = 4;
    bool fits = true;
    for (int i = 0; i < 2; i++) {
        src[n] = extra[i];
        n += extra[i] != NULL;
    }
    if (!ls_check_operands(s, "linear_attention", n, src) || !ls_check_float(s, "linear_attention", q)) {
        return false;
    }
    for (int i = 1; i < n; i++) {
        if (!ls_check_same_dtype(s, "linear_attention", src[i], q)) {
            return false;
        }
    }
    for (int i = 0; i < n; i++) {
        fits &= src[i]->shape.rank == 4;
    }
    const ls_dim *dq = q->shape.dim, *dk = k->shape.dim, *dv = v->shape.dim, *ds = state->shape.dim;
    fits = fits && ls_dim_is_fixed(dq[1]) && ls_dim_is_fixed(dk[1]) && dk[1].offset > 0 &&
           dq[1].offset % dk[1].offset == 0 && ls_dim_equal(dq[0], dk[0]) && ls_dim_equal(dq[2], dk[2]) &&
           ls_dim_equal(dq[3], dk[3]) && ls_dim_equal(dk[0], dv[0]) && ls_dim_equal(dk[1], dv[1]) &&
           ls_dim_equal(dk[2], dv[2]) && ls_dim_equal(ds[0], dk[0]) && ls_dim_equal(ds[1], dk[1]) &&
           ls_dim_equal(ds[2], dk[3]) && ls_dim_equal(ds[3], dv[3]) &&
           (spec->scale != 0 || ls_dim_is_fixed(dq[3]));
    for (int i = 0; fits && i < 2; i++) {
        fits = !extra[i] || ls_dim_equal(extra[i]->shape.dim[2], dq[2]);
    }
    if (!fits) {
        LS_NODE_FAIL(s, LS_ERR_SHAPE,
                     "linear_attention: operands are %s, %s, %s and state %s: expected q[B,H,T,D], "
                     "k[B,G,T,D], v[B,G,T,E] and "
                     "state[B,G,D,E], and rank 4 with T steps of what is given besides",
                     LS_TEXT(q), LS_TEXT(k), LS_TEXT(v), LS_TEXT(state));
    }
    return fits;
}

ls_tensor *ls_linear_attention(ls_session *s, ls_tensor *q, ls_tensor *k, ls_tensor *v, ls_tensor *state,
                               const ls_linear_attention_spec *spec, ls_tensor **out_state) {
    if (!linear_check(s, q, k, v, state, spec)) {
        return NULL;
    }
    const ls_dim *dq = q->shape.dim;
    int64_t groups = k->shape.dim[1].offset;
    double scale = spec->scale;
    if (scale == 0) {
        ls_numerics numerics = ls_numerics_enter();
        scale = 1 / __builtin_sqrt((double)dq[3].offset);
        ls_numerics_leave(numerics);
    }
    recurrence r = {.scale = ls_full(s, q->dtype, (ls_shape){.rank = 0}, scale),
                    .decay = spec->decay,
                    .beta = spec->beta};
    r.grouped = (ls_shape){.rank = 4,
                           .dim = {dq[0], ls_dim_fixed(groups), ls_dim_fixed(dq[1].offset / groups), dq[3]}};
    r.heads = (ls_shape){.rank = 3, .dim = {dq[0], dq[1], v->shape.dim[3]}};
    ls_tensor *xs[5] = {time_first(s, q), time_first(s, k), time_first(s, v)}, *last = NULL, *ys = NULL;
    int n = 3;
    if (spec->decay) {
        xs[n++] = time_first(s, spec->decay);
    }
    if (spec->beta) {
        xs[n++] = time_first(s, spec->beta);
    }
    if (ls_loop(s, dq[2], 1, &state, n, xs, 1, linear_step, &r, &last, &ys) != LS_OK) {
        return NULL;
    }
    if (out_state) {
        *out_state = last;
    }
    static const int back[] = {1, 2, 0, 3};
    return ls_permute(s, ys, back);
}
