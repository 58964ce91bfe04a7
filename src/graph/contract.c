/* Contraction, and matrix products as contractions. Result axes: batch pairs, a's others, b's others. A
 * CONTRACT node always has at least one contracted pair (an outer product contracts an axis of extent 1). */
#include "graph/build.h"
#include <inttypes.h>
#include <string.h>

static bool result_dtype_fits(ls_dtype operand, ls_dtype result) {
    bool half = operand == LS_F16 || operand == LS_BF16;
    bool small = ls_dtype_is_int(operand) && ls_dtype_size(operand) <= 2;
    return result == operand || (half && result == LS_F32) || (small && result == LS_I32);
}

static bool pairs_check(ls_session *s, const char *what, const ls_tensor *a, const ls_tensor *b, int n,
                        const int *pa, const int *pb, int *out_a, int *out_b) {
    for (int i = 0; i < n; i++) {
        if (!ls_axis_check(s, "contract", a, pa[i], &out_a[i]) ||
            !ls_axis_check(s, "contract", b, pb[i], &out_b[i])) {
            return false;
        }
        if (!ls_dim_equal(a->shape.dim[out_a[i]], b->shape.dim[out_b[i]])) {
            LS_NODE_FAIL(s, LS_ERR_SHAPE, "contract: %s axes %d of %s and %d of %s: expected equal extents",
                         what, out_a[i], LS_TEXT(a), out_b[i], LS_TEXT(b));
            return false;
        }
    }
    return true;
}

/* Appends the extents of x that are in neither list; false when an axis is in both, or twice in one. */
static bool free_axes(const ls_tensor *x, const int *batch, int n_batch, const int *contracted,
                      int n_contract, ls_dim *out, int *inout_count) {
    unsigned used = 0;
    for (int i = 0; i < n_batch + n_contract; i++) {
        unsigned bit = 1u << (i < n_batch ? batch[i] : contracted[i - n_batch]);
        if (used & bit) {
            return false;
        }
        used |= bit;
    }
    for (int i = 0; i < x->shape.rank; i++) {
        if (!(used >> i & 1)) {
            out[(*inout_count)++] = x->shape.dim[i];
        }
    }
    return true;
}

ls_tensor *ls_contract(ls_session *s, ls_tensor *a, ls_tensor *b, const ls_contract_spec *spec,
                       ls_dtype dtype) {
    ls_tensor *src[] = {a, b};
    ls_attr attr;
    memset(&attr, 0, sizeof attr);
    ls_contract_spec *c = &attr.contract;
    if (!ls_check_operands(s, "contract", 2, src) || !ls_check_same_dtype(s, "contract", b, a)) {
        return NULL;
    }
    if (!ls_op_accepts(LS_OP_CONTRACT, a->dtype) || (unsigned)dtype >= LS_DTYPE_COUNT ||
        !result_dtype_fits(a->dtype, dtype)) {
        return LS_NODE_FAIL(
            s, LS_ERR_DTYPE,
            "contract: %s and %s into %s: expected the operands' own numeric dtype, f32 for f16 and "
            "bf16, or i32 for 8- and 16-bit integers",
            LS_TEXT(a), LS_TEXT(b), ls_dtype_name(dtype));
    }
    if (!ls_check_given(s, "contract", "spec", spec)) {
        return NULL;
    }
    if (spec->n_batch < 0 || spec->n_contract < 0 || spec->n_batch + spec->n_contract > LS_MAX_RANK) {
        return LS_NODE_FAIL(s, LS_ERR_INVALID,
                            "contract: %d batch and %d contracted axes: expected 0 to %d in all",
                            spec->n_batch, spec->n_contract, LS_MAX_RANK);
    }
    if (!pairs_check(s, "batch", a, b, spec->n_batch, spec->batch_a, spec->batch_b, c->batch_a, c->batch_b) ||
        !pairs_check(s, "contracted", a, b, spec->n_contract, spec->contract_a, spec->contract_b,
                     c->contract_a, c->contract_b)) {
        return NULL;
    }
    c->n_batch = spec->n_batch;
    c->n_contract = spec->n_contract;
    ls_dim dims[2 * LS_MAX_RANK];
    int n = 0;
    for (int i = 0; i < c->n_batch; i++) {
        dims[n++] = a->shape.dim[c->batch_a[i]];
    }
    if (!free_axes(a, c->batch_a, c->n_batch, c->contract_a, c->n_contract, dims, &n) ||
        !free_axes(b, c->batch_b, c->n_batch, c->contract_b, c->n_contract, dims, &n)) {
        return LS_NODE_FAIL(s, LS_ERR_INVALID, "contract: operands %s and %s: an axis is paired twice",
                            LS_TEXT(a), LS_TEXT(b));
    }
    if (n > LS_MAX_RANK) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE, "contract: operands %s and %s give rank %d: expected at most %d",
                            LS_TEXT(a), LS_TEXT(b), n, LS_MAX_RANK);
    }
    ls_shape shape = {.rank = n};
    memcpy(shape.dim, dims, sizeof *dims * (size_t)n);
    if (c->n_contract == 0) {
        for (int i = 0; i < 2; i++) {
            src[i] = ls_unsqueeze(s, src[i], -1);
            if (!src[i]) {
                return NULL;
            }
        }
        c->contract_a[0] = a->shape.rank;
        c->contract_b[0] = b->shape.rank;
        c->n_contract = 1;
    }
    return ls_node(s, LS_OP_CONTRACT, dtype, &shape, 2, src, &attr);
}

/* Broadcasts the axes before the last two of both operands to common ones. */
static bool matmul_batch(ls_session *s, ls_tensor **a, ls_tensor **b) {
    ls_shape batch[2], joint;
    ls_tensor **xs[] = {a, b};
    for (int i = 0; i < 2; i++) {
        batch[i] = (*xs[i])->shape;
        batch[i].rank -= 2;
    }
    if (!ls_shape_broadcast(&batch[0], &batch[1], &joint)) {
        LS_NODE_FAIL(s, LS_ERR_SHAPE, "matmul: operands are %s and %s: batch axes do not broadcast",
                     LS_TEXT(*a), LS_TEXT(*b));
        return false;
    }
    for (int i = 0; i < 2; i++) {
        ls_shape full = joint;
        full.dim[full.rank++] = (*xs[i])->shape.dim[batch[i].rank];
        full.dim[full.rank++] = (*xs[i])->shape.dim[batch[i].rank + 1];
        *xs[i] = ls_broadcast_to(s, "matmul", *xs[i], &full);
        if (!*xs[i]) {
            return false;
        }
    }
    return true;
}

ls_tensor *ls_matmul(ls_session *s, ls_tensor *a, ls_tensor *b) {
    if (!ls_check_operands(s, "matmul", 2, (ls_tensor *[]){a, b}) ||
        !ls_check_same_dtype(s, "matmul", b, a)) {
        return NULL;
    }
    int ra = a->shape.rank, rb = b->shape.rank;
    if (ra == 0 || rb == 0 || !ls_dim_equal(a->shape.dim[ra - 1], b->shape.dim[rb == 1 ? 0 : rb - 2])) {
        return LS_NODE_FAIL(
            s, LS_ERR_SHAPE,
            "matmul: operands are %s and %s: expected the last axis of the first to match the last but "
            "one (of a vector: the only one) of the second",
            LS_TEXT(a), LS_TEXT(b));
    }
    if (!ls_op_accepts(LS_OP_CONTRACT, a->dtype)) {
        return LS_NODE_FAIL(s, LS_ERR_DTYPE, "matmul: operands are %s and %s: expected a numeric dtype",
                            LS_TEXT(a), LS_TEXT(b));
    }
    ls_contract_spec spec = {.n_contract = 1};
    if (rb > 2 && ra > 2) {
        if (!matmul_batch(s, &a, &b)) {
            return NULL;
        }
        spec.n_batch = a->shape.rank - 2;
        for (int i = 0; i < spec.n_batch; i++) {
            spec.batch_a[i] = spec.batch_b[i] = i;
        }
        ra = rb = a->shape.rank;
    }
    spec.contract_a[0] = ra - 1;
    spec.contract_b[0] = rb == 1 ? 0 : rb - 2;
    ls_tensor *y = ls_contract(s, a, b, &spec, a->dtype);
    if (!y || ra != 2 || rb <= 2) {
        return y; /* a's free axes are the batch and the rows already */
    }
    int axes[LS_MAX_RANK]; /* rows came first: [m, batch..., n] */
    for (int i = 0; i < y->shape.rank; i++) {
        axes[i] = i < rb - 2 ? i + 1 : i == rb - 2 ? 0 : i;
    }
    return ls_permute(s, y, axes);
}

ls_tensor *ls_linear(ls_session *s, ls_tensor *x, ls_tensor *w, ls_tensor *bias) {
    if (!ls_check_operands(s, "linear", bias ? 3 : 2, (ls_tensor *[]){x, w, bias}) ||
        !ls_check_same_dtype(s, "linear", w, x) || !ls_check_same_dtype(s, "linear", bias, x)) {
        return NULL;
    }
    int rank = x->shape.rank;
    if (rank < 1 || w->shape.rank != 2 || !ls_dim_equal(x->shape.dim[rank - 1], w->shape.dim[1]) ||
        (bias && (bias->shape.rank != 1 || !ls_dim_equal(bias->shape.dim[0], w->shape.dim[0])))) {
        return LS_NODE_FAIL(
            s, LS_ERR_SHAPE,
            "linear: operands are %s, %s and %s: expected x[..., in], w[out, in] and bias[out] or NULL",
            LS_TEXT(x), LS_TEXT(w), LS_TEXT(bias));
    }
    ls_contract_spec spec = {.n_contract = 1, .contract_a = {rank - 1}, .contract_b = {1}};
    ls_tensor *y = ls_contract(s, x, w, &spec, x->dtype);
    return y && bias ? ls_add(s, y, bias) : y;
}
