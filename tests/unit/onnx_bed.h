/* A model under construction, fed with tensors of a session on cpu: for tests of single operators. */
#ifndef LOCKSTEP_TESTS_UNIT_ONNX_BED_H
#define LOCKSTEP_TESTS_UNIT_ONNX_BED_H

#include "onnx_support.h"
#include "support/world.h"

typedef struct bed {
    world w;
    Onnx__ModelProto *m;
    Onnx__GraphProto *g;
    ls_tensor *in[4];
    int n_in;
} bed;

static inline bed bed_open(int64_t version) {
    bed b = {.w = world_open("cpu")};
    ls_heap_init(&test_heap, NULL, 0);
    ls_arena_init(&made, &test_heap);
    b.m = NEW(ModelProto, model_proto);
    b.g = b.m->graph = NEW(GraphProto, graph_proto);
    b.m->ir_version = 10;
    b.g->name = (char *)"main";
    PUSH(b.m->opset_import, b.m->n_opset_import, opset("", version));
    PUSH(b.m->opset_import, b.m->n_opset_import, opset("ai.onnx.ml", 3));
    return b;
}

static inline void bed_close(bed *b) {
    ls_arena_free(&made);
    world_close(&b->w);
}

static inline void feed(bed *b, const char *name, int type, ls_shape shape, const void *data) {
    ls_tensor *t = ls_tensor_from(b->w.session, ls_onnx_carrier(type), shape, data);
    assert_non_null(t);
    INPUT(b->g, value(name, tensor_type(type, NULL)));
    b->in[b->n_in++] = t;
}

static inline Onnx__NodeProto *ints(Onnx__NodeProto *n, const char *name, int count, const int64_t *list) {
    Onnx__AttributeProto *a = attribute(n, name, ATTR(INTS));
    a->n_ints = (size_t)count;
    a->ints = ls_arena_copy(&made, list, sizeof *list * (size_t)count);
    return n;
}

static inline void text(Onnx__NodeProto *n, const char *name, const char *of) {
    attribute(n, name, ATTR(STRING))->s = (ProtobufCBinaryData){strlen(of), (uint8_t *)of};
}

/* The model as it stands, packed and loaded; the caller releases it. */
static inline ls_model *bed_load(bed *b) {
    ls_model *model = NULL;
    ls_data *file = NULL;
    ls_error err = {.code = LS_OK};
    size_t size;
    uint8_t *bytes = pack(&b->m->base, &size);
    world_ok(&b->w, ls_data_create(b->w.context, LS_U8, 1, (const int64_t[]){(int64_t)size}, bytes, &file, NULL));
    if (ls_model_load_data(b->w.context, "test.onnx", file, &model, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    ls_data_release(file);
    return model;
}

#endif
