/* How a matrix product will be computed: follows from the problem, never changes locked bits. Internal. */
#ifndef LOCKSTEP_BACKEND_CPU_GEMM_PLAN_H
#define LOCKSTEP_BACKEND_CPU_GEMM_PLAN_H

#include "backend/cpu/gemm_isa.h"

/* The element of panels and the element of sums; they differ for 8-bit integers. */
typedef enum ls_gemm_type { LS_GEMM_TYPE_F32, LS_GEMM_TYPE_F64, LS_GEMM_TYPE_I32 } ls_gemm_type;

/* Where a kernel finds an operand. */
typedef enum ls_gemm_source {
    LS_GEMM_DIRECT, /* in the user's array */
    LS_GEMM_LOCAL,  /* in panels that each task packs for itself, one chunk of k at a time */
    LS_GEMM_SHARED, /* in panels of all k that the workers pack together before the tasks run (B only) */
    LS_GEMM_BEFORE, /* in panels that the caller packed before */
} ls_gemm_source;

/* Where packed panels likely are, by their bytes. */
typedef enum ls_gemm_place { LS_GEMM_NEAREST, LS_GEMM_CACHED, LS_GEMM_MEMORY } ls_gemm_place;

enum {
    LS_GEMM_NEAREST_CACHE = 32 << 10,
    LS_GEMM_LINE = 64,        /* of a cache, in bytes */
    LS_GEMM_PANEL_LINES = 4,  /* of each k: all that a tile can fetch */
    LS_GEMM_STREAMED_ROWS = 9 /* by panels from memory: the first tile alone waits for them */
};

/* A product of f32 that is nothing but the tiles of a few panels of B. All that a launch needs of its plan is here, side by side: the operands of
 * such a one take much of the first cache, and every other line would have to come from the second. */
typedef struct ls_gemm_alone_part { /* some of C's rows, by tiles of one height */
    ls_gemm_kernel kernel;
    int64_t tiles, rows; /* in all */
    int64_t a_next, a;   /* elements of A, from one tile to the next and in all */
} ls_gemm_alone_part;
typedef struct ls_gemm_alone {
    int n_parts; /* from C's first row on; 0: it is no such product */
    ls_gemm_alone_part parts[3];
    ls_gemm_tiles tiles;            /* what each call has, but for addresses and the part's */
    int64_t columns, width, b_next; /* of C; of a panel; elements of B from one panel to the next */
} ls_gemm_alone;

typedef struct ls_gemm_plan {
    const ls_gemm *g;             /* with A and B exchanged when `swapped` */
    bool swapped;                 /* C is computed transposed, */
    bool turned;                  /* and its blocks, whose rows are gathered, are turned before what follows */
    ls_gemm_vector_kernel vector; /* one row, by this kernel; or NULL */
    bool masks;                   /* absent elements are possible */
    bool through_tile;            /* C is gathered in a scratch block (else in the output itself) */
    bool follows;                 /* tiles do what follows, without the epilogue: */
    ls_gemm_epilogue_fn part;     /* for those that are no whole vectors */
    bool backward;                /* panels of B and tasks from the last one on */
    bool inline_run;              /* too small to wake other threads, */
    bool asks;                    /* but not if they were near */
    const ls_gemm_kernels *kernels;
    ls_gemm_type panel, sum;
    int64_t elem;       /* bytes of a panel's element; a sum's are as many */
    int64_t rows, cols; /* panel widths of A and B */
    int64_t batches;    /* tasks see this many; outer_batches > 1: the whole is done that often */
    int64_t outer_batches;
    ls_gemm_source a_source, b_source;
    ls_gemm_place b_place;
    bool streamed; /* the first tile is as high as can be, since it takes as long as memory; what is left is the second's */
    int64_t mc, nc;  /* the largest block of C in one task */
    int64_t at_once; /* columns of a row's product that are computed over all of k before the next ones */
    int64_t parts, part_bytes; /* of a row's product whose k is cut, not the columns: tasks, 0 if it is not; a chunk's sums */
    int64_t m_blocks, n_blocks; /* of C's rows, of a whole slab's columns */
    int64_t bytes_k; /* not 0: g->k counts elements of four bytes, of so many in all */
    uint32_t flip_a, flip_b;
    int64_t depth; /* of k that passes over the whole block at once; divides LS_GEMM_CHUNK */
    bool resumes;  /* sums of a chunk are complete only after several such passes: then the bits are locked */
    int64_t slab;  /* columns of B packed at once, when shared */
    int64_t ldc;   /* of the scratch block */
    /* workspace: shared panels, then for each worker its own part with these offsets */
    int64_t shared_bytes, worker_bytes;
    int64_t b_at, c_at, turned_at, tile_at, mask_at, sums_at;
    int workers;
    ls_gemm_alone alone;
} ls_gemm_plan;

static inline int64_t ls_gemm_smaller(int64_t x, int64_t y) {
    return x < y ? x : y;
}
static inline int64_t ls_gemm_larger(int64_t x, int64_t y) {
    return x > y ? x : y;
}

/* Of numbers that are not negative, rounded down, and up. Most fit 32 bits, whose division takes a fraction of the time: a small product
 * has two dozen of them before its first tile. */
static inline int64_t ls_gemm_quotient(int64_t x, int64_t y) {
    return x < y ? 0 : (uint64_t)(x | y) >> 32 ? x / y : (uint32_t)x / (uint32_t)y;
}
static inline int64_t ls_gemm_ceil_div(int64_t x, int64_t y) {
    return ls_gemm_quotient(x + y - 1, y);
}

/* Bytes from where one worker's memory begins to the next one's. Between cores that share no cache, what lies near what another one writes
 * is slow to read and write, far beyond a line of the cache; memory that nobody touches costs nothing. */
static inline int64_t ls_gemm_worker_step(int64_t bytes, int64_t workers) {
    enum { APART = 256 << 10 };
    return workers > 1 && bytes > LS_GEMM_NEAREST_CACHE ? bytes + APART : bytes;
}

/* Of so many rows of A: the tiles of plan->rows. What is left goes to one tile or two; too few rows would wait for their own sums, and
 * share with those before. */
static inline int64_t ls_gemm_whole_tiles(const ls_gemm_plan *plan, int64_t rows) {
    int64_t whole = ls_gemm_quotient(rows, plan->rows), left = rows - whole * plan->rows;
    return whole - (!LS_SMALL && whole > 0 && left > 0 && 2 * left < plan->rows && plan->a_source == LS_GEMM_DIRECT && !plan->streamed);
}
/* Rows of the next one of those, of the rows that are left. */
static inline int64_t ls_gemm_last_rows(const ls_gemm_plan *plan, int64_t left) {
    return left > plan->rows ? (left + 1) / 2 : left;
}

/* Whether tiles can fetch each line of a packed panel. */
static inline bool ls_gemm_in_lines(const ls_gemm_plan *plan) {
    return plan->cols * plan->elem == LS_GEMM_PANEL_LINES * LS_GEMM_LINE;
}

/* Into how many blocks, at least `least`, to cut `units` that are there `others` times: at most `each` for a worker, where that many leave
 * none with much more than the rest. Each has an equal number at first; one that is held up leaves its last ones to others. */
int64_t ls_gemm_blocks(int64_t units, int64_t others, int64_t workers, int64_t each, int64_t least);
/* The most units that a worker has then. */
int64_t ls_gemm_load(int64_t units, int64_t blocks, int64_t others, int64_t workers);
/* The same for blocks that differ by no more than one unit: the most, up to what fills each worker's last round, that leave none with more than
 * 1/64 above what fewer would. */
int64_t ls_gemm_even_blocks(int64_t units, int64_t others, int64_t workers, int64_t each, int64_t least);

/* `out_problem` receives the problem that the plan points to. C has elements. */
void ls_gemm_plan_make(const ls_gemm *g, ls_gemm *out_problem, ls_gemm_plan *out_plan);
/* A plan serves any problem that differs by addresses alone (of data and packed panels of the same width): `problem`, which the plan points
 * to, takes them from g. */
void ls_gemm_plan_move(const ls_gemm_plan *plan, const ls_gemm *g, ls_gemm *problem);
/* In ls_gemm_plan_bytes of workspace. */
void ls_gemm_plan_run(const ls_gemm_plan *plan, void *workspace);
/* The same where there are `alone.n_parts`, for operands (packed as those of the plan) and results that lie elsewhere. `plus`: as the problem's
 * `follow` has it. */
void ls_gemm_run_alone(const ls_gemm_plan *plan, const float *a, const float *b, float *c, const float *plus);

/* Of the workspace. */
static inline size_t ls_gemm_plan_bytes(const ls_gemm_plan *plan) {
    return (size_t)(plan->shared_bytes + plan->workers * plan->worker_bytes);
}

/* C has no elements. */
bool ls_gemm_empty(const ls_gemm *g);

ls_gemm_type ls_gemm_panel_type(ls_gemm_dtype dtype);
int64_t ls_gemm_dtype_size(ls_gemm_dtype dtype);

/* A part of an operand: elements [i0,i0+ni) x [k0,k0+kc) of one batch entry. */
typedef struct ls_gemm_part {
    const ls_gemm_operand *operand;
    int worker;
    int64_t batch, offset; /* of the batch entry: its index, and its place in a view */
    int64_t k0, kc, i0, ni;
    int64_t bytes_k; /* not 0: k0 and kc count elements of four bytes each, of so many in all */
    uint32_t flip;   /* of those elements */
} ls_gemm_part;

/* Whether few rows by so many columns that are read in place take the highest tiles: those are whole then, and the widest would not be. Where
 * panels are packed on the way the widest are faster, and so they are in locked, but for two of the highest by what is not far. */
bool ls_gemm_is_tall(const ls_gemm *g, const ls_gemm_kernels *kernels, int64_t columns);
/* Zen 5: stores to lines that are not near hold nothing up, so that no tile fetches them, and all share what of B is to be fetched. Elsewhere
 * 1x1 convolutions of 64 channels would take up to 1.7 times as long without. */
static inline bool ls_gemm_stores_far(const ls_gemm *g) {
    return g->l2_is_near && !g->fetches_best;
}
/* Whether so few k are summed, in `fast`, that the widest tiles had better be lower: there the stores at a tile's end, which come all at once, hold
 * up the next one's sums. */
enum { LS_GEMM_LOW_ROWS = 4 };
bool ls_gemm_is_low(const ls_gemm *g, const ls_gemm_kernels *kernels);
/* Columns of a panel of B, so many vectors at most: panels are as wide as each other, as far as that goes. */
int64_t ls_gemm_panel_columns(const ls_gemm_kernels *kernels, int most_vectors, int64_t n);

/* What the bytes of an operand are XORed with in elements of four. */
uint32_t ls_gemm_flip(ls_gemm_side side, ls_gemm_dtype dtype);
/* Whether panels of a dtype hold four bytes an element. */
static inline bool ls_gemm_in_fours(const ls_gemm_isa *isa, ls_gemm_dtype dtype) {
    return !LS_SMALL && isa->dots && (dtype == LS_GEMM_I8 || dtype == LS_GEMM_U8);
}

/* Packs a part into panels of `width`, `panel_stride` elements apart. `mask` (one panel only) may be NULL. */
void ls_gemm_pack_part(const ls_gemm_isa *isa, ls_gemm_part part, int64_t width, void *panels,
                       int64_t panel_stride, uint8_t *mask);

#endif
