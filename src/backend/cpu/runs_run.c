/* Convolutions in tiles that are stored where results lie, launched: each task copies its band of an image, if that is not read where it lies, and
 * computes tile by tile, all rows of one while its part of the image is near (runs.c). */
#include "backend/cpu/runs.h"
#include <string.h>

enum {
    BLOCK = 4 * LS_RUNS_WIDE, /* outputs that what follows takes together */
    LEAST_KERNEL = 4,         /* outputs of a tile across; */
    NO_KERNELS = 7,           /* are not made up of those of four, five and six */
    SHORT = 64                /* of k: so soon a tile is done, before the lines are there that it stores to */
};

typedef struct tile {
    int64_t image, first, n;   /* where it begins in an image of line 0 on; its outputs */
    int64_t again;             /* the first ones, which the tile before has, too, perhaps in another task: what follows is that one's to do */
    ls_gemm_run_places places; /* to the first output on; lanes that are outputs */
    int vectors;
} tile;

/* ---- tiles ---- */
static tile across_tile(const ls_windows *w, int64_t i) {
    const ls_runs *t = w->runs;
    if (t->joined && w->kernels->runs[3]) { /* the last tile has outputs of the one before again */
        const int64_t n = t->outputs < t->tile_outputs ? t->outputs : t->tile_outputs, first = ls_runs_clamp(i * n, 0, t->outputs - n);
        return (tile){.image = t->gathered ? first : 0, .first = first, .n = n, .again = i * n - first};
    }
    if (t->joined) {
        const int64_t n = t->outputs / t->tiles, longer = t->outputs % t->tiles;
        return (tile){.first = i * n + (i < longer ? i : longer), .n = n + (i < longer)};
    }
    int64_t line = i / t->line_tiles, column = i % t->line_tiles * t->tile_outputs;
    return (tile){.image = line * ls_runs_down(w)->stride * t->length + column * ls_runs_along(w)->stride,
                  .first = i * t->tile_outputs, .n = t->tile_outputs};
}

/* Of its vectors, the one with lanes of two lines is the second. The last tile computes some outputs of the one before it again, so as to read no further than the image. */
static tile joined_tile(const ls_runs *t, int64_t i) {
    tile at = {.first = i * LS_RUNS_WIDE, .n = ls_runs_clamp(t->outputs - i * LS_RUNS_WIDE, 0, LS_RUNS_WIDE), .vectors = 3};
    int64_t image[3], others[3], begin = at.first + at.n - LS_RUNS_WIDE;
    int both = 1;
    for (int v = 0; v < 3; v++) {
        others[v] = ls_runs_joined_vector(t, begin + v * LS_RUNS_LANES, &image[v]);
        both = others[v] ? v : both;
    }
    int order[3] = {both == 0 ? 1 : 0, both, both == 2 ? 1 : 2};
    at.image = image[order[0]];
    at.places.second = image[both] - at.image;
    at.places.rest = others[both] ? at.places.second + t->length - t->width : 0; /* inside the image, also where no lane is wanted */
    at.places.third = image[order[2]] - at.image;
    at.places.other = others[both] ? (uint16_t)(0xffff << (LS_RUNS_LANES - others[both])) : 0;
    for (int v = 0; v < 3; v++) {
        int64_t from = begin + order[v] * LS_RUNS_LANES - at.first;
        at.places.lanes[v] = (uint16_t)(0xffffu << ls_runs_clamp(-from, 0, LS_RUNS_LANES));
        at.places.at[v] = from > 0 ? from : 0;
    }
    return at;
}

static tile tile_of(const ls_windows *w, int64_t i) {
    const ls_runs *t = w->runs;
    if (t->across) {
        return across_tile(w, i);
    }
    if (t->joined) {
        return joined_tile(t, i);
    }
    int64_t row = i / t->row_tiles, own = i % t->row_tiles;
    int64_t from = own < t->twos ? own * 2 * LS_RUNS_LANES : t->twos * 2 * LS_RUNS_LANES + (own - t->twos) * LS_RUNS_WIDE;
    tile at = {.image = row * t->row + from, .places = {.second = LS_RUNS_LANES, .third = 2 * LS_RUNS_LANES}, .vectors = own < t->twos ? 2 : 3};
    int64_t left = (row + 1) * t->row - at.image, end = 0, line = at.image / t->length, column = at.image % t->length;
    at.first = -1;
    for (int v = 0; v < at.vectors; v++, left -= LS_RUNS_LANES, column += LS_RUNS_LANES) {
        for (; column >= t->length; column -= t->length) {
            line++;
        }
        int64_t lanes = ls_runs_clamp(left, 0, LS_RUNS_LANES), own_end = lanes, next = t->length - column, next_end = 0;
        if (t->length > t->width) {
            own_end = ls_runs_clamp(t->width - column, 0, lanes);
            next_end = t->by_line ? 0 : ls_runs_clamp(next + t->width, 0, lanes);
        }
        at.places.lanes[v] = (uint16_t)((1u << own_end) - 1);
        at.places.lanes[v] |= next < next_end ? (uint16_t)((1u << next_end) - (1u << next)) : 0;
        at.places.at[v] = own_end > 0 ? line * t->width + column : (line + 1) * t->width;
        if (at.places.lanes[v]) {
            at.first = at.first < 0 ? at.places.at[v] : at.first;
            end = at.places.at[v] + __builtin_popcount(at.places.lanes[v]);
        }
    }
    at.n = end - at.first;
    for (int v = 0; v < at.vectors; v++) {
        at.places.at[v] -= at.first;
    }
    return at;
}

size_t ls_runs_bytes(const ls_windows *w) {
    const ls_runs *t = w->runs;
    return (size_t)(t->panels * (w->rows * BLOCK + LS_ACROSS_SUMS) + (t->in_place ? 0 : w->planes * t->plane) + t->gathered * w->k + LS_RUNS_SLACK + 2) * 4 + (size_t)t->band * sizeof(tile);
}

/* ---- running ---- */
typedef struct runs_run {
    ls_gemm_launch *launch;
    const ls_windows *w;
    const float *filter;
    char *memory;
    size_t bytes;
    int64_t batches, outer, tasks;
} runs_run;

typedef struct fetches { /* what the next task copies of its image */
    const float *leaves[LS_WINDOW_LEAVES];
    int64_t plane, first, n; /* the first plane that is left, where its elements begin, and how many */
    const float *stop;       /* the end of the last one that is under way */
} fetches;

typedef struct runs_part { /* a band of an image */
    int64_t batch, first;    /* of its outputs */
    int64_t panel, panels;   /* the first; how many */
    int64_t tile, n;         /* the first; how many */
    int64_t line, lines;     /* of a phase */
    const tile *tiles;
    const float *leaves[LS_WINDOW_LEAVES];
    const float *image;      /* its copy, where line 0 would be */
    float *block, *sums;     /* of each panel that is under way: outputs that something follows; sums of a tile */
    fetches *ahead;
} runs_part;

/* A band's lines of some planes that lie evenly apart, the first of which are these: each phase of lines at a time. */
static void copy_planes(const runs_run *r, const runs_part *p, int64_t n, const float *plane, int64_t apart, float *dst) {
    const ls_runs *t = r->w->runs;
    const ls_window_dim *y = ls_runs_down(r->w), *x = ls_runs_along(r->w);
    int64_t phase = t->lines * t->length, end = p->line + p->lines;
    ls_gemm_lines lines = {.n = t->length, .planes = n, .src_line = t->down * y->image_stride, .src_plane = apart, .step = t->along,
                           .low = x->low - x->first, .high = x->high - x->first, .dst_line = t->length, .dst_plane = t->plane,
                           .dst_phase = t->down * phase};
    for (int64_t i = 0; i < t->down; i++, dst += phase) {
        int64_t v = y->first + i;
        int64_t low = ls_runs_clamp(ls_windows_ceil_div(y->low - v, t->down), p->line, end), high = ls_runs_clamp(ls_windows_ceil_div(y->high - v, t->down), low, end);
        for (int64_t j = 0; j < n * t->along; j++) {
            float *own = dst + j / t->along * t->plane + j % t->along * lines.dst_phase;
            memset(own, 0, (size_t)((low - p->line) * t->length) * 4);
            memset(own + (high - p->line) * t->length, 0, (size_t)((end - high) * t->length + t->shared) * 4);
        }
        lines.lines = high - low;
        r->launch->kernel->binary->device->gemm->moves->phases4(&lines, plane + (low * t->down + v) * y->image_stride + x->first,
                                                                dst + (low - p->line) * t->length);
    }
}

static runs_part part_of(const runs_run *r, int64_t task) {
    const ls_windows *w = r->w;
    const ls_runs *t = w->runs;
    const ls_gemm_phase *gemm = r->launch->phase->gemm;
    const ls_kernel_run *kernel = r->launch->kernel;
    int64_t coords[LS_SPEC_MAX_AXES], band = task % t->bands, point = task / t->bands % r->outer;
    int64_t image = task / t->bands / r->outer;
    runs_part p = {.batch = image % r->batches, .first = point * t->outputs, .panel = image / r->batches * w->group, .tile = band * t->band};
    p.panels = w->panels - p.panel < w->group ? w->panels - p.panel : w->group;
    p.n = t->tiles - p.tile < t->band ? t->tiles - p.tile : t->band;
    tile first = tile_of(w, p.tile), last = tile_of(w, p.tile + p.n - 1);
    int64_t stride = t->across ? ls_runs_down(w)->stride : 1;
    p.line = stride * (t->joined ? first.first / t->width : first.image / t->length / stride);
    p.lines = stride * ((last.first + last.n - 1) / t->width) + t->reach + 1 - p.line;
    ls_point_coords(kernel->extents, gemm->batch.n, gemm->batch.axes, p.batch, coords);
    ls_point_coords(kernel->extents, w->outer, gemm->n.axes, point, coords);
    for (int i = 0; i < w->n_leaves; i++) {
        p.leaves[i] = ls_windows_leaf_start(kernel, gemm, w, &w->leaves[i], coords);
    }
    return p;
}

/* All of its planes. */
static void copy_image(const runs_run *r, const runs_part *p, float *image) {
    const ls_windows *w = r->w;
    const ls_runs *t = w->runs;
    for (int64_t i = 0; i < w->planes; i++) { /* no output has what is behind planes, but what lies there may be subnormal, which is slow */
        memset(image + i * t->plane + ls_runs_own_plane(t), 0, (size_t)(t->plane - ls_runs_own_plane(t)) * 4);
    }
    memset(image + w->planes * t->plane, 0, LS_RUNS_SLACK * sizeof *image);
    for (int64_t i = 0, n; i < w->planes; i += n) {
        float *to = image + i * t->plane;
        n = ls_windows_even_planes(w, i);
        if (w->plane_leaf[i] < 0) {
            memset(to, 0, (size_t)(n * t->plane) * 4);
        } else {
            copy_planes(r, p, n, p->leaves[w->plane_leaf[i]] + w->plane_at[i], n > 1 ? w->plane_at[i + 1] - w->plane_at[i] : 0, to);
        }
    }
}

/* Where each of a part's outputs begins in an image of line 0 on, so many, the last one again where they are fewer. */
static void find_outputs(const ls_windows *w, int64_t first, int64_t n, int64_t many, int64_t *of_outputs) {
    const ls_runs *t = w->runs;
    int64_t line = first / t->width, column = first % t->width;
    for (int64_t o = 0; o < many; o++) {
        of_outputs[o] = line * ls_runs_down(w)->stride * t->length + column * ls_runs_along(w)->stride;
        if (o + 1 < n && ++column == t->width) {
            column = 0;
            line++;
        }
    }
}

/* What each k has for all outputs, from the image that the part has, side by side. */
static void gather(const ls_windows *w, const runs_part *p, float *to) {
    const ls_runs *t = w->runs;
    const int64_t first = p->tiles[0].first, end = p->tiles[p->n - 1].first + p->tiles[p->n - 1].n;
    int64_t of_outputs[LS_RUNS_GATHERED];
    find_outputs(w, first, end - first, t->gathered, of_outputs);
    for (int64_t k = 0; k < w->k; k++, to += t->gathered) {
        for (int64_t o = first; o < t->gathered; o++) {
            to[o] = p->image[t->from[k] + of_outputs[o - first]];
        }
    }
}

/* Its tiles, and a copy of its image. */
static void prepare(const runs_run *r, runs_part *p, int worker) {
    const ls_windows *w = r->w;
    const ls_runs *t = w->runs;
    p->block = (float *)(void *)(r->memory + (size_t)worker * r->bytes);
    p->sums = p->block + t->panels * w->rows * BLOCK;
    float *image = p->sums + t->panels * LS_ACROSS_SUMS;
    float *gathered = image + ((t->in_place ? 0 : w->planes * t->plane) + LS_RUNS_SLACK + 1) / 2 * 2;
    tile *tiles = (tile *)(void *)(gathered + t->gathered * w->k);
    for (int64_t i = 0; i < p->n; i++) {
        tiles[i] = tile_of(w, p->tile + i);
    }
    p->tiles = tiles;
    p->image = image - p->line * t->length;
    if (t->in_place) {
        p->image = p->leaves[w->plane_leaf[0]] + w->plane_at[0] + ls_runs_down(w)->first * ls_runs_down(w)->image_stride + ls_runs_along(w)->first;
    } else {
        copy_image(r, p, image);
    }
    if (t->gathered) {
        gather(w, p, gathered);
        p->image = gathered;
    }
}

static fetches fetches_of(const runs_run *r, int64_t task) {
    const ls_windows *w = r->w;
    const ls_window_dim *y = ls_runs_down(w), *x = ls_runs_along(w);
    fetches f = {.plane = w->planes};
    if (task < r->tasks) {
        runs_part p = part_of(r, task);
        int64_t low = y->first + p.line * w->runs->down, high = low + p.lines * w->runs->down;
        low = low > y->low ? low : y->low;
        high = high < y->high ? high : y->high;
        memcpy(f.leaves, p.leaves, sizeof f.leaves);
        f.first = low * y->image_stride + x->low;
        f.n = (high - 1) * y->image_stride + x->high - f.first;
        f.plane = low < high ? 0 : w->planes;
    }
    return f;
}

/* Has tiles fetch the next planes that lie evenly apart, or, where none are left, one line again and again. */
static void fetch(const ls_windows *w, fetches *f, ls_gemm_runs *sums) {
    while (f->plane < w->planes && w->plane_leaf[f->plane] < 0) {
        f->plane++;
    }
    sums->ahead = (const float *)(const void *)w;
    sums->ahead_end = f->stop = sums->ahead + LS_RUNS_LANES;
    sums->ahead_gap = -LS_RUNS_LANES;
    sums->ahead_plane = 0;
    if (f->plane < w->planes) {
        int64_t n = ls_windows_even_planes(w, f->plane), plane = n > 1 ? w->plane_at[f->plane + 1] - w->plane_at[f->plane] : f->n;
        n = plane > 0 ? n : 1;
        sums->ahead = f->leaves[w->plane_leaf[f->plane]] + w->plane_at[f->plane] + f->first;
        sums->ahead_end = sums->ahead + f->n;
        sums->ahead_plane = plane > 0 ? plane : f->n;
        sums->ahead_gap = sums->ahead_plane - f->n;
        f->stop = sums->ahead_end + (n - 1) * sums->ahead_plane;
        f->plane += n;
    }
}

/* A tile of some panels, over all k, to c. */
static void tile_sums(const runs_run *r, const runs_part *p, const tile *at, const float *a, float *c, ls_gemm_runs *sums) {
    const ls_runs *t = r->w->runs;
    const ls_run_edges *edges = t->across ? ls_runs_edges_of(r->w, at->first, at->n) : NULL;
    int64_t of_outputs[LS_ACROSS_OUTPUTS];
    sums->outputs = sums->stored = at->n;
    if (t->gathered) {
        sums->outputs = t->tile_outputs;
    } else if (t->across && t->joined) {
        while (sums->outputs < LEAST_KERNEL || sums->outputs == NO_KERNELS) {
            sums->outputs++;
        }
        find_outputs(r->w, at->first, at->n, sums->outputs, of_outputs);
        sums->of_outputs = of_outputs;
    }
    sums->places = at->places;
    sums->shifts = r->w->at;
    if (t->taps) {
        const int64_t ends = ls_runs_ends(t, at->first, at->n);
        sums->low = ends & LS_BEYOND_FIRST ? t->low : 0;
        sums->high = ends & LS_BEYOND_LAST ? t->high : 0;
    }
    for (int64_t i = 0, begin = 0; i < t->n_pieces; i++, begin = t->ends[i - 1], sums->shifts += sums->k, a += sums->k * r->w->rows) {
        sums->k = t->ends[i] - begin;
        sums->add = i > 0;
        sums->last = i + 1 == t->n_pieces;
        if (edges) {
            sums->edges = edges[i].of;
            sums->n_edges = edges[i].n;
        }
        if (sums->ahead_end > p->ahead->stop) {
            fetch(r->w, p->ahead, sums);
        }
        (t->across ? r->w->kernels->across : r->w->kernels->runs[at->vectors])(sums, a, p->image + at->image, c);
    }
    if (t->across) {
        r->launch->kernel->binary->device->gemm->moves->across(sums, c);
    }
}

/* Some panels of all tiles: those of whole height are stored where results lie, if they can be, others go by way of blocks. */
static void panels_of_outputs(const runs_run *r, int worker, const runs_part *p, int64_t row, int64_t panels, ls_gemm_runs *sums) {
    const ls_windows *w = r->w;
    const ls_runs *t = w->runs;
    const int64_t height = w->rows;
    const float *a = r->filter + (p->batch * w->panels * height + row) * w->k;
    ls_chain_rows next, rows, none = {0};
    float *out = w->m - row < height ? NULL : ls_chain_result(r->launch, p->batch, row, p->first, t->outputs, &rows);
    int64_t ldc = out ? ls_chain_result(r->launch, p->batch, row + 1, p->first, t->outputs, &next) - out : 0;
    int64_t direct = !out ? 0 : w->m - row < panels * height ? (w->m - row) / height : panels;
    sums->sums = p->sums;
    sums->panel = height * w->k;
    sums->step = t->gathered ? 1 : ls_runs_along(w)->stride;
    sums->of = t->taps ? ls_runs_lines(w->kernels, t->taps) : w->kernels->outputs;
    sums->taps = t->taps;
    sums->lead = w->k < SHORT ? LS_RUNS_WIDE : 0;
    sums->second = r->launch->kernel->binary->device->cpu.fetches_second;
    for (const tile *at = p->tiles, *end = at + p->n; at < end;) {
        const int64_t first = at->first, again = at->again;
        int64_t n = 0;
        for (; at < end && at->first + at->n - first <= BLOCK; at++) {
            if (direct > 0) {
                sums->panels = direct;
                sums->ldc = ldc;
                sums->rows = rows;
                tile_sums(r, p, at, a, out + at->first, sums);
            }
            if (direct < panels) {
                sums->panels = panels - direct;
                sums->ldc = BLOCK;
                sums->rows = none;
                tile_sums(r, p, at, a + direct * sums->panel, p->block + at->first - first, sums);
            }
            n = at->first + at->n - first;
        }
        for (int64_t i = direct; i < panels; i++) {
            int64_t own = row + i * height, n_rows = w->m - own < height ? w->m - own : height;
            ls_gemm_finish_tile(r->launch, worker, p->batch, own, n_rows, p->first + first + again, n - again, p->block + (i - direct) * height * BLOCK + again, BLOCK);
        }
    }
}

static void runs_task(void *ctx, long task, int worker) {
    const runs_run *r = ctx;
    runs_part p = part_of(r, task);
    int64_t panels = r->w->runs->panels;
    fetches ahead = fetches_of(r, task + 1);
    p.ahead = &ahead;
    prepare(r, &p, worker);
    ls_gemm_runs sums = {.k = 0};
    fetch(r->w, &ahead, &sums);
    for (int64_t i = 0; i < p.panels; i += panels) { /* which every tile of the band meets while they are near */
        panels_of_outputs(r, worker, &p, (p.panel + i) * r->w->rows, p.panels - i < panels ? p.panels - i : panels, &sums);
    }
}

void ls_runs_run(ls_gemm_launch *launch, const float *filter, char *memory, size_t bytes) {
    const ls_kernel_run *kernel = launch->kernel;
    const ls_gemm_phase *gemm = launch->phase->gemm;
    const ls_windows *w = gemm->windows;
    ls_cpu_device *device = kernel->binary->device;
    runs_run r = {.launch = launch, .w = w, .filter = filter, .memory = memory, .bytes = bytes};
    r.outer = ls_point_count(kernel->extents, w->outer, gemm->n.axes);
    r.batches = ls_point_count(kernel->extents, gemm->batch.n, gemm->batch.axes);
    int64_t images = r.batches * r.outer, n = r.tasks = images * w->runs->bands * ls_windows_ceil_div(w->panels, w->group);
    if (n == 1 || !ls_is_worth_threads(device, (double)(images * w->runs->tiles * w->runs->tile_outputs * w->m) * (double)w->k, LS_INLINE_WORK)) {
        for (int64_t task = 0; task < n; task++) {
            runs_task(&r, (long)task, 0);
        }
    } else {
        ls_pool_run(device->pool, (long)n, runs_task, &r);
    }
}
