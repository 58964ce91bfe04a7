/* peak.c in the modules of pages, which export no ls_device_rate. */
#include "backend/cpu/kernel.h"

ls_status ls_cpu_rate(ls_device *device, ls_rate rate, size_t bytes, int threads, double *out_rate, ls_error *err) {
    (void)rate, (void)bytes, (void)threads;
    *out_rate = 0;
    return LS_FAIL(err, LS_ERR_UNSUPPORTED, "%s: no rates", device->id);
}
