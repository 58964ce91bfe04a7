/* Recurrent networks in the graph, as the format's operators LSTM, GRU and RNN.
 *
 * As in export_match.c operands are guessed and the library's builder is called with them; but a loop's body is built anew each time, so
 * loops are compared instead of being one. The operators add a second bias: where there is none it is zeros, which change no bit, since no
 * contraction gives -0. */
#include "io/onnx/export.h"
#include <string.h>

typedef struct guess {
    ls_tensor *x, *h0, *c0, *w_x, *w_h, *b_x, *b_h;
    ls_recurrent_spec spec;
    bool torch; /* ls_lstm: gates i, f, g, o */
} guess;

/* ---- reading ---- */

/* A tensor of the body that follows from captures alone, as it is outside; NULL when it is none. */
static ls_tensor *outer(ls_onnx_export *e, const ls_tensor *loop, ls_tensor *x) {
    const ls_body *body = loop->attr.loop.body;
    int first = body->n_carry + body->n_xs;
    ls_tensor *src[4];
    for (int i = first; i < first + body->n_captures; i++) {
        if (body->params[i] == x) {
            return loop->src[i];
        }
    }
    if (ls_ops[x->op].op_class != LS_CLASS_MOVE || x->n_src > 4) {
        return NULL;
    }
    for (int i = 0; i < x->n_src; i++) {
        src[i] = outer(e, loop, x->src[i]);
        if (!src[i]) {
            return NULL;
        }
    }
    return ls_node_with(e->s, x, src);
}

static ls_tensor *vector(ls_tensor *x) {
    while (x && (x->op == LS_OP_EXPAND || (x->op == LS_OP_RESHAPE && x->shape.rank > 1))) {
        x = x->src[0];
    }
    return x && x->shape.rank == 1 ? x : NULL;
}

/* Below the part of it that a GRU's first gates take. */
static ls_tensor *whole(ls_tensor *x, int64_t rows) {
    bool part =
        x && x->op == LS_OP_SLICE && ls_dim_is_fixed(x->shape.dim[0]) && x->shape.dim[0].offset < rows;
    return part ? x->src[0] : x;
}

/* The product of the carried h with its weights, and the bias on it. */
static void read_body(ls_onnx_export *e, const ls_tensor *loop, ls_tensor *const *order, int n, int64_t rows,
                      guess *g) {
    const ls_tensor *product = NULL;
    for (int i = 0; i < n && !product; i++) {
        product = order[i]->op == LS_OP_CONTRACT && order[i]->src[0] == loop->attr.loop.body->params[0]
                      ? order[i]
                      : NULL;
    }
    g->w_h = product ? whole(outer(e, loop, product->src[1]), rows) : NULL;
    for (int i = 0; i < n && product; i++) {
        ls_tensor *bias =
            order[i]->op == LS_OP_ADD && order[i]->src[0] == product ? vector(order[i]->src[1]) : NULL;
        g->b_h = bias ? whole(outer(e, loop, bias), rows) : g->b_h;
    }
}

static bool read_input(ls_tensor *projected, guess *g) {
    if (projected->op == LS_OP_ADD) {
        g->b_x = vector(projected->src[1]);
        projected = projected->src[0];
    }
    if (projected->op != LS_OP_CONTRACT) {
        return false;
    }
    g->x = projected->src[0];
    g->w_x = projected->src[1];
    return g->x->shape.rank == 3 && g->w_x->shape.rank == 2 && ls_dim_is_fixed(g->w_x->shape.dim[0]);
}

/* ---- comparing ---- */

static int param_number(const ls_body *body, const ls_tensor *x) {
    int n = body->n_carry + body->n_xs + body->n_captures;
    for (int i = 0; i < n; i++) {
        if (body->params[i] == x) {
            return i;
        }
    }
    return body->iteration == x ? n : -1;
}

static int position(ls_tensor *const *order, int n, const ls_tensor *x) {
    for (int i = 0; i < n; i++) {
        if (order[i] == x) {
            return i;
        }
    }
    return -1;
}

static ls_tensor **body_order(ls_onnx_export *e, const ls_body *body, int *out_n) {
    ls_tensor **order = ls_graph_order(&e->arena, body->results, body->n_carry + body->n_ys, out_n);
    if (!order) {
        LS_FAIL(e->err, LS_ERR_MEMORY, "%s: out of memory", e->path);
    }
    return order;
}

/* Both in the order of ls_graph_order, which is the same for the same body. */
static bool same_nodes(const ls_body *a, ls_tensor *const *nodes_a, const ls_body *b,
                       ls_tensor *const *nodes_b, int n) {
    for (int i = 0; i < n; i++) {
        const ls_tensor *x = nodes_a[i], *y = nodes_b[i];
        if (x == y) {
            continue;
        }
        if (x->op != y->op || x->dtype != y->dtype || x->math != y->math || x->n_src != y->n_src ||
            !ls_shape_equal(&x->shape, &y->shape) || param_number(a, x) != param_number(b, y) ||
            (x->op == LS_OP_PARAM ? param_number(a, x) < 0
                                  : memcmp(&x->attr, &y->attr, sizeof x->attr) != 0)) {
            return false;
        }
        for (int k = 0; k < x->n_src; k++) {
            if (position(nodes_a, n, x->src[k]) != position(nodes_b, n, y->src[k])) {
                return false;
            }
        }
    }
    return true;
}

static bool same_loop(ls_onnx_export *e, const ls_tensor *x, ls_tensor *const *order, int n,
                      const ls_tensor *y) {
    const ls_body *a = x->attr.loop.body, *b = y->attr.loop.body;
    int n_other, results = a->n_carry + a->n_ys;
    if (a->n_carry != b->n_carry || a->n_xs != b->n_xs || a->n_ys != b->n_ys ||
        a->n_captures != b->n_captures || x->n_src != y->n_src ||
        memcmp(x->src, y->src, sizeof *x->src * (size_t)x->n_src) != 0 ||
        !ls_dim_equal(x->attr.loop.trip, y->attr.loop.trip)) {
        return false;
    }
    ls_tensor **other = body_order(e, b, &n_other);
    if (!other || n != n_other || !same_nodes(a, order, b, other, n)) {
        return false;
    }
    for (int i = 0; i < results; i++) {
        if (position(order, n, a->results[i]) != position(other, n, b->results[i])) {
            return false;
        }
    }
    return true;
}

static bool holds(ls_onnx_export *e, const ls_tensor *loop, ls_tensor *const *order, int n, const guess *g) {
    ls_tensor *h = NULL;
    if (g->torch) {
        ls_lstm(e->s, g->x, g->h0, g->c0, g->w_x, g->w_h, g->b_x, &h, NULL);
    } else {
        ls_recurrent(e->s, g->x, g->h0, g->c0, g->w_x, g->w_h, g->b_x, g->b_h, &g->spec, &h, NULL);
    }
    return h && same_loop(e, loop, order, n, h->src[0]);
}

/* ---- writing ---- */

/* ls_lstm's gates i, f, g, o as i, o, f, g. */
static ls_tensor *gates(ls_session *s, const guess *g, ls_tensor *w) {
    if (!w || !g->torch) {
        return w;
    }
    int64_t rows = w->shape.dim[0].offset / 4;
    ls_tensor *parts[] = {ls_narrow(s, w, 0, 0, rows), ls_narrow(s, w, 0, 3 * rows, rows),
                          ls_narrow(s, w, 0, rows, 2 * rows)};
    return ls_concat(s, parts, 3, 0);
}

static ls_tensor *biases(ls_session *s, const guess *g) {
    if (!g->b_x && !g->b_h) {
        return NULL;
    }
    const ls_tensor *like = g->b_x ? g->b_x : g->b_h;
    ls_tensor *zeros = ls_full(s, like->dtype, like->shape, 0);
    ls_tensor *both[] = {g->b_x ? gates(s, g, g->b_x) : zeros, g->b_h ? gates(s, g, g->b_h) : zeros};
    return ls_unsqueeze(s, ls_concat(s, both, 2, 0), 0);
}

/* Results Y[T,1,B,H], Y_h[1,B,H] and Y_c, in the order of the loop's: carries, then ys. */
static const char *emit_recurrent(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    Onnx__NodeProto *node = step->draft, *operands = ls_export_op_list(e, node->op_type, step->n_in, in);
    int n_carry = step->node->attr.loop.body->n_carry;
    char **names = LS_ARENA_ARRAY(&e->arena, char *, n_carry + 1);
    step->results = LS_ARENA_ARRAY(&e->arena, const char *, n_carry + 1);
    if (!operands || !names || !step->results) {
        LS_FAIL(e->err, LS_ERR_MEMORY, "%s: out of memory", e->path);
        return NULL;
    }
    node->input = operands->input;
    node->n_input = operands->n_input;
    names[0] = (char *)ls_export_result(e, node);
    for (int i = 0; i <= n_carry && names[0]; i++) {
        names[i] = i ? (char *)ls_export_name(e, node->name) : names[0];
        step->results[i ? i - 1 : n_carry] = names[i];
    }
    node->output = names;
    node->n_output = (size_t)n_carry + 1;
    return names[0];
}

/* Without the axis of directions, and of a reversed one the order in which it was computed. */
const char *ls_export_recurrent_result(ls_onnx_export *e, const ls_onnx_step *loop, int result) {
    bool all = result == loop->node->attr.loop.body->n_carry;
    const int64_t axis = all, last = -1, end = INT64_MIN, time = 0;
    const char *y = ls_export_result(
        e, ls_export_op(e, "Squeeze", 2, loop->results[result], ls_export_list(e, 1, &axis)));
    if (!all || !loop->backwards) {
        return y;
    }
    const char *slice[] = {y, ls_export_list(e, 1, &last), ls_export_list(e, 1, &end),
                           ls_export_list(e, 1, &time), ls_export_list(e, 1, &last)};
    return ls_export_result(e, ls_export_op_list(e, "Slice", 5, slice));
}

static bool plan(ls_onnx_export *e, ls_onnx_step *step, const guess *g) {
    ls_session *s = e->s;
    ls_tensor *in[7] = {g->x,
                        ls_unsqueeze(s, gates(s, g, g->w_x), 0),
                        ls_unsqueeze(s, gates(s, g, g->w_h), 0),
                        biases(s, g),
                        NULL,
                        ls_unsqueeze(s, g->h0, 0),
                        g->c0 ? ls_unsqueeze(s, g->c0, 0) : NULL};
    static const char *const types[] = {
        [LS_CELL_RNN] = "RNN", [LS_CELL_GRU] = "GRU", [LS_CELL_LSTM] = "LSTM"};
    step->draft = ls_export_op(e, types[g->spec.cell], 0);
    if (!ls_export_operands(e, step, g->c0 ? 7 : 6, in) || !step->draft) {
        return false;
    }
    ls_export_int(e, step->draft, "hidden_size", g->h0->shape.dim[1].offset);
    if (g->spec.reverse) {
        ls_export_string(e, step->draft, "direction", "reverse");
    }
    if (g->spec.linear_before_reset) {
        ls_export_int(e, step->draft, "linear_before_reset", 1);
    }
    step->backwards = g->spec.reverse;
    step->emit = emit_recurrent;
    return true;
}

bool ls_export_match_recurrent(ls_onnx_export *e, ls_onnx_step *step) {
    const ls_tensor *loop = step->node;
    const ls_body *body = loop->op == LS_OP_LOOP ? loop->attr.loop.body : NULL;
    guess g = {.spec = {.cell = LS_CELL_LSTM}};
    int n;
    if (!body || body->n_carry < 1 || body->n_carry > 2 || body->n_xs != 1 || body->n_ys != 1 ||
        loop->src[0]->shape.rank != 2 || !ls_dim_is_fixed(loop->src[0]->shape.dim[1]) ||
        !read_input(loop->src[body->n_carry], &g)) {
        return false;
    }
    ls_tensor **order = body_order(e, body, &n);
    int64_t rows = g.w_x->shape.dim[0].offset;
    g.h0 = loop->src[0];
    g.c0 = body->n_carry == 2 ? loop->src[1] : NULL;
    if (order) {
        read_body(e, loop, order, n, rows, &g);
    }
    if (!order || !g.w_h) {
        return false;
    }
    bool gated = rows != g.h0->shape.dim[1].offset;
    g.spec.cell = g.c0 ? LS_CELL_LSTM : gated ? LS_CELL_GRU : LS_CELL_RNN;
    ls_tensor *x = g.x;
    for (int kind = 0; kind < 4;
         kind++) { /* forwards or backwards; ls_lstm or ls_recurrent, a GRU in either form */
        g.spec.reverse = kind > 1;
        g.x = kind > 1 && x->op == LS_OP_SLICE ? x->src[0] : x;
        g.torch = g.c0 && kind == 0;
        g.spec.linear_before_reset = g.spec.cell == LS_CELL_GRU && kind % 2 == 0;
        if (holds(e, loop, order, n, &g)) {
            return plan(e, step, &g);
        }
    }
    return false;
}
