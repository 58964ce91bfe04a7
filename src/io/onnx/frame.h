/* Names in sight of a graph's nodes. */
#ifndef LOCKSTEP_IO_ONNX_FRAME_H
#define LOCKSTEP_IO_ONNX_FRAME_H

#include "io/onnx/run.h"

struct ls_onnx_frame {
    ls_onnx_frame *parent; /* whose names are in sight too: of the graph around a subgraph; else NULL */
    ls_map names;
    size_t n_opsets;
    Onnx__OperatorSetIdProto **opsets;
    bool root; /* the model's own graph: the base's constants are in sight */
    const Onnx__FunctionProto *function; /* of which it is the body; NULL: none */
    const Onnx__NodeProto *caller;       /* the call of that function, */
    const ls_onnx_frame *from;           /* which stands there */
};

/* NULL: it is not there. */
const Onnx__AttributeProto *ls_onnx_find_attr(const Onnx__NodeProto *node, const ls_onnx_frame *frame, const char *name);
/* The value of a name in sight of the node; NULL: there is none. */
ls_status ls_onnx_named(ls_onnx_node *n, const char *name, ls_onnx_value **out_value) LS_MUST_USE;

#endif
