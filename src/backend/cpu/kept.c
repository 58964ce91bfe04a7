/* Packed operands that are kept from launch to launch: a network's weights are packed once.
 *
 * An operand is known by its buffer, its offset, and the contraction that packs it, in which its extents are fixed; the
 * buffer's count of writes says whether it is still the same. What has been the same for several launches is worth
 * keeping. All under the device's mutex. Kept memory is the device's heap's, and so within the context's limit; it is
 * given back when there is none left for a buffer or a kernel, and without memory nothing is kept. */
#include "backend/cpu/kept.h"
#include <string.h>

enum {
    BUCKETS = 256,
    SIGHTINGS = 4,        /* launches before it is kept: activations are met as often by a layer's products */
    MOST_BYTES = 64 << 20 /* of one operand */
};

struct ls_kept_table {
    ls_kept *buckets[BUCKETS];
};

static ls_kept **bucket_of(ls_kept_table *table, const void *handle, size_t offset) {
    uint64_t x = (uint64_t)(uintptr_t)handle ^ (uint64_t)offset * UINT64_C(0x9e3779b97f4a7c15);
    x *= UINT64_C(0xff51afd7ed558ccd);
    return &table->buckets[x >> 56];
}

ls_kept *ls_kept_find(ls_cpu_device *d, const ls_launch *launch, int arg, const void *owner, int side,
                      size_t bytes) {
    const ls_buffer *buffer = launch->args[arg];
    uint64_t writes = atomic_load_explicit(&buffer->writes, memory_order_relaxed);
    if (!writes || bytes > MOST_BYTES) {
        return NULL;
    }
    d->kept = d->kept ? d->kept : ls_alloc_zeroed(d->heap, sizeof *d->kept);
    if (!d->kept) {
        return NULL;
    }
    ls_kept **at = bucket_of(d->kept, buffer->handle, launch->offsets[arg]), *e = *at;
    while (e && !(e->handle == buffer->handle && e->offset == launch->offsets[arg] && e->owner == owner &&
                  e->side == side)) {
        e = e->next;
    }
    if (!e) {
        e = ls_alloc_zeroed(d->heap, sizeof *e);
        if (!e) {
            return NULL;
        }
        *e = (ls_kept){.next = *at,
                       .handle = buffer->handle,
                       .offset = launch->offsets[arg],
                       .owner = owner,
                       .side = side};
        *at = e;
    }
    if (e->writes != writes) {
        ls_free(d->heap, e->data);
        e->data = NULL;
        e->sightings = 0;
        e->writes = writes;
    }
    if (!e->data && e->sightings++ >= SIGHTINGS) {
        e->data = ls_alloc(d->heap, bytes);
        e->ready = false;
    }
    return e->data ? e : NULL;
}

static void forget(ls_cpu_device *d, const void *handle, const void *owner, bool all) {
    for (int i = 0; d->kept && i < BUCKETS; i++) {
        for (ls_kept **at = &d->kept->buckets[i]; *at;) {
            ls_kept *e = *at;
            if (all || (handle && e->handle == handle) || (owner && e->owner == owner)) {
                *at = e->next;
                ls_free(d->heap, e->data);
                ls_free(d->heap, e);
            } else {
                at = &e->next;
            }
        }
    }
}

void ls_kept_forget_buffer(ls_cpu_device *d, const void *handle) {
    forget(d, handle, NULL, false);
}

void ls_kept_forget_owner(ls_cpu_device *d, const void *owner) {
    forget(d, NULL, owner, false);
}

void ls_kept_free(ls_cpu_device *d) {
    forget(d, NULL, NULL, true);
    ls_free(d->heap, d->kept);
    d->kept = NULL;
}
