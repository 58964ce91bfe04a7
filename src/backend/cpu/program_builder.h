/* The builder of tile programs, for the files that are it: program.c (values), registers.c (their places). */
#ifndef LOCKSTEP_BACKEND_CPU_PROGRAM_BUILDER_H
#define LOCKSTEP_BACKEND_CPU_PROGRAM_BUILDER_H

#include "backend/cpu/program.h"

typedef struct virtual_reg {
    uint8_t log2, section;
    bool lanes;        /* all lanes, not one */
    int16_t broadcast; /* the register with its one lane, or a row's, in all lanes; or -1 */
} virtual_reg;

typedef struct memo {
    bool known;
    int16_t reg, mask;
} memo;

struct ls_program_builder {
    ls_arena *arena;
    const ls_spec *spec;
    const ls_tile_isa *isa;
    const int *temps;
    int n_lane_axes;
    uint8_t lane_axes[LS_LANE_AXES];
    uint64_t lane_mask, row_mask; /* all lane axes, and those outside of rows */
    int row_axes;                 /* how many those are; 0: no rows */
    bool failed;
    bool ahead;   /* runs follow each other in memory */
    int16_t input;
    int n_instrs[LS_SECTION_COUNT], cap_instrs[LS_SECTION_COUNT];
    ls_instr *instrs[LS_SECTION_COUNT];
    int n_accesses, cap_accesses;
    ls_access *accesses;
    int n_regs, cap_regs;
    virtual_reg *regs;
    memo *values;
    int16_t *ixs; /* register + 1; 0 none */
};

/* The register as an operand of an instruction in `section`. */
int16_t ls_pb_operand(ls_program_builder *builder, ls_section section, int16_t reg);

#endif
