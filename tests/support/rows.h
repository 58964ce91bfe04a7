/* The conformance rows of src/verify/rows.h with two more factors, which are the CPU's: threads and instruction set. */
#ifndef LOCKSTEP_TESTS_SUPPORT_ROWS_H
#define LOCKSTEP_TESTS_SUPPORT_ROWS_H

#include "support/world.h"
#include "verify/rows.h"

enum {
    FACTOR_DTYPE = LS_ROW_DTYPE,
    FACTOR_SIZE = LS_ROW_SIZE,
    FACTOR_THREADS = LS_ROW_FACTORS,
    FACTOR_ISA,
    N_FACTORS
};
typedef ls_row row;

/* Levels of a factor, given the instruction sets that this machine has. */
int rows_levels(int factor);
void rows_describe(const row *r, char *out, size_t room);
int rows_threads(const row *r);
const char *rows_isa(const row *r);

/* Rows of the whole product. */
long rows_product(void);
/* A covering array: every valid pair of levels of two factors stands in a row. Malloc'ed; the same on every run. */
row *rows_pairwise(long *out_count);
/* Steps through the product; 0 at its end. Start with a row of zeros, which is the first. */
int rows_next(row *r);

#endif
