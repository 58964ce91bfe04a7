/* The table of operations, expanded from op.def, and the dtype classes its rows name. */
#include "graph/graph.h"

const ls_op_info ls_ops[LS_OP_COUNT] = {
#define OP(id, name, arity, class, dtypes, doc)                                                              \
    {#id, #name, arity, LS_CLASS_##class, LS_DTYPES_##dtypes},
#include "graph/op.def"
#undef OP
};

static const struct {
    ls_dtype first, last;
    const char *text;
} classes[] = {
    [LS_DTYPES_ANY] = {LS_BOOL, LS_F64, "a dtype"},
    [LS_DTYPES_NUM] = {LS_U8, LS_F64, "a numeric dtype (not bool)"},
    [LS_DTYPES_FLOAT] = {LS_F16, LS_F64, "a floating dtype"},
    [LS_DTYPES_INT] = {LS_BOOL, LS_I64, "an integer dtype or bool"},
    [LS_DTYPES_INTEGER] = {LS_U8, LS_I64, "an integer dtype"},
    [LS_DTYPES_SPECIAL] = {LS_BOOL, LS_F64, "a dtype"},
};

bool ls_op_accepts(ls_op op, ls_dtype dtype) {
    int d = ls_ops[op].dtypes;
    return dtype >= classes[d].first && dtype <= classes[d].last;
}

const char *ls_dtypes_text(int dtypes) {
    return classes[dtypes].text;
}
