/* The rate of one core with multiplication and addition apart: what locked arithmetic can reach; of dot products in bf16 and
 * int8, where the processor has them; and of reading and copying memory. */
#include "backend/cpu/isa/gemm_vec.h"

#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2) /* in this order: one by one they take 1.2 of the time on Zen 4 */
#define PUT(instruction, c, x) __asm__ volatile(instruction " %1, %0, %0" : "+v"(c) : "v"(x));
#define STEP(c) PUT("vmulps", c, a)
#define ADDITION(c) PUT("vaddps", c, b)
#else
#define STEP(c) c *= a;
#define ADDITION(c) c += b;
#endif
#define PEAK_NAME LS_ISA_SUFFIX(ls_peak_locked)
#include "backend/cpu/isa/peak.inc"

enum { VECTORS = 8 }; /* in flight: a load's latency by two loads a cycle */

float LS_ISA_SUFFIX(ls_peak_read)(const char *from, size_t bytes, bool four) {
    const size_t n = bytes / LS_VECTOR_BYTES, apart = four ? n / 4 : VECTORS / 4, step = four ? VECTORS / 4 : VECTORS;
    const ls_vf32 *a = (const ls_vf32 *)from, *b = a + apart, *c = b + apart, *d = c + apart;
    ls_vf32 s0 = {0}, s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    for (size_t i = 0; i < n; i += VECTORS, a += step, b += step, c += step, d += step) {
        s0 += a[0], s1 += a[1], s2 += b[0], s3 += b[1];
        s4 += c[0], s5 += c[1], s6 += d[0], s7 += d[1];
    }
    s0 = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7));
    return s0[0];
}

void LS_ISA_SUFFIX(ls_peak_copy)(char *to, const char *from, size_t bytes) {
    const ls_vf32 *x = (const ls_vf32 *)from;
    ls_vf32 *y = (ls_vf32 *)to;
    for (size_t n = bytes / LS_VECTOR_BYTES; n >= 4; n -= 4, x += 4, y += 4) {
        ls_vf32 a = x[0], b = x[1], c = x[2], d = x[3];
        y[0] = a, y[1] = b, y[2] = c, y[3] = d;
    }
}

#if defined(LS_ISA_AVX512) || defined(LS_ISA_AVX2)
#ifdef LS_ISA_AVX512
#define STREAM(to, value) _mm512_stream_ps((float *)(to), (__m512)(value))
#else
#define STREAM(to, value) _mm256_stream_ps((float *)(to), (__m256)(value))
#endif
void LS_ISA_SUFFIX(ls_peak_stream)(char *to, const char *from, size_t bytes) {
    const ls_vf32 *x = (const ls_vf32 *)from;
    ls_vf32 *y = (ls_vf32 *)to;
    for (size_t n = bytes / LS_VECTOR_BYTES; n >= 4; n -= 4, x += 4, y += 4) {
        ls_vf32 a = x[0], b = x[1], c = x[2], d = x[3];
        STREAM(y, a);
        STREAM(y + 1, b);
        STREAM(y + 2, c);
        STREAM(y + 3, d);
    }
    _mm_sfence();
}
#endif

#ifdef LS_ISA_AVX512
#undef STEP
#undef PEAK_NAME
#define CHAIN(c) c = start, start += 1;
#define FOLD(c) total = _mm512_add_epi32(total, (__m512i)(c));
#define BODY(type, each)                                                                                     \
    type EACH_NAME;                                                                                          \
    EACH(CHAIN)                                                                                              \
    for (int64_t i = 0; i < n; i++) {                                                                        \
        EACH(each)                                                                                           \
    }                                                                                                        \
    __m512i total = _mm512_setzero_si512();                                                                  \
    EACH(FOLD)                                                                                               \
    float sum = (float)_mm_cvtsi128_si32(_mm512_castsi512_si128(total));
/* Sixteen chains: these take longer than multiply-adds do. */
#undef EACH
#define EACH(X) X(c0) X(c1) X(c2) X(c3) X(c4) X(c5) X(c6) X(c7) X(c8) X(c9) X(c10) X(c11) X(c12) X(c13) X(c14) X(c15)
#define EACH_NAME c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15

#define DOT_BF16(c) c = _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b);
__attribute__((target("avx512bf16"))) ls_peak_result LS_ISA_SUFFIX(ls_peak_bf16)(int64_t n, float scale, float shift) {
    __m512i a = _mm512_set1_epi32((int)(scale * 1000)), b = _mm512_set1_epi32((int)(shift * 1000));
    __m512 start = _mm512_setzero_ps();
    BODY(__m512, DOT_BF16)
    return (ls_peak_result){sum, 16 * n * 32 * 2};
}

#define DOT_INT8(c) c = _mm512_dpbusd_epi32(c, a, b);
__attribute__((target("avx512vnni"))) ls_peak_result LS_ISA_SUFFIX(ls_peak_int8)(int64_t n, float scale, float shift) {
    __m512i a = _mm512_set1_epi32((int)(scale * 1000)), b = _mm512_set1_epi32((int)(shift * 1000)),
            start = _mm512_setzero_si512();
    BODY(__m512i, DOT_INT8)
    return (ls_peak_result){sum, 16 * n * 64 * 2};
}
#endif
