/* Folding constants. Only operations whose every bit follows from IEEE arithmetic of the host (rounding
 * mode and flushing set as the contract has them), or from integers: what needs an elementary function is
 * left to the kernels. */
#include "graph/fold.h"
#include "base/half.h"
#include "base/numerics.h"
#include <string.h>

/* One operation in a floating type. False: not folded. */
#define FLOAT_OP(name, type, root)                                                                           \
    static bool name(ls_op op, type a, type b, type *out) {                                                  \
        if (op == LS_OP_ADD) {                                                                               \
            *out = a + b;                                                                                    \
        } else if (op == LS_OP_SUB) {                                                                        \
            *out = a - b;                                                                                    \
        } else if (op == LS_OP_MUL) {                                                                        \
            *out = a * b;                                                                                    \
        } else if (op == LS_OP_DIV) {                                                                        \
            *out = a / b;                                                                                    \
        } else if (op == LS_OP_NEG) {                                                                        \
            *out = -a;                                                                                       \
        } else if (op == LS_OP_RECIP) {                                                                      \
            *out = 1 / a;                                                                                    \
        } else if (op == LS_OP_SQRT) {                                                                       \
            *out = root(a);                                                                                  \
        } else {                                                                                             \
            return false;                                                                                    \
        }                                                                                                    \
        return true;                                                                                         \
    }
FLOAT_OP(fold_f32, float, __builtin_sqrtf)
FLOAT_OP(fold_f64, double, __builtin_sqrt)

/* f16 and bf16 are the f32 operation and one rounding; f32 and f64 are exact as doubles, so
 * ls_value_from_f64 keeps them. */
static bool fold_float(const ls_tensor *x, double a, double b, uint64_t *out_bits) {
    ls_numerics state = ls_numerics_enter();
    double wide = 0;
    float narrow = 0;
    bool done =
        x->dtype == LS_F64 ? fold_f64(x->op, a, b, &wide) : fold_f32(x->op, (float)a, (float)b, &narrow);
    *out_bits = ls_value_from_f64(x->dtype, x->dtype == LS_F64 ? wide : (double)narrow);
    ls_numerics_leave(state);
    return done;
}

static uint64_t wrap(ls_dtype dtype, uint64_t value) {
    size_t size = ls_dtype_size(dtype);
    return size == 8 ? value : value & (((uint64_t)1 << (8 * size)) - 1);
}

static bool fold_integer(const ls_tensor *x, uint64_t a, uint64_t b, uint64_t *out_bits) {
    uint64_t r = 0;
    if (x->op == LS_OP_ADD) {
        r = a + b;
    } else if (x->op == LS_OP_SUB) {
        r = a - b;
    } else if (x->op == LS_OP_MUL) {
        r = a * b;
    } else if (x->op == LS_OP_NEG) {
        r = 0 - a;
    } else {
        return false;
    }
    *out_bits = wrap(x->dtype, r);
    return true;
}

static bool fold_cast(const ls_tensor *x, const ls_tensor *a, uint64_t *out_bits) {
    if (ls_dtype_is_float(a->dtype)) { /* exact as a double, so one rounding */
        *out_bits = ls_value_from_f64(x->dtype, ls_value_to_f64(a->dtype, a->attr.value));
        return true;
    }
    int unused = ls_dtype_is_signed(a->dtype) ? 64 - 8 * (int)ls_dtype_size(a->dtype) : 0;
    int64_t value = (int64_t)(a->attr.value << unused) >> unused;
    if (ls_dtype_is_float(x->dtype)) {
        *out_bits = ls_value_from_i64(x->dtype, value);
        return a->dtype != LS_U64 || value >= 0;
    }
    *out_bits = x->dtype == LS_BOOL ? value != 0 : wrap(x->dtype, (uint64_t)value);
    return true;
}

bool ls_fold(const ls_tensor *x, uint64_t *out_bits) {
    if (ls_ops[x->op].op_class != LS_CLASS_MAP) {
        return false;
    }
    for (int i = 0; i < x->n_src; i++) {
        if (x->src[i]->op != LS_OP_CONST) {
            return false;
        }
    }
    const ls_tensor *a = x->src[0], *b = x->src[x->n_src - 1];
    if (x->op == LS_OP_CAST) {
        return fold_cast(x, a, out_bits);
    }
    if (a->dtype != x->dtype || x->dtype == LS_BOOL) { /* comparisons, bit casts */
        return false;
    }
    return ls_dtype_is_float(x->dtype) ? fold_float(x, ls_value_to_f64(x->dtype, a->attr.value),
                                                    ls_value_to_f64(x->dtype, b->attr.value), out_bits)
                                       : fold_integer(x, a->attr.value, b->attr.value, out_bits);
}
