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

/* The instruction that made a value, whatever its bits were called since; NULL: none of this kernel's. */
static const ls_ins *maker_of(const ls_legal *l, ls_val v) {
    const ls_ins *ins = v >= 0 && v < l->kb.kernel.n_body ? &l->kb.kernel.body[v] : NULL;
    return ins && ins->op == LS_K_BITCAST ? &l->kb.kernel.body[ins->src[0]] : ins;
}

/* A constant by which a formula leaves an operation out: zero, or a subnormal, which may count as zero (Dawn on NVIDIA's driver
 * gives 2^-132 for 0 * 2^-132: "zero", bit for bit); in divisions any. Results are hidden, so formulas over several
 * operations find none. */
static bool leads_astray(const ls_legal *l, ls_kop op, ls_val v) {
    const ls_ins *ins = maker_of(l, v);
    return ins && ins->op == LS_K_CONST && (op == LS_K_DIV || (ins->arg & 0x7f800000) == 0);
}

bool ls_legal_is_arithmetic(ls_kop op) {
    return op == LS_K_ADD || op == LS_K_SUB || op == LS_K_MUL || op == LS_K_FMA || op == LS_K_DIV ||
           op == LS_K_SQRT;
}

ls_val ls_legal_positive(ls_legal *l, ls_val f) {
    ls_kb *k = &l->kb;
    return ls_legal_has(l, LS_KT_ORDER32) ? ls_legal_bits(l, f) : AND(ls_legal_bits(l, f), U(0x7fffffff));
}

ls_val ls_legal_hidden(ls_legal *l, ls_val v) {
    return ls_legal_has(l, LS_KT_ORDER32) ? v : through_zero(l, v);
}

ls_val ls_legal_opaque(ls_legal *l, ls_dtype t, ls_val v) {
    bool shown = ls_legal_has(l, LS_KT_ORDER32) || l->zero_param < 0 || t == LS_F64 || !ls_dtype_is_float(t);
    return shown || !leads_astray(l, LS_K_ADD, v) ? v : through_zero(l, v);
}

static bool keeps_subnormals(const ls_legal *l, uint32_t flags) {
    return (flags & LS_KF_FAST) || l->exact_small || ls_legal_has(l, LS_KT_SUBNORMAL32);
}

static bool is_constant(const ls_legal *l, ls_val v) {
    const ls_ins *ins = maker_of(l, v);
    return ins && ins->op == LS_K_CONST;
}

/* By through_zero already: twice would show it again. */
static bool is_hidden(const ls_legal *l, ls_val v) {
    const ls_ins *ins = maker_of(l, v);
    const ls_ins *with = ins && ins->op == LS_K_XOR ? &l->kb.kernel.body[ins->src[1]] : NULL;
    return with && with->op == LS_K_PARAM && (int)with->arg == l->zero_param;
}

/* A constant so large that the other operand of a sum may be flushed. */
static bool large_constant(const ls_legal *l, ls_val v) {
    const ls_ins *ins = maker_of(l, v);
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

/* An i32 in the order of the floats, -0 at +0. */
static ls_val ordered(ls_legal *l, ls_val bits) {
    ls_kb *k = &l->kb;
    ls_val negative = SHR(AS_I(bits), I(31));
    return SUB(XOR(AND(AS_I(bits), I(0x7fffffff)), negative), negative);
}

/* The order of MIN and MAX: -0 below +0. As an i32 it is the bits, all but the sign turned over in negative ones; less an
 * offset, a u32 that begins with -inf, so that each NaN is the largest (MAX), or with the first NaN above inf, so that each is
 * the least (MIN): NaN propagates. */
static uint32_t key_offset(ls_kop op) {
    return op == LS_K_MAX ? 0x807fffffu : 0x7f800001u;
}

static ls_val turned(ls_legal *l, ls_val bits) {
    ls_kb *k = &l->kb;
    return XOR(bits, AS_U(AND(SHR(AS_I(bits), I(31)), I(0x7fffffff))));
}

/* The key of a result of the same instruction is known. */
static ls_val key_of(ls_legal *l, ls_kop op, ls_val bits) {
    ls_kb *k = &l->kb;
    for (int i = 0; i < LS_LEGAL_KEYS; i++) {
        if (l->keys[i].op == op && l->keys[i].value == bits) {
            return l->keys[i].key;
        }
    }
    return SUB(turned(l, bits), U(key_offset(op)));
}

/* Whether x, by its bits, lies above (or below) the constant c in that order, and is no NaN. c may be the one next to inf. */
static ls_val beyond(ls_legal *l, ls_val x, uint32_t c, bool above) {
    ls_kb *k = &l->kb;
    bool negative = c >> 31;
    if (above != negative) { /* up to inf, or down to -inf: one stretch of bits */
        return LT(SUB(x, U(c + 1)), U((above ? 0x7f800000u : 0xff800000u) - c));
    }
    return above ? AND(LT(x, U(c)), LE(AS_I(x), I(0x7f800000)))
                 : AND(LT(AS_I(x), I((int32_t)c)), LE(x, U(0xff800000u)));
}

/* The bits of a constant that is no NaN. */
static bool known_number(const ls_legal *l, ls_val v, uint32_t *out_bits) {
    int64_t c;
    bool known = ls_legal_const(l, v, &c);
    *out_bits = known ? (uint32_t)c : 0;
    return known && (*out_bits & 0x7fffffff) <= 0x7f800000;
}

FLOAT(least) {
    ls_kb *k = &l->kb;
    uint32_t c;
    if (by_device(l, flags)) {
        return float_own(l, op, s, flags);
    }
    ls_val a = ls_legal_bits(l, s[0]), b = ls_legal_bits(l, s[1]);
    if (known_number(l, b, &c) || known_number(l, a, &c)) {
        ls_val x = known_number(l, b, &c) ? a : b;
        (void)known_number(l, x == a ? b : a, &c);
        return SELECT(beyond(l, x, c, op == LS_K_MIN), U(c), x);
    }
    ls_val x = key_of(l, op, a), y = key_of(l, op, b), key = op == LS_K_MIN ? MIN(x, y) : MAX(x, y);
    ls_val value = turned(l, ADD(key, U(key_offset(op))));
    l->keys[l->next_key++ % LS_LEGAL_KEYS] = (ls_legal_key){op, value, key};
    return value;
}

/* x op c, or c op x where `turn`. */
static ls_val compare_number(ls_legal *l, ls_kop op, ls_val x, uint32_t c, bool turn) {
    ls_kb *k = &l->kb;
    bool zero = (c & 0x7fffffff) == 0, with = op == LS_K_LE;
    if (op == LS_K_EQ || op == LS_K_NE) {
        ls_val same = zero ? EQ(AND(x, U(0x7fffffff)), U(0)) : EQ(x, U(c));
        return op == LS_K_EQ ? same : NOT(same);
    }
    if (zero) { /* from both zeros on, or past both */
        c = turn == with ? 0x80000000u : 0;
    }
    if (with) { /* from the number before, or up to the one after */
        c = (c >> 31) != turn ? c - 1 : c + 1;
    }
    return beyond(l, x, c, turn);
}

FLOAT(compare) {
    ls_kb *k = &l->kb;
    uint32_t c;
    if (by_device(l, flags)) {
        return native(l, op, s, flags);
    }
    ls_val a = ls_legal_bits(l, s[0]), b = ls_legal_bits(l, s[1]), mag = U(0x7fffffff);
    if (known_number(l, b, &c)) {
        return compare_number(l, op, a, c, false);
    }
    if (known_number(l, a, &c)) {
        return compare_number(l, op, b, c, true);
    }
    ls_val numbers = LE(MAX(AND(a, mag), AND(b, mag)), U(0x7f800000));
    a = ordered(l, a);
    b = ordered(l, b);
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

/* A sum with a constant zero, or a product by one, on bits: a device that knows enough of a hidden zero (Dawn on NVIDIA's driver, beside an
 * exponential) leaves it out all the same. LS_VAL_NONE: there is none. */
static ls_val by_zero(ls_legal *l, ls_kop op, const ls_val s[3]) {
    ls_kb *k = &l->kb;
    for (int i = 0; i < 2 && (op == LS_K_ADD || op == LS_K_SUB || op == LS_K_MUL); i++) {
        uint32_t c;
        if (!known_number(l, ls_legal_bits(l, s[i]), &c) || (c & 0x7fffffff) != 0) {
            continue;
        }
        ls_val x = ls_legal_bits(l, s[1 - i]), sign = U(0x80000000);
        if (op == LS_K_MUL) {
            ls_val zero = XOR(AND(x, sign), U(c));
            return ls_legal_held(l, SELECT(LT(AND(x, U(0x7fffffff)), U(0x7f800000)), zero, U(0x7fc00000)));
        }
        bool negative = (c >> 31) != (op == LS_K_SUB && i == 1); /* the zero that is added */
        x = op == LS_K_SUB && i == 0 ? XOR(x, sign) : x;
        return ls_legal_held(l, negative ? x : SELECT(EQ(x, sign), U(0), x));
    }
    return LS_VAL_NONE;
}

/* Whether the device can know nothing of a value: it was loaded, or hidden, each time where it is a variable. `self`: the variable whose
 * values are looked at. */
static bool is_opaque(const ls_legal *l, ls_val v, ls_val self, int depth) {
    const ls_ins *body = l->kb.kernel.body, *ins = maker_of(l, v);
    if (!ins || depth == 0) {
        return false;
    }
    if (is_hidden(l, v)) {
        return true;
    }
    switch (ins->op) {
    case LS_K_LOAD:
        return true;
    case LS_K_CONST:
        return (ins->arg & 0x7fffffff) != 0;
    case LS_K_EXTRACT:
        return is_opaque(l, ins->src[0], self, depth - 1);
    case LS_K_SELECT:
        return is_opaque(l, ins->src[1], self, depth - 1) && is_opaque(l, ins->src[2], self, depth - 1);
    case LS_K_GET:
        for (ls_val at = l->kb.kernel.n_body - 1; at > ins->src[0] && ins->src[0] != self; at--) {
            if (body[at].op == LS_K_SET && body[at].src[0] == ins->src[0] && !is_opaque(l, body[at].src[1], ins->src[0], depth - 1)) {
                return false;
            }
        }
        return ins->src[0] == self || is_opaque(l, body[ins->src[0]].src[0], self, depth - 1);
    default:
        return false;
    }
}

/* The result with the contract's sign if it is a zero. For a device without ORDER32 a zero has any sign, as an operand too: (-a) + b becomes
 * -(a - b), and bits that turn a -0 into 0 are left out (Dawn on NVIDIA's driver). So the sign comes from the operands' bits: a sum's zero is
 * negative where both terms are, others are by the product of signs, and no other number's sign changes by that. */
static ls_val with_sign(ls_legal *l, ls_kop op, const ls_val s[3], ls_val result) {
    ls_kb *k = &l->kb;
    ls_val r = ls_legal_bits(l, result), a = ls_legal_bits(l, s[0]), sign = U(0x80000000), mag = AND(r, U(0x7fffffff));
    if (op == LS_K_ADD || op == LS_K_SUB) {
        ls_val b = ls_legal_bits(l, s[1]);
        b = op == LS_K_SUB ? XOR(b, sign) : b;
        return ls_legal_held(l, SELECT(EQ(mag, U(0)), AND(AND(a, b), sign), r));
    }
    a = ls_kops[op].sources > 1 ? XOR(a, ls_legal_bits(l, s[1])) : a;
    return ls_legal_held(l, OR(mag, AND(a, sign)));
}

ls_val ls_legal_arith32(ls_legal *l, ls_kop op, const ls_val s[3], uint32_t flags) {
    if (!floats[op]) {
        ls_legal_refuse(l, "no such instruction on floats");
        return LS_VAL_NONE;
    }
    if ((flags & LS_KF_FAST) || ls_legal_has(l, LS_KT_ORDER32)) {
        return floats[op](l, op, s, flags);
    }
    if (!ls_legal_is_arithmetic(op)) {
        bool rounds = op == LS_K_FLOOR || op == LS_K_CEIL || op == LS_K_TRUNC || op == LS_K_RINT;
        ls_val r = floats[op](l, op, s, flags);
        return rounds ? with_sign(l, op, s, r) : r;
    }
    ls_val in[3] = {s[0], s[1], s[2]}, known = by_zero(l, op, s);
    if (known != LS_VAL_NONE) {
        return known;
    }
    bool cancels = op == LS_K_SUB || op == LS_K_DIV; /* x - x and x / x of numbers loaded twice, too */
    bool opaque = true;
    for (int i = 0; i < ls_kops[op].sources; i++) {
        bool again = i > 0 && (s[i] == s[0] || (cancels && !is_constant(l, s[i]) && !is_hidden(l, s[i])));
        in[i] = again || leads_astray(l, op, s[i]) ? through_zero(l, s[i]) : s[i];
        opaque = opaque && is_opaque(l, in[i], LS_VAL_NONE, 6);
    }
    ls_val r = through_zero(l, floats[op](l, op, in, flags));
    return opaque || op == LS_K_FMA ? r : with_sign(l, op, s, r);
}
