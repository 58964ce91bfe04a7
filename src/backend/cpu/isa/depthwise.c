/* Locked depthwise convolutions: multiply, round, add, round. */
#define DEPTHWISE LS_ISA_SUFFIX(ls_depthwise)
#define MADD(a, b, c) ((c) + (a) * (b))
#if !defined(LS_ISA_SIMD128) && !defined(LS_ISA_SCALAR)
#include "backend/cpu/isa/depthwise.inc"
#endif
