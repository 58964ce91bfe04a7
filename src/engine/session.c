/* Sessions: symbol values, pending assignments, the first error. */
#include "engine/exec.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static ls_status default_device(ls_context *context, ls_device **device, ls_error *err) {
    return *device ? LS_OK : ls_device_open(context, ls_backends[0]->name, device, err);
}

ls_status ls_session_create(ls_context *context, ls_device *device, ls_session **out_session, ls_error *err) {
    *out_session = NULL;
    if (device && device->context != context) {
        return LS_FAIL(err, LS_ERR_DEVICE, "device %s belongs to another context", device->id);
    }
    LS_TRY(err, default_device(context, &device, err));
    ls_heap *heap = &context->heap;
    ls_session *session = ls_alloc_zeroed(heap, sizeof *session);
    if (!session) {
        return LS_FAIL_MEMORY(err, "a session");
    }
    session->context = context;
    ls_status status = ls_graph_init(&session->graph, heap, session);
    if (status != LS_OK) {
        ls_free(heap, session);
        return LS_FAIL(err, status, "the graph of a session was not made");
    }
    session->fusion = 1;
    session->graph.device = device;
    session->graph.math = LS_LOCKED;
    session->graph.release_value = ls_buffer_release;
    ls_exec_cache_init(session);
    *out_session = session;
    return LS_OK;
}

void ls_session_destroy(ls_session *session) {
    if (session) {
        ls_heap *heap = &session->context->heap;
        ls_session_clear_pending(session);
        ls_exec_cache_free(session);
        ls_arena_list_free(heap, &session->arenas);
        ls_array_free(heap, &session->pending);
        ls_graph_free(&session->graph);
        ls_free(heap, session->symbols);
        ls_free(heap, session);
    }
}

ls_context *ls_session_context(const ls_session *session) {
    return session->context;
}

ls_device *ls_session_device(const ls_session *session) {
    return session->graph.device;
}

void ls_session_set_math(ls_session *session, ls_math math) {
    if (math < LS_LOCKED || math > LS_REDUCED) {
        ls_session_set_error(session, LS_ERR_INVALID, "math kind %d: expected one of ls_math", (int)math);
        return;
    }
    session->graph.math = math;
}

ls_math ls_session_math(const ls_session *session) {
    return session->graph.math;
}

const char *ls_session_set_origin(ls_session *session, const char *origin) {
    const char *before = session->graph.origin;
    session->graph.origin = ls_graph_origin(&session->graph, origin);
    return before;
}

void ls_session_set_fusion(ls_session *session, int on) {
    session->fusion = on != 0;
}

const ls_error *ls_session_error(const ls_session *session) {
    return &session->graph.error;
}

void ls_session_set_error(ls_session *session, ls_status status, const char *fmt, ...) {
    char message[LS_MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    LS_FAIL(&session->graph.error, status, "%s", message);
}

void ls_session_clear_error(ls_session *session) {
    ls_error_clear(&session->graph.error);
}

ls_status ls_session_fail(ls_session *session, ls_status status, const ls_error *err) {
    if (status == LS_ERR_AGAIN) { /* no failure */
        return status;
    }
    if (session->graph.error.code == LS_OK) {
        session->graph.error = *err;
        session->graph.error.code = status;
    }
    ls_context_log(session->context, LS_LOG_DEBUG, "%s: %s", ls_status_name(status), err->message);
    return status;
}

ls_session_stats ls_session_get_stats(const ls_session *session) {
    return (ls_session_stats){session->graph.nodes.len, session->compiles, session->kernels};
}

/* ---- symbols ---- */

ls_status ls_session_sync(ls_session *session, ls_error *err) {
    ls_context *context = session->context;
    int n = atomic_load(&context->n_symbols);
    if (n <= session->n_symbols) {
        return LS_OK;
    }
    int64_t *values = ls_realloc(&context->heap, session->symbols, sizeof *values * (size_t)n);
    if (!values) {
        return LS_FAIL_MEMORY(err, "the values of symbols");
    }
    session->symbols = values;
    session->graph.symbol_values = values;
    ls_mutex_lock(context->mutex);
    for (const ls_symbol *symbol = context->symbols; symbol; symbol = symbol->next) {
        if (symbol->index >= session->n_symbols && symbol->index < n) {
            values[symbol->index] = symbol->bound;
        }
    }
    ls_mutex_unlock(context->mutex);
    session->n_symbols = n;
    return LS_OK;
}

ls_status ls_symbol_bind(ls_session *session, ls_symbol *symbol, int64_t value) {
    ls_error err = {0};
    if (!symbol || value < 0 || value > symbol->bound) {
        LS_FAIL(&err, LS_ERR_INVALID, "symbol %s was given %lld, expected 0 to its bound %lld",
                symbol ? symbol->name : "(null)", (long long)value, symbol ? (long long)symbol->bound : 0);
        return ls_session_fail(session, LS_ERR_INVALID, &err);
    }
    if (symbol->heap != &session->context->heap) {
        LS_FAIL(&err, LS_ERR_INVALID, "symbol %s belongs to another context", symbol->name);
        return ls_session_fail(session, LS_ERR_INVALID, &err);
    }
    ls_status status = ls_session_sync(session, &err);
    if (status != LS_OK) {
        return ls_session_fail(session, status, &err);
    }
    session->symbols[symbol->index] = value;
    return LS_OK;
}

uint64_t ls_symbols_of_shape(const ls_shape *shape) {
    uint64_t symbols = 0;
    for (int i = 0; i < shape->rank; i++) {
        symbols |= ls_symbols_of_dim(shape->dim[i]);
    }
    return symbols;
}

uint64_t ls_symbols_stamp(const ls_session *session, uint64_t symbols) {
    uint64_t hash = 0;
    for (int i = 0; symbols && i < session->n_symbols; i++) {
        if (symbols >> (i < 63 ? i : 63) & 1) {
            hash = ls_hash_u64((uint64_t)session->symbols[i], ls_hash_u64((uint64_t)i, hash));
        }
    }
    return hash;
}

int64_t ls_tensor_numel(const ls_session *session, const ls_tensor *tensor) {
    /* A symbol that was made after the last sync still has its bound: ask the session's own table only for
     * the others. */
    int64_t n = 1;
    for (int i = 0; tensor && i < tensor->shape.rank; i++) {
        ls_dim dim = tensor->shape.dim[i];
        bool known = dim.symbol && dim.symbol->index < session->n_symbols;
        int64_t extent = ls_dim_eval(dim, known ? session->symbols : NULL);
        n *= extent > 0 ? extent : 0;
    }
    return tensor ? n : 0;
}

size_t ls_tensor_bytes(const ls_session *session, const ls_tensor *tensor) {
    return tensor ? (size_t)ls_tensor_numel(session, tensor) * ls_dtype_size(tensor->dtype) : 0;
}

/* ---- pending assignments ---- */

ls_pending *ls_session_pending(ls_session *session, const ls_var *var) {
    for (size_t i = 0; i < session->pending.len; i++) {
        if (session->pending.data[i].var == var) {
            return &session->pending.data[i];
        }
    }
    return NULL;
}

void ls_session_forget_destroyed(ls_session *session) {
    size_t kept = 0;
    for (size_t i = 0; i < session->pending.len; i++) {
        ls_pending p = session->pending.data[i];
        if (p.var->storage) {
            session->pending.data[kept++] = p;
        } else {
            ls_release(p.value);
        }
    }
    session->pending.len = kept;
}

void ls_session_clear_pending(ls_session *session) {
    for (size_t i = 0; i < session->pending.len; i++) {
        ls_release(session->pending.data[i].value);
    }
    session->pending.len = 0;
}
