/* What every spec must keep, checked after it is built: order, dtypes, axis sets, where absent elements
 * may go, and that every element read or written is inside its argument wherever its predicates hold.
 *
 * An index is first proved in range by intervals: a predicate 0 <= p < n makes p itself a term with a
 * range, which replaces the terms that it is made of. What this cannot show is evaluated: at every point
 * when there are few, else at many drawn ones. */
#include "base/rng.h"
#include "spec/build.h"
#include <inttypes.h>

typedef struct fact { /* 0 <= form <= hi */
    ls_lin form;
    int64_t hi;
} fact;

#define MAX_FACTS 48
typedef struct facts {
    const ls_spec *spec;
    int n, depth;
    fact fact[MAX_FACTS];
} facts;

static void facts_add(facts *f, int32_t ix, int32_t limit) {
    int64_t hi = f->spec->ix[limit].hi;
    if (f->n < MAX_FACTS && hi != INT64_MAX && ls_lin_of(f->spec, ix, &f->fact[f->n].form)) {
        f->fact[f->n++].hi = hi - 1;
    }
}

static bool same_form(const ls_lin *a, const ls_lin *b) {
    bool same = a->c == b->c && a->n == b->n;
    for (int i = 0; same && i < a->n; i++) {
        same = a->t[i].atom == b->t[i].atom && a->t[i].k == b->t[i].k;
    }
    return same;
}

/* p = d*q + r with r div d an atom of the form: then q + (r div d) is in [0, hi div d]. */
static void facts_derive(facts *f, int32_t atom) {
    const ls_spec *spec = f->spec;
    const ls_ix *x = &spec->ix[atom];
    ls_lin arg;
    if (x->op != LS_IX_DIV || spec->ix[x->b].op != LS_IX_CONST || !ls_lin_of(spec, x->a, &arg)) {
        return;
    }
    int64_t d = spec->ix[x->b].k;
    for (int i = 0, n = f->n; i < n && f->n < MAX_FACTS; i++) {
        ls_lin q = {.c = ls_floor_div(f->fact[i].form.c, d)}, r = {.c = ls_floor_mod(f->fact[i].form.c, d)};
        bool fits = true;
        for (int j = 0; j < f->fact[i].form.n; j++) {
            int32_t a = f->fact[i].form.t[j].atom;
            int64_t k = f->fact[i].form.t[j].k;
            fits &= k % d == 0 ? ls_lin_add_atom(&q, a, k / d) : ls_lin_add_atom(&r, a, k);
        }
        if (fits && same_form(&r, &arg) && ls_lin_add_atom(&q, atom, 1)) {
            f->fact[f->n].form = q;
            f->fact[f->n++].hi = f->fact[i].hi / d;
        }
    }
}

static void form_range(facts *f, const ls_lin *x, int64_t *out_lo, int64_t *out_hi);

/* An atom's range where the facts hold. */
static void atom_range(facts *f, int32_t id, int64_t *lo, int64_t *hi) {
    const ls_ix *x = &f->spec->ix[id];
    ls_lin arg;
    *lo = x->lo;
    *hi = x->hi;
    if ((x->op != LS_IX_DIV && x->op != LS_IX_MOD) || f->spec->ix[x->b].op != LS_IX_CONST || f->depth > 3 ||
        !ls_lin_of(f->spec, x->a, &arg)) {
        return;
    }
    int64_t d = f->spec->ix[x->b].k, a, b;
    f->depth++;
    form_range(f, &arg, &a, &b);
    f->depth--;
    if (a == INT64_MIN || b == INT64_MAX || d < 1) {
        return;
    }
    if (x->op == LS_IX_DIV) {
        *lo = ls_floor_div(a, d);
        *hi = ls_floor_div(b, d);
    } else if (ls_floor_div(a, d) == ls_floor_div(b, d)) {
        *lo = ls_floor_mod(a, d);
        *hi = ls_floor_mod(b, d);
    }
}

static int64_t form_bound(facts *f, const ls_lin *x, bool upper) {
    int64_t sum = x->c, unknown = upper ? INT64_MAX : INT64_MIN;
    for (int i = 0; i < x->n; i++) {
        int64_t lo, hi;
        atom_range(f, x->t[i].atom, &lo, &hi);
        int64_t end = ls_sat_mul((x->t[i].k > 0) == upper ? hi : lo, x->t[i].k);
        if (end == INT64_MIN || end == INT64_MAX || sum == unknown) {
            return unknown;
        }
        sum = ls_sat_add(sum, end);
    }
    return sum;
}

/* The form with c times a fact taken out, where that removes an atom of the fact; false where it does not. */
static bool take_out(const ls_lin *form, const fact *p, int term, ls_lin *out, int64_t *out_c) {
    int at = 0;
    while (at < form->n && form->t[at].atom != p->form.t[term].atom) {
        at++;
    }
    if (at == form->n || form->t[at].k % p->form.t[term].k) {
        return false;
    }
    *out = *form;
    *out_c = form->t[at].k / p->form.t[term].k;
    return ls_lin_add(out, &p->form, -*out_c);
}

/* The tightest bound found by putting facts, the most useful first, in the place of the terms they are made of. */
static int64_t bound_with_facts(facts *f, const ls_lin *x, bool upper) {
    ls_lin form = *x, best_form;
    int64_t best = form_bound(f, &form, upper), moved = 0, best_moved = 0;
    for (bool better = true; better;) {
        better = false;
        for (int i = 0; i < f->n; i++) {
            for (int j = 0; j < f->fact[i].form.n; j++) {
                ls_lin next;
                int64_t c;
                if (!take_out(&form, &f->fact[i], j, &next, &c)) {
                    continue;
                }
                int64_t gain = ls_sat_add(moved, (c > 0) == upper ? ls_sat_mul(c, f->fact[i].hi) : 0);
                int64_t rest = form_bound(f, &next, upper);
                int64_t total = rest == INT64_MIN || rest == INT64_MAX ? rest : ls_sat_add(rest, gain);
                if (upper ? total < best : total > best) {
                    best = total;
                    best_form = next;
                    best_moved = gain;
                    better = true;
                }
            }
        }
        if (better) {
            form = best_form;
            moved = best_moved;
        }
    }
    return best;
}

static void form_range(facts *f, const ls_lin *x, int64_t *out_lo, int64_t *out_hi) {
    *out_lo = bound_with_facts(f, x, false);
    *out_hi = bound_with_facts(f, x, true);
}

/* ---- by evaluation ---- */
typedef struct access { /* an element read or written */
    int32_t ix, first_pred, n_preds, check, limit;
    int64_t numel;
} access;

static bool pred_holds(const ls_spec *spec, const ls_pred *p, const int64_t *axes, const int64_t *symbols) {
    int64_t x = ls_ix_eval(spec, p->ix, axes, symbols, NULL);
    return p->limit == LS_SPEC_NONE ? ls_floor_mod(x, p->multiple) == 0
                                    : x >= 0 && x < ls_ix_eval(spec, p->limit, axes, symbols, NULL);
}

static bool point_fits(const ls_spec *spec, const access *a, const int64_t *axes, const int64_t *symbols,
                       int64_t *out_element) {
    for (int32_t i = a->first_pred; i < a->first_pred + a->n_preds; i++) {
        if (!pred_holds(spec, &spec->preds[i], axes, symbols)) {
            return true;
        }
    }
    *out_element = ls_ix_eval(spec, a->ix, axes, symbols, NULL);
    return *out_element >= 0 && *out_element < a->numel;
}

static bool reads_value(const ls_spec *spec, int32_t ix) {
    const ls_ix *x = &spec->ix[ix];
    return x->op == LS_IX_VALUE ||
           (x->op >= LS_IX_ADD && (reads_value(spec, x->a) || reads_value(spec, x->b)));
}

#define MAX_SYMBOLS 64
#define POINTS 65536
/* The symbols of a spec all at a share of their bounds. */
static bool symbols_at(const ls_spec *spec, int share, int64_t *symbols) {
    for (int i = 0; i < spec->n_axes + spec->n_dims; i++) {
        const ls_symbol *s =
            i < spec->n_axes ? spec->extents_of_axes[i].symbol : spec->dims[i - spec->n_axes].symbol;
        if (s && s->index >= MAX_SYMBOLS) {
            return false;
        }
        if (s) {
            symbols[s->index] = share == 0 ? s->bound : share == 1 ? 1 : (s->bound + 1) / 2;
        }
    }
    return true;
}

static bool evaluated_fits(const ls_spec *spec, const access *a, int64_t *out_element) {
    int64_t symbols[MAX_SYMBOLS] = {0}, axes[LS_SPEC_MAX_AXES] = {0}, extent[LS_SPEC_MAX_AXES];
    ls_rng rng = {.key = 1};
    uint64_t used = spec->ix[a->ix].axes;
    bool fits = !reads_value(spec, a->ix);
    for (int32_t i = a->first_pred; i < a->first_pred + a->n_preds; i++) {
        used |= spec->ix[spec->preds[i].ix].axes;
        fits = fits && !reads_value(spec, spec->preds[i].ix);
    }
    for (int share = 0; share < 3 && fits; share++) {
        double points = 1;
        fits = symbols_at(spec, share, symbols);
        for (int i = 0; i < spec->n_axes; i++) {
            extent[i] = used >> i & 1 ? ls_dim_eval(spec->extents_of_axes[i], symbols) : 1;
            points *= (double)extent[i];
        }
        for (int64_t n = 0; fits && n < (points < POINTS ? (int64_t)points : POINTS); n++) {
            int64_t rest = n;
            for (int i = 0; i < spec->n_axes; i++) {
                axes[i] =
                    points > POINTS ? (int64_t)ls_rng_below(&rng, (uint64_t)extent[i]) : rest % extent[i];
                rest /= extent[i];
            }
            fits = point_fits(spec, a, axes, symbols, out_element);
        }
    }
    return fits;
}

static bool is_empty(const ls_spec *spec, uint64_t axes) {
    for (int i = 0; i < spec->n_axes; i++) {
        if (axes >> i & 1 && ls_dim_bound(spec->extents_of_axes[i]) == 0) {
            return true;
        }
    }
    return false;
}

static ls_status check_access(const ls_spec *spec, const access *a, uint64_t axes, const char *what, int id,
                              ls_error *err) {
    facts f = {.spec = spec};
    ls_lin form;
    int64_t lo = INT64_MIN, hi = INT64_MAX, element = 0;
    if (is_empty(spec, axes | spec->ix[a->ix].axes)) {
        return LS_OK;
    }
    for (int32_t i = a->first_pred; i < a->first_pred + a->n_preds; i++) {
        const ls_pred *p = &spec->preds[i];
        if (p->limit != LS_SPEC_NONE) {
            facts_add(&f, p->ix, p->limit);
            if (spec->ix[p->ix].hi < 0 || spec->ix[p->limit].hi <= 0) {
                return LS_OK; /* never holds */
            }
        }
    }
    if (a->check != LS_SPEC_NONE) {
        facts_add(&f, a->check, a->limit);
        if (spec->ix[a->limit].hi <= 0) {
            return LS_OK;
        }
    }
    if (ls_lin_of(spec, a->ix, &form)) {
        for (int i = 0; i < form.n; i++) {
            facts_derive(&f, form.t[i].atom);
        }
        form_range(&f, &form, &lo, &hi);
    }
    if ((lo >= 0 && hi < a->numel) || evaluated_fits(spec, a, &element)) {
        return LS_OK;
    }
    return LS_FAIL(err, LS_ERR_INTERNAL,
                   "spec %s: %s %d: element %" PRId64 " (proved range %" PRId64 " to %" PRId64
                   "): expected 0 to %" PRId64,
                   spec->name, what, id, element, lo, hi, a->numel - 1);
}

/* ---- structure ---- */
static ls_status bad(const ls_spec *spec, int id, const char *what, ls_error *err) {
    return LS_FAIL(err, LS_ERR_INTERNAL, "spec %s: value %d: %s", spec->name, id, what);
}

static ls_status check_ix(const ls_spec *spec, ls_error *err) {
    for (int i = 0; i < spec->n_ix; i++) {
        const ls_ix *x = &spec->ix[i];
        bool ok =
            x->op == LS_IX_CONST || (x->op == LS_IX_AXIS && x->a >= 0 && x->a < spec->n_axes) ||
            (x->op == LS_IX_DIM && x->a >= 0 && x->a < spec->n_dims) ||
            (x->op == LS_IX_VALUE && x->a >= 0 && x->a < spec->n_values &&
             !ls_dtype_is_float((ls_dtype)spec->values[x->a].dtype)) ||
            (x->op >= LS_IX_ADD && x->op <= LS_IX_MOD && x->a >= 0 && x->a < i && x->b >= 0 && x->b < i);
        bool divides = x->op == LS_IX_DIV || x->op == LS_IX_MOD;
        if (!ok || (divides && spec->ix[x->b].hi <= 0)) {
            return LS_FAIL(
                err, LS_ERR_INTERNAL,
                "spec %s: index expression %d: expected operands before it, and a positive divisor",
                spec->name, i);
        }
    }
    for (int i = 0; i < spec->n_preds; i++) {
        const ls_pred *p = &spec->preds[i];
        bool range = p->limit != LS_SPEC_NONE;
        if (p->ix < 0 || p->ix >= spec->n_ix ||
            (range ? p->limit < 0 || p->limit >= spec->n_ix : p->multiple < 1)) {
            return LS_FAIL(err, LS_ERR_INTERNAL,
                           "spec %s: predicate %d: expected an index and a limit or a multiple", spec->name,
                           i);
        }
    }
    return LS_OK;
}

static bool gives_bool(uint16_t op) {
    return op == LS_OP_EQ || op == LS_OP_NE || op == LS_OP_LT || op == LS_OP_LE || op == LS_OP_ISNAN ||
           op == LS_OP_ISINF;
}

static bool map_dtypes_fit(const ls_spec *spec, const ls_value *v) {
    const int32_t operands[] = {v->a, v->b, v->c};
    if (v->map >= LS_OP_COUNT || ls_ops[v->map].op_class != LS_CLASS_MAP) {
        return false;
    }
    for (int i = 0; i < 3; i++) {
        if ((operands[i] >= 0) != (i < ls_ops[v->map].arity)) {
            return false;
        }
    }
    uint8_t a = spec->values[v->a].dtype, b = v->b >= 0 ? spec->values[v->b].dtype : a;
    if (v->map == LS_OP_CAST) {
        return true;
    }
    if (v->map == LS_OP_BITCAST) {
        return ls_dtype_size((ls_dtype)a) == ls_dtype_size((ls_dtype)v->dtype);
    }
    if (v->map == LS_OP_WHERE) {
        return a == LS_BOOL && b == v->dtype && spec->values[v->c].dtype == v->dtype;
    }
    return a == b && v->dtype == (gives_bool(v->map) ? LS_BOOL : a);
}

static uint64_t axes_of(const ls_spec *spec, const ls_value *v) {
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
        bound |= (uint64_t)1 << v->bound[i];
    }
    return v->op == LS_V_SCAN || v->op == LS_V_SORT ? axes | bound : axes & ~bound;
}

static bool ids_fit(const ls_spec *spec, int id) {
    const ls_value *v = &spec->values[id];
    const int32_t operands[] = {v->a, v->b, v->c}, exprs[] = {v->ix, v->check, v->limit};
    for (int i = 0; i < 3; i++) {
        if (operands[i] >= id || operands[i] < LS_SPEC_NONE || exprs[i] >= spec->n_ix ||
            exprs[i] < LS_SPEC_NONE) {
            return false;
        }
    }
    return v->n_preds >= 0 && v->first_pred >= 0 && v->first_pred + v->n_preds <= spec->n_preds &&
           v->n_bound <= LS_MAX_RANK;
}

/* Operands and dtypes of each kind of value. */
static const char *shape_error(const ls_spec *spec, const ls_value *v) {
    bool has_a = v->a >= 0, has_b = v->b >= 0, same = has_a && spec->values[v->a].dtype == v->dtype;
    if (v->op == LS_V_LOAD) {
        bool arg = v->arg >= 0 && v->arg < spec->n_args && v->ix >= 0;
        return !arg                                   ? "a load without argument or index"
               : spec->args[v->arg].dtype != v->dtype ? "a load of another dtype"
               : (v->check < 0) != (v->limit < 0)     ? "a check without its limit"
                                                      : NULL;
    }
    if (v->op == LS_V_GUARD) {
        return !same || v->n_preds < 1 || (has_b && spec->values[v->b].dtype != v->dtype)
                   ? "a guard's dtypes differ"
                   : NULL;
    }
    if (v->op == LS_V_INDEX || v->op == LS_V_RANDOM) {
        return v->ix < 0 || (v->op == LS_V_RANDOM && (!has_a || !has_b)) ? "no index" : NULL;
    }
    if (v->op == LS_V_MAP) {
        return map_dtypes_fit(spec, v) ? NULL : "the dtypes of a map";
    }
    if (v->op == LS_V_REDUCE) {
        bool index = v->map == LS_OP_ARGMIN || v->map == LS_OP_ARGMAX;
        bool reduce = v->map < LS_OP_COUNT && ls_ops[v->map].op_class == LS_CLASS_REDUCE;
        return !reduce || !has_a || (index ? v->dtype != LS_I64 : !same) ? "the dtypes of a reduction" : NULL;
    }
    if (v->op == LS_V_CONTRACT) {
        return !has_a || !has_b || spec->values[v->a].dtype != spec->values[v->b].dtype
                   ? "the dtypes of a contraction"
                   : NULL;
    }
    if (v->op == LS_V_SCAN || v->op == LS_V_SORT) {
        return !has_a || v->n_bound != 1 ? "a scan or sort along other than one axis" : NULL;
    }
    return v->op == LS_V_CONST ? NULL : "no such kind";
}

/* Only guards, reductions and contractions read a value that may be absent. */
static bool may_be_absent(const ls_spec *spec, int32_t id) {
    const ls_value *v = &spec->values[id];
    while (v->op == LS_V_GUARD && v->b != LS_SPEC_NONE) { /* the chains of a concatenation go on in b */
        if (may_be_absent(spec, v->a)) {
            return true;
        }
        v = &spec->values[v->b];
    }
    return v->op == LS_V_GUARD;
}

static ls_status check_value(const ls_spec *spec, int id, ls_error *err) {
    const ls_value *v = &spec->values[id];
    if (!ids_fit(spec, id)) {
        return bad(spec, id, "expected operands before it", err);
    }
    const char *what = shape_error(spec, v);
    if (what) {
        return bad(spec, id, what, err);
    }
    uint64_t bound = 0;
    for (int i = 0; i < v->n_bound; i++) {
        uint64_t bit = v->bound[i] < spec->n_axes ? (uint64_t)1 << v->bound[i] : 0;
        if (!bit || bound & bit) {
            return bad(spec, id, "an axis bound twice, or none", err);
        }
        bound |= bit;
    }
    if (axes_of(spec, v) != v->axes) {
        return bad(spec, id, "the set of its axes", err);
    }
    const int32_t operands[] = {v->a, v->b, v->c};
    bool skips = v->op == LS_V_GUARD || v->op == LS_V_REDUCE || v->op == LS_V_CONTRACT;
    for (int i = 0; i < 3 && !skips; i++) {
        if (operands[i] >= 0 && may_be_absent(spec, operands[i])) {
            return bad(spec, id, "reads a value that may be absent", err);
        }
    }
    if (v->op == LS_V_LOAD) {
        access a = {v->ix, v->first_pred, v->n_preds, v->check, v->limit, spec->args[v->arg].numel};
        LS_TRY(err, check_access(spec, &a, v->axes, "load", id, err));
    }
    return LS_OK;
}

static ls_status check_store(const ls_spec *spec, int id, ls_error *err) {
    const ls_store *s = &spec->stores[id];
    uint64_t axes = 0;
    bool ok = s->arg >= 0 && s->arg < spec->n_args && spec->args[s->arg].written && s->value >= 0 &&
              s->value < spec->n_values && s->ix >= 0 && s->ix < spec->n_ix && s->n_axes >= 0 &&
              s->n_axes <= 2 * LS_MAX_RANK && spec->values[s->value].dtype == spec->args[s->arg].dtype &&
              !may_be_absent(spec, s->value);
    for (int i = 0; ok && i < s->n_axes; i++) {
        ok = s->axes[i] < spec->n_axes && !(axes >> s->axes[i] & 1);
        axes |= ok ? (uint64_t)1 << s->axes[i] : 0;
    }
    if (!ok || (spec->values[s->value].axes & ~axes) || (spec->ix[s->ix].axes & ~axes)) {
        return LS_FAIL(err, LS_ERR_INTERNAL,
                       "spec %s: store %d: expected a present value of the argument's dtype over its axes",
                       spec->name, id);
    }
    access a = {s->ix, s->first_pred, s->n_preds, s->check, s->limit, spec->args[s->arg].numel};
    return check_access(spec, &a, axes, "store", id, err);
}

ls_status ls_spec_verify(const ls_spec *spec, ls_error *err) {
    if (spec->n_axes < 0 || spec->n_axes > LS_SPEC_MAX_AXES || spec->n_stores < 1) {
        return LS_FAIL(err, LS_ERR_INTERNAL, "spec %s: %d axes and %d stores", spec->name, spec->n_axes,
                       spec->n_stores);
    }
    LS_TRY(err, check_ix(spec, err));
    for (int i = 0; i < spec->n_values; i++) {
        LS_TRY(err, check_value(spec, i, err));
    }
    for (int i = 0; i < spec->n_stores; i++) {
        LS_TRY(err, check_store(spec, i, err));
    }
    return LS_OK;
}
