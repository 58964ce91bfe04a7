/* Folders of the program's own: made, listed, and their files written whole, for the disk cache. Paths are the caller's;
 * nothing here needs more than the stack. */
#ifndef LOCKSTEP_BASE_FOLDER_H
#define LOCKSTEP_BASE_FOLDER_H

#include "base/os.h"
#include <stdbool.h>

#define LS_PATH_MAX 1024

/* Makes a folder that only its owner may look into (0700), and those above it that are missing. One that is there must be
 * the caller's and not writable by others. */
ls_status ls_folder_make(const char *path, ls_error *err) LS_MUST_USE;

typedef struct ls_folder_file {
    const char *name;
    uint64_t size;
    int64_t used; /* nanoseconds since the epoch: when it was last written or touched */
} ls_folder_file;
typedef void (*ls_folder_fn)(void *user, const ls_folder_file *file);
/* Every plain file of a folder, in no order. A folder that is missing has none. The function may remove files. */
ls_status ls_folder_each(const char *path, ls_folder_fn each, void *user, ls_error *err) LS_MUST_USE;

bool ls_file_touch(const char *path);  /* marks it as used now */
bool ls_file_remove(const char *path);
bool ls_file_set_used(const char *path, int64_t used); /* for tests: as if last used then */
/* Writes a file of its owner's alone (0600), in pieces, through a name beside it that is renamed: others see the old file
 * or the whole new one. It is not forced to the disk: a reader must be able to tell a broken one. False, leaving nothing
 * behind, when it cannot. */
typedef struct ls_bytes {
    const void *data;
    size_t size;
} ls_bytes;
bool ls_file_put(const char *path, const ls_bytes *pieces, int n);

#endif
