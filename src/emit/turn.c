/* Element-wise kernels whose operands lie across the result, as a transposition's do: a thread does 4 x 4
 * points, with loads of four lanes along the one axis and stores of four along the other; 32 threads do 32 x
 * 16. */
#include "emit/lower.h"

enum { SIDE = 4, ACROSS = 8, ALONG = 4 }; /* threads of 32 along the operands' axis, and along the result's */

/* The axis that more operands lie along than along the last; -1: there is none. */
static int axis_across(const ls_lower *l, const ls_store *s, const bool *used) {
    int last = s->axes[s->n_axes - 1];
    for (int i = 0; i + 1 < s->n_axes; i++) {
        int64_t extent = ls_dim_bound(l->spec->extents_of_axes[s->axes[i]]);
        int across = 0, along = 0;
        for (int32_t v = 0; v < l->spec->n_values; v++) {
            across += used[v] && ls_quad_loads(l, v, s->axes[i], ~UINT64_C(0));
            along += used[v] && ls_quad_loads(l, v, last, ~UINT64_C(0));
        }
        if (ls_quad_axis(l, s->axes[i]) && extent % (SIDE * ACROSS) == 0 && across > along) {
            return s->axes[i];
        }
    }
    return -1;
}

static int axis_to_turn(const ls_lower *l, int32_t first, int32_t count, const bool *used) {
    const ls_spec *spec = l->spec;
    const ls_store *s = &spec->stores[first];
    bool plain = count == 1 && s->n_axes >= 2 && s->n_preds == 0 && l->choice != LS_CHOICE_NAIVE;
    for (int i = 0; i < s->n_axes && plain; i++) {
        plain = ls_dim_is_fixed(spec->extents_of_axes[s->axes[i]]);
    }
    for (int32_t v = 0; v < spec->n_values && plain; v++) {
        plain = !used[v] || (spec->values[v].op != LS_V_REDUCE && spec->values[v].op != LS_V_CONTRACT);
    }
    int last = s->n_axes ? s->axes[s->n_axes - 1] : -1;
    plain = plain && ls_quad_axis(l, last) && ls_quad_stores(l, first, last, ~UINT64_C(0)) &&
            ls_dim_bound(spec->extents_of_axes[last]) % (SIDE * ALONG) == 0;
    return plain ? axis_across(l, s, used) : -1;
}

static ls_val take(ls_kb *kb, ls_val *at, ls_dtype type, int64_t count) {
    ls_val by = ls_kb_const_int(kb, type, count), low = ls_kb_rem(kb, *at, by);
    *at = ls_kb_div(kb, *at, by);
    return low;
}

bool ls_lower_turned(ls_lower *l, int32_t first, int32_t count, const bool *used) {
    const ls_spec *spec = l->spec;
    const ls_store *s = &spec->stores[first];
    ls_kb *kb = &l->kb;
    int across = axis_to_turn(l, first, count, used);
    if (across < 0) {
        return false;
    }
    int last = s->axes[s->n_axes - 1], n_outer = 0;
    uint8_t outer[2 * LS_MAX_RANK];
    for (int i = 0; i + 1 < s->n_axes; i++) {
        if (s->axes[i] != across) {
            outer[n_outer++] = s->axes[i];
        }
    }
    ls_lower_begin(l, "", LS_COVER_TURNED);
    ls_val at = ls_lower_frame(l, ls_lower_bound(l, s->axes, s->n_axes) / (SIDE * SIDE), LS_EMIT_THREADS);
    ls_dtype type = ls_lower_type(l, at);
    ls_val side = ls_kb_const_int(kb, type, SIDE), own[2], tile[2];
    own[0] = take(kb, &at, type, ACROSS);
    own[1] = take(kb, &at, type, ALONG);
    tile[1] = take(kb, &at, type, ls_dim_bound(spec->extents_of_axes[last]) / (SIDE * ALONG));
    tile[0] = take(kb, &at, type, ls_dim_bound(spec->extents_of_axes[across]) / (SIDE * ACROSS));
    for (int i = 0; i < 2; i++) {
        tile[i] = ls_kb_mul(kb, tile[i], ls_kb_const_int(kb, type, i ? ALONG : ACROSS));
        own[i] = ls_kb_mul(kb, ls_kb_add(kb, tile[i], own[i]), side);
    }
    ls_lower_point(l, at, outer, n_outer);
    ls_val x[SIDE][SIDE];
    ls_quad q[SIDE];
    for (int j = 0; j < SIDE && l->status == LS_OK; j++) { /* all loads first */
        ls_lower_bind(l, last, ls_kb_add(kb, own[1], ls_kb_const_int(kb, type, j)), true);
        q[j] = (ls_quad){.l = l, .axis = across, .base = own[0], .at = LS_VAL_NONE};
        ls_quad_start(&q[j], used);
    }
    for (int j = 0; j < SIDE && l->status == LS_OK; j++) {
        ls_lower_bind(l, last, ls_kb_add(kb, own[1], ls_kb_const_int(kb, type, j)), true);
        for (int i = 0; i < SIDE; i++) {
            ls_quad_lane(&q[j], i);
            x[i][j] = ls_lower_value(l, s->value).v;
        }
    }
    ls_lower_bind(l, last, own[1], true);
    for (int i = 0; i < SIDE && l->status == LS_OK; i++) {
        ls_lower_bind(l, across, ls_kb_add(kb, own[0], ls_kb_const_int(kb, type, i)), true);
        int64_t elements = spec->args[s->arg].numel;
        ls_val index = ls_lower_index(l, s->ix), pred = LS_VAL_NONE, four = ls_quad_join(kb, x[i]);
        ls_lower_guard(l, ls_lower_proves(l, s->ix, elements), index, elements, &pred);
        bool real = ls_dtype_is_float((ls_dtype)spec->values[s->value].dtype);
        ls_kb_store(kb, ls_lower_mem(l, LS_EMIT_ARG, s->arg), index, real ? ls_kb_canon(kb, four) : four, pred);
    }
    ls_lower_end(l);
    return true;
}
