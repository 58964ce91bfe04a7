/* Classes and sizes of data types. */
#ifndef LOCKSTEP_BASE_DTYPE_H
#define LOCKSTEP_BASE_DTYPE_H

#include <lockstep/dtype.h>
#include <stdbool.h>
#include <stdint.h>

extern const uint8_t ls_dtype_sizes[LS_DTYPE_COUNT];

/* ls_dtype_size of what is known to be a data type. */
static inline size_t ls_dtype_bytes(ls_dtype d) { return ls_dtype_sizes[d]; }
static inline int ls_dtype_bits(ls_dtype d) { return d == LS_BOOL ? 1 : 8 * ls_dtype_sizes[d]; } /* width; 1 for bool */
static inline bool ls_dtype_is_float(ls_dtype d) { return d >= LS_F16 && d <= LS_F64; }
static inline bool ls_dtype_is_int(ls_dtype d) { return d >= LS_U8 && d <= LS_I64; }
static inline bool ls_dtype_is_signed(ls_dtype d) { return d >= LS_I8 && d <= LS_F64; }
static inline bool ls_dtype_is_signed_int(ls_dtype d) { return d >= LS_I8 && d <= LS_I64; }

#endif
