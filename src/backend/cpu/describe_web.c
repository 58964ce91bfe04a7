/* describe.c in the modules of pages, which export no ls_inspect. */
#include "backend/cpu/kernel.h"

void ls_cpu_describe(const ls_kernel_binary *binary, ls_text *out) {
    (void)binary, (void)out;
}
