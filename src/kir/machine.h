/* The interpreter's state: a kernel, its memories with their shadow cells, and the registers of one workgroup. Internal to
 * src/kir.
 *
 * Registers lie lane after lane, thread after thread: regs[(slot + lane) * threads + thread]. Element e of a fragment
 * lives in lane e / width of the subgroup's thread e % width. */
#ifndef LOCKSTEP_KIR_MACHINE_H
#define LOCKSTEP_KIR_MACHINE_H

#include "kir/kir.h"

enum { LS_MACHINE_DEPTH = 66 }; /* of blocks */

typedef struct ls_shadow_cell { /* of an element: who last wrote and read it */
    int32_t writer_group, writer, write_phase; /* writer_group 0: nobody */
    int32_t reader_group, reader, read_phase;
    uint8_t atomic;       /* the last write was */
    uint8_t many_readers; /* threads, in that phase */
    uint8_t many_groups;  /* have read it */
} ls_shadow_cell;

typedef struct ls_machine_memory {
    uint8_t *data;
    ls_shadow_cell *cells;
    int64_t count;
    uint8_t size;  /* of an element, in bytes */
    bool poisoned; /* unwritten elements may not be read */
} ls_machine_memory;

typedef struct ls_machine {
    ls_heap *heap;
    const ls_kernel *k;
    const ls_interp_launch *launch;
    ls_error *err;
    int threads, width;
    int64_t *slot; /* by value */
    ls_val *match; /* LOOP: its END_LOOP; IF: its ELSE or END_IF; ELSE: its END_IF */
    uint64_t *regs;
    uint8_t *masks; /* LS_MACHINE_DEPTH of `threads` each */
    ls_machine_memory *mems;
    int64_t group[3];
    int32_t group_number, phase; /* from 1 */
} ls_machine;

/* Registers that a value takes in each thread. */
int ls_machine_lanes(const ls_machine *m, const ls_ins *ins);
/* Checks blocks, parameters and buffers, and makes room. `heap`, `k`, `launch`, `err`, `threads` and `width` are set. Freed by the
 * caller, whatever comes back. */
ls_status ls_machine_init(ls_machine *m) LS_MUST_USE;
void ls_machine_free(ls_machine *m);

#endif
