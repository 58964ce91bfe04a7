/* Values: tensors in either session, their numbers, and the way between them. */
#include "io/onnx/run.h"
#include <string.h>

void *ls_onnx_run_alloc(ls_onnx_run *run, size_t size) {
    return ls_arena_alloc(run->lasting ? &run->base->arena : &run->arena, size);
}

static ls_onnx_value *new_value(ls_onnx_run *run, ls_onnx_kind kind, int type) {
    ls_onnx_value *v = ls_onnx_run_alloc(run, sizeof *v);
    if (v) {
        v->kind = kind;
        v->type = type;
        v->lasting = run->lasting;
    }
    return v;
}

/* Takes the array over. */
static bool keep_data(ls_onnx_run *run, const ls_onnx_value *v, ls_data *data) {
    bool kept = v->lasting ? ls_array_push(run->base->heap, &run->base->data, data) : ls_array_push(run->base->heap, &run->data, data);
    if (!kept) {
        ls_data_release(data);
    }
    return kept;
}

/* Tensors of a run go with its scopes; those of lasting values must stay. */
static bool keep_tensor(ls_onnx_run *run, const ls_onnx_value *v, ls_tensor *t) {
    if (!v->lasting) {
        return true;
    }
    if (!ls_array_push(run->base->heap, &run->base->tensors, t)) {
        return false;
    }
    ls_retain(t);
    return true;
}

ls_onnx_value *ls_onnx_run_tensor(ls_onnx_run *run, ls_tensor *t, int type) {
    ls_onnx_value *v = new_value(run, ONNX_TENSOR, type);
    if (v) {
        v->tensor = t;
    }
    return v;
}

ls_onnx_value *ls_onnx_run_data(ls_onnx_run *run, ls_data *data, int type) {
    ls_onnx_value *v = new_value(run, ONNX_TENSOR, type);
    if (!v || !keep_data(run, v, ls_data_retain(data))) {
        return NULL;
    }
    v->data = data;
    v->known = true;
    return v;
}

ls_status ls_onnx_take_error(ls_session *s, ls_error *err) {
    ls_error first = *ls_session_error(s);
    ls_session_clear_error(s);
    if (first.code == LS_OK) {
        return LS_FAIL(err, LS_ERR_INTERNAL, "a builder failed without a reason");
    }
    return LS_FAIL(err, first.code, "%s", first.message);
}

/* Numbers of this many elements that an eager run has read serve later shape arithmetic on the host; larger ones stay where they are. */
enum { SMALL = 1024 };

ls_status ls_onnx_run_read(ls_onnx_run *run, ls_onnx_value *v, const ls_data **out_data, ls_error *err) {
    if (v->extents && !v->data) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "needs a number that follows from an extent with a symbol");
    }
    if (!v->data) {
        ls_session *s = v->host ? run->base->host : run->base->session;
        ls_data *data = NULL;
        if (!v->host && !run->eager) {
            run->needs_values = true;
            return LS_FAIL(err, LS_ERR_UNSUPPORTED, "needs the value of what depends on the model's inputs: they must have values");
        }
        if (ls_data_from_tensor(s, v->host ? v->host : v->tensor, &data) != LS_OK) {
            ls_status status = ls_onnx_take_error(s, err);
            if (status == LS_ERR_INVALID && !v->host) { /* it depends on an ls_input */
                status = err->code = LS_ERR_UNSUPPORTED;
            }
            return status;
        }
        if (!keep_data(run, v, data)) {
            return LS_FAIL_MEMORY(err, "a value");
        }
        v->data = data;
        v->known = v->known || ls_data_numel(data) <= SMALL;
    }
    *out_data = v->data;
    return LS_OK;
}

/* A single number as a constant of the graph, which joins kernels; NULL for one that only its bytes say. */
static ls_tensor *constant(ls_session *s, const ls_data *data) {
    ls_shape shape = ls_shape_make(ls_data_rank(data), ls_data_dims(data));
    switch (ls_data_dtype(data)) {
    case LS_F32: return ls_full(s, LS_F32, shape, (double)*(const float *)ls_data_bytes(data));
    case LS_F64: return ls_full(s, LS_F64, shape, *(const double *)ls_data_bytes(data));
    case LS_I32: return ls_full_i64(s, LS_I32, shape, *(const int32_t *)ls_data_bytes(data));
    case LS_I64: return ls_full_i64(s, LS_I64, shape, *(const int64_t *)ls_data_bytes(data));
    case LS_BOOL: return ls_full_i64(s, LS_BOOL, shape, *(const uint8_t *)ls_data_bytes(data));
    default: return NULL;
    }
}

static ls_tensor *make_tensor(ls_onnx_run *run, ls_onnx_value *v, ls_session *s, ls_error *err) {
    ls_onnx_weights *weights = v->place && ls_session_device(s) == ls_onnx_weights_device(run->base->weights) ? run->base->weights : NULL;
    const ls_data *data;
    ls_tensor *t = NULL;
    if (weights && ls_onnx_weights_get(weights, s, v->place, NULL, &t, err) != LS_OK) {
        return NULL;
    }
    if (!t) {
        if (ls_onnx_run_read(run, v, &data, err) != LS_OK) {
            return NULL;
        }
        t = ls_data_numel(data) == 1 ? constant(s, data) : NULL;
        if (!t && weights && ls_onnx_weights_get(weights, s, v->place, data, &t, err) != LS_OK) {
            return NULL;
        }
        t = t ? t : ls_data_to_tensor(s, data);
    }
    if (!t) {
        ls_onnx_take_error(s, err);
    }
    return t;
}

ls_tensor *ls_onnx_run_place(ls_onnx_run *run, ls_onnx_value *v, bool host, ls_error *err) {
    ls_tensor **at = host ? &v->host : &v->tensor;
    ls_session *s = host ? run->base->host : run->base->session;
    if (*at) {
        return *at;
    }
    if (v->extents && !host) {
        *at = ls_onnx_run_extents(run, v);
        if (!*at) {
            ls_onnx_take_error(s, err);
        }
        return *at;
    }
    const char *origin = v->name ? ls_session_set_origin(s, v->name) : NULL;
    ls_tensor *t = make_tensor(run, v, s, err);
    if (v->name) {
        (void)ls_session_set_origin(s, origin);
    }
    if (t && !keep_tensor(run, v, t)) {
        LS_FAIL_MEMORY(err, "a value");
        return NULL;
    }
    return *at = t;
}

static ls_onnx_value *decode_strings(ls_onnx_run *run, const Onnx__TensorProto *t, const char *what, ls_error *err) {
    ls_onnx_value *v = new_value(run, ONNX_STRINGS, ONNX_STRING);
    int64_t count;
    if (!v) {
        LS_FAIL_MEMORY(err, what);
        return NULL;
    }
    v->known = true;
    v->rank = (int)t->n_dims;
    memcpy(v->dims, t->dims, sizeof *v->dims * t->n_dims);
    ls_arena *arena = run->lasting ? &run->base->arena : &run->arena;
    return ls_onnx_tensor_strings(run->base->model, t, what, arena, &v->strings, &count, err) == LS_OK ? v : NULL;
}

ls_onnx_value *ls_onnx_run_decode(ls_onnx_run *run, const Onnx__TensorProto *t, const char *what, ls_error *err) {
    ls_data *data = NULL;
    int type = t->data_type;
    if (type == ONNX_STRING) {
        return decode_strings(run, t, what, err);
    }
    if (ls_onnx_tensor_data(run->base->model, t, what, &data, &type, err) != LS_OK) {
        return NULL;
    }
    ls_onnx_value *v = ls_onnx_run_data(run, data, type);
    ls_data_release(data);
    if (!v) {
        LS_FAIL_MEMORY(err, what);
        return NULL;
    }
    v->place = t;
    return v;
}

/* ---- for operators ---- */

static ls_tensor *fail_later(ls_onnx_node *n, ls_status code, const char *text) {
    (void)LS_FAIL(&n->failed, code, "%s", text);
    return NULL;
}

ls_tensor *ls_onnx_tensor(ls_onnx_node *n, ls_onnx_value *v) {
    if (v->kind != ONNX_TENSOR) {
        static const char *const kinds[] = {"", "strings", "a sequence", "an optional value"};
        char text[80] = "expected a tensor of numbers, got ";
        return fail_later(n, LS_ERR_DTYPE, strcat(text, kinds[v->kind]));
    }
    return ls_onnx_run_place(n->run, v, n->s == n->run->base->host, &n->failed);
}

bool ls_onnx_has(const ls_onnx_node *n, int i) {
    return i < n->n_in && n->in[i];
}
ls_tensor *ls_onnx_in(ls_onnx_node *n, int i) {
    return ls_onnx_has(n, i) ? ls_onnx_tensor(n, n->in[i]) : NULL;
}
int ls_onnx_in_type(const ls_onnx_node *n, int i) {
    return ls_onnx_has(n, i) ? n->in[i]->type : ONNX_UNDEFINED;
}

int ls_onnx_dims(const ls_tensor *t, int64_t dims[LS_MAX_RANK]) {
    if (!t) {
        return 0;
    }
    ls_shape shape = ls_tensor_shape(t);
    for (int i = 0; i < shape.rank; i++) {
        dims[i] = shape.dim[i].symbol ? -2 : shape.dim[i].offset;
    }
    return shape.rank;
}

int ls_onnx_value_dims(const ls_onnx_value *v, int64_t dims[LS_MAX_RANK]) {
    if (v->kind == ONNX_STRINGS || v->extents) {
        memcpy(dims, v->dims, sizeof v->dims);
        return v->rank;
    }
    if (v->data) {
        memcpy(dims, ls_data_dims(v->data), sizeof *dims * (size_t)ls_data_rank(v->data));
        return ls_data_rank(v->data);
    }
    return ls_onnx_dims(v->host ? v->host : v->tensor, dims);
}

ls_shape ls_onnx_value_shape(const ls_onnx_value *v) {
    int64_t dims[LS_MAX_RANK];
    return v->kind == ONNX_TENSOR && !v->data && !v->extents ? ls_tensor_shape(v->host ? v->host : v->tensor)
                                                             : ls_shape_make(ls_onnx_value_dims(v, dims), dims);
}

ls_status ls_onnx_read_value(ls_onnx_node *n, ls_onnx_value *v, const ls_data **out_data) {
    ls_error err = {.code = LS_OK};
    if (v->kind != ONNX_TENSOR) {
        return ls_onnx_fail(n, LS_ERR_DTYPE, "expected a tensor of numbers");
    }
    ls_status status = ls_onnx_run_read(n->run, v, out_data, &err);
    return status == LS_OK ? LS_OK : ls_onnx_fail(n, status, "%s", err.message);
}

ls_status ls_onnx_read(ls_onnx_node *n, int i, const ls_data **out_data) {
    return ls_onnx_has(n, i) ? ls_onnx_read_value(n, n->in[i], out_data)
                             : ls_onnx_fail(n, LS_ERR_FORMAT, "operand %d is missing", i);
}

bool ls_onnx_selects(const ls_onnx_node *n, const ls_onnx_value *v) {
    return n->run->selects && v->kind == ONNX_TENSOR && !v->data && !v->host && !v->extents;
}

static bool whole_at(const ls_data *data, int64_t i, int64_t *out) {
    const void *b = ls_data_bytes(data);
    switch (ls_data_dtype(data)) {
    case LS_BOOL:
    case LS_U8: *out = ((const uint8_t *)b)[i]; return true;
    case LS_I8: *out = ((const int8_t *)b)[i]; return true;
    case LS_U16: *out = ((const uint16_t *)b)[i]; return true;
    case LS_I16: *out = ((const int16_t *)b)[i]; return true;
    case LS_U32: *out = ((const uint32_t *)b)[i]; return true;
    case LS_I32: *out = ((const int32_t *)b)[i]; return true;
    case LS_U64: *out = (int64_t)((const uint64_t *)b)[i]; return ((const uint64_t *)b)[i] <= INT64_MAX;
    case LS_I64: *out = ((const int64_t *)b)[i]; return true;
    default: return false;
    }
}

ls_status ls_onnx_ints(ls_onnx_node *n, int i, int64_t **out_list, int *out_count) {
    const ls_data *data;
    LS_TRY(n->err, ls_onnx_read(n, i, &data));
    int64_t count = ls_data_numel(data), *list = LS_ARENA_ARRAY(ls_onnx_arena(n), int64_t, count + 1);
    if (!list || count > INT32_MAX) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for the %lld numbers of operand %d", (long long)count, i);
    }
    for (int64_t k = 0; k < count; k++) {
        if (!whole_at(data, k, &list[k])) {
            return ls_onnx_fail(n, LS_ERR_DTYPE, "operand %d: expected whole numbers of at most 63 bits, got %s", i,
                                ls_dtype_name(ls_data_dtype(data)));
        }
    }
    *out_list = list;
    *out_count = (int)count;
    return LS_OK;
}

ls_status ls_onnx_floats(ls_onnx_node *n, int i, double **out_list, int *out_count) {
    const ls_data *data;
    LS_TRY(n->err, ls_onnx_read(n, i, &data));
    ls_onnx_run *run = n->run;
    ls_session *host = run->base->host;
    int64_t count = ls_data_numel(data), dims[1] = {count};
    double *list = LS_ARENA_ARRAY(ls_onnx_arena(n), double, count + 1);
    if (!list || count > INT32_MAX) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for the %lld numbers of operand %d", (long long)count, i);
    }
    ls_tensor *wide = ls_cast(host, ls_data_to_tensor(host, data), LS_F64);
    if (ls_read(host, ls_reshape(host, wide, ls_shape_make(1, dims)), list, sizeof *list * (size_t)count) != LS_OK) {
        ls_error err = {.code = LS_OK};
        ls_status status = ls_onnx_take_error(host, &err);
        return ls_onnx_fail(n, status, "%s", err.message);
    }
    *out_list = list;
    *out_count = (int)count;
    return LS_OK;
}

ls_status ls_onnx_int(ls_onnx_node *n, int i, int64_t otherwise, int64_t *out) {
    int64_t *list;
    int count;
    *out = otherwise;
    if (!ls_onnx_has(n, i)) {
        return LS_OK;
    }
    LS_TRY(n->err, ls_onnx_ints(n, i, &list, &count));
    if (count != 1) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "operand %d: expected one number, got %d", i, count);
    }
    *out = list[0];
    return LS_OK;
}

ls_status ls_onnx_float(ls_onnx_node *n, int i, double otherwise, double *out) {
    double *list;
    int count;
    *out = otherwise;
    if (!ls_onnx_has(n, i)) {
        return LS_OK;
    }
    LS_TRY(n->err, ls_onnx_floats(n, i, &list, &count));
    if (count != 1) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "operand %d: expected one number, got %d", i, count);
    }
    *out = list[0];
    return LS_OK;
}

ls_status ls_onnx_axis(ls_onnx_node *n, int64_t axis, int rank, int *out_axis) {
    if (axis < -rank || axis >= rank) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "axis %lld: expected one of the %d axes", (long long)axis, rank);
    }
    *out_axis = (int)(axis < 0 ? axis + rank : axis);
    return LS_OK;
}

/* ---- results ---- */

ls_arena *ls_onnx_arena(ls_onnx_node *n) {
    return n->run->lasting ? &n->run->base->arena : &n->run->arena;
}
ls_context *ls_onnx_context(ls_onnx_node *n) {
    return ls_session_context(n->run->base->session);
}
ls_onnx_value *ls_onnx_value_new(ls_onnx_node *n, ls_onnx_kind kind, int type) {
    ls_onnx_value *v = new_value(n->run, kind, type);
    if (!v) {
        (void)LS_FAIL_MEMORY(&n->failed, "a value");
    }
    return v;
}
bool ls_onnx_wants(const ls_onnx_node *n, int i) {
    return i < n->n_out;
}

ls_status ls_onnx_out_value(ls_onnx_node *n, int i, ls_onnx_value *v) {
    if (n->failed.code != LS_OK) {
        return ls_onnx_fail(n, n->failed.code, "%s", n->failed.message);
    }
    if (!v) {
        return ls_onnx_fail(n, LS_ERR_INTERNAL, "result %d was not made", i);
    }
    if (ls_onnx_wants(n, i)) {
        n->out[i] = v;
    }
    return LS_OK;
}

ls_onnx_value *ls_onnx_value_of(ls_onnx_node *n, ls_tensor *t, int type) {
    bool host = n->s == n->run->base->host;
    if (!t) {
        if (n->failed.code == LS_OK) {
            ls_onnx_take_error(n->s, &n->failed);
        }
        ls_session_clear_error(n->s);
        return NULL;
    }
    ls_onnx_value *v = ls_onnx_value_new(n, ONNX_TENSOR, type);
    if (v) {
        *(host ? &v->host : &v->tensor) = t;
        v->known = host;
        const ls_shape shape = ls_tensor_shape(t);
        ls_onnx_range_see(&n->run->range, &shape);
        if (!keep_tensor(n->run, v, t)) {
            (void)LS_FAIL_MEMORY(&n->failed, "a value");
            return NULL;
        }
    }
    return v;
}

ls_status ls_onnx_out_as(ls_onnx_node *n, int i, ls_tensor *t, int type) {
    return ls_onnx_out_value(n, i, ls_onnx_value_of(n, t, type));
}
ls_status ls_onnx_out(ls_onnx_node *n, int i, ls_tensor *t) {
    return ls_onnx_out_as(n, i, t, t ? ls_onnx_type_of(ls_tensor_dtype(t)) : ONNX_UNDEFINED);
}

ls_status ls_onnx_out_data(ls_onnx_node *n, int i, ls_data *data, int type) {
    ls_onnx_value *v = ls_onnx_value_new(n, ONNX_TENSOR, type);
    if (v) {
        v->known = true;
        v->data = data;
        if (!keep_data(n->run, v, data)) {
            return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for a result");
        }
    } else {
        ls_data_release(data);
    }
    return ls_onnx_out_value(n, i, v);
}

ls_status ls_onnx_out_from(ls_onnx_node *n, int i, int type, int rank, const int64_t *dims, const void *elements) {
    ls_data *data;
    ls_error err = {.code = LS_OK};
    ls_status status = ls_data_create(ls_onnx_context(n), ls_onnx_carrier(type), rank, dims, elements, &data, &err);
    return status == LS_OK ? ls_onnx_out_data(n, i, data, type) : ls_onnx_fail(n, status, "%s", err.message);
}

ls_tensor *ls_onnx_scalar(ls_onnx_node *n, ls_dtype dtype, double value) {
    return ls_full(n->s, dtype, LS_SCALAR, value);
}
ls_tensor *ls_onnx_list(ls_onnx_node *n, ls_dtype dtype, int count, const int64_t *values) {
    const int64_t dims[1] = {count};
    return ls_cast(n->s, ls_tensor_from(n->s, LS_I64, ls_shape_make(1, dims), values), dtype);
}
ls_tensor *ls_onnx_shaped(ls_onnx_node *n, ls_tensor *t, int rank, const int64_t *dims) {
    return ls_reshape(n->s, t, ls_shape_make(rank, dims));
}
