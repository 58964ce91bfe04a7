/* Products of bf16 by the matrix unit (AMX), where the processor has one and the system lets the process use it (ls_os_use_amx): tiles of
 * 32 or 16 rows, whose sums are four of its registers or two, and the rate that it reaches at most. It treats numbers as the instruction of
 * gemm_pairs.c does, so the same range serves. */
#include <stddef.h>

#include "backend/cpu/gemm_isa.h"
#include "backend/cpu/isa/gemm_vec.h"
#include "backend/cpu/peak.h"

#if defined(LS_ISA_AVX512)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("amx-tile,amx-bf16"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("amx-tile,amx-bf16")
#endif

enum { ROWS = LS_PAIRS_BLOCK, REGISTER = ROWS * LS_PAIRS_BLOCK }; /* each holds so many rows of 64 bytes; elements of one */

/* As LDTILECFG reads it. */
typedef struct shapes {
    uint8_t palette, start, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} shapes;
static const shapes all_whole = {.palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS, ROWS}};

/* Of a tile in memory, to which `more`, if there is one, is added first: rows of `vectors` vectors. */
static __attribute__((noinline)) unsigned finish(float *c, int64_t ldc, int rows, int vectors, const float *more) {
    __mmask16 nan = 0;
    for (int i = 0; i < rows; i++, c += ldc) {
        for (int j = 0; j < vectors; j++) {
            __m512 x = _mm512_loadu_ps(c + j * LS_LANES_F32);
            if (more) {
                x = _mm512_add_ps(x, _mm512_load_ps(more + (j * ROWS + i) * LS_LANES_F32));
                _mm512_storeu_ps(c + j * LS_LANES_F32, x);
            }
            nan |= _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        }
    }
    return nan;
}

/* Sums of a register's rows, and of the next ones or, where there are none, of every second block of k: two chains would wait for
 * themselves. Registers 0 to 3 are sums, left and right, 4 and 5 rows of A, 6 and 7 columns of B. */
static inline __attribute__((always_inline)) unsigned tiles(const ls_gemm_tiles *t, const bool both, const int vectors) {
    enum { BYTES = REGISTER * sizeof(uint32_t) };
    const size_t b_step = (size_t)t->b_k * sizeof(uint32_t), c_step = (size_t)t->ldc * sizeof(float);
    const char *first = t->a;
    char *c = t->c;
    unsigned nan = 0;
    for (int64_t n = t->n; n > 0; n--) {
        char *below = c + ROWS * c_step;
        const char *a = first, *b = t->b;
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        if (t->adds) {
            _tile_loadd(0, c, c_step);
            if (vectors == 2) {
                _tile_loadd(1, c + 64, c_step);
            }
            if (both) {
                _tile_loadd(2, below, c_step);
            }
            if (both && vectors == 2) {
                _tile_loadd(3, below + 64, c_step);
            }
        }
        for (int64_t p = 0; p < t->kc; p += LS_PAIRS_BLOCK) {
            _tile_loadd(4, a, 64);
            _tile_loadd(6, b, b_step);
            _tile_dpbf16ps(0, 4, 6);
            if (vectors == 2) {
                _tile_loadd(7, b + 64, b_step);
                _tile_dpbf16ps(1, 4, 7);
            }
            a += BYTES;
            b += LS_PAIRS_BLOCK * b_step;
            if (!both) {
                p += LS_PAIRS_BLOCK;
                if (p >= t->kc) {
                    break;
                }
                _tile_loadd(6, b, b_step);
                if (vectors == 2) {
                    _tile_loadd(7, b + 64, b_step);
                }
                b += LS_PAIRS_BLOCK * b_step;
            }
            _tile_loadd(5, a, 64);
            _tile_dpbf16ps(2, 5, 6);
            if (vectors == 2) {
                _tile_dpbf16ps(3, 5, 7);
            }
            a += BYTES;
        }
        _tile_stored(0, c, c_step);
        if (vectors == 2) {
            _tile_stored(1, c + 64, c_step);
        }
        if (both) {
            _tile_stored(2, below, c_step);
            if (vectors == 2) {
                _tile_stored(3, below + 64, c_step);
            }
            nan |= finish((float *)(void *)c, t->ldc, 2 * ROWS, vectors, NULL);
        } else {
            _Alignas(64) float odd[2 * REGISTER];
            _tile_stored(2, odd, 64);
            _tile_stored(3, odd + REGISTER, 64);
            nan |= finish((float *)(void *)c, t->ldc, ROWS, vectors, odd);
        }
        first += t->a_next * (int64_t)sizeof(uint32_t);
        c = both ? below + ROWS * c_step : below;
    }
    return nan;
}

#define TILES(rows, vectors)                                                                                                      \
    static unsigned tiles_##rows##x##vectors(const ls_gemm_tiles *t) { return tiles(t, rows == 2 * ROWS, vectors); }
TILES(16, 1)
TILES(16, 2)
TILES(32, 1)
TILES(32, 2)

static void begin(void) {
    _tile_loadconfig(&all_whole);
}
static void end(void) {
    _tile_release();
}

ls_peak_result ls_peak_amx__avx512(int64_t n, float scale, float shift) {
    float zeros[REGISTER] = {0};
    (void)scale;
    (void)shift;
    _tile_loadconfig(&all_whole);
    __asm__ volatile("" ::: "memory"); /* compilers do not know that a register is loaded from memory */
    _tile_loadd(6, zeros, 64);
    _tile_loadd(7, zeros, 64);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t i = 0; i < n; i += 16) {
        _tile_dpbf16ps(0, 6, 7);
        _tile_dpbf16ps(1, 6, 7);
        _tile_dpbf16ps(2, 6, 7);
        _tile_dpbf16ps(3, 6, 7);
    }
    _tile_stored(0, zeros, 64);
    _tile_release();
    return (ls_peak_result){zeros[0], (n + 15) / 16 * 4 * REGISTER * 2 * LS_PAIRS_BLOCK * 2};
}

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static const ls_gemm_kernels kernels = {.rows = 2 * ROWS,
                                        .most_tiles = INT64_MAX,
                                        .widest_rows = 2 * ROWS,
                                        .lanes = LS_LANES_F32,
                                        .vectors = 2,
                                        .whole_rows = true,
                                        .begin = begin,
                                        .end = end,
                                        .tile = {[ROWS / 4] = {NULL, tiles_16x1, tiles_16x2}, [2 * ROWS / 4] = {NULL, tiles_32x1, tiles_32x2}}};
const ls_gemm_pairs ls_gemm_amx__avx512 = {&kernels, LS_PAIRS_BLOCK, ls_gemm_round_pairs__avx512};
#endif
