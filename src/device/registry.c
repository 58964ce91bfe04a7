/* The backends of this build, in order of preference: the first is the default device. */
#include "device/device.h"

extern const ls_backend ls_backend_cpu, ls_backend_cuda, ls_backend_vulkan, ls_backend_webgpu, ls_backend_ref, ls_backend_sim, ls_backend_null;

const ls_backend *const ls_backends[] = {
    &ls_backend_cpu,
    &ls_backend_cuda,
    &ls_backend_vulkan,
    &ls_backend_webgpu,
    &ls_backend_ref,
    &ls_backend_sim,
    &ls_backend_null,
    NULL,
};
