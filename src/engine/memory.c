/* The memory plan: offsets for temporaries in one arena. Largest first, each at the offset where it leaves
 * the smallest gap among the items already placed that live at the same time. */
#include "engine/exec.h"
#include <string.h>

/* By size, descending; equal ones by first use, so that the plan is the same everywhere. */
static bool before(const ls_memory_item *a, const ls_memory_item *b) {
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->first < b->first;
}

static void sort(ls_memory_item **items, ls_memory_item **scratch, int n) {
    if (n < 2) {
        return;
    }
    int half = n / 2, i = 0, j = half;
    sort(items, scratch, half);
    sort(items + half, scratch, n - half);
    for (int k = 0; k < n; k++) {
        bool left = j == n || (i < half && !before(items[j], items[i]));
        scratch[k] = items[left ? i++ : j++];
    }
    memcpy(items, scratch, sizeof *items * (size_t)n);
}

static size_t room(const ls_memory_item *item) {
    return (item->bytes + LS_MEMORY_GAP + LS_MEMORY_ALIGN - 1) / LS_MEMORY_ALIGN * LS_MEMORY_ALIGN;
}

/* `placed` is sorted by offset. */
static size_t best_offset(const ls_memory_item *item, ls_memory_item *const *placed, int n) {
    size_t need = room(item), end = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    for (int i = 0; i < n; i++) {
        const ls_memory_item *other = placed[i];
        if (other->last < item->first || item->last < other->first) {
            continue;
        }
        if (other->offset > end && other->offset - end >= need && other->offset - end - need < best_gap) {
            best = end;
            best_gap = other->offset - end - need;
        }
        size_t other_end = other->offset + room(other);
        end = other_end > end ? other_end : end;
    }
    return best != SIZE_MAX ? best : end;
}

ls_status ls_memory_plan(ls_arena *arena, ls_memory_item *items, int n, size_t *out_bytes, ls_error *err) {
    ls_memory_item **order = LS_ARENA_ARRAY(arena, ls_memory_item *, n);
    ls_memory_item **placed = LS_ARENA_ARRAY(arena, ls_memory_item *, n);
    if (!order || !placed) {
        return LS_FAIL_MEMORY(err, "a memory plan");
    }
    for (int i = 0; i < n; i++) {
        if (items[i].bytes > SIZE_MAX / 2) {
            return LS_FAIL(err, LS_ERR_MEMORY, "a temporary of %zu bytes", items[i].bytes);
        }
        order[i] = &items[i];
    }
    sort(order, placed, n);
    *out_bytes = 0;
    for (int i = 0; i < n; i++) {
        ls_memory_item *item = order[i];
        item->offset = best_offset(item, placed, i);
        int at = i;
        while (at > 0 && placed[at - 1]->offset > item->offset) {
            placed[at] = placed[at - 1];
            at--;
        }
        placed[at] = item;
        size_t end = item->offset + room(item);
        *out_bytes = end > *out_bytes ? end : *out_bytes;
    }
    return LS_OK;
}

/* Marks what a value is made of; operands come before what uses them. */
static void mark_below(const ls_spec *spec, int32_t value, bool *marks) {
    marks[value] = true;
    for (int32_t i = value; i >= 0; i--) {
        const ls_value *v = &spec->values[i];
        const int32_t operands[] = {v->a, v->b, v->c};
        for (int j = 0; marks[i] && j < 3; j++) {
            if (operands[j] != LS_SPEC_NONE) {
                marks[operands[j]] = true;
            }
        }
    }
}

static bool loads_marked(const ls_spec *spec, int arg, const bool *marks) {
    bool any = false;
    for (int i = 0; i < spec->n_values; i++) {
        any = any || (marks[i] && spec->values[i].op == LS_V_LOAD && spec->values[i].arg == arg);
    }
    return any;
}

/* A kernel with several results, or a contraction with what follows it: `arg` must be read neither by what is summed nor by a result
 * that is stored after the one that replaces it. */
static bool read_before_stored(const ls_spec *spec, int arg, int store) {
    enum { MOST_VALUES = 256 };
    bool summed[MOST_VALUES] = {false}, later[MOST_VALUES] = {false};
    int contractions = 0;
    if (spec->n_values > MOST_VALUES || (spec->kind != LS_GROUP_POINTWISE && spec->kind != LS_GROUP_CONTRACT)) {
        return false;
    }
    for (int i = 0; i < spec->n_ix; i++) {
        if (spec->ix[i].op == LS_IX_VALUE) {
            return false;
        }
    }
    for (int i = 0; i < spec->n_values; i++) {
        const ls_value *v = &spec->values[i];
        if (v->op == LS_V_CONTRACT && ++contractions == 1) {
            mark_below(spec, i, summed);
        } else if (v->n_bound) {
            return false;
        }
    }
    for (int i = 0; i < spec->n_stores; i++) {
        const ls_store *s = &spec->stores[i];
        if (s->combine != LS_STORE_SET || s->n_preds || s->check != LS_SPEC_NONE) {
            return false;
        }
        if (i > store) {
            mark_below(spec, s->value, later);
        }
    }
    return !loads_marked(spec, arg, summed) && !loads_marked(spec, arg, later);
}

bool ls_memory_may_alias(const ls_spec *spec, int arg, int result, bool fused) {
    int n = 0;
    while (n < spec->n_stores && spec->stores[n].arg != result) {
        n++;
    }
    if (n == spec->n_stores || (!fused && (spec->kind != LS_GROUP_POINTWISE || spec->n_stores != 1))) {
        return false;
    }
    const ls_store *store = &spec->stores[n];
    if (store->combine != LS_STORE_SET || store->check != LS_SPEC_NONE || store->n_preds ||
        spec->args[arg].numel != spec->args[store->arg].numel ||
        ls_dtype_size(spec->args[arg].dtype) != ls_dtype_size(spec->args[store->arg].dtype)) {
        return false;
    }
    bool bound = false;
    for (int i = 0; i < spec->n_values; i++) {
        const ls_value *v = &spec->values[i];
        bound = bound || v->op == LS_V_REDUCE || v->op == LS_V_CONTRACT || v->op == LS_V_SCAN || v->op == LS_V_SORT;
        if (v->op == LS_V_LOAD && v->arg == arg && v->ix != store->ix) {
            return false;
        }
    }
    return (!bound && spec->n_stores == 1 && spec->kind == LS_GROUP_POINTWISE) || (fused && read_before_stored(spec, arg, n));
}
