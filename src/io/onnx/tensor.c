/* The numbers of the format's tensors. A tensor keeps them in one of three places: the field that its type has, packed raw bytes, or a file
 * beside the model; `find` says where, and that there are as many as the shape asks for. Only numbers that are not stored as their carrier
 * is (fields wider than the type, several elements in a byte, bytes that are not aligned) are copied. */
#include "io/onnx/load.h"
#include "io/onnx/onnx.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef enum field { RAW, FLOATS, INT32S, INT64S, DOUBLES, UINT64S, TEXTS, N_FIELDS } field;

static const struct {
    const char *name;
    uint8_t bits;    /* of an element in raw data; 0: none */
    uint8_t carrier; /* ls_dtype */
    uint8_t field;
    uint8_t parts;       /* entries of the field for one element */
    int32_t least, most; /* in int32_data, what an entry may be */
} types[ONNX_TYPES] = {
    [ONNX_UNDEFINED] = {"undefined", 0, LS_DTYPE_COUNT, RAW, 1, 0, 0},
    [ONNX_FLOAT] = {"float", 32, LS_F32, FLOATS, 1, 0, 0},
    [ONNX_UINT8] = {"uint8", 8, LS_U8, INT32S, 1, 0, UINT8_MAX},
    [ONNX_INT8] = {"int8", 8, LS_I8, INT32S, 1, INT8_MIN, INT8_MAX},
    [ONNX_UINT16] = {"uint16", 16, LS_U16, INT32S, 1, 0, UINT16_MAX},
    [ONNX_INT16] = {"int16", 16, LS_I16, INT32S, 1, INT16_MIN, INT16_MAX},
    [ONNX_INT32] = {"int32", 32, LS_I32, INT32S, 1, INT32_MIN, INT32_MAX},
    [ONNX_INT64] = {"int64", 64, LS_I64, INT64S, 1, 0, 0},
    [ONNX_STRING] = {"string", 0, LS_DTYPE_COUNT, TEXTS, 1, 0, 0},
    [ONNX_BOOL] = {"bool", 8, LS_BOOL, INT32S, 1, 0, 1},
    [ONNX_FLOAT16] = {"float16", 16, LS_F16, INT32S, 1, INT16_MIN, UINT16_MAX},
    [ONNX_DOUBLE] = {"double", 64, LS_F64, DOUBLES, 1, 0, 0},
    [ONNX_UINT32] = {"uint32", 32, LS_U32, UINT64S, 1, 0, 0},
    [ONNX_UINT64] = {"uint64", 64, LS_U64, UINT64S, 1, 0, 0},
    [ONNX_COMPLEX64] = {"complex64", 64, LS_DTYPE_COUNT, FLOATS, 2, 0, 0},
    [ONNX_COMPLEX128] = {"complex128", 128, LS_DTYPE_COUNT, DOUBLES, 2, 0, 0},
    [ONNX_BFLOAT16] = {"bfloat16", 16, LS_BF16, INT32S, 1, INT16_MIN, UINT16_MAX},
    [ONNX_FLOAT8E4M3FN] = {"float8e4m3fn", 8, LS_U8, INT32S, 1, INT8_MIN, UINT8_MAX},
    [ONNX_FLOAT8E4M3FNUZ] = {"float8e4m3fnuz", 8, LS_U8, INT32S, 1, INT8_MIN, UINT8_MAX},
    [ONNX_FLOAT8E5M2] = {"float8e5m2", 8, LS_U8, INT32S, 1, INT8_MIN, UINT8_MAX},
    [ONNX_FLOAT8E5M2FNUZ] = {"float8e5m2fnuz", 8, LS_U8, INT32S, 1, INT8_MIN, UINT8_MAX},
    [ONNX_UINT4] = {"uint4", 4, LS_U8, INT32S, 1, INT8_MIN, UINT8_MAX}, /* an entry is a packed byte */
    [ONNX_INT4] = {"int4", 4, LS_I8, INT32S, 1, INT8_MIN, UINT8_MAX},
    [ONNX_FLOAT4E2M1] = {"float4e2m1", 4, LS_U8, INT32S, 1, INT8_MIN, UINT8_MAX},
    [ONNX_FLOAT8E8M0] = {"float8e8m0", 8, LS_U8, INT32S, 1, INT8_MIN, UINT8_MAX},
    [ONNX_UINT2] = {"uint2", 2, LS_U8, INT32S, 1, INT8_MIN, UINT8_MAX},
    [ONNX_INT2] = {"int2", 2, LS_I8, INT32S, 1, INT8_MIN, UINT8_MAX},
};

static bool known(int type) {
    return type > ONNX_UNDEFINED && type < ONNX_TYPES;
}
ls_dtype ls_onnx_carrier(int type) {
    return known(type) ? (ls_dtype)types[type].carrier : LS_DTYPE_COUNT;
}
const char *ls_onnx_type_name(int type) {
    return known(type) ? types[type].name : "undefined";
}
int ls_onnx_type_of(ls_dtype dtype) {
    static const uint8_t own[LS_DTYPE_COUNT] = {
        [LS_BOOL] = ONNX_BOOL,  [LS_U8] = ONNX_UINT8,    [LS_U16] = ONNX_UINT16,    [LS_U32] = ONNX_UINT32,
        [LS_U64] = ONNX_UINT64, [LS_I8] = ONNX_INT8,     [LS_I16] = ONNX_INT16,     [LS_I32] = ONNX_INT32,
        [LS_I64] = ONNX_INT64,  [LS_F16] = ONNX_FLOAT16, [LS_BF16] = ONNX_BFLOAT16, [LS_F32] = ONNX_FLOAT,
        [LS_F64] = ONNX_DOUBLE};
    return dtype >= 0 && dtype < LS_DTYPE_COUNT ? own[dtype] : ONNX_UNDEFINED;
}

/* ---- where the numbers are ---- */

typedef struct place {
    int type;
    size_t numel;
    field field;
    const uint8_t *bytes; /* of raw data, or the entries of the field */
    const char *what;
} place;

/* FORMAT with the file and the tensor in front. */
#define BAD(...) bad(m, p->what, err, __VA_ARGS__)
static ls_status bad(const ls_model *m, const char *what, ls_error *err, const char *fmt, ...)
    LS_PRINTF(4, 5);
static ls_status bad(const ls_model *m, const char *what, ls_error *err, const char *fmt, ...) {
    char text[LS_MESSAGE_MAX / 2];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return LS_FAIL(err, LS_ERR_FORMAT, "%s: tensor \"%.200s\": %s", m->name, what, text);
}

static bool decimal(const char *text, uint64_t *out) {
    *out = 0;
    for (const char *c = text; *c; c++) {
        if (*c < '0' || *c > '9' || __builtin_mul_overflow(*out, (uint64_t)10, out) ||
            __builtin_add_overflow(*out, (uint64_t)(*c - '0'), out)) {
            return false;
        }
    }
    return text[0] != '\0';
}

/* A path that stays inside its folder: neither absolute, of any system, nor with a "..". */
static bool inside(const char *location) {
    if (!location[0] || location[0] == '/' || strpbrk(location, "\\:")) {
        return false;
    }
    for (const char *part = location; part;) {
        size_t n = strcspn(part, "/");
        if (n == 0 || (n == 2 && memcmp(part, "..", 2) == 0)) {
            return false;
        }
        part = part[n] ? part + n + 1 : NULL;
    }
    return true;
}

static ls_onnx_file *mapped(const ls_model *m, const char *location) {
    ls_onnx_file *f = m->files;
    while (f && strcmp(f->location, location) != 0) {
        f = f->next;
    }
    return f;
}

static ls_status map_beside(ls_model *m, const place *p, const char *location, ls_error *err) {
    if (!inside(location)) {
        return BAD("its numbers are in \"%.200s\": expected a file in the model's folder", location);
    }
    if (!m->folder) {
        return BAD("its numbers are in \"%.200s\", but a model in memory has no files beside it", location);
    }
    ls_onnx_file *f = LS_ARENA_NEW(&m->arena, ls_onnx_file);
    char *path = ls_arena_printf(&m->arena, "%s%s", m->folder, location);
    if (!f || !path) {
        return LS_FAIL_MEMORY(err, m->name);
    }
    f->location = location;
    LS_TRY(err, ls_mapped_file_open(m->heap, path, &f->file, err));
    f->next = m->files;
    m->files = f;
    return LS_OK;
}

/* Numbers in a file beside the model, which a model that is being loaded maps. */
static ls_status find_external(ls_model *m, const Onnx__TensorProto *t, place *p, uint64_t size, bool loading,
                               ls_error *err) {
    const char *location = NULL;
    uint64_t offset = 0, length = 0;
    bool has_length = false;
    for (size_t i = 0; i < t->n_external_data; i++) {
        const char *key = t->external_data[i]->key, *value = t->external_data[i]->value;
        bool ok = true;
        if (strcmp(key, "location") == 0) {
            location = value;
        } else if (strcmp(key, "offset") == 0) {
            ok = decimal(value, &offset);
        } else if (strcmp(key, "length") == 0) {
            ok = has_length = decimal(value, &length);
        }
        if (!ok) {
            return BAD("external %s \"%.60s\": expected a number of bytes", key, value);
        }
    }
    if (!location) {
        return BAD("its numbers are in a file beside the model whose location is missing");
    }
    ls_onnx_file *f = mapped(m, location);
    if (!f) {
        if (!loading) {
            return LS_FAIL(err, LS_ERR_INTERNAL, "%s: \"%s\" was not mapped", m->name, location);
        }
        LS_TRY(err, map_beside(m, p, location, err));
        f = m->files;
    }
    const ls_mapping *map = &f->file->map;
    length = has_length ? length : map->size - (offset < map->size ? offset : map->size);
    if (length != size || offset > map->size || length > map->size - offset) {
        return BAD("%llu bytes from byte %llu of \"%.200s\", which has %zu: its shape asks for %llu",
                   (unsigned long long)length, (unsigned long long)offset, location, map->size,
                   (unsigned long long)size);
    }
    p->field = RAW;
    p->bytes = map->data ? map->data + offset : NULL;
    return LS_OK;
}

static ls_status count_elements(const ls_model *m, const Onnx__TensorProto *t, place *p, ls_error *err) {
    size_t n = 1;
    p->type = t->data_type;
    if (!known(t->data_type)) {
        return BAD("element type %d: expected one of TensorProto.DataType", t->data_type);
    }
    if (t->segment) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "%s: tensor \"%.200s\" is one segment of several", m->name,
                       p->what);
    }
    bool empty = false;
    for (size_t i = 0; i < t->n_dims; i++) {
        empty |= t->dims[i] == 0;
    }
    for (size_t i = 0; i < t->n_dims; i++) {
        size_t extent = t->dims[i] == 0 && empty ? 1 : (size_t)t->dims[i];
        if (t->dims[i] < 0 || !ls_size_mul(n, extent, &n) || n > (size_t)INT64_MAX / 16) {
            return BAD("extent %lld of axis %zu: expected extents from 0 whose product fits",
                       (long long)t->dims[i], i);
        }
    }
    p->numel = empty ? 0 : n;
    return LS_OK;
}

/* Everything about a tensor but the numbers. */
static ls_status find(ls_model *m, const Onnx__TensorProto *t, const char *what, bool loading, place *p,
                      ls_error *err) {
    const struct {
        size_t n;
        const void *entries;
    } fields[N_FIELDS] = {
        [RAW] = {t->raw_data.len, t->raw_data.data},    [FLOATS] = {t->n_float_data, t->float_data},
        [INT32S] = {t->n_int32_data, t->int32_data},    [INT64S] = {t->n_int64_data, t->int64_data},
        [DOUBLES] = {t->n_double_data, t->double_data}, [UINT64S] = {t->n_uint64_data, t->uint64_data},
        [TEXTS] = {t->n_string_data, t->string_data},
    };
    *p = (place){.what = what ? what : t->name};
    LS_TRY(err, count_elements(m, t, p, err));
    unsigned bits = types[p->type].bits;
    field own = (field)types[p->type].field;
    size_t raw_size = bits < 8 ? (p->numel * bits + 7) / 8 : p->numel * (bits / 8);
    int used = 0;
    for (int k = 0; k < N_FIELDS; k++) {
        if (fields[k].n > 0) {
            used++;
            p->field = (field)k;
        }
    }
    if (t->data_location != 0) {
        return t->data_location != 1 || used || own == TEXTS
                   ? BAD("data_location %d: expected 1 with numbers in a file beside the model only",
                         t->data_location)
                   : find_external(m, t, p, raw_size, loading, err);
    }
    if (used == 0) {
        p->field = own == TEXTS ? TEXTS : RAW;
    } else if (used > 1 || (p->field != own && (p->field != RAW || own == TEXTS))) {
        return BAD("numbers in a field that is not for %s, or in two", types[p->type].name);
    }
    size_t want = p->field == RAW             ? raw_size
                  : own == INT32S && bits < 8 ? raw_size
                                              : p->numel * types[p->type].parts;
    if (fields[p->field].n != want) {
        return BAD("%zu %s: its shape asks for %zu", fields[p->field].n,
                   p->field == RAW ? "bytes" : "entries", want);
    }
    p->bytes = fields[p->field].entries;
    return LS_OK;
}

ls_status ls_onnx_tensor_check(ls_model *model, const Onnx__TensorProto *t, const char *what, ls_error *err) {
    place p;
    return find(model, t, what, true, &p, err);
}

/* ---- numbers ---- */

/* Packed elements of 2 or 4 bits, the first in the lowest bits, as one a byte. */
static void spread(int type, size_t n, const uint8_t *packed, size_t stride, uint8_t *out) {
    unsigned bits = types[type].bits, per_byte = 8 / bits, mask = (1u << bits) - 1, sign = 1u << (bits - 1);
    bool is_signed = types[type].carrier == LS_I8;
    for (size_t i = 0; i < n; i++) {
        unsigned v = packed[i / per_byte * stride] >> i % per_byte * bits & mask;
        out[i] = (uint8_t)(is_signed && (v & sign) ? v | ~mask : v);
    }
}

/* Entries of int32_data or uint64_data that are wider than the type. */
static ls_status narrow(const ls_model *m, const place *p, size_t width, uint8_t *out, ls_error *err) {
    bool wide = p->field == UINT64S;
    bool in_bytes = types[p->type].bits < 8;
    size_t per_byte = in_bytes ? 8 / types[p->type].bits : 1, n = (p->numel + per_byte - 1) / per_byte;
    for (size_t i = 0; i < n; i++) {
        uint64_t v;
        bool ok;
        if (wide) {
            v = ((const uint64_t *)(const void *)p->bytes)[i];
            ok = v <= UINT32_MAX;
        } else {
            int32_t entry = ((const int32_t *)(const void *)p->bytes)[i];
            v = (uint64_t)(int64_t)entry;
            ok = entry >= types[p->type].least && entry <= types[p->type].most;
        }
        if (!ok) {
            return BAD("entry %zu is %lld: it is no %s", i, (long long)v, types[p->type].name);
        }
        if (!in_bytes) {
            memcpy(out + i * width, &v, width);
        }
    }
    if (in_bytes) {
        spread(p->type, p->numel, p->bytes, 4, out);
    }
    return LS_OK;
}

static void drop_model(void *model) {
    ls_model_release(model);
}

ls_status ls_onnx_tensor_data(ls_model *m, const Onnx__TensorProto *t, const char *what, ls_data **out_data,
                              int *out_type, ls_error *err) {
    place found, *p = &found;
    LS_TRY(err, find(m, t, what, false, p, err));
    *out_type = p->type;
    ls_dtype carrier = ls_onnx_carrier(p->type);
    int rank = (int)t->n_dims;
    if (p->type == ONNX_STRING) {
        return LS_FAIL(err, LS_ERR_DTYPE, "%s: tensor \"%.200s\" holds strings: expected numbers", m->name,
                       p->what);
    }
    if (carrier == LS_DTYPE_COUNT || t->n_dims > LS_MAX_RANK) {
        return LS_FAIL(
            err, LS_ERR_UNSUPPORTED,
            "%s: tensor \"%.200s\" of %s with %zu axes: expected no complex numbers, and %d axes at most",
            m->name, p->what, types[p->type].name, t->n_dims, LS_MAX_RANK);
    }
    size_t width = ls_dtype_size(carrier);
    bool as_stored = p->field == RAW ? types[p->type].bits >= 8
                     : p->field != INT32S && p->field != UINT64S
                         ? true
                         : p->type == ONNX_INT32 || p->type == ONNX_UINT64;
    if (p->numel == 0) {
        return ls_data_create(m->context, carrier, rank, t->dims, NULL, out_data, err);
    }
    if (as_stored) {
        if (carrier == LS_BOOL) {
            LS_TRY(err, ls_bools_check(m->name, p->what, carrier, p->bytes, p->numel, err));
        }
        if ((uintptr_t)p->bytes % width != 0) {
            return ls_data_create(m->context, carrier, rank, t->dims, p->bytes, out_data, err);
        }
        LS_TRY(err, ls_data_wrap(m->context, carrier, rank, t->dims, p->bytes, drop_model, m, out_data, err));
        ls_model_retain(m);
        return LS_OK;
    }
    ls_data *data = NULL;
    LS_TRY(err, ls_data_create(m->context, carrier, rank, t->dims, NULL, &data, err));
    uint8_t *bytes = (uint8_t *)ls_data_bytes(data); /* nobody else has it yet */
    ls_status status = LS_OK;
    if (p->field == RAW) {
        spread(p->type, p->numel, p->bytes, 1, bytes);
    } else {
        status = narrow(m, p, width, bytes, err);
    }
    if (status != LS_OK) {
        ls_data_release(data);
        return status;
    }
    *out_data = data;
    return LS_OK;
}

ls_status ls_onnx_tensor_strings(ls_model *m, const Onnx__TensorProto *t, const char *what, ls_arena *arena,
                                 const char ***out_strings, int64_t *out_count, ls_error *err) {
    place found, *p = &found;
    LS_TRY(err, find(m, t, what, false, p, err));
    if (p->type != ONNX_STRING) {
        return LS_FAIL(err, LS_ERR_DTYPE, "%s: tensor \"%.200s\" holds %s: expected strings", m->name,
                       p->what, types[p->type].name);
    }
    const char **texts = LS_ARENA_ARRAY(arena, const char *, p->numel);
    for (size_t i = 0; texts && i < p->numel; i++) {
        const ProtobufCBinaryData *s = &t->string_data[i];
        if (s->len && memchr(s->data, 0, s->len)) {
            return BAD("element %zu holds a NUL", i);
        }
        char *text = ls_arena_alloc(arena, s->len + 1); /* zeroed */
        if (!text) {
            return LS_FAIL_MEMORY(err, m->name);
        }
        if (s->len) {
            memcpy(text, s->data, s->len);
        }
        texts[i] = text;
    }
    if (!texts) {
        return LS_FAIL_MEMORY(err, m->name);
    }
    *out_strings = texts;
    *out_count = (int64_t)p->numel;
    return LS_OK;
}

/* ---- sparse tensors ---- */

ls_status ls_onnx_sparse_check(ls_model *m, const Onnx__SparseTensorProto *t, const char *what,
                               ls_error *err) {
    if (!t->values || !t->indices) {
        return bad(m, what ? what : "", err, "a sparse tensor without values or indices");
    }
    const Onnx__TensorProto *values = t->values, *indices = t->indices;
    place found, *p = &found;
    LS_TRY(err, find(m, values, what, true, p, err));
    size_t n = p->numel;
    const char *name = p->what;
    LS_TRY(err, find(m, indices, what, true, p, err));
    p->what = name;
    bool flat = indices->n_dims == 1;
    if (values->n_dims != 1 || p->type != ONNX_INT64 || (!flat && indices->n_dims != 2) ||
        indices->dims[0] != (int64_t)n || (!flat && indices->dims[1] != (int64_t)t->n_dims)) {
        return BAD("a sparse tensor: expected values of one axis, and as many indices of int64: flat, or one "
                   "for each axis");
    }
    Onnx__TensorProto dense = *values; /* for its shape only */
    dense.dims = t->dims;
    dense.n_dims = t->n_dims;
    return count_elements(m, &dense, p, err);
}

/* The flat index of entry i; -1 when it is outside. */
static int64_t flat_index(const Onnx__SparseTensorProto *t, const int64_t *indices, bool flat, size_t i,
                          int64_t numel) {
    if (flat) {
        return indices[i] < numel ? indices[i] : -1;
    }
    int64_t at = 0;
    for (size_t k = 0; k < t->n_dims; k++) {
        int64_t index = indices[i * t->n_dims + k];
        if (index < 0 || index >= t->dims[k]) {
            return -1;
        }
        at = at * t->dims[k] + index;
    }
    return at;
}

ls_status ls_onnx_sparse_data(ls_model *m, const Onnx__SparseTensorProto *t, const char *what,
                              ls_data **out_data, int *out_type, ls_error *err) {
    ls_data *values = NULL, *indices = NULL, *dense = NULL;
    const char *name = what ? what : t->values->name;
    int ignored;
    if (t->n_dims > LS_MAX_RANK) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "%s: tensor \"%.200s\" with %zu axes: expected %d at most",
                       m->name, name, t->n_dims, LS_MAX_RANK);
    }
    LS_TRY(err, ls_onnx_tensor_data(m, t->values, name, &values, out_type, err));
    ls_status status = ls_onnx_tensor_data(m, t->indices, name, &indices, &ignored, err);
    if (status == LS_OK) {
        status =
            ls_data_create(m->context, ls_data_dtype(values), (int)t->n_dims, t->dims, NULL, &dense, err);
    }
    int64_t last = -1;
    for (size_t i = 0; status == LS_OK && i < (size_t)ls_data_numel(values); i++) {
        int64_t at = flat_index(t, ls_data_bytes(indices), t->indices->n_dims == 1, i, ls_data_numel(dense));
        if (at <= last) {
            status = bad(m, name, err,
                         "index %zu of a sparse tensor: expected indices inside its shape that ascend", i);
        } else {
            size_t width = ls_dtype_size(ls_data_dtype(values));
            memcpy((uint8_t *)ls_data_bytes(dense) + (size_t)at * width,
                   (const uint8_t *)ls_data_bytes(values) + i * width, width);
            last = at;
        }
    }
    ls_data_release(values);
    ls_data_release(indices);
    if (status != LS_OK) {
        ls_data_release(dense);
        return status;
    }
    *out_data = dense;
    return LS_OK;
}
