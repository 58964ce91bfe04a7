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
    int n_fused;
    ls_fused **fused;
    int n_regs, cap_regs;
    virtual_reg *regs;
    memo *values;
    int16_t *ixs; /* register + 1; 0 none */
};

/* The register as an operand of an instruction in `section`. */
int16_t ls_pb_operand(ls_program_builder *builder, ls_section section, int16_t reg);

enum { LS_INSTR_USES = 3 + LS_CHAIN_POINTERS + LS_CHAIN_SCALARS };
/* The registers that a chain reads (fuse.c), and those of any instruction; how many. */
int ls_fused_uses(const ls_fused *fused, int16_t *out_regs);
int ls_pb_uses(const ls_program_builder *builder, const ls_instr *instr, int16_t *out_regs);
static inline bool ls_instr_writes(const ls_instr *in) {
    return in->op == LS_TILE_OP_STORE || in->op == LS_TILE_OP_SCATTER || in->op == LS_TILE_OP_CHECK ||
           (in->op == LS_TILE_OP_FUSED && in->dst < 0);
}
/* Makes one instruction of several behind the periodic ones; false when out of memory (fuse.c). */
bool ls_pb_fuse(ls_program_builder *builder, int n_periodic, int n_results, const int16_t *results);

#endif
