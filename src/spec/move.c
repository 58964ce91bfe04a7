/* Movement, backwards: where an element of the result is read in the operand, and under which predicates. */
#include "plan/reshape.h"
#include "spec/build.h"
#include <string.h>

/* Adds a predicate unless it is proved; notes when it is proved false. */
static void guard_range(ls_spec_builder *b, ls_guard *guard, int32_t ix, int32_t limit) {
    const ls_spec *spec = b->spec;
    int64_t lo = spec->ix[ix].lo, hi = spec->ix[ix].hi;
    if (hi < 0 || spec->ix[limit].hi <= 0 || (lo != INT64_MIN && lo >= spec->ix[limit].hi)) {
        guard->never = true;
    } else if (lo < 0 || !ls_ix_proved_below(spec, ix, limit)) {
        guard->pred[guard->n++] = (ls_pred){ix, limit, 0};
    }
}

static void guard_multiple(ls_spec_builder *b, ls_guard *guard, int32_t ix, int64_t multiple) {
    int32_t divisor = ls_ix_const(b, multiple), rest = ls_ix_mod(b, ix, divisor);
    const ls_ix *r = &b->spec->ix[rest];
    if (r->lo > 0) {
        guard->never = true;
    } else if (r->hi > 0) {
        guard->pred[guard->n++] =
            (ls_pred){r->op == LS_IX_MOD && r->b == divisor ? r->a : rest, LS_SPEC_NONE, multiple};
    }
}

static void move_same(ls_spec_builder *b, const ls_tensor *node, int which, const int32_t *ix,
                      int32_t *out_ix, ls_guard *guard) {
    (void)b, (void)which, (void)guard;
    memcpy(out_ix, ix, sizeof *ix * (size_t)node->shape.rank);
}

static void move_permute(ls_spec_builder *b, const ls_tensor *node, int which, const int32_t *ix,
                         int32_t *out_ix, ls_guard *guard) {
    (void)b, (void)which, (void)guard;
    for (int i = 0; i < node->shape.rank; i++) {
        out_ix[node->attr.axes.axes[i]] = ix[i];
    }
}

static void move_expand(ls_spec_builder *b, const ls_tensor *node, int which, const int32_t *ix,
                        int32_t *out_ix, ls_guard *guard) {
    (void)which, (void)guard;
    const ls_shape *from = &node->src[0]->shape;
    int shift = node->shape.rank - from->rank;
    for (int i = 0; i < from->rank; i++) {
        out_ix[i] = ls_dim_is_one(from->dim[i]) ? ls_ix_const(b, 0) : ix[i + shift];
    }
}

static void move_reshape(ls_spec_builder *b, const ls_tensor *node, int which, const int32_t *ix,
                         int32_t *out_ix, ls_guard *guard) {
    (void)which, (void)guard;
    const ls_shape *to = &node->shape, *from = &node->src[0]->shape;
    ls_reshape_map map;
    ls_reshape_match(to, from, &map);
    for (int i = 0; i < from->rank; i++) {
        out_ix[i] = ls_ix_const(b, 0);
    }
    for (int n = 0; n < map.n_blocks; n++) {
        const ls_reshape_block *block = &map.block[n];
        if (block->n_to == 1 && block->n_from == 1) {
            out_ix[block->from[0]] = ix[block->to[0]];
            continue;
        }
        int32_t k = ls_ix_const(b, 0), stride = ls_ix_const(b, 1);
        for (int i = block->n_to; i-- > 0;) {
            k = ls_ix_add(b, k, ls_ix_mul(b, ix[block->to[i]], stride));
            stride = ls_ix_mul(b, stride, ls_ix_dim(b, to->dim[block->to[i]]));
        }
        bool symbolic =
            false; /* a quotient by a symbol keeps no range of its own: the remainder gives it one */
        for (int i = block->n_from; i-- > 0;) {
            int32_t extent = ls_ix_dim(b, from->dim[block->from[i]]);
            out_ix[block->from[i]] = i > 0 || symbolic ? ls_ix_mod(b, k, extent) : k;
            k = i > 0 ? ls_ix_div(b, k, extent) : k;
            symbolic |= b->spec->ix[extent].op != LS_IX_CONST;
        }
    }
}

static void move_pad(ls_spec_builder *b, const ls_tensor *node, int which, const int32_t *ix, int32_t *out_ix,
                     ls_guard *guard) {
    (void)which;
    const ls_attr_pad *pad = &node->attr.pad;
    for (int i = 0; i < node->shape.rank; i++) {
        int32_t at = ls_ix_add_const(b, ix[i], -pad->low[i]);
        int64_t step = pad->interior[i] + 1;
        if (step > 1) {
            guard_multiple(b, guard, at, step);
            at = ls_ix_div(b, at, ls_ix_const(b, step));
        }
        out_ix[i] = at;
        guard_range(b, guard, at, ls_ix_dim(b, node->src[0]->shape.dim[i]));
    }
}

static void move_slice(ls_spec_builder *b, const ls_tensor *node, int which, const int32_t *ix,
                       int32_t *out_ix, ls_guard *guard) {
    (void)which, (void)guard;
    for (int i = 0; i < node->shape.rank; i++) {
        out_ix[i] =
            ls_ix_add_const(b, ls_ix_scale(b, ix[i], node->attr.slice.step[i]), node->attr.slice.start[i]);
    }
}

static void move_window(ls_spec_builder *b, const ls_tensor *node, int which, const int32_t *ix,
                        int32_t *out_ix, ls_guard *guard) {
    (void)which, (void)guard;
    const ls_attr_window *w = &node->attr.window;
    int rank = node->src[0]->shape.rank;
    memcpy(out_ix, ix, sizeof *ix * (size_t)rank);
    for (int i = 0; i < w->count; i++) {
        int axis = w->axes[i];
        out_ix[axis] = ls_ix_add(b, ls_ix_scale(b, ix[axis], w->stride[i]),
                                 ls_ix_scale(b, ix[rank + i], w->dilation[i]));
    }
}

static void move_concat(ls_spec_builder *b, const ls_tensor *node, int which, const int32_t *ix,
                        int32_t *out_ix, ls_guard *guard) {
    int axis = node->attr.axis.axis;
    memcpy(out_ix, ix, sizeof *ix * (size_t)node->shape.rank);
    for (int i = 0; i < which; i++) {
        out_ix[axis] = ls_ix_sub(b, out_ix[axis], ls_ix_dim(b, node->src[i]->shape.dim[axis]));
    }
    guard_range(b, guard, out_ix[axis], ls_ix_dim(b, node->src[which]->shape.dim[axis]));
}

typedef void (*move_fn)(ls_spec_builder *b, const ls_tensor *node, int which, const int32_t *ix,
                        int32_t *out_ix, ls_guard *guard);
static const move_fn moves[LS_OP_COUNT] = {
    [LS_OP_RESHAPE] = move_reshape, [LS_OP_PERMUTE] = move_permute, [LS_OP_EXPAND] = move_expand,
    [LS_OP_PAD] = move_pad,         [LS_OP_SLICE] = move_slice,     [LS_OP_WINDOW] = move_window,
    [LS_OP_CONCAT] = move_concat,   [LS_OP_DETACH] = move_same,
};

void ls_move_index(ls_spec_builder *b, const ls_tensor *node, int which, const int32_t *ix, int32_t *out_ix,
                   ls_guard *guard) {
    guard->n = 0;
    guard->never = false;
    moves[node->op](b, node, which, ix, out_ix, guard);
}

int32_t ls_ix_position(ls_spec_builder *b, const ls_shape *shape, const int32_t *ix) {
    int32_t k = ls_ix_const(b, 0), stride = ls_ix_const(b, 1);
    for (int i = shape->rank; i-- > 0;) {
        k = ls_ix_add(b, k, ls_ix_mul(b, ix[i], stride));
        stride = ls_ix_mul(b, stride, ls_ix_dim(b, shape->dim[i]));
    }
    return k;
}

int32_t ls_ix_element(ls_spec_builder *b, const ls_shape *shape, const int32_t *ix) {
    int64_t strides[LS_MAX_RANK];
    ls_shape_strides(shape, strides);
    int32_t k = ls_ix_const(b, 0);
    for (int i = 0; i < shape->rank; i++) {
        k = ls_ix_add(b, k, ls_ix_scale(b, ix[i], strides[i]));
    }
    return k;
}
