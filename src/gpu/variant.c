/* Variants of an emitted kernel for launches whose buffers do not lie where the device can bind them: a memory is indexed from
 * a base, and memories that are one place, or lie in one, become one. Both keep every value that the kernel
 * computes. Counts of memories that are indexed from a base say nothing: bounds were proved before. */
#include "gpu/internal.h"

enum { ANY_COUNT = 1 << 28, PRODUCT_ROOM = 100 /* instructions of by_elements */ };

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

/* ---- whole products: a device's way with them may need operands that lie as it likes; from a base on, sum by sum ---- */

static ls_val int_of(rewriter *r, int64_t value) {
    return put3(r, LS_K_CONST, LS_I32, 1, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, value);
}
static ls_val both(rewriter *r, ls_kop op, ls_val a, ls_val b) {
    return put3(r, op, LS_I32, 1, a, b, LS_VAL_NONE, 0);
}

/* Element (down, along) of an operand that begins at half `first`, as f32; +0 past a line's end and past the last line. */
static ls_val half_at(rewriter *r, const ls_kproduct *p, int side, ls_val first, ls_val down, ls_val along) {
    int32_t mem = p->side[side].mem;
    ls_val line = int_of(r, p->side[side].line),
           lines = int_of(r, 2 * r->from->mems[mem].count / p->side[side].line);
    ls_val x = both(r, LS_K_ADD, both(r, LS_K_REM, first, line), along),
           y = both(r, LS_K_ADD, both(r, LS_K_DIV, first, line), down);
    ls_val in_line = put3(r, LS_K_LT, LS_BOOL, 1, x, line, LS_VAL_NONE, 0);
    ls_val inside = put3(r, LS_K_LT, LS_BOOL, 1, y, lines, LS_VAL_NONE, 0);
    inside = put3(r, LS_K_AND, LS_BOOL, 1, in_line, inside, LS_VAL_NONE, 0);
    ls_val half = both(r, LS_K_ADD, both(r, LS_K_MUL, y, line), x);
    ls_val one = int_of(r, 1), four = int_of(r, 4), at = both(r, LS_K_SHR, half, one);
    at = r->base[mem] == LS_VAL_NONE ? at : moved(r, at, r->base[mem], 0);
    ls_val none = put3(r, LS_K_CONST, LS_U32, 1, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, 0);
    ls_val word = put3(r, LS_K_LOAD, LS_U32, 1, at, inside, none, r->mem[mem]);
    ls_val low = both(r, LS_K_SHL, both(r, LS_K_AND, half, one), four);
    low = put3(r, LS_K_CAST, LS_U32, 1, low, LS_VAL_NONE, LS_VAL_NONE, 0);
    word = put3(r, LS_K_SHR, LS_U32, 1, word, low, LS_VAL_NONE, 0);
    word = put3(r, LS_K_CAST, LS_U16, 1, word, LS_VAL_NONE, LS_VAL_NONE, 0);
    word = put3(r, LS_K_BITCAST, p->type, 1, word, LS_VAL_NONE, LS_VAL_NONE, 0);
    return put3(r, LS_K_CAST, LS_F32, 1, word, LS_VAL_NONE, LS_VAL_NONE, 0);
}

static void by_elements(rewriter *r, const ls_kproduct *p, const ls_ins *ins) {
    const int32_t *w = r->from->workgroup;
    ls_val t = put3(r, LS_K_LOCAL_ID, LS_I32, 1, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, 0), first[2],
           factor[2];
    for (int i = 1; i < 3; i++) {
        ls_val id = put3(r, LS_K_LOCAL_ID, LS_I32, 1, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, i);
        t = both(r, LS_K_ADD, t, both(r, LS_K_MUL, id, int_of(r, i == 1 ? w[0] : (int64_t)w[0] * w[1])));
    }
    for (int i = 0; i < 2; i++) {
        first[i] = put3(r, LS_K_CAST, LS_I32, 1, ins->src[i], LS_VAL_NONE, LS_VAL_NONE, 0);
    }
    ls_val columns = int_of(r, p->side[1].size), stride = int_of(r, p->stride), zero = int_of(r, 0),
           one = int_of(r, 1);
    ls_val all = int_of(r, (int64_t)p->side[0].size * p->side[1].size),
           threads = int_of(r, ls_kernel_threads(r->from));
    ls_val depth = int_of(r, p->k),
           nothing = put3(r, LS_K_CONST, LS_F32, 1, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, 0);
    ls_val e = put3(r, LS_K_LOOP, LS_I32, 1, t, all, threads, 0);
    ls_val row = both(r, LS_K_DIV, e, columns), column = both(r, LS_K_REM, e, columns);
    ls_val sum = put3(r, LS_K_VAR, LS_F32, 1, nothing, LS_VAL_NONE, LS_VAL_NONE, 0);
    ls_val k = put3(r, LS_K_LOOP, LS_I32, 1, zero, depth, one, 0);
    for (int i = 0; i < 2; i++) {
        ls_val own = i ? column : row;
        factor[i] = half_at(r, p, i, first[i], p->side[i].by_k ? own : k, p->side[i].by_k ? k : own);
    }
    ls_val now = put3(r, LS_K_GET, LS_F32, 1, sum, LS_VAL_NONE, LS_VAL_NONE, 0);
    put3(r, LS_K_SET, LS_F32, 0, sum, put3(r, LS_K_FMA, LS_F32, 1, factor[0], factor[1], now, 0), LS_VAL_NONE,
         0);
    put3(r, LS_K_END_LOOP, LS_BOOL, 0, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, 0);
    ls_val total = put3(r, LS_K_GET, LS_F32, 1, sum, LS_VAL_NONE, LS_VAL_NONE, 0);
    ls_val place = both(r, LS_K_ADD, both(r, LS_K_MUL, row, stride), column);
    put3(r, LS_K_STORE, LS_F32, 0, place, total, LS_VAL_NONE, r->mem[p->sums]);
    put3(r, LS_K_END_LOOP, LS_BOOL, 0, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, 0);
}

static void rewrite_product(rewriter *r, int32_t at, const ls_ins *ins) {
    const ls_kproduct *p = &r->from->products[ins->arg];
    if (r->base[p->side[0].mem] != LS_VAL_NONE || r->base[p->side[1].mem] != LS_VAL_NONE) {
        by_elements(r, p, ins);
        return;
    }
    ls_kproduct *to = &r->to.products[r->to.n_products];
    *to = *p;
    to->sums = r->mem[p->sums];
    for (int i = 0; i < 2; i++) {
        to->side[i].mem = r->mem[p->side[i].mem];
    }
    ls_ins same = *ins;
    same.arg = r->to.n_products++;
    r->map[at] = put(r, same);
}

static void rewrite_ins(rewriter *r, int32_t at) {
    ls_ins ins = r->from->body[at];
    for (int i = 0; i < 3; i++) {
        ins.src[i] = ins.src[i] >= 0 ? r->map[ins.src[i]] : ins.src[i];
    }
    ls_val base = LS_VAL_NONE;
    if (ins.op == LS_K_PRODUCT) {
        rewrite_product(r, at, &ins);
        return;
    }
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
    int32_t extra = kernel->n_products * PRODUCT_ROOM;
    for (int32_t i = 0; i < kernel->n_body; i++) {
        extra += touches_memory(&kernel->body[i]) ? 7 * (kernel->body[i].lanes <= 4 ? kernel->body[i].lanes : 1) : 0;
    }
    r.to.body = LS_ARENA_ARRAY(arena, ls_ins, kernel->n_body + kernel->n_globals + extra);
    r.to.mems = LS_ARENA_ARRAY(arena, ls_kmem, kernel->n_mems + 1);
    r.to.params = LS_ARENA_ARRAY(arena, ls_kparam, kernel->n_params + kernel->n_globals + 1);
    r.map = LS_ARENA_ARRAY(arena, ls_val, kernel->n_body + 1);
    r.mem = LS_ARENA_ARRAY(arena, int32_t, kernel->n_mems + 1);
    r.base = LS_ARENA_ARRAY(arena, ls_val, kernel->n_mems + 1);
    r.to.products = LS_ARENA_ARRAY(arena, ls_kproduct, kernel->n_products + 1);
    r.to.n_products = 0;
    if (!r.to.products || !r.to.body || !r.to.mems || !r.to.params || !r.map || !r.mem || !r.base) {
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
                                : put3(&r, LS_K_PARAM, LS_I32, 1, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE,
                                       r.to.n_params);
            r.to.mems[r.mem[m]].count = ANY_COUNT;
            r.to.mems[r.mem[m]].count_param = LS_VAL_NONE;
        }
        if (at == LS_GPU_BASE_PARAM) {
            r.to.params[r.to.n_params] =
                (ls_kparam){ls_arena_printf(arena, "base_%s", mem->name), LS_I32, 0, INT32_MAX};
            if (!r.to.params[r.to.n_params++].name) {
                return LS_FAIL_MEMORY(err, "a variant of a kernel");
            }
        } else if (at == LS_GPU_BASE_NONE && global &&
                   alias[mem->binding] != mem->binding) { /* the same place: that one's base */
            r.base[m] = r.base[memory_of(kernel, alias[mem->binding])];
        }
    }
    for (int32_t i = 0; i < kernel->n_body; i++) {
        rewrite_ins(&r, i);
    }
    *out_kernel = r.to;
    return LS_OK;
}
