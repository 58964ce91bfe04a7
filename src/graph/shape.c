/* Extents and shapes. An extent is affine in at most one symbol, with a positive scale; a shape's unused
 * entries are ignored here and zero inside nodes. */
#include "base/number.h"
#include "graph/build.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* So that bytes are counted by size_t: in WebAssembly that has 32 bits. */
#define MAX_NUMEL_LOG2 (sizeof(size_t) > 4 ? 56 : 28)
#define MAX_NUMEL ((int64_t)1 << MAX_NUMEL_LOG2)

ls_shape ls_shape_make(int rank, const int64_t *dims) {
    ls_shape shape = {.rank = -1};
    if (rank < 0 || rank > LS_MAX_RANK) {
        return shape;
    }
    for (int i = 0; i < rank; i++) {
        if (dims[i] < -1) { /* -1 is ls_reshape's; the others refuse it */
            return shape;
        }
        shape.dim[i] = ls_dim_fixed(dims[i]);
    }
    shape.rank = rank;
    return shape;
}

ls_dim ls_dim_of(int64_t size) {
    return ls_dim_fixed(size);
}

ls_dim ls_dim_symbol(ls_symbol *symbol, int64_t scale, int64_t offset) {
    return symbol && scale ? (ls_dim){symbol, scale, offset} : ls_dim_fixed(offset);
}

bool ls_shape_equal(const ls_shape *a, const ls_shape *b) {
    if (a->rank != b->rank) {
        return false;
    }
    for (int i = 0; i < a->rank; i++) {
        if (!ls_dim_equal(a->dim[i], b->dim[i])) {
            return false;
        }
    }
    return true;
}

bool ls_shape_is_fixed(const ls_shape *shape) {
    for (int i = 0; i < shape->rank; i++) {
        if (!ls_dim_is_fixed(shape->dim[i])) {
            return false;
        }
    }
    return true;
}

int64_t ls_shape_numel(const ls_shape *shape, const int64_t *values) {
    int64_t n = 1;
    for (int i = 0; i < shape->rank; i++) {
        n *= ls_dim_eval(shape->dim[i], values);
    }
    return n;
}

void ls_shape_bounds(const ls_shape *shape, int64_t out_dims[LS_MAX_RANK]) {
    for (int i = 0; i < shape->rank; i++) {
        out_dims[i] = ls_dim_bound(shape->dim[i]);
    }
}

void ls_shape_strides(const ls_shape *shape, int64_t out_strides[LS_MAX_RANK]) {
    int64_t stride = 1;
    for (int i = shape->rank; i-- > 0;) {
        out_strides[i] = stride;
        stride *= ls_dim_bound(shape->dim[i]);
    }
}

static int dim_text(char *buf, size_t size, ls_dim d) {
    if (!d.symbol) {
        return snprintf(buf, size, "%" PRId64, d.offset);
    }
    char scale[24] = "", offset[24] = "";
    if (d.scale != 1) {
        snprintf(scale, sizeof scale, "%" PRId64 "*", d.scale);
    }
    if (d.offset) {
        snprintf(offset, sizeof offset, "%+" PRId64, d.offset);
    }
    return snprintf(buf, size, "%s%.32s%s", scale, d.symbol->name, offset);
}

const char *ls_shape_text(const ls_shape *shape, char buf[LS_SHAPE_TEXT]) {
    if (shape->rank < 0 || shape->rank > LS_MAX_RANK) {
        snprintf(buf, LS_SHAPE_TEXT, "[rank %d]", shape->rank);
        return buf;
    }
    size_t len = 0;
    buf[len++] = '[';
    for (int i = 0; i < shape->rank; i++) {
        char dim[96];
        int n = dim_text(dim, sizeof dim, shape->dim[i]);
        if (len + (size_t)n + 6 > LS_SHAPE_TEXT) {
            memcpy(buf + len, "...", 3);
            len += 3;
            break;
        }
        if (i) {
            buf[len++] = ',';
        }
        memcpy(buf + len, dim, (size_t)n);
        len += (size_t)n;
    }
    buf[len++] = ']';
    buf[len] = 0;
    return buf;
}

const char *ls_tensor_text(const ls_tensor *x, char buf[LS_TENSOR_TEXT]) {
    if (!x) {
        snprintf(buf, LS_TENSOR_TEXT, "NULL");
        return buf;
    }
    int n = snprintf(buf, 8, "%s", ls_dtype_name(x->dtype));
    ls_shape_text(&x->shape, buf + n);
    return buf;
}

bool ls_dim_affine(ls_dim d, int64_t mul, int64_t add, ls_dim *out) {
    ls_dim r = {d.symbol, 0, 0};
    if (__builtin_mul_overflow(d.scale, mul, &r.scale) || __builtin_mul_overflow(d.offset, mul, &r.offset) ||
        __builtin_add_overflow(r.offset, add, &r.offset)) {
        return false;
    }
    int64_t bound;
    if (r.symbol && (__builtin_mul_overflow(r.scale, r.symbol->bound, &bound) ||
                     __builtin_add_overflow(bound, r.offset, &bound))) {
        return false;
    }
    *out = r;
    return ls_dim_bound(r) >= 0;
}

bool ls_dim_add(ls_dim a, ls_dim b, ls_dim *out) {
    if (a.symbol && b.symbol && a.symbol != b.symbol) {
        return false;
    }
    ls_dim r = {a.symbol ? a.symbol : b.symbol, 0, 0};
    if (__builtin_add_overflow(a.scale, b.scale, &r.scale) ||
        __builtin_add_overflow(a.offset, b.offset, &r.offset)) {
        return false;
    }
    return ls_dim_affine(r, 1, 0, out);
}

bool ls_shape_check(ls_session *s, const char *operation, const ls_shape *shape) {
    if (shape->rank < 0 || shape->rank > LS_MAX_RANK) {
        LS_NODE_FAIL(s, LS_ERR_SHAPE,
                     "%s: a shape of rank %d or with an extent below 0: expected rank 0 to %d and extents of "
                     "0 or more",
                     operation, shape->rank, LS_MAX_RANK);
        return false;
    }
    int64_t n = 1;
    bool big = false;
    for (int i = 0; i < shape->rank; i++) {
        ls_dim d = shape->dim[i], checked;
        bool bad = d.symbol ? d.scale < 1 || (d.symbol->heap && d.symbol->heap != ls_graph_of(s)->heap) : d.scale != 0;
        if (bad || !ls_dim_affine(d, 1, 0, &checked)) {
            LS_NODE_FAIL(s, LS_ERR_SHAPE,
                         "%s: shape %s: the extent of axis %d is not an extent (0 or more, a positive scale "
                         "of a symbol of this context)",
                         operation, LS_SHAPE_TEXT_OF(shape), i);
            return false;
        }
        int64_t extent = ls_dim_bound(d) ? ls_dim_bound(d) : 1; /* beside an extent of 0, too, so that no product of some overflows */
        big |= __builtin_mul_overflow(n, extent, &n) || n > MAX_NUMEL;
    }
    if (big) {
        LS_NODE_FAIL(s, LS_ERR_SHAPE, "%s: shape %s has more than 2^%d elements", operation,
                     LS_SHAPE_TEXT_OF(shape), MAX_NUMEL_LOG2);
        return false;
    }
    return true;
}

bool ls_shape_broadcast(const ls_shape *a, const ls_shape *b, ls_shape *out) {
    ls_shape r = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int i = 0; i < r.rank; i++) {
        int ia = i - (r.rank - a->rank), ib = i - (r.rank - b->rank);
        ls_dim one = ls_dim_fixed(1);
        ls_dim da = ia < 0 ? one : a->dim[ia], db = ib < 0 ? one : b->dim[ib];
        if (ls_dim_equal(da, db) || ls_dim_equal(db, one)) {
            r.dim[i] = da;
        } else if (ls_dim_equal(da, one)) {
            r.dim[i] = db;
        } else {
            return false;
        }
    }
    *out = r;
    return true;
}

/* A number of elements: a fixed factor times primitive affine factors, sorted. */
typedef struct product {
    int64_t fixed;
    int n;
    ls_dim factor[LS_MAX_RANK];
} product;

static bool dim_less(ls_dim a, ls_dim b) {
    if (a.symbol->index != b.symbol->index) {
        return a.symbol->index < b.symbol->index;
    }
    return a.scale != b.scale ? a.scale < b.scale : a.offset < b.offset;
}

/* Of counts: INT64_MAX, which no tensor has, where the product does not fit. */
static int64_t times(int64_t a, int64_t b) {
    int64_t c;
    return __builtin_mul_overflow(a, b, &c) ? INT64_MAX : c;
}

static product product_of(const ls_shape *shape, int skip) {
    product p = {.fixed = 1};
    for (int i = 0; i < shape->rank; i++) {
        ls_dim d = shape->dim[i];
        if (i == skip) {
            continue;
        }
        if (!d.symbol) {
            p.fixed = times(p.fixed, d.offset);
            continue;
        }
        int64_t g = ls_gcd(d.scale, d.offset);
        d.scale /= g;
        d.offset /= g;
        p.fixed = times(p.fixed, g);
        int at = p.n++;
        for (; at > 0 && dim_less(d, p.factor[at - 1]); at--) {
            p.factor[at] = p.factor[at - 1];
        }
        p.factor[at] = d;
    }
    return p;
}

bool ls_shape_same_numel(const ls_shape *a, const ls_shape *b) {
    product pa = product_of(a, -1), pb = product_of(b, -1);
    if (pa.fixed == 0 || pb.fixed == 0) {
        return pa.fixed == pb.fixed;
    }
    if (pa.fixed != pb.fixed || pa.n != pb.n) {
        return false;
    }
    for (int i = 0; i < pa.n; i++) {
        if (!ls_dim_equal(pa.factor[i], pb.factor[i])) {
            return false;
        }
    }
    return true;
}

bool ls_shape_infer(const ls_shape *from, ls_shape *shape) {
    int hole = -1;
    for (int i = 0; i < shape->rank; i++) {
        if (!shape->dim[i].symbol && shape->dim[i].offset == -1) {
            if (hole >= 0) {
                return false;
            }
            hole = i;
        }
    }
    if (hole < 0) {
        return true;
    }
    product want = product_of(from, -1), have = product_of(shape, hole);
    if (have.fixed == 0 || want.fixed % have.fixed) {
        return false;
    }
    ls_dim left = ls_dim_fixed(1);
    int i = 0, n_left = 0;
    for (int j = 0; j < want.n; j++) { /* both are sorted: what `have` lacks is left */
        if (i < have.n && ls_dim_equal(want.factor[j], have.factor[i])) {
            i++;
        } else {
            left = want.factor[j];
            n_left++;
        }
    }
    return i == have.n && n_left <= 1 && ls_dim_affine(left, want.fixed / have.fixed, 0, &shape->dim[hole]);
}

ls_shape ls_shape_remove(const ls_shape *shape, int axis) {
    ls_shape r = {.rank = shape->rank - 1};
    for (int i = 0; i < r.rank; i++) {
        r.dim[i] = shape->dim[i < axis ? i : i + 1];
    }
    return r;
}

ls_shape ls_shape_insert(const ls_shape *shape, int axis, ls_dim dim) {
    ls_shape r = {.rank = shape->rank + 1};
    for (int i = 0; i < r.rank && i < LS_MAX_RANK; i++) {
        r.dim[i] = i < axis ? shape->dim[i] : i == axis ? dim : shape->dim[i - 1];
    }
    return r;
}

bool ls_axis_check(ls_session *s, const char *operation, const ls_tensor *x, int axis, int *out_axis) {
    int rank = x->shape.rank;
    if (axis < -rank || axis >= rank) {
        LS_NODE_FAIL(s, LS_ERR_INVALID, "%s: axis %d of %s: expected %d to %d", operation, axis, LS_TEXT(x),
                     -rank, rank - 1);
        return false;
    }
    *out_axis = axis < 0 ? axis + rank : axis;
    return true;
}

bool ls_axes_check(ls_session *s, const char *operation, const ls_tensor *x, int count, const int *axes,
                   int *out_axes) {
    unsigned seen = 0;
    if (count < 0 || count > x->shape.rank) {
        LS_NODE_FAIL(s, LS_ERR_INVALID, "%s: %d axes of %s: expected at most %d", operation, count,
                     LS_TEXT(x), x->shape.rank);
        return false;
    }
    if (count > 0 && !ls_check_given(s, operation, "list of axes", axes)) {
        return false;
    }
    for (int i = 0; i < count; i++) {
        if (!ls_axis_check(s, operation, x, axes[i], &out_axes[i])) {
            return false;
        }
        if (seen >> out_axes[i] & 1) {
            LS_NODE_FAIL(s, LS_ERR_INVALID, "%s: axis %d of %s is given twice", operation, axes[i],
                         LS_TEXT(x));
            return false;
        }
        seen |= 1u << out_axes[i];
    }
    return true;
}

/* ---- facts ---- */

ls_shape ls_tensor_shape(const ls_tensor *tensor) {
    return tensor ? tensor->shape : (ls_shape){.rank = -1};
}

ls_dtype ls_tensor_dtype(const ls_tensor *tensor) {
    return tensor ? tensor->dtype : LS_DTYPE_COUNT;
}

ls_device *ls_tensor_device(const ls_tensor *tensor) {
    return tensor ? tensor->device : NULL;
}
