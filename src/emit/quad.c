/* Four neighbouring points: loads and stores of four lanes.
 *
 * The points differ in one axis, by 0 to 3 from a multiple of 4, or are neighbours in their whole space taken
 * as one line. A load whose index has stride 1 in that axis, is a multiple of 4 at its first point, and has
 * predicates that do not depend on the axis, is one load of four lanes; all else is computed point by point.
 * What is asked here of index expressions is what the verifier can prove of their instructions. */
#include "base/number.h"
#include "emit/lower.h"

/* A divisor of an expression where the axis is a multiple of `by`; 0: of 0. */
static int64_t divisor(const ls_spec *spec, int32_t id, int axis, int64_t by) {
    const ls_ix *x = &spec->ix[id];
    int64_t a, b, p;
    switch ((ls_ix_op)x->op) {
    case LS_IX_CONST:
        return x->k == INT64_MIN ? 1 : x->k < 0 ? -x->k : x->k;
    case LS_IX_AXIS:
        return x->a == axis ? by : 1;
    case LS_IX_DIM:
    case LS_IX_VALUE:
        return 1;
    default:
        break;
    }
    a = divisor(spec, x->a, axis, by);
    b = divisor(spec, x->b, axis, by);
    bool fixed = spec->ix[x->b].op == LS_IX_CONST && b > 0;
    switch ((ls_ix_op)x->op) {
    case LS_IX_ADD:
        return ls_gcd(a, b);
    case LS_IX_MUL:
        return __builtin_mul_overflow(a, b, &p) ? 1 : p;
    case LS_IX_DIV:
        return fixed && a % b == 0 ? a / b : 1;
    default:
        return fixed ? ls_gcd(a, b) : 1;
    }
}

/* Whether `count` elements hold four lanes wherever the expression is the first of them. */
static bool aligned(const ls_lower *l, int32_t ix, int axis, uint64_t proved, int64_t count) {
    int64_t stride, lo, hi;
    return ls_lower_interval(l, ix, proved | UINT64_C(1) << axis, &lo, &hi) &&
           ((lo >= 0 && hi < count) || count % 4 == 0) && ls_ix_affine(l->spec, ix, axis, &stride) &&
           stride == 1 && divisor(l->spec, ix, axis, 4) % 4 == 0;
}

static bool free_of(const ls_lower *l, int32_t ix, int axis) {
    return ix < 0 || !(l->spec->ix[ix].axes >> axis & 1);
}
static bool preds_free_of(const ls_lower *l, int32_t first, int32_t n, int axis) {
    for (int32_t i = first; i < first + n; i++) {
        if (!free_of(l, l->spec->preds[i].ix, axis) || !free_of(l, l->spec->preds[i].limit, axis)) {
            return false;
        }
    }
    return true;
}
static bool narrow(ls_dtype dtype) {
    return dtype != LS_BOOL && ls_dtype_size(dtype) <= 4;
}

bool ls_quad_axis(const ls_lower *l, int axis) {
    ls_dim extent = l->spec->extents_of_axes[axis];
    return ls_dim_is_fixed(extent) && extent.offset > 0 && extent.offset % 4 == 0;
}

bool ls_quad_loads(const ls_lower *l, int32_t id, int axis, uint64_t proved) {
    const ls_value *v = &l->spec->values[id];
    return v->op == LS_V_LOAD && (v->axes >> axis & 1) && narrow((ls_dtype)v->dtype) &&
           l->scratch_of[id] < 0 && preds_free_of(l, v->first_pred, v->n_preds, axis) &&
           free_of(l, v->check, axis) && (v->check < 0 || free_of(l, v->limit, axis)) &&
           aligned(l, v->ix, axis, proved, l->spec->args[v->arg].numel);
}

int32_t ls_quad_words(const ls_lower *l, int32_t id, int axis) {
    const ls_spec *spec = l->spec;
    const ls_value *v = &spec->values[id];
    int64_t stride, lo, hi;
    if (v->op == LS_V_GUARD && v->b < 0 && preds_free_of(l, v->first_pred, v->n_preds, axis)) {
        id = v->a;
        v = &spec->values[id];
    }
    ls_dim extent = spec->extents_of_axes[axis];
    bool fits = v->op == LS_V_LOAD && (v->axes >> axis & 1) && ls_dtype_size((ls_dtype)v->dtype) == 2 &&
                ls_dim_is_fixed(extent) && extent.offset > 0 && extent.offset % 8 == 0 && l->scratch_of[id] < 0 &&
                v->check < 0 && preds_free_of(l, v->first_pred, v->n_preds, axis);
    fits = fits && spec->args[v->arg].numel % 2 == 0 && ls_ix_affine(spec, v->ix, axis, &stride) && stride == 1 &&
           divisor(spec, v->ix, axis, 8) % 8 == 0 && ls_lower_interval(l, v->ix, ~UINT64_C(0), &lo, &hi);
    return fits ? id : LS_SPEC_NONE;
}

bool ls_quad_stores(const ls_lower *l, int32_t number, int axis, uint64_t proved) {
    const ls_store *s = &l->spec->stores[number];
    return s->combine == LS_STORE_SET && s->check < 0 && narrow((ls_dtype)l->spec->values[s->value].dtype) &&
           preds_free_of(l, s->first_pred, s->n_preds, axis) &&
           aligned(l, s->ix, axis, proved, l->spec->args[s->arg].numel);
}

/* A load or store at the place of its point in the line. */
static bool placed(const ls_quad *q, int32_t ix, int32_t n_preds, ls_dtype dtype) {
    return n_preds == 0 && narrow(dtype) && ls_lower_is_place(q->l->spec, ix, q->axes, q->n_axes);
}

static bool loads(const ls_quad *q, int32_t id) {
    const ls_value *v = &q->l->spec->values[id];
    return q->axis >= 0
               ? ls_quad_loads(q->l, id, q->axis, q->l->proved)
               : v->op == LS_V_LOAD && v->check < 0 && placed(q, v->ix, v->n_preds, (ls_dtype)v->dtype);
}

static bool stores(const ls_quad *q, int32_t number) {
    const ls_store *s = &q->l->spec->stores[number];
    return q->axis >= 0 ? ls_quad_stores(q->l, number, q->axis, q->l->proved)
                        : placed(q, s->ix, s->n_preds, (ls_dtype)q->l->spec->values[s->value].dtype);
}

/* Binds the first point. */
static void bind_first(ls_quad *q) {
    if (q->axis >= 0) {
        ls_lower_bind(q->l, q->axis, q->base, true);
    } else {
        (void)ls_lower_bind_point(q->l, q->at, q->axes, q->n_axes);
    }
    if (q->at != LS_VAL_NONE) {
        ls_lower_know_place(q->l, q->at, q->axes, q->n_axes);
    }
}

void ls_quad_start(ls_quad *q, const bool *used) {
    ls_lower *l = q->l;
    q->ids = LS_ARENA_ARRAY(l->arena, int32_t, l->spec->n_values + 1);
    q->four = LS_ARENA_ARRAY(l->arena, ls_lowered, l->spec->n_values + 1);
    if (!q->ids || !q->four) {
        l->kb.status = l->status = LS_FAIL_MEMORY(l->err, "the loads of a kernel");
        return;
    }
    bind_first(q);
    for (int32_t i = 0; i < l->spec->n_values; i++) {
        bool known = q->known && q->known[i].v > 0;
        if (used[i] && !known && l->scratch_of[i] < 0 && loads(q, i)) {
            q->four[q->n] = (ls_lowered){ls_lower_load(l, i, 4), LS_VAL_NONE, l->active};
            q->ids[q->n++] = i;
        }
    }
}

void ls_quad_lane(ls_quad *q, int lane) {
    ls_kb *kb = &q->l->kb;
    ls_val first = q->axis >= 0 ? q->base : q->at;
    first = lane ? ls_kb_add(kb, first, ls_kb_const_int(kb, ls_lower_type(q->l, first), lane)) : first;
    if (q->axis >= 0) {
        ls_lower_bind(q->l, q->axis, first, true);
    } else {
        (void)ls_lower_bind_point(q->l, first, q->axes, q->n_axes);
    }
    for (int i = 0; i < q->n; i++) {
        ls_lowered x = q->four[i];
        x.v = ls_kb_extract(kb, x.v, lane);
        ls_lower_remember(q->l, q->ids[i], x);
    }
    for (int32_t i = 0; q->known && i < q->l->spec->n_values; i++) {
        ls_lowered x = q->known[(int64_t)lane * q->l->spec->n_values + i];
        if (x.v > 0) {
            x.v--;
            ls_lower_remember(q->l, i, x);
        }
    }
}

ls_val ls_quad_join(ls_kb *kb, const ls_val x[4]) {
    return ls_kb_join(kb, ls_kb_join(kb, x[0], x[1]), ls_kb_join(kb, x[2], x[3]));
}

void ls_quad_store(ls_quad *q, int32_t first, int32_t count, int32_t id, const ls_val given[4]) {
    ls_lower *l = q->l;
    ls_kb *kb = &l->kb;
    ls_val(*x)[4] = ls_arena_array(l->arena, (size_t)count, sizeof *x);
    bool *wide = LS_ARENA_ARRAY(l->arena, bool, count);
    ls_val *preds = LS_ARENA_ARRAY(l->arena, ls_val, count);
    if (!x || !wide || !preds) {
        l->kb.status = l->status = LS_FAIL_MEMORY(l->err, "the stores of a kernel");
        return;
    }
    for (int32_t n = 0; n < count; n++) {
        const ls_store *s = &l->spec->stores[first + n];
        wide[n] = stores(q, first + n);
        preds[n] = wide[n] ? ls_lower_preds(l, s->first_pred, s->n_preds) : LS_VAL_NONE;
    }
    for (int lane = 0; lane < 4; lane++) {
        ls_quad_lane(q, lane);
        if (id >= 0) {
            ls_lower_remember(l, id, (ls_lowered){given[lane], LS_VAL_NONE, LS_VAL_NONE});
        }
        for (int32_t n = 0; n < count; n++) {
            if (wide[n]) {
                l->active = preds[n];
                x[n][lane] = ls_lower_value(l, l->spec->stores[first + n].value).v;
                l->active = LS_VAL_NONE;
            } else {
                ls_lower_store(l, first + n);
            }
        }
    }
    bind_first(q);
    for (int32_t n = 0; n < count; n++) {
        const ls_store *s = &l->spec->stores[first + n];
        if (wide[n]) {
            int64_t elements = l->spec->args[s->arg].numel;
            ls_val index = ls_lower_index(l, s->ix), all = ls_quad_join(kb, x[n]);
            ls_lower_guard(l, ls_lower_proves(l, s->ix, elements), index, elements, &preds[n]);
            bool real = ls_dtype_is_float((ls_dtype)l->spec->values[s->value].dtype);
            ls_kb_store(kb, ls_lower_mem(l, LS_EMIT_ARG, s->arg), index, real ? ls_kb_canon(kb, all) : all,
                        preds[n]);
        }
    }
}
