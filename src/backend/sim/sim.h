/* Internal to the simulated device. */
#ifndef LOCKSTEP_BACKEND_SIM_SIM_H
#define LOCKSTEP_BACKEND_SIM_SIM_H

#include "kir/kir.h"

/* The kernel as a device with wrong arithmetic would run it: f32 add, sub and mul flush subnormals, an add of a product is
 * fused, quotients and roots are off by up to 2 ULPs. */
ls_status ls_sim_spoil(ls_arena *arena, const ls_kernel *kernel, ls_kernel *out_kernel, ls_error *err) LS_MUST_USE;

#endif
