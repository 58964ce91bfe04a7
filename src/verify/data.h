/* What an ls_data is inside, and reading elements by their bits. */
#ifndef LOCKSTEP_VERIFY_DATA_H
#define LOCKSTEP_VERIFY_DATA_H

#include "base/alloc.h"
#include "base/sha256.h"
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

/* The bits of element i, NaN canonical. */
uint64_t ls_data_bits(ls_dtype dtype, const void *bytes, int64_t i);
/* Hashes elements as ls_data_bits gives them, little-endian. */
void ls_sha256_elements(ls_sha256 *sha, ls_dtype dtype, const void *bytes, int64_t n);

#endif
