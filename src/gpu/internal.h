/* What the parts of src/gpu share. */
#ifndef LOCKSTEP_GPU_INTERNAL_H
#define LOCKSTEP_GPU_INTERNAL_H

#include "base/array.h"
#include "gpu/gpu.h"
#include "spec/spec.h"

enum { LS_GPU_BINDINGS = 128 }; /* of an emitted kernel, at most */

/* ---- memory.c ---- */

typedef struct ls_gpu_span {
    size_t offset, size;
} ls_gpu_span;

typedef struct ls_gpu_block ls_gpu_block;
struct ls_gpu_block {
    ls_gpu_block *next;
    void *block; /* the driver's */
    size_t size;
    bool shared;               /* buffers share it; else it is one buffer's, or idle */
    bool idle;                 /* kept for the next buffer of its size */
    LS_ARRAY(ls_gpu_span) gaps; /* of a shared block: by offset, no two adjacent */
};

/* An ls_buffer's handle. */
typedef struct ls_gpu_memory {
    ls_gpu_block *block;
    size_t offset, size;
} ls_gpu_memory;

struct ls_gpu {
    ls_device *device;
    ls_heap *heap;
    const ls_gpu_api *api;
    void *driver;
    ls_gpu_limits limits;
    ls_mutex *mutex;
    ls_gpu_block *blocks;
    size_t idle_bytes;
    uint32_t cover; /* what of emit/cover.def was launched */
    ls_gpu_memory scratch, status; /* of whatever launch is being recorded; made when first needed */
    uint64_t *timed[LS_GPU_TIMERS]; /* where the time of each timer in use is to be added */
    int n_timed;
};

/* Under the lock. */
ls_status ls_gpu_memory_new(ls_gpu *gpu, size_t size, ls_gpu_memory *out_memory, ls_error *err) LS_MUST_USE;
void ls_gpu_memory_free(ls_gpu *gpu, ls_gpu_memory memory);
/* What it holds is not needed any more. */
void ls_gpu_discard(ls_gpu *gpu, ls_gpu_memory memory);
void ls_gpu_memory_free_all(ls_gpu *gpu);

/* ---- variant.c ---- */

/* Where a binding's elements begin in what is bound: at its start, where a parameter says, or so many elements on. */
enum { LS_GPU_BASE_NONE = -1, LS_GPU_BASE_PARAM = -2 };

typedef struct ls_gpu_variant ls_gpu_variant;
struct ls_gpu_variant {
    ls_gpu_variant *next;
    int64_t *base;  /* by binding of the emitted kernel; the parameters are in order after the kernel's own */
    int32_t *alias; /* likewise: the first binding that is the same place; itself: none */
    ls_kernel kernel; /* legal */
    const ls_legal_param *params;
    int32_t n_words;
    void *pipeline;
};

/* The memory of a binding. */
const ls_kmem *ls_gpu_bound(const ls_kernel *kernel, int32_t binding);

/* Rewrites a kernel: bindings with a base are indexed from there, a binding whose alias is another becomes one
 * memory with it (and shares its base, unless it has its own). */
ls_status ls_gpu_rewrite(ls_arena *arena, const ls_kernel *kernel, const int64_t *base, const int32_t *alias,
                         ls_kernel *out_kernel, ls_error *err) LS_MUST_USE;

/* ---- compile.c ---- */

typedef struct ls_gpu_part {
    const ls_emit_kernel *emitted;
    ls_gpu_variant *variants;
} ls_gpu_part;

struct ls_kernel_binary {
    ls_gpu *gpu;
    ls_arena arena;
    ls_spec spec;
    ls_kernel_list list;
    ls_gpu_part *parts;
    size_t *scratch_offset;
    size_t scratch_bytes;
    void *vendor; /* NULL, or the vendor's product, in place of kernels */
    int32_t vendor_args[3];
    uint64_t emit_ns; /* of making the list, until a kernel of it is noted */
};

/* The variant of a part for a shape; compiled when it is new. Under the lock. */
ls_status ls_gpu_variant_get(ls_kernel_binary *binary, int part, const int64_t *base, const int32_t *alias,
                             ls_gpu_variant **out_variant, ls_error *err) LS_MUST_USE;
/* Legal, simplified, within the device's limits, rendered; everything is the arena's. */
ls_status ls_gpu_prepare(ls_gpu *gpu, ls_arena *arena, const ls_kernel *kernel, uint32_t traits, ls_kernel *out_kernel,
                         const ls_legal_param **out_params, ls_gpu_code *out_code, ls_error *err) LS_MUST_USE;

/* ---- launch.c ---- */

/* Adds what timers measured to the profiles that wait for it. No profile waits any more, also after an error. */
ls_status ls_gpu_collect_times(ls_gpu *gpu, ls_error *err) LS_MUST_USE;

/* The words of a legal kernel's parameters from the values of the kernel that it came from. */
void ls_gpu_words(const ls_kernel *legal, const ls_legal_param *params, const int64_t *values, uint32_t *out_words);

#endif
