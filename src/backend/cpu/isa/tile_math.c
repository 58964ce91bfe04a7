/* The elementary functions over tiles: whole vectors, then the rest of the lanes in one padded with zeros. */
#include "backend/cpu/isa/tile_math.h"
#if defined(LS_ISA_SCALAR)
#define LS_LANES 1
#elif !defined(LS_ISA_SIMD128)
#define LS_MANY LS_TILE_MANY
#endif
#include "math/vector.h"
#include <string.h>

#define LANES(V, T) ((int64_t)(sizeof(V) / sizeof(T)))
/* One place where the function is, whether lanes fill a vector or not: it is inlined there. */
#define TAKE(v, x)                                                                                           \
    if (bytes == sizeof v) {                                                                                 \
        memcpy(&v, x, sizeof v);                                                                             \
    } else {                                                                                                 \
        memset(&part, 0, sizeof part);                                                                       \
        memcpy(&part, x, bytes);                                                                             \
        v = part;                                                                                            \
    }
#define GIVE(d, v)                                                                                           \
    if (bytes == sizeof v) {                                                                                 \
        memcpy(d, &v, sizeof v);                                                                             \
    } else {                                                                                                 \
        part = v;                                                                                            \
        memcpy(d, &part, bytes);                                                                             \
    }
#define ELEMENTARY_OF(name, tag, T, V)                                                                       \
    void LS_TILE_MATH(name, tag)(void *dst, const void *a, const void *b, const void *c, int64_t n) {        \
        T *d = dst;                                                                                          \
        const T *x = a;                                                                                      \
        (void)b, (void)c;                                                                                    \
        for (int64_t i = 0; i < n; i += LANES(V, T)) {                                                       \
            size_t bytes = (size_t)(n - i < LANES(V, T) ? n - i : LANES(V, T)) * sizeof *x;                  \
            V v, part;                                                                                       \
            TAKE(v, x + i)                                                                                   \
            v = ls_v##name##_##tag(v);                                                                       \
            GIVE(d + i, v)                                                                                   \
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
VECTORS(exp)
VECTORS(log) VECTORS(sqrt) VECTORS(rsqrt) EACH(tanh) EACH(erf) EACH(sin) EACH(cos) EACH(exp2) EACH(expm1) EACH(log2) EACH(log1p) EACH(tan)
    EACH(asin) EACH(acos) EACH(atan) EACH(sinh) EACH(cosh) EACH(erfc) EACH(cbrt) EACH(floor) EACH(ceil) EACH(trunc) EACH(rint)
        LS_MATH_UNARY(EACH_F64)
#elif defined(LS_ISA_SCALAR)
#define EACH(name) EACH_OF(name, f32, float) EACH_OF(name, f64, double)
LS_MATH_UNARY(EACH)
#else
#define ELEMENTARY(name) ELEMENTARY_OF(name, f32, float, ls_vf32) ELEMENTARY_OF(name, f64, double, ls_vf64)
#define ELEMENTARY_F64(name) ELEMENTARY_OF(name, f64, double, ls_vf64)
LS_TILE_OFTEN(LS_TILE_SEVERAL) LS_TILE_OFTEN(ELEMENTARY_F64)
#if defined(LS_ISA_AVX512)
ELEMENTARY_F64(erf) ELEMENTARY_F64(tanh)
#elif defined(LS_ISA_AVX2)
ELEMENTARY_F64(tanh)
LS_TILE_SIGMOID(sigmoid, ls_mexp_f32)
LS_TILE_GATE(sigmoid, sigmoid)
LS_TILE_GATE(tanh, ls_mtanh_f32)
LS_TILE_ERF(erf, ls_merf_f32)
#endif
LS_TILE_SELDOM(ELEMENTARY)
#endif

#define POW(tag, T, V)                                                                                       \
    void LS_TILE_MATH(pow, tag)(void *dst, const void *a, const void *b, const void *c, int64_t n) {         \
        T *d = dst;                                                                                          \
        const T *x = a, *y = b;                                                                              \
        (void)c;                                                                                             \
        for (int64_t i = 0; i < n; i += LANES(V, T)) {                                                       \
            size_t bytes = (size_t)(n - i < LANES(V, T) ? n - i : LANES(V, T)) * sizeof *x;                  \
            V v, w, part;                                                                                    \
            TAKE(v, x + i)                                                                                   \
            TAKE(w, y + i)                                                                                   \
            v = ls_vpow_##tag(v, w);                                                                         \
            GIVE(d + i, v)                                                                                   \
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
#if defined(LS_ISA_SIMD128) || defined(LS_ISA_SCALAR)
            POW_EACH(f32, float) POW_EACH(f64, double)
#else
POW(f32, float, ls_vf32)
POW(f64, double, ls_vf64)
#endif
