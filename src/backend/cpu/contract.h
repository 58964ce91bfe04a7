/* Contractions on the packed matrix product: internal to contract.c, contract_run.c and pack.c. */
#ifndef LOCKSTEP_BACKEND_CPU_CONTRACT_H
#define LOCKSTEP_BACKEND_CPU_CONTRACT_H

#include "backend/cpu/chain.h"
#include "backend/cpu/kernel.h"

enum {
    LS_SIDE_PREDS = 4,
    LS_SIDE_LANES = 128 /* of k packed at a time from rows that a program computes */
};

typedef struct ls_axis_group { /* linearised row-major */
    int n;
    uint8_t axes[LS_LANE_AXES];
} ls_axis_group;
/* Of what `sum` says, along each axis of the group. */
static inline void ls_group_strides(const ls_ix_sum *sum, const ls_axis_group *group, int64_t *out) {
    for (int i = 0; i < group->n; i++) {
        out[i] = ls_ix_sum_stride(sum, group->axes[i]);
    }
}

/* One operand. */
typedef struct ls_contract_side {
    int32_t value;
    const ls_axis_group *free;
    ls_gemm_dtype dtype;
    ls_dtype element;
    bool affine;  /* one load: sum.constant + strides; else `program` */
    bool view;    /* a plain strided matrix: view_i, view_k */
    bool absent;  /* elements whose predicates fail are absent, else +0 */
    bool lanes_k; /* of the program */
    bool joined;  /* of the program: nothing but tensors joined along k (joined.c) */
    bool fixed;   /* no symbol changes which elements a packing holds, or their order */
    int buffer;
    ls_ix_sum sum;
    int64_t view_i, view_k;
    int64_t batch_stride[LS_LANE_AXES], free_stride[LS_LANE_AXES], k_stride[LS_LANE_AXES];
    int n_preds; /* 0 <= pred[t] < limit[t] */
    ls_ix_sum pred[LS_SIDE_PREDS];
    int64_t limit[LS_SIDE_PREDS];
    int64_t pred_batch[LS_SIDE_PREDS][LS_LANE_AXES], pred_free[LS_SIDE_PREDS][LS_LANE_AXES],
        pred_k[LS_SIDE_PREDS][LS_LANE_AXES];
    ls_program program; /* results: the element as the panel holds it, its presence or -1 */
} ls_contract_side;

struct ls_gemm_phase {
    ls_axis_group batch, m, n, k;
    ls_contract_side side[2]; /* rows, columns */
    struct ls_quant *quant;     /* quant.c: the columns are quantised weights; NULL: they are not */
    struct ls_windows *windows; /* windows.c: the way to compute it without packing windows; NULL: none */
    struct ls_chain *chain;     /* chain.c: what follows, in registers; NULL: the finish program does it */
    /* Where the finished sums go, if that is all that `finish` does: argument -1 where it is not. `result`: the same of what comes of
     * the sums, one by one. */
    int out, result;
    ls_gemm_dtype out_dtype;
    int64_t out_offset, out_i, out_j, out_batch[LS_LANE_AXES];
    struct ls_gemm_last *last; /* contract_run.c: what the last launch leaves for the next one */
    struct ls_sparse *sparse; /* sparse.c: the way where most of an operand is zero; NULL: none */
    int64_t
        cut; /* the epilogue's lanes do not cross multiples of this, where memory breaks off; 0: nowhere */
};

struct ls_gemm_worker {
    uint64_t product; /* what follows is that one's (ls_gemm_worker_of) */
    bool finish_begun, side_begun[2], image_clear;
    int64_t k0[2], kc[2], batch[2]; /* of what the offsets of k, or places of joined tensors, are written out for; kc 0: nothing */
    ls_run finish, side[2];
};

typedef struct ls_gemm_call {
    void (*fn)(void *ctx, int64_t task, int worker);
    void *ctx;
} ls_gemm_call;
void ls_gemm_call_task(void *ctx, long task, int worker);

struct ls_gemm_launch;
typedef struct ls_contract_side_launch {
    struct ls_gemm_launch *launch;
    const ls_contract_side *side;
    int which;
    size_t offset; /* into a worker's scratch */
} ls_contract_side_launch;

/* One of the device's products: a phase has the same record for all of its own, of which the kernel's run and the number differ. */
typedef struct ls_gemm_launch {
    ls_kernel_run *kernel;
    const ls_phase *phase;
    uint64_t number; /* from 1 on */
    ls_gemm_call call;
    ls_gemm_worker *workers;
    size_t sum_size, finish_offset, quant_offset;
    ls_contract_side_launch sides[2];
    const struct ls_quant_pack *quant_pack;
} ls_gemm_launch;

/* What a worker has begun for this product: nothing yet at the first call. */
ls_gemm_worker *ls_gemm_worker_of(const ls_gemm_launch *launch, int worker);

struct ls_gemm_last *ls_gemm_last_new(ls_arena *arena); /* contract_run.c; NULL: out of memory */
/* contract_run.c: an ls_gemm_epilogue_fn that runs the phase's finish program, with an ls_gemm_launch. */
void ls_gemm_finish_tile(void *ctx, int worker, int64_t batch, int64_t i0, int64_t ni, int64_t j0, int64_t nj,
                         void *tile, int64_t ld);

/* chain.c. Plans nothing where the store, which is all that follows the phase's value, is no chain. */
typedef struct ls_chain ls_chain;
ls_status ls_chain_plan(ls_kernel_binary *binary, ls_phase *phase, const int *temps, const ls_store *store,
                        ls_error *err) LS_MUST_USE;
/* The same for the one phase of a kernel, a STORE whose program is there; then its tasks. */
ls_status ls_chain_plan_points(ls_kernel_binary *binary, ls_phase *phase, const int *temps, const ls_store *store,
                               ls_error *err) LS_MUST_USE;
void ls_chain_begin_points(ls_kernel_run *kernel, const ls_phase *phase);
void ls_chain_points(const ls_phase_task *task);
/* Whether it is what tiles do themselves; then what that is, its addends as ls_chain_begin leaves them. */
bool ls_chain_follow(const ls_chain *chain, ls_gemm_follow *out);
/* Whether ls_chain_begin has anything to do. */
bool ls_chain_begins(const ls_chain *chain);
/* Where the elements begin that it adds, if it does. */
const float *ls_chain_plus(const ls_chain *chain, char *const *buffers);
/* Before the first tile of a launch, on one thread; then tiles as ls_gemm_finish_tile takes them. */
void ls_chain_begin(const ls_gemm_launch *launch);
void ls_chain_tile(const ls_gemm_launch *launch, int64_t batch, int64_t i0, int64_t ni, int64_t j0, int64_t nj,
                   const float *tile, int64_t ld);
/* Where a tile's row i0 lies, if all that follows is a store of consecutive elements, or where `rows` is there, after steps with
 * scalars; else NULL. */
float *ls_chain_result(const ls_gemm_launch *launch, int64_t batch, int64_t i0, int64_t j0, int64_t nj, ls_chain_rows *rows);
/* The same where those steps are an addition, a maximum and a minimum at most, in this order; NULL sets no bounds. */
float *ls_chain_bounded(const ls_gemm_launch *launch, int64_t batch, int64_t i0, int64_t j0, int64_t nj, ls_bounds *bounds);

/* windows.c, windows_run.c. Plans nothing where the contraction is no window over an image, or where packing is better. */
ls_status ls_windows_plan(ls_kernel_binary *binary, ls_gemm_phase *gemm, const int *temps,
                          ls_error *err) LS_MUST_USE;
/* Bytes of the device's workspace that a launch needs. */
size_t ls_windows_workspace(const ls_kernel_binary *binary, const ls_gemm_phase *gemm, const int64_t *extents);
/* False: not with these operands, and nothing is written. */
bool ls_windows_run(ls_gemm_launch *launch);
void ls_windows_print(ls_text *out, const struct ls_windows *windows);

/* sparse.c, after the windows. Plans nothing where the contraction is no convolution or its gradient with enough channels. */
ls_status ls_sparse_plan(ls_kernel_binary *binary, ls_gemm_phase *gemm, ls_error *err) LS_MUST_USE;
/* False: not with these operands, and nothing is written. */
bool ls_sparse_run(ls_gemm_launch *launch);
void ls_sparse_print(ls_text *out, const struct ls_sparse *sparse);

/* pairs.c. False: not with these operands, and nothing is written. */
bool ls_pairs_run(ls_gemm_launch *launch, const ls_gemm *g);

/* contract_run.c: room in the device's workspace; false when out of memory. */
bool ls_gemm_grow_workspace(ls_cpu_device *d, size_t need);

/* pack.c: an ls_gemm_pack_fn whose context is an ls_contract_side_launch, and the scratch it needs of each
 * worker. */
void ls_gemm_pack_side(void *ctx, int worker, int64_t batch, int64_t k0, int64_t kc, int64_t i0, int64_t ni,
                       int64_t width, void *panel, uint8_t *mask);
size_t ls_contract_side_scratch(const ls_contract_side *side);
/* joined.c: whether a side's program does nothing but join; then its panels, as ls_gemm_pack_fn has them. `scratch`: LS_GEMM_CHUNK
 * pointers, kept from one to the next. */
#ifdef LS_HAVE_ISA_SIMD128 /* WebAssembly has to be small: a program packs such operands */
enum { LS_JOINS = false };
#else
enum { LS_JOINS = true };
#endif
bool ls_joined_find(const ls_contract_side *side);
void ls_joined_pack(const ls_contract_side_launch *s, int worker, ls_run *run, char *scratch, int64_t batch, int64_t k0, int64_t kc,
                    int64_t i0, int64_t ni, int64_t width, float *panel);
/* The worker's run of a side's program, begun at its first use, and the scratch behind it. */
ls_run *ls_contract_side_run(const ls_contract_side_launch *s, int worker, char **out_rows);

#endif
