/* Reductions along rows, with what is computed from them, in one kernel: softmax, norms, sums.
 *
 * A row has 32 to 256 threads, and a workgroup 256 of them in one row or several. Thread t has the elements
 * t, t + T, t + 2T, ... of its row, T the threads of a row, a divisor of 256: it owns whole partials of the
 * contract (element i belongs to partial i mod 256), adds each up in order, and does the first steps of the
 * halving by itself; the others go through shared memory eight at a time, or through shuffles where subgroups
 * are known. The steps of the halving are the contract's, so the bits are. Where elements can be loaded by
 * fours, a row has 32 or 64 threads, and thread t the elements 4t to 4t + 3 and those 4T, 8T, ... further on:
 * whole partials again.
 *
 * Elements are unrolled: what one phase loads and computes of an element stays in registers for the phases
 * that follow. */
#include "emit/lower.h"
#include <stdio.h>

typedef struct row {
    ls_lower *l;
    int32_t first, count;
    const ls_wide *wide;
    const uint8_t *rows, *inner; /* axes: of the rows, of a row */
    int n_rows, n_inner;
    int64_t n_of_rows, n; /* rows; elements of one */
    int threads, held;    /* of a row; elements (or fours of them) of a thread */
    int lanes;            /* 4: by fours */
    int group;            /* threads of a workgroup */
    bool *used;           /* by the value or the stores at work */
    ls_val t, local;      /* the thread in its row, and in its workgroup */
    ls_val there;         /* the row is, LS_VAL_NONE: it is */
    int phase;
    ls_lowered *memo; /* by element and value */
} row;

/* ---- across threads ---- */

ls_val ls_lower_tree(ls_kb *kb, ls_op op, ls_dtype acc, ls_val *v, int n) {
    for (int half = n / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; i++) {
            v[i] = ls_lower_combine(kb, op, acc, v[i], v[i + half]);
        }
    }
    return v[0];
}

ls_val ls_lower_tree_from(ls_kb *kb, ls_op op, ls_dtype acc, int mem, ls_val at, int stride, int n) {
    ls_val v[LS_EMIT_THREADS / 32];
    for (int j = 0; j < n; j++) {
        v[j] = ls_kb_load(kb, mem, j ? ls_kb_add(kb, at, ls_kb_i32(kb, j * stride)) : at, LS_VAL_NONE,
                          LS_VAL_NONE, 1);
    }
    return ls_lower_tree(kb, op, acc, v, n);
}

static int array_of(ls_lower *l, ls_dtype acc, int turn, int count) {
    int *mem = &l->row_array[turn][acc];
    if (*mem < 0) {
        char name[40];
        snprintf(name, sizeof name, "partials%d_%s", turn, ls_dtype_name(acc));
        *mem = ls_kb_shared(&l->kb, name, acc, count);
    }
    return *mem;
}

static bool has_shuffles(const ls_lower *l, ls_dtype acc) {
    int subgroup = l->caps ? l->caps->subgroup : 0;
    return subgroup >= 32 && subgroup % 32 == 0 && ls_dtype_size(acc) == 4;
}

/* Of `left` values from `first` on in shared memory, eight at a time; t is the thread in its row. */
static ls_val halve_in(ls_lower *l, ls_op op, ls_dtype acc, int mem, ls_val first, ls_val t, int left) {
    ls_kb *kb = &l->kb;
    for (; left > 8; left /= 8) { /* a thread writes where it alone reads */
        ls_kb_if(kb, ls_kb_lt(kb, t, ls_kb_i32(kb, left / 8)));
        ls_val at = ls_kb_add(kb, first, t); /* said so that the verifier sees that it is below left / 8 */
        ls_kb_store(kb, mem, at, ls_lower_tree_from(kb, op, acc, mem, at, left / 8, 8), LS_VAL_NONE);
        ls_kb_end_if(kb);
        ls_kb_barrier(kb);
    }
    return ls_lower_tree_from(kb, op, acc, mem, first, 1, left);
}

ls_val ls_lower_halve(ls_lower *l, ls_op op, ls_dtype acc, ls_val partial, int threads, int phase) {
    ls_kb *kb = &l->kb;
    ls_val local = ls_kb_local_id(kb, 0), t = ls_kb_rem(kb, local, ls_kb_i32(kb, threads));
    ls_val first =
        ls_kb_mul(kb, ls_kb_div(kb, local, ls_kb_i32(kb, threads)), ls_kb_i32(kb, threads)); /* of the row */
    bool shuffles = has_shuffles(l, acc);
    int mem = -1;
    if (!shuffles || threads > 32) { /* two arrays by turns: a barrier lies between the uses of one */
        mem = array_of(l, acc, phase % 2, LS_EMIT_THREADS);
        ls_kb_store(kb, mem, local, partial, LS_VAL_NONE);
        ls_kb_barrier(kb);
    }
    if (shuffles) {
        if (threads > 32) { /* every 32 threads do the same: they all get it */
            ls_val at = ls_kb_add(kb, first, ls_kb_rem(kb, t, ls_kb_i32(kb, 32)));
            partial = ls_lower_tree_from(kb, op, acc, mem, at, 32, threads / 32);
        }
        for (int half = 16; half > 0; half /= 2) {
            partial = ls_lower_combine(kb, op, acc, partial, ls_kb_shuffle_xor(kb, partial, half));
        }
        return partial;
    }
    return halve_in(l, op, acc, mem, first, t, threads);
}

/* The same of four neighbouring partials a thread; a row has 32 or 64 threads. */
static ls_val halve_fours(row *r, ls_op op, ls_dtype acc, ls_val x[4], int phase) {
    ls_lower *l = r->l;
    ls_kb *kb = &l->kb;
    bool shuffles = has_shuffles(l, acc);
    int mem = -1;
    ls_val four = ls_kb_i32(kb, 4), at = ls_kb_mul(kb, r->local, four);
    ls_val first = ls_kb_mul(kb, ls_kb_div(kb, r->local, ls_kb_i32(kb, r->threads)), ls_kb_i32(kb, 4 * r->threads));
    if (!shuffles || r->threads > 32) {
        mem = array_of(l, acc, phase % 2, 4 * r->group);
        if (ls_dtype_size(acc) == 4) {
            ls_kb_store(kb, mem, at, ls_quad_join(kb, x), LS_VAL_NONE);
        }
        for (int c = 0; c < 4 && ls_dtype_size(acc) != 4; c++) {
            ls_kb_store(kb, mem, c ? ls_kb_add(kb, at, ls_kb_i32(kb, c)) : at, x[c], LS_VAL_NONE);
        }
        ls_kb_barrier(kb);
    }
    if (!shuffles) {
        return halve_in(l, op, acc, mem, first, r->t, 4 * r->threads);
    }
    if (r->threads > 32) { /* with the thread 32 further on, or before */
        ls_val other = ls_kb_rem(kb, ls_kb_add(kb, r->t, ls_kb_i32(kb, 32)), ls_kb_i32(kb, 64));
        ls_val y = ls_kb_load(kb, mem, ls_kb_add(kb, first, ls_kb_mul(kb, other, four)), LS_VAL_NONE, LS_VAL_NONE, 4);
        for (int c = 0; c < 4; c++) {
            x[c] = ls_lower_combine(kb, op, acc, x[c], ls_kb_extract(kb, y, c));
        }
    }
    for (int half = 16; half > 0; half /= 2) {
        for (int c = 0; c < 4; c++) {
            x[c] = ls_lower_combine(kb, op, acc, x[c], ls_kb_shuffle_xor(kb, x[c], half));
        }
    }
    return ls_lower_tree(kb, op, acc, x, 4);
}

/* ---- elements ---- */

/* Binds a row's axes to element e of this thread, with what is known of it; whether it is there. */
static ls_val bind_element(row *r, const uint8_t *axes, int n_axes, int e) {
    ls_lower *l = r->l;
    ls_kb *kb = &l->kb;
    ls_val i = ls_kb_add(kb, r->t, ls_kb_i32(kb, e * r->threads)), here = LS_VAL_NONE;
    if ((int64_t)(e + 1) * r->threads > r->n) {
        here = ls_kb_lt(kb, i, ls_kb_i32(kb, (int32_t)r->n));
        i = ls_kb_min(kb, i, ls_kb_i32(kb, (int32_t)r->n - 1));
    }
    (void)ls_lower_bind_point(l, i, axes, n_axes);
    for (int32_t id = 0; id < l->spec->n_values; id++) {
        const ls_lowered *known = &r->memo[(int64_t)e * l->spec->n_values + id];
        if (known->v > 0) {
            ls_lowered x = *known;
            x.v--; /* kept one higher: 0 is nothing */
            ls_lower_remember(l, id, x);
        }
    }
    return here;
}

static void keep_element(row *r, const uint8_t *axes, int n_axes, int e) {
    const ls_lower *l = r->l;
    uint64_t own = 0;
    for (int i = 0; i < n_axes; i++) {
        own |= UINT64_C(1) << axes[i];
    }
    for (int32_t id = 0; id < l->spec->n_values; id++) {
        if ((l->spec->values[id].axes & own) && l->memo[id].v != LS_VAL_NONE) {
            ls_lowered x = l->memo[id];
            x.v++;
            r->memo[(int64_t)e * l->spec->n_values + id] = x;
        }
    }
}

/* Binds them to the first of four elements, whose loads it starts; whether they are there. */
static ls_val bind_four(row *r, const uint8_t *axes, int n_axes, int e, ls_quad *out) {
    ls_lower *l = r->l;
    ls_kb *kb = &l->kb;
    ls_val i = ls_kb_mul(kb, ls_kb_add(kb, r->t, ls_kb_i32(kb, e * r->threads)), ls_kb_i32(kb, 4)), here = LS_VAL_NONE;
    if ((int64_t)(e + 1) * r->threads * 4 > r->n) {
        here = ls_kb_lt(kb, i, ls_kb_i32(kb, (int32_t)r->n));
        i = ls_kb_min(kb, i, ls_kb_i32(kb, (int32_t)r->n - 4));
    }
    (void)ls_lower_bind_point(l, i, axes, n_axes);
    int axis = axes[n_axes - 1];
    *out = (ls_quad){.l = l,
                     .axis = axis,
                     .base = l->axis[axis],
                     .at = LS_VAL_NONE,
                     .known = &r->memo[(int64_t)e * 4 * l->spec->n_values]};
    ls_quad_start(out, r->used);
    return here;
}

static ls_val reduce_fours(row *r, int32_t id) {
    ls_lower *l = r->l;
    ls_kb *kb = &l->kb;
    const ls_value *v = &l->spec->values[id];
    ls_dtype acc = (ls_dtype)v->acc;
    int fours = LS_EMIT_THREADS / 4 / r->threads; /* of partials */
    ls_val p[8];
    for (int i = 0; i < 4 * fours; i++) {
        p[i] = ls_lower_identity(kb, v->map, acc);
    }
    for (int32_t i = 0; i < l->spec->n_values; i++) {
        r->used[i] = false;
    }
    ls_lower_uses(l->spec, v->a, r->used);
    for (int e = 0; e < r->held && l->status == LS_OK; e++) {
        ls_quad q;
        ls_val here = bind_four(r, v->bound, v->n_bound, e, &q);
        for (int c = 0; c < 4 && l->status == LS_OK; c++) {
            ls_val *mine = &p[e % fours * 4 + c];
            ls_quad_lane(&q, c);
            ls_lowered x = ls_lower_value(l, v->a);
            ls_val sum = ls_lower_combine(kb, v->map, acc, *mine, ls_kb_cast(kb, x.v, acc));
            ls_val there = ls_lower_and(l, here, x.present);
            *mine = there == LS_VAL_NONE ? sum : ls_kb_select(kb, there, sum, *mine);
            keep_element(r, v->bound, v->n_bound, e * 4 + c);
        }
    }
    for (int c = 0; c < 4 && fours > 1; c++) {
        p[c] = ls_lower_combine(kb, v->map, acc, p[c], p[4 + c]);
    }
    return ls_kb_cast(kb, halve_fours(r, v->map, acc, p, r->phase++), (ls_dtype)v->dtype);
}

static ls_val reduce(row *r, int32_t id) {
    ls_lower *l = r->l;
    ls_kb *kb = &l->kb;
    const ls_value *v = &l->spec->values[id];
    ls_dtype acc = (ls_dtype)v->acc;
    int partials = LS_EMIT_THREADS / r->threads;
    ls_val p[LS_EMIT_THREADS / 32];
    for (int i = 0; i < partials; i++) {
        p[i] = ls_lower_identity(kb, v->map, acc);
    }
    for (int e = 0; e < r->held; e++) {
        ls_val here = bind_element(r, v->bound, v->n_bound, e), *mine = &p[e % partials];
        ls_lowered x = ls_lower_value(l, v->a);
        ls_val sum = ls_lower_combine(kb, v->map, acc, *mine, ls_kb_cast(kb, x.v, acc));
        here = ls_lower_and(l, here, x.present);
        *mine = here == LS_VAL_NONE ? sum : ls_kb_select(kb, here, sum, *mine);
        keep_element(r, v->bound, v->n_bound, e);
    }
    ls_val all =
        ls_lower_halve(l, v->map, acc, ls_lower_tree(kb, v->map, acc, p, partials), r->threads, r->phase++);
    return ls_kb_cast(kb, all, (ls_dtype)v->dtype);
}

static void store_elements(row *r) {
    ls_lower *l = r->l;
    ls_kb *kb = &l->kb;
    bool once = r->n_inner == 0, fours = !once && r->lanes == 4; /* once: one point a row */
    for (int32_t i = 0; i < l->spec->n_values; i++) {
        r->used[i] = false;
    }
    for (int32_t n = r->first; n < r->first + r->count; n++) {
        ls_lower_store_uses(l->spec, n, r->used);
    }
    for (int e = 0; e < (once ? 1 : r->held) && l->status == LS_OK; e++) {
        ls_quad q;
        ls_val here = once    ? ls_kb_eq(kb, r->t, ls_kb_i32(kb, 0))
                      : fours ? bind_four(r, r->inner, r->n_inner, e, &q)
                              : bind_element(r, r->inner, r->n_inner, e);
        here = ls_lower_and(l, here, r->there);
        int mark = ls_lower_mark(l);
        if (here != LS_VAL_NONE) {
            ls_kb_if(kb, here);
        }
        if (fours && l->status == LS_OK) {
            ls_quad_store(&q, r->first, r->count, LS_SPEC_NONE, NULL);
        }
        for (int32_t n = r->first; n < r->first + r->count && !fours; n++) {
            ls_lower_store(l, n);
        }
        if (here != LS_VAL_NONE) {
            ls_kb_end_if(kb);
        }
        ls_lower_undo(l, mark);
    }
}

/* ---- the kernel ---- */

static bool same_axes(const uint8_t *a, int n_a, const uint8_t *b, int n_b) {
    bool same = n_a == n_b;
    for (int i = 0; i < n_a && same; i++) {
        same = a[i] == b[i];
    }
    return same;
}

/* Whether some load of the row can be of four lanes, and what is computed of an element is little: where it is much, more
 * threads with fewer elements each are sooner done. */
static bool by_fours(const row *r) {
    const ls_lower *l = r->l;
    const ls_value *v = &l->spec->values[r->wide->ids[0]];
    int axis = v->bound[v->n_bound - 1], loads = 0;
    for (int32_t i = 0; i < l->spec->n_values && r->n >= 128 && ls_quad_axis(l, axis); i++) {
        const ls_value *w = &l->spec->values[i];
        if (w->op == LS_V_MAP && (w->axes >> axis & 1) && ls_map_is_function((ls_op)w->map)) {
            return false;
        }
        loads += ls_quad_loads(l, i, axis, ~UINT64_C(0));
    }
    return loads > 0;
}

static bool fits(row *r) {
    const ls_spec *spec = r->l->spec;
    const ls_value *v = &spec->values[r->wide->ids[0]];
    if (r->n_inner && !same_axes(v->bound, v->n_bound, r->inner, r->n_inner)) {
        return false;
    }
    for (int i = 0; i < r->wide->n; i++) {
        const ls_value *w = &spec->values[r->wide->ids[i]];
        if (!same_axes(v->bound, v->n_bound, w->bound, w->n_bound) || w->map == LS_OP_ARGMIN ||
            w->map == LS_OP_ARGMAX) {
            return false;
        }
    }
    for (int i = 0; i < v->n_bound; i++) {
        if (!ls_dim_is_fixed(spec->extents_of_axes[v->bound[i]])) {
            return false;
        }
    }
    bool fixed = true;
    for (int i = 0; i < r->n_rows; i++) {
        fixed = fixed && ls_dim_is_fixed(spec->extents_of_axes[r->rows[i]]);
    }
    r->n = ls_lower_bound_points(r->l, v);
    r->n_of_rows = ls_lower_bound(r->l, r->rows, r->n_rows);
    r->lanes = by_fours(r) ? 4 : 1;
    r->threads = fixed || r->lanes == 4 ? 32 : LS_EMIT_THREADS; /* a workgroup of one row may leave together */
    while (r->threads < LS_EMIT_THREADS / r->lanes && r->n > 8 * r->lanes * r->threads) {
        r->threads *= 2;
    }
    r->group = r->lanes == 1 ? LS_EMIT_THREADS : fixed && r->threads == 32 ? 128 : r->threads;
    r->held = (int)((r->n + r->lanes * r->threads - 1) / (r->lanes * r->threads));
    return r->n > 0 && r->n <= LS_EMIT_BLOCK && r->l->max_threads >= LS_EMIT_THREADS;
}

bool ls_lower_rows(ls_lower *l, int32_t first, int32_t count, const ls_wide *w, const uint8_t *rows,
                   int n_rows, const uint8_t *inner, int n_inner) {
    row r = {.l = l,
             .first = first,
             .count = count,
             .wide = w,
             .rows = rows,
             .n_rows = n_rows,
             .inner = inner,
             .n_inner = n_inner};
    ls_kb *kb = &l->kb;
    if (!fits(&r)) {
        return false;
    }
    r.memo = ls_arena_array(l->arena, (size_t)r.held * (size_t)r.lanes * (size_t)l->spec->n_values, sizeof *r.memo);
    r.used = LS_ARENA_ARRAY(l->arena, bool, l->spec->n_values + 1);
    if (!r.memo || !r.used) {
        l->status = LS_FAIL_MEMORY(l->err, "the elements of a row");
        return true;
    }
    ls_lower_begin(l, "", r.lanes == 4 ? LS_COVER_ROW_FOURS : LS_COVER_ROW_REGISTERS);
    ls_kb_workgroup(kb, r.group, 1, 1);
    int together = r.group / r.threads;
    ls_val group = ls_lower_frame(l, (r.n_of_rows + together - 1) / together, 1);
    ls_dtype type = ls_lower_type(l, group);
    r.local = ls_kb_local_id(kb, 0);
    r.t = ls_kb_rem(kb, r.local, ls_kb_i32(kb, r.threads));
    r.there = LS_VAL_NONE;
    if (together > 1) {
        ls_val mine = ls_kb_cast(kb, ls_kb_div(kb, r.local, ls_kb_i32(kb, r.threads)), type);
        group = ls_kb_add(kb, ls_kb_mul(kb, group, ls_kb_const_int(kb, type, together)), mine);
        if (r.n_of_rows % together) {
            r.there = ls_kb_lt(kb, group, ls_kb_const_int(kb, type, r.n_of_rows));
            group = ls_kb_min(kb, group, ls_kb_const_int(kb, type, r.n_of_rows - 1));
        }
    }
    ls_lower_point(l, group, rows, n_rows);
    l->in_row = true;
    for (int i = 0; i < w->n && l->status == LS_OK; i++) {
        int32_t id = w->ids[i];
        ls_val x = r.lanes == 4 ? reduce_fours(&r, id) : reduce(&r, id);
        ls_lower_remember(l, id, (ls_lowered){x, LS_VAL_NONE, LS_VAL_NONE});
    }
    store_elements(&r);
    l->in_row = false;
    ls_lower_end(l);
    return true;
}
