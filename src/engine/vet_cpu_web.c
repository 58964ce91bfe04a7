/* vet.c and tune.c in lockstep-cpu.wasm, whose devices (cpu, ref) need no vetting and have no strategies to time. */
#include "engine/exec.h"
#include "engine/vet.h"

ls_status ls_vet(ls_device *device, const ls_spec *spec, ls_kernel_binary *binary, ls_error *err) {
    (void)device, (void)spec, (void)binary, (void)err;
    return LS_OK;
}

ls_status ls_tune(ls_device *device, const ls_spec *spec, char out_strategy[LS_STRATEGY_MAX], ls_error *err) {
    (void)device, (void)spec, (void)err;
    out_strategy[0] = 0;
    return LS_OK;
}

ls_status ls_block_strategies(const ls_block *block, ls_strategy_fn each, void *user, ls_error *err) {
    (void)block, (void)each, (void)user, (void)err;
    return LS_OK;
}
