/* Single values: numbers to the bits of a dtype and back. Rounded once, to nearest even, on integer
 * registers, so that the host's rounding mode cannot matter. Bits above the dtype's size are 0; a NaN is
 * the canonical one. */
#include "base/bits.h"
#include "base/half.h"
#include "graph/graph.h"

static uint32_t f64_to_f32(double d) {
    uint64_t u = ls_f64_bits(d), mag = u & ~((uint64_t)1 << 63);
    uint32_t sign = (uint32_t)(u >> 63) << 31;
    if (mag > (uint64_t)0x7ff << 52) {
        return LS_NAN_F32;
    }
    int e = (int)(mag >> 52) - 1023 + 127;
    uint64_t man = mag & (((uint64_t)1 << 52) - 1);
    if (e >= 255) {
        return sign | 0x7f800000u;
    }
    if (e >= 1) { /* a carry runs into the exponent, at the top into infinity */
        return sign | (uint32_t)ls_round_shift((uint64_t)e << 52 | man, 29);
    }
    int shift = 30 - e;
    return sign | (shift > 53 ? 0 : (uint32_t)ls_round_shift(man | (uint64_t)1 << 52, shift));
}

/* Integer dtypes by LS_DTYPE: what they hold. */
static uint64_t int_max(ls_dtype dtype) {
    int bits = 8 * (int)ls_dtype_size(dtype) - ls_dtype_is_signed(dtype);
    return bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
}

static uint64_t int_mask(ls_dtype dtype, uint64_t bits) {
    size_t size = ls_dtype_size(dtype);
    return size == 8 ? bits : bits & (((uint64_t)1 << (8 * size)) - 1);
}

/* sign and magnitude, saturating */
static uint64_t int_from(ls_dtype dtype, bool negative, uint64_t mag) {
    uint64_t max = int_max(dtype);
    if (negative) {
        uint64_t low = ls_dtype_is_signed(dtype) ? max + 1 : 0;
        return int_mask(dtype, 0 - (mag > low ? low : mag));
    }
    return mag > max ? max : mag;
}

uint64_t ls_value_from_f64(ls_dtype dtype, double value) {
    if (dtype == LS_F64) {
        return value != value ? LS_NAN_F64 : ls_f64_bits(value);
    }
    if (dtype == LS_F32) {
        return f64_to_f32(value);
    }
    if (dtype == LS_F16) {
        return ls_f64_to_f16(value);
    }
    if (dtype == LS_BF16) {
        return ls_f64_to_bf16(value);
    }
    if (dtype == LS_BOOL) {
        return value != 0;
    }
    if (value != value) {
        return 0;
    }
    double mag = value < 0 ? -value : value;
    return int_from(dtype, value < 0, mag >= 0x1p64 ? UINT64_MAX : (uint64_t)mag);
}

/* sign and magnitude rounded to `bits` significant bits: exact as a double for bits <= 53, except past its
 * range (never) */
static double round_int(bool negative, uint64_t mag, int bits) {
    int width = mag ? 64 - __builtin_clzll(mag) : 0, shift = width - bits;
    uint64_t q = shift > 0 ? ls_round_shift(mag, shift) : mag;
    double d = (double)q * (shift > 0 ? (double)((uint64_t)1 << shift) : 1.0);
    return negative ? -d : d;
}

uint64_t ls_value_from_i64(ls_dtype dtype, int64_t value) {
    bool negative = value < 0;
    uint64_t mag = negative ? 0 - (uint64_t)value : (uint64_t)value;
    static const int significant[LS_DTYPE_COUNT] = {
        [LS_F16] = 11, [LS_BF16] = 8, [LS_F32] = 24, [LS_F64] = 53};
    if (ls_dtype_is_float(dtype)) {
        return ls_value_from_f64(dtype, round_int(negative, mag, significant[dtype]));
    }
    return dtype == LS_BOOL ? value != 0 : int_from(dtype, negative, mag);
}

double ls_value_to_f64(ls_dtype dtype, uint64_t bits) {
    if (dtype == LS_F64) {
        return ls_f64_of(bits);
    }
    if (dtype == LS_F32) {
        return (double)ls_f32_of((uint32_t)bits);
    }
    if (dtype == LS_F16) {
        return (double)ls_f16_to_f32((uint16_t)bits);
    }
    if (dtype == LS_BF16) {
        return (double)ls_bf16_to_f32((uint16_t)bits);
    }
    if (dtype == LS_BOOL || !ls_dtype_is_signed(dtype)) {
        return round_int(false, int_mask(dtype, bits), 53);
    }
    int unused = 64 - 8 * (int)ls_dtype_size(dtype);
    int64_t value = (int64_t)(bits << unused) >> unused;
    return round_int(value < 0, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, 53);
}

ls_dtype ls_dtype_accumulator(ls_dtype dtype, bool contraction) {
    static const ls_dtype wide[LS_DTYPE_COUNT] = {
        [LS_BOOL] = LS_BOOL, [LS_U8] = LS_U32,  [LS_U16] = LS_U32, [LS_U32] = LS_U32, [LS_U64] = LS_U64,
        [LS_I8] = LS_I32,    [LS_I16] = LS_I32, [LS_I32] = LS_I32, [LS_I64] = LS_I64, [LS_F16] = LS_F32,
        [LS_BF16] = LS_F32,  [LS_F32] = LS_F32, [LS_F64] = LS_F64,
    };
    return contraction && wide[dtype] == LS_U32 && dtype != LS_U32 ? LS_I32 : wide[dtype];
}
