/* Floats as their bits, and back; any thread, no floating-point state is read or changed. */
#ifndef LOCKSTEP_BASE_BITS_H
#define LOCKSTEP_BASE_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint32_t ls_f32_bits(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float ls_f32_of(uint32_t u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static inline uint64_t ls_f64_bits(double x) {
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline double ls_f64_of(uint64_t u) {
    double x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* v / 2^shift to nearest, ties to even; 0 < shift < 64. */
static inline uint64_t ls_round_shift(uint64_t v, int shift) {
    uint64_t half = (uint64_t)1 << (shift - 1), rest = v & (half | (half - 1)), q = v >> shift;
    return q + (rest > half || (rest == half && (q & 1)));
}

#endif
