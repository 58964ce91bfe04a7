/* Kernels to PTX, and PTX to functions of the driver, which compiles it. */
#include "backend/cuda/cuda.h"

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

static ls_status load(ls_cuda *c, const ls_gpu_code *code, ls_cuda_pipeline *p, ls_error *err) {
    char log[512] = "";
    int options[] = {LS_CU_JIT_ERROR_LOG, LS_CU_JIT_ERROR_LOG_SIZE};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    ls_cu_result r = c->api.module_load(&p->module, code->data, 2, options, values);
    if (r != LS_CU_OK) {
        ls_error own = {.code = LS_OK};
        ls_status status = ls_cuda_check(c, r, ls_cuda_names.module_load, &own);
        return LS_FAIL(err, status, "kernel %s: %s%s%s", code->name, own.message, log[0] ? ": " : "", log);
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
        (void)c->api.module_unload(p->module);
        ls_cuda_leave(c);
    } else {
        ls_cuda_forget(c, p);
    }
    ls_free(c->heap, p);
}
