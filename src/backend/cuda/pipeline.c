/* Kernels to PTX, and PTX to functions of the driver, which compiles it. What it made is kept in the disk cache, under the
 * whole text; anything that does not work out there only means that the text is compiled again. */
#include "backend/cuda/cuda.h"
#include "device/cache.h"

ls_status ls_cuda_render(void *driver, ls_arena *arena, const ls_kernel *kernel, ls_gpu_code *out_code, ls_error *err) {
    const ls_cuda *c = driver;
    const ls_ptx_options options = {.sm = c->sm, .isa = c->isa, .arch = c->arch};
    ls_text text;
    ls_text_init(&text, c->heap);
    ls_status status = ls_render_ptx(&text, kernel, &options, err);
    char *copy = status == LS_OK ? ls_arena_copy(arena, text.data, text.len + 1) : NULL;
    if (status == LS_OK && !copy) {
        status = LS_FAIL_MEMORY(err, "PTX");
    }
    out_code->data = copy;
    out_code->size = text.len;
    ls_text_free(&text);
    return status;
}

static void key_of(const ls_cuda *c, const ls_gpu_code *code, ls_cache_key *out_key) {
    ls_cache_key_begin(out_key, "cubin", c->owner);
    ls_cache_key_add(out_key, code->data, code->size);
}

static bool load_kept(ls_cuda *c, const ls_gpu_code *code, ls_cuda_pipeline *p) {
    ls_cache_key key;
    void *binary;
    size_t size;
    key_of(c, code, &key);
    if (!ls_cache_get(c->heap, &key, &binary, &size)) {
        return false;
    }
    bool loaded = c->api.module_load(&p->module, binary, 0, NULL, NULL) == LS_CU_OK;
    ls_free(c->heap, binary);
    p->module = loaded ? p->module : NULL;
    return loaded;
}

/* Through the driver's linker, the only one that gives its binary away. */
static bool load_linked(ls_cuda *c, const ls_gpu_code *code, ls_cuda_pipeline *p) {
    ls_cu_link link = NULL;
    ls_cache_key key;
    void *binary = NULL;
    size_t size = 0;
    int options[] = {LS_CU_JIT_TARGET};
    void *values[] = {(void *)(uintptr_t)LS_CU_TARGET_90A};
    unsigned n = c->arch; /* what is for one architecture alone is not linked for its family */
    if (!ls_cache_is_on() || c->api.link_create(n, options, values, &link) != LS_CU_OK) {
        return false;
    }
    void *text = (void *)(uintptr_t)code->data;
    bool done = c->api.link_add(link, LS_CU_INPUT_PTX, text, code->size + 1, code->name, 0, NULL, NULL) == LS_CU_OK &&
                c->api.link_complete(link, &binary, &size) == LS_CU_OK &&
                c->api.module_load(&p->module, binary, 0, NULL, NULL) == LS_CU_OK;
    if (done) {
        key_of(c, code, &key);
        (void)ls_cache_put(c->heap, &key, binary, size);
    } else {
        p->module = NULL;
    }
    (void)c->api.link_destroy(link); /* and with it the binary */
    return done;
}

static ls_status load_text(ls_cuda *c, const ls_gpu_code *code, ls_cuda_pipeline *p, ls_error *err) {
    char log[512] = "";
    int options[] = {LS_CU_JIT_ERROR_LOG, LS_CU_JIT_ERROR_LOG_SIZE};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    ls_cu_result r = c->api.module_load(&p->module, code->data, 2, options, values);
    if (r != LS_CU_OK) {
        ls_error own = {.code = LS_OK};
        ls_status status = ls_cuda_check(c, r, ls_cuda_names.module_load, &own);
        return LS_FAIL(err, status, "kernel %s: %s%s%s", code->name, own.message, log[0] ? ": " : "", log);
    }
    return LS_OK;
}

static ls_status load(ls_cuda *c, const ls_gpu_code *code, ls_cuda_pipeline *p, ls_error *err) {
    bool kept = load_kept(c, code, p);
    if (code->out_cached) {
        *code->out_cached = kept;
    }
    if (!kept && !load_linked(c, code, p)) {
        LS_TRY(err, load_text(c, code, p, err)); /* which also says why */
    }
    p->n_maps = ls_ptx_product_maps(code->kernel, p->maps);
    LS_CUDA_TRY(c, err, module_function, &p->function, p->module, "main");
    if (code->kernel->shared_bytes > LS_CUDA_STATIC_SHARED) {
        p->dynamic_shared = (unsigned)code->kernel->shared_bytes;
        LS_CUDA_TRY(c, err, function_set, p->function, LS_CU_FUNC_MAX_DYNAMIC_SHARED, (int)p->dynamic_shared);
    }
    return LS_OK;
}

ls_status ls_cuda_build(void *driver, const ls_gpu_code *code, void **out_pipeline, ls_error *err) {
    ls_cuda *c = driver;
    ls_cuda_pipeline *p = ls_alloc_zeroed(c->heap, sizeof *p);
    if (!p) {
        return LS_FAIL_MEMORY(err, "a compiled kernel");
    }
    ls_status status = ls_cuda_enter(c, err);
    if (status == LS_OK) {
        status = load(c, code, p, err);
        if (status != LS_OK && p->module) {
            (void)c->api.module_unload(p->module);
        }
        ls_cuda_leave(c);
    }
    if (status != LS_OK) {
        ls_free(c->heap, p);
        return status;
    }
    *out_pipeline = p;
    return LS_OK;
}

void ls_cuda_drop(void *driver, void *pipeline) {
    ls_cuda *c = driver;
    ls_cuda_pipeline *p = pipeline;
    ls_error ignored = {.code = LS_OK};
    if (ls_cuda_enter(c, &ignored) == LS_OK) {
        (void)ls_cuda_settle(c, &ignored);
        (void)c->api.stream_synchronize(c->stream);
        ls_cuda_forget(c, p);
        if (p->product) {
            ls_cuda_product_free(c, p->product);
        } else {
            (void)c->api.module_unload(p->module);
        }
        ls_cuda_leave(c);
    } else {
        ls_cuda_forget(c, p);
        if (p->product) {
            ls_cuda_product_free(c, p->product);
        }
    }
    ls_free(c->heap, p);
}
