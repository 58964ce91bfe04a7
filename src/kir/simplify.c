/* The simplifier rewrites a body block by block into a new list, following the old one: folding, value numbering,
 * unrolling and forwarding of variables fall out of one walk. Invariants: `map` gives for each old value that is in
 * scope its new one; `known` gives for each new variable the value that it is known to hold here.
 *
 * Pure instructions are total, so those that no iteration changes may move out of a loop even from under an if. */
#include "kir/simplify.h"
#include "kir/range.h"
#include <string.h>

bool ls_kout_init(ls_kout *out, ls_heap *heap, int32_t expected) {
    *out = (ls_kout){.heap = heap, .n_heads = 64};
    while (out->n_heads < (size_t)expected) {
        out->n_heads *= 2;
    }
    out->heads = ls_alloc(heap, out->n_heads * sizeof *out->heads);
    if (!out->heads) {
        return false;
    }
    memset(out->heads, 0xff, out->n_heads * sizeof *out->heads);
    return true;
}

void ls_kout_free(ls_kout *out) {
    ls_array_free(out->heap, &out->body);
    ls_array_free(out->heap, &out->chain);
    ls_array_free(out->heap, &out->entered);
    ls_free(out->heap, out->heads);
}

static size_t bucket_of(const ls_kout *out, const ls_ins *ins) {
    uint64_t h = (uint64_t)ins->op | (uint64_t)ins->dtype << 8 | (uint64_t)ins->lanes << 16 |
                 (uint64_t)ins->flags << 32;
    h = (h ^ (uint64_t)ins->arg * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    for (int i = 0; i < 3; i++) {
        h = (h ^ h >> 29 ^ (uint32_t)ins->src[i]) * 0xbf58476d1ce4e5b9u;
    }
    return (size_t)(h >> 32) & (out->n_heads - 1);
}

static bool same_ins(const ls_ins *a, const ls_ins *b) {
    return a->op == b->op && a->dtype == b->dtype && a->lanes == b->lanes && a->flags == b->flags &&
           a->arg == b->arg && a->src[0] == b->src[0] && a->src[1] == b->src[1] && a->src[2] == b->src[2];
}

size_t ls_kout_scope(const ls_kout *out) {
    return out->entered.len;
}

void ls_kout_scope_end(ls_kout *out, size_t mark) {
    while (out->entered.len > mark) { /* last in is first in its bucket */
        ls_val v = out->entered.data[--out->entered.len];
        out->heads[bucket_of(out, &out->body.data[v])] = out->chain.data[v];
    }
}

/* Out of memory gives number 0 and `failed`: numbers stay valid until the caller looks. */
ls_val ls_kout_append(ls_kout *out, const ls_ins *ins) {
    if (!ls_array_push(out->heap, &out->body, *ins) || !ls_array_push(out->heap, &out->chain, LS_VAL_NONE)) {
        out->failed = true;
        return out->body.len ? 0 : LS_VAL_NONE;
    }
    return (ls_val)out->body.len - 1;
}

ls_val ls_kout_add(ls_kout *out, ls_ins ins) {
    if (out->failed) {
        return LS_VAL_NONE;
    }
    ls_val v = ls_kir_movable(&ins) ? ls_kir_fold(out, &ins) : LS_VAL_NONE;
    if (v != LS_VAL_NONE || out->failed) {
        return v;
    }
    if (!ls_kir_movable(&ins)) {
        return ls_kout_append(out, &ins);
    }
    size_t bucket = bucket_of(out, &ins);
    for (v = out->heads[bucket]; v != LS_VAL_NONE; v = out->chain.data[v]) {
        if (same_ins(&out->body.data[v], &ins)) {
            return v;
        }
    }
    v = ls_kout_append(out, &ins);
    if (out->failed || !ls_array_push(out->heap, &out->entered, v)) {
        out->failed = true;
        return v;
    }
    out->chain.data[v] = out->heads[bucket];
    out->heads[bucket] = v;
    return v;
}

void ls_kir_match(const ls_ins *body, int32_t n, ls_val *out_match) {
    ls_val open = LS_VAL_NONE; /* the chain of open blocks runs through out_match itself */
    for (ls_val at = 0; at < n; at++) {
        ls_kop op = (ls_kop)body[at].op;
        if (op == LS_K_END_LOOP || op == LS_K_END_IF || op == LS_K_ELSE) {
            ls_val outer = out_match[open];
            out_match[open] = at;
            open = outer;
        }
        if (op == LS_K_LOOP || op == LS_K_IF || op == LS_K_ELSE) {
            out_match[at] = open;
            open = at;
        }
    }
}

typedef struct known_change {
    ls_val var, before;
} known_change;

typedef struct simplifier {
    ls_heap *heap;
    const ls_kernel *k;
    ls_simplify_options options;
    ls_kout out;
    ls_val *match, *map;
    bool *hoisted;          /* by old instruction: already written before a loop that is open */
    int8_t *decided;        /* by old comparison: what ranges say: 0, 1, or -1 */
    LS_ARRAY(ls_val) known; /* by new instruction (variables) */
    LS_ARRAY(known_change) changes;
} simplifier;

static void emit_region(simplifier *s, ls_val first, ls_val end);

/* ---- what variables are known to hold ---- */

static void known_set(simplifier *s, ls_val var, ls_val value) {
    while (!s->out.failed && s->known.len <= (size_t)var) {
        s->out.failed = !ls_array_push(s->heap, &s->known, LS_VAL_NONE);
    }
    known_change change = {var, LS_VAL_NONE};
    if (s->out.failed) {
        return;
    }
    change.before = s->known.data[var];
    s->out.failed = !ls_array_push(s->heap, &s->changes, change);
    s->known.data[var] = value;
}

static ls_val known_get(const simplifier *s, ls_val var) {
    return (size_t)var < s->known.len ? s->known.data[var] : LS_VAL_NONE;
}

static void known_undo(simplifier *s, size_t mark) {
    while (s->changes.len > mark) {
        known_change c = s->changes.data[--s->changes.len];
        s->known.data[c.var] = c.before;
    }
}

/* Forgets every variable from outside that is set in (first, end). */
static void known_forget(simplifier *s, ls_val first, ls_val end) {
    for (ls_val at = first; at < end; at++) {
        if (s->k->body[at].op == LS_K_SET && s->k->body[at].src[0] < first) {
            known_set(s, s->map[s->k->body[at].src[0]], LS_VAL_NONE);
        }
    }
}

/* ---- blocks ---- */

typedef struct scope {
    size_t values, changes;
} scope;

static scope scope_begin(const simplifier *s) {
    return (scope){ls_kout_scope(&s->out), s->changes.len};
}

static void scope_end(simplifier *s, scope mark) {
    ls_kout_scope_end(&s->out, mark.values);
    known_undo(s, mark.changes);
}

static ls_ins mapped(const simplifier *s, ls_val at) {
    ls_ins ins = s->k->body[at];
    for (int i = 0; i < 3; i++) {
        ins.src[i] = ins.src[i] >= 0 ? s->map[ins.src[i]] : LS_VAL_NONE;
    }
    return ins;
}

static const ls_ins *made(const simplifier *s, ls_val v) {
    return &s->out.body.data[v];
}

static bool const_value(const simplifier *s, ls_val v, int64_t *out_value) {
    if (v < 0 || made(s, v)->op != LS_K_CONST) {
        return false;
    }
    *out_value = made(s, v)->arg;
    return true;
}

static void append_op(simplifier *s, ls_kop op) {
    ls_ins ins = {op, 0, 0, 0, {LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE}, 0};
    ls_kout_append(&s->out, &ins);
}

/* Writes before a loop what is the same in all of its iterations. */
static void hoist(simplifier *s, ls_val loop) {
    for (ls_val at = loop + 1; at < s->match[loop] && !s->out.failed; at++) {
        const ls_ins *ins = &s->k->body[at];
        /* what ranges decide holds only where it stands */
        bool invariant = ls_kir_movable(ins) && !s->hoisted[at] && s->decided[at] < 0;
        for (int i = 0; i < ls_kops[ins->op].sources && invariant; i++) {
            invariant = ins->src[i] < loop || s->hoisted[ins->src[i]];
        }
        if (invariant) {
            s->map[at] = ls_kout_add(&s->out, mapped(s, at));
            s->hoisted[at] = true;
        }
    }
}

/* Trips of a loop with constant bounds that should be unrolled; -1: keep it a loop. */
static int64_t unrolled_trips(const simplifier *s, ls_val loop, const ls_ins *ins) {
    int64_t lo, hi, step;
    if (!const_value(s, ins->src[0], &lo) || !const_value(s, ins->src[1], &hi)) {
        return -1;
    }
    if (lo >= hi) {
        return 0;
    }
    if (!const_value(s, ins->src[2], &step) || step < 1) {
        return -1;
    }
    ls_wide trips = ((ls_wide)hi - lo - 1) / step + 1, size = s->match[loop] - loop;
    bool small = trips <= s->options.unroll_trips && size <= 64;
    bool wanted = trips == 1 || small || (ins->flags & LS_KF_UNROLL);
    return wanted && (ls_wide)s->out.body.len + trips * size <= s->options.max_body ? (int64_t)trips : -1;
}

static void emit_loop(simplifier *s, ls_val at) {
    ls_ins ins = mapped(s, at);
    ls_val end = s->match[at];
    int64_t trips = unrolled_trips(s, at, &ins);
    for (int64_t i = 0; i < trips && !s->out.failed; i++) {
        ls_ins index = {LS_K_CONST, ins.dtype, 1, 0, {LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE}, 0};
        index.arg = made(s, ins.src[0])->arg + i * made(s, ins.src[2])->arg;
        s->map[at] = ls_kout_add(&s->out, index);
        emit_region(s, at + 1, end);
    }
    if (trips >= 0) {
        return;
    }
    bool *before = ls_alloc(s->heap, (size_t)(end - at));
    if (!before) {
        s->out.failed = true;
        return;
    }
    memcpy(before, s->hoisted + at, (size_t)(end - at));
    hoist(s, at);
    known_forget(s, at, end);
    scope mark = scope_begin(s);
    s->map[at] = ls_kout_append(&s->out, &ins);
    emit_region(s, at + 1, end);
    append_op(s, LS_K_END_LOOP);
    scope_end(s, mark);
    memcpy(s->hoisted + at, before, (size_t)(end - at));
    ls_free(s->heap, before);
}

static void emit_if(simplifier *s, ls_val at) {
    ls_ins ins = mapped(s, at);
    ls_val middle = s->match[at], end = s->k->body[middle].op == LS_K_ELSE ? s->match[middle] : middle;
    int64_t condition;
    if (const_value(s, ins.src[0], &condition)) {
        emit_region(s, condition ? at + 1 : middle + 1, condition ? middle : end);
        return;
    }
    ls_kout_append(&s->out, &ins);
    scope mark = scope_begin(s);
    emit_region(s, at + 1, middle);
    scope_end(s, mark);
    if (middle != end) {
        append_op(s, LS_K_ELSE);
        emit_region(s, middle + 1, end);
        scope_end(s, mark);
    }
    append_op(s, LS_K_END_IF);
    known_forget(s, at, end);
}

/* ---- single instructions ---- */

static ls_val emit_access(simplifier *s, ls_ins ins) {
    int slot = ins.op == LS_K_LOAD ? 1 : 2;
    int64_t holds;
    if (!const_value(s, ins.src[slot], &holds)) {
        return ls_kout_append(&s->out, &ins);
    }
    if (!holds && ins.op == LS_K_LOAD) {
        return ins.src[2];
    }
    if (!holds && ins.op == LS_K_STORE) {
        return LS_VAL_NONE;
    }
    if (holds) {
        ins.src[slot] = LS_VAL_NONE;
        ins.src[2] = LS_VAL_NONE; /* a load's else-value */
    }
    return ls_kout_append(&s->out, &ins);
}

static ls_val emit_variable(simplifier *s, ls_ins ins) {
    if (ins.op == LS_K_GET && known_get(s, ins.src[0]) != LS_VAL_NONE) {
        return known_get(s, ins.src[0]);
    }
    ls_val v = ls_kout_append(&s->out, &ins);
    if (!s->out.failed) {
        known_set(s, ins.op == LS_K_VAR ? v : ins.src[0],
                  ins.op == LS_K_VAR   ? ins.src[0]
                  : ins.op == LS_K_GET ? v
                                       : ins.src[1]);
    }
    return v;
}

static void emit_region(simplifier *s, ls_val first, ls_val end) {
    for (ls_val at = first; at < end && !s->out.failed; at++) {
        const ls_ins *old = &s->k->body[at];
        if (s->hoisted[at]) {
            continue;
        }
        if (old->op == LS_K_LOOP || old->op == LS_K_IF) {
            if (old->op == LS_K_LOOP) {
                emit_loop(s, at);
            } else {
                emit_if(s, at);
            }
            at = s->match[at];
            at = s->k->body[at].op == LS_K_ELSE ? s->match[at] : at;
            continue;
        }
        ls_ins ins = mapped(s, at);
        if (s->decided[at] >= 0) {
            ins =
                (ls_ins){LS_K_CONST, LS_BOOL, 1, 0, {LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE}, s->decided[at]};
        }
        bool variable = ins.op == LS_K_VAR || ins.op == LS_K_GET || ins.op == LS_K_SET;
        s->map[at] = variable                               ? emit_variable(s, ins)
                     : ls_kops[ins.op].kind == LS_KC_MEMORY ? emit_access(s, ins)
                                                            : ls_kout_add(&s->out, ins);
    }
}

/* ---- comparisons that ranges decide ---- */

static int8_t decide(ls_ranges *ranges, const ls_kernel *k, ls_val at) {
    const ls_ins *ins = &k->body[at];
    if ((ins->op != LS_K_LT && ins->op != LS_K_LE) || ins->lanes != 1 ||
        ls_dtype_is_float((ls_dtype)k->body[ins->src[0]].dtype)) {
        return -1;
    }
    ls_range a = ls_ranges_of(ranges, ins->src[0]), b = ls_ranges_of(ranges, ins->src[1]);
    int margin = ins->op == LS_K_LT;
    if (a.lo > a.hi || b.lo > b.hi) {
        return -1;
    }
    return a.hi + margin <= b.lo ? 1 : a.lo + margin > b.hi ? 0 : -1;
}

static ls_status decide_all(simplifier *s, ls_error *err) {
    ls_ranges *ranges = ls_ranges_create(s->heap, s->k);
    int32_t marks[80];
    ls_val opener[80];
    int depth = 0;
    bool ok = ranges != NULL;
    for (ls_val at = 0; at < s->k->n_body && ok; at++) {
        const ls_ins *ins = &s->k->body[at];
        s->decided[at] = decide(ranges, s->k, at);
        if (ins->op == LS_K_IF || ins->op == LS_K_LOOP) {
            opener[depth] = at;
            marks[depth++] = ls_ranges_mark(ranges);
            ok = ins->op == LS_K_LOOP || ls_ranges_assume(ranges, ins->src[0], true);
        } else if (ins->op == LS_K_ELSE) {
            ls_ranges_pop(ranges, marks[depth - 1]);
            ok = ls_ranges_assume(ranges, s->k->body[opener[depth - 1]].src[0], false);
        } else if (ins->op == LS_K_END_IF || ins->op == LS_K_END_LOOP) {
            ls_ranges_pop(ranges, marks[--depth]);
        }
    }
    ls_ranges_destroy(ranges);
    return ok ? LS_OK : LS_FAIL_MEMORY(err, "a simplifier");
}

/* ---- one round ---- */

static ls_status round_of(ls_heap *heap, const ls_kernel *k, const ls_simplify_options *options,
                          ls_ins **out_body, int32_t *out_n, ls_error *err) {
    size_t n = (size_t)k->n_body + 1;
    simplifier s = {.heap = heap, .k = k, .options = *options};
    s.match = ls_alloc_zeroed(heap, n * sizeof *s.match);
    s.map = ls_alloc_zeroed(heap, n * sizeof *s.map);
    s.hoisted = ls_alloc_zeroed(heap, n * sizeof *s.hoisted);
    s.decided = ls_alloc_zeroed(heap, n * sizeof *s.decided);
    bool ready = ls_kout_init(&s.out, heap, k->n_body) && s.match && s.map && s.hoisted && s.decided;
    ls_status status = ready ? decide_all(&s, err) : LS_FAIL_MEMORY(err, "a simplifier");
    if (status == LS_OK) {
        ls_kir_match(k->body, k->n_body, s.match);
        emit_region(&s, 0, k->n_body);
        status = s.out.failed ? LS_FAIL_MEMORY(err, "a simplifier") : LS_OK;
    }
    if (status == LS_OK) {
        *out_body = s.out.body.data;
        *out_n = (int32_t)s.out.body.len;
        s.out.body.data = NULL; /* handed over */
        status = ls_kir_order(heap, out_body, out_n, err);
    }
    ls_kout_free(&s.out);
    ls_array_free(heap, &s.known);
    ls_array_free(heap, &s.changes);
    ls_free(heap, s.match);
    ls_free(heap, s.map);
    ls_free(heap, s.hoisted);
    ls_free(heap, s.decided);
    return status;
}

static bool same_body(const ls_kernel *k, const ls_ins *body, int32_t n) {
    for (int32_t i = 0; i < n && n == k->n_body; i++) {
        if (!same_ins(&k->body[i], &body[i])) {
            return false;
        }
    }
    return n == k->n_body;
}

ls_status ls_kernel_simplify(ls_arena *arena, const ls_kernel *kernel, const ls_simplify_options *options,
                             ls_kernel *out_kernel, ls_error *err) {
    ls_simplify_options o = options ? *options : (ls_simplify_options){0, 0};
    o.unroll_trips = o.unroll_trips ? o.unroll_trips : 4;
    o.max_body = o.max_body ? o.max_body : 20000;
    ls_heap *heap = arena->heap;
    ls_kernel now = *kernel;
    ls_ins *held = NULL;
    ls_status status = LS_OK;
    for (int round = 0; round < 4 && status == LS_OK; round++) {
        ls_ins *body = NULL;
        int32_t n = 0;
        status = round_of(heap, &now, &o, &body, &n, err);
        bool settled = status != LS_OK || same_body(&now, body, n);
        ls_free(heap, held);
        held = body;
        now.body = body;
        now.n_body = n;
        if (settled) {
            break;
        }
    }
    if (status == LS_OK) {
        now.body = ls_arena_copy(arena, held, (size_t)now.n_body * sizeof *held);
        status = now.body ? LS_OK : LS_FAIL_MEMORY(err, "a simplified kernel");
    }
    ls_free(heap, held);
    if (status != LS_OK) {
        return LS_FORWARD(err, status);
    }
    *out_kernel = now;
    return LS_OK;
}
