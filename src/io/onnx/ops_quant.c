/* ONNX: quantisation. Integer products are contractions in i32, exact on every device; scales are applied
 * in f32, in the order of the formulas, and rounded half to even before the zero point is added. */
#include "base/dtype.h"
#include "io/onnx/convert.h"
#include "io/onnx/windows.h"
#include <inttypes.h>

/* ---- integer types and their ranges ---- */

static bool integer_range(int type, double *low, double *high) {
    static const struct {
        int type, low, high;
    } ranges[] = {{ONNX_UINT8, 0, 255},        {ONNX_INT8, -128, 127}, {ONNX_UINT16, 0, 65535},
                  {ONNX_INT16, -32768, 32767}, {ONNX_UINT4, 0, 15},    {ONNX_INT4, -8, 7},
                  {ONNX_UINT2, 0, 3},          {ONNX_INT2, -2, 1}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (ranges[i].type == type) {
            *low = ranges[i].low;
            *high = ranges[i].high;
            return true;
        }
    }
    return false;
}

/* rint(q) + zero (NULL: 0), saturated, as the carrier of an integer type. q is f32; so is `zero`. */
static ls_tensor *saturated(ls_onnx_node *n, ls_tensor *q, ls_tensor *zero, double low, double high,
                            ls_dtype carrier) {
    ls_session *s = n->s;
    ls_tensor *y = ls_rint(s, q);
    y = zero ? ls_add(s, y, zero) : y;
    y = ls_min(s, ls_max(s, y, ls_onnx_scalar(n, LS_F32, low)), ls_onnx_scalar(n, LS_F32, high));
    return y ? ls_cast(s, y, carrier) : NULL;
}

static int64_t count_of(int rank, const int64_t *dims) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++) {
        n *= dims[i];
    }
    return n;
}

/* ---- QuantizeLinear, DequantizeLinear ---- */

/* A scale or zero point t for x of some shape: one for all, one for each position on an axis, or, in
 * blocks, one for `block` positions in a row. */
static ls_status fitted(ls_onnx_node *n, ls_tensor *t, int rank, const int64_t *dims, int64_t axis,
                        int64_t block, ls_tensor **out) {
    int64_t own[LS_MAX_RANK];
    int own_rank = ls_onnx_dims(t, own), at;
    *out = t;
    if (own_rank == 0) {
        return LS_OK;
    }
    if (count_of(own_rank, own) == 1) {
        *out = ls_reshape(n->s, t, LS_SCALAR);
        return LS_OK;
    }
    LS_TRY(n->err, ls_onnx_axis(n, rank == 1 && !block ? 0 : axis, rank, &at));
    if (block == 0 && own_rank == 1 && own[0] == dims[at]) {
        int64_t shape[LS_MAX_RANK];
        for (int i = 0; i < rank; i++) {
            shape[i] = i == at ? own[0] : 1;
        }
        *out = ls_onnx_shaped(n, t, rank, shape);
        return LS_OK;
    }
    bool fits = block > 0 && own_rank == rank && rank < LS_MAX_RANK && own[at] <= INT64_MAX / block &&
                own[at] * block >= dims[at];
    for (int i = 0; fits && i < rank; i++) {
        fits = i == at || own[i] == dims[i];
    }
    if (!fits) {
        return ls_onnx_fail(
            n, LS_ERR_SHAPE,
            "a scale or zero point of rank %d for an operand of rank %d, axis %d, block_size %" PRId64
            ": expected one number, one a position on the axis, or one a block",
            own_rank, rank, at, block);
    }
    int64_t shape[LS_MAX_RANK];
    ls_tensor *y = ls_unsqueeze(n->s, t, at + 1);
    for (int i = 0; i <= rank; i++) {
        shape[i] = i <= at ? own[i] : i == at + 1 ? block : own[i - 1];
    }
    y = ls_expand(n->s, y, ls_shape_make(rank + 1, shape));
    own[at] *= block;
    *out = ls_narrow(n->s, ls_onnx_shaped(n, y, rank, own), at, 0, dims[at]);
    return LS_OK;
}

/* Operand i fitted to x, or NULL when there is none. */
static ls_status parameter(ls_onnx_node *n, int i, ls_tensor *x, ls_tensor **out) {
    int64_t dims[LS_MAX_RANK];
    *out = NULL;
    ls_tensor *t = ls_onnx_has(n, i) ? ls_onnx_in_number(n, i) : NULL;
    if (!t) {
        return LS_OK;
    }
    int rank = ls_onnx_dims(x, dims);
    int64_t block = ls_onnx_attr_int(n, "block_size", 0);
    if (block < 0) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "block_size %" PRId64 ": expected 0 or more", block);
    }
    return fitted(n, t, rank, dims, ls_onnx_attr_int(n, "axis", 1), block, out);
}

static ls_status quantize_linear(ls_onnx_node *n) {
    ls_session *s = n->s;
    ls_tensor *x = ls_onnx_in(n, 0), *scale, *zero;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, parameter(n, 1, x, &scale));
    LS_TRY(n->err, parameter(n, 2, x, &zero));
    int to = (int)ls_onnx_attr_int(n, "output_dtype", 0),
        precision = (int)ls_onnx_attr_int(n, "precision", 0);
    int said = ls_onnx_in_type(n, 2);
    if (to && said && to != said) {
        return ls_onnx_fail(n, LS_ERR_DTYPE, "output_dtype is %s and the zero point %s: expected one type",
                            ls_onnx_type_name(to), ls_onnx_type_name(said));
    }
    to = said ? said : to ? to : ONNX_UINT8;
    if (!scale) {
        return ls_onnx_out(n, 0, NULL);
    }
    ls_dtype dtype = precision ? ls_onnx_carrier(precision) : ls_tensor_dtype(scale);
    dtype = ls_onnx_is_float(dtype) ? dtype : LS_F32;
    ls_tensor *q = ls_div(s, ls_cast(s, x, dtype), ls_cast(s, scale, dtype));
    q = q ? ls_cast(s, q, LS_F32) : NULL;
    zero = zero && q ? ls_cast(s, zero, LS_F32) : NULL;
    double low, high;
    if (integer_range(to, &low, &high)) {
        return ls_onnx_out_as(n, 0, q ? saturated(n, q, zero, low, high, ls_onnx_carrier(to)) : NULL, to);
    }
    if (!ls_onnx_is_small_float(to)) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "quantisation to %s", ls_onnx_type_name(to));
    }
    q = to == ONNX_FLOAT4E2M1 && zero ? ls_add(s, q, zero) : q; /* float8 has no zero point but 0 */
    bool saturate = ls_onnx_attr_int(n, "saturate", 1) != 0;
    return ls_onnx_out_as(n, 0, ls_onnx_convert(n, q, ONNX_FLOAT, to, saturate, ONNX_ROUND_UP), to);
}

/* (x - zero) * scale in f32: differences of integers are exact. */
static ls_status dequantize_linear(ls_onnx_node *n) {
    ls_session *s = n->s;
    ls_tensor *x = ls_onnx_in_number(n, 0), *scale, *zero;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, parameter(n, 1, x, &scale));
    LS_TRY(n->err, parameter(n, 2, x, &zero));
    if (!scale) {
        return ls_onnx_out(n, 0, NULL);
    }
    int to = (int)ls_onnx_attr_int(n, "output_dtype", 0);
    ls_dtype dtype = to ? ls_onnx_carrier(to) : ls_tensor_dtype(scale);
    if (!ls_onnx_is_float(dtype)) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "dequantisation to %s", ls_onnx_type_name(to));
    }
    if (zero && ls_dtype_is_int(ls_tensor_dtype(x))) {
        x = ls_sub(s, ls_cast(s, x, LS_I32), ls_cast(s, zero, LS_I32));
    }
    ls_tensor *y = ls_mul(s, ls_cast(s, x, LS_F32), ls_cast(s, scale, LS_F32));
    return ls_onnx_out(n, 0, y ? ls_cast(s, y, dtype) : NULL);
}

static ls_status dynamic_quantize_linear(ls_onnx_node *n) {
    ls_session *s = n->s;
    ls_tensor *x = ls_onnx_in(n, 0);
    int64_t dims[LS_MAX_RANK];
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    int rank = ls_onnx_dims(x, dims);
    ls_tensor *zero = ls_onnx_scalar(n, LS_F32, 0), *high = zero, *low = zero;
    if (count_of(rank, dims) > 0) {
        high = ls_max(s, zero, rank ? ls_amax(s, x, 0, NULL, 0) : x);
        low = ls_min(s, zero, rank ? ls_amin(s, x, 0, NULL, 0) : x);
    }
    ls_tensor *most = ls_onnx_scalar(n, LS_F32, 255), *span = ls_sub(s, high, low);
    span = ls_where(s, ls_eq(s, high, low), ls_onnx_scalar(n, LS_F32, 1), span);
    ls_tensor *scale = ls_div(s, span, most);
    ls_tensor *point = ls_sub(s, zero, ls_div(s, low, scale));
    point = ls_rint(s, ls_min(s, ls_max(s, point, zero), most));
    LS_TRY(n->err, ls_onnx_out(n, 0, saturated(n, ls_div(s, x, scale), point, 0, 255, LS_U8)));
    LS_TRY(n->err, ls_onnx_out(n, 1, scale));
    return ls_onnx_out(n, 2, ls_cast(s, point, LS_U8));
}

/* ---- integer products ---- */

/* Operand i minus its zero point, operand `zero_at`, in i32. A list of zero points is one for each row of the
 * matrix, or else for each column. */
static ls_tensor *centered(ls_onnx_node *n, int i, int zero_at, bool rows) {
    ls_session *s = n->s;
    ls_tensor *x = ls_onnx_in(n, i), *zero = ls_onnx_has(n, zero_at) ? ls_onnx_in(n, zero_at) : NULL;
    int64_t dims[LS_MAX_RANK];
    x = x ? ls_cast(s, x, LS_I32) : NULL;
    if (!x || !zero) {
        return x;
    }
    int rank = ls_onnx_dims(zero, dims);
    if (count_of(rank, dims) == 1) {
        zero = ls_reshape(s, zero, LS_SCALAR);
    } else if (rows && rank == 1) {
        zero = ls_unsqueeze(s, zero, 1);
    }
    return ls_sub(s, x, ls_cast(s, zero, LS_I32));
}

/* ---- the same by products of bytes, which devices do faster ----
 *
 * u8 is lowered by 128 into i8, and with it the zero point. With offsets o of a and p of b,
 * sum (a - o)(b - p) = sum ab - o * sum b - p * sum a + count * o * p, in wrapping i32. */

static bool is_byte(int type) {
    return type == ONNX_UINT8 || type == ONNX_INT8;
}

static ls_tensor *byte_of(ls_onnx_node *n, int i) {
    ls_tensor *x = ls_onnx_in(n, i);
    if (!x || ls_onnx_in_type(n, i) == ONNX_INT8) {
        return x;
    }
    return ls_bitcast(n->s, ls_xor(n->s, x, ls_onnx_scalar(n, LS_U8, 128)), LS_I8);
}

/* The offset of operand i as i32 and, where its numbers are known to be all the same, its value; *out is
 * NULL where they are known to be 0. */
static ls_status offset_of(ls_onnx_node *n, int i, int zero_at, ls_tensor **out, bool *out_single,
                           int64_t *out_value) {
    int64_t low = ls_onnx_in_type(n, i) == ONNX_UINT8 ? 128 : 0, *list;
    int count = 0;
    *out = NULL;
    *out_single = true;
    *out_value = -low;
    if (ls_onnx_has(n, zero_at)) {
        *out_single = n->in[zero_at]->known;
        if (*out_single) {
            LS_TRY(n->err, ls_onnx_ints(n, zero_at, &list, &count));
            *out_value = count ? list[0] - low : 0;
            for (int k = 1; k < count; k++) {
                *out_single &= list[k] - low == *out_value;
            }
        }
        if (!*out_single) {
            ls_tensor *zero = ls_onnx_in(n, zero_at);
            zero = zero ? ls_cast(n->s, zero, LS_I32) : NULL;
            *out = zero ? ls_sub(n->s, zero, ls_onnx_scalar(n, LS_I32, (double)low)) : NULL;
            return *out ? LS_OK : ls_onnx_out(n, 0, NULL);
        }
    }
    if (*out_value) {
        *out = ls_full_i64(n->s, LS_I32, LS_SCALAR, *out_value);
    }
    return LS_OK;
}

/* Operand a[..., M, K] times b[K, N], both of bytes. */
static ls_status byte_matmul(ls_onnx_node *n, int a_at, int a_zero, int b_at, int b_zero, ls_tensor **out) {
    ls_session *s = n->s;
    ls_tensor *a = byte_of(n, a_at), *b = byte_of(n, b_at), *o, *p, *y;
    int64_t dims[LS_MAX_RANK], value;
    bool single;
    *out = NULL;
    if (!a || !b) {
        return ls_onnx_out(n, 0, NULL);
    }
    int last = ls_onnx_dims(a, dims) - 1, first = 0;
    LS_TRY(n->err, offset_of(n, a_at, a_zero, &o, &single, &value));
    LS_TRY(n->err, offset_of(n, b_at, b_zero, &p, &single, &value));
    ls_contract_spec spec = {.n_contract = 1, .contract_a = {last}, .contract_b = {0}};
    y = ls_contract(s, a, b, &spec, LS_I32);
    if (o && ls_onnx_dims(o, dims) == 1) {
        o = dims[0] == 1 ? ls_reshape(s, o, LS_SCALAR) : ls_unsqueeze(s, o, 1);
    }
    if (o) {
        y = ls_sub(s, y, ls_mul(s, o, ls_sum(s, ls_cast(s, b, LS_I32), 1, &first, 0)));
    }
    if (p) {
        y = ls_sub(s, y, ls_mul(s, p, ls_sum(s, ls_cast(s, a, LS_I32), 1, &last, 1)));
    }
    if (o && p) {
        ls_onnx_dims(a, dims);
        ls_tensor *count = ls_full_i64(s, LS_I32, LS_SCALAR, dims[last]);
        y = ls_add(s, y, ls_mul(s, count, ls_mul(s, o, p)));
    }
    *out = y;
    return LS_OK;
}

static ls_status product(ls_onnx_node *n, int a_at, int a_zero, int b_at, int b_zero, ls_tensor **out) {
    int64_t dims[LS_MAX_RANK];
    bool bytes = is_byte(ls_onnx_in_type(n, a_at)) && is_byte(ls_onnx_in_type(n, b_at));
    if (bytes && ls_onnx_value_dims(n->in[a_at], dims) >= 2 && ls_onnx_value_dims(n->in[b_at], dims) == 2) {
        return byte_matmul(n, a_at, a_zero, b_at, b_zero, out);
    }
    ls_tensor *a = centered(n, a_at, a_zero, true), *b = centered(n, b_at, b_zero, false);
    *out = ls_matmul(n->s, a, b);
    return LS_OK;
}

static ls_status matmul_integer(ls_onnx_node *n) {
    ls_tensor *y;
    LS_TRY(n->err, product(n, 0, 2, 1, 3, &y));
    return ls_onnx_out(n, 0, y);
}

/* A scale as f32: one number as a scalar, a list along the rows (or, of a filter, `after` axes from the
 * last) as such. */
static ls_tensor *scale_of(ls_onnx_node *n, int i, int after) {
    ls_tensor *t = ls_onnx_in(n, i);
    int64_t dims[LS_MAX_RANK];
    if (!t) {
        return NULL;
    }
    int rank = ls_onnx_dims(t, dims);
    if (count_of(rank, dims) == 1) {
        return ls_reshape(n->s, t, LS_SCALAR);
    }
    for (int k = 0; rank == 1 && k < after; k++) {
        dims[1 + k] = 1;
    }
    return rank == 1 ? ls_onnx_shaped(n, t, 1 + after, dims) : t;
}

/* sum * (a_scale * b_scale / y_scale), rounded, plus y's zero point, as y's type. */
static ls_status requantized(ls_onnx_node *n, ls_tensor *sum, ls_tensor *a_scale, ls_tensor *b_scale) {
    ls_session *s = n->s;
    int type = ls_onnx_in_type(n, 7);
    type = type ? type : ls_onnx_in_type(n, 0);
    ls_tensor *y_scale = scale_of(n, 6, 0), *zero = ls_onnx_has(n, 7) ? ls_onnx_in_number(n, 7) : NULL;
    int64_t dims[LS_MAX_RANK];
    if (!sum || !a_scale || !b_scale || !y_scale) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (zero && count_of(ls_onnx_dims(zero, dims), dims) == 1) {
        zero = ls_reshape(s, zero, LS_SCALAR);
    }
    zero = zero ? ls_cast(s, zero, LS_F32) : NULL;
    ls_tensor *scale = ls_div(s, ls_mul(s, a_scale, b_scale), y_scale);
    ls_tensor *q = ls_mul(s, ls_cast(s, sum, LS_F32), ls_cast(s, scale, LS_F32));
    double low, high;
    if (integer_range(type, &low, &high)) {
        return ls_onnx_out_as(n, 0, saturated(n, q, zero, low, high, ls_onnx_carrier(type)), type);
    }
    return ls_onnx_out_as(n, 0, ls_onnx_convert(n, q, ONNX_FLOAT, type, true, ONNX_ROUND_UP), type);
}

static ls_status qlinear_matmul(ls_onnx_node *n) {
    ls_tensor *sum;
    if (ls_onnx_is_small_float(ls_onnx_in_type(n, 0))) {
        ls_tensor *a = ls_onnx_in_number(n, 0), *b = ls_onnx_in_number(n, 3);
        sum = ls_matmul(n->s, a, b);
    } else {
        LS_TRY(n->err, product(n, 0, 2, 3, 5, &sum));
    }
    ls_tensor *a_scale = scale_of(n, 1, 1), *b_scale = scale_of(n, 4, 0);
    return requantized(n, sum, a_scale, b_scale);
}

/* A convolution of bytes whose filter has no offset and whose input has one that is known: the padding is
 * then the input's zero point itself. */
static ls_tensor *byte_conv(ls_onnx_node *n, ls_tensor *x, ls_tensor *w, int64_t offset, ls_conv_spec *spec) {
    ls_session *s = n->s;
    if (offset) {
        ls_pad_spec pads[LS_MAX_RANK] = {{0, 0, 0}};
        for (int i = 0; i < spec->spatial; i++) {
            pads[2 + i] = (ls_pad_spec){spec->pad_low[i], spec->pad_high[i], 0};
            spec->pad_low[i] = spec->pad_high[i] = 0;
        }
        x = ls_pad(s, x, pads, (double)offset);
    }
    ls_tensor *y = ls_conv_i32(s, x, w, spec);
    if (!offset) {
        return y;
    }
    int axes[LS_MAX_SPATIAL + 1];
    for (int i = 0; i <= spec->spatial; i++) {
        axes[i] = i + 1;
    }
    ls_tensor *total = ls_sum(s, ls_cast(s, w, LS_I32), spec->spatial + 1, axes, 1);
    total = total ? ls_squeeze(s, total, 1) : NULL; /* [M,1...]: the channels, then the spatial axes */
    return ls_sub(s, y, ls_mul(s, total, ls_full_i64(s, LS_I32, LS_SCALAR, offset)));
}

/* The convolution of centred operands in i32; zero points of a filter run along its first axis. Padding
 * is absent: it is the zero point. */
static ls_status conv_i32(ls_onnx_node *n, int x_at, int x_zero, int w_at, int w_zero, ls_tensor *bias,
                          ls_tensor **out) {
    ls_session *s = n->s;
    ls_tensor *x = ls_onnx_in(n, x_at), *w = ls_onnx_in(n, w_at), *o, *p;
    ls_conv_spec spec;
    *out = NULL;
    if (!x || !w) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, ls_onnx_conv_spec(n, x, w, &spec));
    if (is_byte(ls_onnx_in_type(n, x_at)) && is_byte(ls_onnx_in_type(n, w_at))) {
        bool one_x, one_w;
        int64_t x_offset, w_offset;
        LS_TRY(n->err, offset_of(n, x_at, x_zero, &o, &one_x, &x_offset));
        LS_TRY(n->err, offset_of(n, w_at, w_zero, &p, &one_w, &w_offset));
        if (one_x && one_w && w_offset == 0 && x_offset >= -128 && x_offset <= 127) {
            ls_tensor *y = byte_conv(n, byte_of(n, x_at), byte_of(n, w_at), x_offset, &spec);
            if (bias) {
                int64_t shape[LS_MAX_RANK] = {0};
                ls_onnx_dims(bias, shape);
                for (int i = 1; i <= spec.spatial; i++) {
                    shape[i] = 1;
                }
                y = ls_add(s, y, ls_onnx_shaped(n, bias, spec.spatial + 1, shape));
            }
            *out = y;
            return y ? LS_OK : ls_onnx_out(n, 0, NULL);
        }
    }
    x = centered(n, x_at, x_zero, false);
    w = ls_cast(s, w, LS_I32);
    ls_tensor *zero = ls_onnx_has(n, w_zero) ? scale_of(n, w_zero, spec.spatial + 1) : NULL;
    w = zero ? ls_sub(s, w, ls_cast(s, zero, LS_I32)) : w;
    *out = ls_conv(s, x, w, bias, &spec);
    return *out ? LS_OK : ls_onnx_out(n, 0, NULL);
}

static ls_status conv_integer(ls_onnx_node *n) {
    ls_tensor *y;
    LS_TRY(n->err, conv_i32(n, 0, 2, 1, 3, NULL, &y));
    return ls_onnx_out(n, 0, y);
}

static ls_status qlinear_conv(ls_onnx_node *n) {
    ls_tensor *y, *bias = ls_onnx_has(n, 8) ? ls_onnx_in(n, 8) : NULL;
    int64_t dims[LS_MAX_RANK];
    LS_TRY(n->err, conv_i32(n, 0, 2, 3, 5, bias, &y));
    int spatial = ls_onnx_dims(y, dims) - 2;
    ls_tensor *x_scale = scale_of(n, 1, 0), *w_scale = scale_of(n, 4, spatial);
    return requantized(n, y, x_scale, w_scale);
}

const ls_onnx_op ls_onnx_quant_ops[] = {{"", "QuantizeLinear", 1, 2, 3, quantize_linear, 0},
                                        {"", "DequantizeLinear", 1, 2, 3, dequantize_linear, ONNX_BLOCKS},
                                        {"", "DynamicQuantizeLinear", 1, 1, 1, dynamic_quantize_linear, 0},
                                        {"", "MatMulInteger", 1, 2, 4, matmul_integer, 0},
                                        {"", "QLinearMatMul", 1, 8, 8, qlinear_matmul, 0},
                                        {"", "ConvInteger", 1, 2, 4, conv_integer, 0},
                                        {"", "QLinearConv", 1, 8, 9, qlinear_conv, 0},
                                        {0}};
