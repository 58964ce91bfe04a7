/* What the objects of tile functions share: names by instruction set, and the pragma that says a loop's lanes
 * are independent (dst may be an operand). */
#ifndef LOCKSTEP_BACKEND_CPU_ISA_TILE_ISA_H
#define LOCKSTEP_BACKEND_CPU_ISA_TILE_ISA_H

#include "backend/cpu/tile.h"

#define LS_TILE_CAT_(a, b) a##__##b
#define LS_TILE_CAT(a, b) LS_TILE_CAT_(a, b)
#define LS_TILE_NAME(name) LS_TILE_CAT(name, LS_ISA)

/* Loops stay loops in a page's module, but for what LockstepWeb.cmake names, and where other objects are for processors with vectors. */
#if defined(__OPTIMIZE_SIZE__) || (defined(LS_ISA_SCALAR) && (defined(LS_HAVE_ISA_AVX2) || defined(LS_HAVE_ISA_NEON)))
#define LS_LANES_LOOP
#elif defined(__clang__)
#define LS_LANES_LOOP _Pragma("clang loop vectorize(assume_safety)")
#pragma clang diagnostic ignored "-Wpass-failed" /* a loop that stays scalar (a division) is right too */
#else
#define LS_LANES_LOOP _Pragma("GCC ivdep")
#endif

extern const ls_tile_fn LS_TILE_NAME(ls_tile_map_int)[LS_TILE_INT_COUNT][LS_F16];
extern const ls_tile_fn LS_TILE_NAME(ls_tile_map_f32)[LS_OP_COUNT];
extern const ls_tile_fn LS_TILE_NAME(ls_tile_map_f64)[LS_OP_COUNT];
extern const ls_tile_fn LS_TILE_NAME(ls_tile_map_fast)[LS_OP_COUNT];
extern const ls_tile_cast_fn LS_TILE_NAME(ls_tile_cast_int)[LS_F16][4];
extern const ls_tile_cast_fn LS_TILE_NAME(ls_tile_int_to_f32)[LS_F16];
extern const ls_tile_cast_fn LS_TILE_NAME(ls_tile_int_to_f64)[LS_F16];
extern const ls_tile_cast_fn LS_TILE_NAME(ls_tile_int_to_odd)[LS_F16];
extern const ls_tile_cast_fn LS_TILE_NAME(ls_tile_int_to_bool)[LS_F16];
extern const ls_tile_cast_fn LS_TILE_NAME(ls_tile_f32_to_int)[LS_F16];
extern const ls_tile_cast_fn LS_TILE_NAME(ls_tile_f64_to_int)[LS_F16];
void LS_TILE_NAME(ls_tile_f32_to_f64)(void *dst, const void *a, int64_t n);
void LS_TILE_NAME(ls_tile_f64_to_f32)(void *dst, const void *a, int64_t n);
void LS_TILE_NAME(ls_tile_round_f32_f16)(void *dst, const void *a, int64_t n);
void LS_TILE_NAME(ls_tile_round_f32_bf16)(void *dst, const void *a, int64_t n);
void LS_TILE_NAME(ls_tile_round_f64_f16)(void *dst, const void *a, int64_t n);
void LS_TILE_NAME(ls_tile_round_f64_bf16)(void *dst, const void *a, int64_t n);
void LS_TILE_NAME(ls_tile_load_f16)(void *dst, const void *a, int64_t n);
void LS_TILE_NAME(ls_tile_load_bf16)(void *dst, const void *a, int64_t n);
void LS_TILE_NAME(ls_tile_store_f16)(void *dst, const void *a, int64_t n);
void LS_TILE_NAME(ls_tile_store_bf16)(void *dst, const void *a, int64_t n);
void LS_TILE_NAME(ls_tile_store_f32)(void *dst, const void *a, int64_t n);
void LS_TILE_NAME(ls_tile_store_f64)(void *dst, const void *a, int64_t n);

void LS_TILE_NAME(ls_tile_transpose)(uint32_t *dst, int64_t dst_stride, const uint32_t *src, int64_t src_stride,
                                     int64_t rows, int64_t lanes, bool canonical, bool stream);
/* Folds whose partials are in registers, or in memory. */
#if defined(LS_ISA_AVX2) || defined(LS_ISA_NEON)
#define LS_TILE_PLAIN_FOLDS
#endif
#if defined(LS_ISA_AVX512) || defined(LS_TILE_PLAIN_FOLDS)
#define LS_TILE_FOLDS(name) {LS_TILE_NAME(name##_sum), LS_TILE_NAME(name##_prod), LS_TILE_NAME(name##_min), LS_TILE_NAME(name##_max)}
#define LS_TILE_FOLD(name)                                                                                   \
    void LS_TILE_NAME(ls_tile_fold_##name)(float *partials, const float *x, int64_t n, bool first, bool fetches); \
    void LS_TILE_NAME(ls_tile_halve_##name)(float *partials);                                                \
    void LS_TILE_NAME(ls_tile_rows_##name)(float *results, const float *x, float minus, int64_t n, int64_t rows, int64_t fetch); \
    void LS_TILE_NAME(ls_tile_onto_##name)(float *results, const float *x, int64_t apart, int64_t rows, int64_t n, bool first, const float *next, \
                                           bool second);
LS_TILE_FOLD(sum) LS_TILE_FOLD(prod) LS_TILE_FOLD(min) LS_TILE_FOLD(max)
#undef LS_TILE_FOLD
void LS_TILE_NAME(ls_tile_fold_squares)(float *partials, const float *x, float minus, int64_t n, bool first, bool fetches);
void LS_TILE_NAME(ls_tile_rows_squares)(float *results, const float *x, float minus, int64_t n, int64_t rows, int64_t fetch);
#else
#define LS_TILE_FOLDS(name) {NULL}
#endif
#if defined(LS_ISA_AVX2)
void LS_TILE_NAME(ls_tile_quarters_sum)(float *results, const float *x, float minus, int64_t n, int64_t rows, int64_t fetch);
void LS_TILE_NAME(ls_tile_quarters_max)(float *results, const float *x, float minus, int64_t n, int64_t rows, int64_t fetch);
#endif
#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
extern const ls_tile_far LS_TILE_NAME(ls_tile_far);
void LS_TILE_NAME(ls_tile_row_norms)(const ls_tile_row_norm *norm, int64_t rows);
bool LS_TILE_NAME(ls_tile_beside)(ls_tile_beside *b, float divisor);
bool LS_TILE_NAME(ls_tile_fold_exp)(float *partials, float *dst, const float *x, float minus, int64_t n, bool first,
                                    const ls_tile_beside *beside);
bool LS_TILE_NAME(ls_tile_fold_fast_exp)(float *partials, float *dst, const float *x, float minus, int64_t n, bool first,
                                         const ls_tile_beside *beside);
#endif
#if defined(LS_ISA_AVX512)
#define LS_LANES_LEFT(n) ((__mmask16)((n) >= 16 ? 0xffff : (n) > 0 ? (1u << (n)) - 1 : 0))
void LS_TILE_NAME(ls_tile_fold_sum_halves)(float *partials, const float *x, int64_t n, bool first);
void LS_TILE_NAME(ls_tile_rows_sum_halves)(float *results, const float *x, int64_t n, int64_t rows);
#endif
#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
void LS_TILE_NAME(ls_tile_sigmoid_f32)(void *dst, const void *a, const void *b, const void *c, int64_t n);
void LS_TILE_NAME(ls_tile_fast_sigmoid_f32)(void *dst, const void *a, const void *b, const void *c, int64_t n); /* AVX2's */
#endif

void LS_TILE_NAME(ls_tile_pack)(void *panel, int64_t width, const void *src, const int64_t *k_at, int64_t kc,
                                const int64_t *i_at, int64_t ni, int n_preds, const int32_t *k_pred,
                                const int32_t *i_pred, int64_t stride, const int64_t *limit);

/* (x - minus) / divisor, NaN canonical; `near`: not rounded correctly (LS_CHAIN_DIV_NEAR). dst may be x. */
void LS_TILE_NAME(ls_divide_f32)(float *dst, const float *x, float minus, float divisor, int64_t n, bool near, ls_chain_dst to);
/* A batch norm: dst[i] = (x[i] - minus) / divisor * times + plus, each rounded, the division where it divides, not below 0 where a relu
 * follows; NaN canonical. dst may be x. Of AVX-512. */
typedef struct ls_norm {
    float minus, divisor, times, plus;
    bool divides, relu, fetches, fetches_dst, second; /* the last three: lines of x and of dst, early, into the second-level cache */
    bool far; /* past the caches: dst begins where a line does */
} ls_norm;
void LS_TILE_NAME(ls_norm_f32)(float *dst, const float *x, int64_t n, const ls_norm *norm);
void LS_TILE_NAME(ls_chain_run)(const ls_chain_row *row, float *dst, const float *src, int64_t n);

extern const ls_tile_isa LS_TILE_NAME(ls_tile_isa);

/* d = expression of the lanes x, y (of type T), as R. */
#define BINARY(name, T, R, expression)                                                                       \
    static void name(void *dst, const void *a, const void *b, const void *c, int64_t n) {                    \
        R *d = dst;                                                                                          \
        const T *pa = a, *pb = b;                                                                            \
        (void)c;                                                                                             \
        LS_LANES_LOOP                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            T x = pa[i], y = pb[i];                                                                          \
            d[i] = (R)(expression);                                                                          \
        }                                                                                                    \
    }
#define UNARY(name, T, R, expression)                                                                        \
    static void name(void *dst, const void *a, const void *b, const void *c, int64_t n) {                    \
        R *d = dst;                                                                                          \
        const T *pa = a;                                                                                     \
        (void)b, (void)c;                                                                                    \
        LS_LANES_LOOP                                                                                        \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            T x = pa[i];                                                                                     \
            d[i] = (R)(expression);                                                                          \
        }                                                                                                    \
    }

#endif
