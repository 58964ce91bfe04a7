/* Block-quantised columns with fused multiply-add, and rows quantised too, where the processor has products of bytes. */
#include "backend/cpu/isa/gemm_vec.h"

#if defined(LS_ISA_AVX2)
#define MADD(a, b, c) ((ls_vf32)_mm256_fmadd_ps(a, b, c))
#elif defined(LS_ISA_NEON)
#define MADD(a, b, c) ((ls_vf32)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#endif
#if defined(MADD) || defined(LS_ISA_AVX512)
#define MATVEC LS_ISA_SUFFIX(ls_quant_fast_matvec)
#include "backend/cpu/isa/quant.inc"
#endif

#if defined(LS_ISA_AVX512)
#define STEP(s, k, code) s = _mm512_fmadd_ps(code, _mm512_set1_ps(x[k]), s);
#define LOOK_UP(a, b, k, v)                                                                                  \
    {                                                                                                        \
        __m512i at = v;                                                                                      \
        STEP(a, k, _mm512_permutexvar_ps(at, table))                                                         \
        STEP(b, (k) + 2, (__m512)_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, at, halves))                     \
    }
#define TOP(v, t) _mm512_cvtepi32_ps(_mm512_shuffle_epi8(v, _mm512_add_epi32(bytes, _mm512_set1_epi32((t) << 24))))

/* Sixteen columns. Codes times x are summed before their scale comes, a block at a time, by four chains. What decides is how few
 * instructions make a code a number: of 4 bits a look-up, in a table of floats by a word's lowest bits, of their upper halves by
 * those from bit 16 on; of 8 bits their move to the top of a word, 2^24 times as much, and the conversion. */
static inline __m512 sixteen_columns(const ls_quant_pack *w, int64_t at, const float *x) {
    const __m512 table = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    const __m512i halves = _mm512_broadcast_i64x4(_mm512_cvtepi32_epi16(_mm512_srli_epi32((__m512i)table, 16)));
    const __m512i bytes = _mm512_broadcast_i32x4(_mm_setr_epi32(0x00808080, 0x04808080, 0x08808080, 0x0c808080));
    const __m512i *words = (const __m512i *)(w->codes + at * w->bits * 64);
    const __m512 unit = _mm512_set1_ps(w->bits == 4 ? 1 : 0x1p-24f);
    __m512 sum = _mm512_setzero_ps();
    for (int64_t block = at; block < at + w->blocks; block++) {
        __m512 s0 = _mm512_setzero_ps(), s1 = s0, s2 = s0, s3 = s0;
        FETCH_SCALES(w, block, AHEAD);
        if (w->bits == 4) {
#pragma GCC unroll 1
            for (const float *end = x + LS_QUANT_K; x < end; x += 8) {
                FETCH(words, AHEAD);
                __m512i v = *words++;
                LOOK_UP(s0, s1, 0, v)
                LOOK_UP(s2, s3, 4, _mm512_srli_epi32(v, 4))
                LOOK_UP(s0, s1, 1, _mm512_srli_epi32(v, 8))
                LOOK_UP(s2, s3, 5, _mm512_srli_epi32(v, 12))
            }
        } else {
#pragma GCC unroll 1
            for (const float *end = x + LS_QUANT_K; x < end; x += 4) {
                FETCH(words, AHEAD);
                __m512i v = _mm512_xor_si512(*words++, _mm512_set1_epi8(-128));
                STEP(s0, 0, TOP(v, 0))
                STEP(s1, 1, TOP(v, 1))
                STEP(s2, 2, TOP(v, 2))
                STEP(s3, 3, TOP(v, 3))
            }
        }
        s0 = _mm512_mul_ps(_mm512_add_ps(_mm512_add_ps(s0, s1), _mm512_add_ps(s2, s3)), unit);
        sum = _mm512_fmadd_ps(s0, (__m512)scales_of(w, block * LS_QUANT_GROUP), sum);
    }
    return sum;
}

void MATVEC(const ls_quant_pack *w, int64_t column, const float *x, float *y) {
    for (int u = 0; u < VECTORS; u++) {
        _mm512_storeu_ps(y + u * LANES, sixteen_columns(w, (column / LS_QUANT_GROUP + u) * w->blocks, x));
    }
}

#define VNNI __attribute__((target("avx512vnni")))

static inline float magnitude(__m512 x) {
    return _mm512_reduce_max_ps(x);
}

/* x / d rounded half to even with d = max |x| / 127, which leaves an error of at most d / 2. */
static bool quantise_block(const float *x, int64_t n, int raised, int8_t *codes, float *scale, int32_t *begin) {
    __mmask16 low = n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1);
    __mmask16 high = n >= 32 ? 0xffff : n <= 16 ? 0 : (__mmask16)((1u << (n - 16)) - 1);
    __m512 a = _mm512_maskz_loadu_ps(low, x), b = _mm512_maskz_loadu_ps(high, x + 16);
    __m512i infinite = _mm512_set1_epi32(0x7f800000), size = _mm512_set1_epi32(0x7fffffff);
    __m512i sa = _mm512_and_si512(_mm512_castps_si512(a), size), sb = _mm512_and_si512(_mm512_castps_si512(b), size);
    if (_mm512_cmpge_epi32_mask(sa, infinite) | _mm512_cmpge_epi32_mask(sb, infinite)) {
        return false;
    }
    float most = magnitude(_mm512_castsi512_ps(_mm512_max_epi32(sa, sb)));
    if (most > 0 && most < 0x1p-100f) {
        return false;
    }
    __m512 by = _mm512_set1_ps(most > 0 ? 127 / most : 0);
    __m512i p = _mm512_cvtps_epi32(_mm512_mul_ps(a, by)), q = _mm512_cvtps_epi32(_mm512_mul_ps(b, by));
    _mm_storeu_si128((void *)codes, _mm512_cvtepi32_epi8(p));
    _mm_storeu_si128((void *)(codes + 16), _mm512_cvtepi32_epi8(q));
    *scale = most / 127;
    *begin = -raised * _mm512_reduce_add_epi32(_mm512_add_epi32(p, q));
    return true;
}

static bool quantise_rows(const ls_quant_rows *out, const float *x, int64_t stride, int64_t m, int64_t i0, int64_t k, int raised) {
    bool ok = true;
    for (int64_t i = 0; i < out->height; i++) {
        for (int64_t b = 0; b < out->blocks; b++) {
            int64_t at = (i0 / out->height * out->blocks + b) * out->height + i, first = b * LS_QUANT_K;
            bool here = i0 + i < m;
            ok = quantise_block(here ? x + (i0 + i) * stride + first : x, here ? k - first : 0, raised, out->codes + at * LS_QUANT_K,
                                out->scales + at, out->begins + at) && ok;
        }
    }
    return ok;
}

#define ROWS1(X) X(0)
#define ROWS4(X) X(0) X(1) X(2) X(3)
#define ZERO(i) __m512 s##i = _mm512_setzero_ps();
#define BEGIN(i, q) __m512i t##q = _mm512_set1_epi32(begins[(i) + (q)]);
#define DOT(i, q, v) t##q = _mm512_dpbusd_epi32(t##q, w##v, _mm512_set1_epi32(codes[((i) + (q)) * 8 + (v)]));
#define ADD(i, q, s)                                                                                         \
    s = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(t##q), d), _mm512_set1_ps(scales[(i) + (q)]), s);
#define EACH1(X, i, ...) X(i, 0, ##__VA_ARGS__)
#define EACH4(X, i, ...) X(i, 0, ##__VA_ARGS__) X(i, 1, ##__VA_ARGS__) X(i, 2, ##__VA_ARGS__) X(i, 3, ##__VA_ARGS__)
/* Rows' blocks beside each other, because each is a chain: exact sums of 32 products of bytes, then their two scales. */
#define DOTS(n, i)                                                                                           \
    EACH##n(BEGIN, i) EACH##n(DOT, i, 0) EACH##n(DOT, i, 1) EACH##n(DOT, i, 2) EACH##n(DOT, i, 3)            \
    EACH##n(DOT, i, 4) EACH##n(DOT, i, 5) EACH##n(DOT, i, 6) EACH##n(DOT, i, 7)
#define STEP1 {DOTS(1, 0) ADD(0, 0, s0)}
#define FOUR(i, a, b, c, e) {DOTS(4, i) ADD(i, 0, a) ADD(i, 1, b) ADD(i, 2, c) ADD(i, 3, e)}
#define STEP4 FOUR(0, s0, s1, s2, s3)
#define STORE(i) _mm512_storeu_ps(c + (i)*ld, s##i);

/* Few rows x 16 columns. Eight vectors hold a block of the columns as bytes: k = 4v .. 4v + 3 of each column in word v. */
#define TILE(rows)                                                                                           \
    VNNI static void tile_##rows(const ls_quant_pack *w, int64_t group, int64_t height,                      \
                                 const int32_t *codes, const float *scales, const int32_t *begins,           \
                                 float *c, int64_t ld) {                                                     \
        const __m512i *at = (const __m512i *)(w->codes + group * w->blocks * w->bits * 64);                  \
        const __m512i low = _mm512_set1_epi8(15);                                                            \
        ROWS##rows(ZERO)                                                                                     \
        for (int64_t b = 0; b < w->blocks; b++) {                                                            \
            __m512 d = (__m512)scales_of(w, (group * w->blocks + b) * LS_QUANT_GROUP);                       \
            FETCH_SCALES(w, group * w->blocks + b, AHEAD);                                                   \
            __m512i w0, w1, w2, w3, w4, w5, w6, w7;                                                          \
            if (w->bits == 4) {                                                                              \
                FETCH(at, AHEAD), FETCH(at + 1, AHEAD), FETCH(at + 2, AHEAD), FETCH(at + 3, AHEAD);          \
                w1 = _mm512_load_si512(at), w3 = _mm512_load_si512(at + 1);                                  \
                w5 = _mm512_load_si512(at + 2), w7 = _mm512_load_si512(at + 3);                              \
                w0 = _mm512_and_si512(w1, low), w1 = _mm512_and_si512(_mm512_srli_epi32(w1, 4), low);        \
                w2 = _mm512_and_si512(w3, low), w3 = _mm512_and_si512(_mm512_srli_epi32(w3, 4), low);        \
                w4 = _mm512_and_si512(w5, low), w5 = _mm512_and_si512(_mm512_srli_epi32(w5, 4), low);        \
                w6 = _mm512_and_si512(w7, low), w7 = _mm512_and_si512(_mm512_srli_epi32(w7, 4), low);        \
                at += 4;                                                                                     \
            } else {                                                                                         \
                FETCH(at, AHEAD), FETCH(at + 1, AHEAD), FETCH(at + 2, AHEAD), FETCH(at + 3, AHEAD);          \
                FETCH(at + 4, AHEAD), FETCH(at + 5, AHEAD), FETCH(at + 6, AHEAD), FETCH(at + 7, AHEAD);      \
                w0 = _mm512_load_si512(at), w1 = _mm512_load_si512(at + 1);                                  \
                w2 = _mm512_load_si512(at + 2), w3 = _mm512_load_si512(at + 3);                              \
                w4 = _mm512_load_si512(at + 4), w5 = _mm512_load_si512(at + 5);                              \
                w6 = _mm512_load_si512(at + 6), w7 = _mm512_load_si512(at + 7);                              \
                at += 8;                                                                                     \
            }                                                                                                \
            STEP##rows                                                                                       \
            codes += height * 8, scales += height, begins += height;                                         \
        }                                                                                                    \
        ROWS##rows(STORE)                                                                                    \
    }
TILE(1)
TILE(4)

#define SIX(X, ...) X(0, ##__VA_ARGS__) X(1, ##__VA_ARGS__) X(2, ##__VA_ARGS__) X(3, ##__VA_ARGS__) X(4, ##__VA_ARGS__) X(5, ##__VA_ARGS__)
#define SIX_ZERO(i) __m512 s##i = _mm512_setzero_ps(), r##i = s##i;
#define SIX_BEGIN(i) __m512i t##i = _mm512_set1_epi32(begins[i]), u##i = t##i;
#define SIX_DOT(i, v)                                                                                        \
    {                                                                                                        \
        __m512i x = _mm512_set1_epi32(codes[(i)*8 + (v)]);                                                   \
        t##i = _mm512_dpbusd_epi32(t##i, first, x);                                                          \
        u##i = _mm512_dpbusd_epi32(u##i, second, x);                                                         \
    }
#define SIX_STEP(v)                                                                                          \
    first = at[v], second = at[8 + (v)];                                                                     \
    SIX(SIX_DOT, v)
#define SIX_ADD(i)                                                                                           \
    {                                                                                                        \
        __m512 x = _mm512_set1_ps(scales[i]);                                                                \
        s##i = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(t##i), _mm512_load_ps(d)), x, s##i);         \
        r##i = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(u##i), _mm512_load_ps(d + 16)), x, r##i);    \
    }
#define SIX_MORE(i)                                                                                          \
    s##i = _mm512_add_ps(s##i, _mm512_loadu_ps(c + (i)*ld));                                                 \
    r##i = _mm512_add_ps(r##i, _mm512_loadu_ps(c + (i)*ld + 16));
#define SIX_STORE(i)                                                                                         \
    _mm512_storeu_ps(c + (i)*ld, s##i);                                                                      \
    _mm512_storeu_ps(c + (i)*ld + 16, r##i);

/* Six rows x 32 columns: twelve chains of byte products, which is as many as hide what each waits. Columns' bytes and scales are laid out
 * by `lay_out`. */
VNNI static void six_rows(const __m512i *at, const float *d, int64_t blocks, const int32_t *codes, const float *scales,
                          const int32_t *begins, bool more, float *c, int64_t ld) {
    SIX(SIX_ZERO)
    for (int64_t b = 0; b < blocks; b++) {
        __m512i first, second;
        SIX(SIX_BEGIN)
        SIX_STEP(0)
        SIX_STEP(1)
        SIX_STEP(2)
        SIX_STEP(3)
        SIX_STEP(4)
        SIX_STEP(5)
        SIX_STEP(6)
        SIX_STEP(7)
        SIX(SIX_ADD)
        at += 16, d += 32, codes += LS_QUANT_TILE * 8, scales += LS_QUANT_TILE, begins += LS_QUANT_TILE;
    }
    if (more) {
        SIX(SIX_MORE)
    }
    SIX(SIX_STORE)
}

enum { LAID_OUT = 16 }; /* blocks at a time */

static void lay_out(const ls_quant_pack *w, int64_t group, int64_t block, int64_t n, __m512i *at, float *d) {
    const __m512i low = _mm512_set1_epi8(15);
    for (int64_t i = 0; i < 2 * n; i++, at += 8, d += 16) {
        int64_t from = (group + i % 2) * w->blocks + block + i / 2;
        const __m512i *bytes = (const __m512i *)(w->codes + from * w->bits * 64);
        _mm512_store_ps(d, (__m512)scales_of(w, from * LS_QUANT_GROUP));
        FETCH_SCALES(w, from, LAID_OUT * w->bits * 64);
        for (int v = 0; v < w->bits; v++) {
            FETCH(bytes + v, LAID_OUT * w->bits * 64);
            if (w->bits == 8) {
                at[v] = bytes[v];
            } else {
                at[2 * v] = _mm512_and_si512(bytes[v], low);
                at[2 * v + 1] = _mm512_and_si512(_mm512_srli_epi32(bytes[v], 4), low);
            }
        }
    }
}

static void many_rows(const ls_quant_pack *w, int64_t group, const ls_quant_rows *a, int64_t tile, int64_t rows, float *c, int64_t ld) {
    __m512i bytes[LAID_OUT * 16];
    float d[LAID_OUT * 32] __attribute__((aligned(64)));
    for (int64_t b = 0; b < w->blocks; b += LAID_OUT) {
        int64_t n = w->blocks - b < LAID_OUT ? w->blocks - b : LAID_OUT;
        lay_out(w, group, b, n, bytes, d);
        for (int64_t i = 0; i < rows; i += LS_QUANT_TILE) {
            int64_t at = ((tile + i / LS_QUANT_TILE) * a->blocks + b) * LS_QUANT_TILE;
            six_rows(bytes, d, n, (const int32_t *)(a->codes + at * LS_QUANT_K), a->scales + at, a->begins + at, b > 0, c + i * ld, ld);
        }
    }
}

static void rows_by_columns(const ls_quant_pack *w, int64_t group, const ls_quant_rows *a, int64_t tile, int64_t rows, float *c,
                            int64_t ld) {
    if (rows > 4 && a->height == LS_QUANT_TILE) {
        many_rows(w, group, a, tile, rows, c, ld);
        return;
    }
    for (int i = 0; i < 2; i++) {
        for (int64_t row = 0; row < rows; row += a->height) {
            int64_t at = (tile * a->height + row) * a->blocks;
            (rows <= 1 ? tile_1 : tile_4)(w, group + i, a->height, (const int32_t *)(a->codes + at * LS_QUANT_K), a->scales + at,
                                          a->begins + at, c + row * ld + i * LS_QUANT_GROUP, ld);
        }
    }
}

const ls_quant_dots ls_quant_dots__avx512 = {quantise_rows, rows_by_columns};
#endif
