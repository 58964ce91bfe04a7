/* Wrong arithmetic, put into a kernel instruction by instruction. */
#include "backend/sim/sim.h"
#include <string.h>

typedef struct spoiler {
    const ls_kernel *from;
    ls_kernel to;
    ls_val *map;
} spoiler;

static ls_val put(spoiler *s, ls_kop op, ls_dtype dtype, ls_val a, ls_val b, ls_val c, int64_t arg) {
    s->to.body[s->to.n_body] = (ls_ins){(uint8_t)op, (uint8_t)dtype, 1, 0, {a, b, c}, arg};
    return s->to.n_body++;
}
static ls_val word(spoiler *s, uint32_t bits) {
    return put(s, LS_K_CONST, LS_U32, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, (int64_t)bits);
}

/* A zero of the same sign in place of a subnormal. */
static ls_val flush(spoiler *s, ls_val x) {
    ls_val bits = put(s, LS_K_BITCAST, LS_U32, x, LS_VAL_NONE, LS_VAL_NONE, 0);
    ls_val exponent = put(s, LS_K_AND, LS_U32, bits, word(s, 0x7f800000), LS_VAL_NONE, 0);
    ls_val none = put(s, LS_K_EQ, LS_BOOL, exponent, word(s, 0), LS_VAL_NONE, 0);
    ls_val zero = put(s, LS_K_AND, LS_U32, bits, word(s, 0x80000000), LS_VAL_NONE, 0);
    return put(s, LS_K_BITCAST, LS_F32, put(s, LS_K_SELECT, LS_U32, none, zero, bits, 0), LS_VAL_NONE, LS_VAL_NONE, 0);
}

/* Off by -2 to 2 ULPs, which the last bits of the right result decide; whole numbers too. */
static ls_val off(spoiler *s, ls_val x) {
    ls_val bits = put(s, LS_K_BITCAST, LS_U32, x, LS_VAL_NONE, LS_VAL_NONE, 0);
    ls_val hash = put(s, LS_K_MUL, LS_U32, bits, word(s, 0x9e3779b1), LS_VAL_NONE, 0);
    ls_val by = put(s, LS_K_REM, LS_U32, put(s, LS_K_SHR, LS_U32, hash, word(s, 13), LS_VAL_NONE, 0), word(s, 5), LS_VAL_NONE, 0);
    ls_val moved = put(s, LS_K_ADD, LS_U32, bits, put(s, LS_K_SUB, LS_U32, by, word(s, 2), LS_VAL_NONE, 0), LS_VAL_NONE, 0);
    ls_val e = put(s, LS_K_AND, LS_U32, bits, word(s, 0x7f800000), LS_VAL_NONE, 0);
    ls_val low = put(s, LS_K_LE, LS_BOOL, e, word(s, 0x00800000), LS_VAL_NONE, 0);
    ls_val high = put(s, LS_K_LE, LS_BOOL, word(s, 0x7f000000), e, LS_VAL_NONE, 0);
    ls_val edge = put(s, LS_K_OR, LS_BOOL, low, high, LS_VAL_NONE, 0);
    ls_val r = put(s, LS_K_SELECT, LS_U32, edge, bits, moved, 0);
    return put(s, LS_K_BITCAST, LS_F32, r, LS_VAL_NONE, LS_VAL_NONE, 0);
}

/* The product that a value is, seen as the compiler sees it; LS_VAL_NONE: it is none. */
static const ls_ins *product(const spoiler *s, ls_val v) {
    const ls_ins *ins = &s->from->body[v];
    return ins->op == LS_K_MUL && ins->dtype == LS_F32 ? ins : NULL;
}

static bool is_spoiled(const ls_kernel *kernel, const ls_ins *ins) {
    bool arithmetic = ins->op == LS_K_ADD || ins->op == LS_K_SUB || ins->op == LS_K_MUL || ins->op == LS_K_DIV || ins->op == LS_K_SQRT;
    if (ins->op == LS_K_CAST && ins->lanes == 1) {
        ls_dtype from = (ls_dtype)kernel->body[ins->src[0]].dtype;
        return (ins->dtype == LS_F64 && from == LS_F32) || (ins->dtype == LS_F32 && from == LS_F64);
    }
    return arithmetic && ins->dtype == LS_F32 && ins->lanes == 1;
}

static ls_val spoiled(spoiler *s, ls_ins ins, const ls_ins *from) {
    if (ins.op == LS_K_CAST) {
        bool widens = ins.dtype == LS_F64;
        ls_val r = put(s, LS_K_CAST, (ls_dtype)ins.dtype, widens ? flush(s, ins.src[0]) : ins.src[0], LS_VAL_NONE, LS_VAL_NONE, ins.arg);
        return widens ? r : flush(s, r);
    }
    const ls_ins *p = ins.op == LS_K_ADD ? product(s, from->src[0]) : NULL;
    if (ins.op == LS_K_DIV || ins.op == LS_K_SQRT) {
        ls_val a = flush(s, ins.src[0]), b = ins.op == LS_K_DIV ? flush(s, ins.src[1]) : LS_VAL_NONE;
        return flush(s, off(s, put(s, (ls_kop)ins.op, LS_F32, a, b, LS_VAL_NONE, 0)));
    }
    if (p) {
        ls_val a = flush(s, s->map[p->src[0]]), b = flush(s, s->map[p->src[1]]);
        return flush(s, put(s, LS_K_FMA, LS_F32, a, b, flush(s, ins.src[1]), 0));
    }
    ls_val a = flush(s, ins.src[0]), b = flush(s, ins.src[1]);
    return flush(s, put(s, (ls_kop)ins.op, LS_F32, a, b, LS_VAL_NONE, 0));
}

ls_status ls_sim_spoil(ls_arena *arena, const ls_kernel *kernel, ls_kernel *out_kernel, ls_error *err) {
    enum { MOST = 64 }; /* instructions that one becomes */
    spoiler s = {.from = kernel, .to = *kernel};
    s.map = LS_ARENA_ARRAY(arena, ls_val, kernel->n_body + 1);
    size_t room = 0;
    for (int32_t i = 0; i < kernel->n_body; i++) {
        room += is_spoiled(kernel, &kernel->body[i]) ? MOST : 1;
    }
    s.to.body = LS_ARENA_ARRAY(arena, ls_ins, room + 1);
    if (!s.map || !s.to.body) {
        return LS_FAIL_MEMORY(err, "a simulated kernel");
    }
    s.to.n_body = 0;
    for (int32_t i = 0; i < kernel->n_body; i++) {
        ls_ins ins = kernel->body[i];
        for (int j = 0; j < 3; j++) {
            ins.src[j] = ins.src[j] >= 0 ? s.map[ins.src[j]] : ins.src[j];
        }
        if (is_spoiled(kernel, &kernel->body[i])) {
            s.map[i] = spoiled(&s, ins, &kernel->body[i]);
        } else {
            s.map[i] = s.to.n_body;
            s.to.body[s.to.n_body++] = ins;
        }
    }
    *out_kernel = s.to;
    return LS_OK;
}
