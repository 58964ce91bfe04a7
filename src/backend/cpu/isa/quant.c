/* Block-quantised columns, locked: products and sums are rounded apart. Codes become numbers in the lanes of columns: a word holds 4
 * or 8 codes of one column. */
#define MADD(a, b, c) ((c) + (a) * (b))
#define MATVEC LS_ISA_SUFFIX(ls_quant_matvec)
#include "backend/cpu/isa/quant.inc"

typedef int32_t ls_vi32 __attribute__((vector_size(LS_VECTOR_BYTES)));

/* Codes at bit `at` of each word, less what they were raised by. */
static inline ls_vf32 four_bits(ls_vu32 words, int at) {
#if defined(LS_ISA_AVX512)
    const __m512 table = _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
    return (ls_vf32)_mm512_permutexvar_ps((__m512i)(words >> (uint32_t)at), table);
#else
    return __builtin_convertvector((ls_vi32)(words >> (uint32_t)at & 15), ls_vf32) - 8;
#endif
}

static inline ls_vf32 eight_bits(ls_vu32 words, int at) {
    return __builtin_convertvector((ls_vi32)(words >> (uint32_t)at & 255), ls_vf32) - 128;
}

void BLOCK_OF(const ls_quant_pack *w, int64_t column, int64_t block, int64_t n, int64_t stride, int64_t ahead, float *to) {
    int64_t at = column / LS_QUANT_GROUP * w->blocks + block, lane = column % LS_QUANT_GROUP;
    const uint8_t *words = w->codes + at * w->bits * 64 + lane * 4;
    ls_vf32 d = scales_of(w, at * LS_QUANT_GROUP + lane);
    FETCH_SCALES(w, at, ahead);
#define PUT(k, x)                                                                                            \
    if ((k) < n) {                                                                                           \
        *(ls_vf32_any *)(to + (k)*stride) = (x)*d;                                                           \
    }
    if (w->bits == 4) {
#pragma GCC unroll 1
        for (int v = 0; v < 4; v++, words += 64) {
            ls_vu32 x = *(const ls_vu32_any *)words;
            FETCH(words, ahead);
            PUT(v * 8 + 0, four_bits(x, 0))
            PUT(v * 8 + 1, four_bits(x, 8))
            PUT(v * 8 + 2, four_bits(x, 16))
            PUT(v * 8 + 3, four_bits(x, 24))
            PUT(v * 8 + 4, four_bits(x, 4))
            PUT(v * 8 + 5, four_bits(x, 12))
            PUT(v * 8 + 6, four_bits(x, 20))
            PUT(v * 8 + 7, four_bits(x, 28))
        }
    } else {
#pragma GCC unroll 1
        for (int v = 0; v < 8; v++, words += 64) {
            ls_vu32 x = *(const ls_vu32_any *)words;
            FETCH(words, ahead);
            PUT(v * 4 + 0, eight_bits(x, 0))
            PUT(v * 4 + 1, eight_bits(x, 8))
            PUT(v * 4 + 2, eight_bits(x, 16))
            PUT(v * 4 + 3, eight_bits(x, 24))
        }
    }
#undef PUT
}

static void unpack(const ls_quant_pack *w, int64_t column, int64_t ni, int64_t k0, int64_t kc, int64_t width, float *panel) {
    for (int64_t q = 0; q < ni; q += LANES) {
        for (int64_t k = 0; k < kc; k += LS_QUANT_K) {
            BLOCK_OF(w, column + q, (k0 + k) / LS_QUANT_K, kc - k, width, 0, panel + k * width + q);
        }
    }
}

const ls_quant_isa LS_ISA_SUFFIX(ls_quant) = {.columns = VECTORS * LANES, .unpack = unpack, .matvec = MATVEC};
