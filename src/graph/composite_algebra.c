/* Composites of algebra: sums of products by labels (einsum), determinants, remainders and powers of
 * integers, log-sum-exp. */
#include "graph/build.h"
#include <inttypes.h>
#include <lockstep/grad.h>
#include <string.h>

/* ---- element by element ---- */

ls_tensor *ls_mod(ls_session *s, ls_tensor *a, ls_tensor *b) {
    ls_tensor *r = ls_rem(s, a, b);
    if (!r) {
        return NULL;
    }
    ls_tensor *zero = ls_const_like(s, r, 0);
    ls_tensor *wide_b = ls_broadcast_to(s, "mod", b, &r->shape);
    ls_tensor *apart = ls_xor(s, ls_lt(s, r, zero), ls_lt(s, wide_b, zero));
    ls_tensor *fix = ls_and(s, ls_ne(s, r, zero), apart);
    return ls_where(s, fix, ls_add(s, r, wide_b), r);
}

/* a^b by squaring, wrapping: as many steps as b has bits. */
ls_tensor *ls_pow_int(ls_session *s, ls_tensor *a, ls_tensor *b) {
    ls_tensor *src[] = {a, b};
    ls_shape shape;
    if (!ls_check_operands(s, "pow_int", 2, src)) {
        return NULL;
    }
    if (!ls_dtype_is_int(a->dtype) || !ls_dtype_is_int(b->dtype)) {
        return LS_NODE_FAIL(s, LS_ERR_DTYPE, "pow_int: operands are %s and %s: expected integers", LS_TEXT(a),
                            LS_TEXT(b));
    }
    if (!ls_shape_broadcast(&a->shape, &b->shape, &shape)) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE,
                            "pow_int: operands are %s and %s: expected shapes that broadcast", LS_TEXT(a),
                            LS_TEXT(b));
    }
    ls_tensor *base = ls_broadcast_to(s, "pow_int", a, &shape), *e = ls_broadcast_to(s, "pow_int", b, &shape);
    if (!base || !e) {
        return NULL;
    }
    ls_tensor *y = ls_const_like(s, base, 1), *square = base, *none = ls_const_like(s, e, 0);
    int bits = (int)ls_dtype_size(b->dtype) * 8;
    for (int i = 0; i < bits; i++) {
        ls_tensor *bit = ls_and(s, ls_shr(s, e, ls_const_like(s, e, i)), ls_const_like(s, e, 1));
        y = ls_where(s, ls_ne(s, bit, none), ls_mul(s, y, square), y);
        square = i + 1 < bits ? ls_mul(s, square, square) : square;
    }
    bool is_signed = b->dtype >= LS_I8 && b->dtype <= LS_I64;
    if (!is_signed || !y) {
        return y;
    }
    /* A negative power of 1 or -1 is the power by its lowest bit, which the loop gave; of others,
     * truncated, 0. */
    ls_tensor *unit = ls_eq(s, ls_abs(s, base), ls_const_like(s, base, 1));
    ls_tensor *gone = ls_and(s, ls_lt(s, e, none), ls_not(s, unit));
    return ls_where(s, gone, ls_const_like(s, base, 0), y);
}

/* ---- log(sum(exp(x))) ---- */

ls_tensor *ls_logsumexp(ls_session *s, ls_tensor *x, int count, const int *axes, int keep_dims) {
    int list[LS_MAX_RANK];
    if (!ls_check_operands(s, "logsumexp", 1, &x) || !ls_check_float(s, "logsumexp", x) ||
        !ls_axes_check(s, "logsumexp", x, count, axes, list)) {
        return NULL;
    }
    bool empty = false;
    for (int i = 0; i < x->shape.rank; i++) {
        empty |= ls_dim_is_fixed(x->shape.dim[i]) && x->shape.dim[i].offset == 0;
    }
    ls_tensor *w = ls_cast(s, x, ls_dtype_compute(x->dtype));
    if (empty) { /* no extreme: log(0) */
        return ls_cast(s, ls_log(s, ls_sum(s, w, count, list, keep_dims)), x->dtype);
    }
    ls_tensor *top = ls_stop_gradient(s, ls_amax(s, w, count, list, 1));
    if (!top) {
        return NULL;
    }
    /* Infinite extremes are not subtracted: inf - inf is NaN. */
    ls_tensor *shift = ls_where(s, ls_isinf(s, top), ls_const_like(s, top, 0), top);
    ls_tensor *total = ls_sum(s, ls_exp(s, ls_sub(s, w, shift)), count, list, 1);
    ls_tensor *y = ls_add(s, ls_log(s, total), shift);
    if (y && !keep_dims) {
        bool gone[LS_MAX_RANK] = {false};
        ls_shape shape = {.rank = 0};
        for (int i = 0; i < count; i++) {
            gone[list[i]] = true;
        }
        for (int i = 0; i < x->shape.rank && count; i++) {
            if (!gone[i]) {
                shape.dim[shape.rank++] = x->shape.dim[i];
            }
        }
        y = ls_reshape(s, y, shape);
    }
    return y ? ls_cast(s, y, x->dtype) : NULL;
}

/* ---- determinant: elimination with partial pivoting, a loop over the columns ---- */

typedef struct det_size {
    int64_t batch, n;
} det_size;

static ls_tensor *as_shape(ls_session *s, ls_tensor *x, int64_t a, int64_t b, int64_t c) {
    return ls_reshape(s, x, c < 0 ? LS_SHAPE(a, b) : LS_SHAPE(a, b, c));
}

/* carry: the matrix [B,n,n] whose rows and columns before `k` are done with, and the product of the
 * pivots [B,1]. */
static ls_status det_step(ls_session *s, void *ctx, ls_tensor *k, ls_tensor *const *carry,
                          ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)xs;
    (void)out_ys;
    const det_size *d = ctx;
    int64_t b = d->batch, n = d->n;
    int last = 1;
    ls_dtype dtype = carry[0]->dtype;
    ls_shape plane = LS_SHAPE(b, n);
    ls_tensor *rows = ls_iota(s, LS_I64, plane, 1);
    ls_tensor *column = ls_gather(s, carry[0], k, 2);
    ls_tensor *unseen = ls_full(s, dtype, plane, -1);
    ls_tensor *size = ls_where(s, ls_ge(s, rows, k), ls_abs(s, ls_stop_gradient(s, column)), unseen);
    ls_tensor *p = ls_argmax(s, size, 1, &last, 1);
    ls_tensor *there = ls_where(s, ls_eq(s, rows, p), k, rows);
    ls_tensor *order = ls_where(s, ls_eq(s, rows, k), p, there);
    order = ls_expand(s, as_shape(s, order, b, n, 1), LS_SHAPE(b, n, n));
    ls_tensor *a = ls_take_along(s, carry[0], order, 1);
    ls_tensor *row = ls_gather(s, a, k, 1);
    ls_tensor *pivot = as_shape(s, ls_gather(s, row, k, 1), b, 1, -1);
    if (!pivot) {
        return LS_ERR_INVALID;
    }
    ls_tensor *zero = ls_const_like(s, pivot, 0), *one = ls_const_like(s, pivot, 1);
    ls_tensor *sign = ls_where(s, ls_eq(s, p, k), one, ls_neg(s, one));
    ls_tensor *safe = ls_where(s, ls_eq(s, pivot, zero), one, pivot);
    ls_tensor *factor = ls_div(s, ls_gather(s, a, k, 2), safe);
    factor = ls_where(s, ls_gt(s, rows, k), factor, ls_full(s, dtype, plane, 0));
    ls_tensor *taken = ls_mul(s, as_shape(s, factor, b, n, 1), as_shape(s, row, b, 1, n));
    out_carry[0] = ls_sub(s, a, taken);
    out_carry[1] = ls_mul(s, carry[1], ls_mul(s, pivot, sign));
    return out_carry[0] && out_carry[1] ? LS_OK : LS_ERR_INVALID;
}

ls_tensor *ls_det(ls_session *s, ls_tensor *x) {
    if (!ls_check_operands(s, "det", 1, &x) || !ls_check_float(s, "det", x) ||
        !ls_check_rank(s, "det", x, 2, LS_MAX_RANK)) {
        return NULL;
    }
    int rank = x->shape.rank;
    ls_shape batch = x->shape;
    batch.rank = rank - 2;
    if (!ls_shape_is_fixed(&x->shape) || x->shape.dim[rank - 1].offset != x->shape.dim[rank - 2].offset) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE, "det: operand is %s: expected fixed extents and square matrices",
                            LS_TEXT(x));
    }
    det_size d = {1, x->shape.dim[rank - 1].offset};
    for (int i = 0; i < batch.rank; i++) {
        d.batch *= batch.dim[i].offset;
    }
    ls_dtype wide = ls_dtype_compute(x->dtype);
    ls_tensor *carry[2] = {as_shape(s, ls_cast(s, x, wide), d.batch, d.n, d.n),
                           ls_full(s, wide, LS_SHAPE(d.batch, 1), 1)};
    ls_tensor *out[2] = {carry[0], carry[1]};
    if (!carry[0] || !carry[1] ||
        (d.n > 0 && ls_loop(s, ls_dim_of(d.n), 2, carry, 0, NULL, 0, det_step, &d, out, NULL) != LS_OK)) {
        return NULL;
    }
    return ls_cast(s, ls_reshape(s, out[1], batch), x->dtype);
}

/* ---- einsum ---- */

enum {
    FIRST_ELLIPSIS = 52,
    LABELS = FIRST_ELLIPSIS + LS_MAX_RANK
}; /* A-Z, a-z, the axes of "..." aligned at the right */

typedef struct term {
    int n;
    int label[2 * LS_MAX_RANK];
} term;

typedef struct einsum {
    ls_session *s;
    const char *equation;
    int used[LABELS]; /* operands' axes of each label */
    int ellipsis;     /* the most axes that "..." stands for */
} einsum;

static int label_of(char c) {
    return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? 26 + (c - 'a') : -1;
}

static bool einsum_fail(const einsum *e, const char *why) {
    LS_NODE_FAIL(e->s, LS_ERR_INVALID, "einsum: \"%s\": %s", e->equation, why);
    return false;
}

/* Reads one term up to ',', '-' or the end; `rank` -1: of the result, where "..." is as long as the
 * longest. */
static bool read_term(einsum *e, const char **at, int rank, term *out) {
    int letters = 0, dots = 0;
    const char *p = *at;
    for (const char *q = p; *q && *q != ',' && *q != '-'; q++) {
        letters += label_of(*q) >= 0;
        dots += *q == '.';
    }
    if (dots != 0 && dots != 3) {
        return einsum_fail(e, "expected an ellipsis of three dots, once a term");
    }
    int wide = !dots ? 0 : rank < 0 ? e->ellipsis : rank - letters;
    if (wide < 0 || letters + wide > LS_MAX_RANK || (rank >= 0 && letters + wide != rank)) {
        return einsum_fail(e, "a term has more or fewer labels than its operand has axes");
    }
    out->n = 0;
    for (; *p && *p != ',' && *p != '-'; p++) {
        if (*p == '.') {
            if (strncmp(p, "...", 3) != 0) {
                return einsum_fail(e, "expected an ellipsis of three dots, once a term");
            }
            for (int i = LABELS - wide; i < LABELS; i++) {
                out->label[out->n++] = i;
            }
            p += 2;
        } else if (label_of(*p) >= 0) {
            out->label[out->n++] = label_of(*p);
        } else if (*p != ' ') {
            return einsum_fail(e, "expected letters, an ellipsis, ',' and \"->\" only");
        }
    }
    e->ellipsis = rank >= 0 && wide > e->ellipsis ? wide : e->ellipsis;
    *at = p;
    return true;
}

static int find(const term *t, int label) {
    for (int i = 0; i < t->n; i++) {
        if (t->label[i] == label) {
            return i;
        }
    }
    return -1;
}

static void drop(term *t, int axis) {
    t->n--;
    for (int i = axis; i < t->n; i++) {
        t->label[i] = t->label[i + 1];
    }
}

/* The diagonal over axes i < j of one label, as a last axis. */
static ls_tensor *diagonal(einsum *e, ls_tensor *x, term *t, int i, int j) {
    ls_session *s = e->s;
    int axes[LS_MAX_RANK], n = 0, rank = x->shape.rank, label = t->label[i];
    if (!ls_dim_is_fixed(x->shape.dim[i]) || !ls_dim_equal(x->shape.dim[i], x->shape.dim[j])) {
        einsum_fail(e, "a label that an operand repeats needs equal fixed extents");
        return NULL;
    }
    for (int a = 0; a < rank; a++) {
        if (a != i && a != j) {
            axes[n++] = a;
        }
    }
    axes[n] = i;
    axes[n + 1] = j;
    int64_t extent = x->shape.dim[i].offset;
    ls_tensor *y = ls_permute(s, x, axes);
    if (!y) {
        return NULL;
    }
    ls_shape flat = y->shape;
    flat.rank = rank - 1;
    flat.dim[n] = ls_dim_of(extent * extent);
    y = ls_reshape(s, y, flat);
    int64_t start[LS_MAX_RANK] = {0}, step[LS_MAX_RANK];
    for (int a = 0; a < LS_MAX_RANK; a++) {
        step[a] = 1;
    }
    step[n] = extent + 1;
    flat.dim[n] = ls_dim_of(extent);
    drop(t, j);
    drop(t, i);
    t->label[t->n++] = label;
    return y ? ls_slice_to(s, y, start, step, &flat) : NULL;
}

/* Sums out what nobody else needs. */
static ls_tensor *sum_out(einsum *e, ls_tensor *x, term *t, const bool needed[LABELS]) {
    int axes[LS_MAX_RANK], count = 0;
    term left = {0};
    for (int i = 0; i < t->n; i++) {
        if (needed[t->label[i]]) {
            left.label[left.n++] = t->label[i];
        } else {
            axes[count++] = i;
        }
    }
    *t = left;
    return count ? ls_sum(e->s, x, count, axes, 0) : x;
}

/* An axis of extent 1 beside a longer one of the same label broadcasts: it is not there. */
static ls_tensor *drop_ones(einsum *e, ls_tensor *x, term *t, const ls_tensor *y, const term *u) {
    for (int i = t->n - 1; x && i >= 0; i--) {
        int j = find(u, t->label[i]);
        if (j >= 0 && ls_dim_is_one(x->shape.dim[i]) && !ls_dim_is_one(y->shape.dim[j])) {
            x = ls_squeeze(e->s, x, i);
            drop(t, i);
        }
    }
    return x;
}

/* a := the product of a and b, summed over the labels that are not needed after. */
static ls_tensor *product(einsum *e, ls_tensor *a, term *ta, ls_tensor *b, term *tb,
                          const bool needed[LABELS]) {
    bool want_a[LABELS], want_b[LABELS];
    ls_tensor *a1 = drop_ones(e, a, ta, b, tb);
    b = a1 ? drop_ones(e, b, tb, a1, ta) : NULL;
    for (int i = 0; i < LABELS; i++) {
        want_a[i] = needed[i] || find(tb, i) >= 0;
        want_b[i] = needed[i] || find(ta, i) >= 0;
    }
    a = b ? sum_out(e, a1, ta, want_a) : NULL;
    b = a ? sum_out(e, b, tb, want_b) : NULL;
    if (!b) {
        return NULL;
    }
    ls_contract_spec spec = {0};
    term result = {0}, rest = {0};
    for (int i = 0; i < ta->n; i++) {
        int j = find(tb, ta->label[i]);
        if (j < 0) {
            rest.label[rest.n++] = ta->label[i];
        } else if (needed[ta->label[i]]) {
            spec.batch_a[spec.n_batch] = i;
            spec.batch_b[spec.n_batch++] = j;
            result.label[result.n++] = ta->label[i];
        } else {
            spec.contract_a[spec.n_contract] = i;
            spec.contract_b[spec.n_contract++] = j;
        }
    }
    for (int i = 0; i < tb->n; i++) {
        if (find(ta, tb->label[i]) < 0) {
            rest.label[rest.n++] = tb->label[i];
        }
    }
    memcpy(result.label + result.n, rest.label, sizeof *rest.label * (size_t)rest.n);
    result.n += rest.n;
    *ta = result;
    return ls_contract(e->s, a, b, &spec, a->dtype);
}

/* The labels after "->", or, without it, "..." and then those that stand once, in the order of the
 * alphabet. */
static bool read_result(einsum *e, const char *at, term *out) {
    if (*at) {
        if (at[0] != '-' || at[1] != '>') {
            return einsum_fail(e, "expected \"->\" before the result");
        }
        at += 2;
        if (!read_term(e, &at, -1, out) || *at) {
            return *at ? einsum_fail(e, "expected nothing after the result") : false;
        }
    } else {
        out->n = 0;
        for (int i = LABELS - e->ellipsis; i < LABELS; i++) {
            out->label[out->n++] = i;
        }
        for (int i = 0; i < FIRST_ELLIPSIS && out->n <= LS_MAX_RANK; i++) {
            if (e->used[i] == 1) {
                out->label[out->n++] = i;
            }
        }
    }
    for (int i = 0; i < out->n; i++) {
        if (!e->used[out->label[i]] || find(out, out->label[i]) != i) {
            return einsum_fail(e, "a label of the result is in no operand, or twice in the result");
        }
    }
    return out->n <= LS_MAX_RANK || einsum_fail(e, "the result has too many axes");
}

static bool read_terms(einsum *e, ls_tensor *const *xs, int count, term *terms, term *out) {
    const char *at = e->equation;
    for (int i = 0; i < count; i++) {
        if (!read_term(e, &at, xs[i]->shape.rank, &terms[i])) {
            return false;
        }
        if ((*at == ',') != (i + 1 < count)) {
            return einsum_fail(e, "more or fewer terms than operands");
        }
        at += *at == ',';
        for (int j = 0; j < terms[i].n; j++) {
            e->used[terms[i].label[j]]++;
        }
    }
    return read_result(e, at, out);
}

static ls_tensor *diagonals(einsum *e, ls_tensor *x, term *t) {
    for (int j = 1; x && j < t->n; j++) {
        int i = find(t, t->label[j]);
        if (i < j) {
            x = diagonal(e, x, t, i, j);
            j = 0;
        }
    }
    return x;
}

#define EINSUM_OPERANDS 32
ls_tensor *ls_einsum(ls_session *s, const char *equation, ls_tensor *const *xs, int count) {
    einsum e = {.s = s, .equation = equation};
    term terms[EINSUM_OPERANDS], out;
    if (count < 1 || count > EINSUM_OPERANDS) {
        return LS_NODE_FAIL(s, LS_ERR_INVALID, "einsum: %d operands: expected 1 to %d", count,
                            EINSUM_OPERANDS);
    }
    if (!ls_check_operands(s, "einsum", count, xs) || !ls_check_given(s, "einsum", "equation", equation) || !read_terms(&e, xs, count, terms, &out)) {
        return NULL;
    }
    ls_tensor *y = diagonals(&e, xs[0], &terms[0]);
    for (int i = 1; y && i < count; i++) {
        bool needed[LABELS] = {false};
        for (int j = 0; j < out.n; j++) {
            needed[out.label[j]] = true;
        }
        for (int k = i + 1; k < count; k++) {
            for (int j = 0; j < terms[k].n; j++) {
                needed[terms[k].label[j]] = true;
            }
        }
        ls_tensor *x = diagonals(&e, xs[i], &terms[i]);
        y = x ? product(&e, y, &terms[0], x, &terms[i], needed) : NULL;
    }
    bool wanted[LABELS] = {false};
    int axes[LS_MAX_RANK];
    for (int j = 0; j < out.n; j++) {
        wanted[out.label[j]] = true;
    }
    y = y ? sum_out(&e, y, &terms[0], wanted) : NULL;
    for (int j = 0; y && j < out.n; j++) {
        axes[j] = find(&terms[0], out.label[j]);
    }
    return y ? ls_permute(s, y, axes) : NULL;
}
