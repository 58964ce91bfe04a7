/* The interpreter's own state: what onnx.h keeps from operators. */
#ifndef LOCKSTEP_IO_ONNX_RUN_H
#define LOCKSTEP_IO_ONNX_RUN_H

#include "io/onnx/extent.h"
#include "io/onnx/load.h"

/* The constants of a model on a device, which its runners there share. Any thread. (weights.c) */
typedef struct ls_onnx_weights ls_onnx_weights;
ls_status ls_onnx_weights_acquire(ls_model *model, ls_device *device, ls_onnx_weights **out_weights, ls_error *err) LS_MUST_USE;
void ls_onnx_weights_release(ls_onnx_weights *weights); /* before the model; NULL is allowed */
ls_device *ls_onnx_weights_device(const ls_onnx_weights *weights);
/* The constant that `place` in the model's messages says, as a tensor of a session on that device, made of `data` when it is not there yet. `data`
 * NULL: it gives NULL then, so that the numbers need not be computed to ask. */
ls_status ls_onnx_weights_get(ls_onnx_weights *weights, ls_session *session, const void *place, const ls_data *data, ls_tensor **out_tensor,
                              ls_error *err) LS_MUST_USE;

/* That initialisers are parameters. */
typedef struct ls_onnx_training {
    ls_params *params;
    ls_param_choice choose; /* NULL: all that can be */
    void *user;
} ls_onnx_training;

/* What outlives a run: the values of initialisers and of all that follows from them alone. */
typedef struct ls_onnx_base {
    ls_model *model;
    ls_heap *heap;
    ls_session *session; /* the caller's */
    ls_session *host;    /* on `cpu`, this base's own */
    ls_onnx_weights *weights; /* on the session's device */
    ls_arena arena;
    bool checked;        /* the model's operators were looked up: all are there */
    ls_map constants;    /* names of the model's graph to ls_onnx_value */
    const ls_onnx_training *training; /* the caller's; NULL: initialisers are constants */
    ls_map roles;        /* initialisers' names, for it (trainable.c) */
    LS_ARRAY(ls_data *) data;
    LS_ARRAY(ls_tensor *) tensors;
} ls_onnx_base;

typedef struct ls_onnx_frame ls_onnx_frame;

struct ls_onnx_run {
    ls_onnx_base *base;
    bool eager;        /* the inputs have values */
    bool needs_values; /* why a program could not be built */
    bool selects;      /* an If whose condition its inputs decide may compute both branches */
    bool lasting;      /* the present node follows from constants alone: what it makes belongs to the base */
    ls_onnx_range range; /* of the symbol that extents of its inputs have */
    int depth;
    uint64_t draws;    /* random streams that the run has opened */
    ls_arena arena;
    LS_ARRAY(ls_data *) data;
};

ls_status ls_onnx_base_create(ls_session *session, ls_model *model, ls_onnx_base **out_base, ls_error *err) LS_MUST_USE;
void ls_onnx_base_destroy(ls_onnx_base *base);

/* From now on initialisers that are weights are parameters. (trainable.c) */
ls_status ls_onnx_train(ls_onnx_base *base, const ls_onnx_training *training, ls_error *err) LS_MUST_USE;
/* The value of an initialiser becomes that of its parameter, if it is to be trained. */
ls_status ls_onnx_train_initializer(ls_onnx_base *base, ls_onnx_value *v, ls_error *err) LS_MUST_USE;

/* The session's error becomes *err, and the session is as before. */
ls_status ls_onnx_take_error(ls_session *session, ls_error *err);

/* A run has a scope of each session from begin to end; results are the run's until then. */
ls_status ls_onnx_run_begin(ls_onnx_run *run, ls_onnx_base *base, bool eager, ls_error *err) LS_MUST_USE;
void ls_onnx_run_end(ls_onnx_run *run);
/* A value of the run from a tensor of the caller's session, or from an array (retained). NULL: out of memory. */
ls_onnx_value *ls_onnx_run_tensor(ls_onnx_run *run, ls_tensor *t, int type);
ls_onnx_value *ls_onnx_run_data(ls_onnx_run *run, ls_data *data, int type);
/* Interprets the model's graph. `in`: in the order of ls_model_input, NULL for defaults; `out`: that of ls_model_output. */
ls_status ls_onnx_run_graph(ls_onnx_run *run, ls_onnx_value *const *in, ls_onnx_value **out, ls_error *err) LS_MUST_USE;
/* The numbers of a value, computed if needed; borrowed. */
ls_status ls_onnx_run_read(ls_onnx_run *run, ls_onnx_value *v, const ls_data **out_data, ls_error *err) LS_MUST_USE;
/* Its extents as a tensor of the caller's session; NULL: the session has the error. */
ls_tensor *ls_onnx_run_extents(ls_onnx_run *run, const ls_onnx_value *v);
/* Its tensor in the host session or the caller's. NULL: the error is in *err. */
ls_tensor *ls_onnx_run_place(ls_onnx_run *run, ls_onnx_value *v, bool host, ls_error *err);
/* An initialiser or attribute, decoded; strings too. NULL: the error is in *err. */
ls_onnx_value *ls_onnx_run_decode(ls_onnx_run *run, const Onnx__TensorProto *t, const char *what, ls_error *err);
void *ls_onnx_run_alloc(ls_onnx_run *run, size_t size); /* of the base's arena or the run's, as `lasting` says */

#endif
