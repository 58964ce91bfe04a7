/* Packed operands kept from launch to launch: internal to the CPU backend. */
#ifndef LOCKSTEP_BACKEND_CPU_KEPT_H
#define LOCKSTEP_BACKEND_CPU_KEPT_H

#include "backend/cpu/kernel.h"

typedef struct ls_kept {
    struct ls_kept *next;
    const void *handle, *owner; /* the buffer's; the contraction */
    size_t offset;
    int what, sightings;
    uint64_t writes;
    bool ready, finite; /* packed; without infinities and NaN */
    ls_gemm_packed packed;
    void *data; /* the bytes asked for */
} ls_kept;

/* What is kept for an owner: each is always packed in one way, since extents of what is kept are fixed. */
enum {
    LS_KEPT_PANELS,      /* and on: 2 * ls_gemm_side + the side (owner: a phase) */
    LS_KEPT_TURNED = 8,  /* and the side: a matrix by a vector, its columns where its rows were */
    LS_KEPT_PAIRS = 10,  /* and the side */
    LS_KEPT_QUANT = 12,
    LS_KEPT_WINDOWS = 0, /* owner: its ls_gemm_phase */
    LS_KEPT_SPARSE
};

/* The place of argument `arg` of this launch, packed for `owner` as `what`, with room for `bytes`; the caller packs into it
 * when it is not `ready`. NULL: it has not been the same for long enough, or there is no memory. */
ls_kept *ls_kept_find(ls_cpu_device *device, const ls_launch *launch, int arg, const void *owner, int what,
                      size_t bytes);
/* The same for an operand made of several arguments, and from the first launch on. */
ls_kept *ls_kept_find_all(ls_cpu_device *device, const ls_launch *launch, const uint8_t *args, int n_args, const void *owner,
                          int what, size_t bytes);
/* Gives its data back. */
void ls_kept_drop(ls_cpu_device *device, ls_kept *kept);
void ls_kept_forget_buffer(ls_cpu_device *device, const void *handle);
void ls_kept_forget_owner(ls_cpu_device *device, const void *owner);
void ls_kept_free(ls_cpu_device *device);

#endif
