/* Arithmetic in SPIR-V. Every float instruction without LS_KF_FAST is decorated NoContraction. */
#include "render/spirv.h"

typedef struct operands {
    spv_kind kind; /* of the sources */
    ls_dtype dtype;
    int lanes;
    uint32_t type; /* of the result */
    uint32_t a, b, c;
} operands;

static bool is_float(spv_kind kind) {
    return kind >= SPV_F16;
}

static uint32_t exact(spv_module *m, const ls_ins *ins, uint32_t id) {
    if (!(ins->flags & LS_KF_FAST)) {
        SPV_PUT(m, SPV_SEC_DECORATIONS, SPV_DECORATE, id, SPV_DECO_NO_CONTRACTION);
    }
    return id;
}

uint32_t ls_spv_select(spv_module *m, uint32_t condition, int condition_lanes, uint32_t type, int lanes,
                       uint32_t yes, uint32_t no) {
    if (condition_lanes < lanes) {
        uint32_t all[4] = {condition, condition, condition, condition};
        condition =
            ls_spv_value(m, SPV_COMPOSITE_CONSTRUCT, ls_spv_type(m, SPV_BOOL, lanes), all, (size_t)lanes);
    }
    return SPV_VALUE(m, SPV_SELECT, type, condition, yes, no);
}

static uint32_t bits_of(spv_module *m, spv_kind kind, int lanes, uint32_t value) {
    spv_kind bits = kind == SPV_F64 ? SPV_U64 : kind == SPV_F16 ? SPV_U16 : SPV_U32;
    return SPV_VALUE(m, SPV_BITCAST, ls_spv_type(m, bits, lanes), value);
}

/* NaN propagates and -0 < +0. Of equal values, or when one is a NaN, the bits decide: equal ones differ in the sign of zero at
 * most, and ORing anything into a NaN leaves a NaN. */
static uint32_t float_min_max(spv_module *m, const ls_ins *ins, const operands *o) {
    uint32_t truth = ls_spv_type(m, SPV_BOOL, o->lanes);
    bool max = ins->op == LS_K_MAX;
    uint32_t first = max ? o->b : o->a, second = max ? o->a : o->b;
    uint32_t a_wins = SPV_VALUE(m, SPV_F_ORD_LESS_THAN, truth, first, second);
    if (ins->flags & LS_KF_FAST) {
        uint32_t nan = SPV_VALUE(m, SPV_F_UNORD_NOT_EQUAL, truth, o->a, o->a);
        a_wins = SPV_VALUE(m, SPV_LOGICAL_OR, truth, a_wins, nan);
        return SPV_VALUE(m, SPV_SELECT, o->type, a_wins, o->a, o->b);
    }
    spv_kind kind = o->kind == SPV_F64 ? SPV_U64 : SPV_U32;
    uint32_t bits = ls_spv_type(m, kind, o->lanes);
    uint32_t x = bits_of(m, o->kind, o->lanes, o->a), y = bits_of(m, o->kind, o->lanes, o->b);
    uint32_t either = SPV_VALUE(m, SPV_BITWISE_OR, bits, x, y);
    if (max) {
        uint32_t both = SPV_VALUE(m, SPV_BITWISE_AND, bits, x, y);
        uint32_t equal = SPV_VALUE(m, SPV_F_ORD_EQUAL, truth, o->a, o->b);
        either = SPV_VALUE(m, SPV_SELECT, bits, equal, both, either);
    }
    uint32_t b_wins = SPV_VALUE(m, SPV_F_ORD_LESS_THAN, truth, second, first);
    uint32_t r = SPV_VALUE(m, SPV_SELECT, bits, b_wins, y, either);
    return SPV_VALUE(m, SPV_BITCAST, o->type, SPV_VALUE(m, SPV_SELECT, bits, a_wins, x, r));
}

/* By integers: a compiler may take away a comparison of a value with itself. */
static uint32_t canon(spv_module *m, const operands *o) {
    spv_kind kind = o->kind == SPV_F64 ? SPV_U64 : SPV_U32;
    uint64_t inf = o->kind == SPV_F64 ? UINT64_C(0x7ff) << 52 : 0x7f800000u;
    uint64_t nan = o->kind == SPV_F64 ? UINT64_C(0xfff) << 51 : 0x7fc00000u;
    uint64_t magnitude = o->kind == SPV_F64 ? ~UINT64_C(0) >> 1 : 0x7fffffffu;
    uint32_t type = ls_spv_type(m, kind, o->lanes), bits = bits_of(m, o->kind, o->lanes, o->a);
    uint32_t abs = SPV_VALUE(m, SPV_BITWISE_AND, type, bits, ls_spv_const(m, kind, o->lanes, magnitude));
    uint32_t infinity = ls_spv_const(m, kind, o->lanes, inf);
    uint32_t is_nan = SPV_VALUE(m, SPV_U_GREATER_THAN, ls_spv_type(m, SPV_BOOL, o->lanes), abs, infinity);
    bits = SPV_VALUE(m, SPV_SELECT, type, is_nan, ls_spv_const(m, kind, o->lanes, nan), bits);
    return SPV_VALUE(m, SPV_BITCAST, o->type, bits);
}

/* What is rounded to a whole number has the sign of what it was, zeros too, which a driver may lose on its way over integers. */
static uint32_t with_sign(spv_module *m, const operands *o, uint32_t whole) {
    uint32_t type = ls_spv_type(m, SPV_U64, o->lanes), sign = ls_spv_const(m, SPV_U64, o->lanes, UINT64_C(1) << 63);
    sign = SPV_VALUE(m, SPV_BITWISE_AND, type, bits_of(m, o->kind, o->lanes, o->a), sign);
    return SPV_VALUE(m, SPV_BITCAST, o->type, SPV_VALUE(m, SPV_BITWISE_OR, type, bits_of(m, o->kind, o->lanes, whole), sign));
}

static uint32_t umulhi(spv_module *m, const operands *o) {
    uint32_t pair = ls_spv_unique(m, SPV_TYPE_STRUCT, 0, SPV_ARGS(o->type, o->type), NULL);
    uint32_t product = SPV_VALUE(m, SPV_U_MUL_EXTENDED, pair, o->a, o->b);
    return SPV_VALUE(m, SPV_COMPOSITE_EXTRACT, o->type, product, 1);
}

/* OpBitCount is for 32 bits alone. */
static uint32_t popcount(spv_module *m, const operands *o) {
    uint32_t u32 = ls_spv_type(m, SPV_U32, 1), u64, parts[4] = {0};
    if (o->kind != SPV_U64) {
        return SPV_VALUE(m, SPV_BIT_COUNT, o->type, o->a);
    }
    u64 = ls_spv_type(m, SPV_U64, 1);
    for (int i = 0; i < o->lanes; i++) {
        uint32_t word[2],
            v = o->lanes == 1 ? o->a : SPV_VALUE(m, SPV_COMPOSITE_EXTRACT, u64, o->a, (uint32_t)i);
        v = SPV_VALUE(m, SPV_BITCAST, ls_spv_type(m, SPV_U32, 2), v);
        for (uint32_t half = 0; half < 2; half++) {
            word[half] = SPV_VALUE(m, SPV_BIT_COUNT, u32, SPV_VALUE(m, SPV_COMPOSITE_EXTRACT, u32, v, half));
        }
        parts[i] = SPV_VALUE(m, SPV_U_CONVERT, u64, SPV_VALUE(m, SPV_I_ADD, u32, word[0], word[1]));
    }
    return o->lanes == 1 ? parts[0]
                         : ls_spv_value(m, SPV_COMPOSITE_CONSTRUCT, o->type, parts, (size_t)o->lanes);
}

static uint32_t arithmetic(spv_module *m, const ls_ins *ins, const operands *o) {
    bool f = is_float(o->kind), s = ls_dtype_is_signed(o->dtype);
    spv_op op;
    switch (ins->op) {
    case LS_K_ADD:
        op = f ? SPV_F_ADD : SPV_I_ADD;
        break;
    case LS_K_SUB:
        op = f ? SPV_F_SUB : SPV_I_SUB;
        break;
    case LS_K_MUL:
        op = f ? SPV_F_MUL : SPV_I_MUL;
        break;
    case LS_K_DIV:
        op = f ? SPV_F_DIV : s ? SPV_S_DIV : SPV_U_DIV;
        break;
    default:
        op = SPV_U_MOD;
        break;
    }
    if (ins->op == LS_K_REM &&
        s) { /* Vulkan leaves OpSRem of negative operands undefined, and NVIDIA's gives other values */
        uint32_t quotient = SPV_VALUE(m, SPV_S_DIV, o->type, o->a, o->b);
        return SPV_VALUE(m, SPV_I_SUB, o->type, o->a, SPV_VALUE(m, SPV_I_MUL, o->type, quotient, o->b));
    }
    uint32_t id = SPV_VALUE(m, op, o->type, o->a, o->b);
    return f ? exact(m, ins, id) : id;
}

static uint32_t one_operand(spv_module *m, const ls_ins *ins, const operands *o) {
    static const uint8_t glsl[LS_K_COUNT] = {
        [LS_K_SQRT] = GLSL_SQRT,   [LS_K_FLOOR] = GLSL_FLOOR,     [LS_K_CEIL] = GLSL_CEIL,
        [LS_K_TRUNC] = GLSL_TRUNC, [LS_K_RINT] = GLSL_ROUND_EVEN,
    };
    bool f = is_float(o->kind);
    uint32_t r;
    switch (ins->op) {
    case LS_K_NEG:
        return f ? exact(m, ins, SPV_VALUE(m, SPV_F_NEGATE, o->type, o->a))
                 : SPV_VALUE(m, SPV_S_NEGATE, o->type, o->a);
    case LS_K_ABS:
        return f                              ? SPV_GLSL(m, GLSL_F_ABS, o->type, o->a)
               : ls_dtype_is_signed(o->dtype) ? SPV_GLSL(m, GLSL_S_ABS, o->type, o->a)
                                              : o->a;
    case LS_K_CANON:
        return canon(m, o);
    case LS_K_POPCOUNT:
        return popcount(m, o);
    case LS_K_NOT:
        return SPV_VALUE(m, o->kind == SPV_BOOL ? SPV_LOGICAL_NOT : SPV_NOT, o->type, o->a);
    default:
        r = exact(m, ins, SPV_GLSL(m, glsl[ins->op], o->type, o->a));
        return o->kind == SPV_F64 && ins->op != LS_K_SQRT ? with_sign(m, o, r) : r;
    }
}

static uint32_t min_max(spv_module *m, const ls_ins *ins, const operands *o) {
    if (is_float(o->kind)) {
        return float_min_max(m, ins, o);
    }
    bool s = ls_dtype_is_signed(o->dtype);
    int number = ins->op == LS_K_MIN ? (s ? GLSL_S_MIN : GLSL_U_MIN) : (s ? GLSL_S_MAX : GLSL_U_MAX);
    return SPV_GLSL(m, number, o->type, o->a, o->b);
}

static uint32_t bitwise(spv_module *m, const ls_ins *ins, const operands *o) {
    bool truth = o->kind == SPV_BOOL;
    switch (ins->op) {
    case LS_K_AND:
        return SPV_VALUE(m, truth ? SPV_LOGICAL_AND : SPV_BITWISE_AND, o->type, o->a, o->b);
    case LS_K_OR:
        return SPV_VALUE(m, truth ? SPV_LOGICAL_OR : SPV_BITWISE_OR, o->type, o->a, o->b);
    case LS_K_XOR:
        return SPV_VALUE(m, truth ? SPV_LOGICAL_NOT_EQUAL : SPV_BITWISE_XOR, o->type, o->a, o->b);
    case LS_K_SHL:
        return SPV_VALUE(m, SPV_SHIFT_LEFT_LOGICAL, o->type, o->a, o->b);
    default:
        return SPV_VALUE(m,
                         ls_dtype_is_signed(o->dtype) ? SPV_SHIFT_RIGHT_ARITHMETIC : SPV_SHIFT_RIGHT_LOGICAL,
                         o->type, o->a, o->b);
    }
}

static uint32_t compare(spv_module *m, const ls_ins *ins, const operands *o) {
    bool f = is_float(o->kind), s = ls_dtype_is_signed(o->dtype);
    if (o->kind == SPV_BOOL) { /* false < true */
        if (ins->op == LS_K_EQ || ins->op == LS_K_NE) {
            return SPV_VALUE(m, ins->op == LS_K_EQ ? SPV_LOGICAL_EQUAL : SPV_LOGICAL_NOT_EQUAL, o->type, o->a,
                             o->b);
        }
        uint32_t not_a = SPV_VALUE(m, SPV_LOGICAL_NOT, o->type, o->a);
        return SPV_VALUE(m, ins->op == LS_K_LT ? SPV_LOGICAL_AND : SPV_LOGICAL_OR, o->type, not_a, o->b);
    }
    spv_op op;
    switch (ins->op) {
    case LS_K_EQ:
        op = f ? SPV_F_ORD_EQUAL : SPV_I_EQUAL;
        break;
    case LS_K_NE:
        op = f ? SPV_F_UNORD_NOT_EQUAL : SPV_I_NOT_EQUAL;
        break;
    case LS_K_LT:
        op = f ? SPV_F_ORD_LESS_THAN : s ? SPV_S_LESS_THAN : SPV_U_LESS_THAN;
        break;
    default:
        op = f ? SPV_F_ORD_LESS_THAN_EQUAL : s ? SPV_S_LESS_THAN_EQUAL : SPV_U_LESS_THAN_EQUAL;
        break;
    }
    return SPV_VALUE(m, op, o->type, o->a, o->b);
}

static uint64_t one_bits(spv_kind kind) {
    return kind == SPV_F16   ? 0x3c00
           : kind == SPV_F32 ? 0x3f800000
           : kind == SPV_F64 ? UINT64_C(0x3ff) << 52
                             : 1;
}

/* f32 to f16, its bits passed through an exclusive or with a run-time zero: NVIDIA's compiler takes away the way to f16 and
 * back, and with it the rounding. */
static uint32_t round_to_half(spv_module *m, const ls_ins *ins, const operands *o) {
    uint32_t half = exact(m, ins, SPV_VALUE(m, SPV_F_CONVERT, o->type, o->a)),
             u16 = ls_spv_type(m, SPV_U16, o->lanes), all[4];
    if (ins->flags & LS_KF_FAST) {
        return half;
    }
    uint32_t zero = ls_spv_hidden(m);
    zero = SPV_VALUE(m, SPV_U_CONVERT, ls_spv_type(m, SPV_U16, 1), zero);
    all[0] = all[1] = all[2] = all[3] = zero;
    if (o->lanes > 1) {
        zero = ls_spv_value(m, SPV_COMPOSITE_CONSTRUCT, u16, all, (size_t)o->lanes);
    }
    return SPV_VALUE(m, SPV_BITCAST, o->type,
                     SPV_VALUE(m, SPV_BITWISE_XOR, u16, SPV_VALUE(m, SPV_BITCAST, u16, half), zero));
}

static uint32_t cast(spv_module *m, const ls_ins *ins, const operands *o) {
    spv_kind to = ls_spv_kind(m, (ls_dtype)ins->dtype), from = o->kind;
    bool s = ls_dtype_is_signed(o->dtype);
    if ((ins->dtype == LS_BF16) != (o->dtype == LS_BF16)) {
        ls_spv_fail(m, LS_ERR_UNSUPPORTED, "a conversion of bf16 (legalise the kernel first)");
    }
    if (to == from) {
        return o->a; /* the other signedness */
    }
    if (to == SPV_BOOL) {
        return SPV_VALUE(m, is_float(from) ? SPV_F_UNORD_NOT_EQUAL : SPV_I_NOT_EQUAL, o->type, o->a,
                         ls_spv_const(m, from, o->lanes, 0));
    }
    if (from == SPV_BOOL) {
        uint32_t zero = ls_spv_const(m, to, o->lanes, 0);
        return SPV_VALUE(m, SPV_SELECT, o->type, o->a, ls_spv_const(m, to, o->lanes, one_bits(to)), zero);
    }
    if (is_float(from) && to == SPV_F16) {
        return round_to_half(m, ins, o);
    }
    if (is_float(from) && is_float(to)) {
        return exact(m, ins, SPV_VALUE(m, SPV_F_CONVERT, o->type, o->a));
    }
    if (is_float(to)) {
        return SPV_VALUE(m, s ? SPV_CONVERT_S_TO_F : SPV_CONVERT_U_TO_F, o->type, o->a);
    }
    if (is_float(from)) {
        bool to_signed = ls_dtype_is_signed((ls_dtype)ins->dtype);
        return SPV_VALUE(m, to_signed ? SPV_CONVERT_F_TO_S : SPV_CONVERT_F_TO_U, o->type, o->a);
    }
    return SPV_VALUE(m, s ? SPV_S_CONVERT : SPV_U_CONVERT, o->type, o->a);
}

static uint32_t lanes_of(spv_module *m, const ls_ins *ins, const operands *o) {
    uint32_t all[4] = {o->a, o->a, o->a, o->a};
    switch (ins->op) {
    case LS_K_SPLAT:
        return ins->lanes == 1 ? o->a : ls_spv_value(m, SPV_COMPOSITE_CONSTRUCT, o->type, all, ins->lanes);
    case LS_K_JOIN:
        return SPV_VALUE(m, SPV_COMPOSITE_CONSTRUCT, o->type, o->a, o->b);
    case LS_K_EXTRACT:
        return o->lanes == 1 ? o->a : SPV_VALUE(m, SPV_COMPOSITE_EXTRACT, o->type, o->a, (uint32_t)ins->arg);
    default:
        return o->lanes == 1 ? o->b
                             : SPV_VALUE(m, SPV_COMPOSITE_INSERT, o->type, o->b, o->a, (uint32_t)ins->arg);
    }
}

uint32_t ls_spv_pure(spv_module *m, const ls_ins *ins) {
    const ls_ins *source = &m->kernel->body[ins->src[0]];
    operands o = {ls_spv_kind(m, (ls_dtype)source->dtype),
                  (ls_dtype)source->dtype,
                  source->lanes,
                  ls_spv_type_of(m, ins),
                  0,
                  0,
                  0};
    uint32_t *out[3] = {&o.a, &o.b, &o.c};
    for (int i = 0; i < 3; i++) {
        *out[i] = ins->src[i] == LS_VAL_NONE ? 0 : m->ids[ins->src[i]];
    }
    if (is_float(o.kind)) {
        m->float_kinds |= 1u << o.kind;
    }
    switch (ins->op) {
    case LS_K_ADD:
    case LS_K_SUB:
    case LS_K_MUL:
    case LS_K_DIV:
    case LS_K_REM:
        return arithmetic(m, ins, &o);
    case LS_K_FMA:
        return exact(m, ins, SPV_GLSL(m, GLSL_FMA, o.type, o.a, o.b, o.c));
    case LS_K_MIN:
    case LS_K_MAX:
        return min_max(m, ins, &o);
    case LS_K_UMULHI:
        return umulhi(m, &o);
    case LS_K_AND:
    case LS_K_OR:
    case LS_K_XOR:
    case LS_K_SHL:
    case LS_K_SHR:
        return bitwise(m, ins, &o);
    case LS_K_EQ:
    case LS_K_NE:
    case LS_K_LT:
    case LS_K_LE:
        return compare(m, ins, &o);
    case LS_K_SELECT:
        return ls_spv_select(m, o.a, o.lanes, o.type, ins->lanes, o.b, o.c);
    case LS_K_CAST:
        return cast(m, ins, &o);
    case LS_K_BITCAST:
        return ls_spv_kind(m, (ls_dtype)ins->dtype) == o.kind ? o.a : SPV_VALUE(m, SPV_BITCAST, o.type, o.a);
    case LS_K_SPLAT:
    case LS_K_JOIN:
    case LS_K_EXTRACT:
    case LS_K_INSERT:
        return lanes_of(m, ins, &o);
    default:
        return one_operand(m, ins, &o);
    }
}

uint32_t ls_spv_group(spv_module *m, const ls_ins *ins) {
    uint32_t type = ls_spv_type_of(m, ins), scope = ls_spv_u32(m, SPV_SCOPE_SUBGROUP),
             value = m->ids[ins->src[0]];
    bool f = is_float(ls_spv_kind(m, (ls_dtype)ins->dtype)), s = ls_dtype_is_signed((ls_dtype)ins->dtype);
    spv_op op;
    ls_spv_capability(m, SPV_CAP_GROUP);
    switch (ins->op) {
    case LS_K_SHUFFLE:
        ls_spv_capability(m, SPV_CAP_GROUP_SHUFFLE);
        return SPV_VALUE(m, SPV_GROUP_SHUFFLE, type, scope, value, m->ids[ins->src[1]]);
    case LS_K_SHUFFLE_XOR:
        ls_spv_capability(m, SPV_CAP_GROUP_SHUFFLE);
        return SPV_VALUE(m, SPV_GROUP_SHUFFLE_XOR, type, scope, value, ls_spv_u32(m, (uint32_t)ins->arg));
    case LS_K_SUBGROUP_ADD:
        op = f ? SPV_GROUP_F_ADD : SPV_GROUP_I_ADD;
        break;
    case LS_K_SUBGROUP_MIN:
        op = f ? SPV_GROUP_F_MIN : s ? SPV_GROUP_S_MIN : SPV_GROUP_U_MIN;
        break;
    default:
        op = f ? SPV_GROUP_F_MAX : s ? SPV_GROUP_S_MAX : SPV_GROUP_U_MAX;
        break;
    }
    ls_spv_capability(m, SPV_CAP_GROUP_ARITHMETIC);
    return SPV_VALUE(m, op, type, scope, 0, value); /* 0: reduce */
}
