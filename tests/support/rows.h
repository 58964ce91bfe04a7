/* The conformance rows: every operation of op.def and every composite, by dtype, size, layout, data, surroundings, threads and
 * instruction set. A row is one level of each factor. */
#ifndef LOCKSTEP_TESTS_SUPPORT_ROWS_H
#define LOCKSTEP_TESTS_SUPPORT_ROWS_H

#include "support/world.h"

enum { FACTOR_SUBJECT, FACTOR_DTYPE, FACTOR_SIZE, FACTOR_VIEW, FACTOR_DATA, FACTOR_WRAP, FACTOR_THREADS, FACTOR_ISA, N_FACTORS };

typedef struct row {
    int level[N_FACTORS];
} row;

/* Levels of a factor, given the instruction sets that this machine has. */
int rows_levels(int factor);
const char *rows_level_name(int factor, int level);
/* Whether a row means anything: the subject takes the dtype, the layout fits. */
int rows_valid(const row *r);
void rows_describe(const row *r, char *out, size_t room);

/* The graph of a row in a session: NULL with an error in the session. The same in every session. */
ls_tensor *rows_build(ls_session *s, const row *r);
int rows_threads(const row *r);
const char *rows_isa(const row *r);

/* Rows of the whole product. */
long rows_product(void);
/* A covering array: every valid pair of levels of two factors stands in a row. Malloc'ed; the same on every run. */
row *rows_pairwise(long *out_count);
/* Steps through the product; 0 at its end. Start with a row of zeros, which is the first. */
int rows_next(row *r);

#endif
