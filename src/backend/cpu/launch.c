/* Running the phases of a launch: how their points are cut into tasks, and in which order a task takes them. */
#include "backend/cpu/contract.h"
#include "backend/cpu/gemm_plan.h"

enum { TASKS_A_WORKER = 4, LEAST_GRAIN = LS_TILE / 4 };

typedef struct phase_run {
    ls_kernel_run *kernel;
    const ls_phase *phase;
    int64_t points, part; /* of a task */
} phase_run;

int64_t ls_row_lanes(const ls_phase *phase, const ls_program *program, const int64_t *extents) {
    int64_t row = phase->row ? 1 : INT64_MAX;
    for (int i = phase->row; i > 0 && i < program->n_lane_axes; i++) {
        row *= extents[program->lane_axes[i]];
    }
    return row;
}

static void run_store_points(const ls_phase_task *task) {
    if (task->phase->points) {
        ls_chain_points(task);
        return;
    }
    ls_run own;
    size_t offset = 0;
    ls_run *run = ls_phase_run(task, &task->phase->finish, &offset, &own);
    ls_run_point(run);
    if (task->phase->patch >= 0) {
        ls_patch_run(run, task, task->scratch + offset);
        return;
    }
    if (!LS_SMALL && task->phase->moves) {
        ls_move_run(run, task);
        return;
    }
    const int64_t row = ls_row_lanes(task->phase, &task->phase->finish, run->extents);
    int64_t left = row - task->first % row, tile = ls_run_tile(run);
    for (int64_t at = 0, n; at < task->n; at += n) {
        n = task->n - at < tile ? task->n - at : tile;
        n = n < left ? n : left;
        ls_run_lanes(run, task->first + at, n);
        left = left == n ? row : left - n;
    }
}

void ls_phase_points(const ls_phase_task *task) {
    if (task->n == 0) { /* of a block whose rows have no elements, too */
        return;
    }
    switch (task->phase->kind) {
    case LS_PHASE_STORE:
        run_store_points(task);
        break;
    case LS_PHASE_ROWS:
        ls_phase_rows(task);
        break;
    case LS_PHASE_COLUMNS:
        ls_phase_columns(task);
        break;
    case LS_PHASE_ARG_ROWS:
    case LS_PHASE_ARG_COLUMNS:
        ls_phase_arg(task);
        break;
    case LS_PHASE_SUMS:
        ls_phase_sums(task);
        break;
    case LS_PHASE_SCAN:
    case LS_PHASE_SCAN_LINES:
        ls_phase_scan(task);
        break;
    case LS_PHASE_SORT:
        ls_phase_sort(task);
        break;
    case LS_PHASE_GEMM:
        break;
    }
}

static void run_points(phase_run *r, int64_t first, int64_t n, int worker) {
    ls_cpu_device *d = r->kernel->binary->device;
    ls_phase_points(
        &(ls_phase_task){r->kernel, r->phase, d->scratch + (size_t)worker * d->scratch_size, first, n});
    if (!LS_SMALL && d->tiles->far) {
        d->tiles->far->fence();
    }
}

static void run_task(void *ctx, long task, int worker) {
    phase_run *r = ctx;
    int64_t first = task * r->part, left = r->points - first;
    run_points(r, first, left < r->part ? left : r->part, worker);
}

int64_t ls_task_points(const ls_cpu_device *d, int64_t points, int64_t grain, double work) {
    int64_t units = ls_gemm_ceil_div(points, grain), worth = (int64_t)(work / (LS_SMALL_WORK / 4)) + 1;
    int64_t workers = d->threads < worth ? d->threads : worth, each = worth / workers < TASKS_A_WORKER ? worth / workers : TASKS_A_WORKER;
    return ls_gemm_ceil_div(units, ls_gemm_blocks(units, 1, workers, each, 1)) * grain;
}

/* Whole tiles, but for reductions of so few lanes that some threads would get none. */
static int64_t lanes_grain(const ls_cpu_device *d, const ls_phase *phase, int64_t points) {
    int64_t share = (points / d->threads + LEAST_GRAIN - 1) / LEAST_GRAIN * LEAST_GRAIN;
    bool columns = phase->kind == LS_PHASE_COLUMNS || phase->kind == LS_PHASE_ARG_COLUMNS;
    return !columns || share > LS_TILE ? LS_TILE : share < LEAST_GRAIN ? LEAST_GRAIN : share;
}

static ls_status run_phase(ls_kernel_run *kernel, const ls_phase *phase, ls_error *err) {
    if (phase->kind == LS_PHASE_GEMM) {
        return ls_gemm_phase_run(kernel, phase, err);
    }
    ls_cpu_device *d = kernel->binary->device;
    phase_run r = {kernel, phase, ls_point_count(kernel->extents, phase->n_axes, phase->axes), 0};
    if (r.points == 0) {
        return LS_OK;
    }
    bool rows = phase->kind == LS_PHASE_ROWS || phase->kind == LS_PHASE_ARG_ROWS ||
                phase->kind == LS_PHASE_SORT || phase->kind == LS_PHASE_SCAN_LINES;
    double work = (double)r.points * (double)phase->cost;
    if (phase->points) {
        ls_chain_begin_points(kernel, phase);
    }
    bool threaded = !phase->serial && ls_is_worth_threads(d, work, LS_SMALL_WORK);
    if (threaded && phase->kind == LS_PHASE_ROWS && ls_phase_rows_shared(kernel, phase, r.points, work)) {
        return LS_OK;
    }
    int64_t grain = rows                                                 ? 1
                    : phase->pooling                                     ? ls_pooling_grain(phase)
                    : phase->kind == LS_PHASE_STORE && phase->patch >= 0 ? ls_patch_row(kernel, phase)
                                                                         : lanes_grain(d, phase, r.points);
    if (!threaded || r.points <= grain) {
        run_points(&r, 0, r.points, 0);
        return LS_OK;
    }
    r.part = ls_task_points(d, r.points, grain, work);
    ls_pool_run(d->pool, (long)((r.points + r.part - 1) / r.part), run_task, &r);
    return LS_OK;
}

ls_status ls_phases_run(ls_kernel_run *kernel, ls_error *err) {
    const ls_kernel_binary *binary = kernel->binary;
    if (binary->band.n_axes) {
        ls_band_run(kernel);
        return LS_OK;
    }
    for (int i = 0; i < binary->n_phases; i++) {
        LS_TRY(err, run_phase(kernel, &binary->phases[i], err));
    }
    return LS_OK;
}
