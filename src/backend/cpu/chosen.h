/* Operands that have one element of each window of two by two, as the gradient of a max-pooling: chosen.c, internal to it, sparse*.c and
 * cpu.c. */
#ifndef LOCKSTEP_BACKEND_CPU_CHOSEN_H
#define LOCKSTEP_BACKEND_CPU_CHOSEN_H

#include "backend/cpu/kernel.h"

/* Such an operand is an argument of its kernel's own, dense, in memory of the device's that is written only where no lists are made
 * instead. */
typedef struct ls_chosen {
    int dense;
    int cells, places; /* arguments: what each window has, and which of its elements has it */
    int64_t width; /* windows of a line */
    size_t offset;         /* of the dense one in the device's temporaries */
    bool listed; /* its contraction makes lists itself, and writes the operand if it cannot */
} ls_chosen;

/* Whether a plan may leave such operands to the kernels that read them. */
bool ls_chosen_may(void);
/* Before phases are planned: finds the operand of a spec's contraction and makes it an argument; a sum over it becomes one over windows. */
ls_status ls_chosen_plan(ls_kernel_binary *binary, ls_error *err) LS_MUST_USE;
/* Writes the dense operand. */
void ls_chosen_write(ls_kernel_run *kernel);

#endif
