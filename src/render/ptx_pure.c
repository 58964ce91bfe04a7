/* PTX of pure instructions, lane by lane. Floats round by .rn and are never fused; with LS_KF_FAST the rounding is left out of
 * add, sub and mul, and the assembler fuses. Division of integers by constants multiplies (Warren, Hacker's Delight,
 * chapter 10): the assembler does not see to that. */
#include "base/half.h"
#include "render/ptx.h"

static bool is_float(ls_dtype t) {
    return ls_dtype_is_float(t);
}

static const char *bits_type(ls_dtype t) {
    static const char *const types[] = {"pred", "b16", "b32", "b64"};
    return types[ls_ptx_file_of(t)];
}

static void not_legal(ls_ptx *p, ls_kop op, ls_dtype dtype) {
    ls_ptx_fail(p, LS_ERR_UNSUPPORTED, ls_kops[op].name, ls_dtype_name(dtype));
}

/* ---- integer division by constants ---- */

typedef struct magic {
    uint64_t multiplier;
    int shift;
    bool add; /* the multiplier has one bit more than the word */
} magic;

static magic magic_signed(int width, uint64_t d) {
    uint64_t top = (uint64_t)1 << (width - 1), limit = top - 1 - top % d;
    uint64_t q1 = top / limit, r1 = top % limit, q2 = top / d, r2 = top % d, delta;
    int power = width - 1;
    do {
        power++;
        q1 = 2 * q1 + (r1 >= limit - r1);
        r1 = r1 >= limit - r1 ? r1 - (limit - r1) : 2 * r1;
        q2 = 2 * q2 + (r2 >= d - r2);
        r2 = r2 >= d - r2 ? r2 - (d - r2) : 2 * r2;
        delta = d - r2;
    } while (q1 < delta || (q1 == delta && r1 == 0));
    return (magic){q2 + 1, power - width, q2 + 1 >= top};
}

static magic magic_unsigned(int width, uint64_t d) {
    uint64_t top = (uint64_t)1 << (width - 1), all = top | (top - 1), limit = all - ((0 - d) & all) % d;
    uint64_t q1 = top / limit, r1 = top % limit, q2 = (top - 1) / d, r2 = (top - 1) % d, delta;
    int power = width - 1;
    bool add = false;
    do {
        power++;
        bool more = r1 >= limit - r1;
        q1 = 2 * q1 + more;
        r1 = more ? r1 - (limit - r1) : 2 * r1;
        more = r2 + 1 >= d - r2;
        add = add || q2 >= top - more;
        q2 = (2 * q2 + more) & all;
        r2 = more ? r2 + 1 - (d - r2) : 2 * r2 + 1;
        delta = d - 1 - r2;
    } while (power < 2 * width && (q1 < delta || (q1 == delta && r1 == 0)));
    return (magic){(q2 + 1) & all, power - width, add};
}

/* A word's bits as a constant of its type (kept extended). */
static ls_ptx_op word(ls_dtype t, uint64_t bits) {
    return ls_ptx_const(t, ls_kir_wrap(t, bits));
}

enum { NATURAL = 1 << 30 }; /* beside LS_KF_FAST: the first operand is never negative */

static void divide_power(ls_ptx *p, ls_dtype t, bool natural, ls_ptx_op dst, ls_ptx_op a, int k) {
    int width = ls_dtype_bits(t);
    const char *shr_unsigned = width == 32 ? "shr.u32" : "shr.u64";
    if (natural) {
        ls_ptx_2(p, shr_unsigned, dst, a, ls_ptx_const(LS_I32, (uint64_t)k));
        return;
    }
    const char *shr = width == 32 ? "shr.s32" : "shr.s64"; /* towards zero: negative numbers first gain 2^k - 1 */
    ls_ptx_op bias = ls_ptx_new(p, ls_ptx_file_of(t));
    ls_ptx_2(p, shr, bias, a, ls_ptx_const(LS_I32, (uint64_t)(width - 1)));
    ls_ptx_2(p, shr_unsigned, bias, bias, ls_ptx_const(LS_I32, (uint64_t)(width - k)));
    ls_ptx_2(p, ls_ptx_opcode(p, "add", ls_ptx_type(t)), bias, a, bias);
    ls_ptx_2(p, shr, dst, bias, ls_ptx_const(LS_I32, (uint64_t)k));
}

static void divide_magic(ls_ptx *p, ls_dtype t, bool natural, ls_ptx_op dst, ls_ptx_op a, uint64_t d) {
    int width = ls_dtype_bits(t);
    bool is_signed = ls_dtype_is_signed_int(t);
    const char *type = ls_ptx_type(t), *shr_unsigned = width == 32 ? "shr.u32" : "shr.u64";
    magic m = is_signed ? magic_signed(width, d) : magic_unsigned(width, d);
    ls_ptx_op high = ls_ptx_new(p, ls_ptx_file_of(t)), rest = ls_ptx_new(p, ls_ptx_file_of(t));
    if (is_signed && natural) { /* the multiplier that is right for half the words, taken as unsigned */
        ls_ptx_2(p, width == 32 ? "mul.hi.u32" : "mul.hi.u64", high, a, word(t, m.multiplier));
        ls_ptx_2(p, shr_unsigned, dst, high, ls_ptx_const(LS_I32, (uint64_t)m.shift));
        return;
    }
    ls_ptx_2(p, ls_ptx_opcode(p, "mul.hi", type), high, a, word(t, m.multiplier));
    if (is_signed) {
        if (m.add) {
            ls_ptx_2(p, ls_ptx_opcode(p, "add", type), high, high, a);
        }
        if (m.shift) {
            ls_ptx_2(p, ls_ptx_opcode(p, "shr", type), high, high, ls_ptx_const(LS_I32, (uint64_t)m.shift));
        }
        ls_ptx_2(p, shr_unsigned, rest, a, ls_ptx_const(LS_I32, (uint64_t)(width - 1)));
        ls_ptx_2(p, ls_ptx_opcode(p, "add", type), dst, high, rest);
    } else if (m.add) {
        ls_ptx_2(p, ls_ptx_opcode(p, "sub", type), rest, a, high);
        ls_ptx_2(p, shr_unsigned, rest, rest, ls_ptx_const(LS_I32, 1));
        ls_ptx_2(p, ls_ptx_opcode(p, "add", type), rest, rest, high);
        ls_ptx_2(p, shr_unsigned, dst, rest, ls_ptx_const(LS_I32, (uint64_t)(m.shift - 1)));
    } else {
        ls_ptx_2(p, shr_unsigned, dst, high, ls_ptx_const(LS_I32, (uint64_t)m.shift));
    }
}

static bool is_natural(ls_ptx *p, ls_val v) {
    p->ranges = p->ranges ? p->ranges : ls_ranges_create(p->arena.heap, p->kernel); /* without them nothing is known */
    return p->ranges && ls_ranges_of(p->ranges, v).lo >= 0 && !ls_ranges_failed(p->ranges);
}

/* Quotient or remainder by a constant above 1; false when it is none. */
static bool divide_constant(ls_ptx *p, ls_kop op, ls_dtype t, uint32_t flags, ls_ptx_op dst, ls_ptx_op a, ls_ptx_op b) {
    uint64_t d = b.bits;
    bool natural = !ls_dtype_is_signed_int(t) || flags & NATURAL;
    if (b.file != LS_PTX_CONST || a.file == LS_PTX_CONST || d < 2 || (ls_dtype_is_signed_int(t) && (int64_t)d < 0)) {
        return false;
    }
    bool power = (d & (d - 1)) == 0;
    if (op == LS_K_REM && power && natural) {
        ls_ptx_2(p, ls_ptx_opcode(p, "and", bits_type(t)), dst, a, word(t, d - 1));
        return true;
    }
    ls_ptx_op quotient = op == LS_K_DIV ? dst : ls_ptx_new(p, ls_ptx_file_of(t));
    if (power) {
        int k = 0;
        while (d >> k != 1) {
            k++;
        }
        divide_power(p, t, natural, quotient, a, k);
    } else {
        divide_magic(p, t, natural, quotient, a, d);
    }
    if (op == LS_K_REM) { /* a - quotient * d */
        ls_ptx_3(p, ls_ptx_opcode(p, "mad.lo", ls_dtype_bits(t) == 32 ? "s32" : "s64"), dst, quotient,
                 word(ls_dtype_bits(t) == 32 ? LS_I32 : LS_I64, 0 - d), a);
    }
    return true;
}

/* ---- two operands ---- */

static void min_max(ls_ptx *p, ls_kop op, ls_dtype t, ls_ptx_op dst, ls_ptx_op a, ls_ptx_op b) {
    const char *name = op == LS_K_MIN ? "min" : "max";
    if (!is_float(t)) {
        ls_ptx_2(p, ls_ptx_opcode(p, name, ls_ptx_type(t)), dst, a, b);
    } else if (t == LS_F32 && p->options.sm >= 80) {
        ls_ptx_2(p, op == LS_K_MIN ? "min.NaN.f32" : "max.NaN.f32", dst, a, b);
    } else { /* these give the other operand of a NaN */
        ls_ptx_op unordered = ls_ptx_new(p, LS_PTX_PRED), least = ls_ptx_new(p, ls_ptx_file_of(t));
        const char *type = ls_ptx_type(t);
        a = ls_ptx_reg(p, a, t);
        ls_ptx_2(p, ls_ptx_opcode(p, name, type), least, a, b);
        ls_ptx_2(p, ls_ptx_opcode(p, "setp.nan", type), unordered, a, b);
        ls_ptx_3(p, ls_ptx_opcode(p, "selp", type), dst, ls_ptx_const(t, t == LS_F64 ? LS_NAN_F64 : LS_NAN_F32), least, unordered);
    }
}

static void arithmetic(ls_ptx *p, ls_kop op, ls_dtype t, uint32_t flags, ls_ptx_op dst, ls_ptx_op a, ls_ptx_op b) {
    const char *type = ls_ptx_type(t);
    bool fast = flags & LS_KF_FAST;
    static const char *const names[LS_K_COUNT][3] = {/* of integers, of floats, of fast floats */
                                                      [LS_K_ADD] = {"add", "add.rn", "add"},
                                                      [LS_K_SUB] = {"sub", "sub.rn", "sub"},
                                                      [LS_K_MUL] = {"mul.lo", "mul.rn", "mul"},
                                                      [LS_K_DIV] = {"div", "div.rn", "div.rn"},
                                                      [LS_K_REM] = {"rem", NULL, NULL}};
    const char *name = names[op][is_float(t) ? 1 + fast : 0];
    if (ls_ptx_file_of(t) < LS_PTX_32 || !name) {
        not_legal(p, op, t);
    } else if (is_float(t) || (op != LS_K_DIV && op != LS_K_REM) || !divide_constant(p, op, t, flags, dst, a, b)) {
        ls_ptx_2(p, ls_ptx_opcode(p, name, type), dst, a, b);
    }
}

static void shift(ls_ptx *p, ls_kop op, ls_dtype t, ls_ptx_op dst, ls_ptx_op a, ls_ptx_op b) {
    if (ls_dtype_bits(t) == 64 && b.file != LS_PTX_CONST) { /* amounts are words */
        ls_ptx_op amount = ls_ptx_new(p, LS_PTX_32);
        ls_ptx_1(p, "cvt.u32.u64", amount, b);
        b = amount;
    } else if (b.file == LS_PTX_CONST) {
        b = ls_ptx_const(LS_I32, b.bits);
    }
    ls_ptx_2(p, op == LS_K_SHL ? ls_ptx_opcode(p, "shl", bits_type(t)) : ls_ptx_opcode(p, "shr", ls_ptx_type(t)), dst, a, b);
}

void ls_ptx_combine(ls_ptx *p, ls_kop op, ls_dtype t, uint32_t flags, ls_ptx_op dst, ls_ptx_op a, ls_ptx_op b) {
    switch (op) {
    case LS_K_MIN:
    case LS_K_MAX:
        min_max(p, op, t, dst, a, b);
        break;
    case LS_K_AND:
    case LS_K_OR:
    case LS_K_XOR:
        ls_ptx_2(p, ls_ptx_opcode(p, ls_kops[op].name, bits_type(t)), dst, a, b);
        break;
    case LS_K_SHL:
    case LS_K_SHR:
        shift(p, op, t, dst, a, b);
        break;
    case LS_K_UMULHI:
        ls_ptx_2(p, ls_ptx_opcode(p, "mul.hi", ls_ptx_type(t)), dst, a, b);
        break;
    default:
        arithmetic(p, op, t, flags, dst, a, b);
    }
}

/* ---- comparisons ---- */

static void compare_bools(ls_ptx *p, ls_kop op, ls_ptx_op dst, ls_ptx_op a, ls_ptx_op b) {
    ls_ptx_op left = ls_ptx_new(p, LS_PTX_PRED);
    switch (op) {
    case LS_K_NE:
        ls_ptx_2(p, "xor.pred", dst, a, b);
        break;
    case LS_K_EQ:
        ls_ptx_2(p, "xor.pred", left, a, b);
        ls_ptx_1(p, "not.pred", dst, left);
        break;
    default: /* false below true */
        ls_ptx_1(p, "not.pred", left, a);
        ls_ptx_2(p, op == LS_K_LT ? "and.pred" : "or.pred", dst, left, b);
    }
}

static void compare(ls_ptx *p, ls_kop op, ls_dtype t, ls_ptx_op dst, ls_ptx_op a, ls_ptx_op b) {
    const char *name = op == LS_K_EQ   ? "setp.eq"
                       : op == LS_K_NE ? (is_float(t) ? "setp.neu" : "setp.ne")
                       : op == LS_K_LT ? "setp.lt"
                                       : "setp.le";
    if (t == LS_BOOL) {
        compare_bools(p, op, dst, a, b);
    } else if (ls_ptx_file_of(t) == LS_PTX_16) {
        not_legal(p, op, t);
    } else {
        ls_ptx_2(p, ls_ptx_opcode(p, name, ls_ptx_type(t)), dst, ls_ptx_reg(p, a, t), b);
    }
}

static void choose(ls_ptx *p, ls_dtype t, ls_ptx_op dst, ls_ptx_op condition, ls_ptx_op a, ls_ptx_op b) {
    if (t != LS_BOOL) {
        ls_ptx_3(p, ls_ptx_opcode(p, "selp", ls_ptx_type(t)), dst, a, b, condition);
        return;
    }
    ls_ptx_op yes = ls_ptx_new(p, LS_PTX_PRED), no = ls_ptx_new(p, LS_PTX_PRED);
    ls_ptx_2(p, "and.pred", yes, condition, a);
    ls_ptx_1(p, "not.pred", no, condition);
    ls_ptx_2(p, "and.pred", no, no, b);
    ls_ptx_2(p, "or.pred", dst, yes, no);
}

/* ---- casts ---- */

static const char *cast_type(ls_dtype t) {
    return t == LS_F16 ? "f16" : t == LS_BF16 ? "bf16" : ls_ptx_memory(t);
}

/* bf16 is the upper half of an f32. */
static void cast_from_bf16(ls_ptx *p, ls_ptx_op dst, ls_ptx_op a) {
    ls_ptx_op wide = ls_ptx_new(p, LS_PTX_32);
    ls_ptx_1(p, "cvt.u32.u16", wide, a);
    ls_ptx_2(p, "shl.b32", dst, wide, ls_ptx_const(LS_I32, 16));
}

static void cast_numbers(ls_ptx *p, ls_dtype to, ls_dtype from, ls_ptx_op dst, ls_ptx_op a) {
    bool narrows = is_float(from) && ls_dtype_bits(to) < ls_dtype_bits(from);
    const char *rounding = is_float(to) ? (narrows || !is_float(from) ? ".rn" : "") : is_float(from) ? ".rzi" : "";
    bool halves = ls_ptx_file_of(to) == LS_PTX_16 && is_float(to), from_halves = ls_ptx_file_of(from) == LS_PTX_16;
    if ((halves && from != LS_F32) || (from_halves && is_float(from) && to != LS_F32)) {
        not_legal(p, LS_K_CAST, to); /* two roundings, or types that cvt does not pair everywhere */
    } else if (from == LS_BF16) {
        cast_from_bf16(p, dst, a);
    } else if (!is_float(to) && !is_float(from) && ls_dtype_bits(to) == ls_dtype_bits(from) && ls_dtype_bits(to) >= 32) {
        ls_ptx_move(p, to, dst, a);
    } else {
        ls_ptx_line(p, "cvt%s.%s.%s %s, %s;", rounding, cast_type(to), cast_type(from), ls_ptx_text(p, dst), ls_ptx_text(p, a));
    }
}

static void cast(ls_ptx *p, ls_dtype to, ls_dtype from, ls_ptx_op dst, ls_ptx_op a) {
    a = ls_ptx_reg(p, a, from);
    if (to == from) {
        ls_ptx_move(p, to, dst, a);
    } else if (to == LS_BOOL) {
        const char *type = ls_ptx_file_of(from) == LS_PTX_16 ? "s16" : ls_ptx_type(from);
        if (ls_ptx_file_of(from) == LS_PTX_16 && is_float(from)) {
            not_legal(p, LS_K_CAST, from);
            return;
        }
        ls_ptx_2(p, ls_ptx_opcode(p, is_float(from) ? "setp.neu" : "setp.ne", type), dst, a, ls_ptx_const(from, 0));
    } else if (from == LS_BOOL) {
        uint64_t one = to == LS_F32    ? 0x3f800000
                       : to == LS_F64  ? 0x3ff0000000000000
                       : to == LS_F16  ? 0x3c00
                       : to == LS_BF16 ? 0x3f80
                                       : 1;
        ls_ptx_3(p, ls_ptx_opcode(p, "selp", ls_ptx_type(to)), dst, ls_ptx_const(to, one), ls_ptx_const(to, 0), a);
    } else {
        cast_numbers(p, to, from, dst, a);
    }
}

/* ---- one operand ---- */

static void unary(ls_ptx *p, ls_kop op, ls_dtype t, ls_ptx_op dst, ls_ptx_op a) {
    static const char *const roundings[LS_K_COUNT] = {
        [LS_K_FLOOR] = "cvt.rmi", [LS_K_CEIL] = "cvt.rpi", [LS_K_TRUNC] = "cvt.rzi", [LS_K_RINT] = "cvt.rni"};
    const char *type = ls_ptx_type(t);
    if (op == LS_K_NOT) {
        ls_ptx_1(p, ls_ptx_opcode(p, "not", bits_type(t)), dst, a);
    } else if (ls_ptx_file_of(t) < LS_PTX_32) {
        not_legal(p, op, t);
    } else if (op == LS_K_NEG || op == LS_K_ABS) {
        const char *signed_type = is_float(t) ? type : ls_dtype_bits(t) == 32 ? "s32" : "s64";
        if (op == LS_K_ABS && !is_float(t) && !ls_dtype_is_signed_int(t)) {
            ls_ptx_move(p, t, dst, a);
        } else {
            ls_ptx_1(p, ls_ptx_opcode(p, ls_kops[op].name, signed_type), dst, ls_ptx_reg(p, a, t));
        }
    } else if (op == LS_K_SQRT) {
        ls_ptx_1(p, ls_ptx_opcode(p, "sqrt.rn", type), dst, a);
    } else if (op == LS_K_POPCOUNT) {
        ls_ptx_op bits = ls_dtype_bits(t) == 64 ? ls_ptx_new(p, LS_PTX_32) : dst;
        ls_ptx_1(p, ls_ptx_opcode(p, "popc", bits_type(t)), bits, ls_ptx_reg(p, a, t));
        if (ls_dtype_bits(t) == 64) {
            ls_ptx_1(p, "cvt.u64.u32", dst, bits);
        }
    } else if (op == LS_K_CANON) {
        ls_ptx_op nan = ls_ptx_new(p, LS_PTX_PRED);
        a = ls_ptx_reg(p, a, t);
        ls_ptx_2(p, ls_ptx_opcode(p, "setp.nan", type), nan, a, a);
        ls_ptx_3(p, ls_ptx_opcode(p, "selp", type), dst, ls_ptx_const(t, t == LS_F64 ? LS_NAN_F64 : LS_NAN_F32), a, nan);
    } else {
        ls_ptx_line(p, "%s.%s.%s %s, %s;", roundings[op], type, type, ls_ptx_text(p, dst), ls_ptx_text(p, a));
    }
}

/* ---- lanes ---- */

/* Renamings: no instruction. Constants keep the type that they are written as. */
static bool rename_lanes(ls_ptx *p, ls_val at) {
    const ls_ins *ins = &p->kernel->body[at];
    const ls_ptx_value *a = &p->values[ins->src[0]];
    ls_ptx_value *out = &p->values[at];
    for (int l = 0; l < out->n; l++) {
        switch (ins->op) {
        case LS_K_SPLAT:
            out->ops[l] = a->ops[0];
            break;
        case LS_K_JOIN:
            out->ops[l] = l < a->n ? a->ops[l] : p->values[ins->src[1]].ops[l - a->n];
            break;
        case LS_K_EXTRACT:
            out->ops[l] = a->ops[ins->arg];
            break;
        case LS_K_INSERT:
            out->ops[l] = l == ins->arg ? p->values[ins->src[1]].ops[0] : a->ops[l];
            break;
        case LS_K_BITCAST:
            out->ops[l] = a->ops[l];
            if (out->ops[l].file == LS_PTX_CONST) {
                out->ops[l] = word((ls_dtype)ins->dtype, a->ops[l].bits);
            }
            break;
        default:
            return false;
        }
    }
    return true;
}

void ls_ptx_pure(ls_ptx *p, ls_val at) {
    const ls_ins *ins = &p->kernel->body[at];
    if (rename_lanes(p, at)) {
        return;
    }
    ls_kop op = (ls_kop)ins->op;
    ls_dtype t = (ls_dtype)ins->dtype, from = (ls_dtype)p->kernel->body[ins->src[0]].dtype;
    for (int l = 0; l < ins->lanes; l++) {
        ls_ptx_op s[3] = {{0}}, dst = ls_ptx_new(p, ls_ptx_file_of(t));
        for (int i = 0; i < ls_kops[op].sources; i++) {
            const ls_ptx_value *v = &p->values[ins->src[i]];
            s[i] = v->ops[l < v->n ? l : 0];
        }
        p->values[at].ops[l] = dst;
        switch (op) {
        case LS_K_EQ:
        case LS_K_NE:
        case LS_K_LT:
        case LS_K_LE:
            compare(p, op, from, dst, s[0], s[1]);
            break;
        case LS_K_SELECT:
            choose(p, t, dst, s[0], s[1], s[2]);
            break;
        case LS_K_CAST:
            cast(p, t, from, dst, s[0]);
            break;
        case LS_K_FMA:
            if (ls_ptx_file_of(t) < LS_PTX_32) {
                not_legal(p, op, t);
            } else {
                ls_ptx_3(p, ls_ptx_opcode(p, "fma.rn", ls_ptx_type(t)), dst, s[0], s[1], s[2]);
            }
            break;
        default:
            if (ls_kops[op].sources == 1) {
                unary(p, op, t, dst, s[0]);
            } else {
                bool divides = op == LS_K_DIV || op == LS_K_REM;
                uint32_t natural = divides && ls_dtype_is_signed_int(t) && is_natural(p, ins->src[0]) ? NATURAL : 0;
                ls_ptx_combine(p, op, t, ins->flags | natural, dst, s[0], s[1]);
            }
        }
    }
}
