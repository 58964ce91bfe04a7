/* The CPU backend: opens the host's processor, compiles specs into phases of tile programs, and runs them on
 * a pool of threads.
 *
 * Invariants: no bit depends on the instruction set, on how many threads there are, or on how points are
 * divided among them. Scratch memory is the device's, grown when a spec is compiled; launches are done one at a
 * time and allocate only what they can do without: packed operands to be kept (kept.c). */
#include "backend/cpu/chosen.h"
#include "backend/cpu/kept.h"
#include "base/os.h"
#include <string.h>

static void cpu_close(ls_device *device) {
    ls_cpu_device *d = device->state;
    if (d) {
        ls_kept_free(d);
        ls_pool_destroy(d->pool);
        ls_mutex_destroy(device->heap, d->mutex);
        ls_free(device->heap, d->scratch);
        ls_free(device->heap, d->temps);
        ls_free(device->heap, d->workspace);
        ls_free(device->heap, d->gemm_workers);
        ls_free(device->heap, d);
        device->state = NULL;
    }
}

static ls_status choose_isa(ls_cpu_device *d, const char *request, ls_error *err) {
    switch (ls_cpu_isa_choose(&d->cpu, request, &d->isa)) {
    case LS_CPU_UNKNOWN_NAME:
        return LS_FAIL(err, LS_ERR_INVALID,
                       "instruction set \"%s\" is unknown: expected avx512, avx2, simd128, neon or scalar",
                       request);
    case LS_CPU_NOT_HERE:
        return LS_FAIL(err, LS_ERR_DEVICE,
                       "instruction set \"%s\" is not available on this processor: the best one is %s",
                       request, ls_cpu_isa_name(d->isa));
    default:
        break;
    }
    d->tiles = ls_tile_isa_get(d->isa);
    d->gemm = ls_gemm_isa_for(&d->cpu, d->isa);
    if (!d->tiles || !d->gemm) {
        return LS_FAIL(err, LS_ERR_DEVICE, "instruction set %s is not in this build",
                       ls_cpu_isa_name(d->isa));
    }
    return LS_OK;
}

static void cpu_borrow(ls_device *device, ls_buffer *buffer, bool begins);

static ls_status cpu_open(ls_device *device, int index, ls_error *err) {
    if (index != 0) {
        return LS_FAIL(err, LS_ERR_DEVICE, "cpu:%d: there is one processor device, cpu", index);
    }
    ls_cpu_device *d = ls_alloc_zeroed(device->heap, sizeof *d);
    if (!d) {
        return LS_FAIL_MEMORY(err, "the CPU device");
    }
    device->state = d;
    device->planar = device->keeps_codes = device->fused_updates = true;
    device->keeps_sparse = ls_chosen_may();
    device->borrow = cpu_borrow;
    d->heap = device->heap;
    ls_cpu_detect(&d->cpu);
    const char *isa = device->isa && device->isa[0] ? device->isa : ls_os_env("LOCKSTEP_ISA");
    ls_status status = choose_isa(d, isa, err);
    if (status == LS_OK) {
        d->pool = ls_pool_create(device->heap, device->threads);
        d->mutex = ls_mutex_create(device->heap);
        d->gemm_workers =
            d->pool ? ls_alloc_zeroed(device->heap, ls_gemm_worker_size() * (size_t)ls_pool_threads(d->pool))
                    : NULL;
        status = d->gemm_workers && d->mutex ? LS_OK : LS_FAIL_MEMORY(err, "the CPU's threads");
    }
    if (status != LS_OK) {
        cpu_close(device);
        return status;
    }
    d->threads = ls_pool_threads(d->pool);
    ls_caps *caps = &device->caps;
    const char *name = d->cpu.name[0] ? d->cpu.name : "processor";
    memcpy(caps->name, name, strlen(name) + 1);
    strncpy(caps->isa, ls_cpu_isa_name(d->isa), sizeof caps->isa - 1);
    caps->threads = d->threads;
    caps->cache_bytes[0] = (size_t)d->cpu.l1d_bytes;
    caps->cache_bytes[1] = (size_t)d->cpu.l2_bytes;
    caps->cache_bytes[2] = (size_t)d->cpu.l3_bytes;
    caps->dtypes = (1u << LS_DTYPE_COUNT) - 1;
    return LS_OK;
}

static ls_status cpu_alloc(ls_device *device, size_t size, void **out_handle, ls_error *err) {
    ls_cpu_device *d = device->state;
    *out_handle = ls_alloc(device->heap, size);
    if (!*out_handle) { /* what is kept can be packed again */
        ls_mutex_lock(d->mutex);
        ls_kept_free(d);
        ls_mutex_unlock(d->mutex);
        *out_handle = ls_alloc(device->heap, size);
    }
    return *out_handle ? LS_OK : LS_FAIL(err, LS_ERR_MEMORY, "out of memory for a buffer of %zu bytes on %s", size, device->id);
}
static void forget_buffer(ls_cpu_device *d, const void *handle) {
    ls_mutex_lock(d->mutex);
    ls_kept_forget_buffer(d, handle);
    ls_mutex_unlock(d->mutex);
}
static void cpu_free(ls_device *device, void *handle, size_t size) {
    (void)size;
    forget_buffer(device->state, handle);
    ls_free(device->heap, handle);
}
/* A write gives a buffer a state that no other has: an odd one after a copy (what a launch packs meanwhile is not the new content), an even one
 * in a launch, which has the mutex and so needs no locked addition. */
static void note_copy(ls_cpu_device *d, ls_buffer *buffer) {
    uint64_t copies = atomic_fetch_add_explicit(&d->copies, 1, memory_order_relaxed);
    atomic_store_explicit(&buffer->writes, 2 * copies + 1, memory_order_relaxed);
}
static void note_store(ls_cpu_device *d, ls_buffer *buffer) {
    atomic_store_explicit(&buffer->writes, 2 * ++d->stores, memory_order_relaxed);
}
static void cpu_borrow(ls_device *device, ls_buffer *buffer, bool begins) {
    if (begins) {
        note_copy(device->state, buffer);
    } else {
        forget_buffer(device->state, buffer->handle);
    }
}
/* A copy between the host's memory and a buffer's. One core alone does not reach what memory gives: many bytes are cut as kernels' tasks
 * are, so that each worker copies what it likely reads or wrote. */
enum { SPREAD_BYTES = LS_LIMIT(1 << 18, 1 << 9) };
typedef struct host_copy {
    char *dst;
    const char *src;
    size_t size, part;
} host_copy;
static void copy_part(void *ctx, long task, int worker) {
    (void)worker;
    const host_copy *c = ctx;
    const size_t first = (size_t)task * c->part, left = c->size - first;
    memcpy(c->dst + first, c->src + first, left < c->part ? left : c->part);
}
static void copy_bytes(ls_cpu_device *d, void *dst, const void *src, size_t size) {
    if (size < SPREAD_BYTES || !ls_has_threads(d)) {
        memcpy(dst, src, size);
        return;
    }
    const size_t share = size / (size_t)d->threads, least = SPREAD_BYTES / 2;
    host_copy copy = {.dst = dst, .src = src, .size = size};
    copy.part = ((share > least ? share : least) / LS_ALIGN + 1) * LS_ALIGN;
    ls_pool_run(d->pool, (long)((size + copy.part - 1) / copy.part), copy_part, &copy);
}
static ls_status cpu_upload(ls_device *device, ls_buffer *dst, size_t offset, const void *src, size_t size,
                            ls_error *err) {
    (void)err;
    copy_bytes(device->state, (char *)dst->handle + offset, src, size);
    note_copy(device->state, dst);
    return LS_OK;
}
static ls_status cpu_download(ls_device *device, const ls_buffer *src, size_t offset, void *dst, size_t size,
                              ls_error *err) {
    (void)err;
    copy_bytes(device->state, dst, (const char *)src->handle + offset, size);
    return LS_OK;
}
static ls_status cpu_copy(ls_device *device, ls_buffer *dst, size_t dst_offset, const ls_buffer *src,
                          size_t src_offset, size_t size, ls_error *err) {
    (void)err;
    memmove((char *)dst->handle + dst_offset, (const char *)src->handle + src_offset, size);
    note_copy(device->state, dst);
    return LS_OK;
}

/* ---- compile ---- */
static void cpu_destroy(ls_device *device, ls_kernel_binary *binary) {
    ls_cpu_device *d = device->state;
    bool contracts = false;
    for (int i = 0; i < binary->n_phases; i++) {
        contracts = contracts || binary->phases[i].kind == LS_PHASE_GEMM;
    }
    if (contracts) {
        ls_mutex_lock(d->mutex);
        for (int i = 0; i < binary->n_phases; i++) {
            ls_kept_forget_owner(d, &binary->phases[i]);     /* the packed product's */
            ls_kept_forget_owner(d, binary->phases[i].gemm); /* the windows' */
        }
        ls_mutex_unlock(d->mutex);
    }
    ls_arena_free(&binary->arena);
    ls_free(device->heap, binary);
}

static bool grow(ls_heap *heap, char **memory, size_t *have, size_t need, size_t times) {
    if (need <= *have) {
        return true;
    }
    char *more = ls_alloc(heap, need * times);
    if (!more) {
        return false;
    }
    ls_free(heap, *memory);
    *memory = more;
    *have = need;
    return true;
}

/* Makes room for the launches of a kernel; under the mutex. */
static bool reserve(ls_cpu_device *d, const ls_kernel_binary *b) {
    size_t scratch = (b->scratch_size + 4095) & ~(size_t)4095;
    bool ok = grow(d->heap, &d->scratch, &d->scratch_size, scratch, (size_t)d->threads) &&
              grow(d->heap, &d->temps, &d->temps_size, b->temps_size, 1);
    for (int i = 0; i < b->n_phases && ok; i++) {
        ok = b->phases[i].kind != LS_PHASE_GEMM || ls_gemm_phase_reserve(b, &b->phases[i]);
    }
    return ok;
}

static ls_status cpu_compile(ls_device *device, const ls_spec *spec, const char *strategy,
                             ls_kernel_binary **out_binary, ls_error *err) {
    ls_cpu_device *d = device->state;
    if (strategy &&
        strcmp(strategy, "implicit") == 0) { /* tiles, whose operands are read through index maps */
        strategy = "tiled";
    }
    if (strategy && strcmp(strategy, "naive") && strcmp(strategy, "tiled") && strcmp(strategy, "gemv")) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED,
                       "strategy \"%s\" is not available on cpu: it has naive, tiled and gemv", strategy);
    }
    bool contracts = false;
    for (int i = 0; i < spec->n_values; i++) {
        contracts = contracts || spec->values[i].op == LS_V_CONTRACT;
    }
    ls_kernel_binary *b = ls_alloc_zeroed(device->heap, sizeof *b);
    if (!b) {
        return LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    ls_arena_init(&b->arena, device->heap);
    b->device = d;
    ls_status status = ls_spec_copy(&b->arena, spec, &b->spec, err);
    if (status == LS_OK) {
        status = ls_chosen_plan(b, err);
    }
    if (status == LS_OK) {
        status = ls_phases_plan(b, contracts ? strategy : NULL, err);
    }
    if (status == LS_OK && b->chosen) {
        b->chosen->offset = b->temps_size;
        b->temps_size += (size_t)b->spec.args[b->chosen->dense].numel * sizeof(float) + LS_ALIGN;
    }
    if (status == LS_OK) {
        ls_mutex_lock(d->mutex);
        bool ok = reserve(d, b);
        if (!ok && d->kept) { /* what is kept can be packed again */
            ls_kept_free(d);
            ok = reserve(d, b);
        }
        ls_mutex_unlock(d->mutex);
        status = ok ? LS_OK : LS_FAIL_MEMORY(err, "the scratch memory of a kernel of the CPU");
    }
    if (status != LS_OK) {
        cpu_destroy(device, b);
        return status;
    }
    *out_binary = b;
    return LS_OK;
}

/* ---- launch ---- */
/* Whether some store has a point; values that nobody stores are not computed, and report nothing. */
static bool stores_any(const ls_spec *spec, const int64_t *extents) {
    for (int i = 0; i < spec->n_stores; i++) {
        if (ls_point_count(extents, spec->stores[i].n_axes, spec->stores[i].axes) > 0) {
            return true;
        }
    }
    return false;
}

/* A launch whose buffers of arguments are known. */
static ls_status run_whole(ls_kernel_run *run, ls_kernel_binary *binary, int n_args, ls_error *err) {
    const ls_spec *spec = &binary->spec;
    const ls_cpu_device *d = binary->device;
    if (binary->chosen) {
        run->buffers[n_args] = d->temps + binary->chosen->offset;
    }
    for (int i = 0; i < binary->n_temps; i++) {
        run->buffers[spec->n_args + i] = d->temps + binary->temps[i].offset;
    }
    for (int i = 0; i < spec->n_axes; i++) {
        run->extents[i] = ls_dim_eval(spec->extents_of_axes[i], run->launch->symbols);
    }
    if (!stores_any(spec, run->extents)) {
        return LS_OK;
    }
    if (binary->chosen && !binary->chosen->listed) {
        ls_chosen_write(run);
    }
    return ls_phases_run(run, err);
}

static ls_status cpu_launch(ls_device *device, ls_kernel_binary *binary, ls_launch *launch, ls_error *err) {
    ls_cpu_device *d = device->state;
    const ls_spec *spec = &binary->spec;
    char *few[64];
    ls_mutex_lock(d->mutex);
    ls_kernel_run run; /* extents are many, of which a kernel has few */
    run.binary = binary;
    run.launch = launch;
    run.buffers = few;
    run.begun = NULL;
    atomic_init(&run.out_of_range, 0);
    if (spec->n_args + binary->n_temps > (int)(sizeof few / sizeof *few)) {
        run.buffers = binary->many_buffers;
    }
    int n_args = spec->n_args - (binary->chosen != NULL);
    for (int i = 0; i < n_args; i++) {
        run.buffers[i] = (char *)launch->args[i]->handle + launch->offsets[i];
        if (spec->args[i].written) {
            note_store(d, launch->args[i]);
        }
    }
    ls_status status = !LS_SMALL && ls_gemm_launch_again(&run) ? LS_OK : run_whole(&run, binary, n_args, err);
    launch->out_of_range = atomic_load_explicit(&run.out_of_range, memory_order_relaxed);
    ls_mutex_unlock(d->mutex);
    return status;
}

const ls_backend ls_backend_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .upload = cpu_upload,
    .download = cpu_download,
    .copy = cpu_copy,
    .compile = cpu_compile,
    .destroy = cpu_destroy,
    .launch = cpu_launch,
    .describe = ls_cpu_describe,
    .rate = ls_cpu_rate,
};
