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
#define NO_RESUME
#define WHOLE_ROWS
#define HEIGHT 8
#define WIDTH 3
#include "backend/cpu/isa/gemm_kernels.inc"

/* The smallest and the largest of the magnitudes that are not 0, as integers; the former less 1, for which 0 is largest of all. */
typedef struct sizes {
    __m512i least, most;
} sizes;

static inline sizes sizes_with(sizes s, __m512 x) {
    const __m512i size = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MAX));
    return (sizes){_mm512_min_epu32(s.least, _mm512_sub_epi32(size, _mm512_set1_epi32(1))), _mm512_max_epu32(s.most, size)};
}

/* Whether the instruction multiplies and adds up all of them without a loss. */
static inline bool in_range(sizes s) {
    const int least = (127 - 58) << 23, end = (127 + 63) << 23;
    return !(_mm512_cmplt_epu32_mask(s.least, _mm512_set1_epi32(least - 1)) | _mm512_cmpge_epu32_mask(s.most, _mm512_set1_epi32(end)));
}

/* Up to sixteen pairs, those of the `lanes`: each of an element of `first` and one of `second`, or, without the latter, of two of `first` that
 * follow each other, of which it has those `left`. */
static inline __attribute__((always_inline)) sizes round_few(__mmask16 lanes, uint32_t left, const float *first, const float *second, uint32_t *pairs,
                                                             sizes seen) {
    const __m512i low = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i places = _mm512_or_si512(low, _mm512_slli_epi32(_mm512_add_epi32(low, _mm512_set1_epi32(16)), 16));
    const __m512 x = _mm512_maskz_loadu_ps(second ? lanes : (__mmask16)left, first);
    const __m512 y = _mm512_maskz_loadu_ps(second ? lanes : (__mmask16)(left >> 16), second ? second : first + 16);
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(y, x);
    _mm512_mask_storeu_epi32(pairs, lanes, second ? _mm512_permutexvar_epi16(places, both) : both);
    return sizes_with(sizes_with(seen, x), y);
}

bool ls_gemm_round_pairs__avx512(int64_t n, const float *first, const float *second, uint32_t *pairs, int64_t step) {
    sizes seen = {_mm512_set1_epi32(-1), _mm512_setzero_si512()};
    const int64_t apart = second ? 16 : 32;
    for (; n >= 16; n -= 16, first += apart, second += second ? apart : 0, pairs += step) {
        seen = round_few(0xffff, UINT32_MAX, first, second, pairs, seen);
    }
    if (n > 0) {
        seen = round_few((__mmask16)((1 << n) - 1), (UINT32_C(1) << 2 * n) - 1, first, second, pairs, seen);
    }
    return in_range(seen);
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const ls_gemm_pairs ls_gemm_pairs__avx512 = {&ls_gemm_pair_tiles__avx512, 1, ls_gemm_round_pairs__avx512};
#endif
