/* A host that cannot wait, made usable by code that asks and goes on.
 *
 * What a buffer holds has a name: a hash of how it came about, that is of the bytes that were written, the copies, and the
 * dispatches with their code, their parameters and the names of what they read. What is asked for is kept under its name.
 * When it has not come, the caller gives up its whole call (LS_ERR_AGAIN); when it makes the call again, the same work gives
 * the same names, the answers are there, and it gets further. So nothing of a call has to be resumable, only repeatable.
 *
 * Invariants: a name depends on contents alone, never on places, handles or the number of attempts. Contents that nobody will
 * read are named anew by `discard`. An answer or a pipeline is kept until the call has been made again twice without asking
 * for it: a call asks for all that it got past each time. */
#include "backend/webgpu/host.h"
#include "base/array.h"
#include "base/map.h"
#include <stdio.h>
#include <string.h>

enum { MAX_STORAGE = 16, KEPT_ROUNDS = 2 };

typedef struct name {
    uint64_t a, b; /* one could meet another by chance in a long life */
} name;

typedef struct buffer {
    struct buffer *next, **link; /* of all; what points here */
    void *inner;
    uint64_t size;
    ls_webgpu_use use;
    name content;
    uint8_t *staged; /* STAGING: its bytes */
} buffer;

typedef struct pipeline {
    void *inner;
    name code;
    uint32_t uniform_size;
    int n_storage, users;
    uint64_t round; /* when it was last asked for */
} pipeline;

typedef struct group {
    void *inner;
    pipeline *pipeline;
    ls_webgpu_binding storage[MAX_STORAGE];
    buffer *uniform;
} group;

/* A recorded command: its names are known when the staging buffer is written, which is at the submit. */
typedef struct command {
    enum { DISPATCH, COPY, DISCARD } kind; /* COPY: from storage[1] to storage[0]; DISCARD: storage[0] */
    pipeline *pipeline;
    ls_webgpu_binding storage[MAX_STORAGE];
    buffer *uniform;
    uint32_t uniform_offset, groups[3], written;
} command;

typedef struct answer {
    name question;
    void *readback; /* the inner buffer on its way; NULL: it has come */
    uint8_t *bytes;
    size_t size;
    uint64_t round;
} answer;

typedef struct late {
    ls_webgpu_host base;
    ls_webgpu_host *inner;
    LS_ARRAY(command) commands; /* since the last submit */
    bool missed;                /* out of memory for one of them: any buffer may hold anything */
    uint64_t misses;
    buffer *buffers;
    ls_map answers, pipelines;
    uint64_t round; /* counts the times that answers came */
} late;

static late *late_of(ls_webgpu_host *host) {
    return (late *)host;
}

/* The inner host's answers become ours; an error stays until somebody has seen it. */
static void look(late *l) {
    ls_webgpu_host *inner = l->inner, *own = &l->base;
    own->submitted = inner->submitted;
    own->completed = inner->completed;
    own->unsettled = inner->unsettled;
    own->mapping = inner->mapping;
    own->cached = inner->cached;
    own->lost = inner->lost;
    if (own->error == LS_OK && (inner->error != LS_OK || inner->lost)) {
        own->error = inner->error;
        memcpy(own->message, inner->message, sizeof own->message);
        inner->error = LS_OK;
    }
}

static void fail_memory(late *l, const char *what) {
    if (l->base.error == LS_OK) {
        l->base.error = LS_ERR_MEMORY;
        snprintf(l->base.message, sizeof l->base.message, "out of memory for %s", what);
    }
}

/* ---- names ---- */

static name name_of(const char *what) {
    size_t n = strlen(what);
    return (name){ls_hash(what, n, 0x6c617465), ls_hash(what, n, 0x6e616d65)};
}

static void add(name *n, const void *data, size_t size) {
    n->a = ls_hash(data, size, n->a);
    n->b = ls_hash(data, size, n->b);
}

static void add_u64(name *n, uint64_t value) {
    n->a = ls_hash_u64(value, n->a);
    n->b = ls_hash_u64(value, n->b);
}

static void add_name(name *n, name other) {
    add_u64(n, other.a);
    add_u64(n, other.b);
}

static name unknown(uint64_t size) {
    name n = name_of("new");
    add_u64(&n, size);
    return n;
}

/* What a buffer holds after a range of it was changed. */
static name patched(const buffer *b, uint64_t offset, uint64_t size, name part) {
    name n = name_of("part");
    if (offset == 0 && size >= b->size) {
        return part;
    }
    add_name(&n, b->content);
    add_u64(&n, offset);
    add_u64(&n, size);
    add_name(&n, part);
    return n;
}

static name name_bytes(const void *data, uint64_t size) {
    name n = name_of("bytes");
    add(&n, data, (size_t)size);
    return n;
}

static void name_copy(const command *c) {
    buffer *to = c->storage[0].buffer;
    const buffer *from = c->storage[1].buffer;
    uint64_t at = c->storage[1].offset, size = c->storage[1].size;
    name part = name_of("copy");
    if (from->staged) {
        part = name_bytes(from->staged + at, size);
    } else {
        add_name(&part, from->content);
        add_u64(&part, at);
        add_u64(&part, size);
    }
    to->content = patched(to, c->storage[0].offset, size, part);
}

static void name_dispatch(const command *c) {
    name n = name_of("dispatch");
    add_name(&n, c->pipeline->code);
    add(&n, c->groups, sizeof c->groups);
    add(&n, c->uniform->staged + c->uniform_offset, c->pipeline->uniform_size);
    for (int i = 0; i < c->pipeline->n_storage; i++) {
        const ls_webgpu_binding *b = &c->storage[i];
        add_name(&n, ((const buffer *)b->buffer)->content);
        add_u64(&n, b->offset);
        add_u64(&n, b->size);
    }
    for (int i = 0; i < c->pipeline->n_storage; i++) {
        if (c->written >> i & 1) {
            buffer *b = c->storage[i].buffer;
            b->content = n;
            add_u64(&b->content, (uint64_t)i);
        }
    }
}

/* ---- objects ---- */

static void *buffer_new(ls_webgpu_host *host, uint64_t size, ls_webgpu_use use) {
    late *l = late_of(host);
    buffer *b = ls_alloc_zeroed(host->heap, sizeof *b);
    if (!b) {
        return NULL;
    }
    *b = (buffer){.inner = l->inner->api->buffer_new(l->inner, size, use),
                  .size = size,
                  .use = use,
                  .content = unknown(size)};
    b->staged = use == LS_WEBGPU_STAGING ? ls_alloc_zeroed(host->heap, (size_t)size) : NULL;
    look(l);
    if (!b->inner || (use == LS_WEBGPU_STAGING && !b->staged)) {
        if (b->inner) {
            l->inner->api->buffer_free(l->inner, b->inner);
        }
        ls_free(host->heap, b->staged);
        ls_free(host->heap, b);
        return NULL;
    }
    b->next = l->buffers;
    b->link = &l->buffers;
    l->buffers = b;
    if (b->next) {
        b->next->link = &b->next;
    }
    return b;
}

static void buffer_free(ls_webgpu_host *host, void *handle) {
    late *l = late_of(host);
    buffer *b = handle;
    *b->link = b->next;
    if (b->next) {
        b->next->link = b->link;
    }
    l->inner->api->buffer_free(l->inner, b->inner);
    ls_free(host->heap, b->staged);
    ls_free(host->heap, b);
}

static bool pipeline_equal(const void *a, const void *b) {
    const pipeline *x = a, *y = b;
    return x->code.a == y->code.a && x->code.b == y->code.b;
}

static void *pipeline_new(ls_webgpu_host *host, const ls_webgpu_pipeline_desc *desc) {
    late *l = late_of(host);
    pipeline key = {.code = name_of("pipeline")};
    add(&key.code, desc->wgsl, strlen(desc->wgsl));
    add_u64(&key.code, (uint64_t)desc->n_storage);
    add_u64(&key.code, desc->read_only);
    add_u64(&key.code, desc->uniform_size);
    pipeline *p = ls_map_get(&l->pipelines, key.code.a, &key);
    if (!p) {
        p = desc->n_storage <= MAX_STORAGE ? ls_alloc(host->heap, sizeof *p) : NULL;
        void *inner = p ? l->inner->api->pipeline_new(l->inner, desc) : NULL;
        if (!inner) {
            ls_free(host->heap, p);
            return NULL;
        }
        *p = (pipeline){.inner = inner,
                        .code = key.code,
                        .uniform_size = desc->uniform_size,
                        .n_storage = desc->n_storage};
        if (!ls_map_put(&l->pipelines, p->code.a, p, p)) {
            l->inner->api->pipeline_free(l->inner, inner);
            ls_free(host->heap, p);
            return NULL;
        }
        look(l);
    }
    p->users++;
    p->round = l->round;
    return p;
}

static void pipeline_free(ls_webgpu_host *host, void *handle) {
    pipeline *p = handle;
    (void)host;
    p->users--;
}

static const char *pipeline_error(ls_webgpu_host *host, void *handle) {
    late *l = late_of(host);
    return l->inner->api->pipeline_error
               ? l->inner->api->pipeline_error(l->inner, ((pipeline *)handle)->inner)
               : NULL;
}

static void *group_new(ls_webgpu_host *host, void *handle, const ls_webgpu_binding *storage, void *uniform) {
    late *l = late_of(host);
    pipeline *p = handle;
    group *g = ls_alloc_zeroed(host->heap, sizeof *g);
    if (!g) {
        return NULL;
    }
    ls_webgpu_binding inner[MAX_STORAGE];
    for (int i = 0; i < p->n_storage; i++) {
        g->storage[i] = inner[i] = storage[i];
        inner[i].buffer = ((buffer *)storage[i].buffer)->inner;
    }
    g->pipeline = p;
    g->uniform = uniform;
    g->inner = l->inner->api->group_new(l->inner, p->inner, inner, g->uniform->inner);
    look(l);
    if (!g->inner) {
        ls_free(host->heap, g);
        return NULL;
    }
    return g;
}

static void group_free(ls_webgpu_host *host, void *handle) {
    late *l = late_of(host);
    group *g = handle;
    l->inner->api->group_free(l->inner, g->inner);
    ls_free(host->heap, g);
}

/* ---- commands ---- */

static void record(late *l, const command *c) {
    if (!ls_array_push(l->base.heap, &l->commands, *c)) {
        l->missed = true;
        fail_memory(l, "a command");
    }
}

static void dispatch(ls_webgpu_host *host, void *handle, void *group_handle, uint32_t uniform_offset,
                     const uint32_t groups[3], uint32_t written, int timer) {
    late *l = late_of(host);
    pipeline *p = handle;
    const group *g = group_handle;
    command c = {.kind = DISPATCH,
                 .pipeline = p,
                 .uniform = g->uniform,
                 .uniform_offset = uniform_offset,
                 .written = written};
    memcpy(c.storage, g->storage, sizeof c.storage);
    memcpy(c.groups, groups, sizeof c.groups);
    l->inner->api->dispatch(l->inner, p->inner, g->inner, uniform_offset, groups, written, timer);
    record(l, &c);
}

static void copy(ls_webgpu_host *host, void *to, uint64_t to_offset, void *from, uint64_t from_offset,
                 uint64_t size) {
    late *l = late_of(host);
    const command c = {.kind = COPY, .storage = {{to, to_offset, size}, {from, from_offset, size}}};
    l->inner->api->copy(l->inner, ((buffer *)to)->inner, to_offset, ((buffer *)from)->inner, from_offset,
                        size);
    record(l, &c);
}

static void name_discard(const command *c) {
    buffer *b = c->storage[0].buffer;
    b->content = unknown(b->size);
}

/* At once where nothing is recorded: a write would come before what is. */
static void discard(ls_webgpu_host *host, void *handle) {
    late *l = late_of(host);
    const command c = {.kind = DISCARD, .storage = {{.buffer = handle}}};
    if (l->commands.len) {
        record(l, &c);
    } else {
        name_discard(&c);
    }
}

static void write(ls_webgpu_host *host, void *handle, uint64_t offset, const void *data, size_t size) {
    late *l = late_of(host);
    buffer *b = handle;
    l->inner->api->write(l->inner, b->inner, offset, data, size);
    if (b->staged) {
        memcpy(b->staged + offset, data, size);
    } else {
        b->content = patched(b, offset, size, name_bytes(data, size));
    }
    look(l);
}

static void submit(ls_webgpu_host *host) {
    static void (*const name_of_kind[])(const command *c) = {name_dispatch, name_copy, name_discard};
    late *l = late_of(host);
    for (size_t i = 0; i < l->commands.len; i++) {
        name_of_kind[l->commands.data[i].kind](&l->commands.data[i]);
    }
    l->commands.len = 0;
    for (buffer *b = l->missed ? l->buffers : NULL; b; b = b->next) {
        b->content = unknown(++l->misses);
        add_u64(&b->content, UINT64_MAX); /* no fresh buffer's */
    }
    l->missed = false;
    l->inner->api->submit(l->inner);
    look(l);
}

/* ---- answers ---- */

static bool answer_equal(const void *a, const void *b) {
    const answer *x = a, *y = b;
    return x->question.a == y->question.a && x->question.b == y->question.b;
}

static void answer_free(late *l, answer *a) {
    if (a->readback) {
        l->inner->api->unmap(l->inner, a->readback);
        l->inner->api->buffer_free(l->inner, a->readback);
    }
    ls_free(l->base.heap, a->bytes);
    ls_free(l->base.heap, a);
}

static void pipeline_drop(late *l, pipeline *p) {
    l->inner->api->pipeline_free(l->inner, p->inner);
    ls_free(l->base.heap, p);
}

/* What the last attempts did without. */
static void forget(late *l) {
    size_t pos = 0;
    for (answer *a; (a = ls_map_next(&l->answers, &pos));) {
        if (!a->readback && a->round + KEPT_ROUNDS < l->round) {
            ls_map_remove(&l->answers, a->question.a, a);
            answer_free(l, a);
        }
    }
    pos = 0;
    for (pipeline *p; (p = ls_map_next(&l->pipelines, &pos));) {
        if (p->users == 0 && p->round + KEPT_ROUNDS < l->round) {
            ls_map_remove(&l->pipelines, p->code.a, p);
            pipeline_drop(l, p);
        }
    }
}

/* All that were asked for have come, or failed: those are asked for anew. */
static void collect(late *l) {
    size_t pos = 0;
    bool came = false;
    for (answer *a; (a = ls_map_next(&l->answers, &pos));) {
        if (!a->readback) {
            continue;
        }
        const void *bytes = l->inner->api->mapped(l->inner, a->readback, a->size);
        a->bytes = bytes ? ls_alloc(l->base.heap, a->size) : NULL;
        if (a->bytes) {
            memcpy(a->bytes, bytes, a->size);
            l->inner->api->unmap(l->inner, a->readback);
            l->inner->api->buffer_free(l->inner, a->readback);
            a->readback = NULL;
            came = true;
        } else {
            if (bytes) {
                fail_memory(l, "a download");
            }
            ls_map_remove(&l->answers, a->question.a, a);
            answer_free(l, a);
        }
    }
    if (came) {
        l->round++;
        forget(l);
    }
}

static void ask(late *l, const buffer *b, uint64_t offset, size_t size, name question) {
    const ls_webgpu_host_api *api = l->inner->api;
    answer *a = ls_alloc(l->base.heap, sizeof *a);
    void *readback = a ? api->buffer_new(l->inner, size, LS_WEBGPU_READBACK) : NULL;
    if (!readback) {
        ls_free(l->base.heap, a);
        fail_memory(l, "a download");
        return;
    }
    *a = (answer){.question = question, .readback = readback, .size = size, .round = l->round};
    if (!ls_map_put(&l->answers, question.a, a, a)) {
        api->buffer_free(l->inner, readback);
        ls_free(l->base.heap, a);
        fail_memory(l, "a download");
        return;
    }
    api->copy(l->inner, readback, 0, b->inner, offset, size);
    api->submit(l->inner);
    api->map(l->inner, readback, size);
    look(l);
}

static const void *read_bytes(ls_webgpu_host *host, void *handle, uint64_t offset, size_t size) {
    late *l = late_of(host);
    const buffer *b = handle;
    answer key = {.question = name_of("read")};
    add_name(&key.question, b->content);
    add_u64(&key.question, offset);
    add_u64(&key.question, size);
    answer *a = ls_map_get(&l->answers, key.question.a, &key);
    if (a && a->readback) {
        l->inner->api->wait(l->inner, 0);
        look(l);
        if (!host->mapping && !host->lost) {
            collect(l);
            a = ls_map_get(&l->answers, key.question.a, &key);
            if (!a) {
                return NULL; /* host->error says why */
            }
        }
    } else if (!a && !host->lost) {
        ask(l, b, offset, size, key.question);
    }
    if (!a || a->readback) {
        return NULL;
    }
    a->round = l->round;
    return a->bytes;
}

static void wait(ls_webgpu_host *host, uint64_t nanoseconds) {
    late *l = late_of(host);
    (void)nanoseconds;
    l->inner->api->wait(l->inner, 0);
    look(l);
}

static void lose(ls_webgpu_host *host) {
    late *l = late_of(host);
    if (l->inner->api->lose) {
        l->inner->api->lose(l->inner);
    }
    look(l);
}

static void close_host(ls_webgpu_host *host) {
    late *l = late_of(host);
    size_t pos = 0;
    for (answer *a; (a = ls_map_next(&l->answers, &pos));) {
        answer_free(l, a);
    }
    pos = 0;
    for (pipeline *p; (p = ls_map_next(&l->pipelines, &pos));) {
        pipeline_drop(l, p);
    }
    ls_map_free(&l->answers);
    ls_map_free(&l->pipelines);
    ls_array_free(host->heap, &l->commands);
    l->inner->api->close(l->inner);
    ls_free(host->heap, l);
}

static const ls_webgpu_host_api host_api = {
    .buffer_new = buffer_new,
    .buffer_free = buffer_free,
    .pipeline_new = pipeline_new,
    .pipeline_free = pipeline_free,
    .pipeline_error = pipeline_error,
    .group_new = group_new,
    .group_free = group_free,
    .dispatch = dispatch,
    .discard = discard,
    .copy = copy,
    .write = write,
    .submit = submit,
    .read = read_bytes,
    .wait = wait,
    .lose = lose,
    .close = close_host,
};

ls_status ls_webgpu_late(ls_heap *heap, ls_webgpu_host *inner, ls_webgpu_host **out_host, ls_error *err) {
    late *l = ls_alloc_zeroed(heap, sizeof *l);
    if (!l) {
        inner->api->close(inner);
        return LS_FAIL_MEMORY(err, "a WebGPU host");
    }
    l->base = *inner;
    l->base.api = &host_api;
    l->base.heap = heap;
    l->base.late = true;
    l->base.limits.timestamps = false; /* a time has no name: the next would be another */
    l->inner = inner;
    ls_map_init(&l->answers, heap, answer_equal);
    ls_map_init(&l->pipelines, heap, pipeline_equal);
    *out_host = &l->base;
    return LS_OK;
}
