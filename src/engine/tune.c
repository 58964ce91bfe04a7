/* Strategies: which there are for a kernel, and which is fastest. Invariant: a kernel is timed only after it was right, so no
 * wrong one is ever chosen, however fast; where no candidate is right the device's own choice stands, and is vetted as any
 * kernel. The choice is kept in the disk cache under the spec, the device and its driver. */
#include "base/os.h"
#include "device/cache.h"
#include "engine/exec.h"
#include "engine/vet.h"
#include <stdio.h>
#include <string.h>

static const char *const names[] = {"naive", "tiled", "gemv", "matrix", "vendor"};
enum { NAMES = sizeof names / sizeof *names };

/* Compiles by a strategy. LS_OK with *out_binary NULL and the reason in `why`: it is not available, or wrong (*out_wrong). */
static ls_status candidate(ls_device *device, const ls_spec *spec, const char *name, bool check, ls_kernel_binary **out_binary,
                           bool *out_wrong, ls_error *why) {
    *out_binary = NULL;
    *out_wrong = false;
    *why = (ls_error){0};
    ls_status status = device->backend->compile(device, spec, name, out_binary, why);
    if (status != LS_OK) {
        *out_binary = NULL;
        return status == LS_ERR_UNSUPPORTED ? LS_OK : status;
    }
    status = check ? ls_vet_kernel(device, spec, *out_binary, why) : LS_OK;
    if (status != LS_OK) {
        device->backend->destroy(device, *out_binary);
        *out_binary = NULL;
        *out_wrong = status == LS_ERR_DIFFERS;
    }
    return status == LS_ERR_DIFFERS || status == LS_ERR_UNSUPPORTED ? LS_OK : status;
}

static ls_status try_all(ls_device *device, const ls_spec *spec, char out_best[LS_STRATEGY_MAX], ls_error *err) {
    ls_context *context = device->context;
    double best = 1e30;
    for (int i = 0; i < NAMES; i++) {
        ls_kernel_binary *binary;
        bool wrong;
        double seconds = 1e30;
        ls_error why;
        ls_status status = candidate(device, spec, names[i], true, &binary, &wrong, &why);
        if (wrong) {
            ls_context_log(context, LS_LOG_WARN, "%s: strategy %s of kernel %s is quarantined: %s", device->id, names[i],
                           spec->name, why.message);
        }
        if (status != LS_OK) {
            return LS_FAIL(err, status, "tuning: %s", why.message);
        }
        if (binary) {
            status = ls_vet_time(device, spec, binary, &seconds, err);
            device->backend->destroy(device, binary);
            LS_TRY(err, status);
            ls_context_log(context, LS_LOG_INFO, "%s: kernel %s by %s: %.1f us", device->id, spec->name, names[i], seconds * 1e6);
        }
        if (seconds < best) {
            best = seconds;
            snprintf(out_best, LS_STRATEGY_MAX, "%s", names[i]);
        }
    }
    return LS_OK;
}

static bool is_wanted(const ls_device *device, const ls_spec *spec) {
    const char *asked = ls_os_env("LOCKSTEP_TUNE");
    return asked && strcmp(asked, "on") == 0 && device->defers && spec->kind == LS_GROUP_CONTRACT;
}

ls_status ls_tune(ls_device *device, const ls_spec *spec, char out_strategy[LS_STRATEGY_MAX], ls_error *err) {
    ls_cache_key key;
    ls_text text;
    void *kept;
    size_t size;
    out_strategy[0] = 0;
    if (!is_wanted(device, spec)) {
        return LS_OK;
    }
    ls_text_init(&text, device->heap);
    ls_spec_print(&text, spec);
    if (text.failed) {
        ls_text_free(&text);
        return LS_FAIL_MEMORY(err, "tuning");
    }
    ls_cache_key_begin(&key, "tune", device);
    ls_cache_key_add(&key, text.data, text.len);
    ls_text_free(&text);
    if (ls_cache_get(device->heap, &key, &kept, &size)) {
        bool fits = size < LS_STRATEGY_MAX;
        memcpy(out_strategy, kept, fits ? size : 0);
        out_strategy[fits ? size : 0] = 0;
        ls_free(device->heap, kept);
        return LS_OK;
    }
    LS_TRY(err, try_all(device, spec, out_strategy, err));
    (void)ls_cache_put(device->heap, &key, out_strategy, strlen(out_strategy));
    return LS_OK;
}

/* ---- the list ---- */

static ls_status list_step(const ls_step *step, ls_strategy_fn each, void *user, ls_error *err) {
    const ls_spec *spec = &step->kernel->spec;
    for (int i = 0; i < NAMES; i++) {
        ls_kernel_binary *binary;
        bool wrong;
        ls_error why;
        ls_status status = candidate(step->device, spec, names[i], step->device->defers, &binary, &wrong, &why);
        if (status != LS_OK) {
            return LS_FAIL(err, status, "%s", why.message);
        }
        each(user, spec->name, step->device->id, names[i],
             binary  ? LS_STRATEGY_AVAILABLE
             : wrong ? LS_STRATEGY_WRONG
                     : LS_STRATEGY_UNAVAILABLE,
             why.message);
        if (binary) {
            step->device->backend->destroy(step->device, binary);
        }
    }
    return LS_OK;
}

ls_status ls_block_strategies(const ls_block *block, ls_strategy_fn each, void *user, ls_error *err) {
    for (int i = 0; i < block->n_steps; i++) {
        const ls_step *step = &block->steps[i];
        if (step->kind == LS_STEP_KERNEL) {
            LS_TRY(err, list_step(step, each, user, err));
        } else if (step->kind == LS_STEP_LOOP) {
            LS_TRY(err, ls_block_strategies(&step->loop->body, each, user, err));
        }
    }
    return LS_OK;
}
