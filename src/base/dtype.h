/* Classes of data types. */
#ifndef LOCKSTEP_BASE_DTYPE_H
#define LOCKSTEP_BASE_DTYPE_H

#include <lockstep/dtype.h>
#include <stdbool.h>

static inline bool ls_dtype_is_float(ls_dtype d) { return d >= LS_F16 && d <= LS_F64; }
static inline bool ls_dtype_is_int(ls_dtype d) { return d >= LS_U8 && d <= LS_I64; }
static inline bool ls_dtype_is_signed(ls_dtype d) { return d >= LS_I8 && d <= LS_F64; }
static inline bool ls_dtype_is_signed_int(ls_dtype d) { return d >= LS_I8 && d <= LS_I64; }

#endif
