/* build_math64.c in the modules of pages: WGSL has no f64, so a kernel that calls one of these is refused whatever it
 * records. */
#include "kir/build_math.h"

#define DEFINE(name)                                                                                         \
    ls_val ls_kb_math64_##name(ls_kb *kb, ls_val x) {                                                        \
        (void)kb;                                                                                            \
        return x;                                                                                            \
    }
LS_MATH_UNARY(DEFINE)

ls_val ls_kb_math64_pow(ls_kb *kb, ls_val x, ls_val y) {
    (void)kb, (void)y;
    return x;
}
