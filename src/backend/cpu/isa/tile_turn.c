/* Transposing blocks of 4-byte elements in registers: sixteen rows of sixteen where registers have that many lanes, four
 * of four elsewhere. */
#include "backend/cpu/isa/tile_isa.h"
#include "base/half.h"
#include <string.h>
#if defined(LS_ISA_AVX512)
#include "backend/cpu/isa/turn16.h"
#endif

#if defined(LS_ISA_AVX512)
static inline __m512i canonical16(__m512i x, bool canonical) {
    __m512 f = _mm512_castsi512_ps(x);
    return canonical ? _mm512_mask_mov_epi32(x, _mm512_cmp_ps_mask(f, f, _CMP_UNORD_Q), _mm512_set1_epi32((int)LS_NAN_F32)) : x;
}

#define LINE(i) _mm512_loadu_si512(src + (i) * src_stride)
#define PUT(r, x)                                                                                            \
    {                                                                                                        \
        __m512i y = canonical16(x, canonical);                                                               \
        if (stream) {                                                                                        \
            _mm512_stream_si512((__m512i *)(void *)(dst + (r) * dst_stride), y);                             \
        } else {                                                                                             \
            _mm512_storeu_si512(dst + (r) * dst_stride, y);                                                  \
        }                                                                                                    \
    }
static __attribute__((noinline)) void whole_block(uint32_t *dst, int64_t dst_stride, const uint32_t *src, int64_t src_stride,
                                                  bool canonical, bool stream, bool second) {
    /* No processor foresees lines that lie far apart. Of those at whole pages from each other the nearest cache holds few. */
    const int64_t ahead = second ? 32 : 16;
    for (int64_t i = 0; stream && i < 16; i++) {
        ls_fetch_line((uintptr_t)src + (uintptr_t)((ahead + i) * src_stride) * sizeof *src, second);
    }
    LS_TURN16(LINE, PUT)
}
#undef LINE
#undef PUT

#define LINE(i) _mm512_maskz_loadu_epi32((i) < lanes ? columns : 0, src + ((i) < lanes ? (i) * src_stride : 0))
#define PUT(r, x)                                                                                            \
    if ((r) < rows) {                                                                                        \
        _mm512_mask_storeu_epi32(dst + (r) * dst_stride, put, canonical16(x, canonical));                    \
    }
static void block(uint32_t *dst, int64_t dst_stride, const uint32_t *src, int64_t src_stride, int64_t rows,
                  int64_t lanes, bool canonical, bool stream, bool second) {
    if (rows == 16 && lanes == 16) {
        whole_block(dst, dst_stride, src, src_stride, canonical, stream && ((uintptr_t)dst | (uintptr_t)dst_stride * 4) % 64 == 0, second);
        return;
    }
    __mmask16 columns = (__mmask16)((1u << rows) - 1), put = (__mmask16)((1u << lanes) - 1);
    LS_TURN16(LINE, PUT)
}
enum { SIDE = 16 };

void LS_TILE_NAME(ls_tile_fence)(void) {
    _mm_sfence();
}
#else
static uint32_t one(uint32_t x, bool canonical) {
    return canonical && (x & 0x7fffffffu) > 0x7f800000u ? LS_NAN_F32 : x;
}

typedef uint32_t four __attribute__((vector_size(16)));

static four canonical4(four x, bool canonical) {
    four nan = (four){LS_NAN_F32, LS_NAN_F32, LS_NAN_F32, LS_NAN_F32};
    four is = (four)((x & 0x7fffffffu) > 0x7f800000u);
    return canonical ? (nan & is) | (x & ~is) : x;
}

static void block(uint32_t *dst, int64_t dst_stride, const uint32_t *src, int64_t src_stride, int64_t rows,
                  int64_t lanes, bool canonical, bool stream, bool second) {
    (void)stream, (void)second;
    if (rows < 4 || lanes < 4) {
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t i = 0; i < lanes; i++) {
                dst[r * dst_stride + i] = one(src[i * src_stride + r], canonical);
            }
        }
        return;
    }
    four a, b, c, d;
    memcpy(&a, src, sizeof a);
    memcpy(&b, src + src_stride, sizeof b);
    memcpy(&c, src + 2 * src_stride, sizeof c);
    memcpy(&d, src + 3 * src_stride, sizeof d);
    four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab2 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    four cd = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd2 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    a = canonical4(__builtin_shufflevector(ab, cd, 0, 1, 4, 5), canonical);
    b = canonical4(__builtin_shufflevector(ab, cd, 2, 3, 6, 7), canonical);
    c = canonical4(__builtin_shufflevector(ab2, cd2, 0, 1, 4, 5), canonical);
    d = canonical4(__builtin_shufflevector(ab2, cd2, 2, 3, 6, 7), canonical);
    memcpy(dst, &a, sizeof a);
    memcpy(dst + dst_stride, &b, sizeof b);
    memcpy(dst + 2 * dst_stride, &c, sizeof c);
    memcpy(dst + 3 * dst_stride, &d, sizeof d);
}
enum { SIDE = 4 };
#endif

void LS_TILE_NAME(ls_tile_transpose)(uint32_t *dst, int64_t dst_stride, const uint32_t *src, int64_t src_stride,
                                     int64_t rows, int64_t lanes, bool canonical, bool stream, bool second) {
    for (int64_t i = 0; i < lanes; i += SIDE) {
        for (int64_t r = 0; r < rows; r += SIDE) {
            block(dst + r * dst_stride + i, dst_stride, src + i * src_stride + r, src_stride,
                  rows - r < SIDE ? rows - r : SIDE, lanes - i < SIDE ? lanes - i : SIDE, canonical, stream, second);
        }
    }
}
