/* A SPIR-V module under construction: sections of words that are joined at the end, types and constants made once. Equal
 * kernels give equal words: identifiers count up in the order of the walk. */
#include "render/spirv.h"
#include <string.h>

typedef struct unique_key {
    uint32_t op, type, n;
    const uint32_t *operands;
} unique_key;

static bool unique_equal(const void *a, const void *b) {
    const unique_key *x = a, *y = b;
    return x->op == y->op && x->type == y->type && x->n == y->n &&
           (x->n == 0 || memcmp(x->operands, y->operands, x->n * sizeof(uint32_t)) == 0);
}

void ls_spv_fail(spv_module *m, ls_status code, const char *what) {
    if (m->status == LS_OK) {
        m->status = LS_FAIL(m->err, code, "kernel %s in SPIR-V: %s", m->kernel->name, what);
    }
}

uint32_t ls_spv_id(spv_module *m) {
    return m->next_id++;
}

static bool reserve(spv_module *m, spv_words *words, size_t extra) {
    if (m->status != LS_OK) {
        return false;
    }
    if (words->len + extra > words->cap) {
        size_t cap = words->cap ? words->cap : 64;
        while (cap < words->len + extra) {
            cap *= 2;
        }
        uint32_t *data = LS_ARENA_ARRAY(m->arena, uint32_t, cap);
        if (!data) {
            ls_spv_fail(m, LS_ERR_MEMORY, "out of memory for its words");
            return false;
        }
        if (words->len) {
            memcpy(data, words->data, words->len * sizeof(uint32_t));
        }
        words->data = data;
        words->cap = cap;
    }
    return true;
}

static void put(spv_module *m, spv_words *words, spv_op op, const uint32_t *operands, size_t n) {
    if (reserve(m, words, n + 1)) {
        words->data[words->len++] = (uint32_t)(n + 1) << 16 | (uint32_t)op;
        if (n) {
            memcpy(words->data + words->len, operands, n * sizeof(uint32_t));
        }
        words->len += n;
    }
}

void ls_spv_put(spv_module *m, spv_section section, spv_op op, const uint32_t *operands, size_t n) {
    put(m, &m->sections[section], op, operands, n);
}

/* The type stands before the result; without one (0) the result stands first. */
static void put_result(spv_module *m, spv_section section, spv_op op, uint32_t type, uint32_t id,
                       const uint32_t *operands, size_t n) {
    uint32_t words[16];
    size_t len = 0;
    if (n > sizeof words / sizeof *words - 2) {
        ls_spv_fail(m, LS_ERR_INTERNAL, "an instruction with too many operands");
        return;
    }
    if (type) {
        words[len++] = type;
    }
    words[len++] = id;
    for (size_t i = 0; i < n; i++) {
        words[len + i] = operands[i];
    }
    ls_spv_put(m, section, op, words, len + n);
}

uint32_t ls_spv_unique(spv_module *m, spv_op op, uint32_t type, const uint32_t *operands, size_t n,
                       bool *out_new) {
    unique_key probe = {(uint32_t)op, type, (uint32_t)n, operands};
    uint64_t hash = ls_hash(operands, n * sizeof(uint32_t), ls_hash_u64((uint64_t)op << 32 | type, 1));
    void *found = ls_map_get(&m->unique, hash, &probe);
    if (out_new) {
        *out_new = !found;
    }
    if (found) {
        return (uint32_t)(uintptr_t)found;
    }
    uint32_t id = ls_spv_id(m);
    unique_key *key = LS_ARENA_NEW(m->arena, unique_key);
    uint32_t *copy = ls_arena_copy(m->arena, operands, n * sizeof(uint32_t));
    if (!key || !copy) {
        ls_spv_fail(m, LS_ERR_MEMORY, "out of memory for its types");
        return id;
    }
    *key = (unique_key){(uint32_t)op, type, (uint32_t)n, copy};
    if (!ls_map_put(&m->unique, hash, key, (void *)(uintptr_t)id)) {
        ls_spv_fail(m, LS_ERR_MEMORY, "out of memory for its types");
    }
    put_result(m, SPV_SEC_GLOBALS, op, type, id, operands, n);
    return id;
}

uint32_t ls_spv_value(spv_module *m, spv_op op, uint32_t type, const uint32_t *operands, size_t n) {
    uint32_t id = ls_spv_id(m);
    put_result(m, SPV_SEC_BODY, op, type, id, operands, n);
    return id;
}

uint32_t ls_spv_glsl(spv_module *m, int number, uint32_t type, const uint32_t *operands, size_t n) {
    uint32_t words[8] = {m->glsl, (uint32_t)number};
    memcpy(words + 2, operands, n * sizeof(uint32_t));
    return ls_spv_value(m, SPV_EXT_INST, type, words, n + 2);
}

void ls_spv_capability(spv_module *m, spv_capability capability) {
    const spv_words *words = &m->sections[SPV_SEC_CAPABILITIES];
    for (size_t i = 1; i < words->len; i += 2) {
        if (words->data[i] == (uint32_t)capability) {
            return;
        }
    }
    SPV_PUT(m, SPV_SEC_CAPABILITIES, SPV_CAPABILITY, capability);
}

/* A string as words, NUL included; little-endian in each word whatever the host. */
static size_t string_words(const char *s, uint32_t *out, size_t room) {
    size_t n = strlen(s) / 4 + 1;
    if (n > room) {
        return 0;
    }
    memset(out, 0, n * sizeof(uint32_t));
    for (size_t i = 0; s[i]; i++) {
        out[i / 4] |= (uint32_t)(unsigned char)s[i] << 8 * (i % 4);
    }
    return n;
}

void ls_spv_extension(spv_module *m, const char *name) {
    uint32_t words[16];
    size_t n = string_words(name, words, 16);
    const spv_words *have = &m->sections[SPV_SEC_EXTENSIONS];
    for (size_t i = 0; i < have->len; i += have->data[i] >> 16) {
        if (have->data[i] >> 16 == n + 1 && memcmp(have->data + i + 1, words, n * sizeof(uint32_t)) == 0) {
            return;
        }
    }
    ls_spv_put(m, SPV_SEC_EXTENSIONS, SPV_EXTENSION, words, n);
}

void ls_spv_label(spv_module *m, uint32_t label) {
    SPV_BODY(m, SPV_LABEL, label);
    m->block = label;
}

/* ---- types and constants ---- */

spv_kind ls_spv_kind(const spv_module *m, ls_dtype dtype) {
    switch (dtype) {
    case LS_BOOL:
        return SPV_BOOL;
    case LS_U8:
    case LS_I8:
        return SPV_U8;
    case LS_U16:
    case LS_I16:
    case LS_BF16:
        return SPV_U16;
    case LS_F16:
        return m->half_native ? SPV_F16 : SPV_U16;
    case LS_F32:
        return SPV_F32;
    case LS_F64:
        return SPV_F64;
    case LS_U64:
    case LS_I64:
        return SPV_U64;
    default:
        return SPV_U32;
    }
}

int ls_spv_bits(spv_kind kind) {
    static const uint8_t bits[SPV_KINDS] = {1, 8, 16, 32, 64, 16, 32, 64, 16};
    return bits[kind];
}

uint32_t ls_spv_type(spv_module *m, spv_kind kind, int lanes) {
    static const uint32_t capability[SPV_KINDS] = {
        [SPV_U8] = SPV_CAP_INT8,     [SPV_U16] = SPV_CAP_INT16,   [SPV_U64] = SPV_CAP_INT64,
        [SPV_F16] = SPV_CAP_FLOAT16, [SPV_F64] = SPV_CAP_FLOAT64, [SPV_BF16] = SPV_CAP_BFLOAT16,
    };
    uint32_t bits = (uint32_t)ls_spv_bits(kind), scalar;
    if (capability[kind]) {
        ls_spv_capability(m, (spv_capability)capability[kind]);
    }
    if (kind == SPV_BOOL) {
        scalar = ls_spv_unique(m, SPV_TYPE_BOOL, 0, NULL, 0, NULL);
    } else if (kind == SPV_BF16) {
        ls_spv_extension(m, "SPV_KHR_bfloat16");
        scalar = ls_spv_unique(m, SPV_TYPE_FLOAT, 0, SPV_ARGS(bits, 0), NULL);
    } else if (kind >= SPV_F16) {
        scalar = ls_spv_unique(m, SPV_TYPE_FLOAT, 0, SPV_ARGS(bits), NULL);
    } else {
        scalar = ls_spv_unique(m, SPV_TYPE_INT, 0, SPV_ARGS(bits, 0), NULL);
    }
    return lanes == 1 ? scalar
                      : ls_spv_unique(m, SPV_TYPE_VECTOR, 0, SPV_ARGS(scalar, (uint32_t)lanes), NULL);
}

static uint32_t frag_type(spv_module *m, const ls_ins *ins) {
    int rows, cols;
    ls_frag_shape(ins->flags, &rows, &cols);
    spv_kind kind = ins->dtype == LS_BF16 ? SPV_BF16 : ls_spv_kind(m, (ls_dtype)ins->dtype);
    if (!m->options->coop_matrix) {
        ls_spv_fail(m, LS_ERR_UNSUPPORTED, "fragments need VK_KHR_cooperative_matrix");
    }
    ls_spv_capability(m, SPV_CAP_COOP_MATRIX);
    ls_spv_extension(m, "SPV_KHR_cooperative_matrix");
    if (kind == SPV_BF16) {
        ls_spv_capability(m, SPV_CAP_BFLOAT16_COOP);
    }
    uint32_t component = ls_spv_type(m, kind, 1), scope = ls_spv_u32(m, SPV_SCOPE_SUBGROUP);
    uint32_t r = ls_spv_u32(m, (uint32_t)rows), c = ls_spv_u32(m, (uint32_t)cols);
    uint32_t use = ls_spv_u32(m, ins->flags >> 3 & 3);
    return ls_spv_unique(m, SPV_TYPE_COOP_MATRIX, 0, SPV_ARGS(component, scope, r, c, use), NULL);
}

uint32_t ls_spv_type_of(spv_module *m, const ls_ins *ins) {
    return ins->lanes == LS_LANES_FRAG ? frag_type(m, ins)
                                       : ls_spv_type(m, ls_spv_kind(m, (ls_dtype)ins->dtype), ins->lanes);
}

uint32_t ls_spv_pointer(spv_module *m, int storage, uint32_t type) {
    return ls_spv_unique(m, SPV_TYPE_POINTER, 0, SPV_ARGS((uint32_t)storage, type), NULL);
}

uint32_t ls_spv_const(spv_module *m, spv_kind kind, int lanes, uint64_t bits) {
    uint32_t type = ls_spv_type(m, kind, 1), scalar;
    int width = ls_spv_bits(kind);
    if (kind == SPV_BOOL) {
        scalar = ls_spv_unique(m, bits & 1 ? SPV_CONSTANT_TRUE : SPV_CONSTANT_FALSE, type, NULL, 0, NULL);
    } else if (width == 64) {
        scalar = ls_spv_unique(m, SPV_CONSTANT, type, SPV_ARGS((uint32_t)bits, (uint32_t)(bits >> 32)), NULL);
    } else {
        uint32_t word = (uint32_t)(width < 32 ? bits & ((UINT64_C(1) << width) - 1) : bits);
        scalar = ls_spv_unique(m, SPV_CONSTANT, type, SPV_ARGS(word), NULL);
    }
    if (lanes == 1) {
        return scalar;
    }
    uint32_t all[4] = {scalar, scalar, scalar, scalar};
    return ls_spv_unique(m, SPV_CONSTANT_COMPOSITE, ls_spv_type(m, kind, lanes), all, (size_t)lanes, NULL);
}

uint32_t ls_spv_builtin(spv_module *m, int builtin, int axis) {
    uint32_t u32 = ls_spv_type(m, SPV_U32, 1);
    uint32_t type = axis < 0 ? u32 : ls_spv_unique(m, SPV_TYPE_VECTOR, 0, SPV_ARGS(u32, 3), NULL);
    uint32_t pointer = ls_spv_pointer(m, SPV_STORAGE_INPUT, type), var = 0;
    for (int i = 0; i < m->n_inputs; i++) {
        var = m->builtins[i] == builtin ? m->inputs[i] : var;
    }
    if (!var) {
        var = ls_spv_id(m);
        SPV_PUT(m, SPV_SEC_GLOBALS, SPV_VARIABLE, pointer, var, SPV_STORAGE_INPUT);
        SPV_PUT(m, SPV_SEC_DECORATIONS, SPV_DECORATE, var, SPV_DECO_BUILTIN, (uint32_t)builtin);
        m->builtins[m->n_inputs] = builtin;
        m->inputs[m->n_inputs++] = var;
    }
    if (axis < 0) {
        ls_spv_capability(m, SPV_CAP_GROUP);
        return SPV_VALUE(m, SPV_LOAD, u32, var);
    }
    uint32_t number = ls_spv_u32(m, (uint32_t)axis);
    uint32_t at = SPV_VALUE(m, SPV_ACCESS_CHAIN, ls_spv_pointer(m, SPV_STORAGE_INPUT, u32), var, number);
    return SPV_VALUE(m, SPV_LOAD, u32, at);
}

/* ---- the whole ---- */

ls_status ls_spv_begin(spv_module *m) {
    m->next_id = 1;
    m->guard = LS_VAL_NONE;
    ls_map_init(&m->unique, m->arena->heap, unique_equal);
    m->ids = LS_ARENA_ARRAY(m->arena, uint32_t, m->kernel->n_body + 1);
    m->mems = LS_ARENA_ARRAY(m->arena, spv_mem, m->kernel->n_mems + 1);
    if (!m->ids || !m->mems) {
        ls_spv_fail(m, LS_ERR_MEMORY, "out of memory");
    }
    m->glsl = ls_spv_id(m);
    m->main = ls_spv_id(m);
    m->first = m->block = ls_spv_id(m);
    ls_spv_capability(m, SPV_CAP_SHADER);
    return m->status;
}

static void put_modes(spv_module *m) {
    const ls_spirv_options *o = m->options;
    const struct {
        bool wanted;
        uint32_t mode, width;
        spv_capability capability;
    } controls[] = {
        {o->rte32, 4462, 32, SPV_CAP_ROUND_RTE},
        {o->rte16 && (m->float_kinds & 1u << SPV_F16), 4462, 16, SPV_CAP_ROUND_RTE},
        {o->rte64 && (m->float_kinds & 1u << SPV_F64), 4462, 64, SPV_CAP_ROUND_RTE},
        {o->denorm_preserve32, 4459, 32, SPV_CAP_DENORM_PRESERVE},
        {o->denorm_preserve16 && (m->float_kinds & 1u << SPV_F16), 4459, 16, SPV_CAP_DENORM_PRESERVE},
        {o->denorm_preserve64 && (m->float_kinds & 1u << SPV_F64), 4459, 64, SPV_CAP_DENORM_PRESERVE},
        {o->nan_preserve32, 4461, 32, SPV_CAP_NAN_PRESERVE},
    };
    const int32_t *size = m->kernel->workgroup;
    SPV_PUT(m, SPV_SEC_MODES, SPV_EXECUTION_MODE, m->main, 17, (uint32_t)size[0], (uint32_t)size[1],
            (uint32_t)size[2]);
    for (size_t i = 0; i < sizeof controls / sizeof *controls; i++) {
        if (controls[i].wanted) {
            ls_spv_extension(m, "SPV_KHR_float_controls");
            ls_spv_capability(m, controls[i].capability);
            SPV_PUT(m, SPV_SEC_MODES, SPV_EXECUTION_MODE, m->main, controls[i].mode, controls[i].width);
        }
    }
}

/* What stands between the extensions and the modes. */
static void put_entry(spv_module *m, spv_words *out) {
    uint32_t import[8] = {m->glsl}, entry[16] = {5, m->main}; /* 5: a compute shader */
    put(m, out, SPV_EXT_INST_IMPORT, import, 1 + string_words("GLSL.std.450", import + 1, 7));
    put(m, out, SPV_MEMORY_MODEL, SPV_ARGS(0, m->vulkan_model ? 3 : 1));
    size_t n = 2 + string_words("main", entry + 2, 4);
    memcpy(entry + n, m->inputs, (size_t)m->n_inputs * sizeof(uint32_t));
    put(m, out, SPV_ENTRY_POINT, entry, n + (size_t)m->n_inputs);
}

static void append(spv_module *m, spv_words *out, const spv_words *more) {
    if (more->len && reserve(m, out, more->len)) {
        memcpy(out->data + out->len, more->data, more->len * sizeof(uint32_t));
        out->len += more->len;
    }
}

ls_status ls_spv_finish(spv_module *m, uint32_t **out_words, size_t *out_n_words) {
    uint32_t void_type = ls_spv_unique(m, SPV_TYPE_VOID, 0, NULL, 0, NULL);
    uint32_t type = ls_spv_unique(m, SPV_TYPE_FUNCTION, 0, SPV_ARGS(void_type), NULL);
    spv_words out = {0};
    put_modes(m);
    const uint32_t header[5] = {0x07230203, 0x00010300, 0, m->next_id, 0};
    append(m, &out, &(spv_words){(uint32_t *)header, 5, 5});
    append(m, &out, &m->sections[SPV_SEC_CAPABILITIES]);
    append(m, &out, &m->sections[SPV_SEC_EXTENSIONS]);
    put_entry(m, &out);
    append(m, &out, &m->sections[SPV_SEC_MODES]);
    append(m, &out, &m->sections[SPV_SEC_DECORATIONS]);
    append(m, &out, &m->sections[SPV_SEC_GLOBALS]);
    put(m, &out, SPV_FUNCTION, SPV_ARGS(void_type, m->main, 0, type));
    put(m, &out, SPV_LABEL, SPV_ARGS(m->first));
    append(m, &out, &m->sections[SPV_SEC_LOCALS]);
    append(m, &out, &m->sections[SPV_SEC_PROLOGUE]);
    append(m, &out, &m->sections[SPV_SEC_BODY]);
    put(m, &out, SPV_RETURN, NULL, 0);
    put(m, &out, SPV_FUNCTION_END, NULL, 0);
    ls_map_free(&m->unique);
    *out_words = out.data;
    *out_n_words = out.len;
    return m->status;
}
