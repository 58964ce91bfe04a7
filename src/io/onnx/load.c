/* Loading: a file is mapped, looked at (wire.c), taken apart by protobuf-c into the model's arena, and checked (check.c). */
#include "io/onnx/load.h"
#include "io/onnx/onnx.h"
#include <string.h>

/* ---- names ---- */

bool ls_onnx_same_name(const void *x, const void *y) {
    return strcmp(x, y) == 0;
}
uint64_t ls_onnx_hash_name(const char *name) {
    return ls_hash(name, strlen(name), 0);
}

typedef struct function_key {
    const char *domain, *name, *overload;
} function_key;
static bool same_function(const void *x, const void *y) {
    const function_key *a = x, *b = y;
    return strcmp(a->name, b->name) == 0 && strcmp(a->domain, b->domain) == 0 &&
           strcmp(a->overload, b->overload) == 0;
}
static uint64_t function_hash(const function_key *key) {
    return ls_hash(key->overload, strlen(key->overload),
                   ls_hash(key->domain, strlen(key->domain), ls_onnx_hash_name(key->name)));
}

const char *ls_onnx_domain(const char *domain) {
    return strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

const Onnx__TensorProto *ls_model_initializer(const ls_model *model, const char *name) {
    return ls_map_get(&model->initializers, ls_onnx_hash_name(name), name);
}
const Onnx__SparseTensorProto *ls_model_sparse_initializer(const ls_model *model, const char *name) {
    return ls_map_get(&model->sparse, ls_onnx_hash_name(name), name);
}
const Onnx__FunctionProto *ls_model_function(const ls_model *model, const char *domain, const char *name,
                                             const char *overload) {
    function_key key = {ls_onnx_domain(domain), name, overload};
    return ls_map_get(&model->functions, function_hash(&key), &key);
}
int ls_model_opset(const ls_model *model, const char *domain) {
    domain = ls_onnx_domain(domain);
    const Onnx__OperatorSetIdProto *set = ls_map_get(&model->imports, ls_onnx_hash_name(domain), domain);
    return set ? (int)set->version : 0;
}
int ls_onnx_opset(size_t n, Onnx__OperatorSetIdProto *const *imports, const char *domain) {
    domain = ls_onnx_domain(domain);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(ls_onnx_domain(imports[i]->domain), domain) == 0) {
            return (int)imports[i]->version;
        }
    }
    return 0;
}

/* Adds a name that must be new. */
static ls_status add_name(ls_model *m, ls_map *map, const char *what, const char *name, void *value,
                          ls_error *err) {
    uint64_t hash = ls_onnx_hash_name(name);
    if (ls_map_get(map, hash, name)) {
        return LS_FAIL(err, LS_ERR_FORMAT, "%s: %s \"%s\" is there twice", m->name, what, name);
    }
    return ls_map_put(map, hash, name, value) ? LS_OK : LS_FAIL_MEMORY(err, m->name);
}

static ls_status add_function(ls_model *m, Onnx__FunctionProto *f, ls_error *err) {
    function_key *key = LS_ARENA_NEW(&m->arena, function_key);
    if (!key) {
        return LS_FAIL_MEMORY(err, m->name);
    }
    *key = (function_key){ls_onnx_domain(f->domain), f->name, f->overload};
    uint64_t hash = function_hash(key);
    if (ls_map_get(&m->functions, hash, key)) {
        return LS_FAIL(err, LS_ERR_FORMAT, "%s: function \"%s\" of domain \"%s\" is there twice", m->name,
                       f->name, f->domain);
    }
    return ls_map_put(&m->functions, hash, key, f) ? LS_OK : LS_FAIL_MEMORY(err, m->name);
}

static ls_status index_names(ls_model *m, ls_error *err) {
    const Onnx__ModelProto *p = m->proto;
    const Onnx__GraphProto *g = p->graph;
    if (!g) {
        return LS_FAIL(err, LS_ERR_FORMAT, "%s: expected an ONNX model: it has no graph", m->name);
    }
    for (size_t i = 0; i < p->n_opset_import; i++) {
        LS_TRY(err, add_name(m, &m->imports, "the operator set", ls_onnx_domain(p->opset_import[i]->domain),
                             p->opset_import[i], err));
    }
    for (size_t i = 0; i < p->n_functions; i++) {
        LS_TRY(err, add_function(m, p->functions[i], err));
    }
    for (size_t i = 0; i < g->n_initializer; i++) {
        LS_TRY(err,
               add_name(m, &m->initializers, "initializer", g->initializer[i]->name, g->initializer[i], err));
    }
    for (size_t i = 0; i < g->n_sparse_initializer; i++) {
        Onnx__TensorProto *values = g->sparse_initializer[i]->values;
        if (!values) {
            return LS_FAIL(err, LS_ERR_FORMAT, "%s: sparse initializer %zu has no values", m->name, i);
        }
        if (ls_model_initializer(m, values->name)) {
            return LS_FAIL(err, LS_ERR_FORMAT, "%s: initializer \"%s\" is there twice", m->name,
                           values->name);
        }
        LS_TRY(err, add_name(m, &m->sparse, "initializer", values->name, g->sparse_initializer[i], err));
    }
    return LS_OK;
}

/* ---- files ---- */

typedef struct unpacking {
    ls_arena *arena;
    bool failed; /* out of memory: protobuf-c does not tell that from a damaged message */
} unpacking;

static void *unpack_alloc(void *user, size_t size) {
    unpacking *u = user;
    void *block = ls_arena_alloc_unset(u->arena, size); /* of all weights: one pass over them less */
    u->failed |= !block;
    return block;
}
static void unpack_free(void *user, void *block) { /* all at once, by the arena */
    (void)user;
    (void)block;
}

static ls_status take_apart(ls_model *m, const ProtobufCMessageDescriptor *type, const ls_mapping *map,
                            ls_error *err) {
    static const uint8_t nothing;
    unpacking u = {&m->arena, false};
    ProtobufCAllocator allocator = {unpack_alloc, unpack_free, &u};
    LS_TRY(err, ls_onnx_scan(m->name, type, map->data, map->size, err));
    m->message = protobuf_c_message_unpack(type, &allocator, map->size, map->size ? map->data : &nothing);
    if (!m->message) {
        return u.failed ? LS_FAIL_MEMORY(err, m->name)
                        : LS_FAIL(err, LS_ERR_FORMAT, "%s: it is no %s of the ONNX format", m->name,
                                  type->short_name);
    }
    m->proto = type == &onnx__model_proto__descriptor ? (const Onnx__ModelProto *)m->message : NULL;
    return LS_OK;
}

static ls_status open_file(ls_model *m, const char *path, ls_data *file,
                           const ProtobufCMessageDescriptor *type, ls_error *err) {
    m->name = ls_arena_printf(&m->arena, "%s", path);
    if (!m->name) {
        return LS_FAIL_MEMORY(err, path);
    }
    if (file) {
        if (ls_data_dtype(file) != LS_U8 || ls_data_rank(file) != 1) {
            return LS_FAIL(err, LS_ERR_INVALID, "%s: expected the bytes of a file: a u8 array of one axis",
                           path);
        }
        return take_apart(m, type, &(ls_mapping){ls_data_bytes(file), ls_data_size(file)}, err);
    }
    const char *slash = strrchr(path, '/');
    m->folder = ls_arena_printf(&m->arena, "%.*s", slash ? (int)(slash + 1 - path) : 0, path);
    if (!m->folder) {
        return LS_FAIL_MEMORY(err, path);
    }
    ls_mapping map;
    LS_TRY(err, ls_file_map(path, &map, err));
    ls_status status = take_apart(m, type, &map, err);
    ls_file_unmap(&map);
    return status;
}

ls_status ls_onnx_open(ls_context *context, const char *path, ls_data *file,
                       const ProtobufCMessageDescriptor *type, ls_model **out_model, ls_error *err) {
    ls_heap *heap = ls_context_heap(context);
    ls_model *m = ls_alloc_zeroed(heap, sizeof *m);
    if (!m) {
        return LS_FAIL_MEMORY(err, path);
    }
    m->context = context;
    m->heap = heap;
    atomic_init(&m->refs, 1);
    ls_arena_init(&m->arena, heap);
    ls_map_init(&m->initializers, heap, ls_onnx_same_name);
    ls_map_init(&m->sparse, heap, ls_onnx_same_name);
    ls_map_init(&m->functions, heap, same_function);
    ls_map_init(&m->imports, heap, ls_onnx_same_name);
    ls_status status = open_file(m, path, file, type, err);
    if (status != LS_OK) {
        ls_model_release(m);
        return LS_FORWARD(err, status);
    }
    *out_model = m;
    return LS_OK;
}

static ls_status load(ls_context *context, const char *path, ls_data *file, ls_model **out_model,
                      ls_error *err) {
    ls_model *m = NULL;
    LS_TRY(err, ls_onnx_open(context, path, file, &onnx__model_proto__descriptor, &m, err));
    m->mutex = ls_mutex_create(m->heap);
    ls_status status = m->mutex ? index_names(m, err) : LS_FAIL_MEMORY(err, m->name);
    status = status == LS_OK ? ls_onnx_check(m, err) : status;
    if (status != LS_OK) {
        ls_model_release(m);
        return LS_FORWARD(err, status);
    }
    *out_model = m;
    return LS_OK;
}

ls_status ls_model_load(ls_context *context, const char *path, ls_model **out_model, ls_error *err) {
    return load(context, path, NULL, out_model, err);
}
ls_status ls_model_load_data(ls_context *context, const char *name, ls_data *file, ls_model **out_model,
                             ls_error *err) {
    return load(context, name, file, out_model, err);
}

ls_model *ls_model_retain(ls_model *model) {
    if (model) {
        atomic_fetch_add_explicit(&model->refs, 1, memory_order_relaxed);
    }
    return model;
}

void ls_model_release(ls_model *m) {
    if (m && atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) == 1) {
        for (ls_onnx_file *f = m->files; f; f = f->next) {
            ls_mapped_file_release(f->file);
        }
        ls_map_free(&m->initializers);
        ls_map_free(&m->sparse);
        ls_map_free(&m->functions);
        ls_map_free(&m->imports);
        ls_mutex_destroy(m->heap, m->mutex);
        ls_arena_free(&m->arena);
        ls_free(m->heap, m);
    }
}

ls_status ls_onnx_data_load(ls_context *context, const char *path, ls_data **out_data, ls_error *err) {
    ls_model *m = NULL;
    int type;
    LS_TRY(err, ls_onnx_open(context, path, NULL, &onnx__tensor_proto__descriptor, &m, err));
    const Onnx__TensorProto *t = (const Onnx__TensorProto *)m->message;
    ls_status status = ls_onnx_tensor_check(m, t, NULL, err);
    status = status == LS_OK ? ls_onnx_tensor_data(m, t, NULL, out_data, &type, err) : status;
    ls_model_release(m); /* the array keeps what it needs of it */
    return status == LS_OK ? LS_OK : LS_FORWARD(err, status);
}

/* ---- inputs and outputs ---- */

static void describe(ls_model_port *port, int type, const Onnx__TensorShapeProto *shape) {
    port->type = ls_onnx_type_name(type);
    port->dtype = ls_onnx_carrier(type);
    if (!shape || shape->n_dim > LS_MAX_RANK) {
        return;
    }
    port->rank = (int)shape->n_dim;
    for (int i = 0; i < port->rank; i++) {
        const Onnx__TensorShapeProto__Dimension *dim = shape->dim[i];
        bool named =
            dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && dim->dim_param[0];
        bool fixed =
            dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE && dim->dim_value >= 0;
        port->dims[i] = fixed ? dim->dim_value : -1;
        port->dim_names[i] = named ? dim->dim_param : NULL;
    }
}

static ls_model_port port_of(const Onnx__ValueInfoProto *v) {
    const Onnx__TypeProto *type = v->type;
    ls_model_port port = {.name = v->name, .type = "undefined", .dtype = LS_DTYPE_COUNT, .rank = -1};
    switch (type ? type->value_case : ONNX__TYPE_PROTO__VALUE__NOT_SET) {
    case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE:
        describe(&port, type->tensor_type->elem_type, type->tensor_type->shape);
        break;
    case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE:
        port.type = "sparse_tensor";
        break;
    case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE:
        port.type = "sequence";
        break;
    case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE:
        port.type = "optional";
        break;
    case ONNX__TYPE_PROTO__VALUE_MAP_TYPE:
        port.type = "map";
        break;
    default:
        break;
    }
    return port;
}

int ls_model_input_count(const ls_model *model) {
    return (int)model->proto->graph->n_input;
}
int ls_model_output_count(const ls_model *model) {
    return (int)model->proto->graph->n_output;
}
ls_model_port ls_model_input(const ls_model *model, int index) {
    if (index < 0 || index >= ls_model_input_count(model)) {
        return (ls_model_port){.dtype = LS_DTYPE_COUNT, .rank = -1};
    }
    ls_model_port port = port_of(model->proto->graph->input[index]);
    port.has_default =
        ls_model_initializer(model, port.name) || ls_model_sparse_initializer(model, port.name);
    return port;
}
ls_model_port ls_model_output(const ls_model *model, int index) {
    if (index < 0 || index >= ls_model_output_count(model)) {
        return (ls_model_port){.dtype = LS_DTYPE_COUNT, .rank = -1};
    }
    return port_of(model->proto->graph->output[index]);
}
