/* What tests of a GPU's driver ask of it, as src/gpu calls it: bytes to any place, kernels against the interpreter. */
#ifndef LOCKSTEP_TESTS_SUPPORT_GPU_H
#define LOCKSTEP_TESTS_SUPPORT_GPU_H

#include "gpu/gpu.h"

typedef struct gpu_under_test {
    const ls_gpu_api *api;
    void *driver;
    ls_heap *heap;
    ls_arena *arena;
    int32_t subgroup; /* of the interpreter; 0: its own */
} gpu_under_test;

/* The memory of a binding, in the dtype that the kernel gives it. */
typedef struct place {
    void *data;
    size_t count;
} place;

uint32_t gpu_random(void); /* 24 bits, the same ones in every run */
void *gpu_block(const gpu_under_test *g, size_t size);
/* Random writes, copies and reads of two blocks of `size` bytes against host memory; of the reads every `reads`-th happens. */
void gpu_bytes_anywhere(const gpu_under_test *g, size_t size, int steps, int reads);
/* Runs a kernel on the device and in the interpreter; all bytes must be the same. */
void gpu_same_bits(const gpu_under_test *g, const ls_kernel *kernel, place *places, const int64_t *params);
float *gpu_floats(const gpu_under_test *g, size_t n); /* multiples of 1/64, the arena's */

#endif
