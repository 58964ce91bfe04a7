/* Archives of named arrays: what npz and safetensors share. */
#ifndef LOCKSTEP_IO_ARCHIVE_H
#define LOCKSTEP_IO_ARCHIVE_H

#include "base/array.h"
#include "base/os.h"
#include "base/status.h"
#include <lockstep/io.h>

/* A mapped file, or an array that holds one; lives as long as the last array over it. */
typedef struct ls_mapped_file {
    ls_heap *heap;
    atomic_long refs;
    ls_mapping map;
    ls_data *data; /* whose bytes `map` is; NULL: mapped */
} ls_mapped_file;
ls_status ls_mapped_file_open(ls_heap *heap, const char *path, ls_mapped_file **out_file,
                              ls_error *err) LS_MUST_USE;
void ls_mapped_file_release(void *file);

typedef struct ls_archive_entry {
    char *name;
    size_t position; /* in the file's own order */
    ls_dtype dtype;  /* safetensors */
    int rank;
    int64_t dims[LS_MAX_RANK];
    size_t first, size;     /* bytes in the file: of the array; npz: of the member as it is stored */
    size_t full_size;       /* npz: of the member unpacked */
    uint32_t crc;           /* npz */
    bool deflated, checked; /* npz; safetensors: its checksum was compared */
} ls_archive_entry;

struct ls_archive {
    ls_context *context;
    ls_heap *heap;
    char *path;
    ls_mapped_file *file;
    bool zip;
    LS_ARRAY(ls_archive_entry) entries;
    LS_ARRAY(char *) metadata; /* key, value, key, value, ... */
};

/* Keys of checksums in a safetensors file's metadata: of the SHA-256, and of arrays that are not small also of the CRC-32C of four lanes (crc.h), which
 * takes a fiftieth of the time, or a fifth where a processor has instructions for SHA-256. A reader compares one. */
#define LS_ARCHIVE_SHA "sha256."
#define LS_ARCHIVE_CRC "crc32cx4."
enum { LS_ARCHIVE_NAME = 280, LS_ARCHIVE_KEY = 300, LS_ARCHIVE_SMALL = 1 << 10 };
bool ls_archive_sum(bool crc, const void *bytes, size_t size, char out_hex[65]); /* false: this build has no CRC */

/* Fill `entries` from the mapped file. */
ls_status ls_safetensors_read(ls_archive *archive, ls_error *err) LS_MUST_USE;
ls_status ls_npz_read(ls_archive *archive, ls_error *err) LS_MUST_USE;
ls_status ls_npz_get(ls_archive *archive, const ls_archive_entry *entry, ls_data **out_data,
                     ls_error *err) LS_MUST_USE;

/* A .npy array in memory; `path` and `member` (or NULL) are for messages. (npy.c) */
ls_status ls_npy_parse(ls_context *context, const char *path, const char *member, const uint8_t *bytes,
                       size_t size, ls_data **out_data, ls_error *err) LS_MUST_USE;
/* Refuses a bool array with a byte that is neither 0 nor 1. */
ls_status ls_bools_check(const char *path, const char *name, ls_dtype dtype, const uint8_t *bytes,
                         size_t size, ls_error *err) LS_MUST_USE;
/* Refuses two entries of one name, in no more time than a sort takes. */
ls_status ls_archive_check_names(ls_archive *archive, ls_error *err) LS_MUST_USE;
/* The header of a .npy file, padded to 64; returns its length, at most 256 bytes. */
size_t ls_npy_header(const ls_data *data, char out_header[256]);

#endif
