/*
 * Microkernels with fused multiply-add: for fast mode, and for locked products of f16 or 8-bit integers,
 * which are exact. Same order of k as the locked ones, which serve where the baseline has no FMA (scalar).
 */
#ifndef LS_ISA_SCALAR
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

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

#if defined(LS_ISA_AVX512)
#define THIN LS_ISA_SUFFIX(ls_gemm_f32_fast_thin)
#define THIN_ROWS_(X) X(0) X(1) X(2) X(3)
#define THIN_LOAD_(r)                                                                                        \
    __m512 s##r##_0 = _mm512_loadu_ps(sums + 48 * (r)), s##r##_1 = _mm512_loadu_ps(sums + 48 * (r) + 16),    \
           s##r##_2 = _mm512_loadu_ps(sums + 48 * (r) + 32);
#define THIN_STEP_(r)                                                                                        \
    {                                                                                                        \
        const __m512 value = _mm512_maskz_loadu_ps(some, from + (r) * t->x_row);                             \
        ls_fetch_line((uintptr_t)(from + (r) * t->x_row) + ahead, true);                                     \
        s##r##_0 = _mm512_mask3_fmadd_ps(value, y0, s##r##_0, w0);                                           \
        s##r##_1 = _mm512_mask3_fmadd_ps(value, y1, s##r##_1, w1);                                           \
        s##r##_2 = _mm512_mask3_fmadd_ps(value, y2, s##r##_2, w2);                                           \
    }
#define THIN_STORE_(r)                                                                                       \
    _mm512_storeu_ps(sums + 48 * (r), s##r##_0);                                                             \
    _mm512_storeu_ps(sums + 48 * (r) + 16, s##r##_1);                                                        \
    _mm512_storeu_ps(sums + 48 * (r) + 32, s##r##_2);
static void THIN(const ls_gemm_thin *t, const float *x, const float *image, float *sums) {
    const uintptr_t ahead = (uintptr_t)t->ahead * sizeof *x;
    THIN_ROWS_(THIN_LOAD_)
    for (int64_t v = 0; v < t->vectors; v++, x += LS_LANES_F32, image += LS_LANES_F32) {
        const __mmask16 w0 = t->wanted[v][0], w1 = t->wanted[v][1], w2 = t->wanted[v][2], some = w0 | w1 | w2;
        const float *from = x, *to = image;
        for (int64_t line = 0; line < t->lines; line++, from += t->x_line, to += t->image_line) {
            const __m512 y0 = _mm512_maskz_loadu_ps(w0, to), y1 = _mm512_maskz_loadu_ps(w1, to + 1), y2 = _mm512_maskz_loadu_ps(w2, to + 2);
            THIN_ROWS_(THIN_STEP_)
        }
    }
    THIN_ROWS_(THIN_STORE_)
}

/* gemm_vector.inc's GROUP, of eight rows, four vectors at a time, in as few instructions as gemm_locked.c's. */
static inline int64_t eight_rows(int64_t n, const float *x, int64_t x_k, const float *b, int64_t b_k, float *y) {
    const int64_t columns = n - n % (4 * LS_LANES_F32);
    int64_t at = -4 * columns; /* bytes from what lies behind the columns */
    ls_vf32 s, t, u, v;
    if (columns == 0) {
        return 0;
    }
    b += columns;
#define LOAD_(at, s) "vmovups " at "(%[y],%[at]),%[" s "]\n\t"
#define STORE_(at, s) "vmovups %[" s "]," at "(%[y],%[at])\n\t"
#define ADD_(row)                                                                                            \
    "vfmadd231ps (%[b" row "],%[at]),%[x" row "],%[s]\n\tvfmadd231ps 64(%[b" row "],%[at]),%[x" row "],%[t]\n\t" \
    "vfmadd231ps 128(%[b" row "],%[at]),%[x" row "],%[u]\n\tvfmadd231ps 192(%[b" row "],%[at]),%[x" row "],%[v]\n\t"
#define OF_ROW_(i) [x##i] "v"(LS_SPLAT_F32(x[i * x_k])), [b##i] "r"(b + i * b_k)
    __asm__ volatile("2:\n\t" LOAD_("", "s") LOAD_("64", "t") LOAD_("128", "u") LOAD_("192", "v") ADD_("0") ADD_("1") ADD_("2") ADD_("3")
                         ADD_("4") ADD_("5") ADD_("6") ADD_("7") STORE_("", "s") STORE_("64", "t") STORE_("128", "u") STORE_("192", "v")
                     "add $256,%[at]\n\tjnz 2b"
                     : [at] "+&r"(at), [s] "=&v"(s), [t] "=&v"(t), [u] "=&v"(u), [v] "=&v"(v)
                     : OF_ROW_(0), OF_ROW_(1), OF_ROW_(2), OF_ROW_(3), OF_ROW_(4), OF_ROW_(5), OF_ROW_(6), OF_ROW_(7), [y] "r"(y + columns)
                     : "cc", "memory");
#undef LOAD_
#undef STORE_
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
#define ORDERED LS_ORDERED_F32
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
#define PUT_MADD(a, b, c) __asm__ volatile("vfmadd231ps %1, %2, %0" : "+v"(c) : "v"(a), "v"(b))
#define PUT_MADD_AT(p, b, c) __asm__ volatile("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(c) : "v"(b), "m"(*(p)))
#define RUNS(vectors) LS_ISA_SUFFIX(ls_gemm_f32_fast_runs_##vectors)
#ifdef LS_ISA_AVX512
#define GROUP eight_rows
#define GROUP_ROWS 8
#define LINES LS_ISA_SUFFIX(ls_gemm_f32_fast_vector_lines)
#define KEPT 16
#elif defined(LS_ISA_AVX2)
#define ACROSS_MADDS(s, t) "vfmadd231ps %%ymm12,%%ymm15,%%ymm" #s "\n\tvfmadd231ps %%ymm13,%%ymm15,%%ymm" #t "\n\t"
#define TAPS_LOAD(next) "vmovups 64+4*" #next "(%[image],%[shift],4),%%ymm14\n\t"
#define TAPS_MADDS(s, t, u) ACROSS_MADDS(s, t) "vfmadd231ps %%ymm14,%%ymm15,%%ymm" #u "\n\t"
#define TILE_MADDS(s, t) "vfmadd231ps %%ymm12,%%ymm15," s "\n\tvfmadd231ps %%ymm13,%%ymm15," t "\n\t"
#define KEPT 12
#endif
#define NO_RESUME
#include "backend/cpu/isa/gemm_kernels.inc"

#ifdef LS_ISA_AVX512 /* smaller */
#define WIDTH 3
#endif
#define ONE_TILE
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
#define NO_RESUME
#include "backend/cpu/isa/gemm_kernels.inc"
#endif
