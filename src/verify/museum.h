/* Inside the museum: what a case is given, and its ways to fail. */
#ifndef LOCKSTEP_VERIFY_MUSEUM_H
#define LOCKSTEP_VERIFY_MUSEUM_H

#include "engine/session.h"
#include "spec/mutate.h"
#include "verify/data.h"
#include <lockstep/check.h>
#include <lockstep/grad.h>
#include <lockstep/ops.h>

/* A fault: its name, the case that catches it, what is done, and the mutation of a kernel's spec that does
 * it, where one fits. */
typedef enum ls_fault_site {
    LS_FAULT_FIRST,   /* the first site that has the variant */
    LS_FAULT_LEFT,    /* the load that operand 0 of the contraction or reduction comes from */
    LS_FAULT_RIGHT,   /* ... operand 1 of the contraction */
    LS_FAULT_REFUSED, /* no kernel: the device refuses to compile */
    LS_FAULT_CASE     /* no kernel: the case itself plants it */
} ls_fault_site;
typedef struct ls_fault {
    const char *name, *museum_case, *about;
    ls_mutator mutator;
    ls_fault_site site;
    int variant; /* negative: from the last */
    int kernels; /* which are hit: a bit for each ls_value_op that they must hold one of; 0: all */
    int stores;  /* ... and at least so many stores */
} ls_fault;

/* One case while it runs. The first failure stays; after it the helpers do nothing. */
typedef struct ls_museum {
    ls_context *context;
    ls_device *device;
    ls_session *session; /* fresh for each case, fused */
    ls_math math;
    ls_arena arena;        /* emptied after each case */
    const ls_fault *fault; /* planted, or NULL */
    bool interprets;       /* the device is the reference: big cases shrink to the time it has */
    ls_status status; /* not LS_OK: the case has no answer yet, and `message` says why */
    ls_case_state state;
    char message[LS_MESSAGE_MAX];
    char kernel[160]; /* what ran last, for messages */
} ls_museum;

typedef struct ls_museum_case_row {
    const char *name, *about;
    void (*run)(ls_museum *m);
} ls_museum_case_row;
extern const ls_museum_case_row ls_museum_matmul_cases[], ls_museum_fusion_cases[], ls_museum_conv_cases[],
    ls_museum_im2col_cases[], ls_museum_plain_cases[]; /* each ends in a NULL name */

/* ---- ways to end ---- */
void ls_museum_fail(ls_museum *m, const char *fmt, ...) LS_PRINTF(2, 3);
void ls_museum_skip(ls_museum *m, const char *fmt, ...) LS_PRINTF(2, 3);
/* A status that says nothing of the device: the call ends with it, and is made again. */
static inline bool ls_status_is_no_answer(ls_status status) {
    return status == LS_ERR_AGAIN || status == LS_ERR_CANCELLED;
}
static inline bool ls_museum_over(const ls_museum *m) {
    return m->state != LS_CASE_PASSED;
}

/* ---- data: of the arena; NULL ends the case ---- */
float *ls_museum_floats(ls_museum *m, int64_t n);
/* n values in (-1, 1), the same on every run. */
float *ls_museum_random(ls_museum *m, int64_t n, uint64_t seed);
/* As a tensor of any float dtype, rounded once. */
ls_tensor *ls_museum_tensor(ls_museum *m, ls_session *s, ls_dtype dtype, ls_shape shape, const float *values);
ls_tensor *ls_museum_random_tensor(ls_museum *m, ls_session *s, ls_dtype dtype, ls_shape shape,
                                   uint64_t seed);

/* ---- checks ---- */
/* Computes the tensors of a session with every kernel compared with the references. */
void ls_museum_verify(ls_museum *m, ls_session *s, ls_tensor *const *tensors, int count);
/* As verify, with one tensor, whose values are then within `gap` of literals, as NumPy prints them; 0: equal.
 */
void ls_museum_literal(ls_museum *m, ls_session *s, ls_tensor *t, const float *want, int64_t n, double gap);
/* The value on the host; NULL ends the case. The caller releases it. */
ls_data *ls_museum_read(ls_museum *m, ls_session *s, ls_tensor *t);
/* The same bits where results are locked; else nothing is asked. `what` names both sides. */
void ls_museum_same(ls_museum *m, const char *what, const ls_data *expected, const ls_data *actual);
/* By bits, whatever the arithmetic: movement, exact integers. */
void ls_museum_equal(ls_museum *m, const char *what, const ls_data *expected, const ls_data *actual);
/* Computes c = a b for [batch, rows, depth] x [batch, depth, columns] floats and compares: locked all of it
 * with the contract's rule in plain loops, else a sixteenth with a bound from the sums of magnitudes. */
void ls_museum_product(ls_museum *m, ls_tensor *c, const float *a, const float *b, int64_t batch,
                       int64_t rows, int64_t depth, int64_t columns);
/* Records an error that a builder left in the session, if any, as the case's failure. */
bool ls_museum_built(ls_museum *m, ls_session *s, const ls_tensor *t);
/* Another session on the same device, with the case's arithmetic; fused or not. Destroyed by the caller. */
ls_session *ls_museum_session(ls_museum *m, ls_device *device, int fusion);

/* ---- plant.c ---- */
extern const ls_fault ls_faults[]; /* ends in a NULL name */
/* NULL for no name, or with an error. */
ls_status ls_fault_find(const char *name, const ls_fault **out_fault, ls_error *err);
/* Fits ls_spec_fault.plant; user is the ls_fault, and is not changed. */
ls_status ls_fault_plant(void *user, ls_arena *arena, const ls_spec *spec, ls_spec *out_spec, ls_error *err);

#endif
