/* Packed operands that are kept from launch to launch: a network's weights are packed once.
 *
 * An operand is known by its buffer, its offset, and the contraction that packs it, in which its extents are
 * fixed; the buffer's count of writes says whether it is still the same. What has been the same for several
 * launches is worth keeping. All under the device's mutex. Kept memory is the device's heap's, and so within the
 * context's limit; it is given back when there is none left for a buffer or a kernel, and without memory nothing
 * is kept. */
#include "backend/cpu/kept.h"
#include <string.h>

enum {
    BUCKETS = 256,
    MOST_ENTRIES = 4096,  /* with data, and without: loops read slices at many places */
    SIGHTINGS = LS_LIMIT(4, 2), /* launches before it is kept: activations are met as often by a layer's products */
    MOST_BYTES = 64 << 20 /* of one operand */
};

struct ls_kept_table {
    ls_kept *buckets[BUCKETS];
    int empty, full; /* entries without data, with data */
};

static ls_kept **bucket_of(ls_kept_table *table, const void *handle, size_t offset) {
    const uint64_t place = (uint64_t)(uintptr_t)handle + offset;
    return &table->buckets[place * UINT64_C(0xff51afd7ed558ccd) >> 56];
}

static void set_data(ls_kept_table *table, ls_kept *e, ls_heap *heap, void *data) {
    int change = (data != NULL) - (e->data != NULL);
    table->full += change;
    table->empty -= change;
    ls_free(heap, e->data);
    e->data = data;
}

static bool is_of(const ls_kept *e, const void *handle, const void *owner) {
    return (handle && e->handle == handle) || (owner && e->owner == owner);
}

static bool is_empty(const ls_kept *e, const void *handle, const void *owner) {
    (void)handle, (void)owner;
    return !e->data;
}

static bool is_any(const ls_kept *e, const void *handle, const void *owner) {
    (void)e, (void)handle, (void)owner;
    return true;
}

static void forget(ls_cpu_device *d, bool (*which)(const ls_kept *e, const void *handle, const void *owner),
                   const void *handle, const void *owner) {
    for (int i = 0; d->kept && i < BUCKETS; i++) {
        for (ls_kept **at = &d->kept->buckets[i]; *at;) {
            ls_kept *e = *at;
            if (which(e, handle, owner)) {
                *at = e->next;
                *(e->data ? &d->kept->full : &d->kept->empty) -= 1;
                ls_free(d->heap, e->data);
                ls_free(d->heap, e);
            } else {
                at = &e->next;
            }
        }
    }
}

/* A new entry without data, in the place of all others of these when there are too many. */
static ls_kept *enter(ls_cpu_device *d, ls_kept **bucket) {
    if (d->kept->empty >= MOST_ENTRIES) {
        forget(d, is_empty, NULL, NULL);
    }
    ls_kept *e = ls_alloc_zeroed(d->heap, sizeof *e);
    if (e) {
        e->next = *bucket;
        *bucket = e;
        d->kept->empty++;
    }
    return e;
}

/* A number that changes when what the arguments hold does; 0: it is not known. Counts of writes are never the same for two buffers. */
static uint64_t state_of(const ls_launch *launch, const uint8_t *args, int n) {
    uint64_t state = 0;
    for (int i = 0; i < n; i++) {
        uint64_t writes = atomic_load_explicit(&launch->args[args[i]]->writes, memory_order_relaxed);
        if (!writes) {
            return 0;
        }
        uint64_t place = i ? (uint64_t)launch->offsets[args[i]] << 24 : 0; /* the first one's is part of the entry */
        state = (state * UINT64_C(0x9e3779b97f4a7c15) + place) * UINT64_C(0xff51afd7ed558ccd) + writes;
    }
    return state ? state : 1;
}

/* After as many sightings. */
static ls_kept *find(ls_cpu_device *d, const ls_launch *launch, int arg, uint64_t writes, const void *owner, int what, size_t bytes,
                     int sightings) {
    const ls_buffer *buffer = launch->args[arg];
    if (!writes) {
        return NULL;
    }
    d->kept = d->kept ? d->kept : ls_alloc_zeroed(d->heap, sizeof *d->kept);
    if (!d->kept) {
        return NULL;
    }
    ls_kept **at = bucket_of(d->kept, buffer->handle, launch->offsets[arg]), *e = *at;
    while (e && !(e->handle == buffer->handle && e->offset == launch->offsets[arg] && e->owner == owner &&
                  e->what == what)) {
        e = e->next;
    }
    if (!e) {
        e = enter(d, at);
        if (!e) {
            return NULL;
        }
        e->handle = buffer->handle;
        e->offset = launch->offsets[arg];
        e->owner = owner;
        e->what = what;
    }
    if (e->writes != writes) {
        set_data(d->kept, e, d->heap, NULL);
        e->sightings = 0;
        e->writes = writes;
    }
    if (!e->data && e->sightings < sightings) {
        e->sightings++;
    } else if (!e->data && d->kept->full < MOST_ENTRIES) {
        set_data(d->kept, e, d->heap, ls_alloc(d->heap, bytes));
        e->ready = false;
    }
    return e->data ? e : NULL;
}

ls_kept *ls_kept_find(ls_cpu_device *d, const ls_launch *launch, int arg, const void *owner, int what,
                      size_t bytes) {
    if (bytes > MOST_BYTES || arg >= launch->n_args) { /* one of the kernel's own: chosen.c */
        return NULL;
    }
    uint64_t writes = atomic_load_explicit(&launch->args[arg]->writes, memory_order_relaxed);
    return find(d, launch, arg, writes, owner, what, bytes, SIGHTINGS);
}

ls_kept *ls_kept_find_all(ls_cpu_device *d, const ls_launch *launch, const uint8_t *args, int n_args, const void *owner, int what,
                          size_t bytes) {
    return find(d, launch, args[0], state_of(launch, args, n_args), owner, what, bytes, 0);
}

void ls_kept_drop(ls_cpu_device *d, ls_kept *kept) {
    set_data(d->kept, kept, d->heap, NULL);
}

void ls_kept_forget_buffer(ls_cpu_device *d, const void *handle) {
    forget(d, is_of, handle, NULL);
}

void ls_kept_forget_owner(ls_cpu_device *d, const void *owner) {
    forget(d, is_of, NULL, owner);
}

void ls_kept_free(ls_cpu_device *d) {
    forget(d, is_any, NULL, NULL);
    ls_free(d->heap, d->kept);
    d->kept = NULL;
}
