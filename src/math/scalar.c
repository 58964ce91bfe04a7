// math.inc as plain C functions: these are the reference for all other instantiations.
#include "math/math.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "math/const32.h"
#include "math/const64.h"

static inline uint32_t f32_bits(float x) {
    uint32_t i;
    memcpy(&i, &x, sizeof i);
    return i;
}

static inline float f32_frombits(uint32_t i) {
    float x;
    memcpy(&x, &i, sizeof x);
    return x;
}

static inline uint64_t f64_bits(double x) {
    uint64_t i;
    memcpy(&i, &x, sizeof i);
    return i;
}

static inline double f64_frombits(uint64_t i) {
    double x;
    memcpy(&x, &i, sizeof x);
    return x;
}

static inline uint32_t u32_mulhi(uint32_t a, uint32_t b) {
    return (uint32_t)((uint64_t)a * b >> 32);
}

static inline uint64_t u64_mulhi(uint64_t a, uint64_t b) {
    return (uint64_t)((unsigned __int128)a * b >> 64);
}

// Arithmetic shift by way of unsigned shifts: no implementation-defined step.
static inline uint32_t u32_ashr(uint32_t a, uint32_t n) {
    uint32_t s = 0u - (a >> 31);
    return ((a ^ s) >> n) ^ s;
}

static inline uint64_t u64_ashr(uint64_t a, uint64_t n) {
    uint64_t s = 0u - (a >> 63);
    return ((a ^ s) >> n) ^ s;
}

#define FUNC static inline
#define CTX_PARAM
#define CTX_ARG
#define M bool
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define MUL(a, b) ((a) * (b))
#define DIV(a, b) ((a) / (b))
#define LT(a, b) ((a) < (b))
#define LE(a, b) ((a) <= (b))
#define EQ(a, b) ((a) == (b))
#define MAND(a, b) ((a) & (b))
#define MOR(a, b) ((a) | (b))
#define MNOT(a) (!(a))
#define SEL(m, a, b) ((m) ? (a) : (b))
#define ISEL(m, a, b) ((m) ? (a) : (b))
#define IADD(a, b) ((a) + (b))
#define ISUB(a, b) ((a) - (b))
#define IMUL(a, b) ((a) * (b))
#define IAND(a, b) ((a) & (b))
#define IOR(a, b) ((a) | (b))
#define IXOR(a, b) ((a) ^ (b))
#define ISHL(a, n) ((a) << (n))
#define USHR(a, n) ((a) >> (n))
#define IEQ(a, b) ((a) == (b))

#define LS_MATH_BITS 32
#define FN(name) f32_##name
#define V float
#define VI uint32_t
#define C(x) ((float)(x))
#define IC(n) ((uint32_t)(n))
#define SQRT(x) __builtin_sqrtf(x)
#define BITS(x) f32_bits(x)
#define FROMBITS(i) f32_frombits(i)
#define UMULHI(a, b) u32_mulhi(a, b)
#define ISHR(a, n) u32_ashr(a, n)
#define ILT(a, b) ((int32_t)(a) < (int32_t)(b))
#include "math/math.inc"
#undef LS_MATH_BITS
#undef FN
#undef V
#undef VI
#undef C
#undef IC
#undef SQRT
#undef BITS
#undef FROMBITS
#undef UMULHI
#undef ISHR
#undef ILT

#define LS_MATH_BITS 64
#define FN(name) f64_##name
#define V double
#define VI uint64_t
#define C(x) ((double)(x))
#define IC(n) ((uint64_t)(n))
#define SQRT(x) __builtin_sqrt(x)
#define BITS(x) f64_bits(x)
#define FROMBITS(i) f64_frombits(i)
#define UMULHI(a, b) u64_mulhi(a, b)
#define ISHR(a, n) u64_ashr(a, n)
#define ILT(a, b) ((int64_t)(a) < (int64_t)(b))
#include "math/math.inc"

#define LS_MATH_DEFINE(name)                                  \
    float ls_##name##_f32(float x) { return f32_##name(x); }  \
    double ls_##name##_f64(double x) { return f64_##name(x); }
LS_MATH_UNARY(LS_MATH_DEFINE)

float ls_pow_f32(float x, float y) {
    return f32_pow(x, y);
}

double ls_pow_f64(double x, double y) {
    return f64_pow(x, y);
}
