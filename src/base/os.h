/* The operating system: clocks, environment, processors, files. Every platform #if of the library is in os.c, pages.c, numerics.c
 * and thread.c. */
#ifndef LOCKSTEP_BASE_OS_H
#define LOCKSTEP_BASE_OS_H

#include "base/alloc.h"
#include "base/status.h"
#include <stdint.h>

uint64_t ls_os_nanoseconds(void); /* monotonic */
int ls_os_cores(void);            /* cores this process may run on; at least 1 */
const char *ls_os_env(const char *name); /* NULL when unset or empty */

/* Asks the system for the registers of x86's matrix unit (AMX), once in a process, for all of its threads; false: it has none to give. The frames of
 * signals grow by 8 KB with them: a stack for signals that is too small for that is refused from then on. */
bool ls_os_use_amx(void);

/* Libraries of drivers, opened at run time. `names` are tried in order until one opens; the list ends in NULL. NULL when none
 * does; then *out_reason, if asked for, is the system's text about the last (valid until the next call on this thread).
 * Many drivers leave threads and handlers behind: close only a library whose entry points were never called. */
typedef struct ls_os_library ls_os_library;
ls_os_library *ls_os_library_open(const char *const *names, const char **out_reason);
/* The address of a symbol, NULL when there is none. Copy it into a function pointer with memcpy. */
void *ls_os_library_symbol(ls_os_library *library, const char *name);
void ls_os_library_close(ls_os_library *library); /* NULL is allowed */
void ls_os_library_keep(const char *name);        /* a library that is loaded, by whomever, stays so until the process ends */

/* A whole file mapped for reading. A size of 0 has data NULL. */
typedef struct ls_mapping {
    const uint8_t *data;
    size_t size;
} ls_mapping;
ls_status ls_file_map(const char *path, ls_mapping *out_map, ls_error *err) LS_MUST_USE;
void ls_file_unmap(ls_mapping *map);

/* Writes a file whole or not at all: a temporary file beside it, fsync, rename. On any failure (a full disk too) the old
 * file stays as it was and the temporary one is removed. */
typedef struct ls_file_writer ls_file_writer;
ls_status ls_file_create(ls_heap *heap, const char *path, ls_file_writer **out_writer, ls_error *err) LS_MUST_USE;
ls_status ls_file_write(ls_file_writer *writer, const void *data, size_t size, ls_error *err) LS_MUST_USE;
ls_status ls_file_commit(ls_file_writer *writer, ls_error *err) LS_MUST_USE; /* frees the writer in every case */
void ls_file_abandon(ls_file_writer *writer);                                /* NULL is allowed */

#endif
