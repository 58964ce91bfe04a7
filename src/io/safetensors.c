/* safetensors: 8 bytes with the header's length, a JSON header, the arrays' bytes. Nothing in a file is trusted: the arrays must lie in
 * the data one after another without gap or overlap, as the format demands, and each must be as long as its shape says. */
#include "io/archive.h"
#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_MOST = 100 * 1024 * 1024, DEPTH_MOST = 8 };

static const struct {
    const char *name;
    ls_dtype dtype;
} dtype_names[] = {{"BOOL", LS_BOOL}, {"U8", LS_U8},   {"U16", LS_U16}, {"U32", LS_U32}, {"U64", LS_U64},
                   {"I8", LS_I8},     {"I16", LS_I16}, {"I32", LS_I32}, {"I64", LS_I64}, {"F16", LS_F16},
                   {"BF16", LS_BF16}, {"F32", LS_F32}, {"F64", LS_F64}};
enum { N_DTYPES = sizeof dtype_names / sizeof *dtype_names };

static ls_dtype dtype_of(const char *name) {
    for (int i = 0; i < N_DTYPES; i++) {
        if (strcmp(dtype_names[i].name, name) == 0) {
            return dtype_names[i].dtype;
        }
    }
    return LS_DTYPE_COUNT;
}
static const char *name_of(ls_dtype dtype) {
    for (int i = 0; i < N_DTYPES; i++) {
        if (dtype_names[i].dtype == dtype) {
            return dtype_names[i].name;
        }
    }
    return "?";
}

/* Nesting as deep as a valid header's, so that the parser's recursion is bounded; and no NUL, which the parser would take for the end of
 * a name, neither as a byte nor as an escape. */
static bool shallow(const char *text, size_t size) {
    int depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\0') {
            return false;
        }
        if (quoted && text[i] == '\\') {
            if (size - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0) {
                return false;
            }
            i++; /* whatever is escaped ends nothing */
        } else if (quoted) {
            quoted = text[i] != '"';
        } else if (text[i] == '"') {
            quoted = true;
        } else if (text[i] == '{' || text[i] == '[') {
            if (++depth > DEPTH_MOST) {
                return false;
            }
        } else if (text[i] == '}' || text[i] == ']') {
            depth--;
        }
    }
    return true;
}

/* A whole number in 0..2^53, exact as JSON can carry it. */
static bool whole(const cJSON *item, int64_t *out) {
    double d = cJSON_IsNumber(item) ? item->valuedouble : -1;
    if (!(d >= 0 && d <= 9007199254740992.0) || (double)(int64_t)d != d) {
        return false;
    }
    *out = (int64_t)d;
    return true;
}

static ls_status read_entry(ls_archive *a, const cJSON *item, size_t data_first, size_t data_size,
                            ls_error *err) {
    ls_archive_entry e = {.name = NULL};
    const char *name = item->string;
    const cJSON *dtype = cJSON_GetObjectItemCaseSensitive(item, "dtype"),
                *shape = cJSON_GetObjectItemCaseSensitive(item, "shape"),
                *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets"), *dim;
    if (!cJSON_IsObject(item) || !cJSON_IsString(dtype) || !cJSON_IsArray(shape) || !cJSON_IsArray(offsets) ||
        cJSON_GetArraySize(offsets) != 2) {
        return LS_FAIL(err, LS_ERR_FORMAT,
                       "%s: array \"%s\": expected {\"dtype\", \"shape\", \"data_offsets\": [begin, end]}",
                       a->path, name);
    }
    e.dtype = dtype_of(dtype->valuestring);
    if (e.dtype == LS_DTYPE_COUNT) {
        return LS_FAIL(
            err, LS_ERR_UNSUPPORTED,
            "%s: array \"%s\": dtype \"%.32s\": expected BOOL, U8 to U64, I8 to I64, F16, BF16, F32 or F64",
            a->path, name, dtype->valuestring);
    }
    size_t size = ls_dtype_size(e.dtype);
    cJSON_ArrayForEach(dim, shape) {
        if (e.rank == LS_MAX_RANK || !whole(dim, &e.dims[e.rank]) ||
            !ls_size_mul(size, (uint64_t)e.dims[e.rank], &size)) {
            return LS_FAIL(err, LS_ERR_FORMAT,
                           "%s: array \"%s\": its shape: expected at most %d extents, each a whole number, "
                           "and a size that fits",
                           a->path, name, LS_MAX_RANK);
        }
        e.rank++;
    }
    int64_t begin, end;
    if (!whole(cJSON_GetArrayItem(offsets, 0), &begin) || !whole(cJSON_GetArrayItem(offsets, 1), &end) ||
        begin > end || (uint64_t)end > data_size || (uint64_t)(end - begin) != size) {
        return LS_FAIL(
            err, LS_ERR_FORMAT,
            "%s: array \"%s\": its data_offsets: expected %zu bytes inside the file's %zu bytes of data",
            a->path, name, size, data_size);
    }
    e.first = data_first + (size_t)begin;
    e.size = size;
    e.name = ls_strdup(a->heap, name);
    if (!e.name || !ls_array_push(a->heap, &a->entries, e)) {
        ls_free(a->heap, e.name);
        return LS_FAIL_MEMORY(err, a->path);
    }
    return LS_OK;
}

static ls_status read_metadata(ls_archive *a, const cJSON *object, ls_error *err) {
    const cJSON *item;
    if (!cJSON_IsObject(object)) {
        return LS_FAIL(err, LS_ERR_FORMAT, "%s: __metadata__: expected an object of strings", a->path);
    }
    cJSON_ArrayForEach(item, object) {
        if (!cJSON_IsString(item)) {
            return LS_FAIL(err, LS_ERR_FORMAT, "%s: __metadata__ \"%s\": expected a string", a->path,
                           item->string);
        }
        const char *texts[2] = {item->string, item->valuestring};
        for (int i = 0; i < 2; i++) {
            char *copy = ls_strdup(a->heap, texts[i]);
            if (!copy || !ls_array_push(a->heap, &a->metadata, copy)) {
                ls_free(a->heap, copy);
                return LS_FAIL_MEMORY(err, a->path);
            }
        }
    }
    return LS_OK;
}

static int by_key(const void *x, const void *y) {
    return strcmp(((char *const *)x)[0], ((char *const *)y)[0]);
}

/* Sorts the metadata by key, and refuses a key that is there twice. */
static ls_status check_metadata(ls_archive *a, ls_error *err) {
    size_t n = a->metadata.len / 2;
    if (n > 1) {
        qsort(a->metadata.data, n, 2 * sizeof *a->metadata.data, by_key);
    }
    for (size_t i = 1; i < n; i++) {
        if (strcmp(a->metadata.data[2 * i - 2], a->metadata.data[2 * i]) == 0) {
            return LS_FAIL(err, LS_ERR_FORMAT, "%s: __metadata__ \"%s\" is there twice", a->path,
                           a->metadata.data[2 * i]);
        }
    }
    return LS_OK;
}

static int by_place(const void *x, const void *y) {
    const ls_archive_entry *a = x, *b = y;
    return a->first != b->first ? (a->first > b->first) - (a->first < b->first)
                                : (a->size > b->size) - (a->size < b->size);
}

static ls_status check_layout(ls_archive *a, size_t data_first, size_t data_size, ls_error *err) {
    size_t at = data_first;
    if (a->entries.len > 1) {
        qsort(a->entries.data, a->entries.len, sizeof *a->entries.data, by_place);
    }
    for (size_t i = 0; i < a->entries.len; i++) {
        const ls_archive_entry *e = &a->entries.data[i];
        if (e->first != at) {
            return LS_FAIL(err, LS_ERR_FORMAT,
                           "%s: array \"%s\" begins at byte %zu: expected %zu, where the one before it ends",
                           a->path, e->name, e->first, at);
        }
        at += e->size;
    }
    if (at != data_first + data_size) {
        return LS_FAIL(err, LS_ERR_FORMAT, "%s: %zu bytes after the last array: expected none", a->path,
                       data_first + data_size - at);
    }
    return LS_OK;
}

ls_status ls_safetensors_read(ls_archive *a, ls_error *err) {
    const ls_mapping *map = &a->file->map;
    uint64_t header = 0;
    for (int i = 0; i < 8 && map->size >= 8; i++) {
        header |= (uint64_t)map->data[i] << 8 * i;
    }
    if (map->size < 10 || header < 2 || header > HEADER_MOST || header > map->size - 8 ||
        map->data[8] != '{') {
        return LS_FAIL(err, LS_ERR_FORMAT,
                       "%s: expected an .npz or .safetensors file: the first 8 bytes give a header of %llu "
                       "bytes in a file of %zu",
                       a->path, (unsigned long long)header, map->size);
    }
    const char *text = (const char *)map->data + 8;
    size_t data_first = 8 + (size_t)header, data_size = map->size - data_first;
    if (!shallow(text, (size_t)header)) {
        return LS_FAIL(err, LS_ERR_FORMAT,
                       "%s: its header: expected JSON no deeper than %d, without NUL bytes", a->path,
                       DEPTH_MOST);
    }
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(text, (size_t)header, &end, 0);
    bool whole_text = cJSON_IsObject(root);
    for (const char *p = end; whole_text && p < text + header; p++) {
        whole_text = *p == ' ' || *p == '\t' || *p == '\n' || *p == '\r';
    }
    if (!whole_text) {
        cJSON_Delete(root);
        return LS_FAIL(err, LS_ERR_FORMAT,
                       "%s: its header: expected a JSON object; the text is wrong near byte %zu", a->path,
                       end ? (size_t)(end - text) + 8 : 8);
    }
    ls_status status = LS_OK;
    const cJSON *item;
    cJSON_ArrayForEach(item, root) {
        if (status == LS_OK) {
            status = strcmp(item->string, "__metadata__") == 0
                         ? read_metadata(a, item, err)
                         : read_entry(a, item, data_first, data_size, err);
        }
    }
    cJSON_Delete(root);
    status = status == LS_OK ? ls_archive_check_names(a, err) : status;
    status = status == LS_OK ? check_metadata(a, err) : status;
    return status == LS_OK ? check_layout(a, data_first, data_size, err) : status;
}

/* ---- writing ---- */

static int by_name(const void *x, const void *y) {
    return strcmp(((const ls_named_data *)x)->name, ((const ls_named_data *)y)->name);
}

static bool add_sum(cJSON *meta, bool crc, const ls_named_data *n) {
    char key[LS_ARCHIVE_KEY], hex[65];
    return !ls_archive_sum(crc, ls_data_bytes(n->data), ls_data_size(n->data), hex) ||
           cJSON_AddStringToObject(meta, strcat(strcpy(key, crc ? LS_ARCHIVE_CRC : LS_ARCHIVE_SHA), n->name), hex);
}

static bool add_entry(cJSON *root, cJSON *meta, const ls_named_data *n, size_t begin) {
    const ls_data *d = n->data;
    cJSON *entry = cJSON_AddObjectToObject(root, n->name);
    bool ok = entry && cJSON_AddStringToObject(entry, "dtype", name_of(ls_data_dtype(d)));
    cJSON *shape = ok ? cJSON_AddArrayToObject(entry, "shape") : NULL;
    ok = shape != NULL;
    for (int i = 0; ok && i < ls_data_rank(d); i++) {
        ok = cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)ls_data_dims(d)[i]));
    }
    cJSON *offsets = ok ? cJSON_AddArrayToObject(entry, "data_offsets") : NULL;
    ok = offsets && cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)begin)) &&
         cJSON_AddItemToArray(offsets, cJSON_CreateNumber((double)(begin + ls_data_size(d))));
    return ok && add_sum(meta, false, n) && (ls_data_size(d) < LS_ARCHIVE_SMALL || add_sum(meta, true, n));
}

static char *header_of(const ls_named_data *sorted, int count, int n_metadata, const ls_metadata *metadata) {
    cJSON *root = cJSON_CreateObject(), *meta = cJSON_AddObjectToObject(root, "__metadata__");
    bool ok = meta != NULL;
    size_t at = 0;
    for (int i = 0; ok && i < n_metadata; i++) {
        ok = cJSON_AddStringToObject(meta, metadata[i].key, metadata[i].value) != NULL;
    }
    for (int i = 0; ok && i < count; i++) {
        ok = add_entry(root, meta, &sorted[i], at);
        at += ls_data_size(sorted[i].data);
    }
    char *text = ok ? cJSON_PrintUnformatted(root) : NULL;
    cJSON_Delete(root);
    return text;
}

/* Where the bytes of a file go: to a file, or to memory that has room for them. */
typedef struct sink {
    ls_file_writer *writer;
    uint8_t *at;
} sink;
static ls_status put(sink *s, const void *bytes, size_t size, ls_error *err) {
    if (s->writer) {
        return ls_file_write(s->writer, bytes, size, err);
    }
    if (size > 0) {
        memcpy(s->at, bytes, size);
        s->at += size;
    }
    return LS_OK;
}

static ls_status write_all(sink *s, const char *header, const ls_named_data *sorted, int count, ls_error *err) {
    size_t length = strlen(header), padded = (length + 7) / 8 * 8; /* so that the data is aligned */
    uint8_t prefix[8];
    for (int i = 0; i < 8; i++) {
        prefix[i] = (uint8_t)((uint64_t)padded >> 8 * i);
    }
    LS_TRY(err, put(s, prefix, sizeof prefix, err));
    LS_TRY(err, put(s, header, length, err));
    LS_TRY(err, put(s, "        ", padded - length, err));
    for (int i = 0; i < count; i++) {
        LS_TRY(err, put(s, ls_data_bytes(sorted[i].data), ls_data_size(sorted[i].data), err));
    }
    return LS_OK;
}

/* As the format wants text to be. */
static bool is_utf8(const char *text) {
    for (const uint8_t *p = (const uint8_t *)text; *p;) {
        int more = *p < 0x80 ? 0 : *p < 0xc0 ? -1 : *p < 0xe0 ? 1 : *p < 0xf0 ? 2 : *p < 0xf8 ? 3 : -1;
        uint32_t code = more > 0 ? *p & (0x3fu >> more) : 0;
        p++;
        for (int i = 0; i < more; i++, p++) {
            more = (*p & 0xc0) == 0x80 ? more : -1;
            code = code << 6 | (*p & 0x3f);
        }
        static const uint32_t first[] = {0, 0x80, 0x800, 0x10000};
        if (more < 0 || code < first[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) {
            return false;
        }
    }
    return true;
}

static ls_status check_names(const char *path, const ls_named_data *sorted, int count, ls_error *err) {
    for (int i = 0; i < count; i++) {
        size_t n = strlen(sorted[i].name);
        if (n == 0 || n > LS_ARCHIVE_NAME || strcmp(sorted[i].name, "__metadata__") == 0 || !is_utf8(sorted[i].name)) {
            return LS_FAIL(err, LS_ERR_INVALID,
                           "%s: array name \"%.64s\": expected 1 to %d bytes of UTF-8, and not __metadata__", path,
                           sorted[i].name, LS_ARCHIVE_NAME);
        }
        if (i > 0 && strcmp(sorted[i - 1].name, sorted[i].name) == 0) {
            return LS_FAIL(err, LS_ERR_INVALID, "%s: two arrays are named \"%s\"", path, sorted[i].name);
        }
    }
    return LS_OK;
}

static ls_status check_keys(const char *path, int n, const ls_metadata *metadata, ls_error *err) {
    for (int i = 0; i < n; i++) {
        bool taken = strncmp(metadata[i].key, "sha256", 6) == 0 || strncmp(metadata[i].key, "crc32c", 6) == 0;
        for (int k = 0; k < i; k++) {
            taken |= strcmp(metadata[k].key, metadata[i].key) == 0;
        }
        if (taken || !is_utf8(metadata[i].key) || !is_utf8(metadata[i].value)) {
            return LS_FAIL(err, LS_ERR_INVALID,
                           "%s: metadata \"%s\": expected UTF-8, and keys that differ and do not begin with sha256 or crc32c",
                           path, metadata[i].key);
        }
    }
    return LS_OK;
}

static ls_status write_file(ls_heap *heap, const char *path, const char *header, const ls_named_data *sorted, int count,
                            ls_error *err) {
    sink s = {NULL, NULL};
    LS_TRY(err, ls_file_create(heap, path, &s.writer, err));
    ls_status status = write_all(&s, header, sorted, count, err);
    if (status == LS_OK) {
        return ls_file_commit(s.writer, err);
    }
    ls_file_abandon(s.writer);
    return status;
}

static ls_status write_memory(ls_context *context, const char *header, const ls_named_data *sorted, int count, ls_data **out_file,
                              ls_error *err) {
    size_t size = 8 + (strlen(header) + 7) / 8 * 8;
    for (int i = 0; i < count; i++) {
        size += ls_data_size(sorted[i].data);
    }
    ls_data *file = NULL;
    LS_TRY(err, ls_data_create(context, LS_U8, 1, (const int64_t[]){(int64_t)size}, NULL, &file, err));
    sink s = {NULL, (uint8_t *)ls_data_bytes(file)}; /* nobody else has it yet */
    LS_TRY(err, write_all(&s, header, sorted, count, err)); /* never fails in memory */
    *out_file = file;
    return LS_OK;
}

/* `out_file` NULL: to the file at `path`. */
static ls_status save(ls_context *context, const char *path, int count, const ls_named_data *arrays, int n_metadata,
                      const ls_metadata *metadata, ls_data **out_file, ls_error *err) {
    ls_heap *heap = ls_context_heap(context);
    ls_named_data *sorted = ls_alloc(heap, sizeof *sorted * (size_t)(count + 1));
    if (!sorted) {
        return LS_FAIL_MEMORY(err, path);
    }
    if (count > 0) {
        memcpy(sorted, arrays, sizeof *sorted * (size_t)count);
        qsort(sorted, (size_t)count, sizeof *sorted, by_name);
    }
    ls_status status = check_names(path, sorted, count, err);
    status = status == LS_OK ? check_keys(path, n_metadata, metadata, err) : status;
    if (status == LS_OK) {
        char *header = header_of(sorted, count, n_metadata, metadata);
        status = !header    ? LS_FAIL_MEMORY(err, path)
                 : out_file ? write_memory(context, header, sorted, count, out_file, err)
                            : write_file(heap, path, header, sorted, count, err);
        cJSON_free(header);
    }
    ls_free(heap, sorted);
    return status;
}

ls_status ls_safetensors_save(ls_context *context, const char *path, int count, const ls_named_data *arrays, int n_metadata,
                              const ls_metadata *metadata, ls_error *err) {
    return save(context, path, count, arrays, n_metadata, metadata, NULL, err);
}
ls_status ls_safetensors_encode(ls_context *context, int count, const ls_named_data *arrays, int n_metadata,
                                const ls_metadata *metadata, ls_data **out_file, ls_error *err) {
    return save(context, "safetensors in memory", count, arrays, n_metadata, metadata, out_file, err);
}
