/* Values with bound axes, in the contract's order.
 *
 * REDUCE    blocks of 4096 elements; 256 interleaved partials, then halving; block results by the same rule. A workgroup
 *           does one block, a thread a partial. Serially, one thread takes the partials in the order of a tree walk
 *           (positions bit-reversed), with one variable a level of the tree, as a binary counter carries.
 *           Partials beyond the last element are identities, which change no bits: they are left out where the extent says so.
 * CONTRACT  chunks of 512, serial; sums of chunks added in order.
 * Absent elements keep their position and are skipped. */
#include "emit/lower.h"
#include <stdio.h>

int64_t ls_lower_bound_points(const ls_lower *l, const ls_value *v) {
    return ls_lower_bound(l, v->bound, v->n_bound);
}

static ls_val position(ls_fold *f, int64_t k) {
    return ls_kb_const_int(&f->l->kb, f->type, k);
}

ls_fold ls_fold_start(ls_lower *l, int32_t id) {
    const ls_value *v = &l->spec->values[id];
    ls_fold f = {.l = l, .id = id, .v = v, .from = l->spec->values[v->a].dtype, .bound = ls_lower_bound_points(l, v)};
    f.type = f.bound < INT32_MAX - 2 * LS_EMIT_BLOCK ? LS_I32 : LS_I64;
    bool fixed = true;
    for (int i = 0; i < v->n_bound; i++) {
        fixed = fixed && ls_dim_is_fixed(l->spec->extents_of_axes[v->bound[i]]);
    }
    if (fixed) {
        f.n = position(&f, f.bound);
        return f;
    }
    f.n = position(&f, 1);
    for (int i = 0; i < v->n_bound; i++) {
        f.n = ls_kb_mul(&l->kb, f.n, ls_lower_dim(l, l->spec->extents_of_axes[v->bound[i]], f.type));
    }
    f.n = ls_kb_min(&l->kb, f.n, position(&f, f.bound)); /* says to the verifier what the product of several cannot */
    return f;
}

/* Sets the bound axes to their point at a position in 0 .. n. */
void ls_fold_point(ls_fold *f, ls_val at) {
    ls_kb *kb = &f->l->kb;
    bool proved = true;
    for (int i = f->v->n_bound - 1; i > 0; i--) {
        int axis = f->v->bound[i];
        ls_dim extent = f->l->spec->extents_of_axes[axis];
        ls_val by = ls_lower_dim(f->l, extent, f->type);
        ls_lower_bind(f->l, axis, ls_kb_rem(kb, at, by), true);
        at = ls_kb_div(kb, at, by);
        proved = proved && ls_dim_is_fixed(extent);
    }
    if (f->v->n_bound > 0) {
        ls_lower_bind(f->l, f->v->bound[0], at, proved);
    }
}

/* The same at `at` + k, which lie in one line of the innermost axis: all others are those of `at`. */
void ls_fold_near(ls_fold *f, ls_val at, ls_val k) {
    ls_kb *kb = &f->l->kb;
    int last = f->v->n_bound - 1, axis = f->v->bound[last];
    ls_fold_point(f, at);
    ls_lower_bind(f->l, axis, last ? ls_kb_add(kb, f->l->axis[axis], k) : ls_kb_add(kb, at, k), true);
}

ls_saved_axes ls_fold_save(const ls_fold *f) {
    ls_saved_axes s = {.proved = f->l->proved, .mark = ls_lower_mark(f->l)};
    for (int i = 0; i < f->v->n_bound; i++) {
        s.axis[i] = f->l->axis[f->v->bound[i]];
    }
    return s;
}
void ls_fold_restore(ls_fold *f, const ls_saved_axes *s) {
    for (int i = 0; i < f->v->n_bound; i++) {
        f->l->axis[f->v->bound[i]] = s->axis[i];
    }
    f->l->proved = s->proved;
    ls_lower_undo(f->l, s->mark);
}

/* A running variable, combined with x where it is present. */
static void accumulate(ls_fold *f, ls_val var, ls_val x, ls_val present) {
    ls_kb *kb = &f->l->kb;
    ls_val before = ls_kb_get(kb, var), after = ls_lower_combine(kb, f->v->map, f->v->acc, before, x);
    ls_kb_set(kb, var, present == LS_VAL_NONE ? after : ls_kb_select(kb, present, after, before));
}

/* The elements first, first + 256, ... below end, from the identity. */
static ls_val element_partial(ls_fold *f, ls_val first, ls_val end) {
    ls_kb *kb = &f->l->kb;
    ls_val var = ls_kb_var(kb, ls_lower_identity(kb, f->v->map, f->v->acc));
    ls_saved_axes s = ls_fold_save(f);
    ls_val i = ls_kb_loop(kb, first, end, position(f, LS_EMIT_THREADS), 0);
    ls_fold_point(f, i);
    ls_lowered x = ls_lower_value(f->l, f->v->a);
    accumulate(f, var, ls_kb_cast(kb, x.v, f->v->acc), x.present);
    ls_kb_end_loop(kb);
    ls_fold_restore(f, &s);
    return ls_kb_get(kb, var);
}

/* ---- one thread ---- */

static ls_val serial_block(ls_fold *f, int level, int64_t bound, ls_val n, ls_val block);

static ls_val serial_partial(ls_fold *f, int level, ls_val first, ls_val end, int64_t bound_below, ls_val n_below) {
    ls_kb *kb = &f->l->kb;
    if (level == 0) {
        return element_partial(f, first, end);
    }
    ls_val var = ls_kb_var(kb, ls_lower_identity(kb, f->v->map, f->v->acc));
    int mark = ls_lower_mark(f->l);
    ls_val i = ls_kb_loop(kb, first, end, position(f, LS_EMIT_THREADS), 0);
    accumulate(f, var, serial_block(f, level - 1, bound_below, n_below, i), LS_VAL_NONE);
    ls_kb_end_loop(kb);
    ls_lower_undo(f->l, mark);
    return ls_kb_get(kb, var);
}

static ls_val bit(ls_fold *f, ls_val x, int k) {
    ls_kb *kb = &f->l->kb;
    return ls_kb_and(kb, ls_kb_shr(kb, x, position(f, k)), position(f, 1));
}

/* Number of items of a level, of at most `bound` elements: blocks of the level below. */
static int64_t bound_at(int level, int64_t bound) {
    for (; level > 0; level--) {
        bound = (bound + LS_EMIT_BLOCK - 1) / LS_EMIT_BLOCK;
    }
    return bound;
}
static ls_val count_at(ls_fold *f, int level) {
    ls_val n = f->n;
    for (; level > 0; level--) {
        n = ls_kb_div(&f->l->kb, ls_kb_add(&f->l->kb, n, position(f, LS_EMIT_BLOCK - 1)), position(f, LS_EMIT_BLOCK));
    }
    return n;
}

/* The result of a block of a level's items. */
static ls_val serial_block(ls_fold *f, int level, int64_t bound, ls_val n, ls_val block) {
    ls_kb *kb = &f->l->kb;
    int levels = 0;
    while (levels < 8 && INT64_C(1) << levels < bound) {
        levels++;
    }
    ls_val begin = ls_kb_mul(kb, block, position(f, LS_EMIT_BLOCK));
    ls_val end = ls_kb_min(kb, ls_kb_add(kb, begin, position(f, LS_EMIT_BLOCK)), n);
    int64_t below = level ? bound_at(level - 1, f->bound) : 0;
    ls_val n_below = level ? count_at(f, level - 1) : LS_VAL_NONE;
    if (levels == 0) {
        return serial_partial(f, level, begin, end, below, n_below);
    }
    ls_val slots[8], identity = ls_lower_identity(kb, f->v->map, f->v->acc);
    for (int k = 0; k < levels; k++) {
        slots[k] = ls_kb_var(kb, identity);
    }
    ls_val result = ls_kb_var(kb, identity);
    int mark = ls_lower_mark(f->l);
    ls_val c = ls_kb_loop(kb, position(f, 0), position(f, INT64_C(1) << levels), position(f, 1), 0);
    ls_val p = begin;
    for (int k = 0; k < levels; k++) {
        p = ls_kb_add(kb, p, ls_kb_shl(kb, bit(f, c, k), position(f, levels - 1 - k)));
    }
    ls_val carry = serial_partial(f, level, p, end, below, n_below), carries = LS_VAL_NONE;
    for (int k = 0; k < levels; k++) {
        ls_val left = ls_kb_get(kb, slots[k]), set = ls_kb_eq(kb, bit(f, c, k), position(f, 1));
        ls_val here = ls_lower_and(f->l, carries, ls_kb_not(kb, set));
        ls_kb_set(kb, slots[k], ls_kb_select(kb, here, carry, left));
        carry = ls_lower_combine(kb, f->v->map, f->v->acc, left, carry);
        carries = ls_lower_and(f->l, carries, set);
    }
    ls_kb_set(kb, result, carry); /* right when every bit carries, which the last position does */
    ls_kb_end_loop(kb);
    ls_lower_undo(f->l, mark);
    return ls_kb_get(kb, result);
}

/* ---- argmin, argmax: pairs of value and position; none: position `bound` ---- */

typedef struct pair {
    ls_val x, at;
} pair;

/* Whether b goes before a: the first NaN, else the least (or largest), at the lowest position. */
static ls_val better(ls_fold *f, pair a, pair b) {
    ls_kb *kb = &f->l->kb;
    ls_val none = position(f, f->bound);
    bool least = f->v->map == LS_OP_ARGMIN;
    const ls_val up[3] = {b.x, a.x, LS_VAL_NONE}, down[3] = {a.x, b.x, LS_VAL_NONE};
    ls_val wins = ls_lower_map(kb, LS_OP_LT, f->from, LS_BOOL, least ? up : down);
    ls_val ties = ls_lower_map(kb, LS_OP_EQ, f->from, LS_BOOL, up);
    ls_val a_nan = ls_lower_is_nan(kb, f->from, a.x), b_nan = ls_lower_is_nan(kb, f->from, b.x);
    ls_val before = ls_kb_lt(kb, b.at, a.at);
    if (a_nan != LS_VAL_NONE) {
        wins = ls_kb_or(kb, wins, ls_kb_and(kb, b_nan, ls_kb_not(kb, a_nan)));
        ties = ls_kb_or(kb, ties, ls_kb_and(kb, b_nan, a_nan));
    }
    ls_val goes = ls_kb_or(kb, wins, ls_kb_and(kb, ties, before));
    goes = ls_kb_or(kb, goes, ls_kb_eq(kb, a.at, none));
    return ls_kb_and(kb, goes, ls_kb_ne(kb, b.at, none));
}

static pair best_of(ls_fold *f, ls_val first, ls_val step) {
    ls_kb *kb = &f->l->kb;
    ls_val best = ls_kb_var(kb, ls_lower_zero(kb, f->from)), at = ls_kb_var(kb, position(f, f->bound));
    ls_saved_axes s = ls_fold_save(f);
    ls_val i = ls_kb_loop(kb, first, f->n, step, 0);
    ls_fold_point(f, i);
    ls_lowered x = ls_lower_value(f->l, f->v->a);
    pair a = {ls_kb_get(kb, best), ls_kb_get(kb, at)};
    ls_val take = ls_lower_and(f->l, better(f, a, (pair){x.v, i}), x.present);
    ls_kb_set(kb, best, ls_kb_select(kb, take, x.v, a.x));
    ls_kb_set(kb, at, ls_kb_select(kb, take, i, a.at));
    ls_kb_end_loop(kb);
    ls_fold_restore(f, &s);
    return (pair){ls_kb_get(kb, best), ls_kb_get(kb, at)};
}

static ls_val position_result(ls_fold *f, ls_val at) {
    ls_kb *kb = &f->l->kb;
    ls_val none = ls_kb_eq(kb, at, position(f, f->bound));
    return ls_kb_cast(kb, ls_kb_select(kb, none, position(f, 0), at), f->v->dtype);
}

static bool is_index(const ls_value *v) {
    return v->map == LS_OP_ARGMIN || v->map == LS_OP_ARGMAX;
}

ls_val ls_lower_reduce(ls_lower *l, int32_t id) {
    ls_lower_cover(l, LS_COVER_REDUCE_SERIAL);
    ls_fold f = ls_fold_start(l, id);
    if (is_index(f.v)) {
        return position_result(&f, best_of(&f, position(&f, 0), position(&f, 1)).at);
    }
    int top = 0;
    while (bound_at(top, f.bound) > LS_EMIT_BLOCK) {
        top++;
    }
    ls_val r = serial_block(&f, top, bound_at(top, f.bound), count_at(&f, top), position(&f, 0));
    return ls_kb_cast(&l->kb, r, f.v->dtype);
}

/* ---- a workgroup ---- */

static int shared_of(ls_fold *f, ls_dtype dtype) {
    int *mem = &f->l->shared_value[dtype];
    if (*mem < 0) {
        char name[24];
        snprintf(name, sizeof name, "sh_%s", ls_dtype_name(dtype));
        *mem = ls_kb_shared(&f->l->kb, name, dtype, LS_EMIT_THREADS);
    }
    return *mem;
}

/* Halves the partials of the threads; every thread gets the result. */
static ls_val halve(ls_fold *f, ls_val partial) {
    ls_kb *kb = &f->l->kb;
    int mem = shared_of(f, f->v->acc);
    ls_val t = ls_kb_local_id(kb, 0);
    ls_kb_store(kb, mem, t, partial, LS_VAL_NONE);
    for (int half = LS_EMIT_THREADS / 2; half > 0; half /= 2) {
        ls_kb_barrier(kb);
        ls_kb_if(kb, ls_kb_lt(kb, t, ls_kb_i32(kb, half)));
        ls_val a = ls_kb_load(kb, mem, t, LS_VAL_NONE, LS_VAL_NONE, 1);
        ls_val b = ls_kb_load(kb, mem, ls_kb_add(kb, t, ls_kb_i32(kb, half)), LS_VAL_NONE, LS_VAL_NONE, 1);
        ls_kb_store(kb, mem, t, ls_lower_combine(kb, f->v->map, f->v->acc, a, b), LS_VAL_NONE);
        ls_kb_end_if(kb);
    }
    ls_kb_barrier(kb);
    ls_val r = ls_kb_load(kb, mem, ls_kb_i32(kb, 0), LS_VAL_NONE, LS_VAL_NONE, 1);
    ls_kb_barrier(kb); /* before the array is used again */
    return r;
}

static ls_val halve_pairs(ls_fold *f, pair p) {
    ls_kb *kb = &f->l->kb;
    char name[24];
    snprintf(name, sizeof name, "sh_at%d", f->id);
    int mem = shared_of(f, f->from), at = ls_kb_shared(kb, name, f->type, LS_EMIT_THREADS);
    ls_val t = ls_kb_local_id(kb, 0), none = LS_VAL_NONE;
    ls_kb_store(kb, mem, t, p.x, none);
    ls_kb_store(kb, at, t, p.at, none);
    for (int half = LS_EMIT_THREADS / 2; half > 0; half /= 2) {
        ls_kb_barrier(kb);
        ls_kb_if(kb, ls_kb_lt(kb, t, ls_kb_i32(kb, half)));
        ls_val u = ls_kb_add(kb, t, ls_kb_i32(kb, half));
        pair a = {ls_kb_load(kb, mem, t, none, none, 1), ls_kb_load(kb, at, t, none, none, 1)};
        pair b = {ls_kb_load(kb, mem, u, none, none, 1), ls_kb_load(kb, at, u, none, none, 1)};
        ls_val take = better(f, a, b);
        ls_kb_store(kb, mem, t, ls_kb_select(kb, take, b.x, a.x), none);
        ls_kb_store(kb, at, t, ls_kb_select(kb, take, b.at, a.at), none);
        ls_kb_end_if(kb);
    }
    ls_kb_barrier(kb);
    ls_val r = ls_kb_load(kb, at, ls_kb_i32(kb, 0), none, none, 1);
    ls_kb_barrier(kb);
    return r;
}

ls_val ls_lower_reduce_row(ls_lower *l, int32_t id) {
    ls_fold f = ls_fold_start(l, id);
    ls_kb *kb = &l->kb;
    ls_val t = ls_kb_cast(kb, ls_kb_local_id(kb, 0), f.type);
    if (is_index(f.v)) {
        return position_result(&f, halve_pairs(&f, best_of(&f, t, position(&f, LS_EMIT_THREADS))));
    }
    return ls_kb_cast(kb, halve(&f, element_partial(&f, t, f.n)), f.v->dtype);
}

/* ---- several blocks ---- */

/* The elements first, first + 256, ... of one block, unrolled: their loads are under way together. */
static ls_val unrolled_partial(ls_fold *f, ls_val first) {
    ls_kb *kb = &f->l->kb;
    ls_val sum = ls_lower_identity(kb, f->v->map, f->v->acc);
    bool whole = f->bound % LS_EMIT_BLOCK == 0;
    for (int i = 0; i < f->v->n_bound; i++) {
        whole = whole && ls_dim_is_fixed(f->l->spec->extents_of_axes[f->v->bound[i]]);
    }
    ls_saved_axes s = ls_fold_save(f);
    for (int e = 0; e < LS_EMIT_BLOCK / LS_EMIT_THREADS; e++) {
        ls_val i = ls_kb_add(kb, first, position(f, e * LS_EMIT_THREADS)), here = whole ? LS_VAL_NONE : ls_kb_lt(kb, i, f->n);
        ls_fold_point(f, whole ? i : ls_kb_min(kb, i, position(f, f->bound - 1)));
        f->l->active = f->l->reports[f->v->a] ? here : LS_VAL_NONE;
        ls_lowered x = ls_lower_value(f->l, f->v->a);
        f->l->active = LS_VAL_NONE;
        here = ls_lower_and(f->l, here, x.present);
        ls_val after = ls_lower_combine(kb, f->v->map, f->v->acc, sum, ls_kb_cast(kb, x.v, f->v->acc));
        sum = here == LS_VAL_NONE ? after : ls_kb_select(kb, here, after, sum);
    }
    ls_fold_restore(f, &s);
    return sum;
}

ls_val ls_lower_few(ls_kb *kb, ls_op op, ls_dtype acc, ls_val *x, int n) {
    int half = 1;
    for (; half < n; half *= 2) {
    }
    for (int i = 0; i < n; i++) {
        x[i] = ls_lower_combine(kb, op, acc, ls_lower_identity(kb, op, acc), x[i]);
    }
    for (half /= 2; half > 0; half /= 2) {
        for (int i = 0; i < half && i + half < n; i++) {
            x[i] = ls_lower_combine(kb, op, acc, x[i], x[i + half]);
        }
        n = n < half ? n : half;
    }
    return x[0];
}

static void first_blocks(ls_lower *l, int32_t id, const uint8_t *rows, int n_rows, int64_t blocks, int32_t scratch) {
    ls_kb *kb = &l->kb;
    if (ls_lower_is_column(l, id)) {
        ls_lower_columns(l, id, rows, n_rows, blocks, scratch);
        return;
    }
    ls_lower_begin(l, "blocks", LS_COVER_BLOCKS);
    int64_t count = ls_lower_bound(l, rows, n_rows) * blocks;
    ls_val group = ls_lower_frame(l, count, 1);
    ls_dtype type = ls_lower_type(l, group);
    ls_val per_row = ls_kb_const_int(kb, type, blocks), block = ls_kb_rem(kb, group, per_row);
    ls_lower_point(l, ls_kb_div(kb, group, per_row), rows, n_rows);
    ls_fold f = ls_fold_start(l, id);
    ls_val r;
    if (is_index(f.v)) { /* one workgroup does all: any order is right */
        r = ls_lower_reduce_row(l, id);
    } else {
        ls_val begin = ls_kb_mul(kb, ls_kb_cast(kb, block, f.type), position(&f, LS_EMIT_BLOCK));
        ls_val end = ls_kb_min(kb, ls_kb_add(kb, begin, position(&f, LS_EMIT_BLOCK)), f.n);
        ls_val first = ls_kb_add(kb, begin, ls_kb_cast(kb, ls_kb_local_id(kb, 0), f.type));
        r = l->choice == LS_CHOICE_NAIVE ? halve(&f, element_partial(&f, first, end))
                                         : ls_lower_halve(l, f.v->map, f.v->acc, unrolled_partial(&f, first), LS_EMIT_THREADS, 0);
    }
    ls_val only = ls_kb_eq(kb, ls_kb_local_id(kb, 0), ls_kb_i32(kb, 0));
    ls_kb_store(kb, ls_lower_mem(l, LS_EMIT_SCRATCH, scratch), group, r, only);
    ls_lower_end(l);
}

static void more_blocks(ls_lower *l, int32_t id, const uint8_t *axes, int n_axes, int64_t n, int32_t from, int32_t to) {
    ls_kb *kb = &l->kb;
    ls_lower_begin(l, "blocks_of_blocks", LS_COVER_BLOCKS_OF_BLOCKS);
    int64_t rows = ls_lower_bound(l, axes, n_axes), blocks = bound_at(1, n);
    ls_val group = ls_lower_frame(l, rows * blocks, 1);
    ls_fold f = ls_fold_start(l, id);
    ls_dtype type = rows * n < INT32_MAX - 2 * LS_EMIT_BLOCK ? ls_lower_type(l, group) : LS_I64;
    f.type = type;
    group = ls_kb_cast(kb, group, type);
    ls_val row = ls_kb_div(kb, group, position(&f, blocks)), block = ls_kb_rem(kb, group, position(&f, blocks));
    ls_lower_point(l, row, axes, n_axes);
    ls_val begin = ls_kb_mul(kb, block, position(&f, LS_EMIT_BLOCK));
    ls_val first = ls_kb_add(kb, begin, ls_kb_cast(kb, ls_kb_local_id(kb, 0), type));
    ls_val sum = ls_lower_identity(kb, f.v->map, f.v->acc), base = ls_kb_mul(kb, row, position(&f, n));
    int most = (int)(n < LS_EMIT_BLOCK ? (n + LS_EMIT_THREADS - 1) / LS_EMIT_THREADS : LS_EMIT_BLOCK / LS_EMIT_THREADS);
    for (int e = 0; e < most; e++) { /* unrolled: their loads are under way together */
        ls_val i = ls_kb_add(kb, first, position(&f, e * LS_EMIT_THREADS)), here = LS_VAL_NONE;
        if (n % LS_EMIT_BLOCK) {
            here = ls_kb_lt(kb, i, position(&f, n));
            i = ls_kb_min(kb, i, position(&f, n - 1));
        }
        ls_val x = ls_kb_load(kb, ls_lower_mem(l, LS_EMIT_SCRATCH, from), ls_kb_add(kb, base, i), LS_VAL_NONE, LS_VAL_NONE, 1);
        ls_val after = ls_lower_combine(kb, f.v->map, f.v->acc, sum, x);
        sum = here == LS_VAL_NONE ? after : ls_kb_select(kb, here, after, sum);
    }
    ls_val r = ls_lower_halve(l, f.v->map, f.v->acc, sum, LS_EMIT_THREADS, 0);
    ls_val only = ls_kb_eq(kb, ls_kb_local_id(kb, 0), ls_kb_i32(kb, 0));
    ls_kb_store(kb, ls_lower_mem(l, LS_EMIT_SCRATCH, to), group, r, only);
    ls_lower_end(l);
}

void ls_lower_materialise(ls_lower *l, int32_t id) {
    const ls_value *v = &l->spec->values[id];
    uint8_t rows[LS_SPEC_MAX_AXES];
    int n_rows = ls_lower_axes(v->axes, rows);
    int64_t count = ls_lower_bound(l, rows, n_rows);
    int64_t blocks = is_index(v) ? 1 : bound_at(1, ls_lower_bound_points(l, v));
    ls_dtype held = is_index(v) ? v->dtype : v->acc;
    int32_t at = ls_lower_scratch(l, held, count * blocks);
    if (l->status == LS_OK) {
        first_blocks(l, id, rows, n_rows, blocks, at);
    }
    while (blocks > LS_EMIT_LEFT && l->status == LS_OK) {
        int64_t next = bound_at(1, blocks);
        int32_t to = ls_lower_scratch(l, held, count * next);
        if (l->status == LS_OK) {
            more_blocks(l, id, rows, n_rows, blocks, at, to);
        }
        at = to;
        blocks = next;
    }
    l->scratch_of[id] = l->status == LS_OK ? at : -1;
    l->blocks_of[id] = blocks;
}

/* ---- contraction ---- */

ls_val ls_lower_contract(ls_lower *l, int32_t id) {
    ls_lower_cover(l, LS_COVER_CONTRACT_SERIAL);
    ls_fold f = ls_fold_start(l, id);
    const ls_value *v = f.v;
    ls_kb *kb = &l->kb;
    ls_dtype acc = v->acc;
    ls_val zero = ls_lower_zero(kb, acc), total = ls_kb_var(kb, zero), sum = ls_kb_var(kb, zero);
    bool several = f.bound > LS_EMIT_CHUNK;
    ls_saved_axes s = ls_fold_save(&f);
    ls_val from = position(&f, 0), to = f.n;
    if (several) {
        from = ls_kb_loop(kb, from, f.n, position(&f, LS_EMIT_CHUNK), 0);
        to = ls_kb_min(kb, ls_kb_add(kb, from, position(&f, LS_EMIT_CHUNK)), f.n);
        ls_kb_set(kb, sum, zero);
    }
    ls_val k = ls_kb_loop(kb, from, to, position(&f, 1), 0);
    ls_fold_point(&f, k);
    ls_lowered a = ls_lower_value(l, v->a), b = ls_lower_value(l, v->b);
    const ls_val factors[3] = {ls_kb_cast(kb, a.v, acc), ls_kb_cast(kb, b.v, acc), LS_VAL_NONE};
    ls_val before = ls_kb_get(kb, sum), present = ls_lower_and(l, a.present, b.present);
    const ls_val terms[3] = {before, ls_lower_map(kb, LS_OP_MUL, acc, acc, factors), LS_VAL_NONE};
    ls_val after = ls_lower_map(kb, LS_OP_ADD, acc, acc, terms);
    ls_kb_set(kb, sum, present == LS_VAL_NONE ? after : ls_kb_select(kb, present, after, before));
    ls_kb_end_loop(kb);
    ls_fold_restore(&f, &s);
    ls_val r = ls_kb_get(kb, sum);
    if (several) { /* the first total is +0 plus a sum that is never -0: the sum itself */
        const ls_val sums[3] = {ls_kb_get(kb, total), r, LS_VAL_NONE};
        ls_kb_set(kb, total, ls_lower_map(kb, LS_OP_ADD, acc, acc, sums));
        ls_kb_end_loop(kb);
        r = ls_kb_get(kb, total);
    }
    return ls_kb_cast(kb, r, v->dtype);
}
