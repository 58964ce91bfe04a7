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
    bool dry;     /* nothing is moved nor computed: late devices make what the launches will need */
    bool unready; /* dry: one of them has not answered yet */
    uint64_t kernels, launch_ns;
    const ls_step *range_step; /* the first that met an index out of range */
    uint64_t range_serial;     /* as its binary says */
} ls_run;

#endif
