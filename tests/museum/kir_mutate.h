/* Mutants of kernel bodies: an operator at an instruction, in a variant. Included once, after kir/kir.h and cmocka. */
#ifndef LOCKSTEP_TESTS_KIR_MUTATE_H
#define LOCKSTEP_TESTS_KIR_MUTATE_H

enum { EXTRA = 8 }; /* instructions that a mutant has more, at most */

typedef enum operator{
    OPCODE,      /* another of its kind */
    IGNORE,      /* an operand stands for the result */
    EXCHANGE,    /* two operands change places */
    CONSTANT,    /* an operand that is one: one more, one less; a float's next */
    PLACE,       /* an access one element (or vector) further */
    PRED_DROP,   /* an access, or a block, that nothing holds back */
    PRED_NEGATE, /* a predicate, or a condition, the other way round */
    DROP,        /* a store, a set, a barrier, an atomic that is left out */
    BOUND,       /* a loop that begins one later, ends one earlier, steps twice as far */
    IDENTITY,    /* another axis of a thread's place; 0 for it; another lane */
    GRID,        /* a workgroup less */
    OPERATORS
}
operator;
static const char *const operator_names[OPERATORS] = {"opcode", "ignore",    "exchange",    "constant",
                                                      "place",  "pred-drop", "pred-negate", "drop",
                                                      "bound",  "identity",  "grid"};

/* ---- one mutant ---- */

typedef struct mutant {
    ls_kernel kernel;
    bool valued; /* it is the value `old` that another replaces */
    ls_ins
        other; /* valued: the other one, by the right kernel's numbers; op LS_K_COUNT: the instruction `same` */
    ls_val same, old;
    bool truth; /* the other is the constant true */
    bool dropped;
    int variant;
    int const_src; /* or the other's source that is the constant const_bits; -1 */
    int64_t const_bits;
} mutant;

typedef struct edit {
    const ls_kernel *from;
    ls_ins *body;
    int32_t at, n_extra;
} edit;

static ls_val put(edit *e, ls_kop op, ls_dtype dtype, ls_val a, ls_val b, int64_t arg) {
    assert_true(e->n_extra < EXTRA);
    e->body[e->at + e->n_extra] = (ls_ins){(uint8_t)op, (uint8_t)dtype, 1, 0, {a, b, LS_VAL_NONE}, arg};
    return e->at + e->n_extra++;
}

/* The rest of the body behind what was put, and where the instruction now is. */
static int32_t close_edit(edit *e, ls_kernel *out) {
    const ls_kernel *k = e->from;
    for (int32_t i = e->at; i < k->n_body; i++) {
        ls_ins ins = k->body[i];
        for (int s = 0; s < 3; s++) {
            ins.src[s] += ins.src[s] >= e->at ? e->n_extra : 0;
        }
        e->body[i + e->n_extra] = ins;
    }
    *out = *k;
    out->body = e->body;
    out->n_body = k->n_body + e->n_extra;
    return e->at + e->n_extra;
}

static edit open_edit(ls_arena *a, const ls_kernel *k, int32_t at) {
    edit e = {k, LS_ARENA_ARRAY(a, ls_ins, k->n_body + EXTRA), at, 0};
    assert_non_null(e.body);
    memcpy(e.body, k->body, (size_t)at * sizeof *e.body);
    return e;
}

static ls_kop neighbour(const ls_ins *ins, int variant) {
    static const struct {
        ls_kop from, to;
    } pairs[] = {
        {LS_K_ADD, LS_K_SUB},    {LS_K_SUB, LS_K_ADD},    {LS_K_MUL, LS_K_ADD},    {LS_K_DIV, LS_K_MUL},
        {LS_K_REM, LS_K_DIV},    {LS_K_MIN, LS_K_MAX},    {LS_K_MAX, LS_K_MIN},    {LS_K_LT, LS_K_LE},
        {LS_K_LE, LS_K_LT},      {LS_K_EQ, LS_K_NE},      {LS_K_NE, LS_K_EQ},      {LS_K_AND, LS_K_OR},
        {LS_K_OR, LS_K_AND},     {LS_K_XOR, LS_K_OR},     {LS_K_SHL, LS_K_SHR},    {LS_K_SHR, LS_K_SHL},
        {LS_K_FLOOR, LS_K_CEIL}, {LS_K_CEIL, LS_K_FLOOR}, {LS_K_TRUNC, LS_K_RINT}, {LS_K_RINT, LS_K_TRUNC},
        {LS_K_OR, LS_K_XOR},     {LS_K_LT, LS_K_EQ},      {LS_K_ADD, LS_K_MUL}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (pairs[i].from == (ls_kop)ins->op && variant-- == 0) {
            return pairs[i].to;
        }
    }
    return LS_K_COUNT;
}

/* All uses of `at` become uses of another. */
static void replace(ls_kernel *k, ls_val at, ls_val by) {
    for (int32_t i = at + 1; i < k->n_body; i++) {
        for (int s = 0; s < 3; s++) {
            k->body[i].src[s] = k->body[i].src[s] == at ? by : k->body[i].src[s];
        }
    }
}

static bool same_type(const ls_kernel *k, ls_val a, ls_val b) {
    return k->body[a].dtype == k->body[b].dtype && k->body[a].lanes == k->body[b].lanes &&
           k->body[a].lanes != LS_LANES_FRAG;
}

/* Each operand that is a constant, by both ways. */
static bool change_constant(ls_arena *a, const ls_kernel *k, int32_t at, int variant, mutant *m) {
    const ls_ins *ins = &k->body[at];
    int s = variant / 2, down = variant % 2;
    if (s >= ls_kops[ins->op].sources) {
        return false;
    }
    m->const_src = -1;
    m->valued = false;
    if (ins->src[s] < 0 || k->body[ins->src[s]].op != LS_K_CONST) {
        return true; /* no mutant, but there may be more */
    }
    const ls_ins *old = &k->body[ins->src[s]];
    ls_dtype t = (ls_dtype)old->dtype;
    bool integer = ls_dtype_is_int(t);
    if (!integer && down) {
        return true;
    }
    m->const_src = s;
    m->const_bits =
        integer ? (int64_t)ls_kir_wrap(t, (uint64_t)old->arg + (down ? UINT64_MAX : 1)) : old->arg ^ 1;
    edit e = open_edit(a, k, at);
    ls_val now = put(&e, LS_K_CONST, t, LS_VAL_NONE, LS_VAL_NONE, m->const_bits);
    e.body[now].lanes = old->lanes;
    int32_t moved = close_edit(&e, &m->kernel);
    e.body[moved].src[s] = now;
    m->valued = true;
    return true;
}

/* Operators that change one instruction where it is. */
static bool change(operator op, int variant, ls_ins *ins, const ls_kernel *k) {
    ls_kclass kind = ls_kops[ins->op].kind;
    switch (op) {
    case OPCODE:
        ins->op = (uint8_t)(kind == LS_KC_PURE ? neighbour(ins, variant) : LS_K_COUNT);
        return ins->op != LS_K_COUNT;
    case EXCHANGE: {
        int a = ins->op == LS_K_SELECT, b = a + 1;
        bool order = ins->op == LS_K_SUB || ins->op == LS_K_DIV || ins->op == LS_K_REM ||
                     ins->op == LS_K_LT || ins->op == LS_K_LE || ins->op == LS_K_SHL || ins->op == LS_K_SHR ||
                     ins->op == LS_K_SELECT || ins->op == LS_K_JOIN;
        ls_val x = ins->src[a];
        ins->src[a] = ins->src[b];
        ins->src[b] = x;
        return order && variant == 0 && ins->src[a] != ins->src[b] && same_type(k, ins->src[a], ins->src[b]);
    }
    case IDENTITY:
        if (ins->op == LS_K_EXTRACT || ins->op == LS_K_INSERT) {
            int lanes = ins->op == LS_K_INSERT ? ins->lanes : k->body[ins->src[0]].lanes;
            ins->arg = (ins->arg + 1) % lanes;
            return variant == 0;
        }
        if (ins->op == LS_K_SHUFFLE_XOR) {
            ins->arg ^= 1;
            return variant == 0;
        }
        if (ins->op == LS_K_GROUP_ID || ins->op == LS_K_LOCAL_ID || ins->op == LS_K_LANE_ID ||
            ins->op == LS_K_SUBGROUP_ID) {
            bool axis = variant == 0 && (ins->op == LS_K_GROUP_ID || ins->op == LS_K_LOCAL_ID);
            ins->arg = axis ? (ins->arg + 1) % 3 : 0;
            ins->op = axis ? ins->op : (uint8_t)LS_K_CONST;
            return variant < 2;
        }
        return false;
    default:
        return false;
    }
}

static ls_val *pred_of(ls_ins *ins) {
    switch ((ls_kop)ins->op) {
    case LS_K_LOAD:
        return &ins->src[1];
    case LS_K_STORE:
    case LS_K_ATOMIC_ADD:
    case LS_K_ATOMIC_MIN:
    case LS_K_ATOMIC_MAX:
    case LS_K_ATOMIC_OR:
        return &ins->src[2];
    case LS_K_IF:
        return &ins->src[0];
    default:
        return NULL;
    }
}

static bool change_pred(ls_arena *a, const ls_kernel *k, int32_t at, bool negate, mutant *m) {
    ls_ins here = k->body[at];
    const ls_val *old = pred_of(&here);
    if (!old || *old == LS_VAL_NONE) {
        return false;
    }
    edit e = open_edit(a, k, at);
    ls_val now = negate ? put(&e, LS_K_NOT, LS_BOOL, *old, LS_VAL_NONE, 0)
                        : put(&e, LS_K_CONST, LS_BOOL, LS_VAL_NONE, LS_VAL_NONE, 1);
    int32_t moved = close_edit(&e, &m->kernel);
    *pred_of(&e.body[moved]) = now;
    m->valued = m->truth = !negate;
    m->old = *old;
    return true;
}

static bool change_place(ls_arena *a, const ls_kernel *k, int32_t at, mutant *m) {
    const ls_ins *ins = &k->body[at];
    if (ls_kops[ins->op].kind != LS_KC_MEMORY) {
        return false;
    }
    edit e = open_edit(a, k, at);
    ls_dtype type = (ls_dtype)k->body[ins->src[0]].dtype;
    int lanes = ins->op == LS_K_STORE ? k->body[ins->src[1]].lanes : ins->lanes;
    ls_val by = put(&e, LS_K_CONST, type, LS_VAL_NONE, LS_VAL_NONE, lanes);
    ls_val next = put(&e, LS_K_ADD, type, ins->src[0], by, 0);
    int32_t moved = close_edit(&e, &m->kernel);
    e.body[moved].src[0] = next;
    return true;
}

static bool change_bound(ls_arena *a, const ls_kernel *k, int32_t at, int variant, mutant *m) {
    const ls_ins *ins = &k->body[at];
    if (ins->op != LS_K_LOOP || variant > 2) {
        return false;
    }
    edit e = open_edit(a, k, at);
    ls_dtype type = (ls_dtype)ins->dtype;
    ls_val one = put(&e, LS_K_CONST, type, LS_VAL_NONE, LS_VAL_NONE, 1);
    ls_val now = variant == 2 ? put(&e, LS_K_ADD, type, ins->src[2], ins->src[2], 0)
                              : put(&e, variant ? LS_K_SUB : LS_K_ADD, type, ins->src[variant], one, 0);
    int32_t moved = close_edit(&e, &m->kernel);
    e.body[moved].src[variant] = now;
    return true;
}

static bool is_dropped(const ls_ins *ins) {
    return ins->op == LS_K_STORE || ins->op == LS_K_SET || ins->op == LS_K_BARRIER;
}

/* Variant `variant` of an operator at instruction `at`; false: there is none. */
static bool mutate(ls_arena *a, const ls_kernel *k, operator op, int32_t at, int variant, mutant *m) {
    *m = (mutant){.kernel = *k,
                  .other = k->body[at],
                  .same = LS_VAL_NONE,
                  .old = at,
                  .const_src = -1,
                  .variant = variant};
    ls_ins ins = k->body[at];
    if (op == PRED_DROP || op == PRED_NEGATE) {
        return variant == 0 && change_pred(a, k, at, op == PRED_NEGATE, m);
    }
    if (op == PLACE) {
        return variant == 0 && change_place(a, k, at, m);
    }
    if (op == CONSTANT) {
        return change_constant(a, k, at, variant, m);
    }
    if (op == BOUND) {
        return change_bound(a, k, at, variant, m);
    }
    if (op == GRID) {
        bool more = at < 3 && ls_kgrid_size(k, at, NULL) > 1 && k->grid[at].param < 0 && variant == 0;
        if (more) {
            m->kernel.grid[at] = (ls_kgrid){ls_kgrid_size(k, at, NULL) - 1, 1, LS_VAL_NONE};
        }
        return more;
    }
    m->kernel.body = ls_arena_copy(a, k->body, (size_t)k->n_body * sizeof ins);
    assert_non_null(m->kernel.body);
    if (op == DROP) {
        m->kernel.body[at] = (ls_ins){LS_K_CONST, LS_BOOL, 1, 0, {LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE}, 0};
        m->dropped = true;
        return variant == 0 && is_dropped(&ins);
    }
    if (op == IGNORE) {
        bool pure = ls_kops[ins.op].kind == LS_KC_PURE || ls_kops[ins.op].kind == LS_KC_GROUP ||
                    ins.op == LS_K_INSERT;
        if (!pure || variant >= ls_kops[ins.op].sources || ins.src[variant] < 0) {
            return false;
        }
        m->same = same_type(k, at, ins.src[variant]) ? ins.src[variant] : LS_VAL_NONE;
        m->valued = m->same >= 0;
        if (m->valued) {
            replace(&m->kernel, at, m->same);
        }
        return true; /* the same kernel where it does not apply: not counted */
    }
    m->valued = true;
    bool changed = change(op, variant, &m->kernel.body[at], k);
    m->other = m->kernel.body[at];
    return changed;
}

#endif
