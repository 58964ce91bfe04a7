/* ONNX: Cast and CastLike among all element types. float8 and float4 are read by a table of their values,
 * exact wherever a gather is, and written by integer arithmetic on the bits of f32 (or f64), so every
 * device rounds alike. */
#include "base/dtype.h"
#include "base/text.h"
#include "io/onnx/convert.h"
#include <stdio.h>
#include <string.h>

/* ---- formats of small floating types with a sign ---- */

typedef struct small_float {
    int type, mantissa, bias, largest; /* `largest`: the code of the largest finite value */
    int beyond;                        /* the code above it: infinity or NaN */
    int nan, sign;
    bool no_negative_zero;
} small_float;

static const small_float formats[] = {
    {ONNX_FLOAT8E4M3FN, 3, 7, 0x7e, 0x7f, 0x7f, 0x80, false},
    {ONNX_FLOAT8E4M3FNUZ, 3, 8, 0x7f, 0x80, 0x80, 0x80, true},
    {ONNX_FLOAT8E5M2, 2, 15, 0x7b, 0x7c, 0x7e, 0x80, false},
    {ONNX_FLOAT8E5M2FNUZ, 2, 16, 0x7f, 0x80, 0x80, 0x80, true},
    {ONNX_FLOAT4E2M1, 1, 1, 0x07, 0x07, 0x08, 0x08, false},
};

static const small_float *format_of(int type) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (formats[i].type == type) {
            return &formats[i];
        }
    }
    return NULL;
}

bool ls_onnx_is_small_float(int type) {
    return format_of(type) || type == ONNX_FLOAT8E8M0;
}

static double power_of_two(int e) {
    double y = 1;
    for (; e > 0; e--) {
        y *= 2;
    }
    for (; e < 0; e++) {
        y *= 0.5;
    }
    return y;
}

static float decode(int type, unsigned code) {
    const small_float *f = format_of(type);
    float nan = (float)(__builtin_inf() - __builtin_inf());
    if (!f) {
        return code == 0xff ? nan : (float)power_of_two((int)code - 127);
    }
    code &= (unsigned)f->sign * 2 - 1;
    unsigned magnitude = code & ((unsigned)f->sign - 1);
    bool negative = code != magnitude;
    if (type == ONNX_FLOAT8E5M2 && magnitude == 0x7c) {
        return (float)(negative ? -__builtin_inf() : __builtin_inf());
    }
    if (magnitude > (unsigned)f->largest || (f->no_negative_zero && negative && !magnitude)) {
        return nan;
    }
    int exponent = (int)(magnitude >> f->mantissa), fraction = (int)(magnitude & ((1u << f->mantissa) - 1));
    fraction += exponent ? 1 << f->mantissa : 0;
    double y = fraction * power_of_two((exponent ? exponent : 1) - f->bias - f->mantissa);
    return (float)(negative ? -y : y);
}

static ls_tensor *decoded(ls_onnx_node *n, ls_tensor *x, int type) {
    float table[256];
    for (unsigned i = 0; i < 256; i++) {
        table[i] = decode(type, i);
    }
    ls_tensor *values = ls_tensor_from(n->s, LS_F32, LS_SHAPE(256), table);
    return ls_gather(n->s, values, ls_cast(n->s, x, LS_I32), 0);
}

/* The floating layout that an encoder reads: f32 or f64. */
typedef struct source {
    ls_dtype dtype, bits, whole; /* `whole`: signed integers of the same size */
    int mantissa, bias, special;
} source;

static source source_of(ls_dtype dtype) {
    return dtype == LS_F64 ? (source){LS_F64, LS_U64, LS_I64, 52, 1023, 2047}
                           : (source){LS_F32, LS_U32, LS_I32, 23, 127, 255};
}

static ls_tensor *whole(ls_onnx_node *n, const source *from, double value) {
    return ls_onnx_scalar(n, from->whole, value);
}

/* The exponent field of x. */
static ls_tensor *exponent_field(ls_onnx_node *n, const source *from, ls_tensor *x) {
    ls_tensor *bits =
        ls_shr(n->s, ls_bitcast(n->s, x, from->bits), ls_onnx_scalar(n, from->bits, from->mantissa));
    ls_tensor *field = ls_and(n->s, bits, ls_onnx_scalar(n, from->bits, from->special));
    return ls_cast(n->s, field, from->whole);
}

/* With E the exponent, not below the format's least, |x| / 2^(E - mantissa) rounds to a whole number
 * below 2^(mantissa + 1), and that added to E's steps is the code: a carry moves to the next exponent by
 * itself. */
static ls_tensor *encoded(ls_onnx_node *n, ls_tensor *x, const small_float *f, bool saturate) {
    ls_session *s = n->s;
    source from = source_of(ls_tensor_dtype(x));
    ls_tensor *field = exponent_field(n, &from, x);
    int least = 1 - f->bias;
    ls_tensor *e = ls_sub(s, field, whole(n, &from, from.bias));
    e = ls_min(s, ls_max(s, e, whole(n, &from, least)), whole(n, &from, 127));
    ls_tensor *power =
        ls_shl(s, ls_sub(s, whole(n, &from, from.bias + f->mantissa), e), whole(n, &from, from.mantissa));
    ls_tensor *scaled = ls_mul(s, ls_abs(s, x), ls_bitcast(s, power, from.dtype));
    ls_tensor *steps = ls_shl(s, ls_sub(s, e, whole(n, &from, least)), whole(n, &from, f->mantissa));
    ls_tensor *code = ls_add(
        s, steps, ls_cast(s, ls_min(s, ls_rint(s, scaled), ls_onnx_scalar(n, from.dtype, 1024)), from.whole));
    ls_tensor *over = ls_gt(s, code, whole(n, &from, f->largest));
    bool clamp = saturate || f->type == ONNX_FLOAT4E2M1;
    code = ls_where(s, over, whole(n, &from, clamp ? f->largest : f->beyond), code);
    ls_tensor *top =
        ls_shr(s, ls_bitcast(s, x, from.bits), ls_onnx_scalar(n, from.bits, from.mantissa == 52 ? 63 : 31));
    ls_tensor *negative = ls_ne(s, top, ls_onnx_scalar(n, from.bits, 0));
    if (f->no_negative_zero) {
        negative = ls_and(s, negative, ls_ne(s, code, whole(n, &from, 0)));
    }
    code = ls_where(s, negative, ls_or(s, code, whole(n, &from, f->sign)), code);
    code = ls_where(s, ls_isnan(s, x), whole(n, &from, f->nan), code);
    return ls_cast(s, code, LS_U8);
}

/* Powers of two alone, 2^-127 to 2^127, and NaN (0xff). Between two of them: to the upper, the lower or
 * the nearer, a tie to the upper. */
static ls_tensor *encoded_e8m0(ls_onnx_node *n, ls_tensor *x, bool saturate, ls_onnx_rounding rounding) {
    ls_session *s = n->s;
    x = ls_cast(s, x, LS_F32);
    source from = source_of(LS_F32);
    ls_tensor *field = exponent_field(n, &from, x);
    ls_tensor *low =
        ls_cast(s, ls_and(s, ls_bitcast(s, x, LS_U32), ls_onnx_scalar(n, LS_U32, 0x7fffff)), LS_I32);
    /* Below 2^-126 the fraction has no hidden bit: 2^-127 is the fraction 0x400000. */
    ls_tensor *subnormal = ls_eq(s, field, whole(n, &from, 0));
    double limit = rounding == ONNX_ROUND_UP ? 1 : rounding == ONNX_ROUND_NEAREST ? 0x400000 : 0x800000;
    double tiny = rounding == ONNX_ROUND_UP ? 0x400001 : rounding == ONNX_ROUND_NEAREST ? 0x600000 : 0x800000;
    ls_tensor *up = ls_ge(s, low, ls_where(s, subnormal, whole(n, &from, tiny), whole(n, &from, limit)));
    ls_tensor *code = ls_add(s, field, ls_cast(s, up, LS_I32));
    ls_tensor *over = ls_gt(s, code, whole(n, &from, 254));
    code = ls_where(s, over, whole(n, &from, saturate ? 254 : 255), code);
    if (!saturate) {
        ls_tensor *under = ls_and(s, subnormal, ls_lt(s, low, whole(n, &from, 0x400000)));
        code = ls_where(s, under, whole(n, &from, 255), code);
    }
    return ls_cast(s, ls_where(s, ls_isnan(s, x), whole(n, &from, 255), code), LS_U8);
}

/* ---- conversion ---- */

static int low_bits(int type) {
    return type == ONNX_UINT4 || type == ONNX_INT4 ? 4 : type == ONNX_UINT2 || type == ONNX_INT2 ? 2 : 0;
}

ls_tensor *ls_onnx_convert(ls_onnx_node *n, ls_tensor *x, int from, int to, bool saturate,
                           ls_onnx_rounding rounding) {
    ls_session *s = n->s;
    if (!x || from == to) {
        return x;
    }
    x = ls_onnx_is_small_float(from) ? decoded(n, x, from) : x;
    if (!x) {
        return NULL;
    }
    ls_dtype dtype = ls_tensor_dtype(x), carrier = ls_onnx_carrier(to);
    if (to == ONNX_FLOAT8E8M0) {
        return encoded_e8m0(n, x, saturate, rounding);
    }
    if (format_of(to)) {
        x = dtype == LS_F64 ? x : ls_cast(s, x, LS_F32);
        return x ? encoded(n, x, format_of(to), saturate) : NULL;
    }
    int bits = low_bits(to);
    if (!bits) {
        return ls_cast(s, x, carrier);
    }
    ls_tensor *places = ls_onnx_scalar(n, LS_I32, 32 - bits);
    ls_tensor *y = ls_cast(s, x, LS_I32);
    y = ls_shl(s, y, places);
    if (carrier == LS_U8) {
        return ls_cast(s, ls_shr(s, ls_bitcast(s, y, LS_U32), ls_onnx_scalar(n, LS_U32, 32 - bits)), LS_U8);
    }
    return ls_cast(s, ls_shr(s, y, places), LS_I8);
}

ls_tensor *ls_onnx_in_number(ls_onnx_node *n, int i) {
    ls_tensor *x = ls_onnx_in(n, i);
    int type = ls_onnx_in_type(n, i);
    return x && ls_onnx_is_small_float(type) ? decoded(n, x, type) : x;
}

/* ---- strings ---- */

static bool same_word(const char *a, const char *word) {
    for (; *a && *word; a++, word++) {
        char c = *a >= 'A' && *a <= 'Z' ? (char)(*a + ('a' - 'A')) : *a;
        if (c != *word) {
            return false;
        }
    }
    return !*a && !*word;
}

static bool parse_number(const char *text, double *out) {
    const char *body = text + (*text == '+' || *text == '-');
    if (same_word(body, "inf") || same_word(body, "infinity")) {
        *out = *text == '-' ? -__builtin_inf() : __builtin_inf();
        return true;
    }
    if (same_word(body, "nan")) {
        *out = __builtin_inf() - __builtin_inf();
        return true;
    }
    return ls_parse_double(*text == '+' ? body : text, out);
}

static bool parse_u64(const char *text, uint64_t *out) {
    uint64_t y = 0;
    const char *p = text + (*text == '+');
    if (!*p) {
        return false;
    }
    for (; *p; p++) {
        if (*p < '0' || *p > '9' || __builtin_mul_overflow(y, (uint64_t)10, &y) ||
            __builtin_add_overflow(y, (uint64_t)(*p - '0'), &y)) {
            return false;
        }
    }
    *out = y;
    return true;
}

static ls_status not_a_number(ls_onnx_node *n, const char *text) {
    return ls_onnx_fail(n, LS_ERR_INVALID, "the string \"%.40s\": expected a number", text);
}

/* Integers by way of 64 bits, so that large ones stay exact; everything else by way of f64. */
static ls_status from_strings(ls_onnx_node *n, int to, bool saturate, ls_onnx_rounding rounding) {
    const ls_onnx_value *v = n->in[0];
    int64_t count = 1;
    for (int i = 0; i < v->rank; i++) {
        count *= v->dims[i];
    }
    ls_dtype dtype = ls_onnx_carrier(to);
    bool is_whole = !ls_onnx_is_small_float(to) && ls_dtype_is_int(dtype);
    uint64_t *words = LS_ARENA_ARRAY(ls_onnx_arena(n), uint64_t, count + 1);
    if (!words) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory");
    }
    for (int64_t i = 0; i < count; i++) {
        double number = 0;
        int64_t integer;
        const char *text = v->strings[i];
        if (is_whole && dtype == LS_U64 && parse_u64(text, &words[i])) {
            continue;
        }
        if (is_whole && dtype != LS_U64 && ls_parse_i64(text, &integer)) {
            words[i] = (uint64_t)integer;
            continue;
        }
        if (!parse_number(text, &number)) {
            return not_a_number(n, text);
        }
        if (!is_whole) {
            memcpy(&words[i], &number, sizeof number);
        } else if (dtype == LS_U64) {
            words[i] = number > 0 ? number < 0x1p64 ? (uint64_t)number : UINT64_MAX : 0;
        } else {
            bool fits = number > -0x1p63 && number < 0x1p63;
            words[i] = fits               ? (uint64_t)(int64_t)number
                       : number == number ? (uint64_t)(number > 0 ? INT64_MAX : INT64_MIN)
                                          : 0;
        }
    }
    int via = !is_whole ? ONNX_DOUBLE : dtype == LS_U64 ? ONNX_UINT64 : ONNX_INT64;
    ls_tensor *x = ls_tensor_from(n->s, ls_onnx_carrier(via), ls_shape_make(v->rank, v->dims), words);
    return ls_onnx_out_as(n, 0, ls_onnx_convert(n, x, via, to, saturate, rounding), to);
}

/* The fewest digits that read back as the same number of its type, with `significant` at most: plain, or
 * scientific outside [1e-4, 1e16). */
static const char *number_text(ls_arena *arena, double value, bool single) {
    char digits[64], plain[32], parsed[40];
    int n = 0, exponent = 0;
    if (value != value || value - value != 0) {
        return value != value ? "nan" : value > 0 ? "inf" : "-inf";
    }
    if (value == 0) {
        return 1 / value < 0 ? "-0.0" : "0.0";
    }
    double size = value < 0 ? -value : value;
    for (int precision = 1; precision <= 17; precision++) {
        /* Only the digits are taken: the point is the locale's. */
        snprintf(digits, sizeof digits, "%.*e", precision - 1, size);
        const char *e = strchr(digits, 'e');
        int64_t power = 0;
        n = 0;
        for (const char *p = digits; p < e; p++) {
            if (*p >= '0' && *p <= '9') {
                plain[n++] = *p;
            }
        }
        plain[n] = '\0';
        double back = 0;
        if (!e || !ls_parse_i64(e[1] == '+' ? e + 2 : e + 1, &power)) {
            continue;
        }
        exponent = (int)power;
        snprintf(parsed, sizeof parsed, "%se%d", plain, exponent - (n - 1));
        if (ls_parse_double(parsed, &back) && (single ? (float)back == (float)size : back == size)) {
            break;
        }
    }
    const char *sign = value < 0 ? "-" : "";
    if (exponent < -4 || exponent >= 16) {
        return ls_arena_printf(arena, "%s%c%s%se%c%02d", sign, plain[0], n > 1 ? "." : "", plain + 1,
                               exponent < 0 ? '-' : '+', exponent < 0 ? -exponent : exponent);
    }
    if (exponent < 0) {
        return ls_arena_printf(arena, "%s0.%.*s%s", sign, -exponent - 1, "000", plain);
    }
    if (n <= exponent + 1) {
        return ls_arena_printf(arena, "%s%s%.*s.0", sign, plain, exponent + 1 - n, "0000000000000000");
    }
    return ls_arena_printf(arena, "%s%.*s.%s", sign, exponent + 1, plain, plain + exponent + 1);
}

static const char *element_text(ls_arena *arena, ls_dtype dtype, const void *bytes, int64_t i) {
    switch (dtype) {
    case LS_BOOL:
        return ((const uint8_t *)bytes)[i] ? "True" : "False";
    case LS_U64:
        return ls_arena_printf(arena, "%llu", (unsigned long long)((const uint64_t *)bytes)[i]);
    case LS_I64:
        return ls_arena_printf(arena, "%lld", (long long)((const int64_t *)bytes)[i]);
    case LS_F32:
        return number_text(arena, (double)((const float *)bytes)[i], true);
    default:
        return number_text(arena, ((const double *)bytes)[i], false);
    }
}

/* Narrow types are widened first: integers to 64 bits, floats to f32. */
static ls_status to_strings(ls_onnx_node *n) {
    int from = ls_onnx_in_type(n, 0);
    ls_tensor *x = ls_onnx_in_number(n, 0);
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    ls_dtype dtype = ls_tensor_dtype(x);
    if (ls_dtype_is_int(dtype) && dtype != LS_U64) {
        x = ls_cast(n->s, x, LS_I64);
    } else if (dtype == LS_F16 || dtype == LS_BF16) {
        x = ls_cast(n->s, x, LS_F32);
    }
    ls_onnx_value *wide = ls_onnx_value_of(n, x, x ? ls_onnx_type_of(ls_tensor_dtype(x)) : from);
    ls_onnx_value *y = wide ? ls_onnx_value_new(n, ONNX_STRINGS, ONNX_STRING) : NULL;
    const ls_data *data;
    if (!y) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory");
    }
    LS_TRY(n->err, ls_onnx_read_value(n, wide, &data));
    int64_t count = ls_data_numel(data);
    y->known = true;
    y->rank = ls_data_rank(data);
    memcpy(y->dims, ls_data_dims(data), sizeof *y->dims * (size_t)y->rank);
    y->strings = LS_ARENA_ARRAY(ls_onnx_arena(n), const char *, count + 1);
    for (int64_t i = 0; y->strings && i < count; i++) {
        y->strings[i] = element_text(ls_onnx_arena(n), ls_data_dtype(data), ls_data_bytes(data), i);
        if (!y->strings[i]) {
            return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory");
        }
    }
    return y->strings ? ls_onnx_out_value(n, 0, y) : ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory");
}

/* ---- the operators ---- */

static ls_status cast_to(ls_onnx_node *n, int to) {
    int from = ls_onnx_in_type(n, 0);
    bool saturate = ls_onnx_attr_int(n, "saturate", 1) != 0;
    const char *mode = ls_onnx_attr_string(n, "round_mode", "up");
    ls_onnx_rounding rounding = strcmp(mode, "down") == 0      ? ONNX_ROUND_DOWN
                                : strcmp(mode, "nearest") == 0 ? ONNX_ROUND_NEAREST
                                                               : ONNX_ROUND_UP;
    if (rounding == ONNX_ROUND_UP && strcmp(mode, "up") != 0) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "attribute round_mode is \"%s\": expected up, down or nearest",
                            mode);
    }
    if (from == to) {
        return ls_onnx_out_value(n, 0, n->in[0]);
    }
    if (to == ONNX_STRING) {
        return to_strings(n);
    }
    if (ls_onnx_carrier(to) == LS_DTYPE_COUNT) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "a cast to %s", ls_onnx_type_name(to));
    }
    if (from == ONNX_STRING) {
        return from_strings(n, to, saturate, rounding);
    }
    return ls_onnx_out_as(n, 0, ls_onnx_convert(n, ls_onnx_in(n, 0), from, to, saturate, rounding), to);
}

static ls_status op_cast(ls_onnx_node *n) {
    return cast_to(n, (int)ls_onnx_attr_int(n, "to", 0));
}

static ls_status op_cast_like(ls_onnx_node *n) {
    return cast_to(n, ls_onnx_in_type(n, 1));
}

const ls_onnx_op ls_onnx_cast_ops[] = {
    {"", "Cast", 6, 1, 1, op_cast, ONNX_SYMBOLS}, {"", "CastLike", 1, 2, 2, op_cast_like, ONNX_SYMBOLS}, {0}};
