/* Test cases of the ONNX project: a folder with model.onnx and sets of test data, run on a session's device.
 *
 * Models whose inputs and outputs are all tensors of numbers are run as anyone would, by ls_runner; others node by node, since only the
 * interpreter knows sequences, optionals and strings. */
#include "io/onnx/case.h"
#include "io/onnx/load.h"
#include <stdio.h>
#include <string.h>

typedef struct test_case {
    ls_session *session;
    ls_model *model;
    const char *folder;
    int n_in, n_out;
    bool plain;  /* tensors of numbers alone */
    bool random; /* draws random numbers */
    bool fourier;
    ls_runner *runner; /* plain */
    ls_model_case *result;
    ls_sha256 sha;
    ls_error *err;
} test_case;

static bool is_there(const char *path) {
    ls_mapping map;
    if (ls_file_map(path, &map, NULL) != LS_OK) {
        return false;
    }
    ls_file_unmap(&map);
    return true;
}

static bool is_numbers(const ls_model_port *port) {
    return port->dtype != LS_DTYPE_COUNT;
}

static int type_of(const ls_model_port *port) {
    for (int type = ONNX_UNDEFINED + 1; type < ONNX_TYPES; type++) {
        if (strcmp(ls_onnx_type_name(type), port->type) == 0) {
            return type;
        }
    }
    return ls_onnx_type_of(port->dtype);
}

/* The session's error becomes *err, and the session is as before. */
static ls_status take_error(ls_session *s, ls_error *err) {
    ls_error first = *ls_session_error(s);
    ls_session_clear_error(s);
    return first.code == LS_OK ? LS_FAIL(err, LS_ERR_INTERNAL, "a run failed without a reason")
                               : LS_FAIL(err, first.code, "%s", first.message);
}

/* ---- running ---- */

static ls_status run_plain(test_case *c, ls_case_values *values, ls_onnx_value *const *in,
                           ls_onnx_value **out) {
    ls_named_data *inputs = LS_ARENA_ARRAY(&values->arena, ls_named_data, c->n_in + 1);
    ls_data **data = LS_ARENA_ARRAY(&values->arena, ls_data *, c->n_out + 1);
    int n = 0;
    if (!inputs || !data) {
        return LS_FAIL_MEMORY(c->err, c->folder);
    }
    for (int i = 0; i < c->n_in; i++) {
        if (in[i]) {
            inputs[n++] = (ls_named_data){ls_model_input(c->model, i).name, in[i]->data};
        }
    }
    if (ls_runner_run(c->runner, n, inputs, data) != LS_OK) {
        return take_error(c->session, c->err);
    }
    ls_status status = LS_OK;
    for (int i = 0; i < c->n_out; i++) {
        ls_model_port port = ls_model_output(c->model, i);
        int type = type_of(&port);
        if (status == LS_OK && ls_data_dtype(data[i]) != ls_onnx_carrier(type)) {
            type = ls_onnx_type_of(ls_data_dtype(data[i]));
        }
        status = status == LS_OK ? ls_case_wrap(values, data[i], type, &out[i], c->err) : status;
        ls_data_release(data[i]);
    }
    return status;
}

/* The arrays of a result, those of its items too, become the set's. */
static ls_status own(test_case *c, ls_case_values *values, const ls_onnx_value *v) {
    ls_status status = LS_OK;
    if (v->kind == ONNX_TENSOR && !ls_array_push(values->arena.heap, &values->data, v->data)) {
        ls_data_release(v->data);
        return LS_FAIL_MEMORY(c->err, c->folder);
    }
    for (int i = 0; v->kind >= ONNX_SEQUENCE && i < v->count; i++) {
        ls_status item = own(c, values, v->items[i]);
        status = status == LS_OK ? item : status;
    }
    return status;
}

static ls_status run_values(test_case *c, ls_case_values *values, ls_onnx_value *const *in,
                            ls_onnx_value **out) {
    if (ls_onnx_run_values(c->session, c->model, &values->arena, c->n_in, in, c->n_out, out) != LS_OK) {
        return take_error(c->session, c->err);
    }
    ls_status status = LS_OK;
    for (int i = 0; i < c->n_out; i++) {
        ls_status item = own(c, values, out[i]);
        status = status == LS_OK ? item : status;
    }
    return status;
}

static ls_status run_once(test_case *c, ls_case_values *values, ls_onnx_value *const *in,
                          ls_onnx_value ***out) {
    *out = LS_ARENA_ARRAY(&values->arena, ls_onnx_value *, c->n_out + 1);
    if (!*out) {
        return LS_FAIL_MEMORY(c->err, c->folder);
    }
    return c->plain ? run_plain(c, values, in, *out) : run_values(c, values, in, *out);
}

static ls_status prepare(test_case *c) {
    return !c->plain || ls_runner_create(c->session, c->model, &c->runner) == LS_OK
               ? LS_OK
               : take_error(c->session, c->err);
}

/* ---- judging ---- */

/* What the same inputs give in a session of their own, as far as comparing needs it. */
static ls_status hash_again(const test_case *c, ls_case_values *values, ls_onnx_value *const *in,
                            char out_hex[65]) {
    test_case again = *c;
    ls_onnx_value **out;
    again.runner = NULL;
    LS_TRY(c->err, ls_session_create(ls_session_context(c->session), ls_session_device(c->session),
                                     &again.session, c->err));
    ls_session_set_math(again.session, ls_session_math(c->session));
    ls_status status = prepare(&again);
    status = status == LS_OK ? run_once(&again, values, in, &out) : status;
    if (status == LS_OK) {
        ls_sha256 sha;
        ls_sha256_init(&sha);
        for (int i = 0; i < c->n_out; i++) {
            ls_case_hash(&sha, out[i]);
        }
        ls_sha256_hex(&sha, out_hex);
    }
    ls_runner_destroy(again.runner);
    ls_session_destroy(again.session);
    return status;
}

/* Outputs that are not the file's, of a model that draws random numbers. */
static ls_status judge_random(test_case *c, ls_case_values *values, ls_onnx_value *const *in,
                              ls_onnx_value *const *expected, ls_onnx_value *const *got,
                              ls_case_difference *d) {
    char first[65], second[65];
    ls_sha256 sha;
    ls_sha256_init(&sha);
    *d = (ls_case_difference){0};
    for (int i = 0; i < c->n_out; i++) {
        const char *name = ls_model_output(c->model, i).name;
        ls_case_hash(&sha, got[i]);
        if (expected[i]) {
            ls_case_compare(name, expected[i], got[i], false, d);
            LS_TRY(c->err, ls_case_distribution(ls_context_heap(values->context), name, expected[i], got[i],
                                                d, c->err));
        }
    }
    ls_sha256_hex(&sha, first);
    LS_TRY(c->err, hash_again(c, values, in, second));
    if (!d->text[0] && strcmp(first, second) != 0) {
        snprintf(d->text, sizeof d->text, "a second run from the start gave other bits");
    }
    return LS_OK;
}

static ls_status judge(test_case *c, ls_case_values *values, ls_onnx_value *const *in,
                       ls_onnx_value *const *expected, int set) {
    ls_onnx_value **out;
    ls_case_difference d = {.fourier = c->fourier};
    ls_status status = run_once(c, values, in, &out);
    for (int i = 0; i < c->n_out && status == LS_OK; i++) {
        ls_case_hash(&c->sha, out[i]);
        if (expected[i]) {
            ls_case_compare(ls_model_output(c->model, i).name, expected[i], out[i], true, &d);
        }
    }
    bool own = status == LS_OK && d.text[0] && c->random;
    if (own) {
        status = judge_random(c, values, in, expected, out, &d);
    }
    if (status == LS_OK && d.text[0]) {
        c->result->state = LS_MODEL_FAILED;
        snprintf(c->result->detail, sizeof c->result->detail, "test_data_set_%d: %s", set, d.text);
    } else if (own && c->result->state == LS_MODEL_PASSED) {
        c->result->state = LS_MODEL_RANDOM;
        snprintf(c->result->detail, sizeof c->result->detail,
                 "random numbers, which are every implementation's own: shapes, types, repeatability and "
                 "distribution are right");
    }
    c->result->worst = !own && d.worst > c->result->worst ? d.worst : c->result->worst;
    return status;
}

/* Reads the files of one set; *out_any: there is at least one. */
static ls_status read_set(test_case *c, ls_case_values *values, int set, const char *kind, int n,
                          ls_model_port (*port)(const ls_model *, int), ls_onnx_value **out_values,
                          bool *out_any) {
    for (int i = 0; i < n; i++) {
        const char *path =
            ls_arena_printf(&values->arena, "%s/test_data_set_%d/%s_%d.pb", c->folder, set, kind, i);
        ls_model_port p = port(c->model, i);
        if (!path) {
            return LS_FAIL_MEMORY(c->err, c->folder);
        }
        if (is_there(path)) {
            *out_any = true;
            LS_TRY(c->err, ls_case_read(values, path, &p, &out_values[i], c->err));
        }
    }
    return LS_OK;
}

static ls_status run_set(test_case *c, int set, bool *out_any) {
    ls_case_values values;
    ls_case_values_init(&values, ls_session_context(c->session));
    ls_onnx_value **in = LS_ARENA_ARRAY(&values.arena, ls_onnx_value *, c->n_in + 1);
    ls_onnx_value **expected = LS_ARENA_ARRAY(&values.arena, ls_onnx_value *, c->n_out + 1);
    bool given = false;
    *out_any = false;
    ls_status status = in && expected ? LS_OK : LS_FAIL_MEMORY(c->err, c->folder);
    status =
        status == LS_OK ? read_set(c, &values, set, "input", c->n_in, ls_model_input, in, &given) : status;
    status = status == LS_OK
                 ? read_set(c, &values, set, "output", c->n_out, ls_model_output, expected, out_any)
                 : status;
    if (status == LS_OK && *out_any) {
        status = judge(c, &values, in, expected, set);
    } else if (status == LS_OK && given) {
        status =
            LS_FAIL(c->err, LS_ERR_FORMAT, "%s/test_data_set_%d: inputs without an output", c->folder, set);
    }
    ls_case_values_free(&values);
    return status;
}

/* ---- what a model's nodes are ---- */

typedef bool (*node_test)(const Onnx__NodeProto *n);

static bool any_node(size_t n, Onnx__NodeProto *const *nodes, node_test is) {
    for (size_t i = 0; i < n; i++) {
        if (is(nodes[i])) {
            return true;
        }
        for (size_t k = 0; k < nodes[i]->n_attribute; k++) {
            const Onnx__AttributeProto *a = nodes[i]->attribute[k];
            if (a->g && any_node(a->g->n_node, a->g->node, is)) {
                return true;
            }
            for (size_t j = 0; j < a->n_graphs; j++) {
                if (any_node(a->graphs[j]->n_node, a->graphs[j]->node, is)) {
                    return true;
                }
            }
        }
    }
    return false;
}

static bool has_node(const Onnx__ModelProto *m, node_test is) {
    for (size_t i = 0; i < m->n_functions; i++) {
        if (any_node(m->functions[i]->n_node, m->functions[i]->node, is)) {
            return true;
        }
    }
    return any_node(m->graph->n_node, m->graph->node, is);
}

static bool draws(const Onnx__NodeProto *n) {
    static const char *const names[] = {"Bernoulli",        "Multinomial",   "RandomNormal",
                                        "RandomNormalLike", "RandomUniform", "RandomUniformLike"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(n->op_type, names[i]) == 0) {
            return true;
        }
    }
    return strcmp(n->op_type, "Dropout") == 0 && n->n_input > 2; /* may be training */
}

static bool transforms(const Onnx__NodeProto *n) {
    return strcmp(n->op_type, "DFT") == 0 || strcmp(n->op_type, "STFT") == 0;
}

/* ---- cases ---- */

static ls_status run_case(test_case *c) {
    ls_arena arena;
    ls_arena_init(&arena, ls_context_heap(ls_session_context(c->session)));
    const char *path = ls_arena_printf(&arena, "%s/model.onnx", c->folder);
    ls_status status = path ? ls_model_load(ls_session_context(c->session), path, &c->model, c->err)
                            : LS_FAIL_MEMORY(c->err, c->folder);
    ls_arena_free(&arena);
    LS_TRY(c->err, status);
    c->n_in = ls_model_input_count(c->model);
    c->n_out = ls_model_output_count(c->model);
    c->random = has_node(c->model->proto, draws);
    c->fourier = has_node(c->model->proto, transforms);
    c->plain = true;
    for (int i = 0; i < c->n_in + c->n_out; i++) {
        ls_model_port port =
            i < c->n_in ? ls_model_input(c->model, i) : ls_model_output(c->model, i - c->n_in);
        c->plain = c->plain && is_numbers(&port);
    }
    LS_TRY(c->err, prepare(c));
    bool any = true;
    for (int set = 0; any; set++) {
        LS_TRY(c->err, run_set(c, set, &any));
        c->result->sets += any;
    }
    if (!c->result->sets) {
        return LS_FAIL(c->err, LS_ERR_FORMAT, "%s: no test_data_set_0 with an output_0.pb", c->folder);
    }
    ls_sha256_hex(&c->sha, c->result->sha256);
    return LS_OK;
}

ls_status ls_model_case_run(ls_session *session, const char *folder, ls_model_case *out_case) {
    ls_error err = {.code = LS_OK};
    test_case c = {.session = session, .folder = folder, .result = out_case, .err = &err};
    *out_case = (ls_model_case){.state = LS_MODEL_PASSED};
    ls_sha256_init(&c.sha);
    if (ls_scope_begin(session) != LS_OK) {
        return ls_session_error(session)->code;
    }
    ls_status status = run_case(&c);
    ls_runner_destroy(c.runner);
    ls_model_release(c.model);
    ls_scope_end(session);
    if (status == LS_OK) {
        return LS_OK;
    }
    if (status == LS_ERR_CANCELLED || status == LS_ERR_AGAIN) {
        ls_session_set_error(session, status, "%s", err.message);
        return status;
    }
    out_case->state = status == LS_ERR_UNSUPPORTED ? LS_MODEL_UNSUPPORTED : LS_MODEL_FAILED;
    snprintf(out_case->detail, sizeof out_case->detail, "%.*s", (int)sizeof out_case->detail - 1,
             err.message);
    return LS_OK;
}
