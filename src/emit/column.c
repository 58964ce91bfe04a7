/* Reductions whose neighbouring results lie side by side in memory: sums over leading axes.
 *
 * A workgroup does 32 results and one block of 4096 elements of each: thread (ty, tx) of 8 x 32 has the
 * partials ty, ty + 8, ty + 16, ... of result tx, so that 32 threads read side by side. The first steps of
 * the halving are the thread's own, the last three go through shared memory. */
#include "emit/lower.h"

enum { WIDE = 32, TALL = 8, OWN = 32 };

bool ls_lower_is_column(const ls_lower *l, int32_t id) {
    const ls_spec *spec = l->spec;
    const ls_value *v = &spec->values[id];
    uint8_t rows[LS_SPEC_MAX_AXES];
    int n = ls_lower_axes(v->axes, rows);
    if (l->choice == LS_CHOICE_NAIVE || l->choice == LS_CHOICE_ROW || n == 0 || v->n_bound == 0 || v->map == LS_OP_ARGMIN ||
        v->map == LS_OP_ARGMAX || ls_dim_bound(spec->extents_of_axes[rows[n - 1]]) < WIDE / 2 ||
        l->max_threads < WIDE * TALL) {
        return false;
    }
    bool *used = LS_ARENA_ARRAY(l->arena, bool, spec->n_values + 1);
    if (!used) {
        return false; /* whoever lowers it will meet the same */
    }
    ls_lower_uses(spec, v->a, used);
    int along = 0, across = 0;
    for (int32_t i = 0; i < spec->n_values; i++) {
        int64_t stride;
        if (used[i] && spec->values[i].op == LS_V_LOAD) {
            across += ls_ix_affine(spec, spec->values[i].ix, rows[n - 1], &stride) && stride == 1;
            along += ls_ix_affine(spec, spec->values[i].ix, v->bound[v->n_bound - 1], &stride) && stride == 1;
        }
    }
    return across > along;
}

void ls_lower_columns(ls_lower *l, int32_t id, const uint8_t *rows, int n_rows, int64_t blocks,
                      int32_t scratch) {
    const ls_value *v = &l->spec->values[id];
    ls_kb *kb = &l->kb;
    ls_dtype acc = (ls_dtype)v->acc;
    int64_t count = ls_lower_bound(l, rows, n_rows), tiles = (count + WIDE - 1) / WIDE;
    ls_lower_begin(l, "columns", LS_COVER_COLUMNS);
    ls_val group = ls_lower_frame(l, tiles * blocks, 1);
    ls_dtype type = tiles * WIDE * blocks < INT32_MAX ? ls_lower_type(l, group) : LS_I64;
    ls_fold f = ls_fold_start(l, id);
    ls_val per = ls_kb_const_int(kb, ls_lower_type(l, group), tiles), local = ls_kb_local_id(kb, 0);
    ls_val tx = ls_kb_rem(kb, local, ls_kb_i32(kb, WIDE)), ty = ls_kb_div(kb, local, ls_kb_i32(kb, WIDE));
    ls_val block = ls_kb_div(kb, group, per), row = ls_kb_cast(kb, ls_kb_rem(kb, group, per), type);
    row = ls_kb_add(kb, ls_kb_mul(kb, row, ls_kb_const_int(kb, type, WIDE)), ls_kb_cast(kb, tx, type));
    ls_val there = LS_VAL_NONE, point = row;
    if (count % WIDE) {
        there = ls_kb_lt(kb, row, ls_kb_const_int(kb, type, count));
        point = ls_kb_min(kb, row, ls_kb_const_int(kb, type, count - 1));
    }
    ls_val within = ls_lower_bind_point(l, point, rows, n_rows);
    ls_val begin = ls_kb_mul(kb, ls_kb_cast(kb, block, f.type), ls_kb_const_int(kb, f.type, LS_EMIT_BLOCK));
    ls_val end = ls_kb_min(kb, ls_kb_add(kb, begin, ls_kb_const_int(kb, f.type, LS_EMIT_BLOCK)), f.n);
    ls_val identity = ls_lower_identity(kb, v->map, acc), sums[OWN];
    int own = f.bound < OWN * TALL ? (int)((f.bound + TALL - 1) / TALL) : OWN;
    for (int q = 0; q < OWN; q++) {
        sums[q] = q < own ? ls_kb_var(kb, identity) : identity;
    }
    bool fixed = true;
    for (int i = 0; i < v->n_bound; i++) {
        fixed = fixed && ls_dim_is_fixed(l->spec->extents_of_axes[v->bound[i]]);
    }
    ls_saved_axes saved = ls_fold_save(&f);
    ls_val from = ls_kb_loop(kb, begin, end, ls_kb_const_int(kb, f.type, LS_EMIT_THREADS), 0);
    for (int q = 0; q < own; q++) {
        ls_val i = ls_kb_add(kb, ls_kb_cast(kb, ty, f.type), ls_kb_const_int(kb, f.type, q * TALL)),
               here = LS_VAL_NONE;
        i = ls_kb_add(kb, from, i);
        if (!fixed || f.bound % LS_EMIT_THREADS) {
            here = ls_kb_lt(kb, i, f.n);
            i = ls_kb_min(kb, i, ls_kb_const_int(kb, f.type, f.bound - 1));
        }
        ls_fold_point(&f, i);
        l->active = l->reports[v->a] ? ls_lower_and(l, within, here) : LS_VAL_NONE;
        ls_lowered x = ls_lower_value(l, v->a);
        l->active = LS_VAL_NONE;
        here = ls_lower_and(l, here, x.present);
        ls_val before = ls_kb_get(kb, sums[q]),
               after = ls_lower_combine(kb, v->map, acc, before, ls_kb_cast(kb, x.v, acc));
        ls_kb_set(kb, sums[q], here == LS_VAL_NONE ? after : ls_kb_select(kb, here, after, before));
    }
    ls_kb_end_loop(kb);
    ls_fold_restore(&f, &saved);
    for (int q = 0; q < own; q++) {
        sums[q] = ls_kb_get(kb, sums[q]);
    }
    int mem = ls_kb_shared(kb, "partials", acc, WIDE * TALL);
    ls_kb_store(kb, mem, local, ls_lower_tree(kb, v->map, acc, sums, OWN), LS_VAL_NONE);
    ls_kb_barrier(kb);
    ls_kb_if(kb, ls_lower_and(l, there, ls_kb_eq(kb, ty, ls_kb_i32(kb, 0))));
    ls_val sum = ls_lower_tree_from(kb, v->map, acc, mem, tx, WIDE, TALL);
    ls_val at = ls_kb_mul(kb, point, ls_kb_const_int(kb, type, blocks));
    at = ls_kb_add(kb, at, ls_kb_cast(kb, block, type));
    ls_kb_store(kb, ls_lower_mem(l, LS_EMIT_SCRATCH, scratch), at, sum, LS_VAL_NONE);
    ls_kb_end_if(kb);
    ls_lower_end(l);
}
