/* Vetting of new kernels: see vet.c. */
#ifndef LOCKSTEP_ENGINE_VET_H
#define LOCKSTEP_ENGINE_VET_H

#include "engine/session.h"

/* Compares a compiled locked kernel with `ref` on awkward bits, unless this was done before on this machine, the device is
 * one that needs no vetting (cpu, ref, cuda) or LOCKSTEP_VET=off. LS_ERR_DIFFERS, naming device, kernel, element and both
 * values. Any thread; the kernel must not be in use. */
ls_status ls_vet(ls_device *device, const ls_spec *spec, ls_kernel_binary *binary, ls_error *err) LS_MUST_USE;

#endif
