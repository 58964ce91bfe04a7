/* The matrix unit's products of bf16, its instructions done by hand. */
#ifndef LOCKSTEP_TESTS_SUPPORT_AMX_BY_HAND_H
#define LOCKSTEP_TESTS_SUPPORT_AMX_BY_HAND_H

#include "backend/cpu/gemm_isa.h"

/* NULL where there is no AVX-512 in this build. It needs AVX512-BF16. */
const ls_gemm_pairs *ls_amx_by_hand(void);

#endif
