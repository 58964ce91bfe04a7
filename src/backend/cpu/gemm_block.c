/* The sums of one block of C: panels packed or found, and tiles over them, chunk by chunk. */
#include "backend/cpu/gemm_block.h"

#include <string.h>

typedef struct operand_at {
    const char *at;
    int64_t step_i, step_k; /* elements */
    int64_t next;           /* from a panel to the next one, for each row that it has (A only) */
} operand_at;

static void *a_panels(const ls_gemm_block *b) {
    return b->memory;
}

static void *b_panel(const ls_gemm_block *b) {
    return b->memory + b->plan->b_at;
}

static char *tile_of(const ls_gemm_block *b) {
    return b->memory + b->plan->tile_at;
}

/* In line: what is returned in memory would be copied by vectors, which wait for the stores of its members. */
#define IN_LINE static inline __attribute__((always_inline))

/* A that was packed before, from row i and element k on. */
IN_LINE operand_at find_packed_a(const ls_gemm_plan *plan, int64_t i, int64_t k) {
    const ls_gemm_packed *packed = plan->g->a.packed;
    const bool by_rows = !LS_SMALL && packed->by_rows;
    const char *at = (const char *)packed->data + (i * plan->g->k + k * (by_rows ? 1 : plan->rows)) * plan->elem;
    return by_rows ? (operand_at){at, plan->g->k, 1, plan->g->k} : (operand_at){at, 1, plan->rows, plan->g->k};
}

/* A for the rows of the block in the chunk [k0, k0+kc). */
IN_LINE operand_at find_a(const ls_gemm_block *b, int64_t k0, int64_t kc) {
    const ls_gemm_plan *plan = b->plan;
    const ls_gemm_operand *a = &plan->g->a;
    if (plan->a_source == LS_GEMM_DIRECT) {
        const char *at =
            (const char *)a->data + (b->a_offset + b->i0 * a->stride_i + k0 * a->stride_k) * plan->elem;
        return (operand_at){at, a->stride_i, a->stride_k, a->stride_i};
    }
    if (a->packed) {
        return find_packed_a(plan, b->i0, k0);
    }
    return (operand_at){a_panels(b), 1, plan->rows, kc};
}

/* Whether a panel of B is packed just before its tiles: always, or where a whole tile would read beyond the row. */
static bool packs_panel(const ls_gemm_block *b, int64_t nj) {
    const ls_gemm_plan *plan = b->plan;
    return plan->b_source == LS_GEMM_LOCAL ||
           (plan->b_source == LS_GEMM_DIRECT && nj < plan->cols && nj % plan->kernels->lanes);
}

/* B's nj columns from column j of the block on, in the rows from k on. */
IN_LINE operand_at find_b(const ls_gemm_block *b, int64_t j, int64_t nj, int64_t k) {
    const ls_gemm_plan *plan = b->plan;
    const ls_gemm_operand *o = &plan->g->b;
    int64_t column = b->j0 + j;
    if (packs_panel(b, nj)) {
        return (operand_at){b_panel(b), 1, plan->cols, 0};
    }
    if (plan->b_source == LS_GEMM_DIRECT) {
        const char *at = (const char *)o->data + (b->b_offset + column * o->stride_i + k * o->stride_k) * plan->elem;
        return (operand_at){at, 1, o->stride_k, 0};
    }
    const char *panels = o->packed ? o->packed->data : b->shared;
    column -= o->packed ? 0 : b->slab0;
    return (operand_at){panels + (column * plan->g->k + k * plan->cols) * plan->elem, 1, plan->cols, 0};
}

static ls_gemm_part part_a(const ls_gemm_block *b, int64_t k0, int64_t kc, int64_t i, int64_t mi) {
    return (ls_gemm_part){&b->plan->g->a, b->worker, b->batch,         b->a_offset,    k0, kc,
                          b->i0 + i,      mi,        b->plan->bytes_k, b->plan->flip_a};
}

static ls_gemm_part part_b(const ls_gemm_block *b, int64_t k0, int64_t kc, int64_t j, int64_t nj) {
    return (ls_gemm_part){&b->plan->g->b, b->worker, b->batch,         b->b_offset,    k0, kc,
                          b->j0 + j,      nj,        b->plan->bytes_k, b->plan->flip_b};
}

static void pack_local(const ls_gemm_block *b, int64_t k0, int64_t kc) {
    const ls_gemm_plan *plan = b->plan;
    if (plan->a_source == LS_GEMM_LOCAL) {
        ls_gemm_pack_part(plan->g->isa, part_a(b, k0, kc, 0, b->mi), plan->rows, a_panels(b), kc * plan->rows, NULL);
    }
}

/* Adds n sums to a row of C, or stores them. */
static void add_row(const ls_gemm_plan *plan, int64_t n, const char *s, bool add, char *c) {
    if (plan->panel != plan->sum) {
        plan->g->isa->moves->add_i32(n, (const float *)s, add, (int32_t *)c);
    } else if (!add) {
        memcpy(c, s, (size_t)(n * plan->elem));
    } else if (plan->sum == LS_GEMM_TYPE_F32) {
        for (int64_t q = 0; q < n; q++) {
            ((float *)c)[q] += ((const float *)s)[q];
        }
    } else if (plan->sum == LS_GEMM_TYPE_F64) {
        for (int64_t q = 0; q < n; q++) {
            ((double *)c)[q] += ((const double *)s)[q];
        }
    } else {
        for (int64_t q = 0; q < n; q++) {
            ((uint32_t *)c)[q] += ((const uint32_t *)s)[q];
        }
    }
}

static void merge_tile(const ls_gemm_block *b, int64_t i, int64_t mi, int64_t j, int64_t nj, bool add) {
    const ls_gemm_plan *plan = b->plan;
    for (int64_t r = 0; r < mi; r++) {
        add_row(plan, nj, tile_of(b) + r * plan->cols * plan->elem, add,
                b->c + ((i + r) * b->ldc + j) * plan->elem);
    }
}

static bool panel_finite(const ls_gemm_plan *plan, const char *panel, int64_t count) {
    const ls_gemm_moves *moves = plan->g->isa->moves;
    return plan->panel == LS_GEMM_TYPE_F64 ? moves->finite_f64(count, (const double *)panel)
                                           : moves->finite_f32(count, (const float *)panel);
}

/*
 * One tile whose absent elements meet an infinity or a NaN: each product only where both elements are
 * present. Panels are asked for again, with masks, in this worker's memory (shared ones may be in use
 * elsewhere).
 */
static void masked_tile(const ls_gemm_block *b, int64_t i, int64_t mi, int64_t j, int64_t nj, int64_t k0,
                        int64_t kc) {
    const ls_gemm_plan *plan = b->plan;
    const ls_gemm *g = plan->g;
    char *memory = b->memory + plan->mask_at;
    char *a = memory, *bp = a + plan->rows * kc * plan->elem;
    uint8_t *a_mask = (uint8_t *)bp + plan->cols * kc * plan->elem, *b_mask = a_mask + plan->rows * kc;
    if (g->a.packed) {
        memcpy(a, find_a(b, k0, kc).at + i * g->k * plan->elem, (size_t)(plan->rows * kc * plan->elem));
        memset(a_mask, 1, (size_t)(plan->rows * kc));
    } else {
        ls_gemm_pack_part(g->isa, part_a(b, k0, kc, i, mi), plan->rows, a, 0, a_mask);
    }
    if (g->b.packed) {
        memcpy(bp, find_b(b, j, nj, k0).at, (size_t)(plan->cols * kc * plan->elem));
        memset(b_mask, 1, (size_t)(plan->cols * kc));
    } else {
        ls_gemm_pack_part(g->isa, part_b(b, k0, kc, j, nj), plan->cols, bp, 0, b_mask);
    }
    for (int64_t r = 0; r < mi; r++) {
        for (int64_t q = 0; q < nj; q++) {
            float s = 0;
            double d = 0;
            for (int64_t p = 0; p < kc; p++) {
                int64_t at_a = p * plan->rows + r, at_b = p * plan->cols + q;
                if (!a_mask[at_a] || !b_mask[at_b]) {
                    continue;
                }
                if (plan->panel == LS_GEMM_TYPE_F64) {
                    d = d + ((const double *)a)[at_a] * ((const double *)bp)[at_b];
                } else {
                    s = s + ((const float *)a)[at_a] * ((const float *)bp)[at_b];
                }
            }
            if (plan->panel == LS_GEMM_TYPE_F64) {
                ((double *)tile_of(b))[r * plan->cols + q] = d;
            } else {
                ((float *)tile_of(b))[r * plan->cols + q] = s;
            }
        }
    }
}

static ls_gemm_kernel kernel_of(const ls_gemm_plan *plan, int64_t rows, int vectors) {
    return plan->kernels->tile[!LS_SMALL && plan->kernels->whole_rows ? plan->rows / 4 : rows][vectors];
}

/* What becomes of C by sums, as ls_gemm_tiles has it. */
typedef enum sums_into { INTO_STORE, INTO_ADD, INTO_RESUME } sums_into;

/* One tile, which fetches nothing. */
static ls_gemm_tiles tiles_of(int64_t n, const void *a, operand_at at_a, operand_at at_b, void *c, int64_t ldc, sums_into into) {
    return (ls_gemm_tiles){.n = 1, .kc = n, .a = a, .a_row = at_a.step_i, .a_k = at_a.step_k, .b = at_b.at, .b_k = at_b.step_k,
                           .c = c, .ldc = ldc, .adds = into == INTO_ADD, .resumes = into == INTO_RESUME, .ahead = at_b.at};
}

/* What the tiles of a panel fetch, of the next one or further on: some of them, what lies step_k bytes apart, one place for each k. */
typedef struct lookahead {
    const char *at;
    int64_t tiles, next, step_k; /* how many tiles; from what one fetches to what the next one does */
    int64_t lines;               /* of each place */
} lookahead;

/* For what is fetched, which may lie anywhere. */
static const char *further(const char *at, int64_t bytes) {
    return (const char *)((uintptr_t)at + (uintptr_t)bytes);
}

/* Whether there is a whole panel from column j on: in this block, or behind it, where the next task computes. */
static bool panel_follows(const ls_gemm_block *b, int64_t j) {
    const ls_gemm_plan *plan = b->plan;
    return plan->b_source == LS_GEMM_SHARED ? j + plan->cols <= b->nj : b->j0 + j + plan->cols <= plan->g->n;
}

enum { FEW_TILES = 3, AHEAD = 4096, AHEAD_OF_MEMORY = 8192 }; /* the last two in bytes */

/* A panel's rows where they lie, a line of each for each tile, or, if more tiles than those share them, with some lines twice. The line that a
 * row begins inside of came with the panel before. */
static lookahead fetch_lines(const ls_gemm_plan *plan, const char *at, int64_t element, int64_t step, int64_t tiles) {
    const int64_t bytes = plan->cols * element, lines = ls_gemm_ceil_div(bytes, LS_GEMM_LINE);
    const bool twice = tiles > lines;
    return (lookahead){further(at, LS_GEMM_LINE - 1), twice ? tiles : lines, twice ? ls_gemm_ceil_div(bytes, tiles) : LS_GEMM_LINE, step, 1};
}

/* For the panel from column j on, in the rows k to k + n: pieces of a packed panel, which all tiles share, or lines of rows where they
 * lie. Of one row the panel at hand is read as fast as memory gives it. Few tiles, with a line in each step, would leave a part of a panel
 * out: the first one fetches all of the panel at hand, before column j, some way ahead; or two of them share the next one, if together
 * they take as long as memory does; or each has a line of it in each step, the rest being left to the processor's foresight. */
static lookahead fetch_ahead(const ls_gemm_block *b, int64_t j, int64_t k, int64_t n) {
    const ls_gemm_plan *plan = b->plan;
    const ls_gemm_operand *o = &plan->g->b;
    if (LS_SMALL || plan->g->m == 1) {
        return (lookahead){0};
    }
    const int64_t tiles = ls_gemm_ceil_div(b->mi, plan->rows), step = plan->cols * plan->elem;
    const bool lines = plan->b_place != LS_GEMM_NEAREST && ls_gemm_in_lines(plan) && tiles <= (plan->g->l2_is_near ? FEW_TILES : 1);
    const bool from_memory = plan->b_place == LS_GEMM_MEMORY;
    if (lines && !(from_memory && b->mi > LS_GEMM_STREAMED_ROWS)) {
        const char *at = find_b(b, j - plan->cols, plan->cols, k).at;
        return (lookahead){further(at, from_memory ? AHEAD_OF_MEMORY : AHEAD), 1, 0, step, LS_GEMM_PANEL_LINES};
    }
    if (!panel_follows(b, j)) {
        return (lookahead){0};
    }
    if (plan->b_source >= LS_GEMM_SHARED) {
        const char *at = find_b(b, j, plan->cols, k).at;
        if (lines && !plan->g->fetches_best) {
            return (lookahead){at, 2, step / 2, step, LS_GEMM_PANEL_LINES / 2};
        }
        const int64_t piece = lines ? LS_GEMM_LINE : ls_gemm_larger(ls_gemm_ceil_div(step, tiles), plan->kernels->least_fetch);
        return (lookahead){at, ls_gemm_smaller(tiles, ls_gemm_ceil_div(step, piece)), piece * n, piece, 1};
    }
    if (o->pack || o->stride_i != 1 || plan->bytes_k) {
        return (lookahead){0};
    }
    int64_t size = ls_gemm_dtype_size(o->dtype);
    const char *at = (const char *)o->data + (b->b_offset + b->j0 + j + k * o->stride_k) * size;
    return fetch_lines(plan, at, size, o->stride_k * size, ls_gemm_stores_far(plan->g) ? tiles : 0);
}

/*
 * Products of flipped bytes: with a + 128 for a, b - 128 for b,
 *   sum ab = sum (a + 128) b - 128 sum b = sum a (b - 128) + 128 sum a,
 * and with both = sum (a + 128)(b - 128) + 128 sum (a + 128) - 128 sum (b - 128) - 128 * 128 * count.
 * Sums of what panels hold are products with a panel of one number.
 */
static void column_sums(const ls_gemm_plan *plan, int64_t n, operand_at at_b, int vectors, uint32_t *sums) {
    static const uint32_t all128 = 0x80808080;
    memset(sums, 0, LS_GEMM_MAX_WIDTH * sizeof *sums);
    if (plan->flip_a) {
        ls_gemm_tiles t = tiles_of(n, &all128, (operand_at){0}, at_b, sums, 0, INTO_STORE);
        plan->kernels->tile[1][vectors](&t);
    }
}

/* What a tile of them begins from, if not from 0. */
static void begin_tile(const ls_gemm_plan *plan, int64_t n, const char *a, operand_at at_a, int64_t count,
                       const uint32_t *columns, uint32_t *c, int64_t ldc, int64_t mi, int64_t nj, bool add) {
    uint32_t ones[LS_GEMM_MAX_WIDTH], rows[LS_GEMM_MAX_ROWS * LS_GEMM_MAX_WIDTH] = {0}, constant = 0;
    int64_t lanes = plan->kernels->lanes;
    if (plan->flip_b) {
        for (int64_t q = 0; q < lanes; q++) {
            ones[q] = 0x01010101;
        }
        ls_gemm_tiles t = tiles_of(n, a, at_a, (operand_at){.at = (const char *)ones}, rows, lanes, INTO_STORE);
        plan->kernels->tile[mi][1](&t);
        constant = plan->flip_a ? (uint32_t)count << 14 : 0;
    }
    for (int64_t r = 0; r < mi; r++, c += ldc) {
        uint32_t row = 128 * rows[r * lanes] - constant;
        for (int64_t q = 0; q < nj; q++) {
            c[q] = (add ? c[q] : 0) + row - columns[q];
        }
    }
}

enum { FAR_SUMS = LS_LIMIT(1 << 17, 1 << 6) }; /* so many leave the nearest caches: C is fetched while its sums are made */

/* For tiles of n k that have nothing of B to fetch: n rows, from row i on, of C's panel from column j on. A tile fetches a line of each. */
static lookahead fetch_sums(const ls_gemm_block *b, int64_t i, int64_t j, int64_t n) {
    const ls_gemm_plan *plan = b->plan;
    if (LS_SMALL || ls_gemm_stores_far(plan->g) || i + n > b->mi || !panel_follows(b, j) || plan->through_tile ||
        plan->g->m * plan->g->n <= FAR_SUMS) {
        return (lookahead){0};
    }
    return fetch_lines(plan, b->c + (i * b->ldc + j) * plan->elem, plan->elem, b->ldc * plan->elem, 0);
}

/* For tiles of n k in a block's first panel of B that have nothing else to fetch: what the next one reads of A, `bytes` behind where this
 * one's rows begin. Weights that a pass over a network brings from memory each time are runs too short for a processor's own foresight. */
static lookahead fetch_rows(const char *a, int64_t bytes, int64_t n) {
    return (lookahead){further(a, bytes), INT64_MAX, bytes, ls_gemm_smaller(bytes / ls_gemm_larger(n, 1), LS_GEMM_LINE), 1};
}

/* What is added to the block's rows by the tiles of the last slice of k, which ends with `end`; of others NULL. */
static const float *addends(const ls_gemm_block *b, int64_t end) {
    const ls_gemm *g = b->plan->g;
    return LS_GEMM_FOLLOWS && b->plan->follows && end >= g->k ? g->follow.add + (b->batch * g->m + b->i0) * g->follow.step : NULL;
}

/* The tiles of B's panel from column j on, over n rows of it, which go to the first `left` rows of C as they are. A tile fetches what is ahead, and the
 * lines of C that it will add to, if those are far. */
static void plain_tiles(ls_gemm_block *b, int64_t left, int64_t n, operand_at at_a, operand_at at_b,
                        int64_t j, int vectors, sums_into into, bool fetch, lookahead ahead) {
    const ls_gemm_plan *plan = b->plan;
    int64_t fetched = 0, rows, whole = ls_gemm_whole_tiles(plan, left);
    ls_gemm_tiles t = tiles_of(n, at_a.at, at_a, at_b, b->c + j * plan->elem, b->ldc, into);
    if (LS_GEMM_FOLLOWS) {
        t.add = b->add;
        t.plus = b->plus ? b->plus + j : NULL;
        t.plus_row = plan->g->follow.columns ? 0 : b->ldc;
        t.add_step = plan->g->follow.step;
        t.floor = plan->g->follow.floor;
    }
    for (; left > 0; left -= t.n * rows) {
        if (ahead.tiles == 0) {
            ahead = fetch_sums(b, fetched, j + plan->cols, n);
            fetched += n;
            ahead = ahead.tiles > 0                    ? ahead
                    : !LS_SMALL && j == 0 && whole > 0 ? fetch_rows(t.a, plan->rows * at_a.next * plan->elem, n)
                                                       : (lookahead){.at = at_b.at, .tiles = left};
        }
        rows = whole > 0 ? plan->rows : ls_gemm_last_rows(plan, left);
        lookahead own = fetch_lines(plan, t.c, plan->elem, b->ldc * plan->elem, 0);
        for (int64_t r = 0; fetch && r < rows; r++, own.at += own.step_k) {
            for (int64_t line = 0; line < own.tiles; line++) {
                __builtin_prefetch(own.at + line * own.next);
            }
        }
        t.n = fetch || whole < 2 ? 1 : ls_gemm_smaller(ls_gemm_smaller(whole, ahead.tiles), plan->kernels->most_tiles);
        whole -= t.n;
        t.a_next = rows * at_a.next;
        t.ahead = ahead.at;
        t.ahead_k = ahead.step_k;
        t.ahead_next = ahead.next;
        t.ahead_lines = ahead.lines;
        b->nan |= kernel_of(plan, rows, vectors)(&t);
        t.a = (const char *)t.a + t.n * t.a_next * plan->elem;
        t.c = (char *)t.c + t.n * rows * b->ldc * plan->elem;
        t.add += LS_GEMM_FOLLOWS && t.add ? t.n * rows * t.add_step : 0;
        t.plus += LS_GEMM_FOLLOWS && t.plus ? t.n * rows * t.plus_row : 0;
        ahead.at += t.n * ahead.next;
        ahead.tiles -= t.n;
    }
}

enum { FETCHES_NOTHING, FETCHES_B, FETCHES_C, PART_B = 0, PART_C, PART_OTHERS = 5, PART_LAST, N_PARTS = 8 };

/* Some of a panel's tiles, one below another, which fetch the same. */
typedef struct tiles_part {
    ls_gemm_kernel kernel;
    int64_t n, a_next;
    const char *a;
    const float *add;
    int64_t c, ahead; /* bytes from where C's panel begins, and from where what they fetch does */
    int fetches;
    lookahead rows; /* where that is nothing, and for the first panel */
} tiles_part;

/* The parts of each panel: tiles that fetch the next panel of B, some of C's rows each, nothing; and the rows that are left, in one tile or two. */
static void cut_parts(const ls_gemm_block *b, int vectors, int64_t n, operand_at at_a, const float *add, const lookahead *from, tiles_part *parts) {
    const ls_gemm_plan *plan = b->plan;
    int64_t whole = ls_gemm_whole_tiles(plan, b->mi), left = b->mi - whole * plan->rows, row = 0, tiles = 0;
    for (int i = 0; i < N_PARTS; i++) {
        int64_t rows = i < PART_LAST ? plan->rows : ls_gemm_last_rows(plan, left);
        bool of_b = i == PART_B || i >= PART_LAST, of_c = i >= PART_C && i < PART_OTHERS;
        int64_t most = of_c ? (i * n <= b->mi ? from[FETCHES_C].tiles : 0) : i == PART_B ? from[FETCHES_B].tiles : INT64_MAX;
        tiles_part *part = &parts[i];
        part->n = i < PART_LAST ? ls_gemm_smaller(whole, most) : rows > 0;
        part->kernel = part->n > 0 ? kernel_of(plan, rows, vectors) : NULL;
        part->a_next = rows * at_a.next;
        part->a = at_a.at + row * at_a.next * plan->elem;
        part->rows = fetch_rows(part->a, part->a_next * plan->elem, n);
        part->add = add ? add + row * plan->g->follow.step : NULL;
        part->c = row * b->ldc * plan->elem;
        part->fetches = of_c ? FETCHES_C : of_b && tiles < from[FETCHES_B].tiles ? FETCHES_B : FETCHES_NOTHING;
        part->ahead = of_c ? (i - PART_C) * n * from[FETCHES_C].step_k : part->fetches == FETCHES_B ? tiles * from[FETCHES_B].next : 0;
        whole -= i < PART_LAST ? part->n : 0;
        left -= i < PART_LAST ? 0 : rows;
        tiles += of_b ? part->n : 0;
        row += part->n * rows;
    }
}

/*
 * The whole panels of a slice that need no packing; the columns that they have. Each part has a call of its own, and what comes before it is copies: after
 * the long loop of a tile all that a processor knows of its way is where it returns to, and it has some 40 cycles of multiply-adds left while it errs or waits.
 */
static int64_t whole_panels(ls_gemm_block *b, int64_t k, int64_t n, operand_at at_a, sums_into into) {
    const ls_gemm_plan *plan = b->plan;
    const ls_gemm_follow *follow = &plan->g->follow;
    const int64_t cols = plan->cols, panels = ls_gemm_quotient(b->nj, cols), first = plan->backward ? panels - 1 : 0;
    const int64_t step_c = cols * plan->elem * (plan->backward ? -1 : 1), step_b = plan->b_source == LS_GEMM_DIRECT ? step_c : step_c * plan->g->k;
    const operand_at at_b = find_b(b, first * cols, cols, k);
    lookahead from[] = {{.at = at_b.at}, fetch_ahead(b, cols, k, n), fetch_sums(b, 0, cols, n)};
    tiles_part parts[N_PARTS];
    ls_gemm_tiles t = tiles_of(n, at_a.at, at_a, at_b, b->c, b->ldc, into);
    char *c = b->c + first * cols * plan->elem;
    unsigned nan = 0;
    t.add_step = follow->step;
    t.plus_row = follow->columns ? 0 : b->ldc;
    t.floor = follow->floor;
    cut_parts(b, (int)ls_gemm_quotient(cols, plan->kernels->lanes), n, at_a, addends(b, k + n), from, parts);
    const bool at_hand = from[FETCHES_B].lines == LS_GEMM_PANEL_LINES;
    for (int64_t panel = 0; panel < panels; panel++, c += step_c) {
        const bool follows = panel_follows(b, (panel + 1) * cols); /* of those that go backward none fetches */
#pragma GCC unroll 8
        for (int i = 0; i < N_PARTS; i++) {
            const tiles_part *part = &parts[i];
            if (part->n > 0) {
                const bool fetches = part->fetches && (follows || (at_hand && part->fetches == FETCHES_B));
                const lookahead *fetched = fetches ? &from[part->fetches] : panel == 0 ? &part->rows : from;
                t.n = part->n;
                t.a = part->a;
                t.a_next = part->a_next;
                t.c = c + part->c;
                t.add = part->add;
                t.plus = b->plus ? b->plus + (c - b->c + (follow->columns ? 0 : part->c)) / plan->elem : NULL;
                t.ahead = fetched->at + part->ahead;
                t.ahead_k = fetched->step_k;
                t.ahead_next = fetched->next;
                t.ahead_lines = fetched->lines;
                nan |= part->kernel(&t);
            }
        }
        t.b = (const char *)t.b + step_b;
        from[FETCHES_NOTHING].at += step_b;
        for (int i = FETCHES_B; i <= FETCHES_C; i++) {
            if (from[i].tiles > 0) { /* else it is nowhere */
                from[i].at += i == FETCHES_B ? step_b : step_c;
            }
        }
    }
    b->nan |= nan;
    return panels * cols;
}

/* The tiles of [k0 + p, k0 + p + n), part of the chunk of kc from k0. The inner loop keeps a panel of B near while A's
 * block passes. */
static void compute_slice(ls_gemm_block *b, int64_t k0, int64_t kc, int64_t p, int64_t n, sums_into into) {
    const ls_gemm_plan *plan = b->plan;
    const ls_gemm *g = plan->g;
    int64_t lanes = plan->kernels->lanes;
    bool in_tile = plan->panel != plan->sum, fetch = !LS_SMALL && n >= 128 && b->mi * b->nj > FAR_SUMS;
    bool flips = !LS_SMALL && (plan->flip_a | plan->flip_b);
    uint32_t columns[LS_GEMM_MAX_WIDTH];
    int64_t count = ls_gemm_smaller(4 * n, plan->bytes_k - 4 * (k0 + p)); /* of bytes */
    operand_at at_a = find_a(b, k0, kc);
    at_a.at += p * at_a.step_k * plan->elem;
    bool in_place = !LS_SMALL && plan->b_source != LS_GEMM_LOCAL && plan->kernels->most_tiles > 1 && !plan->kernels->whole_rows;
    in_place = in_place && !in_tile && !fetch && !flips && !plan->masks && !(plan->backward && b->nj % plan->cols);
    for (int64_t at = in_place ? whole_panels(b, k0 + p, n, at_a, into) : 0; at < b->nj; at += plan->cols) {
        int64_t j = !LS_SMALL && plan->backward ? (b->nj - 1) / plan->cols * plan->cols - at : at;
        int64_t nj = ls_gemm_smaller(plan->cols, b->nj - j), depth = n;
        int vectors = 1 + (nj > lanes) + (nj > 2 * lanes) + (nj > 3 * lanes);
        /* Scratch blocks have room for whole tiles; the output has not. */
        bool whole = !in_tile && (nj == vectors * lanes || plan->through_tile);
        if ((plan->resumes || (LS_GEMM_FOLLOWS && plan->follows)) && !whole) { /* all of the chunk in the first slice */
            depth = kc;
            if (p > 0) {
                continue;
            }
        }
        if (packs_panel(b, nj)) {
            ls_gemm_pack_part(g->isa, part_b(b, k0 + p, depth, j, nj), plan->cols, b_panel(b), 0, NULL);
        }
        operand_at at_b = find_b(b, j, nj, k0 + p);
        b->add = addends(b, k0 + p + depth);
        bool finite = !plan->masks || ((!g->a.absent || (g->b.packed && g->b.packed->finite) ||
                                        panel_finite(plan, at_b.at, kc * plan->cols)));
        if (flips) {
            column_sums(plan, n, at_b, vectors, columns);
        }
        int64_t i = 0;
        if (whole && !flips && !plan->masks) {
            i = !LS_SMALL && plan->kernels->whole_rows && !plan->through_tile ? b->mi / plan->rows * plan->rows : b->mi;
            plain_tiles(b, i, n, at_a, at_b, j, vectors, into, fetch, fetch_ahead(b, j + plan->cols, k0 + p, n));
            whole = false; /* nor are the rows that are left */
        }
        for (; i < b->mi; i += plan->rows) {
            int64_t mi = ls_gemm_smaller(plan->rows, b->mi - i);
            const char *a = at_a.at + i * at_a.next * plan->elem;
            if (plan->masks && (!finite || (g->b.absent && !(g->a.packed && g->a.packed->finite) &&
                                            !panel_finite(plan, a, kc * plan->rows)))) {
                b->nan = 1;
                masked_tile(b, i, mi, j, nj, k0, kc);
                merge_tile(b, i, mi, j, nj, into != INTO_STORE);
                continue;
            }
            char *c = whole ? b->c + (i * b->ldc + j) * plan->elem : tile_of(b);
            int64_t ldc = whole ? b->ldc : plan->cols;
            if (flips) {
                begin_tile(plan, n, a, at_a, count, columns, (uint32_t *)(void *)c, ldc, mi, vectors * lanes, whole && into != INTO_STORE);
            }
            ls_gemm_tiles t = tiles_of(depth, a, at_a, at_b, c, ldc, flips ? INTO_RESUME : whole ? into : INTO_STORE);
            if (!LS_SMALL && j == 0) {
                const lookahead rows = fetch_rows(a, plan->rows * at_a.next * plan->elem, depth);
                t.ahead = rows.at;
                t.ahead_k = rows.step_k;
            }
            b->nan |= kernel_of(plan, mi, vectors)(&t) | !whole;
            if (LS_GEMM_FOLLOWS && plan->follows && !whole) {
                plan->part(g->epilogue_ctx, b->worker, b->batch, b->i0 + i, mi, b->j0 + j, nj, tile_of(b), plan->cols);
            } else if (!whole) {
                merge_tile(b, i, mi, j, nj, into != INTO_STORE);
            }
        }
    }
}

/* The tiles of one chunk, in slices where B is read best so. A locked chunk has its own sums from +0, which resume from
 * slice to slice; other sums are exact, or `fast`. */
static void compute_chunk(ls_gemm_block *b, int64_t k0, int64_t kc) {
    const ls_gemm_plan *plan = b->plan;
    ls_gemm_block sums;
    bool apart = plan->resumes && k0 > 0;
    if (apart) {
        sums = *b;
        sums.c = b->memory + plan->sums_at;
        sums.ldc = plan->ldc;
    }
    for (int64_t p = 0; p < kc; p += plan->depth) {
        sums_into next = plan->resumes ? INTO_RESUME : INTO_ADD;
        compute_slice(apart ? &sums : b, k0, kc, p, ls_gemm_smaller(plan->depth, kc - p),
                      p > 0              ? next
                      : k0 > 0 && !apart ? INTO_ADD
                                         : INTO_STORE);
    }
    b->nan |= apart;
    for (int64_t i = 0; apart && i < b->mi; i++) {
        add_row(plan, b->nj, sums.c + i * sums.ldc * plan->elem, true, b->c + i * b->ldc * plan->elem);
    }
}

void ls_gemm_block_sums(const ls_gemm_block *b, int64_t k0, int64_t kc, void *y) {
    const ls_gemm_plan *plan = b->plan;
    pack_local(b, k0, kc);
    const ls_gemm_operand *o = &plan->g->b;
    const char *at = o->data;
    at += (b->b_offset + b->j0 * o->stride_i + k0 * o->stride_k) * ls_gemm_dtype_size(o->dtype);
    operand_at x = find_a(b, k0, kc);
    plan->vector(kc, b->nj, x.at, x.step_k, at, o->stride_i == 1 ? o->stride_k : o->stride_i, y);
}

/* A row's product, a few columns over all of k before the next ones. */
static void compute_row(const ls_gemm_block *given) {
    const ls_gemm_plan *plan = given->plan;
    ls_gemm_block b = *given;
    for (int64_t at = 0; at < given->nj; at += plan->at_once) {
        const int64_t from = !LS_SMALL && plan->backward ? (given->nj - 1) / plan->at_once * plan->at_once - at : at;
        b.j0 = given->j0 + from;
        b.c = given->c + from * plan->elem;
        b.nj = ls_gemm_smaller(plan->at_once, given->nj - from);
        for (int64_t k0 = 0; k0 < plan->g->k; k0 += LS_GEMM_CHUNK) {
            int64_t kc = ls_gemm_smaller(LS_GEMM_CHUNK, plan->g->k - k0);
            ls_gemm_block_sums(&b, k0, kc, k0 ? tile_of(&b) : b.c);
            if (k0) {
                add_row(plan, b.nj, tile_of(&b), true, b.c);
            }
        }
    }
}

void ls_gemm_block_run(ls_gemm_block *b) {
    const ls_gemm_plan *plan = b->plan;
    const ls_gemm *g = plan->g;
    if (!LS_SMALL && plan->kernels->begin) {
        plan->kernels->begin();
    }
    if (!LS_SMALL && plan->parts > 0) {
        for (int64_t k0 = 0; k0 < g->k; k0 += LS_GEMM_CHUNK) {
            add_row(plan, b->nj, b->shared + k0 / LS_GEMM_CHUNK * plan->part_bytes, k0 > 0, b->c);
        }
    } else if (plan->vector) {
        compute_row(b);
    } else {
        for (int64_t k0 = 0; k0 < g->k; k0 += LS_GEMM_CHUNK) {
            int64_t kc = ls_gemm_smaller(LS_GEMM_CHUNK, g->k - k0);
            pack_local(b, k0, kc);
            compute_chunk(b, k0, kc);
        }
    }
    if (!LS_SMALL && plan->kernels->end) {
        plan->kernels->end();
    }
    if (g->k <= 0) {
        for (int64_t i = 0; i < b->mi; i++) {
            memset(b->c + i * b->ldc * plan->elem, 0, (size_t)(b->nj * plan->elem));
        }
    }
}
