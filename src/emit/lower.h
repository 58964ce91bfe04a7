/* What the parts of the lowering share: one kernel being built from values of a spec. Internal to src/emit.
 *
 * A value that was computed is remembered while the block that it was computed in is open and the axes that it varies over
 * keep their values: the log undoes what a scope remembered. */
#ifndef LOCKSTEP_EMIT_LOWER_H
#define LOCKSTEP_EMIT_LOWER_H

#include "emit/emit.h"
#include "kir/build.h"

enum { LS_EMIT_THREADS = 256, LS_EMIT_BLOCK = 4096, LS_EMIT_CHUNK = 512, LS_EMIT_SERIAL = 32, LS_EMIT_LEFT = 8 };

typedef struct ls_lowered {
    ls_val v;
    ls_val present; /* LS_VAL_NONE: always; else v is +0 where it fails */
    ls_val active;  /* the guards that it was computed under, which matter to reports alone */
} ls_lowered;

/* The strategies, in the order of ls_emit_strategies. */
typedef enum ls_choice {
    LS_CHOICE_NAIVE,
    LS_CHOICE_TILED, /* contractions, up to MATRIX */
    LS_CHOICE_GEMV,
    LS_CHOICE_MATRIX,
    LS_CHOICE_QUAD, /* element-wise */
    LS_CHOICE_TURN,
    LS_CHOICE_SERIAL, /* reductions */
    LS_CHOICE_ROW,
    LS_CHOICE_COLUMN,
    LS_CHOICE_UPDATE, /* scatters */
    LS_CHOICE_ELEMENT,
    LS_CHOICE_FUSED, /* attention */
    LS_CHOICE_ANY
} ls_choice;

typedef struct ls_undo {
    int32_t id; /* of a value; ~id of an index expression */
    ls_lowered before;
} ls_undo;

typedef struct ls_lower {
    ls_arena *arena;
    ls_error *err;
    ls_status status; /* sticky, besides kb's */
    const ls_spec *spec;
    int32_t max_groups, max_threads;
    int64_t max_shared;
    const ls_emit_caps *caps; /* NULL: the defaults */
    ls_choice choice;
    bool stores_left; /* a contraction left its chunks in scratch: the stores are to follow */
    ls_kernel_list *list;
    int cap_kernels, cap_scratch;
    bool *reports;       /* by value: whether computing it may report an index out of range */
    bool *ix_reports;    /* by index expression: the same */
    bool *read;          /* by argument: some value or store reads it */
    int32_t *scratch_of; /* by value: the scratch that holds it for every row, or -1 */
    int64_t *chunks_of;  /* by value: that scratch holds the sums of so many chunks for every row; 0: it holds the value */
    int64_t *chunk_of;   /* and the elements of one */
    int64_t *blocks_of;  /* by value: that scratch holds the results of so many blocks for every row, LS_EMIT_LEFT at most */
    /* the kernel at work */
    ls_kb kb;
    ls_emit_binding *bindings;
    const ls_symbol **symbols;
    int cap_bindings, cap_symbols;
    int *arg_mem, status_mem;
    ls_val axis[LS_SPEC_MAX_AXES];
    uint64_t proved; /* axes whose values the verifier knows to be within their bound */
    ls_lowered *memo;
    ls_val *ix_memo;
    ls_undo *log;
    int cap_log, n_log;
    ls_val active;
    int opened; /* blocks of the kernel's frame */
    bool in_row; /* threads do many elements of one row: what is the row's is computed once */
    int shared_value[LS_DTYPE_COUNT]; /* arrays of 256, one a dtype; -1 */
    int row_array[2][LS_DTYPE_COUNT]; /* the same */
} ls_lower;

/* ---- emit.c ---- */
void ls_lower_begin(ls_lower *l, const char *suffix, ls_cover cover);
static inline void ls_lower_cover(ls_lower *l, ls_cover cover) {
    l->list->cover |= UINT32_C(1) << cover;
}
void ls_lower_end(ls_lower *l);
int32_t ls_lower_scratch(ls_lower *l, ls_dtype dtype, int64_t count);
int ls_lower_mem(ls_lower *l, ls_emit_place place, int32_t number);
/* An argument that is only read, as u32 words: a binding of its own. The bytes must be whole words. */
int ls_lower_words(ls_lower *l, int32_t number);
/* Opens the frame: the number of this workgroup (threads 1) or thread among `count`, in row-major order. */
ls_val ls_lower_frame(ls_lower *l, int64_t count, int threads);
int64_t ls_lower_bound(const ls_lower *l, const uint8_t *axes, int n_axes);
/* Splits a position, row-major by the axes' bounds, and opens a block for the points within the symbols' values. */
void ls_lower_point(ls_lower *l, ls_val position, const uint8_t *axes, int n_axes);
/* The same without the block: whether the point is within, LS_VAL_NONE when it is. */
ls_val ls_lower_bind_point(ls_lower *l, ls_val position, const uint8_t *axes, int n_axes);
void ls_lower_store(ls_lower *l, int32_t number); /* at the present point */
/* Marks what a value, or a store, is computed from, itself included. */
void ls_lower_uses(const ls_spec *spec, int32_t id, bool *used);
void ls_lower_store_uses(const ls_spec *spec, int32_t number, bool *used);

/* A lowering that has emitted nothing yet. */
ls_status ls_lower_start(ls_lower *l, ls_arena *arena, const ls_spec *spec, const ls_emit_caps *caps, ls_kernel_list *list,
                         ls_error *err) LS_MUST_USE;
/* All kernels of the spec, by l->choice where it says how. */
ls_status ls_lower_spec(ls_lower *l) LS_MUST_USE;
/* How many stores from `first` on one kernel does. */
int32_t ls_lower_run(const ls_spec *spec, int32_t first);

/* ---- strategy.c ---- */
ls_status ls_lower_choose(ls_lower *l, const char *name) LS_MUST_USE;

/* ---- line.c ---- */
/* The kernel of stores first .. first + count when a scan or sort is in the spec; false: there is none. */
bool ls_lower_line(ls_lower *l, int32_t first, int32_t count);

/* ---- quad.c ---- */
/* Four points that differ in one axis, from `base`, a multiple of 4, on; or, with axis -1, that are neighbours in a space. The
 * caller fills what comes before n. */
typedef struct ls_quad {
    ls_lower *l;
    int axis;
    ls_val base;
    ls_val at; /* position of the first in the space, when that is known; a multiple of 4 */
    const uint8_t *axes;
    int n_axes;
    const ls_lowered *known; /* NULL, or by lane and value what is known already, its v one higher: 0 is nothing */
    int n; /* loads of four lanes: their values, and what they gave */
    int32_t *ids;
    ls_lowered *four;
} ls_quad;
bool ls_quad_axis(const ls_lower *l, int axis); /* whether its extent is always a multiple of 4 */
/* Whether a value is a LOAD, or a store one, that can be of four lanes along an axis. */
bool ls_quad_loads(const ls_lower *l, int32_t id, int axis, uint64_t proved);
bool ls_quad_stores(const ls_lower *l, int32_t number, int axis, uint64_t proved);
/* The LOAD of 16 bits that a value is, perhaps under a GUARD that leaves out others, where eight elements along an axis, from a
 * multiple of 8 on, are four words of memory; else LS_SPEC_NONE. */
int32_t ls_quad_words(const ls_lower *l, int32_t id, int axis);
/* Loads what can be loaded together of the values that are used; each lane then binds the axis to its point. */
void ls_quad_start(ls_quad *q, const bool *used);
void ls_quad_lane(ls_quad *q, int lane);
ls_val ls_quad_join(ls_kb *kb, const ls_val x[4]);
/* The stores at the four points; value `id` (or LS_SPEC_NONE) is given. */
void ls_quad_store(ls_quad *q, int32_t first, int32_t count, int32_t id, const ls_val given[4]);

/* ---- point.c ---- */
/* Whether an index is the position of the point in a space, row-major by the axes' bounds. */
bool ls_lower_is_place(const ls_spec *spec, int32_t ix, const uint8_t *axes, int n_axes);
/* Says so of the indices that are: `at` is the position. */
void ls_lower_know_place(ls_lower *l, ls_val at, const uint8_t *axes, int n_axes);
/* The kernel of a run of stores without reductions by workgroups. */
void ls_lower_points(ls_lower *l, int32_t first, int32_t count);

/* ---- row.c ---- */
/* The reductions that workgroups do: over many elements, varying over axes of the space alone. */
typedef struct ls_wide {
    int32_t *ids; /* ascending */
    int n;
    uint64_t rows; /* the axes that they vary over */
    bool apart;    /* they differ in their rows or have several blocks: kernels of their own, results in scratch */
} ls_wide;
/* The kernel of a run of stores with reductions of one row each; false: not by this template. */
bool ls_lower_rows(ls_lower *l, int32_t first, int32_t count, const ls_wide *w, const uint8_t *rows, int n_rows, const uint8_t *inner,
                   int n_inner);
/* A halving of n values; and of those at `at`, at + stride, ... of an array: n is 8 at most. */
ls_val ls_lower_tree(ls_kb *kb, ls_op op, ls_dtype acc, ls_val *values, int n);
ls_val ls_lower_tree_from(ls_kb *kb, ls_op op, ls_dtype acc, int mem, ls_val at, int stride, int n);
/* The last steps of a halving, over the threads of a row (32 to 256, a power of 2; they begin at a multiple): each gives a partial
 * and gets the result. In uniform control flow. `phase` counts the halvings of a kernel. */
ls_val ls_lower_halve(ls_lower *l, ls_op op, ls_dtype acc, ls_val partial, int threads, int phase);

/* ---- column.c ---- */
/* Whether neighbours of a reduction's results are neighbours in memory, rather than its elements. */
bool ls_lower_is_column(const ls_lower *l, int32_t id);
/* The kernel that puts the results of blocks into scratch: at row * blocks + block. */
void ls_lower_columns(ls_lower *l, int32_t id, const uint8_t *rows, int n_rows, int64_t blocks, int32_t scratch);
/* The one kernel of a run of stores at the results of one such reduction; false: not by this template. */
bool ls_lower_column_stores(ls_lower *l, int32_t first, int32_t count, int32_t id);

/* ---- turn.c ---- */
/* The kernel of a store whose operands lie across it; false: not by this template. */
bool ls_lower_turned(ls_lower *l, int32_t first, int32_t count, const bool *used);

/* ---- contract.c ---- */
/* The kernel of a run of stores around one contraction, by a strategy. Why not, or NULL: then it is emitted, unless `dry`;
 * ANY: by the best one, if it is better than the naive. */
const char *ls_lower_contraction(ls_lower *l, int32_t first, int32_t count, ls_choice choice, bool dry);

/* ---- matrix.c: the same by matrix instructions; never in locked arithmetic ---- */
const char *ls_lower_matrix(ls_lower *l, int32_t first, int32_t count, bool dry);

/* ---- attention.c ---- */
/* The one kernel of an attention; why not, or NULL: then it is emitted, unless `dry`. */
const char *ls_lower_attention(ls_lower *l, bool dry);

/* ---- scatter.c ---- */
/* The kernel of a store that combines, or may meet an element twice. */
void ls_lower_scatter(ls_lower *l, int32_t number);

/* ---- map.c ---- */
ls_val ls_lower_map(ls_kb *kb, ls_op op, ls_dtype dtype, ls_dtype out, const ls_val x[3]);
bool ls_map_is_function(ls_op op); /* an elementary function of one operand: many instructions */
ls_val ls_lower_zero(ls_kb *kb, ls_dtype dtype);
ls_val ls_lower_identity(ls_kb *kb, ls_op reduce, ls_dtype dtype);
ls_val ls_lower_combine(ls_kb *kb, ls_op reduce, ls_dtype dtype, ls_val a, ls_val b);
ls_val ls_lower_is_nan(ls_kb *kb, ls_dtype dtype, ls_val x); /* LS_VAL_NONE for integers */

/* ---- value.c ---- */
static inline ls_dtype ls_lower_type(const ls_lower *l, ls_val v) {
    return v < 0 || v >= l->kb.kernel.n_body ? LS_I32 : (ls_dtype)l->kb.kernel.body[v].dtype;
}
int ls_lower_mark(const ls_lower *l);
void ls_lower_undo(ls_lower *l, int mark);
void ls_lower_bind(ls_lower *l, int axis, ls_val value, bool proved);
ls_val ls_lower_dim(ls_lower *l, ls_dim dim, ls_dtype type); /* i32 or i64 */
ls_val ls_lower_index(ls_lower *l, int32_t ix);
void ls_lower_know_index(ls_lower *l, int32_t ix, ls_val v); /* at the present point */
/* And of predicates: LS_VAL_NONE is true. */
ls_val ls_lower_and(ls_lower *l, ls_val a, ls_val b);
ls_val ls_lower_preds(ls_lower *l, int32_t first, int32_t n);
/* `index` when it is proved within 0 .. count, else `pred` gets the test. */
void ls_lower_guard(ls_lower *l, bool proved, ls_val index, int64_t count, ls_val *pred);
/* The range that the verifier will know of an expression where the axes in `proved` are in theirs; false: it will not. */
bool ls_lower_interval(const ls_lower *l, int32_t ix, uint64_t proved, int64_t *out_lo, int64_t *out_hi);
bool ls_lower_proves(const ls_lower *l, int32_t ix, int64_t count);
/* check is in 0 .. limit; reports where it is not, `pred` holds and the guards do. */
ls_val ls_lower_check(ls_lower *l, int32_t check, int32_t limit, ls_val pred, int32_t number);
/* Where a value of the present point is in its scratch; whether that is proved to be in it. */
ls_val ls_lower_scratch_index(ls_lower *l, int32_t id, ls_dtype type, bool *out_proved);
ls_val ls_lower_load(ls_lower *l, int32_t id, int lanes); /* of a LOAD, and the elements after it */
ls_lowered ls_lower_value(ls_lower *l, int32_t id);
void ls_lower_remember(ls_lower *l, int32_t id, ls_lowered x);

/* ---- fold.c ---- */
/* A value with bound axes, and its elements, linearised in their order. */
typedef struct ls_fold {
    ls_lower *l;
    int32_t id;
    const ls_value *v;
    ls_dtype from, type; /* of the operand; of positions */
    ls_val n;            /* elements */
    int64_t bound;       /* and their largest number */
} ls_fold;
typedef struct ls_saved_axes {
    ls_val axis[LS_MAX_RANK];
    uint64_t proved;
    int mark;
} ls_saved_axes;
ls_fold ls_fold_start(ls_lower *l, int32_t id);
/* Sets the bound axes to their point at a position in 0 .. n. */
void ls_fold_point(ls_fold *f, ls_val at);
void ls_fold_near(ls_fold *f, ls_val at, ls_val k);
ls_saved_axes ls_fold_save(const ls_fold *f);
void ls_fold_restore(ls_fold *f, const ls_saved_axes *s);
ls_val ls_lower_reduce(ls_lower *l, int32_t id);   /* serial */
ls_val ls_lower_contract(ls_lower *l, int32_t id); /* serial */
/* By all threads of the workgroup, in uniform control flow; over one block. Every thread gets it. */
ls_val ls_lower_reduce_row(ls_lower *l, int32_t id);
/* Kernels that put the value for every row, or the results of a few blocks, into scratch_of[id]. */
void ls_lower_materialise(ls_lower *l, int32_t id);
/* The reduction of n results of blocks, 1 to LS_EMIT_LEFT; changes x. */
ls_val ls_lower_few(ls_kb *kb, ls_op op, ls_dtype acc, ls_val *x, int n);
int64_t ls_lower_bound_points(const ls_lower *l, const ls_value *v);
/* Axes of a set, ascending. */
int ls_lower_axes(uint64_t set, uint8_t *out_axes);

#endif
