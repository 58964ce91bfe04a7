/* The canonical form of a graph: its nodes numbered in one deterministic walk, leaves as numbered slots,
 * everything else written out whole. Two graphs with the same words compile to the same program, whatever
 * their leaves hold and whichever session's serials they carry. Invariant: every mark is NULL again when
 * the walk ends, on failure too. */
#include "engine/exec.h"
#include <string.h>

typedef struct walk {
    ls_session *session;
    ls_heap *heap;
    ls_graph_key *key;
    ls_map vars; /* assigned variables, to their entry of key->assign_binds */
    LS_ARRAY(ls_tensor *) done;
} walk;

typedef struct visit {
    ls_tensor *node;
    int next;
} visit;

enum { WORD_LEAF = 1 << 8, WORD_VAR = 1 << 9, WORD_INPUT = 1 << 10, WORD_PARAM = 1 << 11 };

bool ls_has_value(const ls_session *session, const ls_tensor *node) {
    return node->value && node->value->stamp == ls_symbols_stamp(session, node->value->symbols);
}

bool ls_is_stored(const ls_session *session, const ls_tensor *node) {
    if (node->op == LS_OP_DATA || node->op == LS_OP_INPUT || node->op == LS_OP_VAR ||
        node->op == LS_OP_PARAM) {
        return true;
    }
    /* Memory cannot hold absent elements, so such a node is computed in its reader; one of no device in
     * each reader's own. */
    return ls_has_value(session, node) && !node->absent && node->device;
}

static bool put(walk *w, uint64_t word) {
    return ls_array_push(w->heap, &w->key->words, word);
}

static bool put_dim(walk *w, ls_dim dim) {
    w->key->symbols |= ls_symbols_of_dim(dim);
    return put(w, dim.symbol ? (uint64_t)dim.symbol->index + 1 : 0) &&
           (!dim.symbol || put(w, (uint64_t)dim.scale)) && put(w, (uint64_t)dim.offset);
}

static bool put_shape(walk *w, const ls_shape *shape) {
    for (int i = 0; i < shape->rank; i++) {
        if (!put_dim(w, shape->dim[i])) {
            return false;
        }
    }
    return true;
}

static bool put_bytes(walk *w, const void *bytes, size_t size) {
    size_t n = (size + 7) / 8;
    if (!ls_array_reserve(w->heap, &w->key->words, n)) {
        return false;
    }
    w->key->words.data[w->key->words.len + n - 1] = 0;
    memcpy(w->key->words.data + w->key->words.len, bytes, size);
    w->key->words.len += n;
    return true;
}

static uint64_t id_of(const ls_tensor *node) {
    return (uint64_t)(uintptr_t)node->mark;
}

static bool finish(walk *w, ls_tensor *node) {
    if (!ls_array_push(w->heap, &w->done, node)) {
        return false;
    }
    node->mark = (void *)(uintptr_t)w->done.len;
    return true;
}

/* Dtypes, ranks and devices of nodes take one word: what kind of node `op` says. */
static bool put_head(walk *w, const ls_tensor *node, uint64_t op) {
    return put(w, op | (uint64_t)node->dtype << 16 | (uint64_t)node->shape.rank << 24 |
                      (uint64_t)node->n_src << 32) &&
           put(w, (uint64_t)(uintptr_t)node->device) && put_shape(w, &node->shape);
}

static bool put_leaf(walk *w, ls_tensor *node) {
    uint64_t kind = node->op == LS_OP_VAR && !node->value ? WORD_VAR
                    : node->op == LS_OP_INPUT             ? WORD_INPUT
                                                          : WORD_LEAF;
    if (kind == WORD_VAR) {
        int *bind = ls_map_get(&w->vars, (uint64_t)(uintptr_t)node->attr.leaf.object, node->attr.leaf.object);
        if (bind) {
            *bind = (int)w->key->leaves.len;
        }
    }
    /* A computed leaf has operands, which are none of the key's business: its head says 0. */
    ls_tensor head = {.dtype = node->dtype, .shape = node->shape, .device = node->device};
    return ls_array_push(w->heap, &w->key->leaves, node) && put_head(w, &head, kind);
}

static bool walk_from(walk *w, ls_tensor *const *roots, int n_roots);

/* A body's parameters get numbers before its results are walked; their shapes follow from the operands. */
static bool put_body(walk *w, const ls_body *body) {
    int n_params = body->n_carry + body->n_xs + body->n_captures;
    if (!put(w, (uint64_t)body->n_carry | (uint64_t)body->n_xs << 16 | (uint64_t)body->n_captures << 32 |
                    (uint64_t)body->n_ys << 48)) {
        return false;
    }
    for (int i = -1; i < n_params; i++) {
        ls_tensor *param = i < 0 ? body->iteration : body->params[i];
        if (!finish(w, param) || !put_head(w, param, WORD_PARAM)) {
            return false;
        }
    }
    if (!walk_from(w, body->results, body->n_carry + body->n_ys)) {
        return false;
    }
    for (int i = 0; i < body->n_carry + body->n_ys; i++) {
        if (!put(w, id_of(body->results[i]))) {
            return false;
        }
    }
    return true;
}

static bool put_attr(walk *w, const ls_tensor *node) {
    switch (ls_ops[node->op].op_class) {
    case LS_CLASS_MAP:
    case LS_CLASS_RANDOM:
    case LS_CLASS_COPY: /* its device is the node's */
        return true;
    case LS_CLASS_GATHER:
    case LS_CLASS_SCATTER: /* their origins too, which the report of an index out of range names */
        return put(w, (uint64_t)(uintptr_t)node->origin) && put_bytes(w, &node->attr, sizeof node->attr);
    case LS_CLASS_LOOP:
        return node->op == LS_OP_LOOP ? put_dim(w, node->attr.loop.trip) && put_body(w, node->attr.loop.body)
                                      : put(w, (uint64_t)node->attr.loop.result);
    default:
        if (node->op == LS_OP_CONST) {
            return put(w, node->attr.value);
        }
        if (node->op == LS_OP_DIM) {
            return put_dim(w, node->attr.dim);
        }
        if (node->op == LS_OP_IOTA) {
            return put(w, (uint64_t)node->attr.axis.axis);
        }
        return put_bytes(w, &node->attr, sizeof node->attr);
    }
}

static bool put_node(walk *w, ls_tensor *node) {
    if (ls_is_stored(w->session, node)) {
        return (node->op == LS_OP_PARAM ? put_head(w, node, WORD_PARAM) : put_leaf(w, node)) &&
               finish(w, node);
    }
    if (node->value && !ls_has_value(w->session, node)) { /* computed for other values of the symbols */
        ls_buffer_release(node->value);
        node->value = NULL;
    }
    if (!put_head(w, node, (uint64_t)node->op | (uint64_t)node->math << 56)) {
        return false;
    }
    for (int i = 0; i < node->n_src; i++) {
        if (!put(w, id_of(node->src[i]))) {
            return false;
        }
    }
    return put_attr(w, node) && finish(w, node);
}

static bool walk_from(walk *w, ls_tensor *const *roots, int n_roots) {
    LS_ARRAY(visit) stack = {0};
    bool ok = true;
    for (int r = 0; ok && r < n_roots; r++) {
        ls_tensor *enter = roots[r]->mark ? NULL : roots[r];
        while (ok && (enter || stack.len)) {
            if (enter) {
                visit v = {enter, ls_is_stored(w->session, enter) ? enter->n_src : 0};
                ok = ls_array_push(w->heap, &stack, v);
                enter = NULL;
                continue;
            }
            visit *top = &stack.data[stack.len - 1];
            while (top->next < top->node->n_src && top->node->src[top->next]->mark) {
                top->next++;
            }
            if (top->next < top->node->n_src) {
                enter = top->node->src[top->next++];
            } else {
                ok = put_node(w, top->node);
                stack.len--;
            }
        }
    }
    ls_array_free(w->heap, &stack);
    return ok;
}

static bool same_pointer(const void *a, const void *b) {
    return a == b;
}

static bool make(walk *w, ls_tensor *const *roots, int n_roots, const ls_pending *assigns, int n_assigns) {
    ls_graph_key *key = w->key;
    if (!ls_array_reserve(w->heap, &key->assign_binds, (size_t)n_assigns + 1)) {
        return false;
    }
    for (int i = 0; i < n_assigns; i++) {
        key->assign_binds.data[key->assign_binds.len++] = -1;
        if (!ls_map_put(&w->vars, (uint64_t)(uintptr_t)assigns[i].var, assigns[i].var,
                        &key->assign_binds.data[i])) {
            return false;
        }
    }
    if (!put(w, (uint64_t)n_roots | (uint64_t)n_assigns << 24 | (uint64_t)w->session->fusion << 48) ||
        !put(w, (uint64_t)(uintptr_t)w->session->graph.device) ||
        !put_bytes(w, w->session->strategies, sizeof w->session->strategies) ||
        !walk_from(w, roots, n_roots)) {
        return false;
    }
    for (int i = 0; i < n_assigns; i++) {
        if (!walk_from(w, &assigns[i].value, 1)) {
            return false;
        }
    }
    for (int i = 0; i < n_roots; i++) {
        if (!put(w, id_of(roots[i]))) {
            return false;
        }
    }
    for (int i = 0; i < n_assigns; i++) {
        if (!put(w, id_of(assigns[i].value)) || !put(w, (uint64_t)key->assign_binds.data[i])) {
            return false;
        }
    }
    key->hash = ls_hash(key->words.data, key->words.len * sizeof *key->words.data, 0);
    return true;
}

ls_status ls_graph_key_make(ls_session *session, ls_tensor *const *roots, int n_roots,
                            const ls_pending *assigns, int n_assigns, ls_graph_key *out_key, ls_error *err) {
    memset(out_key, 0, sizeof *out_key);
    walk w = {.session = session, .heap = &session->context->heap, .key = out_key};
    ls_map_init(&w.vars, w.heap, same_pointer);
    bool ok = make(&w, roots, n_roots, assigns, n_assigns);
    for (size_t i = 0; i < w.done.len; i++) {
        w.done.data[i]->mark = NULL;
    }
    ls_array_free(w.heap, &w.done);
    ls_map_free(&w.vars);
    if (!ok) {
        ls_graph_key_free(session, out_key);
        return LS_FAIL_MEMORY(err, "the key of a graph");
    }
    return LS_OK;
}

void ls_graph_key_free(ls_session *session, ls_graph_key *key) {
    ls_heap *heap = &session->context->heap;
    ls_array_free(heap, &key->words);
    ls_array_free(heap, &key->leaves);
    ls_array_free(heap, &key->assign_binds);
}
