/* A group becomes a spec: values are composed backwards from each root at an index tuple, through
 * movement, down to loads.
 *
 * Invariants: equal computations at equal indices are one value; a value under guards is only used where
 * they hold, and its loads carry them. The spec is built again when an axis appears only in pieces (a div
 * d, a mod d), with that axis split, so that reshapes leave affine indices. */
#include "spec/build.h"
#include <string.h>

#define MAX_ROUNDS 8 /* of splitting axes */

typedef struct ls_memo {
    const ls_tensor *node;
    int32_t ix[LS_MAX_RANK];
    int32_t guards; /* a list */
    bool absent;
    int32_t value;
} ls_memo;

/* ---- interned values ---- */
static bool value_equal(const ls_spec_builder *b, int32_t id, const void *key) {
    const ls_value *x = key, *y = &b->spec->values[id];
    return x->op == y->op && x->dtype == y->dtype && x->acc == y->acc && x->map == y->map &&
           x->exclusive == y->exclusive && x->reverse == y->reverse && x->a == y->a && x->b == y->b &&
           x->c == y->c && x->ix == y->ix && x->arg == y->arg && x->bits == y->bits &&
           x->n_bound == y->n_bound && memcmp(x->bound, y->bound, sizeof x->bound) == 0 &&
           x->first_pred == y->first_pred && x->n_preds == y->n_preds && x->limit == y->limit &&
           x->check == y->check;
}

static ls_value value_of_op(ls_value_op op, ls_dtype dtype, const ls_tensor *origin) {
    return (ls_value){.op = (uint8_t)op,
                      .dtype = (uint8_t)dtype,
                      .acc = (uint8_t)dtype,
                      .a = LS_SPEC_NONE,
                      .b = LS_SPEC_NONE,
                      .c = LS_SPEC_NONE,
                      .ix = LS_SPEC_NONE,
                      .arg = LS_SPEC_NONE,
                      .limit = LS_SPEC_NONE,
                      .check = LS_SPEC_NONE,
                      .origin = origin->serial};
}

static void value_set_preds(const ls_spec_builder *b, ls_value *v, int32_t list) {
    v->n_preds = b->lists[list].n;
    v->first_pred = v->n_preds ? b->lists[list].first : 0;
}

static uint64_t value_axes(const ls_spec_builder *b, const ls_value *v) {
    const ls_spec *spec = b->spec;
    uint64_t axes = 0, bound = 0;
    const int32_t operands[] = {v->a, v->b, v->c}, exprs[] = {v->ix, v->limit, v->check};
    for (int i = 0; i < 3; i++) {
        axes |= operands[i] >= 0 ? spec->values[operands[i]].axes : 0;
        axes |= exprs[i] >= 0 ? spec->ix[exprs[i]].axes : 0;
    }
    for (int i = 0; i < v->n_preds; i++) {
        axes |= spec->ix[spec->preds[v->first_pred + i].ix].axes;
    }
    for (int i = 0; i < v->n_bound; i++) {
        bound |= (uint64_t)1 << v->bound[i];
    }
    return v->op == LS_V_SCAN || v->op == LS_V_SORT ? axes | bound : axes & ~bound;
}

static int32_t value_add(ls_spec_builder *b, const ls_value *v) {
    ls_spec *spec = b->spec;
    if (b->status != LS_OK ||
        !ls_builder_grow(b, (void **)&spec->values, &b->cap_values, spec->n_values, sizeof(ls_value))) {
        return 0;
    }
    uint64_t hash = ls_hash_u64(
        (uint64_t)v->op << 48 | (uint64_t)v->dtype << 40 | (uint64_t)v->map << 16 | v->n_bound, v->bits);
    hash = ls_hash_u64((uint64_t)(uint32_t)v->a << 32 | (uint32_t)v->b, hash);
    hash = ls_hash_u64((uint64_t)(uint32_t)v->c << 32 | (uint32_t)v->ix, hash);
    hash = ls_hash_u64((uint64_t)(uint32_t)v->arg << 32 | (uint32_t)v->first_pred, hash);
    int32_t *slot = ls_id_table_slot(b, &b->value_table, hash, value_equal, v);
    if (!slot) {
        return 0;
    }
    if (!*slot) {
        spec->values[spec->n_values] = *v;
        spec->values[spec->n_values].axes = value_axes(b, v);
        *slot = ++spec->n_values;
    }
    return *slot - 1;
}

static int32_t value_const(ls_spec_builder *b, const ls_tensor *node, ls_dtype dtype, uint64_t bits) {
    ls_value v = value_of_op(LS_V_CONST, dtype, node);
    v.bits = bits;
    return value_add(b, &v);
}

/* A load under the predicates it would be guarded by is +0 where they fail, as the guard would be. */
static int32_t value_guard(ls_spec_builder *b, const ls_tensor *node, int32_t a, int32_t other,
                           int32_t list) {
    const ls_spec *spec = b->spec;
    if (b->status != LS_OK || b->lists[list].n == 0) {
        return a;
    }
    ls_value v = value_of_op(LS_V_GUARD, node->dtype, node);
    value_set_preds(b, &v, list);
    const ls_value *x = &spec->values[a];
    bool zero = other >= 0 && spec->values[other].op == LS_V_CONST && spec->values[other].bits == 0;
    if (a == other ||
        (zero && x->op == LS_V_LOAD && x->n_preds == v.n_preds && x->first_pred == v.first_pred)) {
        return a;
    }
    v.a = a;
    v.b = other;
    return value_add(b, &v);
}

/* ---- axes ---- */
/* Splitting made more axes than a spec can hold: it is built again without. */
static void too_fine(ls_spec_builder *b) {
    b->too_fine = true;
    ls_builder_fail(b, LS_ERR_UNSUPPORTED);
}

static int axis_new(ls_spec_builder *b, ls_dim extent, bool whole) {
    ls_spec *spec = b->spec;
    const ls_split *split = b->n_logical < LS_SPEC_MAX_AXES ? &b->splits[b->n_logical] : NULL;
    int64_t product = 1;
    for (int i = 0; split && i < split->count; i++) {
        product *= split->extent[i];
    }
    bool pieces = split && split->count && !whole && ls_dim_equal(extent, ls_dim_fixed(product));
    int count = pieces ? split->count : 1;
    if (!split || spec->n_axes + count > LS_SPEC_MAX_AXES) {
        too_fine(b);
        return 0;
    }
    b->logical[b->n_logical] = (ls_logical_axis){extent, spec->n_axes, count, whole};
    for (int i = 0; i < count; i++) {
        spec->extents_of_axes[spec->n_axes++] = pieces ? ls_dim_fixed(split->extent[i]) : extent;
    }
    return b->n_logical++;
}

static int32_t axis_index(ls_spec_builder *b, const ls_logical_axis *axis) {
    int32_t ix = ls_ix_const(b, 0);
    int64_t stride = 1;
    for (int i = axis->first + axis->count; i-- > axis->first;) {
        ix = ls_ix_add(b, ix, ls_ix_scale(b, ls_ix_axis(b, i), stride));
        stride *= ls_dim_bound(b->spec->extents_of_axes[i]);
    }
    return ix;
}

static uint64_t axis_bits(const ls_logical_axis *axis) {
    uint64_t ones = axis->count >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << axis->count) - 1;
    return ones << axis->first;
}

/* Axes to bind over an extent: some that exist, mean nothing in `used`, and so can share values, be they a piece of what was split; else new ones. */
static ls_logical_axis axes_to_bind(ls_spec_builder *b, ls_dim extent, uint64_t used) {
    for (int i = 0; i < b->n_logical; i++) {
        const ls_logical_axis *axis = &b->logical[i];
        if (ls_dim_equal(axis->extent, extent) && !(axis_bits(axis) & used)) {
            return *axis;
        }
        for (int a = axis->first; a < axis->first + axis->count && axis->count > 1; a++) {
            if (ls_dim_equal(b->spec->extents_of_axes[a], extent) && !(used >> a & 1)) {
                return (ls_logical_axis){extent, a, 1, false};
            }
        }
    }
    return b->logical[axis_new(b, extent, false)];
}

static uint64_t tuple_axes(const ls_spec_builder *b, const int32_t *ix, int rank) {
    uint64_t axes = 0;
    for (int i = 0; i < rank; i++) {
        axes |= b->spec->ix[ix[i]].axes;
    }
    return axes;
}

/* ---- values by operation ---- */
static int32_t value_at(ls_spec_builder *b, const ls_tensor *x, const int32_t *ix, int32_t guards,
                        bool absent);

static int arg_of(const ls_spec_builder *b, const ls_tensor *x) {
    for (int i = 0; i < b->group->n_reads; i++) {
        if (b->group->reads[i] == x) {
            return i;
        }
    }
    return LS_SPEC_NONE;
}

static int32_t value_load(ls_spec_builder *b, const ls_tensor *x, int arg, const int32_t *ix,
                          int32_t guards) {
    ls_value v = value_of_op(LS_V_LOAD, x->dtype, x);
    if (b->spec->args[arg].numel == 0) { /* then nothing is ever read here */
        return value_const(b, x, x->dtype, 0);
    }
    v.arg = arg;
    v.ix = ls_ix_element(b, &x->shape, ix);
    value_set_preds(b, &v, guards);
    return value_add(b, &v);
}

/* An index as a value of any dtype: floats by one rounding from i64. */
static int32_t value_index(ls_spec_builder *b, const ls_tensor *x, int32_t ix) {
    if (b->spec->ix[ix].op == LS_IX_CONST) {
        return value_const(b, x, x->dtype, ls_value_from_i64(x->dtype, b->spec->ix[ix].k));
    }
    ls_value v = value_of_op(LS_V_INDEX, ls_dtype_is_float(x->dtype) ? LS_I64 : x->dtype, x);
    v.ix = ix;
    int32_t index = value_add(b, &v);
    if (!ls_dtype_is_float(x->dtype)) {
        return index;
    }
    v = value_of_op(LS_V_MAP, x->dtype, x);
    v.map = LS_OP_CAST;
    v.a = index;
    return value_add(b, &v);
}

static int32_t leaf_at(ls_spec_builder *b, const ls_tensor *x, const int32_t *ix, int32_t guards,
                       bool absent) {
    (void)guards, (void)absent;
    if (x->op == LS_OP_CONST) {
        return value_const(b, x, x->dtype, x->attr.value);
    }
    if (x->op == LS_OP_IOTA) {
        return value_index(b, x, ix[x->attr.axis.axis]);
    }
    if (x->op == LS_OP_DIM) {
        return value_index(b, x, ls_ix_dim(b, x->attr.dim));
    }
    ls_builder_fail(
        b, LS_FAIL(b->err, LS_ERR_INTERNAL, "spec: %s is not among the group's reads", ls_ops[x->op].name));
    return 0;
}

static int32_t map_at(ls_spec_builder *b, const ls_tensor *x, const int32_t *ix, int32_t guards,
                      bool absent) {
    (void)absent;
    ls_value v = value_of_op(LS_V_MAP, x->dtype, x);
    int32_t *operands[] = {&v.a, &v.b, &v.c};
    v.map = (uint16_t)x->op;
    for (int i = 0; i < x->n_src; i++) {
        *operands[i] = value_at(b, x->src[i], ix, guards, false);
    }
    return value_add(b, &v);
}

static int32_t move_at(ls_spec_builder *b, const ls_tensor *x, const int32_t *ix, int32_t guards,
                       bool absent) {
    int32_t from[LS_MAX_RANK], other = LS_SPEC_NONE;
    bool none = true; /* no operand covers this so far */
    ls_guard guard;
    if (x->op == LS_OP_PAD) {
        if (!x->attr.pad.absent || !absent) {
            other = value_const(b, x, x->dtype, x->attr.pad.absent ? 0 : x->attr.pad.value);
        }
        none = false;
    }
    for (int i = x->n_src; i-- > 0;) {
        ls_move_index(b, x, i, ix, from, &guard);
        if (guard.never) {
            continue;
        }
        int32_t own = ls_guards_and(b, LS_NO_GUARDS, &guard);
        int32_t value = value_at(b, x->src[i], from, ls_guards_and(b, guards, &guard), absent);
        other = none ? value : value_guard(b, x, value, other, own);
        none = false;
    }
    if (other == LS_SPEC_NONE) { /* nothing but absent elements, or no elements at all */
        guard = (ls_guard){.n = none ? 0 : 1, .pred = {{ls_ix_const(b, -1), ls_ix_const(b, 1), 0}}};
        other =
            value_guard(b, x, value_const(b, x, x->dtype, 0), LS_SPEC_NONE, ls_guards_and(b, LS_NO_GUARDS, &guard));
    }
    return other;
}

/* Binds an axis to each of the listed dims of a shape, in the order of the dims, and lists them in the
 * listed order. */
static void bind_axes(ls_spec_builder *b, const ls_shape *shape, const int *dims, int count, uint64_t used,
                      int32_t *ix, ls_value *v) {
    ls_logical_axis axes[LS_MAX_RANK] = {0};
    for (int i = 0; i < shape->rank; i++) {
        for (int j = 0; j < count; j++) {
            if (dims[j] == i) {
                axes[j] = axes_to_bind(b, shape->dim[i], used);
                used |= axis_bits(&axes[j]);
                ix[i] = axis_index(b, &axes[j]);
            }
        }
    }
    for (int j = 0; j < count; j++) {
        for (int k = 0; k < axes[j].count; k++) {
            if (v->n_bound == LS_MAX_RANK) {
                too_fine(b);
                return;
            }
            v->bound[v->n_bound++] = (uint8_t)(axes[j].first + k);
        }
    }
}

static int32_t reduce_at(ls_spec_builder *b, const ls_tensor *x, const int32_t *ix, int32_t guards,
                         bool absent) {
    (void)absent;
    const ls_tensor *src = x->src[0];
    ls_value v = value_of_op(LS_V_REDUCE, x->dtype, x);
    int32_t from[LS_MAX_RANK] = {0};
    int kept = 0;
    uint64_t used = tuple_axes(b, ix, x->shape.rank) | b->lists[guards].axes;
    bind_axes(b, &src->shape, x->attr.axes.axes, x->attr.axes.count, used, from, &v);
    for (int i = 0; i < src->shape.rank; i++) {
        bool reduced = false;
        for (int j = 0; j < x->attr.axes.count; j++) {
            reduced |= x->attr.axes.axes[j] == i;
        }
        if (!reduced) {
            from[i] = ix[kept++];
        }
    }
    bool sums = x->op == LS_OP_SUM || x->op == LS_OP_PROD;
    v.map = (uint16_t)x->op;
    v.acc = (uint8_t)(sums ? ls_dtype_accumulator(src->dtype, false) : src->dtype);
    v.a = value_at(b, src, from, guards, true);
    return value_add(b, &v);
}

static int32_t contract_at(ls_spec_builder *b, const ls_tensor *x, const int32_t *ix, int32_t guards,
                           bool absent) {
    (void)absent;
    const ls_contract_spec *c = &x->attr.contract;
    ls_value v = value_of_op(LS_V_CONTRACT, x->dtype, x);
    int32_t at[2][LS_MAX_RANK], *operands[] = {&v.a, &v.b};
    const int *batch[] = {c->batch_a, c->batch_b}, *contracted[] = {c->contract_a, c->contract_b};
    uint64_t used = tuple_axes(b, ix, x->shape.rank) | b->lists[guards].axes;
    bind_axes(b, &x->src[0]->shape, c->contract_a, c->n_contract, used, at[0], &v);
    int next = c->n_batch;
    for (int side = 0; side < 2; side++) {
        for (int i = 0; i < x->src[side]->shape.rank; i++) {
            int32_t from = LS_SPEC_NONE;
            for (int j = 0; j < c->n_batch; j++) {
                from = batch[side][j] == i ? ix[j] : from;
            }
            for (int j = 0; j < c->n_contract; j++) {
                from = contracted[side][j] == i ? at[0][c->contract_a[j]] : from;
            }
            at[side][i] = from == LS_SPEC_NONE ? ix[next++] : from;
        }
    }
    v.acc = (uint8_t)ls_dtype_accumulator(x->src[0]->dtype, true);
    for (int side = 0; side < 2; side++) {
        *operands[side] = value_at(b, x->src[side], at[side], guards, true);
    }
    return value_add(b, &v);
}

/* The one axis of the spec that an index is. */
static bool index_axis(ls_spec_builder *b, int32_t ix, uint8_t *out_axis) {
    if (b->spec->ix[ix].op != LS_IX_AXIS) {
        ls_builder_fail(b,
                        LS_FAIL(b->err, LS_ERR_INTERNAL, "spec: a scan or sort along what is not an axis"));
        return false;
    }
    *out_axis = (uint8_t)b->spec->ix[ix].a;
    return true;
}

static int32_t along_at(ls_spec_builder *b, const ls_tensor *x, const int32_t *ix, int32_t guards,
                        bool absent) {
    (void)absent;
    bool sort = x->op == LS_OP_ARGSORT;
    const ls_attr_axis *attr = &x->attr.axis;
    ls_value v = value_of_op(sort ? LS_V_SORT : LS_V_SCAN, x->dtype, x);
    v.map = (uint16_t)attr->kind;
    v.exclusive = (uint8_t)attr->exclusive;
    v.reverse = (uint8_t)attr->reverse;
    v.n_bound = 1;
    int32_t one = ls_ix_const(b, 0);
    if (ix[attr->axis] == one) { /* an extent of 1: its axis is the one kept whole */
        int i = 0;
        while (i < b->n_logical && !b->logical[i].whole) {
            i++;
        }
        v.bound[0] = (uint8_t)(i < b->n_logical ? b->logical[i].first : 0);
    } else if (!index_axis(b, ix[attr->axis], &v.bound[0])) {
        return 0;
    }
    if (!sort) {
        bool sums = attr->kind == LS_SCAN_SUM || attr->kind == LS_SCAN_PROD;
        v.acc = (uint8_t)(sums ? ls_dtype_accumulator(x->dtype, false) : x->dtype);
    }
    v.a = value_at(b, x->src[0], ix, guards, false);
    return value_add(b, &v);
}

/* The position that an index tensor gives, as an index expression. */
static int32_t indexed(ls_spec_builder *b, const ls_tensor *index, const int32_t *ix, int32_t guards) {
    int32_t value = value_at(b, index, ix, guards, false);
    return b->status == LS_OK ? ls_ix_value(b, value) : 0;
}

static int32_t gather_at(ls_spec_builder *b, const ls_tensor *x, const int32_t *ix, int32_t guards,
                         bool absent) {
    (void)absent;
    const ls_tensor *src = x->src[0], *index = x->src[1];
    int axis = x->attr.axis.axis, arg;
    int32_t from[LS_MAX_RANK], below[LS_MAX_RANK];
    for (int i = 0; i < src->shape.rank; i++) {
        from[i] = i < axis    ? ix[i]
                  : i == axis ? indexed(b, index, ix + axis, guards)
                              : ix[i - 1 + index->shape.rank];
    }
    int32_t check = from[axis], limit = ls_ix_dim(b, src->shape.dim[axis]);
    ls_guard guard;
    while ((arg = arg_of(b, src)) < 0 && b->status == LS_OK) {
        if (ls_ops[src->op].op_class != LS_CLASS_MOVE || src->n_src != 1) {
            ls_builder_fail(b, LS_FAIL(b->err, LS_ERR_INTERNAL,
                                       "spec: gather from %s, which is not in memory", ls_ops[src->op].name));
            return 0;
        }
        ls_move_index(b, src, 0, from, below, &guard);
        memcpy(from, below, sizeof from);
        src = src->src[0];
    }
    ls_value v = value_of_op(LS_V_LOAD, x->dtype, x);
    v.arg = arg;
    v.ix = ls_ix_element(b, &src->shape, from);
    v.check = check;
    v.limit = limit;
    value_set_preds(b, &v, guards);
    return value_add(b, &v);
}

static int32_t random_at(ls_spec_builder *b, const ls_tensor *x, const int32_t *ix, int32_t guards,
                         bool absent) {
    (void)absent;
    ls_value v = value_of_op(LS_V_RANDOM, x->dtype, x);
    int32_t word = ls_ix_const(b, 0);
    v.a = value_at(b, x->src[0], &word, guards, false);
    word = ls_ix_const(b, 1);
    v.b = value_at(b, x->src[0], &word, guards, false);
    v.ix = ls_ix_position(b, &x->shape, ix);
    return value_add(b, &v);
}

typedef int32_t (*class_fn)(ls_spec_builder *b, const ls_tensor *x, const int32_t *ix, int32_t guards,
                            bool absent);
static const class_fn classes[] = {
    [LS_CLASS_LEAF] = leaf_at,  [LS_CLASS_MAP] = map_at,           [LS_CLASS_REDUCE] = reduce_at,
    [LS_CLASS_SCAN] = along_at, [LS_CLASS_MOVE] = move_at,         [LS_CLASS_GATHER] = gather_at,
    [LS_CLASS_SORT] = along_at, [LS_CLASS_CONTRACT] = contract_at, [LS_CLASS_RANDOM] = random_at,
    [LS_CLASS_LOOP] = NULL,
};

/* Movement with absent elements that is in memory, where those are +0: the padding on the way says which they are. */
static int32_t holes_at(ls_spec_builder *b, const ls_tensor *x, int arg, const int32_t *ix, int32_t guards) {
    int32_t at[LS_MAX_RANK], below[LS_MAX_RANK], list = LS_NO_GUARDS;
    ls_guard guard;
    memcpy(at, ix, sizeof *ix * (size_t)x->shape.rank);
    for (const ls_tensor *y = x; ls_ops[y->op].op_class == LS_CLASS_MOVE && y->n_src == 1; y = y->src[0]) {
        ls_move_index(b, y, 0, at, below, &guard);
        if (guard.never) {
            guard = (ls_guard){.n = 1, .pred = {{ls_ix_const(b, -1), ls_ix_const(b, 1), 0}}};
        }
        if (y->op == LS_OP_PAD && y->attr.pad.absent) {
            list = ls_guards_and(b, list, &guard);
        }
        memcpy(at, below, sizeof *at * (size_t)y->src[0]->shape.rank);
    }
    return value_guard(b, x, value_load(b, x, arg, ix, guards), LS_SPEC_NONE, list);
}

static bool memo_equal(const ls_spec_builder *b, int32_t id, const void *key) {
    const ls_memo *x = key, *y = &b->memo[id];
    return x->node == y->node && x->guards == y->guards && x->absent == y->absent &&
           memcmp(x->ix, y->ix, sizeof x->ix) == 0;
}

/* The value of x at an index tuple, where the guards hold. `absent`: the reader skips absent elements. */
static int32_t value_at(ls_spec_builder *b, const ls_tensor *x, const int32_t *ix, int32_t guards,
                        bool absent) {
    ls_op_class class = ls_ops[x->op].op_class;
    bool moves = class == LS_CLASS_MOVE;
    if (b->status != LS_OK) {
        return 0;
    }
    int arg = arg_of(b, x);
    bool holes = arg >= 0 && moves && absent && ls_plan_has_absent(x);
    if (arg >= 0 && (!holes || ls_plan_tells_absent(x))) {
        return holes ? holes_at(b, x, arg, ix, guards) : value_load(b, x, arg, ix, guards);
    }
    ls_memo memo = {.node = x, .guards = guards, .absent = moves && absent};
    memcpy(memo.ix, ix, sizeof *ix * (size_t)x->shape.rank);
    uint64_t hash = ls_hash(memo.ix, sizeof memo.ix,
                            ls_hash_u64((uint64_t)(uintptr_t)x, (uint64_t)(guards * 2 + memo.absent)));
    if (!ls_builder_grow(b, (void **)&b->memo, &b->cap_memo, b->n_memo, sizeof(ls_memo))) {
        return 0;
    }
    int32_t *slot = ls_id_table_slot(b, &b->memo_table, hash, memo_equal, &memo);
    if (!slot) {
        return 0;
    }
    if (*slot) {
        return b->memo[*slot - 1].value;
    }
    b->memo_table.len--; /* taken again below: building the value moves the table */
    class_fn fn = class < sizeof classes / sizeof *classes ? classes[class] : NULL;
    if (!fn) {
        ls_builder_fail(b, LS_FAIL(b->err, LS_ERR_INTERNAL, "spec: %s inside a kernel", ls_ops[x->op].name));
        return 0;
    }
    memo.value = fn(b, x, ix, guards, absent);
    if (b->status == LS_OK &&
        ls_builder_grow(b, (void **)&b->memo, &b->cap_memo, b->n_memo, sizeof(ls_memo)) &&
        (slot = ls_id_table_slot(b, &b->memo_table, hash, memo_equal, &memo))) {
        b->memo[b->n_memo] = memo;
        *slot = ++b->n_memo;
    }
    return memo.value;
}

/* ---- stores ---- */
static void store_add(ls_spec_builder *b, ls_store *store, const int *logical, int count) {
    ls_spec *spec = b->spec;
    for (int i = 0; i < count; i++) {
        const ls_logical_axis *axis = &b->logical[logical[i]];
        for (int k = 0; k < axis->count; k++) {
            bool one = !axis->whole && ls_dim_equal(spec->extents_of_axes[axis->first + k], ls_dim_fixed(1));
            if (!one && store->n_axes == (int)sizeof store->axes) {
                too_fine(b);
                return;
            }
            if (!one) {
                store->axes[store->n_axes++] = (uint8_t)(axis->first + k);
            }
        }
    }
    spec->stores[spec->n_stores++] = *store;
}

/* The space of a shape: an axis for each extent that is not 1, unless it is `whole`. */
static int space_axes(ls_spec_builder *b, const ls_shape *shape, int whole, int32_t *ix, int *logical) {
    int count = 0;
    for (int i = 0; i < shape->rank; i++) {
        ix[i] = ls_ix_const(b, 0);
        if (i == whole || !ls_dim_equal(shape->dim[i], ls_dim_fixed(1))) {
            logical[count] = axis_new(b, shape->dim[i], i == whole);
            ix[i] = axis_index(b, &b->logical[logical[count++]]);
        }
    }
    return count;
}

static void build_scatter(ls_spec_builder *b, const ls_tensor *root, int arg) {
    const ls_tensor *base = root->src[0], *index = root->src[1], *updates = root->src[2];
    int32_t ix[LS_MAX_RANK], to[LS_MAX_RANK];
    int logical[LS_MAX_RANK], axis = root->attr.axis.axis,
                              count = space_axes(b, &root->shape, -1, ix, logical);
    ls_store store = {.arg = arg, .check = LS_SPEC_NONE, .limit = LS_SPEC_NONE, .origin = root->serial};
    store.ix = ls_ix_element(b, &root->shape, ix);
    store.value = value_at(b, base, ix, LS_NO_GUARDS, false);
    store_add(b, &store, logical, count);
    count = space_axes(b, &updates->shape, -1, ix, logical);
    for (int i = 0; i < root->shape.rank; i++) {
        to[i] = i < axis    ? ix[i]
                : i == axis ? indexed(b, index, ix + axis, LS_NO_GUARDS)
                            : ix[i - 1 + index->shape.rank];
    }
    store.n_axes = 0;
    store.ix = ls_ix_element(b, &root->shape, to);
    store.value = value_at(b, updates, ix, LS_NO_GUARDS, false);
    store.combine = (ls_combine)root->attr.axis.kind;
    store.check = to[axis];
    store.limit = ls_ix_dim(b, root->shape.dim[axis]);
    store_add(b, &store, logical, count);
}

static void build_stores(ls_spec_builder *b) {
    const ls_group *group = b->group;
    const ls_tensor *first = group->roots[0];
    if (group->kind == LS_GROUP_SCATTER) {
        build_scatter(b, first, group->n_reads);
        return;
    }
    int32_t ix[LS_MAX_RANK];
    int logical[LS_MAX_RANK];
    bool along = group->kind == LS_GROUP_SCAN || group->kind == LS_GROUP_SORT;
    int count = space_axes(b, &first->shape, along ? first->attr.axis.axis : -1, ix, logical);
    for (int i = 0; i < group->n_roots; i++) {
        const ls_tensor *root = group->roots[i];
        ls_store store = {
            .arg = group->n_reads + i, .check = LS_SPEC_NONE, .limit = LS_SPEC_NONE, .origin = root->serial};
        store.ix = ls_ix_element(b, &root->shape, ix);
        store.value = value_at(b, root, ix, LS_NO_GUARDS, false);
        store_add(b, &store, logical, count);
    }
}

/* ---- splitting ---- */
/* Splits the axes that appear as a div d or a mod d, where d divides the extent; false when there is none. */
static bool find_splits(const ls_spec_builder *b, ls_split *splits) {
    const ls_spec *spec = b->spec;
    bool found = false;
    for (int i = 0; i < spec->n_ix; i++) {
        const ls_ix *x = &spec->ix[i];
        if ((x->op != LS_IX_DIV && x->op != LS_IX_MOD) || spec->ix[x->b].op != LS_IX_CONST ||
            spec->ix[x->a].op != LS_IX_AXIS) {
            continue;
        }
        int axis = spec->ix[x->a].a, logical = 0;
        int64_t d = spec->ix[x->b].k, extent = ls_dim_bound(spec->extents_of_axes[axis]);
        while (logical < b->n_logical && b->logical[logical].first + b->logical[logical].count <= axis) {
            logical++;
        }
        const ls_logical_axis *whole = &b->logical[logical];
        ls_split *split = &splits[logical];
        if (logical == b->n_logical || whole->whole || !ls_dim_is_fixed(whole->extent) || d <= 1 ||
            extent % d || extent <= d || whole->count == LS_MAX_RANK ||
            split->count != (whole->count == 1 ? 0 : whole->count)) {
            continue;
        }
        if (!split->count) {
            split->count = 1;
            split->extent[0] = whole->extent.offset;
        }
        int piece = axis - whole->first;
        memmove(&split->extent[piece + 1], &split->extent[piece],
                sizeof(int64_t) * (size_t)(split->count - piece));
        split->extent[piece] = extent / d;
        split->extent[piece + 1] = d;
        split->count++;
        found = true;
    }
    return found;
}

static ls_status build_once(ls_spec_builder *b) {
    const ls_group *group = b->group;
    ls_spec *spec = b->spec;
    *spec = (ls_spec){
        .kind = group->kind, .math = group->roots[0]->math, .n_args = group->n_reads + group->n_roots};
    spec->extents_of_axes = LS_ARENA_ARRAY(b->arena, ls_dim, LS_SPEC_MAX_AXES);
    spec->stores = LS_ARENA_ARRAY(b->arena, ls_store, group->n_roots + 1);
    spec->args = LS_ARENA_ARRAY(b->arena, ls_spec_arg, spec->n_args);
    spec->values = LS_ARENA_ARRAY(b->arena, ls_value, 16);
    spec->ix = LS_ARENA_ARRAY(b->arena, ls_ix, 16);
    b->lists = LS_ARENA_ARRAY(b->arena, ls_pred_list, 16);
    b->cap_values = b->cap_ix = b->cap_lists = 16;
    if (!spec->extents_of_axes || !spec->stores || !spec->args || !spec->values || !spec->ix || !b->lists) {
        return LS_FAIL_MEMORY(b->err, "a kernel's spec");
    }
    for (int i = 0; i < spec->n_args; i++) {
        const ls_tensor *x = i < group->n_reads ? group->reads[i] : group->roots[i - group->n_reads];
        spec->args[i] = (ls_spec_arg){x->dtype, ls_shape_numel(&x->shape, NULL), i >= group->n_reads};
    }
    ls_ix_const(b, 0);
    ls_guards_begin(b);
    build_stores(b);
    return b->status;
}

/* Builds until no axis has to be split. */
static ls_status build_rounds(ls_arena *arena, const ls_group *group, ls_spec *out_spec, ls_error *err) {
    ls_split *splits = LS_ARENA_ARRAY(arena, ls_split, LS_SPEC_MAX_AXES);
    if (!splits) {
        return LS_FAIL_MEMORY(err, "a kernel's spec");
    }
    for (int round = 0; round <= MAX_ROUNDS; round++) {
        ls_spec_builder b = {.arena = arena, .err = err, .group = group, .spec = out_spec, .splits = splits};
        ls_status status = build_once(&b);
        if (b.too_fine && round > 0 && round < MAX_ROUNDS) {
            memset(splits, 0, sizeof *splits * LS_SPEC_MAX_AXES);
            round = MAX_ROUNDS - 1;
            continue;
        }
        if (b.too_fine) {
            return LS_FAIL(err, LS_ERR_UNSUPPORTED, "a kernel needs over %d axes", LS_SPEC_MAX_AXES);
        }
        LS_TRY(err, status);
        LS_TRY(err, ls_spec_finish(arena, out_spec, err));
        if (round == MAX_ROUNDS || !find_splits(&b, splits)) {
            break;
        }
    }
    return ls_spec_verify(out_spec, err);
}

ls_status ls_spec_build(ls_arena *arena, const ls_group *group, ls_spec *out_spec, ls_error *err) {
    if (group->kind == LS_GROUP_LOOP || group->kind == LS_GROUP_COPY || group->n_roots < 1) {
        return LS_FAIL(err, LS_ERR_INVALID, "spec: a group that is no kernel");
    }
    ls_arena scratch;
    ls_spec built;
    ls_arena_init(&scratch, arena->heap);
    ls_status status = build_rounds(&scratch, group, &built, err);
    if (status == LS_OK) {
        status = ls_spec_copy(arena, &built, out_spec, err);
    }
    ls_arena_free(&scratch);
    return status;
}
