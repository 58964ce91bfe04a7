/* Devices. */
#ifndef LOCKSTEP_DEVICE_H
#define LOCKSTEP_DEVICE_H

#include <lockstep/context.h>
#include <lockstep/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a device can do. Plain data. */
typedef struct ls_caps {
    char name[128];      /* of the processor or GPU */
    char driver[128];    /* GPUs: the driver and its version, all that a compiled kernel depends on; else empty */
    char isa[32];        /* cpu: "avx512", "avx2", "neon", "scalar"; else empty */
    int threads;         /* host threads at work; 0 where that has no meaning */
    int subgroup;        /* lanes that run together */
    size_t shared_bytes; /* of a workgroup; 0 where there is none */
    size_t memory_bytes; /* 0: unknown */
    size_t cache_bytes[3]; /* cpu: L1 (data), L2 and L3, one instance of each; 0: unknown */
    uint32_t dtypes;     /* bit 1 << ls_dtype for each that kernels may use */
    char uuid[37];       /* GPUs: the device's own, "2f0bde4c-..."; empty where there is none */
    char arithmetic[160]; /* what the device gets wrong or lacks, and Lockstep does another way: "division, subnormals" */
} ls_caps;

typedef struct ls_device_info {
    char id[32];
    int available;       /* 0: `reason` says why, and what to install */
    int locked;          /* 1 certified, -1 refused, 0 not tried */
    char reason[256];
    ls_caps caps;
} ls_device_info;

/* Opens a device by id: "cpu", "ref", "cuda:1". Numbers may change when devices come or go; "cuda:uuid=2f0bde4c" and
 * "vulkan:uuid=2f0bde4c" do not: the device whose UUID (caps.uuid) begins with these 4 to 32 hexadecimal digits, dashes
 * ignored, the first of several. Opening one twice in a context, by whatever id, gives the same one. Owned by the context. */
LS_API ls_status ls_device_open(ls_context *context, const char *id, ls_device **out_device, ls_error *err) LS_MUST_USE;
LS_API const char *ls_device_id(const ls_device *device);
LS_API const ls_caps *ls_device_caps(const ls_device *device);
/* Every device of this build, opened or not; certifies those that open. *inout_count is the room, then the
 * number there are. */
LS_API ls_status ls_device_list(ls_context *context, ls_device_info *out_infos, int *inout_count, ls_error *err);
/* Runs the locked probe on a device; LS_ERR_DEVICE with the probe's value when it is refused. */
LS_API ls_status ls_device_certify(ls_device *device, ls_error *err) LS_MUST_USE;

/* Measures what the device does at most, in about a second: f32 multiply-adds in a kind of arithmetic
 * (GFLOP/s) and a large copy (GB/s, bytes read and written). LS_ERR_UNSUPPORTED where a device does not
 * measure itself. */
LS_API ls_status ls_device_peak(ls_device *device, ls_math math, double *out_gflops, double *out_copy_gbs, ls_error *err) LS_MUST_USE;

/* What a device can be asked to measure. */
typedef enum ls_rate {
    LS_RATE_FMA,     /* f32 fused multiply-adds, GFLOP/s (two a multiply-add) */
    LS_RATE_MUL_ADD, /* f32 multiplications and additions apart: what locked arithmetic can reach */
    LS_RATE_BF16,    /* dot products of bf16 pairs summed in f32 */
    LS_RATE_INT8,    /* dot products of four u8 by i8 summed in i32, GOP/s */
    LS_RATE_READ,    /* GB/s of memory that is read again and again */
    LS_RATE_COPY,    /* GB/s, bytes read and bytes written */
    LS_RATE_STREAM,  /* the same with stores that pass the caches by */
    LS_RATE_COUNT
} ls_rate;
/* The name of a rate: "fma", "mul+add", "bf16", "int8", "read", "copy", "stream"; NULL for no rate. */
LS_API const char *ls_rate_name(ls_rate rate);
/* Measures one rate: the best of some rounds of a few milliseconds. `bytes` is the memory that is worked on, of all threads
 * together (both sides of a copy; 0: half a gigabyte), and `threads` how many work on the host (0: all). LS_ERR_UNSUPPORTED names what the device lacks. */
LS_API ls_status ls_device_rate(ls_device *device, ls_rate rate, size_t bytes, int threads, double *out_rate, ls_error *err) LS_MUST_USE;

/* The disk cache, in which compiled kernels and verdicts on them are kept from one process to the next: in LOCKSTEP_CACHE
 * ("off": none), else XDG_CACHE_HOME/lockstep, else HOME/.cache/lockstep. Any thread, any process. */
typedef struct ls_cache_info {
    char path[1024];
    char reason[256]; /* why it is not used; empty when it is */
    uint64_t entries, bytes;
    uint64_t cap; /* bytes beyond which the least recently used entries go */
} ls_cache_info;
LS_API void ls_cache_get_info(ls_cache_info *out_info);
LS_API ls_status ls_cache_clear(uint64_t *out_entries, ls_error *err) LS_MUST_USE; /* the entries removed */

#ifdef __cplusplus
}
#endif
#endif
