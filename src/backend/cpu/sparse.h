/* Convolutions and their gradients with an operand that is mostly zeros: internal to sparse.c and sparse_filter.c. */
#ifndef LOCKSTEP_BACKEND_CPU_SPARSE_H
#define LOCKSTEP_BACKEND_CPU_SPARSE_H

#include "backend/cpu/chosen.h"
#include "backend/cpu/windows.h"

/* A dimension of the image that a filter's gradient reads at u = step * position + tap. */
typedef struct ls_sparse_dim {
    int64_t positions, taps, step;
    int64_t size;      /* u in [0, size) */
    int64_t low, high; /* the image has elements for low <= u < high */
} ls_sparse_dim;

typedef struct ls_sparse {
    bool filter; /* the gradient of a filter: its rows' operand is sparse; else the image of windows is */
    bool thin;   /* of a filter of few channels: thin_filter.c, whatever is zero */
    const ls_gemm_kernels *kernels;
    int64_t chunk;   /* of k; 0: sums may be in any order */
    int64_t reach;   /* elements from the sparse operand's first to its last, of one image */
    int64_t rows, channels; /* of the result; of the other operand, side by side, whole vectors for windows */
    int64_t band; /* lines at a time: of positions; of outputs */
    const ls_chosen *chosen; /* what the sparse operand is, of which windows are read then; or NULL */
    int32_t *at;  /* what an entry points to: of each position, in the copy of the image; of each plane, in the filter */
    /* of a filter's gradient */
    ls_sparse_dim dims[2];
    bool padded;
    /* of windows */
    const ls_windows *windows;
    int64_t lines, columns, cells; /* of the image; of a line of outputs, with those beside it that a tap reaches */
    bool slides;    /* all lines of taps are added at a time */
    int64_t margin; /* lines of sums before and after a band, for what its places add elsewhere */
} ls_sparse;

/* Where the windows lie that a place of the dense operand, where one of its planes begins, stands for. */
static inline const float *ls_sparse_cells(const ls_kernel_run *kernel, const ls_chosen *c, const float *dense) {
    const float *all = (const float *)(const void *)kernel->buffers[c->dense];
    return (const float *)(const void *)kernel->buffers[c->cells] + (dense - all) / 4;
}

static inline const uint32_t *ls_sparse_places(const ls_kernel_run *kernel, const ls_chosen *c, const float *cells) {
    const float *all = (const float *)(const void *)kernel->buffers[c->cells];
    return (const uint32_t *)(const void *)kernel->buffers[c->places] + (cells - all);
}

/* c += the list's values times base, both of so many vectors. */
static inline void ls_sparse_add(const ls_gemm_kernels *kernels, int64_t n, const ls_sparse_entry *list, const float *base, float *c,
                                 int64_t vectors) {
    for (int64_t some; vectors > 0; vectors -= some, base += some * kernels->lanes, c += some * kernels->lanes) {
        some = vectors < LS_SPARSE_VECTORS ? vectors : LS_SPARSE_VECTORS;
        kernels->sparse[some](n, list, base, c);
    }
}

/* The same for several lines: c[l] += the list's values times base + l * step. */
static inline void ls_sparse_add_lines(const ls_gemm_kernels *kernels, int64_t lines, int64_t n, const ls_sparse_entry *list,
                                       const float *base, int64_t step, float *const *c, int64_t vectors) {
    int64_t at = 0, wide = LS_SPARSE_LINE_VECTORS * kernels->lanes;
    for (; kernels->sparse_lines && lines == LS_SPARSE_LINES && vectors >= LS_SPARSE_LINE_VECTORS;
         vectors -= LS_SPARSE_LINE_VECTORS, at += wide) {
        void *const to[LS_SPARSE_LINES] = {c[0] + at, c[1] + at, c[2] + at};
        kernels->sparse_lines(n, list, base + at, step, to);
    }
    for (int64_t l = 0; l < lines; l++) {
        ls_sparse_add(kernels, n, list, base + l * step + at, c[l] + at, vectors);
    }
}

/* sparse.c: fn for each task, on the pool where that helps. */
void ls_sparse_tasks(ls_cpu_device *d, int64_t n, void (*fn)(void *ctx, long task, int worker), void *ctx);

/* sparse_filter.c */
ls_status ls_sparse_filter_plan(ls_kernel_binary *binary, ls_gemm_phase *gemm, ls_error *err) LS_MUST_USE;
bool ls_sparse_filter_run(ls_gemm_launch *launch);

/* thin_filter.c */
bool ls_thin_filter_may(const ls_sparse *sp, const ls_contract_side *image);
bool ls_thin_filter_run(ls_gemm_launch *launch);

#endif
