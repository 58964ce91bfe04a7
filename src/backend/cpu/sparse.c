/* Convolutions and their gradients where most elements of an operand are zero, as the gradient of a max-pooling is: three of four at least.
 *
 * A product with +-0 adds +-0, which changes no sum that began at +0 (it is never -0), as long as the other factor is finite: so zeros are
 * left out without changing a bit. Each element that is not zero is multiplied with a run of the other operand, whose channels lie side by
 * side. Whether it pays is asked at each launch, of a sample; with an infinity or NaN in the other operand the dense ways are used.
 *
 * Here: windows over a sparse image. The elements of a place of the image, over its planes, are a list. For each line of outputs
 * and each line of taps the places are passed in the order that gives every output its taps in ascending k, and a place's
 * list is added to all outputs that it reaches at once. */
#include "backend/cpu/sparse.h"
#include <string.h>

enum {
    SAMPLES = 128, /* of 64 elements */
    LEAST = 1 << 14, /* elements of one image that are worth a look */
    MOST_BYTES = 4 << 20, /* of a worker's memory */
    MOST_WAITING = 512,
    MOST_TAPS = 16 /* lines of them, where lines of the image are added to several lines of outputs */
};

static int64_t round_up(int64_t x, int64_t unit) {
    return (x + unit - 1) / unit * unit;
}

/* Whether at most a third of the elements (of a sample) are not zero; half of them where each product costs two instructions. */
static bool mostly_zeros(const ls_gemm_moves *moves, const float *x, int64_t images, int64_t stride, int64_t reach, bool locked) {
    int64_t count = 0;
    for (int64_t i = 0; i < SAMPLES; i++) {
        const float *image = x + images * i / SAMPLES * stride;
        count += __builtin_popcountll(moves->nonzero64(image + (reach - 64) * (i * 37 % SAMPLES) / SAMPLES));
    }
    return count * (locked ? 5 : 3) < SAMPLES * 64 * (locked ? 2 : 1);
}

static bool unit_step(const ls_window_dim *d) {
    return d->bound < LS_SPEC_MAX_AXES && d->stride == 1 && (d->step == 1 || d->step == -1);
}

/* Lines of outputs at work: all that a line of the image reaches, or one, and its sums of a chunk. */
static int64_t lines_of_sums(const ls_sparse *sp) {
    return sp->chunk ? 2 : sp->windows->dims[sp->windows->outer].taps;
}

static size_t input_bytes(const ls_sparse *sp) {
    const ls_windows *w = sp->windows;
    int64_t places = sp->lines * sp->columns;
    int64_t outputs = round_up(w->dims[w->outer].extent * w->dims[w->outer + 1].extent + 4, 16);
    return (size_t)round_up((int64_t)sizeof(ls_sparse_entry) * places * w->planes, LS_GEMM_ALIGN) +
           (size_t)round_up(4 * places, LS_GEMM_ALIGN) + (size_t)(lines_of_sums(sp) * sp->cells * sp->channels * 4 + sp->rows * outputs * 4 + LS_GEMM_ALIGN);
}

static size_t filter_bytes(const ls_sparse *sp) {
    return (size_t)(sp->windows->k * sp->channels * 4);
}

/* Whether every plane is the tensor's own, in ascending order: none is padding, which has no memory. */
static bool all_planes(const ls_windows *w) {
    bool all = w->plane_leaf[0] == 0;
    for (int64_t i = 1; i < w->planes; i++) {
        all = all && w->plane_leaf[i] == 0 && w->plane_at[i] > w->plane_at[i - 1];
    }
    return all;
}

ls_status ls_sparse_plan(ls_kernel_binary *binary, ls_gemm_phase *gemm, ls_error *err) {
    const ls_windows *w = gemm->windows;
    if (gemm->batch.n || gemm->side[0].dtype != LS_GEMM_F32 || gemm->side[1].dtype != LS_GEMM_F32) {
        return LS_OK;
    }
    if (!w) {
        return ls_sparse_filter_plan(binary, gemm, err);
    }
    bool locked = binary->spec.math == LS_LOCKED;
    if (!gemm->side[1].affine || w->program || w->n_leaves != 1 || w->n_spreads || w->n_dims - w->outer != 2 || gemm->k.n != 3 || w->m < w->kernels->lanes / 2 || w->planes < 8 ||
        (locked && LS_GEMM_CHUNK % w->planes) || !all_planes(w)) {
        return LS_OK;
    }
    const ls_window_dim *d0 = &w->dims[w->outer], *d1 = d0 + 1;
    if (!unit_step(d0) || !unit_step(d1) || d1->image_stride != 1 || gemm->k.axes[0] != d0->bound || gemm->k.axes[1] != d1->bound || d0->taps > MOST_TAPS) {
        return LS_OK;
    }
    ls_sparse sp = {.windows = w,
                    .kernels = w->kernels,
                    .chunk = locked ? LS_GEMM_CHUNK : 0,
                    .rows = w->m,
                    .channels = round_up(w->m, w->kernels->lanes),
                    .lines = d0->high - d0->low,
                    .columns = d1->high - d1->low,
                    .cells = d1->high - d1->low + d1->taps - 1};
    sp.reach = w->plane_at[w->planes - 1] + (sp.lines - 1) * d0->image_stride + sp.columns;
    if (sp.lines < 1 || sp.columns < 1 || sp.reach < 64 || sp.lines * sp.columns * w->planes < LEAST || input_bytes(&sp) > MOST_BYTES ||
        filter_bytes(&sp) > MOST_BYTES || sp.reach > INT32_MAX) {
        return LS_OK;
    }
    gemm->sparse = LS_ARENA_NEW(&binary->arena, ls_sparse);
    if (!gemm->sparse) {
        return LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    *gemm->sparse = sp;
    return LS_OK;
}

/* ---- running ---- */
typedef struct input_run {
    ls_gemm_launch *launch;
    const ls_sparse *sparse;
    float *filter; /* [first tap][plane][second tap, in the order of the cells that it reaches][channel] */
    char *memory;
    size_t worker_bytes;
} input_run;

static void pack_filter(const input_run *r, const float *src) {
    const ls_sparse *sp = r->sparse;
    const ls_windows *w = sp->windows;
    const ls_window_dim *d1 = &w->dims[w->outer + 1];
    memset(r->filter, 0, filter_bytes(sp));
    for (int64_t p = 0; p < w->k; p++) {
        int64_t plane = p % w->planes, t1 = p / w->planes % d1->taps, t0 = p / w->planes / d1->taps;
        int64_t slot = d1->step > 0 ? d1->taps - 1 - t1 : t1;
        float *to = r->filter + ((t0 * w->planes + plane) * d1->taps + slot) * sp->channels;
        for (int64_t i = 0; i < w->m; i++) {
            to[i] = src[w->filter_at[p] + w->row_at[i]];
        }
    }
}

/* The list of each place of an image. */
static void make_lists(const ls_gemm_moves *moves, const ls_sparse *sp, const float *image, ls_sparse_entry *lists, int32_t *counts) {
    const ls_windows *w = sp->windows;
    const ls_window_dim *d0 = &w->dims[w->outer], *d1 = d0 + 1;
    bool whole = d0->image_stride == sp->columns; /* lines follow each other */
    int64_t lines = whole ? 1 : sp->lines, n = whole ? sp->lines * sp->columns : sp->columns;
    memset(counts, 0, (size_t)(sp->lines * sp->columns) * 4);
    for (int64_t plane = 0; plane < w->planes; plane++) {
        int32_t at = (int32_t)(plane * d1->taps * sp->channels);
        for (int64_t line = 0; line < lines; line++) {
            const float *x = image + w->plane_at[plane] + (d0->low + line) * d0->image_stride + d1->low;
            for (int64_t i = 0; i < n; i += 64) {
                for (uint64_t bits = ls_sparse_bits(moves, x, i, n); bits; bits &= bits - 1) {
                    int64_t j = i + __builtin_ctzll(bits), place = line * n + j;
                    lists[place * w->planes + counts[place]++] = (ls_sparse_entry){at, x[j]};
                }
            }
        }
    }
}

/* One line of outputs, taps [first, last) of one line of taps, from one line of the image. */
static void add_line(const input_run *r, int64_t t0, int64_t first, int64_t last, const ls_sparse_entry *lists, const int32_t *counts,
                     float *cells) {
    const ls_sparse *sp = r->sparse;
    const ls_windows *w = sp->windows;
    const ls_window_dim *d1 = &w->dims[w->outer + 1];
    int64_t slot = d1->step > 0 ? d1->taps - last : first, length = (last - first) * sp->channels;
    const float *filter = r->filter + (t0 * w->planes * d1->taps + slot) * sp->channels;
    for (int64_t i = 0; i < sp->columns; i++) {
        int64_t u = d1->step > 0 ? i : sp->columns - 1 - i;
        if (counts[u]) {
            ls_sparse_add(sp->kernels, counts[u], lists + u * w->planes, filter, cells + (u + slot) * sp->channels, length);
        }
    }
}

/* Adds a line of the image to all lines of outputs that it reaches, each by one line of taps: `cells`, by line of taps. In any order. */
static void add_to_lines(const input_run *r, const ls_sparse_entry *lists, const int32_t *counts, float *const *cells) {
    const ls_sparse *sp = r->sparse;
    const ls_windows *w = sp->windows;
    const ls_window_dim *d0 = &w->dims[w->outer], *d1 = d0 + 1;
    int64_t length = d1->taps * sp->channels;
    for (int64_t u = 0; u < sp->columns; u++) {
        for (int64_t t0 = 0, some; t0 < d0->taps && counts[u]; t0 += some) {
            float *to[LS_SPARSE_LINES];
            some = d0->taps - t0 < LS_SPARSE_LINES ? d0->taps - t0 : LS_SPARSE_LINES;
            for (int64_t l = 0; l < some; l++) {
                to[l] = cells[t0 + l] + u * sp->channels;
            }
            ls_sparse_add_lines(sp->kernels, some, counts[u], lists + u * w->planes, r->filter + t0 * w->planes * length,
                                w->planes * length, to, length);
        }
    }
}

/* One line of outputs, chunk by chunk. */
static void compute_line(const input_run *r, int64_t line, const ls_sparse_entry *lists, const int32_t *counts, float *sums) {
    const ls_sparse *sp = r->sparse;
    const ls_windows *w = sp->windows;
    const ls_window_dim *d0 = &w->dims[w->outer], *d1 = d0 + 1;
    int64_t taps = d0->taps * d1->taps, chunk = sp->chunk ? sp->chunk / w->planes : taps, n = sp->cells * sp->channels;
    for (int64_t tap = 0; tap < taps; tap += chunk) {
        float *cells = tap ? sums + n : sums;
        int64_t end = tap + chunk < taps ? tap + chunk : taps;
        memset(cells, 0, (size_t)n * 4);
        for (int64_t t0 = tap / d1->taps; t0 * d1->taps < end; t0++) {
            int64_t u = line + d0->step * t0 - d0->low, first = tap - t0 * d1->taps, last = end - t0 * d1->taps;
            if (u >= 0 && u < sp->lines) {
                add_line(r, t0, first > 0 ? first : 0, last < d1->taps ? last : d1->taps, lists + u * sp->columns * w->planes,
                         counts + u * sp->columns, cells);
            }
        }
        for (int64_t i = 0; tap && i < n; i++) {
            sums[i] += cells[i];
        }
    }
}

/* A line of outputs into a tile with a row for each of the result's. */
static void put_line(const input_run *r, const float *sums, float *tile, int64_t ld) {
    const ls_sparse *sp = r->sparse;
    const ls_window_dim *d1 = &sp->windows->dims[sp->windows->outer + 1];
    int64_t least = d1->step > 0 ? d1->low - (d1->taps - 1) : d1->low;
    const void *columns[MOST_WAITING]; /* of one output each; NULL: zeros */
    for (int64_t i = 0, n; i < d1->extent; i += n) {
        n = d1->extent - i < MOST_WAITING ? d1->extent - i : MOST_WAITING;
        for (int64_t j = 0; j < n; j++) {
            int64_t cell = i + j - least;
            columns[j] = cell >= 0 && cell < sp->cells ? sums + cell * sp->channels : NULL;
        }
        r->launch->kernel->binary->device->gemm->moves->rows4(sp->rows, n, ld, columns, tile + i);
    }
}

static void input_task(void *ctx, long task, int worker) {
    const input_run *r = ctx;
    const ls_sparse *sp = r->sparse;
    const ls_windows *w = sp->windows;
    const ls_kernel_run *kernel = r->launch->kernel;
    const ls_gemm_phase *gemm = r->launch->phase->gemm;
    const ls_contract_side *side = &gemm->side[1];
    const ls_gemm_moves *moves = kernel->binary->device->gemm->moves;
    const ls_window_dim *d0 = &w->dims[w->outer], *d1 = d0 + 1;
    int64_t coords[LS_SPEC_MAX_AXES], places = sp->lines * sp->columns, outputs = d0->extent * d1->extent;
    const float *image = (const float *)(const void *)kernel->buffers[side->buffer] + side->sum.constant;
    ls_point_coords(kernel->extents, w->outer, gemm->n.axes, task, coords);
    for (int i = 0; i < w->outer; i++) {
        image += coords[w->dims[i].axis] * w->dims[i].image_stride;
    }
    ls_sparse_entry *lists = (ls_sparse_entry *)(void *)(r->memory + (size_t)worker * r->worker_bytes);
    int32_t *counts = (int32_t *)(void *)((char *)lists + round_up((int64_t)sizeof *lists * places * w->planes, LS_GEMM_ALIGN));
    float *sums = (float *)(void *)((char *)counts + round_up(4 * places, LS_GEMM_ALIGN));
    float *tile = sums + lines_of_sums(sp) * sp->cells * sp->channels;
    int64_t ld = round_up(outputs + 4, 16);
    make_lists(moves, sp, image, lists, counts);
    if (sp->chunk) {
        for (int64_t line = 0; line < d0->extent; line++) {
            compute_line(r, line, lists, counts, sums);
            put_line(r, sums, tile + line * d1->extent, ld);
        }
    }
    /* Step i begins output line i and ends line i - taps + 1; they take turns in the memory of sums. */
    int64_t size = sp->cells * sp->channels, first = -d0->low - (d0->step < 0 ? d0->taps - 1 : 0);
    for (int64_t i = 0; !sp->chunk && i < d0->extent + d0->taps - 1; i++) {
        int64_t u = first + i, done = i - d0->taps + 1;
        memset(sums + i % d0->taps * size, 0, (size_t)size * 4);
        if (u >= 0 && u < sp->lines) {
            float *cells[MOST_TAPS];
            for (int64_t t0 = 0; t0 < d0->taps; t0++) {
                cells[t0] = sums + (d0->step < 0 ? done + t0 + d0->taps : i - t0 + d0->taps) % d0->taps * size;
            }
            add_to_lines(r, lists + u * sp->columns * w->planes, counts + u * sp->columns, cells);
        }
        if (done >= 0) {
            put_line(r, sums + done % d0->taps * size, tile + done * d1->extent, ld);
        }
    }
    ls_gemm_finish_tile(r->launch, worker, 0, 0, sp->rows, task * outputs, outputs, tile, ld);
}

void ls_sparse_tasks(ls_cpu_device *d, int64_t n, void (*fn)(void *ctx, long task, int worker), void *ctx) {
    if (d->threads == 1 || n == 1) {
        for (int64_t task = 0; task < n; task++) {
            fn(ctx, (long)task, 0);
        }
    } else {
        ls_pool_run(d->pool, (long)n, fn, ctx);
    }
}

bool ls_sparse_run(ls_gemm_launch *launch) {
    const ls_kernel_run *kernel = launch->kernel;
    const ls_gemm_phase *gemm = launch->phase->gemm;
    const ls_sparse *sp = gemm->sparse;
    ls_cpu_device *d = kernel->binary->device;
    const ls_contract_side *sparse = &gemm->side[sp->filter ? 0 : 1], *other = &gemm->side[sp->filter ? 1 : 0];
    const float *x = (const float *)(const void *)kernel->buffers[sparse->buffer] + sparse->sum.constant;
    int64_t n = ls_point_count(kernel->extents, 1, gemm->k.axes), stride = sparse->k_stride[0];
    if (!sp->filter) {
        const ls_windows *w = sp->windows;
        const ls_window_dim *d0 = &w->dims[w->outer], *d1 = d0 + 1;
        n = ls_point_count(kernel->extents, w->outer, gemm->n.axes);
        stride = w->outer == 1 ? w->dims[0].image_stride : 0;
        x += d0->low * d0->image_stride + d1->low;
    }
    if (n < 1 || !mostly_zeros(d->gemm->moves, x, n, stride, sp->reach, sp->chunk > 0)) {
        return false;
    }
    if (sp->filter) {
        return ls_sparse_filter_run(launch);
    }
    input_run r = {.launch = launch, .sparse = sp, .worker_bytes = (size_t)round_up((int64_t)input_bytes(sp), LS_GEMM_ALIGN)};
    size_t filter = (size_t)round_up((int64_t)filter_bytes(sp), LS_GEMM_ALIGN);
    if (!ls_gemm_grow_workspace(d, filter + (size_t)d->threads * r.worker_bytes)) {
        return false;
    }
    r.filter = (float *)(void *)d->workspace;
    r.memory = d->workspace + filter;
    pack_filter(&r, (const float *)(const void *)kernel->buffers[other->buffer] + other->sum.constant);
    if (!d->gemm->moves->finite_f32((int64_t)(filter_bytes(sp) / 4), r.filter)) {
        return false;
    }
    ls_sparse_tasks(d, n, input_task, &r);
    return true;
}

void ls_sparse_print(ls_text *out, const ls_sparse *sp) {
    ls_text_printf(out, "    sparse %s: lists of what is not zero, where that is little\n", sp->filter ? "rows" : "columns");
}
