/* Operands that are tensors joined along k, as the channels of a DenseNet or a feature pyramid: all elements of one k lie in one of the
 * tensors, side by side. Panels are then copied from there, and the program that says where is not run for each. */
#include "backend/cpu/contract.h"
#include <string.h>

/* Whether the lanes of an access are a run of memory, or all absent, for every k. */
static bool is_run(const ls_program *p, const ls_access *a) {
    bool run = a->n_dims == 1 && a->dims[0].first == 0 && a->dims[0].last == p->n_lane_axes - 1 && a->dims[0].stride == 1 && a->fill == 0;
    for (int t = 0; t < a->n_tables; t++) {
        run = run && !a->tables[t].inner && a->tables[t].lane_strides[0] == 0;
    }
    return run;
}

bool ls_joined_find(const ls_contract_side *side) {
    const ls_program *p = &side->program;
    int n = p->n_instrs[LS_SECTION_LANES];
    bool joined = !side->lanes_k && !side->absent && side->dtype == LS_GEMM_F32 && side->element == LS_F32 && n > 0 && !p->row_axes &&
                  !p->n_instrs[LS_SECTION_LAUNCH] && !p->n_instrs[LS_SECTION_POINT] &&
                  p->results[0] == p->instrs[LS_SECTION_LANES][n - 1].dst;
    for (int i = 0; i < n && joined; i++) {
        const ls_instr *in = &p->instrs[LS_SECTION_LANES][i];
        joined =
            in->op == (i ? LS_TILE_OP_OVERLAY : LS_TILE_OP_LOAD) && (i == 0 || in->a == in[-1].dst) && is_run(p, &p->accesses[in->access]);
    }
    return joined;
}

/* Where the first element of the run's k lies; NULL where all are absent. */
static const float *find_tensor(const ls_run *run) {
    const ls_program *p = run->program;
    for (int i = p->n_instrs[LS_SECTION_LANES] - 1; i >= 0; i--) { /* the last one that is there counts */
        const ls_access *a = &p->accesses[p->instrs[LS_SECTION_LANES][i].access];
        int64_t at = ls_run_place(run, a);
        bool here = true;
        for (int t = 0; t < a->n_tables && here; t++) {
            const ls_table *table = &a->tables[t];
            int64_t entry = 0;
            for (int x = 0; x < table->n_axes; x++) {
                entry += run->coords[table->axes[x]] * table->strides[x];
            }
            here = table->entries[entry] != LS_TABLE_ABSENT;
            at += table->entries[entry];
        }
        if (here) {
            return (const float *)(const void *)run->buffers[a->buffer] + at;
        }
    }
    return NULL;
}

void ls_joined_pack(const ls_contract_side_launch *s, int worker, ls_run *run, char *scratch, int64_t batch, int64_t k0, int64_t kc,
                    int64_t i0, int64_t ni, int64_t width, float *panel) {
    ls_gemm_worker *w = ls_gemm_worker_of(s->launch, worker);
    const ls_gemm_phase *gemm = s->launch->phase->gemm;
    const float **tensors = (const float **)(void *)scratch;
    if (w->kc[s->which] != kc || w->k0[s->which] != k0 || w->batch[s->which] != batch) { /* the panels of a chunk come one after another */
        for (int64_t k = 0; k < kc; k++) {
            ls_point_coords(run->extents, gemm->k.n, gemm->k.axes, k0 + k, run->coords);
            ls_run_seek(run, 0);
            tensors[k] = find_tensor(run);
        }
        w->k0[s->which] = k0;
        w->kc[s->which] = kc;
        w->batch[s->which] = batch;
    }
    for (int64_t k = 0; k < kc; k++) {
        if (tensors[k]) {
            memcpy(panel + k * width, tensors[k] + i0, (size_t)ni * sizeof *panel);
        } else {
            memset(panel + k * width, 0, (size_t)ni * sizeof *panel);
        }
    }
}
