/* Element-wise kernels: a thread does four neighbouring points where its loads or stores can be of four
 * lanes.
 *
 * The points are four of the innermost axis when its extent is a multiple of 4. Otherwise, when the number of
 * points is one and every store goes to the place of its point, they are four of the whole space taken as one
 * line. */
#include "emit/lower.h"

bool ls_lower_is_place(const ls_spec *spec, int32_t ix, const uint8_t *axes, int n_axes) {
    const ls_ix *x = &spec->ix[ix];
    int64_t stride, points = 1;
    uint64_t space = 0;
    for (int i = n_axes - 1; i >= 0; i--) {
        space |= UINT64_C(1) << axes[i];
        int64_t extent = ls_dim_bound(spec->extents_of_axes[axes[i]]);
        if (!ls_ix_affine(spec, ix, axes[i], &stride) || (extent > 1 && stride != points)) {
            return false;
        }
        points *= extent;
    }
    return !(x->axes & ~space) && x->lo == 0 && x->hi == points - 1;
}

void ls_lower_know_place(ls_lower *l, ls_val at, const uint8_t *axes, int n_axes) {
    for (int32_t i = 0; i < l->spec->n_ix; i++) {
        if (l->spec->ix[i].op >= LS_IX_ADD && ls_lower_is_place(l->spec, i, axes, n_axes)) {
            bool small = l->spec->ix[i].hi <= INT32_MAX;
            ls_lower_know_index(l, i, ls_kb_cast(&l->kb, at, small ? LS_I32 : LS_I64));
        }
    }
}

static bool all_fixed(const ls_spec *spec, const ls_store *s) {
    for (int i = 0; i < s->n_axes; i++) {
        if (!ls_dim_is_fixed(spec->extents_of_axes[s->axes[i]])) {
            return false;
        }
    }
    return true;
}

enum { QUADS = 2 };

typedef enum way { ONE, AXIS, LINE } way;

static way way_of(ls_lower *l, int32_t first, int32_t count, const bool *used) {
    const ls_spec *spec = l->spec;
    const ls_store *s = &spec->stores[first];
    int axis = s->n_axes ? s->axes[s->n_axes - 1] : -1, gains = 0;
    if (axis < 0 || l->choice == LS_CHOICE_NAIVE) {
        return ONE;
    }
    for (int32_t i = 0; i < spec->n_values; i++) {
        const ls_value *v = &spec->values[i];
        bool loops =
            l->scratch_of[i] < 0 ? v->op == LS_V_REDUCE || v->op == LS_V_CONTRACT : l->chunks_of[i] > 0;
        if (used[i] && loops) {
            return ONE;
        }
        gains += used[i] && ls_quad_axis(l, axis) && ls_quad_loads(l, i, axis, ~UINT64_C(0));
    }
    bool places = all_fixed(spec, s) && ls_lower_bound(l, s->axes, s->n_axes) % 4 == 0;
    for (int32_t n = first; n < first + count; n++) {
        const ls_store *t = &spec->stores[n];
        gains += ls_quad_axis(l, axis) && ls_quad_stores(l, n, axis, ~UINT64_C(0));
        ls_dtype dtype = (ls_dtype)spec->values[t->value].dtype;
        places = places && t->n_preds == 0 && dtype != LS_BOOL && ls_dtype_size(dtype) <= 4 &&
                 ls_lower_is_place(spec, t->ix, s->axes, s->n_axes);
    }
    return ls_quad_axis(l, axis) && gains ? AXIS : places ? LINE : ONE;
}

/* Quads of a thread: two where elements are so small that one is few bytes under way. */
static int quads_of(const ls_lower *l, int32_t first, const bool *used, int64_t points) {
    bool small = ls_dtype_size((ls_dtype)l->spec->values[l->spec->stores[first].value].dtype) <= 2;
    for (int32_t i = 0; i < l->spec->n_values && small; i++) {
        const ls_value *v = &l->spec->values[i];
        small = !used[i] || v->op != LS_V_LOAD || ls_dtype_size((ls_dtype)v->dtype) <= 2;
    }
    bool whole = points >= 65536 && points % (4 * QUADS * LS_EMIT_THREADS) == 0;
    return small && whole && all_fixed(l->spec, &l->spec->stores[first]) ? QUADS : 1;
}

void ls_lower_points(ls_lower *l, int32_t first, int32_t count) {
    const ls_store *s = &l->spec->stores[first];
    ls_kb *kb = &l->kb;
    bool *used = LS_ARENA_ARRAY(l->arena, bool, l->spec->n_values + 1);
    if (!used) {
        l->status = LS_FAIL_MEMORY(l->err, "a kernel's values");
        return;
    }
    for (int32_t n = first; n < first + count; n++) {
        ls_lower_store_uses(l->spec, n, used);
    }
    if (l->choice != LS_CHOICE_QUAD && ls_lower_turned(l, first, count, used)) {
        return;
    }
    way how = way_of(l, first, count, used);
    int64_t points = ls_lower_bound(l, s->axes, s->n_axes);
    ls_lower_begin(l, "", how == ONE ? LS_COVER_POINT : how == AXIS ? LS_COVER_QUAD_AXIS : LS_COVER_QUAD_LINE);
    int quads = how == ONE ? 1 : quads_of(l, first, used, points);
    ls_val at = ls_lower_frame(l, how == ONE ? points : points / 4 / quads, LS_EMIT_THREADS);
    if (how == ONE) {
        ls_lower_point(l, at, s->axes, s->n_axes);
        if (l->choice != LS_CHOICE_NAIVE) {
            ls_lower_know_place(l, at, s->axes, s->n_axes);
        }
        for (int32_t n = first; n < first + count; n++) {
            ls_lower_store(l, n);
        }
        ls_lower_end(l);
        return;
    }
    int axis = how == AXIS ? s->axes[s->n_axes - 1] : -1;
    ls_dtype type = ls_lower_type(l, at);
    ls_quad q[QUADS];
    for (int i = 0; i < quads && l->status == LS_OK; i++) { /* all loads go before the first store */
        ls_val place = at;
        if (quads > 1) { /* runs of 256 quads, so that neighbouring threads stay neighbours */
            ls_val run = ls_kb_const_int(kb, type, LS_EMIT_THREADS);
            place = ls_kb_mul(kb, ls_kb_div(kb, at, run), ls_kb_const_int(kb, type, quads * LS_EMIT_THREADS));
            place = ls_kb_add(kb, place, ls_kb_rem(kb, at, run));
            place = ls_kb_add(kb, place, ls_kb_const_int(kb, type, i * LS_EMIT_THREADS));
        }
        place = ls_kb_mul(kb, place, ls_kb_const_int(kb, type, 4));
        if (how == AXIS) {
            ls_lower_point(l, place, s->axes, s->n_axes);
        }
        q[i] = (ls_quad){.l = l,
                         .axis = axis,
                         .base = axis < 0 ? LS_VAL_NONE : l->axis[axis],
                         .at = place,
                         .axes = s->axes,
                         .n_axes = s->n_axes};
        ls_quad_start(&q[i], used);
    }
    for (int i = 0; i < quads && l->status == LS_OK; i++) {
        if (quads > 1 && how == AXIS) {
            (void)ls_lower_bind_point(l, q[i].at, s->axes, s->n_axes);
        }
        ls_quad_store(&q[i], first, count, LS_SPEC_NONE, NULL);
    }
    ls_lower_end(l);
}
