/* Doubles and their decimals, exactly. */
#ifndef LOCKSTEP_WEB_DECIMAL_H
#define LOCKSTEP_WEB_DECIMAL_H

#include <stdint.h>

/* 0.d1d2d3... * 10^exponent, d1 not 0; no digits: zero. A double has at most 767, the middle of two one
 * more. */
enum { DECIMAL_MOST = 800 };
typedef struct decimal {
    int n, exponent;
    char digits[DECIMAL_MOST + 1];
} decimal;

void decimal_of(decimal *out, uint64_t mantissa, int exponent); /* of mantissa * 2^exponent, exactly */
void decimal_round(decimal *d, int digits); /* to so many digits (0 and less too), ties to even */
void decimal_split(double x, uint64_t *out_mantissa, int *out_exponent); /* |x|, which is finite */

#endif
