/* One block of a matrix product: what a task computes. Internal. */
#ifndef LOCKSTEP_BACKEND_CPU_GEMM_BLOCK_H
#define LOCKSTEP_BACKEND_CPU_GEMM_BLOCK_H

#include "backend/cpu/gemm_plan.h"

/* Rows [i0, i0+mi), columns [j0, j0+nj). */
typedef struct ls_gemm_block {
    const ls_gemm_plan *plan;
    char *shared, *memory; /* all workers' panels of B; this worker's part */
    int worker;
    int64_t batch, i0, mi, j0, nj, slab0;
    int64_t a_offset, b_offset, out_offset;
    char *c;          /* of type plan->sum */
    int64_t ldc;      /* elements */
    unsigned nan;     /* 0: there is none in c */
    const float *add;  /* of row i0, where what follows is done now; else NULL */
    const float *plus; /* then, to c's first element; or NULL */
} ls_gemm_block;

/* All of its sums, to c; `nan` says whether one of them may be. */
void ls_gemm_block_run(ls_gemm_block *b);
/* Of a single row alone, the sums of the chunk [k0, k0+kc) to y. */
void ls_gemm_block_sums(const ls_gemm_block *b, int64_t k0, int64_t kc, void *y);

#endif
