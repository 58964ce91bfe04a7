/* The driver of WebGPU devices, over a host (host.h).
 *
 * Parameters and small writes go into a mirror of one staging buffer. A submit first writes the mirror, then the commands: what
 * is in it holds for all that was recorded since the submit before, and then it may be used again.
 *
 * WebGPU moves multiples of four bytes, between two buffers only. Two small kernels do the rest: `patch` puts bytes into one
 * word, `shift` copies bytes to any place. */
#include "backend/webgpu/webgpu.h"
#include "base/map.h"
#include "render/render.h"
#include <string.h>

enum {
    MIRROR = 1 << 18,      /* bytes of the staging buffer */
    SMALL_WRITE = 1 << 14, /* bytes; larger ones are not worth the mirror */
    READ_CHUNK = 1 << 24,  /* bytes of a download at once */
    MAX_RECORDED = 1000,   /* commands before a submit that nobody asked for */
    MAX_STORAGE = 16, MAX_WORDS = 256,
    GROUPS = 1024          /* bind groups kept */
};
#define SECOND UINT64_C(1000000000)
_Static_assert((int)LS_WEBGPU_TIMERS >= (int)LS_GPU_TIMERS, "a host has a timer for each of the layer's");

typedef struct pipeline {
    void *handle;
    int n_storage;
    uint32_t uniform_size;
} pipeline;

/* A bind group that is kept for the next dispatch of the same pipeline and places. */
typedef struct group {
    void *handle; /* NULL: none */
    const pipeline *pipeline;
    ls_webgpu_binding bindings[MAX_STORAGE];
} group;

struct ls_webgpu {
    ls_heap *heap;
    ls_webgpu_host *host;
    uint8_t mirror[MIRROR];
    size_t mirror_used;
    int recorded; /* commands since the last submit */
    void *staging;
    void *readback;
    size_t readback_size;
    pipeline patch, shift;
    uint64_t temporary_size;
    void *temporary;
    void *times; /* where timestamps arrive; made when first needed */
    group groups[GROUPS];
};

static const char patch_wgsl[] = /* word x of m keeps the bits of y and gets those of z */
    "@group(0) @binding(0) var<storage, read_write> m: array<u32>;\n"
    "@group(0) @binding(1) var<uniform> p: vec4<u32>;\n"
    "@compute @workgroup_size(1)\n"
    "fn main() {\n"
    "    m[p.x] = (m[p.x] & p.y) | p.z;\n"
    "}\n";

static const char shift_wgsl[] = /* byte x + i of `dst` becomes byte y + i of `src`, i < z; a thread a word of `dst` */
    "@group(0) @binding(0) var<storage, read_write> dst: array<u32>;\n"
    "@group(0) @binding(1) var<storage, read> src: array<u32>;\n"
    "@group(0) @binding(2) var<uniform> p: vec4<u32>;\n"
    "@compute @workgroup_size(64)\n"
    "fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) n: vec3<u32>) {\n"
    "    let word = p.x / 4u + id.x + id.y * n.x * 64u;\n"
    "    if (word > (p.x + p.z - 1u) / 4u) {\n"
    "        return;\n"
    "    }\n"
    "    var bits = 0u;\n"
    "    var mask = 0u;\n"
    "    for (var b = 0u; b < 4u; b++) {\n"
    "        let i = word * 4u + b - p.x;\n" /* wraps below the first byte, to beyond the last */
    "        if (i < p.z) {\n"
    "            let at = p.y + i;\n"
    "            bits |= ((src[at / 4u] >> (at % 4u * 8u)) & 255u) << (b * 8u);\n"
    "            mask |= 255u << (b * 8u);\n"
    "        }\n"
    "    }\n"
    "    dst[word] = (dst[word] & ~mask) | bits;\n"
    "}\n";

/* ---- errors ---- */

/* What the host has met since the last time. An error of a lost device stays. */
static ls_status check(ls_webgpu *w, const char *what, ls_error *err) {
    ls_webgpu_host *host = w->host;
    if (host->lost) {
        return LS_FAIL(err, LS_ERR_DEVICE, "webgpu: %s: the device is lost: %s", what, host->message);
    }
    ls_status status = host->error;
    host->error = LS_OK;
    return status == LS_OK ? LS_OK : LS_FAIL(err, status, "webgpu: %s: %s", what, host->message);
}

static ls_status again(ls_webgpu *w, const char *what, ls_error *err) {
    LS_TRY(err, check(w, what, err));
    return LS_FAIL(err, LS_ERR_AGAIN, "webgpu: %s: %s has not answered yet", what, w->host->name);
}

/* Waits until all new objects are known to be good. */
static ls_status settle(ls_webgpu *w, const char *what, ls_error *err) {
    while (w->host->unsettled && !w->host->lost) {
        w->host->api->wait(w->host, SECOND);
        if (w->host->late && w->host->unsettled) {
            return again(w, what, err);
        }
    }
    return check(w, what, err);
}

/* A late host tells of bad buffers when something is read. */
static ls_status settle_buffer(ls_webgpu *w, const char *what, ls_error *err) {
    return w->host->late ? check(w, what, err) : settle(w, what, err);
}

/* ---- recording ---- */

static void submit(ls_webgpu *w) {
    if (w->recorded) {
        if (w->mirror_used) {
            w->host->api->write(w->host, w->staging, 0, w->mirror, (w->mirror_used + 3) / 4 * 4);
        }
        w->host->api->submit(w->host);
        w->recorded = 0;
        w->mirror_used = 0;
    }
}

/* Room in the mirror for the command that is recorded next. */
static size_t stage(ls_webgpu *w, const void *data, size_t size) {
    size_t align = w->host->limits.align, at = (w->mirror_used + align - 1) / align * align;
    if (at + size > MIRROR || w->recorded >= MAX_RECORDED) {
        submit(w);
        at = 0;
        w->mirror_used = 0;
    }
    memcpy(w->mirror + at, data, size);
    w->mirror_used = at + size;
    return at;
}

static void *find_group(ls_webgpu *w, const pipeline *p, const ls_webgpu_binding *bindings) {
    size_t bytes = sizeof *bindings * (size_t)p->n_storage;
    group *g = &w->groups[ls_hash(bindings, bytes, (uint64_t)(uintptr_t)p) % GROUPS];
    if (g->handle && g->pipeline == p && memcmp(g->bindings, bindings, bytes) == 0) {
        return g->handle;
    }
    if (g->handle) {
        w->host->api->group_free(w->host, g->handle);
    }
    g->handle = w->host->api->group_new(w->host, p->handle, bindings, w->staging);
    g->pipeline = p;
    memcpy(g->bindings, bindings, bytes);
    return g->handle;
}

static void forget_groups(ls_webgpu *w, const pipeline *p, const void *buffer) {
    for (int i = 0; i < GROUPS; i++) {
        group *g = &w->groups[i];
        bool drop = g->handle && g->pipeline == p;
        for (int b = 0; g->handle && b < g->pipeline->n_storage && !drop; b++) {
            drop = buffer && g->bindings[b].buffer == buffer;
        }
        if (drop) {
            w->host->api->group_free(w->host, g->handle);
            g->handle = NULL;
        }
    }
}

static ls_status record(ls_webgpu *w, const pipeline *p, const ls_webgpu_binding *bindings, const uint32_t *words, int32_t n_words,
                        const uint32_t groups[3], uint32_t written, int timer, ls_error *err) {
    uint32_t padded[MAX_WORDS] = {0};
    size_t uniform = 0;
    if (p->uniform_size) {
        memcpy(padded, words, sizeof *words * (size_t)n_words);
        uniform = stage(w, padded, p->uniform_size);
    } else if (w->recorded >= MAX_RECORDED) {
        submit(w);
    }
    void *g = find_group(w, p, bindings);
    if (!g) {
        return LS_FAIL_MEMORY(err, "a bind group");
    }
    w->host->api->dispatch(w->host, p->handle, g, (uint32_t)uniform, groups, written, timer);
    w->recorded++;
    return LS_OK;
}

static void record_copy(ls_webgpu *w, void *to, size_t to_offset, void *from, size_t from_offset, size_t size) {
    w->host->api->copy(w->host, to, to_offset, from, from_offset, size);
    w->recorded++;
}

/* ---- blocks ---- */

static ls_status block_new(void *driver, size_t size, void **out_block, ls_error *err) {
    ls_webgpu *w = driver;
    size_t rounded = size > SIZE_MAX - 255 ? size : (size + 255) / 256 * 256;
    if (rounded > w->host->limits.max_buffer) {
        return LS_FAIL(err, LS_ERR_MEMORY, "webgpu: a buffer of %zu bytes; %s has at most %llu", size, w->host->name,
                       (unsigned long long)w->host->limits.max_buffer);
    }
    LS_TRY(err, check(w, "before a new buffer", err));
    void *buffer = w->host->api->buffer_new(w->host, rounded ? rounded : 256, LS_WEBGPU_STORAGE);
    if (!buffer) {
        return LS_FAIL_MEMORY(err, "a WebGPU buffer");
    }
    ls_status status = settle_buffer(w, "a new buffer", err);
    if (status != LS_OK) {
        w->host->api->buffer_free(w->host, buffer);
        return status;
    }
    *out_block = buffer;
    return LS_OK;
}

static void discard(void *driver, void *block) {
    ls_webgpu *w = driver;
    if (w->host->api->discard) {
        w->host->api->discard(w->host, block);
    }
}

static void block_free(void *driver, void *block) {
    ls_webgpu *w = driver;
    submit(w);
    forget_groups(w, NULL, block);
    w->host->api->buffer_free(w->host, block);
}

/* A buffer for bytes on their way; what is recorded next may use it. */
static ls_status need_temporary(ls_webgpu *w, size_t size, ls_error *err) {
    if (w->temporary_size < size) {
        void *buffer;
        size = size < 65536 ? 65536 : size;
        LS_TRY(err, block_new(w, size, &buffer, err));
        if (w->temporary) {
            block_free(w, w->temporary);
        }
        w->temporary = buffer;
        w->temporary_size = size;
    }
    discard(w, w->temporary);
    return LS_OK;
}

/* ---- moving bytes ---- */

/* `size` bytes into one word. */
static ls_status patch(ls_webgpu *w, void *block, size_t offset, const uint8_t *data, size_t size, ls_error *err) {
    uint32_t words[4] = {(uint32_t)(offset % 256 / 4), UINT32_MAX, 0, 0};
    for (size_t i = 0; i < size; i++) {
        size_t shift = 8 * ((offset + i) % 4);
        words[1] &= ~(UINT32_C(255) << shift);
        words[2] |= (uint32_t)data[i] << shift;
    }
    const ls_webgpu_binding binding = {block, offset / 256 * 256, 256};
    return record(w, &w->patch, &binding, words, 4, (const uint32_t[3]){1, 1, 1}, 1, 0, err);
}

static ls_status write_bytes(void *driver, void *block, size_t offset, const void *data, size_t size, ls_error *err) {
    ls_webgpu *w = driver;
    const uint8_t *bytes = data;
    size_t head = (4 - offset % 4) % 4, whole, tail;
    head = head < size ? head : size;
    whole = (size - head) / 4 * 4;
    tail = size - head - whole;
    LS_TRY(err, check(w, "before a write", err));
    if (head) {
        LS_TRY(err, patch(w, block, offset, bytes, head, err));
    }
    if (whole && whole <= SMALL_WRITE && w->recorded) {
        size_t at = stage(w, bytes + head, whole);
        record_copy(w, block, offset + head, w->staging, at, whole);
    } else if (whole) {
        submit(w);
        w->host->api->write(w->host, block, offset + head, bytes + head, whole);
    }
    if (tail) {
        LS_TRY(err, patch(w, block, offset + head + whole, bytes + head + whole, tail, err));
    }
    return check(w, "a write", err);
}

static ls_status need_readback(ls_webgpu *w, size_t size, ls_error *err) {
    if (w->readback_size >= size) {
        return LS_OK;
    }
    if (w->readback) {
        w->host->api->buffer_free(w->host, w->readback);
    }
    w->readback_size = size < 65536 ? 65536 : size;
    w->readback = w->host->api->buffer_new(w->host, w->readback_size, LS_WEBGPU_READBACK);
    ls_status status = w->readback ? settle_buffer(w, "a buffer for downloads", err) : LS_FAIL_MEMORY(err, "a WebGPU buffer");
    if (status != LS_OK) {
        if (w->readback) {
            w->host->api->buffer_free(w->host, w->readback);
        }
        w->readback = NULL;
        w->readback_size = 0;
    }
    return status;
}

static ls_status read_late(ls_webgpu *w, void *block, size_t offset, void *data, size_t size, ls_error *err) {
    size_t skip = offset % 4, bytes = (skip + size + 3) / 4 * 4;
    submit(w);
    const uint8_t *there = w->host->api->read(w->host, block, offset - skip, bytes);
    if (!there) {
        return again(w, "a download", err);
    }
    memcpy(data, there + skip, size);
    return check(w, "a download", err);
}

static ls_status read_chunk(ls_webgpu *w, void *block, size_t offset, void *data, size_t size, ls_error *err) {
    ls_webgpu_host *host = w->host;
    if (host->api->read) {
        return read_late(w, block, offset, data, size, err);
    }
    size_t skip = offset % 4, bytes = (skip + size + 3) / 4 * 4;
    LS_TRY(err, need_readback(w, bytes, err));
    record_copy(w, w->readback, 0, block, offset - skip, bytes);
    submit(w);
    host->api->map(host, w->readback, bytes);
    while (host->mapping && !host->lost) {
        host->api->wait(host, SECOND);
    }
    const uint8_t *mapped = host->mapping ? NULL : host->api->mapped(host, w->readback, bytes);
    ls_status status = check(w, "a download", err);
    if (mapped && status == LS_OK) {
        memcpy(data, mapped + skip, size);
    } else if (status == LS_OK) {
        status = LS_FAIL(err, LS_ERR_DEVICE, "webgpu: a download gave no bytes");
    }
    host->api->unmap(host, w->readback);
    return status;
}

static ls_status read_bytes(void *driver, void *block, size_t offset, void *data, size_t size, ls_error *err) {
    ls_webgpu *w = driver;
    ls_status late = LS_OK; /* all chunks are asked for at once */
    LS_TRY(err, check(w, "before a download", err));
    for (size_t done = 0; done < size;) {
        size_t n = size - done < READ_CHUNK ? size - done : READ_CHUNK;
        ls_status status = read_chunk(w, block, offset + done, (uint8_t *)data + done, n, err);
        if (status != LS_OK && status != LS_ERR_AGAIN) {
            return status;
        }
        late = status == LS_OK ? late : status;
        done += n;
    }
    return late;
}

/* Any bytes between two buffers, no more than 2^31 of them and than a binding holds. */
static ls_status shift(ls_webgpu *w, void *to, size_t to_offset, void *from, size_t from_offset, size_t size, ls_error *err) {
    size_t align = w->host->limits.align, to_base = to_offset / align * align, from_base = from_offset / align * align;
    const ls_webgpu_binding bindings[] = {{to, to_base, (to_offset + size - to_base + 3) / 4 * 4},
                                          {from, from_base, (from_offset + size - from_base + 3) / 4 * 4}};
    const uint32_t words[4] = {(uint32_t)(to_offset - to_base), (uint32_t)(from_offset - from_base), (uint32_t)size, 0};
    uint32_t n = (uint32_t)((size + 6) / 4 / 64 + 1), most = w->host->limits.max_groups;
    const uint32_t groups[3] = {n < most ? n : most, (n + most - 1) / most, 1};
    return record(w, &w->shift, bindings, words, 4, groups, 1, 0, err);
}

static ls_status copy_chunk(ls_webgpu *w, void *to, size_t to_offset, void *from, size_t from_offset, size_t size, ls_error *err) {
    bool words = to_offset % 4 == 0 && from_offset % 4 == 0 && size % 4 == 0;
    if (to == from) {
        size_t skip = from_offset % 4, bytes = (skip + size + 3) / 4 * 4;
        LS_TRY(err, need_temporary(w, bytes, err));
        record_copy(w, w->temporary, 0, from, from_offset - skip, bytes);
        from = w->temporary;
        from_offset = skip;
    }
    if (words) {
        record_copy(w, to, to_offset, from, from_offset, size);
        return LS_OK;
    }
    return shift(w, to, to_offset, from, from_offset, size, err);
}

static ls_status copy_bytes(void *driver, void *to, size_t to_offset, void *from, size_t from_offset, size_t size, ls_error *err) {
    ls_webgpu *w = driver;
    LS_TRY(err, check(w, "before a copy", err));
    for (size_t done = 0; done < size;) {
        size_t n = size - done < READ_CHUNK ? size - done : READ_CHUNK;
        LS_TRY(err, copy_chunk(w, to, to_offset + done, from, from_offset + done, n, err));
        done += n;
    }
    return check(w, "a copy", err);
}

/* ---- kernels ---- */

static ls_status render(void *driver, ls_arena *arena, const ls_kernel *kernel, ls_gpu_code *out_code, ls_error *err) {
    const ls_webgpu *w = driver;
    const ls_wgsl_options options = {.f16 = w->host->limits.f16, .subgroups = w->host->limits.subgroups};
    ls_text text;
    ls_text_init(&text, w->heap);
    ls_status status = ls_render_wgsl(&text, kernel, &options, err);
    if (status == LS_OK) {
        out_code->data = ls_arena_copy(arena, text.data, text.len + 1);
        out_code->size = text.len;
        status = out_code->data ? LS_OK : LS_FAIL_MEMORY(err, "the text of a kernel");
    }
    ls_text_free(&text);
    return status;
}

static ls_status make_pipeline(ls_webgpu *w, const ls_webgpu_pipeline_desc *desc, pipeline *out, ls_error *err) {
    LS_TRY(err, check(w, "before a new kernel", err));
    *out = (pipeline){w->host->api->pipeline_new(w->host, desc), desc->n_storage, desc->uniform_size};
    if (!out->handle) {
        return LS_FAIL_MEMORY(err, "a WebGPU pipeline");
    }
    ls_status status = settle(w, desc->name, err);
    const char *wrong = status == LS_OK && w->host->api->pipeline_error ? w->host->api->pipeline_error(w->host, out->handle) : NULL;
    if (wrong) {
        status = LS_FAIL(err, LS_ERR_INTERNAL, "webgpu: %s: %s", desc->name, wrong);
    }
    if (status != LS_OK) {
        w->host->api->pipeline_free(w->host, out->handle);
        out->handle = NULL;
    }
    return status;
}

static ls_status build(void *driver, const ls_gpu_code *code, void **out_pipeline, ls_error *err) {
    ls_webgpu *w = driver;
    const ls_webgpu_pipeline_desc desc = {.name = code->name,
                                          .wgsl = code->data,
                                          .n_storage = code->kernel->n_globals,
                                          .uniform_size = (uint32_t)(code->n_words + 3) / 4 * 16};
    if (desc.n_storage > MAX_STORAGE || code->n_words > MAX_WORDS) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "webgpu: kernel %s takes %d buffers and %d words", code->name, desc.n_storage,
                       code->n_words);
    }
    pipeline *p = ls_alloc(w->heap, sizeof *p);
    if (!p) {
        return LS_FAIL_MEMORY(err, "a WebGPU pipeline");
    }
    ls_status status = make_pipeline(w, &desc, p, err);
    if (status != LS_OK) {
        ls_free(w->heap, p);
        return status;
    }
    if (code->out_cached) {
        *code->out_cached = w->host->cached;
    }
    *out_pipeline = p;
    return LS_OK;
}

static void drop(void *driver, void *handle) {
    ls_webgpu *w = driver;
    pipeline *p = handle;
    submit(w);
    forget_groups(w, p, NULL);
    w->host->api->pipeline_free(w->host, p->handle);
    ls_free(w->heap, p);
}

static ls_status dispatch(void *driver, const ls_gpu_dispatch *d, ls_error *err) {
    ls_webgpu *w = driver;
    const pipeline *p = d->pipeline;
    if (d->timer && !w->times) {
        w->times = w->host->api->buffer_new(w->host, sizeof(uint64_t) * 2 * LS_GPU_TIMERS, LS_WEBGPU_TIMES);
        LS_TRY(err, w->times ? settle_buffer(w, "the buffer of timestamps", err) : LS_FAIL_MEMORY(err, "a WebGPU buffer"));
    }
    ls_webgpu_binding bindings[MAX_STORAGE];
    uint32_t written = 0;
    memset(bindings, 0, sizeof bindings);
    for (int i = 0; i < p->n_storage; i++) { /* a whole number of vectors of 4 words: blocks end on multiples of 256 */
        bindings[i].buffer = d->bindings[i].block;
        bindings[i].offset = d->bindings[i].offset;
        bindings[i].size = d->bindings[i].size ? (d->bindings[i].size + 15) / 16 * 16 : 16;
        written |= ls_gpu_writes(d->kernel, i) ? UINT32_C(1) << i : 0;
    }
    LS_TRY(err, record(w, p, bindings, d->words, d->n_words, d->groups, written, d->timer, err));
    return check(w, d->kernel->name, err);
}

static ls_status flush(void *driver, uint64_t *out_ticket, ls_error *err) {
    ls_webgpu *w = driver;
    submit(w);
    if (out_ticket) {
        *out_ticket = w->host->submitted;
    }
    return check(w, "a submit", err);
}

static ls_status wait(void *driver, uint64_t ticket, int blocking, int *out_done, ls_error *err) {
    ls_webgpu *w = driver;
    ls_webgpu_host *host = w->host;
    host->api->wait(host, 0);
    while (blocking && host->completed < ticket && !host->lost && !host->late) {
        host->api->wait(host, SECOND);
    }
    if (blocking && host->completed < ticket && host->late) {
        *out_done = 0;
        return again(w, "waiting for the device", err);
    }
    *out_done = host->completed >= ticket;
    return check(w, "waiting for the device", err);
}

static ls_status times(void *driver, uint64_t *out_ns, int n, ls_error *err) {
    ls_webgpu *w = driver;
    uint64_t stamps[2 * LS_GPU_TIMERS];
    LS_TRY(err, check(w, "before timestamps", err));
    w->host->api->resolve(w->host, n, w->times);
    w->recorded++;
    LS_TRY(err, read_chunk(w, w->times, 0, stamps, (size_t)n * 2 * sizeof *stamps, err));
    for (int i = 0; i < n; i++) {
        out_ns[i] = stamps[2 * i + 1] > stamps[2 * i] ? stamps[2 * i + 1] - stamps[2 * i] : 0; /* WebGPU promises no order */
    }
    return LS_OK;
}

const ls_gpu_api ls_webgpu_api = {
    .block_new = block_new, .block_free = block_free, .discard = discard, .write = write_bytes,   .read = read_bytes, .copy = copy_bytes,
    .render = render,       .build = build,           .drop = drop,       .dispatch = dispatch, .flush = flush,     .wait = wait,
    .times = times,
};

/* ---- the driver ---- */

ls_status ls_webgpu_prepare(ls_webgpu *w, ls_error *err) {
    const ls_webgpu_pipeline_desc patch_desc = {.name = "patch", .wgsl = patch_wgsl, .n_storage = 1, .uniform_size = 16};
    const ls_webgpu_pipeline_desc shift_desc = {
        .name = "shift", .wgsl = shift_wgsl, .n_storage = 2, .read_only = 2, .uniform_size = 16};
    if (!w->patch.handle) {
        LS_TRY(err, make_pipeline(w, &patch_desc, &w->patch, err));
    }
    if (!w->shift.handle) {
        LS_TRY(err, make_pipeline(w, &shift_desc, &w->shift, err));
    }
    if (!w->staging) {
        w->staging = w->host->api->buffer_new(w->host, MIRROR, LS_WEBGPU_STAGING);
        return w->staging ? settle_buffer(w, "the staging buffer", err) : LS_FAIL_MEMORY(err, "the staging buffer");
    }
    return LS_OK;
}

ls_status ls_webgpu_create(ls_heap *heap, ls_webgpu_host *host, ls_webgpu **out_driver, ls_error *err) {
    ls_webgpu *w = ls_alloc_zeroed(heap, sizeof *w);
    if (!w) {
        host->api->close(host);
        return LS_FAIL_MEMORY(err, "a WebGPU device");
    }
    w->heap = heap;
    w->host = host;
    *out_driver = w;
    return LS_OK;
}

void ls_webgpu_close(ls_webgpu *w) {
    if (!w) {
        return;
    }
    const ls_webgpu_host_api *api = w->host->api;
    for (int i = 0; i < GROUPS; i++) {
        if (w->groups[i].handle) {
            api->group_free(w->host, w->groups[i].handle);
        }
    }
    void *const buffers[] = {w->staging, w->readback, w->temporary, w->times};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) {
        if (buffers[i]) {
            api->buffer_free(w->host, buffers[i]);
        }
    }
    const pipeline *const pipelines[] = {&w->patch, &w->shift};
    for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++) {
        if (pipelines[i]->handle) {
            api->pipeline_free(w->host, pipelines[i]->handle);
        }
    }
    api->close(w->host);
    ls_free(w->heap, w);
}

void ls_webgpu_lose(ls_webgpu *w) {
    if (w->host->api->lose) {
        w->host->api->lose(w->host);
    }
}

void ls_webgpu_get_limits(const ls_webgpu *w, ls_gpu_limits *out) {
    const ls_webgpu_limits *l = &w->host->limits;
    uint32_t threads = l->max_threads;
    threads = l->max_size[0] < threads ? l->max_size[0] : threads; /* kernels are long along the first axis */
    *out = (ls_gpu_limits){
        .traits = LS_KT_FLOAT_BITS | LS_KT_UNFUSED32 | LS_KT_SUBNORMAL32 | LS_KT_DIV32 | LS_KT_SQRT32 | LS_KT_ROUND32 | LS_KT_CAST32 |
                  LS_KT_ORDER32,
        .align = l->align,
        .max_binding = l->max_binding,
        .block = 0,
        .max_shared = l->max_shared,
        .max_bindings = l->max_storage < MAX_STORAGE ? (int32_t)l->max_storage : MAX_STORAGE,
        .max_words = MAX_WORDS,
        .max_groups = (int32_t)l->max_groups,
        .max_threads = (int32_t)threads,
        .overlap = false,
        .subgroup = l->subgroup_min == l->subgroup_max && l->subgroups ? (int32_t)l->subgroup_min : 0,
        .clock = l->timestamps ? "WebGPU timestamps" : NULL,
    };
}
