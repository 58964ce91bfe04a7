/* CUDA devices through the driver alone: its library is opened at run time, kernels reach it as PTX text. The primary context
 * is used, so that addresses can be shared with other libraries of the process. */
#include "backend/cuda/cuda.h"
#include <stdio.h>
#include <string.h>

static ls_status block_new(void *driver, size_t size, void **out_block, ls_error *err) {
    ls_cuda *c = driver;
    ls_cu_address address = 0;
    LS_TRY(err, ls_cuda_enter(c, err));
    ls_status status = ls_cuda_check(c, c->api.memory_new(&address, size ? size : 1), ls_cuda_names.memory_new, err);
    ls_cuda_leave(c);
    *out_block = (void *)(uintptr_t)address;
    return status == LS_ERR_MEMORY ? LS_FAIL(err, status, "%s has no %zu bytes free", c->id, size) : status;
}

static void block_free(void *driver, void *block) {
    ls_cuda *c = driver;
    ls_error ignored = {.code = LS_OK};
    if (ls_cuda_enter(c, &ignored) == LS_OK) { /* memory of a lost device goes with its context */
        (void)ls_cuda_settle(c, &ignored);
        (void)c->api.stream_synchronize(c->stream);
        (void)c->api.memory_free((ls_cu_address)(uintptr_t)block);
        ls_cuda_leave(c);
    }
}

static const ls_gpu_api api = {
    .block_new = block_new,
    .block_free = block_free,
    .write = ls_cuda_write,
    .read = ls_cuda_read,
    .copy = ls_cuda_copy,
    .render = ls_cuda_render,
    .build = ls_cuda_build,
    .drop = ls_cuda_drop,
    .dispatch = ls_cuda_dispatch,
    .flush = ls_cuda_flush,
    .wait = ls_cuda_wait,
    .times = ls_cuda_times,
};

static int attribute(ls_cuda *c, int which) {
    int value = 0;
    return c->api.device_attribute(&value, which, c->device) == LS_CU_OK ? value : 0;
}

/* What PTX is written for: a version that the driver reads, and an architecture that it knows and that runs here. */
static ls_status choose_ptx(ls_cuda *c, int version, int capability, ls_error *err) {
    static const int known[][2] = {{90, 78}, {89, 78}, {86, 71}, {80, 70}, {75, 63}, {70, 60}}; /* architecture, since */
    c->isa = version >= 12000 ? 80 : 70 + version % 1000 / 10;
    if (version < 11040 || capability < 70) {
        return LS_FAIL(err, LS_ERR_DEVICE,
                       "%s: driver for CUDA %d.%d, compute capability %d.%d: 11.4 and 7.0 or later are needed", c->id,
                       version / 1000, version % 1000 / 10, capability / 10, capability % 10);
    }
    for (size_t i = 0; !c->sm; i++) {
        c->sm = capability >= known[i][0] && c->isa >= known[i][1] ? known[i][0] : 0;
    }
    c->arch = capability == 90 && c->isa >= 80 && c->api.tensor_map;
    return LS_OK;
}

static ls_status describe(ls_cuda *c, ls_caps *caps, ls_error *err) {
    int version = 0, capability = 10 * attribute(c, LS_CU_COMPUTE_MAJOR) + attribute(c, LS_CU_COMPUTE_MINOR);
    char name[64] = "";
    uint8_t uuid[16] = {0};
    size_t bytes = 0;
    LS_CUDA_TRY(c, err, device_uuid, uuid, c->device);
    LS_CUDA_TRY(c, err, driver_version, &version);
    LS_CUDA_TRY(c, err, device_name, name, (int)sizeof name - 1, c->device);
    LS_CUDA_TRY(c, err, device_memory, &bytes, c->device);
    LS_TRY(err, choose_ptx(c, version, capability, err));
    c->multiprocessors = attribute(c, LS_CU_MULTIPROCESSORS);
    ls_uuid_write(uuid, caps->uuid);
    snprintf(caps->name, sizeof caps->name, "%s", name);
    snprintf(caps->driver, sizeof caps->driver, "CUDA driver %d.%d, compute capability %d.%d", version / 1000,
             version % 1000 / 10, capability / 10, capability % 10);
    caps->memory_bytes = bytes;
    caps->subgroup = attribute(c, LS_CU_WARP_SIZE);
    caps->shared_bytes = (size_t)attribute(c, LS_CU_MAX_SHARED_PER_BLOCK_OPTIN);
    caps->dtypes = (1u << LS_DTYPE_COUNT) - 1;
    return LS_OK;
}

/* The number of the first device whose UUID begins with the digits. */
static ls_status find_uuid(ls_cuda *c, ls_device *device, int count, int *out_index, ls_error *err) {
    uint8_t bytes[16] = {0};
    char uuid[37];
    for (int i = 0; i < count; i++) {
        LS_CUDA_TRY(c, err, device_get, &c->device, i);
        LS_CUDA_TRY(c, err, device_uuid, bytes, c->device);
        ls_uuid_write(bytes, uuid);
        if (ls_uuid_matches(device->wanted, uuid)) {
            snprintf(device->id, sizeof device->id, i ? "cuda:%d" : "cuda", i);
            *out_index = i;
            return LS_OK;
        }
    }
    return LS_FAIL(err, LS_ERR_DEVICE, "cuda:uuid=%.40s: none of the %d CUDA device%s here has it", device->wanted, count,
                   count == 1 ? "" : "s");
}

static ls_status open_driver(ls_cuda *c, ls_device *device, int index, ls_error *err) {
    ls_caps *caps = &device->caps;
    int count = 0;
    LS_TRY(err, ls_cuda_load(c, err));
    ls_cu_result r = c->api.init(0);
    if (r == LS_CU_OK) {
        r = c->api.device_count(&count);
    }
    if (r == LS_CU_NO_DEVICE || (r == LS_CU_OK && index >= count)) {
        return LS_FAIL(err, LS_ERR_DEVICE, "%s: the CUDA driver sees %d device%s", c->id, count, count == 1 ? "" : "s");
    }
    if (r != LS_CU_OK) {
        ls_error own = {.code = LS_OK};
        (void)ls_cuda_check(c, r, ls_cuda_names.init, &own);
        return LS_FAIL(err, LS_ERR_DEVICE, "%s: the CUDA driver does not start: is it of the kernel module's version?",
                       own.message);
    }
    if (index < 0) {
        LS_TRY(err, find_uuid(c, device, count, &index, err));
    }
    LS_CUDA_TRY(c, err, device_get, &c->device, index);
    LS_TRY(err, describe(c, caps, err));
    LS_CUDA_TRY(c, err, context_retain, &c->context, c->device);
    c->retained = true;
    LS_TRY(err, ls_cuda_enter(c, err));
    ls_status status = ls_cuda_queue_open(c, err);
    ls_cuda_leave(c);
    return status;
}

/* The library stays open: the driver has threads and handlers of its own by now. */
static void close_driver(ls_cuda *c) {
    if (c->retained) {
        bool current = c->api.context_push(c->context) == LS_CU_OK;
        ls_cuda_forget(c, NULL);
        ls_cuda_vendor_close(c);
        ls_cuda_queue_close(c);
        if (current) {
            ls_cuda_leave(c);
        }
        (void)c->api.context_release(c->device);
    }
    ls_free(c->heap, c);
}

static void cuda_close(ls_device *device) {
    ls_gpu *gpu = device->state;
    if (gpu) {
        ls_cuda *c = ls_gpu_driver(gpu);
        ls_gpu_free(gpu);
        close_driver(c);
        device->state = NULL;
    }
}

static ls_gpu_limits limits_of(ls_cuda *c, const ls_caps *caps) {
    ls_gpu_limits limits = {.traits = LS_KT_ALL,
                            .align = 16, /* of loads of several lanes */
                            .max_binding = SIZE_MAX,
                            .block = 64 << 20,
                            .max_shared = caps->shared_bytes,
                            .max_bindings = 128,
                            .max_words = 256,
                            .max_groups = 65535,
                            .max_threads = attribute(c, LS_CU_MAX_THREADS_PER_BLOCK),
                            .overlap = true,
                            .subgroup = caps->subgroup,
                            .vendor = &ls_cuda_products,
                            .clock = "CUDA events"};
    limits.traits &= c->sm >= 80 ? ~UINT32_C(0) : ~(uint32_t)LS_KT_BFLOAT_CAST;
    if (c->sm >= 80) {
        const ls_emit_frag frags[] = {{LS_F16, 16, 16, 16}, {LS_BF16, 16, 16, 16}};
        limits.n_frags = sizeof frags / sizeof *frags;
        memcpy(limits.frags, frags, sizeof frags);
        limits.frag_words = true;
        limits.products = c->arch;
    }
    return limits;
}

ls_status ls_cuda_open(ls_device *device, int index, ls_error *err) {
    ls_gpu *gpu = NULL;
    ls_cuda *c = ls_alloc_zeroed(device->heap, sizeof *c);
    if (!c) {
        return LS_FAIL_MEMORY(err, "a CUDA device");
    }
    c->heap = device->heap;
    c->id = device->id;
    c->owner = device;
    ls_status status = open_driver(c, device, index, err);
    if (status == LS_OK) {
        ls_gpu_limits limits = limits_of(c, &device->caps);
        status = ls_gpu_create(device, &api, c, &limits, &gpu, err);
    }
    if (status != LS_OK) {
        close_driver(c);
        return LS_FORWARD(err, status);
    }
    device->state = gpu;
    return LS_OK;
}

static ls_status cuda_open(ls_device *device, int index, ls_error *err) {
    LS_TRY(err, ls_cuda_open(device, index, err));
    ls_status status = ls_gpu_probe(device->state, err);
    if (status != LS_OK) {
        cuda_close(device);
    }
    return status;
}

const ls_backend ls_backend_cuda = LS_GPU_BACKEND("cuda", cuda_open, cuda_close, .has_uuids = true);
