/* The layer that devices with threads share, on simulated devices: memory, certification whatever the arithmetic, variants of
 * kernels for places that cannot be bound, reports of indices out of range. */
#include "gpu/internal.h"
#include "support/world.h"
#include <string.h>

/* ---- memory ---- */

static size_t given, live_blocks;
static ls_status block_new(void *driver, size_t size, void **out_block, ls_error *err) {
    size_t *room = driver;
    if (size > *room) {
        return LS_FAIL(err, LS_ERR_MEMORY, "the test's device is full");
    }
    *room -= size;
    *out_block = (void *)(uintptr_t)(++given * 0x1000 + size % 0x100);
    live_blocks++;
    return LS_OK;
}
static void block_free(void *driver, void *block) {
    (void)driver, (void)block;
    live_blocks--;
}

static void memory_is_disjoint(void **state) {
    (void)state;
    enum { PLACES = 200, STEPS = 20000 };
    static const ls_gpu_api api = {.block_new = block_new, .block_free = block_free};
    ls_heap heap;
    size_t room = SIZE_MAX;
    ls_heap_init(&heap, NULL, 0);
    ls_device device = {.heap = &heap, .id = "test"};
    ls_gpu *gpu;
    ls_gpu_memory places[PLACES] = {0};
    const ls_gpu_limits limits = {.block = 1 << 16};
    assert_int_equal(ls_gpu_create(&device, &api, &room, &limits, &gpu, NULL), LS_OK);
    uint32_t random = 1;
    for (int step = 0; step < STEPS; step++) {
        random = random * 1664525u + 1013904223u;
        ls_gpu_memory *m = &places[(random >> 8) % PLACES];
        if (m->block) {
            ls_gpu_memory_free(gpu, *m);
            *m = (ls_gpu_memory){0};
            continue;
        }
        size_t size = (random >> 16) % 64 == 0 ? 100000 : (random >> 20) % 8192;
        assert_int_equal(ls_gpu_memory_new(gpu, size, m, NULL), LS_OK);
        assert_true(m->size >= size && m->offset % 256 == 0 && m->offset + m->size <= m->block->size);
        for (int i = 0; i < PLACES; i++) {
            const ls_gpu_memory *other = &places[i];
            assert_true(other == m || other->block != m->block || other->offset + other->size <= m->offset ||
                        m->offset + m->size <= other->offset);
        }
    }
    for (int i = 0; i < PLACES; i++) {
        ls_gpu_memory_free(gpu, places[i]);
    }
    for (const ls_gpu_block *b = gpu->blocks; b; b = b->next) { /* all gaps have joined again */
        assert_true(!b->shared || (b->gaps.len == 1 && b->gaps.data[0].size == b->size));
    }
    ls_gpu_free(gpu);
    assert_int_equal(live_blocks, 0);
    assert_int_equal(heap.used, 0);
}

static void full_device(void **state) {
    (void)state;
    static const ls_gpu_api api = {.block_new = block_new, .block_free = block_free};
    ls_heap heap;
    size_t room = 3 << 20;
    ls_heap_init(&heap, NULL, 0);
    ls_device device = {.heap = &heap, .id = "test"};
    ls_gpu *gpu;
    ls_gpu_memory a, b;
    ls_error err = {0};
    assert_int_equal(ls_gpu_create(&device, &api, &room, &(ls_gpu_limits){.block = 0}, &gpu, NULL), LS_OK);
    assert_int_equal(ls_gpu_memory_new(gpu, 2 << 20, &a, &err), LS_OK);
    assert_int_equal(ls_gpu_memory_new(gpu, 2 << 20, &b, &err), LS_ERR_MEMORY);
    assert_non_null(strstr(err.message, "full"));
    ls_gpu_memory_free(gpu, a);
    assert_int_equal(ls_gpu_memory_new(gpu, (2 << 20) - 512, &b, &err), LS_OK); /* the idle block again */
    assert_ptr_equal(a.block, b.block);
    ls_gpu_free(gpu);
    assert_int_equal(heap.used, 0);
}

/* ---- whole graphs on the simulated devices ---- */

static ls_tensor *numbers(ls_session *s, ls_dtype dtype, ls_shape shape) {
    int64_t n = 1;
    for (int i = 0; i < shape.rank; i++) {
        n *= shape.dim[i].offset;
    }
    ls_tensor *i = ls_iota(s, LS_I32, LS_SHAPE(n), 0);
    ls_tensor *x =
        ls_rem(s, ls_mul(s, i, ls_full(s, LS_I32, LS_SHAPE(n), 7919)), ls_full(s, LS_I32, LS_SHAPE(n), 251));
    x = ls_cast(s, ls_sub(s, x, ls_full(s, LS_I32, LS_SHAPE(n), 120)), LS_F32);
    return ls_reshape(s, ls_cast(s, ls_mul(s, x, ls_full(s, LS_F32, LS_SHAPE(n), 0.013)), dtype), shape);
}

static ls_tensor *network(ls_session *s) {
    ls_tensor *x = numbers(s, LS_F32, LS_SHAPE(3, 40)), *w = numbers(s, LS_F32, LS_SHAPE(40, 17));
    ls_tensor *y = ls_softmax(s, ls_gelu(s, ls_matmul(s, x, w)), 1);
    return ls_div(s, ls_layer_norm(s, y, 1, NULL, NULL, 1e-5), ls_sqrt(s, ls_add(s, ls_abs(s, y), y)));
}
static ls_tensor *halves(ls_session *s) {
    ls_tensor *x = numbers(s, LS_F16, LS_SHAPE(5, 33)), *y = numbers(s, LS_BF16, LS_SHAPE(5, 33));
    return ls_add(s, ls_cast(s, ls_mul(s, x, x), LS_BF16), ls_exp(s, y));
}
static ls_tensor *bytes(ls_session *s) {
    ls_tensor *x = ls_cast(s, numbers(s, LS_F32, LS_SHAPE(7, 9)), LS_I8);
    return ls_cast(s, ls_concat(s, (ls_tensor *[]){x, ls_neg(s, x)}, 2, 1), LS_U8);
}
static ls_tensor *longs(ls_session *s) {
    ls_tensor *x = ls_cast(s, numbers(s, LS_F32, LS_SHAPE(40)), LS_I64),
              *big = ls_full(s, LS_I64, LS_SHAPE(40), 0x1234567p30);
    x = ls_add(s, ls_mul(s, x, big), ls_iota(s, LS_I64, LS_SHAPE(40), 0));
    return ls_rem(s, ls_div(s, x, ls_full(s, LS_I64, LS_SHAPE(40), 77)),
                  ls_full(s, LS_I64, LS_SHAPE(40), 1000003));
}

/* One kernel of 19 buffers in three dtypes and two sizes: on a device that binds ten, several of each dtype come into one place. */
static ls_tensor *many_buffers(ls_session *s) {
    static const ls_dtype dtypes[] = {LS_F32, LS_I32, LS_U8};
    ls_tensor *sum = NULL;
    for (int i = 0; i < 18; i++) {
        uint8_t bytes[7 * 29 * 4];
        ls_shape shape = i % 2 ? LS_SHAPE(29) : LS_SHAPE(7, 29);
        for (size_t j = 0; j < sizeof bytes; j++) {
            bytes[j] = (uint8_t)(((size_t)i * 37 + j * 11) & 0x3f);
        }
        ls_tensor *x = ls_cast(s, ls_tensor_from(s, dtypes[i % 3], shape, bytes), LS_F32);
        sum = sum ? ls_add(s, sum, ls_mul(s, x, ls_full(s, LS_F32, LS_SCALAR, 0.5 + i))) : x;
    }
    return sum;
}

typedef ls_tensor *(*graph_fn)(ls_session *s);

static ls_data *compute(world *w, graph_fn build) {
    ls_data *data = NULL;
    ls_tensor *t = build(w->session);
    world_ok(w, t ? ls_data_from_tensor(w->session, t, &data) : ls_session_error(w->session)->code);
    return data;
}

/* Subnormals of f32 and f64 on their way through the other type. */
static ls_tensor *wide_floats(ls_session *s) {
    ls_tensor *bits = ls_random_bits(s, ls_random_key(s, 3), LS_SHAPE(400));
    bits = ls_and(s, bits, ls_full_i64(s, LS_U32, LS_SCALAR, 0x80ffffff));
    ls_tensor *small = ls_cast(s, ls_bitcast(s, bits, LS_F32), LS_F64),
              *third = ls_div(s, small, ls_full(s, LS_F64, LS_SCALAR, 3));
    ls_tensor *all[] = {
        small, third, ls_cast(s, ls_cast(s, third, LS_F32), LS_F64),
        ls_cast(s, ls_cast(s, third, LS_BF16), LS_F64),
        ls_cast(s, ls_cast(s, ls_mul(s, third, ls_full(s, LS_F64, LS_SCALAR, 0x1p110)), LS_F16), LS_F64)};
    return ls_concat(s, all, 5, 0);
}

static void same_bits(void **state) {
    (void)state;
    static const graph_fn graphs[] = {network, halves, bytes, longs, wide_floats, many_buffers};
    static const char *const devices[] = {"sim", "sim:1", "sim:2", "sim:3"};
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
        world w = world_open(devices[d]), ref = world_open("ref");
        ls_error err = {0};
        assert_string_equal(ls_device_certify(w.device, &err) == LS_OK ? "" : err.message, "");
        bool f64 = ls_device_caps(w.device)->dtypes >> LS_F64 & 1;
        for (size_t g = 0; g < sizeof graphs / sizeof *graphs; g++) {
            if (graphs[g] == wide_floats && !f64) {
                continue;
            }
            ls_data *a = compute(&w, graphs[g]), *b = compute(&ref, graphs[g]);
            assert_int_equal(ls_data_numel(a), ls_data_numel(b));
            assert_memory_equal(ls_data_bytes(a), ls_data_bytes(b), ls_data_size(b));
            ls_data_release(a);
            ls_data_release(b);
        }
        uint32_t launched, possible;
        ls_gpu_covered(w.device->state, &launched, &possible);
        assert_true(d == 0 || launched >> LS_COVER_LAUNCH_MERGED & 1);
        assert_true(launched & ~(1u << LS_COVER_LAUNCH_MERGED) && !(launched & ~possible));
        world_close(&w);
        world_close(&ref);
    }
}

/* What the probe finds out, and only that, is done another way. */
static void probe_finds(void **state) {
    (void)state;
    world exact = world_open("sim"), wrong = world_open("sim:2"), wide = world_open("sim:3");
    assert_string_equal(ls_device_caps(exact.device)->arithmetic, "");
    const char *ways = ls_device_caps(wrong.device)->arithmetic;
    static const char *const expected[] = {"multiply-add", "subnormals", "division", "square root"};
    for (size_t i = 0; i < 4; i++) {
        assert_non_null(strstr(ways, expected[i]));
    }
    assert_non_null(strstr(ls_device_caps(wide.device)->arithmetic, "f64 conversion"));
    world_close(&exact);
    world_close(&wrong);
    world_close(&wide);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(memory_is_disjoint), cmocka_unit_test(full_device),
                                       cmocka_unit_test(same_bits), cmocka_unit_test(probe_finds)};
    return cmocka_run_group_tests_name("gpu", tests, NULL, NULL);
}
