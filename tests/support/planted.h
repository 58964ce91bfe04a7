/* A device whose kernels can be made wrong, slow and counted: between the engine and the device's backend. And a disk cache
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
    int (*delay)(const char *strategy);                 /* microseconds before each launch; NULL: none */
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

/* Stands before the device's backend from now on, with no fault, no delay, and counts from 0. */
void planted_on(ls_device *device);
/* A disk cache of the test's own, and its end. */
void planted_cache_open(void);
void planted_cache_close(void);

#endif
