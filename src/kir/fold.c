/* Local rules of the simplifier: constants by the contract's own arithmetic, identities of wrapping integers, and
 * addresses with their constant part outermost. No rule changes a float, short of computing with constants; results that
 * are NaN are left to the device. */
#include "kir/simplify.h"

/* A copy: making an instruction moves the body. */
static ls_ins at(const ls_kout *out, ls_val v) {
    return out->body.data[v];
}

static bool is_const(const ls_kout *out, ls_val v) {
    return v >= 0 && at(out, v).op == LS_K_CONST;
}

static bool is_const_of(const ls_kout *out, ls_val v, int64_t value) {
    return is_const(out, v) && at(out, v).arg == value;
}

static ls_val make_const(ls_kout *out, const ls_ins *type, uint64_t bits) {
    ls_ins ins = {LS_K_CONST,
                  type->dtype,
                  type->lanes,
                  0,
                  {LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE},
                  (int64_t)ls_kir_wrap((ls_dtype)type->dtype, bits)};
    return ls_kout_add(out, ins);
}

static ls_val make(ls_kout *out, ls_kop op, const ls_ins *type, ls_val a, ls_val b) {
    ls_ins ins = {op, type->dtype, type->lanes, 0, {a, b, LS_VAL_NONE}, 0};
    return ls_kout_add(out, ins);
}

static bool is_nan(ls_dtype t, uint64_t bits) {
    uint64_t s[3] = {bits, bits, 0};
    return ls_dtype_is_float(t) && ls_kir_eval(LS_K_NE, LS_BOOL, t, s);
}

/* All sources constant: the value, unless it is a NaN that arithmetic makes. */
static ls_val fold_constants(ls_kout *out, const ls_ins *ins) {
    uint64_t s[3] = {0, 0, 0};
    int n = ls_kops[ins->op].sources;
    for (int i = 0; i < n; i++) {
        if (!is_const(out, ins->src[i])) {
            return LS_VAL_NONE;
        }
        s[i] = (uint64_t)at(out, ins->src[i]).arg;
    }
    uint64_t v = ls_kir_eval((ls_kop)ins->op, (ls_dtype)ins->dtype, (ls_dtype)at(out, ins->src[0]).dtype, s);
    bool moves_bits = ins->op == LS_K_SELECT || ins->op == LS_K_BITCAST || ins->op == LS_K_CANON;
    return is_nan((ls_dtype)ins->dtype, v) && !moves_bits ? LS_VAL_NONE : make_const(out, ins, v);
}

typedef ls_val (*fold_fn)(ls_kout *out, ls_ins *ins);

static void const_last(ls_kout *out, ls_ins *ins) {
    if (is_const(out, ins->src[0]) && !is_const(out, ins->src[1])) {
        ls_val v = ins->src[0];
        ins->src[0] = ins->src[1];
        ins->src[1] = v;
    }
}

/* The constant that v adds at its outside: v = *out_rest + constant. */
static bool split_sum(const ls_kout *out, ls_val v, ls_val *out_rest, ls_val *out_const) {
    ls_ins s = at(out, v);
    if (s.op != LS_K_ADD || !is_const(out, s.src[1])) {
        return false;
    }
    *out_rest = s.src[0];
    *out_const = s.src[1];
    return true;
}

static ls_val fold_add(ls_kout *out, ls_ins *ins) {
    ls_val rest, c;
    const_last(out, ins);
    if (is_const_of(out, ins->src[1], 0)) {
        return ins->src[0];
    }
    if (split_sum(out, ins->src[0], &rest, &c)) { /* (x + c) + y = (x + y) + c, y perhaps constant too */
        return is_const(out, ins->src[1])
                   ? make(out, LS_K_ADD, ins, rest, make(out, LS_K_ADD, ins, c, ins->src[1]))
                   : make(out, LS_K_ADD, ins, make(out, LS_K_ADD, ins, rest, ins->src[1]), c);
    }
    if (split_sum(out, ins->src[1], &rest, &c)) {
        return make(out, LS_K_ADD, ins, make(out, LS_K_ADD, ins, ins->src[0], rest), c);
    }
    return LS_VAL_NONE;
}

static ls_val fold_sub(ls_kout *out, ls_ins *ins) {
    if (ins->src[0] == ins->src[1]) {
        return make_const(out, ins, 0);
    }
    if (is_const(out, ins->src[1])) {
        return make(out, LS_K_ADD, ins, ins->src[0],
                    make_const(out, ins, 0 - (uint64_t)at(out, ins->src[1]).arg));
    }
    return LS_VAL_NONE;
}

static ls_val fold_mul(ls_kout *out, ls_ins *ins) {
    ls_val rest, c;
    const_last(out, ins);
    if (!is_const(out, ins->src[1])) {
        return LS_VAL_NONE;
    }
    if (at(out, ins->src[1]).arg == 0 || at(out, ins->src[1]).arg == 1) {
        return at(out, ins->src[1]).arg ? ins->src[0] : ins->src[1];
    }
    ls_ins s = at(out, ins->src[0]);
    if (s.op == LS_K_MUL && is_const(out, s.src[1])) {
        rest = s.src[0];
        return make(out, LS_K_MUL, ins, rest, make(out, LS_K_MUL, ins, s.src[1], ins->src[1]));
    }
    if (split_sum(out, ins->src[0], &rest, &c)) { /* (x + c) * d = x * d + c * d */
        ls_val product = make(out, LS_K_MUL, ins, rest, ins->src[1]);
        return make(out, LS_K_ADD, ins, product, make(out, LS_K_MUL, ins, c, ins->src[1]));
    }
    return LS_VAL_NONE;
}

static ls_val fold_div(ls_kout *out, ls_ins *ins) {
    return is_const_of(out, ins->src[1], 1) ? ins->src[0] : LS_VAL_NONE;
}

static ls_val fold_rem(ls_kout *out, ls_ins *ins) {
    return is_const_of(out, ins->src[1], 1) ? make_const(out, ins, 0) : LS_VAL_NONE;
}

static ls_val fold_shift(ls_kout *out, ls_ins *ins) {
    ls_ins s = at(out, ins->src[0]);
    if (ins->op == LS_K_SHR && ins->dtype == LS_U32 && s.op == LS_K_SHL && s.src[1] == ins->src[1] &&
        is_const(out, ins->src[1]) && at(out, ins->src[1]).arg < 32) { /* up and down again: the low bits */
        return make(out, LS_K_AND, ins, s.src[0],
                    make_const(out, ins, UINT32_MAX >> at(out, ins->src[1]).arg));
    }
    return is_const_of(out, ins->src[1], 0) ? ins->src[0] : LS_VAL_NONE;
}

/* From f16 to f32 and back. */
static ls_val fold_cast(ls_kout *out, ls_ins *ins) {
    ls_ins s = at(out, ins->src[0]);
    bool back =
        ins->dtype == LS_F16 && s.dtype == LS_F32 && s.op == LS_K_CAST && at(out, s.src[0]).dtype == LS_F16;
    return back ? s.src[0] : LS_VAL_NONE;
}

static ls_val fold_and(ls_kout *out, ls_ins *ins) {
    const_last(out, ins);
    bool ones = is_const(out, ins->src[1]) &&
                (uint64_t)at(out, ins->src[1]).arg == ls_kir_wrap((ls_dtype)ins->dtype, ~(uint64_t)0);
    if (ones || ins->src[0] == ins->src[1]) {
        return ins->src[0];
    }
    return is_const_of(out, ins->src[1], 0) ? ins->src[1] : LS_VAL_NONE;
}

static ls_val fold_or(ls_kout *out, ls_ins *ins) {
    const_last(out, ins);
    if (is_const_of(out, ins->src[1], 0) || ins->src[0] == ins->src[1]) {
        return ins->src[0];
    }
    return ins->dtype == LS_BOOL && is_const_of(out, ins->src[1], 1) ? ins->src[1] : LS_VAL_NONE;
}

static ls_val fold_xor(ls_kout *out, ls_ins *ins) {
    const_last(out, ins);
    return is_const_of(out, ins->src[1], 0) ? ins->src[0] : LS_VAL_NONE;
}

static ls_val fold_not(ls_kout *out, ls_ins *ins) {
    ls_ins s = at(out, ins->src[0]);
    return s.op == LS_K_NOT ? s.src[0] : LS_VAL_NONE;
}

static ls_val fold_min_max(ls_kout *out, ls_ins *ins) {
    const_last(out, ins);
    return ins->src[0] == ins->src[1] ? ins->src[0] : LS_VAL_NONE;
}

static ls_val fold_compare(ls_kout *out, ls_ins *ins) { /* of integers */
    if (ins->src[0] != ins->src[1]) {
        return LS_VAL_NONE;
    }
    return make_const(out, ins, ins->op == LS_K_EQ || ins->op == LS_K_LE);
}

/* Whether x is a load (cast from f16 or not) that is +0 or 0 wherever the condition fails. */
static bool is_zero_unless(const ls_kout *out, ls_val condition, ls_val x) {
    ls_ins load = at(out, x);
    load = load.op == LS_K_CAST && load.dtype == LS_F32 && at(out, load.src[0]).dtype == LS_F16
               ? at(out, load.src[0])
               : load;
    if (load.op != LS_K_LOAD || load.lanes != 1 || load.src[1] == LS_VAL_NONE ||
        !is_const_of(out, load.src[2], 0)) {
        return false;
    }
    ls_ins pred = at(out, load.src[1]);
    return load.src[1] == condition ||
           (pred.op == LS_K_AND && (pred.src[0] == condition || pred.src[1] == condition));
}

static ls_val fold_select(ls_kout *out, ls_ins *ins) {
    if (is_const(out, ins->src[0])) {
        return at(out, ins->src[0]).arg ? ins->src[1] : ins->src[2];
    }
    if (ins->lanes == 1 && is_const_of(out, ins->src[2], 0) &&
        is_zero_unless(out, ins->src[0], ins->src[1])) {
        return ins->src[1];
    }
    return ins->src[1] == ins->src[2] ? ins->src[1] : LS_VAL_NONE;
}

static ls_val fold_splat(ls_kout *out, ls_ins *ins) {
    return is_const(out, ins->src[0]) ? make_const(out, ins, (uint64_t)at(out, ins->src[0]).arg)
                                      : LS_VAL_NONE;
}

static ls_val fold_extract(ls_kout *out, ls_ins *ins) {
    ls_ins s = at(out, ins->src[0]);
    if (s.op == LS_K_SPLAT) {
        return s.src[0];
    }
    if (s.op == LS_K_CONST) {
        return make_const(out, ins, (uint64_t)s.arg);
    }
    if (s.op == LS_K_JOIN) {
        int half = s.lanes / 2, part = ins->arg >= half;
        if (half == 1) {
            return s.src[part];
        }
        ls_ins inner = *ins;
        inner.src[0] = s.src[part];
        inner.arg -= part * half;
        return ls_kout_add(out, inner);
    }
    return LS_VAL_NONE;
}

/* The vector of which v is the lanes from `first` on, LS_VAL_NONE when there is none. */
static ls_val lanes_from(const ls_kout *out, ls_val v, int first) {
    ls_ins s = at(out, v);
    if (s.op == LS_K_EXTRACT) {
        return s.arg == first ? s.src[0] : LS_VAL_NONE;
    }
    if (s.op != LS_K_JOIN) {
        return LS_VAL_NONE;
    }
    ls_val low = lanes_from(out, s.src[0], first), high = lanes_from(out, s.src[1], first + s.lanes / 2);
    return low == high ? low : LS_VAL_NONE;
}

static ls_val fold_join(ls_kout *out, ls_ins *ins) { /* a vector taken apart and put together again */
    ls_val low = lanes_from(out, ins->src[0], 0), high = lanes_from(out, ins->src[1], ins->lanes / 2);
    return low >= 0 && low == high && at(out, low).lanes == ins->lanes ? low : LS_VAL_NONE;
}

/* Rules that hold for integers (and bools) alone, and rules for any type. */
static const fold_fn int_folds[LS_K_COUNT] = {
    [LS_K_ADD] = fold_add,     [LS_K_SUB] = fold_sub,    [LS_K_MUL] = fold_mul,    [LS_K_DIV] = fold_div,
    [LS_K_REM] = fold_rem,     [LS_K_SHL] = fold_shift,  [LS_K_SHR] = fold_shift,  [LS_K_AND] = fold_and,
    [LS_K_OR] = fold_or,       [LS_K_XOR] = fold_xor,    [LS_K_NOT] = fold_not,    [LS_K_MIN] = fold_min_max,
    [LS_K_MAX] = fold_min_max, [LS_K_EQ] = fold_compare, [LS_K_NE] = fold_compare, [LS_K_LT] = fold_compare,
    [LS_K_LE] = fold_compare,
};
static const fold_fn any_folds[LS_K_COUNT] = {
    [LS_K_SELECT] = fold_select,   [LS_K_CAST] = fold_cast, [LS_K_SPLAT] = fold_splat,
    [LS_K_EXTRACT] = fold_extract, [LS_K_JOIN] = fold_join,
};

ls_val ls_kir_fold(ls_kout *out, ls_ins *ins) {
    ls_val v = LS_VAL_NONE;
    if (ls_kops[ins->op].kind == LS_KC_PURE) {
        v = fold_constants(out, ins);
    }
    if (v == LS_VAL_NONE && any_folds[ins->op]) {
        v = any_folds[ins->op](out, ins);
    }
    if (v == LS_VAL_NONE && int_folds[ins->op] && !ls_dtype_is_float((ls_dtype)at(out, ins->src[0]).dtype)) {
        v = int_folds[ins->op](out, ins);
    }
    return v;
}
