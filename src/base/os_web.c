/* os.c in the modules of pages, which have no files, no environment, no libraries and one thread. */
#define _POSIX_C_SOURCE 200809L
#include "base/os.h"
#include <stddef.h>
#include <time.h>

bool ls_os_use_amx(void) {
    return false;
}

uint64_t ls_os_nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int ls_os_cores(void) {
    return 1;
}

const char *ls_os_env(const char *name) {
    (void)name;
    return NULL;
}

ls_os_library *ls_os_library_open(const char *const *names, const char **out_reason) {
    (void)names;
    if (out_reason) {
        *out_reason = "a page opens no libraries";
    }
    return NULL;
}

void *ls_os_library_symbol(ls_os_library *library, const char *name) {
    (void)library, (void)name;
    return NULL;
}

void ls_os_library_close(ls_os_library *library) {
    (void)library;
}

static ls_status no_file(const char *path, ls_error *err) {
    return LS_FAIL(err, LS_ERR_UNSUPPORTED, "%s: a page has no files", path);
}

ls_status ls_file_map(const char *path, ls_mapping *out_map, ls_error *err) {
    *out_map = (ls_mapping){0};
    return no_file(path, err);
}

void ls_file_unmap(ls_mapping *map) {
    *map = (ls_mapping){0};
}

ls_status ls_file_create(ls_heap *heap, const char *path, ls_file_writer **out_writer, ls_error *err) {
    (void)heap;
    *out_writer = NULL;
    return no_file(path, err);
}

ls_status ls_file_write(ls_file_writer *writer, const void *data, size_t size, ls_error *err) {
    (void)writer, (void)data, (void)size;
    return no_file("", err);
}

ls_status ls_file_commit(ls_file_writer *writer, ls_error *err) {
    (void)writer;
    return no_file("", err);
}

void ls_file_abandon(ls_file_writer *writer) {
    (void)writer;
}

/* Debian's compiler-rt for wasm32 (128-bit division) was compiled with stack protectors, which wasi-libc does not have. */
uintptr_t __stack_chk_guard = 0x5ca1ab1e;
_Noreturn void __stack_chk_fail(void);
_Noreturn void __stack_chk_fail(void) {
    __builtin_trap();
}
