/* The contract's element-wise arithmetic (docs/contract.md), written for clarity: f16 and bf16 compute in f32
 * and round once, integers wrap, comparisons give bool. Compiled without contraction, so that * and + are
 * separate roundings. */
#include "backend/ref/scalar.h"
#include "base/bits.h"
#include "base/half.h"
#include "math/math.h"
#include <string.h>

typedef enum { KIND_UNSIGNED, KIND_SIGNED, KIND_F32, KIND_F64 } kind;

static kind kind_of(ls_dtype dtype) {
    return dtype == LS_F64             ? KIND_F64
           : ls_dtype_is_float(dtype)  ? KIND_F32
           : ls_dtype_is_signed(dtype) ? KIND_SIGNED
                                       : KIND_UNSIGNED;
}

static int width_of(ls_dtype dtype) {
    return (int)ls_dtype_bytes(dtype) * 8;
}

static ls_cell cell_f(float f) {
    return (ls_cell){.f = f};
}
static ls_cell cell_d(double d) {
    return (ls_cell){.d = d};
}
static ls_cell cell_u(uint64_t u) {
    return (ls_cell){.u = u};
}

/* An integer result brought back into its width. */
static ls_cell wrap(ls_dtype dtype, uint64_t u) {
    if (dtype == LS_BOOL) {
        return cell_u(u & 1);
    }
    int unused = 64 - width_of(dtype);
    if (ls_dtype_is_signed(dtype)) {
        return (ls_cell){.i = (int64_t)(u << unused) >> unused};
    }
    return cell_u(u << unused >> unused);
}

/* A float result rounded to its dtype. */
static ls_cell round_f(ls_dtype dtype, float f) {
    if (dtype == LS_F16) {
        return cell_f(ls_f16_to_f32(ls_f32_to_f16(f)));
    }
    if (dtype == LS_BF16) {
        return cell_f(ls_bf16_to_f32(ls_f32_to_bf16(f)));
    }
    return cell_f(f);
}

ls_cell ls_cell_from_bits(ls_dtype dtype, uint64_t bits) {
    switch (kind_of(dtype)) {
    case KIND_F64: return (ls_cell){.d = ls_f64_of(bits)};
    case KIND_F32:
        if (dtype == LS_F16) {
            return cell_f(ls_f16_to_f32((uint16_t)bits));
        }
        if (dtype == LS_BF16) {
            return cell_f(ls_bf16_to_f32((uint16_t)bits));
        }
        return cell_f(ls_f32_of((uint32_t)bits));
    default: return wrap(dtype, bits);
    }
}

uint64_t ls_cell_to_bits(ls_dtype dtype, ls_cell c) {
    switch (kind_of(dtype)) {
    case KIND_F64: return c.d != c.d ? LS_NAN_F64 : ls_f64_bits(c.d);
    case KIND_F32:
        if (dtype == LS_F16) {
            return c.f != c.f ? LS_NAN_F16 : ls_f32_to_f16(c.f);
        }
        if (dtype == LS_BF16) {
            return c.f != c.f ? LS_NAN_BF16 : ls_f32_to_bf16(c.f);
        }
        return c.f != c.f ? LS_NAN_F32 : ls_f32_bits(c.f);
    default: {
        int unused = 64 - width_of(dtype);
        return c.u << unused >> unused;
    }
    }
}

ls_cell ls_cell_load(ls_dtype dtype, const void *base, int64_t element) {
    if (dtype == LS_F32) { /* what most elements are, spelled out for speed */
        float f;
        memcpy(&f, (const char *)base + (size_t)element * sizeof f, sizeof f);
        return cell_f(f);
    }
    size_t size = ls_dtype_bytes(dtype);
    uint64_t bits = 0;
    memcpy(&bits, (const char *)base + (size_t)element * size, size); /* little-endian hosts */
    return ls_cell_from_bits(dtype, bits);
}

void ls_cell_store(ls_dtype dtype, void *base, int64_t element, ls_cell cell) {
    size_t size = ls_dtype_bytes(dtype);
    uint64_t bits = ls_cell_to_bits(dtype, cell);
    memcpy((char *)base + (size_t)element * size, &bits, size);
}

bool ls_cell_is_nan(ls_dtype dtype, ls_cell c) {
    kind k = kind_of(dtype);
    return (k == KIND_F32 && c.f != c.f) || (k == KIND_F64 && c.d != c.d);
}

static int64_t saturate_signed(double d, int width) {
    if (d != d) {
        return 0;
    }
    double top = (double)(UINT64_C(1) << (width - 1)); /* 2^(width-1), exact */
    int64_t max = (int64_t)((UINT64_C(1) << (width - 1)) - 1);
    return d >= top ? max : d < -top ? -max - 1 : (int64_t)d;
}

static uint64_t saturate_unsigned(double d, int width) {
    if (!(d > 0)) {
        return 0;
    }
    uint64_t max = ~UINT64_C(0) >> (64 - width);
    double top = 2.0 * (double)(UINT64_C(1) << (width - 1));
    return d >= top ? max : (uint64_t)d;
}

/* An integer as a double that rounds to any narrower format as the integer itself would: beyond 53 bits the
 * rest is folded into a sticky last bit (round to odd). */
static double sticky_double(uint64_t magnitude, bool negative) {
    int drop = 0;
    while (magnitude >> drop >> 53) {
        drop++;
    }
    uint64_t kept = magnitude >> drop;
    if (magnitude & ((UINT64_C(1) << drop) - 1)) {
        kept |= 1;
    }
    double d = (double)kept * (double)(UINT64_C(1) << drop);
    return negative ? -d : d;
}

static ls_cell from_double(ls_dtype to, double d) {
    switch (to) {
    case LS_F64:
        return cell_d(d);
    case LS_F16:
        return cell_f(ls_f16_to_f32(ls_f64_to_f16(d)));
    case LS_BF16:
        return cell_f(ls_bf16_to_f32(ls_f64_to_bf16(d)));
    default:
        return cell_f((float)d);
    }
}

static ls_cell from_integer(ls_dtype to, uint64_t magnitude, bool negative) {
    if (to == LS_F64 || to == LS_F32) { /* the conversion of the language rounds once */
        double d = negative ? -(double)magnitude : (double)magnitude;
        float f = negative ? -(float)magnitude : (float)magnitude;
        return to == LS_F64 ? cell_d(d) : cell_f(f);
    }
    return from_double(to, sticky_double(magnitude, negative));
}

ls_cell ls_cell_cast(ls_dtype from, ls_dtype to, ls_cell c) {
    kind a = kind_of(from), b = kind_of(to);
    if (from == to) {
        return c;
    }
    if (a == KIND_F32 || a == KIND_F64) {
        double d = a == KIND_F64 ? c.d : (double)c.f;
        if (to == LS_BOOL) {
            return cell_u(d != 0);
        }
        if (b == KIND_SIGNED) {
            return (ls_cell){.i = saturate_signed(d, width_of(to))};
        }
        if (b == KIND_UNSIGNED) {
            return cell_u(saturate_unsigned(d, width_of(to)));
        }
        return from_double(to, d);
    }
    if (to == LS_BOOL) {
        return cell_u(c.u != 0);
    }
    if (b == KIND_SIGNED || b == KIND_UNSIGNED) {
        return wrap(to, c.u);
    }
    bool negative = a == KIND_SIGNED && c.i < 0;
    return from_integer(to, negative ? -c.u : c.u, negative);
}

/* x - trunc(x/y)*y, exact: binary long division on the integer significands. */
static double remainder_of(double x, double y) {
    uint64_t ux = ls_f64_bits(x), uy = ls_f64_bits(y), sign = ux & (UINT64_C(1) << 63);
    ux ^= sign;
    uy &= ~(UINT64_C(1) << 63);
    const uint64_t infinity = UINT64_C(0x7ff) << 52;
    if (uy == 0 || ux >= infinity || uy > infinity) {
        return (x - x) / (y - y);
    }
    if (ux < uy) {
        return x;
    }
    int ex = (int)(ux >> 52), ey = (int)(uy >> 52);
    uint64_t mask = (UINT64_C(1) << 52) - 1;
    uint64_t mx = ex ? (ux & mask) | (mask + 1) : ux, my = ey ? (uy & mask) | (mask + 1) : uy;
    ex += ex == 0;
    ey += ey == 0;
    mx %= my;
    for (int left = ex - ey; left > 0 && mx;) { /* my < 2^53, so 11 more bits fit at a time */
        int step = left < 11 ? left : 11;
        mx = (mx << step) % my;
        left -= step;
    }
    uint64_t bits = 0;
    if (mx) {
        int e = ey;
        while (!(mx >> 52) && e > 1) {
            mx <<= 1;
            e--;
        }
        bits = mx >> 52 ? (mx & mask) | (uint64_t)e << 52 : mx;
    }
    return ls_f64_of(bits | sign);
}

static bool sign_f(double d) {
    return ls_f64_bits(d) >> 63;
}

static float min_f(float a, float b) {
    return a != a || b != b ? ls_f32_of(LS_NAN_F32) : a == b ? (sign_f(a) ? a : b) : a < b ? a : b;
}
static float max_f(float a, float b) {
    return a != a || b != b ? ls_f32_of(LS_NAN_F32) : a == b ? (sign_f(a) ? b : a) : a > b ? a : b;
}
static double min_d(double a, double b) {
    return a != a ? a : b != b ? b : a == b ? (sign_f(a) ? a : b) : a < b ? a : b;
}
static double max_d(double a, double b) {
    return a != a ? a : b != b ? b : a == b ? (sign_f(a) ? b : a) : a > b ? a : b;
}

/* Operations on floats whose result is of the same dtype. FLOAT_CASES(s, T) lists them once for f32 and f64.
 */
#define FLOAT_UNARY(X)                                                                                       \
    X(FLOOR, floor)                                                                                          \
    X(CEIL, ceil) X(TRUNC, trunc) X(RINT, rint) X(SQRT, sqrt) X(RSQRT, rsqrt) X(CBRT, cbrt) X(EXP, exp)      \
        X(EXP2, exp2) X(EXPM1, expm1) X(LOG, log) X(LOG2, log2) X(LOG1P, log1p) X(SIN, sin) X(COS, cos)      \
            X(TAN, tan) X(ASIN, asin) X(ACOS, acos) X(ATAN, atan) X(SINH, sinh) X(COSH, cosh) X(TANH, tanh)  \
                X(ERF, erf) X(ERFC, erfc)
#define FLOAT_MAP(suffix, type, tag)                                                                         \
    static bool map_##suffix(ls_op op, type a, type b, type *out) {                                          \
        switch (op) {                                                                                        \
        case LS_OP_NEG:                                                                                      \
            *out = -a;                                                                                       \
            return true;                                                                                     \
        case LS_OP_ABS:                                                                                      \
            *out = sign_f((double)a) ? -a : a;                                                               \
            return true;                                                                                     \
        case LS_OP_SIGN:                                                                                     \
            *out = a > 0 ? 1 : a < 0 ? -1 : a;                                                               \
            return true;                                                                                     \
        case LS_OP_RECIP:                                                                                    \
            *out = 1 / a;                                                                                    \
            return true;                                                                                     \
        case LS_OP_ADD:                                                                                      \
            *out = a + b;                                                                                    \
            return true;                                                                                     \
        case LS_OP_SUB:                                                                                      \
            *out = a - b;                                                                                    \
            return true;                                                                                     \
        case LS_OP_MUL:                                                                                      \
            *out = a * b;                                                                                    \
            return true;                                                                                     \
        case LS_OP_DIV:                                                                                      \
            *out = a / b;                                                                                    \
            return true;                                                                                     \
        case LS_OP_REM:                                                                                      \
            *out = (type)remainder_of((double)a, (double)b);                                                 \
            return true;                                                                                     \
        case LS_OP_POW:                                                                                      \
            *out = ls_pow_##suffix(a, b);                                                                    \
            return true;                                                                                     \
        case LS_OP_MIN:                                                                                      \
            *out = min_##tag(a, b);                                                                          \
            return true;                                                                                     \
        case LS_OP_MAX:                                                                                      \
            *out = max_##tag(a, b);                                                                          \
            return true;                                                                                     \
            FLOAT_UNARY(FLOAT_UNARY_CASE_##suffix)                                                           \
        default:                                                                                             \
            return false;                                                                                    \
        }                                                                                                    \
    }
#define FLOAT_UNARY_CASE_f32(id, name)                                                                       \
    case LS_OP_##id:                                                                                         \
        *out = ls_##name##_f32(a);                                                                           \
        return true;
#define FLOAT_UNARY_CASE_f64(id, name)                                                                       \
    case LS_OP_##id:                                                                                         \
        *out = ls_##name##_f64(a);                                                                           \
        return true;
FLOAT_MAP(f32, float, f)
FLOAT_MAP(f64, double, d)

/* Predicates on floats. f32 widens exactly. */
static bool test_float(ls_op op, double a, double b) {
    switch (op) {
    case LS_OP_ISNAN:
        return a != a;
    case LS_OP_ISINF:
        return a == a && a - a != 0;
    case LS_OP_EQ:
        return a == b;
    case LS_OP_NE:
        return a != b;
    case LS_OP_LT:
        return a < b;
    case LS_OP_LE:
        return a <= b;
    default:
        return false; /* op.def has no other */
    }
}

static uint64_t divide(ls_dtype dtype, ls_cell a, ls_cell b, bool remainder) {
    if (b.u == 0) {
        return 0;
    }
    if (!ls_dtype_is_signed(dtype)) {
        return remainder ? a.u % b.u : a.u / b.u;
    }
    if (b.i == -1) { /* MIN / -1 = MIN by wrapping */
        return remainder ? 0 : -a.u;
    }
    return (uint64_t)(remainder ? a.i % b.i : a.i / b.i);
}

static uint64_t shift(ls_op op, ls_dtype dtype, ls_cell a, ls_cell b) {
    int width = width_of(dtype);
    uint64_t by = ls_cell_to_bits(dtype, b); /* the count is read as unsigned */
    bool is_signed = ls_dtype_is_signed(dtype);
    if (op == LS_OP_SHL) {
        return by >= (uint64_t)width ? 0 : a.u << by;
    }
    if (is_signed) {
        return (uint64_t)(a.i >> (by >= (uint64_t)width ? 63 : by));
    }
    return by >= (uint64_t)width ? 0 : a.u >> by;
}

static ls_cell map_integer(ls_op op, ls_dtype dtype, ls_dtype out, ls_cell a, ls_cell b) {
    bool is_signed = ls_dtype_is_signed(dtype);
    bool less = is_signed ? a.i < b.i : a.u < b.u;
    uint64_t r;
    switch (op) {
    case LS_OP_NEG:
        r = -a.u;
        break;
    case LS_OP_ABS:
        r = is_signed && a.i < 0 ? -a.u : a.u;
        break;
    case LS_OP_SIGN:
        r = is_signed && a.i < 0 ? ~UINT64_C(0) : a.u != 0;
        break;
    case LS_OP_NOT:
        r = dtype == LS_BOOL ? !a.u : ~a.u;
        break;
    case LS_OP_POPCOUNT:
        r = (uint64_t)__builtin_popcountll(ls_cell_to_bits(dtype, a));
        break;
    case LS_OP_ADD:
        r = a.u + b.u;
        break;
    case LS_OP_SUB:
        r = a.u - b.u;
        break;
    case LS_OP_MUL:
        r = a.u * b.u;
        break;
    case LS_OP_DIV:
        r = divide(dtype, a, b, false);
        break;
    case LS_OP_REM:
        r = divide(dtype, a, b, true);
        break;
    case LS_OP_MIN:
        r = less ? a.u : b.u;
        break;
    case LS_OP_MAX:
        r = less ? b.u : a.u;
        break;
    case LS_OP_AND:
        r = a.u & b.u;
        break;
    case LS_OP_OR:
        r = a.u | b.u;
        break;
    case LS_OP_XOR:
        r = a.u ^ b.u;
        break;
    case LS_OP_SHL:
    case LS_OP_SHR:
        r = shift(op, dtype, a, b);
        break;
    case LS_OP_EQ:
        r = a.u == b.u;
        break;
    case LS_OP_NE:
        r = a.u != b.u;
        break;
    case LS_OP_LT:
        r = less;
        break;
    case LS_OP_LE:
        r = less || a.u == b.u;
        break;
    default:
        r = 0;
        break; /* op.def admits no other operation on integers */
    }
    return wrap(out, r);
}

ls_cell ls_cell_map(ls_op op, ls_dtype dtype, ls_dtype out, ls_cell a, ls_cell b, ls_cell c) {
    switch (op) {
    case LS_OP_WHERE: return a.u ? b : c;
    case LS_OP_CAST: return ls_cell_cast(dtype, out, a);
    case LS_OP_BITCAST: return ls_cell_from_bits(out, ls_cell_to_bits(dtype, a));
    default: break;
    }
    if (!ls_dtype_is_float(dtype)) {
        return map_integer(op, dtype, out, a, b);
    }
    if (dtype == LS_F64) {
        double d;
        return map_f64(op, a.d, b.d, &d) ? cell_d(d) : cell_u(test_float(op, a.d, b.d));
    }
    float f;
    return map_f32(op, a.f, b.f, &f) ? round_f(out, f) : cell_u(test_float(op, (double)a.f, (double)b.f));
}

ls_cell ls_cell_identity(ls_op reduce, ls_dtype dtype) {
    bool f64 = dtype == LS_F64, real = ls_dtype_is_float(dtype), is_signed = ls_dtype_is_signed(dtype);
    int width = width_of(dtype);
    uint64_t umax = dtype == LS_BOOL ? 1 : ~UINT64_C(0) >> (64 - width), imax = umax >> 1;
    switch (reduce) {
    case LS_OP_PROD:
        return f64 ? cell_d(1) : real ? cell_f(1) : cell_u(1);
    case LS_OP_AMIN:
        return f64    ? cell_d(__builtin_inf())
               : real ? cell_f(__builtin_inff())
                      : cell_u(is_signed ? imax : umax);
    case LS_OP_AMAX:
        return f64    ? cell_d(-__builtin_inf())
               : real ? cell_f(-__builtin_inff())
                      : wrap(dtype, is_signed ? imax + 1 : 0);
    default:
        return cell_u(0);
    }
}

ls_cell ls_cell_combine(ls_op reduce, ls_dtype dtype, ls_cell a, ls_cell b) {
    static const ls_op map[] = {LS_OP_ADD, LS_OP_MUL, LS_OP_MIN,
                                LS_OP_MAX}; /* in the order of SUM, PROD, AMIN, AMAX */
    return ls_cell_map(map[reduce - LS_OP_SUM], dtype, dtype, a, b, b);
}

bool ls_cell_before(ls_dtype dtype, bool descending, ls_cell a, ls_cell b) {
    if (ls_cell_is_nan(dtype, a) || ls_cell_is_nan(dtype, b)) {
        return !ls_cell_is_nan(dtype, a);
    }
    ls_cell x = descending ? b : a, y = descending ? a : b;
    return ls_cell_map(LS_OP_LT, dtype, LS_BOOL, x, y, y).u;
}
