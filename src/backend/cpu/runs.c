/* Convolutions in tiles that are stored where results lie, each over all of k; their vectors are outputs, or rows. Of an image a band at a time is
 * copied with its padding, each dimension taken apart into `stride` phases, so that what a tap reads for all outputs is a run (windows.c). Tiles end
 * with lines where those are whole vectors; else they go on over what lies between lines, which is left out when they are stored. What a k has for few
 * outputs may be copied side by side. Planned here, run by runs_run.c. */
#include "backend/cpu/runs.h"
#include <string.h>

enum {
    LEAST_ACROSS = 256, /* of k: turning a tile takes as long as a few */
    LEAST_STRIDED = LS_LIMIT(128, 1), /* where other tiles take such images apart */
    LEAST_FEW = LS_LIMIT(48, 1),      /* where outputs fill no vectors of theirs */
    MOST_TAPS = 64,
    LEAST_END = 3,  /* outputs that tiles across begin and end with */
    LEAST_WIDE = 64, /* outputs of a line */
    FEW_PLANES = 4, /* which meet nowhere in a cache, wherever they lie */
    MOST_PANELS = 16, /* that a tile meets while it is near */
    PLANES = 32,      /* of a piece in fast: what a tile reads of them stays in the first-level cache */
    LEAST_PIECE = 128,
    PIECE = 576, /* of k, for tiles of two vectors of rows: 36 KB of a panel, which each six outputs read */
    LEAST_LINE = 16, /* outputs, of one tile */
    PAGE = 1024,     /* floats of 4 KB */
    LEAST_OUTPUTS = 32, /* but across */
    MOST_SHARED = LS_RUNS_SLACK / 2,
    FAST_CHUNK = 2048 /* of k */
};

static bool whole_tiles(const ls_window_dim *x) {
    return ls_windows_ceil_div(x->extent, LS_RUNS_WIDE) * LS_RUNS_WIDE * 49 <= x->extent * 50;
}

static int64_t reach_of(const ls_window_dim *d) {
    return ls_windows_reach(d) / d->stride;
}

/* Padding that ends one line and begins the next. */
static int64_t shared_of(const ls_window_dim *x) {
    int64_t low = x->low - x->first, high = x->extent + reach_of(x) + x->first - x->high, least = low < high ? low : high;
    return x->stride > 1 || whole_tiles(x) ? 0 : ls_runs_clamp(least, 0, reach_of(x) < MOST_SHARED ? reach_of(x) : MOST_SHARED);
}

/* Whether tiles across are the only ones here: others need masks. */
static bool is_alone(const ls_windows *w) {
    return !w->kernels->runs[3];
}

static int64_t across_rows(const ls_windows *w) {
    return 2 * w->kernels->lanes;
}

/* Outputs of tiles across, of which a line is some: by AVX-512 they are all alike, a half of which may be a line; else what sixes, fives and fours make up, a
 * line of the cache or as many as can be, or, where a line is none, about as many each of all lines. 0: none. */
static int64_t across_outputs(const ls_windows *w, bool *out_joined) {
    enum { LINE = 16, MOST = 28, FEWEST = 8 };
    const int64_t width = ls_runs_along(w)->extent, all = width * ls_runs_down(w)->extent;
    if (!is_alone(w)) {
        *out_joined = 2 * width == LS_ACROSS_ALIKE && all >= LEAST_OUTPUTS;
        return *out_joined || width % LS_ACROSS_ALIKE == 0 ? LS_ACROSS_ALIKE : 0;
    }
    int64_t n = width % LINE == 0 ? LINE : MOST;
    while (n >= FEWEST && width % n) {
        n--;
    }
    *out_joined = n < FEWEST;
    return !*out_joined ? n : ls_windows_ceil_div(all, ls_windows_ceil_div(all, LS_ACROSS_OUTPUTS));
}

/* Whether lines and rows are whole tiles whose vectors are rows: no lane is lost, and the image is read a scalar at a time, whatever the stride. Without
 * one it is faster than the other tiles of AVX-512 on some processors, and slower on others, and faster than those over taps (windows.c) where lines are
 * not threes of vectors; but in fast, of few planes of a wide image, whose tiles are soon done, those store where results lie without turning (0.91 to
 * 0.95 of the time). */
static bool goes_across(const ls_cpu *cpu, const ls_windows *w) {
    const ls_window_dim *x = ls_runs_along(w);
    const bool alone = is_alone(w), strided = x->stride > 1;
    bool joined;
    const int64_t lanes = w->kernels->lanes, left = x->extent % (3 * lanes);
    const bool ends = alone && !w->kernels->resumes && x->extent >= LEAST_WIDE && (left == 0 || left == 2 * lanes) && w->planes <= FEW_PLANES;
    const int64_t outputs = x->extent * ls_runs_down(w)->extent;
    const int64_t least = !alone ? LEAST_ACROSS : outputs < LEAST_LINE ? LEAST_FEW : strided ? LEAST_STRIDED : LEAST_ACROSS;
    const bool tiles = across_outputs(w, &joined) > 0, better = !ends && (strided || (alone ? left != 0 : joined || cpu->reads_scalars));
    return w->kernels->across && tiles && better && w->m % across_rows(w) == 0 && (alone || w->planes % 2 == 0) && w->k >= least &&
           w->k / w->planes <= FAST_CHUNK / 2;
}

/* Whether lines are so long that a vector has lanes of two at most. */
static bool has_long_lines(const ls_window_dim *x) {
    return x->extent + reach_of(x) - shared_of(x) >= LS_RUNS_LANES - 1;
}

/* Whether outputs are few, in short lines, so that tiles across are best if what each k has for them is copied side by side: one tile of them, or, by a
 * stride, several, which are filled by half at least. */
static bool gathers(const ls_cpu *cpu, const ls_windows *w) {
    const ls_window_dim *x = ls_runs_along(w);
    const int64_t outputs = x->extent * ls_runs_down(w)->extent, lanes = ls_windows_ceil_div(outputs, LS_ACROSS_ALIKE) * LS_ACROSS_ALIKE;
    const bool worth = outputs > 1 && (lanes == LS_ACROSS_ALIKE || (x->stride > 1 && outputs <= LS_RUNS_GATHERED && outputs * 2 >= lanes));
    return !is_alone(w) && w->kernels->across && worth && !has_long_lines(x) && w->m % across_rows(w) == 0 && w->planes % 2 == 0 && w->k >= LEAST_FEW &&
           w->k * lanes * 4 <= cpu->l2_bytes / 2;
}

bool ls_runs_fits(const ls_cpu *cpu, const ls_gemm_phase *gemm, const ls_windows *w) {
    const ls_window_dim *y = ls_runs_down(w), *x = ls_runs_along(w);
    if (w->program || w->n_spreads || w->n_dims - w->outer > 2 || gemm->m.n != 1 || x->image_stride != 1 || x->stride > 2) {
        return false;
    }
    bool joined;
    if (is_alone(w) || (across_outputs(w, &joined) && joined)) {
        return goes_across(cpu, w);
    }
    if (gathers(cpu, w)) {
        return true;
    }
    return w->n_dims - w->outer == 2 && x->extent * y->extent >= LEAST_OUTPUTS && ls_windows_ceil_div(w->m, LS_RUNS_ROWS) * LS_RUNS_ROWS * 10 <= w->m * 11 &&
           reach_of(x) - shared_of(x) <= LS_RUNS_LANES && (whole_tiles(x) || has_long_lines(x));
}

/* Whether no tile has two vectors of two lines each, and tiles are fewer than those that go over what is between lines. */
static bool joins(const ls_runs *t) {
    int64_t gap = t->length - t->width, tiles = ls_windows_ceil_div(t->outputs, LS_RUNS_WIDE), image;
    bool one = !t->by_line && t->width >= LS_RUNS_LANES && t->outputs >= LS_RUNS_WIDE;
    for (int64_t i = 0; i < tiles && one; i++) {
        int64_t end = (i + 1) * LS_RUNS_WIDE, both = 0;
        end = end < t->outputs ? end : t->outputs;
        for (int v = 1; v <= 3; v++) {
            both += ls_runs_joined_vector(t, end - v * LS_RUNS_LANES, &image) > 0;
        }
        one = both <= 1;
    }
    return one && tiles * 3 * 50 <= ls_windows_ceil_div(t->row - gap, LS_RUNS_LANES) * 49;
}

/* Whether all of it is read, without a stride. */
static bool is_whole(const ls_window_dim *d) {
    return d->stride == 1 && d->first == 0 && d->low == 0 && d->high == d->extent + reach_of(d);
}

/* Whether of a line's outputs the first and the last ones alone, so many of each, may be beyond the image, each by some of its taps. */
static bool ends_beyond(const ls_window_dim *x, int64_t ends) {
    return x->low <= x->first + ends * x->stride && x->first + x->stride * (x->extent - 1 - ends) + ls_windows_reach(x) < x->high;
}

/* Whether nothing is to be copied: no padding, or such as tiles across know at the ends of lines. */
static bool reads_in_place(const ls_windows *w, bool across, int64_t ends) {
    const ls_window_dim *y = ls_runs_down(w), *x = ls_runs_along(w);
    bool fits = across ? ls_windows_inside(w) || (ends && ends_beyond(x, ends)) : is_whole(y) && is_whole(x);
    return fits && ls_windows_lie_evenly(w, !across ? 512 : ends > 1 && w->planes <= FEW_PLANES ? INT64_MAX : 128);
}

/* Whether lines are whole tiles; how many a line has, or takes at least. */
static bool ends_with_lines(const ls_runs *t) {
    return t->by_line || (t->across && !t->joined);
}

static int64_t tiles_of_line(const ls_runs *t) {
    return ends_with_lines(t) ? t->line_tiles : ls_windows_ceil_div(t->length, t->tile_outputs);
}

static void cut(const ls_windows *w, ls_runs *t, int64_t bands) {
    const ls_window_dim *y = ls_runs_down(w);
    const int64_t line = tiles_of_line(t);
    const bool whole = ends_with_lines(t);
    t->band = ls_windows_ceil_div(t->tiles, bands);
    t->band = whole && t->band > line ? ls_windows_ceil_div(t->band, line) * line : t->band;
    t->bands = ls_windows_ceil_div(t->tiles, t->band);
    t->lines = whole ? ls_windows_ceil_div(t->band, line) : ls_windows_ceil_div(t->band * t->tile_outputs, t->joined ? t->width : t->length);
    t->lines += !whole || t->band % line != 0;
    t->lines = t->lines < y->extent ? t->lines : y->extent;
    t->lines = (t->across ? (t->lines - 1) * y->stride + 1 : t->lines) + t->reach;
    /* An odd number of lines of the cache: planes share none of its places. */
    t->plane = t->in_place ? ls_windows_plane_step(w) : (ls_windows_ceil_div(ls_runs_own_plane(t), LS_RUNS_LANES) | 1) * LS_RUNS_LANES;
}

/* Bands whose part of the image stays near the core, a line at least, and as many as keep the workers busy: lines that bands share are copied by each. */
static void choose_bands(const ls_kernel_binary *binary, const ls_gemm_phase *gemm, ls_windows *w, ls_runs *t) {
    int64_t least = 1, threads = binary->device->threads, images = ls_windows_images(&binary->spec, gemm, w);
    for (cut(w, t, least); t->band > tiles_of_line(t) && w->planes * ls_runs_own_plane(t) * 4 > binary->device->cpu.l2_bytes / (t->across && t->in_place ? 8 : 2); cut(w, t, least)) {
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
    const ls_window_dim *y = ls_runs_down(w), *x = ls_runs_along(w);
    int64_t v = y->step * tap[0] - y->first, u = x->step * tap[1] - x->first;
    return ((u % t->along * t->down + v % t->down) * t->lines + v / t->down) * t->length + u / t->along;
}

typedef struct element { /* of k */
    int64_t plane, tap[2];
} element;

static element element_of(const ls_spec *spec, const ls_gemm_phase *gemm, const ls_windows *w, int64_t p) {
    element e = {0};
    int64_t planes = 1;
    for (int i = gemm->k.n - 1; i >= 0; i--) {
        int64_t extent = spec->extents_of_axes[gemm->k.axes[i]].offset, own = p % extent;
        p /= extent;
        const ls_window_dim *d = ls_windows_walked_by(w, gemm->k.axes[i]);
        if (d) {
            e.tap[d == ls_runs_along(w)] = own;
        } else {
            e.plane += own * planes;
            planes *= extent;
        }
    }
    return e;
}

static int64_t tap_of(const ls_windows *w, const element *e) {
    return e->tap[0] * ls_runs_along(w)->taps + e->tap[1];
}

/* Those of one column one after another, as what is beyond at the ends of lines is. */
static int64_t by_column(const ls_windows *w, const element *e) {
    return e->tap[1] * ls_runs_down(w)->taps + e->tap[0];
}

/* How many taps a line has where pieces are in the order of lines; else 0. Of lines that are short tiles the first and last outputs read copies each time,
 * which takes longer than places. */
static int64_t line_of(const ls_windows *w, const ls_runs *t) {
    const ls_window_dim *y = ls_runs_down(w), *x = ls_runs_along(w);
    const bool copies = !t->joined && t->width == t->tile_outputs && t->width < LEAST_LINE && !ends_beyond(x, 0);
    return t->across && !copies && x->step == 1 && 2 * y->taps <= LS_ACROSS_LINES && ls_runs_lines(w->kernels, x->taps) ? x->taps : 0;
}

/* Planes of a piece in fast, each with lines of so many taps, or with 0. */
static int64_t planes_of_piece(const ls_windows *w, const ls_runs *t, int64_t line) {
    const int64_t taps = w->k / w->planes;
    if (t->across && is_alone(w)) {
        int64_t most = ls_runs_clamp(PIECE / taps, 2, line ? LS_ACROSS_LINES / ls_runs_down(w)->taps : LEAST_PIECE) / 2 * 2;
        return ls_windows_ceil_div(ls_windows_ceil_div(w->planes, ls_windows_ceil_div(w->planes, most)), 2) * 2;
    }
    int64_t planes = ls_windows_ceil_div(LEAST_PIECE, taps), least = t->across ? 2 * PLANES : PLANES;
    planes = ls_runs_clamp(FAST_CHUNK / taps, 1, planes > least ? planes : least);
    return t->across ? planes / 2 * 2 : planes;
}

/* Pieces of k are its chunks, or in fast all taps of some planes. Across, each is cut into runs of one tap, if it can be, or of one line of taps. */
typedef struct order {
    int64_t planes;      /* of a piece, in fast; in locked 0 */
    int64_t run;         /* of k, in locked */
    int64_t runs, n;     /* of a piece, at most; of all */
    bool by_tap;         /* else a piece is one run, */
    int64_t line;        /* or has one for each line of so many taps: those of one plane after those of the one before; 0: it has not */
    int64_t *ends;       /* of runs, in the order of k */
    int64_t (*steps)[2]; /* of their taps, in lines and along them */
} order;

/* How many elements of k have one tap in the contract's order, chunk by chunk; 0: not all as many. */
static int64_t even_taps(const ls_spec *spec, const ls_gemm_phase *gemm, const ls_windows *w) {
    int64_t n = w->planes < LS_GEMM_CHUNK ? w->planes : LS_GEMM_CHUNK;
    bool even = LS_GEMM_CHUNK % n == 0 && w->planes % n == 0;
    for (int64_t p = 0; p < w->k && even; p++) {
        element e = element_of(spec, gemm, w, p);
        even = tap_of(w, &e) == p / w->planes;
    }
    return even ? n : 0;
}

static order order_of(const ls_spec *spec, const ls_gemm_phase *gemm, const ls_windows *w, const ls_runs *t) {
    const bool fast = spec->math != LS_LOCKED;
    order o = {.run = LS_GEMM_CHUNK, .runs = 1, .line = fast ? line_of(w, t) : 0};
    const int64_t taps = w->k / w->planes, even = t->across && !fast ? even_taps(spec, gemm, w) : 0;
    o.planes = fast ? planes_of_piece(w, t, o.line) : 0;
    o.by_tap = t->across && !o.line && taps <= MOST_TAPS && (fast || even);
    if (o.by_tap) {
        o.run = even;
        o.runs = fast ? taps : LS_GEMM_CHUNK / even;
    } else if (o.line) {
        o.runs = ls_runs_down(w)->taps;
    }
    o.n = fast ? ls_windows_ceil_div(w->planes, o.planes) * o.runs : ls_windows_ceil_div(w->k, o.run);
    return o;
}

/* Where an element is if runs are lines of taps. */
static int64_t place_in_lines(const ls_windows *w, const order *o, const element *e) {
    const int64_t first = e->plane / o->planes * o->planes, planes = w->planes - first < o->planes ? w->planes - first : o->planes;
    return (first * ls_runs_down(w)->taps + planes * e->tap[0] + e->plane - first) * o->line + e->tap[1];
}

static void find_order(const ls_spec *spec, const ls_gemm_phase *gemm, ls_windows *w, ls_runs *t, order *o) {
    for (int pass = 0; pass < 2; pass++) {
        for (int64_t p = 0; p < w->k; p++) {
            element e = element_of(spec, gemm, w, p);
            int64_t run = !o->planes ? p / o->run : e.plane / o->planes * o->runs + (o->by_tap ? by_column(w, &e) : o->line ? e.tap[0] : 0);
            int64_t at = o->ends[run]++;
            if (pass) {
                at = o->line ? place_in_lines(w, o, &e) : at;
                w->at[at] = e.plane * t->plane + tap_at(w, t, e.tap);
                if (t->gathered) {
                    t->from[at] = w->at[at];
                    w->at[at] = at * t->gathered;
                }
                w->packed_at[at] = w->filter_at[p];
                o->steps[run][0] = ls_runs_down(w)->step * e.tap[0];
                o->steps[run][1] = ls_runs_along(w)->step * e.tap[1];
            }
        }
        for (int64_t i = 0, begin = 0; i < o->n && !pass; i++) {
            int64_t k = o->ends[i];
            o->ends[i] = begin;
            begin += k;
        }
    }
    w->at[w->k] = 0;
    for (int64_t i = 0; i < t->n_pieces; i++) {
        int64_t end = (i + 1) * o->runs;
        t->ends[i] = o->ends[(end < o->n ? end : o->n) - 1];
    }
}

/* Kind 0 of lines is those all of whose taps are inside; each other line is one of its own. */
static int64_t kind_of(const ls_runs *t, int64_t line) {
    return line < t->top ? 1 + line : line >= t->bottom ? 1 + t->top + line - t->bottom : 0;
}

const ls_run_edges *ls_runs_edges_of(const ls_windows *w, int64_t first, int64_t n) {
    const ls_runs *t = w->runs;
    return &t->edges[(kind_of(t, first / t->width) * LS_RUN_TILES + ls_runs_ends(t, first, n)) * t->n_pieces];
}

/* What is beyond of a tile, which may be its line's first one or its last one, by a tap. */
static int64_t beyond_of(const ls_windows *w, int64_t line, int64_t tile, const int64_t step[2]) {
    const ls_window_dim *y = ls_runs_down(w), *x = ls_runs_along(w);
    int64_t v = y->stride * line + step[0], u = step[1];
    if (!w->finite) {
        return 0;
    }
    if (v < y->low || v >= y->high) {
        return LS_BEYOND_ALL;
    }
    return tile & ((u < x->low ? LS_BEYOND_FIRST : 0) | (u + x->stride * (x->extent - 1) >= x->high ? LS_BEYOND_LAST : 0));
}

static ls_status find_edges(ls_arena *arena, const ls_windows *w, ls_runs *t, const order *o, ls_error *err) {
    const ls_window_dim *y = ls_runs_down(w);
    t->top = ls_runs_clamp(ls_windows_ceil_div(y->low - y->first, y->stride), 0, y->extent);
    t->bottom = ls_runs_clamp(ls_windows_ceil_div(y->high - y->first - ls_windows_reach(y), y->stride), t->top, y->extent);
    int64_t n = (1 + t->top + y->extent - t->bottom) * LS_RUN_TILES * t->n_pieces;
    t->edges = LS_ARENA_ARRAY(arena, ls_run_edges, n);
    ls_gemm_edge *edges = LS_ARENA_ARRAY(arena, ls_gemm_edge, n * o->runs);
    if (!t->edges || !edges) {
        return LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    for (int64_t i = 0; i < n; i++, edges += o->runs) {
        int64_t piece = i % t->n_pieces, tile = i / t->n_pieces % LS_RUN_TILES, kind = i / t->n_pieces / LS_RUN_TILES;
        int64_t line = kind == 0 ? t->top : kind <= t->top ? kind - 1 : t->bottom + kind - 1 - t->top; /* the first inside, if any */
        int64_t run = piece * o->runs, begin = piece ? t->ends[piece - 1] : 0;
        ls_run_edges *to = &t->edges[i];
        to->of = edges;
        for (; begin < t->ends[piece]; begin = o->ends[run++]) {
            ls_gemm_edge own = {o->ends[run] - begin, beyond_of(w, line, tile, o->steps[run]) & (o->line ? LS_BEYOND_ALL : ~INT64_C(0))};
            if (to->n && edges[to->n - 1].beyond == own.beyond) {
                edges[to->n - 1].k += own.k;
            } else {
                edges[to->n++] = own;
            }
        }
    }
    return LS_OK;
}

ls_status ls_runs_plan(ls_kernel_binary *binary, const ls_gemm_phase *gemm, ls_windows *w, ls_error *err) {
    const ls_window_dim *y = ls_runs_down(w), *x = ls_runs_along(w);
    const bool across = goes_across(&binary->device->cpu, w), gathered = !across && gathers(&binary->device->cpu, w);
    ls_runs t = {.across = across || gathered, .width = x->extent, .outputs = x->extent * y->extent};
    t.gathered = gathered ? ls_windows_ceil_div(t.outputs < LS_ACROSS_ALIKE ? LS_ACROSS_ALIKE : t.outputs, 2) * 2 : 0;
    t.by_line = !t.across && whole_tiles(x);
    t.down = t.across ? 1 : y->stride;
    t.along = t.across ? 1 : x->stride;
    t.tile_outputs = gathered ? LS_ACROSS_ALIKE : across ? across_outputs(w, &t.joined) : LS_RUNS_WIDE;
    t.shared = t.across ? 0 : shared_of(x);
    t.length = t.across ? (t.width - 1) * x->stride + 1 + ls_windows_reach(x) : t.width + reach_of(x) - t.shared;
    w->rows = t.across ? across_rows(w) : LS_RUNS_ROWS;
    w->panels = ls_windows_ceil_div(w->m, w->rows);
    t.row = t.by_line ? t.length : t.length * y->extent;
    int64_t vectors = ls_windows_ceil_div(t.by_line ? t.width : t.row - (t.length - t.width), LS_RUNS_LANES);
    t.twos = vectors == 1 ? 1 : (3 - vectors % 3) % 3;
    t.row_tiles = t.twos + (vectors > 2 * t.twos ? (vectors - 2 * t.twos) / 3 : 0);
    t.line_tiles = t.by_line ? t.row_tiles : t.width / t.tile_outputs;
    t.joined = gathered || (across ? t.joined : joins(&t));
    order o = order_of(&binary->spec, gemm, w, &t);
    t.taps = o.line;
    t.in_place = (t.joined || t.across) && reads_in_place(w, t.across, t.joined ? 0 : o.line ? LEAST_END : o.by_tap);
    t.length = t.in_place ? y->image_stride : t.length;
    w->finite = t.in_place && t.across && !ls_windows_inside(w);
    if (w->finite && t.taps) {
        t.low = ls_runs_clamp(x->low, 0, INT64_MAX);
        t.high = ls_runs_clamp(x->stride * (x->extent - 1) + x->taps - x->high, 0, INT64_MAX);
    }
    t.tiles = t.joined || t.across ? ls_windows_ceil_div(t.outputs, t.tile_outputs) : t.by_line ? t.row_tiles * y->extent : t.row_tiles;
    t.reach = t.across ? ls_windows_reach(y) : reach_of(y);
    choose_bands(binary, gemm, w, &t);
    t.n_pieces = ls_windows_ceil_div(o.n, o.runs);
    t.ends = LS_ARENA_ARRAY(&binary->arena, int64_t, t.n_pieces);
    o.ends = LS_ARENA_ARRAY(&binary->arena, int64_t, o.n);
    o.steps = (int64_t(*)[2])(void *)LS_ARENA_ARRAY(&binary->arena, int64_t, 2 * o.n);
    t.from = gathered ? LS_ARENA_ARRAY(&binary->arena, int64_t, w->k) : NULL;
    w->runs = LS_ARENA_NEW(&binary->arena, ls_runs);
    if ((gathered && !t.from) || !t.ends || !o.ends || !o.steps || !w->runs) {
        return LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    find_order(&binary->spec, gemm, w, &t, &o);
    if (t.across) {
        LS_TRY(err, find_edges(&binary->arena, w, &t, &o, err));
    }
    /* Rows of results that lie pages apart share their places in caches: a few of them at a time. */
    const bool meet = t.outputs % PAGE == 0 && w->k <= PIECE;
    int64_t most = meet                              ? 1
                   : t.across                        ? ls_runs_clamp(binary->device->cpu.l2_bytes / 2 / (w->rows * w->k * 4), 1, MOST_PANELS / 4)
                   : binary->spec.math == LS_LOCKED ? 1
                                                    : ls_runs_clamp(binary->device->cpu.l2_bytes / 4 / (LS_RUNS_ROWS * w->k * 4), 2, MOST_PANELS);
    t.panels = ls_windows_ceil_div(w->group, ls_windows_ceil_div(w->group, most));
    *w->runs = t;
    return LS_OK;
}
