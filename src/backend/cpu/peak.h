/* Measuring what a core can do at most. */
#ifndef LOCKSTEP_BACKEND_CPU_PEAK_H
#define LOCKSTEP_BACKEND_CPU_PEAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/cpu/cpuid.h"

typedef struct ls_peak_result {
    float sum; /* of no meaning */
    int64_t flops;
} ls_peak_result;
typedef ls_peak_result (*ls_peak_fn)(int64_t n, float scale, float shift);

/* Memory is aligned to 64 bytes, `bytes` is a multiple of LS_PEAK_UNIT. */
enum { LS_PEAK_UNIT = 1024 };
typedef float (*ls_peak_read_fn)(const char *from, size_t bytes, bool four); /* in order, or four quarters at once; gives a number of no meaning */
typedef void (*ls_peak_copy_fn)(char *to, const char *from, size_t bytes);

/* What the code of an instruction set has of them. */
typedef struct ls_peaks {
    ls_peak_fn mul_add, fma, bf16, int8, amx; /* NULL: not in this build's code; the last is bf16 by the matrix unit */
    ls_peak_read_fn read;
    ls_peak_copy_fn copy, stream;
} ls_peaks;
extern const ls_peaks ls_peaks_of_isa[]; /* by ls_cpu_isa */
ls_peak_fn ls_peak_of_bf16(const ls_cpu *cpu, const ls_peaks *peaks); /* of products in `reduced` */

#endif
