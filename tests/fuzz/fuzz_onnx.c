/* libFuzzer's entry for ONNX models in memory. A model may be refused or loaded; of one that is loaded every port is described and every
 * initializer read. With the sanitizers on, anything else ends the run. With FUZZ_SEED in the environment a model to begin with is
 * written there. */
#include "io/onnx/load.h"
#include "io/onnx/onnx.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define ATTR(t) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##t

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    const char *path = getenv("FUZZ_SEED");
    if (!path) {
        return 0;
    }
    float ones[] = {1, 1};
    int64_t dims[] = {2}, at[] = {1};
    char *x[] = {(char *)"x", (char *)"w"}, *y[] = {(char *)"y"}, *z[] = {(char *)"z"}, *k[] = {(char *)"k"};
    Onnx__OperatorSetIdProto set = ONNX__OPERATOR_SET_ID_PROTO__INIT, *sets[] = {&set};
    set.version = 21;
    Onnx__TensorProto w = ONNX__TENSOR_PROTO__INIT, *tensors[] = {&w};
    w.name = x[1], w.data_type = ONNX_FLOAT, w.n_dims = 1, w.dims = dims, w.n_float_data = 2, w.float_data = ones;
    Onnx__TensorProto values = w, indices = ONNX__TENSOR_PROTO__INIT;
    values.name = (char *)"s";
    values.n_dims = 1, values.dims = at, values.n_float_data = 1;
    indices.data_type = ONNX_INT64, indices.n_dims = 1, indices.dims = at, indices.n_int64_data = 1, indices.int64_data = at;
    Onnx__SparseTensorProto sparse = ONNX__SPARSE_TENSOR_PROTO__INIT, *sparses[] = {&sparse};
    sparse.values = &values, sparse.indices = &indices, sparse.n_dims = 1, sparse.dims = dims;
    Onnx__ValueInfoProto in = ONNX__VALUE_INFO_PROTO__INIT, out = in, *ins[] = {&in}, *outs[] = {&out};
    in.name = x[0], out.name = z[0];
    Onnx__AttributeProto graph = ONNX__ATTRIBUTE_PROTO__INIT, ref = graph, *graphs[] = {&graph}, *refs[] = {&ref};
    Onnx__GraphProto inner = ONNX__GRAPH_PROTO__INIT, outer = inner;
    Onnx__NodeProto add = ONNX__NODE_PROTO__INIT, call = add, body = add, *nodes[] = {&add, &call}, *bodies[] = {&body};
    graph.name = (char *)"body", graph.type = ATTR(GRAPH), graph.g = &inner;
    ref.name = ref.ref_attr_name = k[0], ref.type = ATTR(INT);
    add.op_type = (char *)"Add", add.n_input = 2, add.input = x, add.n_output = 1, add.output = y;
    add.n_attribute = 1, add.attribute = graphs;
    call.op_type = (char *)"F", call.domain = (char *)"d", call.n_input = 1, call.input = y, call.n_output = 1, call.output = z;
    body.op_type = (char *)"Neg", body.n_input = 1, body.input = x, body.n_output = 1, body.output = y;
    body.n_attribute = 1, body.attribute = refs;
    Onnx__FunctionProto f = ONNX__FUNCTION_PROTO__INIT, *functions[] = {&f};
    f.name = call.op_type, f.domain = call.domain, f.n_input = 1, f.input = x, f.n_output = 1, f.output = y, f.n_node = 1, f.node = bodies;
    f.n_attribute = 1, f.attribute = k, f.n_opset_import = 1, f.opset_import = sets;
    outer.n_input = 1, outer.input = ins, outer.n_output = 1, outer.output = outs, outer.n_node = 2, outer.node = nodes;
    outer.n_initializer = 1, outer.initializer = tensors, outer.n_sparse_initializer = 1, outer.sparse_initializer = sparses;
    Onnx__ModelProto m = ONNX__MODEL_PROTO__INIT;
    m.ir_version = 10, m.n_opset_import = 1, m.opset_import = sets, m.graph = &outer, m.n_functions = 1, m.functions = functions;
    static uint8_t packed[4096];
    FILE *file = fopen(path, "wb");
    size_t size = onnx__model_proto__get_packed_size(&m);
    if (!file || size > sizeof packed || onnx__model_proto__pack(&m, packed) != size || fwrite(packed, 1, size, file) != size ||
        fclose(file)) {
        abort();
    }
    return 0;
}

static void read_tensors(ls_model *m, ls_heap *heap) {
    ls_arena arena;
    char hex[65];
    int type;
    ls_arena_init(&arena, heap);
    const Onnx__GraphProto *g = m->proto->graph;
    for (size_t i = 0; i < g->n_initializer; i++) {
        ls_data *x = NULL;
        const char **texts;
        int64_t n = 0;
        if (ls_onnx_tensor_data(m, g->initializer[i], NULL, &x, &type, NULL) == LS_OK) {
            ls_data_sha256(x, hex);
        } else if (ls_onnx_tensor_strings(m, g->initializer[i], NULL, &arena, &texts, &n, NULL) == LS_OK) {
            for (int64_t k = 0; k < n; k++) {
                ls_hash(texts[k], strlen(texts[k]), 0);
            }
        }
        ls_data_release(x);
    }
    for (size_t i = 0; i < g->n_sparse_initializer; i++) {
        ls_data *x = NULL;
        if (ls_onnx_sparse_data(m, g->sparse_initializer[i], NULL, &x, &type, NULL) == LS_OK) {
            ls_data_sha256(x, hex);
        }
        ls_data_release(x);
    }
    ls_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static ls_context *context;
    if (!context) {
        const ls_context_options options = {.memory_limit = (size_t)64 << 20}; /* so that a wild size is refused */
        if (ls_context_create(&options, &context, NULL) != LS_OK) {
            abort();
        }
    }
    size_t before, after, peak;
    ls_context_memory(context, &before, &peak);
    ls_data *file = NULL;
    ls_model *m = NULL;
    if (ls_data_create(context, LS_U8, 1, (const int64_t[]){(int64_t)size}, bytes, &file, NULL) != LS_OK) {
        abort();
    }
    if (ls_model_load_data(context, "fuzzed", file, &m, NULL) == LS_OK) {
        for (int i = 0; i < ls_model_input_count(m); i++) {
            ls_model_port port = ls_model_input(m, i);
            ls_hash(port.name, strlen(port.name), strlen(port.type));
        }
        for (int i = 0; i < ls_model_output_count(m); i++) {
            ls_model_port port = ls_model_output(m, i);
            ls_hash(port.name, strlen(port.name), strlen(port.type));
        }
        read_tensors(m, ls_context_heap(context));
    }
    ls_model_release(m);
    ls_data_release(file);
    ls_context_memory(context, &after, &peak);
    if (after != before) {
        abort(); /* something was kept */
    }
    return 0;
}
