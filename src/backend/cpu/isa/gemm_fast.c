/*
 * Microkernels with fused multiply-add: for fast mode, and for locked products of f16 or 8-bit integers,
 * which are exact. Same order of k as the locked ones. Where the baseline has no FMA (scalar) they do not
 * fuse.
 */
#include <stdbool.h>
#include <stddef.h>

#include "backend/cpu/gemm_isa.h"
#include "backend/cpu/isa/gemm_vec.h"
#include "base/half.h"

#if defined(LS_ISA_AVX512)
#define FMA_4(a, b, c) _mm_fmadd_ps(a, b, c)
#define FMA_F32(a, b, c) ((ls_vf32)_mm512_fmadd_ps(a, b, c))
#define FMA_F64(a, b, c) ((ls_vf64)_mm512_fmadd_pd(a, b, c))
#elif defined(LS_ISA_AVX2)
#define FMA_4(a, b, c) _mm_fmadd_ps(a, b, c)
#define FMA_F32(a, b, c) ((ls_vf32)_mm256_fmadd_ps(a, b, c))
#define FMA_F64(a, b, c) ((ls_vf64)_mm256_fmadd_pd(a, b, c))
#elif defined(LS_ISA_NEON)
#define FMA_4 FMA_F32
#define FMA_F32(a, b, c) ((ls_vf32)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#define FMA_F64(a, b, c) ((ls_vf64)vfmaq_f64((float64x2_t)(c), (float64x2_t)(a), (float64x2_t)(b)))
#else
#define FMA_4 FMA_F32
#define FMA_F32(a, b, c) ((c) + (a) * (b))
#define FMA_F64(a, b, c) ((c) + (a) * (b))
#endif

#define NAME LS_ISA_SUFFIX(ls_gemm_f32_fast_vector_rows)
#define MADD4 FMA_4
#include "backend/cpu/isa/gemm_rows.inc"
#ifdef LS_HALVES
#define HALVES(what) LS_ISA_SUFFIX(ls_gemm_f32_fast_##what)
#define NAME HALVES(f16_rows)
#define MADD4 FMA_4
#define E uint16_t
#define LOAD4 ls_quad_f16
#define LOAD1(p) ls_f16_to_f32(*(p))
#include "backend/cpu/isa/gemm_rows.inc"
#define NAME HALVES(bf16_rows)
#define MADD4 FMA_4
#define E uint16_t
#define LOAD4 ls_quad_bf16
#define LOAD1(p) ls_bf16_to_f32(*(p))
#include "backend/cpu/isa/gemm_rows.inc"
#endif

#define T float
#define V ls_vf32
#define VU ls_vf32_any
#define LANES LS_LANES_F32
#define SPLAT LS_SPLAT_F32
#define UNORDERED LS_UNORDERED_F32
#define MADD FMA_F32
#ifdef LS_HALVES
#define PARTS(what) LS_ISA_SUFFIX(ls_gemm_f32_fast_##what##_parts)
#define NAME PARTS(rows)
#define SERIAL LS_ISA_SUFFIX(ls_gemm_f32_fast_vector_rows)
#define E float
#define LOADV(p) (*(const VU *)(p))
#include "backend/cpu/isa/gemm_rows_fast.inc"
#define NAME PARTS(f16_rows)
#define SERIAL HALVES(f16_rows)
#define E uint16_t
#define LOADV ls_load_f16
#include "backend/cpu/isa/gemm_rows_fast.inc"
#define NAME PARTS(bf16_rows)
#define SERIAL HALVES(bf16_rows)
#define E uint16_t
#define LOADV ls_load_bf16
#include "backend/cpu/isa/gemm_rows_fast.inc"
#endif
#define NAME(rows, cols) LS_GEMM_NAME(f32_fast, rows, LS_TILE_COLS_F32_##cols)
#define VECTOR LS_ISA_SUFFIX(ls_gemm_f32_fast_vector)
#define VECTOR_ROWS LS_ISA_SUFFIX(ls_gemm_f32_fast_vector_rows)
#define TABLE LS_ISA_SUFFIX(ls_gemm_f32_fast)
#define TAPS(rows) LS_ISA_SUFFIX(ls_gemm_f32_fast_taps_##rows)
#define SPARSE(vectors) LS_ISA_SUFFIX(ls_gemm_f32_fast_sparse_##vectors)
#define DEPTHWISE LS_ISA_SUFFIX(ls_depthwise_fast)
#define RUNS(vectors) LS_ISA_SUFFIX(ls_gemm_f32_fast_runs_##vectors)
#include "backend/cpu/isa/gemm_kernels.inc"

#define T double
#define V ls_vf64
#define VU ls_vf64_any
#define LANES LS_LANES_F64
#define SPLAT LS_SPLAT_F64
#define MADD FMA_F64
#define NAME(rows, cols) LS_GEMM_NAME(f64_fast, rows, LS_TILE_COLS_F64_##cols)
#define VECTOR LS_ISA_SUFFIX(ls_gemm_f64_fast_vector)
#define VECTOR_ROWS NULL
#define TABLE LS_ISA_SUFFIX(ls_gemm_f64_fast)
#include "backend/cpu/isa/gemm_kernels.inc"
