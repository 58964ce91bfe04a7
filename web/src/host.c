/* The page's WebGPU: backend/webgpu/host.h by functions of web/webgpu.js, where the objects are. Here are only their numbers.
 *
 * JavaScript asks for the adapter and the device before "webgpu" is opened; opening takes what it has. Its promises settle between
 * calls into this module, never during one, so `wait` waits for nothing: it looks at what has come in. Text and bytes pass
 * through this module's memory. Sizes and offsets are doubles there: exact up to 2^53, and no BigInt. */
#include "backend/webgpu/host.h"
#include <stdio.h>
#include <string.h>

#define IMPORT(name) __attribute__((import_module("lockstep"), import_name("webgpu_" #name)))

/* What JavaScript writes: the offsets are in web/webgpu.js too. */
typedef struct about {
    double max_buffer, max_binding;
    uint32_t align, max_storage, max_shared, max_threads, max_size[3], max_groups;
    uint32_t f16, subgroups, subgroup_min, subgroup_max;
    char name[128], driver[128], reason[256];
} about;
_Static_assert(offsetof(about, align) == 16 && offsetof(about, f16) == 48 && offsetof(about, name) == 64 && sizeof(about) == 576,
               "web/webgpu.js has these numbers");

typedef struct news {
    double completed; /* number of the last finished submit */
    uint32_t unsettled, mapping, lost, error; /* error: the first since the last look, an index of `errors` */
    char message[1024];
} news;
_Static_assert(offsetof(news, unsettled) == 8 && offsetof(news, message) == 24, "web/webgpu.js has these numbers");
static const ls_status errors[] = {LS_OK, LS_ERR_MEMORY, LS_ERR_DEVICE, LS_ERR_INTERNAL};

IMPORT(open) uint32_t js_open(about *out_about); /* the host's number; 0: none, and the reason */
IMPORT(close) void js_close(uint32_t host);
IMPORT(lose) void js_lose(uint32_t host);
IMPORT(look) void js_look(uint32_t host, news *out_news);
IMPORT(buffer_new) uint32_t js_buffer_new(uint32_t host, double size, uint32_t use);
IMPORT(buffer_free) void js_buffer_free(uint32_t host, uint32_t buffer);
IMPORT(pipeline_new)
uint32_t js_pipeline_new(uint32_t host, const char *name, size_t name_length, const char *wgsl, size_t wgsl_length, uint32_t n_storage,
                         uint32_t read_only, uint32_t uniform_size);
IMPORT(pipeline_free) void js_pipeline_free(uint32_t host, uint32_t pipeline);
IMPORT(pipeline_error) uint32_t js_pipeline_error(uint32_t host, uint32_t pipeline, char *out_text, size_t size);
IMPORT(group_new) uint32_t js_group_new(uint32_t host, uint32_t pipeline, const double *places, uint32_t uniform);
IMPORT(group_free) void js_group_free(uint32_t host, uint32_t group);
IMPORT(dispatch)
void js_dispatch(uint32_t host, uint32_t pipeline, uint32_t group, uint32_t uniform_offset, uint32_t x, uint32_t y, uint32_t z);
IMPORT(copy) void js_copy(uint32_t host, uint32_t to, double to_offset, uint32_t from, double from_offset, double size);
IMPORT(write) void js_write(uint32_t host, uint32_t buffer, double offset, const void *data, size_t size);
IMPORT(submit) void js_submit(uint32_t host);
IMPORT(map) void js_map(uint32_t host, uint32_t buffer, size_t size);
IMPORT(mapped) uint32_t js_mapped(uint32_t host, uint32_t buffer, void *out_bytes, size_t size);
IMPORT(unmap) void js_unmap(uint32_t host, uint32_t buffer);

enum { MAX_STORAGE = 32 };

typedef struct page {
    ls_webgpu_host base;
    uint32_t number;
} page;

typedef struct buffer {
    uint32_t number;
    size_t size; /* of bytes */
    void *bytes; /* of a mapped buffer, copied here */
} buffer;

typedef struct pipeline {
    uint32_t number;
    int n_storage;
    bool uniform;
    char error[1024];
} pipeline;

static uint32_t number(const ls_webgpu_host *host) {
    return ((const page *)host)->number;
}

static void look(ls_webgpu_host *host) {
    news n;
    n.message[0] = 0;
    js_look(number(host), &n);
    host->completed = (uint64_t)n.completed;
    host->unsettled = (int)n.unsettled;
    host->mapping = (int)n.mapping;
    host->lost = n.lost != 0;
    if (n.error && host->error == LS_OK) {
        host->error = errors[n.error & 3];
        snprintf(host->message, sizeof host->message, "%s", n.message);
    }
}

/* ---- objects ---- */

static void *buffer_new(ls_webgpu_host *host, uint64_t size, ls_webgpu_use use) {
    buffer *b = ls_alloc_zeroed(host->heap, sizeof *b);
    if (b) {
        b->number = js_buffer_new(number(host), (double)size, use);
        look(host);
    }
    return b;
}

static void drop_bytes(ls_webgpu_host *host, buffer *b) {
    ls_free(host->heap, b->bytes);
    b->bytes = NULL;
}

static void buffer_free(ls_webgpu_host *host, void *handle) {
    buffer *b = handle;
    js_buffer_free(number(host), b->number);
    drop_bytes(host, b);
    ls_free(host->heap, b);
}

static void *pipeline_new(ls_webgpu_host *host, const ls_webgpu_pipeline_desc *desc) {
    pipeline *p = ls_alloc_zeroed(host->heap, sizeof *p);
    if (p) {
        p->n_storage = desc->n_storage;
        p->uniform = desc->uniform_size != 0;
        p->number = js_pipeline_new(number(host), desc->name, strlen(desc->name), desc->wgsl, strlen(desc->wgsl), (uint32_t)desc->n_storage,
                                    desc->read_only, desc->uniform_size);
        look(host);
    }
    return p;
}

static void pipeline_free(ls_webgpu_host *host, void *handle) {
    pipeline *p = handle;
    js_pipeline_free(number(host), p->number);
    ls_free(host->heap, p);
}

static const char *pipeline_error(ls_webgpu_host *host, void *handle) {
    pipeline *p = handle;
    return js_pipeline_error(number(host), p->number, p->error, sizeof p->error) ? p->error : NULL;
}

static void *group_new(ls_webgpu_host *host, void *handle, const ls_webgpu_binding *storage, void *uniform) {
    const pipeline *p = handle;
    const buffer *u = uniform;
    double places[3 * MAX_STORAGE]; /* of each binding: buffer, offset, size */
    for (int i = 0; i < p->n_storage && i < MAX_STORAGE; i++) {
        places[3 * i] = ((const buffer *)storage[i].buffer)->number;
        places[3 * i + 1] = (double)storage[i].offset;
        places[3 * i + 2] = (double)storage[i].size;
    }
    return (void *)(uintptr_t)js_group_new(number(host), p->number, places, p->uniform ? u->number : 0);
}

static void group_free(ls_webgpu_host *host, void *group) {
    js_group_free(number(host), (uint32_t)(uintptr_t)group);
}

/* ---- commands ---- */

static void dispatch(ls_webgpu_host *host, void *handle, void *group, uint32_t uniform_offset, const uint32_t groups[3],
                     uint32_t written, int timer) {
    (void)written, (void)timer; /* limits.timestamps is false */
    js_dispatch(number(host), ((const pipeline *)handle)->number, (uint32_t)(uintptr_t)group, uniform_offset, groups[0], groups[1],
                groups[2]);
}

static void resolve(ls_webgpu_host *host, int n, void *times) {
    (void)host, (void)n, (void)times;
}

static void copy(ls_webgpu_host *host, void *to, uint64_t to_offset, void *from, uint64_t from_offset, uint64_t size) {
    js_copy(number(host), ((const buffer *)to)->number, (double)to_offset, ((const buffer *)from)->number, (double)from_offset,
            (double)size);
}

static void write(ls_webgpu_host *host, void *handle, uint64_t offset, const void *data, size_t size) {
    js_write(number(host), ((const buffer *)handle)->number, (double)offset, data, size);
}

static void submit(ls_webgpu_host *host) {
    js_submit(number(host));
    host->submitted++;
}

/* ---- mapping ---- */

static void map(ls_webgpu_host *host, void *handle, size_t size) {
    buffer *b = handle;
    drop_bytes(host, b);
    b->size = size;
    js_map(number(host), b->number, size);
    look(host);
}

static const void *mapped(ls_webgpu_host *host, void *handle, size_t size) {
    buffer *b = handle;
    if (b->bytes && b->size >= size) {
        return b->bytes;
    }
    drop_bytes(host, b);
    void *bytes = ls_alloc(host->heap, size);
    if (!bytes && host->error == LS_OK) {
        host->error = LS_ERR_MEMORY;
        snprintf(host->message, sizeof host->message, "no memory for a download of %zu bytes", size);
    }
    if (bytes && js_mapped(number(host), b->number, bytes, size)) {
        b->bytes = bytes;
        b->size = size;
        return bytes;
    }
    ls_free(host->heap, bytes);
    look(host);
    return NULL;
}

static void unmap(ls_webgpu_host *host, void *handle) {
    buffer *b = handle;
    js_unmap(number(host), b->number);
    drop_bytes(host, b);
    look(host);
}

/* ---- the rest ---- */

static void wait(ls_webgpu_host *host, uint64_t nanoseconds) {
    (void)nanoseconds;
    look(host);
}

static void lose(ls_webgpu_host *host) {
    js_lose(number(host));
    look(host);
}

static void close_host(ls_webgpu_host *host) {
    js_close(number(host));
    ls_free(host->heap, host);
}

static const ls_webgpu_host_api host_api = {
    .buffer_new = buffer_new, .buffer_free = buffer_free, .pipeline_new = pipeline_new, .pipeline_free = pipeline_free,
    .pipeline_error = pipeline_error, .group_new = group_new, .group_free = group_free, .dispatch = dispatch, .resolve = resolve,
    .copy = copy, .write = write, .submit = submit, .map = map, .mapped = mapped, .unmap = unmap, .wait = wait, .lose = lose,
    .close = close_host,
};

ls_status ls_webgpu_open_host(ls_heap *heap, int index, ls_webgpu_host **out_host, ls_error *err) {
    if (index) {
        return LS_FAIL(err, LS_ERR_DEVICE, "webgpu:%d: there is one adapter, webgpu, the one that the browser gives", index);
    }
    page *p = ls_alloc_zeroed(heap, sizeof *p);
    if (!p) {
        return LS_FAIL_MEMORY(err, "a WebGPU host");
    }
    about a;
    memset(&a, 0, sizeof a);
    p->number = js_open(&a);
    if (!p->number) {
        ls_free(heap, p);
        return LS_FAIL(err, LS_ERR_DEVICE, "webgpu: %.255s", a.reason);
    }
    p->base.api = &host_api;
    p->base.heap = heap;
    p->base.late = true;
    memcpy(p->base.name, a.name, sizeof a.name);
    memcpy(p->base.driver, a.driver, sizeof a.driver);
    p->base.limits = (ls_webgpu_limits){
        .max_buffer = (uint64_t)a.max_buffer,
        .max_binding = (uint64_t)a.max_binding,
        .align = a.align,
        .max_storage = a.max_storage,
        .max_shared = a.max_shared,
        .max_threads = a.max_threads,
        .max_size = {a.max_size[0], a.max_size[1], a.max_size[2]},
        .max_groups = a.max_groups,
        .f16 = a.f16 != 0,
        .subgroups = a.subgroups != 0,
        .subgroup_min = a.subgroup_min,
        .subgroup_max = a.subgroup_max,
    };
    look(&p->base);
    *out_host = &p->base;
    return LS_OK;
}
