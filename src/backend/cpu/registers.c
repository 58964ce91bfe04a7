/* The last step of building a tile program: instructions that nobody needs are dropped and registers get their
 * places. What outlives a tile has a place of its own; the others share. */
#include "backend/cpu/program_builder.h"
#include <string.h>

enum { SHORT_ROW = 64 }; /* lanes */

typedef struct slot {
    uint8_t log2;
    bool free;
    size_t offset;
} slot;

static size_t reg_size(const virtual_reg *r) {
    return r->lanes ? ((size_t)LS_TILE << r->log2) : LS_ALIGN;
}

int ls_pb_uses(const ls_program_builder *b, const ls_instr *in, int16_t *out) {
    const int16_t operands[3] = {in->a, in->b, in->c};
    int n = 0;
    for (int i = 0; i < 3; i++) {
        if (operands[i] >= 0) {
            out[n++] = operands[i];
        }
    }
    return in->op == LS_TILE_OP_FUSED ? ls_fused_uses(b->fused[in->access], out) : n;
}

/* Drops instructions whose result nobody uses. */
static bool drop_unused(ls_program_builder *b, int n_results, const int16_t *results) {
    bool *used = LS_ARENA_ARRAY(b->arena, bool, b->n_regs + 1);
    if (!used) {
        return false;
    }
    for (int i = 0; i < n_results; i++) {
        used[results[i] + 1] = true; /* -1 is none */
    }
    for (int s = LS_SECTION_COUNT - 1; s >= 0; s--) {
        int kept = b->n_instrs[s];
        for (int i = b->n_instrs[s] - 1; i >= 0; i--) {
            const ls_instr *in = &b->instrs[s][i];
            if (ls_instr_writes(in) || used[in->dst + 1]) {
                int16_t reads[LS_INSTR_USES];
                for (int j = ls_pb_uses(b, in, reads); j-- > 0;) {
                    used[reads[j] + 1] = true;
                }
                b->instrs[s][--kept] = *in;
            }
        }
        b->n_instrs[s] -= kept;
        if (b->n_instrs[s]) {
            memmove(b->instrs[s], b->instrs[s] + kept, (size_t)b->n_instrs[s] * sizeof(ls_instr));
        }
    }
    return true;
}

/* Lanes after which the coordinate of a lane axis comes again; 0: too many to be worth it, or not known. */
static int64_t period_of(const ls_program_builder *b, int axis) {
    int64_t n = 1;
    for (int i = b->n_lane_axes; i-- > 0 && n <= LS_TILE;) {
        ls_dim extent = b->spec->extents_of_axes[b->lane_axes[i]];
        n = ls_dim_is_fixed(extent) ? n * extent.offset : LS_TILE + 1;
        if (b->lane_axes[i] == axis) {
            break;
        }
    }
    return n <= LS_TILE ? n : 0;
}

/* Puts what follows from the coordinates of inner lane axes alone in front: tiles that begin at the same place of the period
 * share it (program_run.c), so its registers outlive a tile. */
static bool find_periodic(ls_program_builder *b, ls_program *out) {
    int n = b->n_instrs[LS_SECTION_LANES], front = 0;
    ls_instr *code = b->instrs[LS_SECTION_LANES];
    bool *periodic = LS_ARENA_ARRAY(b->arena, bool, b->n_regs + 1);
    if (!periodic) {
        return false;
    }
    for (int i = 0; i < n; i++) {
        ls_instr in = code[i];
        int64_t period = in.op == LS_TILE_OP_COORD ? period_of(b, in.access) : 0;
        bool any = period > 0, all = in.op == LS_TILE_OP_COORD || in.op == LS_TILE_OP_FN || in.op == LS_TILE_OP_CAST;
        const int16_t used[3] = {in.a, in.b, in.c};
        for (int j = 0; j < 3; j++) {
            any |= used[j] >= 0 && periodic[used[j]];
            all &= used[j] < 0 || periodic[used[j]] || b->regs[used[j]].section == LS_SECTION_LAUNCH;
        }
        if (any && all) {
            periodic[in.dst] = true;
            out->period = period > out->period ? period : out->period; /* one divides the other */
            memmove(code + front + 1, code + front, (size_t)(i - front) * sizeof in);
            code[front++] = in;
        }
    }
    out->n_periodic = front;
    for (int i = 0; i < n && !out->period; i++) { /* short rows of loads: tiles end where rows end */
        const ls_access *a = code[i].op == LS_TILE_OP_LOAD ? &b->accesses[code[i].access] : NULL;
        int64_t row = a && !a->n_tables && a->n_dims > 1 ? period_of(b, b->lane_axes[a->dims[a->n_dims - 1].first]) : 0;
        out->period = row <= SHORT_ROW ? row : 0;
    }
    for (int i = 0; i < front; i++) {
        b->regs[code[i].dst].section = LS_SECTION_LAUNCH;
    }
    return true;
}

bool ls_pb_finish(ls_program_builder *b, int n_results, const int16_t *results, ls_program *out) {
    for (int i = 0; i < n_results && !b->failed; i++) {
        out->results[i] = ls_pb_operand(b, LS_SECTION_LANES, results[i]);
    }
    if (b->failed || !drop_unused(b, n_results, out->results) || !find_periodic(b, out) ||
        !ls_pb_fuse(b, out->n_periodic, n_results, out->results) || (b->n_fused && !drop_unused(b, n_results, out->results))) {
        return false;
    }
    int n_lanes = b->n_instrs[LS_SECTION_LANES], n_slots = 0;
    int *last = LS_ARENA_ARRAY(b->arena, int, b->n_regs + 1);
    int *place = LS_ARENA_ARRAY(b->arena, int, b->n_regs + 1);
    slot *slots = LS_ARENA_ARRAY(b->arena, slot, b->n_regs + 1);
    out->reg_offsets = LS_ARENA_ARRAY(b->arena, size_t, b->n_regs + 1);
    if (b->failed || !last || !place || !slots || !out->reg_offsets) {
        return false;
    }
    size_t bytes = 0;
    for (int r = 0; r < b->n_regs; r++) { /* what outlives a tile has a place of its own */
        place[r] = -1;
        last[r] = -1;
        if (b->regs[r].section != LS_SECTION_LANES || r == b->input) {
            out->reg_offsets[r] = bytes;
            bytes += reg_size(&b->regs[r]);
        }
    }
    const ls_instr *code = b->instrs[LS_SECTION_LANES];
    for (int i = 0; i < n_lanes; i++) {
        int16_t used[LS_INSTR_USES + 1];
        int n_used = ls_pb_uses(b, &code[i], used);
        used[n_used] = code[i].dst;
        for (int j = 0; j <= n_used; j++) {
            if (used[j] >= 0) {
                last[used[j]] = i;
            }
        }
    }
    for (int i = 0; i < n_results; i++) {
        if (out->results[i] >= 0) {
            last[out->results[i]] = n_lanes;
        }
    }
    for (int i = 0; i < n_lanes; i++) {
        /* dst may take the place of an operand that ends here only where it has the same size. */
        int16_t used[LS_INSTR_USES + 1];
        int n_used = ls_pb_uses(b, &code[i], used);
        for (int j = 0; j < n_used && code[i].op != LS_TILE_OP_STORE; j++) {
            if (place[used[j]] >= 0 && last[used[j]] == i) {
                slots[place[used[j]]].free = true;
            }
        }
        int16_t r = code[i].dst;
        if (r >= 0 && b->regs[r].section == LS_SECTION_LANES) {
            int s = 0;
            while (s < n_slots && !(slots[s].free && slots[s].log2 == b->regs[r].log2)) {
                s++;
            }
            if (s == n_slots) {
                slots[n_slots++] = (slot){b->regs[r].log2, true, bytes};
                bytes += reg_size(&b->regs[r]);
            }
            slots[s].free = false;
            place[r] = s;
            out->reg_offsets[r] = slots[s].offset;
        }
        used[n_used] = r;
        for (int j = 0; j <= n_used; j++) {
            if (used[j] >= 0 && place[used[j]] >= 0 && last[used[j]] == i && (used[j] == r || code[i].op == LS_TILE_OP_STORE)) {
                slots[place[used[j]]].free = true;
            }
        }
    }
    out->n_lane_axes = b->n_lane_axes;
    memcpy(out->lane_axes, b->lane_axes, sizeof out->lane_axes);
    for (int s = 0; s < LS_SECTION_COUNT; s++) {
        out->n_instrs[s] = b->n_instrs[s];
        out->instrs[s] = b->instrs[s];
    }
    out->n_accesses = b->n_accesses;
    out->accesses = b->accesses;
    out->fused = b->fused;
    out->n_regs = b->n_regs;
    out->reg_bytes = bytes;
    out->n_results = n_results;
    out->input = b->input;
    out->row_axes = b->n_instrs[LS_SECTION_ROWS] ? b->row_axes : 0;
    out->endless = b->n_fused > 0 && !out->n_periodic;
    for (int i = 0; i < n_lanes; i++) {
        int16_t used[LS_INSTR_USES];
        out->endless = out->endless && code[i].op == LS_TILE_OP_FUSED && code[i].dst < 0 &&
                       ls_pb_uses(b, &code[i], used) == b->fused[code[i].access]->n_scalars;
    }
    return true;
}
