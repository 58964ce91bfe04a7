/* Devices and buffers, and what a backend implements: at most 14 functions in a table. Copy backend/null to
 * begin one.
 *
 * A backend compiles kernel specs (spec/spec.h) and launches them. It never sees the graph, nor another
 * backend.
 */
#ifndef LOCKSTEP_DEVICE_DEVICE_H
#define LOCKSTEP_DEVICE_DEVICE_H

#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"
#include <lockstep/context.h>
#include <lockstep/device.h>
#include <stdatomic.h>

struct ls_spec;
typedef struct ls_kernel_binary ls_kernel_binary; /* a backend's compiled spec */

/* Device memory. Reference-counted (atomic); the last release frees it through its device. The bytes that
 * may be used are base .. base + size of the handle: `base` is 0 but in check mode, where guard zones
 * stand before and after. */
typedef struct ls_buffer {
    ls_device *device;
    atomic_long refs;
    size_t size, base;
    void *handle; /* the backend's; on cpu and ref the host address */
    void (*drop)(void *owner); /* NULL: the handle is the buffer's own; else an array of the host, only read, until drop(owner) */
    void *owner;
    uint64_t serial; /* no other buffer of the device has it, ever */
    atomic_ullong writes; /* the cpu backend's: another number after each write, no other buffer's; 0: none yet */
    /* Of a computed value: the symbols that it depends on (bit index, 63 for all from there on) and a hash
     * of their values. */
    uint64_t symbols, stamp;
} ls_buffer;

/* What a profile wants to know of a launch. A device with a clock of its own adds the nanoseconds that the launch's kernels
 * ran, at the latest when a blocking wait for a later ticket returns (whatever it returns). */
typedef struct ls_launch_profile {
    uint64_t nanoseconds;
    const char *strategy; /* by which the kernels were made; static; NULL or empty: there is only one */
} ls_launch_profile;

/* What a kernel is launched with. Written arguments are disjoint from all others, with one exception: in a
 * POINTWISE spec with one store, that store's argument may be the same place as a read one, if every load
 * of that one has the store's index expression (and so every point reads only its own element before it is
 * stored). Offsets are multiples of the element's size. Launches of one binary may run on several threads
 * at once, each with its own ls_launch. */
typedef struct ls_launch {
    int n_args;
    ls_buffer *const *args; /* in the order of spec->args */
    const size_t *offsets;  /* bytes into each handle */
    const int64_t *symbols; /* values by ls_symbol.index */
    int64_t out_of_range;   /* the backend's answer: 1 + serial of a node that met an index out of range, or 0 */
    /* With device->defers the answer may come later: a u32 that is 0 before the launch, at a multiple of 256 bytes into
     * the handle. The kernel raises it to 1 + value id, or 1 + n_values + store number (the largest when there are
     * several); the engine reads it when the run has ended. NULL: answer through out_of_range. */
    ls_buffer *status;
    size_t status_offset;
    ls_launch_profile *profile; /* NULL: nobody asks */
    bool dry; /* with device->late: only makes what such a launch needs, so that it does not give LS_ERR_AGAIN */
} ls_launch;

typedef struct ls_backend {
    const char *name; /* "cpu", "ref", ... */
    bool has_uuids; /* index -1 opens the first device whose UUID begins with device->wanted, and sets device->id */
    /* Opens device number `index` of this backend; LS_ERR_DEVICE with the reason when there is none. Fills
     * device->caps. After LS_ERR_AGAIN it is called again with the device as it left it, or closed. */
    ls_status (*open)(ls_device *device, int index, ls_error *err);
    void (*close)(ls_device *device);
    ls_status (*alloc)(ls_device *device, size_t size, void **out_handle, ls_error *err);
    void (*free)(ls_device *device, void *handle, size_t size);
    ls_status (*upload)(ls_device *device, ls_buffer *dst, size_t offset, const void *src, size_t size,
                        ls_error *err);
    ls_status (*download)(ls_device *device, const ls_buffer *src, size_t offset, void *dst, size_t size,
                          ls_error *err);
    ls_status (*copy)(ls_device *device, ls_buffer *dst, size_t dst_offset, const ls_buffer *src,
                      size_t src_offset, size_t size, ls_error *err);
    /* Compiles a spec. It keeps no pointer into the spec beyond the call unless it copies. `strategy`
     * NULL: its own choice. */
    ls_status (*compile)(ls_device *device, const struct ls_spec *spec, const char *strategy,
                         ls_kernel_binary **out_binary, ls_error *err);
    void (*destroy)(ls_device *device, ls_kernel_binary *binary);
    ls_status (*launch)(ls_device *device, ls_kernel_binary *binary, ls_launch *launch, ls_error *err);
    /* NULL: always synchronous. `out_ticket` may be NULL where the device defers: what was launched should begin, but nobody
     * waits for it yet, and a device that has enough to do may begin it later. */
    ls_status (*submit)(ls_device *device, uint64_t *out_ticket, ls_error *err);
    ls_status (*wait)(ls_device *device, uint64_t ticket, int blocking, int *out_done, ls_error *err);
    /* Prints what a binary is (tile program, KIR, rendered text), for inspect. May be NULL. */
    void (*describe)(const ls_kernel_binary *binary, ls_text *out);
    /* Measures the most the device does, as ls_device_rate says. May be NULL. */
    ls_status (*rate)(ls_device *device, ls_rate rate, size_t bytes, int threads, double *out_rate, ls_error *err);
} ls_backend;

/* What was compiled for a device, newest first. */
typedef struct ls_compile_note {
    struct ls_compile_note *next;
    char name[64];
    uint64_t make_ns, driver_ns;
    bool cached;
} ls_compile_note;

struct ls_device {
    ls_context *context;
    ls_heap *heap;
    const ls_backend *backend;
    char id[32]; /* "cpu", "ref", "cuda:0" */
    const char *wanted; /* while it is opened by UUID: digits of it, else NULL */
    ls_caps caps;
    void *state; /* the backend's */
    int threads; /* for backends on the host, as the context asked; 0: their own choice */
    const char *isa;
    int locked; /* certification: 0 not yet tried, 1 certified, -1 refused */
    char locked_reason[256];
    bool opening;     /* its open has given LS_ERR_AGAIN and not been called again */
    bool defers;      /* set by open: launches use launch->status where it is given */
    bool late;        /* set by open: it must not be waited for. compile, download and wait may give LS_ERR_AGAIN: nothing is
                       * changed then, and the same call, after the same calls, is answered later */
    bool planar;       /* set by open: convolutions are stored channels first where that is how they are read (LS_PLAN_PERMUTED) */
    bool keeps_codes;  /* set by open: quantised operands of contractions stay in their kernels (LS_PLAN_CODES) */
    bool keeps_sparse; /* set by open: products and sums find what is not zero of an operand that chooses an element of each window (LS_PLAN_SPARSE) */
    bool fused_updates; /* set by open: a kernel of several results, or a contraction, stores them in order, each point's after
                         * what it reads, so that a result may replace what only its own point reads (ls_memory_may_alias) */
    /* Set by open: the device reads arrays of the host where they lie. Told when a buffer begins to be over one, and when it is no
     * longer. NULL: it does not. */
    void (*borrow)(ls_device *device, ls_buffer *buffer, bool begins);
    const char *clock; /* set by open: the device's own, which fills launch->profile; NULL: time is the host's */
    atomic_int guard; /* check mode: new buffers get guard zones and are filled with LS_POISON */
    struct ls_kernel_cache *kernels; /* the engine's: compiled specs */
    _Atomic(ls_compile_note *) compiles;
    atomic_ullong buffers; /* made so far */
    atomic_ullong vets, verdicts, vet_ns; /* kernels compared with `ref`; verdicts from the disk cache */
};

/* Notes what compiling one kernel took: our own part, and the driver's (`cached`: it was given what it made before, from the
 * disk cache). Any thread. Out of memory only loses the note. */
void ls_device_note_compile(ls_device *device, const char *name, uint64_t make_ns, uint64_t driver_ns, bool cached);
void ls_device_forget_compiles(ls_device *device);

/* ---- uuid.c ---- */
void ls_uuid_write(const uint8_t uuid[16], char out_text[37]); /* "" when all of it is 0: there is none */
/* Whether the text is 4 to 32 hexadecimal digits; dashes count as nothing. Whether a UUID's text begins with them. */
bool ls_uuid_valid(const char *prefix);
bool ls_uuid_matches(const char *prefix, const char *uuid);

/* All backends of this build (registry.c), ending in NULL. */
extern const ls_backend *const ls_backends[];

#define LS_GUARD 256   /* bytes of a guard zone */
#define LS_POISON 0xff /* every float dtype reads NaN */

ls_status ls_buffer_create(ls_device *device, size_t size, ls_buffer **out_buffer, ls_error *err) LS_MUST_USE;
static inline ls_buffer *ls_buffer_retain(ls_buffer *b) {
    atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}
void ls_buffer_release(ls_buffer *buffer); /* NULL is allowed */
/* ---- over arrays of the host (borrow.c) ---- */
/* *out_buffer NULL: they are to be copied. */
ls_status ls_buffer_over(ls_device *device, const void *bytes, size_t size, void (*drop)(void *owner), void *owner, ls_buffer **out_buffer,
                         ls_error *err) LS_MUST_USE;
/* Memory of its own, before the buffer is written: uploads see to it, who launches or copies does. */
ls_status ls_buffer_own(ls_buffer *buffer, ls_error *err) LS_MUST_USE;
void ls_buffer_give_back(ls_buffer *buffer);

/* Offsets count from the buffer's base; ranges out of bounds are LS_ERR_INTERNAL. */
ls_status ls_buffer_upload(ls_buffer *buffer, size_t offset, const void *src, size_t size,
                           ls_error *err) LS_MUST_USE;
ls_status ls_buffer_download(const ls_buffer *buffer, size_t offset, void *dst, size_t size,
                             ls_error *err) LS_MUST_USE;
/* Between devices through the host. */
ls_status ls_buffer_copy(ls_buffer *dst, size_t dst_offset, const ls_buffer *src, size_t src_offset,
                         size_t size, ls_error *err) LS_MUST_USE;
ls_status ls_buffer_fill(ls_buffer *buffer, size_t offset, int byte, size_t size, ls_error *err) LS_MUST_USE;
/* Check mode: LS_ERR_DIFFERS when a guard zone was written. LS_OK for a buffer without. */
ls_status ls_buffer_check_guards(const ls_buffer *buffer, const char *what, ls_error *err) LS_MUST_USE;

#endif
