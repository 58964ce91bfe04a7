/* Strategies: which there are for a kernel, and which is fastest. Invariant: a kernel is timed only after it was right, so no
 * wrong one is ever chosen, however fast; where no candidate is right the device's own choice stands, and is vetted as any
 * kernel. The choice and the names of those that were wrong are kept in the disk cache, under the spec, the device and its
 * driver. */
#include "base/os.h"
#include "device/cache.h"
#include "engine/exec.h"
#include "engine/vet.h"
#include <stdio.h>
#include <string.h>

enum { CANDIDATES = 8, KEPT_MAX = 128, VERSION = 2 };

typedef struct candidates {
    ls_device *device;
    const ls_spec *spec;
    int n; /* that were right */
    const char *names[CANDIDATES];
    ls_kernel_binary *binaries[CANDIDATES];
    char wrong[KEPT_MAX]; /* " !name" for each */
} candidates;

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

/* All that are right. */
static ls_status gather(candidates *c, ls_error *err) {
    for (const char *const *name = ls_strategy_names(c->spec->kind); *name && c->n < CANDIDATES; name++) {
        ls_error why;
        bool wrong;
        ls_status status = candidate(c->device, c->spec, *name, true, &c->binaries[c->n], &wrong, &why);
        if (status != LS_OK) {
            return LS_FAIL(err, status, "tuning: %s", why.message);
        }
        if (wrong) {
            size_t at = strlen(c->wrong);
            snprintf(c->wrong + at, sizeof c->wrong - at, " !%s", *name);
            ls_context_log(c->device->context, LS_LOG_WARN, "%s: strategy %s of kernel %s is quarantined: %s", c->device->id,
                           *name, c->spec->name, why.message);
        }
        if (c->binaries[c->n]) {
            c->names[c->n++] = *name;
        }
    }
    return LS_OK;
}

static ls_status choose(candidates *c, const char **out_best, ls_error *err) {
    double best = 1e30;
    LS_TRY(err, gather(c, err));
    *out_best = c->n ? c->names[0] : "";
    for (int i = 0; c->n > 1 && i < c->n; i++) { /* one alone needs no time */
        double seconds;
        LS_TRY(err, ls_vet_time(c->device, c->spec, c->binaries[i], &seconds, err));
        ls_context_log(c->device->context, LS_LOG_INFO, "%s: kernel %s by %s: %.1f us", c->device->id, c->spec->name, c->names[i],
                       seconds * 1e6);
        if (seconds < best) {
            best = seconds;
            *out_best = c->names[i];
        }
    }
    return LS_OK;
}

static bool is_wanted(const ls_device *device, const ls_spec *spec) {
    const char *asked = ls_os_env("LOCKSTEP_TUNE");
    const char *const *names = ls_strategy_names(spec->kind);
    bool several = names[0] && names[1] && spec->kind != LS_GROUP_ATTENTION; /* that is chosen before there are kernels */
    return asked && strcmp(asked, "on") == 0 && device->defers && several;
}

/* What was kept: the choice, then " !name" for each that was wrong. */
static bool recall(const ls_device *device, const ls_spec *spec, const ls_cache_key *key, char out_strategy[LS_STRATEGY_MAX]) {
    void *kept;
    size_t size;
    if (!ls_cache_get(device->heap, key, &kept, &size)) {
        return false;
    }
    const char *wrong = memchr(kept, ' ', size);
    size_t length = wrong ? (size_t)(wrong - (const char *)kept) : size;
    bool known = length == 0;
    for (const char *const *name = ls_strategy_names(spec->kind); *name && !known; name++) {
        known = strlen(*name) == length && memcmp(*name, kept, length) == 0;
    }
    if (known) {
        memcpy(out_strategy, kept, length);
        out_strategy[length] = 0;
    }
    if (known && wrong) {
        ls_context_log(device->context, LS_LOG_INFO, "%s: of kernel %s, strategies that were wrong when it was tuned:%.*s",
                       device->id, spec->name, (int)(size - length), wrong);
    }
    ls_free(device->heap, kept);
    return known;
}

ls_status ls_tune(ls_device *device, const ls_spec *spec, char out_strategy[LS_STRATEGY_MAX], ls_error *err) {
    ls_cache_key key;
    ls_text text;
    uint32_t version = VERSION;
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
    ls_cache_key_add(&key, &version, sizeof version);
    ls_cache_key_add(&key, text.data, text.len);
    ls_text_free(&text);
    if (recall(device, spec, &key, out_strategy)) {
        return LS_OK;
    }
    candidates c = {.device = device, .spec = spec};
    const char *best = "";
    char kept[LS_STRATEGY_MAX + KEPT_MAX];
    ls_status status = choose(&c, &best, err);
    for (int i = 0; i < c.n; i++) {
        device->backend->destroy(device, c.binaries[i]);
    }
    if (status == LS_OK) {
        snprintf(out_strategy, LS_STRATEGY_MAX, "%s", best);
        snprintf(kept, sizeof kept, "%s%s", best, c.wrong);
        (void)ls_cache_put(device->heap, &key, kept, strlen(kept));
    }
    return status;
}

/* ---- the list ---- */

static ls_status list_kind(const ls_step *step, const ls_spec *spec, int kind, ls_strategy_fn each, void *user, ls_error *err) {
    for (const char *const *name = ls_strategy_names(kind); *name; name++) {
        ls_kernel_binary *binary;
        bool wrong;
        ls_error why;
        if (strcmp(*name, "composite") == 0) {
            each(user, spec->name, step->device->id, *name, LS_STRATEGY_AVAILABLE, "");
            continue;
        }
        if (strcmp(*name, "im2col") == 0) { /* other kernels: index maps into memory, and a product */
            each(user, spec->name, step->device->id, *name, step->group->no_im2col ? LS_STRATEGY_UNAVAILABLE : LS_STRATEGY_AVAILABLE,
                 step->group->no_im2col ? LS_NO_IM2COL : "");
            continue;
        }
        const char *asked = strcmp(*name, "direct") == 0 ? "naive" : *name;
        ls_status status = candidate(step->device, spec, asked, step->device->defers, &binary, &wrong, &why);
        if (status != LS_OK) {
            return LS_FAIL(err, status, "%s", why.message);
        }
        each(user, spec->name, step->device->id, *name,
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

/* The last kernel of a composite attention: what the whole of it would be. */
static ls_status list_attention(const ls_step *step, ls_strategy_fn each, void *user, ls_error *err) {
    const ls_group *group = step->group;
    ls_tensor *product = group->attends;
    ls_arena arena;
    int n = 0;
    ls_plan plan = {0};
    ls_spec spec;
    if (group->not_fused) {
        each(user, step->kernel->spec.name, step->device->id, "composite", LS_STRATEGY_AVAILABLE, "");
        each(user, step->kernel->spec.name, step->device->id, "fused", LS_STRATEGY_UNAVAILABLE, group->not_fused);
        return LS_OK;
    }
    ls_arena_init(&arena, step->device->heap);
    ls_tensor **order = ls_graph_order(&arena, &product, 1, &n);
    ls_buffer **values = LS_ARENA_ARRAY(&arena, ls_buffer *, n + 1);
    ls_status status = order && values ? LS_OK : LS_FAIL_MEMORY(err, "the strategies of an attention");
    for (int i = 0; status == LS_OK && i < n; i++) { /* as when it was planned: nothing is computed yet */
        values[i] = order[i]->value;
        order[i]->value = ls_copy_of(order[i])->leaf_bind < 0 ? NULL : values[i];
    }
    status = status == LS_OK ? ls_plan_build(&arena, &product, 1, LS_PLAN_FUSION | LS_PLAN_ATTENTION, &plan, err) : status;
    const ls_group *whole = status == LS_OK && plan.n_groups ? &plan.groups[plan.n_groups - 1] : NULL;
    if (whole && whole->kind == LS_GROUP_ATTENTION) {
        status = ls_spec_build(&arena, whole, &spec, err);
        status = status == LS_OK ? list_kind(step, &spec, LS_GROUP_ATTENTION, each, user, err) : status;
    }
    for (int i = 0; order && values && i < n; i++) {
        order[i]->value = values[i];
    }
    ls_arena_free(&arena);
    return status;
}

static ls_status list_step(const ls_step *step, ls_strategy_fn each, void *user, ls_error *err) {
    const ls_spec *spec = &step->kernel->spec;
    LS_TRY(err, list_kind(step, spec, spec->kind, each, user, err));
    if (step->group->convolves) {
        LS_TRY(err, list_kind(step, spec, LS_STRATEGY_CONV, each, user, err));
    }
    return step->group->attends && spec->kind != LS_GROUP_ATTENTION ? list_attention(step, each, user, err) : LS_OK;
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
