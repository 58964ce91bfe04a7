/* Scatters: stores that combine, or that may meet an element twice, in ascending order of the updates.
 *
 * An update's place is a sum of axes times strides and of the rest, what the indices say. Axes whose values
 * can be told from the place (each stride is larger than all below it can reach) are called direct: updates
 * that differ in one meet different elements.
 *   by element  a thread an element of the result, which goes through the updates that may be for it, in
 *               order, and keeps the running result in a register;
 *   by update   a thread for each point of the direct axes, which does the updates of the others in order.
 * Which is sooner done is reckoned from the extents. Without direct axes the second is one thread. */
#include "base/number.h"
#include "emit/lower.h"

typedef struct digit { /* of a place */
    int axis;          /* -1: the rest */
    int64_t stride, reach;
} digit;

typedef struct scatter {
    ls_lower *l;
    int32_t number;
    const ls_store *s;
    digit digits[2 * LS_MAX_RANK + 1]; /* by ascending stride */
    int n;
    uint64_t direct;
    uint8_t axes[2 * LS_MAX_RANK], others[2 * LS_MAX_RANK]; /* direct ones and the rest, outermost first */
    int n_axes, n_others;
} scatter;

/* The rest of an index, without the axes of the space that it is affine in: what divides it and how far it
 * reaches (-1: not known). */
static void rest_of(const ls_spec *spec, const ls_store *s, int32_t id, int64_t factor, uint64_t affine,
                    int64_t *divisor, int64_t *reach) {
    const ls_ix *x = &spec->ix[id];
    if (x->op == LS_IX_ADD) {
        rest_of(spec, s, x->a, factor, affine, divisor, reach);
        rest_of(spec, s, x->b, factor, affine, divisor, reach);
        return;
    }
    int64_t k = x->op == LS_IX_MUL && spec->ix[x->b].op == LS_IX_CONST ? spec->ix[x->b].k : 0, more;
    if (k > 0 && !__builtin_mul_overflow(factor, k, &more)) {
        rest_of(spec, s, x->a, more, affine, divisor, reach);
        return;
    }
    if ((x->op == LS_IX_AXIS && (affine >> x->a & 1)) || (x->op == LS_IX_CONST && x->k == 0)) {
        return;
    }
    int64_t top = id == s->check && s->limit >= 0 ? spec->ix[s->limit].hi - 1 : x->lo >= 0 ? x->hi : -1;
    bool known = *reach >= 0 && top >= 0 && top < INT32_MAX && !__builtin_mul_overflow(top, factor, &more) &&
                 !__builtin_add_overflow(more, *reach, &more);
    *reach = known ? more : -1;
    *divisor = ls_gcd(*divisor, factor);
}

static void add_digit(scatter *c, digit d) {
    int at = c->n++;
    for (; at > 0 && c->digits[at - 1].stride > d.stride; at--) {
        c->digits[at] = c->digits[at - 1];
    }
    c->digits[at] = d;
}

/* Keeps the axes that a place tells; the others go into the rest. */
static void find_direct(scatter *c) {
    const ls_spec *spec = c->l->spec;
    const ls_store *s = c->s;
    uint64_t affine = 0;
    for (int i = 0; i < s->n_axes; i++) {
        int64_t stride, extent = ls_dim_bound(spec->extents_of_axes[s->axes[i]]);
        bool plain = ls_ix_affine(spec, s->ix, s->axes[i], &stride) && stride > 0 && stride < INT32_MAX &&
                     extent < INT32_MAX;
        affine |= plain ? UINT64_C(1) << s->axes[i] : 0;
    }
    for (;;) {
        int64_t divisor = 0, reach = 0, below = 0;
        c->n = 0;
        rest_of(spec, s, s->ix, 1, affine, &divisor, &reach);
        if (divisor) {
            add_digit(c, (digit){-1, divisor, reach});
        }
        for (int i = 0; i < s->n_axes; i++) {
            int64_t stride = 0, extent = ls_dim_bound(spec->extents_of_axes[s->axes[i]]);
            if (affine >> s->axes[i] & 1) {
                (void)ls_ix_affine(spec, s->ix, s->axes[i], &stride);
                add_digit(c, (digit){s->axes[i], stride, stride * (extent - 1)});
            }
        }
        int bad = -1;
        for (int i = 0; i < c->n && bad < 0; i++) {
            if (c->digits[i].stride <= below || (c->digits[i].reach < 0 && i + 1 < c->n)) {
                bad = i;
            }
            below += c->digits[i].reach;
        }
        if (bad < 0) {
            c->direct = affine;
            return;
        }
        while (bad < c->n && c->digits[bad].axis < 0) { /* the rest stays: drop the axis above it, or below */
            bad++;
        }
        bad = bad == c->n ? bad - 2 : bad;
        affine &= ~(UINT64_C(1) << c->digits[bad].axis);
    }
}

static void open_loops(scatter *c, const uint8_t *axes, int n) {
    ls_lower *l = c->l;
    ls_kb *kb = &l->kb;
    for (int i = 0; i < n; i++) {
        ls_dim dim = l->spec->extents_of_axes[axes[i]];
        ls_dtype type = ls_dim_bound(dim) < INT32_MAX ? LS_I32 : LS_I64;
        ls_val zero = ls_kb_const_int(kb, type, 0), one = ls_kb_const_int(kb, type, 1);
        ls_lower_bind(l, axes[i], ls_kb_loop(kb, zero, ls_lower_dim(l, dim, type), one, 0), true);
    }
}
static void close_loops(scatter *c, int n, int mark) {
    for (int i = 0; i < n; i++) {
        ls_kb_end_loop(&c->l->kb);
    }
    ls_lower_undo(c->l, mark);
}

static void by_update(scatter *c) {
    ls_lower *l = c->l;
    int64_t points = ls_lower_bound(l, c->axes, c->n_axes);
    ls_lower_begin(l, points > 1 ? "by_update" : "serial",
                   points > 1 ? LS_COVER_SCATTER_UPDATE : LS_COVER_SCATTER_SERIAL);
    if (points == 1) {
        ls_kb_workgroup(&l->kb, 1, 1, 1);
    }
    ls_lower_point(l, ls_lower_frame(l, points, points == 1 ? 1 : LS_EMIT_THREADS), c->axes, c->n_axes);
    int mark = ls_lower_mark(l);
    open_loops(c, c->others, c->n_others);
    ls_lower_store(l, c->number);
    close_loops(c, c->n_others, mark);
    ls_lower_end(l);
}

/* The direct axes of a place, bound; whether there is such a point. */
static ls_val bind_digits(scatter *c, ls_val place) {
    ls_lower *l = c->l;
    ls_kb *kb = &l->kb;
    ls_dtype type = ls_lower_type(l, place);
    ls_val left = place, valid = LS_VAL_NONE;
    for (int i = c->n - 1; i >= 0; i--) {
        const digit *d = &c->digits[i];
        ls_val stride = ls_kb_const_int(kb, type, d->stride), value = ls_kb_div(kb, left, stride);
        left = ls_kb_rem(kb, left, stride);
        if (d->axis >= 0) {
            ls_dim dim = l->spec->extents_of_axes[d->axis];
            valid = ls_lower_and(l, valid, ls_kb_lt(kb, value, ls_lower_dim(l, dim, type)));
            ls_lower_bind(l, d->axis, ls_kb_min(kb, value, ls_kb_const_int(kb, type, ls_dim_bound(dim) - 1)),
                          true);
        }
    }
    return valid;
}

static void by_element(scatter *c) {
    static const ls_op combine[] = {[LS_STORE_ADD] = LS_OP_ADD,
                                    [LS_STORE_MUL] = LS_OP_MUL,
                                    [LS_STORE_MIN] = LS_OP_MIN,
                                    [LS_STORE_MAX] = LS_OP_MAX};
    ls_lower *l = c->l;
    ls_kb *kb = &l->kb;
    const ls_store *s = c->s;
    ls_dtype dtype = (ls_dtype)l->spec->values[s->value].dtype;
    ls_lower_begin(l, "by_element", LS_COVER_SCATTER_ELEMENT);
    ls_val place = ls_lower_frame(l, l->spec->args[s->arg].numel, LS_EMIT_THREADS),
           valid = bind_digits(c, place);
    if (valid != LS_VAL_NONE) {
        ls_kb_if(kb, valid);
    }
    int mem = ls_lower_mem(l, LS_EMIT_ARG, s->arg), mark = ls_lower_mark(l);
    bool sets = s->combine == LS_STORE_SET;
    ls_val none = LS_VAL_NONE;
    ls_val now = ls_kb_var(kb, sets ? ls_lower_zero(kb, dtype) : ls_kb_load(kb, mem, place, none, none, 1)),
           met = ls_kb_var(kb, ls_kb_u32(kb, 0));
    open_loops(c, c->others, c->n_others);
    ls_val pred = ls_lower_preds(l, s->first_pred, s->n_preds);
    if (s->check != LS_SPEC_NONE) {
        ls_val in = ls_lower_check(l, s->check, s->limit, pred, l->spec->n_values + c->number);
        pred = ls_lower_and(l, pred, in);
    }
    l->active = pred;
    ls_val index = ls_lower_index(l, s->ix);
    ls_val same = ls_kb_eq(kb, ls_kb_cast(kb, index, LS_I64), ls_kb_cast(kb, place, LS_I64));
    int inside = ls_lower_mark(l);
    bool reports = l->reports[s->value]; /* whoever the update is for, what it reads is looked at */
    ls_val x = reports ? ls_lower_value(l, s->value).v : none;
    ls_kb_if(kb, ls_lower_and(l, pred, same));
    x = reports ? x : ls_lower_value(l, s->value).v;
    l->active = none;
    const ls_val both[3] = {ls_kb_get(kb, now), x, none};
    ls_kb_set(kb, now, sets ? x : ls_lower_map(kb, combine[s->combine], dtype, dtype, both));
    ls_kb_set(kb, met, ls_kb_u32(kb, 1));
    ls_kb_end_if(kb);
    ls_lower_undo(l, inside);
    close_loops(c, c->n_others, mark);
    ls_val out = ls_kb_get(kb, now);
    ls_kb_store(kb, mem, place, ls_dtype_is_float(dtype) ? ls_kb_canon(kb, out) : out,
                ls_kb_ne(kb, ls_kb_get(kb, met), ls_kb_u32(kb, 0)));
    if (valid != LS_VAL_NONE) {
        ls_kb_end_if(kb);
    }
    ls_lower_end(l);
}

void ls_lower_scatter(ls_lower *l, int32_t number) {
    const ls_store *s = &l->spec->stores[number];
    scatter c = {.l = l, .number = number, .s = s};
    if (ls_lower_bound(l, s->axes, s->n_axes) == 0) {
        return;
    }
    if (l->choice != LS_CHOICE_NAIVE) {
        find_direct(&c);
    }
    for (int i = 0; i < s->n_axes; i++) {
        if (c.direct >> s->axes[i] & 1) {
            c.axes[c.n_axes++] = s->axes[i];
        } else {
            c.others[c.n_others++] = s->axes[i];
        }
    }
    int64_t elements = l->spec->args[s->arg].numel;
    double updates = (double)ls_lower_bound(l, c.others, c.n_others),
           points = (double)ls_lower_bound(l, c.axes, c.n_axes);
    /* Steps of a device of some 32768 threads: a look at an index costs 1, a sum in memory 64. */
    double element = updates * (1 + (double)elements / 32768), update = 64 * updates * (1 + points / 32768);
    bool sooner = l->choice == LS_CHOICE_ELEMENT || (l->choice != LS_CHOICE_UPDATE && updates > 1 && element < update);
    if (l->choice != LS_CHOICE_NAIVE && elements > 0 && sooner) {
        by_element(&c);
    } else {
        by_update(&c);
    }
}
