/* How a chain (chain.h) will be computed: internal to chain.c and chain_run.c. */
#ifndef LOCKSTEP_BACKEND_CPU_CHAIN_PLAN_H
#define LOCKSTEP_BACKEND_CPU_CHAIN_PLAN_H

#include "backend/cpu/contract.h"

typedef struct ls_chain_row_place { /* element `at`; buffer -1: zeros */
    int32_t buffer;
    int64_t at;
} ls_chain_row_place;

typedef struct ls_chain_place { /* of an operand, or the result: element constant + strides */
    int buffer; /* -1: a slot */
    int64_t constant, batch[LS_LANE_AXES], row[LS_LANE_AXES], column[LS_LANE_AXES];
    bool ranged; /* only rows where 0 <= range < limit lie there; others lie at place `other` - 1, or are +0 */
    int other;
    ls_ix_sum range;
    int64_t limit;
    ls_chain_row_place *rows; /* of joined tensors in a kernel of its own: each row's */
} ls_chain_place;

struct ls_chain {
    int n_steps, n_pointers, n_scalars, n_slots;
    ls_chain_step steps[LS_CHAIN_STEPS];
    ls_chain_place places[LS_CHAIN_POINTERS], result;
    bool ranged;        /* some place is, or has rows of zeros */
    bool of_rows;       /* all steps are those of ls_chain_rows */
    int own_steps;      /* a function is called, and nothing is read but numbers: those of each row before it, the others perhaps the same; else -1 */
    bool follows, adds; /* an addition and, maybe, one of elements laid out as the result, and a maximum with a constant (ls_gemm_follow) */
    bool columns;       /* or one of a row of elements alone, the same for all rows */
    float floor;        /* then */
    int inner;          /* innermost axes of the columns along which all places are consecutive together */
    uint32_t fetched;   /* places that are large, and 1 << LS_CHAIN_POINTERS where the result is */
    ls_program scalars; /* lanes: batch and row axes */
    float *table;       /* [point of those axes][n_scalars]; the binary's, for one launch at a time */
};

enum { LS_CHAIN_ZEROS = 512 };
extern float ls_chain_zeros[LS_CHAIN_ZEROS]; /* what a row that lies nowhere reads */

static inline int64_t ls_chain_offset(const ls_axis_group *group, const int64_t *coords, const int64_t *strides) {
    int64_t at = 0;
    for (int i = 0; i < group->n; i++) {
        at += coords[group->axes[i]] * strides[i];
    }
    return at;
}

#endif
