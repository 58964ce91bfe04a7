/* What the objects of one instruction set (isa/gemm*.c) give to the driver: tables of functions. Internal. */
#ifndef LOCKSTEP_BACKEND_CPU_GEMM_ISA_H
#define LOCKSTEP_BACKEND_CPU_GEMM_ISA_H

#include "backend/cpu/chain.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/limit.h"

enum {
    LS_INLINE_WORK = LS_LIMIT(1 << 19, 1 << 7), /* multiply-adds below which waking a thread costs more than it brings */
    LS_TASKS_PER_WORKER = 3
};
enum { LS_GEMM_MAX_ROWS = 12, LS_GEMM_TILE_ROWS = 8, LS_GEMM_TILE_VECTORS = 4 };
enum { LS_SPARSE_VECTORS = 8, LS_SPARSE_LINES = 3, LS_SPARSE_LINE_VECTORS = 6, LS_SPARSE_SLACK = 16, LS_DEPTHWISE_TAPS = 16 };

/*
 * Tiles of fixed height and width, one below another. s is the serial sum over p of a[i*a_row + p*a_k] * b[p*b_k + j] from +0; it
 * goes into c[i*ldc + j]. Strides in elements. Tiles of two vectors and more fetch ahead[p*ahead_k], in bytes, for what comes next; those of
 * four vectors, if told so, two or four lines from there on.
 */
typedef struct ls_gemm_tiles {
    int64_t n, kc;
    const void *a, *b;
    void *c;
    int64_t a_row, a_k, b_k, ldc;
    bool adds, resumes; /* c = c + s; c goes on as s, from c instead of +0; neither: c = s. Apart: as one number each tile took up to 3 % longer */
    const char *ahead;
    int64_t ahead_k, a_next, ahead_next; /* the last two: from a tile to the next one */
    int64_t ahead_lines;                 /* one, which may be 0; 2 or 4 */
    const float *add;                    /* NULL: nothing follows; else of the first tile's rows (ls_gemm_follow) */
    const float *plus;                   /* NULL, or with `add` what is added to the first tile's elements */
    int64_t add_step, plus_row;          /* from a row's to the next one's */
    float floor;
} ls_gemm_tiles;
/* 0: nothing in c is NaN. */
typedef unsigned (*ls_gemm_kernel)(const ls_gemm_tiles *t);

/* y[j] = the same sum for one row and any number n of columns, for a b that is best read row by row. */
typedef void (*ls_gemm_vector_kernel)(int64_t kc, int64_t n, const void *x, int64_t x_k, const void *b,
                                      int64_t b_k, void *y);

/*
 * c[i*ldc + j] = (add ? c[i*ldc + j] : nothing) + the sum over p of a[p*rows + i] * b[at[p] + j], for a fixed number of
 * rows and n columns, a multiple of two vectors; of eight rows, two vectors or more.
 */
typedef void (*ls_gemm_taps_kernel)(int64_t kc, int64_t n, const void *a, const int64_t *at, const void *b,
                                    void *c, int64_t ldc, bool add);

/* The same of four rows, n a multiple of a vector, two or more. If `ends`, ends[i][0] is added to c[i*ldc + j] then, whose least is ends[i][1], and NaN
 * is canonical. If `lines`, which fast has alone, each three taps are side by side: at[p + 1] is at[p] + 1. */
typedef void (*ls_gemm_ends_kernel)(int64_t kc, int64_t n, const void *a, const int64_t *at, const void *b, void *c, int64_t ldc, bool add,
                                    const float *ends, bool lines);
enum { LS_ENDS_ROWS = 4 };

/* An element that is not zero, and where what it is multiplied with begins. */
typedef struct ls_sparse_entry {
    int32_t at;
    float value;
} ls_sparse_entry;

/* c[j] += the sum over the list, in its order, of value * base[at + j], for j of a fixed number of vectors. */
typedef void (*ls_gemm_sparse_kernel)(int64_t n, const ls_sparse_entry *list, const void *base, void *c);
/* The same for LS_SPARSE_LINES lines of LS_SPARSE_LINE_VECTORS at once: c[l][j] += the sum of value * base[at + l * step + j]. */
typedef void (*ls_gemm_sparse_lines_kernel)(int64_t n, const ls_sparse_entry *list, const void *base, int64_t step,
                                            void *const *c);
/* For places one after another, each with a list from starts[0] to starts[1]: for each of LS_SLIDE_TAPS lines of as many taps, of one
 * vector each,
 *   c[line][tap*cell_step + j] += the sum over the place's list of value * base[at + (line*LS_SLIDE_TAPS + tap)*lanes + j];
 * starts go start_step, and each c goes cell_step on to the next place. Where there is a c[LS_SLIDE_TAPS], the last line's first tap is
 * added there instead. */
enum { LS_SLIDE_TAPS = 3 };
typedef struct ls_gemm_slide {
    const int32_t *starts;
    int64_t places, start_step, cell_step;
} ls_gemm_slide;
typedef void (*ls_gemm_slide_kernel)(const ls_gemm_slide *t, const ls_sparse_entry *lists, const void *base, void *const *c);

/*
 * For LS_THIN_ROWS rows and LS_THIN_TAPS taps, sums[row][tap] += the sum over lines and j of x[row*x_row + line*x_line + j] *
 * image[line*image_line + j + tap], a vector of sums each. Of the v-th vector of a line, taps take the lanes wanted[v][tap] alone. Fetches
 * what lies `ahead` of x.
 */
enum { LS_THIN_ROWS = 4, LS_THIN_TAPS = 3 };
typedef struct ls_gemm_thin {
    int64_t lines, vectors, x_row, x_line, image_line, ahead;
    const uint16_t (*wanted)[LS_THIN_TAPS];
} ls_gemm_thin;
typedef void (*ls_gemm_thin_kernel)(const ls_gemm_thin *t, const float *x, const float *image, float *sums);

/*
 * Windows of planes, each with its filter: out[r*out_line + j] is the sum over taps (i, t), row-major, of filter[i][t] * image[v*line +
 * u] where v = stride[0]*r + step[0]*i and u = stride[1]*j + step[1]*t are inside the plane; others are left out, or times +0: filters
 * are finite. NaN are canonical. The last stride is 1 or 2, taps are LS_DEPTHWISE_TAPS at most in each dimension.
 */
typedef struct ls_depthwise {
    int64_t rows, columns; /* of outputs */
    int64_t taps[2], stride[2], step[2], low[2], high[2];
    int64_t line, out_line;
    int64_t planes, image_plane, filter_plane, out_plane; /* how many, and elements between them */
    int64_t ahead, out_ahead; /* where what comes next lies: fetched */
    bool by_lines;            /* not column by column, where there is a kernel for that: best of memory (AVX2, 3x3) */
    ls_bounds bounds;         /* a plane is a row of them */
} ls_depthwise;
typedef void (*ls_depthwise_kernel)(const ls_depthwise *d, const float *image, const float *filter, float *out);

/* Some outputs of a tile across (below): to[output][row] = from[output][row] + the sum of a[p*rows + row] * at[output][shifts[p]] for p < k, one
 * after another, + plus[output][row], if not NULL. a begins a vector. */
typedef void (*ls_gemm_outputs_kernel)(int64_t k, const int64_t *shifts, const float *a, const float *const *at, const float *from, const float *plus,
                                       float *to);

/* Two or three vectors of a tile over runs of an image: the first begins where the tile does, the others at `second` and `third`; of three
 * the lanes `other` of the second, which are of another line, are those at `rest`. Lanes that are wanted go one after another to
 * at[vector]. */
typedef struct ls_gemm_run_places {
    int64_t second, third, rest, at[3];
    uint16_t lanes[3], other;
} ls_gemm_run_places;

/* So many k in turn, an even number, for which outputs of a tile are beyond the image: their sums stay as they are. */
enum { LS_BEYOND_FIRST = 1, LS_BEYOND_LAST = 2, LS_BEYOND_ALL = 4 };
typedef struct ls_gemm_edge {
    int64_t k, beyond;
} ls_gemm_edge;

/*
 * Such a tile for each of some panels of eight rows: sums[i][lane] = (add ? sums[i][lane] : nothing) + the sum of a[p*8 + i] * the lane of
 * image + shifts[p] for p < k; what shifts[k] says is loaded, too. The `last` of them go to c instead, after the chain of `rows`, NaN
 * canonical, at c + i*ldc. Meanwhile what is needed later is fetched: a line of 64 bytes each four k, in fast but for the first eight of
 * the last, up to ahead_end, where the next plane follows after a gap, and so on; ahead and ahead_end go on.
 */
typedef struct ls_gemm_runs {
    const int64_t *shifts;
    int64_t k, ldc;
    int64_t panels, panel; /* elements from one to the next */
    float *sums;           /* [panels][8][3 vectors] */
    const float *ahead, *ahead_end;
    int64_t ahead_gap, ahead_plane;
    ls_gemm_run_places places;
    int64_t lead; /* 0: the lines of c that are stored are fetched meanwhile; else, at once, those so many elements behind */
    bool second;  /* and those into the second-level cache */
    bool add, last;
    ls_chain_rows rows;
    int64_t step, outputs;     /* of tiles across, see below; */
    int64_t stored;            /* of which so many, the first, are stored */
    const int64_t *of_outputs; /* where each one's elements begin, if they are not so many apart; else NULL */
    const ls_gemm_outputs_kernel *of; /* [outputs], their kernels, if they have some */
    int64_t taps;                     /* of those of lines, else 0: then no end of one is among the edges, but */
    int64_t low, high;                /* so many elements are beyond it for its first output, and for the last one of the tile */
    const ls_gemm_edge *edges; /* of those tiles, all of k */
    int n_edges;
} ls_gemm_runs;
typedef void (*ls_gemm_runs_kernel)(ls_gemm_runs *t, const float *a, const float *image, float *c);
/* Or a tile across, of some outputs for each of some panels of two vectors of rows, which are its vectors: sums[output][row] = (add ? sums[output][row] :
 * nothing) + the sum of a[p*rows + row] * image[shifts[p] + output*step] for p < k, but for what is beyond the image, which is not read;
 * shifts[k] is, too. By AVX-512 there are 14 outputs, each half of them so many apart, and meanwhile the lines of c are fetched, and what is
 * needed later, a line each four k; else those that kernels of four, five or six make up. */
enum { LS_ACROSS_ROWS = 32, LS_ACROSS_ALIKE = 14, LS_ACROSS_OUTPUTS = 56, LS_ACROSS_SUMS = 896, LS_ACROSS_LINES = 128 }; /* at most; no panel over windows is higher */

/* All kernels of one element type, locked or fast. */
typedef struct ls_gemm_kernels {
    int rows;           /* of the highest tile */
    int widest_rows;    /* of the highest of those of most vectors; panels of A that were packed before are no wider, but LS_GEMM_TALL_A's */
    int64_t most_tiles; /* in a call */
    int lanes;          /* of a vector */
    int vectors;        /* of the widest tile, and of B's panels at most: 2 to 4 */
    int64_t least_fetch; /* bytes of each k of a packed panel that a tile fetches, where one that fetches nothing takes less time; or 0 */
    bool follows;       /* tiles do what follows */
    bool resumes;       /* tiles can resume sums; not those of fast, which locked halves and bytes have, too, but never in slices */
    /* Tiles compute and store all rows of a panel of A, which is as high as one of them: they stand at their height / 4. */
    bool whole_rows;
    void (*begin)(void), (*end)(void); /* before the first tile of a task and after the last, on its thread; NULL: nothing */
    ls_gemm_kernel tile[LS_GEMM_TILE_ROWS + 1][LS_GEMM_TILE_VECTORS + 1]; /* [rows][vectors], from 1 */
    ls_gemm_taps_kernel taps[LS_GEMM_MAX_ROWS + 1]; /* [rows]; NULL where there is none of that height */
    ls_gemm_ends_kernel ends;                       /* or NULL */
    int64_t threes; /* the rows of those that take three vectors at a time, and what is left by twos; 0: none */
    ls_gemm_sparse_kernel sparse[LS_SPARSE_VECTORS + 1]; /* [vectors], from 1; NULL: none for this element type */
    ls_gemm_sparse_lines_kernel sparse_lines; /* NULL: none */
    ls_gemm_slide_kernel slide; /* NULL: none */
    ls_gemm_thin_kernel thin; /* fast alone; NULL where an instruction set has no masks */
    ls_gemm_runs_kernel runs[4]; /* [vectors], 2 and 3; NULL where an instruction set has no masks */
    ls_gemm_runs_kernel across;  /* NULL: none */
    ls_gemm_outputs_kernel outputs[7]; /* of which it is made, or NULL */
    ls_gemm_outputs_kernel lines[2][7]; /* the same where each three or seven k are side by side in a line: shifts[p + 1] is shifts[p] + 1; fast alone, or NULL */
    ls_depthwise_kernel depthwise; /* NULL: none for this element type */
    ls_gemm_vector_kernel vector[3]; /* of b's elements as they are in panels, f16, bf16; NULL: none */
    ls_gemm_vector_kernel vector_lines;   /* vector[0], but a vector of each row in turn; NULL: none */
    ls_gemm_vector_kernel vector_rows[3]; /* b[j*b_k + p] instead of b[p*b_k + j] */
    ls_gemm_vector_kernel row_parts[3];   /* the same for fast alone: sums in any order; NULL: none */
} ls_gemm_kernels;

/* Data movement; exact, so the same for locked and fast. Size-4 functions move f32 and i32 alike, as bits. */
/* Lines of planes, with +0 where u is outside [low, high), taken apart into `step` phases, 1 or 2:
 * dst[plane*dst_plane + u%step*dst_phase + line*dst_line + u/step] = src[plane*src_plane + line*src_line + u], for u < n*step. */
typedef struct ls_gemm_lines {
    int64_t n, lines, planes;
    int64_t src_line, src_plane, step, low, high;
    int64_t dst_line, dst_plane, dst_phase;
} ls_gemm_lines;

typedef enum ls_square { LS_SQUARE_MOST, LS_SQUARE_LEAST, LS_SQUARE_SUM } ls_square;

/* The largest or the sum, in the order of nine terms, of windows of three by three elements of a plane: dst[i*n + j] of lines
 * line + i*step + (0, 1, 2) and of their elements first + j*stride + (0, 1, 2). Lines outside of [0, height) are `none`, elements outside of
 * [0, limit) infinite, or 0 in a sum. Strides and steps are 1 or 2, of sums 1, which are never -0. With `divisors`, which AVX2 alone takes,
 * of windows that end at most two elements beyond a line, sums are divided by divisors[i*divisors_step + j], NaN canonical. Lines to come are fetched, where it
 * is `second` into the second-level cache. */
typedef struct ls_threes {
    ls_square what;
    bool second;
    const float *plane, *none;
    int64_t line, step, height, pitch; /* from a line to the next one */
    int64_t first, stride, limit;
    int64_t n, lines;
    const float *divisors; /* or NULL */
    int64_t divisors_step;
    float *dst;
} ls_threes;

/* Lines of some rows of sums, and where they will lie: of n elements, a vector or more. */
typedef struct ls_put_lines {
    int64_t rows, lines, n;
    int64_t src_row, src_line, dst_row, dst_line;
    ls_bounds bounds;
} ls_put_lines;

typedef struct ls_gemm_moves {
    /* rows[q] (NULL: zeros) consecutive in k; may set columns in [ni,width) to 0 */
    void (*rows4)(int64_t kc, int64_t ni, int64_t width, const void *const *rows, void *panel);
    void (*rows8)(int64_t kc, int64_t ni, int64_t width, const void *const *rows, void *panel);
    void (*cols4)(int64_t kc, int64_t ni, int64_t width, const void *src, int64_t stride_k, void *panel);
    void (*cols8)(int64_t kc, int64_t ni, int64_t width, const void *src, int64_t stride_k, void *panel);
    /* dst0[i] = src[2*i], dst1[i] = src[2*i + 1], 4 bytes each, for n pairs */
    void (*split4)(int64_t n, const void *src, void *dst0, void *dst1);
    void (*join4)(int64_t n, const void *src0, const void *src1, void *dst); /* its inverse; NULL in a page */
    /* NULL where there are no kernels over runs */
    void (*phases4)(const ls_gemm_lines *lines, const float *src, float *dst);
    /* Sums of tiles whose vectors are rows, after the chain of `rows`, NaN canonical, to c + row*ldc. */
    void (*across)(const ls_gemm_runs *t, float *c);
    /* `lines` runs of n elements; dst may lie before src in the same memory, with a step not above its own */
    void (*lines4)(int64_t n, int64_t lines, const void *src, int64_t src_step, void *dst, int64_t dst_step);
    /* Once the bounds have met them, NaN canonical. NULL where there are no vectors of their own. */
    void (*put_lines)(const ls_put_lines *p, const float *src, float *dst);
    /* The largest, the least or the sum of two by two elements: dst[line*n + i] of src[2*line*src_step + 2*i], for i < n; or which
     * of the four the extreme is, a uint32_t, as ARGMAX and ARGMIN choose it. The sum is that of each column's, and never -0. Lines to
     * come are fetched, where it is `second` into the second-level cache. NULL where there are no masks. */
    void (*squares)(ls_square what, bool places, int64_t n, int64_t lines, const float *src, int64_t src_step, void *dst, bool second);
    /* Of overlapping windows; NULL where there are no masks. */
    void (*threes)(const ls_threes *t);
    /* {at[i], src[i]} of each element that is not +-0 (NaN is not), in order; how many. May write LS_SPARSE_SLACK entries more */
    int64_t (*nonzeros)(int64_t n, const float *src, const int32_t *at, ls_sparse_entry *list);
    /* The same of windows of four elements of which one is src[i]: {at[i] + of[places[i]], src[i]}, left out where there is no such
     * place. */
    int64_t (*chosen)(int64_t n, const float *src, const uint32_t *places, const int32_t *at, const int32_t of[4], ls_sparse_entry *list);
    /* Two lists for each of some windows of n planes, one behind the other from list[count] on: {at[i], src[window*n + i]} where places[]
     * is `place`, and where it is the next one. starts[] is where each begins; how many entries there are then. */
    int64_t (*chosen_planes)(int64_t windows, int64_t n, uint32_t place, const float *src, const uint32_t *places, const int32_t *at,
                             ls_sparse_entry *list, int64_t count, int32_t *starts);
    void (*from_f16)(int64_t n, const void *src, float *dst);
    void (*from_bf16)(int64_t n, const void *src, float *dst);
    void (*from_i8)(int64_t n, const void *src, float *dst);
    void (*from_u8)(int64_t n, const void *src, float *dst);
    void (*to_f16)(int64_t n, const float *src, uint16_t *dst);
    void (*to_bf16)(int64_t n, const float *src, uint16_t *dst);
    void (*add_i32)(int64_t n, const float *src, bool add, int32_t *dst); /* dst (+)= (int32) src, wrapping */
    bool (*finite_f32)(int64_t n, const float *src);
    bool (*finite_f64)(int64_t n, const double *src);
    void (*canonical_f32)(int64_t n, float *x);
    void (*canonical_f64)(int64_t n, double *x);
} ls_gemm_moves;

/*
 * Products of bytes where the processor has them: an element of a panel is four consecutive k of one row or column, those
 * of A unsigned, of B signed. Bytes of the other kind are flipped by 128, which the driver makes good.
 */
typedef struct ls_gemm_dots {
    const ls_gemm_kernels *kernels; /* tiles only; sums are int32 */
    /* kc elements of ni rows, consecutive in k; of ni columns that are consecutive; of a panel of floats 4 * kc deep.
     * Each is XORed with `flip`. */
    void (*rows)(int64_t kc, int64_t ni, int64_t width, const void *const *rows, uint32_t flip,
                 uint32_t *panel);
    void (*cols)(int64_t kc, int64_t ni, int64_t width, const void *src, int64_t stride_k, uint32_t flip,
                 uint32_t *panel);
    void (*floats)(int64_t kc, int64_t ni, int64_t width, const float *src, uint32_t flip, uint32_t *panel);
} ls_gemm_dots;

/* Products of bf16, two to an instruction or by a matrix unit, where the processor has them: an element of a panel is two consecutive k,
 * the first in its low half. */
enum { LS_PAIRS_BLOCK = 16 };
typedef struct ls_gemm_pairs {
    const ls_gemm_kernels *kernels; /* tiles only; sums are f32 */
    int64_t block;                  /* 1, or LS_PAIRS_BLOCK: k is whole blocks, and a panel of A is [k / block][rows][block] */
    /* The i-th pair, at pairs[i / 16 * step + i % 16], is first[i] and second[i], or of NULL first[2*i] and first[2*i + 1], rounded; false:
     * one of them is not in range (ls_gemm_pack_pairs). */
    bool (*round)(int64_t n, const float *first, const float *second, uint32_t *pairs, int64_t step);
} ls_gemm_pairs;

struct ls_gemm_isa {
    ls_cpu_isa isa;
    const ls_gemm_kernels *f32, *f64, *i32, *f32_fast, *f64_fast;
    const ls_gemm_moves *moves;
    const ls_gemm_dots *dots; /* NULL: bytes are multiplied as floats */
    const ls_gemm_pairs *pairs; /* NULL: there are none */
};

#define LS_GEMM_DECLARE(isa)                                                                                 \
    extern const ls_gemm_kernels ls_gemm_f32__##isa, ls_gemm_f64__##isa, ls_gemm_i32__##isa;                 \
    extern const ls_gemm_kernels ls_gemm_f32_fast__##isa, ls_gemm_f64_fast__##isa;                           \
    void ls_depthwise__##isa(const ls_depthwise *d, const float *image, const float *filter, float *out);    \
    void ls_depthwise_fast__##isa(const ls_depthwise *d, const float *image, const float *filter,            \
                                  float *out);                                                              \
    void ls_across_run__##isa(ls_gemm_runs *t, const float *a, const float *image, float *c);                 \
    void ls_across_store__##isa(const ls_gemm_runs *t, float *c);                                            \
    void ls_put_lines__##isa(const ls_put_lines *p, const float *src, float *dst);                            \
    void ls_pool_squares__##isa(ls_square what, bool places, int64_t n, int64_t lines, const float *src, int64_t src_step, void *dst, bool second); \
    void ls_pool_threes__##isa(const ls_threes *t);                                                          \
    int64_t ls_list_nonzeros__##isa(int64_t n, const float *src, const int32_t *at, ls_sparse_entry *list);  \
    int64_t ls_list_chosen__##isa(int64_t n, const float *src, const uint32_t *places, const int32_t *at,    \
                                  const int32_t of[4], ls_sparse_entry *list);                               \
    int64_t ls_list_chosen_planes__##isa(int64_t windows, int64_t n, uint32_t place, const float *src, const uint32_t *places, const int32_t *at, \
                                         ls_sparse_entry *list, int64_t count, int32_t *starts);             \
    extern const ls_gemm_moves ls_gemm_moves__##isa;
extern const ls_gemm_kernels ls_gemm_dots__avx512;
extern const ls_gemm_dots ls_gemm_dot_moves__avx512;
extern const ls_gemm_pairs ls_gemm_pairs__avx512, ls_gemm_amx__avx512;
bool ls_gemm_round_pairs__avx512(int64_t n, const float *first, const float *second, uint32_t *pairs, int64_t step);
LS_GEMM_DECLARE(scalar)
LS_GEMM_DECLARE(neon)
LS_GEMM_DECLARE(simd128)
LS_GEMM_DECLARE(avx2)
LS_GEMM_DECLARE(avx512)

#endif
