/* Optimisers and learning-rate schedules. State is in variables beside the parameters, so a saved state
 * resumes exactly. */
#ifndef LOCKSTEP_OPTIM_H
#define LOCKSTEP_OPTIM_H

#include <lockstep/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ls_optimizer_kind { LS_OPTIM_SGD, LS_OPTIM_ADAM, LS_OPTIM_ADAMW } ls_optimizer_kind;
typedef enum ls_schedule_kind { LS_SCHEDULE_CONSTANT, LS_SCHEDULE_COSINE, LS_SCHEDULE_STEP } ls_schedule_kind;

/* 0 stands for the default given. */
typedef struct ls_optimizer_options {
    ls_optimizer_kind kind;
    double momentum;              /* SGD: 0 */
    double beta1, beta2, epsilon; /* Adam: 0.9, 0.999, 1e-8 (Kingma and Ba, 2015) */
    double weight_decay;          /* AdamW: decoupled (Loshchilov and Hutter, 2019); SGD and Adam: added to the gradient */
    double clip_norm;             /* gradients scaled down to this global norm; 0: not */
} ls_optimizer_options;

typedef struct ls_optimizer ls_optimizer;

/* For the parameters that are there: make it after the last one. `options` may be NULL. The caller destroys it, before its parameters and
 * its session. An optimiser is for the session's thread. */
LS_API ls_status ls_optimizer_create(ls_session *session, ls_params *params, const ls_optimizer_options *options,
                                     ls_optimizer **out_optimizer) LS_MUST_USE;
LS_API void ls_optimizer_destroy(ls_optimizer *optimizer);
/* Adds one step to the graph: differentiates `loss` and assigns every parameter and the optimiser's state, or, where that
 * fails by anything but memory, nothing.
 * `rate` is an f32 scalar tensor (an ls_input of a program, say), so that a schedule recompiles nothing. */
LS_API ls_status ls_optimizer_step(ls_session *session, ls_optimizer *optimizer, ls_tensor *loss, ls_tensor *rate);
/* The state's variables: moments and the step count, named after the parameters ("NAME.m", "NAME.v",
 * "optimizer.step"). */
LS_API int ls_optimizer_state_count(const ls_optimizer *optimizer);
LS_API ls_var *ls_optimizer_state_at(const ls_optimizer *optimizer, int index);

/* The rate at step `step` of `steps`: constant; cosine from `rate` to 0 after a linear warm-up; or divided by
 * 10 every `every` steps. */
typedef struct ls_schedule {
    ls_schedule_kind kind;
    double rate;
    int64_t warmup, steps, every;
} ls_schedule;
LS_API double ls_schedule_rate(const ls_schedule *schedule, int64_t step);

#ifdef __cplusplus
}
#endif
#endif
