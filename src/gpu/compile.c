/* From a spec to kernels that a driver has compiled. A part of a binary is one emitted kernel; its variants are compiled when
 * a launch first needs them, the plain one at once. */
#include "base/os.h"
#include "base/sha256.h"
#include "gpu/internal.h"
#include <string.h>

enum { MAX_BINDINGS = LS_GPU_BINDINGS, MAX_VALUES = 256 }; /* of a kernel; values are parameters, bases included */

static ls_status check_limits(const ls_gpu *gpu, const ls_kernel *k, ls_error *err) {
    const ls_gpu_limits *l = &gpu->limits;
    const struct {
        int64_t is, most;
        const char *what;
    } rows[] = {
        {k->n_globals, l->max_bindings, "buffers"},
        {ls_kernel_threads(k), l->max_threads, "threads in a workgroup"},
        {k->shared_bytes, (int64_t)l->max_shared, "bytes of shared memory"},
    };
    if (k->n_products && !l->products) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "kernel %s has a product of matrices, for which %s has no instruction", k->name,
                       gpu->device->id);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].is > rows[i].most) {
            return LS_FAIL(err, LS_ERR_UNSUPPORTED, "kernel %s needs %lld %s, %s has %lld", k->name, (long long)rows[i].is,
                           rows[i].what, gpu->device->id, (long long)rows[i].most);
        }
    }
    return LS_OK;
}

ls_status ls_gpu_prepare(ls_gpu *gpu, ls_arena *arena, const ls_kernel *kernel, uint32_t traits, ls_kernel *out_kernel,
                         const ls_legal_param **out_params, ls_gpu_code *out_code, ls_error *err) {
    ls_kernel legal;
    LS_TRY(err, ls_kernel_legalize(arena, kernel, traits, &legal, out_params, err));
    LS_TRY(err, ls_kernel_simplify(arena, &legal, NULL, out_kernel, err));
    LS_TRY(err, check_limits(gpu, out_kernel, err));
    *out_code = (ls_gpu_code){.kernel = out_kernel, .name = out_kernel->name};
    for (int32_t i = 0; i < out_kernel->n_params; i++) {
        out_code->n_words += ls_dtype_size(out_kernel->params[i].dtype) == 8 ? 2 : 1;
    }
    if (out_code->n_words > gpu->limits.max_words) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "kernel %s needs %d words of parameters, %s has %d", kernel->name,
                       out_code->n_words, gpu->device->id, gpu->limits.max_words);
    }
    return gpu->api->render(gpu->driver, arena, out_kernel, out_code, err);
}

static bool same_shape(const ls_gpu_variant *v, const int64_t *base, const int32_t *alias, int32_t n) {
    return memcmp(v->base, base, sizeof *base * (size_t)n) == 0 && memcmp(v->alias, alias, sizeof *alias * (size_t)n) == 0;
}

static ls_status variant_build(ls_kernel_binary *b, int part, const int64_t *base, const int32_t *alias,
                               ls_gpu_variant *out, ls_error *err) {
    const ls_kernel *kernel = &b->parts[part].emitted->kernel;
    ls_kernel rewritten = *kernel;
    ls_gpu_code code;
    bool plain = true;
    for (int32_t i = 0; i < kernel->n_globals; i++) {
        plain = plain && base[i] == LS_GPU_BASE_NONE && alias[i] == i;
    }
    if (!plain) {
        LS_TRY(err, ls_gpu_rewrite(&b->arena, kernel, base, alias, &rewritten, err));
    }
    if (rewritten.n_params > MAX_VALUES) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "kernel %s takes %d parameters, at most %d are expected", kernel->name,
                       rewritten.n_params, MAX_VALUES);
    }
    out->base = ls_arena_copy(&b->arena, base, sizeof *base * (size_t)kernel->n_globals);
    out->alias = ls_arena_copy(&b->arena, alias, sizeof *alias * (size_t)kernel->n_globals);
    if (!out->base || !out->alias) {
        return LS_FAIL_MEMORY(err, "a variant of a kernel");
    }
    uint64_t begin = ls_os_nanoseconds(), made;
    bool cached = false;
    LS_TRY(err, ls_gpu_prepare(b->gpu, &b->arena, &rewritten, b->gpu->limits.traits, &out->kernel, &out->params, &code, err));
    out->n_words = code.n_words;
    code.out_cached = &cached;
    made = ls_os_nanoseconds();
    LS_TRY(err, b->gpu->api->build(b->gpu->driver, &code, &out->pipeline, err));
    ls_device_note_compile(b->gpu->device, code.name, made - begin + b->emit_ns, ls_os_nanoseconds() - made, cached);
    b->emit_ns = 0;
    return LS_OK;
}

ls_status ls_gpu_variant_get(ls_kernel_binary *b, int part, const int64_t *base, const int32_t *alias,
                             ls_gpu_variant **out_variant, ls_error *err) {
    ls_gpu_part *p = &b->parts[part];
    for (ls_gpu_variant *v = p->variants; v; v = v->next) {
        if (same_shape(v, base, alias, p->emitted->kernel.n_globals)) {
            *out_variant = v;
            return LS_OK;
        }
    }
    ls_gpu_variant *v = LS_ARENA_NEW(&b->arena, ls_gpu_variant);
    if (!v) {
        return LS_FAIL_MEMORY(err, "a variant of a kernel");
    }
    ls_status status = variant_build(b, part, base, alias, v, err);
    if (status == LS_ERR_AGAIN) {
        return LS_FORWARD(err, status);
    }
    if (status != LS_OK) {
        return LS_FAIL(err, status, "%s: kernel %s did not compile", b->gpu->device->id, p->emitted->kernel.name);
    }
    v->next = p->variants;
    p->variants = v;
    *out_variant = v;
    return LS_OK;
}

/* The product by the vendor's library. */
static ls_status build_vendor(ls_kernel_binary *b, ls_error *err) {
    const ls_gpu_vendor *vendor = b->gpu->limits.vendor;
    ls_emit_matrices matrices;
    const char *why = NULL;
    ls_error own = {.code = LS_OK};
    if (b->spec.math == LS_LOCKED) {
        why = "vendor kernels have an order of their own, which locked arithmetic does not allow";
    } else if (!vendor) {
        why = "not available here: only cuda has its vendor's library";
    } else {
        LS_TRY(err, ls_emit_plain(&b->arena, &b->spec, &matrices, &why, err));
    }
    if (!why) {
        ls_status status = vendor->build(b->gpu->driver, &matrices, b->spec.math, &b->vendor, &own);
        if (status != LS_OK && status != LS_ERR_UNSUPPORTED) {
            return LS_FAIL(err, status, "%s", own.message);
        }
        why = status == LS_OK ? NULL : own.message;
        memcpy(b->vendor_args, matrices.arg, sizeof b->vendor_args);
    }
    return why ? LS_FAIL(err, LS_ERR_UNSUPPORTED, "kernel %s: strategy vendor: %s", b->spec.name, why) : LS_OK;
}

static ls_status build_all(ls_kernel_binary *b, const char *strategy, ls_error *err) {
    ls_gpu *gpu = b->gpu;
    ls_status late = LS_OK;
    const ls_gpu_limits *l = &gpu->limits;
    ls_emit_caps caps = {.max_groups = l->max_groups,
                         .max_threads = l->max_threads,
                         .max_shared = (int64_t)l->max_shared,
                         .subgroup = l->subgroup,
                         .n_frags = l->n_frags,
                         .frag_words = l->frag_words,
                         .products = l->products};
    memcpy(caps.frags, l->frags, sizeof caps.frags);
    if (!strategy && !(l->traits & LS_KT_SUBNORMAL32) && b->spec.math == LS_LOCKED) {
        strategy = "naive"; /* a soft sum is some hundred instructions, and tiles hold many: drivers take minutes over them */
    }
    if (strategy && strcmp(strategy, "vendor") == 0) {
        return build_vendor(b, err);
    }
    uint64_t begin = ls_os_nanoseconds();
    ls_error why = {.code = LS_OK};
    ls_status status = ls_emit(&b->arena, &b->spec, &caps, strategy, &b->list, &why);
    if (status != LS_OK) {
        return LS_FAIL(err, status, "%s: %s", gpu->device->id, why.message);
    }
    b->emit_ns = ls_os_nanoseconds() - begin;
    b->parts = LS_ARENA_ARRAY(&b->arena, ls_gpu_part, b->list.n_kernels + 1);
    b->scratch_offset = LS_ARENA_ARRAY(&b->arena, size_t, b->list.n_scratch + 1);
    if (!b->parts || !b->scratch_offset) {
        return LS_FAIL_MEMORY(err, "a kernel");
    }
    for (int32_t i = 0; i < b->list.n_scratch; i++) {
        size_t bytes = ((size_t)b->list.scratch[i].count * ls_dtype_size(b->list.scratch[i].dtype) + 255) / 256 * 256;
        b->scratch_offset[i] = b->scratch_bytes;
        b->scratch_bytes += bytes ? bytes : 256;
    }
    for (int32_t i = 0; i < b->list.n_kernels; i++) {
        b->parts[i].emitted = &b->list.kernels[i];
        int32_t n = b->list.kernels[i].kernel.n_globals;
        int64_t *base = LS_ARENA_ARRAY(&b->arena, int64_t, n + 1);
        int32_t *alias = LS_ARENA_ARRAY(&b->arena, int32_t, n + 1);
        if (!base || !alias) {
            return LS_FAIL_MEMORY(err, "a kernel");
        }
        for (int32_t j = 0; j < n; j++) {
            alias[j] = j;
            base[j] = LS_GPU_BASE_NONE;
        }
        ls_gpu_variant *plain;
        if (n > MAX_BINDINGS) {
            return LS_FAIL(err, LS_ERR_UNSUPPORTED, "kernel %s needs %d buffers, at most %d are expected",
                           b->list.kernels[i].kernel.name, n, MAX_BINDINGS);
        }
        if (n <= l->max_bindings) { /* else each launch brings some of them together */
            ls_status one = ls_gpu_variant_get(b, i, base, alias, &plain, err);
            if (one != LS_OK && one != LS_ERR_AGAIN) {
                return one;
            }
            late = one == LS_OK ? late : one; /* a late device is asked for all parts at once */
        }
    }
    return late;
}

ls_status ls_gpu_compile(ls_device *device, const ls_spec *spec, const char *strategy, ls_kernel_binary **out_binary,
                         ls_error *err) {
    ls_gpu *gpu = device->state;
    ls_kernel_binary *b = ls_alloc_zeroed(gpu->heap, sizeof *b);
    if (!b) {
        return LS_FAIL_MEMORY(err, "a kernel");
    }
    b->gpu = gpu;
    ls_arena_init(&b->arena, gpu->heap);
    ls_status status = ls_spec_copy(&b->arena, spec, &b->spec, err);
    if (status == LS_OK) {
        ls_mutex_lock(gpu->mutex);
        status = build_all(b, strategy, err);
        ls_mutex_unlock(gpu->mutex);
    }
    if (status != LS_OK) {
        ls_gpu_destroy(device, b);
        return LS_FORWARD(err, status);
    }
    *out_binary = b;
    return LS_OK;
}

void ls_gpu_destroy(ls_device *device, ls_kernel_binary *b) {
    ls_gpu *gpu = b->gpu;
    (void)device;
    ls_mutex_lock(gpu->mutex);
    if (b->vendor) {
        gpu->api->drop(gpu->driver, b->vendor);
    }
    for (int32_t i = 0; b->parts && i < b->list.n_kernels; i++) {
        for (ls_gpu_variant *v = b->parts[i].variants; v; v = v->next) {
            gpu->api->drop(gpu->driver, v->pipeline);
        }
    }
    ls_mutex_unlock(gpu->mutex);
    ls_arena_free(&b->arena);
    ls_free(gpu->heap, b);
}

void ls_gpu_describe(const ls_kernel_binary *b, ls_text *out) {
    ls_spec_print(out, &b->spec);
    ls_text_add(out, b->vendor ? "; a product of the vendor's library\n" : "");
    for (int32_t i = 0; i < b->list.n_kernels; i++) {
        const ls_gpu_variant *plain = b->parts[i].variants;
        while (plain && plain->next) { /* the first that was made stands last */
            plain = plain->next;
        }
        if (!plain) {
            ls_kernel_print(out, &b->parts[i].emitted->kernel);
            continue;
        }
        ls_arena arena;
        ls_gpu_code code = {.kernel = &plain->kernel, .name = plain->kernel.name, .n_words = plain->n_words};
        ls_arena_init(&arena, b->gpu->heap);
        ls_kernel_print(out, &b->parts[i].emitted->kernel);
        ls_text_printf(out, "; made legal for %s:\n", b->gpu->device->id);
        ls_kernel_print(out, &plain->kernel);
        if (b->gpu->api->render(b->gpu->driver, &arena, &plain->kernel, &code, NULL) == LS_OK && code.size) {
            if (memchr(code.data, 0, code.size) == NULL) {
                ls_text_add_n(out, code.data, code.size);
            } else { /* words are not for reading; what describes them must still differ where they do */
                char hex[65];
                ls_sha256 sha;
                ls_sha256_init(&sha);
                ls_sha256_add(&sha, code.data, code.size);
                ls_sha256_hex(&sha, hex);
                ls_text_printf(out, "; %zu bytes of code, SHA-256 %s\n", code.size, hex);
            }
        }
        ls_arena_free(&arena);
    }
}
