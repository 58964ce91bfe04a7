/* Outputs of a runner's runs that are inputs of its next: where such a value is between two runs. */
#ifndef LOCKSTEP_IO_ONNX_STATE_H
#define LOCKSTEP_IO_ONNX_STATE_H

#include "io/onnx/run.h"

typedef struct ls_onnx_state {
    int input, output;   /* of the model */
    ls_data *first;      /* what the first run gets */
    ls_data *value;      /* what the next gets, while `program` is NULL; else only its dtype and extents hold */
    ls_program *program; /* whose output `slot` it is; NULL: it is on the host */
    int slot;
} ls_onnx_state;

void ls_onnx_state_reset(ls_onnx_state *state);
/* After a run: the value is an array, which is retained, or output `slot` of a program, of these extents. */
void ls_onnx_state_set(ls_onnx_state *state, ls_data *value);
ls_status ls_onnx_state_set_output(ls_onnx_state *state, ls_context *context, ls_program *program, int slot, ls_dtype dtype, int rank,
                                   const int64_t *dims, ls_error *err) LS_MUST_USE;
/* The states that are an input or an output of the model; NULL: there is none. */
ls_onnx_state *ls_onnx_state_of_input(ls_runner *r, int i);
ls_onnx_state *ls_onnx_state_of_output(ls_runner *r, int i);
bool ls_onnx_holds_state(const ls_runner *r, const ls_program *program);
/* Before a run: into input `slot` of a program, or *out_bytes are what to give it. */
ls_status ls_onnx_state_enter(ls_onnx_state *state, ls_session *session, ls_program *program, int slot, const void **out_bytes,
                              ls_error *err) LS_MUST_USE;
/* To the host: from then on `value` holds it. */
ls_status ls_onnx_state_fetch(ls_onnx_state *state, ls_session *session, ls_error *err) LS_MUST_USE;

#endif
