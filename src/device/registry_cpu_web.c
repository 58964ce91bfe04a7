/* The backends of lockstep-cpu.wasm: the processor, and the reference that it is verified against. */
#include "device/device.h"

extern const ls_backend ls_backend_cpu, ls_backend_ref;

const ls_backend *const ls_backends[] = {
    &ls_backend_cpu,
    &ls_backend_ref,
    NULL,
};
