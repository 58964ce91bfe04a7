/* Conversions among all element types, for the operators that need them. */
#ifndef LOCKSTEP_IO_ONNX_CONVERT_H
#define LOCKSTEP_IO_ONNX_CONVERT_H

#include "io/onnx/onnx.h"

typedef enum ls_onnx_rounding { ONNX_ROUND_UP, ONNX_ROUND_DOWN, ONNX_ROUND_NEAREST } ls_onnx_rounding;

/* x, which carries elements of type `from`, as the carrier of type `to` (no strings). Rounds to nearest
 * even, once from f32 or f64; `saturate` and `rounding` (of float8e8m0 alone) as Cast says. NULL: failed,
 * in the session or n->err. */
ls_tensor *ls_onnx_convert(ls_onnx_node *n, ls_tensor *x, int from, int to, bool saturate,
                           ls_onnx_rounding rounding);
/* Operand i in a dtype that arithmetic knows: its own, or f32 for float8 and float4. */
ls_tensor *ls_onnx_in_number(ls_onnx_node *n, int i);
bool ls_onnx_is_small_float(int type); /* float8 of any kind, and float4 */

/* What sums and products of a dtype are computed in: f32 for f16 and bf16, else itself. */
static inline ls_dtype ls_onnx_wide(ls_dtype dtype) {
    return dtype == LS_F16 || dtype == LS_BF16 ? LS_F32 : dtype;
}
static inline bool ls_onnx_is_float(ls_dtype dtype) {
    return dtype >= LS_F16 && dtype <= LS_F64;
}

#endif
