/* Index expressions: hash-consed, in one normal form, with ranges. Invariants: every function keeps the
 * value of what it simplifies at every point where all divisors are positive; ranges hold over all axes at
 * their bounds. */
#include "base/number.h"
#include "spec/build.h"
#include <string.h>

void ls_builder_fail(ls_spec_builder *b, ls_status status) {
    if (b->status == LS_OK) {
        b->status = status;
    }
}

bool ls_builder_grow(ls_spec_builder *b, void **data, int *cap, int len, size_t elem) {
    if (len < *cap) {
        return true;
    }
    int grown = *cap < 16 ? 16 : *cap * 2;
    void *fresh = ls_arena_alloc(b->arena, (size_t)grown * elem);
    if (!fresh) {
        ls_builder_fail(b, LS_FAIL_MEMORY(b->err, "a kernel's spec"));
        return false;
    }
    if (len) {
        memcpy(fresh, *data, (size_t)len * elem);
    }
    *data = fresh;
    *cap = grown;
    return true;
}

static bool table_grow(ls_spec_builder *b, ls_id_table *table) {
    int cap = table->cap ? table->cap * 2 : 64;
    int32_t *slots = LS_ARENA_ARRAY(b->arena, int32_t, cap);
    uint64_t *hashes = LS_ARENA_ARRAY(b->arena, uint64_t, cap);
    if (!slots || !hashes) {
        ls_builder_fail(b, LS_FAIL_MEMORY(b->err, "a kernel's spec"));
        return false;
    }
    for (int i = 0; i < table->cap; i++) {
        if (table->slots[i]) {
            int j = (int)(table->hashes[i] & (uint64_t)(cap - 1));
            while (slots[j]) {
                j = (j + 1) & (cap - 1);
            }
            slots[j] = table->slots[i];
            hashes[j] = table->hashes[i];
        }
    }
    table->slots = slots;
    table->hashes = hashes;
    table->cap = cap;
    return true;
}

int32_t *ls_id_table_slot(ls_spec_builder *b, ls_id_table *table, uint64_t hash, ls_id_equal equal,
                          const void *key) {
    if (2 * (table->len + 1) > table->cap && !table_grow(b, table)) {
        return NULL;
    }
    int i = (int)(hash & (uint64_t)(table->cap - 1));
    while (table->slots[i]) {
        if (table->hashes[i] == hash && equal(b, table->slots[i] - 1, key)) {
            return &table->slots[i];
        }
        i = (i + 1) & (table->cap - 1);
    }
    table->hashes[i] = hash;
    table->len++;
    return &table->slots[i];
}

/* ---- ranges ---- */
int64_t ls_sat_add(int64_t a, int64_t b) {
    int64_t r;
    if (a == INT64_MIN || a == INT64_MAX) {
        return a;
    }
    if (b == INT64_MIN || b == INT64_MAX) {
        return b;
    }
    return __builtin_add_overflow(a, b, &r) ? (a < 0 ? INT64_MIN : INT64_MAX) : r;
}

int64_t ls_sat_mul(int64_t a, int64_t b) {
    int64_t r;
    if (a == 0 || b == 0) {
        return 0;
    }
    bool unknown = a == INT64_MIN || a == INT64_MAX || b == INT64_MIN || b == INT64_MAX;
    return unknown || __builtin_mul_overflow(a, b, &r) ? ((a < 0) != (b < 0) ? INT64_MIN : INT64_MAX) : r;
}

static int64_t sat_div(int64_t a, int64_t b) {
    return a == INT64_MIN || a == INT64_MAX ? a : b == INT64_MAX ? (a < 0 ? -1 : 0) : ls_floor_div(a, b);
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static void range_of(const ls_spec *spec, ls_ix *x) {
    const ls_ix *a = &spec->ix[x->op >= LS_IX_ADD ? x->a : 0], *b = &spec->ix[x->op >= LS_IX_ADD ? x->b : 0];
    int64_t p[4];
    x->lo = INT64_MIN;
    x->hi = INT64_MAX;
    if (x->op == LS_IX_CONST) {
        x->lo = x->hi = x->k;
    } else if (x->op == LS_IX_AXIS) {
        x->lo = 0;
        x->hi = most(ls_dim_bound(spec->extents_of_axes[x->a]) - 1, 0);
    } else if (x->op == LS_IX_DIM) {
        x->lo = spec->dims[x->a].symbol ? spec->dims[x->a].offset : ls_dim_bound(spec->dims[x->a]);
        x->hi = ls_dim_bound(spec->dims[x->a]);
    } else if (x->op == LS_IX_ADD) {
        x->lo = ls_sat_add(a->lo, b->lo);
        x->hi = ls_sat_add(a->hi, b->hi);
        x->lo = a->lo == INT64_MIN || b->lo == INT64_MIN ? INT64_MIN : x->lo;
        x->hi = a->hi == INT64_MAX || b->hi == INT64_MAX ? INT64_MAX : x->hi;
    } else if (x->op == LS_IX_MUL) {
        p[0] = ls_sat_mul(a->lo, b->lo), p[1] = ls_sat_mul(a->lo, b->hi);
        p[2] = ls_sat_mul(a->hi, b->lo), p[3] = ls_sat_mul(a->hi, b->hi);
        x->lo = least(least(p[0], p[1]), least(p[2], p[3]));
        x->hi = most(most(p[0], p[1]), most(p[2], p[3]));
    } else if (x->op == LS_IX_DIV) {
        int64_t dlo = most(b->lo, 1), dhi = most(b->hi, 1);
        p[0] = sat_div(a->lo, dlo), p[1] = sat_div(a->lo, dhi);
        p[2] = sat_div(a->hi, dlo), p[3] = sat_div(a->hi, dhi);
        x->lo = least(p[0], p[1]);
        x->hi = most(p[2], p[3]);
    } else if (x->op == LS_IX_MOD) {
        x->lo = 0;
        x->hi = b->hi == INT64_MAX ? INT64_MAX : most(b->hi - 1, 0);
        if (a->lo >= 0) {
            x->hi = least(x->hi, a->hi);
        }
    }
}

/* ---- making nodes ---- */
static bool ix_equal(const ls_spec_builder *b, int32_t id, const void *key) {
    const ls_ix *x = key, *y = &b->spec->ix[id];
    return x->op == y->op && x->a == y->a && x->b == y->b && x->k == y->k;
}

static int32_t ix_node(ls_spec_builder *b, ls_ix_op op, int32_t a, int32_t c, int64_t k) {
    ls_spec *spec = b->spec;
    ls_ix x = {.op = (uint8_t)op, .a = a, .b = c, .k = k};
    uint64_t hash =
        ls_hash_u64((uint64_t)op, ls_hash_u64((uint64_t)(uint32_t)a << 32 | (uint32_t)c, (uint64_t)k));
    if (b->status != LS_OK ||
        !ls_builder_grow(b, (void **)&spec->ix, &b->cap_ix, spec->n_ix, sizeof(ls_ix))) {
        return 0;
    }
    int32_t *slot = ls_id_table_slot(b, &b->ix_table, hash, ix_equal, &x);
    if (!slot) {
        return 0;
    }
    if (!*slot) {
        if (op == LS_IX_AXIS) {
            x.axes = (uint64_t)1 << a;
        } else if (op == LS_IX_VALUE) {
            x.axes = spec->values[a].axes;
        } else if (op >= LS_IX_ADD) {
            x.axes = spec->ix[a].axes | spec->ix[c].axes;
        }
        range_of(spec, &x);
        spec->ix[spec->n_ix] = x;
        *slot = ++spec->n_ix;
    }
    return *slot - 1;
}

int32_t ls_ix_const(ls_spec_builder *b, int64_t k) {
    return ix_node(b, LS_IX_CONST, 0, 0, k);
}

int32_t ls_ix_axis(ls_spec_builder *b, int axis) {
    return ls_dim_is_one(b->spec->extents_of_axes[axis]) ? ls_ix_const(b, 0) : ix_node(b, LS_IX_AXIS, axis, 0, 0);
}

int32_t ls_ix_value(ls_spec_builder *b, int32_t value) {
    return ix_node(b, LS_IX_VALUE, value, 0, 0);
}

/* Only the plain symbol becomes an atom, so that 2*B+1 and B combine. */
int32_t ls_ix_dim(ls_spec_builder *b, ls_dim dim) {
    ls_spec *spec = b->spec;
    if (ls_dim_is_fixed(dim)) {
        return ls_ix_const(b, dim.offset);
    }
    ls_dim plain = {dim.symbol, 1, 0};
    int i = 0;
    while (i < spec->n_dims && !ls_dim_equal(spec->dims[i], plain)) {
        i++;
    }
    if (i == spec->n_dims) {
        if (!ls_builder_grow(b, (void **)&spec->dims, &b->cap_dims, spec->n_dims, sizeof(ls_dim))) {
            return 0;
        }
        spec->dims[spec->n_dims++] = plain;
    }
    return ls_ix_add_const(b, ls_ix_scale(b, ix_node(b, LS_IX_DIM, i, 0, 0), dim.scale), dim.offset);
}

/* ---- linear forms ---- */
bool ls_lin_add_atom(ls_lin *out, int32_t atom, int64_t k) {
    int i = 0;
    while (i < out->n && out->t[i].atom < atom) {
        i++;
    }
    if (i < out->n && out->t[i].atom == atom) {
        if (__builtin_add_overflow(out->t[i].k, k, &out->t[i].k)) {
            return false;
        }
        if (out->t[i].k == 0) {
            memmove(&out->t[i], &out->t[i + 1], (size_t)(out->n - i - 1) * sizeof out->t[0]);
            out->n--;
        }
        return true;
    }
    if (k == 0) {
        return true;
    }
    if (out->n == LS_LIN_MAX) {
        return false;
    }
    memmove(&out->t[i + 1], &out->t[i], (size_t)(out->n - i) * sizeof out->t[0]);
    out->t[i].atom = atom;
    out->t[i].k = k;
    out->n++;
    return true;
}

bool ls_lin_add(ls_lin *out, const ls_lin *x, int64_t k) {
    int64_t c;
    if (__builtin_mul_overflow(x->c, k, &c) || __builtin_add_overflow(out->c, c, &out->c)) {
        return false;
    }
    for (int i = 0; i < x->n; i++) {
        if (__builtin_mul_overflow(x->t[i].k, k, &c) || !ls_lin_add_atom(out, x->t[i].atom, c)) {
            return false;
        }
    }
    return true;
}

static bool lin_collect(const ls_spec *spec, int32_t ix, int64_t k, ls_lin *out) {
    const ls_ix *x = &spec->ix[ix];
    int64_t c;
    if (x->op == LS_IX_CONST) {
        return !__builtin_mul_overflow(x->k, k, &c) && !__builtin_add_overflow(out->c, c, &out->c);
    }
    if (x->op == LS_IX_ADD) {
        return lin_collect(spec, x->a, k, out) && lin_collect(spec, x->b, k, out);
    }
    if (x->op == LS_IX_MUL && spec->ix[x->b].op == LS_IX_CONST) {
        return !__builtin_mul_overflow(spec->ix[x->b].k, k, &c) && lin_collect(spec, x->a, c, out);
    }
    return ls_lin_add_atom(out, ix, k);
}

bool ls_lin_of(const ls_spec *spec, int32_t ix, ls_lin *out) {
    out->n = 0;
    out->c = 0;
    return lin_collect(spec, ix, 1, out);
}

void ls_lin_range(const ls_spec *spec, const ls_lin *x, int64_t *out_lo, int64_t *out_hi) {
    int64_t lo = x->c, hi = x->c;
    for (int i = 0; i < x->n; i++) {
        const ls_ix *atom = &spec->ix[x->t[i].atom];
        int64_t k = x->t[i].k;
        int64_t p = ls_sat_mul(k > 0 ? atom->lo : atom->hi, k),
                q = ls_sat_mul(k > 0 ? atom->hi : atom->lo, k);
        lo = lo == INT64_MIN || p == INT64_MIN ? INT64_MIN : ls_sat_add(lo, p);
        hi = hi == INT64_MAX || q == INT64_MAX ? INT64_MAX : ls_sat_add(hi, q);
    }
    *out_lo = lo;
    *out_hi = hi;
}

static int32_t lin_make(ls_spec_builder *b, const ls_lin *x) {
    int32_t sum = LS_SPEC_NONE;
    for (int i = 0; i < x->n; i++) {
        int32_t term = x->t[i].atom;
        if (x->t[i].k != 1) {
            term = ix_node(b, LS_IX_MUL, term, ls_ix_const(b, x->t[i].k), 0);
        }
        sum = sum == LS_SPEC_NONE ? term : ix_node(b, LS_IX_ADD, sum, term, 0);
    }
    if (sum == LS_SPEC_NONE) {
        return ls_ix_const(b, x->c);
    }
    return x->c ? ix_node(b, LS_IX_ADD, sum, ls_ix_const(b, x->c), 0) : sum;
}

/* y mod d + d * (y div d) = y. */
static void lin_recombine(ls_spec_builder *b, ls_lin *x) {
    for (int i = 0; i < x->n; i++) {
        const ls_ix *atom = &b->spec->ix[x->t[i].atom];
        if (atom->op != LS_IX_MOD || x->n < 2) {
            continue;
        }
        int32_t mod = x->t[i].atom, y = atom->a, d = atom->b;
        int64_t k = x->t[i].k;
        ls_lin q, whole, next = *x;
        if (!ls_lin_of(b->spec, ls_ix_mul(b, ls_ix_div(b, y, d), d), &q) || !ls_lin_of(b->spec, y, &whole)) {
            continue;
        }
        bool found = q.n > 0;
        for (int j = 0; found && j < q.n; j++) {
            int at = 0;
            while (at < x->n && x->t[at].atom != q.t[j].atom) {
                at++;
            }
            int64_t want;
            found = at < x->n && !__builtin_mul_overflow(k, q.t[j].k, &want) && x->t[at].k == want;
        }
        if (found && ls_lin_add(&next, &q, -k) && ls_lin_add_atom(&next, mod, -k) &&
            ls_lin_add(&next, &whole, k)) {
            *x = next;
            i = -1;
        }
    }
}

static int32_t ix_sum(ls_spec_builder *b, int32_t x, int32_t y, int64_t k) {
    ls_lin sum, other;
    if (ls_lin_of(b->spec, x, &sum) && ls_lin_of(b->spec, y, &other) && ls_lin_add(&sum, &other, k)) {
        lin_recombine(b, &sum);
        return lin_make(b, &sum);
    }
    return ix_node(b, LS_IX_ADD, x, k == 1 ? y : ix_node(b, LS_IX_MUL, y, ls_ix_const(b, k), 0), 0);
}

int32_t ls_ix_add(ls_spec_builder *b, int32_t x, int32_t y) {
    return ix_sum(b, x, y, 1);
}

int32_t ls_ix_sub(ls_spec_builder *b, int32_t x, int32_t y) {
    return ix_sum(b, x, y, -1);
}

int32_t ls_ix_add_const(ls_spec_builder *b, int32_t x, int64_t k) {
    return k == 0 ? x : ls_ix_add(b, x, ls_ix_const(b, k));
}

int32_t ls_ix_scale(ls_spec_builder *b, int32_t x, int64_t k) {
    ls_lin sum = {0}, other;
    if (k == 1) {
        return x;
    }
    if (ls_lin_of(b->spec, x, &other) && ls_lin_add(&sum, &other, k)) {
        return lin_make(b, &sum);
    }
    return ix_node(b, LS_IX_MUL, x, ls_ix_const(b, k), 0);
}

/* A product of two non-constants is an atom; one with a sum is spread over its terms. */
int32_t ls_ix_mul(ls_spec_builder *b, int32_t x, int32_t y) {
    if (b->spec->ix[y].op == LS_IX_CONST) {
        return ls_ix_scale(b, x, b->spec->ix[y].k);
    }
    if (b->spec->ix[x].op == LS_IX_CONST) {
        return ls_ix_scale(b, y, b->spec->ix[x].k);
    }
    ls_lin p, q;
    if (ls_lin_of(b->spec, x, &p) && ls_lin_of(b->spec, y, &q) && p.n * q.n <= 8) {
        int32_t sum = ls_ix_const(b, 0);
        for (int i = 0; i <= p.n; i++) {
            for (int j = 0; j <= q.n; j++) {
                int64_t k = (i < p.n ? p.t[i].k : p.c) * (j < q.n ? q.t[j].k : q.c);
                int32_t u = i < p.n ? p.t[i].atom : q.t[j < q.n ? j : 0].atom, v = j < q.n ? q.t[j].atom : u;
                int32_t term = i < p.n && j < q.n   ? ix_node(b, LS_IX_MUL, u < v ? u : v, u < v ? v : u, 0)
                               : i < p.n || j < q.n ? u
                                                    : ls_ix_const(b, 1);
                sum = k ? ls_ix_add(b, sum, ls_ix_scale(b, term, k)) : sum;
            }
        }
        return sum;
    }
    return ix_node(b, LS_IX_MUL, x < y ? x : y, x < y ? y : x, 0);
}

/* Splits x = d * q + r, where r has the terms that d does not divide and a constant in [0, d). */
static bool lin_split(const ls_lin *x, int64_t d, ls_lin *q, ls_lin *r) {
    q->n = r->n = 0;
    q->c = ls_floor_div(x->c, d);
    r->c = x->c - q->c * d;
    for (int i = 0; i < x->n; i++) {
        bool divides = x->t[i].k % d == 0;
        if (!ls_lin_add_atom(divides ? q : r, x->t[i].atom, divides ? x->t[i].k / d : x->t[i].k)) {
            return false;
        }
    }
    return true;
}

/* Whether x div d is one number everywhere. */
static bool lin_quotient(const ls_spec *spec, const ls_lin *x, int64_t d, int64_t *out_q) {
    int64_t lo, hi;
    ls_lin_range(spec, x, &lo, &hi);
    if (lo == INT64_MIN || hi == INT64_MAX || ls_floor_div(lo, d) != ls_floor_div(hi, d)) {
        return false;
    }
    *out_q = ls_floor_div(lo, d);
    return true;
}

/* The largest g > 1 that divides d such that r = g * high + low with low div g one number `low_q`
 * everywhere. */
static int64_t lin_factor(const ls_spec *spec, const ls_lin *r, int64_t d, ls_lin *high, ls_lin *low,
                          int64_t *low_q) {
    int64_t best = 0;
    for (int i = 0; i < r->n; i++) {
        int64_t g = ls_gcd(r->t[i].k, d), q;
        ls_lin h, l;
        if (g > 1 && g > best && lin_split(r, g, &h, &l)) {
            ls_lin rest = l;
            rest.c += h.c * g;
            h.c = 0;
            if (lin_quotient(spec, &rest, g, &q)) {
                best = g;
                *high = h;
                *low = rest;
                *low_q = q;
            }
        }
    }
    return best;
}

static int32_t ix_div_const(ls_spec_builder *b, int32_t x, int64_t d);

static int32_t ix_mod_const(ls_spec_builder *b, int32_t x, int64_t d) {
    ls_lin form, q, r, high, low;
    int64_t k;
    if (d <= 1) {
        return ls_ix_const(b, 0);
    }
    if (!ls_lin_of(b->spec, x, &form) || !lin_split(&form, d, &q, &r)) {
        return ix_node(b, LS_IX_MOD, x, ls_ix_const(b, d), 0);
    }
    if (lin_quotient(b->spec, &r, d, &k)) {
        r.c -= k * d;
        return lin_make(b, &r);
    }
    int64_t g = lin_factor(b->spec, &r, d, &high, &low, &k);
    if (g) {
        high.c += k;
        low.c -= k * g;
        int32_t outer = ix_mod_const(b, lin_make(b, &high), d / g);
        return ls_ix_add(b, ls_ix_scale(b, outer, g), lin_make(b, &low));
    }
    int32_t rest = lin_make(b, &r);
    const ls_ix *atom = &b->spec->ix[rest];
    if (atom->op == LS_IX_MOD && b->spec->ix[atom->b].op == LS_IX_CONST && b->spec->ix[atom->b].k % d == 0) {
        return ix_mod_const(b, atom->a, d);
    }
    return ix_node(b, LS_IX_MOD, rest, ls_ix_const(b, d), 0);
}

static int32_t ix_div_const(ls_spec_builder *b, int32_t x, int64_t d) {
    ls_lin form, q, r, high, low;
    int64_t k;
    if (d <= 1) {
        return x;
    }
    if (!ls_lin_of(b->spec, x, &form) || !lin_split(&form, d, &q, &r)) {
        return ix_node(b, LS_IX_DIV, x, ls_ix_const(b, d), 0);
    }
    int32_t whole = lin_make(b, &q);
    if (lin_quotient(b->spec, &r, d, &k)) {
        return ls_ix_add_const(b, whole, k);
    }
    int64_t g = lin_factor(b->spec, &r, d, &high, &low, &k);
    if (g) {
        high.c += k;
        return ls_ix_add(b, whole, ix_div_const(b, lin_make(b, &high), d / g));
    }
    int32_t rest = lin_make(b, &r);
    const ls_ix *atom = &b->spec->ix[rest];
    int64_t e = atom->op == LS_IX_DIV || atom->op == LS_IX_MOD ? b->spec->ix[atom->b].k : 0, product;
    bool constant = e > 0 && b->spec->ix[atom->b].op == LS_IX_CONST;
    if (constant && atom->op == LS_IX_DIV && !__builtin_mul_overflow(e, d, &product)) {
        return ls_ix_add(b, whole, ix_div_const(b, atom->a, product));
    }
    if (constant && atom->op == LS_IX_MOD && e % d == 0) {
        return ls_ix_add(b, whole, ix_mod_const(b, ix_div_const(b, atom->a, d), e / d));
    }
    return ls_ix_add(b, whole, ix_node(b, LS_IX_DIV, rest, ls_ix_const(b, d), 0));
}

/* x = d * q + r for a divisor that is not constant: the terms that are products with d. */
static bool lin_split_by(ls_spec_builder *b, int32_t x, int32_t d, int32_t *out_q, int32_t *out_r) {
    ls_lin form, r = {0};
    if (!ls_lin_of(b->spec, x, &form)) {
        return false;
    }
    int32_t q = ls_ix_const(b, 0);
    r.c = form.c;
    for (int i = 0; i < form.n; i++) {
        const ls_ix *atom = &b->spec->ix[form.t[i].atom];
        if (form.t[i].atom == d) {
            q = ls_ix_add_const(b, q, form.t[i].k);
        } else if (atom->op == LS_IX_MUL && (atom->a == d || atom->b == d)) {
            q = ls_ix_add(b, q, ls_ix_scale(b, atom->a == d ? atom->b : atom->a, form.t[i].k));
        } else if (!ls_lin_add_atom(&r, form.t[i].atom, form.t[i].k)) {
            return false;
        }
    }
    *out_q = q;
    *out_r = lin_make(b, &r);
    return true;
}

int32_t ls_ix_div(ls_spec_builder *b, int32_t x, int32_t y) {
    int32_t q, r;
    if (b->spec->ix[y].op == LS_IX_CONST) {
        return ix_div_const(b, x, b->spec->ix[y].k);
    }
    if (!lin_split_by(b, x, y, &q, &r)) {
        return ix_node(b, LS_IX_DIV, x, y, 0);
    }
    if (b->spec->ix[r].lo >= 0 && ls_ix_proved_below(b->spec, r, y)) {
        return q;
    }
    return ls_ix_add(b, q, ix_node(b, LS_IX_DIV, r, y, 0));
}

int32_t ls_ix_mod(ls_spec_builder *b, int32_t x, int32_t y) {
    int32_t q, r;
    if (b->spec->ix[y].op == LS_IX_CONST) {
        return ix_mod_const(b, x, b->spec->ix[y].k);
    }
    if (!lin_split_by(b, x, y, &q, &r)) {
        return ix_node(b, LS_IX_MOD, x, y, 0);
    }
    return b->spec->ix[r].lo >= 0 && ls_ix_proved_below(b->spec, r, y) ? r : ix_node(b, LS_IX_MOD, r, y, 0);
}

/* ---- symbolic comparison: upper bounds that are linear in the symbols ---- */
typedef struct affine_in_symbols {
    int n;
    int64_t c;
    struct {
        const ls_symbol *symbol;
        int64_t k;
    } t[LS_MAX_RANK];
} affine_in_symbols;

static bool affine_add(affine_in_symbols *out, ls_dim dim, int64_t k) {
    int i = 0;
    int64_t c;
    if (__builtin_mul_overflow(dim.offset, k, &c) || __builtin_add_overflow(out->c, c, &out->c)) {
        return false;
    }
    if (!dim.symbol) {
        return true;
    }
    while (i < out->n && out->t[i].symbol != dim.symbol) {
        i++;
    }
    if (i == LS_MAX_RANK || __builtin_mul_overflow(dim.scale, k, &c)) {
        return false;
    }
    if (i == out->n) {
        out->n++;
        out->t[i].symbol = dim.symbol;
        out->t[i].k = 0;
    }
    return !__builtin_add_overflow(out->t[i].k, c, &out->t[i].k);
}

static bool affine_exact(const ls_spec *spec, int32_t ix, int64_t k, affine_in_symbols *out) {
    ls_lin form;
    if (!ls_lin_of(spec, ix, &form) || !affine_add(out, ls_dim_fixed(form.c), k)) {
        return false;
    }
    for (int i = 0; i < form.n; i++) {
        const ls_ix *atom = &spec->ix[form.t[i].atom];
        if (atom->op != LS_IX_DIM || !affine_add(out, spec->dims[atom->a], ls_sat_mul(form.t[i].k, k))) {
            return false;
        }
    }
    return true;
}

/* out -= an upper bound of k * atom. */
static bool affine_less_atom(const ls_spec *spec, int32_t ix, int64_t k, affine_in_symbols *out) {
    const ls_ix *atom = &spec->ix[ix];
    if (atom->op == LS_IX_DIM) {
        return affine_add(out, spec->dims[atom->a], -k);
    }
    if (k > 0 && atom->op == LS_IX_AXIS) {
        return affine_add(out, spec->extents_of_axes[atom->a], -k) && affine_add(out, ls_dim_fixed(1), k);
    }
    if (k > 0 && atom->op == LS_IX_MOD && spec->ix[atom->b].op != LS_IX_CONST) {
        return affine_exact(spec, atom->b, -k, out) && affine_add(out, ls_dim_fixed(1), k);
    }
    int64_t bound = k > 0 ? atom->hi : atom->lo;
    return bound != INT64_MIN && bound != INT64_MAX && affine_add(out, ls_dim_fixed(bound), -k);
}

bool ls_ix_proved_below(const ls_spec *spec, int32_t ix, int32_t limit) {
    if (spec->ix[ix].hi < spec->ix[limit].lo) {
        return true;
    }
    affine_in_symbols gap = {.c = -1};
    ls_lin form;
    if (!affine_exact(spec, limit, 1, &gap) || !ls_lin_of(spec, ix, &form) ||
        !affine_add(&gap, ls_dim_fixed(form.c), -1)) {
        return false;
    }
    for (int i = 0; i < form.n; i++) {
        if (!affine_less_atom(spec, form.t[i].atom, form.t[i].k, &gap)) {
            return false;
        }
    }
    int64_t lowest = gap.c;
    for (int i = 0; i < gap.n; i++) {
        lowest = gap.t[i].k < 0 ? ls_sat_add(lowest, ls_sat_mul(gap.t[i].k, gap.t[i].symbol->bound)) : lowest;
    }
    return lowest >= 0;
}

/* ---- questions of backends ---- */
int64_t ls_ix_eval(const ls_spec *spec, int32_t ix, const int64_t *axes, const int64_t *symbols,
                   const int64_t *values) {
    const ls_ix *x = &spec->ix[ix];
    if (x->op == LS_IX_CONST) {
        return x->k;
    }
    if (x->op == LS_IX_AXIS) {
        return axes[x->a];
    }
    if (x->op == LS_IX_DIM) {
        return ls_dim_eval(spec->dims[x->a], symbols);
    }
    if (x->op == LS_IX_VALUE) {
        return values[x->a];
    }
    int64_t a = ls_ix_eval(spec, x->a, axes, symbols, values),
            b = ls_ix_eval(spec, x->b, axes, symbols, values);
    if (x->op == LS_IX_ADD) {
        return (int64_t)((uint64_t)a + (uint64_t)b);
    }
    if (x->op == LS_IX_MUL) {
        return (int64_t)((uint64_t)a * (uint64_t)b);
    }
    b = b < 1 ? 1 : b; /* an empty space: nothing is read through it */
    return x->op == LS_IX_DIV ? ls_floor_div(a, b) : ls_floor_mod(a, b);
}

bool ls_ix_affine(const ls_spec *spec, int32_t ix, int axis, int64_t *out_stride) {
    const ls_ix *x = &spec->ix[ix];
    int64_t other;
    if (!(x->axes >> axis & 1)) {
        *out_stride = 0;
        return true;
    }
    if (x->op == LS_IX_AXIS) {
        *out_stride = 1;
        return true;
    }
    if (x->op == LS_IX_ADD) {
        return ls_ix_affine(spec, x->a, axis, out_stride) && ls_ix_affine(spec, x->b, axis, &other) &&
               !__builtin_add_overflow(*out_stride, other, out_stride);
    }
    if (x->op == LS_IX_MUL && spec->ix[x->b].op == LS_IX_CONST) {
        return ls_ix_affine(spec, x->a, axis, out_stride) &&
               !__builtin_mul_overflow(*out_stride, spec->ix[x->b].k, out_stride);
    }
    return false;
}
