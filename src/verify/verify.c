/* A verified run: the oracle from the leaves first (a run may change variables), then the device with every
 * kernel shadowed. On a device that must not be waited for the oracle comes last, so that it is not asked again with each attempt;
 * there a run that changes variables is not checked. */
#include "verify/shadow.h"
#include <string.h>

typedef struct leaves {
    ls_session *session;
    ls_arena *arena;
} leaves;

static ls_status leaf_values(void *ctx, const ls_tensor *node, const void **out_data, ls_error *err) {
    leaves *l = ctx;
    if (node->op != LS_OP_VAR && !node->value) {
        return LS_FAIL(err, LS_ERR_INVALID, "verify: %s \"%s\" has no value: give it one with ls_tensor_from",
                       ls_ops[node->op].name, node->label ? node->label : "");
    }
    size_t size = ls_tensor_bytes(l->session, node);
    void *bytes = ls_arena_alloc(l->arena, size ? size : 1);
    if (!bytes) {
        return LS_FAIL_MEMORY(err, "the oracle's leaves");
    }
    ls_status status =
        ls_read(l->session, (ls_tensor *)node, bytes, size); /* a leaf: reading computes nothing */
    if (status == LS_ERR_AGAIN) {
        return LS_FAIL(err, status, "a leaf's value is on its way");
    }
    if (status != LS_OK) {
        *err = *ls_session_error(l->session);
        return status;
    }
    *out_data = bytes;
    return LS_OK;
}

static ls_status evaluate(ls_session *session, ls_arena *arena, ls_tensor *const *tensors, int count,
                          ls_balls *balls, ls_error *err) {
    leaves ctx = {session, arena};
    LS_TRY(err, ls_session_sync(session, err));
    ls_oracle_source source = {.ctx = &ctx, .values = leaf_values, .symbols = session->symbols};
    return ls_oracle_eval(arena, &source, tensors, count, balls, err);
}

/* Asks for the leaves of tensors; LS_ERR_AGAIN until all are there. */
static ls_status ask_leaves(ls_session *session, ls_tensor *const *tensors, int n, ls_error *err) {
    ls_arena arena;
    ls_arena_init(&arena, &session->context->heap);
    leaves ctx = {session, &arena};
    int n_nodes = 0;
    ls_tensor **nodes = ls_graph_order(&arena, tensors, n, &n_nodes);
    ls_status status = nodes ? LS_OK : LS_FAIL_MEMORY(err, "a verification"), late = LS_OK;
    for (int i = 0; i < n_nodes && status == LS_OK; i++) {
        const void *data;
        if (nodes[i]->n_src == 0 && (nodes[i]->op == LS_OP_VAR || nodes[i]->value)) {
            status = leaf_values(&ctx, nodes[i], &data, err);
        }
        if (status == LS_ERR_AGAIN) {
            late = status;
            status = LS_OK;
        }
    }
    ls_arena_free(&arena);
    return status == LS_OK ? late : status;
}

ls_status ls_oracle_value(ls_session *session, ls_tensor *tensor, double **out_middle, double **out_radius,
                          int64_t *out_count) {
    if (!ls_check_operands(session, "oracle_value", 1, &tensor)) {
        return ls_session_error(session)->code;
    }
    ls_heap *heap = &session->context->heap;
    ls_numerics numerics = ls_numerics_enter();
    ls_error err = {.code = LS_OK};
    ls_arena arena;
    ls_arena_init(&arena, heap);
    ls_balls balls = {.n = 0};
    ls_status status = evaluate(session, &arena, &tensor, 1, &balls, &err);
    double *middle = NULL, *radius = NULL;
    if (status == LS_OK) {
        middle = ls_alloc(heap, sizeof *middle * (size_t)(balls.n + 1));
        radius = ls_alloc(heap, sizeof *radius * (size_t)(balls.n + 1));
        status = middle && radius ? LS_OK : LS_FAIL_MEMORY(&err, "the oracle's values");
    }
    for (int64_t i = 0; i < balls.n && status == LS_OK; i++) {
        ls_ball b = ls_balls_at(&balls, i);
        middle[i] = b.m;
        radius[i] = b.r;
    }
    ls_arena_free(&arena);
    ls_numerics_leave(numerics);
    if (status != LS_OK) {
        ls_free(heap, middle);
        ls_free(heap, radius);
        return ls_session_fail(session, status, &err);
    }
    *out_middle = middle;
    *out_radius = radius;
    *out_count = balls.n;
    return LS_OK;
}

void ls_verify_free(ls_session *session, void *array) {
    ls_free(&session->context->heap, array);
}

void ls_verification_free(ls_session *session, ls_verification *v) {
    if (v) {
        ls_heap *heap = &session->context->heap;
        for (int i = 0; i < v->n_kernels; i++) {
            ls_kernel_report_free(heap, &v->kernels[i]);
        }
        ls_free(heap, v->kernels);
        ls_free(heap, v->outputs);
        ls_free(heap, v);
    }
}

static void count(ls_verification *v, const ls_report *r, int kernel, double *blind, double *elements) {
    v->verdict = r->verdict > v->verdict ? r->verdict : v->verdict;
    v->worst_of_bound = r->worst_of_bound > v->worst_of_bound ? r->worst_of_bound : v->worst_of_bound;
    if (r->verdict == LS_DIFFERS && v->first_divergence < 0) {
        v->first_divergence = kernel;
    }
    *blind += (double)r->blind;
    *elements += (double)r->elements;
}

/* Every element of a locked kernel that is not equal to ref's is a divergence, blind or not; blind shares are
 * the oracle's. */
static void conclude(ls_verification *v) {
    double blind = 0, elements = 0, unused = 0;
    bool all_locked = v->n_kernels > 0;
    v->first_divergence = -1;
    for (int i = 0; i < v->n_kernels; i++) {
        ls_kernel_report *k = &v->kernels[i];
        if (k->ref_done) {
            count(v, &k->ref, i, &unused, &unused);
        }
        all_locked &= k->ref_done;
        count(v, &k->oracle, i, &blind, &elements);
    }
    v->blind = elements > 0 ? blind / elements : 0;
    if (v->end_to_end.verdict == LS_DIFFERS) {
        v->verdict = LS_DIFFERS;
    } else if (v->verdict == LS_WITHIN_BOUND && all_locked) {
        v->verdict = LS_SAME;
    }
}

/* The outputs, once computed, against the oracle's values from the leaves. */
static ls_status end_to_end(ls_session *session, ls_tensor *const *tensors, int n, const ls_balls *balls,
                            const ls_collector *collector, ls_verification *v) {
    for (int i = 0; i < n; i++) {
        ls_data *actual = NULL;
        ls_status status = ls_data_from_tensor(session, tensors[i], &actual);
        if (status != LS_OK) {
            return status;
        }
        ls_output_report *o = &v->outputs[v->n_outputs++];
        const ls_buffer *value = tensors[i]->value;
        o->kernel = value ? ls_collector_writer(collector, value, value->base, value->size) : -1;
        ls_compare_balls(actual, &balls[i], &o->oracle);
        const ls_report *r = &o->oracle, *worst = &v->end_to_end;
        if (i == 0 || r->verdict > worst->verdict || (r->verdict == worst->verdict && r->worst_of_bound > worst->worst_of_bound)) {
            v->end_to_end = *r;
        }
        ls_data_release(actual);
    }
    return LS_OK;
}

/* Whether each of the tensors is to be computed, and so is verified. */
static bool *find_missing(ls_arena *arena, ls_tensor *const *tensors, int n) {
    bool *missing = LS_ARENA_ARRAY(arena, bool, n + 1);
    for (int i = 0; missing && i < n; i++) {
        missing[i] = !tensors[i]->value;
    }
    return missing;
}

/* The next attempt must not find computed what it has to verify. */
static void forget_values(ls_tensor *const *tensors, int n, const bool *missing) {
    for (int i = 0; i < n; i++) {
        if (missing[i] && tensors[i]->value) {
            ls_buffer_release(tensors[i]->value);
            tensors[i]->value = NULL;
        }
    }
}

/* Puts a collector in the session's way, and takes it out. */
static ls_check begin_collecting(ls_session *session, ls_collector *collector) {
    ls_check before = session->check;
    session->check = LS_CHECK_ORACLE;
    session->verification = collector;
    return before;
}
static void end_collecting(ls_session *session, ls_check before) {
    session->verification = NULL;
    session->check = before;
}

/* *out_recorded: the status is a public call's, whose error the session has. */
static ls_status verify(ls_session *session, ls_tensor *const *tensors, int n, ls_arena *arena, ls_collector *collector, ls_verification *v,
                        bool *out_recorded, ls_error *err) {
    ls_balls *balls = LS_ARENA_ARRAY(arena, ls_balls, n + 1);
    bool *missing = find_missing(arena, tensors, n);
    v->outputs = ls_alloc_zeroed(collector->heap, sizeof *v->outputs * (size_t)(n + 1));
    if (!balls || !missing || !v->outputs) {
        return LS_FAIL_MEMORY(err, "a verification");
    }
    bool late = session->graph.device->late && session->pending.len == 0;
    LS_TRY(err, late ? ask_leaves(session, tensors, n, err) : evaluate(session, arena, tensors, n, balls, err));
    ls_check before = begin_collecting(session, collector);
    ls_status status = ls_realize(session, tensors, n);
    end_collecting(session, before);
    *out_recorded = status != LS_OK;
    if (status == LS_OK && late) {
        status = evaluate(session, arena, tensors, n, balls, err);
    }
    if (status == LS_OK) {
        status = end_to_end(session, tensors, n, balls, collector, v);
        *out_recorded = status != LS_OK;
    }
    if (status == LS_ERR_AGAIN) {
        forget_values(tensors, n, missing);
    }
    return status;
}

/* Of tensors, or of those that `build` makes in their place. */
static ls_status verify_all(ls_session *session, ls_build_fn build, void *user, ls_tensor **tensors, int n, ls_verification **out_verification) {
    ls_heap *heap = &session->context->heap;
    ls_numerics numerics = ls_numerics_enter();
    ls_error err = {.code = LS_OK};
    ls_arena arena;
    ls_arena_init(&arena, heap);
    ls_verification *v = ls_alloc_zeroed(heap, sizeof *v);
    ls_collector collector = {.heap = heap};
    bool recorded = false;
    ls_status status = v ? LS_OK : LS_FAIL_MEMORY(&err, "a verification");
    if (status == LS_OK && build) {
        ls_check before = begin_collecting(session, &collector);
        status = build(user, session, tensors);
        end_collecting(session, before);
        recorded = status != LS_OK;
        if (status == LS_OK && !ls_check_operands(session, "verify", n, tensors)) {
            status = ls_session_error(session)->code;
            recorded = true;
        }
    }
    status = status == LS_OK ? verify(session, tensors, n, &arena, &collector, v, &recorded, &err) : status;
    ls_arena_free(&arena);
    ls_numerics_leave(numerics);
    if (status == LS_OK) {
        v->kernels = collector.kernels.data;
        v->n_kernels = (int)collector.kernels.len;
        collector.kernels.data = NULL;
        collector.kernels.len = 0;
        conclude(v);
        *out_verification = v;
    }
    ls_collector_free(&collector);
    if (status != LS_OK) {
        ls_verification_free(session, v);
        return recorded ? status : ls_session_fail(session, status, &err);
    }
    return LS_OK;
}

ls_status ls_verify(ls_session *session, ls_tensor *const *tensors, int n, ls_verification **out_verification) {
    if (!ls_check_operands(session, "verify", n, tensors)) {
        return ls_session_error(session)->code;
    }
    return verify_all(session, NULL, NULL, (ls_tensor **)tensors, n, out_verification); /* nothing is built: they are only read */
}

ls_status ls_verify_built(ls_session *session, ls_build_fn build, void *user, int n, ls_verification **out_verification) {
    ls_heap *heap = &session->context->heap;
    ls_tensor **tensors = ls_alloc_zeroed(heap, sizeof *tensors * (size_t)(n > 0 ? n + 1 : 1));
    if (!tensors) {
        ls_error err = {.code = LS_OK};
        (void)LS_FAIL_MEMORY(&err, "a verification");
        return ls_session_fail(session, LS_ERR_MEMORY, &err);
    }
    ls_status status = verify_all(session, build, user, tensors, n, out_verification);
    ls_free(heap, tensors);
    return status;
}
