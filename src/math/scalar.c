// math.inc as plain C functions: the reference for every other instantiation.
#include "math/math.h"

#include "math/const32.h"
#include "math/const64.h"

#define FUNC static inline

#define LS_MATH_BITS 32
#define FN(name) f32_##name
#include "math/ops_scalar.inc"
#include "math/math.inc"
#include "math/ops_end.inc"

#define LS_MATH_BITS 64
#define FN(name) f64_##name
#include "math/ops_scalar.inc"
#include "math/math.inc"
#include "math/ops_end.inc"

#define LS_MATH_DEFINE(name)                                                                                 \
    float ls_##name##_f32(float x) {                                                                         \
        return f32_##name(x);                                                                                \
    }                                                                                                        \
    double ls_##name##_f64(double x) {                                                                       \
        return f64_##name(x);                                                                                \
    }
LS_MATH_UNARY(LS_MATH_DEFINE)

float ls_pow_f32(float x, float y) {
    return f32_pow(x, y);
}

double ls_pow_f64(double x, double y) {
    return f64_pow(x, y);
}
