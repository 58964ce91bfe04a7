#include "support/gpu.h"
#include "render/render.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST = 16, WORDS = 32 }; /* bindings and words of parameters */

static ls_error err;

static void ok(ls_status status) {
    if (status != LS_OK) {
        fail_msg("%s: %s", ls_status_name(status), err.message);
    }
}

static uint32_t random_state = 1;
uint32_t gpu_random(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

void *gpu_block(const gpu_under_test *g, size_t size) {
    void *block;
    ls_error_clear(&err);
    ok(g->api->block_new(g->driver, size, &block, &err));
    return block;
}

void gpu_bytes_anywhere(const gpu_under_test *g, size_t size, int steps, int reads) {
    uint8_t *model[2] = {calloc(1, size), calloc(1, size)}, *got = malloc(size), *data = malloc(size);
    void *blocks[2] = {gpu_block(g, size), gpu_block(g, size)};
    for (int b = 0; b < 2; b++) {
        ok(g->api->write(g->driver, blocks[b], 0, model[b], size, &err));
    }
    for (int step = 0; step < steps; step++) {
        int a = gpu_random() & 1, b = gpu_random() & 1;
        size_t n = gpu_random() % (step % 9 ? 23 : size / 3) + 1;
        size_t at = gpu_random() % (size - n), from = gpu_random() % (size - n);
        switch (gpu_random() % 3) {
        case 0:
            for (size_t i = 0; i < n; i++) {
                data[i] = (uint8_t)(gpu_random() + i);
            }
            memcpy(model[a] + at, data, n);
            ok(g->api->write(g->driver, blocks[a], at, data, n, &err));
            memset(data, 0xee, n); /* the caller may use it again at once */
            break;
        case 1:
            if (a != b || from >= at + n || at >= from + n) {
                memcpy(model[a] + at, model[b] + from, n);
                ok(g->api->copy(g->driver, blocks[a], at, blocks[b], from, n, &err));
            }
            break;
        default:
            if (step % reads == 0) {
                memset(got, 0xcc, size);
                ok(g->api->read(g->driver, blocks[a], at, got, n, &err));
                assert_memory_equal(got, model[a] + at, n);
                assert_int_equal(got[n], 0xcc);
            }
        }
    }
    for (int b = 0; b < 2; b++) {
        ok(g->api->read(g->driver, blocks[b], 0, got, size, &err));
        assert_memory_equal(got, model[b], size);
        g->api->block_free(g->driver, blocks[b]);
        free(model[b]);
    }
    free(got);
    free(data);
}

static size_t width_of(const ls_kernel *k, int binding) {
    for (int m = 0; m < k->n_mems; m++) {
        if (k->mems[m].space == LS_MEM_GLOBAL && k->mems[m].binding == binding) {
            return ls_dtype_size(k->mems[m].dtype);
        }
    }
    return 0;
}

void gpu_same_bits(const gpu_under_test *g, const ls_kernel *kernel, place *places, const int64_t *params) {
    ls_gpu_code code = {.kernel = kernel, .name = kernel->name, .n_words = ls_render_words(kernel)};
    ls_gpu_range ranges[MOST];
    ls_interp_buffer buffers[MOST];
    uint32_t words[WORDS], *word = words, groups[3];
    void *pipeline;
    ls_error_clear(&err);
    for (int i = 0; i < kernel->n_params; i++) {
        *word++ = (uint32_t)params[i];
        if (ls_dtype_size(kernel->params[i].dtype) == 8) {
            *word++ = (uint32_t)((uint64_t)params[i] >> 32);
        }
    }
    for (int i = 0; i < 3; i++) {
        groups[i] = (uint32_t)ls_kgrid_size(kernel, i, params);
    }
    for (int i = 0; i < kernel->n_globals; i++) {
        size_t size = places[i].count * width_of(kernel, i);
        ranges[i] = (ls_gpu_range){gpu_block(g, size), 0, size};
        buffers[i] = (ls_interp_buffer){places[i].data, (int64_t)places[i].count, false};
        ok(g->api->write(g->driver, ranges[i].block, 0, places[i].data, size, &err));
    }
    ok(g->api->render(g->driver, g->arena, kernel, &code, &err));
    ok(g->api->build(g->driver, &code, &pipeline, &err));
    const ls_gpu_dispatch d = {.pipeline = pipeline, .kernel = kernel, .bindings = ranges, .words = words,
                               .n_words = code.n_words, .groups = {groups[0], groups[1], groups[2]}};
    ok(g->api->dispatch(g->driver, &d, &err));
    const ls_interp_launch launch = {.buffers = buffers, .params = params, .subgroup = g->subgroup};
    ok(ls_kernel_interp(g->heap, kernel, &launch, &err));
    for (int i = 0; i < kernel->n_globals; i++) {
        size_t size = ranges[i].size;
        void *got = malloc(size);
        ok(g->api->read(g->driver, ranges[i].block, 0, got, size, &err));
        if (memcmp(got, places[i].data, size) != 0) {
            print_error("kernel %s, buffer %d\n", kernel->name, i);
        }
        assert_memory_equal(got, places[i].data, size);
        free(got);
        g->api->block_free(g->driver, ranges[i].block);
    }
    g->api->drop(g->driver, pipeline);
}

float *gpu_floats(const gpu_under_test *g, size_t n) {
    float *x = ls_arena_array(g->arena, n, sizeof *x);
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)((int)gpu_random() % 2001 - 1000) / 64;
    }
    return x;
}
