/*
 * Packed matrix product of the CPU backend: C[m,n] = A[m,k] * B[k,n], batched, with packing and epilogue
 * callbacks.
 *
 * Locked results (`fast` false) follow the contraction rule of docs/contract.md for every element of C:
 * products in ascending k, multiplied and then added (never fused, except where the product is exact),
 * serially from +0 within chunks of LS_GEMM_CHUNK consecutive k; chunk sums added in ascending order. k = 0
 * gives +0. They are the same bits for every instruction set, thread count, blocking, batch split and
 * operand layout. `fast` permits FMA.
 *
 *   operands            panel element   sum     output element (out.dtype)
 *   f32, f16, bf16      float           float   f32, f16, bf16 (rounded once)
 *   f64                 double          double  f64
 *   i8, u8              float           int32   i32 (wrapping; float sums are short enough to be exact)
 *   i32                 int32           int32   i32 (wrapping)
 *   pairs of bf16       uint32          float   f32: `reduced` alone, where the processor multiplies them
 * A and B may differ inside one row of this table (f16 times f32, i8 times u8). Only A and B both f16 (or
 * i8/u8) use FMA in locked mode: their products are exact, so FMA gives the same bits.
 *
 * Absent elements (padding without a value). A pack callback writes 0 where an element is absent. That
 * equals skipping it as long as the other operand is finite: a sum that starts from +0 is never -0 under
 * round-to-nearest (x + y = -0 only for x = y = -0), and s + (+-0) = s for every other s. An operand with
 * `absent` set therefore makes the driver test the other operand's panels; where one holds an infinity or
 * NaN it asks the callback for a mask and runs that panel by an exact scalar path. The caller has nothing
 * to do but to answer with the mask.
 *
 * The functions allocate nothing, keep no state and never fail: scratch memory is the caller's
 * (ls_gemm_workspace), shapes are the caller's to check. Different problems may run at the same time on
 * different threads.
 *
 *   ls_gemm g = {.isa = ls_gemm_isa_get(LS_CPU_AVX2), .m = m, .n = n, .k = k,
 *                .a = {.dtype = LS_GEMM_F32, .data = a, .stride_i = k, .stride_k = 1},
 *                .b = {.dtype = LS_GEMM_F32, .data = b, .stride_i = 1, .stride_k = n},
 *                .out = {.dtype = LS_GEMM_F32, .data = c, .stride_i = n, .stride_j = 1}};
 *   void *w = scratch(ls_gemm_workspace(&g));       (64-byte aligned)
 *   ls_gemm_run(&g, w);
 */
#ifndef LOCKSTEP_BACKEND_CPU_GEMM_H
#define LOCKSTEP_BACKEND_CPU_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/cpu/cpuid.h"

enum {
    LS_GEMM_CHUNK = 512,    /* the contract's chunk of k */
    LS_GEMM_MAX_WIDTH = 64, /* no micro-panel is wider (rows of A or columns of B) */
    LS_GEMM_BATCH_RANK = 8,
    LS_GEMM_ALIGN = 64, /* of the workspace and of packed operands, bytes */
};

typedef enum ls_gemm_dtype {
    LS_GEMM_F32,
    LS_GEMM_F64,
    LS_GEMM_F16,
    LS_GEMM_BF16,
    LS_GEMM_I8,
    LS_GEMM_U8,
    LS_GEMM_I32,
    LS_GEMM_PAIRS, /* of consecutive k, packed before (ls_gemm_pack_pairs) on both sides; k counts them */
} ls_gemm_dtype;

/* The microkernels and packing functions of one instruction set; constant. */
typedef struct ls_gemm_isa ls_gemm_isa;

/* NULL when this build has no objects for `isa`. The caller knows whether the CPU can run it (cpuid.h). */
const ls_gemm_isa *ls_gemm_isa_get(ls_cpu_isa isa);
/* The same, with what this CPU has beyond `isa` (VNNI). Operands packed for one are not for the other. */
const ls_gemm_isa *ls_gemm_isa_for(const ls_cpu *cpu, ls_cpu_isa isa);

/*
 * Fills one micro-panel: for p in [0,kc) and q in [0,ni), panel[p * width + q] = element (i0 + q, k0 + p),
 * where i is the operand's free axis (row of A, column of B). kc <= LS_GEMM_CHUNK and [k0, k0+kc) lies in
 * one chunk; ni <= width <= LS_GEMM_MAX_WIDTH; columns q >= ni are zero already and need not be written.
 * The element type is the table's above; f16 and bf16 operands deliver floats that are exact in that dtype.
 * An absent element is written as 0. `mask` is NULL, or has the panel's layout and is written too: 1
 * present, 0 absent (columns q >= ni are 1 already). `batch` is the row-major linear batch index; `worker`
 * < parallel.workers names the calling worker, which may differ between calls. Called from several threads
 * at once; an element may be asked for more than once.
 */
typedef void (*ls_gemm_pack_fn)(void *ctx, int worker, int64_t batch, int64_t k0, int64_t kc, int64_t i0,
                                int64_t ni, int64_t width, void *panel, uint8_t *mask);

/*
 * Called once for every part of a finished C, while it is in the cache: rows [i0, i0+ni), columns [j0,
 * j0+nj), element (i0+r, j0+c) at tile[r * ld + c], of the sum's type (float, double, int32). The parts of
 * one batch index are disjoint and cover [0,m) x [0,n). It may change the tile, which then goes to `out`
 * (rounded to its dtype), or, when out.data is NULL, do what it likes with it: the tile is then scratch
 * memory. Called from several threads at once.
 */
typedef void (*ls_gemm_epilogue_fn)(void *ctx, int worker, int64_t batch, int64_t i0, int64_t ni, int64_t j0,
                                    int64_t nj, void *tile, int64_t ld);

/* An operand packed once, for use with the same ISA and the same side. Filled in by ls_gemm_pack. */
typedef struct ls_gemm_packed {
    const ls_gemm_isa *isa;
    int64_t extent, k; /* free axis, contracted axis */
    int64_t width;     /* of a panel: panels of [k][width] follow each other */
    bool finite;       /* no infinity or NaN inside */
    bool turned;       /* packed as LS_GEMM_B is: an A whose product is computed exchanged */
    const void *data;
    bool by_rows; /* of A in pairs: panels are [width][k] */
} ls_gemm_packed;

/*
 * One operand, given in one of three ways: `packed`, else `pack`, else a strided view. In a view element
 * (i, p) of batch entry `batch[...]` lies at data + i*stride_i + p*stride_k +
 * sum(batch[d]*stride_batch[d]); i is the free axis (row of A, column of B), p the contracted one; strides
 * count elements and may be 0 or negative.
 */
typedef struct ls_gemm_operand {
    ls_gemm_dtype dtype;
    const void *data;
    int64_t stride_i, stride_k;
    int64_t stride_batch[LS_GEMM_BATCH_RANK];
    ls_gemm_pack_fn pack;
    void *pack_ctx;
    bool absent;                  /* `pack` has absent elements, and answers with a mask when asked */
    bool batch_shared;            /* `pack` ignores `batch`: one packing serves every batch entry */
    const ls_gemm_packed *packed; /* the same for every batch entry; never absent */
} ls_gemm_operand;

/* Where C goes; data NULL: nowhere, the epilogue takes it. No two elements may share an address. */
typedef struct ls_gemm_out {
    ls_gemm_dtype dtype;
    void *data;
    int64_t stride_i, stride_j;
    int64_t stride_batch[LS_GEMM_BATCH_RANK];
    bool canonical_nan; /* NaN is stored as 0x7fc00000 (f64 0x7ff8...0); f16 and bf16 always are canonical */
} ls_gemm_out;

/* What C's elements undergo last: row i of batch entry b gets add[(b*m + i)*step] added, then each its own of `plus`, and what is less than
 * `floor` becomes that (no NaN; -infinity: nothing does). */
typedef struct ls_gemm_follow {
    const float *add; /* NULL: nothing follows */
    int64_t step;
    bool adds;         /* there is a `plus`, which may be known later */
    bool columns;      /* and it is one row, the same for all of C's */
    const float *plus; /* laid out as C, and may be C's own memory; NULL: there is none */
    float floor;
} ls_gemm_follow;
/* Whether any instruction set of this build does it: WebAssembly has to be small. */
#ifdef LS_HAVE_ISA_AVX512
enum { LS_GEMM_FOLLOWS = true };
#else
enum { LS_GEMM_FOLLOWS = false };
#endif

/*
 * How to run tasks: `run` calls fn(ctx, task, worker) once for every task in [0,n), in any order, on any
 * threads, and returns after the last; worker is in [0, workers), and no two calls with the same worker
 * overlap. `run` NULL: serial. Small problems are run on the calling thread, as worker 0.
 */
typedef struct ls_gemm_parallel {
    void (*run)(void *pool, int64_t n, void (*fn)(void *ctx, int64_t task, int worker), void *ctx);
    void *pool;
    int workers;
    bool near; /* they join soon: smaller problems are worth it */
} ls_gemm_parallel;
/* How much work is worth threads, which is so much where they join late. */
static inline int64_t ls_least_work(int64_t far, bool near) {
    return near ? far / 4 : far;
}

typedef struct ls_gemm {
    const ls_gemm_isa *isa;
    int64_t m, n, k;
    int batch_rank;                    /* 0: one product */
    int64_t batch[LS_GEMM_BATCH_RANK]; /* extents; entry indices are row-major */
    ls_gemm_operand a, b;
    ls_gemm_out out;
    ls_gemm_epilogue_fn epilogue; /* NULL: none */
    void *epilogue_ctx;
    /* With `out`, a way to do without the epilogue, which does the same and takes all: f32 alone, and where LS_GEMM_FOLLOWS. */
    ls_gemm_follow follow;
    bool fast;
    bool turns; /* ls_gemm_turns */
    ls_gemm_parallel parallel;
    int64_t l2_bytes; /* of one core, for blocking; 0: 1 MiB. Never changes locked bits */
    bool l2_is_near, fetches_best; /* ls_cpu's, nor do they */
} ls_gemm;

/* Bytes of scratch memory (LS_GEMM_ALIGN-aligned) that ls_gemm_run needs for this very problem. */
size_t ls_gemm_workspace(const ls_gemm *g);

/* Computes the product; returns when all of C is stored. `workspace` may be NULL if its size is 0. */
void ls_gemm_run(const ls_gemm *g, void *workspace);

typedef enum ls_gemm_side { LS_GEMM_A, LS_GEMM_B, LS_GEMM_TALL_A, LS_GEMM_LOW_A } ls_gemm_side;
/* Of which sort A is to be packed before for columns that are so many at most: those whose tiles are not the widest have higher ones, and
 * so have those that such tiles fit better, unless B is packed before, too; those of few k have lower ones. */
ls_gemm_side ls_gemm_side_a(const ls_gemm *g, int64_t most_columns, bool b_is_packed);

/* Whether C's columns fill vectors so much worse than its rows do that it is best computed exchanged, and turned while it is in the cache, if A stays
 * the same: it is packed before then, as B's panels are, and B is not. */
bool ls_gemm_turns(const ls_gemm *g);

/* Whether an operand, a view, is read where it lies as fast as from panels, so that packing it before brings nothing. */
bool ls_gemm_reads_directly(const ls_gemm *g, ls_gemm_side side);

/* Bytes that a packed operand takes: extent of the free axis times k, in panels. */
size_t ls_gemm_packed_size(const ls_gemm_isa *isa, ls_gemm_side side, ls_gemm_dtype dtype, int64_t extent,
                           int64_t k);
/* The width of its panels: ls_gemm_workspace asks for it where an operand will be packed later. */
int64_t ls_gemm_packed_width(const ls_gemm_isa *isa, ls_gemm_side side, ls_gemm_dtype dtype, int64_t extent);

/*
 * Packs `operand` (a view or a callback without absent elements; batch entry 0) into `memory`, which must
 * outlive the uses of `out_packed`. Set it as `packed` of the operand in later problems, with the same
 * dtype.
 */
void ls_gemm_pack(const ls_gemm_isa *isa, ls_gemm_side side, const ls_gemm_operand *operand, int64_t extent,
                  int64_t k, void *memory, ls_gemm_packed *out_packed);

/* Whether a product may be one of LS_GEMM_PAIRS. The first call may ask the system for the matrix unit. */
bool ls_gemm_has_pairs(const ls_gemm_isa *isa);
/* The pairs of a product of so many k: whole blocks of them. */
int64_t ls_gemm_pairs_of(const ls_gemm_isa *isa, int64_t k);
/* How an operand, a view of f32 with k elements along the contracted axis, is packed in pairs, but for its memory. A that lies in rows stays so
 * where no blocks of it are asked for. */
ls_gemm_packed ls_gemm_packed_pairs(const ls_gemm_isa *isa, ls_gemm_side side, const ls_gemm_operand *operand, int64_t extent, int64_t k);
/*
 * Rounds its panel `index` to pairs of bf16, and writes it into the operand's packed memory, of ls_gemm_packed_size for LS_GEMM_PAIRS and
 * ls_gemm_pairs_of(isa, k). False: it holds a number that the processor's instruction could lose more of than the rounding does (which
 * flushes what is subnormal): not 0, and less than 2^-58 or not less than 2^63.
 */
bool ls_gemm_pack_pairs(ls_gemm_side side, const ls_gemm_operand *operand, const ls_gemm_packed *packed, int64_t index, int64_t k,
                        void *memory);

/*
 * For pack callbacks (im2col, prologues): rows[q] points at kc consecutive elements of `dtype` (consecutive
 * in k), or is NULL for zeros; writes panel[p * width + q] for q < ni and may write zeros for q >= ni.
 * `panel` is the start of a row of the panel (for part of a chunk: panel + p * width). Its element type is
 * the table's. kc is any number.
 */
void ls_gemm_pack_rows(const ls_gemm_isa *isa, ls_gemm_dtype dtype, int64_t kc, int64_t ni, int64_t width,
                       const void *const *rows, void *panel);

/* The same from a source whose free axis is consecutive: element (q, p) at src + q + p*stride_k elements. */
void ls_gemm_pack_cols(const ls_gemm_isa *isa, ls_gemm_dtype dtype, int64_t kc, int64_t ni, int64_t width,
                       const void *src, int64_t stride_k, void *panel);

#endif
