/* The backends of this build, in order of preference: the first is the default device. */
#include "device/device.h"

extern const ls_backend ls_backend_cpu, ls_backend_ref, ls_backend_null;

const ls_backend *const ls_backends[] = {
#if __has_include("backend/cpu/cpu.c")
    &ls_backend_cpu,
#endif
    &ls_backend_ref,
    &ls_backend_null,
    NULL,
};
