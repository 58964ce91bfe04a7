/* Transposed convolutions, whose images have gaps: outputs with the same residues by the gaps read the same taps, and those meet elements alone. So k is
 * taken apart: each part, of outputs so far apart, is a convolution without a stride over the image as it is. What gaps would add, zeros, changes no sum
 * that began at +0, so locked sums, whose chunks stay those of all k, have the same bits. */
#include "backend/cpu/gemm_plan.h"
#include "backend/cpu/windows.h"
#include <string.h>

ls_window_tap ls_windows_tap(const ls_window_dim *d, int64_t tap) {
    const int64_t x = d->tap_step * tap + d->tap_shift, element = ls_windows_ceil_div(x, d->residues);
    return (ls_window_tap){.residue = element * d->residues - x, .element = element};
}

static void take_apart(ls_window_dim *d) {
    d->residues = d->spread;
    d->tap_shift = d->shift;
    d->first = INT64_MAX;
    int64_t end = INT64_MIN;
    for (int64_t t = 0; t < d->taps; t++) {
        const int64_t element = ls_windows_tap(d, t).element;
        d->first = element < d->first ? element : d->first;
        end = element >= end ? element + 1 : end;
    }
    d->low = ls_windows_ceil_div(d->low + d->shift, d->spread);
    d->high = ls_windows_ceil_div(d->high + d->shift, d->spread);
    d->extent = ls_gemm_ceil_div(d->outputs, d->spread);
    d->low = d->low > d->first ? d->low : d->first;
    d->high = d->high < d->extent - 1 + end ? d->high : d->extent - 1 + end;
    d->taps = end - d->first;
    d->step = d->period = d->spread = 1;
    d->shift = 0;
}

void ls_windows_take_apart(ls_windows *w) {
    w->parts = 1;
    for (int i = w->outer; i < w->n_dims; i++) {
        ls_window_dim *d = &w->dims[i];
        d->outputs = d->extent;
        d->residues = 1;
        d->tap_step = d->step;
        if (!LS_SMALL && d->spread > 1) {
            take_apart(d);
            w->parts *= d->residues;
        }
    }
}

/* Outputs of a band of so many lines, and of the last dimension. */
static int64_t row_of(const ls_windows *w, int64_t band, int64_t lines, int64_t *out_last) {
    int64_t n = 1;
    for (int i = w->outer; i < w->n_dims; i++) {
        const ls_window_dim *d = &w->dims[i];
        const int64_t left = d->outputs - (i == w->outer ? band * d->residues : 0), some = lines * d->residues;
        *out_last = i == w->outer && some < left ? some : left;
        n *= *out_last;
    }
    return n;
}

int64_t ls_windows_part_elements(const ls_windows *w) {
    int64_t last;
    return w->parts > 1 ? w->rows * (w->ld * (w->dims[w->n_dims - 1].residues - 1) + row_of(w, 0, w->band, &last)) : 0;
}

/* Sums of some rows' outputs of a part, those of every q. */
static void sums_of(const ls_windows *w, int64_t part, const float *a, const float *image, int64_t lines, float *c) {
    const ls_window_dim *last = &w->dims[w->n_dims - 1];
    const int64_t runs = w->by_lines ? lines : 1, n = w->by_lines ? last->extent : w->ld;
    bool add = false;
    for (int64_t i = 0, begin = part ? w->part_ends[part * w->chunks - 1] : 0; i < w->chunks; begin = w->part_ends[part * w->chunks + i++]) {
        const int64_t k = w->part_ends[part * w->chunks + i] - begin;
        for (int64_t l = 0; l < runs && k; l++) {
            w->kernels->taps[w->rows](k, n, a + begin * w->rows, w->at + begin, image + l * last->length, c + l * n, w->ld, add);
        }
        add = add || k;
    }
    if (!add) {
        memset(c, 0, (size_t)(w->rows * w->ld) * sizeof *c);
    }
}

/* Outputs of a line from those of each residue, `apart` from those of the next. */
static void join_line(const ls_gemm_moves *moves, const float *sums, int64_t apart, int64_t residues, int64_t n, float *to) {
    if (residues == 2) {
        moves->join4(n / 2, sums, sums + apart, to);
        if (n % 2) {
            to[n - 1] = sums[n / 2];
        }
        return;
    }
    for (int64_t r = 0; r < residues; r++, sums += apart) {
        for (int64_t o = r, q = 0; o < n; o += residues, q++) {
            to[o] = sums[q];
        }
    }
}

/* Some rows' outputs of the other dimensions' residues, `part` by all of the last one. */
static void join(const ls_gemm_moves *moves, const ls_windows *w, int64_t part, int64_t rows, int64_t band, int64_t band_lines, const float *sums, float *out) {
    const ls_window_dim *last = &w->dims[w->n_dims - 1];
    int64_t lines = 1, width, row = row_of(w, band, band_lines, &width);
    for (int i = w->outer; i < w->n_dims - 1; i++) {
        lines *= i == w->outer ? band_lines : w->dims[i].extent;
    }
    for (int64_t line = 0; line < lines; line++) {
        int64_t left = line, residue = part, from = 0, from_size = w->by_lines ? last->extent : last->length, to = 0, to_size = width;
        bool inside = true;
        for (int i = w->n_dims - 2; i >= w->outer; i--) {
            const ls_window_dim *d = &w->dims[i];
            const int64_t extent = i == w->outer ? band_lines : d->extent, q = left % extent, o = q * d->residues + residue % d->residues;
            const int64_t outputs = d->outputs - (i == w->outer ? band * d->residues : 0);
            inside = inside && o < outputs;
            from += q * from_size;
            to += o * to_size;
            from_size *= d->length;
            to_size *= outputs;
            left /= extent;
            residue /= d->residues;
        }
        for (int64_t i = 0; i < rows && inside; i++) {
            join_line(moves, sums + i * w->ld + from, w->rows * w->ld, last->residues, width, out + i * row + to);
        }
    }
}

void ls_windows_part_rows(ls_gemm_launch *launch, int worker, int64_t batch, int64_t point, int64_t band, int64_t lines, int64_t row, int64_t rows, const float *a,
                          const float *image, float *sums) {
    const ls_windows *w = launch->phase->gemm->windows;
    const ls_window_dim *first = &w->dims[w->outer], *last = &w->dims[w->n_dims - 1];
    int64_t inner = 1, width;
    for (int i = w->outer + 1; i < w->n_dims; i++) {
        inner *= w->dims[i].outputs;
    }
    float *out = sums + last->residues * w->rows * w->ld;
    for (int64_t part = 0; part < w->parts; part += last->residues) {
        for (int64_t r = 0; r < last->residues; r++) {
            sums_of(w, part + r, a, image, lines, sums + r * w->rows * w->ld);
        }
        join(launch->kernel->binary->device->gemm->moves, w, part / last->residues, rows, band, lines, sums, out);
    }
    const int64_t n = row_of(w, band, lines, &width);
    ls_gemm_finish_tile(launch, worker, batch, row, rows, (point * first->outputs + band * first->residues) * inner, n, out, n);
}
