/* Nodes: their errors and their attributes, those that a function's caller gives among them. */
#include "io/onnx/frame.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

ls_status ls_onnx_fail(const ls_onnx_node *n, ls_status code, const char *fmt, ...) {
    char text[LS_MESSAGE_MAX];
    const char *domain = ls_onnx_domain(n->proto->domain);
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return LS_FAIL(n->err, code, "node \"%s\" (%s%s%s, opset %d): %s", n->proto->name, domain, *domain ? "." : "",
                   n->proto->op_type, n->version, text);
}

/* Numbered as in AttributeProto.AttributeType. */
enum { ATTR_FLOAT = 1, ATTR_INT, ATTR_STRING, ATTR_TENSOR, ATTR_GRAPH, ATTR_FLOATS, ATTR_INTS, ATTR_STRINGS, ATTR_TYPES };

static const Onnx__AttributeProto *among(size_t n, Onnx__AttributeProto **all, const char *name) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(all[i]->name, name) == 0) {
            return all[i];
        }
    }
    return NULL;
}

/* Inside a function an attribute may stand for one of the call's, which may again stand for one of the call around. */
const Onnx__AttributeProto *ls_onnx_find_attr(const Onnx__NodeProto *node, const ls_onnx_frame *frame, const char *name) {
    const Onnx__AttributeProto *a = among(node->n_attribute, node->attribute, name);
    if (!a || !*a->ref_attr_name) {
        return a;
    }
    const ls_onnx_frame *body = frame;
    while (body && !body->function) {
        body = body->parent;
    }
    if (!body) {
        return NULL;
    }
    const Onnx__AttributeProto *given = ls_onnx_find_attr(body->caller, body->from, a->ref_attr_name);
    return given ? given : among(body->function->n_attribute_proto, body->function->attribute_proto, a->ref_attr_name);
}

static const Onnx__AttributeProto *typed(ls_onnx_node *n, const char *name, int type) {
    static const char *const names[ATTR_TYPES] = {"",      "a float",        "a whole number",         "a string", "a tensor",
                                                  "a graph", "a list of floats", "a list of whole numbers", "a list of strings"};
    const Onnx__AttributeProto *a = ls_onnx_find_attr(n->proto, n->frame, name);
    if (a && a->type && (int)a->type != type) {
        (void)LS_FAIL(&n->failed, LS_ERR_FORMAT, "attribute \"%s\": expected %s, got type %d", name, names[type], (int)a->type);
        return NULL;
    }
    return a;
}

bool ls_onnx_attr(const ls_onnx_node *n, const char *name) {
    return ls_onnx_find_attr(n->proto, n->frame, name) != NULL;
}
int64_t ls_onnx_attr_int(ls_onnx_node *n, const char *name, int64_t otherwise) {
    const Onnx__AttributeProto *a = typed(n, name, ATTR_INT);
    return a ? a->i : otherwise;
}
double ls_onnx_attr_float(ls_onnx_node *n, const char *name, double otherwise) {
    const Onnx__AttributeProto *a = typed(n, name, ATTR_FLOAT);
    return a ? (double)a->f : otherwise;
}

static const char *text_of(ls_onnx_node *n, ProtobufCBinaryData bytes) {
    char *text = ls_arena_alloc(ls_onnx_arena(n), bytes.len + 1);
    if (!text) {
        (void)LS_FAIL_MEMORY(&n->failed, "an attribute");
        return "";
    }
    if (bytes.len) {
        memcpy(text, bytes.data, bytes.len);
    }
    if (strlen(text) < bytes.len) {
        (void)LS_FAIL(&n->failed, LS_ERR_FORMAT, "the attribute \"%.64s...\" has a NUL in it", text);
    }
    return text;
}

const char *ls_onnx_attr_string(ls_onnx_node *n, const char *name, const char *otherwise) {
    const Onnx__AttributeProto *a = typed(n, name, ATTR_STRING);
    return a ? text_of(n, a->s) : otherwise;
}

const int64_t *ls_onnx_attr_ints(ls_onnx_node *n, const char *name, int *out_count) {
    const Onnx__AttributeProto *a = typed(n, name, ATTR_INTS);
    *out_count = a ? (int)a->n_ints : 0;
    static const int64_t none[1] = {0}; /* there, and empty */
    return !a ? NULL : a->ints ? a->ints : none;
}
const float *ls_onnx_attr_floats(ls_onnx_node *n, const char *name, int *out_count) {
    const Onnx__AttributeProto *a = typed(n, name, ATTR_FLOATS);
    *out_count = a ? (int)a->n_floats : 0;
    return a ? a->floats : NULL;
}
const char *const *ls_onnx_attr_strings(ls_onnx_node *n, const char *name, int *out_count) {
    const Onnx__AttributeProto *a = typed(n, name, ATTR_STRINGS);
    *out_count = a ? (int)a->n_strings : 0;
    const char **list = a ? LS_ARENA_ARRAY(ls_onnx_arena(n), const char *, a->n_strings + 1) : NULL;
    for (size_t i = 0; list && i < a->n_strings; i++) {
        list[i] = text_of(n, a->strings[i]);
    }
    return list;
}

ls_onnx_value *ls_onnx_attr_tensor(ls_onnx_node *n, const char *name) {
    const Onnx__AttributeProto *a = typed(n, name, ATTR_TENSOR);
    return a && a->t ? ls_onnx_run_decode(n->run, a->t, name, &n->failed) : NULL;
}
const ls_onnx_graph *ls_onnx_attr_graph(ls_onnx_node *n, const char *name) {
    const Onnx__AttributeProto *a = typed(n, name, ATTR_GRAPH);
    return a ? (const ls_onnx_graph *)a->g : NULL;
}

uint64_t ls_onnx_stream(ls_onnx_node *n, bool seeded, uint64_t seed) {
    const char *name = *n->proto->name || n->n_out == 0 ? n->proto->name : n->proto->output[0];
    uint64_t from = seeded ? ls_hash_u64(seed, 0) : ls_hash(name, strlen(name), 0);
    return ls_hash_u64(n->run->draws++, from);
}
