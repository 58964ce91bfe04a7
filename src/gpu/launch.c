/* Launches: resolves what each kernel of a binary binds, picks its variant, packs its parameters, records its dispatch. */
#include "gpu/internal.h"
#include <string.h>

enum { MAX_BINDINGS = 128, MAX_WORDS = 256 };

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

static bool is_written(const ls_kernel *k, int32_t binding) {
    for (int32_t m = 0; m < k->n_mems; m++) {
        if (k->mems[m].space == LS_MEM_GLOBAL && k->mems[m].binding == binding) {
            return k->mems[m].access & LS_MEM_WRITE;
        }
    }
    return false;
}

static ls_dtype dtype_of(const ls_kernel *k, int32_t binding) {
    for (int32_t m = 0; m < k->n_mems; m++) {
        if (k->mems[m].space == LS_MEM_GLOBAL && k->mems[m].binding == binding) {
            return k->mems[m].dtype;
        }
    }
    return LS_U32;
}

/* A copy for this launch alone. What is released here is used again only by what is recorded later. */
static ls_status set_apart(const launching *l, ls_gpu_range *range, ls_error *err) {
    ls_gpu *gpu = l->gpu;
    ls_gpu_memory copy;
    LS_TRY(err, ls_gpu_memory_new(gpu, range->size, &copy, err));
    ls_status status = gpu->api->copy(gpu->driver, copy.block->block, copy.offset, range->block, range->offset, range->size, err);
    *range = (ls_gpu_range){copy.block->block, copy.offset, range->size};
    ls_gpu_memory_free(gpu, copy);
    return status;
}

/* Which bindings are one place, for a device that binds no place twice. Equal places become one binding; of two that overlap
 * otherwise, the one that is only read is copied. */
static ls_status find_aliases(const launching *l, const ls_kernel *k, ls_gpu_range *ranges, int32_t *alias, ls_error *err) {
    for (int32_t i = 0; i < k->n_globals; i++) {
        alias[i] = i;
        for (int32_t j = 0; j < i && !l->gpu->limits.overlap; j++) {
            ls_gpu_range *a = &ranges[j], *b = &ranges[i];
            if (alias[j] != j || a->block != b->block || a->offset + a->size <= b->offset || b->offset + b->size <= a->offset) {
                continue;
            }
            if (a->offset == b->offset && dtype_of(k, i) == dtype_of(k, j)) {
                alias[i] = j;
                break;
            }
            if (is_written(k, i) && is_written(k, j)) {
                return LS_FAIL(err, LS_ERR_INTERNAL, "kernel %s writes arguments %d and %d, which overlap", k->name, j, i);
            }
            LS_TRY(err, set_apart(l, is_written(k, i) ? a : b, err));
        }
    }
    return LS_OK;
}

static ls_status launch_part(const launching *l, int part, ls_error *err) {
    ls_gpu *gpu = l->gpu;
    const ls_emit_kernel *e = l->binary->parts[part].emitted;
    const ls_kernel *k = &e->kernel;
    ls_gpu_range ranges[MAX_BINDINGS], bound[MAX_BINDINGS];
    bool based[MAX_BINDINGS];
    int32_t alias[MAX_BINDINGS];
    int64_t values[MAX_BINDINGS + MAX_WORDS];
    uint32_t words[MAX_WORDS];
    for (int32_t i = 0; i < k->n_globals; i++) {
        ranges[i] = place(l, &e->bindings[i]);
    }
    for (int32_t i = 0; i < k->n_params; i++) {
        values[i] = l->launch->symbols[e->symbols[i]->index];
    }
    ls_gpu_dispatch d = {.bindings = bound, .words = words};
    for (int i = 0; i < 3; i++) {
        int64_t n = ls_kgrid_size(k, i, values);
        if (n == 0) {
            return LS_OK;
        }
        if (n > gpu->limits.max_groups) {
            return LS_FAIL(err, LS_ERR_UNSUPPORTED, "kernel %s needs %lld workgroups on an axis, %s has %d", k->name,
                           (long long)n, gpu->device->id, gpu->limits.max_groups);
        }
        d.groups[i] = (uint32_t)n;
    }
    LS_TRY(err, find_aliases(l, k, ranges, alias, err));
    int32_t n_values = k->n_params, n_bound = 0;
    for (int32_t i = 0; i < k->n_globals; i++) {
        size_t rest = ranges[i].offset % gpu->limits.align;
        based[i] = rest != 0 && alias[i] == i;
        if (alias[i] != i) {
            continue;
        }
        if (rest) {
            values[n_values++] = (int64_t)(rest / ls_dtype_size(dtype_of(k, i)));
        }
        bound[n_bound] = (ls_gpu_range){ranges[i].block, ranges[i].offset - rest, ranges[i].size + rest};
        if (bound[n_bound++].size > gpu->limits.max_binding) {
            return LS_FAIL(err, LS_ERR_UNSUPPORTED, "kernel %s binds a buffer of %zu bytes, %s takes at most %zu", k->name,
                           ranges[i].size + rest, gpu->device->id, gpu->limits.max_binding);
        }
    }
    ls_gpu_variant *v;
    LS_TRY(err, ls_gpu_variant_get(l->binary, part, based, alias, &v, err));
    ls_gpu_words(&v->kernel, v->params, values, words);
    d.pipeline = v->pipeline;
    d.kernel = &v->kernel;
    d.n_words = v->n_words;
    return gpu->api->dispatch(gpu->driver, &d, err);
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

static ls_status launch_all(launching *l, ls_launch *launch, ls_error *err) {
    ls_gpu *gpu = l->gpu;
    ls_kernel_binary *b = l->binary;
    const uint32_t zero = 0;
    bool own_word = b->list.status && !launch->status;
    if (b->list.n_scratch) {
        LS_TRY(err, grow(gpu, &gpu->scratch, b->scratch_bytes, err));
    }
    if (own_word) {
        LS_TRY(err, grow(gpu, &gpu->status, sizeof zero, err));
        l->status = (ls_gpu_range){gpu->status.block->block, gpu->status.offset, sizeof zero};
        LS_TRY(err, gpu->api->write(gpu->driver, l->status.block, l->status.offset, &zero, sizeof zero, err));
    } else if (b->list.status) {
        const ls_gpu_memory *m = launch->status->handle;
        l->status = (ls_gpu_range){m->block->block, m->offset + launch->status->base + launch->status_offset, sizeof zero};
    }
    for (int32_t i = 0; i < b->list.n_kernels; i++) {
        LS_TRY(err, launch_part(l, i, err));
    }
    if (own_word) {
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
