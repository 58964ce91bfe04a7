/* What the parts of the ONNX importer share.
 *
 * A model is interpreted node by node into tensors. Nothing is computed by it but what a shape depends on: a node whose
 * operands are all known when the graph is built (constants, initialisers, the shapes of tensors) is built in the *host
 * session*, on `cpu`, and evaluated when a later node asks for its numbers; every other node is built in the caller's
 * session. Both by the same function, so there is one evaluator, with the contract's bits. Where a node needs the numbers of
 * something that depends on the inputs (the condition of an If, the result of NonZero), they are computed there and then
 * when the inputs have values (an eager run), and building a program ends with `needs_values`.
 *
 * An operator is one function in an ops_*.c and one row in that file's table. It reads operands with ls_onnx_in and gives
 * results with ls_onnx_out; a NULL from a builder is turned into an error that names the node.
 * Memory: everything here is the run's arena's, or belongs to the scopes of its two sessions. One thread. */
#ifndef LOCKSTEP_IO_ONNX_ONNX_H
#define LOCKSTEP_IO_ONNX_ONNX_H

#include "base/array.h"
#include "base/map.h"
#include "base/status.h"
#include <lockstep/model.h>
#include <lockstep/ops.h>

/* Element types, numbered as in TensorProto.DataType. */
typedef enum ls_onnx_type {
    ONNX_UNDEFINED = 0, ONNX_FLOAT = 1, ONNX_UINT8 = 2, ONNX_INT8 = 3, ONNX_UINT16 = 4, ONNX_INT16 = 5, ONNX_INT32 = 6,
    ONNX_INT64 = 7, ONNX_STRING = 8, ONNX_BOOL = 9, ONNX_FLOAT16 = 10, ONNX_DOUBLE = 11, ONNX_UINT32 = 12, ONNX_UINT64 = 13,
    ONNX_COMPLEX64 = 14, ONNX_COMPLEX128 = 15, ONNX_BFLOAT16 = 16, ONNX_FLOAT8E4M3FN = 17, ONNX_FLOAT8E4M3FNUZ = 18,
    ONNX_FLOAT8E5M2 = 19, ONNX_FLOAT8E5M2FNUZ = 20, ONNX_UINT4 = 21, ONNX_INT4 = 22, ONNX_FLOAT4E2M1 = 23,
    ONNX_FLOAT8E8M0 = 24, ONNX_UINT2 = 25, ONNX_INT2 = 26, ONNX_TYPES
} ls_onnx_type;

/* The dtype that carries elements of a type: its own where Lockstep has it; u8 for float8, float4, uint4 and uint2 (their
 * bits, one element a byte), i8 for int4 and int2 (their values). LS_DTYPE_COUNT for strings, complex numbers and nonsense. */
ls_dtype ls_onnx_carrier(int type);
int ls_onnx_type_of(ls_dtype dtype);  /* the type whose own dtype it is */
const char *ls_onnx_type_name(int type); /* "float", "int4", ... as ONNX spells them */

typedef enum ls_onnx_kind { ONNX_TENSOR, ONNX_STRINGS, ONNX_SEQUENCE, ONNX_OPTIONAL } ls_onnx_kind;

typedef struct ls_onnx_value {
    ls_onnx_kind kind;
    int type;             /* of the elements; of a sequence or optional: of its items', 0 when not known */
    bool lasting;         /* follows from initialisers alone: serves every run */
    bool known;           /* its numbers do not depend on the inputs, or were computed */
    const void *place;    /* in the model's messages, which says it whatever run it is of; NULL: there is none */
    ls_tensor *host;      /* in the host session; made when asked for. Only if known */
    ls_tensor *tensor;    /* in the caller's session; likewise */
    const char *name;     /* of an initialiser, else NULL; the model's */
    ls_data *data;        /* its numbers, once read. Only if known; released with the run */
    const ls_dim *extents; /* TENSOR of whole numbers, not known, that follow from extents with a symbol (extent.h); else NULL */
    int rank;             /* STRINGS; or extents: 0, or 1 and dims[0] (also their count) */
    int64_t dims[LS_MAX_RANK];
    const char **strings; /* row-major, UTF-8, NUL-terminated */
    int count;            /* SEQUENCE: its items; OPTIONAL: 1 or, when empty, 0 */
    struct ls_onnx_value **items;
} ls_onnx_value;

typedef struct ls_onnx_run ls_onnx_run;
typedef struct ls_onnx_graph ls_onnx_graph; /* a subgraph that is an attribute */
struct Onnx__NodeProto;

/* A node on its way through its operator's function. */
typedef struct ls_onnx_node {
    ls_onnx_run *run;
    ls_session *s;   /* where its tensors are built: the host session when all operands are known, else the caller's */
    const struct Onnx__NodeProto *proto;
    int version;     /* of its domain's operator set, as the model imports it */
    int n_in, n_out; /* as written in the node, trailing empty names apart */
    ls_onnx_value **in; /* NULL: left out */
    ls_onnx_value **out;
    ls_error *err;
    ls_error failed; /* of an operand or attribute: the node fails with it at its next result */
    struct ls_onnx_frame *frame; /* the names in sight */
} ls_onnx_node;

typedef ls_status (*ls_onnx_fn)(ls_onnx_node *n);

/* A row of a table of operators. With several rows of a name the one with the largest `since` not above the imported version is taken. */
typedef struct ls_onnx_op {
    const char *domain; /* "" is ai.onnx */
    const char *name;
    int since;
    int min_in, max_in; /* operands; max -1: any number. Missing or left-out ones below min are refused before `fn` */
    ls_onnx_fn fn;
    int flags;
} ls_onnx_op;
enum {
    ONNX_ANYWHERE = 0,
    ONNX_DEVICE = 1, /* never built in the host session: random, or control flow */
    ONNX_HOST = 2,   /* reads its operands' numbers or deals in strings and sequences: `s` is the host session, known or not */
    ONNX_BLOCKS = 8, /* as ONNX_DEVICE where there is a block_size: weights stay as small as they come, and products see what they are */
    ONNX_SYMBOLS = 4 /* its operands' extents may have a symbol: `fn` looks at shapes, never at ls_onnx_dims of such an axis */
};
/* Tables end with a row without a name. table.c lists them. */
extern const ls_onnx_op ls_onnx_math_ops[], ls_onnx_reduce_ops[], ls_onnx_cast_ops[], ls_onnx_quant_ops[], ls_onnx_shape_ops[], ls_onnx_move_ops[],
    ls_onnx_index_ops[], ls_onnx_image_ops[], ls_onnx_nn_ops[], ls_onnx_norm_ops[], ls_onnx_attention_ops[], ls_onnx_recurrent_ops[],
    ls_onnx_loss_ops[], ls_onnx_control_ops[], ls_onnx_sequence_ops[], ls_onnx_text_ops[], ls_onnx_signal_ops[],
    ls_onnx_random_ops[], ls_onnx_ml_ops[], ls_onnx_train_ops[], ls_onnx_contrib_ops[];
const ls_onnx_op *ls_onnx_find(const char *domain, const char *name, int version);
const ls_onnx_op *ls_onnx_op_at(int number); /* every row, from 0; NULL: there is no such number */

/* ---- errors ---- */
/* LS_FAIL with the node in front: 'node "conv1" (Conv, opset 13): ...'. Leaves the function. */
ls_status ls_onnx_fail(const ls_onnx_node *n, ls_status code, const char *fmt, ...) LS_PRINTF(3, 4);

/* ---- operands ---- */
/* Operand i as a tensor of n->s; NULL when it was left out. A tensor of another kind, or a failure, gives NULL too and the
 * node fails at its next result with the reason. */
ls_tensor *ls_onnx_in(ls_onnx_node *n, int i);
bool ls_onnx_has(const ls_onnx_node *n, int i); /* there is an operand i */
int ls_onnx_in_type(const ls_onnx_node *n, int i); /* its ONNX type; 0 when left out */
/* Extents of a tensor; gives its rank. One with a symbol is -2, which no builder takes: see ONNX_SYMBOLS. */
int ls_onnx_dims(const ls_tensor *t, int64_t dims[LS_MAX_RANK]);
/* The numbers of operand i, computed now if needed; borrowed. In a program that is being built, when they depend on the inputs:
 * fails, and the model is run eagerly instead. */
ls_status ls_onnx_read(ls_onnx_node *n, int i, const ls_data **out_data) LS_MUST_USE;
ls_status ls_onnx_read_value(ls_onnx_node *n, ls_onnx_value *v, const ls_data **out_data) LS_MUST_USE;
/* The same as whole numbers (of any integer type or bool), or floats as f64; *out_list is the arena's. */
ls_status ls_onnx_ints(ls_onnx_node *n, int i, int64_t **out_list, int *out_count) LS_MUST_USE;
ls_status ls_onnx_floats(ls_onnx_node *n, int i, double **out_list, int *out_count) LS_MUST_USE;
/* One number; `otherwise` when the operand was left out. */
ls_status ls_onnx_int(ls_onnx_node *n, int i, int64_t otherwise, int64_t *out) LS_MUST_USE;
ls_status ls_onnx_float(ls_onnx_node *n, int i, double otherwise, double *out) LS_MUST_USE;

/* Are the numbers of a value still to come when the program that is being built runs, and may it choose by them? */
bool ls_onnx_selects(const ls_onnx_node *n, const ls_onnx_value *v);

/* ---- attributes; a wrong type fails the node at its next result ---- */
bool ls_onnx_attr(const ls_onnx_node *n, const char *name); /* is it there? */
int64_t ls_onnx_attr_int(ls_onnx_node *n, const char *name, int64_t otherwise);
double ls_onnx_attr_float(ls_onnx_node *n, const char *name, double otherwise);
const char *ls_onnx_attr_string(ls_onnx_node *n, const char *name, const char *otherwise);
/* Lists are the arena's; NULL and 0 when the attribute is not there. */
const int64_t *ls_onnx_attr_ints(ls_onnx_node *n, const char *name, int *out_count);
const float *ls_onnx_attr_floats(ls_onnx_node *n, const char *name, int *out_count);
const char *const *ls_onnx_attr_strings(ls_onnx_node *n, const char *name, int *out_count);
ls_onnx_value *ls_onnx_attr_tensor(ls_onnx_node *n, const char *name);      /* NULL when it is not there */
const ls_onnx_graph *ls_onnx_attr_graph(ls_onnx_node *n, const char *name); /* likewise */
/* An axis: negative ones are counted from the end. Fails the node when it is outside [-rank, rank). */
ls_status ls_onnx_axis(ls_onnx_node *n, int64_t axis, int rank, int *out_axis) LS_MUST_USE;

/* ---- results ---- */
/* Result i is `t`, a tensor of n->s, of the type that is its dtype's own. NULL fails with the session's error, or that of an operand or
 * attribute, as the node's. A result that the node does not name is dropped. */
ls_status ls_onnx_out(ls_onnx_node *n, int i, ls_tensor *t) LS_MUST_USE;
ls_status ls_onnx_out_as(ls_onnx_node *n, int i, ls_tensor *t, int type) LS_MUST_USE; /* whose carrier t's dtype is */
/* Numbers that were computed here: an array that becomes the run's, known. */
ls_status ls_onnx_out_data(ls_onnx_node *n, int i, ls_data *data, int type) LS_MUST_USE;
/* The same from plain memory (copied). */
ls_status ls_onnx_out_from(ls_onnx_node *n, int i, int type, int rank, const int64_t *dims, const void *elements) LS_MUST_USE;
ls_status ls_onnx_out_value(ls_onnx_node *n, int i, ls_onnx_value *v) LS_MUST_USE; /* any kind */
bool ls_onnx_wants(const ls_onnx_node *n, int i); /* does the node name result i? */

/* ---- values ---- */
ls_arena *ls_onnx_arena(ls_onnx_node *n);
ls_context *ls_onnx_context(ls_onnx_node *n);
ls_onnx_value *ls_onnx_value_new(ls_onnx_node *n, ls_onnx_kind kind, int type); /* NULL: out of memory */
ls_onnx_value *ls_onnx_value_of(ls_onnx_node *n, ls_tensor *t, int type);       /* a tensor of n->s; NULL: failed, as ls_onnx_out would */
/* Shape of a TENSOR or STRINGS value; gives its rank. */
int ls_onnx_value_dims(const ls_onnx_value *v, int64_t dims[LS_MAX_RANK]);
/* The same with extents that have a symbol. */
ls_shape ls_onnx_value_shape(const ls_onnx_value *v);
/* A value's tensor in the session of the node. */
ls_tensor *ls_onnx_tensor(ls_onnx_node *n, ls_onnx_value *v);

/* ---- small tensors that operators need, in n->s ---- */
ls_tensor *ls_onnx_scalar(ls_onnx_node *n, ls_dtype dtype, double value);
ls_tensor *ls_onnx_list(ls_onnx_node *n, ls_dtype dtype, int count, const int64_t *values);
ls_tensor *ls_onnx_shaped(ls_onnx_node *n, ls_tensor *t, int rank, const int64_t *dims); /* reshape */

/* What the key of a node's random numbers is made from: its seed (its name when it has none), and how many nodes of the run have drawn
 * before, so that the iterations of a loop differ. The same in every run. */
uint64_t ls_onnx_stream(ls_onnx_node *n, bool seeded, uint64_t seed);

/* ---- subgraphs and functions ---- */
int ls_onnx_graph_inputs(const ls_onnx_graph *g);
int ls_onnx_graph_outputs(const ls_onnx_graph *g);
/* Interprets a subgraph with the names around it in sight. `out`: as many as it has outputs. */
ls_status ls_onnx_call(ls_onnx_node *n, const ls_onnx_graph *g, int n_in, ls_onnx_value *const *in, ls_onnx_value **out) LS_MUST_USE;

/* ---- running on values of any kind (runner.c) ---- */
/* Node by node, in the order of ls_model_input (NULL: its default) and ls_model_output. Operands that are tensors have `data`; results lie in
 * `arena`, and each tensor's `data`, in sequences too, is released by the caller. The error is in the session. */
ls_status ls_onnx_run_values(ls_session *session, ls_model *model, ls_arena *arena, int n_in, ls_onnx_value *const *in, int n_out,
                             ls_onnx_value **out) LS_MUST_USE;

#endif
