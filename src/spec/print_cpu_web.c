/* print.c in lockstep-cpu.wasm: backends describe kernels for ls_inspect, which the module does not export. */
#include "spec/spec.h"

void ls_spec_print(ls_text *out, const ls_spec *spec) {
    (void)out, (void)spec;
}
