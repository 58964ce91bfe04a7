/* What a model consists of, for people: its operators, which of them are not supported, its size. */
#include "io/onnx/load.h"
#include "io/onnx/onnx.h"
#include <stdlib.h>
#include <string.h>

typedef struct census {
    const ls_model *model;
    ls_model_operator *list;
    int room, n;
} census;

static int64_t elements(const Onnx__TensorProto *t) {
    int64_t n = 1;
    for (size_t i = 0; i < t->n_dims; i++) {
        n *= t->dims[i]; /* checked at loading */
    }
    return n;
}

ls_model_facts ls_model_get_facts(const ls_model *model) {
    const Onnx__ModelProto *m = model->proto;
    ls_model_facts f = {.ir_version = m->ir_version,
                        .producer = m->producer_name,
                        .producer_version = m->producer_version,
                        .graph = m->graph->name,
                        .nodes = (int)m->graph->n_node};
    for (size_t i = 0; i < m->graph->n_initializer; i++) {
        f.parameters += elements(m->graph->initializer[i]);
    }
    for (size_t i = 0; i < m->graph->n_sparse_initializer; i++) {
        f.parameters += elements(m->graph->sparse_initializer[i]->values);
    }
    return f;
}

static int compare(const ls_model_operator *a, const char *domain, const char *name, int version) {
    int by_domain = strcmp(a->domain, domain), by_name = strcmp(a->name, name);
    return by_domain ? by_domain : by_name ? by_name : a->version - version;
}

/* Kept sorted as it grows. What does not fit in the room is counted, not kept. */
static void add(census *c, const Onnx__NodeProto *node, int version) {
    const char *domain = ls_onnx_domain(node->domain);
    int at = 0, kept = c->n < c->room ? c->n : c->room;
    while (at < kept && compare(&c->list[at], domain, node->op_type, version) < 0) {
        at++;
    }
    if (at < kept && compare(&c->list[at], domain, node->op_type, version) == 0) {
        c->list[at].count++;
        return;
    }
    c->n++;
    if (at >= c->room) {
        return;
    }
    kept = kept < c->room ? kept : c->room - 1;
    memmove(c->list + at + 1, c->list + at, sizeof *c->list * (size_t)(kept - at));
    bool function = ls_model_function(c->model, node->domain, node->op_type, node->overload) != NULL;
    const char *why = function   ? NULL
                      : !version ? "the model imports no operator set of its domain"
                      : !ls_onnx_find(domain, node->op_type, version)
                          ? "no operator of this name and version is known"
                          : NULL;
    c->list[at] = (ls_model_operator){domain, node->op_type, version, 1, function, why};
}

static void visit(census *c, size_t n, Onnx__NodeProto *const *nodes, size_t n_opsets,
                  Onnx__OperatorSetIdProto *const *opsets) {
    for (size_t i = 0; i < n; i++) {
        add(c, nodes[i], ls_onnx_opset(n_opsets, opsets, ls_onnx_domain(nodes[i]->domain)));
        for (size_t k = 0; k < nodes[i]->n_attribute; k++) {
            const Onnx__AttributeProto *a = nodes[i]->attribute[k];
            if (a->g) {
                visit(c, a->g->n_node, a->g->node, n_opsets, opsets);
            }
            for (size_t j = 0; j < a->n_graphs; j++) {
                visit(c, a->graphs[j]->n_node, a->graphs[j]->node, n_opsets, opsets);
            }
        }
    }
}

int ls_model_operators(const ls_model *model, int room, ls_model_operator *out_operators) {
    census c = {.model = model, .list = out_operators, .room = room};
    const Onnx__ModelProto *m = model->proto;
    visit(&c, m->graph->n_node, m->graph->node, m->n_opset_import, m->opset_import);
    for (size_t i = 0; i < m->n_functions; i++) {
        const Onnx__FunctionProto *f = m->functions[i];
        visit(&c, f->n_node, f->node, f->n_opset_import, f->opset_import);
    }
    return c.n;
}
