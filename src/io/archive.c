/* Opening archives, in files and in memory, and finding arrays in them. */
#include "io/archive.h"
#include "base/crc.h"
#include "base/sha256.h"
#include <stdlib.h>
#include <string.h>

ls_status ls_mapped_file_open(ls_heap *heap, const char *path, ls_mapped_file **out_file, ls_error *err) {
    ls_mapped_file *file = ls_alloc_zeroed(heap, sizeof *file);
    if (!file) {
        return LS_FAIL_MEMORY(err, path);
    }
    ls_status status = ls_file_map(path, &file->map, err);
    if (status != LS_OK) {
        ls_free(heap, file);
        return status;
    }
    file->heap = heap;
    atomic_init(&file->refs, 1);
    *out_file = file;
    return LS_OK;
}

static ls_status file_in_memory(ls_heap *heap, const char *name, ls_data *data, ls_mapped_file **out_file, ls_error *err) {
    if (ls_data_dtype(data) != LS_U8 || ls_data_rank(data) != 1) {
        return LS_FAIL(err, LS_ERR_INVALID, "%s: expected the bytes of a file: a u8 array of one axis", name);
    }
    ls_mapped_file *file = ls_alloc_zeroed(heap, sizeof *file);
    if (!file) {
        return LS_FAIL_MEMORY(err, name);
    }
    file->heap = heap;
    atomic_init(&file->refs, 1);
    file->data = ls_data_retain(data);
    file->map = (ls_mapping){ls_data_bytes(data), ls_data_size(data)};
    *out_file = file;
    return LS_OK;
}

void ls_mapped_file_release(void *owner) {
    ls_mapped_file *file = owner;
    if (atomic_fetch_sub_explicit(&file->refs, 1, memory_order_acq_rel) == 1) {
        if (file->data) {
            ls_data_release(file->data);
        } else {
            ls_file_unmap(&file->map);
        }
        ls_free(file->heap, file);
    }
}

/* A zip archive begins with a member or, when it has none, with its end record. Those bytes could also be the length of a
 * safetensors header, which a brace follows where a member says how it is packed. */
static bool is_zip(const ls_mapping *map) {
    return map->size >= 9 && (memcmp(map->data, "PK\3\4", 4) == 0 || memcmp(map->data, "PK\5\6", 4) == 0) &&
           map->data[8] != '{';
}

static int by_entry_name(const void *x, const void *y) {
    return strcmp(((const ls_archive_entry *)x)->name, ((const ls_archive_entry *)y)->name);
}
static int by_position(const void *x, const void *y) {
    const ls_archive_entry *a = x, *b = y;
    return (a->position > b->position) - (a->position < b->position);
}

ls_status ls_archive_check_names(ls_archive *a, ls_error *err) {
    ls_archive_entry *e = a->entries.data;
    size_t n = a->entries.len;
    ls_status status = LS_OK;
    for (size_t i = 0; i < n; i++) {
        e[i].position = i;
    }
    if (n > 1) {
        qsort(e, n, sizeof *e, by_entry_name);
        for (size_t i = 1; i < n && status == LS_OK; i++) {
            if (strcmp(e[i - 1].name, e[i].name) == 0) {
                status = LS_FAIL(err, LS_ERR_FORMAT, "%s: array \"%s\" is there twice", a->path, e[i].name);
            }
        }
        qsort(e, n, sizeof *e, by_position);
    }
    return status;
}

ls_status ls_bools_check(const char *path, const char *name, ls_dtype dtype, const uint8_t *bytes,
                         size_t size, ls_error *err) {
    for (size_t i = 0; dtype == LS_BOOL && i < size; i++) {
        if (bytes[i] > 1) {
            return LS_FAIL(err, LS_ERR_FORMAT,
                           "%s: array \"%s\": element %zu of a bool array is %d: expected 0 or 1", path, name,
                           i, bytes[i]);
        }
    }
    return LS_OK;
}

/* `data` NULL: the file at `path`. */
static ls_status open_archive(ls_context *context, const char *path, ls_data *data, ls_archive **out_archive, ls_error *err) {
    ls_heap *heap = ls_context_heap(context);
    ls_archive *a = ls_alloc_zeroed(heap, sizeof *a);
    if (!a) {
        return LS_FAIL_MEMORY(err, path);
    }
    a->context = context;
    a->heap = heap;
    a->path = ls_strdup(heap, path);
    ls_status status = !a->path ? LS_FAIL_MEMORY(err, path)
                       : data   ? file_in_memory(heap, path, data, &a->file, err)
                                : ls_mapped_file_open(heap, path, &a->file, err);
    if (status == LS_OK) {
        const ls_mapping *map = &a->file->map;
        a->zip = is_zip(map);
        status = a->zip ? ls_npz_read(a, err) : ls_safetensors_read(a, err);
    }
    if (status != LS_OK) {
        ls_archive_close(a);
        return status;
    }
    *out_archive = a;
    return LS_OK;
}

ls_status ls_archive_open(ls_context *context, const char *path, ls_archive **out_archive, ls_error *err) {
    return open_archive(context, path, NULL, out_archive, err);
}
ls_status ls_archive_open_data(ls_context *context, const char *name, ls_data *file, ls_archive **out_archive, ls_error *err) {
    return open_archive(context, name, file, out_archive, err);
}

void ls_archive_close(ls_archive *a) {
    if (!a) {
        return;
    }
    for (size_t i = 0; i < a->entries.len; i++) {
        ls_free(a->heap, a->entries.data[i].name);
    }
    for (size_t i = 0; i < a->metadata.len; i++) {
        ls_free(a->heap, a->metadata.data[i]);
    }
    ls_array_free(a->heap, &a->entries);
    ls_array_free(a->heap, &a->metadata);
    if (a->file) {
        ls_mapped_file_release(a->file);
    }
    ls_free(a->heap, a->path);
    ls_free(a->heap, a);
}

int ls_archive_count(const ls_archive *archive) {
    return (int)archive->entries.len;
}
const char *ls_archive_name(const ls_archive *archive, int index) {
    return index >= 0 && index < (int)archive->entries.len ? archive->entries.data[index].name : NULL;
}

static int to_key(const void *key, const void *pair) {
    return strcmp(key, *(char *const *)pair);
}

/* Which are sorted (safetensors.c). */
const char *ls_archive_metadata(const ls_archive *archive, const char *key) {
    const size_t n = archive->metadata.len / 2;
    char *const *found = n ? bsearch(key, archive->metadata.data, n, 2 * sizeof *archive->metadata.data, to_key) : NULL;
    return found ? found[1] : NULL;
}

bool ls_archive_sum(bool crc, const void *bytes, size_t size, char out_hex[65]) {
    if (crc) {
        return ls_crc_lanes(false, bytes, size, out_hex);
    }
    ls_sha256 sha;
    ls_sha256_init(&sha);
    ls_sha256_add(&sha, bytes, size);
    ls_sha256_hex(&sha, out_hex);
    return true;
}

/* The checksum that the file gives for an array, of either kind; NULL: none. */
static const char *sum_of(const ls_archive *a, const char *prefix, const char *name) {
    char key[LS_ARCHIVE_KEY];
    return strlen(name) > LS_ARCHIVE_NAME ? NULL : ls_archive_metadata(a, strcat(strcpy(key, prefix), name)); /* no longer name is ever saved */
}

/* Compares a safetensors array with the checksum that the file gives for it, and looks at bools, once. */
static ls_status check_sum(ls_archive *a, ls_archive_entry *e, ls_error *err) {
    char hex[65];
    if (e->checked) {
        return LS_OK;
    }
    const uint8_t *bytes = a->file->map.data + e->first;
    const char *sha = sum_of(a, LS_ARCHIVE_SHA, e->name), *want = !sha || ls_crc_instructions() ? sum_of(a, LS_ARCHIVE_CRC, e->name) : NULL;
    bool crc = want != NULL;
    want = crc ? want : sha;
    if (want && ls_archive_sum(crc, bytes, e->size, hex) && strcmp(hex, want) != 0) {
        return LS_FAIL(
            err, LS_ERR_FORMAT,
            "%s: array \"%s\": its %s is %s, the file says %.64s: the file is damaged",
            a->path, e->name, crc ? "CRC-32C" : "SHA-256", hex, want);
    }
    LS_TRY(err, ls_bools_check(a->path, e->name, e->dtype, bytes, e->size, err));
    e->checked = true;
    return LS_OK;
}

ls_status ls_archive_get_at(ls_archive *a, int index, ls_data **out_data, ls_error *err) {
    if (index < 0 || index >= (int)a->entries.len) {
        return LS_FAIL(err, LS_ERR_INVALID, "%s: array number %d: it holds %zu", a->path, index,
                       a->entries.len);
    }
    ls_archive_entry *e = &a->entries.data[index];
    if (a->zip) {
        return ls_npz_get(a, e, out_data, err);
    }
    LS_TRY(err, check_sum(a, e, err));
    const uint8_t *bytes = a->file->map.data + e->first;
    if ((uintptr_t)bytes % ls_dtype_size(e->dtype) != 0) { /* packed by a writer that does not align */
        return ls_data_create(a->context, e->dtype, e->rank, e->dims, bytes, out_data, err);
    }
    LS_TRY(err, ls_data_wrap(a->context, e->dtype, e->rank, e->dims, bytes, ls_mapped_file_release, a->file,
                             out_data, err));
    atomic_fetch_add_explicit(&a->file->refs, 1, memory_order_relaxed);
    return LS_OK;
}

ls_status ls_archive_get(ls_archive *a, const char *name, ls_data **out_data, ls_error *err) {
    for (size_t i = 0; name && i < a->entries.len; i++) {
        if (strcmp(a->entries.data[i].name, name) == 0) {
            return ls_archive_get_at(a, (int)i, out_data, err);
        }
    }
    return LS_FAIL(err, LS_ERR_INVALID, "%s: no array \"%s\" among its %zu, whose first is \"%s\"", a->path,
                   name ? name : "(null)", a->entries.len, a->entries.len ? a->entries.data[0].name : "(none)");
}
