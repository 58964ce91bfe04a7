/* A simulated device with threads: kernels run in the interpreter, which reports races, reads of what nothing wrote and
 * indices out of bounds. It takes the whole way that a GPU takes, on any machine, and its arithmetic can be as wrong as that
 * of real ones: sim is exact, sim:1 has little more than WebGPU, sim:2 also flushes subnormals, fuses products into sums,
 * divides and takes roots with errors of some ULPs, sim:3 does so with 64-bit types. All must be certified: what a device gets
 * wrong is done another way. */
#include "backend/sim/sim.h"
#include "gpu/gpu.h"
#include <string.h>

typedef struct sim {
    ls_heap *heap;
    bool wrong;
    uint64_t seed; /* of the order of workgroups */
} sim;

static ls_status sim_block_new(void *driver, size_t size, void **out_block, ls_error *err) {
    *out_block = ls_alloc(((sim *)driver)->heap, size);
    if (!*out_block) {
        return LS_FAIL_MEMORY(err, "a block of the simulated device");
    }
    memset(*out_block, 0xff, size); /* NaN, so that what is read before it was written shows */
    return LS_OK;
}
static void sim_block_free(void *driver, void *block) {
    ls_free(((sim *)driver)->heap, block);
}
static ls_status sim_write(void *driver, void *block, size_t offset, const void *data, size_t size, ls_error *err) {
    (void)driver, (void)err;
    memcpy((char *)block + offset, data, size);
    return LS_OK;
}
static ls_status sim_read(void *driver, void *block, size_t offset, void *data, size_t size, ls_error *err) {
    (void)driver, (void)err;
    memcpy(data, (char *)block + offset, size);
    return LS_OK;
}
static ls_status sim_copy(void *driver, void *to, size_t to_offset, void *from, size_t from_offset, size_t size,
                          ls_error *err) {
    (void)driver, (void)err;
    memmove((char *)to + to_offset, (char *)from + from_offset, size);
    return LS_OK;
}

static ls_status sim_render(void *driver, ls_arena *arena, const ls_kernel *kernel, ls_gpu_code *out_code, ls_error *err) {
    ls_kernel *wrong = LS_ARENA_NEW(arena, ls_kernel);
    if (!wrong) {
        return LS_FAIL_MEMORY(err, "a simulated kernel");
    }
    *wrong = *kernel;
    if (((sim *)driver)->wrong) {
        LS_TRY(err, ls_sim_spoil(arena, kernel, wrong, err));
    }
    out_code->data = wrong;
    out_code->size = 0; /* a structure in memory: nothing to print or hash */
    return LS_OK;
}
static ls_status sim_build(void *driver, const ls_gpu_code *code, void **out_pipeline, ls_error *err) {
    (void)driver, (void)err;
    *out_pipeline = (void *)(uintptr_t)code->data; /* lives as long as its binary */
    return LS_OK;
}
static void sim_drop(void *driver, void *pipeline) {
    (void)driver, (void)pipeline;
}

static ls_status sim_dispatch(void *driver, const ls_gpu_dispatch *d, ls_error *err) {
    sim *s = driver;
    ls_kernel bound = *(const ls_kernel *)d->pipeline; /* memories are as long as what is bound */
    const ls_kernel *k = &bound;
    ls_arena arena;
    ls_arena_init(&arena, s->heap);
    bound.mems = ls_arena_copy(&arena, k->mems, sizeof *k->mems * (size_t)k->n_mems);
    ls_interp_buffer *buffers = LS_ARENA_ARRAY(&arena, ls_interp_buffer, k->n_globals + 1);
    int64_t *params = LS_ARENA_ARRAY(&arena, int64_t, k->n_params + 1);
    ls_status status = buffers && params && bound.mems ? LS_OK : LS_FAIL_MEMORY(err, "a simulated launch");
    for (int32_t i = 0, word = 0; status == LS_OK && i < k->n_params; i++) {
        uint64_t low = d->words[word++];
        bool wide = ls_dtype_size(k->params[i].dtype) == 8;
        uint64_t v = wide ? low | (uint64_t)d->words[word++] << 32 : low;
        params[i] = (int64_t)ls_kir_wrap(k->params[i].dtype, v);
    }
    for (int32_t m = 0; status == LS_OK && m < k->n_mems; m++) {
        ls_kmem *mem = &bound.mems[m];
        if (mem->space == LS_MEM_GLOBAL) {
            const ls_gpu_range *r = &d->bindings[mem->binding];
            size_t width = ls_dtype_size(mem->dtype); /* blocks are whole words */
            mem->count = (int64_t)((r->size + width - 1) / width);
            mem->count_param = LS_VAL_NONE;
            buffers[mem->binding] = (ls_interp_buffer){(char *)r->block + r->offset, mem->count, false};
        }
    }
    if (status == LS_OK) {
        status = ls_kernel_interp(s->heap, k, &(ls_interp_launch){.buffers = buffers, .params = params, .seed = ++s->seed}, err);
    }
    ls_arena_free(&arena);
    return status;
}

static ls_status sim_flush(void *driver, uint64_t *out_ticket, ls_error *err) {
    (void)driver, (void)err;
    if (out_ticket) {
        *out_ticket = 0;
    }
    return LS_OK;
}
static ls_status sim_wait(void *driver, uint64_t ticket, int blocking, int *out_done, ls_error *err) {
    (void)driver, (void)ticket, (void)blocking, (void)err;
    *out_done = 1;
    return LS_OK;
}

static const ls_gpu_api api = {
    .block_new = sim_block_new,
    .block_free = sim_block_free,
    .write = sim_write,
    .read = sim_read,
    .copy = sim_copy,
    .render = sim_render,
    .build = sim_build,
    .drop = sim_drop,
    .dispatch = sim_dispatch,
    .flush = sim_flush,
    .wait = sim_wait,
};

static void sim_close(ls_device *device) {
    ls_gpu *gpu = device->state;
    if (gpu) {
        void *driver = ls_gpu_driver(gpu);
        ls_gpu_free(gpu);
        ls_free(device->heap, driver);
    }
}

static ls_status sim_open(ls_device *device, int index, ls_error *err) {
    static const char *const names[] = {"exact", "words alone", "wrong arithmetic", "wrong arithmetic, f64"};
    const uint32_t floats = LS_KT_UNFUSED32 | LS_KT_SUBNORMAL32 | LS_KT_DIV32 | LS_KT_SQRT32 | LS_KT_ROUND32 | LS_KT_CAST32;
    const uint32_t traits[] = {LS_KT_ALL, floats, floats | LS_KT_ORDER32, floats | LS_KT_ORDER32 | LS_KT_INT64 | LS_KT_FLOAT64 | LS_KT_CAST64};
    if (index < 0 || index > 3) {
        return LS_FAIL(err, LS_ERR_DEVICE, "sim:%d: the simulated devices are sim and sim:1 to sim:3", index);
    }
    sim *s = ls_alloc_zeroed(device->heap, sizeof *s);
    ls_gpu *gpu = NULL;
    if (!s) {
        return LS_FAIL_MEMORY(err, "the simulated device");
    }
    *s = (sim){.heap = device->heap, .wrong = index >= 2};
    const ls_gpu_limits limits = {.traits = traits[index],
                                  .align = index ? 256 : 16,
                                  .max_binding = SIZE_MAX,
                                  .block = index ? 0 : 1 << 16,
                                  .max_shared = index ? 16384 : 49152,
                                  .max_bindings = index ? 10 : 64,
                                  .max_words = 64,
                                  .max_groups = 65535,
                                  .max_threads = index ? 256 : 1024};
    ls_text name;
    ls_text_init(&name, device->heap);
    ls_text_printf(&name, "simulated GPU (%s)", names[index]);
    memcpy(device->caps.name, name.failed ? "" : name.data, name.failed ? 1 : name.len + 1);
    ls_text_free(&name);
    device->caps.dtypes = (1u << LS_DTYPE_COUNT) - 1;
    device->caps.shared_bytes = limits.max_shared;
    device->caps.subgroup = 32;
    ls_status status = ls_gpu_create(device, &api, s, &limits, &gpu, err);
    if (status != LS_OK) {
        ls_free(device->heap, s);
        return LS_FORWARD(err, status);
    }
    device->state = gpu;
    status = ls_gpu_probe(gpu, err);
    if (status != LS_OK) {
        sim_close(device);
        device->state = NULL;
    }
    return status;
}

const ls_backend ls_backend_sim = LS_GPU_BACKEND("sim", sim_open, sim_close);
