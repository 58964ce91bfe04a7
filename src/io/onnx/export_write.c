/* Messages of an .onnx file, and the pieces that many operations are written with. What may have failed before is NULL and is
 * passed on, so that callers look once, at the end. */
#include "io/onnx/export.h"
#include "io/onnx/load.h"
#include "io/onnx/onnx.h"
#include <stdarg.h>
#include <string.h>

bool ls_export_failed(const ls_onnx_export *e) {
    return e->err->code != LS_OK;
}

static void *no_memory(ls_onnx_export *e) {
    LS_FAIL(e->err, LS_ERR_MEMORY, "%s: out of memory", e->path);
    return NULL;
}

void *ls_export_message(ls_onnx_export *e, size_t size, const ProtobufCMessageDescriptor *type) {
    ProtobufCMessage *m = ls_export_failed(e) ? NULL : ls_arena_alloc(&e->arena, size);
    if (!m) {
        return no_memory(e); /* an error that is there already stays */
    }
    protobuf_c_message_init(type, m);
    return m;
}

const char *ls_export_name(ls_onnx_export *e, const char *wanted) {
    const char *name = wanted && !ls_export_failed(e) ? ls_arena_printf(&e->arena, "%s", wanted) : NULL;
    for (int n = 2; name && ls_map_get(&e->names, ls_onnx_hash_name(name), name); n++) {
        name = ls_arena_printf(&e->arena, "%s_%d", wanted, n);
    }
    if (!name || !ls_map_put(&e->names, ls_onnx_hash_name(name), name, (void *)name)) {
        return no_memory(e);
    }
    return name;
}

/* ---- nodes ---- */

Onnx__NodeProto *ls_export_op_list(ls_onnx_export *e, const char *type, int n_in, const char *const *in) {
    Onnx__NodeProto *node = LS_EXPORT_NEW(e, NodeProto, node_proto);
    if (!node || !(node->input = LS_ARENA_ARRAY(&e->arena, char *, n_in + 1))) {
        return no_memory(e);
    }
    node->op_type = (char *)type;
    for (int i = 0; i < n_in; i++) {
        if (!in[i]) {
            return no_memory(e); /* it has failed before: that error stays */
        }
        node->input[i] = (char *)in[i];
        node->n_input = in[i][0] ? (size_t)i + 1 : node->n_input; /* none that are left out at the end */
    }
    return node;
}

Onnx__NodeProto *ls_export_op(ls_onnx_export *e, const char *type, int n_in, ...) {
    const char *in[4];
    va_list args;
    va_start(args, n_in);
    for (int i = 0; i < n_in; i++) {
        in[i] = va_arg(args, const char *);
    }
    va_end(args);
    return ls_export_op_list(e, type, n_in, in);
}

static Onnx__AttributeProto *attribute(ls_onnx_export *e, Onnx__NodeProto *node, const char *name,
                                       Onnx__AttributeProto__AttributeType type) {
    Onnx__AttributeProto *a = node ? LS_EXPORT_NEW(e, AttributeProto, attribute_proto) : NULL;
    Onnx__AttributeProto **list =
        a ? LS_ARENA_ARRAY(&e->arena, Onnx__AttributeProto *, node->n_attribute + 1) : NULL;
    if (!list) {
        return no_memory(e);
    }
    if (node->n_attribute) {
        memcpy(list, node->attribute, sizeof *list * node->n_attribute);
    }
    a->name = (char *)name;
    a->type = type;
    node->attribute = list;
    list[node->n_attribute++] = a;
    return a;
}

#define TYPE(t) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##t

void ls_export_int(ls_onnx_export *e, Onnx__NodeProto *node, const char *name, int64_t value) {
    Onnx__AttributeProto *a = attribute(e, node, name, TYPE(INT));
    if (a) {
        a->i = value;
    }
}

void ls_export_ints(ls_onnx_export *e, Onnx__NodeProto *node, const char *name, int count,
                    const int64_t *values) {
    Onnx__AttributeProto *a = attribute(e, node, name, TYPE(INTS));
    if (a && !(a->ints = ls_arena_copy(&e->arena, values, sizeof *values * (size_t)count))) {
        no_memory(e);
    } else if (a) {
        a->n_ints = (size_t)count;
    }
}

void ls_export_float(ls_onnx_export *e, Onnx__NodeProto *node, const char *name, double value) {
    Onnx__AttributeProto *a = attribute(e, node, name, TYPE(FLOAT));
    if (a) {
        a->f = (float)value;
    }
}

void ls_export_string(ls_onnx_export *e, Onnx__NodeProto *node, const char *name, const char *value) {
    Onnx__AttributeProto *a = attribute(e, node, name, TYPE(STRING));
    if (a) {
        a->s = (ProtobufCBinaryData){strlen(value), (uint8_t *)value};
    }
}

void ls_export_graph(ls_onnx_export *e, Onnx__NodeProto *node, const char *name, Onnx__GraphProto *value) {
    Onnx__AttributeProto *a = attribute(e, node, name, TYPE(GRAPH));
    if (a) {
        a->g = value;
    }
}

/* What a node is called: as the layer whose weight it reads ("conv1" for conv1.weight), or as its operator. */
static const char *title(ls_onnx_export *e, const Onnx__NodeProto *node) {
    static const char suffix[] = ".weight";
    for (size_t i = 1; i < node->n_input; i++) {
        size_t n = strlen(node->input[i]);
        if (n >= sizeof suffix && strcmp(node->input[i] + n - (sizeof suffix - 1), suffix) == 0) {
            return ls_arena_printf(&e->arena, "%.*s", (int)(n - (sizeof suffix - 1)), node->input[i]);
        }
    }
    return node->op_type;
}

const char *ls_export_result(ls_onnx_export *e, Onnx__NodeProto *node) {
    if (!node) {
        return NULL;
    }
    node->name = (char *)ls_export_name(e, title(e, node));
    node->output = LS_ARENA_ARRAY(&e->arena, char *, 1);
    ls_onnx_nodes *into = e->into_first ? &e->first : &e->scope->nodes;
    if (!node->name || !node->output || !ls_array_push(e->heap, into, node)) {
        return no_memory(e);
    }
    node->n_output = 1;
    node->output[0] = node->name;
    return node->name;
}

static bool fill_dim(ls_onnx_export *e, ls_dim d, Onnx__TensorShapeProto__Dimension *out) {
    if (ls_dim_is_fixed(d)) {
        out->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        out->dim_value = d.offset;
        return true;
    }
    ls_shape one = {.rank = 1, .dim = {d}};
    char text[LS_SHAPE_TEXT];
    ls_shape_text(&one, text); /* "[2*B+1]" */
    out->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    out->dim_param = ls_arena_printf(&e->arena, "%.*s", (int)strlen(text) - 2, text + 1);
    return out->dim_param != NULL;
}

Onnx__ValueInfoProto *ls_export_info(ls_onnx_export *e, const char *name, ls_dtype dtype,
                                     const ls_shape *shape) {
    Onnx__ValueInfoProto *v = LS_EXPORT_NEW(e, ValueInfoProto, value_info_proto);
    Onnx__TypeProto *type = LS_EXPORT_NEW(e, TypeProto, type_proto);
    Onnx__TypeProto__Tensor *tensor = LS_EXPORT_NEW(e, TypeProto__Tensor, type_proto__tensor);
    Onnx__TensorShapeProto *s = LS_EXPORT_NEW(e, TensorShapeProto, tensor_shape_proto);
    if (!s || !(s->dim = LS_ARENA_ARRAY(&e->arena, Onnx__TensorShapeProto__Dimension *, shape->rank + 1))) {
        return no_memory(e);
    }
    for (; s->n_dim < (size_t)shape->rank; s->n_dim++) {
        Onnx__TensorShapeProto__Dimension *d =
            LS_EXPORT_NEW(e, TensorShapeProto__Dimension, tensor_shape_proto__dimension);
        if (!d || !fill_dim(e, shape->dim[s->n_dim], d)) {
            return no_memory(e);
        }
        s->dim[s->n_dim] = d;
    }
    tensor->elem_type = ls_onnx_type_of(dtype);
    tensor->shape = s;
    type->value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    type->tensor_type = tensor;
    v->name = (char *)name;
    v->type = type;
    return v;
}

/* ---- initialisers ---- */

static const char *initializer(ls_onnx_export *e, const char *name, ls_dtype dtype, int rank,
                               const int64_t *dims, const void *bytes, size_t size) {
    Onnx__TensorProto *t = LS_EXPORT_NEW(e, TensorProto, tensor_proto);
    name = t ? ls_export_name(e, name ? name : "constant") : NULL;
    if (!name || !(t->dims = ls_arena_copy(&e->arena, dims, sizeof *dims * (size_t)(rank + 1))) ||
        !ls_array_push(e->heap, &e->initializers, t)) {
        return no_memory(e);
    }
    t->name = (char *)name;
    t->data_type = ls_onnx_type_of(dtype);
    t->n_dims = (size_t)rank;
    t->raw_data = (ProtobufCBinaryData){size, (uint8_t *)bytes};
    return name;
}

const char *ls_export_list(ls_onnx_export *e, int count, const int64_t *values) {
    const int64_t dims[2] = {count};
    int64_t *own = LS_ARENA_ARRAY(&e->arena, int64_t, count + 1);
    if (!own) {
        return no_memory(e);
    }
    memcpy(own, values, sizeof *own * (size_t)count);
    return initializer(e, NULL, LS_I64, 1, dims, own, sizeof *own * (size_t)count);
}

const char *ls_export_scalar(ls_onnx_export *e, ls_dtype dtype, uint64_t bits) {
    const int64_t none[1] = {0};
    uint64_t *own = ls_arena_copy(&e->arena, &bits, sizeof bits); /* low bytes first */
    return own ? initializer(e, NULL, dtype, 0, none, own, ls_dtype_size(dtype)) : no_memory(e);
}

const char *ls_export_data(ls_onnx_export *e, const char *name, ls_data *data) {
    int64_t dims[LS_MAX_RANK + 1] = {0};
    if (!ls_array_push(e->heap, &e->held, data)) {
        ls_data_release(data);
        return no_memory(e);
    }
    memcpy(dims, ls_data_dims(data), sizeof *dims * (size_t)ls_data_rank(data));
    return initializer(e, name, ls_data_dtype(data), ls_data_rank(data), dims, ls_data_bytes(data),
                       ls_data_size(data));
}

/* ---- extents ---- */

/* The value of a symbol, int64 [1], from the shape of an input that has it. */
static const char *symbol_value(ls_onnx_export *e, const ls_symbol *symbol) {
    for (size_t i = 0; i < e->symbols.len; i++) {
        if ((const void *)e->symbols.data[i].tensor == (const void *)symbol) {
            return e->symbols.data[i].name;
        }
    }
    int best = -1, axis = 0;
    for (int i = 0; i < e->n_inputs; i++) {
        const ls_shape *shape = &e->inputs[i].tensor->shape;
        for (int k = 0; k < shape->rank; k++) {
            bool plain = shape->dim[k].scale == 1 && shape->dim[k].offset == 0;
            if (shape->dim[k].symbol == symbol && (best < 0 || plain)) {
                best = i;
                axis = k;
            }
        }
    }
    if (best < 0) {
        LS_FAIL(e->err, LS_ERR_UNSUPPORTED,
                "%s: symbol \"%s\": expected an input with an extent that it determines", e->path,
                symbol->name);
        return NULL;
    }
    ls_dim d = e->inputs[best].tensor->shape.dim[axis];
    e->into_first = true;
    Onnx__NodeProto *shape = ls_export_op(e, "Shape", 1, e->inputs[best].name);
    ls_export_int(e, shape, "start", axis);
    ls_export_int(e, shape, "end", axis + 1);
    const char *v = ls_export_result(e, shape);
    if (d.offset) {
        v = ls_export_result(e, ls_export_op(e, "Sub", 2, v, ls_export_list(e, 1, &d.offset)));
    }
    if (d.scale != 1) {
        v = ls_export_result(e, ls_export_op(e, "Div", 2, v, ls_export_list(e, 1, &d.scale)));
    }
    e->into_first = false;
    ls_onnx_named named = {(const ls_tensor *)(const void *)symbol, v};
    return v && !ls_array_push(e->heap, &e->symbols, named) ? no_memory(e) : v;
}

const char *ls_export_dim(ls_onnx_export *e, ls_dim d) {
    if (ls_dim_is_fixed(d)) {
        return ls_export_list(e, 1, &d.offset);
    }
    const char *v = symbol_value(e, d.symbol);
    if (d.scale != 1) {
        v = ls_export_result(e, ls_export_op(e, "Mul", 2, v, ls_export_list(e, 1, &d.scale)));
    }
    if (d.offset) {
        v = ls_export_result(e, ls_export_op(e, "Add", 2, v, ls_export_list(e, 1, &d.offset)));
    }
    return v;
}

const char *ls_export_shape(ls_onnx_export *e, const ls_shape *shape) {
    const char *parts[LS_MAX_RANK];
    int64_t run[LS_MAX_RANK];
    int n = 0, length = 0;
    for (int i = 0; i < shape->rank; i++) { /* fixed extents that are neighbours are one list */
        bool fixed = ls_dim_is_fixed(shape->dim[i]);
        if (fixed) {
            run[length++] = shape->dim[i].offset;
        }
        if (length && (!fixed || i == shape->rank - 1)) {
            parts[n++] = ls_export_list(e, length, run);
            length = 0;
        }
        if (!fixed) {
            parts[n++] = ls_export_dim(e, shape->dim[i]);
        }
    }
    if (n < 2) {
        return n ? parts[0] : ls_export_list(e, 0, run);
    }
    Onnx__NodeProto *concat = ls_export_op_list(e, "Concat", n, parts);
    ls_export_int(e, concat, "axis", 0);
    return ls_export_result(e, concat);
}

/* ---- pieces ---- */

const char *ls_export_cast(ls_onnx_export *e, const char *x, ls_dtype from, ls_dtype to) {
    if (from == to) {
        return x;
    }
    Onnx__NodeProto *cast = ls_export_op(e, "Cast", 1, x);
    ls_export_int(e, cast, "to", ls_onnx_type_of(to));
    return ls_export_result(e, cast);
}

const char *ls_export_transpose(ls_onnx_export *e, const char *x, int rank, const int *axes) {
    int64_t wide[LS_MAX_RANK];
    bool same = true;
    for (int i = 0; i < rank; i++) {
        wide[i] = axes[i];
        same &= axes[i] == i;
    }
    if (same) {
        return x;
    }
    Onnx__NodeProto *transpose = ls_export_op(e, "Transpose", 1, x);
    ls_export_ints(e, transpose, "perm", rank, wide);
    return ls_export_result(e, transpose);
}

Onnx__NodeProto *ls_export_reshape(ls_onnx_export *e, const char *x, const ls_shape *to) {
    ls_shape shape = *to;
    int open = -1, symbol = -1;
    bool empty = false;
    for (int i = 0; i < shape.rank; i++) {
        bool fixed = ls_dim_is_fixed(shape.dim[i]);
        open = fixed && shape.dim[i].offset == -1 ? i : open;
        symbol = fixed || symbol >= 0 ? symbol : i;
        empty |= fixed && shape.dim[i].offset == 0;
    }
    if (open < 0 && symbol >= 0 && !empty) {
        shape.dim[symbol] = ls_dim_fixed(-1);
    }
    Onnx__NodeProto *reshape = ls_export_op(e, "Reshape", 2, x, ls_export_shape(e, &shape));
    if (empty) {
        ls_export_int(e, reshape, "allowzero", 1);
    }
    return reshape;
}
