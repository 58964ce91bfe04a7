// The elementary functions on vectors, lane by lane the same bits as math.h: ls_v<name>_f32(ls_vf32 x) and
// ls_v<name>_f64(ls_vf64 x) for every <name> of LS_MATH_UNARY, and ls_vpow_f32, ls_vpow_f64. All are static
// inline, to be included by each object that is compiled for one instruction set; the includer may set
//   LS_LANES      f32 lanes, a power of two: 16, 8, 4, 1, ... (default: the width of the instruction set)
//   LS_LANES_F64  f64 lanes (default: half of LS_LANES, at least 1)
//   LS_MANY       2 or 4: also ls_m<name>_f32(ls_mf32), on so many vectors a, b, ... at a time
//   LS_MANY_FAST  also ls_mfast_<name>_f32, for those that fast.inc has
// With one lane the types are float and double. More lanes than the instruction set has work too, but gcc and
// clang warn (-Wpsabi) where such vectors are passed. Same demands on rounding and subnormals as math.h.
#ifndef LOCKSTEP_MATH_VECTOR_H
#define LOCKSTEP_MATH_VECTOR_H

#include <stdint.h>

// Which intrinsics may be used; an includer inside a target attribute says so itself.
#ifndef LS_MATH_AVX512
#ifdef __AVX512F__
#define LS_MATH_AVX512 1
#else
#define LS_MATH_AVX512 0
#endif
#endif
#ifndef LS_MATH_AVX2
#ifdef __AVX2__
#define LS_MATH_AVX2 1
#else
#define LS_MATH_AVX2 0
#endif
#endif
#if LS_MATH_AVX512 || LS_MATH_AVX2
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#endif

#include "math/const32.h"
#include "math/const64.h"

#ifndef LS_LANES
#if LS_MATH_AVX512
#define LS_LANES 16
#elif LS_MATH_AVX2
#define LS_LANES 8
#else
#define LS_LANES 4
#endif
#endif
#ifndef LS_LANES_F64
#if LS_LANES > 1
#define LS_LANES_F64 (LS_LANES / 2)
#else
#define LS_LANES_F64 1
#endif
#endif

#define FUNC static inline __attribute__((always_inline, unused))
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpsabi" // wide vectors passed by value: everything here is inlined
#endif

#define LS_MATH_BITS 32
#define FN(name) ls_v##name##_f32
#if LS_LANES > 1
#define LS_OPS_LANES LS_LANES
#include "math/ops_vector.inc"
#else
#include "math/ops_scalar.inc"
#endif
typedef V ls_vf32;
typedef VI ls_vu32;
#include "math/math.inc"
#ifdef LS_MANY
#include "math/ops_many.inc"
#include "math/math.inc"
#ifdef LS_MANY_FAST
#include "math/fast.inc"
#endif
#endif
#include "math/ops_end.inc"

#define LS_MATH_BITS 64
#define FN(name) ls_v##name##_f64
#if LS_LANES_F64 > 1
#define LS_OPS_LANES LS_LANES_F64
#include "math/ops_vector.inc"
#else
#include "math/ops_scalar.inc"
#endif
typedef V ls_vf64;
typedef VI ls_vu64;
#include "math/math.inc"
#include "math/ops_end.inc"

#undef FUNC
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif
