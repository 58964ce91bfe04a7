/* The attention operators of ONNX Runtime's domain. Their integer masks add mask_filter_value to scores; what comes later than a query,
 * or lies outside of a batch's keys, is not seen at all. */
#include "io/onnx/contrib.h"
#include "io/onnx/extent.h"
#include "io/onnx/heads.h"
#include <inttypes.h>

typedef struct attention {
    ls_tensor *q, *k, *v;   /* [B,N,S,D], [B,G,T,D], [B,G,T,E] */
    ls_tensor *bias, *seen; /* added to the scores; bool. Broadcast to [B,N,S,T]; either may be NULL */
    ls_dim batch, steps, keys, past;
    double scale, cap; /* 0: the usual; none */
} attention;

static ls_tensor *i64(ls_onnx_node *n, int64_t value) {
    return ls_full_i64(n->s, LS_I64, LS_SCALAR, value);
}

static ls_tensor *also(ls_onnx_node *n, ls_tensor *seen, ls_tensor *more) {
    return seen ? ls_and(n->s, seen, more) : more;
}

static void add_bias(ls_onnx_node *n, attention *a, ls_tensor *bias) {
    if (bias) {
        a->bias = a->bias ? ls_add(n->s, a->bias, bias) : bias;
    }
}

static ls_status measure(ls_onnx_node *n, attention *a) {
    if (!a->q || !a->k || !a->v) {
        return ls_onnx_out(n, 0, NULL);
    }
    const ls_shape q = ls_tensor_shape(a->q), k = ls_tensor_shape(a->k);
    if (q.rank != 4 || k.rank != 4 || q.dim[1].symbol || q.dim[3].symbol || k.dim[1].symbol || k.dim[1].offset < 1 || q.dim[1].offset % k.dim[1].offset != 0) {
        return ls_onnx_fail(n, LS_ERR_SHAPE,
                            "expected queries [B,N,S,D] and keys [B,G,T,D] with G dividing N");
    }
    a->batch = q.dim[0];
    a->steps = q.dim[2];
    a->keys = k.dim[2];
    return LS_OK;
}

static ls_status attend(ls_onnx_node *n, attention *a, ls_tensor **out) {
    ls_dtype dtype = ls_tensor_dtype(a->q);
    ls_tensor *none = ls_onnx_scalar(n, dtype, -__builtin_inf()), *mask = a->seen;
    if (a->bias) {
        mask = a->seen ? ls_where(n->s, a->seen, a->bias, none) : a->bias;
    }
    if (a->cap == 0) {
        ls_attention_spec spec = {.scale = a->scale, .mask = mask};
        *out = ls_onnx_join_heads(n, ls_attention(n->s, a->q, a->k, a->v, &spec));
        return LS_OK;
    }
    int64_t d[LS_MAX_RANK];
    ls_onnx_dims(a->q, d);
    ls_tensor *cap = ls_onnx_scalar(n, dtype, a->cap);
    ls_tensor *scale = a->scale != 0 ? ls_onnx_scalar(n, dtype, a->scale)
                                     : ls_recip(n->s, ls_sqrt(n->s, ls_onnx_scalar(n, dtype, (double)d[3])));
    ls_tensor *scores = ls_mul(n->s, ls_onnx_by_groups(n, a->q, a->k, 3), scale);
    scores = ls_mul(n->s, ls_tanh(n->s, ls_div(n->s, scores, cap)), cap);
    scores = a->bias ? ls_add(n->s, scores, a->bias) : scores;
    scores = a->seen ? ls_where(n->s, a->seen, scores, none) : scores;
    *out = ls_onnx_join_heads(n, ls_onnx_by_groups(n, ls_masked_softmax(n->s, scores, -1), a->v, 2));
    return LS_OK;
}

/* Query i stands at position past + i and sees keys up to there. */
static void see_the_past(ls_onnx_node *n, attention *a) {
    const ls_shape grid = {.rank = 2, .dim = {a->steps, a->keys}};
    ls_tensor *at = ls_add(n->s, ls_iota(n->s, LS_I64, grid, 0), ls_onnx_extent_tensor(n, a->past));
    a->seen = also(n, a->seen, ls_le(n->s, ls_iota(n->s, LS_I64, grid, 1), at));
}

/* mask_index in its forms: [B,T], [B,S,T] and [B,1,M,M] of 0 (hidden) and 1; [B], ends; [2B], ends and then starts. */
static ls_status read_mask(ls_onnx_node *n, attention *a, ls_tensor *mask) {
    if (!mask) {
        return LS_OK;
    }
    ls_dtype dtype = ls_tensor_dtype(a->q);
    const ls_shape from = ls_tensor_shape(mask);
    const ls_dim *d = from.dim, one = ls_dim_of(1);
    int rank = from.rank;
    bool ends = rank == 1 && ls_onnx_same(d[0], a->batch), both = rank == 1 && !a->batch.symbol && d[0].offset == 2 * a->batch.offset && !d[0].symbol;
    ls_tensor *shown, *zero = ls_full(n->s, ls_tensor_dtype(mask), LS_SCALAR, 0);
    if (rank == 2 || rank == 3) {
        const ls_shape spread = {.rank = 4, .dim = {d[0], one, rank == 3 ? d[1] : one, d[rank - 1]}};
        shown = ls_gt(n->s, ls_reshape(n->s, mask, spread), zero);
    } else if (rank == 4) {
        bool enough;
        ls_dim end;
        if (!ls_onnx_plus(a->past, a->steps, &end)) {
            return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "a part of the mask that is no multiple of a symbol plus a number");
        }
        for (int i = 2; i < 4; i++) {
            LS_TRY(n->err, ls_onnx_at_least(n, d[i], i == 2 ? end : a->keys, &enough));
            if (!enough) {
                return ls_onnx_fail(n, LS_ERR_SHAPE, "axis %d of the mask ends before the keys", i);
            }
        }
        ls_tensor *part = ls_onnx_part(n, mask, 2, a->past, a->steps);
        shown = ls_gt(n->s, part ? ls_onnx_part(n, part, 3, ls_dim_of(0), a->keys) : NULL, zero);
    } else if (ends || both) {
        const ls_shape each = {.rank = 4, .dim = {a->batch, one, one, one}}, line = {.rank = 2, .dim = {one, a->keys}};
        ls_tensor *key = ls_iota(n->s, LS_I64, line, 1), *all = ls_cast(n->s, mask, LS_I64);
        shown = ls_lt(n->s, key, ls_reshape(n->s, ends ? all : ls_narrow(n->s, all, 0, 0, a->batch.offset), each));
        if (!ends) {
            ls_tensor *start = ls_reshape(n->s, ls_narrow(n->s, all, 0, a->batch.offset, a->batch.offset), each);
            shown = ls_and(n->s, shown, ls_ge(n->s, key, start));
        }
    } else {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "a mask of rank %d", rank);
    }
    ls_tensor *filter = ls_onnx_scalar(n, dtype, ls_onnx_attr_float(n, "mask_filter_value", -10000));
    add_bias(n, a, ls_where(n->s, shown, ls_onnx_scalar(n, dtype, 0), filter));
    return LS_OK;
}

/* past[2,B,N,P,D], keys and values stacked, in front of k and v; both stacked are result 1. */
static ls_status with_past(ls_onnx_node *n, attention *a, ls_tensor *past) {
    ls_tensor **both[] = {&a->k, &a->v};
    const ls_shape from = past ? ls_tensor_shape(past) : LS_SCALAR;
    if (past && (from.rank != 5 || !ls_onnx_same(from.dim[0], ls_dim_of(2)))) {
        return ls_onnx_fail(n, LS_ERR_SHAPE, "expected past [2, batch, heads, steps, features]");
    }
    a->past = past ? from.dim[3] : ls_dim_of(0);
    for (int i = 0; i < 2 && past; i++) {
        ls_tensor *old = ls_squeeze(n->s, ls_narrow(n->s, past, 0, i, 1), 0), *parts[] = {old, *both[i]};
        *both[i] = ls_concat(n->s, parts, 2, 2);
    }
    return ls_onnx_wants(n, 1) ? ls_onnx_out(n, 1, ls_stack(n->s, (ls_tensor *[]){a->k, a->v}, 2, 0)) : LS_OK;
}

ls_status ls_onnx_ms_attention(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *w = ls_onnx_in(n, 1), *bias = ls_onnx_in(n, 2), *y = NULL;
    int64_t heads = ls_onnx_attr_int(n, "num_heads", 0), d[LS_MAX_RANK], sizes[3], at = 0;
    int given;
    const int64_t *list = ls_onnx_attr_ints(n, "qkv_hidden_sizes", &given);
    attention a = {.scale = ls_onnx_attr_float(n, "scale", 0), .past = ls_dim_of(0)};
    if (!x || !w) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (ls_onnx_attr_int(n, "do_rotary", 0) || ls_onnx_attr_int(n, "past_present_share_buffer", 0)) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "do_rotary and past_present_share_buffer");
    }
    if (ls_onnx_dims(w, d) != 2 || (given && given != 3)) {
        return ls_onnx_fail(n, LS_ERR_SHAPE,
                            "expected weights [features, q + k + v] and 3 qkv_hidden_sizes or none");
    }
    ls_tensor *all = ls_matmul(n->s, x, w), **parts[] = {&a.q, &a.k, &a.v};
    all = bias ? ls_add(n->s, all, bias) : all;
    if (!all) {
        return ls_onnx_out(n, 0, NULL);
    }
    for (int i = 0; i < 3; i++) {
        sizes[i] = given ? list[i] : d[1] / 3;
        ls_tensor *part = ls_narrow(n->s, all, -1, at, sizes[i]);
        if (!part) {
            return ls_onnx_out(n, 0, NULL);
        }
        LS_TRY(n->err, ls_onnx_split_heads(n, part, heads, parts[i]));
        at += sizes[i];
    }
    LS_TRY(n->err, with_past(n, &a, ls_onnx_in(n, 4)));
    LS_TRY(n->err, measure(n, &a));
    LS_TRY(n->err, read_mask(n, &a, ls_onnx_in(n, 3)));
    add_bias(n, &a, ls_onnx_in(n, 5));
    if (ls_onnx_attr_int(n, "unidirectional", 0)) {
        see_the_past(n, &a);
    }
    LS_TRY(n->err, attend(n, &a, &y));
    return ls_onnx_out(n, 0, y);
}

/* Part i of x[B,S,N,count,D], queries, keys and values beside each other, as [B,N,S,D]. */
static ls_tensor *packed_part(ls_onnx_node *n, ls_tensor *x, int i) {
    ls_tensor *part = ls_squeeze(n->s, ls_narrow(n->s, x, 3, i, 1), 3);
    return ls_transpose(n->s, part, 1, 2);
}

ls_status ls_onnx_ms_multi_head_attention(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *in[3] = {x, ls_onnx_in(n, 1), ls_onnx_in(n, 2)},
              *bias = ls_onnx_in(n, 3), *y = NULL;
    ls_tensor *past[3] = {NULL, ls_onnx_in(n, 6), ls_onnx_in(n, 7)};
    int64_t heads = ls_onnx_attr_int(n, "num_heads", 0), d[LS_MAX_RANK], at = 0;
    attention a = {.scale = ls_onnx_attr_float(n, "scale", 0), .past = ls_dim_of(0)};
    ls_tensor **parts[] = {&a.q, &a.k, &a.v};
    if (!x) {
        return ls_onnx_out(n, 0, NULL);
    }
    bool packed = ls_onnx_dims(x, d) == 5, packed_kv = in[1] && ls_onnx_dims(in[1], d) == 5;
    if ((packed || packed_kv) && bias) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "a bias of packed operands");
    }
    for (int i = 0; i < 3; i++) {
        if (packed || (packed_kv && i)) {
            *parts[i] = packed_part(n, packed ? x : in[1], packed ? i : i - 1);
            continue;
        }
        if (!in[i]) {
            return ls_onnx_fail(n, LS_ERR_INVALID,
                                "operand %d is missing: expected keys and values, or packed ones", i);
        }
        if (bias && ls_onnx_dims(in[i], d) == 3) {
            in[i] = ls_add(n->s, in[i], ls_narrow(n->s, bias, 0, at, d[2]));
            at += d[2];
        }
        LS_TRY(n->err, in[i] ? ls_onnx_split_heads(n, in[i], heads, parts[i]) : ls_onnx_out(n, 0, NULL));
    }
    for (int i = 1; i < 3; i++) {
        if (past[i]) {
            const ls_shape old = ls_tensor_shape(past[i]);
            a.past = old.rank == 4 ? old.dim[2] : ls_dim_of(0);
            *parts[i] = ls_concat(n->s, (ls_tensor *[]){past[i], *parts[i]}, 2, 2);
        }
        if (ls_onnx_wants(n, i)) {
            LS_TRY(n->err, ls_onnx_out(n, i, *parts[i]));
        }
    }
    if (ls_onnx_wants(n, 3)) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "the scores as a result");
    }
    LS_TRY(n->err, measure(n, &a));
    LS_TRY(n->err, read_mask(n, &a, ls_onnx_in(n, 4)));
    add_bias(n, &a, ls_onnx_in(n, 5));
    if (ls_onnx_attr_int(n, "unidirectional", 0)) {
        see_the_past(n, &a);
    }
    LS_TRY(n->err, attend(n, &a, &y));
    return ls_onnx_out(n, 0, y);
}

/* ---- rotary positions ---- */

/* x[B,N,S,D] turned by the rows of the caches [max, R] at ids[B,S] (or [1,S]). */
static ls_tensor *rotated(ls_onnx_node *n, ls_tensor *x, ls_tensor *cosine, ls_tensor *sine, ls_tensor *ids,
                          bool interleaved) {
    if (!x || !cosine || !sine || !ids) {
        return NULL;
    }
    ls_tensor *c = ls_unsqueeze(n->s, ls_gather(n->s, cosine, ids, 0), 1);
    return ls_rotary_embedding(n->s, x, c, ls_unsqueeze(n->s, ls_gather(n->s, sine, ids, 0), 1), interleaved);
}

ls_status ls_onnx_ms_rotary_embedding(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *ids = ls_onnx_in(n, 1), *cosine = ls_onnx_in(n, 2),
              *sine = ls_onnx_in(n, 3), *heads;
    int64_t d[LS_MAX_RANK], c[LS_MAX_RANK], i[LS_MAX_RANK], count = ls_onnx_attr_int(n, "num_heads", 0);
    if (!x || !ids || !cosine || !sine) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (ls_onnx_attr_int(n, "is_packed_batching", 0)) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "is_packed_batching");
    }
    bool flat = ls_onnx_dims(x, d) == 3;
    if (flat && count == 0 && ls_onnx_dims(cosine, c) == 2 && c[1] > 0) {
        count = d[2] / (2 * c[1]);
    }
    LS_TRY(n->err, ls_onnx_split_heads(n, x, count, &heads));
    ls_onnx_dims(heads, d);
    if (ls_onnx_dims(ids, i) < 2) { /* the first position */
        const int64_t one[] = {1, 1};
        const ls_shape line = {.rank = 2, .dim = {ls_dim_of(1), ls_tensor_shape(heads).dim[2]}};
        ls_tensor *steps = ls_iota(n->s, LS_I64, line, 1);
        ids = ls_add(n->s, steps, ls_onnx_shaped(n, ls_cast(n->s, ids, LS_I64), 2, one));
    }
    ls_tensor *y = rotated(n, heads, cosine, sine, ids, ls_onnx_attr_int(n, "interleaved", 0) != 0);
    return ls_onnx_out(n, 0, flat ? ls_onnx_join_heads(n, y) : y);
}

/* ---- GroupQueryAttention ---- */

/* old[B,G,P,D] up to each batch's `before`[B,1] and then fresh[B,G,S,D], as [B,G,total,D]; zeros beyond. */
static ls_tensor *appended(ls_onnx_node *n, ls_tensor *old, ls_tensor *fresh, ls_tensor *before,
                           int64_t total) {
    int64_t p = 0, d[LS_MAX_RANK], o[LS_MAX_RANK];
    if (!fresh || !before) {
        return NULL;
    }
    ls_onnx_dims(fresh, d);
    if (old && ls_onnx_dims(old, o) == 4) {
        p = o[2];
        fresh = ls_concat(n->s, (ls_tensor *[]){old, fresh}, 2, 2);
    }
    ls_tensor *at = ls_iota(n->s, LS_I64, LS_SHAPE(d[0], total), 1), *beyond = ls_sub(n->s, at, before);
    ls_tensor *later =
        ls_add(n->s, ls_min(n->s, ls_max(n->s, beyond, i64(n, 0)), i64(n, d[2] - 1)), i64(n, p));
    ls_tensor *from = ls_where(n->s, ls_lt(n->s, at, before), ls_min(n->s, at, i64(n, p + d[2] - 1)), later);
    ls_tensor *there = ls_lt(n->s, beyond, i64(n, d[2]));
    const int64_t spread[] = {d[0], 1, total, 1};
    if (!from || !there) {
        return NULL;
    }
    from = ls_expand(n->s, ls_onnx_shaped(n, from, 4, spread), LS_SHAPE(d[0], d[1], total, d[3]));
    ls_tensor *zero = ls_onnx_scalar(n, ls_tensor_dtype(fresh), 0);
    return ls_where(n->s, ls_onnx_shaped(n, there, 4, spread), ls_take_along(n->s, fresh, from, 2), zero);
}

ls_status ls_onnx_ms_group_query_attention(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *in[3] = {x, ls_onnx_in(n, 1), ls_onnx_in(n, 2)}, *y = NULL, **parts[3];
    ls_tensor *past[3] = {NULL, ls_onnx_in(n, 3), ls_onnx_in(n, 4)}, *lengths = ls_onnx_in(n, 5);
    int64_t heads = ls_onnx_attr_int(n, "num_heads", 0), groups = ls_onnx_attr_int(n, "kv_num_heads", 0),
            total, d[LS_MAX_RANK];
    attention a = {.scale = ls_onnx_attr_float(n, "scale", 0), .cap = ls_onnx_attr_float(n, "softcap", 0)};
    parts[0] = &a.q;
    parts[1] = &a.k;
    parts[2] = &a.v;
    if (!x || !lengths) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (ls_onnx_has(n, 11) || ls_onnx_attr_int(n, "smooth_softmax", 0) > 0) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "head_sink and smooth_softmax");
    }
    if (ls_onnx_dims(x, d) != 3 || heads < 1 || groups < 1 || heads % groups != 0) {
        return ls_onnx_fail(n, LS_ERR_SHAPE,
                            "%" PRId64 " heads in %" PRId64
                            " groups: expected queries [batch, steps, features]",
                            heads, groups);
    }
    bool packed = !in[1];
    int64_t batch = d[0], steps = d[1], size = packed ? d[2] / (heads + 2 * groups) : 0;
    for (int i = 0; i < 3; i++) {
        if (packed) {
            in[i] =
                ls_narrow(n->s, x, 2, i ? (heads + (i - 1) * groups) * size : 0, (i ? groups : heads) * size);
        }
        LS_TRY(n->err,
               in[i] ? ls_onnx_split_heads(n, in[i], i ? groups : heads, parts[i]) : ls_onnx_out(n, 0, NULL));
    }
    const int64_t each[] = {batch, 1}, spread[] = {batch, 1, 1, 1};
    LS_TRY(n->err, ls_onnx_int(n, 6, 0, &total));
    /* positions before the new ones, for each batch; none while a prompt, padded at its end, is read */
    ls_tensor *before =
        ls_sub(n->s, ls_onnx_shaped(n, ls_cast(n->s, lengths, LS_I64), 2, each), i64(n, steps - 1));
    before = total == steps ? ls_full_i64(n->s, LS_I64, LS_SHAPE(batch, 1), 0) : before;
    ls_tensor *ids = ls_onnx_in(n, 9);
    if (ls_onnx_attr_int(n, "do_rotary", 0)) {
        bool interleaved = ls_onnx_attr_int(n, "rotary_interleaved", 0) != 0;
        ids = ids ? ids : ls_add(n->s, before, ls_iota(n->s, LS_I64, LS_SHAPE(1, steps), 1));
        for (int i = 0; i < 2; i++) {
            *parts[i] = rotated(n, *parts[i], ls_onnx_in(n, 7), ls_onnx_in(n, 8), ids, interleaved);
        }
    }
    for (int i = 1; i < 3; i++) {
        int64_t room = past[i] && ls_onnx_dims(past[i], d) == 4 && d[2] > total ? d[2] : total;
        *parts[i] = appended(n, past[i], *parts[i], before, room);
        LS_TRY(n->err, ls_onnx_out(n, i, *parts[i]));
    }
    LS_TRY(n->err, measure(n, &a));
    const ls_shape grid = {.rank = 2, .dim = {a.steps, a.keys}};
    ls_tensor *key = ls_iota(n->s, LS_I64, grid, 1), *at = ls_iota(n->s, LS_I64, grid, 0);
    at = ls_add(n->s, at, ls_onnx_shaped(n, before, 4, spread));
    ls_tensor *last = ls_onnx_shaped(n, ls_cast(n->s, lengths, LS_I64), 4, spread);
    a.seen = ls_and(n->s, ls_le(n->s, key, at), ls_le(n->s, key, last));
    int64_t window = ls_onnx_attr_int(n, "local_window_size", -1);
    if (window > 0) {
        a.seen = ls_and(n->s, a.seen, ls_gt(n->s, key, ls_sub(n->s, at, i64(n, window))));
    }
    add_bias(n, &a, ls_onnx_in(n, 10));
    LS_TRY(n->err, attend(n, &a, &y));
    return ls_onnx_out(n, 0, y);
}
