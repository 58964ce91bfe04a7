/* Interval analysis over the body. Soundness: facts narrow only values that are in scope where they are assumed, and the
 * ranges of variables are taken without facts, because a variable may have been set under other conditions. Whatever may
 * wrap has its type's whole range. */
#include "kir/range.h"
#include "base/array.h"

enum { DEPTH_MAX = 1000, SELECTS_MAX = 3, WORK_MAX = 1000 };

/* Either a narrower range of a value, or (with a limit) that value < limit. */
typedef struct fact {
    ls_val value, limit;
    ls_range before; /* what narrowed[value] was */
    bool had;
} fact;

struct ls_ranges {
    ls_heap *heap;
    const ls_kernel *kernel;
    ls_range *narrowed, *memo, *plain; /* by value: by facts; under the facts now; without facts */
    uint32_t *memo_stamp;
    bool *has_fact, *has_plain;
    ls_val *next_set; /* by SET: the next one of its variable; by VAR: the first */
    uint32_t stamp, last_stamp; /* of the facts now; the last one given */
    int depth;
    int selects; /* branches of nested selects that facts are assumed for */
    int work;    /* values looked at under such facts, for one question: chains of selects would take exponential time */
    bool without_facts, failed;
    LS_ARRAY(fact) facts;
};

static ls_range range_of(ls_ranges *r, ls_val v);

static ls_wide gcd(ls_wide a, ls_wide b) {
    a = a < 0 ? -a : a;
    b = b < 0 ? -b : b;
    while (b) {
        ls_wide t = a % b;
        a = b;
        b = t;
    }
    return a;
}

static ls_range full(ls_dtype t) {
    if (t == LS_BOOL) {
        return (ls_range){0, 1, 1};
    }
    ls_wide one = 1;
    int bits = ls_dtype_bits(t);
    return ls_dtype_is_signed_int(t) ? (ls_range){-(one << (bits - 1)), (one << (bits - 1)) - 1, 1}
                                 : (ls_range){0, (one << bits) - 1, 1};
}

static ls_range exactly(ls_wide v) {
    return (ls_range){v, v, v < 0 ? -v : v};
}

ls_ranges *ls_ranges_create(ls_heap *heap, const ls_kernel *kernel) {
    ls_ranges *r = ls_alloc_zeroed(heap, sizeof *r);
    if (!r) {
        return NULL;
    }
    size_t n = (size_t)kernel->n_body + 1;
    r->heap = heap;
    r->kernel = kernel;
    r->narrowed = ls_alloc(heap, n * sizeof *r->narrowed);
    r->memo = ls_alloc(heap, n * sizeof *r->memo);
    r->plain = ls_alloc(heap, n * sizeof *r->plain);
    r->memo_stamp = ls_alloc_zeroed(heap, n * sizeof *r->memo_stamp);
    r->has_fact = ls_alloc_zeroed(heap, n * sizeof *r->has_fact);
    r->has_plain = ls_alloc_zeroed(heap, n * sizeof *r->has_plain);
    r->next_set = ls_alloc(heap, n * sizeof *r->next_set);
    r->stamp = r->last_stamp = 1;
    if (!r->narrowed || !r->memo || !r->plain || !r->memo_stamp || !r->has_fact || !r->has_plain ||
        !r->next_set) {
        ls_ranges_destroy(r);
        return NULL;
    }
    for (int32_t i = 0; i < kernel->n_body; i++) {
        const ls_ins *ins = &kernel->body[i];
        r->next_set[i] = LS_VAL_NONE;
        if (ins->op == LS_K_SET) {
            r->next_set[i] = r->next_set[ins->src[0]];
            r->next_set[ins->src[0]] = i;
        }
    }
    return r;
}

void ls_ranges_destroy(ls_ranges *r) {
    if (r) {
        ls_free(r->heap, r->narrowed);
        ls_free(r->heap, r->memo);
        ls_free(r->heap, r->plain);
        ls_free(r->heap, r->memo_stamp);
        ls_free(r->heap, r->has_fact);
        ls_free(r->heap, r->has_plain);
        ls_free(r->heap, r->next_set);
        ls_array_free(r->heap, &r->facts);
        ls_free(r->heap, r);
    }
}

/* ---- one function an instruction ---- */

static ls_range add(ls_range a, ls_range b) {
    return (ls_range){a.lo + b.lo, a.hi + b.hi, gcd(a.divisor, b.divisor)};
}

static ls_range multiply(ls_range a, ls_range b) {
    ls_wide p[4], d;
    if (__builtin_mul_overflow(a.lo, b.lo, &p[0]) || __builtin_mul_overflow(a.lo, b.hi, &p[1]) ||
        __builtin_mul_overflow(a.hi, b.lo, &p[2]) || __builtin_mul_overflow(a.hi, b.hi, &p[3])) {
        return (ls_range){-((ls_wide)1 << 100), (ls_wide)1 << 100, 1}; /* more than any type has */
    }
    ls_range out = {p[0], p[0], 0};
    for (int i = 1; i < 4; i++) {
        out.lo = p[i] < out.lo ? p[i] : out.lo;
        out.hi = p[i] > out.hi ? p[i] : out.hi;
    }
    out.divisor = __builtin_mul_overflow(a.divisor, b.divisor, &d) ? 1 : d;
    return out;
}

static ls_range divide(ls_range a, ls_range b) {
    if (b.lo < 1) {
        ls_wide m = a.hi > -a.lo ? a.hi : -a.lo;
        return (ls_range){-m, m, 1};
    }
    ls_range out = {a.lo / (a.lo < 0 ? b.lo : b.hi), a.hi / (a.hi < 0 ? b.hi : b.lo), 1};
    if (b.lo == b.hi && a.divisor % b.lo == 0) {
        out.divisor = a.divisor / b.lo;
    }
    return out;
}

static ls_range remainder_of(ls_range a, ls_range b) {
    ls_wide m = b.hi > -b.lo ? b.hi : -b.lo;
    ls_wide top = m > 0 ? m - 1 : 0;
    ls_range out = {a.lo < -top ? -top : a.lo < 0 ? a.lo : 0, a.hi > top ? top : a.hi > 0 ? a.hi : 0, 1};
    if (b.lo == b.hi && b.lo > 0) {
        if (a.lo >= 0 && a.hi < b.lo) {
            return a;
        }
        out.divisor = gcd(a.divisor, b.lo);
    }
    return out;
}

static ls_range bits_and(ls_range a, ls_range b) {
    ls_wide top = -1;
    if (a.lo >= 0) {
        top = a.hi;
    }
    if (b.lo >= 0 && (top < 0 || b.hi < top)) {
        top = b.hi;
    }
    ls_range out = {top < 0 ? (a.lo < b.lo ? a.lo : b.lo) * 2 : 0,
                    top < 0 ? (a.hi > b.hi ? a.hi : b.hi) : top, 1};
    ls_wide mask = b.lo == b.hi ? b.lo : a.lo == a.hi ? a.lo : 0;
    if (mask > 0) {
        out.divisor = mask & -mask;
    }
    return out;
}

static ls_range bits_or(ls_range a, ls_range b) {
    if (a.lo < 0 || b.lo < 0) {
        return (ls_range){1, 0, 1}; /* taken as whole by the caller's check */
    }
    ls_wide top = 1, most = a.hi > b.hi ? a.hi : b.hi;
    while (top <= most) {
        top *= 2;
    }
    return (ls_range){0, top - 1, 1};
}

static ls_range loop_range(ls_ranges *r, const ls_ins *ins) {
    ls_range lo = range_of(r, ins->src[0]), hi = range_of(r, ins->src[1]), step = range_of(r, ins->src[2]);
    ls_range out = {lo.lo, hi.hi - 1, gcd(lo.divisor, step.divisor)};
    if (lo.lo == lo.hi && step.lo == step.hi && step.lo > 0 && out.hi >= out.lo) {
        out.hi = out.lo + (out.hi - out.lo) / step.lo * step.lo;
    }
    return out;
}

static ls_range variable_range(ls_ranges *r, ls_val var) {
    bool outer = r->without_facts;
    r->without_facts = true;
    ls_range out = range_of(r, r->kernel->body[var].src[0]);
    for (ls_val set = r->next_set[var]; set >= 0; set = r->next_set[set]) {
        ls_range v = range_of(r, r->kernel->body[set].src[1]);
        out.lo = v.lo < out.lo ? v.lo : out.lo;
        out.hi = v.hi > out.hi ? v.hi : out.hi;
        out.divisor = gcd(out.divisor, v.divisor);
    }
    r->without_facts = outer;
    return out;
}

static ls_range id_range(const ls_kernel *k, const ls_ins *ins) {
    int threads = ls_kernel_threads(k);
    const ls_kgrid *g = &k->grid[ins->arg];
    ls_wide units = (ls_wide)g->scale * (g->param < 0 ? 1 : k->params[g->param].hi);
    ls_wide groups = units <= 0 ? 1 : (units - 1) / g->divisor + 1;
    ls_wide top = ins->op == LS_K_GROUP_ID      ? groups - 1
                  : ins->op == LS_K_LOCAL_ID    ? k->workgroup[ins->arg] - 1
                  : ins->op == LS_K_LANE_ID     ? (threads < 128 ? threads : 128) - 1
                  : ins->op == LS_K_SUBGROUP_ID ? threads - 1
                                                : 128;
    return (ls_range){ins->op == LS_K_SUBGROUP_SIZE, top, top == 0 ? 0 : 1};
}

#define SRC(i) range_of(r, ins->src[i])
#define RANGE(ID) static ls_range range_##ID(ls_ranges *r, const ls_ins *ins)

RANGE(CONST) {
    (void)r;
    return exactly(ins->dtype == LS_U64 ? (ls_wide)(uint64_t)ins->arg : (ls_wide)ins->arg);
}
RANGE(PARAM) {
    const ls_kparam *p = &r->kernel->params[ins->arg];
    return p->lo == p->hi ? exactly(p->lo) : (ls_range){p->lo, p->hi, 1};
}
RANGE(ids) {
    return id_range(r->kernel, ins);
}
RANGE(LOOP) {
    return loop_range(r, ins);
}
RANGE(GET) {
    return variable_range(r, ins->src[0]);
}
RANGE(ADD) {
    return add(SRC(0), SRC(1));
}
RANGE(SUB) {
    ls_range b = SRC(1);
    return add(SRC(0), (ls_range){-b.hi, -b.lo, b.divisor});
}
RANGE(MUL) {
    return multiply(SRC(0), SRC(1));
}
RANGE(DIV) {
    return divide(SRC(0), SRC(1));
}
RANGE(REM) {
    return remainder_of(SRC(0), SRC(1));
}
RANGE(NEG) {
    ls_range a = SRC(0);
    return (ls_range){-a.hi, -a.lo, a.divisor};
}
RANGE(ABS) {
    ls_range a = SRC(0);
    ls_wide top = a.hi > -a.lo ? a.hi : -a.lo;
    return (ls_range){a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, top, a.divisor};
}
RANGE(MIN) {
    ls_range a = SRC(0), b = SRC(1);
    return (ls_range){a.lo < b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi, gcd(a.divisor, b.divisor)};
}
RANGE(MAX) {
    ls_range a = SRC(0), b = SRC(1);
    return (ls_range){a.lo > b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi, gcd(a.divisor, b.divisor)};
}
RANGE(AND) {
    return bits_and(SRC(0), SRC(1));
}
RANGE(OR) {
    ls_range out = bits_or(SRC(0), SRC(1));
    return out.lo > out.hi ? full((ls_dtype)ins->dtype) : out;
}
RANGE(SHL) {
    ls_range b = SRC(1);
    return b.lo == b.hi && b.lo >= 0 && b.lo < 62 ? multiply(SRC(0), exactly((ls_wide)1 << b.lo))
                                                  : full((ls_dtype)ins->dtype);
}
RANGE(SHR) {
    ls_range a = SRC(0), b = SRC(1);
    if (b.lo != b.hi || b.lo < 0 || b.lo > 63) {
        return full((ls_dtype)ins->dtype);
    }
    ls_wide unit = (ls_wide)1 << b.lo;
    return (ls_range){a.lo >> b.lo, a.hi >> b.lo, a.divisor % unit == 0 ? a.divisor / unit : 1};
}
/* One branch of a select, under its condition. */
static ls_range branch_range(ls_ranges *r, const ls_ins *ins, bool truth) {
    ls_val value = ins->src[truth ? 1 : 2];
    if (r->without_facts || r->selects == SELECTS_MAX || r->work > WORK_MAX) {
        return range_of(r, value);
    }
    int32_t mark = ls_ranges_mark(r);
    uint32_t stamp = r->stamp;
    r->selects++;
    r->failed = !ls_ranges_assume(r, ins->src[0], truth) || r->failed;
    ls_range out = range_of(r, value);
    r->selects--;
    ls_ranges_pop(r, mark);
    r->stamp = stamp; /* the facts are again what they were */
    return r->work > WORK_MAX ? range_of(r, value) : out;
}
RANGE(SELECT) {
    ls_range a = branch_range(r, ins, true), b = branch_range(r, ins, false);
    if (a.lo > a.hi || b.lo > b.hi) {
        return a.lo > a.hi ? b : a; /* that branch is never taken */
    }
    return (ls_range){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi, gcd(a.divisor, b.divisor)};
}
RANGE(CAST) {
    return ls_dtype_is_float((ls_dtype)r->kernel->body[ins->src[0]].dtype) ? full((ls_dtype)ins->dtype)
                                                                           : SRC(0);
}
RANGE(POPCOUNT) {
    (void)r;
    return (ls_range){0, ls_dtype_bits((ls_dtype)ins->dtype), 1};
}

typedef ls_range (*range_fn)(ls_ranges *, const ls_ins *);
/* Instructions without a row here have the range of their type. */
static const range_fn range_fns[LS_K_COUNT] = {
    [LS_K_CONST] = range_CONST,       [LS_K_PARAM] = range_PARAM,     [LS_K_GROUP_ID] = range_ids,
    [LS_K_LOCAL_ID] = range_ids,      [LS_K_SUBGROUP_ID] = range_ids, [LS_K_LANE_ID] = range_ids,
    [LS_K_SUBGROUP_SIZE] = range_ids, [LS_K_LOOP] = range_LOOP,       [LS_K_GET] = range_GET,
    [LS_K_ADD] = range_ADD,           [LS_K_SUB] = range_SUB,         [LS_K_MUL] = range_MUL,
    [LS_K_DIV] = range_DIV,           [LS_K_REM] = range_REM,         [LS_K_NEG] = range_NEG,
    [LS_K_ABS] = range_ABS,           [LS_K_MIN] = range_MIN,         [LS_K_MAX] = range_MAX,
    [LS_K_AND] = range_AND,           [LS_K_OR] = range_OR,           [LS_K_XOR] = range_OR,
    [LS_K_SHL] = range_SHL,           [LS_K_SHR] = range_SHR,         [LS_K_SELECT] = range_SELECT,
    [LS_K_CAST] = range_CAST,         [LS_K_BITCAST] = range_CAST,    [LS_K_POPCOUNT] = range_POPCOUNT,
};

static ls_range clip(ls_range v, ls_dtype t) {
    ls_range whole = full(t);
    if (v.lo > v.hi) {
        return v; /* never reached */
    }
    if (v.lo < whole.lo || v.hi > whole.hi) {
        return whole; /* may wrap */
    }
    return v;
}

/* The bounds moved inwards to multiples of the divisor. */
static ls_range tighten(ls_range v) {
    if (v.divisor > 1 && v.lo <= v.hi) {
        ls_wide up = v.lo % v.divisor, down = v.hi % v.divisor;
        v.lo += up > 0 ? v.divisor - up : -up;
        v.hi -= down < 0 ? v.divisor + down : down;
    }
    return v;
}

static ls_range compute(ls_ranges *r, ls_val v) {
    const ls_ins *ins = &r->kernel->body[v];
    ls_dtype t = (ls_dtype)ins->dtype;
    r->work += r->selects > 0;
    bool enough = r->selects > 0 && r->work > WORK_MAX;
    if (!range_fns[ins->op] || ins->lanes != 1 || ls_dtype_is_float(t) || r->depth > DEPTH_MAX || enough) {
        return ls_dtype_is_float(t) ? (ls_range){0, 0, 1} : full(t);
    }
    r->depth++;
    bool reached = true;
    for (int i = 0; i < ls_kops[ins->op].sources; i++) {
        ls_range source = range_of(r, ins->src[i]);
        reached = reached && source.lo <= source.hi;
    }
    ls_range out = reached ? clip(range_fns[ins->op](r, ins), t) : (ls_range){1, 0, 1};
    r->depth--;
    return tighten(out);
}

static ls_range range_of(ls_ranges *r, ls_val v) {
    if (r->without_facts) {
        if (!r->has_plain[v]) {
            r->has_plain[v] = true; /* a cycle through a variable meets this: its type's range */
            r->plain[v] = ls_dtype_is_float((ls_dtype)r->kernel->body[v].dtype)
                              ? (ls_range){0, 0, 1}
                              : full((ls_dtype)r->kernel->body[v].dtype);
            r->plain[v] = compute(r, v);
        }
        return r->plain[v];
    }
    if (r->memo_stamp[v] != r->stamp) {
        ls_range out = compute(r, v);
        if (r->has_fact[v]) {
            ls_range n = r->narrowed[v];
            out.lo = n.lo > out.lo ? n.lo : out.lo;
            out.hi = n.hi < out.hi ? n.hi : out.hi;
            out = tighten(out);
        }
        r->memo[v] = out;
        r->memo_stamp[v] = r->stamp;
    }
    return r->memo[v];
}

ls_range ls_ranges_of(ls_ranges *r, ls_val value) {
    r->work = 0;
    return range_of(r, value);
}

/* ---- facts ---- */

bool ls_ranges_failed(const ls_ranges *r) {
    return r->failed;
}

int32_t ls_ranges_mark(const ls_ranges *r) {
    return (int32_t)r->facts.len;
}

void ls_ranges_pop(ls_ranges *r, int32_t mark) {
    if (r->facts.len == (size_t)mark) {
        return;
    }
    while (r->facts.len > (size_t)mark) {
        fact f = r->facts.data[--r->facts.len];
        if (f.limit == LS_VAL_NONE) {
            r->narrowed[f.value] = f.before;
            r->has_fact[f.value] = f.had;
        }
    }
    r->stamp = ++r->last_stamp;
}

static bool narrow_value(ls_ranges *r, ls_val v, ls_wide lo, ls_wide hi);

static bool is_const(const ls_ranges *r, ls_val v) {
    return r->kernel->body[v].op == LS_K_CONST;
}

/* What a range of v says about the value v was made from, where nothing wraps. */
static bool narrow_sources(ls_ranges *r, ls_val v, ls_wide lo, ls_wide hi) {
    const ls_ins *ins = &r->kernel->body[v];
    ls_range whole = full((ls_dtype)ins->dtype);
    if ((ins->op == LS_K_ADD || ins->op == LS_K_SUB) && is_const(r, ins->src[1])) {
        ls_wide c = ins->op == LS_K_ADD ? r->kernel->body[ins->src[1]].arg
                                        : -(ls_wide)r->kernel->body[ins->src[1]].arg;
        ls_range a = range_of(r, ins->src[0]);
        return a.lo + c < whole.lo || a.hi + c > whole.hi || narrow_value(r, ins->src[0], lo - c, hi - c);
    }
    if (ins->op == LS_K_MUL && is_const(r, ins->src[1]) && r->kernel->body[ins->src[1]].arg > 0) {
        ls_wide c = r->kernel->body[ins->src[1]].arg;
        ls_range a = range_of(r, ins->src[0]);
        if (a.lo * c < whole.lo || a.hi * c > whole.hi) {
            return true;
        }
        ls_wide down = hi >= 0 ? hi / c : -((-hi + c - 1) / c), up = lo >= 0 ? (lo + c - 1) / c : -(-lo / c);
        return narrow_value(r, ins->src[0], up, down);
    }
    ls_dtype from = ins->src[0] >= 0 ? (ls_dtype)r->kernel->body[ins->src[0]].dtype : LS_BOOL;
    if ((ins->op == LS_K_CAST || ins->op == LS_K_BITCAST) && !ls_dtype_is_float(from)) {
        ls_range a = range_of(r, ins->src[0]);
        bool same_width = ls_dtype_bits(from) == ls_dtype_bits((ls_dtype)ins->dtype);
        if (same_width && ls_dtype_is_signed_int(from) && hi <= full(from).hi) {
            return narrow_value(r, ins->src[0], lo,
                                hi); /* read as unsigned, a negative number would be larger */
        }
        return a.lo < whole.lo || a.hi > whole.hi || narrow_value(r, ins->src[0], lo, hi);
    }
    return true;
}

static bool narrow_value(ls_ranges *r, ls_val v, ls_wide lo, ls_wide hi) {
    if (is_const(r, v)) {
        return true;
    }
    ls_range now = range_of(r, v);
    if (lo <= now.lo && hi >= now.hi) {
        return true; /* nothing new */
    }
    fact f = {v, LS_VAL_NONE, r->has_fact[v] ? r->narrowed[v] : now, r->has_fact[v]};
    if (!ls_array_push(r->heap, &r->facts, f)) {
        return false;
    }
    r->narrowed[v] = (ls_range){lo > now.lo ? lo : now.lo, hi < now.hi ? hi : now.hi, now.divisor};
    r->has_fact[v] = true;
    r->stamp = ++r->last_stamp;
    return narrow_sources(r, v, r->narrowed[v].lo, r->narrowed[v].hi);
}

/* a < b when `margin` is 1, a <= b when it is 0 */
static bool assume_order(ls_ranges *r, ls_val a, ls_val b, int margin) {
    ls_range ra = range_of(r, a), rb = range_of(r, b);
    if (!narrow_value(r, a, ra.lo, rb.hi - margin) || !narrow_value(r, b, ra.lo + margin, rb.hi)) {
        return false;
    }
    fact below = {a, b, ra, false};
    return !margin || ls_array_push(r->heap, &r->facts, below);
}

bool ls_ranges_assume(ls_ranges *r, ls_val condition, bool truth) {
    const ls_ins *ins = &r->kernel->body[condition];
    if (ins->dtype != LS_BOOL || ins->lanes != 1) {
        return true;
    }
    if (ins->op == LS_K_NOT) {
        return ls_ranges_assume(r, ins->src[0], !truth);
    }
    if ((ins->op == LS_K_AND && truth) || (ins->op == LS_K_OR && !truth)) {
        return ls_ranges_assume(r, ins->src[0], truth) && ls_ranges_assume(r, ins->src[1], truth);
    }
    bool compares = ins->op == LS_K_LT || ins->op == LS_K_LE || ins->op == LS_K_EQ || ins->op == LS_K_NE;
    if (!compares || ls_dtype_is_float((ls_dtype)r->kernel->body[ins->src[0]].dtype)) {
        return true;
    }
    ls_val a = ins->src[0], b = ins->src[1];
    if (ins->op == LS_K_LT || ins->op == LS_K_LE) {
        int strict = ins->op == LS_K_LT;
        return truth ? assume_order(r, a, b, strict) : assume_order(r, b, a, !strict);
    }
    if ((ins->op == LS_K_EQ) != truth) {
        return true;
    }
    return assume_order(r, a, b, 0) && assume_order(r, b, a, 0);
}

static bool is_scaled_param(const ls_kernel *k, ls_val v, int64_t scale, int param) {
    const ls_ins *ins = &k->body[v];
    if (ins->op == LS_K_CAST) {
        ins = &k->body[ins->src[0]];
    }
    if (ins->op == LS_K_MUL) {
        const ls_ins *a = &k->body[ins->src[0]], *b = &k->body[ins->src[1]];
        const ls_ins *c = a->op == LS_K_CONST ? a : b, *p = a->op == LS_K_CONST ? b : a;
        return c->op == LS_K_CONST && c->arg == scale && p->op == LS_K_PARAM && p->arg == param;
    }
    return scale == 1 && ins->op == LS_K_PARAM && ins->arg == param;
}

bool ls_ranges_below(ls_ranges *r, ls_val value, int64_t scale, int param) {
    for (size_t i = 0; i < r->facts.len; i++) {
        const fact *f = &r->facts.data[i];
        if (f->limit != LS_VAL_NONE && f->value == value &&
            is_scaled_param(r->kernel, f->limit, scale, param)) {
            return true;
        }
    }
    return false;
}
