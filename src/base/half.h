/* f16 and bf16 conversions: round to nearest even, subnormals kept, overflow to infinity, NaN canonical. Any thread. */
#ifndef LOCKSTEP_BASE_HALF_H
#define LOCKSTEP_BASE_HALF_H

#include <stdint.h>

float ls_f16_to_f32(uint16_t h);   /* exact */
uint16_t ls_f32_to_f16(float f);
uint16_t ls_f64_to_f16(double d);  /* one rounding, not two */
float ls_bf16_to_f32(uint16_t b);  /* exact */
uint16_t ls_f32_to_bf16(float f);
uint16_t ls_f64_to_bf16(double d); /* one rounding, not two */

/* Canonical NaNs: positive, quiet, no payload. */
#define LS_NAN_F16 0x7e00u
#define LS_NAN_BF16 0x7fc0u
#define LS_NAN_F32 0x7fc00000u
#define LS_NAN_F64 0x7ff8000000000000u

#endif
