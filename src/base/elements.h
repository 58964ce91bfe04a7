/* Elements of arrays by their bits. Any thread. */
#ifndef LOCKSTEP_BASE_ELEMENTS_H
#define LOCKSTEP_BASE_ELEMENTS_H

#include "base/sha256.h"
#include <lockstep/dtype.h>

/* The bits of element i, NaN canonical. */
uint64_t ls_data_bits(ls_dtype dtype, const void *bytes, int64_t i);
/* Hashes elements as ls_data_bits gives them, little-endian. */
void ls_sha256_elements(ls_sha256 *sha, ls_dtype dtype, const void *bytes, int64_t n);

#endif
