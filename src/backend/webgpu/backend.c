/* The backend's table: opens the native host and puts the layer that GPUs share on top of it. */
#include "backend/webgpu/webgpu.h"
#include "base/os.h"
#include <string.h>

static void close_device(ls_device *device) {
    ls_gpu *gpu = device->state;
    ls_webgpu *driver = ls_gpu_driver(gpu);
    ls_gpu_free(gpu);
    ls_webgpu_close(driver);
}

static ls_status open_host(ls_device *device, int index, ls_webgpu_host **out_host, ls_error *err) {
    LS_TRY(err, ls_webgpu_open_host(device->heap, index, out_host, err));
    return (*out_host)->late || ls_os_env("LOCKSTEP_WEBGPU_LATE") ? ls_webgpu_late(device->heap, *out_host, out_host, err) : LS_OK;
}

static ls_status create(ls_device *device, int index, ls_error *err) {
    ls_webgpu_host *host;
    ls_webgpu *driver;
    ls_gpu_limits limits;
    ls_gpu *gpu;
    LS_TRY(err, open_host(device, index, &host, err));
    memcpy(device->caps.name, host->name, sizeof device->caps.name);
    memcpy(device->caps.driver, host->driver, sizeof device->caps.driver);
    LS_TRY(err, ls_webgpu_create(device->heap, host, &driver, err));
    ls_webgpu_get_limits(driver, &limits);
    device->caps.dtypes = (1u << LS_DTYPE_COUNT) - 1;
    device->caps.shared_bytes = limits.max_shared;
    device->caps.subgroup = (int)host->limits.subgroup_min;
    device->late = host->late;
    ls_status status = ls_gpu_create(device, &ls_webgpu_api, driver, &limits, &gpu, err);
    if (status != LS_OK) {
        ls_webgpu_close(driver);
        return status;
    }
    device->state = gpu;
    return LS_OK;
}

static ls_status open_device(ls_device *device, int index, ls_error *err) {
    if (!device->state) { /* else it is opened on */
        LS_TRY(err, create(device, index, err));
    }
    ls_status status = ls_webgpu_prepare(ls_gpu_driver(device->state), err);
    status = status == LS_OK ? ls_gpu_probe(device->state, err) : status;
    if (status != LS_OK && status != LS_ERR_AGAIN) {
        close_device(device);
    }
    return status == LS_OK ? LS_OK : LS_FORWARD(err, status);
}

const ls_backend ls_backend_webgpu = LS_GPU_BACKEND("webgpu", open_device, close_device);
