/* Gather, scatter and argsort. Indices are exact integers; an undecided index leaves what it reads or writes
 * undecided. */
#include "oracle/oracle.h"
#include <string.h>

#define INF __builtin_inf()

/* x[outer, axis, inner] and index[count]. */
typedef struct split {
    int64_t outer, extent, inner, count;
} split;

static split split_at(const ls_balls *x, int axis, const ls_balls *index) {
    split s = {1, x->dim[axis], 1, index->n};
    for (int i = 0; i < x->rank; i++) {
        if (i != axis) {
            *(i < axis ? &s.outer : &s.inner) *= x->dim[i];
        }
    }
    return s;
}

static bool in_range(const ls_balls *index, int64_t i, int64_t extent) {
    int64_t v = index->exact[i];
    return v >= 0 && v < extent && !(index->dtype == LS_U64 && v < 0);
}

ls_status ls_oracle_gather(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *out) {
    const ls_balls *x = ls_oracle_get(st, node->src[0]), *index = ls_oracle_get(st, node->src[1]);
    split s = split_at(x, node->attr.axis.axis, index);
    for (int64_t o = 0; o < s.outer; o++) {
        for (int64_t i = 0; i < s.count; i++) {
            for (int64_t j = 0; j < s.inner; j++) {
                int64_t to = (o * s.count + i) * s.inner + j;
                bool inside = in_range(index, i, s.extent);
                int64_t from = inside ? (o * s.extent + index->exact[i]) * s.inner + j : 0;
                if (out->mid) {
                    out->mid[to] = inside ? x->mid[from] : __builtin_nan("");
                } else {
                    out->exact[to] = inside ? x->exact[from] : 0;
                }
                out->rad[to] = index->rad[i] > 0 ? INF : inside ? x->rad[from] : 0;
            }
        }
    }
    return LS_OK;
}

ls_status ls_oracle_scatter(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *out) {
    static const ls_op ops[] = {LS_OP_ADD, LS_OP_ADD, LS_OP_MUL, LS_OP_MIN,
                                LS_OP_MAX}; /* by ls_scatter_kind */
    const ls_balls *base = ls_oracle_get(st, node->src[0]), *index = ls_oracle_get(st, node->src[1]);
    const ls_balls *update = ls_oracle_get(st, node->src[2]);
    split s = split_at(base, node->attr.axis.axis, index);
    int kind = node->attr.axis.kind;
    bool undecided = false;
    memcpy(out->rad, base->rad, (size_t)out->n * sizeof *out->rad);
    if (out->mid) {
        memcpy(out->mid, base->mid, (size_t)out->n * sizeof *out->mid);
    } else {
        memcpy(out->exact, base->exact, (size_t)out->n * sizeof *out->exact);
    }
    for (int64_t o = 0; o < s.outer; o++) {
        for (int64_t i = 0; i < s.count; i++) {
            undecided |= index->rad[i] > 0;
            for (int64_t j = 0; j < s.inner && in_range(index, i, s.extent); j++) {
                int64_t from = (o * s.count + i) * s.inner + j,
                        to = (o * s.extent + index->exact[i]) * s.inner + j;
                if (!out->mid) {
                    out->exact[to] = kind == LS_SCATTER_SET
                                         ? update->exact[from]
                                         : ls_oracle_integer(ops[kind], out->dtype, out->dtype,
                                                             out->exact[to], update->exact[from]);
                    out->rad[to] =
                        kind == LS_SCATTER_SET ? update->rad[from] : out->rad[to] + update->rad[from];
                    continue;
                }
                ls_ball y = ls_balls_at(update, from);
                if (kind != LS_SCATTER_SET) {
                    y = ls_ball_map(ops[kind], out->dtype, out->dtype, node->math, ls_balls_at(out, to), y);
                }
                out->mid[to] = y.m, out->rad[to] = y.r;
            }
        }
    }
    for (int64_t i = 0; undecided && i < out->n; i++) {
        out->rad[i] = INF;
    }
    return LS_OK;
}

static bool before(const ls_balls *x, bool descending, int64_t a, int64_t b) {
    if (!x->mid) {
        return ls_oracle_integer(LS_OP_LT, x->dtype, LS_BOOL, x->exact[descending ? b : a],
                                 x->exact[descending ? a : b]);
    }
    double u = x->mid[a], v = x->mid[b];
    return u == u && (v != v || (descending ? u > v : u < v));
}

ls_status ls_oracle_argsort(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *out) {
    const ls_balls *x = ls_oracle_get(st, node->src[0]);
    int axis = node->attr.axis.axis;
    bool descending = node->attr.axis.kind;
    int64_t n = x->dim[axis], stride = 1;
    for (int i = axis + 1; i < x->rank; i++) {
        stride *= x->dim[i];
    }
    for (int64_t line = 0; n > 0 && line < x->n / n; line++) {
        int64_t base = line / stride * stride * n + line % stride;
        for (int64_t i = 0; i < n; i++) { /* insertion keeps equal elements in order */
            int64_t at = i;
            while (at > 0 && before(x, descending, base + i * stride,
                                    base + out->exact[base + (at - 1) * stride] * stride)) {
                out->exact[base + at * stride] = out->exact[base + (at - 1) * stride];
                at--;
            }
            out->exact[base + at * stride] = i;
        }
        for (int64_t i = 0; i < n; i++) { /* undecided where a neighbour in the order is within the radii */
            int64_t self = base + out->exact[base + i * stride] * stride;
            for (int64_t j = i - 1; j <= i + 1; j += 2) {
                if (j >= 0 && j < n) {
                    int64_t other = base + out->exact[base + j * stride] * stride;
                    double gap = x->mid ? x->mid[self] - x->mid[other] : 1;
                    double radii = x->rad[self] + x->rad[other];
                    if (radii > 0 && !((gap < 0 ? -gap : gap) > radii)) {
                        out->rad[base + i * stride] = INF;
                    }
                }
            }
        }
    }
    return LS_OK;
}
