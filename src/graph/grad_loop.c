/* The derivative of a loop is a loop that runs backwards.
 *
 * A forward loop stacks the carried values at the start of each iteration. The backward loop carries their
 * cotangents and the sums for captured tensors, rebuilds one iteration of the body on the stacked values,
 * differentiates it, and stacks the cotangents of the iteration's slices. It is built by ls_loop, so it
 * differentiates again. */
#include "graph/grad.h"

typedef struct loop_grad {
    ls_session *s;
    ls_arena *arena;
    const ls_tensor *loop;
    const ls_body *body;
    int n_carry, n_xs, n_captures, n_ys, n_results;
    ls_tensor **g_ys; /* cotangents of ys; NULL where there are none */
    int *carried;     /* of the backward loop's carries: index of a carry, or n_carry + index of a capture */
    int n_carried;
    int *sliced; /* of its ys: indices of xs */
    int n_sliced;
    int *seeded; /* of its xs after carries and xs: indices of ys */
    int n_seeded;
} loop_grad;

static bool same(const void *a, const void *b) {
    return a == b;
}
static uint64_t hash_of(const ls_tensor *x) {
    return ls_hash_u64((uint64_t)(uintptr_t)x, 0);
}

/* The body's results over other tensors than its parameters. */
static bool replay(loop_grad *l, ls_tensor *iteration, ls_tensor *const *params, ls_tensor **out_results) {
    int n = 0, most = 1, n_params = l->n_carry + l->n_xs + l->n_captures;
    ls_tensor **order = ls_graph_order(l->arena, l->body->results, l->n_results, &n);
    ls_map map;
    ls_map_init(&map, l->arena->heap, same);
    bool ok = order && ls_map_put(&map, hash_of(l->body->iteration), l->body->iteration, iteration);
    for (int i = 0; ok && i < n_params; i++) {
        ok = ls_map_put(&map, hash_of(l->body->params[i]), l->body->params[i], params[i]);
    }
    for (int i = 0; ok && i < n; i++) {
        most = order[i]->n_src > most ? order[i]->n_src : most;
    }
    ls_tensor **src = ok ? LS_ARENA_ARRAY(l->arena, ls_tensor *, most) : NULL;
    ok = src != NULL;
    for (int i = 0; ok && i < n; i++) {
        if (ls_map_get(&map, hash_of(order[i]), order[i])) {
            continue;
        }
        for (int k = 0; k < order[i]->n_src; k++) {
            src[k] = ls_map_get(&map, hash_of(order[i]->src[k]), order[i]->src[k]);
        }
        ls_tensor *made = order[i]->n_src ? ls_node_with(l->s, order[i], src) : order[i];
        ok = made && ls_map_put(&map, hash_of(order[i]), order[i], made);
    }
    for (int i = 0; ok && i < l->n_results; i++) {
        out_results[i] = ls_map_get(&map, hash_of(l->body->results[i]), l->body->results[i]);
    }
    ls_map_free(&map);
    return ok;
}

static ls_status fail(loop_grad *l) {
    const ls_error *err = ls_session_error(l->s);
    if (err->code == LS_OK) {
        LS_NODE_FAIL(l->s, LS_ERR_MEMORY, "grad: out of memory for a loop");
    }
    return err->code;
}

/* The forward loop again, stacking what it carries. */
static ls_status forward_body(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                              ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)s;
    loop_grad *l = ctx;
    ls_tensor **params = LS_ARENA_ARRAY(l->arena, ls_tensor *, l->n_carry + l->n_xs + l->n_captures + 1);
    ls_tensor **results = LS_ARENA_ARRAY(l->arena, ls_tensor *, l->n_results + 1);
    if (!params || !results) {
        return fail(l);
    }
    for (int i = 0; i < l->n_carry + l->n_xs + l->n_captures; i++) {
        params[i] = i < l->n_carry             ? carry[i]
                    : i < l->n_carry + l->n_xs ? xs[i - l->n_carry]
                                               : l->loop->src[i];
    }
    if (!replay(l, iteration, params, results)) {
        return fail(l);
    }
    for (int i = 0; i < l->n_carry; i++) {
        out_carry[i] = results[i];
        out_ys[i] = carry[i];
    }
    return LS_OK;
}

static ls_status backward_body(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                               ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    loop_grad *l = ctx;
    int n_params = l->n_carry + l->n_xs + l->n_captures, n_roots = 0, n_wanted = l->n_carried + l->n_sliced;
    ls_tensor **params = LS_ARENA_ARRAY(l->arena, ls_tensor *, n_params + 1);
    ls_tensor **results = LS_ARENA_ARRAY(l->arena, ls_tensor *, l->n_results + 1);
    ls_tensor **roots = LS_ARENA_ARRAY(l->arena, ls_tensor *, l->n_results + 1);
    ls_tensor **seeds = LS_ARENA_ARRAY(l->arena, ls_tensor *, l->n_results + 1);
    ls_tensor **wanted = LS_ARENA_ARRAY(l->arena, ls_tensor *, n_wanted + 1);
    ls_tensor **grads = LS_ARENA_ARRAY(l->arena, ls_tensor *, n_wanted + 1);
    if (!params || !results || !roots || !seeds || !wanted || !grads) {
        return fail(l);
    }
    for (int i = 0; i < n_params; i++) {
        params[i] = i < l->n_carry + l->n_xs ? xs[i] : l->loop->src[i];
    }
    ls_dim trip = l->loop->attr.loop.trip;
    ls_tensor *last = ls_dim_value(s, (ls_dim){trip.symbol, trip.scale, trip.offset - 1});
    if (!replay(l, ls_sub(s, last, iteration), params, results)) {
        return fail(l);
    }
    for (int i = 0; i < l->n_carried; i++) {
        wanted[i] = params[l->carried[i] < l->n_carry ? l->carried[i] : l->n_xs + l->carried[i]];
        if (l->carried[i] < l->n_carry) {
            roots[n_roots] = results[l->carried[i]];
            seeds[n_roots++] = carry[i];
        }
    }
    for (int i = 0; i < l->n_sliced; i++) {
        wanted[l->n_carried + i] = params[l->n_carry + l->sliced[i]];
    }
    for (int i = 0; i < l->n_seeded; i++) {
        roots[n_roots] = results[l->n_carry + l->seeded[i]];
        seeds[n_roots++] = xs[l->n_carry + l->n_xs + i];
    }
    ls_status status = ls_grad_many(s, n_roots, roots, seeds, n_wanted, wanted, true, grads);
    for (int i = 0; i < l->n_carried && status == LS_OK; i++) {
        out_carry[i] = l->carried[i] < l->n_carry ? grads[i] : ls_add(s, carry[i], grads[i]);
        status = out_carry[i] ? LS_OK : fail(l);
    }
    for (int i = 0; i < l->n_sliced && status == LS_OK; i++) {
        out_ys[i] = grads[l->n_carried + i];
    }
    return status;
}

/* What the backward loop carries, stacks and is seeded with. */
static bool choose(ls_grad_state *st, loop_grad *l) {
    l->carried = LS_ARENA_ARRAY(l->arena, int, l->n_carry + l->n_captures + 1);
    l->sliced = LS_ARENA_ARRAY(l->arena, int, l->n_xs + 1);
    l->seeded = LS_ARENA_ARRAY(l->arena, int, l->n_ys + 1);
    l->g_ys = LS_ARENA_ARRAY(l->arena, ls_tensor *, l->n_ys + 1);
    if (!l->carried || !l->sliced || !l->seeded || !l->g_ys) {
        return false;
    }
    for (int i = 0; i < l->n_carry + l->n_captures;
         i++) { /* every floating carry: one may feed another that is wanted */
        const ls_tensor *x = l->loop->src[i < l->n_carry ? i : l->n_xs + i];
        if (ls_dtype_is_float(x->dtype) && (i < l->n_carry || ls_grad_wanted(st, x))) {
            l->carried[l->n_carried++] = i;
        }
    }
    for (int i = 0; i < l->n_xs; i++) {
        if (ls_grad_wanted(st, l->loop->src[l->n_carry + i])) {
            l->sliced[l->n_sliced++] = i;
        }
    }
    for (int i = 0; i < l->n_ys; i++) {
        l->g_ys[i] = ls_grad_of_result(st, l->loop, l->n_carry + i);
        if (l->g_ys[i]) {
            l->seeded[l->n_seeded++] = i;
        }
    }
    return true;
}

static ls_status run(ls_grad_state *st, loop_grad *l) {
    ls_session *s = l->s;
    ls_tensor *const *src = l->loop->src;
    ls_dim trip = l->loop->attr.loop.trip;
    int n_back_xs = l->n_carry + l->n_xs + l->n_seeded;
    ls_tensor **ends = LS_ARENA_ARRAY(l->arena, ls_tensor *, l->n_carry + 1);
    ls_tensor **saved = LS_ARENA_ARRAY(l->arena, ls_tensor *, l->n_carry + 1);
    ls_tensor **carry = LS_ARENA_ARRAY(l->arena, ls_tensor *, l->n_carried + 1);
    ls_tensor **xs = LS_ARENA_ARRAY(l->arena, ls_tensor *, n_back_xs + 1);
    ls_tensor **out_carry = LS_ARENA_ARRAY(l->arena, ls_tensor *, l->n_carried + 1);
    ls_tensor **out_ys = LS_ARENA_ARRAY(l->arena, ls_tensor *, l->n_sliced + 1);
    if (!ends || !saved || !carry || !xs || !out_carry || !out_ys) {
        return fail(l);
    }
    if (l->n_carry > 0) {
        LS_TRY(NULL, ls_loop(s, trip, l->n_carry, src, l->n_xs, src + l->n_carry, l->n_carry, forward_body, l,
                             ends, saved));
    }
    for (int i = 0; i < l->n_carried; i++) {
        int c = l->carried[i];
        ls_tensor *g = c < l->n_carry ? ls_grad_of_result(st, l->loop, c) : NULL;
        carry[i] = g ? g : ls_const_like(s, src[c < l->n_carry ? c : l->n_xs + c], 0);
    }
    for (int i = 0; i < n_back_xs; i++) {
        ls_tensor *x = i < l->n_carry             ? saved[i]
                       : i < l->n_carry + l->n_xs ? src[i]
                                                  : l->g_ys[l->seeded[i - l->n_carry - l->n_xs]];
        xs[i] = ls_flip(s, x, 0);
    }
    LS_TRY(NULL, ls_loop(s, trip, l->n_carried, carry, n_back_xs, xs, l->n_sliced, backward_body, l,
                         out_carry, out_ys));
    for (int i = 0; i < l->n_carried; i++) {
        int c = l->carried[i];
        ls_grad_give(st, src[c < l->n_carry ? c : l->n_xs + c], out_carry[i]);
    }
    for (int i = 0; i < l->n_sliced; i++) {
        ls_grad_give(st, src[l->n_carry + l->sliced[i]], ls_flip(s, out_ys[i], 0));
    }
    return st->status;
}

void ls_grad_loop(ls_grad_state *st, ls_tensor *loop) {
    const ls_body *body = loop->attr.loop.body;
    ls_arena arena;
    ls_arena_init(&arena, st->arena->heap);
    loop_grad l = {.s = st->s,
                   .arena = &arena,
                   .loop = loop,
                   .body = body,
                   .n_carry = body->n_carry,
                   .n_xs = body->n_xs,
                   .n_captures = body->n_captures,
                   .n_ys = body->n_ys,
                   .n_results = body->n_carry + body->n_ys};
    ls_status status = choose(st, &l) ? LS_OK : fail(&l);
    if (status == LS_OK && l.n_carried + l.n_sliced > 0) {
        status = run(st, &l);
    }
    if (status != LS_OK) {
        st->status = status;
    }
    ls_arena_free(&arena);
}
