/* Buffers. Invariant: a buffer with guard zones has LS_GUARD bytes of LS_POISON before its base and after
 * its end. */
#include "device/device.h"
#include <string.h>

enum { CHUNK = 1 << 16 };

static size_t guard_of(const ls_buffer *buffer) {
    return buffer->base; /* the zone after is as long as the one before */
}

static ls_status fill_raw(ls_buffer *buffer, size_t offset, int byte, size_t size, ls_error *err) {
    ls_heap *heap = buffer->device->heap;
    size_t chunk = size < CHUNK ? size : CHUNK;
    void *block = ls_alloc(heap, chunk);
    if (!block) {
        return LS_FAIL_MEMORY(err, "filling a buffer");
    }
    memset(block, byte, chunk);
    ls_status status = LS_OK;
    for (size_t done = 0; done < size && status == LS_OK; done += chunk) {
        size_t n = size - done < chunk ? size - done : chunk;
        status = buffer->device->backend->upload(buffer->device, buffer, offset + done, block, n, err);
    }
    ls_free(heap, block);
    return status;
}

ls_status ls_buffer_create(ls_device *device, size_t size, ls_buffer **out_buffer, ls_error *err) {
    size_t guard = atomic_load_explicit(&device->guard, memory_order_relaxed) ? LS_GUARD : 0, total;
    ls_buffer *buffer = ls_alloc_zeroed(device->heap, sizeof *buffer);
    if (!buffer || !ls_size_add(size, 2 * guard, &total)) {
        ls_free(device->heap, buffer);
        return LS_FAIL(err, LS_ERR_MEMORY, "out of memory for a buffer of %zu bytes on %s", size, device->id);
    }
    buffer->device = device;
    buffer->size = size;
    buffer->base = guard;
    buffer->serial = atomic_fetch_add_explicit(&device->buffers, 1, memory_order_relaxed);
    atomic_init(&buffer->refs, 1);
    ls_status status = device->backend->alloc(device, total, &buffer->handle, err);
    if (status != LS_OK) {
        ls_free(device->heap, buffer);
        return LS_FORWARD(err, status);
    }
    if (guard) {
        status = fill_raw(buffer, 0, LS_POISON, total, err);
        if (status != LS_OK) {
            ls_buffer_release(buffer);
            return LS_FORWARD(err, status);
        }
    }
    *out_buffer = buffer;
    return LS_OK;
}

void ls_buffer_release(ls_buffer *buffer) {
    if (buffer && atomic_fetch_sub_explicit(&buffer->refs, 1, memory_order_acq_rel) == 1) {
        ls_device *device = buffer->device;
        if (buffer->drop) {
            ls_buffer_give_back(buffer);
        } else {
            device->backend->free(device, buffer->handle, buffer->size + 2 * guard_of(buffer));
        }
        ls_free(device->heap, buffer);
    }
}

static ls_status check_range(const ls_buffer *buffer, size_t offset, size_t size, ls_error *err) {
    if (offset > buffer->size || size > buffer->size - offset) {
        return LS_FAIL(err, LS_ERR_INTERNAL, "bytes %zu to %zu of a buffer of %zu", offset, offset + size,
                       buffer->size);
    }
    return LS_OK;
}

ls_status ls_buffer_upload(ls_buffer *buffer, size_t offset, const void *src, size_t size, ls_error *err) {
    LS_TRY(err, check_range(buffer, offset, size, err));
    LS_TRY(err, ls_buffer_own(buffer, err));
    return size ? buffer->device->backend->upload(buffer->device, buffer, buffer->base + offset, src, size,
                                                  err)
                : LS_OK;
}

ls_status ls_buffer_download(const ls_buffer *buffer, size_t offset, void *dst, size_t size, ls_error *err) {
    LS_TRY(err, check_range(buffer, offset, size, err));
    return size ? buffer->device->backend->download(buffer->device, buffer, buffer->base + offset, dst, size,
                                                    err)
                : LS_OK;
}

ls_status ls_buffer_copy(ls_buffer *dst, size_t dst_offset, const ls_buffer *src, size_t src_offset,
                         size_t size, ls_error *err) {
    LS_TRY(err, check_range(dst, dst_offset, size, err));
    LS_TRY(err, check_range(src, src_offset, size, err));
    if (size == 0) {
        return LS_OK;
    }
    ls_device *to = dst->device, *from = src->device;
    if (to == from) {
        return to->backend->copy(to, dst, dst->base + dst_offset, src, src->base + src_offset, size, err);
    }
    void *host = ls_alloc(to->heap, size);
    if (!host) {
        return LS_FAIL(err, LS_ERR_MEMORY, "out of memory for a copy of %zu bytes from %s to %s", size,
                       from->id, to->id);
    }
    ls_status status = ls_buffer_download(src, src_offset, host, size, err);
    if (status == LS_OK) {
        status = ls_buffer_upload(dst, dst_offset, host, size, err);
    }
    ls_free(to->heap, host);
    return status;
}

ls_status ls_buffer_fill(ls_buffer *buffer, size_t offset, int byte, size_t size, ls_error *err) {
    LS_TRY(err, check_range(buffer, offset, size, err));
    return size ? fill_raw(buffer, buffer->base + offset, byte, size, err) : LS_OK;
}

ls_status ls_buffer_check_guards(const ls_buffer *buffer, const char *what, ls_error *err) {
    size_t guard = guard_of(buffer);
    uint8_t zone[LS_GUARD];
    for (int after = 0; after < 2 && guard; after++) {
        size_t at = after ? buffer->base + buffer->size : 0;
        LS_TRY(err, buffer->device->backend->download(buffer->device, buffer, at, zone, guard, err));
        for (size_t i = 0; i < guard; i++) {
            if (zone[i] != LS_POISON) {
                return LS_FAIL(err, LS_ERR_DIFFERS, "%s wrote %zu bytes %s a buffer of %zu bytes on %s", what,
                               after ? i + 1 : guard - i, after ? "after the end of" : "before the start of",
                               buffer->size, buffer->device->id);
            }
        }
    }
    return LS_OK;
}

const char *ls_rate_name(ls_rate rate) {
    static const char *const names[LS_RATE_COUNT] = {"fma", "mul+add", "bf16", "int8", "read", "copy", "stream"};
    return rate >= 0 && rate < LS_RATE_COUNT ? names[rate] : NULL;
}

ls_status ls_device_rate(ls_device *device, ls_rate rate, size_t bytes, int threads, double *out_rate, ls_error *err) {
    if (!ls_rate_name(rate)) {
        return LS_FAIL(err, LS_ERR_INVALID, "%s: there is no rate %d to measure", device->id, (int)rate);
    }
    if (!device->backend->rate) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "%s: this device does not measure its peak", device->id);
    }
    return device->backend->rate(device, rate, bytes, threads, out_rate, err);
}

ls_status ls_device_peak(ls_device *device, ls_math math, double *out_gflops, double *out_copy_gbs, ls_error *err) {
    LS_TRY(err, ls_device_rate(device, math == LS_LOCKED ? LS_RATE_MUL_ADD : LS_RATE_FMA, 0, 0, out_gflops, err));
    return ls_device_rate(device, LS_RATE_COPY, 0, 0, out_copy_gbs, err);
}

/* ---- notes ---- */

void ls_device_note_compile(ls_device *device, const char *name, uint64_t make_ns, uint64_t driver_ns, bool cached) {
    ls_compile_note *note = ls_alloc_zeroed(device->heap, sizeof *note);
    if (note) {
        size_t n = strlen(name);
        memcpy(note->name, name, n < sizeof note->name ? n : sizeof note->name - 1);
        note->make_ns = make_ns;
        note->driver_ns = driver_ns;
        note->cached = cached;
        note->next = atomic_load(&device->compiles);
        while (!atomic_compare_exchange_weak(&device->compiles, &note->next, note)) {
        }
    }
}

void ls_device_forget_compiles(ls_device *device) {
    for (ls_compile_note *note = atomic_exchange(&device->compiles, NULL); note;) {
        ls_compile_note *next = note->next;
        ls_free(device->heap, note);
        note = next;
    }
}
