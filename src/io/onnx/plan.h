/* Programs of a runner, for the shapes of inputs (and for settings among the inputs, where shapes or branches depend on them).
 *
 * A program serves one combination of shapes, or all of a pattern (pattern.h) by a symbol. The first shapes get a program of their own; when
 * others come, the extents that changed are made symbols, and where the model does not allow that they get one of their own too. */
#ifndef LOCKSTEP_IO_ONNX_PLAN_H
#define LOCKSTEP_IO_ONNX_PLAN_H

#include "io/onnx/pattern.h"
#include "io/onnx/state.h"

/* A result. */
typedef struct ls_onnx_output {
    ls_dtype dtype;
    ls_shape shape;
    ls_data *known; /* does not depend on what the inputs hold; NULL: the program computes it */
} ls_onnx_output;

/* The most that extents of a name will be, as the caller says. */
typedef struct ls_onnx_stated {
    char *name;
    int64_t most;
} ls_onnx_stated;

typedef struct ls_onnx_symbol {
    int64_t bound;
    ls_symbol *symbol;
} ls_onnx_symbol;

typedef struct ls_onnx_plan {
    struct ls_onnx_plan *next;
    ls_onnx_pattern pattern;    /* of the shapes that it serves */
    ls_symbol *symbol;          /* NULL: these shapes alone */
    int64_t bound, least, most; /* the symbol's, and for which of its values what was built holds */
    ls_data **fixed; /* those whose numbers it is for, since shapes or branches depend on them; NULL: any */
    bool settled;    /* `fixed` was looked for: shapes alone do not do */
    ls_program *program; /* NULL: node by node; or all outputs are known */
    bool eager;
    ls_onnx_output *outputs;
} ls_onnx_plan;

struct ls_runner {
    ls_onnx_base *base;
    ls_onnx_plan *plans, *last;
    int n_in, n_out;
    LS_ARRAY(ls_onnx_state) states;
    LS_ARRAY(ls_onnx_stated) stated;
    LS_ARRAY(ls_onnx_symbol) symbols; /* made so far, one for each bound */
    int refusals;                     /* how often the model did not allow symbols */
    char *refusal;                    /* why, the last time */
    ls_runner_facts facts;
};

/* The plan that serves the inputs, in the order of ls_model_input; made if there is none. *out_value: of its symbol. */
ls_status ls_onnx_find_plan(ls_runner *r, const ls_data *const *inputs, ls_onnx_plan **out_plan,
                            int64_t *out_value, ls_error *err) LS_MUST_USE;
void ls_onnx_free_plan(ls_runner *r, ls_onnx_plan *p);
/* In place of *plan, whose symbol's bound the device cannot serve (`why`): one for the present extents alone. */
ls_status ls_onnx_fix_plan(ls_runner *r, const ls_data *const *inputs, const char *why, ls_onnx_plan **plan,
                           ls_error *err) LS_MUST_USE;

/* ---- runner.c, but for the last ---- */
int ls_onnx_find_input(const ls_model *model, const char *name); /* -1: there is none */
ls_status ls_onnx_unknown_input(const ls_model *model, const char *name, ls_error *err);
ls_status ls_onnx_check_port(const ls_model *model, const ls_model_port *port, ls_dtype dtype, int rank, const int64_t *dims,
                             ls_error *err) LS_MUST_USE;
ls_status ls_onnx_session_fails(ls_session *session, const ls_error *err); /* records it; gives its code */
int ls_onnx_input_type(const ls_model *model, int i);
ls_status ls_onnx_must_be_tensor(const ls_model *model, int i, const ls_onnx_value *v,
                                 ls_error *err) LS_MUST_USE;
/* The session's error, taken away from it, as the model's. */
ls_status ls_onnx_session_failed(ls_runner *r, ls_error *err);

#endif
