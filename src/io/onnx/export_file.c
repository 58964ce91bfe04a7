/* The bytes of a model that was written, to a file or to memory. The initialisers' own bytes go straight from the arrays that hold
 * them; where they are too many for one message, all but small ones go to a second file, which is there before the first. */
#include "base/os.h"
#include "io/onnx/export.h"
#include <inttypes.h>
#include <string.h>

enum { APART_LEAST = 1024, APART_ALIGN = 4096 }; /* of an initialiser in the second file */

static const char zeros[APART_ALIGN];

typedef struct sink {
    ProtobufCBuffer base;
    ls_file_writer *writer;
    ls_status status;
    ls_error *err;
} sink;

static void append(ProtobufCBuffer *buffer, size_t size, const uint8_t *bytes) {
    sink *s = (sink *)(void *)buffer;
    if (s->status == LS_OK) {
        s->status = ls_file_write(s->writer, bytes, size, s->err);
    }
}

/* A message's lengths are written in 32 bits, and readers take no more than 31. */
static ls_status check_size(ls_onnx_export *e, const Onnx__ModelProto *model, size_t *out_size) {
    size_t size = sizeof zeros;
    for (size_t i = 0; i < e->initializers.len; i++) {
        size += e->initializers.data[i]->raw_data.len;
    }
    size = size < INT32_MAX ? protobuf_c_message_get_packed_size(&model->base) : size;
    *out_size = size;
    return size <= INT32_MAX ? LS_OK
                             : LS_FAIL(e->err, LS_ERR_UNSUPPORTED,
                                       "%s: %zu bytes: expected at most 2 GB in one message", e->path, size);
}

ls_status ls_export_encode(ls_onnx_export *e, const Onnx__ModelProto *model, ls_data **out_file) {
    ls_data *file = NULL;
    size_t size;
    LS_TRY(e->err, check_size(e, model, &size));
    LS_TRY(e->err, ls_data_create(ls_session_context(e->s), LS_U8, 1, (const int64_t[]){(int64_t)size}, NULL,
                                  &file, e->err));
    protobuf_c_message_pack(&model->base, (uint8_t *)ls_data_bytes(file)); /* nobody else has it yet */
    *out_file = file;
    return LS_OK;
}

static ls_status entry(ls_onnx_export *e, Onnx__TensorProto *t, const char *key, const char *value) {
    Onnx__StringStringEntryProto *pair = LS_EXPORT_NEW(e, StringStringEntryProto, string_string_entry_proto);
    if (!pair || !value) {
        return LS_FAIL(e->err, LS_ERR_MEMORY, "%s: out of memory", e->path);
    }
    pair->key = (char *)key;
    pair->value = (char *)value;
    t->external_data[t->n_external_data++] = pair;
    return LS_OK;
}

static ls_status write_apart(ls_onnx_export *e, ls_file_writer *writer, const char *location) {
    size_t at = 0;
    for (size_t i = 0; i < e->initializers.len; i++) {
        Onnx__TensorProto *t = e->initializers.data[i];
        size_t size = t->raw_data.len, gap = (APART_ALIGN - at % APART_ALIGN) % APART_ALIGN;
        if (size < APART_LEAST) {
            continue;
        }
        LS_TRY(e->err, ls_file_write(writer, zeros, gap, e->err));
        LS_TRY(e->err, ls_file_write(writer, t->raw_data.data, size, e->err));
        at += gap;
        t->external_data = LS_ARENA_ARRAY(&e->arena, Onnx__StringStringEntryProto *, 3);
        if (!t->external_data) {
            return LS_FAIL(e->err, LS_ERR_MEMORY, "%s: out of memory", e->path);
        }
        LS_TRY(e->err, entry(e, t, "location", location));
        LS_TRY(e->err, entry(e, t, "offset", ls_arena_printf(&e->arena, "%zu", at)));
        LS_TRY(e->err, entry(e, t, "length", ls_arena_printf(&e->arena, "%zu", size)));
        t->data_location = 1;
        t->raw_data = (ProtobufCBinaryData){0, NULL};
        at += size;
    }
    return LS_OK;
}

static ls_status save_apart(ls_onnx_export *e) {
    const char *path = ls_arena_printf(&e->arena, "%s.data", e->path), *slash = strrchr(e->path, '/');
    ls_file_writer *writer;
    if (!path) {
        return LS_FAIL(e->err, LS_ERR_MEMORY, "%s: out of memory", e->path);
    }
    LS_TRY(e->err, ls_file_create(e->heap, path, &writer, e->err));
    ls_status status = write_apart(e, writer, slash ? path + (slash + 1 - e->path) : path);
    if (status == LS_OK) {
        return ls_file_commit(writer, e->err);
    }
    ls_file_abandon(writer);
    return status;
}

ls_status ls_export_save(ls_onnx_export *e, Onnx__ModelProto *model, size_t most) {
    size_t size = 0;
    for (size_t i = 0; i < e->initializers.len; i++) {
        size += e->initializers.data[i]->raw_data.len;
    }
    if (size > most) {
        LS_TRY(e->err, save_apart(e));
    }
    LS_TRY(e->err, check_size(e, model, &size));
    sink s = {.base = {append}, .status = LS_OK, .err = e->err};
    LS_TRY(e->err, ls_file_create(e->heap, e->path, &s.writer, e->err));
    protobuf_c_message_pack_to_buffer(&model->base, &s.base);
    if (s.status == LS_OK) {
        return ls_file_commit(s.writer, e->err);
    }
    ls_file_abandon(s.writer);
    return s.status;
}
