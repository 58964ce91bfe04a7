/* Lines of windows of three taps without a stride, vector by vector: which lie inside of the image with all their taps, and what the others may load.
 * Output j reads elements first + j + (0, 1, 2), those of [0, limit) are there. AVX2's. */
#ifndef LOCKSTEP_BACKEND_CPU_ISA_LINE_ENDS_H
#define LOCKSTEP_BACKEND_CPU_ISA_LINE_ENDS_H

#include "backend/cpu/isa/chain_ops.h"
#include "backend/cpu/isa/gemm_vec.h"

typedef struct line_end {
    int64_t at; /* its first output */
    ls_lanes there[3], which; /* of each tap the lanes in the image, and those of outputs */
} line_end;
typedef struct line_ends {
    int64_t from, to; /* whole vectors inside begin there, one behind another */
    int n;
    line_end of[3]; /* the first vector of a line and its last two at most, if windows end at most two elements beyond it; one may overlap those before */
} line_ends;

line_ends LS_ISA_SUFFIX(ls_line_ends)(int64_t n, int64_t first, int64_t limit); /* of n outputs; line_ends.c */

#endif
