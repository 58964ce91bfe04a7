/* Block-quantised columns with fused multiply-add, and rows quantised too, where the processor has products of bytes. */
#include "backend/cpu/isa/gemm_vec.h"

#if defined(LS_ISA_NEON)
#define MADD(a, b, c) ((ls_vf32)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#endif
#if defined(LS_ISA_NEON) || defined(LS_ISA_AVX2) || defined(LS_ISA_AVX512)
#define MATVEC LS_ISA_SUFFIX(ls_quant_fast_matvec)
#include "backend/cpu/isa/quant.inc"
#endif

#if defined(LS_ISA_AVX2) || defined(LS_ISA_AVX512)
/* x / d rounded half to even with d = max |x| / 127, which leaves an error of at most d / 2. */
static bool quantise_block(const float *x, int64_t n, int raised, int8_t *codes, float *scale, int32_t *begin) {
    const __m256i order = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i here = _mm256_sub_epi32(_mm256_set1_epi32(n < LS_QUANT_K ? (int)n : LS_QUANT_K), order), p[4], all = _mm256_setzero_si256();
    for (int i = 0; i < 4; i++) { /* as integers infinities and NaN are the largest */
        p[i] = _mm256_maskload_epi32((const int *)x + i * 8, _mm256_cmpgt_epi32(here, _mm256_set1_epi32(i * 8)));
        all = _mm256_max_epi32(all, _mm256_and_si256(p[i], _mm256_set1_epi32(INT32_MAX)));
    }
    __m128i part = _mm_max_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    part = _mm_max_epi32(part, _mm_shuffle_epi32(part, 0x4e));
    part = _mm_max_epi32(part, _mm_shuffle_epi32(part, 0xb1));
    float most = _mm_cvtss_f32(_mm_castsi128_ps(part));
    if (_mm_cvtsi128_si32(part) >= 0x7f800000 || (most > 0 && most < 0x1p-100f)) {
        return false;
    }
    __m256 by = _mm256_set1_ps(most > 0 ? 127 / most : 0);
    for (int i = 0; i < 4; i++) {
        p[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_castsi256_ps(p[i]), by));
    }
    __m256i words = _mm256_packs_epi16(_mm256_packs_epi32(p[0], p[1]), _mm256_packs_epi32(p[2], p[3]));
    _mm256_storeu_si256((void *)codes, _mm256_permutevar8x32_epi32(words, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    all = _mm256_add_epi32(_mm256_add_epi32(p[0], p[1]), _mm256_add_epi32(p[2], p[3]));
    part = _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    part = _mm_add_epi32(part, _mm_shuffle_epi32(part, 0x4e));
    part = _mm_add_epi32(part, _mm_shuffle_epi32(part, 0xb1));
    *scale = most / 127;
    *begin = -raised * _mm_cvtsi128_si32(part);
    return true;
}

static bool quantise_rows(const ls_quant_rows *out, const float *x, int64_t stride, int64_t m, int64_t i0, int64_t k, int raised) {
    bool ok = true;
    for (int64_t i = i0; i < i0 + out->height; i++) {
        int64_t at = i0 * out->blocks + i - i0;
        for (int64_t first = 0; first < out->blocks * LS_QUANT_K; first += LS_QUANT_K, at += out->height) {
            ok = quantise_block(i < m ? x + i * stride + first : x, i < m ? k - first : 0, raised, out->codes + at * LS_QUANT_K,
                                out->scales + at, out->begins + at) && ok;
        }
    }
    return ok;
}
#endif

#if defined(LS_ISA_AVX2)
/* A byte of each word moved to its top: a number 2^24 times as large. No look-up is as short here. */
#define TOP(v, t) _mm256_cvtepi32_ps(_mm256_shuffle_epi8(v, _mm256_add_epi32(bytes, _mm256_set1_epi32((t) << 24))))
#define STEP(s, r, t)                                                                                        \
    {                                                                                                        \
        __m256 f = _mm256_broadcast_ss(x + (t));                                                             \
        s = _mm256_fmadd_ps(TOP(p, t), f, s);                                                                \
        r = _mm256_fmadd_ps(TOP(q, t), f, r);                                                                \
    }
#define STEPS STEP(s0, r0, 0) STEP(s1, r1, 1) STEP(s0, r0, 2) STEP(s1, r1, 3) x += 4;

/* Sixteen columns in two vectors, which share x. Codes times x are summed before their scale comes, a block at a time, by two chains each: what
 * makes codes numbers takes longer than a chain waits. */
static void sixteen_columns(const ls_quant_pack *w, int64_t at, const float *x, float *y) {
    const __m256i bytes = _mm256_broadcastsi128_si256(_mm_setr_epi32(0x00808080, 0x04808080, 0x08808080, 0x0c808080));
    const __m256i high = _mm256_set1_epi8((char)0xf0), signs = _mm256_set1_epi8((char)(w->bits == 4 ? 0x88 : 0x80));
    const __m256i *words = (const __m256i *)(w->codes + at * w->bits * 64);
    const __m256 unit = _mm256_set1_ps(w->bits == 4 ? 0x1p-28f : 0x1p-24f);
    __m256 s = _mm256_setzero_ps(), r = s;
    for (int64_t block = at; block < at + w->blocks; block++) {
        __m256 s0 = _mm256_setzero_ps(), s1 = s0, r0 = s0, r1 = s0;
        FETCH_SCALES(w, block, AHEAD);
#pragma GCC unroll 1
        for (const float *end = x + LS_QUANT_K; x < end; words += 2) {
            FETCH(words, AHEAD);
            __m256i p = _mm256_xor_si256(words[0], signs), q = _mm256_xor_si256(words[1], signs);
            if (w->bits == 4) {
                __m256i a = p, b = q;
                p = _mm256_and_si256(_mm256_slli_epi32(a, 4), high), q = _mm256_and_si256(_mm256_slli_epi32(b, 4), high);
                STEPS
                p = _mm256_and_si256(a, high), q = _mm256_and_si256(b, high);
            }
            STEPS
        }
        s = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_add_ps(s0, s1), unit), (__m256)scales_of(w, block * LS_QUANT_GROUP), s);
        r = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_add_ps(r0, r1), unit), (__m256)scales_of(w, block * LS_QUANT_GROUP + LANES), r);
    }
    _mm256_storeu_ps(y, s);
    _mm256_storeu_ps(y + LANES, r);
}

void MATVEC(const ls_quant_pack *w, int64_t column, const float *x, float *y) {
    for (int u = 0; u < GROUPS; u++) {
        sixteen_columns(w, (column / LS_QUANT_GROUP + u) * w->blocks, x, y + u * LS_QUANT_GROUP);
    }
}

#define EACH(i, n) _Pragma("GCC unroll 8") for (int i = 0; i < (n); i++)

/* Products of bytes are summed in 16 bits, which hold the eight pairs of a block where one factor is of 4 bits: 8 * 2 * 15 * 127 is less than
 * 2^15. So lower and upper halves of the columns' bytes are multiplied apart; of 4 bits the upper one is of the next four k, of 8 bits it
 * counts 16 times. */

/* One row x 16 columns. */
static void one_row(const ls_quant_pack *w, int64_t group, int64_t height, const int32_t *codes, const float *scales,
                    const int32_t *begins, float *c) {
    const int next = w->bits == 4;
    const __m256i low = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1), weight = _mm256_set1_epi16(next ? 1 : 16);
    const __m256i *words = (const __m256i *)(w->codes + group * w->blocks * w->bits * 64);
    __m256 s[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
    for (int64_t block = group * w->blocks; block < (group + 1) * w->blocks; block++) {
        __m256i t[2], u[2];
        t[0] = t[1] = u[0] = u[1] = _mm256_setzero_si256();
        FETCH_SCALES(w, block, AHEAD);
#pragma GCC unroll 1
        for (const int32_t *x = codes; x < codes + 8; x += 1 + next) {
            FETCH(words, AHEAD);
            __m256i first = _mm256_set1_epi32(x[0]), second = _mm256_set1_epi32(x[next]);
            EACH(h, 2) {
                __m256i both = *words++;
                t[h] = _mm256_add_epi16(t[h], _mm256_maddubs_epi16(_mm256_and_si256(both, low), first));
                u[h] = _mm256_add_epi16(u[h], _mm256_maddubs_epi16(_mm256_and_si256(_mm256_srli_epi32(both, 4), low), second));
            }
        }
        EACH(h, 2) {
            __m256i sum = _mm256_add_epi32(_mm256_madd_epi16(t[h], ones), _mm256_madd_epi16(u[h], weight));
            __m256 y = _mm256_cvtepi32_ps(_mm256_add_epi32(sum, _mm256_set1_epi32(*begins)));
            y = _mm256_mul_ps(y, (__m256)scales_of(w, block * LS_QUANT_GROUP + h * LANES));
            s[h] = _mm256_fmadd_ps(y, _mm256_set1_ps(*scales), s[h]);
        }
        codes += height * 8, scales += height, begins += height;
    }
    _mm256_storeu_ps(c, s[0]);
    _mm256_storeu_ps(c + LANES, s[1]);
}

enum { LAID_OUT = 8 }; /* blocks at a time */

/* Halves as bytes: a block is eight times four k of 32 columns; of 8 bits first the upper halves are, then the lower ones. */
static void lay_out(const ls_quant_pack *w, int64_t group, int64_t block, int64_t n, __m256i *at, float *d) {
    const __m256i low = _mm256_set1_epi8(15);
    const int64_t step = w->bits == 4 ? 8 : 4, lower = w->bits == 4 ? 0 : 32, upper = w->bits == 4 ? 4 : 0;
    for (int64_t i = 0; i < n; i++, at += w->bits * 8) {
        for (int u = 0; u < 4; u++, d += LANES) {
            int64_t from = (group + u / 2) * w->blocks + block + i;
            const __m256i *words = (const __m256i *)(w->codes + from * w->bits * 64) + u % 2;
            _mm256_store_ps(d, (__m256)scales_of(w, from * LS_QUANT_GROUP + u % 2 * LANES));
            FETCH_SCALES(w, from, LAID_OUT * w->bits * 64);
#pragma GCC unroll 1
            for (int v = 0; v < w->bits; v++) {
                FETCH(words + 2 * v, LAID_OUT * w->bits * 64);
                at[v * step + lower + u] = _mm256_and_si256(words[2 * v], low);
                at[v * step + upper + u] = _mm256_and_si256(_mm256_srli_epi32(words[2 * v], 4), low);
            }
        }
    }
}

/* Adds to two rows x 32 columns of c: eight chains. The empty statement keeps gcc from moving each to another register and back in each step. */
static void two_rows(const __m256i *at, const float *d, int64_t blocks, int halves, int64_t height, const int32_t *codes, const float *scales,
                     const int32_t *begins, float *c, int64_t ld) {
    for (; blocks--; d += 4 * LANES, codes += height * 8, scales += height, begins += height) {
        __m256i sum[8];
        EACH(i, 8) {
            sum[i] = _mm256_set1_epi32(begins[i / 4]);
        }
        for (int h = halves; h > 0; h--) {
            __m256i t[8], weight = _mm256_set1_epi16(h > 1 ? 16 : 1);
            EACH(i, 8) {
                t[i] = _mm256_setzero_si256();
            }
#pragma GCC unroll 2
            for (int v = 0; v < 8; v++, at += 4) {
                __m256i x = _mm256_set1_epi32(codes[v]), y = _mm256_set1_epi32(codes[8 + v]);
                EACH(u, 4) {
                    t[u] = _mm256_add_epi16(t[u], _mm256_maddubs_epi16(at[u], x));
                    t[4 + u] = _mm256_add_epi16(t[4 + u], _mm256_maddubs_epi16(at[u], y));
                }
                __asm__("" : "+x"(t[0]), "+x"(t[1]), "+x"(t[2]), "+x"(t[3]), "+x"(t[4]), "+x"(t[5]), "+x"(t[6]), "+x"(t[7]));
            }
            EACH(i, 8) {
                sum[i] = _mm256_add_epi32(sum[i], _mm256_madd_epi16(t[i], weight));
            }
        }
        EACH(i, 8) {
            float *to = c + i / 4 * ld + i % 4 * LANES;
            __m256 y = _mm256_mul_ps(_mm256_cvtepi32_ps(sum[i]), _mm256_load_ps(d + i % 4 * LANES));
            _mm256_storeu_ps(to, _mm256_fmadd_ps(y, _mm256_set1_ps(scales[i / 4]), _mm256_loadu_ps(to)));
        }
    }
}

static void rows_by_columns(const ls_quant_pack *w, int64_t group, const ls_quant_rows *a, int64_t tile, int64_t rows, float *c,
                            int64_t ld) {
    __m256i bytes[LAID_OUT * 64];
    float d[LAID_OUT * 32] __attribute__((aligned(32)));
    if (rows <= 1) {
        int64_t at = tile * a->height * a->blocks;
        for (int i = 0; i < 2; i++) {
            one_row(w, group + i, a->height, (const int32_t *)(a->codes + at * LS_QUANT_K), a->scales + at, a->begins + at, c + i * LS_QUANT_GROUP);
        }
        return;
    }
    for (int64_t i = 0; i < rows + rows % 2; i++) {
        EACH(u, 4) {
            _mm256_storeu_ps(c + i * ld + u * LANES, _mm256_setzero_ps());
        }
    }
    for (int64_t b = 0; b < w->blocks; b += LAID_OUT) {
        int64_t n = w->blocks - b < LAID_OUT ? w->blocks - b : LAID_OUT;
        lay_out(w, group, b, n, bytes, d);
        for (int64_t i = 0; i < rows; i += 2) {
            int64_t at = ((tile + i / a->height) * a->blocks + b) * a->height + i % a->height;
            two_rows(bytes, d, n, w->bits == 4 ? 1 : 2, a->height, (const int32_t *)(a->codes + at * LS_QUANT_K), a->scales + at, a->begins + at,
                     c + i * ld, ld);
        }
    }
}

const ls_quant_dots ls_quant_dots__avx2 = {quantise_rows, rows_by_columns};
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
