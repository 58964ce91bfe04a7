/* Sums of exponentials of x - minus in arithmetic that may fuse, and meanwhile quotients of another row: a softmax's last pass over a row
 * is done with the exponentials of the next one, so that what goes to memory does not go all at once. Included behind math/vector.h. */
#ifndef LOCKSTEP_BACKEND_CPU_ISA_FOLD_EXP_H
#define LOCKSTEP_BACKEND_CPU_ISA_FOLD_EXP_H

#include "backend/cpu/isa/tile_isa.h"
#include <string.h>

enum { LS_MANY_LANES = (int)(sizeof(ls_mf32) / sizeof(float)) };

/* LS_MANY_LANES quotients of numbers that are no NaN, not rounded correctly: x times y + z. */
static inline __attribute__((always_inline)) void ls_divide_beside(float *dst, const float *x, __m512 y, __m512 z, bool far) {
#define ABOUT(p, k) const __m512 v##p = _mm512_loadu_ps(x + 16 * k), q##p = _mm512_fmadd_ps(v##p, y, _mm512_mul_ps(v##p, z));
#define PUT(p, k) _mm512_storeu_ps(dst + 16 * k, q##p);
#define PUT_FAR(p, k) _mm512_stream_ps(dst + 16 * k, q##p);
#define FOUR(X) X(a, 0) X(b, 1) X(c, 2) X(d, 3)
    FOUR(ABOUT)
    if (far) {
        FOUR(PUT_FAR)
    } else {
        FOUR(PUT)
    }
#undef ABOUT
#undef PUT
#undef PUT_FAR
#undef FOUR
}
/* The larger ones of `most` and of LS_MANY_LANES numbers. */
static inline __attribute__((always_inline)) __m512 ls_highest_beside(__m512 most, const float *x) {
    const __m512 a = _mm512_max_ps(_mm512_loadu_ps(x), _mm512_loadu_ps(x + 16)), b = _mm512_max_ps(_mm512_loadu_ps(x + 32), _mm512_loadu_ps(x + 48));
    return _mm512_max_ps(most, _mm512_max_ps(a, b));
}
/* The same of fewer. */
static inline __m512 ls_highest_of_part(__m512 most, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i += 16) {
        most = _mm512_max_ps(most, _mm512_mask_loadu_ps(most, n - i < 16 ? (__mmask16)((1u << (n - i)) - 1) : 0xffff, x + i));
    }
    return most;
}
/* Lanes that go to the same partials one after another, which stay in registers meanwhile. */
#define LS_TILE_FOLD_OF(name)                                                                                \
    bool LS_TILE_NAME(ls_tile_fold_##name)(float *partials, float *dst, const float *x, float minus, int64_t n, bool first, const ls_tile_beside *beside) { \
        const ls_mf32 apart = ls_many_c((ls_many_v){0} + minus);                                             \
        const __m512 y = _mm512_set1_ps(beside->y), z = _mm512_set1_ps(beside->z);                           \
        const float *const other = beside->x;                                                                \
        float *const quotients = beside->dst;                                                                \
        const uintptr_t fetch = beside->fetch;                                                               \
        const bool far = beside->far;                                                                        \
        const float *const next = beside->next;                                                              \
        __m512 most = _mm512_set1_ps(-__builtin_inff());                                                     \
        for (int64_t at = 0; at < LS_TILE_PARTIALS; at += LS_MANY_LANES) {                                   \
            ls_mf32 sum = ls_many_c((ls_many_v){0});                                                         \
            int64_t i = at;                                                                                  \
            if (!first) {                                                                                    \
                sum = ls_many_load(partials + at);                                                           \
            }                                                                                                \
            for (; i + LS_MANY_LANES <= n; i += LS_TILE_PARTIALS) {                                          \
                ls_mf32 v = ls_m##name##_f32(ls_many_sub(ls_many_load(x + i), apart));                       \
                ls_many_store(dst + i, v);                                                                   \
                for (int k = 0; k < LS_MANY_LANES; k += 16) {                                                \
                    __builtin_prefetch((const void *)(fetch + (uintptr_t)(i + k) * sizeof *x));              \
                }                                                                                            \
                sum = ls_many_add(sum, v);                                                                   \
                if (other) {                                                                                 \
                    ls_divide_beside(quotients + i, other + i, y, z, far);                                   \
                }                                                                                            \
                if (next) {                                                                                  \
                    most = ls_highest_beside(most, next + i);                                                \
                }                                                                                            \
            }                                                                                                \
            ls_many_store(partials + at, sum);                                                               \
            if (i < n) {                                                                                     \
                float part[LS_MANY_LANES] = {0}, sums[LS_TILE_PARTIALS];                                     \
                const ls_tile_beside none = {.fetch = (uintptr_t)part};                                      \
                memcpy(part, x + i, (size_t)(n - i) * sizeof *x);                                            \
                LS_TILE_NAME(ls_tile_fold_##name)(sums, part, part, minus, LS_MANY_LANES, true, &none);      \
                memcpy(dst + i, part, (size_t)(n - i) * sizeof *x);                                          \
                for (int64_t k = i; k < n; k++) {                                                            \
                    partials[k % LS_TILE_PARTIALS] += dst[k];                                                \
                }                                                                                            \
                if (other) {                                                                                 \
                    LS_TILE_NAME(ls_divide_f32)(quotients + i, other + i, 0, beside->divisor, n - i, true, LS_DST_NEAR); \
                }                                                                                            \
                if (next) {                                                                                  \
                    most = ls_highest_of_part(most, next + i, n - i);                                        \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        if (next) {                                                                                          \
            *beside->highest = _mm512_reduce_max_ps(most);                                                   \
        }                                                                                                    \
        return true;                                                                                         \
    }

#endif
