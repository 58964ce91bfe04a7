/* The state of a CUDA device, and what its files share.
 *
 * Invariants: src/gpu holds its lock around every call, so nothing here is locked. Our context is current only inside a call:
 * each pushes it and pops it again, whatever thread it is on and whatever context that thread had. All work goes to one
 * stream, in order. Once `lost` is set no driver call is made but those that give things back. */
#ifndef LOCKSTEP_BACKEND_CUDA_CUDA_H
#define LOCKSTEP_BACKEND_CUDA_CUDA_H

#include "backend/cuda/api.h"
#include "base/array.h"
#include "base/os.h"
#include "gpu/gpu.h"
#include "render/render.h"

enum { LS_CUDA_TICKETS = 64, LS_CUDA_SLOTS = 8, LS_CUDA_SLOT = 1 << 20, LS_CUDA_STATIC_SHARED = 49152 };

typedef struct ls_cuda_vendor ls_cuda_vendor;
typedef struct ls_cuda_product ls_cuda_product;

typedef struct ls_cuda_pipeline {
    ls_cuda_product *product; /* the vendor's, in place of a module */
    ls_cu_module module;
    ls_cu_function function;
    unsigned dynamic_shared;
    int n_maps; /* parameters after the words: tensor maps of bindings, made anew for each launch's addresses */
    ls_ptx_map maps[2];
} ls_cuda_pipeline;

/* A launch, its arguments in one run of bytes: addresses, then words. Without a pipeline a copy between two addresses. */
typedef struct ls_cuda_command {
    const ls_cuda_pipeline *pipeline;
    uint32_t groups[3], block[3];
    int32_t n_addresses, n_words;
    size_t at;   /* of the arguments, in bytes of the sequence's */
    size_t size; /* of a copy */
} ls_cuda_command;
_Static_assert(sizeof(ls_cuda_command) == sizeof(void *) + 32 + 2 * sizeof(size_t), "commands are compared as bytes");

typedef struct ls_cuda_sequence {
    LS_ARRAY(ls_cuda_command) commands;
    LS_ARRAY(uint8_t) arguments;
    ls_cu_graph_exec exec; /* NULL: not yet */
    bool refused;          /* the driver made no graph of it */
    uint64_t used;         /* when it was last run */
} ls_cuda_sequence;

enum { LS_CUDA_SEQUENCES = 16 };

typedef struct ls_cuda {
    ls_heap *heap;
    const char *id; /* the device's: "cuda:0" */
    const ls_device *owner;
    ls_os_library *library;
    ls_cuda_api api;
    ls_cuda_vendor *vendor; /* opened when first asked for */
    ls_cu_device device;
    ls_cu_context context;
    ls_cu_stream stream;
    bool retained, lost;
    char lost_reason[160];
    int sm, isa, multiprocessors;
    bool arch; /* sm_90a, and the driver makes tensor maps */
    /* Tickets count flushes; ticket t's event is t % LS_CUDA_TICKETS. */
    ls_cu_event tickets[LS_CUDA_TICKETS];
    uint64_t ticket, done;
    bool recorded; /* something since the last ticket */
    /* Host memory that the device reads: a ring of slots, each free again once its event is done. */
    uint8_t *ring, *landing;
    ls_cu_event slots[LS_CUDA_SLOTS], landed[2];
    bool slot_used[LS_CUDA_SLOTS];
    int slot;
    size_t slot_at;
    /* graph.c: what is being recorded, and what ran before */
    ls_cuda_sequence now, *known[LS_CUDA_SEQUENCES];
    ls_cuda_sequence *candidate; /* of which `now` is the beginning; nothing of `now` was launched */
    bool launched;               /* the commands of `now` were */
    uint64_t clock;
    uint64_t graphs_run, graphs_made; /* for tests */
    ls_cu_event timers[2 * LS_GPU_TIMERS]; /* of each, its begin and its end; made when first needed */
} ls_cuda;

/* LS_OK, or the error of a driver call, which makes the device lost when no later call can work. */
ls_status ls_cuda_check(ls_cuda *c, ls_cu_result result, const char *call, ls_error *err);
/* Begins and ends a call: LS_ERR_DEVICE when the device is lost. */
ls_status ls_cuda_enter(ls_cuda *c, ls_error *err) LS_MUST_USE;
void ls_cuda_leave(ls_cuda *c);

#define LS_CUDA_TRY(c, err, fn, ...) LS_TRY(err, ls_cuda_check(c, (c)->api.fn(__VA_ARGS__), ls_cuda_names.fn, err))
/* The driver's names of its functions. */
typedef struct ls_cuda_name_table {
#define FN(member, symbol, parameters) const char *member;
    LS_CUDA_FUNCTIONS(FN)
    LS_CUDA_OPTIONAL(FN)
#undef FN
} ls_cuda_name_table;
extern const ls_cuda_name_table ls_cuda_names;

/* ---- cuda.c: opens a device without the probe of its arithmetic; the backend's close closes it. ---- */
ls_status ls_cuda_open(ls_device *device, int index, ls_error *err);

/* ---- load.c ---- */
ls_status ls_cuda_load(ls_cuda *c, ls_error *err) LS_MUST_USE;

/* ---- queue.c ---- */
ls_status ls_cuda_queue_open(ls_cuda *c, ls_error *err) LS_MUST_USE;
void ls_cuda_queue_close(ls_cuda *c);
ls_status ls_cuda_write(void *driver, void *block, size_t offset, const void *data, size_t size, ls_error *err);
ls_status ls_cuda_read(void *driver, void *block, size_t offset, void *data, size_t size, ls_error *err);
ls_status ls_cuda_flush(void *driver, uint64_t *out_ticket, ls_error *err);
ls_status ls_cuda_wait(void *driver, uint64_t ticket, int blocking, int *out_done, ls_error *err);
/* One end of a timer (0: its begin, 1: its end), where the stream is now. */
ls_status ls_cuda_stamp(ls_cuda *c, int32_t timer, int end, ls_error *err) LS_MUST_USE;
ls_status ls_cuda_times(void *driver, uint64_t *out_ns, int n, ls_error *err);

/* ---- pipeline.c ---- */
ls_status ls_cuda_render(void *driver, ls_arena *arena, const ls_kernel *kernel, ls_gpu_code *out_code, ls_error *err);
ls_status ls_cuda_build(void *driver, const ls_gpu_code *code, void **out_pipeline, ls_error *err);
void ls_cuda_drop(void *driver, void *pipeline);

/* ---- graph.c ---- */
ls_status ls_cuda_dispatch(void *driver, const ls_gpu_dispatch *dispatch, ls_error *err);
ls_status ls_cuda_copy(void *driver, void *to, size_t to_offset, void *from, size_t from_offset, size_t size, ls_error *err);
/* Inside ls_cuda_enter. */
/* Ends the sequence that is being recorded: everything recorded is in the stream. */
ls_status ls_cuda_settle(ls_cuda *c, ls_error *err);
/* A product of the vendor, in a sequence as any launch. */
ls_status ls_cuda_run_product(void *driver, void *pipeline, const ls_gpu_range places[3], int32_t timer, ls_error *err);
void ls_cuda_forget(ls_cuda *c, const ls_cuda_pipeline *pipeline); /* sequences with that pipeline; NULL: all */


/* ---- vendor.c; inside ls_cuda_enter ---- */
extern const ls_gpu_vendor ls_cuda_products;
ls_status ls_cuda_product_launch(ls_cuda *c, const ls_cuda_product *product, const ls_cu_address places[3], ls_error *err);
void ls_cuda_product_free(ls_cuda *c, ls_cuda_product *product);
void ls_cuda_vendor_close(ls_cuda *c);

#endif
