/* A spec as a list of kernels: which template, the frame of a kernel, its stores. */
#include "emit/emit.h"
#include "emit/lower.h"
#include <stdio.h>
#include <string.h>

/* ---- lists in the arena ---- */

const char *const ls_cover_text[LS_COVERS] = {
#define COVER(ID, text) text,
#include "emit/cover.def"
#undef COVER
};

static bool grow(ls_lower *l, void **data, int *cap, int len, size_t size) {
    if (len < *cap) {
        return true;
    }
    int more = *cap ? 2 * *cap : 8;
    char *bigger = ls_arena_array(l->arena, (size_t)more, size);
    if (!bigger) {
        l->status = LS_FAIL_MEMORY(l->err, "a list of kernels");
        return false;
    }
    for (size_t i = 0; i < (size_t)len * size; i++) {
        bigger[i] = ((const char *)*data)[i];
    }
    *data = bigger;
    *cap = more;
    return true;
}

int32_t ls_lower_scratch(ls_lower *l, ls_dtype dtype, int64_t count) {
    if (!grow(l, (void **)&l->list->scratch, &l->cap_scratch, l->list->n_scratch, sizeof *l->list->scratch)) {
        return 0;
    }
    l->list->scratch[l->list->n_scratch] = (ls_emit_scratch){dtype, count};
    return l->list->n_scratch++;
}

int ls_lower_axes(uint64_t set, uint8_t *out_axes) {
    int n = 0;
    for (; set; set &= set - 1) {
        out_axes[n++] = (uint8_t)__builtin_ctzll(set);
    }
    return n;
}

int64_t ls_lower_bound(const ls_lower *l, const uint8_t *axes, int n_axes) {
    return ls_spec_points(l->spec, axes, n_axes);
}

/* ---- one kernel ---- */

void ls_lower_begin(ls_lower *l, const char *suffix, ls_cover cover) {
    ls_lower_cover(l, cover);
    char name[96];
    snprintf(name, sizeof name, "%s%s%s", l->spec->name, *suffix ? "_" : "", suffix);
    ls_kb_init(&l->kb, l->arena, name, l->err);
    ls_kb_workgroup(&l->kb, LS_EMIT_THREADS, 1, 1);
    l->bindings = NULL;
    l->cap_bindings = 0;
    l->symbols = LS_ARENA_ARRAY(l->arena, const ls_symbol *, l->cap_symbols + 1);
    if (!l->symbols) {
        l->status = LS_FAIL_MEMORY(l->err, "a kernel's symbols");
        l->kb.status = l->status;
    }
    l->status_mem = -1;
    l->opened = 0;
    l->n_log = 0;
    l->proved = 0;
    l->active = LS_VAL_NONE;
    for (int i = 0; i < l->spec->n_args; i++) {
        l->arg_mem[i] = -1;
    }
    for (int i = 0; i < LS_DTYPE_COUNT; i++) {
        l->shared_value[i] = l->row_array[0][i] = l->row_array[1][i] = -1;
    }
    for (int32_t i = 0; i < l->spec->n_values; i++) {
        l->memo[i] = (ls_lowered){LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE};
    }
    for (int32_t i = 0; i < l->spec->n_ix; i++) {
        l->ix_memo[i] = LS_VAL_NONE;
    }
    for (int i = 0; i < LS_SPEC_MAX_AXES; i++) {
        l->axis[i] = LS_VAL_NONE;
    }
}

void ls_lower_end(ls_lower *l) {
    for (; l->opened > 0; l->opened--) {
        ls_kb_end_if(&l->kb);
    }
    ls_emit_kernel k = {.bindings = l->bindings, .symbols = l->symbols};
    if (l->status == LS_OK) {
        l->status = ls_kb_finish(&l->kb, &k.kernel);
    }
    if (l->status == LS_OK &&
        grow(l, (void **)&l->list->kernels, &l->cap_kernels, l->list->n_kernels, sizeof *l->list->kernels)) {
        l->list->kernels[l->list->n_kernels++] = k;
    }
}

/* The memory that stands for a buffer in this kernel, declared when it is first used. */
int ls_lower_mem(ls_lower *l, ls_emit_place place, int32_t number) {
    int n = l->kb.kernel.n_globals;
    for (int i = 0; i < n; i++) {
        if (l->bindings[i].place == place && l->bindings[i].number == number) {
            for (int m = 0; m < l->kb.kernel.n_mems; m++) {
                const ls_kmem *mem = &l->kb.kernel.mems[m];
                bool words = place == LS_EMIT_ARG && mem->dtype != l->spec->args[number].dtype;
                if (mem->space == LS_MEM_GLOBAL && mem->binding == i && !words) {
                    return m;
                }
            }
        }
    }
    if (!grow(l, (void **)&l->bindings, &l->cap_bindings, n, sizeof *l->bindings)) {
        l->kb.status = l->status;
        return -1;
    }
    l->bindings[n] = (ls_emit_binding){place, number};
    if (place == LS_EMIT_STATUS) {
        l->list->status = true;
        return ls_kb_global(&l->kb, "status", LS_U32, LS_MEM_READ_WRITE, 1);
    }
    char name[24];
    snprintf(name, sizeof name, "%s%d", place == LS_EMIT_ARG ? "a" : "t", number);
    if (place == LS_EMIT_SCRATCH) {
        const ls_emit_scratch *s = &l->list->scratch[number];
        return ls_kb_global(&l->kb, name, s->dtype, LS_MEM_READ_WRITE, s->count);
    }
    const ls_spec_arg *arg = &l->spec->args[number];
    ls_mem_access access = !arg->written ? LS_MEM_READ : l->read[number] ? LS_MEM_READ_WRITE : LS_MEM_WRITE;
    return ls_kb_global(&l->kb, name, arg->dtype, access, arg->numel);
}

int ls_lower_words(ls_lower *l, int32_t number) {
    int n = l->kb.kernel.n_globals;
    char name[24];
    if (!grow(l, (void **)&l->bindings, &l->cap_bindings, n, sizeof *l->bindings)) {
        l->kb.status = l->status;
        return -1;
    }
    l->bindings[n] = (ls_emit_binding){LS_EMIT_ARG, number};
    snprintf(name, sizeof name, "words%d", number);
    const ls_spec_arg *arg = &l->spec->args[number];
    return ls_kb_global(&l->kb, name, LS_U32, LS_MEM_READ, arg->numel * (int64_t)ls_dtype_size(arg->dtype) / 4);
}

static void open_if(ls_lower *l, ls_val condition) {
    ls_kb_if(&l->kb, condition);
    l->opened++;
}

ls_val ls_lower_frame(ls_lower *l, int64_t count, int threads) {
    ls_kb *kb = &l->kb;
    int64_t groups = (count + threads - 1) / threads, max = l->max_groups, size[3] = {groups, 1, 1};
    for (int i = 0; i < 2; i++) { /* rows of `max` workgroups, planes of `max` rows */
        size[i + 1] = (size[i] + max - 1) / max;
        size[i] = size[i] > max ? max : size[i];
    }
    int64_t all = size[0] * size[1] * size[2] * threads;
    if (size[2] > max || all / threads / size[0] / size[1] != size[2]) {
        kb->status = l->status =
            LS_FAIL(l->err, LS_ERR_UNSUPPORTED, "emit: kernel %s needs more workgroups than a grid has", l->spec->name);
    }
    ls_dtype type = all < INT32_MAX ? LS_I32 : LS_I64;
    ls_val at = LS_VAL_NONE;
    for (int i = 2; i >= 0; i--) {
        ls_kb_grid(kb, i, size[i], LS_VAL_NONE, 1);
        if (size[i] > 1 || i == 0) {
            ls_val id = ls_kb_cast(kb, ls_kb_group_id(kb, i), type);
            ls_val row = at == LS_VAL_NONE ? at : ls_kb_mul(kb, at, ls_kb_const_int(kb, type, size[i]));
            at = row == LS_VAL_NONE ? id : ls_kb_add(kb, row, id);
        }
    }
    if (threads > 1) {
        at = ls_kb_mul(kb, at, ls_kb_const_int(kb, type, threads));
        at = ls_kb_add(kb, at, ls_kb_cast(kb, ls_kb_local_id(kb, 0), type));
    }
    if (all > count) {
        open_if(l, ls_kb_lt(kb, at, ls_kb_const_int(kb, type, count)));
    }
    return at;
}

/* Binds the axes to the point at a position, row-major by bounds; whether it lies within the symbols' values. */
ls_val ls_lower_bind_point(ls_lower *l, ls_val at, const uint8_t *axes, int n_axes) {
    ls_kb *kb = &l->kb;
    ls_dtype type = ls_lower_type(l, at);
    ls_val within = LS_VAL_NONE;
    for (int i = n_axes - 1; i >= 0; i--) {
        ls_dim dim = l->spec->extents_of_axes[axes[i]];
        ls_val by = ls_kb_const_int(kb, type, ls_dim_bound(dim)), x = i ? ls_kb_rem(kb, at, by) : at;
        at = i ? ls_kb_div(kb, at, by) : at;
        ls_lower_bind(l, axes[i], x, true);
        if (!ls_dim_is_fixed(dim)) {
            within = ls_lower_and(l, within, ls_kb_lt(kb, x, ls_lower_dim(l, dim, type)));
        }
    }
    return within;
}

void ls_lower_point(ls_lower *l, ls_val at, const uint8_t *axes, int n_axes) {
    ls_val within = ls_lower_bind_point(l, at, axes, n_axes);
    if (within != LS_VAL_NONE) {
        open_if(l, within);
    }
}

/* ---- stores ---- */

void ls_lower_store(ls_lower *l, int32_t number) {
    static const ls_op combine[] = {[LS_STORE_ADD] = LS_OP_ADD, [LS_STORE_MUL] = LS_OP_MUL, [LS_STORE_MIN] = LS_OP_MIN,
                                    [LS_STORE_MAX] = LS_OP_MAX};
    const ls_store *s = &l->spec->stores[number];
    ls_kb *kb = &l->kb;
    ls_val pred = ls_lower_preds(l, s->first_pred, s->n_preds);
    if (s->check != LS_SPEC_NONE) {
        ls_val in = ls_lower_check(l, s->check, s->limit, pred, l->spec->n_values + number);
        pred = ls_lower_and(l, pred, in);
    }
    l->active = pred; /* the value of a point that stores nothing is never looked at */
    ls_val x = ls_lower_value(l, s->value).v;
    l->active = LS_VAL_NONE;
    ls_dtype dtype = l->spec->values[s->value].dtype;
    int64_t count = l->spec->args[s->arg].numel;
    ls_val index = ls_lower_index(l, s->ix);
    ls_lower_guard(l, ls_lower_proves(l, s->ix, count), index, count, &pred);
    int mem = ls_lower_mem(l, LS_EMIT_ARG, s->arg);
    if (s->combine != LS_STORE_SET) {
        ls_val zero = pred == LS_VAL_NONE ? pred : ls_lower_zero(kb, dtype);
        const ls_val both[3] = {ls_kb_load(kb, mem, index, pred, zero, 1), x, LS_VAL_NONE};
        x = ls_lower_map(kb, combine[s->combine], dtype, dtype, both);
    }
    ls_kb_store(kb, mem, index, ls_dtype_is_float(dtype) ? ls_kb_canon(kb, x) : x, pred);
}

static bool same_space(const ls_store *a, const ls_store *b) {
    bool same = a->n_axes == b->n_axes;
    for (int i = 0; same && i < a->n_axes; i++) {
        same = a->axes[i] == b->axes[i];
    }
    return same;
}

/* Marks what a value is computed from, itself included. */
static void mark_index(const ls_spec *spec, int32_t ix, bool *used);
void ls_lower_uses(const ls_spec *spec, int32_t id, bool *used) {
    if (id < 0 || used[id]) {
        return;
    }
    const ls_value *v = &spec->values[id];
    used[id] = true;
    const int32_t values[3] = {v->a, v->b, v->c};
    for (int i = 0; i < 3; i++) {
        ls_lower_uses(spec, values[i], used);
    }
    bool indexed = v->op == LS_V_LOAD || v->op == LS_V_INDEX || v->op == LS_V_RANDOM;
    mark_index(spec, indexed ? v->ix : LS_SPEC_NONE, used);
    mark_index(spec, v->op == LS_V_LOAD ? v->check : LS_SPEC_NONE, used);
    for (int32_t p = v->first_pred; (v->op == LS_V_LOAD || v->op == LS_V_GUARD) && p < v->first_pred + v->n_preds; p++) {
        mark_index(spec, spec->preds[p].ix, used);
    }
}
static void mark_index(const ls_spec *spec, int32_t ix, bool *used) {
    if (ix < 0) {
        return;
    }
    const ls_ix *x = &spec->ix[ix];
    if (x->op == LS_IX_VALUE) {
        ls_lower_uses(spec, x->a, used);
    } else if (x->op >= LS_IX_ADD) {
        mark_index(spec, x->a, used);
        mark_index(spec, x->b, used);
    }
}

void ls_lower_store_uses(const ls_spec *spec, int32_t number, bool *used) {
    const ls_store *s = &spec->stores[number];
    ls_lower_uses(spec, s->value, used);
    mark_index(spec, s->ix, used);
    mark_index(spec, s->check, used);
    for (int32_t p = s->first_pred; p < s->first_pred + s->n_preds; p++) {
        mark_index(spec, spec->preds[p].ix, used);
    }
}

static bool find_wide(ls_lower *l, int32_t first, int32_t count, ls_wide *out) {
    const ls_spec *spec = l->spec;
    const ls_store *s = &spec->stores[first];
    bool *used = LS_ARENA_ARRAY(l->arena, bool, spec->n_values + 1);
    *out = (ls_wide){.ids = LS_ARENA_ARRAY(l->arena, int32_t, spec->n_values + 1)};
    if (!used || !out->ids) {
        l->status = LS_FAIL_MEMORY(l->err, "a kernel's values");
        return false;
    }
    uint64_t space = 0;
    for (int i = 0; i < s->n_axes; i++) {
        space |= UINT64_C(1) << s->axes[i];
    }
    for (int32_t i = first; i < first + count; i++) {
        ls_lower_store_uses(spec, i, used);
    }
    for (int32_t i = 0; i < spec->n_values; i++) {
        const ls_value *v = &spec->values[i];
        int64_t points = v->op == LS_V_REDUCE ? ls_lower_bound_points(l, v) : 0;
        if (used[i] && points > LS_EMIT_SERIAL && l->choice != LS_CHOICE_SERIAL && (v->axes & ~space) == 0 && l->scratch_of[i] < 0) {
            bool index = v->map == LS_OP_ARGMIN || v->map == LS_OP_ARGMAX; /* in any order: no blocks */
            out->apart = out->apart || (out->n && v->axes != out->rows) || (points > LS_EMIT_BLOCK && !index) || ls_lower_is_column(l, i);
            out->rows = v->axes;
            out->ids[out->n++] = i;
        }
    }
    return true;
}

/* One workgroup a row: the reductions one after another, then the row's stores. */
static void row_kernel(ls_lower *l, int32_t first, int32_t count, const ls_wide *w) {
    const ls_store *s = &l->spec->stores[first];
    ls_kb *kb = &l->kb;
    uint8_t outer[2 * LS_MAX_RANK], inner[2 * LS_MAX_RANK];
    int n_outer = 0, n_inner = 0;
    for (int i = 0; i < s->n_axes; i++) {
        if (w->rows >> s->axes[i] & 1) {
            outer[n_outer++] = s->axes[i];
        } else {
            inner[n_inner++] = s->axes[i];
        }
    }
    if (l->choice != LS_CHOICE_NAIVE && ls_lower_rows(l, first, count, w, outer, n_outer, inner, n_inner)) {
        return;
    }
    ls_lower_begin(l, "", LS_COVER_ROW_WORKGROUP);
    ls_lower_point(l, ls_lower_frame(l, ls_lower_bound(l, outer, n_outer), 1), outer, n_outer);
    for (int i = 0; i < w->n; i++) {
        ls_val v = ls_lower_reduce_row(l, w->ids[i]);
        ls_lower_remember(l, w->ids[i], (ls_lowered){v, LS_VAL_NONE, LS_VAL_NONE});
    }
    int64_t points = ls_lower_bound(l, inner, n_inner);
    ls_dtype type = points < INT32_MAX - LS_EMIT_THREADS ? LS_I32 : LS_I64;
    ls_val t = ls_kb_cast(kb, ls_kb_local_id(kb, 0), type);
    ls_val i = ls_kb_loop(kb, t, ls_kb_const_int(kb, type, points), ls_kb_const_int(kb, type, LS_EMIT_THREADS), 0);
    ls_val within = ls_lower_bind_point(l, i, inner, n_inner);
    if (within != LS_VAL_NONE) {
        ls_kb_if(kb, within);
    }
    for (int32_t n = first; n < first + count; n++) {
        ls_lower_store(l, n);
    }
    if (within != LS_VAL_NONE) {
        ls_kb_end_if(kb);
    }
    ls_kb_end_loop(kb);
    ls_lower_end(l);
}

/* A run of stores of one space. */
static void space_kernel(ls_lower *l, int32_t first, int32_t count) {
    const ls_store *s = &l->spec->stores[first];
    int64_t points = ls_lower_bound(l, s->axes, s->n_axes);
    ls_wide w;
    if (points == 0) {
        return;
    }
    ls_choice product = l->choice <= LS_CHOICE_MATRIX ? l->choice : LS_CHOICE_ANY;
    if (product != LS_CHOICE_NAIVE && !ls_lower_contraction(l, first, count, product, false) && !l->stores_left) {
        return;
    }
    l->stores_left = false;
    if (l->status != LS_OK || ls_lower_line(l, first, count) || !find_wide(l, first, count, &w)) {
        return;
    }
    if (w.n && !w.apart) {
        row_kernel(l, first, count, &w);
        return;
    }
    if (w.n == 1 && ls_lower_column_stores(l, first, count, w.ids[0])) {
        return;
    }
    for (int i = 0; i < w.n && l->status == LS_OK; i++) {
        ls_lower_materialise(l, w.ids[i]);
    }
    if (l->status != LS_OK) {
        return;
    }
    ls_lower_points(l, first, count);
}

/* ---- a spec ---- */

static ls_status prepare(ls_lower *l) {
    const ls_spec *spec = l->spec;
    l->reports = LS_ARENA_ARRAY(l->arena, bool, spec->n_values + 1);
    l->ix_reports = LS_ARENA_ARRAY(l->arena, bool, spec->n_ix + 1);
    l->read = LS_ARENA_ARRAY(l->arena, bool, spec->n_args + 1);
    l->scratch_of = LS_ARENA_ARRAY(l->arena, int32_t, spec->n_values + 1);
    l->chunks_of = LS_ARENA_ARRAY(l->arena, int64_t, spec->n_values + 1);
    l->chunk_of = LS_ARENA_ARRAY(l->arena, int64_t, spec->n_values + 1);
    l->blocks_of = LS_ARENA_ARRAY(l->arena, int64_t, spec->n_values + 1);
    l->arg_mem = LS_ARENA_ARRAY(l->arena, int, spec->n_args + 1);
    l->memo = LS_ARENA_ARRAY(l->arena, ls_lowered, spec->n_values + 1);
    l->ix_memo = LS_ARENA_ARRAY(l->arena, ls_val, spec->n_ix + 1);
    bool *used = LS_ARENA_ARRAY(l->arena, bool, spec->n_values + 1);
    if (!l->reports || !l->ix_reports || !l->read || !l->scratch_of || !l->chunks_of || !l->chunk_of || !l->blocks_of || !l->arg_mem || !l->memo || !l->ix_memo || !used) {
        return LS_FAIL_MEMORY(l->err, "the lowering of a spec");
    }
    l->cap_symbols = 16;
    bool checks = false;
    for (int32_t i = 0; i < spec->n_values; i++) {
        const ls_value *v = &spec->values[i];
        l->scratch_of[i] = -1;
        if (v->op == LS_V_LOAD) {
            l->read[v->arg] = true;
            checks = checks || v->check != LS_SPEC_NONE;
        }
    }
    for (int32_t i = 0; i < spec->n_values && checks; i++) { /* small specs: the square of their size is little */
        for (int32_t j = 0; j < spec->n_values; j++) {
            used[j] = false;
        }
        ls_lower_uses(spec, i, used);
        for (int32_t j = 0; j <= i; j++) {
            l->reports[i] = l->reports[i] || (used[j] && spec->values[j].check != LS_SPEC_NONE && spec->values[j].op == LS_V_LOAD);
        }
    }
    for (int32_t i = 0; i < spec->n_ix && checks; i++) {
        const ls_ix *x = &spec->ix[i];
        l->ix_reports[i] = x->op == LS_IX_VALUE ? l->reports[x->a]
                           : x->op >= LS_IX_ADD ? l->ix_reports[x->a] || l->ix_reports[x->b]
                                                : false;
    }
    for (int32_t i = 0; i < spec->n_stores; i++) {
        l->read[spec->stores[i].arg] = l->read[spec->stores[i].arg] || spec->stores[i].combine != LS_STORE_SET;
    }
    return LS_OK;
}

ls_status ls_lower_start(ls_lower *l, ls_arena *arena, const ls_spec *spec, const ls_emit_caps *caps, ls_kernel_list *list,
                         ls_error *err) {
    *l = (ls_lower){.arena = arena, .err = err, .spec = spec, .list = list, .choice = LS_CHOICE_ANY};
    l->max_groups = caps && caps->max_groups > 0 ? caps->max_groups : 65535;
    l->max_threads = caps && caps->max_threads > 0 ? caps->max_threads : LS_EMIT_THREADS;
    l->max_shared = caps && caps->max_shared > 0 ? caps->max_shared : 32768;
    l->caps = caps;
    return prepare(l);
}

int32_t ls_lower_run(const ls_spec *spec, int32_t first) {
    const ls_store *s = &spec->stores[first];
    int32_t count = 1;
    for (; s->combine == LS_STORE_SET && s->check == LS_SPEC_NONE && first + count < spec->n_stores; count++) {
        const ls_store *next = &spec->stores[first + count];
        if (next->combine != LS_STORE_SET || next->check != LS_SPEC_NONE || !same_space(s, next)) {
            break;
        }
    }
    return count;
}

ls_status ls_lower_spec(ls_lower *l) {
    if (l->spec->kind == LS_GROUP_ATTENTION && l->choice != LS_CHOICE_NAIVE) {
        const char *why = ls_lower_attention(l, false);
        return l->status != LS_OK ? l->status
               : why ? LS_FAIL(l->err, LS_ERR_UNSUPPORTED, "emit: kernel %s: strategy fused: %s", l->spec->name, why)
                     : LS_OK;
    }
    for (int32_t first = 0; first < l->spec->n_stores && l->status == LS_OK;) {
        const ls_store *s = &l->spec->stores[first];
        int32_t count = ls_lower_run(l->spec, first);
        if (s->combine != LS_STORE_SET || s->check != LS_SPEC_NONE) {
            ls_lower_scatter(l, first);
        } else {
            space_kernel(l, first, count);
        }
        first += count;
    }
    return l->status;
}

ls_status ls_emit(ls_arena *arena, const ls_spec *spec, const ls_emit_caps *caps, const char *strategy,
                  ls_kernel_list *out_list, ls_error *err) {
    ls_kernel_list list = {0};
    ls_lower l;
    LS_TRY(err, ls_lower_start(&l, arena, spec, caps, &list, err));
    if (strategy) {
        LS_TRY(err, ls_lower_choose(&l, strategy));
    }
    LS_TRY(err, ls_lower_spec(&l));
    *out_list = list;
    return LS_OK;
}
