/* Element-wise arithmetic on balls: real results with the radius that the contract's roundings allow.
 *
 * Notation: u is the unit roundoff of a dtype (half an ULP, relative). A correctly rounded operation costs
 * u*|x|, a function of k ULP costs 2k*u*|x|, plus the same count of smallest subnormals. Sources: Higham,
 * Accuracy and Stability of Numerical Algorithms, 2nd ed., chapters 2 and 3; the ULPs stand in
 * docs/elementary.md. */
#include "math/math.h"
#include "oracle/oracle.h"

#define INF __builtin_inf()
static const double EPS = 0x1p-53; /* the oracle's own unit roundoff */

double ls_unit_roundoff(ls_dtype dtype) {
    return dtype == LS_F64    ? 0x1p-53
           : dtype == LS_F32  ? 0x1p-24
           : dtype == LS_F16  ? 0x1p-11
           : dtype == LS_BF16 ? 0x1p-8
                              : 0;
}
double ls_smallest(ls_dtype dtype) {
    return dtype == LS_F64    ? 0x1p-1074
           : dtype == LS_F32  ? 0x1p-149
           : dtype == LS_F16  ? 0x1p-24
           : dtype == LS_BF16 ? 0x1p-133
                              : 0;
}
static double overflow_at(ls_dtype dtype) { /* from here on a value rounds to infinity */
    return dtype == LS_F64 ? INF : dtype == LS_F32 ? 0x1.ffffffp127 : dtype == LS_F16 ? 65520.0 : 0x1.ffp127;
}

static double abs_of(double x) {
    return __builtin_fabs(x);
}
static double max_of(double a, double b) {
    return a > b || a != a ? a : b;
}
static bool finite(double x) {
    return x - x == 0;
}
/* A sum or product of radii, rounded upwards. */
static double up(double r) {
    return r != r ? INF : r * (1 + 4 * EPS);
}

ls_ball ls_ball_round(ls_dtype dtype, ls_ball x, double roundings) {
    if (!finite(x.m)) { /* NaN and infinities of exact operands are themselves */
        return (ls_ball){x.m, x.r == 0 ? 0 : INF};
    }
    double top = abs_of(x.m) + x.r, limit = overflow_at(dtype);
    if (abs_of(x.m) - x.r >= limit) {
        return (ls_ball){x.m < 0 ? -INF : INF, 0};
    }
    if (top * (1 + 2 * roundings * ls_unit_roundoff(dtype)) >= limit) {
        return (ls_ball){x.m, INF};
    }
    double cost = roundings * (ls_unit_roundoff(dtype) * top + ls_smallest(dtype) / 2);
    return (ls_ball){x.m, up(x.r + cost)};
}

typedef double (*real_fn)(double);

/* The hull of a function's values over a ball, given its values at the ends and whether it has an extremum
 * inside. */
static ls_ball hull(double mid, double low, double high) {
    return (ls_ball){mid, up(max_of(abs_of(high - mid), abs_of(mid - low)))};
}

static ls_ball monotone(real_fn f, ls_ball a, double lowest, double highest) {
    double m = f(a.m);
    if (a.r == 0) {
        return (ls_ball){m, 0};
    }
    double lo = a.m - a.r, hi = a.m + a.r;
    if (!finite(a.r) || lo < lowest || hi > highest) {
        return (ls_ball){m, INF};
    }
    return hull(m, f(lo), f(hi));
}

static ls_ball even(real_fn f, ls_ball a) { /* cosh: smallest at 0, grows with |x| */
    double m = f(a.m), top = abs_of(a.m) + a.r, bottom = max_of(abs_of(a.m) - a.r, 0);
    return a.r == 0 ? (ls_ball){m, 0} : hull(m, f(bottom), f(top));
}

static ls_ball step(real_fn f, ls_ball a) { /* floor and its kin: exact on one piece, the hull across */
    double m = f(a.m);
    return a.r == 0 || !finite(a.m) || !finite(a.r) ? (ls_ball){m, a.r == 0 ? 0 : INF} : hull(m, f(a.m - a.r), f(a.m + a.r));
}

static ls_ball wave(real_fn f, ls_ball a) { /* steepness 1, values in [-1, 1]; what overflowed may be NaN */
    return (ls_ball){f(a.m), a.r < 2 || !finite(a.r) ? a.r : 2};
}

static ls_ball tangent(ls_ball a) {
    double m = ls_tan_f64(a.m);
    if (a.r == 0) {
        return (ls_ball){m, 0};
    }
    double lo = ls_tan_f64(a.m - a.r), hi = ls_tan_f64(a.m + a.r);
    return a.r < 1.5 && lo <= m && m <= hi ? hull(m, lo, hi)
                                           : (ls_ball){m, INF}; /* a pole inside turns the order round */
}

static ls_ball power(ls_ball a, ls_ball b) {
    double m = ls_pow_f64(a.m, b.m);
    if (a.r == 0 && b.r == 0) {
        return (ls_ball){m, 0};
    }
    if (a.m - a.r <= 0) {
        if (b.r == 0 && b.m == 2) { /* the square, the one power of signed numbers that composites use */
            return (ls_ball){m, up(a.r * (2 * abs_of(a.m) + a.r))};
        }
        return (ls_ball){m, INF};
    }
    double lo = m, hi = m;
    for (int i = 0; i < 4; i++) { /* monotone in each argument for a positive base */
        double corner = ls_pow_f64(i & 1 ? a.m + a.r : a.m - a.r, i & 2 ? b.m + b.r : b.m - b.r);
        lo = corner < lo ? corner : lo;
        hi = max_of(corner, hi);
    }
    return hull(m, lo, hi);
}

/* Remainder: exact by long division, else on one piece of the quotient, as long as that can be told. */
static ls_ball remainder_ball(ls_ball a, ls_ball b) {
    double by = abs_of(b.m), x = abs_of(a.m), q = ls_trunc_f64(a.m / b.m);
    if (a.r == 0 && b.r == 0) {
        if (by > 0 && finite(by) && finite(x)) {
            double d = by;
            while (d <= x / 2) {
                d *= 2;
            }
            for (; d >= by; d /= 2) {
                x -= x >= d ? d : 0;
            }
            return (ls_ball){__builtin_copysign(x, a.m), 0};
        }
        return (ls_ball){finite(x) && !finite(by) && by == by ? a.m : __builtin_nan(""), 0};
    }
    bool far = finite(x) && by > 0 && finite(by) && !(abs_of(q) < 0x1p50);
    return (ls_ball){far ? 0 : a.m - q * b.m, up(by + b.r + a.r + EPS * (far ? 0 : x))};
}

double ls_oracle_ulps(ls_op op) {
    return op == LS_OP_TAN || op == LS_OP_POW || op == LS_OP_ERFC ? 4 : 2;
}

/* An elementary function: `exact` in float64 is itself good to 2 ULP. */
static ls_ball elementary(ls_op op, ls_dtype compute, ls_ball y) {
    y.r = up(y.r + 4 * EPS * abs_of(y.m));
    return ls_ball_round(compute, y, 2 * ls_oracle_ulps(op));
}

static ls_ball function(ls_op op, ls_ball a, bool *out_known) {
    *out_known = true;
    switch (op) {
    case LS_OP_CBRT:
        return monotone(ls_cbrt_f64, a, -INF, INF);
    case LS_OP_EXP:
        return monotone(ls_exp_f64, a, -INF, INF);
    case LS_OP_EXP2:
        return monotone(ls_exp2_f64, a, -INF, INF);
    case LS_OP_EXPM1:
        return monotone(ls_expm1_f64, a, -INF, INF);
    case LS_OP_LOG:
        return monotone(ls_log_f64, a, 0, INF);
    case LS_OP_LOG2:
        return monotone(ls_log2_f64, a, 0, INF);
    case LS_OP_LOG1P:
        return monotone(ls_log1p_f64, a, -1, INF);
    case LS_OP_SIN:
        return wave(ls_sin_f64, a);
    case LS_OP_COS:
        return wave(ls_cos_f64, a);
    case LS_OP_TAN:
        return tangent(a);
    case LS_OP_ASIN:
        return monotone(ls_asin_f64, a, -1, 1);
    case LS_OP_ACOS:
        return monotone(ls_acos_f64, a, -1, 1);
    case LS_OP_ATAN:
        return monotone(ls_atan_f64, a, -INF, INF);
    case LS_OP_SINH:
        return monotone(ls_sinh_f64, a, -INF, INF);
    case LS_OP_COSH:
        return even(ls_cosh_f64, a);
    case LS_OP_TANH:
        return monotone(ls_tanh_f64, a, -INF, INF);
    case LS_OP_ERF:
        return monotone(ls_erf_f64, a, -INF, INF);
    case LS_OP_ERFC:
        return monotone(ls_erfc_f64, a, -INF, INF);
    default:
        *out_known = false;
        return a;
    }
}

static ls_ball extreme(ls_ball a, ls_ball b, bool largest) {
    if (a.m != a.m || b.m != b.m) {
        return (ls_ball){__builtin_nan(""), a.r == 0 && b.r == 0 ? 0 : INF};
    }
    double s = largest ? 1 : -1;
    double x = s * a.m, y = s * b.m, mid = x > y || (x == y && __builtin_signbit(y)) ? x : y; /* of zeros the positive one */
    double lo = max_of(s * a.m - a.r, s * b.m - b.r), hi = max_of(s * a.m + a.r, s * b.m + b.r);
    if (!finite(mid)) {
        return (ls_ball){s * mid, a.r == 0 && b.r == 0 ? 0 : INF};
    }
    return (ls_ball){s * mid, up(max_of(hi - mid, mid - lo))};
}

static ls_ball quotient(ls_ball a, ls_ball b) {
    double q = a.m / b.m;
    if (a.r == 0 && b.r == 0) {
        return (ls_ball){q, finite(q) ? EPS * abs_of(q) : 0};
    }
    double least = abs_of(b.m) - b.r;
    if (!(least > 0) || !finite(q)) {
        return (ls_ball){q, INF};
    }
    return (ls_ball){q, up((a.r + abs_of(q) * b.r) / least + EPS * abs_of(q))};
}

static ls_ball product(ls_ball a, ls_ball b) {
    double m = a.m * b.m;
    return (ls_ball){m, finite(m) ? up(abs_of(a.m) * b.r + abs_of(b.m) * a.r + a.r * b.r + EPS * abs_of(m))
                                  : a.r + b.r};
}

static ls_ball root(ls_ball a) {
    double m = __builtin_sqrt(a.m);
    if (a.r == 0) {
        return (ls_ball){m, finite(m) ? EPS * m : 0};
    }
    double lo = a.m - a.r, hi = __builtin_sqrt(a.m + a.r);
    return lo < 0 ? (ls_ball){m, INF} : hull(m, __builtin_sqrt(lo), hi);
}

/* The sum's own rounding, exactly (Knuth's two-sum): 0 when float64 held it. */
static ls_ball sum(ls_ball a, ls_ball b) {
    double s = a.m + b.m, t = s - a.m, e = (a.m - (s - t)) + (b.m - t);
    return (ls_ball){s, up(a.r + b.r + (finite(s) ? abs_of(e) : 0))};
}

static double sign_of(double x) {
    return x > 0 ? 1 : x < 0 ? -1 : x;
}

ls_ball ls_ball_map(ls_op op, ls_dtype dtype, ls_dtype out, ls_math math, ls_ball a, ls_ball b) {
    (void)
        math; /* fast mode computes elements as locked mode does: it frees only order and fusion, which cost no more roundings */
    ls_dtype compute = dtype == LS_F64 ? LS_F64 : LS_F32;
    bool known;
    ls_ball y = function(op, a, &known);
    if (known) {
        y = elementary(op, compute, y);
        return out == compute ? y : ls_ball_round(out, y, 1);
    }
    switch (op) {
    case LS_OP_NEG:
        return (ls_ball){-a.m, a.r};
    case LS_OP_ABS:
        return (ls_ball){abs_of(a.m), a.r};
    case LS_OP_MIN:
        return extreme(a, b, false);
    case LS_OP_MAX:
        return extreme(a, b, true);
    case LS_OP_SIGN:
        return step(sign_of, a);
    case LS_OP_FLOOR:
        return step(ls_floor_f64, a);
    case LS_OP_CEIL:
        return step(ls_ceil_f64, a);
    case LS_OP_TRUNC:
        return step(ls_trunc_f64, a);
    case LS_OP_RINT:
        return step(ls_rint_f64, a);
    case LS_OP_REM:
        return remainder_ball(a, b);
    case LS_OP_ADD:
        y = sum(a, b);
        break;
    case LS_OP_SUB:
        y = sum(a, (ls_ball){-b.m, b.r});
        break;
    case LS_OP_MUL:
        y = product(a, b);
        break;
    case LS_OP_DIV:
        y = quotient(a, b);
        break;
    case LS_OP_RECIP:
        y = quotient((ls_ball){1, 0}, a);
        break;
    case LS_OP_SQRT:
        y = root(a);
        break;
    case LS_OP_RSQRT:
        y = quotient((ls_ball){1, 0}, ls_ball_round(compute, root(a), 1));
        break;
    case LS_OP_POW:
        y = elementary(op, compute, power(a, b));
        break;
    default:
        return (ls_ball){0, INF}; /* op.def admits no other operation on floats with a float result */
    }
    y = op == LS_OP_POW ? y : ls_ball_round(compute, y, 1);
    return out == compute ? y : ls_ball_round(out, y, 1);
}
