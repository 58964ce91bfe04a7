/* The walk from the roots back to what is differentiated.
 *
 * Nodes are taken in reverse of ls_graph_order (depth first, operands left to right), so that a node's users
 * come before it and the order in which contributions are added is a property of the graph alone. A
 * contribution is added to the sum so far from the right. */
#include "graph/grad.h"

struct ls_grad_entry {
    ls_tensor *node, *cotangent;
    bool asked, wanted, end; /* is differentiated; leads to such; is the walk's end there */
};

static bool same(const void *a, const void *b) {
    return a == b;
}
static uint64_t hash_of(const ls_tensor *x) {
    return ls_hash_u64((uint64_t)(uintptr_t)x, 0);
}
static struct ls_grad_entry *entry_of(const ls_grad_state *st, const ls_tensor *x) {
    return ls_map_get(&st->index, hash_of(x), x);
}

ls_grad_rule ls_grad_rule_of(ls_op op) {
    return ls_grad_map_rules[op]    ? ls_grad_map_rules[op]
           : ls_grad_move_rules[op] ? ls_grad_move_rules[op]
                                    : ls_grad_fold_rules[op];
}

bool ls_grad_wanted(const ls_grad_state *st, const ls_tensor *x) {
    const struct ls_grad_entry *e = entry_of(st, x);
    return e && e->wanted;
}

bool ls_grad_asked(const ls_grad_state *st, const ls_tensor *x) {
    const struct ls_grad_entry *e = entry_of(st, x);
    return e && e->asked;
}

void ls_grad_give(ls_grad_state *st, const ls_tensor *x, ls_tensor *cotangent) {
    struct ls_grad_entry *e = entry_of(st, x);
    if (!e || !e->wanted) {
        return;
    }
    e->cotangent = e->cotangent ? ls_add(st->s, e->cotangent, cotangent) : cotangent;
    if (!e->cotangent) {
        st->status = ls_session_error(st->s)->code;
    }
}

ls_tensor *ls_grad_of_result(ls_grad_state *st, const ls_tensor *loop, int i) {
    for (size_t n = 0; n < st->index.len; n++) {
        const struct ls_grad_entry *e = &st->entries[n];
        if (e->node->op == LS_OP_RESULT && e->node->src[0] == loop && e->node->attr.loop.result == i) {
            return e->cotangent;
        }
    }
    return NULL;
}

static bool differentiable(const ls_tensor *x) {
    return ls_dtype_is_float(x->dtype) && x->op != LS_OP_DETACH;
}

/* Marks what lies between the roots and xs. A LOOP carries no dtype of its own: it is wanted when an operand
 * is. */
static ls_status index_nodes(ls_grad_state *st, ls_tensor **order, int n, int count, ls_tensor *const *xs,
                             bool ends) {
    for (int i = 0; i < n; i++) {
        struct ls_grad_entry *e = &st->entries[i];
        e->node = order[i];
        if (!ls_map_put(&st->index, hash_of(order[i]), order[i], e)) {
            return LS_ERR_MEMORY;
        }
        for (int k = 0; k < count && !e->asked; k++) {
            e->asked = xs[k] == order[i];
        }
        e->wanted = e->asked;
        e->end = ends && e->asked;
        for (int k = 0; k < order[i]->n_src && !e->wanted; k++) {
            e->wanted = (order[i]->op == LS_OP_LOOP || differentiable(order[i])) &&
                        ls_grad_wanted(st, order[i]->src[k]);
        }
    }
    return LS_OK;
}

static bool operand_wanted(const ls_grad_state *st, const ls_tensor *node) {
    for (int k = 0; k < node->n_src; k++) {
        if (ls_grad_wanted(st, node->src[k])) {
            return true;
        }
    }
    return false;
}

static ls_status walk(ls_grad_state *st, int n) {
    for (int i = n - 1; i >= 0 && st->status == LS_OK; i--) {
        struct ls_grad_entry *e = &st->entries[i];
        if (!e->wanted || e->end || !operand_wanted(st, e->node)) {
            continue;
        }
        if (e->node->op == LS_OP_LOOP) {
            ls_grad_loop(st, e->node);
        } else if (e->cotangent && ls_grad_rule_of(e->node->op)) {
            ls_grad_rule_of(e->node->op)(st, e->node, e->cotangent);
        }
    }
    return st->status;
}

static ls_status collect(ls_grad_state *st, int count, ls_tensor *const *xs, ls_tensor **out_grads) {
    for (int i = 0; i < count; i++) {
        struct ls_grad_entry *e = entry_of(st, xs[i]);
        out_grads[i] = e && e->cotangent ? e->cotangent : ls_const_like(st->s, xs[i], 0);
        if (!out_grads[i]) {
            return ls_session_error(st->s)->code;
        }
    }
    return LS_OK;
}

ls_status ls_grad_many(ls_session *s, int n_roots, ls_tensor *const *roots, ls_tensor *const *seeds,
                       int count, ls_tensor *const *xs, bool ends, ls_tensor **out_grads) {
    ls_graph *graph = ls_graph_of(s);
    ls_arena arena;
    ls_arena_init(&arena, graph->heap);
    ls_grad_state st = {.s = s, .arena = &arena};
    ls_map_init(&st.index, graph->heap, same);
    int n = 0;
    ls_tensor **order = ls_graph_order(&arena, roots, n_roots, &n);
    st.entries = LS_ARENA_ARRAY(&arena, struct ls_grad_entry, n + 1);
    ls_status status = order && st.entries ? index_nodes(&st, order, n, count, xs, ends) : LS_ERR_MEMORY;
    if (status == LS_ERR_MEMORY) {
        LS_NODE_FAIL(s, LS_ERR_MEMORY, "grad: out of memory for %d nodes", n);
    }
    for (int i = 0; i < n_roots && status == LS_OK; i++) {
        ls_grad_give(&st, roots[i], seeds[i]);
        status = st.status;
    }
    status = status == LS_OK ? walk(&st, n) : status;
    status = status == LS_OK ? collect(&st, count, xs, out_grads) : status;
    ls_map_free(&st.index);
    ls_arena_free(&arena);
    return status;
}

ls_status ls_grad(ls_session *s, ls_tensor *loss, ls_tensor *seed, int count, ls_tensor *const *xs,
                  ls_tensor **out_grads) {
    if (!ls_check_operands(s, "grad", 1, &loss) || (seed && !ls_check_operands(s, "grad", 1, &seed)) ||
        !ls_check_operands(s, "grad", count, xs)) {
        return ls_session_error(s)->code;
    }
    if (count < 0) {
        LS_NODE_FAIL(s, LS_ERR_INVALID, "grad: %d operands: expected 0 or more", count);
        return LS_ERR_INVALID;
    }
    if (!ls_dtype_is_float(loss->dtype)) {
        LS_NODE_FAIL(s, LS_ERR_DTYPE, "grad: the loss is %s: only floating tensors have derivatives",
                     LS_TEXT(loss));
        return LS_ERR_DTYPE;
    }
    for (int i = 0; i < count; i++) {
        if (!ls_dtype_is_float(xs[i]->dtype)) {
            LS_NODE_FAIL(s, LS_ERR_DTYPE, "grad: operand %d is %s: only floating tensors have derivatives", i,
                         LS_TEXT(xs[i]));
            return LS_ERR_DTYPE;
        }
    }
    if (seed && (seed->dtype != loss->dtype || !ls_shape_equal(&seed->shape, &loss->shape))) {
        LS_NODE_FAIL(s, LS_ERR_SHAPE, "grad: the seed is %s, the loss %s: they must agree", LS_TEXT(seed),
                     LS_TEXT(loss));
        return LS_ERR_SHAPE;
    }
    ls_tensor *one = seed ? seed : ls_const_like(s, loss, 1);
    if (!one) {
        return ls_session_error(s)->code;
    }
    return ls_grad_many(s, 1, &loss, &one, count, xs, false, out_grads);
}

ls_tensor *ls_stop_gradient(ls_session *s, ls_tensor *x) {
    if (!ls_check_operands(s, "stop_gradient", 1, &x)) {
        return NULL;
    }
    return ls_node(s, LS_OP_DETACH, x->dtype, &x->shape, 1, &x, NULL);
}
