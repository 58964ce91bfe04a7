/* Simplifications that change no locked bit, each with its proof. They run when a graph is computed, after
 * differentiation, so that every node a caller holds keeps its derivative. A rule never drops a MAP over
 * an operand that may be absent: the MAP makes its absent elements +0, which reductions would then count. */
#include "graph/build.h"
#include "graph/fold.h"
#include <string.h>

static bool const_is(const ls_tensor *x, double value) {
    return x->op == LS_OP_CONST && x->attr.value == ls_value_from_f64(x->dtype, value);
}

static ls_tensor *present(ls_tensor *x) {
    return x->absent ? NULL : x;
}

/* Row-major order is kept by each reshape, so by both. */
static ls_tensor *reshape_reshape(ls_session *s, ls_tensor *x) {
    return x->src[0]->op == LS_OP_RESHAPE ? ls_reshape(s, x->src[0]->src[0], x->shape) : NULL;
}

/* y[i] = x[a[b[i]]]: permutations compose. */
static ls_tensor *permute_permute(ls_session *s, ls_tensor *x) {
    ls_tensor *inner = x->src[0];
    int axes[LS_MAX_RANK];
    if (inner->op != LS_OP_PERMUTE) {
        return NULL;
    }
    for (int i = 0; i < x->shape.rank; i++) {
        axes[i] = inner->attr.axes.axes[x->attr.axes.axes[i]];
    }
    return ls_permute(s, inner->src[0], axes);
}

/* An axis of extent 1 repeated, or one already repeated: both read index 0. */
static ls_tensor *expand_expand(ls_session *s, ls_tensor *x) {
    return x->src[0]->op == LS_OP_EXPAND ? ls_expand(s, x->src[0]->src[0], x->shape) : NULL;
}

/* y[i] = x[s1 + (s2 + i t2) t1] = x[(s1 + s2 t1) + i (t2 t1)]. */
static ls_tensor *slice_slice(ls_session *s, ls_tensor *x) {
    ls_tensor *inner = x->src[0];
    int64_t start[LS_MAX_RANK], step[LS_MAX_RANK];
    if (inner->op != LS_OP_SLICE) {
        return NULL;
    }
    for (int i = 0; i < x->shape.rank; i++) {
        const ls_attr_slice *in = &inner->attr.slice, *out = &x->attr.slice;
        start[i] = in->start[i] + out->start[i] * in->step[i];
        step[i] = in->step[i] * out->step[i];
    }
    return ls_slice_to(s, inner->src[0], start, step, &x->shape);
}

/* Every element of the operand is the same, so every element that is moved is too. */
static ls_tensor *move_const(ls_session *s, ls_tensor *x) {
    ls_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.value = x->src[0]->attr.value;
    if (x->op == LS_OP_PAD && (x->attr.pad.absent || x->attr.pad.value != attr.value)) {
        return NULL;
    }
    for (int i = 0; i < x->n_src; i++) {
        if (x->src[i]->op != LS_OP_CONST || x->src[i]->attr.value != attr.value) {
            return NULL;
        }
    }
    return ls_node(s, LS_OP_CONST, x->dtype, &x->shape, 0, NULL, &attr);
}

/* Differentiation is over: DETACH is the identity. */
static ls_tensor *detach(ls_session *s, ls_tensor *x) {
    (void)s;
    return x->src[0];
}

/* -(-x) flips the sign bit twice (integers: 0 - (0 - x) wraps back); not not likewise. */
static ls_tensor *twice(ls_session *s, ls_tensor *x) {
    (void)s;
    return x->src[0]->op == x->op ? present(x->src[0]->src[0]) : NULL;
}

/* x * 1 is x, for every x. */
static ls_tensor *mul_one(ls_session *s, ls_tensor *x) {
    (void)s;
    return const_is(x->src[1], 1) ? present(x->src[0]) : const_is(x->src[0], 1) ? present(x->src[1]) : NULL;
}

/* x + (-0) is x for every float, +0 and -0 too (x + (+0) is not: it turns -0 to +0). Integers have one
 * zero. */
static ls_tensor *add_zero(ls_session *s, ls_tensor *x) {
    (void)s;
    return const_is(x->src[1], -0.0)   ? present(x->src[0])
           : const_is(x->src[0], -0.0) ? present(x->src[1])
                                       : NULL;
}

/* x - (+0) is x for every float, -0 too. */
static ls_tensor *sub_zero(ls_session *s, ls_tensor *x) {
    (void)s;
    return const_is(x->src[1], 0) ? present(x->src[0]) : NULL;
}

/* x / c and x * (1/c) round the same real number when 1/c is exact, as it is for powers of two in range. */
static ls_tensor *div_power_of_two(ls_session *s, ls_tensor *x) {
    const ls_tensor *c = x->src[1];
    if (const_is(c, 1)) {
        return present(x->src[0]);
    }
    if (c->op != LS_OP_CONST || !ls_dtype_is_float(c->dtype)) {
        return NULL;
    }
    double value = ls_value_to_f64(c->dtype, c->attr.value), inverse = 1 / value;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bool power = (bits & (((uint64_t)1 << 52) - 1)) == 0 && value != 0 && inverse != 0;
    if (!power || ls_value_to_f64(c->dtype, ls_value_from_f64(c->dtype, inverse)) != inverse ||
        inverse - inverse != 0) {
        return NULL;
    }
    ls_tensor *by = ls_const_like(s, c, inverse);
    return by ? ls_mul(s, x->src[0], by) : NULL;
}

/* Whether every value of dtype a is one of dtype b. */
static bool contains(ls_dtype b, ls_dtype a) {
    static const int precision[LS_DTYPE_COUNT] = {[LS_F16] = 11, [LS_BF16] = 8, [LS_F32] = 24, [LS_F64] = 53};
    size_t size_a = ls_dtype_size(a), size_b = ls_dtype_size(b);
    bool signed_a = ls_dtype_is_signed(a), signed_b = ls_dtype_is_signed(b);
    if (a == b || a == LS_BOOL) {
        return true;
    }
    if (ls_dtype_is_float(a)) {
        return ls_dtype_is_float(b) && size_b > size_a;
    }
    if (ls_dtype_is_float(b)) {
        return precision[b] >= (int)(8 * size_a) - signed_a;
    }
    return b != LS_BOOL &&
           (signed_a ? signed_b && size_b >= size_a : size_b > size_a || (!signed_b && size_b == size_a));
}

/* When the first cast is exact, the second rounds the very number that one cast would. */
static ls_tensor *cast_cast(ls_session *s, ls_tensor *x) {
    ls_tensor *inner = x->src[0];
    if (inner->op != LS_OP_CAST || !contains(inner->dtype, inner->src[0]->dtype)) {
        return NULL;
    }
    return x->dtype == inner->src[0]->dtype ? present(inner->src[0]) : ls_cast(s, inner->src[0], x->dtype);
}

/* A constant condition picks one operand everywhere. */
static ls_tensor *where_const(ls_session *s, ls_tensor *x) {
    (void)s;
    return x->src[0]->op == LS_OP_CONST ? present(x->src[x->src[0]->attr.value ? 1 : 2]) : NULL;
}

/* x < 0 ? c * x : x with 0 < c <= 1 is the larger of x and c * x: rounding keeps order, and both zeros and NaN come out as they go in. */
static ls_tensor *where_sloped(ls_session *s, ls_tensor *x) {
    const ls_tensor *below = x->src[0], *low = x->src[1], *c = low->n_src == 2 ? low->src[low->src[0] == x->src[2]] : NULL;
    bool fits = ls_dtype_is_float(x->dtype) && below->op == LS_OP_LT && below->src[0] == x->src[2] && const_is(below->src[1], 0) &&
                low->op == LS_OP_MUL && (low->src[0] == x->src[2] || low->src[1] == x->src[2]) && c->op == LS_OP_CONST;
    double slope = fits ? ls_value_to_f64(c->dtype, c->attr.value) : 0;
    return slope > 0 && slope <= 1 ? ls_max(s, x->src[2], x->src[1]) : NULL;
}

/* d / r * g with r and g the same for many elements (a batch norm): d * (g / r), which divides once for them all. As many roundings, and of
 * as much, so as near, but other bits; and where g / r overflows or is subnormal (g of 1e38, a tiny one), farther. */
static ls_tensor *divide_once(ls_session *s, ls_tensor *x) {
    const ls_tensor *y = x->src[0], *g = x->src[1];
    bool fits = x->math != LS_LOCKED && ls_dtype_is_float(x->dtype) && y->op == LS_OP_DIV && y->src[1]->op == LS_OP_EXPAND &&
                g->op == LS_OP_EXPAND && ls_shape_equal(&y->src[1]->src[0]->shape, &g->src[0]->shape);
    ls_tensor *once = fits ? ls_div(s, g->src[0], y->src[1]->src[0]) : NULL;
    return once ? ls_mul(s, y->src[0], ls_expand(s, once, x->shape)) : NULL;
}

/* A constant of what the contract's arithmetic gives. */
static ls_tensor *fold(ls_session *s, const ls_tensor *x) {
    ls_attr attr;
    memset(&attr, 0, sizeof attr);
    return ls_fold(x, &attr.value) ? ls_node(s, LS_OP_CONST, x->dtype, &x->shape, 0, NULL, &attr) : NULL;
}

static const struct {
    ls_op op;
    ls_tensor *(*apply)(ls_session *s,
                        ls_tensor *x); /* NULL: does not apply, or failed (an error is recorded) */
} rules[] = {
    {LS_OP_RESHAPE, reshape_reshape},
    {LS_OP_PERMUTE, permute_permute},
    {LS_OP_EXPAND, expand_expand},
    {LS_OP_SLICE, slice_slice},
    {LS_OP_RESHAPE, move_const},
    {LS_OP_PERMUTE, move_const},
    {LS_OP_EXPAND, move_const},
    {LS_OP_SLICE, move_const},
    {LS_OP_WINDOW, move_const},
    {LS_OP_PAD, move_const},
    {LS_OP_CONCAT, move_const},
    {LS_OP_DETACH, detach},
    {LS_OP_NEG, twice},
    {LS_OP_NOT, twice},
    {LS_OP_MUL, mul_one},
    {LS_OP_MUL, divide_once},
    {LS_OP_ADD, add_zero},
    {LS_OP_SUB, sub_zero},
    {LS_OP_DIV, div_power_of_two},
    {LS_OP_CAST, cast_cast},
    {LS_OP_WHERE, where_const},
    {LS_OP_WHERE, where_sloped},
};

/* Every rule leaves fewer or cheaper nodes below x, so this ends. */
static ls_tensor *simplify(ls_session *s, ls_tensor *x) {
    ls_graph *g = ls_graph_of(s);
    ls_math math = g->math;
    g->math = x->math;
    ls_tensor *folded = fold(s, x);
    g->math = math;
    if (folded) {
        return folded;
    }
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (rules[i].op != x->op || x->n_src == 0) {
            continue;
        }
        g->math = x->math;
        ls_tensor *y = rules[i].apply(s, x);
        g->math = math;
        if (y) {
            x = y;
            i = (size_t)-1; /* from the first again */
        }
    }
    return x;
}

bool ls_reads_windows(const ls_tensor *x) {
    while (ls_ops[x->op].op_class == LS_CLASS_MOVE && x->op != LS_OP_WINDOW && x->n_src == 1) {
        x = x->src[0];
    }
    return x->op == LS_OP_WINDOW;
}

static ls_tensor *line_up(ls_session *s, ls_tensor *x, int n_batch, int *batch, int n_contract, int *contract) {
    int axes[LS_MAX_RANK], n = n_batch, rank = x->shape.rank;
    unsigned taken = 0;
    for (int i = 0; i < n_batch; i++) {
        axes[i] = batch[i];
        taken |= 1u << batch[i];
        batch[i] = i;
    }
    for (int i = 0; i < n_contract; i++) {
        axes[rank - n_contract + i] = contract[i];
        taken |= 1u << contract[i];
        contract[i] = rank - n_contract + i;
    }
    for (int i = 0; i < rank; i++) {
        if (!(taken >> i & 1)) {
            axes[n++] = i;
        }
    }
    bool same = true;
    for (int i = 0; i < rank; i++) {
        same = same && axes[i] == i;
    }
    return same ? x : ls_permute(s, x, axes);
}

static ls_tensor *as_product(ls_session *s, ls_tensor *x) {
    if (x->op != LS_OP_CONTRACT || !(ls_reads_windows(x->src[0]) || ls_reads_windows(x->src[1]))) {
        return x;
    }
    ls_contract_spec c = x->attr.contract;
    ls_math math = ls_graph_of(s)->math;
    ls_graph_of(s)->math = x->math;
    ls_tensor *a = line_up(s, x->src[0], c.n_batch, c.batch_a, c.n_contract, c.contract_a);
    ls_tensor *b = line_up(s, x->src[1], c.n_batch, c.batch_b, c.n_contract, c.contract_b);
    ls_tensor *y = a && b ? ls_contract(s, a, b, &c, x->dtype) : NULL;
    ls_graph_of(s)->math = math;
    return y;
}

static ls_status rewrite(ls_session *s, ls_tensor **roots, int n_roots, ls_tensor *(*each)(ls_session *s, ls_tensor *x)) {
    ls_graph *g = ls_graph_of(s);
    const char *origin = g->origin;
    ls_arena arena;
    ls_arena_init(&arena, g->heap);
    int count, most = 1;
    ls_tensor **order = ls_graph_order(&arena, roots, n_roots, &count);
    for (int i = 0; i < count; i++) {
        most = order[i]->n_src > most ? order[i]->n_src : most;
    }
    ls_tensor **src = LS_ARENA_ARRAY(&arena, ls_tensor *, most);
    bool ok = order && src;
    for (int i = 0; ok && i < count; i++) {
        ls_tensor *x = order[i], *y = x;
        for (int j = 0; j < x->n_src; j++) {
            src[j] = x->src[j]->mark;
        }
        if (x->n_src && !x->value) { /* what has a value is a leaf now */
            g->origin = x->origin;
            y = ls_node_with(s, x, src);
            y = y ? each(s, y) : NULL;
        }
        x->mark = y;
        ok = y != NULL;
    }
    for (int i = 0; ok && i < n_roots; i++) {
        roots[i] = roots[i]->mark;
    }
    for (int i = 0; i < count; i++) {
        order[i]->mark = NULL;
    }
    g->origin = origin;
    ls_arena_free(&arena);
    if (!ok) {
        LS_FAIL_MEMORY(&g->error, "rewriting a graph"); /* a builder that failed has said more */
        return g->error.code;
    }
    return LS_OK;
}

ls_status ls_rewrite(ls_session *s, ls_tensor **roots, int n_roots) {
    return rewrite(s, roots, n_roots, simplify);
}

ls_status ls_rewrite_im2col(ls_session *s, ls_tensor **roots, int n_roots) {
    return rewrite(s, roots, n_roots, as_product);
}
