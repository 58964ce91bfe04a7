/* math.inc instantiated over the builder: f32 (build_math64.c: f64). What C leaves open, the order in which arguments are evaluated, changes the
 * order of recorded instructions and nothing else; ls_kernel_simplify numbers them by use. */
#include "kir/build_math.h"
#include "math/const32.h"

#define FUNC static inline __attribute__((unused))

#define LS_MATH_BITS 32
#define FN(name) f32_##name
#define FLOAT_TYPE LS_F32
#define WORD_TYPE LS_U32
#define INT_TYPE LS_I32
#include "kir/ops_kir.inc"
#include "math/math.inc"
#include "math/ops_end.inc"
#undef FLOAT_TYPE
#undef WORD_TYPE
#undef INT_TYPE

static ls_dtype type_of(const ls_kb *kb, ls_val x) {
    return x < 0 || x >= kb->kernel.n_body ? LS_F32 : (ls_dtype)kb->kernel.body[x].dtype;
}

#define DEFINE(name)                                                                                         \
    ls_val ls_kb_math_##name(ls_kb *kb, ls_val x) {                                                          \
        ls_dtype type = type_of(kb, x);                                                                      \
        if (type == LS_F64) {                                                                                \
            return ls_kb_math64_##name(kb, x);                                                                        \
        }                                                                                                    \
        ls_val y = f32_##name(kb, ls_kb_cast(kb, x, LS_F32));                                                \
        return ls_kb_cast(kb, y, type);                                                                      \
    }
LS_MATH_UNARY(DEFINE)

ls_val ls_kb_math_pow(ls_kb *kb, ls_val x, ls_val y) {
    ls_dtype type = type_of(kb, x);
    if (type == LS_F64) {
        return ls_kb_math64_pow(kb, x, y);
    }
    ls_val base = ls_kb_cast(kb, x, LS_F32);
    ls_val exponent = ls_kb_cast(kb, y, LS_F32);
    return ls_kb_cast(kb, f32_pow(kb, base, exponent), type);
}
