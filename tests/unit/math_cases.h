/* What the tests of src/math share: every function with its reference and its stated bounds (those of
 * docs/elementary.md: swept for f32, argued for f64), samples, and errors in units in the last place.
 *
 * The reference for f32 is the double function of the C library: it is right to a few 2^-53, so an f32
 * error in ulps is known to about 2^-27. The reference for f64 is MPFR. An error is |y - exact| /
 * ulp(exact), where ulp(exact) is the spacing of the format at `exact` (the smallest subnormal below the
 * normal numbers), and infinity counts as the first power of two beyond the largest finite number. */
#ifndef LOCKSTEP_TESTS_MATH_CASES_H
#define LOCKSTEP_TESTS_MATH_CASES_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/half.h"
#include "base/rng.h"
#include "math/math.h"
#ifdef LS_HAVE_MPFR
#include <mpfr.h>
#endif

static inline float float_of(uint32_t i) {
    float x;
    memcpy(&x, &i, sizeof x);
    return x;
}

static inline uint32_t bits_of(float x) {
    uint32_t i;
    memcpy(&i, &x, sizeof i);
    return i;
}

static inline double double_of(uint64_t i) {
    double x;
    memcpy(&x, &i, sizeof x);
    return x;
}

static inline uint64_t bits_of_double(double x) {
    uint64_t i;
    memcpy(&i, &x, sizeof i);
    return i;
}

/* The definitions of contract: rsqrt is two rounded steps. */
static inline double reference_rsqrt(double x) {
    return 1 / sqrt(x);
}

typedef struct math_case {
    const char *name;
    float (*f32)(float);
    double (*f64)(double);
    double (*reference)(double);
#ifdef LS_HAVE_MPFR
    int (*exact)(mpfr_t, const mpfr_t, mpfr_rnd_t);
#endif
    double bound32, bound64; /* ulps */
    int odd;                 /* f(-x) is -f(x); 2: f(-x) is f(x) */
} math_case;

#ifdef LS_HAVE_MPFR
#define MATH_EXACT(f) f,
static inline int exact_rint(mpfr_t y, const mpfr_t x, mpfr_rnd_t r) {
    (void)r;
    return mpfr_roundeven(y, x);
}
static inline int exact_floor(mpfr_t y, const mpfr_t x, mpfr_rnd_t r) {
    (void)r;
    return mpfr_floor(y, x);
}
static inline int exact_ceil(mpfr_t y, const mpfr_t x, mpfr_rnd_t r) {
    (void)r;
    return mpfr_ceil(y, x);
}
static inline int exact_trunc(mpfr_t y, const mpfr_t x, mpfr_rnd_t r) {
    (void)r;
    return mpfr_trunc(y, x);
}
static inline int exact_rsqrt(mpfr_t y, const mpfr_t x, mpfr_rnd_t r) { /* MPFR says +inf for -0 */
    return mpfr_zero_p(x) ? (mpfr_set_inf(y, mpfr_signbit(x) ? -1 : 1), 0) : mpfr_rec_sqrt(y, x, r);
}
#else
#define MATH_EXACT(f)
#endif

#define MATH_ROW(name, bound32, bound64, odd)                                                                \
    { #name, ls_##name##_f32, ls_##name##_f64, name, MATH_EXACT(mpfr_##name) bound32, bound64, odd }
#define MATH_ROW_OWN(name, reference, bound32, bound64, odd)                                                 \
    { #name, ls_##name##_f32, ls_##name##_f64, reference, MATH_EXACT(exact_##name) bound32, bound64, odd }
static const math_case math_cases[] = {
    MATH_ROW(exp, 0.77, 0.92, 0),
    MATH_ROW(exp2, 0.76, 0.82, 0),
    MATH_ROW(expm1, 0.87, 1.1, 0),
    MATH_ROW(log, 0.84, 1.05, 0),
    MATH_ROW(log2, 0.75, 0.8, 0),
    MATH_ROW(log1p, 0.91, 1.15, 0),
    MATH_ROW(sin, 0.83, 0.85, 1),
    MATH_ROW(cos, 0.84, 0.85, 2),
    MATH_ROW(tan, 1.07, 1.4, 1),
    MATH_ROW(asin, 0.65, 0.7, 1),
    MATH_ROW(acos, 0.63, 0.7, 0),
    MATH_ROW(atan, 0.88, 0.92, 1),
    MATH_ROW(sinh, 0.77, 1, 1),
    MATH_ROW(cosh, 0.87, 0.95, 2),
    MATH_ROW(tanh, 0.79, 0.95, 1),
    MATH_ROW(erf, 0.95, 1.05, 1),
    MATH_ROW(erfc, 0.9, 0.95, 0),
    MATH_ROW(sqrt, 0.5, 0.5, 0),
    MATH_ROW_OWN(rsqrt, reference_rsqrt, 1.5, 1.5, 0),
    MATH_ROW(cbrt, 0.83, 0.84, 1),
    MATH_ROW_OWN(floor, floor, 0, 0, 0),
    MATH_ROW_OWN(ceil, ceil, 0, 0, 0),
    MATH_ROW_OWN(trunc, trunc, 0, 0, 1),
    MATH_ROW_OWN(rint, rint, 0, 0, 1),
};
enum { MATH_CASES = sizeof math_cases / sizeof *math_cases };
#define MATH_POW_BOUND32 0.9
#define MATH_POW_BOUND64 0.9

/* Error of y in ulps of f32 against `exact`, which stands for a real number or, if not finite, for itself.
 * HUGE_VAL where the class (NaN, infinity, sign of zero) is wrong. */
static inline double error32(float y, double exact) {
    if (isnan(exact)) {
        return bits_of(y) == LS_NAN_F32 ? 0 : HUGE_VAL;
    }
    if (isnan(y) || !signbit(y) != !signbit(exact)) {
        return HUGE_VAL;
    }
    if (isinf(exact)) {
        return isinf(y) ? 0 : HUGE_VAL;
    }
    if (isinf(y) && fabs(exact) >= 0x1p128) {
        return 0;
    }
    double value = isinf(y) ? copysign(0x1p128, y) : (double)y;
    if (fabs(exact) >= 0x1p128) {
        return HUGE_VAL;
    }
    int e = -1000;
    if (exact != 0) {
        frexp(exact, &e);
    }
    return ldexp(fabs(value - exact), -(e - 24 < -149 ? -149 : e - 24));
}

/* The hard and the special arguments of both formats; each is tried with its neighbours and its negation. */
/* clang-format off */
static const double math_points[] = {
    0, 1, 2, 3, 4, 5, 7, 8, 10, 16, 27, 32, 64, 100, 128, 150, 0.5, 0.25, 0.125, 1.5, 2.5, 0x1p-3, 0x1p-12,
    0x1p-24, 0x1p-25, 0x1p-26, 0x1p-27, 0x1p-53, 0x1p-54, 0x1p-55, 0x1p-56, 0x1p-126, 0x1p-149, 0x1p-150,
    0x1p-1022, 0x1p-1074, 0x1p23, 0x1p24, 0x1p25, 0x1p31, 0x1p32, 0x1p40, 0x1p52, 0x1p53, 0x1p60, 0x1p63,
    0x1p64, 0x1p100, 0x1p127, 0x1.fffffep127, 0x1.fffffffffffffp1023, 0.84375, 0.625, 3.9375, 5.9375, 10.0625,
    27.25, 0.4140625, 2.4140625, 0.70710678118654752, 1.41421356237309505, 0.69314718055994531,
    0.34657359027997264, 1.0397207708399179, 0.78539816339744831, 1.57079632679489662, 2.35619449019234493,
    3.14159265358979324, 4.71238898038468986, 6.28318530717958648, 12.5663706143591730, 88.7228393, 89.0,
    89.4159851, 90.0, 103.278929, 103.972084, 104.0, 87.336544, 127.0, 126.5, 149.5, 151.0, 9.0109133, 10.0,
    17.3286795, 20.0, 36.7368005690771, 40.0, 709.782712893384, 710.475860073944, 711.0, 708.396418532264,
    745.133219101941, 744.440071921381, 746.0, 1023.5, 1024.0, 1074.5, 1075.5, 5.0e6, 1e10, 1e22, 1e30,
    1e38, 1e300, 0.5625, 0.8125, 0.66666666666666663, 1.33333333333333326, 0.8660254037844386,
    1.7320508075688772, 1.2247448713915890,
    16367173.0 * 0x1p72, 6381956970095103.0 * 0x1p797 /* nearest to multiples of pi/2 in f32 and f64 */
};
/* clang-format on */
enum { MATH_POINTS = sizeof math_points / sizeof *math_points };

/* f32 arguments, numbered: points with 17 neighbours and both signs, then infinity and NaN, then random
 * ones: half of them any bits, half with exponents near 0. */
static inline float math_sample32(uint64_t n, ls_rng *rng) {
    if (n < (uint64_t)MATH_POINTS * 34) {
        uint32_t i = bits_of((float)math_points[n / 34]);
        int step = (int)(n % 34 / 2) - 8;
        i = (uint32_t)((int64_t)i + step < 0 ? 0 : (int64_t)i + step);
        return float_of(n % 2 ? i | 0x80000000u : i);
    }
    uint32_t r = ls_rng_u32(rng);
    switch (n % 64) {
    case 0:
        return float_of(0x7f800000u | (r & 0x80000000u));
    case 1:
        return float_of(0x7f800001u | (r & 0x807fffffu));
    default:
        break;
    }
    return n % 2 ? float_of(r) : float_of((r & 0x80ffffffu) + ((118 + (r >> 24 & 15u)) << 23));
}

static inline double math_sample64(uint64_t n, ls_rng *rng) {
    if (n < (uint64_t)MATH_POINTS * 34) {
        uint64_t i = bits_of_double(math_points[n / 34]);
        int step = (int)(n % 34 / 2) - 8;
        i = (int64_t)i + step < 0 ? 0 : i + (uint64_t)(int64_t)step;
        return double_of(n % 2 ? i | 0x8000000000000000u : i);
    }
    uint64_t r = ls_rng_u64(rng);
    switch (n % 64) {
    case 0:
        return double_of(0x7ff0000000000000u | (r & 0x8000000000000000u));
    case 1:
        return double_of(0x7ff0000000000001u | (r & 0x800fffffffffffffu));
    default:
        break;
    }
    return n % 2 ? double_of(r)
                 : double_of((r & 0x801fffffffffffffu) + ((uint64_t)(1013 + (r >> 56 & 15u)) << 52));
}

#ifdef LS_HAVE_MPFR
/* As error32, for f64 against a value of at least 100 bits. */
static inline double error64(double y, const mpfr_t exact) {
    if (mpfr_nan_p(exact)) {
        return bits_of_double(y) == LS_NAN_F64 ? 0 : HUGE_VAL;
    }
    if (isnan(y) || !signbit(y) != !mpfr_signbit(exact)) {
        return HUGE_VAL;
    }
    if (mpfr_inf_p(exact)) {
        return isinf(y) ? 0 : HUGE_VAL;
    }
    long e = mpfr_zero_p(exact) ? -2000 : (long)mpfr_get_exp(exact);
    if (e > 1024) {
        return isinf(y) ? 0 : HUGE_VAL;
    }
    mpfr_t d;
    mpfr_init2(d, 160);
    if (isinf(y)) {
        mpfr_set_ui_2exp(d, 1, 1024, MPFR_RNDN);
        if (y < 0) {
            mpfr_neg(d, d, MPFR_RNDN);
        }
    } else {
        mpfr_set_d(d, y, MPFR_RNDN);
    }
    mpfr_sub(d, d, exact, MPFR_RNDN);
    mpfr_mul_2si(d, d, -(e - 53 < -1074 ? -1074 : e - 53), MPFR_RNDN);
    double r = fabs(mpfr_get_d(d, MPFR_RNDN));
    mpfr_clear(d);
    return r;
}
#endif

#endif
