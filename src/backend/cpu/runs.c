/* Convolutions in tiles that are stored where results lie, each over all of k; their vectors are outputs, or rows. Of an image a band at a time is copied with its padding, each
 * dimension taken apart into `stride` phases, so that what a tap reads for all outputs is a run (windows.c). Tiles end with lines
 * where those are whole vectors; else they go on over what lies between lines, which is left out when they are stored. */
#include "backend/cpu/gemm_plan.h"
#include "backend/cpu/windows.h"
#include <string.h>

enum {
    ROWS = 8,
    LANES = 16,
    WIDE = 3 * LANES,
    BLOCK = 4 * WIDE, /* outputs that what follows takes together */
    SUMS = LS_ACROSS_ROWS * LS_ACROSS_OUTPUTS, /* of a tile, of either kind */
    LEAST_ACROSS = 256, /* of k: turning a tile takes as long as a few */
    MOST_PANELS = 16, /* that a tile meets while it is near */
    PLANES = 32,      /* of a piece in fast: what a tile reads of them stays in the first-level cache */
    LEAST_PIECE = 128,
    SLACK = WIDE,     /* elements behind an image that the last tile reads */
    LEAST_OUTPUTS = 32,
    MOST_SHARED = SLACK / 2,
    FAST_CHUNK = 2048, /* of k */
    SHORT = 64         /* of k: so soon a tile is done, before the lines are there that it stores to */
};

struct ls_runs {
    bool across;                          /* vectors are rows: tiles of outputs alone, and the image is not taken apart */
    bool by_line, joined, in_place;       /* tiles end with lines; have outputs alone, of several lines; the image is read where it lies */
    int64_t down, along;                  /* phases of lines and in them */
    int64_t tile_outputs, line_tiles;
    int64_t width, outputs;               /* of a line, of all */
    int64_t row, row_tiles, twos, tiles;  /* a row is a line, or all: its elements; tiles, the first of which are two vectors wide; of all */
    int64_t length, shared, reach;        /* of a line; padding that it shares with the next one; how far taps reach, in lines of a phase */
    int64_t bands, band, lines, plane;    /* tiles of a band; lines of a phase there, elements of a plane */
    int64_t panels, n_pieces;             /* that a tile meets together; of k */
    int64_t *ends;                        /* of pieces, in the order of k */
};

typedef struct tile {
    int64_t image, first, n; /* where it begins in an image of line 0 on; its outputs */
    ls_gemm_run_places places;  /* to the first output on; lanes that are outputs */
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
static bool whole_tiles(const ls_window_dim *x) {
    return ceil_div(x->extent, WIDE) * WIDE * 49 <= x->extent * 50;
}

static int64_t taps_reach(const ls_window_dim *d) {
    return (d->step < 0 ? -d->step : d->step) * (d->taps - 1);
}

static int64_t reach_of(const ls_window_dim *d) {
    return taps_reach(d) / d->stride;
}

/* Padding that ends one line and begins the next. */
static int64_t shared_of(const ls_window_dim *x) {
    int64_t low = x->low - x->first, high = x->extent + reach_of(x) + x->first - x->high, least = low < high ? low : high;
    return x->stride > 1 || whole_tiles(x) ? 0 : clamp(least, 0, reach_of(x) < MOST_SHARED ? reach_of(x) : MOST_SHARED);
}

bool ls_runs_fits(const ls_gemm_phase *gemm, const ls_windows *w) {
    const ls_window_dim *y = line_dim(w), *x = last_dim(w);
    return w->kernels->runs[3] && !w->program && !w->n_spreads && w->n_dims - w->outer == 2 && gemm->m.n == 1 &&
           x->image_stride == 1 && x->stride <= 2 && ceil_div(w->m, ROWS) * ROWS * 10 <= w->m * 11 &&
           x->extent * y->extent >= LEAST_OUTPUTS &&
           reach_of(x) - shared_of(x) <= LANES &&
           (whole_tiles(x) || x->extent + reach_of(x) - shared_of(x) >= LANES - 1); /* two lines a vector at most */
}

/* Whether lines and rows are whole tiles whose vectors are rows: no lane is lost, and the image is read a scalar at a time, whatever the stride. Without
 * one it is faster than the other tiles on some processors, and slower on others. */
static bool goes_across(const ls_cpu *cpu, const ls_windows *w) {
    return (last_dim(w)->stride > 1 || cpu->reads_scalars) && w->m % LS_ACROSS_ROWS == 0 && last_dim(w)->extent % LS_ACROSS_OUTPUTS == 0 &&
           w->planes % 2 == 0 && w->k >= LEAST_ACROSS && w->k / w->planes <= FAST_CHUNK / 2;
}

static tile across_tile(const ls_windows *w, int64_t i) {
    const ls_runs *t = w->runs;
    int64_t line = i / t->line_tiles, column = i % t->line_tiles * LS_ACROSS_OUTPUTS;
    return (tile){.image = line * line_dim(w)->stride * t->length + column * last_dim(w)->stride,
                  .first = i * LS_ACROSS_OUTPUTS, .n = LS_ACROSS_OUTPUTS};
}

/* Where a vector of outputs begins in the image; how many of its lanes belong to the next line. */
static int64_t joined_vector(const ls_runs *t, int64_t output, int64_t *image) {
    int64_t column = output % t->width;
    *image = output / t->width * t->length + column;
    return clamp(column + LANES - t->width, 0, LANES);
}

/* Of its vectors, the one with lanes of two lines is the second. The last tile computes some outputs of the one before it again, so as to read no further than the image. */
static tile joined_tile(const ls_runs *t, int64_t i) {
    tile at = {.first = i * WIDE, .n = clamp(t->outputs - i * WIDE, 0, WIDE), .vectors = 3};
    int64_t image[3], others[3], begin = at.first + at.n - WIDE;
    int both = 1;
    for (int v = 0; v < 3; v++) {
        others[v] = joined_vector(t, begin + v * LANES, &image[v]);
        both = others[v] ? v : both;
    }
    int order[3] = {both == 0 ? 1 : 0, both, both == 2 ? 1 : 2};
    at.image = image[order[0]];
    at.places.second = image[both] - at.image;
    at.places.rest = others[both] ? at.places.second + t->length - t->width : 0; /* inside the image, also where no lane is wanted */
    at.places.third = image[order[2]] - at.image;
    at.places.other = others[both] ? (uint16_t)(0xffff << (LANES - others[both])) : 0;
    for (int v = 0; v < 3; v++) {
        int64_t from = begin + order[v] * LANES - at.first;
        at.places.lanes[v] = (uint16_t)(0xffffu << clamp(-from, 0, LANES));
        at.places.at[v] = from > 0 ? from : 0;
    }
    return at;
}

/* Whether no tile has two vectors of two lines each, and tiles are fewer than those that go over what is between lines. */
static bool joins(const ls_runs *t) {
    int64_t gap = t->length - t->width, tiles = ceil_div(t->outputs, WIDE), image;
    bool one = !t->by_line && t->width >= LANES && t->outputs >= WIDE;
    for (int64_t i = 0; i < tiles && one; i++) {
        int64_t end = (i + 1) * WIDE, both = 0;
        end = end < t->outputs ? end : t->outputs;
        for (int v = 1; v <= 3; v++) {
            both += joined_vector(t, end - v * LANES, &image) > 0;
        }
        one = both <= 1;
    }
    return one && tiles * 3 * 50 <= ceil_div(t->row - gap, LANES) * 49;
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
    int64_t from = own < t->twos ? own * 2 * LANES : t->twos * 2 * LANES + (own - t->twos) * WIDE;
    tile at = {.image = row * t->row + from, .places = {.second = LANES, .third = 2 * LANES}, .vectors = own < t->twos ? 2 : 3};
    int64_t left = (row + 1) * t->row - at.image, end = 0, line = at.image / t->length, column = at.image % t->length;
    at.first = -1;
    for (int v = 0; v < at.vectors; v++, left -= LANES, column += LANES) {
        for (; column >= t->length; column -= t->length) {
            line++;
        }
        int64_t lanes = clamp(left, 0, LANES), own_end = lanes, next = t->length - column, next_end = 0;
        if (t->length > t->width) {
            own_end = clamp(t->width - column, 0, lanes);
            next_end = t->by_line ? 0 : clamp(next + t->width, 0, lanes);
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

/* The planes from i on that lie evenly apart; how many. */
static int64_t even_planes(const ls_windows *w, int64_t i) {
    int64_t n = 1;
    while (i + n < w->planes && w->plane_leaf[i + n] == w->plane_leaf[i] &&
           w->plane_at[i + n] - w->plane_at[i + n - 1] == w->plane_at[i + 1] - w->plane_at[i]) {
        n++;
    }
    return n;
}

static int64_t plane_step(const ls_windows *w) {
    return w->planes > 1 ? w->plane_at[1] - w->plane_at[0] : 1;
}

/* Whether no tap is beyond the image; and whether all of it is read, without a stride. */
static bool is_inside(const ls_window_dim *d) {
    return d->low <= d->first && d->first + d->stride * (d->extent - 1) + taps_reach(d) < d->high;
}

static bool is_whole(const ls_window_dim *d) {
    return d->stride == 1 && d->first == 0 && d->low == 0 && d->high == d->extent + reach_of(d);
}

/* Whether nothing is to be copied: no padding, lines and planes evenly apart, of which not too many share places of the nearest cache. */
static bool reads_in_place(const ls_windows *w, bool across) {
    const ls_window_dim *y = line_dim(w), *x = last_dim(w);
    const int64_t places = across ? 128 : 512;
    return (across ? is_inside(y) && is_inside(x) : is_whole(y) && is_whole(x)) && w->plane_leaf[0] >= 0 &&
           even_planes(w, 0) == w->planes && y->image_stride >= x->high - x->low && plane_step(w) > 0 && plane_step(w) % places;
}

static int64_t l2_bytes(const ls_kernel_binary *binary) {
    return binary->device->cpu.l2_bytes > 0 ? binary->device->cpu.l2_bytes : 1 << 20;
}

/* Elements of a plane's copy, without what keeps planes apart. */
static int64_t own_plane(const ls_runs *t) {
    return t->along * t->down * t->lines * t->length;
}

static void cut(const ls_windows *w, ls_runs *t, int64_t bands) {
    const ls_window_dim *y = line_dim(w);
    t->band = ceil_div(t->tiles, bands);
    t->bands = ceil_div(t->tiles, t->band);
    t->lines = t->by_line ? ceil_div(t->band, t->row_tiles) : ceil_div(t->band * t->tile_outputs, t->joined || t->across ? t->width : t->length);
    t->lines = t->lines + 1 < y->extent ? t->lines + 1 : y->extent;
    t->lines = (t->across ? (t->lines - 1) * y->stride + 1 : t->lines) + t->reach;
    /* An odd number of lines of the cache: planes share none of its places. */
    t->plane = t->in_place ? plane_step(w) : (ceil_div(own_plane(t), LANES) | 1) * LANES;
}

/* Bands whose part of the image stays near the core, and as many as keep the workers busy: lines that bands share are copied by each. */
static void choose_bands(const ls_kernel_binary *binary, const ls_gemm_phase *gemm, ls_windows *w, ls_runs *t) {
    int64_t least = 1, threads = binary->device->threads, images = ls_windows_images(&binary->spec, gemm, w);
    for (cut(w, t, least); t->band > 1 && w->planes * own_plane(t) * 4 > l2_bytes(binary) / (t->across && t->in_place ? 16 : 2); cut(w, t, least)) {
        least++;
    }
    int64_t bands[2], tiles[2];
    for (int i = 0; i < 2; i++) {
        cut(w, t, i ? least : ls_gemm_blocks(t->tiles, images, threads, LS_TASKS_PER_WORKER, t->bands));
        bands[i] = t->bands;
        tiles[i] = t->band;
    }
    cut(w, t, ls_windows_share(binary, gemm, w, bands, tiles));
}

/* Where a tap's run begins. */
static int64_t tap_at(const ls_windows *w, const ls_runs *t, const int64_t *tap) {
    const ls_window_dim *y = line_dim(w), *x = last_dim(w);
    int64_t v = y->step * tap[0] - y->first, u = x->step * tap[1] - x->first;
    return ((u % t->along * t->down + v % t->down) * t->lines + v / t->down) * t->length + u / t->along;
}

/* Where an element of k begins, and its plane. */
static int64_t shift_of(const ls_spec *spec, const ls_gemm_phase *gemm, const ls_windows *w, const ls_runs *t, int64_t p, int64_t *out_plane) {
    int64_t planes = 1, tap[2] = {0};
    *out_plane = 0;
    for (int i = gemm->k.n - 1; i >= 0; i--) {
        int64_t extent = spec->extents_of_axes[gemm->k.axes[i]].offset, own = p % extent;
        p /= extent;
        const ls_window_dim *d = ls_windows_walked_by(w, gemm->k.axes[i]);
        if (d) {
            tap[d == last_dim(w)] = own;
        } else {
            *out_plane += own * planes;
            planes *= extent;
        }
    }
    return *out_plane * t->plane + tap_at(w, t, tap);
}

/* Planes of a piece in fast. */
static int64_t planes_of_piece(const ls_windows *w, const ls_runs *t) {
    int64_t taps = w->k / w->planes, planes = ceil_div(LEAST_PIECE, taps), least = t->across ? 2 * PLANES : PLANES;
    planes = clamp(FAST_CHUNK / taps, 1, planes > least ? planes : least);
    return t->across ? planes / 2 * 2 : planes;
}

/* The order of k: pieces are its chunks, or in fast all taps of some planes. */
static void find_pieces(const ls_spec *spec, const ls_gemm_phase *gemm, ls_windows *w, ls_runs *t) {
    int64_t planes = spec->math == LS_LOCKED ? 0 : planes_of_piece(w, t), plane, begin = 0;
    for (int64_t p = 0; p < w->k; p++) {
        shift_of(spec, gemm, w, t, p, &plane);
        t->ends[planes ? plane / planes : p / LS_GEMM_CHUNK]++;
    }
    for (t->n_pieces = 0; begin < w->k; t->n_pieces++) {
        int64_t k = t->ends[t->n_pieces];
        t->ends[t->n_pieces] = begin;
        begin += k;
    }
    for (int64_t p = 0; p < w->k; p++) {
        int64_t shift = shift_of(spec, gemm, w, t, p, &plane), *end = &t->ends[planes ? plane / planes : p / LS_GEMM_CHUNK];
        w->at[*end] = shift;
        w->packed_at[(*end)++] = w->filter_at[p];
    }
    w->at[w->k] = 0;
}

ls_status ls_runs_plan(ls_kernel_binary *binary, const ls_gemm_phase *gemm, ls_windows *w, ls_error *err) {
    const ls_window_dim *y = line_dim(w), *x = last_dim(w);
    ls_runs t = {.across = goes_across(&binary->device->cpu, w), .width = x->extent, .outputs = x->extent * y->extent};
    t.by_line = !t.across && whole_tiles(x);
    t.down = t.across ? 1 : y->stride;
    t.along = t.across ? 1 : x->stride;
    t.tile_outputs = t.across ? LS_ACROSS_OUTPUTS : WIDE;
    t.line_tiles = t.width / LS_ACROSS_OUTPUTS;
    t.shared = t.across ? 0 : shared_of(x);
    t.length = t.across ? (t.width - 1) * x->stride + 1 + taps_reach(x) : t.width + reach_of(x) - t.shared;
    w->rows = t.across ? LS_ACROSS_ROWS : ROWS;
    w->panels = ceil_div(w->m, w->rows);
    t.row = t.by_line ? t.length : t.length * y->extent;
    int64_t vectors = ceil_div(t.by_line ? t.width : t.row - (t.length - t.width), LANES);
    t.twos = vectors == 1 ? 1 : (3 - vectors % 3) % 3;
    t.row_tiles = t.twos + (vectors > 2 * t.twos ? (vectors - 2 * t.twos) / 3 : 0);
    t.joined = !t.across && joins(&t);
    if ((t.joined || t.across) && reads_in_place(w, t.across)) {
        t.in_place = true;
        t.length = y->image_stride;
    }
    t.tiles = t.joined || t.across ? ceil_div(t.outputs, t.tile_outputs) : t.by_line ? t.row_tiles * y->extent : t.row_tiles;
    t.reach = t.across ? taps_reach(y) : reach_of(y);
    choose_bands(binary, gemm, w, &t);
    w->packed_at = LS_ARENA_ARRAY(&binary->arena, int64_t, w->k);
    t.ends = LS_ARENA_ARRAY(&binary->arena, int64_t, w->k / LS_GEMM_CHUNK + w->planes + 1);
    w->runs = LS_ARENA_NEW(&binary->arena, ls_runs);
    if (!w->packed_at || !t.ends || !w->runs) {
        return LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    find_pieces(&binary->spec, gemm, w, &t);
    int64_t most = t.across                            ? clamp(l2_bytes(binary) / 2 / (w->rows * w->k * 4), 1, MOST_PANELS / 4)
                   : binary->spec.math == LS_LOCKED ? 1
                                                    : clamp(l2_bytes(binary) / 4 / (ROWS * w->k * 4), 2, MOST_PANELS);
    t.panels = ceil_div(w->group, ceil_div(w->group, most));
    *w->runs = t;
    return LS_OK;
}

size_t ls_runs_bytes(const ls_windows *w) {
    const ls_runs *t = w->runs;
    return (size_t)(t->panels * (w->rows * BLOCK + SUMS) + (t->in_place ? 0 : w->planes * t->plane) + SLACK + 2) * 4 + (size_t)t->band * sizeof(tile);
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
    const ls_window_dim *y = line_dim(r->w), *x = last_dim(r->w);
    int64_t phase = t->lines * t->length, end = p->line + p->lines;
    ls_gemm_lines lines = {.n = t->length, .planes = n, .src_line = t->down * y->image_stride, .src_plane = apart, .step = t->along,
                           .low = x->low - x->first, .high = x->high - x->first, .dst_line = t->length, .dst_plane = t->plane,
                           .dst_phase = t->down * phase};
    for (int64_t i = 0; i < t->down; i++, dst += phase) {
        int64_t v = y->first + i;
        int64_t low = clamp(ceil_div(y->low - v, t->down), p->line, end), high = clamp(ceil_div(y->high - v, t->down), low, end);
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
    int64_t stride = t->across ? line_dim(w)->stride : 1;
    p.line = stride * (t->joined ? first.first / t->width : first.image / t->length / stride);
    p.lines = stride * ((last.first + last.n - 1) / t->width) + t->reach + 1 - p.line;
    ls_point_coords(kernel->extents, gemm->batch.n, gemm->batch.axes, p.batch, coords);
    ls_point_coords(kernel->extents, w->outer, gemm->n.axes, point, coords);
    for (int i = 0; i < w->n_leaves; i++) {
        p.leaves[i] = ls_windows_leaf_start(kernel, gemm, w, &w->leaves[i], coords);
    }
    return p;
}

/* Its tiles, and a copy of its image. */
static void prepare(const runs_run *r, runs_part *p, int worker) {
    const ls_windows *w = r->w;
    const ls_runs *t = w->runs;
    p->block = (float *)(void *)(r->memory + (size_t)worker * r->bytes);
    p->sums = p->block + t->panels * w->rows * BLOCK;
    float *image = p->sums + t->panels * SUMS;
    tile *tiles = (tile *)(void *)(image + ((t->in_place ? 0 : w->planes * t->plane) + SLACK + 1) / 2 * 2);
    for (int64_t i = 0; i < p->n; i++) {
        tiles[i] = tile_of(w, p->tile + i);
    }
    p->tiles = tiles;
    if (t->in_place) {
        p->image = p->leaves[w->plane_leaf[0]] + w->plane_at[0] + line_dim(w)->first * line_dim(w)->image_stride + last_dim(w)->first;
        return;
    }
    for (int64_t i = 0; i < w->planes; i++) { /* no output has what is behind planes, but what lies there may be subnormal, which is slow */
        memset(image + i * t->plane + own_plane(t), 0, (size_t)(t->plane - own_plane(t)) * 4);
    }
    memset(image + w->planes * t->plane, 0, SLACK * sizeof *image);
    for (int64_t i = 0, n; i < w->planes; i += n) {
        float *to = image + i * t->plane;
        n = even_planes(w, i);
        if (w->plane_leaf[i] < 0) {
            memset(to, 0, (size_t)(n * t->plane) * 4);
        } else {
            copy_planes(r, p, n, p->leaves[w->plane_leaf[i]] + w->plane_at[i], n > 1 ? w->plane_at[i + 1] - w->plane_at[i] : 0, to);
        }
    }
    p->image = image - p->line * t->length;
}

static fetches fetches_of(const runs_run *r, int64_t task) {
    const ls_windows *w = r->w;
    const ls_window_dim *y = line_dim(w), *x = last_dim(w);
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
    sums->ahead_end = f->stop = sums->ahead + LANES;
    sums->ahead_gap = -LANES;
    sums->ahead_plane = 0;
    if (f->plane < w->planes) {
        int64_t n = even_planes(w, f->plane), plane = n > 1 ? w->plane_at[f->plane + 1] - w->plane_at[f->plane] : f->n;
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
    sums->places = at->places;
    sums->shifts = r->w->at;
    for (int64_t i = 0, begin = 0; i < t->n_pieces; i++, begin = t->ends[i - 1], sums->shifts += sums->k, a += sums->k * r->w->rows) {
        sums->k = t->ends[i] - begin;
        sums->add = i > 0;
        sums->last = i + 1 == t->n_pieces;
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
    sums->step = last_dim(w)->stride;
    sums->lead = w->k < SHORT ? WIDE : 0;
    sums->second = r->launch->kernel->binary->device->cpu.fetches_second;
    for (const tile *at = p->tiles, *end = at + p->n; at < end;) {
        int64_t first = at->first, n = 0;
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
            ls_gemm_finish_tile(r->launch, worker, p->batch, own, n_rows, p->first + first, n, p->block + (i - direct) * height * BLOCK, BLOCK);
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
    int64_t images = r.batches * r.outer, n = r.tasks = images * w->runs->bands * ceil_div(w->panels, w->group);
    if (n == 1 || !ls_is_worth_threads(device, (double)(images * w->runs->tiles * w->runs->tile_outputs * w->m) * (double)w->k, LS_INLINE_WORK)) {
        for (int64_t task = 0; task < n; task++) {
            runs_task(&r, (long)task, 0);
        }
    } else {
        ls_pool_run(device->pool, (long)n, runs_task, &r);
    }
}
