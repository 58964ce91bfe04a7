/* Correctly rounded quotients of many numbers by one, without dividing: the same bits as a division, in any kind of arithmetic, so that
 * fused multiply-adds are allowed here (the name of this file tells the test that forbids them elsewhere).
 *
 * With y the divisor's rounded reciprocal, q0 = x * y is within 2 ulp, a correction by the remainder makes it faithful, and another one
 * correctly rounded (Markstein 1990), as long as no remainder underflows: magnitudes within 2^-60 and 2^60, or zero. Others are divided. */
#include "backend/cpu/isa/gemm_vec.h"
#include "backend/cpu/isa/tile_isa.h"

#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
#if defined(LS_ISA_AVX512)
#define FMA(a, b, c) ((ls_vf32)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define FNMA(a, b, c) ((ls_vf32)_mm512_fnmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#else
#define FMA(a, b, c) ((ls_vf32)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define FNMA(a, b, c) ((ls_vf32)_mm256_fnmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#endif
enum { LOW = (127 - 60) << 23, HIGH = (127 + 60) << 23 }; /* bits of the magnitudes' ends */

static bool within(float x) {
    union {
        float f;
        uint32_t u;
    } bits = {x};
    uint32_t magnitude = bits.u & 0x7fffffff;
    return magnitude >= LOW && magnitude < HIGH;
}

#if defined(LS_ISA_AVX512)
enum { GROUP = 8 * LS_LANES_F32 };

/* Whether no magnitude is outside, but for zeros; those wrap around to more than any. */
static bool all_within(const float *x) {
    __m512i high = _mm512_setzero_si512(), low = _mm512_set1_epi32(-1);
    for (int i = 0; i < GROUP; i += LS_LANES_F32) {
        __m512i magnitude = _mm512_and_si512(_mm512_loadu_si512(x + i), _mm512_set1_epi32(0x7fffffff));
        high = _mm512_max_epu32(high, magnitude);
        low = _mm512_min_epu32(low, _mm512_sub_epi32(magnitude, _mm512_set1_epi32(1)));
    }
    return !(_mm512_cmpge_epu32_mask(high, _mm512_set1_epi32(HIGH)) | _mm512_cmplt_epu32_mask(low, _mm512_set1_epi32(LOW - 1)));
}

/* By a positive number: the sign is that of x, which a correction takes from -0. */
static void divide_group(float *dst, const float *x, ls_vf32 d, ls_vf32 y) {
    for (int i = 0; i < GROUP; i += LS_LANES_F32) {
        ls_vf32 v = *(const ls_vf32_any *)(x + i), q0 = v * y;
        ls_vf32 q1 = FMA(FNMA(q0, d, v), y, q0), q2 = FMA(FNMA(q1, d, v), y, q1);
        __m512i r = _mm512_ternarylogic_epi32((__m512i)q2, (__m512i)v, _mm512_set1_epi32(INT32_MIN), 0xf8); /* q2 | v & sign */
        *(ls_vf32_any *)(dst + i) = (ls_vf32)r;
    }
}
#endif

void LS_TILE_NAME(ls_divide_f32)(float *dst, const float *x, float divisor, int64_t n) {
    const ls_vf32 d = LS_SPLAT_F32(divisor), y = LS_SPLAT_F32(1.0f / divisor);
    bool usable = within(divisor);
    int64_t i = 0;
#if defined(LS_ISA_AVX512)
    for (; usable && divisor > 0 && i + GROUP <= n && all_within(x + i); i += GROUP) {
        divide_group(dst + i, x + i, d, y);
    }
#endif
    for (; i + LS_LANES_F32 <= n; i += LS_LANES_F32) {
        ls_vf32 v = *(const ls_vf32_any *)(x + i), q0 = v * y;
        ls_vf32 q1 = FMA(FNMA(q0, d, v), y, q0), q2 = FMA(FNMA(q1, d, v), y, q1);
#if defined(LS_ISA_AVX512)
        __m512i magnitude = _mm512_and_si512((__m512i)v, _mm512_set1_epi32(0x7fffffff));
        __mmask16 zero = _mm512_testn_epi32_mask(magnitude, magnitude);
        __mmask16 far =
            _mm512_mask_cmp_epu32_mask((__mmask16)~zero, _mm512_sub_epi32(magnitude, _mm512_set1_epi32(LOW)),
                                       _mm512_set1_epi32(HIGH - LOW), _MM_CMPINT_NLT);
        ls_vf32 r = (ls_vf32)_mm512_mask_mov_ps((__m512)q2, zero, (__m512)q0);
#else
        __m256i magnitude = _mm256_and_si256((__m256i)v, _mm256_set1_epi32(0x7fffffff));
        __m256 zero = (__m256)_mm256_cmpeq_epi32(magnitude, _mm256_setzero_si256());
        __m256i outside = _mm256_or_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(LOW), magnitude),
                                          _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(HIGH - 1)));
        int far = _mm256_movemask_ps(_mm256_andnot_ps(zero, (__m256)outside));
        ls_vf32 r = (ls_vf32)_mm256_blendv_ps((__m256)q2, (__m256)q0, zero);
#endif
        *(ls_vf32_any *)(dst + i) = far || !usable ? v / d : r;
    }
    for (; i < n; i++) {
        dst[i] = x[i] / divisor;
    }
}
#endif
