/* Vetting of new kernels: see vet.c. */
#ifndef LOCKSTEP_ENGINE_VET_H
#define LOCKSTEP_ENGINE_VET_H

#include "engine/session.h"

/* Compares a compiled locked kernel with `ref` on awkward bits, unless this was done before on this machine, the device is
 * one that needs no vetting (cpu, ref, cuda) or LOCKSTEP_VET=off. LS_ERR_DIFFERS, naming device, kernel, element and both
 * values. Any thread; the kernel must not be in use. */
ls_status ls_vet(ls_device *device, const ls_spec *spec, ls_kernel_binary *binary, ls_error *err) LS_MUST_USE;
/* The same, always, and for kernels in any arithmetic: those that are not locked must be exact on small integers. */
ls_status ls_vet_kernel(ls_device *device, const ls_spec *spec, ls_kernel_binary *binary, ls_error *err) LS_MUST_USE;
/* Seconds of one launch on numbers of ordinary size, at the symbols' bounds: the best of a few rounds. */
ls_status ls_vet_time(ls_device *device, const ls_spec *spec, ls_kernel_binary *binary, double *out_seconds,
                      ls_error *err) LS_MUST_USE;

/* ---- tune.c ---- */

/* The strategy to compile a spec by; empty: the device's own choice. With LOCKSTEP_TUNE=on, kernels on devices with
 * threads are compiled by every strategy of their kind; those that are wrong are left out and reported in the log, and the fastest
 * of the others is taken, and kept in the disk cache. */
ls_status ls_tune(ls_device *device, const ls_spec *spec, char out_strategy[LS_STRATEGY_MAX], ls_error *err) LS_MUST_USE;

#endif
