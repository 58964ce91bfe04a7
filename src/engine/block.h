/* A block of steps while it is compiled: internal to compile.c and place.c. */
#ifndef LOCKSTEP_ENGINE_BLOCK_H
#define LOCKSTEP_ENGINE_BLOCK_H

#include "engine/exec.h"

typedef struct ls_block_build {
    ls_exec *exec;
    ls_heap *heap;
    ls_error *err;
    LS_ARRAY(ls_step) steps;
    LS_ARRAY(ls_val *) vals;
} ls_block_build;

/* compile.c */
ls_status ls_block_out_of_memory(ls_block_build *b);
ls_device *ls_block_device(const ls_block_build *b, const ls_tensor *node);
ls_val *ls_val_new(ls_block_build *b, ls_tensor *node, size_t bytes, ls_device *device);
void ls_val_fix(ls_val *val, int bind);
/* The value of a node; made when first asked for. NULL when out of memory. */
ls_val *ls_val_of(ls_block_build *b, ls_tensor *node);
/* A step that copies; either may be NULL: out of memory. */
ls_status ls_step_copy(ls_block_build *b, ls_val *from, ls_val *to) LS_MUST_USE;

/* place.c, in this order: roots get their places before the steps are made, the rest follows them. */
ls_status ls_block_claim_roots(ls_block_build *b, ls_tensor *const *roots, const int *binds, int n) LS_MUST_USE;
ls_status ls_block_copy_second_roots(ls_block_build *b, ls_tensor *const *roots, const int *binds, int n) LS_MUST_USE;
ls_status ls_block_assign(ls_block_build *b) LS_MUST_USE;
void ls_block_mark_lifetimes(ls_block_build *b);
ls_status ls_block_plan_memory(ls_block_build *b, ls_block *block) LS_MUST_USE;

#endif
