/* The state of the CUDA driver that runs nothing (fakes/cuda.c), exported by its library as `fake_cuda`. */
#ifndef LOCKSTEP_TESTS_FAKES_CUDA_H
#define LOCKSTEP_TESTS_FAKES_CUDA_H

#include <stddef.h>
#include <stdint.h>

typedef struct fake_cuda_state {
    int devices, version, capability;
    size_t largest;      /* a larger allocation finds no memory; 0: any */
    char fail_name[48];  /* the function that is to fail, at its call number fail_at, with fail_code */
    int fail_at, fail_code, sticky;
    int slow;            /* queries before an event is done */
    long calls, launches, captured, graphs, linked;
    long live, contexts, depth; /* made and not given back */
    struct { /* the last tensor map */
        uint64_t address, sizes[2], stride;
        uint32_t box[2];
        int type, swizzle;
    } map;
    int map_at;         /* where a launch's parameters are to have such a map; 0: nowhere */
    uint64_t launched;  /* the address of the one that was there */
} fake_cuda_state;

#endif
