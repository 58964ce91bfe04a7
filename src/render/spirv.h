/* The SPIR-V renderer's parts: a module under construction (spirv_module.c), memory (spirv_memory.c), arithmetic
 * (spirv_math.c), and the walk over the kernel (spirv.c). The first failure stays in `status`; what is put after it is
 * dropped, so a caller checks once at the end. Numbers are those of the SPIR-V specification. */
#ifndef LOCKSTEP_RENDER_SPIRV_H
#define LOCKSTEP_RENDER_SPIRV_H

#include "base/map.h"
#include "render/render.h"

typedef enum spv_op {
    SPV_EXTENSION = 10,
    SPV_EXT_INST_IMPORT = 11,
    SPV_EXT_INST = 12,
    SPV_MEMORY_MODEL = 14,
    SPV_ENTRY_POINT = 15,
    SPV_EXECUTION_MODE = 16,
    SPV_CAPABILITY = 17,
    SPV_TYPE_VOID = 19,
    SPV_TYPE_BOOL = 20,
    SPV_TYPE_INT = 21,
    SPV_TYPE_FLOAT = 22,
    SPV_TYPE_VECTOR = 23,
    SPV_TYPE_ARRAY = 28,
    SPV_TYPE_RUNTIME_ARRAY = 29,
    SPV_TYPE_STRUCT = 30,
    SPV_TYPE_POINTER = 32,
    SPV_TYPE_FUNCTION = 33,
    SPV_CONSTANT_TRUE = 41,
    SPV_CONSTANT_FALSE = 42,
    SPV_CONSTANT = 43,
    SPV_CONSTANT_COMPOSITE = 44,
    SPV_FUNCTION = 54,
    SPV_FUNCTION_END = 56,
    SPV_VARIABLE = 59,
    SPV_LOAD = 61,
    SPV_STORE = 62,
    SPV_ACCESS_CHAIN = 65,
    SPV_DECORATE = 71,
    SPV_MEMBER_DECORATE = 72,
    SPV_COMPOSITE_CONSTRUCT = 80,
    SPV_COMPOSITE_EXTRACT = 81,
    SPV_COMPOSITE_INSERT = 82,
    SPV_CONVERT_F_TO_U = 109,
    SPV_CONVERT_F_TO_S = 110,
    SPV_CONVERT_S_TO_F = 111,
    SPV_CONVERT_U_TO_F = 112,
    SPV_U_CONVERT = 113,
    SPV_S_CONVERT = 114,
    SPV_F_CONVERT = 115,
    SPV_BITCAST = 124,
    SPV_S_NEGATE = 126,
    SPV_F_NEGATE = 127,
    SPV_I_ADD = 128,
    SPV_F_ADD = 129,
    SPV_I_SUB = 130,
    SPV_F_SUB = 131,
    SPV_I_MUL = 132,
    SPV_F_MUL = 133,
    SPV_U_DIV = 134,
    SPV_S_DIV = 135,
    SPV_F_DIV = 136,
    SPV_U_MOD = 137,
    SPV_U_MUL_EXTENDED = 151,
    SPV_LOGICAL_EQUAL = 164,
    SPV_LOGICAL_NOT_EQUAL = 165,
    SPV_LOGICAL_OR = 166,
    SPV_LOGICAL_AND = 167,
    SPV_LOGICAL_NOT = 168,
    SPV_SELECT = 169,
    SPV_I_EQUAL = 170,
    SPV_I_NOT_EQUAL = 171,
    SPV_U_GREATER_THAN = 172,
    SPV_U_LESS_THAN = 176,
    SPV_S_LESS_THAN = 177,
    SPV_U_LESS_THAN_EQUAL = 178,
    SPV_S_LESS_THAN_EQUAL = 179,
    SPV_F_ORD_EQUAL = 180,
    SPV_F_UNORD_NOT_EQUAL = 183,
    SPV_F_ORD_LESS_THAN = 184,
    SPV_F_ORD_LESS_THAN_EQUAL = 188,
    SPV_SHIFT_RIGHT_LOGICAL = 194,
    SPV_SHIFT_RIGHT_ARITHMETIC = 195,
    SPV_SHIFT_LEFT_LOGICAL = 196,
    SPV_BITWISE_OR = 197,
    SPV_BITWISE_XOR = 198,
    SPV_BITWISE_AND = 199,
    SPV_NOT = 200,
    SPV_BIT_COUNT = 205,
    SPV_CONTROL_BARRIER = 224,
    SPV_ATOMIC_I_ADD = 234,
    SPV_ATOMIC_S_MIN = 236,
    SPV_ATOMIC_U_MIN = 237,
    SPV_ATOMIC_S_MAX = 238,
    SPV_ATOMIC_U_MAX = 239,
    SPV_ATOMIC_OR = 241,
    SPV_PHI = 245,
    SPV_LOOP_MERGE = 246,
    SPV_SELECTION_MERGE = 247,
    SPV_LABEL = 248,
    SPV_BRANCH = 249,
    SPV_BRANCH_CONDITIONAL = 250,
    SPV_RETURN = 253,
    SPV_GROUP_SHUFFLE = 345,
    SPV_GROUP_SHUFFLE_XOR = 346,
    SPV_GROUP_I_ADD = 349,
    SPV_GROUP_F_ADD = 350,
    SPV_GROUP_S_MIN = 353,
    SPV_GROUP_U_MIN = 354,
    SPV_GROUP_F_MIN = 355,
    SPV_GROUP_S_MAX = 356,
    SPV_GROUP_U_MAX = 357,
    SPV_GROUP_F_MAX = 358,
    SPV_TYPE_COOP_MATRIX = 4456,
    SPV_COOP_LOAD = 4457,
    SPV_COOP_STORE = 4458,
    SPV_COOP_MUL_ADD = 4459
} spv_op;

typedef enum spv_capability {
    SPV_CAP_SHADER = 1,
    SPV_CAP_FLOAT16 = 9,
    SPV_CAP_FLOAT64 = 10,
    SPV_CAP_INT64 = 11,
    SPV_CAP_INT64_ATOMICS = 12,
    SPV_CAP_INT16 = 22,
    SPV_CAP_INT8 = 39,
    SPV_CAP_GROUP = 61,
    SPV_CAP_GROUP_ARITHMETIC = 63,
    SPV_CAP_GROUP_SHUFFLE = 65,
    SPV_CAP_STORAGE16 = 4433,
    SPV_CAP_STORAGE8 = 4448,
    SPV_CAP_DENORM_PRESERVE = 4464,
    SPV_CAP_NAN_PRESERVE = 4466,
    SPV_CAP_ROUND_RTE = 4467,
    SPV_CAP_BFLOAT16 = 5116,
    SPV_CAP_BFLOAT16_COOP = 5118,
    SPV_CAP_VULKAN_MODEL = 5345,
    SPV_CAP_COOP_MATRIX = 6022
} spv_capability;

enum {
    SPV_STORAGE_INPUT = 1,
    SPV_STORAGE_WORKGROUP = 4,
    SPV_STORAGE_FUNCTION = 7,
    SPV_STORAGE_PUSH = 9,
    SPV_STORAGE_BUFFER = 12,

    SPV_DECO_BLOCK = 2,
    SPV_DECO_ARRAY_STRIDE = 6,
    SPV_DECO_BUILTIN = 11,
    SPV_DECO_ALIASED = 20,
    SPV_DECO_COHERENT = 23,
    SPV_DECO_NON_WRITABLE = 24,
    SPV_DECO_BINDING = 33,
    SPV_DECO_SET = 34,
    SPV_DECO_OFFSET = 35,
    SPV_DECO_NO_CONTRACTION = 42,

    SPV_BUILTIN_WORKGROUP_ID = 26,
    SPV_BUILTIN_LOCAL_ID = 27,
    SPV_BUILTIN_SUBGROUP_SIZE = 36,
    SPV_BUILTIN_SUBGROUP_ID = 40,
    SPV_BUILTIN_LANE_ID = 41,

    SPV_SCOPE_DEVICE = 1,
    SPV_SCOPE_WORKGROUP = 2,
    SPV_SCOPE_SUBGROUP = 3,
    SPV_SCOPE_QUEUE_FAMILY = 5
};

/* Instructions of GLSL.std.450. */
enum {
    GLSL_ROUND_EVEN = 2,
    GLSL_TRUNC = 3,
    GLSL_F_ABS = 4,
    GLSL_S_ABS = 5,
    GLSL_FLOOR = 8,
    GLSL_CEIL = 9,
    GLSL_SQRT = 31,
    GLSL_U_MIN = 38,
    GLSL_S_MIN = 39,
    GLSL_U_MAX = 41,
    GLSL_S_MAX = 42,
    GLSL_FMA = 50
};

/* What a register is in the module. Signed and unsigned integers are one type: instructions say which they mean. */
typedef enum spv_kind { SPV_BOOL, SPV_U8, SPV_U16, SPV_U32, SPV_U64, SPV_F16, SPV_F32, SPV_F64, SPV_BF16, SPV_KINDS } spv_kind;

typedef enum spv_section {
    SPV_SEC_CAPABILITIES,
    SPV_SEC_EXTENSIONS,
    SPV_SEC_MODES,
    SPV_SEC_DECORATIONS,
    SPV_SEC_GLOBALS,
    SPV_SEC_LOCALS,   /* variables of the function: they stand first in its first block */
    SPV_SEC_PROLOGUE, /* what is computed once, before the body */
    SPV_SEC_BODY,
    SPV_SECTIONS
} spv_section;

typedef struct spv_words {
    uint32_t *data;
    size_t len, cap;
} spv_words;

typedef struct spv_mem {
    uint32_t var[3]; /* global: one variable for each of 1, 2 and 4 lanes, all of the same binding; shared: the first */
    int width;       /* shared: lanes of an element of the array */
} spv_mem;

typedef struct spv_block {
    ls_kop op;
    uint32_t merge, other, header; /* labels; other: the else block, or a loop's continue block */
    uint32_t index, next, step, type; /* a loop's counter, the one after it, its step */
} spv_block;

typedef struct spv_module {
    ls_arena *arena;
    ls_error *err;
    ls_status status;
    const ls_kernel *kernel;
    const ls_spirv_options *options;
    spv_words sections[SPV_SECTIONS];
    ls_map unique; /* types and constants, each once */
    uint32_t next_id, glsl, main;
    uint32_t first, block; /* labels: of the function's first block, of the one being filled */
    uint32_t inputs[8];
    int builtins[8];
    int n_inputs;
    uint32_t *ids; /* by instruction */
    spv_mem *mems;
    uint32_t push;
    uint32_t zero; /* the u32 that is 0 at run time; 0: not yet loaded */
    bool half_native, vulkan_model, has_barrier;
    uint32_t float_kinds; /* bit 1 << spv_kind: float arithmetic of that width occurs */
    spv_block blocks[64];
    int depth;
    ls_val guard; /* the predicate whose block is open, or LS_VAL_NONE */
    uint32_t guard_merge;
} spv_module;

/* ---- spirv_module.c ---- */
ls_status ls_spv_begin(spv_module *m);
ls_status ls_spv_finish(spv_module *m, uint32_t **out_words, size_t *out_n_words);
void ls_spv_fail(spv_module *m, ls_status code, const char *what);
uint32_t ls_spv_id(spv_module *m);
void ls_spv_put(spv_module *m, spv_section section, spv_op op, const uint32_t *operands, size_t n);
/* A type (type 0) or constant, made once for equal operands; *out_new says whether just now. */
uint32_t ls_spv_unique(spv_module *m, spv_op op, uint32_t type, const uint32_t *operands, size_t n, bool *out_new);
uint32_t ls_spv_value(spv_module *m, spv_op op, uint32_t type, const uint32_t *operands, size_t n);
uint32_t ls_spv_glsl(spv_module *m, int number, uint32_t type, const uint32_t *operands, size_t n);
void ls_spv_capability(spv_module *m, spv_capability capability);
void ls_spv_extension(spv_module *m, const char *name);
void ls_spv_label(spv_module *m, uint32_t label); /* begins a block */
uint32_t ls_spv_builtin(spv_module *m, int builtin, int axis); /* its value; axis -1: a scalar */

spv_kind ls_spv_kind(const spv_module *m, ls_dtype dtype);
int ls_spv_bits(spv_kind kind);
uint32_t ls_spv_type(spv_module *m, spv_kind kind, int lanes);
uint32_t ls_spv_type_of(spv_module *m, const ls_ins *ins); /* fragments too */
uint32_t ls_spv_pointer(spv_module *m, int storage, uint32_t type);
uint32_t ls_spv_const(spv_module *m, spv_kind kind, int lanes, uint64_t bits);
static inline uint32_t ls_spv_u32(spv_module *m, uint32_t value) {
    return ls_spv_const(m, SPV_U32, 1, value);
}

#define SPV_ARGS(...) (const uint32_t[]){__VA_ARGS__}, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)
#define SPV_PUT(m, section, op, ...) ls_spv_put((m), (section), (op), SPV_ARGS(__VA_ARGS__))
#define SPV_BODY(m, op, ...) ls_spv_put((m), SPV_SEC_BODY, (op), SPV_ARGS(__VA_ARGS__))
#define SPV_VALUE(m, op, type, ...) ls_spv_value((m), (op), (type), SPV_ARGS(__VA_ARGS__))
#define SPV_GLSL(m, number, type, ...) ls_spv_glsl((m), (number), (type), SPV_ARGS(__VA_ARGS__))

/* ---- spirv_memory.c ---- */
void ls_spv_declare_memory(spv_module *m);
uint32_t ls_spv_param(spv_module *m, int param);
uint32_t ls_spv_hidden(spv_module *m); /* a u32 that is 0, which only the launch knows */
uint32_t ls_spv_load(spv_module *m, const ls_ins *ins);
void ls_spv_store(spv_module *m, const ls_ins *ins); /* without its predicate */
uint32_t ls_spv_atomic(spv_module *m, const ls_ins *ins);
uint32_t ls_spv_frag(spv_module *m, const ls_ins *ins);

/* ---- spirv_math.c ---- */
uint32_t ls_spv_pure(spv_module *m, const ls_ins *ins);  /* PURE and VECTOR */
uint32_t ls_spv_group(spv_module *m, const ls_ins *ins); /* subgroup operations */
uint32_t ls_spv_select(spv_module *m, uint32_t condition, int condition_lanes, uint32_t type, int lanes, uint32_t yes, uint32_t no);

#endif
