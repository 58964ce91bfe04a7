/* .npz: a zip archive of .npy members, stored or deflated. The directory at the end is the authority; every length is checked against the
 * file and every member against its CRC. Archives of more than 4 GiB (zip64) are refused by name. */
#include "io/archive.h"
#include <string.h>
#include <zlib.h>

enum {
    LOCAL = 0x04034b50,
    CENTRAL = 0x02014b50,
    END = 0x06054b50,
    LOCAL_SIZE = 30,
    CENTRAL_SIZE = 46,
    END_SIZE = 22
};

static uint32_t u16(const uint8_t *p) {
    return p[0] | (uint32_t)p[1] << 8;
}
static uint32_t u32(const uint8_t *p) {
    return u16(p) | u16(p + 2) << 16;
}
static void put16(uint8_t *p, uint32_t v) {
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}
static void put32(uint8_t *p, uint32_t v) {
    put16(p, v & 0xffff);
    put16(p + 2, v >> 16);
}

static ls_status damaged(const ls_archive *a, const char *what, size_t at, ls_error *err) {
    return LS_FAIL(err, LS_ERR_FORMAT, "%s: at byte %zu: expected %s", a->path, at, what);
}

/* The end record, which a comment of up to 64 KiB may follow. */
static const uint8_t *find_end(const ls_mapping *map) {
    for (size_t back = END_SIZE; back <= map->size && back <= END_SIZE + 65535; back++) {
        const uint8_t *p = map->data + map->size - back;
        if (u32(p) == END && u16(p + 20) == back - END_SIZE) {
            return p;
        }
    }
    return NULL;
}

static ls_status read_member(ls_archive *a, const uint8_t *p, size_t left, size_t *out_length,
                             ls_error *err) {
    const ls_mapping *map = &a->file->map;
    size_t at = (size_t)(p - map->data);
    if (left < CENTRAL_SIZE || u32(p) != CENTRAL) {
        return damaged(a, "an entry of the zip directory", at, err);
    }
    size_t name = u16(p + 28), length = CENTRAL_SIZE + name + u16(p + 30) + u16(p + 32), local = u32(p + 42);
    ls_archive_entry e = {
        .size = u32(p + 20), .full_size = u32(p + 24), .crc = u32(p + 16), .deflated = u16(p + 10) == 8};
    if (length > left || local > map->size || map->size - local < LOCAL_SIZE ||
        u32(map->data + local) != LOCAL) {
        return damaged(a, "a zip directory entry that points to a member", at, err);
    }
    if (u16(p + 8) & 1 || (u16(p + 10) != 0 && u16(p + 10) != 8) || e.size == UINT32_MAX ||
        e.full_size == UINT32_MAX) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED,
                       "%s: member %.*s: expected it stored or deflated, unencrypted and under 4 GiB",
                       a->path, name < 64 ? (int)name : 64, (const char *)p + CENTRAL_SIZE);
    }
    e.first = local + LOCAL_SIZE + u16(map->data + local + 26) + u16(map->data + local + 28);
    if (e.first > map->size || e.size > map->size - e.first || (!e.deflated && e.size != e.full_size)) {
        return damaged(a, "a member inside the file", local, err);
    }
    if (name == 0 || memchr(p + CENTRAL_SIZE, '\0', name)) {
        return damaged(a, "a member's name, without NUL bytes", at + CENTRAL_SIZE, err);
    }
    e.name = ls_alloc_zeroed(a->heap, name + 1);
    if (!e.name) {
        return LS_FAIL_MEMORY(err, a->path);
    }
    memcpy(e.name, p + CENTRAL_SIZE, name);
    size_t shown = strlen(e.name);
    if (shown > 4 && strcmp(e.name + shown - 4, ".npy") == 0) {
        e.name[shown - 4] = '\0';
    }
    if (!ls_array_push(a->heap, &a->entries, e)) {
        ls_free(a->heap, e.name);
        return LS_FAIL_MEMORY(err, a->path);
    }
    *out_length = length;
    return LS_OK;
}

ls_status ls_npz_read(ls_archive *a, ls_error *err) {
    const ls_mapping *map = &a->file->map;
    const uint8_t *end = find_end(map);
    if (!end) {
        return damaged(a, "the end record of a zip archive: the file is cut short", map->size, err);
    }
    size_t count = u16(end + 10), size = u32(end + 12), first = u32(end + 16),
           limit = (size_t)(end - map->data);
    if (count == 0xffff || size == UINT32_MAX || first == UINT32_MAX) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED,
                       "%s: a zip64 archive: expected less than 4 GiB and 65,535 members", a->path);
    }
    if (first > limit || size > limit - first) {
        return damaged(a, "the zip directory before its end record", limit, err);
    }
    const uint8_t *p = map->data + first;
    for (size_t i = 0; i < count; i++) {
        size_t length = 0;
        LS_TRY(err, read_member(a, p, (size_t)(map->data + first + size - p), &length, err));
        p += length;
    }
    return ls_archive_check_names(a, err);
}

static bool inflate_member(const uint8_t *from, size_t size, uint8_t *to, size_t full_size) {
    z_stream z = {
        .next_in = (uint8_t *)from, .avail_in = (uInt)size, .next_out = to, .avail_out = (uInt)full_size};
    if (inflateInit2(&z, -MAX_WBITS) != Z_OK) {
        return false;
    }
    int code = inflate(&z, Z_FINISH);
    bool ok = code == Z_STREAM_END && z.avail_out == 0 && z.avail_in == 0;
    inflateEnd(&z);
    return ok;
}

ls_status ls_npz_get(ls_archive *a, const ls_archive_entry *e, ls_data **out_data, ls_error *err) {
    const uint8_t *stored = a->file->map.data + e->first, *bytes = stored;
    uint8_t *unpacked = NULL;
    if (e->deflated) {
        if (e->full_size / 1100 > e->size) { /* deflate packs at most 1:1032 */
            return LS_FAIL(
                err, LS_ERR_FORMAT,
                "%s: member %s: %zu bytes from %zu packed ones: expected a size that deflate can reach",
                a->path, e->name, e->full_size, e->size);
        }
        bytes = unpacked = ls_alloc(a->heap, e->full_size);
        if (!unpacked) {
            return LS_FAIL_MEMORY(err, a->path);
        }
    }
    ls_status status = LS_OK;
    if (unpacked && !inflate_member(stored, e->size, unpacked, e->full_size)) {
        status = LS_FAIL(err, LS_ERR_FORMAT, "%s: member %s: expected deflated data of %zu bytes", a->path,
                         e->name, e->full_size);
    } else if (crc32_z(0, bytes, e->full_size) != e->crc) {
        status = LS_FAIL(err, LS_ERR_FORMAT,
                         "%s: member %s: its CRC is not the one in the directory: the file is damaged",
                         a->path, e->name);
    } else {
        status = ls_npy_parse(a->context, a->path, e->name, bytes, e->full_size, out_data, err);
    }
    ls_free(a->heap, unpacked);
    return status;
}

/* ---- writing: members are stored, as numpy.savez does ---- */

typedef struct member {
    uint32_t crc, size, offset;
} member;

static void fill_common(uint8_t *p, const member *m,
                        size_t name) { /* from "version needed" to the lengths, in both headers */
    put16(p, 20);
    put16(p + 2, 0x800); /* names are UTF-8 */
    put16(p + 4, 0);
    put32(p + 6, 0x00210000); /* 1 January 1980: the same bytes for the same arrays */
    put32(p + 10, m->crc);
    put32(p + 14, m->size);
    put32(p + 18, m->size);
    put16(p + 22, (uint32_t)name);
    put16(p + 24, 0);
}

static ls_status write_member(ls_file_writer *w, const ls_named_data *n, member *m, ls_error *err) {
    char header[256];
    uint8_t local[LOCAL_SIZE];
    size_t head = ls_npy_header(n->data, header), name = strlen(n->name) + 4;
    m->crc = (uint32_t)crc32_z(0, (const uint8_t *)header, head);
    m->crc = (uint32_t)crc32_z(m->crc, ls_data_bytes(n->data), ls_data_size(n->data));
    m->size = (uint32_t)(head + ls_data_size(n->data));
    put32(local, LOCAL);
    fill_common(local + 4, m, name);
    LS_TRY(err, ls_file_write(w, local, sizeof local, err));
    LS_TRY(err, ls_file_write(w, n->name, name - 4, err));
    LS_TRY(err, ls_file_write(w, ".npy", 4, err));
    LS_TRY(err, ls_file_write(w, header, head, err));
    return ls_file_write(w, ls_data_bytes(n->data), ls_data_size(n->data), err);
}

static ls_status write_directory(ls_file_writer *w, const ls_named_data *arrays, const member *members,
                                 int count, size_t first, ls_error *err) {
    size_t at = first;
    for (int i = 0; i < count; i++) {
        uint8_t central[CENTRAL_SIZE] = {0};
        size_t name = strlen(arrays[i].name) + 4;
        put32(central, CENTRAL);
        put16(central + 4, 20);
        fill_common(central + 6, &members[i], name);
        put32(central + 42, members[i].offset);
        LS_TRY(err, ls_file_write(w, central, sizeof central, err));
        LS_TRY(err, ls_file_write(w, arrays[i].name, name - 4, err));
        LS_TRY(err, ls_file_write(w, ".npy", 4, err));
        at += CENTRAL_SIZE + name;
    }
    uint8_t end[END_SIZE] = {0};
    put32(end, END);
    put16(end + 8, (uint32_t)count);
    put16(end + 10, (uint32_t)count);
    put32(end + 12, (uint32_t)(at - first));
    put32(end + 16, (uint32_t)first);
    return ls_file_write(w, end, sizeof end, err);
}

static ls_status write_all(ls_file_writer *w, const ls_named_data *arrays, member *members, int count,
                           ls_error *err) {
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        members[i].offset = (uint32_t)at;
        LS_TRY(err, write_member(w, &arrays[i], &members[i], err));
        at += LOCAL_SIZE + strlen(arrays[i].name) + 4 + members[i].size;
    }
    return write_directory(w, arrays, members, count, at, err);
}

static ls_status check_names(const char *path, const ls_named_data *arrays, int count, ls_error *err) {
    for (int i = 0; i < count; i++) {
        size_t n = strlen(arrays[i].name);
        if (n == 0 || n > 65000) {
            return LS_FAIL(err, LS_ERR_INVALID, "%s: array name \"%.64s\": expected 1 to 65,000 bytes", path,
                           arrays[i].name);
        }
        for (int k = 0; k < i; k++) {
            if (strcmp(arrays[k].name, arrays[i].name) == 0) {
                return LS_FAIL(err, LS_ERR_INVALID, "%s: two arrays are named \"%s\"", path, arrays[i].name);
            }
        }
    }
    return LS_OK;
}

ls_status ls_npz_save(ls_context *context, const char *path, int count, const ls_named_data *arrays,
                      ls_error *err) {
    ls_heap *heap = ls_context_heap(context);
    size_t total = 0;
    LS_TRY(err, check_names(path, arrays, count, err));
    for (int i = 0; i < count; i++) {
        total += ls_data_size(arrays[i].data) + strlen(arrays[i].name) * 2 + 512;
    }
    if (count > 65534 || total > UINT32_MAX) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED,
                       "%s: %d arrays of %zu bytes: expected under 65,535 of them and 4 GiB", path, count,
                       total);
    }
    member *members = ls_alloc_zeroed(heap, sizeof *members * (size_t)(count + 1));
    ls_file_writer *w = NULL;
    ls_status status = members ? ls_file_create(heap, path, &w, err) : LS_FAIL_MEMORY(err, path);
    if (status == LS_OK) {
        status = write_all(w, arrays, members, count, err);
        if (status == LS_OK) {
            status = ls_file_commit(w, err);
        } else {
            ls_file_abandon(w);
        }
    }
    ls_free(heap, members);
    return status;
}
