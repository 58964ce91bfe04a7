/* math.inc instantiated over the builder: f64 (build_math.c: f32, and what decides between them). */
#include "kir/build_math.h"
#include "math/const64.h"

#define FUNC static inline __attribute__((unused))

#define LS_MATH_BITS 64
#define FN(name) f64_##name
#define FLOAT_TYPE LS_F64
#define WORD_TYPE LS_U64
#define INT_TYPE LS_I64
#include "kir/ops_kir.inc"
#include "math/math.inc"
#include "math/ops_end.inc"
#undef FLOAT_TYPE
#undef WORD_TYPE
#undef INT_TYPE

#define DEFINE(name)                                                                                         \
    ls_val ls_kb_math64_##name(ls_kb *kb, ls_val x) {                                                        \
        return f64_##name(kb, x);                                                                            \
    }
LS_MATH_UNARY(DEFINE)

ls_val ls_kb_math64_pow(ls_kb *kb, ls_val x, ls_val y) {
    return f64_pow(kb, x, y);
}
