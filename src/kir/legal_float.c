/* f32 instructions on registers: the device's own where it has the trait, else around or instead of it.
 *
 * Subnormals. A device that flushes gives wrong sums only where both operands are below 2^-95: with a larger one, a flushed
 * operand is below half of the result's last place, and a difference of two such numbers is zero or normal. It gives wrong
 * products only where its result is below 2^-100 (it took an operand, or made the result, for zero) or NaN (infinity times
 * a flushed operand). Those cases, which are rare, branch off to integers. */
#include "kir/legal_parts.h"

ls_val ls_legal_bits(ls_legal *l, ls_val f) {
    return ls_legal_bitcast(l, f, LS_U32);
}

ls_val ls_legal_float(ls_legal *l, ls_val f) {
    return ls_legal_bitcast(l, f, LS_F32);
}

ls_val ls_legal_held(ls_legal *l, ls_val f) {
    return ls_legal_bitcast(l, f, ls_legal_has(l, LS_KT_FLOAT_BITS) ? LS_F32 : LS_U32);
}

static ls_val native(ls_legal *l, ls_kop op, const ls_val s[3], uint32_t flags) {
    ls_val in[3] = {LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE};
    for (int i = 0; i < ls_kops[op].sources; i++) {
        in[i] = ls_legal_float(l, s[i]);
    }
    return ls_kb_pure(&l->kb, op, in[0], in[1], in[2], flags);
}

/* The same bits, which the device does not know to be those. */
static ls_val through_zero(ls_legal *l, ls_val v) {
    return ls_legal_held(l, ls_kb_xor(&l->kb, ls_legal_bits(l, v), ls_kb_get_param(&l->kb, l->zero_param)));
}

/* A constant by which a formula leaves an operation out: zero, or a subnormal, which may count as zero (Dawn on NVIDIA's driver
 * gives 2^-132 for 0 * 2^-132: "zero", bit for bit); in divisions any. Results are hidden, so formulas over several
 * operations find none. */
static bool leads_astray(const ls_legal *l, ls_kop op, ls_val v) {
    const ls_ins *ins = v >= 0 && v < l->kb.kernel.n_body ? &l->kb.kernel.body[v] : NULL;
    ins = ins && ins->op == LS_K_BITCAST ? &l->kb.kernel.body[ins->src[0]] : ins;
    return ins && ins->op == LS_K_CONST && (op == LS_K_DIV || (ins->arg & 0x7f800000) == 0);
}

bool ls_legal_is_arithmetic(ls_kop op) {
    return op == LS_K_ADD || op == LS_K_SUB || op == LS_K_MUL || op == LS_K_FMA || op == LS_K_DIV ||
           op == LS_K_SQRT;
}

ls_val ls_legal_opaque(ls_legal *l, ls_dtype t, ls_val v) {
    bool shown = ls_legal_has(l, LS_KT_ORDER32) || l->zero_param < 0 || t == LS_F64 || !ls_dtype_is_float(t);
    return shown || !leads_astray(l, LS_K_ADD, v) ? v : through_zero(l, v);
}

static bool keeps_subnormals(const ls_legal *l, uint32_t flags) {
    return (flags & LS_KF_FAST) || l->exact_small || ls_legal_has(l, LS_KT_SUBNORMAL32);
}

/* A constant so large that the other operand of a sum may be flushed. */
static bool large_constant(const ls_legal *l, ls_val v) {
    const ls_ins *ins = v >= 0 && v < l->kb.kernel.n_body ? &l->kb.kernel.body[v] : NULL;
    ins = ins && ins->op == LS_K_BITCAST ? &l->kb.kernel.body[ins->src[0]] : ins;
    return ins && ins->op == LS_K_CONST && (ins->arg & 0x70000000) != 0;
}

typedef ls_val (*float_fn)(ls_legal *l, ls_kop op, const ls_val s[3], uint32_t flags);
#define FLOAT(name) static ls_val float_##name(ls_legal *l, ls_kop op, const ls_val s[3], uint32_t flags)

FLOAT(own) {
    return ls_legal_held(l, native(l, op, s, flags));
}

FLOAT(sum) {
    ls_kb *k = &l->kb;
    ls_val r = float_own(l, op, s, flags);
    if (keeps_subnormals(l, flags) || large_constant(l, s[0]) || large_constant(l, s[1])) {
        return r;
    }
    ls_val a = ls_legal_bits(l, s[0]), b = ls_legal_bits(l, s[1]);
    ls_val both = AND(OR(a, b), U(0x7fffffff)); /* below 2^-95, and not two zeros */
    ls_val small = LT(SUB(both, U(1)), U(0x0fffffff)), out = ls_kb_var(k, r);
    ls_kb_if(k, small);
    b = op == LS_K_SUB ? XOR(b, U(0x80000000)) : b;
    ls_kb_set(k, out, ls_legal_held(l, ls_legal_soft_add(l, a, b)));
    ls_kb_end_if(k);
    return ls_kb_get(k, out);
}

FLOAT(mul) {
    ls_kb *k = &l->kb;
    ls_val r = native(l, op, s, flags);
    if (!(flags & LS_KF_FAST) && !l->exact_small && !ls_legal_has(l, LS_KT_UNFUSED32) &&
        ls_legal_has(l, LS_KT_ORDER32)) {
        r = through_zero(l, r);
    }
    if (keeps_subnormals(l, flags)) {
        return ls_legal_held(l, r);
    }
    ls_val mag = AND(ls_legal_bits(l, r), U(0x7fffffff)), edge = U(27u << 23);
    ls_val doubtful = NOT(LT(SUB(mag, edge), U(0x7f800001 - (27u << 23)))),
           out = ls_kb_var(k, ls_legal_held(l, r));
    ls_kb_if(k, doubtful);
    ls_val a = ls_legal_bits(l, s[0]), b = ls_legal_bits(l, s[1]);
    ls_kb_if(k, NE(MIN(AND(a, U(0x7fffffff)), AND(b, U(0x7fffffff))), U(0)));
    ls_kb_set(k, out, ls_legal_held(l, ls_legal_soft_mul(l, a, b)));
    ls_kb_end_if(k);
    ls_kb_end_if(k);
    return ls_kb_get(k, out);
}

FLOAT(fma) {
    if (!(flags & LS_KF_FAST) && !ls_legal_has(l, LS_KT_FMA32)) {
        ls_legal_refuse(l, "the device has no fma that rounds once");
    }
    return float_own(l, op, s, flags);
}

FLOAT(div) {
    if ((flags & LS_KF_FAST) || ls_legal_has(l, LS_KT_DIV32)) {
        return float_own(l, op, s, flags);
    }
    return ls_legal_held(l, ls_legal_soft_div(l, ls_legal_bits(l, s[0]), ls_legal_bits(l, s[1])));
}

FLOAT(sqrt) {
    if ((flags & LS_KF_FAST) || ls_legal_has(l, LS_KT_SQRT32)) {
        return float_own(l, op, s, flags);
    }
    return ls_legal_held(l, ls_legal_soft_sqrt(l, ls_legal_bits(l, s[0])));
}

FLOAT(whole) {
    if ((flags & LS_KF_FAST) || ls_legal_has(l, LS_KT_ROUND32)) {
        return float_own(l, op, s, flags);
    }
    return ls_legal_held(l, ls_legal_soft_whole(l, op, ls_legal_bits(l, s[0])));
}

/* ---- what only looks at bits ---- */

static bool by_device(const ls_legal *l, uint32_t flags) {
    return (flags & LS_KF_FAST) || ls_legal_has(l, LS_KT_FLOAT_BITS);
}

FLOAT(sign) {
    ls_kb *k = &l->kb;
    if (by_device(l, flags)) {
        return float_own(l, op, s, flags);
    }
    ls_val bits = ls_legal_bits(l, s[0]);
    return op == LS_K_NEG ? XOR(bits, U(0x80000000)) : AND(bits, U(0x7fffffff));
}

FLOAT(canon) {
    ls_kb *k = &l->kb;
    if (by_device(l, flags)) {
        return float_own(l, op, s, flags);
    }
    ls_val bits = ls_legal_bits(l, s[0]);
    return SELECT(LT(U(0x7f800000), AND(bits, U(0x7fffffff))), U(0x7fc00000), bits);
}

/* An i32 in the order of the floats; -0 below +0, or with `one_zero` at it. */
static ls_val ordered(ls_legal *l, ls_val bits, bool one_zero) {
    ls_kb *k = &l->kb;
    ls_val negative = SHR(AS_I(bits), I(31));
    if (!one_zero) {
        return XOR(AS_I(bits), AND(negative, I(0x7fffffff)));
    }
    return SUB(XOR(AND(AS_I(bits), I(0x7fffffff)), negative), negative);
}

FLOAT(least) {
    ls_kb *k = &l->kb;
    if (by_device(l, flags)) {
        return float_own(l, op, s, flags);
    }
    ls_val a = ls_legal_bits(l, s[0]), b = ls_legal_bits(l, s[1]);
    ls_val less = LT(ordered(l, a, false), ordered(l, b, false));
    ls_val r = op == LS_K_MIN ? SELECT(less, a, b) : SELECT(less, b, a);
    ls_val inf = U(0x7f800000), mag = U(0x7fffffff);
    r = SELECT(LT(inf, AND(b, mag)), b, r);
    return SELECT(LT(inf, AND(a, mag)), a, r);
}

FLOAT(compare) {
    ls_kb *k = &l->kb;
    if (by_device(l, flags)) {
        return native(l, op, s, flags);
    }
    ls_val a = ls_legal_bits(l, s[0]), b = ls_legal_bits(l, s[1]), mag = U(0x7fffffff);
    ls_val numbers = LE(MAX(AND(a, mag), AND(b, mag)), U(0x7f800000));
    a = ordered(l, a, true);
    b = ordered(l, b, true);
    if (op == LS_K_NE) {
        return OR(NE(a, b), NOT(numbers));
    }
    return AND(ls_kb_pure(k, op, a, b, LS_VAL_NONE, 0), numbers);
}

static const float_fn floats[LS_K_COUNT] = {
    [LS_K_ADD] = float_sum,     [LS_K_SUB] = float_sum,    [LS_K_MUL] = float_mul,
    [LS_K_FMA] = float_fma,     [LS_K_DIV] = float_div,    [LS_K_SQRT] = float_sqrt,
    [LS_K_FLOOR] = float_whole, [LS_K_CEIL] = float_whole, [LS_K_TRUNC] = float_whole,
    [LS_K_RINT] = float_whole,  [LS_K_NEG] = float_sign,   [LS_K_ABS] = float_sign,
    [LS_K_CANON] = float_canon, [LS_K_MIN] = float_least,  [LS_K_MAX] = float_least,
    [LS_K_EQ] = float_compare,  [LS_K_NE] = float_compare, [LS_K_LT] = float_compare,
    [LS_K_LE] = float_compare,
};

ls_val ls_legal_arith32(ls_legal *l, ls_kop op, const ls_val s[3], uint32_t flags) {
    if (!floats[op]) {
        ls_legal_refuse(l, "no such instruction on floats");
        return LS_VAL_NONE;
    }
    if ((flags & LS_KF_FAST) || ls_legal_has(l, LS_KT_ORDER32) || !ls_legal_is_arithmetic(op)) {
        return floats[op](l, op, s, flags);
    }
    ls_val in[3] = {s[0], s[1], s[2]};
    for (int i = 0; i < ls_kops[op].sources; i++) {
        bool again = i > 0 && s[i] == s[0];
        in[i] = again || leads_astray(l, op, s[i]) ? through_zero(l, s[i]) : s[i];
    }
    return through_zero(l, floats[op](l, op, in, flags));
}
