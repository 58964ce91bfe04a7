/* Mutants of specs. A mutator is two functions: how many variants it has at a site, and the change itself,
 * made on a copy. Then the axes of all values are found anew and the copy is finished and verified like any
 * spec; where an access is no longer proved to be inside its argument, the change is made again with the
 * access wrapped round. */
#include "spec/mutate.h"
#include "spec/build.h"
#include <string.h>

typedef struct mutant {
    ls_spec_builder b;
    ls_spec spec;
    bool wrap;
} mutant;

/* ---- index expressions rebuilt with a change to their axes ---- */

typedef struct axis_change {
    int swap_a, swap_b, drop, flip; /* axis numbers; -1: none */
} axis_change;
static const axis_change no_change = {-1, -1, -1, -1};

static int32_t rebuild(mutant *m, int32_t ix, const axis_change *c) {
    ls_ix x = m->spec.ix[ix]; /* a copy: the list grows */
    ls_spec_builder *b = &m->b;
    if (x.op == LS_IX_CONST) {
        return ls_ix_const(b, x.k);
    }
    if (x.op == LS_IX_AXIS) {
        int a = x.a == c->swap_a ? c->swap_b : x.a == c->swap_b ? c->swap_a : x.a;
        ls_dim extent = m->spec.extents_of_axes[a];
        return a == c->drop   ? ls_ix_const(b, 0)
               : a == c->flip ? ls_ix_add_const(b, ls_ix_sub(b, ls_ix_dim(b, extent), ls_ix_axis(b, a)), -1)
                              : ls_ix_axis(b, a);
    }
    if (x.op == LS_IX_DIM) {
        return ls_ix_dim(b, m->spec.dims[x.a]);
    }
    if (x.op == LS_IX_VALUE) {
        return ls_ix_value(b, x.a);
    }
    int32_t left = rebuild(m, x.a, c), right = rebuild(m, x.b, c);
    return x.op == LS_IX_ADD   ? ls_ix_add(b, left, right)
           : x.op == LS_IX_MUL ? ls_ix_mul(b, left, right)
           : x.op == LS_IX_DIV ? ls_ix_div(b, left, right)
                               : ls_ix_mod(b, left, right);
}

static int32_t inside(mutant *m, int32_t ix, int arg) {
    int64_t numel = m->spec.args[arg].numel;
    return m->wrap && numel > 0 ? ls_ix_mod(&m->b, ix, ls_ix_const(&m->b, numel)) : ix;
}

static bool set_load(mutant *m, int site, int32_t ix) {
    m->spec.values[site].ix = inside(m, ix, m->spec.values[site].arg);
    return true;
}

/* ---- values ---- */

static int32_t moved(int32_t id, int32_t at) {
    return id >= at ? id + 1 : id;
}

/* Makes room for a value before value number `at`. */
static ls_value *insert_value(mutant *m, int32_t at) {
    ls_spec *spec = &m->spec;
    if (!ls_builder_grow(&m->b, (void **)&spec->values, &m->b.cap_values, spec->n_values,
                         sizeof *spec->values)) {
        return NULL;
    }
    memmove(spec->values + at + 1, spec->values + at, sizeof *spec->values * (size_t)(spec->n_values - at));
    spec->n_values++;
    for (int i = at + 1; i < spec->n_values; i++) {
        ls_value *v = &spec->values[i];
        v->a = moved(v->a, at), v->b = moved(v->b, at), v->c = moved(v->c, at);
    }
    for (int i = 0; i < spec->n_stores; i++) {
        spec->stores[i].value = moved(spec->stores[i].value, at);
    }
    for (int i = 0; i < spec->n_ix; i++) {
        spec->ix[i].a = spec->ix[i].op == LS_IX_VALUE ? moved(spec->ix[i].a, at) : spec->ix[i].a;
    }
    return &spec->values[at];
}

/* A list of predicates at the end: a copy of another, without predicate number `without` (-1: all). */
static int32_t copy_preds(mutant *m, int32_t first, int32_t n, int without) {
    ls_spec *spec = &m->spec;
    int32_t start = spec->n_preds;
    for (int32_t i = 0; i < n; i++) {
        if (i != without) {
            if (!ls_builder_grow(&m->b, (void **)&spec->preds, &m->b.cap_preds, spec->n_preds,
                                 sizeof *spec->preds)) {
                return 0;
            }
            spec->preds[spec->n_preds++] = spec->preds[first + i];
        }
    }
    return start;
}

/* A copy of a list with one more predicate: 0 <= ix < limit. Its start, or -1. */
static int32_t add_pred(mutant *m, int32_t first, int32_t n, int32_t ix, int32_t limit) {
    ls_spec *spec = &m->spec;
    int32_t start = copy_preds(m, first, n, -1);
    if (!ls_builder_grow(&m->b, (void **)&spec->preds, &m->b.cap_preds, spec->n_preds, sizeof *spec->preds)) {
        return -1;
    }
    spec->preds[spec->n_preds++] = (ls_pred){.ix = ix, .limit = limit};
    return start;
}

static bool is_load(const ls_spec *spec, int site) {
    return spec->values[site].op == LS_V_LOAD;
}
static bool is_wide(const ls_spec *spec, int axis) {
    ls_dim d = spec->extents_of_axes[axis];
    return d.symbol || d.offset > 1;
}

/* ---- stores ---- */

static int any_store(const ls_spec *spec, int site) {
    (void)spec, (void)site;
    return 1;
}
static bool store_drop(mutant *m, int site, int variant) {
    (void)variant;
    ls_spec *spec = &m->spec;
    if (spec->n_stores > 1) {
        memmove(spec->stores + site, spec->stores + site + 1,
                sizeof *spec->stores * (size_t)(spec->n_stores - site - 1));
        spec->n_stores--;
        return true;
    }
    ls_store *s = &spec->stores[site]; /* the only one stays, and no point holds its predicate */
    int32_t start = add_pred(m, s->first_pred, s->n_preds, ls_ix_const(&m->b, -1), ls_ix_const(&m->b, 1));
    if (start < 0) {
        return false;
    }
    s->first_pred = start;
    s->n_preds++;
    return true;
}

static bool store_zero(mutant *m, int site, int variant) {
    (void)variant;
    ls_store *s = &m->spec.stores[site];
    ls_value zero = {.op = LS_V_CONST,
                     .dtype = m->spec.values[s->value].dtype,
                     .a = -1,
                     .b = -1,
                     .c = -1,
                     .ix = -1,
                     .arg = -1,
                     .limit = LS_SPEC_NONE,
                     .check = LS_SPEC_NONE,
                     .origin = m->spec.values[s->value].origin};
    ls_value *v = insert_value(m, m->spec.n_values);
    if (v) {
        *v = zero;
        m->spec.stores[site].value = m->spec.n_values - 1;
    }
    return v != NULL;
}

static int two(const ls_spec *spec, int site) {
    (void)spec, (void)site;
    return 2;
}
static bool store_index(mutant *m, int site, int variant) {
    ls_store *s = &m->spec.stores[site];
    int32_t ix = ls_ix_add_const(&m->b, rebuild(m, s->ix, &no_change), variant ? -1 : 1);
    s->ix = inside(m, ix, s->arg);
    return true;
}

static int scatters(const ls_spec *spec, int site) {
    return spec->kind == LS_GROUP_SCATTER && site == spec->n_stores - 1;
}
static bool store_combine(mutant *m, int site, int variant) {
    (void)variant;
    ls_store *s = &m->spec.stores[site];
    s->combine = s->combine == LS_STORE_SET ? LS_STORE_MAX : LS_STORE_SET;
    return true;
}

/* ---- maps ---- */

/* Families of maps that take and give the same dtypes; some for floats alone. */
static const uint16_t families[][8] = {
    {LS_OP_ADD, LS_OP_SUB, LS_OP_MUL, LS_OP_DIV},
    {LS_OP_MIN, LS_OP_MAX},
    {LS_OP_EQ, LS_OP_NE, LS_OP_LT, LS_OP_LE},
    {LS_OP_NEG, LS_OP_ABS, LS_OP_SIGN},
    {LS_OP_FLOOR, LS_OP_CEIL, LS_OP_TRUNC, LS_OP_RINT},
    {LS_OP_SQRT, LS_OP_RSQRT, LS_OP_CBRT, LS_OP_RECIP},
    {LS_OP_EXP, LS_OP_EXP2, LS_OP_EXPM1},
    {LS_OP_LOG, LS_OP_LOG2, LS_OP_LOG1P},
    {LS_OP_SIN, LS_OP_COS, LS_OP_TAN, LS_OP_TANH, LS_OP_ERF},
    {LS_OP_AND, LS_OP_OR, LS_OP_XOR},
    {LS_OP_SHL, LS_OP_SHR},
};

/* Member number `variant` of the map's family, itself left out; the map itself when there is none. */
static uint16_t relative(uint16_t map, int variant, int *out_count) {
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        int n = 0, at = -1;
        for (; n < 8 && (families[f][n] || n == 0); n++) {
            at = families[f][n] == map ? n : at;
        }
        if (at >= 0) {
            *out_count = n - 1;
            return families[f][variant < at ? variant : variant + 1 < n ? variant + 1 : at];
        }
    }
    *out_count = 0;
    return map;
}
static int opcode_variants(const ls_spec *spec, int site) {
    int n = 0;
    if (spec->values[site].op == LS_V_MAP) {
        relative(spec->values[site].map, 0, &n);
    }
    return n;
}
static bool opcode(mutant *m, int site, int variant) {
    int n;
    m->spec.values[site].map = relative(m->spec.values[site].map, variant, &n);
    return true;
}

static int32_t operand(const ls_value *v, int number) {
    return number == 0 ? v->a : number == 1 ? v->b : v->c;
}
/* The operand of the result's dtype number `variant`; its position, or -1. */
static int of_own_dtype(const ls_spec *spec, int site, int variant) {
    const ls_value *v = &spec->values[site];
    for (int i = 0; v->op == LS_V_MAP && i < 3; i++) {
        if (operand(v, i) >= 0 && spec->values[operand(v, i)].dtype == v->dtype && variant-- == 0) {
            return i;
        }
    }
    return -1;
}
static int ignore_variants(const ls_spec *spec, int site) {
    int n = 0;
    while (of_own_dtype(spec, site, n) >= 0) {
        n++;
    }
    return n;
}
static bool ignore(mutant *m, int site, int variant) {
    ls_spec *spec = &m->spec;
    int32_t with = operand(&spec->values[site], of_own_dtype(spec, site, variant));
    for (int i = site + 1; i < spec->n_values; i++) {
        ls_value *v = &spec->values[i];
        v->a = v->a == site ? with : v->a;
        v->b = v->b == site ? with : v->b;
        v->c = v->c == site ? with : v->c;
    }
    for (int i = 0; i < spec->n_stores; i++) {
        spec->stores[i].value = spec->stores[i].value == site ? with : spec->stores[i].value;
    }
    for (int i = 0; i < spec->n_ix; i++) {
        spec->ix[i].a = spec->ix[i].op == LS_IX_VALUE && spec->ix[i].a == site ? with : spec->ix[i].a;
    }
    return true;
}

static bool commutes(uint16_t map) {
    return map == LS_OP_ADD || map == LS_OP_MUL || map == LS_OP_MIN || map == LS_OP_MAX || map == LS_OP_AND ||
           map == LS_OP_OR || map == LS_OP_XOR || map == LS_OP_EQ || map == LS_OP_NE;
}
/* A commuted operation is the same one, so only the others. */
static int exchange_variants(const ls_spec *spec, int site) {
    const ls_value *v = &spec->values[site];
    return v->op == LS_V_MAP && v->b >= 0 && !commutes(v->map) && (v->c >= 0 ? v->b != v->c : v->a != v->b);
}
static bool exchange(mutant *m, int site, int variant) {
    (void)variant;
    ls_value *v = &m->spec.values[site];
    int32_t *x = v->c >= 0 ? &v->c : &v->a, keep = *x;
    *x = v->b;
    v->b = keep;
    return true;
}

static int const_variants(const ls_spec *spec, int site) {
    const ls_value *v = &spec->values[site];
    return v->op != LS_V_CONST ? 0 : v->dtype == LS_BOOL ? 1 : 2;
}
static bool constant(mutant *m, int site, int variant) {
    ls_value *v = &m->spec.values[site];
    if (v->dtype == LS_BOOL) {
        v->bits ^= 1;
    } else if (ls_dtype_is_float((ls_dtype)v->dtype)) {
        v->bits = ls_value_from_f64((ls_dtype)v->dtype,
                                    ls_value_to_f64((ls_dtype)v->dtype, v->bits) + (variant ? -1 : 1));
    } else {
        size_t size = ls_dtype_size((ls_dtype)v->dtype);
        v->bits =
            (v->bits + (variant ? UINT64_MAX : 1)) & (size == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * size) - 1);
    }
    return true;
}

static int index_variants(const ls_spec *spec, int site) {
    return spec->values[site].op == LS_V_INDEX || spec->values[site].op == LS_V_RANDOM ? 2 : 0;
}
static bool index_value(mutant *m, int site, int variant) {
    int32_t ix = ls_ix_add_const(&m->b, rebuild(m, m->spec.values[site].ix, &no_change), variant ? -1 : 1);
    m->spec.values[site].ix = ix;
    return true;
}

/* ---- loads ---- */

static int shift_variants(const ls_spec *spec, int site) {
    return is_load(spec, site) && spec->args[spec->values[site].arg].numel > 1 ? 2 : 0;
}
static bool load_shift(mutant *m, int site, int variant) {
    return set_load(
        m, site, ls_ix_add_const(&m->b, rebuild(m, m->spec.values[site].ix, &no_change), variant ? -1 : 1));
}

/* The axes in an index itself, not in the values that it uses. */
static uint64_t own_axes(const ls_spec *spec, int32_t ix) {
    const ls_ix *x = &spec->ix[ix];
    return x->op == LS_IX_AXIS  ? UINT64_C(1) << x->a
           : x->op >= LS_IX_ADD ? own_axes(spec, x->a) | own_axes(spec, x->b)
                                : 0;
}

/* Pair number `variant` of axes that the load varies over; their number. */
static int axis_pair(const ls_spec *spec, int site, int variant, axis_change *out) {
    uint64_t axes = is_load(spec, site) ? own_axes(spec, spec->values[site].ix) : 0;
    int n = 0;
    for (int i = 0; i < spec->n_axes; i++) {
        for (int j = i + 1; j < spec->n_axes; j++) {
            if (axes >> i & axes >> j & 1 && is_wide(spec, i) && is_wide(spec, j)) {
                if (n++ == variant) {
                    *out = (axis_change){i, j, -1, -1};
                }
            }
        }
    }
    return n;
}
static int swap_variants(const ls_spec *spec, int site) {
    axis_change unused;
    return axis_pair(spec, site, -1, &unused);
}
static bool load_swap(mutant *m, int site, int variant) {
    axis_change c = no_change;
    axis_pair(&m->spec, site, variant, &c);
    return set_load(m, site, rebuild(m, m->spec.values[site].ix, &c));
}

static int load_axis_at(const ls_spec *spec, int site, int variant) {
    uint64_t axes = is_load(spec, site) ? own_axes(spec, spec->values[site].ix) : 0;
    for (int i = 0; i < spec->n_axes; i++) {
        if (axes >> i & 1 && is_wide(spec, i) && variant-- == 0) {
            return i;
        }
    }
    return -1;
}
static int axis_variants(const ls_spec *spec, int site) {
    int n = 0;
    while (load_axis_at(spec, site, n) >= 0) {
        n++;
    }
    return n;
}
static bool load_axis(mutant *m, int site, int variant) {
    axis_change c = no_change;
    c.drop = load_axis_at(&m->spec, site, variant);
    return set_load(m, site, rebuild(m, m->spec.values[site].ix, &c));
}
static bool load_flip(mutant *m, int site, int variant) {
    axis_change c = no_change;
    c.flip = load_axis_at(&m->spec, site, variant);
    return set_load(m, site, rebuild(m, m->spec.values[site].ix, &c));
}

static int dense_variants(const ls_spec *spec, int site) {
    return axis_variants(spec, site) > 1;
}
static bool load_dense(mutant *m, int site, int variant) {
    (void)variant;
    uint64_t axes = own_axes(&m->spec, m->spec.values[site].ix);
    int32_t position = ls_ix_const(&m->b, 0);
    for (int i = 0; i < m->spec.n_axes; i++) {
        if (axes >> i & 1) {
            position =
                ls_ix_add(&m->b, ls_ix_mul(&m->b, position, ls_ix_dim(&m->b, m->spec.extents_of_axes[i])),
                          ls_ix_axis(&m->b, i));
        }
    }
    return set_load(m, site, position);
}

static bool load_short(mutant *m, int site, int variant) {
    ls_value *v = &m->spec.values[site];
    int axis = load_axis_at(&m->spec, site, variant);
    int32_t limit = ls_ix_add_const(&m->b, ls_ix_dim(&m->b, m->spec.extents_of_axes[axis]), -1);
    v->first_pred = add_pred(m, v->first_pred, v->n_preds, ls_ix_axis(&m->b, axis), limit);
    v->n_preds++;
    return v->first_pred >= 0;
}

/* ---- predicates: a list is one site, whoever uses it ---- */

static int list_variants(const ls_spec *spec, int site) {
    const ls_value *v = &spec->values[site];
    for (int i = 0; i < site; i++) {
        if (spec->values[i].n_preds == v->n_preds && spec->values[i].first_pred == v->first_pred) {
            return 0;
        }
    }
    return v->n_preds;
}
static int list_variants_twice(const ls_spec *spec, int site) {
    return 2 * list_variants(spec, site);
}
static void replace_list(mutant *m, int site, int32_t first, int32_t n) {
    ls_spec *spec = &m->spec;
    int32_t old = spec->values[site].first_pred, old_n = spec->values[site].n_preds;
    for (int i = 0; i < spec->n_values; i++) {
        ls_value *v = &spec->values[i];
        if (v->n_preds == old_n && v->first_pred == old) {
            v->first_pred = first;
            v->n_preds = n;
            if (v->op == LS_V_LOAD && m->wrap) {
                int32_t ix = rebuild(m, v->ix, &no_change);
                set_load(m, i, ix);
            }
        }
    }
}
static bool pred_drop(mutant *m, int site, int variant) {
    ls_spec *spec = &m->spec;
    int32_t n = spec->values[site].n_preds;
    if (n == 1) { /* a guard needs one: one that always holds */
        int32_t start = copy_preds(m, spec->values[site].first_pred, 1, -1);
        spec->preds[start] = (ls_pred){.ix = ls_ix_const(&m->b, 0), .limit = ls_ix_const(&m->b, 1)};
        replace_list(m, site, start, 1);
        return true;
    }
    int32_t start = copy_preds(m, spec->values[site].first_pred, n, variant);
    replace_list(m, site, start, n - 1);
    return true;
}
static bool pred_shift(mutant *m, int site, int variant) {
    ls_spec *spec = &m->spec;
    int32_t n = spec->values[site].n_preds, start = copy_preds(m, spec->values[site].first_pred, n, -1);
    int32_t ix = rebuild(m, spec->preds[start + variant / 2].ix, &no_change);
    spec->preds[start + variant / 2].ix = ls_ix_add_const(&m->b, ix, variant % 2 ? -1 : 1);
    replace_list(m, site, start, n);
    return true;
}
static bool pred_limit(mutant *m, int site, int variant) {
    ls_spec *spec = &m->spec;
    int32_t n = spec->values[site].n_preds, start = copy_preds(m, spec->values[site].first_pred, n, -1);
    ls_pred p = spec->preds[start + variant / 2];
    if (p.limit == LS_SPEC_NONE) {
        p.multiple += variant % 2 && p.multiple > 1 ? -1 : 1;
    } else {
        p.limit = ls_ix_add_const(&m->b, rebuild(m, p.limit, &no_change), variant % 2 ? -1 : 1);
    }
    spec->preds[start + variant / 2] = p;
    replace_list(m, site, start, n);
    return true;
}

static int check_variants(const ls_spec *spec, int site) {
    return is_load(spec, site) && spec->values[site].check != LS_SPEC_NONE;
}
static bool check_drop(mutant *m, int site, int variant) {
    (void)variant;
    m->spec.values[site].check = m->spec.values[site].limit = LS_SPEC_NONE;
    int32_t ix = rebuild(m, m->spec.values[site].ix, &no_change);
    return set_load(m, site, ix);
}

/* ---- reductions, contractions, scans, sorts ---- */

static int reduce_variants(const ls_spec *spec, int site) {
    const ls_value *v = &spec->values[site];
    return v->op != LS_V_REDUCE ? 0 : v->map == LS_OP_ARGMIN || v->map == LS_OP_ARGMAX ? 1 : 3;
}
static bool reduce(mutant *m, int site, int variant) {
    static const uint16_t kinds[] = {LS_OP_SUM, LS_OP_PROD, LS_OP_AMIN, LS_OP_AMAX};
    ls_value *v = &m->spec.values[site];
    if (v->map == LS_OP_ARGMIN || v->map == LS_OP_ARGMAX) {
        v->map = v->map == LS_OP_ARGMIN ? LS_OP_ARGMAX : LS_OP_ARGMIN;
        return true;
    }
    int at = 0;
    while (kinds[at] != v->map) {
        at++;
    }
    v->map = kinds[variant < at ? variant : variant + 1];
    return true;
}

static bool folds(const ls_spec *spec, int site) {
    return spec->values[site].op == LS_V_REDUCE || spec->values[site].op == LS_V_CONTRACT;
}
static int wide_bound(const ls_spec *spec, int site, int variant) {
    const ls_value *v = &spec->values[site];
    for (int i = 0; folds(spec, site) && i < v->n_bound; i++) {
        if (is_wide(spec, v->bound[i]) && variant-- == 0) {
            return v->bound[i];
        }
    }
    return -1;
}
static int short_variants(const ls_spec *spec, int site) {
    int n = 0;
    while (wide_bound(spec, site, n) >= 0) {
        n++;
    }
    return n;
}
static bool bound_short(mutant *m, int site, int variant) {
    ls_spec *spec = &m->spec;
    int axis = wide_bound(spec, site, variant);
    int32_t limit = ls_ix_add_const(&m->b, ls_ix_dim(&m->b, spec->extents_of_axes[axis]), -1);
    int32_t start = add_pred(m, 0, 0, ls_ix_axis(&m->b, axis), limit);
    if (start < 0) {
        return false;
    }
    ls_value old = spec->values[site], *guard = insert_value(m, site);
    if (!guard) {
        return false;
    }
    *guard = (ls_value){.op = LS_V_GUARD,
                        .dtype = spec->values[old.a].dtype,
                        .a = old.a,
                        .b = LS_SPEC_NONE,
                        .c = LS_SPEC_NONE,
                        .ix = LS_SPEC_NONE,
                        .arg = LS_SPEC_NONE,
                        .limit = LS_SPEC_NONE,
                        .check = LS_SPEC_NONE,
                        .first_pred = start,
                        .n_preds = 1,
                        .origin = old.origin};
    spec->values[site + 1].a = site;
    return true;
}

static int order_variants(const ls_spec *spec, int site) {
    return folds(spec, site) && short_variants(spec, site) > 1 ? short_variants(spec, site) - 1 : 0;
}
static bool bound_order(mutant *m, int site, int variant) {
    ls_value *v = &m->spec.values[site];
    int first = wide_bound(&m->spec, site, variant), second = wide_bound(&m->spec, site, variant + 1);
    for (int i = 0; i < v->n_bound; i++) {
        v->bound[i] = (uint8_t)(v->bound[i] == first ? second : v->bound[i] == second ? first : v->bound[i]);
    }
    return true;
}

static int accumulator_variants(const ls_spec *spec, int site) {
    const ls_value *v = &spec->values[site];
    bool sums = v->op == LS_V_CONTRACT ||
                (v->op == LS_V_REDUCE && v->map <= LS_OP_PROD && v->map >= LS_OP_SUM) ||
                (v->op == LS_V_SCAN && v->map <= LS_SCAN_PROD);
    return sums && (v->acc == LS_F32 || v->acc == LS_I32);
}
static bool accumulator(mutant *m, int site, int variant) {
    (void)variant;
    m->spec.values[site].acc = m->spec.values[site].acc == LS_F32 ? LS_F64 : LS_I16;
    return true;
}

static int scan_variants(const ls_spec *spec, int site) {
    return spec->values[site].op == LS_V_SCAN ? 3 : spec->values[site].op == LS_V_SORT ? 1 : 0;
}
static bool scan(mutant *m, int site, int variant) {
    ls_value *v = &m->spec.values[site];
    if (v->op == LS_V_SORT) {
        v->map = !v->map;
    } else if (variant == 0) {
        v->exclusive = !v->exclusive;
    } else if (variant == 1) {
        v->reverse = !v->reverse;
    } else {
        v->map = v->map == LS_SCAN_SUM ? LS_SCAN_MAX : LS_SCAN_SUM;
    }
    return true;
}

/* ---- the table ---- */

static const struct {
    const char *name;
    bool stores; /* sites are stores */
    int (*variants)(const ls_spec *spec, int site);
    bool (*apply)(mutant *m, int site, int variant);
} mutators[LS_MUTATOR_COUNT] = {
    [LS_MUTATE_STORE_DROP] = {"store-drop", true, any_store, store_drop},
    [LS_MUTATE_STORE_ZERO] = {"store-zero", true, any_store, store_zero},
    [LS_MUTATE_STORE_INDEX] = {"store-index", true, two, store_index},
    [LS_MUTATE_STORE_COMBINE] = {"store-combine", true, scatters, store_combine},
    [LS_MUTATE_OPCODE] = {"opcode", false, opcode_variants, opcode},
    [LS_MUTATE_IGNORE] = {"ignore", false, ignore_variants, ignore},
    [LS_MUTATE_EXCHANGE] = {"exchange", false, exchange_variants, exchange},
    [LS_MUTATE_CONST] = {"const", false, const_variants, constant},
    [LS_MUTATE_INDEX_VALUE] = {"index-value", false, index_variants, index_value},
    [LS_MUTATE_LOAD_SHIFT] = {"load-shift", false, shift_variants, load_shift},
    [LS_MUTATE_LOAD_SWAP] = {"load-swap", false, swap_variants, load_swap},
    [LS_MUTATE_LOAD_AXIS] = {"load-axis", false, axis_variants, load_axis},
    [LS_MUTATE_LOAD_FLIP] = {"load-flip", false, axis_variants, load_flip},
    [LS_MUTATE_LOAD_DENSE] = {"load-dense", false, dense_variants, load_dense},
    [LS_MUTATE_LOAD_SHORT] = {"load-short", false, axis_variants, load_short},
    [LS_MUTATE_PRED_DROP] = {"pred-drop", false, list_variants, pred_drop},
    [LS_MUTATE_PRED_SHIFT] = {"pred-shift", false, list_variants_twice, pred_shift},
    [LS_MUTATE_PRED_LIMIT] = {"pred-limit", false, list_variants_twice, pred_limit},
    [LS_MUTATE_CHECK_DROP] = {"check-drop", false, check_variants, check_drop},
    [LS_MUTATE_REDUCE] = {"reduce", false, reduce_variants, reduce},
    [LS_MUTATE_BOUND_SHORT] = {"bound-short", false, short_variants, bound_short},
    [LS_MUTATE_BOUND_ORDER] = {"bound-order", false, order_variants, bound_order},
    [LS_MUTATE_ACCUMULATOR] = {"accumulator", false, accumulator_variants, accumulator},
    [LS_MUTATE_SCAN] = {"scan", false, scan_variants, scan},
};

const char *ls_mutator_name(ls_mutator mutator) {
    return mutators[mutator].name;
}
int ls_mutator_sites(const ls_spec *spec, ls_mutator mutator) {
    return mutators[mutator].stores ? spec->n_stores : spec->n_values;
}
int ls_mutator_variants(const ls_spec *spec, ls_mutator mutator, int site) {
    return mutators[mutator].variants(spec, site);
}

/* The free axes of every value, from its operands on. */
static void find_axes(ls_spec *spec) {
    for (int i = 0; i < spec->n_ix; i++) {
        ls_ix *x = &spec->ix[i];
        x->axes = x->op == LS_IX_VALUE ? spec->values[x->a].axes
                  : x->op >= LS_IX_ADD ? spec->ix[x->a].axes | spec->ix[x->b].axes
                                       : x->axes;
    }
    for (int id = 0; id < spec->n_values; id++) {
        ls_value *v = &spec->values[id];
        const int32_t operands[] = {v->a, v->b, v->c}, exprs[] = {v->ix, v->check, v->limit};
        uint64_t axes = 0, bound = 0;
        for (int i = 0; i < 3; i++) {
            axes |= operands[i] >= 0 ? spec->values[operands[i]].axes : 0;
            axes |= exprs[i] >= 0 ? spec->ix[exprs[i]].axes : 0;
        }
        for (int32_t i = v->first_pred; i < v->first_pred + v->n_preds; i++) {
            axes |= spec->ix[spec->preds[i].ix].axes;
        }
        for (int i = 0; i < v->n_bound; i++) {
            bound |= UINT64_C(1) << v->bound[i];
        }
        v->axes = v->op == LS_V_SCAN || v->op == LS_V_SORT ? axes | bound : axes & ~bound;
    }
}

static ls_status mutate(ls_arena *arena, const ls_spec *spec, const ls_mutation *x, bool wrap,
                        ls_spec *out_spec, ls_error *err) {
    mutant m = {.wrap = wrap};
    LS_TRY(err, ls_spec_copy(arena, spec, &m.spec, err));
    m.b = (ls_spec_builder){.arena = arena,
                            .err = err,
                            .spec = &m.spec,
                            .cap_ix = spec->n_ix,
                            .cap_values = spec->n_values,
                            .cap_preds = spec->n_preds,
                            .cap_dims = spec->n_dims};
    bool done = mutators[x->mutator].apply(&m, x->site, x->variant);
    if (!done || m.b.status != LS_OK) {
        return m.b.status != LS_OK ? m.b.status : LS_FAIL_MEMORY(err, "a mutant");
    }
    find_axes(&m.spec);
    find_axes(&m.spec); /* index expressions over values, then values over them */
    LS_TRY(err, ls_spec_finish(arena, &m.spec, err));
    memcpy(m.spec.name, spec->name, sizeof m.spec.name); /* a wrong kernel goes by the right one's name */
    *out_spec = m.spec;
    return LS_OK;
}

ls_status ls_spec_mutate(ls_arena *arena, const ls_spec *spec, const ls_mutation *mutation, ls_spec *out_spec,
                         ls_error *err) {
    for (int wrap = 0; wrap < 2; wrap++) {
        ls_error wrong = {.code = LS_OK};
        LS_TRY(err, mutate(arena, spec, mutation, wrap, out_spec, err));
        if (ls_spec_verify(out_spec, &wrong) == LS_OK) {
            return LS_OK;
        }
        if (wrap) {
            return LS_FAIL(err, LS_ERR_UNSUPPORTED, "%s at %d of %s: %s", mutators[mutation->mutator].name,
                           mutation->site, spec->name, wrong.message);
        }
    }
    return LS_FAIL(err, LS_ERR_INTERNAL, "no mutant");
}
