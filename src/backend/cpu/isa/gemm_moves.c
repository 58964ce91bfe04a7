/*
 * Data movement of the packed matrix product: micro-panels from rows and columns, conversions to and from
 * float, finiteness, canonical NaN. Everything here is exact or rounds once, the same bits for every
 * instruction set.
 */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "backend/cpu/gemm_isa.h"
#include "backend/cpu/isa/gemm_vec.h"
#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
#include "backend/cpu/isa/chain_ops.h"
#endif
#if defined(LS_ISA_AVX512)
#include "backend/cpu/isa/turn16.h"
#elif defined(LS_ISA_AVX2)
#include "backend/cpu/isa/turn8.h"
#endif
#include "base/half.h"

#define name LS_ISA_SUFFIX(ls_gemm_##name)

/* 128 bits at a time suit every instruction set: a transposition is bound by stores and shuffles alike. */
typedef uint32_t quad __attribute__((vector_size(16)));
typedef quad quad_any __attribute__((aligned(4), may_alias));
typedef uint64_t pair __attribute__((vector_size(16)));
typedef pair pair_any __attribute__((aligned(8), may_alias));
typedef uint32_t u32_any __attribute__((may_alias));
typedef uint64_t u64_any __attribute__((may_alias));

/* One row or a few at a time, for what does not fill a group. */
static void rows4_plain(int64_t kc, int64_t q0, int64_t q1, int64_t width, const void *const *rows,
                        u32_any *panel) {
    for (int64_t q = q0; q < q1; q++) {
        const u32_any *row = rows[q];
        for (int64_t p = 0; p < kc; p++) {
            panel[p * width + q] = row ? row[p] : 0;
        }
    }
}

/* Four rows to four columns of a panel, `out` at the first. */
static void rows4_group(int64_t kc, int64_t width, const u32_any *const *r, u32_any *out) {
    int64_t p = 0;
    for (; p + 4 <= kc; p += 4, out += 4 * width) {
        quad a = *(const quad_any *)(r[0] + p), b = *(const quad_any *)(r[1] + p), c = *(const quad_any *)(r[2] + p), d = *(const quad_any *)(r[3] + p);
        quad ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        quad cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        *(quad_any *)out = __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5);
        *(quad_any *)(out + width) = __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7);
        *(quad_any *)(out + 2 * width) = __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5);
        *(quad_any *)(out + 3 * width) = __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7);
    }
    for (; p < kc; p++, out += width) {
        for (int t = 0; t < 4; t++) {
            out[t] = r[t][p];
        }
    }
}

/* As many rows as a vector has lanes to as many columns of a panel; how many k, if not all. */
#if defined(LS_ISA_AVX512)
static int64_t rows4_turned(int64_t kc, int64_t width, const u32_any *const *r, u32_any *out) {
    for (int64_t p = 0; p < kc; p += 16, out += 16 * width) {
        int64_t n = kc - p < 16 ? kc - p : 16;
        __mmask16 in = (__mmask16)((1u << n) - 1);
#define ROW(i) _mm512_maskz_loadu_epi32(in, r[i] + p)
#define PUT(r, x)                                                                                            \
    if ((r) < n) {                                                                                           \
        _mm512_storeu_si512(out + (r) * width, x);                                                           \
    }
        LS_TURN16(ROW, PUT)
#undef ROW
#undef PUT
    }
    return kc;
}
#elif defined(LS_ISA_AVX2)
static int64_t rows4_turned(int64_t kc, int64_t width, const u32_any *const *r, u32_any *out) {
    int64_t p = 0;
    for (; p + 8 <= kc; p += 8, out += 8 * width) {
#define ROW(i) *(const ls_vu32_any *)(r[i] + p)
#define PUT(r, x) *(ls_vu32_any *)(out + (r) * width) = x;
        LS_TURN8(ROW, PUT)
#undef ROW
#undef PUT
    }
    return p;
}
#endif

/* So long may a strip of a panel be: it stays in the first-level cache until its lines are full. */
enum { ROWS4_STRIP = 64 };

/* Where some rows of a strip begin; of those that are not there, zeros. */
static void rows4_of_strip(int64_t n, const void *const *rows, int64_t there, int64_t p, const u32_any **r) {
    static const uint32_t zeros[ROWS4_STRIP];
    for (int64_t i = 0; i < n; i++) {
        const u32_any *row = i < there ? rows[i] : NULL;
        r[i] = row ? row + p : zeros;
    }
}

static void rows4(int64_t kc, int64_t ni, int64_t width, const void *const *rows, void *panel) {
    if (width < 4) {
        rows4_plain(kc, 0, ni, width, rows, panel);
        return;
    }
    for (int64_t p = 0; p < kc; p += ROWS4_STRIP) {
        u32_any *out = (u32_any *)panel + p * width;
        int64_t n = kc - p < ROWS4_STRIP ? kc - p : ROWS4_STRIP, q = 0;
        for (int64_t i = 0; i < ni && p + ROWS4_STRIP < kc; i++) {
            for (int64_t ahead = ROWS4_STRIP; rows[i] && ahead < 2 * ROWS4_STRIP; ahead += 16) { /* too many rows for a processor to follow */
                ls_fetch_line((uintptr_t)((const u32_any *)rows[i] + p + ahead), true);
            }
        }
#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
        for (; q + LS_LANES_F32 <= ni; q += LS_LANES_F32) {
            const u32_any *r[LS_LANES_F32];
            rows4_of_strip(LS_LANES_F32, rows + q, LS_LANES_F32, p, r);
            const int64_t done = rows4_turned(n, width, r, out + q);
            for (int64_t k = done; k < n; k++) {
                for (int64_t i = 0; i < LS_LANES_F32; i++) {
                    out[k * width + q + i] = r[i][k];
                }
            }
        }
#endif
        for (; q < ni; q += 4) {
            /* The last group overlaps the one before it when the width is no multiple of 4. */
            const int64_t first = q + 4 <= width ? q : width - 4;
            const u32_any *r[4];
            rows4_of_strip(4, rows + first, ni - first, p, r);
            rows4_group(n, width, r, out + first);
        }
    }
}

static void split4(int64_t n, const void *src_, void *dst0_, void *dst1_) {
    const u32_any *src = src_;
    u32_any *dst0 = dst0_, *dst1 = dst1_;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        quad a = *(const quad_any *)(src + 2 * i), b = *(const quad_any *)(src + 2 * i + 4);
        *(quad_any *)(dst0 + i) = __builtin_shufflevector(a, b, 0, 2, 4, 6);
        *(quad_any *)(dst1 + i) = __builtin_shufflevector(a, b, 1, 3, 5, 7);
    }
    for (; i < n; i++) {
        dst0[i] = src[2 * i];
        dst1[i] = src[2 * i + 1];
    }
}

#if !defined(LS_ISA_SIMD128)
static void join4(int64_t n, const void *src0_, const void *src1_, void *dst_) {
    const u32_any *src0 = src0_, *src1 = src1_;
    u32_any *dst = dst_;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        quad a = *(const quad_any *)(src0 + i), b = *(const quad_any *)(src1 + i);
        *(quad_any *)(dst + 2 * i) = __builtin_shufflevector(a, b, 0, 4, 1, 5);
        *(quad_any *)(dst + 2 * i + 4) = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    }
    for (; i < n; i++) {
        dst[2 * i] = src0[i];
        dst[2 * i + 1] = src1[i];
    }
}
#endif

__attribute__((noinline)) /* once, for phases4, too */ static void lines4(int64_t n, int64_t lines, const void *src_, int64_t src_step, void *dst_, int64_t dst_step) {
    const u32_any *src = src_;
    u32_any *dst = dst_;
    for (int64_t line = 0; line < lines; line++, src += src_step, dst += dst_step) {
        int64_t i = 0;
        for (; i + LS_LANES_F32 <= n; i += LS_LANES_F32) {
            *(ls_vu32_any *)(dst + i) = *(const ls_vu32_any *)(src + i);
        }
#if defined(LS_ISA_AVX512)
        __mmask16 rest = (__mmask16)((1u << (n - i)) - 1);
        _mm512_mask_storeu_epi32(dst + i, rest, _mm512_maskz_loadu_epi32(rest, src + i));
#else
        for (; i + 4 <= n; i += 4) {
            *(quad_any *)(dst + i) = *(const quad_any *)(src + i);
        }
        for (; i < n; i++) {
            dst[i] = src[i];
        }
#endif
    }
}

#if defined(LS_ISA_AVX512)
typedef struct column_masks { /* of one vector of all lines: its elements, and of them those that are there, of two vectors with a step of 2 */
    __mmask16 all, m0, m1;
} column_masks;

/* Some vectors of all lines. Their number and the step are constants, so that masks stay in registers. */
static inline __attribute__((always_inline)) void columns4(const ls_gemm_lines *l, int64_t step, int vectors, const column_masks *m, const float *src,
                                                           float *dst) {
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    for (int64_t plane = 0; plane < l->planes; plane++, src += l->src_plane, dst += l->dst_plane) {
        const float *from = src;
        float *to = dst;
        for (int64_t line = 0; line < l->lines; line++, from += l->src_line, to += l->dst_line) {
            for (int v = 0; v < vectors; v++) {
                __m512 x = _mm512_maskz_loadu_ps(m[v].m0, from + 16 * v * step);
                if (step == 2) {
                    __m512 y = _mm512_maskz_loadu_ps(m[v].m1, from + 32 * v + 16);
                    _mm512_mask_storeu_ps(to + 16 * v + l->dst_phase, m[v].all, _mm512_permutex2var_ps(x, odd, y));
                    x = _mm512_permutex2var_ps(x, even, y);
                }
                _mm512_mask_storeu_ps(to + 16 * v, m[v].all, x);
            }
        }
    }
}

/* Two vectors of all lines at a time, whose masks are made once. */
static void phases4(const ls_gemm_lines *l, const float *src, float *dst) {
    for (int64_t i = 0; i < l->n && l->lines > 0; i += 32) {
        column_masks m[2];
        for (int v = 0; v < 2; v++) {
            int64_t at = i + 16 * v, u = at * l->step;
            m[v] = (column_masks){ls_lanes_between(0, l->n - at), ls_lanes_between(l->low - u, l->high - u), ls_lanes_between(l->low - u - 16, l->high - u - 16)};
        }
        int vectors = m[1].all ? 2 : 1;
        if (l->step == 2 && vectors == 2) {
            columns4(l, 2, 2, m, src + 2 * i, dst + i);
        } else if (l->step == 2) {
            columns4(l, 2, 1, m, src + 2 * i, dst + i);
        } else if (vectors == 2) {
            columns4(l, 1, 2, m, src + i, dst + i);
        } else {
            columns4(l, 1, 1, m, src + i, dst + i);
        }
    }
}

#elif defined(LS_ISA_AVX2)
/* With a step of 1 alone: tiles across take no image apart. */
static void phases4(const ls_gemm_lines *l, const float *src, float *dst) {
    const int64_t low = l->low > 0 ? l->low : 0, high = l->high < l->n ? l->high : l->n;
    for (int64_t plane = 0; plane < l->planes; plane++, src += l->src_plane, dst += l->dst_plane) {
        for (int64_t line = 0; line < l->lines; line++) {
            memset(dst + line * l->dst_line, 0, (size_t)low * sizeof *dst);
            memset(dst + line * l->dst_line + high, 0, (size_t)(l->n - high) * sizeof *dst);
        }
        lines4(high - low, l->lines, src + low, l->src_line, dst + low, l->dst_line);
    }
}
#endif

static void rows8(int64_t kc, int64_t ni, int64_t width, const void *const *rows, void *panel_) {
    static const uint64_t zeros[2];
    u64_any *panel = panel_;
    for (int64_t q = 0; q < ni; q += 2) {
        if (width < 2) {
            const u64_any *row = rows[0];
            for (int64_t p = 0; p < kc; p++) {
                panel[p * width] = row ? row[p] : 0;
            }
            return;
        }
        int64_t first = q + 2 <= width ? q : width - 2;
        const void *row0 = rows[first], *row1 = first + 1 < ni ? rows[first + 1] : NULL;
        const u64_any *r0 = row0 ? row0 : zeros, *r1 = row1 ? row1 : zeros;
        int64_t step0 = row0 ? 1 : 0, step1 = row1 ? 1 : 0;
        u64_any *out = panel + first;
        int64_t p = 0;
        for (; p + 2 <= kc; p += 2, out += 2 * width) {
            pair a = *(const pair_any *)(r0 + p * step0), b = *(const pair_any *)(r1 + p * step1);
            *(pair_any *)out = __builtin_shufflevector(a, b, 0, 2);
            *(pair_any *)(out + width) = __builtin_shufflevector(a, b, 1, 3);
        }
        for (; p < kc; p++, out += width) {
            out[0] = r0[p * step0];
            out[1] = r1[p * step1];
        }
    }
}

/* For a constant number of vectors. */
static inline void copy_vectors(int64_t kc, int vectors, int64_t width, const u32_any *src, int64_t stride_k, u32_any *panel) {
    for (int64_t p = 0; p < kc; p++, src += stride_k, panel += width) {
        for (int v = 0; v < vectors; v++) {
            *(ls_vu32_any *)(panel + v * LS_LANES_F32) = *(const ls_vu32_any *)(src + v * LS_LANES_F32);
        }
    }
}

static void cols4(int64_t kc, int64_t ni, int64_t width, const void *src_, int64_t stride_k, void *panel_) {
    const u32_any *src = src_;
    u32_any *panel = panel_;
    if (ni == LS_GEMM_VECTORS * LS_LANES_F32) {
        copy_vectors(kc, LS_GEMM_VECTORS, width, src, stride_k, panel);
    } else if (ni == 2 * LS_LANES_F32) {
        copy_vectors(kc, 2, width, src, stride_k, panel);
    } else if (ni >= 4) {
        for (int64_t p = 0; p < kc; p++, src += stride_k, panel += width) {
            for (int64_t q = 0; q < ni - 4; q += 4) {
                *(quad_any *)(panel + q) = *(const quad_any *)(src + q);
            }
            *(quad_any *)(panel + ni - 4) = *(const quad_any *)(src + ni - 4);
        }
    } else {
        for (int64_t p = 0; p < kc; p++, src += stride_k, panel += width) {
            for (int64_t q = 0; q < ni; q++) {
                panel[q] = src[q];
            }
        }
    }
}

static void cols8(int64_t kc, int64_t ni, int64_t width, const void *src_, int64_t stride_k, void *panel_) {
    const u64_any *src = src_;
    u64_any *panel = panel_;
    for (int64_t p = 0; p < kc; p++, src += stride_k, panel += width) {
        int64_t q = 0;
        for (; q + 2 <= ni; q += 2) {
            *(pair_any *)(panel + q) = *(const pair_any *)(src + q);
        }
        for (; q < ni; q++) {
            panel[q] = src[q];
        }
    }
}

static void from_f16(int64_t n, const void *src_, float *dst) {
    const uint16_t *src = src_;
    int64_t i = 0;
#if defined(LS_ISA_AVX512)
    for (; i + 16 <= n; i += 16) {
        _mm512_storeu_ps(dst + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(src + i))));
    }
#elif defined(LS_ISA_AVX2)
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src + i))));
    }
#elif defined(LS_ISA_NEON)
    for (; i + 4 <= n; i += 4) {
        vst1q_f32(dst + i, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(src + i))));
    }
#endif
    for (; i < n; i++) {
        dst[i] = ls_f16_to_f32(src[i]);
    }
}

static void to_f16(int64_t n, const float *src, uint16_t *dst) {
    int64_t i = 0;
#if defined(LS_ISA_AVX512)
    for (; i + 16 <= n; i += 16) {
        __m512 x = _mm512_loadu_ps(src + i);
        __m256i h = _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        _mm256_storeu_si256((__m256i *)(dst + i), _mm256_mask_set1_epi16(h, nan, LS_NAN_F16));
    }
#elif defined(LS_ISA_AVX2)
    for (; i + 8 <= n; i += 8) {
        __m256 x = _mm256_loadu_ps(src + i);
        x = _mm256_blendv_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(LS_NAN_F32)),
                             _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
        _mm_storeu_si128((__m128i *)(dst + i),
                         _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    }
#elif defined(LS_ISA_NEON)
    for (; i + 4 <= n; i += 4) {
        float32x4_t x = vld1q_f32(src + i);
        x = vbslq_f32(vceqq_f32(x, x), x, vreinterpretq_f32_u32(vdupq_n_u32(LS_NAN_F32)));
        vst1_u16(dst + i, vreinterpret_u16_f16(vcvt_f16_f32(x)));
    }
#endif
    for (; i < n; i++) {
        dst[i] = ls_f32_to_f16(src[i]);
    }
}

/* Plain loops from here on: compilers make vectors of them. */

static void from_bf16(int64_t n, const void *src_, float *dst) {
    const uint16_t *src = src_;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (uint32_t)src[i] << 16;
        memcpy(&dst[i], &bits, 4);
    }
}

static void to_bf16(int64_t n, const float *src, uint16_t *dst) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &src[i], 4);
        uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
        dst[i] = (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? LS_NAN_BF16 : rounded);
    }
}

static void from_i8(int64_t n, const void *src_, float *dst) {
    const int8_t *src = src_;
    for (int64_t i = 0; i < n; i++) {
        dst[i] = src[i];
    }
}

static void from_u8(int64_t n, const void *src_, float *dst) {
    const uint8_t *src = src_;
    for (int64_t i = 0; i < n; i++) {
        dst[i] = src[i];
    }
}

static void add_i32(int64_t n, const float *src, bool add, int32_t *dst) {
    uint32_t keep = add ? ~0u : 0;
    for (int64_t i = 0; i < n; i++) {
        dst[i] = (int32_t)(((uint32_t)dst[i] & keep) + (uint32_t)(int32_t)src[i]);
    }
}

static bool finite_f32(int64_t n, const float *src) {
    uint32_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &src[i], 4);
        bad |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return !bad;
}

static bool finite_f64(int64_t n, const double *src) {
    uint64_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &src[i], 8);
        bad |= (bits & 0x7ff0000000000000u) == 0x7ff0000000000000u;
    }
    return !bad;
}

static void canonical_f32(int64_t n, float *x) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], 4);
        bits = (bits & 0x7fffffffu) > 0x7f800000u ? LS_NAN_F32 : bits;
        memcpy(&x[i], &bits, 4);
    }
}

static void canonical_f64(int64_t n, double *x) {
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &x[i], 8);
        bits = (bits & 0x7fffffffffffffffu) > 0x7ff0000000000000u ? LS_NAN_F64 : bits;
        memcpy(&x[i], &bits, 8);
    }
}

const ls_gemm_moves LS_ISA_SUFFIX(ls_gemm_moves) = {
    .rows4 = rows4,
    .rows8 = rows8,
    .cols4 = cols4,
    .cols8 = cols8,
    .split4 = split4,
#if !defined(LS_ISA_SIMD128)
    .join4 = join4,
#endif
    .lines4 = lines4,
#if !defined(LS_ISA_SCALAR) && !defined(LS_ISA_SIMD128)
    .put_lines = LS_ISA_SUFFIX(ls_put_lines),
#endif
#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
    .phases4 = phases4,
    .across = LS_ISA_SUFFIX(ls_across_store),
    .squares = LS_ISA_SUFFIX(ls_pool_squares),
    .threes = LS_ISA_SUFFIX(ls_pool_threes),
#endif
#if !defined(LS_ISA_SIMD128) && !defined(__wasm__)
    .nonzeros = LS_ISA_SUFFIX(ls_list_nonzeros),
    .chosen = LS_ISA_SUFFIX(ls_list_chosen),
    .chosen_planes = LS_ISA_SUFFIX(ls_list_chosen_planes),
#endif
    .from_f16 = from_f16,
    .from_bf16 = from_bf16,
    .from_i8 = from_i8,
    .from_u8 = from_u8,
    .to_f16 = to_f16,
    .to_bf16 = to_bf16,
    .add_i32 = add_i32,
    .finite_f32 = finite_f32,
    .finite_f64 = finite_f64,
    .canonical_f32 = canonical_f32,
    .canonical_f64 = canonical_f64,
};
