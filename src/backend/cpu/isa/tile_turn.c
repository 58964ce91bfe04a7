/* Transposing blocks of 4-byte elements in registers: sixteen rows of sixteen where registers have that many lanes, eight of eight, four
 * of four. */
#include "backend/cpu/isa/tile_isa.h"
#include "base/half.h"
#include <string.h>
#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
#include "backend/cpu/isa/chain_ops.h"
#endif
#if defined(LS_ISA_AVX512)
#include "backend/cpu/isa/turn16.h"
#elif defined(LS_ISA_AVX2)
#include "backend/cpu/isa/turn8.h"
#include <immintrin.h>
#endif

#if defined(LS_ISA_AVX512)
static inline __m512i canonical16(__m512i x, bool canonical) {
    return canonical ? (__m512i)ls_canonical((ls_vf32)x) : x;
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
                                                  bool canonical, bool stream) {
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
                  int64_t lanes, bool canonical, bool stream, bool copied) {
    (void)copied;
    if (rows == 16 && lanes == 16) {
        whole_block(dst, dst_stride, src, src_stride, canonical, stream && ((uintptr_t)dst | (uintptr_t)dst_stride * 4) % 64 == 0);
        return;
    }
    __mmask16 columns = (__mmask16)((1u << rows) - 1), put = (__mmask16)((1u << lanes) - 1);
    LS_TURN16(LINE, PUT)
}
enum { SIDE = 16 };
#else
static uint32_t one(uint32_t x, bool canonical) {
    return canonical && (x & 0x7fffffffu) > 0x7f800000u ? LS_NAN_F32 : x;
}

typedef uint32_t four __attribute__((vector_size(16)));

static four canonical4(four x, bool canonical) {
#if defined(LS_ISA_AVX2)
    const __m128 is = _mm_and_ps(_mm_cmp_ps((__m128)x, (__m128)x, _CMP_UNORD_Q), (__m128)((four){0} - (uint32_t)canonical));
    return (four)_mm_blendv_ps((__m128)x, (__m128)((four){0} + LS_NAN_F32), is);
#else
    four nan = (four){LS_NAN_F32, LS_NAN_F32, LS_NAN_F32, LS_NAN_F32};
    four is = (four)((x & 0x7fffffffu) > 0x7f800000u);
    return canonical ? (nan & is) | (x & ~is) : x;
#endif
}

static inline void turn4(uint32_t *dst, int64_t dst_stride, const uint32_t *src, int64_t src_stride, bool canonical) {
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

#if defined(LS_ISA_AVX2)
__attribute__((noinline)) /* of the edges alone */
#endif
static void small_block(uint32_t *dst, int64_t dst_stride, const uint32_t *src, int64_t src_stride, int64_t rows, int64_t lanes,
                        bool canonical) {
    if (rows < 4 || lanes < 4) {
        for (int64_t r = 0; r < rows; r++) {
            for (int64_t i = 0; i < lanes; i++) {
                dst[r * dst_stride + i] = one(src[i * src_stride + r], canonical);
            }
        }
        return;
    }
    turn4(dst, dst_stride, src, src_stride, canonical);
}

#if defined(LS_ISA_AVX2)
static void turn8(ls_eight *kept, const uint32_t *src, int64_t src_stride, bool canonical) {
#define LINE(i) (ls_eight) _mm256_loadu_si256((const __m256i *)(const void *)(src + (i) * src_stride))
#define PUT(r, column)                                                                                       \
    {                                                                                                        \
        const ls_eight x = column, is = (ls_eight)((x & 0x7fffffffu) > 0x7f800000u);                         \
        kept[r] = canonical ? ((LS_NAN_F32 - (ls_eight){0}) & is) | (x & ~is) : x;                           \
    }
    LS_TURN8(LINE, PUT)
#undef LINE
#undef PUT
}

enum { SIDE = 16, HALF = 8, PAGE = 4096 / sizeof(uint32_t) };
/* Sixteen by sixteen: lines of src are read whole, eight at a time, of which the nearest cache holds as many where they lie at whole pages from
 * each other; lines of dst are stored whole: past the caches Intel's processors take half a line as if it were one. */
static void whole_block(uint32_t *dst, int64_t dst_stride, const uint32_t *src, int64_t src_stride, bool canonical, bool far) {
    ls_eight kept[2][SIDE];
    for (int64_t half = 0; half < 2; half++, src += HALF * src_stride) {
        turn8(kept[half], src, src_stride, canonical);
        turn8(kept[half] + HALF, src + HALF, src_stride, canonical);
    }
    for (int64_t r = 0; r < SIDE; r++, dst += dst_stride) {
        __m256i *to = (__m256i *)(void *)dst, low = (__m256i)kept[0][r], high = (__m256i)kept[1][r];
        if (far) {
            _mm256_stream_si256(to, low);
            _mm256_stream_si256(to + 1, high);
        } else {
            _mm256_storeu_si256(to, low);
            _mm256_storeu_si256(to + 1, high);
        }
    }
}

/* The same, four by four: lines of dst are soon whole, and those of src, which are too many for a processor to follow, are fetched two ahead. Of
 * copied ones the other way around. */
static __attribute__((noinline)) void fours(uint32_t *dst, int64_t dst_stride, const uint32_t *src, int64_t src_stride, bool canonical, bool copied) {
    for (int64_t a = 0; a < SIDE; a += 4) {
        for (int64_t b = 0; b < SIDE; b += 4) {
            const int64_t r = copied ? b : a, i = copied ? a : b;
            if (!copied) {
                ls_fetch_line((uintptr_t)(src + (i + r / 4) * src_stride + 2 * SIDE), false);
            }
            turn4(dst + r * dst_stride + i, dst_stride, src + i * src_stride + r, src_stride, canonical);
        }
    }
}

/* Eight by eight where lines of src displace each other, or dst goes past the caches; else four by four is as fast, and on an Intel faster. */
static __attribute__((noinline)) void block(uint32_t *dst, int64_t dst_stride, const uint32_t *src, int64_t src_stride, int64_t rows, int64_t lanes,
                                            bool canonical, bool stream, bool copied) {
    const bool far = stream && ((uintptr_t)dst | (uintptr_t)dst_stride * 4) % 64 == 0;
    if (rows == SIDE && lanes == SIDE && (far || src_stride % PAGE == 0)) {
        whole_block(dst, dst_stride, src, src_stride, canonical, far);
    } else if (rows == SIDE && lanes == SIDE) {
        fours(dst, dst_stride, src, src_stride, canonical, copied);
    } else {
        for (int64_t i = 0; i < lanes; i += 4) {
            for (int64_t r = 0; r < rows; r += 4) {
                small_block(dst + r * dst_stride + i, dst_stride, src + i * src_stride + r, src_stride, rows - r < 4 ? rows - r : 4,
                            lanes - i < 4 ? lanes - i : 4, canonical);
            }
        }
    }
}
#else
enum { SIDE = 4 };
static void block(uint32_t *dst, int64_t dst_stride, const uint32_t *src, int64_t src_stride, int64_t rows, int64_t lanes, bool canonical,
                  bool stream, bool copied) {
    (void)stream, (void)copied;
    small_block(dst, dst_stride, src, src_stride, rows, lanes, canonical);
}
#endif
#endif

#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
static void store_f32(void *dst_, const void *src_, int64_t n) {
    enum { LINE = 64 / (int)sizeof(float) };
    float *dst = dst_;
    const float *src = src_;
    int64_t i = -((uintptr_t)dst / sizeof *dst) % LINE;
    i = i < n ? i : n;
    LS_TILE_NAME(ls_tile_store_f32)(dst, src, i);
    for (; i + LINE <= n; i += LINE) {
        for (int64_t k = i; k < i + LINE; k += LS_LANES_F32) {
            LS_STREAM(dst + k, ls_canonical(*(const ls_vf32_any *)(src + k)));
        }
    }
    LS_TILE_NAME(ls_tile_store_f32)(dst + i, src + i, n - i);
}

static void fence(void) {
    _mm_sfence();
}

const ls_tile_far LS_TILE_NAME(ls_tile_far) = {store_f32, fence};
#endif

#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
enum { NEAR = 64, PITCH = NEAR + 16 }; /* rows of src, and elements of each, that are copied near by; how far apart they lie there */

/* Rows that lie far apart no processor foresees, and of lines at whole pages from each other its caches hold few: so some lines of each row are
 * copied at once, and those of the next rows fetched meanwhile. rows and lanes are NEAR at most. */
static void by_copy(uint32_t *dst, int64_t dst_stride, const uint32_t *src, int64_t src_stride, int64_t rows, int64_t lanes, bool canonical) {
    _Alignas(64) uint32_t near[NEAR * PITCH];
    const int64_t lines = (rows + SIDE - 1) / SIDE;
    int64_t next = lanes, line = 0, pitch = PITCH;
    __asm__("" : "+r"(pitch)); /* a compiler would make functions of their own for it */
    for (int64_t i = 0; i < lanes; i++) {
        int64_t k = 0;
        for (; k + LS_LANES_F32 <= rows; k += LS_LANES_F32) {
            *(ls_vf32_any *)(void *)(near + i * PITCH + k) = *(const ls_vf32_any *)(const void *)(src + i * src_stride + k);
        }
        for (; k < rows; k++) {
            near[i * PITCH + k] = src[i * src_stride + k];
        }
    }
    for (int64_t r = 0; r < rows; r += SIDE) {
        for (int64_t i = 0; i < lanes; i += SIDE) {
            for (int k = 0; k < SIDE; k++) {
                ls_fetch_line((uintptr_t)(src + next * src_stride + line * SIDE), true);
                line = line + 1 < lines ? line + 1 : 0;
                next += line == 0;
            }
            block(dst + r * dst_stride + i, dst_stride, near + i * PITCH + r, pitch, rows - r < SIDE ? rows - r : SIDE,
                  lanes - i < SIDE ? lanes - i : SIDE, canonical, true, true);
        }
    }
}
#endif

void LS_TILE_NAME(ls_tile_transpose)(uint32_t *dst, int64_t dst_stride, const uint32_t *src, int64_t src_stride,
                                     int64_t rows, int64_t lanes, bool canonical, bool stream) {
    int64_t done = 0;
#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
    for (int64_t some; stream && rows >= 2 * SIDE && rows <= NEAR && lanes - done >= SIDE; done += some) {
        some = lanes - done < NEAR ? lanes - done : NEAR;
        by_copy(dst + done, dst_stride, src + done * src_stride, src_stride, rows, some, canonical);
    }
#endif
    for (int64_t i = done; i < lanes; i += SIDE) {
        for (int64_t r = 0; r < rows; r += SIDE) {
            block(dst + r * dst_stride + i, dst_stride, src + i * src_stride + r, src_stride,
                  rows - r < SIDE ? rows - r : SIDE, lanes - i < SIDE ? lanes - i : SIDE, canonical, stream, false);
        }
    }
}
