/* Folds of f32 where registers do not hold a block's partials (tile_float.c has those of AVX-512, whose do): they are in the nearest cache,
 * and each is loaded and stored for what comes to it. */
#include "backend/cpu/isa/chain_ops.h"
#include "backend/cpu/isa/tile_isa.h"
#include "backend/cpu/isa/tile_math.h"
#include "backend/cpu/limit.h"

#if defined(LS_TILE_PLAIN_FOLDS)
#include <string.h>

enum { LANES = LS_LANES_F32, FOUR = 4 };

#define AT(p) ((ls_vf32) * (const ls_vf32_any *)(p))
#define PUT(p, v) (*(ls_vf32_any *)(p) = (v))
#define PARTIALS(what)                                                                                       \
    _Pragma("GCC unroll 4") for (int64_t i = 0; i < LS_TILE_PARTIALS; i += LANES) {                          \
        what;                                                                                                \
    }
#define ADD(x, y) ((x) + (y))
#define TIMES(x, y) ((x) * (y))
#define AS_IT_IS(v) (v)
#define SQUARE_APART(v) (((v) - minus) * ((v) - minus))
/* Either order of two operands gives one of two zeros, so both together the right one; of a NaN and a number that is none, so their sum takes
 * its place. */
#if defined(LS_ISA_AVX2)
#define EXTREME_OF(name, which, zeros)                                                                       \
    static inline ls_vf32 name(ls_vf32 x, ls_vf32 y) {                                                       \
        const ls_vf32 r = (ls_vf32)((ls_vu32)which(x, y) zeros (ls_vu32)which(y, x));                        \
        return (ls_vf32)_mm256_blendv_ps((__m256)r, (__m256)(x + y), _mm256_cmp_ps((__m256)x, (__m256)y, _CMP_UNORD_Q)); \
    }
EXTREME_OF(lowest, LS_BELOW, |)
EXTREME_OF(highest, LS_ABOVE, &)
#else
#define lowest ls_lowest
#define highest ls_highest
#endif

#if defined(LS_ISA_AVX2)
#define HALVE_LANES(op, v)                                                                                   \
    v = op(v, __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3));                                        \
    v = op(v, __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5));                                        \
    v = op(v, __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6));
#else
#define HALVE_LANES(op, v)                                                                                   \
    v = op(v, __builtin_shufflevector(v, v, 2, 3, 0, 1));                                                    \
    v = op(v, __builtin_shufflevector(v, v, 1, 0, 3, 2));
#endif

/* `at` makes a vector of one of x, which is read as it lies: with the partials in order it comes from afar faster than with each partial's
 * elements together. Lines that many bytes further on are fetched, if any. */
#define FOLD_AS(name, op, at, identity)                                                                      \
    static inline __attribute__((always_inline)) ls_vf32 last_##name(const float *x, ls_vf32 minus, int64_t n) { \
        float part[LANES] = {0};                                                                             \
        (void)minus;                                                                                         \
        memcpy(part, x, (size_t)n * sizeof *part);                                                           \
        PUT(part, at(AT(part)));                                                                             \
        for (int64_t j = n; j < LANES; j++) {                                                                \
            part[j] = identity;                                                                              \
        }                                                                                                    \
        return AT(part);                                                                                     \
    }                                                                                                        \
    static __attribute__((noinline)) void name(float *p, const float *x, float minus_, int64_t n, bool first, int64_t fetch) { \
        const ls_vf32 none = LS_SPLAT_F32(identity), minus = LS_SPLAT_F32(minus_);                           \
        const int64_t whole = n / LS_TILE_PARTIALS * LS_TILE_PARTIALS, rest = n - whole;                     \
        (void)minus;                                                                                         \
        for (int64_t k = 0; k < whole || first; k += LS_TILE_PARTIALS) {                                     \
            const float *from = x + k;                                                                       \
            if (fetch) {                                                                                     \
                ls_fetch_lines((uintptr_t)from + (uintptr_t)(fetch < 0 ? -fetch : fetch), LS_TILE_PARTIALS, fetch < 0); \
            }                                                                                                \
            if (!first) {                                                                                    \
                PARTIALS(PUT(p + i, op(AT(p + i), at(AT(from + i)))))                                        \
            } else if (whole) {                                                                              \
                PARTIALS(PUT(p + i, op(none, at(AT(from + i)))))                                             \
            } else {                                                                                         \
                PARTIALS(PUT(p + i, none))                                                                   \
            }                                                                                                \
            first = false;                                                                                   \
        }                                                                                                    \
        for (int64_t i = 0; i < rest; i += LANES) {                                                          \
            PUT(p + i, op(AT(p + i), rest - i >= LANES ? at(AT(x + whole + i)) : last_##name(x + whole + i, minus, rest - i))); \
        }                                                                                                    \
    }                                                                                                        \
    static __attribute__((noinline)) float halve_##name(float *p, int64_t partials) {                        \
        for (int64_t half = partials / 2; half >= LANES; half /= 2) {                                        \
            for (int64_t i = 0; i < half; i += LANES) {                                                      \
                PUT(p + i, op(AT(p + i), AT(p + i + half)));                                                 \
            }                                                                                                \
        }                                                                                                    \
        ls_vf32 v = AT(p);                                                                                   \
        HALVE_LANES(op, v)                                                                                   \
        return v[0];                                                                                         \
    }                                                                                                        \
    /* Of LANES <= n < LS_TILE_PARTIALS, whose partials are elements: the first halving that any has a part in is done as they are read. */ \
    static inline __attribute__((always_inline)) float short_##name(const float *x, float minus_, int64_t n) { \
        const ls_vf32 none = LS_SPLAT_F32(identity), minus = LS_SPLAT_F32(minus_);                           \
        float p[LS_TILE_PARTIALS / 2];                                                                       \
        int64_t half = LS_TILE_PARTIALS / 2;                                                                 \
        (void)minus;                                                                                         \
        while (half >= n && half > LANES) {                                                                  \
            half /= 2;                                                                                       \
        }                                                                                                    \
        for (int64_t i = 0; i < half; i += LANES) {                                                          \
            const int64_t left = n - half - i;                                                               \
            const ls_vf32 v = op(none, at(AT(x + i)));                                                       \
            PUT(p + i, left <= 0 ? v : op(v, left >= LANES ? at(AT(x + half + i)) : last_##name(x + half + i, minus, left))); \
        }                                                                                                    \
        return halve_##name(p, half);                                                                        \
    }
#define FOLD(name, op, identity)                                                                             \
    FOLD_AS(name, op, AS_IT_IS, identity)                                                                    \
    void LS_TILE_NAME(ls_tile_fold_##name)(float *p, const float *x, int64_t n, bool first, bool fetches) {  \
        name(p, x, 0, n, first, fetches ? LS_FOLD_AHEAD : 0);                                                \
    }                                                                                                        \
    void LS_TILE_NAME(ls_tile_halve_##name)(float *p) {                                                      \
        *p = halve_##name(p, LS_TILE_PARTIALS);                                                              \
    }
#define ROWS(name)                                                                                           \
    void LS_TILE_NAME(ls_tile_rows_##name)(float *results, const float *x, float minus, int64_t n, int64_t rows, int64_t fetch) { \
        float p[LS_TILE_PARTIALS];                                                                           \
        for (; rows > 0; rows--, x += n, results++) {                                                        \
            if (n >= LANES && n < LS_TILE_PARTIALS) {                                                        \
                *results = short_##name(x, minus, n);                                                        \
                continue;                                                                                    \
            }                                                                                                \
            name(p, x, minus, n, true, fetch);                                                               \
            *results = halve_##name(p, LS_TILE_PARTIALS);                                                    \
        }                                                                                                    \
    }
FOLD(sum, ADD, 0.0f)
FOLD(prod, TIMES, 1.0f)
FOLD(min, lowest, __builtin_inff())
FOLD(max, highest, -__builtin_inff())
FOLD_AS(squares, ADD, SQUARE_APART, 0.0f)
void LS_TILE_NAME(ls_tile_fold_squares)(float *p, const float *x, float minus, int64_t n, bool first, bool fetches) {
    squares(p, x, minus, n, first, fetches ? LS_FOLD_AHEAD : 0);
}
ROWS(sum)
ROWS(prod)
ROWS(min)
ROWS(max)
ROWS(squares)

#if defined(LS_ISA_AVX2)
/* A row of each quarter of them at once: memory is read at four places, nothing fetched (on Zen 3 0.7 to 0.9 of the time, on an Intel 1.1). Each place goes on
 * for some pages: four that end after a page are read half as fast. */
enum { LEAST_QUARTER = LS_LIMIT(4096, LS_TILE_PARTIALS) };
#define FOUR_PARTIALS(op, u, v, w, y)                                                                        \
    for (int64_t j = 0; j < LS_TILE_PARTIALS; j += LANES) {                                                  \
        PUT(p + j, op(u, AT(a + j)));                                                                        \
        PUT(p + LS_TILE_PARTIALS + j, op(v, AT(b + j)));                                                     \
        PUT(p + 2 * LS_TILE_PARTIALS + j, op(w, AT(c + j)));                                                 \
        PUT(p + 3 * LS_TILE_PARTIALS + j, op(y, AT(d + j)));                                                 \
    }
#define QUARTERS(name, op, identity)                                                                         \
    void LS_TILE_NAME(ls_tile_quarters_##name)(float *results, const float *x, float minus, int64_t n, int64_t rows, int64_t fetch) { \
        float p[FOUR * LS_TILE_PARTIALS];                                                                    \
        const ls_vf32 none = LS_SPLAT_F32(identity);                                                         \
        int64_t quarter = n % LS_TILE_PARTIALS == 0 ? rows / FOUR : 0;                                       \
        quarter = quarter * n >= LEAST_QUARTER ? quarter : 0;                                                \
        for (int64_t i = 0; i < quarter; i++) {                                                              \
            const float *a = x + i * n, *b = a + quarter * n, *c = b + quarter * n, *d = c + quarter * n;    \
            FOUR_PARTIALS(op, none, none, none, none)                                                        \
            for (int64_t k = LS_TILE_PARTIALS; k < n; k += LS_TILE_PARTIALS) {                               \
                a += LS_TILE_PARTIALS, b += LS_TILE_PARTIALS, c += LS_TILE_PARTIALS, d += LS_TILE_PARTIALS;  \
                FOUR_PARTIALS(op, AT(p + j), AT(p + LS_TILE_PARTIALS + j), AT(p + 2 * LS_TILE_PARTIALS + j), AT(p + 3 * LS_TILE_PARTIALS + j)) \
            }                                                                                                \
            for (int r = 0; r < FOUR; r++) {                                                                 \
                results[r * quarter + i] = halve_##name(p + r * LS_TILE_PARTIALS, LS_TILE_PARTIALS);         \
            }                                                                                                \
        }                                                                                                    \
        const int64_t done = FOUR * quarter;                                                                 \
        LS_TILE_NAME(ls_tile_rows_##name)(results + done, x + done * n, minus, n, rows - done, fetch);       \
    }
QUARTERS(sum, ADD, 0.0f)
QUARTERS(max, highest, -__builtin_inff())
#endif

/* Four rows at a time: as many places that memory is read at, and a result is loaded and stored once for them. */
#define ONTO(name, op, none)                                                                                 \
    void LS_TILE_NAME(ls_tile_onto_##name)(float *results, const float *x, int64_t apart, int64_t rows, int64_t n, bool first, const float *next, \
                                           bool second) {                                                    \
        for (int64_t some; rows > 0 || first; rows -= some, x += FOUR * apart, first = false) {              \
            some = rows < FOUR ? rows : FOUR;                                                                \
            const float *later = rows >= 2 * FOUR ? x + FOUR * apart : next;                                 \
            int64_t i = 0;                                                                                   \
            for (; i + LANES <= n; i += LANES) {                                                             \
                ls_vf32 s = first ? LS_SPLAT_F32(none) : AT(results + i);                                    \
                for (int64_t r = 0; r < some; r++) {                                                         \
                    if (later) {                                                                             \
                        ls_fetch_line((uintptr_t)(later + i) + (uintptr_t)(r * apart) * sizeof *later, second); \
                    }                                                                                        \
                    s = op(s, AT(x + r * apart + i));                                                        \
                }                                                                                            \
                PUT(results + i, s);                                                                         \
            }                                                                                                \
            for (; i < n; i++) {                                                                             \
                ls_vf32 s = LS_SPLAT_F32(first ? none : results[i]);                                         \
                for (int64_t r = 0; r < some; r++) {                                                         \
                    s = op(s, LS_SPLAT_F32(x[r * apart + i]));                                               \
                }                                                                                            \
                results[i] = s[0];                                                                           \
            }                                                                                                \
        }                                                                                                    \
    }
ONTO(sum, ADD, 0.0f)
ONTO(prod, TIMES, 1.0f)
ONTO(min, lowest, __builtin_inff())
ONTO(max, highest, -__builtin_inff())
#endif
