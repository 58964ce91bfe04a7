/* Files of the ONNX format in memory: what the importer reads of a model, and the numbers of its tensors.
 *
 * Nothing in a file is trusted: before a file is taken apart its nesting and lengths are looked at, after it every tensor, type, name
 * and attribute is. What a loaded model's messages say can be followed without further checks of them: no pointer that the format
 * calls for is NULL, every tensor has as much data as its shape says, names are defined before they are read, functions do not
 * call themselves. It never changes after loading. Messages, and arrays over them, live as long as the model. */
#ifndef LOCKSTEP_IO_ONNX_LOAD_H
#define LOCKSTEP_IO_ONNX_LOAD_H

#include "base/map.h"
#include "base/thread.h"
#include "io/archive.h"
#include <lockstep/model.h>
#include <onnx.pb-c.h>

/* A file beside a model. */
typedef struct ls_onnx_file {
    struct ls_onnx_file *next;
    const char *location; /* as the model says it */
    ls_mapped_file *file;
} ls_onnx_file;

struct ls_model {
    ls_context *context;
    ls_heap *heap;
    atomic_long refs;
    ls_arena arena;     /* of everything below */
    const char *name;   /* of its file, for messages */
    const char *folder; /* "", or a path that ends in '/'; NULL: a file in memory, which has none beside it */
    ProtobufCMessage *message;
    const Onnx__ModelProto *proto; /* the same; NULL: a file of one value, not of a model */
    ls_onnx_file *files;
    ls_map initializers, sparse, functions, imports; /* by name */
    ls_mutex *mutex;    /* of what follows, all that changes after loading */
    struct ls_onnx_weights *weights; /* of runners, one a device (weights.c) */
};

/* A file of any kind: &onnx__model_proto__descriptor, &onnx__tensor_proto__descriptor, ... `file` NULL: what is at `path`; else the bytes, u8
 * [size], and `path` is for messages. Only ls_model_load looks further than at the structure of the messages. */
ls_status ls_onnx_open(ls_context *context, const char *path, ls_data *file,
                       const ProtobufCMessageDescriptor *type, ls_model **out_model,
                       ls_error *err) LS_MUST_USE;
/* Everything that load.h promises of a model. (check.c) */
ls_status ls_onnx_check(ls_model *model, ls_error *err) LS_MUST_USE;

/* Of maps whose keys are names. */
bool ls_onnx_same_name(const void *x, const void *y);
uint64_t ls_onnx_hash_name(const char *name);

/* ---- names of the main graph and of the model; NULL or 0: there is none ---- */
const Onnx__TensorProto *ls_model_initializer(const ls_model *model, const char *name);
const Onnx__SparseTensorProto *ls_model_sparse_initializer(const ls_model *model, const char *name);
const Onnx__FunctionProto *ls_model_function(const ls_model *model, const char *domain, const char *name,
                                             const char *overload);
int ls_model_opset(const ls_model *model, const char *domain); /* the version that the model imports */
int ls_onnx_opset(size_t n, Onnx__OperatorSetIdProto *const *imports,
                  const char *domain);          /* that a function imports */
const char *ls_onnx_domain(const char *domain); /* "" for "ai.onnx", else itself */

/* ---- tensors (tensor.c); `what` names the tensor in messages, NULL: its own name ---- */
/* The numbers of a tensor in the carrier of its type; over the model's memory or its mapped files wherever that is possible, and the
 * model is retained then. The caller releases the array. Complex numbers and ranks above LS_MAX_RANK are LS_ERR_UNSUPPORTED, strings
 * LS_ERR_DTYPE. Any thread. */
ls_status ls_onnx_tensor_data(ls_model *model, const Onnx__TensorProto *t, const char *what,
                              ls_data **out_data, int *out_type, ls_error *err) LS_MUST_USE;
/* The texts of a tensor of strings, in the caller's arena, row-major; dims are the tensor's own. */
ls_status ls_onnx_tensor_strings(ls_model *model, const Onnx__TensorProto *t, const char *what,
                                 ls_arena *arena, const char ***out_strings, int64_t *out_count,
                                 ls_error *err) LS_MUST_USE;
/* A sparse tensor as a dense one. */
ls_status ls_onnx_sparse_data(ls_model *model, const Onnx__SparseTensorProto *t, const char *what,
                              ls_data **out_data, int *out_type, ls_error *err) LS_MUST_USE;
/* Looks at everything but the numbers themselves, and maps the file that they are in. */
ls_status ls_onnx_tensor_check(ls_model *model, const Onnx__TensorProto *t, const char *what,
                               ls_error *err) LS_MUST_USE;
ls_status ls_onnx_sparse_check(ls_model *model, const Onnx__SparseTensorProto *t, const char *what,
                               ls_error *err) LS_MUST_USE;

/* Nesting and lengths of a message, before it is taken apart. (wire.c) */
ls_status ls_onnx_scan(const char *name, const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                       size_t size, ls_error *err) LS_MUST_USE;

#endif
