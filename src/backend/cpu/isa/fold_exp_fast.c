/* Sums of exponentials of x - minus in locked arithmetic, and meanwhile quotients of another row: the bits of math.inc's exp, of additions
 * and of divisions. Products that are exact, or whose rounding cannot be seen, are fused with the addition behind them; the test that
 * forbids fused multiply-adds leaves out files of this name.
 *
 * Of an exponential's operations two thirds are additions, or go to the same two ports as they do on Zen 5; a division by a row's number is
 * four products (divide_fast.c). So both take little longer together than the exponentials alone. Eight vectors are computed at a time,
 * each operation on all or on half of them before the next, in the order that stands here: four would wait for each other. */
#include "backend/cpu/isa/tile_isa.h"
#include "backend/cpu/isa/tile_math.h"

#if defined(LS_ISA_AVX512)
#include "backend/cpu/isa/eight.h"
#include <string.h>

/* The list of coefficients begins with their number, which is the place of the last one. */
static const float constants[] = {LS_K32_EXP, -LS_K32_INVLN2, LS_K32_LN2_1, LS_K32_LN2_2, 0.5f, 40.0f};
enum { BY_LN2 = 6, LN2_1, LN2_2, HALF, MOST };

#define APART(i) V t##i = _mm512_sub_ps(apart, _mm512_loadu_ps(x + 16 * i)); /* -x: all signs are turned */
#define TIMES(i) V n##i = _mm512_mul_ps(t##i, by_ln2);
#define REDUCE(i) t##i = _mm512_fnmsub_ps(n##i, ln2_1, t##i); /* exact */
#define REST(i) V l##i = _mm512_mul_ps(n##i, ln2_2);
#define REDUCED(i) V r##i = _mm512_sub_ps(t##i, l##i);
#define PUT_N(i) STORE(dst, i, n##i)
#define SCALE(i) l##i = _mm512_scalef_ps(l##i, _mm512_loadu_ps(dst + 16 * i));
#define ADD(i)                                                                                               \
    _mm512_storeu_ps(sums + 16 * i, _mm512_add_ps(_mm512_maskz_loadu_ps(kept, sums + 16 * i), l##i));
#define FETCH(i) ls_fetch_line(fetch + 64 * i, beside->second);
/* Magnitudes are within 2^-60 and 1, and d's within 2^-60 and 2^60. */
#define DIVIDE(i)                                                                                            \
    if (__builtin_expect(other != NULL, 1)) {                                                                \
        const V v = _mm512_loadu_ps(other + 16 * i), q = _mm512_fmadd_ps(v, y, _mm512_mul_ps(v, z)),         \
                of = _mm512_fmadd_ps(_mm512_fnmadd_ps(q, d, v), y, q);                                       \
        if (__builtin_expect(far, 1)) {                                                                      \
            _mm512_stream_ps(quotients + 16 * i, of);                                                        \
        } else {                                                                                             \
            _mm512_storeu_ps(quotients + 16 * i, of);                                                        \
        }                                                                                                    \
        __asm__ volatile("");                                                                                \
    }

/* Meanwhile the largest of four vectors. */
#define NEXT(i) _mm512_loadu_ps(next + 16 * (i))
#define HIGHEST(i)                                                                                           \
    if (__builtin_expect(next != NULL, 1)) {                                                                 \
        most = _mm512_max_ps(most, _mm512_max_ps(_mm512_max_ps(NEXT(i), NEXT(i + 1)), _mm512_max_ps(NEXT(i + 2), NEXT(i + 3)))); \
        __asm__ volatile("");                                                                                \
    }

/* Lanes of x whose distance from `minus` is more than 40, or no number: any way. */
static __attribute__((noinline)) void with_care(float *sums, float *dst, const float *x, float minus,
                                                __mmask16 kept) {
    for (int64_t i = 0; i < LANES; i += 16) {
        _mm512_storeu_ps(dst + i, _mm512_sub_ps(_mm512_loadu_ps(x + i), _mm512_set1_ps(minus)));
    }
    LS_TILE_MATH(exp, f32)(dst, dst, NULL, NULL, LANES);
    for (int64_t i = 0; i < LANES; i += 16) {
        _mm512_storeu_ps(sums + i,
                         _mm512_add_ps(_mm512_maskz_loadu_ps(kept, sums + i), _mm512_loadu_ps(dst + i)));
    }
}

bool LS_TILE_NAME(ls_tile_fold_exp)(float *partials, float *to, const float *from, float minus, int64_t n,
                                    bool first, const ls_tile_beside *beside) {
    const V apart = _mm512_set1_ps(minus), d = _mm512_set1_ps(beside->divisor), y = _mm512_set1_ps(beside->y),
            z = _mm512_set1_ps(beside->z);
    const float *const others = beside->x;
    const bool far = beside->far;
    bool within = true;
    V most = _mm512_set1_ps(-__builtin_inff());
    float part[LANES], own[LANES];
    for (int64_t at = 0; at < n; at += LANES) {
        const bool whole = n - at >= LANES;
        const float *x = from + at, *c = constants, *other = whole && others ? others + at : NULL,
                    *next = whole && beside->next ? beside->next + at : NULL;
        float *dst = to + at, *sums = partials + at % LS_TILE_PARTIALS, *quotients = others ? beside->dst + at : NULL;
        const uintptr_t fetch = beside->fetch + (uintptr_t)at * sizeof *x;
        const __mmask16 kept = whole && !(first && at < LS_TILE_PARTIALS) ? 0xffff : 0;
        if (!whole) { /* the rest beside exponentials of 0 */
            for (int64_t k = 0; k < LANES; k += 16) {
                _mm512_storeu_ps(part + k, apart);
            }
            memcpy(part, x, (size_t)(n - at) * sizeof *x);
            x = dst = part;
            sums = own;
        }
        CONSTANTS
        ALL(APART)
        /* of two that may be negative or no number: those are highest */
#define HIGHER(u, v) _mm512_max_epu32((__m512i)(u), (__m512i)(v))
        const __m512i highest = HIGHER(HIGHER(HIGHER(t0, t1), HIGHER(t2, t3)), HIGHER(HIGHER(t4, t5), HIGHER(t6, t7)));
        if (__builtin_expect(_mm512_cmpgt_epu32_mask(highest, (__m512i)SPLAT(MOST)), 0)) {
            within = false;
            for (int i = 0; i < LANES / 16; i++) {
                DIVIDE(i)
            }
            HIGHEST(0)
            HIGHEST(4)
            with_care(sums, dst, x, minus, kept);
        } else {
            const V by_ln2 = SPLAT(BY_LN2), ln2_1 = SPLAT(LN2_1), ln2_2 = SPLAT(LN2_2), one = _mm512_set1_ps(1.0f);
            LOW(TIMES) KEEP_LOW(n) LOW(NEAREST) HIGH(TIMES) KEEP(n) LOW(REDUCE) HIGH(NEAREST) KEEP_LOW(t) KEEP_HIGH(n)
            LOW(REST) HIGH(REDUCE) KEEP_LOW(l) KEEP_HIGH(t) LOW(REDUCED) HIGH(REST) KEEP_LOW(r) KEEP_HIGH(l) LOW(PUT_N)
            CONSTANTS
            V a = SPLAT(5);
            LOW(BEGIN) HIGH(REDUCED) KEEP_LOW(p) KEEP_HIGH(r) HIGH(PUT_N) HIGH(BEGIN) KEEP_HIGH(p)
            DIVIDE(0)
            DIVIDE(1)
            a = SPLAT(4);
            LOW(PLUS) KEEP_LOW(p) LOW(BY_R) HIGH(PLUS) KEEP(p)
            a = SPLAT(3);
            LOW(PLUS) HIGH(BY_R) KEEP(p) LOW(BY_R) HIGH(PLUS) KEEP(p)
            DIVIDE(2)
            DIVIDE(3)
            HIGHEST(0)
            a = SPLAT(2);
            LOW(PLUS) HIGH(BY_R) KEEP(p) LOW(BY_R) HIGH(PLUS) KEEP(p)
            CONSTANTS
            a = SPLAT(1);
            const V half = SPLAT(HALF);
            LOW(PLUS) HIGH(BY_R) KEEP(p) LOW(SQUARE) HIGH(PLUS) KEEP_LOW(z) KEEP_HIGH(p)
            LOW(ONE_MORE) LOW(CUBE) KEEP_LOW(h) KEEP_LOW(q)
            DIVIDE(4)
            LOW(BY_CUBE) LOW(LOST) KEEP_LOW(p) KEEP_LOW(l) LOW(HALF_SQUARE) LOW(LEFT) KEEP_LOW(p) KEEP_LOW(l)
            HIGH(SQUARE) LOW(TAIL) KEEP_LOW(l) KEEP_HIGH(z) HIGH(ONE_MORE) HIGH(CUBE) KEEP_HIGH(h) KEEP_HIGH(q)
            DIVIDE(5)
            HIGHEST(4)
            LOW(SUM) KEEP_LOW(l) HIGH(BY_CUBE) HIGH(LOST) KEEP_HIGH(p) KEEP_HIGH(l)
            LOW(SCALE) HIGH(HALF_SQUARE) KEEP_HIGH(p) HIGH(LEFT) KEEP_HIGH(l)
            DIVIDE(6)
            LOW(PUT) LOW(ADD) HIGH(TAIL) KEEP_HIGH(l) HIGH(SUM) KEEP_HIGH(l)
            DIVIDE(7)
            HIGH(SCALE) HIGH(PUT) HIGH(ADD) ALL(FETCH)
        }
        if (!whole) {
            memcpy(to + at, part, (size_t)(n - at) * sizeof *x);
            if (others) {
                LS_TILE_NAME(ls_divide_f32)(quotients, others + at, 0, beside->divisor, n - at, false, LS_DST_NEAR);
            }
        }
    }
    const int64_t whole = n - n % LANES;
    const bool fresh = first && whole < LS_TILE_PARTIALS;
    if (beside->next) {
        for (int64_t k = whole; k < n; k += 16) {
            most =
                _mm512_max_ps(most, _mm512_mask_loadu_ps(most, LS_LANES_LEFT(n - k), beside->next + k));
        }
        *beside->highest = _mm512_reduce_max_ps(most);
    }
    for (int64_t k = whole; k < (fresh ? LS_TILE_PARTIALS : n); k += 16) {
        float *sums = partials + k % LS_TILE_PARTIALS;
        const V v = k < n ? _mm512_maskz_loadu_ps(LS_LANES_LEFT(n - k),
                                                  part + (k - whole))
                          : _mm512_setzero_ps();
        _mm512_storeu_ps(sums, _mm512_add_ps(fresh ? _mm512_setzero_ps() : _mm512_loadu_ps(sums), v));
    }
    return within;
}
#endif
