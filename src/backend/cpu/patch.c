/* Transposed loads: lanes far apart in memory, whose neighbours are the lanes of the next rows. Taken in patches of a
 * few rows of a strip, each is transposed once, block by block in registers, so a cache line is read once; what is
 * nothing but a load and a store goes straight to its place.
 *
 * Invariants: a patch lies within one innermost group of each transposed load, and within the group that its rows run
 * along, so both step evenly there. */
#include "backend/cpu/kernel.h"

/* The group of a load that runs along the rows of patches: consecutive elements, some way outside of lanes that are
 * far apart; -1 when it has none. */
static int transposed_group(const ls_spec *spec, const ls_program *p, const ls_instr *in) {
    const ls_access *a = &p->accesses[in->access];
    if (in->op != LS_TILE_OP_LOAD || a->n_tables || a->n_dims < 2) {
        return -1;
    }
    /* Strips of short rows cost more than they save, but for what is done without a program. */
    bool plain = p->n_instrs[LS_SECTION_LANES] == 2;
    int64_t stride = a->dims[a->n_dims - 1].stride, row = 1, least = a->log2 != 2 ? LS_TILE : plain ? 16 : LS_PATCH_LANES;
    for (int d = a->n_dims - 1; d >= 0 && (stride >= 16 || stride <= -16); d--) {
        if (row >= least && a->dims[d].stride == 1 &&
            ls_dim_bound(spec->extents_of_axes[p->lane_axes[a->dims[d].last]]) >= 8) {
            return d;
        }
        for (int j = a->dims[d].first; j <= a->dims[d].last; j++) {
            row *= ls_dim_bound(spec->extents_of_axes[p->lane_axes[j]]);
        }
    }
    return -1;
}

void ls_patch_plan(const ls_spec *spec, ls_phase *phase) {
    ls_program *p = &phase->finish;
    int patches = 0;
    phase->patch = -1;
    for (int i = 0; i < p->n_instrs[LS_SECTION_LANES] && !phase->serial; i++) {
        const ls_instr *in = &p->instrs[LS_SECTION_LANES][i];
        int d = transposed_group(spec, p, in);
        ls_access *a = &p->accesses[d < 0 ? 0 : in->access];
        if (d < 0 || (phase->patch >= 0 && phase->patch != a->dims[d].last)) {
            continue;
        }
        phase->patch = a->dims[d].last;
        int64_t lanes = 1;
        for (int j = a->dims[a->n_dims - 1].first; j <= a->dims[a->n_dims - 1].last; j++) {
            lanes *= ls_dim_bound(spec->extents_of_axes[p->lane_axes[j]]);
        }
        if (a->log2 == 2 && lanes >= 16 && patches < 8) {
            a->patch = (uint8_t)++patches;
        }
    }
    phase->extra = patches ? (size_t)patches * LS_PATCH_BYTES + LS_ALIGN : 0;
}

int64_t ls_patch_row(const ls_kernel_run *kernel, const ls_phase *phase) {
    int64_t n = 1;
    for (int i = phase->patch + 1; i < phase->finish.n_lane_axes; i++) {
        n *= kernel->extents[phase->finish.lane_axes[i]];
    }
    return n;
}

static int64_t group_extent(const ls_run *run, int first, int last) {
    int64_t n = 1;
    for (int i = first; i <= last; i++) {
        n *= run->extents[run->program->lane_axes[i]];
    }
    return n;
}

typedef struct patches {
    ls_run *run;
    const ls_phase *phase;
    int64_t row;               /* lanes */
    int64_t run_rows, run_lanes; /* patches end at multiples of these */
    const ls_instr *store;     /* of a program that is a load and a store; or NULL */
    bool stream;               /* what it stores goes past the caches */
    int64_t most;              /* rows at once */
    char *memory;
} patches;

/* What patches must not cross. */
static void find_limits(patches *p) {
    const ls_program *program = p->run->program;
    p->run_rows = p->run_lanes = INT64_MAX;
    for (int i = 0; i < program->n_instrs[LS_SECTION_LANES]; i++) {
        const ls_instr *in = &program->instrs[LS_SECTION_LANES][i];
        const ls_access *a = in->op == LS_TILE_OP_LOAD ? &program->accesses[in->access] : NULL;
        if (!a || !a->patch) {
            continue;
        }
        const ls_access_dim *inner = &a->dims[a->n_dims - 1];
        int64_t lanes = group_extent(p->run, inner->first, inner->last), rows = 1;
        for (int d = 0; d < a->n_dims; d++) {
            if (a->dims[d].last == p->phase->patch) {
                rows = group_extent(p->run, a->dims[d].first, a->dims[d].last);
            }
        }
        /* Groups are nested runs of the same axes, so the shorter of two divides the longer. */
        p->run_lanes = lanes < p->run_lanes ? lanes : p->run_lanes;
        p->run_rows = rows < p->run_rows ? rows : p->run_rows;
    }
    const ls_instr *code = program->instrs[LS_SECTION_LANES];
    const ls_access *to = program->n_instrs[LS_SECTION_LANES] == 2 ? &program->accesses[code[1].access] : NULL;
    bool plain = to && code[0].op == LS_TILE_OP_LOAD && program->accesses[code[0].access].patch &&
                 code[1].op == LS_TILE_OP_STORE && code[1].a == code[0].dst && to->log2 == 2 && to->n_dims == 1 &&
                 to->dims[0].stride == 1 && (!code[1].cast || code[1].dtype == LS_F32);
    p->store = plain ? &code[1] : NULL;
    const ls_access *from = plain ? &program->accesses[code[0].access] : NULL;
    const int64_t width = p->row < p->run_lanes ? p->row : p->run_lanes;
    p->stream = plain && code[1].cast && ls_is_streamed(p->run->spec, to->buffer);
    /* Lines side by side take less time, but of those at whole pages from each other the nearest cache holds few, unless they are copied there. */
    const bool pages = plain && from->dims[from->n_dims - 1].stride * 4 % 4096 == 0;
    p->most = LS_PATCH_ROWS * (!plain || width < LS_PATCH_ROWS ? 1 : pages && !p->stream ? 2 : 4);
}

/* Rows [r, r + rows) of lanes [at, at + lanes), numbered from the space's first point. */
static void run_patch(const patches *p, int64_t r, int64_t rows, int64_t at, int64_t lanes) {
    ls_run *run = p->run;
    const ls_program *program = run->program;
    ls_run_seek(run, r * p->row + at);
    for (int i = 0; i < program->n_instrs[LS_SECTION_LANES]; i++) {
        const ls_instr *in = &program->instrs[LS_SECTION_LANES][i];
        const ls_access *a = in->op == LS_TILE_OP_LOAD ? &program->accesses[in->access] : NULL;
        if (!a || !a->patch) {
            continue;
        }
        const uint32_t *src = (const uint32_t *)(const void *)run->buffers[a->buffer] + ls_run_place(run, a);
        int64_t stride = a->dims[a->n_dims - 1].stride;
        if (p->store) {
            const ls_access *to = &program->accesses[p->store->access];
            uint32_t *dst = (uint32_t *)(void *)run->buffers[to->buffer] + ls_run_place(run, to);
            run->isa->transpose(dst, p->row, src, stride, rows, lanes, p->store->cast != NULL, p->stream);
            return;
        }
        run->isa->transpose((uint32_t *)(void *)(p->memory + (a->patch - 1) * LS_PATCH_BYTES), LS_PATCH_LANES, src,
                            stride, rows, lanes, false, false);
    }
    for (int64_t i = 0; i < rows; i++) {
        run->patches = p->memory + i * LS_PATCH_LANES * 4;
        ls_run_lanes(run, (r + i) * p->row + at, lanes);
    }
}

void ls_patch_run(ls_run *run, const ls_phase_task *task, char *extra) {
    patches p = {.run = run, .phase = task->phase, .row = ls_patch_row(task->kernel, task->phase)};
    p.memory = (char *)(((uintptr_t)extra + LS_ALIGN - 1) & ~(uintptr_t)(LS_ALIGN - 1));
    find_limits(&p);
    int64_t first = task->first / p.row, end = first + task->n / p.row, rows, lanes;
    for (int64_t r = first; r < end; r += rows) {
        int64_t left = p.run_rows - r % p.run_rows;
        rows = end - r < p.most ? end - r : p.most;
        rows = rows < left ? rows : left;
        for (int64_t at = 0; at < p.row; at += lanes) {
            int64_t room = p.run_lanes - at % p.run_lanes;
            lanes = p.row - at < LS_PATCH_LANES ? p.row - at : LS_PATCH_LANES;
            lanes = lanes < room ? lanes : room;
            run_patch(&p, r, rows, at, lanes);
        }
    }
}
