/* Store phases that compute nothing: copies, slices, paddings, joined tensors, gathered rows (run by move_run.c). */
#include "backend/cpu/kernel.h"

enum { /* lanes: of shorter rows a tile program takes many at once, most of all if they are parts of rows */
    LEAST_ROW = LS_LIMIT(4, 2),
    LEAST_PART = LS_LIMIT(20, 2)
};

/* How many rows of so many lanes lie one behind another, where a table says which of the axis outside of them are there. */
static int64_t rows_of_a_piece(const ls_spec *spec, const ls_access *a, const ls_table *table, int64_t lanes) {
    const int outer = a->n_dims - 2;
    if (table->inner || table->n_axes != 1 || outer < 0 || !table->lane_strides[outer]) {
        return 1;
    }
    const int64_t extent = ls_dim_bound(spec->extents_of_axes[table->axes[0]]);
    int64_t there = 0;
    for (int64_t k = 0; k < extent; k++) {
        const int32_t *entry = &table->entries[k];
        there += *entry != LS_TABLE_ABSENT;
        if (k > 0 && *entry != LS_TABLE_ABSENT && entry[-1] != LS_TABLE_ABSENT && *entry - entry[-1] + a->dims[outer].stride != lanes) {
            return 1;
        }
    }
    return there;
}

/* Whether an access goes along its innermost axes in runs of memory, which have gaps at their ends alone. */
static bool is_runs(const ls_spec *spec, const ls_program *p, const ls_access *a, bool joined) {
    if (!a->n_dims) {
        return false;
    }
    const ls_access_dim *inner = &a->dims[a->n_dims - 1];
    int64_t lanes = 1, stride = inner->stride, least = LEAST_ROW;
    for (int i = inner->first; i <= inner->last; i++) {
        ls_dim extent = spec->extents_of_axes[p->lane_axes[i]];
        lanes *= ls_dim_is_fixed(extent) ? extent.offset : LEAST_PART;
    }
    int64_t most = lanes; /* of one piece */
    for (int t = 0; t < a->n_tables; t++) {
        const ls_table *table = &a->tables[t];
        int64_t rows = 1;
        for (int i = 0; i < table->n_axes - 1 && table->inner; i++) {
            rows *= ls_dim_bound(spec->extents_of_axes[table->axes[i]]);
        }
        for (int64_t r = 0; r < rows && table->inner; r++) {
            const ls_table_row *row = &table->rows[r];
            if (!row->regular || row->step != 1 || (row->count > 0 && row->stride + inner->stride != 1)) {
                return false;
            }
            stride = 1;
            least = joined ? LEAST_PART : LEAST_ROW;
        }
        most *= rows_of_a_piece(spec, a, table, lanes);
    }
    return stride == 1 && most >= least;
}

void ls_move_plan(const ls_spec *spec, ls_phase *phase) {
    const ls_program *p = &phase->finish;
    const ls_instr *code = p->instrs[LS_SECTION_LANES];
    const int n = p->n_instrs[LS_SECTION_LANES] - 1;
    bool all = phase->patch < 0 && n > 0 && n <= LS_MOVE_SOURCES && !p->n_periodic && code[n].op == LS_TILE_OP_STORE && code[n].a == code[n - 1].dst &&
               ls_tile_held_size((ls_dtype)code[n].dtype) == ls_dtype_size((ls_dtype)code[n].dtype);
    for (int i = 0; i < n && all; i++) {
        const ls_instr *in = &code[i];
        all = (i ? in->op == LS_TILE_OP_OVERLAY && in->a == code[i - 1].dst : in->op == LS_TILE_OP_LOAD || (in->op == LS_TILE_OP_TAKE && in->combine)) &&
              in->log2 == code[n].log2 && is_runs(spec, p, &p->accesses[in->access], n > 1);
    }
    const ls_access *to = all ? &p->accesses[code[n].access] : NULL;
    all = all && to->n_dims == 1 && to->dims[0].stride == 1 && to->dims[0].first == 0 && to->dims[0].last == p->n_lane_axes - 1 && !to->n_scalar;
    phase->moves = (uint8_t)(all ? n : 0);
}
