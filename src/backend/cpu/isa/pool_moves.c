/* Pools whose windows lie in a plane side by side: two by two elements that share nothing, three by three that overlap. Extremes, places of extremes
 * and sums, the same bits for every instruction set. */
#include "backend/cpu/gemm_isa.h"
#include "backend/cpu/isa/gemm_vec.h"

#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
#include "backend/cpu/isa/chain_ops.h"
#if defined(LS_ISA_AVX2)
#include "backend/cpu/isa/line_ends.h"
#endif

enum { POOLS_AHEAD = 8 << 10 }; /* bytes */

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
            ls_fetch_lines((uintptr_t)x + POOLS_AHEAD, 2 * LS_LANES_F32, second);
            ls_fetch_lines((uintptr_t)y + POOLS_AHEAD, 2 * LS_LANES_F32, second);
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
    ls_fetch_line((uintptr_t)p->line + POOLS_AHEAD, p->second);
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
        ls_fetch_line((uintptr_t)(p->line - p->pitch + 16) + POOLS_AHEAD, p->second);
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

#if defined(LS_ISA_AVX2)
/* A vector of sums of nine terms, in their order, of elements from one in each of three lines on, divided, NaN canonical. `there` of each column
 * those that are in the image; NULL: all. */
LS_FETCHING ls_vf32 sums_of_nine(const float *const *line, int64_t at, const lanes *there, ls_vf32 divisor) {
#define TERM(l, k) (there ? some(there[k], line[l] + at + (k)) : (ls_vf32) * (const ls_vf32_any *)(line[l] + at + (k)))
    const ls_vf32 sum = (((TERM(0, 0) + TERM(2, 2)) + TERM(1, 1)) + (TERM(0, 2) + TERM(2, 0))) +
                        ((TERM(0, 1) + TERM(1, 2)) + (TERM(1, 0) + TERM(2, 1)));
#undef TERM
    return ls_canonical((sum + (ls_vf32){0}) / divisor);
}

/* Line by line, for whom memory does most by itself: three of the image are near anyway. */
static void quotients_of_threes(const ls_threes *t) {
    const line_ends ends = LS_ISA_SUFFIX(ls_line_ends)(t->n, t->first, t->limit);
    const float *line[3], *end = t->dst + t->n * t->lines;
    for (int64_t i = 0; i < t->lines; i++) {
        float *dst = t->dst + i * t->n;
        const float *divisors = t->divisors + i * t->divisors_step;
        for (int k = 0; k < 3; k++) {
            const int64_t l = t->line + i + k;
            line[k] = ((uint64_t)l < (uint64_t)t->height ? t->plane + l * t->pitch : t->none) + t->first;
        }
        ls_fetch_lines((uintptr_t)line[2] + POOLS_AHEAD, t->n, t->second);
        for (int64_t column = ends.from; column < ends.to; column += LS_LANES_F32) {
            *(ls_vf32_any *)(dst + column) = sums_of_nine(line, column, NULL, *(const ls_vf32_any *)(divisors + column));
        }
        for (const line_end *e = ends.of; e < ends.of + ends.n; e++) {
            put(dst + e->at, end, e->which, sums_of_nine(line, e->at, e->there, some(e->which, divisors + e->at)));
        }
    }
}
#endif

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

void LS_ISA_SUFFIX(ls_pool_threes)(const ls_threes *t) {
#if defined(LS_ISA_AVX512)
    if (t->what == LS_SQUARE_SUM) {
        threes_of(t, LS_SQUARE_SUM, 1);
    } else if (t->stride == 1) {
        threes_of(t, LS_SQUARE_MOST, 1);
    } else {
        threes_of(t, LS_SQUARE_MOST, 2);
    }
#else
    if (t->divisors) {
        quotients_of_threes(t);
    } else {
        threes_of(t, t->what, t->stride);
    }
#endif
}

void LS_ISA_SUFFIX(ls_pool_squares)(ls_square what, bool places, int64_t n, int64_t lines, const float *src, int64_t src_step, void *dst, bool second) {
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
