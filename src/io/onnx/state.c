/* The value of a state between two runs: an array, or what a program left on its device. Invariant: exactly one of the two says the numbers; the
 * array always says dtype and extents, by which the next run finds its program. */
#include "io/onnx/plan.h"
#include <string.h>

static void replace(ls_onnx_state *state, ls_data *value, ls_program *program, int slot) {
    ls_data_release(state->value);
    state->value = value;
    state->program = program;
    state->slot = slot;
}

void ls_onnx_state_reset(ls_onnx_state *state) {
    ls_onnx_state_set(state, state->first);
}

void ls_onnx_state_set(ls_onnx_state *state, ls_data *value) {
    replace(state, ls_data_retain(value), NULL, 0);
}

static void drop_nothing(void *owner) {
    (void)owner;
}

ls_status ls_onnx_state_set_output(ls_onnx_state *state, ls_context *context, ls_program *program, int slot, ls_dtype dtype, int rank,
                                   const int64_t *dims, ls_error *err) {
    static const uint64_t nothing; /* nobody reads the bytes while there is a program */
    ls_data *extents = NULL;
    bool same = ls_data_dtype(state->value) == dtype && ls_data_rank(state->value) == rank && state->program;
    for (int i = 0; same && i < rank; i++) {
        same = ls_data_dims(state->value)[i] == dims[i];
    }
    if (same) {
        extents = ls_data_retain(state->value);
    } else {
        LS_TRY(err, ls_data_wrap(context, dtype, rank, dims, &nothing, drop_nothing, NULL, &extents, err));
    }
    replace(state, extents, program, slot);
    return LS_OK;
}

ls_status ls_onnx_state_enter(ls_onnx_state *state, ls_session *session, ls_program *program, int slot, const void **out_bytes,
                              ls_error *err) {
    *out_bytes = state->program ? NULL : ls_data_bytes(state->value);
    if (state->program && ls_program_carry(state->program, state->slot, program, slot) != LS_OK) {
        return ls_onnx_take_error(session, err);
    }
    return LS_OK;
}

ls_status ls_onnx_state_fetch(ls_onnx_state *state, ls_session *session, ls_error *err) {
    ls_data *data = NULL;
    if (!state->program) {
        return LS_OK;
    }
    LS_TRY(err, ls_data_create(ls_session_context(session), ls_data_dtype(state->value), ls_data_rank(state->value), ls_data_dims(state->value),
                               NULL, &data, err));
    void *bytes = (void *)(uintptr_t)ls_data_bytes(data); /* nobody else has it yet */
    if (ls_program_read(state->program, state->slot, bytes, ls_data_size(data)) != LS_OK) {
        ls_data_release(data);
        return ls_onnx_take_error(session, err);
    }
    replace(state, data, NULL, 0);
    return LS_OK;
}

/* ---- of a runner ---- */

ls_onnx_state *ls_onnx_state_of_input(ls_runner *r, int i) {
    for (size_t k = 0; k < r->states.len; k++) {
        if (r->states.data[k].input == i) {
            return &r->states.data[k];
        }
    }
    return NULL;
}

ls_onnx_state *ls_onnx_state_of_output(ls_runner *r, int i) {
    for (size_t k = 0; k < r->states.len; k++) {
        if (r->states.data[k].output == i) {
            return &r->states.data[k];
        }
    }
    return NULL;
}

bool ls_onnx_holds_state(const ls_runner *r, const ls_program *program) {
    bool holds = false;
    for (size_t k = 0; k < r->states.len; k++) {
        holds |= r->states.data[k].program == program;
    }
    return holds;
}

static ls_status check(ls_runner *r, const char *output, const char *input, const ls_data *first, ls_onnx_state *s, ls_error *err) {
    const ls_model *model = r->base->model;
    s->input = ls_onnx_find_input(model, input);
    while (s->output < r->n_out && strcmp(ls_model_output(model, s->output).name, output) != 0) {
        s->output++;
    }
    if (s->input < 0) {
        return ls_onnx_unknown_input(model, input, err);
    }
    if (s->output == r->n_out) {
        return LS_FAIL(err, LS_ERR_INVALID, "%s: it has no output \"%s\"", model->name, output);
    }
    if (!first || ls_onnx_state_of_input(r, s->input) || ls_onnx_state_of_output(r, s->output)) {
        return LS_FAIL(err, LS_ERR_INVALID, "%s: state \"%s\" to \"%s\": %s", model->name, output, input,
                       first ? "one of them is a state already" : "expected the value that the first run gets");
    }
    const ls_model_port port = ls_model_input(model, s->input);
    return ls_onnx_check_port(model, &port, ls_data_dtype(first), ls_data_rank(first), ls_data_dims(first), err);
}

ls_status ls_runner_bind_state(ls_runner *r, const char *output, const char *input, const ls_data *first) {
    ls_error err = {.code = LS_OK};
    ls_onnx_state s = {0};
    ls_status status = check(r, output, input, first, &s, &err);
    if (status == LS_OK && !ls_array_push(r->base->heap, &r->states, s)) {
        status = LS_FAIL_MEMORY(&err, "a state");
    }
    if (status != LS_OK) {
        return ls_onnx_session_fails(r->base->session, &err);
    }
    ls_onnx_state *kept = &r->states.data[r->states.len - 1];
    kept->first = ls_data_retain((ls_data *)first);
    ls_onnx_state_reset(kept);
    return LS_OK;
}

void ls_runner_reset_state(ls_runner *r) {
    for (size_t i = 0; i < r->states.len; i++) {
        ls_onnx_state_reset(&r->states.data[i]);
    }
}

ls_status ls_runner_read_state(ls_runner *r, const char *input, ls_data **out_data) {
    ls_error err = {.code = LS_OK};
    ls_onnx_state *s = ls_onnx_state_of_input(r, ls_onnx_find_input(r->base->model, input));
    ls_status status = s ? ls_onnx_state_fetch(s, r->base->session, &err)
                         : LS_FAIL(&err, LS_ERR_INVALID, "%s: \"%s\" is no state", r->base->model->name, input);
    *out_data = status == LS_OK ? ls_data_retain(s->value) : NULL;
    return status == LS_OK ? LS_OK : ls_onnx_session_fails(r->base->session, &err);
}
