/* libFuzzer's mutator for ONNX models: most changes are of what a model says (an attribute's number, a shape, an operator, an operand), so
 * that the model still loads; the rest are of its bytes. */
#include "base/alloc.h"
#include "base/rng.h"
#include <onnx.pb-c.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

#define PICK(list, n) ((list)[ls_rng_below(rng, (n))])

static int64_t odd_int(ls_rng *rng, int64_t now) {
    static const int64_t loved[] = {0, 1, -1, 2, 3, 5, 7, 8, 9, -2, 16, 100, 255, 256, 65536, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
    return ls_rng_below(rng, 3) == 0 ? (int64_t)((uint64_t)now + ls_rng_below(rng, 5) - 2) : PICK(loved, sizeof loved / sizeof *loved);
}
static float odd_float(ls_rng *rng) {
    static const float loved[] = {0, 1, -1, 0.5f, 2, 1e-30f, 1e30f, 3e38f * 10, -3e38f * 10, -0.0f};
    return ls_rng_below(rng, 9) == 0 ? loved[7] - loved[7] : PICK(loved, sizeof loved / sizeof *loved);
}

static void change_tensor(ls_rng *rng, Onnx__TensorProto *t) {
    if (!t) {
        return;
    }
    switch (ls_rng_below(rng, 7)) {
    case 0:
        if (t->n_dims) {
            int64_t *dim = &PICK(t->dims, t->n_dims);
            *dim = odd_int(rng, *dim);
        }
        return;
    case 1:
        t->data_type = (int32_t)ls_rng_below(rng, 28);
        return;
    case 2:
        t->n_dims = ls_rng_below(rng, t->n_dims + 1);
        return;
    default:
        break;
    }
    if (t->n_int64_data) {
        int64_t *v = &PICK(t->int64_data, t->n_int64_data);
        *v = odd_int(rng, *v);
    } else if (t->n_int32_data) {
        PICK(t->int32_data, t->n_int32_data) = (int32_t)odd_int(rng, 0);
    } else if (t->n_float_data) {
        PICK(t->float_data, t->n_float_data) = odd_float(rng);
    } else if (t->raw_data.len >= 8 && t->raw_data.len % 8 == 0) {
        int64_t v = odd_int(rng, 1);
        memcpy(t->raw_data.data + 8 * ls_rng_below(rng, t->raw_data.len / 8), &v, 8);
    } else if (t->raw_data.len) {
        PICK(t->raw_data.data, t->raw_data.len) = (uint8_t)odd_int(rng, 0);
    }
}

static void change_graph(ls_rng *rng, Onnx__GraphProto *g);

static void change_attribute(ls_rng *rng, Onnx__AttributeProto *a) {
    a->i = a->i || a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT ? odd_int(rng, a->i) : 0;
    a->f = a->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT ? odd_float(rng) : 0;
    if (a->n_ints) {
        int64_t *v = &PICK(a->ints, a->n_ints);
        *v = odd_int(rng, *v);
        a->n_ints -= ls_rng_below(rng, 6) == 0;
    }
    if (a->n_floats) {
        PICK(a->floats, a->n_floats) = odd_float(rng);
        a->n_floats -= ls_rng_below(rng, 6) == 0;
    }
    if (a->n_strings && ls_rng_below(rng, 2)) {
        a->n_strings--;
    }
    if (a->s.len) {
        a->s.len = ls_rng_below(rng, a->s.len + 1);
    }
    change_tensor(rng, a->t);
    if (a->g) {
        change_graph(rng, a->g);
    }
}

/* The name of some value of the graph. */
static char *some_name(ls_rng *rng, const Onnx__GraphProto *g) {
    uint64_t k = ls_rng_below(rng, 4);
    if (k == 0 && g->n_initializer) {
        return PICK(g->initializer, g->n_initializer)->name;
    }
    if (k == 1 && g->n_node) {
        const Onnx__NodeProto *n = PICK(g->node, g->n_node);
        return n->n_output ? PICK(n->output, n->n_output) : (char *)"";
    }
    return k == 2 || !g->n_input ? (char *)"" : PICK(g->input, g->n_input)->name;
}

static void change_node(ls_rng *rng, const Onnx__GraphProto *g, Onnx__NodeProto *n) {
    switch (ls_rng_below(rng, 8)) {
    case 0:
        if (n->n_input) {
            PICK(n->input, n->n_input) = some_name(rng, g);
        }
        return;
    case 1:
        n->n_input -= n->n_input > 0;
        return;
    case 2:
        n->n_attribute -= n->n_attribute > 0;
        return;
    case 3:
        n->op_type = PICK(g->node, g->n_node)->op_type;
        return;
    default:
        if (n->n_attribute) {
            change_attribute(rng, PICK(n->attribute, n->n_attribute));
        }
    }
}

static void change_port(ls_rng *rng, Onnx__ValueInfoProto *v) {
    if (!v->type || v->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) {
        return;
    }
    Onnx__TypeProto__Tensor *t = v->type->tensor_type;
    if (!t->shape || !t->shape->n_dim || ls_rng_below(rng, 3) == 0) {
        t->elem_type = (int32_t)ls_rng_below(rng, 28);
        return;
    }
    Onnx__TensorShapeProto__Dimension *d = PICK(t->shape->dim, t->shape->n_dim);
    if (ls_rng_below(rng, 4) == 0) {
        t->shape->n_dim--;
    } else if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE) {
        d->dim_value = (int64_t)ls_rng_below(rng, 9);
    }
}

static void change_graph(ls_rng *rng, Onnx__GraphProto *g) {
    uint64_t k = ls_rng_below(rng, 6);
    if (k == 0 && g->n_input) {
        change_port(rng, PICK(g->input, g->n_input));
    } else if (k == 1 && g->n_initializer) {
        change_tensor(rng, PICK(g->initializer, g->n_initializer));
    } else if (g->n_node) {
        change_node(rng, g, PICK(g->node, g->n_node));
    }
}

static void *arena_alloc(void *arena, size_t size) {
    return ls_arena_alloc(arena, size);
}
static void arena_free(void *arena, void *block) {
    (void)arena;
    (void)block;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    ls_heap heap;
    ls_arena arena;
    ls_rng rng = {ls_rng_key(seed, 0), 0};
    ls_heap_init(&heap, NULL, 0);
    ls_arena_init(&arena, &heap);
    ProtobufCAllocator allocator = {arena_alloc, arena_free, &arena};
    Onnx__ModelProto *m = ls_rng_below(&rng, 10) ? onnx__model_proto__unpack(&allocator, size, data) : NULL;
    size_t packed = 0;
    if (m && m->graph) {
        for (uint64_t n = ls_rng_below(&rng, 3) + 1; n > 0; n--) {
            change_graph(&rng, m->graph);
        }
        for (size_t i = 0; i < m->n_opset_import && ls_rng_below(&rng, 30) == 0; i++) {
            m->opset_import[i]->version = 1 + (int64_t)ls_rng_below(&rng, 28);
        }
        packed = onnx__model_proto__get_packed_size(m);
        packed = packed <= room ? onnx__model_proto__pack(m, data) : 0;
    }
    ls_arena_free(&arena);
    return packed ? packed : LLVMFuzzerMutate(data, size, room);
}
