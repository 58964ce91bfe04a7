/* Walks the graph, operands first, and evaluates each node whole. Memory is the caller's arena: the oracle is
 * for checking, and keeps everything. */
#include "oracle/oracle.h"
#include "base/half.h"
#include "base/rng.h"
#include <string.h>

#define INF __builtin_inf()

static bool same_node(const void *a, const void *b) {
    return a == b;
}
static uint64_t node_hash(const ls_tensor *node) {
    return ls_hash_u64((uint64_t)(uintptr_t)node, 0);
}
static const int64_t *symbols(const ls_oracle_eval_state *st) {
    return st->source->symbols;
}

ls_balls *ls_oracle_get(ls_oracle_eval_state *st, const ls_tensor *node) {
    return ls_map_get(&st->values, node_hash(node), node);
}

static ls_balls *balls_of_shape(ls_oracle_eval_state *st, ls_dtype dtype, const ls_shape *shape) {
    ls_balls *b = LS_ARENA_NEW(st->arena, ls_balls);
    if (!b) {
        return NULL;
    }
    b->dtype = dtype;
    b->rank = shape->rank;
    b->n = 1;
    for (int i = 0; i < shape->rank; i++) {
        b->dim[i] = ls_dim_eval(shape->dim[i], symbols(st));
        b->n *= b->dim[i];
    }
    b->rad = LS_ARENA_ARRAY(st->arena, double, b->n);
    if (ls_dtype_is_float(dtype)) {
        b->mid = LS_ARENA_ARRAY(st->arena, double, b->n);
    } else {
        b->exact = LS_ARENA_ARRAY(st->arena, int64_t, b->n);
    }
    return b->rad && (b->mid || b->exact) ? b : NULL;
}

ls_balls *ls_balls_new(ls_oracle_eval_state *st, const ls_tensor *node) {
    return balls_of_shape(st, node->dtype, &node->shape);
}

ls_ball ls_balls_at(const ls_balls *x, int64_t i) {
    double m = x->mid ? x->mid[i] : x->dtype == LS_U64 ? (double)(uint64_t)x->exact[i] : (double)x->exact[i];
    return (ls_ball){m, x->rad[i]};
}

/* ---- leaves ---- */

static double float_from(ls_dtype dtype, const void *data, int64_t i) {
    switch (dtype) {
    case LS_F16:
        return (double)ls_f16_to_f32(((const uint16_t *)data)[i]);
    case LS_BF16:
        return (double)ls_bf16_to_f32(((const uint16_t *)data)[i]);
    case LS_F32:
        return (double)((const float *)data)[i];
    default:
        return ((const double *)data)[i];
    }
}
static int64_t integer_from(ls_dtype dtype, const void *data, int64_t i) {
    switch (dtype) {
    case LS_BOOL:
    case LS_U8:
        return ((const uint8_t *)data)[i];
    case LS_I8:
        return ((const int8_t *)data)[i];
    case LS_U16:
        return ((const uint16_t *)data)[i];
    case LS_I16:
        return ((const int16_t *)data)[i];
    case LS_U32:
        return ((const uint32_t *)data)[i];
    case LS_I32:
        return ((const int32_t *)data)[i];
    default:
        return ((const int64_t *)data)[i];
    }
}
static void fill_from(ls_balls *out, const void *data) {
    for (int64_t i = 0; i < out->n; i++) {
        if (out->mid) {
            out->mid[i] = float_from(out->dtype, data, i);
        } else {
            out->exact[i] = integer_from(out->dtype, data, i);
        }
    }
}

static void set_integer(ls_balls *out, int64_t i, int64_t value) {
    if (out->mid) {
        out->mid[i] = (double)value;
        out->rad[i] = 0;
        ls_ball r = ls_ball_round(out->dtype, (ls_ball){(double)value, 0}, 1);
        out->mid[i] = r.m;
        bool exact = out->dtype == LS_F64   ? value >> 53 == 0
                     : out->dtype == LS_F32 ? value >> 24 == 0
                                            : value >> 8 == 0;
        out->rad[i] = exact ? 0 : r.r;
    } else {
        out->exact[i] = ls_oracle_wrap(out->dtype, value);
    }
}

static ls_status leaf(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *out) {
    int64_t index[LS_MAX_RANK] = {0};
    switch (node->op) {
    case LS_OP_CONST: {
        uint8_t bytes[8];
        memcpy(bytes, &node->attr.value, sizeof bytes);
        for (int64_t i = 0; i < out->n; i++) {
            if (out->mid) {
                out->mid[i] = float_from(node->dtype, bytes, 0);
            } else {
                out->exact[i] = integer_from(node->dtype, bytes, 0);
            }
        }
        return LS_OK;
    }
    case LS_OP_IOTA:
        for (int64_t i = 0; i < out->n; i++) {
            set_integer(out, i, index[node->attr.axis.axis]);
            ls_next_index(out->rank, out->dim, index);
        }
        return LS_OK;
    case LS_OP_DIM:
        set_integer(out, 0, ls_dim_eval(node->attr.dim, symbols(st)));
        return LS_OK;
    default: {
        const void *data = NULL;
        LS_TRY(st->err, st->source->values(st->source->ctx, node, &data, st->err));
        fill_from(out, data);
        return LS_OK;
    }
    }
}

/* ---- maps ---- */

static double saturated(ls_dtype to, double d) { /* the double nearest to what the cast gives; NaN is 0 */
    int width = (int)ls_dtype_size(to) * 8;
    bool is_signed = ls_dtype_is_signed(to);
    double top =
        is_signed ? (double)(UINT64_C(1) << (width - 1)) : 2.0 * (double)(UINT64_C(1) << (width - 1));
    double low = is_signed ? -top : 0;
    return d != d ? 0 : d >= top ? top : d <= low ? low : d;
}
static int64_t integer_of(ls_dtype to, double d) {
    double s = saturated(to, d);
    if (to == LS_U64) {
        return s >= 0x1p64 ? -1 : (int64_t)(uint64_t)s;
    }
    if (s >= 0x1p63) {
        return INT64_MAX;
    }
    int64_t max = to == LS_I64
                      ? INT64_MAX
                      : (int64_t)(~UINT64_C(0) >> (64 - 8 * ls_dtype_size(to)) >> ls_dtype_is_signed(to));
    int64_t v = (int64_t)s;
    return to != LS_I64 && v > max ? max : v;
}

/* A value of a float dtype has a finite set of neighbours; an exact ball whose middle is representable
 * converts exactly. */
static bool representable(ls_dtype dtype, double d) {
    if (dtype == LS_F64) {
        return true;
    }
    float f = (float)d;
    if ((double)f != d) {
        return false;
    }
    return dtype == LS_F32 ||
           (dtype == LS_F16 ? ls_f16_to_f32(ls_f32_to_f16(f)) : ls_bf16_to_f32(ls_f32_to_bf16(f))) == f;
}

static void cast(const ls_balls *x, ls_balls *out, int64_t i) {
    ls_dtype to = out->dtype;
    if (x->mid) {
        double m = x->mid[i], r = x->rad[i];
        if (out->mid) {
            bool exact = r == 0 && (representable(to, m) || m != m);
            ls_ball y = exact ? (ls_ball){m, 0} : ls_ball_round(to, (ls_ball){m, r}, 1);
            out->mid[i] = y.m, out->rad[i] = y.r;
        } else if (to == LS_BOOL) {
            out->exact[i] = m != 0;
            out->rad[i] = r > 0 && m - r <= 0 && m + r >= 0 ? 1 : 0;
        } else {
            out->exact[i] = integer_of(to, m);
            out->rad[i] = r > 0 && integer_of(to, m - r) != integer_of(to, m + r) ? INF : 0;
        }
        return;
    }
    int64_t v = x->exact[i];
    out->rad[i] = x->rad[i];
    if (to == LS_BOOL) {
        out->exact[i] = v != 0;
    } else if (out->exact) {
        out->exact[i] = ls_oracle_wrap(to, v);
    } else {
        double d = x->dtype == LS_U64 ? (double)(uint64_t)v : (double)v;
        bool exact = representable(to, d) && (v < INT64_C(1) << 53 && v > -(INT64_C(1) << 53));
        ls_ball y = exact ? (ls_ball){d, x->rad[i]}
                          : ls_ball_round(to, (ls_ball){d, x->rad[i] + 0x1p-53 * (d < 0 ? -d : d)}, 1);
        out->mid[i] = y.m, out->rad[i] = y.r;
    }
}

static ls_status bitcast(ls_oracle_eval_state *st, const ls_tensor *node, const ls_balls *x, ls_balls *out) {
    (void)st, (void)node;
    for (int64_t i = 0; i < out->n; i++) {
        uint64_t bits = 0;
        bool exact = x->rad[i] == 0;
        if (x->exact) {
            bits = (uint64_t)x->exact[i];
        } else {
            exact = exact && (representable(x->dtype, x->mid[i]) || x->mid[i] != x->mid[i]);
            bits = ls_value_from_f64(x->dtype, x->mid[i]);
        }
        if (out->exact) {
            out->exact[i] = ls_oracle_wrap(out->dtype, (int64_t)bits);
        } else {
            out->mid[i] = float_from(out->dtype, &bits, 0);
        }
        out->rad[i] = exact ? 0 : INF; /* bits of a rounded value are not known from its radius */
    }
    return LS_OK;
}

static void compare(ls_op op, ls_dtype dtype, ls_ball a, ls_ball b, int64_t ia, int64_t ib, int64_t *out,
                    double *rad) {
    if (!ls_dtype_is_float(dtype)) {
        *out = ls_oracle_integer(op, dtype, LS_BOOL, ia, ib);
        *rad = a.r > 0 || b.r > 0;
        return;
    }
    bool ordered = a.m == a.m && b.m == b.m;
    bool open = ordered && a.r + b.r > 0 && !(a.m - a.r > b.m + b.r) && !(a.m + a.r < b.m - b.r);
    *out = op == LS_OP_EQ   ? a.m == b.m
           : op == LS_OP_NE ? a.m != b.m
           : op == LS_OP_LT ? a.m < b.m
                            : a.m <= b.m;
    *rad = open;
}

static void where(const ls_balls *c, const ls_balls *a, const ls_balls *b, ls_balls *out, int64_t i) {
    const ls_balls *x = c->exact[i] ? a : b;
    if (out->mid) {
        out->mid[i] = x->mid[i];
        out->rad[i] = x->rad[i];
        if (c->rad[i] > 0) { /* undecided: both branches are admissible */
            double gap = a->mid[i] - b->mid[i];
            double other = (gap < 0 ? -gap : gap) + (c->exact[i] ? b : a)->rad[i];
            out->rad[i] = other != other ? INF : other > out->rad[i] ? other : out->rad[i];
        }
    } else {
        out->exact[i] = x->exact[i];
        out->rad[i] = c->rad[i] > 0 && a->exact[i] != b->exact[i] ? INF : x->rad[i];
    }
}

static ls_status map(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *out) {
    ls_balls *x[3] = {NULL, NULL, NULL};
    for (int i = 0; i < node->n_src; i++) {
        x[i] = ls_oracle_get(st, node->src[i]);
    }
    ls_balls *a = x[0], *b = x[1] ? x[1] : x[0];
    if (node->op == LS_OP_BITCAST) {
        return bitcast(st, node, a, out);
    }
    bool test = node->op == LS_OP_EQ || node->op == LS_OP_NE || node->op == LS_OP_LT || node->op == LS_OP_LE;
    for (int64_t i = 0; i < out->n; i++) {
        if (node->op == LS_OP_WHERE) {
            where(x[0], x[1], x[2], out, i);
        } else if (node->op == LS_OP_CAST) {
            cast(a, out, i);
        } else if (test) {
            compare(node->op, a->dtype, ls_balls_at(a, i), ls_balls_at(b, i), a->exact ? a->exact[i] : 0,
                    b->exact ? b->exact[i] : 0, &out->exact[i], &out->rad[i]);
        } else if (node->op == LS_OP_ISNAN || node->op == LS_OP_ISINF) {
            double m = a->mid[i];
            out->exact[i] = node->op == LS_OP_ISNAN ? m != m : m == m && m - m != 0;
            out->rad[i] = a->rad[i] - a->rad[i] != 0; /* a finite radius decides */
        } else if (out->mid) {
            ls_ball y = ls_ball_map(node->op, node->dtype, node->dtype, node->math, ls_balls_at(a, i),
                                    ls_balls_at(b, i));
            out->mid[i] = y.m, out->rad[i] = y.r;
        } else {
            out->exact[i] = ls_oracle_integer(node->op, a->dtype, out->dtype, a->exact[i], b->exact[i]);
            out->rad[i] = a->rad[i] > 0 || b->rad[i] > 0 ? (out->dtype == LS_BOOL ? 1 : INF) : 0;
        }
    }
    return LS_OK;
}

static ls_status random_bits(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *out) {
    const ls_balls *key = ls_oracle_get(st, node->src[0]);
    for (int64_t i = 0; i < out->n; i++) {
        out->exact[i] = ls_threefry((uint32_t)key->exact[0], (uint32_t)key->exact[1], (uint64_t)i);
    }
    return LS_OK;
}

/* ---- loops ---- */

static ls_status eval_into(ls_oracle_eval_state *st, ls_tensor *const *roots, int n_roots);

static bool put(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *value) {
    ls_map_remove(&st->values, node_hash(node), node);
    return ls_map_put(&st->values, node_hash(node), node, value);
}

static void copy_elements(ls_balls *to, int64_t at, const ls_balls *from, int64_t first, int64_t n) {
    memcpy(to->rad + at, from->rad + first, (size_t)n * sizeof *to->rad);
    if (to->mid) {
        memcpy(to->mid + at, from->mid + first, (size_t)n * sizeof *to->mid);
    } else {
        memcpy(to->exact + at, from->exact + first, (size_t)n * sizeof *to->exact);
    }
}

static ls_status check_extents(const ls_oracle_eval_state *st, ls_op op, const ls_dim *dims, int n) {
    for (int i = 0; i < n; i++) {
        int64_t extent = ls_dim_eval(dims[i], symbols(st));
        if (extent < 0) {
            return LS_FAIL(st->err, LS_ERR_SHAPE, "oracle: %s: an extent is %lld at the present values of symbols: expected at least 0",
                           ls_ops[op].name, (long long)extent);
        }
    }
    return LS_OK;
}

/* The values of a LOOP are an array of its results, carries first. */
static ls_status loop(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls ***out_results) {
    const ls_body *body = node->attr.loop.body;
    int64_t trip = ls_dim_eval(node->attr.loop.trip, symbols(st));
    int n_results = body->n_carry + body->n_ys;
    LS_TRY(st->err, check_extents(st, node->op, &node->attr.loop.trip, 1));
    for (int i = 0; i < n_results; i++) {
        LS_TRY(st->err, check_extents(st, node->op, body->results[i]->shape.dim, body->results[i]->shape.rank));
    }
    ls_balls **results = LS_ARENA_ARRAY(st->arena, ls_balls *, n_results + 1);
    bool ok = results != NULL;
    for (int i = 0; ok && i < body->n_carry; i++) {
        results[i] = ls_oracle_get(st, node->src[i]);
    }
    for (int i = 0; ok && i < body->n_ys; i++) {
        ls_shape shape = body->results[body->n_carry + i]->shape;
        memmove(shape.dim + 1, shape.dim, sizeof shape.dim - sizeof shape.dim[0]);
        shape.dim[0] = node->attr.loop.trip;
        shape.rank++;
        ok = (results[body->n_carry + i] =
                  balls_of_shape(st, body->results[body->n_carry + i]->dtype, &shape)) != NULL;
    }
    for (int64_t t = 0; ok && t < trip; t++) {
        ls_oracle_eval_state inner = {.arena = st->arena, .source = st->source, .err = st->err};
        ls_map_init(&inner.values, st->arena->heap, same_node);
        ls_balls *iteration = ls_balls_new(&inner, body->iteration);
        ok = iteration && put(&inner, body->iteration, iteration);
        if (ok) {
            iteration->exact[0] = t;
        }
        for (int i = 0; ok && i < body->n_carry + body->n_xs + body->n_captures; i++) {
            ls_balls *value = i < body->n_carry ? results[i] : ls_oracle_get(st, node->src[i]);
            if (i >= body->n_carry && i < body->n_carry + body->n_xs) {
                ls_balls *slice = ls_balls_new(&inner, body->params[i]);
                ok = slice != NULL;
                if (ok) {
                    copy_elements(slice, 0, value, t * slice->n, slice->n);
                }
                value = slice;
            }
            ok = ok && put(&inner, body->params[i], value);
        }
        ls_status status = ok ? eval_into(&inner, body->results, n_results) : LS_OK;
        for (int i = 0; ok && status == LS_OK && i < n_results; i++) {
            ls_balls *value = ls_oracle_get(&inner, body->results[i]);
            if (i < body->n_carry) {
                results[i] = value;
            } else {
                copy_elements(results[i], t * value->n, value, 0, value->n);
            }
        }
        ls_map_free(&inner.values);
        LS_TRY(st->err, status);
    }
    *out_results = results;
    return ok ? LS_OK : LS_FAIL_MEMORY(st->err, "the oracle's loop");
}

/* ---- the walk ---- */

static ls_status eval_node(ls_oracle_eval_state *st, const ls_tensor *node, ls_balls *out) {
    switch (ls_ops[node->op].op_class) {
    case LS_CLASS_LEAF:
        return leaf(st, node, out);
    case LS_CLASS_MAP:
        return map(st, node, out);
    case LS_CLASS_REDUCE:
        return ls_oracle_reduce(st, node, out);
    case LS_CLASS_SCAN:
        return ls_oracle_scan(st, node, out);
    case LS_CLASS_MOVE:
        return ls_oracle_move(st, node, out);
    case LS_CLASS_CONTRACT:
        return ls_oracle_contract(st, node, out);
    case LS_CLASS_GATHER:
        return ls_oracle_gather(st, node, out);
    case LS_CLASS_SCATTER:
        return ls_oracle_scatter(st, node, out);
    case LS_CLASS_SORT:
        return ls_oracle_argsort(st, node, out);
    case LS_CLASS_RANDOM:
        return random_bits(st, node, out);
    case LS_CLASS_COPY: {
        ls_balls *x = ls_oracle_get(st, node->src[0]);
        copy_elements(out, 0, x, 0, x->n);
        return LS_OK;
    }
    case LS_CLASS_LOOP:
        break;
    }
    return LS_FAIL(st->err, LS_ERR_INTERNAL, "oracle: no rule for %s", ls_ops[node->op].name);
}

static bool stops(const ls_oracle_eval_state *st, const ls_tensor *node) {
    return st->source->stop && st->source->stop(st->source->ctx, node);
}

static ls_status visit(ls_oracle_eval_state *st, ls_tensor *node) {
    if (node->op == LS_OP_LOOP) {
        ls_balls **results;
        LS_TRY(st->err, loop(st, node, &results));
        return put(st, node, (ls_balls *)results) ? LS_OK : LS_FAIL_MEMORY(st->err, "the oracle's values");
    }
    if (node->op == LS_OP_RESULT && !stops(st, node)) {
        ls_balls **results = (ls_balls **)ls_oracle_get(st, node->src[0]);
        return put(st, node, results[node->attr.loop.result])
                   ? LS_OK
                   : LS_FAIL_MEMORY(st->err, "the oracle's values");
    }
    LS_TRY(st->err, check_extents(st, node->op, node->shape.dim, node->shape.rank));
    ls_balls *out = ls_balls_new(st, node);
    if (!out || !put(st, node, out)) {
        return LS_FAIL_MEMORY(st->err, "the oracle's values");
    }
    if (stops(st, node)) {
        const void *data = NULL;
        LS_TRY(st->err, st->source->values(st->source->ctx, node, &data, st->err));
        fill_from(out, data);
        return LS_OK;
    }
    return eval_node(st, node, out);
}

/* Depth first with a stack of its own, so that the depth of a graph is no limit. */
static ls_status eval_into(ls_oracle_eval_state *st, ls_tensor *const *roots, int n_roots) {
    typedef struct {
        ls_tensor *node;
        int next;
    } frame;
    LS_ARRAY(frame) stack = {0};
    ls_heap *heap = st->arena->heap;
    ls_status status = LS_OK;
    for (int i = 0; i < n_roots && status == LS_OK; i++) {
        if (ls_oracle_get(st, roots[i])) {
            continue;
        }
        if (!ls_array_push(heap, &stack, ((frame){roots[i], 0}))) {
            status = LS_FAIL_MEMORY(st->err, "the oracle's walk");
        }
        while (stack.len > 0 && status == LS_OK) {
            frame *top = &stack.data[stack.len - 1];
            int n_src = stops(st, top->node) ? 0 : top->node->n_src;
            if (top->next < n_src) {
                ls_tensor *src = top->node->src[top->next++];
                if (!ls_oracle_get(st, src) && !ls_array_push(heap, &stack, ((frame){src, 0}))) {
                    status = LS_FAIL_MEMORY(st->err, "the oracle's walk");
                }
                continue;
            }
            ls_tensor *node = top->node;
            stack.len--;
            if (!ls_oracle_get(st, node)) {
                status = visit(st, node);
            }
        }
    }
    ls_array_free(heap, &stack);
    return status;
}

ls_status ls_oracle_eval(ls_arena *arena, const ls_oracle_source *source, ls_tensor *const *roots,
                         int n_roots, ls_balls *out_values, ls_error *err) {
    ls_oracle_eval_state st = {.arena = arena, .source = source, .err = err};
    ls_map_init(&st.values, arena->heap, same_node);
    ls_status status = eval_into(&st, roots, n_roots);
    for (int i = 0; i < n_roots && status == LS_OK; i++) {
        out_values[i] = *ls_oracle_get(&st, roots[i]);
    }
    ls_map_free(&st.values);
    return status;
}
