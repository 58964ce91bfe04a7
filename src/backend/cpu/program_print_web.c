/* program_print.c in the modules of pages: backends describe kernels for ls_inspect, which no module exports. */
#include "backend/cpu/kernel.h"

void ls_program_print(ls_text *out, const ls_spec *spec, const ls_program *p) {
    (void)out, (void)spec, (void)p;
}

void ls_band_print(ls_text *out, const ls_kernel_binary *binary) {
    (void)out, (void)binary;
}
