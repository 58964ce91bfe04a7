/* Chains: what follows a contraction, element by element, computed in registers. A tile program goes through memory once an
 * operation; a chain does all of them to a few vectors before it takes the next ones. */
#ifndef LOCKSTEP_BACKEND_CPU_CHAIN_H
#define LOCKSTEP_BACKEND_CPU_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/cpu/cpuid.h"

enum {
    LS_CHAIN_STEPS = 24,
    LS_CHAIN_POINTERS = 12, /* operands in memory and slots */
    LS_CHAIN_SLOTS = 4,
    LS_CHAIN_SCALARS = 8, /* values that all lanes of a row share */
    LS_CHAIN_LANES = 256, /* room of a slot: no instruction set takes more at a time */
    LS_CHAIN_MIDDLE = LS_CHAIN_SLOTS * LS_CHAIN_LANES, /* lanes that ls_chain_row.middle has room for */
    LS_FETCH_AHEAD = 8 << 10 /* bytes that lines of large arguments are fetched before they are wanted */
};

typedef enum ls_chain_op {
    LS_CHAIN_TAKE, /* the running value becomes the operand */
    LS_CHAIN_KEEP, /* the operand, a slot, becomes the running value */
    LS_CHAIN_ADD,
    LS_CHAIN_SUB,
    LS_CHAIN_FROM, /* operand - running value */
    LS_CHAIN_MUL,
    LS_CHAIN_DIV,
    LS_CHAIN_DIV_NEAR, /* within 0.5000002 ULP, or one where it is below 2^-100; by a scalar whose own error is wider */
    LS_CHAIN_INTO, /* operand / running value */
    LS_CHAIN_MIN,
    LS_CHAIN_MAX,
    LS_CHAIN_SQUARE, /* of the running value; no operand */
    LS_CHAIN_CALL, /* fn(running value) */
    LS_CHAIN_PASS, /* the running value where the operand, no scalar, is above 0, else +0 */
    LS_CHAIN_PRODUCT /* times the product, which is rounded, of the operand, no scalar, and scalar `by` */
} ls_chain_op;

/* How a result is written: as it is, its lines LS_FETCH_AHEAD fetched early, or past the caches (it begins where a line does). */
typedef enum ls_chain_dst { LS_DST_NEAR, LS_DST_FETCHED, LS_DST_FAR } ls_chain_dst;

typedef enum ls_chain_kind { LS_CHAIN_SCALAR, LS_CHAIN_MEMORY, LS_CHAIN_SLOT, LS_CHAIN_NONE } ls_chain_kind;

typedef struct ls_chain_step {
    uint8_t op, kind; /* ls_chain_op, ls_chain_kind of the operand */
    uint8_t at, by;   /* which scalar or pointer; of a PRODUCT which scalar, too */
    void (*fn)(void *dst, const void *a, const void *b, const void *c, int64_t n);
} ls_chain_step;

/* One row: dst[i] = the chain of src[i] and at[k][i], NaN canonical unless `raw`. dst may be at[k], else nothing overlaps. */
typedef struct ls_chain_row {
    int n_steps, n_pointers;
    bool raw;
    /* Where dst goes past the caches, is no at[k] and begins where a line does: room for the values before the last steps; or NULL. */
    float *middle;
    uint32_t ahead; /* bits of the pointers whose lines are fetched LS_FETCH_AHEAD early, and bit LS_CHAIN_POINTERS for dst */
    bool second;    /* into the second-level cache instead of the nearest */
    const ls_chain_step *steps;
    const float *scalars;
    const float *at[LS_CHAIN_POINTERS]; /* NULL for slots */
    float *slots[LS_CHAIN_POINTERS];    /* of LS_CHAIN_LANES, aligned to vectors; NULL for memory */
} ls_chain_row;
typedef void (*ls_chain_fn)(const ls_chain_row *row, float *dst, const float *src, int64_t n);

/* What a tile of some rows undergoes where it is computed: additions, subtractions, products, minima and maxima with scalars; row i's
 * are at scalars + i*n_scalars. */
typedef struct ls_chain_rows {
    const ls_chain_step *steps;
    const float *scalars;
    int n_steps, n_scalars;
} ls_chain_rows;

/* What a row's sums, of which none is -0, undergo where they are made: which of its numbers is added, and is their least and their most then; -1:
 * none. */
typedef struct ls_bounds {
    const float *scalars; /* of the first row, n_scalars apart from those of the next one */
    int64_t n_scalars;
    int after[3];
} ls_bounds;
/* Of the row with these numbers: a least that is NaN makes all so, as what is added does. */
static inline void ls_bounds_of(const ls_bounds *b, const float *numbers, float *out_plus, float *out_least) {
    *out_least = b->after[1] < 0 ? -__builtin_inff() : numbers[b->after[1]];
    *out_plus = *out_least != *out_least ? *out_least : b->after[0] < 0 ? -0.0f : numbers[b->after[0]];
}

/* Always inlined: gcc finds a function that fetches to do nothing, and drops its calls. */
#define LS_FETCHING static inline __attribute__((always_inline))
/* A line, into the second-level cache or the nearest. */
LS_FETCHING void ls_fetch_line(uintptr_t at, bool second) {
    if (second) {
        __builtin_prefetch((const void *)at, 0, 2);
    } else {
        __builtin_prefetch((const void *)at);
    }
}
/* The lines of n elements. */
LS_FETCHING void ls_fetch_lines(uintptr_t at, int64_t n, bool second) {
    for (int64_t i = 0; i < n; i += 64 / (int64_t)sizeof(float), at += 64) {
        ls_fetch_line(at, second);
    }
}
/* Those that lie LS_FETCH_AHEAD behind them. */
LS_FETCHING void ls_fetch_behind(const float *x, int64_t n, bool second) {
    ls_fetch_lines((uintptr_t)x + LS_FETCH_AHEAD, n, second);
}

#endif
