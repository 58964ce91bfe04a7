/* Whole numbers that follow from extents with a symbol, and what operators make of them.
 *
 * Such a number is an ls_dim, scale * symbol + offset, of any sign (an extent's scale is positive). Where an operator compares two, the
 * answer must hold for every value of the symbol that the program will be run with: it is the answer at the present value, and the run's
 * range of values is narrowed to where it holds. So nothing is guessed; a number that cannot be said in this form is a tensor like any other,
 * and an operator that needs it as a number fails, which makes the runner compile for fixed extents. */
#ifndef LOCKSTEP_IO_ONNX_EXTENT_H
#define LOCKSTEP_IO_ONNX_EXTENT_H

#include "io/onnx/onnx.h"

/* The values of its symbol for which what a run builds is right. A run without a symbol has none; only what holds for all values is then
 * decided of extents with symbols (a caller's own, in ls_model_build). */
typedef struct ls_onnx_range {
    ls_symbol *symbol;
    int64_t value; /* the present one */
    int64_t least, most;
} ls_onnx_range;

/* Of whole numbers; false when the result does not fit or is not of the form. */
bool ls_onnx_plus(ls_dim a, ls_dim b, ls_dim *out);
bool ls_onnx_minus(ls_dim a, ls_dim b, ls_dim *out);
bool ls_onnx_times(ls_dim a, ls_dim b, ls_dim *out);
bool ls_onnx_same(ls_dim a, ls_dim b); /* written alike */
/* a >= b, and a == b, for all values of the run's range, which is narrowed. LS_ERR_UNSUPPORTED: that cannot be said. */
ls_status ls_onnx_at_least(ls_onnx_node *n, ls_dim a, ls_dim b, bool *out) LS_MUST_USE;
ls_status ls_onnx_equal(ls_onnx_node *n, ls_dim a, ls_dim b, bool *out) LS_MUST_USE;

/* Operand i as whole numbers, some with a symbol; *out_list is the arena's. */
ls_status ls_onnx_extents(ls_onnx_node *n, int i, ls_dim **out_list, int *out_count) LS_MUST_USE;
/* Result i is these numbers, of a type (int64, int32 or bool), as a scalar (rank 0) or a list. */
ls_status ls_onnx_out_extents(ls_onnx_node *n, int i, int type, int rank, int count,
                              const ls_dim *list) LS_MUST_USE;
/* A number as an i64 scalar tensor of n->s. */
ls_tensor *ls_onnx_extent_tensor(ls_onnx_node *n, ls_dim d);

/* The product of extents first .. end - 1. */
ls_status ls_onnx_volume(ls_onnx_node *n, const ls_shape *shape, int first, int end, ls_dim *out) LS_MUST_USE;
/* `length` elements along an axis from `start` on; the caller has checked that they are there. */
ls_tensor *ls_onnx_part(ls_onnx_node *n, ls_tensor *x, int axis, ls_dim start, ls_dim length);

/* Arithmetic of such numbers: when an operand holds some and all others are numbers too, the node's result is numbers, and *out_done says
 * so. Otherwise the node is built as any other. */
ls_status ls_onnx_extent_node(ls_onnx_node *n, bool *out_done) LS_MUST_USE;

/* Does the shape of a value, or of one in it, have a symbol? */
bool ls_onnx_is_symbolic(const ls_onnx_value *v);
/* Takes in the shape of a tensor that was made: its extents are 0 or more. */
void ls_onnx_range_see(ls_onnx_range *range, const ls_shape *shape);

#endif
