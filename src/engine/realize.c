/* Computing tensors: the graph's key, a compiled graph from the session's cache or a new one, memory for its
 * roots, the run.
 *
 * Invariants: a failure before the run, and LS_ERR_AGAIN, leave values and pending assignments as they were. Once a run has
 * begun its assignments are over, whether it failed or not, and every node of the variables' old versions
 * is stale. */
#include "engine/exec.h"
#include <string.h>

enum { CACHE_MAX = 256 };

/* ---- the cache ---- */

static bool key_equal(const void *a, const void *b) {
    const ls_exec *x = a, *y = b;
    return x->key_words == y->key_words && memcmp(x->key, y->key, x->key_words * sizeof *x->key) == 0;
}

void ls_exec_cache_init(ls_session *session) {
    ls_map_init(&session->execs, &session->context->heap, key_equal);
}

void ls_exec_cache_free(ls_session *session) {
    size_t pos = 0;
    for (ls_exec *exec; (exec = ls_map_next(&session->execs, &pos));) {
        ls_exec_free(exec);
    }
    ls_map_free(&session->execs);
}

/* Drops the one that was used least recently. */
static void cache_trim(ls_session *session) {
    ls_exec *oldest = NULL;
    size_t pos = 0;
    for (ls_exec *exec; session->execs.len > CACHE_MAX && (exec = ls_map_next(&session->execs, &pos));) {
        oldest = oldest && oldest->tick < exec->tick ? oldest : exec;
    }
    if (oldest) {
        ls_map_remove(&session->execs, oldest->hash, oldest);
        ls_exec_free(oldest);
    }
}

ls_status ls_exec_get(ls_session *session, const ls_graph_key *key, ls_tensor *const *roots, int n_roots,
                      const ls_pending *assigns, int n_assigns, ls_exec **out_exec, ls_error *err) {
    ls_exec probe = {.key = key->words.data, .key_words = key->words.len};
    ls_exec *exec = ls_map_get(&session->execs, key->hash, &probe);
    if (!exec) {
        LS_TRY(err, ls_exec_compile(session, key, roots, n_roots, assigns, n_assigns, &exec, err));
        if (!ls_map_put(&session->execs, exec->hash, exec, exec)) {
            ls_exec_free(exec);
            return LS_FAIL_MEMORY(err, "the cache of compiled graphs");
        }
    }
    exec->tick = ++session->tick;
    cache_trim(session);
    *out_exec = exec;
    return LS_OK;
}

/* ---- leaves ---- */

ls_status ls_leaf_buffer(ls_session *session, const ls_tensor *leaf, ls_buffer **out_buffer, ls_error *err) {
    if (leaf->op == LS_OP_VAR && !leaf->value) {
        const ls_var *var = leaf->attr.leaf.object;
        if (!var->storage) {
            return LS_FAIL(err, LS_ERR_INVALID, "variable \"%s\" is read after it was destroyed", var->name);
        }
        if (var->version != leaf->attr.leaf.serial) {
            return LS_FAIL(
                err, LS_ERR_INVALID,
                "a tensor reads variable \"%s\" as it was before it was assigned: realize it before the "
                "assignment or together with it",
                var->name);
        }
        *out_buffer = var->storage;
        return LS_OK;
    }
    if (!leaf->value) {
        return LS_FAIL(err, LS_ERR_INVALID, "%s \"%s\" has no value: only a program is given inputs",
                       ls_ops[leaf->op].name, leaf->label ? leaf->label : "");
    }
    if (!ls_has_value(session, leaf)) {
        char text[LS_SHAPE_TEXT];
        return LS_FAIL(err, LS_ERR_SHAPE, "data of shape %s was given for other values of its symbols",
                       ls_shape_text(&leaf->shape, text));
    }
    *out_buffer = leaf->value;
    return LS_OK;
}

/* ---- realize ---- */

typedef struct request {
    ls_session *session;
    LS_ARRAY(ls_tensor *) roots;
    const ls_pending *assigns;
    int n_assigns;
    ls_graph_key key;
    ls_exec *exec;
    LS_ARRAY(ls_buffer *) values; /* of the roots */
} request;

static ls_status collect(request *r, ls_tensor *const *tensors, int count, ls_error *err) {
    ls_session *session = r->session;
    if (session->graph.error.code != LS_OK) {
        *err = session->graph.error;
        return err->code;
    }
    if (count < 0) {
        return LS_FAIL(err, LS_ERR_INVALID, "%d tensors: expected 0 or more", count);
    }
    for (int i = 0; i < count; i++) {
        ls_tensor *x = tensors ? tensors[i] : NULL;
        if (!x || x->session != session) {
            return LS_FAIL(err, LS_ERR_INVALID, "tensor %d is %s", i, x ? "of another session" : "NULL");
        }
        bool known = x->op == LS_OP_DATA || ls_has_value(session, x);
        for (size_t j = 0; j < r->roots.len && !known; j++) {
            known = r->roots.data[j] == x;
        }
        if (!known && !ls_array_push(&session->context->heap, &r->roots, x)) {
            return LS_FAIL_MEMORY(err, "realize");
        }
    }
    return LS_OK;
}

static ls_status bind(request *r, ls_buffer *const *leaves, ls_error *err) {
    ls_session *session = r->session;
    ls_exec *exec = r->exec;
    ls_heap *heap = &session->context->heap;
    for (int i = 0; i < exec->n_leaves; i++) {
        exec->binds[i] = (ls_binding){leaves[i], 0};
    }
    for (int i = 0; i < exec->n_assigns; i++) {
        exec->binds[exec->assigns[i].bind] = (ls_binding){r->assigns[i].var->storage, 0};
    }
    for (int i = 0; i < exec->n_roots; i++) {
        const ls_tensor *root = exec->roots[i];
        ls_buffer *value;
        if (!ls_array_reserve(heap, &r->values, 1)) {
            return LS_FAIL_MEMORY(err, "realize");
        }
        LS_TRY(err, ls_buffer_create(root->device ? root->device : session->graph.device,
                                     ls_shape_bytes(root->dtype, &root->shape, NULL), &value, err));
        (void)ls_array_push(heap, &r->values, value);
        exec->binds[exec->first_root + i] = (ls_binding){value, 0};
    }
    return ls_exec_bind_arenas(exec, &session->arenas, err);
}

static ls_status run(request *r, ls_error *err) {
    ls_exec *exec = r->exec;
    ls_status status = ls_exec_run(exec, err);
    if (status == LS_ERR_AGAIN) { /* in check mode: the next attempt must not find what this one left */
        ls_arena_list_free(&r->session->context->heap, &r->session->arenas);
        return status;
    }
    for (int i = 0; i < r->n_assigns; i++) {
        r->assigns[i].var->version++;
    }
    if (r->n_assigns) {
        ls_session_clear_pending(r->session);
    }
    bool ran =
        status == LS_OK || status == LS_ERR_RANGE; /* an index out of range read NaN, and all else is right */
    for (size_t i = 0; ran && i < r->values.len; i++) {
        ls_buffer *value = r->values.data[i];
        value->symbols = exec->symbols;
        value->stamp = ls_symbols_stamp(r->session, exec->symbols);
        ls_buffer_release(r->roots.data[i]->value);
        r->roots.data[i]->value = ls_buffer_retain(value);
    }
    return status;
}

static ls_status realize(request *r, ls_tensor *const *tensors, int count, ls_error *err) {
    ls_session *session = r->session;
    ls_heap *heap = &session->context->heap;
    LS_TRY(err, ls_session_sync(session, err));
    LS_TRY(err, ls_exec_report(session, err));
    LS_TRY(err, collect(r, tensors, count, err));
    int n_roots = (int)r->roots.len;
    if (n_roots + r->n_assigns == 0) {
        return LS_OK;
    }
    LS_TRY(err, ls_graph_key_make(session, r->roots.data, n_roots, r->assigns, r->n_assigns, &r->key, err));
    ls_buffer **leaves = ls_alloc(heap, sizeof *leaves * (r->key.leaves.len + 1));
    ls_status status = leaves ? LS_OK : LS_FAIL_MEMORY(err, "realize");
    for (size_t i = 0; status == LS_OK && i < r->key.leaves.len; i++) {
        status = ls_leaf_buffer(session, r->key.leaves.data[i], &leaves[i], err);
    }
    if (status == LS_OK) {
        status =
            ls_exec_get(session, &r->key, r->roots.data, n_roots, r->assigns, r->n_assigns, &r->exec, err);
    }
    if (status == LS_OK) {
        status = bind(r, leaves, err);
    }
    ls_free(heap, leaves);
    return status == LS_OK ? run(r, err) : LS_FORWARD(err, status);
}

static ls_status compute(ls_session *session, ls_tensor *const *tensors, int count, bool assign, ls_error *err) {
    ls_heap *heap = &session->context->heap;
    request r = {.session = session};
    ls_numerics numerics = ls_numerics_enter();
    if (assign) {
        ls_session_forget_destroyed(session);
        r.assigns = session->pending.data;
        r.n_assigns = (int)session->pending.len;
    }
    ls_status status = realize(&r, tensors, count, err);
    for (size_t i = 0; i < r.values.len; i++) {
        ls_buffer_release(r.values.data[i]);
    }
    ls_array_free(heap, &r.values);
    ls_array_free(heap, &r.roots);
    ls_graph_key_free(session, &r.key);
    ls_numerics_leave(numerics);
    return status == LS_OK ? LS_OK : LS_FORWARD(err, status);
}

ls_status ls_compute(ls_session *session, ls_tensor *const *tensors, int count, ls_error *err) {
    return compute(session, tensors, count, false, err);
}

static ls_status compute_for_caller(ls_session *session, ls_tensor *const *tensors, int count, bool assign) {
    ls_error err = {0};
    ls_status status = compute(session, tensors, count, assign, &err);
    return status == LS_OK ? LS_OK : ls_session_fail(session, status, &err);
}

ls_status ls_realize(ls_session *session, ls_tensor *const *tensors, int count) {
    ls_error err = {0};
    LS_TRY(NULL, compute_for_caller(session, tensors, count, true));
    ls_status status =
        ls_exec_report(session, &err); /* after LS_ERR_AGAIN there is nothing left to compute */
    return status == LS_OK ? LS_OK : ls_session_fail(session, status, &err);
}

ls_status ls_read(ls_session *session, ls_tensor *tensor, void *data, size_t size) {
    ls_error err = {0};
    if (!tensor || tensor->session != session || session->graph.error.code != LS_OK) {
        return compute_for_caller(session, &tensor, 1, false); /* which says why not */
    }
    ls_status status = ls_session_sync(session, &err);
    size_t expected = ls_tensor_bytes(session, tensor);
    if (status == LS_OK && size != expected) {
        char text[LS_SHAPE_TEXT];
        status = LS_FAIL(&err, LS_ERR_INVALID, "read of %s %s into %zu bytes, expected %zu",
                         ls_dtype_name(tensor->dtype), ls_shape_text(&tensor->shape, text), size, expected);
    }
    if (status != LS_OK) {
        return ls_session_fail(session, status, &err);
    }
    bool leaf = tensor->op == LS_OP_DATA || tensor->op == LS_OP_VAR;
    ls_status ran = leaf || ls_has_value(session, tensor) ? LS_OK : compute_for_caller(session, &tensor, 1, false);
    if (ran != LS_OK && ran != LS_ERR_RANGE) {
        return ran;
    }
    ls_numerics numerics = ls_numerics_enter();
    ls_buffer *buffer;
    status = ls_exec_report(session, &err);
    if (status == LS_ERR_RANGE) { /* of a run on a late device */
        ran = ls_session_fail(session, status, &err);
        status = LS_OK;
    }
    status = status == LS_OK ? ls_leaf_buffer(session, tensor, &buffer, &err) : status;
    if (status == LS_OK) {
        status = ls_transfer_download(buffer, tensor->dtype, &tensor->shape, session->symbols, data, &err);
    }
    ls_numerics_leave(numerics);
    return status == LS_OK ? ran : ls_session_fail(session, status, &err);
}

/* ---- without blocking ---- */

ls_status ls_submit(ls_session *session, ls_tensor *const *tensors, int count, ls_ticket *out_ticket) {
    ls_device *device = session->graph.device;
    out_ticket->value = 0;
    ls_status status = compute_for_caller(session, tensors, count, true);
    if (status == LS_OK && device->backend->submit) {
        ls_error err = {0};
        status = device->backend->submit(device, &out_ticket->value, &err);
        return status == LS_OK ? LS_OK : ls_session_fail(session, status, &err);
    }
    return status;
}

/* A device that launches synchronously has no tickets: what was submitted is done. */
static ls_status wait_for(ls_session *session, ls_ticket ticket, int blocking, int *out_done) {
    ls_device *device = session->graph.device;
    *out_done = 1;
    if (!device->backend->wait || !ticket.value) {
        return LS_OK;
    }
    ls_error err = {0};
    ls_status status = device->backend->wait(device, ticket.value, blocking, out_done, &err);
    if (status == LS_OK && *out_done) {
        status = ls_exec_report(session, &err);
        *out_done = status != LS_ERR_AGAIN;
        status = status == LS_ERR_AGAIN && !blocking ? LS_OK : status;
    }
    return status == LS_OK ? LS_OK : ls_session_fail(session, status, &err);
}

ls_status ls_poll(ls_session *session, ls_ticket ticket, int *out_done) {
    return wait_for(session, ticket, 0, out_done);
}

ls_status ls_wait(ls_session *session, ls_ticket ticket) {
    int done;
    return wait_for(session, ticket, 1, &done);
}
