/* Elementary functions of arithmetic that may fuse, several vectors at a time; compiled with -ffp-contract=fast. An instruction
 * set without fused multiply-adds has none: the locked ones serve. */
#include "backend/cpu/isa/tile_math.h"
#include <string.h>

#if !defined(LS_ISA_SCALAR) && !defined(LS_ISA_SIMD128)
#define LS_MANY LS_TILE_MANY
#define LS_MANY_FAST
#include "math/vector.h"

LS_TILE_SEVERAL(fast_exp)
LS_TILE_SEVERAL(fast_erf)
#if defined(LS_ISA_AVX2)
LS_TILE_ERF(fast_erf, ls_mfast_erf_f32)
LS_TILE_SIGMOID(fast_sigmoid, ls_mfast_exp_f32)
LS_TILE_GATE(fast_sigmoid, fast_sigmoid)
LS_TILE_GATE(fast_tanh, ls_mfast_tanh_f32)
#elif !defined(LS_ISA_AVX512) /* gates_fast.c has it there */
LS_TILE_SEVERAL(fast_tanh)
#endif

const ls_tile_fn LS_TILE_NAME(ls_tile_map_fast)[LS_OP_COUNT] = {[LS_OP_EXP] = LS_TILE_MATH(fast_exp, f32),
#if !defined(LS_ISA_AVX512)
                                                                [LS_OP_TANH] = LS_TILE_MATH(fast_tanh, f32),
#endif
                                                                [LS_OP_ERF] = LS_TILE_MATH(fast_erf, f32)};
#endif
