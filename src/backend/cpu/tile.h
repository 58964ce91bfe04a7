/* Tile functions: what one opcode of a tile program does to a tile, one vector function each, compiled once
 * per instruction set (isa/tile*.c).
 *
 * A tile is a run of up to LS_TILE consecutive lanes. Values are held in registers in a dtype's held form:
 * f16 and bf16 as f32 (always exact in that dtype), everything else as itself (bool as one byte, 0 or 1).
 * Every function computes, lane by lane, what docs/contract.md says, so results do not depend on the
 * instruction set. dst may be the same as an operand, but may not overlap one otherwise. NaNs in registers
 * may have any payload; the store functions make them canonical. */
#ifndef LOCKSTEP_BACKEND_CPU_TILE_H
#define LOCKSTEP_BACKEND_CPU_TILE_H

#include "backend/cpu/chain.h"
#include "backend/cpu/cpuid.h"
#include "spec/spec.h"

enum {
    LS_TILE = 1024,         /* lanes of a register; a multiple of LS_TILE_PARTIALS */
    LS_TILE_PARTIALS = 256, /* of a reduction's block */
    LS_FOLD_AHEAD = 4096,   /* bytes from what is folded to the lines that are fetched meanwhile */
    LS_TILE_BLOCK = 4096,
    LS_TILE_CHUNK = 512, /* of a contraction's k, and of a scan */
    LS_SCAN_LEVELS = 8   /* elements, totals of blocks, of blocks of those ... of 2^63 elements */
};

typedef void (*ls_tile_fn)(void *dst, const void *a, const void *b, const void *c, int64_t n);
#define LS_SIGMOID_MAX 88.0f /* so that the exponential is a number (ls_sigmoid) */
typedef void (*ls_tile_cast_fn)(void *dst, const void *a, int64_t n);
/* dst[i] = src[i * stride], strides in elements. */
typedef void (*ls_tile_read_fn)(void *dst, const void *src, int64_t stride, int64_t n);
/* Rows of `inner` lanes one after another: dst[r * inner + i] = src[r * outer_stride + i * stride]. */
typedef void (*ls_tile_read_rows_fn)(void *dst, const void *src, int64_t outer_stride, int64_t rows,
                                     int64_t stride, int64_t inner);
/* Blocks of `lanes` one after another: dst[b * lanes + i] = src[b * stride + pattern[i]], pattern[i] >= 0. */
typedef void (*ls_tile_read_pattern_fn)(void *dst, const void *src, int64_t stride, int64_t blocks,
                                        const int32_t *pattern, int64_t lanes);
/* dst[i * stride] = src[i]. */
typedef void (*ls_tile_write_fn)(void *dst, int64_t stride, const void *src, int64_t n);
/* dst[i] = src[index[i]] where mask (NULL: everywhere), else zero bits. */
typedef void (*ls_tile_gather_fn)(void *dst, const void *src, const int64_t *index, const uint8_t *mask,
                                  int64_t n);
typedef void (*ls_tile_fill_fn)(void *dst, const void *value, int64_t n);
/* Rows lie one behind another; n <= LS_TILE_BLOCK. Lines so many bytes further on are fetched (0: none); if negative, so many less, into the
 * second-level cache. */
typedef void (*ls_fold_rows_fn)(float *results, const float *x, float minus, int64_t n, int64_t rows, int64_t fetch);
enum { LS_FOLD_SUM, LS_FOLD_PROD, LS_FOLD_MIN, LS_FOLD_MAX, LS_FOLDS }; /* of f32 */
/* Rows of n numbers, which lie so many elements apart, from their mean and by their deviation, each step rounded:
 * dst = (x - m) / d * times + plus, with m = sum(x) / count, or 0 unless `centred`, and d = sqrt(sum((x - m)^2) / count + more). Sums are
 * as the folds of f32 have them; times and plus have a number for each lane, or are NULL. NaN canonical. */
typedef struct ls_tile_row_norm {
    const float *x, *times, *plus;
    float *dst;
    int64_t n, x_row, dst_row;
    float count, more;
    bool centred;
    bool near;    /* the division, as divide_f32 has it */
    bool finite;  /* times and plus are */
    bool fetches, fetches_second; /* the lines of rows to come; into the second-level cache instead of the nearest */
    bool far;     /* past the caches: each row of dst begins where a line does */
} ls_tile_row_norm;
/* What else is done while a row is folded: lines of memory are fetched from `fetch` on, as many as the row has, where there is x,
 * x[i] / divisor of another row, which are no NaN, goes to dst, and the largest of the numbers that are `next` to `highest`: any number
 * where one of them is NaN, and of two zeros either. */
typedef struct ls_tile_beside {
    uintptr_t fetch;
    bool second; /* into the second-level cache instead of the nearest */
    const float *x;
    float *dst;
    float divisor, y, z; /* y and z are about 1 / divisor together (ls_tile_isa.beside_f32) */
    bool near;           /* as divide_f32 has it */
    bool far;            /* past the caches: dst begins where a line does */
    const float *next;
    float *highest;
} ls_tile_beside;
/* The sum of exp(x - minus), as fold_f32 has it, or, the fast one, in whichever of the partials; those go to dst, too. Whether dst may be
 * divided beside another row. */
typedef bool (*ls_fold_exp_fn)(float *partials, float *dst, const float *x, float minus, int64_t n, bool first,
                               const ls_tile_beside *beside);

/* Operations that integers have; map_int has a row for each. */
#define LS_TILE_INT_OPS(X)                                                                                   \
    X(NEG) X(ABS) X(SIGN) X(NOT) X(POPCOUNT) X(ADD) X(SUB) X(MUL) X(DIV) X(REM) X(MIN) X(MAX)     \
    X(AND) X(OR) X(XOR) X(SHL) X(SHR) X(EQ) X(NE) X(LT) X(LE)
#define LS_TILE_INT_ROW(op) LS_TILE_INT_##op,
enum { LS_TILE_INT_OPS(LS_TILE_INT_ROW) LS_TILE_INT_COUNT };
#undef LS_TILE_INT_ROW


/* Past the caches: store[LS_F32], as far as lines are whole, and what waits for all such stores. */
typedef struct ls_tile_far {
    void (*store_f32)(void *dst, const void *a, int64_t n);
    void (*fence)(void);
} ls_tile_far;

typedef struct ls_tile_isa {
    /* MAP operations by dtype of the operands: integers and bool, then f32 (f16 and bf16 held in f32 too),
     * then f64. NULL where an operation has none of its own (CAST, BITCAST, WHERE). */
    const ls_tile_fn (*map_int)[LS_F16];
    const ls_tile_fn *map_f32, *map_f64;
    const ls_tile_fn *map_fast; /* those of f32 that arithmetic that may fuse has of its own, NULL where none; or NULL */
    ls_tile_fn sigmoid_f32, fast_sigmoid_f32; /* 1 / (1 + exp(min(-x, LS_SIGMOID_MAX))): the bits of locked arithmetic, and with map_fast's exponential; or NULL */
    const ls_tile_cast_fn (*cast_int)[4];           /* [dtype from, integers and bool][log2 size to]: wraps */
    const ls_tile_cast_fn *int_to_f32, *int_to_f64; /* [dtype from] */
    const ls_tile_cast_fn
        *int_to_odd; /* [dtype from]: to f64 rounded to odd, for a second rounding to f16 or bf16 */
    const ls_tile_cast_fn *f32_to_int, *f64_to_int; /* [dtype to]: saturating; to bool: x != 0 */
    const ls_tile_cast_fn *int_to_bool;             /* [dtype from] */
    ls_tile_cast_fn f32_to_f64, f64_to_f32;
    ls_tile_cast_fn round_f32[2], round_f64[2]; /* to f16, bf16, held as f32 */
    ls_tile_cast_fn load[LS_DTYPE_COUNT];       /* stored to held; NULL: the same */
    ls_tile_cast_fn store[LS_DTYPE_COUNT];      /* held to stored, NaN canonical; NULL: the same bits */
    const ls_tile_far *far;                     /* or NULL */
    ls_tile_read_fn read[4];                    /* by log2 size, as the rest */
    ls_tile_read_rows_fn read_rows[4];
    ls_tile_read_pattern_fn read_pattern[4];
    ls_tile_write_fn write[4];
    ls_tile_gather_fn gather[4];
    ls_tile_fill_fn fill[4];
    ls_tile_fn select[4];               /* dst = a (u8) ? b : c */
    ls_tile_fn index[2]; /* quotient and remainder of i64, rounded down */
    void (*iota)(int64_t *dst, int64_t first, int64_t step, int64_t n);
    void (*in_range)(uint8_t *mask, const int64_t *a, const int64_t *limit,
                     int64_t n);                                              /* mask &= 0 <= a < limit */
    void (*multiple)(uint8_t *mask, const int64_t *a, int64_t of, int64_t n); /* mask &= a % of == 0 */
    /* dst[r * dst_stride + i] = src[i * src_stride + r] (4 bytes each); `canonical`: NaN of f32 are made so; `stream`:
     * past the caches, where lines are whole; those of src are fetched early then. */
    void (*transpose)(uint32_t *dst, int64_t dst_stride, const uint32_t *src, int64_t src_stride, int64_t rows,
                      int64_t lanes, bool canonical, bool stream);
    /* Each fold, or NULL: into the partials of a block (`first`: which hold nothing yet) those of
     * n <= LS_TILE lanes, and the halving of the partials, whose result is partials[0]. `fetches`: lines of x that come next. */
    void (*fold_f32[LS_FOLDS])(float *partials, const float *x, int64_t n, bool first, bool fetches);
    void (*halve_f32[LS_FOLDS])(float *partials);
    /* Sums, x read by halves of vectors: of lanes as above, and of rows of a multiple of LS_TILE_PARTIALS lanes; or NULL. */
    void (*fold_sum_halves_f32)(float *partials, const float *x, int64_t n, bool first);
    void (*rows_sum_halves_f32)(float *results, const float *x, int64_t n, int64_t rows);
    /* The sum of (x - minus)^2; or NULL. */
    void (*fold_squares_f32)(float *partials, const float *x, float minus, int64_t n, bool first, bool fetches);
    ls_fold_rows_fn rows_f32[LS_FOLDS], rows_squares_f32; /* the same folds of whole rows; or NULL */
    ls_fold_rows_fn quarters_f32[LS_FOLDS]; /* the same, read at four places at once; or NULL */
    /* Each fold of rows of n lanes, `apart` elements from one to the next, one after another into the results (`first`: which hold nothing
     * yet); lines of as many rows from `next` on are fetched meanwhile, where it is given, into the second-level cache if `second`; or NULL. */
    void (*onto_f32[LS_FOLDS])(float *results, const float *x, int64_t apart, int64_t rows, int64_t n, bool first, const float *next, bool second);
    /* The sums of nine terms in the contract's order, none of them -0. */
    void (*sum_nine_f32)(float *dst, const float *const terms[9], int64_t n);
    ls_fold_exp_fn fold_exp_f32[2]; /* locked, and fast, which divides beside where `near`; or NULL */
    /* (x - minus) / divisor; or NULL */
    void (*divide_f32)(float *dst, const float *x, float minus, float divisor, int64_t n, bool near, ls_chain_dst to);
    /* One step of an argmin [0] or argmax [1]: where x[i] is better than value[i] (NaN best of all, the first
     * one stays), both it and `k` take the place of value[i] and index[i]. */
    void (*arg_f32[2])(float *value, uint32_t *index, const float *x, uint32_t k, int64_t n);
    /* The first place that holds `found`, or where that is NaN a NaN; n: none does. */
    int64_t (*place_f32)(const float *x, int64_t n, float found);
    /* panel[p * width + q] = src[k_at[p] + i_at[q]] (4 bytes each) where, for every predicate t,
     * 0 <= k_pred[t * stride + p] + i_pred[t * stride + q] < limit[t]; else 0. ni <= 64. */
    void (*pack)(void *panel, int64_t width, const void *src, const int64_t *k_at, int64_t kc,
                 const int64_t *i_at, int64_t ni, int n_preds, const int32_t *k_pred, const int32_t *i_pred,
                 int64_t stride, const int64_t *limit);
    void (*threefry)(uint32_t *dst, const uint32_t *key0, const uint32_t *key1, const int64_t *counter,
                     int64_t n);
    ls_chain_fn chain;
    bool (*beside_f32)(ls_tile_beside *b, float divisor); /* sets what is the divisor's; false: divide_f32 has to do it; or NULL */
    void (*row_norms_f32)(const ls_tile_row_norm *norm, int64_t rows); /* or NULL */
} ls_tile_isa;

/* NULL for one that integers do not have. */
ls_tile_fn ls_tile_int_fn(const ls_tile_isa *isa, ls_op op, ls_dtype dtype);

/* NULL when this build has no objects for `isa`. */
const ls_tile_isa *ls_tile_isa_get(ls_cpu_isa isa);

/* The size of a dtype in its held form, and its log2. */
static inline size_t ls_tile_held_size(ls_dtype dtype) {
    return dtype == LS_F16 || dtype == LS_BF16 ? 4 : ls_dtype_size(dtype);
}
static inline int ls_tile_log2(size_t size) {
    return size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3;
}

#endif
