/* ONNX: reading and writing by index, one-hot, the k best, and what is found by looking at numbers. ONNX counts negative
 * indices from the end; Lockstep's gathers and scatters do not, so they are made positive here. */
#include "io/onnx/extent.h"
#include "io/onnx/moved.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- indices ---- */

/* index + extents where negative; `extents` broadcasts to it. */
static ls_tensor *positive(ls_onnx_node *n, ls_tensor *index, ls_tensor *extents) {
    ls_tensor *zero = index ? ls_full_i64(n->s, ls_tensor_dtype(index), LS_SCALAR, 0) : NULL;
    return zero ? ls_where(n->s, ls_lt(n->s, index, zero), ls_add(n->s, index, extents), index) : NULL;
}

/* Known indices along an axis whose extent has a symbol: the values for which all of them are there. */
static ls_status known_index(ls_onnx_node *n, int i, ls_dim extent) {
    int64_t *list, least = 0;
    int count;
    bool fits = true;
    LS_TRY(n->err, ls_onnx_ints(n, i, &list, &count));
    for (int k = 0; k < count; k++) { /* -1 needs one element, as 0 does */
        int64_t needs = list[k] < 0 ? (list[k] == INT64_MIN ? INT64_MAX : -list[k]) : list[k] + (list[k] < INT64_MAX);
        least = needs > least ? needs : least;
    }
    LS_TRY(n->err, ls_onnx_at_least(n, extent, ls_dim_of(least), &fits));
    return fits ? LS_OK : ls_onnx_fail(n, LS_ERR_RANGE, "an index needs an extent of %" PRId64 " or more", least);
}

/* Operand i, indices along an axis of an extent. Those that are known are checked here. */
static ls_status read_index(ls_onnx_node *n, int i, ls_dim extent, ls_tensor **out_index) {
    *out_index = ls_onnx_in(n, i);
    if (!*out_index) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (n->in[i]->known && extent.symbol) {
        LS_TRY(n->err, known_index(n, i, extent));
    }
    if (!n->in[i]->known || extent.symbol) {
        *out_index = positive(n, *out_index, ls_cast(n->s, ls_onnx_extent_tensor(n, extent), ls_tensor_dtype(*out_index)));
        return *out_index ? LS_OK : ls_onnx_out(n, 0, NULL);
    }
    int64_t *list, dims[LS_MAX_RANK];
    int count;
    bool any = false;
    LS_TRY(n->err, ls_onnx_ints(n, i, &list, &count));
    for (int k = 0; k < count; k++) {
        if (list[k] < -extent.offset || list[k] >= extent.offset) {
            return ls_onnx_fail(n, LS_ERR_RANGE, "index %" PRId64 " of extent %" PRId64, list[k], extent.offset);
        }
        any |= list[k] < 0;
        list[k] += list[k] < 0 ? extent.offset : 0;
    }
    if (any) {
        int rank = ls_onnx_dims(*out_index, dims);
        *out_index = ls_onnx_indices(n, rank, dims, list);
    }
    return *out_index ? LS_OK : ls_onnx_out(n, 0, NULL);
}

/* One known index: no need to look it up, it is a part of x. */
static ls_status gather_one(ls_onnx_node *n, ls_tensor *x, int axis, const ls_shape *parts) {
    ls_dim *at, extent = ls_tensor_shape(x).dim[axis];
    int count;
    bool front, low, high;
    LS_TRY(n->err, ls_onnx_extents(n, 1, &at, &count));
    LS_TRY(n->err, ls_onnx_at_least(n, *at, ls_dim_of(0), &front));
    if (!front && !ls_onnx_plus(*at, extent, at)) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "an index that is no multiple of a symbol plus a number");
    }
    LS_TRY(n->err, ls_onnx_at_least(n, *at, ls_dim_of(0), &low));
    LS_TRY(n->err, ls_onnx_at_least(n, *at, extent, &high));
    if (!low || high) {
        return ls_onnx_fail(n, LS_ERR_RANGE, "index %" PRId64 " of extent %" PRId64, at->offset - (front ? 0 : extent.offset), extent.offset);
    }
    ls_tensor *part = ls_onnx_part(n, x, axis, *at, ls_dim_of(1));
    return ls_onnx_moved_out(n, 0, part ? ls_reshape(n->s, part, *parts) : NULL, 0);
}

static ls_status gather(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0), *index = ls_onnx_in(n, 1);
    int axis;
    if (!x || !index) {
        return ls_onnx_out(n, 0, NULL);
    }
    const ls_shape from = ls_tensor_shape(x), of_index = ls_tensor_shape(index);
    ls_shape parts = {.rank = from.rank - 1 + of_index.rank};
    LS_TRY(n->err, ls_onnx_axis(n, ls_onnx_attr_int(n, "axis", 0), from.rank, &axis));
    bool one = (n->in[1]->known || n->in[1]->extents) && parts.rank <= LS_MAX_RANK;
    for (int i = 0; i < of_index.rank; i++) {
        one = one && ls_onnx_same(of_index.dim[i], ls_dim_of(1));
    }
    if (one) {
        for (int i = 0; i < parts.rank; i++) {
            bool old = i < axis || i >= axis + of_index.rank;
            parts.dim[i] = old ? from.dim[i < axis ? i : i - of_index.rank + 1] : ls_dim_of(1);
        }
        return gather_one(n, x, axis, &parts);
    }
    LS_TRY(n->err, read_index(n, 1, from.dim[axis], &index));
    return ls_onnx_moved_out(n, 0, ls_gather(n->s, x, index, axis), 0);
}

static ls_status gather_elements(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0), *index;
    int64_t dims[LS_MAX_RANK];
    int axis;
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, ls_onnx_axis(n, ls_onnx_attr_int(n, "axis", 0), ls_onnx_dims(x, dims), &axis));
    LS_TRY(n->err, read_index(n, 1, ls_tensor_shape(x).dim[axis], &index));
    return ls_onnx_moved_out(n, 0, ls_take_along(n->s, x, index, axis), 0);
}

/* Operand i, vectors of indices of x's axes from `first` on. */
static ls_tensor *read_vectors(ls_onnx_node *n, int i, ls_tensor *x, int64_t first) {
    ls_tensor *index = ls_onnx_in(n, i);
    int64_t dims[LS_MAX_RANK], of_index[LS_MAX_RANK];
    int rank = index ? ls_onnx_dims(index, of_index) : 0, axes = x ? ls_onnx_dims(x, dims) : 0;
    if (rank == 0 || first < 0 || first + of_index[rank - 1] > axes) {
        return index; /* ls_gather_nd and ls_scatter_nd say what is wrong */
    }
    return positive(n, index, ls_onnx_list(n, ls_tensor_dtype(index), (int)of_index[rank - 1], dims + first));
}

static ls_status gather_nd(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0);
    int64_t batch = ls_onnx_attr_int(n, "batch_dims", 0);
    if (batch < 0 || batch > LS_MAX_RANK) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "batch_dims %" PRId64, batch);
    }
    ls_tensor *index = read_vectors(n, 1, x, batch);
    return ls_onnx_moved_out(n, 0, x && index ? ls_gather_nd(n->s, x, index, (int)batch) : NULL, 0);
}

static ls_status scatter_kind(ls_onnx_node *n, ls_scatter_kind *out_kind) {
    static const char *const names[] = {"none", "add", "mul", "min", "max"};
    const char *name = ls_onnx_attr_string(n, "reduction", "none");
    for (int i = 0; i < 5; i++) {
        if (!strcmp(name, names[i])) {
            *out_kind = (ls_scatter_kind)i;
            return LS_OK;
        }
    }
    return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "reduction \"%s\"", name);
}

static ls_status scatter_elements(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0), *updates = ls_onnx_moved_in(n, 2), *index;
    int64_t dims[LS_MAX_RANK];
    int axis;
    ls_scatter_kind kind;
    if (!x || !updates) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, scatter_kind(n, &kind));
    LS_TRY(n->err, ls_onnx_axis(n, ls_onnx_attr_int(n, "axis", 0), ls_onnx_dims(x, dims), &axis));
    LS_TRY(n->err, read_index(n, 1, ls_tensor_shape(x).dim[axis], &index));
    return ls_onnx_moved_out(n, 0, ls_put_along(n->s, x, index, updates, axis, kind), 0);
}

static ls_status scatter_nd(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0), *updates = ls_onnx_moved_in(n, 2);
    ls_scatter_kind kind;
    LS_TRY(n->err, scatter_kind(n, &kind));
    ls_tensor *index = read_vectors(n, 1, x, 0);
    return ls_onnx_moved_out(n, 0, x && updates && index ? ls_scatter_nd(n->s, x, index, updates, kind) : NULL, 0);
}

/* Each batch's update goes in at its own place along the axis. */
static ls_status tensor_scatter(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_moved_in(n, 0), *update = ls_onnx_moved_in(n, 1);
    const char *mode = ls_onnx_attr_string(n, "mode", "linear");
    int64_t dims[LS_MAX_RANK], part[LS_MAX_RANK], starts[LS_MAX_RANK];
    int axis;
    if (!x || !update) {
        return ls_onnx_out(n, 0, NULL);
    }
    int rank = ls_onnx_dims(x, dims);
    LS_TRY(n->err, ls_onnx_axis(n, ls_onnx_attr_int(n, "axis", -2), rank, &axis));
    if (axis == 0 || ls_onnx_dims(update, part) != rank) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "axis %d of rank %d: expected another than the first, and an update of the same rank", axis, rank);
    }
    if (strcmp(mode, "linear") != 0 && strcmp(mode, "circular") != 0) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "mode \"%s\": expected linear or circular", mode);
    }
    ls_tensor *at = ls_iota(n->s, LS_I64, ls_shape_make(rank, part), axis);
    if (ls_onnx_has(n, 2)) {
        for (int i = 0; i < rank; i++) {
            starts[i] = i ? 1 : part[0];
        }
        ls_tensor *start = ls_onnx_in(n, 2);
        start = start ? ls_onnx_shaped(n, ls_cast(n->s, start, LS_I64), rank, starts) : NULL;
        at = start ? ls_add(n->s, at, start) : NULL;
    }
    if (at && mode[0] == 'c') {
        at = ls_rem(n->s, at, ls_full_i64(n->s, LS_I64, LS_SCALAR, dims[axis]));
    }
    return ls_onnx_moved_out(n, 0, at ? ls_put_along(n->s, x, at, update, axis, LS_SCATTER_SET) : NULL, 0);
}

/* ---- one-hot and the best ---- */

static ls_status one_hot(ls_onnx_node *n) {
    ls_tensor *index = ls_onnx_in(n, 0), *values = ls_onnx_moved_in(n, 2);
    int64_t dims[LS_MAX_RANK], shape[LS_MAX_RANK], depth;
    int axis;
    if (!index || !values) {
        return ls_onnx_out(n, 0, NULL);
    }
    int rank = ls_onnx_dims(index, dims);
    double real;
    if (ls_onnx_carrier(ls_onnx_in_type(n, 1)) >= LS_F16) {
        LS_TRY(n->err, ls_onnx_float(n, 1, 0, &real));
        depth = real >= 0 && real < 1e15 ? (int64_t)real : -1;
    } else {
        LS_TRY(n->err, ls_onnx_int(n, 1, 0, &depth));
    }
    if (rank == LS_MAX_RANK || depth < 0) {
        return ls_onnx_fail(n, depth < 0 ? LS_ERR_INVALID : LS_ERR_UNSUPPORTED, "depth %" PRId64 " for indices of rank %d", depth, rank);
    }
    LS_TRY(n->err, ls_onnx_axis(n, ls_onnx_attr_int(n, "axis", -1), rank + 1, &axis));
    for (int i = 0; i <= rank; i++) {
        shape[i] = i == axis ? depth : dims[i - (i > axis)];
    }
    ls_tensor *at = positive(n, ls_cast(n->s, index, LS_I64), ls_full_i64(n->s, LS_I64, LS_SCALAR, depth));
    ls_tensor *hit = at ? ls_eq(n->s, ls_unsqueeze(n->s, at, axis), ls_iota(n->s, LS_I64, ls_shape_make(rank + 1, shape), axis)) : NULL;
    ls_tensor *line = ls_reshape(n->s, values, LS_SHAPE(2));
    ls_tensor *off = line ? ls_reshape(n->s, ls_narrow(n->s, line, 0, 0, 1), LS_SCALAR) : NULL;
    ls_tensor *on = line ? ls_reshape(n->s, ls_narrow(n->s, line, 0, 1, 1), LS_SCALAR) : NULL;
    return ls_onnx_moved_out(n, 0, hit && on && off ? ls_where(n->s, hit, on, off) : NULL, 2);
}

/* The order of what is found is free when `sorted` is 0: then too the best comes first. */
static ls_status top_k(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *best = NULL, *places = NULL;
    int64_t dims[LS_MAX_RANK], k;
    int axis;
    if (n->version < 10) {
        k = ls_onnx_attr_int(n, "k", -1);
    } else {
        LS_TRY(n->err, ls_onnx_int(n, 1, -1, &k));
    }
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, ls_onnx_axis(n, ls_onnx_attr_int(n, "axis", -1), ls_onnx_dims(x, dims), &axis));
    if (ls_topk(n->s, x, k, axis, ls_onnx_attr_int(n, "largest", 1) != 0, &best, &places) != LS_OK) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, ls_onnx_out_as(n, 0, best, ls_onnx_in_type(n, 0)));
    return ls_onnx_out(n, 1, places);
}

/* ---- found by looking ---- */

static ls_status non_zero(ls_onnx_node *n) {
    const ls_data *x;
    double *reals = NULL;
    int64_t *ints = NULL, found = 0;
    int count;
    LS_TRY(n->err, ls_onnx_read(n, 0, &x));
    if (ls_data_dtype(x) >= LS_F16) {
        LS_TRY(n->err, ls_onnx_floats(n, 0, &reals, &count));
    } else {
        LS_TRY(n->err, ls_onnx_ints(n, 0, &ints, &count));
    }
    int rank = ls_data_rank(x);
    const int64_t *dims = ls_data_dims(x);
    int64_t *places = LS_ARENA_ARRAY(ls_onnx_arena(n), int64_t, (size_t)count + 1);
    int64_t *out = LS_ARENA_ARRAY(ls_onnx_arena(n), int64_t, ((size_t)count + 1) * (size_t)(rank + 1));
    if (!places || !out) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for the places of %d elements", count);
    }
    for (int i = 0; i < count; i++) {
        if (reals ? reals[i] != 0 : ints[i] != 0) {
            places[found++] = i;
        }
    }
    for (int64_t k = 0; k < found; k++) {
        int64_t rest = places[k];
        for (int d = rank; d-- > 0;) {
            out[d * found + k] = rest % dims[d];
            rest /= dims[d];
        }
    }
    return ls_onnx_out_from(n, 0, ONNX_INT64, 2, (int64_t[]){rank, found}, out);
}

/* What Unique tells apart: `items` slices along an axis, each of outer * inner elements. */
typedef struct unique_set {
    int64_t items, outer, inner;
    const double *reals; /* one of these */
    const int64_t *ints;
    const char *const *strings;
    bool is_unsigned;
} unique_set;
typedef struct unique_item {
    const unique_set *set;
    int64_t index, group;
} unique_item;

/* NaNs are equal, and after all numbers. */
static int compare_elements(const unique_set *u, int64_t a, int64_t b) {
    if (u->strings) {
        return strcmp(u->strings[a], u->strings[b]);
    }
    if (u->reals) {
        double x = u->reals[a], y = u->reals[b];
        return x != x || y != y ? (x != x) - (y != y) : (x > y) - (x < y);
    }
    int64_t x = u->ints[a], y = u->ints[b];
    return u->is_unsigned ? ((uint64_t)x > (uint64_t)y) - ((uint64_t)x < (uint64_t)y) : (x > y) - (x < y);
}

static int compare_slices(const unique_item *a, const unique_item *b) {
    const unique_set *u = a->set;
    for (int64_t o = 0; o < u->outer; o++) {
        for (int64_t i = 0; i < u->inner; i++) {
            int c = compare_elements(u, (o * u->items + a->index) * u->inner + i, (o * u->items + b->index) * u->inner + i);
            if (c) {
                return c;
            }
        }
    }
    return 0;
}

static int by_value(const void *a, const void *b) {
    const unique_item *x = a, *y = b;
    int c = compare_slices(x, y);
    return c ? c : (x->index > y->index) - (x->index < y->index);
}

static int by_index(const void *a, const void *b) {
    const unique_item *x = a, *y = b;
    return (x->index > y->index) - (x->index < y->index);
}

/* The slices named, one after the other along the axis. */
static ls_status unique_values(ls_onnx_node *n, const unique_set *u, const void *from, size_t size, int64_t count,
                               const int64_t *index, void **out) {
    char *to = ls_arena_array(ls_onnx_arena(n), (size_t)(u->outer * u->inner * count) + 1, size);
    if (!to) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for %" PRId64 " unique slices", count);
    }
    size_t line = (size_t)u->inner * size;
    for (int64_t o = 0; o < u->outer; o++) {
        for (int64_t k = 0; k < count; k++) {
            memcpy(to + (size_t)(o * count + k) * line, (const char *)from + (size_t)(o * u->items + index[k]) * line, line);
        }
    }
    *out = to;
    return LS_OK;
}

/* Reads operand 0 into a set; *out_bytes and *out_size are its elements as they are kept. */
static ls_status unique_read(ls_onnx_node *n, unique_set *u, const void **out_bytes, size_t *out_size) {
    int count;
    if (n->in[0]->kind == ONNX_STRINGS) {
        *out_bytes = u->strings = n->in[0]->strings;
        *out_size = sizeof *u->strings;
        return LS_OK;
    }
    const ls_data *x;
    LS_TRY(n->err, ls_onnx_read(n, 0, &x));
    ls_dtype dtype = ls_data_dtype(x);
    u->is_unsigned = dtype == LS_U64;
    *out_bytes = ls_data_bytes(x);
    *out_size = ls_dtype_size(dtype);
    if (dtype >= LS_F16) {
        double *reals;
        LS_TRY(n->err, ls_onnx_floats(n, 0, &reals, &count));
        u->reals = reals;
    } else {
        int64_t *ints;
        LS_TRY(n->err, ls_onnx_ints(n, 0, &ints, &count));
        u->ints = ints;
    }
    return LS_OK;
}

static ls_status unique_out(ls_onnx_node *n, int rank, const int64_t *dims, const void *values) {
    if (n->in[0]->kind != ONNX_STRINGS) {
        return ls_onnx_out_from(n, 0, ls_onnx_in_type(n, 0), rank, dims, values);
    }
    ls_onnx_value *v = ls_onnx_value_new(n, ONNX_STRINGS, ONNX_STRING);
    if (!v) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for the result");
    }
    v->known = true;
    v->rank = rank;
    memcpy(v->dims, dims, sizeof *dims * (size_t)rank);
    v->strings = (const char **)values;
    return ls_onnx_out_value(n, 0, v);
}

static ls_status unique(ls_onnx_node *n) {
    if (n->in[0]->kind != ONNX_TENSOR && n->in[0]->kind != ONNX_STRINGS) {
        return ls_onnx_fail(n, LS_ERR_DTYPE, "the operand is no tensor");
    }
    int64_t dims[LS_MAX_RANK];
    int rank = ls_onnx_value_dims(n->in[0], dims), axis = 0;
    unique_set u = {.outer = 1, .inner = 1, .items = 1};
    const void *bytes = NULL;
    void *values = NULL;
    size_t size = 0;
    if (ls_onnx_attr(n, "axis")) {
        LS_TRY(n->err, ls_onnx_axis(n, ls_onnx_attr_int(n, "axis", 0), rank, &axis));
        for (int i = 0; i < rank; i++) {
            *(i < axis ? &u.outer : i == axis ? &u.items : &u.inner) *= dims[i];
        }
    } else {
        for (int i = 0; i < rank; i++) {
            u.items *= dims[i];
        }
        rank = 1;
    }
    if (u.outer == 0 || u.inner == 0) { /* nothing to compare in any slice */
        u.outer = u.inner = 0;
    }
    LS_TRY(n->err, unique_read(n, &u, &bytes, &size));
    ls_arena *arena = ls_onnx_arena(n);
    size_t m = (size_t)u.items;
    unique_item *all = LS_ARENA_ARRAY(arena, unique_item, m + 1), *groups = LS_ARENA_ARRAY(arena, unique_item, m + 1);
    int64_t *first = LS_ARENA_ARRAY(arena, int64_t, m + 1), *inverse = LS_ARENA_ARRAY(arena, int64_t, m + 1);
    int64_t *counts = LS_ARENA_ARRAY(arena, int64_t, m + 1), *place = LS_ARENA_ARRAY(arena, int64_t, m + 1), found = 0;
    if (!all || !groups || !first || !inverse || !counts || !place) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for %" PRId64 " elements", u.items);
    }
    for (int64_t i = 0; i < u.items; i++) {
        all[i] = (unique_item){&u, i, 0};
    }
    qsort(all, m, sizeof *all, by_value);
    for (int64_t i = 0; i < u.items; i++) { /* the first of each group has the lowest index */
        if (i == 0 || compare_slices(&all[i - 1], &all[i]) != 0) {
            groups[found] = (unique_item){&u, all[i].index, found};
            found++;
        }
        all[i].group = found - 1;
    }
    if (!ls_onnx_attr_int(n, "sorted", 1)) {
        qsort(groups, (size_t)found, sizeof *groups, by_index);
    }
    for (int64_t k = 0; k < found; k++) {
        first[k] = groups[k].index;
        place[groups[k].group] = k;
    }
    for (int64_t i = 0; i < u.items; i++) {
        inverse[all[i].index] = place[all[i].group];
        counts[place[all[i].group]]++;
    }
    LS_TRY(n->err, unique_values(n, &u, bytes, size, found, first, &values));
    dims[axis] = found;
    LS_TRY(n->err, unique_out(n, rank, dims, values));
    LS_TRY(n->err, ls_onnx_out_from(n, 1, ONNX_INT64, 1, &found, first));
    LS_TRY(n->err, ls_onnx_out_from(n, 2, ONNX_INT64, 1, &u.items, inverse));
    return ls_onnx_out_from(n, 3, ONNX_INT64, 1, &found, counts);
}

/* ---- boxes ---- */

typedef struct box {
    float y0, x0, y1, x1;
} box;

static float min_float(float a, float b) {
    return a < b ? a : b;
}

static float max_float(float a, float b) {
    return a > b ? a : b;
}

static box read_box(const double *v, bool center) {
    float a = (float)v[0], b = (float)v[1], c = (float)v[2], d = (float)v[3];
    return center ? (box){b - d / 2, a - c / 2, b + d / 2, a + c / 2}
                  : (box){min_float(a, c), min_float(b, d), max_float(a, c), max_float(b, d)};
}

/* Whether intersection over union is above a threshold. In f32, as the operator is defined on. */
static bool overlaps(const box *a, const box *b, float threshold) {
    float height = min_float(a->y1, b->y1) - max_float(a->y0, b->y0), width = min_float(a->x1, b->x1) - max_float(a->x0, b->x0);
    float area_a = (a->y1 - a->y0) * (a->x1 - a->x0), area_b = (b->y1 - b->y0) * (b->x1 - b->x0);
    if (!(height > 0 && width > 0 && area_a > 0 && area_b > 0)) {
        return false;
    }
    float both = height * width;
    return both / (area_a + area_b - both) > threshold;
}

typedef struct candidate {
    double score;
    int64_t index;
} candidate;

static int by_score(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score) - (x->score > y->score) : (x->index > y->index) - (x->index < y->index);
}

/* Greedily takes candidates, best first, that overlap none taken; returns how many, their indices in `taken`. */
static int64_t suppress(const candidate *all, int64_t count, const box *boxes, int64_t most, float threshold, int64_t *taken) {
    int64_t n = 0;
    for (int64_t i = 0; i < count && n < most; i++) {
        bool free = true;
        for (int64_t k = 0; k < n && free; k++) {
            free = !overlaps(&boxes[all[i].index], &boxes[taken[k]], threshold);
        }
        if (free) {
            taken[n++] = all[i].index;
        }
    }
    return n;
}

static ls_status non_max_suppression(ls_onnx_node *n) {
    int64_t dims[LS_MAX_RANK], of_scores[LS_MAX_RANK], most, found = 0;
    double threshold, least, *boxes, *scores;
    int count, center = ls_onnx_attr_int(n, "center_point_box", 0) != 0;
    if (n->in[0]->kind != ONNX_TENSOR || n->in[1]->kind != ONNX_TENSOR || ls_onnx_value_dims(n->in[0], dims) != 3 || dims[2] != 4 || ls_onnx_value_dims(n->in[1], of_scores) != 3 ||
        of_scores[0] != dims[0] || of_scores[2] != dims[1]) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "expected boxes [batches, boxes, 4] and scores [batches, classes, boxes]");
    }
    LS_TRY(n->err, ls_onnx_floats(n, 0, &boxes, &count));
    LS_TRY(n->err, ls_onnx_floats(n, 1, &scores, &count));
    LS_TRY(n->err, ls_onnx_int(n, 2, 0, &most));
    LS_TRY(n->err, ls_onnx_float(n, 3, 0, &threshold));
    LS_TRY(n->err, ls_onnx_float(n, 4, 0, &least));
    int64_t batches = dims[0], m = dims[1], classes = of_scores[1];
    most = most < 0 ? 0 : most > m ? m : most;
    if (most == 0 || classes == 0) {
        return ls_onnx_out_from(n, 0, ONNX_INT64, 2, (int64_t[]){0, 3}, NULL);
    }
    ls_arena *arena = ls_onnx_arena(n);
    box *rows = LS_ARENA_ARRAY(arena, box, m + 1);
    candidate *all = LS_ARENA_ARRAY(arena, candidate, m + 1);
    int64_t *taken = LS_ARENA_ARRAY(arena, int64_t, m + 1);
    int64_t *out = LS_ARENA_ARRAY(arena, int64_t, 3 * batches * classes * most + 1);
    if (!rows || !all || !taken || !out) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for %" PRId64 " boxes", m);
    }
    for (int64_t b = 0; b < batches; b++) {
        for (int64_t i = 0; i < m; i++) {
            rows[i] = read_box(boxes + (b * m + i) * 4, center);
        }
        for (int64_t c = 0; c < classes; c++) {
            int64_t candidates = 0;
            for (int64_t i = 0; i < m; i++) {
                double score = scores[(b * classes + c) * m + i];
                if (ls_onnx_has(n, 4) ? score > least : score == score) {
                    all[candidates++] = (candidate){score, i};
                }
            }
            qsort(all, (size_t)candidates, sizeof *all, by_score);
            int64_t kept = suppress(all, candidates, rows, most, (float)threshold, taken);
            for (int64_t k = 0; k < kept; k++, found++) {
                out[3 * found] = b;
                out[3 * found + 1] = c;
                out[3 * found + 2] = taken[k];
            }
        }
    }
    return ls_onnx_out_from(n, 0, ONNX_INT64, 2, (int64_t[]){found, 3}, out);
}

const ls_onnx_op ls_onnx_index_ops[] = {
    {"", "Gather", 1, 2, 2, gather, ONNX_SYMBOLS},
    {"", "GatherElements", 11, 2, 2, gather_elements, ONNX_SYMBOLS},
    {"", "GatherND", 11, 2, 2, gather_nd, 0},
    {"", "Scatter", 9, 3, 3, scatter_elements, 0},
    {"", "ScatterElements", 11, 3, 3, scatter_elements, 0},
    {"", "ScatterND", 11, 3, 3, scatter_nd, 0},
    {"", "TensorScatter", 24, 2, 3, tensor_scatter, 0},
    {"", "OneHot", 9, 3, 3, one_hot, 0},
    {"", "TopK", 1, 1, 2, top_k, 0},
    {"", "NonZero", 9, 1, 1, non_zero, ONNX_HOST},
    {"", "Unique", 11, 1, 1, unique, ONNX_HOST},
    {"", "NonMaxSuppression", 10, 2, 5, non_max_suppression, ONNX_HOST},
    {0},
};
