/* Casts between all types. Floats are held as f32 or its bits; f16 and bf16 are rounded by integers where the device cannot. */
#include "kir/legal_parts.h"

#define INF 0x7f800000u

static ls_val magnitude(ls_legal *l, ls_val f) {
    ls_kb *k = &l->kb;
    return AND(ls_legal_bits(l, f), U(0x7fffffff));
}

/* ---- f16 and bf16 ---- */

static bool casts_half(const ls_legal *l, ls_dtype t) {
    return ls_legal_has(l, t == LS_F16 ? LS_KT_HALF_CAST : LS_KT_BFLOAT_CAST);
}

/* By the device's own cast, as a u32; any NaN of a NaN. */
static ls_val cast_bits(ls_legal *l, ls_dtype t, ls_val f) {
    ls_kb *k = &l->kb;
    return ls_kb_cast(k, ls_legal_bitcast(l, ls_kb_cast(k, ls_legal_float(l, f), t), LS_U16), LS_U32);
}

static ls_val half_is_nan(ls_legal *l, ls_val f, ls_val mag) {
    ls_kb *k = &l->kb;
    return ls_legal_has(l, LS_KT_FLOAT_BITS) ? NE(f, f) : LT(U(INF), mag);
}

/* Below 2^-14 the last place is 2^-24, that of numbers from 1/2 to 1: the addition of 1/2 rounds. */
ls_val ls_legal_half_bits(ls_legal *l, ls_dtype t, ls_val f) {
    ls_kb *k = &l->kb;
    ls_val mag = magnitude(l, f), sign = AND(SHR(ls_legal_bits(l, f), U(16)), U(0x8000)),
           nan = half_is_nan(l, f, mag);
    if (casts_half(l, t)) {
        return SELECT(nan, U(t == LS_F16 ? 0x7e00 : 0x7fc0), cast_bits(l, t, f));
    }
    if (t == LS_BF16) {
        ls_val up = ADD(mag, ADD(U(0x7fff), AND(SHR(mag, U(16)), U(1))));
        return SELECT(nan, U(0x7fc0), OR(SHR(up, U(16)), sign));
    }
    ls_val tiny = SUB(AS_U(ADD(AS_F(mag), ls_kb_f32(k, 0.5f))), U(0x3f000000));
    ls_val up = ADD(SUB(mag, U(112u << 23)), ADD(U(0xfff), AND(SHR(mag, U(13)), U(1))));
    ls_val whole = SELECT(LT(mag, U(0x47800000)), SHR(up, U(13)), U(0x7c00));
    ls_val h = OR(SELECT(LT(mag, U(113u << 23)), tiny, whole), sign);
    return SELECT(nan, U(0x7e00), h);
}

ls_val ls_legal_half_value(ls_legal *l, ls_dtype t, ls_val bits) {
    ls_kb *k = &l->kb;
    if (t == LS_BF16) {
        return ls_legal_held(l, SHL(bits, U(16)));
    }
    if (casts_half(l, t)) {
        ls_val h = ls_legal_bitcast(l, ls_kb_cast(k, bits, LS_U16), LS_F16);
        return ls_legal_held(l, ls_kb_cast(k, h, LS_F32));
    }
    ls_val mag = AND(bits, U(0x7fff)), sign = SHL(AND(bits, U(0x8000)), U(16));
    ls_val tiny = ls_legal_positive(l, SUB(AS_F(OR(mag, U(0x3f000000))), ls_kb_f32(k, 0.5f)));
    ls_val moved = SHL(mag, U(13));
    ls_val whole = ADD(moved, SELECT(LT(mag, U(0x7c00)), U(112u << 23), U(224u << 23)));
    return ls_legal_held(l, OR(SELECT(LT(mag, U(0x400)), tiny, whole), sign));
}

ls_val ls_legal_round_half(ls_legal *l, ls_dtype t, ls_val f) {
    ls_kb *k = &l->kb;
    if (casts_half(l, t)) {
        return t == LS_F16 ? ls_legal_held(l, ls_kb_cast(k, ls_kb_cast(k, ls_legal_float(l, f), t), LS_F32))
                           : ls_legal_half_value(l, t, cast_bits(l, t, f));
    }
    return ls_legal_half_value(l, t, ls_legal_half_bits(l, t, f));
}

static ls_val rounded(ls_legal *l, ls_dtype t, ls_val f) {
    return t == LS_F32 || t == LS_F64 ? f : ls_legal_round_half(l, t, f);
}

/* ---- integers to floats ---- */

/* By device, or as the sum of two halves that are exact: 2^39 + h * 2^16 less 2^39, and 2^23 + l less 2^23. */
static ls_val u32_to_f32(ls_legal *l, ls_val v) {
    ls_kb *k = &l->kb;
    if (ls_legal_has(l, LS_KT_CAST32)) {
        return ls_kb_cast(k, v, LS_F32);
    }
    ls_val high = SUB(AS_F(OR(SHR(v, U(16)), U(0x53000000))), ls_kb_f32(k, 0x1p39f));
    ls_val low = SUB(AS_F(OR(AND(v, U(0xffff)), U(0x4b000000))), ls_kb_f32(k, 0x1p23f));
    return ls_legal_float(l, ls_legal_positive(l, ADD(high, low)));
}

/* What lies below bit 8 gathered there, so that the f32 is exact and a rounding to bf16 is the first. */
static ls_val sticky(ls_legal *l, ls_dtype to, ls_val mag) {
    ls_kb *k = &l->kb;
    if (to != LS_BF16) {
        return mag;
    }
    ls_val rest = SELECT(NE(AND(mag, U(255)), U(0)), U(256), U(0));
    return SELECT(LT(mag, U(1u << 24)), mag, OR(AND(mag, U(~255u)), rest));
}

static ls_val int_to_f32(ls_legal *l, ls_dtype to, ls_val v) {
    ls_kb *k = &l->kb;
    bool is_signed = ls_legal_type(l, v) == LS_I32;
    if (is_signed && to != LS_BF16 && ls_legal_has(l, LS_KT_CAST32)) {
        return ls_kb_cast(k, v, LS_F32);
    }
    ls_val mag = is_signed ? AS_U(MAX(v, ls_kb_neg(k, v))) : v;
    ls_val f = ls_legal_bits(l, u32_to_f32(l, sticky(l, to, mag)));
    return is_signed ? OR(f, AND(AS_U(v), U(0x80000000))) : f;
}

static ls_val pair_to_f32(ls_legal *l, ls_dtype to, bool is_signed, ls_lane a) {
    ls_kb *k = &l->kb;
    ls_val sign = is_signed ? AND(a.hi, U(0x80000000)) : U(0), shift;
    if (is_signed) {
        a = ls_legal_pair_op(l, LS_K_ABS, LS_I64, a, a);
    }
    ls_val top = ls_legal_pair_normal(l, a, &shift);
    ls_val f = ls_legal_bits(l, u32_to_f32(l, sticky(l, to, top)));
    f = ADD(f, SHL(SUB(U(32), shift), U(23)));
    return OR(SELECT(EQ(OR(a.v, a.hi), U(0)), U(0), f), sign);
}

static ls_lane int_to_float(ls_legal *l, ls_dtype to, ls_dtype from, ls_lane a) {
    ls_kb *k = &l->kb;
    bool narrow = a.hi == LS_VAL_NONE && ls_dtype_bits(ls_legal_type(l, a.v)) <= 32;
    if (to == LS_F64) {
        if (a.hi != LS_VAL_NONE) {
            ls_legal_refuse(l, "casts between f64 and 64-bit integers need both");
        }
        return ls_legal_one(ls_kb_cast(k, a.v, LS_F64));
    }
    ls_val f;
    if (narrow) {
        f = int_to_f32(l, to, a.v);
    } else if (a.hi == LS_VAL_NONE && to != LS_BF16 && ls_legal_has(l, LS_KT_CAST32)) {
        f = ls_kb_cast(k, a.v, LS_F32);
    } else {
        f = pair_to_f32(l, to, from == LS_I64, ls_legal_split(l, from, a));
    }
    return ls_legal_one(rounded(l, to, ls_legal_held(l, f)));
}

/* ---- floats to integers ---- */

/* The whole part of a magnitude below 2^32. */
static ls_val whole_u32(ls_legal *l, ls_val mag) {
    ls_kb *k = &l->kb;
    ls_val e = AS_I(SHR(mag, U(23))), m = OR(AND(mag, U(0x7fffff)), U(0x800000));
    ls_val down = AS_U(MIN(MAX(SUB(I(150), e), I(0)), I(31)));
    ls_val up = AS_U(MIN(MAX(SUB(e, I(150)), I(0)), I(8)));
    return SHL(SHR(m, down), up);
}

static ls_lane whole_pair(ls_legal *l, ls_val mag) {
    ls_kb *k = &l->kb;
    ls_val e = AS_I(SHR(mag, U(23))), m = OR(AND(mag, U(0x7fffff)), U(0x800000));
    ls_val down = AS_U(MIN(MAX(SUB(I(150), e), I(0)), I(31)));
    ls_val up = AS_U(MIN(MAX(SUB(e, I(150)), I(0)), I(63)));
    return ls_legal_pair_shift(l, LS_K_SHL, (ls_lane){SHR(m, down), U(0)}, up);
}

/* Where `inside` does not hold the device gets a zero. */
static ls_val by_device(ls_legal *l, ls_dtype to, ls_val f, ls_val inside) {
    ls_kb *k = &l->kb;
    ls_val safe = SELECT(inside, ls_legal_bits(l, f), U(0));
    return ls_kb_cast(k, ls_legal_float(l, safe), to);
}

static ls_val f32_to_i32(ls_legal *l, ls_val f) {
    ls_kb *k = &l->kb;
    ls_val bits = ls_legal_bits(l, f), mag = magnitude(l, f), inside = LT(mag, U(0x4f000000)), v;
    ls_val sign = SHR(AS_I(bits), I(31));
    if (ls_legal_has(l, LS_KT_CAST32)) {
        v = by_device(l, LS_I32, f, inside);
    } else {
        v = SUB(XOR(AS_I(whole_u32(l, mag)), sign), sign);
    }
    ls_val edge = SELECT(LT(U(INF), mag), I(0), XOR(sign, I(0x7fffffff)));
    return SELECT(inside, v, edge);
}

static ls_val f32_to_u32(ls_legal *l, ls_val f) {
    ls_kb *k = &l->kb;
    ls_val bits = ls_legal_bits(l, f), inside = LT(bits, U(0x4f800000)), v;
    if (ls_legal_has(l, LS_KT_CAST32)) {
        v = by_device(l, LS_U32, f, inside);
    } else {
        v = whole_u32(l, bits);
    }
    return SELECT(inside, v, SELECT(LE(bits, U(INF)), U(~0u), U(0)));
}

static ls_lane f32_to_64(ls_legal *l, ls_dtype to, ls_val f) {
    ls_kb *k = &l->kb;
    ls_val bits = ls_legal_bits(l, f), mag = magnitude(l, f), zero = U(0);
    ls_val negative = LT(AS_I(bits), I(0)), nan = LT(U(INF), mag);
    ls_val inside = to == LS_I64 ? LT(mag, U(0x5f000000)) : LT(bits, U(0x5f800000));
    ls_lane edge = {U(~0u), U(~0u)}, none = {zero, zero};
    ls_val nothing = OR(nan, negative);
    if (to == LS_I64) {
        edge = (ls_lane){SELECT(negative, zero, U(~0u)), SELECT(negative, U(0x80000000), U(0x7fffffff))};
        nothing = nan;
    }
    if (ls_legal_has(l, LS_KT_INT64) && ls_legal_has(l, LS_KT_CAST32)) {
        ls_val v = by_device(l, to, f, inside),
               outside = ls_kb_const_int(k, to, to == LS_I64 ? INT64_MAX : -1);
        if (to == LS_I64) {
            outside = SELECT(negative, ls_kb_const_int(k, to, INT64_MIN), outside);
        }
        return ls_legal_one(SELECT(inside, v, SELECT(nothing, ls_kb_const_int(k, to, 0), outside)));
    }
    ls_lane v = whole_pair(l, mag);
    if (to == LS_I64) {
        v = ls_legal_pair_select(l, negative, ls_legal_pair_neg(l, v), v);
    }
    v = ls_legal_pair_select(l, inside, v, ls_legal_pair_select(l, nothing, none, edge));
    return ls_legal_merge(l, to, v);
}

/* From f64, to i32, u32, i64 or u64. */
static ls_val f64_to_int(ls_legal *l, ls_dtype to, ls_val x) {
    ls_kb *k = &l->kb;
    bool is_signed = ls_dtype_is_signed_int(to);
    int bits = ls_dtype_bits(to);
    double edge = bits == 32 ? (is_signed ? 0x1p31 : 0x1p32) : is_signed ? 0x1p63 : 0x1p64;
    ls_val zero = ls_kb_const_float(k, LS_F64, 0);
    ls_val low = is_signed && bits == 32 ? LT(ls_kb_const_float(k, LS_F64, -0x1p31 - 1), x)
                                         : LE(is_signed ? ls_kb_const_float(k, LS_F64, -edge) : zero, x);
    ls_val inside = AND(low, LT(x, ls_kb_const_float(k, LS_F64, edge)));
    ls_val v = ls_kb_cast(k, SELECT(inside, x, zero), to);
    uint64_t top = ~UINT64_C(0) >> (64 - bits + is_signed);
    ls_val below = ls_kb_const_bits(k, to, is_signed ? ~top : 0), none = ls_kb_const_int(k, to, 0);
    ls_val outside = SELECT(LT(zero, x), ls_kb_const_bits(k, to, top), SELECT(LT(x, zero), below, none));
    return SELECT(inside, v, outside);
}

static ls_lane float_to_int(ls_legal *l, ls_dtype to, ls_dtype from, ls_val f) {
    ls_kb *k = &l->kb;
    int bits = ls_dtype_bits(to);
    if (bits == 64) {
        if (from == LS_F64 && !ls_legal_has(l, LS_KT_INT64)) {
            ls_legal_refuse(l, "casts between f64 and 64-bit integers need both");
        }
        return from == LS_F64 ? ls_legal_one(f64_to_int(l, to, f)) : f32_to_64(l, to, f);
    }
    ls_dtype word = ls_legal_register(l, to);
    ls_val v = from == LS_F64 ? f64_to_int(l, word, f) : word == LS_I32 ? f32_to_i32(l, f) : f32_to_u32(l, f);
    if (bits < 32 && word == LS_I32) {
        v = MIN(MAX(v, I(-(1 << (bits - 1)))), I((1 << (bits - 1)) - 1));
    } else if (bits < 32) {
        v = MIN(v, U((1u << bits) - 1));
    }
    return ls_legal_one(v);
}

/* ---- floats to floats ---- */

/* A subnormal is a whole number of steps of 2^-149, which f64 holds exactly. */
static ls_val f32_to_f64(ls_legal *l, ls_val f) {
    ls_kb *k = &l->kb;
    ls_val wide = ls_kb_cast(k, ls_legal_float(l, f), LS_F64);
    if (ls_legal_has(l, LS_KT_CAST64)) {
        return wide;
    }
    ls_val bits = ls_legal_bits(l, f), mag = magnitude(l, f), small = LT(mag, U(0x00800000));
    ls_val steps = ls_kb_cast(k, AS_I(SELECT(small, mag, U(0))), LS_F64), value = MUL(steps, ls_kb_const_float(k, LS_F64, 0x1p-149));
    return SELECT(small, SELECT(LT(AS_I(bits), I(0)), ls_kb_neg(k, value), value), wide);
}

static ls_val f64_to_f32(ls_legal *l, ls_val x) {
    ls_kb *k = &l->kb;
    ls_val f = ls_kb_cast(k, x, LS_F32);
    if (ls_legal_has(l, LS_KT_CAST64)) {
        return ls_legal_held(l, f);
    }
    ls_val size = ls_kb_abs(k, x), small = LT(size, ls_kb_const_float(k, LS_F64, 0x1p-126)), zero = ls_kb_const_float(k, LS_F64, 0);
    ls_val steps = ls_kb_rint(k, MUL(SELECT(small, size, zero), ls_kb_const_float(k, LS_F64, 0x1p149)));
    ls_val bits = OR(AS_U(ls_kb_cast(k, steps, LS_I32)), AND(ls_legal_bits(l, f), U(0x80000000)));
    return ls_legal_held(l, SELECT(small, bits, ls_legal_bits(l, f)));
}

/* f64 to f32 with what is lost kept in the lowest bit, so that rounding that again rounds once. */
static ls_val f64_to_odd(ls_legal *l, ls_val x) {
    ls_kb *k = &l->kb;
    ls_val f = f64_to_f32(l, x), bits = ls_legal_bits(l, f), back = f32_to_f64(l, f);
    ls_val away = LT(ls_kb_abs(k, x), ls_kb_abs(k, back));
    ls_val odd = OR(SELECT(away, SUB(bits, U(1)), bits), U(1));
    return SELECT(OR(EQ(x, back), NE(x, x)), bits, odd);
}

static ls_val float_to_float(ls_legal *l, ls_dtype to, ls_dtype from, ls_val f) {
    if (to == LS_F64) {
        return f32_to_f64(l, f);
    }
    if (from == LS_F64 && to == LS_F32) {
        return f64_to_f32(l, f);
    }
    f = from == LS_F64 ? ls_legal_held(l, f64_to_odd(l, f)) : f;
    return from == LS_F16 && to == LS_F32 ? f : from == LS_BF16 && to == LS_F32 ? f : rounded(l, to, f);
}

/* ---- integers to integers ---- */

static ls_lane int_to_int(ls_legal *l, ls_dtype to, ls_dtype from, ls_lane a, ls_val old) {
    ls_kb *k = &l->kb;
    int to_bits = ls_dtype_bits(to), from_bits = ls_dtype_bits(from);
    bool from_signed = ls_dtype_is_signed_int(from);
    if (to_bits == 64) {
        if (ls_legal_fits_i32(l, old)) {
            return ls_legal_one(from_bits == 64 ? ls_legal_low(l, a) : AS_I(a.v));
        }
        if (from_bits == 64) {
            a = ls_legal_wide(l, from, a);
            return a.hi == LS_VAL_NONE ? ls_legal_one(ls_legal_bitcast(l, a.v, to)) : a;
        }
        if (ls_legal_has(l, LS_KT_INT64)) {
            return ls_legal_one(ls_kb_cast(k, a.v, to));
        }
        return (ls_lane){AS_U(a.v), from_signed ? AS_U(SHR(AS_I(a.v), I(31))) : U(0)};
    }
    ls_val v = from_bits == 64 ? ls_legal_low(l, a) : a.v;
    v = ls_legal_bitcast(l, v, ls_legal_register(l, to));
    bool kept = from_bits < to_bits && (!from_signed || ls_dtype_is_signed_int(to));
    return ls_legal_one(kept ? v : ls_legal_wrap(l, to, v));
}

static ls_val to_bool(ls_legal *l, ls_dtype from, ls_lane a) {
    ls_kb *k = &l->kb;
    if (from == LS_F64) {
        return NE(a.v, ls_kb_const_float(k, LS_F64, 0));
    }
    if (ls_dtype_is_float(from)) {
        return NE(magnitude(l, a.v), U(0));
    }
    return a.hi == LS_VAL_NONE ? NE(a.v, ls_kb_const_int(k, ls_legal_type(l, a.v), 0))
                               : NE(OR(a.v, a.hi), U(0));
}

static ls_val from_bool(ls_legal *l, ls_dtype to, ls_val b) {
    ls_kb *k = &l->kb;
    if (to == LS_F64) {
        return SELECT(b, ls_kb_const_float(k, LS_F64, 1), ls_kb_const_float(k, LS_F64, 0));
    }
    if (ls_dtype_is_float(to)) {
        return SELECT(b, ls_legal_held(l, ls_kb_f32(k, 1)), ls_legal_held(l, ls_kb_f32(k, 0)));
    }
    return ls_dtype_is_signed_int(to) || to == LS_U64 ? SELECT(b, I(1), I(0)) : SELECT(b, U(1), U(0));
}

ls_lane ls_legal_cast(ls_legal *l, ls_dtype to, ls_dtype from, ls_lane a, ls_val old) {
    if (to == from) {
        return a;
    }
    if (to == LS_BOOL || from == LS_BOOL) {
        return ls_legal_one(to == LS_BOOL ? to_bool(l, from, a) : from_bool(l, to, a.v));
    }
    if (ls_dtype_is_float(from)) {
        return ls_dtype_is_float(to) ? ls_legal_one(float_to_float(l, to, from, a.v))
                                     : float_to_int(l, to, from, a.v);
    }
    return ls_dtype_is_float(to) ? int_to_float(l, to, from, a) : int_to_int(l, to, from, a, old);
}

ls_lane ls_legal_bitcast_lane(ls_legal *l, ls_dtype to, ls_dtype from, ls_lane a, ls_val old) {
    bool to_float = ls_dtype_is_float(to), from_float = ls_dtype_is_float(from);
    if (to == from) {
        return a;
    }
    if (ls_dtype_bits(to) == 64 && (to_float || from_float)) {
        if (!ls_legal_has(l, LS_KT_INT64)) {
            ls_legal_refuse(l, "bits of f64 need 64-bit integers");
        }
        a = from_float ? a : ls_legal_wide(l, from, a);
        return ls_legal_one(ls_legal_bitcast(l, a.v, to));
    }
    if (!to_float && !from_float) {
        return int_to_int(l, to, from, a, old);
    }
    ls_val bits = from == LS_F32 ? ls_legal_bits(l, a.v)
                  : from_float   ? ls_legal_half_bits(l, from, a.v)
                                 : ls_legal_bitcast(l, a.v, LS_U32);
    if (to_float) {
        ls_kb *k = &l->kb;
        bits = ls_dtype_bits(to) == 16 ? AND(bits, U(0xffff)) : bits;
        return ls_legal_one(to == LS_F32 ? ls_legal_held(l, bits) : ls_legal_half_value(l, to, bits));
    }
    ls_val v = ls_legal_bitcast(l, bits, ls_legal_register(l, to));
    return ls_legal_one(to == LS_I16 ? ls_legal_wrap(l, to, v) : v);
}
