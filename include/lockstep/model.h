/* ONNX models: loading, what they want and give, building them into a graph, and running them.
 *
 * A model is what a file says, and never changes: any number of sessions and threads use one. Operator sets 1 and up, each
 * operator from a version on; what is supported on which device: docs/onnx.md. What is not is an error that names the node; an operator that there is none of, before
 * anything runs.
 * */
#ifndef LOCKSTEP_MODEL_H
#define LOCKSTEP_MODEL_H

#include <lockstep/io.h>
#include <lockstep/nn.h>
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

/* Whether an initialiser becomes a parameter. */
typedef int (*ls_param_choice)(void *user, const char *name);
/* The same with the model's weights as parameters (nn.h) of the initialisers' names, to train on: an optimiser's steps change them, ls_params_save
 * keeps them, ls_onnx_save writes a file that has them. A parameter that `params` does not have yet is made with the model's numbers (with the
 * file's of ls_params_open); one that it has is taken as it is, so a second build shares the first one's weights.
 *
 * Weights are the f32 initialisers, without those that a node takes as a setting (limits, scales, the mean and variance of a
 * BatchNormalization, which stays as in inference) and without single elements in no weight's place. Of these `choose` may take some and leave the
 * rest as they are; NULL: all. */
LS_API ls_status ls_model_build_params(ls_session *session, ls_model *model, ls_params *params, ls_param_choice choose, void *user, int n_inputs,
                                       ls_tensor *const *inputs, int n_outputs, ls_tensor **out_outputs) LS_MUST_USE;

/* A model made ready for one session: weights on its device, which all runners of the model there share, whatever session or thread they are
 * of; and compiled programs.
 *
 * When it compiles: the first run does, for its inputs' shapes. When extents differ in a later run, a second program is compiled in which those
 * that changed together (a batch; a cache and its mask) are a symbol (tensor.h): it serves all runs to come whose shapes follow the same
 * pattern, so a decoder with a growing cache compiles for the first token and the second, and for no other. Its memory is laid out for a
 * bound: the largest such extent may reach 1024 or, beyond, the next power of two, less where a tensor would then be of more than 2^24 elements; past
 * it one program is compiled anew with the bound doubled. Where an operator needs an extent as a number (and what it does would differ for another),
 * programs are for one combination of shapes each, as they are for shapes that no pattern joins. Either way the results have the same bits. */
typedef struct ls_runner ls_runner;
LS_API ls_status ls_runner_create(ls_session *session, ls_model *model, ls_runner **out_runner) LS_MUST_USE;
LS_API void ls_runner_destroy(ls_runner *runner); /* before its session */
/* Runs on named inputs, in any order; those with defaults may be missing. *out_outputs gets one array for each output of the model,
 * in its order, which the caller releases. */
LS_API ls_status ls_runner_run(ls_runner *runner, int n_inputs, const ls_named_data *inputs, ls_data **out_outputs) LS_MUST_USE;
/* Compiles what ls_runner_run would for these inputs, and runs nothing. */
LS_API ls_status ls_runner_prepare(ls_runner *runner, int n_inputs, const ls_named_data *inputs) LS_MUST_USE;
/* Says how large the inputs' extents of a name (ls_model_port.dim_names) will be at most: they are a symbol from the first run on, of this
 * bound. LS_ERR_INVALID (the session's error): no input has such a name. Larger ones may still come, and compile. */
LS_API ls_status ls_runner_set_bound(ls_runner *runner, const char *dimension, int64_t most) LS_MUST_USE;
/* What was compiled so far. */
typedef struct ls_runner_facts {
    int programs;              /* compiled */
    int symbolic;              /* of those, for extents that change */
    const char *fixed_because; /* why extents could not be symbols when it was last tried: the node and what it needs; NULL: they could. The
                                * runner's, until its next run */
} ls_runner_facts;
LS_API ls_runner_facts ls_runner_get_facts(const ls_runner *runner);
/* Makes an output of each run an input of the next (a recurrent state, a cache of keys and values). It stays on the device; `first` is what
 * the first run gets, and is retained. The input is then not given to ls_runner_run, which gives NULL for the output. A run that fails sets
 * all states back. */
LS_API ls_status ls_runner_bind_state(ls_runner *runner, const char *output, const char *input, const ls_data *first) LS_MUST_USE;
/* The next run is the first again. */
LS_API void ls_runner_reset_state(ls_runner *runner);
/* What the next run gets for such an input; the caller releases it. */
LS_API ls_status ls_runner_read_state(ls_runner *runner, const char *input, ls_data **out_data) LS_MUST_USE;
/* The program of the last run, or of what was prepared since, to inspect or profile (inspect.h); NULL when there is none: the model is run
 * node by node, because shapes depend on values, or nothing depends on the inputs. The runner's, until its next run. */
LS_API ls_program *ls_runner_program(const ls_runner *runner);

/* ---- what a model consists of ---- */

typedef struct ls_model_facts {
    int64_t ir_version;
    const char *producer, *producer_version, *graph; /* may be empty; the model's */
    int nodes;          /* of the main graph */
    int64_t parameters; /* elements of its initialisers */
} ls_model_facts;
LS_API ls_model_facts ls_model_get_facts(const ls_model *model);
/* An operator that a model uses, its subgraphs' and functions' included; or a function of its own. */
typedef struct ls_model_operator {
    const char *domain;      /* "" is ai.onnx */
    const char *name;
    int version;             /* of the domain's operator set where it is used; 0: not imported */
    int count;               /* nodes */
    int function;            /* 1: a function of the model */
    const char *unsupported; /* why no device can; NULL: it is supported, types and attributes apart */
} ls_model_operator;
/* Fills up to `room`, sorted by domain, name and version; gives how many there are, or a number above `room` when it is too small. The texts
 * are the model's. */
LS_API int ls_model_operators(const ls_model *model, int room, ls_model_operator *out_operators);

/* ---- writing models ---- */

typedef struct ls_named_tensor {
    const char *name; /* NULL: an input's own (ls_input), "output", "output_2", ... */
    ls_tensor *tensor;
} ls_named_tensor;
/* Writes what computes `outputs` from `inputs` (each from ls_input) as an .onnx file of operator set 20. Values that the session has are
 * initialisers, variables under their names; an extent that is a symbol is a dimension of the symbol's name. Composites of ops.h, and equal
 * graphs written out by hand, are the format's own operators (Conv, Gemm, LayerNormalization, ...). Nothing is rounded on the way: loaded
 * here, the file computes the bits of the tensors that were written, in locked arithmetic (a file says no kind). An operation that no operator computes is
 * LS_ERR_UNSUPPORTED and named; so is a file above 2 GB in memory. On disk, initialisers of more than 1 GB together are in PATH.data, which
 * belongs to the file. Replaces files atomically. The session's thread. */
LS_API ls_status ls_onnx_save(ls_session *session, const char *path, int n_inputs, const ls_named_tensor *inputs, int n_outputs,
                              const ls_named_tensor *outputs, ls_error *err) LS_MUST_USE;
/* The bytes of that file as an array, u8 [size], which the caller releases. */
LS_API ls_status ls_onnx_encode(ls_session *session, int n_inputs, const ls_named_tensor *inputs, int n_outputs,
                                const ls_named_tensor *outputs, ls_data **out_file, ls_error *err) LS_MUST_USE;

/* ---- test cases: folders of the ONNX project's backend test data ---- */

typedef enum ls_model_state {
    LS_MODEL_PASSED,      /* every output agrees with the file's */
    LS_MODEL_FAILED,      /* one does not, or the model cannot be loaded or run */
    LS_MODEL_UNSUPPORTED, /* LS_ERR_UNSUPPORTED: an operator, type or size that this device or build does not have */
    LS_MODEL_RANDOM       /* random numbers, which are every implementation's own: shapes, types, repeatability and distribution are right */
} ls_model_state;
typedef struct ls_model_case {
    ls_model_state state;
    int sets;         /* of test data: test_data_set_0, ... */
    char detail[512]; /* the output and element that is wrong, the reason, ...; empty when passed */
    char sha256[65];  /* of all outputs of all sets: kinds, types, shapes, elements with every NaN canonical; empty unless all were computed */
    double worst;     /* the largest |output - file| / (1e-7 + 1e-3 |file|), at most 1 when passed */
} ls_model_case;
/* Runs folder/model.onnx on each folder/test_data_set_N/input_K.pb and compares with output_K.pb: floats by |output - file| <= 1e-7 +
 * 1e-3 |file|, as the ONNX project's own runner does, NaNs equal; all else exactly. (Of models with a Fourier transform 1e-7 becomes half a
 * unit in the last place of the file's largest f32, the error that the file itself has where terms cancel.) Tensors, strings, sequences and optionals. Models
 * that draw random numbers run a second time in a session of their own. Whatever the model does is in *out_case, with LS_OK; a status
 * says that the run was cancelled, or that the device has not answered yet. The session's thread. */
LS_API ls_status ls_model_case_run(ls_session *session, const char *folder, ls_model_case *out_case) LS_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
