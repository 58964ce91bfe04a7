/* Index expressions against straight loops: chains of movement drawn at random, of every rank, with empty
 * extents and symbols at several values. Every element that a spec loads, and every element it stores,
 * must be the one that the loops say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "unit/spec_support.h"

#define CASES 10000
#define MOST 3000 /* elements of any tensor of a chain */

static ls_symbol symbols[2] = {{.name = "B", .bound = 4, .index = 0}, {.name = "C", .bound = 3, .index = 1}};
static const int64_t settings[][2] = {{4, 3}, {1, 1}, {3, 2}, {2, 0}};

/* A tensor and what each of its elements is, dense and row-major at the symbols' values. */
typedef struct traced {
    ls_tensor *node;
    int64_t *data;
} traced;

static int64_t dims_at(const ls_shape *shape, const int64_t *values, int64_t *dims) {
    int64_t n = 1;
    for (int i = 0; i < shape->rank; i++) {
        dims[i] = ls_dim_eval(shape->dim[i], values);
        n *= dims[i];
    }
    return n;
}

static void unravel(int64_t k, const int64_t *dims, int rank, int64_t *at) {
    for (int i = rank; i-- > 0;) {
        at[i] = k % dims[i];
        k /= dims[i];
    }
}

static int64_t ravel(const int64_t *at, const int64_t *dims, int rank) {
    int64_t k = 0;
    for (int i = 0; i < rank; i++) {
        k = k * dims[i] + at[i];
    }
    return k;
}

/* The element of operand `which` that element `at` of a movement node is; -1 where it is none of it.
 * Written from the definitions in ops.h, one axis at a time. */
static int64_t moved_from(const ls_tensor *x, int which, const int64_t *at, const int64_t *values) {
    const ls_tensor *src = x->src[which];
    int64_t to[LS_MAX_RANK], from[LS_MAX_RANK], p[LS_MAX_RANK] = {0};
    dims_at(&x->shape, values, to);
    dims_at(&src->shape, values, from);
    if (x->op == LS_OP_RESHAPE) {
        return ravel(at, to, x->shape.rank);
    }
    for (int i = 0; i < src->shape.rank; i++) {
        if (x->op == LS_OP_PERMUTE) {
            p[x->attr.axes.axes[i]] = at[i];
        } else if (x->op == LS_OP_EXPAND) {
            p[i] = from[i] == 1 ? 0 : at[i];
        } else if (x->op == LS_OP_SLICE) {
            p[i] = x->attr.slice.start[i] + at[i] * x->attr.slice.step[i];
        } else if (x->op == LS_OP_PAD) {
            int64_t step = x->attr.pad.interior[i] + 1, t = at[i] - x->attr.pad.low[i];
            if (t < 0 || t % step || t / step >= from[i]) {
                return -1;
            }
            p[i] = t / step;
        } else if (x->op == LS_OP_WINDOW) {
            p[i] = at[i];
            for (int j = 0; j < x->attr.window.count; j++) {
                if (x->attr.window.axes[j] == i) {
                    p[i] = at[i] * x->attr.window.stride[j] +
                           at[src->shape.rank + j] * x->attr.window.dilation[j];
                }
            }
        } else if (x->op == LS_OP_CONCAT) {
            p[i] = at[i];
            for (int j = 0; i == x->attr.axis.axis && j < which; j++) {
                p[i] -= ls_dim_eval(x->src[j]->shape.dim[i], values);
            }
            if (p[i] < 0 || p[i] >= from[i]) {
                return -1;
            }
        } else {
            fail_msg("no definition of %s", ls_ops[x->op].name);
        }
    }
    return ravel(p, from, src->shape.rank);
}

static int64_t *trace(bench *b, const ls_tensor *x, int64_t *const *operands, const int64_t *values) {
    int64_t dims[LS_MAX_RANK], at[LS_MAX_RANK], n = dims_at(&x->shape, values, dims);
    int64_t *data = LS_ARENA_ARRAY(&b->arena, int64_t, n + 1);
    for (int64_t k = 0; k < n; k++) {
        unravel(k, dims, x->shape.rank, at);
        data[k] = x->op == LS_OP_PAD && !x->attr.pad.absent ? (int64_t)x->attr.pad.value : 0;
        for (int i = 0; i < x->n_src; i++) {
            int64_t from = moved_from(x, i, at, values);
            data[k] = from >= 0 ? operands[i][from] : data[k];
        }
    }
    return data;
}

/* ---- drawing ---- */
static int64_t draw(ls_rng *rng, int64_t lo, int64_t hi) {
    return lo + (int64_t)ls_rng_below(rng, (uint64_t)(hi - lo + 1));
}

static ls_shape draw_shape(ls_rng *rng) {
    int rank = (int)draw(rng, 0, 8);
    int64_t dims[LS_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        dims[i] = draw(rng, 0, 9) == 0 && draw(rng, 0, 3) == 0 ? 0 : draw(rng, 1, rank > 4 ? 3 : 6);
    }
    ls_shape shape = ls_shape_make(rank, dims);
    for (int i = 0; i < rank; i++) {
        if (draw(rng, 0, 5) == 0) {
            shape.dim[i] = ls_dim_symbol(&symbols[draw(rng, 0, 1)], draw(rng, 1, 2), draw(rng, 0, 1));
        }
    }
    return shape;
}

static ls_tensor *draw_reshape(bench *b, ls_rng *rng, ls_tensor *x) {
    ls_shape shape = x->shape;
    for (int n = (int)draw(rng, 1, 3); n-- > 0;) {
        int i = shape.rank ? (int)draw(rng, 0, shape.rank - 1) : 0;
        ls_dim *d = shape.dim;
        if (draw(rng, 0, 1) && i + 1 < shape.rank && (!d[i].symbol || !d[i + 1].symbol)) { /* merge */
            int64_t k = d[i].symbol ? d[i + 1].offset : d[i].offset;
            ls_dim other = d[i].symbol ? d[i] : d[i + 1];
            d[i] = (ls_dim){k && other.symbol ? other.symbol : NULL, k && other.symbol ? other.scale * k : 0,
                            other.offset * k};
            memmove(&d[i + 1], &d[i + 2], sizeof *d * (size_t)(shape.rank - i - 2));
            shape.rank--;
        } else if (shape.rank < LS_MAX_RANK) { /* split off a factor, which may be 1 */
            int64_t k = draw(rng, 1, 3);
            if (!shape.rank || d[i].scale % k || d[i].offset % k) {
                k = 1;
            }
            memmove(&d[i + 1], &d[i], sizeof *d * (size_t)(shape.rank - i));
            bool outer = draw(rng, 0, 1);
            if (shape.rank) {
                ls_dim rest = {d[i + 1].symbol, d[i + 1].scale / k, d[i + 1].offset / k};
                d[i + 1] = outer ? rest : ls_dim_fixed(k);
                d[i] = outer ? ls_dim_fixed(k) : rest;
            } else {
                d[0] = ls_dim_fixed(1);
            }
            shape.rank++;
        }
    }
    return ls_reshape(b->s, x, shape);
}

static ls_tensor *draw_pad(bench *b, ls_rng *rng, ls_tensor *x) {
    ls_pad_spec pads[LS_MAX_RANK];
    for (int i = 0; i < x->shape.rank; i++) {
        pads[i] = (ls_pad_spec){0, 0, 0};
        if (draw(rng, 0, 2) == 0) {
            pads[i] = (ls_pad_spec){draw(rng, -1, 2), draw(rng, -1, 2),
                                    x->shape.dim[i].symbol ? 0 : draw(rng, 0, 2)};
        }
    }
    return draw(rng, 0, 1) ? ls_pad(b->s, x, pads, (double)draw(rng, -9, -2)) : ls_pad_absent(b->s, x, pads);
}

static ls_tensor *draw_slice(bench *b, ls_rng *rng, ls_tensor *x) {
    ls_slice_spec slices[LS_MAX_RANK];
    for (int i = 0; i < x->shape.rank; i++) {
        int64_t n = ls_dim_bound(x->shape.dim[i]), start = n ? draw(rng, 0, n - 1) : 0;
        slices[i] = (ls_slice_spec){0, n, 1};
        if (x->shape.dim[i].symbol) {
            slices[i].start = x->shape.dim[i].offset;
        } else if (n && draw(rng, 0, 1)) {
            slices[i] = draw(rng, 0, 1) ? (ls_slice_spec){start, n, draw(rng, 1, 3)}
                                        : (ls_slice_spec){start, -1, draw(rng, -3, -1)};
        }
    }
    return ls_slice(b->s, x, slices);
}

static ls_tensor *draw_window(bench *b, ls_rng *rng, ls_tensor *x) {
    int axes[2], count = 0;
    ls_window_spec windows[2];
    for (int i = 0; i < x->shape.rank && count < 2; i++) {
        if (draw(rng, 0, 1)) {
            axes[count] = i;
            windows[count++] = (ls_window_spec){draw(rng, 1, 3), draw(rng, 1, 2), draw(rng, 1, 2)};
        }
    }
    return count && x->shape.rank + count <= LS_MAX_RANK ? ls_window(b->s, x, count, axes, windows) : x;
}

static ls_tensor *draw_move(bench *b, ls_rng *rng, ls_tensor *x, ls_tensor *other) {
    int rank = x->shape.rank, axes[LS_MAX_RANK];
    ls_shape shape = x->shape;
    ls_tensor *both[] = {x, other, x};
    switch (draw(rng, 0, 7)) {
    case 0:
    case 1:
        return draw_reshape(b, rng, x);
    case 2:
        for (int i = 0; i < rank; i++) {
            int j = (int)draw(rng, 0, i);
            axes[i] = axes[j];
            axes[j] = i;
        }
        return ls_permute(b->s, x, axes);
    case 3:
        for (int i = 0; i < rank; i++) {
            if (!shape.dim[i].symbol && shape.dim[i].offset == 1 && draw(rng, 0, 1)) {
                shape.dim[i] =
                    draw(rng, 0, 3) ? ls_dim_fixed(draw(rng, 2, 3)) : ls_dim_symbol(&symbols[0], 1, 0);
            }
        }
        return ls_expand(b->s, x, shape);
    case 4:
        return draw_pad(b, rng, x);
    case 5:
        return draw_slice(b, rng, x);
    case 6:
        return draw_window(b, rng, x);
    default:
        return rank ? ls_concat(b->s, both, (int)draw(rng, 2, 3), (int)draw(rng, 0, rank - 1)) : x;
    }
}

/* ---- evaluation ---- */
static int64_t value_eval(const ls_spec *spec, int32_t id, const int64_t *axes, const int64_t *values) {
    const ls_value *v = &spec->values[id];
    bool holds = true;
    for (int32_t i = v->first_pred; i < v->first_pred + v->n_preds; i++) {
        const ls_pred *p = &spec->preds[i];
        int64_t x = ls_ix_eval(spec, p->ix, axes, values, NULL);
        holds = holds &&
                (p->limit == LS_SPEC_NONE ? x % p->multiple == 0
                                          : x >= 0 && x < ls_ix_eval(spec, p->limit, axes, values, NULL));
    }
    if (v->op == LS_V_CONST) {
        return (int64_t)v->bits;
    }
    if (v->op == LS_V_GUARD) {
        return value_eval(spec, holds ? v->a : v->b, axes, values);
    }
    assert_int_equal(v->op, LS_V_LOAD);
    if (!holds) {
        return 0;
    }
    int64_t element = ls_ix_eval(spec, v->ix, axes, values, NULL);
    assert_true(element >= 0 && element < spec->args[v->arg].numel);
    return 1000 + element;
}

/* Every point of the store: where it goes, and what it is. */
static void compare(const ls_spec *spec, const ls_tensor *x, const int64_t *want, const int64_t *values) {
    const ls_store *s = &spec->stores[0];
    int64_t dims[LS_MAX_RANK], strides[LS_MAX_RANK], at[LS_MAX_RANK], extent[2 * LS_MAX_RANK],
        place[2 * LS_MAX_RANK];
    int64_t axes[LS_SPEC_MAX_AXES] = {0}, n = dims_at(&x->shape, values, dims), points = 1;
    ls_shape_strides(&x->shape, strides);
    for (int i = 0; i < s->n_axes; i++) {
        extent[i] = ls_dim_eval(spec->extents_of_axes[s->axes[i]], values);
        points *= extent[i];
    }
    assert_int_equal(points, n);
    for (int64_t k = 0; k < n; k++) {
        unravel(k, dims, x->shape.rank, at);
        unravel(k, extent, s->n_axes, place);
        for (int i = 0; i < s->n_axes; i++) {
            axes[s->axes[i]] = place[i];
        }
        int64_t element = 0;
        for (int i = 0; i < x->shape.rank; i++) {
            element += at[i] * strides[i];
        }
        assert_int_equal(ls_ix_eval(spec, s->ix, axes, values, NULL), element);
        assert_int_equal(value_eval(spec, s->value, axes, values), want[k]);
    }
}

static int64_t *input_data(bench *b, const ls_tensor *x, const int64_t *values) {
    int64_t dims[LS_MAX_RANK], strides[LS_MAX_RANK], at[LS_MAX_RANK], n = dims_at(&x->shape, values, dims);
    int64_t *data = LS_ARENA_ARRAY(&b->arena, int64_t, n + 1);
    ls_shape_strides(&x->shape, strides);
    for (int64_t k = 0; k < n; k++) {
        unravel(k, dims, x->shape.rank, at);
        data[k] = 1000;
        for (int i = 0; i < x->shape.rank; i++) {
            data[k] += at[i] * strides[i];
        }
    }
    return data;
}

/* Traces a chain of movement from its start, operands first; NULL where the symbols' values leave an
 * extent below 0. */
static int64_t *trace_chain(bench *b, ls_tensor *root, const int64_t *values) {
    int count;
    ls_tensor **order = ls_graph_order(&b->arena, &root, 1, &count);
    assert_non_null(order);
    int64_t **data = LS_ARENA_ARRAY(&b->arena, int64_t *, count);
    for (int i = 0; i < count; i++) {
        int64_t *operands[3] = {NULL};
        for (int j = 0; j < order[i]->shape.rank; j++) {
            if (ls_dim_eval(order[i]->shape.dim[j], values) < 0) {
                return NULL;
            }
        }
        for (int j = 0; j < order[i]->n_src; j++) {
            for (int k = 0; k < i; k++) {
                operands[j] = order[k] == order[i]->src[j] ? data[k] : operands[j];
            }
        }
        data[i] = order[i]->n_src ? trace(b, order[i], operands, values) : input_data(b, order[i], values);
    }
    return data[count - 1];
}

static void movement_reads_what_loops_read(void **state) {
    (void)state;
    ls_rng rng = {.key = 99};
    long moved = 0, compared = 0, guarded = 0, empty = 0, symbolic = 0;
    for (int n = 0; n < CASES; n++) {
        bench b;
        bench_open(&b);
        ls_shape shape = draw_shape(&rng);
        ls_tensor *x = ls_input(b.s, "x", LS_I64, shape), *y = x, *last = x;
        assert_non_null(x);
        for (int steps = (int)draw(&rng, 1, 6); steps-- > 0;) {
            ls_tensor *other = ls_shape_equal(&last->shape, &y->shape) ? last : y;
            ls_tensor *next = draw_move(&b, &rng, y, other);
            ls_error_clear(&b.graph.error);
            if (next && next != y && ls_shape_numel(&next->shape, NULL) <= MOST) {
                last = y;
                y = next;
                moved++;
            }
        }
        ls_group group = {.kind = LS_GROUP_POINTWISE, .n_roots = 1, .roots = &y, .n_reads = 1, .reads = &x};
        ls_spec spec;
        if (y != x) {
            bench_spec(&b, &group, &spec);
            guarded += spec.n_preds > 0;
            empty += ls_shape_numel(&y->shape, NULL) == 0;
            symbolic += !ls_shape_is_fixed(&y->shape);
            for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
                int64_t *want = trace_chain(&b, y, settings[i]);
                compared += want != NULL;
                if (want) {
                    compare(&spec, y, want, settings[i]);
                }
            }
        }
        bench_close(&b);
    }
    assert_true(compared > 3 * CASES && moved > CASES && guarded > CASES / 10 && empty > CASES / 100 &&
                symbolic > CASES / 10);
}

/* Reshapes that undo each other leave the plain index, so that loads stay contiguous. */
static void reshapes_cancel(void **state) {
    (void)state;
    bench b;
    bench_open(&b);
    ls_tensor *x = ls_input(b.s, "x", LS_F32, LS_SHAPE(4, 6, 5));
    ls_tensor *y = ls_reshape(
        b.s, ls_neg(b.s, ls_reshape(b.s, ls_neg(b.s, ls_reshape(b.s, x, LS_SHAPE(10, 12))), LS_SHAPE(3, 40))),
        LS_SHAPE(24, 5));
    ls_plan plan;
    ls_spec spec;
    bench_plan(&b, &y, 1, 1, &plan);
    assert_int_equal(plan.n_groups, 1);
    bench_spec(&b, &plan.groups[0], &spec);
    assert_int_equal(spec.n_values, 3);
    int64_t strides[2];
    assert_int_equal(spec.stores[0].n_axes, 2);
    for (int i = 0; i < 2; i++) {
        assert_true(ls_ix_affine(&spec, spec.values[0].ix, spec.stores[0].axes[i], &strides[i]));
    }
    assert_int_equal(strides[0], 5);
    assert_int_equal(strides[1], 1);
    bench_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(movement_reads_what_loops_read),
        cmocka_unit_test(reshapes_cancel),
    };
    return cmocka_run_group_tests_name("spec_index", tests, NULL, NULL);
}
