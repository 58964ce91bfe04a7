/* Depthwise convolutions with fused multiply-add where the instruction set has it. */
#define DEPTHWISE LS_ISA_SUFFIX(ls_depthwise_fast)
#if defined(LS_ISA_AVX512)
#define MADD(a, b, c) ((V)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#elif defined(LS_ISA_AVX2)
#define MADD(a, b, c) ((V)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#elif defined(LS_ISA_NEON)
#define MADD(a, b, c) ((V)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#else
#define MADD(a, b, c) ((c) + (a) * (b))
#endif
#if !defined(LS_ISA_SIMD128) && !defined(LS_ISA_SCALAR)
#include "backend/cpu/isa/depthwise.inc"
#endif
