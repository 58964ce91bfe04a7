/* f32 arithmetic on bits. A finite number that is not zero is taken apart into a biased exponent (of any size) and a
 * significand in [2^23, 2^24); results are put together by `pack`, which rounds once, wherever the last kept bit lies.
 * Float additions here meet and make normal numbers only, so that it does not matter whether the device keeps others. */
#include "kir/legal_parts.h"

#define SIGN 0x80000000u
#define INF 0x7f800000u
#define CANONICAL 0x7fc00000u

typedef struct parts {
    ls_val e, m; /* i32, u32 */
} parts;

/* (2^23 + m) - 2^23 is m, exactly, for m < 2^23. */
static parts unpack(ls_legal *l, ls_val mag) {
    ls_kb *k = &l->kb;
    ls_val small = LT(mag, U(0x800000));
    ls_val whole = SUB(AS_F(OR(mag, U(0x4b000000))), ls_kb_f32(k, 0x1p23f));
    ls_val u = SELECT(small, AS_U(whole), mag);
    ls_val e = SUB(AS_I(SHR(u, U(23))), SELECT(small, I(149), I(0)));
    return (parts){e, OR(AND(u, U(0x7fffff)), U(0x800000))};
}

/* m * 2^(e - 157) rounded, for m in [2^30, 2^31) with a sticky lowest bit. Beyond the range: bits above infinity's. */
static ls_val pack(ls_legal *l, ls_val e, ls_val m) {
    ls_kb *k = &l->kb;
    ls_val under = SUB(I(1), e), down = MAX(under, I(0)), by = AS_U(MIN(down, I(31)));
    ls_val kept = SHR(m, by);
    kept = OR(kept, SELECT(NE(SHL(kept, by), m), U(1), U(0)));
    ls_val q = SHR(ADD(kept, ADD(U(63), AND(SHR(kept, U(7)), U(1)))), U(7));
    return ADD(SHL(AS_U(SUB(down, under)), U(23)), q);
}

/* Times 2^64: bits of a number below 2^-95 as a normal f32. A subnormal m is (2^-62 + m * 2^-85) - 2^-62. */
static ls_val scale_up(ls_legal *l, ls_val u) {
    ls_kb *k = &l->kb;
    ls_val mag = AND(u, U(0x7fffffff));
    ls_val low = SUB(AS_F(OR(mag, U(0x20800000))), ls_kb_f32(k, 0x1p-62f));
    ls_val scaled = SELECT(LT(mag, U(0x800000)), ls_legal_positive(l, low), ADD(mag, U(64u << 23)));
    return AS_F(OR(scaled, AND(u, U(SIGN))));
}

/* The sum of two numbers below 2^-95 is exact where it is below 2^-125, so scaling back never rounds. */
ls_val ls_legal_soft_add(ls_legal *l, ls_val a, ls_val b) {
    ls_kb *k = &l->kb;
    ls_val sum = AS_U(ADD(scale_up(l, a), scale_up(l, b)));
    ls_val mag = AND(sum, U(0x7fffffff));
    ls_val low = SUB(AS_U(ADD(AS_F(mag), ls_kb_f32(k, 0x1p-62f))), U(0x20800000));
    ls_val back = SELECT(LT(mag, U(0x20800000)), low, SUB(mag, U(64u << 23)));
    ls_val signs = ls_legal_has(l, LS_KT_ORDER32) ? sum : SELECT(EQ(mag, U(0)), AND(a, b), sum);
    return OR(back, AND(signs, U(SIGN)));
}

/* Of two subnormal factors, whose product is nothing, the larger may as well be taken for a normal one. */
ls_val ls_legal_soft_mul(ls_legal *l, ls_val a, ls_val b) {
    ls_kb *k = &l->kb;
    ls_val ua = AND(a, U(0x7fffffff)), ub = AND(b, U(0x7fffffff)), top = MAX(ua, ub);
    parts x = unpack(l, MIN(ua, ub));
    ls_val y = OR(AND(top, U(0x7fffff)), U(0x800000));
    ls_val hi = ls_kb_umulhi(k, SHL(x.m, U(8)), SHL(y, U(7)));
    ls_val rest = NE(AND(MUL(x.m, y), U(0x1ffff)), U(0));
    ls_val low = LT(hi, U(1u << 30));
    ls_val m = OR(SELECT(low, SHL(hi, U(1)), hi), SELECT(rest, U(1), U(0)));
    ls_val e = SUB(ADD(x.e, AS_I(SHR(top, U(23)))), SELECT(low, I(127), I(126)));
    ls_val r = SELECT(LT(top, U(INF)), MIN(pack(l, e, m), U(INF)), top); /* infinity or NaN wins */
    return OR(r, AND(XOR(a, b), U(SIGN)));
}

/* A quotient of 25 bits, eight at a time by integer division, and what is left as a sticky bit. */
ls_val ls_legal_soft_div(ls_legal *l, ls_val a, ls_val b) {
    ls_kb *k = &l->kb;
    ls_val ua = AND(a, U(0x7fffffff)), ub = AND(b, U(0x7fffffff)), inf = U(INF), none = U(0);
    parts x = unpack(l, ua), y = unpack(l, ub);
    ls_val less = LT(x.m, y.m);
    ls_val rest = SUB(SELECT(less, SHL(x.m, U(1)), x.m), y.m), q = U(1);
    for (int i = 0; i < 3; i++) {
        ls_val shifted = SHL(rest, U(8)), digit = ls_kb_div(k, shifted, y.m);
        rest = SUB(shifted, MUL(digit, y.m));
        q = OR(SHL(q, U(8)), digit);
    }
    ls_val e = ADD(SUB(x.e, y.e), SELECT(less, I(126), I(127)));
    ls_val r = MIN(pack(l, e, OR(SHL(q, U(6)), SELECT(NE(rest, none), U(1), none))), inf);
    r = SELECT(OR(EQ(ub, none), EQ(ua, inf)), inf, r);
    r = SELECT(OR(EQ(ua, none), EQ(ub, inf)), none, r);
    ls_val both = AND(EQ(ua, ub), OR(EQ(ua, none), EQ(ua, inf)));
    ls_val nan = OR(both, LT(inf, MAX(ua, ub)));
    return SELECT(nan, U(CANONICAL), OR(r, AND(XOR(a, b), U(SIGN))));
}

/* The integer root q of 25 bits of a significand times an even power of two, M: the device's root less 16, which up to 31 make
 * right where that is off by less than 8 units in the last place. What is left of M fits a word. q is never half way between
 * two results: a root of 25 bits that is odd has an odd square. */
ls_val ls_legal_soft_sqrt(ls_legal *l, ls_val a) {
    ls_kb *k = &l->kb;
    parts x = unpack(l, AND(a, U(0x7fffffff)));
    ls_val odd = EQ(AND(x.e, I(1)), I(1));
    ls_val unit = OR(AND(x.m, U(0x7fffff)), SELECT(odd, U(0x3f800000), U(0x40000000))); /* in [1, 4) */
    ls_val near = ls_kb_pure(k, LS_K_SQRT, AS_F(unit), LS_VAL_NONE, LS_VAL_NONE, LS_KF_FAST);
    ls_val q = SUB(SHL(SUB(AS_U(near), U(0x3f000000)), U(1)), U(16));
    ls_val left = SUB(SELECT(odd, SHL(x.m, U(25)), SHL(x.m, U(26))), MUL(q, q)); /* of low words */
    for (uint32_t more = 16; more > 0; more /= 2) {
        ls_val needed = MUL(ADD(SHL(q, U(1)), U(more)), U(more)), fits = LE(needed, left);
        q = SELECT(fits, ADD(q, U(more)), q);
        left = SELECT(fits, SUB(left, needed), left);
    }
    ls_val rounded = ADD(SHR(q, U(1)), AND(q, U(1)));
    ls_val e = SUB(SHR(ADD(x.e, I(127)), I(1)), I(1)); /* above 0: shifts of it are defined */
    ls_val r = ADD(SHL(AS_U(e), U(23)), rounded);
    ls_val itself = OR(EQ(AND(a, U(0x7fffffff)), U(0)), EQ(a, U(INF)));
    ls_val special = SELECT(itself, a, U(CANONICAL));
    return SELECT(LT(SUB(a, U(1)), U(INF - 1)), r, special);
}

/* Numbers from 1 to 2^23 have `places` bits of fraction, 1 to 23 of them; smaller ones become 0 or 1. */
ls_val ls_legal_soft_whole(ls_legal *l, ls_kop op, ls_val a) {
    ls_kb *k = &l->kb;
    ls_val mag = AND(a, U(0x7fffffff)), sign = AND(a, U(SIGN)), zero = U(0), one = U(0x3f800000);
    ls_val e = MIN(MAX(SHR(mag, U(23)), U(127)), U(149));
    ls_val places = SUB(U(150), e), unit = SHL(U(1), places), fraction = SUB(unit, U(1));
    ls_val more = zero, small = zero; /* what is added before the cut; what numbers below 1 become */
    if (op == LS_K_RINT) {
        more = ADD(SUB(SHR(unit, U(1)), U(1)), AND(SHR(mag, places), U(1)));
        small = SELECT(LT(U(0x3f000000), mag), one, zero);
    } else if (op != LS_K_TRUNC) {
        ls_val away = op == LS_K_FLOOR ? NE(sign, zero) : EQ(sign, zero);
        more = SELECT(away, fraction, zero);
        small = SELECT(AND(away, NE(mag, zero)), one, zero);
    }
    ls_val cut = AND(ADD(mag, more), NOT(fraction));
    ls_val r = SELECT(LT(mag, one), small, SELECT(LT(mag, U(0x4b000000)), cut, mag));
    return OR(r, sign);
}
