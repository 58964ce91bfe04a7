/* Norms: of rows that share their numbers with many (batch norm), and of rows whose mean and deviation are their own (layer norm). */
#include "backend/cpu/isa/tile_isa.h"

#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
#include "backend/cpu/isa/quotient.h"

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
    return r->relu ? LS_ABOVE((ls_vf32){0}, q) + (ls_vf32){0} : q;
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
        _mm512_mask_storeu_ps(dst, lanes, (__m512)ls_canonical(norm_vector(&r, (ls_vf32)_mm512_maskz_loadu_ps(lanes, x) - r.by.minus)));
        return;
    }
    /* Of lanes that the loop does, too, and stores where x is: masks in each vector take half as long again. */
    const ls_vf32 end = apart(&r.by, x + last);
    const int64_t fetched = norm->fetches ? LS_LANES_F32 : 0, fetched_dst = norm->fetches_dst ? LS_LANES_F32 : 0;
    const bool second = norm->second, far = norm->far;
    int64_t left = n;
#define NORM(i)                                                                                              \
    ls_fetch_behind(x + (i) * LS_LANES_F32, fetched, second);                                                \
    ls_fetch_behind(dst + (i) * LS_LANES_F32, fetched_dst, second);                                          \
    ls_vf32 q##i = norm_vector(&r, apart(&r.by, x + (i) * LS_LANES_F32));
    for (; left >= 4 * LS_LANES_F32; left -= 4 * LS_LANES_F32, x += 4 * LS_LANES_F32, dst += 4 * LS_LANES_F32) {
        FOUR(NORM)
        if (ANY_NAN(q0, q1) || ANY_NAN(q2, q3)) {
            FOUR(CANONICAL)
        }
        if (far) {
            FOUR(PUT_FAR)
        } else {
            FOUR(PUT)
        }
    }
    for (; left >= LS_LANES_F32; left -= LS_LANES_F32, x += LS_LANES_F32, dst += LS_LANES_F32) {
        NORM(0)
        *(ls_vf32_any *)dst = ls_canonical(q0);
    }
    if (left) {
        *(ls_vf32_any *)(dst + left - LS_LANES_F32) = ls_canonical(norm_vector(&r, end));
    }
}

#endif

/* ---- norms of rows ---- */
#define DIVIDE(i) q##i = v##i / b.d;
#define CAREFUL(i) q##i = quotient(&b, v##i, usable);
#define LANES_OF(p, i) (*(const ls_vf32_any *)((p) + k + (i) * LS_LANES_F32))
#define SCALE(i) q##i = q##i * LANES_OF(norm->times, i);
#define SHIFT(i) q##i = q##i + LANES_OF(norm->plus, i);
/* A row of any numbers; `usable`: by products; lines `fetch` bytes behind are fetched. */
static inline void norm_row(const ls_tile_row_norm *norm, const struct by by, bool usable, const float *x, float *dst, int64_t fetch) {
    enum { MOST = 4 * LS_LANES_F32 };
    const struct by b = by; /* in registers */
    int64_t k = 0;
    for (; k + MOST <= norm->n; k += MOST, x += MOST, dst += MOST) {
        if (fetch) {
            ls_fetch_lines((uintptr_t)x + (uintptr_t)fetch, MOST, norm->fetches_second);
        }
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
        if (norm->plus) {
            FOUR(SHIFT)
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
        q = norm->times ? q * (ls_vf32)_mm512_maskz_loadu_ps(lanes, norm->times + k) : q;
        q = norm->plus ? q + (ls_vf32)_mm512_maskz_loadu_ps(lanes, norm->plus + k) : q;
        _mm512_mask_storeu_ps(dst, lanes, (__m512)ls_canonical(q));
    }
#else
    for (; k < norm->n; k++, x++, dst++) {
        number q = {(*x - b.minus[0]) / b.d[0]};
        q.f = norm->times ? q.f * norm->times[k] : q.f;
        q.f = norm->plus ? q.f + norm->plus[k] : q.f;
        q.u = q.f == q.f ? q.u : LS_NAN_F32;
        *dst = q.f;
    }
#endif
}

enum { PAIR = 2 }; /* rows in a turn: more would leave the nearest cache */

/* Lines go into the nearest cache and out of it as evenly as two rows are. A function of its own: beside the pairs it took 4 % longer. */
static __attribute__((noinline)) void norm_rows(const ls_tile_row_norm *norm, int64_t first, int64_t end, int64_t fetch) {
    for (int64_t r = first; r < end; r += PAIR) {
        const int64_t some = end - r < PAIR ? end - r : PAIR;
        const float *x = norm->x + r * norm->x_row;
        float means[PAIR] = {0}, squares[PAIR];
        for (int64_t i = 0; i < some && norm->centred; i++) {
            LS_TILE_NAME(ls_tile_rows_sum)(means + i, x + i * norm->x_row, 0, norm->n, 1, 0);
            means[i] /= norm->count;
        }
        for (int64_t i = 0; i < some; i++) {
            LS_TILE_NAME(ls_tile_rows_squares)(squares + i, x + i * norm->x_row, means[i], norm->n, 1,
                                               norm->far ? 0 : norm->fetches_second ? -fetch : fetch);
        }
        for (int64_t i = 0; i < some; i++) {
            const float divisor = __builtin_sqrtf(squares[i] / norm->count + norm->more);
            float y, z;
            const bool usable = in_parts(divisor, norm->near, &y, &z);
            const by b = {LS_SPLAT_F32(means[i]), LS_SPLAT_F32(divisor), LS_SPLAT_F32(y), LS_SPLAT_F32(z),
                          norm->far ? LS_DST_FAR : LS_DST_NEAR};
            norm_row(norm, b, usable, x + i * norm->x_row, norm->dst + (r + i) * norm->dst_row, norm->far ? 2 * fetch : 0);
        }
    }
}

/* Lanes that are left of a row, fewer than a vector; where there are none, others. */
#if defined(LS_ISA_AVX512)
static inline ls_vf32 part_of(const float *x, int64_t left, ls_vf32 others) {
    return (ls_vf32)_mm512_mask_loadu_ps((__m512)others, LS_LANES_LEFT(left), x);
}
static inline void put_part(float *dst, int64_t left, ls_vf32 x) {
    _mm512_mask_storeu_ps(dst, LS_LANES_LEFT(left), (__m512)x);
}
#else
static inline __m256i lanes_left(int64_t left) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)left), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline ls_vf32 part_of(const float *x, int64_t left, ls_vf32 others) {
    const __m256i lanes = lanes_left(left);
    return (ls_vf32)_mm256_blendv_ps((__m256)others, _mm256_maskload_ps(x, lanes), (__m256)lanes);
}
static inline void put_part(float *dst, int64_t left, ls_vf32 x) {
    _mm256_maskstore_ps(dst, lanes_left(left), (__m256)x);
}
#endif

static inline ls_vf32 vector_of(const float *x) {
    return *(const ls_vf32_any *)x;
}
static inline float total(ls_vf32 x) {
#if defined(LS_ISA_AVX512)
    return _mm512_reduce_add_ps((__m512)x);
#else
    __m128 s = _mm_add_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
#endif
}

/* Sums of two rows at once, and of the squares of their distances from their means, as fast arithmetic may have them. */
#define BEGIN_SUM(i) ls_vf32 a##i = {0}, b##i = {0};
#define TOTALS(sums) (sums)[0] = total((a0 + a1) + (a2 + a3)), (sums)[1] = total((b0 + b1) + (b2 + b3));
#define ADD(i) a##i += vector_of(x + k + (i) * LS_LANES_F32), b##i += vector_of(y + k + (i) * LS_LANES_F32);
static void sum_pair(const float *x, const float *y, int64_t n, float sums[PAIR]) {
    const ls_vf32 zero = {0};
    int64_t k = 0;
    FOUR(BEGIN_SUM)
    for (; k + 4 * LS_LANES_F32 <= n; k += 4 * LS_LANES_F32) {
        FOUR(ADD)
    }
    for (; k < n; k += LS_LANES_F32) {
        a0 += part_of(x + k, n - k, zero);
        b0 += part_of(y + k, n - k, zero);
    }
    TOTALS(sums)
}
#define ADD_SQUARES(i)                                                                                       \
    {                                                                                                        \
        const ls_vf32 v = vector_of(x + k + (i) * LS_LANES_F32) - m, w = vector_of(y + k + (i) * LS_LANES_F32) - o; \
        a##i = FMA(v, v, a##i), b##i = FMA(w, w, b##i);                                                      \
    }
static void square_pair(const float *x, const float *y, const float means[PAIR], int64_t n, int64_t fetch, bool second, float sums[PAIR]) {
    const ls_vf32 m = LS_SPLAT_F32(means[0]), o = LS_SPLAT_F32(means[1]);
    int64_t k = 0;
    FOUR(BEGIN_SUM)
    for (; k + 4 * LS_LANES_F32 <= n; k += 4 * LS_LANES_F32) {
        if (fetch) {
            ls_fetch_lines((uintptr_t)(x + k) + (uintptr_t)fetch, 4 * LS_LANES_F32, second);
            ls_fetch_lines((uintptr_t)(y + k) + (uintptr_t)fetch, 4 * LS_LANES_F32, second);
        }
        FOUR(ADD_SQUARES)
    }
    for (; k < n; k += LS_LANES_F32) {
        const ls_vf32 v = part_of(x + k, n - k, m) - m, w = part_of(y + k, n - k, o) - o;
        a0 = FMA(v, v, a0), b0 = FMA(w, w, b0);
    }
    TOTALS(sums)
}

/* Two rows of finite numbers by finite ones, in fast arithmetic. Both are read before either is stored: a processor compares addresses
 * within a page first, and rows often lie pages apart. */
#define NEAR(x, by) FMA(((x) - (by).minus) * (by).y, times, plus)
static void put_pair(const ls_tile_row_norm *norm, const by pair[PAIR], const float *x, float *dst) {
    const int64_t n = norm->n;
    const float *y = x + norm->x_row, *all_times = norm->times, *all_plus = norm->plus;
    float *next = dst + norm->dst_row;
    const by a = pair[0], b = pair[1];
    const bool far = norm->far;
    ls_vf32 times = LS_SPLAT_F32(1.0f), plus = LS_SPLAT_F32(-0.0f);
    int64_t k = 0;
    for (; k + LS_LANES_F32 <= n; k += LS_LANES_F32) {
        times = all_times ? vector_of(all_times + k) : times;
        plus = all_plus ? vector_of(all_plus + k) : plus;
        const ls_vf32 v = NEAR(vector_of(x + k), a), w = NEAR(vector_of(y + k), b);
        if (far) {
            LS_STREAM(dst + k, v);
            LS_STREAM(next + k, w);
        } else {
            *(ls_vf32_any *)(dst + k) = v;
            *(ls_vf32_any *)(next + k) = w;
        }
    }
    const int64_t left = n - k;
    if (left) {
        times = all_times ? part_of(all_times + k, left, times) : times;
        plus = all_plus ? part_of(all_plus + k, left, plus) : plus;
        put_part(dst + k, left, NEAR(part_of(x + k, left, a.minus), a));
        put_part(next + k, left, NEAR(part_of(y + k, left, b.minus), b));
    }
}

/* The same past the caches, of whole vectors, while the two rows behind are summed and those after are fetched: line by line a core reads as
 * much as it writes then, as in a copy, whose rate that is. Not with AVX2: Zen 3 takes twice as long so. */
enum { ADDS_BESIDE = LS_LANES_F32 == 16 };
#define PUT_AND_ADD(i)                                                                                       \
    {                                                                                                        \
        const int64_t at = k + (i) * LS_LANES_F32;                                                           \
        if (fetch) {                                                                                         \
            ls_fetch_line((uintptr_t)(x + at) + 2 * (uintptr_t)fetch, into_second);                          \
            ls_fetch_line((uintptr_t)(y + at) + 2 * (uintptr_t)fetch, into_second);                          \
        }                                                                                                    \
        a##i += vector_of(z + at), b##i += vector_of(z + row + at);                                          \
        const ls_vf32 times = vector_of(all_times + (at & has_times)), plus = vector_of(all_plus + (at & has_plus)); \
        LS_STREAM(dst + at, NEAR(vector_of(x + at), first));                                                 \
        LS_STREAM(to + at, NEAR(vector_of(y + at), second));                                                 \
    }
static __attribute__((noinline)) void put_pair_far(const ls_tile_row_norm *norm, const by pair[PAIR], const float *x, float *dst, const float *z, int64_t fetch, float sums[PAIR]) {
    const int64_t row = norm->x_row, n = norm->n;
    const ls_vf32 one = LS_SPLAT_F32(1.0f), nothing = LS_SPLAT_F32(-0.0f);
    const float *y = x + row, *all_times = norm->times ? norm->times : (const float *)&one, *all_plus = norm->plus ? norm->plus : (const float *)&nothing;
    const int64_t has_times = -(int64_t)(norm->times != NULL), has_plus = -(int64_t)(norm->plus != NULL);
    const bool into_second = norm->fetches_second;
    const by first = pair[0], second = pair[1];
    float *to = dst + norm->dst_row;
    int64_t k = 0;
    FOUR(BEGIN_SUM)
    for (; k + 4 * LS_LANES_F32 <= n; k += 4 * LS_LANES_F32) {
        FOUR(PUT_AND_ADD)
    }
    for (; k < n; k += LS_LANES_F32) {
        PUT_AND_ADD(0)
    }
    TOTALS(sums)
}

/* Two rows; past the caches also the sums of the `next` ones, where those of these two are known. Unless a divisor is not usable; one that is
 * tells that the squares are finite, and so are the row and its quotients. */
static bool norm_pair(const ls_tile_row_norm *norm, const float *x, float *dst, const float *next, int64_t fetch, float sums[PAIR]) {
    float means[PAIR] = {0}, squares[PAIR];
    by pair[PAIR];
    const bool beside = ADDS_BESIDE && norm->far;
    bool usable = true;
    if (norm->centred) {
        if (!beside) {
            sum_pair(x, x + norm->x_row, norm->n, sums);
        }
        means[0] = sums[0] / norm->count, means[1] = sums[1] / norm->count;
    }
    square_pair(x, x + norm->x_row, means, norm->n, beside ? 0 : fetch, norm->fetches_second, squares);
    for (int i = 0; i < PAIR; i++) {
        const float divisor = __builtin_sqrtf(squares[i] / norm->count + norm->more);
        usable = usable && within(divisor);
        pair[i] = (by){LS_SPLAT_F32(means[i]), LS_SPLAT_F32(divisor), LS_SPLAT_F32(1.0f / divisor), {0}, LS_DST_NEAR};
    }
    if (beside && usable) {
        put_pair_far(norm, pair, x, dst, next, fetch, sums);
    } else if (beside) {
        sum_pair(next, next + norm->x_row, norm->n, sums);
    } else if (usable) {
        put_pair(norm, pair, x, dst);
    }
    return usable;
}

void LS_TILE_NAME(ls_tile_row_norms)(const ls_tile_row_norm *norm, int64_t rows) {
    const int64_t fetch = norm->fetches ? PAIR * norm->x_row * (int64_t)sizeof(float) : 0;
    const bool pairs = norm->near && norm->finite && rows >= PAIR && !(norm->far && norm->n % LS_LANES_F32);
    float sums[PAIR];
    int64_t r = 0;
    if (pairs && ADDS_BESIDE && norm->far) {
        sum_pair(norm->x, norm->x + norm->x_row, norm->n, sums);
    }
    for (; pairs && r + PAIR <= rows; r += PAIR) {
        const int64_t next = r + 2 * PAIR <= rows ? r + PAIR : r; /* nothing is behind the last two */
        if (!norm_pair(norm, norm->x + r * norm->x_row, norm->dst + r * norm->dst_row, norm->x + next * norm->x_row, fetch, sums)) {
            norm_rows(norm, r, r + PAIR, fetch);
        }
    }
    norm_rows(norm, r, rows, fetch);
}
#endif
