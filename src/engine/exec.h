/* Compiled graphs.
 *
 * An exec is a graph compiled once: it holds private copies of the nodes, so it keeps no tensor alive, and it
 * names all memory by binds: numbers that stand for a buffer and an offset, filled in before a run. Its steps
 * are then replayed with no look at the graph. An exec belongs to one session and runs on its thread; kernel
 * binaries are shared by all sessions of a device.
 *
 * Binds, in order: one a leaf of the graph (in the order of the walk that makes the key), one a variable that
 * is assigned but not read, one a root, the arenas, and those of loops.
 */
#ifndef LOCKSTEP_ENGINE_EXEC_H
#define LOCKSTEP_ENGINE_EXEC_H

#include "engine/session.h"
#include <lockstep/inspect.h>

/* ---- kernels.c: specs compiled for a device, shared by equal specs ---- */
typedef struct ls_kernel {
    ls_arena arena;
    ls_spec spec; /* of the group that was compiled first: its origins are that graph's serials */
    char strategy[LS_STRATEGY_MAX]; /* that was asked for; empty: none */
    ls_kernel_binary *binary;
} ls_kernel;
ls_status ls_kernel_cache_create(ls_device *device, ls_error *err) LS_MUST_USE;
void ls_kernel_cache_free(ls_device *device);
/* Compiles, or finds an equal one. Owned by the device. Any thread. */
ls_status ls_kernel_get(ls_device *device, const ls_spec *spec, const char *strategy,
                        const ls_kernel **out_kernel, ls_error *err) LS_MUST_USE;

/* ---- a node's private copy ---- */
typedef struct ls_place {
    int bind;
    size_t offset;
} ls_place;

/* A value in memory: a leaf, or what a step writes. */
typedef struct ls_val {
    ls_tensor *node; /* NULL: a loop's scratch */
    size_t bytes;
    ls_device *device;
    ls_place place;
    bool fixed; /* `place` was given; else the memory plan finds one */
    bool leaf;
    int first, last;      /* steps: written, last read */
    int item;             /* of the memory plan */
    struct ls_val *share; /* takes over the storage of this one, whose last reader writes it */
} ls_val;

typedef struct ls_copy {
    ls_tensor node;       /* first: a node of an exec is an ls_copy */
    ls_val *val;          /* once it is in memory */
    int leaf_bind;        /* -1: not a leaf */
    int root_bind;        /* where it must be stored; -1: anywhere */
    int stage;            /* device copies on the way to it */
    const ls_body *owner; /* the copied body that it is in; NULL: the graph itself */
} ls_copy;
static inline ls_copy *ls_copy_of(const ls_tensor *node) {
    return (ls_copy *)(uintptr_t)node;
}

/* ---- steps ---- */
typedef enum ls_step_kind {
    LS_STEP_KERNEL,
    LS_STEP_COPY, /* arg 0 to arg 1: the same bytes, perhaps on another device */
    LS_STEP_LOOP
} ls_step_kind;

typedef struct ls_loop_plan ls_loop_plan;
typedef struct ls_step {
    ls_step_kind kind;
    ls_device *device;
    int n_args, n_reads; /* args: what is read, then what is written */
    ls_val **vals;
    ls_place *args;                 /* their places: what a run looks at */
    const ls_kernel *kernel;        /* KERNEL */
    const ls_spec *spec;            /* KERNEL: with the origins of this graph */
    const ls_group *group;          /* KERNEL, LOOP */
    ls_loop_plan *loop;             /* LOOP */
    int status;                     /* KERNEL: 1 + the number of its word in exec->status; 0: none */
    uint64_t launches;              /* KERNEL: while the profile is on */
    ls_launch_profile profile;      /* likewise */
} ls_step;

typedef struct ls_arena_plan {
    ls_device *device;
    int bind;
    size_t bytes;
} ls_arena_plan;

typedef struct ls_block {
    int n_steps;
    ls_step *steps;
    int n_arenas;
    ls_arena_plan *arenas;
    int n_vals;
    ls_val **vals;
} ls_block;

/* A loop. The step reads its operands [carries, xs, captures] and writes [results (carries, ys), the
 * carries' second buffers, the iteration's number, the body's arenas]; vals of results that nobody reads
 * are scratch (carries) or NULL (ys). Iteration t of n reads carry i where t - 1 wrote it (t = 0: the
 * operand) and writes it to the result when n - 1 - t is even, else to the second buffer: so the last one
 * writes the result. A carry that is one of the ys, too, as a recurrent cell's state is, stays in that one's
 * slices: it has no second buffer (NULL), and a result only where that is read, to which the last slice is copied. */
struct ls_loop_plan {
    ls_dim trip;
    int n_carry, n_xs, n_captures, n_ys;
    ls_block body;
    int iteration_bind;
    int *param_binds;  /* carries, xs, captures */
    int *result_binds; /* carries, ys; -1: not wanted */
    size_t *strides;   /* bytes from one slice to the next: xs, ys */
    size_t *carry_bytes;
    int *kept_in; /* carries: which of the ys is the same; -1: none */
};

typedef struct ls_exec_assign {
    ls_tensor *value; /* the copy */
    int bind;         /* of the variable's storage */
} ls_exec_assign;

typedef struct ls_binding {
    ls_buffer *buffer;
    size_t offset;
} ls_binding;

struct ls_exec {
    ls_session *session;
    ls_arena arena;
    /* the key */
    uint64_t hash;
    size_t key_words;
    const uint64_t *key;
    uint64_t tick;
    /* the graph */
    int n_nodes;
    ls_tensor **nodes; /* copies, operands first, bodies' too */
    int n_leaves;
    ls_tensor **leaves; /* by bind; NULL for one that the rewritten graph does not read */
    int n_roots;
    ls_tensor **roots; /* copies; binds first_root .. */
    int first_root;
    int n_assigns;
    ls_exec_assign *assigns;
    uint64_t symbols; /* that anything in it depends on */
    struct ls_low_extent {
        struct ls_low_extent *next;
        ls_dim dim;
        ls_op op; /* of a node that has it */
    } *low_extents; /* those that some values of their symbols make negative */
    /* the program */
    int n_binds;
    ls_block block;
    int max_args;
    /* Words in which kernels that defer report indices out of range: one list a device. */
    int n_status;
    struct ls_status_words {
        ls_device *device;
        ls_buffer *buffer; /* LS_STATUS_STRIDE bytes a word */
        int count;
    } *status;
    /* the run's scratch */
    ls_binding *binds;
    ls_buffer **args;
    size_t *offsets;
    bool profile;
    bool unready; /* while it is compiled: a late device has not answered for all kernels */
    uint64_t host_ns; /* of runs while the profile is on, launches apart */
};

#define LS_STATUS_STRIDE 256 /* what every device can bind at */

/* ---- key.c: the walk ---- */
typedef struct ls_graph_key {
    uint64_t hash;
    LS_ARRAY(uint64_t) words;
    LS_ARRAY(ls_tensor *) leaves; /* of the session's graph, in bind order; not retained */
    LS_ARRAY(int) assign_binds;   /* the leaf that is the variable's old value, or -1 */
    uint64_t symbols;
} ls_graph_key;
/* Roots, then the values of assignments. Equal words mean equal programs, whatever the leaves hold. */
ls_status ls_graph_key_make(ls_session *session, ls_tensor *const *roots, int n_roots,
                            const ls_pending *assigns, int n_assigns, ls_graph_key *out_key,
                            ls_error *err) LS_MUST_USE;
void ls_graph_key_free(ls_session *session, ls_graph_key *key);
/* Whether a node was computed, for the symbols' present values. */
bool ls_has_value(const ls_session *session, const ls_tensor *node);
/* Whether a graph that uses the node takes it from memory instead of computing it. */
bool ls_is_stored(const ls_session *session, const ls_tensor *node);

/* ---- clone.c, compile.c ---- */
/* Fills exec->nodes, leaves, roots, assigns with private copies of the rewritten graph, and n_binds up to
 * the roots. `leaves` are the key's, or what stands for them in the rewritten graph. */
ls_status ls_exec_clone(ls_exec *exec, const ls_graph_key *key, ls_tensor *const *leaves,
                        ls_tensor *const *roots, int n_roots, const ls_pending *assigns, int n_assigns,
                        ls_error *err) LS_MUST_USE;
/* A compiled graph that the caller owns. */
ls_status ls_exec_compile(ls_session *session, const ls_graph_key *key, ls_tensor *const *roots, int n_roots,
                          const ls_pending *assigns, int n_assigns, ls_exec **out_exec,
                          ls_error *err) LS_MUST_USE;
void ls_exec_free(ls_exec *exec);

/* ---- memory.c ---- */
typedef struct ls_memory_item {
    size_t bytes;
    int first, last; /* steps, inclusive */
    size_t offset;   /* the result: a multiple of LS_MEMORY_ALIGN */
} ls_memory_item;
#define LS_MEMORY_ALIGN 256
#define LS_MEMORY_GAP                                                                                        \
    64 /* at least so many unused bytes follow each item: check mode poisons and watches them */
/* Offsets such that items whose intervals meet never overlap, and the bytes that all need. */
ls_status ls_memory_plan(ls_arena *arena, ls_memory_item *items, int n, size_t *out_bytes,
                         ls_error *err) LS_MUST_USE;
/* Whether a kernel may write argument `result` where it reads argument `arg`: each point reads only its own element, before
 * it is replaced. `fused`: the device says so of several results, and of a contraction's (ls_device.fused_updates). */
bool ls_memory_may_alias(const ls_spec *spec, int arg, int result, bool fused);

/* ---- hazard.c: an independent check of the finished steps ---- */
ls_status ls_hazard_check(ls_exec *exec, ls_error *err) LS_MUST_USE;

/* ---- run.c ---- */
/* exec->binds must hold leaves, variables, roots and arenas. LS_ERR_AGAIN: no variable has changed. LS_ERR_SHAPE: nothing was run, since an extent is
 * negative at the present values of symbols. On a late device indices
 * out of range are reported later, by ls_exec_report. */
ls_status ls_exec_run(ls_exec *exec, ls_error *err) LS_MUST_USE;
/* What the session's last run on a late device has to report: before its next run, and before its results are read. */
ls_status ls_exec_report(ls_session *session, ls_error *err) LS_MUST_USE;
/* Makes exec->status for the finished steps. */
ls_status ls_exec_bind_status(ls_exec *exec, ls_error *err) LS_MUST_USE;
/* Binds arenas: from `arenas`, one a device, each grown when it is too small. */
ls_status ls_exec_bind_arenas(ls_exec *exec, ls_arena_list *arenas, ls_error *err) LS_MUST_USE;
void ls_arena_list_free(ls_heap *heap, ls_arena_list *arenas);
/* The memory of a leaf of the session's graph: an error for a stale variable, an input without a value.
 * Not retained. */
ls_status ls_leaf_buffer(ls_session *session, const ls_tensor *leaf, ls_buffer **out_buffer,
                         ls_error *err) LS_MUST_USE;

/* ---- realize.c ---- */
void ls_exec_cache_init(ls_session *session);
void ls_exec_cache_free(ls_session *session);
/* The exec of a graph from the session's cache, compiled when it is not there. */
ls_status ls_exec_get(ls_session *session, const ls_graph_key *key, ls_tensor *const *roots, int n_roots,
                      const ls_pending *assigns, int n_assigns, ls_exec **out_exec,
                      ls_error *err) LS_MUST_USE;
/* Gives nodes of the session their values; assignments stay pending. */
ls_status ls_compute(ls_session *session, ls_tensor *const *tensors, int count, ls_error *err) LS_MUST_USE;

/* ---- constant.c ---- */
/* Gives values to what of the roots' graph follows from data alone. */
ls_status ls_constants_compute(ls_session *session, ls_tensor *const *roots, int n_roots, ls_error *err) LS_MUST_USE;

/* Why an operand cannot be laid out in memory. */
#define LS_NO_IM2COL "its padding without values stands below padding with values or a concatenation, and memory does not say which elements are absent"

/* ---- tune.c ---- */
ls_status ls_block_strategies(const ls_block *block, ls_strategy_fn each, void *user, ls_error *err) LS_MUST_USE;

/* ---- inspect.c ---- */
void ls_exec_print(ls_text *out, const ls_exec *exec, unsigned parts);

#endif
