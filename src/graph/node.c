/* Nodes: interning, references, scopes, order. Invariants: the map holds no references (a node leaves it
 * when it dies); a node holds one reference on each operand, a LOOP one on its body; every entry of
 * graph->owned is one reference. Releasing never recurses and never allocates: dead nodes are chained
 * through `mark`. */
#include "graph/build.h"
#include <lockstep/device.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

ls_tensor *ls_node_fail(ls_session *s, ls_status code, const char *file, int line, const char *fmt, ...) {
    char message[LS_MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    ls_error_set(&ls_graph_of(s)->error, code, file, line, "%s", message);
    return NULL;
}

bool ls_check_given(ls_session *s, const char *operation, const char *what, const void *given) {
    if (!given) {
        LS_NODE_FAIL(s, LS_ERR_INVALID, "%s: the %s is NULL", operation, what);
    }
    return given != NULL;
}

bool ls_check_operands(ls_session *s, const char *operation, int n_src, ls_tensor *const *src) {
    if (!s) {
        return false;
    }
    for (int i = 0; i < n_src; i++) {
        if (!src || !src[i]) {
            LS_NODE_FAIL(s, LS_ERR_INVALID, "%s: operand %d is NULL", operation, i);
            return false;
        }
        if (src[i]->session != s) {
            LS_NODE_FAIL(s, LS_ERR_INVALID, "%s: operand %d, %s, belongs to another session or context",
                         operation, i, LS_TEXT(src[i]));
            return false;
        }
    }
    const ls_tensor *placed = NULL;
    for (int i = 0; i < n_src; i++) {
        if (!src[i]->device || !placed) {
            placed = src[i]->device ? src[i] : placed;
        } else if (src[i]->device != placed->device) {
            LS_NODE_FAIL(
                s, LS_ERR_DEVICE,
                "%s: operands %s on %s and %s on %s: expected one device (copy one with ls_to_device)",
                operation, LS_TEXT(placed), ls_device_id(placed->device), LS_TEXT(src[i]),
                ls_device_id(src[i]->device));
            return false;
        }
    }
    return true;
}

/* ---- interning ---- */

static bool node_equal(const void *key, const void *entry_key) {
    const ls_tensor *a = key, *b = entry_key;
    return a->op == b->op && a->dtype == b->dtype && a->math == b->math && a->device == b->device &&
           a->n_src == b->n_src && ls_shape_equal(&a->shape, &b->shape) &&
           !memcmp(&a->attr, &b->attr, sizeof a->attr) &&
           (a->n_src == 0 || !memcmp(a->src, b->src, sizeof *a->src * (size_t)a->n_src));
}

static uint64_t dim_hash(ls_dim d, uint64_t h) {
    h = ls_hash_u64((uint64_t)d.offset, h);
    return d.symbol ? ls_hash_u64((uint64_t)d.scale, ls_hash_u64((uint64_t)d.symbol->index + 1, h)) : h;
}

/* No address goes into it, so that a program's hashes are the same in every run. */
static uint64_t node_hash(const ls_tensor *x) {
    uint64_t h = ls_hash_u64((uint64_t)x->op | (uint64_t)x->dtype << 16 | (uint64_t)x->math << 24,
                             (uint64_t)x->shape.rank);
    for (int i = 0; i < x->shape.rank; i++) {
        h = dim_hash(x->shape.dim[i], h);
    }
    for (int i = 0; i < x->n_src; i++) {
        h = ls_hash_u64(x->src[i]->serial, h);
    }
    ls_op_class c = ls_ops[x->op].op_class;
    if (x->op == LS_OP_DIM) {
        h = dim_hash(x->attr.dim, h);
    } else if (c == LS_CLASS_LOOP) {
        h = ls_hash_u64((uint64_t)x->attr.loop.result, dim_hash(x->attr.loop.trip, h));
    } else if (c == LS_CLASS_LEAF && x->op != LS_OP_CONST && x->op != LS_OP_IOTA) {
        h = ls_hash_u64(x->attr.leaf.serial, h);
    } else if (c != LS_CLASS_COPY && c != LS_CLASS_MAP) {
        h = ls_hash(&x->attr, sizeof x->attr, h);
    }
    return h;
}

static ls_tensor *node_create(ls_graph *g, const ls_tensor *key, const char *label) {
    size_t n = (size_t)key->n_src;
    ls_tensor *node = ls_alloc_zeroed(g->heap, sizeof *node + n * sizeof *node->src);
    char *name = label ? ls_strdup(g->heap, label) : NULL;
    if (!node || (label && !name)) {
        ls_free(g->heap, node);
        ls_free(g->heap, name);
        return NULL;
    }
    memcpy(node, key, sizeof *node);
    node->src = n ? (ls_tensor **)(void *)(node + 1) : NULL;
    if (!ls_map_put(&g->nodes, node->hash, node, node)) {
        ls_free(g->heap, node);
        ls_free(g->heap, name);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        node->src[i] = ls_retain(key->src[i]);
    }
    if (node->op == LS_OP_LOOP) {
        node->attr.loop.body->refs++;
    }
    node->label = name;
    node->origin = g->origin;
    node->interned = true;
    node->serial = ++g->serial;
    return node;
}

static bool key_absent(const ls_tensor *key) {
    if (ls_ops[key->op].op_class != LS_CLASS_MOVE) {
        return false;
    }
    bool absent = key->op == LS_OP_PAD && key->attr.pad.absent;
    for (int i = 0; i < key->n_src; i++) {
        absent |= key->src[i]->absent;
    }
    return absent;
}

/* Finds or makes the node, and gives the innermost scope a reference on it. */
static ls_tensor *node_intern(ls_session *s, ls_tensor *key, const ls_shape *shape, const char *label) {
    ls_graph *g = ls_graph_of(s);
    if (!ls_shape_check(s, ls_ops[key->op].name, shape)) {
        return NULL;
    }
    key->session = s;
    key->shape.rank = shape->rank; /* the rest stays 0 */
    memcpy(key->shape.dim, shape->dim, sizeof *shape->dim * (size_t)shape->rank);
    key->absent = key_absent(key);
    key->hash = node_hash(key);
    ls_tensor *node = NULL;
    if (ls_array_reserve(g->heap, &g->owned, 1)) {
        node = ls_map_get(&g->nodes, key->hash, key);
        node = node ? node : node_create(g, key, label);
    }
    if (!node) {
        return LS_NODE_FAIL(s, LS_ERR_MEMORY, "out of memory for a node of %s", ls_ops[key->op].name);
    }
    g->owned.data[g->owned.len++] = ls_retain(node);
    return node;
}

ls_tensor *ls_node(ls_session *s, ls_op op, ls_dtype dtype, const ls_shape *shape, int n_src,
                   ls_tensor *const *src, const ls_attr *attr) {
    ls_tensor key;
    if (!ls_check_operands(s, ls_ops[op].name, n_src, src)) {
        return NULL;
    }
    memset(&key, 0, sizeof key);
    key.op = op;
    key.dtype = dtype;
    key.math = ls_graph_of(s)->math;
    key.n_src = n_src;
    key.src = (ls_tensor **)src;
    if (attr) {
        memcpy(&key.attr, attr, sizeof key.attr);
    }
    for (int i = 0; i < n_src && !key.device; i++) {
        key.device = src[i]->device;
    }
    if (op == LS_OP_COPY) {
        key.device = attr->device;
    } else if (op == LS_OP_DATA || op == LS_OP_INPUT || op == LS_OP_VAR) {
        key.device = ls_graph_of(s)->device;
    }
    return node_intern(s, &key, shape, NULL);
}

static ls_tensor *leaf_with(ls_session *s, ls_op op, ls_dtype dtype, const ls_shape *shape, ls_device *device, const ls_attr *attr,
                            const char *label) {
    ls_tensor key;
    memset(&key, 0, sizeof key);
    key.op = op;
    key.dtype = dtype;
    key.math = ls_graph_of(s)->math;
    key.device = device;
    memcpy(&key.attr, attr, sizeof key.attr);
    return node_intern(s, &key, shape, label);
}

ls_tensor *ls_leaf(ls_session *s, ls_op op, ls_dtype dtype, const ls_shape *shape, ls_device *device,
                   ls_attr_leaf leaf, const char *label) {
    ls_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.leaf = leaf;
    return leaf_with(s, op, dtype, shape, device, &attr, label);
}

ls_tensor *ls_node_with(ls_session *s, const ls_tensor *node, ls_tensor *const *src) {
    ls_graph *g = ls_graph_of(s);
    ls_math math = g->math;
    const char *origin = g->origin;
    g->math = node->math;
    g->origin = node->origin;
    ls_tensor *made = ls_node(s, node->op, node->dtype, &node->shape, node->n_src, src, &node->attr);
    g->math = math;
    g->origin = origin;
    return made;
}

ls_tensor *ls_own(ls_session *s, ls_tensor *x) {
    ls_graph *g = ls_graph_of(s);
    if (x && !ls_array_push(g->heap, &g->owned, x)) {
        return LS_NODE_FAIL(s, LS_ERR_MEMORY, "out of memory for a scope");
    }
    return ls_retain(x);
}

uint64_t ls_leaf_serial(ls_session *s) {
    return ++ls_graph_of(s)->serial;
}

/* ---- references ---- */

ls_tensor *ls_retain(ls_tensor *tensor) {
    if (tensor) {
        tensor->refs++;
    }
    return tensor;
}

/* Drops one reference; a dead node joins the chain. */
static void drop(ls_tensor *x, ls_tensor **chain) {
    if (x && --x->refs == 0) {
        x->mark = *chain;
        *chain = x;
    }
}

static void body_free(ls_heap *heap, ls_body *body) {
    ls_free(heap, body->params);
    ls_free(heap, body->results);
    ls_free(heap, body);
}

static void body_drop(ls_heap *heap, ls_body *body, ls_tensor **chain) {
    if (!body || --body->refs > 0) {
        return;
    }
    drop(body->iteration, chain);
    for (int i = 0; body->params && i < body->n_carry + body->n_xs + body->n_captures; i++) {
        drop(body->params[i], chain);
    }
    for (int i = 0; body->results && i < body->n_carry + body->n_ys; i++) {
        drop(body->results[i], chain);
    }
    body_free(heap, body);
}

static void node_free(ls_graph *g, ls_tensor *x) {
    if (x->value && g->release_value) {
        g->release_value(x->value);
    }
    ls_free(g->heap, x->label);
    ls_free(g->heap, x);
}

static void chain_free(ls_graph *g, ls_tensor *chain) {
    while (chain) {
        ls_tensor *x = chain;
        chain = x->mark;
        if (x->interned) {
            ls_map_remove(&g->nodes, x->hash, x);
        }
        for (int i = 0; i < x->n_src; i++) {
            drop(x->src[i], &chain);
        }
        if (x->op == LS_OP_LOOP) {
            body_drop(g->heap, x->attr.loop.body, &chain);
        }
        node_free(g, x);
    }
}

void ls_release(ls_tensor *tensor) {
    ls_tensor *chain = NULL;
    if (tensor) {
        ls_graph *g = ls_graph_of(tensor->session);
        drop(tensor, &chain);
        chain_free(g, chain);
    }
}

void ls_body_release(ls_session *s, ls_body *body) {
    ls_tensor *chain = NULL;
    body_drop(ls_graph_of(s)->heap, body, &chain);
    chain_free(ls_graph_of(s), chain);
}

/* ---- scopes ---- */

ls_status ls_scope_begin(ls_session *session) {
    ls_graph *g = ls_graph_of(session);
    ls_scope_mark mark = {g->owned.len};
    if (!ls_array_push(g->heap, &g->scopes, mark)) {
        return LS_FAIL_MEMORY(&g->error, "a scope");
    }
    return LS_OK;
}

static void owned_release(ls_graph *g, size_t first) {
    while (g->owned.len > first) {
        ls_release(g->owned.data[--g->owned.len]);
    }
}

void ls_scope_end(ls_session *session) {
    ls_graph *g = ls_graph_of(session);
    if (g->scopes.len) {
        owned_release(g, g->scopes.data[--g->scopes.len].first);
    }
}

ls_tensor *ls_keep(ls_session *session, ls_tensor *tensor) {
    ls_graph *g = ls_graph_of(session);
    if (!tensor || !g->scopes.len) {
        return tensor;
    }
    size_t *first = &g->scopes.data[g->scopes.len - 1].first;
    for (size_t i = g->owned.len; i-- > *first;) {
        if (g->owned.data[i] == tensor) {
            g->owned.data[i] =
                g->owned.data[*first]; /* what stands before `first` is the enclosing scope's */
            g->owned.data[*first] = tensor;
            ++*first;
            break;
        }
    }
    return tensor;
}

/* ---- the graph ---- */

static bool text_equal(const void *key, const void *entry_key) {
    return strcmp(key, entry_key) == 0;
}

ls_status ls_graph_init(ls_graph *graph, ls_heap *heap, ls_session *session) {
    memset(graph, 0, sizeof *graph);
    graph->heap = heap;
    graph->session = session;
    ls_map_init(&graph->nodes, heap, node_equal);
    ls_map_init(&graph->origins, heap, text_equal);
    return LS_OK;
}

const char *ls_graph_origin(ls_graph *graph, const char *text) {
    uint64_t hash = text ? ls_hash(text, strlen(text), 0) : 0;
    char *known = text ? ls_map_get(&graph->origins, hash, text) : NULL;
    if (text && !known) {
        known = ls_strdup(graph->heap, text);
        if (known && !ls_map_put(&graph->origins, hash, known, known)) {
            ls_free(graph->heap, known);
            known = NULL;
        }
    }
    return known;
}

void ls_graph_free(ls_graph *graph) {
    owned_release(graph, 0);
    /* What is left was retained by hand or by a failed pass: it goes with its session. Bodies first, while
     * their nodes live. */
    size_t pos = 0;
    for (ls_tensor *x; (x = ls_map_next(&graph->nodes, &pos));) {
        if (x->op == LS_OP_LOOP && --x->attr.loop.body->refs == 0) {
            body_free(graph->heap, x->attr.loop.body);
        }
    }
    pos = 0;
    for (ls_tensor *x; (x = ls_map_next(&graph->nodes, &pos));) {
        node_free(graph, x);
    }
    ls_map_free(&graph->nodes);
    pos = 0;
    for (char *text; (text = ls_map_next(&graph->origins, &pos));) {
        ls_free(graph->heap, text);
    }
    ls_map_free(&graph->origins);
    ls_array_free(graph->heap, &graph->owned);
    ls_array_free(graph->heap, &graph->scopes);
}

/* ---- order ---- */

typedef struct visit {
    ls_tensor *node;
    int next;
} visit;

ls_tensor **ls_graph_order(ls_arena *arena, ls_tensor *const *roots, int n_roots, int *out_count) {
    static char seen;
    ls_heap *heap = arena->heap;
    LS_ARRAY(visit) stack = {0};
    LS_ARRAY(ls_tensor *) done = {0};
    bool ok = true;
    for (int r = 0; ok && r < n_roots; r++) {
        if (!roots[r] || roots[r]->mark) {
            continue;
        }
        ls_tensor *enter = roots[r];
        while (ok && (enter || stack.len)) {
            if (enter) {
                visit v = {enter, 0};
                ok = ls_array_push(heap, &stack, v);
                if (ok) {
                    enter->mark = &seen;
                }
                enter = NULL;
                continue;
            }
            visit *top = &stack.data[stack.len - 1];
            while (top->next < top->node->n_src && top->node->src[top->next]->mark) {
                top->next++;
            }
            if (top->next < top->node->n_src) {
                enter = top->node->src[top->next++];
            } else if ((ok = ls_array_push(heap, &done, top->node))) {
                stack.len--;
            }
        }
    }
    ls_tensor **order = ok ? LS_ARENA_ARRAY(arena, ls_tensor *, done.len) : NULL;
    for (size_t i = 0; i < done.len; i++) {
        done.data[i]->mark = NULL;
        if (order) {
            order[i] = done.data[i];
        }
    }
    for (size_t i = 0; i < stack.len; i++) {
        stack.data[i].node->mark = NULL;
    }
    *out_count = order ? (int)done.len : 0;
    ls_array_free(heap, &stack);
    ls_array_free(heap, &done);
    return order;
}

/* ---- leaves ---- */

static bool dtype_check(ls_session *s, const char *operation, ls_dtype dtype) {
    if ((unsigned)dtype >= LS_DTYPE_COUNT) {
        LS_NODE_FAIL(s, LS_ERR_DTYPE, "%s: %d is not a dtype", operation, (int)dtype);
        return false;
    }
    return true;
}

static ls_tensor *full(ls_session *s, ls_device *device, ls_dtype dtype, const ls_shape *shape, uint64_t bits) {
    ls_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.value = bits;
    return s && ls_shape_check(s, "full", shape) ? leaf_with(s, LS_OP_CONST, dtype, shape, device, &attr, NULL) : NULL;
}

ls_tensor *ls_full(ls_session *session, ls_dtype dtype, ls_shape shape, double value) {
    return dtype_check(session, "full", dtype) ? full(session, NULL, dtype, &shape, ls_value_from_f64(dtype, value))
                                               : NULL;
}

ls_tensor *ls_full_i64(ls_session *session, ls_dtype dtype, ls_shape shape, int64_t value) {
    return dtype_check(session, "full", dtype) ? full(session, NULL, dtype, &shape, ls_value_from_i64(dtype, value))
                                               : NULL;
}

ls_tensor *ls_const_like(ls_session *s, const ls_tensor *x, double value) {
    return x ? full(s, NULL, x->dtype, &x->shape, ls_value_from_f64(x->dtype, value)) : NULL;
}

ls_tensor *ls_full_beside(ls_session *s, const ls_tensor *x, ls_dtype dtype, const ls_shape *shape, double value) {
    return full(s, x->device, dtype, shape, ls_value_from_f64(dtype, value));
}

ls_tensor *ls_input(ls_session *session, const char *name, ls_dtype dtype, ls_shape shape) {
    if (!dtype_check(session, "input", dtype) || !ls_shape_check(session, "input", &shape)) {
        return NULL;
    }
    if (!ls_check_given(session, "input", "name", name)) {
        return NULL;
    }
    ls_attr_leaf leaf = {NULL, ls_leaf_serial(session)};
    return ls_leaf(session, LS_OP_INPUT, dtype, &shape, ls_graph_of(session)->device, leaf, name);
}

bool ls_is_const(const ls_tensor *x, double *out_value) {
    while (x->op != LS_OP_CONST) {
        if (ls_ops[x->op].op_class != LS_CLASS_MOVE || x->n_src != 1 || x->op == LS_OP_PAD) {
            return false;
        }
        x = x->src[0];
    }
    if (out_value) {
        *out_value = ls_value_to_f64(x->dtype, x->attr.value);
    }
    return true;
}
