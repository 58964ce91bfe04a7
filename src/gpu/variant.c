/* Variants of an emitted kernel for launches whose buffers do not lie where the device can bind them: a memory is indexed from
 * a base, and memories that are one place, or lie in one, become one. Both keep every value that the kernel
 * computes. Counts of memories that are indexed from a base say nothing: bounds were proved before. */
#include "gpu/internal.h"

enum { ANY_COUNT = 1 << 28 };

typedef struct rewriter {
    const ls_kernel *from;
    ls_kernel to;
    ls_val *map;    /* old instruction to new */
    int32_t *mem;   /* old memory to new */
    ls_val *base;   /* by old memory: the leaf of its base, or LS_VAL_NONE */
} rewriter;

static ls_val put(rewriter *r, ls_ins ins) {
    r->to.body[r->to.n_body] = ins;
    return r->to.n_body++;
}

static ls_val put3(rewriter *r, ls_kop op, ls_dtype dtype, int lanes, ls_val a, ls_val b, ls_val c, int64_t arg) {
    return put(r, (ls_ins){(uint8_t)op, (uint8_t)dtype, (uint8_t)lanes, 0, {a, b, c}, arg});
}

static bool touches_memory(const ls_ins *ins) {
    return ls_kops[ins->op].kind == LS_KC_MEMORY || ins->op == LS_K_FRAG_LOAD || ins->op == LS_K_FRAG_STORE;
}

/* Index + base + offset, in the index' own type. */
static ls_val moved(rewriter *r, ls_val index, ls_val base, int offset) {
    ls_dtype type = (ls_dtype)r->to.body[index].dtype;
    ls_val by = type == LS_I32 ? base : put3(r, LS_K_CAST, type, 1, base, LS_VAL_NONE, LS_VAL_NONE, 0);
    ls_val at = put3(r, LS_K_ADD, type, 1, index, by, LS_VAL_NONE, 0);
    if (offset) {
        ls_val k = put3(r, LS_K_CONST, type, 1, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, offset);
        at = put3(r, LS_K_ADD, type, 1, at, k, LS_VAL_NONE, 0);
    }
    return at;
}

/* An access of several lanes needs an index that is a multiple of them, which a base may break: lane by lane. */
static ls_val by_lanes(rewriter *r, const ls_ins *ins, ls_val base) {
    ls_val all = LS_VAL_NONE;
    for (int i = 0; i < ins->lanes; i++) {
        ls_val at = moved(r, ins->src[0], base, i);
        if (ins->op == LS_K_STORE) {
            ls_val x = put3(r, LS_K_EXTRACT, (ls_dtype)ins->dtype, 1, ins->src[1], LS_VAL_NONE, LS_VAL_NONE, i);
            put3(r, LS_K_STORE, (ls_dtype)ins->dtype, 1, at, x, ins->src[2], ins->arg);
            continue;
        }
        ls_val other = ins->src[2];
        if (other != LS_VAL_NONE) {
            other = put3(r, LS_K_EXTRACT, (ls_dtype)ins->dtype, 1, other, LS_VAL_NONE, LS_VAL_NONE, i);
        }
        ls_val x = put3(r, LS_K_LOAD, (ls_dtype)ins->dtype, 1, at, ins->src[1], other, ins->arg);
        all = i ? put3(r, LS_K_INSERT, (ls_dtype)ins->dtype, ins->lanes, all, x, LS_VAL_NONE, i)
                : put3(r, LS_K_SPLAT, (ls_dtype)ins->dtype, ins->lanes, x, LS_VAL_NONE, LS_VAL_NONE, 0);
    }
    return all;
}

static void rewrite_ins(rewriter *r, int32_t at) {
    ls_ins ins = r->from->body[at];
    for (int i = 0; i < 3; i++) {
        ins.src[i] = ins.src[i] >= 0 ? r->map[ins.src[i]] : ins.src[i];
    }
    ls_val base = LS_VAL_NONE;
    if (touches_memory(&ins)) {
        base = r->base[ins.arg];
        ins.arg = r->mem[ins.arg];
    }
    if (base == LS_VAL_NONE) {
        r->map[at] = put(r, ins);
    } else if ((ins.op == LS_K_LOAD || ins.op == LS_K_STORE) && ins.lanes > 1) {
        r->map[at] = by_lanes(r, &ins, base);
    } else {
        ins.src[0] = moved(r, ins.src[0], base, 0);
        r->map[at] = put(r, ins);
    }
}

const ls_kmem *ls_gpu_bound(const ls_kernel *k, int32_t binding) {
    const ls_kmem *m = k->mems; /* a builder gives each binding to one memory */
    while (m->space != LS_MEM_GLOBAL || m->binding != binding) {
        m++;
    }
    return m;
}

static int32_t memory_of(const ls_kernel *k, int32_t binding) {
    return (int32_t)(ls_gpu_bound(k, binding) - k->mems);
}

/* The memories that stay, in their order, and where each old one went. */
static void rewrite_mems(rewriter *r, const int32_t *alias) {
    const ls_kernel *k = r->from;
    r->to.n_mems = r->to.n_globals = 0;
    for (int pass = 0; pass < 2; pass++) { /* what stays; then what joins it */
        for (int32_t m = 0; m < k->n_mems; m++) {
            ls_kmem mem = k->mems[m];
            bool global = mem.space == LS_MEM_GLOBAL, joins = global && alias[mem.binding] != mem.binding;
            if (pass == 0 && !joins) {
                mem.binding = global ? r->to.n_globals++ : mem.binding;
                r->mem[m] = r->to.n_mems;
                r->to.mems[r->to.n_mems++] = mem;
            } else if (pass == 1 && joins) {
                r->mem[m] = r->mem[memory_of(k, alias[mem.binding])];
                r->to.mems[r->mem[m]].access |= mem.access;
            }
        }
    }
}

ls_status ls_gpu_rewrite(ls_arena *arena, const ls_kernel *kernel, const int64_t *base, const int32_t *alias,
                         ls_kernel *out_kernel, ls_error *err) {
    rewriter r = {.from = kernel, .to = *kernel};
    int32_t extra = 0;
    for (int32_t i = 0; i < kernel->n_body; i++) {
        extra += touches_memory(&kernel->body[i]) ? 7 * (kernel->body[i].lanes <= 4 ? kernel->body[i].lanes : 1) : 0;
    }
    r.to.body = LS_ARENA_ARRAY(arena, ls_ins, kernel->n_body + kernel->n_globals + extra);
    r.to.mems = LS_ARENA_ARRAY(arena, ls_kmem, kernel->n_mems + 1);
    r.to.params = LS_ARENA_ARRAY(arena, ls_kparam, kernel->n_params + kernel->n_globals + 1);
    r.map = LS_ARENA_ARRAY(arena, ls_val, kernel->n_body + 1);
    r.mem = LS_ARENA_ARRAY(arena, int32_t, kernel->n_mems + 1);
    r.base = LS_ARENA_ARRAY(arena, ls_val, kernel->n_mems + 1);
    if (!r.to.body || !r.to.mems || !r.to.params || !r.map || !r.mem || !r.base) {
        return LS_FAIL_MEMORY(err, "a variant of a kernel");
    }
    for (int32_t i = 0; i < kernel->n_params; i++) {
        r.to.params[i] = kernel->params[i];
    }
    rewrite_mems(&r, alias);
    r.to.n_body = 0;
    for (int32_t m = 0; m < kernel->n_mems; m++) {
        const ls_kmem *mem = &kernel->mems[m];
        bool global = mem->space == LS_MEM_GLOBAL;
        r.base[m] = LS_VAL_NONE;
        int64_t at = global ? base[mem->binding] : LS_GPU_BASE_NONE;
        if (at != LS_GPU_BASE_NONE) {
            r.base[m] = at >= 0 ? put3(&r, LS_K_CONST, LS_I32, 1, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, at)
                                : put3(&r, LS_K_PARAM, LS_I32, 1, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, r.to.n_params);
            r.to.mems[r.mem[m]].count = ANY_COUNT;
            r.to.mems[r.mem[m]].count_param = LS_VAL_NONE;
        }
        if (at == LS_GPU_BASE_PARAM) {
            r.to.params[r.to.n_params] = (ls_kparam){ls_arena_printf(arena, "base_%s", mem->name), LS_I32, 0, INT32_MAX};
            if (!r.to.params[r.to.n_params++].name) {
                return LS_FAIL_MEMORY(err, "a variant of a kernel");
            }
        } else if (at == LS_GPU_BASE_NONE && global && alias[mem->binding] != mem->binding) { /* the same place: that one's base */
            r.base[m] = r.base[memory_of(kernel, alias[mem->binding])];
        }
    }
    for (int32_t i = 0; i < kernel->n_body; i++) {
        rewrite_ins(&r, i);
    }
    *out_kernel = r.to;
    return LS_OK;
}
