/* In place of fuse.c where size counts more: instructions are done one after another. */
#include "backend/cpu/kernel.h"
#include "backend/cpu/program_builder.h"

int ls_pb_rows_of(ls_program_builder *b, int n_axes, const uint8_t *axes) {
    (void)b, (void)n_axes, (void)axes;
    return 0;
}

int ls_fused_uses(const ls_fused *f, int16_t *out) {
    (void)f, (void)out;
    return 0;
}

bool ls_pb_fuse(ls_program_builder *b, int n_periodic, int n_results, const int16_t *results) {
    (void)b, (void)n_periodic, (void)n_results, (void)results;
    return true;
}

void ls_run_fused(ls_run *run, const ls_instr *in, int64_t n) {
    (void)run, (void)in, (void)n;
}

bool ls_program_streams(const ls_program *p, int n_args, int rows) {
    (void)p, (void)n_args, (void)rows;
    return false;
}

void ls_fold_by_rows(ls_run *run, int which, int64_t lane, int64_t rows, int64_t inner, float *partials, float *cells, ls_row_fn finish,
                     void *ctx) {
    (void)run, (void)which, (void)lane, (void)rows, (void)inner, (void)partials, (void)cells, (void)finish, (void)ctx;
}

int ls_stream_axes(const ls_kernel_binary *b, const ls_phase *phase, uint8_t *axes) {
    (void)b, (void)phase, (void)axes;
    return 0;
}

int64_t ls_run_tile(const ls_run *run) {
    return ls_program_tile(run->program);
}

int ls_kept_in_result(const ls_kernel_binary *b, int temp) {
    (void)b, (void)temp;
    return 0;
}
