/* Scans and sorts, simply: right, with one thread a line (scan) or one thread an element that counts what goes before it (sort:
 * work by the square of the line).
 *
 * SCAN  serial in blocks of 512; block totals scanned by the same rule; then the total of all earlier blocks combined in front.
 *       Lines of more than 512 blocks would need totals of totals: refused.
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

/* One block of a line, from position `begin` to `end`; its total is in `sum`, that of earlier blocks in `total`. */
static void scan_block(ls_lower *l, int32_t id, ls_val begin, ls_val end, ls_val n, ls_val vars[3], int32_t first, int32_t count) {
    static const ls_op ops[] = {LS_OP_SUM, LS_OP_PROD, LS_OP_AMIN, LS_OP_AMAX}; /* by ls_scan_kind */
    const ls_value *v = &l->spec->values[id];
    ls_kb *kb = &l->kb;
    ls_dtype type = ls_lower_type(l, begin);
    ls_val sum = vars[0], total = vars[1], last = vars[2];
    ls_op op = ops[v->map];
    int axis = v->bound[0], mark = ls_lower_mark(l);
    ls_val initial = ls_kb_eq(kb, begin, at(l, type, 0));
    ls_val i = ls_kb_loop(kb, begin, end, at(l, type, 1), 0);
    ls_val place = v->reverse ? ls_kb_sub(kb, ls_kb_sub(kb, n, at(l, type, 1)), i) : i;
    ls_lower_bind(l, axis, place, !v->reverse || ls_dim_is_fixed(l->spec->extents_of_axes[axis]));
    ls_val x = ls_kb_cast(kb, ls_lower_value(l, v->a).v, v->acc);
    ls_val run = ls_lower_combine(kb, op, v->acc, ls_kb_get(kb, sum), x);
    run = ls_kb_select(kb, ls_kb_eq(kb, i, begin), x, run);
    ls_kb_set(kb, sum, run);
    ls_val out = ls_lower_combine(kb, op, v->acc, ls_kb_get(kb, total), run);
    out = ls_kb_select(kb, initial, run, out);
    if (v->exclusive) {
        ls_val before = ls_kb_get(kb, last);
        ls_kb_set(kb, last, out);
        out = before;
    }
    ls_lower_remember(l, id, (ls_lowered){ls_kb_cast(kb, out, v->dtype), LS_VAL_NONE, LS_VAL_NONE});
    store_all(l, first, count);
    ls_kb_end_loop(kb);
    ls_lower_undo(l, mark);
    ls_val all = ls_kb_get(kb, sum), sums = ls_lower_combine(kb, op, v->acc, ls_kb_get(kb, total), all);
    ls_kb_set(kb, total, ls_kb_select(kb, initial, all, sums));
}

static void scan_kernel(ls_lower *l, int32_t id, int32_t first, int32_t count) {
    const ls_value *v = &l->spec->values[id];
    const ls_store *s = &l->spec->stores[first];
    ls_kb *kb = &l->kb;
    ls_dim extent = l->spec->extents_of_axes[v->bound[0]];
    if (ls_dim_bound(extent) > LS_EMIT_CHUNK * LS_EMIT_CHUNK) {
        l->status = LS_FAIL(l->err, LS_ERR_UNSUPPORTED, "emit: kernel %s: a scan of more than 512 blocks of 512", l->spec->name);
        return;
    }
    uint8_t lines[2 * LS_MAX_RANK];
    int n_lines = 0;
    for (int i = 0; i < s->n_axes; i++) {
        if (s->axes[i] != v->bound[0]) {
            lines[n_lines++] = s->axes[i];
        }
    }
    ls_lower_begin(l, "lines", LS_COVER_SCAN);
    ls_lower_point(l, ls_lower_frame(l, ls_lower_bound(l, lines, n_lines), LS_EMIT_THREADS), lines, n_lines);
    ls_dtype type = position_type(ls_dim_bound(extent));
    ls_val n = ls_lower_dim(l, extent, type), zero = ls_lower_zero(kb, v->acc);
    static const ls_op ops[] = {LS_OP_SUM, LS_OP_PROD, LS_OP_AMIN, LS_OP_AMAX};
    ls_val identity = ls_lower_identity(kb, ops[v->map], v->acc);
    ls_val vars[3] = {ls_kb_var(kb, zero), ls_kb_var(kb, zero), ls_kb_var(kb, identity)};
    ls_val begin = ls_kb_loop(kb, at(l, type, 0), n, at(l, type, LS_EMIT_CHUNK), 0);
    ls_val end = ls_kb_min(kb, ls_kb_add(kb, begin, at(l, type, LS_EMIT_CHUNK)), n);
    scan_block(l, id, begin, end, n, vars, first, count);
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
