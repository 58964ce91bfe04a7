/* The rate of one core with multiplication and addition apart: what locked arithmetic can reach. */
#include "backend/cpu/isa/gemm_vec.h"

#define STEP(c) c = (c) * a + b;
#define PEAK_NAME LS_ISA_SUFFIX(ls_peak_locked)
#include "backend/cpu/isa/peak.inc"
