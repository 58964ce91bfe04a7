/* A contraction between its plan and its kernel: what the templates by tiles (contract.c) and by fragments
 * (fragment.c) share. Internal to src/emit. */
#ifndef LOCKSTEP_EMIT_CONTRACT_H
#define LOCKSTEP_EMIT_CONTRACT_H

#include "emit/lower.h"

enum { LS_RUN = 4 };

typedef struct ls_side { /* the rows or the columns */
    int32_t value;       /* the operand */
    uint8_t axes[2 * LS_MAX_RANK];
    int n;
    int64_t bound;
    ls_dtype type; /* of positions */
    bool *used;    /* values that the operand is computed from */
    bool absent;   /* it may be */
    int tile, stride;
    bool by_k;  /* neighbouring threads fetch neighbouring contracted elements, else neighbouring rows */
    int run;    /* elements that a thread fetches together, in that direction */
    int units;  /* runs in a slab */
    bool along; /* shared memory has a slab in the direction of the fetch, else column by column */
    int32_t words; /* the LOAD whose elements move eight at a time, as four words (fragment.c), or LS_SPEC_NONE */
    int mem, mask, global; /* global: the operand as words */
    int64_t slab; /* elements of a slab in shared memory */
    ls_val first;                   /* of the tile */
    ls_val held[128], held_mask[128]; /* variables: the slab under way */
} ls_side;

typedef struct ls_tile_shape {
    uint8_t ty, tx, tm, tn; /* threads by rows and columns, and of each the rows and columns of a thread */
    uint8_t worth;          /* per product, of 100 */
} ls_tile_shape;

typedef struct ls_product {
    ls_lower *l;
    int32_t id, first, count;
    const ls_value *v;
    ls_fold f;
    uint8_t batch[2 * LS_MAX_RANK];
    int n_batch;
    ls_side s[2];
    bool *used; /* by the stores, without the contraction */
    ls_tile_shape shape;
    int bk, threads, lanes, odd;
    int64_t chunk;               /* elements of one: the contract's 512, fewer where the order is free */
    int64_t chunks, chunks_each; /* of the contracted line, and of a workgroup */
    int32_t scratch;             /* sums of chunks, or -1 */
    bool fast, several, exact;
    bool bare;                          /* no slabs in shared memory */
    bool twice;                         /* two slabs, by turns (contract.c) */
    ls_val turn;                        /* which of them is at work; LS_VAL_NONE: there is one */
    ls_dtype staged;                    /* of a slab's elements */
    ls_val t, ty, tx, zero, begin, end; /* zero: of the staged type */
    ls_val sum[8][4], total[8][4];      /* variables of `lanes` columns */
} ls_product;

/* ---- product.c ---- */
/* Whether there is one contraction with what it needs, its axes, operands and chunks; why not, or NULL. */
const char *ls_product_find(ls_product *p);
/* The same with the tile of a workgroup; flat: a tile of all of the fewer side, which is made the rows. */
const char *ls_product_plan(ls_product *p, bool flat);
void ls_product_fewer_rows(ls_product *p);
/* Along which line neighbouring elements of the operand are neighbours in memory, and whether four can be loaded at once.
 * Needs s->tile and p->lanes. */
void ls_product_direct(ls_product *p, ls_side *s);
/* The innermost axis of a line, or -1. */
int ls_product_axis(const ls_product *p, const ls_side *s, bool by_k);
static inline int64_t ls_product_up(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

/* ---- contract.c ---- */
/* Begins a kernel of a workgroup a tile (and share of the chunks): batch, tiles and threads are bound. */
void ls_product_begin(ls_product *p, const char *suffix, ls_cover cover);
void ls_product_hold(ls_product *p); /* declares what slabs and threads need */
/* The slab at a contracted position: into registers; from there into shared memory. */
void ls_product_fetch(ls_product *p, ls_val at);
void ls_product_put(ls_product *p);
void ls_product_odd(ls_product *p, ls_val where); /* something that is not finite stands beside what may be absent */
/* Opens blocks for the point of a line that is there, and binds its axes. */
int ls_product_open(ls_product *p, const ls_side *s, ls_val at);
void ls_product_close(ls_product *p, int opened, int mark);
/* The stores of four (or p->lanes) columns of the present row. */
void ls_product_store(ls_product *p, ls_val column, ls_val sums);

/* ---- matvec.c ---- */
/* The kernel of few rows (s[0]); why not, or NULL. */
const char *ls_product_vector(ls_product *p, bool forced);

/* ---- fragment.c ---- */
const char *ls_product_fragments(ls_product *p, bool forced, bool dry);

#endif
