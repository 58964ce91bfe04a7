/* Blocks of memory and bytes in and out of them. Where host and device share memory, blocks stay mapped, and an idle device's
 * blocks are read and written in place; everything else goes through a ring of host memory. */
#include "backend/vulkan/driver.h"
#include <string.h>

/* The first type with all of `wanted`, then with all of `needed`; -1: none. */
static int memory_type(const vk_driver *d, uint32_t allowed, VkFlags wanted, VkFlags needed) {
    const VkFlags tries[] = {wanted, needed};
    for (int t = 0; t < 2; t++) {
        for (uint32_t i = 0; i < d->memory.memoryTypeCount; i++) {
            if (allowed >> i & 1 && (d->memory.memoryTypes[i].propertyFlags & tries[t]) == tries[t]) {
                return (int)i;
            }
        }
    }
    return -1;
}

static void release(vk_driver *d, vk_block *b) {
    d->vkDestroyBuffer(d->dev, b->buffer, NULL);
    d->vkFreeMemory(d->dev, b->memory, NULL); /* and unmaps it */
    ls_free(d->heap, b);
}

static ls_status fill_block(vk_driver *d, vk_block *b, bool host, ls_error *err) {
    const VkFlags visible = VK_MEMORY_HOST_VISIBLE | VK_MEMORY_HOST_COHERENT,
                  cached = visible | VK_MEMORY_HOST_CACHED;
    const VkBufferCreateInfo info = {.sType = VK_S_BUFFER_CREATE_INFO,
                                     .size = b->size,
                                     .usage =
                                         VK_USAGE_STORAGE | VK_USAGE_TRANSFER_SRC | VK_USAGE_TRANSFER_DST};
    VkMemoryRequirements needs;
    LS_VK_TRY(d, err, vkCreateBuffer, d->dev, &info, NULL, &b->buffer);
    d->vkGetBufferMemoryRequirements(d->dev, b->buffer, &needs);
    int type = host         ? memory_type(d, needs.memoryTypeBits, cached, visible)
               : d->unified ? memory_type(d, needs.memoryTypeBits, cached | VK_MEMORY_DEVICE_LOCAL, cached)
                            : memory_type(d, needs.memoryTypeBits, VK_MEMORY_DEVICE_LOCAL, 0);
    if (type < 0) {
        return LS_FAIL(err, LS_ERR_DEVICE, "%s: no type of memory fits a buffer", d->device->id);
    }
    const VkMemoryAllocateInfo memory = {
        .sType = VK_S_MEMORY_ALLOCATE_INFO, .allocationSize = needs.size, .memoryTypeIndex = (uint32_t)type};
    LS_VK_TRY(d, err, vkAllocateMemory, d->dev, &memory, NULL, &b->memory);
    LS_VK_TRY(d, err, vkBindBufferMemory, d->dev, b->buffer, b->memory, 0);
    if (host || d->unified) {
        void *at;
        LS_VK_TRY(d, err, vkMapMemory, d->dev, b->memory, 0, VK_WHOLE_SIZE, 0, &at);
        b->host = at;
    }
    return LS_OK;
}

static ls_status block_make(vk_driver *d, size_t size, bool host, vk_block **out_block, ls_error *err) {
    LS_TRY(err, ls_vk_alive(d, err));
    if (size > d->max_allocation) {
        return LS_FAIL(err, LS_ERR_MEMORY, "%s: %zu bytes at once, the driver allocates at most %zu",
                       d->device->id, size, d->max_allocation);
    }
    vk_block *b = ls_alloc_zeroed(d->heap, sizeof *b);
    if (!b) {
        return LS_FAIL_MEMORY(err, "a block of device memory");
    }
    b->size = (size + 255) / 256 * 256;
    ls_status status = fill_block(d, b, host, err);
    if (status != LS_OK) {
        release(d, b);
        return LS_FAIL(err, status, "%s: no block of %zu bytes", d->device->id, size);
    }
    *out_block = b;
    return LS_OK;
}

ls_status ls_vk_block_new(void *driver, size_t size, void **out_block, ls_error *err) {
    vk_block *b;
    LS_TRY(err, block_make(driver, size, false, &b, err));
    *out_block = b;
    return LS_OK;
}

void ls_vk_block_free(void *driver, void *block) {
    vk_driver *d = driver;
    vk_block *b = block;
    if (b) {
        ls_vk_wait_out(d, b->last_use);
        release(d, b);
    }
}

static bool idle(vk_driver *d, const vk_block *b) {
    if (b->last_use > d->done && b->last_use <= d->submitted) {
        ls_vk_poll(d);
    }
    return b->last_use <= d->done;
}

/* `size` bytes of the ring, together; they are free again when the batch that is being recorded next is done. */
static ls_status stage(vk_driver *d, size_t size, size_t *out_offset, ls_error *err) {
    if (!d->staging) {
        LS_TRY(err, block_make(d, LS_VK_STAGING, true, &d->staging, err));
    }
    if (!d->recording && d->done == d->submitted) {
        d->staging_tail = d->staging_head;
    }
    size_t at = (size_t)(d->staging_head % LS_VK_STAGING);
    if (at + size > LS_VK_STAGING) { /* not across the end */
        d->staging_head += LS_VK_STAGING - at;
        at = 0;
    }
    while (d->staging_head + size - d->staging_tail > LS_VK_STAGING) {
        bool all = d->done == d->submitted && !d->recording;
        LS_TRY(err, ls_vk_wait_for(d, d->done + 1, err));
        d->staging_tail = all ? d->staging_head : d->staging_tail;
    }
    d->staging_head += (size + 15) / 16 * 16;
    *out_offset = at;
    return LS_OK;
}

static ls_status record_copy(vk_driver *d, vk_block *to, size_t to_offset, vk_block *from, size_t from_offset,
                             size_t size, ls_error *err) {
    vk_batch *batch;
    LS_TRY(err, ls_vk_begin(d, &batch, err));
    const VkBufferCopy region = {from_offset, to_offset, size};
    d->vkCmdCopyBuffer(batch->commands, from->buffer, to->buffer, 1, &region);
    to->last_use = from->last_use = batch->number;
    return ls_vk_end(d, err);
}

ls_status ls_vk_write(void *driver, void *block, size_t offset, const void *data, size_t size,
                      ls_error *err) {
    vk_driver *d = driver;
    vk_block *b = block;
    LS_TRY(err, ls_vk_alive(d, err));
    if (b->host && idle(d, b)) {
        memcpy(b->host + offset, data, size);
        return LS_OK;
    }
    for (size_t at = 0; at < size;) {
        size_t n = size - at < LS_VK_STAGING / 4 ? size - at : LS_VK_STAGING / 4, staged;
        LS_TRY(err, stage(d, n, &staged, err));
        memcpy(d->staging->host + staged, (const uint8_t *)data + at, n);
        LS_TRY(err, record_copy(d, b, offset + at, d->staging, staged, n, err));
        at += n;
    }
    return LS_OK;
}

/* Through the ring, the next piece under way while one is taken out. */
static ls_status read_staged(vk_driver *d, vk_block *b, size_t offset, uint8_t *data, size_t size,
                             ls_error *err) {
    struct {
        size_t at, n, staged;
        uint64_t batch;
    } last = {0}, next;
    for (size_t at = 0; at < size || last.n; last = next, at += next.n) {
        next.at = at;
        next.n = at >= size ? 0 : size - at < LS_VK_STAGING / 4 ? size - at : LS_VK_STAGING / 4;
        if (next.n) {
            LS_TRY(err, stage(d, next.n, &next.staged, err));
            LS_TRY(err, record_copy(d, d->staging, next.staged, b, offset + at, next.n, err));
            next.batch = d->staging->last_use;
            LS_TRY(err, ls_vk_submit(d, err));
        }
        if (last.n) {
            LS_TRY(err, ls_vk_wait_for(d, last.batch, err));
            memcpy(data + last.at, d->staging->host + last.staged, last.n);
        }
    }
    return LS_OK;
}

ls_status ls_vk_read(void *driver, void *block, size_t offset, void *data, size_t size, ls_error *err) {
    vk_driver *d = driver;
    vk_block *b = block;
    LS_TRY(err, ls_vk_alive(d, err));
    if (!b->host) {
        return read_staged(d, b, offset, data, size, err);
    }
    LS_TRY(err, ls_vk_wait_for(d, b->last_use, err));
    memcpy(data, b->host + offset, size);
    return LS_OK;
}

ls_status ls_vk_copy(void *driver, void *to, size_t to_offset, void *from, size_t from_offset, size_t size,
                     ls_error *err) {
    return size ? record_copy(driver, to, to_offset, from, from_offset, size, err) : LS_OK;
}
