/* ONNX models: loading, what they want and give, building them into a graph, and running them.
 *
 * A model is what a file says, and never changes: any number of sessions and threads use one. Operator sets 7 and up; what
 * is supported on which device: docs/onnx.md. An operator, type or attribute that is not is an error that names the node before
 * anything runs.
 * */
#ifndef LOCKSTEP_MODEL_H
#define LOCKSTEP_MODEL_H

#include <lockstep/io.h>
#include <lockstep/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_model ls_model;

/* Loads an .onnx file. Tensors that it keeps in files beside it are mapped, not copied. The caller releases it. Any thread. */
LS_API ls_status ls_model_load(ls_context *context, const char *path, ls_model **out_model, ls_error *err) LS_MUST_USE;
/* The same for a file whose bytes are an array, u8 [size]; `name` is for messages. Such a file has no files beside it. */
LS_API ls_status ls_model_load_data(ls_context *context, const char *name, ls_data *file, ls_model **out_model, ls_error *err)
    LS_MUST_USE;
/* The numbers of a tensor file (.pb, one TensorProto), such as those that come with test cases; the caller releases them. Types that
 * no dtype has come one element a byte: float8, float4, uint4 and uint2 as their bits in u8, int4 and int2 as their values in i8. */
LS_API ls_status ls_onnx_data_load(ls_context *context, const char *path, ls_data **out_data, ls_error *err) LS_MUST_USE;
LS_API ls_model *ls_model_retain(ls_model *model);
LS_API void ls_model_release(ls_model *model); /* NULL is allowed */

/* An input or output. Pointers are the model's. */
typedef struct ls_model_port {
    const char *name;
    const char *type;              /* "float", "int64", "float8e4m3fn", "string", "sequence", "optional", ... as ONNX names it */
    ls_dtype dtype;                /* of its elements on the host; LS_DTYPE_COUNT when it is no tensor of numbers */
    int rank;                      /* -1: not said */
    int64_t dims[LS_MAX_RANK];     /* -1: any */
    const char *dim_names[LS_MAX_RANK]; /* "batch", ...; NULL: none */
    int has_default;               /* an input that an initialiser fills when it is not given */
} ls_model_port;
LS_API int ls_model_input_count(const ls_model *model);
LS_API int ls_model_output_count(const ls_model *model);
LS_API ls_model_port ls_model_input(const ls_model *model, int index);
LS_API ls_model_port ls_model_output(const ls_model *model, int index);

/* Builds the model into a session's graph from tensors for its inputs, in the order of ls_model_input (NULL: its default). The
 * outputs are tensors like any others: to realize, differentiate, compile. Where a shape depends on values, the inputs' are computed on the
 * way, which needs inputs that have values (LS_ERR_UNSUPPORTED names the node when they come from ls_input). Outputs that are no tensors
 * are LS_ERR_UNSUPPORTED. The session's thread. */
LS_API ls_status ls_model_build(ls_session *session, ls_model *model, int n_inputs, ls_tensor *const *inputs, int n_outputs,
                                ls_tensor **out_outputs) LS_MUST_USE;

/* A model made ready for one session: weights on its device, a compiled program for each combination of input shapes. */
typedef struct ls_runner ls_runner;
LS_API ls_status ls_runner_create(ls_session *session, ls_model *model, ls_runner **out_runner) LS_MUST_USE;
LS_API void ls_runner_destroy(ls_runner *runner); /* before its session */
/* Runs on named inputs, in any order; those with defaults may be missing. *out_outputs gets one array for each output of the model,
 * in its order, which the caller releases. Inputs of new shapes compile; those met before do not. */
LS_API ls_status ls_runner_run(ls_runner *runner, int n_inputs, const ls_named_data *inputs, ls_data **out_outputs) LS_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
