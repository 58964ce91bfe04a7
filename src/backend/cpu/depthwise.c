/* Depthwise convolutions, whose planes are read where they lie: no copy with padding, no lines to close up, and results that nothing
 * follows are stored at their place. Planes are taken in the order of memory, so that each fetches what the next one reads. */
#include "backend/cpu/windows.h"

enum { LEAST_WORK = 1 << 16 }; /* multiply-adds of a task */

/* The place of a bound axis among k. */
static int place_of(const ls_gemm_phase *gemm, const ls_window_dim *d) {
    int at = 0;
    while (at < gemm->k.n && gemm->k.axes[at] != d->bound) {
        at++;
    }
    return at;
}

bool ls_depthwise_fits(const ls_gemm_phase *gemm, const ls_windows *w) {
    const ls_window_dim *last = &w->dims[w->n_dims - 1], *first = &w->dims[w->outer];
    int inner = w->n_dims - w->outer;
    if (!w->kernels->depthwise || w->program || w->n_leaves != 1 || w->planes != 1 || w->plane_leaf[0] != 0 || w->m != 1 ||
        inner > 2 || last->image_stride != 1 || last->stride > 2 || w->k > LS_GEMM_CHUNK ||
        (inner == 1 && w->bands > 1)) {
        return false;
    }
    for (int i = 0; i < w->n_dims; i++) {
        if (w->dims[i].spread != 1 || w->dims[i].taps > LS_DEPTHWISE_TAPS) {
            return false;
        }
    }
    return inner == 1 || first->taps == 1 || last->taps == 1 || place_of(gemm, first) < place_of(gemm, last);
}

typedef struct depthwise_run {
    ls_gemm_launch *launch;
    const ls_windows *w;
    const float *filter;
    char *memory;
    size_t bytes;
    int64_t batches, planes, group; /* planes, with those of the outer dimensions; a task's */
    ls_depthwise geometry;
} depthwise_run;

static void one_plane(const depthwise_run *r, int64_t point, int64_t batch, int worker) {
    const ls_windows *w = r->w;
    const ls_kernel_run *kernel = r->launch->kernel;
    const ls_gemm_phase *gemm = r->launch->phase->gemm;
    const ls_window_leaf *leaf = w->leaves;
    const ls_window_dim *first = &w->dims[w->outer];
    bool lines = w->n_dims - w->outer == 2; /* else one line */
    int64_t extent = lines ? first->extent : 1, coords[LS_SPEC_MAX_AXES];
    const float *image = (const float *)(const void *)kernel->buffers[leaf->buffer] + leaf->sum.constant;
    ls_point_coords(kernel->extents, gemm->batch.n, gemm->batch.axes, batch, coords);
    ls_point_coords(kernel->extents, w->outer, gemm->n.axes, point, coords);
    for (int i = 0; i < gemm->batch.n; i++) {
        image += coords[gemm->batch.axes[i]] * ls_ix_sum_stride(&leaf->sum, gemm->batch.axes[i]);
    }
    for (int i = 0; i < w->outer; i++) {
        image += coords[w->dims[i].axis] * ls_ix_sum_stride(&leaf->sum, w->dims[i].axis);
    }
    image += w->plane_at[0];
    ls_depthwise d = r->geometry;
    int64_t area = extent * d.columns, band = lines ? w->band : 1;
    float *out = ls_chain_result(r->launch, batch, 0, point * area, area);
    for (int64_t y = 0; y < extent; y += band) {
        d.rows = extent - y < band ? extent - y : band;
        d.ahead = d.rows * d.stride[0] * d.line;
        d.out_ahead = out ? d.rows * d.out_line : 0;
        if (lines) {
            d.low[0] = first->low - y * first->stride;
            d.high[0] = first->high - y * first->stride;
        }
        float *to = out ? out + y * d.columns : (float *)(void *)(r->memory + (size_t)worker * r->bytes);
        w->kernels->depthwise(&d, image + y * d.stride[0] * d.line, r->filter + batch * w->k, to);
        if (!out) {
            ls_gemm_finish_tile(r->launch, worker, batch, 0, 1, point * area + y * d.columns, d.rows * d.columns, to,
                                w->ld);
        }
    }
}

static void depthwise_task(void *ctx, long task, int worker) {
    const depthwise_run *r = ctx;
    int64_t end = (task + 1) * r->group < r->planes ? (task + 1) * r->group : r->planes;
    for (int64_t i = task * r->group; i < end; i++) {
        one_plane(r, i / r->batches, i % r->batches, worker);
    }
}

void ls_depthwise_run(ls_gemm_launch *launch, const float *filter, char *memory, size_t bytes) {
    const ls_kernel_run *kernel = launch->kernel;
    const ls_gemm_phase *gemm = launch->phase->gemm;
    const ls_windows *w = gemm->windows;
    ls_cpu_device *device = kernel->binary->device;
    const ls_window_dim *last = &w->dims[w->n_dims - 1], *first = &w->dims[w->outer];
    bool lines = last != first;
    depthwise_run r = {.launch = launch, .w = w, .filter = filter, .memory = memory, .bytes = bytes};
    r.geometry = (ls_depthwise){
        .columns = last->extent,
        .taps = {lines ? first->taps : 1, last->taps},
        .stride = {lines ? first->stride : 1, last->stride},
        .step = {lines ? first->step : 1, last->step},
        .low = {0, last->low},
        .high = {1, last->high},
        .line = lines ? first->image_stride : 0,
        .out_line = last->extent,
    };
    r.batches = ls_point_count(kernel->extents, gemm->batch.n, gemm->batch.axes);
    r.planes = r.batches * ls_point_count(kernel->extents, w->outer, gemm->n.axes);
    int64_t work = w->k * last->extent * (lines ? first->extent : 1);
    r.group = work < LEAST_WORK ? LEAST_WORK / work : 1;
    int64_t tasks = (r.planes + r.group - 1) / r.group;
    if (device->threads == 1 || tasks == 1) {
        r.group = r.planes;
        depthwise_task(&r, 0, 0);
    } else {
        ls_pool_run(device->pool, (long)tasks, depthwise_task, &r);
    }
}
