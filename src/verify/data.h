/* What an ls_data is inside, and reading elements by their bits. */
#ifndef LOCKSTEP_VERIFY_DATA_H
#define LOCKSTEP_VERIFY_DATA_H

#include "base/alloc.h"
#include "base/elements.h"
#include "base/status.h"
#include <lockstep/verify.h>

struct ls_data {
    ls_heap *heap;
    atomic_long refs;
    ls_dtype dtype;
    int rank;
    int64_t dims[LS_MAX_RANK];
    size_t size;
    const void *bytes;         /* of the heap when drop is NULL */
    void (*drop)(void *owner); /* else the owner's: a mapped file */
    void *owner;
};

#endif
