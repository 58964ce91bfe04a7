/* The elementary functions over tiles: whole vectors, then the rest of the lanes in one padded with zeros. */
#include "backend/cpu/isa/tile_math.h"
#if defined(LS_ISA_SCALAR)
#define LS_LANES 1
#endif
#include "math/vector.h"
#include <string.h>

#define LANES(V, T) ((int64_t)(sizeof(V) / sizeof(T)))
#define ELEMENTARY_OF(name, tag, T, V)                                                                       \
    void LS_TILE_MATH(name, tag)(void *dst, const void *a, const void *b, const void *c, int64_t n) {        \
        T *d = dst;                                                                                          \
        const T *x = a;                                                                                      \
        V v;                                                                                                 \
        int64_t i = 0;                                                                                       \
        (void)b, (void)c;                                                                                    \
        for (; i + LANES(V, T) <= n; i += LANES(V, T)) {                                                     \
            memcpy(&v, x + i, sizeof v);                                                                     \
            v = ls_v##name##_##tag(v);                                                                       \
            memcpy(d + i, &v, sizeof v);                                                                     \
        }                                                                                                    \
        if (i < n) {                                                                                         \
            memset(&v, 0, sizeof v);                                                                         \
            memcpy(&v, x + i, (size_t)(n - i) * sizeof *x);                                                  \
            v = ls_v##name##_##tag(v);                                                                       \
            memcpy(d + i, &v, (size_t)(n - i) * sizeof *d);                                                  \
        }                                                                                                    \
    }
#define ELEMENTARY(name) ELEMENTARY_OF(name, f32, float, ls_vf32) ELEMENTARY_OF(name, f64, double, ls_vf64)
LS_MATH_UNARY(ELEMENTARY)

#define POW(tag, T, V)                                                                                       \
    void LS_TILE_MATH(pow, tag)(void *dst, const void *a, const void *b, const void *c, int64_t n) {         \
        T *d = dst;                                                                                          \
        const T *x = a, *y = b;                                                                              \
        V v, w;                                                                                              \
        int64_t i = 0;                                                                                       \
        (void)c;                                                                                             \
        for (; i + LANES(V, T) <= n; i += LANES(V, T)) {                                                     \
            memcpy(&v, x + i, sizeof v);                                                                     \
            memcpy(&w, y + i, sizeof w);                                                                     \
            v = ls_vpow_##tag(v, w);                                                                         \
            memcpy(d + i, &v, sizeof v);                                                                     \
        }                                                                                                    \
        if (i < n) {                                                                                         \
            memset(&v, 0, sizeof v);                                                                         \
            memset(&w, 0, sizeof w);                                                                         \
            memcpy(&v, x + i, (size_t)(n - i) * sizeof *x);                                                  \
            memcpy(&w, y + i, (size_t)(n - i) * sizeof *y);                                                  \
            v = ls_vpow_##tag(v, w);                                                                         \
            memcpy(d + i, &v, (size_t)(n - i) * sizeof *d);                                                  \
        }                                                                                                    \
    }
POW(f32, float, ls_vf32)
POW(f64, double, ls_vf64)
