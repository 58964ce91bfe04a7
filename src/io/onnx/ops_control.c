/* Control flow: If, Loop, Scan.
 *
 * Branches are chosen and loops are unrolled while the graph is built: conditions and trip counts are read
 * as numbers (an eager run computes them). A program whose inputs decide has both branches, if they are small.
 * Iteration numbers and conditions that are known stay so in the body, and with them the shapes that follow. */
#include "graph/graph.h"
#include "io/onnx/onnx.h"
#include <string.h>

/* An unrolled loop is a graph: a count beyond this is a mistake, or would never end. */
enum { MAX_ITERATIONS = 1 << 20 };

typedef LS_ARRAY(ls_onnx_value *) values;

/* A known number, by way of result 0, which is set last. */
static ls_status number(ls_onnx_node *n, int type, const void *element, ls_onnx_value **out_value) {
    LS_TRY(n->err, ls_onnx_out_from(n, 0, type, 0, NULL, element));
    *out_value = n->out[0];
    return LS_OK;
}

static ls_status condition_of(ls_onnx_node *n, ls_onnx_value *v, bool *out) {
    const ls_data *data;
    LS_TRY(n->err, ls_onnx_read_value(n, v, &data));
    if (ls_data_dtype(data) != LS_BOOL || ls_data_numel(data) != 1) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "the condition is %lld elements of %s: expected one bool",
                            (long long)ls_data_numel(data), ls_dtype_name(ls_data_dtype(data)));
    }
    *out = *(const uint8_t *)ls_data_bytes(data) != 0;
    return LS_OK;
}

static ls_status graph_of(ls_onnx_node *n, const char *name, int n_in, int least_out,
                          const ls_onnx_graph **out_graph) {
    const ls_onnx_graph *g = ls_onnx_attr_graph(n, name);
    if (!g) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "attribute %s is missing: expected a graph", name);
    }
    if (ls_onnx_graph_inputs(g) != n_in || ls_onnx_graph_outputs(g) < least_out) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "%s has %d inputs and %d outputs: expected %d, and at least %d",
                            name, ls_onnx_graph_inputs(g), ls_onnx_graph_outputs(g), n_in, least_out);
    }
    *out_graph = g;
    return LS_OK;
}

static ls_onnx_value **room(ls_onnx_node *n, int count) {
    return LS_ARENA_ARRAY(ls_onnx_arena(n), ls_onnx_value *, count + 1);
}

/* ---- If ---- */

enum { MOST_WORK = 1 << 22 }; /* operations of both branches together, where both are computed */

static double work_of(const ls_tensor *t) {
    int64_t dims[LS_MAX_RANK];
    double work = (double)ls_shape_numel(&t->shape, NULL);
    if (ls_ops[t->op].op_class == LS_CLASS_CONTRACT) {
        ls_shape_bounds(&t->src[0]->shape, dims);
        for (int i = 0; i < t->attr.contract.n_contract; i++) {
            work *= (double)dims[t->attr.contract.contract_a[i]];
        }
    }
    return work;
}

/* Nobody notices that it was computed: nothing reports an index, nothing draws numbers, and it does not take long. `before`: what was
 * there already. */
static bool is_harmless(const ls_tensor *const *order, int count, uint64_t before) {
    double work = 0;
    for (int i = 0; i < count; i++) {
        ls_op_class class = ls_ops[order[i]->op].op_class;
        if (order[i]->serial <= before || class == LS_CLASS_LEAF || class == LS_CLASS_MOVE) {
            continue;
        }
        if (class == LS_CLASS_GATHER || class == LS_CLASS_SCATTER || class == LS_CLASS_RANDOM || class == LS_CLASS_LOOP) {
            return false;
        }
        work += work_of(order[i]);
    }
    return work <= MOST_WORK;
}

/* Both branches, and each result from the one that is chosen. *out_done false: their results differ in kind, type or shape, or to
 * compute both would be noticed. */
static ls_status select_branch(ls_onnx_node *n, bool *out_done) {
    static const char *const names[2] = {"then_branch", "else_branch"};
    ls_onnx_value **out[2];
    ls_tensor **parts = LS_ARENA_ARRAY(ls_onnx_arena(n), ls_tensor *, 2 * n->n_out + 1);
    uint64_t before = ls_graph_of(n->s)->serial;
    int count = 0;
    for (int k = 0; k < 2; k++) {
        const ls_onnx_graph *g;
        LS_TRY(n->err, graph_of(n, names[k], 0, n->n_out, &g));
        out[k] = room(n, ls_onnx_graph_outputs(g));
        if (!parts || !out[k]) {
            return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for the results of a branch");
        }
        LS_TRY(n->err, ls_onnx_call(n, g, 0, NULL, out[k]));
        for (int i = 0; i < n->n_out; i++) {
            ls_tensor *t = parts[k * n->n_out + i] = ls_onnx_tensor(n, out[k][i]);
            if (!t || out[k][i]->type != out[0][i]->type || !ls_shape_equal(&t->shape, &parts[i]->shape)) {
                return LS_OK;
            }
        }
    }
    ls_tensor **order = ls_graph_order(ls_onnx_arena(n), parts, 2 * n->n_out, &count), *condition = ls_onnx_in(n, 0);
    if (!order) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for the nodes of two branches");
    }
    if (!is_harmless((const ls_tensor *const *)order, count, before)) {
        return LS_OK;
    }
    condition = ls_onnx_shaped(n, condition, 0, NULL);
    for (int i = 0; i < n->n_out; i++) {
        LS_TRY(n->err, ls_onnx_out_as(n, i, ls_where(n->s, condition, parts[i], parts[n->n_out + i]), out[0][i]->type));
    }
    *out_done = true;
    return LS_OK;
}

static ls_status if_(ls_onnx_node *n) {
    bool yes, done = false;
    const ls_onnx_graph *g;
    if (ls_onnx_selects(n, n->in[0])) {
        ls_status status = select_branch(n, &done);
        if (done || status == LS_ERR_MEMORY || status == LS_ERR_AGAIN) {
            return status;
        }
        ls_error_clear(n->err);
        ls_error_clear(&n->failed);
    }
    LS_TRY(n->err, condition_of(n, n->in[0], &yes));
    LS_TRY(n->err, graph_of(n, yes ? "then_branch" : "else_branch", 0, n->n_out, &g));
    ls_onnx_value **out = room(n, ls_onnx_graph_outputs(g));
    if (!out) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for the results of a branch");
    }
    LS_TRY(n->err, ls_onnx_call(n, g, 0, NULL, out));
    for (int i = 0; i < n->n_out; i++) {
        LS_TRY(n->err, ls_onnx_out_value(n, i, out[i]));
    }
    return LS_OK;
}

/* ---- stacking ---- */

static bool same_shape(const ls_onnx_value *a, const ls_onnx_value *b, int64_t dims[LS_MAX_RANK],
                       int *out_rank) {
    int64_t other[LS_MAX_RANK];
    *out_rank = ls_onnx_value_dims(a, dims);
    return ls_onnx_value_dims(b, other) == *out_rank &&
           !memcmp(dims, other, sizeof *dims * (size_t)*out_rank) && a->type == b->type;
}

static ls_status stack_strings(ls_onnx_node *n, int count, ls_onnx_value *const *items, const int64_t *dims,
                               int rank, ls_onnx_value **out_value) {
    ls_onnx_value *v = ls_onnx_value_new(n, ONNX_STRINGS, ONNX_STRING);
    size_t each = 1;
    for (int i = 0; i < rank; i++) {
        each *= (size_t)dims[i];
    }
    const char **all = v ? LS_ARENA_ARRAY(ls_onnx_arena(n), const char *, (size_t)count *each + 1) : NULL;
    if (!all) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for scan outputs");
    }
    for (int i = 0; i < count && each > 0; i++) {
        memcpy(all + (size_t)i * each, items[i]->strings, sizeof *all * each);
    }
    v->known = true;
    v->rank = rank + 1;
    v->dims[0] = count;
    memcpy(v->dims + 1, dims, sizeof *dims * (size_t)rank);
    v->strings = all;
    *out_value = v;
    return LS_OK;
}

/* Known numbers are put together here, so that the result is known. */
static ls_status stack_known(ls_onnx_node *n, int count, ls_onnx_value *const *items, const int64_t *dims,
                             int rank, ls_onnx_value **out_value) {
    int64_t shape[LS_MAX_RANK] = {count};
    const ls_data *data;
    LS_TRY(n->err, ls_onnx_read_value(n, items[0], &data));
    size_t each = ls_data_size(data);
    char *bytes = ls_arena_array(ls_onnx_arena(n), (size_t)count, each ? each : 1);
    if (!bytes) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for scan outputs");
    }
    for (int i = 0; i < count; i++) {
        LS_TRY(n->err, ls_onnx_read_value(n, items[i], &data));
        memcpy(bytes + (size_t)i * each, ls_data_bytes(data), each);
    }
    memcpy(shape + 1, dims, sizeof *dims * (size_t)rank);
    LS_TRY(n->err, ls_onnx_out_from(n, 0, items[0]->type, rank + 1, shape, bytes));
    *out_value = n->out[0];
    return LS_OK;
}

/* `count` >= 1 values of one shape along a new axis. */
static ls_status stack(ls_onnx_node *n, int count, ls_onnx_value *const *items, int64_t axis,
                       ls_onnx_value **out_value) {
    int64_t dims[LS_MAX_RANK];
    int rank = 0, at;
    bool known = true;
    for (int i = 0; i < count; i++) {
        known = known && items[i]->known;
        if (items[i]->kind != items[0]->kind ||
            (items[0]->kind != ONNX_TENSOR && items[0]->kind != ONNX_STRINGS) ||
            !same_shape(items[0], items[i], dims, &rank)) {
            return ls_onnx_fail(
                n, LS_ERR_SHAPE,
                "a scan output of iteration %d differs from iteration 0's: expected tensors of one "
                "type and shape",
                i);
        }
    }
    if (rank == LS_MAX_RANK) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "a scan output of rank %d: at most %d", rank + 1,
                            LS_MAX_RANK);
    }
    LS_TRY(n->err, ls_onnx_axis(n, axis, rank + 1, &at));
    if (items[0]->kind == ONNX_STRINGS) {
        return at == 0
                   ? stack_strings(n, count, items, dims, rank, out_value)
                   : ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "strings stacked along axis %d: only axis 0", at);
    }
    if (known && at == 0) {
        return stack_known(n, count, items, dims, rank, out_value);
    }
    ls_tensor **parts = LS_ARENA_ARRAY(ls_onnx_arena(n), ls_tensor *, count);
    if (!parts) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for scan outputs");
    }
    for (int i = 0; i < count; i++) {
        parts[i] = ls_onnx_tensor(n, items[i]);
        if (!parts[i]) {
            return ls_onnx_out(n, 0, NULL);
        }
    }
    *out_value = ls_onnx_value_of(n, ls_stack(n->s, parts, count, at), items[0]->type);
    return *out_value ? LS_OK : ls_onnx_out_value(n, 0, NULL);
}

/* A value like `item` with a new axis 0 of extent 0: what no iteration leaves. */
static ls_status stack_none(ls_onnx_node *n, ls_onnx_value *item, int64_t axis, ls_onnx_value **out_value) {
    int64_t dims[LS_MAX_RANK], shape[LS_MAX_RANK];
    int rank = ls_onnx_value_dims(item, dims), at;
    if (item->kind == ONNX_STRINGS) {
        return stack_strings(n, 0, NULL, dims, rank, out_value);
    }
    if (item->kind != ONNX_TENSOR || rank == LS_MAX_RANK) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "a scan output that is no tensor of at most %d axes",
                            LS_MAX_RANK - 1);
    }
    LS_TRY(n->err, ls_onnx_axis(n, axis, rank + 1, &at));
    for (int i = 0; i <= rank; i++) {
        shape[i] = i < at ? dims[i] : i == at ? 0 : dims[i - 1];
    }
    LS_TRY(n->err, ls_onnx_out_from(n, 0, item->type, rank + 1, shape, NULL));
    *out_value = n->out[0];
    return LS_OK;
}

/* ---- Loop ---- */

typedef struct loop {
    const ls_onnx_graph *body;
    int n_carry, n_scan;
    ls_onnx_value **in, **out; /* of the body: iteration, condition, carried; condition, carried, scanned */
    values scanned;            /* n_scan an iteration */
} loop;

static ls_status iterate(ls_onnx_node *n, ls_heap *heap, loop *l, bool limited, int64_t trip, bool go) {
    for (int64_t i = 0; go && (!limited || i < trip); i++) {
        if (i == MAX_ITERATIONS) {
            return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "more than %d iterations", MAX_ITERATIONS);
        }
        LS_TRY(n->err, number(n, ONNX_INT64, &i, &l->in[0]));
        LS_TRY(n->err, ls_onnx_call(n, l->body, 2 + l->n_carry, l->in, l->out));
        l->in[1] = l->out[0];
        memcpy(l->in + 2, l->out + 1, sizeof *l->in * (size_t)l->n_carry);
        for (int k = 0; k < l->n_scan; k++) {
            if (!ls_array_push(heap, &l->scanned, l->out[1 + l->n_carry + k])) {
                return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for scan outputs");
            }
        }
        LS_TRY(n->err, condition_of(n, l->in[1], &go));
    }
    return LS_OK;
}

/* The k-th scan output of all iterations. */
static ls_status collect(ls_onnx_node *n, const loop *l, int k, int64_t axis, bool reverse,
                         ls_onnx_value **out_value) {
    int count = (int)(l->scanned.len / (size_t)l->n_scan);
    ls_onnx_value **items = room(n, count);
    if (!items) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for scan outputs");
    }
    for (int i = 0; i < count; i++) {
        items[reverse ? count - 1 - i : i] = l->scanned.data[(size_t)i * (size_t)l->n_scan + (size_t)k];
    }
    return stack(n, count, items, axis, out_value);
}

static ls_status loop_results(ls_onnx_node *n, loop *l) {
    ls_onnx_value **results = room(n, n->n_out);
    if (!results) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for the results of a loop");
    }
    memcpy(results, l->in + 2, sizeof *results * (size_t)(l->n_carry < n->n_out ? l->n_carry : n->n_out));
    if (l->scanned.len == 0 &&
        n->n_out > l->n_carry) { /* no iteration: the body is built for its shapes alone */
        LS_TRY(n->err, number(n, ONNX_INT64, &(int64_t){0}, &l->in[0]));
        LS_TRY(n->err, ls_onnx_call(n, l->body, 2 + l->n_carry, l->in, l->out));
    }
    for (int i = l->n_carry; i < n->n_out; i++) {
        LS_TRY(n->err, l->scanned.len == 0 ? stack_none(n, l->out[1 + i], 0, &results[i])
                                           : collect(n, l, i - l->n_carry, 0, false, &results[i]));
    }
    for (int i = 0; i < n->n_out; i++) {
        LS_TRY(n->err, ls_onnx_out_value(n, i, results[i]));
    }
    return LS_OK;
}

static ls_status loop_(ls_onnx_node *n) {
    loop l = {.n_carry = n->n_in > 2 ? n->n_in - 2 : 0};
    bool go = true, limited = ls_onnx_has(n, 0);
    int64_t trip;
    if (n->n_out == 0) {
        return LS_OK;
    }
    LS_TRY(n->err, graph_of(n, "body", 2 + l.n_carry, 1 + l.n_carry, &l.body));
    LS_TRY(n->err, ls_onnx_int(n, 0, 0, &trip));
    l.n_scan = ls_onnx_graph_outputs(l.body) - 1 - l.n_carry;
    l.in = room(n, 2 + l.n_carry);
    l.out = room(n, 1 + l.n_carry + l.n_scan);
    if (!l.in || !l.out) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for a loop");
    }
    if (n->n_out > l.n_carry + l.n_scan) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "%d results: expected at most the %d of the body", n->n_out,
                            l.n_carry + l.n_scan);
    }
    for (int i = 0; i < l.n_carry; i++) {
        l.in[2 + i] = n->in[2 + i];
    }
    if (ls_onnx_has(n, 1)) {
        l.in[1] = n->in[1];
        LS_TRY(n->err, condition_of(n, l.in[1], &go));
    } else {
        LS_TRY(n->err, number(n, ONNX_BOOL, &(uint8_t){1}, &l.in[1]));
    }
    ls_heap *heap = ls_onnx_arena(n)->heap;
    ls_status status = iterate(n, heap, &l, limited, trip, go);
    status = status == LS_OK ? loop_results(n, &l) : status;
    ls_array_free(heap, &l.scanned);
    return status;
}

/* ---- Scan ---- */

/* x[.., index, ..] of an axis; strings are not iterated over. */
static ls_tensor *slice_at(ls_onnx_node *n, ls_tensor *x, int axis, int64_t index) {
    return ls_squeeze(n->s, ls_narrow(n->s, x, axis, index, 1), axis);
}

/* `length` iterations over slices of xs; l->in holds the state first and after. */
static ls_status scan_over(ls_onnx_node *n, ls_heap *heap, loop *l, int n_xs, ls_tensor *const *xs,
                           const int *types, const int *axes, const int64_t *directions, int64_t length) {
    for (int64_t t = 0; t < length; t++) {
        for (int i = 0; i < n_xs; i++) {
            ls_tensor *x = slice_at(n, xs[i], axes[i], directions && directions[i] ? length - 1 - t : t);
            ls_onnx_value *v = ls_onnx_value_of(n, x, types[i]);
            if (!v) {
                return ls_onnx_out_value(n, 0, NULL);
            }
            l->in[l->n_carry + i] = v;
        }
        LS_TRY(n->err, ls_onnx_call(n, l->body, l->n_carry + n_xs, l->in, l->out));
        memcpy(l->in, l->out, sizeof *l->in * (size_t)l->n_carry);
        for (int k = 0; k < l->n_scan; k++) {
            if (!ls_array_push(heap, &l->scanned, l->out[l->n_carry + k])) {
                return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for scan outputs");
            }
        }
    }
    return LS_OK;
}

typedef struct scan_inputs {
    int count;
    ls_tensor *x[64];
    int type[64], axis[64];
    const int64_t *directions;
    int64_t length;
} scan_inputs;

/* Operands from `first` on, with the axis that each is scanned along and the common extent. */
static ls_status scan_begin(ls_onnx_node *n, int first, loop *l, scan_inputs *xs) {
    bool old = n->version < 9;
    int n_axes = 0, n_directions = 0;
    const int64_t *axes = old ? NULL : ls_onnx_attr_ints(n, "scan_input_axes", &n_axes);
    xs->directions = ls_onnx_attr_ints(n, old ? "directions" : "scan_input_directions", &n_directions);
    xs->count = (int)ls_onnx_attr_int(n, "num_scan_inputs", 0);
    if (xs->count < 1 || xs->count > 64 || xs->count > n->n_in - first) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "num_scan_inputs %d: expected 1 to the %d operands, at most 64",
                            xs->count, n->n_in - first);
    }
    if ((axes && n_axes != xs->count) || (xs->directions && n_directions != xs->count)) {
        return ls_onnx_fail(n, LS_ERR_FORMAT,
                            "axes or directions of another number than the %d scanned operands", xs->count);
    }
    l->n_carry = n->n_in - first - xs->count;
    LS_TRY(n->err, graph_of(n, "body", l->n_carry + xs->count, l->n_carry, &l->body));
    l->n_scan = ls_onnx_graph_outputs(l->body) - l->n_carry;
    l->in = room(n, l->n_carry + xs->count);
    l->out = room(n, l->n_carry + l->n_scan);
    if (!l->in || !l->out) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for a scan");
    }
    if (n->n_out > l->n_carry + l->n_scan) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "%d results: expected at most the %d of the body", n->n_out,
                            l->n_carry + l->n_scan);
    }
    for (int i = 0; i < l->n_carry + xs->count; i++) {
        if (!ls_onnx_has(n, first + i)) {
            return ls_onnx_fail(n, LS_ERR_FORMAT, "operand %d is missing", first + i);
        }
    }
    for (int i = 0; i < xs->count; i++) {
        int64_t dims[LS_MAX_RANK] = {0};
        xs->x[i] = ls_onnx_in(n, first + l->n_carry + i);
        xs->type[i] = ls_onnx_in_type(n, first + l->n_carry + i);
        if (!xs->x[i]) {
            return ls_onnx_out(n, 0, NULL);
        }
        int rank = ls_onnx_dims(xs->x[i], dims);
        LS_TRY(n->err, ls_onnx_axis(n, old ? 1 : axes ? axes[i] : 0, rank, &xs->axis[i]));
        if (i > 0 && dims[xs->axis[i]] != xs->length) {
            return ls_onnx_fail(n, LS_ERR_SHAPE,
                                "scanned operands of %lld and %lld elements: expected one length",
                                (long long)xs->length, (long long)dims[xs->axis[i]]);
        }
        xs->length = dims[xs->axis[i]];
    }
    if (xs->length > MAX_ITERATIONS) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "%lld iterations: expected at most %d", (long long)xs->length, MAX_ITERATIONS);
    }
    return LS_OK;
}

static ls_status scan9_results(ls_onnx_node *n, loop *l, const scan_inputs *xs) {
    int n_axes = 0, n_directions = 0;
    const int64_t *axes = ls_onnx_attr_ints(n, "scan_output_axes", &n_axes);
    const int64_t *directions = ls_onnx_attr_ints(n, "scan_output_directions", &n_directions);
    ls_onnx_value **results = room(n, n->n_out);
    if ((axes && n_axes < l->n_scan) || (directions && n_directions < l->n_scan)) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "axes or directions of another number than the %d scan outputs",
                            l->n_scan);
    }
    if (!results) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for the results of a scan");
    }
    memcpy(results, l->in, sizeof *results * (size_t)(l->n_carry < n->n_out ? l->n_carry : n->n_out));
    if (xs->length == 0 && n->n_out > l->n_carry) { /* built for its shapes alone */
        for (int i = 0; i < xs->count; i++) {
            int64_t dims[LS_MAX_RANK];
            ls_shape shape = {.rank = ls_onnx_dims(xs->x[i], dims) - 1};
            for (int k = 0; k < shape.rank; k++) {
                shape.dim[k] = ls_dim_of(dims[k + (k >= xs->axis[i])]);
            }
            l->in[l->n_carry + i] =
                ls_onnx_value_of(n, ls_full(n->s, ls_tensor_dtype(xs->x[i]), shape, 0), xs->type[i]);
            if (!l->in[l->n_carry + i]) {
                return ls_onnx_out_value(n, 0, NULL);
            }
        }
        LS_TRY(n->err, ls_onnx_call(n, l->body, l->n_carry + xs->count, l->in, l->out));
    }
    for (int i = l->n_carry; i < n->n_out; i++) {
        int k = i - l->n_carry;
        int64_t axis = axes ? axes[k] : 0;
        LS_TRY(n->err, xs->length == 0 ? stack_none(n, l->out[i], axis, &results[i])
                                       : collect(n, l, k, axis, directions && directions[k], &results[i]));
    }
    for (int i = 0; i < n->n_out; i++) {
        LS_TRY(n->err, ls_onnx_out_value(n, i, results[i]));
    }
    return LS_OK;
}

static ls_status scan(ls_onnx_node *n) {
    loop l = {0};
    scan_inputs xs = {0};
    ls_heap *heap = ls_onnx_arena(n)->heap;
    LS_TRY(n->err, scan_begin(n, 0, &l, &xs));
    for (int i = 0; i < l.n_carry; i++) {
        l.in[i] = n->in[i];
    }
    ls_status status = scan_over(n, heap, &l, xs.count, xs.x, xs.type, xs.axis, xs.directions, xs.length);
    status = status == LS_OK ? scan9_results(n, &l, &xs) : status;
    ls_array_free(heap, &l.scanned);
    return status;
}

/* A batch's k-th scan output, filled up with zeros to the longest sequence. */
static ls_status collect_padded(ls_onnx_node *n, const loop *l, int k, int64_t length,
                                ls_onnx_value **out_value) {
    int count = (int)(l->scanned.len / (size_t)l->n_scan);
    LS_TRY(n->err, collect(n, l, k, 0, false, out_value));
    if (count == length) {
        return LS_OK;
    }
    ls_pad_spec pads[LS_MAX_RANK] = {{.high = length - count}};
    *out_value =
        ls_onnx_value_of(n, ls_pad(n->s, ls_onnx_tensor(n, *out_value), pads, 0), (*out_value)->type);
    return *out_value ? LS_OK : ls_onnx_out_value(n, 0, NULL);
}

/* Opset 8: axis 0 of every operand is a batch, axis 1 of the scanned ones the sequence; one scan an
 * element. */
static ls_status scan_batch(ls_onnx_node *n, ls_heap *heap, loop *l, const scan_inputs *xs, int64_t b,
                            int64_t length, ls_onnx_value **out_results) {
    ls_tensor *slices[64];
    static const int axes[64];
    for (int i = 0; i < l->n_carry; i++) {
        ls_onnx_value *v =
            ls_onnx_value_of(n, slice_at(n, ls_onnx_in(n, 1 + i), 0, b), ls_onnx_in_type(n, 1 + i));
        if (!v) {
            return ls_onnx_out_value(n, 0, NULL);
        }
        l->in[i] = v;
    }
    for (int i = 0; i < xs->count; i++) {
        slices[i] = slice_at(n, xs->x[i], 0, b);
        if (!slices[i]) {
            return ls_onnx_out(n, 0, NULL);
        }
    }
    l->scanned.len = 0;
    LS_TRY(n->err, scan_over(n, heap, l, xs->count, slices, xs->type, axes, xs->directions, length));
    for (int i = 0; i < n->n_out; i++) {
        if (i < l->n_carry) {
            out_results[i] = l->in[i];
        } else {
            LS_TRY(n->err, collect_padded(n, l, i - l->n_carry, xs->length, &out_results[i]));
        }
    }
    return LS_OK;
}

static ls_status scan_batches(ls_onnx_node *n, ls_heap *heap, loop *l, const scan_inputs *xs, int64_t batches,
                              const int64_t *lengths) {
    ls_onnx_value **all = room(n, (int)batches * n->n_out), **column = room(n, (int)batches),
                  **results = room(n, n->n_out);
    if (!all || !column || !results) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for the results of a scan");
    }
    for (int64_t b = 0; b < batches; b++) {
        int64_t length = lengths ? lengths[b] : xs->length;
        if (length < 1 || length > xs->length) {
            return ls_onnx_fail(n, LS_ERR_RANGE, "sequence_lens[%lld] is %lld: expected 1 to %lld",
                                (long long)b, (long long)length, (long long)xs->length);
        }
        LS_TRY(n->err, scan_batch(n, heap, l, xs, b, length, all + b * n->n_out));
    }
    for (int i = 0; i < n->n_out; i++) {
        for (int64_t b = 0; b < batches; b++) {
            column[b] = all[b * n->n_out + i];
        }
        LS_TRY(n->err, stack(n, (int)batches, column, 0, &results[i]));
    }
    for (int i = 0; i < n->n_out; i++) {
        LS_TRY(n->err, ls_onnx_out_value(n, i, results[i]));
    }
    return LS_OK;
}

static ls_status scan8(ls_onnx_node *n) {
    loop l = {0};
    scan_inputs xs = {0};
    ls_heap *heap = ls_onnx_arena(n)->heap;
    int64_t dims[LS_MAX_RANK], *lengths = NULL;
    int n_lengths = 0;
    LS_TRY(n->err, scan_begin(n, 1, &l, &xs));
    ls_onnx_dims(xs.x[0], dims);
    if (ls_onnx_has(n, 0)) {
        LS_TRY(n->err, ls_onnx_ints(n, 0, &lengths, &n_lengths));
    }
    if (dims[0] < 1 || dims[0] > MAX_ITERATIONS || (lengths && n_lengths != dims[0])) {
        return ls_onnx_fail(n, LS_ERR_SHAPE,
                            "a batch of %lld, and %d lengths: expected one for each, and at least one",
                            (long long)dims[0], n_lengths);
    }
    ls_status status = scan_batches(n, heap, &l, &xs, dims[0], lengths);
    ls_array_free(heap, &l.scanned);
    return status;
}

const ls_onnx_op ls_onnx_control_ops[] = {
    {"", "If", 1, 1, 1, if_, ONNX_DEVICE},
    {"", "Loop", 1, 0, -1, loop_, ONNX_DEVICE},
    {"", "Scan", 8, 0, -1, scan8, ONNX_DEVICE},
    {"", "Scan", 9, 1, -1, scan, ONNX_DEVICE},
    {0},
};
