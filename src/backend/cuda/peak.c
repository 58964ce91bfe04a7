/* The device's measured peak: chains of multiply-adds in registers, and a copy of more memory than the caches hold. The
 * kernels take the way of all others: built as KIR, made legal, rendered. */
#include "backend/cuda/cuda.h"
#include "gpu/internal.h"
#include "kir/build.h"

enum { CHAINS = 8, STEPS = 8, LOOPS = 1024, THREADS = 256, ROUNDS = 5, COPY = 1 << 26 /* elements */, SLICE = 4096 };

static ls_status arithmetic_kernel(ls_arena *arena, int groups, bool fast, ls_kernel *out, ls_error *err) {
    ls_kb kb;
    ls_val chain[CHAINS];
    uint32_t flags = fast ? LS_KF_FAST : 0;
    ls_kb_init(&kb, arena, "peak", err);
    int y = ls_kb_global(&kb, "y", LS_F32, LS_MEM_WRITE, (int64_t)groups * THREADS);
    ls_kb_workgroup(&kb, THREADS, 1, 1);
    ls_kb_grid(&kb, 0, groups, LS_VAL_NONE, 1);
    ls_val lid = ls_kb_local_id(&kb, 0), x = ls_kb_cast(&kb, lid, LS_F32), total = ls_kb_f32(&kb, 0);
    ls_val factor = ls_kb_f32(&kb, 0.999f), more = ls_kb_mul(&kb, x, ls_kb_f32(&kb, 0.001f));
    for (int i = 0; i < CHAINS; i++) {
        chain[i] = ls_kb_var(&kb, ls_kb_add(&kb, x, ls_kb_f32(&kb, (float)i)));
    }
    ls_kb_loop(&kb, ls_kb_i32(&kb, 0), ls_kb_i32(&kb, LOOPS), ls_kb_i32(&kb, 1), 0);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < CHAINS; i++) {
            ls_val product = ls_kb_pure(&kb, LS_K_MUL, ls_kb_get(&kb, chain[i]), factor, LS_VAL_NONE, flags);
            ls_kb_set(&kb, chain[i], ls_kb_pure(&kb, LS_K_ADD, product, more, LS_VAL_NONE, flags));
        }
    }
    ls_kb_end_loop(&kb);
    for (int i = 0; i < CHAINS; i++) {
        total = ls_kb_add(&kb, total, ls_kb_get(&kb, chain[i]));
    }
    ls_val at = ls_kb_add(&kb, ls_kb_mul(&kb, ls_kb_group_id(&kb, 0), ls_kb_i32(&kb, THREADS)), lid);
    ls_kb_store(&kb, y, at, total, LS_VAL_NONE);
    return ls_kb_finish(&kb, out);
}

static ls_status copy_kernel(ls_arena *arena, ls_kernel *out, ls_error *err) {
    ls_kb kb;
    ls_val v[SLICE / THREADS / 4];
    ls_kb_init(&kb, arena, "copy", err);
    int x = ls_kb_global(&kb, "x", LS_F32, LS_MEM_READ, COPY), y = ls_kb_global(&kb, "y", LS_F32, LS_MEM_WRITE, COPY);
    ls_kb_workgroup(&kb, THREADS, 1, 1);
    ls_kb_grid(&kb, 0, COPY / SLICE, LS_VAL_NONE, 1);
    ls_val first = ls_kb_add(&kb, ls_kb_mul(&kb, ls_kb_group_id(&kb, 0), ls_kb_i32(&kb, SLICE)),
                             ls_kb_mul(&kb, ls_kb_local_id(&kb, 0), ls_kb_i32(&kb, 4)));
    for (int i = 0; i < SLICE / THREADS / 4; i++) {
        v[i] = ls_kb_load(&kb, x, ls_kb_add(&kb, first, ls_kb_i32(&kb, i * THREADS * 4)), LS_VAL_NONE, LS_VAL_NONE, 4);
    }
    for (int i = 0; i < SLICE / THREADS / 4; i++) {
        ls_kb_store(&kb, y, ls_kb_add(&kb, first, ls_kb_i32(&kb, i * THREADS * 4)), v[i], LS_VAL_NONE);
    }
    return ls_kb_finish(&kb, out);
}

/* Seconds of one launch, the best of several. */
static ls_status time_launches(ls_cuda *c, const ls_gpu_dispatch *d, double *out_seconds, ls_error *err) {
    ls_cu_event start = NULL, end = NULL;
    LS_TRY(err, ls_cuda_enter(c, err));
    ls_status status = ls_cuda_check(c, c->api.event_create(&start, 0), ls_cuda_names.event_create, err);
    if (status == LS_OK) {
        status = ls_cuda_check(c, c->api.event_create(&end, 0), ls_cuda_names.event_create, err);
    }
    *out_seconds = 0;
    for (int i = 0; i <= ROUNDS && status == LS_OK; i++) {
        float ms = 0;
        (void)c->api.event_record(start, c->stream);
        status = ls_cuda_dispatch(c, d, err);
        if (status == LS_OK) {
            status = ls_cuda_settle(c, err);
        }
        (void)c->api.event_record(end, c->stream);
        if (status == LS_OK) {
            status = ls_cuda_check(c, c->api.event_synchronize(end), ls_cuda_names.event_synchronize, err);
        }
        (void)c->api.event_elapsed(&ms, start, end);
        if (i && (*out_seconds == 0 || (double)ms * 1e-3 < *out_seconds)) {
            *out_seconds = (double)ms * 1e-3;
        }
    }
    if (start) {
        (void)c->api.event_destroy(start);
    }
    if (end) {
        (void)c->api.event_destroy(end);
    }
    ls_cuda_leave(c);
    return status;
}

static ls_status measure(ls_gpu *gpu, ls_arena *arena, const ls_kernel *kernel, const size_t *bytes, double *out_seconds,
                         ls_error *err) {
    ls_cuda *c = gpu->driver;
    ls_kernel legal;
    const ls_legal_param *params;
    ls_gpu_code code;
    ls_gpu_memory places[2] = {{0}};
    ls_gpu_range ranges[2];
    void *pipeline;
    LS_TRY(err, ls_gpu_prepare(gpu, arena, kernel, gpu->limits.traits, &legal, &params, &code, err));
    LS_TRY(err, ls_cuda_build(c, &code, &pipeline, err));
    ls_status status = LS_OK;
    for (int i = 0; i < kernel->n_globals && status == LS_OK; i++) {
        status = ls_gpu_memory_new(gpu, bytes[i], &places[i], err);
        if (status == LS_OK) {
            ranges[i] = (ls_gpu_range){places[i].block->block, places[i].offset, bytes[i]};
        }
    }
    if (status == LS_OK) {
        ls_gpu_dispatch d = {.pipeline = pipeline, .kernel = &legal, .bindings = ranges};
        for (int i = 0; i < 3; i++) {
            d.groups[i] = (uint32_t)ls_kgrid_size(&legal, i, NULL);
        }
        status = time_launches(c, &d, out_seconds, err);
    }
    ls_cuda_drop(c, pipeline);
    ls_gpu_memory_free(gpu, places[0]);
    ls_gpu_memory_free(gpu, places[1]);
    return status;
}

ls_status ls_cuda_peak(ls_device *device, ls_math math, double *out_gflops, double *out_copy_gbs, ls_error *err) {
    ls_gpu *gpu = device->state;
    ls_arena arena;
    ls_kernel kernel;
    double seconds = 1;
    ls_mutex_lock(gpu->mutex);
    ls_arena_init(&arena, gpu->heap);
    int groups = 32 * ((ls_cuda *)gpu->driver)->multiprocessors;
    const size_t out_bytes = (size_t)groups * THREADS * 4, copy_bytes[2] = {(size_t)COPY * 4, (size_t)COPY * 4};
    ls_status status = arithmetic_kernel(&arena, groups, math != LS_LOCKED, &kernel, err);
    if (status == LS_OK) {
        status = measure(gpu, &arena, &kernel, &out_bytes, &seconds, err);
        *out_gflops = 2.0 * CHAINS * STEPS * LOOPS * THREADS * groups / seconds * 1e-9;
    }
    if (status == LS_OK) {
        status = copy_kernel(&arena, &kernel, err);
    }
    if (status == LS_OK) {
        status = measure(gpu, &arena, &kernel, copy_bytes, &seconds, err);
        *out_copy_gbs = 2.0 * 4.0 * COPY / seconds * 1e-9;
    }
    ls_arena_free(&arena);
    ls_mutex_unlock(gpu->mutex);
    return status;
}
