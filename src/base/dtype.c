/* The table of data types. */
#include "base/dtype.h"
#include <string.h>

const uint8_t ls_dtype_sizes[LS_DTYPE_COUNT] = {
    [LS_BOOL] = 1, [LS_U8] = 1,  [LS_U16] = 2, [LS_U32] = 4,  [LS_U64] = 8, [LS_I8] = 1,  [LS_I16] = 2,
    [LS_I32] = 4,  [LS_I64] = 8, [LS_F16] = 2, [LS_BF16] = 2, [LS_F32] = 4, [LS_F64] = 8,
};

static const char *const names[LS_DTYPE_COUNT] = {
    [LS_BOOL] = "bool", [LS_U8] = "u8",   [LS_U16] = "u16", [LS_U32] = "u32",   [LS_U64] = "u64", [LS_I8] = "i8",   [LS_I16] = "i16",
    [LS_I32] = "i32",   [LS_I64] = "i64", [LS_F16] = "f16", [LS_BF16] = "bf16", [LS_F32] = "f32", [LS_F64] = "f64",
};

size_t ls_dtype_size(ls_dtype dtype) {
    return (unsigned)dtype < LS_DTYPE_COUNT ? ls_dtype_sizes[dtype] : 0;
}

const char *ls_dtype_name(ls_dtype dtype) {
    return (unsigned)dtype < LS_DTYPE_COUNT ? names[dtype] : "?";
}

ls_dtype ls_dtype_parse(const char *name) {
    for (int i = 0; i < LS_DTYPE_COUNT; i++) {
        if (!strcmp(names[i], name)) {
            return (ls_dtype)i;
        }
    }
    return LS_DTYPE_COUNT;
}
