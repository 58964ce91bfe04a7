/* Correctly rounded quotients of many numbers by one, without dividing: the same bits as a division, in any kind of arithmetic, so that
 * fused multiply-adds are allowed here (the names of the files that have this tell the test that forbids them elsewhere). What is divided may
 * be the numbers' distance from another one, as it is in norms.
 *
 * With y the divisor's rounded reciprocal, q0 = x * y is within 2 ulp, a correction by the remainder makes it faithful, and another one
 * correctly rounded (Markstein 1990), as long as no remainder underflows: magnitudes within 2^-60 and 2^60, or zero. Others are divided.
 * With z what is left of the reciprocal, x * y + x * z is faithful at once. */
#ifndef LOCKSTEP_BACKEND_CPU_ISA_QUOTIENT_H
#define LOCKSTEP_BACKEND_CPU_ISA_QUOTIENT_H

#include "backend/cpu/isa/chain_ops.h"
#include "backend/cpu/isa/tile_isa.h"

#if defined(LS_ISA_AVX512)
#define UNORDERED(x, y) _mm512_cmp_ps_mask((__m512)(x), (__m512)(y), _CMP_UNORD_Q)
#define ANY_NAN(x, y) (UNORDERED(x, y) != 0)
#define FMA(a, b, c) ((ls_vf32)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define FNMA(a, b, c) ((ls_vf32)_mm512_fnmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#else
#define ANY_NAN(x, y) (_mm256_movemask_ps(_mm256_cmp_ps((__m256)(x), (__m256)(y), _CMP_UNORD_Q)) != 0)
#define FMA(a, b, c) ((ls_vf32)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define FNMA(a, b, c) ((ls_vf32)_mm256_fnmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#endif
enum { LOW = (127 - 60) << 23, HIGH = (127 + 60) << 23 }; /* bits of the magnitudes' ends */

typedef union number {
    float f;
    uint32_t u;
} number;

static bool within(float x) {
    uint32_t magnitude = ((number){x}).u & 0x7fffffff;
    return magnitude >= LOW && magnitude < HIGH;
}

/* A row's numbers: d the divisor, y about 1/d, and, for quotients that are near, what is left of that: z of y's sign, so that -0 stays. */
typedef struct by { /* else z is what is left of y = round(1/d), of either sign */
    ls_vf32 minus, d, y, z;
    ls_chain_dst to;
} by;

static inline void put(const by *b, float *dst, ls_vf32 x) {
    if (b->to == LS_DST_FAR) {
        LS_STREAM(dst, x);
    } else {
        *(ls_vf32_any *)dst = x;
    }
}

static inline ls_vf32 apart(const by *b, const float *x) {
    return *(const ls_vf32_any *)x - b->minus;
}

/* Vectors are named variables: gcc 12 spills an indexed array of them. */
#define FOUR(X) X(0) X(1) X(2) X(3)
#define APART(i) ls_vf32 v##i = apart(&b, x + (i) * LS_LANES_F32);
#define ABOUT(i) ls_vf32 q##i = FMA(v##i, b.y, v##i * b.z);
#define PUT(i) *(ls_vf32_any *)(dst + (i) * LS_LANES_F32) = q##i;
#define PUT_FAR(i) LS_STREAM(dst + (i) * LS_LANES_F32, q##i);
#define CANONICAL(i) q##i = ls_canonical(q##i);
#if defined(LS_ISA_AVX512)
#define CORRECT(i) q##i = FMA(FNMA(q##i, b.d, v##i), b.y, q##i);
#define BEYOND(i) high = _mm512_max_epu32(high, _mm512_sub_epi32(_mm512_slli_epi32((__m512i)v##i, 1), low));
#endif

/* AVX2 divides: eight take a divider four cycles, and other ports nothing. */
static inline ls_vf32 quotient(const by *b, ls_vf32 v, bool usable) {
#if defined(LS_ISA_AVX512)
    ls_vf32 q0 = v * b->y, q1 = FMA(FNMA(q0, b->d, v), b->y, q0), q2 = FMA(FNMA(q1, b->d, v), b->y, q1);
    __m512i magnitude = _mm512_and_si512((__m512i)v, _mm512_set1_epi32(0x7fffffff));
    __mmask16 zero = _mm512_testn_epi32_mask(magnitude, magnitude);
    __mmask16 far = _mm512_mask_cmp_epu32_mask((__mmask16)~zero, _mm512_sub_epi32(magnitude, _mm512_set1_epi32(LOW)),
                                               _mm512_set1_epi32(HIGH - LOW), _MM_CMPINT_NLT);
    ls_vf32 r = (ls_vf32)_mm512_mask_mov_ps((__m512)q2, zero, (__m512)q0);
    return far || !usable ? v / b->d : r;
#else
    (void)usable;
    return v / b->d;
#endif
}

/* 1/divisor as y + z: y is rounded, or, if `near`, not above it. */
static inline bool in_parts(float divisor, bool near, float *y, float *z) {
    number about = {1.0f / divisor};
    if (near && __builtin_fmaf(-about.f, divisor, 1.0f) < 0) { /* beyond 1/divisor */
        about.u--;
    }
    float left = __builtin_fmaf(-about.f, divisor, 1.0f);
    *y = about.f;
    *z = !near ? left * about.f : left > 0 ? left / divisor : about.f * 0x1p-50f; /* no zero where near: infinity times that is no number */
    return within(divisor);
}

#endif
