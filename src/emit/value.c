/* Index expressions, predicates and values of a spec as instructions at the present point.
 *
 * Loads are not held back by the guards around them: whatever the verifier cannot prove in bounds carries its own test, and
 * reads nothing where that fails. */
#include "base/half.h"
#include "emit/lower.h"
#include "kir/build_math.h"
#include <stdio.h>

/* ---- what is remembered ---- */

int ls_lower_mark(const ls_lower *l) {
    return l->n_log;
}

static void log_push(ls_lower *l, int32_t id, ls_lowered before) {
    if (l->n_log == l->cap_log) {
        int cap = l->cap_log ? 2 * l->cap_log : 256;
        ls_undo *log = LS_ARENA_ARRAY(l->arena, ls_undo, cap);
        if (!log) {
            l->status = LS_FAIL_MEMORY(l->err, "a kernel's values");
            return;
        }
        for (int i = 0; i < l->n_log; i++) {
            log[i] = l->log[i];
        }
        l->log = log;
        l->cap_log = cap;
    }
    l->log[l->n_log++] = (ls_undo){id, before};
}

void ls_lower_remember(ls_lower *l, int32_t id, ls_lowered x) {
    log_push(l, id, l->memo[id]);
    l->memo[id] = x;
}

void ls_lower_know_index(ls_lower *l, int32_t ix, ls_val v) {
    log_push(l, ~ix, (ls_lowered){l->ix_memo[ix], LS_VAL_NONE, LS_VAL_NONE});
    l->ix_memo[ix] = v;
}

void ls_lower_undo(ls_lower *l, int mark) {
    while (l->n_log > mark) {
        const ls_undo *u = &l->log[--l->n_log];
        if (u->id >= 0) {
            l->memo[u->id] = u->before;
        } else {
            l->ix_memo[~u->id] = u->before.v;
        }
    }
}

void ls_lower_bind(ls_lower *l, int axis, ls_val value, bool proved) {
    uint64_t bit = UINT64_C(1) << axis;
    l->axis[axis] = value;
    l->proved = proved ? l->proved | bit : l->proved & ~bit;
    for (int32_t i = 0; i < l->spec->n_values; i++) {
        if ((l->spec->values[i].axes & bit) && l->memo[i].v != LS_VAL_NONE) {
            ls_lower_remember(l, i, (ls_lowered){LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE});
        }
    }
    for (int32_t i = 0; i < l->spec->n_ix; i++) {
        if ((l->spec->ix[i].axes & bit) && l->ix_memo[i] != LS_VAL_NONE) {
            ls_lower_know_index(l, i, LS_VAL_NONE);
        }
    }
}

/* ---- index expressions ---- */

static bool is_i32(int64_t lo, int64_t hi) {
    return lo >= INT32_MIN && hi <= INT32_MAX;
}

static ls_val constant(ls_lower *l, ls_dtype type, int64_t k) {
    return ls_kb_const_int(&l->kb, type, k);
}

static ls_val symbol_value(ls_lower *l, const ls_symbol *symbol) {
    int n = l->kb.kernel.n_params;
    for (int i = 0; i < n; i++) {
        if (l->symbols[i] == symbol) {
            return ls_kb_get_param(&l->kb, i);
        }
    }
    if (l->status != LS_OK) {
        return LS_VAL_NONE;
    }
    if (n == l->cap_symbols) {
        l->kb.status = l->status = LS_FAIL(l->err, LS_ERR_UNSUPPORTED, "emit: more than %d symbols in a kernel", n);
        return LS_VAL_NONE;
    }
    char name[24];
    snprintf(name, sizeof name, "s%d", n);
    l->symbols[n] = symbol;
    return ls_kb_get_param(&l->kb, ls_kb_param(&l->kb, name, LS_I64, 0, symbol->bound));
}

ls_val ls_lower_dim(ls_lower *l, ls_dim dim, ls_dtype type) {
    if (ls_dim_is_fixed(dim)) {
        return constant(l, type, dim.offset);
    }
    ls_val v = symbol_value(l, dim.symbol);
    v = dim.scale == 1 ? v : ls_kb_mul(&l->kb, v, constant(l, LS_I64, dim.scale));
    v = dim.offset == 0 ? v : ls_kb_add(&l->kb, v, constant(l, LS_I64, dim.offset));
    return ls_kb_cast(&l->kb, v, type);
}

/* Both in the wider of their types. */
static void widen(ls_lower *l, ls_val *a, ls_val *b) {
    if (ls_lower_type(l, *a) != ls_lower_type(l, *b)) {
        *a = ls_kb_cast(&l->kb, *a, LS_I64);
        *b = ls_kb_cast(&l->kb, *b, LS_I64);
    }
}

/* Floor division and its remainder: the instructions round towards zero. */
static ls_val divide(ls_lower *l, const ls_ix *ix, ls_val a, ls_val b) {
    ls_kb *kb = &l->kb;
    bool plain = l->spec->ix[ix->a].lo >= 0;
    ls_val zero = constant(l, ls_lower_type(l, a), 0);
    if (ix->op == LS_IX_DIV) {
        ls_val q = ls_kb_div(kb, a, b);
        ls_val below = plain ? LS_VAL_NONE : ls_kb_lt(kb, ls_kb_rem(kb, a, b), zero);
        return plain ? q : ls_kb_select(kb, below, ls_kb_sub(kb, q, constant(l, ls_lower_type(l, a), 1)), q);
    }
    ls_val r = ls_kb_rem(kb, a, b);
    return plain ? r : ls_kb_select(kb, ls_kb_lt(kb, r, zero), ls_kb_add(kb, r, b), r);
}

static ls_val index_compute(ls_lower *l, const ls_ix *ix) {
    ls_kb *kb = &l->kb;
    ls_dtype type = is_i32(ix->lo, ix->hi) ? LS_I32 : LS_I64;
    switch ((ls_ix_op)ix->op) {
    case LS_IX_CONST:
        return constant(l, is_i32(ix->k, ix->k) ? LS_I32 : LS_I64, ix->k);
    case LS_IX_AXIS:
        return ls_kb_cast(kb, l->axis[ix->a], type);
    case LS_IX_DIM:
        return ls_lower_dim(l, l->spec->dims[ix->a], type);
    case LS_IX_VALUE:
        return ls_kb_cast(kb, ls_lower_value(l, ix->a).v, LS_I64);
    default:
        break;
    }
    ls_val a = ls_lower_index(l, ix->a), b = ls_lower_index(l, ix->b);
    widen(l, &a, &b);
    if (type == LS_I64 && ls_lower_type(l, a) != LS_I64) { /* the operands fit, the result need not */
        a = ls_kb_cast(kb, a, LS_I64);
        b = ls_kb_cast(kb, b, LS_I64);
    }
    return ix->op == LS_IX_ADD   ? ls_kb_add(kb, a, b)
           : ix->op == LS_IX_MUL ? ls_kb_mul(kb, a, b)
                                 : divide(l, ix, a, b);
}

ls_val ls_lower_index(ls_lower *l, int32_t id) {
    if (l->ix_memo[id] != LS_VAL_NONE && !l->ix_reports[id]) {
        return l->ix_memo[id];
    }
    ls_val v = index_compute(l, &l->spec->ix[id]);
    ls_lower_know_index(l, id, v);
    return v;
}

/* What the verifier will know of an expression: intervals, without what relates its parts. */
bool ls_lower_interval(const ls_lower *l, int32_t id, uint64_t proved, int64_t *lo, int64_t *hi) {
    const ls_ix *ix = &l->spec->ix[id];
    int64_t a0, a1, b0, b1, p[4];
    if (ix->op == LS_IX_CONST) {
        *lo = *hi = ix->k;
        return true;
    }
    if (ix->op == LS_IX_AXIS) {
        *lo = 0;
        *hi = ls_dim_bound(l->spec->extents_of_axes[ix->a]) - 1;
        return *hi >= 0 && (proved >> ix->a & 1);
    }
    if (ix->op == LS_IX_DIM || ix->op == LS_IX_VALUE || !ls_lower_interval(l, ix->a, proved, &a0, &a1) || !ls_lower_interval(l, ix->b, proved, &b0, &b1)) {
        return false;
    }
    bool fits = true;
    if (ix->op == LS_IX_ADD) {
        fits = !__builtin_add_overflow(a0, b0, lo) && !__builtin_add_overflow(a1, b1, hi);
    } else if (ix->op == LS_IX_MUL) {
        fits = !__builtin_mul_overflow(a0, b0, &p[0]) && !__builtin_mul_overflow(a0, b1, &p[1]) &&
               !__builtin_mul_overflow(a1, b0, &p[2]) && !__builtin_mul_overflow(a1, b1, &p[3]);
        *lo = *hi = p[0];
        for (int i = 1; i < 4 && fits; i++) {
            *lo = p[i] < *lo ? p[i] : *lo;
            *hi = p[i] > *hi ? p[i] : *hi;
        }
    } else if (a0 < 0 || b0 < 1 || b0 != b1) {
        return false;
    } else if (ix->op == LS_IX_DIV) {
        *lo = a0 / b0;
        *hi = a1 / b0;
    } else {
        *lo = a1 < b0 ? a0 : 0;
        *hi = a1 < b0 ? a1 : b0 - 1;
    }
    return fits && (!is_i32(ix->lo, ix->hi) || is_i32(*lo, *hi));
}

bool ls_lower_proves(const ls_lower *l, int32_t ix, int64_t count) {
    int64_t lo, hi;
    return ls_lower_interval(l, ix, l->proved, &lo, &hi) && lo >= 0 && hi < count;
}

/* ---- predicates ---- */

ls_val ls_lower_and(ls_lower *l, ls_val a, ls_val b) {
    return a == LS_VAL_NONE ? b : b == LS_VAL_NONE ? a : ls_kb_and(&l->kb, a, b);
}

static ls_val within(ls_lower *l, ls_val x, ls_val limit) {
    widen(l, &x, &limit);
    ls_val above = ls_kb_le(&l->kb, constant(l, ls_lower_type(l, x), 0), x);
    return ls_kb_and(&l->kb, above, ls_kb_lt(&l->kb, x, limit));
}

ls_val ls_lower_preds(ls_lower *l, int32_t first, int32_t n) {
    ls_val all = LS_VAL_NONE;
    for (int32_t i = first; i < first + n; i++) {
        const ls_pred *p = &l->spec->preds[i];
        ls_val x = ls_lower_index(l, p->ix), holds;
        if (p->limit != LS_SPEC_NONE) {
            holds = within(l, x, ls_lower_index(l, p->limit));
        } else {
            ls_dtype type = is_i32(p->multiple, p->multiple) ? ls_lower_type(l, x) : LS_I64;
            ls_val rest = ls_kb_rem(&l->kb, ls_kb_cast(&l->kb, x, type), constant(l, type, p->multiple));
            holds = ls_kb_eq(&l->kb, rest, constant(l, type, 0));
        }
        all = ls_lower_and(l, all, holds);
    }
    return all;
}

void ls_lower_guard(ls_lower *l, bool proved, ls_val index, int64_t count, ls_val *pred) {
    if (!proved) {
        ls_dtype type = is_i32(count, count) ? LS_I32 : LS_I64;
        *pred = ls_lower_and(l, *pred, within(l, index, constant(l, type, count)));
    }
}

ls_val ls_lower_check(ls_lower *l, int32_t check, int32_t limit, ls_val pred, int32_t number) {
    ls_lower_cover(l, LS_COVER_REPORT);
    ls_kb *kb = &l->kb;
    ls_val in = within(l, ls_lower_index(l, check), ls_lower_index(l, limit));
    ls_val bad = ls_lower_and(l, ls_lower_and(l, l->active, pred), ls_kb_not(kb, in));
    int mem = ls_lower_mem(l, LS_EMIT_STATUS, 0);
    ls_val unused = ls_kb_atomic(kb, LS_K_ATOMIC_MAX, mem, constant(l, LS_I32, 0), ls_kb_u32(kb, (uint32_t)number + 1), bad);
    (void)unused;
    return in;
}

/* ---- values ---- */

static ls_val nan_or_zero(ls_kb *kb, ls_dtype dtype) {
    return ls_dtype_is_float(dtype) ? ls_kb_const_float(kb, dtype, __builtin_nan("")) : ls_lower_zero(kb, dtype);
}

ls_val ls_lower_load(ls_lower *l, int32_t id, int lanes) {
    const ls_value *v = &l->spec->values[id];
    ls_kb *kb = &l->kb;
    ls_val pred = ls_lower_preds(l, v->first_pred, v->n_preds), otherwise = ls_lower_zero(kb, v->dtype);
    if (v->check != LS_SPEC_NONE) {
        ls_val in = ls_lower_check(l, v->check, v->limit, pred, id);
        ls_val out = ls_lower_and(l, pred, ls_kb_not(kb, in));
        otherwise = ls_kb_select(kb, out, nan_or_zero(kb, v->dtype), otherwise);
        pred = ls_lower_and(l, pred, in);
    }
    int64_t count = l->spec->args[v->arg].numel;
    ls_val index = ls_lower_index(l, v->ix);
    ls_lower_guard(l, ls_lower_proves(l, v->ix, count), index, count, &pred);
    otherwise = pred == LS_VAL_NONE ? pred : lanes > 1 ? ls_kb_splat(kb, otherwise, lanes) : otherwise;
    return ls_kb_load(kb, ls_lower_mem(l, LS_EMIT_ARG, v->arg), index, pred, otherwise, lanes);
}

static ls_lowered guard(ls_lower *l, const ls_value *v) {
    ls_kb *kb = &l->kb;
    ls_val p = ls_lower_preds(l, v->first_pred, v->n_preds), active = l->active;
    if (p == LS_VAL_NONE) {
        return ls_lower_value(l, v->a);
    }
    l->active = ls_lower_and(l, active, p);
    ls_lowered a = ls_lower_value(l, v->a), b = {LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE};
    l->active = active;
    if (v->b == LS_SPEC_NONE) {
        return (ls_lowered){ls_kb_select(kb, p, a.v, ls_lower_zero(kb, v->dtype)), ls_lower_and(l, p, a.present), active};
    }
    if (l->reports[v->b]) {
        l->active = ls_lower_and(l, active, ls_kb_not(kb, p));
    }
    b = ls_lower_value(l, v->b);
    l->active = active;
    ls_lowered out = {ls_kb_select(kb, p, a.v, b.v), LS_VAL_NONE, active};
    if (a.present != LS_VAL_NONE || b.present != LS_VAL_NONE) {
        ls_val yes = ls_kb_const_int(kb, LS_BOOL, 1);
        out.present = ls_kb_select(kb, p, a.present == LS_VAL_NONE ? yes : a.present, b.present == LS_VAL_NONE ? yes : b.present);
    }
    return out;
}

/* Whether a value of f32 is divided by a sum over its row, and need not be to the last half ULP: the bound of a sum of more than
 * 32 terms is at least 16 ULPs wide. */
static bool by_sum_of_row(const ls_lower *l, const ls_value *v) {
    if (!l->in_row || l->spec->math == LS_LOCKED || v->map != LS_OP_DIV || v->dtype != LS_F32) {
        return false;
    }
    const ls_value *by = &l->spec->values[v->b];
    return by->op == LS_V_REDUCE && by->map == LS_OP_SUM && by->dtype == LS_F32 && by->axes != v->axes &&
           ls_lower_bound_points(l, by) > LS_EMIT_SERIAL;
}

/* x times the reciprocal of y, which is computed once a row; both scaled where y or its reciprocal would be subnormal. */
static ls_val times_reciprocal(ls_kb *kb, ls_val x, ls_val y) {
    ls_val size = ls_kb_and(kb, ls_kb_bitcast(kb, y, LS_U32), ls_kb_u32(kb, 0x7fffffff));
    ls_val scale = ls_kb_select(kb, ls_kb_lt(kb, size, ls_kb_u32(kb, 0x01000000)), ls_kb_u32(kb, 0x5f800000), /* 2^-125; 2^64 */
                                ls_kb_u32(kb, 0x3f800000));
    scale = ls_kb_select(kb, ls_kb_lt(kb, ls_kb_u32(kb, 0x7e000000), size), ls_kb_u32(kb, 0x1f800000), scale); /* 2^125; 2^-64 */
    scale = ls_kb_bitcast(kb, scale, LS_F32);
    ls_val reciprocal = ls_kb_div(kb, ls_kb_f32(kb, 1), ls_kb_mul(kb, y, scale));
    return ls_kb_mul(kb, ls_kb_mul(kb, x, scale), reciprocal);
}

static ls_val map(ls_lower *l, const ls_value *v) {
    ls_val x[3] = {LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE};
    const int32_t src[3] = {v->a, v->b, v->c};
    int count = ls_ops[v->map].arity;
    for (int i = 0; i < count; i++) {
        x[i] = ls_lower_value(l, src[i]).v;
    }
    if (l->spec->math != LS_LOCKED && (v->map == LS_OP_EXP || v->map == LS_OP_ERF)) {
        return v->map == LS_OP_EXP ? ls_kb_fast_exp(&l->kb, x[0]) : ls_kb_fast_erf(&l->kb, x[0]);
    }
    if (by_sum_of_row(l, v)) {
        return times_reciprocal(&l->kb, x[0], x[1]);
    }
    return ls_lower_map(&l->kb, v->map, l->spec->values[src[count == 3]].dtype, v->dtype, x);
}

static ls_val rotate(ls_kb *kb, ls_val x, uint32_t n) {
    return ls_kb_or(kb, ls_kb_shl(kb, x, ls_kb_u32(kb, n)), ls_kb_shr(kb, x, ls_kb_u32(kb, 32 - n)));
}

/* The first word of Threefry-2x32-20 (base/rng.h). */
static ls_val threefry(ls_kb *kb, ls_val key0, ls_val key1, ls_val counter) {
    static const uint8_t rotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    ls_val third = ls_kb_xor(kb, ls_kb_xor(kb, ls_kb_u32(kb, 0x1bd11bdau), key0), key1);
    const ls_val keys[3] = {key0, key1, third};
    ls_val wide = ls_kb_cast(kb, counter, LS_U64);
    ls_val x = ls_kb_add(kb, ls_kb_cast(kb, wide, LS_U32), key0);
    ls_val high = ls_kb_shr(kb, wide, ls_kb_const_int(kb, LS_U64, 32));
    ls_val y = ls_kb_add(kb, ls_kb_cast(kb, high, LS_U32), key1);
    for (uint32_t round = 0; round < 20; round++) {
        x = ls_kb_add(kb, x, y);
        y = ls_kb_xor(kb, rotate(kb, y, rotations[round % 8]), x);
        if (round % 4 == 3) {
            uint32_t s = round / 4 + 1;
            x = ls_kb_add(kb, x, keys[s % 3]);
            y = ls_kb_add(kb, ls_kb_add(kb, y, keys[(s + 1) % 3]), ls_kb_u32(kb, s));
        }
    }
    return x;
}

ls_val ls_lower_scratch_index(ls_lower *l, int32_t id, ls_dtype type, bool *out_proved) {
    const ls_value *v = &l->spec->values[id];
    uint8_t axes[LS_SPEC_MAX_AXES];
    int n = ls_lower_axes(v->axes, axes);
    ls_kb *kb = &l->kb;
    ls_val at = constant(l, type, 0);
    for (int i = 0; i < n; i++) {
        int64_t extent = ls_dim_bound(l->spec->extents_of_axes[axes[i]]);
        at = ls_kb_add(kb, ls_kb_mul(kb, at, constant(l, type, extent)), ls_kb_cast(kb, l->axis[axes[i]], type));
    }
    *out_proved = (v->axes & ~l->proved) == 0;
    return at;
}

/* The sums of a contraction's chunks, added in order. */
static ls_val from_chunks(ls_lower *l, int32_t id, ls_val at, ls_val pred, int mem) {
    ls_kb *kb = &l->kb;
    const ls_emit_scratch *s = &l->list->scratch[l->scratch_of[id]];
    ls_dtype type = ls_lower_type(l, at);
    int64_t chunks = l->chunks_of[id], row = s->count / chunks;
    ls_val zero = ls_lower_zero(kb, s->dtype), total = ls_kb_var(kb, zero);
    ls_fold f = ls_fold_start(l, id); /* only those of elements that are there were written */
    int64_t chunk = l->chunk_of[id];
    ls_val n = ls_kb_div(kb, ls_kb_add(kb, f.n, constant(l, f.type, chunk - 1)), constant(l, f.type, chunk));
    ls_val i = ls_kb_loop(kb, constant(l, type, 0), ls_kb_cast(kb, n, type), constant(l, type, 1), 0);
    ls_val index = ls_kb_add(kb, ls_kb_mul(kb, i, constant(l, type, row)), at);
    ls_val x = ls_kb_load(kb, mem, index, pred, pred == LS_VAL_NONE ? pred : zero, 1);
    ls_kb_set(kb, total, ls_kb_add(kb, ls_kb_get(kb, total), x));
    ls_kb_end_loop(kb);
    return ls_kb_get(kb, total);
}

/* The results of a few blocks of a reduction, brought together. */
static ls_val from_blocks(ls_lower *l, int32_t id, ls_val at, ls_val pred, int mem) {
    ls_kb *kb = &l->kb;
    const ls_value *v = &l->spec->values[id];
    int blocks = (int)l->blocks_of[id];
    ls_val x[LS_EMIT_LEFT], zero = pred == LS_VAL_NONE ? pred : ls_lower_zero(kb, (ls_dtype)v->acc);
    ls_dtype type = ls_lower_type(l, at);
    for (int i = 0; i < blocks; i++) {
        ls_val index = ls_kb_add(kb, ls_kb_mul(kb, at, constant(l, type, blocks)), constant(l, type, i));
        x[i] = ls_kb_load(kb, mem, index, pred, zero, 1);
    }
    return ls_lower_few(kb, (ls_op)v->map, (ls_dtype)v->acc, x, blocks);
}

/* A value that kernels before this one left in scratch, row by row. */
static ls_val from_scratch(ls_lower *l, int32_t id) {
    ls_kb *kb = &l->kb;
    const ls_emit_scratch *s = &l->list->scratch[l->scratch_of[id]];
    ls_dtype held = s->dtype;
    int64_t chunks = l->chunks_of[id], blocks = l->blocks_of[id], parts = chunks ? chunks : blocks ? blocks : 1;
    bool proved;
    ls_val pred = LS_VAL_NONE, at = ls_lower_scratch_index(l, id, is_i32(s->count, s->count) ? LS_I32 : LS_I64, &proved);
    ls_lower_guard(l, proved, at, s->count / parts, &pred);
    int mem = ls_lower_mem(l, LS_EMIT_SCRATCH, l->scratch_of[id]);
    ls_val zero = pred == LS_VAL_NONE ? LS_VAL_NONE : ls_lower_zero(kb, held);
    ls_val x = chunks       ? from_chunks(l, id, at, pred, mem)
               : blocks > 1 ? from_blocks(l, id, at, pred, mem)
                            : ls_kb_load(kb, mem, at, pred, zero, 1);
    return ls_kb_cast(kb, x, (ls_dtype)l->spec->values[id].dtype);
}

static ls_lowered compute(ls_lower *l, int32_t id) {
    const ls_value *v = &l->spec->values[id];
    ls_kb *kb = &l->kb;
    ls_lowered out = {LS_VAL_NONE, LS_VAL_NONE, l->active};
    if (l->scratch_of[id] >= 0) {
        out.v = from_scratch(l, id);
        return out;
    }
    switch ((ls_value_op)v->op) {
    case LS_V_CONST:
        out.v = ls_kb_const_bits(kb, v->dtype, v->bits);
        return out;
    case LS_V_LOAD:
        out.v = ls_lower_load(l, id, 1);
        return out;
    case LS_V_GUARD:
        out = guard(l, v);
        out.active = l->active;
        return out;
    case LS_V_INDEX:
        out.v = ls_kb_cast(kb, ls_lower_index(l, v->ix), v->dtype);
        return out;
    case LS_V_MAP:
        out.v = map(l, v);
        return out;
    case LS_V_RANDOM:
        out.v = threefry(kb, ls_lower_value(l, v->a).v, ls_lower_value(l, v->b).v, ls_lower_index(l, v->ix));
        return out;
    case LS_V_REDUCE:
        out.v = ls_lower_reduce(l, id);
        return out;
    case LS_V_CONTRACT:
        out.v = ls_lower_contract(l, id);
        return out;
    case LS_V_SCAN:
    case LS_V_SORT:
        if (!ls_kb_failed(kb)) { /* line.c gives the others; what it gives in a kernel that failed is not a value */
            l->kb.status = l->status =
                LS_FAIL(l->err, LS_ERR_UNSUPPORTED, "emit: kernel %s: a scan or sort inside another loop", l->spec->name);
        }
        break;
    }
    return out;
}

ls_lowered ls_lower_value(ls_lower *l, int32_t id) {
    const ls_lowered *known = &l->memo[id];
    if (known->v != LS_VAL_NONE && (!l->reports[id] || known->active == l->active)) {
        return *known;
    }
    ls_lowered x = compute(l, id);
    ls_lower_remember(l, id, x);
    return x;
}
