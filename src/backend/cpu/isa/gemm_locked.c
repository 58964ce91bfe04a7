/* Locked microkernels: multiply, round, add, round; never fused (a test looks for FMA in this object). */
#include <stdbool.h>
#include <stddef.h>

#include "backend/cpu/gemm_isa.h"
#include "backend/cpu/isa/gemm_vec.h"
#ifdef LS_ISA_AVX512
#include "backend/cpu/isa/turn16.h"
#endif
#include "base/half.h"

#define NAME LS_ISA_SUFFIX(ls_gemm_f32_vector_rows)
#define MADD4(a, b, c) ((c) + (a) * (b))
#ifdef LS_ISA_AVX512
#define LOAD16(p) (*(const ls_vf32_any *)(p))
#endif
#include "backend/cpu/isa/gemm_rows.inc"
#ifdef LS_HALVES
#define HALVES(what) LS_ISA_SUFFIX(ls_gemm_f32_##what)
#ifdef LS_ISA_AVX2 /* smaller. Of two halves products are exact, and gemm_fast.c has them */
#define NO_F16
#else
#define NAME HALVES(f16_rows)
#define MADD4(a, b, c) ((c) + (a) * (b))
#ifdef LS_ISA_AVX512
#define LOAD16 ls_load_f16
#endif
#define E uint16_t
#define LOAD4 ls_quad_f16
#define LOAD1(p) ls_f16_to_f32(*(p))
#include "backend/cpu/isa/gemm_rows.inc"
#endif
#define NAME HALVES(bf16_rows)
#define MADD4(a, b, c) ((c) + (a) * (b))
#ifdef LS_ISA_AVX512
#define LOAD16 ls_load_bf16
#endif
#define E uint16_t
#define LOAD4 ls_quad_bf16
#define LOAD1(p) ls_bf16_to_f32(*(p))
#include "backend/cpu/isa/gemm_rows.inc"
#endif

#ifdef LS_ISA_AVX512
/*
 * gemm_vector.inc's GROUP, of five rows, two vectors at a time. A processor looks ahead of memory as many instructions as it can hold: these
 * are as few as there can be, where compilers spend a fifth more on addresses. Each load has a stride of two lines, which is fetched ahead
 * best; of more rows memory gives less, of fewer each sum is loaded and stored more often.
 */
static inline int64_t five_rows(int64_t n, const float *x, int64_t x_k, const float *b, int64_t b_k, float *y) {
    const int64_t columns = n - n % (2 * LS_LANES_F32);
    int64_t at = -4 * columns; /* bytes from what lies behind the columns */
    ls_vf32 s, t, product;
    if (columns == 0) {
        return 0;
    }
    b += columns;
#define ADD_(row, from_s, from_t)                                                                            \
    "vmulps (%[b" row "],%[at]),%[x" row "],%[product]\n\tvaddps " from_s ",%[product],%[s]\n\t"           \
    "vmulps 64(%[b" row "],%[at]),%[x" row "],%[product]\n\tvaddps " from_t ",%[product],%[t]\n\t"
#define OF_ROW_(i) [x##i] "v"(LS_SPLAT_F32(x[i * x_k])), [b##i] "r"(b + i * b_k)
    __asm__ volatile("2:\n\t" ADD_("0", "(%[y],%[at])", "64(%[y],%[at])") ADD_("1", "%[s]", "%[t]") ADD_("2", "%[s]", "%[t]")
                         ADD_("3", "%[s]", "%[t]") ADD_("4", "%[s]", "%[t]")
                     "vmovups %[s],(%[y],%[at])\n\tvmovups %[t],64(%[y],%[at])\n\t"
                     "add $128,%[at]\n\tjnz 2b"
                     : [at] "+&r"(at), [s] "=&v"(s), [t] "=&v"(t), [product] "=&v"(product)
                     : OF_ROW_(0), OF_ROW_(1), OF_ROW_(2), OF_ROW_(3), OF_ROW_(4), [y] "r"(y + columns)
                     : "cc", "memory");
#undef ADD_
#undef OF_ROW_
    return columns;
}
#endif

#define T float
#define V ls_vf32
#define VU ls_vf32_any
#define LANES LS_LANES_F32
#define SPLAT LS_SPLAT_F32
#define SPLAT_AT ls_splat_at_f32
#define ORDERED LS_ORDERED_F32
#define MADD(a, b, c) ((c) + (a) * (b))
#define NAME(rows, cols) LS_GEMM_NAME(f32, rows, LS_TILE_COLS_F32_##cols)
#define VECTOR LS_ISA_SUFFIX(ls_gemm_f32_vector)
#define VECTOR_ROWS LS_ISA_SUFFIX(ls_gemm_f32_vector_rows)
#define TABLE LS_ISA_SUFFIX(ls_gemm_f32)
#define TAPS(rows) LS_ISA_SUFFIX(ls_gemm_f32_taps_##rows)
#define SPARSE(vectors) LS_ISA_SUFFIX(ls_gemm_f32_sparse_##vectors)
#define DEPTHWISE LS_ISA_SUFFIX(ls_depthwise)
#define PUT_MADD(a, b, c) __asm__ volatile("vmulps %1, %2, %%zmm7\n\tvaddps %%zmm7, %0, %0" : "+v"(c) : "v"(a), "v"(b) : "zmm7")
#define PUT_MADD_AT(p, b, c)                                                                                                               \
    __asm__ volatile("vmulps %2%{1to16%}, %1, %%zmm7\n\tvaddps %%zmm7, %0, %0" : "+v"(c) : "v"(b), "m"(*(p)) : "zmm7")
#ifndef LS_ISA_SIMD128
#define AT_ONCE 4
#endif
#ifdef LS_ISA_AVX512
#define GROUP five_rows
#define GROUP_ROWS 5
#define LINES LS_ISA_SUFFIX(ls_gemm_f32_vector_lines)
#define KEPT 16
#elif defined(LS_ISA_AVX2)
#define ACROSS_MADDS(s, t)                                                                                   \
    "vmulps %%ymm12,%%ymm15,%%ymm14\n\tvmulps %%ymm13,%%ymm15,%%ymm15\n\t"                                   \
    "vaddps %%ymm14,%%ymm" #s ",%%ymm" #s "\n\tvaddps %%ymm15,%%ymm" #t ",%%ymm" #t "\n\t"
#define TAPS_LOAD(next)
#define TAPS_MADDS(s, t, u)                                                                                  \
    "vmulps %%ymm12,%%ymm15,%%ymm14\n\tvaddps %%ymm14,%%ymm" #s ",%%ymm" #s "\n\t"                          \
    "vmulps %%ymm13,%%ymm15,%%ymm14\n\tvaddps %%ymm14,%%ymm" #t ",%%ymm" #t "\n\t"                          \
    "vmulps 64(%[image],%[shift],4),%%ymm15,%%ymm15\n\tvaddps %%ymm15,%%ymm" #u ",%%ymm" #u "\n\t"
#define TILE_MADDS(s, t)                                                                                     \
    "vmulps %%ymm12,%%ymm15,%%ymm14\n\tvmulps %%ymm13,%%ymm15,%%ymm15\n\t"                                   \
    "vaddps %%ymm14," s "," s "\n\tvaddps %%ymm15," t "," t "\n\t"
#define KEPT 12
#endif
#define RUNS(vectors) LS_ISA_SUFFIX(ls_gemm_f32_runs_##vectors)
#include "backend/cpu/isa/gemm_kernels.inc"

#if defined(LS_ISA_SIMD128) /* whose pages have f32 */
#define HEIGHT 4
#elif defined(LS_ISA_AVX512) /* smaller */
#define WIDTH 3
#endif
#define ONE_TILE
#define T double
#define V ls_vf64
#define VU ls_vf64_any
#define LANES LS_LANES_F64
#define SPLAT LS_SPLAT_F64
#define SPLAT_AT ls_splat_at_f64
#define MADD(a, b, c) ((c) + (a) * (b))
#define NAME(rows, cols) LS_GEMM_NAME(f64, rows, LS_TILE_COLS_F64_##cols)
#define VECTOR LS_ISA_SUFFIX(ls_gemm_f64_vector)
#define VECTOR_ROWS NULL
#define TABLE LS_ISA_SUFFIX(ls_gemm_f64)
#include "backend/cpu/isa/gemm_kernels.inc"

/* i32 wraps, so it is computed unsigned. Its products are slow: few rows keep a core busy. */
#define HEIGHT 4
#define WIDTH 2
#define ONE_TILE
#define T uint32_t
#define V ls_vu32
#define VU ls_vu32_any
#define LANES LS_LANES_F32
#define SPLAT LS_SPLAT_U32
#define MADD(a, b, c) ((c) + (a) * (b))
#define NAME(rows, cols) LS_GEMM_NAME(i32, rows, LS_TILE_COLS_F32_##cols)
#define VECTOR LS_ISA_SUFFIX(ls_gemm_i32_vector)
#define VECTOR_ROWS NULL
#define TABLE LS_ISA_SUFFIX(ls_gemm_i32)
#include "backend/cpu/isa/gemm_kernels.inc"
