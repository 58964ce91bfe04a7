/* Operands of operators that only move elements, strings among them. */
#ifndef LOCKSTEP_IO_ONNX_MOVED_H
#define LOCKSTEP_IO_ONNX_MOVED_H

#include "io/onnx/onnx.h"

/* Operand i as ls_onnx_in gives it; of strings their numbers instead, an i64 tensor of their shape that counts on through all
 * operands that are strings. Moved about like any tensor, ls_onnx_moved_out turns numbers into strings again. */
ls_tensor *ls_onnx_moved_in(ls_onnx_node *n, int i);
/* Result i is t, made from ls_onnx_moved_in(n, from) and so of its type. */
ls_status ls_onnx_moved_out(ls_onnx_node *n, int i, ls_tensor *t, int from) LS_MUST_USE;

/* Fails the node when a rank is above LS_MAX_RANK. */
ls_status ls_onnx_check_rank(ls_onnx_node *n, int64_t rank) LS_MUST_USE;
/* A constant whole-number tensor of any rank, in n->s. */
ls_tensor *ls_onnx_indices(ls_onnx_node *n, int rank, const int64_t *dims, const int64_t *values);
/* A list of numbers from operand `i` or, before operators took it as an operand, the attribute `name`. *out_count is -1 when neither
 * is there. */
ls_status ls_onnx_operand_or_attr(ls_onnx_node *n, int i, const char *name, const int64_t **out_list, int *out_count) LS_MUST_USE;

#endif
