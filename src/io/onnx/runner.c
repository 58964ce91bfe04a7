/* Building a model into a session, and running it: by a program (plan.h), or node by node where shapes depend on values. */
#include "io/onnx/plan.h"
#include <lockstep/device.h>
#include <string.h>

/* ---- what outlives a run ---- */

ls_status ls_onnx_base_create(ls_session *session, ls_model *model, ls_onnx_base **out_base, ls_error *err) {
    ls_context *context = ls_session_context(session);
    ls_heap *heap = ls_context_heap(context);
    ls_device *cpu = NULL;
    if (!model) {
        return LS_FAIL(err, LS_ERR_INVALID, "the model is NULL");
    }
    ls_onnx_base *b = ls_alloc_zeroed(heap, sizeof *b);
    if (!b) {
        return LS_FAIL_MEMORY(err, model->name);
    }
    b->model = ls_model_retain(model);
    b->heap = heap;
    b->session = session;
    ls_arena_init(&b->arena, heap);
    ls_map_init(&b->constants, heap, ls_onnx_same_name);
    ls_map_init(&b->roles, heap, ls_onnx_same_name);
    ls_status status = ls_device_open(context, "cpu", &cpu, err);
    status = status == LS_OK ? ls_session_create(context, cpu, &b->host, err) : status;
    status = status == LS_OK ? ls_onnx_weights_acquire(model, ls_session_device(session), &b->weights, err) : status;
    if (status != LS_OK) {
        ls_onnx_base_destroy(b);
        return LS_FORWARD(err, status);
    }
    *out_base = b;
    return LS_OK;
}

void ls_onnx_base_destroy(ls_onnx_base *b) {
    if (!b) {
        return;
    }
    for (size_t i = 0; i < b->tensors.len; i++) {
        ls_release(b->tensors.data[i]);
    }
    for (size_t i = 0; i < b->data.len; i++) {
        ls_data_release(b->data.data[i]);
    }
    ls_array_free(b->heap, &b->tensors);
    ls_array_free(b->heap, &b->data);
    ls_map_free(&b->constants);
    ls_map_free(&b->roles);
    ls_arena_free(&b->arena);
    ls_session_destroy(b->host);
    ls_onnx_weights_release(b->weights);
    ls_model_release(b->model);
    ls_free(b->heap, b);
}

/* ---- a run ---- */

ls_status ls_onnx_run_begin(ls_onnx_run *run, ls_onnx_base *base, bool eager, ls_error *err) {
    *run = (ls_onnx_run){.base = base, .eager = eager};
    ls_arena_init(&run->arena, base->heap);
    if (ls_scope_begin(base->host) != LS_OK) {
        return LS_FAIL_MEMORY(err, "a scope");
    }
    if (ls_scope_begin(base->session) != LS_OK) {
        ls_scope_end(base->host);
        return LS_FAIL_MEMORY(err, "a scope");
    }
    return LS_OK;
}

void ls_onnx_run_end(ls_onnx_run *run) {
    for (size_t i = 0; i < run->data.len; i++) {
        ls_data_release(run->data.data[i]);
    }
    ls_array_free(run->base->heap, &run->data);
    ls_scope_end(run->base->session);
    ls_scope_end(run->base->host);
    ls_arena_free(&run->arena);
}

/* ---- inputs ---- */

int ls_onnx_input_type(const ls_model *model, int i) {
    ls_model_port port = ls_model_input(model, i);
    int type = ONNX_UNDEFINED;
    while (++type < ONNX_TYPES && strcmp(ls_onnx_type_name(type), port.type) != 0) {
    }
    return type < ONNX_TYPES ? type : ls_onnx_type_of(port.dtype);
}

ls_status ls_onnx_check_port(const ls_model *model, const ls_model_port *port, ls_dtype dtype, int rank, const int64_t *dims, ls_error *err) {
    if (port->dtype != LS_DTYPE_COUNT && dtype != port->dtype) {
        return LS_FAIL(err, LS_ERR_DTYPE, "%s: input \"%s\": expected %s, got %s", model->name, port->name, ls_dtype_name(port->dtype),
                       ls_dtype_name(dtype));
    }
    if (port->rank >= 0 && rank != port->rank) {
        return LS_FAIL(err, LS_ERR_SHAPE, "%s: input \"%s\": expected %d axes, got %d", model->name, port->name, port->rank, rank);
    }
    for (int i = 0; port->rank >= 0 && i < rank; i++) {
        if (port->dims[i] >= 0 && dims[i] != port->dims[i]) {
            return LS_FAIL(err, LS_ERR_SHAPE, "%s: input \"%s\": expected extent %lld on axis %d, got %lld", model->name, port->name,
                           (long long)port->dims[i], i, (long long)dims[i]);
        }
    }
    return LS_OK;
}

int ls_onnx_find_input(const ls_model *model, const char *name) {
    int n = ls_model_input_count(model);
    for (int i = 0; i < n; i++) {
        if (strcmp(ls_model_input(model, i).name, name) == 0) {
            return i;
        }
    }
    return -1;
}

ls_status ls_onnx_unknown_input(const ls_model *model, const char *name, ls_error *err) {
    char names[512] = "";
    for (int i = 0; i < ls_model_input_count(model); i++) {
        const char *other = ls_model_input(model, i).name;
        if (strlen(names) + strlen(other) + 5 < sizeof names) {
            strcat(strcat(strcat(names, i ? ", \"" : "\""), other), "\"");
        }
    }
    return LS_FAIL(err, LS_ERR_INVALID, "%s: it has no input \"%s\"; its inputs are %s", model->name, name, names);
}

/* In the model's order, NULL where a default serves. `out` has those that are states already. */
static ls_status sort_inputs(const ls_model *model, int n, const ls_named_data *inputs, const ls_data **out, ls_error *err) {
    for (int i = 0; i < n; i++) {
        int at = ls_onnx_find_input(model, inputs[i].name);
        if (at < 0) {
            return ls_onnx_unknown_input(model, inputs[i].name, err);
        }
        if (out[at]) {
            return LS_FAIL(err, LS_ERR_INVALID, "%s: input \"%s\" is given twice, or is a state", model->name, inputs[i].name);
        }
        out[at] = inputs[i].data;
    }
    for (int i = 0; i < ls_model_input_count(model); i++) {
        ls_model_port port = ls_model_input(model, i);
        if (!out[i] && !port.has_default) {
            return LS_FAIL(err, LS_ERR_INVALID, "%s: input \"%s\" is not given", model->name, port.name);
        }
        if (out[i]) {
            LS_TRY(err, ls_onnx_check_port(model, &port, ls_data_dtype(out[i]), ls_data_rank(out[i]), ls_data_dims(out[i]), err));
        }
    }
    return LS_OK;
}

/* ---- building ---- */

ls_status ls_onnx_must_be_tensor(const ls_model *model, int i, const ls_onnx_value *v, ls_error *err) {
    return v->kind == ONNX_TENSOR ? LS_OK
                                  : LS_FAIL(err, LS_ERR_UNSUPPORTED, "%s: output \"%s\" is no tensor of numbers", model->name,
                                            ls_model_output(model, i).name);
}

static ls_status build(ls_onnx_run *run, int n_in, ls_tensor *const *inputs, int n_out, ls_tensor **out, ls_error *err) {
    ls_model *model = run->base->model;
    ls_onnx_value **in = LS_ARENA_ARRAY(&run->arena, ls_onnx_value *, n_in + 1), **values = LS_ARENA_ARRAY(&run->arena, ls_onnx_value *, n_out + 1);
    if (!in || !values) {
        return LS_FAIL_MEMORY(err, model->name);
    }
    for (int i = 0; i < n_in; i++) {
        ls_model_port port = ls_model_input(model, i);
        if (!inputs[i] && !port.has_default) {
            return LS_FAIL(err, LS_ERR_INVALID, "%s: input \"%s\" is not given", model->name, port.name);
        }
        if (inputs[i]) {
            int64_t dims[LS_MAX_RANK];
            int rank = ls_onnx_dims(inputs[i], dims);
            LS_TRY(err, ls_onnx_check_port(model, &port, ls_tensor_dtype(inputs[i]), rank, dims, err));
            in[i] = ls_onnx_run_tensor(run, inputs[i], ls_onnx_input_type(model, i));
            if (!in[i]) {
                return LS_FAIL_MEMORY(err, port.name);
            }
        }
    }
    LS_TRY(err, ls_onnx_run_graph(run, in, values, err));
    for (int i = 0; i < n_out; i++) {
        LS_TRY(err, ls_onnx_must_be_tensor(model, i, values[i], err));
        out[i] = ls_onnx_run_place(run, values[i], false, err);
        if (!out[i]) {
            return err->code;
        }
    }
    return LS_OK;
}

ls_status ls_onnx_session_fails(ls_session *s, const ls_error *err) {
    ls_session_set_error(s, err->code, "%s", err->message);
    return err->code;
}

static ls_status build_model(ls_session *session, ls_model *model, const ls_onnx_training *training, int n_inputs, ls_tensor *const *inputs,
                             int n_outputs, ls_tensor **out_outputs) {
    ls_error err = {.code = LS_OK};
    ls_onnx_base *base = NULL;
    ls_onnx_run run;
    if (model && (n_inputs != ls_model_input_count(model) || n_outputs != ls_model_output_count(model))) {
        LS_FAIL(&err, LS_ERR_INVALID, "%s: expected %d inputs and %d outputs, got %d and %d", model->name, ls_model_input_count(model),
                ls_model_output_count(model), n_inputs, n_outputs);
        return ls_onnx_session_fails(session, &err);
    }
    ls_status status = ls_onnx_base_create(session, model, &base, &err);
    status = status == LS_OK && training ? ls_onnx_train(base, training, &err) : status;
    if (status == LS_OK && (status = ls_onnx_run_begin(&run, base, true, &err)) == LS_OK) {
        status = build(&run, n_inputs, inputs, n_outputs, out_outputs, &err);
        for (int i = 0; i < n_outputs && status == LS_OK; i++) {
            ls_keep(session, out_outputs[i]);
        }
        ls_onnx_run_end(&run);
    }
    ls_onnx_base_destroy(base);
    return status == LS_OK ? LS_OK : ls_onnx_session_fails(session, &err);
}

ls_status ls_model_build(ls_session *session, ls_model *model, int n_inputs, ls_tensor *const *inputs, int n_outputs, ls_tensor **out_outputs) {
    return build_model(session, model, NULL, n_inputs, inputs, n_outputs, out_outputs);
}

ls_status ls_model_build_params(ls_session *session, ls_model *model, ls_params *params, ls_param_choice choose, void *user, int n_inputs,
                                ls_tensor *const *inputs, int n_outputs, ls_tensor **out_outputs) {
    const ls_onnx_training training = {params, choose, user};
    return build_model(session, model, &training, n_inputs, inputs, n_outputs, out_outputs);
}

/* ---- runners ---- */

ls_status ls_runner_create(ls_session *session, ls_model *model, ls_runner **out_runner) {
    ls_error err = {.code = LS_OK};
    ls_heap *heap = ls_context_heap(ls_session_context(session));
    ls_runner *r = ls_alloc_zeroed(heap, sizeof *r);
    ls_status status = r ? ls_onnx_base_create(session, model, &r->base, &err) : LS_FAIL_MEMORY(&err, "a runner");
    if (status != LS_OK) {
        ls_free(heap, r);
        return ls_onnx_session_fails(session, &err);
    }
    r->n_in = ls_model_input_count(model);
    r->n_out = ls_model_output_count(model);
    *out_runner = r;
    return LS_OK;
}

void ls_runner_destroy(ls_runner *r) {
    if (!r) {
        return;
    }
    for (ls_onnx_plan *p = r->plans, *next; p; p = next) {
        next = p->next;
        ls_onnx_free_plan(r, p);
    }
    ls_heap *heap = r->base->heap;
    for (size_t i = 0; i < r->stated.len; i++) {
        ls_free(heap, r->stated.data[i].name);
    }
    ls_array_free(heap, &r->stated);
    for (size_t i = 0; i < r->states.len; i++) {
        ls_data_release(r->states.data[i].value);
        ls_data_release(r->states.data[i].first);
    }
    ls_array_free(heap, &r->states);
    ls_array_free(heap, &r->symbols);
    ls_free(heap, r->refusal);
    ls_onnx_base_destroy(r->base);
    ls_free(heap, r);
}

/* ---- running ---- */

static void write_dims(const ls_onnx_output *o, int64_t value, int64_t dims[LS_MAX_RANK]) {
    for (int k = 0; k < o->shape.rank; k++) {
        dims[k] = o->shape.dim[k].scale * value + o->shape.dim[k].offset;
    }
}

/* After a run: what the states are now. */
static ls_status keep_states(ls_runner *r, const ls_onnx_plan *p, int64_t value, ls_error *err) {
    for (int i = 0, slot = 0; i < r->n_out; i++) {
        const ls_onnx_output *o = &p->outputs[i];
        ls_onnx_state *state = ls_onnx_state_of_output(r, i);
        if (state && o->known) {
            ls_onnx_state_set(state, o->known);
        } else if (state) {
            int64_t dims[LS_MAX_RANK];
            write_dims(o, value, dims);
            LS_TRY(err, ls_onnx_state_set_output(state, ls_session_context(r->base->session), p->program, slot, o->dtype, o->shape.rank, dims, err));
        }
        slot += !o->known;
    }
    return LS_OK;
}

static ls_status run_program(ls_runner *r, const ls_onnx_plan *p, int64_t value, const ls_data *const *inputs, ls_data **out, ls_error *err) {
    ls_context *context = ls_session_context(r->base->session);
    const void **from = ls_alloc(r->base->heap, sizeof *from * ((size_t)r->n_in + 1));
    void **to = ls_alloc(r->base->heap, sizeof *to * ((size_t)r->n_out + 1));
    int n_from = 0, n_to = 0;
    ls_status status = from && to ? LS_OK : LS_FAIL_MEMORY(err, "a run");
    if (status == LS_OK && p->symbol && ls_symbol_bind(r->base->session, p->symbol, value) != LS_OK) {
        status = ls_onnx_session_failed(r, err);
    }
    for (int i = 0; i < r->n_in && status == LS_OK; i++) {
        ls_onnx_state *state = ls_onnx_state_of_input(r, i);
        if (inputs[i] && !p->fixed[i]) {
            from[n_from] = state ? NULL : ls_data_bytes(inputs[i]);
            status = state && p->program ? ls_onnx_state_enter(state, r->base->session, p->program, n_from, &from[n_from], err) : LS_OK;
            n_from++;
        }
    }
    for (int i = 0; i < r->n_out && status == LS_OK; i++) {
        const ls_onnx_output *o = &p->outputs[i];
        if (ls_onnx_state_of_output(r, i)) {
            to[n_to] = NULL;
            n_to += !o->known;
        } else if (o->known) {
            out[i] = ls_data_retain(o->known);
        } else {
            int64_t dims[LS_MAX_RANK];
            write_dims(o, value, dims);
            status = ls_data_create(context, o->dtype, o->shape.rank, dims, NULL, &out[i], err);
            to[n_to++] = status == LS_OK ? (void *)ls_data_bytes(out[i]) : NULL;
        }
    }
    if (status == LS_OK && p->program && ls_program_run(p->program, from, to) != LS_OK) {
        status = ls_onnx_session_failed(r, err);
    }
    status = status == LS_OK ? keep_states(r, p, value, err) : status;
    ls_free(r->base->heap, from);
    ls_free(r->base->heap, to);
    return status;
}

static ls_status run_eagerly(ls_runner *r, ls_onnx_base *base, const ls_data *const *inputs, ls_data **out, ls_error *err) {
    ls_onnx_run run;
    LS_TRY(err, ls_onnx_run_begin(&run, base, true, err));
    ls_onnx_value **in = LS_ARENA_ARRAY(&run.arena, ls_onnx_value *, r->n_in + 1), **values = LS_ARENA_ARRAY(&run.arena, ls_onnx_value *, r->n_out + 1);
    ls_status status = in && values ? LS_OK : LS_FAIL_MEMORY(err, "a run");
    for (int i = 0; i < r->n_in && status == LS_OK; i++) {
        if (inputs[i]) {
            in[i] = ls_onnx_run_data(&run, (ls_data *)inputs[i], ls_onnx_input_type(base->model, i));
            status = in[i] ? LS_OK : LS_FAIL_MEMORY(err, "an input");
            if (in[i]) {
                in[i]->known = false; /* so that what depends on it is computed on the device */
            }
        }
    }
    status = status == LS_OK ? ls_onnx_run_graph(&run, in, values, err) : status;
    for (int i = 0; i < r->n_out && status == LS_OK; i++) {
        const ls_data *data;
        status = ls_onnx_must_be_tensor(base->model, i, values[i], err);
        status = status == LS_OK ? ls_onnx_run_read(&run, values[i], &data, err) : status;
        ls_onnx_state *state = status == LS_OK ? ls_onnx_state_of_output(r, i) : NULL;
        if (state) {
            ls_onnx_state_set(state, values[i]->data);
        }
        out[i] = status == LS_OK && !state ? ls_data_retain(values[i]->data) : NULL;
    }
    ls_onnx_run_end(&run);
    return status;
}

/* Where the caller gives an input that has a default, what followed from the default does not hold. */
static bool overrides(const ls_runner *r, const ls_data *const *inputs) {
    for (int i = 0; i < r->n_in; i++) {
        if (inputs[i] && ls_model_input(r->base->model, i).has_default) {
            return true;
        }
    }
    return false;
}

/* Node by node; what depends on the inputs may need the numbers of states. */
static ls_status run_nodes(ls_runner *r, ls_onnx_base *base, const ls_data **inputs, ls_data **out, ls_error *err) {
    for (size_t i = 0; i < r->states.len; i++) {
        LS_TRY(err, ls_onnx_state_fetch(&r->states.data[i], r->base->session, err));
        inputs[r->states.data[i].input] = r->states.data[i].value;
    }
    return run_eagerly(r, base, inputs, out, err);
}

static void release_outputs(const ls_runner *r, ls_data **out) {
    for (int i = 0; i < r->n_out; i++) {
        ls_data_release(out[i]);
        out[i] = NULL;
    }
}

static ls_status run_sorted(ls_runner *r, const ls_data **inputs, ls_data **out, ls_error *err) {
    ls_onnx_plan *p = NULL;
    int64_t value = 0;
    r->last = NULL;
    if (overrides(r, inputs)) {
        ls_onnx_base *once;
        LS_TRY(err, ls_onnx_base_create(r->base->session, r->base->model, &once, err));
        ls_status status = run_nodes(r, once, inputs, out, err);
        ls_onnx_base_destroy(once);
        return status;
    }
    LS_TRY(err, ls_onnx_find_plan(r, inputs, &p, &value, err));
    r->last = p;
    if (p->eager) {
        return run_nodes(r, r->base, inputs, out, err);
    }
    ls_status status = run_program(r, p, value, inputs, out, err);
    if ((status == LS_ERR_MEMORY || status == LS_ERR_UNSUPPORTED) && p->symbol && !r->states.len) {
        ls_error again = {.code = LS_OK};
        release_outputs(r, out);
        r->last = NULL;
        if (ls_onnx_fix_plan(r, inputs, err->message, &p, &again) == LS_OK) {
            r->last = p;
            ls_error_clear(err);
            status =
                p->eager ? run_nodes(r, r->base, inputs, out, err) : run_program(r, p, 0, inputs, out, err);
        }
    }
    return status;
}

ls_status ls_runner_set_bound(ls_runner *r, const char *dimension, int64_t most) {
    ls_error err = {.code = LS_OK};
    ls_heap *heap = r->base->heap;
    bool known = false;
    for (int i = 0; i < r->n_in; i++) {
        const ls_model_port port = ls_model_input(r->base->model, i);
        for (int k = 0; k < port.rank; k++) {
            known |= port.dim_names[k] && !strcmp(port.dim_names[k], dimension);
        }
    }
    if (!known || most < 1 || most > (int64_t)1 << 40) {
        LS_FAIL(&err, LS_ERR_INVALID, "%s: bound %lld of dimension \"%s\": expected a name of a dimension of its inputs, and 1 to 2^40",
                r->base->model->name, (long long)most, dimension);
        return ls_onnx_session_fails(r->base->session, &err);
    }
    for (size_t i = 0; i < r->stated.len; i++) {
        if (!strcmp(r->stated.data[i].name, dimension)) {
            r->stated.data[i].most = most;
            return LS_OK;
        }
    }
    const ls_onnx_stated bound = {ls_strdup(heap, dimension), most};
    if (!bound.name || !ls_array_push(heap, &r->stated, bound)) {
        ls_free(heap, bound.name);
        LS_FAIL_MEMORY(&err, "a bound");
        return ls_onnx_session_fails(r->base->session, &err);
    }
    return LS_OK;
}

ls_runner_facts ls_runner_get_facts(const ls_runner *r) {
    ls_runner_facts facts = r->facts;
    facts.fixed_because = r->refusal;
    return facts;
}

ls_program *ls_runner_program(const ls_runner *r) {
    return r->last ? r->last->program : NULL;
}

/* The given inputs and the states, in the model's order; the caller frees the list. */
static ls_status take_inputs(ls_runner *r, int n_inputs, const ls_named_data *inputs, const ls_data ***out_sorted, ls_error *err) {
    const ls_data **sorted = ls_alloc_zeroed(r->base->heap, sizeof *sorted * ((size_t)r->n_in + 1));
    if (!sorted) {
        return LS_FAIL_MEMORY(err, "inputs");
    }
    for (size_t i = 0; i < r->states.len; i++) {
        sorted[r->states.data[i].input] = r->states.data[i].value;
    }
    *out_sorted = sorted;
    return sort_inputs(r->base->model, n_inputs, inputs, sorted, err);
}

ls_status ls_runner_prepare(ls_runner *r, int n_inputs, const ls_named_data *inputs) {
    ls_error err = {.code = LS_OK};
    const ls_data **sorted = NULL;
    ls_status status = take_inputs(r, n_inputs, inputs, &sorted, &err);
    int64_t value;
    r->last = NULL;
    if (status == LS_OK && !overrides(r, sorted)) {
        status = ls_onnx_find_plan(r, sorted, &r->last, &value, &err);
    }
    ls_free(r->base->heap, sorted);
    return status == LS_OK ? LS_OK : ls_onnx_session_fails(r->base->session, &err);
}

ls_status ls_runner_run(ls_runner *r, int n_inputs, const ls_named_data *inputs, ls_data **out_outputs) {
    ls_error err = {.code = LS_OK};
    const ls_data **sorted = NULL;
    ls_status status = take_inputs(r, n_inputs, inputs, &sorted, &err);
    memset(out_outputs, 0, sizeof *out_outputs * (size_t)r->n_out);
    status = status == LS_OK ? run_sorted(r, sorted, out_outputs, &err) : status;
    if (status != LS_OK && status != LS_ERR_AGAIN) { /* what it has overwritten is not known */
        ls_runner_reset_state(r);
    }
    if (status != LS_OK) {
        release_outputs(r, out_outputs);
    }
    ls_free(r->base->heap, sorted);
    return status == LS_OK ? LS_OK : ls_onnx_session_fails(r->base->session, &err);
}
