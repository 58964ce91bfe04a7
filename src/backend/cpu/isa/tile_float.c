/* MAP operations on f32 and f64 lanes; one text for both. min and max: NaN if either is, and -0 below +0. The
 * remainder is exact. */
#include "backend/cpu/chain.h"
#include "backend/cpu/isa/tile_isa.h"
#include "backend/cpu/isa/tile_math.h"
#include <string.h>
#if defined(LS_ISA_AVX512)
#include "backend/cpu/isa/chain_ops.h"
#include <immintrin.h>
#endif

/* On the bits, as lanes of unsigned integers. Equal operands differ at most in the sign of zero: OR keeps a
 * minus, AND a plus. */
#define EXTREME(name, T, U, better, zeros)                                                                   \
    static void name(void *dst, const void *a, const void *b, const void *c, int64_t n) {                    \
        T *d = dst;                                                                                          \
        const T *pa = a, *pb = b;                                                                            \
        (void)c;                                                                                             \
        LS_LANES_LOOP                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            T x = pa[i], y = pb[i];                                                                          \
            union {                                                                                          \
                T f;                                                                                         \
                U u;                                                                                         \
            } ux = {x}, uy = {y}, same;                                                                      \
            same.u = ux.u zeros uy.u;                                                                        \
            T r = x better y ? x : y;                                                                        \
            r = x == y ? same.f : r;                                                                         \
            d[i] = x != x ? x : r; /* with y NaN every comparison is false: r is y */                        \
        }                                                                                                    \
    }
#define SIGNLESS(name, T, U, expression)                                                                     \
    static void name(void *dst, const void *a, const void *b, const void *c, int64_t n) {                    \
        U *d = dst;                                                                                          \
        const U *pa = a;                                                                                     \
        (void)b, (void)c;                                                                                    \
        LS_LANES_LOOP                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            U x = pa[i];                                                                                     \
            d[i] = (expression);                                                                             \
        }                                                                                                    \
    }

#define FLOATS(tag, T, U, BITS)                                                                              \
    SIGNLESS(neg_##tag, T, U, x ^ (U)1 << (BITS - 1))                                                        \
    SIGNLESS(abs_##tag, T, U, x & ~((U)1 << (BITS - 1)))                                                     \
    UNARY(sign_##tag, T, T, x > 0 ? (T)1 : x < 0 ? (T)-1 : x)                                                \
    UNARY(recip_##tag, T, T, (T)1 / x)                                                                       \
    UNARY(isnan_##tag, T, uint8_t, x != x)                                                                   \
    BINARY(add_##tag, T, T, x + y)                                                                           \
    BINARY(sub_##tag, T, T, x - y)                                                                           \
    BINARY(mul_##tag, T, T, x *y)                                                                            \
    BINARY(div_##tag, T, T, x / y)                                                                           \
    BINARY(eq_##tag, T, uint8_t, x == y)                                                                     \
    BINARY(ne_##tag, T, uint8_t, x != y)                                                                     \
    BINARY(lt_##tag, T, uint8_t, x < y)                                                                      \
    BINARY(le_##tag, T, uint8_t, x <= y)
FLOATS(f32, float, uint32_t, 32)
FLOATS(f64, double, uint64_t, 64)
EXTREME(min_f64, double, uint64_t, <, |)
EXTREME(max_f64, double, uint64_t, >, &)
#if defined(LS_ISA_AVX512)
#define EXTREME_OF(name, extreme)                                                                            \
    static inline __m512 name##16(__m512 x, __m512 y) {                                                      \
        return (__m512)extreme((ls_vf32)x, (ls_vf32)y);                                                      \
    }                                                                                                        \
    static void name##_f32(void *dst, const void *a, const void *b, const void *c, int64_t n) {              \
        float *d = dst;                                                                                      \
        const float *x = a, *y = b;                                                                          \
        int64_t i = 0;                                                                                       \
        (void)c;                                                                                             \
        for (; i + 16 <= n; i += 16) {                                                                       \
            _mm512_storeu_ps(d + i, name##16(_mm512_loadu_ps(x + i), _mm512_loadu_ps(y + i)));               \
        }                                                                                                    \
        if (i < n) {                                                                                         \
            __mmask16 m = (__mmask16)((1u << (n - i)) - 1);                                                  \
            _mm512_mask_storeu_ps(                                                                           \
                d + i, m, name##16(_mm512_maskz_loadu_ps(m, x + i), _mm512_maskz_loadu_ps(m, y + i)));       \
        }                                                                                                    \
    }
EXTREME_OF(min, ls_lowest)
EXTREME_OF(max, ls_highest)

/* All partials in registers over the whole steps of x, as memory has them; then the vectors that are left, one by one. `at` makes a vector
 * of one of x. `nan(x, y)` sees vectors that `op` would not do for: `careful` takes its place, then. Lines of x are fetched before the
 * processor would, which stops at each page. */
#define FOLD_AS(name, parameters, op, at, identity, nan, careful)                                            \
    void LS_TILE_NAME(ls_tile_fold_##name) parameters {                                                      \
        enum { fetch = LS_FOLD_AHEAD };                                                                      \
        const __m512 none = _mm512_set1_ps(identity);                                                        \
        __m512 PARTIALS;                                                                                     \
        __mmask16 nans = 0;                                                                                  \
        int64_t k = 0;                                                                                       \
        if (first) {                                                                                         \
            PAIRS(NO_PARTIALS, op, at, nan)                                                                  \
        } else {                                                                                             \
            PAIRS(LOAD_PARTIALS, op, at, nan)                                                                \
        }                                                                                                    \
        for (; k + LS_TILE_PARTIALS <= n; k += LS_TILE_PARTIALS) {                                           \
            if (fetches) {                                                                                   \
                PAIRS(FETCH, op, at, nan)                                                                    \
            }                                                                                                \
            PAIRS(STEP, op, at, nan)                                                                         \
        }                                                                                                    \
        if (!nans) {                                                                                         \
            PAIRS(STORE_PARTIALS, op, at, nan)                                                               \
        } else {                                                                                             \
            if (first) {                                                                                     \
                PAIRS(NO_PARTIALS, op, at, nan)                                                              \
                PAIRS(STORE_PARTIALS, op, at, nan)                                                           \
            }                                                                                                \
            k = 0;                                                                                           \
        }                                                                                                    \
        for (; k < n; k += 16) {                                                                             \
            float *to = p + k % LS_TILE_PARTIALS;                                                            \
            _mm512_storeu_ps(to, careful(_mm512_loadu_ps(to), at(PART(n - k, x + k), n - k)));               \
        }                                                                                                    \
    }
#define PARTIALS s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15
#define PAIRS(what, op, at, nan)                                                                             \
    what(0, 1, op, at, nan) what(2, 3, op, at, nan) what(4, 5, op, at, nan) what(6, 7, op, at, nan)          \
    what(8, 9, op, at, nan) what(10, 11, op, at, nan) what(12, 13, op, at, nan) what(14, 15, op, at, nan)
#define NO_PARTIALS(i, j, op, at, nan) s##i = s##j = none;
#define LOAD_PARTIALS(i, j, op, at, nan)                                                                     \
    s##i = _mm512_loadu_ps(p + 16 * i), s##j = _mm512_loadu_ps(p + 16 * j);                                  \
    nan(s##i, s##j)
#define FETCH(i, j, op, at, nan)                                                                             \
    __builtin_prefetch((const void *)((uintptr_t)(x + k + 16 * i) + (uintptr_t)fetch));                      \
    __builtin_prefetch((const void *)((uintptr_t)(x + k + 16 * j) + (uintptr_t)fetch));
#define FETCH_SECOND(i, j, op, at, nan)                                                                      \
    __builtin_prefetch((const void *)((uintptr_t)(x + k + 16 * i) - (uintptr_t)fetch), 0, 2);                \
    __builtin_prefetch((const void *)((uintptr_t)(x + k + 16 * j) - (uintptr_t)fetch), 0, 2);
#define FETCH_ALL(op, at, nan)                                                                               \
    if (fetch > 0) {                                                                                         \
        PAIRS(FETCH, op, at, nan)                                                                            \
    } else if (fetch < 0) {                                                                                  \
        PAIRS(FETCH_SECOND, op, at, nan)                                                                     \
    }
#define STEP(i, j, op, at, nan)                                                                              \
    {                                                                                                        \
        __m512 v = at(_mm512_loadu_ps(x + k + 16 * i), 16), w = at(_mm512_loadu_ps(x + k + 16 * j), 16);     \
        s##i = op(s##i, v), s##j = op(s##j, w);                                                              \
        nan(v, w)                                                                                            \
    }
#define STORE_PARTIALS(i, j, op, at, nan) _mm512_storeu_ps(p + 16 * i, s##i), _mm512_storeu_ps(p + 16 * j, s##j);
#define HALVE(op)                                                                                            \
    {                                                                                                        \
        __m512 a = HALF(op, 0), b = HALF(op, 1), c = HALF(op, 2), d = HALF(op, 3);                           \
        a = op(a, HALF(op, 4)), b = op(b, HALF(op, 5)), c = op(c, HALF(op, 6)), d = op(d, HALF(op, 7));      \
        a = op(op(a, c), op(b, d));                                                                          \
        a = op(a, _mm512_shuffle_f32x4(a, a, 0x4e));                                                         \
        a = op(a, _mm512_shuffle_f32x4(a, a, 0xb1));                                                         \
        a = op(a, _mm512_permute_ps(a, 0x4e));                                                               \
        *p = _mm512_cvtss_f32(op(a, _mm512_permute_ps(a, 0xb1)));                                            \
    }
#define HALF(op, i) op(_mm512_loadu_ps(p + 16 * (i)), _mm512_loadu_ps(p + 16 * (i) + 128))
#define PART(n, x) _mm512_mask_loadu_ps(none, LS_LANES_LEFT(n), x)
#define AS_IT_IS(x, n) (x)
#define UNORDERED(x, y) _mm512_cmp_ps_mask(x, y, _CMP_UNORD_Q)
#define SEEN(x, y) nans = _kor_mask16(nans, UNORDERED(x, y));
#define NEVER(x, y)
/* Lanes that are not there add +0, which no sum from +0 on notices. */
#define SQUARE_APART(x, n) square(_mm512_maskz_sub_ps(LS_LANES_LEFT(n), x, _mm512_set1_ps(minus)))
static inline __m512 square(__m512 x) {
    return _mm512_mul_ps(x, x);
}
FOLD_AS(sum, (float *p, const float *x, int64_t n, bool first, bool fetches), _mm512_add_ps, AS_IT_IS, 0.0f, NEVER, _mm512_add_ps)
FOLD_AS(prod, (float *p, const float *x, int64_t n, bool first, bool fetches), _mm512_mul_ps, AS_IT_IS, 1.0f, NEVER, _mm512_mul_ps)
FOLD_AS(squares, (float *p, const float *x, float minus, int64_t n, bool first, bool fetches), _mm512_add_ps, SQUARE_APART, 0.0f, NEVER,
        _mm512_add_ps)
void LS_TILE_NAME(ls_tile_halve_sum)(float *p)
HALVE(_mm512_add_ps)
void LS_TILE_NAME(ls_tile_halve_prod)(float *p)
HALVE(_mm512_mul_ps)

/* The same sums by halves of vectors, which are as many registers as there are. */
#define HALVES(what)                                                                                         \
    what(0) what(1) what(2) what(3) what(4) what(5) what(6) what(7) what(8) what(9) what(10) what(11)        \
    what(12) what(13) what(14) what(15)
#define ADD_HALVES(i)                                                                                        \
    a##i = _mm256_add_ps(a##i, _mm256_loadu_ps(x + k + 16 * i));                                             \
    b##i = _mm256_add_ps(b##i, _mm256_loadu_ps(x + k + 16 * i + 8));
#define NO_HALVES(i) __m256 a##i = _mm256_setzero_ps(), b##i = a##i;
#define LOAD_HALVES(i) a##i = _mm256_loadu_ps(p + 16 * i), b##i = _mm256_loadu_ps(p + 16 * i + 8);
#define STORE_HALVES(i) _mm256_storeu_ps(p + 16 * i, a##i), _mm256_storeu_ps(p + 16 * i + 8, b##i);
void LS_TILE_NAME(ls_tile_fold_sum_halves)(float *p, const float *x, int64_t n, bool first) {
    int64_t k = 0;
    HALVES(NO_HALVES)
    if (!first) {
        HALVES(LOAD_HALVES)
    }
    for (; k + LS_TILE_PARTIALS <= n; k += LS_TILE_PARTIALS) {
        HALVES(ADD_HALVES)
    }
    HALVES(STORE_HALVES)
    if (k < n) {
        LS_TILE_NAME(ls_tile_fold_sum)(p, x + k, n - k, false, false);
    }
}

#define EIGHT_HALVES(h)                                                                                      \
    _mm256_add_ps(_mm256_add_ps(_mm256_add_ps(_mm256_add_ps(h##0, h##8), _mm256_add_ps(h##4, h##12)),        \
                                _mm256_add_ps(_mm256_add_ps(h##2, h##10), _mm256_add_ps(h##6, h##14))),      \
                  _mm256_add_ps(_mm256_add_ps(_mm256_add_ps(h##1, h##9), _mm256_add_ps(h##5, h##13)),        \
                                _mm256_add_ps(_mm256_add_ps(h##3, h##11), _mm256_add_ps(h##7, h##15))))
void LS_TILE_NAME(ls_tile_rows_sum_halves)(float *results, const float *x, int64_t n, int64_t rows) {
    for (const float *end = x + rows * n; x < end; results++) {
        HALVES(NO_HALVES)
        for (int64_t k = 0; k < n; k += LS_TILE_PARTIALS) {
            HALVES(ADD_HALVES)
        }
        x += n;
        const __m256 sums = _mm256_add_ps(EIGHT_HALVES(a), EIGHT_HALVES(b));
        __m128 s = _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
        s = _mm_add_ps(s, _mm_permute_ps(s, 0x4e));
        *results = _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
    }
}

/* An extreme of numbers takes one instruction, and half of one to see that they are. */
#define FOLD_EXTREME(name, which, identity)                                                                  \
    static inline __m512 name##_number(__m512 x, __m512 y) {                                                 \
        return _mm512_range_ps(x, y, which);                                                                 \
    }                                                                                                        \
    FOLD_AS(name, (float *p, const float *x, int64_t n, bool first, bool fetches), name##_number, AS_IT_IS, identity, SEEN, name##16) \
    void LS_TILE_NAME(ls_tile_halve_##name)(float *p) {                                                      \
        __mmask16 nans = 0;                                                                                  \
        for (int i = 0; i < LS_TILE_PARTIALS; i += 32) {                                                     \
            nans |= UNORDERED(_mm512_loadu_ps(p + i), _mm512_loadu_ps(p + i + 16));                          \
        }                                                                                                    \
        if (nans) {                                                                                          \
            *p = __builtin_nanf("");                                                                         \
        } else {                                                                                             \
            HALVE(name##_number)                                                                             \
        }                                                                                                    \
    }
FOLD_EXTREME(min, 4, __builtin_inff())
FOLD_EXTREME(max, 5, -__builtin_inff())

/* Four rows at a time: as many places that memory is read at, and a result is loaded and stored once for them. */
#define ONTO(name, op, none)                                                                                 \
    static inline __attribute__((always_inline)) void name##_four(float *results, const float *x, int64_t apart, int64_t rows, int64_t n, \
                                                                  bool first, const float *next, bool second) { \
        for (int64_t i = 0; i < n; i += 16) {                                                                \
            const __mmask16 lanes = LS_LANES_LEFT(n - i);                                                    \
            __m512 s = first ? _mm512_set1_ps(none) : _mm512_maskz_loadu_ps(lanes, results + i);             \
            for (int64_t r = 0; r < rows; r++) {                                                             \
                if (next) {                                                                                  \
                    ls_fetch_line((uintptr_t)(next + i) + (uintptr_t)(r * apart) * sizeof *next, second);    \
                }                                                                                            \
                s = op(s, _mm512_maskz_loadu_ps(lanes, x + r * apart + i));                                  \
            }                                                                                                \
            _mm512_mask_storeu_ps(results + i, lanes, s);                                                    \
        }                                                                                                    \
    }                                                                                                        \
    static inline __attribute__((always_inline)) void name##_rows(float *results, const float *x, int64_t apart, int64_t rows, int64_t n, \
                                                                  bool first, const float *next, bool second) { \
        enum { FOUR = 4 };                                                                                   \
        for (; rows >= FOUR; rows -= FOUR, x += FOUR * apart) {                                              \
            name##_four(results, x, apart, FOUR, n, first, rows >= 2 * FOUR ? x + FOUR * apart : next, second); \
            first = false;                                                                                   \
        }                                                                                                    \
        if (rows || first) {                                                                                 \
            name##_four(results, x, apart, rows, n, first, next, second);                                    \
        }                                                                                                    \
    }                                                                                                        \
    void LS_TILE_NAME(ls_tile_onto_##name)(float *results, const float *x, int64_t apart, int64_t rows, int64_t n, bool first, const float *next, \
                                           bool second) {                                                    \
        if (second) {                                                                                        \
            name##_rows(results, x, apart, rows, n, first, next, true);                                      \
        } else {                                                                                             \
            name##_rows(results, x, apart, rows, n, first, next, false);                                     \
        }                                                                                                    \
    }
ONTO(sum, _mm512_add_ps, 0)
ONTO(prod, _mm512_mul_ps, 1)
ONTO(min, min16, __builtin_inff())
ONTO(max, max16, -__builtin_inff())

/* Rows of one block whole, halved where they are. Lanes behind a row's end are the identity; vectors that begin there are of its last lane,
 * under an empty mask. */
#define LAST(i, j, op, at, nan)                                                                              \
    {                                                                                                        \
        const int64_t left = n - k - 16 * (i), right = left - 16;                                            \
        const __m512 v = at(PART(left, x + k + WITHIN(i)), left), w = at(PART(right, x + k + WITHIN(j)), right); \
        s##i = op(s##i, v), s##j = op(s##j, w);                                                              \
        nan(v, w)                                                                                            \
    }
#define WITHIN(i) (16 * (i) < n - k ? 16 * (i) : n - k - 1)
#define ROWS_AS(name, op, at, identity, nan)                                                                 \
    void LS_TILE_NAME(ls_tile_rows_##name)(float *results, const float *x, float minus, int64_t n, int64_t rows, int64_t fetch) { \
        const __m512 none = _mm512_set1_ps(identity);                                                        \
        __m512 PARTIALS;                                                                                     \
        (void)minus;                                                                                         \
        for (; rows > 0; rows--, x += n, results++) {                                                        \
            __mmask16 nans = 0;                                                                              \
            int64_t k = 0;                                                                                   \
            PAIRS(NO_PARTIALS, op, at, nan)                                                                  \
            for (; k + LS_TILE_PARTIALS <= n; k += LS_TILE_PARTIALS) {                                       \
                FETCH_ALL(op, at, nan)                                                                       \
                PAIRS(STEP, op, at, nan)                                                                     \
            }                                                                                                \
            if (k < n) {                                                                                     \
                FETCH_ALL(op, at, nan)                                                                       \
                PAIRS(LAST, op, at, nan)                                                                     \
            }                                                                                                \
            if (nans) {                                                                                      \
                *results = __builtin_nanf("");                                                               \
                continue;                                                                                    \
            }                                                                                                \
            s0 = op(op(op(s0, s8), op(s4, s12)), op(op(s2, s10), op(s6, s14)));                              \
            s1 = op(op(op(s1, s9), op(s5, s13)), op(op(s3, s11), op(s7, s15)));                              \
            s0 = op(s0, s1);                                                                                 \
            s0 = op(s0, _mm512_shuffle_f32x4(s0, s0, 0x4e));                                                 \
            s0 = op(s0, _mm512_shuffle_f32x4(s0, s0, 0xb1));                                                 \
            s0 = op(s0, _mm512_permute_ps(s0, 0x4e));                                                        \
            *results = _mm512_cvtss_f32(op(s0, _mm512_permute_ps(s0, 0xb1)));                                \
        }                                                                                                    \
    }
ROWS_AS(sum, _mm512_add_ps, AS_IT_IS, 0.0f, NEVER)
ROWS_AS(squares, _mm512_add_ps, SQUARE_APART, 0.0f, NEVER)
ROWS_AS(prod, _mm512_mul_ps, AS_IT_IS, 1.0f, NEVER)
ROWS_AS(min, min_number, AS_IT_IS, __builtin_inff(), SEEN)
ROWS_AS(max, max_number, AS_IT_IS, -__builtin_inff(), SEEN)
#else
EXTREME(min_f32, float, uint32_t, <, |)
EXTREME(max_f32, float, uint32_t, >, &)
#endif
UNARY(isinf_f32, float, uint8_t, x == __builtin_inff() || x == -__builtin_inff())
UNARY(isinf_f64, double, uint8_t, x == __builtin_inf() || x == -__builtin_inf())
UNARY(sqrt_f32, float, float, __builtin_sqrtf(x))
UNARY(sqrt_f64, double, double, __builtin_sqrt(x))
UNARY(rsqrt_f32, float, float, 1.0f / __builtin_sqrtf(x))
UNARY(rsqrt_f64, double, double, 1.0 / __builtin_sqrt(x))

/* The remainder, by subtracting the divisor's significand at every binary place of the quotient, several
 * places at a time. */
static double remainder_of(double x, double y) {
    const uint64_t infinity = UINT64_C(0x7ff) << 52, unit = UINT64_C(1) << 52;
    uint64_t a, b;
    memcpy(&a, &x, sizeof a);
    memcpy(&b, &y, sizeof b);
    uint64_t sign = a >> 63 << 63;
    a &= ~(UINT64_C(1) << 63);
    b &= ~(UINT64_C(1) << 63);
    if (a >= infinity || b > infinity || b == 0) {
        return __builtin_nan("");
    }
    if (a < b) {
        return x;
    }
    int place_a = a >> 52 ? (int)(a >> 52) : 1, place_b = b >> 52 ? (int)(b >> 52) : 1;
    uint64_t high = a >> 52 ? (a & (unit - 1)) | unit : a, divisor = b >> 52 ? (b & (unit - 1)) | unit : b;
    uint64_t rest = high % divisor;
    while (place_a > place_b && rest != 0) { /* rest < 2^53, so that eleven more places fit into 64 bits */
        int places = place_a - place_b < 11 ? place_a - place_b : 11;
        rest = (rest << places) % divisor;
        place_a -= places;
    }
    int place = place_b;
    while (rest != 0 && rest < unit && place > 1) {
        rest <<= 1;
        place--;
    }
    a = sign | (rest < unit ? rest : (rest - unit) | (uint64_t)place << 52);
    memcpy(&x, &a, sizeof x);
    return x;
}
BINARY(rem_f32, float, float, remainder_of((double)x, (double)y))
BINARY(rem_f64, double, double, remainder_of(x, y))

#define ROWS(tag)                                                                                            \
    [LS_OP_NEG] = neg_##tag, [LS_OP_ABS] = abs_##tag, [LS_OP_SIGN] = sign_##tag, [LS_OP_SQRT] = sqrt_##tag,  \
    [LS_OP_RSQRT] = rsqrt_##tag, [LS_OP_RECIP] = recip_##tag, [LS_OP_ISNAN] = isnan_##tag,                   \
    [LS_OP_ISINF] = isinf_##tag, [LS_OP_ADD] = add_##tag, [LS_OP_SUB] = sub_##tag, [LS_OP_MUL] = mul_##tag,  \
    [LS_OP_DIV] = div_##tag, [LS_OP_REM] = rem_##tag, [LS_OP_MIN] = min_##tag, [LS_OP_MAX] = max_##tag,      \
    [LS_OP_EQ] = eq_##tag, [LS_OP_NE] = ne_##tag, [LS_OP_LT] = lt_##tag, [LS_OP_LE] = le_##tag,              \
    [LS_OP_FLOOR] = LS_TILE_MATH(floor, tag), [LS_OP_CEIL] = LS_TILE_MATH(ceil, tag),                        \
    [LS_OP_TRUNC] = LS_TILE_MATH(trunc, tag), [LS_OP_RINT] = LS_TILE_MATH(rint, tag),                        \
    [LS_OP_CBRT] = LS_TILE_MATH(cbrt, tag), [LS_OP_EXP] = LS_TILE_MATH(exp, tag),                            \
    [LS_OP_EXP2] = LS_TILE_MATH(exp2, tag), [LS_OP_EXPM1] = LS_TILE_MATH(expm1, tag),                        \
    [LS_OP_LOG] = LS_TILE_MATH(log, tag), [LS_OP_LOG2] = LS_TILE_MATH(log2, tag),                            \
    [LS_OP_LOG1P] = LS_TILE_MATH(log1p, tag), [LS_OP_SIN] = LS_TILE_MATH(sin, tag),                          \
    [LS_OP_COS] = LS_TILE_MATH(cos, tag), [LS_OP_TAN] = LS_TILE_MATH(tan, tag),                              \
    [LS_OP_ASIN] = LS_TILE_MATH(asin, tag), [LS_OP_ACOS] = LS_TILE_MATH(acos, tag),                          \
    [LS_OP_ATAN] = LS_TILE_MATH(atan, tag), [LS_OP_SINH] = LS_TILE_MATH(sinh, tag),                          \
    [LS_OP_COSH] = LS_TILE_MATH(cosh, tag), [LS_OP_TANH] = LS_TILE_MATH(tanh, tag),                          \
    [LS_OP_ERF] = LS_TILE_MATH(erf, tag), [LS_OP_ERFC] = LS_TILE_MATH(erfc, tag),                            \
    [LS_OP_POW] = LS_TILE_MATH(pow, tag)

const ls_tile_fn LS_TILE_NAME(ls_tile_map_f32)[LS_OP_COUNT] = {ROWS(f32)};
const ls_tile_fn LS_TILE_NAME(ls_tile_map_f64)[LS_OP_COUNT] = {ROWS(f64)};
