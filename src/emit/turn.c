/* Element-wise kernels whose operands lie across the result, as a transposition's do. A workgroup does a tile of up to
 * 64 x 64 points: a thread computes 4 x 4 of them, with loads of four lanes along the one axis, turns them in registers,
 * and puts them into shared memory; from there threads take and store four lanes along the other axis. In a line of the
 * tile the runs of four are turned about by their place across, so that neither side meets a bank twice. */
#include "emit/lower.h"

enum { SIDE = 4, LEAST = 16, MOST = 64 };

typedef struct turn {
    ls_lower *l;
    const ls_store *s;
    int axis[2]; /* the operands', and the last, which is the result's */
    int64_t bound[2];
    int tile[2];      /* points */
    ls_dtype type;    /* of positions */
    ls_val first[2];  /* of the tile */
    int mem;
} turn;

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
        if (ls_quad_axis(l, s->axes[i]) && extent >= LEAST && across > along) {
            return s->axes[i];
        }
    }
    return -1;
}

static int axis_to_turn(const ls_lower *l, int32_t first, int32_t count, const bool *used) {
    const ls_spec *spec = l->spec;
    const ls_store *s = &spec->stores[first];
    bool plain = count == 1 && s->n_axes >= 2 && s->n_preds == 0 && l->choice != LS_CHOICE_NAIVE &&
                 l->max_threads >= LS_EMIT_THREADS;
    for (int i = 0; i < s->n_axes && plain; i++) {
        plain = ls_dim_is_fixed(spec->extents_of_axes[s->axes[i]]);
    }
    for (int32_t v = 0; v < spec->n_values && plain; v++) {
        plain = !used[v] || (spec->values[v].op != LS_V_REDUCE && spec->values[v].op != LS_V_CONTRACT && !l->reports[v]);
    }
    int last = s->n_axes ? s->axes[s->n_axes - 1] : -1;
    plain = plain && ls_quad_axis(l, last) && ls_quad_stores(l, first, last, ~UINT64_C(0)) &&
            ls_dim_bound(spec->extents_of_axes[last]) >= LEAST;
    return plain ? axis_across(l, s, used) : -1;
}

static ls_val take(ls_kb *kb, ls_val *at, ls_dtype type, int64_t count) {
    ls_val by = ls_kb_const_int(kb, type, count), low = ls_kb_rem(kb, *at, by);
    *at = ls_kb_div(kb, *at, by);
    return low;
}

static ls_val position(turn *t, int64_t k) {
    return ls_kb_const_int(&t->l->kb, t->type, k);
}

/* Binds an axis to a point of the tile: the last ones again where the tile goes beyond them. */
static ls_val bind(turn *t, int i, ls_val in_tile, int lanes) {
    ls_kb *kb = &t->l->kb;
    ls_val at = ls_kb_add(kb, t->first[i], ls_kb_cast(kb, in_tile, t->type));
    if (t->bound[i] % t->tile[i]) {
        at = ls_kb_min(kb, at, position(t, t->bound[i] - lanes));
    }
    ls_lower_bind(t->l, t->axis[i], at, true);
    return at;
}

/* Where a run of four of line `a` of the tile is in shared memory; `four` is a / 4. */
static ls_val place_of(turn *t, ls_val a, ls_val four, ls_val run) {
    ls_kb *kb = &t->l->kb;
    ls_val runs = ls_kb_i32(kb, t->tile[1] / SIDE), about = ls_kb_rem(kb, ls_kb_add(kb, run, four), runs);
    return ls_kb_add(kb, ls_kb_mul(kb, a, ls_kb_i32(kb, t->tile[1])), ls_kb_mul(kb, about, ls_kb_i32(kb, SIDE)));
}

/* 4 x 4 points of a thread, into shared memory. */
static void compute(turn *t, ls_val local, const bool *used) {
    ls_lower *l = t->l;
    ls_kb *kb = &l->kb;
    ls_val side = ls_kb_i32(kb, SIDE), runs = ls_kb_i32(kb, t->tile[0] / SIDE);
    ls_val own = ls_kb_rem(kb, local, runs), a = ls_kb_mul(kb, own, side), b = ls_kb_div(kb, local, runs);
    ls_val low = ls_kb_mul(kb, b, side), x[SIDE][SIDE];
    ls_quad q[SIDE];
    for (int j = 0; j < SIDE && l->status == LS_OK; j++) { /* all loads first */
        (void)bind(t, 1, ls_kb_add(kb, low, ls_kb_i32(kb, j)), 1);
        q[j] = (ls_quad){.l = l, .axis = t->axis[0], .base = bind(t, 0, a, SIDE), .at = LS_VAL_NONE};
        ls_quad_start(&q[j], used);
    }
    for (int j = 0; j < SIDE && l->status == LS_OK; j++) {
        (void)bind(t, 1, ls_kb_add(kb, low, ls_kb_i32(kb, j)), 1);
        for (int i = 0; i < SIDE; i++) {
            ls_quad_lane(&q[j], i);
            x[i][j] = ls_lower_value(l, t->s->value).v;
        }
    }
    for (int i = 0; i < SIDE && l->status == LS_OK; i++) {
        ls_val line = i ? ls_kb_add(kb, a, ls_kb_i32(kb, i)) : a;
        ls_kb_store(kb, t->mem, place_of(t, line, own, b), ls_quad_join(kb, x[i]), LS_VAL_NONE);
    }
}

/* Four runs of a thread, out of it. */
static void store(turn *t, ls_val local) {
    ls_lower *l = t->l;
    ls_kb *kb = &l->kb;
    int64_t elements = l->spec->args[t->s->arg].numel;
    int lines = t->tile[0] / SIDE; /* that the workgroup stores at once */
    bool real = ls_dtype_is_float((ls_dtype)l->spec->values[t->s->value].dtype);
    ls_val runs = ls_kb_i32(kb, t->tile[1] / SIDE);
    ls_val run = ls_kb_rem(kb, local, runs), line = ls_kb_div(kb, local, runs);
    for (int i = 0; i < SIDE; i++) {
        ls_val a = i ? ls_kb_add(kb, line, ls_kb_i32(kb, i * lines)) : line, here = LS_VAL_NONE;
        const ls_val in_tile[2] = {a, ls_kb_mul(kb, run, ls_kb_i32(kb, SIDE))};
        ls_val place = place_of(t, a, ls_kb_div(kb, a, ls_kb_i32(kb, SIDE)), run);
        ls_val four = ls_kb_load(kb, t->mem, place, LS_VAL_NONE, LS_VAL_NONE, SIDE);
        for (int n = 0; n < 2; n++) {
            (void)bind(t, n, in_tile[n], n ? SIDE : 1);
            if (t->bound[n] % t->tile[n]) {
                ls_val at = ls_kb_add(kb, t->first[n], ls_kb_cast(kb, in_tile[n], t->type));
                here = ls_lower_and(l, here, ls_kb_lt(kb, at, position(t, t->bound[n])));
            }
        }
        ls_val index = ls_lower_index(l, t->s->ix);
        ls_lower_guard(l, ls_lower_proves(l, t->s->ix, elements), index, elements, &here);
        ls_kb_store(kb, ls_lower_mem(l, LS_EMIT_ARG, t->s->arg), index, real ? ls_kb_canon(kb, four) : four, here);
    }
}

bool ls_lower_turned(ls_lower *l, int32_t first, int32_t count, const bool *used) {
    const ls_spec *spec = l->spec;
    const ls_store *s = &spec->stores[first];
    ls_kb *kb = &l->kb;
    int across = axis_to_turn(l, first, count, used);
    if (across < 0) {
        return false;
    }
    turn t = {.l = l, .s = s, .axis = {across, s->axes[s->n_axes - 1]}};
    int64_t tiles[2], groups = 1;
    for (int i = 0; i < 2; i++) {
        t.bound[i] = ls_dim_bound(spec->extents_of_axes[t.axis[i]]);
        t.tile[i] = t.bound[i] >= MOST ? MOST : t.bound[i] >= MOST / 2 ? MOST / 2 : LEAST;
        tiles[i] = (t.bound[i] + t.tile[i] - 1) / t.tile[i];
        groups *= tiles[i];
    }
    uint8_t outer[2 * LS_MAX_RANK];
    int n_outer = 0;
    for (int i = 0; i + 1 < s->n_axes; i++) {
        if (s->axes[i] != across) {
            outer[n_outer++] = s->axes[i];
        }
    }
    ls_lower_begin(l, "", LS_COVER_TURNED);
    ls_kb_workgroup(kb, t.tile[0] / SIDE * (t.tile[1] / SIDE), 1, 1);
    ls_val at = ls_lower_frame(l, groups * ls_lower_bound(l, outer, n_outer), 1), local = ls_kb_local_id(kb, 0);
    bool far = t.bound[0] >= INT32_MAX - MOST || t.bound[1] >= INT32_MAX - MOST;
    t.type = far ? LS_I64 : ls_lower_type(l, at);
    at = ls_kb_cast(kb, at, t.type);
    for (int i = 1; i >= 0; i--) {
        t.first[i] = ls_kb_mul(kb, take(kb, &at, t.type, tiles[i]), position(&t, t.tile[i]));
    }
    ls_lower_point(l, at, outer, n_outer);
    t.mem = ls_kb_shared(kb, "tile", (ls_dtype)spec->values[s->value].dtype, (int64_t)t.tile[0] * t.tile[1]);
    compute(&t, local, used);
    ls_kb_barrier(kb);
    if (l->status == LS_OK) {
        store(&t, local);
    }
    ls_lower_end(l);
    return true;
}
