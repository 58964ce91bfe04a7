/* Memory in SPIR-V: parameters as push constants, storage buffers, shared arrays, atomics, cooperative matrices.
 *
 * A global memory has one variable for each number of lanes it is accessed with: runtime arrays of scalars and of vectors
 * under one binding, declared as aliases. A shared array has elements of as many lanes as its widest access; narrower
 * accesses take components. A predicated load reads element 0 where the predicate fails and selects the else-value: no branch,
 * and element 0 is always there. */
#include "render/spirv.h"

static int lane_slot(int lanes) {
    return lanes == 4 ? 2 : lanes - 1;
}

/* Truth values are bytes in memory. */
static spv_kind memory_kind(const spv_module *m, const ls_kmem *mem) {
    spv_kind kind = ls_spv_kind(m, mem->dtype);
    return kind == SPV_BOOL ? SPV_U8 : kind;
}

static bool is_memory_access(const ls_ins *ins) {
    ls_kclass kind = ls_kops[ins->op].kind;
    return kind == LS_KC_MEMORY || ins->op == LS_K_FRAG_LOAD || ins->op == LS_K_FRAG_STORE;
}

static int access_lanes(const spv_module *m, const ls_ins *ins) {
    if (ins->op == LS_K_STORE) {
        return m->kernel->body[ins->src[1]].lanes;
    }
    return ins->op == LS_K_FRAG_LOAD || ins->op == LS_K_FRAG_STORE ? 1 : ins->lanes; /* of shared memory: any */
}

static void declare_global(spv_module *m, int number, int lanes) {
    const ls_kmem *mem = &m->kernel->mems[number];
    spv_kind kind = memory_kind(m, mem);
    int bits = ls_spv_bits(kind);
    bool is_new;
    if (bits == 8) {
        ls_spv_capability(m, SPV_CAP_STORAGE8);
        ls_spv_extension(m, "SPV_KHR_8bit_storage");
    } else if (bits == 16) {
        ls_spv_capability(m, SPV_CAP_STORAGE16);
    }
    uint32_t element = ls_spv_type(m, kind, lanes);
    uint32_t array = ls_spv_unique(m, SPV_TYPE_RUNTIME_ARRAY, 0, SPV_ARGS(element), &is_new);
    if (is_new) {
        SPV_PUT(m, SPV_SEC_DECORATIONS, SPV_DECORATE, array, SPV_DECO_ARRAY_STRIDE,
                (uint32_t)(bits / 8 * lanes));
    }
    uint32_t block = ls_spv_unique(m, SPV_TYPE_STRUCT, 0, SPV_ARGS(array), &is_new);
    if (is_new) {
        SPV_PUT(m, SPV_SEC_DECORATIONS, SPV_DECORATE, block, SPV_DECO_BLOCK);
        SPV_PUT(m, SPV_SEC_DECORATIONS, SPV_MEMBER_DECORATE, block, 0, SPV_DECO_OFFSET, 0);
    }
    uint32_t type = ls_spv_pointer(m, SPV_STORAGE_BUFFER, block), var = ls_spv_id(m);
    SPV_PUT(m, SPV_SEC_GLOBALS, SPV_VARIABLE, type, var, SPV_STORAGE_BUFFER);
    SPV_PUT(m, SPV_SEC_DECORATIONS, SPV_DECORATE, var, SPV_DECO_SET, 0);
    SPV_PUT(m, SPV_SEC_DECORATIONS, SPV_DECORATE, var, SPV_DECO_BINDING, (uint32_t)mem->binding);
    SPV_PUT(m, SPV_SEC_DECORATIONS, SPV_DECORATE, var, SPV_DECO_ALIASED);
    if (!(mem->access & LS_MEM_WRITE)) {
        SPV_PUT(m, SPV_SEC_DECORATIONS, SPV_DECORATE, var, SPV_DECO_NON_WRITABLE);
    } else if (mem->access == LS_MEM_READ_WRITE && m->has_barrier && !m->vulkan_model) {
        SPV_PUT(m, SPV_SEC_DECORATIONS, SPV_DECORATE, var,
                SPV_DECO_COHERENT); /* threads read what others wrote */
    }
    m->mems[number].var[lane_slot(lanes)] = var;
}

/* With fragments, arrays are whole multiples of 16 bytes: drivers put them side by side, and what a fragment is loaded from or
 * stored to must begin at such a multiple (or, on NVIDIA, comes out wrong), wherever a lone word stands. */
static void declare_shared(spv_module *m, int number, uint32_t widths) {
    const ls_kmem *mem = &m->kernel->mems[number];
    int width = widths & 4 ? 4 : widths & 2 ? 2 : 1;
    uint32_t element = ls_spv_type(m, memory_kind(m, mem), width);
    int64_t size = ls_spv_bits(memory_kind(m, mem)) / 8 * width, elements = (mem->count + width - 1) / width;
    if (m->vulkan_model && size < 16) {
        elements = (elements * size + 15) / 16 * (16 / size);
    }
    uint32_t count = ls_spv_u32(m, (uint32_t)elements);
    uint32_t array = ls_spv_unique(m, SPV_TYPE_ARRAY, 0, SPV_ARGS(element, count), NULL);
    uint32_t type = ls_spv_pointer(m, SPV_STORAGE_WORKGROUP, array), var = ls_spv_id(m);
    SPV_PUT(m, SPV_SEC_GLOBALS, SPV_VARIABLE, type, var, SPV_STORAGE_WORKGROUP);
    m->mems[number].var[0] = var;
    m->mems[number].width = width;
}

static void declare_params(spv_module *m) {
    uint32_t n = (uint32_t)ls_render_words(m->kernel) + 1, u32 = ls_spv_type(m, SPV_U32, 1); /* the last: 0 */
    uint32_t *members = LS_ARENA_ARRAY(m->arena, uint32_t, n + 1);
    if (!members) {
        ls_spv_fail(m, LS_ERR_MEMORY, "out of memory for its parameters");
        return;
    }
    uint32_t block = ls_spv_id(m);
    members[0] = block;
    SPV_PUT(m, SPV_SEC_DECORATIONS, SPV_DECORATE, block, SPV_DECO_BLOCK);
    for (uint32_t i = 0; i < n; i++) {
        members[i + 1] = u32;
        SPV_PUT(m, SPV_SEC_DECORATIONS, SPV_MEMBER_DECORATE, block, i, SPV_DECO_OFFSET, 4 * i);
    }
    ls_spv_put(m, SPV_SEC_GLOBALS, SPV_TYPE_STRUCT, members, n + 1);
    uint32_t type = ls_spv_pointer(m, SPV_STORAGE_PUSH, block);
    m->push = ls_spv_id(m);
    SPV_PUT(m, SPV_SEC_GLOBALS, SPV_VARIABLE, type, m->push, SPV_STORAGE_PUSH);
}

void ls_spv_declare_memory(spv_module *m) {
    const ls_kernel *kernel = m->kernel;
    uint32_t *widths = LS_ARENA_ARRAY(m->arena, uint32_t, kernel->n_mems + 1);
    if (!widths) {
        ls_spv_fail(m, LS_ERR_MEMORY, "out of memory");
        return;
    }
    for (int i = 0; i < kernel->n_body; i++) {
        if (is_memory_access(&kernel->body[i])) {
            widths[kernel->body[i].arg] |= (uint32_t)access_lanes(m, &kernel->body[i]);
        }
    }
    for (int i = 0; i < kernel->n_mems; i++) {
        if (kernel->mems[i].space == LS_MEM_SHARED) {
            declare_shared(m, i, widths[i]);
            continue;
        }
        for (int lanes = 1; lanes <= 4; lanes *= 2) {
            if (widths[i] & (uint32_t)lanes) {
                declare_global(m, i, lanes);
            }
        }
    }
    declare_params(m);
}

/* ---- parameters ---- */

static uint32_t param_word(spv_module *m, int word) {
    uint32_t u32 = ls_spv_type(m, SPV_U32, 1), pointer = ls_spv_pointer(m, SPV_STORAGE_PUSH, u32);
    uint32_t at = SPV_VALUE(m, SPV_ACCESS_CHAIN, pointer, m->push, ls_spv_u32(m, (uint32_t)word));
    return SPV_VALUE(m, SPV_LOAD, u32, at);
}

uint32_t ls_spv_param(spv_module *m, int param) {
    int word = ls_render_word(m->kernel, param);
    spv_kind kind = ls_spv_kind(m, m->kernel->params[param].dtype);
    uint32_t low = param_word(m, word), type = ls_spv_type(m, kind, 1);
    switch (kind) {
    case SPV_BOOL:
        return SPV_VALUE(m, SPV_I_NOT_EQUAL, type, low, ls_spv_u32(m, 0));
    case SPV_U64:
    case SPV_F64: {
        uint32_t high = param_word(m, word + 1);
        uint32_t pair = SPV_VALUE(m, SPV_COMPOSITE_CONSTRUCT, ls_spv_type(m, SPV_U32, 2), low, high);
        return SPV_VALUE(m, SPV_BITCAST, type, pair);
    }
    case SPV_F32:
        return SPV_VALUE(m, SPV_BITCAST, type, low);
    case SPV_U8:
    case SPV_U16:
        return SPV_VALUE(m, SPV_U_CONVERT, type, low);
    case SPV_F16:
        return SPV_VALUE(m, SPV_BITCAST, type, SPV_VALUE(m, SPV_U_CONVERT, ls_spv_type(m, SPV_U16, 1), low));
    default:
        return low;
    }
}

uint32_t ls_spv_hidden(spv_module *m) {
    if (!m->zero) { /* in the prologue: any block may use it */
        spv_words body = m->sections[SPV_SEC_BODY];
        m->sections[SPV_SEC_BODY] = m->sections[SPV_SEC_PROLOGUE];
        m->zero = param_word(m, ls_render_words(m->kernel));
        m->sections[SPV_SEC_PROLOGUE] = m->sections[SPV_SEC_BODY];
        m->sections[SPV_SEC_BODY] = body;
    }
    return m->zero;
}

/* ---- places ---- */

/* The index as u32: a binding has less than 2^32 bytes. */
static uint32_t index_of(spv_module *m, ls_val index) {
    uint32_t id = m->ids[index];
    bool wide = m->kernel->body[index].dtype == LS_I64;
    return wide ? SPV_VALUE(m, SPV_U_CONVERT, ls_spv_type(m, SPV_U32, 1), id) : id;
}

static uint32_t shifted(spv_module *m, uint32_t index, int lanes) {
    uint32_t by = ls_spv_u32(m, lanes == 4 ? 2 : 1);
    return lanes == 1 ? index : SPV_VALUE(m, SPV_SHIFT_RIGHT_LOGICAL, ls_spv_type(m, SPV_U32, 1), index, by);
}

static uint32_t global_place(spv_module *m, int number, uint32_t index, int lanes) {
    uint32_t type = ls_spv_type(m, memory_kind(m, &m->kernel->mems[number]), lanes);
    uint32_t pointer = ls_spv_pointer(m, SPV_STORAGE_BUFFER, type), at = shifted(m, index, lanes);
    return SPV_VALUE(m, SPV_ACCESS_CHAIN, pointer, m->mems[number].var[lane_slot(lanes)], ls_spv_u32(m, 0),
                     at);
}

/* Component `lane` (-1: the whole element) of the shared element that holds `index`. */
static uint32_t shared_place(spv_module *m, int number, uint32_t index, int lane) {
    int width = m->mems[number].width;
    bool whole = lane < 0 || width == 1;
    uint32_t type = ls_spv_type(m, memory_kind(m, &m->kernel->mems[number]), whole ? width : 1);
    uint32_t pointer = ls_spv_pointer(m, SPV_STORAGE_WORKGROUP, type), at = shifted(m, index, width);
    if (whole) {
        return SPV_VALUE(m, SPV_ACCESS_CHAIN, pointer, m->mems[number].var[0], at);
    }
    uint32_t u32 = ls_spv_type(m, SPV_U32, 1);
    uint32_t in = SPV_VALUE(m, SPV_BITWISE_AND, u32, index, ls_spv_u32(m, (uint32_t)width - 1));
    in = lane ? SPV_VALUE(m, SPV_I_ADD, u32, in, ls_spv_u32(m, (uint32_t)lane)) : in;
    return SPV_VALUE(m, SPV_ACCESS_CHAIN, pointer, m->mems[number].var[0], at, in);
}

static uint32_t load_from(spv_module *m, uint32_t type, uint32_t place) {
    return m->vulkan_model
               ? SPV_VALUE(m, SPV_LOAD, type, place, 0x20) /* NonPrivatePointer: barriers concern it */
               : SPV_VALUE(m, SPV_LOAD, type, place);
}

static void store_to(spv_module *m, uint32_t place, uint32_t value) {
    if (m->vulkan_model) {
        SPV_BODY(m, SPV_STORE, place, value, 0x20);
    } else {
        SPV_BODY(m, SPV_STORE, place, value);
    }
}

/* ---- loads and stores ---- */

static uint32_t load_shared(spv_module *m, int number, uint32_t index, int lanes) {
    spv_kind kind = memory_kind(m, &m->kernel->mems[number]);
    if (lanes == m->mems[number].width) {
        return load_from(m, ls_spv_type(m, kind, lanes), shared_place(m, number, index, -1));
    }
    uint32_t parts[4] = {0}, scalar = ls_spv_type(m, kind, 1);
    for (int i = 0; i < lanes; i++) {
        parts[i] = load_from(m, scalar, shared_place(m, number, index, i));
    }
    return lanes == 1
               ? parts[0]
               : ls_spv_value(m, SPV_COMPOSITE_CONSTRUCT, ls_spv_type(m, kind, lanes), parts, (size_t)lanes);
}

uint32_t ls_spv_load(spv_module *m, const ls_ins *ins) {
    const ls_kmem *mem = &m->kernel->mems[ins->arg];
    int number = (int)ins->arg, lanes = ins->lanes;
    uint32_t index = index_of(m, ins->src[0]), u32 = ls_spv_type(m, SPV_U32, 1), pred = 0, value;
    if (ins->src[1] != LS_VAL_NONE) {
        pred = m->ids[ins->src[1]];
        index = SPV_VALUE(m, SPV_SELECT, u32, pred, index, ls_spv_u32(m, 0));
    }
    spv_kind kind = memory_kind(m, mem);
    value = mem->space == LS_MEM_SHARED
                ? load_shared(m, number, index, lanes)
                : load_from(m, ls_spv_type(m, kind, lanes), global_place(m, number, index, lanes));
    if (mem->dtype == LS_BOOL) {
        uint32_t zero = ls_spv_const(m, SPV_U8, lanes, 0);
        value = SPV_VALUE(m, SPV_I_NOT_EQUAL, ls_spv_type(m, SPV_BOOL, lanes), value, zero);
    }
    return pred ? ls_spv_select(m, pred, 1, ls_spv_type_of(m, ins), lanes, value, m->ids[ins->src[2]])
                : value;
}

void ls_spv_store(spv_module *m, const ls_ins *ins) {
    const ls_kmem *mem = &m->kernel->mems[ins->arg];
    int number = (int)ins->arg, lanes = m->kernel->body[ins->src[1]].lanes;
    uint32_t index = index_of(m, ins->src[0]), value = m->ids[ins->src[1]];
    spv_kind kind = memory_kind(m, mem);
    if (mem->dtype == LS_BOOL) {
        uint32_t one = ls_spv_const(m, SPV_U8, lanes, 1), zero = ls_spv_const(m, SPV_U8, lanes, 0);
        value = SPV_VALUE(m, SPV_SELECT, ls_spv_type(m, SPV_U8, lanes), value, one, zero);
    }
    if (mem->space == LS_MEM_GLOBAL) {
        store_to(m, global_place(m, number, index, lanes), value);
    } else if (lanes == m->mems[number].width) {
        store_to(m, shared_place(m, number, index, -1), value);
    } else {
        for (int i = 0; i < lanes; i++) {
            uint32_t scalar = ls_spv_type(m, kind, 1), part = value;
            part = lanes == 1 ? value : SPV_VALUE(m, SPV_COMPOSITE_EXTRACT, scalar, value, (uint32_t)i);
            store_to(m, shared_place(m, number, index, i), part);
        }
    }
}

uint32_t ls_spv_atomic(spv_module *m, const ls_ins *ins) {
    const ls_kmem *mem = &m->kernel->mems[ins->arg];
    bool is_signed = ls_dtype_is_signed(mem->dtype), shared = mem->space == LS_MEM_SHARED;
    spv_op op = ins->op == LS_K_ATOMIC_ADD   ? SPV_ATOMIC_I_ADD
                : ins->op == LS_K_ATOMIC_OR  ? SPV_ATOMIC_OR
                : ins->op == LS_K_ATOMIC_MIN ? (is_signed ? SPV_ATOMIC_S_MIN : SPV_ATOMIC_U_MIN)
                                             : (is_signed ? SPV_ATOMIC_S_MAX : SPV_ATOMIC_U_MAX);
    spv_kind kind = memory_kind(m, mem);
    uint32_t type = ls_spv_type(m, kind, 1), before = 0, merge = 0, zero = ls_spv_const(m, kind, 1, 0);
    if (kind == SPV_U64) {
        ls_spv_capability(m, SPV_CAP_INT64_ATOMICS);
    }
    if (ins->src[2] != LS_VAL_NONE) {
        uint32_t yes = ls_spv_id(m);
        merge = ls_spv_id(m);
        before = m->block;
        SPV_BODY(m, SPV_SELECTION_MERGE, merge, 0);
        SPV_BODY(m, SPV_BRANCH_CONDITIONAL, m->ids[ins->src[2]], yes, merge);
        ls_spv_label(m, yes);
    }
    uint32_t index = index_of(m, ins->src[0]);
    uint32_t place =
        shared ? shared_place(m, (int)ins->arg, index, 0) : global_place(m, (int)ins->arg, index, 1);
    uint32_t scope = ls_spv_u32(m, shared            ? SPV_SCOPE_WORKGROUP
                                   : m->vulkan_model ? SPV_SCOPE_QUEUE_FAMILY
                                                     : SPV_SCOPE_DEVICE);
    uint32_t old = SPV_VALUE(m, op, type, place, scope, ls_spv_u32(m, 0), m->ids[ins->src[1]]);
    if (!merge) {
        return old;
    }
    uint32_t inside = m->block;
    SPV_BODY(m, SPV_BRANCH, merge);
    ls_spv_label(m, merge);
    return SPV_VALUE(m, SPV_PHI, type, zero, before, old, inside);
}

/* ---- cooperative matrices ---- */

/* An index of a fragment's elements, counted in elements of the memory: words hold two halves. */
static uint32_t frag_index(spv_module *m, const ls_ins *ins, ls_val index) {
    uint32_t id = index_of(m, index);
    return m->kernel->mems[ins->arg].dtype == LS_U32 && ins->op == LS_K_FRAG_LOAD &&
                   ls_dtype_bits((ls_dtype)ins->dtype) == 16
               ? shifted(m, id, 2)
               : id;
}

/* Strides count what the pointer points to: elements of the array, which may be vectors. */
static uint32_t frag_stride(spv_module *m, const ls_ins *ins, ls_val stride) {
    bool global = m->kernel->mems[ins->arg].space == LS_MEM_GLOBAL;
    uint32_t id = frag_index(m, ins, stride);
    return global ? id : shifted(m, id, m->mems[ins->arg].width);
}

static uint32_t frag_place(spv_module *m, const ls_ins *ins) {
    uint32_t index = frag_index(m, ins, ins->src[0]);
    bool global = m->kernel->mems[ins->arg].space == LS_MEM_GLOBAL;
    return global ? global_place(m, (int)ins->arg, index, 1) : shared_place(m, (int)ins->arg, index, -1);
}

static bool is_integer(const ls_ins *ins) {
    return ls_dtype_is_signed_int((ls_dtype)ins->dtype);
}

uint32_t ls_spv_frag(spv_module *m, const ls_ins *ins) {
    const ls_ins *body = m->kernel->body;
    uint32_t layout = ls_spv_u32(m, ins->flags & LS_KF_FRAG_COLS ? 1 : 0);
    switch (ins->op) {
    case LS_K_FRAG_FILL:
        return SPV_VALUE(m, SPV_COMPOSITE_CONSTRUCT, ls_spv_type_of(m, ins), m->ids[ins->src[0]]);
    case LS_K_FRAG_LOAD: {
        uint32_t place = frag_place(m, ins), stride = frag_stride(m, ins, ins->src[1]);
        return SPV_VALUE(m, SPV_COOP_LOAD, ls_spv_type_of(m, ins), place, layout, stride, 0x20);
    }
    case LS_K_FRAG_MMA: {
        uint32_t a = m->ids[ins->src[0]], b = m->ids[ins->src[1]], c = m->ids[ins->src[2]];
        uint32_t with_sign = (is_integer(&body[ins->src[0]]) ? 3u : 0) | (is_integer(ins) ? 12u : 0);
        return with_sign ? SPV_VALUE(m, SPV_COOP_MUL_ADD, ls_spv_type_of(m, ins), a, b, c, with_sign)
                         : SPV_VALUE(m, SPV_COOP_MUL_ADD, ls_spv_type_of(m, ins), a, b, c);
    }
    default: {
        uint32_t place = frag_place(m, ins), stride = frag_stride(m, ins, ins->src[2]);
        SPV_BODY(m, SPV_COOP_STORE, place, m->ids[ins->src[1]], layout, stride, 0x20);
        return 0;
    }
    }
}
