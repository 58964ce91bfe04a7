/* Convolutions in tiles that are stored where results lie, each over all of k. Of an image a band at a time is copied with its padding, each
 * dimension taken apart into `stride` phases, so that what a tap reads for all outputs is a run (windows.c). Tiles end with lines
 * where those are whole vectors; else they go on over what lies between lines, which is left out when they are stored. */
#include "backend/cpu/windows.h"
#include <string.h>

enum {
    ROWS = 8,
    LANES = 16,
    WIDE = 3 * LANES,
    BLOCK = 4 * WIDE, /* outputs that what follows takes together */
    SLACK = WIDE,     /* elements behind an image that the last tile reads */
    LEAST_OUTPUTS = 32,
    MOST_SHARED = SLACK / 2,
    FAST_CHUNK = 2048 /* of k */
};

struct ls_runs {
    bool by_line;                         /* tiles end with lines */
    int64_t width, outputs;               /* of a line, of all */
    int64_t row, row_tiles, twos, tiles;  /* a row is a line, or all: its elements; tiles, the first of which are two vectors wide; of all */
    int64_t length, shared, reach;        /* of a line; padding that it shares with the next one; how far taps reach, in lines of a phase */
    int64_t bands, band, lines, plane;    /* tiles of a band; lines of a phase there, elements of a plane */
    int64_t chunk, n_pieces, *pieces;     /* of k; segments of each */
    ls_gemm_segment *segments;
};

typedef struct tile {
    int64_t image, first, n; /* where it begins in an image of line 0 on; its outputs */
    int64_t at[3];           /* of a vector's first element, from `first` on */
    uint16_t masks[3][2];
    int vectors;
} tile;

static int64_t ceil_div(int64_t x, int64_t y) {
    return x > 0 ? (x + y - 1) / y : -(-x / y);
}

static int64_t clamp(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

static const ls_window_dim *line_dim(const ls_windows *w) {
    return &w->dims[w->outer];
}

static const ls_window_dim *last_dim(const ls_windows *w) {
    return &w->dims[w->n_dims - 1];
}

/* ---- planning ---- */
static bool whole_vectors(const ls_window_dim *x) {
    return ceil_div(x->extent, LANES) * LANES * 49 <= x->extent * 50;
}

static int64_t reach_of(const ls_window_dim *d) {
    return (d->step < 0 ? -d->step : d->step) * (d->taps - 1) / d->stride;
}

/* Padding that ends one line and begins the next. */
static int64_t shared_of(const ls_window_dim *x) {
    int64_t low = x->low - x->first, high = x->extent + reach_of(x) + x->first - x->high, least = low < high ? low : high;
    return x->stride > 1 || whole_vectors(x) ? 0 : clamp(least, 0, reach_of(x) < MOST_SHARED ? reach_of(x) : MOST_SHARED);
}

bool ls_runs_fits(const ls_gemm_phase *gemm, const ls_windows *w) {
    const ls_window_dim *y = line_dim(w), *x = last_dim(w);
    return w->kernels->runs[3] && !w->program && !w->n_spreads && w->n_dims - w->outer == 2 && gemm->m.n == 1 &&
           x->image_stride == 1 && x->stride <= 2 && ceil_div(w->m, ROWS) * ROWS * 10 <= w->m * 11 &&
           x->extent * y->extent >= LEAST_OUTPUTS &&
           reach_of(x) - shared_of(x) <= LANES &&
           (whole_vectors(x) || x->extent + reach_of(x) - shared_of(x) >= LANES - 1); /* two lines a vector at most */
}

static tile tile_of(const ls_runs *t, int64_t i) {
    int64_t row = i / t->row_tiles, own = i % t->row_tiles;
    int64_t from = own < t->twos ? own * 2 * LANES : t->twos * 2 * LANES + (own - t->twos) * WIDE;
    tile at = {.image = row * t->row + from, .vectors = own < t->twos ? 2 : 3};
    int64_t limit = (row + 1) * t->row, end = 0;
    at.first = -1;
    for (int v = 0; v < at.vectors; v++) {
        int64_t j = at.image + v * LANES, line = j / t->length, column = j % t->length;
        int64_t lanes = clamp(limit - j, 0, LANES), own_end = lanes, next = t->length - column, next_end = 0;
        if (t->length > t->width) {
            own_end = clamp(t->width - column, 0, lanes);
            next_end = t->by_line ? 0 : clamp(next + t->width, 0, lanes);
        }
        at.at[v] = line * t->width + column;
        at.masks[v][0] = (uint16_t)((1u << own_end) - 1);
        at.masks[v][1] = (uint16_t)(next < next_end ? (1u << next_end) - (1u << next) : 0);
        if (own_end > 0 || next < next_end) {
            int64_t first = own_end > 0 ? at.at[v] : (line + 1) * t->width;
            at.first = at.first < 0 ? first : at.first;
            end = next < next_end ? (line + 1) * t->width + next_end - next : at.at[v] + own_end;
        }
    }
    at.n = end - at.first;
    for (int v = 0; v < at.vectors; v++) {
        at.at[v] -= at.first;
    }
    return at;
}

/* Bands whose part of the image stays near the core, and as many as keep the workers busy. */
static void choose_bands(const ls_kernel_binary *binary, const ls_windows *w, ls_runs *t) {
    const ls_window_dim *y = line_dim(w);
    int64_t l2 = binary->device->cpu.l2_bytes > 0 ? binary->device->cpu.l2_bytes : 1 << 20;
    int64_t wanted = binary->device->threads > 1 ? LS_TASKS_PER_WORKER * binary->device->threads : 1;
    for (t->bands = 1;; t->bands++) {
        t->band = ceil_div(t->tiles, t->bands);
        t->lines = t->by_line ? ceil_div(t->band, t->row_tiles) : ceil_div(t->band * WIDE, t->length);
        t->lines = (t->lines + 1 < y->extent ? t->lines + 1 : y->extent) + t->reach;
        t->plane = last_dim(w)->stride * y->stride * t->lines * t->length;
        if (t->band == 1 || (t->bands >= wanted && w->planes * t->plane * 4 <= l2 / 4)) {
            break;
        }
    }
    t->bands = ceil_div(t->tiles, t->band);
}

/* Where a tap's run begins. */
static int64_t tap_at(const ls_windows *w, const ls_runs *t, const int64_t *tap) {
    const ls_window_dim *y = line_dim(w), *x = last_dim(w);
    int64_t v = y->step * tap[0] - y->first, u = x->step * tap[1] - x->first;
    return ((u % x->stride * y->stride + v % y->stride) * t->lines + v / y->stride) * t->length + u / x->stride;
}

/* Runs of k along planes at one tap. */
static void find_segments(const ls_spec *spec, const ls_gemm_phase *gemm, const ls_windows *w, ls_runs *t) {
    int64_t end = 0, n = 0; /* where the segment before ends; segments */
    for (int64_t p = 0; p < w->k; p++) {
        int64_t left = p, plane = 0, planes = 1, tap[2] = {0};
        for (int i = gemm->k.n - 1; i >= 0; i--) {
            int64_t extent = spec->extents_of_axes[gemm->k.axes[i]].offset, own = left % extent;
            left /= extent;
            const ls_window_dim *d = ls_windows_walked_by(w, gemm->k.axes[i]);
            if (d) {
                tap[d == last_dim(w)] = own;
            } else {
                plane += own * planes;
                planes *= extent;
            }
        }
        int64_t shift = plane * t->plane + tap_at(w, t, tap);
        bool begins = p % t->chunk == 0;
        if (begins) {
            t->pieces[t->n_pieces++] = 0;
        }
        if (!begins && shift == end) {
            t->segments[n - 1].count++;
        } else {
            t->segments[n++] = (ls_gemm_segment){shift, 1};
            t->pieces[t->n_pieces - 1]++;
        }
        end = shift + t->plane;
    }
}

ls_status ls_runs_plan(ls_kernel_binary *binary, const ls_gemm_phase *gemm, ls_windows *w, ls_error *err) {
    const ls_window_dim *y = line_dim(w), *x = last_dim(w);
    ls_runs t = {.by_line = whole_vectors(x), .width = x->extent, .outputs = x->extent * y->extent};
    t.length = t.width + reach_of(x) - shared_of(x);
    t.shared = shared_of(x);
    t.row = t.by_line ? t.length : t.length * y->extent;
    int64_t vectors = ceil_div(t.by_line ? t.width : t.row - (t.length - t.width), LANES);
    t.twos = vectors == 1 ? 1 : (3 - vectors % 3) % 3;
    t.row_tiles = t.twos + (vectors > 2 * t.twos ? (vectors - 2 * t.twos) / 3 : 0);
    t.tiles = t.by_line ? t.row_tiles * y->extent : t.row_tiles;
    t.reach = reach_of(y);
    t.chunk = binary->spec.math == LS_LOCKED ? LS_GEMM_CHUNK : FAST_CHUNK;
    choose_bands(binary, w, &t);
    t.segments = LS_ARENA_ARRAY(&binary->arena, ls_gemm_segment, w->k);
    t.pieces = LS_ARENA_ARRAY(&binary->arena, int64_t, w->k / LS_GEMM_CHUNK + 1);
    w->runs = LS_ARENA_NEW(&binary->arena, ls_runs);
    if (!t.segments || !t.pieces || !w->runs) {
        return LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    find_segments(&binary->spec, gemm, w, &t);
    *w->runs = t;
    return LS_OK;
}

size_t ls_runs_bytes(const ls_windows *w) {
    const ls_runs *t = w->runs;
    return (size_t)(ROWS * (BLOCK + WIDE) + w->planes * t->plane + SLACK + 2) * 4 + (size_t)t->band * sizeof(tile);
}

/* ---- running ---- */
typedef struct runs_run {
    ls_gemm_launch *launch;
    const ls_windows *w;
    const float *filter;
    char *memory;
    size_t bytes;
    int64_t outer;
} runs_run;

typedef struct runs_part { /* a band of an image */
    int64_t batch, first; /* of its outputs */
    const tile *tiles, *end;
    int64_t line, lines; /* of a phase */
    const float *image;  /* its copy, where line 0 would be */
    float *block, *sums; /* outputs that something follows; sums of a tile */
} runs_part;

/* A plane's lines of the band, once for each variant and phase. */
static void copy_plane(const runs_run *r, const runs_part *p, const float *plane, float *dst) {
    const ls_windows *w = r->w;
    const ls_runs *t = w->runs;
    const ls_window_dim *y = line_dim(w), *x = last_dim(w);
    const ls_gemm_moves *moves = r->launch->kernel->binary->device->gemm->moves;
    for (int64_t i = 0; i < x->stride * y->stride; i++, dst += t->lines * t->length) {
        int64_t phase = y->first + i % y->stride, u = x->first + i / y->stride, end = p->line + p->lines;
        int64_t low = clamp(ceil_div(y->low - phase, y->stride), p->line, end),
                high = clamp(ceil_div(y->high - phase, y->stride), low, end);
        memset(dst, 0, (size_t)((low - p->line) * t->length) * 4);
        memset(dst + (high - p->line) * t->length, 0, (size_t)((end - high) * t->length + t->shared) * 4);
        moves->every4(t->length, high - low, plane + (low * y->stride + phase) * y->image_stride + u,
                      y->stride * y->image_stride, x->stride, ceil_div(x->low - u, x->stride),
                      ceil_div(x->high - u, x->stride), dst + (low - p->line) * t->length, t->length);
    }
}

static runs_part part_of(const runs_run *r, int64_t task, int worker) {
    const ls_windows *w = r->w;
    const ls_runs *t = w->runs;
    const ls_gemm_phase *gemm = r->launch->phase->gemm;
    const ls_kernel_run *kernel = r->launch->kernel;
    int64_t coords[LS_SPEC_MAX_AXES], band = task % t->bands, point = task / t->bands % r->outer;
    runs_part p = {.batch = task / t->bands / r->outer, .first = point * t->outputs};
    p.block = (float *)(void *)(r->memory + (size_t)worker * r->bytes);
    p.sums = p.block + ROWS * BLOCK;
    float *image = p.sums + ROWS * WIDE;
    tile *tiles = (tile *)(void *)(image + (w->planes * t->plane + SLACK + 1) / 2 * 2);
    int64_t n = t->tiles - band * t->band < t->band ? t->tiles - band * t->band : t->band;
    for (int64_t i = 0; i < n; i++) {
        tiles[i] = tile_of(t, band * t->band + i);
    }
    p.tiles = tiles;
    p.end = tiles + n;
    p.line = tiles[0].image / t->length;
    p.lines = (tiles[n - 1].first + tiles[n - 1].n - 1) / t->width + t->reach + 1 - p.line;
    ls_point_coords(kernel->extents, gemm->batch.n, gemm->batch.axes, p.batch, coords);
    ls_point_coords(kernel->extents, w->outer, gemm->n.axes, point, coords);
    for (int64_t i = 0; i < w->planes; i++) {
        float *plane = image + i * t->plane;
        if (w->plane_leaf[i] < 0) {
            memset(plane, 0, (size_t)t->plane * 4);
        } else {
            copy_plane(r, &p, ls_windows_leaf_start(kernel, gemm, w, &w->leaves[w->plane_leaf[i]], coords) + w->plane_at[i], plane);
        }
    }
    p.image = image - p.line * t->length;
    return p;
}

/* A tile, over all k, to c; its first element is there. */
static void tile_sums(const runs_run *r, const runs_part *p, const tile *at, const float *a, float *c, int64_t ldc) {
    const ls_runs *t = r->w->runs;
    ls_gemm_runs sums = {.segments = t->segments, .plane = t->plane, .ldc = ldc, .sums = p->sums};
    sums.gap = t->by_line ? 0 : t->length - t->width;
    memcpy(sums.at, at->at, sizeof sums.at);
    memcpy(sums.masks, at->masks, sizeof sums.masks);
    for (int64_t i = 0; i < t->n_pieces; i++, sums.segments += sums.n, a += t->chunk * ROWS) {
        sums.n = t->pieces[i];
        sums.add = i > 0;
        sums.last = i + 1 == t->n_pieces;
        r->w->kernels->runs[at->vectors](&sums, a, p->image + at->image, c);
    }
}

static void panel_of_outputs(const runs_run *r, int worker, const runs_part *p, int64_t row) {
    const ls_windows *w = r->w;
    const ls_runs *t = w->runs;
    int64_t rows = w->m - row < ROWS ? w->m - row : ROWS;
    const float *a = r->filter + (p->batch * w->panels * ROWS + row) * w->k;
    float *out = rows < ROWS ? NULL : ls_chain_result(r->launch, p->batch, row, p->first, t->outputs);
    int64_t ldc = out ? ls_chain_result(r->launch, p->batch, row + 1, p->first, t->outputs) - out : BLOCK;
    for (const tile *at = p->tiles; at < p->end;) {
        int64_t first = at->first, n = 0;
        for (; at < p->end && at->first + at->n - first <= BLOCK; at++) {
            tile_sums(r, p, at, a, out ? out + at->first : p->block + at->first - first, ldc);
            n = at->first + at->n - first;
        }
        if (!out) {
            ls_gemm_finish_tile(r->launch, worker, p->batch, row, rows, p->first + first, n, p->block, BLOCK);
        }
    }
}

static void runs_task(void *ctx, long task, int worker) {
    const runs_run *r = ctx;
    runs_part p = part_of(r, task, worker);
    for (int64_t row = 0; row < r->w->m; row += ROWS) { /* which every tile of the band meets while they are near */
        panel_of_outputs(r, worker, &p, row);
    }
}

void ls_runs_run(ls_gemm_launch *launch, const float *filter, char *memory, size_t bytes) {
    const ls_kernel_run *kernel = launch->kernel;
    const ls_gemm_phase *gemm = launch->phase->gemm;
    const ls_windows *w = gemm->windows;
    ls_cpu_device *device = kernel->binary->device;
    runs_run r = {.launch = launch, .w = w, .filter = filter, .memory = memory, .bytes = bytes};
    r.outer = ls_point_count(kernel->extents, w->outer, gemm->n.axes);
    int64_t n = ls_point_count(kernel->extents, gemm->batch.n, gemm->batch.axes) * r.outer * w->runs->bands;
    if (device->threads == 1 || n == 1 || n * w->runs->band * WIDE * w->m <= LS_INLINE_WORK / w->k) {
        for (int64_t task = 0; task < n; task++) {
            runs_task(&r, (long)task, 0);
        }
    } else {
        ls_pool_run(device->pool, (long)n, runs_task, &r);
    }
}
