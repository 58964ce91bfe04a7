/* The conformance rows: every operation of op.def and every composite, by dtype, size, layout, data and surroundings. A row is one level of
 * each factor, and stands for a graph that is the same in every session. */
#ifndef LOCKSTEP_VERIFY_ROWS_H
#define LOCKSTEP_VERIFY_ROWS_H

#include "base/alloc.h"
#include <lockstep/ops.h>

enum { LS_ROW_SUBJECT, LS_ROW_DTYPE, LS_ROW_SIZE, LS_ROW_VIEW, LS_ROW_DATA, LS_ROW_WRAP, LS_ROW_FACTORS, LS_ROW_ROOM = LS_ROW_FACTORS + 2 };

/* The room beyond LS_ROW_FACTORS is the caller's: further factors, which the graph does not depend on. */
typedef struct ls_row {
    int level[LS_ROW_ROOM];
} ls_row;

int ls_row_levels(int factor);
#define LS_ROW_LEVEL_TEXT 24
const char *ls_row_level_name(int factor, int level, char buf[LS_ROW_LEVEL_TEXT]);
/* "matmul f32 n=257 permuted mixed fused" */
#define LS_ROW_TEXT 96
void ls_row_describe(const ls_row *row, char buf[LS_ROW_TEXT]);
int64_t ls_row_size(const ls_row *row);
/* Makes a row smaller for which `ref` takes seconds. */
void ls_row_quicken(ls_row *row);
/* Whether a row means anything: the subject takes the dtype, the layout fits. */
bool ls_row_valid(const ls_row *row);
/* NULL with an error in the session. Sets the session's fusion. */
ls_tensor *ls_row_build(ls_session *s, const ls_row *row);
/* 53 random bits, the same ones everywhere. */
uint64_t ls_row_random(uint64_t *state);

/* ---- covering arrays (covering.c) ---- */

/* Which pairs of levels of two factors stand together in the rows chosen so far. Plain data apart from `seen`. */
typedef struct ls_covering {
    ls_heap *heap;
    int factors, total;                        /* of a row; levels of them all */
    int levels[LS_ROW_ROOM], first[LS_ROW_ROOM]; /* a factor's levels; where they begin among all */
    char *seen;                                /* [total][total] */
    uint64_t state;                            /* of the random choices: the same ones on every machine */
} ls_covering;
/* `levels` of each factor. False when out of memory. */
bool ls_covering_init(ls_covering *c, ls_heap *heap, int factors, const int *levels, uint64_t seed);
void ls_covering_free(ls_covering *c);
bool ls_covering_has(const ls_covering *c, int factor, int level, int other, int other_level);
/* Sets all factors but two (which may be one) to what covers most of what is not yet covered, of a few random choices, and counts the row as
 * chosen. False when none of the choices is a valid row. */
bool ls_covering_complete(ls_covering *c, ls_row *row, int factor, int other);

#endif
