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

/* Four rows to four columns of a panel, `out` at the first; a row with step 0 gives zeros. */
static void rows4_group(int64_t kc, int64_t width, const u32_any *const *r, const int64_t *step,
                        u32_any *out) {
    int64_t p = 0;
    for (; p + 4 <= kc; p += 4, out += 4 * width) {
        quad a = *(const quad_any *)(r[0] + p * step[0]), b = *(const quad_any *)(r[1] + p * step[1]);
        quad c = *(const quad_any *)(r[2] + p * step[2]), d = *(const quad_any *)(r[3] + p * step[3]);
        quad ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        quad cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        *(quad_any *)out = __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5);
        *(quad_any *)(out + width) = __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7);
        *(quad_any *)(out + 2 * width) = __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5);
        *(quad_any *)(out + 3 * width) = __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7);
    }
    for (; p < kc; p++, out += width) {
        for (int t = 0; t < 4; t++) {
            out[t] = r[t][p * step[t]];
        }
    }
}

#if defined(LS_ISA_AVX512)
/* Sixteen rows to sixteen columns of a panel, `out` at the first. */
static void rows4_sixteen(int64_t kc, int64_t width, const void *const *rows, int64_t at, u32_any *out) {
    for (int64_t p = 0; p < kc; p += 16, out += 16 * width) {
        int64_t n = kc - p < 16 ? kc - p : 16;
        __mmask16 in = (__mmask16)((1u << n) - 1);
#define ROW(i) _mm512_maskz_loadu_epi32(rows[i] ? in : 0, (const u32_any *)rows[i] + (rows[i] ? at + p : 0))
#define PUT(r, x)                                                                                            \
    if ((r) < n) {                                                                                           \
        _mm512_storeu_si512(out + (r) * width, x);                                                           \
    }
        LS_TURN16(ROW, PUT)
#undef ROW
#undef PUT
    }
}
#endif

static void rows4(int64_t kc, int64_t ni, int64_t width, const void *const *rows, void *panel) {
    static const uint32_t zeros[4];
    enum { STRIP = 64 }; /* so much of a panel stays in the first-level cache until its lines are full */
    if (width < 4) {
        rows4_plain(kc, 0, ni, width, rows, panel);
        return;
    }
    for (int64_t p = 0; p < kc; p += STRIP) {
        int64_t n = kc - p < STRIP ? kc - p : STRIP, q = 0;
        for (int64_t i = 0; i < ni && p + STRIP < kc; i++) {
            for (int64_t ahead = STRIP; rows[i] && ahead < 2 * STRIP; ahead += 16) { /* too many rows for a processor to follow */
                ls_fetch_line((uintptr_t)((const u32_any *)rows[i] + p + ahead), true);
            }
        }
#if defined(LS_ISA_AVX512)
        for (; q + 16 <= ni; q += 16) {
            rows4_sixteen(n, width, rows + q, p, (u32_any *)panel + p * width + q);
        }
#endif
        for (; q < ni; q += 4) {
            /* The last group overlaps the one before it when the width is no multiple of 4. */
            int64_t first = q + 4 <= width ? q : width - 4;
            const u32_any *r[4];
            int64_t step[4];
            for (int t = 0; t < 4; t++) {
                const u32_any *row = first + t < ni ? rows[first + t] : NULL;
                r[t] = row ? row + p : zeros;
                step[t] = row ? 1 : 0;
            }
            rows4_group(n, width, r, step, (u32_any *)panel + p * width + first);
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

#if defined(LS_ISA_AVX512)
/* Appends entries of the elements that are wanted; how many. They are counted first: where a call comes between, as a sanitizer's, gcc 12 keeps the
 * 16 bits of a mask in memory, and counts 32 there. */
static inline int64_t put_entries(__mmask16 some, __m512i at, __m512i x, ls_sparse_entry *list) {
    const int n = __builtin_popcount(some);
    const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0), high = _mm512_or_epi32(low, _mm512_set1_epi32(8));
    __m512i y = _mm512_maskz_compress_epi32(some, x), a = _mm512_maskz_compress_epi32(some, at);
    _mm512_storeu_si512(list, _mm512_permutex2var_epi32(a, low, y));
    _mm512_storeu_si512(list + 8, _mm512_permutex2var_epi32(a, high, y));
    return n;
}

static inline __mmask16 not_zero(__m512i x) {
    return _mm512_cmp_ps_mask(_mm512_castsi512_ps(x), _mm512_setzero_ps(), _CMP_NEQ_UQ);
}

static inline __mmask16 lanes_of(int64_t n) {
    return n < 16 ? (__mmask16)((1u << n) - 1) : 0xffff;
}
#endif

#if !defined(LS_ISA_SIMD128) && !defined(__wasm__) /* a page makes no lists */
enum { LIST_LANES = LS_LANES_F32 == 16 ? 16 : 1 };

static int64_t nonzeros(int64_t n, const float *src, const int32_t *at, ls_sparse_entry *list) {
    int64_t count = 0;
#if defined(LS_ISA_AVX512)
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 in = lanes_of(n - i);
        __m512i x = _mm512_maskz_loadu_epi32(in, src + i);
        count += put_entries(not_zero(x), _mm512_maskz_loadu_epi32(in, at + i), x, list + count);
    }
#else
    for (int64_t i = 0; i < n; i++) {
        list[count] = (ls_sparse_entry){at[i], src[i]};
        count += src[i] != 0;
    }
#endif
    return count;
}

static int64_t chosen(int64_t n, const float *src, const uint32_t *places, const int32_t *at, const int32_t of[4], ls_sparse_entry *list) {
    int64_t count = 0;
#if defined(LS_ISA_AVX512)
    const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)of)), four = _mm512_set1_epi32(4);
    for (int64_t i = 0; i < n; i += 16) {
        __mmask16 in = lanes_of(n - i);
        __m512i x = _mm512_maskz_loadu_epi32(in, src + i), place = _mm512_maskz_loadu_epi32(in, places + i);
        __m512i add = _mm512_permutexvar_epi32(place, table);
        count += put_entries(_mm512_mask_cmplt_epu32_mask(not_zero(x), place, four), _mm512_add_epi32(add, _mm512_maskz_loadu_epi32(in, at + i)), x, list + count);
    }
#else
    for (int64_t i = 0; i < n; i++) {
        list[count] = (ls_sparse_entry){at[i] + of[places[i] % 4], src[i]};
        count += src[i] != 0 && places[i] < 4;
    }
#endif
    return count;
}

static int64_t chosen_planes(int64_t windows, int64_t n, uint32_t place, const float *src, const uint32_t *places, const int32_t *at, ls_sparse_entry *list,
                             int64_t count, int32_t *starts) {
    for (int64_t window = 0; window < 2 * windows; window++) {
        const uint32_t own = place + (uint32_t)(window % 2);
        const int64_t from = window / 2 * n;
        starts[window] = (int32_t)count;
        for (int64_t i = 0; i < n; i += LIST_LANES) {
#if defined(LS_ISA_AVX512)
            __mmask16 in = lanes_of(n - i);
            __m512i x = _mm512_maskz_loadu_epi32(in, src + from + i), where = _mm512_maskz_loadu_epi32(in, places + from + i);
            __mmask16 some = _mm512_mask_cmpeq_epi32_mask(not_zero(x), where, _mm512_set1_epi32((int)own));
            count += put_entries(some, _mm512_maskz_loadu_epi32(in, at + i), x, list + count);
#else
            list[count] = (ls_sparse_entry){at[i], src[from + i]};
            count += src[from + i] != 0 && places[from + i] == own;
#endif
        }
    }
    return count;
}
#endif

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

#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
enum { SQUARES_AHEAD = 8 << 10 }; /* bytes */

/* What an instruction set does: `between` are the lanes of [low, high), `some` the elements there, else 0, `elements` the same for an extreme, else
 * infinite. `evens` and `odds` of two vectors have the order that costs least, which `in_order` puts right. `put` may write anything behind its
 * results, up to `end`: the next ones go there. AVX2 has the least of elements that are `turned` where the largest is sought, and back. */
#if defined(LS_ISA_AVX512)
typedef ls_lanes lanes;

static inline lanes between(int64_t low, int64_t high) {
    return ls_lanes_between(low, high);
}
static inline ls_vf32 some(lanes there, const float *from) {
    return (ls_vf32)_mm512_maskz_loadu_ps(there, from);
}
static inline ls_vf32 elements(bool least, lanes there, const float *from) {
    return (ls_vf32)_mm512_mask_loadu_ps(_mm512_set1_ps(least ? __builtin_inff() : -__builtin_inff()), there, from);
}
static inline ls_vf32 turned(bool least, ls_vf32 x) {
    (void)least;
    return x;
}
static inline ls_vf32 extreme(bool least, ls_vf32 x, ls_vf32 y) {
    return least ? ls_lowest(x, y) : ls_highest(x, y);
}
static inline ls_vf32 evens(ls_vf32 x, ls_vf32 y) {
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    return (ls_vf32)_mm512_permutex2var_ps((__m512)x, even, (__m512)y);
}
static inline ls_vf32 odds(ls_vf32 x, ls_vf32 y) {
    const __m512i odd = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    return (ls_vf32)_mm512_permutex2var_ps((__m512)x, odd, (__m512)y);
}
static inline ls_vf32 in_order(ls_vf32 x) {
    return x;
}
static inline void put(float *dst, const float *end, lanes which, ls_vf32 x) {
    (void)end;
    _mm512_mask_storeu_ps(dst, which, (__m512)x);
}
#else
typedef ls_lanes lanes;

static __attribute__((noinline)) lanes between(int64_t low, int64_t high) { /* smaller */
    return ls_lanes_between(low, high);
}
static inline ls_vf32 some(lanes there, const float *from) {
    return (ls_vf32)_mm256_maskload_ps(from, there);
}
static inline ls_vu32 sign_of(bool least) {
    return LS_SPLAT_U32(least ? 0 : UINT32_C(1) << 31);
}
static inline ls_vf32 elements(bool least, lanes there, const float *from) {
    const ls_vf32 turn = LS_CHOOSE(there, sign_of(least), LS_SPLAT_F32(__builtin_inff()));
    return (ls_vf32)((ls_vu32)some(there, from) ^ (ls_vu32)turn);
}
static inline ls_vf32 turned(bool least, ls_vf32 x) {
    return (ls_vf32)((ls_vu32)x ^ sign_of(least));
}
/* Both orders differ by the signs of zeros and a number for NaN, which any number's bits leave one. */
static inline ls_vf32 extreme(bool least, ls_vf32 x, ls_vf32 y) {
    (void)least;
    return (ls_vf32)((ls_vu32)LS_BELOW(x, y) | (ls_vu32)LS_BELOW(y, x));
}
static inline ls_vf32 evens(ls_vf32 x, ls_vf32 y) {
    return (ls_vf32)_mm256_shuffle_ps((__m256)x, (__m256)y, 0x88);
}
static inline ls_vf32 odds(ls_vf32 x, ls_vf32 y) {
    return (ls_vf32)_mm256_shuffle_ps((__m256)x, (__m256)y, 0xdd);
}
static inline ls_vf32 in_order(ls_vf32 x) {
    return (ls_vf32)_mm256_permute4x64_pd((__m256d)x, 0xd8);
}
/* A store with a mask takes AMD's processors as long as twenty others. */
static inline void put(float *dst, const float *end, lanes which, ls_vf32 x) {
    if (end - dst >= LS_LANES_F32) {
        *(ls_vf32_any *)dst = x;
    } else {
        _mm256_maskstore_ps(dst, which, (__m256)x);
    }
}
#endif

/* Where the i-th of n results' vector begins: the last one overlaps the one before it, unless masks are for nothing. */
static inline int64_t vector_at(int64_t i, int64_t n) {
    return LS_LANES_F32 == 16 || n < LS_LANES_F32 || i + LS_LANES_F32 <= n ? i : n - LS_LANES_F32;
}

/* The first NaN, else the first of the largest. */
static inline ls_vf32 place_of_largest(const ls_vf32 *x) {
    ls_vf32 best = x[0];
#if defined(LS_ISA_AVX512)
    __m512i place = _mm512_setzero_si512();
    for (int i = 1; i < 4; i++) {
        __mmask16 better = _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask((__m512)best, (__m512)best, _CMP_ORD_Q), (__m512)best, (__m512)x[i], _CMP_NGE_UQ);
        place = _mm512_mask_set1_epi32(place, better, i);
        best = (ls_vf32)_mm512_mask_mov_ps((__m512)best, better, (__m512)x[i]);
    }
#else
    ls_vf32 place = {0};
    for (int i = 1; i < 4; i++) {
        const __m256 better = _mm256_and_ps(_mm256_cmp_ps((__m256)best, (__m256)best, _CMP_ORD_Q), _mm256_cmp_ps((__m256)best, (__m256)x[i], _CMP_NGE_UQ));
        place = (ls_vf32)_mm256_blendv_ps((__m256)place, (__m256)LS_SPLAT_U32((uint32_t)i), better);
        best = (ls_vf32)_mm256_blendv_ps((__m256)best, (__m256)x[i], better);
    }
#endif
    return (ls_vf32)place;
}

typedef struct square_masks { /* of two vectors of elements, and of one of results */
    lanes low, high, put;
} square_masks;

static inline square_masks masks_of_squares(int64_t left) {
#if defined(LS_ISA_AVX512)
    const uint32_t both = (uint32_t)((UINT64_C(1) << 2 * left) - 1);
    return (square_masks){(__mmask16)both, (__mmask16)(both >> 16), (__mmask16)((1u << left) - 1)};
#else
    return (square_masks){between(0, 2 * left), between(0, 2 * left - LS_LANES_F32), between(0, left)};
#endif
}

LS_FETCHING void squares_of(ls_square what, bool places, int64_t n, int64_t lines, const float *src, int64_t src_step, float *dst, bool second) {
    const bool least = what == LS_SQUARE_LEAST;
    const ls_vu32 sign = LS_SPLAT_U32(least ? UINT32_C(1) << 31 : 0);
    const float *end = dst + n * lines;
    square_masks m = masks_of_squares(n);
    for (int64_t line = 0; line < lines; line++, src += 2 * src_step, dst += n) {
        for (int64_t i = 0; i < n; i += LS_LANES_F32) {
            const int64_t at = vector_at(i, n), left = n - at < LS_LANES_F32 ? n - at : LS_LANES_F32;
            const float *x = src + 2 * at, *y = x + src_step;
#if defined(LS_ISA_AVX512)
            m = masks_of_squares(left);
#endif
            ls_fetch_lines((uintptr_t)x + SQUARES_AHEAD, 2 * LS_LANES_F32, second);
            ls_fetch_lines((uintptr_t)y + SQUARES_AHEAD, 2 * LS_LANES_F32, second);
            ls_vf32 x0 = some(m.low, x), x1 = {0}, y0 = some(m.low, y), y1 = x1, out;
            if (__builtin_expect(left > LS_LANES_F32 / 2, 1)) { /* else they would be of what lies behind the image */
                x1 = some(m.high, x + LS_LANES_F32);
                y1 = some(m.high, y + LS_LANES_F32);
            }
            if (places) { /* of the least: of the largest with the signs changed */
#define CHANGED(x) (ls_vf32)((ls_vu32)(x) ^ sign)
                const ls_vf32 all[] = {CHANGED(evens(x0, x1)), CHANGED(odds(x0, x1)), CHANGED(evens(y0, y1)), CHANGED(odds(y0, y1))};
#undef CHANGED
                out = place_of_largest(all);
            } else if (what == LS_SQUARE_SUM) {
                x0 += y0;
                x1 += y1;
                out = (evens(x0, x1) + odds(x0, x1)) + (ls_vf32){0};
            } else {
                x0 = extreme(least, turned(least, x0), turned(least, y0));
                x1 = extreme(least, turned(least, x1), turned(least, y1));
                out = turned(least, extreme(least, evens(x0, x1), odds(x0, x1)));
            }
            put(dst + at, end, m.put, in_order(out));
        }
    }
}

/* The lines of a plane in turn, from some element on. */
typedef struct plane_lines {
    const float *line, *none;
    int64_t at, height, pitch;
    bool second;
} plane_lines;

LS_FETCHING const float *next_line(plane_lines *p) {
    const float *line = (uint64_t)p->at < (uint64_t)p->height ? p->line : p->none;
    ls_fetch_line((uintptr_t)p->line + SQUARES_AHEAD, p->second);
    p->at++;
    p->line += p->pitch;
    return line;
}

/* Of a vector of windows, the largest of the three columns in one line; `there`: of each vector those that are in the image. */
LS_FETCHING ls_vf32 extremes_of_line(plane_lines *p, int64_t stride, const lanes *there) {
    const float *line = next_line(p);
#define ELEMENTS(i, from) elements(false, there[i], line + (from))
    if (stride == 1) {
        return extreme(false, extreme(false, ELEMENTS(0, 0), ELEMENTS(1, 1)), ELEMENTS(2, 2));
    }
    if (LS_LANES_F32 == 16) {
        ls_fetch_line((uintptr_t)(p->line - p->pitch + 16) + SQUARES_AHEAD, p->second);
    }
    const ls_vf32 x = ELEMENTS(0, 0), y = ELEMENTS(1, LS_LANES_F32);
    return extreme(false, extreme(false, evens(x, y), odds(x, y)), evens(ELEMENTS(2, 2), ELEMENTS(3, LS_LANES_F32 + 2)));
#undef ELEMENTS
}

LS_FETCHING void extremes_of_threes(const ls_threes *t, plane_lines p, int64_t stride, const lanes *there, lanes which, float *dst) {
    const int64_t n = t->n, last = p.at + t->step * (t->lines - 1) + 3;
    const float *end = t->dst + n * t->lines;
    ls_vf32 x = {0}, y = x, z = x;
#define NEXT(line) line = extremes_of_line(&p, stride, there);
#define PUT_EXTREMES                                                                                         \
    {                                                                                                        \
        const ls_vf32 all = turned(false, extreme(false, extreme(false, x, y), z));                          \
        put(dst, end, which, stride == 1 ? all : in_order(all));                                             \
        dst += n;                                                                                            \
    }                                                                                                        \
    if (p.at == last) {                                                                                      \
        return;                                                                                              \
    }
#if defined(LS_ISA_AVX512) /* lines take turns in three places, or two: none is moved from one to another */
    NEXT(x)
    if (t->step == 2) {
        for (;;) {
            NEXT(y) NEXT(z) PUT_EXTREMES
            NEXT(y) NEXT(x) PUT_EXTREMES
        }
    }
    NEXT(y)
    for (;;) {
        NEXT(z) PUT_EXTREMES
        NEXT(x) PUT_EXTREMES
        NEXT(y) PUT_EXTREMES
    }
#else
    for (int64_t more = 3;; more = t->step) {
        do {
            x = y, y = z;
            NEXT(z)
        } while (--more);
        PUT_EXTREMES
    }
#endif
#undef NEXT
#undef PUT_EXTREMES
}

/* In the order of nine terms: a line's columns are terms 0 to 2, 3 to 5 and 6 to 8 of three sums. */
LS_FETCHING void sums_of_threes(const ls_threes *t, plane_lines p, const lanes *there, lanes which, float *dst) {
    const int64_t n = t->n, last = p.at + t->lines + 2;
    const float *end = t->dst + n * t->lines;
    const lanes m0 = there[0], m1 = there[1], m2 = there[2];
    ls_vf32 of[3][3];
#define NEXT_LINE(to)                                                                                        \
    {                                                                                                        \
        const float *line = next_line(&p);                                                                   \
        of[to][0] = some(m0, line);                                                                     \
        of[to][1] = some(m1, line + 1);                                                                 \
        of[to][2] = some(m2, line + 2);                                                                 \
    }
#define SUMS(x, y, z)                                                                                        \
    NEXT_LINE(z)                                                                                             \
    {                                                                                                        \
        const ls_vf32 sum = (((of[x][0] + of[z][2]) + of[y][1]) + (of[x][2] + of[z][0])) +                   \
                            ((of[x][1] + of[y][2]) + (of[y][0] + of[z][1]));                                 \
        put(dst, end, which, sum + (ls_vf32){0});                                                            \
        dst += n;                                                                                            \
    }                                                                                                        \
    if (p.at == last) {                                                                                      \
        return;                                                                                              \
    }
#if defined(LS_ISA_AVX512)
    NEXT_LINE(0)
    NEXT_LINE(1)
    for (;;) {
        SUMS(0, 1, 2)
        SUMS(1, 2, 0)
        SUMS(2, 0, 1)
    }
#else
    NEXT_LINE(1)
    NEXT_LINE(2)
    for (;;) {
        for (int k = 0; k < 3; k++) {
            of[0][k] = of[1][k], of[1][k] = of[2][k];
        }
        SUMS(0, 1, 2)
    }
#endif
#undef NEXT_LINE
#undef SUMS
}

/* A vector of columns of all lines, then the next ones: what is outside of a line is so in all of them. */
LS_FETCHING void threes_of(const ls_threes *t, ls_square what, int64_t stride) {
    for (int64_t i = 0; i < t->n; i += LS_LANES_F32) {
        const int64_t column = vector_at(i, t->n), at = t->first + column * stride;
        const plane_lines p = {t->plane + t->line * t->pitch + at, t->none + at, t->line, t->height, t->pitch, t->second};
        const lanes which = between(0, t->n - column);
        lanes there[4];
        for (int k = 0; k < 4; k++) {
            const int64_t from = at + (stride == 1 ? k : k / 2 * 2 + k % 2 * LS_LANES_F32);
            there[k] = between(-from, t->limit - from);
        }
        if (what == LS_SQUARE_SUM) {
            sums_of_threes(t, p, there, which, t->dst + column);
        } else if (LS_LANES_F32 < 16 && stride == 1) {
            extremes_of_threes(t, p, 1, there, which, t->dst + column);
        } else {
            extremes_of_threes(t, p, stride, there, which, t->dst + column);
        }
    }
}

static void threes(const ls_threes *t) {
#if defined(LS_ISA_AVX512)
    if (t->what == LS_SQUARE_SUM) {
        threes_of(t, LS_SQUARE_SUM, 1);
    } else if (t->stride == 1) {
        threes_of(t, LS_SQUARE_MOST, 1);
    } else {
        threes_of(t, LS_SQUARE_MOST, 2);
    }
#else
    threes_of(t, t->what, t->stride);
#endif
}

static void squares(ls_square what, bool places, int64_t n, int64_t lines, const float *src, int64_t src_step, void *dst, bool second) {
#if defined(LS_ISA_AVX512)
    if (places) {
        squares_of(what, true, n, lines, src, src_step, dst, second);
    } else if (what == LS_SQUARE_SUM) {
        squares_of(LS_SQUARE_SUM, false, n, lines, src, src_step, dst, second);
    } else if (what == LS_SQUARE_LEAST) {
        squares_of(LS_SQUARE_LEAST, false, n, lines, src, src_step, dst, second);
    } else {
        squares_of(LS_SQUARE_MOST, false, n, lines, src, src_step, dst, second);
    }
#else
    squares_of(what, places, n, lines, src, src_step, dst, second);
#endif
}
#endif

const ls_gemm_moves LS_ISA_SUFFIX(ls_gemm_moves) = {
    .rows4 = rows4,
    .rows8 = rows8,
    .cols4 = cols4,
    .cols8 = cols8,
    .split4 = split4,
    .lines4 = lines4,
#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
    .phases4 = phases4,
    .across = LS_ISA_SUFFIX(ls_across_store),
    .squares = squares,
    .threes = threes,
#endif
#if !defined(LS_ISA_SIMD128) && !defined(__wasm__)
    .nonzeros = nonzeros,
    .chosen = chosen,
    .chosen_planes = chosen_planes,
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
