/* Correctly rounded quotients of many numbers by one, without dividing: the same bits as a division, in any kind of arithmetic, so that
 * fused multiply-adds are allowed here (the name of this file tells the test that forbids them elsewhere). What is divided may be the
 * numbers' distance from another one, as it is in norms.
 *
 * With y the divisor's rounded reciprocal, q0 = x * y is within 2 ulp, a correction by the remainder makes it faithful, and another one
 * correctly rounded (Markstein 1990), as long as no remainder underflows: magnitudes within 2^-60 and 2^60, or zero. Others are divided.
 * With z what is left of the reciprocal, x * y + x * z is faithful at once. */
#include "backend/cpu/isa/chain_ops.h"
#include "backend/cpu/isa/tile_isa.h"

#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
#if defined(LS_ISA_AVX512)
#define UNORDERED(x, y) _mm512_cmp_ps_mask((__m512)(x), (__m512)(y), _CMP_UNORD_Q)
#define ANY_NAN(x, y) (UNORDERED(x, y) != 0)
#define FMA(a, b, c) ((ls_vf32)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define FNMA(a, b, c) ((ls_vf32)_mm512_fnmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#else
#define ANY_NAN(x, y) (_mm256_movemask_ps(_mm256_cmp_ps((__m256)(x), (__m256)(y), _CMP_UNORD_Q)) != 0)
#define FMA(a, b, c) ((ls_vf32)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define FNMA(a, b, c) ((ls_vf32)_mm256_fnmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#endif
enum { LOW = (127 - 60) << 23, HIGH = (127 + 60) << 23 }; /* bits of the magnitudes' ends */

typedef union number {
    float f;
    uint32_t u;
} number;

static bool within(float x) {
    uint32_t magnitude = ((number){x}).u & 0x7fffffff;
    return magnitude >= LOW && magnitude < HIGH;
}

/* A row's numbers: d the divisor, y about 1/d, and, for quotients that are near, what is left of that: z of y's sign, so that -0 stays. */
typedef struct by { /* else z is what is left of y = round(1/d), of either sign */
    ls_vf32 minus, d, y, z;
    ls_chain_dst to;
} by;

static inline void put(const by *b, float *dst, ls_vf32 x) {
    if (b->to == LS_DST_FAR) {
        LS_STREAM(dst, x);
    } else {
        *(ls_vf32_any *)dst = x;
    }
}

static inline ls_vf32 apart(const by *b, const float *x) {
    return *(const ls_vf32_any *)x - b->minus;
}

/* Vectors are named variables: gcc 12 spills an indexed array of them. */
#define FOUR(X) X(0) X(1) X(2) X(3)
#define APART(i) ls_vf32 v##i = apart(&b, x + (i) * LS_LANES_F32);
#define ABOUT(i) ls_vf32 q##i = FMA(v##i, b.y, v##i * b.z);
#define PUT(i) *(ls_vf32_any *)(dst + (i) * LS_LANES_F32) = q##i;
#define PUT_FAR(i) LS_STREAM(dst + (i) * LS_LANES_F32, q##i);
#define CANONICAL(i) q##i = ls_canonical(q##i);
#if defined(LS_ISA_AVX512)
enum { GROUP = 8 * LS_LANES_F32 };

#define EACH(X) FOUR(X) X(4) X(5) X(6) X(7)
#define CORRECT(i) q##i = FMA(FNMA(q##i, b.d, v##i), b.y, q##i);
#define BEYOND(i) high = _mm512_max_epu32(high, _mm512_sub_epi32(_mm512_slli_epi32((__m512i)v##i, 1), low));
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

static inline ls_vf32 quotient(const by *b, ls_vf32 v, bool usable) {
    ls_vf32 q0 = v * b->y, q1 = FMA(FNMA(q0, b->d, v), b->y, q0), q2 = FMA(FNMA(q1, b->d, v), b->y, q1);
#if defined(LS_ISA_AVX512)
    __m512i magnitude = _mm512_and_si512((__m512i)v, _mm512_set1_epi32(0x7fffffff));
    __mmask16 zero = _mm512_testn_epi32_mask(magnitude, magnitude);
    __mmask16 far = _mm512_mask_cmp_epu32_mask((__mmask16)~zero, _mm512_sub_epi32(magnitude, _mm512_set1_epi32(LOW)),
                                               _mm512_set1_epi32(HIGH - LOW), _MM_CMPINT_NLT);
    ls_vf32 r = (ls_vf32)_mm512_mask_mov_ps((__m512)q2, zero, (__m512)q0);
#else
    __m256i magnitude = _mm256_and_si256((__m256i)v, _mm256_set1_epi32(0x7fffffff));
    __m256 zero = (__m256)_mm256_cmpeq_epi32(magnitude, _mm256_setzero_si256());
    __m256i outside = _mm256_or_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(LOW), magnitude),
                                      _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(HIGH - 1)));
    int far = _mm256_movemask_ps(_mm256_andnot_ps(zero, (__m256)outside));
    ls_vf32 r = (ls_vf32)_mm256_blendv_ps((__m256)q2, (__m256)q0, zero);
#endif
    return far || !usable ? v / b->d : r;
}

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

/* 1/divisor as y + z: y is rounded, or, if `near`, not above it. */
static bool in_parts(float divisor, bool near, float *y, float *z) {
    number about = {1.0f / divisor};
    if (near && __builtin_fmaf(-about.f, divisor, 1.0f) < 0) { /* beyond 1/divisor */
        about.u--;
    }
    float left = __builtin_fmaf(-about.f, divisor, 1.0f);
    *y = about.f;
    *z = !near ? left * about.f : left > 0 ? left / divisor : about.f * 0x1p-50f; /* no zero where near: infinity times that is no number */
    return within(divisor);
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

#if defined(LS_ISA_AVX512)
typedef struct batch_norm { /* its numbers */
    by by;
    ls_vf32 times, plus;
    __m512i high;
    bool divides, usable, relu;
} batch_norm;

static inline ls_vf32 norm_vector(const batch_norm *r, ls_vf32 v) {
    ls_vf32 q = v;
    if (r->divides) {
        const __m512i low = _mm512_set1_epi32((int)(2u * LOW));
        q = FMA(v, r->by.y, v * r->by.z);
        q = FMA(FNMA(q, r->by.d, v), r->by.y, q);
        if (_mm512_cmpge_epu32_mask(_mm512_sub_epi32(_mm512_slli_epi32((__m512i)v, 1), low), r->high)) {
            q = quotient(&r->by, v, r->usable);
        }
    }
    q = q * r->times + r->plus;
    return ls_canonical(r->relu ? LS_ABOVE((ls_vf32){0}, q) + (ls_vf32){0} : q);
}

void LS_TILE_NAME(ls_norm_f32)(float *dst, const float *x, int64_t n, const ls_norm *norm) {
    float y, z;
    const bool usable = in_parts(norm->divisor, false, &y, &z);
    const by by = {LS_SPLAT_F32(norm->minus), LS_SPLAT_F32(norm->divisor), LS_SPLAT_F32(y), LS_SPLAT_F32(z), LS_DST_NEAR};
    const __m512i high = _mm512_set1_epi32((int)(usable ? 2u * (HIGH - LOW) : 0));
    const batch_norm r = {by, LS_SPLAT_F32(norm->times), LS_SPLAT_F32(norm->plus), high, norm->divides, usable, norm->relu};
    const int64_t last = n - LS_LANES_F32;
    if (last < 0) {
        const __mmask16 lanes = (__mmask16)((1u << n) - 1);
        _mm512_mask_storeu_ps(dst, lanes, (__m512)norm_vector(&r, (ls_vf32)_mm512_maskz_loadu_ps(lanes, x) - r.by.minus));
        return;
    }
    /* Of lanes that the loop does, too, and stores where x is: masks in each vector take half as long again. */
    const ls_vf32 end = apart(&r.by, x + last);
    for (int64_t i = 0; i <= last; i += LS_LANES_F32) {
        ls_fetch_behind(x + i, norm->fetches ? LS_LANES_F32 : 0, norm->second);
        ls_fetch_behind(dst + i, norm->fetches_dst ? LS_LANES_F32 : 0, norm->second);
        *(ls_vf32_any *)(dst + i) = norm_vector(&r, apart(&r.by, x + i));
    }
    if (n % LS_LANES_F32) {
        *(ls_vf32_any *)(dst + last) = norm_vector(&r, end);
    }
}

#endif

bool LS_TILE_NAME(ls_tile_beside)(ls_tile_beside *b, float divisor) {
    b->divisor = divisor;
    return in_parts(divisor, b->near, &b->y, &b->z);
}

#define DIVIDE(i) q##i = v##i / b.d;
#define CAREFUL(i) q##i = quotient(&b, v##i, usable);
#define LANES_OF(p, i) (*(const ls_vf32_any *)((p) + k + (i) * LS_LANES_F32))
#define SCALE(i) q##i = q##i * LANES_OF(norm->times, i) + LANES_OF(norm->plus, i);
/* A row of a norm; `usable`: by products. */
static inline void norm_row(const ls_tile_row_norm *norm, const struct by by, bool usable, const float *x, float *dst) {
    enum { MOST = 4 * LS_LANES_F32 };
    const struct by b = by;
    int64_t k = 0;
    for (; k + MOST <= norm->n; k += MOST, x += MOST, dst += MOST) {
        FOUR(APART)
        FOUR(ABOUT)
        if (!norm->near || !usable) {
#if defined(LS_ISA_AVX512)
            const __m512i low = _mm512_set1_epi32((int)(2u * LOW)), beyond = _mm512_set1_epi32((int)(2u * (HIGH - LOW)));
            __m512i high = _mm512_setzero_si512();
            FOUR(BEYOND)
            if (usable && !_mm512_cmpge_epu32_mask(high, beyond)) {
                FOUR(CORRECT)
            } else {
                FOUR(DIVIDE)
            }
#else
            FOUR(CAREFUL)
#endif
        }
        if (norm->times) {
            FOUR(SCALE)
        }
        if (ANY_NAN(q0, q1) || ANY_NAN(q2, q3)) {
            FOUR(CANONICAL)
        }
        if (b.to == LS_DST_FAR) {
            FOUR(PUT_FAR)
        } else {
            FOUR(PUT)
        }
    }
#if defined(LS_ISA_AVX512)
    for (int64_t left = norm->n - k; left > 0; k += LS_LANES_F32, left -= LS_LANES_F32, x += LS_LANES_F32, dst += LS_LANES_F32) {
        const __mmask16 lanes = LS_LANES_LEFT(left);
        ls_vf32 q = ((ls_vf32)_mm512_maskz_loadu_ps(lanes, x) - b.minus) / b.d;
        if (norm->times) {
            q = q * (ls_vf32)_mm512_maskz_loadu_ps(lanes, norm->times + k) + (ls_vf32)_mm512_maskz_loadu_ps(lanes, norm->plus + k);
        }
        _mm512_mask_storeu_ps(dst, lanes, (__m512)ls_canonical(q));
    }
#else
    for (; k < norm->n; k++, x++, dst++) {
        number q = {(*x - b.minus[0]) / b.d[0]};
        q.f = norm->times ? q.f * norm->times[k] + norm->plus[k] : q.f;
        q.u = q.f == q.f ? q.u : LS_NAN_F32;
        *dst = q.f;
    }
#endif
}

/* Two rows at a time: more would leave the nearest cache, whose lines go in it and out of it as evenly as that. */
void LS_TILE_NAME(ls_tile_row_norms)(const ls_tile_row_norm *norm, int64_t rows) {
    enum { PAIR = 2 };
    const int64_t fetch = norm->fetches ? PAIR * norm->x_row * (int64_t)sizeof(float) : 0;
    for (int64_t r = 0; r < rows; r += PAIR) {
        const int64_t some = rows - r < PAIR ? rows - r : PAIR;
        const float *x = norm->x + r * norm->x_row;
        float means[PAIR], squares[PAIR];
        for (int64_t i = 0; i < some; i++) {
            LS_TILE_NAME(ls_tile_rows_sum)(means + i, x + i * norm->x_row, 0, norm->n, 1, 0);
            means[i] /= norm->count;
        }
        for (int64_t i = 0; i < some; i++) {
            LS_TILE_NAME(ls_tile_rows_squares)(squares + i, x + i * norm->x_row, means[i], norm->n, 1,
                                               norm->fetches_second ? -fetch : fetch);
        }
        for (int64_t i = 0; i < some; i++) {
            const float divisor = __builtin_sqrtf(squares[i] / norm->count + norm->more);
            float y, z;
            const bool usable = in_parts(divisor, norm->near, &y, &z);
            const ls_chain_dst to = norm->far ? LS_DST_FAR : LS_DST_NEAR;
            const by b = {LS_SPLAT_F32(means[i]), LS_SPLAT_F32(divisor), LS_SPLAT_F32(y), LS_SPLAT_F32(z), to};
            norm_row(norm, b, usable, x + i * norm->x_row, norm->dst + (r + i) * norm->dst_row);
        }
    }
}
#endif
