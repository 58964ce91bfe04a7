/* Opening archives, finding arrays in them, and mapped files. */
#include "io/archive.h"
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

void ls_mapped_file_release(void *owner) {
    ls_mapped_file *file = owner;
    if (atomic_fetch_sub_explicit(&file->refs, 1, memory_order_acq_rel) == 1) {
        ls_file_unmap(&file->map);
        ls_free(file->heap, file);
    }
}

ls_status ls_archive_open(ls_context *context, const char *path, ls_archive **out_archive, ls_error *err) {
    ls_heap *heap = ls_context_heap(context);
    ls_archive *a = ls_alloc_zeroed(heap, sizeof *a);
    if (!a) {
        return LS_FAIL_MEMORY(err, path);
    }
    a->context = context;
    a->heap = heap;
    a->path = ls_strdup(heap, path);
    ls_status status = a->path ? ls_mapped_file_open(heap, path, &a->file, err) : LS_FAIL_MEMORY(err, path);
    if (status == LS_OK) {
        const ls_mapping *map = &a->file->map;
        a->zip = map->size >= 4 && memcmp(map->data, "PK", 2) == 0;
        status = a->zip ? ls_npz_read(a, err) : ls_safetensors_read(a, err);
    }
    if (status != LS_OK) {
        ls_archive_close(a);
        return status;
    }
    *out_archive = a;
    return LS_OK;
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

const char *ls_archive_metadata(const ls_archive *archive, const char *key) {
    for (size_t i = 0; i + 1 < archive->metadata.len; i += 2) {
        if (strcmp(archive->metadata.data[i], key) == 0) {
            return archive->metadata.data[i + 1];
        }
    }
    return NULL;
}

/* Compares a safetensors array with the checksum that the file gives for it, once. */
static ls_status check_sum(ls_archive *a, ls_archive_entry *e, ls_error *err) {
    char key[300] = "sha256.", hex[65];
    if (e->checked || strlen(e->name) > sizeof key - 8) {
        return LS_OK;
    }
    const char *want = ls_archive_metadata(a, strcat(key, e->name));
    if (want) {
        ls_sha256 sha;
        ls_sha256_init(&sha);
        ls_sha256_add(&sha, a->file->map.data + e->first, e->size);
        ls_sha256_hex(&sha, hex);
        if (strcmp(hex, want) != 0) {
            return LS_FAIL(err, LS_ERR_FORMAT, "%s: array \"%s\": its SHA-256 is %.16s..., the file says %.16s...: the file is damaged", a->path,
                           e->name, hex, want);
        }
    }
    e->checked = true;
    return LS_OK;
}

ls_status ls_archive_get_at(ls_archive *a, int index, ls_data **out_data, ls_error *err) {
    if (index < 0 || index >= (int)a->entries.len) {
        return LS_FAIL(err, LS_ERR_INVALID, "%s: array number %d: it holds %zu", a->path, index, a->entries.len);
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
    LS_TRY(err, ls_data_wrap(a->context, e->dtype, e->rank, e->dims, bytes, ls_mapped_file_release, a->file, out_data, err));
    atomic_fetch_add_explicit(&a->file->refs, 1, memory_order_relaxed);
    return LS_OK;
}

ls_status ls_archive_get(ls_archive *a, const char *name, ls_data **out_data, ls_error *err) {
    for (size_t i = 0; i < a->entries.len; i++) {
        if (strcmp(a->entries.data[i].name, name) == 0) {
            return ls_archive_get_at(a, (int)i, out_data, err);
        }
    }
    return LS_FAIL(err, LS_ERR_INVALID, "%s: no array \"%s\" among its %zu, whose first is \"%s\"", a->path, name, a->entries.len,
                   a->entries.len ? a->entries.data[0].name : "(none)");
}
