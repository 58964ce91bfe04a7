/* What builders share. Internal to src/graph. */
#ifndef LOCKSTEP_GRAPH_BUILD_H
#define LOCKSTEP_GRAPH_BUILD_H

#include "graph/graph.h"

/* "f32[2,3]"; returns buf. "NULL" for NULL. */
#define LS_TENSOR_TEXT (LS_SHAPE_TEXT + 8)
const char *ls_tensor_text(const ls_tensor *x, char buf[LS_TENSOR_TEXT]);
#define LS_TEXT(x) ls_tensor_text((x), (char[LS_TENSOR_TEXT]){0})
#define LS_SHAPE_TEXT_OF(shape) ls_shape_text((shape), (char[LS_SHAPE_TEXT]){0})

/* ---- extents; false on overflow or where the result is no extent ---- */
/* (d * mul + add) for mul >= 1. */
bool ls_dim_affine(ls_dim d, int64_t mul, int64_t add, ls_dim *out);
bool ls_dim_add(ls_dim a, ls_dim b, ls_dim *out);
/* Whether `what` an operation must be given is not NULL; false with an error. */
bool ls_check_given(ls_session *s, const char *operation, const char *what, const void *given);
/* Rank 0 to 8, extents at least 0, at most 2^56 elements (2^28 where size_t has 32 bits), also where an extent of 0 is counted as 1; else records "<operation>: ..." and is false. */
bool ls_shape_check(ls_session *s, const char *operation, const ls_shape *shape);
/* NumPy's broadcast of two shapes. */
bool ls_shape_broadcast(const ls_shape *a, const ls_shape *b, ls_shape *out);
/* Whether two shapes have as many elements at every value of the symbols. */
bool ls_shape_same_numel(const ls_shape *a, const ls_shape *b);
/* Fills the one -1 of `shape` so that it has as many elements as `from`; false where no extent does. */
bool ls_shape_infer(const ls_shape *from, ls_shape *shape);
ls_shape ls_shape_remove(const ls_shape *shape, int axis);
ls_shape ls_shape_insert(const ls_shape *shape, int axis, ls_dim dim);

/* ---- axes: negative ones count from the end; false (recorded) when out of range or, in a list, given
 * twice ---- */
bool ls_axis_check(ls_session *s, const char *operation, const ls_tensor *x, int axis, int *out_axis);
bool ls_axes_check(ls_session *s, const char *operation, const ls_tensor *x, int count, const int *axes,
                   int *out_axes);

/* ---- operands ---- */
bool ls_check_rank(ls_session *s, const char *operation, const ls_tensor *x, int at_least, int at_most);
bool ls_check_float(ls_session *s, const char *operation, const ls_tensor *x);
/* x may be NULL (fine); else it must be of y's dtype. */
bool ls_check_same_dtype(ls_session *s, const char *operation, const ls_tensor *x, const ls_tensor *y);

/* ---- pieces ---- */
/* As ls_expand, under another operation's name. */
ls_tensor *ls_broadcast_to(ls_session *s, const char *operation, ls_tensor *x, const ls_shape *shape);
/* A constant of x's dtype and shape. */
ls_tensor *ls_const_like(ls_session *s, const ls_tensor *x, double value);
/* A constant that is of x's device from the first, where ls_full's joins any: what is made of it alone is computed once (engine/constant.c). */
ls_tensor *ls_full_beside(ls_session *s, const ls_tensor *x, ls_dtype dtype, const ls_shape *shape, double value);
/* result[i] = x[start + i * step], of any shape of x's rank; the caller has checked that it stays within
 * x. */
ls_tensor *ls_slice_to(ls_session *s, ls_tensor *x, const int64_t *start, const int64_t *step,
                       const ls_shape *shape);
/* The number of elements over some axes, as a tensor of a floating dtype and rank 0: a constant, or from
 * DIMs. */
ls_tensor *ls_count(ls_session *s, const ls_shape *shape, int count, const int *axes, int64_t minus,
                    ls_dtype dtype);
/* w[n] as [1,...,n,...,1] of some rank, n on `axis`. */
ls_tensor *ls_along(ls_session *s, ls_tensor *w, int axis, int rank);
/* The position in x flattened of the element that `index` names along `axis`; -1 where it is out of range. */
ls_tensor *ls_linear_index(ls_session *s, const ls_tensor *x, ls_tensor *index, int axis);
/* f32 for f16 and bf16, else the dtype: what composites compute in. */
ls_dtype ls_dtype_compute(ls_dtype dtype);

#endif
