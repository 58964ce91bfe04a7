/* Images that a program computes (joined channels, prologues, the spread image of a transposed convolution), for
 * contractions with windows: each element once, and not once for each tap that reads it.
 *
 * That is allowed where every index expression below the operand takes a free axis and its bound axis as stride * f
 * + step * t alone: the element at u is then the same from whichever pair of f and t it is reached. */
#include "backend/cpu/windows.h"
#include <string.h>

typedef struct visit {
    const ls_spec *spec;
    const ls_gemm_phase *gemm;
    const int *temps;
    ls_windows *w;
    bool check, ok; /* pairs are to be found, or to be checked */
} visit;

static void visit_ix(visit *v, int32_t ix);

/* A sum of one free axis and one bound axis says that they walk a dimension together. */
static void find_pair(visit *v, const ls_ix_sum *sum) {
    ls_window_dim *d = NULL;
    int bound = -1, frees = 0, bounds = 0;
    for (int i = 0; i < v->w->n_dims; i++) {
        if (ls_ix_sum_stride(sum, v->w->dims[i].axis)) {
            d = &v->w->dims[i];
            frees++;
        }
    }
    for (int i = 0; i < v->gemm->k.n; i++) {
        if (ls_ix_sum_stride(sum, v->gemm->k.axes[i])) {
            bound = v->gemm->k.axes[i];
            bounds++;
        }
    }
    if (frees != 1 || bounds != 1 || d->stride || ls_windows_walked_by(v->w, bound)) {
        return;
    }
    int64_t stride = ls_ix_sum_stride(sum, d->axis), step = ls_ix_sum_stride(sum, bound);
    d->stride = stride < 0 ? -stride : stride;
    d->step = stride < 0 ? -step : step;
    d->bound = (uint8_t)bound;
}

static void check_pairs(visit *v, const ls_ix_sum *sum) {
    for (int i = 0; i < v->w->n_dims; i++) {
        const ls_window_dim *d = &v->w->dims[i];
        if (d->bound < LS_SPEC_MAX_AXES &&
            ls_ix_sum_stride(sum, d->axis) * d->step != ls_ix_sum_stride(sum, d->bound) * d->stride) {
            v->ok = false;
        }
    }
}

static void visit_sum(visit *v, int32_t ix) {
    ls_ix_sum sum;
    ls_ix_sum_of(v->spec, ix, &sum);
    v->ok = v->ok && !sum.failed;
    if (v->check) {
        check_pairs(v, &sum);
    } else {
        find_pair(v, &sum);
    }
    for (int i = 0; i < sum.n_rest; i++) {
        visit_ix(v, sum.rest[i]);
    }
}

static void visit_ix(visit *v, int32_t ix) {
    if (ix == LS_SPEC_NONE || !v->ok) {
        return;
    }
    const ls_ix *x = &v->spec->ix[ix];
    if (x->op == LS_IX_VALUE) {
        v->ok = false;
    } else if (x->op == LS_IX_DIV || x->op == LS_IX_MOD) {
        visit_sum(v, x->a);
        v->ok = v->ok && v->spec->ix[x->b].op == LS_IX_CONST;
    } else if (x->op == LS_IX_MUL && v->spec->ix[x->a].op != LS_IX_CONST &&
               v->spec->ix[x->b].op != LS_IX_CONST) {
        v->ok = false;
    } else if (x->op != LS_IX_DIM) {
        visit_sum(v, ix);
    }
}

static void visit_value(visit *v, int32_t id) {
    if (id == LS_SPEC_NONE || !v->ok) {
        return;
    }
    const ls_value *x = &v->spec->values[id];
    if (v->temps[id] >= 0 || x->n_bound || x->check != LS_SPEC_NONE) {
        v->ok = false;
        return;
    }
    visit_ix(v, x->ix);
    for (int32_t i = x->first_pred; i < x->first_pred + x->n_preds; i++) {
        visit_ix(v, v->spec->preds[i].ix);
        visit_ix(v, v->spec->preds[i].limit);
    }
    visit_value(v, x->a);
    visit_value(v, x->b);
    visit_value(v, x->c);
}

bool ls_windows_of_program(const ls_spec *spec, const ls_gemm_phase *gemm, const int *temps, ls_windows *w) {
    visit v = {spec, gemm, temps, w, false, true};
    visit_value(&v, gemm->side[1].value);
    v.check = true;
    visit_value(&v, gemm->side[1].value);
    return v.ok;
}

/* ---- running ---- */
/* Some f and t that reach u; false: none does. */
static bool reach(const ls_window_dim *d, int64_t u, int64_t *f, int64_t *t) {
    for (*t = 0; *t < d->taps; ++*t) {
        int64_t left = u - d->step * *t;
        if (left >= 0 && left % d->stride == 0 && left / d->stride < d->extent) {
            *f = left / d->stride;
            return true;
        }
    }
    return false;
}

typedef struct line_job {
    ls_run *run;
    const ls_windows *w;
    int64_t lane0; /* of the line's first lane in the space of all free axes */
    int64_t first; /* u of the line's first element */
    float *dst;
    int64_t apart; /* of phases */
} line_job;

/* Lanes [f, f + n) of the line at tap t, to dst. */
static void compute_lanes(const line_job *j, int64_t f, int64_t n, int64_t t, float *dst) {
    const ls_window_dim *d = &j->w->dims[j->w->n_dims - 1];
    if (d->bound < LS_SPEC_MAX_AXES) {
        j->run->coords[d->bound] = t;
    }
    ls_run_point(j->run);
    for (int64_t i = 0; i < n; i += LS_TILE) {
        int64_t lanes = n - i < LS_TILE ? n - i : LS_TILE;
        ls_run_lanes(j->run, j->lane0 + f + i, lanes);
        memcpy(dst + i, ls_run_reg(j->run, j->run->program->results[0]), (size_t)lanes * 4);
    }
}

/* The phase of a line that tap t0 meets, as every period-th from there does: the middle one of them reaches most of it, its neighbours what is left at
 * both ends. */
static void compute_phase(const line_job *j, int64_t t0) {
    const ls_window_dim *d = &j->w->dims[j->w->n_dims - 1];
    int64_t n = (d->taps - 1 - t0) / d->period + 1, low = 0, high = 0; /* done */
    for (int64_t i = 0; i < 2 * n; i++) {
        int64_t own = n / 2 + (i & 1 ? (i + 1) / 2 : -(i / 2)), t = t0 + own * d->period;
        if (own < 0 || own >= n) {
            continue;
        }
        int64_t u = d->step * t - j->first; /* of f = 0; below 0 where a band begins later */
        int64_t phase = (u % d->stride + d->stride) % d->stride, start = (u - phase) / d->stride;
        int64_t from = start > 0 ? start : 0,
                end = start + d->extent < d->length ? start + d->extent : d->length;
        if (from >= end) {
            continue;
        }
        float *dst = j->dst + phase * j->apart;
        if (high == low) {
            compute_lanes(j, from - start, end - from, t, dst + from);
            low = from;
            high = end;
            continue;
        }
        if (from < low) { /* what lies between taps that reach less far than they are apart belongs to none */
            compute_lanes(j, from - start, (end < low ? end : low) - from, t, dst + from);
            low = from;
        }
        if (end > high) {
            int64_t first = from > high ? from : high;
            compute_lanes(j, first - start, end - first, t, dst + first);
            high = end;
        }
    }
}

/* The part of one plane; the coordinates of batch and channel are set. */
static void compute_plane(ls_run *run, const ls_windows *w, int64_t point, int64_t band, float *image) {
    const ls_window_dim *last = &w->dims[w->n_dims - 1];
    int64_t lines = 1, elements = 1, firsts[LS_WINDOW_DIMS];
    for (int i = w->outer; i < w->n_dims; i++) {
        const ls_window_dim *d = &w->dims[i];
        lines *= i < w->n_dims - 1 ? d->length * d->stride : 1;
        elements *= d->length;
        firsts[i] = d->first + (i == w->outer ? band * d->stride : 0);
    }
    for (int64_t line = 0; line < lines; line++) {
        int64_t left = line, u[LS_WINDOW_DIMS] = {0}, f[LS_WINDOW_DIMS] = {0}, phase = 0, at = 0,
                lane = point;
        bool inside = true;
        for (int i = w->n_dims - 2; i >= w->outer; i--) {
            const ls_window_dim *d = &w->dims[i];
            int64_t size = d->length * d->stride, t = 0;
            u[i] = left % size;
            left /= size;
            inside = inside && u[i] < d->size && reach(d, firsts[i] + u[i], &f[i], &t);
            if (d->bound < LS_SPEC_MAX_AXES) {
                run->coords[d->bound] = t < d->taps ? t : 0;
            }
        }
        for (int i = w->outer; i < w->n_dims - 1; i++) {
            phase = phase * w->dims[i].stride + u[i] % w->dims[i].stride;
            at = at * w->dims[i].length + u[i] / w->dims[i].stride;
            lane = lane * w->dims[i].extent + f[i];
        }
        line_job j = {run,
                      w,
                      lane * last->extent,
                      firsts[w->n_dims - 1],
                      image + phase * last->stride * elements + at * last->length,
                      elements};
        for (int64_t i = 0; i < last->stride; i++) {
            memset(j.dst + i * elements, 0, (size_t)last->length * 4);
        }
        for (int64_t t = 0; inside && t < last->period && t < last->taps; t++) {
            compute_phase(&j, t);
        }
    }
}

void ls_windows_compute(const ls_contract_side_launch *side, const ls_windows *w, int worker, int64_t batch,
                        int64_t point, int64_t band, float *image) {
    const ls_gemm_phase *gemm = side->launch->phase->gemm;
    char *rows;
    ls_run *run = ls_contract_side_run(side, worker, &rows);
    ls_point_coords(run->extents, gemm->batch.n, gemm->batch.axes, batch, run->coords);
    for (int64_t plane = 0; plane < w->planes; plane++) {
        int64_t left = plane;
        for (int i = gemm->k.n - 1; i >= 0; i--) {
            int axis = gemm->k.axes[i];
            if (!ls_windows_walked_by(w, axis)) {
                run->coords[axis] = left % run->extents[axis];
                left /= run->extents[axis];
            }
        }
        compute_plane(run, w, point, band, image + plane * w->plane);
    }
}
