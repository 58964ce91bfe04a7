/* Moves, gathers, selects, index arithmetic and random bits over tiles, and the table of an instruction set's
 * tile functions. */
#include "backend/cpu/isa/tile_isa.h"
#include <string.h>
#if defined(LS_ISA_AVX512)
#include <immintrin.h>
#endif

#define MOVES(bits)                                                                                          \
    static void read_##bits(void *dst, const void *src, int64_t stride, int64_t n) {                         \
        uint##bits##_t *d = dst;                                                                             \
        const uint##bits##_t *s = src;                                                                       \
        if (stride == 1) {                                                                                   \
            memcpy(d, s, (size_t)n * sizeof *d);                                                             \
        } else if (stride == 0) {                                                                            \
            uint##bits##_t x = *s;                                                                           \
            LS_LANES_LOOP                                                                                    \
            for (int64_t i = 0; i < n; i++) {                                                                \
                d[i] = x;                                                                                    \
            }                                                                                                \
        } else if (stride == 2) {                                                                            \
            LS_LANES_LOOP                                                                                    \
            for (int64_t i = 0; i < n; i++) {                                                                \
                d[i] = s[2 * i];                                                                             \
            }                                                                                                \
        } else if (stride == -1) {                                                                           \
            LS_LANES_LOOP                                                                                    \
            for (int64_t i = 0; i < n; i++) {                                                                \
                d[i] = s[-i];                                                                                \
            }                                                                                                \
        } else {                                                                                             \
            for (int64_t i = 0; i < n; i++) {                                                                \
                d[i] = s[i * stride];                                                                        \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void read_rows_##bits(void *dst, const void *src, int64_t outer_stride, int64_t rows,             \
                                 int64_t stride, int64_t inner) {                                            \
        uint##bits##_t *d = dst;                                                                             \
        const uint##bits##_t *s = src;                                                                       \
        if (inner == 2 && stride == 0 && outer_stride == 1) {                                                \
            LS_LANES_LOOP                                                                                    \
            for (int64_t r = 0; r < rows; r++) {                                                             \
                uint##bits##_t x = s[r];                                                                     \
                d[2 * r] = x;                                                                                \
                d[2 * r + 1] = x;                                                                            \
            }                                                                                                \
        } else if (inner == 2) {                                                                             \
            for (int64_t r = 0; r < rows; r++, s += outer_stride) {                                          \
                d[2 * r] = s[0];                                                                             \
                d[2 * r + 1] = s[stride];                                                                    \
            }                                                                                                \
        } else if (inner == 3) {                                                                             \
            for (int64_t r = 0; r < rows; r++, s += outer_stride) {                                          \
                d[3 * r] = s[0];                                                                             \
                d[3 * r + 1] = s[stride];                                                                    \
                d[3 * r + 2] = s[2 * stride];                                                                \
            }                                                                                                \
        } else {                                                                                             \
            for (int64_t r = 0; r < rows; r++, s += outer_stride, d += inner) {                              \
                for (int64_t i = 0; i < inner; i++) {                                                        \
                    d[i] = s[i * stride];                                                                    \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void read_pattern_##bits(void *dst, const void *src, int64_t stride, int64_t blocks,              \
                                    const int32_t *pattern, int64_t lanes) {                                 \
        uint##bits##_t *d = dst;                                                                             \
        const uint##bits##_t *s = src;                                                                       \
        for (int64_t b = 0; b < blocks; b++, s += stride, d += lanes) {                                      \
            for (int64_t i = 0; i < lanes; i++) {                                                            \
                d[i] = s[pattern[i]];                                                                        \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void write_##bits(void *dst, int64_t stride, const void *src, int64_t n) {                        \
        uint##bits##_t *d = dst;                                                                             \
        const uint##bits##_t *s = src;                                                                       \
        if (stride == 1) {                                                                                   \
            memcpy(d, s, (size_t)n * sizeof *d);                                                             \
        } else {                                                                                             \
            for (int64_t i = 0; i < n; i++) {                                                                \
                d[i * stride] = s[i];                                                                        \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void gather_##bits(void *dst, const void *src, const int64_t *index, const uint8_t *mask,         \
                              int64_t n) {                                                                   \
        uint##bits##_t *d = dst;                                                                             \
        const uint##bits##_t *s = src;                                                                       \
        if (mask) {                                                                                          \
            for (int64_t i = 0; i < n; i++) {                                                                \
                d[i] = mask[i] ? s[index[i]] : 0;                                                            \
            }                                                                                                \
        } else {                                                                                             \
            for (int64_t i = 0; i < n; i++) {                                                                \
                d[i] = s[index[i]];                                                                          \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void fill_##bits(void *dst, const void *value, int64_t n) {                                       \
        uint##bits##_t *d = dst, x = *(const uint##bits##_t *)value;                                         \
        LS_LANES_LOOP                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            d[i] = x;                                                                                        \
        }                                                                                                    \
    }                                                                                                        \
    static void select_##bits(void *dst, const void *a, const void *b, const void *c, int64_t n) {           \
        uint##bits##_t *d = dst;                                                                             \
        const uint8_t *m = a;                                                                                \
        const uint##bits##_t *x = b, *y = c;                                                                 \
        LS_LANES_LOOP                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            uint##bits##_t u = x[i], v = y[i];                                                               \
            d[i] = m[i] ? u : v;                                                                             \
        }                                                                                                    \
    }
MOVES(8)
MOVES(16)
MOVES(32)
MOVES(64)

#if defined(LS_ISA_AVX512)
/* Rows of at most sixteen lanes of stride 1 or 2 are masked loads and one permutation: pooling windows and
 * cropped images. Rows to come are fetched: lines that lie apart come late otherwise. */
enum { ROWS_AHEAD = 24 };
static void read_short_rows(void *dst, const void *src, int64_t outer_stride, int64_t rows, int64_t stride,
                            int64_t inner) {
    if (inner < 4 || inner > 16 || (stride != 1 && stride != 2)) {
        read_rows_32(dst, src, outer_stride, rows, stride, inner);
        return;
    }
    uint32_t *d = dst;
    const uint32_t *s = src;
    const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    uint32_t span =
        stride == 1 ? (UINT32_C(1) << inner) - 1 : (uint32_t)((UINT64_C(1) << (2 * inner - 1)) - 1);
    __mmask16 low = (__mmask16)span, high = (__mmask16)(span >> 16), lanes = (__mmask16)((1u << inner) - 1);
    for (int64_t r = 0; r < rows; r++, s += outer_stride, d += inner) {
        __m512i x = _mm512_maskz_loadu_epi32(low, s);
        uintptr_t ahead = (uintptr_t)s + (uintptr_t)(ROWS_AHEAD * outer_stride * 4);
        __builtin_prefetch((const void *)ahead);
        if (stride == 2) {
            __builtin_prefetch((const void *)(ahead + 64));
            x = _mm512_permutex2var_epi32(x, even, _mm512_maskz_loadu_epi32(high, s + 16));
        }
        _mm512_mask_storeu_epi32(d, lanes, x);
    }
}
#define read_rows_32 read_short_rows

/* A pattern within sixteen elements is one masked load and a permutation for every sixteen lanes. */
static void read_near_pattern_32(void *dst, const void *src, int64_t stride, int64_t blocks,
                                 const int32_t *pattern, int64_t lanes) {
    uint32_t *d = dst;
    const uint32_t *s = src;
    __m512i index[4];
    __mmask16 mask[4];
    int32_t highest = 0;
    for (int64_t i = 0; i < lanes; i++) {
        highest = pattern[i] > highest ? pattern[i] : highest;
    }
    if (highest > 15) {
        read_pattern_32(dst, src, stride, blocks, pattern, lanes);
        return;
    }
    int groups = (int)((lanes + 15) / 16);
    for (int g = 0; g < groups; g++) {
        mask[g] = (__mmask16)(lanes - 16 * g < 16 ? (1u << (lanes - 16 * g)) - 1 : 0xffff);
        index[g] = _mm512_maskz_loadu_epi32(mask[g], pattern + 16 * g);
    }
    __mmask16 near = (__mmask16)((2u << highest) - 1);
    for (int64_t b = 0; b < blocks; b++, s += stride, d += lanes) {
        __m512i x = _mm512_maskz_loadu_epi32(near, s);
        for (int g = 0; g < groups; g++) {
            _mm512_mask_storeu_epi32(d + 16 * g, mask[g], _mm512_permutexvar_epi32(index[g], x));
        }
    }
}

static void read_near_pattern_64(void *dst, const void *src, int64_t stride, int64_t blocks,
                                 const int32_t *pattern, int64_t lanes) {
    uint64_t *d = dst;
    const uint64_t *s = src;
    __m512i index[8];
    __mmask8 mask[8];
    int32_t highest = 0;
    for (int64_t i = 0; i < lanes; i++) {
        highest = pattern[i] > highest ? pattern[i] : highest;
    }
    if (highest > 15) {
        read_pattern_64(dst, src, stride, blocks, pattern, lanes);
        return;
    }
    int groups = (int)((lanes + 7) / 8);
    for (int g = 0; g < groups; g++) {
        mask[g] = (__mmask8)(lanes - 8 * g < 8 ? (1u << (lanes - 8 * g)) - 1 : 0xff);
        index[g] = _mm512_cvtepi32_epi64(_mm256_maskz_loadu_epi32(mask[g], pattern + 8 * g));
    }
    uint32_t near = (2u << highest) - 1;
    for (int64_t b = 0; b < blocks; b++, s += stride, d += lanes) {
        __m512i low = _mm512_maskz_loadu_epi64((__mmask8)near, s);
        __m512i high = _mm512_maskz_loadu_epi64((__mmask8)(near >> 8), s + 8);
        for (int g = 0; g < groups; g++) {
            _mm512_mask_storeu_epi64(d + 8 * g, mask[g], _mm512_permutex2var_epi64(low, index[g], high));
        }
    }
}
#define read_pattern_32 read_near_pattern_32
#define read_pattern_64 read_near_pattern_64
#endif

static int64_t divisor(int64_t y) { /* of an empty space: nothing is read through it */
    return y < 1 ? 1 : y;
}
static int64_t floor_div(int64_t x, int64_t y) {
    if (((uint64_t)x | (uint64_t)y) >> 32 == 0) {
        return (uint32_t)x / (uint32_t)y;
    }
    int64_t q = x / y;
    return q - (x % y < 0);
}
static void index_div(void *dst, const void *a, const void *b, const void *c, int64_t n) {
    int64_t *d = dst;
    const int64_t *x = a, *y = b;
    (void)c;
    for (int64_t i = 0; i < n; i++) {
        d[i] = floor_div(x[i], divisor(y[i]));
    }
}
static void index_mod(void *dst, const void *a, const void *b, const void *c, int64_t n) {
    int64_t *d = dst;
    const int64_t *x = a, *y = b;
    (void)c;
    for (int64_t i = 0; i < n; i++) {
        int64_t by = divisor(y[i]);
        d[i] = x[i] - floor_div(x[i], by) * by;
    }
}

static void iota(int64_t *dst, int64_t first, int64_t step, int64_t n) {
    LS_LANES_LOOP
    for (int64_t i = 0; i < n; i++) {
        dst[i] = first + i * step;
    }
}
static void in_range(uint8_t *mask, const int64_t *a, const int64_t *limit, int64_t n) {
    LS_LANES_LOOP
    for (int64_t i = 0; i < n; i++) {
        mask[i] = (uint8_t)(mask[i] & (a[i] >= 0) & (a[i] < limit[i]));
    }
}
static void multiple(uint8_t *mask, const int64_t *a, int64_t of, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        mask[i] = mask[i] && a[i] % of == 0;
    }
}

#define ARG(name, order)                                                                                     \
    static void name(float *value, uint32_t *index, const float *xs, uint32_t k, int64_t n) {                \
        LS_LANES_LOOP                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            float x = xs[i], v = value[i];                                                                   \
            int better = !(x order v) & (v == v);                                                            \
            value[i] = better ? x : v;                                                                       \
            index[i] = better ? k : index[i];                                                                \
        }                                                                                                    \
    }
ARG(argmin_f32, >=)
ARG(argmax_f32, <=)

static void sum_nine_f32(float *dst, const float *const terms[9], int64_t n) {
    const float *a = terms[0], *b = terms[1], *c = terms[2], *d = terms[3], *e = terms[4], *f = terms[5], *g = terms[6], *h = terms[7],
                *i = terms[8];
    LS_LANES_LOOP
    for (int64_t k = 0; k < n; k++) {
        dst[k] = (((a[k] + i[k]) + e[k]) + (c[k] + g[k])) + ((b[k] + f[k]) + (d[k] + h[k])) + 0.0f;
    }
}

static int64_t place_f32(const float *x, int64_t n, float found) {
    enum { AT_ONCE = 64 };
    int64_t i = 0;
    for (int hits = 0; found == found && i + AT_ONCE <= n; i += AT_ONCE) {
        LS_LANES_LOOP
        for (int j = 0; j < AT_ONCE; j++) {
            hits |= x[i + j] == found;
        }
        if (hits) {
            break;
        }
    }
    while (i < n && !(found == found ? x[i] == found : x[i] != x[i])) {
        i++;
    }
    return i;
}

/* Threefry-2x32-20, the first word; as in base/rng.c, all lanes at a time. */
static void threefry(uint32_t *dst, const uint32_t *key0, const uint32_t *key1, const int64_t *counter,
                     int64_t n) {
    LS_LANES_LOOP
    for (int64_t i = 0; i < n; i++) {
        uint32_t k0 = key0[i], k1 = key1[i], k2 = 0x1bd11bdau ^ k0 ^ k1;
        uint32_t x = (uint32_t)(uint64_t)counter[i] + k0, y = (uint32_t)((uint64_t)counter[i] >> 32) + k1;
#define MIX(r) x += y, y = (y << r | y >> (32 - r)) ^ x;
#define FOUR_A MIX(13) MIX(15) MIX(26) MIX(6)
#define FOUR_B MIX(17) MIX(29) MIX(16) MIX(24)
        FOUR_A x += k1, y += k2 + 1;
        FOUR_B x += k2, y += k0 + 2;
        FOUR_A x += k0, y += k1 + 3;
        FOUR_B x += k1, y += k2 + 4;
        FOUR_A x += k2;
        dst[i] = x;
    }
}

#define SIZES(name)                                                                                          \
    { name##_8, name##_16, name##_32, name##_64 }
const ls_tile_isa LS_TILE_NAME(ls_tile_isa) = {
    .map_int = LS_TILE_NAME(ls_tile_map_int),
    .map_f32 = LS_TILE_NAME(ls_tile_map_f32),
    .map_f64 = LS_TILE_NAME(ls_tile_map_f64),
#if !defined(LS_ISA_SCALAR) && !defined(LS_ISA_SIMD128)
    .map_fast = LS_TILE_NAME(ls_tile_map_fast),
#endif
    .cast_int = LS_TILE_NAME(ls_tile_cast_int),
    .int_to_f32 = LS_TILE_NAME(ls_tile_int_to_f32),
    .int_to_f64 = LS_TILE_NAME(ls_tile_int_to_f64),
    .int_to_odd = LS_TILE_NAME(ls_tile_int_to_odd),
    .f32_to_int = LS_TILE_NAME(ls_tile_f32_to_int),
    .f64_to_int = LS_TILE_NAME(ls_tile_f64_to_int),
    .int_to_bool = LS_TILE_NAME(ls_tile_int_to_bool),
    .f32_to_f64 = LS_TILE_NAME(ls_tile_f32_to_f64),
    .f64_to_f32 = LS_TILE_NAME(ls_tile_f64_to_f32),
    .round_f32 = {LS_TILE_NAME(ls_tile_round_f32_f16), LS_TILE_NAME(ls_tile_round_f32_bf16)},
    .round_f64 = {LS_TILE_NAME(ls_tile_round_f64_f16), LS_TILE_NAME(ls_tile_round_f64_bf16)},
    .load = {[LS_F16] = LS_TILE_NAME(ls_tile_load_f16), [LS_BF16] = LS_TILE_NAME(ls_tile_load_bf16)},
    .store = {[LS_F16] = LS_TILE_NAME(ls_tile_store_f16),
              [LS_BF16] = LS_TILE_NAME(ls_tile_store_bf16),
              [LS_F32] = LS_TILE_NAME(ls_tile_store_f32),
              [LS_F64] = LS_TILE_NAME(ls_tile_store_f64)},
    .read = SIZES(read),
    .read_rows = SIZES(read_rows),
    .read_pattern = SIZES(read_pattern),
    .write = SIZES(write),
    .gather = SIZES(gather),
    .fill = SIZES(fill),
    .select = SIZES(select),
    .index = {index_div, index_mod},
    .iota = iota,
    .in_range = in_range,
    .multiple = multiple,
#if defined(LS_ISA_AVX512)
    .fold_sum_halves_f32 = LS_TILE_NAME(ls_tile_fold_sum_halves),
    .rows_sum_halves_f32 = LS_TILE_NAME(ls_tile_rows_sum_halves),
#endif
#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
    .sigmoid_f32 = LS_TILE_NAME(ls_tile_sigmoid_f32),
#endif
#if defined(LS_ISA_AVX2)
    .quarters_f32 = {[LS_FOLD_SUM] = LS_TILE_NAME(ls_tile_quarters_sum), [LS_FOLD_MAX] = LS_TILE_NAME(ls_tile_quarters_max)},
    .fast_sigmoid_f32 = LS_TILE_NAME(ls_tile_fast_sigmoid_f32),
#endif
#if defined(LS_ISA_AVX512) || defined(LS_TILE_PLAIN_FOLDS)
    .rows_f32 = LS_TILE_FOLDS(ls_tile_rows),
    .rows_squares_f32 = LS_TILE_NAME(ls_tile_rows_squares),
    .fold_squares_f32 = LS_TILE_NAME(ls_tile_fold_squares),
#endif
#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
    .far = &LS_TILE_NAME(ls_tile_far),
    .divide_f32 = LS_TILE_NAME(ls_divide_f32),
    .row_norms_f32 = LS_TILE_NAME(ls_tile_row_norms),
    .fold_exp_f32 = {LS_TILE_NAME(ls_tile_fold_exp), LS_TILE_NAME(ls_tile_fold_fast_exp)},
    .beside_f32 = LS_TILE_NAME(ls_tile_beside),
#endif
    .transpose = LS_TILE_NAME(ls_tile_transpose),
    .fold_f32 = LS_TILE_FOLDS(ls_tile_fold),
    .halve_f32 = LS_TILE_FOLDS(ls_tile_halve),
    .onto_f32 = LS_TILE_FOLDS(ls_tile_onto),
    .arg_f32 = {argmin_f32, argmax_f32},
    .place_f32 = place_f32,
    .sum_nine_f32 = sum_nine_f32,
    .pack = LS_TILE_NAME(ls_tile_pack),
    .threefry = threefry,
    .chain = LS_TILE_NAME(ls_chain_run),
};
