/* The walk of legalisation: block structure, variables, leaves, and which part does which instruction. One pass over the
 * simplified kernel, instruction by instruction, into a builder; after the first failure the builder does nothing. */
#include "kir/legal_parts.h"
#include "base/half.h"
#include <string.h>

enum { DEPTH_MAX = 80 };

const char *ls_ktrait_name(int bit) {
    static const char *const names[] = {"int64",     "float64",    "bytes",    "halves",      "half casts",
                                        "unfused",   "subnormals", "division", "square root", "rounding",
                                        "int casts", "float bits", "fma",      "order",       "bfloat casts",
                                        "f64 casts"};
    return bit >= 0 && bit < (int)(sizeof names / sizeof *names) ? names[bit] : NULL;
}

void ls_legal_refuse(ls_legal *l, const char *why) {
    if (l->kb.status == LS_OK) {
        l->kb.status = LS_FAIL(l->kb.err, LS_ERR_UNSUPPORTED, "kernel %s: %s", l->old->name, why);
    }
}

ls_val ls_legal_bitcast(ls_legal *l, ls_val v, ls_dtype type) {
    const ls_ins *ins = v >= 0 && v < l->kb.kernel.n_body ? &l->kb.kernel.body[v] : NULL;
    if (ins && ins->op == LS_K_BITCAST && ls_legal_type(l, ins->src[0]) == type) {
        return ins->src[0];
    }
    return ls_kb_bitcast(&l->kb, v, type);
}

bool ls_legal_const(const ls_legal *l, ls_val v, int64_t *out_value) {
    if (v < 0 || v >= l->kb.kernel.n_body || l->kb.kernel.body[v].op != LS_K_CONST) {
        return false;
    }
    *out_value = l->kb.kernel.body[v].arg;
    return true;
}

bool ls_legal_within(ls_legal *l, ls_val old, ls_wide lo, ls_wide hi) {
    ls_range r = ls_ranges_of(l->plain, old);
    return r.lo <= r.hi && r.lo >= lo && r.hi <= hi;
}

bool ls_legal_fits_i32(ls_legal *l, ls_val old) {
    ls_range r = ls_ranges_of(l->ranges, old);
    return r.lo >= INT32_MIN && r.hi <= INT32_MAX;
}

ls_val ls_legal_join(ls_legal *l, const ls_val *v, int n) {
    ls_kb *k = &l->kb;
    if (n == 4) {
        ls_val low = ls_kb_join(k, v[0], v[1]);
        return ls_kb_join(k, low, ls_kb_join(k, v[2], v[3]));
    }
    return n == 2 ? ls_kb_join(k, v[0], v[1]) : v[0];
}

static bool is_wide(ls_dtype t) {
    return t == LS_I64 || t == LS_U64;
}

ls_lane ls_legal_form(ls_legal *l, ls_dtype t, ls_lane a, bool narrow) {
    if (!is_wide(t)) {
        return a;
    }
    return narrow ? ls_legal_one(ls_legal_low(l, a)) : ls_legal_wide(l, t, a);
}

ls_lane ls_legal_constant(ls_legal *l, ls_dtype t, uint64_t bits) {
    ls_kb *k = &l->kb;
    if (t == LS_BOOL || t == LS_F64) {
        return ls_legal_one(ls_kb_const_bits(k, t, bits));
    }
    if (ls_dtype_is_float(t)) {
        float half = t == LS_F16 ? ls_f16_to_f32((uint16_t)bits) : ls_bf16_to_f32((uint16_t)bits);
        uint32_t u = (uint32_t)bits;
        if (t != LS_F32) {
            memcpy(&u, &half, sizeof u);
        }
        return ls_legal_one(ls_kb_const_bits(k, ls_legal_has(l, LS_KT_FLOAT_BITS) ? LS_F32 : LS_U32, u));
    }
    if (!is_wide(t)) {
        return ls_legal_one(ls_kb_const_bits(k, ls_legal_register(l, t), bits));
    }
    int64_t v = (int64_t)bits;
    if (v >= (t == LS_U64 ? 0 : INT32_MIN) && v <= INT32_MAX) {
        return ls_legal_one(I((int32_t)v));
    }
    return ls_legal_merge(l, t, (ls_lane){U((uint32_t)bits), U((uint32_t)(bits >> 32))});
}

/* ---- blocks and variables ---- */

#define LEGAL(ID) static void legal_##ID(ls_legal *l, ls_val at, const ls_ins *ins)

static void facts(ls_legal *l, ls_val condition, bool truth) {
    if (!ls_ranges_assume(l->ranges, condition, truth) && l->kb.status == LS_OK) {
        l->kb.status = LS_FAIL_MEMORY(l->kb.err, "legalisation");
    }
}

/* An i32 loop must not pass the end of its type in its last step. */
LEGAL(LOOP) {
    ls_lane b[3];
    ls_range r[3];
    for (int i = 0; i < 3; i++) {
        b[i] = l->map[ins->src[i]][0];
        r[i] = ls_ranges_of(l->ranges, ins->src[i]);
    }
    if (ins->dtype == LS_I64) {
        bool fits = r[0].lo >= INT32_MIN && r[0].hi <= INT32_MAX && r[1].lo >= INT32_MIN &&
                    r[2].hi <= INT32_MAX && r[1].hi - 1 + r[2].hi <= INT32_MAX;
        if (!fits && !ls_legal_has(l, LS_KT_INT64)) {
            ls_legal_refuse(l, "a loop may count beyond 32 bits, and the device has no 64-bit integers");
        }
        for (int i = 0; i < 3; i++) {
            b[i] = ls_legal_form(l, LS_I64, b[i], fits);
        }
    }
    l->map[at][0] = ls_legal_one(ls_kb_loop(&l->kb, b[0].v, b[1].v, b[2].v, ins->flags));
}
LEGAL(END_LOOP) {
    (void)at, (void)ins;
    ls_kb_end_loop(&l->kb);
}
LEGAL(IF) {
    (void)at;
    ls_kb_if(&l->kb, l->map[ins->src[0]][0].v);
}
LEGAL(ELSE) {
    (void)at, (void)ins;
    ls_kb_else(&l->kb);
}
LEGAL(END_IF) {
    (void)at, (void)ins;
    ls_kb_end_if(&l->kb);
}
LEGAL(VAR) {
    for (int i = 0; i < ls_legal_lanes(ins); i++) {
        ls_lane init = ls_legal_form(l, (ls_dtype)ins->dtype, l->map[ins->src[0]][i], l->narrow[at]);
        init.v = ls_legal_opaque(l, (ls_dtype)ins->dtype, init.v);
        l->map[at][i] = ls_legal_one(ls_kb_var(&l->kb, init.v));
        if (init.hi != LS_VAL_NONE) {
            l->map[at][i].hi = ls_kb_var(&l->kb, init.hi);
        }
    }
}
LEGAL(GET) {
    for (int i = 0; i < ls_legal_lanes(ins); i++) {
        ls_lane var = l->map[ins->src[0]][i];
        l->map[at][i] = ls_legal_one(ls_kb_get(&l->kb, var.v));
        if (var.hi != LS_VAL_NONE) {
            l->map[at][i].hi = ls_kb_get(&l->kb, var.hi);
        }
    }
}
LEGAL(SET) {
    const ls_ins *value = &l->old->body[ins->src[1]];
    (void)at;
    for (int i = 0; i < ls_legal_lanes(value); i++) {
        ls_lane var = l->map[ins->src[0]][i];
        ls_lane v = ls_legal_form(l, (ls_dtype)value->dtype, l->map[ins->src[1]][i], l->narrow[ins->src[0]]);
        ls_kb_set(&l->kb, var.v, ls_legal_opaque(l, (ls_dtype)value->dtype, v.v));
        if (var.hi != LS_VAL_NONE) {
            ls_kb_set(&l->kb, var.hi, v.hi);
        }
    }
}

/* ---- leaves ---- */

LEGAL(CONST) {
    for (int i = 0; i < ins->lanes; i++) {
        l->map[at][i] = i ? l->map[at][0] : ls_legal_constant(l, (ls_dtype)ins->dtype, (uint64_t)ins->arg);
    }
}
LEGAL(PARAM) {
    ls_kb *k = &l->kb;
    ls_dtype t = (ls_dtype)ins->dtype;
    int p = l->param[ins->arg];
    ls_lane v = ls_legal_one(ls_kb_get_param(k, p));
    if (!ls_kb_failed(k) && l->params[p].word == 1 && p + 1 < k->kernel.n_params &&
        l->params[p + 1].word == 2) {
        v.hi = ls_kb_get_param(k, p + 1);
    }
    if (t == LS_BOOL) {
        v = ls_legal_one(NE(v.v, U(0)));
    } else if (t == LS_F16 || t == LS_BF16) {
        v = ls_legal_one(ls_legal_half_value(l, t, v.v));
    }
    l->map[at][0] = v;
}
static void legal_id(ls_legal *l, ls_val at, const ls_ins *ins) {
    ls_kb *k = &l->kb;
    ls_kop op = (ls_kop)ins->op;
    int axis = (int)ins->arg;
    l->map[at][0] = ls_legal_one(op == LS_K_GROUP_ID      ? ls_kb_group_id(k, axis)
                                 : op == LS_K_LOCAL_ID    ? ls_kb_local_id(k, axis)
                                 : op == LS_K_SUBGROUP_ID ? ls_kb_subgroup_id(k)
                                 : op == LS_K_LANE_ID     ? ls_kb_lane_id(k)
                                                          : ls_kb_subgroup_size(k));
}
#define legal_GROUP_ID legal_id
#define legal_LOCAL_ID legal_id
#define legal_SUBGROUP_ID legal_id
#define legal_LANE_ID legal_id
#define legal_SUBGROUP_SIZE legal_id

/* ---- threads together ---- */

LEGAL(BARRIER) {
    (void)at, (void)ins;
    ls_kb_barrier(&l->kb);
}

static ls_val shuffled(ls_legal *l, const ls_ins *ins, ls_val v) {
    ls_kb *k = &l->kb;
    bool truth = ls_legal_type(l, v) == LS_BOOL;
    ls_val word = truth ? SELECT(v, U(1), U(0)) : v;
    word = ins->op == LS_K_SHUFFLE ? ls_kb_shuffle(k, word, l->map[ins->src[1]][0].v)
                                   : ls_kb_shuffle_xor(k, word, (int)ins->arg);
    return truth ? NE(word, U(0)) : word;
}

/* Every lane in one form: ranges hold for each thread, and so do for what comes from another. */
LEGAL(SHUFFLE) {
    for (int i = 0; i < ins->lanes; i++) {
        ls_lane v = l->map[ins->src[0]][i];
        l->map[at][i] = ls_legal_one(shuffled(l, ins, v.v));
        if (v.hi != LS_VAL_NONE) {
            l->map[at][i].hi = shuffled(l, ins, v.hi);
        }
    }
}
#define legal_SHUFFLE_XOR legal_SHUFFLE

LEGAL(SUBGROUP_ADD) {
    ls_dtype t = (ls_dtype)ins->dtype;
    if (is_wide(t) && !ls_legal_has(l, LS_KT_INT64)) {
        ls_legal_refuse(l, "subgroup operations on 64-bit integers need a device that has them");
    }
    for (int i = 0; i < ins->lanes; i++) {
        ls_val v = ls_legal_form(l, t, l->map[ins->src[0]][i], false).v;
        bool real = ls_dtype_is_float(t) && t != LS_F64;
        v = ls_kb_subgroup(&l->kb, (ls_kop)ins->op, real ? ls_legal_float(l, v) : v, ins->flags);
        v = real ? ls_legal_held(l, v) : ls_dtype_is_int(t) ? ls_legal_wrap(l, t, v) : v;
        l->map[at][i] = ls_legal_one(t == LS_F16 || t == LS_BF16 ? ls_legal_round_half(l, t, v) : v);
    }
}
#define legal_SUBGROUP_MIN legal_SUBGROUP_ADD
#define legal_SUBGROUP_MAX legal_SUBGROUP_ADD

/* ---- pure ---- */

static ls_val bool_op(ls_legal *l, ls_kop op, ls_val a, ls_val b) {
    ls_kb *k = &l->kb;
    return op == LS_K_EQ   ? NOT(XOR(a, b))
           : op == LS_K_NE ? XOR(a, b)
           : op == LS_K_LT ? AND(NOT(a), b)
           : op == LS_K_LE ? OR(NOT(a), b)
                           : ls_kb_pure(k, op, a, ls_kops[op].sources > 1 ? b : LS_VAL_NONE, LS_VAL_NONE, 0);
}

static bool narrow_lane(const ls_legal *l, ls_lane a) {
    return a.hi == LS_VAL_NONE && ls_legal_type(l, a.v) == LS_I32;
}

/* The low word of the result depends on the low words of the operands alone. */
static bool low_words_suffice(ls_kop op) {
    static const bool table[LS_K_COUNT] = {
        [LS_K_ADD] = true, [LS_K_SUB] = true, [LS_K_MUL] = true, [LS_K_NEG] = true,
        [LS_K_AND] = true, [LS_K_OR] = true,  [LS_K_XOR] = true, [LS_K_NOT] = true,
    };
    return table[op];
}

static ls_lane wide_op(ls_legal *l, ls_val at, const ls_ins *ins, ls_dtype t, ls_lane a, ls_lane b) {
    ls_kop op = (ls_kop)ins->op;
    bool two = ls_kops[op].sources > 1, compares = ins->dtype == LS_BOOL;
    bool both = narrow_lane(l, a) && (!two || narrow_lane(l, b)),
         fits = !compares && ls_legal_fits_i32(l, at);
    bool counted = op == LS_K_POPCOUNT && !ls_legal_within(l, ins->src[0], 0, INT32_MAX);
    if ((compares && both) || (fits && !counted && (both || low_words_suffice(op)))) {
        ls_val x = ls_legal_low(l, a), y = two ? ls_legal_low(l, b) : LS_VAL_NONE;
        return ls_legal_one(ls_legal_int(l, ins, t, x, y, at));
    }
    a = ls_legal_wide(l, t, a);
    b = two ? ls_legal_wide(l, t, b) : b;
    ls_lane r = ls_legal_has(l, LS_KT_INT64) ? ls_legal_one(ls_legal_int(l, ins, t, a.v, b.v, at))
                                             : ls_legal_pair_op(l, op, t, a, b);
    return fits ? ls_legal_one(ls_legal_low(l, r)) : r;
}

/* f16 and bf16 compute in f32 and round once. Sums and products of f16 values are no subnormal f32 values, and products
 * are exact. */
static ls_val half_op(ls_legal *l, const ls_ins *ins, ls_dtype t, const ls_val s[3]) {
    static const bool rounds[LS_K_COUNT] = {
        [LS_K_ADD] = true, [LS_K_SUB] = true, [LS_K_MUL] = true,
        [LS_K_DIV] = true, [LS_K_FMA] = true, [LS_K_SQRT] = true,
    };
    ls_kop op = (ls_kop)ins->op;
    ls_val r;
    l->exact_small = t == LS_F16;
    if (op == LS_K_FMA && t == LS_F16) {
        ls_val product[3] = {ls_legal_arith32(l, LS_K_MUL, s, ins->flags), s[2], LS_VAL_NONE};
        r = ls_legal_arith32(l, LS_K_ADD, product, ins->flags);
    } else {
        r = ls_legal_arith32(l, op, s, ins->flags);
    }
    l->exact_small = false;
    return rounds[op] ? ls_legal_round_half(l, t, r) : r;
}

static ls_lane pure_lane(ls_legal *l, ls_val at, const ls_ins *ins, const ls_lane s[3]) {
    ls_kb *k = &l->kb;
    ls_kop op = (ls_kop)ins->op;
    ls_dtype from = (ls_dtype)l->old->body[ins->src[0]].dtype, to = (ls_dtype)ins->dtype;
    ls_val v[3] = {s[0].v, s[1].v, s[2].v};
    if (op == LS_K_CAST) {
        return ls_legal_cast(l, to, from, s[0], at);
    }
    if (op == LS_K_BITCAST) {
        return ls_legal_bitcast_lane(l, to, from, s[0], at);
    }
    if (op == LS_K_SELECT) {
        bool fits = is_wide(to) && ls_legal_fits_i32(l, at);
        ls_lane a = ls_legal_form(l, to, s[1], fits), b = ls_legal_form(l, to, s[2], fits);
        return a.hi != LS_VAL_NONE ? ls_legal_pair_select(l, v[0], a, b)
                                   : ls_legal_one(SELECT(v[0], a.v, b.v));
    }
    if (is_wide(from)) {
        return wide_op(l, at, ins, from, s[0], s[1]);
    }
    if (from == LS_BOOL) {
        return ls_legal_one(bool_op(l, op, v[0], v[1]));
    }
    if (from == LS_F64) {
        return ls_legal_one(ls_kb_pure(k, op, v[0], v[1], v[2], ins->flags));
    }
    if (from == LS_F16 || from == LS_BF16) {
        return ls_legal_one(half_op(l, ins, from, v));
    }
    return ls_legal_one(from == LS_F32 ? ls_legal_arith32(l, op, v, ins->flags)
                                       : ls_legal_int(l, ins, from, v[0], v[1], at));
}

static void legal_pure(ls_legal *l, ls_val at, const ls_ins *ins) {
    for (int i = 0; i < ins->lanes; i++) {
        ls_lane s[3] = {{LS_VAL_NONE, LS_VAL_NONE}, {LS_VAL_NONE, LS_VAL_NONE}, {LS_VAL_NONE, LS_VAL_NONE}};
        for (int j = 0; j < ls_kops[ins->op].sources; j++) {
            bool one_for_all = l->old->body[ins->src[j]].lanes == 1;
            s[j] = l->map[ins->src[j]][one_for_all ? 0 : i];
        }
        l->map[at][i] = pure_lane(l, at, ins, s);
    }
}

/* ---- lanes ---- */

LEGAL(SPLAT) {
    for (int i = 0; i < ins->lanes; i++) {
        l->map[at][i] = l->map[ins->src[0]][0];
    }
}
LEGAL(JOIN) {
    int half = ins->lanes / 2;
    for (int i = 0; i < ins->lanes; i++) {
        l->map[at][i] = l->map[ins->src[i >= half]][i % half];
    }
}
LEGAL(EXTRACT) {
    l->map[at][0] = l->map[ins->src[0]][ins->arg];
}
LEGAL(INSERT) {
    memcpy(l->map[at], l->map[ins->src[0]], sizeof l->map[at]);
    l->map[at][ins->arg] = l->map[ins->src[1]][0];
}

/* ---- fragments stay as they are ---- */

LEGAL(FRAG_FILL) {
    ls_kb *k = &l->kb;
    ls_dtype t = (ls_dtype)ins->dtype;
    ls_val v = l->map[ins->src[0]][0].v;
    if (t == LS_F16 || t == LS_BF16) {
        v = ls_legal_bitcast(l, ls_kb_cast(k, ls_legal_half_bits(l, t, v), LS_U16), t);
    } else if (t == LS_F32) {
        v = ls_legal_float(l, v);
    }
    l->map[at][0] = ls_legal_one(ls_kb_frag_fill(k, ls_kb_cast(k, v, t), ins->flags));
}

static ls_val frag_index(ls_legal *l, const ls_ins *ins, ls_val old) {
    return ls_kb_cast(&l->kb, ls_legal_index(l, (int)ins->arg, old), LS_I32);
}
LEGAL(FRAG_LOAD) {
    ls_val index = frag_index(l, ins, ins->src[0]), stride = frag_index(l, ins, ins->src[1]);
    l->map[at][0] = ls_legal_one(
        ls_kb_frag_load_as(&l->kb, (int)ins->arg, (ls_dtype)ins->dtype, index, stride, ins->flags));
}
LEGAL(FRAG_MMA) {
    ls_val a = l->map[ins->src[0]][0].v, b = l->map[ins->src[1]][0].v, c = l->map[ins->src[2]][0].v;
    l->map[at][0] = ls_legal_one(ls_kb_frag_mma(&l->kb, a, b, c));
}
LEGAL(FRAG_STORE) {
    (void)at;
    ls_val index = frag_index(l, ins, ins->src[0]), stride = frag_index(l, ins, ins->src[2]);
    ls_kb_frag_store(&l->kb, (int)ins->arg, index, l->map[ins->src[1]][0].v, stride, ins->flags);
}

LEGAL(PRODUCT) {
    (void)at;
    const ls_kproduct *p = &l->old->products[ins->arg];
    ls_val first[2];
    for (int i = 0; i < 2; i++) {
        first[i] = ls_kb_cast(&l->kb, ls_legal_index(l, p->side[i].mem, ins->src[i]), LS_I32);
    }
    ls_kb_product(&l->kb, p, first[0], first[1]);
}

#define legal_LOAD ls_legal_load
#define legal_STORE ls_legal_store
#define legal_ATOMIC_ADD ls_legal_atomic
#define legal_ATOMIC_MIN ls_legal_atomic
#define legal_ATOMIC_MAX ls_legal_atomic
#define legal_ATOMIC_OR ls_legal_atomic
#define LEGAL_CONTROL(ID) legal_##ID
#define LEGAL_LEAF(ID) legal_##ID
#define LEGAL_PURE(ID) legal_pure
#define LEGAL_VECTOR(ID) legal_##ID
#define LEGAL_MEMORY(ID) legal_##ID
#define LEGAL_GROUP(ID) legal_##ID
#define LEGAL_MATRIX(ID) legal_##ID
static void (*const legal_fns[LS_K_COUNT])(ls_legal *l, ls_val at, const ls_ins *ins) = {
#define INS(ID, name, class, rule, sources, doc) [LS_K_##ID] = LEGAL_##class(ID),
#include "kir/ins.def"
#undef INS
};

/* ---- the whole ---- */

static void declare_params(ls_legal *l) {
    ls_kb *k = &l->kb;
    bool hide = false;
    for (int i = 0; i < l->old->n_params; i++) {
        const ls_kparam *p = &l->old->params[i];
        ls_dtype t = p->dtype, reg = t;
        bool fits =
            is_wide(t) && p->lo >= (t == LS_U64 ? 0 : INT32_MIN) && p->hi <= INT32_MAX && p->lo <= p->hi;
        if (is_wide(t) && !fits && !ls_legal_has(l, LS_KT_INT64)) {
            const char *low = ls_arena_printf(k->arena, "%s_low", p->name);
            const char *high = ls_arena_printf(k->arena, "%s_high", p->name);
            if (!low || !high) {
                k->status = LS_FAIL_MEMORY(k->err, "a parameter's name");
                return;
            }
            l->param[i] = ls_kb_param(k, low, LS_U32, 0, UINT32_MAX);
            int next = ls_kb_param(k, high, LS_U32, 0, UINT32_MAX);
            if (next >= 0) {
                l->params[l->param[i]] = (ls_legal_param){i, 1};
                l->params[next] = (ls_legal_param){i, 2};
            }
            continue;
        }
        if (is_wide(t)) {
            reg = fits ? LS_I32 : t;
        } else if (t == LS_F32) {
            reg = ls_legal_has(l, LS_KT_FLOAT_BITS) ? LS_F32 : LS_U32;
        } else if (t != LS_F64) {
            reg = ls_dtype_is_signed_int(t) ? LS_I32 : LS_U32;
        }
        bool bits = ls_dtype_is_float(t) && reg == LS_U32;
        l->param[i] = ls_kb_param(k, p->name, reg, bits ? 0 : p->lo, bits ? UINT32_MAX : p->hi);
        if (l->param[i] >= 0) {
            l->params[l->param[i]] = (ls_legal_param){i, fits};
        }
    }
    for (ls_val at = 0; at < l->old->n_body; at++) {
        const ls_ins *ins = &l->old->body[at];
        hide = hide || (ls_legal_is_arithmetic((ls_kop)ins->op) && ls_dtype_is_float((ls_dtype)ins->dtype));
    }
    if (hide && !(ls_legal_has(l, LS_KT_UNFUSED32) && ls_legal_has(l, LS_KT_ORDER32))) {
        l->zero_param = ls_kb_param(k, "zero", LS_U32, 0, UINT32_MAX);
        if (l->zero_param >= 0) {
            l->params[l->zero_param] = (ls_legal_param){LS_VAL_NONE, 0};
        }
    }
}

static void declare_launch(ls_legal *l) {
    const ls_kernel *old = l->old;
    ls_kb_workgroup(&l->kb, old->workgroup[0], old->workgroup[1], old->workgroup[2]);
    for (int i = 0; i < 3; i++) {
        int p = old->grid[i].param < 0 ? LS_VAL_NONE : l->param[old->grid[i].param];
        if (p >= 0 && !ls_kb_failed(&l->kb) && l->params[p].word == 1 &&
            l->kb.kernel.params[p].dtype == LS_U32) {
            ls_legal_refuse(l, "a launch whose size may exceed 32 bits needs 64-bit integers");
        }
        ls_kb_grid(&l->kb, i, old->grid[i].scale, p, old->grid[i].divisor);
    }
}

/* 64-bit variables that hold i32 values, whoever sets them. */
static void find_narrow(ls_legal *l) {
    for (ls_val at = 0; at < l->old->n_body; at++) {
        const ls_ins *ins = &l->old->body[at];
        if (ins->op == LS_K_GET && is_wide((ls_dtype)ins->dtype) && ins->lanes == 1) {
            l->narrow[ins->src[0]] = ls_legal_within(l, at, INT32_MIN, INT32_MAX);
        }
    }
}

void ls_legal_ins(ls_legal *l, ls_val at) {
    const ls_ins *ins = &l->old->body[at];
    bool real = ins->dtype == LS_F64 || (ins->src[0] >= 0 && l->old->body[ins->src[0]].dtype == LS_F64);
    if (real && !ls_legal_has(l, LS_KT_FLOAT64)) {
        ls_legal_refuse(l, "the device has no f64");
    }
    if (!ls_kb_failed(&l->kb)) {
        legal_fns[ins->op](l, at, ins);
    }
}

static void walk(ls_legal *l) {
    int32_t marks[DEPTH_MAX];
    ls_val opener[DEPTH_MAX];
    int depth = 0;
    for (ls_val at = 0; at < l->old->n_body && !ls_kb_failed(&l->kb); at++) {
        at = ls_legal_window(l, at);
        if (at == l->old->n_body) {
            return;
        }
        const ls_ins *ins = &l->old->body[at];
        if ((ins->op == LS_K_IF || ins->op == LS_K_LOOP) && depth == DEPTH_MAX) {
            ls_legal_refuse(l, "blocks are nested too deeply");
            return;
        }
        ls_legal_ins(l, at);
        if (ins->op == LS_K_IF || ins->op == LS_K_LOOP) {
            opener[depth] = at;
            marks[depth++] = ls_ranges_mark(l->ranges);
            if (ins->op == LS_K_IF) {
                facts(l, ins->src[0], true);
            }
        } else if (ins->op == LS_K_ELSE) {
            ls_ranges_pop(l->ranges, marks[depth - 1]);
            facts(l, l->old->body[opener[depth - 1]].src[0], false);
        } else if (ins->op == LS_K_END_IF || ins->op == LS_K_END_LOOP) {
            ls_ranges_pop(l->ranges, marks[--depth]);
        }
    }
}

static ls_status run(ls_legal *l, ls_kernel *out_kernel) {
    const ls_kernel *old = l->old;
    ls_arena *arena = l->kb.arena;
    size_t n = (size_t)old->n_body + 1;
    l->ranges = ls_ranges_create(l->heap, old);
    l->plain = ls_ranges_create(l->heap, old);
    l->map = ls_alloc(l->heap, n * sizeof *l->map);
    l->narrow = ls_alloc_zeroed(l->heap, n * sizeof *l->narrow);
    l->mems = ls_alloc_zeroed(l->heap, ((size_t)old->n_mems + 1) * sizeof *l->mems);
    l->param = ls_alloc_zeroed(l->heap, ((size_t)old->n_params + 1) * sizeof *l->param);
    l->params = LS_ARENA_ARRAY(arena, ls_legal_param, 2 * old->n_params + 1);
    if (!l->ranges || !l->plain || !l->map || !l->narrow || !l->mems || !l->param || !l->params) {
        return LS_FAIL_MEMORY(l->kb.err, "legalisation");
    }
    memset(l->map, 0xff, n * sizeof *l->map); /* LS_VAL_NONE */
    find_narrow(l);
    declare_params(l);
    declare_launch(l);
    ls_legal_memories(l);
    walk(l);
    if (l->kb.status == LS_OK && (ls_ranges_failed(l->ranges) || ls_ranges_failed(l->plain))) {
        return LS_FAIL_MEMORY(l->kb.err, "legalisation");
    }
    return ls_kb_finish(&l->kb, out_kernel);
}

ls_status ls_kernel_legalize(ls_arena *arena, const ls_kernel *kernel, uint32_t traits, ls_kernel *out_kernel,
                             const ls_legal_param **out_params, ls_error *err) {
    ls_kernel simple; /* equal values shared and loops unrolled before what hides them stands between */
    LS_TRY(err, ls_kernel_simplify(arena, kernel, NULL, &simple, err));
    ls_legal l = {.heap = arena->heap, .old = &simple, .traits = traits, .zero_param = LS_VAL_NONE};
    ls_kb_init(&l.kb, arena, kernel->name, err);
    ls_status status = ls_kb_failed(&l.kb) ? l.kb.status : run(&l, out_kernel);
    ls_ranges_destroy(l.ranges);
    ls_ranges_destroy(l.plain);
    ls_free(l.heap, l.map);
    ls_free(l.heap, l.narrow);
    ls_free(l.heap, l.mems);
    ls_free(l.heap, l.param);
    if (status != LS_OK) {
        return LS_FORWARD(err, status);
    }
    *out_params = l.params;
    return LS_OK;
}
