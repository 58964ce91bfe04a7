/* 64-bit integers as pairs of u32 words. */
#include "kir/legal_parts.h"

static bool is_narrow(const ls_legal *l, ls_lane a) {
    return a.hi == LS_VAL_NONE && ls_legal_type(l, a.v) == LS_I32;
}

ls_lane ls_legal_wide(ls_legal *l, ls_dtype t, ls_lane a) {
    ls_kb *k = &l->kb;
    if (!is_narrow(l, a)) {
        return a;
    }
    if (ls_legal_has(l, LS_KT_INT64)) {
        return ls_legal_one(ls_kb_cast(k, a.v, t));
    }
    return (ls_lane){AS_U(a.v), t == LS_U64 ? U(0) : AS_U(SHR(a.v, I(31)))};
}

ls_val ls_legal_low(ls_legal *l, ls_lane a) {
    return a.hi != LS_VAL_NONE ? AS_I(a.v) : ls_kb_cast(&l->kb, a.v, LS_I32);
}

ls_lane ls_legal_split(ls_legal *l, ls_dtype t, ls_lane a) {
    ls_kb *k = &l->kb;
    if (is_narrow(l, a)) {
        return (ls_lane){AS_U(a.v), t == LS_U64 ? U(0) : AS_U(SHR(a.v, I(31)))};
    }
    if (a.hi != LS_VAL_NONE) {
        return a;
    }
    ls_val v = ls_legal_bitcast(l, a.v, LS_U64);
    ls_val high = SHR(v, ls_kb_const_int(k, LS_U64, 32));
    return (ls_lane){ls_kb_cast(k, v, LS_U32), ls_kb_cast(k, high, LS_U32)};
}

ls_lane ls_legal_merge(ls_legal *l, ls_dtype t, ls_lane pair) {
    ls_kb *k = &l->kb;
    if (!ls_legal_has(l, LS_KT_INT64)) {
        return pair;
    }
    ls_val high = SHL(ls_kb_cast(k, pair.hi, LS_U64), ls_kb_const_int(k, LS_U64, 32));
    return ls_legal_one(ls_legal_bitcast(l, OR(high, ls_kb_cast(k, pair.v, LS_U64)), t));
}

ls_lane ls_legal_pair_select(ls_legal *l, ls_val condition, ls_lane a, ls_lane b) {
    ls_kb *k = &l->kb;
    return (ls_lane){SELECT(condition, a.v, b.v), SELECT(condition, a.hi, b.hi)};
}

static ls_val bit(ls_legal *l, ls_val condition) {
    ls_kb *k = &l->kb;
    return SELECT(condition, U(1), U(0));
}

ls_lane ls_legal_pair_neg(ls_legal *l, ls_lane a) {
    ls_kb *k = &l->kb;
    return (ls_lane){SUB(U(0), a.v), ADD(NOT(a.hi), bit(l, EQ(a.v, U(0))))};
}

/* Shifting by 32 - n, for n of 0 to 31, as by 1 and then by 31 - n. */
ls_lane ls_legal_pair_shift(ls_legal *l, ls_kop op, ls_lane a, ls_val count) {
    ls_kb *k = &l->kb;
    ls_val n = AND(count, U(31)), across = XOR(n, U(31)), far = LE(U(32), count), zero = U(0);
    if (op == LS_K_SHL) {
        ls_val low = SHL(a.v, n), high = OR(SHL(a.hi, n), SHR(SHR(a.v, U(1)), across));
        return (ls_lane){SELECT(far, zero, low), SELECT(far, low, high)};
    }
    ls_val high = SHR(a.hi, n), low = OR(SHR(a.v, n), SHL(SHL(a.hi, U(1)), across));
    return (ls_lane){SELECT(far, high, low), SELECT(far, zero, high)};
}

ls_val ls_legal_pair_normal(ls_legal *l, ls_lane a, ls_val *out_shift) {
    ls_kb *k = &l->kb;
    ls_val high_only = NE(a.hi, U(0));
    ls_val top = SELECT(high_only, a.hi, a.v), n = SELECT(high_only, U(0), U(32));
    for (int step = 16; step; step /= 2) {
        ls_val low = LT(top, U(1u << (32 - step)));
        top = SELECT(low, SHL(top, U((uint32_t)step)), top);
        n = ADD(n, SELECT(low, U((uint32_t)step), U(0)));
    }
    ls_lane moved = ls_legal_pair_shift(l, LS_K_SHL, a, n);
    *out_shift = n;
    return OR(moved.hi, bit(l, NE(moved.v, U(0))));
}

/* ---- one function an instruction ---- */

typedef ls_lane (*pair_fn)(ls_legal *l, ls_kop op, bool is_signed, ls_lane a, ls_lane b);
#define PAIR(name) static ls_lane pair_##name(ls_legal *l, ls_kop op, bool is_signed, ls_lane a, ls_lane b)
#define UNUSED (void)op, (void)is_signed, (void)b

PAIR(add) {
    ls_kb *k = &l->kb;
    UNUSED;
    ls_val low = ADD(a.v, b.v);
    return (ls_lane){low, ADD(ADD(a.hi, b.hi), bit(l, LT(low, a.v)))};
}

PAIR(sub) {
    ls_kb *k = &l->kb;
    UNUSED;
    return (ls_lane){SUB(a.v, b.v), SUB(SUB(a.hi, b.hi), bit(l, LT(a.v, b.v)))};
}

PAIR(mul) {
    ls_kb *k = &l->kb;
    UNUSED;
    ls_val cross = ADD(MUL(a.v, b.hi), MUL(a.hi, b.v));
    return (ls_lane){MUL(a.v, b.v), ADD(ls_kb_umulhi(k, a.v, b.v), cross)};
}

PAIR(umulhi) {
    ls_kb *k = &l->kb;
    UNUSED;
    ls_val m0 = MUL(a.v, b.hi), m1 = MUL(a.hi, b.v);
    ls_val t = ADD(ls_kb_umulhi(k, a.v, b.v), m0), carry = bit(l, LT(t, m0));
    ls_val t2 = ADD(t, m1);
    carry = ADD(carry, bit(l, LT(t2, m1)));
    ls_lane r = {MUL(a.hi, b.hi), ls_kb_umulhi(k, a.hi, b.hi)};
    r = pair_add(l, op, false, r, (ls_lane){ls_kb_umulhi(k, a.v, b.hi), U(0)});
    r = pair_add(l, op, false, r, (ls_lane){ls_kb_umulhi(k, a.hi, b.v), U(0)});
    return pair_add(l, op, false, r, (ls_lane){carry, U(0)});
}

PAIR(neg) {
    UNUSED;
    return ls_legal_pair_neg(l, a);
}

PAIR(abs) {
    ls_kb *k = &l->kb;
    UNUSED;
    return is_signed ? ls_legal_pair_select(l, LT(AS_I(a.hi), I(0)), ls_legal_pair_neg(l, a), a) : a;
}

PAIR(bitwise) {
    ls_kb *k = &l->kb;
    UNUSED;
    ls_val second = op == LS_K_NOT ? LS_VAL_NONE : b.v, second_hi = op == LS_K_NOT ? LS_VAL_NONE : b.hi;
    return (ls_lane){ls_kb_pure(k, op, a.v, second, LS_VAL_NONE, 0),
                     ls_kb_pure(k, op, a.hi, second_hi, LS_VAL_NONE, 0)};
}

PAIR(popcount) {
    ls_kb *k = &l->kb;
    UNUSED;
    return (ls_lane){ADD(ls_kb_popcount(k, a.v), ls_kb_popcount(k, a.hi)), U(0)};
}

static ls_val less(ls_legal *l, bool is_signed, ls_lane a, ls_lane b, bool or_equal) {
    ls_kb *k = &l->kb;
    ls_val high = is_signed ? LT(AS_I(a.hi), AS_I(b.hi)) : LT(a.hi, b.hi);
    ls_val low = or_equal ? LE(a.v, b.v) : LT(a.v, b.v);
    return OR(high, AND(EQ(a.hi, b.hi), low));
}

PAIR(compare) { /* the bool stands in v */
    ls_kb *k = &l->kb;
    if (op == LS_K_LT || op == LS_K_LE) {
        return ls_legal_one(less(l, is_signed, a, b, op == LS_K_LE));
    }
    ls_val differ = OR(XOR(a.v, b.v), XOR(a.hi, b.hi));
    return ls_legal_one(op == LS_K_EQ ? EQ(differ, U(0)) : NE(differ, U(0)));
}

PAIR(least) {
    ls_val first = less(l, is_signed, a, b, false);
    return op == LS_K_MIN ? ls_legal_pair_select(l, first, a, b) : ls_legal_pair_select(l, first, b, a);
}

PAIR(shift) {
    ls_kb *k = &l->kb;
    ls_val inside = AND(EQ(b.hi, U(0)), LT(b.v, U(64))), count = SELECT(inside, b.v, U(63));
    if (op == LS_K_SHR && is_signed) { /* ~(~a >> n) for negative a */
        ls_val sign = AS_U(SHR(AS_I(a.hi), I(31)));
        ls_lane r = ls_legal_pair_shift(l, op, (ls_lane){XOR(a.v, sign), XOR(a.hi, sign)}, count);
        return (ls_lane){XOR(r.v, sign), XOR(r.hi, sign)};
    }
    return ls_legal_pair_select(l, inside, ls_legal_pair_shift(l, op, a, count), (ls_lane){U(0), U(0)});
}

/* Bit by bit; where both fit a word, by the device. b is not 0. What is left never overflows when shifted: before the last
 * step it is no more than half of a. */
static ls_lane divide(ls_legal *l, ls_lane a, ls_lane b, bool want_rest) {
    ls_kb *k = &l->kb;
    ls_val q0 = ls_kb_var(k, a.v), q1 = ls_kb_var(k, a.hi), r0 = ls_kb_var(k, U(0)), r1 = ls_kb_var(k, U(0));
    ls_kb_if(k, EQ(OR(a.hi, b.hi), U(0)));
    ls_val d = MAX(b.v, U(1));
    ls_kb_set(k, q0, ls_kb_div(k, a.v, d));
    ls_kb_set(k, r0, ls_kb_rem(k, a.v, d));
    ls_kb_else(k);
    ls_kb_loop(k, I(0), I(64), I(1), 0);
    ls_val x0 = ls_kb_get(k, q0), x1 = ls_kb_get(k, q1), y0 = ls_kb_get(k, r0), y1 = ls_kb_get(k, r1);
    ls_lane r = {OR(SHL(y0, U(1)), SHR(x1, U(31))), OR(SHL(y1, U(1)), SHR(y0, U(31)))};
    ls_val fits = less(l, false, b, r, true);
    r = ls_legal_pair_select(l, fits, pair_sub(l, LS_K_SUB, false, r, b), r);
    ls_kb_set(k, q1, OR(SHL(x1, U(1)), SHR(x0, U(31))));
    ls_kb_set(k, q0, OR(SHL(x0, U(1)), bit(l, fits)));
    ls_kb_set(k, r0, r.v);
    ls_kb_set(k, r1, r.hi);
    ls_kb_end_loop(k);
    ls_kb_end_if(k);
    return want_rest ? (ls_lane){ls_kb_get(k, r0), ls_kb_get(k, r1)}
                     : (ls_lane){ls_kb_get(k, q0), ls_kb_get(k, q1)};
}

PAIR(divide) {
    ls_kb *k = &l->kb;
    bool want_rest = op == LS_K_REM;
    ls_val none = EQ(OR(b.v, b.hi), U(0));
    ls_val sign_a = SHR(a.hi, U(31)), sign_b = SHR(b.hi, U(31));
    ls_lane x = pair_abs(l, op, is_signed, a, a), y = pair_abs(l, op, is_signed, b, b);
    ls_lane r = divide(l, x, y, want_rest);
    if (is_signed) {
        ls_val negative = NE(want_rest ? sign_a : XOR(sign_a, sign_b), U(0));
        r = ls_legal_pair_select(l, negative, ls_legal_pair_neg(l, r), r);
    }
    return ls_legal_pair_select(l, none, (ls_lane){U(0), U(0)}, r);
}

static const pair_fn pairs[LS_K_COUNT] = {
    [LS_K_ADD] = pair_add,       [LS_K_SUB] = pair_sub,     [LS_K_MUL] = pair_mul,
    [LS_K_DIV] = pair_divide,    [LS_K_REM] = pair_divide,  [LS_K_NEG] = pair_neg,
    [LS_K_ABS] = pair_abs,       [LS_K_MIN] = pair_least,   [LS_K_MAX] = pair_least,
    [LS_K_UMULHI] = pair_umulhi, [LS_K_AND] = pair_bitwise, [LS_K_OR] = pair_bitwise,
    [LS_K_XOR] = pair_bitwise,   [LS_K_NOT] = pair_bitwise, [LS_K_SHL] = pair_shift,
    [LS_K_SHR] = pair_shift,     [LS_K_EQ] = pair_compare,  [LS_K_NE] = pair_compare,
    [LS_K_LT] = pair_compare,    [LS_K_LE] = pair_compare,  [LS_K_POPCOUNT] = pair_popcount,
};

ls_lane ls_legal_pair_op(ls_legal *l, ls_kop op, ls_dtype t, ls_lane a, ls_lane b) {
    if (!pairs[op]) {
        ls_legal_refuse(l, "no such instruction on 64-bit integers");
        return a;
    }
    return pairs[op](l, op, t == LS_I64, a, b);
}
