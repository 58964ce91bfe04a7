/* Proofs that a mutant of a kernel is the same kernel: by its text, by a run of the right kernel with shadows of what the mutant
 * would have otherwise, by structure. Included once, after kir_mutate.h. */
#ifndef LOCKSTEP_TESTS_KIR_SHADOW_H
#define LOCKSTEP_TESTS_KIR_SHADOW_H

static char *text_of(ls_arena *a, const ls_kernel *k) {
    ls_kernel simple;
    ls_text text;
    ls_text_init(&text, a->heap);
    if (ls_kernel_simplify(a, k, NULL, &simple, NULL) == LS_OK) {
        ls_kernel_print(&text, &simple);
    }
    char *copy = ls_arena_copy(a, text.data ? text.data : "", text.len + 1);
    ls_text_free(&text);
    assert_non_null(copy);
    return copy;
}

enum { DEPTH = 64 };

/* The IFs around an instruction, innermost last, and how many of them decide by what is in memory. */
typedef struct branches {
    bool by_memory[DEPTH];
    int n, hidden;
} branches;

static void enter_or_leave(branches *b, const ls_kernel *k, int32_t at, const bool *places) {
    const ls_ins *ins = &k->body[at];
    if (ins->op == LS_K_IF) {
        assert_true(b->n < DEPTH);
        b->by_memory[b->n] = !places[ins->src[0]];
        b->hidden += b->by_memory[b->n++];
    } else if (ins->op == LS_K_END_IF) {
        b->hidden -= b->by_memory[--b->n];
    }
}

/* Which values are the same whatever is in memory: all that can be, less those that depend on another. */
static void find_places(const ls_kernel *k, bool *places) {
    for (int32_t i = 0; i < k->n_body; i++) {
        ls_kop op = (ls_kop)k->body[i].op;
        ls_kclass kind = ls_kops[op].kind;
        places[i] = (kind == LS_KC_LEAF && op != LS_K_PARAM) || kind == LS_KC_PURE || kind == LS_KC_VECTOR ||
                    op == LS_K_LOOP || op == LS_K_GET || op == LS_K_VAR;
    }
    for (bool changed = true; changed;) {
        branches around = {.n = 0};
        changed = false;
        for (int32_t i = 0; i < k->n_body; i++) {
            const ls_ins *ins = &k->body[i];
            enter_or_leave(&around, k, i, places);
            ls_val of = ins->op == LS_K_SET ? ins->src[0] : i;
            bool yes = places[of] && !(ins->op == LS_K_SET && around.hidden);
            for (int s = 0; s < ls_kops[ins->op].sources && yes; s++) {
                yes = ins->src[s] < 0 || places[ins->src[s]];
            }
            changed = changed || yes != places[of];
            places[of] = yes;
        }
    }
}

/* The right kernel with a shadow: each value that the mutant may give otherwise carries a truth value, whether it did. A word more
 * tells, by not being 0, that such a value was stored, or decided where. What holds it back are conditions that depend on places
 * alone, so that what one run shows holds for all inputs: both branches of an IF that decides by what is in memory are run, and what
 * may have been otherwise before it stays so. */
typedef struct shadow {
    ls_arena *a;
    const ls_kernel *k;
    const mutant *m;
    int32_t at;
    ls_ins *body;
    int32_t n, cap;
    ls_val *map, *other, *taint; /* by instruction of the right kernel; VARs have their shadow in taint */
    bool *places; /* by instruction: whether its value is the same whatever is in memory */
    branches around;
    int32_t word;
    bool drops;    /* the instruction does nothing */
    int32_t *twin; /* by memory: of a shared array, the array of its elements' shadows */
} shadow;

static ls_val push(shadow *s, ls_kop op, ls_dtype t, ls_val x, ls_val y, ls_val z, int64_t arg) {
    assert_true(s->n < s->cap);
    s->body[s->n] = (ls_ins){(uint8_t)op, (uint8_t)t, (uint8_t)(op == LS_K_SET || op == LS_K_END_IF ? 0 : 1), 0, {x, y, z}, arg};
    return s->n++;
}
static ls_val truth(shadow *s, bool v) {
    return push(s, LS_K_CONST, LS_BOOL, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, v);
}
static ls_val both(shadow *s, ls_val x, ls_val y) { /* LS_VAL_NONE is false */
    return x < 0 || y < 0 ? LS_VAL_NONE : push(s, LS_K_AND, LS_BOOL, x, y, LS_VAL_NONE, 0);
}
static ls_val either(shadow *s, ls_val x, ls_val y) {
    return x < 0 ? y : y < 0 ? x : push(s, LS_K_OR, LS_BOOL, x, y, LS_VAL_NONE, 0);
}
static ls_val inverse(shadow *s, ls_val x) {
    return push(s, LS_K_NOT, LS_BOOL, x, LS_VAL_NONE, LS_VAL_NONE, 0);
}

static void tell(shadow *s, ls_val when) {
    if (when >= 0) {
        ls_val zero = push(s, LS_K_CONST, LS_I32, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, 0);
        ls_val one = push(s, LS_K_CONST, LS_U32, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, 1);
        (void)push(s, LS_K_ATOMIC_OR, LS_U32, zero, one, when, s->word);
    }
}

/* Whether two values differ; of what is not a scalar: they may. */
static ls_val unequal(shadow *s, ls_val x, ls_val y) {
    const ls_ins *ins = &s->body[x];
    if (ins->lanes != 1 || ls_dtype_is_float((ls_dtype)ins->dtype)) {
        return truth(s, true);
    }
    return push(s, ins->dtype == LS_BOOL ? LS_K_XOR : LS_K_NE, LS_BOOL, x, y, LS_VAL_NONE, 0);
}

/* The instruction as the mutant has it, where it is a value. */
static ls_val mutated(shadow *s) {
    const mutant *m = s->m;
    if (m->same >= 0) {
        return s->map[m->same];
    }
    ls_ins ins = m->other;
    for (int i = 0; i < 3; i++) {
        ins.src[i] = ins.src[i] >= 0 ? s->map[ins.src[i]] : ins.src[i];
    }
    if (m->const_src >= 0) {
        const ls_ins *was = &s->body[ins.src[m->const_src]];
        ins.src[m->const_src] =
            push(s, LS_K_CONST, (ls_dtype)was->dtype, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, m->const_bits);
        s->body[ins.src[m->const_src]].lanes = was->lanes;
    }
    s->body[s->n] = ins;
    return s->n++;
}

static bool movable(const ls_ins *ins) {
    return ls_kir_movable(ins);
}

static void shadow_pure(shadow *s, int32_t i) {
    const ls_ins *ins = &s->k->body[i];
    ls_val t[3], any = LS_VAL_NONE;
    bool cloned = ins->lanes == 1 && s->places[i];
    for (int n = 0; n < 3; n++) {
        bool used = n < ls_kops[ins->op].sources && ins->src[n] >= 0;
        t[n] = used ? s->taint[ins->src[n]] : LS_VAL_NONE;
        cloned = cloned && (t[n] < 0 || s->other[ins->src[n]] >= 0);
    }
    if (t[0] < 0 && t[1] < 0 && t[2] < 0) {
        return;
    }
    if (cloned) {
        ls_ins copy = s->body[s->map[i]];
        for (int n = 0; n < 3; n++) {
            copy.src[n] = t[n] >= 0 ? s->other[ins->src[n]] : copy.src[n];
        }
        s->body[s->n] = copy;
        s->other[i] = s->n++;
        s->taint[i] = unequal(s, s->map[i], s->other[i]);
        return;
    }
    bool fixed[2];
    for (int n = 0; n < 2; n++) {
        fixed[n] = ins->src[n] >= 0 && t[n] < 0 && s->places[ins->src[n]];
    }
    bool logic = ins->dtype == LS_BOOL && ins->lanes == 1 && (ins->op == LS_K_AND || ins->op == LS_K_OR);
    bool scalar = ins->op == LS_K_SELECT && s->k->body[ins->src[0]].lanes == 1 && s->places[ins->src[0]];
    if (scalar && (t[0] < 0 || s->other[ins->src[0]] >= 0)) { /* where the condition itself is right */
        ls_val yes = s->map[ins->src[0]], no = inverse(s, yes);
        any = either(s, t[0], either(s, both(s, yes, t[1]), both(s, no, t[2])));
    } else if (logic && (fixed[0] || fixed[1])) {
        ls_val side = s->map[ins->src[fixed[0] ? 0 : 1]];
        side = ins->op == LS_K_OR ? inverse(s, side) : side;
        any = both(s, side, t[fixed[0] ? 1 : 0]);
    } else {
        any = either(s, t[0], either(s, t[1], t[2]));
    }
    s->taint[i] = any;
}

static ls_val taint_of(const shadow *s, ls_val v) {
    return v >= 0 ? s->taint[v] : LS_VAL_NONE;
}

/* A store to a shared array: its elements' shadows go beside them. */
static void store_twin(shadow *s, const ls_ins *ins, ls_val taint, ls_val pred) {
    int lanes = s->body[ins->src[1]].lanes;
    ls_val yes = push(s, LS_K_CONST, LS_U32, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, 1);
    ls_val no = push(s, LS_K_CONST, LS_U32, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, 0);
    if (s->around.hidden) { /* an element may have kept what it had */
        pred = pred < 0 ? taint : both(s, taint, pred);
        if (pred < 0) {
            return;
        }
    }
    ls_val x = taint >= 0 ? push(s, LS_K_SELECT, LS_U32, taint, yes, no, 0) : no;
    if (lanes > 1) {
        x = push(s, LS_K_SPLAT, LS_U32, x, LS_VAL_NONE, LS_VAL_NONE, 0);
        s->body[x].lanes = (uint8_t)lanes;
    }
    ls_val at = push(s, LS_K_STORE, LS_U32, ins->src[0], x, pred, s->twin[ins->arg]);
    s->body[at].lanes = 0;
    s->body[at].dtype = ins->dtype == s->body[ins->src[1]].dtype ? LS_U32 : ins->dtype;
}

static ls_val load_twin(shadow *s, const ls_ins *ins, ls_val pred) {
    ls_val other = LS_VAL_NONE, any = LS_VAL_NONE,
           zero = push(s, LS_K_CONST, LS_U32, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, 0);
    if (pred >= 0) {
        other = push(s, LS_K_CONST, LS_U32, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, 0);
        s->body[other].lanes = ins->lanes;
    }
    ls_val x = push(s, LS_K_LOAD, LS_U32, ins->src[0], pred, other, s->twin[ins->arg]);
    s->body[x].lanes = ins->lanes;
    for (int lane = 0; lane < ins->lanes; lane++) {
        ls_val one = ins->lanes == 1 ? x : push(s, LS_K_EXTRACT, LS_U32, x, LS_VAL_NONE, LS_VAL_NONE, lane);
        any = either(s, any, push(s, LS_K_NE, LS_BOOL, one, zero, LS_VAL_NONE, 0));
    }
    return any;
}

static bool loop_is_known(const shadow *s, int32_t i) {
    bool known = true, touched = i == s->at;
    for (int j = 0; j < 3; j++) {
        ls_val v = s->k->body[i].src[j];
        known = known && (s->taint[v] < 0 || s->other[v] >= 0);
        touched = touched || s->taint[v] >= 0;
    }
    return known && touched;
}

/* A loop whose bounds depend on places: whether it runs otherwise. */
static ls_val loop_differs(shadow *s, int32_t i) {
    const ls_ins *ins = &s->k->body[i];
    const mutant *m = s->m;
    ls_dtype t = (ls_dtype)ins->dtype;
    ls_val one = push(s, LS_K_CONST, t, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, 1),
           zero = push(s, LS_K_CONST, t, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, 0);
    ls_val trips[2], lo[2], step[2];
    for (int n = 0; n < 2; n++) {
        ls_val v[3];
        for (int j = 0; j < 3; j++) {
            v[j] = s->map[ins->src[j]];
            if (n && taint_of(s, ins->src[j]) >= 0) {
                v[j] = s->other[ins->src[j]];
            } else if (n && i == s->at && m->const_src == j) {
                v[j] = push(s, LS_K_CONST, t, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, m->const_bits);
            } else if (n && i == s->at && m->const_src < 0 && m->variant == j) {
                v[j] = push(s, j == 1 ? LS_K_SUB : LS_K_ADD, t, v[j], j == 2 ? v[j] : one, LS_VAL_NONE, 0);
            }
        }
        ls_val reach = push(s, LS_K_ADD, t, push(s, LS_K_SUB, t, v[1], v[0], LS_VAL_NONE, 0),
                            push(s, LS_K_SUB, t, v[2], one, LS_VAL_NONE, 0), LS_VAL_NONE, 0);
        trips[n] =
            push(s, LS_K_MAX, t, push(s, LS_K_DIV, t, reach, v[2], LS_VAL_NONE, 0), zero, LS_VAL_NONE, 0);
        lo[n] = v[0];
        step[n] = v[2];
    }
    ls_val some = push(s, LS_K_LT, LS_BOOL, zero, trips[0], LS_VAL_NONE, 0),
           more = push(s, LS_K_LT, LS_BOOL, one, trips[0], LS_VAL_NONE, 0);
    ls_val differ =
        either(s, both(s, some, unequal(s, lo[0], lo[1])), both(s, more, unequal(s, step[0], step[1])));
    return either(s, unequal(s, trips[0], trips[1]), differ);
}

static bool shadow_ins(shadow *s, int32_t i) {
    ls_ins ins = s->k->body[i];
    const ls_val *src = s->k->body[i].src;
    bool here = i == s->at;
    ls_val loose =
        here && s->m->truth ? inverse(s, s->map[s->m->old]) : LS_VAL_NONE; /* a predicate that was dropped */
    ls_val all = here && !s->m->valued ? truth(s, true) : LS_VAL_NONE;
    if (here && s->m->const_src >= 0 && !movable(&ins)) { /* of an access, or a loop */
        all = truth(s, true);
    }
    for (int n = 0; n < 3; n++) {
        ins.src[n] = ins.src[n] >= 0 ? s->map[ins.src[n]] : ins.src[n];
    }
    ls_val *pred = pred_of(&ins), p = pred ? *pred : LS_VAL_NONE,
           tp = pred && ins.op != LS_K_IF ? taint_of(s, src[pred - ins.src]) : LS_VAL_NONE;
    ls_kclass kind = ls_kops[ins.op].kind;
    if (kind == LS_KC_MEMORY && ins.op != LS_K_LOAD) {
        ls_val what = either(s, either(s, taint_of(s, src[0]), taint_of(s, src[1])), all);
        what = p >= 0 && tp < 0 && loose < 0 ? both(s, what, p) : what;
        bool twin = ins.op == LS_K_STORE && s->twin[ins.arg] >= 0;
        if (twin && taint_of(s, src[0]) < 0 && tp < 0 && loose < 0 && (all < 0 || s->drops)) {
            store_twin(s, &ins, what, p);
        } else {
            tell(s, either(s, either(s, what, tp), loose));
            if (twin) {
                store_twin(s, &ins, LS_VAL_NONE, p);
            }
        }
    } else if (ins.op == LS_K_LOOP && s->places[i] && loop_is_known(s, i)) {
        tell(s, loop_differs(s, i));
    } else if (ins.op == LS_K_IF || ins.op == LS_K_LOOP || kind == LS_KC_GROUP) {
        tell(s, either(s, either(s, taint_of(s, src[0]), taint_of(s, src[1])),
                       either(s, taint_of(s, src[2]), either(s, loose, all))));
    } else if (kind == LS_KC_MATRIX) {
        return false;
    }
    enter_or_leave(&s->around, s->k, i, s->places);
    if ((ins.op == LS_K_IF || ins.op == LS_K_ELSE) && s->around.by_memory[s->around.n - 1]) {
        if (ins.op == LS_K_ELSE) {
            (void)push(s, LS_K_END_IF, LS_BOOL, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE, 0);
        }
        ins = (ls_ins){LS_K_IF, LS_BOOL, 0, 0, {truth(s, true), LS_VAL_NONE, LS_VAL_NONE}, 0};
    }
    assert_true(s->n < s->cap);
    s->body[s->n] = ins;
    s->map[i] = s->n++;
    if (ins.op == LS_K_LOAD) {
        ls_val at = either(s, taint_of(s, src[0]), all), other = taint_of(s, src[2]);
        at = p >= 0 && tp < 0 && loose < 0 ? both(s, at, p) : at;
        other = p >= 0 && other >= 0 ? both(s, other, inverse(s, p)) : other;
        s->taint[i] = either(s, either(s, at, other), either(s, tp, loose));
        if (s->twin[ins.arg] >= 0) {
            s->taint[i] = either(s, s->taint[i], load_twin(s, &s->body[s->map[i]], p));
        }
    } else if (ins.op == LS_K_VAR) {
        ls_val t = either(s, taint_of(s, src[0]), all);
        s->taint[i] = push(s, LS_K_VAR, LS_BOOL, t >= 0 ? t : truth(s, false), LS_VAL_NONE, LS_VAL_NONE, 0);
    } else if (ins.op == LS_K_SET) {
        ls_val t = either(s, taint_of(s, src[1]), all);
        if (s->around.hidden) {
            t = either(s, t, push(s, LS_K_GET, LS_BOOL, s->taint[src[0]], LS_VAL_NONE, LS_VAL_NONE, 0));
        }
        (void)push(s, LS_K_SET, LS_BOOL, s->taint[src[0]], t >= 0 ? t : truth(s, false), LS_VAL_NONE, 0);
    } else if (ins.op == LS_K_GET) {
        s->taint[i] = push(s, LS_K_GET, LS_BOOL, s->taint[src[0]], LS_VAL_NONE, LS_VAL_NONE, 0);
    } else if (movable(&ins) && here && s->m->valued && !s->m->truth) {
        s->other[i] = mutated(s);
        s->taint[i] = s->places[i] ? unequal(s, s->map[i], s->other[i]) : truth(s, true);
    } else if (movable(&ins)) {
        shadow_pure(s, i);
    }
    return true;
}

static bool witness(ls_arena *a, const ls_kernel *k, int32_t at, const mutant *m, ls_kernel *out) {
    shadow s = {
        .a = a, .k = k, .m = m, .at = at, .cap = 24 * k->n_body + 64, .word = k->n_mems, .drops = m->dropped};
    s.body = LS_ARENA_ARRAY(a, ls_ins, s.cap);
    s.map = LS_ARENA_ARRAY(a, ls_val, k->n_body);
    s.other = LS_ARENA_ARRAY(a, ls_val, k->n_body);
    s.taint = LS_ARENA_ARRAY(a, ls_val, k->n_body);
    s.places = LS_ARENA_ARRAY(a, bool, k->n_body);
    s.twin = LS_ARENA_ARRAY(a, int32_t, k->n_mems + 1);
    out->mems = LS_ARENA_ARRAY(a, ls_kmem, 2 * k->n_mems + 1);
    assert_true(s.body && s.map && s.other && s.taint && s.places && s.twin && out->mems);
    for (int32_t i = 0, n = k->n_mems + 1; i < k->n_mems; i++) {
        s.twin[i] = k->mems[i].space == LS_MEM_SHARED ? n++ : -1;
    }
    find_places(k, s.places);
    for (int32_t i = 0; i < k->n_body; i++) {
        s.other[i] = s.taint[i] = LS_VAL_NONE;
        if (k->body[i].op == LS_K_LOOP && !s.places[i]) {
            return false; /* how often depends on what is in memory */
        }
    }
    for (int32_t i = 0; i < k->n_body; i++) {
        if (!shadow_ins(&s, i)) {
            return false;
        }
    }
    ls_kmem *mems = out->mems;
    *out = *k;
    out->body = s.body;
    out->n_body = s.n;
    out->mems = mems;
    memcpy(out->mems, k->mems, (size_t)k->n_mems * sizeof *out->mems);
    out->mems[k->n_mems] =
        (ls_kmem){"witness", LS_MEM_GLOBAL, LS_MEM_READ_WRITE, LS_U32, 1, LS_VAL_NONE, k->n_globals};
    out->n_mems++;
    out->n_globals++;
    for (int32_t i = 0; i < k->n_mems; i++) {
        if (s.twin[i] >= 0) {
            out->mems[s.twin[i]] =
                (ls_kmem){"shadow",         LS_MEM_SHARED, LS_MEM_READ_WRITE,         LS_U32,
                          k->mems[i].count, LS_VAL_NONE,   (int32_t)out->shared_bytes};
            out->shared_bytes += 4 * k->mems[i].count;
            out->n_mems++;
        }
    }
    return true;
}

/* ---- rules by structure ---- */

/* Whether a float is never -0: a sum is that only of two of them. */
static bool never_minus_zero(const ls_kernel *k, ls_val v, int depth) {
    const ls_ins *ins = &k->body[v];
    if (ins->op == LS_K_CONST) {
        return ins->dtype == LS_F32 && (uint32_t)ins->arg != 0x80000000;
    }
    if (ins->op == LS_K_SELECT && depth < 40) {
        return never_minus_zero(k, ins->src[1], depth + 1) && never_minus_zero(k, ins->src[2], depth + 1);
    }
    bool sum = ins->op == LS_K_ADD && depth < 40;
    return sum &&
           (never_minus_zero(k, ins->src[0], depth + 1) || never_minus_zero(k, ins->src[1], depth + 1));
}

/* Whether the sign of a zero is lost wherever it goes. */
static bool sign_is_lost(const ls_kernel *k, ls_val v, int depth) {
    for (int32_t i = v + 1; i < k->n_body; i++) {
        const ls_ins *ins = &k->body[i];
        for (int n = 0; n < 3; n++) {
            if (ins->src[n] != v) {
                continue;
            }
            bool sum = ins->op == LS_K_ADD && ins->src[!n] != v, choice = ins->op == LS_K_SELECT && n > 0;
            bool lost = sum && never_minus_zero(k, ins->src[!n], 0);
            if (!lost && (depth > 60 || !(sum || choice) || !sign_is_lost(k, i, depth + 1))) {
                return false;
            }
        }
    }
    return true;
}

/* +0 + x is x, but for the sign of a zero; and a barrier after which no memory is read that could change needs not be there. */
static bool by_structure(const ls_kernel *k, operator op, int32_t at, const mutant *m) {
    const ls_ins *ins = &k->body[at];
    if (op == IGNORE && ins->op == LS_K_ADD && ins->dtype == LS_F32 && ins->lanes == 1) {
        const ls_ins *zero = &k->body[ins->src[m->same == ins->src[0]]];
        return zero->op == LS_K_CONST && zero->arg == 0 && sign_is_lost(k, at, 0);
    }
    if (op != DROP || ins->op != LS_K_BARRIER) {
        return false;
    }
    int depth = 0;
    for (int32_t i = at + 1; i < k->n_body; i++) {
        const ls_ins *next = &k->body[i];
        depth += next->op == LS_K_LOOP || next->op == LS_K_IF;
        depth -= next->op == LS_K_END_LOOP || next->op == LS_K_END_IF;
        bool written = ls_kops[next->op].kind == LS_KC_MEMORY && k->mems[next->arg].access != LS_MEM_READ &&
                       !(next->op == LS_K_STORE && k->mems[next->arg].access == LS_MEM_WRITE);
        if (written || depth < 0) {
            return false;
        }
    }
    return true;
}

#endif
