/* Contractions with windows of an image, launched: the filter is packed, and each task copies its part of the image and computes its rows
 * of outputs from that (windows.c). */
#include "backend/cpu/gemm_plan.h"
#include "backend/cpu/kept.h"
#include "backend/cpu/windows.h"
#include <string.h>

typedef struct window_run {
    ls_gemm_launch *launch;
    const ls_windows *w;
    float *filter; /* packed: [batch][panel][k][rows] */
    char *memory;  /* of the workers */
    size_t worker_bytes;
    int64_t batches, outer; /* points of the outer dimensions */
} window_run;

static size_t filter_bytes(const ls_windows *w, const ls_gemm_phase *gemm, const int64_t *extents) {
    int64_t batch = ls_point_count(extents, gemm->batch.n, gemm->batch.axes);
    return (size_t)((batch * w->panels * w->rows * w->k * 4 + LS_GEMM_ALIGN - 1) / LS_GEMM_ALIGN *
                    LS_GEMM_ALIGN);
}

static int64_t copy_elements(const ls_windows *w) {
    return w->uncopied ? 0 : w->planes * w->plane + LS_WINDOW_SLACK;
}

static size_t worker_bytes(const ls_windows *w, int threads) {
    size_t bytes = w->runs ? ls_runs_bytes(w) : (size_t)(copy_elements(w) + w->rows * w->ld + ls_windows_part_elements(w)) * 4;
    bytes += w->in_place ? (size_t)ls_depthwise_room(w) : 0;
    bytes = (bytes + LS_GEMM_ALIGN) & ~(size_t)(LS_GEMM_ALIGN - 1);
    return (size_t)ls_gemm_worker_step((int64_t)bytes, threads);
}

size_t ls_windows_workspace(const ls_kernel_binary *binary, const ls_gemm_phase *gemm,
                            const int64_t *extents) {
    return filter_bytes(gemm->windows, gemm, extents) +
           worker_bytes(gemm->windows, binary->device->threads) * (size_t)binary->device->threads + LS_GEMM_ALIGN;
}

static int64_t batch_base(const ls_kernel_run *kernel, const ls_gemm_phase *gemm,
                          const ls_contract_side *side, int64_t batch) {
    int64_t base = side->sum.constant, coords[LS_SPEC_MAX_AXES];
    ls_point_coords(kernel->extents, gemm->batch.n, gemm->batch.axes, batch, coords);
    for (int i = 0; i < gemm->batch.n; i++) {
        base += coords[gemm->batch.axes[i]] * side->batch_stride[i];
    }
    return base;
}

/* n of k from p on, of the rows from i on, in the order of a panel. */
#define PACK(name, type)                                                                                     \
    static void name(const ls_windows *w, const type *src, int64_t i, int64_t p, int64_t n, type *dst) {     \
        int64_t rows = w->m - i < w->rows ? w->m - i : w->rows;                                              \
        for (int64_t end = p + n; p < end; p++, dst += w->rows) {                                            \
            for (int64_t q = 0; q < w->rows; q++) {                                                          \
                dst[q] = q < rows ? src[w->packed_at[p] + w->row_at[i + q]] : 0;                             \
            }                                                                                                \
        }                                                                                                    \
    }
PACK(pack_floats, float)
PACK(pack_halves, uint16_t)

static void pack_filter(const window_run *r, int64_t batches) {
    enum { STRIP = 32 };
    const ls_kernel_run *kernel = r->launch->kernel;
    const ls_contract_side *side = &r->launch->phase->gemm->side[0];
    const ls_windows *w = r->w;
    const void *elements = kernel->buffers[side->buffer];
    float *dst = r->filter;
    for (int64_t b = 0; b < batches; b++) {
        int64_t base = batch_base(kernel, r->launch->phase->gemm, side, b);
        for (int64_t i = 0; i < w->panels * w->rows; i += w->rows) {
            bool floats = side->dtype == LS_GEMM_F32;
            for (int64_t p = 0, n; p < w->k; p += n, dst += n * w->rows) {
                n = !floats && w->k - p > STRIP ? STRIP : w->k - p;
                if (floats) {
                    pack_floats(w, (const float *)elements + base, i, p, n, dst);
                } else {
                    uint16_t halves[STRIP * LS_ACROSS_ROWS];
                    pack_halves(w, (const uint16_t *)elements + base, i, p, n, halves);
                    kernel->binary->device->tiles->load[side->element](dst, halves, n * w->rows);
                }
            }
        }
    }
}

/* One line of the innermost dimension, u from `first`, into its phases, `apart` elements apart. What is padding is
 * +0 already. */
static void copy_line(const ls_gemm_moves *moves, const ls_window_dim *d, int64_t first, const float *line,
                      float *dst, int64_t apart) {
    int64_t low = d->low > first ? d->low - first : 0, high = d->high - first;
    high = high < d->size ? high : d->size;
    int64_t step = d->image_stride;
    if (d->spread > 1) {
        int64_t u = low + (d->spread - (first + low + d->shift) % d->spread) % d->spread;
        for (line += (first + u + d->shift) / d->spread * step; u < high; u += d->spread, line += step) {
            dst[u] = *line;
        }
        return;
    }
    line += first * step;
    if (d->stride == 1 && step == 1 && low < high) {
        moves->lines4(high - low, 1, line + low, 0, dst + low, 0);
        return;
    }
    int64_t u = low;
    if (d->stride == 2 && step == 1) {
        if (u & 1 && u < high) {
            dst[apart + u / 2] = line[u];
            u++;
        }
        int64_t pairs = u < high ? (high - u) / 2 : 0;
        moves->split4(pairs, line + u, dst + u / 2, dst + apart + u / 2);
        u += 2 * pairs;
    }
    for (int64_t i = 0; i < d->stride && u < high; i++, u++) { /* u and what follows in its phase */
        float *to = dst + u % d->stride * apart + u / d->stride;
        const float *from = line + u * step;
        for (int64_t left = high - u; left > 0; left -= d->stride, from += d->stride * step) {
            *to++ = *from;
        }
    }
}

/* One plane, from the first inner dimension's u of `first` on. Padding inside lines is +0 since the launch's first task;
 * lines that are padding may hold another task's elements. */
static void copy_plane(const ls_gemm_moves *moves, const ls_windows *w, const int64_t *firsts,
                       const float *image, float *dst) {
    const ls_window_dim *last = &w->dims[w->n_dims - 1], *d = &w->dims[w->outer];
    int64_t lines = 1, elements = 1;
    bool two = w->n_dims - w->outer == 2;
    if (two && d->stride == 1 && last->stride == 1 && last->image_stride == 1 && d->spread * last->spread == 1) { /* a picture: all of its lines at once */
        int64_t x = firsts[w->outer], from = d->low > x ? d->low - x : 0, end = d->high - x < d->size ? d->high - x : d->size;
        int64_t u = firsts[w->n_dims - 1], low = last->low > u ? last->low - u : 0,
                high = last->high - u < last->size ? last->high - u : last->size;
        from = from < d->size ? from : d->size;
        end = end > from ? end : from;
        memset(dst, 0, (size_t)(from * last->length) * 4);
        memset(dst + end * last->length, 0, (size_t)((d->size - end) * last->length) * 4);
        if (high > low) {
            moves->lines4(high - low, end - from, image + (x + from) * d->image_stride + u + low, d->image_stride,
                          dst + from * last->length + low, last->length);
        }
        return;
    }
    if (last == d && w->bands > 1) { /* of a line, too, bands pad at places of their own */
        memset(dst, 0, (size_t)w->plane * 4);
    }
    for (int i = w->outer; i < w->n_dims; i++) {
        lines *= i < w->n_dims - 1 ? w->dims[i].length * w->dims[i].stride : 1;
        elements *= w->dims[i].length;
    }
    int64_t turn = 0, turn_at = 0; /* of two dimensions: the line's phase and place, without divisions */
    for (int64_t line = 0; line < lines;
         line++) { /* row-major over u, each dimension rounded up to its phases */
        int64_t left = line, u[LS_WINDOW_DIMS] = {0}, phase = 0, at = 0;
        const float *from = image;
        bool inside = true;
        if (two) {
            int64_t x = firsts[w->outer] + line;
            inside = line < d->size && x >= d->low && x < d->high && (x + d->shift) % d->spread == 0;
            from += (x + d->shift) / d->spread * d->image_stride;
            phase = turn++;
            at = turn_at;
            turn_at += turn == d->stride;
            turn = turn == d->stride ? 0 : turn;
        }
        for (int i = w->n_dims - 2; i >= w->outer && !two; i--) {
            const ls_window_dim *e = &w->dims[i];
            int64_t size = e->length * e->stride;
            u[i] = left % size;
            left /= size;
            int64_t x = firsts[i] + u[i];
            inside = inside && u[i] < e->size && x >= e->low && x < e->high && (x + e->shift) % e->spread == 0;
            from += (x + e->shift) / e->spread * e->image_stride;
        }
        for (int i = w->outer; i < w->n_dims - 1 && !two; i++) {
            phase = phase * w->dims[i].stride + u[i] % w->dims[i].stride;
            at = at * w->dims[i].length + u[i] / w->dims[i].stride;
        }
        float *to = dst + phase * last->stride * elements + at * last->length;
        if (inside) {
            copy_line(moves, last, firsts[w->n_dims - 1], from, to, elements);
        } else {
            for (int64_t i = 0; i < last->stride; i++) {
                memset(to + i * elements, 0, (size_t)last->length * 4);
            }
        }
    }
}

/* Drops what lies between the lines of a row of outputs. */
static void close_up(const ls_gemm_moves *moves, const ls_windows *w, int64_t band, float *c) {
    float *to = c;
    int64_t lines = band;
    const ls_window_dim *last = &w->dims[w->n_dims - 1];
    if (w->n_dims - w->outer == 1 || w->by_lines || w->columns == band * last->extent) {
        return;
    }
    if (w->n_dims - w->outer == 2) {
        moves->lines4(last->extent, band - 1, c + last->length, last->length, c + last->extent, last->extent);
        return;
    }
    for (int i = w->outer + 1; i < w->n_dims - 1; i++) {
        lines *= w->dims[i].extent;
    }
    for (int64_t line = 0; line < lines; line++, to += last->extent) {
        int64_t left = line, at = 0, size = last->length;
        for (int i = w->n_dims - 2; i > w->outer; i--) {
            at += left % w->dims[i].extent * size;
            left /= w->dims[i].extent;
            size *= w->dims[i].length;
        }
        at += left * size;
        if (to != c + at) {
            memmove(to, c + at, (size_t)last->extent * 4);
        }
    }
}

const float *ls_windows_leaf_start(const ls_kernel_run *kernel, const ls_gemm_phase *gemm, const ls_windows *w,
                                   const ls_window_leaf *leaf, const int64_t *coords) {
    const float *at = (const float *)(const void *)kernel->buffers[leaf->buffer] + leaf->sum.constant;
    for (int i = 0; i < gemm->batch.n; i++) {
        at += coords[gemm->batch.axes[i]] * ls_ix_sum_stride(&leaf->sum, gemm->batch.axes[i]);
    }
    for (int i = 0; i < w->outer; i++) {
        at += coords[w->dims[i].axis] * ls_ix_sum_stride(&leaf->sum, w->dims[i].axis);
    }
    return at;
}

/* What stores a band's lines of some rows where they will lie, a line or all at a time; NULL: more follows than bounds. */
static float *put_of(const window_run *r, int64_t batch, int64_t row, int64_t rows, int64_t output, int64_t lines, ls_put_lines *put) {
    const ls_windows *w = r->w;
    const int64_t n = w->dims[w->n_dims - 1].extent, line = w->by_lines ? n : w->dims[w->n_dims - 1].length;
    ls_bounds next;
    *put = (ls_put_lines){.rows = rows, .lines = w->by_lines ? 1 : lines, .n = n, .src_row = w->ld, .src_line = line, .dst_line = n};
    float *out = ls_chain_bounded(r->launch, batch, row, output, lines * n, &put->bounds);
    put->dst_row = out && rows > 1 ? ls_chain_bounded(r->launch, batch, row + 1, output, lines * n, &next) - out : 0;
    return out;
}

/* Whether a panel's lines can be stored by the tiles themselves. */
static bool lines_end(const ls_windows *w, const ls_put_lines *put) {
    return w->by_lines && w->kernels->ends && w->rows == LS_ENDS_ROWS && put->rows == w->rows && put->bounds.after[2] < 0;
}

static void end_lines(const ls_windows *w, const float *a, const float *image, const ls_put_lines *put, int64_t lines, float *out) {
    const int64_t chunk = w->in_lines ? LS_GEMM_CHUNK / 3 * 3 : LS_GEMM_CHUNK;
    float ends[LS_ENDS_ROWS][2];
    for (int i = 0; i < LS_ENDS_ROWS; i++) {
        ls_bounds_of(&put->bounds, put->bounds.scalars + i * put->bounds.n_scalars, &ends[i][0], &ends[i][1]);
    }
    for (int64_t k0 = 0, kc; k0 < w->k; k0 += kc) {
        kc = w->k - k0 < chunk ? w->k - k0 : chunk;
        for (int64_t l = 0; l < lines; l++) {
            w->kernels->ends(kc, put->n, a + k0 * w->rows, w->at + k0, image + l * w->dims[w->n_dims - 1].length, out + l * put->n, put->dst_row, k0 > 0,
                             k0 + kc == w->k ? ends[0] : NULL, w->in_lines);
        }
    }
}

typedef struct window_part { /* a band of an image, and some rows */
    int64_t batch, point, band, lines; /* of outputs, the first and how many */
    int64_t row, end;
} window_part;

/* Where a part's image is: where it lies, or a copy at `copy`. */
static const float *image_of(const window_run *r, const window_part *p, int worker, float *copy) {
    const ls_windows *w = r->w;
    const ls_kernel_run *kernel = r->launch->kernel;
    const ls_gemm_phase *gemm = r->launch->phase->gemm;
    int64_t firsts[LS_WINDOW_DIMS], coords[LS_SPEC_MAX_AXES];
    const float *src[LS_WINDOW_LEAVES];
    ls_point_coords(kernel->extents, gemm->batch.n, gemm->batch.axes, p->batch, coords);
    ls_point_coords(kernel->extents, w->outer, gemm->n.axes, p->point, coords);
    for (int l = 0; l < w->n_leaves; l++) {
        src[l] = ls_windows_leaf_start(kernel, gemm, w, &w->leaves[l], coords);
    }
    for (int i = w->outer; i < w->n_dims; i++) {
        firsts[i] = w->dims[i].first + (i == w->outer ? p->band * w->dims[i].stride : 0);
    }
    if (w->uncopied) {
        return src[w->plane_leaf[0]] + w->plane_at[0] + firsts[w->outer] * w->dims[w->outer].image_stride + firsts[w->n_dims - 1];
    }
    ls_gemm_worker *launch_worker = ls_gemm_worker_of(r->launch, worker);
    bool cut = w->n_dims - w->outer == 1 && w->bands > 1; /* bands of the lines themselves end at padding or do not */
    if (!launch_worker->image_clear || cut) {             /* else a worker's tasks pad inside lines at the same places */
        memset(copy, 0, (size_t)(w->planes * w->plane + LS_WINDOW_SLACK) * 4);
        launch_worker->image_clear = true;
    }
    if (w->program) {
        ls_windows_compute(&r->launch->sides[1], w, worker, p->batch, p->point, p->band, copy);
    }
    for (int64_t i = 0; i < w->planes && !w->program; i++) {
        if (w->plane_leaf[i] >= 0) {
            copy_plane(kernel->binary->device->gemm->moves, w, firsts, src[w->plane_leaf[i]] + w->plane_at[i], copy + i * w->plane);
        }
    }
    return copy;
}

static void window_task(void *ctx, long task, int worker) {
    const window_run *r = ctx;
    const ls_windows *w = r->w;
    const ls_gemm_moves *moves = r->launch->kernel->binary->device->gemm->moves;
    const ls_window_dim *first = &w->dims[w->outer], *last = &w->dims[w->n_dims - 1];
    const int64_t image_index = task / w->bands / r->outer;
    window_part p = {.batch = image_index % r->batches, .point = task / w->bands % r->outer, .band = task % w->bands * w->band,
                     .row = image_index / r->batches * w->group * w->rows};
    p.lines = first->extent - p.band < w->band ? first->extent - p.band : w->band;
    p.end = p.row + w->group * w->rows;
    p.end = p.end < w->m ? p.end : w->m;
    float *memory = (float *)(void *)(r->memory + (size_t)worker * r->worker_bytes), *c = memory + copy_elements(w);
    const float *image = image_of(r, &p, worker, memory);
    int64_t inner = 1;
    for (int i = w->outer + 1; i < w->n_dims; i++) {
        inner *= w->dims[i].extent;
    }
    const int64_t runs = w->by_lines ? p.lines : 1, n = w->by_lines ? last->extent : w->ld; /* of outputs, computed at once */
    const int64_t output = (p.point * first->extent + p.band) * inner;
    for (int64_t i = p.row; i < p.end; i += w->rows) {
        int64_t rows = w->m - i < w->rows ? w->m - i : w->rows;
        const float *a = r->filter + (p.batch * w->panels * w->rows + i) * w->k;
        if (!LS_SMALL && w->parts > 1) {
            ls_windows_part_rows(r->launch, worker, p.batch, p.point, p.band, p.lines, i, rows, a, image, c);
            continue;
        }
        ls_put_lines put;
        float *out = !LS_SMALL && w->puts ? put_of(r, p.batch, i, rows, output, p.lines, &put) : NULL;
        if (!LS_SMALL && out && lines_end(w, &put)) {
            end_lines(w, a, image, &put, p.lines, out);
            continue;
        }
        for (int64_t k0 = 0; k0 < w->k; k0 += LS_GEMM_CHUNK) {
            int64_t kc = w->k - k0 < LS_GEMM_CHUNK ? w->k - k0 : LS_GEMM_CHUNK;
            for (int64_t l = 0; l < runs; l++) {
                w->kernels->taps[w->rows](kc, n, a + k0 * w->rows, w->at + k0, image + l * last->length, c + l * n, w->ld, k0 > 0);
                if (out && k0 + kc == w->k) {
                    moves->put_lines(&put, c + l * n, out + l * n);
                }
            }
        }
        for (int64_t q = 0; q < rows && !out; q++) {
            close_up(moves, w, p.lines, c + q * w->ld);
        }
        if (!out) {
            ls_gemm_finish_tile(r->launch, worker, p.batch, i, rows, output, p.lines * inner, c, w->ld);
        }
    }
}

bool ls_windows_run(ls_gemm_launch *launch) {
    const ls_kernel_run *kernel = launch->kernel;
    const ls_gemm_phase *gemm = launch->phase->gemm;
    const ls_windows *w = gemm->windows;
    ls_cpu_device *device = kernel->binary->device;
    int64_t batches = ls_point_count(kernel->extents, gemm->batch.n, gemm->batch.axes);
    window_run r = {.launch = launch, .w = w, .worker_bytes = worker_bytes(w, device->threads), .batches = batches};
    r.filter = (float *)(void *)device->workspace;
    r.memory = device->workspace + filter_bytes(w, gemm, kernel->extents);
    r.outer = ls_point_count(kernel->extents, w->outer, gemm->n.axes);
    int64_t images = batches * r.outer * w->bands, n = images * ls_gemm_ceil_div(w->panels, w->group);
    ls_kept *kept = gemm->side[0].fixed ? ls_kept_find(device, kernel->launch, gemm->side[0].buffer, gemm, LS_KEPT_WINDOWS,
                                                       filter_bytes(w, gemm, kernel->extents))
                                        : NULL;
    r.filter = kept ? kept->data : r.filter;
    bool finite = kept && kept->ready && kept->finite;
    if (!kept || !kept->ready) {
        pack_filter(&r, batches);
        finite =
            (!w->absent && !w->in_place && !w->finite) || device->gemm->moves->finite_f32(batches * w->panels * w->rows * w->k, r.filter);
    }
    if (kept) {
        kept->ready = true;
        kept->finite = finite;
    }
    if (!finite && (w->absent || w->finite)) {
        return false;
    }
    if (w->in_place && finite) {
        ls_depthwise_run(launch, r.filter, r.memory, r.worker_bytes);
        return true;
    }
    if (w->runs) {
        ls_runs_run(launch, r.filter, r.memory, r.worker_bytes);
        return true;
    }
    if (n == 1 || !ls_is_worth_threads(device, (double)(images * w->columns * w->m) * (double)w->k, LS_INLINE_WORK)) {
        for (int64_t task = 0; task < n; task++) {
            window_task(&r, (long)task, 0);
        }
    } else {
        ls_pool_run(device->pool, (long)n, window_task, &r);
    }
    return true;
}
