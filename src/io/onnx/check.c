/* What load.h promises of a model, made sure of: versions, tensors, names in their scopes, attributes, and functions that end. A subgraph sees
 * the names around it and may hide them; within one graph a name has one meaning, an input with a default apart. */
#include "io/onnx/load.h"
#include "io/onnx/onnx.h"
#include <stdio.h>
#include <string.h>

enum {
    IR_MOST = 14,
    OPSET_MOST = 28,
    CALLS_MOST = 100,        /* functions inside each other */
    EXPANDED_MOST = 1 << 24, /* nodes, with functions in place of their calls */
};

typedef struct scope {
    const struct scope *up;
    ls_map names; /* to `input` or to anything else */
} scope;

typedef struct body { /* a function's, or the main graph's */
    LS_ARRAY(struct body *) calls;
    size_t nodes, expanded;
    bool entered, left;
    const char *name;
} body;

typedef struct checker {
    ls_model *m;
    body *bodies; /* the main graph's, then one for each function */
    ls_map body_of;
    body *now;
    ls_error *err;
} checker;

static char input[1]; /* its address marks the name of a graph's input */

/* ---- names ---- */

static bool same_text(const void *x, const void *y) {
    return strcmp(x, y) == 0;
}
static bool same_pointer(const void *x, const void *y) {
    return x == y;
}
static uint64_t text_hash(const char *text) {
    return ls_hash(text, strlen(text), 0);
}
static uint64_t pointer_hash(const void *pointer) {
    return ls_hash_u64((uint64_t)(uintptr_t)pointer, 0);
}

static bool visible(const scope *s, const char *name) {
    uint64_t hash = text_hash(name);
    for (; s; s = s->up) {
        if (ls_map_get(&s->names, hash, name)) {
            return true;
        }
    }
    return false;
}

static ls_status define(checker *c, scope *s, const char *what, const char *name, void *meaning) {
    uint64_t hash = text_hash(name);
    const char *file = c->m->name;
    if (!name[0]) {
        return LS_FAIL(c->err, LS_ERR_FORMAT, "%s: %s has no name", file, what);
    }
    if (ls_map_get(&s->names, hash, name)) {
        return LS_FAIL(c->err, LS_ERR_FORMAT, "%s: %s \"%.200s\": the name is taken", file, what, name);
    }
    return ls_map_put(&s->names, hash, name, meaning) ? LS_OK : LS_FAIL_MEMORY(c->err, file);
}

/* ---- attributes ---- */

static ls_status check_graph(checker *c, const Onnx__GraphProto *g, const scope *up, bool in_function);

/* The fields that hold something, as bits numbered by the types that they are for. */
static unsigned fields_of(const Onnx__AttributeProto *a) {
    const bool set[] = {
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT] = a->f != 0,
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT] = a->i != 0,
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING] = a->s.len > 0,
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR] = a->t,
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH] = a->g,
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__SPARSE_TENSOR] = a->sparse_tensor,
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TYPE_PROTO] = a->tp,
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS] = a->n_floats > 0,
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS] = a->n_ints > 0,
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS] = a->n_strings > 0,
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSORS] = a->n_tensors > 0,
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPHS] = a->n_graphs > 0,
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__SPARSE_TENSORS] = a->n_sparse_tensors > 0,
        [ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TYPE_PROTOS] = a->n_type_protos > 0,
    };
    unsigned bits = 0;
    for (unsigned k = 0; k < sizeof set / sizeof *set; k++) {
        bits |= (unsigned)set[k] << k;
    }
    return bits;
}

/* Gives an attribute of an old file its type, and compares a type with what is there. */
static ls_status check_type(checker *c, const char *label, Onnx__AttributeProto *a, bool in_function) {
    enum {
        ONE_MESSAGE = 1 << ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR |
                      1 << ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH |
                      1 << ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__SPARSE_TENSOR |
                      1 << ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TYPE_PROTO,
        TYPES = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TYPE_PROTOS
    };
    unsigned fields = fields_of(a);
    int type = (int)a->type;
    if (a->ref_attr_name[0]) {
        return in_function && !fields && type >= 0 && type <= TYPES
                   ? LS_OK
                   : LS_FAIL(c->err, LS_ERR_FORMAT,
                             "%s: %s: attribute \"%.100s\" refers to one of a function: expected that in a "
                             "function, without a value",
                             c->m->name, label, a->name);
    }
    if (type == 0 && fields && !(fields & (fields - 1))) {
        type = __builtin_ctz(fields);
        a->type = (Onnx__AttributeProto__AttributeType)type;
    }
    if (type < 1 || type > TYPES) {
        return LS_FAIL(c->err, LS_ERR_FORMAT, "%s: %s: attribute \"%.100s\" has type %d: expected 1 to %d",
                       c->m->name, label, a->name, type, TYPES);
    }
    if ((fields & ~(1u << type)) || ((1u << type & ONE_MESSAGE) && !fields)) {
        return LS_FAIL(c->err, LS_ERR_FORMAT,
                       "%s: %s: attribute \"%.100s\" is said to be of type %d, but holds another", c->m->name,
                       label, a->name, type);
    }
    return LS_OK;
}

static ls_status check_attribute(checker *c, const char *label, Onnx__AttributeProto *a, const scope *s,
                                 bool in_function) {
    LS_TRY(c->err, check_type(c, label, a, in_function));
    if (a->t) {
        LS_TRY(c->err, ls_onnx_tensor_check(c->m, a->t, label, c->err));
    }
    if (a->sparse_tensor) {
        LS_TRY(c->err, ls_onnx_sparse_check(c->m, a->sparse_tensor, label, c->err));
    }
    if (a->g) {
        LS_TRY(c->err, check_graph(c, a->g, s, in_function));
    }
    for (size_t i = 0; i < a->n_tensors; i++) {
        LS_TRY(c->err, ls_onnx_tensor_check(c->m, a->tensors[i], label, c->err));
    }
    for (size_t i = 0; i < a->n_sparse_tensors; i++) {
        LS_TRY(c->err, ls_onnx_sparse_check(c->m, a->sparse_tensors[i], label, c->err));
    }
    for (size_t i = 0; i < a->n_graphs; i++) {
        LS_TRY(c->err, check_graph(c, a->graphs[i], s, in_function));
    }
    return LS_OK;
}

static ls_status check_attributes(checker *c, const char *label, size_t n, Onnx__AttributeProto **attributes,
                                  const scope *s, bool in_function) {
    scope names = {NULL, {0}};
    ls_status status = LS_OK;
    ls_map_init(&names.names, c->m->heap, same_text);
    char what[256];
    snprintf(what, sizeof what, "%s: attribute", label);
    for (size_t i = 0; i < n && status == LS_OK; i++) {
        status = define(c, &names, what, attributes[i]->name, attributes[i]);
        status = status == LS_OK ? check_attribute(c, label, attributes[i], s, in_function) : status;
    }
    ls_map_free(&names.names);
    return status;
}

/* ---- nodes and graphs ---- */

static ls_status check_node(checker *c, const Onnx__NodeProto *node, size_t index, scope *s,
                            bool in_function) {
    char label[200];
    if (node->name[0]) {
        snprintf(label, sizeof label, "node \"%.100s\" (%.60s)", node->name, node->op_type);
    } else {
        snprintf(label, sizeof label, "node %zu (%.60s)", index, node->op_type);
    }
    if (!node->op_type[0]) {
        return LS_FAIL(c->err, LS_ERR_FORMAT, "%s: %s has no operator", c->m->name, label);
    }
    for (size_t i = 0; i < node->n_input; i++) {
        if (node->input[i][0] && !visible(s, node->input[i])) {
            return LS_FAIL(c->err, LS_ERR_FORMAT, "%s: %s reads \"%.200s\", which nothing before it gives",
                           c->m->name, label, node->input[i]);
        }
    }
    LS_TRY(c->err, check_attributes(c, label, node->n_attribute, node->attribute, s, in_function));
    for (size_t i = 0; i < node->n_output; i++) {
        if (node->output[i][0]) {
            LS_TRY(c->err, define(c, s, label, node->output[i], node->output));
        }
    }
    c->now->nodes++;
    const Onnx__FunctionProto *f = ls_model_function(c->m, node->domain, node->op_type, node->overload);
    if (f &&
        !ls_array_push(c->m->heap, &c->now->calls, (body *)ls_map_get(&c->body_of, pointer_hash(f), f))) {
        return LS_FAIL_MEMORY(c->err, c->m->name);
    }
    return LS_OK;
}

static ls_status check_nodes(checker *c, size_t n, Onnx__NodeProto *const *nodes, scope *s,
                             bool in_function) {
    for (size_t i = 0; i < n; i++) {
        LS_TRY(c->err, check_node(c, nodes[i], i, s, in_function));
    }
    return LS_OK;
}

static ls_status check_initializer(checker *c, scope *s, Onnx__TensorProto *t) {
    uint64_t hash = text_hash(t->name);
    if (ls_map_get(&s->names, hash, t->name) == input) {
        ls_map_remove(&s->names, hash, t->name);
    }
    return define(c, s, "initializer", t->name, t);
}

static ls_status check_names(checker *c, const Onnx__GraphProto *g, scope *s, bool in_function) {
    for (size_t i = 0; i < g->n_input; i++) {
        LS_TRY(c->err, define(c, s, "input", g->input[i]->name, input));
    }
    for (size_t i = 0; i < g->n_initializer; i++) {
        LS_TRY(c->err, check_initializer(c, s, g->initializer[i]));
        LS_TRY(c->err, ls_onnx_tensor_check(c->m, g->initializer[i], NULL, c->err));
    }
    for (size_t i = 0; i < g->n_sparse_initializer; i++) {
        LS_TRY(c->err, ls_onnx_sparse_check(c->m, g->sparse_initializer[i], NULL, c->err));
        LS_TRY(c->err, check_initializer(c, s, g->sparse_initializer[i]->values));
    }
    LS_TRY(c->err, check_nodes(c, g->n_node, g->node, s, in_function));
    for (size_t i = 0; i < g->n_output; i++) {
        if (!visible(s, g->output[i]->name)) {
            return LS_FAIL(c->err, LS_ERR_FORMAT, "%s: graph \"%.100s\": nothing gives its output \"%.200s\"",
                           c->m->name, g->name, g->output[i]->name);
        }
    }
    return LS_OK;
}

static ls_status check_graph(checker *c, const Onnx__GraphProto *g, const scope *up, bool in_function) {
    scope s = {up, {0}};
    ls_map_init(&s.names, c->m->heap, same_text);
    ls_status status = check_names(c, g, &s, in_function);
    ls_map_free(&s.names);
    return status;
}

/* ---- functions ---- */

static ls_status check_function_names(checker *c, const Onnx__FunctionProto *f, scope *s) {
    for (size_t i = 0; i < f->n_input; i++) {
        LS_TRY(c->err, define(c, s, "a function's input", f->input[i], input));
    }
    LS_TRY(c->err, check_nodes(c, f->n_node, f->node, s, true));
    for (size_t i = 0; i < f->n_output; i++) {
        if (!visible(s, f->output[i])) {
            return LS_FAIL(c->err, LS_ERR_FORMAT,
                           "%s: function \"%.100s\": nothing gives its output \"%.200s\"", c->m->name,
                           f->name, f->output[i]);
        }
    }
    return LS_OK;
}

static ls_status check_function(checker *c, const Onnx__FunctionProto *f) {
    char label[200];
    snprintf(label, sizeof label, "function \"%.100s\"", f->name);
    if (!f->name[0]) {
        return LS_FAIL(c->err, LS_ERR_FORMAT, "%s: a function has no name", c->m->name);
    }
    LS_TRY(c->err, check_attributes(c, label, f->n_attribute_proto, f->attribute_proto, NULL, false));
    scope s = {NULL, {0}};
    ls_map_init(&s.names, c->m->heap, same_text);
    ls_status status = check_function_names(c, f, &s);
    ls_map_free(&s.names);
    return status;
}

/* Counts the nodes of a body with functions in place of their calls; fails where that does not end. */
static ls_status expand(checker *c, body *b, int depth) {
    if (b->left) {
        return LS_OK;
    }
    if (b->entered || depth > CALLS_MOST) {
        return LS_FAIL(c->err, LS_ERR_FORMAT, "%s: function \"%.100s\" %s", c->m->name, b->name,
                       b->entered ? "calls itself" : "is inside too many others");
    }
    b->entered = true;
    b->expanded = b->nodes;
    for (size_t i = 0; i < b->calls.len; i++) {
        LS_TRY(c->err, expand(c, b->calls.data[i], depth + 1));
        b->expanded += b->calls.data[i]->expanded;
        if (b->expanded > EXPANDED_MOST) {
            return LS_FAIL(c->err, LS_ERR_UNSUPPORTED,
                           "%s: with its functions in place of their calls it has more than %d nodes",
                           c->m->name, EXPANDED_MOST);
        }
    }
    b->left = true;
    return LS_OK;
}

static ls_status check_bodies(checker *c) {
    const Onnx__ModelProto *p = c->m->proto;
    for (size_t i = 0; i < p->n_functions; i++) {
        c->bodies[i + 1].name = p->functions[i]->name;
        if (!ls_map_put(&c->body_of, pointer_hash(p->functions[i]), p->functions[i], &c->bodies[i + 1])) {
            return LS_FAIL_MEMORY(c->err, c->m->name);
        }
    }
    c->now = &c->bodies[0];
    c->now->name = p->graph->name;
    LS_TRY(c->err, check_graph(c, p->graph, NULL, false));
    for (size_t i = 0; i < p->n_functions; i++) {
        c->now = &c->bodies[i + 1];
        LS_TRY(c->err, check_function(c, p->functions[i]));
    }
    for (size_t i = 0; i <= p->n_functions; i++) {
        LS_TRY(c->err, expand(c, &c->bodies[i], 0));
    }
    return LS_OK;
}

/* ---- versions ---- */

static ls_status check_imports(const ls_model *m, const char *of, size_t n,
                               Onnx__OperatorSetIdProto *const *imports, ls_error *err) {
    for (size_t i = 0; i < n; i++) {
        const char *domain = ls_onnx_domain(imports[i]->domain);
        int64_t version = imports[i]->version;
        if (version < 1 || version > INT32_MAX) {
            return LS_FAIL(err, LS_ERR_FORMAT,
                           "%s: %s imports version %lld of operator set \"%.100s\": expected 1 or more",
                           m->name, of, (long long)version, domain);
        }
        if (!domain[0] && version > OPSET_MOST) {
            return LS_FAIL(err, LS_ERR_UNSUPPORTED,
                           "%s: operator set version %lld of ai.onnx: this build knows those up to %d",
                           m->name, (long long)version, OPSET_MOST);
        }
    }
    return LS_OK;
}

static ls_status check_versions(const ls_model *m, ls_error *err) {
    const Onnx__ModelProto *p = m->proto;
    if (p->ir_version < 1) {
        return LS_FAIL(err, LS_ERR_FORMAT, "%s: it says no ir_version: it is no ONNX model", m->name);
    }
    if (p->ir_version > IR_MOST) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "%s: ir_version %lld: this build knows those up to %d",
                       m->name, (long long)p->ir_version, IR_MOST);
    }
    if (p->n_opset_import == 0 && p->ir_version >= 3) {
        return LS_FAIL(err, LS_ERR_FORMAT, "%s: it imports no operator set", m->name);
    }
    LS_TRY(err, check_imports(m, "it", p->n_opset_import, p->opset_import, err));
    for (size_t i = 0; i < p->n_functions; i++) {
        const Onnx__FunctionProto *f = p->functions[i];
        LS_TRY(err, check_imports(m, f->name, f->n_opset_import, f->opset_import, err));
    }
    return LS_OK;
}

ls_status ls_onnx_check(ls_model *m, ls_error *err) {
    LS_TRY(err, check_versions(m, err));
    checker c = {.m = m, .err = err};
    size_t n = m->proto->n_functions + 1;
    c.bodies = LS_ARENA_ARRAY(&m->arena, body, n);
    if (!c.bodies) {
        return LS_FAIL_MEMORY(err, m->name);
    }
    ls_map_init(&c.body_of, m->heap, same_pointer);
    ls_status status = check_bodies(&c);
    for (size_t i = 0; i < n; i++) {
        ls_array_free(m->heap, &c.bodies[i].calls);
    }
    ls_map_free(&c.body_of);
    return status == LS_OK ? LS_OK : LS_FORWARD(err, status);
}
