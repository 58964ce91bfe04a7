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

typedef struct affine { /* an index expression as c + sum of k[i] * axis[i] */
    int n;                  /* -1: there is no such form, or it is too long */
    int64_t c;
    uint8_t axis[8];
    int64_t k[8];
} affine;

/* From the operands' own forms. */
static affine affine_of(const ls_ix *ix, const affine *all) {
    const affine none = {.n = -1};
    affine r = {.n = 0};
    if (ix->op == LS_IX_CONST) {
        r.c = ix->k;
    } else if (ix->op == LS_IX_AXIS) {
        r.n = 1, r.axis[0] = (uint8_t)ix->a, r.k[0] = 1;
    } else if (ix->op == LS_IX_ADD && all[ix->a].n >= 0 && all[ix->b].n >= 0) {
        r = all[ix->a];
        const affine *b = &all[ix->b];
        r.c += b->c;
        for (int i = 0; i < b->n; i++) {
            int at = 0;
            while (at < r.n && r.axis[at] != b->axis[i]) {
                at++;
            }
            if (at == 8) {
                return none;
            }
            if (at == r.n) {
                r.axis[r.n] = b->axis[i], r.k[r.n++] = 0;
            }
            r.k[at] += b->k[i];
        }
    } else if (ix->op == LS_IX_MUL && all[ix->a].n >= 0 && all[ix->b].n >= 0 &&
               all[ix->a].n * all[ix->b].n == 0) {
        bool left = all[ix->a].n == 0;
        int64_t k = left ? all[ix->a].c : all[ix->b].c;
        r = left ? all[ix->b] : all[ix->a];
        r.c *= k;
        for (int i = 0; i < r.n; i++) {
            r.k[i] *= k;
        }
    } else {
        return none;
    }
    return r;
}

static void ask(bool *asked, int32_t ix) {
    if (ix != LS_SPEC_NONE) {
        asked[ix] = true;
    }
}

/* Which index expressions are asked for: by values, predicates and stores, or because one that is computed from its parts is. */
static void find_asked(const ls_spec *spec, const affine *all, bool *asked) {
    for (int32_t i = 0; i < spec->n_values; i++) {
        const ls_value *v = &spec->values[i];
        if (v->op == LS_V_LOAD) {
            ask(asked, v->ix), ask(asked, v->check), ask(asked, v->limit);
        } else if (v->op == LS_V_INDEX || v->op == LS_V_RANDOM) {
            ask(asked, v->ix);
        }
    }
    for (int32_t i = 0; i < spec->n_preds; i++) {
        ask(asked, spec->preds[i].ix), ask(asked, spec->preds[i].limit);
    }
    for (int32_t i = 0; i < spec->n_stores; i++) {
        ask(asked, spec->stores[i].ix), ask(asked, spec->stores[i].check), ask(asked, spec->stores[i].limit);
    }
    for (int32_t i = spec->n_ix - 1; i >= 0; i--) { /* parts come before what they are parts of */
        const ls_ix *ix = &spec->ix[i];
        if (asked[i] && all[i].n < 0 && ix->op >= LS_IX_ADD) {
            ask(asked, ix->a), ask(asked, ix->b);
        }
    }
}

/* Which index expressions are kept as axes move, and how. */
static ls_status plan_indices(ls_kernel_binary *b, ls_error *err) {
    const ls_spec *spec = &b->spec;
    affine *all = LS_ARENA_ARRAY(&b->arena, affine, spec->n_ix);
    b->kept = LS_ARENA_ARRAY(&b->arena, bool, spec->n_ix);
    b->at_zero = LS_ARENA_ARRAY(&b->arena, int64_t, spec->n_ix);
    if (!all || !b->kept || !b->at_zero) {
        return LS_FAIL_MEMORY(err, "a reference kernel");
    }
    int n = 0;
    for (int32_t i = 0; i < spec->n_ix; i++) {
        all[i] = affine_of(&spec->ix[i], all);
    }
    find_asked(spec, all, b->kept);
    for (int32_t i = 0; i < spec->n_ix; i++) {
        b->kept[i] = b->kept[i] && all[i].n >= 0;
        b->at_zero[i] = all[i].c;
        n += b->kept[i] ? all[i].n : 0;
    }
    b->moves = LS_ARENA_ARRAY(&b->arena, ls_ref_move, n);
    if (!b->moves) {
        return LS_FAIL_MEMORY(err, "a reference kernel");
    }
    for (int axis = 0, at = 0; axis < LS_SPEC_MAX_AXES; axis++) {
        for (int32_t i = 0; i < spec->n_ix; i++) {
            for (int q = 0; b->kept[i] && q < all[i].n; q++) {
                if (all[i].axis[q] == axis) {
                    b->moves[at++] = (ls_ref_move){i, all[i].k[q]};
                }
            }
        }
        b->moves_of[axis + 1] = at;
    }
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
    b->memo = LS_ARENA_ARRAY(&b->arena, uint8_t, spec->n_values);
    b->kept_by = LS_ARENA_ARRAY(&b->arena, ls_ref_kept, spec->n_values);
    b->scratch_size = LS_ARENA_ARRAY(&b->arena, size_t, spec->n_values);
    if (status == LS_OK && (!b->memo || !b->kept_by || !b->scratch_size)) {
        status = LS_FAIL_MEMORY(err, "a reference kernel");
    }
    status = status == LS_OK ? plan_indices(b, err) : status;
    if (status != LS_OK) {
        ls_arena_free(&b->arena);
        ls_free(device->heap, b);
        return status;
    }
    for (int32_t i = 0; i < spec->n_values; i++) {
        const ls_value *v = &b->spec.values[i];
        /* SCAN and SORT keep their whole line in the memo's place instead. */
        b->memo[i] =
            v->op == LS_V_REDUCE || v->op == LS_V_CONTRACT || (v->op == LS_V_MAP && v->map != LS_OP_CAST);
        b->kept_by[i] = ls_ref_kept_by(&b->spec, i);
        b->scratch_size[i] = ls_ref_scratch(&b->spec, i);
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
        ls_ref_kept kept = run->binary->kept_by[i];
        if (kept.left + kept.right) {
            memset(run->scratch[i], 0, sizeof(uint64_t) * (size_t)(kept.left + kept.right));
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
