/* What the tests of ONNX files share: making messages and packing them by protobuf-c, and a model with something of everything. */
#ifndef LOCKSTEP_TESTS_UNIT_ONNX_SUPPORT_H
#define LOCKSTEP_TESTS_UNIT_ONNX_SUPPORT_H

#include "io_support.h"
#include "io/onnx/load.h"
#include "io/onnx/onnx.h"

#define ATTR(t) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##t

/* ---- making messages; they live in an arena until the end of a test ---- */

static ls_heap test_heap;
static ls_arena made;

static inline int setup(void **state) {
    ls_heap_init(&test_heap, NULL, 0);
    ls_arena_init(&made, &test_heap);
    return files_setup(state);
}
static inline int teardown(void **state) {
    ls_arena_free(&made);
    return files_teardown(state);
}

static inline void *new_message(size_t size, const ProtobufCMessageDescriptor *type) {
    ProtobufCMessage *m = ls_arena_alloc(&made, size);
    protobuf_c_message_init(type, m);
    return m;
}
#define NEW(T, t) ((Onnx__##T *)new_message(sizeof(Onnx__##T), &onnx__##t##__descriptor))

/* Appends to a repeated field: PUSH(graph->node, graph->n_node, node). */
static inline void *grown(void *list, size_t n, size_t size) {
    void *more = ls_arena_array(&made, n + 1, size);
    if (n) {
        memcpy(more, list, n * size);
    }
    return more;
}
#define PUSH(list, n, value) ((list) = grown((list), (n), sizeof *(list)), (list)[(n)++] = (value))

static inline Onnx__TensorProto *tensor(const char *name, int type, int rank, const int64_t *dims) {
    Onnx__TensorProto *t = NEW(TensorProto, tensor_proto);
    t->name = (char *)name;
    t->data_type = type;
    t->n_dims = (size_t)rank;
    t->dims = ls_arena_copy(&made, dims, sizeof *dims * (size_t)rank);
    return t;
}
static inline Onnx__TensorProto *raw(Onnx__TensorProto *t, const void *bytes, size_t size) {
    t->raw_data = (ProtobufCBinaryData){size, ls_arena_copy(&made, bytes, size)};
    return t;
}
static inline Onnx__TensorProto *floats(const char *name, int64_t n) {
    Onnx__TensorProto *t = tensor(name, ONNX_FLOAT, 1, &n);
    for (int64_t i = 0; i < n; i++) {
        PUSH(t->float_data, t->n_float_data, (float)i + 0.5f);
    }
    return t;
}
static inline void external(Onnx__TensorProto *t, const char *key, const char *value) {
    Onnx__StringStringEntryProto *e = NEW(StringStringEntryProto, string_string_entry_proto);
    e->key = (char *)key;
    e->value = (char *)value;
    PUSH(t->external_data, t->n_external_data, e);
    t->data_location = 1;
}

static inline Onnx__TypeProto *tensor_type(int elem, const Onnx__TensorShapeProto *shape) {
    Onnx__TypeProto *type = NEW(TypeProto, type_proto);
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = NEW(TypeProto__Tensor, type_proto__tensor);
    type->tensor_type->elem_type = elem;
    type->tensor_type->shape = (Onnx__TensorShapeProto *)shape;
    return type;
}
static inline Onnx__TensorShapeProto *shape_of(const char *name,
                                               int64_t second) { /* [name, second]; -1: not said */
    Onnx__TensorShapeProto *shape = NEW(TensorShapeProto, tensor_shape_proto);
    for (int i = 0; i < 2; i++) {
        Onnx__TensorShapeProto__Dimension *d =
            NEW(TensorShapeProto__Dimension, tensor_shape_proto__dimension);
        if (i == 0 && name) {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            d->dim_param = (char *)name;
        } else if (i == 1 && second >= 0) {
            d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            d->dim_value = second;
        }
        PUSH(shape->dim, shape->n_dim, d);
    }
    return shape;
}
static inline Onnx__ValueInfoProto *value(const char *name, Onnx__TypeProto *type) {
    Onnx__ValueInfoProto *v = NEW(ValueInfoProto, value_info_proto);
    v->name = (char *)name;
    v->type = type;
    return v;
}
#define INPUT(g, v) PUSH((g)->input, (g)->n_input, v)
#define OUTPUT(g, v) PUSH((g)->output, (g)->n_output, v)

/* "x y" are the operands, "z" the results. */
static inline void names(const char *text, char ***list, size_t *n) {
    char *copy = ls_arena_printf(&made, "%s", text), *save = NULL;
    for (char *name = strtok_r(copy, " ", &save); name; name = strtok_r(NULL, " ", &save)) {
        PUSH(*list, *n, strcmp(name, "-") == 0 ? "" : name);
    }
}
static inline Onnx__NodeProto *node(const char *op, const char *in, const char *out) {
    Onnx__NodeProto *n = NEW(NodeProto, node_proto);
    n->op_type = (char *)op;
    names(in, &n->input, &n->n_input);
    names(out, &n->output, &n->n_output);
    return n;
}
static inline Onnx__NodeProto *add_node(Onnx__GraphProto *g, const char *op, const char *in,
                                        const char *out) {
    Onnx__NodeProto *n = node(op, in, out);
    PUSH(g->node, g->n_node, n);
    return n;
}
static inline Onnx__AttributeProto *attribute(Onnx__NodeProto *n, const char *name, int type) {
    Onnx__AttributeProto *a = NEW(AttributeProto, attribute_proto);
    a->name = (char *)name;
    a->type = (Onnx__AttributeProto__AttributeType)type;
    if (n) {
        PUSH(n->attribute, n->n_attribute, a);
    }
    return a;
}
static inline Onnx__OperatorSetIdProto *opset(const char *domain, int64_t version) {
    Onnx__OperatorSetIdProto *o = NEW(OperatorSetIdProto, operator_set_id_proto);
    o->domain = (char *)domain;
    o->version = version;
    return o;
}
static inline Onnx__FunctionProto *function(Onnx__ModelProto *m, const char *name, const char *in,
                                            const char *out) {
    Onnx__FunctionProto *f = NEW(FunctionProto, function_proto);
    f->name = (char *)name;
    f->domain = (char *)"local";
    names(in, &f->input, &f->n_input);
    names(out, &f->output, &f->n_output);
    PUSH(f->opset_import, f->n_opset_import, opset("", 21));
    PUSH(m->functions, m->n_functions, f);
    return f;
}
static inline Onnx__NodeProto *call(const char *name, const char *in, const char *out) {
    Onnx__NodeProto *n = node(name, in, out);
    n->domain = (char *)"local";
    return n;
}

static inline Onnx__GraphProto *branch(const char *reads, const char *gives) {
    Onnx__GraphProto *g = NEW(GraphProto, graph_proto);
    g->name = (char *)"branch";
    add_node(g, "Neg", reads, gives);
    OUTPUT(g, value(gives, NULL));
    return g;
}

/* A model with something of everything. */
static inline Onnx__ModelProto *model(void) {
    Onnx__ModelProto *m = NEW(ModelProto, model_proto);
    Onnx__GraphProto *g = m->graph = NEW(GraphProto, graph_proto);
    m->ir_version = 10;
    PUSH(m->opset_import, m->n_opset_import, opset("", 21));
    PUSH(m->opset_import, m->n_opset_import, opset("local", 1));
    g->name = (char *)"main";
    INPUT(g, value("x", tensor_type(ONNX_FLOAT, shape_of("batch", 3))));
    INPUT(g, value("w", tensor_type(ONNX_FLOAT, NULL)));
    INPUT(g, value("c", tensor_type(ONNX_BOOL, NULL)));
    PUSH(g->initializer, g->n_initializer, floats("w", 3));
    Onnx__SparseTensorProto *sparse = NEW(SparseTensorProto, sparse_tensor_proto);
    sparse->values = floats("sparse", 2);
    sparse->indices = tensor("", ONNX_INT64, 1, (const int64_t[]){2});
    PUSH(sparse->indices->int64_data, sparse->indices->n_int64_data, 1);
    PUSH(sparse->indices->int64_data, sparse->indices->n_int64_data, 4);
    sparse->dims = ls_arena_copy(&made, (const int64_t[]){2, 3}, 16);
    sparse->n_dims = 2;
    PUSH(g->sparse_initializer, g->n_sparse_initializer, sparse);
    add_node(g, "Add", "x w", "y")->name = (char *)"sum";
    Onnx__NodeProto *n = add_node(g, "If", "c", "z");
    attribute(n, "then_branch", ATTR(GRAPH))->g = branch("y", "t");
    attribute(n, "else_branch", ATTR(GRAPH))->g = branch("x", "e");
    n = add_node(g, "Everything", "z - sparse", "- u");
    attribute(n, "f", ATTR(FLOAT))->f = 1.5f;
    attribute(n, "i", ATTR(INT))->i = -7;
    attribute(n, "zero", ATTR(INT));
    attribute(n, "s", ATTR(STRING))->s = (ProtobufCBinaryData){4, (uint8_t *)"text"};
    attribute(n, "t", ATTR(TENSOR))->t = floats("", 2);
    attribute(n, "tp", ATTR(TYPE_PROTO))->tp = tensor_type(ONNX_INT8, NULL);
    attribute(n, "sp", ATTR(SPARSE_TENSOR))->sparse_tensor = sparse;
    Onnx__AttributeProto *a = attribute(n, "ints", ATTR(INTS));
    PUSH(a->ints, a->n_ints, 1);
    PUSH(a->ints, a->n_ints, -1);
    a = attribute(n, "floats", ATTR(FLOATS));
    PUSH(a->floats, a->n_floats, 2.5f);
    a = attribute(n, "strings", ATTR(STRINGS));
    PUSH(a->strings, a->n_strings, ((ProtobufCBinaryData){3, (uint8_t *)"abc"}));
    a = attribute(n, "tensors", ATTR(TENSORS));
    PUSH(a->tensors, a->n_tensors, floats("", 1));
    a = attribute(n, "graphs", ATTR(GRAPHS));
    PUSH(a->graphs, a->n_graphs, branch("u2", "u3"));
    add_node(a->graphs[0], "Never", "", "never");
    names("u", &a->graphs[0]->node[1]->input, &a->graphs[0]->node[1]->n_input);
    a->graphs[0]->node[0]->input[0] = (char *)"z";
    a->graphs[0]->node[1]->input[0] = (char *)"x";
    Onnx__NodeProto *c = call("Twice", "u", "v");
    attribute(c, "k", ATTR(INT))->i = 3;
    PUSH(g->node, g->n_node, c);
    OUTPUT(g, value("v", tensor_type(ONNX_FLOAT16, shape_of(NULL, -1))));
    Onnx__TypeProto *sequence = NEW(TypeProto, type_proto);
    sequence->value_case = ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
    sequence->sequence_type = NEW(TypeProto__Sequence, type_proto__sequence);
    sequence->sequence_type->elem_type = tensor_type(ONNX_FLOAT, NULL);
    OUTPUT(g, value("u", sequence));
    Onnx__FunctionProto *f = function(m, "Twice", "a", "b");
    PUSH(f->attribute, f->n_attribute, "k");
    PUSH(f->attribute_proto, f->n_attribute_proto, attribute(NULL, "l", ATTR(INT)));
    f->attribute_proto[0]->i = 2;
    n = node("Add", "a a", "b");
    attribute(n, "k", ATTR(INT))->ref_attr_name = (char *)"k";
    PUSH(f->node, f->n_node, n);
    return m;
}

static inline uint8_t *pack(const ProtobufCMessage *message, size_t *out_size) {
    *out_size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = ls_arena_alloc(&made, *out_size + 1);
    assert_int_equal(protobuf_c_message_pack(message, bytes), *out_size);
    return bytes;
}

static inline ls_status load_bytes(const uint8_t *bytes, size_t size, ls_model **out_model, ls_error *err) {
    ls_data *file = NULL;
    *err = (ls_error){.code = LS_OK};
    *out_model = NULL;
    ls_status status =
        ls_data_create(context, LS_U8, 1, (const int64_t[]){(int64_t)size}, bytes, &file, NULL);
    status = status == LS_OK ? ls_model_load_data(context, "test.onnx", file, out_model, err) : status;
    ls_data_release(file);
    if (status != LS_OK && status != LS_ERR_MEMORY && !strstr(err->message, "test.onnx")) {
        fail_msg("\"%s\" does not name the file", err->message);
    }
    assert_true((status == LS_OK) == (*out_model != NULL));
    return status;
}
static inline ls_status load(const Onnx__ModelProto *m, ls_model **out_model, ls_error *err) {
    size_t size;
    uint8_t *bytes = pack(&m->base, &size);
    return load_bytes(bytes, size, out_model, err);
}

static inline Onnx__ModelProto *model_beside(const char *location, const char *offset, const char *length,
                                             int64_t n) {
    Onnx__ModelProto *p = model();
    Onnx__TensorProto *t = tensor("e", ONNX_FLOAT, 1, &n);
    external(t, "location", location);
    if (offset) {
        external(t, "offset", offset);
    }
    if (length) {
        external(t, "length", length);
    }
    PUSH(p->graph->initializer, p->graph->n_initializer, t);
    return p;
}
static inline ls_status load_file(const Onnx__ModelProto *p, ls_model **out_model, ls_error *err) {
    size_t size;
    uint8_t *bytes = pack(&p->base, &size);
    write_bytes(in_folder("m.onnx"), bytes, size);
    *err = (ls_error){.code = LS_OK};
    *out_model = NULL;
    return ls_model_load(context, in_folder("m.onnx"), out_model, err);
}

#endif
