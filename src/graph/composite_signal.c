/* Composites of signal processing: Fourier transforms by their matrices, windows.
 *
 * An angle 2 pi p / period is reduced in integers to an eighth of a turn, so that its sine and cosine are
 * as good as the elementary functions are near 0, for any length, and quarter turns are exact. */
#include "graph/build.h"

static const double quarter_pi = 0.78539816339744830962;

/* Where `turned` is 0: cos(2 pi p / period), else sin, for whole p of any sign-free value; of dtype f32 or
 * f64. */
static ls_tensor *circle(ls_session *s, ls_tensor *p, int64_t period, int turned, ls_dtype wide) {
    if (!p) {
        return NULL;
    }
    ls_tensor *n = ls_const_like(s, p, (double)period), *eight = ls_const_like(s, p, 8);
    p = ls_mul(s, ls_rem(s, p, n), eight);
    ls_tensor *octant = ls_div(s, p, n), *rest = ls_rem(s, p, n);
    if (!octant || !rest) {
        return NULL;
    }
    ls_tensor *one = ls_const_like(s, p, 1), *two = ls_const_like(s, p, 2), *four = ls_const_like(s, p, 4),
              *zero = ls_const_like(s, p, 0);
    if (turned) {
        octant = ls_add(s, octant, ls_const_like(s, p, 6)); /* sin t = cos(t - a quarter turn) */
    }
    ls_tensor *odd = ls_ne(s, ls_and(s, octant, one), zero);
    ls_tensor *steep = ls_ne(s, ls_and(s, ls_add(s, octant, one), two), zero);
    ls_tensor *negative = ls_ne(s, ls_and(s, ls_add(s, octant, two), four), zero);
    ls_tensor *part = ls_cast(s, ls_where(s, odd, ls_sub(s, n, rest), rest), wide);
    if (!part) {
        return NULL;
    }
    ls_tensor *angle = ls_mul(s, ls_div(s, part, ls_const_like(s, part, (double)period)),
                              ls_const_like(s, part, quarter_pi));
    ls_tensor *value = ls_where(s, steep, ls_sin(s, angle), ls_cos(s, angle));
    return ls_where(s, negative, ls_neg(s, value), value);
}

/* Products of indices below 2^31 / 8 stay in i32, which every device has. */
static ls_dtype index_dtype(int64_t rows, int64_t columns, int64_t period) {
    return rows < 16384 && columns < 16384 && period < 1 << 28 ? LS_I32 : LS_I64;
}

static bool dtype_check(ls_session *s, const char *name, ls_dtype dtype) {
    if ((unsigned)dtype >= LS_DTYPE_COUNT || !ls_dtype_is_float(dtype)) {
        LS_NODE_FAIL(s, LS_ERR_DTYPE, "%s: %s: expected a floating dtype", name, ls_dtype_name(dtype));
        return false;
    }
    return true;
}

/* The lengths of a transform: of the signal, of what is read and of what is given. */
typedef struct dft_lengths {
    int64_t length, rows, bins;
    int parts_in, parts_out;
} dft_lengths;

static bool dft_check(ls_session *s, int64_t extent, int parts, const ls_dft_spec *spec, dft_lengths *out) {
    bool real = spec->inverse && spec->onesided;
    int64_t length = spec->length ? spec->length : real ? 2 * (extent - 1) : extent;
    if ((parts != 1 && parts != 2) || length < 1 || length > 1 << 28 || extent < 1) {
        LS_NODE_FAIL(
            s, LS_ERR_SHAPE,
            "dft: length %lld of %lld elements of %d parts: expected lengths of at least 1, and 1 or 2 parts",
            (long long)length, (long long)extent, parts);
        return false;
    }
    int64_t half = length / 2 + 1, read = real ? half : length;
    *out = (dft_lengths){length, extent < read ? extent : read, spec->onesided && !real ? half : length,
                         parts, real ? 1 : 2};
    return true;
}

/* cos and sin of 2 pi n k / length as [rows, bins]. */
static bool tables(ls_session *s, const dft_lengths *l, ls_dtype wide, ls_tensor **out_cos,
                   ls_tensor **out_sin) {
    ls_shape shape = LS_SHAPE(l->rows, l->bins);
    ls_dtype index = index_dtype(l->rows, l->bins, l->length);
    ls_tensor *p = ls_mul(s, ls_iota(s, index, shape, 0), ls_iota(s, index, shape, 1));
    *out_cos = circle(s, p, l->length, 0, wide);
    *out_sin = circle(s, p, l->length, 1, wide);
    return *out_cos && *out_sin;
}

/* What bin n of the inverse of a onesided transform counts: twice, but for those that are their own mirror
 * image. */
static ls_tensor *mirrored(ls_session *s, const dft_lengths *l, ls_dtype wide) {
    ls_shape shape = LS_SHAPE(l->rows, 1);
    ls_tensor *n = ls_iota(s, LS_I32, shape, 0);
    if (!n) {
        return NULL;
    }
    ls_tensor *own = ls_or(s, ls_eq(s, n, ls_const_like(s, n, 0)),
                           ls_eq(s, ls_add(s, n, n), ls_const_like(s, n, (double)l->length)));
    return ls_where(s, own, ls_full(s, wide, shape, 1), ls_full(s, wide, shape, 2));
}

ls_tensor *ls_dft_matrix(ls_session *s, ls_dtype dtype, int64_t extent, int parts, const ls_dft_spec *spec) {
    dft_lengths l;
    if (!dtype_check(s, "dft", dtype) || !dft_check(s, extent, parts, spec, &l)) {
        return NULL;
    }
    ls_dtype wide = ls_dtype_compute(dtype);
    ls_tensor *c, *v;
    if (!tables(s, &l, wide, &c, &v)) {
        return NULL;
    }
    if (spec->inverse) {
        v = ls_neg(s, v);
    }
    if (l.parts_out == 1) {
        ls_tensor *weight = mirrored(s, &l, wide);
        c = ls_mul(s, c, weight);
        v = ls_mul(s, v, weight);
    }
    /* y = (re + j im)(c - j v): from the real part (c, -v), from the imaginary one (v, c). */
    ls_tensor *from_re[] = {c, ls_neg(s, v)}, *from_im[] = {v, c};
    ls_tensor *rows[] = {ls_stack(s, from_re, l.parts_out, 2),
                         parts == 2 ? ls_stack(s, from_im, l.parts_out, 2) : NULL};
    return ls_cast(s, ls_stack(s, rows, parts, 1), dtype);
}

ls_tensor *ls_dft(ls_session *s, ls_tensor *x, const ls_dft_spec *spec) {
    int axis;
    dft_lengths l;
    if (!ls_check_operands(s, "dft", 1, &x) || !ls_check_given(s, "dft", "spec", spec) || !ls_check_float(s, "dft", x) ||
        !ls_check_rank(s, "dft", x, 2, LS_MAX_RANK) || !ls_axis_check(s, "dft", x, spec->axis, &axis)) {
        return NULL;
    }
    int rank = x->shape.rank, order[LS_MAX_RANK];
    ls_dim n = x->shape.dim[axis], parts = x->shape.dim[rank - 1];
    if (axis == rank - 1 || !ls_dim_is_fixed(n) || !ls_dim_is_fixed(parts)) {
        return LS_NODE_FAIL(
            s, LS_ERR_SHAPE,
            "dft: axis %d of %s: expected one of fixed extent before the last, of 1 or 2 parts", axis,
            LS_TEXT(x));
    }
    if (!dft_check(s, n.offset, (int)parts.offset, spec, &l)) {
        return NULL;
    }
    ls_tensor *matrix = spec->matrix ? spec->matrix : ls_dft_matrix(s, x->dtype, n.offset, l.parts_in, spec);
    ls_shape expected = {.rank = 4,
                         .dim = {ls_dim_fixed(l.rows), ls_dim_fixed(l.parts_in), ls_dim_fixed(l.bins),
                                 ls_dim_fixed(l.parts_out)}};
    if (!matrix) {
        return NULL;
    }
    if (!ls_shape_equal(&matrix->shape, &expected) || matrix->dtype != x->dtype) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE, "dft: the matrix is %s for %s: expected %s of the same dtype",
                            LS_TEXT(matrix), LS_TEXT(x), LS_SHAPE_TEXT_OF(&expected));
    }
    ls_contract_spec sum = {.n_contract = 2, .contract_a = {axis, rank - 1}, .contract_b = {0, 1}};
    ls_dtype wide = ls_dtype_compute(x->dtype);
    ls_tensor *y = ls_contract(s, ls_narrow(s, x, axis, 0, l.rows), matrix, &sum, wide);
    for (int i = 0; i < rank; i++) { /* the bins are the last axis but one: back to where the signal was */
        order[i] = i < axis || i == rank - 1 ? i : i == axis ? rank - 2 : i - 1;
    }
    y = ls_permute(s, y, order);
    if (y && spec->inverse) {
        y = ls_div(s, y, ls_const_like(s, y, (double)l.length));
    }
    return y ? ls_cast(s, y, x->dtype) : NULL;
}

ls_tensor *ls_stft(ls_session *s, ls_tensor *x, int64_t step, ls_tensor *window, const ls_dft_spec *spec) {
    if (!ls_check_operands(s, "stft", 2, (ls_tensor *[]){x, window}) || !ls_check_float(s, "stft", x) ||
        !ls_check_rank(s, "stft", x, 3, 3) || !ls_check_rank(s, "stft", window, 1, 1) ||
        !ls_check_same_dtype(s, "stft", window, x)) {
        return NULL;
    }
    ls_dim n = x->shape.dim[1], w = window->shape.dim[0];
    if (!ls_dim_is_fixed(n) || !ls_dim_is_fixed(w) || step < 1 || w.offset < 1 || w.offset > n.offset ||
        (spec->length && spec->length < w.offset)) {
        return LS_NODE_FAIL(
            s, LS_ERR_SHAPE,
            "stft: %s in frames of %s every %lld: expected frames of fixed length that fit, and a step "
            "of at least 1",
            LS_TEXT(x), LS_TEXT(window), (long long)step);
    }
    ls_window_spec frames = {w.offset, step, 1};
    ls_tensor *y = ls_window(s, x, 1, (const int[]){1}, &frames); /* [batch, frames, parts, w] */
    y = ls_permute(s, ls_mul(s, y, window), (const int[]){0, 1, 3, 2});
    ls_dft_spec inner = *spec;
    inner.axis = 2;
    inner.inverse = 0;
    return ls_dft(s, y, &inner);
}

/* ---- windows ---- */

ls_tensor *ls_cosine_window(ls_session *s, ls_dtype dtype, int64_t n, int periodic, double a0, double a1,
                            double a2) {
    int64_t period = periodic ? n : n - 1;
    if (!dtype_check(s, "window", dtype)) {
        return NULL;
    }
    if (n < 0 || n > 1 << 28) {
        return LS_NODE_FAIL(s, LS_ERR_SHAPE, "window: length %lld: expected 0 to 2^28", (long long)n);
    }
    ls_dtype wide = ls_dtype_compute(dtype);
    if (n < 2) {
        return ls_full(s, dtype, LS_SHAPE(n), 1);
    }
    ls_tensor *i = ls_iota(s, LS_I64, LS_SHAPE(n), 0);
    ls_tensor *first = circle(s, i, period, 0, wide), *second = circle(s, ls_add(s, i, i), period, 0, wide);
    if (!first || !second) {
        return NULL;
    }
    ls_tensor *y = ls_sub(s, ls_const_like(s, first, a0), ls_mul(s, first, ls_const_like(s, first, a1)));
    if (a2 != 0) {
        y = ls_add(s, y, ls_mul(s, second, ls_const_like(s, second, a2)));
    }
    return y ? ls_cast(s, y, dtype) : NULL;
}

ls_tensor *ls_hann_window(ls_session *s, ls_dtype dtype, int64_t n, int periodic) {
    return ls_cosine_window(s, dtype, n, periodic, 0.5, 0.5, 0);
}

ls_tensor *ls_hamming_window(ls_session *s, ls_dtype dtype, int64_t n, int periodic) {
    return ls_cosine_window(s, dtype, n, periodic, 25.0 / 46.0, 21.0 / 46.0, 0);
}

ls_tensor *ls_blackman_window(ls_session *s, ls_dtype dtype, int64_t n, int periodic) {
    return ls_cosine_window(s, dtype, n, periodic, 0.42, 0.5, 0.08);
}
