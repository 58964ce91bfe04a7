/* Shadowing: every kernel of a run against the references, on its own inputs. */
#ifndef LOCKSTEP_VERIFY_SHADOW_H
#define LOCKSTEP_VERIFY_SHADOW_H

#include "engine/session.h"
#include "oracle/oracle.h"
#include "verify/data.h"

/* Where a verified run collects what it finds, instead of failing at the first wrong kernel. */
typedef struct ls_collector {
    ls_heap *heap;
    LS_ARRAY(ls_kernel_report) kernels; /* names are the heap's */
} ls_collector;

/* Compares an array with the oracle's values: integers exactly where they are decided, floats by bound. */
ls_verdict ls_compare_balls(const ls_data *actual, const ls_balls *balls, ls_report *out_report);

#endif
