/* The table of data types. */
#include <lockstep/dtype.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
} dtypes[LS_DTYPE_COUNT] = {
    [LS_BOOL] = {"bool", 1}, [LS_U8] = {"u8", 1},   [LS_U16] = {"u16", 2},   [LS_U32] = {"u32", 4},
    [LS_U64] = {"u64", 8},   [LS_I8] = {"i8", 1},   [LS_I16] = {"i16", 2},   [LS_I32] = {"i32", 4},
    [LS_I64] = {"i64", 8},   [LS_F16] = {"f16", 2}, [LS_BF16] = {"bf16", 2}, [LS_F32] = {"f32", 4},
    [LS_F64] = {"f64", 8},
};

size_t ls_dtype_size(ls_dtype dtype) {
    return (unsigned)dtype < LS_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

const char *ls_dtype_name(ls_dtype dtype) {
    return (unsigned)dtype < LS_DTYPE_COUNT ? dtypes[dtype].name : "?";
}

ls_dtype ls_dtype_parse(const char *name) {
    for (int i = 0; i < LS_DTYPE_COUNT; i++) {
        if (!strcmp(dtypes[i].name, name)) {
            return (ls_dtype)i;
        }
    }
    return LS_DTYPE_COUNT;
}
