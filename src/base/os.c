/* POSIX files, clocks and processors. A file being written lives under a fresh name beside its target until it is
 * whole and on the disk; only then does rename put it in place. */
#define _GNU_SOURCE
#include "base/os.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#if !defined(__wasi__)
#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#endif

bool ls_os_use_amx(void) {
#if defined(__linux__) && defined(__x86_64__)
    enum { ASK_FOR_STATE = 0x1023, TILE_DATA = 18 };
    static _Atomic int answer; /* 1: yes, -1: no */
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    if (!known) {
        known = syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0 ? 1 : -1;
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known > 0;
#else
    return false;
#endif
}

uint64_t ls_os_nanoseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

const char *ls_os_env(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* strerror is not thread-safe and strerror_r has two shapes; strerror_l has one. */
static ls_status fail_errno(ls_error *err, const char *what, const char *path, int code) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    ls_status status = LS_FAIL(err, code == ENOMEM ? LS_ERR_MEMORY : LS_ERR_IO, "cannot %s %s: %s", what,
                               path, c ? strerror_l(code, c) : "unknown error");
    if (c) {
        freelocale(c);
    }
    return status;
}

#if defined(__wasi__) /* one thread, no libraries, no mapped files, no links, modes or processes */

int ls_os_cores(void) {
    return 1;
}

ls_os_library *ls_os_library_open(const char *const *names, const char **out_reason) {
    (void)names;
    if (out_reason) {
        *out_reason = "WebAssembly has no libraries to open";
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

void ls_os_library_keep(const char *name) {
    (void)name;
}

static ls_status map_whole(int fd, const char *path, size_t size, ls_mapping *out_map, ls_error *err) {
    uint8_t *data = malloc(size);
    if (!data) {
        return LS_FAIL_MEMORY(err, path);
    }
    for (size_t at = 0; at < size;) {
        ssize_t n = read(fd, data + at, size - at);
        if (n <= 0) {
            free(data);
            return fail_errno(err, "read", path, n < 0 ? errno : EIO);
        }
        at += (size_t)n;
    }
    *out_map = (ls_mapping){data, size};
    return LS_OK;
}

void ls_file_unmap(ls_mapping *map) {
    free((void *)(uintptr_t)map->data);
    *map = (ls_mapping){0};
}

/* Debian's compiler-rt for wasm32 (128-bit division) was compiled with stack protectors, which wasi-libc does not have. */
uintptr_t __stack_chk_guard = 0x5ca1ab1e;
_Noreturn void __stack_chk_fail(void);
_Noreturn void __stack_chk_fail(void) {
    __builtin_trap();
}

static char *resolve(const char *path) {
    (void)path;
    return NULL;
}

static void copy_mode(int fd, const struct stat *st) {
    (void)fd, (void)st;
}

static long process(void) {
    return 0;
}

#else

int ls_os_cores(void) {
#if defined(__linux__)
    cpu_set_t set;
    if (!sched_getaffinity(0, sizeof set, &set)) {
        int n = CPU_COUNT(&set);
        return n > 0 ? n : 1;
    }
#endif
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (int)n : 1;
}

ls_os_library *ls_os_library_open(const char *const *names, const char **out_reason) {
    const char *reason = "no name given";
    for (; *names; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (library) {
            return library;
        }
        reason = dlerror();
    }
    if (out_reason) {
        *out_reason = reason ? reason : "unknown reason";
    }
    return NULL;
}

void *ls_os_library_symbol(ls_os_library *library, const char *name) {
    return dlsym(library, name);
}

void ls_os_library_close(ls_os_library *library) {
    if (library) {
        dlclose(library);
    }
}

void ls_os_library_keep(const char *name) {
    (void)dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE);
}

static ls_status map_whole(int fd, const char *path, size_t size, ls_mapping *out_map, ls_error *err) {
    void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
        return fail_errno(err, "map", path, errno);
    }
    *out_map = (ls_mapping){data, size};
    return LS_OK;
}

void ls_file_unmap(ls_mapping *map) {
    if (map->data) {
        munmap((void *)(uintptr_t)map->data, map->size);
    }
    *map = (ls_mapping){0};
}

static char *resolve(const char *path) {
    return realpath(path, NULL);
}

static void copy_mode(int fd, const struct stat *st) {
    (void)!fchmod(fd, st->st_mode & 07777); /* as before, where we may */
}

static long process(void) {
    return (long)getpid();
}

#endif

ls_status ls_file_map(const char *path, ls_mapping *out_map, ls_error *err) {
    *out_map = (ls_mapping){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe without a writer is no reason to wait */
    if (fd < 0) {
        return fail_errno(err, "open", path, errno);
    }
    struct stat st;
    ls_status status = LS_OK;
    if (fstat(fd, &st)) {
        status = fail_errno(err, "read", path, errno);
    } else if (!S_ISREG(st.st_mode)) {
        status = S_ISDIR(st.st_mode) ? fail_errno(err, "read", path, EISDIR)
                                     : LS_FAIL(err, LS_ERR_IO, "cannot read %s: not a regular file", path);
    } else if (st.st_size > 0) {
        status = (uint64_t)st.st_size > SIZE_MAX ? fail_errno(err, "map", path, EFBIG)
                                                 : map_whole(fd, path, (size_t)st.st_size, out_map, err);
    }
    close(fd);
    return status;
}

enum { WRITE_BUFFER = 1 << 16 };

struct ls_file_writer {
    ls_heap *heap;
    char *path;   /* as the caller named it, for messages */
    char *target; /* symbolic links resolved */
    char *temp;   /* NULL: the target is a device or a pipe, written in place */
    int fd;
    size_t len;
    uint8_t buffer[WRITE_BUFFER];
};

static void writer_free(ls_file_writer *w) {
    ls_heap *heap = w->heap;
    ls_free(heap, w->path);
    ls_free(heap, w->target);
    ls_free(heap, w->temp);
    ls_free(heap, w);
}

static ls_file_writer *writer_new(ls_heap *heap, const char *path) {
    ls_file_writer *w = ls_alloc(heap, sizeof *w);
    if (!w) {
        return NULL;
    }
    *w = (ls_file_writer){.heap = heap, .fd = -1};
    char *real = resolve(path); /* NULL when there is no such file yet */
    w->path = ls_strdup(heap, path);
    w->target = ls_strdup(heap, real ? real : path);
    free(real);
    if (!w->path || !w->target) {
        writer_free(w);
        return NULL;
    }
    return w;
}

/* Opens a name beside the target that nothing has; O_EXCL never follows a link that someone put there. */
static ls_status writer_open_temp(ls_file_writer *w, ls_error *err) {
    size_t size = strlen(w->target) + 40;
    w->temp = ls_alloc(w->heap, size);
    if (!w->temp) {
        return LS_FAIL_MEMORY(err, w->path);
    }
    for (int attempt = 0; attempt < 100; attempt++) {
        snprintf(w->temp, size, "%s.%lx-%llx.tmp", w->target, process(),
                 (unsigned long long)ls_os_nanoseconds());
        w->fd = open(w->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (w->fd >= 0 || errno != EEXIST) {
            break;
        }
    }
    return w->fd >= 0 ? LS_OK : fail_errno(err, "write", w->path, errno);
}

ls_status ls_file_create(ls_heap *heap, const char *path, ls_file_writer **out_writer, ls_error *err) {
    *out_writer = NULL;
    ls_file_writer *w = writer_new(heap, path);
    if (!w) {
        return LS_FAIL_MEMORY(err, path);
    }
    struct stat st;
    ls_status status = LS_OK;
    bool exists = !stat(w->target, &st);
    if (exists && S_ISDIR(st.st_mode)) {
        status = fail_errno(err, "write", path, EISDIR);
    } else if (exists && !S_ISREG(st.st_mode)) {
        w->fd = open(w->target, O_WRONLY | O_CLOEXEC);
        status = w->fd >= 0 ? LS_OK : fail_errno(err, "write", path, errno);
    } else if (exists && access(w->target, W_OK)) {
        status = fail_errno(err, "write", path, errno); /* rename alone would overwrite a read-only file */
    } else {
        status = writer_open_temp(w, err);
        if (status == LS_OK && exists) {
            copy_mode(w->fd, &st);
        }
    }
    if (status != LS_OK) {
        writer_free(w);
        return status;
    }
    *out_writer = w;
    return LS_OK;
}

static ls_status write_all(ls_file_writer *w, const uint8_t *data, size_t size, ls_error *err) {
    while (size) {
        ssize_t n = write(w->fd, data, size > (1u << 30) ? (1u << 30) : size);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return fail_errno(err, "write", w->path, errno);
        }
        data += n;
        size -= (size_t)n;
    }
    return LS_OK;
}

static ls_status writer_flush(ls_file_writer *w, ls_error *err) {
    size_t len = w->len;
    w->len = 0;
    return write_all(w, w->buffer, len, err);
}

ls_status ls_file_write(ls_file_writer *w, const void *data, size_t size, ls_error *err) {
    if (size > WRITE_BUFFER - w->len) {
        LS_TRY(err, writer_flush(w, err));
        if (size >= WRITE_BUFFER) {
            return write_all(w, data, size, err);
        }
    }
    if (size) {
        memcpy(w->buffer + w->len, data, size);
        w->len += size;
    }
    return LS_OK;
}

/* A rename is on the disk only when its directory is. */
static void sync_folder(const char *path, char *scratch) {
    strcpy(scratch, path);
    char *slash = strrchr(scratch, '/');
    if (!slash) {
        strcpy(scratch, ".");
    } else {
        slash[slash == scratch] = 0;
    }
    int fd = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!fsync(fd); /* some file systems refuse this; the rename itself has been done */
        close(fd);
    }
}

ls_status ls_file_commit(ls_file_writer *w, ls_error *err) {
    ls_status status = writer_flush(w, err);
    if (status == LS_OK && w->temp && fsync(w->fd)) {
        status = fail_errno(err, "write", w->path, errno);
    }
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) && status == LS_OK) {
        status = fail_errno(err, "write", w->path, errno);
    }
    if (status == LS_OK && w->temp && rename(w->temp, w->target)) {
        status = fail_errno(err, "write", w->path, errno);
    }
    if (status != LS_OK) {
        ls_file_abandon(w);
        return status;
    }
    if (w->temp) {
        sync_folder(w->target, w->temp); /* the temporary name is longer, and done with */
    }
    writer_free(w);
    return LS_OK;
}

void ls_file_abandon(ls_file_writer *w) {
    if (w) {
        if (w->fd >= 0) {
            close(w->fd);
        }
        if (w->temp) {
            unlink(w->temp);
        }
        writer_free(w);
    }
}
