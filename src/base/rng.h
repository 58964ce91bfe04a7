/* Counter-based random bits: Threefry-2x32, 20 rounds (Salmon, Moraes, Dror, Shaw, SC'11). Any thread. */
#ifndef LOCKSTEP_BASE_RNG_H
#define LOCKSTEP_BASE_RNG_H

#include <stdint.h>

/* The first word of Threefry-2x32-20 with key (key0, key1) on the counter (low word, high word of `counter`). */
uint32_t ls_threefry(uint32_t key0, uint32_t key1, uint64_t counter);

/* A key for a purpose, derived so that two (seed, purpose) pairs share no key in practice. */
uint64_t ls_rng_key(uint64_t seed, uint64_t purpose);

/* A stream for host-side choices (shuffles, test data). */
typedef struct ls_rng {
    uint64_t key, counter;
} ls_rng;
uint32_t ls_rng_u32(ls_rng *rng);
uint64_t ls_rng_u64(ls_rng *rng);
uint64_t ls_rng_below(ls_rng *rng, uint64_t n); /* uniform in [0, n), n > 0, without bias */
double ls_rng_unit(ls_rng *rng);                /* in [0, 1), 53 bits */
void ls_rng_units(ls_rng *rng, double *out, int64_t n); /* what n calls of ls_rng_unit give, several at once */
double ls_rng_normal(ls_rng *rng);              /* mean 0, variance 1, the same bits everywhere */

#endif
