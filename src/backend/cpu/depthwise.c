/* Depthwise convolutions, whose planes are read where they lie: no copy with padding, no lines to close up, and results that nothing
 * follows are stored at their place. Planes are taken in the order of memory, so that each fetches what the next one reads. */
#include "backend/cpu/windows.h"

enum {
    LEAST_WORK = LS_LIMIT(1 << 16, 1 << 6),  /* multiply-adds of a task */
    INLINE_WORK = LS_LIMIT(1 << 18, 1 << 7), /* below which waking a thread costs more than it brings */
    NEAR_L2S = 8 /* second-level caches: smaller results are in some cache, where fetching them costs more than it brings */
};

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
    if (!w->kernels->depthwise || w->program || w->n_leaves != 1 || w->planes != 1 || w->plane_leaf[0] != 0 ||
        w->m != 1 || w->rows != 1 || inner > 2 || last->image_stride != 1 || last->stride > 2 || w->k > LS_GEMM_CHUNK ||
        (inner == 1 && w->bands > 1)) {
        return false;
    }
    for (int i = 0; i < w->n_dims; i++) {
        if (w->dims[i].spread != 1 || w->parts > 1 || w->dims[i].taps > LS_DEPTHWISE_TAPS) {
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
    int64_t batches, tasks_each; /* planes, and tasks, of a point of the outer dimensions */
    int64_t lines;               /* of outputs */
    int64_t group, band;         /* planes at a time, or lines of one, that stay in the cache */
    int64_t task;                /* planes of one */
    int64_t long_band;           /* lines of a plane whose results are stored in place: fewer columns are begun */
    bool far;                    /* results are fetched before they are stored */
    ls_depthwise geometry;
} depthwise_run;

static const float *plane_at(const depthwise_run *r, int64_t point, int64_t batch) {
    const ls_windows *w = r->w;
    const ls_kernel_run *kernel = r->launch->kernel;
    const ls_gemm_phase *gemm = r->launch->phase->gemm;
    int64_t coords[LS_SPEC_MAX_AXES];
    ls_point_coords(kernel->extents, gemm->batch.n, gemm->batch.axes, batch, coords);
    ls_point_coords(kernel->extents, w->outer, gemm->n.axes, point, coords);
    return ls_windows_leaf_start(kernel, gemm, w, w->leaves, coords) + w->plane_at[0];
}

/* As equal bands as there can be, of lines that take `room` bytes at most. */
static int64_t cut(int64_t lines, int64_t line, int64_t room) {
    int64_t most = room / (line * 4 + 1);
    most = most < LS_DEPTHWISE_LINES ? LS_DEPTHWISE_LINES : most;
    int64_t bands = (lines + most - 1) / most;
    return (lines + bands - 1) / bands;
}

/* Some planes that lie evenly apart, a band of their lines after another. */
static void some_planes(const depthwise_run *r, int64_t point, int64_t batch, int64_t n, int worker) {
    const ls_windows *w = r->w;
    const ls_window_dim *first = &w->dims[w->outer];
    ls_depthwise d = r->geometry;
    ls_bounds next;
    int64_t area = r->lines * d.columns;
    const float *image = plane_at(r, point, batch), *filter = r->filter + batch * w->k;
    float *out = ls_chain_bounded(r->launch, batch, 0, point * area, area, &d.bounds);
    d.planes = n;
    d.image_plane = n > 1 ? plane_at(r, point, batch + 1) - image : 0;
    d.out_plane = !out    ? area
                  : n > 1 ? ls_chain_bounded(r->launch, batch + 1, 0, point * area, area, &next) - out
                          : 0;
    const int64_t band = out ? r->long_band : r->band;
    for (int64_t y = 0; y < r->lines; y += band) {
        float *to = out ? out + y * d.columns : (float *)(void *)(r->memory + (size_t)worker * r->bytes);
        d.rows = r->lines - y < band ? r->lines - y : band;
        d.ahead = n * d.rows * d.stride[0] * d.line;
        d.out_ahead = out && r->far ? n * d.rows * d.out_line : 0;
        if (w->n_dims - w->outer == 2) {
            d.low[0] = first->low - y * first->stride;
            d.high[0] = first->high - y * first->stride;
        }
        w->kernels->depthwise(&d, image + y * d.stride[0] * d.line, filter, to);
        for (int64_t i = 0; i < n && !out; i++) {
            ls_gemm_finish_tile(r->launch, worker, batch + i, 0, 1, point * area + y * d.columns,
                                d.rows * d.columns, to + i * area, area);
        }
    }
}

static void depthwise_task(void *ctx, long task, int worker) {
    const depthwise_run *r = ctx;
    int64_t point = task / r->tasks_each, from = task % r->tasks_each * r->task, end = from + r->task;
    end = end < r->batches ? end : r->batches;
    for (int64_t i = from; i < end; i += r->group) {
        some_planes(r, point, i, end - i < r->group ? end - i : r->group, worker);
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
    r.lines = lines ? first->extent : 1;
    r.geometry = (ls_depthwise){
        .columns = last->extent,
        .taps = {lines ? first->taps : 1, last->taps},
        .stride = {lines ? first->stride : 1, last->stride},
        .step = {lines ? first->step : 1, last->step},
        .low = {0, last->low},
        .high = {1, last->high},
        .line = lines ? first->image_stride : 0,
        .out_line = last->extent,
        .filter_plane = w->k,
        .bounds.after = {-1, -1, -1},
    };
    r.batches = ls_point_count(kernel->extents, gemm->batch.n, gemm->batch.axes);
    int64_t points = ls_point_count(kernel->extents, w->outer, gemm->n.axes), area = r.lines * last->extent;
    /* Of the image, or of results where padding makes those longer. */
    int64_t line = r.geometry.stride[0] * r.geometry.line;
    line = line > last->extent ? line : last->extent;
    r.band = cut(r.lines, line, LS_DEPTHWISE_ROOM);
    r.long_band =
        cut(r.lines, line,
            device->cpu.l2_bytes / 8 > LS_DEPTHWISE_ROOM ? device->cpu.l2_bytes / 8 : LS_DEPTHWISE_ROOM);
    r.far = points * r.batches * area * 4 > NEAR_L2S * device->cpu.l2_bytes;
    r.geometry.by_lines = r.far && device->cpu.tells_pages;
    r.group = gemm->batch.n == 1 && r.band == r.lines ? LS_DEPTHWISE_ROOM / (area * 4) : 1;
    r.group = r.group < 1 ? 1 : r.group;
    r.task = LEAST_WORK / (w->k * area) / r.group * r.group;
    r.task = device->threads == 1 ? r.batches : r.task < r.group ? r.group : r.task;
    r.tasks_each = (r.batches + r.task - 1) / r.task;
    if (!ls_is_worth_threads(device, (double)(points * r.batches * area) * (double)w->k, INLINE_WORK)) {
        for (int64_t i = 0; i < points * r.tasks_each; i++) {
            depthwise_task(&r, (long)i, 0);
        }
    } else {
        ls_pool_run(device->pool, (long)(points * r.tasks_each), depthwise_task, &r);
    }
}
