/* A device whose kernels can be made wrong, said to be slow, and counted: between the engine and the device's backend. And a disk cache
 * of the test's own. */
#ifndef LOCKSTEP_TESTS_SUPPORT_PLANTED_H
#define LOCKSTEP_TESTS_SUPPORT_PLANTED_H

#include "engine/exec.h"
#include "support/world.h"

enum { PLANTED_BINARIES = 256 };
typedef struct planted_device {
    const ls_backend *real;
    ls_backend table;
    void (*fault)(ls_spec *spec, const char *strategy); /* changes what is compiled; NULL: nothing */
    uint64_t (*takes)(const char *strategy);            /* nanoseconds of a launch by the device's clock; all the same at first */
    const char *refused;                                /* a strategy that is not available; NULL: none */
    int launches, n_made;
    char last[LS_STRATEGY_MAX]; /* the strategy of the last compile: at the end of a run, the engine's choice */
    struct {
        const ls_kernel_binary *binary;
        char strategy[LS_STRATEGY_MAX];
    } made[PLANTED_BINARIES];
    char folder[64];
} planted_device;
extern planted_device planted;

/* Stands before the device's backend from now on, with no fault, and counts from 0. */
void planted_on(ls_device *device);
/* A disk cache of the test's own, and its end. */
void planted_cache_open(void);
void planted_cache_close(void);

#endif
