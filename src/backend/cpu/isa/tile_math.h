/* The elementary functions over tiles (tile_math.c). */
#ifndef LOCKSTEP_BACKEND_CPU_ISA_TILE_MATH_H
#define LOCKSTEP_BACKEND_CPU_ISA_TILE_MATH_H

#include "backend/cpu/isa/tile_isa.h"
#include "math/math.h"

#define LS_TILE_MATH(name, tag) LS_TILE_NAME(ls_tile_##name##_##tag)
#define LS_TILE_MATH_DECLARE(name)                                                                           \
    void LS_TILE_MATH(name, f32)(void *dst, const void *a, const void *b, const void *c, int64_t n);         \
    void LS_TILE_MATH(name, f64)(void *dst, const void *a, const void *b, const void *c, int64_t n);
LS_MATH_UNARY(LS_TILE_MATH_DECLARE)
LS_TILE_MATH_DECLARE(pow)
#undef LS_TILE_MATH_DECLARE

#endif
