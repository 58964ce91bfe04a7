/* Legal kernels to SPIR-V: the walk over the body, and structured control flow.
 *
 * Blocks: every loop and every if declares its merge block; a loop's counter is a phi of its header, everything else that
 * changes is a variable of the function. Stores one after the other under one predicate share one branch. */
#include "render/spirv.h"

static void open_guard(spv_module *m, ls_val pred) {
    uint32_t yes = ls_spv_id(m);
    m->guard = pred;
    m->guard_merge = ls_spv_id(m);
    SPV_BODY(m, SPV_SELECTION_MERGE, m->guard_merge, 0);
    SPV_BODY(m, SPV_BRANCH_CONDITIONAL, m->ids[pred], yes, m->guard_merge);
    ls_spv_label(m, yes);
}

static void close_guard(spv_module *m) {
    if (m->guard != LS_VAL_NONE) {
        SPV_BODY(m, SPV_BRANCH, m->guard_merge);
        ls_spv_label(m, m->guard_merge);
        m->guard = LS_VAL_NONE;
    }
}

static void store(spv_module *m, const ls_ins *ins) {
    if (ins->src[2] != m->guard) {
        close_guard(m);
        if (ins->src[2] != LS_VAL_NONE) {
            open_guard(m, ins->src[2]);
        }
    }
    ls_spv_store(m, ins);
}

static spv_block *push_block(spv_module *m, ls_kop op) {
    if (m->depth == (int)(sizeof m->blocks / sizeof *m->blocks)) {
        ls_spv_fail(m, LS_ERR_UNSUPPORTED, "blocks nested more than 64 deep");
        m->depth--;
    }
    spv_block *block = &m->blocks[m->depth++];
    *block = (spv_block){.op = op, .merge = ls_spv_id(m)};
    block->other = ls_spv_id(m);
    return block;
}

static uint32_t open_loop(spv_module *m, const ls_ins *ins) {
    spv_block *b = push_block(m, LS_K_LOOP);
    uint32_t type = ls_spv_type_of(m, ins), body = ls_spv_id(m), test = ls_spv_id(m), before = m->block;
    uint32_t truth = ls_spv_type(m, SPV_BOOL, 1);
    b->header = ls_spv_id(m);
    b->next = ls_spv_id(m);
    b->step = m->ids[ins->src[2]];
    b->type = type;
    SPV_BODY(m, SPV_BRANCH, b->header);
    ls_spv_label(m, b->header);
    b->index = SPV_VALUE(m, SPV_PHI, type, m->ids[ins->src[0]], before, b->next, b->other);
    SPV_BODY(m, SPV_LOOP_MERGE, b->merge, b->other, ins->flags & LS_KF_UNROLL ? 1 : 0);
    SPV_BODY(m, SPV_BRANCH, test);
    ls_spv_label(m, test);
    spv_op less = ins->dtype == LS_U32 ? SPV_U_LESS_THAN : SPV_S_LESS_THAN;
    uint32_t more = SPV_VALUE(m, less, truth, b->index, m->ids[ins->src[1]]);
    SPV_BODY(m, SPV_BRANCH_CONDITIONAL, more, body, b->merge);
    ls_spv_label(m, body);
    return b->index;
}

static void end_loop(spv_module *m) {
    const spv_block *b = &m->blocks[--m->depth];
    SPV_BODY(m, SPV_BRANCH, b->other);
    ls_spv_label(m, b->other);
    SPV_BODY(m, SPV_I_ADD, b->type, b->next, b->index, b->step);
    SPV_BODY(m, SPV_BRANCH, b->header);
    ls_spv_label(m, b->merge);
}

static void open_if(spv_module *m, const ls_ins *ins) {
    spv_block *b = push_block(m, LS_K_IF);
    uint32_t yes = ls_spv_id(m);
    SPV_BODY(m, SPV_SELECTION_MERGE, b->merge, 0);
    SPV_BODY(m, SPV_BRANCH_CONDITIONAL, m->ids[ins->src[0]], yes, b->other);
    ls_spv_label(m, yes);
}

static void put_else(spv_module *m) {
    spv_block *b = &m->blocks[m->depth - 1];
    SPV_BODY(m, SPV_BRANCH, b->merge);
    ls_spv_label(m, b->other);
    b->op = LS_K_ELSE;
}

static void end_if(spv_module *m) {
    if (m->blocks[m->depth - 1].op == LS_K_IF) {
        put_else(m);
    }
    const spv_block *b = &m->blocks[--m->depth];
    SPV_BODY(m, SPV_BRANCH, b->merge);
    ls_spv_label(m, b->merge);
}

static uint32_t variable(spv_module *m, const ls_ins *ins) {
    uint32_t pointer = ls_spv_pointer(m, SPV_STORAGE_FUNCTION, ls_spv_type_of(m, ins)), id = ls_spv_id(m);
    SPV_PUT(m, SPV_SEC_LOCALS, SPV_VARIABLE, pointer, id, SPV_STORAGE_FUNCTION);
    SPV_BODY(m, SPV_STORE, id, m->ids[ins->src[0]]);
    return id;
}

/* Execution and memory of the workgroup; acquire and release of buffers and shared arrays. */
static void barrier(spv_module *m) {
    uint32_t scope = ls_spv_u32(m, SPV_SCOPE_WORKGROUP);
    uint32_t semantics =
        ls_spv_u32(m, m->vulkan_model ? 0x6148 : 0x148); /* 0x6000: make available, make visible */
    SPV_BODY(m, SPV_CONTROL_BARRIER, scope, scope, semantics);
}

/* +0.0 that no compiler takes for a constant. */
static uint32_t hidden_zero(spv_module *m, spv_kind kind, int lanes) {
    uint32_t bits = ls_spv_hidden(m), all[4];
    if (kind == SPV_F64) {
        bits = SPV_VALUE(m, SPV_COMPOSITE_CONSTRUCT, ls_spv_type(m, SPV_U32, 2), bits, bits);
    }
    all[0] = all[1] = all[2] = all[3] = SPV_VALUE(m, SPV_BITCAST, ls_spv_type(m, kind, 1), bits);
    return lanes == 1
               ? all[0]
               : ls_spv_value(m, SPV_COMPOSITE_CONSTRUCT, ls_spv_type(m, kind, lanes), all, (size_t)lanes);
}

static uint32_t constant(spv_module *m, const ls_ins *ins) {
    spv_kind kind = ls_spv_kind(m, (ls_dtype)ins->dtype);
    bool hidden = m->options->hide_zero && ins->arg == 0 && (kind == SPV_F32 || kind == SPV_F64);
    return hidden ? hidden_zero(m, kind, ins->lanes) : ls_spv_const(m, kind, ins->lanes, (uint64_t)ins->arg);
}

static uint32_t control(spv_module *m, const ls_ins *ins) {
    switch (ins->op) {
    case LS_K_LOOP:
        return open_loop(m, ins);
    case LS_K_END_LOOP:
        end_loop(m);
        return 0;
    case LS_K_IF:
        open_if(m, ins);
        return 0;
    case LS_K_ELSE:
        put_else(m);
        return 0;
    case LS_K_END_IF:
        end_if(m);
        return 0;
    case LS_K_VAR:
        return variable(m, ins);
    case LS_K_GET:
        return SPV_VALUE(m, SPV_LOAD, ls_spv_type_of(m, &m->kernel->body[ins->src[0]]), m->ids[ins->src[0]]);
    default:
        SPV_BODY(m, SPV_STORE, m->ids[ins->src[0]], m->ids[ins->src[1]]);
        return 0;
    }
}

static uint32_t leaf(spv_module *m, const ls_ins *ins) {
    switch (ins->op) {
    case LS_K_CONST:
        return constant(m, ins);
    case LS_K_PARAM:
        return ls_spv_param(m, (int)ins->arg);
    case LS_K_GROUP_ID:
        return ls_spv_builtin(m, SPV_BUILTIN_WORKGROUP_ID, (int)ins->arg);
    case LS_K_LOCAL_ID:
        return ls_spv_builtin(m, SPV_BUILTIN_LOCAL_ID, (int)ins->arg);
    case LS_K_SUBGROUP_ID:
        return ls_spv_builtin(m, SPV_BUILTIN_SUBGROUP_ID, -1);
    case LS_K_LANE_ID:
        return ls_spv_builtin(m, SPV_BUILTIN_LANE_ID, -1);
    default:
        return ls_spv_builtin(m, SPV_BUILTIN_SUBGROUP_SIZE, -1);
    }
}

static void walk(spv_module *m) {
    for (int32_t i = 0; i < m->kernel->n_body && m->status == LS_OK; i++) {
        const ls_ins *ins = &m->kernel->body[i];
        if (ins->op == LS_K_STORE) {
            store(m, ins);
            continue;
        }
        if (ins->op != LS_K_CONST || m->options->hide_zero) {
            close_guard(m);
        }
        switch (ls_kops[ins->op].kind) {
        case LS_KC_CONTROL:
            m->ids[i] = control(m, ins);
            break;
        case LS_KC_LEAF:
            m->ids[i] = leaf(m, ins);
            break;
        case LS_KC_MEMORY:
            m->ids[i] = ins->op == LS_K_LOAD ? ls_spv_load(m, ins) : ls_spv_atomic(m, ins);
            break;
        case LS_KC_GROUP:
            if (ins->op == LS_K_BARRIER) {
                barrier(m);
            } else {
                m->ids[i] = ls_spv_group(m, ins);
            }
            break;
        case LS_KC_MATRIX:
            m->ids[i] = ls_spv_frag(m, ins);
            break;
        default:
            m->ids[i] = ls_spv_pure(m, ins);
            break;
        }
    }
    close_guard(m);
}

/* What must be known before the first word: whether f16 is a type or only 16 bits, and which memory model holds. */
static void scan(spv_module *m) {
    for (int32_t i = 0; i < m->kernel->n_body; i++) {
        const ls_ins *ins = &m->kernel->body[i];
        bool frag = ls_kops[ins->op].kind == LS_KC_MATRIX;
        bool f16 = ins->dtype == LS_F16 || (ins->src[0] >= 0 && m->kernel->body[ins->src[0]].dtype == LS_F16);
        m->half_native = m->half_native || ((frag || ins->op == LS_K_CAST) && f16);
        m->vulkan_model = m->vulkan_model || frag;
        m->has_barrier = m->has_barrier || ins->op == LS_K_BARRIER;
    }
}

ls_status ls_render_spirv(ls_arena *arena, const ls_kernel *kernel, const ls_spirv_options *options,
                          uint32_t **out_words, size_t *out_n_words, ls_error *err) {
    static const ls_spirv_options none;
    spv_module m = {.arena = arena, .err = err, .kernel = kernel, .options = options ? options : &none};
    *out_words = NULL;
    *out_n_words = 0;
    scan(&m);
    if (ls_spv_begin(&m) == LS_OK) {
        if (m.vulkan_model) {
            ls_spv_capability(&m, SPV_CAP_VULKAN_MODEL);
            ls_spv_extension(&m, "SPV_KHR_vulkan_memory_model");
        }
        ls_spv_declare_memory(&m);
        walk(&m);
    }
    ls_status status = ls_spv_finish(&m, out_words, out_n_words);
    if (status != LS_OK) {
        *out_words = NULL;
        *out_n_words = 0;
    }
    return status;
}
