/* In place of chosen.c where size counts more than training: such operands are in memory. */
#include "backend/cpu/chosen.h"

bool ls_chosen_may(void) {
    return false;
}

ls_status ls_chosen_plan(ls_kernel_binary *binary, ls_error *err) {
    (void)binary, (void)err;
    return LS_OK;
}

void ls_chosen_write(ls_kernel_run *kernel) {
    (void)kernel;
}
