/* Loops. The body is built once, on PARAM nodes. What it uses from outside is captured: each largest
 * subgraph that depends on no parameter is computed once, before the loop, and enters the body as another
 * parameter. Constants, positions and extents stay in the body, and so does movement, which costs nothing
 * there and must not lose its absent elements. */
#include "graph/build.h"
#include <string.h>

typedef struct state {
    ls_tensor *mapped; /* in the final body; NULL until made */
    bool inside;       /* depends on a parameter */
} state;

typedef struct builder {
    ls_session *s;
    ls_heap *heap;
    ls_arena arena;
    ls_body *body;
    LS_ARRAY(ls_tensor *) captures; /* outside */
    LS_ARRAY(ls_tensor *) inner;    /* their parameters */
    ls_tensor **results;            /* as the body returned them */
    ls_tensor **order;
    int n_order;
} builder;

static ls_tensor *param(ls_session *s, ls_dtype dtype, const ls_shape *shape, ls_device *device) {
    ls_attr_leaf leaf = {NULL, ls_leaf_serial(s)};
    return ls_leaf(s, LS_OP_PARAM, dtype, shape, device, leaf, NULL);
}

static bool loop_check(ls_session *s, ls_dim trip, int n_carry, ls_tensor *const *carry, int n_xs,
                       ls_tensor *const *xs, int n_ys) {
    ls_shape steps = {.rank = 1, .dim = {trip}};
    if (n_carry < 0 || n_xs < 0 || n_ys < 0 || n_carry + n_ys == 0) {
        LS_NODE_FAIL(s, LS_ERR_INVALID,
                     "loop: %d carried values, %d xs and %d ys: expected at least one result", n_carry, n_xs,
                     n_ys);
        return false;
    }
    if (!ls_check_operands(s, "loop", n_carry, carry) || !ls_check_operands(s, "loop", n_xs, xs) ||
        !ls_shape_check(s, "loop", &steps)) {
        return false;
    }
    for (int i = 0; i < n_xs; i++) {
        if (xs[i]->shape.rank == 0 || !ls_dim_equal(xs[i]->shape.dim[0], trip)) {
            LS_NODE_FAIL(s, LS_ERR_SHAPE, "loop: xs %d is %s: expected axis 0 to be the trip count %s", i,
                         LS_TEXT(xs[i]), LS_SHAPE_TEXT_OF(&steps));
            return false;
        }
    }
    return true;
}

/* Parameters and the run of the caller's body. */
static ls_status body_trace(builder *b, ls_tensor *const *carry, ls_tensor *const *xs, ls_loop_fn fn,
                            void *ctx) {
    ls_session *s = b->s;
    ls_body *body = b->body;
    ls_error *err = &ls_graph_of(s)->error;
    int n = body->n_carry + body->n_xs, n_results = body->n_carry + body->n_ys;
    ls_shape scalar = LS_SCALAR;
    ls_tensor **params = LS_ARENA_ARRAY(&b->arena, ls_tensor *, n + 1);
    b->results = LS_ARENA_ARRAY(&b->arena, ls_tensor *, n_results);
    body->iteration = ls_retain(param(s, LS_I64, &scalar, NULL));
    if (!params || !b->results || !body->iteration) {
        return LS_FAIL_MEMORY(err, "a loop");
    }
    for (int i = 0; i < n; i++) {
        const ls_tensor *x = i < body->n_carry ? carry[i] : xs[i - body->n_carry];
        ls_shape shape = i < body->n_carry ? x->shape : ls_shape_remove(&x->shape, 0);
        params[i] = param(s, x->dtype, &shape, x->device);
        if (!params[i]) {
            return LS_FAIL_MEMORY(err, "a loop");
        }
    }
    for (int i = 0; i < n; i++) {
        body->params[i] = ls_retain(params[i]);
    }
    ls_status status =
        fn(s, ctx, body->iteration, params, params + body->n_carry, b->results, b->results + body->n_carry);
    if (status != LS_OK) {
        return LS_FAIL(err, status, "loop: its body failed (%s)", ls_status_name(status));
    }
    for (int i = 0; i < n_results; i++) {
        const ls_tensor *r = b->results[i];
        if (!r || r->session != s) {
            return LS_FAIL(err, LS_ERR_INVALID,
                           "loop: result %d of its body is %s: expected a tensor of this session", i,
                           r ? "of another session" : "NULL");
        }
        if (i < body->n_carry &&
            (r->dtype != carry[i]->dtype || !ls_shape_equal(&r->shape, &carry[i]->shape))) {
            return LS_FAIL(err, LS_ERR_SHAPE,
                           "loop: carried value %d enters as %s and leaves as %s: expected the same", i,
                           LS_TEXT(carry[i]), LS_TEXT(r));
        }
    }
    return LS_OK;
}

static bool stays_inside(const ls_tensor *x) {
    return x->op == LS_OP_CONST || x->op == LS_OP_IOTA || x->op == LS_OP_DIM ||
           ls_ops[x->op].op_class == LS_CLASS_MOVE;
}

/* The parameter that stands for an outside node. */
static ls_tensor *capture(builder *b, ls_tensor *x) {
    ls_tensor *p = param(b->s, x->dtype, &x->shape, x->device);
    if (!p || !ls_array_push(b->heap, &b->captures, x)) {
        return NULL;
    }
    if (!ls_array_push(b->heap, &b->inner, p)) {
        b->captures.len--;
        return NULL;
    }
    return p;
}

/* The node of the final body for `x`, whose operands that count have theirs already. */
static ls_tensor *map_node(builder *b, ls_tensor *x, ls_tensor **src) {
    state *st = x->mark;
    if (!st->mapped && !st->inside && !stays_inside(x)) {
        st->mapped = capture(b, x);
    } else if (!st->mapped) {
        for (int i = 0; i < x->n_src; i++) {
            src[i] = ((state *)x->src[i]->mark)->mapped;
        }
        st->mapped = x->n_src ? ls_node_with(b->s, x, src) : x;
    }
    return st->mapped;
}

/* Which nodes the final body needs, from the results down: not the insides of captures. In operands-first
 * order. */
static bool body_map(builder *b) {
    int n_results = b->body->n_carry + b->body->n_ys, most = 1;
    bool *needed = LS_ARENA_ARRAY(&b->arena, bool, b->n_order + 1);
    state *states = LS_ARENA_ARRAY(&b->arena, state, b->n_order + 1);
    if (!needed || !states) {
        return false;
    }
    for (int i = 0; i < b->n_order; i++) {
        ls_tensor *x = b->order[i];
        x->mark = &states[i];
        most = x->n_src > most ? x->n_src : most;
    }
    int n_params = b->body->n_carry + b->body->n_xs;
    for (int i = -1; i < n_params; i++) {
        ls_tensor *p = i < 0 ? b->body->iteration : b->body->params[i];
        if (p->mark) {
            *(state *)p->mark = (state){p, true};
        }
    }
    for (int i = 0; i < b->n_order; i++) {
        for (int j = 0; j < b->order[i]->n_src; j++) {
            states[i].inside |= ((state *)b->order[i]->src[j]->mark)->inside;
        }
    }
    for (int r = 0; r < n_results; r++) {
        needed[(state *)b->results[r]->mark - states] = true;
    }
    for (int i = b->n_order; i-- > 0;) {
        ls_tensor *x = b->order[i];
        if (needed[i] && (states[i].inside || stays_inside(x))) {
            for (int j = 0; j < x->n_src; j++) {
                needed[(state *)x->src[j]->mark - states] = true;
            }
        }
    }
    ls_tensor **src = LS_ARENA_ARRAY(&b->arena, ls_tensor *, most);
    bool ok = src != NULL;
    for (int i = 0; ok && i < b->n_order; i++) {
        ok = !needed[i] || map_node(b, b->order[i], src);
    }
    for (int r = 0; ok && r < n_results; r++) {
        b->body->results[r] = ls_retain(((state *)b->results[r]->mark)->mapped);
    }
    return ok;
}

static bool body_finish(builder *b) {
    b->order = ls_graph_order(&b->arena, b->results, b->body->n_carry + b->body->n_ys, &b->n_order);
    bool ok = b->order && body_map(b);
    for (int i = 0; i < b->n_order; i++) {
        b->order[i]->mark = NULL;
    }
    int n = b->body->n_carry + b->body->n_xs;
    ls_tensor **params =
        ok ? ls_alloc_zeroed(b->heap, sizeof *params * ((size_t)n + b->captures.len + 1)) : NULL;
    if (!params) {
        return false;
    }
    memcpy(params, b->body->params, sizeof *params * (size_t)n);
    ls_free(b->heap, b->body->params);
    b->body->params = params;
    for (size_t i = 0; i < b->captures.len; i++) {
        params[(size_t)n + i] = ls_retain(b->inner.data[i]);
    }
    b->body->n_captures = (int)b->captures.len;
    return true;
}

static ls_body *body_create(ls_heap *heap, int n_carry, int n_xs, int n_ys) {
    ls_body *body = ls_alloc_zeroed(heap, sizeof *body);
    if (!body) {
        return NULL;
    }
    *body = (ls_body){.n_carry = n_carry, .n_xs = n_xs, .n_ys = n_ys, .refs = 1};
    body->params = ls_alloc_zeroed(heap, sizeof *body->params * ((size_t)(n_carry + n_xs) + 1));
    body->results = ls_alloc_zeroed(heap, sizeof *body->results * ((size_t)(n_carry + n_ys) + 1));
    if (!body->params || !body->results) {
        ls_free(heap, body->params);
        ls_free(heap, body->results);
        ls_free(heap, body);
        return NULL;
    }
    return body;
}

/* The LOOP over [carries, xs, captures] and a RESULT for each carry and y. */
static ls_status loop_nodes(builder *b, ls_dim trip, ls_tensor *const *carry, ls_tensor *const *xs,
                            ls_tensor **out_carry, ls_tensor **out_ys) {
    ls_error *err = &ls_graph_of(b->s)->error;
    ls_body *body = b->body;
    int n_in = body->n_carry + body->n_xs;
    ls_tensor **src = LS_ARENA_ARRAY(&b->arena, ls_tensor *, n_in + body->n_captures + 1);
    if (!src) {
        return LS_FAIL_MEMORY(err, "a loop");
    }
    for (int i = 0; i < n_in + body->n_captures; i++) {
        src[i] = i < body->n_carry ? carry[i] : i < n_in ? xs[i - body->n_carry] : b->captures.data[i - n_in];
    }
    ls_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.loop.body = body;
    attr.loop.trip = trip;
    ls_shape scalar = LS_SCALAR;
    ls_tensor *loop = ls_node(b->s, LS_OP_LOOP, LS_BOOL, &scalar, n_in + body->n_captures, src, &attr);
    for (int i = 0; loop && i < body->n_carry + body->n_ys; i++) {
        bool carried = i < body->n_carry;
        ls_shape shape = body->results[i]->shape;
        if (!carried && shape.rank == LS_MAX_RANK) {
            return LS_FAIL(err, LS_ERR_SHAPE, "loop: y %d is %s: expected rank %d at most, as ys are stacked",
                           i - body->n_carry, LS_TEXT(body->results[i]), LS_MAX_RANK - 1);
        }
        if (!carried) {
            shape = ls_shape_insert(&shape, 0, trip);
        }
        memset(&attr, 0, sizeof attr);
        attr.loop.result = i;
        ls_tensor *result = ls_node(b->s, LS_OP_RESULT, body->results[i]->dtype, &shape, 1, &loop, &attr);
        *(carried ? &out_carry[i] : &out_ys[i - body->n_carry]) = result;
        loop = result ? loop : NULL;
    }
    return loop ? LS_OK : err->code;
}

ls_status ls_loop(ls_session *s, ls_dim trip, int n_carry, ls_tensor *const *carry, int n_xs,
                  ls_tensor *const *xs, int n_ys, ls_loop_fn body, void *ctx, ls_tensor **out_carry,
                  ls_tensor **out_ys) {
    ls_graph *g = ls_graph_of(s);
    for (int i = 0; i < n_carry; i++) {
        out_carry[i] = NULL;
    }
    for (int i = 0; i < n_ys; i++) {
        out_ys[i] = NULL;
    }
    if (!loop_check(s, trip, n_carry, carry, n_xs, xs, n_ys) || !ls_check_given(s, "loop", "body", body ? s : NULL)) {
        return g->error.code;
    }
    builder b = {.s = s, .heap = g->heap};
    ls_arena_init(&b.arena, g->heap);
    b.body = body_create(g->heap, n_carry, n_xs, n_ys);
    if (!b.body) {
        return LS_FAIL_MEMORY(&g->error, "a loop");
    }
    ls_status status = ls_scope_begin(s); /* what the body makes belongs to the body */
    size_t depth = g->scopes.len;
    bool opened = status == LS_OK;
    if (opened) {
        status = body_trace(&b, carry, xs, body, ctx);
        while (g->scopes.len > depth) { /* left open by the body */
            ls_scope_end(s);
        }
    }
    if (status == LS_OK && !body_finish(&b)) {
        status = LS_FAIL_MEMORY(&g->error, "a loop");
    }
    for (size_t i = 0; i < b.captures.len; i++) {
        ls_retain(b.captures.data[i]);
    }
    if (opened) {
        ls_scope_end(s);
    }
    if (status == LS_OK) {
        status = loop_nodes(&b, trip, carry, xs, out_carry, out_ys);
    }
    for (size_t i = 0; i < b.captures.len; i++) {
        ls_release(b.captures.data[i]);
    }
    ls_array_free(g->heap, &b.captures);
    ls_array_free(g->heap, &b.inner);
    ls_body_release(s, b.body);
    ls_arena_free(&b.arena);
    return status;
}
