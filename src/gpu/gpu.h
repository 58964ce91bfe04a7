/* What the backends of devices with threads share: from a spec to rendered and compiled kernels, launches, memory in blocks,
 * and the probe that finds out what a device's arithmetic does by itself.
 *
 * A backend fills an ls_gpu_api (its driver: blocks of memory, pipelines, an in-order queue) and puts the functions below
 * into its table. An ls_gpu stands first in device->state. The queue is in order: every command sees what all before it
 * wrote, whoever recorded it. Commands may wait unsubmitted until `flush`.
 *
 * Threads: ls_gpu holds its lock around every call of the api.
 */
#ifndef LOCKSTEP_GPU_GPU_H
#define LOCKSTEP_GPU_GPU_H

#include "base/thread.h"
#include "device/device.h"
#include "emit/emit.h"
#include "kir/legal.h"

typedef struct ls_gpu_code {
    const ls_kernel *kernel; /* legal, simplified */
    const char *name;        /* of the spec and the part; for debuggers */
    const void *data;        /* SPIR-V words, or text that ends in NUL */
    size_t size;             /* bytes, without the NUL */
    int32_t n_words;         /* of parameters */
    bool *out_cached;        /* NULL: nobody asks; else set by `build` where the driver was given what it made before */
} ls_gpu_code;

/* A place in a block. */
typedef struct ls_gpu_range {
    void *block;
    size_t offset, size; /* bytes; offset is a multiple of the api's align */
} ls_gpu_range;

enum { LS_GPU_TIMERS = 512 };

typedef struct ls_gpu_dispatch {
    void *pipeline;
    const ls_kernel *kernel;
    const ls_gpu_range *bindings; /* kernel->n_globals */
    const uint32_t *words;
    int32_t n_words;
    uint32_t groups[3]; /* none is 0 */
    int32_t timer;      /* 1 + the number of the timer, below LS_GPU_TIMERS, that measures it; 0: none */
} ls_gpu_dispatch;

/* Products by a library of the device's vendor. A pipeline of it is dropped as any. LS_ERR_UNSUPPORTED with the reason alone:
 * what is missing, or what the library does not do. */
typedef struct ls_gpu_vendor {
    ls_status (*build)(void *driver, const ls_emit_matrices *matrices, ls_math math, void **out_pipeline, ls_error *err);
    ls_status (*run)(void *driver, void *pipeline, const ls_gpu_range places[3], int32_t timer, ls_error *err); /* a, b, result */
} ls_gpu_vendor;

typedef struct ls_gpu_limits {
    uint32_t traits;        /* ls_ktrait: what the language has; the probe takes away what the device gets wrong */
    size_t align;           /* of a binding's offset; 1: any, and bindings are bare pointers */
    size_t max_binding;     /* bytes */
    size_t block;           /* bytes of the blocks that small buffers share; 0: each buffer is a block of its own */
    size_t max_shared;      /* bytes of a workgroup's shared memory */
    int32_t max_bindings;   /* storage bindings of a kernel */
    int32_t max_words;      /* of parameters */
    int32_t max_groups;     /* workgroups on an axis of the grid */
    int32_t max_threads;    /* of a workgroup */
    bool overlap;           /* two bindings may be the same place, one of them written */
    int32_t subgroup;       /* threads of a subgroup, the same in every kernel; 0: not known */
    const ls_gpu_vendor *vendor; /* NULL: none */
    int32_t n_frags;        /* matrix instructions */
    ls_emit_frag frags[LS_EMIT_FRAGS];
    bool frag_words;        /* copies into shared memory go on by themselves (emit.h) */
    const char *clock;      /* the name of what measures dispatches; NULL: there is no `times` */
    bool products;          /* whole products of halves by a workgroup: PRODUCT */
} ls_gpu_limits;

typedef struct ls_gpu_api {
    /* `driver` is the backend's own state of the device. Errors name the driver's call and its code. After LS_ERR_DEVICE (the
     * device is lost) every later call gives LS_ERR_DEVICE too, and none hangs. Where device->late, `read`, `build` and a
     * blocking `wait` may give LS_ERR_AGAIN. */
    ls_status (*block_new)(void *driver, size_t size, void **out_block, ls_error *err);
    void (*block_free)(void *driver, void *block); /* waits for what uses it */
    void (*discard)(void *driver, void *block);    /* what it holds is not needed any more; NULL: no matter */
    /* In the queue's order. `data` may be reused when the call returns; read waits for its bytes. Sizes and offsets may be
     * any; `from` and `to` of a copy may be one block, never overlapping. */
    ls_status (*write)(void *driver, void *block, size_t offset, const void *data, size_t size, ls_error *err);
    ls_status (*read)(void *driver, void *block, size_t offset, void *data, size_t size, ls_error *err);
    ls_status (*copy)(void *driver, void *to, size_t to_offset, void *from, size_t from_offset, size_t size, ls_error *err);
    ls_status (*render)(void *driver, ls_arena *arena, const ls_kernel *kernel, ls_gpu_code *out_code, ls_error *err);
    ls_status (*build)(void *driver, const ls_gpu_code *code, void **out_pipeline, ls_error *err);
    void (*drop)(void *driver, void *pipeline); /* waits for what uses it */
    ls_status (*dispatch)(void *driver, const ls_gpu_dispatch *dispatch, ls_error *err);
    /* Submits what was recorded; the ticket is done when all of it is. `out_ticket` NULL: nobody waits for it yet, and a driver
     * that has enough to do may submit it together with what follows. */
    ls_status (*flush)(void *driver, uint64_t *out_ticket, ls_error *err);
    ls_status (*wait)(void *driver, uint64_t ticket, int blocking, int *out_done, ls_error *err);
    /* How long the dispatches of timers 0 to n - 1 ran by the device's clock, in nanoseconds: the last that each measured.
     * Waits for them. */
    ls_status (*times)(void *driver, uint64_t *out_ns, int n, ls_error *err);
} ls_gpu_api;

typedef struct ls_gpu ls_gpu;
/* Begins: `limits` as the backend knows them. Then ls_gpu_probe. The gpu is the device's heap's; the caller frees it. */
ls_status ls_gpu_create(ls_device *device, const ls_gpu_api *api, void *driver, const ls_gpu_limits *limits, ls_gpu **out_gpu,
                        ls_error *err) LS_MUST_USE;
/* Takes away the traits that the device gets wrong, by kernels of one instruction over awkward bits, compared with
 * ls_kir_eval. Fills caps.arithmetic with what is done another way. An error when even the other ways come out wrong. */
ls_status ls_gpu_probe(ls_gpu *gpu, ls_error *err) LS_MUST_USE;
void ls_gpu_free(ls_gpu *gpu); /* frees all blocks; NULL is allowed */
const ls_gpu_limits *ls_gpu_get_limits(const ls_gpu *gpu);
void *ls_gpu_driver(const ls_gpu *gpu);
/* Whether a kernel writes the memory of a binding. */
bool ls_gpu_writes(const ls_kernel *kernel, int32_t binding);
/* What of emit/cover.def was launched since the device was opened, and what its limits allow, as bits 1 << ls_cover. */
void ls_gpu_covered(ls_gpu *gpu, uint32_t *out_launched, uint32_t *out_possible);

/* Entries of the backend's table. device->state is the ls_gpu. */
ls_status ls_gpu_alloc(ls_device *device, size_t size, void **out_handle, ls_error *err);
void ls_gpu_release(ls_device *device, void *handle, size_t size);
ls_status ls_gpu_upload(ls_device *device, ls_buffer *dst, size_t offset, const void *src, size_t size, ls_error *err);
ls_status ls_gpu_download(ls_device *device, const ls_buffer *src, size_t offset, void *dst, size_t size, ls_error *err);
ls_status ls_gpu_copy(ls_device *device, ls_buffer *dst, size_t dst_offset, const ls_buffer *src, size_t src_offset,
                      size_t size, ls_error *err);
ls_status ls_gpu_compile(ls_device *device, const struct ls_spec *spec, const char *strategy, ls_kernel_binary **out_binary,
                         ls_error *err);
void ls_gpu_destroy(ls_device *device, ls_kernel_binary *binary);
ls_status ls_gpu_launch(ls_device *device, ls_kernel_binary *binary, ls_launch *launch, ls_error *err);
ls_status ls_gpu_submit(ls_device *device, uint64_t *out_ticket, ls_error *err);
ls_status ls_gpu_wait(ls_device *device, uint64_t ticket, int blocking, int *out_done, ls_error *err);
void ls_gpu_describe(const ls_kernel_binary *binary, ls_text *out);
ls_status ls_gpu_rate(ls_device *device, ls_rate rate, size_t bytes, int threads, double *out_rate, ls_error *err);

#define LS_GPU_BACKEND(NAME, OPEN, CLOSE, ...)                                                                      \
    {                                                                                                              \
        .name = NAME, .open = OPEN, .close = CLOSE, .alloc = ls_gpu_alloc, .free = ls_gpu_release,                 \
        .upload = ls_gpu_upload, .download = ls_gpu_download, .copy = ls_gpu_copy, .compile = ls_gpu_compile,      \
        .destroy = ls_gpu_destroy, .launch = ls_gpu_launch, .submit = ls_gpu_submit, .wait = ls_gpu_wait,          \
        .describe = ls_gpu_describe, .rate = ls_gpu_rate, __VA_ARGS__                                              \
    }

#endif
