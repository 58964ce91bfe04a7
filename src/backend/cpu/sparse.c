/* Convolutions and their gradients where most elements of an operand are zero, as the gradient of a max-pooling is: three of four at least.
 *
 * A product with +-0 adds +-0, which changes no sum that began at +0 (it is never -0), as long as the other factor is finite: so zeros are
 * left out without changing a bit. Each element that is not zero is multiplied with a run of the other operand, whose channels lie side by
 * side. Whether it pays is asked at each launch, of a sample; with an infinity or NaN in the other operand the dense ways are used.
 *
 * Here: windows over a sparse image. The elements of a place of the image, over its planes, are a list. A band of lines of outputs is
 * passed once for each line of taps, whose part of the filter stays in the nearest cache meanwhile: the places in the order that gives
 * every output its taps in ascending k, each list added to all outputs of a line that it reaches at once. */
#include "backend/cpu/gemm_plan.h"
#include "backend/cpu/kept.h"
#include "backend/cpu/sparse.h"
#include <string.h>

enum {
    SAMPLES = 128, /* of 64 elements */
    LEAST = LS_LIMIT(1 << 14, 1 << 8), /* elements of one image that are worth a look */
    MOST_BYTES = 4 << 20, /* of a worker's memory */
    MOST_WAITING = 512,
    LEAST_LINES = 8, /* of outputs; a part makes lists of those beside its own that its taps reach, too */
    BAND = 128 << 10, /* bytes of sums that stay in the second-level cache */
    STRIP = 32, /* places whose planes are brought side by side at once */
    CELLS = 47  /* windows, more than which are */
};

static int64_t round_up(int64_t x, int64_t unit) {
    return (x + unit - 1) / unit * unit;
}

/* Whether at most a third of the elements (of a sample) are not zero; half of them where each product costs two instructions. */
static bool mostly_zeros(const ls_gemm_moves *moves, const float *x, int64_t images, int64_t stride, int64_t reach, bool locked) {
    static const int32_t at[64];
    ls_sparse_entry list[64 + LS_SPARSE_SLACK];
    int64_t count = 0;
    for (int64_t i = 0; i < SAMPLES; i++) {
        const float *image = x + images * i / SAMPLES * stride;
        count += moves->nonzeros(64, image + (reach - 64) * (i * 37 % SAMPLES) / SAMPLES, at, list);
    }
    return count * (locked ? 5 : 3) < SAMPLES * 64 * (locked ? 2 : 1);
}

static bool unit_step(const ls_window_dim *d) {
    return d->bound < LS_SPEC_MAX_AXES && d->stride == 1 && (d->step == 1 || d->step == -1);
}

/* A worker's memory, in the order in which it lies there: lists of an image and where each begins, planes side by side and where they
 * are read, sums of a band and of one chunk of them, the tile of results. */
typedef struct input_memory {
    ls_sparse_entry *lists;
    int32_t *starts; /* of each place, and the end */
    float *strip, *sums, *chunk, *tile;
    const void **rows;
    size_t bytes;
} input_memory;

/* Lines of windows whose planes are brought side by side at once: whole vectors of them, mostly. */
static int64_t strip_lines(const ls_chosen *c) {
    return 1 + CELLS / c->width;
}

static int64_t strip_places(const ls_sparse *sp) { /* of windows, what each has and where */
    return sp->chosen ? 2 * strip_lines(sp->chosen) * sp->chosen->width : STRIP;
}

static input_memory input_layout(const ls_sparse *sp, char *memory) {
    const ls_windows *w = sp->windows;
    int64_t places = sp->lines * sp->columns, sums = (sp->band + 2 * sp->margin) * sp->cells * sp->channels;
    int64_t outputs = round_up(w->dims[w->outer].extent * w->dims[w->outer + 1].extent + 4, 16);
    int64_t size[] = {(int64_t)sizeof(ls_sparse_entry) * (places * w->planes + LS_SPARSE_SLACK), 4 * (places + 1), 4 * strip_places(sp) * w->planes, 4 * sums,
                      sp->chunk ? 4 * sums : 0, 4 * sp->rows * outputs + LS_GEMM_ALIGN, (int64_t)sizeof(void *) * w->planes};
    enum { N = sizeof size / sizeof *size };
    uintptr_t at[N + 1] = {(uintptr_t)memory};
    for (int i = 0; i < N; i++) {
        at[i + 1] = at[i] + (uintptr_t)round_up(size[i], LS_GEMM_ALIGN);
    }
    return (input_memory){(void *)at[0], (void *)at[1], (void *)at[2], (void *)at[3], (void *)at[4], (void *)at[5], (void *)at[6], at[N] - at[0]};
}

/* Three lines of three taps, of which at most the last tap is in a chunk of its own. */
static bool may_slide(const ls_sparse *sp) {
    const ls_window_dim *d = &sp->windows->dims[sp->windows->outer];
    return sp->kernels->slide && d[0].taps == LS_SLIDE_TAPS && d[1].taps == LS_SLIDE_TAPS && (!sp->chunk || sp->chunk >= sp->windows->k - sp->windows->planes);
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

/* What the sparse operand is, if it is one of windows whose lines lie in pairs in each plane, so that lists are made of those; else NULL. */
static const ls_chosen *pairs_of_lines(const ls_kernel_binary *binary, const ls_gemm_phase *gemm, const ls_sparse *sp) {
    const ls_chosen *c = binary->chosen;
    const ls_windows *w = gemm->windows;
    const ls_window_dim *d0 = &w->dims[w->outer], *d1 = d0 + 1;
    if (!c || gemm->side[1].buffer != c->dense || sp->lines % 2 || sp->columns != 2 * c->width || d0->image_stride != sp->columns) {
        return NULL;
    }
    int64_t pair = 2 * sp->columns;
    bool whole = (gemm->side[1].sum.constant + d0->low * d0->image_stride + d1->low) % pair == 0;
    for (int64_t i = 0; i < w->planes; i++) {
        whole = whole && w->plane_at[i] % pair == 0;
    }
    for (int i = 0; i < w->outer; i++) {
        whole = whole && w->dims[i].image_stride % pair == 0;
    }
    return whole ? c : NULL;
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
    if (!unit_step(d0) || !unit_step(d1) || d1->image_stride != 1 || gemm->k.axes[0] != d0->bound || gemm->k.axes[1] != d1->bound) {
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
    sp.chosen = pairs_of_lines(binary, gemm, &sp);
    sp.slides = may_slide(&sp);
    sp.margin = sp.slides ? LS_SLIDE_TAPS - 1 : 0;
    sp.reach = w->plane_at[w->planes - 1] + (sp.lines - 1) * d0->image_stride + sp.columns;
    int64_t most = 1 + BAND / (sp.cells * sp.channels * (sp.chunk ? 8 : 4)), bands = 1 + d0->extent / most;
    sp.band = (d0->extent + bands - 1) / bands;
    if (sp.lines < 1 || sp.columns < 1 || sp.reach < 64 || sp.lines * sp.columns * w->planes < LEAST || input_layout(&sp, NULL).bytes > MOST_BYTES ||
        filter_bytes(&sp) > MOST_BYTES || sp.reach > INT32_MAX) {
        return LS_OK;
    }
    sp.at = LS_ARENA_ARRAY(&binary->arena, int32_t, w->planes);
    gemm->sparse = LS_ARENA_NEW(&binary->arena, ls_sparse);
    if (!sp.at || !gemm->sparse) {
        gemm->sparse = NULL;
        return LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    for (int64_t plane = 0; plane < w->planes; plane++) {
        sp.at[plane] = (int32_t)(plane * d1->taps * (sp.slides ? d0->taps * w->kernels->lanes : sp.channels));
    }
    *gemm->sparse = sp;
    if (sp.chosen) {
        binary->chosen->listed = true;
    }
    return LS_OK;
}

/* ---- running ---- */
typedef struct input_run {
    ls_gemm_launch *launch;
    const ls_sparse *sparse;
    float *filter; /* [first tap][plane][second tap, in the order of the cells that it reaches][channel]; where sums slide,
                      [vector][plane][first tap][second tap, the last one first][channel] */
    char *memory;
    size_t worker_bytes;
    int64_t images, parts; /* tasks of an image, each with its lines of outputs */
} input_run;

static void pack_filter(const input_run *r, const float *src) {
    const ls_sparse *sp = r->sparse;
    const ls_windows *w = sp->windows;
    const ls_window_dim *d1 = &w->dims[w->outer + 1];
    memset(r->filter, 0, filter_bytes(sp));
    for (int64_t p = 0; p < w->k; p++) {
        int64_t plane = p % w->planes, t1 = p / w->planes % d1->taps, t0 = p / w->planes / d1->taps;
        int64_t slot = d1->step > 0 || sp->slides ? d1->taps - 1 - t1 : t1, vector = sp->slides ? sp->kernels->lanes : sp->channels;
        float *to = r->filter + (sp->slides ? (plane * LS_SLIDE_TAPS + t0) * d1->taps + slot : (t0 * w->planes + plane) * d1->taps + slot) * vector;
        for (int64_t i = 0; i < w->m; i += vector, to += vector * w->k) {
            for (int64_t j = 0; j < vector && i + j < w->m; j++) {
                to[j] = src[w->filter_at[p] + w->row_at[i + j]];
            }
        }
    }
}

/* The list of each place of an image's lines [first, end), one behind the other. */
static void make_lists(const ls_gemm_moves *moves, const ls_sparse *sp, const float *image, int64_t first, int64_t end, const input_memory *m) {
    const ls_windows *w = sp->windows;
    const ls_window_dim *d0 = &w->dims[w->outer], *d1 = d0 + 1;
    bool whole = d0->image_stride == sp->columns; /* lines follow each other */
    int64_t lines = whole ? 1 : end - first, n = (whole ? end - first : 1) * sp->columns, count = 0;
    int32_t *starts = m->starts + first * sp->columns;
    for (int64_t line = 0; line < lines; line++) {
        for (int64_t i = 0; i < n; i += STRIP) {
            int64_t places = n - i < STRIP ? n - i : STRIP;
            for (int64_t plane = 0; plane < w->planes; plane++) {
                m->rows[plane] = image + w->plane_at[plane] + (d0->low + first + line) * d0->image_stride + d1->low + i;
            }
            moves->rows4(places, w->planes, w->planes, m->rows, m->strip);
            for (int64_t j = 0; j < places; j++) {
                starts[line * n + i + j] = (int32_t)count;
                count += moves->nonzeros(w->planes, m->strip + j * w->planes, sp->at, m->lists + count);
            }
        }
    }
    starts[lines * n] = (int32_t)count;
}

/* The same of windows: two lines of places for each of theirs. */
static void make_chosen_lists(const ls_kernel_run *kernel, const ls_sparse *sp, const float *image, const input_memory *m) {
    const ls_windows *w = sp->windows;
    const ls_window_dim *d0 = &w->dims[w->outer], *d1 = d0 + 1;
    const ls_gemm_moves *moves = kernel->binary->device->gemm->moves;
    int64_t width = sp->chosen->width, count = 0;
    const float *cells = ls_sparse_cells(kernel, sp->chosen, image + d0->low * d0->image_stride + d1->low);
    const uint32_t *places = ls_sparse_places(kernel, sp->chosen, cells);
    int64_t most = strip_lines(sp->chosen), lines = sp->lines / 2;
    float *cell = m->strip, *place = m->strip + most * width * w->planes;
    for (int64_t y = 0, n; y < lines; y += n) {
        n = lines - y < most ? lines - y : most;
        for (int half = 0; half < 2; half++) {
            for (int64_t plane = 0; plane < w->planes; plane++) {
                int64_t at = w->plane_at[plane] / 4 + y * width;
                m->rows[plane] = half ? (const void *)(places + at) : cells + at;
            }
            moves->rows4(n * width, w->planes, w->planes, m->rows, half ? place : cell);
        }
        for (int64_t i = 0; i < 2 * n; i++) { /* lines of places */
            int64_t from = i / 2 * width * w->planes;
            int32_t *starts = m->starts + 2 * (2 * y + i) * width;
            count = moves->chosen_planes(width, w->planes, (uint32_t)(i % 2 * 2), cell + from, (const uint32_t *)(const void *)(place + from), sp->at, m->lists, count, starts);
        }
    }
    m->starts[sp->lines * sp->columns] = (int32_t)count;
}

/* One line of outputs, taps [first, last) of one line of taps, from one line of the image. */
static void add_line(const input_run *r, int64_t t0, int64_t first, int64_t last, const ls_sparse_entry *lists, const int32_t *starts,
                     float *cells, ls_fetches *fetches) {
    const ls_sparse *sp = r->sparse;
    const ls_windows *w = sp->windows;
    const ls_window_dim *d1 = &w->dims[w->outer + 1];
    int64_t slot = d1->step > 0 ? d1->taps - last : first, vectors = (last - first) * sp->channels / sp->kernels->lanes;
    const float *filter = r->filter + (t0 * w->planes * d1->taps + slot) * sp->channels;
    for (int64_t i = 0; i < sp->columns; i++) {
        int64_t u = d1->step > 0 ? i : sp->columns - 1 - i, n = starts[u + 1] - starts[u];
        ls_fetch(fetches);
        if (n) {
            ls_sparse_add(sp->kernels, n, lists + starts[u], filter, cells + (u + slot) * sp->channels, vectors);
        }
    }
}

/* Sums of lines [line, end) of outputs, line after line of the image in the order that gives every output its taps in ascending k. */
static void slide_band(const input_run *r, int64_t line, int64_t end, const input_memory *m, ls_fetches *fetches) {
    enum { PLACES = 4 };
    const ls_sparse *sp = r->sparse;
    const ls_windows *w = sp->windows;
    const ls_window_dim *d0 = &w->dims[w->outer], *d1 = d0 + 1;
    const bool up = d1->step > 0, apart = sp->chunk && sp->chunk < w->k;
    int64_t lanes = sp->kernels->lanes, size = sp->cells * sp->channels, n = (end - line + 2 * sp->margin) * size, step = up ? sp->channels : -sp->channels;
    memset(m->sums, 0, (size_t)n * 4);
    memset(m->chunk, 0, apart ? (size_t)n * 4 : 0);
    for (int64_t at = 0; at < sp->lines * sp->channels; at += lanes) {
        int64_t v = at / lanes / sp->lines, i = at / lanes % sp->lines, u = d0->step > 0 ? i : sp->lines - 1 - i;
        int64_t first = u + d0->low - line, last = first - d0->step * (LS_SLIDE_TAPS - 1); /* lines of sums, the band's own from 0 on */
        if ((first < 0 && last < 0) || (first >= end - line && last >= end - line)) {
            continue;
        }
        for (int64_t j = 0; j < sp->columns; j += PLACES) {
            int64_t x = up ? j : sp->columns - 1 - j, cell = (up ? x : x + LS_SLIDE_TAPS - 1) * sp->channels + v * lanes, left = sp->columns - j;
            ls_gemm_slide t = {m->starts + u * sp->columns + x, left < PLACES ? left : PLACES, up ? 1 : -1, step};
            void *to[LS_SLIDE_TAPS + 1];
            for (int64_t l = 0; l < LS_SLIDE_TAPS; l++) {
                to[l] = m->sums + (first - d0->step * l + sp->margin) * size + cell;
            }
            to[LS_SLIDE_TAPS] = apart ? m->chunk + (last + sp->margin) * size + cell : NULL;
            sp->kernels->slide(&t, m->lists, r->filter + v * lanes * w->k, to);
            for (int64_t k = 0; k < t.places; k++) {
                ls_fetch(fetches);
            }
        }
    }
    for (int64_t i = 0; apart && i < n; i++) {
        m->sums[i] += m->chunk[i];
    }
}

/* Sums of lines [line, end) of outputs, chunk by chunk. */
static void compute_band(const input_run *r, int64_t line, int64_t end, const input_memory *m, ls_fetches *fetches) {
    const ls_sparse *sp = r->sparse;
    const ls_windows *w = sp->windows;
    const ls_window_dim *d0 = &w->dims[w->outer], *d1 = d0 + 1;
    int64_t taps = d0->taps * d1->taps, chunk = sp->chunk ? sp->chunk / w->planes : taps, size = sp->cells * sp->channels, n = (end - line) * size;
    for (int64_t tap = 0; tap < taps; tap += chunk) {
        float *cells = tap ? m->chunk : m->sums;
        int64_t stop = tap + chunk < taps ? tap + chunk : taps;
        memset(cells, 0, (size_t)n * 4);
        for (int64_t t0 = tap / d1->taps; t0 * d1->taps < stop; t0++) {
            int64_t first = tap - t0 * d1->taps, last = stop - t0 * d1->taps;
            for (int64_t y = line; y < end; y++) {
                int64_t u = y + d0->step * t0 - d0->low;
                if (u >= 0 && u < sp->lines) {
                    add_line(r, t0, first > 0 ? first : 0, last < d1->taps ? last : d1->taps, m->lists, m->starts + u * sp->columns,
                             cells + (y - line) * size, fetches);
                }
            }
        }
        for (int64_t i = 0; tap && i < n; i++) {
            m->sums[i] += cells[i];
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

/* While an image is computed, memory brings its parts of the kernel's arguments, which its results are made of or go to, and of what lists are made
 * of those of the image that the worker is likely to compute next. */
static ls_fetches ask_ahead(const input_run *r, int64_t own) {
    const ls_sparse *sp = r->sparse;
    const ls_kernel_binary *binary = r->launch->kernel->binary;
    ls_fetches f = {0};
    int64_t bytes = 0;
    for (int i = 0; i < binary->spec.n_args && i < LS_FETCHES; i++) {
        const ls_spec_arg *arg = &binary->spec.args[i];
        int64_t part = arg->numel * (int64_t)ls_dtype_size(arg->dtype) / r->images;
        bool listed = sp->chosen ? i == sp->chosen->cells || i == sp->chosen->places : i == r->launch->phase->gemm->side[1].buffer;
        int64_t image = own + (listed ? 1 : 0);
        if (sp->chosen && i == sp->chosen->dense) {
            continue;
        }
        ls_fetch_later(&f, (uintptr_t)r->launch->kernel->buffers[i] + (uintptr_t)(image * part), part);
        bytes += part;
    }
    f.lines = ls_fetch_share(bytes / 64, sp->lines * sp->columns * (sp->slides ? sp->channels / sp->kernels->lanes : sp->windows->dims[sp->windows->outer].taps));
    return f;
}

static int64_t within(int64_t x, int64_t least, int64_t most) {
    return x < least ? least : x > most ? most : x;
}

static void input_task(void *ctx, long task, int worker) {
    const input_run *r = ctx;
    const ls_sparse *sp = r->sparse;
    const ls_windows *w = sp->windows;
    const ls_kernel_run *kernel = r->launch->kernel;
    const ls_gemm_phase *gemm = r->launch->phase->gemm;
    const ls_contract_side *side = &gemm->side[1];
    const ls_window_dim *d0 = &w->dims[w->outer], *d1 = d0 + 1;
    int64_t coords[LS_SPEC_MAX_AXES], outputs = d0->extent * d1->extent, of = task / r->parts, part = task % r->parts;
    int64_t top = part * d0->extent / r->parts, bottom = (part + 1) * d0->extent / r->parts;
    const float *image = (const float *)(const void *)kernel->buffers[side->buffer] + side->sum.constant;
    ls_point_coords(kernel->extents, w->outer, gemm->n.axes, of, coords);
    for (int i = 0; i < w->outer; i++) {
        image += coords[w->dims[i].axis] * w->dims[i].image_stride;
    }
    input_memory m = input_layout(sp, r->memory + (size_t)worker * r->worker_bytes);
    int64_t ld = round_up(outputs + 4, 16);
    if (sp->chosen) {
        make_chosen_lists(kernel, sp, image, &m);
    } else {
        int64_t up = d0->step > 0 ? d0->taps - 1 : 0; /* the line of the image that the last tap reads */
        int64_t first = within(top - d0->low + up - (d0->taps - 1), 0, sp->lines), end = within(bottom - d0->low + up, first, sp->lines);
        make_lists(kernel->binary->device->gemm->moves, sp, image, first, end, &m);
    }
    ls_fetches fetches = r->parts == 1 ? ask_ahead(r, of) : (ls_fetches){0};
    for (int64_t line = top, end; line < bottom; line = end) {
        end = line + sp->band < bottom ? line + sp->band : bottom;
        (sp->slides ? slide_band : compute_band)(r, line, end, &m, &fetches);
        for (int64_t i = line; i < end; i++) {
            put_line(r, m.sums + (i - line + sp->margin) * sp->cells * sp->channels, m.tile + (i - top) * d1->extent, ld);
        }
    }
    ls_gemm_finish_tile(r->launch, worker, 0, 0, sp->rows, of * outputs + top * d1->extent, (bottom - top) * d1->extent, m.tile, ld);
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

static bool run(ls_gemm_launch *launch) {
    const ls_kernel_run *kernel = launch->kernel;
    const ls_gemm_phase *gemm = launch->phase->gemm;
    const ls_sparse *sp = gemm->sparse;
    ls_cpu_device *d = kernel->binary->device;
    if (sp->thin) {
        return ls_thin_filter_run(launch);
    }
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
    if (n < 1 || (!sp->chosen && !mostly_zeros(d->gemm->moves, x, n, stride, sp->reach, sp->chunk > 0))) {
        return false;
    }
    if (sp->filter) {
        return ls_sparse_filter_run(launch);
    }
    int64_t bytes = ls_gemm_worker_step((int64_t)input_layout(sp, NULL).bytes, d->threads);
    input_run r = {.launch = launch, .sparse = sp, .images = n, .worker_bytes = (size_t)bytes};
    size_t filter = (size_t)round_up((int64_t)filter_bytes(sp), LS_GEMM_ALIGN);
    if (!ls_gemm_grow_workspace(d, filter + (size_t)d->threads * r.worker_bytes)) {
        return false;
    }
    ls_kept *kept = other->fixed ? ls_kept_find(d, kernel->launch, other->buffer, gemm, LS_KEPT_SPARSE, filter) : NULL;
    r.filter = kept ? kept->data : (float *)(void *)d->workspace;
    r.memory = d->workspace + filter;
    bool finite = kept && kept->ready && kept->finite;
    if (!kept || !kept->ready) {
        pack_filter(&r, (const float *)(const void *)kernel->buffers[other->buffer] + other->sum.constant);
        finite = d->gemm->moves->finite_f32((int64_t)(filter_bytes(sp) / 4), r.filter);
    }
    if (kept) {
        kept->ready = true;
        kept->finite = finite;
    }
    if (!finite) {
        return false;
    }
    r.parts = sp->chosen ? 1 : within((d->threads + n - 1) / n, 1, sp->windows->dims[sp->windows->outer].extent / LEAST_LINES + 1);
    ls_sparse_tasks(d, n * r.parts, input_task, &r);
    return true;
}

bool ls_sparse_run(ls_gemm_launch *launch) {
    bool done = run(launch);
    if (!done && launch->phase->gemm->sparse->chosen) {
        ls_chosen_write(launch->kernel);
    }
    return done;
}

void ls_sparse_print(ls_text *out, const ls_sparse *sp) {
    if (sp->thin) {
        ls_text_add(out, "    few channels: sums along lines\n");
    } else {
        ls_text_printf(out, "    sparse %s: lists of what is not zero%s\n", sp->filter ? "rows" : "columns", sp->chosen ? ", of windows" : ", where that is little");
    }
}
