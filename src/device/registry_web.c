/* The backends of the WebAssembly build, in order of preference. */
#include "device/device.h"

extern const ls_backend ls_backend_cpu, ls_backend_webgpu, ls_backend_ref;

const ls_backend *const ls_backends[] = {
    &ls_backend_cpu,
    &ls_backend_webgpu,
    &ls_backend_ref,
    NULL,
};
