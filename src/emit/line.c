/* Scans and sorts, simply: right, with one thread a line (scan) or one thread an element that counts what goes before it (sort:
 * work by the square of the line).
 *
 * SCAN  serial in blocks of 512; block totals scanned by the same rule; then the total of all earlier blocks combined in front.
 *       The scan of totals goes along: two variables a level, as in an odometer, for what a block of totals gave so far and
 *       for all before it.
 * SORT  an element's place is the number of those that go before it: stable, NaN last. */
#include "emit/lower.h"

static void store_all(ls_lower *l, int32_t first, int32_t count) {
    for (int32_t i = first; i < first + count; i++) {
        ls_lower_store(l, i);
    }
}

static ls_val at(ls_lower *l, ls_dtype type, int64_t k) {
    return ls_kb_const_int(&l->kb, type, k);
}

static ls_dtype position_type(int64_t bound) {
    return bound < INT32_MAX - LS_EMIT_CHUNK ? LS_I32 : LS_I64;
}

enum { LEVELS = 7 }; /* 512 to the 7th is as many as there can be */

/* A scan at work. Level 0 are blocks of elements, level k blocks of totals of level k - 1. */
typedef struct scan {
    ls_lower *l;
    int32_t id;
    const ls_value *v;
    ls_op op;
    ls_dtype type;      /* of positions */
    ls_val n;           /* elements of the line */
    ls_val last;        /* a variable: the element before, of an exclusive scan */
    int n_levels;       /* the last has one block */
    ls_val run[LEVELS]; /* variables: this level's block so far */
    ls_val all[LEVELS]; /* and the total of all its blocks before, which at the last but one is what the last has so far */
} scan;

static ls_val combined(scan *c, ls_val first, ls_val a, ls_val b) { /* b where it is the first */
    return ls_kb_select(&c->l->kb, first, b, ls_lower_combine(&c->l->kb, c->op, c->v->acc, a, b));
}

/* Block `block` of level k - 1 has the total `x`. */
static void add_total(scan *c, int k, ls_val block, ls_val x) {
    ls_kb *kb = &c->l->kb;
    ls_val zero = at(c->l, c->type, 0), chunk = at(c->l, c->type, LS_EMIT_CHUNK);
    if (k + 1 == c->n_levels) {
        ls_kb_set(kb, c->all[k - 1], combined(c, ls_kb_eq(kb, block, zero), ls_kb_get(kb, c->all[k - 1]), x));
        return;
    }
    ls_val place = ls_kb_rem(kb, block, chunk), outer = ls_kb_div(kb, block, chunk);
    ls_val run = combined(c, ls_kb_eq(kb, place, zero), ls_kb_get(kb, c->run[k]), x);
    ls_kb_set(kb, c->run[k], run);
    ls_kb_set(kb, c->all[k - 1], combined(c, ls_kb_eq(kb, outer, zero), ls_kb_get(kb, c->all[k]), run));
    ls_kb_if(kb, ls_kb_eq(kb, place, at(c->l, c->type, LS_EMIT_CHUNK - 1)));
    add_total(c, k + 1, outer, run);
    ls_kb_end_if(kb);
}

/* One block of a line, from position `begin` to `end`. */
static void scan_block(scan *c, ls_val begin, ls_val end, int32_t first, int32_t count) {
    ls_lower *l = c->l;
    ls_kb *kb = &l->kb;
    const ls_value *v = c->v;
    int axis = v->bound[0], mark = ls_lower_mark(l);
    ls_val initial = ls_kb_eq(kb, begin, at(l, c->type, 0));
    ls_val i = ls_kb_loop(kb, begin, end, at(l, c->type, 1), 0);
    ls_val place = v->reverse ? ls_kb_sub(kb, ls_kb_sub(kb, c->n, at(l, c->type, 1)), i) : i;
    ls_lower_bind(l, axis, place, !v->reverse || ls_dim_is_fixed(l->spec->extents_of_axes[axis]));
    ls_val x = ls_kb_cast(kb, ls_lower_value(l, v->a).v, v->acc);
    ls_val run = combined(c, ls_kb_eq(kb, i, begin), ls_kb_get(kb, c->run[0]), x);
    ls_kb_set(kb, c->run[0], run);
    ls_val out = c->n_levels == 1 ? run : combined(c, initial, ls_kb_get(kb, c->all[0]), run);
    if (v->exclusive) {
        ls_val before = ls_kb_get(kb, c->last);
        ls_kb_set(kb, c->last, out);
        out = before;
    }
    ls_lower_remember(l, c->id, (ls_lowered){ls_kb_cast(kb, out, v->dtype), LS_VAL_NONE, LS_VAL_NONE});
    store_all(l, first, count);
    ls_kb_end_loop(kb);
    ls_lower_undo(l, mark);
    if (c->n_levels > 1) {
        add_total(c, 1, ls_kb_div(kb, begin, at(l, c->type, LS_EMIT_CHUNK)), ls_kb_get(kb, c->run[0]));
    }
}

static void scan_kernel(ls_lower *l, int32_t id, int32_t first, int32_t count) {
    static const ls_op ops[] = {LS_OP_SUM, LS_OP_PROD, LS_OP_AMIN, LS_OP_AMAX}; /* by ls_scan_kind */
    const ls_value *v = &l->spec->values[id];
    const ls_store *s = &l->spec->stores[first];
    ls_kb *kb = &l->kb;
    ls_dim extent = l->spec->extents_of_axes[v->bound[0]];
    scan c = {.l = l, .id = id, .v = v, .op = ops[v->map], .type = position_type(ls_dim_bound(extent))};
    uint8_t lines[2 * LS_MAX_RANK];
    int n_lines = 0;
    for (int i = 0; i < s->n_axes; i++) {
        if (s->axes[i] != v->bound[0]) {
            lines[n_lines++] = s->axes[i];
        }
    }
    ls_lower_begin(l, "lines", LS_COVER_SCAN);
    ls_lower_point(l, ls_lower_frame(l, ls_lower_bound(l, lines, n_lines), LS_EMIT_THREADS), lines, n_lines);
    ls_val zero = ls_lower_zero(kb, v->acc);
    c.n = ls_lower_dim(l, extent, c.type);
    c.last = ls_kb_var(kb, ls_lower_identity(kb, c.op, v->acc));
    for (int64_t items = ls_dim_bound(extent); c.n_levels == 0 || items > 1; c.n_levels++) {
        items = (items + LS_EMIT_CHUNK - 1) / LS_EMIT_CHUNK; /* this level's blocks, which are the next one's items */
        c.run[c.n_levels] = ls_kb_var(kb, zero);
        c.all[c.n_levels] = ls_kb_var(kb, zero);
    }
    ls_val begin = ls_kb_loop(kb, at(l, c.type, 0), c.n, at(l, c.type, LS_EMIT_CHUNK), 0);
    ls_val end = ls_kb_min(kb, ls_kb_add(kb, begin, at(l, c.type, LS_EMIT_CHUNK)), c.n);
    scan_block(&c, begin, end, first, count);
    ls_kb_end_loop(kb);
    ls_lower_end(l);
}

/* Whether x goes before y: NaN last in both directions. */
static ls_val goes_before(ls_lower *l, const ls_value *v, ls_val x, ls_val y) {
    ls_kb *kb = &l->kb;
    ls_dtype dtype = l->spec->values[v->a].dtype;
    bool down = v->map == 1;
    const ls_val pair[3] = {down ? y : x, down ? x : y, LS_VAL_NONE};
    ls_val less = ls_lower_map(kb, LS_OP_LT, dtype, LS_BOOL, pair);
    ls_val x_nan = ls_lower_is_nan(kb, dtype, x), y_nan = ls_lower_is_nan(kb, dtype, y);
    return x_nan == LS_VAL_NONE ? less : ls_kb_or(kb, less, ls_kb_and(kb, y_nan, ls_kb_not(kb, x_nan)));
}

static void sort_kernel(ls_lower *l, int32_t id, int32_t first, int32_t count) {
    const ls_value *v = &l->spec->values[id];
    const ls_store *s = &l->spec->stores[first];
    ls_kb *kb = &l->kb;
    int axis = v->bound[0];
    ls_dim extent = l->spec->extents_of_axes[axis];
    ls_dtype type = position_type(ls_dim_bound(extent));
    ls_lower_begin(l, "places", LS_COVER_SORT);
    ls_lower_point(l, ls_lower_frame(l, ls_lower_bound(l, s->axes, s->n_axes), LS_EMIT_THREADS), s->axes, s->n_axes);
    ls_val mine = l->axis[axis] == LS_VAL_NONE ? at(l, type, 0) : ls_kb_cast(kb, l->axis[axis], type);
    ls_val x = ls_lower_value(l, v->a).v, place = ls_kb_var(kb, at(l, type, 0));
    int mark = ls_lower_mark(l);
    ls_val i = ls_kb_loop(kb, at(l, type, 0), ls_lower_dim(l, extent, type), at(l, type, 1), 0);
    ls_lower_bind(l, axis, i, true);
    ls_val other = ls_lower_value(l, v->a).v;
    ls_val earlier = ls_kb_not(kb, goes_before(l, v, x, other)), later = goes_before(l, v, other, x);
    ls_val counts = ls_kb_select(kb, ls_kb_lt(kb, i, mine), earlier, later);
    ls_kb_set(kb, place, ls_kb_add(kb, ls_kb_get(kb, place), ls_kb_cast(kb, counts, type)));
    ls_kb_end_loop(kb);
    ls_lower_undo(l, mark);
    ls_lower_bind(l, axis, ls_kb_get(kb, place), false); /* the verifier does not know that it is below the extent */
    ls_lower_remember(l, id, (ls_lowered){ls_kb_cast(kb, mine, v->dtype), LS_VAL_NONE, LS_VAL_NONE});
    store_all(l, first, count);
    ls_lower_end(l);
}

bool ls_lower_line(ls_lower *l, int32_t first, int32_t count) {
    const ls_spec *spec = l->spec;
    int32_t id = -1;
    for (int32_t i = 0; i < spec->n_values; i++) {
        if (spec->values[i].op == LS_V_SCAN || spec->values[i].op == LS_V_SORT) {
            if (id >= 0) {
                l->status = LS_FAIL(l->err, LS_ERR_UNSUPPORTED, "emit: kernel %s: several scans or sorts", spec->name);
                return true;
            }
            id = i;
        }
    }
    if (id < 0) {
        return false;
    }
    uint64_t space = 0;
    for (int i = 0; i < spec->stores[first].n_axes; i++) {
        space |= UINT64_C(1) << spec->stores[first].axes[i];
    }
    uint64_t own = spec->values[id].axes;
    if ((own & ~space) != 0 || (spec->kind != LS_GROUP_SCAN && spec->kind != LS_GROUP_SORT)) {
        l->status = LS_FAIL(l->err, LS_ERR_UNSUPPORTED, "emit: kernel %s: a scan or sort inside another loop", spec->name);
    } else if (spec->values[id].op == LS_V_SCAN) {
        scan_kernel(l, id, first, count);
    } else {
        sort_kernel(l, id, first, count);
    }
    return true;
}
