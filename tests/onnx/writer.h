/* Small models and tensors as files, for tests. Everything a file needs lives on the stack of the caller of write_message. */
#ifndef LOCKSTEP_TESTS_ONNX_WRITER_H
#define LOCKSTEP_TESTS_ONNX_WRITER_H

#include <onnx.pb-c.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An input or output: an element type, a rank and extents, of which a negative one is a name, "n". */
typedef struct port {
    const char *name;
    int type, rank;
    int64_t dims[4];
} port;

/* A model of one node. */
typedef struct small_model {
    const char *op, *domain;
    const char *name; /* NULL: "it" */
    int opset;
    int n_in, n_out;
    port in[3], out[2];
} small_model;

static inline bool write_message(const char *path, const ProtobufCMessage *message) {
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *bytes = malloc(size + 1);
    FILE *f = bytes ? fopen(path, "wb") : NULL;
    bool ok = f && protobuf_c_message_pack(message, bytes) == size && fwrite(bytes, 1, size, f) == size;
    ok = f && fclose(f) == 0 && ok;
    free(bytes);
    return ok;
}

/* What a ValueInfoProto consists of. */
typedef struct port_parts {
    Onnx__ValueInfoProto info;
    Onnx__TypeProto type;
    Onnx__TypeProto__Tensor tensor;
    Onnx__TensorShapeProto shape;
    Onnx__TensorShapeProto__Dimension dims[4], *list[4];
} port_parts;

static inline Onnx__ValueInfoProto *port_message(port_parts *m, const port *p) {
    onnx__value_info_proto__init(&m->info);
    onnx__type_proto__init(&m->type);
    onnx__type_proto__tensor__init(&m->tensor);
    onnx__tensor_shape_proto__init(&m->shape);
    m->info.name = (char *)p->name;
    m->info.type = &m->type;
    m->type.value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    m->type.tensor_type = &m->tensor;
    m->tensor.elem_type = p->type;
    m->tensor.shape = &m->shape;
    m->shape.n_dim = (size_t)p->rank;
    m->shape.dim = m->list;
    for (int i = 0; i < p->rank; i++) {
        onnx__tensor_shape_proto__dimension__init(&m->dims[i]);
        m->list[i] = &m->dims[i];
        if (p->dims[i] < 0) {
            m->dims[i].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
            m->dims[i].dim_param = (char *)"n";
        } else {
            m->dims[i].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
            m->dims[i].dim_value = p->dims[i];
        }
    }
    return &m->info;
}

static inline bool write_model(const char *path, const small_model *s) {
    port_parts parts[5];
    Onnx__ValueInfoProto *in[3], *out[2];
    char *in_names[3], *out_names[2];
    Onnx__ModelProto model = ONNX__MODEL_PROTO__INIT;
    Onnx__GraphProto graph = ONNX__GRAPH_PROTO__INIT;
    Onnx__NodeProto node = ONNX__NODE_PROTO__INIT, *nodes[1] = {&node};
    Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT, *opsets[1] = {&opset};
    for (int i = 0; i < s->n_in; i++) {
        in[i] = port_message(&parts[i], &s->in[i]);
        in_names[i] = (char *)s->in[i].name;
    }
    for (int i = 0; i < s->n_out; i++) {
        out[i] = port_message(&parts[3 + i], &s->out[i]);
        out_names[i] = (char *)s->out[i].name;
    }
    node.op_type = (char *)s->op;
    node.name = (char *)(s->name ? s->name : "it");
    node.domain = (char *)(s->domain ? s->domain : "");
    node.n_input = (size_t)s->n_in;
    node.input = in_names;
    node.n_output = (size_t)s->n_out;
    node.output = out_names;
    graph.name = (char *)"small";
    graph.n_node = 1;
    graph.node = nodes;
    graph.n_input = (size_t)s->n_in;
    graph.input = in;
    graph.n_output = (size_t)s->n_out;
    graph.output = out;
    opset.domain = node.domain;
    opset.version = s->opset;
    model.ir_version = 8;
    model.producer_name = (char *)"tests";
    model.graph = &graph;
    model.n_opset_import = 1;
    model.opset_import = opsets;
    return write_message(path, &model.base);
}

static inline bool write_tensor(const char *path, int type, int rank, const int64_t *dims, const void *bytes,
                                size_t size) {
    Onnx__TensorProto t = ONNX__TENSOR_PROTO__INIT;
    t.data_type = type;
    t.n_dims = (size_t)rank;
    t.dims = (int64_t *)dims;
    t.raw_data.len = size;
    t.raw_data.data = (uint8_t *)bytes;
    return write_message(path, &t.base);
}

#endif
