/*
 * Vector types of the instruction set that this object is compiled for (LS_ISA_<NAME>), as GCC vector extensions: one text serves all.
 * LS_GEMM_ROWS and LS_GEMM_VECTORS are the highest and the widest tile's. With 32 registers, 6 by 4 takes 10 loads for 24 multiply-adds, 8
 * by 3 takes 11, 12 by 2 takes 14.
 */
#ifndef LOCKSTEP_BACKEND_CPU_ISA_GEMM_VEC_H
#define LOCKSTEP_BACKEND_CPU_ISA_GEMM_VEC_H

#include <stdint.h>

#if defined(LS_ISA_AVX512)
#include <immintrin.h>
#define LS_VECTOR_BYTES 64
#define LS_GEMM_ROWS 8
#define LS_GEMM_VECTORS 4
#define LS_ISA_SUFFIX(name) name##__avx512
#define LS_TILE_COLS_F32_1 16
#define LS_TILE_COLS_F32_2 32
#define LS_TILE_COLS_F32_3 48
#define LS_TILE_COLS_F32_4 64
#define LS_TILE_COLS_F64_1 8
#define LS_TILE_COLS_F64_2 16
#define LS_TILE_COLS_F64_3 24
#elif defined(LS_ISA_AVX2)
#include <immintrin.h>
#define LS_VECTOR_BYTES 32
#define LS_GEMM_ROWS 6
#define LS_ISA_SUFFIX(name) name##__avx2
#define LS_TILE_COLS_F32_1 8
#define LS_TILE_COLS_F32_2 16
#define LS_TILE_COLS_F64_1 4
#define LS_TILE_COLS_F64_2 8
#elif defined(LS_ISA_NEON)
#include <arm_neon.h>
#define LS_VECTOR_BYTES 16
#define LS_GEMM_ROWS 8
#define LS_ISA_SUFFIX(name) name##__neon
#define LS_TILE_COLS_F32_1 4
#define LS_TILE_COLS_F32_2 8
#define LS_TILE_COLS_F64_1 2
#define LS_TILE_COLS_F64_2 4
#elif defined(LS_ISA_SIMD128) /* compiled to 16 registers by browsers on x86, one of which they keep */
#define LS_VECTOR_BYTES 16
#define LS_GEMM_ROWS 6
#define LS_ISA_SUFFIX(name) name##__simd128
#define LS_TILE_COLS_F32_1 4
#define LS_TILE_COLS_F32_2 8
#define LS_TILE_COLS_F64_1 2
#define LS_TILE_COLS_F64_2 4
#elif defined(LS_ISA_SCALAR)
#define LS_VECTOR_BYTES 16
#define LS_GEMM_ROWS 4
#define LS_ISA_SUFFIX(name) name##__scalar
#define LS_TILE_COLS_F32_1 4
#define LS_TILE_COLS_F32_2 8
#define LS_TILE_COLS_F64_1 2
#define LS_TILE_COLS_F64_2 4
#else
#error "compile with LS_ISA_<NAME>"
#endif
#ifndef LS_GEMM_VECTORS
#define LS_GEMM_VECTORS 2
#endif

#define LS_LANES_F32 (LS_VECTOR_BYTES / 4)
#define LS_LANES_F64 (LS_VECTOR_BYTES / 8)

typedef float ls_vf32 __attribute__((vector_size(LS_VECTOR_BYTES)));
typedef double ls_vf64 __attribute__((vector_size(LS_VECTOR_BYTES)));
typedef uint32_t ls_vu32 __attribute__((vector_size(LS_VECTOR_BYTES)));

/* ls_gemm_f32_8x48__avx512: element, rows and columns of the tile, instruction set. */
#define LS_GEMM_NAME(type, rows, cols) LS_GEMM_NAME_(type, rows, cols)
#define LS_GEMM_NAME_(type, rows, cols) LS_ISA_SUFFIX(ls_gemm_##type##_##rows##x##cols)

/* For loads and stores at any address. */
typedef ls_vf32 ls_vf32_any __attribute__((aligned(4), may_alias));
typedef ls_vf64 ls_vf64_any __attribute__((aligned(8), may_alias));
typedef ls_vu32 ls_vu32_any __attribute__((aligned(4), may_alias));

/* Halves as floats, a vector or four at a time. */
#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2) || defined(LS_ISA_NEON)
#define LS_HALVES
typedef float ls_quad __attribute__((vector_size(16)));
typedef uint16_t ls_vu16 __attribute__((vector_size(LS_VECTOR_BYTES / 2), aligned(2), may_alias));
typedef uint16_t ls_quad_u16 __attribute__((vector_size(8), aligned(2), may_alias));
typedef uint32_t ls_quad_u32 __attribute__((vector_size(16)));

static inline ls_vf32 ls_load_bf16(const uint16_t *p) {
    return (ls_vf32)(__builtin_convertvector(*(const ls_vu16 *)p, ls_vu32) << 16);
}
static inline ls_quad ls_quad_bf16(const uint16_t *p) {
    return (ls_quad)(__builtin_convertvector(*(const ls_quad_u16 *)p, ls_quad_u32) << 16);
}
#if defined(LS_ISA_AVX512)
static inline ls_vf32 ls_load_f16(const uint16_t *p) {
    return (ls_vf32)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}
#elif defined(LS_ISA_AVX2)
static inline ls_vf32 ls_load_f16(const uint16_t *p) {
    return (ls_vf32)_mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}
#endif
#if defined(LS_ISA_NEON)
static inline ls_quad ls_quad_f16(const uint16_t *p) {
    return (ls_quad)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
#define ls_load_f16 ls_quad_f16
#else
static inline ls_quad ls_quad_f16(const uint16_t *p) {
    return (ls_quad)_mm_cvtph_ps(_mm_loadl_epi64((const void *)p));
}
#endif
#endif

/* Lanes of which no element was NaN: of those that one begins with, and together with those. AVX2 has them in a vector, which is not to wait on the stack
 * from one tile to the next. */
#if defined(LS_ISA_AVX2)
typedef __m256 ls_ordered;
#define LS_ORDERED_BEGIN(ordered) _mm256_castsi256_ps(_mm256_set1_epi32(-1))
#define LS_ORDERED_F32(lanes, a, b) _mm256_and_ps(lanes, _mm256_cmp_ps((__m256)(a), (__m256)(b), _CMP_ORD_Q))
#define LS_ORDERED_END(ordered, lanes) (uint16_t)((ordered) & (_mm256_movemask_ps(lanes) | 0xff00))
#else
typedef uint16_t ls_ordered;
#define LS_ORDERED_BEGIN(ordered) ordered
#define LS_ORDERED_END(ordered, lanes) lanes
#if defined(LS_ISA_AVX512)
#define LS_ORDERED_F32(lanes, a, b) _mm512_mask_cmp_ps_mask(lanes, (__m512)(a), (__m512)(b), _CMP_ORD_Q)
#elif defined(LS_ISA_NEON)
#define LS_ORDERED_F32(lanes, a, b) (uint16_t)((lanes) & vminvq_u32((uint32x4_t)(((a) == (a)) & ((b) == (b)))))
#else
#define LS_ORDERED_F32(lanes, a, b) 0
#endif
#endif

/* An initialiser list, because compilers know it as a broadcast. */
#define LS_TIMES2(x) x, x
#define LS_TIMES4(x) LS_TIMES2(x), LS_TIMES2(x)
#define LS_TIMES8(x) LS_TIMES4(x), LS_TIMES4(x)
#define LS_TIMES16(x) LS_TIMES8(x), LS_TIMES8(x)
#if LS_VECTOR_BYTES == 64
#define LS_SPLAT_F32(x) ((ls_vf32){LS_TIMES16(x)})
#define LS_SPLAT_F64(x) ((ls_vf64){LS_TIMES8(x)})
#define LS_SPLAT_U32(x) ((ls_vu32){LS_TIMES16(x)})
#elif LS_VECTOR_BYTES == 32
#define LS_SPLAT_F32(x) ((ls_vf32){LS_TIMES8(x)})
#define LS_SPLAT_F64(x) ((ls_vf64){LS_TIMES4(x)})
#define LS_SPLAT_U32(x) ((ls_vu32){LS_TIMES8(x)})
#else
#define LS_SPLAT_F32(x) ((ls_vf32){LS_TIMES4(x)})
#define LS_SPLAT_F64(x) ((ls_vf64){LS_TIMES2(x)})
#define LS_SPLAT_U32(x) ((ls_vu32){LS_TIMES4(x)})
#endif

/* An element of memory in all lanes. As a float it takes a place among the additions on Zen 4, a quarter of a locked tile's time; as an
 * integer the load alone, but compilers take the one for the other. */
#if defined(LS_ISA_AVX512)
static inline ls_vf32 ls_splat_at_f32(const float *p) {
    ls_vf32 x;
    __asm__("vpbroadcastd %1, %0" : "=v"(x) : "m"(*p));
    return x;
}
static inline ls_vf64 ls_splat_at_f64(const double *p) {
    ls_vf64 x;
    __asm__("vpbroadcastq %1, %0" : "=v"(x) : "m"(*p));
    return x;
}
#else
#define ls_splat_at_f32(p) LS_SPLAT_F32(*(p))
#define ls_splat_at_f64(p) LS_SPLAT_F64(*(p))
#endif

#endif
