/* Legal kernels on a hostile device: a copy of the kernel in which everything that a missing trait leaves to the device comes
 * out wrong (sums flush, products fuse, quotients are off), and everything that legal kernels must not do gives rubbish
 * (shifts by too much, divisions by zero, casts out of range). What legalisation made must not depend on any of it. */
#ifndef LOCKSTEP_TESTS_LEGAL_SUPPORT_H
#define LOCKSTEP_TESTS_LEGAL_SUPPORT_H

#include "kir/build.h"
#include "kir/legal.h"
#include <stdlib.h>
#include <string.h>

#define HOSTILE_MAX 400000
typedef struct hostile {
    ls_ins *body;
    int32_t n;
    uint32_t traits;
} hostile;

static ls_val hostile_push(hostile *h, ls_kop op, ls_dtype t, int lanes, ls_val a, ls_val b, ls_val c,
                           int64_t arg) {
    assert_true(h->n < HOSTILE_MAX);
    h->body[h->n] = (ls_ins){op, t, (uint8_t)lanes, 0, {a, b, c}, arg};
    return h->n++;
}
#define H_CONST(t, v)                                                                                        \
    hostile_push(h, LS_K_CONST, t, 1, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE,                                 \
                 (int64_t)ls_kir_wrap(t, (uint64_t)(v)))
#define H1(op, t, a) hostile_push(h, LS_K_##op, t, 1, a, LS_VAL_NONE, LS_VAL_NONE, 0)
#define H2(op, t, a, b) hostile_push(h, LS_K_##op, t, 1, a, b, LS_VAL_NONE, 0)
#define H3(op, t, a, b, c) hostile_push(h, LS_K_##op, t, 1, a, b, c, 0)

static ls_val hostile_flush(hostile *h, ls_val f) {
    ls_val u = H1(BITCAST, LS_U32, f), m = H2(AND, LS_U32, u, H_CONST(LS_U32, 0x7fffffff));
    ls_val zero = H2(AND, LS_U32, u, H_CONST(LS_U32, 0x80000000));
    return H1(BITCAST, LS_F32, H3(SELECT, LS_U32, H2(LT, LS_BOOL, m, H_CONST(LS_U32, 0x800000)), zero, u));
}

static ls_val hostile_spoil(hostile *h, ls_val good, ls_dtype t, ls_val v) { /* rubbish unless `good` */
    return H3(SELECT, t, good, v, H_CONST(t, 0x5a5a5a5a5a5a5a5a));
}

static ls_val hostile_bits_off(hostile *h, ls_val f) {
    return H1(BITCAST, LS_F32, H2(XOR, LS_U32, H1(BITCAST, LS_U32, f), H_CONST(LS_U32, 5)));
}

/* What a device that calculates with formulas would recognise: zero, a divisor, the result of other arithmetic. */
static bool hostile_recognises(const hostile *h, ls_kop op, ls_val v) {
    const ls_ins *ins = &h->body[v];
    ins = ins->op == LS_K_BITCAST ? &h->body[ins->src[0]] : ins;
    bool arithmetic =
        ins->op == LS_K_ADD || ins->op == LS_K_SUB || ins->op == LS_K_MUL || ins->op == LS_K_DIV;
    return (ins->op == LS_K_CONST && (op == LS_K_DIV || (ins->arg & 0x7f800000) == 0)) ||
           (arithmetic && ins->dtype == LS_F32);
}

/* Whether such a device can know anything of a value: neither what was loaded, nor what the run-time zero hides. `self`: a variable that
 * is looked at already. */
static bool hostile_knows(const hostile *h, ls_val v, ls_val self, int depth) {
    const ls_ins *ins = &h->body[v];
    ins = ins->op == LS_K_BITCAST ? &h->body[ins->src[0]] : ins;
    if (ins->op == LS_K_GET && ins->src[0] != self && depth > 0) {
        self = ins->src[0];
        for (int32_t i = self + 1; i < h->n; i++) {
            if (h->body[i].op == LS_K_SET && h->body[i].src[0] == self && hostile_knows(h, h->body[i].src[1], self, depth - 1)) {
                return true;
            }
        }
    }
    const ls_ins *zero = ins->op == LS_K_XOR ? &h->body[ins->src[1]] : NULL;
    return !(ins->op == LS_K_LOAD || ins->op == LS_K_PARAM || ins->op == LS_K_EXTRACT || ins->op == LS_K_GET || (zero && zero->op == LS_K_PARAM) ||
             (ins->op == LS_K_CONST && (ins->arg & 0x7fffffff)) ||
             (ins->op == LS_K_SELECT && depth && !hostile_knows(h, ins->src[1], self, depth - 1) &&
              !hostile_knows(h, ins->src[2], self, depth - 1)));
}

static ls_val hostile_zero(hostile *h, ls_val f) {
    ls_val u = H1(BITCAST, LS_U32, f), m = H2(AND, LS_U32, u, H_CONST(LS_U32, 0x7fffffff));
    ls_val turned = H2(XOR, LS_U32, u, H_CONST(LS_U32, 0x80000000));
    return H1(BITCAST, LS_F32, H3(SELECT, LS_U32, H2(EQ, LS_BOOL, m, H_CONST(LS_U32, 0)), turned, u));
}

/* The instruction `ins`, its sources mapped already. */
static ls_val hostile_plain(hostile *h, ls_ins ins) {
    ls_dtype t = (ls_dtype)ins.dtype, from = ins.src[0] >= 0 ? (ls_dtype)h->body[ins.src[0]].dtype : LS_BOOL;
    ls_kop op = (ls_kop)ins.op;
    bool is_int = ls_dtype_is_int(t), fast = ins.flags & LS_KF_FAST,
         f32 = t == LS_F32 && ins.lanes == 1 && !fast;
    bool sum = op == LS_K_ADD || op == LS_K_SUB;
    assert_true(h->n < HOSTILE_MAX);
    if (f32 && (sum || op == LS_K_MUL || op == LS_K_DIV) && !(h->traits & LS_KT_ORDER32) &&
        (ins.src[0] == ins.src[1] || hostile_recognises(h, op, ins.src[0]) ||
         hostile_recognises(h, op, ins.src[1]))) {
        h->body[h->n++] = ins;
        return hostile_bits_off(h, h->n - 1);
    }
    if (f32 && sum && !(h->traits & LS_KT_UNFUSED32)) {
        for (int side = 0; side < (op == LS_K_ADD ? 2 : 1); side++) {
            const ls_ins *p = &h->body[ins.src[side]];
            if (p->op == LS_K_MUL) { /* fused */
                ls_val other = ins.src[!side];
                other = op == LS_K_SUB ? H1(NEG, LS_F32, other) : other;
                return H3(FMA, LS_F32, p->src[0], p->src[1], other);
            }
        }
    }
    if (f32 && (sum || op == LS_K_MUL) && !(h->traits & LS_KT_SUBNORMAL32)) {
        ins.src[0] = hostile_flush(h, ins.src[0]);
        ins.src[1] = hostile_flush(h, ins.src[1]);
        h->body[h->n++] = ins;
        ls_val product = h->n - 1, r = hostile_flush(h, product);
        return r;
    }
    h->body[h->n++] = ins;
    ls_val r = h->n - 1, width = LS_VAL_NONE;
    if (is_int && ins.lanes == 1 && (op == LS_K_SHL || op == LS_K_SHR)) {
        width = H_CONST(t, ls_dtype_bits(t));
        ls_val good = H2(LT, LS_BOOL, ins.src[1], width);
        good = H2(AND, LS_BOOL, good, H2(LE, LS_BOOL, H_CONST(t, 0), ins.src[1]));
        return hostile_spoil(h, good, t, r);
    }
    if (is_int && ins.lanes == 1 && (op == LS_K_DIV || op == LS_K_REM)) {
        ls_val good = H2(NE, LS_BOOL, ins.src[1], H_CONST(t, 0));
        if (ls_dtype_is_signed_int(t)) {
            good = H2(AND, LS_BOOL, good, H2(NE, LS_BOOL, ins.src[1], H_CONST(t, -1)));
        }
        return hostile_spoil(h, good, t, r);
    }
    if (is_int && ins.lanes == 1 && op == LS_K_CAST && (from == LS_F32 || from == LS_F64)) {
        ls_val back = H1(CAST, from, r), whole = H1(TRUNC, from, ins.src[0]);
        ls_val good = H2(EQ, LS_BOOL, back, whole);
        return h->traits & LS_KT_CAST32 || from == LS_F64 ? hostile_spoil(h, good, t, r) : H_CONST(t, 77);
    }
    bool off = (op == LS_K_DIV && !(h->traits & LS_KT_DIV32)) ||
               (op == LS_K_SQRT && !(h->traits & LS_KT_SQRT32)) ||
               ((op == LS_K_FLOOR || op == LS_K_CEIL || op == LS_K_TRUNC || op == LS_K_RINT) &&
                !(h->traits & LS_KT_ROUND32)) ||
               (op == LS_K_FMA && !(h->traits & LS_KT_FMA32)) ||
               (op == LS_K_CAST && ls_dtype_is_int(from) && !(h->traits & LS_KT_CAST32));
    return f32 && off ? hostile_bits_off(h, r) : r;
}

/* A zero has any sign on a device that calculates with formulas, where it knows of an operand: (-a) + b is -(a - b) to it. */
static ls_val hostile_ins(hostile *h, ls_ins ins) {
    bool signs = ins.op == LS_K_ADD || ins.op == LS_K_SUB || ins.op == LS_K_MUL || ins.op == LS_K_FLOOR || ins.op == LS_K_CEIL ||
                 ins.op == LS_K_TRUNC || ins.op == LS_K_RINT;
    signs = signs && ins.dtype == LS_F32 && ins.lanes == 1 && !(ins.flags & LS_KF_FAST) && !(h->traits & LS_KT_ORDER32);
    bool knows = signs && (hostile_knows(h, ins.src[0], LS_VAL_NONE, 4) || (ls_kops[ins.op].sources > 1 && hostile_knows(h, ins.src[1], LS_VAL_NONE, 4)));
    ls_val r = hostile_plain(h, ins);
    return knows ? hostile_zero(h, r) : r;
}

/* Types that the target does not have, and instructions that it cannot be asked for. */
static void assert_legal(const ls_kernel *k, uint32_t traits) {
    for (int i = 0; i < k->n_mems; i++) {
        size_t size = ls_dtype_size(k->mems[i].dtype);
        assert_true(size != 1 || (traits & LS_KT_BYTES));
        assert_true(size != 2 || (traits & LS_KT_HALVES));
        assert_true(k->mems[i].dtype != LS_BOOL);
    }
    for (int32_t i = 0; i < k->n_body; i++) {
        const ls_ins *ins = &k->body[i];
        ls_dtype t = (ls_dtype)ins->dtype;
        bool result = ins->lanes != 0;
        assert_true(!result || t == LS_BOOL || ls_dtype_size(t) >= 4 || ins->op == LS_K_LOAD ||
                    ins->op == LS_K_CAST || ins->op == LS_K_BITCAST || ins->op == LS_K_CONST);
        assert_true(!result || (t != LS_I64 && t != LS_U64) || (traits & LS_KT_INT64));
        assert_true(!result || t != LS_F64 || (traits & LS_KT_FLOAT64));
        if (result && t == LS_F32 && !(traits & LS_KT_FLOAT_BITS)) {
            assert_true(ins->op != LS_K_LOAD && ins->op != LS_K_SELECT && ins->op != LS_K_VAR &&
                        ins->op != LS_K_MIN && ins->op != LS_K_MAX && ins->op != LS_K_NEG &&
                        ins->op != LS_K_ABS && ins->op != LS_K_CANON);
        }
        if (ins->op == LS_K_LT || ins->op == LS_K_LE || ins->op == LS_K_EQ || ins->op == LS_K_NE) {
            assert_true(k->body[ins->src[0]].dtype != LS_F32 || (traits & LS_KT_FLOAT_BITS));
        }
        assert_true(!(ins->op == LS_K_CAST && (t == LS_F16 || k->body[ins->src[0]].dtype == LS_F16)) ||
                    (traits & LS_KT_HALF_CAST));
        assert_true(!(ins->op == LS_K_CAST && t == LS_BF16) || (traits & LS_KT_BFLOAT_CAST));
    }
}

/* out->body is the caller's, to be freed. */
static void make_hostile(const ls_kernel *k, uint32_t traits, ls_kernel *out) {
    hostile h = {malloc(HOSTILE_MAX * sizeof(ls_ins)), 0, traits};
    ls_val *map = malloc(((size_t)k->n_body + 1) * sizeof *map);
    assert_non_null(h.body);
    assert_non_null(map);
    for (int32_t i = 0; i < k->n_body; i++) {
        ls_ins ins = k->body[i];
        for (int j = 0; j < 3; j++) {
            ins.src[j] = ins.src[j] < 0 ? LS_VAL_NONE : map[ins.src[j]];
        }
        map[i] = hostile_ins(&h, ins);
    }
    free(map);
    *out = *k;
    out->body = h.body;
    out->n_body = h.n;
}

/* The values of a legal kernel's parameters. */
static void legal_values(const ls_kernel *legal, const ls_legal_param *params, const int64_t *given,
                         int64_t *out) {
    for (int i = 0; i < legal->n_params; i++) {
        int64_t v = params[i].param < 0 ? 0 : given[params[i].param];
        v = params[i].word == 2 ? (int64_t)((uint64_t)v >> 32) : v;
        out[i] = (int64_t)ls_kir_wrap(legal->params[i].dtype, (uint64_t)v);
    }
}

#endif
