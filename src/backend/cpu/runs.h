/* Convolutions in tiles that are stored where results lie: internal to runs.c, which plans them, and runs_run.c. */
#ifndef LOCKSTEP_BACKEND_CPU_RUNS_H
#define LOCKSTEP_BACKEND_CPU_RUNS_H

#include "backend/cpu/gemm_plan.h"
#include "backend/cpu/windows.h"

enum {
    LS_RUNS_ROWS = 8,
    LS_RUNS_LANES = 16,
    LS_RUNS_WIDE = 3 * LS_RUNS_LANES,
    LS_RUNS_GATHERED = 64, /* outputs, at most */
    LS_RUNS_SLACK = LS_RUNS_WIDE /* elements behind an image that the last tile reads */
};

struct ls_runs {
    bool across;                          /* vectors are rows: tiles of outputs alone, and the image is not taken apart */
    bool by_line, joined, in_place;       /* tiles end with lines; have outputs alone, of several lines; the image is read where it lies */
    int64_t down, along;                  /* phases of lines and in them */
    int64_t tile_outputs, line_tiles;     /* of a tile, at most; tiles of a line */
    int64_t width, outputs;               /* of a line, of all */
    int64_t row, row_tiles, twos, tiles;  /* a row is a line, or all: its elements; tiles, the first of which are two vectors wide; of all */
    int64_t length, shared, reach;        /* of a line; padding that it shares with the next one; how far taps reach, in lines of a phase */
    int64_t gathered, *from;              /* elements of a k in a copy where all outputs' are side by side, or 0; where a k's were */
    int64_t bands, band, lines, plane;    /* tiles of a band; lines of a phase there, elements of a plane */
    int64_t taps;                         /* across: so many k are side by side in a line each; else 0. Then of what a line's first output reads */
    int64_t low, high;                    /* so many elements are beyond the image, and of what its last one does, where that is read in place */
    int64_t panels, n_pieces;             /* that a tile meets together; of k */
    int64_t *ends;                        /* of pieces, in the order of k */
    int64_t top, bottom;                  /* lines before the one, and from the other on, have taps beyond the image */
    struct ls_run_edges {
        ls_gemm_edge *of;
        int n;
    } *edges; /* across: [kind of line][kind of tile][piece] */
};
typedef struct ls_run_edges ls_run_edges;
enum { LS_RUN_TILES = 4 }; /* kinds of tiles: they have their line's first output or not, and its last one */

static inline int64_t ls_runs_clamp(int64_t x, int64_t low, int64_t high) {
    return x < low ? low : x > high ? high : x;
}

/* The dimension of lines, which may be one alone, and the one along them. */
static inline const ls_window_dim *ls_runs_down(const ls_windows *w) {
    static const ls_window_dim line = {.stride = 1, .step = 1, .taps = 1, .extent = 1, .period = 1, .high = 1, .spread = 1, .outputs = 1, .residues = 1};
    return w->n_dims - w->outer > 1 ? &w->dims[w->outer] : &line;
}

static inline const ls_window_dim *ls_runs_along(const ls_windows *w) {
    return &w->dims[w->n_dims - 1];
}

/* Elements of a plane's copy, without what keeps planes apart. */
static inline int64_t ls_runs_own_plane(const ls_runs *t) {
    return t->along * t->down * t->lines * t->length;
}

/* Where a vector of outputs begins in an image whose tiles are joined; how many of its lanes belong to the next line. */
static inline int64_t ls_runs_joined_vector(const ls_runs *t, int64_t output, int64_t *image) {
    int64_t column = output % t->width;
    *image = output / t->width * t->length + column;
    return ls_runs_clamp(column + LS_RUNS_LANES - t->width, 0, LS_RUNS_LANES);
}

/* Kernels of a tile across for lines of so many taps; NULL: there are none. */
static inline const ls_gemm_outputs_kernel *ls_runs_lines(const ls_gemm_kernels *kernels, int64_t taps) {
    const ls_gemm_outputs_kernel *lines = taps == 3 ? kernels->lines[0] : taps == 7 ? kernels->lines[1] : NULL;
    return lines && lines[4] ? lines : NULL;
}

/* Whether a tile across has its line's first output, and its last one. */
static inline int64_t ls_runs_ends(const ls_runs *t, int64_t first, int64_t n) {
    const int64_t column = first % t->width;
    return (column == 0 ? LS_BEYOND_FIRST : 0) | (column + n == t->width ? LS_BEYOND_LAST : 0);
}

/* runs.c: what is beyond the image of a tile across, piece by piece. */
const ls_run_edges *ls_runs_edges_of(const ls_windows *w, int64_t first, int64_t n);

#endif
