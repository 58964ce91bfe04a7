/* Integers of one register. Small ones are computed in 32 bits and cut after what may leave their range. Shifts and
 * divisions are guarded unless ranges or constants show that they need not be. */
#include "kir/legal_parts.h"

ls_dtype ls_legal_register(const ls_legal *l, ls_dtype t) {
    (void)l;
    if (ls_dtype_bits(t) == 64) {
        return t;
    }
    return ls_dtype_is_signed_int(t) ? LS_I32 : LS_U32;
}

ls_val ls_legal_wrap(ls_legal *l, ls_dtype t, ls_val v) {
    ls_kb *k = &l->kb;
    int bits = ls_dtype_bits(t);
    if (bits >= 32) {
        return v;
    }
    if (!ls_dtype_is_signed_int(t)) {
        return AND(v, U((1u << bits) - 1));
    }
    return SHR(SHL(v, I(32 - bits)), I(32 - bits));
}

typedef struct int_args {
    ls_dtype t, reg; /* the type, and that of the registers */
    ls_val a, b;
    ls_val old_b; /* the second operand in the old kernel, for its range */
} int_args;

typedef ls_val (*int_fn)(ls_legal *l, ls_kop op, const int_args *x);
#define INT(name) static ls_val int_##name(ls_legal *l, ls_kop op, const int_args *x)

static ls_val number(ls_legal *l, const int_args *x, int64_t v) {
    return ls_kb_const_int(&l->kb, x->reg, v);
}

INT(plain) {
    return ls_kb_pure(&l->kb, op, x->a, ls_kops[op].sources > 1 ? x->b : LS_VAL_NONE, LS_VAL_NONE, 0);
}

INT(cut) {
    return ls_legal_wrap(l, x->t, int_plain(l, op, x));
}

/* The magnitude of MIN is MIN: max(MIN, -MIN). */
INT(abs) {
    ls_kb *k = &l->kb;
    (void)op;
    return ls_dtype_is_signed_int(x->t) ? ls_legal_wrap(l, x->t, MAX(x->a, ls_kb_neg(k, x->a))) : x->a;
}

INT(popcount) {
    int_args y = *x;
    if (ls_dtype_bits(x->t) < 32) {
        y.a = ls_kb_and(&l->kb, x->a, number(l, x, (1 << ls_dtype_bits(x->t)) - 1));
    }
    return int_plain(l, op, &y);
}

/* The count as unsigned; any count from 32 on shifts a small type's bits out, as one from its width on does. */
static ls_val count_of(ls_legal *l, const int_args *x, bool *out_inside) {
    int width = ls_dtype_bits(x->reg);
    int64_t c;
    *out_inside = ls_legal_const(l, x->b, &c) ? c >= 0 && c < width
                                              : x->old_b >= 0 && ls_legal_within(l, x->old_b, 0, width - 1);
    return ls_legal_bitcast(l, x->b, width == 64 ? LS_U64 : LS_U32);
}

INT(shift) {
    ls_kb *k = &l->kb;
    bool inside;
    int width = ls_dtype_bits(x->reg);
    ls_val count = count_of(l, x, &inside);
    if (inside) {
        return int_cut(l, op, x);
    }
    ls_dtype unsigned_type = width == 64 ? LS_U64 : LS_U32;
    ls_val top = ls_kb_const_int(k, unsigned_type, width - 1);
    int_args y = *x;
    y.b = ls_legal_bitcast(l, MIN(count, top), x->reg);
    ls_val r = int_cut(l, op, &y);
    if (op == LS_K_SHR && ls_dtype_is_signed_int(x->t)) {
        return r;
    }
    return SELECT(LE(count, top), r, number(l, x, 0));
}

/* x / 0 = 0 and MIN / -1 = MIN: such divisors become 1 and the result is chosen. x rem 1 = 0 is right for both. */
INT(divide) {
    ls_kb *k = &l->kb;
    bool is_signed = ls_dtype_is_signed_int(x->t);
    int64_t c;
    bool known = ls_legal_const(l, x->b, &c);
    ls_wide most = (ls_wide)1 << 64;
    bool above =
        known ? c != 0 && (!is_signed || c > 0) : x->old_b >= 0 && ls_legal_within(l, x->old_b, 1, most);
    bool below = known ? is_signed && c < -1 : x->old_b >= 0 && ls_legal_within(l, x->old_b, -most, -2);
    if (above || below) {
        return int_cut(l, op, x);
    }
    int_args y = *x;
    ls_val zero = number(l, x, 0), none = EQ(x->b, zero), minus = LS_VAL_NONE, bad = none;
    if (is_signed) {
        minus = EQ(x->b, number(l, x, -1));
        bad = OR(none, minus);
    }
    y.b = SELECT(bad, number(l, x, 1), x->b);
    ls_val r = int_cut(l, op, &y);
    if (op == LS_K_REM) {
        return r;
    }
    if (is_signed) {
        r = SELECT(minus, ls_legal_wrap(l, x->t, ls_kb_neg(k, x->a)), r);
    }
    return SELECT(none, zero, r);
}

static const int_fn ints[LS_K_COUNT] = {
    [LS_K_ADD] = int_cut,           [LS_K_SUB] = int_cut,   [LS_K_MUL] = int_cut,   [LS_K_DIV] = int_divide,
    [LS_K_REM] = int_divide,        [LS_K_NEG] = int_cut,   [LS_K_ABS] = int_abs,   [LS_K_MIN] = int_plain,
    [LS_K_MAX] = int_plain,         [LS_K_AND] = int_plain, [LS_K_OR] = int_plain,  [LS_K_XOR] = int_plain,
    [LS_K_NOT] = int_cut,           [LS_K_SHL] = int_shift, [LS_K_SHR] = int_shift, [LS_K_UMULHI] = int_plain,
    [LS_K_EQ] = int_plain,          [LS_K_NE] = int_plain,  [LS_K_LT] = int_plain,  [LS_K_LE] = int_plain,
    [LS_K_POPCOUNT] = int_popcount,
};

ls_val ls_legal_int(ls_legal *l, const ls_ins *ins, ls_dtype t, ls_val a, ls_val b, ls_val old) {
    if (!ints[ins->op]) {
        ls_legal_refuse(l, "no such instruction on integers");
        return LS_VAL_NONE;
    }
    int_args x = {t, ls_legal_type(l, a), a, b,
                  old >= 0 && ls_kops[ins->op].sources > 1 ? ins->src[1] : LS_VAL_NONE};
    return ints[ins->op](l, (ls_kop)ins->op, &x);
}
