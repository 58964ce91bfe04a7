/* A spec compiled for the CPU: phases, done one after another, each a loop nest over a tile program.
 *
 * Every value with bound axes (REDUCE, CONTRACT, SCAN, SORT) is computed by a phase of its own, tile by tile
 * over its free axes. Its tiles feed the phase's `finish` program: either the stores that it alone leads to
 * (so that what follows is fused), or a store into a temporary, from which later phases load it. Points of
 * the free axes are divided among workers; nothing that one worker computes depends on how. */
#ifndef LOCKSTEP_BACKEND_CPU_KERNEL_H
#define LOCKSTEP_BACKEND_CPU_KERNEL_H

#include "backend/cpu/gemm.h"
#include "backend/cpu/program.h"
#include "base/thread.h"

typedef struct ls_gemm_worker ls_gemm_worker;
typedef struct ls_kept_table ls_kept_table;

typedef struct ls_cpu_device {
    ls_cpu cpu;
    ls_cpu_isa isa;
    const ls_tile_isa *tiles;
    const ls_gemm_isa *gemm;
    ls_pool *pool;
    ls_mutex *mutex; /* one launch at a time: scratch memory is the device's */
    int threads;
    size_t scratch_size; /* of each worker */
    char *scratch;       /* threads times that */
    size_t temps_size;
    char *temps;
    ls_heap *heap;
    size_t workspace_size; /* of matrix products */
    char *workspace;
    struct ls_gemm_worker *gemm_workers; /* one a thread */
    uint64_t products;                   /* counts launches of contractions */
    ls_kept_table *kept;                 /* kept.c */
    atomic_ullong copies;                /* counts those into buffers, */
    uint64_t stores;                     /* and what launches store there */
} ls_cpu_device;

typedef enum ls_phase_kind {
    LS_PHASE_STORE,   /* finish alone */
    LS_PHASE_ROWS,    /* REDUCE: lanes along the bound axes, one point at a time */
    LS_PHASE_COLUMNS, /* REDUCE: lanes along the free axes, one element at a time */
    LS_PHASE_ARG_ROWS,
    LS_PHASE_ARG_COLUMNS,
    LS_PHASE_SUMS,       /* CONTRACT: lanes along the free axes, one k at a time ("naive") */
    LS_PHASE_GEMM,       /* CONTRACT: packed ("tiled") */
    LS_PHASE_SCAN,       /* lanes along the other axes */
    LS_PHASE_SCAN_LINES, /* lanes along its own axis */
    LS_PHASE_SORT
} ls_phase_kind;

typedef struct ls_gemm_phase ls_gemm_phase; /* contract.c */
typedef struct ls_pooling ls_pooling;       /* pooling.c */

typedef struct ls_phase {
    ls_phase_kind kind;
    int32_t value; /* with bound axes; LS_SPEC_NONE for STORE */
    bool serial;   /* a scatter: one worker, in order */
    bool streams;  /* ROWS: lanes of its program are those of all points (ls_program_streams) */
    uint8_t moves; /* STORE: of how many accesses elements are moved, where nothing is computed; else 0 */
    int n_axes;    /* the space: free axes, outermost first, as `finish` has its lanes */
    uint8_t axes[LS_LANE_AXES];
    ls_program program, finish;
    ls_gemm_phase *gemm;
    ls_gemm_phase *points; /* STORE: its axes as rows and columns, and the chain that computes them; else NULL */
    ls_pooling *pooling; /* COLUMNS, ARG_COLUMNS: extremes over windows of a plane; else NULL */
    size_t extra; /* bytes of scratch a worker needs beyond its programs' */
    int patch;    /* STORE: the lane axis along which a transposed load is contiguous, or -1 */
    int row;      /* STORE, and ROWS whose sums may be in any order: tiles end where the lane axes from this one on do, so that loads stay in place; 0: none */
    int64_t cost; /* of one point, in lanes' worth of instructions */
} ls_phase;

typedef struct ls_temp {
    int32_t value;
    size_t bytes;  /* by bounds */
    size_t offset; /* into the device's temporaries; with `point`, into a worker's part for its band */
    size_t point;  /* bytes of a point of the band's axes, of which a worker keeps one block; 0: kept whole */
    int result;    /* 1 + the argument in whose place it lies until that is stored; or 0 */
} ls_temp;

/* Phases whose spaces begin with the same axes are done together, a block of their points after another, so that
 * what one phase reads or writes is still in the cache when the next one wants it (band.c). */
typedef struct ls_band {
    int n_axes; /* 0: phases are done one after another, each for all points */
    uint8_t axes[LS_LANE_AXES];
    int64_t block;  /* points at a time */
    bool lines;     /* each of which is a row (rows.c) */
    size_t scratch; /* of a worker: buffers, temporaries, then the phases' */
    size_t temps;   /* where its temporaries are in that */
    size_t *phases; /* where each phase's scratch is */
    size_t list;    /* and that of ls_rows_run */
} ls_band;

struct ls_kernel_binary {
    ls_arena arena;
    ls_spec spec;
    ls_cpu_device *device;
    int n_phases;
    ls_phase *phases;
    ls_band band;
    int n_temps;
    ls_temp *temps;
    size_t temps_size, scratch_size;
    struct ls_chosen *chosen; /* chosen.c: an argument more than a launch has; NULL: none */
    char **many_buffers; /* for launches with more than a few */
};

/* One launch. */
typedef struct ls_kernel_run {
    const ls_kernel_binary *binary;
    const ls_launch *launch;
    char **buffers;
    ls_run *begun; /* in a band: each phase's two programs, begun; else NULL */
    int64_t extents[LS_SPEC_MAX_AXES];
    _Atomic int64_t out_of_range;
} ls_kernel_run;

static inline char *ls_worker_scratch(const ls_kernel_run *kernel, int worker) {
    const ls_cpu_device *d = kernel->binary->device;
    return d->scratch + (size_t)worker * d->scratch_size;
}

/* phase.c: plans the phases of a spec; the binary's arena and spec are set. */
ls_status ls_phases_plan(ls_kernel_binary *binary, const char *strategy, ls_error *err) LS_MUST_USE;
/* Points [first, first + n) of a phase's space on one worker. */
typedef struct ls_phase_task {
    ls_kernel_run *kernel;
    const ls_phase *phase;
    char *scratch; /* the worker's */
    int64_t first, n;
} ls_phase_task;

/* band.c: the axes that all values with bound axes and all stores of a spec begin with; none where phases cannot be
 * taken in blocks of those, or there are too few points for the threads. */
void ls_band_choose(const ls_kernel_binary *binary, ls_band *out_band);
/* Whether a temporary for `value` needs only the points of a block. */
bool ls_band_holds(const ls_spec *spec, const ls_band *band, int32_t value);
/* Decides whether the phases, all planned, are done in blocks; places the temporaries. False: out of memory. */
bool ls_band_plan(ls_kernel_binary *binary);
void ls_band_run(ls_kernel_run *kernel);
/* Sets the places of temporaries for a block of points from `first` on, in a worker's memory. */
void ls_band_place(ls_kernel_run *kernel, char *scratch, int64_t first);

/* fuse.c: the lane axes of a reduction whose program may have rows for lanes; how many, 0 where it may not. */
int ls_stream_axes(const ls_kernel_binary *binary, const ls_phase *phase, uint8_t *out_axes);
/* A program's access to a buffer if it has one alone, from the first element on without gaps; else NULL. */
const ls_access *ls_whole_access(const ls_program *program, int buffer);
/* 1 + the result that may hold a temporary until it takes its place, because the last phase reads that just where it stores; or 0. A kernel
 * that reduces stores over nothing that it reads (ls_memory_may_alias). */
int ls_kept_in_result(const ls_kernel_binary *binary, int temp);

/* patch.c: sets `patch` of a STORE phase, and what its transposed loads take. */
void ls_patch_plan(const ls_spec *spec, ls_phase *phase);
/* Points of one of the patch's rows. */
int64_t ls_patch_row(const ls_kernel_run *kernel, const ls_phase *phase);
/* The points of a task, a multiple of those; `extra` is the phase's. */
void ls_patch_run(ls_run *run, const ls_phase_task *task, char *extra);
/* move.c sets `moves` of a STORE phase, move_run.c does it. */
enum { LS_MOVE_SOURCES = 8 };
void ls_move_plan(const ls_spec *spec, ls_phase *phase);
void ls_move_run(ls_run *run, const ls_phase_task *task);

static inline bool ls_has_threads(const ls_cpu_device *device) {
    return !LS_SMALL && device->threads > 1;
}
/* Whether it is worth a second thread, as work of `far` is where workers join late. */
static inline bool ls_is_worth_threads(const ls_cpu_device *device, double work, int64_t far) {
    return ls_has_threads(device) &&
           (work > (double)far || (work > (double)ls_least_work(far, true) && ls_pool_would_be_near(device->pool)));
}

/* launch.c: does all phases. */
enum { LS_SMALL_WORK = LS_LIMIT(1 << 17, 1 << 7) }; /* not worth a second thread; in lanes times instructions, 0.5 ns each at most */
ls_status ls_phases_run(ls_kernel_run *kernel, ls_error *err) LS_MUST_USE;
/* How many points a task gets, a multiple of `grain`. */
int64_t ls_task_points(const ls_cpu_device *device, int64_t points, int64_t grain, double work);

/* fold.c, scan.c. */
void ls_phase_points(const ls_phase_task *task); /* whatever the kind; launch.c */
int64_t ls_row_lanes(const ls_phase *phase, const ls_program *program, const int64_t *extents); /* after so many lanes tiles end; INT64_MAX where they need not */
void ls_phase_rows(const ls_phase_task *task);
/* The same for few points of many elements, on all threads; false, with nothing done, for others. */
bool ls_phase_rows_shared(ls_kernel_run *kernel, const ls_phase *phase, int64_t points, double work);
void ls_phase_columns(const ls_phase_task *task);
void ls_phase_sums(const ls_phase_task *task);
void ls_phase_arg(const ls_phase_task *task);
void ls_phase_scan(const ls_phase_task *task);
void ls_phase_sort(const ls_phase_task *task);
/* The identity of a reduction (its ls_op of class REDUCE), in the held form of a dtype. */
uint64_t ls_fold_identity(ls_op op, ls_dtype dtype);
/* Which of the folds of f32 (tile.h) a reduction is, or -1. */
int ls_f32_fold(const ls_tile_isa *isa, const ls_value *value);
/* rows.c: how many rows of a band, all of whose phases but their temporaries are planned, are done together, step by step; 0: they do not
 * fit that. */
int64_t ls_rows_plan(const ls_kernel_binary *binary);
/* Rows [first, first + n) of such a band, whose runs are begun; false, with nothing done, where those are empty. */
bool ls_rows_run(ls_kernel_run *kernel, char *scratch, int64_t first, int64_t n);
size_t ls_rows_bytes(void); /* of scratch, from the band's `list` on */
/* The elements of a reduction of f32, some at least, that are runs of memory evenly apart, from the lane given on; else `first` is NULL. */
typedef struct ls_even_rows {
    const float *first;
    int64_t apart;
    bool second; /* lines fetched ahead are, into the second-level cache */
} ls_even_rows;
ls_even_rows ls_even_rows_of(ls_run *run, const ls_value *value, int64_t lane);
/* Folds (LS_FOLD_SUM, ...) elements k, k + step, ... before `end` one by one; as many from `next` on are fetched meanwhile (-1: none are). */
void ls_even_rows_fold(const ls_even_rows *rows, const ls_tile_isa *isa, int which, float *results, int64_t k, int64_t end, int64_t step,
                       int64_t lanes, int64_t next);
/* pooling.c: plans nothing where a phase, whose programs are there, is no extreme over windows; false when out of memory. */
bool ls_pooling_plan(ls_kernel_binary *binary, ls_phase *phase, const int *temps) LS_MUST_USE;
/* Points of one of its blocks. */
int64_t ls_pooling_grain(const ls_phase *phase);
/* The points of a task, with the function and identity of its extreme; false, with nothing done, where they are not whole lines. */
bool ls_phase_pooled(const ls_phase_task *task, ls_tile_fn fn, uint64_t identity, ls_run *finish, char *scratch);
/* Scratch that they need beyond their programs'. */
size_t ls_phase_extra(const ls_spec *spec, const ls_phase *phase);

/* A run of a program whose registers are in the task's scratch at *offset, which moves behind it: the one of the block's worker, else
 * `own`, started. */
ls_run *ls_phase_run(const ls_phase_task *task, const ls_program *program, size_t *offset, ls_run *own);
/* The same as a run of one's own. */
void ls_phase_begin(const ls_phase_task *task, const ls_program *program, size_t *offset, ls_run *out_run);

/* contract.c, contract_run.c. `phase->gemm` stays NULL when the contraction does not fit the packed product. */
ls_status ls_gemm_phase_plan(ls_kernel_binary *binary, ls_phase *phase, const int *temps,
                             ls_error *err) LS_MUST_USE;
/* What the kernel's last launch did, where nothing but addresses differs and those are set; false, with nothing done, elsewhere. */
bool ls_gemm_launch_again(const ls_kernel_run *kernel);
ls_status ls_gemm_phase_run(ls_kernel_run *kernel, const ls_phase *phase, ls_error *err) LS_MUST_USE;
/* Looks at the finish program, once it is there, and at the stores [first, end) that it makes. */
void ls_gemm_phase_finish(const ls_spec *spec, ls_phase *phase, int first, int end);
/* Makes room for the product at its largest; false when out of memory. */
bool ls_gemm_phase_reserve(const ls_kernel_binary *binary, const ls_phase *phase);
size_t ls_gemm_worker_size(void);

/* Coordinates of a point of axes linearised row-major. */
static inline void ls_point_coords(const int64_t *extents, int n_axes, const uint8_t *axes, int64_t point,
                                   int64_t *coords) {
    for (int i = n_axes - 1; i >= 0; i--) {
        int64_t extent = extents[axes[i]];
        if (point < extent) {
            coords[axes[i]] = point;
            point = 0;
        } else {
            coords[axes[i]] = point % extent;
            point /= extent;
        }
    }
}
static inline int64_t ls_point_count(const int64_t *extents, int n_axes, const uint8_t *axes) {
    int64_t n = 1;
    for (int i = 0; i < n_axes; i++) {
        n *= extents[axes[i]];
    }
    return n;
}

/* chain.c: makes one function of the steps of each 1 / (1 + exp(min(-x, LS_SIGMOID_MAX))), where the instruction set has it; how many steps
 * are left. `scalars`: NaN where they are no constants. */
int ls_chain_join_sigmoids(const ls_tile_isa *isa, ls_chain_step *steps, int n, const float *scalars);

/* describe.c */
void ls_cpu_describe(const ls_kernel_binary *binary, ls_text *out);

/* peak.c */
ls_status ls_cpu_rate(ls_device *device, ls_rate rate, size_t bytes, int threads, double *out_rate, ls_error *err);

#endif
