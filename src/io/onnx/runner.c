/* Building a model into a session, and running it: a program for each combination of input shapes (and of settings among the inputs, where shapes
 * or branches depend on them), or node by node where shapes depend on other values. */
#include "io/onnx/run.h"
#include <lockstep/device.h>
#include <string.h>

/* ---- what outlives a run ---- */

ls_status ls_onnx_base_create(ls_session *session, ls_model *model, ls_onnx_base **out_base, ls_error *err) {
    ls_context *context = ls_session_context(session);
    ls_heap *heap = ls_context_heap(context);
    ls_device *cpu = NULL;
    ls_onnx_base *b = ls_alloc_zeroed(heap, sizeof *b);
    if (!b) {
        return LS_FAIL_MEMORY(err, model->name);
    }
    b->model = ls_model_retain(model);
    b->heap = heap;
    b->session = session;
    ls_arena_init(&b->arena, heap);
    ls_map_init(&b->constants, heap, ls_onnx_same_name);
    ls_status status = ls_device_open(context, "cpu", &cpu, err);
    status = status == LS_OK ? ls_session_create(context, cpu, &b->host, err) : status;
    status = status == LS_OK ? ls_onnx_weights_acquire(model, ls_session_device(session), &b->weights, err) : status;
    if (status != LS_OK) {
        ls_onnx_base_destroy(b);
        return ls_error_forward(err, status, __FILE__, __LINE__);
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

static int input_type(const ls_model *model, int i) {
    ls_model_port port = ls_model_input(model, i);
    int type = ONNX_UNDEFINED;
    while (++type < ONNX_TYPES && strcmp(ls_onnx_type_name(type), port.type) != 0) {
    }
    return type < ONNX_TYPES ? type : ls_onnx_type_of(port.dtype);
}

static ls_status check_port(const ls_model *model, const ls_model_port *port, ls_dtype dtype, int rank, const int64_t *dims, ls_error *err) {
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

static int find_input(const ls_model *model, const char *name) {
    int n = ls_model_input_count(model);
    for (int i = 0; i < n; i++) {
        if (strcmp(ls_model_input(model, i).name, name) == 0) {
            return i;
        }
    }
    return -1;
}

static ls_status unknown_input(const ls_model *model, const char *name, ls_error *err) {
    char names[512] = "";
    for (int i = 0; i < ls_model_input_count(model); i++) {
        const char *other = ls_model_input(model, i).name;
        if (strlen(names) + strlen(other) + 5 < sizeof names) {
            strcat(strcat(strcat(names, i ? ", \"" : "\""), other), "\"");
        }
    }
    return LS_FAIL(err, LS_ERR_INVALID, "%s: it has no input \"%s\"; its inputs are %s", model->name, name, names);
}

/* In the model's order, NULL where a default serves. */
static ls_status sort_inputs(const ls_model *model, int n, const ls_named_data *inputs, const ls_data **out, ls_error *err) {
    for (int i = 0; i < n; i++) {
        int at = find_input(model, inputs[i].name);
        if (at < 0) {
            return unknown_input(model, inputs[i].name, err);
        }
        if (out[at]) {
            return LS_FAIL(err, LS_ERR_INVALID, "%s: input \"%s\" is given twice", model->name, inputs[i].name);
        }
        out[at] = inputs[i].data;
        const ls_model_port port = ls_model_input(model, at);
        LS_TRY(err, check_port(model, &port, ls_data_dtype(out[at]), ls_data_rank(out[at]), ls_data_dims(out[at]), err));
    }
    for (int i = 0; i < ls_model_input_count(model); i++) {
        ls_model_port port = ls_model_input(model, i);
        if (!out[i] && !port.has_default) {
            return LS_FAIL(err, LS_ERR_INVALID, "%s: input \"%s\" is not given", model->name, port.name);
        }
    }
    return LS_OK;
}

/* ---- building ---- */

static ls_status must_be_tensor(const ls_model *model, int i, const ls_onnx_value *v, ls_error *err) {
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
            LS_TRY(err, check_port(model, &port, ls_tensor_dtype(inputs[i]), rank, dims, err));
            in[i] = ls_onnx_run_tensor(run, inputs[i], input_type(model, i));
            if (!in[i]) {
                return LS_FAIL_MEMORY(err, port.name);
            }
        }
    }
    LS_TRY(err, ls_onnx_run_graph(run, in, values, err));
    for (int i = 0; i < n_out; i++) {
        LS_TRY(err, must_be_tensor(model, i, values[i], err));
        out[i] = ls_onnx_run_place(run, values[i], false, err);
        if (!out[i]) {
            return err->code;
        }
    }
    return LS_OK;
}

static ls_status session_fails(ls_session *s, const ls_error *err) {
    ls_session_set_error(s, err->code, "%s", err->message);
    return err->code;
}

ls_status ls_model_build(ls_session *session, ls_model *model, int n_inputs, ls_tensor *const *inputs, int n_outputs, ls_tensor **out_outputs) {
    ls_error err = {.code = LS_OK};
    ls_onnx_base *base = NULL;
    ls_onnx_run run;
    if (n_inputs != ls_model_input_count(model) || n_outputs != ls_model_output_count(model)) {
        LS_FAIL(&err, LS_ERR_INVALID, "%s: expected %d inputs and %d outputs, got %d and %d", model->name, ls_model_input_count(model),
                ls_model_output_count(model), n_inputs, n_outputs);
        return session_fails(session, &err);
    }
    ls_status status = ls_onnx_base_create(session, model, &base, &err);
    if (status == LS_OK && (status = ls_onnx_run_begin(&run, base, true, &err)) == LS_OK) {
        status = build(&run, n_inputs, inputs, n_outputs, out_outputs, &err);
        for (int i = 0; i < n_outputs && status == LS_OK; i++) {
            ls_keep(session, out_outputs[i]);
        }
        ls_onnx_run_end(&run);
    }
    ls_onnx_base_destroy(base);
    return status == LS_OK ? LS_OK : session_fails(session, &err);
}

/* ---- programs ---- */

typedef struct output {
    ls_dtype dtype;
    int rank;
    int64_t dims[LS_MAX_RANK];
    ls_data *known; /* does not depend on what the inputs hold; NULL: the program computes it */
} output;

typedef struct plan {
    struct plan *next;
    int64_t *shapes; /* of the inputs: given or not, rank, extents */
    ls_data **fixed; /* those whose numbers it is for, since shapes or branches depend on them; NULL: any */
    ls_program *program; /* NULL: node by node; or all outputs are known */
    bool eager;
    output *outputs;
} plan;

struct ls_runner {
    ls_onnx_base *base;
    plan *plans, *last;
    int n_in, n_out;
};

enum { SHAPE_WORDS = LS_MAX_RANK + 2 };

static void write_shapes(const ls_runner *r, const ls_data *const *inputs, int64_t *words) {
    memset(words, 0, sizeof *words * SHAPE_WORDS * (size_t)r->n_in);
    for (int i = 0; i < r->n_in; i++, words += SHAPE_WORDS) {
        if (inputs[i]) {
            words[0] = 1 + (int64_t)ls_data_dtype(inputs[i]);
            words[1] = ls_data_rank(inputs[i]);
            memcpy(words + 2, ls_data_dims(inputs[i]), sizeof *words * (size_t)words[1]);
        }
    }
}

static void free_plan(ls_runner *r, plan *p) {
    for (int i = 0; p->outputs && i < r->n_out; i++) {
        ls_data_release(p->outputs[i].known);
    }
    for (int i = 0; p->fixed && i < r->n_in; i++) {
        ls_data_release(p->fixed[i]);
    }
    ls_free(r->base->heap, p->fixed);
    ls_program_destroy(p->program);
    ls_free(r->base->heap, p->outputs);
    ls_free(r->base->heap, p->shapes);
    ls_free(r->base->heap, p);
}

ls_status ls_runner_create(ls_session *session, ls_model *model, ls_runner **out_runner) {
    ls_error err = {.code = LS_OK};
    ls_heap *heap = ls_context_heap(ls_session_context(session));
    ls_runner *r = ls_alloc_zeroed(heap, sizeof *r);
    ls_status status = r ? ls_onnx_base_create(session, model, &r->base, &err) : LS_FAIL_MEMORY(&err, model->name);
    if (status != LS_OK) {
        ls_free(heap, r);
        return session_fails(session, &err);
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
    for (plan *p = r->plans, *next; p; p = next) {
        next = p->next;
        free_plan(r, p);
    }
    ls_heap *heap = r->base->heap;
    ls_onnx_base_destroy(r->base);
    ls_free(heap, r);
}

static ls_status describe(ls_onnx_run *run, output *o, ls_onnx_value *v, int i, ls_error *err) {
    LS_TRY(err, must_be_tensor(run->base->model, i, v, err));
    if (v->known) {
        const ls_data *data;
        LS_TRY(err, ls_onnx_run_read(run, v, &data, err));
        o->known = ls_data_retain(v->data);
        return LS_OK;
    }
    o->dtype = ls_tensor_dtype(v->tensor);
    o->rank = ls_onnx_dims(v->tensor, o->dims);
    return LS_OK;
}

/* The session's error, taken away from it, as the model's. */
static ls_status session_failed(ls_runner *r, ls_error *err) {
    ls_error first = {.code = LS_OK};
    ls_status status = ls_onnx_take_error(r->base->session, &first);
    return LS_FAIL(err, status, "%s: %s", r->base->model->name, first.message);
}

static ls_status compile(ls_runner *r, ls_onnx_run *run, const ls_data *const *inputs, plan *p, ls_error *err) {
    ls_session *s = r->base->session;
    ls_model *model = r->base->model;
    ls_onnx_value **in = LS_ARENA_ARRAY(&run->arena, ls_onnx_value *, r->n_in + 1), **out = LS_ARENA_ARRAY(&run->arena, ls_onnx_value *, r->n_out + 1);
    ls_tensor **from = LS_ARENA_ARRAY(&run->arena, ls_tensor *, r->n_in + 1), **to = LS_ARENA_ARRAY(&run->arena, ls_tensor *, r->n_out + 1);
    int n_from = 0, n_to = 0;
    if (!in || !out || !from || !to) {
        return LS_FAIL_MEMORY(err, model->name);
    }
    for (int i = 0; i < r->n_in; i++) {
        if (p->fixed[i]) {
            in[i] = ls_onnx_run_data(run, p->fixed[i], input_type(model, i));
            if (!in[i]) {
                return LS_FAIL_MEMORY(err, "an input");
            }
        } else if (inputs[i]) {
            ls_shape shape = ls_shape_make(ls_data_rank(inputs[i]), ls_data_dims(inputs[i]));
            from[n_from] = ls_input(s, ls_model_input(model, i).name, ls_data_dtype(inputs[i]), shape);
            in[i] = from[n_from] ? ls_onnx_run_tensor(run, from[n_from], input_type(model, i)) : NULL;
            n_from++;
            if (!in[i]) {
                return LS_FAIL_MEMORY(err, "an input");
            }
        }
    }
    LS_TRY(err, ls_onnx_run_graph(run, in, out, err));
    for (int i = 0; i < r->n_out; i++) {
        LS_TRY(err, describe(run, &p->outputs[i], out[i], i, err));
        if (!p->outputs[i].known) {
            to[n_to++] = out[i]->tensor;
        }
    }
    return n_to && ls_program_compile(s, from, n_from, to, n_to, &p->program) != LS_OK ? session_failed(r, err) : LS_OK;
}

/* Whole numbers so few that they are a setting (a sampling rate, a flag, a shape) rather than data. */
static bool is_setting(const ls_data *data) {
    ls_dtype dtype = ls_data_dtype(data);
    return (dtype == LS_I64 || dtype == LS_I32 || dtype == LS_BOOL) && ls_data_numel(data) <= 8;
}

/* Compiles for the inputs' shapes and, the second time, for the settings among them. LS_ERR_UNSUPPORTED with *out_needs_values: neither does. */
static ls_status compile_plan(ls_runner *r, const ls_data *const *inputs, bool settings, plan *p, bool *out_needs_values, ls_error *err) {
    ls_onnx_run run;
    for (int i = 0; settings && i < r->n_in; i++) {
        if (inputs[i] && is_setting(inputs[i])) {
            p->fixed[i] = ls_data_retain((ls_data *)inputs[i]);
        }
    }
    LS_TRY(err, ls_onnx_run_begin(&run, r->base, false, err));
    ls_status status = compile(r, &run, inputs, p, err);
    *out_needs_values = status != LS_OK && run.needs_values;
    ls_onnx_run_end(&run);
    return status == LS_OK ? LS_OK : ls_error_forward(err, status, __FILE__, __LINE__);
}

/* `variants`: how many plans there are for these shapes and other settings. */
static ls_status make_plan(ls_runner *r, const ls_data *const *inputs, const int64_t *shapes, int variants, plan **out_plan, ls_error *err) {
    enum { MOST_VARIANTS = 8 };
    ls_heap *heap = r->base->heap;
    size_t words = SHAPE_WORDS * (size_t)r->n_in;
    plan *p = ls_alloc_zeroed(heap, sizeof *p);
    if (!p) {
        return LS_FAIL_MEMORY(err, "a plan");
    }
    p->shapes = ls_alloc(heap, sizeof *shapes * (words + 1));
    p->fixed = ls_alloc_zeroed(heap, sizeof *p->fixed * ((size_t)r->n_in + 1));
    p->outputs = ls_alloc_zeroed(heap, sizeof *p->outputs * ((size_t)r->n_out + 1));
    ls_status status = p->shapes && p->fixed && p->outputs ? LS_OK : LS_FAIL_MEMORY(err, "a plan");
    bool needs_values = variants > 0;
    if (status == LS_OK) {
        memcpy(p->shapes, shapes, sizeof *shapes * words);
        status = needs_values ? LS_ERR_UNSUPPORTED : compile_plan(r, inputs, false, p, &needs_values, err);
    }
    if (status == LS_ERR_UNSUPPORTED && needs_values && variants < MOST_VARIANTS) {
        ls_error_clear(err);
        status = compile_plan(r, inputs, true, p, &needs_values, err);
    }
    if (status == LS_ERR_UNSUPPORTED && needs_values) {
        ls_error_clear(err);
        p->eager = true;
        for (int i = 0; i < r->n_in; i++) { /* for any settings */
            ls_data_release(p->fixed[i]);
            p->fixed[i] = NULL;
        }
        status = LS_OK;
    }
    if (status != LS_OK) {
        free_plan(r, p);
        return ls_error_forward(err, status, __FILE__, __LINE__);
    }
    p->next = r->plans;
    r->plans = p;
    *out_plan = p;
    return LS_OK;
}

static bool has_settings(const ls_runner *r, const plan *p, const ls_data *const *inputs) {
    for (int i = 0; i < r->n_in; i++) {
        if (p->fixed[i] && memcmp(ls_data_bytes(p->fixed[i]), ls_data_bytes(inputs[i]), ls_data_size(inputs[i])) != 0) {
            return false;
        }
    }
    return true;
}

static ls_status find_plan(ls_runner *r, const ls_data *const *inputs, plan **out_plan, ls_error *err) {
    size_t words = SHAPE_WORDS * (size_t)r->n_in;
    int64_t *shapes = ls_alloc(r->base->heap, sizeof *shapes * (words + 1));
    int variants = 0;
    if (!shapes) {
        return LS_FAIL_MEMORY(err, "shapes");
    }
    write_shapes(r, inputs, shapes);
    plan *p = r->plans;
    for (; p; p = p->next) {
        bool same = memcmp(p->shapes, shapes, sizeof *shapes * words) == 0;
        if (same && has_settings(r, p, inputs)) {
            break;
        }
        variants += same;
    }
    ls_status status = p ? LS_OK : make_plan(r, inputs, shapes, variants, &p, err);
    ls_free(r->base->heap, shapes);
    *out_plan = p;
    return status;
}

/* ---- running ---- */

static ls_status run_program(ls_runner *r, const plan *p, const ls_data *const *inputs, ls_data **out, ls_error *err) {
    ls_context *context = ls_session_context(r->base->session);
    const void **from = ls_alloc(r->base->heap, sizeof *from * ((size_t)r->n_in + 1));
    void **to = ls_alloc(r->base->heap, sizeof *to * ((size_t)r->n_out + 1));
    int n_from = 0, n_to = 0;
    ls_status status = from && to ? LS_OK : LS_FAIL_MEMORY(err, "a run");
    for (int i = 0; i < r->n_in && status == LS_OK; i++) {
        if (inputs[i] && !p->fixed[i]) {
            from[n_from++] = ls_data_bytes(inputs[i]);
        }
    }
    for (int i = 0; i < r->n_out && status == LS_OK; i++) {
        const output *o = &p->outputs[i];
        if (o->known) {
            out[i] = ls_data_retain(o->known);
        } else {
            status = ls_data_create(context, o->dtype, o->rank, o->dims, NULL, &out[i], err);
            to[n_to++] = status == LS_OK ? (void *)ls_data_bytes(out[i]) : NULL;
        }
    }
    if (status == LS_OK && p->program && ls_program_run(p->program, from, to) != LS_OK) {
        status = session_failed(r, err);
    }
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
            in[i] = ls_onnx_run_data(&run, (ls_data *)inputs[i], input_type(base->model, i));
            status = in[i] ? LS_OK : LS_FAIL_MEMORY(err, "an input");
            if (in[i]) {
                in[i]->known = false; /* so that what depends on it is computed on the device */
            }
        }
    }
    status = status == LS_OK ? ls_onnx_run_graph(&run, in, values, err) : status;
    for (int i = 0; i < r->n_out && status == LS_OK; i++) {
        const ls_data *data;
        status = must_be_tensor(base->model, i, values[i], err);
        status = status == LS_OK ? ls_onnx_run_read(&run, values[i], &data, err) : status;
        out[i] = status == LS_OK ? ls_data_retain(values[i]->data) : NULL;
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

static ls_status run_sorted(ls_runner *r, const ls_data *const *inputs, ls_data **out, ls_error *err) {
    plan *p;
    r->last = NULL;
    if (overrides(r, inputs)) {
        ls_onnx_base *once;
        LS_TRY(err, ls_onnx_base_create(r->base->session, r->base->model, &once, err));
        ls_status status = run_eagerly(r, once, inputs, out, err);
        ls_onnx_base_destroy(once);
        return status;
    }
    LS_TRY(err, find_plan(r, inputs, &p, err));
    r->last = p;
    return p->eager ? run_eagerly(r, r->base, inputs, out, err) : run_program(r, p, inputs, out, err);
}

ls_program *ls_runner_program(const ls_runner *r) {
    return r->last ? r->last->program : NULL;
}

ls_status ls_runner_prepare(ls_runner *r, int n_inputs, const ls_named_data *inputs) {
    ls_error err = {.code = LS_OK};
    const ls_data **sorted = ls_alloc_zeroed(r->base->heap, sizeof *sorted * ((size_t)r->n_in + 1));
    ls_status status = sorted ? sort_inputs(r->base->model, n_inputs, inputs, sorted, &err) : LS_FAIL_MEMORY(&err, "inputs");
    r->last = NULL;
    if (status == LS_OK && !overrides(r, sorted)) {
        status = find_plan(r, sorted, &r->last, &err);
    }
    ls_free(r->base->heap, sorted);
    return status == LS_OK ? LS_OK : session_fails(r->base->session, &err);
}

ls_status ls_runner_run(ls_runner *r, int n_inputs, const ls_named_data *inputs, ls_data **out_outputs) {
    ls_error err = {.code = LS_OK};
    const ls_data **sorted = ls_alloc_zeroed(r->base->heap, sizeof *sorted * ((size_t)r->n_in + 1));
    ls_status status = sorted ? sort_inputs(r->base->model, n_inputs, inputs, sorted, &err) : LS_FAIL_MEMORY(&err, "inputs");
    memset(out_outputs, 0, sizeof *out_outputs * (size_t)r->n_out);
    status = status == LS_OK ? run_sorted(r, sorted, out_outputs, &err) : status;
    for (int i = 0; i < r->n_out && status != LS_OK; i++) {
        ls_data_release(out_outputs[i]);
        out_outputs[i] = NULL;
    }
    ls_free(r->base->heap, sorted);
    return status == LS_OK ? LS_OK : session_fails(r->base->session, &err);
}

/* ---- values of any kind ---- */

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

static ls_status run_values(ls_onnx_run *run, ls_arena *arena, int n_in, ls_onnx_value *const *in, int n_out, ls_onnx_value **out, ls_error *err) {
    ls_model *model = run->base->model;
    ls_onnx_value **entered = LS_ARENA_ARRAY(&run->arena, ls_onnx_value *, n_in + 1), **results = LS_ARENA_ARRAY(&run->arena, ls_onnx_value *, n_out + 1);
    if (n_in != ls_model_input_count(model) || n_out != ls_model_output_count(model)) {
        return LS_FAIL(err, LS_ERR_INVALID, "%s: expected values for all its inputs and outputs", model->name);
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

ls_status ls_onnx_run_values(ls_session *session, ls_model *model, ls_arena *arena, int n_in, ls_onnx_value *const *in, int n_out,
                             ls_onnx_value **out) {
    ls_error err = {.code = LS_OK};
    ls_onnx_base *base = NULL;
    ls_onnx_run run;
    ls_status status = ls_onnx_base_create(session, model, &base, &err);
    if (status == LS_OK && (status = ls_onnx_run_begin(&run, base, true, &err)) == LS_OK) {
        status = run_values(&run, arena, n_in, in, n_out, out, &err);
        ls_onnx_run_end(&run);
    }
    ls_onnx_base_destroy(base);
    return status == LS_OK ? LS_OK : session_fails(session, &err);
}
