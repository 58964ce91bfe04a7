/* Gradients of filters where most of the output's gradient is zero (see sparse.c).
 *
 * k is (image, line, column) of the output's gradient; a row is one of its channels, the columns are (channel of the image, tap, tap). The
 * image is copied with its channels side by side, so that for each element that is not zero and each line of taps all products lie in one
 * run. In locked a task has some of the rows and all of k, and chunk sums are added in ascending order. In `fast` it has some of the
 * images, so that no two threads copy the same one, and the sums of these parts, as many whatever the number of threads, are added in
 * ascending order. */
#include "backend/cpu/sparse.h"
#include <string.h>

enum {
    MOST_CHANNELS = 512,
    LEAST_POSITIONS = 64,
    NEAR = 36 << 10, /* bytes of the image that a band of positions reads: in the first-level cache */
    MOST_BYTES = 8 << 20, /* of a worker's memory */
    PARTS = 4, /* of the images */
    LEAST_IMAGES = 4, /* of such a part */
    SLACK = 64 /* elements behind the image that the last vectors may read */
};

static int64_t round_up(int64_t x, int64_t unit) {
    return (x + unit - 1) / unit * unit;
}

static int64_t fixed(const ls_spec *spec, int axis) {
    ls_dim extent = spec->extents_of_axes[axis];
    return ls_dim_is_fixed(extent) ? extent.offset : 0;
}

/* The image's dimensions, from strides and from what its predicates say of each. */
static bool find_dims(const ls_spec *spec, const ls_gemm_phase *gemm, ls_sparse *sp) {
    const ls_contract_side *image = &gemm->side[1];
    int first = gemm->n.n - 2; /* after the channels, if there are some */
    for (int i = 0; i < 2; i++) {
        ls_sparse_dim *d = &sp->dims[i];
        int64_t free = image->free_stride[first + i], bound = image->k_stride[1 + i];
        *d = (ls_sparse_dim){.positions = fixed(spec, gemm->k.axes[1 + i]), .taps = fixed(spec, gemm->n.axes[first + i])};
        if (free < 1 || bound < free || bound % free || d->positions < 1 || d->taps < 1) {
            return false;
        }
        d->step = bound / free;
        d->size = d->step * (d->positions - 1) + d->taps;
        d->high = d->size;
    }
    for (int t = 0; t < image->n_preds; t++) {
        int own = image->pred_k[t][1] ? 0 : 1;
        ls_sparse_dim *d = &sp->dims[own];
        const int64_t *k = image->pred_k[t], *free = image->pred_free[t];
        if (k[0] || k[2 - own] || (first && free[0]) || free[first + 1 - own] || k[1 + own] != d->step || free[first + own] != 1) {
            return false;
        }
        int64_t low = -image->pred[t].constant, high = image->limit[t] + low;
        d->low = low > d->low ? low : d->low;
        d->high = high < d->high ? high : d->high;
    }
    for (int i = 0; i < 2; i++) {
        sp->padded = sp->padded || sp->dims[i].low > 0 || sp->dims[i].high < sp->dims[i].size;
    }
    return sp->dims[0].low < sp->dims[0].high && sp->dims[1].low < sp->dims[1].high;
}

static int64_t run_length(const ls_sparse *sp) { /* of a line of taps, in whole vectors */
    return round_up(sp->dims[1].taps * sp->channels, sp->kernels->lanes);
}

static int64_t image_elements(const ls_sparse *sp) {
    return sp->dims[0].size * sp->dims[1].size * sp->channels + SLACK;
}

static size_t worker_bytes(const ls_sparse *sp, int64_t rows) {
    int64_t sums = rows * sp->dims[0].taps * run_length(sp);
    int64_t list = (sp->band * sp->dims[1].positions + LS_SPARSE_SLACK) * (int64_t)sizeof(ls_sparse_entry);
    return (size_t)round_up(list + (image_elements(sp) + 2 * sums) * 4, LS_GEMM_ALIGN);
}

/* Whether the rows are an operand of windows whose lines lie in pairs in each plane of positions. */
static bool pairs_of_lines(const ls_kernel_binary *binary, const ls_gemm_phase *gemm, const ls_sparse *sp) {
    const ls_chosen *c = binary->chosen;
    const ls_contract_side *rows = &gemm->side[0];
    int64_t pair = 2 * sp->dims[1].positions;
    return c && rows->buffer == c->dense && sp->dims[0].positions % 2 == 0 && sp->dims[1].positions == 2 * c->width &&
           rows->free_stride[0] % pair == 0 && rows->k_stride[0] % pair == 0 && rows->sum.constant % pair == 0;
}

ls_status ls_sparse_filter_plan(ls_kernel_binary *binary, ls_gemm_phase *gemm, ls_error *err) {
    const ls_spec *spec = &binary->spec;
    const ls_contract_side *rows = &gemm->side[0], *image = &gemm->side[1];
    const ls_gemm_isa *isa = binary->device->gemm;
    ls_sparse sp = {.filter = true,
                    .kernels = spec->math == LS_LOCKED ? isa->f32 : isa->f32_fast,
                    .chunk = spec->math == LS_LOCKED ? LS_GEMM_CHUNK : 0};
    if (!rows->affine || rows->n_preds || !image->affine || gemm->m.n != 1 || gemm->k.n != 3 || gemm->n.n < 2 || gemm->n.n > 3 ||
        !find_dims(spec, gemm, &sp)) {
        return LS_OK;
    }
    sp.rows = fixed(spec, gemm->m.axes[0]);
    sp.channels = gemm->n.n > 2 ? fixed(spec, gemm->n.axes[0]) : 1;
    int64_t positions = sp.dims[0].positions * sp.dims[1].positions;
    sp.reach = (sp.rows - 1) * rows->free_stride[0] + positions;
    if (rows->k_stride[2] != 1 || rows->k_stride[1] != sp.dims[1].positions || rows->free_stride[0] < positions ||
        image->free_stride[gemm->n.n - 1] != 1 || image->free_stride[0] < 1 || sp.rows < 8 || sp.channels < 1 ||
        sp.channels > MOST_CHANNELS || positions < LEAST_POSITIONS || sp.reach > INT32_MAX || sp.rows * positions > INT32_MAX / 8 ||
        image_elements(&sp) > MOST_BYTES) {
        return LS_OK;
    }
    sp.thin = sp.channels * sp.dims[1].taps < sp.kernels->lanes;
    int64_t line = sp.dims[1].size * sp.channels * 4, lines = NEAR / line - sp.dims[0].taps;
    int64_t most = lines > 0 ? lines / sp.dims[0].step + 1 : 1;
    int64_t bands = (sp.dims[0].positions + most - 1) / most;
    sp.band = (sp.dims[0].positions + bands - 1) / bands;
    if (sp.thin ? !ls_thin_filter_may(&sp, image) : gemm->n.n < 3 || worker_bytes(&sp, sp.rows) > MOST_BYTES) {
        return LS_OK;
    }
    if (!sp.thin && pairs_of_lines(binary, gemm, &sp)) {
        sp.chosen = binary->chosen;
        sp.band += sp.band % 2;
    }
    sp.at = LS_ARENA_ARRAY(&binary->arena, int32_t, positions);
    gemm->sparse = LS_ARENA_NEW(&binary->arena, ls_sparse);
    if (!sp.at || !gemm->sparse) {
        gemm->sparse = NULL;
        return LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    for (int64_t p = 0; p < positions; p++) {
        int64_t line = p / sp.dims[1].positions, column = p % sp.dims[1].positions;
        if (sp.chosen && p < positions / 4) { /* of windows: their first places */
            line = 2 * (p / sp.chosen->width);
            column = 2 * (p % sp.chosen->width);
        }
        sp.at[p] = (int32_t)((line * sp.dims[0].step * sp.dims[1].size + column * sp.dims[1].step) * sp.channels);
    }
    *gemm->sparse = sp;
    if (sp.chosen) {
        binary->chosen->listed = true;
    }
    return LS_OK;
}

/* ---- running ---- */
typedef struct filter_run {
    ls_gemm_launch *launch;
    const ls_sparse *sparse;
    char *memory; /* of the tasks */
    size_t task_bytes;
    /* Rows of a task, and how often they are there; images, and their parts: a task is a part's block. */
    int64_t rows, blocks, images, parts;
    atomic_bool refused;  /* an element is not finite */
} filter_run;

typedef struct filter_task {
    const filter_run *run;
    const ls_gemm_moves *moves;
    int64_t first, n; /* rows */
    float *image, *total, *sums;
    ls_sparse_entry *list;
    ls_fetches *ahead; /* the next image's elements */
} filter_task;

/* Channels side by side; what is padded stays +0. */
static void copy_image(const filter_task *t, const float *src) {
    const ls_sparse *sp = t->run->sparse;
    const ls_contract_side *side = &t->run->launch->phase->gemm->side[1];
    const ls_sparse_dim *d0 = &sp->dims[0], *d1 = &sp->dims[1];
    const void *channels[MOST_CHANNELS];
    bool whole = !sp->padded && side->free_stride[1] == d1->size; /* lines follow each other */
    int64_t lines = whole ? 1 : d0->high - d0->low, n = whole ? d0->size * d1->size : d1->high - d1->low;
    for (int64_t line = 0; line < lines; line++) {
        int64_t u = d0->low + line;
        for (int64_t c = 0; c < sp->channels; c++) {
            channels[c] = src + c * side->free_stride[0] + u * side->free_stride[1] + d1->low;
        }
        t->moves->rows4(n, sp->channels, sp->channels, channels, t->image + (u * d1->size + d1->low) * sp->channels);
    }
}

/* Windows [first, end) of one row, likewise. */
static int64_t list_windows(const filter_task *t, const float *x, int64_t first, int64_t end) {
    const ls_sparse *sp = t->run->sparse;
    const ls_kernel_run *kernel = t->run->launch->kernel;
    const float *cells = ls_sparse_cells(kernel, sp->chosen, x);
    const uint32_t *places = ls_sparse_places(kernel, sp->chosen, cells);
    int32_t column = (int32_t)(sp->dims[1].step * sp->channels), line = (int32_t)(sp->dims[0].step * sp->dims[1].size * sp->channels);
    const int32_t of[4] = {0, column, line, line + column};
    int64_t next = 4 * end < sp->dims[0].positions * sp->dims[1].positions ? end : t->run->launch->phase->gemm->side[0].k_stride[0] / 4;
    for (int64_t i = 0; i < end - first; i += 16) {
        __builtin_prefetch(cells + next + i);
        __builtin_prefetch(places + next + i);
    }
    return t->moves->chosen(end - first, cells + first, places + first, sp->at + first, of, t->list);
}

/* Positions [p, end) of one row that are not zero; -1: one is not finite and meets padding, which would have to be left out.
 * Fetches what the row's next list is made of: its elements lie apart from those of other rows. */
static int64_t make_list(const filter_task *t, const float *x, int64_t p, int64_t end) {
    const ls_sparse *sp = t->run->sparse;
    const ls_contract_side *side = &t->run->launch->phase->gemm->side[0];
    const float *next = end < sp->dims[0].positions * sp->dims[1].positions ? x + end : x + side->k_stride[0];
    int64_t n;
    if (sp->chosen) {
        n = list_windows(t, x, p / 4, end / 4);
    } else {
        n = t->moves->nonzeros(end - p, x + p, sp->at + p, t->list);
    }
    for (int64_t i = 0; i < end - p && !sp->chosen; i += 16) {
        __builtin_prefetch(next + i);
    }
    for (int64_t i = 0; sp->padded && i < n; i++) {
        if (!(t->list[i].value - t->list[i].value == 0)) {
            return -1;
        }
    }
    return n;
}

/* Adds positions [p, end) of an image to the sums of all rows. */
static bool add_positions(const filter_task *t, const float *rows, int64_t p, int64_t end) {
    const ls_sparse *sp = t->run->sparse;
    const ls_contract_side *side = &t->run->launch->phase->gemm->side[0];
    int64_t length = run_length(sp), vectors = length / sp->kernels->lanes, taps = sp->dims[0].taps, line = sp->dims[1].size * sp->channels;
    for (int64_t i = 0; i < t->n; i++) {
        int64_t n = make_list(t, rows + (t->first + i) * side->free_stride[0], p, end);
        ls_fetch(t->ahead);
        if (n < 0) {
            return false;
        }
        for (int64_t tap = 0, some; tap < taps && n; tap += some) {
            float *sums[LS_SPARSE_LINES];
            some = taps - tap < LS_SPARSE_LINES ? taps - tap : LS_SPARSE_LINES;
            for (int64_t l = 0; l < some; l++) {
                sums[l] = t->sums + (i * taps + tap + l) * length;
            }
            ls_sparse_add_lines(sp->kernels, some, n, t->list, t->image + tap * line, line, sums, vectors);
        }
    }
    return true;
}

static void end_chunk(const filter_task *t) {
    int64_t n = t->n * t->run->sparse->dims[0].taps * run_length(t->run->sparse);
    for (int64_t i = 0; i < n; i++) {
        t->total[i] += t->sums[i];
        t->sums[i] = 0;
    }
}

static bool add_image(const filter_task *t, int64_t image, const float *rows) {
    const ls_sparse *sp = t->run->sparse;
    int64_t columns = sp->dims[1].positions, positions = sp->dims[0].positions * columns, chunk = sp->chunk;
    for (int64_t p = 0, band = 0; p < positions;) {
        band = p == band ? band + sp->band * columns : band;
        int64_t end = band < positions ? band : positions, before = image * positions;
        if (chunk && (before + p) / chunk != (before + end - 1) / chunk) {
            end = (before + p) / chunk * chunk + chunk - before;
        }
        if (!add_positions(t, rows, p, end)) {
            return false;
        }
        if (chunk && (before + end) % chunk == 0) {
            end_chunk(t);
        }
        p = end;
    }
    return true;
}

static filter_task task_of(const filter_run *r, int64_t task) {
    const ls_sparse *sp = r->sparse;
    filter_task t = {.run = r, .moves = r->launch->kernel->binary->device->gemm->moves, .first = task % r->blocks * r->rows};
    t.n = sp->rows - t.first < r->rows ? sp->rows - t.first : r->rows;
    t.total = (float *)(void *)(r->memory + (size_t)task * r->task_bytes);
    t.sums = t.total + r->rows * sp->dims[0].taps * run_length(sp);
    t.image = t.sums + r->rows * sp->dims[0].taps * run_length(sp);
    t.list = (ls_sparse_entry *)(void *)(t.image + image_elements(sp));
    return t;
}

static void run_task(void *ctx, long task, int worker) {
    filter_run *r = ctx;
    const ls_sparse *sp = r->sparse;
    const ls_kernel_run *kernel = r->launch->kernel;
    const ls_contract_side *rows = &r->launch->phase->gemm->side[0], *image = &r->launch->phase->gemm->side[1];
    const float *x = (const float *)(const void *)kernel->buffers[rows->buffer] + rows->sum.constant;
    const float *y = (const float *)(const void *)kernel->buffers[image->buffer] + image->sum.constant;
    filter_task t = task_of(r, task);
    (void)worker;
    memset(t.total, 0, (size_t)((char *)t.list - (char *)t.total));
    int64_t each = image->k_stride[0] * (int64_t)sizeof *y, lists = t.n * (sp->dims[0].positions + sp->band - 1) / sp->band;
    ls_fetches ahead = {.lines = ls_fetch_share(each / 64, lists)};
    t.ahead = &ahead;
    int64_t part = task / r->blocks, i = r->images * part / r->parts, end = r->images * (part + 1) / r->parts;
    for (; i < end && !atomic_load_explicit(&r->refused, memory_order_relaxed); i++) {
        copy_image(&t, y + i * image->k_stride[0]);
        ls_fetch_later(&ahead, (uintptr_t)(y + (i + 1) * image->k_stride[0]), i + 1 < end ? each : 0);
        if (!t.moves->finite_f32(image_elements(sp), t.image) || !add_image(&t, i, x + i * rows->k_stride[0])) {
            atomic_store_explicit(&r->refused, true, memory_order_relaxed);
        }
    }
    end_chunk(&t); /* the last one, or all of k */
}

/* Of a row, whose sums are nobody's any more, and long enough for the result's. */
static void finish_row(void *ctx, long row, int worker) {
    const filter_run *r = ctx;
    const ls_sparse *sp = r->sparse;
    int64_t taps0 = sp->dims[0].taps, taps1 = sp->dims[1].taps, n = sp->channels * taps0 * taps1, length = run_length(sp);
    int64_t block = row / r->rows, at = row % r->rows * taps0 * length;
    filter_task t = task_of(r, block);
    float *from = t.total + at, *to = t.sums + at;
    for (int64_t part = 1; part < r->parts; part++) {
        const float *more = task_of(r, part * r->blocks + block).total + at;
        for (int64_t i = 0; i < taps0 * length; i++) {
            from[i] += more[i];
        }
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t x = i % taps1, y = i / taps1 % taps0, c = i / taps1 / taps0;
        to[i] = from[y * length + x * sp->channels + c];
    }
    ls_gemm_finish_tile(r->launch, worker, 0, row, 1, 0, n, to, n);
}

bool ls_sparse_filter_run(ls_gemm_launch *launch) {
    const ls_kernel_run *kernel = launch->kernel;
    ls_cpu_device *d = kernel->binary->device;
    const ls_gemm_phase *gemm = launch->phase->gemm;
    const ls_sparse *sp = gemm->sparse;
    filter_run r = {.launch = launch, .sparse = sp, .images = ls_point_count(kernel->extents, 1, gemm->k.axes)};
    r.parts = !sp->chunk && r.images >= PARTS * LEAST_IMAGES && worker_bytes(sp, sp->rows) <= MOST_BYTES / PARTS ? PARTS : 1;
    int64_t each = d->threads; /* blocks of rows, so that tasks are equally many for each thread */
    while (r.parts > 1 && each % 2 == 0 && each > d->threads / PARTS) {
        each /= 2;
    }
    each = each < sp->rows ? each : sp->rows;
    r.rows = (sp->rows + each - 1) / each;
    r.blocks = (sp->rows + r.rows - 1) / r.rows;
    int64_t tasks = r.parts * r.blocks;
    r.task_bytes = worker_bytes(sp, r.rows);
    if (!ls_gemm_grow_workspace(d, (size_t)tasks * r.task_bytes)) {
        return false;
    }
    r.memory = d->workspace;
    atomic_init(&r.refused, false);
    ls_sparse_tasks(d, tasks, run_task, &r);
    if (atomic_load_explicit(&r.refused, memory_order_relaxed)) {
        return false;
    }
    ls_sparse_tasks(d, sp->rows, finish_row, &r);
    return true;
}
