/* Whole numbers; any thread. */
#ifndef LOCKSTEP_BASE_NUMBER_H
#define LOCKSTEP_BASE_NUMBER_H

#include <stdint.h>

/* The greatest common divisor, not negative; gcd(a, 0) is |a|. Neither is INT64_MIN. */
static inline int64_t ls_gcd(int64_t a, int64_t b) {
    a = a < 0 ? -a : a;
    b = b < 0 ? -b : b;
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
