/* Ranges of integer values in a kernel: interval analysis with divisibility, under facts that conditions give.
 *
 * A range holds for the value that the instruction has at the place where the facts hold. Facts are pushed on entering
 * a branch (or assuming a predicate) and popped by mark. */
#ifndef LOCKSTEP_KIR_RANGE_H
#define LOCKSTEP_KIR_RANGE_H

#include "kir/kir.h"

typedef __int128 ls_wide;

typedef struct ls_range {
    ls_wide lo, hi;  /* inclusive; lo > hi: this place is never reached */
    ls_wide divisor; /* of every value in it; 0: the value is 0 */
} ls_range;

typedef struct ls_ranges ls_ranges;
ls_ranges *ls_ranges_create(ls_heap *heap, const ls_kernel *kernel); /* NULL when out of memory */
void ls_ranges_destroy(ls_ranges *ranges);
ls_range ls_ranges_of(ls_ranges *ranges, ls_val value);
bool ls_ranges_failed(const ls_ranges *ranges); /* out of memory: ranges since then may be too wide */
int32_t ls_ranges_mark(const ls_ranges *ranges);
bool ls_ranges_assume(ls_ranges *ranges, ls_val condition, bool truth); /* false when out of memory */
void ls_ranges_pop(ls_ranges *ranges, int32_t mark);
/* Whether facts say value < limit, for a limit that is `scale` times parameter `param`. */
bool ls_ranges_below(ls_ranges *ranges, ls_val value, int64_t scale, int param);

#endif
