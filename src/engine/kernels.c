/* Kernel binaries of a device, found by the whole structure of their specs and the strategy that was asked
 * for. Invariant: the cache changes under its mutex, and an entry, once there, is never changed nor
 * removed before the device is closed. */
#include "base/os.h"
#include "engine/exec.h"
#include "engine/vet.h"
#include <string.h>

struct ls_kernel_cache {
    ls_mutex *mutex;
    ls_map map; /* of kernels */
};

static bool kernel_equal(const void *a, const void *b) {
    const ls_kernel *x = a, *y = b;
    return strcmp(x->strategy, y->strategy) == 0 && ls_spec_equal(&x->spec, &y->spec);
}

ls_status ls_kernel_cache_create(ls_device *device, ls_error *err) {
    struct ls_kernel_cache *cache = ls_alloc_zeroed(device->heap, sizeof *cache);
    ls_mutex *mutex = cache ? ls_mutex_create(device->heap) : NULL;
    if (!mutex) {
        ls_free(device->heap, cache);
        return LS_FAIL_MEMORY(err, "a device's kernels");
    }
    cache->mutex = mutex;
    ls_map_init(&cache->map, device->heap, kernel_equal);
    device->kernels = cache;
    return LS_OK;
}

static void kernel_free(ls_device *device, ls_kernel *kernel) {
    if (kernel->binary) {
        device->backend->destroy(device, kernel->binary);
    }
    ls_arena_free(&kernel->arena);
    ls_free(device->heap, kernel);
}

void ls_kernel_cache_free(ls_device *device) {
    struct ls_kernel_cache *cache = device->kernels;
    size_t pos = 0;
    for (ls_kernel *kernel; (kernel = ls_map_next(&cache->map, &pos));) {
        kernel_free(device, kernel);
    }
    ls_map_free(&cache->map);
    ls_mutex_destroy(device->heap, cache->mutex);
    ls_free(device->heap, cache);
    device->kernels = NULL;
}

static ls_status kernel_new(ls_device *device, const ls_kernel *key, ls_kernel **out_kernel, ls_error *err) {
    ls_kernel *kernel = ls_alloc_zeroed(device->heap, sizeof *kernel);
    if (!kernel) {
        return LS_FAIL_MEMORY(err, "a kernel");
    }
    ls_arena_init(&kernel->arena, device->heap);
    memcpy(kernel->strategy, key->strategy, sizeof kernel->strategy);
    ls_status status = ls_spec_copy(&kernel->arena, &key->spec, &kernel->spec, err);
    char tuned[LS_STRATEGY_MAX] = "";
    if (status == LS_OK && !kernel->strategy[0]) {
        status = ls_tune(device, &kernel->spec, tuned, err);
    }
    if (status == LS_OK) {
        const char *strategy = kernel->strategy[0] ? kernel->strategy : tuned[0] ? tuned : NULL;
        uint64_t begin = ls_os_nanoseconds();
        status = device->backend->compile(device, &kernel->spec, strategy, &kernel->binary, err);
        if (status == LS_ERR_UNSUPPORTED && strategy == tuned) { /* it was chosen where there was more to choose from */
            ls_context_log(device->context, LS_LOG_WARN, "%s: kernel %s cannot be by %s, as it was tuned: %s", device->id,
                           kernel->spec.name, tuned, err ? err->message : "");
            ls_error_clear(err);
            kernel->binary = NULL;
            status = device->backend->compile(device, &kernel->spec, NULL, &kernel->binary, err);
        }
        if (!device->defers) { /* those that compile for a driver tell more, and themselves */
            ls_device_note_compile(device, kernel->spec.name, ls_os_nanoseconds() - begin, 0, false);
        }
    }
    if (status == LS_OK) {
        status = ls_vet(device, &kernel->spec, kernel->binary, err);
    }
    if (status == LS_OK && !ls_map_put(&device->kernels->map, kernel->spec.hash, kernel, kernel)) {
        status = LS_FAIL_MEMORY(err, "a kernel");
    }
    if (status != LS_OK) {
        kernel_free(device, kernel);
        return LS_FORWARD(err, status);
    }
    *out_kernel = kernel;
    return LS_OK;
}

static ls_status kernel_find(ls_device *device, const ls_spec *spec, const char *strategy,
                             const ls_kernel **out_kernel, ls_error *err) {
    ls_kernel key = {.spec = *spec};
    memcpy(key.strategy, strategy, strlen(strategy));
    ls_mutex_lock(device->kernels->mutex);
    ls_kernel *kernel = ls_map_get(&device->kernels->map, spec->hash, &key);
    ls_status status = kernel ? LS_OK : kernel_new(device, &key, &kernel, err);
    ls_mutex_unlock(device->kernels->mutex);
    *out_kernel = kernel;
    return status;
}

ls_status ls_kernel_get(ls_device *device, const ls_spec *spec, const char *strategy,
                        const ls_kernel **out_kernel, ls_error *err) {
    const ls_spec_fault *fault = atomic_load_explicit(&device->context->fault, memory_order_relaxed);
    if (!fault || fault->device != device) {
        return kernel_find(device, spec, strategy, out_kernel, err);
    }
    ls_arena arena;
    ls_spec planted;
    ls_arena_init(&arena, device->heap);
    ls_status status = fault->plant(fault->user, &arena, spec, &planted, err);
    if (status == LS_OK) {
        status = kernel_find(device, &planted, strategy, out_kernel, err);
    }
    ls_arena_free(&arena);
    return status;
}
