/* Measuring what a core can do at most. */
#ifndef LOCKSTEP_BACKEND_CPU_PEAK_H
#define LOCKSTEP_BACKEND_CPU_PEAK_H

#include <stdint.h>

typedef struct ls_peak_result {
    float sum; /* of no meaning */
    int64_t flops;
} ls_peak_result;
typedef ls_peak_result (*ls_peak_fn)(int64_t n, float scale, float shift);

#endif
