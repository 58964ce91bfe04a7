/* Loads and stores. Where the device has no bytes or halves, several elements share a u32.
 *
 * A store of part of a word must not touch its neighbours, which other threads may be storing. It reads the word
 * atomically, takes its own element `old` out of it, and atomically adds (new - old) << shift. The word as a number is the
 * sum of its elements e_j times B^j, with 0 <= e_j < B. The addition changes that sum by (new - old) * B^i exactly, whatever
 * the neighbours hold by then, and digits to a base are unique: e_i becomes new and no other digit changes. `old` is still
 * right when the addition happens, because nobody else may store this element. So additions commute. */
#include "kir/legal_parts.h"

static int bytes_of(ls_dtype t) {
    return (int)ls_dtype_size(t);
}

static bool is_matrix_access(ls_kop op) {
    return op == LS_K_FRAG_LOAD || op == LS_K_FRAG_STORE;
}

static void plan(ls_legal *l, int i) {
    const ls_kmem *m = &l->old->mems[i];
    ls_legal_mem *p = &l->mems[i];
    int size = bytes_of(m->dtype);
    bool whole = size == 1 ? ls_legal_has(l, LS_KT_BYTES) : size == 2 ? ls_legal_has(l, LS_KT_HALVES) : true;
    p->how = LS_LEGAL_SAME;
    p->stored = m->dtype;
    if (p->matrix) {
        if (!whole || (size == 8 && !ls_legal_has(l, m->dtype == LS_F64 ? LS_KT_FLOAT64 : LS_KT_INT64))) {
            ls_legal_refuse(l, "fragments of small types need 8- and 16-bit memory");
        }
        return;
    }
    if (m->dtype == LS_BOOL) {
        p->stored = LS_U8;
    } else if (m->dtype == LS_F16 || m->dtype == LS_BF16) {
        p->stored = LS_U16;
    } else if (m->dtype == LS_F32) {
        p->stored = ls_legal_has(l, LS_KT_FLOAT_BITS) ? LS_F32 : LS_U32;
    }
    if (size < 4 && !whole) {
        p->how = m->space == LS_MEM_SHARED ? LS_LEGAL_WIDE : LS_LEGAL_WORDS;
        p->stored = LS_U32;
    } else if (size == 8 && m->dtype != LS_F64 && !ls_legal_has(l, LS_KT_INT64)) {
        p->how = LS_LEGAL_PAIRS;
        p->stored = LS_U32;
    }
}

/* How many of the stored type one unit of a memory's size needs. */
static int64_t stored_count(const ls_legal *l, int i) {
    const ls_kmem *m = &l->old->mems[i];
    ls_legal_how how = l->mems[i].how;
    int per_word = 4 / (bytes_of(m->dtype) > 4 ? 4 : bytes_of(m->dtype));
    return how == LS_LEGAL_PAIRS   ? 2 * m->count
           : how == LS_LEGAL_WORDS ? (m->count + per_word - 1) / per_word
                                   : m->count;
}

static void declare(ls_legal *l, int i) {
    const ls_kmem *m = &l->old->mems[i];
    ls_legal_mem *p = &l->mems[i];
    if (m->count > INT64_MAX / 4) {
        ls_legal_refuse(l, "a memory is too large");
        return;
    }
    int64_t count = stored_count(l, i);
    int param = m->count_param < 0 ? LS_VAL_NONE : l->param[m->count_param];
    ls_wide most = (ls_wide)count * (m->count_param < 0 ? 1 : l->old->params[m->count_param].hi);
    p->small = most <= INT32_MAX;
    if (param >= 0 && !ls_kb_failed(&l->kb) && l->kb.kernel.params[param].dtype == LS_U32 &&
        l->params[param].word == 1) {
        ls_legal_refuse(l, "a memory whose size may exceed 32 bits needs 64-bit integers");
    }
    if (m->space == LS_MEM_SHARED) {
        ls_kb_shared(&l->kb, m->name, p->stored, count);
    } else {
        ls_mem_access access = p->atomic ? LS_MEM_READ_WRITE : m->access;
        ls_kb_global_sized(&l->kb, m->name, p->stored, access, count, param);
    }
}

void ls_legal_memories(ls_legal *l) {
    for (ls_val at = 0; at < l->old->n_body; at++) {
        const ls_ins *ins = &l->old->body[at];
        if (is_matrix_access((ls_kop)ins->op)) {
            l->mems[ins->arg].matrix = true;
        }
        if (ins->op == LS_K_PRODUCT) {
            const ls_kproduct *p = &l->old->products[ins->arg];
            l->mems[p->sums].matrix = l->mems[p->side[0].mem].matrix = l->mems[p->side[1].mem].matrix = true;
        }
    }
    for (int i = 0; i < l->old->n_mems; i++) {
        plan(l, i);
    }
    for (ls_val at = 0; at < l->old->n_body; at++) {
        const ls_ins *ins = &l->old->body[at];
        if (ins->op == LS_K_STORE && l->mems[ins->arg].how == LS_LEGAL_WORDS) {
            int lanes = l->old->body[ins->src[1]].lanes;
            l->mems[ins->arg].atomic |= lanes * bytes_of(l->old->mems[ins->arg].dtype) < 4;
        }
    }
    for (int i = 0; i < l->old->n_mems; i++) {
        declare(l, i);
    }
}

/* Where its predicate holds an index is below the memory's count, so its low word says it all. */
ls_val ls_legal_index(ls_legal *l, int mem, ls_val old) {
    ls_lane a = l->map[old][0];
    if (a.hi == LS_VAL_NONE && ls_legal_type(l, a.v) != LS_I64) {
        return a.v;
    }
    if (l->mems[mem].small) {
        return ls_legal_low(l, a);
    }
    if (!ls_legal_has(l, LS_KT_INT64)) {
        ls_legal_refuse(l, "a memory of more than 2^31 words needs 64-bit integers");
    }
    return a.v;
}

/* index * factor, or index / -factor */
static ls_val scaled(ls_legal *l, ls_val index, int factor) {
    ls_kb *k = &l->kb;
    if (ls_kb_failed(k)) {
        return LS_VAL_NONE;
    }
    ls_dtype t = ls_legal_type(l, index);
    return factor > 0 ? MUL(index, ls_kb_const_int(k, t, factor))
                      : SHR(index, ls_kb_const_int(k, t, factor == -4 ? 2 : 1));
}

static ls_val next(ls_legal *l, ls_val index, int n) {
    ls_kb *k = &l->kb;
    return ADD(index, ls_kb_const_int(k, ls_legal_type(l, index), n));
}

/* ---- what a memory holds, as lanes are held, and back ---- */

static ls_lane decode(ls_legal *l, ls_dtype t, ls_val raw) { /* raw: a u32, extended with zeros, or an i32 */
    ls_kb *k = &l->kb;
    if (t == LS_BOOL) {
        return ls_legal_one(NE(raw, U(0)));
    }
    if (t == LS_F16 || t == LS_BF16) {
        return ls_legal_one(ls_legal_half_value(l, t, raw));
    }
    if (ls_dtype_is_signed_int(t) && ls_legal_type(l, raw) == LS_U32) {
        return ls_legal_one(ls_legal_wrap(l, t, AS_I(raw)));
    }
    return ls_legal_one(raw);
}

/* The element's bits as a u32, those above its size 0. */
static ls_val encode(ls_legal *l, ls_dtype t, ls_val v) {
    ls_kb *k = &l->kb;
    if (t == LS_BOOL) {
        return SELECT(v, U(1), U(0));
    }
    if (t == LS_BF16) { /* held rounded, so that the other half is 0, or anything of a NaN */
        return SHR(ls_legal_bits(l, v), U(16));
    }
    if (t == LS_F16) {
        return ls_legal_half_bits(l, t, v);
    }
    ls_val u = AS_U(v);
    return t == LS_I8 ? AND(u, U(0xff)) : t == LS_I16 ? AND(u, U(0xffff)) : u;
}

/* ---- loads ---- */

typedef struct access {
    int mem, lanes;
    ls_dtype t;
    ls_val index, pred;
} access;

/* `n` values of the stored type; zeros where the predicate fails. */
static ls_val load_raw(ls_legal *l, const access *x, ls_val index, int n) {
    ls_kb *k = &l->kb;
    ls_dtype stored = l->mems[x->mem].stored;
    ls_val none = x->pred == LS_VAL_NONE ? LS_VAL_NONE : ls_kb_splat(k, ls_kb_const_bits(k, stored, 0), n);
    return ls_kb_load(k, x->mem, index, x->pred, none, n);
}

static void load_words(ls_legal *l, const access *x, ls_lane out[4]) {
    ls_kb *k = &l->kb;
    int size = bytes_of(x->t), per_word = 4 / size, n_words = x->lanes * size > 4 ? 2 : 1;
    ls_val words[2], at = scaled(l, x->index, -per_word), base = U(0);
    if (l->mems[x->mem].atomic) {
        for (int i = 0; i < n_words; i++) {
            words[i] = ls_kb_atomic(k, LS_K_ATOMIC_OR, x->mem, i ? next(l, at, 1) : at, U(0), x->pred);
        }
    } else {
        ls_val both = load_raw(l, x, at, n_words);
        for (int i = 0; i < n_words; i++) {
            words[i] = ls_kb_extract(k, both, i);
        }
    }
    if (x->lanes * size < 4) {
        ls_val inside = AND(AS_U(ls_legal_low(l, ls_legal_one(x->index))), U((uint32_t)per_word - 1));
        base = MUL(inside, U(8 * (uint32_t)size));
    }
    for (int i = 0; i < x->lanes; i++) {
        ls_val word = words[i / per_word];
        ls_val raw = SHR(word, ADD(base, U(8 * (uint32_t)(size * (i % per_word)))));
        out[i] = decode(l, x->t, AND(raw, U(size == 1 ? 0xff : 0xffff)));
    }
}

static void load_pairs(ls_legal *l, const access *x, ls_lane out[4]) {
    ls_kb *k = &l->kb;
    ls_val at = scaled(l, x->index, 2), words[8];
    int n = x->lanes == 1 ? 2 : 4;
    for (int first = 0; first < 2 * x->lanes; first += n) {
        ls_val v = load_raw(l, x, first ? next(l, at, first) : at, n);
        for (int i = 0; i < n; i++) {
            words[first + i] = ls_kb_extract(k, v, i);
        }
    }
    for (int i = 0; i < x->lanes; i++) {
        out[i] = (ls_lane){words[2 * i], words[2 * i + 1]};
    }
}

static void load_same(ls_legal *l, const access *x, ls_lane out[4]) {
    ls_kb *k = &l->kb;
    ls_val v = load_raw(l, x, x->index, x->lanes);
    ls_dtype stored = l->mems[x->mem].stored, t = x->t;
    bool half = t == LS_F16 || t == LS_BF16, own = t == LS_F16 && ls_legal_has(l, LS_KT_HALF_CAST);
    if (half && !own) {
        v = ls_kb_cast(k, ls_kb_bitcast(k, v, LS_U16), LS_U32);
    } else if (half) {
        v = ls_kb_cast(k, ls_kb_bitcast(k, v, LS_F16), LS_F32);
    } else if (bytes_of(stored) < 4) {
        v = ls_kb_cast(k, v, stored == LS_BOOL ? LS_U32 : ls_legal_register(l, stored));
    }
    for (int i = 0; i < x->lanes; i++) {
        ls_val e = ls_kb_extract(k, v, i);
        bool f32 = t == LS_F32 || (half && own);
        out[i] = f32               ? ls_legal_one(ls_legal_held(l, e))
                 : bytes_of(t) < 4 ? decode(l, t, e)
                                   : ls_legal_one(e);
    }
}

static void load_shared(ls_legal *l, const access *x, ls_lane out[4]) {
    ls_val v = load_raw(l, x, x->index, x->lanes);
    for (int i = 0; i < x->lanes; i++) {
        out[i] = decode(l, x->t, ls_kb_extract(&l->kb, v, i));
    }
}

void ls_legal_load(ls_legal *l, ls_val at, const ls_ins *ins) {
    ls_kb *k = &l->kb;
    ls_dtype t = (ls_dtype)ins->dtype;
    access x = {(int)ins->arg, ins->lanes, t, ls_legal_index(l, (int)ins->arg, ins->src[0]), LS_VAL_NONE};
    if (ins->src[1] != LS_VAL_NONE) {
        x.pred = l->map[ins->src[1]][0].v;
    }
    static void (*const loads[])(ls_legal *, const access *, ls_lane *) = {
        [LS_LEGAL_SAME] = load_same,
        [LS_LEGAL_WORDS] = load_words,
        [LS_LEGAL_PAIRS] = load_pairs,
        [LS_LEGAL_WIDE] = load_shared,
    };
    loads[l->mems[x.mem].how](l, &x, l->map[at]);
    const ls_ins *other = x.pred == LS_VAL_NONE ? NULL : &l->old->body[ins->src[2]];
    if (!other || (other->op == LS_K_CONST && other->arg == 0)) {
        return;
    }
    for (int i = 0; i < ins->lanes; i++) {
        ls_lane a = ls_legal_form(l, t, l->map[at][i], false),
                b = ls_legal_form(l, t, l->map[ins->src[2]][i], false);
        l->map[at][i] = a.hi != LS_VAL_NONE ? ls_legal_pair_select(l, x.pred, a, b)
                                            : ls_legal_one(SELECT(x.pred, a.v, b.v));
    }
}

/* ---- stores ---- */

/* Part of one word; see the top. */
static void replace(ls_legal *l, const access *x, ls_val at, ls_val value, int bits) {
    ls_kb *k = &l->kb;
    int size = bytes_of(x->t);
    ls_val inside = AND(AS_U(ls_legal_low(l, ls_legal_one(x->index))), U((uint32_t)(4 / size) - 1));
    ls_val shift = MUL(inside, U(8 * (uint32_t)size));
    ls_val word = ls_kb_atomic(k, LS_K_ATOMIC_OR, x->mem, at, U(0), x->pred);
    ls_val old = AND(SHR(word, shift), U((1u << bits) - 1));
    ls_kb_atomic(k, LS_K_ATOMIC_ADD, x->mem, at, SHL(SUB(value, old), shift), x->pred);
}

static void store_words(ls_legal *l, const access *x, const ls_lane *v) {
    ls_kb *k = &l->kb;
    int size = bytes_of(x->t), per_word = 4 / size, n_words = x->lanes * size > 4 ? 2 : 1;
    ls_val at = scaled(l, x->index, -per_word), words[2] = {LS_VAL_NONE, LS_VAL_NONE};
    for (int i = 0; i < x->lanes; i++) {
        int place = i % per_word, n = i / per_word;
        ls_val e = encode(l, x->t, v[i].v);
        words[n] = place ? OR(words[n], SHL(e, U(8 * (uint32_t)(size * place)))) : e;
    }
    if (x->lanes * size < 4) {
        replace(l, x, at, words[0], 8 * size * x->lanes);
    } else {
        ls_kb_store(k, x->mem, at, ls_legal_join(l, words, n_words), x->pred);
    }
}

static void store_pairs(ls_legal *l, const access *x, const ls_lane *v) {
    ls_kb *k = &l->kb;
    ls_val at = scaled(l, x->index, 2), words[8];
    for (int i = 0; i < x->lanes; i++) {
        ls_lane pair = ls_legal_split(l, x->t, v[i]);
        words[2 * i] = pair.v;
        words[2 * i + 1] = pair.hi;
    }
    int n = x->lanes == 1 ? 2 : 4;
    for (int first = 0; first < 2 * x->lanes; first += n) {
        ls_kb_store(k, x->mem, first ? next(l, at, first) : at, ls_legal_join(l, words + first, n), x->pred);
    }
}

static void store_same(ls_legal *l, const access *x, const ls_lane *v) {
    ls_kb *k = &l->kb;
    ls_val e[4] = {LS_VAL_NONE};
    ls_dtype stored = l->mems[x->mem].stored, t = x->t;
    bool real = t == LS_F16 || t == LS_BF16;
    /* in shared memory it does not matter which NaN it is: what leaves it is made canonical */
    bool cast = t == LS_F16 && l->old->mems[x->mem].space == LS_MEM_SHARED && ls_legal_has(l, LS_KT_HALF_CAST);
    for (int i = 0; i < x->lanes; i++) {
        ls_val lane = ls_legal_form(l, t, v[i], false).v;
        e[i] = cast                    ? ls_kb_cast(k, ls_legal_float(l, lane), LS_F16)
               : real || t == LS_BOOL ? encode(l, t, lane)
               : t == LS_F32          ? ls_legal_bitcast(l, lane, stored)
                                      : lane;
    }
    ls_val all = ls_legal_join(l, e, x->lanes);
    if (cast) {
        all = stored == LS_F16 ? all : ls_kb_bitcast(k, all, stored);
    } else if (real) {
        all = ls_kb_bitcast(k, ls_kb_cast(k, all, LS_U16), stored);
    } else if (bytes_of(t) < 4) {
        all = ls_kb_cast(k, all, stored);
    }
    ls_kb_store(k, x->mem, x->index, all, x->pred);
}

static void store_shared(ls_legal *l, const access *x, const ls_lane *v) {
    ls_kb *k = &l->kb;
    ls_val e[4];
    for (int i = 0; i < x->lanes; i++) {
        e[i] = encode(l, x->t, v[i].v);
    }
    ls_kb_store(k, x->mem, x->index, ls_legal_join(l, e, x->lanes), x->pred);
}

void ls_legal_store(ls_legal *l, ls_val at, const ls_ins *ins) {
    const ls_ins *value = &l->old->body[ins->src[1]];
    ls_val of = value->op == LS_K_CANON && value->dtype == LS_F16 ? value->src[0] : ins->src[1]; /* its bits are canonical anyway */
    access x = {(int)ins->arg, value->lanes, (ls_dtype)value->dtype,
                ls_legal_index(l, (int)ins->arg, ins->src[0]), LS_VAL_NONE};
    (void)at;
    if (ins->src[2] != LS_VAL_NONE) {
        x.pred = l->map[ins->src[2]][0].v;
    }
    static void (*const stores[])(ls_legal *, const access *, const ls_lane *) = {
        [LS_LEGAL_SAME] = store_same,
        [LS_LEGAL_WORDS] = store_words,
        [LS_LEGAL_PAIRS] = store_pairs,
        [LS_LEGAL_WIDE] = store_shared,
    };
    stores[l->mems[x.mem].how](l, &x, l->map[of]);
}

void ls_legal_atomic(ls_legal *l, ls_val at, const ls_ins *ins) {
    int mem = (int)ins->arg;
    ls_val pred = ins->src[2] == LS_VAL_NONE ? LS_VAL_NONE : l->map[ins->src[2]][0].v;
    if (l->mems[mem].how != LS_LEGAL_SAME) {
        ls_legal_refuse(l, "atomics on 64-bit integers need a device that has them");
    }
    ls_lane v = ls_legal_form(l, (ls_dtype)ins->dtype, l->map[ins->src[1]][0], false);
    ls_val index = ls_legal_index(l, mem, ins->src[0]);
    l->map[at][0] = ls_legal_one(ls_kb_atomic(&l->kb, (ls_kop)ins->op, mem, index, v.v, pred));
}
