/* Pure instructions on one lane, by the contract. Shared by the interpreter and by constant folding, so that a folded
 * constant is what a thread would have computed. NaNs that arithmetic makes have all payload bits set: a kernel that
 * forgets `canon` before it stores differs visibly, as it would on a GPU. */
#include "kir/kir.h"
#include "base/bits.h"
#include "base/half.h"

uint64_t ls_kir_wrap(ls_dtype t, uint64_t v) {
    if (t == LS_BOOL) {
        return v & 1;
    }
    int bits = ls_dtype_bits(t);
    if (bits >= 64) {
        return v;
    }
    v &= ((uint64_t)1 << bits) - 1;
    bool negative = ls_dtype_is_signed_int(t) && v >> (bits - 1) & 1;
    return negative ? v | ~(uint64_t)0 << bits : v;
}

/* f16, bf16 and f32 registers as a float, exactly. */
static float get32(ls_dtype t, uint64_t v) {
    return t == LS_F32 ? ls_f32_of((uint32_t)v) : t == LS_F16 ? ls_f16_to_f32((uint16_t)v) : ls_bf16_to_f32((uint16_t)v);
}

static double get64(ls_dtype t, uint64_t v) {
    return t == LS_F64 ? ls_f64_of(v) : (double)get32(t, v);
}

static uint64_t put32(ls_dtype t, float f) {
    if (f != f) {
        return t == LS_F32 ? 0x7fffffff : 0x7fff;
    }
    return t == LS_F32 ? ls_f32_bits(f) : t == LS_F16 ? ls_f32_to_f16(f) : ls_f32_to_bf16(f);
}

static uint64_t put64(double d) {
    return d != d ? 0x7fffffffffffffffu : ls_f64_bits(d);
}

/* Rounds a double once to any float type. */
static uint64_t put_any(ls_dtype t, double d) {
    if (t == LS_F64 || d != d) {
        return t == LS_F64 ? put64(d) : put32(t, (float)d);
    }
    return t == LS_F32 ? put32(t, (float)d) : t == LS_F16 ? ls_f64_to_f16(d) : ls_f64_to_bf16(d);
}

typedef uint64_t (*eval_fn)(ls_dtype t, ls_dtype st, const uint64_t *s);

#define DEFINE(ID) static inline uint64_t eval_##ID(ls_dtype t, ls_dtype st, const uint64_t *s)
#define UNUSED_ST (void)st

/* Arithmetic: one expression for floats, one for integers (u is uint64_t; wrapped by the caller's type). */
#define ARITHMETIC(ID, float_expr, int_expr)                                                                 \
    DEFINE(ID) {                                                                                             \
        UNUSED_ST;                                                                                           \
        if (t == LS_F64) {                                                                                   \
            double a = ls_f64_of(s[0]), b = ls_f64_of(s[1]);                                                       \
            (void)b;                                                                                         \
            return put64(float_expr);                                                                        \
        }                                                                                                    \
        if (ls_dtype_is_float(t)) {                                                                          \
            float a = get32(t, s[0]), b = get32(t, s[1]);                                                    \
            (void)b;                                                                                         \
            return put32(t, float_expr);                                                                     \
        }                                                                                                    \
        uint64_t a = s[0], b = s[1];                                                                         \
        (void)b;                                                                                             \
        return ls_kir_wrap(t, int_expr);                                                                     \
    }

static uint64_t int_div(ls_dtype t, uint64_t a, uint64_t b) {
    if (!b) {
        return 0;
    }
    if (!ls_dtype_is_signed_int(t)) {
        return a / b;
    }
    return (int64_t)b == -1 ? 0 - a : (uint64_t)((int64_t)a / (int64_t)b);
}

ARITHMETIC(ADD, a + b, a + b)
ARITHMETIC(SUB, a - b, a - b)
ARITHMETIC(MUL, a *b, a *b)
ARITHMETIC(DIV, a / b, int_div(t, a, b))

DEFINE(REM) {
    UNUSED_ST;
    uint64_t a = s[0], b = s[1];
    if (!b) {
        return 0;
    }
    return ls_kir_wrap(t, a - int_div(t, a, b) * b);
}

static uint64_t sign_bit(ls_dtype t) {
    return (uint64_t)1 << (ls_dtype_bits(t) - 1);
}

DEFINE(NEG) {
    UNUSED_ST;
    return ls_dtype_is_float(t) ? s[0] ^ sign_bit(t) : ls_kir_wrap(t, 0 - s[0]);
}

DEFINE(ABS) {
    UNUSED_ST;
    if (ls_dtype_is_float(t)) {
        return s[0] & ~sign_bit(t);
    }
    return ls_dtype_is_signed_int(t) && (int64_t)s[0] < 0 ? ls_kir_wrap(t, 0 - s[0]) : s[0];
}

/* a < b for integers and bools */
static bool int_less(ls_dtype t, uint64_t a, uint64_t b) {
    return ls_dtype_is_signed_int(t) ? (int64_t)a < (int64_t)b : a < b;
}

static uint64_t min_max(ls_dtype t, const uint64_t *s, bool want_max) {
    if (!ls_dtype_is_float(t)) {
        return int_less(t, s[0], s[1]) == want_max ? s[1] : s[0];
    }
    double a = get64(t, s[0]), b = get64(t, s[1]);
    if (a != a || b != b) {
        return put_any(t, a + b);
    }
    if (a == b) { /* zeros of two signs: max takes a clear sign bit, min a set one */
        return want_max ? s[0] & s[1] : s[0] | s[1];
    }
    return (a < b) == want_max ? s[1] : s[0];
}

DEFINE(MIN) {
    UNUSED_ST;
    return min_max(t, s, false);
}

DEFINE(MAX) {
    UNUSED_ST;
    return min_max(t, s, true);
}

DEFINE(SQRT) {
    UNUSED_ST;
    return t == LS_F64 ? put64(__builtin_sqrt(ls_f64_of(s[0]))) : put32(t, __builtin_sqrtf(get32(t, s[0])));
}

/* ---- fused multiply-add without the C library ---- */

static float fma32(float a, float b, float c) {
    double p = (double)a * (double)b, z = (double)c, sum = p + z; /* p is exact */
    if (sum - sum != 0) {
        return (float)sum;
    }
    double bv = sum - p, error = (p - (sum - bv)) + (z - bv); /* exact */
    uint64_t bits = ls_f64_bits(sum);
    if (error != 0 && !(bits & 1)) { /* to odd, so that the second rounding sees what the first lost */
        bits += (error > 0) == (sum > 0) ? 1 : (uint64_t)-1;
    }
    return (float)ls_f64_of(bits);
}

/* A finite non-zero double as a 53-bit integer times 2^exponent. */
static uint64_t split(double d, int *out_exponent) {
    uint64_t u = ls_f64_bits(d) & 0x7fffffffffffffffu, man = u & 0xfffffffffffffu;
    int e = (int)(u >> 52);
    if (e) {
        man |= (uint64_t)1 << 52;
    } else {
        for (e = 1; !(man >> 52); e--) {
            man <<= 1;
        }
    }
    *out_exponent = e - 1075;
    return man;
}

/* v * 2^e rounded to a double, v > 0; the lowest bit of v may be sticky. */
static double round128(unsigned __int128 v, int e) {
    while (v >> 64) {
        int shift = v >> 96 ? 32 : 1;
        v = v >> shift | ((v & (((unsigned __int128)1 << shift) - 1)) != 0);
        e += shift;
    }
    uint64_t m = (uint64_t)v;
    while (!(m >> 63)) {
        m <<= 1;
        e--;
    }
    /* m in [2^63, 2^64): 53 bits are kept, fewer where the result is subnormal */
    int exponent = e + 63 + 1023, drop = 11;
    if (exponent < 1) {
        drop += 1 - exponent;
        exponent = 0;
    }
    if (drop > 64) {
        return 0;
    }
    uint64_t kept = drop == 64 ? 0 : m >> drop, rest = drop == 64 ? m : m << (64 - drop);
    kept += rest > (uint64_t)1 << 63 || (rest == (uint64_t)1 << 63 && (kept & 1));
    uint64_t bits = exponent ? kept + ((uint64_t)(exponent - 1) << 52) : kept;
    return exponent >= 2047 || bits >= 0x7ff0000000000000u ? ls_f64_of(0x7ff0000000000000u) : ls_f64_of(bits);
}

static double fma64(double a, double b, double c) {
    if (a - a != 0 || b - b != 0) {
        return a * b + c;
    }
    if (c - c != 0) {
        return c;
    }
    if (a == 0 || b == 0) {
        return a * b + c;
    }
    if (c == 0) {
        return a * b;
    }
    int ea, eb, ec;
    uint64_t ma = split(a, &ea), mb = split(b, &eb), mc = split(c, &ec);
    bool product_negative = (a < 0) != (b < 0);
    __int128 p = (__int128)((unsigned __int128)ma * mb) << 18, z; /* [2^122, 2^124) */
    int e = ea + eb - 18, shift = ec - e;
    if (shift > 72) { /* c towers over the product */
        z = (__int128)mc << 72;
        int down = shift - 72;
        p = down > 126 ? 1 : p >> down | ((p & (((__int128)1 << down) - 1)) != 0);
        e += down;
    } else if (shift >= 0) {
        z = (__int128)mc << shift;
    } else {
        int down = -shift;
        z = down > 63 ? 1 : (__int128)(mc >> down | ((mc & (((uint64_t)1 << down) - 1)) != 0));
    }
    __int128 sum = (product_negative ? -p : p) + (c < 0 ? -z : z);
    if (!sum) {
        return 0;
    }
    double r = round128((unsigned __int128)(sum < 0 ? -sum : sum), e);
    return sum < 0 ? -r : r;
}

DEFINE(FMA) {
    UNUSED_ST;
    return t == LS_F64 ? put64(fma64(ls_f64_of(s[0]), ls_f64_of(s[1]), ls_f64_of(s[2])))
                       : put32(t, fma32(get32(t, s[0]), get32(t, s[1]), get32(t, s[2])));
}

/* ---- whole numbers ---- */

enum { TO_FLOOR, TO_CEIL, TO_TRUNC, TO_RINT };

static uint64_t whole(ls_dtype t, uint64_t v, int how) {
    double x = get64(t, v), mag = ls_f64_of(ls_f64_bits(x) & 0x7fffffffffffffffu);
    if (!(mag < 0x1p52)) {
        return x != x ? put_any(t, x) : v;
    }
    double r = how == TO_RINT ? (mag + 0x1p52) - 0x1p52 : (double)(int64_t)mag;
    r = x < 0 ? -r : r;
    if (how == TO_FLOOR && r > x) {
        r -= 1;
    }
    if (how == TO_CEIL && r < x) {
        r += 1;
    }
    uint64_t sign = ls_f64_bits(x) & 0x8000000000000000u;
    return put_any(t, r == 0 ? ls_f64_of(sign) : r);
}

DEFINE(FLOOR) {
    UNUSED_ST;
    return whole(t, s[0], TO_FLOOR);
}

DEFINE(CEIL) {
    UNUSED_ST;
    return whole(t, s[0], TO_CEIL);
}

DEFINE(TRUNC) {
    UNUSED_ST;
    return whole(t, s[0], TO_TRUNC);
}

DEFINE(RINT) {
    UNUSED_ST;
    return whole(t, s[0], TO_RINT);
}

DEFINE(CANON) {
    UNUSED_ST;
    double x = get64(t, s[0]);
    return x == x        ? s[0]
           : t == LS_F64 ? LS_NAN_F64
           : t == LS_F32 ? LS_NAN_F32
           : t == LS_F16 ? LS_NAN_F16
                         : LS_NAN_BF16;
}

/* ---- integers and bits ---- */

DEFINE(UMULHI) {
    UNUSED_ST;
    return t == LS_U32 ? s[0] * s[1] >> 32 : (uint64_t)((unsigned __int128)s[0] * s[1] >> 64);
}

DEFINE(POPCOUNT) {
    UNUSED_ST;
    int bits = ls_dtype_bits(t), n = 0;
    for (int i = 0; i < bits; i++) {
        n += (int)(s[0] >> i & 1);
    }
    return (uint64_t)n;
}

DEFINE(AND) {
    (void)t, UNUSED_ST;
    return s[0] & s[1];
}

DEFINE(OR) {
    (void)t, UNUSED_ST;
    return s[0] | s[1];
}

DEFINE(XOR) {
    (void)t, UNUSED_ST;
    return s[0] ^ s[1];
}

DEFINE(NOT) {
    UNUSED_ST;
    return ls_kir_wrap(t, ~s[0]);
}

/* A count with the bits of a negative number is a large unsigned one, whatever its width. */
DEFINE(SHL) {
    UNUSED_ST;
    return s[1] >= (uint64_t)ls_dtype_bits(t) ? 0 : ls_kir_wrap(t, s[0] << s[1]);
}

DEFINE(SHR) {
    UNUSED_ST;
    uint64_t width = (uint64_t)ls_dtype_bits(t);
    if (ls_dtype_is_signed_int(t)) {
        uint64_t n = s[1] >= width ? width - 1 : s[1];
        return (int64_t)s[0] < 0 ? ~(~s[0] >> n) : s[0] >> n;
    }
    return s[1] >= width ? 0 : s[0] >> s[1];
}

/* ---- comparing ---- */

#define COMPARISON(ID, float_expr, int_expr)                                                                 \
    DEFINE(ID) {                                                                                             \
        (void)t;                                                                                             \
        if (ls_dtype_is_float(st)) {                                                                         \
            double a = get64(st, s[0]), b = get64(st, s[1]);                                                 \
            return float_expr;                                                                               \
        }                                                                                                    \
        return int_expr;                                                                                     \
    }

COMPARISON(EQ, a == b, s[0] == s[1])
COMPARISON(NE, a != b, s[0] != s[1])
COMPARISON(LT, a < b, int_less(st, s[0], s[1]))
COMPARISON(LE, a <= b, !int_less(st, s[1], s[0]))

DEFINE(SELECT) {
    (void)t, UNUSED_ST;
    return s[0] ? s[1] : s[2];
}

/* ---- types ---- */

static uint64_t float_to_int(ls_dtype t, double x) {
    if (x != x) {
        return 0;
    }
    int bits = ls_dtype_bits(t);
    if (ls_dtype_is_signed_int(t)) {
        double edge = (double)((uint64_t)1 << (bits - 1)); /* exact */
        int64_t top = (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
        return x >= edge ? (uint64_t)top : x <= -edge ? (uint64_t)(-top - 1) : (uint64_t)(int64_t)x;
    }
    double edge = 2.0 * (double)((uint64_t)1 << (bits - 1));
    return x >= edge ? ls_kir_wrap(t, ~(uint64_t)0) : x <= 0 ? 0 : (uint64_t)x;
}

static uint64_t int_to_float(ls_dtype t, ls_dtype st, uint64_t v) {
    bool negative = ls_dtype_is_signed_int(st) && (int64_t)v < 0;
    uint64_t mag = negative ? 0 - v : v;
    if (t == LS_F64) {
        double d = (double)mag;
        return ls_f64_bits(negative ? -d : d);
    }
    if (t == LS_F32) {
        float f = (float)mag;
        return put32(t, negative ? -f : f);
    }
    if (mag >> 53) { /* keeps a sticky bit, so that only the last step rounds */
        mag = (mag >> 12 | ((mag & 4095) != 0)) << 12;
    }
    double d = (double)mag;
    return put_any(t, negative ? -d : d);
}

DEFINE(CAST) {
    bool from_float = ls_dtype_is_float(st), to_float = ls_dtype_is_float(t);
    if (t == LS_BOOL) {
        return from_float ? !(get64(st, s[0]) == 0) : s[0] != 0;
    }
    if (from_float) {
        double x = get64(st, s[0]);
        return to_float ? put_any(t, x) : float_to_int(t, x);
    }
    return to_float ? int_to_float(t, st, s[0]) : ls_kir_wrap(t, s[0]);
}

DEFINE(BITCAST) {
    UNUSED_ST;
    return ls_kir_wrap(t, s[0]);
}

#define EVAL_PURE(ID) [LS_K_##ID] = eval_##ID,
#define EVAL_CONTROL(ID)
#define EVAL_LEAF(ID)
#define EVAL_VECTOR(ID)
#define EVAL_MEMORY(ID)
#define EVAL_GROUP(ID)
#define EVAL_MATRIX(ID)
static const eval_fn evals[LS_K_COUNT] = {
#define INS(ID, name, class, rule, sources, doc) EVAL_##class(ID)
#include "kir/ins.def"
#undef INS
};

uint64_t ls_kir_eval(ls_kop op, ls_dtype dtype, ls_dtype src_dtype, const uint64_t src[3]) {
    return evals[op](dtype, src_dtype, src);
}

/* out[t] = eval(...) for active threads. */
#define EACH_THREAD(eval, dtype, src_dtype)                                                                  \
    for (int t = 0; t < n; t++) {                                                                            \
        if (mask[t]) {                                                                                       \
            out[t] = eval(dtype, src_dtype, (const uint64_t[3]){src[0][t], src[1][t], src[2][t]});           \
        }                                                                                                    \
    }

void ls_kir_eval_threads(ls_kop op, ls_dtype dtype, ls_dtype src_dtype, const uint64_t *const src[3],
                         const uint8_t *mask, int n, uint64_t *out) {
    if (op == LS_K_ADD && dtype == LS_F32) { /* what is most asked for, with its type known */
        EACH_THREAD(eval_ADD, LS_F32, LS_F32)
    } else if (op == LS_K_MUL && dtype == LS_F32) {
        EACH_THREAD(eval_MUL, LS_F32, LS_F32)
    } else if (op == LS_K_ADD && dtype == LS_I32) {
        EACH_THREAD(eval_ADD, LS_I32, LS_I32)
    } else if (op == LS_K_MUL && dtype == LS_I32) {
        EACH_THREAD(eval_MUL, LS_I32, LS_I32)
    } else {
        const eval_fn eval = evals[op];
        EACH_THREAD(eval, dtype, src_dtype)
    }
}
