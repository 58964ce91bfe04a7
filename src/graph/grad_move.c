/* Derivatives of movement: each index map read backwards. */
#include "graph/grad.h"

static bool whole_axis(const ls_tensor *y, int axis) {
    const ls_attr_slice *a = &y->attr.slice;
    return a->start[axis] == 0 && a->step[axis] == 1 &&
           ls_dim_equal(y->shape.dim[axis], y->src[0]->shape.dim[axis]);
}

static void reshape_rule(ls_grad_state *st, ls_tensor *y, ls_tensor *g) {
    ls_grad_give(st, y->src[0], ls_reshape(st->s, g, y->src[0]->shape));
}

static void permute_rule(ls_grad_state *st, ls_tensor *y, ls_tensor *g) {
    int inverse[LS_MAX_RANK];
    for (int i = 0; i < y->shape.rank; i++) {
        inverse[y->attr.axes.axes[i]] = i;
    }
    ls_grad_give(st, y->src[0], ls_permute(st->s, g, inverse));
}

static void expand_rule(ls_grad_state *st, ls_tensor *y, ls_tensor *g) {
    int axes[LS_MAX_RANK], count = 0;
    for (int i = 0; i < y->shape.rank; i++) {
        if (!ls_dim_equal(y->shape.dim[i], y->src[0]->shape.dim[i])) {
            axes[count++] = i;
        }
    }
    ls_grad_give(st, y->src[0], count ? ls_sum(st->s, g, count, axes, 1) : g);
}

/* Padding undone: crop (or, where the padding cropped, put zeros back), then leave out the elements between.
 */
static void pad_rule(ls_grad_state *st, ls_tensor *y, ls_tensor *g) {
    const ls_attr_pad *p = &y->attr.pad;
    ls_pad_spec crop[LS_MAX_RANK] = {{0, 0, 0}};
    int64_t start[LS_MAX_RANK] = {0}, step[LS_MAX_RANK];
    bool sparse = false;
    for (int i = 0; i < y->shape.rank; i++) {
        crop[i] = (ls_pad_spec){-p->low[i], -p->high[i], 0};
        step[i] = p->interior[i] + 1;
        sparse |= p->interior[i] > 0;
    }
    ls_tensor *x = ls_pad(st->s, g, crop, 0);
    ls_grad_give(st, y->src[0], x && sparse ? ls_slice_to(st->s, x, start, step, &y->src[0]->shape) : x);
}

/* A strided slice undone: the elements go back to their places, zeros between and around. Negative steps are
 * flipped first. */
static void slice_rule(ls_grad_state *st, ls_tensor *y, ls_tensor *g) {
    const ls_attr_slice *a = &y->attr.slice;
    ls_pad_spec pad[LS_MAX_RANK] = {{0, 0, 0}};
    const ls_shape *from = &y->src[0]->shape;
    for (int i = 0; i < y->shape.rank && g; i++) {
        if (whole_axis(y, i)) {
            continue;
        }
        if (!ls_dim_is_fixed(from->dim[i]) || !ls_dim_is_fixed(y->shape.dim[i])) {
            ls_grad_give(st, y->src[0],
                         LS_NODE_FAIL(st->s, LS_ERR_UNSUPPORTED,
                                      "grad: slice of %s along axis %d, whose extent is a symbol",
                                      LS_TEXT(y->src[0]), i));
            return;
        }
        int64_t n = from->dim[i].offset, m = y->shape.dim[i].offset, start = a->start[i], step = a->step[i];
        if (m == 0) {
            ls_grad_give(st, y->src[0], ls_const_like(st->s, y->src[0], 0));
            return;
        }
        if (step < 0) {
            g = ls_flip(st->s, g, i);
            start += (m - 1) * step;
            step = -step;
        }
        pad[i] = (ls_pad_spec){start, n - start - (m - 1) * step - 1, step - 1};
    }
    ls_grad_give(st, y->src[0], g ? ls_pad(st->s, g, pad, 0) : NULL);
}

/* Windows that do not overlap and leave nothing over are a reshape in disguise, and so is their adjoint. */
static bool tiles(const ls_tensor *w) {
    const ls_attr_window *a = &w->attr.window;
    for (int i = 0; i < a->count; i++) {
        ls_dim n = w->src[0]->shape.dim[a->axes[i]], o = w->shape.dim[a->axes[i]];
        if (!ls_dim_is_fixed(n) || a->dilation[i] != 1 || a->stride[i] != a->size[i] ||
            n.offset != o.offset * a->size[i]) {
            return false;
        }
    }
    return w->shape.rank <= LS_MAX_RANK;
}

static ls_tensor *untile(ls_session *s, const ls_tensor *w, ls_tensor *g) {
    const ls_attr_window *a = &w->attr.window;
    int rank = w->src[0]->shape.rank, order[LS_MAX_RANK], at = 0;
    for (int i = 0; i < rank; i++) { /* each position beside its offset */
        order[at++] = i;
        for (int k = 0; k < a->count; k++) {
            if (a->axes[k] == i) {
                order[at++] = rank + k;
            }
        }
    }
    return ls_reshape(s, ls_permute(s, g, order), w->src[0]->shape);
}

/* One window offset's elements, put back where they came from. */
static ls_tensor *place(ls_session *s, const ls_tensor *w, ls_tensor *g, const int64_t *offset) {
    const ls_attr_window *a = &w->attr.window;
    const ls_shape *from = &w->src[0]->shape;
    int64_t start[LS_MAX_RANK] = {0}, step[LS_MAX_RANK];
    ls_pad_spec pad[LS_MAX_RANK] = {{0, 0, 0}};
    ls_shape one = w->shape, without = w->shape;
    without.rank = from->rank;
    for (int i = 0; i < w->shape.rank; i++) {
        step[i] = 1;
    }
    for (int k = 0; k < a->count; k++) {
        int64_t low = offset[k] * a->dilation[k], m = w->shape.dim[a->axes[k]].offset;
        start[from->rank + k] = offset[k];
        one.dim[from->rank + k] = ls_dim_fixed(1);
        pad[a->axes[k]] = (ls_pad_spec){low, from->dim[a->axes[k]].offset - low - (m - 1) * a->stride[k] - 1,
                                        a->stride[k] - 1};
    }
    ls_tensor *slice = ls_slice_to(s, g, start, step, &one);
    return ls_pad(s, ls_reshape(s, slice, without), pad, 0);
}

ls_tensor *ls_grad_window(ls_session *s, const ls_tensor *w, ls_tensor *g) {
    const ls_attr_window *a = &w->attr.window;
    if (tiles(w)) {
        return untile(s, w, g);
    }
    for (int k = 0; k < a->count; k++) {
        if (!ls_dim_is_fixed(w->shape.dim[a->axes[k]])) {
            return LS_NODE_FAIL(s, LS_ERR_UNSUPPORTED,
                                "grad: window of %s along axis %d, whose extent is a symbol",
                                LS_TEXT(w->src[0]), a->axes[k]);
        }
    }
    int64_t offset[LS_MAX_RANK] = {0};
    ls_tensor *sum = NULL;
    do { /* ascending offsets, row-major */
        ls_tensor *term = place(s, w, g, offset);
        sum = sum ? ls_add(s, sum, term) : term;
        if (!sum) {
            return NULL;
        }
        int k = a->count - 1;
        while (k >= 0 && ++offset[k] == a->size[k]) {
            offset[k--] = 0;
        }
        if (k < 0) {
            return sum;
        }
    } while (true);
}

static void window_rule(ls_grad_state *st, ls_tensor *y, ls_tensor *g) {
    ls_grad_give(st, y->src[0], ls_grad_window(st->s, y, g));
}

static void concat_rule(ls_grad_state *st, ls_tensor *y, ls_tensor *g) {
    int axis = y->attr.axis.axis;
    int64_t start[LS_MAX_RANK] = {0}, step[LS_MAX_RANK];
    for (int i = 0; i < y->shape.rank; i++) {
        step[i] = 1;
    }
    const ls_tensor *symbolic = NULL; /* the operand behind which no start is a number */
    for (int i = 0; i < y->n_src; i++) {
        ls_dim extent = y->src[i]->shape.dim[axis];
        if (ls_grad_wanted(st, y->src[i])) {
            ls_tensor *part = symbolic ? LS_NODE_FAIL(st->s, LS_ERR_UNSUPPORTED, "grad: concat after %s, whose extent along axis %d is a symbol",
                                                      LS_TEXT(symbolic), axis)
                                       : ls_slice_to(st->s, g, start, step, &y->src[i]->shape);
            ls_grad_give(st, y->src[i], part);
        }
        symbolic = symbolic || ls_dim_is_fixed(extent) ? symbolic : y->src[i];
        start[axis] += extent.offset;
    }
}

static void copy_rule(ls_grad_state *st, ls_tensor *y, ls_tensor *g) {
    ls_grad_give(st, y->src[0], ls_to_device(st->s, g, y->src[0]->device));
}

const ls_grad_rule ls_grad_move_rules[LS_OP_COUNT] = {
    [LS_OP_RESHAPE] = reshape_rule, [LS_OP_PERMUTE] = permute_rule, [LS_OP_EXPAND] = expand_rule,
    [LS_OP_PAD] = pad_rule,         [LS_OP_SLICE] = slice_rule,     [LS_OP_WINDOW] = window_rule,
    [LS_OP_CONCAT] = concat_rule,   [LS_OP_COPY] = copy_rule,
};
