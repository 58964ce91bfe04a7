/* Products of bf16, two to an instruction, where the processor has them (C28): the microkernels on elements that hold two consecutive k,
 * and the rounding of f32 to such elements. The instruction takes what is subnormal for 0 and its sums lose what is; the range that `round`
 * asks for keeps both below what the rounding to bf16 may move. */
#include <stdbool.h>
#include <stddef.h>

#include "backend/cpu/gemm_isa.h"
#include "backend/cpu/isa/gemm_vec.h"

#if defined(LS_ISA_AVX512)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512bf16"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512bf16")
#endif

#define T float
#define V ls_vf32
#define VU ls_vf32_any
#define LANES LS_LANES_F32
#define SPLAT LS_SPLAT_F32
#define MADD(a, b, c) ((ls_vf32)_mm512_dpbf16_ps((__m512)(c), (__m512bh)(a), (__m512bh)(b)))
#define NAME(rows, cols) LS_GEMM_NAME(pairs, rows, LS_TILE_COLS_F32_##cols)
#define ORDERED LS_ORDERED_F32
#define VECTOR NULL
#define VECTOR_ROWS NULL
#define TABLE LS_ISA_SUFFIX(ls_gemm_pair_tiles)
#define TILES_ALONE
#define WHOLE_ROWS
#define HEIGHT 8
#define WIDTH 3
#include "backend/cpu/isa/gemm_kernels.inc"

/* Lanes that are neither 0 nor of magnitudes that the instruction multiplies and adds up without a loss. */
static inline unsigned out_of_range(__m512 x) {
    const int least = (127 - 58) << 23, end = (127 + 63) << 23;
    const __m512i size = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MAX));
    const __mmask16 there = _mm512_test_epi32_mask(size, size);
    return _mm512_mask_cmpge_epu32_mask(there, _mm512_sub_epi32(size, _mm512_set1_epi32(least)),
                                        _mm512_set1_epi32(end - least));
}

bool ls_gemm_round_pairs__avx512(int64_t n, const float *first, const float *second, uint32_t *pairs, int64_t step) {
    const __m512i low = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i places =
        _mm512_or_si512(low, _mm512_slli_epi32(_mm512_add_epi32(low, _mm512_set1_epi32(16)), 16));
    unsigned out = 0;
    for (int64_t i = 0; i < n; i += 16, pairs += step) {
        const uint32_t left = n - i < 16 ? (UINT32_C(1) << 2 * (n - i)) - 1 : UINT32_MAX;
        const __mmask16 lanes = (__mmask16)(n - i < 16 ? (1 << (n - i)) - 1 : 0xffff);
        __m512 x, y;
        if (second) {
            x = _mm512_maskz_loadu_ps(lanes, first + i);
            y = _mm512_maskz_loadu_ps(lanes, second + i);
        } else {
            x = _mm512_maskz_loadu_ps((__mmask16)left, first + 2 * i);
            y = left >> 16 ? _mm512_maskz_loadu_ps((__mmask16)(left >> 16), first + 2 * i + 16)
                           : _mm512_setzero_ps();
        }
        out |= out_of_range(x) | out_of_range(y);
        __m512i both = (__m512i)_mm512_cvtne2ps_pbh(y, x);
        both = second ? _mm512_permutexvar_epi16(places, both) : both;
        _mm512_mask_storeu_epi32(pairs, lanes, both);
    }
    return out == 0;
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const ls_gemm_pairs ls_gemm_pairs__avx512 = {&ls_gemm_pair_tiles__avx512, 1, ls_gemm_round_pairs__avx512};
#endif
