/* What the parts of the ONNX exporter share.
 *
 * Tensors are written from the outputs back. Each becomes a *step*: the tensors that it is computed from, and how to write the nodes that
 * do it once those have names. Steps are planned in two ways:
 *
 *   export_match.c, export_recurrent.c  a node that is the last of a composite (a convolution, a softmax, a layer norm) becomes the one operator. What it is
 *                   was not noted when it was built: operands and attributes are guessed from the nodes below, the library's own
 *                   builder is called with them, and the guess holds if it gives the very node that is being written (nodes are
 *                   interned). So a wrong guess costs nothing, and what is recognised means the same by construction.
 *   export_ops.c, export_move.c, export_loop.c    every other node becomes the operators that compute one operation of the graph, to the bit.
 *
 * Absent elements (graph.h) are written as the number that changes nothing for who reads them: `fill`. So a node that may hold some has a
 * step for each kind of reader.
 *
 * Messages live in the exporter's arena. Everything that makes one gives NULL once something has failed, takes NULL for what did not come
 * about, and leaves the first error in `err`. */
#ifndef LOCKSTEP_IO_ONNX_EXPORT_H
#define LOCKSTEP_IO_ONNX_EXPORT_H

#include "base/array.h"
#include "base/map.h"
#include "base/status.h"
#include "graph/graph.h"
#include <lockstep/model.h>
#include <onnx.pb-c.h>

enum { LS_ONNX_OPSET = 20, LS_ONNX_IR = 9 }; /* what files say that they are written in: both of ONNX 1.15, 2023 */

typedef enum ls_onnx_fill { ONNX_FILL_ZERO, ONNX_FILL_ONE, ONNX_FILL_LOWEST, ONNX_FILL_HIGHEST } ls_onnx_fill;

typedef struct ls_onnx_export ls_onnx_export;
typedef struct ls_onnx_step ls_onnx_step;

struct ls_onnx_step {
    ls_tensor *node;
    ls_onnx_fill fill; /* ZERO unless the node may hold absent elements */
    const char *result; /* the name of its value; NULL: not written yet */
    int n_in;
    ls_tensor **in; /* NULL: an operand that is left out */
    ls_onnx_fill in_fill;
    Onnx__NodeProto *proto; /* an operator whose operands are `in`; NULL: `emit` writes it */
    /* Writes the nodes, given the operands' names, and gives the name of the result. */
    const char *(*emit)(ls_onnx_export *e, ls_onnx_step *step, const char *const *in);
    const char **results; /* of a loop */
    Onnx__NodeProto *draft; /* a loop that is an operator: it, without operands; */
    bool backwards;         /* the last step first */
    ls_onnx_step *under;  /* while it is being planned: who asked for it */
    int next;             /* the operand to look at next */
};

typedef LS_ARRAY(Onnx__NodeProto *) ls_onnx_nodes;
typedef LS_ARRAY(Onnx__ValueInfoProto *) ls_onnx_infos;
/* The main graph, or the body of a loop. */
typedef struct ls_onnx_scope {
    struct ls_onnx_scope *outer;
    ls_map steps;
    ls_onnx_nodes nodes;
    ls_onnx_infos infos;
} ls_onnx_scope;

typedef struct ls_onnx_named {
    const ls_tensor *tensor;
    const char *name;
} ls_onnx_named;

struct ls_onnx_export {
    ls_session *s;
    ls_heap *heap;
    ls_error *err;
    ls_arena arena;
    const char *path;   /* for messages */
    const char *output; /* the output on whose way we are; for messages */
    ls_onnx_scope *scope;
    ls_onnx_nodes first; /* of the main graph: the values of symbols, before all else */
    bool into_first;
    LS_ARRAY(Onnx__TensorProto *) initializers;
    LS_ARRAY(ls_data *) held; /* arrays that initialisers point into */
    LS_ARRAY(ls_onnx_named) symbols; /* by ls_symbol: tensor is the symbol's address */
    ls_map names;       /* taken */
    int n_inputs, n_outputs;
    const ls_named_tensor *inputs, *outputs;
};

/* ---- messages (export_write.c) ---- */
void *ls_export_message(ls_onnx_export *e, size_t size, const ProtobufCMessageDescriptor *type);
#define LS_EXPORT_NEW(e, T, t) ((Onnx__##T *)ls_export_message((e), sizeof(Onnx__##T), &onnx__##t##__descriptor))
/* `wanted`, or wanted_2, wanted_3, ...: a name that nothing has yet, taken now. */
const char *ls_export_name(ls_onnx_export *e, const char *wanted);
/* A node over operands by name ("": left out) which is not yet in the graph. */
Onnx__NodeProto *ls_export_op(ls_onnx_export *e, const char *type, int n_in, ...);
Onnx__NodeProto *ls_export_op_list(ls_onnx_export *e, const char *type, int n_in, const char *const *in);
void ls_export_int(ls_onnx_export *e, Onnx__NodeProto *node, const char *name, int64_t value);
void ls_export_ints(ls_onnx_export *e, Onnx__NodeProto *node, const char *name, int count, const int64_t *values);
void ls_export_float(ls_onnx_export *e, Onnx__NodeProto *node, const char *name, double value);
void ls_export_string(ls_onnx_export *e, Onnx__NodeProto *node, const char *name, const char *value);
void ls_export_graph(ls_onnx_export *e, Onnx__NodeProto *node, const char *name, Onnx__GraphProto *value);
/* Puts the node into the graph and names its result. */
const char *ls_export_result(ls_onnx_export *e, Onnx__NodeProto *node);
Onnx__ValueInfoProto *ls_export_info(ls_onnx_export *e, const char *name, ls_dtype dtype, const ls_shape *shape);
/* Initialisers. `bits` are one element's; the bytes of `data` are not copied. */
const char *ls_export_list(ls_onnx_export *e, int count, const int64_t *values); /* int64 [count] */
const char *ls_export_scalar(ls_onnx_export *e, ls_dtype dtype, uint64_t bits);
const char *ls_export_data(ls_onnx_export *e, const char *name, ls_data *data); /* which becomes the exporter's */
/* An extent as int64 [1], a shape as int64 [rank]; extents of -1 stay. */
const char *ls_export_dim(ls_onnx_export *e, ls_dim dim);
const char *ls_export_shape(ls_onnx_export *e, const ls_shape *shape);

/* ---- pieces that operations share (export_write.c) ---- */
const char *ls_export_cast(ls_onnx_export *e, const char *x, ls_dtype from, ls_dtype to);
const char *ls_export_transpose(ls_onnx_export *e, const char *x, int rank, const int *axes); /* x, if the order is */
/* To a shape of at most one -1. With symbols, one of them is left to be inferred. */
Onnx__NodeProto *ls_export_reshape(ls_onnx_export *e, const char *x, const ls_shape *to);

/* ---- steps (export.c) ---- */
/* Names of tensors, in order, writing what has not been written. */
bool ls_export_values(ls_onnx_export *e, int count, ls_tensor *const *tensors, const char **out_names);
bool ls_export_operands(ls_onnx_export *e, ls_onnx_step *step, int n, ls_tensor *const *in); /* sets step->in */
const ls_onnx_step *ls_export_step(const ls_onnx_export *e, const ls_tensor *node, ls_onnx_fill fill); /* NULL: none */
/* Gives a tensor a name in the present scope: an input of the graph or of a body. */
bool ls_export_define(ls_onnx_export *e, ls_tensor *node, const char *name);
ls_status ls_export_refuse(ls_onnx_export *e, const ls_tensor *node, const char *why);
bool ls_export_failed(const ls_onnx_export *e);
/* A result that is one operator over the step's operands, with a node made by ls_export_op of none. */
bool ls_export_match(ls_onnx_export *e, ls_onnx_step *step); /* false: no composite */
bool ls_export_plan(ls_onnx_export *e, ls_onnx_step *step);  /* false: failed, err says why */
bool ls_export_plan_move(ls_onnx_export *e, ls_onnx_step *step);
bool ls_export_match_recurrent(ls_onnx_export *e, ls_onnx_step *step);
const char *ls_export_recurrent_result(ls_onnx_export *e, const ls_onnx_step *loop, int result);
bool ls_export_plan_loop(ls_onnx_export *e, ls_onnx_step *step);
/* x behind EXPAND and leading extents of 1, which an operator's own broadcast supplies; a constant as a scalar. */
ls_tensor *ls_export_narrow(ls_onnx_export *e, ls_tensor *x);

/* ---- files (export_file.c) ---- */
/* Bytes of initialisers above `most` go to PATH.data, each aligned to 4096. */
ls_status ls_export_save(ls_onnx_export *e, Onnx__ModelProto *model, size_t most);
ls_status ls_export_encode(ls_onnx_export *e, const Onnx__ModelProto *model, ls_data **out_file);
/* As ls_onnx_save and, with out_file, ls_onnx_encode. */
ls_status ls_onnx_write(ls_session *session, const char *path, int n_inputs, const ls_named_tensor *inputs, int n_outputs,
                        const ls_named_tensor *outputs, size_t most, ls_data **out_file, ls_error *err);

#endif
