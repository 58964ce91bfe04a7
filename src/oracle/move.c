/* Movement: each operation computes, for every element of its result, which element of its operand stands
 * there. */
#include "oracle/oracle.h"

/* The operand's position for a result index; -1 where a PAD put a new element. */
static int64_t source_of(const ls_tensor *node, const ls_balls *x, const ls_balls *out, const int64_t *index,
                         int64_t linear) {
    int64_t at[LS_MAX_RANK] = {0};
    switch (node->op) {
    case LS_OP_RESHAPE:
    case LS_OP_DETACH:
        return linear;
    case LS_OP_PERMUTE:
        for (int i = 0; i < out->rank; i++) {
            at[node->attr.axes.axes[i]] = index[i];
        }
        break;
    case LS_OP_EXPAND:
        for (int i = 0; i < x->rank; i++) {
            at[i] = x->dim[i] == 1 ? 0 : index[i];
        }
        break;
    case LS_OP_PAD: {
        const ls_attr_pad *p = &node->attr.pad;
        for (int i = 0; i < out->rank; i++) {
            int64_t offset = index[i] - p->low[i], step = p->interior[i] + 1;
            if (offset < 0 || offset % step || offset / step >= x->dim[i]) {
                return -1;
            }
            at[i] = offset / step;
        }
        break;
    }
    case LS_OP_SLICE:
        for (int i = 0; i < out->rank; i++) {
            at[i] = node->attr.slice.start[i] + index[i] * node->attr.slice.step[i];
        }
        break;
    default: { /* WINDOW */
        const ls_attr_window *w = &node->attr.window;
        for (int i = 0; i < x->rank; i++) {
            at[i] = index[i];
        }
        for (int i = 0; i < w->count; i++) {
            at[w->axes[i]] = index[w->axes[i]] * w->stride[i] + index[x->rank + i] * w->dilation[i];
        }
    }
    }
    int64_t position = 0;
    for (int i = 0; i < x->rank; i++) {
        position = position * x->dim[i] + at[i];
    }
    return position;
}

static void set(ls_balls *out, int64_t to, const ls_balls *x, int64_t from) {
    out->rad[to] = x->rad[from];
    if (out->mid) {
        out->mid[to] = x->mid[from];
    } else {
        out->exact[to] = x->exact[from];
    }
    if (x->absent && x->absent[from] && out->absent) {
        out->absent[to] = 1;
    }
}

static bool needs_absent(const ls_tensor *node, const ls_balls *x) {
    return x->absent || (node->op == LS_OP_PAD && node->attr.pad.absent);
}

static ls_status concat(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *out) {
    int axis = node->attr.axis.axis;
    int64_t inner = 1, outer = 1, before = 0;
    for (int i = 0; i < out->rank; i++) {
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : out->dim[i];
    }
    for (int s = 0; s < node->n_src; s++) {
        const ls_balls *x = ls_oracle_get(st, node->src[s]);
        if (x->absent && !out->absent && !(out->absent = LS_ARENA_ARRAY(st->arena, uint8_t, out->n))) {
            return LS_FAIL_MEMORY(st->err, "the oracle's concat");
        }
        int64_t run = x->dim[axis] * inner;
        for (int64_t o = 0; o < outer; o++) {
            for (int64_t i = 0; i < run; i++) {
                set(out, (o * out->dim[axis] + before) * inner + i, x, o * run + i);
            }
        }
        before += x->dim[axis];
    }
    return LS_OK;
}

ls_status ls_oracle_move(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *out) {
    if (node->op == LS_OP_CONCAT) {
        return concat(st, node, out);
    }
    const ls_balls *x = ls_oracle_get(st, node->src[0]);
    if (needs_absent(node, x) && !(out->absent = LS_ARENA_ARRAY(st->arena, uint8_t, out->n))) {
        return LS_FAIL_MEMORY(st->err, "the oracle's absent elements");
    }
    int64_t index[LS_MAX_RANK] = {0};
    for (int64_t i = 0; i < out->n; i++) {
        int64_t from = source_of(node, x, out, index, i);
        if (from >= 0) {
            set(out, i, x, from);
        } else if (node->attr.pad.absent) {
            out->absent[i] = 1;
        } else if (out->mid) {
            out->mid[i] = ls_value_to_f64(node->dtype, node->attr.pad.value);
        } else {
            out->exact[i] = ls_oracle_wrap(node->dtype, (int64_t)node->attr.pad.value);
        }
        ls_next_index(out->rank, out->dim, index);
    }
    return LS_OK;
}
