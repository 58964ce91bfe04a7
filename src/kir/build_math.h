/* The elementary functions (math/math.h) as kernel instructions: ls_kb_math_exp(kb, x), ... for every name of
 * LS_MATH_UNARY, and ls_kb_math_pow. The bits are those of ls_exp_f32 and ls_exp_f64 on every device that keeps the
 * contract. f16 and bf16 compute in f32 and round once. Each call records the whole function; equal parts are shared by
 * ls_kernel_simplify, which also makes their order independent of the C compiler. */
#ifndef LOCKSTEP_KIR_BUILD_MATH_H
#define LOCKSTEP_KIR_BUILD_MATH_H

#include "kir/build.h"
#include "math/math.h"

#define LS_KB_MATH_DECLARE(name) ls_val ls_kb_math_##name(ls_kb *kb, ls_val x);
LS_MATH_UNARY(LS_KB_MATH_DECLARE)
#define LS_KB_MATH64_DECLARE(name) ls_val ls_kb_math64_##name(ls_kb *kb, ls_val x); /* of f64, called by those above */
LS_MATH_UNARY(LS_KB_MATH64_DECLARE)
#undef LS_KB_MATH64_DECLARE
#undef LS_KB_MATH_DECLARE

ls_val ls_kb_math_pow(ls_kb *kb, ls_val x, ls_val y);
ls_val ls_kb_math64_pow(ls_kb *kb, ls_val x, ls_val y);

/* For fast arithmetic (build_fast.c): within 1.5 ULP in f32 and fewer instructions; other bits where a device fuses. */
ls_val ls_kb_fast_exp(ls_kb *kb, ls_val x);
ls_val ls_kb_fast_erf(ls_kb *kb, ls_val x);

#endif
