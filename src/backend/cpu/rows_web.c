/* In place of rows.c: bands are done in blocks, columns element by element. */
#include "backend/cpu/kernel.h"

int64_t ls_rows_plan(const ls_kernel_binary *b) {
    (void)b;
    return 0;
}

size_t ls_rows_bytes(void) {
    return 0;
}

bool ls_rows_run(ls_kernel_run *kernel, char *scratch, int64_t first, int64_t n) {
    (void)kernel, (void)scratch, (void)first, (void)n;
    return false;
}

ls_even_rows ls_even_rows_of(ls_run *run, const ls_value *v, int64_t lane) {
    (void)run, (void)v, (void)lane;
    return (ls_even_rows){0};
}

void ls_even_rows_fold(const ls_even_rows *e, const ls_tile_isa *isa, int which, float *results, int64_t k, int64_t end, int64_t step,
                       int64_t lanes, int64_t next) {
    (void)e, (void)isa, (void)which, (void)results, (void)k, (void)end, (void)step, (void)lanes, (void)next;
}
