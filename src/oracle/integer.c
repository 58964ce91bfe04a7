/* Integers and bools, exact by the contract: they wrap, x/0 = 0, x%0 = 0, MIN/-1 = MIN, a shift by the width
 * or more leaves nothing. */
#include "oracle/oracle.h"

static int bits_of(ls_dtype dtype) {
    return (int)(8 * ls_dtype_size(dtype));
}

int64_t ls_oracle_wrap(ls_dtype dtype, int64_t value) {
    switch (dtype) {
    case LS_BOOL:
        return value & 1;
    case LS_U8:
        return (uint8_t)value;
    case LS_U16:
        return (uint16_t)value;
    case LS_U32:
        return (uint32_t)value;
    case LS_I8:
        return (int8_t)value;
    case LS_I16:
        return (int16_t)value;
    case LS_I32:
        return (int32_t)value;
    default:
        return value;
    }
}

static bool less(ls_dtype dtype, int64_t a, int64_t b) {
    return dtype == LS_U64 ? (uint64_t)a < (uint64_t)b : a < b;
}

static int64_t quotient(ls_dtype dtype, int64_t a, int64_t b, int64_t *rest) {
    int64_t q;
    if (b == 0) {
        *rest = 0;
        return 0;
    }
    if (dtype == LS_U64) {
        q = (int64_t)((uint64_t)a / (uint64_t)b);
        *rest = (int64_t)((uint64_t)a % (uint64_t)b);
    } else if (b == -1 && ls_dtype_is_signed(dtype)) {
        q = (int64_t)(0 - (uint64_t)a);
        *rest = 0;
    } else {
        q = a / b;
        *rest = a % b;
    }
    return q;
}

static int64_t shifted(ls_op op, ls_dtype dtype, int64_t a, int64_t by) {
    int width = bits_of(dtype);
    uint64_t n = (uint64_t)by & (~UINT64_C(0) >> (64 - width)); /* the count is unsigned */
    bool all = n >= (uint64_t)width;
    if (op == LS_OP_SHL) {
        return all ? 0 : (int64_t)((uint64_t)a << n);
    }
    if (ls_dtype_is_signed(dtype)) {
        return a >> (all ? 63 : n);
    }
    return all ? 0 : (int64_t)((uint64_t)a >> n);
}

static int ones(ls_dtype dtype, int64_t a) {
    int n = 0;
    for (int i = 0; i < bits_of(dtype); i++) {
        n += (int)((uint64_t)a >> i & 1);
    }
    return n;
}

int64_t ls_oracle_integer(ls_op op, ls_dtype dtype, ls_dtype out, int64_t a, int64_t b) {
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    int64_t rest = 0, r = 0;
    switch (op) {
    case LS_OP_NEG:
        r = (int64_t)(0 - x);
        break;
    case LS_OP_ABS:
        r = less(dtype, a, 0) ? (int64_t)(0 - x) : a;
        break;
    case LS_OP_SIGN:
        r = less(dtype, a, 0) ? -1 : a != 0;
        break;
    case LS_OP_NOT:
        r = dtype == LS_BOOL ? !a : ~a;
        break;
    case LS_OP_POPCOUNT:
        r = ones(dtype, a);
        break;
    case LS_OP_ADD:
        r = (int64_t)(x + y);
        break;
    case LS_OP_SUB:
        r = (int64_t)(x - y);
        break;
    case LS_OP_MUL:
        r = (int64_t)(x * y);
        break;
    case LS_OP_DIV:
        r = quotient(dtype, a, b, &rest);
        break;
    case LS_OP_REM:
        quotient(dtype, a, b, &rest), r = rest;
        break;
    case LS_OP_MIN:
        r = less(dtype, a, b) ? a : b;
        break;
    case LS_OP_MAX:
        r = less(dtype, a, b) ? b : a;
        break;
    case LS_OP_AND:
        r = a & b;
        break;
    case LS_OP_OR:
        r = a | b;
        break;
    case LS_OP_XOR:
        r = a ^ b;
        break;
    case LS_OP_SHL:
    case LS_OP_SHR:
        r = shifted(op, dtype, a, b);
        break;
    case LS_OP_EQ:
        r = a == b;
        break;
    case LS_OP_NE:
        r = a != b;
        break;
    case LS_OP_LT:
        r = less(dtype, a, b);
        break;
    case LS_OP_LE:
        r = !less(dtype, b, a);
        break;
    default:
        break;
    }
    return ls_oracle_wrap(out, r);
}
