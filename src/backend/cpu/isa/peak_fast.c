/* The fused multiply-add rate of one core: twelve chains of c = c*a + b in registers. */
#ifndef LS_ISA_SCALAR
#include "backend/cpu/isa/gemm_vec.h"

#if defined(LS_ISA_AVX512)
#define STEP(c) c = (ls_vf32)_mm512_fmadd_ps((__m512)(c), (__m512)a, (__m512)b);
#elif defined(LS_ISA_AVX2)
#define STEP(c) c = (ls_vf32)_mm256_fmadd_ps((__m256)(c), (__m256)a, (__m256)b);
#elif defined(LS_ISA_NEON)
#define STEP(c) c = (ls_vf32)vfmaq_f32((float32x4_t)b, (float32x4_t)(c), (float32x4_t)a);
#else
#define STEP(c) c = (c) * a + b;
#endif
#define ADDITION(c)
#define PEAK_NAME LS_ISA_SUFFIX(ls_peak_fast)
#include "backend/cpu/isa/peak.inc"
#endif
