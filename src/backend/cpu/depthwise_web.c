/* A page's module computes depthwise convolutions as it does others: its instruction set has no kernels of their own. */
#include "backend/cpu/windows.h"

bool ls_depthwise_fits(const ls_gemm_phase *gemm, const ls_windows *w) {
    (void)gemm, (void)w;
    return false;
}

void ls_depthwise_run(ls_gemm_launch *launch, const float *filter, char *memory, size_t bytes) {
    (void)launch, (void)filter, (void)memory, (void)bytes;
}
