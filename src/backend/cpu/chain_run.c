/* Runs chains (chain.h): on tiles of a product's sums, and as kernels of their own. */
#include "backend/cpu/chain_plan.h"
#include <string.h>

enum {
    ROWS_AHEAD = 2,
    TOGETHER = 2048 /* lanes of rows one after another */
};

float ls_chain_zeros[LS_CHAIN_ZEROS]; /* not const: such would be in the file */

static void begin(const ls_chain *chain, ls_kernel_run *kernel, char *scratch) {
    if (!chain->n_scalars) {
        return;
    }
    ls_run run = {.spec = &kernel->binary->spec, /* wanted without terms to sum, too: not a run of ls_phase_begin */
                  .isa = kernel->binary->device->tiles,
                  .buffers = kernel->buffers,
                  .extents = kernel->extents,
                  .symbols = kernel->launch->symbols,
                  .out_of_range = &kernel->out_of_range};
    ls_run_begin(&run, &chain->scalars, scratch);
    ls_run_point(&run);
    int64_t points = ls_run_lane_count(&run);
    for (int64_t at = 0; at < points; at += LS_TILE) {
        int64_t n = points - at < LS_TILE ? points - at : LS_TILE;
        ls_run_lanes(&run, at, n);
        for (int s = 0; s < chain->n_scalars; s++) {
            const float *from = ls_run_reg(&run, chain->scalars.results[s]);
            float *to = chain->table + at * chain->n_scalars + s;
            for (int64_t i = 0; i < n; i++) {
                to[i * chain->n_scalars] = from[i];
            }
        }
    }
}

bool ls_chain_begins(const ls_chain *chain) {
    return chain->n_scalars > 0;
}

void ls_chain_begin(const ls_gemm_launch *launch) {
    begin(launch->phase->gemm->chain, launch->kernel, ls_worker_scratch(launch->kernel, 0) + launch->finish_offset);
}

void ls_chain_begin_points(ls_kernel_run *kernel, const ls_phase *phase) {
    begin(phase->points->chain, kernel, ls_worker_scratch(kernel, 0));
}

/* Of a row: where it lies, or zeros. */
static const float *row_of(const ls_gemm_phase *gemm, const ls_chain *c, int k, const float *const *base,
                           const int64_t *coords) {
    for (;; k = c->places[k].other - 1) {
        const ls_chain_place *p = &c->places[k];
        int64_t x = p->range.constant;
        for (int i = 0; p->ranged && i < p->range.n_terms; i++) {
            x += p->range.stride[i] * coords[p->range.axis[i]];
        }
        if (!p->ranged || (x >= 0 && x < p->limit)) {
            return base[k] + ls_chain_offset(&gemm->m, coords, p->row);
        }
        if (!p->other) {
            return ls_chain_zeros;
        }
    }
}

/* Of row 0. */
static float *start_of(const ls_kernel_run *kernel, const ls_gemm_phase *gemm, const ls_chain_place *p,
                       const int64_t *coords) {
    return (float *)(void *)kernel->buffers[p->buffer] + p->constant +
           ls_chain_offset(&gemm->batch, coords, p->batch) + ls_chain_offset(&gemm->n, coords, p->column);
}

/* Lines that a row reads from memory and stores there, while the rows before it are computed: rows of a tile lie far apart, so no processor foresees them. */
static void fetch_row(const ls_gemm_phase *gemm, const ls_chain *c, const float *const *base, const float *out, const int64_t *coords, int64_t n) {
    for (uint32_t left = c->fetched; left; left &= left - 1) {
        const int k = __builtin_ctz(left);
        const float *at = k < LS_CHAIN_POINTERS ? row_of(gemm, c, k, base, coords) : out + ls_chain_offset(&gemm->m, coords, c->result.row);
        ls_fetch_lines((uintptr_t)at, n, true);
    }
}

/* All that no row changes. Not cleared first: a tile may be a few vectors. */
static void start_row(const ls_chain *c, float (*slots)[LS_CHAIN_LANES], ls_chain_row *row) {
    row->n_steps = c->n_steps;
    row->n_pointers = c->n_pointers;
    row->raw = false;
    row->middle = NULL;
    row->ahead = 0;
    row->second = false;
    row->steps = c->steps;
    for (int k = 0; k < c->n_pointers; k++) {
        row->slots[k] = c->places[k].buffer < 0 ? *slots++ : NULL;
        row->at[k] = NULL;
    }
}

float *ls_chain_result(const ls_gemm_launch *launch, int64_t batch, int64_t i0, int64_t j0, int64_t nj, ls_chain_rows *rows) {
    const ls_kernel_run *kernel = launch->kernel;
    const ls_gemm_phase *gemm = launch->phase->gemm;
    const ls_chain *c = gemm->chain;
    int64_t coords[LS_SPEC_MAX_AXES];
    if (!c || (c->n_steps && !(rows && c->of_rows))) {
        return NULL;
    }
    int64_t run = ls_point_count(kernel->extents, c->inner, gemm->n.axes + gemm->n.n - c->inner);
    if (run < nj || j0 % run > run - nj) {
        return NULL;
    }
    if (rows) {
        int64_t first = batch * ls_point_count(kernel->extents, gemm->m.n, gemm->m.axes) + i0;
        *rows = (ls_chain_rows){c->steps, c->table + first * c->n_scalars, c->n_steps, c->n_scalars};
    }
    ls_point_coords(kernel->extents, gemm->batch.n, gemm->batch.axes, batch, coords);
    ls_point_coords(kernel->extents, gemm->n.n, gemm->n.axes, j0, coords);
    ls_point_coords(kernel->extents, gemm->m.n, gemm->m.axes, i0, coords);
    return start_of(kernel, gemm, &c->result, coords) + ls_chain_offset(&gemm->m, coords, c->result.row);
}

float *ls_chain_bounded(const ls_gemm_launch *launch, int64_t batch, int64_t i0, int64_t j0, int64_t nj, ls_bounds *bounds) {
    static const ls_chain_op order[] = {LS_CHAIN_ADD, LS_CHAIN_MAX, LS_CHAIN_MIN};
    ls_chain_rows rows = {.n_steps = 0};
    float *out = ls_chain_result(launch, batch, i0, j0, nj, &rows);
    ls_bounds found = {.scalars = rows.scalars, .n_scalars = rows.n_scalars, .after = {-1, -1, -1}};
    for (int i = 0, at = 0; i < rows.n_steps; i++, at++) {
        while (at < 3 && order[at] != (ls_chain_op)rows.steps[i].op) {
            at++;
        }
        if (at == 3) {
            return NULL;
        }
        found.after[at] = rows.steps[i].at;
    }
    if (out) {
        *bounds = found;
    }
    return out;
}

/* Whether the steps behind each row's own have the same numbers in all rows. */
static bool rest_is_shared(const ls_chain *c, const float *scalars, int64_t rows) {
    for (int s = c->own_steps; s < c->n_steps; s++) {
        const ls_chain_step *step = &c->steps[s];
        const int number = step->kind == LS_CHAIN_SCALAR ? step->at : step->op == LS_CHAIN_PRODUCT ? step->by : -1;
        for (int64_t i = 1; i < rows && number >= 0; i++) {
            if (memcmp(&scalars[i * c->n_scalars + number], &scalars[number], sizeof *scalars)) {
                return false;
            }
        }
    }
    return true;
}

/* Functions take lanes in blocks, of which a short row would fill little: rows one after another. */
static void rows_together(const ls_chain *c, ls_chain_fn fn, const ls_chain_row *row, int64_t rows, int64_t n, float *lanes, const float *tile, int64_t ld) {
    ls_chain_row own = *row, rest = *row;
    own.n_steps = c->own_steps;
    own.raw = true;
    rest.steps += c->own_steps;
    rest.n_steps -= c->own_steps;
    for (int64_t i = 0; i < rows; i++, own.scalars += c->n_scalars) {
        fn(&own, lanes + i * n, tile + i * ld, n);
    }
    fn(&rest, lanes, lanes, rows * n);
}

void ls_chain_tile(const ls_gemm_launch *launch, int64_t batch, int64_t i0, int64_t ni, int64_t j0,
                   int64_t nj, const float *tile, int64_t ld) {
    const ls_kernel_run *kernel = launch->kernel;
    const ls_gemm_phase *gemm = launch->phase->gemm;
    const ls_chain *c = gemm->chain;
    ls_chain_fn fn = kernel->binary->device->tiles->chain;
    _Alignas(LS_GEMM_ALIGN) float slots[LS_CHAIN_SLOTS][LS_CHAIN_LANES], lanes[TOGETHER];
    int64_t coords[LS_SPEC_MAX_AXES], run = 0,
                                      rows = ls_point_count(kernel->extents, gemm->m.n, gemm->m.axes);
    const float *base[LS_CHAIN_POINTERS];
    ls_chain_row row;
    start_row(c, slots, &row);
    if (c->inner < gemm->n.n) {
        run = ls_point_count(kernel->extents, c->inner, gemm->n.axes + gemm->n.n - c->inner);
    }
    const float *numbers = c->table + (batch * rows + i0) * c->n_scalars; /* of the first row */
    const bool shared = c->own_steps >= 0 && ni > 1 && rest_is_shared(c, numbers, ni);
    ls_point_coords(kernel->extents, gemm->batch.n, gemm->batch.axes, batch, coords);
    for (int64_t j = 0, n; j < nj; j += n) {
        n = run && run - (j0 + j) % run < nj - j ? run - (j0 + j) % run : nj - j;
        n = c->ranged && n > LS_CHAIN_ZEROS ? LS_CHAIN_ZEROS : n;
        ls_point_coords(kernel->extents, gemm->n.n, gemm->n.axes, j0 + j, coords);
        for (int k = 0; k < c->n_pointers; k++) {
            base[k] = c->places[k].buffer < 0 ? NULL : start_of(kernel, gemm, &c->places[k], coords);
        }
        float *out = start_of(kernel, gemm, &c->result, coords);
        const bool fetches = !LS_SMALL && c->fetched;
        if (shared && n <= LS_CHAIN_LANES) {
            row.scalars = numbers;
            for (int64_t i = 0, some; i < ni; i += some, row.scalars += some * c->n_scalars) {
                some = ni - i < TOGETHER / n ? ni - i : TOGETHER / n;
                for (int64_t k = 0; fetches && k < some; k++) {
                    ls_point_coords(kernel->extents, gemm->m.n, gemm->m.axes, i0 + i + k, coords);
                    fetch_row(gemm, c, base, out, coords, n);
                }
                rows_together(c, fn, &row, some, n, lanes, tile + i * ld + j, ld);
                for (int64_t k = 0; k < some; k++) {
                    ls_point_coords(kernel->extents, gemm->m.n, gemm->m.axes, i0 + i + k, coords);
                    memcpy(out + ls_chain_offset(&gemm->m, coords, c->result.row), lanes + k * n, (size_t)n * sizeof *lanes);
                }
            }
            continue;
        }
        for (int64_t i = fetches ? -ROWS_AHEAD : 0; i < ni; i++) {
            if (fetches && i + ROWS_AHEAD < ni) {
                ls_point_coords(kernel->extents, gemm->m.n, gemm->m.axes, i0 + i + ROWS_AHEAD, coords);
                fetch_row(gemm, c, base, out, coords, n);
            }
            if (i < 0) {
                continue;
            }
            ls_point_coords(kernel->extents, gemm->m.n, gemm->m.axes, i0 + i, coords);
            for (int k = 0; k < c->n_pointers; k++) {
                row.at[k] = c->places[k].buffer < 0 ? NULL : row_of(gemm, c, k, base, coords);
            }
            row.scalars = numbers + i * c->n_scalars;
            fn(&row, out + ls_chain_offset(&gemm->m, coords, c->result.row), tile + i * ld + j, n);
        }
    }
}

void ls_chain_points(const ls_phase_task *task) {
    const ls_kernel_run *kernel = task->kernel;
    const ls_gemm_phase *space = task->phase->points;
    const ls_chain *c = space->chain;
    ls_chain_fn fn = kernel->binary->device->tiles->chain;
    _Alignas(LS_GEMM_ALIGN) float slots[LS_CHAIN_SLOTS][LS_CHAIN_LANES];
    int64_t coords[LS_SPEC_MAX_AXES] = {0}, run = ls_point_count(kernel->extents, space->n.n, space->n.axes);
    ls_chain_row row;
    start_row(c, slots, &row);
    for (int64_t at = task->first, end = at + task->n, n; at < end; at += n) {
        int64_t i = at / run, j = at % run;
        n = run - j < end - at ? run - j : end - at;
        n = c->ranged && n > LS_CHAIN_ZEROS ? LS_CHAIN_ZEROS : n;
        ls_point_coords(kernel->extents, space->m.n, space->m.axes, i, coords);
        for (int k = 0; k < c->n_pointers; k++) {
            const ls_chain_place *p = &c->places[k];
            ls_chain_row_place own = {p->buffer, p->constant};
            if (p->rows) {
                own = p->rows[i];
            } else if (p->buffer >= 0) {
                own.at += ls_chain_offset(&space->m, coords, p->row);
            }
            row.at[k] = row.slots[k]      ? NULL
                        : own.buffer >= 0 ? (const float *)(const void *)kernel->buffers[own.buffer] + own.at + j
                                          : ls_chain_zeros;
        }
        row.scalars = c->table + i * c->n_scalars;
        float *out = (float *)(void *)kernel->buffers[c->result.buffer] + c->result.constant + ls_chain_offset(&space->m, coords, c->result.row);
        if (c->n_steps) {
            fn(&row, out + j, row.at[0], n);
        } else {
            kernel->binary->device->tiles->store[LS_F32](out + j, row.at[0], n); /* NaN canonical */
        }
    }
}
