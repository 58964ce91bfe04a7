/* Running a model node by node on values of any kind. */
#include "io/onnx/run.h"
#include <string.h>

/* A copy in the caller's arena, its arrays retained. NULL: the error is in *err. */
static ls_onnx_value *leave(ls_onnx_run *run, ls_arena *arena, ls_onnx_value *v, ls_error *err) {
    ls_onnx_value *copy = LS_ARENA_NEW(arena, ls_onnx_value);
    const ls_data *data;
    size_t n = 1;
    if (v->kind == ONNX_TENSOR && ls_onnx_run_read(run, v, &data, err) != LS_OK) {
        return NULL;
    }
    for (int i = 0; v->kind == ONNX_STRINGS && i < v->rank; i++) {
        n *= (size_t)v->dims[i];
    }
    if (copy) {
        *copy = *v;
        copy->host = copy->tensor = NULL;
        copy->items = LS_ARENA_ARRAY(arena, ls_onnx_value *, v->count + 1);
        copy->strings = v->kind == ONNX_STRINGS ? LS_ARENA_ARRAY(arena, const char *, n + 1) : NULL;
    }
    bool good = copy && copy->items && (v->kind != ONNX_STRINGS || copy->strings);
    for (size_t i = 0; good && v->kind == ONNX_STRINGS && i < n; i++) {
        good = (copy->strings[i] = ls_arena_copy(arena, v->strings[i], strlen(v->strings[i]) + 1)) != NULL;
    }
    for (int i = 0; good && i < v->count; i++) {
        good = (copy->items[i] = leave(run, arena, v->items[i], err)) != NULL;
    }
    if (!good) {
        LS_FAIL_MEMORY(err, "a value");
        return NULL;
    }
    if (copy->data) {
        ls_data_retain(copy->data);
    }
    return copy;
}

/* A value of the run over the caller's array, so that the tensors that are made of it are the run's. */
static ls_onnx_value *enter(ls_onnx_run *run, const ls_onnx_value *v) {
    ls_onnx_value *copy = ls_arena_copy(&run->arena, v, sizeof *v);
    if (!copy) {
        return NULL;
    }
    copy->host = copy->tensor = NULL;
    copy->lasting = false;
    copy->known = v->kind == ONNX_STRINGS; /* what the inputs hold is computed with on the device */
    copy->items = LS_ARENA_ARRAY(&run->arena, ls_onnx_value *, v->count + 1);
    for (int i = 0; copy->items && i < v->count; i++) {
        copy->items[i] = enter(run, v->items[i]);
        if (!copy->items[i]) {
            return NULL;
        }
    }
    return copy->items ? copy : NULL;
}

static ls_status run_values(ls_onnx_run *run, ls_arena *arena, int n_in, ls_onnx_value *const *in, int n_out,
                            ls_onnx_value **out, ls_error *err) {
    ls_model *model = run->base->model;
    ls_onnx_value **entered = LS_ARENA_ARRAY(&run->arena, ls_onnx_value *, n_in + 1),
                  **results = LS_ARENA_ARRAY(&run->arena, ls_onnx_value *, n_out + 1);
    if (n_in != ls_model_input_count(model) || n_out != ls_model_output_count(model)) {
        return LS_FAIL(err, LS_ERR_INVALID, "%s: expected values for all its inputs and outputs",
                       model->name);
    }
    for (int i = 0; entered && i < n_in; i++) {
        entered[i] = in[i] ? enter(run, in[i]) : NULL;
        if (in[i] && !entered[i]) {
            return LS_FAIL_MEMORY(err, "an input");
        }
    }
    if (!entered || !results) {
        return LS_FAIL_MEMORY(err, "a run");
    }
    LS_TRY(err, ls_onnx_run_graph(run, entered, results, err));
    for (int i = 0; i < n_out; i++) {
        out[i] = leave(run, arena, results[i], err);
        if (!out[i]) {
            return err->code;
        }
    }
    return LS_OK;
}

ls_status ls_onnx_run_values(ls_session *session, ls_model *model, ls_arena *arena, int n_in,
                             ls_onnx_value *const *in, int n_out, ls_onnx_value **out) {
    ls_error err = {.code = LS_OK};
    ls_onnx_base *base = NULL;
    ls_onnx_run run;
    ls_status status = ls_onnx_base_create(session, model, &base, &err);
    if (status == LS_OK && (status = ls_onnx_run_begin(&run, base, true, &err)) == LS_OK) {
        status = run_values(&run, arena, n_in, in, n_out, out, &err);
        ls_onnx_run_end(&run);
    }
    ls_onnx_base_destroy(base);
    if (status != LS_OK) {
        ls_session_set_error(session, err.code, "%s", err.message);
    }
    return status;
}
