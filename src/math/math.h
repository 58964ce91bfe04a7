// Elementary functions, the locked ones: the same bits on every device (docs/elementary.md has the method and
// the error bound of each). They need the host's rounding to nearest with subnormals kept; NaN results are
// the canonical NaN (0x7fc00000, 0x7ff8000000000000); special values as in C17 Annex F, minus flags and
// errno. Pure, thread-safe.
#ifndef LOCKSTEP_MATH_MATH_H
#define LOCKSTEP_MATH_MATH_H

// X(name): functions of one argument.
#define LS_MATH_UNARY(X)                                                                                     \
    X(exp)                                                                                                   \
    X(exp2) X(expm1) X(log) X(log2) X(log1p) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh)    \
        X(tanh) X(erf) X(erfc) X(sqrt) X(rsqrt) X(cbrt) X(floor) X(ceil) X(trunc) X(rint)

#define LS_MATH_DECLARE(name)                                                                                \
    float ls_##name##_f32(float x);                                                                          \
    double ls_##name##_f64(double x);
LS_MATH_UNARY(LS_MATH_DECLARE)
#undef LS_MATH_DECLARE

// rsqrt is 1 / sqrt(x), both steps rounded; rint rounds halves to even.
float ls_pow_f32(float x, float y);
double ls_pow_f64(double x, double y);

#endif
