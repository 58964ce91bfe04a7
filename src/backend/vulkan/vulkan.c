/* The backend "vulkan": its table, and what stands between it and the layer that GPUs share. */
#include "backend/vulkan/vulkan.h"
#include "backend/vulkan/driver.h"

const ls_gpu_api ls_vk_api = {
    .block_new = ls_vk_block_new,
    .block_free = ls_vk_block_free,
    .write = ls_vk_write,
    .read = ls_vk_read,
    .copy = ls_vk_copy,
    .render = ls_vk_render,
    .build = ls_vk_build,
    .drop = ls_vk_drop,
    .dispatch = ls_vk_dispatch,
    .flush = ls_vk_flush,
    .wait = ls_vk_wait,
    .times = ls_vk_times,
};

static void close_device(ls_device *device) {
    ls_gpu *gpu = device->state;
    if (gpu) {
        vk_driver *d = ls_gpu_driver(gpu);
        ls_gpu_free(gpu);
        ls_vk_close(d);
        ls_free(device->heap, d);
        device->state = NULL;
    }
}

static ls_status open_device(ls_device *device, int index, ls_error *err) {
    ls_gpu_limits limits;
    ls_gpu *gpu;
    vk_driver *d = ls_alloc_zeroed(device->heap, sizeof *d);
    if (!d) {
        return LS_FAIL_MEMORY(err, "a Vulkan device");
    }
    d->device = device;
    d->heap = device->heap;
    ls_status status = ls_vk_open(d, index, &limits, err);
    if (status == LS_OK) {
        ls_vk_clock_find(d, &limits);
        status = ls_gpu_create(device, &ls_vk_api, d, &limits, &gpu, err);
    }
    if (status != LS_OK) {
        ls_vk_close(d);
        ls_free(device->heap, d);
        return LS_FORWARD(err, status);
    }
    device->state = gpu;
    status = ls_gpu_probe(gpu, err);
    if (status != LS_OK) {
        close_device(device);
    }
    return status;
}

const ls_backend ls_backend_vulkan = LS_GPU_BACKEND("vulkan", open_device, close_device, .has_uuids = true);
