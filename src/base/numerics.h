/* The host's floating-point state must not leak in: every entry point and every worker runs between enter and leave.
 * enter saves MXCSR/FPCR and sets round to nearest even, no flush to zero, no denormals-are-zero, all exceptions
 * masked; leave restores what the host had (its exception flags too). Nests. */
#ifndef LOCKSTEP_BASE_NUMERICS_H
#define LOCKSTEP_BASE_NUMERICS_H

#include <stdint.h>

typedef struct ls_numerics {
    uint64_t saved;
} ls_numerics;

ls_numerics ls_numerics_enter(void);
void ls_numerics_leave(ls_numerics state);

#endif
