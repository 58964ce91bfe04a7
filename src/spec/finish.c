/* The last step of building a spec, and what is asked of whole specs: equality and copies. Invariant:
 * after ls_spec_finish every index expression, predicate and value is reached from a store, in the order
 * in which they were made. */
#include "spec/build.h"
#include <stdio.h>
#include <string.h>

typedef struct finisher {
    ls_spec *spec;
    bool *ix_used, *value_used;
    int32_t *ix_new, *value_new, *pred_new;
    int32_t *stack; /* ids; an index expression as -1 - id */
    int depth;
} finisher;

static void use_ix(finisher *f, int32_t ix) {
    if (ix >= 0 && !f->ix_used[ix]) {
        f->ix_used[ix] = true;
        f->stack[f->depth++] = -1 - ix;
    }
}

static void use_value(finisher *f, int32_t value) {
    if (value >= 0 && !f->value_used[value]) {
        f->value_used[value] = true;
        f->stack[f->depth++] = value;
    }
}

static void use_preds(finisher *f, int32_t first, int32_t n) {
    for (int32_t i = first; i < first + n; i++) {
        use_ix(f, f->spec->preds[i].ix);
        use_ix(f, f->spec->preds[i].limit);
    }
}

static void use_all(finisher *f) {
    const ls_spec *spec = f->spec;
    for (int i = 0; i < spec->n_stores; i++) {
        const ls_store *s = &spec->stores[i];
        use_ix(f, s->ix);
        use_ix(f, s->check);
        use_ix(f, s->limit);
        use_value(f, s->value);
        use_preds(f, s->first_pred, s->n_preds);
        while (f->depth) {
            int32_t id = f->stack[--f->depth];
            if (id < 0) {
                const ls_ix *x = &spec->ix[-1 - id];
                if (x->op == LS_IX_VALUE) {
                    use_value(f, x->a);
                } else if (x->op >= LS_IX_ADD) {
                    use_ix(f, x->a);
                    use_ix(f, x->b);
                }
            } else {
                const ls_value *v = &spec->values[id];
                use_value(f, v->a);
                use_value(f, v->b);
                use_value(f, v->c);
                use_ix(f, v->ix);
                use_ix(f, v->check);
                use_ix(f, v->limit);
                use_preds(f, v->first_pred, v->n_preds);
            }
        }
    }
}

static int32_t renumber(const int32_t *map, int32_t id) {
    return id < 0 ? id : map[id];
}

/* Lists of predicates are interned, so a list is known by its first. */
static int32_t move_preds(finisher *f, ls_pred *preds, int *count, int32_t first, int32_t n) {
    if (n == 0) {
        return 0;
    }
    if (f->pred_new[first] < 0) {
        f->pred_new[first] = *count;
        for (int32_t i = first; i < first + n; i++) {
            ls_pred p = f->spec->preds[i];
            p.ix = renumber(f->ix_new, p.ix);
            p.limit = renumber(f->ix_new, p.limit);
            preds[(*count)++] = p;
        }
    }
    return f->pred_new[first];
}

static void compact(finisher *f, ls_pred *preds) {
    ls_spec *spec = f->spec;
    int n_ix = 0, n_values = 0, n_preds = 0;
    for (int i = 0; i < spec->n_ix; i++) {
        f->ix_new[i] = f->ix_used[i] ? n_ix++ : 0;
    }
    for (int i = 0; i < spec->n_values; i++) {
        f->value_new[i] = f->value_used[i] ? n_values++ : 0;
    }
    for (int i = 0; i < spec->n_ix; i++) {
        ls_ix x = spec->ix[i];
        if (x.op == LS_IX_VALUE) {
            x.a = f->value_new[x.a];
        } else if (x.op >= LS_IX_ADD) {
            x.a = f->ix_new[x.a];
            x.b = f->ix_new[x.b];
        }
        if (f->ix_used[i]) {
            spec->ix[f->ix_new[i]] = x;
        }
    }
    for (int i = 0; i < spec->n_values; i++) {
        ls_value v = spec->values[i];
        if (f->value_used[i]) {
            v.a = renumber(f->value_new, v.a);
            v.b = renumber(f->value_new, v.b);
            v.c = renumber(f->value_new, v.c);
            v.ix = renumber(f->ix_new, v.ix);
            v.check = renumber(f->ix_new, v.check);
            v.limit = renumber(f->ix_new, v.limit);
            v.first_pred = move_preds(f, preds, &n_preds, v.first_pred, v.n_preds);
            spec->values[f->value_new[i]] = v;
        }
    }
    for (int i = 0; i < spec->n_stores; i++) {
        ls_store *s = &spec->stores[i];
        s->ix = renumber(f->ix_new, s->ix);
        s->check = renumber(f->ix_new, s->check);
        s->limit = renumber(f->ix_new, s->limit);
        s->value = renumber(f->value_new, s->value);
        s->first_pred = move_preds(f, preds, &n_preds, s->first_pred, s->n_preds);
    }
    spec->n_ix = n_ix;
    spec->n_values = n_values;
    spec->preds = preds;
    spec->n_preds = n_preds;
}

/* ---- names and hashes ---- */
static void name_add(ls_spec *spec, const char *word) {
    size_t len = strlen(spec->name);
    if (len + strlen(word) + 2 <= sizeof spec->name) {
        snprintf(spec->name + len, sizeof spec->name - len, "%s%s", len ? "_" : "", word);
    }
}

static void name_spec(ls_spec *spec) {
    int first = 0;
    spec->name[0] = 0;
    for (int i = 0; i < spec->n_values; i++) { /* what a contraction reads is not worth a name */
        first = spec->values[i].op == LS_V_CONTRACT ? i : first;
    }
    if (spec->kind == LS_GROUP_SCATTER) {
        name_add(spec, "scatter");
    }
    for (int i = first; i < spec->n_values; i++) {
        const ls_value *v = &spec->values[i];
        if (v->op == LS_V_MAP || v->op == LS_V_REDUCE) {
            name_add(spec, ls_ops[v->map].name);
        } else if (v->op == LS_V_LOAD && v->check != LS_SPEC_NONE) {
            name_add(spec, "gather");
        } else if (v->op == LS_V_RANDOM || v->op == LS_V_CONTRACT || v->op == LS_V_SCAN ||
                   v->op == LS_V_SORT) {
            static const char *const names[] = {[LS_V_RANDOM] = "random",
                                                [LS_V_CONTRACT] = "contract",
                                                [LS_V_SCAN] = "scan",
                                                [LS_V_SORT] = "argsort"};
            name_add(spec, names[v->op]);
        }
    }
    if (!spec->name[0]) {
        name_add(spec, spec->n_args > 1 ? "copy" : "fill");
    }
}

static uint64_t hash_dim(ls_dim d, uint64_t seed) {
    uint64_t symbol = d.symbol ? (uint64_t)d.symbol->index + 1 : 0;
    return ls_hash_u64(symbol, ls_hash_u64((uint64_t)d.scale, ls_hash_u64((uint64_t)d.offset, seed)));
}

static uint64_t pair(int32_t a, int32_t b) {
    return (uint64_t)(uint32_t)a << 32 | (uint32_t)b;
}

static uint64_t hash_spec(const ls_spec *spec) {
    uint64_t h = ls_hash_u64((uint64_t)spec->kind << 8 | (uint64_t)spec->math, (uint64_t)spec->n_axes);
    for (int i = 0; i < spec->n_axes; i++) {
        h = hash_dim(spec->extents_of_axes[i], h);
    }
    for (int i = 0; i < spec->n_dims; i++) {
        h = hash_dim(spec->dims[i], h);
    }
    for (int i = 0; i < spec->n_ix; i++) {
        h = ls_hash_u64((uint64_t)spec->ix[i].k,
                        ls_hash_u64(pair(spec->ix[i].a, spec->ix[i].b), h + spec->ix[i].op));
    }
    for (int i = 0; i < spec->n_preds; i++) {
        h = ls_hash_u64((uint64_t)spec->preds[i].multiple,
                        ls_hash_u64(pair(spec->preds[i].ix, spec->preds[i].limit), h));
    }
    for (int i = 0; i < spec->n_values; i++) {
        const ls_value *v = &spec->values[i];
        h = ls_hash_u64((uint64_t)v->op << 40 | (uint64_t)v->dtype << 32 | (uint64_t)v->acc << 24 | v->map,
                        h);
        h = ls_hash_u64(pair(v->a, v->b), ls_hash_u64(pair(v->c, v->ix), h));
        h = ls_hash_u64(pair(v->arg, v->first_pred), ls_hash_u64(pair(v->n_preds, v->check), h));
        h = ls_hash_u64(v->bits, ls_hash_u64((uint64_t)v->exclusive << 8 | v->reverse, h));
        h = ls_hash(v->bound, v->n_bound, ls_hash_u64(pair(v->limit, v->n_bound), h));
    }
    for (int i = 0; i < spec->n_stores; i++) {
        const ls_store *s = &spec->stores[i];
        h = ls_hash_u64(pair(s->arg, s->ix), ls_hash_u64(pair(s->value, s->n_axes), h));
        h = ls_hash_u64(pair(s->first_pred, s->n_preds), ls_hash_u64(pair((int32_t)s->combine, s->check), h));
        h = ls_hash(s->axes, (size_t)s->n_axes, h);
    }
    for (int i = 0; i < spec->n_args; i++) {
        h = ls_hash_u64((uint64_t)spec->args[i].numel,
                        h + (uint64_t)spec->args[i].dtype * 2 + spec->args[i].written);
    }
    return h;
}

ls_status ls_spec_finish(ls_arena *arena, ls_spec *spec, ls_error *err) {
    size_t n_ix = (size_t)spec->n_ix + 1, n_values = (size_t)spec->n_values + 1,
           n_preds = (size_t)spec->n_preds + 1;
    finisher f = {.spec = spec};
    f.ix_used = LS_ARENA_ARRAY(arena, bool, n_ix);
    f.value_used = LS_ARENA_ARRAY(arena, bool, n_values);
    f.ix_new = LS_ARENA_ARRAY(arena, int32_t, n_ix);
    f.value_new = LS_ARENA_ARRAY(arena, int32_t, n_values);
    f.pred_new = LS_ARENA_ARRAY(arena, int32_t, n_preds);
    f.stack = LS_ARENA_ARRAY(arena, int32_t, n_ix + n_values);
    ls_pred *preds = LS_ARENA_ARRAY(arena, ls_pred, n_preds);
    if (!f.ix_used || !f.value_used || !f.ix_new || !f.value_new || !f.pred_new || !f.stack || !preds) {
        return LS_FAIL_MEMORY(err, "a kernel's spec");
    }
    for (size_t i = 0; i < n_preds; i++) {
        f.pred_new[i] = -1;
    }
    use_all(&f);
    compact(&f, preds);
    name_spec(spec);
    spec->hash = hash_spec(spec);
    return LS_OK;
}

/* ---- equality and copies ---- */
static bool dims_equal(const ls_dim *a, const ls_dim *b, int n) {
    for (int i = 0; i < n; i++) {
        if (!ls_dim_equal(a[i], b[i])) {
            return false;
        }
    }
    return true;
}

static bool value_equal(const ls_value *x, const ls_value *y) {
    return x->op == y->op && x->dtype == y->dtype && x->acc == y->acc && x->map == y->map &&
           x->exclusive == y->exclusive && x->reverse == y->reverse && x->a == y->a && x->b == y->b &&
           x->c == y->c && x->ix == y->ix && x->arg == y->arg && x->bits == y->bits && x->axes == y->axes &&
           x->n_bound == y->n_bound && memcmp(x->bound, y->bound, x->n_bound) == 0 &&
           x->first_pred == y->first_pred && x->n_preds == y->n_preds && x->limit == y->limit &&
           x->check == y->check;
}

static bool store_equal(const ls_store *x, const ls_store *y) {
    return x->arg == y->arg && x->ix == y->ix && x->value == y->value && x->n_axes == y->n_axes &&
           memcmp(x->axes, y->axes, (size_t)x->n_axes) == 0 && x->first_pred == y->first_pred &&
           x->n_preds == y->n_preds && x->combine == y->combine && x->check == y->check &&
           x->limit == y->limit;
}

bool ls_spec_equal(const ls_spec *a, const ls_spec *b) {
    if (a->hash != b->hash || a->kind != b->kind || a->math != b->math || a->n_axes != b->n_axes ||
        a->n_dims != b->n_dims || a->n_ix != b->n_ix || a->n_values != b->n_values ||
        a->n_preds != b->n_preds || a->n_stores != b->n_stores || a->n_args != b->n_args ||
        !dims_equal(a->extents_of_axes, b->extents_of_axes, a->n_axes) ||
        !dims_equal(a->dims, b->dims, a->n_dims)) {
        return false;
    }
    bool equal = true;
    for (int i = 0; i < a->n_ix && equal; i++) {
        const ls_ix *x = &a->ix[i], *y = &b->ix[i];
        equal = x->op == y->op && x->a == y->a && x->b == y->b && x->k == y->k;
    }
    for (int i = 0; i < a->n_preds && equal; i++) {
        const ls_pred *x = &a->preds[i], *y = &b->preds[i];
        equal = x->ix == y->ix && x->limit == y->limit && x->multiple == y->multiple;
    }
    for (int i = 0; i < a->n_values && equal; i++) {
        equal = value_equal(&a->values[i], &b->values[i]);
    }
    for (int i = 0; i < a->n_stores && equal; i++) {
        equal = store_equal(&a->stores[i], &b->stores[i]);
    }
    for (int i = 0; i < a->n_args && equal; i++) {
        const ls_spec_arg *x = &a->args[i], *y = &b->args[i];
        equal = x->dtype == y->dtype && x->numel == y->numel && x->written == y->written;
    }
    return equal;
}

static bool copy_array(ls_arena *arena, void *inout, size_t count, size_t elem) {
    void **data = inout;
    void *fresh = ls_arena_alloc(arena, (count ? count : 1) * elem);
    if (fresh && count) {
        memcpy(fresh, *data, count * elem);
    }
    *data = fresh;
    return fresh != NULL;
}

int64_t ls_spec_points(const ls_spec *spec, const uint8_t *axes, int n_axes) {
    int64_t n = 1;
    for (int i = 0; i < n_axes; i++) {
        n *= ls_dim_bound(spec->extents_of_axes[axes[i]]);
    }
    return n;
}

ls_status ls_spec_copy(ls_arena *arena, const ls_spec *spec, ls_spec *out_spec, ls_error *err) {
    ls_spec s = *spec;
    bool ok = copy_array(arena, &s.extents_of_axes, (size_t)s.n_axes, sizeof *s.extents_of_axes) &&
              copy_array(arena, &s.dims, (size_t)s.n_dims, sizeof *s.dims) &&
              copy_array(arena, &s.ix, (size_t)s.n_ix, sizeof *s.ix) &&
              copy_array(arena, &s.values, (size_t)s.n_values, sizeof *s.values) &&
              copy_array(arena, &s.preds, (size_t)s.n_preds, sizeof *s.preds) &&
              copy_array(arena, &s.stores, (size_t)s.n_stores, sizeof *s.stores) &&
              copy_array(arena, &s.args, (size_t)s.n_args, sizeof *s.args);
    if (!ok) {
        return LS_FAIL_MEMORY(err, "a kernel's spec");
    }
    *out_spec = s;
    return LS_OK;
}
