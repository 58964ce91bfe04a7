/* Convolutions and their gradients with an operand that is mostly zeros: internal to sparse.c and sparse_filter.c. */
#ifndef LOCKSTEP_BACKEND_CPU_SPARSE_H
#define LOCKSTEP_BACKEND_CPU_SPARSE_H

#include "backend/cpu/windows.h"

/* A dimension of the image that a filter's gradient reads at u = step * position + tap. */
typedef struct ls_sparse_dim {
    int64_t positions, taps, step;
    int64_t size;      /* u in [0, size) */
    int64_t low, high; /* the image has elements for low <= u < high */
} ls_sparse_dim;

typedef struct ls_sparse {
    bool filter; /* the gradient of a filter: its rows' operand is sparse; else the image of windows is */
    const ls_gemm_kernels *kernels;
    int64_t chunk;   /* of k; 0: sums may be in any order */
    int64_t reach;   /* elements from the sparse operand's first to its last, of one image */
    int64_t rows, channels; /* of the result; of the other operand, side by side, whole vectors for windows */
    /* of a filter's gradient */
    ls_sparse_dim dims[2];
    bool padded;
    int64_t band;  /* lines of positions at a time */
    int32_t *at;   /* of each position, in the copy of the image */
    /* of windows */
    const ls_windows *windows;
    int64_t lines, columns, cells; /* of the image; of a line of outputs, with those beside it that a tap reaches */
} ls_sparse;

/* c[0..length) += the list's values times base; length: whole vectors. */
static inline void ls_sparse_add(const ls_gemm_kernels *kernels, int64_t n, const ls_sparse_entry *list, const float *base, float *c,
                                 int64_t length) {
    for (int64_t at = 0; at < length;) {
        int64_t vectors = (length - at) / kernels->lanes;
        vectors = vectors < LS_SPARSE_VECTORS ? vectors : LS_SPARSE_VECTORS;
        kernels->sparse[vectors](n, list, base + at, c + at);
        at += vectors * kernels->lanes;
    }
}

/* The same for several lines: c[l][0..length) += the list's values times base + l * step. */
static inline void ls_sparse_add_lines(const ls_gemm_kernels *kernels, int64_t lines, int64_t n, const ls_sparse_entry *list,
                                       const float *base, int64_t step, float *const *c, int64_t length) {
    int64_t at = 0, wide = LS_SPARSE_LINE_VECTORS * kernels->lanes;
    for (; kernels->sparse_lines && lines == LS_SPARSE_LINES && at + wide <= length; at += wide) {
        void *const to[LS_SPARSE_LINES] = {c[0] + at, c[1] + at, c[2] + at};
        kernels->sparse_lines(n, list, base + at, step, to);
    }
    for (int64_t l = 0; l < lines && at < length; l++) {
        ls_sparse_add(kernels, n, list, base + l * step + at, c[l] + at, length - at);
    }
}

/* The elements of [i, i + 64) that are not zero, as bits; fewer at the end of n elements. */
static inline uint64_t ls_sparse_bits(const ls_gemm_moves *moves, const float *x, int64_t i, int64_t n) {
    if (n - i >= 64) {
        return moves->nonzero64(x + i);
    }
    uint64_t bits = 0;
    for (int64_t j = i; j < n; j++) {
        bits |= (uint64_t)(x[j] != 0) << (j - i);
    }
    return bits;
}

/* sparse.c: fn for each task, on the pool where that helps. */
void ls_sparse_tasks(ls_cpu_device *d, int64_t n, void (*fn)(void *ctx, long task, int worker), void *ctx);

/* sparse_filter.c */
ls_status ls_sparse_filter_plan(ls_kernel_binary *binary, ls_gemm_phase *gemm, ls_error *err) LS_MUST_USE;
bool ls_sparse_filter_run(ls_gemm_launch *launch);

#endif
