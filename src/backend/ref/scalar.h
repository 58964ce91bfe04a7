/* The contract's meaning of every element-wise operation, one scalar at a time. */
#ifndef LOCKSTEP_BACKEND_REF_SCALAR_H
#define LOCKSTEP_BACKEND_REF_SCALAR_H

#include "spec/spec.h"

/* A scalar of any dtype, in the widest form of its family: f16, bf16 and f32 in f (exact), f64 in d, signed
 * integers sign-extended in i, unsigned ones and bool zero-extended in u. `absent` marks an element that
 * reductions and contractions skip. */
typedef struct ls_cell {
    union {
        float f;
        double d;
        int64_t i;
        uint64_t u;
    };
    bool absent;
} ls_cell;

/* Between cells and the stored form (low bytes of a u64). Storing makes NaN canonical. */
ls_cell ls_cell_from_bits(ls_dtype dtype, uint64_t bits);
uint64_t ls_cell_to_bits(ls_dtype dtype, ls_cell cell);
ls_cell ls_cell_load(ls_dtype dtype, const void *base, int64_t element);
void ls_cell_store(ls_dtype dtype, void *base, int64_t element, ls_cell cell);

/* Conversion, rounded once: to integers saturating with NaN 0 from floats, wrapping between integers. */
ls_cell ls_cell_cast(ls_dtype from, ls_dtype to, ls_cell cell);

/* Applies a MAP operation. `dtype` is the operands' (WHERE: of a and b); `out` the result's. */
ls_cell ls_cell_map(ls_op op, ls_dtype dtype, ls_dtype out, ls_cell a, ls_cell b, ls_cell c);

/* For REDUCE and SCAN, in the accumulator's dtype. */
ls_cell ls_cell_identity(ls_op reduce, ls_dtype dtype);
ls_cell ls_cell_combine(ls_op reduce, ls_dtype dtype, ls_cell a, ls_cell b);
/* Whether a comes before b in sorted order: NaN last in both directions. */
bool ls_cell_before(ls_dtype dtype, bool descending, ls_cell a, ls_cell b);
bool ls_cell_is_nan(ls_dtype dtype, ls_cell cell);

#endif
