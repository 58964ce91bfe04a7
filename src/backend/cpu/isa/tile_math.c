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
#define EACH_OF(name, tag, T)                                                                                \
    void LS_TILE_MATH(name, tag)(void *dst, const void *a, const void *b, const void *c, int64_t n) {        \
        T *d = dst;                                                                                          \
        const T *x = a;                                                                                      \
        (void)b, (void)c;                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            d[i] = ls_##name##_##tag(x[i]);                                                                  \
        }                                                                                                    \
    }
#if defined(LS_ISA_SIMD128) /* a page loads every byte: vectors for what networks of f32 are made of, one by one the rest */
#define VECTORS(name) ELEMENTARY_OF(name, f32, float, ls_vf32)
#define EACH(name) EACH_OF(name, f32, float)
#define EACH_F64(name) EACH_OF(name, f64, double)
VECTORS(exp) VECTORS(log) VECTORS(tanh) VECTORS(erf) VECTORS(sin) VECTORS(cos) VECTORS(sqrt) VECTORS(rsqrt)
EACH(exp2) EACH(expm1) EACH(log2) EACH(log1p) EACH(tan) EACH(asin) EACH(acos) EACH(atan) EACH(sinh) EACH(cosh) EACH(erfc) EACH(cbrt)
EACH(floor) EACH(ceil) EACH(trunc) EACH(rint)
LS_MATH_UNARY(EACH_F64)
#else
#define ELEMENTARY(name) ELEMENTARY_OF(name, f32, float, ls_vf32) ELEMENTARY_OF(name, f64, double, ls_vf64)
LS_MATH_UNARY(ELEMENTARY)
#endif

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
#define POW_EACH(tag, T)                                                                                     \
    void LS_TILE_MATH(pow, tag)(void *dst, const void *a, const void *b, const void *c, int64_t n) {         \
        T *d = dst;                                                                                          \
        const T *x = a, *y = b;                                                                              \
        (void)c;                                                                                             \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            d[i] = ls_pow_##tag(x[i], y[i]);                                                                 \
        }                                                                                                    \
    }
#if defined(LS_ISA_SIMD128)
POW_EACH(f32, float)
POW_EACH(f64, double)
#else
POW(f32, float, ls_vf32)
POW(f64, double, ls_vf64)
#endif
