/* The reference backend: runs kernel specs in contract order, bit for bit, one point at a time. It shares no
 * code with the fast backends, and none of its choices depend on how fast it is. */
#include "backend/ref/eval.h"
#include <string.h>

static ls_status ref_open(ls_device *device, int index, ls_error *err) {
    if (index != 0) {
        return LS_FAIL(err, LS_ERR_DEVICE, "ref:%d: there is one reference device, ref", index);
    }
    memcpy(device->caps.name, "reference interpreter", sizeof "reference interpreter");
    device->caps.threads = 1;
    device->caps.dtypes = (1u << LS_DTYPE_COUNT) - 1;
    return LS_OK;
}

static void ref_close(ls_device *device) {
    (void)device;
}

static ls_status ref_alloc(ls_device *device, size_t size, void **out_handle, ls_error *err) {
    *out_handle = ls_alloc(device->heap, size);
    return *out_handle ? LS_OK : LS_FAIL(err, LS_ERR_MEMORY, "out of memory for a buffer of %zu bytes on %s", size, device->id);
}

static void ref_free(ls_device *device, void *handle, size_t size) {
    (void)size;
    ls_free(device->heap, handle);
}

static ls_status ref_upload(ls_device *device, ls_buffer *dst, size_t offset, const void *src, size_t size,
                            ls_error *err) {
    (void)device, (void)err;
    memcpy((char *)dst->handle + offset, src, size);
    return LS_OK;
}

static ls_status ref_download(ls_device *device, const ls_buffer *src, size_t offset, void *dst, size_t size,
                              ls_error *err) {
    (void)device, (void)err;
    memcpy(dst, (const char *)src->handle + offset, size);
    return LS_OK;
}

static ls_status ref_copy(ls_device *device, ls_buffer *dst, size_t dst_offset, const ls_buffer *src,
                          size_t src_offset, size_t size, ls_error *err) {
    (void)device, (void)err;
    memmove((char *)dst->handle + dst_offset, (const char *)src->handle + src_offset, size);
    return LS_OK;
}

static ls_status ref_compile(ls_device *device, const ls_spec *spec, const char *strategy,
                             ls_kernel_binary **out_binary, ls_error *err) {
    bool whole = spec->kind == LS_GROUP_ATTENTION && strategy && strcmp(strategy, "fused") == 0; /* what it means, in one spec */
    if (strategy && strcmp(strategy, "naive") != 0 && !whole) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED,
                       "strategy \"%s\" is not available on ref: it has \"naive\" alone", strategy);
    }
    ls_kernel_binary *b = ls_alloc_zeroed(device->heap, sizeof *b);
    if (!b) {
        return LS_FAIL_MEMORY(err, "a reference kernel");
    }
    ls_arena_init(&b->arena, device->heap);
    ls_status status = ls_spec_copy(&b->arena, spec, &b->spec, err);
    status = status == LS_OK ? ls_ref_plan(b, err) : status;
    if (status != LS_OK) {
        ls_arena_free(&b->arena);
        ls_free(device->heap, b);
        return status;
    }
    *out_binary = b;
    return LS_OK;
}

static void ref_destroy(ls_device *device, ls_kernel_binary *binary) {
    ls_arena_free(&binary->arena);
    ls_free(device->heap, binary);
}

static void store_point(ls_ref_run *run, const ls_store *store) {
    static const ls_op combine[] = {[LS_STORE_ADD] = LS_OP_ADD,
                                    [LS_STORE_MUL] = LS_OP_MUL,
                                    [LS_STORE_MIN] = LS_OP_MIN,
                                    [LS_STORE_MAX] = LS_OP_MAX};
    if (!ls_ref_holds(run, store->first_pred, store->n_preds)) {
        return;
    }
    if (store->check != LS_SPEC_NONE) {
        int64_t index = ls_ref_index(run, store->check);
        if (index < 0 || index >= ls_ref_index(run, store->limit)) {
            run->out_of_range = 1 + (int64_t)store->origin;
            return;
        }
    }
    ls_dtype dtype = run->spec->values[store->value].dtype;
    void *base = ls_ref_arg(run, store->arg);
    int64_t at = ls_ref_index(run, store->ix);
    ls_cell x = ls_ref_value(run, store->value);
    if (x.absent) { /* outside reductions and contractions an absent element reads +0 */
        x = (ls_cell){.u = 0};
    }
    if (store->combine != LS_STORE_SET) {
        x = ls_cell_map(combine[store->combine], dtype, dtype, ls_cell_load(dtype, base, at), x, x);
    }
    ls_cell_store(dtype, base, at, x);
}

/* The last one goes on first: where the order of points does not matter, that along which lines are sorted or scanned, so that each is once. */
static void order_axes(const ls_spec *spec, const ls_store *store, uint8_t *axes) {
    memcpy(axes, store->axes, sizeof store->axes);
    for (int32_t i = 0; i < spec->n_values && store->combine == LS_STORE_SET && store->check == LS_SPEC_NONE; i++) {
        const ls_value *v = &spec->values[i];
        const uint8_t *at = v->op == LS_V_SORT || v->op == LS_V_SCAN ? memchr(axes, v->bound[0], (size_t)store->n_axes) : NULL;
        if (at) {
            ptrdiff_t from = at - axes;
            memmove(axes + from, axes + from + 1, (size_t)(store->n_axes - 1 - from));
            axes[store->n_axes - 1] = v->bound[0];
        }
    }
}

static void run_store(ls_ref_run *run, const ls_store *store) {
    uint8_t axes[sizeof store->axes];
    order_axes(run->spec, store, axes);
    for (int i = 0; i < store->n_axes; i++) {
        if (run->extent[axes[i]] == 0) {
            return;
        }
        ls_ref_set_axis(run, axes[i], 0);
    }
    for (;;) {
        store_point(run, store);
        int i = store->n_axes - 1;
        while (i >= 0 && run->axis[axes[i]] + 1 == run->extent[axes[i]]) {
            ls_ref_set_axis(run, axes[i--], 0);
        }
        if (i < 0) {
            return;
        }
        ls_ref_set_axis(run, axes[i], run->axis[axes[i]] + 1);
    }
}

static void forget(ls_ref_run *run) {
    memset(run->memo, 0, sizeof *run->memo * (size_t)run->spec->n_values);
    for (int32_t i = 0; i < run->spec->n_values; i++) {
        const int64_t *places = run->binary->kept_by[i].places;
        if (places[0] + places[1]) {
            memset(run->scratch[i], 0, sizeof(uint64_t) * (size_t)(places[0] + places[1]));
        }
    }
}

static ls_status ref_launch(ls_device *device, ls_kernel_binary *binary, ls_launch *launch, ls_error *err) {
    const ls_spec *spec = &binary->spec;
    ls_arena arena;
    ls_arena_init(&arena, device->heap);
    ls_ref_run run = {.binary = binary, .spec = spec, .launch = launch, .tick = 1};
    run.memo = LS_ARENA_ARRAY(&arena, ls_ref_memo, spec->n_values);
    run.scratch = LS_ARENA_ARRAY(&arena, void *, spec->n_values);
    run.index = LS_ARENA_ARRAY(&arena, int64_t, spec->n_ix);
    bool full = !run.memo || !run.scratch || !run.index;
    for (int32_t i = 0; i < spec->n_values && !full; i++) {
        if (binary->scratch_size[i]) {
            run.scratch[i] = ls_arena_alloc_unset(&arena, binary->scratch_size[i]);
            full = !run.scratch[i];
        }
    }
    if (!full) {
        memcpy(run.index, binary->at_zero, sizeof *run.index * (size_t)spec->n_ix);
        for (int i = 0; i < spec->n_axes; i++) {
            run.extent[i] = ls_dim_eval(spec->extents_of_axes[i], launch->symbols);
        }
        for (int32_t i = 0; i < spec->n_stores; i++) {
            forget(&run); /* this store may read what an earlier one wrote */
            run_store(&run, &spec->stores[i]);
        }
        launch->out_of_range = run.out_of_range;
    }
    ls_arena_free(&arena);
    return full ? LS_FAIL_MEMORY(err, "a launch on the reference device") : LS_OK;
}

static void ref_describe(const ls_kernel_binary *binary, ls_text *out) {
    ls_spec_print(out, &binary->spec);
}

const ls_backend ls_backend_ref = {
    .name = "ref",
    .open = ref_open,
    .close = ref_close,
    .alloc = ref_alloc,
    .free = ref_free,
    .upload = ref_upload,
    .download = ref_download,
    .copy = ref_copy,
    .compile = ref_compile,
    .destroy = ref_destroy,
    .launch = ref_launch,
    .describe = ref_describe,
};
