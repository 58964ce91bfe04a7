/* The WebGPU driver over a host that answers late, as a page's does, and that fails where it is told: no call may rely on an
 * answer that has not come, every failure is an error and leaves nothing behind. The host runs the driver's own two kernels
 * itself, so bytes move; it checks what WebGPU would refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/webgpu/webgpu.h"
#include "unit/kir_fixture.h"

enum { MAX_COMMANDS = 4096 };

typedef struct buffer {
    uint8_t *bytes;
    uint64_t size;
    ls_webgpu_use use;
    int mapped;
} buffer;

typedef struct pipeline {
    char name[16];
    int n_storage;
} pipeline;

typedef struct group {
    ls_webgpu_binding bindings[2];
    buffer *uniform;
} group;

typedef struct command {
    const pipeline *pipeline; /* NULL: a copy */
    group group;
    uint32_t uniform_offset, groups[3];
    int timer;
    buffer *to, *from;
    uint64_t to_offset, from_offset, size;
} command;

typedef struct fake {
    ls_webgpu_host base;
    command commands[MAX_COMMANDS];
    int n_commands, objects, patience;
    int delay;     /* waits until an answer comes */
    int fail_at;   /* the number of the object that is bad; negative: none */
    ls_status fail_with;
    int lose_at;   /* the submit that loses the device */
    uint64_t stamps[2 * LS_WEBGPU_TIMERS], clock;
} fake;

static fake *fake_of(ls_webgpu_host *host) {
    return (fake *)host;
}

/* What is asked for while an answer is on its way comes with it. */
static void be_patient(fake *f) {
    if (f->patience < 0) {
        f->patience = f->delay;
    }
}

static void answer_later(fake *f) {
    f->base.unsettled++;
    be_patient(f);
}

static void object(fake *f) {
    if (f->objects++ == f->fail_at) {
        f->base.error = f->fail_with;
        snprintf(f->base.message, sizeof f->base.message, "planted");
    }
    answer_later(f);
}

static void *buffer_new(ls_webgpu_host *host, uint64_t size, ls_webgpu_use use) {
    buffer *b = ls_alloc_zeroed(host->heap, sizeof *b);
    uint8_t *bytes = ls_alloc_zeroed(host->heap, size);
    if (!b || !bytes) {
        ls_free(host->heap, b);
        ls_free(host->heap, bytes);
        return NULL;
    }
    *b = (buffer){bytes, size, use, 0};
    object(fake_of(host));
    return b;
}

static void buffer_free(ls_webgpu_host *host, void *handle) {
    buffer *b = handle;
    const fake *f = fake_of(host);
    for (int i = 0; i < f->n_commands; i++) { /* nothing that is recorded may still name it */
        const command *c = &f->commands[i];
        assert_true(c->to != b && c->from != b && c->group.uniform != b && c->group.bindings[0].buffer != b && c->group.bindings[1].buffer != b);
    }
    ls_free(host->heap, b->bytes);
    ls_free(host->heap, b);
}

static void *pipeline_new(ls_webgpu_host *host, const ls_webgpu_pipeline_desc *desc) {
    pipeline *p = ls_alloc_zeroed(host->heap, sizeof *p);
    if (p) {
        snprintf(p->name, sizeof p->name, "%s", desc->name);
        p->n_storage = desc->n_storage;
        object(fake_of(host));
    }
    return p;
}

static void any_free(ls_webgpu_host *host, void *handle) {
    ls_free(host->heap, handle);
}

static void *group_new(ls_webgpu_host *host, void *handle, const ls_webgpu_binding *storage, void *uniform) {
    const pipeline *p = handle;
    group *g = ls_alloc_zeroed(host->heap, sizeof *g);
    if (g) {
        memcpy(g->bindings, storage, sizeof *storage * (size_t)p->n_storage);
        g->uniform = uniform;
        for (int i = 0; i < p->n_storage; i++) {
            const buffer *b = storage[i].buffer;
            assert_true(storage[i].offset % host->limits.align == 0 && storage[i].size % 4 == 0 && storage[i].size > 0);
            assert_true(storage[i].offset + storage[i].size <= b->size && storage[i].size <= host->limits.max_binding);
            assert_true(i == 0 || storage[i].buffer != storage[0].buffer);
        }
    }
    return g;
}

static command *record(ls_webgpu_host *host) {
    fake *f = fake_of(host);
    assert_true(f->n_commands < MAX_COMMANDS);
    command *c = &f->commands[f->n_commands++];
    memset(c, 0, sizeof *c);
    return c;
}

static void dispatch(ls_webgpu_host *host, void *handle, void *g, uint32_t uniform_offset, const uint32_t groups[3],
                     uint32_t written, int timer) {
    command *c = record(host);
    (void)written;
    assert_true(timer >= 0 && timer <= LS_WEBGPU_TIMERS && (!timer || host->limits.timestamps));
    assert_int_equal(uniform_offset % host->limits.align, 0);
    *c = (command){.pipeline = handle, .group = *(group *)g, .uniform_offset = uniform_offset, .timer = timer};
    for (int i = 0; i < 3; i++) {
        assert_true(groups[i] > 0 && groups[i] <= host->limits.max_groups);
        c->groups[i] = groups[i];
    }
}

/* What is recorded is a command without a source. */
static void resolve(ls_webgpu_host *host, int n, void *to) {
    const buffer *b = to;
    assert_true(b->use == LS_WEBGPU_TIMES && (uint64_t)n * 16 <= b->size);
    *record(host) = (command){.to = to, .size = (uint64_t)n * 16};
}

static void copy(ls_webgpu_host *host, void *to, uint64_t to_offset, void *from, uint64_t from_offset, uint64_t size) {
    const buffer *t = to, *s = from;
    assert_ptr_not_equal(to, from);
    assert_true(to_offset % 4 == 0 && from_offset % 4 == 0 && size % 4 == 0);
    assert_true(to_offset + size <= t->size && from_offset + size <= s->size);
    *record(host) = (command){.to = to, .to_offset = to_offset, .from = from, .from_offset = from_offset, .size = size};
}

static void write_now(ls_webgpu_host *host, void *to, uint64_t offset, const void *data, size_t size) {
    buffer *b = to;
    (void)host;
    assert_true(offset % 4 == 0 && size % 4 == 0 && offset + size <= b->size);
    memcpy(b->bytes + offset, data, size);
}

static uint8_t *bound(const ls_webgpu_binding *b, size_t at) {
    assert_true(at < b->size);
    return ((buffer *)b->buffer)->bytes + b->offset + at;
}

static void run(fake *f, const command *c) {
    uint32_t p[4];
    if (c->timer) {
        f->stamps[2 * (c->timer - 1)] = f->clock += 7;
        f->stamps[2 * (c->timer - 1) + 1] = f->clock += 1000 * (uint64_t)c->timer;
    }
    if (c->pipeline && strcmp(c->pipeline->name, "nothing") == 0) {
        return;
    }
    if (!c->pipeline && !c->from) {
        memcpy(c->to->bytes, f->stamps, c->size);
        return;
    }
    if (!c->pipeline) {
        memcpy(c->to->bytes + c->to_offset, c->from->bytes + c->from_offset, c->size);
        return;
    }
    memcpy(p, c->group.uniform->bytes + c->uniform_offset, sizeof p);
    const ls_webgpu_binding *b = c->group.bindings;
    if (strcmp(c->pipeline->name, "patch") == 0) {
        uint32_t word;
        memcpy(&word, bound(&b[0], p[0] * 4), 4);
        word = (word & p[1]) | p[2];
        memcpy(bound(&b[0], p[0] * 4), &word, 4);
        return;
    }
    uint64_t threads = (uint64_t)c->groups[0] * c->groups[1] * 64;
    assert_true(p[0] / 4 + threads > (p[0] + p[2] - 1) / 4);
    for (uint32_t i = 0; i < p[2]; i++) {
        *bound(&b[0], p[0] + i) = *bound(&b[1], p[1] + i);
    }
}

static void submit(ls_webgpu_host *host) {
    fake *f = fake_of(host);
    host->submitted++;
    if ((int)host->submitted == f->lose_at) {
        host->lost = true;
        snprintf(host->message, sizeof host->message, "planted loss");
    }
    for (int i = 0; i < f->n_commands && !host->lost; i++) {
        run(f, &f->commands[i]);
    }
    f->n_commands = 0;
    be_patient(f);
}

static void map(ls_webgpu_host *host, void *handle, size_t size) {
    buffer *b = handle;
    assert_true(b->use == LS_WEBGPU_READBACK && size <= b->size && size % 4 == 0 && !b->mapped);
    host->mapping++;
    be_patient(fake_of(host));
}

static const void *mapped(ls_webgpu_host *host, void *handle, size_t size) {
    buffer *b = handle;
    (void)size;
    assert_int_equal(host->mapping, 0);
    return host->lost ? NULL : b->bytes;
}

static void unmap(ls_webgpu_host *host, void *handle) {
    (void)host, (void)handle;
}

static void wait_some(ls_webgpu_host *host, uint64_t nanoseconds) {
    fake *f = fake_of(host);
    (void)nanoseconds;
    if (f->patience-- > 0 || host->lost) {
        return;
    }
    host->unsettled = 0;
    host->mapping = 0;
    host->completed = host->submitted;
}

static void close_host(ls_webgpu_host *host) {
    ls_free(host->heap, host);
}

static const ls_webgpu_host_api host_api = {
    .buffer_new = buffer_new, .buffer_free = buffer_free, .pipeline_new = pipeline_new, .pipeline_free = any_free,
    .group_new = group_new, .group_free = any_free, .dispatch = dispatch, .resolve = resolve, .copy = copy, .write = write_now,
    .submit = submit, .map = map, .mapped = mapped, .unmap = unmap, .wait = wait_some, .close = close_host,
};

static const ls_gpu_api *const api = &ls_webgpu_api;

/* `late`: over a host that gives LS_ERR_AGAIN and no time to wait. */
static ls_status open_fake(int late, fake **out_fake, ls_webgpu **out_driver) {
    fake *f = ls_alloc_zeroed(&heap, sizeof *f);
    if (!f) {
        return LS_FAIL_MEMORY(&err, "the test's host");
    }
    f->base = (ls_webgpu_host){.api = &host_api, .heap = &heap, .name = "fake"};
    f->base.limits = (ls_webgpu_limits){.max_buffer = 1 << 20, .max_binding = 1 << 20, .align = 256, .max_storage = 10, .max_groups = 7};
    f->delay = 3;
    f->patience = -1;
    f->fail_at = f->lose_at = -1;
    *out_fake = f;
    ls_webgpu_host *host = &f->base;
    LS_TRY(&err, late ? ls_webgpu_late(&heap, host, &host, &err) : LS_OK);
    LS_TRY(&err, ls_webgpu_create(&heap, host, out_driver, &err));
    ls_status status;
    while ((status = ls_webgpu_prepare(*out_driver, &err)) == LS_ERR_AGAIN) {
        assert_true(late);
    }
    if (status != LS_OK) {
        ls_webgpu_close(*out_driver);
        *out_driver = NULL;
    }
    return status;
}

static int is_late; /* the host of the test that runs */

/* Odd writes, copies within a block and between two, a download: gives the bytes that come back. */
static ls_status work_once(ls_webgpu *driver, uint8_t *out) {
    void *a = NULL, *b = NULL;
    uint8_t bytes[5001];
    uint64_t ticket;
    int done = 0;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 7 + 1);
    }
    ls_status status = api->block_new(driver, 20000, &a, &err);
    status = status == LS_OK ? api->block_new(driver, 300, &b, &err) : status;
    status = status == LS_OK ? api->write(driver, a, 3, bytes, sizeof bytes, &err) : status;
    status = status == LS_OK ? api->write(driver, a, 6001, bytes, 2, &err) : status;
    status = status == LS_OK ? api->copy(driver, a, 10002, a, 5, 4997, &err) : status;
    status = status == LS_OK ? api->copy(driver, b, 8, a, 10002, 200, &err) : status;
    status = status == LS_OK ? api->copy(driver, a, 16000, a, 4, 1200, &err) : status;
    status = status == LS_OK ? api->flush(driver, &ticket, &err) : status;
    status = status == LS_OK ? api->wait(driver, ticket, !is_late, &done, &err) : status;
    status = status == LS_OK ? api->read(driver, a, 1, out, 19999, &err) : status;
    if (status == LS_OK || status == LS_ERR_AGAIN) { /* both are asked for at once */
        ls_status second = api->read(driver, b, 8, out + 19999, 200, &err);
        status = second == LS_OK ? status : second;
    }
    if (b) {
        api->block_free(driver, b);
    }
    if (a) {
        api->block_free(driver, a);
    }
    return status;
}

static int attempts;

/* Made again, from the beginning and in new buffers, until it has its answers. */
static ls_status work(ls_webgpu *driver, uint8_t *out) {
    ls_status status;
    for (attempts = 1; (status = work_once(driver, out)) == LS_ERR_AGAIN; attempts++) {
        assert_true(is_late && attempts < 100);
        memset(out, 0xaa, 20199);
    }
    return status;
}

static void check_bytes(const uint8_t *out) {
    static uint8_t model[20000];
    memset(model, 0, sizeof model);
    for (size_t i = 0; i < 5001; i++) {
        model[3 + i] = (uint8_t)(i * 7 + 1);
    }
    model[6001] = 1;
    model[6002] = 8;
    memcpy(model + 10002, model + 5, 4997);
    memcpy(model + 16000, model + 4, 1200);
    assert_memory_equal(out, model + 1, 19999);
    assert_memory_equal(out + 19999, model + 10002, 200);
}

static uint8_t out[20199];

static void late_answers(void **state) {
    (void)state;
    for (int delay = 0; delay < 5; delay++) {
        fake *f;
        ls_webgpu *driver;
        assert_ok(open_fake(is_late, &f, &driver));
        f->delay = delay;
        assert_ok(work(driver, out));
        check_bytes(out);
        assert_true(is_late == (attempts > 1)); /* a late one answers nothing at once */
        ls_webgpu_close(driver);
        assert_int_equal(heap.used, 0);
    }
}

static void bad_objects(void **state) {
    (void)state;
    static const ls_status with[] = {LS_ERR_MEMORY, LS_ERR_DEVICE, LS_ERR_INTERNAL};
    for (int at = 3;; at++) { /* two pipelines and the staging buffer came with the driver */
        fake *f;
        ls_webgpu *driver;
        ls_error_clear(&err);
        assert_ok(open_fake(is_late, &f, &driver));
        assert_int_equal(f->objects, 3);
        f->fail_at = at;
        f->fail_with = with[at % 3];
        ls_status status = work(driver, out);
        bool met = f->objects > at;
        if (met) {
            assert_int_equal(status, with[at % 3]);
            assert_non_null(strstr(err.message, "planted"));
            ls_error_clear(&err);
            f->fail_at = -1;
            assert_ok(work(driver, out)); /* and the device goes on */
        }
        check_bytes(out);
        ls_webgpu_close(driver);
        assert_int_equal(heap.used, 0);
        if (!met) {
            assert_true(at > 6);
            return;
        }
    }
}

static void lost(void **state) {
    (void)state;
    for (int at = 1;; at++) {
        fake *f;
        ls_webgpu *driver;
        ls_error_clear(&err);
        assert_ok(open_fake(is_late, &f, &driver));
        f->lose_at = at;
        ls_status status = work(driver, out);
        bool met = f->base.lost;
        if (met && status != LS_OK) {
            assert_int_equal(status, LS_ERR_DEVICE);
            assert_non_null(strstr(err.message, "planted loss"));
            ls_error_clear(&err);
            assert_int_equal(work(driver, out), LS_ERR_DEVICE);
        }
        ls_webgpu_close(driver);
        assert_int_equal(heap.used, 0);
        if (!met) {
            assert_true(at > 2);
            return;
        }
    }
}

static void no_host_memory(void **state) {
    (void)state;
    for (long n = 0;; n++) {
        fake *f;
        ls_webgpu *driver = NULL;
        ls_error_clear(&err);
        atomic_store(&heap.fail_after, n);
        ls_status status = open_fake(is_late, &f, &driver);
        status = status == LS_OK ? work(driver, out) : status;
        atomic_store(&heap.fail_after, -1);
        if (driver && status != LS_OK) {
            ls_error_clear(&err);
            assert_ok(work(driver, out));
        }
        if (driver) {
            check_bytes(out);
            ls_webgpu_close(driver);
        }
        assert_int_equal(heap.used, 0);
        if (status == LS_OK) {
            assert_true(n > 10);
            return;
        }
        assert_int_equal(status, LS_ERR_MEMORY);
    }
}

/* What the host measures is what comes back, by timer; a host that is lost meanwhile is an error. */
static void timers(void **state) {
    (void)state;
    for (int lose = 0; lose < 2; lose++) {
        fake *f;
        ls_webgpu *driver;
        void *pipeline, *block;
        uint64_t ns[3];
        ls_error_clear(&err);
        assert_ok(open_fake(is_late, &f, &driver));
        f->base.limits.timestamps = true;
        ls_gpu_limits limits;
        ls_webgpu_get_limits(driver, &limits);
        assert_string_equal(limits.clock, "WebGPU timestamps");
        ls_kernel kernel = {.name = "nothing", .n_globals = 1, .n_mems = 1, .mems = &(ls_kmem){.access = LS_MEM_READ_WRITE}};
        const ls_gpu_code code = {.kernel = &kernel, .name = "nothing", .data = "", .n_words = 0};
        assert_ok(api->build(driver, &code, &pipeline, &err));
        assert_ok(api->block_new(driver, 256, &block, &err));
        const ls_gpu_range range = {block, 0, 256};
        static const int32_t order[] = {2, 0, 3, 1};
        for (int i = 0; i < 4; i++) {
            const ls_gpu_dispatch d = {.pipeline = pipeline, .kernel = &kernel, .bindings = &range, .groups = {1, 1, 1},
                                       .timer = order[i]};
            assert_ok(api->dispatch(driver, &d, &err));
        }
        f->lose_at = lose ? (int)f->base.submitted + 1 : -1;
        assert_int_equal(api->times(driver, ns, 3, &err), lose ? LS_ERR_DEVICE : LS_OK);
        assert_true(lose || (ns[0] == 1000 && ns[1] == 2000 && ns[2] == 3000));
        api->drop(driver, pipeline);
        api->block_free(driver, block);
        ls_webgpu_close(driver);
        assert_int_equal(heap.used, 0);
    }
}

/* No call is answered twice by one name: bytes that differ are not taken for those that were asked for before. */
static void names(void **state) {
    (void)state;
    fake *f;
    ls_webgpu *driver;
    void *block;
    uint32_t x = 0;
    assert_ok(open_fake(1, &f, &driver));
    assert_ok(api->block_new(driver, 512, &block, &err));
    for (uint32_t i = 1; i < 40; i++) { /* the same place, other bytes; some written in part, through a copy, or anew */
        uint32_t wrote = i / 2, at = i % 3 == 0 ? 4 : 0;
        assert_ok(api->write(driver, block, 0, (uint32_t[]){99, 98}, 8, &err));
        if (i % 5 == 0) {
            api->discard(driver, block);
        }
        if (i % 4 == 0) {
            assert_ok(api->write(driver, block, 256, &wrote, 4, &err));
            assert_ok(api->copy(driver, block, at, block, 256, 4, &err));
        } else {
            assert_ok(api->write(driver, block, at, &wrote, 4, &err));
        }
        ls_status status;
        while ((status = api->read(driver, block, at, &x, 4, &err)) == LS_ERR_AGAIN) {
        }
        assert_ok(status);
        assert_int_equal(x, wrote);
    }
    api->block_free(driver, block);
    ls_webgpu_close(driver);
    assert_int_equal(heap.used, 0);
}

static int setup_late(void **state) {
    is_late = 1;
    return setup(state);
}

static int setup_waiting(void **state) {
    is_late = 0;
    return setup(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(late_answers, setup_waiting, teardown),
        cmocka_unit_test_setup_teardown(late_answers, setup_late, teardown),
        cmocka_unit_test_setup_teardown(bad_objects, setup_waiting, teardown),
        cmocka_unit_test_setup_teardown(bad_objects, setup_late, teardown),
        cmocka_unit_test_setup_teardown(lost, setup_waiting, teardown),
        cmocka_unit_test_setup_teardown(lost, setup_late, teardown),
        cmocka_unit_test_setup_teardown(no_host_memory, setup_waiting, teardown),
        cmocka_unit_test_setup_teardown(no_host_memory, setup_late, teardown),
        cmocka_unit_test_setup_teardown(timers, setup_waiting, teardown),
        cmocka_unit_test_setup_teardown(names, setup_late, teardown),
    };
    return cmocka_run_group_tests_name("webgpu_host", tests, NULL, NULL);
}
