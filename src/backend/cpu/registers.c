/* The last step of building a tile program: instructions that nobody needs are dropped and registers get their
 * places. What outlives a tile has a place of its own; the others share. */
#include "backend/cpu/program_builder.h"
#include <string.h>

typedef struct slot {
    uint8_t log2;
    bool free;
    size_t offset;
} slot;

static size_t reg_size(const virtual_reg *r) {
    return r->lanes ? ((size_t)LS_TILE << r->log2) : LS_ALIGN;
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
            bool effect =
                in->op == LS_TILE_OP_STORE || in->op == LS_TILE_OP_SCATTER || in->op == LS_TILE_OP_CHECK;
            if (effect || used[in->dst + 1]) {
                used[in->a + 1] = used[in->b + 1] = used[in->c + 1] = true;
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

bool ls_pb_finish(ls_program_builder *b, int n_results, const int16_t *results, ls_program *out) {
    for (int i = 0; i < n_results && !b->failed; i++) {
        out->results[i] = ls_pb_operand(b, LS_SECTION_LANES, results[i]);
    }
    if (b->failed || !drop_unused(b, n_results, out->results)) {
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
        const int16_t used[4] = {code[i].a, code[i].b, code[i].c, code[i].dst};
        for (int j = 0; j < 4; j++) {
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
        const int16_t used[3] = {code[i].a, code[i].b, code[i].c};
        for (int j = 0; j < 3 && code[i].op != LS_TILE_OP_STORE; j++) {
            if (used[j] >= 0 && place[used[j]] >= 0 && last[used[j]] == i) {
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
        const int16_t done[4] = {code[i].a, code[i].b, code[i].c, code[i].dst};
        for (int j = 0; j < 4; j++) {
            if (done[j] >= 0 && place[done[j]] >= 0 && last[done[j]] == i &&
                (done[j] == r || code[i].op == LS_TILE_OP_STORE)) {
                slots[place[done[j]]].free = true;
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
    out->n_regs = b->n_regs;
    out->reg_bytes = bytes;
    out->n_results = n_results;
    out->input = b->input;
    out->row_axes = b->n_instrs[LS_SECTION_ROWS] ? b->row_axes : 0;
    return true;
}
