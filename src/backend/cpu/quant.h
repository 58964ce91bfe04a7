/* Products whose columns are codes times a scale for each 32 of k: block-quantised weights. Internal to the CPU backend.
 *
 * An operand qualifies by its form, MUL(integer codes as f32, scale), whatever file layout, zero points or block size it came
 * from; that the codes are whole numbers of 8 bits and the scales the same within 32 of k is found out when it is packed, from the
 * values themselves. Packed once (kept.h), it stays in 4 or 8 bits:
 *
 *   groups of 16 columns, blocks of 32 k: codes[group][block][...], scales[group][block][16] (f16 where all of them are, else f32)
 *   8 bits: byte v*64 + c*4 + t is the code of column c, k = v*4 + t, plus 128
 *   4 bits: byte v*64 + c*4 + t has that of k = v*8 + t, plus 8, in its low half, that of k = v*8 + 4 + t in its high half
 *
 * Columns beyond the last have scales of 0; codes beyond the last k are met by no kernel, or by zeros. Locked and fast kernels see the
 * f32 products code * scale, as the graph has them; reduced ones may quantise the rows too. */
#ifndef LOCKSTEP_BACKEND_CPU_QUANT_H
#define LOCKSTEP_BACKEND_CPU_QUANT_H

#include "backend/cpu/contract.h"

enum {
    LS_QUANT_K = 32,     /* of a block */
    LS_QUANT_GROUP = 16, /* columns */
    LS_QUANT_STRIP = 64, /* columns of a task; packed columns are a multiple */
    LS_QUANT_TILE = 6    /* rows */
};

typedef struct ls_quant_pack {
    int bits; /* 4 or 8 */
    bool half;
    int64_t blocks;
    uint8_t *codes;
    void *scales;
} ls_quant_pack;

/* Rows in 8 bits: tiles of as many rows as ls_quant_height says, in each [block][rows][32]; and of each block the rows' scales and the sums
 * of their codes, as the sums of products begin: times -8 or -128, what the columns' codes have been raised by. */
typedef struct ls_quant_rows {
    int64_t blocks, height; /* of tiles */
    int8_t *codes;          /* [tile][block][height][32] */
    float *scales;          /* [tile][block][height] */
    int32_t *begins;        /* the same */
} ls_quant_rows;

/* Which leaves few rows of a tile unused where there are few: 7 and 8 are two tiles of 4. */
static inline int64_t ls_quant_height(int64_t rows) {
    return rows <= 1 ? 1 : rows <= 4 || rows == 7 || rows == 8 ? 4 : LS_QUANT_TILE;
}

/* The kernels of one instruction set. */
typedef struct ls_quant_isa {
    int64_t columns; /* that matvec takes at a time: divides LS_QUANT_STRIP */
    /* panel[p * width + q] = code * scale of column `column` + q at k0 + p; column, k0 and width are multiples of a vector, of 32, of a
     * vector; columns are written in whole vectors. */
    void (*unpack)(const ls_quant_pack *w, int64_t column, int64_t ni, int64_t k0, int64_t kc, int64_t width, float *panel);
    /* y[q] = the sum over all p of x[p] times that, by the contraction rule; all blocks are whole. */
    void (*matvec)(const ls_quant_pack *w, int64_t column, const float *x, float *y);
} ls_quant_isa;

/* Integer products, where the processor has them (AVX2, of AVX-512 with VNNI); else NULL. */
typedef struct ls_quant_dots {
    /* Quantises rows [i0, i0 + height) of m, each of k numbers, into tile i0 / height. False where one is not finite, or a block's are too small. */
    bool (*rows)(const ls_quant_rows *out, const float *x, int64_t stride, int64_t m, int64_t i0, int64_t k, int raised);
    /* c[i * ld + q]: `rows` from a tile's first on, up to whole tiles, times two groups' columns. */
    void (*product)(const ls_quant_pack *w, int64_t group, const ls_quant_rows *a, int64_t tile, int64_t rows, float *c, int64_t ld);
} ls_quant_dots;

extern const ls_quant_isa ls_quant__scalar, ls_quant__neon, ls_quant__simd128, ls_quant__avx2, ls_quant__avx512;
/* matvec with fused multiply-add, where there is one. It may sum a block before it multiplies by the scale, so numbers of x are finite
 * and less than the one that has these bits, 2^60. */
enum { LS_QUANT_MOST = 0x5d800000 };
#define LS_QUANT_MATVEC(name) void name(const ls_quant_pack *w, int64_t column, const float *x, float *y)
LS_QUANT_MATVEC(ls_quant_fast_matvec__neon);
LS_QUANT_MATVEC(ls_quant_fast_matvec__avx2);
LS_QUANT_MATVEC(ls_quant_fast_matvec__avx512);
extern const ls_quant_dots ls_quant_dots__avx2, ls_quant_dots__avx512;

/* Sets gemm->quant where the columns have the form. */
ls_status ls_quant_plan(ls_kernel_binary *binary, ls_gemm_phase *gemm, const int *temps, ls_error *err) LS_MUST_USE;
/* Scratch that packing needs of each worker, and the product's workspace. */
size_t ls_quant_scratch(const struct ls_quant *quant);
size_t ls_quant_workspace(const struct ls_quant *quant, int64_t m, int64_t k, int workers);
/* Packs the columns if they are not yet. Then computes the product in `workspace` (NULL: there is none) and returns true; or makes g->b
 * unpack its panels and returns false. */
bool ls_quant_run(ls_gemm_launch *launch, ls_gemm *g, char *workspace);
void ls_quant_print(ls_text *out, const struct ls_quant *quant);

#endif
