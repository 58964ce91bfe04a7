/* Weights quantised in blocks of 32, as GGUF files hold them.
 *
 * A row of k numbers (k a multiple of 32) is k / 32 blocks one after another, each the f16 scale d, little-endian, and 32 codes:
 *
 *   LS_Q4_0   18 bytes   d, then 16 bytes: code j in the low half of byte j, code j + 16 in the high half   w = (code - 8) d
 *   LS_Q8_0   34 bytes   d, then 32 signed bytes                                                             w = code d
 *
 * Both products are exact in f32. A matrix of weights is a tensor u8[rows, bytes of a row]. It goes into networks by ls_linear_q, a
 * composite of ordinary operations: every device runs it, and its locked bits are those of dequantised weights in a product. The
 * `cpu` device keeps such weights in 4 or 8 bits and dequantises them on the way into the product; in `reduced` it also quantises
 * the other operand, in blocks of 32 to 8 bits, and multiplies integers (docs/contract.md, C28).
 *
 *   uint8_t *w = malloc(rows * ls_quant_bytes(LS_Q4_0, k));
 *   ls_quantize(LS_Q4_0, rows, k, numbers, w, &err);
 *   y = ls_linear_q(s, x, ls_tensor_from(s, LS_U8, LS_SHAPE(rows, ls_quant_bytes(LS_Q4_0, k)), w), LS_Q4_0, NULL);
 * */
#ifndef LOCKSTEP_QUANT_H
#define LOCKSTEP_QUANT_H

#include <lockstep/tensor.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ls_quant { LS_Q4_0, LS_Q8_0 } ls_quant;
enum { LS_QUANT_BLOCK = 32 };

/* Bytes of a row of k numbers; 0 where k is not a positive multiple of 32, or `kind` is none. Any thread. */
LS_API int64_t ls_quant_bytes(ls_quant kind, int64_t k);

/* Quantises rows of k numbers each. With x the first number of largest magnitude in a block,
 *   Q4_0: d = x / -8, code = trunc(w / d + 8.5), at most 15;
 *   Q8_0: d = |x| / 127, code = w / d, rounded half away from zero
 * where w / d is w * (1 / d) in f32 with d before its rounding to f16; a block of zeros has d = 0. Numbers that are not finite, or too large
 * for an f16 scale, are LS_ERR_INVALID with their place. Any thread. */
LS_API ls_status ls_quantize(ls_quant kind, int64_t rows, int64_t k, const float *x, uint8_t *out, ls_error *err) LS_MUST_USE;

/* u8[..., bytes of a row] -> f32[..., k]: the formulas above. Not differentiable. */
LS_API ls_tensor *ls_dequantize(ls_session *s, ls_tensor *x, ls_quant kind);

/* x[..., k] times w u8[rows, bytes of k] dequantised and transposed, plus bias[rows] (may be NULL): ls_linear(x, ls_dequantize(w), bias). x is
 * f32, or f16 or bf16, which are computed in f32 and rounded once at the end; the bias has its dtype. Differentiable in x and the bias. */
LS_API ls_tensor *ls_linear_q(ls_session *s, ls_tensor *x, ls_tensor *w, ls_quant kind, ls_tensor *bias);

#ifdef __cplusplus
}
#endif
#endif
