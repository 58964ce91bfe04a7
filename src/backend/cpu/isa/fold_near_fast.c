/* Sums of exponentials of x - minus in arithmetic that may fuse, and meanwhile quotients of another row: a softmax's last pass over a row
 * is done with the exponentials of the next one, so that what goes to memory does not go all at once. The bits of fast.inc's exp.
 *
 * A row's numbers are mostly within 64 beneath its largest. There the power of two goes into the table's number, by a shift and an addition
 * of integers: the clamp and the scaling that others need take four places of the two ports that add on Zen 4. */
#include "backend/cpu/isa/tile_isa.h"
#include "math/const32.h"

#if defined(LS_ISA_AVX512)
#include <immintrin.h>
#include <string.h>

typedef __m512 V;
enum { LANES = 64, MANTISSA = 23, OF_SIXTEENTHS = 4 };

static const float powers[16] = {LS_K32_SIXTEENTHS}, terms[] = {LS_K32_EXP_NEAR}; /* the latter after their number */

#define FOUR(X) X(0) X(1) X(2) X(3)
#define LOAD(p, i) _mm512_loadu_ps((p) + 16 * i)

/* -t is what exponentials are wanted of: -t = n ln 2 + r for n in sixteenths, which u's lowest bits are. */
#define APART(i) V t##i = _mm512_sub_ps(apart, LOAD(x + k, i));
#define CLAMP(i) t##i = _mm512_min_ps(most, _mm512_max_ps(least, t##i)); /* a NaN stays */
#define REDUCE(i)                                                                                            \
    const V u##i = _mm512_fnmadd_ps(t##i, by_ln2, magic), n##i = _mm512_sub_ps(u##i, magic);                 \
    const V r##i = _mm512_fnmadd_ps(n##i, ln2_2, _mm512_fnmsub_ps(n##i, ln2_1, t##i));
#define POWER(i) V s##i = _mm512_permutexvar_ps((__m512i)u##i, table);
#define SCALE_FIRST(i) s##i = (V)_mm512_add_epi32((__m512i)s##i, _mm512_slli_epi32((__m512i)u##i, MANTISSA - OF_SIXTEENTHS));
#define EXPONENTIAL(i)                                                                                       \
    const V p##i = _mm512_fmadd_ps(_mm512_fmadd_ps(r##i, cubic, quadratic), r##i, one);                         \
    e##i = _mm512_fmadd_ps(_mm512_mul_ps(s##i, r##i), p##i, s##i);
#define SCALE_LAST(i) e##i = _mm512_scalef_ps(e##i, n##i);
#define PUT(i) _mm512_storeu_ps(dst + k + 16 * i, e##i);
#define FETCH(i) ls_fetch_line(fetch + (uintptr_t)(k + 16 * i) * sizeof *x, second);
#define SUM(i) sum##i = _mm512_add_ps(sum##i, e##i);

/* Numbers that are no NaN by what y and z are together, not rounded correctly. */
#define ABOUT(i) const V v##i = LOAD(b->x + k, i), q##i = _mm512_fmadd_ps(v##i, y, _mm512_mul_ps(v##i, z));
#define PUT_QUOTIENT(i) _mm512_storeu_ps(b->dst + k + 16 * i, q##i);
#define PUT_FAR(i) _mm512_stream_ps(b->dst + k + 16 * i, q##i);
static inline __attribute__((always_inline)) void divide_lanes(const ls_tile_beside *b, V y, V z, bool far, int64_t k) {
    FOUR(ABOUT)
    if (far) {
        FOUR(PUT_FAR)
    } else {
        FOUR(PUT_QUOTIENT)
    }
}

/* The larger ones of `most` and of LANES numbers, or of fewer. */
static inline __attribute__((always_inline)) V highest_of(V most, const float *x) {
    const V a = _mm512_max_ps(LOAD(x, 0), LOAD(x, 1)), b = _mm512_max_ps(LOAD(x, 2), LOAD(x, 3));
    return _mm512_max_ps(most, _mm512_max_ps(a, b));
}
static V highest_of_part(V most, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) {
        most = _mm512_max_ps(most, _mm512_mask_loadu_ps(most, LS_LANES_LEFT(n - i), x + i));
    }
    return most;
}

/* All goes to the partials of four vectors, so that lines follow each other. */
#define BEGIN(i) V sum##i = first ? _mm512_setzero_ps() : LOAD(partials, i);
#define END(i) _mm512_storeu_ps(partials + 16 * i, sum##i);
bool LS_TILE_NAME(ls_tile_fold_fast_exp)(float *partials, float *dst, const float *x, float minus, int64_t n, bool first,
                                         const ls_tile_beside *beside) {
    const bool far = beside->far, divides = beside->x != NULL, second = beside->second, looks = beside->next != NULL;
    const V apart = _mm512_set1_ps(minus), y = _mm512_set1_ps(beside->y), z = _mm512_set1_ps(beside->z), one = _mm512_set1_ps(1.0f);
    const V by_ln2 = _mm512_set1_ps((float)LS_K32_INVLN2), magic = _mm512_set1_ps((float)LS_K32_EXP_MAGIC);
    const V ln2_1 = _mm512_set1_ps((float)LS_K32_LN2_1), ln2_2 = _mm512_set1_ps((float)LS_K32_LN2_2);
    const V quadratic = _mm512_set1_ps(terms[1]), cubic = _mm512_set1_ps(terms[2]);
    const V least = _mm512_set1_ps(-(float)LS_K32_EXP_MAX), most = _mm512_set1_ps(-(float)LS_K32_EXP_MIN);
    const __m512i within = (__m512i)_mm512_set1_ps(64.0f);
    /* less what the shift of the sixteenths adds */
    const __m512i sixteenths = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const V plain = LOAD(powers, 0), less = (V)_mm512_sub_epi32((__m512i)plain, _mm512_slli_epi32(sixteenths, MANTISSA - OF_SIXTEENTHS));
    const uintptr_t fetch = beside->fetch;
    V highest = _mm512_set1_ps(-__builtin_inff());
    int64_t k = 0;
    FOUR(BEGIN)
    for (; k + LANES <= n; k += LANES) {
        V e0, e1, e2, e3;
        FOUR(APART)
        /* of those that are negative or no number the bits are more */
#define HIGHER(u, v) _mm512_max_epu32((__m512i)(u), (__m512i)(v))
        if (__builtin_expect(!_mm512_cmpgt_epu32_mask(HIGHER(HIGHER(t0, t1), HIGHER(t2, t3)), within), 1)) {
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
        FOUR(PUT)
        FOUR(FETCH)
        FOUR(SUM)
        if (divides) {
            divide_lanes(beside, y, z, far, k);
        }
        if (looks) {
            highest = highest_of(highest, beside->next + k);
        }
    }
    FOUR(END)
    for (int i = LANES; first && i < LS_TILE_PARTIALS; i += 16) {
        _mm512_storeu_ps(partials + i, _mm512_setzero_ps());
        __asm__ volatile(""); /* no instruction for strings, which would wait for what goes past the caches: 1.5 of the time */
    }
    if (k < n) {
        float part[LANES] = {0}, sums[LS_TILE_PARTIALS];
        const ls_tile_beside none = {.fetch = (uintptr_t)part};
        memcpy(part, x + k, (size_t)(n - k) * sizeof *x);
        LS_TILE_NAME(ls_tile_fold_fast_exp)(sums, part, part, minus, LANES, true, &none);
        memcpy(dst + k, part, (size_t)(n - k) * sizeof *x);
        for (int64_t i = k; i < n; i++) {
            partials[i % LS_TILE_PARTIALS] += dst[i];
        }
        if (divides) {
            LS_TILE_NAME(ls_divide_f32)(beside->dst + k, beside->x + k, 0, beside->divisor, n - k, true, LS_DST_NEAR);
        }
        if (looks) {
            highest = highest_of_part(highest, beside->next + k, n - k);
        }
    }
    if (looks) {
        *beside->highest = _mm512_reduce_max_ps(highest);
    }
    return true;
}
#endif
