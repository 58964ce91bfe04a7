/* Composites over gather, argsort and random bits. Indices into a flattened tensor are -1 where the
 * caller's index is out of range, so that the gather reports it and never reads a neighbouring row. */
#include "base/numerics.h"
#include "graph/build.h"
#include <inttypes.h>

/* ---- along an axis ---- */

static ls_tensor *i64_scalar(ls_session *s, int64_t value) {
    ls_shape scalar = LS_SCALAR;
    return ls_full_i64(s, LS_I64, scalar, value);
}

/* The number of elements from one step of `axis` to the next, row-major: an i64 scalar. */
static ls_tensor *stride_value(ls_session *s, const ls_shape *shape, int axis) {
    int inner[LS_MAX_RANK], n = 0;
    for (int i = axis + 1; i < shape->rank; i++) {
        inner[n++] = i;
    }
    return ls_count(s, shape, n, inner, 0, LS_I64);
}

ls_tensor *ls_linear_index(ls_session *s, const ls_tensor *x, ls_tensor *index, int axis) {
    ls_tensor *i = ls_cast(s, index, LS_I64);
    ls_tensor *extent = ls_dim_value(s, x->shape.dim[axis]);
    ls_tensor *valid = ls_and(s, ls_le(s, i64_scalar(s, 0), i), ls_lt(s, i, extent));
    ls_tensor *at = ls_mul(s, i, stride_value(s, &x->shape, axis));
    for (int a = 0; a < x->shape.rank; a++) {
        if (a != axis && !ls_dim_equal(index->shape.dim[a], ls_dim_fixed(1))) {
            ls_tensor *step = ls_mul(s, ls_iota(s, LS_I64, index->shape, a), stride_value(s, &x->shape, a));
            at = ls_add(s, at, step);
        }
    }
    return ls_where(s, valid, at, i64_scalar(s, -1));
}

ls_tensor *ls_take_along(ls_session *s, ls_tensor *x, ls_tensor *index, int axis) {
    if (!ls_check_operands(s, "take_along", 2, (ls_tensor *[]){x, index}) ||
        !ls_axis_check(s, "take_along", x, axis, &axis)) {
        return NULL;
    }
    if (index->dtype != LS_I32 && index->dtype != LS_I64) {
        return LS_NODE_FAIL(s, LS_ERR_DTYPE, "take_along: the index is %s: expected i32 or i64",
                            LS_TEXT(index));
    }
    bool fits = index->shape.rank == x->shape.rank;
    for (int i = 0; fits && i < x->shape.rank; i++) {
        ls_dim a = x->shape.dim[i], b = index->shape.dim[i];
        fits = i == axis || ls_dim_equal(a, b) ||
               (ls_dim_is_fixed(a) && ls_dim_is_fixed(b) && b.offset <= a.offset);
    }
    if (!fits) {
        return LS_NODE_FAIL(
            s, LS_ERR_SHAPE,
            "take_along: operand is %s and index %s: expected the same rank, and on axes other than %d "
            "extents no larger",
            LS_TEXT(x), LS_TEXT(index), axis);
    }
    ls_shape flat = {.rank = 1, .dim = {ls_dim_fixed(-1)}};
    return ls_gather(s, ls_reshape(s, x, flat), ls_linear_index(s, x, index, axis), 0);
}

ls_tensor *ls_sort(ls_session *s, ls_tensor *x, int axis, int descending) {
    return ls_check_operands(s, "sort", 1, &x) && ls_axis_check(s, "sort", x, axis, &axis)
               ? ls_take_along(s, x, ls_argsort(s, x, axis, descending), axis)
               : NULL;
}

ls_status ls_topk(ls_session *s, ls_tensor *x, int64_t k, int axis, int largest, ls_tensor **out_values,
                  ls_tensor **out_indices) {
    *out_values = *out_indices = NULL;
    ls_error *err = &ls_graph_of(s)->error;
    if (!ls_check_operands(s, "topk", 1, &x) || !ls_axis_check(s, "topk", x, axis, &axis)) {
        return err->code;
    }
    ls_dim d = x->shape.dim[axis];
    if (!ls_dim_is_fixed(d) || k < 0 || k > d.offset) {
        return LS_FAIL(err, LS_ERR_INVALID,
                       "topk: k %" PRId64 " along axis %d of %s: expected 0 to a fixed extent", k, axis,
                       LS_TEXT(x));
    }
    ls_tensor *indices = ls_narrow(s, ls_argsort(s, x, axis, largest), axis, 0, k);
    ls_tensor *values = indices ? ls_take_along(s, x, indices, axis) : NULL;
    if (!values) {
        return err->code;
    }
    *out_values = values;
    *out_indices = indices;
    return LS_OK;
}

ls_tensor *ls_one_hot(ls_session *s, ls_tensor *index, int64_t classes, ls_dtype dtype) {
    if (!ls_check_operands(s, "one_hot", 1, &index)) {
        return NULL;
    }
    if (!ls_dtype_is_int(index->dtype)) {
        return LS_NODE_FAIL(s, LS_ERR_DTYPE, "one_hot: the index is %s: expected an integer dtype",
                            LS_TEXT(index));
    }
    if (classes < 0 || index->shape.rank == LS_MAX_RANK) {
        return LS_NODE_FAIL(s, LS_ERR_INVALID,
                            "one_hot: %" PRId64
                            " classes of index %s: expected 0 or more, and rank %d at most",
                            classes, LS_TEXT(index), LS_MAX_RANK - 1);
    }
    int last = index->shape.rank;
    ls_shape shape = ls_shape_insert(&index->shape, last, ls_dim_fixed(classes));
    ls_tensor *hit = ls_eq(s, ls_unsqueeze(s, index, last), ls_iota(s, index->dtype, shape, last));
    return ls_cast(s, hit, dtype);
}

ls_tensor *ls_embedding(ls_session *s, ls_tensor *table, ls_tensor *index) {
    if (!ls_check_operands(s, "embedding", 2, (ls_tensor *[]){table, index})) {
        return NULL;
    }
    if (table->shape.rank != 2) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE, "embedding: the table is %s: expected [entries, width]",
                            LS_TEXT(table));
    }
    return ls_gather(s, table, index, 0);
}

/* ---- random ---- */

static ls_tensor *key_words(ls_session *s, uint32_t low, uint32_t high) {
    ls_shape one = LS_SHAPE(1);
    ls_tensor *words[] = {ls_full_i64(s, LS_U32, one, low), ls_full_i64(s, LS_U32, one, high)};
    return ls_concat(s, words, 2, 0);
}

ls_tensor *ls_random_key(ls_session *s, uint64_t seed) {
    return key_words(s, (uint32_t)seed, (uint32_t)(seed >> 32));
}

/* The purpose enters the key, beside a tag that no key of a seed's own stream has: no element of that
 * stream is a derived key. */
ls_tensor *ls_random_split(ls_session *s, ls_tensor *key, uint32_t purpose) {
    ls_shape two = LS_SHAPE(2);
    return ls_random_bits(s, ls_xor(s, key, key_words(s, 0x9e3779b9u, purpose)), two);
}

/* The top `bits` of a word (of two words for more than 32), as an integer k below 2^bits of dtype `wide`. */
static ls_tensor *random_int(ls_session *s, ls_tensor *key, const ls_shape *shape, int bits, ls_dtype wide) {
    ls_tensor *word = ls_random_bits(s, key, *shape);
    if (!word || bits <= 32) {
        return word ? ls_cast(s, ls_shr(s, word, ls_const_like(s, word, 32 - bits)), wide) : NULL;
    }
    ls_tensor *more = ls_random_bits(s, ls_random_split(s, key, 0x6c6f77u), *shape);
    ls_tensor *high = ls_cast(s, word, LS_U64), *low = ls_cast(s, more, LS_U64);
    if (!high || !low) {
        return NULL;
    }
    high = ls_shl(s, high, ls_const_like(s, high, bits - 32));
    low = ls_shr(s, low, ls_const_like(s, low, 64 - bits));
    return ls_cast(s, ls_or(s, high, low), wide);
}

static bool random_check(ls_session *s, const char *name, ls_tensor *key, ls_dtype dtype) {
    if (!ls_check_operands(s, name, 1, &key)) {
        return false;
    }
    if ((unsigned)dtype >= LS_DTYPE_COUNT || !ls_dtype_is_float(dtype)) {
        LS_NODE_FAIL(s, LS_ERR_DTYPE, "%s: %s: expected a floating dtype", name, ls_dtype_name(dtype));
        return false;
    }
    return true;
}

/* k / 2^bits with as many bits as the dtype holds exactly, so that 1 is never reached. */
ls_tensor *ls_random_uniform(ls_session *s, ls_tensor *key, ls_shape shape, ls_dtype dtype) {
    static const int bits[LS_DTYPE_COUNT] = {[LS_F16] = 11, [LS_BF16] = 8, [LS_F32] = 24, [LS_F64] = 53};
    if (!random_check(s, "random_uniform", key, dtype)) {
        return NULL;
    }
    ls_dtype wide = ls_dtype_compute(dtype);
    ls_tensor *k = random_int(s, key, &shape, bits[dtype], wide);
    return k ? ls_cast(s, ls_mul(s, k, ls_const_like(s, k, 1.0 / (double)((uint64_t)1 << bits[dtype]))),
                       dtype)
             : NULL;
}

/* Box and Muller: sqrt(-2 log u) cos(2 pi v), u in (0, 1], v in [0, 1). */
ls_tensor *ls_random_normal(ls_session *s, ls_tensor *key, ls_shape shape, ls_dtype dtype) {
    if (!random_check(s, "random_normal", key, dtype)) {
        return NULL;
    }
    ls_dtype wide = ls_dtype_compute(dtype);
    int bits = wide == LS_F64 ? 53 : 24;
    ls_tensor *u = random_int(s, key, &shape, bits, wide);
    ls_tensor *v = random_int(s, ls_random_split(s, key, 0x616e67u), &shape, bits, wide);
    if (!u || !v) {
        return NULL;
    }
    ls_tensor *unit = ls_const_like(s, u, 1.0 / (double)((uint64_t)1 << bits));
    u = ls_mul(s, ls_add(s, u, ls_const_like(s, u, 1)), unit);
    ls_tensor *radius = ls_sqrt(s, ls_mul(s, ls_log(s, u), ls_const_like(s, u, -2)));
    ls_tensor *angle = ls_mul(s, ls_mul(s, v, unit), ls_const_like(s, v, 6.28318530717958647693));
    return ls_cast(s, ls_mul(s, radius, ls_cos(s, angle)), dtype);
}

ls_tensor *ls_dropout(ls_session *s, ls_tensor *x, double p, ls_tensor *key) {
    if (!ls_check_operands(s, "dropout", 2, (ls_tensor *[]){x, key}) || !ls_check_float(s, "dropout", x)) {
        return NULL;
    }
    if (!(p >= 0 && p < 1)) {
        return LS_NODE_FAIL(s, LS_ERR_INVALID, "dropout: p %g of %s: expected 0 <= p < 1", p, LS_TEXT(x));
    }
    if (p == 0) {
        return ls_own(s, x);
    }
    ls_numerics state = ls_numerics_enter();
    double scale = 1 / (1 - p);
    ls_numerics_leave(state);
    ls_tensor *w = ls_cast(s, x, ls_dtype_compute(x->dtype)),
              *u = ls_random_uniform(s, key, x->shape, LS_F32);
    if (!w || !u) {
        return NULL;
    }
    ls_tensor *kept = ls_mul(s, w, ls_const_like(s, w, scale));
    return ls_cast(s, ls_where(s, ls_le(s, ls_const_like(s, u, p), u), kept, ls_const_like(s, w, 0)),
                   x->dtype);
}
