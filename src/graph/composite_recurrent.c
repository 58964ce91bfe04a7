/* Recurrent networks by ls_loop over time: all steps' x w_x^T + b_x at once, before the loop. Where a batch's sequence has ended, its state
 * stays and its output is 0. */
#include "graph/build.h"

typedef struct cell {
    const ls_recurrent_spec *spec;
    ls_tensor *w_h, *b_h, *peephole;
    ls_tensor *w_n, *b_n; /* a GRU's last H rows of w_h and b_h, where those are applied apart */
    int64_t hidden, steps;
} cell;

static const int gate_count[] = {[LS_CELL_RNN] = 1, [LS_CELL_GRU] = 3, [LS_CELL_LSTM] = 4};

static ls_tensor *activate(ls_session *s, const cell *c, int which, ls_tensor *x) {
    const ls_recurrent_spec *spec = c->spec;
    if (!x) {
        return NULL;
    }
    if (spec->clip > 0 && which < 2) {
        x = ls_max(s, ls_min(s, x, ls_const_like(s, x, spec->clip)), ls_const_like(s, x, -spec->clip));
    }
    if (spec->activation) {
        return spec->activation(s, spec->ctx, which, x);
    }
    return which == 0 && spec->cell != LS_CELL_RNN ? ls_sigmoid(s, x) : ls_tanh(s, x);
}

static ls_tensor *gate(ls_session *s, const cell *c, ls_tensor *gates, int i) {
    return gates ? ls_narrow(s, gates, 1, i * c->hidden, c->hidden) : NULL;
}

static ls_tensor *with_peephole(ls_session *s, const cell *c, ls_tensor *x, int i, ls_tensor *state) {
    return c->peephole && x
               ? ls_add(s, x, ls_mul(s, ls_narrow(s, c->peephole, 0, i * c->hidden, c->hidden), state))
               : x;
}

static ls_tensor *gru_step(ls_session *s, const cell *c, ls_tensor *x, ls_tensor *h) {
    ls_tensor *gates = ls_linear(s, h, c->w_h, c->b_h), *inner;
    ls_tensor *z = activate(s, c, 0, ls_add(s, gate(s, c, x, 0), gate(s, c, gates, 0)));
    ls_tensor *r = activate(s, c, 0, ls_add(s, gate(s, c, x, 1), gate(s, c, gates, 1)));
    if (c->w_n) {
        inner = ls_linear(s, ls_mul(s, r, h), c->w_n, c->b_n);
    } else {
        inner = ls_mul(s, r, gate(s, c, gates, 2));
    }
    ls_tensor *n = activate(s, c, 1, ls_add(s, gate(s, c, x, 2), inner));
    if (!z) {
        return NULL;
    }
    return ls_add(s, ls_mul(s, ls_sub(s, ls_const_like(s, z, 1), z), n), ls_mul(s, z, h));
}

static ls_tensor *lstm_step(ls_session *s, const cell *c, ls_tensor *x, ls_tensor *h, ls_tensor **state) {
    ls_tensor *gates = ls_add(s, x, ls_linear(s, h, c->w_h, c->b_h));
    ls_tensor *i = activate(s, c, 0, with_peephole(s, c, gate(s, c, gates, 0), 0, *state));
    ls_tensor *f = i && c->spec->coupled
                       ? ls_sub(s, ls_const_like(s, i, 1), i)
                       : activate(s, c, 0, with_peephole(s, c, gate(s, c, gates, 2), 2, *state));
    ls_tensor *g = activate(s, c, 1, gate(s, c, gates, 3));
    *state = ls_add(s, ls_mul(s, f, *state), ls_mul(s, i, g));
    ls_tensor *o = activate(s, c, 0, with_peephole(s, c, gate(s, c, gates, 1), 1, *state));
    return ls_mul(s, o, activate(s, c, 2, *state));
}

/* carry: h and, for an LSTM, c. xs: this step's projected input. */
static ls_status step(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                      ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    const cell *c = ctx;
    ls_tensor *h = carry[0], *state = NULL, *y;
    switch (c->spec->cell) {
    case LS_CELL_GRU:
        y = gru_step(s, c, xs[0], h);
        break;
    case LS_CELL_LSTM:
        state = carry[1];
        y = lstm_step(s, c, xs[0], h, &state);
        break;
    default:
        y = activate(s, c, 0, ls_add(s, xs[0], ls_linear(s, h, c->w_h, c->b_h)));
    }
    out_ys[0] = out_carry[0] = y;
    if (y && c->spec->lengths) {
        ls_tensor *now = iteration;
        if (c->spec->reverse) {
            now = ls_sub(s, ls_full_i64(s, LS_I64, (ls_shape){.rank = 0}, c->steps - 1), iteration);
        }
        ls_tensor *runs = ls_unsqueeze(s, ls_lt(s, now, ls_cast(s, c->spec->lengths, LS_I64)), 1);
        out_carry[0] = ls_where(s, runs, y, h);
        out_ys[0] = ls_where(s, runs, y, ls_const_like(s, y, 0));
        state = state ? ls_where(s, runs, state, carry[1]) : NULL;
    }
    if (c->spec->cell == LS_CELL_LSTM) {
        out_carry[1] = state;
    }
    return out_ys[0] && out_carry[0] ? LS_OK : ls_graph_of(s)->error.code;
}

static bool recurrent_check(ls_session *s, ls_tensor *x, ls_tensor *h0, ls_tensor *c0, ls_tensor *w_x,
                            ls_tensor *w_h, ls_tensor *b_x, ls_tensor *b_h, const ls_recurrent_spec *spec) {
    if (!spec || (unsigned)spec->cell > LS_CELL_LSTM) {
        LS_NODE_FAIL(s, LS_ERR_INVALID, "recurrent: the spec is NULL or names no cell");
        return false;
    }
    ls_tensor *all[] = {x, h0, w_x, w_h, c0, b_x, b_h, spec->peephole, spec->lengths}, *src[9];
    int n = 0;
    for (int i = 0; i < 9; i++) {
        if (i < 4 || all[i]) {
            src[n++] = all[i];
        }
    }
    if (!ls_check_operands(s, "recurrent", n, src) || !ls_check_float(s, "recurrent", x)) {
        return false;
    }
    for (int i = 1; i < 8; i++) {
        if (!ls_check_same_dtype(s, "recurrent", all[i], x)) {
            return false;
        }
    }
    const ls_dim *dx = x->shape.dim, *dh = h0->shape.dim;
    bool fits = x->shape.rank == 3 && h0->shape.rank == 2 && w_x->shape.rank == 2 && w_h->shape.rank == 2 &&
                ls_dim_is_fixed(dh[1]) && ls_dim_equal(dx[1], dh[0]) &&
                (spec->cell == LS_CELL_LSTM) == (c0 != NULL) && (!spec->lengths || ls_dim_is_fixed(dx[0]));
    ls_dim rows = {0};
    fits = fits && ls_dim_affine(dh[1], gate_count[spec->cell], 0, &rows) &&
           ls_dim_equal(w_x->shape.dim[0], rows) && ls_dim_equal(w_x->shape.dim[1], dx[2]) &&
           ls_dim_equal(w_h->shape.dim[0], rows) && ls_dim_equal(w_h->shape.dim[1], dh[1]) &&
           (!c0 || ls_shape_equal(&c0->shape, &h0->shape));
    ls_shape biases = {.rank = 1, .dim = {rows}}, peepholes = {.rank = 1}, batch = {.rank = 1};
    fits = fits && ls_dim_affine(dh[1], 3, 0, &peepholes.dim[0]);
    batch.dim[0] = dx[1];
    fits = fits && (!b_x || ls_shape_equal(&b_x->shape, &biases)) &&
           (!b_h || ls_shape_equal(&b_h->shape, &biases)) &&
           (!spec->peephole || ls_shape_equal(&spec->peephole->shape, &peepholes)) &&
           (!spec->lengths || ls_shape_equal(&spec->lengths->shape, &batch));
    if (!fits) {
        LS_NODE_FAIL(s, LS_ERR_SHAPE,
                     "recurrent: operands are %s, %s, %s, %s, %s, %s and %s: expected x[T,B,I], h0[B,H], "
                     "c0[B,H] for an LSTM "
                     "alone, w_x[%d*H,I], w_h[%d*H,H], and b_x and b_h[%d*H] or NULL",
                     LS_TEXT(x), LS_TEXT(h0), LS_TEXT(c0), LS_TEXT(w_x), LS_TEXT(w_h), LS_TEXT(b_x),
                     LS_TEXT(b_h), gate_count[spec->cell], gate_count[spec->cell], gate_count[spec->cell]);
    }
    return fits;
}

ls_tensor *ls_recurrent(ls_session *s, ls_tensor *x, ls_tensor *h0, ls_tensor *c0, ls_tensor *w_x,
                        ls_tensor *w_h, ls_tensor *b_x, ls_tensor *b_h, const ls_recurrent_spec *spec,
                        ls_tensor **out_h, ls_tensor **out_c) {
    if (!recurrent_check(s, x, h0, c0, w_x, w_h, b_x, b_h, spec)) {
        return NULL;
    }
    cell c = {spec, w_h, b_h, spec->peephole, NULL, NULL, h0->shape.dim[1].offset, x->shape.dim[0].offset};
    if (spec->cell == LS_CELL_GRU && !spec->linear_before_reset) {
        c.w_n = ls_narrow(s, w_h, 0, 2 * c.hidden, c.hidden);
        c.w_h = ls_narrow(s, w_h, 0, 0, 2 * c.hidden);
        c.b_n = b_h ? ls_narrow(s, b_h, 0, 2 * c.hidden, c.hidden) : NULL;
        c.b_h = b_h ? ls_narrow(s, b_h, 0, 0, 2 * c.hidden) : NULL;
    }
    ls_tensor *projected = ls_linear(s, spec->reverse ? ls_flip(s, x, 0) : x, w_x, b_x);
    ls_tensor *carry[] = {h0, c0}, *last[2] = {NULL, NULL}, *ys = NULL;
    int n_carry = spec->cell == LS_CELL_LSTM ? 2 : 1;
    if (!projected ||
        ls_loop(s, x->shape.dim[0], n_carry, carry, 1, &projected, 1, step, &c, last, &ys) != LS_OK) {
        return NULL;
    }
    if (out_h) {
        *out_h = last[0];
    }
    if (out_c) {
        *out_c = last[1];
    }
    return spec->reverse ? ls_flip(s, ys, 0) : ys;
}

ls_tensor *ls_rnn(ls_session *s, ls_tensor *x, ls_tensor *h0, ls_tensor *w_x, ls_tensor *w_h, ls_tensor *b_x,
                  ls_tensor *b_h, ls_tensor **out_h) {
    ls_recurrent_spec spec = {.cell = LS_CELL_RNN};
    return ls_recurrent(s, x, h0, NULL, w_x, w_h, b_x, b_h, &spec, out_h, NULL);
}

/* Swaps the first two of three gates: PyTorch's r, z, n to z, r, n. */
static ls_tensor *update_first(ls_session *s, ls_tensor *w) {
    if (!w || w->shape.rank < 1 || !ls_dim_is_fixed(w->shape.dim[0]) || w->shape.dim[0].offset % 3) {
        return w;
    }
    int64_t rows = w->shape.dim[0].offset / 3;
    ls_tensor *parts[] = {ls_narrow(s, w, 0, rows, rows), ls_narrow(s, w, 0, 0, rows),
                          ls_narrow(s, w, 0, 2 * rows, rows)};
    return ls_concat(s, parts, 3, 0);
}

ls_tensor *ls_gru(ls_session *s, ls_tensor *x, ls_tensor *h0, ls_tensor *w_x, ls_tensor *w_h, ls_tensor *b_x,
                  ls_tensor *b_h, ls_tensor **out_h) {
    ls_recurrent_spec spec = {.cell = LS_CELL_GRU, .linear_before_reset = 1};
    return ls_recurrent(s, x, h0, NULL, update_first(s, w_x), update_first(s, w_h), update_first(s, b_x),
                        update_first(s, b_h), &spec, out_h, NULL);
}
