/* Attention, FlexAttention, LinearAttention and RotaryEmbedding.
 *
 * Attention in f32 and f64 without extras is ls_attention. Otherwise it is built step by step with the roundings that the
 * specification's function has: queries and keys are scaled by the root of the scale, scores are of the operands' type. */
#include "io/onnx/extent.h"
#include "io/onnx/heads.h"
#include <inttypes.h>
#include <string.h>

ls_status ls_onnx_split_heads(ls_onnx_node *n, ls_tensor *x, int64_t heads, ls_tensor **out) {
    int64_t d[LS_MAX_RANK];
    int rank = ls_onnx_dims(x, d);
    if (rank == 4) {
        *out = x;
        return LS_OK;
    }
    if (rank != 3 || heads < 1 || d[2] < 0 || d[2] % heads != 0) {
        return ls_onnx_fail(n, LS_ERR_SHAPE,
                            "operand of rank %d for %" PRId64
                            " heads: expected [batch, heads, steps, features], or "
                            "[batch, steps, heads * features] and the number of heads",
                            rank, heads);
    }
    const ls_shape from = ls_tensor_shape(x);
    const ls_shape cut = {.rank = 4, .dim = {from.dim[0], from.dim[1], ls_dim_of(heads), ls_dim_of(d[2] / heads)}};
    *out = ls_transpose(n->s, ls_reshape(n->s, x, cut), 1, 2);
    return *out ? LS_OK : ls_onnx_out(n, 0, NULL);
}

ls_tensor *ls_onnx_join_heads(ls_onnx_node *n, ls_tensor *x) {
    if (!x) {
        return NULL;
    }
    const ls_shape from = ls_tensor_shape(x);
    ls_shape joined = {.rank = 3, .dim = {from.dim[0], from.dim[2]}};
    if (!ls_onnx_times(from.dim[1], from.dim[3], &joined.dim[2])) {
        joined.dim[2] = ls_dim_of(-1);
    }
    return ls_reshape(n->s, ls_transpose(n->s, x, 1, 2), joined);
}

/* sqrt(scale), or sqrt(1 / sqrt(features)), in f32 at least, rounded to `dtype`. */
static ls_tensor *root_of_scale(ls_onnx_node *n, ls_dtype dtype, int64_t features) {
    ls_dtype wide = dtype == LS_F64 ? LS_F64 : LS_F32;
    ls_tensor *scale = ls_onnx_attr(n, "scale")
                           ? ls_onnx_scalar(n, wide, ls_onnx_attr_float(n, "scale", 1))
                           : ls_recip(n->s, ls_sqrt(n->s, ls_onnx_scalar(n, wide, (double)features)));
    return ls_cast(n->s, ls_sqrt(n->s, scale), dtype);
}

ls_tensor *ls_onnx_by_groups(ls_onnx_node *n, ls_tensor *a, ls_tensor *b, int axis) {
    if (!a || !b) {
        return NULL;
    }
    const ls_shape sa = ls_tensor_shape(a), sb = ls_tensor_shape(b);
    const ls_dim *da = sa.dim, *db = sb.dim;
    const ls_dim each = ls_dim_of(da[1].offset / db[1].offset); /* heads are fixed */
    const ls_shape cut = {.rank = 5, .dim = {da[0], db[1], each, da[2], da[3]}},
                   whole = {.rank = 4, .dim = {da[0], da[1], da[2], db[5 - axis]}};
    ls_contract_spec spec = {.n_batch = 2,
                             .batch_a = {0, 1},
                             .batch_b = {0, 1},
                             .n_contract = 1,
                             .contract_a = {4},
                             .contract_b = {axis}};
    ls_tensor *y = ls_contract(n->s, ls_reshape(n->s, a, cut), b, &spec, ls_tensor_dtype(a));
    return y ? ls_reshape(n->s, y, whole) : NULL;
}

static ls_status heads_check(ls_onnx_node *n, ls_tensor *q, ls_tensor *k, ls_tensor *v) {
    if (!q || !k || !v) {
        return ls_onnx_out(n, 0, NULL);
    }
    const ls_shape sq = ls_tensor_shape(q), sk = ls_tensor_shape(k), sv = ls_tensor_shape(v);
    const ls_dim *dq = sq.dim, *dk = sk.dim, *dv = sv.dim;
    if (sq.rank != 4 || sk.rank != 4 || sv.rank != 4 || dq[1].symbol || dq[3].symbol || dk[1].symbol || dk[1].offset < 1 ||
        dq[1].offset % dk[1].offset != 0 || !ls_onnx_same(dv[1], dk[1]) || !ls_onnx_same(dv[2], dk[2]) ||
        !ls_onnx_same(dq[3], dk[3]) || !ls_onnx_same(dq[0], dk[0]) || !ls_onnx_same(dq[0], dv[0])) {
        return ls_onnx_fail(
            n, LS_ERR_SHAPE,
            "expected queries [B,H,L,D], keys [B,G,S,D] and values [B,G,S,E] with G dividing H");
    }
    return LS_OK;
}

/* ---- Attention ---- */

typedef struct attention {
    ls_tensor *q, *k, *v; /* [B,H,L,D], [B,G,S,D], [B,G,S,E], with the past */
    ls_tensor *bias;      /* of q's dtype, added to the scores; or NULL */
    ls_tensor *seen;      /* bool: what may be seen; or NULL */
    ls_dim batch, queries, keys, past;
    bool has_past;        /* of any length but 0 */
} attention;

static ls_tensor *i64(ls_onnx_node *n, int64_t value) {
    return ls_full_i64(n->s, LS_I64, LS_SCALAR, value);
}

static ls_tensor *also(ls_onnx_node *n, ls_tensor *seen, ls_tensor *more) {
    return seen ? ls_and(n->s, seen, more) : more;
}

/* What is_causal, the windows and nonpad_kv_seqlen let be seen. Query i stands at position i + offset: after the past, or at the
 * end of each batch's valid keys. */
static void visible(ls_onnx_node *n, attention *a, ls_tensor *valid) {
    const ls_shape grid = {.rank = 2, .dim = {a->queries, a->keys}};
    bool causal = ls_onnx_attr_int(n, "is_causal", 0) != 0;
    int64_t left = ls_onnx_attr_int(n, "left_window_size", -1),
            right = ls_onnx_attr_int(n, "right_window_size", -1);
    ls_tensor *key = ls_iota(n->s, LS_I64, grid, 1), *at = ls_iota(n->s, LS_I64, grid, 0);
    const ls_shape each = {.rank = 4, .dim = {a->batch, ls_dim_of(1), ls_dim_of(1), ls_dim_of(1)}};
    if (valid) {
        valid = ls_reshape(n->s, ls_cast(n->s, valid, LS_I64), each);
    }
    ls_tensor *past = ls_onnx_extent_tensor(n, a->past);
    if (valid && !a->has_past) {
        past = ls_sub(n->s, valid, ls_onnx_extent_tensor(n, a->queries));
    }
    at = ls_add(n->s, at, past);
    if (causal) {
        a->seen = also(n, a->seen, ls_le(n->s, key, at));
    }
    if (left >= 0) {
        a->seen = also(n, a->seen, ls_le(n->s, ls_sub(n->s, at, key), i64(n, left)));
    }
    if (right >= 0) {
        a->seen = also(n, a->seen, ls_le(n->s, ls_sub(n->s, key, at), i64(n, right)));
    }
    if (valid) {
        a->seen = also(n, a->seen, ls_lt(n->s, key, valid));
    }
}

/* The mask operand, as wide as the keys: where it ends early nothing is seen. */
static ls_status read_mask(ls_onnx_node *n, attention *a, ls_tensor *mask) {
    ls_pad_spec pads[LS_MAX_RANK] = {{0, 0, 0}};
    const ls_shape from = ls_tensor_shape(mask);
    int rank = from.rank;
    bool boolean = ls_tensor_dtype(mask) == LS_BOOL, short_of = false, wide = false;
    if (rank > 0 && !ls_onnx_same(from.dim[rank - 1], a->keys) && !ls_onnx_same(from.dim[rank - 1], ls_dim_of(1))) {
        LS_TRY(n->err, ls_onnx_at_least(n, from.dim[rank - 1], a->keys, &short_of));
        LS_TRY(n->err, ls_onnx_at_least(n, from.dim[rank - 1], ls_dim_of(2), &wide));
        short_of = !short_of && wide;
    }
    if (short_of) {
        ls_dim more;
        if (!ls_onnx_minus(a->keys, from.dim[rank - 1], &more) || more.symbol) {
            return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "a mask that ends before the keys by a number that has a symbol");
        }
        pads[rank - 1].high = more.offset;
        mask = ls_pad(n->s, mask, pads, boolean ? 0 : -__builtin_inf());
    }
    if (boolean) {
        a->seen = also(n, a->seen, mask);
        return LS_OK;
    }
    a->bias = mask ? ls_cast(n->s, mask, ls_tensor_dtype(a->q)) : NULL;
    return LS_OK;
}

static ls_tensor *below_all(ls_onnx_node *n, ls_tensor *like) {
    return ls_onnx_scalar(n, ls_tensor_dtype(like), -__builtin_inf());
}

static ls_status step_by_step(ls_onnx_node *n, const attention *a, ls_tensor **out_y) {
    int64_t features[LS_MAX_RANK], mode = ls_onnx_attr_int(n, "qk_matmul_output_mode", 0);
    ls_dtype dtype = ls_tensor_dtype(a->q);
    double cap = ls_onnx_attr_float(n, "softcap", 0);
    int64_t precision = ls_onnx_attr_int(n, "softmax_precision", ls_onnx_type_of(dtype));
    ls_dtype soft = ls_onnx_carrier((int)precision);
    if (soft != LS_F16 && soft != LS_BF16 && soft != LS_F32 && soft != LS_F64) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "softmax_precision %" PRId64 ": expected a floating type",
                            precision);
    }
    ls_onnx_dims(a->q, features);
    ls_tensor *root = root_of_scale(n, dtype, features[3]), *shown[4];
    ls_tensor *scores = ls_onnx_by_groups(n, ls_mul(n->s, a->q, root), ls_mul(n->s, a->k, root), 3);
    shown[0] = scores;
    if (cap != 0) {
        ls_tensor *c = ls_onnx_scalar(n, dtype, cap);
        scores = ls_mul(n->s, ls_tanh(n->s, ls_div(n->s, scores, c)), c);
    }
    shown[1] = scores;
    if (!scores) {
        return ls_onnx_out(n, 0, NULL);
    }
    ls_tensor *none = below_all(n, scores), *seen = a->seen;
    if (a->bias) { /* a score that is no number must not show through a mask */
        seen = also(n, seen, ls_ne(n->s, a->bias, none));
        scores = ls_add(n->s, scores, a->bias);
    }
    scores = seen ? ls_where(n->s, seen, scores, none) : scores;
    shown[2] = scores;
    ls_tensor *p =
        scores ? ls_cast(n->s, ls_masked_softmax(n->s, ls_cast(n->s, scores, soft), -1), dtype) : NULL;
    shown[3] = p;
    *out_y = p ? ls_onnx_by_groups(n, p, ls_cast(n->s, a->v, dtype), 2) : NULL;
    return ls_onnx_wants(n, 3) ? ls_onnx_out(n, 3, shown[mode >= 0 && mode < 4 ? mode : 0]) : LS_OK;
}

static ls_status attend(ls_onnx_node *n) {
    ls_tensor *q = ls_onnx_in(n, 0), *k = ls_onnx_in(n, 1), *v = ls_onnx_in(n, 2), *mask = ls_onnx_in(n, 3),
              *y = NULL;
    ls_tensor *past_k = ls_onnx_in(n, 4), *past_v = ls_onnx_in(n, 5), *valid = ls_onnx_in(n, 6);
    int64_t d[LS_MAX_RANK];
    attention a = {.past = ls_dim_of(0)};
    if (!q || !k || !v) {
        return ls_onnx_out(n, 0, NULL);
    }
    bool flat = ls_onnx_dims(q, d) == 3;
    int64_t kv_heads = ls_onnx_attr_int(n, "kv_num_heads", 0);
    LS_TRY(n->err, ls_onnx_split_heads(n, q, ls_onnx_attr_int(n, "q_num_heads", 0), &a.q));
    LS_TRY(n->err, ls_onnx_split_heads(n, k, kv_heads, &a.k));
    LS_TRY(n->err, ls_onnx_split_heads(n, v, kv_heads, &a.v));
    if ((past_k != NULL) != (past_v != NULL)) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "past_key and past_value: expected both or neither");
    }
    if (past_k) {
        const ls_shape old = ls_tensor_shape(past_k);
        bool none;
        a.past = old.rank == 4 ? old.dim[2] : ls_dim_of(0);
        LS_TRY(n->err, valid ? ls_onnx_equal(n, a.past, ls_dim_of(0), &none) : LS_OK);
        a.has_past = valid && !none;
        a.k = ls_concat(n->s, (ls_tensor *[]){past_k, a.k}, 2, 2);
        a.v = ls_concat(n->s, (ls_tensor *[]){past_v, a.v}, 2, 2);
    }
    LS_TRY(n->err, heads_check(n, a.q, a.k, a.v));
    LS_TRY(n->err, ls_onnx_out(n, 1, a.k));
    LS_TRY(n->err, ls_onnx_out(n, 2, a.v));
    const ls_shape queries = ls_tensor_shape(a.q), keys = ls_tensor_shape(a.k);
    a.batch = queries.dim[0];
    a.queries = queries.dim[2];
    a.keys = keys.dim[2];
    visible(n, &a, valid);
    if (mask) {
        LS_TRY(n->err, read_mask(n, &a, mask));
    }
    ls_dtype dtype = ls_tensor_dtype(a.q);
    bool plain = (dtype == LS_F32 || dtype == LS_F64) && !ls_onnx_wants(n, 3) &&
                 !ls_onnx_attr(n, "softmax_precision") && ls_onnx_attr_float(n, "softcap", 0) == 0 &&
                 ls_tensor_dtype(a.k) == dtype && ls_tensor_dtype(a.v) == dtype;
    if (plain) {
        ls_attention_spec spec = {.scale = ls_onnx_attr_float(n, "scale", 0), .mask = a.seen};
        if (a.bias) {
            spec.mask = a.seen ? ls_where(n->s, a.seen, a.bias, below_all(n, a.bias)) : a.bias;
        }
        y = ls_attention(n->s, a.q, a.k, a.v, &spec);
    } else {
        LS_TRY(n->err, step_by_step(n, &a, &y));
    }
    return ls_onnx_out(n, 0, flat ? ls_onnx_join_heads(n, y) : y);
}

/* ---- FlexAttention ---- */

/* A subgraph from one tensor to one. */
static ls_status modified(ls_onnx_node *n, const char *attribute, ls_tensor **x) {
    const ls_onnx_graph *g = ls_onnx_attr_graph(n, attribute);
    ls_onnx_value *in, *out;
    if (!g) {
        return LS_OK;
    }
    if (ls_onnx_graph_inputs(g) != 1 || ls_onnx_graph_outputs(g) != 1) {
        return ls_onnx_fail(n, LS_ERR_INVALID, "%s: expected a graph of one input and one output", attribute);
    }
    ls_dtype dtype = ls_tensor_dtype(*x);
    in = ls_onnx_value_of(n, *x, ls_onnx_type_of(dtype));
    if (!in) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, ls_onnx_call(n, g, 1, &in, &out));
    ls_tensor *t = ls_onnx_tensor(n, out);
    *x = t ? ls_cast(n->s, t, dtype) : NULL;
    return *x ? LS_OK : ls_onnx_out(n, 0, NULL);
}

static ls_status flex_attention(ls_onnx_node *n) {
    ls_tensor *q = ls_onnx_in(n, 0), *k = ls_onnx_in(n, 1), *v = ls_onnx_in(n, 2);
    int64_t d[LS_MAX_RANK];
    LS_TRY(n->err, heads_check(n, q, k, v));
    ls_onnx_dims(q, d);
    ls_dtype dtype = ls_tensor_dtype(q), soft = dtype == LS_F64 ? LS_F64 : LS_F32;
    if (ls_onnx_attr(n, "softmax_precision")) {
        soft = ls_onnx_carrier((int)ls_onnx_attr_int(n, "softmax_precision", 0));
        if (soft != LS_F16 && soft != LS_BF16 && soft != LS_F32 && soft != LS_F64) {
            return ls_onnx_fail(n, LS_ERR_UNSUPPORTED, "softmax_precision: expected a floating type");
        }
    }
    ls_tensor *root = root_of_scale(n, dtype, d[3]);
    ls_tensor *scores = ls_onnx_by_groups(n, ls_mul(n->s, q, root), ls_mul(n->s, k, root), 3);
    scores = scores ? ls_cast(n->s, scores, soft) : NULL;
    if (!scores) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, modified(n, "score_mod", &scores));
    ls_tensor *p = ls_softmax(n->s, scores, -1);
    if (!p) {
        return ls_onnx_out(n, 0, NULL);
    }
    LS_TRY(n->err, modified(n, "prob_mod", &p));
    ls_tensor *y = ls_onnx_by_groups(n, p, ls_cast(n->s, v, soft), 2);
    return ls_onnx_out(n, 0, y ? ls_cast(n->s, y, ls_tensor_dtype(v)) : NULL);
}

/* ---- RotaryEmbedding ---- */

static ls_status rotary(ls_onnx_node *n) {
    ls_tensor *x = ls_onnx_in(n, 0), *cache[2] = {ls_onnx_in(n, 1), ls_onnx_in(n, 2)},
              *ids = ls_onnx_in(n, 3), *heads;
    int64_t d[LS_MAX_RANK], given[LS_MAX_RANK];
    if (!x || !cache[0] || !cache[1]) {
        return ls_onnx_out(n, 0, NULL);
    }
    bool flat = ls_onnx_dims(x, d) == 3;
    LS_TRY(n->err, ls_onnx_split_heads(n, x, ls_onnx_attr_int(n, "num_heads", 0), &heads));
    ls_onnx_dims(heads, d);
    int64_t turned = ls_onnx_attr_int(n, "rotary_embedding_dim", 0);
    turned = turned ? turned : d[3];
    for (int i = 0; i < 2; i++) { /* to [B,1,S,R] */
        ls_tensor *c = ids ? ls_gather(n->s, cache[i], ids, 0) : cache[i];
        if (!c) {
            return ls_onnx_out(n, 0, NULL);
        }
        if (ls_onnx_dims(c, given) != 3 || given[2] * 2 != turned) {
            return ls_onnx_fail(n, LS_ERR_SHAPE, "expected cosines and sines [batch, steps, %" PRId64 "]",
                                turned / 2);
        }
        cache[i] = ls_unsqueeze(n->s, c, 1);
    }
    bool interleaved = ls_onnx_attr_int(n, "interleaved", 0) != 0;
    ls_tensor *y = ls_rotary_embedding(n->s, heads, cache[0], cache[1], interleaved);
    return ls_onnx_out(n, 0, flat ? ls_onnx_join_heads(n, y) : y);
}

/* ---- LinearAttention ---- */

/* [B,T,heads * features] to [B,heads,T,features] in f32. */
static ls_status wide_heads(ls_onnx_node *n, ls_tensor *x, int64_t heads, ls_tensor **out) {
    LS_TRY(n->err, ls_onnx_split_heads(n, x, heads, out));
    *out = ls_cast(n->s, *out, LS_F32);
    return *out ? LS_OK : ls_onnx_out(n, 0, NULL);
}

static ls_status linear_attention(ls_onnx_node *n) {
    ls_tensor *in[6], *part[6] = {NULL}, *last = NULL;
    int64_t d[LS_MAX_RANK], dk[LS_MAX_RANK], dv[LS_MAX_RANK];
    int64_t heads = ls_onnx_attr_int(n, "q_num_heads", 0), groups = ls_onnx_attr_int(n, "kv_num_heads", 0);
    const char *rule = ls_onnx_attr_string(n, "update_rule", "gated_delta");
    bool gated = strncmp(rule, "gated", 5) == 0,
         delta = strcmp(rule, "delta") == 0 || strcmp(rule, "gated_delta") == 0;
    for (int i = 0; i < 6; i++) {
        in[i] = ls_onnx_in(n, i);
    }
    if (!in[0] || !in[1] || !in[2]) {
        return ls_onnx_out(n, 0, NULL);
    }
    if (!gated && !delta && strcmp(rule, "linear") != 0) {
        return ls_onnx_fail(n, LS_ERR_UNSUPPORTED,
                            "update_rule \"%s\": expected linear, gated, delta or gated_delta", rule);
    }
    if (gated != (in[4] != NULL) || delta != (in[5] != NULL)) {
        return ls_onnx_fail(n, LS_ERR_INVALID,
                            "update_rule \"%s\": expected decay if it is gated, beta if it is a delta rule",
                            rule);
    }
    for (int i = 0; i < 3; i++) {
        LS_TRY(n->err, wide_heads(n, in[i], i ? groups : heads, &part[i]));
    }
    if (in[4]) {
        LS_TRY(n->err, wide_heads(n, in[4], groups, &part[4]));
    }
    if (in[5]) { /* one rate a head, or one for all */
        ls_onnx_dims(in[5], d);
        LS_TRY(n->err, wide_heads(n, in[5], d[2], &part[5]));
    }
    ls_onnx_dims(part[0], d);
    ls_onnx_dims(part[1], dk);
    ls_onnx_dims(part[2], dv);
    ls_dtype dtype = ls_tensor_dtype(in[0]), state = in[3] ? ls_tensor_dtype(in[3]) : dtype;
    part[3] =
        in[3] ? ls_cast(n->s, in[3], LS_F32) : ls_full(n->s, LS_F32, LS_SHAPE(d[0], dk[1], dk[3], dv[3]), 0);
    ls_linear_attention_spec spec = {ls_onnx_attr_float(n, "scale", 0), part[4], part[5]};
    ls_tensor *y = ls_linear_attention(n->s, part[0], part[1], part[2], part[3], &spec, &last);
    LS_TRY(n->err, ls_onnx_out(n, 0, y ? ls_cast(n->s, ls_onnx_join_heads(n, y), dtype) : NULL));
    return ls_onnx_out(n, 1, ls_cast(n->s, last, state));
}

const ls_onnx_op ls_onnx_attention_ops[] = {{"", "Attention", 23, 3, 7, attend, ONNX_SYMBOLS},
                                            {"", "RotaryEmbedding", 23, 3, 4, rotary, ONNX_SYMBOLS},
                                            {"", "LinearAttention", 1, 3, 6, linear_attention, 0},
                                            {"ai.onnx.preview", "FlexAttention", 1, 3, 3, flex_attention, 0},
                                            {0}};
