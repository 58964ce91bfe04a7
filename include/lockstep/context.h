/* Contexts and sessions.
 *
 * A context owns an allocator, a log hook, devices, compiled programs and variables. It is thread-safe. A
 * session is one thread's work in a context: it interns the tensors that are built in it, knows the math kind
 * and the default device, and keeps the first error. A session is used by one thread at a time.
 * */
#ifndef LOCKSTEP_CONTEXT_H
#define LOCKSTEP_CONTEXT_H

#include <lockstep/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_context ls_context;
typedef struct ls_session ls_session;
typedef struct ls_device ls_device;

/* Where memory comes from. `alloc` returns a block of `size` bytes aligned to `align` (a power of two), or
 * NULL; `free` gets what it asked for. Both may be called from any thread. */
typedef struct ls_allocator {
    void *(*alloc)(void *user, size_t size, size_t align);
    void (*free)(void *user, void *ptr, size_t size, size_t align);
    void *user;
} ls_allocator;

typedef enum ls_log_level { LS_LOG_ERROR, LS_LOG_WARN, LS_LOG_INFO, LS_LOG_DEBUG } ls_log_level;
/* Gets one line without a newline. May be called from any thread. The library itself never prints. */
typedef void (*ls_log_fn)(void *user, ls_log_level level, const char *line);

/* How values are computed (docs/contract.md). */
typedef enum ls_math {
    LS_LOCKED, /* the same bits on every device, for any thread count, fusion choice, tile size or instruction set */
    LS_FAST,   /* FMA and any order, inside a bound that the program derives */
    LS_REDUCED /* also lower precision for f32 data, inside its own derived bound */
} ls_math;

/* What is compared with the references while a program runs (verify.h). */
typedef enum ls_check {
    LS_CHECK_NONE,
    LS_CHECK_BITS,  /* every kernel against `ref`, bit for bit (locked) */
    LS_CHECK_ORACLE /* every kernel against the float64 oracle, by derived bound */
} ls_check;

/* All fields may be 0 or NULL for the default. */
typedef struct ls_context_options {
    const ls_allocator *allocator; /* default: the C library's; copied */
    size_t memory_limit;           /* bytes of host memory; 0: none */
    ls_log_fn log;
    void *log_user;
    int threads;     /* of the CPU backend, at most 1024; 0: LOCKSTEP_THREADS, else one a core */
    const char *isa; /* of the CPU backend: "avx512", "avx2", "neon", "scalar"; NULL: LOCKSTEP_ISA, else the best */
} ls_context_options;

/* Makes a context; `options` may be NULL. The caller destroys it, after all that was made with it: sessions, models,
 * arrays and archives, what holds them included. */
LS_API ls_status ls_context_create(const ls_context_options *options, ls_context **out_context, ls_error *err)
    LS_MUST_USE;
LS_API void ls_context_destroy(ls_context *context);
/* Host bytes in use now, and the most ever. Any thread. */
LS_API void ls_context_memory(const ls_context *context, size_t *out_used, size_t *out_peak);
/* Shadows every kernel of every program run in this context from now on; LOCKSTEP_CHECK=bits|oracle sets it
 * at creation (LS_ERR_INVALID: it is neither, nor none). The first kernel that is wrong makes its run fail with LS_ERR_DIFFERS, naming kernel, node and
 * element. */
LS_API void ls_context_set_check(ls_context *context, ls_check check);

/* Makes a session on a device (NULL: the first, "cpu"). The caller destroys it. */
LS_API ls_status ls_session_create(ls_context *context, ls_device *device, ls_session **out_session, ls_error *err)
    LS_MUST_USE;
/* Releases every tensor that the session still owns. */
LS_API void ls_session_destroy(ls_session *session);
LS_API ls_context *ls_session_context(const ls_session *session);
LS_API ls_device *ls_session_device(const ls_session *session);

/* The math kind stamped on every tensor built from now on. LS_LOCKED at first. */
LS_API void ls_session_set_math(ls_session *session, ls_math math);
LS_API ls_math ls_session_math(const ls_session *session);
/* Whether several operations may share a kernel. On at first; changes no locked bit. */
LS_API void ls_session_set_fusion(ls_session *session, int on);
/* Says what the tensors built from now on come from, a model's node say: verified runs name it (verify.h). NULL, as at first:
 * nothing. A tensor that was there already keeps the first. Returns what it was before, to be put back; that text lives as long as
 * the session. Out of memory only loses the name. */
LS_API const char *ls_session_set_origin(ls_session *session, const char *origin);

/* Forces how kernels of one kind are computed from now on. Kinds and their strategies:
 *   "contract" (or "matmul")  "naive", "tiled", "gemv", "matrix", "vendor"
 *   "conv"                    "direct", "implicit", "im2col": contractions that read windows; goes before "contract"
 *   "attention"               "composite", "fused"
 *   "pointwise"               "naive", "quad", "turn"
 *   "reduce"                  "naive", "serial", "row", "column"
 *   "scatter"                 "naive", "update", "element"
 *   "scan", "sort"            "naive"
 * Other names are LS_ERR_INVALID, listing the known ones. A kernel that cannot be computed so makes its run fail with
 * LS_ERR_UNSUPPORTED and the reason; there is no fallback. `strategy` NULL gives the choice back to the device. Changes no
 * locked bit. */
LS_API ls_status ls_session_set_strategy(ls_session *session, const char *kind, const char *strategy) LS_MUST_USE;

/* The first error since the session was made or cleared; its code is LS_OK when there is none. Owned by the
 * session. */
LS_API const ls_error *ls_session_error(const ls_session *session);
LS_API void ls_session_clear_error(ls_session *session);
/* Records an error as the library's own builders do (the first stays): for builders of your own, which then
 * return NULL. */
LS_API void ls_session_set_error(ls_session *session, ls_status status, const char *fmt, ...) LS_PRINTF(3, 4);

/* Counters of a session, for tests and benchmarks. */
typedef struct ls_session_stats {
    uint64_t nodes;    /* interned tensors alive */
    uint64_t compiles; /* programs compiled (plan cache misses) */
    uint64_t kernels;  /* kernels launched */
} ls_session_stats;
LS_API ls_session_stats ls_session_get_stats(const ls_session *session);

#ifdef __cplusplus
}
#endif
#endif
