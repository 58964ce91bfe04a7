/* Sequences and optional values: lists of values, handled while the graph is built. Values are shared,
 * never copied. */
#include "io/onnx/onnx.h"
#include <string.h>

static ls_onnx_value *sequence_new(ls_onnx_node *n, int type, int count) {
    ls_onnx_value *v = ls_onnx_value_new(n, ONNX_SEQUENCE, type);
    if (v) {
        v->items = LS_ARENA_ARRAY(ls_onnx_arena(n), ls_onnx_value *, count + 1);
        v->count = count;
        v->known = true;
    }
    return v && v->items ? v : NULL;
}

static ls_status out_sequence(ls_onnx_node *n, int i, ls_onnx_value *v) {
    if (!v) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for a sequence");
    }
    for (int k = 0; k < v->count; k++) {
        v->known = v->known && v->items[k]->known;
    }
    return ls_onnx_out_value(n, i, v);
}

static const char *kind_name(const ls_onnx_value *v) {
    static const char *const names[] = {"a tensor", "a tensor of strings", "a sequence", "an optional value"};
    return v ? names[v->kind] : "nothing";
}

/* Operand i, which must be a sequence; one that stands in an optional value is taken out. */
static ls_status sequence_in(ls_onnx_node *n, int i, ls_onnx_value **out_sequence) {
    ls_onnx_value *v = ls_onnx_has(n, i) ? n->in[i] : NULL;
    if (v && v->kind == ONNX_OPTIONAL && v->count == 1) {
        v = v->items[0];
    }
    if (!v || v->kind != ONNX_SEQUENCE) {
        return ls_onnx_fail(n, LS_ERR_DTYPE, "operand %d is %s: expected a sequence", i, kind_name(v));
    }
    *out_sequence = v;
    return LS_OK;
}

/* A position in [-count, limit). */
static ls_status position(ls_onnx_node *n, int i, int count, int limit, int64_t otherwise, int *out_at) {
    int64_t at;
    LS_TRY(n->err, ls_onnx_int(n, i, otherwise, &at));
    if (at < -(int64_t)count || at >= limit) {
        return ls_onnx_fail(n, LS_ERR_RANGE, "position %lld in a sequence of %d", (long long)at, count);
    }
    *out_at = (int)(at < 0 ? at + count : at);
    return LS_OK;
}

static ls_status sequence_empty(ls_onnx_node *n) {
    return out_sequence(n, 0, sequence_new(n, (int)ls_onnx_attr_int(n, "dtype", ONNX_FLOAT), 0));
}

static ls_status sequence_construct(ls_onnx_node *n) {
    ls_onnx_value *v = sequence_new(n, n->in[0]->type, n->n_in);
    for (int i = 0; v && i < n->n_in; i++) {
        if (!n->in[i] || n->in[i]->type != v->type) {
            return ls_onnx_fail(n, LS_ERR_DTYPE, "operand %d: expected a tensor of operand 0's type, %s", i,
                                ls_onnx_type_name(v->type));
        }
        v->items[i] = n->in[i];
    }
    return out_sequence(n, 0, v);
}

static ls_status sequence_length(ls_onnx_node *n) {
    ls_onnx_value *v;
    LS_TRY(n->err, sequence_in(n, 0, &v));
    return ls_onnx_out_from(n, 0, ONNX_INT64, 0, NULL, &(int64_t){v->count});
}

static ls_status sequence_at(ls_onnx_node *n) {
    ls_onnx_value *v;
    int at;
    LS_TRY(n->err, sequence_in(n, 0, &v));
    LS_TRY(n->err, position(n, 1, v->count, v->count, 0, &at));
    return ls_onnx_out_value(n, 0, v->items[at]);
}

static ls_status sequence_insert(ls_onnx_node *n) {
    ls_onnx_value *v, *longer;
    int at;
    LS_TRY(n->err, sequence_in(n, 0, &v));
    LS_TRY(n->err, position(n, 2, v->count, v->count + 1, v->count, &at));
    if (v->count > 0 && v->items[0]->type != n->in[1]->type) {
        return ls_onnx_fail(n, LS_ERR_DTYPE, "%s into a sequence of %s", ls_onnx_type_name(n->in[1]->type),
                            ls_onnx_type_name(v->items[0]->type));
    }
    longer = sequence_new(n, n->in[1]->type, v->count + 1);
    if (longer) {
        for (int i = 0; i <= v->count; i++) {
            longer->items[i] = i < at ? v->items[i] : i == at ? n->in[1] : v->items[i - 1];
        }
    }
    return out_sequence(n, 0, longer);
}

static ls_status sequence_erase(ls_onnx_node *n) {
    ls_onnx_value *v, *shorter;
    int at;
    LS_TRY(n->err, sequence_in(n, 0, &v));
    LS_TRY(n->err, position(n, 1, v->count, v->count, -1, &at));
    shorter = sequence_new(n, v->type, v->count - 1);
    for (int i = 0; shorter && i < shorter->count; i++) {
        shorter->items[i] = v->items[i < at ? i : i + 1];
    }
    return out_sequence(n, 0, shorter);
}

/* ---- split and concatenate ---- */

/* A run of `length` along an axis, as a block of `inner` strings for each of `outer` indices. */
static ls_onnx_value *strings_like(ls_onnx_node *n, const int64_t *dims, int rank, int axis, int64_t length,
                                   size_t *out_outer, size_t *out_inner) {
    ls_onnx_value *v = ls_onnx_value_new(n, ONNX_STRINGS, ONNX_STRING);
    if (!v) {
        return NULL;
    }
    *out_outer = *out_inner = 1;
    for (int i = 0; i < rank; i++) {
        v->dims[i] = i == axis ? length : dims[i];
        *(i < axis ? out_outer : out_inner) *= i == axis ? 1 : (size_t)dims[i];
    }
    v->rank = rank;
    v->known = true;
    v->strings = LS_ARENA_ARRAY(ls_onnx_arena(n), const char *, *out_outer **out_inner *(size_t)length + 1);
    return v->strings ? v : NULL;
}

static ls_onnx_value *strings_narrow(ls_onnx_node *n, const ls_onnx_value *x, int axis, int64_t start,
                                     int64_t length) {
    size_t outer, inner;
    ls_onnx_value *v = strings_like(n, x->dims, x->rank, axis, length, &outer, &inner);
    for (size_t i = 0; v && i < outer && length * (int64_t)inner > 0; i++) {
        memcpy(v->strings + i * (size_t)length * inner,
               x->strings + (i * (size_t)x->dims[axis] + (size_t)start) * inner,
               sizeof *v->strings * (size_t)length * inner);
    }
    return v;
}

/* x[start .. start+length] along an axis; without the axis when `drop` (then length is 1). */
static ls_onnx_value *part(ls_onnx_node *n, ls_onnx_value *x, int axis, int64_t start, int64_t length,
                           bool drop) {
    if (x->kind == ONNX_STRINGS) {
        ls_onnx_value *v = strings_narrow(n, x, axis, start, length);
        if (v && drop) {
            v->rank--;
            memmove(v->dims + axis, v->dims + axis + 1, sizeof *v->dims * (size_t)(v->rank - axis));
        }
        return v;
    }
    ls_tensor *t = ls_narrow(n->s, ls_onnx_tensor(n, x), axis, start, length);
    return ls_onnx_value_of(n, drop ? ls_squeeze(n->s, t, axis) : t, x->type);
}

/* The lengths of the parts along an axis of `extent`. */
static ls_status split_lengths(ls_onnx_node *n, int64_t extent, const int64_t **out_lengths, int *out_count) {
    int64_t dims[LS_MAX_RANK], *list = NULL, each = 1;
    int count = 0;
    if (ls_onnx_has(n, 1)) {
        LS_TRY(n->err, ls_onnx_ints(n, 1, &list, &count));
        if (ls_onnx_value_dims(n->in[1], dims) == 1) {
            int64_t total = 0;
            for (int i = 0; i < count; i++) {
                total = list[i] < 0 || list[i] > extent ? -1 : total + list[i];
                if (total < 0 || total > extent) {
                    return ls_onnx_fail(n, LS_ERR_SHAPE,
                                        "the lengths of the parts do not fit an extent of %lld",
                                        (long long)extent);
                }
            }
            if (total != extent) {
                return ls_onnx_fail(n, LS_ERR_SHAPE, "parts of %lld elements together: expected %lld",
                                    (long long)total, (long long)extent);
            }
            *out_lengths = list;
            *out_count = count;
            return LS_OK;
        }
        if (count != 1 || list[0] < 1) {
            return ls_onnx_fail(n, LS_ERR_INVALID, "split: expected one positive number, or a list");
        }
        each = list[0];
    }
    int64_t parts = extent / each + (extent % each != 0);
    list = parts <= INT32_MAX ? LS_ARENA_ARRAY(ls_onnx_arena(n), int64_t, parts + 1) : NULL;
    if (!list) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for %lld parts", (long long)parts);
    }
    for (int64_t i = 0; i < parts; i++) {
        list[i] = i == parts - 1 ? extent - each * i : each;
    }
    *out_lengths = list;
    *out_count = (int)parts;
    return LS_OK;
}

static ls_status split_to_sequence(ls_onnx_node *n) {
    int64_t dims[LS_MAX_RANK], start = 0;
    const int64_t *lengths = NULL;
    ls_onnx_value *x = n->in[0];
    int axis, count = 0;
    if (x->kind != ONNX_TENSOR && x->kind != ONNX_STRINGS) {
        return ls_onnx_fail(n, LS_ERR_DTYPE, "operand 0 is %s: expected a tensor", kind_name(x));
    }
    LS_TRY(n->err, ls_onnx_axis(n, ls_onnx_attr_int(n, "axis", 0), ls_onnx_value_dims(x, dims), &axis));
    LS_TRY(n->err, split_lengths(n, dims[axis], &lengths, &count));
    bool drop = !ls_onnx_has(n, 1) && !ls_onnx_attr_int(n, "keepdims", 1);
    ls_onnx_value *v = sequence_new(n, x->type, count);
    if (!v) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for a sequence");
    }
    for (int i = 0; i < count; i++) {
        v->items[i] = part(n, x, axis, start, lengths[i], drop);
        start += lengths[i];
        if (!v->items[i]) {
            return ls_onnx_out_value(n, 0, NULL);
        }
    }
    return out_sequence(n, 0, v);
}

static ls_status concat_strings(ls_onnx_node *n, const ls_onnx_value *v, int64_t axis, bool fresh) {
    int64_t dims[LS_MAX_RANK] = {0}, total = 0;
    int rank = v->items[0]->rank + fresh, at;
    size_t outer, inner, filled = 0;
    if (rank > LS_MAX_RANK) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "a result of rank %d: at most %d", rank, LS_MAX_RANK);
    }
    LS_TRY(n->err, ls_onnx_axis(n, axis, rank, &at));
    for (int k = 0; k < v->count; k++) {
        const ls_onnx_value *x = v->items[k];
        if (x->kind != ONNX_STRINGS || x->rank + fresh != rank) {
            return ls_onnx_fail(n, LS_ERR_SHAPE,
                                "item %d of the sequence: expected strings of the rank of item 0", k);
        }
        for (int i = 0; i < rank; i++) {
            int64_t d = !fresh ? x->dims[i] : i == at ? 1 : x->dims[i - (i > at)];
            if (k > 0 && i != at && d != dims[i]) {
                return ls_onnx_fail(n, LS_ERR_SHAPE,
                                    "item %d of the sequence differs from item 0 beyond axis %d", k, at);
            }
            dims[i] = d;
        }
        total += dims[at];
    }
    ls_onnx_value *all = strings_like(n, dims, rank, at, total, &outer, &inner);
    if (!all) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for strings");
    }
    for (size_t o = 0; o < outer; o++) {
        for (int k = 0; k < v->count; k++) {
            size_t length = (fresh ? 1 : (size_t)v->items[k]->dims[at]) * inner;
            for (size_t i = 0; i < length; i++) {
                all->strings[filled++] = v->items[k]->strings[o * length + i];
            }
        }
    }
    return ls_onnx_out_value(n, 0, all);
}

static ls_status concat_from_sequence(ls_onnx_node *n) {
    ls_onnx_value *v;
    LS_TRY(n->err, sequence_in(n, 0, &v));
    bool fresh = ls_onnx_attr_int(n, "new_axis", 0) != 0;
    int64_t axis = ls_onnx_attr_int(n, "axis", 0);
    if (v->count == 0) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "an empty sequence: expected one or more tensors");
    }
    if (v->items[0]->kind == ONNX_STRINGS) {
        return concat_strings(n, v, axis, fresh);
    }
    ls_tensor **parts = LS_ARENA_ARRAY(ls_onnx_arena(n), ls_tensor *, v->count);
    if (!parts) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for a sequence");
    }
    for (int i = 0; i < v->count; i++) {
        parts[i] = ls_onnx_tensor(n, v->items[i]);
        if (!parts[i]) {
            return ls_onnx_out(n, 0, NULL);
        }
    }
    ls_tensor *t =
        fresh ? ls_stack(n->s, parts, v->count, (int)axis) : ls_concat(n->s, parts, v->count, (int)axis);
    return ls_onnx_out_as(n, 0, t, v->items[0]->type);
}

/* ---- map ---- */

static ls_status sequence_map(ls_onnx_node *n) {
    ls_onnx_value *v;
    const ls_onnx_graph *body = ls_onnx_attr_graph(n, "body");
    LS_TRY(n->err, sequence_in(n, 0, &v));
    if (!body || ls_onnx_graph_inputs(body) != n->n_in || ls_onnx_graph_outputs(body) < n->n_out) {
        return ls_onnx_fail(n, LS_ERR_FORMAT, "body: expected a graph of %d inputs and %d outputs", n->n_in,
                            n->n_out);
    }
    int n_results = ls_onnx_graph_outputs(body);
    ls_onnx_value **in = LS_ARENA_ARRAY(ls_onnx_arena(n), ls_onnx_value *, n->n_in);
    ls_onnx_value **results = LS_ARENA_ARRAY(ls_onnx_arena(n), ls_onnx_value *, n_results + 1);
    ls_onnx_value **sequences = LS_ARENA_ARRAY(ls_onnx_arena(n), ls_onnx_value *, n->n_out + 1);
    bool made = in && results && sequences;
    for (int i = 0; made && i < n->n_out; i++) {
        sequences[i] = sequence_new(n, 0, v->count);
        made = sequences[i] != NULL;
    }
    if (!made) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for a sequence");
    }
    for (int k = 0; k < v->count; k++) {
        for (int i = 0; i < n->n_in; i++) {
            bool each = n->in[i] && (i == 0 || n->in[i]->kind == ONNX_SEQUENCE);
            const ls_onnx_value *from = i == 0 ? v : n->in[i];
            if (each && from->count != v->count) {
                return ls_onnx_fail(n, LS_ERR_SHAPE, "sequences of %d and %d items: expected one length",
                                    v->count, from->count);
            }
            in[i] = each ? from->items[k] : n->in[i];
        }
        LS_TRY(n->err, ls_onnx_call(n, body, n->n_in, in, results));
        for (int i = 0; i < n->n_out; i++) {
            sequences[i]->items[k] = results[i];
            sequences[i]->type = results[i]->type;
        }
    }
    for (int i = 0; i < n->n_out; i++) {
        LS_TRY(n->err, out_sequence(n, i, sequences[i]));
    }
    return LS_OK;
}

/* ---- optional values ---- */

static ls_status optional(ls_onnx_node *n) {
    bool filled = ls_onnx_has(n, 0);
    ls_onnx_value *v = ls_onnx_value_new(n, ONNX_OPTIONAL, filled ? n->in[0]->type : 0);
    ls_onnx_value **items = LS_ARENA_ARRAY(ls_onnx_arena(n), ls_onnx_value *, 1);
    if (!v || !items) {
        return ls_onnx_fail(n, LS_ERR_MEMORY, "out of memory for a value");
    }
    v->items = items;
    v->count = filled;
    v->known = true;
    if (filled) {
        items[0] = n->in[0];
        v->known = items[0]->known;
    }
    return ls_onnx_out_value(n, 0, v);
}

static ls_status optional_get_element(ls_onnx_node *n) {
    ls_onnx_value *v = n->in[0];
    if (v->kind == ONNX_OPTIONAL && v->count == 0) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "the optional value is empty");
    }
    return ls_onnx_out_value(n, 0, v->kind == ONNX_OPTIONAL ? v->items[0] : v);
}

static ls_status optional_has_element(ls_onnx_node *n) {
    bool has = ls_onnx_has(n, 0) && (n->in[0]->kind != ONNX_OPTIONAL || n->in[0]->count > 0);
    return ls_onnx_out_from(n, 0, ONNX_BOOL, 0, NULL, &(uint8_t){has});
}

const ls_onnx_op ls_onnx_sequence_ops[] = {
    {"", "SequenceEmpty", 11, 0, 0, sequence_empty, 0},
    {"", "SequenceConstruct", 11, 1, -1, sequence_construct, 0},
    {"", "SequenceLength", 11, 1, 1, sequence_length, 0},
    {"", "SequenceAt", 11, 2, 2, sequence_at, 0},
    {"", "SequenceInsert", 11, 2, 3, sequence_insert, 0},
    {"", "SequenceErase", 11, 1, 2, sequence_erase, 0},
    {"", "SplitToSequence", 11, 1, 2, split_to_sequence, 0},
    {"", "ConcatFromSequence", 11, 1, 1, concat_from_sequence, 0},
    {"", "SequenceMap", 17, 1, -1, sequence_map, ONNX_DEVICE},
    {"", "Optional", 15, 0, 1, optional, 0},
    {"", "OptionalGetElement", 15, 1, 1, optional_get_element, 0},
    {"", "OptionalHasElement", 15, 0, 1, optional_has_element, 0},
    {0},
};
