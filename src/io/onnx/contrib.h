/* The attention operators of com.microsoft, for the table in ops_contrib.c. */
#ifndef LOCKSTEP_IO_ONNX_CONTRIB_H
#define LOCKSTEP_IO_ONNX_CONTRIB_H

#include "io/onnx/onnx.h"

ls_status ls_onnx_ms_attention(ls_onnx_node *n);
ls_status ls_onnx_ms_multi_head_attention(ls_onnx_node *n);
ls_status ls_onnx_ms_group_query_attention(ls_onnx_node *n);
ls_status ls_onnx_ms_rotary_embedding(ls_onnx_node *n);

#endif
