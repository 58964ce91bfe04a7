/* Block-quantised columns, locked: products and sums are rounded apart. */
#define MADD(a, b, c) ((c) + (a) * (b))
#define TABLE LS_ISA_SUFFIX(ls_quant)
#include "backend/cpu/isa/quant.inc"
