/* Loops: the operator Loop, whose body is a graph of its own. Its inputs are the iteration's number, a condition that is true and the
 * carried values; slices of xs are gathered within, and what it captures is in sight by its name outside. */
#include "io/onnx/export.h"
#include <string.h>

/* ---- the body ---- */

static bool body_inputs(ls_onnx_export *e, const ls_tensor *loop, const char *const *in,
                        Onnx__GraphProto *g) {
    const ls_body *body = loop->attr.loop.body;
    int n_loop = body->n_carry + body->n_xs;
    ls_shape scalar = {.rank = 0};
    g->input = LS_ARENA_ARRAY(&e->arena, Onnx__ValueInfoProto *, body->n_carry + 2);
    const char *iteration = ls_export_name(e, "iteration"), *condition = ls_export_name(e, "condition_in");
    if (!g->input || !condition || !ls_export_define(e, body->iteration, iteration)) {
        return false;
    }
    g->input[0] = ls_export_info(e, iteration, LS_I64, &scalar);
    g->input[1] = ls_export_info(e, condition, LS_BOOL, &scalar);
    g->n_input = (size_t)body->n_carry + 2;
    for (int i = 0; i < n_loop + body->n_captures; i++) {
        ls_tensor *p = body->params[i];
        const char *name = in[i];
        if (i < body->n_carry) {
            name = ls_export_name(e, "carry");
            g->input[2 + i] = ls_export_info(e, name, p->dtype, &p->shape);
        } else if (i < n_loop) {
            Onnx__NodeProto *slice = ls_export_op(e, "Gather", 2, in[i], iteration);
            ls_export_int(e, slice, "axis", 0);
            name = ls_export_result(e, slice);
        }
        if (!ls_export_define(e, p, name)) {
            return false;
        }
    }
    return true;
}

/* Each result gets a name of its own, since one may be an input of the body, or another's. */
static bool body_outputs(ls_onnx_export *e, const ls_body *body, Onnx__GraphProto *g) {
    int n = body->n_carry + body->n_ys;
    ls_shape scalar = {.rank = 0};
    const char **names = LS_ARENA_ARRAY(&e->arena, const char *, n + 1);
    g->output = LS_ARENA_ARRAY(&e->arena, Onnx__ValueInfoProto *, n + 1);
    if (!names || !g->output || !ls_export_values(e, n, body->results, names)) {
        return false;
    }
    const char *go_on = ls_export_result(e, ls_export_op(e, "Identity", 1, ls_export_scalar(e, LS_BOOL, 1)));
    g->output[0] = ls_export_info(e, go_on, LS_BOOL, &scalar);
    for (int i = 0; i < n; i++) {
        const char *own = ls_export_result(e, ls_export_op(e, "Identity", 1, names[i]));
        g->output[i + 1] = ls_export_info(e, own, body->results[i]->dtype, &body->results[i]->shape);
    }
    g->n_output = (size_t)n + 1;
    return !ls_export_failed(e);
}

static Onnx__GraphProto *body_write(ls_onnx_export *e, const ls_tensor *loop, const char *const *in) {
    Onnx__GraphProto *g = LS_EXPORT_NEW(e, GraphProto, graph_proto);
    ls_onnx_scope scope = {.outer = e->scope};
    ls_map_init(&scope.steps, e->heap, e->scope->steps.equal);
    e->scope = &scope;
    bool ok = g && body_inputs(e, loop, in, g) && body_outputs(e, loop->attr.loop.body, g);
    e->scope = scope.outer;
    if (ok) {
        g->name = (char *)ls_export_name(e, "body");
        g->n_node = scope.nodes.len;
        g->node = ls_arena_copy(&e->arena, scope.nodes.data, sizeof *scope.nodes.data * scope.nodes.len);
    }
    ls_array_free(e->heap, &scope.nodes);
    ls_array_free(e->heap, &scope.infos);
    ls_map_free(&scope.steps);
    if (!ok || !g->node || !g->name) {
        LS_FAIL(e->err, LS_ERR_MEMORY, "%s: out of memory", e->path); /* an error that is there stays */
        return NULL;
    }
    return g;
}

/* ---- the node ---- */

static const char *emit_loop(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    const ls_body *body = step->node->attr.loop.body;
    int n = body->n_carry + body->n_ys;
    ls_shape scalar = {.rank = 0};
    const char **operands = LS_ARENA_ARRAY(&e->arena, const char *, body->n_carry + 2);
    step->results = LS_ARENA_ARRAY(&e->arena, const char *, n);
    Onnx__GraphProto *g = operands && step->results ? body_write(e, step->node, in) : NULL;
    if (!g) {
        LS_FAIL(e->err, LS_ERR_MEMORY, "%s: out of memory", e->path);
        return NULL;
    }
    operands[0] =
        ls_export_result(e, ls_export_reshape(e, ls_export_dim(e, step->node->attr.loop.trip), &scalar));
    operands[1] = "";
    for (int i = 0; i < body->n_carry; i++) {
        operands[2 + i] = in[i];
    }
    Onnx__NodeProto *node = ls_export_op_list(e, "Loop", body->n_carry + 2, operands);
    ls_export_graph(e, node, "body", g);
    step->results[0] = ls_export_result(e, node);
    if (!step->results[0] || !(node->output = LS_ARENA_ARRAY(&e->arena, char *, n))) {
        LS_FAIL(e->err, LS_ERR_MEMORY, "%s: out of memory", e->path);
        return NULL;
    }
    node->n_output = (size_t)n;
    for (int i = 0; i < n; i++) {
        step->results[i] = i ? ls_export_name(e, node->name) : step->results[0];
        node->output[i] = (char *)step->results[i];
    }
    return step->results[0];
}

static const char *emit_result(ls_onnx_export *e, ls_onnx_step *step, const char *const *in) {
    (void)in;
    const ls_onnx_step *loop = ls_export_step(e, step->node->src[0], ONNX_FILL_ZERO);
    int result = step->node->attr.loop.result;
    return loop->draft ? ls_export_recurrent_result(e, loop, result) : loop->results[result];
}

bool ls_export_plan_loop(ls_onnx_export *e, ls_onnx_step *step) {
    step->emit = step->node->op == LS_OP_LOOP ? emit_loop : emit_result;
    return ls_export_operands(e, step, step->node->n_src, step->node->src);
}
