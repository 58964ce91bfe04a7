/* ONNX: element by element (arithmetic, comparison, logic, bits, activations), matrix products, Einsum
 * and Det. */
#include "base/dtype.h"
#include "io/onnx/convert.h"
#include <string.h>

/* ---- one builder an operator ---- */

#define UNARY(name, builder)                                                                                 \
    static ls_status name(ls_onnx_node *n) {                                                                 \
        return ls_onnx_out(n, 0, builder(n->s, ls_onnx_in(n, 0)));                                           \
    }
UNARY(op_neg, ls_neg)
UNARY(op_abs, ls_abs)
UNARY(op_sign, ls_sign)
UNARY(op_floor, ls_floor)
UNARY(op_ceil, ls_ceil)
UNARY(op_round, ls_rint)
UNARY(op_sqrt, ls_sqrt)
UNARY(op_reciprocal, ls_recip)
UNARY(op_exp, ls_exp)
UNARY(op_log, ls_log)
UNARY(op_sin, ls_sin)
UNARY(op_cos, ls_cos)
UNARY(op_tan, ls_tan)
UNARY(op_asin, ls_asin)
UNARY(op_acos, ls_acos)
UNARY(op_atan, ls_atan)
UNARY(op_sinh, ls_sinh)
UNARY(op_cosh, ls_cosh)
UNARY(op_tanh, ls_tanh)
UNARY(op_asinh, ls_asinh)
UNARY(op_acosh, ls_acosh)
UNARY(op_atanh, ls_atanh)
UNARY(op_erf, ls_erf)
UNARY(op_not, ls_not)
UNARY(op_relu, ls_relu)
UNARY(op_sigmoid, ls_sigmoid)
UNARY(op_softplus, ls_softplus)
UNARY(op_mish, ls_mish)
UNARY(op_det, ls_det)

/* Operand 1. Before opset 7 its first axis may be said to stand beside axis `axis` of a. */
static ls_tensor *second_in(ls_onnx_node *n, ls_tensor *a) {
    ls_tensor *b = ls_onnx_in(n, 1);
    if (!a || !b || n->version >= 7 || !ls_onnx_attr(n, "axis")) {
        return b;
    }
    ls_shape shape = ls_tensor_shape(b);
    int rank = ls_tensor_shape(a).rank;
    int64_t axis = ls_onnx_attr_int(n, "axis", 0);
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis > rank - shape.rank) {
        (void)LS_FAIL(&n->failed, LS_ERR_SHAPE, "operand 1 of rank %d from axis %lld on: expected it to fit in rank %d", shape.rank,
                      (long long)axis, rank);
        return NULL;
    }
    while (axis + shape.rank < rank) {
        shape.dim[shape.rank++] = ls_dim_of(1);
    }
    return ls_reshape(n->s, b, shape);
}

typedef ls_tensor *(*binary_fn)(ls_session *s, ls_tensor *a, ls_tensor *b);

static ls_status binary(ls_onnx_node *n, binary_fn f) {
    ls_tensor *a = ls_onnx_in(n, 0), *b = second_in(n, a);
    return ls_onnx_out(n, 0, f(n->s, a, b));
}

#define BINARY(name, builder)                                                                                \
    static ls_status name(ls_onnx_node *n) {                                                                 \
        return binary(n, builder);                                                                           \
    }
BINARY(op_add, ls_add)
BINARY(op_sub, ls_sub)
BINARY(op_mul, ls_mul)
BINARY(op_div, ls_div)
BINARY(op_greater, ls_gt)
BINARY(op_greater_equal, ls_ge)
BINARY(op_less, ls_lt)
BINARY(op_less_equal, ls_le)
BINARY(op_and, ls_and)
BINARY(op_or, ls_or)
BINARY(op_xor, ls_xor)
BINARY(op_matmul, ls_matmul)

static ls_status op_identity(ls_onnx_node *n) {
    return ls_onnx_out_value(n, 0, n->in[0]);
}

/* ---- strings: Equal and Where alone know them ---- */

static bool is_strings(const ls_onnx_node *n, int i) {
    return ls_onnx_has(n, i) && n->in[i]->kind == ONNX_STRINGS;
}

/* NumPy's broadcast of two lists of extents; false when they do not fit. */
static bool join_dims(int *rank, int64_t *dims, int other_rank, const int64_t *other) {
    int64_t joint[LS_MAX_RANK];
    int r = *rank > other_rank ? *rank : other_rank;
    for (int i = 0; i < r; i++) {
        int at = i - (r - *rank), at_other = i - (r - other_rank);
        int64_t a = at >= 0 ? dims[at] : 1, b = at_other >= 0 ? other[at_other] : 1;
        if (a != b && a != 1 && b != 1) {
            return false;
        }
        joint[i] = a == 1 ? b : a;
    }
    memcpy(dims, joint, sizeof *joint * (size_t)r);
    *rank = r;
    return true;
}

static int64_t count_of(int rank, const int64_t *dims) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) {
        n *= dims[i];
    }
    return n;
}

/* Where element `at` of the joint shape lies in an operand that broadcasts to it. */
static int64_t position(int64_t at, int rank, const int64_t *dims, int own_rank, const int64_t *own) {
    int64_t result = 0, stride = 1;
    for (int i = rank - 1, j = own_rank - 1; j >= 0; i--, j--) {
        result += (own[j] == 1 ? 0 : at % dims[i]) * stride;
        stride *= own[j];
        at /= dims[i];
    }
    return result;
}

static ls_status equal_strings(ls_onnx_node *n) {
    const ls_onnx_value *a = n->in[0], *b = n->in[1];
    int64_t dims[LS_MAX_RANK];
    int rank = a->rank;
    memcpy(dims, a->dims, sizeof dims);
    if (!is_strings(n, 0) || !is_strings(n, 1) || !join_dims(&rank, dims, b->rank, b->dims)) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "expected two tensors of strings whose shapes broadcast");
    }
    int64_t count = count_of(rank, dims);
    uint8_t *same = ls_arena_alloc(ls_onnx_arena(n), (size_t)count + 1);
    if (!same) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory");
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t at = position(i, rank, dims, a->rank, a->dims),
                bt = position(i, rank, dims, b->rank, b->dims);
        same[i] = strcmp(a->strings[at], b->strings[bt]) == 0;
    }
    return ls_onnx_out_from(n, 0, ONNX_BOOL, rank, dims, same);
}

static ls_status where_strings(ls_onnx_node *n) {
    const ls_onnx_value *a = n->in[1], *b = n->in[2];
    int64_t dims[LS_MAX_RANK], test_dims[LS_MAX_RANK], *test;
    int test_rank = ls_onnx_value_dims(n->in[0], dims), rank = test_rank, tests;
    memcpy(test_dims, dims, sizeof dims);
    LS_TRY(n->err, ls_onnx_ints(n, 0, &test, &tests));
    if (!is_strings(n, 1) || !is_strings(n, 2) || !join_dims(&rank, dims, a->rank, a->dims) ||
        !join_dims(&rank, dims, b->rank, b->dims)) {
        return ls_onnx_fail(n, LS_ERR_SHAPE,
                            "expected a condition and two tensors of strings whose shapes broadcast");
    }
    int64_t count = count_of(rank, dims);
    ls_onnx_value *y = ls_onnx_value_new(n, ONNX_STRINGS, ONNX_STRING);
    if (!y || !(y->strings = LS_ARENA_ARRAY(ls_onnx_arena(n), const char *, count + 1))) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory");
    }
    y->known = true;
    y->rank = rank;
    memcpy(y->dims, dims, sizeof dims);
    for (int64_t i = 0; i < count; i++) {
        const ls_onnx_value *from = test[position(i, rank, dims, test_rank, test_dims)] ? a : b;
        y->strings[i] = from->strings[position(i, rank, dims, from->rank, from->dims)];
    }
    return ls_onnx_out_value(n, 0, y);
}

static ls_status op_equal(ls_onnx_node *n) {
    if (is_strings(n, 0) || is_strings(n, 1)) {
        return equal_strings(n);
    }
    return binary(n, ls_eq);
}

static ls_status op_where(ls_onnx_node *n) {
    if (is_strings(n, 1) || is_strings(n, 2)) {
        return where_strings(n);
    }
    ls_tensor *test = ls_onnx_in(n, 0), *a = ls_onnx_in(n, 1), *b = ls_onnx_in(n, 2);
    return ls_onnx_out_as(n, 0, ls_where(n->s, test, a, b), ls_onnx_in_type(n, 1));
}

/* ---- arithmetic with attributes or mixed types ---- */

static ls_status op_mod(ls_onnx_node *n) {
    ls_tensor *a = ls_onnx_in(n, 0), *b = ls_onnx_in(n, 1);
    bool fmod = ls_onnx_attr_int(n, "fmod", 0) != 0;
    return ls_onnx_out(n, 0, fmod ? ls_rem(n->s, a, b) : ls_mod(n->s, a, b));
}

/* The whole-number part of an integer to a floating power: exact where the power is a whole number. */
static ls_tensor *pow_mixed(ls_onnx_node *n, ls_tensor *a, ls_tensor *b) {
    ls_session *s = n->s;
    ls_dtype dtype = ls_tensor_dtype(a), wide = ls_tensor_dtype(b) == LS_F64 ? LS_F64 : LS_F32;
    ls_tensor *e = ls_cast(s, b, wide);
    ls_tensor *rough = ls_cast(s, ls_pow(s, ls_cast(s, a, wide), e), dtype);
    ls_tensor *exact = ls_pow_int(s, a, ls_cast(s, e, LS_I32));
    return ls_where(s, ls_eq(s, ls_rint(s, e), e), exact, rough);
}

static ls_status op_pow(ls_onnx_node *n) {
    ls_session *s = n->s;
    ls_tensor *a = ls_onnx_in(n, 0), *b = second_in(n, a);
    if (!a || !b) {
        return ls_onnx_out(n, 0, NULL);
    }
    ls_dtype base = ls_tensor_dtype(a), power = ls_tensor_dtype(b);
    int64_t dims[LS_MAX_RANK];
    int rank = ls_onnx_dims(b, dims);
    if (n->in[1]->known && count_of(rank, dims) == 1 && rank <= ls_onnx_dims(a, dims)) {
        double *e;
        int count;
        LS_TRY(n->err, ls_onnx_floats(n, 1, &e, &count));
        if (e[0] == 2) {
            return ls_onnx_out(n, 0, ls_mul(s, a, a));
        }
    }
    if (!ls_onnx_is_float(base)) {
        bool whole = !ls_onnx_is_float(power);
        return ls_onnx_out(n, 0, whole ? ls_pow_int(s, a, b) : pow_mixed(n, a, b));
    }
    ls_dtype wide = power == LS_F64 ? LS_F64 : ls_onnx_wide(base);
    ls_tensor *y = ls_pow(s, ls_cast(s, a, wide), ls_cast(s, b, wide));
    return ls_onnx_out(n, 0, y ? ls_cast(s, y, base) : NULL);
}

static ls_status op_bit_shift(ls_onnx_node *n) {
    ls_tensor *a = ls_onnx_in(n, 0), *b = ls_onnx_in(n, 1);
    const char *direction = ls_onnx_attr_string(n, "direction", "");
    bool left = strcmp(direction, "LEFT") == 0;
    if (!left && strcmp(direction, "RIGHT") != 0) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "attribute direction is \"%s\": expected LEFT or RIGHT",
                            direction);
    }
    return ls_onnx_out(n, 0, left ? ls_shl(n->s, a, b) : ls_shr(n->s, a, b));
}

/* Operand i, one element of any rank, as a scalar. */
static ls_tensor *scalar_in(ls_onnx_node *n, int i) {
    ls_tensor *x = ls_onnx_in(n, i);
    return x ? ls_reshape(n->s, x, LS_SCALAR) : NULL;
}

static ls_status op_clip(ls_onnx_node *n) {
    ls_session *s = n->s;
    ls_tensor *x = ls_onnx_in(n, 0);
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (n->version < 11) {
        ls_dtype dtype = ls_tensor_dtype(x);
        if (ls_onnx_attr(n, "min")) {
            x = ls_max(s, x, ls_onnx_scalar(n, dtype, ls_onnx_attr_float(n, "min", 0)));
        }
        if (ls_onnx_attr(n, "max")) {
            x = ls_min(s, x, ls_onnx_scalar(n, dtype, ls_onnx_attr_float(n, "max", 0)));
        }
        return ls_onnx_out(n, 0, x);
    }
    x = ls_onnx_has(n, 1) ? ls_max(s, x, scalar_in(n, 1)) : x;
    x = ls_onnx_has(n, 2) ? ls_min(s, x, scalar_in(n, 2)) : x;
    return ls_onnx_out(n, 0, x);
}

static ls_tensor *fold(ls_onnx_node *n, binary_fn f, bool wide) {
    ls_tensor *y = NULL;
    for (int i = 0; i < n->n_in; i++) {
        ls_tensor *x = ls_onnx_in(n, i);
        x = x && wide ? ls_cast(n->s, x, ls_onnx_wide(ls_tensor_dtype(x))) : x;
        y = i ? f(n->s, y, x) : x;
        if (!y) {
            return NULL;
        }
    }
    return y;
}

static ls_status op_max(ls_onnx_node *n) {
    return ls_onnx_out(n, 0, fold(n, ls_max, false));
}

static ls_status op_min(ls_onnx_node *n) {
    return ls_onnx_out(n, 0, fold(n, ls_min, false));
}

static ls_status op_sum(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *y = x ? fold(n, ls_add, true) : NULL;
    return ls_onnx_out(n, 0, y ? ls_cast(n->s, y, ls_tensor_dtype(x)) : NULL);
}

static ls_status op_mean(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *y = x ? fold(n, ls_add, true) : NULL;
    y = y ? ls_div(n->s, y, ls_onnx_scalar(n, ls_tensor_dtype(y), n->n_in)) : NULL;
    return ls_onnx_out(n, 0, y ? ls_cast(n->s, y, ls_tensor_dtype(x)) : NULL);
}

/* ---- bits of one type as another's ---- */

static int bits_of(int type) {
    switch (type) {
    case ONNX_UINT4:
    case ONNX_INT4:
    case ONNX_FLOAT4E2M1:
        return 4;
    case ONNX_UINT2:
    case ONNX_INT2:
        return 2;
    default:
        return ls_onnx_carrier(type) == LS_DTYPE_COUNT ? 0 : 8 * (int)ls_dtype_size(ls_onnx_carrier(type));
    }
}

static ls_status op_bit_cast(ls_onnx_node *n) {
    ls_session *s = n->s;
    ls_tensor *x = ls_onnx_in(n, 0);
    int to = (int)ls_onnx_attr_int(n, "to", 0), from = ls_onnx_in_type(n, 0), bits = bits_of(to);
    if (!x || !bits || bits != bits_of(from)) {
        return !x ? ls_onnx_out(n, 0, NULL)
                  : ls_onnx_fail(n, LS_ERR_DTYPE, "from %s to %s: expected types of one size",
                                 ls_onnx_type_name(from), ls_onnx_type_name(to));
    }
    ls_dtype carrier = ls_onnx_carrier(to);
    if (bits >= 8) {
        ls_tensor *y = ls_tensor_dtype(x) == LS_BOOL ? ls_cast(s, x, LS_U8) : x;
        y = y && carrier == LS_BOOL ? ls_cast(s, ls_bitcast(s, y, LS_U8), LS_BOOL)
            : y                     ? ls_bitcast(s, y, carrier)
                                    : NULL;
        return ls_onnx_out_as(n, 0, y, to);
    }
    /* The signed carriers hold values, the unsigned ones bits: shifting up and down again makes either. */
    ls_tensor *up = ls_onnx_scalar(n, LS_U8, 8 - bits), *y = ls_shl(s, ls_bitcast(s, x, LS_U8), up);
    y = ls_shr(s, ls_bitcast(s, y, carrier), ls_onnx_scalar(n, carrier, 8 - bits));
    return ls_onnx_out_as(n, 0, y, to);
}

/* ---- tests ---- */

static ls_status op_is_nan(ls_onnx_node *n) {
    return ls_onnx_out(n, 0, ls_isnan(n->s, ls_onnx_in_number(n, 0)));
}

static ls_status op_is_inf(ls_onnx_node *n) {
    ls_session *s = n->s;
    ls_tensor *x = ls_onnx_in_number(n, 0);
    bool negative = ls_onnx_attr_int(n, "detect_negative", 1) != 0,
         positive = ls_onnx_attr_int(n, "detect_positive", 1) != 0;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    ls_tensor *zero = ls_onnx_scalar(n, ls_tensor_dtype(x), 0), *y = ls_isinf(s, x);
    y = negative ? y : ls_and(s, y, ls_gt(s, x, zero));
    y = positive ? y : ls_and(s, y, ls_lt(s, x, zero));
    return ls_onnx_out(n, 0, y);
}

/* ---- activations, in f32 for f16 and bf16 ---- */

typedef ls_tensor *(*activation_fn)(ls_onnx_node *n, ls_tensor *x);

static ls_status activation(ls_onnx_node *n, activation_fn f) {
    ls_tensor *x = ls_onnx_in(n, 0), *w = x ? ls_cast(n->s, x, ls_onnx_wide(ls_tensor_dtype(x))) : NULL;
    ls_tensor *y = w ? f(n, w) : NULL;
    return ls_onnx_out(n, 0, y ? ls_cast(n->s, y, ls_tensor_dtype(x)) : NULL);
}

static ls_tensor *like(ls_onnx_node *n, ls_tensor *x, double value) {
    return ls_onnx_scalar(n, ls_tensor_dtype(x), value);
}

#define ACTIVATION(name)                                                                                     \
    static ls_tensor *name##_of(ls_onnx_node *n, ls_tensor *x);                                              \
    static ls_status op_##name(ls_onnx_node *n) {                                                            \
        return activation(n, name##_of);                                                                     \
    }                                                                                                        \
    static ls_tensor *name##_of(ls_onnx_node *n, ls_tensor *x)

ACTIVATION(leaky_relu) {
    return ls_leaky_relu(n->s, x, ls_onnx_attr_float(n, "alpha", 0.01f));
}

ACTIVATION(elu) {
    return ls_elu(n->s, x, ls_onnx_attr_float(n, "alpha", 1));
}

ACTIVATION(selu) {
    bool old = n->version < 6;
    double alpha = ls_onnx_attr_float(n, "alpha", old ? 1.6732f : 1.67326319217681884765625);
    double gamma = ls_onnx_attr_float(n, "gamma", old ? 1.0507f : 1.05070102214813232421875);
    return ls_mul(n->s, ls_elu(n->s, x, alpha), like(n, x, gamma));
}

ACTIVATION(celu) {
    double alpha = ls_onnx_attr_float(n, "alpha", 1);
    ls_tensor *zero = like(n, x, 0), *low = ls_div(n->s, ls_min(n->s, x, zero), like(n, x, alpha));
    low = ls_mul(n->s, ls_expm1(n->s, low), like(n, x, alpha));
    return ls_where(n->s, ls_lt(n->s, zero, x), x, low);
}

ACTIVATION(thresholded_relu) {
    ls_tensor *alpha = like(n, x, ls_onnx_attr_float(n, "alpha", 1));
    return ls_where(n->s, ls_gt(n->s, x, alpha), x, like(n, x, 0));
}

static ls_tensor *hard(ls_onnx_node *n, ls_tensor *x, double alpha, double beta) {
    ls_tensor *y = ls_add(n->s, ls_mul(n->s, x, like(n, x, alpha)), like(n, x, beta));
    return ls_max(n->s, like(n, x, 0), ls_min(n->s, like(n, x, 1), y));
}

ACTIVATION(hard_sigmoid) {
    double alpha = ls_onnx_attr_float(n, "alpha", 0.2f), beta = ls_onnx_attr_float(n, "beta", 0.5);
    return hard(n, x, alpha, beta);
}

ACTIVATION(hard_swish) {
    return ls_mul(n->s, x, hard(n, x, 1.0 / 6, 0.5));
}

ACTIVATION(softsign) {
    return ls_div(n->s, x, ls_add(n->s, ls_abs(n->s, x), like(n, x, 1)));
}

ACTIVATION(gelu) {
    const char *approximate = ls_onnx_attr_string(n, "approximate", "none");
    return strcmp(approximate, "tanh") == 0 ? ls_gelu_tanh(n->s, x) : ls_gelu(n->s, x);
}

ACTIVATION(swish) {
    double alpha = ls_onnx_attr_float(n, "alpha", 1);
    return ls_mul(n->s, x, ls_sigmoid(n->s, alpha == 1 ? x : ls_mul(n->s, x, like(n, x, alpha))));
}

ACTIVATION(swiglu) {
    ls_tensor *gate = ls_onnx_in(n, 1);
    return gate ? ls_mul(n->s, swish_of(n, x), ls_cast(n->s, gate, ls_tensor_dtype(x))) : NULL;
}

/* A list of slopes that does not broadcast (and any, before opset 7) is one for each channel, axis 1. */
static ls_tensor *slopes(ls_onnx_node *n, ls_tensor *x, ls_tensor *slope) {
    int64_t dims[LS_MAX_RANK], own[LS_MAX_RANK];
    int rank = ls_onnx_dims(x, dims);
    if (!slope || ls_onnx_dims(slope, own) != 1 || rank < 3 || own[0] != dims[1] ||
        (n->version >= 7 && own[0] == dims[rank - 1])) {
        return slope;
    }
    for (int i = 1; i < rank - 1; i++) {
        own[i] = 1;
    }
    return ls_onnx_shaped(n, slope, rank - 1, own);
}

ACTIVATION(prelu) {
    ls_tensor *slope = slopes(n, x, ls_onnx_in(n, 1)), *zero = like(n, x, 0);
    slope = slope ? ls_cast(n->s, slope, ls_tensor_dtype(x)) : NULL;
    return ls_where(n->s, ls_lt(n->s, x, zero), ls_mul(n->s, x, slope), x);
}

/* Integers are compared and moved in f32, those of 32 and 64 bits in f64. */
static ls_status op_shrink(ls_onnx_node *n) {
    ls_session *s = n->s;
    ls_tensor *x = ls_onnx_in(n, 0);
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    ls_dtype dtype = ls_tensor_dtype(x), wide = ls_onnx_wide(dtype);
    wide = ls_onnx_is_float(wide) ? wide : ls_dtype_size(dtype) <= 2 ? LS_F32 : LS_F64;
    double lambda = ls_onnx_attr_float(n, "lambd", 0.5), bias = ls_onnx_attr_float(n, "bias", 0);
    ls_tensor *w = ls_cast(s, x, wide), *b = ls_onnx_scalar(n, wide, bias);
    ls_tensor *high = ls_where(s, ls_gt(s, w, ls_onnx_scalar(n, wide, lambda)), ls_sub(s, w, b),
                               ls_onnx_scalar(n, wide, 0));
    ls_tensor *y = ls_where(s, ls_lt(s, w, ls_onnx_scalar(n, wide, -lambda)), ls_add(s, w, b), high);
    return ls_onnx_out(n, 0, y ? ls_cast(s, y, dtype) : NULL);
}

/* ---- products ---- */

/* x * factor; an integer by way of f64 unless the factor is a whole number. */
static ls_tensor *scaled(ls_onnx_node *n, ls_tensor *x, double factor) {
    if (!x || factor == 1) {
        return x;
    }
    ls_dtype dtype = ls_tensor_dtype(x);
    bool whole = factor > -0x1p53 && factor < 0x1p53 && factor == (double)(int64_t)factor;
    if (ls_onnx_is_float(dtype) || whole) {
        return ls_mul(n->s, x, ls_onnx_scalar(n, dtype, factor));
    }
    ls_tensor *y = ls_mul(n->s, ls_cast(n->s, x, LS_F64), ls_onnx_scalar(n, LS_F64, factor));
    return ls_cast(n->s, y, dtype);
}

static ls_status op_gemm(ls_onnx_node *n) {
    ls_tensor *a = ls_onnx_in(n, 0), *b = ls_onnx_in(n, 1);
    if (!a || !b) {
        return ls_onnx_out(n, 0, NULL);
    }
    int64_t dims[LS_MAX_RANK];
    if (ls_onnx_dims(a, dims) != 2 || ls_onnx_dims(b, dims) != 2) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "operands of rank %d and %d: expected matrices",
                            ls_onnx_dims(a, dims), ls_onnx_dims(b, dims));
    }
    double alpha = ls_onnx_attr_float(n, "alpha", 1), beta = ls_onnx_attr_float(n, "beta", 1);
    ls_contract_spec spec = {.n_contract = 1,
                             .contract_a = {ls_onnx_attr_int(n, "transA", 0) ? 0 : 1},
                             .contract_b = {ls_onnx_attr_int(n, "transB", 0) ? 1 : 0}};
    ls_dtype dtype = ls_tensor_dtype(a), wide = ls_onnx_wide(dtype);
    ls_tensor *y = scaled(n, ls_contract(n->s, a, b, &spec, wide), alpha);
    if (y && ls_onnx_has(n, 2) && beta != 0) {
        ls_tensor *c = ls_onnx_in(n, 2);
        y = c ? ls_add(n->s, y, scaled(n, ls_cast(n->s, c, wide), beta)) : NULL;
    }
    return ls_onnx_out(n, 0, y ? ls_cast(n->s, y, dtype) : NULL);
}

static ls_status op_einsum(ls_onnx_node *n) {
    const char *equation = ls_onnx_attr_string(n, "equation", "");
    ls_tensor **xs = LS_ARENA_ARRAY(ls_onnx_arena(n), ls_tensor *, n->n_in);
    if (!xs) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory");
    }
    for (int i = 0; i < n->n_in; i++) {
        xs[i] = ls_onnx_in(n, i);
        if (!xs[i]) {
            return ls_onnx_out(n, 0, NULL);
        }
    }
    return ls_onnx_out(n, 0, ls_einsum(n->s, equation, xs, n->n_in));
}

const ls_onnx_op ls_onnx_math_ops[] = {{"", "Identity", 1, 1, 1, op_identity, ONNX_SYMBOLS},
                                       {"", "Neg", 1, 1, 1, op_neg, ONNX_SYMBOLS},
                                       {"", "Abs", 1, 1, 1, op_abs, ONNX_SYMBOLS},
                                       {"", "Sign", 1, 1, 1, op_sign, ONNX_SYMBOLS},
                                       {"", "Floor", 1, 1, 1, op_floor, ONNX_SYMBOLS},
                                       {"", "Ceil", 1, 1, 1, op_ceil, ONNX_SYMBOLS},
                                       {"", "Round", 1, 1, 1, op_round, ONNX_SYMBOLS},
                                       {"", "Sqrt", 1, 1, 1, op_sqrt, ONNX_SYMBOLS},
                                       {"", "Reciprocal", 1, 1, 1, op_reciprocal, ONNX_SYMBOLS},
                                       {"", "Exp", 1, 1, 1, op_exp, ONNX_SYMBOLS},
                                       {"", "Log", 1, 1, 1, op_log, ONNX_SYMBOLS},
                                       {"", "Sin", 1, 1, 1, op_sin, ONNX_SYMBOLS},
                                       {"", "Cos", 1, 1, 1, op_cos, ONNX_SYMBOLS},
                                       {"", "Tan", 1, 1, 1, op_tan, ONNX_SYMBOLS},
                                       {"", "Asin", 1, 1, 1, op_asin, ONNX_SYMBOLS},
                                       {"", "Acos", 1, 1, 1, op_acos, ONNX_SYMBOLS},
                                       {"", "Atan", 1, 1, 1, op_atan, ONNX_SYMBOLS},
                                       {"", "Sinh", 1, 1, 1, op_sinh, ONNX_SYMBOLS},
                                       {"", "Cosh", 1, 1, 1, op_cosh, ONNX_SYMBOLS},
                                       {"", "Tanh", 1, 1, 1, op_tanh, ONNX_SYMBOLS},
                                       {"", "Asinh", 1, 1, 1, op_asinh, ONNX_SYMBOLS},
                                       {"", "Acosh", 1, 1, 1, op_acosh, ONNX_SYMBOLS},
                                       {"", "Atanh", 1, 1, 1, op_atanh, ONNX_SYMBOLS},
                                       {"", "Erf", 1, 1, 1, op_erf, ONNX_SYMBOLS},
                                       {"", "Not", 1, 1, 1, op_not, ONNX_SYMBOLS},
                                       {"", "BitwiseNot", 1, 1, 1, op_not, ONNX_SYMBOLS},
                                       {"", "Relu", 1, 1, 1, op_relu, ONNX_SYMBOLS},
                                       {"", "Sigmoid", 1, 1, 1, op_sigmoid, ONNX_SYMBOLS},
                                       {"", "Softplus", 1, 1, 1, op_softplus, ONNX_SYMBOLS},
                                       {"", "Mish", 1, 1, 1, op_mish, ONNX_SYMBOLS},
                                       {"", "Det", 1, 1, 1, op_det, 0},
                                       {"", "Add", 1, 2, 2, op_add, ONNX_SYMBOLS},
                                       {"", "Sub", 1, 2, 2, op_sub, ONNX_SYMBOLS},
                                       {"", "Mul", 1, 2, 2, op_mul, ONNX_SYMBOLS},
                                       {"", "Div", 1, 2, 2, op_div, ONNX_SYMBOLS},
                                       {"", "Equal", 1, 2, 2, op_equal, ONNX_SYMBOLS},
                                       {"", "Greater", 1, 2, 2, op_greater, ONNX_SYMBOLS},
                                       {"", "GreaterOrEqual", 1, 2, 2, op_greater_equal, ONNX_SYMBOLS},
                                       {"", "Less", 1, 2, 2, op_less, ONNX_SYMBOLS},
                                       {"", "LessOrEqual", 1, 2, 2, op_less_equal, ONNX_SYMBOLS},
                                       {"", "And", 1, 2, 2, op_and, ONNX_SYMBOLS},
                                       {"", "Or", 1, 2, 2, op_or, ONNX_SYMBOLS},
                                       {"", "Xor", 1, 2, 2, op_xor, ONNX_SYMBOLS},
                                       {"", "BitwiseAnd", 1, 2, 2, op_and, ONNX_SYMBOLS},
                                       {"", "BitwiseOr", 1, 2, 2, op_or, ONNX_SYMBOLS},
                                       {"", "BitwiseXor", 1, 2, 2, op_xor, ONNX_SYMBOLS},
                                       {"", "BitShift", 1, 2, 2, op_bit_shift, ONNX_SYMBOLS},
                                       {"", "BitCast", 1, 1, 1, op_bit_cast, ONNX_SYMBOLS},
                                       {"", "Mod", 1, 2, 2, op_mod, ONNX_SYMBOLS},
                                       {"", "Pow", 1, 2, 2, op_pow, ONNX_SYMBOLS},
                                       {"", "Where", 1, 3, 3, op_where, ONNX_SYMBOLS},
                                       {"", "Clip", 1, 1, 3, op_clip, ONNX_SYMBOLS},
                                       {"", "Max", 1, 1, -1, op_max, ONNX_SYMBOLS},
                                       {"", "Min", 1, 1, -1, op_min, ONNX_SYMBOLS},
                                       {"", "Sum", 1, 1, -1, op_sum, ONNX_SYMBOLS},
                                       {"", "Mean", 1, 1, -1, op_mean, ONNX_SYMBOLS},
                                       {"", "IsNaN", 1, 1, 1, op_is_nan, ONNX_SYMBOLS},
                                       {"", "IsInf", 1, 1, 1, op_is_inf, ONNX_SYMBOLS},
                                       {"", "LeakyRelu", 1, 1, 1, op_leaky_relu, ONNX_SYMBOLS},
                                       {"", "Elu", 1, 1, 1, op_elu, ONNX_SYMBOLS},
                                       {"", "Selu", 1, 1, 1, op_selu, ONNX_SYMBOLS},
                                       {"", "Celu", 1, 1, 1, op_celu, ONNX_SYMBOLS},
                                       {"", "ThresholdedRelu", 1, 1, 1, op_thresholded_relu, ONNX_SYMBOLS},
                                       {"", "HardSigmoid", 1, 1, 1, op_hard_sigmoid, ONNX_SYMBOLS},
                                       {"", "HardSwish", 1, 1, 1, op_hard_swish, ONNX_SYMBOLS},
                                       {"", "Softsign", 1, 1, 1, op_softsign, ONNX_SYMBOLS},
                                       {"", "Gelu", 1, 1, 1, op_gelu, ONNX_SYMBOLS},
                                       {"", "Swish", 1, 1, 1, op_swish, ONNX_SYMBOLS},
                                       {"", "SwiGLU", 1, 2, 2, op_swiglu, ONNX_SYMBOLS},
                                       {"", "PRelu", 1, 2, 2, op_prelu, 0},
                                       {"", "Shrink", 1, 1, 1, op_shrink, ONNX_SYMBOLS},
                                       {"", "MatMul", 1, 2, 2, op_matmul, ONNX_SYMBOLS},
                                       {"", "Gemm", 1, 2, 3, op_gemm, ONNX_SYMBOLS},
                                       {"", "Einsum", 1, 1, -1, op_einsum, ONNX_SYMBOLS},
                                       {0}};
