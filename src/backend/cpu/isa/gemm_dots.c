/*
 * Products of bytes, four to an instruction, where the processor has them: the microkernels on elements that hold four
 * consecutive k, and the packing of such elements. A is unsigned, B signed there, since that is what the instruction
 * multiplies; its sums neither saturate nor round, so their order is nobody's concern.
 */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "backend/cpu/gemm_isa.h"
#include "backend/cpu/isa/gemm_vec.h"

#if defined(LS_ISA_AVX512)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512vnni"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512vnni")
#endif

#define T uint32_t
#define V ls_vu32
#define VU ls_vu32_any
#define LANES LS_LANES_F32
#define SPLAT LS_SPLAT_U32
#define MADD(a, b, c) ((ls_vu32)_mm512_dpbusd_epi32((__m512i)(c), (__m512i)(a), (__m512i)(b)))
#define NAME(rows, cols) LS_GEMM_NAME(dots, rows, LS_TILE_COLS_F32_##cols)
#define VECTOR NULL
#define VECTOR_ROWS NULL
#define TABLE LS_ISA_SUFFIX(ls_gemm_dots)
#define ONE_TILE
#define TILES_ALONE
#define HEIGHT 8
#define WIDTH 3
#include "backend/cpu/isa/gemm_kernels.inc"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static void dot_rows(int64_t kc, int64_t ni, int64_t width, const void *const *rows, uint32_t flip, uint32_t *panel) {
    for (int64_t q = 0; q < ni; q++) {
        const char *row = rows[q];
        for (int64_t p = 0; p < kc; p++) {
            uint32_t four;
            memcpy(&four, row + 4 * p, sizeof four);
            panel[p * width + q] = four ^ flip;
        }
    }
}

static void dot_cols(int64_t kc, int64_t ni, int64_t width, const void *src, int64_t stride_k, uint32_t flip,
                     uint32_t *panel) {
    const __m128i flips = _mm_set1_epi32((int)flip);
    for (int64_t p = 0; p < kc; p++, panel += width) {
        const uint8_t *r = (const uint8_t *)src + 4 * p * stride_k;
        int64_t q = 0;
        for (; q + 16 <= ni; q += 16) {
            __m128i a = _mm_loadu_si128((const void *)(r + q)), b = _mm_loadu_si128((const void *)(r + stride_k + q));
            __m128i c = _mm_loadu_si128((const void *)(r + 2 * stride_k + q));
            __m128i d = _mm_loadu_si128((const void *)(r + 3 * stride_k + q));
            __m128i ab = _mm_unpacklo_epi8(a, b), cd = _mm_unpacklo_epi8(c, d);
            __m128i *to = (__m128i *)(void *)(panel + q);
            _mm_storeu_si128(to, _mm_xor_si128(_mm_unpacklo_epi16(ab, cd), flips));
            _mm_storeu_si128(to + 1, _mm_xor_si128(_mm_unpackhi_epi16(ab, cd), flips));
            ab = _mm_unpackhi_epi8(a, b), cd = _mm_unpackhi_epi8(c, d);
            _mm_storeu_si128(to + 2, _mm_xor_si128(_mm_unpacklo_epi16(ab, cd), flips));
            _mm_storeu_si128(to + 3, _mm_xor_si128(_mm_unpackhi_epi16(ab, cd), flips));
        }
        for (; q < ni; q++) {
            panel[q] = ((uint32_t)r[q] | (uint32_t)r[stride_k + q] << 8 | (uint32_t)r[2 * stride_k + q] << 16 |
                        (uint32_t)r[3 * stride_k + q] << 24) ^
                       flip;
        }
    }
}

static void dot_floats(int64_t kc, int64_t ni, int64_t width, const float *src, uint32_t flip, uint32_t *panel) {
    for (int64_t p = 0; p < kc; p++, panel += width, src += 4 * width) {
        for (int64_t q = 0; q < ni; q++) {
            uint32_t a = (uint32_t)(int32_t)src[q] & 255, b = (uint32_t)(int32_t)src[width + q] & 255;
            uint32_t c = (uint32_t)(int32_t)src[2 * width + q] & 255, d = (uint32_t)(int32_t)src[3 * width + q];
            panel[q] = (a | b << 8 | c << 16 | d << 24) ^ flip;
        }
    }
}

const ls_gemm_dots ls_gemm_dot_moves__avx512 = {&ls_gemm_dots__avx512, dot_rows, dot_cols, dot_floats};
#endif
