/* A check on emitted kernels: every kernel that a session runs on ref is lowered, verified, simplified, and interpreted on
 * copies of the same arguments, with workgroups in shuffled order; all bytes of every argument must be the same, else the run
 * fails. LOCKSTEP_PRINT=1 prints the kernels that differ; LOCKSTEP_RENDERED=1 gives all to spirv-val and ptxas. One program a copy of this; one thread. */
#ifndef LOCKSTEP_TESTS_TEST_EMIT_H
#define LOCKSTEP_TESTS_TEST_EMIT_H

#include "emit/emit.h"
#include "engine/session.h"
#include "support/rendered.h"
#include "support/world.h"
#include "legal_support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct reason {
    char text[96];
    long count;
} reason;

typedef struct tally {
    long rows, specs, kernels, unsupported, reported, failed, instructions;
    reason reasons[16];
    int32_t max_groups;
    uint32_t cover; /* templates */
    ls_emit_caps caps;    /* beside max_groups */
    const char *strategy; /* to force; where it does not apply the choice is the emitter's own */
    long forced;          /* specs that took it */
    long several, workgroups, serial; /* specs of several kernels; kernels with barriers; kernels of one thread */
    const uint32_t *sets;   /* NULL, or sets of traits that kernels are legalised for, in turn */
    int n_sets;
    long legal, refused, before_legal, after_legal; /* kernels, and their instructions before and after */
} tally;
static tally total;

typedef struct snapshot {
    ls_arena arena;
    void **bytes; /* by argument, before the launch */
} snapshot;

static void *arg_bytes(const ls_check_event *event, int arg) {
    return (char *)event->launch->args[arg]->handle + event->launch->offsets[arg];
}
static size_t arg_size(const ls_check_event *event, int arg) {
    const ls_spec_arg *a = &event->spec->args[arg];
    return (size_t)a->numel * ls_dtype_size(a->dtype);
}

static void drop(const ls_check_event *event, void *state) {
    snapshot *s = state;
    if (s) {
        ls_arena_free(&s->arena);
        ls_free(&event->session->context->heap, s);
    }
}

static ls_status before(const ls_check_event *event, void **out_state, ls_error *err) {
    ls_heap *heap = &event->session->context->heap;
    snapshot *s = ls_alloc_zeroed(heap, sizeof *s);
    (void)err;
    assert_non_null(s);
    ls_arena_init(&s->arena, heap);
    s->bytes = LS_ARENA_ARRAY(&s->arena, void *, event->spec->n_args + 1);
    for (int i = 0; i < event->spec->n_args; i++) {
        s->bytes[i] = ls_arena_copy(&s->arena, arg_bytes(event, i), arg_size(event, i));
        assert_non_null(s->bytes[i]);
        bool in_place = false;
        for (int j = 0; j < event->spec->n_args; j++) {
            in_place = in_place || (j != i && arg_bytes(event, j) == arg_bytes(event, i));
        }
        if (event->spec->args[i].written && !in_place) { /* as the engine does before the launch */
            memset(s->bytes[i], LS_POISON, arg_size(event, i));
        }
    }
    *out_state = s;
    return LS_OK;
}

static void unsupported(const char *message) {
    const char *why = strrchr(message, ':');
    why = why ? why + 2 : message;
    total.unsupported++;
    for (int i = 0; i < 16; i++) {
        if (total.reasons[i].count == 0 || strncmp(total.reasons[i].text, why, 95) == 0) {
            snprintf(total.reasons[i].text, 96, "%.95s", why);
            total.reasons[i].count++;
            return;
        }
    }
}

static void print_failure(const ls_check_event *event, ls_arena *arena, const ls_kernel_list *list) {
    if (getenv("LOCKSTEP_PRINT")) {
        ls_text text;
        ls_text_init(&text, &event->session->context->heap);
        ls_spec_print(&text, event->spec);
        for (int i = 0; list && i < list->n_kernels; i++) {
            ls_kernel simple;
            ls_kernel_print(&text, &list->kernels[i].kernel);
            if (ls_kernel_simplify(arena, &list->kernels[i].kernel, NULL, &simple, NULL) == LS_OK) {
                ls_kernel_print(&text, &simple);
            }
        }
        fprintf(stderr, "%s\n", text.data ? text.data : "");
        ls_text_free(&text);
    }
}

/* Runs the kernel made legal for the next set of traits, on a device that is wrong wherever the set lets it. */
static ls_status run_legal(const ls_check_event *event, snapshot *s, const ls_kernel *kernel, ls_interp_launch launch,
                           ls_error *err) {
    ls_heap *heap = &event->session->context->heap;
    uint32_t traits = total.sets[total.legal++ % total.n_sets];
    const ls_legal_param *legal_params;
    ls_kernel simple, legal, foe;
    ls_interp_buffer buffers[64];
    int64_t params[40];
    ls_status status = ls_kernel_legalize(&s->arena, kernel, traits, &legal, &legal_params, err);
    if (status == LS_ERR_UNSUPPORTED) {
        total.refused++;
        unsupported(err->message);
        ls_error_clear(err);
        return ls_kernel_interp(heap, kernel, &launch, err);
    }
    LS_TRY(err, status);
    LS_TRY(err, ls_kernel_simplify(&s->arena, &legal, NULL, &simple, err));
    total.before_legal += kernel->n_body;
    total.after_legal += simple.n_body;
    assert_legal(&simple, traits);
    assert_true(simple.n_params <= 40);
    legal_values(&simple, legal_params, launch.params, params);
    for (int i = 0, b = 0; i < simple.n_mems; i++) {
        if (simple.mems[i].space == LS_MEM_GLOBAL) {
            bool same = ls_dtype_size(simple.mems[i].dtype) == ls_dtype_size(kernel->mems[i].dtype);
            buffers[b] = launch.buffers[b];
            buffers[b].count = same ? buffers[b].count : ls_kmem_count(&simple, i, params);
            buffers[b].uninitialised &= same;
            b++;
        }
    }
    launch.buffers = buffers;
    launch.params = params;
    make_hostile(&simple, traits, &foe);
    status = ls_kernel_interp(heap, &foe, &launch, err);
    free(foe.body);
    return status == LS_OK ? LS_OK : LS_FAIL(err, status, "made legal for %04x", traits);
}

/* The arguments as the kernels leave them. */
static ls_status run_list(const ls_check_event *event, snapshot *s, const ls_kernel_list *list, void **args, uint32_t *status,
                          bool simplify, ls_error *err) {
    ls_heap *heap = &event->session->context->heap;
    void **scratch = LS_ARENA_ARRAY(&s->arena, void *, list->n_scratch + 1);
    bool *filled = LS_ARENA_ARRAY(&s->arena, bool, list->n_scratch + 1);
    for (int i = 0; i < list->n_scratch; i++) {
        scratch[i] = ls_arena_alloc(&s->arena, 4 * (size_t)list->scratch[i].count * ls_dtype_size(list->scratch[i].dtype) + 64);
    }
    for (int i = 0; i < list->n_kernels; i++) {
        const ls_emit_kernel *e = &list->kernels[i];
        ls_kernel kernel = e->kernel;
        ls_interp_buffer buffers[64];
        int64_t params[16];
        LS_TRY(err, ls_kernel_verify(heap, &kernel, err));
        if (simplify) {
            LS_TRY(err, ls_kernel_simplify(&s->arena, &e->kernel, NULL, &kernel, err));
            LS_TRY(err, ls_kernel_verify(heap, &kernel, err));
            if (getenv("LOCKSTEP_RENDERED")) {
                LS_TRY(err, rendered_add(&e->kernel, err));
            }
            total.kernels++;
            total.instructions += kernel.n_body;
            total.workgroups += kernel.shared_bytes > 0;
            total.serial += ls_kernel_threads(&kernel) == 1;
        }
        assert_true(kernel.n_globals <= 64 && kernel.n_params <= 16);
        for (int b = 0; b < kernel.n_globals; b++) {
            int n = e->bindings[b].number;
            ls_emit_place place = e->bindings[b].place;
            buffers[b] = place == LS_EMIT_ARG       ? (ls_interp_buffer){args[n], event->spec->args[n].numel, false}
                         : place == LS_EMIT_SCRATCH ? (ls_interp_buffer){scratch[n], list->scratch[n].count, !filled[n]}
                                                    : (ls_interp_buffer){status, 1, false};
            if (place == LS_EMIT_SCRATCH) {
                filled[n] = true;
            }
        }
        for (int p = 0; p < kernel.n_params; p++) {
            params[p] = event->launch->symbols ? event->launch->symbols[e->symbols[p]->index] : e->symbols[p]->bound;
        }
        ls_interp_launch launch = {.buffers = buffers, .params = params, .seed = simplify ? 77 : 0, .subgroup = total.caps.subgroup};
        LS_TRY(err, total.sets ? run_legal(event, s, &kernel, launch, err) : ls_kernel_interp(heap, &kernel, &launch, err));
    }
    return LS_OK;
}

static ls_status compare(const ls_check_event *event, snapshot *s, const ls_kernel_list *list, bool simplify, ls_error *err) {
    void **args = LS_ARENA_ARRAY(&s->arena, void *, event->spec->n_args + 1);
    uint32_t status = 0;
    for (int i = 0; i < event->spec->n_args; i++) {
        args[i] = ls_arena_alloc(&s->arena, 4 * arg_size(event, i) + 64); /* small elements may be taken for words */
        assert_non_null(args[i]);
        memcpy(args[i], s->bytes[i], arg_size(event, i));
    }
    LS_TRY(err, run_list(event, s, list, args, &status, simplify, err));
    for (int i = 0; i < event->spec->n_args; i++) {
        if (!event->spec->args[i].written) {
            continue;
        }
        const char *expected = arg_bytes(event, i), *actual = args[i];
        size_t size = ls_dtype_size(event->spec->args[i].dtype);
        for (size_t e = 0; e < arg_size(event, i); e += size) {
            if (memcmp(expected + e, actual + e, size) != 0) {
                uint64_t a = 0, x = 0;
                memcpy(&a, actual + e, size);
                memcpy(&x, expected + e, size);
                return LS_FAIL(err, LS_ERR_DIFFERS, "kernel %s: argument %d, element %zu: %llx, expected %llx", event->spec->name,
                               i, e / size, (unsigned long long)a, (unsigned long long)x);
            }
        }
    }
    if ((status != 0) != (event->launch->out_of_range != 0)) {
        return LS_FAIL(err, LS_ERR_DIFFERS, "kernel %s: status %u, ref %lld", event->spec->name, status,
                       (long long)event->launch->out_of_range);
    }
    total.reported += simplify && status != 0;
    return LS_OK;
}

static ls_status after(const ls_check_event *event, void *state, ls_error *err) {
    snapshot *s = state;
    ls_kernel_list list = {0};
    ls_emit_caps caps = total.caps;
    caps.max_groups = total.max_groups ? total.max_groups : caps.max_groups;
    ls_error own = {.code = LS_OK};
    const char *strategy = total.strategy ? total.strategy : getenv("LOCKSTEP_STRATEGY");
    ls_status status = ls_emit(&s->arena, event->spec, &caps, strategy, &list, &own);
    total.forced += strategy && status == LS_OK;
    if (strategy && status == LS_ERR_UNSUPPORTED) {
        own = (ls_error){.code = LS_OK};
        status = ls_emit(&s->arena, event->spec, &caps, NULL, &list, &own);
    }
    total.cover |= list.cover;
    if (status == LS_ERR_UNSUPPORTED) {
        unsupported(own.message);
        drop(event, state);
        return LS_OK;
    }
    total.specs++;
    total.several += list.n_kernels > 1;
    status = status == LS_OK ? compare(event, s, &list, true, &own) : status;
    if (status == LS_OK && total.specs % 4 == 0) {
        status = compare(event, s, &list, false, &own);
    }
    if (status != LS_OK) {
        print_failure(event, &s->arena, &list);
        LS_FAIL(err, status, "%s", own.message);
    }
    drop(event, state);
    return status;
}
static const ls_check_hooks hooks = {before, after, drop};

static inline world open_checked(void) {
    world w = world_open("ref");
    ls_engine_set_check(w.context, LS_CHECK_BITS, &hooks);
    return w;
}

#endif
