/* What the operators of com.microsoft share with others: those of attention, for the table in ops_contrib.c, and results that its fused
 * and quantised operators go on from. */
#ifndef LOCKSTEP_IO_ONNX_CONTRIB_H
#define LOCKSTEP_IO_ONNX_CONTRIB_H

#include "io/onnx/onnx.h"

ls_status ls_onnx_ms_attention(ls_onnx_node *n);
ls_status ls_onnx_ms_multi_head_attention(ls_onnx_node *n);
ls_status ls_onnx_ms_group_query_attention(ls_onnx_node *n);
ls_status ls_onnx_ms_rotary_embedding(ls_onnx_node *n);

/* Conv of the node's operands and attributes; AveragePool of x with the node's attributes. */
ls_status ls_onnx_conv(ls_onnx_node *n, ls_tensor **out) LS_MUST_USE;
ls_status ls_onnx_avg_pool(ls_onnx_node *n, ls_tensor *x, ls_tensor **out) LS_MUST_USE;

#endif
