/* The device's state, its lock, and the entries of the backend's table that move bytes. */
#include "gpu/internal.h"

ls_status ls_gpu_create(ls_device *device, const ls_gpu_api *api, void *driver, const ls_gpu_limits *limits, ls_gpu **out_gpu,
                        ls_error *err) {
    ls_gpu *gpu = ls_alloc_zeroed(device->heap, sizeof *gpu);
    ls_mutex *mutex = gpu ? ls_mutex_create(device->heap) : NULL;
    if (!mutex) {
        ls_free(device->heap, gpu);
        return LS_FAIL_MEMORY(err, "a device");
    }
    *gpu = (ls_gpu){.device = device, .heap = device->heap, .api = api, .driver = driver, .limits = *limits, .mutex = mutex};
    device->defers = true;
    device->clock = limits->clock;
    *out_gpu = gpu;
    return LS_OK;
}

void ls_gpu_free(ls_gpu *gpu) {
    if (gpu) {
        ls_gpu_memory_free_all(gpu);
        ls_mutex_destroy(gpu->heap, gpu->mutex);
        ls_free(gpu->heap, gpu);
    }
}

const ls_gpu_limits *ls_gpu_get_limits(const ls_gpu *gpu) {
    return &gpu->limits;
}

void *ls_gpu_driver(const ls_gpu *gpu) {
    return gpu->driver;
}

void ls_gpu_covered(ls_gpu *gpu, uint32_t *out_launched, uint32_t *out_possible) {
    const ls_gpu_limits *l = &gpu->limits;
    uint32_t not_here = l->n_frags ? 0 : 1u << LS_COVER_FRAGMENTS;
    not_here |= l->n_frags && l->frag_words ? 0 : 1u << LS_COVER_MATRIX;
    not_here |= l->products ? 0 : 1u << LS_COVER_PRODUCT;
    not_here |= l->max_threads >= 256 ? 0 : 1u << LS_COVER_ATTENTION;
    not_here |= l->subgroup >= 32 && l->subgroup % 32 == 0 ? 0 : 1u << LS_COVER_VECTOR_ALONG;
    not_here |= l->align > 1 ? 0 : 1u << LS_COVER_LAUNCH_BASE;
    not_here |= l->max_bindings < LS_GPU_BINDINGS ? 0 : 1u << LS_COVER_LAUNCH_MERGED;
    not_here |= l->overlap ? 1u << LS_COVER_LAUNCH_ALIAS : 0;
    ls_mutex_lock(gpu->mutex);
    *out_launched = gpu->cover;
    ls_mutex_unlock(gpu->mutex);
    *out_possible = ((1u << LS_COVERS) - 1) & ~not_here;
}

/* ---- the table's entries: each is one call under the lock ---- */

#define UNDER_LOCK(gpu, status, call) \
    do {                              \
        ls_mutex_lock((gpu)->mutex);  \
        (status) = (call);            \
        ls_mutex_unlock((gpu)->mutex); \
    } while (0)

ls_status ls_gpu_alloc(ls_device *device, size_t size, void **out_handle, ls_error *err) {
    ls_gpu *gpu = device->state;
    ls_status status;
    ls_gpu_memory *memory = ls_alloc(gpu->heap, sizeof *memory);
    if (!memory) {
        return LS_FAIL_MEMORY(err, "a buffer");
    }
    UNDER_LOCK(gpu, status, ls_gpu_memory_new(gpu, size, memory, err));
    if (status != LS_OK) {
        ls_free(gpu->heap, memory);
        return LS_FAIL(err, status, "%s: no buffer of %zu bytes", device->id, size);
    }
    *out_handle = memory;
    return LS_OK;
}

void ls_gpu_release(ls_device *device, void *handle, size_t size) {
    ls_gpu *gpu = device->state;
    (void)size;
    ls_mutex_lock(gpu->mutex);
    ls_gpu_memory_free(gpu, *(ls_gpu_memory *)handle);
    ls_mutex_unlock(gpu->mutex);
    ls_free(gpu->heap, handle);
}

ls_status ls_gpu_upload(ls_device *device, ls_buffer *dst, size_t offset, const void *src, size_t size, ls_error *err) {
    ls_gpu *gpu = device->state;
    const ls_gpu_memory *m = dst->handle;
    ls_status status;
    UNDER_LOCK(gpu, status, gpu->api->write(gpu->driver, m->block->block, m->offset + offset, src, size, err));
    return status;
}

ls_status ls_gpu_download(ls_device *device, const ls_buffer *src, size_t offset, void *dst, size_t size, ls_error *err) {
    ls_gpu *gpu = device->state;
    const ls_gpu_memory *m = src->handle;
    ls_status status;
    UNDER_LOCK(gpu, status, gpu->api->read(gpu->driver, m->block->block, m->offset + offset, dst, size, err));
    return status;
}

ls_status ls_gpu_copy(ls_device *device, ls_buffer *dst, size_t dst_offset, const ls_buffer *src, size_t src_offset,
                      size_t size, ls_error *err) {
    ls_gpu *gpu = device->state;
    const ls_gpu_memory *to = dst->handle, *from = src->handle;
    ls_status status;
    UNDER_LOCK(gpu, status,
               gpu->api->copy(gpu->driver, to->block->block, to->offset + dst_offset, from->block->block,
                              from->offset + src_offset, size, err));
    return status;
}

ls_status ls_gpu_submit(ls_device *device, uint64_t *out_ticket, ls_error *err) {
    ls_gpu *gpu = device->state;
    ls_status status;
    UNDER_LOCK(gpu, status, gpu->api->flush(gpu->driver, out_ticket, err));
    return status;
}

/* A blocking wait is also where profiles get their times. */
static ls_status wait(ls_gpu *gpu, uint64_t ticket, int blocking, int *out_done, ls_error *err) {
    ls_status status = gpu->api->wait(gpu->driver, ticket, blocking, out_done, err);
    if (blocking && status == LS_OK) {
        return ls_gpu_collect_times(gpu, err);
    }
    gpu->n_timed = blocking ? 0 : gpu->n_timed;
    return status;
}

ls_status ls_gpu_wait(ls_device *device, uint64_t ticket, int blocking, int *out_done, ls_error *err) {
    ls_gpu *gpu = device->state;
    ls_status status;
    UNDER_LOCK(gpu, status, wait(gpu, ticket, blocking, out_done, err));
    return status;
}
