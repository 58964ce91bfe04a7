/* A device's measured peak: chains of multiply-adds in registers, and a copy of more memory than caches hold. The kernels take
 * the way of all others: built as KIR, made legal, rendered. Timed by the host over bursts that are long enough. */
#include "base/os.h"
#include "gpu/internal.h"
#include "kir/build.h"

enum {
    CHAINS = 8,
    STEPS = 8,
    LOOPS = 256,
    THREADS = 256,
    ROUNDS = 3,
    MAX_GROUPS = 16384,
    SLICE = 4096,
    MAX_BURST = 4096
};
#define COPY_BYTES ((size_t)256 << 20)
#define LONG_ENOUGH 30e-3

static ls_status arithmetic_kernel(ls_arena *arena, bool fast, ls_kernel *out, ls_error *err) {
    ls_kb kb;
    ls_val chain[CHAINS];
    uint32_t flags = fast ? LS_KF_FAST : 0;
    ls_kb_init(&kb, arena, "peak", err);
    int y = ls_kb_global(&kb, "y", LS_F32, LS_MEM_WRITE, (int64_t)MAX_GROUPS * THREADS);
    ls_kb_workgroup(&kb, THREADS, 1, 1);
    ls_kb_grid(&kb, 0, MAX_GROUPS, LS_VAL_NONE, 1);
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

static ls_status copy_kernel(ls_arena *arena, int64_t count, ls_kernel *out, ls_error *err) {
    ls_kb kb;
    ls_val v[SLICE / THREADS / 4];
    ls_kb_init(&kb, arena, "copy", err);
    int x = ls_kb_global(&kb, "x", LS_F32, LS_MEM_READ, count),
        y = ls_kb_global(&kb, "y", LS_F32, LS_MEM_WRITE, count);
    ls_kb_workgroup(&kb, THREADS, 1, 1);
    ls_kb_grid(&kb, 0, count / SLICE, LS_VAL_NONE, 1);
    ls_val first = ls_kb_add(&kb, ls_kb_mul(&kb, ls_kb_group_id(&kb, 0), ls_kb_i32(&kb, SLICE)),
                             ls_kb_mul(&kb, ls_kb_local_id(&kb, 0), ls_kb_i32(&kb, 4)));
    for (int i = 0; i < SLICE / THREADS / 4; i++) {
        v[i] = ls_kb_load(&kb, x, ls_kb_add(&kb, first, ls_kb_i32(&kb, i * THREADS * 4)), LS_VAL_NONE,
                          LS_VAL_NONE, 4);
    }
    for (int i = 0; i < SLICE / THREADS / 4; i++) {
        ls_kb_store(&kb, y, ls_kb_add(&kb, first, ls_kb_i32(&kb, i * THREADS * 4)), v[i], LS_VAL_NONE);
    }
    return ls_kb_finish(&kb, out);
}

static ls_status burst(ls_gpu *gpu, const ls_gpu_dispatch *d, int n, double *out_seconds, ls_error *err) {
    uint64_t begin = ls_os_nanoseconds(), ticket;
    int done = 0;
    for (int i = 0; i < n; i++) {
        LS_TRY(err, gpu->api->dispatch(gpu->driver, d, err));
    }
    LS_TRY(err, gpu->api->flush(gpu->driver, &ticket, err));
    LS_TRY(err, gpu->api->wait(gpu->driver, ticket, 1, &done, err));
    *out_seconds = (double)(ls_os_nanoseconds() - begin) * 1e-9;
    return LS_OK;
}

/* The most work a second: first more workgroups (up to `groups`), then more launches, until a burst is long enough. */
static ls_status rate(ls_gpu *gpu, ls_gpu_dispatch *d, uint32_t first, uint32_t groups, double work,
                      double *out_rate, ls_error *err) {
    double seconds, best = 0;
    int n = 1;
    d->groups[0] = first;
    LS_TRY(err, burst(gpu, d, 1, &seconds, err)); /* what a driver does at first use */
    for (;;) {
        LS_TRY(err, burst(gpu, d, n, &seconds, err));
        if (seconds >= LONG_ENOUGH || n >= MAX_BURST) {
            break;
        }
        if (d->groups[0] < groups) {
            d->groups[0] = d->groups[0] * 2 < groups ? d->groups[0] * 2 : groups;
        } else {
            n *= 2;
        }
    }
    for (int i = 0; i < ROUNDS; i++) {
        LS_TRY(err, burst(gpu, d, n, &seconds, err));
        double r = work * d->groups[0] * n / seconds;
        best = r > best ? r : best;
    }
    *out_rate = best;
    return LS_OK;
}

/* `work` of a workgroup, each second. Under the lock. */
static ls_status measure(ls_gpu *gpu, ls_arena *arena, const ls_kernel *kernel, size_t bytes, uint32_t first,
                         uint32_t groups, double work, double *out_rate, ls_error *err) {
    ls_kernel legal;
    const ls_legal_param *params;
    ls_gpu_code code;
    ls_gpu_memory places[2] = {{0}};
    ls_gpu_range ranges[2];
    uint32_t words[8] = {0};
    void *pipeline;
    LS_TRY(err, ls_gpu_prepare(gpu, arena, kernel, gpu->limits.traits, &legal, &params, &code, err));
    ls_gpu_words(&legal, params, NULL, words);
    LS_TRY(err, gpu->api->build(gpu->driver, &code, &pipeline, err));
    ls_status status = LS_OK;
    for (int i = 0; i < kernel->n_globals && status == LS_OK; i++) {
        status = ls_gpu_memory_new(gpu, bytes, &places[i], err);
        if (status == LS_OK) {
            ranges[i] = (ls_gpu_range){places[i].block->block, places[i].offset, bytes};
        }
    }
    if (status == LS_OK) {
        ls_gpu_dispatch d = {.pipeline = pipeline,
                             .kernel = &legal,
                             .bindings = ranges,
                             .words = words,
                             .n_words = code.n_words,
                             .groups = {1, 1, 1}};
        status = rate(gpu, &d, first, groups, work, out_rate, err);
    }
    gpu->api->drop(gpu->driver, pipeline);
    ls_gpu_memory_free(gpu, places[0]);
    ls_gpu_memory_free(gpu, places[1]);
    return status;
}

ls_status ls_gpu_rate(ls_device *device, ls_rate rate, size_t bytes, int threads, double *out_rate, ls_error *err) {
    ls_gpu *gpu = device->state;
    ls_arena arena;
    ls_kernel kernel;
    double per_second = 0;
    ls_status status;
    (void)bytes, (void)threads;
    if (rate != LS_RATE_FMA && rate != LS_RATE_MUL_ADD && rate != LS_RATE_COPY) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "%s: GPUs measure fma, mul+add and copy, not %s", device->id, ls_rate_name(rate));
    }
    ls_mutex_lock(gpu->mutex);
    ls_arena_init(&arena, gpu->heap);
    size_t size = gpu->limits.max_binding < COPY_BYTES ? gpu->limits.max_binding : COPY_BYTES;
    size -= size % (SLICE * 4);
    uint32_t slices = (uint32_t)(size / (SLICE * 4));
    if (rate == LS_RATE_COPY) {
        status = copy_kernel(&arena, (int64_t)(size / 4), &kernel, err);
        if (status == LS_OK) {
            status = measure(gpu, &arena, &kernel, size, slices, slices, 2.0 * 4.0 * SLICE, &per_second, err);
        }
    } else {
        status = arithmetic_kernel(&arena, rate == LS_RATE_FMA, &kernel, err);
        if (status == LS_OK) {
            status = measure(gpu, &arena, &kernel, (size_t)MAX_GROUPS * THREADS * 4, 4, MAX_GROUPS,
                             2.0 * CHAINS * STEPS * LOOPS * THREADS, &per_second, err);
        }
    }
    *out_rate = per_second * 1e-9;
    ls_arena_free(&arena);
    ls_mutex_unlock(gpu->mutex);
    return status;
}
