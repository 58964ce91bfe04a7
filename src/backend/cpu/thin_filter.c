/* Gradients of filters of few channels, as those that read a picture, in fast arithmetic (sparse_filter.c says what k, rows and columns
 * are).
 *
 * As a product, the columns of a few taps leave most of a vector empty, and all of the output's gradient is transposed for them. Here
 * vectors lie along lines, and operands are read where they are: for four rows, each of three taps has a vector of sums, which are added
 * when k ends. */
#include "backend/cpu/gemm_plan.h"
#include "backend/cpu/sparse.h"
#include <string.h>

enum {
    LEAST_VECTORS = 32, /* of lines, for which sums are loaded and stored once */
    NEAR = 24 << 10, /* bytes of the operands of a band of lines: in the first-level cache */
    MOST_COLUMNS = 48, /* more fill a product's vectors */
    MOST_BYTES = 1 << 20, /* of sums */
    LANES = 16, /* of instruction sets with masks */
    TILE = LS_THIN_ROWS * LS_THIN_TAPS * LANES /* of sums */
};

static int64_t tiles_of(const ls_sparse *sp) { /* of some rows */
    return sp->channels * sp->dims[0].taps * ls_gemm_ceil_div(sp->dims[1].taps, LS_THIN_TAPS);
}

bool ls_thin_filter_may(const ls_sparse *sp, const ls_contract_side *image) {
    const ls_sparse_dim *d = &sp->dims[1];
    bool filled = d->positions * 4 >= ls_gemm_ceil_div(d->positions, LANES) * LANES * 3;
    filled = filled && sp->dims[0].positions * ls_gemm_ceil_div(d->positions, LANES) >= LEAST_VECTORS;
    return sp->kernels->thin && !sp->chunk && d->step == 1 && d->taps > 1 && filled &&
           sp->channels * sp->dims[0].taps * d->taps <= MOST_COLUMNS && (image->absent || !sp->padded) &&
           ls_gemm_ceil_div(sp->rows, LS_THIN_ROWS) * tiles_of(sp) * TILE * 4 <= MOST_BYTES;
}

typedef struct thin_run {
    ls_gemm_launch *launch;
    const ls_sparse *sparse;
    float *sums; /* [some rows][channel][line of taps][some taps]: tiles */
    uint16_t (*wanted)[LS_THIN_TAPS]; /* [some taps][vector of a line] */
    int64_t images, groups, tiles, vectors; /* groups of rows, of a task; tiles of a group; vectors of a line */
} thin_run;

/* Of each vector of a line the positions at which a tap has an element of the image. */
static void find_lanes(const thin_run *r) {
    const ls_sparse_dim *d = &r->sparse->dims[1];
    for (int64_t tap = 0; tap < ls_gemm_ceil_div(d->taps, LS_THIN_TAPS) * LS_THIN_TAPS; tap++) {
        for (int64_t v = 0; v < r->vectors; v++) {
            unsigned lanes = 0;
            for (int64_t i = 0; i < LANES; i++) {
                int64_t j = v * LANES + i, u = j + tap;
                lanes |= (unsigned)(tap < d->taps && j < d->positions && u >= d->low && u < d->high) << i;
            }
            r->wanted[tap / LS_THIN_TAPS * r->vectors + v][tap % LS_THIN_TAPS] = (uint16_t)lanes;
        }
    }
}

static int64_t first_row(const ls_sparse *sp, int64_t group) { /* the last ones share some */
    return group * LS_THIN_ROWS < sp->rows - LS_THIN_ROWS ? group * LS_THIN_ROWS : sp->rows - LS_THIN_ROWS;
}

/* Adds lines [y, end) of an image to the sums of a group of rows, and fetches what lies ahead of them. */
static void add_lines(const thin_run *r, int64_t group, const float *x, const float *image, int64_t y, int64_t end, int64_t ahead) {
    const ls_sparse *sp = r->sparse;
    const ls_gemm_phase *gemm = r->launch->phase->gemm;
    const ls_sparse_dim *d = &sp->dims[0];
    const int64_t *stride = gemm->side[1].free_stride + gemm->n.n - 2, x_row = gemm->side[0].free_stride[0],
                  x_line = gemm->side[0].k_stride[1];
    float *first = r->sums + group * r->tiles * TILE, *sums = first;
    for (int64_t c = 0; c < sp->channels; c++) {
        const float *plane = image + (gemm->n.n > 2 ? c * gemm->side[1].free_stride[0] : 0);
        for (int64_t tap0 = 0; tap0 < d->taps; tap0++) {
            int64_t low = y, high = end;
            if (sp->padded) { /* lines whose tap is inside */
                int64_t from = d->low > tap0 ? ls_gemm_ceil_div(d->low - tap0, d->step) : 0;
                int64_t to = d->high > tap0 ? ls_gemm_ceil_div(d->high - tap0, d->step) : 0;
                low = from > y ? from : y;
                high = to < end ? to : end;
            }
            for (int64_t tap1 = 0; tap1 < sp->dims[1].taps; tap1 += LS_THIN_TAPS, sums += TILE) {
                ls_gemm_thin t = {
                    .lines = high - low, .vectors = r->vectors, .x_row = x_row, .x_line = x_line, .image_line = d->step * stride[0]};
                t.ahead = sums == first ? ahead : 0;
                t.wanted = (const uint16_t(*)[LS_THIN_TAPS])r->wanted + tap1 / LS_THIN_TAPS * r->vectors;
                sp->kernels->thin(&t, x + low * x_line, plane + (d->step * low + tap0) * stride[0] + tap1, sums);
            }
        }
    }
}

static void run_task(void *ctx, long task, int worker) {
    const thin_run *r = ctx;
    const ls_sparse *sp = r->sparse;
    const ls_kernel_run *kernel = r->launch->kernel;
    const ls_contract_side *rows = &r->launch->phase->gemm->side[0], *image = &r->launch->phase->gemm->side[1];
    const float *x = (const float *)(const void *)kernel->buffers[rows->buffer] + rows->sum.constant;
    const float *y = (const float *)(const void *)kernel->buffers[image->buffer] + image->sum.constant;
    int64_t groups = ls_gemm_ceil_div(sp->rows, LS_THIN_ROWS), group = task * r->groups,
            end = group + r->groups < groups ? group + r->groups : groups;
    int64_t lines = sp->dims[0].positions,
            band = NEAR / (4 * (LS_THIN_ROWS * sp->dims[1].positions + sp->dims[0].step * sp->dims[1].size)) + 1;
    (void)worker;
    for (int64_t i = 0; i < r->images; i++) {
        for (int64_t line = 0; line < lines; line += band) {
            for (int64_t g = group; g < end; g++) {
                int64_t row = first_row(sp, g) * rows->free_stride[0],
                        next = g + 1 < end ? first_row(sp, g + 1) * rows->free_stride[0] : rows->k_stride[0];
                add_lines(r, g, x + i * rows->k_stride[0] + row, y + i * image->k_stride[0], line,
                          line + band < lines ? line + band : lines, next - row);
            }
        }
    }
}

static float sum_of(const float *sums) {
    float s[LANES];
    memcpy(s, sums, sizeof s);
    for (int n = LANES / 2; n; n /= 2) {
        for (int i = 0; i < n; i++) {
            s[i] += s[i + n];
        }
    }
    return s[0];
}

static void finish_row(const thin_run *r, int64_t row, float *to) {
    const ls_sparse *sp = r->sparse;
    int64_t taps = sp->dims[1].taps, lines = sp->channels * sp->dims[0].taps, group = row / LS_THIN_ROWS, n = 0;
    const float *tile = r->sums + group * r->tiles * TILE + (row - first_row(sp, group)) * LS_THIN_TAPS * LANES;
    for (int64_t line = 0; line < lines; line++) {
        for (int64_t tap = 0; tap < taps; tap += LS_THIN_TAPS, tile += TILE) {
            for (int64_t i = 0; i < LS_THIN_TAPS && tap + i < taps; i++) {
                to[n++] = sum_of(tile + i * LANES);
            }
        }
    }
    ls_gemm_finish_tile(r->launch, 0, 0, row, 1, 0, n, to, n);
}

bool ls_thin_filter_run(ls_gemm_launch *launch) {
    const ls_kernel_run *kernel = launch->kernel;
    ls_cpu_device *d = kernel->binary->device;
    const ls_gemm_phase *gemm = launch->phase->gemm;
    const ls_sparse *sp = gemm->sparse;
    thin_run r = {.launch = launch, .sparse = sp, .images = ls_point_count(kernel->extents, 1, gemm->k.axes), .tiles = tiles_of(sp)};
    int64_t groups = ls_gemm_ceil_div(sp->rows, LS_THIN_ROWS), sums = groups * r.tiles * TILE;
    r.groups = ls_gemm_ceil_div(groups, d->threads);
    r.vectors = ls_gemm_ceil_div(sp->dims[1].positions, LANES);
    size_t wanted = (size_t)(ls_gemm_ceil_div(sp->dims[1].taps, LS_THIN_TAPS) * r.vectors) * sizeof *r.wanted;
    if (!ls_gemm_grow_workspace(d, (size_t)(sums + MOST_COLUMNS) * 4 + wanted)) {
        return false;
    }
    r.sums = (float *)(void *)d->workspace;
    r.wanted = (uint16_t(*)[LS_THIN_TAPS])(void *)(r.sums + sums + MOST_COLUMNS);
    memset(r.sums, 0, (size_t)sums * 4);
    find_lanes(&r);
    ls_sparse_tasks(d, ls_gemm_ceil_div(groups, r.groups), run_task, &r);
    for (int64_t row = 0; row < sp->rows; row++) {
        finish_row(&r, row, r.sums + sums);
    }
    return true;
}
