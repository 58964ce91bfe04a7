/* Derivatives of reductions, scans, contractions and indexed operations. */
#include "graph/grad.h"
#include <string.h>

/* ---- reductions ---- */

/* A reduced tensor with its axes back, each repeated to x's extent. */
static ls_tensor *spread(ls_session *s, ls_tensor *r, const ls_tensor *x, const ls_attr_axes *axes) {
    ls_shape kept = x->shape;
    for (int i = 0; i < axes->count; i++) {
        kept.dim[axes->axes[i]] = ls_dim_fixed(1);
    }
    return ls_expand(s, ls_reshape(s, r, kept), x->shape);
}

static void sum_rule(ls_grad_state *st, ls_tensor *y, ls_tensor *g) {
    ls_grad_give(st, y->src[0], spread(st->s, g, y->src[0], &y->attr.axes));
}

/* x with the reduced axes last, in their order, as one axis; `inverse` undoes the permutation. */
static ls_tensor *as_lines(ls_session *s, ls_tensor *x, const ls_attr_axes *axes, int *inverse,
                           ls_shape *permuted) {
    int order[LS_MAX_RANK], n = 0;
    bool reduced[LS_MAX_RANK] = {false};
    for (int i = 0; i < axes->count; i++) {
        reduced[axes->axes[i]] = true;
    }
    ls_shape lines = {.rank = 0};
    for (int i = 0; i < x->shape.rank; i++) {
        if (!reduced[i]) {
            lines.dim[lines.rank++] = x->shape.dim[i];
            order[n++] = i;
        }
    }
    for (int i = 0; i < axes->count; i++) {
        order[n++] = axes->axes[i];
    }
    for (int i = 0; i < n; i++) {
        inverse[order[i]] = i;
    }
    ls_tensor *p = ls_permute(s, x, order);
    if (!p) {
        return NULL;
    }
    *permuted = p->shape;
    int64_t length = 1;
    bool fixed = true;
    for (int i = n - axes->count; i < n; i++) {
        fixed = fixed && ls_dim_is_fixed(p->shape.dim[i]);
        length *= p->shape.dim[i].offset;
    }
    lines.dim[lines.rank++] = ls_dim_fixed(fixed ? length : -1); /* -1 cannot be told where there are no lines */
    return ls_reshape(s, p, lines);
}

/* The product of the others is the running product before an element times the one after it: no division, so
 * zeros are right. */
static void prod_rule(ls_grad_state *st, ls_tensor *y, ls_tensor *g) {
    ls_session *s = st->s;
    int inverse[LS_MAX_RANK];
    ls_shape permuted = {.rank = 0};
    ls_tensor *x = as_lines(s, y->src[0], &y->attr.axes, inverse, &permuted);
    ls_tensor *others =
        ls_mul(s, ls_scan(s, x, LS_SCAN_PROD, -1, 1, 0), ls_scan(s, x, LS_SCAN_PROD, -1, 1, 1));
    others = others ? ls_permute(s, ls_reshape(s, others, permuted), inverse) : NULL;
    ls_grad_give(st, y->src[0], ls_mul(s, spread(s, g, y->src[0], &y->attr.axes), others));
}

/* Whether windows x slide over a maximum with a constant, as those of a pooled relu: nothing passes where the extreme is that constant, which the
 * extremes themselves tell, of which there are fewer. Not locked: cotangents may be added in another order. */
static bool over_floor(const ls_grad_state *st, const ls_tensor *y, const ls_tensor *x, double *out_floor) {
    const ls_tensor *z = x->op == LS_OP_WINDOW ? x->src[0] : NULL;
    return z && y->op == LS_OP_AMAX && y->math != LS_LOCKED && z->op == LS_OP_MAX && !ls_grad_asked(st, z) && ls_is_const(z->src[1], out_floor);
}

/* Everything goes to the first element that is the extreme, as ARGMIN and ARGMAX choose it. Where the
 * elements come through windows that tile, positions are compared in the window, so no scatter is needed. */
static void extreme_rule(ls_grad_state *st, ls_tensor *y, ls_tensor *g) {
    ls_session *s = st->s;
    ls_tensor *x = y->src[0];
    double least;
    const ls_attr_axes *axes = &y->attr.axes;
    ls_tensor *best = y->op == LS_OP_AMAX ? ls_argmax(s, x, axes->count, axes->axes, 0)
                                          : ls_argmin(s, x, axes->count, axes->axes, 0);
    ls_tensor *position = NULL;
    double most = 1;
    for (int i = 0; i < axes->count; i++) {
        most *= (double)ls_dim_bound(x->shape.dim[axes->axes[i]]);
    }
    ls_dtype dtype = most < INT32_MAX ? LS_I32 : LS_I64;
    for (int i = 0; i < axes->count; i++) { /* row-major over the axes in their order */
        ls_tensor *along = ls_iota(s, dtype, x->shape, axes->axes[i]);
        ls_tensor *extent = ls_cast(s, ls_dim_value(s, x->shape.dim[axes->axes[i]]), dtype);
        position = position ? ls_add(s, ls_mul(s, position, extent), along) : along;
    }
    best = ls_cast(s, best, dtype);
    ls_tensor *chosen = ls_eq(s, position, spread(s, best, x, axes));
    bool floored = over_floor(st, y, x, &least);
    g = floored ? ls_where(s, ls_lt(s, ls_const_like(s, y, least), y), g, ls_const_like(s, y, 0)) : g;
    ls_tensor *dx = ls_where(s, chosen, spread(s, g, x, axes), ls_const_like(s, x, 0));
    ls_grad_give(st, floored ? x->src[0]->src[0] : x, floored ? ls_grad_window(s, x, dx) : dx);
}

/* ---- scans ---- */

/* Moves along an axis by one, towards higher positions (by > 0) or lower; what enters is `fill`. */
static ls_tensor *shift(ls_session *s, ls_tensor *x, int axis, int by, double fill) {
    ls_pad_spec pad[LS_MAX_RANK] = {{0, 0, 0}};
    pad[axis] = (ls_pad_spec){by, -by, 0};
    return ls_pad(s, x, pad, fill);
}

/* s <- g + next * s, from the last element to the first: the adjoint of a running product. */
static ls_status product_body(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                              ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)ctx, (void)iteration;
    out_carry[0] = out_ys[0] = ls_add(s, xs[0], ls_mul(s, xs[1], carry[0]));
    return out_carry[0] ? LS_OK : ls_session_error(s)->code;
}

/* dx[k] = before[k] * s[k] with s[k] = g[k] + x[k+1] * s[k+1], scanning upwards and inclusive. */
static ls_tensor *running_product(ls_session *s, ls_tensor *x, ls_tensor *g, int axis) {
    int rank = x->shape.rank, to_front[LS_MAX_RANK], back[LS_MAX_RANK];
    to_front[0] = axis;
    for (int i = 0, n = 1; i < rank; i++) {
        if (i != axis) {
            to_front[n++] = i;
        }
    }
    for (int i = 0; i < rank; i++) {
        back[to_front[i]] = i;
    }
    ls_tensor *xs[2] = {ls_flip(s, ls_permute(s, g, to_front), 0),
                        ls_flip(s, ls_permute(s, shift(s, x, axis, -1, 0), to_front), 0)};
    if (!xs[0] || !xs[1]) {
        return NULL;
    }
    ls_shape line = ls_shape_remove(&xs[0]->shape, 0);
    ls_tensor *zero = ls_full(s, x->dtype, line, 0), *last, *sums;
    if (ls_loop(s, x->shape.dim[axis], 1, &zero, 2, xs, 1, product_body, NULL, &last, &sums) != LS_OK) {
        return NULL;
    }
    ls_tensor *sum = ls_permute(s, ls_flip(s, sums, 0), back);
    return ls_mul(s, ls_scan(s, x, LS_SCAN_PROD, axis, 1, 0), sum);
}

/* Every position of a running extreme passes its cotangent to the element it came from, the first of equals.
 */
static ls_tensor *running_extreme(ls_session *s, ls_tensor *x, ls_tensor *g, int axis, int kind) {
    ls_tensor *before = ls_scan(s, x, kind, axis, 1, 0);
    ls_tensor *fresh = kind == LS_SCAN_MAX ? ls_lt(s, before, x) : ls_lt(s, x, before);
    ls_tensor *position = ls_iota(s, LS_I64, x->shape, axis);
    ls_tensor *zero = ls_full(s, LS_I64, x->shape, 0);
    ls_tensor *source = ls_scan(s, ls_where(s, fresh, position, zero), LS_SCAN_MAX, axis, 0, 0);
    /* one flat index: the position with its axis replaced by the source */
    ls_tensor *flat = NULL;
    for (int i = 0; i < x->shape.rank; i++) {
        ls_tensor *at = i == axis ? source : ls_iota(s, LS_I64, x->shape, i);
        flat = flat ? ls_add(s, ls_mul(s, flat, ls_dim_value(s, x->shape.dim[i])), at) : at;
    }
    ls_shape line = {.rank = 1, .dim = {ls_dim_fixed(-1)}};
    ls_tensor *base = ls_reshape(s, ls_const_like(s, x, 0), line);
    ls_tensor *dx = ls_scatter(s, base, ls_reshape(s, flat, line), ls_reshape(s, g, line), 0, LS_SCATTER_ADD);
    return ls_reshape(s, dx, x->shape);
}

static void scan_rule(ls_grad_state *st, ls_tensor *y, ls_tensor *g) {
    ls_session *s = st->s;
    const ls_attr_axis *a = &y->attr.axis;
    ls_tensor *x = y->src[0];
    if (a->kind == LS_SCAN_SUM) {
        ls_grad_give(st, x, ls_scan(s, g, LS_SCAN_SUM, a->axis, a->exclusive, !a->reverse));
        return;
    }
    if (a->reverse) {
        x = ls_flip(s, x, a->axis);
        g = ls_flip(s, g, a->axis);
    }
    if (a->exclusive && g) { /* y[k] is the inclusive result one earlier */
        g = shift(s, g, a->axis, -1, 0);
    }
    if (!x || !g) {
        ls_grad_give(st, y->src[0], NULL);
        return;
    }
    ls_tensor *dx = a->kind == LS_SCAN_PROD ? running_product(s, x, g, a->axis)
                                            : running_extreme(s, x, g, a->axis, a->kind);
    ls_grad_give(st, y->src[0], a->reverse && dx ? ls_flip(s, dx, a->axis) : dx);
}

/* ---- contractions ---- */

/* One operand's axes in a contraction: batch, contracted and free, and where each stands in the result. */
typedef struct side {
    ls_tensor *x;
    const int *batch, *contract;
    int n_free, free[LS_MAX_RANK], free_in_result[LS_MAX_RANK];
} side;

static side side_of(const ls_tensor *y, int which, int first_free) {
    const ls_contract_spec *c = &y->attr.contract;
    side d = {.x = y->src[which],
              .batch = which ? c->batch_b : c->batch_a,
              .contract = which ? c->contract_b : c->contract_a};
    bool taken[LS_MAX_RANK] = {false};
    for (int i = 0; i < c->n_batch; i++) {
        taken[d.batch[i]] = true;
    }
    for (int i = 0; i < c->n_contract; i++) {
        taken[d.contract[i]] = true;
    }
    for (int i = 0; i < d.x->shape.rank; i++) {
        if (!taken[i]) {
            d.free[d.n_free] = i;
            d.free_in_result[d.n_free++] = first_free++;
        }
    }
    return d;
}

/* d(self): the cotangent contracted with the other operand over the other's free axes; axes then put in
 * self's order. */
static ls_tensor *contract_adjoint(ls_session *s, const ls_tensor *y, ls_tensor *g, const side *self,
                                   const side *other) {
    const ls_contract_spec *c = &y->attr.contract;
    ls_contract_spec d = {.n_batch = c->n_batch, .n_contract = other->n_free};
    for (int i = 0; i < c->n_batch; i++) {
        d.batch_a[i] = i;
        d.batch_b[i] = other->batch[i];
    }
    for (int i = 0; i < other->n_free; i++) {
        d.contract_a[i] = other->free_in_result[i];
        d.contract_b[i] = other->free[i];
    }
    ls_tensor *raw = ls_contract(s, ls_cast(s, g, self->x->dtype), other->x, &d, self->x->dtype);
    /* raw's axes: batch; self's free axes; other's contracted axes in the order they stand in it */
    int order[LS_MAX_RANK], at = 0, rank_of[LS_MAX_RANK];
    for (int i = 0; i < c->n_batch; i++) {
        order[self->batch[i]] = at++;
    }
    for (int i = 0; i < self->n_free; i++) {
        order[self->free[i]] = at++;
    }
    for (int i = 0; i < c->n_contract; i++) {
        rank_of[i] = 0;
        for (int k = 0; k < c->n_contract; k++) {
            rank_of[i] += other->contract[k] < other->contract[i];
        }
        order[self->contract[i]] = at + rank_of[i];
    }
    return ls_permute(s, raw, order);
}

/* A convolution's operand is WINDOW(p) with every offset contracted and every position free. Then d(p) is one
 * contraction, over (offset of the forward filter, the other's free axes) in ascending order: the cotangent,
 * its positions spread by the stride and padded with absent elements, seen through the same window with its
 * offsets running down. */
static bool is_window_contract(const ls_tensor *y, const side *self) {
    const ls_tensor *w = self->x;
    if (w->op != LS_OP_WINDOW) {
        return false;
    }
    const ls_attr_window *a = &w->attr.window;
    int rank = w->src[0]->shape.rank, found = 0;
    for (int k = 0; k < a->count; k++) {
        for (int i = 0; i < y->attr.contract.n_contract; i++) {
            found += self->contract[i] == rank + k;
        }
        for (int i = 0; i < self->n_free; i++) {
            found += self->free[i] == a->axes[k];
        }
        if (!ls_dim_is_fixed(w->src[0]->shape.dim[a->axes[k]])) {
            return false;
        }
    }
    return found == 2 * a->count && y->shape.rank + a->count <= LS_MAX_RANK;
}

static int result_axis_of(const ls_tensor *y, const side *self, int axis) {
    for (int i = 0; i < y->attr.contract.n_batch; i++) {
        if (self->batch[i] == axis) {
            return i;
        }
    }
    for (int i = 0; i < self->n_free; i++) {
        if (self->free[i] == axis) {
            return self->free_in_result[i];
        }
    }
    return -1;
}

static ls_tensor *window_contract_adjoint(ls_session *s, const ls_tensor *y, ls_tensor *g, const side *self,
                                          const side *other) {
    const ls_contract_spec *c = &y->attr.contract;
    const ls_tensor *w = self->x, *p = w->src[0];
    const ls_attr_window *a = &w->attr.window;
    ls_pad_spec pad[LS_MAX_RANK] = {{0, 0, 0}};
    ls_window_spec window[LS_MAX_RANK];
    int axes[LS_MAX_RANK];
    for (int k = 0; k < a->count; k++) {
        int64_t n = p->shape.dim[a->axes[k]].offset, m = w->shape.dim[a->axes[k]].offset;
        axes[k] = result_axis_of(y, self, a->axes[k]);
        pad[axes[k]] = (ls_pad_spec){(a->size[k] - 1) * a->dilation[k], n - (m - 1) * a->stride[k] - 1,
                                     a->stride[k] - 1};
        window[k] = (ls_window_spec){a->size[k], 1, a->dilation[k]};
    }
    ls_tensor *seen = ls_window(s, ls_pad_absent(s, ls_cast(s, g, p->dtype), pad), a->count, axes, window);
    for (int k = 0; k < a->count && seen; k++) {
        seen = ls_flip(s, seen, y->shape.rank + k);
    }
    ls_contract_spec d = {.n_batch = c->n_batch};
    for (int i = 0; i < c->n_batch; i++) {
        d.batch_a[i] = i;
        d.batch_b[i] = other->batch[i];
    }
    for (int i = 0; i < c->n_contract; i++) { /* offsets, in the order of the forward contraction */
        int offset = self->contract[i] - p->shape.rank;
        if (offset >= 0) {
            d.contract_a[d.n_contract] = y->shape.rank + offset;
            d.contract_b[d.n_contract++] = other->contract[i];
        }
    }
    for (int i = 0; i < other->n_free; i++) {
        d.contract_a[d.n_contract] = other->free_in_result[i];
        d.contract_b[d.n_contract++] = other->free[i];
    }
    ls_tensor *raw = ls_contract(s, seen, other->x, &d, p->dtype);
    /* raw's axes: batch; self's free axes in order; other's remaining axes, which are p's contracted axes
     * that are no offsets */
    int order[LS_MAX_RANK], at = 0;
    for (int i = 0; i < c->n_batch; i++) {
        order[self->batch[i]] = at++;
    }
    for (int i = 0; i < self->n_free; i++) {
        order[self->free[i]] = at++;
    }
    for (int i = 0; i < c->n_contract; i++) {
        if (self->contract[i] < p->shape.rank) {
            int before = 0;
            for (int k = 0; k < c->n_contract; k++) {
                before += self->contract[k] < p->shape.rank && other->contract[k] < other->contract[i];
            }
            order[self->contract[i]] = at + before;
        }
    }
    return ls_permute(s, raw, order);
}

static void contract_rule(ls_grad_state *st, ls_tensor *y, ls_tensor *g) {
    side a = side_of(y, 0, y->attr.contract.n_batch);
    side b = side_of(y, 1, y->attr.contract.n_batch + a.n_free);
    const side *sides[2] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        const side *self = sides[i], *other = sides[1 - i];
        if (!ls_grad_wanted(st, self->x)) {
            continue;
        }
        if (is_window_contract(y, self)) {
            ls_grad_give(st, self->x->src[0], window_contract_adjoint(st->s, y, g, self, other));
        } else {
            ls_grad_give(st, self->x, contract_adjoint(st->s, y, g, self, other));
        }
    }
}

/* ---- indexed ---- */

static void gather_rule(ls_grad_state *st, ls_tensor *y, ls_tensor *g) {
    ls_tensor *zero = ls_const_like(st->s, y->src[0], 0);
    ls_grad_give(st, y->src[0], ls_scatter(st->s, zero, y->src[1], g, y->attr.axis.axis, LS_SCATTER_ADD));
}

static void scatter_rule(ls_grad_state *st, ls_tensor *y, ls_tensor *g) {
    ls_session *s = st->s;
    ls_tensor *base = y->src[0], *index = y->src[1], *updates = y->src[2];
    int axis = y->attr.axis.axis, kind = y->attr.axis.kind;
    ls_tensor *zero = ls_const_like(s, base, 0), *seen = ls_gather(s, g, index, axis);
    ls_tensor *none = ls_const_like(s, updates, 0);
    switch ((ls_scatter_kind)kind) {
    case LS_SCATTER_ADD:
        ls_grad_give(st, base, g);
        ls_grad_give(st, updates, seen);
        return;
    case LS_SCATTER_SET: { /* of updates to one place the last stays: number them and see whose number is there */
        ls_shape line = {.rank = 1, .dim = {ls_dim_fixed(-1)}};
        ls_tensor *flat = ls_reshape(s, none, line);
        ls_tensor *number = flat ? ls_reshape(s, ls_iota(s, LS_I64, flat->shape, 0), updates->shape) : NULL;
        ls_tensor *last =
            ls_scatter(s, ls_full(s, LS_I64, base->shape, -1), index, number, axis, LS_SCATTER_SET);
        ls_grad_give(st, base, ls_where(s, ls_lt(s, last, ls_full(s, LS_I64, base->shape, 0)), g, zero));
        ls_grad_give(st, updates, ls_where(s, ls_eq(s, ls_gather(s, last, index, axis), number), seen, none));
        return;
    }
    case LS_SCATTER_MIN:
    case LS_SCATTER_MAX: /* to every element that equals the result */
        ls_grad_give(st, base, ls_where(s, ls_eq(s, y, base), g, zero));
        ls_grad_give(st, updates, ls_where(s, ls_eq(s, ls_gather(s, y, index, axis), updates), seen, none));
        return;
    case LS_SCATTER_MUL:
        if (ls_grad_wanted(st, updates)) {
            ls_grad_give(st, updates,
                         LS_NODE_FAIL(s, LS_ERR_UNSUPPORTED,
                                      "grad: the updates %s of a multiplying scatter have no derivative here",
                                      LS_TEXT(updates)));
            return;
        }
        ls_grad_give(
            st, base,
            ls_mul(s, g, ls_scatter(s, ls_const_like(s, base, 1), index, updates, axis, LS_SCATTER_MUL)));
    }
}

const ls_grad_rule ls_grad_fold_rules[LS_OP_COUNT] = {
    [LS_OP_SUM] = sum_rule,       [LS_OP_PROD] = prod_rule,       [LS_OP_AMIN] = extreme_rule,
    [LS_OP_AMAX] = extreme_rule,  [LS_OP_SCAN] = scan_rule,       [LS_OP_CONTRACT] = contract_rule,
    [LS_OP_GATHER] = gather_rule, [LS_OP_SCATTER] = scatter_rule,
};
