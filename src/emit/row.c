/* Reductions along rows, with what is computed from them, in one kernel: softmax, norms, sums.
 *
 * A row has 32 to 256 threads, and a workgroup 256 of them in one row or several. Thread t has the elements
 * t, t + T, t + 2T, ... of its row, T the threads of a row, a divisor of 256: it owns whole partials of the
 * contract (element i belongs to partial i mod 256), adds each up in order, and does the first steps of the
 * halving by itself; the others go through shared memory eight at a time, or through shuffles where subgroups
 * are known. The steps of the halving are the contract's, so the bits are.
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
    int threads, held;    /* of a row; elements of a thread */
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

static int array_of(ls_lower *l, ls_dtype acc, int turn) {
    int *mem = &l->row_array[turn][acc];
    if (*mem < 0) {
        char name[40];
        snprintf(name, sizeof name, "partials%d_%s", turn, ls_dtype_name(acc));
        *mem = ls_kb_shared(&l->kb, name, acc, LS_EMIT_THREADS);
    }
    return *mem;
}

ls_val ls_lower_halve(ls_lower *l, ls_op op, ls_dtype acc, ls_val partial, int threads, int phase) {
    ls_kb *kb = &l->kb;
    ls_val local = ls_kb_local_id(kb, 0), t = ls_kb_rem(kb, local, ls_kb_i32(kb, threads));
    ls_val first =
        ls_kb_mul(kb, ls_kb_div(kb, local, ls_kb_i32(kb, threads)), ls_kb_i32(kb, threads)); /* of the row */
    int subgroup = l->caps ? l->caps->subgroup : 0, left = threads;
    bool shuffles = subgroup >= 32 && subgroup % 32 == 0 && ls_dtype_size(acc) == 4;
    int mem = -1;
    if (!shuffles || threads > 32) { /* two arrays by turns: a barrier lies between the uses of one */
        mem = array_of(l, acc, phase % 2);
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
    for (; left > 8; left /= 8) { /* a thread writes where it alone reads */
        ls_kb_if(kb, ls_kb_lt(kb, t, ls_kb_i32(kb, left / 8)));
        ls_val at = ls_kb_add(kb, first, t); /* said so that the verifier sees that it is below left / 8 */
        ls_kb_store(kb, mem, at, ls_lower_tree_from(kb, op, acc, mem, at, left / 8, 8), LS_VAL_NONE);
        ls_kb_end_if(kb);
        ls_kb_barrier(kb);
    }
    return ls_lower_tree_from(kb, op, acc, mem, first, 1, left);
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
    bool once = r->n_inner == 0; /* one point a row */
    for (int e = 0; e < (once ? 1 : r->held); e++) {
        ls_val here = once ? ls_kb_eq(kb, r->t, ls_kb_i32(kb, 0)) : bind_element(r, r->inner, r->n_inner, e);
        here = ls_lower_and(l, here, r->there);
        int mark = ls_lower_mark(l);
        if (here != LS_VAL_NONE) {
            ls_kb_if(kb, here);
        }
        for (int32_t n = r->first; n < r->first + r->count; n++) {
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
    r->threads = fixed ? 32 : LS_EMIT_THREADS; /* a workgroup of one row may leave together */
    while (r->threads < LS_EMIT_THREADS && r->n > 8 * r->threads) {
        r->threads *= 2;
    }
    r->held = (int)((r->n + r->threads - 1) / r->threads);
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
    r.memo = ls_arena_array(l->arena, (size_t)r.held * (size_t)l->spec->n_values, sizeof *r.memo);
    if (!r.memo) {
        l->status = LS_FAIL_MEMORY(l->err, "the elements of a row");
        return true;
    }
    ls_lower_begin(l, "", LS_COVER_ROW_REGISTERS);
    int together = LS_EMIT_THREADS / r.threads;
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
    for (int i = 0; i < w->n; i++) {
        int32_t id = w->ids[i];
        ls_val x = reduce(&r, id);
        ls_lower_remember(l, id, (ls_lowered){x, LS_VAL_NONE, LS_VAL_NONE});
    }
    store_elements(&r);
    ls_lower_end(l);
    return true;
}
