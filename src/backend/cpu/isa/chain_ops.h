/* Minimum, maximum and the canonical NaN of the contract on a vector: what chains (chain.c) and tiles that a chain follows share. */
#ifndef LOCKSTEP_BACKEND_CPU_ISA_CHAIN_OPS_H
#define LOCKSTEP_BACKEND_CPU_ISA_CHAIN_OPS_H

#include "backend/cpu/chain.h"
#include "backend/cpu/isa/gemm_vec.h"
#include "base/half.h"

typedef int32_t ls_vi32 __attribute__((vector_size(LS_VECTOR_BYTES)));

/* Of each lane x or y; lanes of a mask are all ones or none. */
#if defined(LS_ISA_AVX2)
#define LS_CHOOSE(mask, x, y) ((ls_vf32)_mm256_blendv_ps((__m256)(y), (__m256)(x), (__m256)(mask)))
#else
#define LS_CHOOSE(mask, x, y) ((ls_vf32)(((ls_vu32)(x) & (ls_vu32)(mask)) | ((ls_vu32)(y) & ~(ls_vu32)(mask))))
#endif
/* x where it is greater (less) than y, else y: that, too, where one is NaN or both are zero. */
#if defined(LS_ISA_AVX512)
#define LS_ABOVE(x, y) ((ls_vf32)_mm512_max_ps((__m512)(x), (__m512)(y)))
#define LS_BELOW(x, y) ((ls_vf32)_mm512_min_ps((__m512)(x), (__m512)(y)))
#elif defined(LS_ISA_AVX2)
#define LS_ABOVE(x, y) ((ls_vf32)_mm256_max_ps((__m256)(x), (__m256)(y)))
#define LS_BELOW(x, y) ((ls_vf32)_mm256_min_ps((__m256)(x), (__m256)(y)))
#else
#define LS_ABOVE(x, y) LS_CHOOSE((ls_vi32)((x) > (y)), x, y)
#define LS_BELOW(x, y) LS_CHOOSE((ls_vi32)((x) < (y)), x, y)
#endif
/* x where y is above 0, else +0. */
#if defined(LS_ISA_AVX512)
#define LS_PASS(y, x) ((ls_vf32)_mm512_maskz_mov_ps(_mm512_cmp_ps_mask((__m512)(y), _mm512_setzero_ps(), _CMP_GT_OQ), (__m512)(x)))
#else
#define LS_PASS(y, x) ((ls_vf32)((ls_vu32)(x) & (ls_vu32)((y) > (ls_vf32){0})))
#endif

/* The lanes of [low, high), whatever both are. */
#if defined(LS_ISA_AVX512)
typedef __mmask16 ls_lanes;
static inline ls_lanes ls_lanes_between(int64_t low, int64_t high) {
    low = low < 0 ? 0 : low > LS_LANES_F32 ? LS_LANES_F32 : low;
    high = high < low ? low : high > LS_LANES_F32 ? LS_LANES_F32 : high;
    return (ls_lanes)((1u << high) - (1u << low));
}
#elif defined(LS_ISA_AVX2)
typedef __m256i ls_lanes;
static inline ls_lanes ls_lanes_between(int64_t low, int64_t high) {
    low = low < 0 ? 0 : low > LS_LANES_F32 ? LS_LANES_F32 : low;
    high = high < low ? low : high > LS_LANES_F32 ? LS_LANES_F32 : high;
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32((int)low), lane), _mm256_cmpgt_epi32(_mm256_set1_epi32((int)high), lane));
}
#endif

/* A vector past the caches, where one may begin. */
#if defined(LS_ISA_AVX512)
#define LS_STREAM(p, x) _mm512_stream_ps(p, (__m512)(x))
#elif defined(LS_ISA_AVX2)
#define LS_STREAM(p, x) _mm256_stream_ps(p, (__m256)(x))
#endif

#if defined(LS_ISA_AVX512)
/* The instruction has -0 below +0, and a number rather than NaN, for which the sum of both stands. */
#define LS_EXTREME(x, y, which)                                                                              \
    ((ls_vf32)_mm512_mask_add_ps(_mm512_range_ps((__m512)(x), (__m512)(y), which),                           \
                                 _mm512_cmp_ps_mask((__m512)(x), (__m512)(y), _CMP_UNORD_Q), (__m512)(x), (__m512)(y)))
static inline ls_vf32 ls_highest(ls_vf32 x, ls_vf32 y) {
    return LS_EXTREME(x, y, 5);
}
static inline ls_vf32 ls_lowest(ls_vf32 x, ls_vf32 y) {
    return LS_EXTREME(x, y, 4);
}
#else
static inline ls_vf32 ls_highest(ls_vf32 x, ls_vf32 y) {
    ls_vf32 r = LS_ABOVE(x, y);
    r = LS_CHOOSE((ls_vi32)(x == y), (ls_vf32)((ls_vu32)x & (ls_vu32)y), r);
    return LS_CHOOSE((ls_vi32)(x != x), x, r);
}
static inline ls_vf32 ls_lowest(ls_vf32 x, ls_vf32 y) {
    ls_vf32 r = LS_BELOW(x, y);
    r = LS_CHOOSE((ls_vi32)(x == y), (ls_vf32)((ls_vu32)x | (ls_vu32)y), r);
    return LS_CHOOSE((ls_vi32)(x != x), x, r);
}
#endif
/* Added to the larger of x and a scalar, which of two zeros may be -0: makes +0 where the scalar is that, and NaN; else changes nothing. */
static inline float ls_zero_above(float scalar) {
    return scalar != scalar || (scalar == 0 && !__builtin_signbit(scalar)) ? scalar : -0.0f;
}
#if defined(LS_ISA_AVX512)
static inline ls_vf32 ls_zeros_above(ls_vf32 scalars) {
    enum { QUIET_NAN = 1, POSITIVE_ZERO = 2, SIGNALING_NAN = 128 };
    __mmask16 own = _mm512_fpclass_ps_mask((__m512)scalars, QUIET_NAN | POSITIVE_ZERO | SIGNALING_NAN);
    return (ls_vf32)_mm512_mask_mov_ps(_mm512_set1_ps(-0.0f), own, (__m512)scalars);
}
#else
static inline ls_vf32 ls_zeros_above(ls_vf32 scalars) {
    return LS_CHOOSE((ls_vi32)(scalars != scalars) | (ls_vi32)((ls_vu32)scalars == 0), scalars, LS_SPLAT_F32(-0.0f));
}
#endif
static inline ls_vf32 ls_canonical(ls_vf32 x) {
#if defined(LS_ISA_AVX512)
    __m512i nan = _mm512_set1_epi32(LS_NAN_F32);
    /* In a register: a load from a page that is not there yet, with a mask of nothing, takes 1000 cycles, and leaves the page away. */
    __asm__("" : "+v"(nan));
    return (ls_vf32)_mm512_mask_mov_ps((__m512)x, _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q), _mm512_castsi512_ps(nan));
#else
    return LS_CHOOSE((ls_vi32)(x != x), (ls_vf32)LS_SPLAT_U32(LS_NAN_F32), x);
#endif
}

#endif
