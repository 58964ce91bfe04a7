/* The WebGPU driver on whatever adapter Dawn finds, called as src/gpu calls it: bytes to any place, kernels against the
 * interpreter, errors. Skipped where LOCKSTEP_WEBGPU names no library, or it has no adapter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/webgpu/webgpu.h"
#include "base/os.h"
#include "kir/build.h"
#include "unit/kir_fixture.h"
#include "unit/kir_samples.h"

static ls_webgpu_host *host;
static ls_webgpu *driver;
static const ls_gpu_api *const api = &ls_webgpu_api;
static const char *reason;

static int open_driver(void **state) {
    setup(state);
    reason = NULL;
    driver = NULL;
    if (!ls_os_env("LOCKSTEP_WEBGPU")) {
        reason = "LOCKSTEP_WEBGPU is not set";
        return 0;
    }
    if (ls_webgpu_open_native(&heap, 0, &host, &err) != LS_OK) {
        reason = err.message;
        return 0;
    }
    if (ls_webgpu_create(&heap, host, &driver, &err) != LS_OK) {
        print_error("%s\n", err.message);
        return -1;
    }
    return 0;
}

static int close_driver(void **state) {
    ls_webgpu_close(driver);
    return teardown(state);
}

#define NEED_DRIVER()                                  \
    do {                                               \
        if (reason) {                                  \
            print_message("skipped: %s\n", reason);    \
            skip();                                    \
        }                                              \
    } while (0)

static uint32_t random_state = 1;
static uint32_t next_random(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static void *block(size_t size) {
    void *b;
    assert_ok(api->block_new(driver, size, &b, &err));
    return b;
}

/* ---- bytes ---- */

static void bytes_anywhere(void **state) {
    (void)state;
    NEED_DRIVER();
    print_message("adapter: %s (%s)\n", host->name, host->driver);
    enum { SIZE = 40000 };
    static uint8_t model[2][SIZE], got[SIZE], data[SIZE];
    void *blocks[2] = {block(SIZE), block(SIZE)};
    for (int b = 0; b < 2; b++) {
        assert_ok(api->write(driver, blocks[b], 0, model[b], SIZE, &err));
    }
    for (int step = 0; step < 600; step++) {
        int a = next_random() & 1, b = next_random() & 1;
        size_t size = next_random() % (step % 9 ? 23 : SIZE / 3) + 1, at = next_random() % (SIZE - size);
        switch (next_random() % 3) {
        case 0:
            for (size_t i = 0; i < size; i++) {
                data[i] = (uint8_t)next_random();
            }
            memcpy(model[a] + at, data, size);
            assert_ok(api->write(driver, blocks[a], at, data, size, &err));
            break;
        case 1: {
            size_t from = next_random() % (SIZE - size);
            if (a == b && from < at + size && at < from + size) {
                break;
            }
            memmove(model[a] + at, model[b] + from, size);
            assert_ok(api->copy(driver, blocks[a], at, blocks[b], from, size, &err));
            break;
        }
        default:
            if (step % 5 == 0) {
                memset(got, 0xcc, SIZE);
                assert_ok(api->read(driver, blocks[a], at, got, size, &err));
                assert_memory_equal(got, model[a] + at, size);
                assert_int_equal(got[size], 0xcc);
            }
        }
    }
    for (int b = 0; b < 2; b++) {
        assert_ok(api->read(driver, blocks[b], 0, got, SIZE, &err));
        assert_memory_equal(got, model[b], SIZE);
        api->block_free(driver, blocks[b]);
    }
}

/* ---- kernels ---- */

typedef struct place {
    void *data;
    size_t count;
} place;

/* Runs a kernel of 32-bit memories on the device and in the interpreter; all bytes must be the same. */
static void same_bits(const ls_kernel *kernel, place *places, const int64_t *params) {
    ls_gpu_code code = {.kernel = kernel, .name = kernel->name, .n_words = kernel->n_params};
    ls_gpu_range ranges[16];
    ls_interp_buffer buffers[16];
    uint32_t words[16], groups[3];
    void *pipeline, *got;
    for (int i = 0; i < kernel->n_params; i++) {
        words[i] = (uint32_t)params[i];
    }
    for (int i = 0; i < 3; i++) {
        groups[i] = (uint32_t)ls_kgrid_size(kernel, i, params);
    }
    for (int i = 0; i < kernel->n_globals; i++) {
        size_t size = places[i].count * 4;
        ranges[i] = (ls_gpu_range){block(size), 0, size};
        buffers[i] = (ls_interp_buffer){places[i].data, (int64_t)places[i].count, false};
        assert_ok(api->write(driver, ranges[i].block, 0, places[i].data, size, &err));
    }
    assert_ok(api->render(driver, &arena, kernel, &code, &err));
    assert_ok(api->build(driver, &code, &pipeline, &err));
    const ls_gpu_dispatch d = {.pipeline = pipeline, .kernel = kernel, .bindings = ranges, .words = words,
                               .n_words = kernel->n_params, .groups = {groups[0], groups[1], groups[2]}};
    assert_ok(api->dispatch(driver, &d, &err));
    assert_ok(ls_kernel_interp(&heap, kernel, &(ls_interp_launch){.buffers = buffers, .params = params}, &err));
    for (int i = 0; i < kernel->n_globals; i++) {
        size_t size = places[i].count * 4;
        got = malloc(size);
        assert_ok(api->read(driver, ranges[i].block, 0, got, size, &err));
        assert_memory_equal(got, places[i].data, size);
        free(got);
        api->block_free(driver, ranges[i].block);
    }
    api->drop(driver, pipeline);
}

static float *floats(size_t n) {
    float *x = ls_arena_array(&arena, n, sizeof *x);
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)((int)next_random() % 2001 - 1000) / 64;
    }
    return x;
}

static void samples(void **state) {
    (void)state;
    NEED_DRIVER();
    ls_kernel kernel, simple;
    assert_ok(sample_vadd(&arena, 1000, SAMPLE_RIGHT, &kernel, &err));
    assert_ok(ls_kernel_simplify(&arena, &kernel, NULL, &simple, &err));
    same_bits(&simple, (place[]){{floats(1000), 1000}, {floats(1000), 1000}, {floats(1000), 1000}}, (const int64_t[]){777});
    assert_ok(sample_reduce(&arena, 9000, SAMPLE_RIGHT, &kernel, &err));
    same_bits(&kernel, (place[]){{floats(9000), 9000}, {floats(3), 3}}, NULL);
    assert_ok(ls_kernel_simplify(&arena, &kernel, NULL, &simple, &err));
    same_bits(&simple, (place[]){{floats(9000), 9000}, {floats(3), 3}}, NULL);
    assert_ok(sample_matmul(&arena, 37, 50, 70, SAMPLE_RIGHT, &kernel, &err));
    assert_ok(ls_kernel_simplify(&arena, &kernel, NULL, &simple, &err));
    same_bits(&simple, (place[]){{floats(37 * 70), 37 * 70}, {floats(70 * 50), 70 * 50}, {floats(37 * 50), 37 * 50}}, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bytes_anywhere, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(samples, open_driver, close_driver),
    };
    return cmocka_run_group_tests_name("webgpu", tests, NULL, NULL);
}
