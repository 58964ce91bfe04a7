/* The contract's element-wise operations as instructions. f16 and bf16 compute in f32 and round once, spelled out, because
 * few devices have them as arithmetic types. */
#include "emit/lower.h"
#include "kir/build_math.h"

typedef ls_val (*map_fn)(ls_kb *kb, ls_dtype dtype, const ls_val x[3]);
#define MAP(name) static ls_val map_##name(ls_kb *kb, ls_dtype dtype, const ls_val x[3])

#define MATH(name)                               \
    MAP(name) {                                  \
        (void)dtype;                             \
        return ls_kb_math_##name(kb, x[0]);      \
    }
LS_MATH_UNARY(MATH)
#define ONE(name, fn)       \
    MAP(name) {             \
        (void)dtype;        \
        return fn(kb, x[0]); \
    }
#define TWO(name, fn)             \
    MAP(name) {                   \
        (void)dtype;              \
        return fn(kb, x[0], x[1]); \
    }
ONE(neg, ls_kb_neg)
ONE(not, ls_kb_not)
ONE(popcount, ls_kb_popcount)
TWO(add, ls_kb_add)
TWO(sub, ls_kb_sub)
TWO(mul, ls_kb_mul)
TWO(div, ls_kb_div)
TWO(pow, ls_kb_math_pow)
TWO(and, ls_kb_and)
TWO(or, ls_kb_or)
TWO(xor, ls_kb_xor)
TWO(shl, ls_kb_shl)
TWO(shr, ls_kb_shr)

static ls_val one(ls_kb *kb, ls_dtype dtype) {
    return ls_dtype_is_float(dtype) ? ls_kb_const_float(kb, dtype, 1) : ls_kb_const_int(kb, dtype, 1);
}
ls_val ls_lower_zero(ls_kb *kb, ls_dtype dtype) {
    return ls_kb_const_bits(kb, dtype, 0);
}

/* The remainder of floats, exact: long division of the significands, as integers, a few bits at a time. What is left is a
 * multiple of the last bit of y below y, so that scaling it by a power of two does not round. */
static ls_val float_rem(ls_kb *kb, ls_dtype dtype, ls_val x, ls_val y) {
    bool wide = dtype == LS_F64;
    ls_dtype word = wide ? LS_U64 : LS_U32;
    int fraction = wide ? 52 : 23, step = wide ? 11 : 8; /* a significand shifted by `step` fits the word */
    uint64_t infinity = (wide ? UINT64_C(0x7ff) : UINT64_C(0xff)) << fraction;
#define WORD(k) ls_kb_const_bits(kb, word, (uint64_t)(k))
    ls_val bits = ls_kb_bitcast(kb, x, word), zero = WORD(0), one_word = WORD(1), places = WORD(fraction);
    ls_val sign = ls_kb_and(kb, bits, WORD(UINT64_C(1) << (wide ? 63 : 31)));
    ls_val ux = ls_kb_xor(kb, bits, sign), uy = ls_kb_bitcast(kb, ls_kb_abs(kb, y), word);
    ls_val part[2], exponent[2];
    for (int i = 0; i < 2; i++) {
        ls_val u = i ? uy : ux, e = ls_kb_shr(kb, u, places), tiny = ls_kb_eq(kb, e, zero);
        ls_val low = ls_kb_and(kb, u, WORD((UINT64_C(1) << fraction) - 1));
        part[i] = ls_kb_select(kb, tiny, low, ls_kb_or(kb, low, WORD(UINT64_C(1) << fraction)));
        exponent[i] = ls_kb_cast(kb, ls_kb_select(kb, tiny, one_word, e), LS_I32);
    }
    ls_val rest = ls_kb_var(kb, ls_kb_rem(kb, part[0], part[1]));
    ls_val left = ls_kb_max(kb, ls_kb_sub(kb, exponent[0], exponent[1]), ls_kb_i32(kb, 0));
    left = ls_kb_min(kb, left, ls_kb_i32(kb, 1 << 12)); /* more than any exponent: an end that the verifier sees */
    ls_val i = ls_kb_loop(kb, ls_kb_i32(kb, 0), left, ls_kb_i32(kb, step), 0);
    ls_val by = ls_kb_cast(kb, ls_kb_min(kb, ls_kb_sub(kb, left, i), ls_kb_i32(kb, step)), word);
    ls_kb_set(kb, rest, ls_kb_rem(kb, ls_kb_shl(kb, ls_kb_get(kb, rest), by), part[1]));
    ls_kb_end_loop(kb);
    ls_val e = ls_kb_cast(kb, exponent[1], word);
    ls_val small = ls_kb_shl(kb, one_word, ls_kb_sub(kb, e, one_word)); /* a subnormal power of two */
    ls_val power = ls_kb_select(kb, ls_kb_le(kb, e, places), small, ls_kb_shl(kb, ls_kb_sub(kb, e, places), places));
    ls_val r = ls_kb_mul(kb, ls_kb_cast(kb, ls_kb_get(kb, rest), dtype), ls_kb_bitcast(kb, power, dtype));
    r = ls_kb_bitcast(kb, ls_kb_or(kb, ls_kb_bitcast(kb, r, word), sign), dtype);
    r = ls_kb_select(kb, ls_kb_lt(kb, ux, uy), x, r);
    ls_val none = ls_kb_or(kb, ls_kb_eq(kb, uy, zero), ls_kb_le(kb, WORD(infinity), ux));
    none = ls_kb_or(kb, none, ls_kb_lt(kb, WORD(infinity), uy));
#undef WORD
    return ls_kb_select(kb, none, ls_kb_const_float(kb, dtype, __builtin_nan("")), r);
}
MAP(rem) {
    return ls_dtype_is_float(dtype) ? float_rem(kb, dtype, x[0], x[1]) : ls_kb_rem(kb, x[0], x[1]);
}
MAP(abs) {
    return ls_dtype_is_float(dtype) || ls_dtype_is_signed(dtype) ? ls_kb_abs(kb, x[0]) : x[0];
}
MAP(sign) {
    ls_val zero = ls_lower_zero(kb, dtype), above = ls_kb_lt(kb, zero, x[0]);
    ls_val rest = x[0]; /* zeros and NaN are kept */
    if (ls_dtype_is_float(dtype) || ls_dtype_is_signed(dtype)) {
        rest = ls_kb_select(kb, ls_kb_lt(kb, x[0], zero), ls_kb_neg(kb, one(kb, dtype)), x[0]);
    }
    return ls_kb_select(kb, above, one(kb, dtype), rest);
}
MAP(recip) {
    return ls_kb_div(kb, one(kb, dtype), x[0]);
}
MAP(isnan) {
    (void)dtype;
    return ls_kb_ne(kb, x[0], x[0]);
}
MAP(isinf) {
    return ls_kb_eq(kb, ls_kb_abs(kb, x[0]), ls_kb_const_float(kb, dtype, __builtin_inf()));
}
MAP(min) {
    return dtype == LS_BOOL ? ls_kb_and(kb, x[0], x[1]) : ls_kb_min(kb, x[0], x[1]);
}
MAP(max) {
    return dtype == LS_BOOL ? ls_kb_or(kb, x[0], x[1]) : ls_kb_max(kb, x[0], x[1]);
}
/* Comparisons of bools as logic: devices do not order them. */
MAP(eq) {
    return dtype == LS_BOOL ? ls_kb_not(kb, ls_kb_xor(kb, x[0], x[1])) : ls_kb_eq(kb, x[0], x[1]);
}
MAP(ne) {
    return dtype == LS_BOOL ? ls_kb_xor(kb, x[0], x[1]) : ls_kb_ne(kb, x[0], x[1]);
}
MAP(lt) {
    return dtype == LS_BOOL ? ls_kb_and(kb, ls_kb_not(kb, x[0]), x[1]) : ls_kb_lt(kb, x[0], x[1]);
}
MAP(le) {
    return dtype == LS_BOOL ? ls_kb_or(kb, ls_kb_not(kb, x[0]), x[1]) : ls_kb_le(kb, x[0], x[1]);
}

static const map_fn maps[LS_OP_COUNT] = {
    [LS_OP_NEG] = map_neg,     [LS_OP_ABS] = map_abs,     [LS_OP_SIGN] = map_sign,   [LS_OP_FLOOR] = map_floor,
    [LS_OP_CEIL] = map_ceil,   [LS_OP_TRUNC] = map_trunc, [LS_OP_RINT] = map_rint,   [LS_OP_SQRT] = map_sqrt,
    [LS_OP_RSQRT] = map_rsqrt, [LS_OP_CBRT] = map_cbrt,   [LS_OP_RECIP] = map_recip, [LS_OP_EXP] = map_exp,
    [LS_OP_EXP2] = map_exp2,   [LS_OP_EXPM1] = map_expm1, [LS_OP_LOG] = map_log,     [LS_OP_LOG2] = map_log2,
    [LS_OP_LOG1P] = map_log1p, [LS_OP_SIN] = map_sin,     [LS_OP_COS] = map_cos,     [LS_OP_TAN] = map_tan,
    [LS_OP_ASIN] = map_asin,   [LS_OP_ACOS] = map_acos,   [LS_OP_ATAN] = map_atan,   [LS_OP_SINH] = map_sinh,
    [LS_OP_COSH] = map_cosh,   [LS_OP_TANH] = map_tanh,   [LS_OP_ERF] = map_erf,     [LS_OP_ERFC] = map_erfc,
    [LS_OP_NOT] = map_not,     [LS_OP_ISNAN] = map_isnan, [LS_OP_ISINF] = map_isinf, [LS_OP_POPCOUNT] = map_popcount,
    [LS_OP_ADD] = map_add,     [LS_OP_SUB] = map_sub,     [LS_OP_MUL] = map_mul,     [LS_OP_DIV] = map_div,
    [LS_OP_REM] = map_rem,     [LS_OP_POW] = map_pow,     [LS_OP_MIN] = map_min,     [LS_OP_MAX] = map_max,
    [LS_OP_AND] = map_and,     [LS_OP_OR] = map_or,       [LS_OP_XOR] = map_xor,     [LS_OP_SHL] = map_shl,
    [LS_OP_SHR] = map_shr,     [LS_OP_EQ] = map_eq,       [LS_OP_NE] = map_ne,       [LS_OP_LT] = map_lt,
    [LS_OP_LE] = map_le,
};

bool ls_map_is_function(ls_op op) {
#define IS_FUNCTION(name) map_##name,
    static const map_fn functions[] = {LS_MATH_UNARY(IS_FUNCTION)};
#undef IS_FUNCTION
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (maps[op] == functions[i]) {
            return true;
        }
    }
    return false;
}

/* `dtype` is that of the operands; of WHERE: of the second and third. */
ls_val ls_lower_map(ls_kb *kb, ls_op op, ls_dtype dtype, ls_dtype out, const ls_val x[3]) {
    if (op == LS_OP_WHERE) {
        return ls_kb_select(kb, x[0], x[1], x[2]);
    }
    if (op == LS_OP_CAST) {
        return ls_kb_cast(kb, x[0], out);
    }
    if (op == LS_OP_BITCAST) {
        ls_val from = ls_dtype_is_float(dtype) ? ls_kb_canon(kb, x[0]) : x[0];
        return dtype == out ? from : ls_kb_bitcast(kb, from, out);
    }
    if (!maps[op]) {
        kb->status = LS_FAIL(kb->err, LS_ERR_UNSUPPORTED, "emit: no instructions for %s", ls_ops[op].name);
        return LS_VAL_NONE;
    }
    if (dtype != LS_F16 && dtype != LS_BF16) {
        return maps[op](kb, dtype, x);
    }
    ls_val wide[3] = {x[0], x[1], x[2]};
    for (int i = 0; i < ls_ops[op].arity; i++) {
        wide[i] = ls_kb_cast(kb, x[i], LS_F32);
    }
    return ls_kb_cast(kb, maps[op](kb, LS_F32, wide), out);
}

ls_val ls_lower_identity(ls_kb *kb, ls_op reduce, ls_dtype dtype) {
    bool real = ls_dtype_is_float(dtype), least = reduce == LS_OP_AMAX;
    if (reduce == LS_OP_PROD) {
        return one(kb, dtype);
    }
    if (reduce != LS_OP_AMIN && reduce != LS_OP_AMAX) {
        return ls_lower_zero(kb, dtype);
    }
    if (real) {
        return ls_kb_const_float(kb, dtype, least ? -__builtin_inf() : __builtin_inf());
    }
    uint64_t top = ~UINT64_C(0) >> (64 - ls_dtype_bits(dtype));
    if (ls_dtype_is_signed(dtype)) {
        return ls_kb_const_bits(kb, dtype, least ? (top >> 1) + 1 : top >> 1);
    }
    return ls_kb_const_bits(kb, dtype, least ? 0 : top);
}

ls_val ls_lower_combine(ls_kb *kb, ls_op reduce, ls_dtype dtype, ls_val a, ls_val b) {
    static const ls_op map[] = {LS_OP_ADD, LS_OP_MUL, LS_OP_MIN, LS_OP_MAX}; /* of SUM, PROD, AMIN, AMAX */
    return ls_lower_map(kb, map[reduce - LS_OP_SUM], dtype, dtype, (const ls_val[3]){a, b, LS_VAL_NONE});
}

ls_val ls_lower_is_nan(ls_kb *kb, ls_dtype dtype, ls_val x) {
    return ls_dtype_is_float(dtype) ? ls_kb_ne(kb, x, x) : LS_VAL_NONE;
}
