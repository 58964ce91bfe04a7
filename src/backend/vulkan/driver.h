/* The Vulkan driver behind an ls_gpu: what its parts share.
 *
 * Commands are recorded into batches, each a command buffer with its fence, numbered from 1. One batch at most is being
 * recorded; batches run and end in order. Before every command stands a barrier of all memory, so the queue is in order.
 * After the device is lost nothing is submitted or waited for any more. */
#ifndef LOCKSTEP_BACKEND_VULKAN_DRIVER_H
#define LOCKSTEP_BACKEND_VULKAN_DRIVER_H

#include "backend/vulkan/api.h"
#include "base/os.h"
#include "gpu/gpu.h"
#include "render/render.h"

enum {
    LS_VK_BATCHES = 4,
    LS_VK_COMMANDS = 128,      /* in a batch at most; then it is submitted */
    LS_VK_FIRST_COMMANDS = 16, /* the same when nothing else runs: an idle device should start early */
    LS_VK_BINDINGS = 64,       /* of a kernel at most */
    LS_VK_WORDS = 64           /* of push constants at most */
};
#define LS_VK_STAGING ((size_t)16 << 20) /* bytes of the ring that transfers go through */

typedef struct vk_batch {
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkFence fence;
    VkDescriptorPool sets; /* without push descriptors */
    uint64_t number;       /* 0: never used */
    uint64_t staging_end;  /* what of the ring is free when it is done */
} vk_batch;

typedef struct vk_block {
    VkBuffer buffer;
    VkDeviceMemory memory;
    size_t size;
    uint8_t *host;     /* mapped for good, where host and device share memory; else NULL */
    uint64_t last_use; /* number of the batch */
} vk_block;

typedef struct vk_pipeline {
    VkPipeline pipeline;
    int n_bindings;
    uint64_t last_use;
} vk_pipeline;

typedef struct vk_driver {
    ls_device *device;
    ls_heap *heap;
    ls_os_library *library;
    VkGetInstanceProcAddr get_proc;
    VkInstance instance;
    VkPhysicalDevice physical;
    VkDevice dev;
    VkQueue queue;
    uint32_t family, api_version;
    bool lost;

#define F(result, name, parameters) result(*name) parameters;
    LS_VK_INSTANCE_FUNCTIONS(F)
    LS_VK_DEVICE_FUNCTIONS(F)
#undef F
    VkCmdPushDescriptorSet push_descriptors; /* NULL: descriptor sets */

    VkPhysicalDeviceProperties2 properties;
    VkPhysicalDeviceMemoryProperties memory;
    size_t max_allocation;
    bool unified; /* blocks are mapped */
    ls_spirv_options spirv;
    uint32_t subgroup; /* pinned size; 0: not pinned */
    bool full_subgroups;
    bool pipeline_robustness; /* pipelines may say that their accesses need no checks: kernels touch nothing out of bounds */

    vk_batch batches[LS_VK_BATCHES];
    vk_batch *recording; /* NULL: none */
    int commands;        /* in it */
    uint64_t submitted, done;
    vk_block *staging;
    uint64_t staging_head, staging_tail; /* bytes ever taken, ever freed */

    VkPipelineCache cache;
    size_t cache_loaded; /* bytes that came from the disk */
    VkDescriptorSetLayout set_layouts[LS_VK_BINDINGS + 1];
    VkPipelineLayout layouts[LS_VK_BINDINGS + 1];
    int32_t max_words, max_bindings;
    uint32_t timestamp_bits; /* that count */
    VkQueryPool timestamps;  /* made when first needed */
} vk_driver;

/* ---- open.c ---- */
/* Loader, instance, device `index` in a stable order, its functions and limits. What a failure leaves, ls_vk_close frees. */
ls_status ls_vk_open(vk_driver *d, int index, ls_gpu_limits *out_limits, ls_error *err) LS_MUST_USE;
void ls_vk_close(vk_driver *d);
/* An error that names the call and its code; notes the loss of the device. LS_OK for codes from 0 on. */
ls_status ls_vk_check(vk_driver *d, VkResult code, const char *call, ls_error *err) LS_MUST_USE;
#define LS_VK_TRY(d, err, name, ...) LS_TRY(err, ls_vk_check((d), (d)->name(__VA_ARGS__), #name, (err)))
ls_status ls_vk_alive(const vk_driver *d, ls_error *err) LS_MUST_USE;

/* ---- features.c ---- */
/* Fills limits, caps and the renderer's options, and creates the device with what they need. */
ls_status ls_vk_create_device(vk_driver *d, ls_gpu_limits *out_limits, ls_error *err) LS_MUST_USE;

/* ---- queue.c ---- */
ls_status ls_vk_queue_create(vk_driver *d, ls_error *err) LS_MUST_USE;
void ls_vk_queue_destroy(vk_driver *d);
/* A command may be put into *out_batch: everything before it is done and visible by then. */
ls_status ls_vk_begin(vk_driver *d, vk_batch **out_batch, ls_error *err) LS_MUST_USE;
/* The command is there; submits a batch that is long enough. */
ls_status ls_vk_end(vk_driver *d, ls_error *err) LS_MUST_USE;
ls_status ls_vk_submit(vk_driver *d, ls_error *err) LS_MUST_USE;
ls_status ls_vk_wait_for(vk_driver *d, uint64_t number,
                         ls_error *err) LS_MUST_USE; /* submits it if need be */
void ls_vk_wait_out(vk_driver *d, uint64_t number);  /* before something is freed that it used */
void ls_vk_poll(vk_driver *d);                       /* brings `done` up to date */
ls_status ls_vk_flush(void *driver, uint64_t *out_ticket, ls_error *err);
ls_status ls_vk_wait(void *driver, uint64_t ticket, int blocking, int *out_done, ls_error *err);

/* ---- transfer.c ---- */
ls_status ls_vk_block_new(void *driver, size_t size, void **out_block, ls_error *err);
void ls_vk_block_free(void *driver, void *block);
ls_status ls_vk_write(void *driver, void *block, size_t offset, const void *data, size_t size, ls_error *err);
ls_status ls_vk_read(void *driver, void *block, size_t offset, void *data, size_t size, ls_error *err);
ls_status ls_vk_copy(void *driver, void *to, size_t to_offset, void *from, size_t from_offset, size_t size,
                     ls_error *err);

/* ---- kernels.c ---- */
ls_status ls_vk_cache_create(vk_driver *d, ls_error *err) LS_MUST_USE;
void ls_vk_cache_save(vk_driver *d); /* keeps what was compiled on the disk */
ls_status ls_vk_render(void *driver, ls_arena *arena, const ls_kernel *kernel, ls_gpu_code *out_code,
                       ls_error *err);
ls_status ls_vk_build(void *driver, const ls_gpu_code *code, void **out_pipeline, ls_error *err);
void ls_vk_drop(void *driver, void *pipeline);
ls_status ls_vk_dispatch(void *driver, const ls_gpu_dispatch *dispatch, ls_error *err);

/* ---- times.c ---- */
void ls_vk_clock_find(vk_driver *d, ls_gpu_limits *limits); /* fills limits->clock */
ls_status ls_vk_timer_begin(vk_driver *d, const vk_batch *batch, int32_t timer, ls_error *err) LS_MUST_USE;
void ls_vk_timer_end(vk_driver *d, const vk_batch *batch, int32_t timer);
ls_status ls_vk_times(void *driver, uint64_t *out_ns, int n, ls_error *err);

extern const ls_gpu_api ls_vk_api;

#endif
