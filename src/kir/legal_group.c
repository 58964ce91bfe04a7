/* Subnormals where a device flushes them and a kernel has many sums and products in a row: one check for many of them, and one
 * piece of code that does doubtful ones again, in a loop. Independent ones, as contractions have them, are checked in groups,
 * and only those of the group are done again. Where each needs the one before, as in elementary functions, the whole chain is
 * checked, and done again from the first on.
 *
 * A window is a stretch of the kernel without blocks, stores and barriers. Its instructions are written by levels, in each
 * level first what is neither, then f32 products, then sums. What needs a sum or product stands above its level, but that a
 * sum may stand in its product's level. So the products of one level are independent, and so are the sums. All but sums
 * stand as high as their uses let them, which keeps registers few. Variables are set at the window's end; a window ends
 * before a variable that it sets is read. */
#include "kir/legal_parts.h"

enum { WINDOW_MAX = 4096, ITEMS_MAX = 64, WORTH = 6 };

typedef struct item {
    ls_val at;
    int lane;
    ls_val a, b, r; /* the result as the device gives it, held */
} item;

typedef struct window {
    ls_val first, end;
    int16_t level[WINDOW_MAX], top;
} window;

static bool is_large(const ls_ins *ins) {
    return ins->op == LS_K_CONST && (ins->arg & 0x70000000) != 0;
}

static bool is_doubtful(const ls_legal *l, const ls_ins *ins) {
    bool sum = ins->op == LS_K_ADD || ins->op == LS_K_SUB;
    if (ins->dtype != LS_F32 || (ins->flags & LS_KF_FAST) || !(sum || ins->op == LS_K_MUL)) {
        return false;
    }
    const ls_ins *a = &l->old->body[ins->src[0]], *b = &l->old->body[ins->src[1]];
    return !sum || !(is_large(a) || is_large(b));
}

static bool sets(const ls_legal *l, ls_val first, ls_val end, ls_val var) {
    for (ls_val at = first; at < end; at++) {
        if (l->old->body[at].op == LS_K_SET && l->old->body[at].src[0] == var) {
            return true;
        }
    }
    return false;
}

static bool may_stand(const ls_legal *l, ls_val first, ls_val at) {
    const ls_ins *ins = &l->old->body[at];
    ls_kclass kind = ls_kops[ins->op].kind;
    if (ins->lanes == LS_LANES_FRAG) {
        return false;
    }
    if (ins->op == LS_K_GET) {
        return !sets(l, first, at, ins->src[0]);
    }
    return kind == LS_KC_PURE || kind == LS_KC_LEAF || kind == LS_KC_VECTOR || ins->op == LS_K_LOAD ||
           ins->op == LS_K_SET;
}

/* By how many levels a use of `v` by `user` must stand above it. */
static int step(const ls_legal *l, ls_val v, ls_val user) {
    const ls_ins *from = &l->old->body[v], *to = &l->old->body[user];
    if (!is_doubtful(l, from)) {
        return 0;
    }
    return from->op == LS_K_MUL && to->op != LS_K_MUL && is_doubtful(l, to) ? 0 : 1;
}

/* Moves what is no sum up to the lowest of its uses; what is used later than the window stays. */
static void raise(const ls_legal *l, window *w) {
    int16_t most[WINDOW_MAX];
    for (ls_val at = w->first; at < w->end; at++) {
        most[at - w->first] = -1;
    }
    for (ls_val at = w->end - 1; at >= w->first; at--) {
        const ls_ins *ins = &l->old->body[at];
        int n = at - w->first;
        bool sum = is_doubtful(l, ins) && ins->op != LS_K_MUL;
        if (!sum && most[n] > w->level[n]) {
            w->level[n] = most[n];
        }
        for (int i = 0; i < ls_kops[ins->op].sources; i++) {
            int source = ins->src[i] - w->first;
            if (source >= 0 && ins->op != LS_K_SET) {
                int16_t bound = (int16_t)(w->level[n] - step(l, ins->src[i], at));
                most[source] = most[source] < 0 || bound < most[source] ? bound : most[source];
            }
        }
    }
}

/* Measures the window that begins here; whether it holds enough to be worth it. */
static bool measure(const ls_legal *l, ls_val first, window *w) {
    int items = 0;
    w->first = first;
    w->top = 0;
    for (w->end = first; w->end < l->old->n_body && w->end - first < WINDOW_MAX; w->end++) {
        const ls_ins *ins = &l->old->body[w->end];
        int level = 0;
        if (!may_stand(l, first, w->end)) {
            break;
        }
        for (int i = 0; i < ls_kops[ins->op].sources; i++) {
            if (ins->src[i] >= first) {
                int below = w->level[ins->src[i] - first] + step(l, ins->src[i], w->end);
                level = below > level ? below : level;
            }
        }
        w->level[w->end - first] = (int16_t)level;
        w->top = level > w->top ? (int16_t)level : w->top;
        items += is_doubtful(l, ins) ? ins->lanes : 0;
    }
    raise(l, w);
    return items >= WORTH;
}

static ls_val mag_of(ls_legal *l, ls_val f) {
    ls_kb *k = &l->kb;
    return AND(ls_legal_bits(l, f), U(0x7fffffff));
}

/* The least of |v| - 1 over all operands: zeros are the largest. */
static ls_val least_operand(ls_legal *l, const item *items, int n) {
    ls_kb *k = &l->kb;
    ls_val seen[2 * ITEMS_MAX], least = LS_VAL_NONE;
    int n_seen = 0;
    for (int i = 0; i < 2 * n; i++) {
        ls_val v = i % 2 ? items[i / 2].b : items[i / 2].a;
        bool again = false;
        for (int j = 0; j < n_seen; j++) {
            again = again || seen[j] == v;
        }
        if (!again) {
            ls_val key = SUB(mag_of(l, v), U(1));
            seen[n_seen++] = v;
            least = least == LS_VAL_NONE ? key : MIN(least, key);
        }
    }
    return least;
}

/* Whether any product may be wrong: see legal_float.c. */
static ls_val any_product(ls_legal *l, const item *items, int n) {
    ls_kb *k = &l->kb;
    ls_val edge = U(27u << 23), most = LS_VAL_NONE;
    for (int i = 0; i < n; i++) {
        ls_val nothing = EQ(MIN(mag_of(l, items[i].a), mag_of(l, items[i].b)), U(0));
        ls_val key = SELECT(nothing, U(0), SUB(mag_of(l, items[i].r), edge));
        most = i ? MAX(most, key) : key;
    }
    return LE(U(0x7f800001 - (27u << 23)), most);
}

static ls_val both_of(ls_legal *l, ls_val a, ls_val b) { /* in [0, 2^28 - 1) where a sum may be wrong */
    ls_kb *k = &l->kb;
    return SUB(AND(OR(ls_legal_bits(l, a), ls_legal_bits(l, b)), U(0x7fffffff)), U(1));
}

static ls_val any_sum(ls_legal *l, const item *items, int n) {
    ls_kb *k = &l->kb;
    ls_val least = LS_VAL_NONE;
    for (int i = 0; i < n; i++) {
        ls_val key = both_of(l, items[i].a, items[i].b);
        least = i ? MIN(least, key) : key;
    }
    return LT(least, U(0x0fffffff));
}

/* The doubtful ones of a group again, one an iteration. */
static void again(ls_legal *l, bool sum, const item *items, const ls_val *out, int n) {
    ls_kb *k = &l->kb;
    ls_val j = ls_kb_loop(k, I(0), I(n), I(1), 0), a = ls_legal_bits(l, items[0].a),
           b = ls_legal_bits(l, items[0].b);
    for (int i = 1; i < n; i++) {
        ls_val here = EQ(j, I(i));
        a = SELECT(here, ls_legal_bits(l, items[i].a), a);
        b = SELECT(here, ls_legal_bits(l, items[i].b), b);
    }
    ls_val doubtful = sum ? LT(both_of(l, a, b), U(0x0fffffff)) : NE(MIN(mag_of(l, a), mag_of(l, b)), U(0));
    ls_kb_if(k, doubtful);
    ls_val r = sum ? ls_legal_soft_add(l, a, b) : ls_legal_soft_mul(l, a, b);
    r = ls_legal_hidden(l, ls_legal_held(l, r));
    for (int i = 0; i < n; i++) {
        ls_val old = ls_kb_get(k, out[i]);
        ls_kb_set(k, out[i], SELECT(EQ(j, I(i)), r, old));
    }
    ls_kb_end_if(k);
    ls_kb_end_loop(k);
}

static void group(ls_legal *l, bool sum, item *items, int n) {
    ls_kb *k = &l->kb;
    ls_val out[ITEMS_MAX];
    uint32_t traits = l->traits;
    l->traits |= LS_KT_SUBNORMAL32; /* the device's own, but for subnormals */
    for (int i = 0; i < n; i++) {
        const ls_ins *ins = &l->old->body[items[i].at];
        ls_val s[3] = {l->map[ins->src[0]][items[i].lane].v, l->map[ins->src[1]][items[i].lane].v,
                       LS_VAL_NONE};
        items[i].r = ls_legal_arith32(l, (ls_kop)ins->op, s, 0);
        items[i].a = s[0];
        items[i].b = s[1];
    }
    l->traits = traits;
    for (int i = 0; i < n; i++) {
        const ls_ins *ins = &l->old->body[items[i].at];
        out[i] = ls_kb_var(k, items[i].r);
        if (ins->op == LS_K_SUB) {
            items[i].b = XOR(ls_legal_bits(l, items[i].b), U(0x80000000));
        }
    }
    if (sum) {
        ls_kb_if(k, any_sum(l, items, n));
    } else { /* no operand between 0 and 2^-50: nothing below 2^-100 */
        ls_kb_if(k, LT(least_operand(l, items, n), U((77u << 23) - 1)));
        ls_kb_if(k, any_product(l, items, n));
    }
    again(l, sum, items, out, n);
    ls_kb_end_if(k);
    if (!sum) {
        ls_kb_end_if(k);
    }
    for (int i = 0; i < n; i++) {
        l->map[items[i].at][items[i].lane] = ls_legal_one(ls_kb_get(k, out[i]));
    }
}

static void write_items(ls_legal *l, bool sum, item *items, int n) {
    if (n >= WORTH) {
        group(l, sum, items, n);
        return;
    }
    for (int i = 0; i < n; i++) {
        if (items[i].lane == 0) {
            ls_legal_ins(l, items[i].at);
        }
    }
}

static void write_groups(ls_legal *l, const window *w, int level, bool sum) {
    item items[ITEMS_MAX];
    int n = 0;
    for (ls_val at = w->first; at < w->end; at++) {
        const ls_ins *ins = &l->old->body[at];
        if (w->level[at - w->first] != level || !is_doubtful(l, ins) || (ins->op != LS_K_MUL) != sum) {
            continue;
        }
        if (n + ins->lanes > ITEMS_MAX) {
            write_items(l, sum, items, n);
            n = 0;
        }
        for (int lane = 0; lane < ins->lanes; lane++) {
            items[n++] = (item){at, lane, LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE};
        }
    }
    write_items(l, sum, items, n);
}

/* ---- chains ---- */

typedef struct chain {
    ls_val first, end;
    bool depends[WINDOW_MAX]; /* no item itself, but computed from one */
    item items[ITEMS_MAX];
    ls_val out[ITEMS_MAX]; /* variables */
    int n;
} chain;

/* Emulated in many instructions: not to be done again. */
static bool is_long(const ls_ins *ins) {
    return ins->op == LS_K_DIV || ins->op == LS_K_REM || ins->op == LS_K_SQRT;
}

static void chain_measure(const ls_legal *l, const window *w, chain *c) {
    int n = 0;
    c->first = w->first;
    for (c->end = c->first; c->end < w->end; c->end++) {
        const ls_ins *ins = &l->old->body[c->end];
        int items = is_doubtful(l, ins) ? ins->lanes : 0, here = c->end - c->first;
        c->depends[here] = false;
        for (int i = 0; i < ls_kops[ins->op].sources && !items; i++) {
            ls_val s = ins->src[i];
            c->depends[here] |=
                s >= c->first && (c->depends[s - c->first] || is_doubtful(l, &l->old->body[s]));
        }
        bool moves = ins->op == LS_K_LOAD && c->depends[here];
        if (n + items > ITEMS_MAX || ((is_long(ins) || moves) && c->end > c->first)) {
            break;
        }
        n += items;
    }
    c->n = n;
}

/* All of it as the device does it; whether anything is doubtful. */
static ls_val chain_fast(ls_legal *l, chain *c) {
    ls_kb *k = &l->kb;
    ls_val most = U(0), least = U(~0u), edge = U(27u << 23);
    uint32_t traits = l->traits;
    int n = 0;
    for (ls_val at = c->first; at < c->end; at++) {
        const ls_ins *ins = &l->old->body[at];
        if (!is_doubtful(l, ins)) {
            if (ins->op != LS_K_SET) {
                ls_legal_ins(l, at);
            }
            continue;
        }
        for (int lane = 0; lane < ins->lanes; lane++) {
            ls_val s[3] = {l->map[ins->src[0]][lane].v, l->map[ins->src[1]][lane].v, LS_VAL_NONE};
            l->traits = traits | LS_KT_SUBNORMAL32; /* but for subnormals */
            ls_val r = ls_legal_arith32(l, (ls_kop)ins->op, s, 0);
            l->traits = traits;
            if (ins->op == LS_K_MUL) {
                ls_val nothing = EQ(MIN(mag_of(l, s[0]), mag_of(l, s[1])), U(0));
                most = MAX(most, SELECT(nothing, U(0), SUB(mag_of(l, r), edge)));
            } else {
                least = MIN(least, both_of(l, s[0], s[1]));
            }
            c->items[n++] = (item){at, lane, s[0], s[1], r};
            l->map[at][lane] = ls_legal_one(r);
        }
    }
    return OR(LE(U(0x7f800001 - (27u << 23)), most), LT(least, U(0x0fffffff)));
}

/* The items as the variables have them now, and what depends on them. */
static void chain_reload(ls_legal *l, const chain *c) {
    for (int i = 0; i < c->n; i++) {
        l->map[c->items[i].at][c->items[i].lane] = ls_legal_one(ls_kb_get(&l->kb, c->out[i]));
    }
    for (ls_val at = c->first; at < c->end; at++) {
        if (c->depends[at - c->first] && l->old->body[at].op != LS_K_SET) {
            ls_legal_ins(l, at);
        }
    }
}

/* Item after item: those before it are right by then. */
static void chain_again(ls_legal *l, const chain *c) {
    ls_kb *k = &l->kb;
    ls_val j = ls_kb_loop(k, I(0), I(c->n), I(1), 0), a = LS_VAL_NONE, b = LS_VAL_NONE;
    uint32_t sums[2] = {0, 0};
    chain_reload(l, c);
    for (int i = 0; i < c->n; i++) {
        const ls_ins *ins = &l->old->body[c->items[i].at];
        int lane = c->items[i].lane;
        ls_val x = ls_legal_bits(l, l->map[ins->src[0]][lane].v),
               y = ls_legal_bits(l, l->map[ins->src[1]][lane].v);
        y = ins->op == LS_K_SUB ? XOR(y, U(0x80000000)) : y;
        sums[i / 32] |= (uint32_t)(ins->op != LS_K_MUL) << i % 32;
        ls_val here = EQ(j, I(i));
        a = i ? SELECT(here, x, a) : x;
        b = i ? SELECT(here, y, b) : y;
    }
    const ls_val s[3] = {ls_legal_held(l, a), ls_legal_held(l, b), LS_VAL_NONE};
    ls_val kinds = SELECT(LT(j, I(32)), U(sums[0]), U(sums[1]));
    ls_val result = ls_kb_var(k, s[0]), bit = SHR(kinds, AND(AS_U(j), U(31)));
    ls_kb_if(k, NE(AND(bit, U(1)), U(0)));
    ls_val r = ls_legal_arith32(l, LS_K_ADD, s, 0);
    ls_kb_set(k, result, r);
    ls_kb_else(k);
    r = ls_legal_arith32(l, LS_K_MUL, s, 0);
    ls_kb_set(k, result, r);
    ls_kb_end_if(k);
    r = ls_kb_get(k, result);
    for (int i = 0; i < c->n; i++) {
        ls_val old = l->map[c->items[i].at][c->items[i].lane].v;
        ls_kb_set(k, c->out[i], SELECT(EQ(j, I(i)), r, old));
    }
    ls_kb_end_loop(k);
}

static ls_val write_chain(ls_legal *l, const window *w) {
    ls_kb *k = &l->kb;
    chain c;
    chain_measure(l, w, &c);
    if (c.n < WORTH) {
        for (ls_val at = c.first; at < c.end; at++) {
            ls_legal_ins(l, at);
        }
        return c.end;
    }
    ls_val doubtful = chain_fast(l, &c);
    for (int i = 0; i < c.n; i++) {
        c.out[i] = ls_kb_var(k, c.items[i].r);
    }
    ls_kb_if(k, doubtful);
    chain_again(l, &c);
    ls_kb_end_if(k);
    chain_reload(l, &c);
    for (ls_val at = c.first; at < c.end; at++) {
        if (l->old->body[at].op == LS_K_SET) {
            ls_legal_ins(l, at);
        }
    }
    return c.end;
}

/* Whether most items of a window stand in groups. */
static bool is_broad(const ls_legal *l, const window *w) {
    int16_t counts[2][WINDOW_MAX] = {{0}, {0}};
    int items = 0, grouped = 0;
    for (ls_val at = w->first; at < w->end; at++) {
        const ls_ins *ins = &l->old->body[at];
        if (is_doubtful(l, ins)) {
            counts[ins->op == LS_K_MUL][w->level[at - w->first]] += ins->lanes;
            items += ins->lanes;
        }
    }
    for (int i = 0; i <= w->top; i++) {
        grouped += counts[0][i] >= WORTH ? counts[0][i] : 0;
        grouped += counts[1][i] >= WORTH ? counts[1][i] : 0;
    }
    return 2 * grouped >= items;
}

ls_val ls_legal_window(ls_legal *l, ls_val first) {
    window w;
    if (ls_legal_has(l, LS_KT_SUBNORMAL32)) {
        return first;
    }
    if (!measure(l, first, &w)) {
        for (ls_val at = first; at < w.end; at++) {
            ls_legal_ins(l, at);
        }
        return w.end;
    }
    if (!is_broad(l, &w)) {
        return write_chain(l, &w);
    }
    for (int level = 0; level <= w.top; level++) {
        for (ls_val at = first; at < w.end; at++) {
            const ls_ins *ins = &l->old->body[at];
            if (w.level[at - first] == level && !is_doubtful(l, ins) && ins->op != LS_K_SET) {
                ls_legal_ins(l, at);
            }
        }
        write_groups(l, &w, level, false);
        write_groups(l, &w, level, true);
    }
    for (ls_val at = first; at < w.end; at++) {
        if (l->old->body[at].op == LS_K_SET) {
            ls_legal_ins(l, at);
        }
    }
    return w.end;
}
