/* Writing models: from tensors to steps to an .onnx file. See export.h.
 *
 * Steps are written operands first, without recursion, since graphs are deep; only the body of a loop is written from within a step. */
#include "io/onnx/export.h"
#include "io/onnx/load.h"
#include <lockstep/version.h>
#include <stdio.h>
#include <string.h>

enum { INLINE_MOST = 1 << 30 }; /* bytes of initialisers that stay in the file itself */

ls_status ls_export_refuse(ls_onnx_export *e, const ls_tensor *node, const char *why) {
    char shape[LS_SHAPE_TEXT];
    return LS_FAIL(e->err, LS_ERR_UNSUPPORTED, "%s: on the way to output \"%s\": %s %s%s%s%s: %s", e->path,
                   e->output ? e->output : "", ls_ops[node->op].name, ls_dtype_name(node->dtype),
                   ls_shape_text(&node->shape, shape), node->label ? " " : "", node->label ? node->label : "",
                   why);
}

/* ---- steps ---- */

static uint64_t step_hash(const ls_tensor *node, ls_onnx_fill fill) {
    return ls_hash_u64((uint64_t)(uintptr_t)node, fill);
}

static bool step_equal(const void *key, const void *entry) {
    const ls_onnx_step *a = key, *b = entry;
    return a->node == b->node && a->fill == b->fill;
}

static ls_onnx_fill fill_of(const ls_tensor *node, ls_onnx_fill fill) {
    return node->absent ? fill : ONNX_FILL_ZERO;
}

static ls_onnx_step *step_find(const ls_onnx_export *e, const ls_tensor *node, ls_onnx_fill fill) {
    ls_onnx_step key = {.node = (ls_tensor *)node, .fill = fill_of(node, fill)};
    ls_onnx_step *step = NULL;
    for (const ls_onnx_scope *scope = e->scope; scope && !step; scope = scope->outer) {
        step = ls_map_get(&scope->steps, step_hash(key.node, key.fill), &key);
    }
    return step;
}

const ls_onnx_step *ls_export_step(const ls_onnx_export *e, const ls_tensor *node, ls_onnx_fill fill) {
    return step_find(e, node, fill);
}

static ls_onnx_step *step_new(ls_onnx_export *e, ls_tensor *node, ls_onnx_fill fill) {
    ls_onnx_step *step = LS_ARENA_NEW(&e->arena, ls_onnx_step);
    if (step) {
        step->node = node;
        step->fill = fill_of(node, fill);
    }
    if (!step || !ls_map_put(&e->scope->steps, step_hash(node, step->fill), step, step)) {
        LS_FAIL(e->err, LS_ERR_MEMORY, "%s: out of memory", e->path);
        return NULL;
    }
    return step;
}

bool ls_export_define(ls_onnx_export *e, ls_tensor *node, const char *name) {
    ls_onnx_step *step = name ? step_new(e, node, ONNX_FILL_ZERO) : NULL;
    if (step) {
        step->result = name;
    }
    return step != NULL;
}

bool ls_export_operands(ls_onnx_export *e, ls_onnx_step *step, int n, ls_tensor *const *in) {
    step->n_in = n;
    step->in = LS_ARENA_ARRAY(&e->arena, ls_tensor *, n + 1);
    if (!step->in) {
        LS_FAIL(e->err, LS_ERR_MEMORY, "%s: out of memory", e->path);
        return false;
    }
    if (n) {
        memcpy(step->in, in, sizeof *in * (size_t)n);
    }
    return true;
}

/* Guesses build tensors that may not fit together: their errors are not the session's. */
static bool plan(ls_onnx_export *e, ls_onnx_step *step) {
    ls_graph *g = ls_graph_of(e->s);
    ls_error error = g->error;
    ls_math math = g->math;
    g->math = step->node->math;
    bool matched = ls_export_match(e, step);
    if (g->error.code == LS_ERR_MEMORY) {
        LS_FAIL(e->err, LS_ERR_MEMORY, "%s: out of memory", e->path);
    }
    g->error = error;
    bool planned = matched || (!ls_export_failed(e) && ls_export_plan(e, step));
    g->error = error;
    g->math = math;
    return planned && !ls_export_failed(e);
}

/* An output of the model has its name already. */
static const char *output_name(const ls_onnx_export *e, const ls_onnx_step *step) {
    for (int i = 0; i < e->n_outputs && !e->scope->outer; i++) {
        if (e->outputs[i].tensor == step->node && step->fill == ONNX_FILL_ZERO) {
            return e->outputs[i].name;
        }
    }
    return NULL;
}

/* Of a step that was just written by nodes of its own: the last of them is its output, or has a shape to tell. */
static void settle(ls_onnx_export *e, ls_onnx_step *step) {
    Onnx__NodeProto *last = e->scope->nodes.data[e->scope->nodes.len - 1];
    const char *name = output_name(e, step);
    Onnx__ValueInfoProto *info = NULL;
    for (size_t i = 0; i < last->n_output && !step->results; i++) {
        if (last->output[i] != step->result) {
            continue;
        }
        if (name) {
            step->result = last->output[i] = (char *)name;
            return;
        }
        info = ls_export_info(e, step->result, step->node->dtype, &step->node->shape);
    }
    if (info && !ls_array_push(e->heap, &e->scope->infos, info)) {
        LS_FAIL(e->err, LS_ERR_MEMORY, "%s: out of memory", e->path);
    }
}

static bool finish(ls_onnx_export *e, ls_onnx_step *step) {
    size_t before = e->scope->nodes.len;
    const char **names = LS_ARENA_ARRAY(&e->arena, const char *, step->n_in + 1);
    if (!names) {
        LS_FAIL(e->err, LS_ERR_MEMORY, "%s: out of memory", e->path);
        return false;
    }
    for (int i = 0; i < step->n_in; i++) {
        names[i] = step->in[i] ? step_find(e, step->in[i], step->in_fill)->result : "";
    }
    if (step->proto) {
        Onnx__NodeProto *operands = ls_export_op_list(e, step->proto->op_type, step->n_in, names);
        if (operands) {
            step->proto->input = operands->input;
            step->proto->n_input = operands->n_input;
            step->result = ls_export_result(e, step->proto);
        }
    } else {
        step->result = step->emit(e, step, names);
    }
    if (step->result && e->scope->nodes.len > before) {
        settle(e, step);
    }
    return step->result && !ls_export_failed(e);
}

static bool write_value(ls_onnx_export *e, ls_tensor *root) {
    ls_onnx_step *top = NULL;
    ls_tensor *enter = step_find(e, root, ONNX_FILL_ZERO) ? NULL : root;
    ls_onnx_fill fill = ONNX_FILL_ZERO;
    while (enter || top) {
        if (enter) {
            ls_onnx_step *step = step_new(e, enter, fill);
            if (!step || !plan(e, step)) {
                return false;
            }
            step->under = top;
            top = step;
            enter = NULL;
        } else if (top->next < top->n_in) {
            ls_tensor *operand = top->in[top->next++];
            fill = top->in_fill;
            enter = operand && !step_find(e, operand, fill) ? operand : NULL;
        } else {
            if (!finish(e, top)) {
                return false;
            }
            top = top->under;
        }
    }
    return true;
}

bool ls_export_values(ls_onnx_export *e, int count, ls_tensor *const *tensors, const char **out_names) {
    for (int i = 0; i < count; i++) {
        if (!write_value(e, tensors[i])) {
            return false;
        }
        out_names[i] = step_find(e, tensors[i], ONNX_FILL_ZERO)->result;
    }
    return true;
}

/* ---- inputs and outputs ---- */

static ls_status refuse_name(ls_onnx_export *e, const char *what, int i, const char *why) {
    return LS_FAIL(e->err, LS_ERR_INVALID, "%s: %s %d: %s", e->path, what, i, why);
}

/* Takes names over, each in its place and only once. */
static ls_named_tensor *ports(ls_onnx_export *e, const char *what, int n, const ls_named_tensor *given) {
    ls_named_tensor *list = LS_ARENA_ARRAY(&e->arena, ls_named_tensor, n + 1);
    for (int i = 0; list && i < n; i++) {
        ls_tensor *t = given[i].tensor;
        bool input = strcmp(what, "input") == 0;
        if (!t || t->session != e->s || (input && t->op != LS_OP_INPUT)) {
            refuse_name(e, what, i,
                        input ? "expected a tensor that ls_input made in this session"
                              : "expected a tensor of this session");
            return NULL;
        }
        char otherwise[32];
        snprintf(otherwise, sizeof otherwise, i ? "output_%d" : "output", i + 1);
        const char *wanted = given[i].name ? given[i].name : input ? t->label : otherwise;
        const char *name = *wanted ? ls_export_name(e, wanted) : NULL;
        if (ls_export_failed(e)) {
            return NULL;
        }
        if (!name || (given[i].name && strcmp(name, wanted) != 0)) {
            refuse_name(e, what, i, *wanted ? "another input or output has its name" : "its name is empty");
            return NULL;
        }
        list[i] = (ls_named_tensor){name, t};
    }
    if (!list) {
        LS_FAIL(e->err, LS_ERR_MEMORY, "%s: out of memory", e->path);
    }
    return list;
}

static bool inputs_define(ls_onnx_export *e) {
    for (int i = 0; i < e->n_inputs; i++) {
        if (step_find(e, e->inputs[i].tensor, ONNX_FILL_ZERO)) {
            refuse_name(e, "input", i, "the tensor was given twice");
            return false;
        }
        if (!ls_export_define(e, e->inputs[i].tensor, e->inputs[i].name)) {
            return false;
        }
    }
    return true;
}

static bool outputs_write(ls_onnx_export *e) {
    for (int i = 0; i < e->n_outputs; i++) {
        const char *name;
        ls_tensor *tensor = e->outputs[i].tensor;
        e->output = e->outputs[i].name;
        if (!ls_export_values(e, 1, &tensor, &name)) {
            return false;
        }
        if (strcmp(name, e->outputs[i].name) != 0) { /* an input, an initialiser, or an output already */
            Onnx__NodeProto *node = ls_export_op(e, "Identity", 1, name);
            ls_export_result(e, node);
            if (ls_export_failed(e)) {
                return false;
            }
            node->output[0] = (char *)e->outputs[i].name;
        }
    }
    return true;
}

/* ---- the model ---- */

static Onnx__ValueInfoProto **infos(ls_onnx_export *e, int n, const ls_named_tensor *list, size_t *out_n) {
    Onnx__ValueInfoProto **all = LS_ARENA_ARRAY(&e->arena, Onnx__ValueInfoProto *, n + 1);
    for (int i = 0; all && i < n; i++) {
        all[i] = ls_export_info(e, list[i].name, list[i].tensor->dtype, &list[i].tensor->shape);
    }
    *out_n = (size_t)n;
    return all;
}

static Onnx__ModelProto *model_of(ls_onnx_export *e) {
    Onnx__ModelProto *m = LS_EXPORT_NEW(e, ModelProto, model_proto);
    Onnx__GraphProto *g = LS_EXPORT_NEW(e, GraphProto, graph_proto);
    Onnx__OperatorSetIdProto *opset = LS_EXPORT_NEW(e, OperatorSetIdProto, operator_set_id_proto);
    size_t n = e->first.len + e->scope->nodes.len;
    if (!opset || !(g->node = LS_ARENA_ARRAY(&e->arena, Onnx__NodeProto *, n + 1)) ||
        !(m->opset_import = LS_ARENA_ARRAY(&e->arena, Onnx__OperatorSetIdProto *, 1))) {
        LS_FAIL(e->err, LS_ERR_MEMORY, "%s: out of memory", e->path);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        g->node[i] = i < e->first.len ? e->first.data[i] : e->scope->nodes.data[i - e->first.len];
    }
    g->n_node = n;
    g->name = (char *)"lockstep";
    g->initializer = e->initializers.data;
    g->n_initializer = e->initializers.len;
    g->value_info = e->scope->infos.data;
    g->n_value_info = e->scope->infos.len;
    g->input = infos(e, e->n_inputs, e->inputs, &g->n_input);
    g->output = infos(e, e->n_outputs, e->outputs, &g->n_output);
    opset->domain = (char *)"";
    opset->version = LS_ONNX_OPSET;
    m->opset_import[0] = opset;
    m->n_opset_import = 1;
    m->ir_version = LS_ONNX_IR;
    m->producer_name = (char *)"lockstep";
    m->producer_version = (char *)ls_version();
    m->graph = g;
    return ls_export_failed(e) ? NULL : m;
}

static ls_status write_all(ls_onnx_export *e, size_t most, ls_data **out_file) {
    Onnx__ModelProto *model = NULL;
    const ls_error *held = ls_session_error(e->s);
    if (held->code != LS_OK) {
        return LS_FAIL(e->err, held->code, "%s", held->message);
    }
    if (e->n_outputs < 1 || e->n_inputs < 0) {
        return LS_FAIL(e->err, LS_ERR_INVALID, "%s: %d inputs and %d outputs: expected an output", e->path,
                       e->n_inputs, e->n_outputs);
    }
    e->inputs = ports(e, "input", e->n_inputs, e->inputs);
    e->outputs = e->inputs ? ports(e, "output", e->n_outputs, e->outputs) : NULL;
    if (e->outputs && inputs_define(e) && outputs_write(e)) {
        model = model_of(e);
    }
    if (model && out_file) {
        ls_export_encode(e, model, out_file);
    } else if (model) {
        ls_export_save(e, model, most);
    }
    return e->err->code;
}

ls_status ls_onnx_write(ls_session *session, const char *path, int n_inputs, const ls_named_tensor *inputs,
                        int n_outputs, const ls_named_tensor *outputs, size_t most, ls_data **out_file,
                        ls_error *err) {
    ls_error error = {.code = LS_OK};
    ls_heap *heap = ls_graph_of(session)->heap;
    ls_onnx_scope scope = {.outer = NULL};
    ls_onnx_export e = {.s = session,
                        .heap = heap,
                        .err = &error,
                        .path = path,
                        .scope = &scope,
                        .n_inputs = n_inputs,
                        .n_outputs = n_outputs,
                        .inputs = inputs,
                        .outputs = outputs};
    ls_arena_init(&e.arena, heap);
    ls_map_init(&e.names, heap, ls_onnx_same_name);
    ls_map_init(&scope.steps, heap, step_equal);
    if (ls_scope_begin(session) == LS_OK) {
        write_all(&e, most, out_file);
        ls_scope_end(session);
    } else {
        LS_FAIL(&error, LS_ERR_MEMORY, "%s: out of memory", path);
    }
    for (size_t i = 0; i < e.held.len; i++) {
        ls_data_release(e.held.data[i]);
    }
    ls_array_free(heap, &e.held);
    ls_array_free(heap, &e.initializers);
    ls_array_free(heap, &e.symbols);
    ls_array_free(heap, &e.first);
    ls_array_free(heap, &scope.nodes);
    ls_array_free(heap, &scope.infos);
    ls_map_free(&scope.steps);
    ls_map_free(&e.names);
    ls_arena_free(&e.arena);
    return error.code == LS_OK ? LS_OK : LS_FAIL(err, error.code, "%s", error.message);
}

ls_status ls_onnx_save(ls_session *session, const char *path, int n_inputs, const ls_named_tensor *inputs,
                       int n_outputs, const ls_named_tensor *outputs, ls_error *err) {
    return ls_onnx_write(session, path, n_inputs, inputs, n_outputs, outputs, INLINE_MOST, NULL, err);
}

ls_status ls_onnx_encode(ls_session *session, int n_inputs, const ls_named_tensor *inputs, int n_outputs,
                         const ls_named_tensor *outputs, ls_data **out_file, ls_error *err) {
    *out_file = NULL;
    return ls_onnx_write(session, "ONNX model in memory", n_inputs, inputs, n_outputs, outputs, 0, out_file,
                         err);
}
