/* Conversions between held forms, and between stored and held forms. Each rounds once, to nearest even; to
 * integers saturating with NaN 0; integers to integers wrap. */
#include "backend/cpu/isa/tile_isa.h"
#include "base/half.h"
#if defined(LS_ISA_AVX512)
#include "backend/cpu/isa/chain_ops.h"
#endif
#if defined(LS_ISA_AVX2) || defined(LS_ISA_AVX512)
#include <immintrin.h>
#endif
#include <string.h>

#define CAST(name, T, R, expression)                                                                         \
    static void name(void *dst, const void *a, int64_t n) {                                                  \
        R *d = dst;                                                                                          \
        const T *pa = a;                                                                                     \
        LS_LANES_LOOP                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            T x = pa[i];                                                                                     \
            d[i] = (R)(expression);                                                                          \
        }                                                                                                    \
    }
/* dst may be a, narrower or wider: widening in place would overwrite lanes not yet read, so those callers use
 * two registers. */

/* Sticky: beyond 53 bits the rest is folded into a last bit, so that a second rounding is right. */
static __attribute__((noinline)) double odd_u64(uint64_t x) {
    int drop = x >> 53 ? 11 - __builtin_clzll(x) : 0;
    uint64_t kept = x >> drop, lost = x & ((UINT64_C(1) << drop) - 1);
    return (double)(kept | (lost != 0)) * (double)(UINT64_C(1) << drop);
}
static double odd_i64(int64_t x) {
    return x < 0 ? -odd_u64(-(uint64_t)x) : odd_u64((uint64_t)x);
}

/* To as many bits or fewer, and to bool, a sign makes no difference: i8 is converted as u8, and so on. */
#define FROM_INT(bits)                                                                                       \
    CAST(u##bits##_to_f32, uint##bits##_t, float, x)                                                         \
    CAST(u##bits##_to_f64, uint##bits##_t, double, x)                                                        \
    CAST(i##bits##_to_f32, int##bits##_t, float, x)                                                          \
    CAST(i##bits##_to_f64, int##bits##_t, double, x)                                                         \
    CAST(u##bits##_to_bool, uint##bits##_t, uint8_t, x != 0)
FROM_INT(8)
FROM_INT(16)
FROM_INT(32)
FROM_INT(64)
#define RESIZE(from, to) CAST(u##from##_to_##to, uint##from##_t, uint##to##_t, x)
#define WIDEN(from, to) RESIZE(from, to) CAST(i##from##_to_##to, int##from##_t, uint##to##_t, x)
WIDEN(8, 16)
WIDEN(8, 32)
WIDEN(8, 64)
RESIZE(16, 8)
WIDEN(16, 32)
WIDEN(16, 64)
RESIZE(32, 8)
RESIZE(32, 16)
RESIZE(32, 32) /* packed operands are copied by it; nobody asks for the other three */
WIDEN(32, 64)
RESIZE(64, 8)
RESIZE(64, 16)
RESIZE(64, 32)
CAST(u64_to_odd, uint64_t, double, odd_u64(x))
CAST(i64_to_odd, int64_t, double, odd_i64(x))

/* `high` is the first value beyond the range, as an exact float; HIGH what it becomes. */
#define TO_SIGNED(name, F, R, high, HIGH)                                                                    \
    CAST(name, F, R,                                                                                         \
         x != x        ? 0                                                                                   \
         : x >= (high) ? HIGH                                                                                \
         : x < -(high) ? -HIGH - 1                                                                           \
                       : (R)(x >= (high) || x < -(high) || x != x ? 0 : x))
#define TO_UNSIGNED(name, F, R, high, HIGH)                                                                  \
    CAST(name, F, R, !(x > 0) ? 0 : x >= (high) ? HIGH : (R)(x > 0 && x < (high) ? x : 0))
/* To 8 and 16 bits by way of 32, with the limits as numbers: one loop for four types. */
#define THROUGH_32(tag, F)                                                                                   \
    static __attribute__((noinline)) void tag##_within(char *dst, const F *a, F low, F high, ls_tile_cast_fn narrow, size_t size, int64_t n) { \
        int32_t part[256];                                                                                   \
        for (int64_t left = n, count; left > 0; left -= count, a += count, dst += (size_t)count * size) {    \
            count = left < 256 ? left : 256;                                                                 \
            LS_LANES_LOOP                                                                                    \
            for (int64_t i = 0; i < count; i++) {                                                            \
                F x = a[i];                                                                                  \
                part[i] = (int32_t)(x != x ? 0 : x < low ? low : x > high ? high : x);                       \
            }                                                                                                \
            narrow(dst, part, count);                                                                        \
        }                                                                                                    \
    }                                                                                                        \
    NARROW(tag##_to_u8, tag, 0, UINT8_MAX, 8)                                                                \
    NARROW(tag##_to_u16, tag, 0, UINT16_MAX, 16)                                                             \
    NARROW(tag##_to_i8, tag, INT8_MIN, INT8_MAX, 8)                                                          \
    NARROW(tag##_to_i16, tag, INT16_MIN, INT16_MAX, 16)
#define NARROW(name, tag, low, high, bits)                                                                   \
    static void name(void *dst, const void *a, int64_t n) {                                                  \
        tag##_within(dst, a, low, high, u32_to_##bits, sizeof(uint##bits##_t), n);                           \
    }
#define TO_INT(tag, F)                                                                                       \
    THROUGH_32(tag, F)                                                                                       \
    TO_UNSIGNED(tag##_to_u32, F, uint32_t, (F)0x1p32, UINT32_MAX)                                            \
    TO_UNSIGNED(tag##_to_u64, F, uint64_t, (F)0x1p64, UINT64_MAX)                                            \
    TO_SIGNED(tag##_to_i32, F, int32_t, (F)0x1p31, INT32_MAX)                                                \
    TO_SIGNED(tag##_to_i64, F, int64_t, (F)0x1p63, INT64_MAX)                                                \
    CAST(tag##_to_bool, F, uint8_t, x != 0)
TO_INT(f32, float)
TO_INT(f64, double)

#define PER_INT(suffix)                                                                                      \
    {                                                                                                        \
        [LS_BOOL] = u8_to_##suffix, [LS_U8] = u8_to_##suffix, [LS_U16] = u16_to_##suffix,                    \
        [LS_U32] = u32_to_##suffix, [LS_U64] = u64_to_##suffix, [LS_I8] = i8_to_##suffix,                    \
        [LS_I16] = i16_to_##suffix, [LS_I32] = i32_to_##suffix, [LS_I64] = i64_to_##suffix                   \
    }
#define SIZES_OF_8(tag) {NULL, tag##_to_16, tag##_to_32, tag##_to_64}
#define SIZES_OF_16(tag) {u16_to_8, NULL, tag##_to_32, tag##_to_64}
#define SIZES_OF_32(tag) {u32_to_8, u32_to_16, u32_to_32, tag##_to_64}
#define SIZES_OF_64 {u64_to_8, u64_to_16, u64_to_32, NULL}
const ls_tile_cast_fn LS_TILE_NAME(ls_tile_cast_int)[LS_F16][4] = {
    [LS_BOOL] = SIZES_OF_8(u8),  [LS_U8] = SIZES_OF_8(u8),    [LS_I8] = SIZES_OF_8(i8),
    [LS_U16] = SIZES_OF_16(u16), [LS_I16] = SIZES_OF_16(i16), [LS_U32] = SIZES_OF_32(u32),
    [LS_I32] = SIZES_OF_32(i32), [LS_U64] = SIZES_OF_64,      [LS_I64] = SIZES_OF_64};
const ls_tile_cast_fn LS_TILE_NAME(ls_tile_int_to_f32)[LS_F16] = PER_INT(f32);
const ls_tile_cast_fn LS_TILE_NAME(ls_tile_int_to_f64)[LS_F16] = PER_INT(f64);
const ls_tile_cast_fn LS_TILE_NAME(ls_tile_int_to_bool)[LS_F16] = {
    [LS_BOOL] = u8_to_bool, [LS_U8] = u8_to_bool, [LS_U16] = u16_to_bool, [LS_U32] = u32_to_bool, [LS_U64] = u64_to_bool,
    [LS_I8] = u8_to_bool, [LS_I16] = u16_to_bool, [LS_I32] = u32_to_bool, [LS_I64] = u64_to_bool};
const ls_tile_cast_fn LS_TILE_NAME(ls_tile_int_to_odd)[LS_F16] = {
    [LS_BOOL] = u8_to_f64, [LS_U8] = u8_to_f64,   [LS_U16] = u16_to_f64,
    [LS_U32] = u32_to_f64, [LS_U64] = u64_to_odd, [LS_I8] = i8_to_f64,
    [LS_I16] = i16_to_f64, [LS_I32] = i32_to_f64, [LS_I64] = i64_to_odd};
#define TO_INTS(tag)                                                                                         \
    {                                                                                                        \
        [LS_BOOL] = tag##_to_bool, [LS_U8] = tag##_to_u8, [LS_U16] = tag##_to_u16, [LS_U32] = tag##_to_u32,  \
        [LS_U64] = tag##_to_u64, [LS_I8] = tag##_to_i8, [LS_I16] = tag##_to_i16, [LS_I32] = tag##_to_i32,    \
        [LS_I64] = tag##_to_i64                                                                              \
    }
const ls_tile_cast_fn LS_TILE_NAME(ls_tile_f32_to_int)[LS_F16] = TO_INTS(f32);
const ls_tile_cast_fn LS_TILE_NAME(ls_tile_f64_to_int)[LS_F16] = TO_INTS(f64);

/* ---- floats ---- */
#define EXPORTED(name, T, R, expression)                                                                     \
    void LS_TILE_NAME(name)(void *dst, const void *a, int64_t n) {                                           \
        R *d = dst;                                                                                          \
        const T *pa = a;                                                                                     \
        LS_LANES_LOOP                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            T x = pa[i];                                                                                     \
            d[i] = (R)(expression);                                                                          \
        }                                                                                                    \
    }
EXPORTED(ls_tile_f32_to_f64, float, double, x)
EXPORTED(ls_tile_f64_to_f32, double, float, x)
EXPORTED(ls_tile_round_f64_f16, double, float, ls_f16_to_f32(ls_f64_to_f16(x)))
EXPORTED(ls_tile_round_f64_bf16, double, float, ls_bf16_to_f32(ls_f64_to_bf16(x)))

/* bf16 is the high half of f32: add half a unit, less one unless the kept part is odd. NaN apart. */
#define BF16_BITS(x)                                                                                         \
    ((x & 0x7fffffffu) > 0x7f800000u ? LS_NAN_BF16 << 16 : (x + 0x7fffu + (x >> 16 & 1)) & 0xffff0000u)
EXPORTED(ls_tile_round_f32_bf16, uint32_t, uint32_t, BF16_BITS(x))
EXPORTED(ls_tile_load_bf16, uint16_t, uint32_t, (uint32_t)x << 16)
EXPORTED(ls_tile_store_bf16, uint32_t, uint16_t, BF16_BITS(x) >> 16)
#ifdef LS_ISA_AVX512
void LS_TILE_NAME(ls_tile_store_f32)(void *dst, const void *a, int64_t n) {
    const float *x = a;
    float *d = dst, *end = d + n / 16 * 16;
    for (; d < end; d += 16, x += 16) {
        *(ls_vf32_any *)d = ls_canonical(*(const ls_vf32_any *)x);
    }
    if (n % 16) {
        const __mmask16 lanes = LS_LANES_LEFT(n % 16);
        _mm512_mask_storeu_ps(d, lanes, (__m512)ls_canonical((ls_vf32)_mm512_maskz_loadu_ps(lanes, x)));
    }
}
#else
EXPORTED(ls_tile_store_f32, uint32_t, uint32_t, (x & 0x7fffffffu) > 0x7f800000u ? LS_NAN_F32 : x)
#endif
EXPORTED(ls_tile_store_f64, uint64_t, uint64_t,
         (x & UINT64_C(0x7fffffffffffffff)) > UINT64_C(0x7ff0000000000000) ? LS_NAN_F64 : x)

#if defined(LS_ISA_AVX2) || defined(LS_ISA_AVX512)
/* The conversion instructions round as the immediate says, whatever MXCSR does with subnormals. */
static __m128i narrow8(const float *x) {
    __m256 v = _mm256_loadu_ps(x);
    __m128i h = _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    __m128i nan16 = _mm_packs_epi32(_mm256_castsi256_si128(nan), _mm256_extracti128_si256(nan, 1));
    return _mm_blendv_epi8(h, _mm_set1_epi16(LS_NAN_F16), nan16);
}
void LS_TILE_NAME(ls_tile_store_f16)(void *dst, const void *a, int64_t n) {
    uint16_t *d = dst;
    const float *x = a;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        _mm_storeu_si128((__m128i *)(void *)(d + i), narrow8(x + i));
    }
    for (; i < n; i++) {
        d[i] = ls_f32_to_f16(x[i]);
    }
}
void LS_TILE_NAME(ls_tile_load_f16)(void *dst, const void *a, int64_t n) {
    float *d = dst;
    const uint16_t *x = a;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + i))));
    }
    for (; i < n; i++) {
        d[i] = ls_f16_to_f32(x[i]);
    }
}
void LS_TILE_NAME(ls_tile_round_f32_f16)(void *dst, const void *a, int64_t n) {
    float *d = dst;
    const float *x = a;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(d + i, _mm256_cvtph_ps(narrow8(x + i)));
    }
    for (; i < n; i++) {
        d[i] = ls_f16_to_f32(ls_f32_to_f16(x[i]));
    }
}
#else
EXPORTED(ls_tile_store_f16, float, uint16_t, ls_f32_to_f16(x))
EXPORTED(ls_tile_load_f16, uint16_t, float, ls_f16_to_f32(x))
EXPORTED(ls_tile_round_f32_f16, float, float, ls_f16_to_f32(ls_f32_to_f16(x)))
#endif
