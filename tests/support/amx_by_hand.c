/* The tiles of isa/gemm_amx.c with its instructions done by hand, so that what lies where is tested on processors without a matrix unit, too. */
#include "support/amx_by_hand.h"

#ifdef __AVX512F__
#include <immintrin.h>
#include <string.h>
#define LS_ISA_AVX512 1
#define ls_gemm_amx__avx512 by_hand
#define ls_peak_amx__avx512 ls_amx_by_hand_peak
#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig set_shapes
#define _tile_release() set_shapes(NULL)
#define _tile_zero(i) memset(unit[i], 0, sizeof unit[i])
#define _tile_loadd load
#define _tile_stored store
#define _tile_dpbf16ps add_products

static _Thread_local uint32_t unit[8][16][16];
static _Thread_local bool ready;

static void set_shapes(const void *shapes) {
    ready = shapes != NULL;
    memset(unit, 0, sizeof unit);
}

static void load(int i, const void *from, size_t step) {
    for (size_t r = 0; r < 16; r++) {
        memcpy(unit[i][r], (const char *)from + r * step, 64);
    }
}

/* Without shapes the processor would fault; this gives NaN. */
static void store(int i, void *to, size_t step) {
    for (size_t r = 0; r < 16; r++) {
        memcpy((char *)to + r * step, unit[i][r], 64);
        memset((char *)to + r * step, 0xff, ready ? 0 : 64);
    }
}

static float as_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void add_products(int c, int a, int b) {
    for (int i = 0; i < 16; i++) {
        for (int j = 0; j < 16; j++) {
            float even = 0, odd = 0, sum = as_float(unit[c][i][j]);
            for (int p = 0; p < 16; p++) {
                even = __builtin_fmaf(as_float(unit[a][i][p] << 16), as_float(unit[b][p][j] << 16), even);
                odd = __builtin_fmaf(as_float(unit[a][i][p] & 0xffff0000), as_float(unit[b][p][j] & 0xffff0000), odd);
            }
            sum += even + odd;
            memcpy(&unit[c][i][j], &sum, sizeof sum);
        }
    }
}

#include "backend/cpu/isa/gemm_amx.c"

const ls_gemm_pairs *ls_amx_by_hand(void) {
    return &by_hand;
}
#else
const ls_gemm_pairs *ls_amx_by_hand(void) {
    return NULL;
}
#endif
