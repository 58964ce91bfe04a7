/* The disk cache. Invariants: a file's name is the SHA-256 of its key; its content is a header (magic, size, SHA-256 of name
 * and bytes) and the bytes; a reader trusts nothing that does not add up. All state is on the disk. */
#include "device/cache.h"
#include "base/array.h"
#include "base/folder.h"
#include <lockstep/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 64, DIGEST = 64, HEADER = 8 + 8 + DIGEST };
static const char magic[] = "LSCACHE1"; /* 8 bytes count */

/* ---- where it is ---- */

/* False, with the reason, when it is turned off or has no place. */
static bool cache_path(char out[LS_PATH_MAX], const char **out_reason) {
    const char *own = ls_os_env("LOCKSTEP_CACHE"), *xdg = ls_os_env("XDG_CACHE_HOME"), *home = ls_os_env("HOME");
    int n = -1;
    out[0] = 0;
    if (own && strcmp(own, "off") == 0) {
        *out_reason = "turned off by LOCKSTEP_CACHE=off";
        return false;
    }
    if (own) {
        n = snprintf(out, LS_PATH_MAX, "%s", own);
    } else if (xdg && xdg[0] == '/') {
        n = snprintf(out, LS_PATH_MAX, "%s/lockstep", xdg);
    } else if (home) {
        n = snprintf(out, LS_PATH_MAX, "%s/.cache/lockstep", home);
    }
    *out_reason = n < 0 ? "neither LOCKSTEP_CACHE nor XDG_CACHE_HOME nor HOME is set" : "its path is too long";
    return n > 0 && n < LS_PATH_MAX - 160; /* leaves room for names */
}

bool ls_cache_is_on(void) {
    char path[LS_PATH_MAX];
    const char *reason;
    return cache_path(path, &reason);
}

static bool entry_path(const ls_cache_key *key, char name[NAME + 1], char out[LS_PATH_MAX]) {
    char folder[LS_PATH_MAX];
    const char *reason;
    ls_sha256 sha = key->sha;
    ls_sha256_hex(&sha, name);
    if (!cache_path(folder, &reason) || ls_folder_make(folder, NULL) != LS_OK) {
        return false;
    }
    int n = snprintf(out, LS_PATH_MAX, "%s/%s", folder, name);
    return n > 0 && n < LS_PATH_MAX;
}

static bool is_entry(const char *name) {
    return strlen(name) == NAME && strspn(name, "0123456789abcdef") == NAME;
}

static bool is_temp(const char *name) {
    size_t n = strlen(name);
    return n > NAME + 4 && strspn(name, "0123456789abcdef") >= NAME && strcmp(name + n - 4, ".tmp") == 0;
}

/* ---- keys ---- */

void ls_cache_key_add(ls_cache_key *key, const void *data, size_t size) {
    uint8_t length[8];
    for (int i = 0; i < 8; i++) {
        length[i] = (uint8_t)((uint64_t)size >> 8 * i);
    }
    ls_sha256_add(&key->sha, length, sizeof length);
    ls_sha256_add(&key->sha, data, size);
}

void ls_cache_key_text(ls_cache_key *key, const char *text) {
    ls_cache_key_add(key, text, strlen(text));
}

void ls_cache_key_begin(ls_cache_key *key, const char *kind, const ls_device *device) {
    char versions[64];
    ls_sha256_init(&key->sha);
    snprintf(versions, sizeof versions, "%s contract %d", ls_version(), LS_CONTRACT_VERSION);
    ls_cache_key_text(key, versions);
    ls_cache_key_text(key, kind);
    ls_cache_key_text(key, device ? device->backend->name : "");
    ls_cache_key_text(key, device ? device->caps.name : "");
    ls_cache_key_text(key, device ? device->caps.driver : "");
}

/* ---- entries ---- */

static void entry_digest(const char *name, const void *bytes, size_t size, char out[DIGEST + 1]) {
    ls_sha256 sha;
    ls_sha256_init(&sha);
    ls_sha256_add(&sha, name, NAME);
    ls_sha256_add(&sha, bytes, size);
    ls_sha256_hex(&sha, out);
}

static bool sound(const char *name, const ls_mapping *map) {
    char digest[DIGEST + 1];
    uint64_t size = 0;
    if (map->size < HEADER || map->size - HEADER > LS_CACHE_CAP / 4 || memcmp(map->data, magic, 8) != 0) {
        return false;
    }
    for (int i = 0; i < 8; i++) {
        size |= (uint64_t)map->data[8 + i] << 8 * i;
    }
    if (size != map->size - HEADER) {
        return false;
    }
    entry_digest(name, map->data + HEADER, (size_t)size, digest);
    return memcmp(map->data + 16, digest, DIGEST) == 0;
}

bool ls_cache_get(ls_heap *heap, const ls_cache_key *key, void **out_bytes, size_t *out_size) {
    char name[NAME + 1], path[LS_PATH_MAX];
    ls_mapping map;
    *out_bytes = NULL;
    *out_size = 0;
    if (!entry_path(key, name, path) || ls_file_map(path, &map, NULL) != LS_OK) {
        return false;
    }
    bool good = sound(name, &map);
    void *bytes = good ? ls_alloc(heap, map.size - HEADER) : NULL;
    if (bytes) {
        memcpy(bytes, map.data + HEADER, map.size - HEADER);
        *out_bytes = bytes;
        *out_size = map.size - HEADER;
    }
    ls_file_unmap(&map);
    if (good) {
        ls_file_touch(path);
    } else {
        ls_file_remove(path);
    }
    return bytes != NULL;
}

bool ls_cache_put(ls_heap *heap, const ls_cache_key *key, const void *bytes, size_t size) {
    char name[NAME + 1], path[LS_PATH_MAX], digest[DIGEST + 1];
    uint8_t length[8];
    if (size > LS_CACHE_CAP / 4 || !entry_path(key, name, path)) {
        return false;
    }
    for (int i = 0; i < 8; i++) {
        length[i] = (uint8_t)((uint64_t)size >> 8 * i);
    }
    entry_digest(name, bytes, size, digest);
    const ls_bytes pieces[] = {{magic, 8}, {length, 8}, {digest, DIGEST}, {bytes, size}};
    bool kept = ls_file_put(path, pieces, 4);
    if (kept && name[0] == '0') { /* one entry in 16: looking at all of them every time would cost more than it gains */
        ls_cache_trim(heap, LS_CACHE_CAP);
    }
    return kept;
}

/* ---- size ---- */

typedef struct listed {
    char name[NAME + 1];
    uint64_t size;
    int64_t used;
} listed;

typedef struct listing {
    const char *folder;
    ls_heap *heap; /* NULL: only counts */
    uint64_t bytes, entries;
    int64_t newest;
    bool remove_all, failed;
    LS_ARRAY(listed) files;
} listing;

static void remove_in(const char *folder, const char *name) {
    char path[LS_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    if (n > 0 && n < LS_PATH_MAX) {
        ls_file_remove(path);
    }
}

static void list_file(void *user, const ls_folder_file *file) {
    listing *l = user;
    bool entry = is_entry(file->name);
    if (l->remove_all && (entry || is_temp(file->name))) {
        remove_in(l->folder, file->name);
    }
    if (!entry) {
        return;
    }
    l->entries++;
    l->bytes += file->size;
    l->newest = file->used > l->newest ? file->used : l->newest;
    if (l->heap) {
        listed f = {.size = file->size, .used = file->used};
        memcpy(f.name, file->name, NAME);
        l->failed = !ls_array_push(l->heap, &l->files, f) || l->failed;
    }
}

/* What a process left behind that died an hour or more ago. */
static void remove_stale(void *user, const ls_folder_file *file) {
    const listing *l = user;
    if (is_temp(file->name) && file->used < l->newest - INT64_C(3600000000000)) {
        remove_in(l->folder, file->name);
    }
}

static int by_use(const void *a, const void *b) {
    const listed *x = a, *y = b;
    return x->used != y->used ? (x->used > y->used) - (x->used < y->used) : strcmp(x->name, y->name);
}

void ls_cache_trim(ls_heap *heap, uint64_t cap) {
    char folder[LS_PATH_MAX];
    const char *reason;
    listing l = {.folder = folder, .heap = heap};
    if (!cache_path(folder, &reason) || ls_folder_each(folder, list_file, &l, NULL) != LS_OK) {
        return;
    }
    if (l.bytes > cap && !l.failed) {
        qsort(l.files.data, l.files.len, sizeof *l.files.data, by_use);
        for (size_t i = 0; i < l.files.len && l.bytes > cap - cap / 4; i++) { /* well under it: not again soon */
            remove_in(folder, l.files.data[i].name);
            l.bytes -= l.files.data[i].size;
        }
        (void)!ls_folder_each(folder, remove_stale, &l, NULL);
    }
    ls_array_free(heap, &l.files);
}

void ls_cache_get_info(ls_cache_info *out_info) {
    char folder[LS_PATH_MAX];
    const char *reason = "";
    ls_error err = {0};
    *out_info = (ls_cache_info){.cap = LS_CACHE_CAP};
    bool on = cache_path(folder, &reason);
    snprintf(out_info->path, sizeof out_info->path, "%s", folder);
    if (!on) {
        snprintf(out_info->reason, sizeof out_info->reason, "%s", reason);
        return;
    }
    listing l = {.folder = folder};
    if (ls_folder_make(folder, &err) != LS_OK || ls_folder_each(folder, list_file, &l, &err) != LS_OK) {
        snprintf(out_info->reason, sizeof out_info->reason, "%.255s", err.message);
        return;
    }
    out_info->entries = l.entries;
    out_info->bytes = l.bytes;
}

ls_status ls_cache_clear(uint64_t *out_entries, ls_error *err) {
    char folder[LS_PATH_MAX];
    const char *reason = "";
    listing l = {.folder = folder, .remove_all = true};
    *out_entries = 0;
    if (!cache_path(folder, &reason)) {
        return LS_FAIL(err, LS_ERR_IO, "the disk cache has no folder: %s", reason);
    }
    LS_TRY(err, ls_folder_each(folder, list_file, &l, err));
    *out_entries = l.entries;
    return LS_OK;
}
