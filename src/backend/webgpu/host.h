/* What the backend needs of a WebGPU: the native one (dawn.c) or a page's.
 *
 * A host is single-threaded: its caller holds a lock. Nothing here blocks but `wait`, and that not in a page: there answers
 * come between calls into the library only, so the host says that it is `late` and late.c stands before it. WebGPU answers
 * late: objects are there at once, and whether they are good is known when `unsettled` has come down to 0 again. The fields of
 * ls_webgpu_host are the answers; they change inside calls only.
 *
 * Commands are recorded by `dispatch` and `copy`, take effect in order when `submit` is called, and see all that was
 * written before. `write` takes effect at once: before what is recorded and not submitted.
 */
#ifndef LOCKSTEP_BACKEND_WEBGPU_HOST_H
#define LOCKSTEP_BACKEND_WEBGPU_HOST_H

#include "base/alloc.h"
#include "base/status.h"
#include <stdint.h>

typedef struct ls_webgpu_host ls_webgpu_host;

typedef enum ls_webgpu_use {
    LS_WEBGPU_STORAGE, /* bound for reading and writing, copied from and to, written */
    LS_WEBGPU_STAGING, /* uniform and read-only storage, copied from, written */
    LS_WEBGPU_READBACK, /* copied to, mapped for reading */
    LS_WEBGPU_TIMES /* timestamps are put there; copied from */
} ls_webgpu_use;

typedef struct ls_webgpu_binding {
    void *buffer;
    uint64_t offset, size; /* bytes; offset a multiple of limits.align, size of 4 */
} ls_webgpu_binding;

enum { LS_WEBGPU_TIMERS = 512 };

typedef struct ls_webgpu_pipeline_desc {
    const char *name, *wgsl; /* entry point main */
    int n_storage;           /* bindings 0.. of group 0 */
    uint32_t read_only;      /* bit b: storage binding b is var<storage, read> */
    uint32_t uniform_size;   /* bytes of the uniform at binding n_storage, with an offset given at dispatch; 0: none */
} ls_webgpu_pipeline_desc;

typedef struct ls_webgpu_host_api {
    /* NULL when out of host memory. */
    void *(*buffer_new)(ls_webgpu_host *host, uint64_t size, ls_webgpu_use use);
    void (*buffer_free)(ls_webgpu_host *host, void *buffer); /* submitted work keeps it */
    void *(*pipeline_new)(ls_webgpu_host *host, const ls_webgpu_pipeline_desc *desc);
    void (*pipeline_free)(ls_webgpu_host *host, void *pipeline);
    /* What is wrong with a settled pipeline; NULL: nothing. NULL where `error` tells. */
    const char *(*pipeline_error)(ls_webgpu_host *host, void *pipeline);
    /* The buffers of a dispatch: n_storage bindings, and where the uniform lies. */
    void *(*group_new)(ls_webgpu_host *host, void *pipeline, const ls_webgpu_binding *storage, void *uniform);
    void (*group_free)(ls_webgpu_host *host, void *group);

    /* `written`: bit b: the kernel writes storage binding b. `timer`, where limits.timestamps: 1 + the number (below
     * LS_WEBGPU_TIMERS) of the timer that measures it; 0: none. */
    void (*dispatch)(ls_webgpu_host *host, void *pipeline, void *group, uint32_t uniform_offset, const uint32_t groups[3],
                     uint32_t written, int timer);
    void (*discard)(ls_webgpu_host *host, void *buffer); /* recorded: what it holds is not needed any more; NULL: no matter */
    /* Recorded like a command: the timestamps of timers 0 to n - 1, begin and end of each in nanoseconds, u64, into a buffer
     * of use TIMES. */
    void (*resolve)(ls_webgpu_host *host, int n, void *buffer);
    /* Offsets and size are multiples of 4; two buffers. */
    void (*copy)(ls_webgpu_host *host, void *to, uint64_t to_offset, void *from, uint64_t from_offset, uint64_t size);
    void (*write)(ls_webgpu_host *host, void *buffer, uint64_t offset, const void *data, size_t size);
    void (*submit)(ls_webgpu_host *host); /* counts `submitted` up */

    /* Begins to map the first `size` bytes of a READBACK buffer. `mapping` counts those that have not come; when it is 0
     * again, `mapped` gives the bytes of each, until it is unmapped, or NULL after an error. */
    void (*map)(ls_webgpu_host *host, void *buffer, size_t size);
    const void *(*mapped)(ls_webgpu_host *host, void *buffer, size_t size);
    void (*unmap)(ls_webgpu_host *host, void *buffer);
    /* Of late.c alone, else NULL: bytes of a buffer, valid until the next call; NULL when they have not come yet. */
    const void *(*read)(ls_webgpu_host *host, void *buffer, uint64_t offset, size_t size);

    /* Lets answers come in: at once with 0, else until one came or so many nanoseconds have passed. */
    void (*wait)(ls_webgpu_host *host, uint64_t nanoseconds);
    void (*lose)(ls_webgpu_host *host); /* for tests: the device is lost, as when its driver resets it; NULL: cannot */
    void (*close)(ls_webgpu_host *host); /* frees the host */
} ls_webgpu_host_api;

typedef struct ls_webgpu_limits {
    uint64_t max_buffer, max_binding;
    uint32_t align; /* of bindings' offsets, storage and uniform */
    uint32_t max_storage, max_shared, max_threads, max_size[3], max_groups;
    bool f16, subgroups, timestamps;
    uint32_t subgroup_min, subgroup_max; /* 0: unknown */
} ls_webgpu_limits;

struct ls_webgpu_host {
    const ls_webgpu_host_api *api;
    ls_heap *heap;
    char name[128], driver[128]; /* of the adapter; its driver and version, all that a compiled kernel depends on */
    ls_webgpu_limits limits;
    bool late;                     /* it cannot wait: `wait` only looks, and buffers do not count as unsettled */
    uint64_t submitted, completed; /* numbers of submits */
    int unsettled;                 /* objects whose goodness is not known */
    int mapping;
    bool lost;
    bool cached; /* the last new pipeline was made of what the disk cache had */
    /* The first error since somebody set it back to LS_OK: LS_ERR_MEMORY, LS_ERR_DEVICE, or LS_ERR_INTERNAL for what the
     * WebGPU calls invalid. */
    ls_status error;
    char message[2048];
};

/* The host of this build: dawn.c, or in a page web/src/host.c. LS_ERR_DEVICE with the reason, and what to install, when there is
 * none. */
ls_status ls_webgpu_open_host(ls_heap *heap, int index, ls_webgpu_host **out_host, ls_error *err) LS_MUST_USE;

/* A host over another, which it takes over, also on failure: what it cannot give at once it gives when the same is asked for
 * again. See late.c. */
ls_status ls_webgpu_late(ls_heap *heap, ls_webgpu_host *inner, ls_webgpu_host **out_host, ls_error *err) LS_MUST_USE;

#endif
