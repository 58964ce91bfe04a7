/* Data types of tensor elements. */
#ifndef LOCKSTEP_DTYPE_H
#define LOCKSTEP_DTYPE_H

#include <lockstep/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ls_dtype {
    LS_BOOL, /* one byte, 0 or 1 */
    LS_U8,
    LS_U16,
    LS_U32,
    LS_U64,
    LS_I8,
    LS_I16,
    LS_I32,
    LS_I64,
    LS_F16,
    LS_BF16,
    LS_F32,
    LS_F64,
    LS_DTYPE_COUNT
} ls_dtype;

/* Bytes of one element: 1, 2, 4 or 8; 0 for no dtype. */
LS_API size_t ls_dtype_size(ls_dtype dtype);
/* "bool", "u8", ..., "f16", "bf16", "f32", "f64"; "?" for no dtype. */
LS_API const char *ls_dtype_name(ls_dtype dtype);
/* The dtype of a name as ls_dtype_name gives it; LS_DTYPE_COUNT for none. */
LS_API ls_dtype ls_dtype_parse(const char *name);

#ifdef __cplusplus
}
#endif
#endif
