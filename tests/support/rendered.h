/* Kernels given to the tools that judge what the renderers write: spirv-val for SPIR-V, NVIDIA's assembler for PTX. Where a tool is
 * not on this machine its part is left out, and said so. One thread; one list a program. */
#ifndef LOCKSTEP_TESTS_SUPPORT_RENDERED_H
#define LOCKSTEP_TESTS_SUPPORT_RENDERED_H

#include "kir/kir.h"

/* The command of the assembler, or NULL. */
const char *rendered_ptxas(void);
/* The same of what judges SPIR-V: it takes environments ("vulkan1.1,vulkan1.2"), then files, and prints what it refuses. */
const char *rendered_spirv_vals(void);

/* Makes an emitted kernel legal for a device of each kind and renders it; a text that is new is kept for judgement. An error where
 * a renderer fails. */
ls_status rendered_add(const ls_kernel *kernel, ls_error *err) LS_MUST_USE;
/* Judges what is left, prints how much there was, and frees everything. The number of texts refused, each printed. A program that
 * does not call it judges as it ends, and then exits with 1 where something was refused. */
long rendered_finish(void);

#endif
