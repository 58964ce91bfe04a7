/* Arrays on the host. An ls_data never changes after it was made; retain and release are atomic. */
#include "verify/data.h"
#include "base/elements.h"
#include "engine/session.h"
#include <string.h>

static ls_status adopt(ls_heap *heap, ls_dtype dtype, int rank, const int64_t *dims, const void *bytes,
                       void (*drop)(void *owner), void *owner, ls_data **out_data, ls_error *err) {
    size_t size = ls_dtype_size(dtype);
    bool ok = size > 0 && rank >= 0 && rank <= LS_MAX_RANK;
    for (int i = 0; i < rank && ok; i++) {
        ok = dims[i] >= 0 && ls_size_mul(size, (uint64_t)dims[i], &size);
    }
    if (!ok || size > PTRDIFF_MAX) {
        return LS_FAIL(
            err, LS_ERR_SHAPE,
            "array: rank %d of dtype %s: expected rank 0 to %d, extents of at least 0 and a size that "
            "fits in memory",
            rank, ls_dtype_name(dtype), LS_MAX_RANK);
    }
    ls_data *data = ls_alloc_zeroed(heap, sizeof *data);
    void *copy = data && !drop ? ls_alloc(heap, size) : NULL;
    if (!data || (!drop && !copy)) {
        ls_free(heap, data);
        return LS_FAIL_MEMORY(err, "an array");
    }
    if (copy) {
        bytes ? (void)memcpy(copy, bytes, size) : (void)memset(copy, 0, size);
    }
    *data = (ls_data){.heap = heap,
                      .refs = 1,
                      .dtype = dtype,
                      .rank = rank,
                      .size = size,
                      .bytes = drop ? bytes : copy,
                      .drop = drop,
                      .owner = owner};
    for (int i = 0; i < rank; i++) {
        data->dims[i] = dims[i];
    }
    *out_data = data;
    return LS_OK;
}

ls_status ls_data_create(ls_context *context, ls_dtype dtype, int rank, const int64_t *dims,
                         const void *bytes, ls_data **out_data, ls_error *err) {
    return adopt(&context->heap, dtype, rank, dims, bytes, NULL, NULL, out_data, err);
}

ls_status ls_data_wrap(ls_context *context, ls_dtype dtype, int rank, const int64_t *dims, const void *bytes,
                       void (*drop)(void *owner), void *owner, ls_data **out_data, ls_error *err) {
    return adopt(&context->heap, dtype, rank, dims, bytes, drop, owner, out_data, err);
}

ls_data *ls_data_retain(ls_data *data) {
    if (data) {
        atomic_fetch_add_explicit(&data->refs, 1, memory_order_relaxed);
    }
    return data;
}

void ls_data_release(ls_data *data) {
    if (data && atomic_fetch_sub_explicit(&data->refs, 1, memory_order_acq_rel) == 1) {
        if (data->drop) {
            data->drop(data->owner);
        } else {
            ls_free(data->heap, (void *)data->bytes);
        }
        ls_free(data->heap, data);
    }
}

ls_dtype ls_data_dtype(const ls_data *data) {
    return data->dtype;
}
int ls_data_rank(const ls_data *data) {
    return data->rank;
}
const int64_t *ls_data_dims(const ls_data *data) {
    return data->dims;
}
int64_t ls_data_numel(const ls_data *data) {
    return (int64_t)(data->size / ls_dtype_size(data->dtype));
}
size_t ls_data_size(const ls_data *data) {
    return data->size;
}
const void *ls_data_bytes(const ls_data *data) {
    return data->bytes;
}

/* Makes an array of a shape at the session's symbol values and lets `read` fill it. */
static ls_status read_into(ls_session *session, ls_dtype dtype, const ls_shape *shape, ls_tensor *tensor,
                           ls_var *var, ls_data **out_data) {
    int64_t dims[LS_MAX_RANK];
    ls_error err = {.code = LS_OK};
    ls_status status = ls_session_sync(session, &err);
    for (int i = 0; i < shape->rank; i++) {
        dims[i] = ls_dim_eval(shape->dim[i], session->symbols);
    }
    ls_data *data = NULL;
    if (status == LS_OK) {
        status = ls_data_create(session->context, dtype, shape->rank, dims, NULL, &data, &err);
    }
    if (status != LS_OK) {
        return ls_session_fail(session, status, &err);
    }
    void *bytes = (void *)data->bytes; /* not yet anyone else's */
    status =
        tensor ? ls_read(session, tensor, bytes, data->size) : ls_var_read(session, var, bytes, data->size);
    if (status != LS_OK) {
        ls_data_release(data);
        return status;
    }
    *out_data = data;
    return LS_OK;
}

ls_status ls_data_from_tensor(ls_session *session, ls_tensor *tensor, ls_data **out_data) {
    if (!ls_check_operands(session, "data_from_tensor", 1, &tensor)) {
        return ls_session_error(session)->code;
    }
    return read_into(session, tensor->dtype, &tensor->shape, tensor, NULL, out_data);
}

ls_status ls_data_from_var(ls_session *session, ls_var *var, ls_data **out_data) {
    return read_into(session, var->dtype, &var->shape, NULL, var, out_data);
}

static void keep(void *data) {
    ls_data_retain(data);
}
static void drop(void *data) {
    ls_data_release(data);
}
static ls_source source_of(const ls_data *data) {
    return (ls_source){data->bytes, (void *)(uintptr_t)data, keep, drop};
}

static bool is_given(ls_session *session, const ls_data *data) {
    if (!data) {
        ls_session_set_error(session, LS_ERR_INVALID, "the array to take over is NULL");
    }
    return data != NULL;
}

ls_tensor *ls_data_to_tensor(ls_session *session, const ls_data *data) {
    if (!is_given(session, data)) {
        return NULL;
    }
    ls_source source = source_of(data);
    return ls_tensor_over(session, data->dtype, ls_shape_make(data->rank, data->dims), &source);
}

ls_var *ls_data_to_var(ls_session *session, const char *name, const ls_data *data) {
    if (!is_given(session, data)) {
        return NULL;
    }
    ls_source source = source_of(data);
    return ls_var_over(session, name, data->dtype, ls_shape_make(data->rank, data->dims), &source);
}

void ls_data_sha256(const ls_data *data, char out_hex[65]) {
    ls_sha256 sha;
    ls_sha256_init(&sha);
    ls_sha256_elements(&sha, data->dtype, data->bytes, ls_data_numel(data));
    ls_sha256_hex(&sha, out_hex);
}
