/* The native host: Dawn's C interface, found at run time.
 *
 * Futures are waited for by number and their own callbacks carry nothing, because the signature of the queue's callback
 * differs between builds. Errors reach the host through scopes around what creates objects, and through the uncaptured-error
 * callback for commands. At most MAX_WORK submits are in flight: the next one waits for the oldest. */
#include "backend/webgpu/api.h"
#include "backend/webgpu/host.h"
#include "base/os.h"
#include "device/cache.h"
#include <stdio.h>
#include <string.h>

enum { MAX_WORK = 64, MAX_SCOPES = 32, MAX_MAPS = 64 };
#define SECOND UINT64_C(1000000000)
#define INSTALL "set LOCKSTEP_WEBGPU to the path of Dawn's library (libwebgpu_dawn.so, or npm's bun-webgpu-linux-x64)"

#define DRIVER "it needs a driver of Vulkan 1.1 or later (it refuses Mesa's lavapipe 22.3)"

typedef struct functions {
#define FIELD(name, result, parameters) result(*name) parameters;
    LS_WGPU_FUNCTIONS(FIELD)
#undef FIELD
} functions;

/* The answer to what is asked for while opening. In the host, because it may come after the asker has given up. */
typedef struct request {
    void *object;
    char message[512];
} request;

typedef struct dawn {
    ls_webgpu_host base;
    request request;
    functions f;
    WGPUInstance instance;
    WGPUAdapter adapter;
    WGPUDevice device;
    WGPUQueue queue;
    WGPUCommandEncoder encoder; /* what is being recorded, or NULL */
    WGPUComputePassEncoder pass;
    WGPUComputePipeline bound; /* in the pass */
    WGPUQuerySet timers; /* made when first needed */
    WGPUFuture scopes[MAX_SCOPES];
    WGPUFuture work[MAX_WORK]; /* of the submits completed + 1 .. submitted, by number modulo MAX_WORK */
    WGPUFuture maps[MAX_MAPS]; /* mappings that have not come, the oldest first */
    int found, missed; /* in the disk cache, by Dawn */
    void (*force_loss)(WGPUDevice device, uint32_t reason, WGPUStringView message); /* NULL in a library that has none */
} dawn;

typedef struct pipeline {
    WGPUComputePipeline pipeline;
    WGPUBindGroupLayout layout;
    int n_storage;
    uint32_t uniform_size;
} pipeline;

static dawn *dawn_of(ls_webgpu_host *host) {
    return (dawn *)host;
}

static WGPUStringView view(const char *s) {
    return (WGPUStringView){s, s ? strlen(s) : 0};
}

/* ---- errors ---- */

static void note(dawn *d, ls_status status, WGPUStringView message) {
    if (d->base.error == LS_OK) {
        size_t length = message.data ? message.length == SIZE_MAX ? strlen(message.data) : message.length : 0;
        int n = length < sizeof d->base.message ? (int)length : (int)sizeof d->base.message - 1;
        d->base.error = status;
        snprintf(d->base.message, sizeof d->base.message, "%.*s", n, n ? message.data : "");
        for (char *end = d->base.message + strlen(d->base.message); end > d->base.message && (end[-1] == '\n' || end[-1] == ' ');) {
            *--end = 0;
        }
    }
}

static void note_type(dawn *d, uint32_t type, WGPUStringView message) {
    note(d, type == WGPU_ERROR_OUT_OF_MEMORY ? LS_ERR_MEMORY : type == WGPU_ERROR_VALIDATION ? LS_ERR_INTERNAL : LS_ERR_DEVICE, message);
}

static void on_lost(const WGPUDevice *device, uint32_t reason, WGPUStringView message, void *user1, void *user2) {
    (void)device, (void)user2;
    dawn *d = user1;
    if (reason != WGPU_LOST_DESTROYED) {
        d->base.lost = true;
        note(d, LS_ERR_DEVICE, message);
    }
}

static void on_uncaptured(const WGPUDevice *device, uint32_t type, WGPUStringView message, void *user1, void *user2) {
    (void)device, (void)user2;
    note_type(user1, type, message);
}

static void on_scope(uint32_t status, uint32_t type, WGPUStringView message, void *user1, void *user2) {
    (void)user2;
    if (status == WGPU_SUCCESS && type != WGPU_ERROR_NONE) {
        note_type(user1, type, message);
    }
}

static WGPUCallbackInfo callback(void (*function)(void), void *user1) {
    return (WGPUCallbackInfo){.mode = WGPU_CALLBACK_WAIT_ANY, .function = function, .user1 = user1};
}

/* Whether the future is done, within so many nanoseconds. A wait that fails counts as done: what it was for is lost. */
static bool is_done(dawn *d, WGPUFuture future, uint64_t nanoseconds) {
    WGPUFutureWaitInfo info = {future, 0};
    uint32_t status = d->f.InstanceWaitAny(d->instance, 1, &info, nanoseconds);
    if (status != WGPU_SUCCESS && status != WGPU_WAIT_TIMED_OUT) {
        d->base.lost = true;
        note(d, LS_ERR_DEVICE, view("waiting failed"));
        return true;
    }
    return info.completed != 0;
}

static void begin_scope(dawn *d) {
    d->f.DevicePushErrorScope(d->device, WGPU_FILTER_OUT_OF_MEMORY);
    d->f.DevicePushErrorScope(d->device, WGPU_FILTER_INTERNAL);
    d->f.DevicePushErrorScope(d->device, WGPU_FILTER_VALIDATION);
}

static void settle(dawn *d, uint64_t nanoseconds) {
    while (d->base.unsettled && is_done(d, d->scopes[d->base.unsettled - 1], nanoseconds)) {
        d->base.unsettled--;
    }
}

static void end_scope(dawn *d) {
    for (int i = 0; i < 3; i++) {
        while (d->base.unsettled == MAX_SCOPES) {
            settle(d, SECOND);
        }
        d->scopes[d->base.unsettled++] = d->f.DevicePopErrorScope(d->device, callback((void (*)(void))on_scope, d));
        settle(d, 0);
    }
}

/* ---- Dawn's cache of translated and compiled shaders, kept in ours ---- */

static void cache_key(const dawn *d, const void *key, size_t size, ls_cache_key *out_key) {
    ls_cache_key_begin(out_key, "dawn", NULL);
    ls_cache_key_text(out_key, d->base.name);
    ls_cache_key_text(out_key, d->base.driver);
    ls_cache_key_add(out_key, key, size);
}

/* Dawn asks twice, first for the size alone. */
static size_t cache_load(const void *key, size_t key_size, void *value, size_t value_size, void *user) {
    dawn *d = user;
    ls_cache_key ours;
    void *bytes;
    size_t size = 0;
    cache_key(d, key, key_size, &ours);
    bool there = ls_cache_get(d->base.heap, &ours, &bytes, &size);
    if (there && value && value_size >= size) {
        memcpy(value, bytes, size);
        d->found++;
    } else if (!there) {
        d->missed++;
        size = 0;
    }
    ls_free(d->base.heap, bytes);
    return size;
}

static void cache_store(const void *key, size_t key_size, const void *value, size_t value_size, void *user) {
    dawn *d = user;
    ls_cache_key ours;
    cache_key(d, key, key_size, &ours);
    (void)ls_cache_put(d->base.heap, &ours, value, value_size);
}

/* ---- objects ---- */

static void *buffer_new(ls_webgpu_host *host, uint64_t size, ls_webgpu_use use) {
    static const uint64_t uses[] = {
        [LS_WEBGPU_STORAGE] = WGPU_USE_STORAGE | WGPU_USE_COPY_SRC | WGPU_USE_COPY_DST,
        [LS_WEBGPU_STAGING] = WGPU_USE_STORAGE | WGPU_USE_UNIFORM | WGPU_USE_COPY_SRC | WGPU_USE_COPY_DST,
        [LS_WEBGPU_READBACK] = WGPU_USE_MAP_READ | WGPU_USE_COPY_DST,
        [LS_WEBGPU_TIMES] = WGPU_USE_QUERY_RESOLVE | WGPU_USE_COPY_SRC,
    };
    dawn *d = dawn_of(host);
    WGPUBufferDescriptor desc = {.usage = uses[use], .size = size};
    begin_scope(d);
    WGPUBuffer buffer = d->f.DeviceCreateBuffer(d->device, &desc);
    end_scope(d);
    return buffer;
}

static void buffer_free(ls_webgpu_host *host, void *buffer) {
    dawn_of(host)->f.BufferRelease(buffer);
}

static WGPUBindGroupLayout new_layout(dawn *d, const ls_webgpu_pipeline_desc *desc) {
    WGPUBindGroupLayoutEntry entries[33];
    memset(entries, 0, sizeof entries);
    int n = 0;
    for (; n < desc->n_storage && n < 32; n++) {
        entries[n].binding = (uint32_t)n;
        entries[n].visibility = WGPU_STAGE_COMPUTE;
        entries[n].buffer.type = desc->read_only >> n & 1 ? WGPU_BINDING_READ_ONLY_STORAGE : WGPU_BINDING_STORAGE;
    }
    if (desc->uniform_size) {
        entries[n].binding = (uint32_t)n;
        entries[n].visibility = WGPU_STAGE_COMPUTE;
        entries[n].buffer.type = WGPU_BINDING_UNIFORM;
        entries[n].buffer.dynamic_offset = 1;
        entries[n].buffer.min_size = desc->uniform_size;
        n++;
    }
    WGPUBindGroupLayoutDescriptor layout = {.n_entries = (size_t)n, .entries = entries};
    return d->f.DeviceCreateBindGroupLayout(d->device, &layout);
}

static void *pipeline_new(ls_webgpu_host *host, const ls_webgpu_pipeline_desc *desc) {
    dawn *d = dawn_of(host);
    pipeline *p = ls_alloc_zeroed(host->heap, sizeof *p);
    if (!p) {
        return NULL;
    }
    int missed = d->missed;
    begin_scope(d);
    p->n_storage = desc->n_storage;
    p->uniform_size = desc->uniform_size;
    p->layout = new_layout(d, desc);
    WGPUPipelineLayoutDescriptor layout = {.n_groups = 1, .groups = &p->layout};
    WGPUPipelineLayout pipeline_layout = d->f.DeviceCreatePipelineLayout(d->device, &layout);
    WGPUShaderSourceWGSL source = {.chain.type = WGPU_CHAIN_WGSL, .code = view(desc->wgsl)};
    WGPUShaderModuleDescriptor module_desc = {.next = &source.chain, .label = view(desc->name)};
    WGPUShaderModule module = d->f.DeviceCreateShaderModule(d->device, &module_desc);
    if (d->base.error == LS_OK) {
        WGPUComputePipelineDescriptor pipeline_desc = {.label = view(desc->name), .layout = pipeline_layout};
        pipeline_desc.compute.module = module;
        pipeline_desc.compute.entry = view("main");
        p->pipeline = d->f.DeviceCreateComputePipeline(d->device, &pipeline_desc);
    }
    d->f.ShaderModuleRelease(module);
    d->f.PipelineLayoutRelease(pipeline_layout);
    end_scope(d);
    host->cached = d->found + d->missed && d->missed == missed; /* what Dawn still holds it does not look up */
    return p;
}

static void pipeline_free(ls_webgpu_host *host, void *handle) {
    dawn *d = dawn_of(host);
    pipeline *p = handle;
    if (p->pipeline) {
        d->f.ComputePipelineRelease(p->pipeline);
    }
    d->f.BindGroupLayoutRelease(p->layout);
    ls_free(host->heap, p);
}

static void *group_new(ls_webgpu_host *host, void *handle, const ls_webgpu_binding *storage, void *uniform) {
    dawn *d = dawn_of(host);
    const pipeline *p = handle;
    WGPUBindGroupEntry entries[33];
    memset(entries, 0, sizeof entries);
    int n = 0;
    for (; n < p->n_storage && n < 32; n++) {
        entries[n] = (WGPUBindGroupEntry){.binding = (uint32_t)n, .buffer = storage[n].buffer, .offset = storage[n].offset, .size = storage[n].size};
    }
    if (p->uniform_size) {
        entries[n] = (WGPUBindGroupEntry){.binding = (uint32_t)n, .buffer = uniform, .size = p->uniform_size};
        n++;
    }
    WGPUBindGroupDescriptor desc = {.layout = p->layout, .n_entries = (size_t)n, .entries = entries};
    return d->f.DeviceCreateBindGroup(d->device, &desc);
}

static void group_free(ls_webgpu_host *host, void *group) {
    dawn_of(host)->f.BindGroupRelease(group);
}

/* ---- commands ---- */

static void record(dawn *d) {
    if (!d->encoder) {
        d->encoder = d->f.DeviceCreateCommandEncoder(d->device, NULL);
    }
}

static void end_pass(dawn *d) {
    if (d->pass) {
        d->f.ComputePassEncoderEnd(d->pass);
        d->f.ComputePassEncoderRelease(d->pass);
        d->pass = NULL;
    }
}

/* A timed pass holds one dispatch: only passes have timestamps. */
static void begin_pass(dawn *d, int timer) {
    const uint32_t first = (uint32_t)(timer - 1) * 2;
    if (timer && !d->timers) {
        const WGPUQuerySetDescriptor set = {.type = WGPU_QUERY_TIMESTAMP, .count = 2 * LS_WEBGPU_TIMERS};
        d->timers = d->f.DeviceCreateQuerySet(d->device, &set);
    }
    const WGPUPassTimestampWrites times = {.set = d->timers, .begin = first, .end = first + 1};
    const WGPUComputePassDescriptor pass = {.timestamps = &times};
    d->pass = d->f.CommandEncoderBeginComputePass(d->encoder, timer ? &pass : NULL);
    d->bound = NULL;
}

static void dispatch(ls_webgpu_host *host, void *handle, void *group, uint32_t uniform_offset, const uint32_t groups[3],
                     uint32_t written, int timer) {
    dawn *d = dawn_of(host);
    (void)written;
    const pipeline *p = handle;
    record(d);
    if (timer) {
        end_pass(d);
    }
    if (!d->pass) {
        begin_pass(d, timer);
    }
    if (d->bound != p->pipeline) {
        d->bound = p->pipeline;
        d->f.ComputePassEncoderSetPipeline(d->pass, p->pipeline);
    }
    d->f.ComputePassEncoderSetBindGroup(d->pass, 0, group, p->uniform_size ? 1 : 0, &uniform_offset);
    d->f.ComputePassEncoderDispatchWorkgroups(d->pass, groups[0], groups[1], groups[2]);
    if (timer) {
        end_pass(d);
    }
}

static void resolve(ls_webgpu_host *host, int n, void *buffer) {
    dawn *d = dawn_of(host);
    record(d);
    end_pass(d);
    d->f.CommandEncoderResolveQuerySet(d->encoder, d->timers, 0, 2 * (uint32_t)n, buffer, 0);
}

static void copy(ls_webgpu_host *host, void *to, uint64_t to_offset, void *from, uint64_t from_offset, uint64_t size) {
    dawn *d = dawn_of(host);
    record(d);
    end_pass(d);
    d->f.CommandEncoderCopyBufferToBuffer(d->encoder, from, from_offset, to, to_offset, size);
}

static void write(ls_webgpu_host *host, void *buffer, uint64_t offset, const void *data, size_t size) {
    dawn *d = dawn_of(host);
    d->f.QueueWriteBuffer(d->queue, buffer, offset, data, size);
}

static void on_done(uint32_t status) {
    (void)status;
}

static void finish_work(dawn *d, uint64_t nanoseconds) {
    ls_webgpu_host *host = &d->base;
    while (host->completed < host->submitted && is_done(d, d->work[(host->completed + 1) % MAX_WORK], nanoseconds)) {
        host->completed++;
        nanoseconds = 0;
    }
}

static void submit(ls_webgpu_host *host) {
    dawn *d = dawn_of(host);
    while (host->submitted - host->completed >= MAX_WORK) {
        finish_work(d, SECOND);
    }
    record(d);
    end_pass(d);
    WGPUCommandBuffer commands = d->f.CommandEncoderFinish(d->encoder, NULL);
    d->f.CommandEncoderRelease(d->encoder);
    d->encoder = NULL;
    d->f.QueueSubmit(d->queue, 1, &commands);
    d->f.CommandBufferRelease(commands);
    host->submitted++;
    d->work[host->submitted % MAX_WORK] = d->f.QueueOnSubmittedWorkDone(d->queue, callback((void (*)(void))on_done, NULL));
}

/* ---- mapping ---- */

static void on_mapped(uint32_t status, WGPUStringView message, void *user1, void *user2) {
    (void)user2;
    if (status != WGPU_SUCCESS) {
        note(user1, LS_ERR_DEVICE, message);
    }
}

static void finish_maps(dawn *d, uint64_t nanoseconds) {
    while (d->base.mapping && is_done(d, d->maps[0], nanoseconds)) {
        memmove(d->maps, d->maps + 1, sizeof *d->maps * (size_t)--d->base.mapping);
        nanoseconds = 0;
    }
}

static void map(ls_webgpu_host *host, void *buffer, size_t size) {
    dawn *d = dawn_of(host);
    while (host->mapping == MAX_MAPS) {
        finish_maps(d, SECOND);
    }
    d->maps[host->mapping++] =
        d->f.BufferMapAsync(buffer, WGPU_MAP_READ, 0, size, callback((void (*)(void))on_mapped, d));
}

static const void *mapped(ls_webgpu_host *host, void *buffer, size_t size) {
    return host->lost ? NULL : dawn_of(host)->f.BufferGetConstMappedRange(buffer, 0, size); /* NULL where mapping failed */
}

static void unmap(ls_webgpu_host *host, void *buffer) {
    dawn_of(host)->f.BufferUnmap(buffer);
}

static void wait(ls_webgpu_host *host, uint64_t nanoseconds) {
    dawn *d = dawn_of(host);
    if (host->unsettled) {
        settle(d, nanoseconds);
    } else if (host->mapping) {
        finish_maps(d, nanoseconds);
    } else {
        finish_work(d, nanoseconds);
    }
    d->f.InstanceProcessEvents(d->instance);
}

static void lose(ls_webgpu_host *host) {
    dawn *d = dawn_of(host);
    if (d->force_loss) {
        d->force_loss(d->device, WGPU_LOST_UNKNOWN, view("lost on request"));
        d->f.InstanceProcessEvents(d->instance);
    }
}

static void close_host(ls_webgpu_host *host) {
    dawn *d = dawn_of(host);
    end_pass(d);
    if (d->encoder) {
        d->f.CommandEncoderRelease(d->encoder);
    }
    if (d->timers) {
        d->f.QuerySetRelease(d->timers);
    }
    if (d->queue) {
        d->f.QueueRelease(d->queue);
    }
    if (d->device) {
        d->f.DeviceDestroy(d->device);
        d->f.InstanceProcessEvents(d->instance);
        d->f.DeviceRelease(d->device);
    }
    if (d->adapter) {
        d->f.AdapterRelease(d->adapter);
    }
    if (d->instance) {
        d->f.InstanceProcessEvents(d->instance); /* the last callbacks still point to `d` */
        d->f.InstanceRelease(d->instance);
    }
    ls_free(host->heap, d);
}

static const ls_webgpu_host_api host_api = {
    .buffer_new = buffer_new, .buffer_free = buffer_free, .pipeline_new = pipeline_new, .pipeline_free = pipeline_free,
    .group_new = group_new, .group_free = group_free, .dispatch = dispatch, .resolve = resolve, .copy = copy, .write = write,
    .submit = submit, .map = map, .mapped = mapped, .unmap = unmap, .wait = wait, .lose = lose, .close = close_host,
};

/* ---- opening ---- */

static ls_status load(dawn *d, ls_error *err) {
    const char *path = ls_os_env("LOCKSTEP_WEBGPU"), *reason;
    const char *const named[] = {path, NULL}, *const usual[] = {"libwebgpu_dawn.so", "libwebgpu_wrapper.so", NULL};
    ls_os_library *library = ls_os_library_open(path ? named : usual, &reason);
    if (!library) {
        return LS_FAIL(err, LS_ERR_DEVICE, "no WebGPU library: %s; %s", reason, INSTALL);
    }
#define LOAD(name, result, parameters)                                                                                     \
    void *name = ls_os_library_symbol(library, "wgpu" #name);                                                              \
    if (!name) {                                                                                                           \
        ls_os_library_close(library);                                                                                      \
        return LS_FAIL(err, LS_ERR_DEVICE, "webgpu: the library has no function wgpu%s; %s", #name, INSTALL);              \
    }                                                                                                                      \
    memcpy(&d->f.name, &name, sizeof name);
    LS_WGPU_FUNCTIONS(LOAD)
#undef LOAD
    void *force_loss = ls_os_library_symbol(library, "wgpuDeviceForceLoss");
    memcpy(&d->force_loss, &force_loss, sizeof force_loss);
    if (!ls_os_library_symbol(library, "wgpuGetInstanceCapabilities")) { /* later instance descriptors are laid out otherwise */
        ls_os_library_close(library);
        return LS_FAIL(err, LS_ERR_DEVICE, "webgpu: the library is not of the interface of May 2025; %s", INSTALL);
    }
    return LS_OK;
}

static void on_object(uint32_t status, void *object, WGPUStringView message, void *user1, void *user2) {
    (void)user2;
    request *r = user1;
    r->object = status == WGPU_SUCCESS ? object : NULL;
    size_t length = message.data ? message.length == SIZE_MAX ? strlen(message.data) : message.length : 0;
    snprintf(r->message, sizeof r->message, "%.*s", length < 500 ? (int)length : 500, length ? message.data : "no reason given");
}

static void on_adapter(uint32_t status, WGPUAdapter adapter, WGPUStringView message, void *user1, void *user2) {
    on_object(status, adapter, message, user1, user2);
}

static void on_device(uint32_t status, WGPUDevice device, WGPUStringView message, void *user1, void *user2) {
    on_object(status, device, message, user1, user2);
}

static ls_status open_adapter(dawn *d, ls_error *err) {
    WGPUInstanceDescriptor desc = {.capabilities = {.timed_wait = 1, .timed_wait_max = 8}};
    d->instance = d->f.CreateInstance(&desc);
    if (!d->instance) {
        return LS_FAIL(err, LS_ERR_DEVICE, "webgpu: wgpuCreateInstance failed");
    }
    WGPURequestAdapterOptions options = {.feature_level = WGPU_LEVEL_CORE, .power_preference = WGPU_POWER_HIGH};
    request *r = &d->request;
    *r = (request){NULL, "no answer"};
    is_done(d, d->f.InstanceRequestAdapter(d->instance, &options, callback((void (*)(void))on_adapter, r)), 20 * SECOND);
    d->adapter = r->object;
    ls_os_library_keep("libGLX_nvidia.so.0"); /* see vulkan/open.c */
    return d->adapter ? LS_OK : LS_FAIL(err, LS_ERR_DEVICE, "Dawn finds no adapter: %s; %s", r->message, DRIVER);
}

/* LS_ERR_DEVICE for the adapter that Dawn has where it found none: it takes every command and does nothing. */
static ls_status describe(dawn *d, ls_error *err) {
    WGPUAdapterInfo info = {0};
    d->f.AdapterGetInfo(d->adapter, &info);
    bool null = info.backend_type == WGPU_BACKEND_NULL;
    WGPUStringView name = info.device.length ? info.device : info.vendor, more = info.description;
    snprintf(d->base.name, sizeof d->base.name, "%.*s", (int)name.length, name.data ? name.data : "");
    snprintf(d->base.driver, sizeof d->base.driver, "Dawn over %.*s", (int)more.length, more.data ? more.data : "an unnamed driver");
    d->base.limits.subgroup_min = info.subgroup_min;
    d->base.limits.subgroup_max = info.subgroup_max;
    d->f.AdapterInfoFreeMembers(info);
    return null ? LS_FAIL(err, LS_ERR_DEVICE, "Dawn finds no driver, only its null adapter; %s", DRIVER) : LS_OK;
}

static ls_status open_device(dawn *d, ls_error *err) {
    WGPULimits limits = {0};
    ls_webgpu_limits *l = &d->base.limits;
    if (d->f.AdapterGetLimits(d->adapter, &limits) != WGPU_SUCCESS) {
        return LS_FAIL(err, LS_ERR_DEVICE, "webgpu: wgpuAdapterGetLimits failed");
    }
    limits.next = NULL;
    l->timestamps = d->f.AdapterHasFeature(d->adapter, WGPU_FEATURE_TIMESTAMP);
    l->f16 = d->f.AdapterHasFeature(d->adapter, WGPU_FEATURE_F16);
    l->subgroups = d->f.AdapterHasFeature(d->adapter, WGPU_FEATURE_SUBGROUPS);
    uint32_t features[3];
    size_t n = 0;
    features[n] = WGPU_FEATURE_TIMESTAMP, n += l->timestamps;
    features[n] = WGPU_FEATURE_F16, n += l->f16;
    features[n] = WGPU_FEATURE_SUBGROUPS, n += l->subgroups;
    /* Quantised, timestamps count in steps of 65 us: a page's caution, and none of ours. */
    static const char *const off[] = {"timestamp_quantization"};
    WGPUDawnTogglesDescriptor toggles = {.chain.type = WGPU_CHAIN_TOGGLES, .n_disabled = 1, .disabled = off};
    WGPUDawnCacheDeviceDescriptor cache = {.chain = {&toggles.chain, WGPU_CHAIN_CACHE}, .load = cache_load, .store = cache_store, .user = d};
    WGPUDeviceDescriptor desc = {.next = &cache.chain, .n_features = n, .features = features, .limits = &limits};
    desc.lost = (WGPUCallbackInfo){.mode = WGPU_CALLBACK_PROCESS_EVENTS, .function = (void (*)(void))on_lost, .user1 = d};
    desc.uncaptured = (WGPUUncapturedErrorInfo){.function = on_uncaptured, .user1 = d};
    request *r = &d->request;
    *r = (request){NULL, "no answer"};
    is_done(d, d->f.AdapterRequestDevice(d->adapter, &desc, callback((void (*)(void))on_device, r)), 20 * SECOND);
    d->device = r->object;
    if (!d->device) {
        return LS_FAIL(err, LS_ERR_DEVICE, "webgpu: %s gives no device: %s", d->base.name, r->message);
    }
    d->queue = d->f.DeviceGetQueue(d->device);
    l->max_buffer = limits.buffer_size;
    l->max_binding = limits.storage_size;
    l->align = limits.uniform_align > limits.storage_align ? limits.uniform_align : limits.storage_align;
    l->max_storage = limits.storage_buffers;
    l->max_shared = limits.workgroup_bytes;
    l->max_threads = limits.workgroup_threads;
    memcpy(l->max_size, limits.workgroup_size, sizeof l->max_size);
    l->max_groups = limits.grid;
    return LS_OK;
}

ls_status ls_webgpu_open_host(ls_heap *heap, int index, ls_webgpu_host **out_host, ls_error *err) {
    if (index) {
        return LS_FAIL(err, LS_ERR_DEVICE, "webgpu:%d: there is one adapter, webgpu, the one that Dawn prefers", index);
    }
    dawn *d = ls_alloc_zeroed(heap, sizeof *d);
    if (!d) {
        return LS_FAIL_MEMORY(err, "a WebGPU host");
    }
    d->base.api = &host_api;
    d->base.heap = heap;
    ls_status status = load(d, err);
    if (status == LS_OK) {
        status = open_adapter(d, err);
    }
    if (status == LS_OK) {
        status = describe(d, err);
    }
    if (status == LS_OK) {
        status = open_device(d, err);
    }
    if (status != LS_OK) {
        close_host(&d->base);
        return LS_FORWARD(err, status);
    }
    *out_host = &d->base;
    return LS_OK;
}
