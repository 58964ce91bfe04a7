/* Bytes between host and device, and tickets. What the device reads from the host lies in pinned memory, a ring of slots: a
 * slot is written again when the copies out of it have ended. */
#include "backend/cuda/cuda.h"
#include <string.h>

ls_status ls_cuda_queue_open(ls_cuda *c, ls_error *err) {
    void *ring = NULL, *landing = NULL;
    LS_CUDA_TRY(c, err, stream_create, &c->stream, LS_CU_STREAM_NON_BLOCKING);
    LS_CUDA_TRY(c, err, host_new, &ring, (size_t)LS_CUDA_SLOTS * LS_CUDA_SLOT);
    c->ring = ring;
    LS_CUDA_TRY(c, err, host_new, &landing, (size_t)2 * LS_CUDA_SLOT);
    c->landing = landing;
    for (int i = 0; i < LS_CUDA_TICKETS; i++) {
        LS_CUDA_TRY(c, err, event_create, &c->tickets[i], LS_CU_EVENT_DISABLE_TIMING);
    }
    for (int i = 0; i < LS_CUDA_SLOTS; i++) {
        LS_CUDA_TRY(c, err, event_create, &c->slots[i], LS_CU_EVENT_DISABLE_TIMING);
    }
    for (int i = 0; i < 2; i++) {
        LS_CUDA_TRY(c, err, event_create, &c->landed[i], LS_CU_EVENT_DISABLE_TIMING);
    }
    return LS_OK;
}

static void event_drop(ls_cuda *c, ls_cu_event event) {
    if (event) {
        (void)c->api.event_destroy(event);
    }
}

void ls_cuda_queue_close(ls_cuda *c) {
    for (int i = 0; i < LS_CUDA_TICKETS; i++) {
        event_drop(c, c->tickets[i]);
    }
    for (int i = 0; i < LS_CUDA_SLOTS; i++) {
        event_drop(c, c->slots[i]);
    }
    event_drop(c, c->landed[0]);
    event_drop(c, c->landed[1]);
    for (int i = 0; i < 2 * LS_GPU_TIMERS; i++) {
        event_drop(c, c->timers[i]);
    }
    if (c->ring) {
        (void)c->api.host_free(c->ring);
    }
    if (c->landing) {
        (void)c->api.host_free(c->landing);
    }
    if (c->stream) {
        (void)c->api.stream_destroy(c->stream);
    }
}

/* Room in the ring: at least one byte, at most `size`. */
static ls_status ring_take(ls_cuda *c, size_t size, uint8_t **out_place, size_t *out_room, ls_error *err) {
    if (c->slot_at == LS_CUDA_SLOT) {
        LS_CUDA_TRY(c, err, event_record, c->slots[c->slot], c->stream);
        c->slot_used[c->slot] = true;
        c->slot = (c->slot + 1) % LS_CUDA_SLOTS;
        c->slot_at = 0;
        if (c->slot_used[c->slot]) {
            LS_CUDA_TRY(c, err, event_synchronize, c->slots[c->slot]);
        }
    }
    size_t room = LS_CUDA_SLOT - c->slot_at;
    *out_room = size < room ? size : room;
    *out_place = c->ring + (size_t)c->slot * LS_CUDA_SLOT + c->slot_at;
    size_t taken = (*out_room + 63) / 64 * 64; /* slots are multiples of 64 */
    c->slot_at += taken;
    return LS_OK;
}

static ls_status write_all(ls_cuda *c, ls_cu_address to, const uint8_t *data, size_t size, ls_error *err) {
    LS_TRY(err, ls_cuda_settle(c, err));
    c->recorded = true;
    while (size) {
        uint8_t *place = NULL;
        size_t n = 0;
        LS_TRY(err, ring_take(c, size, &place, &n, err));
        memcpy(place, data, n);
        LS_CUDA_TRY(c, err, copy_to_device, to, place, n, c->stream);
        to += n;
        data += n;
        size -= n;
    }
    return LS_OK;
}

ls_status ls_cuda_write(void *driver, void *block, size_t offset, const void *data, size_t size, ls_error *err) {
    ls_cuda *c = driver;
    LS_TRY(err, ls_cuda_enter(c, err));
    ls_status status = write_all(c, (ls_cu_address)(uintptr_t)block + offset, data, size, err);
    ls_cuda_leave(c);
    return status;
}

/* Chunk by chunk through two halves of pinned memory: one is copied out while the next arrives. */
static ls_status read_all(ls_cuda *c, ls_cu_address from, uint8_t *data, size_t size, ls_error *err) {
    LS_TRY(err, ls_cuda_settle(c, err));
    size_t chunks = (size + LS_CUDA_SLOT - 1) / LS_CUDA_SLOT;
    for (size_t i = 0; i <= chunks; i++) {
        if (i < chunks) {
            size_t at = i * LS_CUDA_SLOT, n = size - at < LS_CUDA_SLOT ? size - at : LS_CUDA_SLOT;
            LS_CUDA_TRY(c, err, copy_to_host, c->landing + i % 2 * LS_CUDA_SLOT, from + at, n, c->stream);
            LS_CUDA_TRY(c, err, event_record, c->landed[i % 2], c->stream);
        }
        if (i) {
            size_t at = (i - 1) * LS_CUDA_SLOT, n = size - at < LS_CUDA_SLOT ? size - at : LS_CUDA_SLOT;
            LS_CUDA_TRY(c, err, event_synchronize, c->landed[(i - 1) % 2]);
            memcpy(data + at, c->landing + (i - 1) % 2 * LS_CUDA_SLOT, n);
        }
    }
    return LS_OK;
}

ls_status ls_cuda_read(void *driver, void *block, size_t offset, void *data, size_t size, ls_error *err) {
    ls_cuda *c = driver;
    LS_TRY(err, ls_cuda_enter(c, err));
    ls_status status = read_all(c, (ls_cu_address)(uintptr_t)block + offset, data, size, err);
    ls_cuda_leave(c);
    return status;
}

static ls_status flush(ls_cuda *c, ls_error *err) {
    LS_TRY(err, ls_cuda_settle(c, err));
    if (c->recorded) {
        LS_CUDA_TRY(c, err, event_record, c->tickets[(c->ticket + 1) % LS_CUDA_TICKETS], c->stream);
        c->ticket++;
        c->recorded = false;
    }
    return LS_OK;
}

ls_status ls_cuda_flush(void *driver, uint64_t *out_ticket, ls_error *err) {
    ls_cuda *c = driver;
    LS_TRY(err, ls_cuda_enter(c, err));
    ls_status status = flush(c, err);
    ls_cuda_leave(c);
    if (out_ticket) {
        *out_ticket = c->ticket;
    }
    return status;
}

/* An event that a later ticket has taken over tells of both. */
static ls_status wait(ls_cuda *c, uint64_t ticket, int blocking, ls_error *err) {
    ls_cu_event event = c->tickets[ticket % LS_CUDA_TICKETS];
    if (blocking) {
        LS_CUDA_TRY(c, err, event_synchronize, event);
    } else {
        ls_cu_result r = c->api.event_query(event);
        if (r == LS_CU_NOT_READY) {
            return LS_OK;
        }
        LS_TRY(err, ls_cuda_check(c, r, ls_cuda_names.event_query, err));
    }
    c->done = ticket > c->done ? ticket : c->done;
    return LS_OK;
}

ls_status ls_cuda_wait(void *driver, uint64_t ticket, int blocking, int *out_done, ls_error *err) {
    ls_cuda *c = driver;
    ls_status status = LS_OK;
    if (ticket > c->ticket) {
        return LS_FAIL(err, LS_ERR_INTERNAL, "%s: ticket %llu of %llu", c->id, (unsigned long long)ticket,
                       (unsigned long long)c->ticket);
    }
    if (ticket > c->done) {
        LS_TRY(err, ls_cuda_enter(c, err));
        status = wait(c, ticket, blocking, err);
        ls_cuda_leave(c);
    }
    if (out_done) {
        *out_done = ticket <= c->done;
    }
    return status;
}

/* ---- timers ---- */

static ls_status stamp(ls_cuda *c, ls_cu_event *event, ls_error *err) {
    LS_TRY(err, ls_cuda_settle(c, err));
    if (!*event) {
        LS_CUDA_TRY(c, err, event_create, event, 0);
    }
    LS_CUDA_TRY(c, err, event_record, *event, c->stream);
    return LS_OK;
}

ls_status ls_cuda_stamp(ls_cuda *c, int32_t timer, int end, ls_error *err) {
    LS_TRY(err, ls_cuda_enter(c, err));
    ls_status status = stamp(c, &c->timers[2 * timer + end], err);
    ls_cuda_leave(c);
    return status;
}

static ls_status elapsed(ls_cuda *c, uint64_t *out_ns, int n, ls_error *err) {
    for (int i = 0; i < n; i++) {
        float milliseconds = 0;
        LS_CUDA_TRY(c, err, event_synchronize, c->timers[2 * i + 1]);
        LS_CUDA_TRY(c, err, event_elapsed, &milliseconds, c->timers[2 * i], c->timers[2 * i + 1]);
        out_ns[i] = (uint64_t)((double)milliseconds * 1e6);
    }
    return LS_OK;
}

ls_status ls_cuda_times(void *driver, uint64_t *out_ns, int n, ls_error *err) {
    ls_cuda *c = driver;
    LS_TRY(err, ls_cuda_enter(c, err));
    ls_status status = elapsed(c, out_ns, n, err);
    ls_cuda_leave(c);
    return status;
}
