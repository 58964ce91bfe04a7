/* Weights quantised in blocks of 32: their layouts, and the composites that read them. The codes become numbers by ordinary
 * operations, whose form (integer codes times a scale) backends may recognise; nothing depends on that. */
#include "base/half.h"
#include "base/numerics.h"
#include "base/status.h"
#include "graph/build.h"
#include <inttypes.h>
#include <lockstep/ops.h>
#include <lockstep/quant.h>
#include <string.h>

static const int8_t block_bytes[] = {[LS_Q4_0] = 18, [LS_Q8_0] = 34};

static bool known(ls_quant kind) {
    return kind == LS_Q4_0 || kind == LS_Q8_0;
}

int64_t ls_quant_bytes(ls_quant kind, int64_t k) {
    return known(kind) && k > 0 && k % LS_QUANT_BLOCK == 0 ? k / LS_QUANT_BLOCK * block_bytes[kind] : 0;
}

/* ---- numbers to codes ---- */

static float magnitude(float x) {
    return x < 0 ? -x : x;
}

/* False where the scale has no finite f16. */
static bool quantize_block(ls_quant kind, const float *x, uint8_t *out) {
    float most = 0, top = 0;
    for (int i = 0; i < LS_QUANT_BLOCK; i++) {
        if (magnitude(x[i]) > most) {
            most = magnitude(x[i]);
            top = x[i];
        }
    }
    float d = most == 0 ? 0 : kind == LS_Q4_0 ? top / -8 : most / 127, inverse = d != 0 ? 1 / d : 0;
    uint16_t half = ls_f32_to_f16(d);
    inverse = inverse - inverse == 0 ? inverse : 0; /* of a subnormal scale, which is 0 in f16 */
    out[0] = (uint8_t)half;
    out[1] = (uint8_t)(half >> 8);
    out += 2;
    for (int i = 0; i < LS_QUANT_BLOCK; i++) {
        float q = x[i] * inverse;
        if (kind == LS_Q8_0) {
            int code = (int)(q + (q < 0 ? -0.5f : 0.5f));
            out[i] = (uint8_t)(int8_t)(code > 127 ? 127 : code < -127 ? -127 : code);
        } else {
            int code = (int)(q + 8.5f);
            code = code > 15 ? 15 : code < 0 ? 0 : code;
            out[i % 16] = (uint8_t)(i < 16 ? code : out[i % 16] | code << 4);
        }
    }
    return (half & 0x7c00) != 0x7c00;
}

ls_status ls_quantize(ls_quant kind, int64_t rows, int64_t k, const float *x, uint8_t *out, ls_error *err) {
    int64_t bytes = ls_quant_bytes(kind, k);
    if (!bytes || rows < 0) {
        return LS_FAIL(err, LS_ERR_INVALID,
                       "quantisation of %" PRId64 " rows of %" PRId64
                       ", kind %d: expected LS_Q4_0 or LS_Q8_0 and rows of a positive multiple of %d",
                       rows, k, (int)kind, LS_QUANT_BLOCK);
    }
    ls_numerics numerics = ls_numerics_enter();
    ls_status status = LS_OK;
    for (int64_t i = 0; status == LS_OK && i < rows * (k / LS_QUANT_BLOCK); i++) {
        const float *block = x + i * LS_QUANT_BLOCK;
        int64_t row = i / (k / LS_QUANT_BLOCK), column = i % (k / LS_QUANT_BLOCK) * LS_QUANT_BLOCK;
        for (int j = 0; status == LS_OK && j < LS_QUANT_BLOCK; j++) {
            if (block[j] - block[j] != 0) {
                status = LS_FAIL(err, LS_ERR_INVALID,
                                 "quantisation: row %" PRId64 ", column %" PRId64 " is not finite", row, column + j);
            }
        }
        if (status == LS_OK && !quantize_block(kind, block, out + i * block_bytes[kind])) {
            status = LS_FAIL(err, LS_ERR_INVALID,
                             "quantisation: the block at row %" PRId64 ", column %" PRId64
                             " needs a scale that f16 does not have",
                             row, column);
        }
    }
    ls_numerics_leave(numerics);
    return status;
}

/* ---- codes to numbers ---- */

static ls_tensor *number(ls_session *s, ls_dtype dtype, double value) {
    return ls_full(s, dtype, (ls_shape){.rank = 0}, value);
}

/* Two bytes [..., 2] as the f16 that they are, in f32, [..., 1]. */
static ls_tensor *half_of(ls_session *s, ls_tensor *bytes) {
    ls_tensor *low = ls_cast(s, ls_narrow(s, bytes, -1, 0, 1), LS_U16);
    ls_tensor *high = ls_cast(s, ls_narrow(s, bytes, -1, 1, 1), LS_U16);
    ls_tensor *bits = ls_or(s, low, ls_shl(s, high, number(s, LS_U16, 8)));
    return ls_cast(s, ls_bitcast(s, bits, LS_F16), LS_F32);
}

/* The halves of bytes [..., 16]: all low ones, then all high ones, [..., 32]. */
static ls_tensor *halves_of(ls_session *s, ls_tensor *bytes, const ls_shape *codes) {
    ls_tensor *shift = ls_mul(s, ls_iota(s, LS_U8, LS_SHAPE(2, 1), 0), number(s, LS_U8, 4));
    ls_tensor *pairs = ls_shr(s, ls_unsqueeze(s, bytes, -2), shift);
    return ls_reshape(s, ls_and(s, pairs, number(s, LS_U8, 15)), *codes);
}

ls_tensor *ls_dequantize(ls_session *s, ls_tensor *x, ls_quant kind) {
    if (!ls_check_operands(s, "dequantize", 1, &x)) {
        return NULL;
    }
    int last = x->shape.rank - 1;
    bool fits = known(kind) && x->dtype == LS_U8 && last >= 0 && last < LS_MAX_RANK - 2 &&
                ls_dim_is_fixed(x->shape.dim[last]) && x->shape.dim[last].offset % block_bytes[kind] == 0;
    if (!fits) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE,
                            "dequantize: the operand is %s, kind %d: expected LS_Q4_0 or LS_Q8_0, and u8 of rank 1 to %d "
                            "whose last extent is a multiple of a block's bytes",
                            LS_TEXT(x), (int)kind, LS_MAX_RANK - 2);
    }
    int64_t blocks = x->shape.dim[last].offset / block_bytes[kind];
    ls_shape grid = x->shape, codes = x->shape, line = x->shape;
    grid.rank = codes.rank = last + 2;
    grid.dim[last] = codes.dim[last] = ls_dim_fixed(blocks);
    grid.dim[last + 1] = ls_dim_fixed(block_bytes[kind]);
    codes.dim[last + 1] = ls_dim_fixed(LS_QUANT_BLOCK);
    line.dim[last] = ls_dim_fixed(blocks * LS_QUANT_BLOCK);
    x = ls_reshape(s, x, grid);
    ls_tensor *scale = half_of(s, ls_narrow(s, x, -1, 0, 2)), *q = ls_narrow(s, x, -1, 2, block_bytes[kind] - 2);
    if (kind == LS_Q4_0) {
        q = halves_of(s, q, &codes);
        q = ls_sub(s, ls_cast(s, q, LS_F32), number(s, LS_F32, 8));
    } else {
        q = ls_cast(s, ls_bitcast(s, q, LS_I8), LS_F32);
    }
    return ls_reshape(s, ls_mul(s, q, scale), line);
}

ls_tensor *ls_linear_q(ls_session *s, ls_tensor *x, ls_tensor *w, ls_quant kind, ls_tensor *bias) {
    ls_tensor *src[] = {x, w};
    if (!ls_check_operands(s, "linear_q", 2, src) || !ls_check_float(s, "linear_q", x) ||
        !ls_check_same_dtype(s, "linear_q", bias, x)) {
        return NULL;
    }
    int rank = x->shape.rank;
    bool fits = w->shape.rank == 2 && rank > 0 && x->dtype != LS_F64 && ls_dim_is_fixed(x->shape.dim[rank - 1]);
    int64_t bytes = fits ? ls_quant_bytes(kind, x->shape.dim[rank - 1].offset) : 0;
    if (!bytes || w->dtype != LS_U8 || !ls_dim_equal(w->shape.dim[1], ls_dim_fixed(bytes))) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE,
                            "linear_q: operands are %s and %s: expected f32, f16 or bf16 [..., k], k a multiple of %d, and u8[rows, "
                            "%" PRId64 "]",
                            LS_TEXT(x), LS_TEXT(w), LS_QUANT_BLOCK, bytes);
    }
    bias = bias ? ls_cast(s, bias, LS_F32) : NULL;
    ls_tensor *y = ls_linear(s, ls_cast(s, x, LS_F32), ls_dequantize(s, w, kind), bias);
    return y ? ls_cast(s, y, x->dtype) : NULL;
}
