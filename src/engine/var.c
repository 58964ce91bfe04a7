/* Leaves: tensors from data, variables, and copies between devices. Invariant: every change of a
 * variable's storage counts its version up, so that a node of another version is known to be stale. */
#include "engine/exec.h"
#include "graph/build.h"
#include <string.h>

static ls_tensor *fail(ls_session *session, ls_status status, const ls_error *err) {
    ls_session_fail(session, status, err);
    return NULL;
}

/* A buffer laid out by bounds: over the host's data where the device reads it there, else filled from it, or with zeros when there is none. */
static ls_status buffer_from(ls_session *session, ls_device *device, ls_dtype dtype, const ls_shape *shape, const ls_source *source,
                             ls_buffer **out_buffer, ls_error *err) {
    size_t bytes = ls_shape_bytes(dtype, shape, NULL);
    LS_TRY(err, ls_session_sync(session, err));
    if (source->owner && dtype != LS_BOOL && !ls_symbols_of_shape(shape)) { /* bools may have to be made 0 or 1 */
        LS_TRY(err, ls_buffer_over(device, source->bytes, bytes, source->drop, source->owner, out_buffer, err));
        if (*out_buffer) {
            source->keep(source->owner);
            return LS_OK;
        }
    }
    LS_TRY(err, ls_buffer_create(device, bytes, out_buffer, err));
    ls_status status = source->bytes ? ls_transfer_upload(*out_buffer, dtype, shape, session->symbols, source->bytes, err)
                                     : ls_buffer_fill(*out_buffer, 0, 0, bytes, err);
    if (status != LS_OK) {
        ls_buffer_release(*out_buffer);
        *out_buffer = NULL;
        return LS_FORWARD(err, status);
    }
    return LS_OK;
}

ls_tensor *ls_tensor_from(ls_session *session, ls_dtype dtype, ls_shape shape, const void *data) {
    return ls_tensor_over(session, dtype, shape, &(ls_source){.bytes = data});
}

ls_tensor *ls_tensor_over(ls_session *session, ls_dtype dtype, ls_shape shape, const ls_source *source) {
    if (ls_dtype_size(dtype) == 0) {
        return LS_NODE_FAIL(session, LS_ERR_DTYPE, "tensor_from: %d is not a dtype", (int)dtype);
    }
    if (!ls_shape_check(session, "tensor_from", &shape)) {
        return NULL;
    }
    if (!source->bytes && ls_shape_numel(&shape, NULL) > 0) {
        return LS_NODE_FAIL(session, LS_ERR_INVALID, "tensor_from: data is NULL for shape %s",
                            LS_SHAPE_TEXT_OF(&shape));
    }
    ls_attr_leaf leaf = {NULL, ls_leaf_serial(session)};
    ls_tensor *node = ls_leaf(session, LS_OP_DATA, dtype, &shape, session->graph.device, leaf, NULL);
    if (!node) {
        return NULL;
    }
    ls_error err = {0};
    ls_buffer *buffer = NULL;
    ls_numerics numerics = ls_numerics_enter();
    ls_status status = buffer_from(session, session->graph.device, dtype, &shape, source, &buffer, &err);
    ls_numerics_leave(numerics);
    if (status != LS_OK) {
        return fail(session, status, &err);
    }
    buffer->symbols = ls_symbols_of_shape(&shape);
    buffer->stamp = ls_symbols_stamp(session, buffer->symbols);
    node->value = buffer;
    return node;
}

ls_tensor *ls_tensor_share(ls_session *session, ls_tensor *tensor) {
    if (!tensor || !tensor->value || tensor->session->context != session->context) {
        return LS_NODE_FAIL(session, LS_ERR_INVALID, "tensor_share: the tensor %s",
                            !tensor          ? "is NULL"
                            : !tensor->value ? "has not been computed"
                                             : "is of another context");
    }
    ls_attr_leaf leaf = {NULL, ls_leaf_serial(session)};
    ls_tensor *node = ls_leaf(session, LS_OP_DATA, tensor->dtype, &tensor->shape, tensor->value->device, leaf, NULL);
    if (node) {
        node->value = ls_buffer_retain(tensor->value);
    }
    return node;
}

/* ---- variables ---- */

ls_var *ls_var_create(ls_session *session, const char *name, ls_dtype dtype, ls_shape shape,
                      const void *data) {
    return ls_var_over(session, name, dtype, shape, &(ls_source){.bytes = data});
}

ls_var *ls_var_over(ls_session *session, const char *name, ls_dtype dtype, ls_shape shape, const ls_source *source) {
    ls_context *context = session->context;
    ls_heap *heap = &context->heap;
    if (!name || ls_dtype_size(dtype) == 0) {
        LS_NODE_FAIL(session, name ? LS_ERR_DTYPE : LS_ERR_INVALID, "var_create: %s",
                     name ? "no such dtype" : "the name is NULL");
        return NULL;
    }
    if (!ls_shape_check(session, "var_create", &shape)) {
        return NULL;
    }
    ls_error err = {0};
    ls_buffer *storage = NULL;
    ls_numerics numerics = ls_numerics_enter();
    ls_status status = buffer_from(session, session->graph.device, dtype, &shape, source, &storage, &err);
    ls_numerics_leave(numerics);
    ls_var *var = status == LS_OK ? ls_alloc_zeroed(heap, sizeof *var) : NULL;
    char *copy = var ? ls_strdup(heap, name) : NULL;
    if (!copy) {
        ls_buffer_release(storage);
        ls_free(heap, var);
        fail(session, status != LS_OK ? status : LS_FAIL_MEMORY(&err, "a variable"), &err);
        return NULL;
    }
    *var = (ls_var){.context = context,
                    .name = copy,
                    .dtype = dtype,
                    .shape = shape,
                    .device = session->graph.device,
                    .storage = storage,
                    .version = 1};
    ls_mutex_lock(context->mutex);
    var->next = context->vars;
    context->vars = var;
    ls_mutex_unlock(context->mutex);
    return var;
}

void ls_var_destroy(ls_var *var) {
    if (var) { /* the record stays with the context: nodes may still point to it */
        ls_buffer_release(var->storage);
        var->storage = NULL;
    }
}

const char *ls_var_name(const ls_var *var) {
    return var->name;
}

ls_shape ls_var_shape(const ls_var *var) {
    return var->shape;
}

ls_dtype ls_var_dtype(const ls_var *var) {
    return var->dtype;
}

static ls_status check_alive(const ls_session *session, const ls_var *var, const char *operation,
                             ls_error *err) {
    if (!var || !var->storage || var->context != session->context) {
        return LS_FAIL(err, LS_ERR_INVALID, "%s: variable \"%s\" is %s", operation,
                       var ? var->name : "(null)",
                       !var            ? "NULL"
                       : !var->storage ? "destroyed"
                                       : "of another context");
    }
    return LS_OK;
}

/* Hands a tensor that exists to the innermost scope once more. */
static ls_tensor *own(ls_session *session, ls_tensor *tensor) {
    ls_graph *g = &session->graph;
    if (!ls_array_push(g->heap, &g->owned, tensor)) {
        return LS_NODE_FAIL(session, LS_ERR_MEMORY, "out of memory for a scope");
    }
    return ls_retain(tensor);
}

ls_tensor *ls_var_value(ls_session *session, ls_var *var) {
    ls_error err = {0};
    if (check_alive(session, var, "var_value", &err) != LS_OK) {
        return fail(session, err.code, &err);
    }
    ls_pending *pending = ls_session_pending(session, var);
    if (pending) {
        return own(session, pending->value);
    }
    /* One node a version, whatever the math kind: then every read of the old value is known when it is
     * overwritten. */
    ls_math math = session->graph.math;
    ls_attr_leaf leaf = {var, var->version};
    session->graph.math = LS_LOCKED;
    ls_tensor *node = ls_leaf(session, LS_OP_VAR, var->dtype, &var->shape, var->device, leaf, var->name);
    session->graph.math = math;
    return node;
}

static ls_status check_assign(ls_session *session, const ls_var *var, const ls_tensor *value, ls_error *err) {
    LS_TRY(err, check_alive(session, var, "var_assign", err));
    if (!value || value->session != session) {
        return LS_FAIL(err, LS_ERR_INVALID, "var_assign: the value for \"%s\" is %s", var->name,
                       value ? "of another session" : "NULL");
    }
    if (value->dtype != var->dtype || !ls_shape_equal(&value->shape, &var->shape)) {
        char have[LS_SHAPE_TEXT], want[LS_SHAPE_TEXT];
        return LS_FAIL(err, value->dtype != var->dtype ? LS_ERR_DTYPE : LS_ERR_SHAPE,
                       "var_assign: the value for \"%s\" is %s%s, expected %s%s", var->name,
                       ls_dtype_name(value->dtype), ls_shape_text(&value->shape, have),
                       ls_dtype_name(var->dtype), ls_shape_text(&var->shape, want));
    }
    if (value->device && value->device != var->device) {
        return LS_FAIL(err, LS_ERR_DEVICE, "var_assign: the value for \"%s\" is on %s, the variable on %s",
                       var->name, value->device->id, var->device->id);
    }
    return LS_OK;
}

ls_status ls_var_assign(ls_session *session, ls_var *var, ls_tensor *value) {
    ls_error err = {0};
    if (!value && session->graph.error.code != LS_OK) {
        return session->graph.error.code; /* the builder that failed has said why */
    }
    ls_status status = check_assign(session, var, value, &err);
    ls_pending *pending = status == LS_OK ? ls_session_pending(session, var) : NULL;
    if (pending) {
        ls_retain(value);
        ls_release(pending->value);
        pending->value = value;
        return LS_OK;
    }
    ls_pending add = {var, value};
    if (status == LS_OK && !ls_array_push(&session->context->heap, &session->pending, add)) {
        status = LS_FAIL_MEMORY(&err, "an assignment");
    }
    if (status != LS_OK) {
        return ls_session_fail(session, status, &err);
    }
    ls_retain(value);
    return LS_OK;
}

static ls_status check_size(ls_session *session, const ls_var *var, size_t size, const char *operation,
                            ls_error *err) {
    LS_TRY(err, check_alive(session, var, operation, err));
    LS_TRY(err, ls_session_sync(session, err));
    size_t expected = ls_shape_bytes(var->dtype, &var->shape, session->symbols);
    if (size != expected) {
        return LS_FAIL(err, LS_ERR_INVALID, "%s of \"%s\": %zu bytes, expected %zu", operation, var->name,
                       size, expected);
    }
    return LS_OK;
}

ls_status ls_var_read(ls_session *session, ls_var *var, void *data, size_t size) {
    ls_error err = {0};
    ls_status status = check_size(session, var, size, "var_read", &err);
    if (status == LS_OK) {
        status = ls_transfer_download(var->storage, var->dtype, &var->shape, session->symbols, data, &err);
    }
    return status == LS_OK ? LS_OK : ls_session_fail(session, status, &err);
}

ls_status ls_var_write(ls_session *session, ls_var *var, const void *data, size_t size) {
    ls_error err = {0};
    ls_status status = check_size(session, var, size, "var_write", &err);
    if (status == LS_OK) {
        var->version++;
        status = ls_transfer_upload(var->storage, var->dtype, &var->shape, session->symbols, data, &err);
    }
    return status == LS_OK ? LS_OK : ls_session_fail(session, status, &err);
}

/* ---- devices ---- */

ls_tensor *ls_to_device(ls_session *session, ls_tensor *tensor, ls_device *device) {
    if (!tensor || tensor->session != session) {
        return LS_NODE_FAIL(session, LS_ERR_INVALID, "to_device: the tensor is %s",
                            tensor ? "of another session" : "NULL");
    }
    if (!device || device->context != session->context) {
        return LS_NODE_FAIL(session, LS_ERR_DEVICE, "to_device: device %s is %s",
                            device ? device->id : "(null)", device ? "of another context" : "NULL");
    }
    if (!tensor->device || tensor->device == device) { /* a constant joins any device */
        return own(session, tensor);
    }
    ls_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.device = device;
    return ls_node(session, LS_OP_COPY, tensor->dtype, &tensor->shape, 1, &tensor, &attr);
}
