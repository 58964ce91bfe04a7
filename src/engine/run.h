/* The state of one run of a compiled graph. Internal to src/engine. */
#ifndef LOCKSTEP_ENGINE_RUN_H
#define LOCKSTEP_ENGINE_RUN_H

#include "engine/exec.h"

typedef struct ls_run {
    ls_exec *exec;
    const int64_t *symbols;
    ls_error *err;
    ls_check check;
    const ls_check_hooks *hooks;
    uint64_t kernels, launch_ns;
    const ls_step *range_step; /* the first that met an index out of range */
    uint64_t range_serial;     /* as its binary says */
} ls_run;

#endif
