/* Quotients of many numbers by one (quotient.h). */
#include "backend/cpu/isa/tile_isa.h"

#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
#include "backend/cpu/isa/quotient.h"

#if defined(LS_ISA_AVX512)
enum { GROUP = 8 * LS_LANES_F32 };

#define EACH(X) FOUR(X) X(4) X(5) X(6) X(7)
#define PUT_ALL                                                                                              \
    if (b.to == LS_DST_FAR) {                                                                                \
        EACH(PUT_FAR)                                                                                        \
    } else {                                                                                                 \
        ls_fetch_behind(dst, b.to == LS_DST_FETCHED ? GROUP : 0, false);                                     \
        EACH(PUT)                                                                                            \
    }

/* Whole groups, until one has a magnitude outside, zero among them; how many lanes. z makes a first quotient faithful; one correction is enough, then. */
static int64_t divide_groups(const by by, float *dst, const float *x, int64_t n) {
    const struct by b = by; /* in registers */
    const __m512i low = _mm512_set1_epi32((int)(2u * LOW));
    int64_t i = 0;
    for (; i + GROUP <= n; i += GROUP, x += GROUP, dst += GROUP) {
        __m512i high = _mm512_setzero_si512();
        EACH(APART)
        EACH(BEYOND)
        if (_mm512_cmpge_epu32_mask(high, _mm512_set1_epi32((int)(2u * (HIGH - LOW))))) {
            break;
        }
        EACH(ABOUT)
        EACH(CORRECT)
        PUT_ALL
    }
    return i;
}

/* Whole groups of quotients that are near; how many lanes. */
static int64_t divide_near_groups(const by by, float *dst, const float *x, int64_t n) {
    const struct by b = by;
    int64_t i = 0;
    for (; i + GROUP <= n; i += GROUP, x += GROUP, dst += GROUP) {
        EACH(APART)
        EACH(ABOUT)
        if (UNORDERED(q0, q1) | UNORDERED(q2, q3) | UNORDERED(q4, q5) | UNORDERED(q6, q7)) {
            EACH(CANONICAL)
        }
        PUT_ALL
    }
    return i;
}
#endif

/* Two vectors of x times 1/divisor, or of their distance from `minus`; NaN canonical. */
static inline void two_near(const by *b, float *dst, const float *x, bool distance) {
    ls_fetch_behind(dst, b->to == LS_DST_FETCHED ? 2 * LS_LANES_F32 : 0, false);
    ls_vf32 u = *(const ls_vf32_any *)x, v = *(const ls_vf32_any *)(x + LS_LANES_F32);
    u = distance ? u - b->minus : u;
    v = distance ? v - b->minus : v;
    u = FMA(u, b->y, u * b->z);
    v = FMA(v, b->y, v * b->z);
    if (ANY_NAN(u, v)) {
        u = ls_canonical(u);
        v = ls_canonical(v);
    }
    put(b, dst, u);
    put(b, dst + LS_LANES_F32, v);
}

/* x times 1/divisor, which y and z are together to some 2^-46 of it: within 0.5000002 ULP unless x * z underflows. */
static int64_t divide_near(by b, float minus, float *dst, const float *x, int64_t n) {
    int64_t i = 0;
#if defined(LS_ISA_AVX512)
    i = divide_near_groups(b, dst, x, n);
#endif
    for (; minus == 0 && i + 4 * LS_LANES_F32 <= n; i += 4 * LS_LANES_F32) {
        two_near(&b, dst + i, x + i, false);
        two_near(&b, dst + i + 2 * LS_LANES_F32, x + i + 2 * LS_LANES_F32, false);
    }
    for (; i + 2 * LS_LANES_F32 <= n; i += 2 * LS_LANES_F32) {
        two_near(&b, dst + i, x + i, true);
    }
    return i;
}

void LS_TILE_NAME(ls_divide_f32)(float *dst, const float *x, float minus, float divisor, int64_t n, bool near, ls_chain_dst to) {
    float y, z;
    bool usable = in_parts(divisor, near, &y, &z);
    const by b = {LS_SPLAT_F32(minus), LS_SPLAT_F32(divisor), LS_SPLAT_F32(y), LS_SPLAT_F32(z), to};
    int64_t i = near && usable ? divide_near(b, minus, dst, x, n) : 0;
#if defined(LS_ISA_AVX512)
    while (usable && n - i >= GROUP) {
        i += divide_groups(b, dst + i, x + i, n - i);
        const int64_t end = n - i < GROUP ? n : i + GROUP; /* one with care */
        for (; i + LS_LANES_F32 <= end; i += LS_LANES_F32) {
            put(&b, dst + i, ls_canonical(quotient(&b, apart(&b, x + i), usable)));
        }
    }
#endif
    for (; i + LS_LANES_F32 <= n; i += LS_LANES_F32) {
        put(&b, dst + i, ls_canonical(quotient(&b, apart(&b, x + i), usable)));
    }
    for (; i < n; i++) {
        number q = {(x[i] - minus) / divisor};
        q.u = q.f == q.f ? q.u : LS_NAN_F32;
        dst[i] = q.f;
    }
}

bool LS_TILE_NAME(ls_tile_beside)(ls_tile_beside *b, float divisor) {
    b->divisor = divisor;
    return in_parts(divisor, b->near, &b->y, &b->z);
}
#endif
