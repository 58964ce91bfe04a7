/* Contexts: the heap, the log, devices, symbols. Invariant: every list is changed under the mutex; devices
 * and symbols live as long as the context, so that pointers to them may stand in any key. */
#include "base/os.h"
#include "engine/exec.h"
#include <lockstep/inspect.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

ls_status ls_context_create(const ls_context_options *options, ls_context **out_context, ls_error *err) {
    static const ls_context_options none;
    options = options ? options : &none;
    *out_context = NULL;
    const char *isa = options->isa ? options->isa : ls_os_env("LOCKSTEP_ISA");
    int threads;
    ls_check check;
    LS_TRY(err, ls_environment_read(options, &threads, &check, err));
    if (isa && strlen(isa) >= sizeof((ls_context *)0)->isa) {
        return LS_FAIL(err, LS_ERR_INVALID, "isa is \"%.40s\", expected avx512, avx2, simd128, neon or scalar", isa);
    }
    ls_heap boot; /* the context's own block comes from the heap that it holds */
    ls_heap_init(&boot, options->allocator, options->memory_limit);
    ls_context *context = ls_alloc_zeroed(&boot, sizeof *context);
    if (!context) {
        return LS_FAIL_MEMORY(err, "a context");
    }
    ls_heap_init(&context->heap, options->allocator, options->memory_limit);
    atomic_store(&context->heap.used, atomic_load(&boot.used));
    atomic_store(&context->heap.peak, atomic_load(&boot.used));
    context->heap.keeps = true;
    context->log = options->log;
    context->log_user = options->log_user;
    context->threads = threads;
    if (isa) {
        memcpy(context->isa, isa, strlen(isa) + 1);
    }
    context->mutex = ls_mutex_create(&context->heap);
    if (!context->mutex) {
        ls_context_destroy(context);
        return LS_FAIL_MEMORY(err, "a context");
    }
    if (check != LS_CHECK_NONE) {
        ls_engine_set_check(context, check, ls_default_check_hooks);
    }
    *out_context = context;
    return LS_OK;
}

void ls_context_destroy(ls_context *context) {
    if (!context) {
        return;
    }
    ls_heap *heap = &context->heap;
    while (context->vars) {
        ls_var *next = context->vars->next;
        ls_buffer_release(context->vars->storage);
        ls_free(heap, context->vars->name);
        ls_free(heap, context->vars);
        context->vars = next;
    }
    for (size_t i = context->devices.len; i-- > 0;) {
        ls_device *device = context->devices.data[i];
        ls_kernel_cache_free(device);
        device->backend->close(device);
        ls_device_forget_compiles(device);
        ls_free(heap, device);
    }
    ls_array_free(heap, &context->devices);
    while (context->symbols) {
        ls_symbol *next = context->symbols->next;
        ls_free(heap, context->symbols->name);
        ls_free(heap, context->symbols);
        context->symbols = next;
    }
    ls_mutex_destroy(heap, context->mutex);
    ls_heap_end(heap);
    ls_heap last = {.allocator = heap->allocator};
    atomic_init(&last.used, atomic_load(&heap->used));
    ls_free(&last, context);
}

void ls_context_memory(const ls_context *context, size_t *out_used, size_t *out_peak) {
    if (out_used) {
        *out_used = atomic_load(&context->heap.used);
    }
    if (out_peak) {
        *out_peak = atomic_load(&context->heap.peak);
    }
}

void ls_context_log(ls_context *context, ls_log_level level, const char *fmt, ...) {
    if (context->log) {
        char line[LS_MESSAGE_MAX];
        va_list args;
        va_start(args, fmt);
        vsnprintf(line, sizeof line, fmt, args);
        va_end(args);
        context->log(context->log_user, level, line);
    }
}

void ls_engine_set_fault(ls_context *context, const ls_spec_fault *fault) {
    atomic_store(&context->fault, fault);
}

void ls_engine_set_check(ls_context *context, ls_check level, const ls_check_hooks *hooks) {
    ls_mutex_lock(context->mutex);
    atomic_store(&context->hooks, hooks);
    atomic_store(&context->check, (int)level);
    for (size_t i = 0; i < context->devices.len; i++) {
        atomic_store(&context->devices.data[i]->guard, level != LS_CHECK_NONE);
    }
    ls_mutex_unlock(context->mutex);
}

/* ---- devices ---- */

/* "cuda:1" is device 1 of backend "cuda"; "cuda" and "cuda:0" are one. */
static bool id_matches(const char *id, const ls_backend *backend, int *out_index) {
    size_t n = strlen(backend->name);
    int64_t index = 0;
    if (strncmp(id, backend->name, n) != 0 || (id[n] && id[n] != ':') ||
        (id[n] && !ls_parse_i64(id + n + 1, &index)) || index < 0 || index > 255) {
        return false;
    }
    *out_index = (int)index;
    return true;
}

/* "cuda:uuid=..." names a device by digits of its UUID; *out_prefix is where they begin, NULL for another form. */
static ls_status parse_uuid(const char *id, const ls_backend *backend, const char **out_prefix, ls_error *err) {
    size_t n = strlen(backend->name);
    bool by_uuid = strncmp(id, backend->name, n) == 0 && strncmp(id + n, ":uuid=", 6) == 0;
    *out_prefix = by_uuid ? id + n + 6 : NULL;
    if (by_uuid && !backend->has_uuids) {
        return LS_FAIL(err, LS_ERR_DEVICE, "no device \"%.64s\": devices of %s have no UUID", id, backend->name);
    }
    return !by_uuid || ls_uuid_valid(*out_prefix)
               ? LS_OK
               : LS_FAIL(err, LS_ERR_DEVICE, "no device \"%.64s\": after uuid= 4 to 32 hexadecimal digits are expected", id);
}

static void device_free(ls_device *device) {
    ls_kernel_cache_free(device);
    ls_device_forget_compiles(device);
    ls_free(device->heap, device);
}

/* Opens it, or opens it on. It is among the context's devices from its first LS_ERR_AGAIN; a failure frees it. */
static ls_status device_open(ls_device *device, int index, ls_error *err) {
    ls_context *context = device->context;
    ls_status status = device->backend->open(device, index, err);
    bool listed = device->opening;
    device->wanted = NULL;
    device->opening = status == LS_ERR_AGAIN;
    if ((status == LS_OK || device->opening) && !listed) {
        (void)ls_array_push(device->heap, &context->devices, device); /* reserved when it was made */
    } else if (status != LS_OK && !device->opening) {
        for (size_t i = 0; i < context->devices.len; i++) {
            if (context->devices.data[i] == device) {
                context->devices.data[i] = context->devices.data[--context->devices.len];
            }
        }
        device_free(device);
    }
    return status == LS_OK ? LS_OK : LS_FORWARD(err, status);
}

/* `id` of a device by index; for index -1 digits of a UUID. */
static ls_status device_new(ls_context *context, const ls_backend *backend, int index, const char *id,
                            ls_device **out_device, ls_error *err) {
    ls_heap *heap = &context->heap;
    ls_device *device = ls_alloc_zeroed(heap, sizeof *device);
    if (!device || !ls_array_reserve(heap, &context->devices, 1)) {
        ls_free(heap, device);
        return LS_FAIL_MEMORY(err, "a device");
    }
    device->context = context;
    device->heap = heap;
    device->backend = backend;
    device->threads = context->threads;
    device->isa = context->isa[0] ? context->isa : NULL;
    snprintf(device->id, sizeof device->id, "%s", index < 0 ? backend->name : id);
    device->wanted = index < 0 ? id : NULL;
    atomic_init(&device->guard, ls_context_check(context) != LS_CHECK_NONE);
    ls_status status = ls_kernel_cache_create(device, err);
    if (status != LS_OK) {
        ls_free(heap, device);
        return LS_FORWARD(err, status);
    }
    *out_device = device;
    return device_open(device, index, err);
}

ls_status ls_device_open(ls_context *context, const char *id, ls_device **out_device, ls_error *err) {
    *out_device = NULL;
    for (int i = 0; id && ls_backends[i]; i++) {
        int index = -1;
        const char *uuid;
        LS_TRY(err, parse_uuid(id, ls_backends[i], &uuid, err));
        if (!uuid && !id_matches(id, ls_backends[i], &index)) {
            continue;
        }
        char canonical[32] = "";
        if (!uuid) {
            snprintf(canonical, sizeof canonical, index ? "%s:%d" : "%s", ls_backends[i]->name, index);
        }
        ls_numerics numerics = ls_numerics_enter();
        ls_mutex_lock(context->mutex);
        ls_device *device = NULL;
        for (size_t j = 0; j < context->devices.len && !device; j++) {
            ls_device *d = context->devices.data[j];
            bool same = uuid ? d->backend == ls_backends[i] && ls_uuid_matches(uuid, d->caps.uuid) : strcmp(d->id, canonical) == 0;
            device = same ? d : NULL;
        }
        ls_status status = !device           ? device_new(context, ls_backends[i], index, uuid ? uuid : canonical, &device, err)
                           : device->opening ? device_open(device, index, err)
                                             : LS_OK;
        ls_mutex_unlock(context->mutex);
        ls_numerics_leave(numerics);
        *out_device = status == LS_OK ? device : NULL;
        return status;
    }
    char known[128];
    size_t len = 0;
    for (int i = 0; ls_backends[i] && len < sizeof known; i++) {
        len += (size_t)snprintf(known + len, sizeof known - len, "%s%s", i ? ", " : "", ls_backends[i]->name);
    }
    return LS_FAIL(err, LS_ERR_DEVICE, "no device \"%.64s\": this build has %s", id ? id : "(null)", known);
}

ls_device_work ls_device_get_work(const ls_device *device) {
    ls_device_work work = {.vetted = atomic_load(&device->vets),
                           .verdicts = atomic_load(&device->verdicts),
                           .vet_ns = atomic_load(&device->vet_ns)};
    for (const ls_compile_note *note = atomic_load(&device->compiles); note; note = note->next) {
        *(note->cached ? &work.cached : &work.compiled) += 1;
        work.make_ns += note->make_ns;
        work.driver_ns += note->driver_ns;
    }
    return work;
}

void ls_device_compiles(const ls_device *device, ls_compile_fn each, void *user) {
    for (const ls_compile_note *note = atomic_load(&device->compiles); note; note = note->next) {
        const ls_compile_info info = {note->name, note->make_ns, note->driver_ns, note->cached};
        each(user, &info);
    }
}

const char *ls_device_id(const ls_device *device) {
    return device->id;
}

const ls_caps *ls_device_caps(const ls_device *device) {
    return &device->caps;
}

/* ---- symbols ---- */

ls_symbol *ls_symbol_create(ls_context *context, const char *name, int64_t bound, ls_error *err) {
    if (!name || !name[0] || bound < 1 || bound > INT64_C(1) << 40) {
        LS_FAIL(err, LS_ERR_INVALID,
                "symbol \"%.64s\" has bound %lld, expected a name and a bound of 1 to 2^40",
                name ? name : "(null)", (long long)bound);
        return NULL;
    }
    ls_symbol *symbol = ls_alloc_zeroed(&context->heap, sizeof *symbol);
    char *copy = ls_strdup(&context->heap, name);
    if (!symbol || !copy) {
        ls_free(&context->heap, symbol);
        ls_free(&context->heap, copy);
        LS_FAIL_MEMORY(err, "a symbol");
        return NULL;
    }
    symbol->name = copy;
    symbol->bound = bound;
    symbol->heap = &context->heap;
    ls_mutex_lock(context->mutex);
    symbol->index = atomic_load(&context->n_symbols);
    symbol->next = context->symbols;
    context->symbols = symbol;
    atomic_store(&context->n_symbols, symbol->index + 1);
    ls_mutex_unlock(context->mutex);
    return symbol;
}

ls_heap *ls_context_heap(ls_context *context) {
    return &context->heap;
}
