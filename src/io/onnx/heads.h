/* Heads of attention, for the operators of every domain. */
#ifndef LOCKSTEP_IO_ONNX_HEADS_H
#define LOCKSTEP_IO_ONNX_HEADS_H

#include "io/onnx/onnx.h"

/* [B,S,heads*D] to [B,heads,S,D]; what has rank 4 stays. */
ls_status ls_onnx_split_heads(ls_onnx_node *n, ls_tensor *x, int64_t heads, ls_tensor **out) LS_MUST_USE;
/* The way back: [B,H,S,D] to [B,S,H*D]; NULL for NULL. */
ls_tensor *ls_onnx_join_heads(ls_onnx_node *n, ls_tensor *x);
/* a[B,H,L,K] by b[B,G,S,E] in groups of H / G heads, over the last axis of a and `axis` (2 or 3) of b: [B,H,L,what is left of b]. */
ls_tensor *ls_onnx_by_groups(ls_onnx_node *n, ls_tensor *a, ls_tensor *b, int axis);

#endif
