/* scan.c in lockstep-cpu.wasm: nothing that the module exports makes a scan or a sort. */
#include "backend/cpu/kernel.h"

void ls_phase_scan(const ls_phase_task *task) {
    (void)task;
    __builtin_trap();
}

void ls_phase_sort(const ls_phase_task *task) {
    (void)task;
    __builtin_trap();
}
