/* The values of test cases from their files. */
#include "io/onnx/case.h"
#include "io/onnx/load.h"
#include <string.h>

enum { DEEPEST = 16 };

/* A file that is being read. */
typedef struct source {
    ls_case_values *values;
    ls_model *file;
    const char *path;
    ls_error *err;
} source;

void ls_case_values_init(ls_case_values *values, ls_context *context) {
    *values = (ls_case_values){.context = context};
    ls_arena_init(&values->arena, ls_context_heap(context));
}

void ls_case_values_free(ls_case_values *values) {
    for (size_t i = 0; i < values->data.len; i++) {
        ls_data_release(values->data.data[i]);
    }
    ls_array_free(values->arena.heap, &values->data);
    ls_arena_free(&values->arena);
}

static ls_status new_value(ls_case_values *values, ls_onnx_kind kind, int type, ls_onnx_value **out_value,
                           ls_error *err) {
    *out_value = LS_ARENA_NEW(&values->arena, ls_onnx_value);
    if (!*out_value) {
        return LS_FAIL_MEMORY(err, "a value of a test case");
    }
    (*out_value)->kind = kind;
    (*out_value)->type = type;
    (*out_value)->known = true;
    return LS_OK;
}

ls_status ls_case_wrap(ls_case_values *values, ls_data *data, int type, ls_onnx_value **out_value,
                       ls_error *err) {
    LS_TRY(err, new_value(values, ONNX_TENSOR, type, out_value, err));
    if (!ls_array_push(values->arena.heap, &values->data, data)) {
        return LS_FAIL_MEMORY(err, "the arrays of a test case");
    }
    (*out_value)->data = ls_data_retain(data);
    return LS_OK;
}

static ls_status read_strings(source *s, const Onnx__TensorProto *t, ls_onnx_value **out_value) {
    int64_t count;
    LS_TRY(s->err, new_value(s->values, ONNX_STRINGS, ONNX_STRING, out_value, s->err));
    ls_onnx_value *v = *out_value;
    LS_TRY(s->err,
           ls_onnx_tensor_strings(s->file, t, s->path, &s->values->arena, &v->strings, &count, s->err));
    v->rank = (int)t->n_dims;
    if (t->n_dims > LS_MAX_RANK) {
        return LS_FAIL(s->err, LS_ERR_UNSUPPORTED, "%s: strings of rank %zu; at most %d", s->path, t->n_dims,
                       LS_MAX_RANK);
    }
    if (v->rank) {
        memcpy(v->dims, t->dims, sizeof *v->dims * (size_t)v->rank);
    }
    return LS_OK;
}

static ls_status read_tensor(source *s, const Onnx__TensorProto *t, ls_onnx_value **out_value) {
    ls_data *data = NULL;
    int type = 0;
    if (t->data_type == ONNX_STRING) {
        return read_strings(s, t, out_value);
    }
    LS_TRY(s->err, ls_onnx_tensor_data(s->file, t, s->path, &data, &type, s->err));
    ls_status status = ls_case_wrap(s->values, data, type, out_value, s->err);
    ls_data_release(data);
    return status;
}

static ls_status read_sequence(source *s, const Onnx__SequenceProto *p, int depth, ls_onnx_value **out_value);

static ls_status read_optional(source *s, const Onnx__OptionalProto *p, int depth,
                               ls_onnx_value **out_value) {
    ls_onnx_value *item = NULL;
    if (depth > DEEPEST) {
        return LS_FAIL(s->err, LS_ERR_UNSUPPORTED, "%s: values nested more than %d deep", s->path, DEEPEST);
    }
    if (p->sparse_tensor_value || p->map_value) {
        return LS_FAIL(s->err, LS_ERR_UNSUPPORTED, "%s: an optional of maps or sparse tensors", s->path);
    }
    if (p->tensor_value) {
        LS_TRY(s->err, read_tensor(s, p->tensor_value, &item));
    } else if (p->sequence_value) {
        LS_TRY(s->err, read_sequence(s, p->sequence_value, depth + 1, &item));
    } else if (p->optional_value) {
        LS_TRY(s->err, read_optional(s, p->optional_value, depth + 1, &item));
    }
    LS_TRY(s->err, new_value(s->values, ONNX_OPTIONAL, item ? item->type : 0, out_value, s->err));
    (*out_value)->items = LS_ARENA_ARRAY(&s->values->arena, ls_onnx_value *, 1);
    if (!(*out_value)->items) {
        return LS_FAIL_MEMORY(s->err, "an optional of a test case");
    }
    (*out_value)->count = item != NULL;
    (*out_value)->items[0] = item;
    return LS_OK;
}

static ls_status read_sequence(source *s, const Onnx__SequenceProto *p, int depth,
                               ls_onnx_value **out_value) {
    if (depth > DEEPEST) {
        return LS_FAIL(s->err, LS_ERR_UNSUPPORTED, "%s: values nested more than %d deep", s->path, DEEPEST);
    }
    if (p->n_sparse_tensor_values || p->n_map_values) {
        return LS_FAIL(s->err, LS_ERR_UNSUPPORTED, "%s: a sequence of maps or sparse tensors", s->path);
    }
    size_t n = p->n_tensor_values     ? p->n_tensor_values
               : p->n_sequence_values ? p->n_sequence_values
                                      : p->n_optional_values;
    LS_TRY(s->err, new_value(s->values, ONNX_SEQUENCE, 0, out_value, s->err));
    ls_onnx_value *v = *out_value;
    v->items = LS_ARENA_ARRAY(&s->values->arena, ls_onnx_value *, n ? n : 1);
    if (!v->items) {
        return LS_FAIL_MEMORY(s->err, "a sequence of a test case");
    }
    for (size_t i = 0; i < n; i++) {
        if (p->n_tensor_values) {
            LS_TRY(s->err, read_tensor(s, p->tensor_values[i], &v->items[i]));
        } else if (p->n_sequence_values) {
            LS_TRY(s->err, read_sequence(s, p->sequence_values[i], depth + 1, &v->items[i]));
        } else {
            LS_TRY(s->err, read_optional(s, p->optional_values[i], depth + 1, &v->items[i]));
        }
        v->type = v->items[i]->type;
        v->count++;
    }
    return LS_OK;
}

ls_status ls_case_read(ls_case_values *values, const char *path, const ls_model_port *port,
                       ls_onnx_value **out_value, ls_error *err) {
    bool sequence = strcmp(port->type, "sequence") == 0, optional = strcmp(port->type, "optional") == 0;
    const ProtobufCMessageDescriptor *type = sequence   ? &onnx__sequence_proto__descriptor
                                             : optional ? &onnx__optional_proto__descriptor
                                                        : &onnx__tensor_proto__descriptor;
    source s = {.values = values, .path = path, .err = err};
    *out_value = NULL;
    LS_TRY(err, ls_onnx_open(values->context, path, NULL, type, &s.file, err));
    ls_status status =
        sequence   ? read_sequence(&s, (const Onnx__SequenceProto *)s.file->message, 0, out_value)
        : optional ? read_optional(&s, (const Onnx__OptionalProto *)s.file->message, 0, out_value)
                   : read_tensor(&s, (const Onnx__TensorProto *)s.file->message, out_value);
    ls_model_release(s.file);
    return status;
}
