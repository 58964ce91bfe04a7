/* Reductions whose neighbouring results lie side by side in memory: sums over leading axes.
 *
 * 256 threads do 32 results and one block of 4096 elements of each: thread (ty, tx) of 8 x 32 has the
 * partials ty, ty + 8, ty + 16, ... of result tx, so that 32 threads read side by side. The first steps of
 * the halving are the thread's own, the last three go through shared memory. A workgroup does all blocks of its
 * results, and the stores, where the device takes so many threads and there are results enough; else one block. Then 512
 * threads have a block if they may: with half the partials each, a thread has registers left for loads under way. */
#include "emit/lower.h"

enum { WIDE = 32, OWN = 32, LEFT = 8, ENOUGH = 64 }; /* ENOUGH: workgroups that keep a device busy */

typedef struct columns {
    ls_lower *l;
    const ls_value *v;
    ls_dtype acc, type; /* type: of results' numbers */
    ls_fold f;
    int tall, own;      /* threads of a result's block, and the partials of each */
    int mem;            /* partials: results side by side, `tall` lines a block */
    ls_val local, tx, ty;
    ls_val block;        /* of this thread */
    ls_val point, there; /* the result, clamped; whether it is one, LS_VAL_NONE: it is */
    ls_val within;       /* the symbols' values */
} columns;

bool ls_lower_is_column(const ls_lower *l, int32_t id) {
    const ls_spec *spec = l->spec;
    const ls_value *v = &spec->values[id];
    uint8_t rows[LS_SPEC_MAX_AXES];
    int n = ls_lower_axes(v->axes, rows);
    if (l->choice == LS_CHOICE_NAIVE || l->choice == LS_CHOICE_ROW || n == 0 || v->n_bound == 0 || v->map == LS_OP_ARGMIN ||
        v->map == LS_OP_ARGMAX || ls_dim_bound(spec->extents_of_axes[rows[n - 1]]) < WIDE / 2 ||
        l->max_threads < LS_EMIT_THREADS) {
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

/* The result and the block of this thread: a workgroup has WIDE results, and one block or `together` of them. */
static void start(columns *c, int32_t id, const uint8_t *rows, int n_rows, int64_t blocks, int together, int per_block) {
    ls_lower *l = c->l;
    ls_kb *kb = &l->kb;
    int64_t count = ls_lower_bound(l, rows, n_rows), tiles = (count + WIDE - 1) / WIDE, groups = tiles * blocks / together;
    ls_kb_workgroup(kb, per_block * together, 1, 1);
    c->tall = per_block / WIDE;
    c->own = LS_EMIT_THREADS / c->tall;
    ls_val group = ls_lower_frame(l, groups, 1), per = ls_kb_const_int(kb, ls_lower_type(l, group), tiles);
    c->type = tiles * WIDE * blocks < INT32_MAX ? ls_lower_type(l, group) : LS_I64;
    c->f = ls_fold_start(l, id);
    c->local = ls_kb_local_id(kb, 0);
    ls_val own = c->local;
    c->block = ls_kb_div(kb, group, per);
    if (together > 1) {
        own = ls_kb_rem(kb, c->local, ls_kb_i32(kb, per_block));
        c->block = ls_kb_div(kb, c->local, ls_kb_i32(kb, per_block));
    }
    c->tx = ls_kb_rem(kb, own, ls_kb_i32(kb, WIDE));
    c->ty = ls_kb_div(kb, own, ls_kb_i32(kb, WIDE));
    ls_val row = ls_kb_cast(kb, ls_kb_rem(kb, group, per), c->type);
    row = ls_kb_add(kb, ls_kb_mul(kb, row, ls_kb_const_int(kb, c->type, WIDE)), ls_kb_cast(kb, c->tx, c->type));
    c->there = LS_VAL_NONE;
    c->point = row;
    if (count % WIDE) {
        c->there = ls_kb_lt(kb, row, ls_kb_const_int(kb, c->type, count));
        c->point = ls_kb_min(kb, row, ls_kb_const_int(kb, c->type, count - 1));
    }
    c->within = ls_lower_bind_point(l, c->point, rows, n_rows);
}

/* One round: an element of each of the thread's partials. All loads first: compilers that keep to the order have them under
 * way together. */
static void add_round(columns *c, ls_val from, const ls_val *sums, int own, bool fixed) {
    ls_lower *l = c->l;
    ls_kb *kb = &l->kb;
    const ls_value *v = c->v;
    ls_fold *f = &c->f;
    ls_val x[OWN], present[OWN];
    for (int q = 0; q < own; q++) {
        ls_val i = ls_kb_add(kb, ls_kb_cast(kb, c->ty, f->type), ls_kb_const_int(kb, f->type, q * c->tall)), here = LS_VAL_NONE;
        i = ls_kb_add(kb, from, i);
        if (!fixed || f->bound % LS_EMIT_THREADS) {
            here = ls_kb_lt(kb, i, f->n);
            i = ls_kb_min(kb, i, ls_kb_const_int(kb, f->type, f->bound - 1));
        }
        ls_fold_point(f, i);
        l->active = l->reports[v->a] ? ls_lower_and(l, c->within, here) : LS_VAL_NONE;
        ls_lowered a = ls_lower_value(l, v->a);
        l->active = LS_VAL_NONE;
        x[q] = ls_kb_cast(kb, a.v, c->acc);
        present[q] = ls_lower_and(l, here, a.present);
    }
    for (int q = 0; q < own; q++) {
        ls_val before = ls_kb_get(kb, sums[q]), after = ls_lower_combine(kb, v->map, c->acc, before, x[q]);
        ls_kb_set(kb, sums[q], present[q] == LS_VAL_NONE ? after : ls_kb_select(kb, present[q], after, before));
    }
}

/* What the threads of a block have, halved until LEFT lines are left in shared memory. */
static void finish(columns *c, int together, ls_val mine) {
    ls_lower *l = c->l;
    ls_kb *kb = &l->kb;
    int per_block = WIDE * c->tall;
    c->mem = ls_kb_shared(kb, "partials", c->acc, per_block * together);
    ls_val at = ls_kb_add(kb, ls_kb_mul(kb, c->ty, ls_kb_i32(kb, WIDE)), c->tx); /* said so for the verifier */
    at = together > 1 ? ls_kb_add(kb, ls_kb_mul(kb, c->block, ls_kb_i32(kb, per_block)), at) : at;
    ls_kb_store(kb, c->mem, at, mine, LS_VAL_NONE);
    ls_kb_barrier(kb);
    for (; c->tall > LEFT; c->tall /= LEFT) {
        int lines = c->tall / LEFT;
        ls_kb_if(kb, ls_kb_lt(kb, c->ty, ls_kb_i32(kb, lines)));
        ls_val sum = ls_lower_tree_from(kb, c->v->map, c->acc, c->mem, at, lines * WIDE, LEFT);
        ls_kb_store(kb, c->mem, at, sum, LS_VAL_NONE);
        ls_kb_end_if(kb);
        ls_kb_barrier(kb);
    }
}

/* The thread's part of its block, into shared memory; then all of them are there. */
static void add_block(columns *c, int together) {
    ls_lower *l = c->l;
    ls_kb *kb = &l->kb;
    const ls_value *v = c->v;
    ls_fold *f = &c->f;
    ls_val begin = ls_kb_mul(kb, ls_kb_cast(kb, c->block, f->type), ls_kb_const_int(kb, f->type, LS_EMIT_BLOCK));
    ls_val end = ls_kb_min(kb, ls_kb_add(kb, begin, ls_kb_const_int(kb, f->type, LS_EMIT_BLOCK)), f->n);
    ls_val identity = ls_lower_identity(kb, v->map, c->acc), sums[OWN];
    int own = f->bound < LS_EMIT_THREADS ? (int)((f->bound + c->tall - 1) / c->tall) : c->own;
    for (int q = 0; q < c->own; q++) {
        sums[q] = q < own ? ls_kb_var(kb, identity) : identity;
    }
    bool fixed = true;
    for (int i = 0; i < v->n_bound; i++) {
        fixed = fixed && ls_dim_is_fixed(l->spec->extents_of_axes[v->bound[i]]);
    }
    ls_saved_axes saved = ls_fold_save(f);
    ls_val from = ls_kb_loop(kb, begin, end, ls_kb_const_int(kb, f->type, LS_EMIT_THREADS), 0);
    add_round(c, from, sums, own, fixed);
    ls_kb_end_loop(kb);
    ls_fold_restore(f, &saved);
    for (int q = 0; q < own; q++) {
        sums[q] = ls_kb_get(kb, sums[q]);
    }
    finish(c, together, ls_lower_tree(kb, v->map, c->acc, sums, c->own));
}

void ls_lower_columns(ls_lower *l, int32_t id, const uint8_t *rows, int n_rows, int64_t blocks, int32_t scratch) {
    ls_kb *kb = &l->kb;
    columns c = {.l = l, .v = &l->spec->values[id], .acc = (ls_dtype)l->spec->values[id].acc};
    ls_lower_begin(l, "columns", LS_COVER_COLUMNS);
    start(&c, id, rows, n_rows, blocks, 1, LS_EMIT_THREADS);
    add_block(&c, 1);
    ls_kb_if(kb, ls_lower_and(l, c.there, ls_kb_eq(kb, c.ty, ls_kb_i32(kb, 0))));
    ls_val sum = ls_lower_tree_from(kb, c.v->map, c.acc, c.mem, c.tx, WIDE, c.tall);
    ls_val at = ls_kb_mul(kb, c.point, ls_kb_const_int(kb, c.type, blocks));
    at = ls_kb_add(kb, at, ls_kb_cast(kb, c.block, c.type));
    ls_kb_store(kb, ls_lower_mem(l, LS_EMIT_SCRATCH, scratch), at, sum, LS_VAL_NONE);
    ls_kb_end_if(kb);
    ls_lower_end(l);
}

bool ls_lower_column_stores(ls_lower *l, int32_t first, int32_t count, int32_t id) {
    ls_kb *kb = &l->kb;
    const ls_value *v = &l->spec->values[id];
    const ls_store *s = &l->spec->stores[first];
    columns c = {.l = l, .v = v, .acc = (ls_dtype)v->acc};
    uint8_t rows[LS_SPEC_MAX_AXES];
    int n = ls_lower_axes(v->axes, rows);
    int64_t blocks = (ls_lower_bound_points(l, v) + LS_EMIT_BLOCK - 1) / LS_EMIT_BLOCK;
    if (n != s->n_axes || !ls_lower_is_column(l, id) || blocks > LS_EMIT_LEFT || blocks * LS_EMIT_THREADS > l->max_threads ||
        (blocks > 1 && l->choice != LS_CHOICE_COLUMN && ls_lower_bound(l, rows, n) < WIDE * ENOUGH)) {
        return false;
    }
    ls_lower_begin(l, "", LS_COVER_COLUMNS);
    int per_block = 2 * LS_EMIT_THREADS * blocks <= l->max_threads ? 2 * LS_EMIT_THREADS : LS_EMIT_THREADS;
    start(&c, id, rows, n, blocks, (int)blocks, per_block);
    add_block(&c, (int)blocks);
    ls_val one = ls_kb_lt(kb, c.local, ls_kb_i32(kb, WIDE)), sums[LS_EMIT_LEFT];
    ls_kb_if(kb, ls_lower_and(l, ls_lower_and(l, c.there, c.within), one));
    for (int i = 0; i < blocks; i++) {
        ls_val at = i ? ls_kb_add(kb, c.tx, ls_kb_i32(kb, i * per_block)) : c.tx;
        sums[i] = ls_lower_tree_from(kb, v->map, c.acc, c.mem, at, WIDE, c.tall);
    }
    ls_val sum = blocks > 1 ? ls_lower_few(kb, v->map, c.acc, sums, (int)blocks) : sums[0];
    ls_lower_remember(l, id, (ls_lowered){ls_kb_cast(kb, sum, (ls_dtype)v->dtype), LS_VAL_NONE, LS_VAL_NONE});
    for (int32_t i = first; i < first + count; i++) {
        ls_lower_store(l, i);
    }
    ls_kb_end_if(kb);
    ls_lower_end(l);
    return true;
}
