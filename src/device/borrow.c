/* Buffers over arrays of the host, which are read where they lie: weights in a mapped file reach the first kernel without a copy. */
#include "device/device.h"
#include <string.h>

enum { LEAST = 1 << 14 }; /* bytes: fewer are copied, so that no file stays mapped for a bias */

ls_status ls_buffer_over(ls_device *device, const void *bytes, size_t size, void (*drop)(void *owner), void *owner, ls_buffer **out_buffer,
                         ls_error *err) {
    *out_buffer = NULL;
    if (!device->borrow || size < LEAST || atomic_load_explicit(&device->guard, memory_order_relaxed)) { /* guard zones have no place there */
        return LS_OK;
    }
    ls_buffer *buffer = ls_alloc_zeroed(device->heap, sizeof *buffer);
    if (!buffer) {
        return LS_FAIL_MEMORY(err, "a buffer over an array");
    }
    buffer->device = device;
    buffer->size = size;
    buffer->handle = (void *)(uintptr_t)bytes;
    buffer->drop = drop;
    buffer->owner = owner;
    buffer->serial = atomic_fetch_add_explicit(&device->buffers, 1, memory_order_relaxed);
    atomic_init(&buffer->refs, 1);
    device->borrow(device, buffer, true);
    *out_buffer = buffer;
    return LS_OK;
}

void ls_buffer_give_back(ls_buffer *buffer) {
    buffer->device->borrow(buffer->device, buffer, false);
    buffer->drop(buffer->owner);
    buffer->drop = NULL;
}

ls_status ls_buffer_own(ls_buffer *buffer, ls_error *err) {
    void *own = NULL;
    if (!buffer->drop) {
        return LS_OK;
    }
    LS_TRY(err, buffer->device->backend->alloc(buffer->device, buffer->size, &own, err));
    memcpy(own, buffer->handle, buffer->size);
    ls_buffer_give_back(buffer);
    buffer->handle = own;
    return LS_OK;
}
