/* Launches: resolves what each kernel of a binary binds, picks its variant, packs its parameters, records its dispatch. */
#include "gpu/internal.h"
#include <string.h>

enum { MAX_BINDINGS = LS_GPU_BINDINGS, MAX_WORDS = 256 };

void ls_gpu_words(const ls_kernel *legal, const ls_legal_param *params, const int64_t *values, uint32_t *out_words) {
    for (int32_t i = 0; i < legal->n_params; i++) {
        uint64_t v = params[i].param < 0 ? 0 : (uint64_t)values[params[i].param];
        *out_words++ = (uint32_t)(params[i].word == 2 ? v >> 32 : v);
        if (ls_dtype_size(legal->params[i].dtype) == 8) {
            *out_words++ = (uint32_t)(v >> 32);
        }
    }
}

static ls_status grow(ls_gpu *gpu, ls_gpu_memory *memory, size_t size, ls_error *err) {
    if (memory->block && memory->size >= size) {
        return LS_OK;
    }
    ls_gpu_memory_free(gpu, *memory); /* what was recorded still runs before what comes next */
    *memory = (ls_gpu_memory){0};
    return ls_gpu_memory_new(gpu, size, memory, err);
}

typedef struct launching {
    ls_gpu *gpu;
    ls_kernel_binary *binary;
    const ls_launch *launch;
    ls_gpu_range status; /* the word that kernels report into */
} launching;

static ls_gpu_range place(const launching *l, const ls_emit_binding *b) {
    if (b->place == LS_EMIT_STATUS) {
        return l->status;
    }
    if (b->place == LS_EMIT_SCRATCH) {
        const ls_emit_scratch *s = &l->binary->list.scratch[b->number];
        const ls_gpu_memory *m = &l->gpu->scratch;
        return (ls_gpu_range){m->block->block, m->offset + l->binary->scratch_offset[b->number],
                              (size_t)s->count * ls_dtype_size(s->dtype)};
    }
    const ls_spec_arg *arg = &l->binary->spec.args[b->number];
    const ls_gpu_memory *m = l->launch->args[b->number]->handle;
    return (ls_gpu_range){m->block->block, m->offset + l->launch->offsets[b->number],
                          (size_t)arg->numel * ls_dtype_size(arg->dtype)};
}

bool ls_gpu_writes(const ls_kernel *k, int32_t binding) {
    return ls_gpu_bound(k, binding)->access & LS_MEM_WRITE;
}

static ls_dtype dtype_of(const ls_kernel *k, int32_t binding) {
    return ls_gpu_bound(k, binding)->dtype;
}

/* One kernel of a launch: what each binding of the emitted kernel is. */
typedef struct parting {
    const ls_emit_kernel *emitted;
    ls_gpu_range ranges[MAX_BINDINGS];
    int32_t alias[MAX_BINDINGS];
    bool based[MAX_BINDINGS], merged[MAX_BINDINGS], staged[MAX_BINDINGS];
    int64_t base[MAX_BINDINGS];        /* elements, of those that are based; of merged ones the same in every launch */
    ls_gpu_range origin[MAX_BINDINGS]; /* of those that are staged: where their bytes belong */
    ls_gpu_memory borrowed[2 * MAX_BINDINGS]; /* each binding apart, then some together */
    int32_t n_borrowed;
} parting;

/* ---- time ---- */

ls_status ls_gpu_collect_times(ls_gpu *gpu, ls_error *err) {
    uint64_t spent[LS_GPU_TIMERS];
    int n = gpu->n_timed;
    gpu->n_timed = 0;
    if (n) {
        LS_TRY(err, gpu->api->times(gpu->driver, spent, n, err));
    }
    for (int i = 0; i < n; i++) {
        *gpu->timed[i] += spent[i];
    }
    return LS_OK;
}

/* How a contraction is computed, as the rows of emit/cover.def tell. */
static const char *strategy_of(uint32_t cover) {
    static const struct {
        uint32_t bits;
        const char *name;
    } rows[] = {{1u << LS_COVER_PRODUCT | 1u << LS_COVER_MATRIX | 1u << LS_COVER_FRAGMENTS, "matrix"},
                {1u << LS_COVER_TILED | 1u << LS_COVER_TILED_MASKED, "tiled"},
                {1u << LS_COVER_GEMV, "gemv"},
                {1u << LS_COVER_CONTRACT_SERIAL, "naive"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (cover & rows[i].bits) {
            return rows[i].name;
        }
    }
    return "";
}

/* ---- parts ---- */

static void cover(const launching *l, ls_cover bit) {
    l->gpu->cover |= UINT32_C(1) << bit;
}

/* A place for this launch alone; given back once the last command that uses it is recorded. */
static ls_status borrow(const launching *l, parting *p, size_t size, ls_gpu_range *out_range, ls_error *err) {
    ls_gpu_memory *m = &p->borrowed[p->n_borrowed];
    LS_TRY(err, ls_gpu_memory_new(l->gpu, size, m, err));
    p->n_borrowed++;
    *out_range = (ls_gpu_range){m->block->block, m->offset, size};
    return LS_OK;
}

static ls_status copy_range(const launching *l, const ls_gpu_range *to, const ls_gpu_range *from, ls_error *err) {
    const ls_gpu *gpu = l->gpu;
    return l->launch->dry ? LS_OK : gpu->api->copy(gpu->driver, to->block, to->offset, from->block, from->offset, from->size, err);
}

/* Lets a binding work on a copy, also what is only written: parts may stay as they are. What is written goes back after. */
static ls_status stage(const launching *l, parting *p, int32_t i, const ls_gpu_range *place, ls_error *err) {
    p->origin[i] = p->ranges[i];
    p->staged[i] = true;
    p->ranges[i] = *place;
    return copy_range(l, place, &p->origin[i], err);
}

static ls_status stage_apart(const launching *l, parting *p, int32_t i, ls_error *err) {
    ls_gpu_range place;
    LS_TRY(err, borrow(l, p, p->ranges[i].size, &place, err));
    return stage(l, p, i, &place, err);
}

static bool overlap(const ls_gpu_range *a, const ls_gpu_range *b, size_t align) {
    size_t a_start = a->offset - a->offset % align, b_start = b->offset - b->offset % align;
    return a->block == b->block && a_start < b->offset + b->size && b_start < a->offset + a->size;
}

/* Which bindings are one place, for a device that binds no place twice. Equal places become one binding; of two that overlap
 * otherwise, or that are too close to be bound apart, one is copied. */
static ls_status find_aliases(const launching *l, parting *p, ls_error *err) {
    const ls_kernel *k = &p->emitted->kernel;
    for (int32_t i = 0; i < k->n_globals; i++) {
        p->alias[i] = i;
        for (int32_t j = 0; j < i && !l->gpu->limits.overlap; j++) {
            const ls_gpu_range *a = &p->ranges[j], *b = &p->ranges[i];
            if (p->alias[j] != j || !overlap(a, b, l->gpu->limits.align)) {
                continue;
            }
            if (a->offset == b->offset && dtype_of(k, i) == dtype_of(k, j)) {
                p->alias[i] = j;
                cover(l, LS_COVER_LAUNCH_ALIAS);
                break;
            }
            if (overlap(a, b, 1) && ls_gpu_writes(k, i) && ls_gpu_writes(k, j)) {
                return LS_FAIL(err, LS_ERR_INTERNAL, "kernel %s writes arguments %d and %d, which overlap", k->name, j, i);
            }
            LS_TRY(err, stage_apart(l, p, ls_gpu_writes(k, i) && !ls_gpu_writes(k, j) ? j : i, err));
        }
    }
    return LS_OK;
}

/* Bindings of one dtype that could share a place: arguments that stand for themselves, the smallest first. */
static int32_t find_mergeable(const parting *p, ls_dtype dtype, int32_t *out_chosen) {
    const ls_kernel *k = &p->emitted->kernel;
    int32_t n = 0;
    for (int32_t i = 0; i < k->n_globals; i++) {
        if (p->alias[i] == i && p->emitted->bindings[i].place == LS_EMIT_ARG && dtype_of(k, i) == dtype) {
            int32_t at = n++;
            for (; at > 0 && p->ranges[out_chosen[at - 1]].size > p->ranges[i].size; at--) {
                out_chosen[at] = out_chosen[at - 1];
            }
            out_chosen[at] = i;
        }
    }
    return n;
}

/* Brings arguments of one dtype into one place, and with them those that are the same places. */
static ls_status merge(const launching *l, parting *p, const int32_t *chosen, int32_t n, ls_error *err) {
    const ls_kernel *k = &p->emitted->kernel;
    size_t bytes = 0, at = 0, width = ls_dtype_size(dtype_of(k, chosen[0]));
    int32_t first = chosen[0];
    ls_gpu_range place;
    for (int32_t c = 0; c < n; c++) {
        bytes += (p->ranges[chosen[c]].size + 255) / 256 * 256;
        first = chosen[c] < first ? chosen[c] : first;
    }
    cover(l, LS_COVER_LAUNCH_MERGED);
    LS_TRY(err, borrow(l, p, bytes, &place, err));
    for (int32_t c = 0; c < n; c++) {
        int32_t i = chosen[c];
        size_t size = p->ranges[i].size;
        ls_gpu_range before = p->staged[i] ? p->origin[i] : p->ranges[i];
        LS_TRY(err, stage(l, p, i, &(ls_gpu_range){place.block, place.offset + at, size}, err));
        p->origin[i] = before;
        for (int32_t j = i; j < k->n_globals; j++) {
            if (p->alias[j] == i) {
                p->based[j] = p->merged[j] = true;
                p->base[j] = (int64_t)(at / width);
                p->staged[j] = true;
                p->origin[j] = before;
                p->ranges[j] = p->ranges[i];
            }
        }
        at += (size + 255) / 256 * 256;
    }
    for (int32_t c = 0; c < n; c++) { /* only now: what joined already must not be taken for the first's own */
        for (int32_t j = chosen[c]; j < k->n_globals; j++) {
            p->alias[j] = p->alias[j] == chosen[c] ? first : p->alias[j];
        }
    }
    p->ranges[first] = place;
    return LS_OK;
}

/* No more bindings than the device has. */
static ls_status merge_excess(const launching *l, parting *p, ls_error *err) {
    const ls_kernel *k = &p->emitted->kernel;
    int32_t excess = -l->gpu->limits.max_bindings;
    for (int32_t i = 0; i < k->n_globals; i++) {
        excess += p->alias[i] == i;
    }
    while (excess > 0) {
        int32_t chosen[MAX_BINDINGS], n = 0;
        ls_dtype most = LS_BOOL;
        for (int d = 0; d < LS_DTYPE_COUNT; d++) {
            int32_t found = find_mergeable(p, (ls_dtype)d, chosen);
            most = found > n ? (ls_dtype)d : most;
            n = found > n ? found : n;
        }
        if (n < 2) {
            return LS_FAIL(err, LS_ERR_UNSUPPORTED, "kernel %s needs %d buffers, %s has %d", k->name, k->n_globals,
                           l->gpu->device->id, l->gpu->limits.max_bindings);
        }
        (void)find_mergeable(p, most, chosen);
        n = n > excess + 1 ? excess + 1 : n;
        LS_TRY(err, merge(l, p, chosen, n, err));
        excess -= n - 1;
    }
    return LS_OK;
}

/* What is bound, in the order of the variant's bindings, from places that the device can bind. */
static ls_status bind(const launching *l, parting *p, ls_gpu_range *out_bound, ls_error *err) {
    const ls_gpu *gpu = l->gpu;
    const ls_kernel *k = &p->emitted->kernel;
    for (int32_t i = 0; i < k->n_globals; i++) {
        if (p->alias[i] != i) {
            continue;
        }
        ls_gpu_range r = p->ranges[i];
        size_t rest = r.offset % gpu->limits.align;
        if (rest % ls_dtype_size(dtype_of(k, i))) { /* small elements seen as words */
            LS_TRY(err, stage_apart(l, p, i, err));
            r = p->ranges[i];
            rest = 0;
        }
        if (rest) { /* never of a place that was borrowed */
            cover(l, LS_COVER_LAUNCH_BASE);
            p->based[i] = true;
            p->base[i] = (int64_t)(rest / ls_dtype_size(dtype_of(k, i)));
        }
        r = (ls_gpu_range){r.block, r.offset - rest, r.size + rest};
        if (r.size > gpu->limits.max_binding) {
            return LS_FAIL(err, LS_ERR_UNSUPPORTED, "kernel %s binds a buffer of %zu bytes, %s takes at most %zu", k->name, r.size,
                           gpu->device->id, gpu->limits.max_binding);
        }
        *out_bound++ = r;
    }
    return LS_OK;
}

static ls_status dispatch(const launching *l, int part, parting *p, const uint32_t *groups, int64_t *values, ls_error *err) {
    const ls_kernel *k = &p->emitted->kernel;
    ls_gpu_range bound[MAX_BINDINGS];
    int64_t bases[MAX_BINDINGS];
    uint32_t words[MAX_WORDS];
    ls_gpu_variant *v;
    LS_TRY(err, find_aliases(l, p, err));
    LS_TRY(err, merge_excess(l, p, err));
    LS_TRY(err, bind(l, p, bound, err));
    for (int32_t i = 0; i < k->n_globals; i++) {
        bases[i] = p->merged[i] ? p->base[i] : p->based[i] ? LS_GPU_BASE_PARAM : LS_GPU_BASE_NONE;
    }
    LS_TRY(err, ls_gpu_variant_get(l->binary, part, bases, p->alias, &v, err));
    if (l->launch->dry) {
        return LS_OK;
    }
    int32_t n_values = k->n_params;
    for (int32_t i = 0; i < k->n_globals; i++) {
        if (bases[i] == LS_GPU_BASE_PARAM) {
            values[n_values++] = p->base[i];
        }
    }
    ls_gpu_words(&v->kernel, v->params, values, words);
    ls_gpu *gpu = l->gpu;
    bool timed = l->launch->profile && gpu->limits.clock;
    if (timed && gpu->n_timed == LS_GPU_TIMERS) {
        LS_TRY(err, ls_gpu_collect_times(gpu, err));
    }
    const ls_gpu_dispatch d = {.pipeline = v->pipeline,
                               .kernel = &v->kernel,
                               .bindings = bound,
                               .words = words,
                               .n_words = v->n_words,
                               .groups = {groups[0], groups[1], groups[2]},
                               .timer = timed ? 1 + gpu->n_timed : 0};
    LS_TRY(err, gpu->api->dispatch(gpu->driver, &d, err));
    if (timed) {
        gpu->timed[gpu->n_timed++] = &l->launch->profile->nanoseconds;
    }
    for (int32_t i = 0; i < k->n_globals; i++) {
        if (p->staged[i] && ls_gpu_writes(k, i)) {
            const ls_gpu_range *place = &p->ranges[p->alias[i]];
            size_t at = p->based[i] ? (size_t)p->base[i] * ls_dtype_size(dtype_of(k, i)) : 0;
            const ls_gpu_range own = {place->block, place->offset + at, p->origin[i].size};
            LS_TRY(err, copy_range(l, &p->origin[i], &own, err));
        }
    }
    return LS_OK;
}

static ls_status launch_part(const launching *l, int part, ls_error *err) {
    const ls_gpu *gpu = l->gpu;
    parting p = {.emitted = l->binary->parts[part].emitted};
    const ls_kernel *k = &p.emitted->kernel;
    int64_t values[MAX_BINDINGS + MAX_WORDS];
    uint32_t groups[3];
    for (int32_t i = 0; i < k->n_globals; i++) {
        p.ranges[i] = place(l, &p.emitted->bindings[i]);
    }
    for (int32_t i = 0; i < k->n_params; i++) {
        values[i] = l->launch->symbols[p.emitted->symbols[i]->index];
    }
    for (int i = 0; i < 3; i++) {
        int64_t n = ls_kgrid_size(k, i, values);
        if (n == 0) {
            return LS_OK;
        }
        if (n > gpu->limits.max_groups) {
            return LS_FAIL(err, LS_ERR_UNSUPPORTED, "kernel %s needs %lld workgroups on an axis, %s has %d", k->name,
                           (long long)n, gpu->device->id, gpu->limits.max_groups);
        }
        groups[i] = (uint32_t)n;
    }
    ls_status status = dispatch(l, part, &p, groups, values, err);
    while (p.n_borrowed) {
        ls_gpu_memory_free(l->gpu, p.borrowed[--p.n_borrowed]);
    }
    return status;
}

/* The serial of the node that a status word names. */
static int64_t origin_of(const ls_spec *spec, uint32_t word) {
    int32_t at = (int32_t)word - 1;
    if (at >= 0 && at < spec->n_values) {
        return 1 + (int64_t)spec->values[at].origin;
    }
    at -= spec->n_values;
    return at >= 0 && at < spec->n_stores ? 1 + (int64_t)spec->stores[at].origin : 0;
}

/* The library takes places at multiples of what loads of several lanes do; of others it works on copies. */
static ls_status run_vendor(const launching *l, ls_gpu_range places[3], parting *p, int32_t timer, ls_error *err) {
    ls_gpu *gpu = l->gpu;
    const ls_gpu_range origin = places[2];
    for (int i = 0; i < 3; i++) {
        ls_gpu_range own = places[i];
        if (own.offset % gpu->limits.align) {
            LS_TRY(err, borrow(l, p, own.size, &places[i], err));
            LS_TRY(err, i < 2 ? copy_range(l, &places[i], &own, err) : LS_OK);
        }
    }
    LS_TRY(err, gpu->limits.vendor->run(gpu->driver, l->binary->vendor, places, timer, err));
    return places[2].offset == origin.offset && places[2].block == origin.block ? LS_OK : copy_range(l, &origin, &places[2], err);
}

static ls_status launch_vendor(const launching *l, ls_error *err) {
    ls_gpu *gpu = l->gpu;
    ls_gpu_range places[3];
    parting p = {.n_borrowed = 0};
    bool timed = l->launch->profile && gpu->limits.clock;
    for (int i = 0; i < 3; i++) {
        const ls_emit_binding binding = {LS_EMIT_ARG, l->binary->vendor_args[i]};
        places[i] = place(l, &binding);
    }
    if (timed && gpu->n_timed == LS_GPU_TIMERS) {
        LS_TRY(err, ls_gpu_collect_times(gpu, err));
    }
    ls_status status = run_vendor(l, places, &p, timed ? 1 + gpu->n_timed : 0, err);
    while (p.n_borrowed) {
        ls_gpu_memory_free(gpu, p.borrowed[--p.n_borrowed]);
    }
    if (timed && status == LS_OK) {
        gpu->timed[gpu->n_timed++] = &l->launch->profile->nanoseconds;
    }
    return status;
}

static ls_status launch_all(launching *l, ls_launch *launch, ls_error *err) {
    ls_gpu *gpu = l->gpu;
    ls_kernel_binary *b = l->binary;
    const uint32_t zero = 0;
    bool own_word = b->list.status && !launch->status;
    if (b->list.n_scratch) {
        LS_TRY(err, grow(gpu, &gpu->scratch, b->scratch_bytes, err));
        ls_gpu_discard(gpu, gpu->scratch);
    }
    if (own_word) {
        LS_TRY(err, grow(gpu, &gpu->status, sizeof zero, err));
        l->status = (ls_gpu_range){gpu->status.block->block, gpu->status.offset, sizeof zero};
        LS_TRY(err, launch->dry ? LS_OK : gpu->api->write(gpu->driver, l->status.block, l->status.offset, &zero, sizeof zero, err));
    } else if (b->list.status) {
        const ls_gpu_memory *m = launch->status->handle;
        l->status = (ls_gpu_range){m->block->block, m->offset + launch->status_offset, sizeof zero};
    }
    gpu->cover |= b->list.cover;
    if (launch->profile) {
        launch->profile->strategy = b->vendor ? "vendor" : strategy_of(b->list.cover);
    }
    if (b->vendor) {
        return launch->dry ? LS_OK : launch_vendor(l, err);
    }
    for (int32_t i = 0; i < b->list.n_kernels; i++) {
        LS_TRY(err, launch_part(l, i, err));
    }
    if (own_word && !launch->dry) {
        uint32_t word;
        LS_TRY(err, gpu->api->read(gpu->driver, l->status.block, l->status.offset, &word, sizeof word, err));
        launch->out_of_range = origin_of(&b->spec, word);
    }
    return LS_OK;
}

ls_status ls_gpu_launch(ls_device *device, ls_kernel_binary *binary, ls_launch *launch, ls_error *err) {
    launching l = {.gpu = device->state, .binary = binary, .launch = launch};
    ls_mutex_lock(l.gpu->mutex);
    ls_status status = launch_all(&l, launch, err);
    ls_mutex_unlock(l.gpu->mutex);
    return status;
}
