/* The queue: batches of commands, in order.
 *
 * Invariants: batch number n lies in slot n % LS_VK_BATCHES; `done` <= `submitted`; the batch being recorded is
 * submitted + 1. A slot is used again only when its batch is done. */
#include "backend/vulkan/driver.h"

ls_status ls_vk_alive(const vk_driver *d, ls_error *err) {
    return d->lost ? LS_FAIL(err, LS_ERR_DEVICE,
                             "%s: the device was lost (VK_ERROR_DEVICE_LOST) and cannot be used any more",
                             d->device->id)
                   : LS_OK;
}

ls_status ls_vk_queue_create(vk_driver *d, ls_error *err) {
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_STORAGE_BUFFER,
                                       (uint32_t)(LS_VK_COMMANDS * d->max_bindings)};
    const VkDescriptorPoolCreateInfo sets = {.sType = VK_S_DESCRIPTOR_POOL_CREATE_INFO,
                                             .maxSets = LS_VK_COMMANDS,
                                             .poolSizeCount = 1,
                                             .pPoolSizes = &size};
    const VkCommandPoolCreateInfo pool = {.sType = VK_S_COMMAND_POOL_CREATE_INFO,
                                          .queueFamilyIndex = d->family};
    const VkFenceCreateInfo fence = {.sType = VK_S_FENCE_CREATE_INFO};
    for (int i = 0; i < LS_VK_BATCHES; i++) {
        vk_batch *b = &d->batches[i];
        LS_VK_TRY(d, err, vkCreateCommandPool, d->dev, &pool, NULL, &b->pool);
        const VkCommandBufferAllocateInfo buffer = {
            .sType = VK_S_COMMAND_BUFFER_ALLOCATE_INFO, .commandPool = b->pool, .commandBufferCount = 1};
        LS_VK_TRY(d, err, vkAllocateCommandBuffers, d->dev, &buffer, &b->commands);
        LS_VK_TRY(d, err, vkCreateFence, d->dev, &fence, NULL, &b->fence);
        if (!d->push_descriptors) {
            LS_VK_TRY(d, err, vkCreateDescriptorPool, d->dev, &sets, NULL, &b->sets);
        }
    }
    return LS_OK;
}

void ls_vk_queue_destroy(vk_driver *d) {
    for (int i = 0; i < LS_VK_BATCHES; i++) {
        vk_batch *b = &d->batches[i]; /* the null handle is allowed in each of these */
        d->vkDestroyFence(d->dev, b->fence, NULL);
        d->vkDestroyCommandPool(d->dev, b->pool, NULL);
        d->vkDestroyDescriptorPool(d->dev, b->sets, NULL);
    }
}

static void retire(vk_driver *d, const vk_batch *b) {
    if (b->number > d->done) {
        d->done = b->number;
        d->staging_tail = b->staging_end;
    }
}

void ls_vk_poll(vk_driver *d) {
    while (d->done < d->submitted && !d->lost) {
        const vk_batch *b = &d->batches[(d->done + 1) % LS_VK_BATCHES];
        if (d->vkGetFenceStatus(d->dev, b->fence) != VK_SUCCESS) {
            break;
        }
        retire(d, b);
    }
}

static ls_status start(vk_driver *d, ls_error *err) {
    uint64_t number = d->submitted + 1;
    vk_batch *b = &d->batches[number % LS_VK_BATCHES];
    const VkCommandBufferBeginInfo begin = {.sType = VK_S_COMMAND_BUFFER_BEGIN_INFO,
                                            .flags = VK_BEGIN_ONE_TIME};
    if (b->number) {
        LS_TRY(err, ls_vk_wait_for(d, b->number, err));
        LS_VK_TRY(d, err, vkResetFences, d->dev, 1, &b->fence);
        LS_VK_TRY(d, err, vkResetCommandPool, d->dev, b->pool, 0);
        if (b->sets) {
            LS_VK_TRY(d, err, vkResetDescriptorPool, d->dev, b->sets, 0);
        }
        b->number = 0;
    }
    LS_VK_TRY(d, err, vkBeginCommandBuffer, b->commands, &begin);
    b->number = number;
    d->recording = b;
    d->commands = 0;
    return LS_OK;
}

ls_status ls_vk_begin(vk_driver *d, vk_batch **out_batch, ls_error *err) {
    const VkFlags stages = VK_PIPE_COMPUTE | VK_PIPE_TRANSFER;
    const VkMemoryBarrier all = {.sType = VK_S_MEMORY_BARRIER,
                                 .srcAccessMask = VK_ACCESS_SHADER_WRITE | VK_ACCESS_TRANSFER_WRITE,
                                 .dstAccessMask = VK_ACCESS_SHADER_READ | VK_ACCESS_SHADER_WRITE |
                                                  VK_ACCESS_TRANSFER_READ | VK_ACCESS_TRANSFER_WRITE};
    LS_TRY(err, ls_vk_alive(d, err));
    if (!d->recording) {
        LS_TRY(err, start(d, err));
    }
    d->vkCmdPipelineBarrier(d->recording->commands, stages, stages, 0, 1, &all, 0, NULL, 0, NULL);
    *out_batch = d->recording;
    return LS_OK;
}

ls_status ls_vk_end(vk_driver *d, ls_error *err) {
    d->commands++;
    if (d->commands >= LS_VK_COMMANDS) {
        return ls_vk_submit(d, err);
    }
    if (d->commands == LS_VK_FIRST_COMMANDS) {
        ls_vk_poll(d);
        return d->done == d->submitted ? ls_vk_submit(d, err) : LS_OK;
    }
    return LS_OK;
}

ls_status ls_vk_submit(vk_driver *d, ls_error *err) {
    vk_batch *b = d->recording;
    LS_TRY(err, ls_vk_alive(d, err));
    if (!b) {
        return LS_OK;
    }
    const VkMemoryBarrier host = {.sType = VK_S_MEMORY_BARRIER,
                                  .srcAccessMask = VK_ACCESS_SHADER_WRITE | VK_ACCESS_TRANSFER_WRITE,
                                  .dstAccessMask = VK_ACCESS_HOST_READ};
    const VkSubmitInfo submit = {
        .sType = VK_S_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &b->commands};
    d->vkCmdPipelineBarrier(b->commands, VK_PIPE_COMPUTE | VK_PIPE_TRANSFER, VK_PIPE_HOST, 0, 1, &host, 0,
                            NULL, 0, NULL);
    d->recording = NULL;
    b->staging_end = d->staging_head;
    ls_status status = ls_vk_check(d, d->vkEndCommandBuffer(b->commands), "vkEndCommandBuffer", err);
    if (status == LS_OK) {
        status = ls_vk_check(d, d->vkQueueSubmit(d->queue, 1, &submit, b->fence), "vkQueueSubmit", err);
    }
    if (status !=
        LS_OK) { /* commands that others count on are gone: nothing computed from here on can be trusted */
        d->lost = true;
        return status == LS_ERR_MEMORY ? LS_ERR_MEMORY : LS_ERR_DEVICE;
    }
    d->submitted = b->number;
    return LS_OK;
}

ls_status ls_vk_wait_for(vk_driver *d, uint64_t number, ls_error *err) {
    LS_TRY(err, ls_vk_alive(d, err));
    if (number > d->submitted) {
        LS_TRY(err, ls_vk_submit(d, err));
        number = d->submitted;
    }
    if (number <= d->done) {
        return LS_OK;
    }
    vk_batch *b = &d->batches[number % LS_VK_BATCHES];
    LS_VK_TRY(d, err, vkWaitForFences, d->dev, 1, &b->fence, 1, UINT64_MAX);
    retire(d, b);
    return LS_OK;
}

void ls_vk_wait_out(vk_driver *d, uint64_t number) {
    if (!d->lost) {
        ls_status ignored = ls_vk_wait_for(d, number, NULL);
        (void)ignored; /* a lost device uses nothing any more */
    }
}

/* One batch runs and another one waits, so that the device does not stand still when the first ends. Each costs it some 10 us of
 * its own, so what comes meanwhile is submitted together: by the next call that finds the device less busy, by whoever waits,
 * or when a batch is full. */
static bool is_busy(vk_driver *d) {
    ls_vk_poll(d);
    return d->submitted >= d->done + 2;
}

ls_status ls_vk_flush(void *driver, uint64_t *out_ticket, ls_error *err) {
    vk_driver *d = driver;
    if (!out_ticket && is_busy(d)) {
        return ls_vk_alive(d, err);
    }
    LS_TRY(err, ls_vk_submit(d, err));
    if (out_ticket) {
        *out_ticket = d->submitted;
    }
    return LS_OK;
}

ls_status ls_vk_wait(void *driver, uint64_t ticket, int blocking, int *out_done, ls_error *err) {
    vk_driver *d = driver;
    *out_done = 0;
    if (blocking) {
        LS_TRY(err, ls_vk_wait_for(d, ticket, err));
        *out_done = 1;
        return LS_OK;
    }
    LS_TRY(err, ls_vk_alive(d, err));
    if (ticket > d->done && ticket <= d->submitted) {
        const vk_batch *b = &d->batches[ticket % LS_VK_BATCHES];
        VkResult code = d->vkGetFenceStatus(d->dev, b->fence);
        LS_TRY(err, ls_vk_check(d, code, "vkGetFenceStatus", err));
        if (code == VK_SUCCESS) {
            retire(d, b);
        }
    }
    *out_done = ticket <= d->done;
    return LS_OK;
}
