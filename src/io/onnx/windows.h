/* How windows move over an operand, read from a node's attributes. */
#ifndef LOCKSTEP_IO_ONNX_WINDOWS_H
#define LOCKSTEP_IO_ONNX_WINDOWS_H

#include "io/onnx/onnx.h"

/* strides, dilations, pads, auto_pad and group of a convolution of x with filter w, which must agree with kernel_shape. */
ls_status ls_onnx_conv_spec(ls_onnx_node *n, ls_tensor *x, ls_tensor *w, ls_conv_spec *out) LS_MUST_USE;

#endif
