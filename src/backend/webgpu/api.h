/* The part of WebGPU's C interface that the native host uses, by the names of the specification (webgpu-headers, May 2025;
 * the instance descriptor is Dawn's of that time). Values and layouts are those of the binary interface: the sizes are
 * asserted, and what is never looked at is a gap. */
#ifndef LOCKSTEP_BACKEND_WEBGPU_API_H
#define LOCKSTEP_BACKEND_WEBGPU_API_H

#include <stddef.h>
#include <stdint.h>

typedef struct WGPUInstanceImpl *WGPUInstance;
typedef struct WGPUAdapterImpl *WGPUAdapter;
typedef struct WGPUDeviceImpl *WGPUDevice;
typedef struct WGPUQueueImpl *WGPUQueue;
typedef struct WGPUBufferImpl *WGPUBuffer;
typedef struct WGPUShaderModuleImpl *WGPUShaderModule;
typedef struct WGPUBindGroupLayoutImpl *WGPUBindGroupLayout;
typedef struct WGPUBindGroupImpl *WGPUBindGroup;
typedef struct WGPUPipelineLayoutImpl *WGPUPipelineLayout;
typedef struct WGPUComputePipelineImpl *WGPUComputePipeline;
typedef struct WGPUCommandEncoderImpl *WGPUCommandEncoder;
typedef struct WGPUCommandBufferImpl *WGPUCommandBuffer;
typedef struct WGPUComputePassEncoderImpl *WGPUComputePassEncoder;
typedef struct WGPUQuerySetImpl *WGPUQuerySet;

enum {
    WGPU_SUCCESS = 1, /* of every status */
    WGPU_CALLBACK_WAIT_ANY = 1,
    WGPU_CALLBACK_PROCESS_EVENTS = 2,
    WGPU_WAIT_TIMED_OUT = 2,
    WGPU_BACKEND_NULL = 1,
    WGPU_BINDING_UNIFORM = 2,
    WGPU_BINDING_STORAGE = 3,
    WGPU_BINDING_READ_ONLY_STORAGE = 4,
    WGPU_FILTER_VALIDATION = 1,
    WGPU_FILTER_OUT_OF_MEMORY = 2,
    WGPU_FILTER_INTERNAL = 3,
    WGPU_ERROR_NONE = 1,
    WGPU_ERROR_VALIDATION = 2,
    WGPU_ERROR_OUT_OF_MEMORY = 3,
    WGPU_LOST_UNKNOWN = 1,
    WGPU_LOST_DESTROYED = 2,
    WGPU_LEVEL_CORE = 2,
    WGPU_POWER_HIGH = 2,
    WGPU_FEATURE_TIMESTAMP = 0x3,
    WGPU_FEATURE_F16 = 0xa,
    WGPU_FEATURE_SUBGROUPS = 0x11,
    WGPU_CHAIN_WGSL = 2,
    WGPU_CHAIN_CACHE = 0x50007, /* Dawn's, as is */
    WGPU_CHAIN_TOGGLES = 0x5000a,
    WGPU_QUERY_TIMESTAMP = 2,
    WGPU_STAGE_COMPUTE = 4,
    WGPU_MAP_READ = 1,
    WGPU_USE_MAP_READ = 0x1,
    WGPU_USE_COPY_SRC = 0x4,
    WGPU_USE_COPY_DST = 0x8,
    WGPU_USE_UNIFORM = 0x40,
    WGPU_USE_STORAGE = 0x80,
    WGPU_USE_QUERY_RESOLVE = 0x200
};

typedef struct WGPUChainedStruct {
    struct WGPUChainedStruct *next;
    uint32_t type;
} WGPUChainedStruct;

typedef struct WGPUStringView {
    const char *data;
    size_t length;
} WGPUStringView;

typedef struct WGPUFuture {
    uint64_t id;
} WGPUFuture;

typedef struct WGPUFutureWaitInfo {
    WGPUFuture future;
    uint32_t completed;
} WGPUFutureWaitInfo;

typedef struct WGPUInstanceDescriptor {
    WGPUChainedStruct *next;
    struct {
        WGPUChainedStruct *next;
        uint32_t timed_wait;
        size_t timed_wait_max;
    } capabilities;
} WGPUInstanceDescriptor;

typedef struct WGPURequestAdapterOptions {
    WGPUChainedStruct *next;
    uint32_t feature_level, power_preference, force_fallback, backend_type;
    void *compatible_surface;
} WGPURequestAdapterOptions;

/* All callback infos have this layout; `function` is of the type that belongs to the call. */
typedef struct WGPUCallbackInfo {
    WGPUChainedStruct *next;
    uint32_t mode;
    void (*function)(void);
    void *user1, *user2;
} WGPUCallbackInfo;

typedef struct WGPUUncapturedErrorInfo {
    WGPUChainedStruct *next;
    void (*function)(const WGPUDevice *device, uint32_t type, WGPUStringView message, void *user1, void *user2);
    void *user1, *user2;
} WGPUUncapturedErrorInfo;

typedef struct WGPULimits {
    WGPUChainedStruct *next;
    uint32_t texture[4], groups, groups_plus_vertex, bindings, dynamic_uniform, dynamic_storage, textures, samplers;
    uint32_t storage_buffers, storage_textures, uniform_buffers;
    uint64_t uniform_size, storage_size;
    uint32_t uniform_align, storage_align, vertex_buffers;
    uint64_t buffer_size;
    uint32_t vertex[2], stage_variables, color[2];
    uint32_t workgroup_bytes, workgroup_threads, workgroup_size[3], grid, immediate;
} WGPULimits;

typedef struct WGPUAdapterInfo {
    WGPUChainedStruct *next;
    WGPUStringView vendor, architecture, device, description;
    uint32_t backend_type, adapter_type, vendor_id, device_id, subgroup_min, subgroup_max;
} WGPUAdapterInfo;

typedef struct WGPUDeviceDescriptor {
    WGPUChainedStruct *next;
    WGPUStringView label;
    size_t n_features;
    const uint32_t *features;
    const WGPULimits *limits;
    struct {
        WGPUChainedStruct *next;
        WGPUStringView label;
    } queue;
    WGPUCallbackInfo lost;
    WGPUUncapturedErrorInfo uncaptured;
} WGPUDeviceDescriptor;

typedef struct WGPUBufferDescriptor {
    WGPUChainedStruct *next;
    WGPUStringView label;
    uint64_t usage, size;
    uint32_t mapped;
} WGPUBufferDescriptor;

typedef struct WGPUShaderSourceWGSL {
    WGPUChainedStruct chain;
    WGPUStringView code;
} WGPUShaderSourceWGSL;

typedef struct WGPUShaderModuleDescriptor {
    WGPUChainedStruct *next;
    WGPUStringView label;
} WGPUShaderModuleDescriptor;

typedef struct WGPUBindGroupLayoutEntry {
    WGPUChainedStruct *next;
    uint32_t binding;
    uint64_t visibility;
    uint32_t array_size;
    struct {
        WGPUChainedStruct *next;
        uint32_t type, dynamic_offset;
        uint64_t min_size;
    } buffer;
    char others[64]; /* samplers and textures: all zero */
} WGPUBindGroupLayoutEntry;

typedef struct WGPUBindGroupLayoutDescriptor {
    WGPUChainedStruct *next;
    WGPUStringView label;
    size_t n_entries;
    const WGPUBindGroupLayoutEntry *entries;
} WGPUBindGroupLayoutDescriptor;

typedef struct WGPUPipelineLayoutDescriptor {
    WGPUChainedStruct *next;
    WGPUStringView label;
    size_t n_groups;
    const WGPUBindGroupLayout *groups;
    uint32_t immediate;
} WGPUPipelineLayoutDescriptor;

typedef struct WGPUComputePipelineDescriptor {
    WGPUChainedStruct *next;
    WGPUStringView label;
    WGPUPipelineLayout layout;
    struct {
        WGPUChainedStruct *next;
        WGPUShaderModule module;
        WGPUStringView entry;
        size_t n_constants;
        const void *constants;
    } compute;
} WGPUComputePipelineDescriptor;

typedef struct WGPUBindGroupEntry {
    WGPUChainedStruct *next;
    uint32_t binding;
    WGPUBuffer buffer;
    uint64_t offset, size;
    void *others[2]; /* a sampler and a texture view: NULL */
} WGPUBindGroupEntry;

typedef struct WGPUBindGroupDescriptor {
    WGPUChainedStruct *next;
    WGPUStringView label;
    WGPUBindGroupLayout layout;
    size_t n_entries;
    const WGPUBindGroupEntry *entries;
} WGPUBindGroupDescriptor;

/* `load` gives the size of an entry, 0 when there is none, and fills `value` when it has room. */
typedef struct WGPUDawnCacheDeviceDescriptor {
    WGPUChainedStruct chain;
    WGPUStringView isolation;
    size_t (*load)(const void *key, size_t key_size, void *value, size_t value_size, void *user);
    void (*store)(const void *key, size_t key_size, const void *value, size_t value_size, void *user);
    void *user;
} WGPUDawnCacheDeviceDescriptor;

typedef struct WGPUDawnTogglesDescriptor {
    WGPUChainedStruct chain;
    size_t n_enabled;
    const char *const *enabled;
    size_t n_disabled;
    const char *const *disabled;
} WGPUDawnTogglesDescriptor;

typedef struct WGPUQuerySetDescriptor {
    WGPUChainedStruct *next;
    WGPUStringView label;
    uint32_t type, count;
} WGPUQuerySetDescriptor;

typedef struct WGPUPassTimestampWrites {
    WGPUChainedStruct *next;
    WGPUQuerySet set;
    uint32_t begin, end;
} WGPUPassTimestampWrites;

typedef struct WGPUComputePassDescriptor {
    WGPUChainedStruct *next;
    WGPUStringView label;
    const WGPUPassTimestampWrites *timestamps;
} WGPUComputePassDescriptor;

#define LS_WGPU_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type)
LS_WGPU_SIZE(WGPUFutureWaitInfo, 16);
LS_WGPU_SIZE(WGPUInstanceDescriptor, 32);
LS_WGPU_SIZE(WGPURequestAdapterOptions, 32);
LS_WGPU_SIZE(WGPUCallbackInfo, 40);
LS_WGPU_SIZE(WGPUUncapturedErrorInfo, 32);
LS_WGPU_SIZE(WGPULimits, 152);
LS_WGPU_SIZE(WGPUAdapterInfo, 96);
LS_WGPU_SIZE(WGPUDeviceDescriptor, 144);
LS_WGPU_SIZE(WGPUBufferDescriptor, 48);
LS_WGPU_SIZE(WGPUShaderSourceWGSL, 32);
LS_WGPU_SIZE(WGPUShaderModuleDescriptor, 24);
LS_WGPU_SIZE(WGPUBindGroupLayoutEntry, 120);
LS_WGPU_SIZE(WGPUBindGroupLayoutDescriptor, 40);
LS_WGPU_SIZE(WGPUPipelineLayoutDescriptor, 48);
LS_WGPU_SIZE(WGPUComputePipelineDescriptor, 80);
LS_WGPU_SIZE(WGPUBindGroupEntry, 56);
LS_WGPU_SIZE(WGPUBindGroupDescriptor, 48);
LS_WGPU_SIZE(WGPUDawnCacheDeviceDescriptor, 56);
LS_WGPU_SIZE(WGPUDawnTogglesDescriptor, 48);
LS_WGPU_SIZE(WGPUQuerySetDescriptor, 32);
LS_WGPU_SIZE(WGPUPassTimestampWrites, 24);
LS_WGPU_SIZE(WGPUComputePassDescriptor, 32);
_Static_assert(offsetof(WGPULimits, storage_buffers) == 52 && offsetof(WGPULimits, storage_size) == 72 &&
                   offsetof(WGPULimits, storage_align) == 84 && offsetof(WGPULimits, buffer_size) == 96 &&
                   offsetof(WGPULimits, workgroup_bytes) == 124 && offsetof(WGPULimits, grid) == 144,
               "WGPULimits");
#undef LS_WGPU_SIZE

typedef void (*WGPUAdapterCallback)(uint32_t status, WGPUAdapter adapter, WGPUStringView message, void *user1, void *user2);
typedef void (*WGPUDeviceCallback)(uint32_t status, WGPUDevice device, WGPUStringView message, void *user1, void *user2);
typedef void (*WGPULostCallback)(const WGPUDevice *device, uint32_t reason, WGPUStringView message, void *user1, void *user2);
typedef void (*WGPUScopeCallback)(uint32_t status, uint32_t type, WGPUStringView message, void *user1, void *user2);
/* Of a mapping, and of a queue's work (there the message came later than some builds: it is not looked at). */
typedef void (*WGPUDoneCallback)(uint32_t status);

/* Every function that is called: X(name, result, (parameters)). */
#define LS_WGPU_FUNCTIONS(X)                                                                                                   \
    X(CreateInstance, WGPUInstance, (const WGPUInstanceDescriptor *))                                                          \
    X(InstanceRequestAdapter, WGPUFuture, (WGPUInstance, const WGPURequestAdapterOptions *, WGPUCallbackInfo))                 \
    X(InstanceWaitAny, uint32_t, (WGPUInstance, size_t, WGPUFutureWaitInfo *, uint64_t))                                       \
    X(InstanceProcessEvents, void, (WGPUInstance))                                                                             \
    X(InstanceRelease, void, (WGPUInstance))                                                                                   \
    X(AdapterGetInfo, uint32_t, (WGPUAdapter, WGPUAdapterInfo *))                                                              \
    X(AdapterInfoFreeMembers, void, (WGPUAdapterInfo))                                                                         \
    X(AdapterGetLimits, uint32_t, (WGPUAdapter, WGPULimits *))                                                                 \
    X(AdapterHasFeature, uint32_t, (WGPUAdapter, uint32_t))                                                                    \
    X(AdapterRequestDevice, WGPUFuture, (WGPUAdapter, const WGPUDeviceDescriptor *, WGPUCallbackInfo))                         \
    X(AdapterRelease, void, (WGPUAdapter))                                                                                     \
    X(DeviceGetQueue, WGPUQueue, (WGPUDevice))                                                                                 \
    X(DeviceCreateBuffer, WGPUBuffer, (WGPUDevice, const WGPUBufferDescriptor *))                                              \
    X(DeviceCreateShaderModule, WGPUShaderModule, (WGPUDevice, const WGPUShaderModuleDescriptor *))                            \
    X(DeviceCreateBindGroupLayout, WGPUBindGroupLayout, (WGPUDevice, const WGPUBindGroupLayoutDescriptor *))                   \
    X(DeviceCreatePipelineLayout, WGPUPipelineLayout, (WGPUDevice, const WGPUPipelineLayoutDescriptor *))                      \
    X(DeviceCreateComputePipeline, WGPUComputePipeline, (WGPUDevice, const WGPUComputePipelineDescriptor *))                   \
    X(DeviceCreateBindGroup, WGPUBindGroup, (WGPUDevice, const WGPUBindGroupDescriptor *))                                     \
    X(DeviceCreateCommandEncoder, WGPUCommandEncoder, (WGPUDevice, const void *))                                              \
    X(DevicePushErrorScope, void, (WGPUDevice, uint32_t))                                                                      \
    X(DevicePopErrorScope, WGPUFuture, (WGPUDevice, WGPUCallbackInfo))                                                         \
    X(DeviceCreateQuerySet, WGPUQuerySet, (WGPUDevice, const WGPUQuerySetDescriptor *))                                        \
    X(DeviceDestroy, void, (WGPUDevice))                                                                                       \
    X(DeviceRelease, void, (WGPUDevice))                                                                                       \
    X(CommandEncoderBeginComputePass, WGPUComputePassEncoder, (WGPUCommandEncoder, const WGPUComputePassDescriptor *))         \
    X(CommandEncoderCopyBufferToBuffer, void, (WGPUCommandEncoder, WGPUBuffer, uint64_t, WGPUBuffer, uint64_t, uint64_t))      \
    X(CommandEncoderResolveQuerySet, void, (WGPUCommandEncoder, WGPUQuerySet, uint32_t, uint32_t, WGPUBuffer, uint64_t))       \
    X(CommandEncoderFinish, WGPUCommandBuffer, (WGPUCommandEncoder, const void *))                                             \
    X(CommandEncoderRelease, void, (WGPUCommandEncoder))                                                                       \
    X(CommandBufferRelease, void, (WGPUCommandBuffer))                                                                         \
    X(ComputePassEncoderSetPipeline, void, (WGPUComputePassEncoder, WGPUComputePipeline))                                      \
    X(ComputePassEncoderSetBindGroup, void, (WGPUComputePassEncoder, uint32_t, WGPUBindGroup, size_t, const uint32_t *))       \
    X(ComputePassEncoderDispatchWorkgroups, void, (WGPUComputePassEncoder, uint32_t, uint32_t, uint32_t))                      \
    X(ComputePassEncoderEnd, void, (WGPUComputePassEncoder))                                                                   \
    X(ComputePassEncoderRelease, void, (WGPUComputePassEncoder))                                                               \
    X(QueueWriteBuffer, void, (WGPUQueue, WGPUBuffer, uint64_t, const void *, size_t))                                         \
    X(QueueSubmit, void, (WGPUQueue, size_t, const WGPUCommandBuffer *))                                                       \
    X(QueueOnSubmittedWorkDone, WGPUFuture, (WGPUQueue, WGPUCallbackInfo))                                                     \
    X(QueueRelease, void, (WGPUQueue))                                                                                         \
    X(QuerySetRelease, void, (WGPUQuerySet))                                                                                   \
    X(BufferMapAsync, WGPUFuture, (WGPUBuffer, uint64_t, size_t, size_t, WGPUCallbackInfo))                                    \
    X(BufferGetConstMappedRange, const void *, (WGPUBuffer, size_t, size_t))                                                   \
    X(BufferUnmap, void, (WGPUBuffer))                                                                                         \
    X(BufferRelease, void, (WGPUBuffer))                                                                                       \
    X(BindGroupRelease, void, (WGPUBindGroup))                                                                                 \
    X(BindGroupLayoutRelease, void, (WGPUBindGroupLayout))                                                                     \
    X(PipelineLayoutRelease, void, (WGPUPipelineLayout))                                                                       \
    X(ComputePipelineRelease, void, (WGPUComputePipeline))                                                                     \
    X(ShaderModuleRelease, void, (WGPUShaderModule))

#endif
