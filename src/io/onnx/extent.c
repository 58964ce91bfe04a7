/* Whole numbers with a symbol: arithmetic, comparison within a range, and the way into and out of values. */
#include "io/onnx/extent.h"
#include "io/onnx/run.h"
#include <inttypes.h>
#include <string.h>

static ls_dim dim(ls_symbol *symbol, int64_t scale, int64_t offset) {
    return scale ? (ls_dim){symbol, scale, offset} : (ls_dim){NULL, 0, offset};
}

bool ls_onnx_plus(ls_dim a, ls_dim b, ls_dim *out) {
    int64_t scale, offset;
    if ((a.symbol && b.symbol && a.symbol != b.symbol) || __builtin_add_overflow(a.scale, b.scale, &scale) ||
        __builtin_add_overflow(a.offset, b.offset, &offset)) {
        return false;
    }
    *out = dim(a.symbol ? a.symbol : b.symbol, scale, offset);
    return true;
}

bool ls_onnx_times(ls_dim a, ls_dim b, ls_dim *out) {
    if (a.symbol && b.symbol) {
        return false;
    }
    ls_dim d = a.symbol ? a : b;
    int64_t factor = a.symbol ? b.offset : a.offset, scale, offset;
    if (__builtin_mul_overflow(d.scale, factor, &scale) ||
        __builtin_mul_overflow(d.offset, factor, &offset)) {
        return false;
    }
    *out = dim(d.symbol, scale, offset);
    return true;
}

bool ls_onnx_minus(ls_dim a, ls_dim b, ls_dim *out) {
    return ls_onnx_times(b, ls_dim_of(-1), &b) && ls_onnx_plus(a, b, out);
}

bool ls_onnx_same(ls_dim a, ls_dim b) {
    return a.symbol == b.symbol && a.scale == b.scale && a.offset == b.offset;
}

/* a / b rounded down; b is positive. */
static int64_t floor_div(int64_t a, int64_t b) {
    return a / b - (a % b < 0);
}

/* Narrows the range to scale * value + offset >= 0. */
static void keep(ls_onnx_range *r, int64_t scale, int64_t offset) {
    if (scale > 0) {
        int64_t least = -floor_div(offset, scale); /* the quotient rounded up */
        r->least = least > r->least ? least : r->least;
    } else {
        int64_t most = floor_div(offset, -scale);
        r->most = most < r->most ? most : r->most;
    }
}

static ls_status undecided(ls_onnx_node *n) {
    return ls_onnx_fail(n, LS_ERR_UNSUPPORTED,
                        "what it does depends on the value of an extent with a symbol");
}

ls_status ls_onnx_at_least(ls_onnx_node *n, ls_dim a, ls_dim b, bool *out) {
    ls_onnx_range *r = &n->run->range;
    ls_dim d;
    int64_t now;
    if (!ls_onnx_minus(a, b, &d)) {
        return undecided(n);
    }
    if (d.symbol && (d.scale > 0) != (d.offset >= 0)) { /* else it holds for all values or for none */
        if (d.symbol != r->symbol || __builtin_mul_overflow(d.scale, r->value, &now) ||
            __builtin_add_overflow(now, d.offset, &now) || d.offset == INT64_MAX || d.offset == INT64_MIN ||
            d.scale == INT64_MIN) {
            return undecided(n);
        }
        *out = now >= 0;
        keep(r, *out ? d.scale : -d.scale, *out ? d.offset : -d.offset - 1);
        return LS_OK;
    }
    *out = d.offset >= 0;
    return LS_OK;
}

ls_status ls_onnx_equal(ls_onnx_node *n, ls_dim a, ls_dim b, bool *out) {
    bool from, beyond;
    ls_dim next;
    LS_TRY(n->err, ls_onnx_at_least(n, a, b, &from));
    if (!from) {
        *out = false;
        return LS_OK;
    }
    if (!ls_onnx_plus(b, ls_dim_of(1), &next)) {
        return undecided(n);
    }
    LS_TRY(n->err, ls_onnx_at_least(n, a, next, &beyond));
    *out = !beyond;
    return beyond || a.scale == b.scale ? LS_OK : undecided(n); /* equal at one value alone */
}

/* ---- values ---- */

static bool is_numbers(const ls_onnx_value *v) {
    return v->kind == ONNX_TENSOR && (v->extents || v->known) &&
           (v->type == ONNX_INT64 || v->type == ONNX_INT32 || v->type == ONNX_BOOL);
}

ls_status ls_onnx_extents(ls_onnx_node *n, int i, ls_dim **out_list, int *out_count) {
    if (ls_onnx_has(n, i) && n->in[i]->extents) {
        *out_count = (int)n->in[i]->dims[0];
        *out_list = ls_arena_copy(&n->run->arena, n->in[i]->extents, sizeof **out_list * (size_t)*out_count);
        return *out_list ? LS_OK : ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for extents");
    }
    int64_t *list;
    LS_TRY(n->err, ls_onnx_ints(n, i, &list, out_count));
    *out_list = LS_ARENA_ARRAY(ls_onnx_arena(n), ls_dim, *out_count + 1);
    if (!*out_list) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for extents");
    }
    for (int k = 0; k < *out_count; k++) {
        (*out_list)[k] = ls_dim_of(list[k]);
    }
    return LS_OK;
}

/* Numbers without a symbol. */
static ls_status out_numbers(ls_onnx_node *n, int i, int type, int rank, int count, const ls_dim *list) {
    size_t size = ls_dtype_size(ls_onnx_carrier(type));
    char *bytes = ls_arena_alloc(&n->run->arena, size * (size_t)count + 1);
    const int64_t dims[1] = {count};
    if (!bytes) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for %d numbers", count);
    }
    for (int k = 0; k < count; k++) { /* numbers wrap as the type's do */
        int64_t wide = list[k].offset;
        int32_t narrow = (int32_t)(uint32_t)(uint64_t)wide;
        uint8_t flag = wide != 0;
        memcpy(bytes + size * (size_t)k,
               type == ONNX_INT64   ? (void *)&wide
               : type == ONNX_INT32 ? (void *)&narrow
                                    : &flag,
               size);
    }
    return ls_onnx_out_from(n, i, type, rank, dims, bytes);
}

ls_status ls_onnx_out_extents(ls_onnx_node *n, int i, int type, int rank, int count, const ls_dim *list) {
    bool symbolic = false;
    for (int k = 0; k < count; k++) {
        symbolic |= list[k].symbol != NULL;
    }
    if (!symbolic) {
        return out_numbers(n, i, type, rank, count, list);
    }
    ls_onnx_value *v = ls_onnx_value_new(n, ONNX_TENSOR, type);
    ls_dim *copy = ls_arena_copy(&n->run->arena, list, sizeof *list * (size_t)count);
    if (!v || !copy) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for extents");
    }
    v->extents = copy;
    v->rank = rank;
    v->dims[0] = count;
    return ls_onnx_out_value(n, i, v);
}

static ls_tensor *number(ls_session *s, ls_dim d) {
    if (!d.symbol) {
        return ls_full_i64(s, LS_I64, LS_SCALAR, d.offset);
    }
    ls_tensor *x = ls_dim_value(s, ls_dim_symbol(d.symbol, 1, 0));
    x = d.scale == 1 ? x : ls_mul(s, x, ls_full_i64(s, LS_I64, LS_SCALAR, d.scale));
    return d.offset ? ls_add(s, x, ls_full_i64(s, LS_I64, LS_SCALAR, d.offset)) : x;
}

ls_tensor *ls_onnx_extent_tensor(ls_onnx_node *n, ls_dim d) {
    return number(n->s, d);
}

ls_tensor *ls_onnx_run_extents(ls_onnx_run *run, const ls_onnx_value *v) {
    ls_session *s = run->base->session;
    int count = (int)v->dims[0];
    ls_tensor **each = LS_ARENA_ARRAY(&run->arena, ls_tensor *, count + 1);
    for (int i = 0; each && i < count; i++) {
        each[i] = number(s, v->extents[i]);
    }
    ls_tensor *all = !each ? NULL : v->rank ? ls_stack(s, each, count, 0) : each[0];
    return all ? ls_cast(s, all, ls_onnx_carrier(v->type)) : NULL;
}

bool ls_onnx_is_symbolic(const ls_onnx_value *v) {
    ls_shape shape = v->kind == ONNX_TENSOR && v->tensor ? ls_tensor_shape(v->tensor) : LS_SCALAR;
    bool symbolic = false;
    for (int i = 0; i < shape.rank; i++) {
        symbolic |= shape.dim[i].symbol != NULL;
    }
    for (int i = 0; i < v->count && !symbolic; i++) {
        symbolic = ls_onnx_is_symbolic(v->items[i]);
    }
    return symbolic;
}

void ls_onnx_range_see(ls_onnx_range *r, const ls_shape *shape) {
    for (int i = 0; i < shape->rank && r->symbol; i++) {
        if (shape->dim[i].symbol) {
            keep(r, shape->dim[i].scale, shape->dim[i].offset);
        }
    }
}

/* ---- shapes and parts ---- */

ls_status ls_onnx_volume(ls_onnx_node *n, const ls_shape *shape, int first, int end, ls_dim *out) {
    *out = ls_dim_of(1);
    for (int i = first; i < end; i++) {
        if (!ls_onnx_times(*out, shape->dim[i], out)) {
            return ls_onnx_fail(n, LS_ERR_UNSUPPORTED,
                                "a number of elements that is no multiple of a symbol plus a number");
        }
    }
    return LS_OK;
}

ls_tensor *ls_onnx_part(ls_onnx_node *n, ls_tensor *x, int axis, ls_dim start, ls_dim length) {
    ls_shape shape = ls_tensor_shape(x);
    ls_dim extent = shape.dim[axis], end;
    if (!extent.symbol && !start.symbol && !length.symbol) {
        return ls_narrow(n->s, x, axis, start.offset, length.offset);
    }
    if (!start.symbol && ls_onnx_plus(start, length, &end) &&
        ls_onnx_same(end, extent)) { /* without its head */
        ls_slice_spec whole[LS_MAX_RANK];
        for (int i = 0; i < shape.rank; i++) {
            ls_dim d = shape.dim[i];
            whole[i] = (ls_slice_spec){i == axis ? start.offset : 0, d.symbol ? INT64_MAX : d.offset, 1};
        }
        return ls_slice(n->s, x, whole);
    }
    const ls_shape line = {.rank = 1, .dim = {length}};
    return ls_gather(n->s, x, ls_add(n->s, ls_iota(n->s, LS_I64, line, 0), number(n->s, start)), axis);
}

/* ---- arithmetic ---- */

enum { MOST_NUMBERS = 64 }; /* of an operand: shapes, not data */

typedef struct numbers {
    int type, rank, count;
    ls_dim *list;
} numbers;

/* The operands of a node, read, and its result: rules fill `out` or leave it, done false. */
typedef struct rule_call {
    ls_onnx_node *n;
    const numbers *in;
    numbers out;
    bool done;
} rule_call;

typedef ls_status (*rule_fn)(rule_call *c);

static ls_dim *room(rule_call *c, int rank, int count, int type) {
    c->out = (numbers){type, rank, count, LS_ARENA_ARRAY(&c->n->run->arena, ls_dim, count + 1)};
    return c->out.list;
}

static ls_status give(rule_call *c, int rank, int count, const ls_dim *list) {
    c->out = (numbers){c->in[0].type, rank, count, (ls_dim *)list};
    c->done = true;
    return LS_OK;
}

typedef enum binary { ADD, SUB, MUL, DIV, MOD, MIN, MAX, EQ, GT, GE, LT, LE } binary;

/* *out_fits false: no number of the form. Comparisons give 0 or 1. */
static ls_status combine(ls_onnx_node *n, binary op, ls_dim a, ls_dim b, ls_dim *out, bool *out_fits) {
    bool test = false;
    *out_fits = true;
    switch (op) {
    case ADD:
        *out_fits = ls_onnx_plus(a, b, out);
        return LS_OK;
    case SUB:
        *out_fits = ls_onnx_minus(a, b, out);
        return LS_OK;
    case MUL:
        *out_fits = ls_onnx_times(a, b, out);
        return LS_OK;
    case DIV:
    case MOD: /* of what is 0 or more by a divisor of the scale: rounded down and towards 0 are one */
        *out_fits = !b.symbol && b.offset > 0 && a.scale % b.offset == 0;
        if (*out_fits) {
            LS_TRY(n->err, ls_onnx_at_least(n, a, ls_dim_of(0), out_fits));
            int64_t quotient = floor_div(a.offset, b.offset);
            *out = op == DIV ? dim(a.symbol, a.scale / b.offset, quotient)
                             : ls_dim_of(a.offset - quotient * b.offset);
        }
        return LS_OK;
    case EQ:
        LS_TRY(n->err, ls_onnx_equal(n, a, b, &test));
        break;
    case GT:
    case LE:
        LS_TRY(n->err, ls_onnx_at_least(n, b, a, &test));
        test = (op == GT) != test;
        break;
    default:
        LS_TRY(n->err, ls_onnx_at_least(n, a, b, &test));
        test = (op == LT) != test;
        break;
    }
    *out = op == MIN ? (test ? b : a) : op == MAX ? (test ? a : b) : ls_dim_of(test);
    return LS_OK;
}

static ls_status pairwise(rule_call *c, binary op) {
    const numbers *a = &c->in[0], *b = &c->in[1];
    int count = a->count == 1 ? b->count : a->count;
    ls_dim *list = room(c, a->rank > b->rank ? a->rank : b->rank, count, op >= EQ ? ONNX_BOOL : a->type);
    if (c->n->n_in != 2 || (a->count != 1 && b->count != 1 && a->count != b->count) || a->type != b->type ||
        a->type == ONNX_BOOL) {
        return LS_OK;
    }
    c->done = list != NULL;
    for (int i = 0; i < count && c->done; i++) {
        LS_TRY(c->n->err, combine(c->n, op, a->list[a->count == 1 ? 0 : i], b->list[b->count == 1 ? 0 : i],
                                  &list[i], &c->done));
    }
    return LS_OK;
}

#define PAIRWISE(name, op)                                                                                   \
    static ls_status name(rule_call *c) {                                                                    \
        return pairwise(c, op);                                                                              \
    }
PAIRWISE(rule_add, ADD)
PAIRWISE(rule_sub, SUB)
PAIRWISE(rule_mul, MUL)
PAIRWISE(rule_div, DIV)
PAIRWISE(rule_min, MIN)
PAIRWISE(rule_max, MAX)
PAIRWISE(rule_equal, EQ)
PAIRWISE(rule_greater, GT)
PAIRWISE(rule_greater_equal, GE)
PAIRWISE(rule_less, LT)
PAIRWISE(rule_less_equal, LE)

static ls_status rule_mod(rule_call *c) {
    return ls_onnx_attr_int(c->n, "fmod", 0) ? LS_OK : pairwise(c, MOD);
}

static ls_status rule_neg(rule_call *c) {
    ls_dim *list = room(c, c->in[0].rank, c->in[0].count, c->in[0].type);
    c->done = list != NULL;
    for (int i = 0; i < c->in[0].count && c->done; i++) {
        c->done = ls_onnx_times(c->in[0].list[i], ls_dim_of(-1), &list[i]);
    }
    return LS_OK;
}

static ls_status rule_cast(rule_call *c) {
    int to = (int)ls_onnx_attr_int(c->n, "to", 0);
    if (to == ONNX_INT64 || to == ONNX_INT32) {
        LS_TRY(c->n->err, give(c, c->in[0].rank, c->in[0].count, c->in[0].list));
        c->out.type = to;
    }
    return LS_OK;
}

static ls_status rule_where(rule_call *c) {
    const numbers *test = &c->in[0], *a = &c->in[1], *b = &c->in[2];
    int count = test->count != 1 ? test->count : a->count != 1 ? a->count : b->count;
    int rank = test->rank || a->rank || b->rank;
    ls_dim *list = room(c, rank, count, a->type);
    c->done = list && test->type == ONNX_BOOL && a->type == b->type &&
              (test->count == 1 || test->count == count) && (a->count == 1 || a->count == count) &&
              (b->count == 1 || b->count == count);
    for (int i = 0; i < count && c->done; i++) {
        ls_dim t = test->list[test->count == 1 ? 0 : i];
        list[i] = t.offset ? a->list[a->count == 1 ? 0 : i] : b->list[b->count == 1 ? 0 : i];
    }
    return LS_OK;
}

static ls_status rule_gather(rule_call *c) {
    const numbers *x = &c->in[0], *index = &c->in[1];
    ls_dim *list = room(c, index->rank, index->count, x->type);
    c->done = list && x->rank == 1;
    for (int i = 0; i < index->count && c->done; i++) {
        ls_dim at = index->list[i];
        int64_t k = at.offset + (at.offset < 0 ? x->count : 0);
        c->done = !at.symbol && k >= 0 && k < x->count;
        list[i] = c->done ? x->list[k] : at;
    }
    return LS_OK;
}

static ls_status rule_concat(rule_call *c) {
    int count = 0;
    for (int i = 0; i < c->n->n_in; i++) {
        if (c->in[i].rank != 1 || c->in[i].type != c->in[0].type) {
            return LS_OK;
        }
        count += c->in[i].count;
    }
    ls_dim *list = room(c, 1, count, c->in[0].type);
    c->done = list != NULL;
    for (int i = 0; i < c->n->n_in && c->done; i++) {
        memcpy(list, c->in[i].list, sizeof *list * (size_t)c->in[i].count);
        list += c->in[i].count;
    }
    return LS_OK;
}

/* Among ranks 0 and 1: what the result's rank is follows from the counts and the rank of the new shape. */
static ls_status rule_squeeze(rule_call *c) {
    return c->in[0].count == 1 && c->in[0].rank == 1 ? give(c, 0, 1, c->in[0].list) : LS_OK;
}

static ls_status rule_unsqueeze(rule_call *c) {
    int axes = c->n->n_in > 1 ? c->in[1].count : 0;
    if (c->n->n_in == 1) {
        ls_onnx_attr_ints(c->n, "axes", &axes);
    }
    return c->in[0].rank == 0 && axes == 1 ? give(c, 1, 1, c->in[0].list) : LS_OK;
}

static ls_status rule_reshape(rule_call *c) {
    const numbers *to = &c->in[1];
    int64_t want = to->count == 1 ? to->list[0].offset : c->in[0].count == 1 ? 1 : 0;
    bool flat = to->count <= 1 && to->type == ONNX_INT64 && (to->count == 0 || !to->list[0].symbol) &&
                (want == -1 || want == c->in[0].count);
    return flat ? give(c, to->count, c->in[0].count, c->in[0].list) : LS_OK;
}

static ls_status rule_slice(rule_call *c) {
    const numbers *x = &c->in[0];
    int64_t by[4] = {0, 0, 0, 1}; /* start, end, axis, step */
    static const char *const names[] = {"starts", "ends", "axes"};
    bool fits = x->rank == 1 && c->n->n_in != 2;
    for (int i = 1; i < c->n->n_in && fits; i++) {
        fits = c->in[i].count == 1 && !c->in[i].list[0].symbol;
        by[i - 1] = fits ? c->in[i].list[0].offset : 0;
    }
    for (int i = 0; i < 3 && c->n->n_in == 1 && fits; i++) { /* before opset 10 */
        int count;
        const int64_t *list = ls_onnx_attr_ints(c->n, names[i], &count);
        fits = list ? count == 1 : i == 2;
        by[i] = fits && list ? *list : 0;
    }
    if (!fits || by[3] != 1) {
        return LS_OK;
    }
    for (int i = 0; i < 2; i++) {
        by[i] += by[i] < 0 ? x->count : 0;
        by[i] = by[i] < 0 ? 0 : by[i] > x->count ? x->count : by[i];
    }
    int count = by[1] > by[0] ? (int)(by[1] - by[0]) : 0;
    return give(c, 1, count, x->list + by[0]);
}

static ls_status fold(rule_call *c, binary op, int64_t first) {
    ls_dim *list = room(c, ls_onnx_attr_int(c->n, "keepdims", 1) != 0 && c->in[0].rank, 1, c->in[0].type);
    bool all = c->n->n_in == 1 || c->in[1].count == 1;
    c->done = list && all && !ls_onnx_attr_int(c->n, "noop_with_empty_axes", 0);
    if (c->done) {
        list[0] = ls_dim_of(first);
    }
    for (int i = 0; i < c->in[0].count && c->done; i++) {
        LS_TRY(c->n->err, combine(c->n, op, list[0], c->in[0].list[i], &list[0], &c->done));
    }
    return LS_OK;
}

static ls_status rule_sum(rule_call *c) {
    return fold(c, ADD, 0);
}

static ls_status rule_prod(rule_call *c) {
    return fold(c, MUL, 1);
}

static rule_fn find_rule(const Onnx__NodeProto *node) {
    static const struct {
        const char *name;
        rule_fn fn;
    } rules[] = {{"Add", rule_add},
                 {"Sub", rule_sub},
                 {"Mul", rule_mul},
                 {"Div", rule_div},
                 {"Mod", rule_mod},
                 {"Min", rule_min},
                 {"Max", rule_max},
                 {"Neg", rule_neg},
                 {"Equal", rule_equal},
                 {"Greater", rule_greater},
                 {"GreaterOrEqual", rule_greater_equal},
                 {"Less", rule_less},
                 {"LessOrEqual", rule_less_equal},
                 {"Where", rule_where},
                 {"Cast", rule_cast},
                 {"Gather", rule_gather},
                 {"Concat", rule_concat},
                 {"Squeeze", rule_squeeze},
                 {"Unsqueeze", rule_unsqueeze},
                 {"Reshape", rule_reshape},
                 {"Slice", rule_slice},
                 {"ReduceSum", rule_sum},
                 {"ReduceProd", rule_prod}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules && !*ls_onnx_domain(node->domain); i++) {
        if (!strcmp(rules[i].name, node->op_type)) {
            return rules[i].fn;
        }
    }
    return NULL;
}

ls_status ls_onnx_extent_node(ls_onnx_node *n, bool *out_done) {
    rule_fn fn = find_rule(n->proto);
    bool any = false, all = fn != NULL;
    *out_done = false;
    for (int i = 0; i < n->n_in && all; i++) {
        int64_t dims[LS_MAX_RANK];
        all = n->in[i] && is_numbers(n->in[i]);
        int rank = all ? ls_onnx_value_dims(n->in[i], dims) : 0;
        all = all && rank <= 1 && (rank == 0 || dims[0] <= MOST_NUMBERS);
        any |= all && n->in[i]->extents;
    }
    if (!any || !all) {
        return LS_OK;
    }
    numbers *in = LS_ARENA_ARRAY(&n->run->arena, numbers, n->n_in);
    if (!in) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for extents");
    }
    for (int i = 0; i < n->n_in; i++) {
        int64_t dims[LS_MAX_RANK];
        in[i].type = n->in[i]->type;
        in[i].rank = ls_onnx_value_dims(n->in[i], dims);
        LS_TRY(n->err, ls_onnx_extents(n, i, &in[i].list, &in[i].count));
    }
    rule_call c = {.n = n, .in = in};
    LS_TRY(n->err, fn(&c));
    for (int i = 0; i < c.out.count && c.done && c.out.type == ONNX_INT32; i++) { /* nothing wraps */
        bool low = !c.out.list[i].symbol, high = low;
        if (!low) {
            LS_TRY(n->err, ls_onnx_at_least(n, c.out.list[i], ls_dim_of(INT32_MIN), &low));
            LS_TRY(n->err, ls_onnx_at_least(n, ls_dim_of(INT32_MAX), c.out.list[i], &high));
        }
        c.done = low && high;
    }
    *out_done = c.done;
    return c.done ? ls_onnx_out_extents(n, 0, c.out.type, c.out.rank, c.out.count, c.out.list) : LS_OK;
}
