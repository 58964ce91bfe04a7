/* The check hooks: before a kernel runs its inputs are copied to the reference device; after it, the same
 * spec is run there and the same nodes are evaluated by the oracle, both on the copies. Nothing of the run
 * itself changes: not its order, its memory or its kernels. */
#include "verify/shadow.h"
#include <stdio.h>
#include <string.h>

typedef struct shadow {
    ls_arena arena;
    ls_device *ref;
    ls_buffer **reads;   /* copies on the reference device, laid out as the originals */
    const void **values; /* the same, dense, for the oracle; filled when asked */
} shadow;

typedef struct shadow_source {
    const ls_check_event *event;
    shadow *state;
} shadow_source;

static void shadow_free(const ls_check_event *event, void *state) {
    shadow *s = state;
    if (s) {
        for (int i = 0; s->reads && i < event->group->n_reads; i++) {
            ls_buffer_release(s->reads[i]);
        }
        ls_arena_free(&s->arena);
        ls_free(&event->session->context->heap, s);
    }
}

/* A copy of one argument's bytes in a buffer of the reference device. */
static ls_status copy_arg(const ls_check_event *event, ls_device *ref, int arg, ls_buffer **out_buffer,
                          ls_error *err) {
    const ls_spec_arg *a = &event->spec->args[arg];
    ls_buffer *from = event->launch->args[arg];
    size_t size = (size_t)a->numel * ls_dtype_size(a->dtype);
    void *bytes = ls_alloc(&event->session->context->heap, size);
    if (!bytes) {
        return LS_FAIL_MEMORY(err, "a snapshot");
    }
    ls_buffer *copy = NULL;
    ls_status status =
        from->device->backend->download(from->device, from, event->launch->offsets[arg], bytes, size, err);
    status = status == LS_OK ? ls_buffer_create(ref, size, &copy, err) : status;
    status = status == LS_OK ? ls_buffer_upload(copy, 0, bytes, size, err) : status;
    ls_free(&event->session->context->heap, bytes);
    if (status != LS_OK) {
        ls_buffer_release(copy);
        return status;
    }
    *out_buffer = copy;
    return LS_OK;
}

/* All are asked for at once, of a device that must not be waited for. */
static ls_status copy_args(const ls_check_event *event, ls_device *ref, int first, int n, ls_buffer **out_buffers, ls_error *err) {
    ls_status late = LS_OK;
    for (int i = 0; i < n; i++) {
        ls_status status = copy_arg(event, ref, first + i, &out_buffers[i], err);
        if (status != LS_OK && status != LS_ERR_AGAIN) {
            return status;
        }
        late = status == LS_OK ? late : status;
    }
    return late;
}

static ls_status shadow_before(const ls_check_event *event, void **out_state, ls_error *err) {
    ls_heap *heap = &event->session->context->heap;
    shadow *s = ls_alloc_zeroed(heap, sizeof *s);
    if (!s) {
        return LS_FAIL_MEMORY(err, "a snapshot");
    }
    ls_arena_init(&s->arena, heap);
    s->reads = LS_ARENA_ARRAY(&s->arena, ls_buffer *, event->group->n_reads + 1);
    s->values = LS_ARENA_ARRAY(&s->arena, const void *, event->group->n_reads + 1);
    ls_status status = s->reads && s->values ? ls_device_open(event->session->context, "ref", &s->ref, err)
                                             : LS_FAIL_MEMORY(err, "a snapshot");
    if (status == LS_OK) {
        status = copy_args(event, s->ref, 0, event->group->n_reads, s->reads, err);
    }
    if (status != LS_OK) {
        shadow_free(event, s);
        return status;
    }
    *out_state = s;
    return LS_OK;
}

/* A buffer of the reference device as a dense array. */
static ls_status dense(const ls_check_event *event, const ls_buffer *buffer, const ls_tensor *node,
                       ls_data **out_data, ls_error *err) {
    int64_t dims[LS_MAX_RANK];
    for (int i = 0; i < node->shape.rank; i++) {
        dims[i] = ls_dim_eval(node->shape.dim[i], event->launch->symbols);
    }
    ls_data *data = NULL;
    LS_TRY(err,
           ls_data_create(event->session->context, node->dtype, node->shape.rank, dims, NULL, &data, err));
    ls_status status = ls_transfer_download(buffer, node->dtype, &node->shape, event->launch->symbols,
                                            (void *)data->bytes, err);
    if (status != LS_OK) {
        ls_data_release(data);
        return status;
    }
    *out_data = data;
    return LS_OK;
}

/* ---- against ref ---- */

static ls_status run_ref(const ls_check_event *event, shadow *s, ls_buffer **outs, ls_error *err) {
    const ls_backend *backend = s->ref->backend;
    const ls_spec *spec = event->spec;
    int n_reads = event->group->n_reads;
    ls_buffer **args = LS_ARENA_ARRAY(&s->arena, ls_buffer *, spec->n_args);
    size_t *offsets = LS_ARENA_ARRAY(&s->arena, size_t, spec->n_args);
    if (!args || !offsets) {
        return LS_FAIL_MEMORY(err, "a reference run");
    }
    for (int i = 0; i < spec->n_args; i++) {
        if (i >= n_reads) {
            size_t size = (size_t)spec->args[i].numel * ls_dtype_size(spec->args[i].dtype);
            LS_TRY(err, ls_buffer_create(s->ref, size, &outs[i - n_reads], err));
            LS_TRY(err, ls_buffer_fill(outs[i - n_reads], 0, LS_POISON, size, err));
        }
        args[i] = i < n_reads ? s->reads[i] : outs[i - n_reads];
        offsets[i] = args[i]->base;
    }
    ls_kernel_binary *binary = NULL;
    LS_TRY(err, backend->compile(s->ref, spec, NULL, &binary, err));
    ls_launch launch = {
        .n_args = spec->n_args, .args = args, .offsets = offsets, .symbols = event->launch->symbols};
    ls_status status = backend->launch(s->ref, binary, &launch, err);
    backend->destroy(s->ref, binary);
    return status;
}

/* ---- against the oracle ---- */

static int read_of(const ls_check_event *event, const ls_tensor *node) {
    for (int i = 0; i < event->group->n_reads; i++) {
        if (event->group->reads[i] == node) {
            return i;
        }
    }
    return -1;
}

static bool source_stop(void *ctx, const ls_tensor *node) {
    return read_of(((shadow_source *)ctx)->event, node) >= 0;
}

static ls_status source_values(void *ctx, const ls_tensor *node, const void **out_data, ls_error *err) {
    shadow_source *source = ctx;
    int i = read_of(source->event, node);
    if (i < 0) {
        return LS_FAIL(err, LS_ERR_INTERNAL, "check: kernel %s reads %s #%llu, which is not among its inputs",
                       source->event->spec->name, ls_ops[node->op].name, (unsigned long long)node->serial);
    }
    if (!source->state->values[i]) {
        ls_data *data = NULL;
        LS_TRY(err, dense(source->event, source->state->reads[i], node, &data, err));
        source->state->values[i] = ls_arena_copy(&source->state->arena, data->bytes, data->size);
        ls_data_release(data);
        if (!source->state->values[i]) {
            return LS_FAIL_MEMORY(err, "a snapshot");
        }
    }
    *out_data = source->state->values[i];
    return LS_OK;
}

static void whole_text(ls_dtype dtype, uint64_t bits, char *out, size_t room) {
    int unused = 64 - 8 * (int)ls_dtype_size(dtype);
    if (ls_dtype_is_signed(dtype)) {
        snprintf(out, room, "%lld", (long long)((int64_t)(bits << unused) >> unused));
    } else {
        snprintf(out, room, "%llu", (unsigned long long)bits);
    }
}

ls_verdict ls_compare_balls(const ls_data *actual, const ls_balls *balls, ls_report *r) {
    if (balls->mid) {
        return ls_compare_bound(actual, balls->mid, balls->rad, r);
    }
    *r = (ls_report){.verdict = LS_SAME, .elements = balls->n, .rank = actual->rank};
    size_t size = ls_dtype_size(actual->dtype);
    uint64_t mask = ~UINT64_C(0) >> (64 - 8 * size);
    for (int64_t i = 0; i < balls->n; i++) {
        uint64_t a = ls_data_bits(actual->dtype, actual->bytes, i), e = (uint64_t)balls->exact[i] & mask;
        if (balls->rad[i] > 0) { /* undecided: it follows from a comparison within a radius */
            r->blind++;
            continue;
        }
        r->bins[a == e ? 0 : LS_BINS - 1]++;
        if (a != e && r->outside++ == 0) {
            int64_t rest = i;
            for (int d = actual->rank - 1; d >= 0; d--) {
                r->first_index[d] = rest % actual->dims[d];
                rest /= actual->dims[d];
            }
            whole_text(actual->dtype, e, r->first_expected, sizeof r->first_expected);
            whole_text(actual->dtype, a, r->first_actual, sizeof r->first_actual);
        }
    }
    r->different = r->outside;
    if (r->outside > 0) {
        char at[128];
        size_t used = (size_t)snprintf(at, sizeof at, "[");
        for (int d = 0; d < actual->rank && used < sizeof at; d++) {
            used += (size_t)snprintf(at + used, sizeof at - used, "%s%lld", d ? "," : "",
                                     (long long)r->first_index[d]);
        }
        r->verdict = LS_DIFFERS;
        snprintf(r->message, sizeof r->message,
                 "%lld of %lld elements differ, first at %s]: expected %s, got %s", (long long)r->outside,
                 (long long)r->elements, at, r->first_expected, r->first_actual);
    }
    return r->verdict;
}

/* ---- after a kernel ---- */

static ls_status compare_roots(const ls_check_event *event, shadow *s, ls_kernel_report *k, ls_buffer *const *copies,
                               ls_buffer **outs, ls_error *err) {
    const ls_group *group = event->group;
    ls_balls *balls = LS_ARENA_ARRAY(&s->arena, ls_balls, group->n_roots);
    shadow_source ctx = {event, s};
    ls_oracle_source source = {
        .ctx = &ctx, .values = source_values, .stop = source_stop, .symbols = event->launch->symbols};
    if (!balls) {
        return LS_FAIL_MEMORY(err, "the oracle's values");
    }
    if (event->level == LS_CHECK_ORACLE) {
        LS_TRY(err, ls_oracle_eval(&s->arena, &source, group->roots, group->n_roots, balls, err));
    }
    for (int i = 0; i < group->n_roots; i++) {
        ls_data *actual = NULL, *expected = NULL;
        ls_status status = dense(event, copies[i], group->roots[i], &actual, err);
        ls_report r;
        if (status == LS_OK && k->ref_done) {
            status = dense(event, outs[i], group->roots[i], &expected, err);
            if (status == LS_OK) {
                ls_compare(expected, actual, &r);
                ls_report_merge(&k->ref, &r);
            }
        }
        if (status == LS_OK && event->level == LS_CHECK_ORACLE) {
            ls_compare_balls(actual, &balls[i], &r);
            ls_report_merge(&k->oracle, &r);
        }
        ls_data_release(actual);
        ls_data_release(expected);
        LS_TRY(err, status);
    }
    return LS_OK;
}

static ls_status judge(const ls_check_event *event, const ls_kernel_report *k, ls_error *err) {
    const ls_report *wrong = k->ref.verdict == LS_DIFFERS      ? &k->ref
                             : k->oracle.verdict == LS_DIFFERS ? &k->oracle
                                                               : NULL;
    if (!wrong) {
        return LS_OK;
    }
    const ls_tensor *root = event->group->roots[0];
    return LS_FAIL(err, LS_ERR_DIFFERS, "%s: kernel %llu (%s), node %s #%llu%s%.100s%s, against %s: %s",
                   event->device->id, (unsigned long long)event->kernel, event->spec->name,
                   ls_ops[root->op].name, (unsigned long long)root->serial, root->origin ? " of \"" : "",
                   root->origin ? root->origin : "", root->origin ? "\"" : "",
                   wrong == &k->ref ? "ref" : "the oracle", wrong->message);
}

static ls_status shadow_after(const ls_check_event *event, void *state, ls_error *err) {
    shadow *s = state;
    int n_roots = event->group->n_roots;
    ls_kernel_report k = {.number = (int)event->kernel};
    ls_buffer **outs = LS_ARENA_ARRAY(&s->arena, ls_buffer *, n_roots + 1);
    ls_buffer **copies = LS_ARENA_ARRAY(&s->arena, ls_buffer *, n_roots + 1);
    ls_status status = outs && copies ? LS_OK : LS_FAIL_MEMORY(err, "a reference run");
    if (status == LS_OK) { /* before the references, which take long */
        status = copy_args(event, s->ref, event->group->n_reads, n_roots, copies, err);
    }
    k.ref_done = event->spec->math == LS_LOCKED && event->device != s->ref;
    if (status == LS_OK && k.ref_done) {
        status = run_ref(event, s, outs, err);
    }
    status = status == LS_OK ? compare_roots(event, s, &k, copies, outs, err) : status;
    for (int i = 0; outs && copies && i < n_roots; i++) {
        ls_buffer_release(outs[i]);
        ls_buffer_release(copies[i]);
    }
    if (status == LS_OK) {
        ls_collector *collector = event->session->verification;
        status = collector ? ls_collect(event, collector, &k, err) : judge(event, &k, err);
    }
    shadow_free(event, s);
    return status;
}

static const ls_check_hooks hooks = {.before = shadow_before, .after = shadow_after, .drop = shadow_free};
const ls_check_hooks *const ls_default_check_hooks = &hooks;

void ls_context_set_check(ls_context *context, ls_check check) {
    ls_engine_set_check(context, check, &hooks);
}
