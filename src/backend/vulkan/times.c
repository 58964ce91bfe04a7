/* How long dispatches run by the device's clock: a pair of timestamps around each, in a pool of queries.
 *
 * Both stand at the end of the pipeline: the first is taken when everything before the dispatch has ended, which the barrier
 * before every command waits for anyway. */
#include "backend/vulkan/driver.h"

enum { MAX_FAMILIES = 32, TIMESTAMP = 2, RESULT_64 = 1, RESULT_WAIT = 2 };

void ls_vk_clock_find(vk_driver *d, ls_gpu_limits *limits) {
    VkQueueFamilyProperties families[MAX_FAMILIES];
    uint32_t n = MAX_FAMILIES;
    d->vkGetPhysicalDeviceQueueFamilyProperties(d->physical, &n, families);
    d->timestamp_bits = d->family < n ? families[d->family].timestampValidBits : 0;
    bool counts = d->timestamp_bits && d->properties.limits.timestampPeriod > 0;
    limits->clock = counts ? "Vulkan timestamps" : NULL;
}

ls_status ls_vk_timer_begin(vk_driver *d, const vk_batch *batch, int32_t timer, ls_error *err) {
    const VkQueryPoolCreateInfo info = {
        .sType = VK_S_QUERY_POOL_CREATE_INFO, .queryType = TIMESTAMP, .queryCount = 2 * LS_GPU_TIMERS};
    if (!d->timestamps) {
        LS_VK_TRY(d, err, vkCreateQueryPool, d->dev, &info, NULL, &d->timestamps);
    }
    d->vkCmdResetQueryPool(batch->commands, d->timestamps, (uint32_t)timer * 2, 2);
    d->vkCmdWriteTimestamp(batch->commands, VK_PIPE_END, d->timestamps, (uint32_t)timer * 2);
    return LS_OK;
}

void ls_vk_timer_end(vk_driver *d, const vk_batch *batch, int32_t timer) {
    d->vkCmdWriteTimestamp(batch->commands, VK_PIPE_END, d->timestamps, (uint32_t)timer * 2 + 1);
}

ls_status ls_vk_times(void *driver, uint64_t *out_ns, int n, ls_error *err) {
    vk_driver *d = driver;
    uint64_t stamps[2 * LS_GPU_TIMERS];
    const uint64_t valid = d->timestamp_bits >= 64 ? UINT64_MAX : (UINT64_C(1) << d->timestamp_bits) - 1;
    LS_TRY(err, ls_vk_wait_for(d, d->submitted + (d->recording ? 1 : 0), err));
    LS_VK_TRY(d, err, vkGetQueryPoolResults, d->dev, d->timestamps, 0, (uint32_t)n * 2, (size_t)n * 2 * sizeof *stamps,
              stamps, sizeof *stamps, RESULT_64 | RESULT_WAIT);
    for (int i = 0; i < n; i++) {
        uint64_t ticks = (stamps[2 * i + 1] - stamps[2 * i]) & valid;
        out_ns[i] = (uint64_t)((double)ticks * (double)d->properties.limits.timestampPeriod);
    }
    return LS_OK;
}
