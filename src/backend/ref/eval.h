/* Evaluating a spec point by point, in contract order. */
#ifndef LOCKSTEP_BACKEND_REF_EVAL_H
#define LOCKSTEP_BACKEND_REF_EVAL_H

#include "backend/ref/scalar.h"
#include "device/device.h"
#include "spec/spec.h"

/* What an index expression gains when an axis goes on by one. */
typedef struct ls_ref_move {
    int32_t ix;
    int64_t k;
} ls_ref_move;

enum { LS_REF_BLOCK = 4096, LS_REF_PARTIALS = 256, LS_REF_CHUNK = 512 }; /* of reductions; of contractions and scans */

/* Room for the lines along its k that a contraction keeps of its left and its right operand. */
typedef struct ls_ref_kept {
    int64_t places[2];
} ls_ref_kept;

struct ls_kernel_binary {
    ls_arena arena;
    ls_spec spec;
    bool *kept;            /* by index expression: whether its value is kept as axes move: it is affine, and asked for */
    int64_t *at_zero;      /* that value where every axis is 0 */
    ls_ref_move *moves;    /* of an axis: from moves_of[axis] on, to the next axis's */
    int32_t moves_of[LS_SPEC_MAX_AXES + 1];
    uint8_t *memo;         /* by value: whether its last result is worth keeping */
    ls_ref_kept *kept_by;  /* by value */
    size_t *scratch_size;  /* by value: bytes for the partial results of its reduction, or for the lines that it keeps */
};

typedef struct ls_ref_memo {
    uint64_t tick; /* 0: nothing kept */
    ls_cell cell;
} ls_ref_memo;

/* One launch. Everything is the launch's own, so a binary serves any number of threads. */
typedef struct ls_ref_run {
    const struct ls_kernel_binary *binary;
    const ls_spec *spec;
    const ls_launch *launch;
    int64_t axis[LS_SPEC_MAX_AXES];
    int64_t extent[LS_SPEC_MAX_AXES];
    int64_t *index; /* by index expression, of those that are kept */
    uint64_t axis_tick[LS_SPEC_MAX_AXES]; /* when the axis last changed */
    uint64_t tick;
    ls_ref_memo *memo; /* by value: its last result */
    void **scratch; /* by value */
    int64_t out_of_range;
} ls_ref_run;

static inline void ls_ref_set_axis(ls_ref_run *run, int axis, int64_t value) {
    const struct ls_kernel_binary *b = run->binary;
    for (const ls_ref_move *m = b->moves + b->moves_of[axis], *end = b->moves + b->moves_of[axis + 1]; m < end; m++) {
        run->index[m->ix] += m->k * (value - run->axis[axis]);
    }
    run->axis[axis] = value;
    run->axis_tick[axis] = ++run->tick;
}
static inline uint64_t ls_ref_without_bound(uint64_t axes, const ls_value *v) {
    for (int i = 0; i < v->n_bound; i++) {
        axes &= ~(UINT64_C(1) << v->bound[i]);
    }
    return axes;
}
/* Whether what was kept is still so: it is a function of these axes. */
static inline bool ls_ref_is_kept(const ls_ref_run *run, uint64_t axes, const ls_ref_memo *memo) {
    bool kept = memo->tick != 0;
    for (; kept && axes; axes &= axes - 1) {
        kept = run->axis_tick[__builtin_ctzll(axes)] <= memo->tick;
    }
    return kept;
}
int64_t ls_ref_index(ls_ref_run *run, int32_t ix);
bool ls_ref_holds(ls_ref_run *run, int32_t first_pred, int32_t n_preds);
ls_cell ls_ref_value(ls_ref_run *run, int32_t value);
/* Base address of an argument. */
void *ls_ref_arg(const ls_ref_run *run, int32_t arg);

/* fold.c: values with bound axes, by the contract's order. The axes they bind are put back as they were. */
ls_cell ls_ref_reduce(ls_ref_run *run, int32_t value);
ls_cell ls_ref_contract(ls_ref_run *run, int32_t value);
ls_cell ls_ref_scan(ls_ref_run *run, int32_t value);
ls_cell ls_ref_sort(ls_ref_run *run, int32_t value);

/* plan.c: everything of a binary but its spec. */
ls_status ls_ref_plan(struct ls_kernel_binary *binary, ls_error *err) LS_MUST_USE;

#endif
