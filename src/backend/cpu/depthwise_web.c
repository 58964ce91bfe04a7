/* A page's module computes all convolutions in one way: its instruction set has no kernels for depthwise ones. */
#include "backend/cpu/windows.h"

bool ls_depthwise_fits(const ls_gemm_phase *gemm, const ls_windows *w) {
    (void)gemm, (void)w;
    return false;
}

void ls_depthwise_run(ls_gemm_launch *launch, const float *filter, char *memory, size_t bytes) {
    (void)launch, (void)filter, (void)memory, (void)bytes;
}

bool ls_runs_fits(const ls_cpu *cpu, const ls_gemm_phase *gemm, const ls_windows *w) {
    (void)cpu, (void)gemm, (void)w;
    return false;
}

ls_status ls_runs_plan(ls_kernel_binary *binary, const ls_gemm_phase *gemm, ls_windows *w, ls_error *err) {
    (void)binary, (void)gemm, (void)w, (void)err;
    return LS_OK;
}

size_t ls_runs_bytes(const ls_windows *w) {
    (void)w;
    return 0;
}

void ls_runs_run(ls_gemm_launch *launch, const float *filter, char *memory, size_t bytes) {
    (void)launch, (void)filter, (void)memory, (void)bytes;
}
