/* The CUDA backend against a driver that runs nothing: what it calls, what it gives back, and what it says when the driver
 * refuses. That kernels compute what they should is shown on GPUs. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "backend/cuda/cuda.h"
#include "fakes/cuda.h"
#include "gpu/internal.h"
#include "kir/build.h"

extern const ls_backend ls_backend_cuda;
static fake_cuda_state *fake;
static ls_heap heap;
static ls_device device;
static ls_error err;

static int setup(void **state) {
    (void)state;
    const char *const names[] = {FAKE_CUDA, NULL};
    ls_os_library *library = ls_os_library_open(names, NULL);
    setenv("LOCKSTEP_CUDA", FAKE_CUDA, 1);
    setenv("LOCKSTEP_CACHE", "off", 1);
    fake = library ? ls_os_library_symbol(library, "fake_cuda") : NULL;
    if (!fake) {
        return -1;
    }
    *fake = (fake_cuda_state){.devices = 2, .version = 13000, .capability = 90};
    ls_heap_init(&heap, NULL, 0);
    ls_error_clear(&err);
    device = (ls_device){.heap = &heap, .backend = &ls_backend_cuda, .id = "cuda:0"};
    return 0;
}

static int all_given_back(void **state) {
    (void)state;
    if (fake->live || fake->contexts || fake->depth || heap.used) {
        print_error("left: %ld things, %ld contexts, depth %ld, %zu bytes\n", fake->live, fake->contexts, fake->depth, heap.used);
        return -1;
    }
    return 0;
}

static void assert_ok(ls_status status) {
    if (status != LS_OK) {
        print_error("%s\n", err.message);
    }
    assert_int_equal(status, LS_OK);
}

static void fail_next(const char *name, int at, int code) {
    strcpy(fake->fail_name, name);
    fake->fail_at = at;
    fake->fail_code = code;
}

static ls_cuda *opened(void) {
    assert_ok(ls_cuda_open(&device, 0, &err));
    return ls_gpu_driver(device.state);
}

static void opens(void **state) {
    (void)state;
    ls_cuda *c = opened();
    assert_string_equal(device.caps.name, "fake GPU");
    assert_string_equal(device.caps.driver, "CUDA driver 13.0, compute capability 9.0");
    assert_int_equal(device.caps.memory_bytes, 1 << 30);
    assert_int_equal(device.caps.shared_bytes, 232448);
    assert_int_equal(c->sm, 90);
    assert_int_equal(c->isa, 80);
    ls_backend_cuda.close(&device);
}

static void opens_by_uuid(void **state) {
    (void)state;
    static const char second[] = "b0b1b2b3-b4b5-b6b7-b8b9-babbbcbdbebf";
    static const char *const ids[] = {"cuda:uuid=b0b1b2b3-b4b5-b6b7-b8b9-babbbcbdbebf", "cuda:uuid=B0B1b2b3b4"};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        device.wanted = ids[i] + strlen("cuda:uuid=");
        assert_ok(ls_cuda_open(&device, -1, &err));
        assert_string_equal(device.id, "cuda:1");
        assert_string_equal(device.caps.uuid, second);
        ls_backend_cuda.close(&device);
    }
    device.wanted = "a0a1a2a3";
    assert_ok(ls_cuda_open(&device, -1, &err));
    assert_string_equal(device.id, "cuda");
    ls_backend_cuda.close(&device);
    device.wanted = "a0a1b2b3";
    assert_int_equal(ls_cuda_open(&device, -1, &err), LS_ERR_DEVICE);
    assert_non_null(strstr(err.message, "cuda:uuid=a0a1b2b3: none of the 2 CUDA devices"));
    static const struct {
        const char *prefix;
        bool valid;
    } rows[] = {{"b0b1", true}, {"b0b", false}, {"", false}, {"b0b1g2", false}, {second, true}, {"--b0--B1-", true},
                {"b0b1b2b3b4b5b6b7b8b9babbbcbdbebf0", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(ls_uuid_valid(rows[i].prefix), rows[i].valid);
    }
    char none[37];
    ls_uuid_write((const uint8_t[16]){0}, none);
    assert_string_equal(none, "");
    assert_false(ls_uuid_matches("0000", none));
}

static void chooses_what_ptx_it_writes(void **state) {
    (void)state;
    static const int rows[][4] = {/* version, capability: architecture, version of PTX */
                                  {13000, 100, 90, 80}, {12040, 89, 89, 80}, {11080, 90, 90, 78}, {11040, 86, 86, 74},
                                  {11040, 90, 86, 74},  {12000, 70, 70, 80}, {12000, 75, 75, 80}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fake->version = rows[i][0];
        fake->capability = rows[i][1];
        ls_cuda *c = opened();
        assert_int_equal(c->sm, rows[i][2]);
        assert_int_equal(c->isa, rows[i][3]);
        assert_int_equal(c->arch, rows[i][1] == 90 && rows[i][3] == 80); /* other architectures lack what sm_90a has */
        assert_int_equal(ls_gpu_get_limits(device.state)->products, c->arch);
        ls_backend_cuda.close(&device);
    }
}

static void says_why_there_is_none(void **state) {
    (void)state;
    static const struct {
        int index, devices, version, capability;
        const char *fail, *says;
    } rows[] = {{2, 2, 13000, 90, "", "sees 2 devices"},    {0, 0, 13000, 90, "", "sees 0 devices"},
                {1, 1, 13000, 90, "", "sees 1 device"},     {0, 1, 11020, 90, "", "CUDA 11.2"},
                {0, 1, 13000, 61, "", "capability 6.1"},    {0, 1, 13000, 90, "cuInit", "does not start"},
                {0, 1, 13000, 90, "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain: CUDA_ERROR_OF_THE_TEST (804)"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        *fake = (fake_cuda_state){.devices = rows[i].devices, .version = rows[i].version, .capability = rows[i].capability};
        if (rows[i].fail[0]) {
            fail_next(rows[i].fail, 0, 804);
        }
        ls_error_clear(&err);
        ls_status status = ls_cuda_open(&device, rows[i].index, &err);
        assert_true(status == LS_ERR_DEVICE || (i == 6 && status == LS_ERR_INTERNAL));
        if (!strstr(err.message, rows[i].says)) {
            fail_msg("expected \"%s\" in: %s", rows[i].says, err.message);
        }
        fake->sticky = 0;
    }
    setenv("LOCKSTEP_CUDA", "no/such/library.so", 1);
    ls_error_clear(&err);
    assert_int_equal(ls_backend_cuda.open(&device, 0, &err), LS_ERR_DEVICE);
    assert_non_null(strstr(err.message, "install NVIDIA's driver"));
}

static void bytes_come_back(void **state) {
    (void)state;
    enum { SIZE = 3 * LS_CUDA_SLOTS * LS_CUDA_SLOT / 2 + 12345 };
    ls_cuda *c = opened();
    void *block, *other;
    uint8_t *data = malloc(SIZE), *back = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i++) {
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    ls_gpu *gpu = device.state;
    assert_ok(gpu->api->block_new(c, SIZE, &block, &err));
    assert_ok(gpu->api->block_new(c, SIZE, &other, &err));
    assert_ok(gpu->api->write(c, block, 0, data, SIZE, &err));
    for (size_t i = 0; i < 5000; i++) { /* small ones, round the ring and over its ends */
        assert_ok(gpu->api->write(c, block, i * 777, data + i * 777, 1 + i % 1999, &err));
    }
    assert_ok(gpu->api->copy(c, other, 1, block, 1, SIZE - 1, &err));
    assert_ok(gpu->api->read(c, other, 3, back + 3, SIZE - 3, &err));
    assert_memory_equal(data + 3, back + 3, SIZE - 3);
    gpu->api->block_free(c, block);
    gpu->api->block_free(c, other);
    ls_backend_cuda.close(&device);
    free(data);
    free(back);
}

static void tickets_are_in_order(void **state) {
    (void)state;
    ls_cuda *c = opened();
    ls_gpu *gpu = device.state;
    void *block;
    uint64_t first, ticket;
    int done;
    assert_ok(gpu->api->block_new(c, 64, &block, &err));
    fake->slow = 1;
    assert_ok(gpu->api->write(c, block, 0, "x", 1, &err));
    assert_ok(gpu->api->flush(c, &first, &err));
    assert_ok(gpu->api->flush(c, &ticket, &err));
    assert_int_equal(first, ticket); /* nothing since */
    assert_ok(gpu->api->wait(c, first, 0, &done, &err));
    assert_int_equal(done, 0);
    assert_ok(gpu->api->wait(c, first, 0, &done, &err));
    assert_int_equal(done, 1);
    for (int i = 0; i < 3 * LS_CUDA_TICKETS; i++) {
        assert_ok(gpu->api->write(c, block, 0, "x", 1, &err));
        assert_ok(gpu->api->flush(c, &ticket, &err));
        assert_int_equal(ticket, first + 1 + (uint64_t)i);
    }
    assert_ok(gpu->api->wait(c, first + 1, 0, &done, &err)); /* its event serves a later ticket: asked once */
    assert_int_equal(done, 0);
    assert_ok(gpu->api->wait(c, ticket, 1, &done, &err));
    assert_int_equal(done, 1);
    assert_ok(gpu->api->wait(c, first + 1, 0, &done, &err));
    assert_int_equal(done, 1);
    assert_int_equal(gpu->api->wait(c, ticket + 1, 0, &done, &err), LS_ERR_INTERNAL);
    gpu->api->block_free(c, block);
    ls_backend_cuda.close(&device);
}

/* ---- launches ---- */

static void *small_kernel(ls_cuda *c, ls_arena *arena, ls_kernel *out_kernel) {
    ls_kb kb;
    ls_gpu_code code = {.name = "small"};
    void *pipeline = NULL;
    ls_kb_init(&kb, arena, "small", &err);
    int n = ls_kb_param(&kb, "n", LS_I32, 0, 64), x = ls_kb_global(&kb, "x", LS_F32, LS_MEM_WRITE, 64);
    ls_kb_workgroup(&kb, 64, 1, 1);
    ls_kb_grid(&kb, 0, 1, LS_VAL_NONE, 1);
    ls_val i = ls_kb_local_id(&kb, 0);
    ls_kb_store(&kb, x, i, ls_kb_f32(&kb, 1), ls_kb_lt(&kb, i, ls_kb_get_param(&kb, n)));
    assert_ok(ls_kb_finish(&kb, out_kernel));
    code.kernel = out_kernel;
    code.n_words = 1;
    assert_ok(ls_cuda_render(c, arena, out_kernel, &code, &err));
    assert_ok(ls_cuda_build(c, &code, &pipeline, &err));
    return pipeline;
}

typedef struct launching {
    ls_cuda *c;
    ls_arena arena;
    ls_kernel kernel;
    void *pipeline, *block;
    int32_t timer; /* of the next dispatch */
} launching;

static launching begin(void) {
    launching l = {.c = opened()};
    ls_arena_init(&l.arena, &heap);
    l.pipeline = small_kernel(l.c, &l.arena, &l.kernel);
    assert_ok(((ls_gpu *)device.state)->api->block_new(l.c, 4096, &l.block, &err));
    return l;
}

static ls_status dispatch(launching *l, uint32_t word) {
    const ls_gpu_range range = {l->block, 256, 256};
    const ls_gpu_dispatch d = {l->pipeline, &l->kernel, &range, &word, 1, {1, 1, 1}, l->timer};
    return ls_cuda_dispatch(l->c, &d, &err);
}

static void end(launching *l) {
    ls_gpu *gpu = device.state;
    ls_cuda_drop(l->c, l->pipeline);
    gpu->api->block_free(l->c, l->block);
    ls_arena_free(&l->arena);
    ls_backend_cuda.close(&device);
}

/* Runs words 1 to n, the last one replaced; what reached the driver. */
static void sequence(launching *l, int n, uint32_t last, long launches, long graphs) {
    uint64_t ticket;
    fake->launches = fake->graphs = 0;
    for (int i = 1; i <= n; i++) {
        assert_ok(dispatch(l, i == n ? last : (uint32_t)i));
    }
    assert_ok(ls_cuda_flush(l->c, &ticket, &err));
    assert_int_equal(fake->launches, launches);
    assert_int_equal(fake->graphs, graphs);
}

static void sequences_become_graphs(void **state) {
    (void)state;
    launching l = begin();
    sequence(&l, 5, 50, 5, 0); /* new: at once */
    fake->captured = 0;
    sequence(&l, 5, 50, 0, 1); /* again: captured, run as a graph */
    assert_int_equal(fake->captured, 5);
    sequence(&l, 5, 50, 0, 1);
    assert_int_equal(fake->captured, 5); /* one graph serves all further times */
    sequence(&l, 5, 51, 5, 0);           /* another one after all: nothing is lost */
    sequence(&l, 5, 51, 0, 1);
    sequence(&l, 5, 50, 0, 1); /* both are known */
    sequence(&l, 4, 4, 4, 0);  /* a beginning of them */
    sequence(&l, 4, 4, 0, 1);
    sequence(&l, 7, 7, 7, 0); /* longer than them */
    sequence(&l, 2, 2, 2, 0); /* too short to be worth one */
    sequence(&l, 2, 2, 2, 0);
    end(&l);
}

/* A kernel with a whole product takes two tensor maps, of the addresses of its launch. */
static void tensor_maps(void **state) {
    (void)state;
    ls_cuda *c = opened();
    ls_arena arena;
    ls_kb kb;
    ls_kernel k;
    ls_gpu_code code = {.name = "product", .kernel = &k, .n_words = 1};
    void *pipeline = NULL, *block = NULL;
    ls_arena_init(&arena, &heap);
    ls_kb_init(&kb, &arena, "product", &err);
    int n = ls_kb_param(&kb, "n", LS_I32, 0, 64), x = ls_kb_global(&kb, "x", LS_F32, LS_MEM_WRITE, 256);
    int a = ls_kb_global(&kb, "a", LS_U32, LS_MEM_READ, 128 * 64), b = ls_kb_global(&kb, "b", LS_U32, LS_MEM_READ, 64 * 96 / 2);
    int sums = ls_kb_shared(&kb, "sums", LS_F32, 20000);
    const ls_kproduct p = {LS_F16, {{a, 128, 128, true}, {b, 64, 96, false}}, 64, sums, 72};
    ls_kb_workgroup(&kb, 256, 1, 1);
    ls_val zero = ls_kb_i32(&kb, 0), t = ls_kb_local_id(&kb, 0);
    ls_kb_product(&kb, &p, zero, zero);
    ls_kb_barrier(&kb);
    ls_kb_store(&kb, x, t, ls_kb_load(&kb, sums, zero, LS_VAL_NONE, LS_VAL_NONE, 1), ls_kb_lt(&kb, t, ls_kb_get_param(&kb, n)));
    assert_ok(ls_kb_finish(&kb, &k));
    assert_ok(ls_cuda_render(c, &arena, &k, &code, &err));
    assert_ok(ls_cuda_build(c, &code, &pipeline, &err));
    assert_ok(((ls_gpu *)device.state)->api->block_new(c, 65536, &block, &err));
    const uint32_t word = 7;
    fake->map_at = 5; /* three addresses and the words; then A and B */
    for (size_t at = 0; at < 64; at += 32) {
        const ls_gpu_range ranges[] = {{block, 0, 1024}, {block, 1024, 32768}, {block, 40000 + at, 6144}};
        const ls_gpu_dispatch d = {pipeline, &k, ranges, &word, 1, {1, 1, 1}, 0};
        uint64_t ticket;
        assert_ok(ls_cuda_dispatch(c, &d, &err));
        assert_ok(ls_cuda_flush(c, &ticket, &err));
        assert_int_equal(fake->launched, (uint64_t)(uintptr_t)block + 40000 + at);
    }
    assert_int_equal(fake->map.sizes[0], 96);
    assert_int_equal(fake->map.sizes[1], 64);
    assert_int_equal(fake->map.stride, 192);
    assert_int_equal(fake->map.box[0], 64);
    assert_int_equal(fake->map.box[1], 64);
    assert_int_equal(fake->map.type, LS_CU_MAP_U16);
    assert_int_equal(fake->map.swizzle, LS_CU_MAP_SWIZZLE_128);
    const ls_gpu_range odd[] = {{block, 0, 1024}, {block, 1032, 32768}, {block, 40000, 6144}};
    assert_int_equal(ls_cuda_dispatch(c, &(ls_gpu_dispatch){pipeline, &k, odd, &word, 1, {1, 1, 1}, 0}, &err), LS_ERR_INTERNAL);
    assert_non_null(strstr(err.message, "cuTensorMapEncodeTiled"));
    ls_cuda_drop(c, pipeline);
    ((ls_gpu *)device.state)->api->block_free(c, block);
    ls_arena_free(&arena);
    ls_backend_cuda.close(&device);
}

static void copies_are_part_of_sequences(void **state) {
    (void)state;
    launching l = begin();
    uint64_t ticket;
    uint32_t value = 7, back = 0;
    assert_ok(ls_cuda_write(l.c, l.block, 0, &value, 4, &err));
    for (int round = 0; round < 3; round++) {
        fake->launches = fake->graphs = 0;
        assert_ok(dispatch(&l, 1));
        assert_ok(ls_cuda_copy(l.c, l.block, 1024, l.block, 0, 4, &err));
        assert_ok(dispatch(&l, 2));
        assert_ok(ls_cuda_flush(l.c, &ticket, &err));
        assert_int_equal(fake->graphs, round > 0);
        assert_int_equal(fake->launches, round ? 0 : 2);
    }
    assert_ok(ls_cuda_read(l.c, l.block, 1024, &back, 4, &err));
    assert_int_equal(back, 7);
    end(&l);
}

static void a_read_sees_what_was_held_back(void **state) {
    (void)state;
    launching l = begin();
    uint32_t back;
    sequence(&l, 5, 50, 5, 0);
    fake->launches = 0;
    assert_ok(dispatch(&l, 1));
    assert_ok(dispatch(&l, 2));
    assert_int_equal(fake->launches, 0); /* it may become the graph */
    assert_ok(ls_cuda_read(l.c, l.block, 0, &back, 4, &err));
    assert_int_equal(fake->launches, 2);
    end(&l);
}

static void more_sequences_than_are_kept(void **state) {
    (void)state;
    launching l = begin();
    for (uint32_t i = 0; i < 3 * LS_CUDA_SEQUENCES; i++) {
        sequence(&l, 5, 100 + i, 5, 0);
        sequence(&l, 5, 100 + i, 0, 1);
    }
    sequence(&l, 5, 100, 5, 0); /* long forgotten */
    end(&l);
}

static void graphs_may_be_refused(void **state) {
    (void)state;
    static const char *const names[] = {"cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"};
    launching l = begin();
    for (uint32_t i = 0; i < 3; i++) {
        sequence(&l, 5, 50 + i, 5, 0);
        fail_next(names[i], 0, 1);
        sequence(&l, 5, 50 + i, 5, 0);
        sequence(&l, 5, 50 + i, 5, 0);
    }
    end(&l);
}

/* Timed launches stand alone between their events, also in the middle of what would have become a graph. */
static void timers(void **state) {
    (void)state;
    launching l = begin();
    ls_gpu *gpu = device.state;
    uint64_t ns[LS_GPU_TIMERS] = {0}, ticket;
    assert_string_equal(device.clock, "CUDA events");
    sequence(&l, 5, 50, 5, 0);
    fake->slow = 3;
    for (int round = 0; round < 3; round++) {
        fake->launches = fake->graphs = 0;
        for (int i = 0; i < 5; i++) {
            l.timer = i % 2 ? 1 + i / 2 : 0;
            assert_ok(dispatch(&l, (uint32_t)i + 1));
        }
        assert_ok(gpu->api->times(l.c, ns, 2, &err));
        assert_true(ns[0] == 500000 && ns[1] == 500000 && ns[2] == 0);
        assert_ok(ls_cuda_flush(l.c, &ticket, &err));
        assert_int_equal(fake->launches, 5);
        assert_int_equal(fake->graphs, 0);
    }
    l.timer = LS_GPU_TIMERS; /* the last */
    assert_ok(dispatch(&l, 1));
    l.timer = 0;
    sequence(&l, 5, 50, 0, 1); /* and graphs again */
    fail_next("cuEventElapsedTime", 0, 700);
    assert_int_equal(gpu->api->times(l.c, ns, 1, &err), LS_ERR_DEVICE);
    end(&l);
    fake->sticky = 0;
    fake->live = 0;
}

/* ---- failures ---- */

static void a_lost_device_stays_lost(void **state) {
    (void)state;
    static const char *const names[] = {"cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuEventSynchronize", "cuEventRecord"};
    for (int i = 0; i < 4; i++) {
        launching l = begin();
        ls_gpu *gpu = device.state;
        uint32_t word = 0;
        uint64_t ticket;
        void *block;
        int done;
        fail_next(names[i], 0, 700);
        ls_status status = dispatch(&l, 1);
        status = status == LS_OK ? ls_cuda_write(l.c, l.block, 0, &word, 4, &err) : status;
        status = status == LS_OK ? ls_cuda_flush(l.c, &ticket, &err) : status;
        status = status == LS_OK ? ls_cuda_wait(l.c, ticket, 1, &done, &err) : status;
        assert_int_equal(status, LS_ERR_DEVICE);
        assert_non_null(strstr(err.message, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
        assert_non_null(strstr(err.message, names[i]));
        long calls = fake->calls;
        ls_error_clear(&err);
        assert_int_equal(dispatch(&l, 1), LS_ERR_DEVICE);
        assert_non_null(strstr(err.message, "lost"));
        assert_non_null(strstr(err.message, names[i]));
        assert_int_equal(ls_cuda_write(l.c, l.block, 0, &word, 4, NULL), LS_ERR_DEVICE);
        assert_int_equal(ls_cuda_read(l.c, l.block, 0, &word, 4, NULL), LS_ERR_DEVICE);
        assert_int_equal(ls_cuda_copy(l.c, l.block, 8, l.block, 0, 4, NULL), LS_ERR_DEVICE);
        assert_int_equal(ls_cuda_flush(l.c, &ticket, NULL), LS_ERR_DEVICE);
        assert_int_equal(gpu->api->block_new(l.c, 4, &block, NULL), LS_ERR_DEVICE);
        assert_int_equal(fake->calls, calls); /* the driver was not asked again */
        end(&l);
        fake->sticky = 0;
        fake->live = 0; /* memory and modules of a lost device go with its context */
        ls_error_clear(&err);
    }
}

static void memory_may_be_short(void **state) {
    (void)state;
    ls_cuda *c = opened();
    ls_gpu *gpu = device.state;
    void *block, *handle;
    fake->largest = 1000;
    assert_int_equal(gpu->api->block_new(c, 1001, &block, &err), LS_ERR_MEMORY);
    assert_non_null(strstr(err.message, "CUDA_ERROR_OUT_OF_MEMORY"));
    ls_error_clear(&err);
    assert_int_equal(ls_backend_cuda.alloc(&device, 20 << 20, &handle, &err), LS_ERR_MEMORY);
    fake->largest = 0;
    ls_error_clear(&err);
    assert_ok(ls_backend_cuda.alloc(&device, 20 << 20, &handle, &err)); /* not the end of the device */
    ls_backend_cuda.free(&device, handle, 20 << 20);
    ls_backend_cuda.close(&device);
}

static void a_kernel_may_not_compile(void **state) {
    (void)state;
    launching l = begin();
    ls_gpu_code code = {.name = "odd", .kernel = &l.kernel, .n_words = 1};
    void *pipeline;
    assert_ok(ls_cuda_render(l.c, &l.arena, &l.kernel, &code, &err));
    fail_next("cuModuleLoadDataEx", 0, 209);
    assert_int_equal(ls_cuda_build(l.c, &code, &pipeline, &err), LS_ERR_INTERNAL);
    assert_non_null(strstr(err.message, "odd"));
    assert_non_null(strstr(err.message, "as the test asked"));
    fail_next("cuModuleGetFunction", 0, 500);
    assert_int_equal(ls_cuda_build(l.c, &code, &pipeline, NULL), LS_ERR_INTERNAL);
    end(&l);
}

/* ---- the disk cache ---- */

/* Builds the small kernel on a device that is opened for it: whether the driver's binary came from the disk, and how many
 * times the driver compiled. */
static bool build_once(long linked) {
    ls_cuda *c = opened();
    ls_arena arena;
    ls_kernel kernel;
    ls_gpu_code code = {.name = "small", .n_words = 1};
    void *pipeline;
    bool cached = true;
    ls_arena_init(&arena, &heap);
    pipeline = small_kernel(c, &arena, &kernel); /* nobody asks for this one */
    ls_cuda_drop(c, pipeline);
    code.kernel = &kernel;
    code.out_cached = &cached;
    assert_ok(ls_cuda_render(c, &arena, &kernel, &code, &err));
    assert_ok(ls_cuda_build(c, &code, &pipeline, &err));
    ls_cuda_drop(c, pipeline);
    assert_int_equal(fake->linked, linked);
    ls_arena_free(&arena);
    ls_backend_cuda.close(&device);
    return cached;
}

static void binaries_are_kept(void **state) {
    (void)state;
    char folder[] = "/tmp/lockstep-cubin-XXXXXX", command[128];
    uint64_t removed;
    assert_non_null(mkdtemp(folder));
    setenv("LOCKSTEP_CACHE", folder, 1);
    assert_true(build_once(1));  /* the second build in it finds the first's */
    assert_true(build_once(1));  /* so does the next process */
    fail_next("cuModuleLoadDataEx", 0, 209); /* another driver may refuse it: made again */
    assert_true(build_once(2));
    snprintf(command, sizeof command, "for f in %s/*; do printf x >>$f; done", folder);
    assert_int_equal(system(command), 0);
    assert_true(build_once(3)); /* damaged: made again */
    assert_int_equal(ls_cache_clear(&removed, &err), LS_OK);
    static const char *const names[] = {"cuLinkCreate_v2", "cuLinkAddData_v2", "cuLinkComplete"};
    for (int i = 0; i < 3; i++) { /* a linker that does not want to: the text alone, and nothing is kept */
        fail_next(names[i], 0, 1);
        ls_cuda *c = opened();
        ls_arena arena;
        ls_kernel kernel;
        ls_arena_init(&arena, &heap);
        void *pipeline = small_kernel(c, &arena, &kernel);
        ls_cuda_drop(c, pipeline);
        ls_arena_free(&arena);
        ls_backend_cuda.close(&device);
        ls_cache_info info;
        ls_cache_get_info(&info);
        assert_int_equal(info.entries, 0);
    }
    setenv("LOCKSTEP_CACHE", "off", 1);
    fake->linked = 0;
    assert_false(build_once(0)); /* nothing is linked for nobody */
    assert_int_equal(rmdir(folder), 0);
}

/* Every driver call while opening fails once, and every allocation. */
static void opening_fails_cleanly(void **state) {
    (void)state;
    static const char *const names[] = {"cuInit", "cuDriverGetVersion", "cuDeviceGetCount", "cuDeviceGet", "cuDeviceGetName",
                                        "cuDeviceTotalMem_v2", "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2",
                                        "cuStreamCreate", "cuEventCreate", "cuMemAllocHost_v2", "cuMemAlloc_v2"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (int at = 0; at < 3; at += 2) {
            ls_error_clear(&err);
            fail_next(names[i], at, 2);
            if (ls_cuda_open(&device, 0, &err) == LS_OK) {
                ls_backend_cuda.close(&device);
            } else {
                assert_true(err.message[0]);
            }
            fake->fail_name[0] = 0;
            assert_int_equal(all_given_back(NULL), 0);
        }
    }
    for (long n = 0;; n += n < 40 ? 1 : 97) {
        ls_error_clear(&err);
        atomic_store(&heap.fail_after, n);
        ls_status status = ls_cuda_open(&device, 0, &err);
        bool reached = atomic_load(&heap.fail_after) < 0;
        atomic_store(&heap.fail_after, -1);
        if (status == LS_OK) {
            ls_backend_cuda.close(&device);
        }
        assert_int_equal(all_given_back(NULL), 0);
        if (!reached || n > 4000) {
            break;
        }
    }
}

/* The probe finds out that nothing is computed: the device is refused, or opens but is not certified. */
static void what_computes_nothing_is_not_certified(void **state) {
    (void)state;
    ls_status status = ls_backend_cuda.open(&device, 0, &err);
    assert_true(fake->launches > 0);
    if (status == LS_OK) {
        assert_int_equal(device.locked, -1);
        ls_backend_cuda.close(&device);
    } else {
        assert_true(err.message[0]);
    }
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, all_given_back)
    const struct CMUnitTest tests[] = {
        CASE(opens), CASE(opens_by_uuid), CASE(chooses_what_ptx_it_writes), CASE(says_why_there_is_none), CASE(bytes_come_back),
        CASE(tickets_are_in_order), CASE(sequences_become_graphs), CASE(tensor_maps), CASE(copies_are_part_of_sequences),
        CASE(a_read_sees_what_was_held_back), CASE(more_sequences_than_are_kept), CASE(graphs_may_be_refused), CASE(timers),
        CASE(a_lost_device_stays_lost), CASE(memory_may_be_short), CASE(a_kernel_may_not_compile), CASE(binaries_are_kept),
        CASE(opening_fails_cleanly), CASE(what_computes_nothing_is_not_certified),
    };
    return cmocka_run_group_tests_name("cuda", tests, NULL, NULL);
}
