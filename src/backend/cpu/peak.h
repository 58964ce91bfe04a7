/* Measuring what a core can do at most. */
#ifndef LOCKSTEP_BACKEND_CPU_PEAK_H
#define LOCKSTEP_BACKEND_CPU_PEAK_H

#include <stddef.h>
#include <stdint.h>

typedef struct ls_peak_result {
    float sum; /* of no meaning */
    int64_t flops;
} ls_peak_result;
typedef ls_peak_result (*ls_peak_fn)(int64_t n, float scale, float shift);

/* Memory is aligned to 64 bytes, `bytes` is a multiple of LS_PEAK_UNIT. */
enum { LS_PEAK_UNIT = 1024 };
typedef float (*ls_peak_read_fn)(const char *from, size_t bytes); /* gives a number of no meaning */
typedef void (*ls_peak_copy_fn)(char *to, const char *from, size_t bytes);

#endif
