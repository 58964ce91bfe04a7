/* Sums of exponentials of x - minus in arithmetic that may fuse, and meanwhile quotients of another row: a softmax's last pass over a row
 * is done with the exponentials of the next one, so that what goes to memory does not go all at once. The bits of fast.inc's exp. Below the same
 * of AVX2 in locked arithmetic, of which AVX-512 has a file of its own (fold_exp_fast.c).
 *
 * A row's numbers are mostly within 64 beneath its largest. There the power of two goes into the table's number, or the polynomial's, by a
 * shift and an addition of integers: the clamp and the scaling that others need take four places of the two ports that add on Zen 4. */
#include "backend/cpu/isa/tile_math.h"
#include "math/const32.h"

#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
#include "backend/cpu/isa/quotient.h"
#include <string.h>

typedef ls_vf32 V;
enum { LANES = 4 * LS_LANES_F32, MANTISSA = 23, OF_SIXTEENTHS = 4 };

#define LOAD(p, i) ((V) * (const ls_vf32_any *)((p) + (i) * LS_LANES_F32))
#define STORE(p, i, x) *(ls_vf32_any *)((p) + (i) * LS_LANES_F32) = x;

/* -t is what exponentials are wanted of: -t = n ln 2 + r for a whole n, or one in sixteenths, which u's lowest bits are. */
#define DISTANCE(i) V t##i = minuend - LOAD(x + k, i);
#define REDUCE(i)                                                                                            \
    const V u##i = FNMA(t##i, by_ln2, magic), n##i = u##i - magic;                                           \
    const V r##i = FNMA(n##i, ln2_2, FNMS(n##i, ln2_1, t##i));
#define KEEP(i) STORE(dst + k, i, e##i)
#define SUM(i) sum##i = sum##i + e##i;

#if defined(LS_ISA_AVX512)
static const float powers[16] = {LS_K32_SIXTEENTHS}, terms[] = {LS_K32_EXP_NEAR}; /* the latter after their number */
#define MAGIC LS_K32_EXP_MAGIC
#define FNMS(a, b, c) ((V)_mm512_fnmsub_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define CLAMP(i) t##i = LS_BELOW(most, LS_ABOVE(least, t##i)); /* a NaN stays */
#define POWER(i) V s##i = (V)_mm512_permutexvar_ps((__m512i)u##i, (__m512)table);
#define SCALE_FIRST(i) s##i = (V)_mm512_add_epi32((__m512i)s##i, _mm512_slli_epi32((__m512i)u##i, MANTISSA - OF_SIXTEENTHS));
#define EXPONENTIAL(i)                                                                                       \
    const V p##i = FMA(FMA(r##i, cubic, quadratic), r##i, one);                                              \
    e##i = FMA(s##i * r##i, p##i, s##i);
#define SCALE_LAST(i) e##i = (V)_mm512_scalef_ps((__m512)e##i, (__m512)n##i);
/* of those that are negative or no number the bits are more */
#define HIGHER(u, v) _mm512_max_epu32((__m512i)(u), (__m512i)(v))
#define ARE_WITHIN(bits) !_mm512_cmpgt_epu32_mask(bits, (__m512i)LS_SPLAT_F32(64.0f))
#else
static const float terms[] = {LS_K32_EXP_FAST};
#define MAGIC LS_K32_MAGIC
#define FNMS(a, b, c) ((V)_mm256_fnmsub_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define BEGIN_TERM(i) e##i = FMA(r##i, term, later);
#define NEXT_TERM(i) e##i = FMA(e##i, r##i, term);
#define SCALE(i) e##i = (V)_mm256_add_epi32((__m256i)e##i, _mm256_slli_epi32((__m256i)u##i, MANTISSA));
#define AS_FAR(i) STORE(dst + k, i, -t##i)
#define FROM_FAR(i) e##i = LOAD(dst + k, i);
#define HIGHER(u, v) _mm256_max_epu32((__m256i)(u), (__m256i)(v))
#define ARE_WITHIN(bits)                                                                                     \
    (_mm256_movemask_epi8(_mm256_cmpeq_epi32(HIGHER(bits, LS_SPLAT_F32(64.0f)), (__m256i)LS_SPLAT_F32(64.0f))) == -1)
#endif

/* Numbers that are no NaN by what y and z are together, not rounded correctly. */
#define QUOTIENT(i) const V v##i = LOAD(others + k, i), q##i = FMA(v##i, y, v##i * z);
#define PUT_QUOTIENT(i) STORE(quotients + k, i, q##i)
#define PUT_QUOTIENT_FAR(i) LS_STREAM(quotients + k + (i) * LS_LANES_F32, q##i);

/* The larger ones of `most` and of LANES numbers, or of fewer. */
static inline __attribute__((always_inline)) V highest_of(V most, const float *x) {
    return LS_ABOVE(most, LS_ABOVE(LS_ABOVE(LOAD(x, 0), LOAD(x, 1)), LS_ABOVE(LOAD(x, 2), LOAD(x, 3))));
}
static V highest_of_part(V most, const float *x, int64_t n) {
    for (; n >= LS_LANES_F32; n -= LS_LANES_F32, x += LS_LANES_F32) {
        most = LS_ABOVE(most, LOAD(x, 0));
    }
#if defined(LS_ISA_AVX512)
    return (V)_mm512_max_ps((__m512)most, _mm512_mask_loadu_ps((__m512)most, LS_LANES_LEFT(n), x));
#else
    for (int64_t i = 0; i < n; i++) {
        most = LS_ABOVE(LS_SPLAT_F32(x[i]), most);
    }
    return most;
#endif
}
static float highest_lane(V x) {
#if defined(LS_ISA_AVX512)
    return _mm512_reduce_max_ps((__m512)x);
#else
    float lanes[LS_LANES_F32];
    STORE(lanes, 0, x)
    return highest_of_part(x, lanes + 1, LS_LANES_F32 - 1)[0];
#endif
}

/* The lanes from k on, fewer than LANES, and what else is done with a row's last ones. Always inlined: gcc 12 returns from a function that takes a vector
 * without clearing the registers' upper halves, and all that is compiled for SSE takes 1.4 of the time then. */
static inline __attribute__((always_inline)) void end_row(ls_fold_exp_fn fold, float *partials, float *dst, const float *x, float minus, int64_t k, int64_t n,
                                                          const ls_tile_beside *beside, V highest) {
    if (k < n) {
        float part[LANES] = {0}, sums[LS_TILE_PARTIALS];
        const ls_tile_beside none = {.fetch = (uintptr_t)part};
        memcpy(part, x + k, (size_t)(n - k) * sizeof *x);
        fold(sums, part, part, minus, LANES, true, &none);
        memcpy(dst + k, part, (size_t)(n - k) * sizeof *x);
        for (int64_t i = k; i < n; i++) {
            partials[i % LS_TILE_PARTIALS] += dst[i];
        }
        if (beside->x) {
            LS_TILE_NAME(ls_divide_f32)(beside->dst + k, beside->x + k, 0, beside->divisor, n - k, beside->near, LS_DST_NEAR);
        }
        if (beside->next) {
            highest = highest_of_part(highest, beside->next + k, n - k);
        }
    }
    if (beside->next) {
        *beside->highest = highest_lane(highest);
    }
}

/* All goes to the partials of four vectors, so that lines follow each other. */
#define BEGIN(i) V sum##i = first ? (V){0} : LOAD(partials, i);
#define END(i) STORE(partials, i, sum##i)
bool LS_TILE_NAME(ls_tile_fold_fast_exp)(float *partials, float *dst, const float *x, float minus, int64_t n, bool first,
                                         const ls_tile_beside *beside) {
    const bool far = beside->far, second = beside->second;
    const float *others = beside->x, *next = beside->next;
    float *quotients = beside->dst;
    const V minuend = LS_SPLAT_F32(minus), y = LS_SPLAT_F32(beside->y), z = LS_SPLAT_F32(beside->z), one = LS_SPLAT_F32(1.0f);
    const V by_ln2 = LS_SPLAT_F32((float)LS_K32_INVLN2), magic = LS_SPLAT_F32((float)MAGIC);
    const V ln2_1 = LS_SPLAT_F32((float)LS_K32_LN2_1), ln2_2 = LS_SPLAT_F32((float)LS_K32_LN2_2);
#if defined(LS_ISA_AVX512)
    const V quadratic = LS_SPLAT_F32(terms[1]), cubic = LS_SPLAT_F32(terms[2]);
    const V least = LS_SPLAT_F32(-(float)LS_K32_EXP_MAX), most = LS_SPLAT_F32(-(float)LS_K32_EXP_MIN);
    /* less what the shift of the sixteenths adds */
    const __m512i sixteenths = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const V plain = LOAD(powers, 0), less = (V)_mm512_sub_epi32((__m512i)plain, _mm512_slli_epi32(sixteenths, MANTISSA - OF_SIXTEENTHS));
#endif
    const uintptr_t fetch = beside->fetch;
    V highest = LS_SPLAT_F32(-__builtin_inff());
    int64_t k = 0;
    FOUR(BEGIN)
    for (; k + LANES <= n; k += LANES) {
        V e0, e1, e2, e3;
        FOUR(DISTANCE)
        const bool near = ARE_WITHIN(HIGHER(HIGHER(t0, t1), HIGHER(t2, t3)));
#if defined(LS_ISA_AVX512)
        if (__builtin_expect(near, 1)) {
            const V table = less;
            FOUR(REDUCE)
            FOUR(POWER)
            FOUR(SCALE_FIRST)
            FOUR(EXPONENTIAL)
        } else {
            const V table = plain;
            FOUR(CLAMP)
            FOUR(REDUCE)
            FOUR(POWER)
            FOUR(EXPONENTIAL)
            FOUR(SCALE_LAST)
        }
#else
        if (__builtin_expect(near, 1)) {
            FOUR(REDUCE)
            V term = LS_SPLAT_F32(terms[4]);
            const V later = LS_SPLAT_F32(terms[3]);
            FOUR(BEGIN_TERM)
            term = LS_SPLAT_F32(terms[2]);
            FOUR(NEXT_TERM)
            term = LS_SPLAT_F32(terms[1]);
            FOUR(NEXT_TERM)
            term = LS_SPLAT_F32(0.5f);
            FOUR(NEXT_TERM)
            term = one;
            FOUR(NEXT_TERM)
            FOUR(NEXT_TERM)
            FOUR(SCALE)
        } else {
            FOUR(AS_FAR)
            LS_TILE_MATH(fast_exp, f32)(dst + k, dst + k, NULL, NULL, LANES);
            FOUR(FROM_FAR)
        }
#endif
        FOUR(KEEP)
        ls_fetch_lines(fetch + (uintptr_t)k * sizeof *x, LANES, second);
        FOUR(SUM)
        if (others) {
            FOUR(QUOTIENT)
            if (far) {
                FOUR(PUT_QUOTIENT_FAR)
            } else {
                FOUR(PUT_QUOTIENT)
            }
        }
        if (next) {
            highest = highest_of(highest, next + k);
        }
    }
    FOUR(END)
    for (int i = LANES; first && i < LS_TILE_PARTIALS; i += LS_LANES_F32) {
        STORE(partials + i, 0, (V){0})
        __asm__ volatile(""); /* no instruction for strings, which would wait for what goes past the caches: 1.5 of the time */
    }
    end_row(LS_TILE_NAME(ls_tile_fold_fast_exp), partials, dst, x, minus, k, n, beside, highest);
    return true;
}

#if defined(LS_ISA_AVX2)
/* In locked arithmetic: the bits of math.inc's exp, of additions and of divisions, of which the divider does a vector's in four cycles beside all else. Products
 * that are exact are fused with the addition behind them. */
#define WHOLE(i) V n##i = t##i * by_ln2;
#define BITS_OF(i) const V u##i = n##i + magic;
#define REST(i)                                                                                              \
    n##i = u##i - magic;                                                                                     \
    const V r##i = FNMS(n##i, ln2_1, t##i) - n##i * ln2_2;
#define BEGIN_LOCKED(i) V p##i = r##i * term;
#define PLUS(i) p##i = p##i + term;
#define BY_R(i) p##i = p##i * r##i;
#define SQUARE(i) const V z##i = r##i * r##i;
#define BY_CUBE(i) p##i = z##i * r##i * p##i;
#define HALF_SQUARE(i) p##i = FMA(z##i, term, p##i);
#define TO_ONE(i) e##i = term + r##i;
#define LEFT(i) p##i = ((term - e##i) + r##i) + p##i;
#define TOGETHER(i) e##i = e##i + p##i;
#define FIRST_SUM(i) STORE(sums, i, e##i)
#define NEXT_SUM(i) STORE(sums, i, LOAD(sums, i) + e##i)
#define DIVIDE(i) const V q##i = LOAD(others + k, i) / divisor;
bool LS_TILE_NAME(ls_tile_fold_exp)(float *partials, float *dst, const float *x, float minus, int64_t n, bool first, const ls_tile_beside *beside) {
    static const float coefficients[] = {LS_K32_EXP};
    const bool far = beside->far, second = beside->second;
    const float *others = beside->x, *next = beside->next;
    float *quotients = beside->dst;
    const V minuend = LS_SPLAT_F32(minus), divisor = LS_SPLAT_F32(beside->divisor), magic = LS_SPLAT_F32((float)LS_K32_MAGIC);
    const V by_ln2 = LS_SPLAT_F32(-(float)LS_K32_INVLN2), ln2_1 = LS_SPLAT_F32((float)LS_K32_LN2_1), ln2_2 = LS_SPLAT_F32((float)LS_K32_LN2_2);
    V highest = LS_SPLAT_F32(-__builtin_inff());
    int64_t k = 0;
    for (; k + LANES <= n; k += LANES) {
        float *sums = partials + k % LS_TILE_PARTIALS;
        V e0, e1, e2, e3;
        FOUR(DISTANCE)
        if (__builtin_expect(ARE_WITHIN(HIGHER(HIGHER(t0, t1), HIGHER(t2, t3))), 1)) {
            FOUR(WHOLE)
            FOUR(BITS_OF)
            FOUR(REST)
            V term = LS_SPLAT_F32(coefficients[5]);
            FOUR(BEGIN_LOCKED)
            for (int i = 4; i > 1; i--) {
                term = LS_SPLAT_F32(coefficients[i]);
                FOUR(PLUS)
                FOUR(BY_R)
            }
            term = LS_SPLAT_F32(coefficients[1]);
            FOUR(PLUS)
            FOUR(SQUARE)
            FOUR(BY_CUBE)
            term = LS_SPLAT_F32(0.5f);
            FOUR(HALF_SQUARE)
            term = LS_SPLAT_F32(1.0f);
            FOUR(TO_ONE)
            FOUR(LEFT)
            FOUR(TOGETHER)
            FOUR(SCALE)
        } else {
            FOUR(AS_FAR)
            LS_TILE_MATH(exp, f32)(dst + k, dst + k, NULL, NULL, LANES);
            FOUR(FROM_FAR)
        }
        FOUR(KEEP)
        ls_fetch_lines(beside->fetch + (uintptr_t)k * sizeof *x, LANES, second);
        if (first && k < LS_TILE_PARTIALS) {
            FOUR(FIRST_SUM)
        } else {
            FOUR(NEXT_SUM)
        }
        if (others) {
            FOUR(DIVIDE)
            if (far) {
                FOUR(PUT_QUOTIENT_FAR)
            } else {
                FOUR(PUT_QUOTIENT)
            }
        }
        if (next) {
            highest = highest_of(highest, next + k);
        }
    }
    for (int64_t i = k; first && i < LS_TILE_PARTIALS; i += LS_LANES_F32) {
        STORE(partials + i, 0, (V){0})
        __asm__ volatile(""); /* as above */
    }
    end_row(LS_TILE_NAME(ls_tile_fold_exp), partials, dst, x, minus, k, n, beside, highest);
    return true;
}
#endif
#endif
