/* Contractions of a filter with windows of an image (convolutions, depthwise ones above all), without a copy of
 * each window, planned.
 *
 * A dimension of the image is walked by a free axis f and a bound axis t together: u = stride * f + step * t. A
 * task copies its part of the image to scratch memory once, with +0 where the padding is, and with each dimension
 * taken apart into `stride` phases: the elements u = phase, phase + stride, ... follow each other. All windows of a
 * tap are then one shifted run of consecutive elements, whatever the stride: for the output q = (f0 * size1 + f1) *
 * size2 + f2, tap p reads element q + at[p]. So a row of outputs is computed over all of its dimensions at once;
 * what lies between the lines of the image is computed too, and dropped.
 *
 * Taps are in the contraction's order of k (those of an image with gaps part by part, windows_parts.c), chunks of 512
 * are added as everywhere, so locked bits are those of the packed product. Absent elements are +0 here: with a filter
 * that holds an infinity or NaN the packed product is used, which can leave them out. */
#include "backend/cpu/gemm_plan.h"
#include "backend/cpu/windows.h"
#include <string.h>

enum {
    LEAST_PANELS = LS_LIMIT(4, 1), /* of a task: copying its image takes as long as a part of one */
    MOST_SHARED = 64,       /* of them padding */
    MOST_TAPS = 1 << 16,    /* entries of the table of taps */
    MOST_LINE_LANES = 8,    /* of vectors by which lines are taken one by one; of longer ones lines hold few */
    LEAST_LINE_K = LS_LIMIT(64, 1), /* and k, of which fewer take as long as a call, but for tiles that end */
    ENDING = 6,             /* k take as long as to store sums and to put them where results lie */
    SMALL_IMAGE = 40 << 10, /* bytes of one image with its outputs: in the first-level cache */
    SMALL_L2 = 512 << 10    /* bytes of one that takes more of itself for a band: a fourth has too few lines */
};

static int64_t fixed(const ls_spec *spec, int axis) {
    ls_dim extent = spec->extents_of_axes[axis];
    return ls_dim_is_fixed(extent) ? extent.offset : 0;
}

/* Whether a predicate holds everywhere. */
static bool holds(const ls_spec *spec, const ls_ix_sum *sum, int64_t limit) {
    int64_t low = sum->constant, high = sum->constant;
    for (int i = 0; i < sum->n_terms; i++) {
        int64_t reach = sum->stride[i] * (ls_dim_bound(spec->extents_of_axes[sum->axis[i]]) - 1);
        *(reach < 0 ? &low : &high) += reach;
    }
    return low >= 0 && high < limit;
}

static ls_window_dim *dim_of(ls_windows *w, int axis) {
    for (int i = 0; i < w->n_dims; i++) {
        if (w->dims[i].axis == axis) {
            return &w->dims[i];
        }
    }
    return NULL;
}

static bool has_bound(const ls_window_dim *d) {
    return d->bound < LS_SPEC_MAX_AXES;
}

const ls_window_dim *ls_windows_walked_by(const ls_windows *w, int bound) {
    for (int i = 0; i < w->n_dims; i++) {
        if (w->dims[i].bound == bound) {
            return &w->dims[i];
        }
    }
    return NULL;
}

/* A predicate says which axes walk a dimension together, how, and where the image ends. */
static bool take_pred(const ls_spec *spec, const ls_gemm_phase *gemm, const ls_contract_side *image, int t,
                      ls_windows *w) {
    const ls_ix_sum *sum = &image->pred[t];
    ls_window_dim *d = NULL;
    int64_t stride = 0, step = 0;
    uint8_t bound = LS_SPEC_MAX_AXES;
    if (holds(spec, sum, image->limit[t])) {
        return true;
    }
    for (int i = 0; i < sum->n_terms; i++) {
        ls_window_dim *own = dim_of(w, sum->axis[i]);
        if (own && !d) {
            d = own;
            stride = sum->stride[i];
        } else if (!own && bound == LS_SPEC_MAX_AXES) {
            bound = sum->axis[i];
            step = sum->stride[i];
        } else {
            return false;
        }
    }
    bool in_k = bound == LS_SPEC_MAX_AXES;
    for (int i = 0; i < gemm->k.n; i++) {
        in_k = in_k || gemm->k.axes[i] == bound;
    }
    if (!d || !in_k || stride < 1 ||
        (d->stride && (d->stride != stride || d->bound != bound || d->step != step))) {
        return false;
    }
    const ls_window_dim *other = bound < LS_SPEC_MAX_AXES ? ls_windows_walked_by(w, bound) : NULL;
    if (other && other != d) {
        return false;
    }
    d->stride = stride;
    d->bound = bound;
    d->step = step;
    d->low = d->low > -sum->constant ? d->low : -sum->constant;
    d->high = d->high < image->limit[t] - sum->constant ? d->high : image->limit[t] - sum->constant;
    return true;
}

/* Without padding nothing says so, but strides tell: of all pairs of a bound and a free axis left, the one whose
 * strides are nearest. Beside two dimensions, windows that share nothing are no dimension: images and their few channels look so. Nor are steps past
 * all of an axis: channels of small images. */
static void pair_by_strides(const ls_spec *spec, const ls_gemm_phase *gemm, const ls_contract_side *image,
                            ls_windows *w) {
    int found = 0;
    for (int i = 0; i < w->n_dims; i++) {
        found += has_bound(&w->dims[i]);
    }
    for (;; found++) {
        int64_t best = 9;
        ls_window_dim *d = NULL;
        int bound = 0;
        for (int i = 0; i < gemm->k.n; i++) {
            int64_t a = image->k_stride[i];
            if (ls_windows_walked_by(w, gemm->k.axes[i]) || a <= 0 || fixed(spec, gemm->k.axes[i]) == 1) {
                continue;
            }
            for (int j = 0; j < w->n_dims; j++) {
                int64_t b = image->free_stride[j];
                int64_t extent = fixed(spec, w->dims[j].axis);
                bool apart = b >= a * fixed(spec, gemm->k.axes[i]), planes = extent > 1 && a >= b * extent;
                if (w->dims[j].stride || b <= 0 || (b % a && a % b) || !extent || planes || (apart && found > 1)) {
                    continue;
                }
                int64_t ratio = b > a ? b / a : a / b;
                if (ratio < best) {
                    best = ratio;
                    d = &w->dims[j];
                    bound = i;
                    d->image_stride = b > a ? a : b;
                }
            }
        }
        if (!d) {
            return;
        }
        int64_t b = image->free_stride[d - w->dims], a = image->k_stride[bound];
        d->image_stride = b > a ? a : b;
        d->stride = b / d->image_stride;
        d->step = a / d->image_stride;
        d->bound = gemm->k.axes[bound];
    }
}

static int64_t k_stride_of(const ls_gemm_phase *gemm, const ls_contract_side *side, int axis) {
    for (int i = 0; i < gemm->k.n; i++) {
        if (gemm->k.axes[i] == axis) {
            return side->k_stride[i];
        }
    }
    return 0;
}

/* What follows once the axes of a dimension are known; false where they cannot walk one. */
static bool finish_dim(const ls_spec *spec, const ls_gemm_phase *gemm, const ls_contract_side *image,
                       ls_window_dim *d, int64_t free) {
    d->stride = d->stride ? d->stride : 1;
    d->extent = fixed(spec, d->axis);
    d->taps = has_bound(d) ? fixed(spec, d->bound) : 1;
    if (has_bound(d) &&
        image->affine) { /* by the bound axis: a free axis of one element may have any stride */
        int64_t bound = k_stride_of(gemm, image, d->bound);
        d->image_stride = d->step ? bound / d->step : 0;
        if (!d->step || bound % d->step || (d->extent != 1 && free != d->stride * d->image_stride)) {
            return false;
        }
    } else if (image->affine) {
        d->image_stride = free / d->stride;
        if (free % d->stride) {
            return false;
        }
    }
    int64_t apart = d->step < 0 ? -d->step : d->step;
    /* To compute an image first gains nothing where windows share nothing. */
    if (d->taps < 1 || (!image->affine && apart > d->stride * d->extent)) {
        return false;
    }
    d->first = d->step < 0 ? d->step * (d->taps - 1) : 0;
    for (d->period = 1; d->period < d->taps && d->step * d->period % d->stride; d->period++) {
    }
    if (d->extent) { /* bands round up, and nothing lies behind the last window */
        int64_t end = d->stride * (d->extent - 1) + (d->step > 0 ? d->step * (d->taps - 1) : 0) + 1;
        d->low = d->low > d->first ? d->low : d->first;
        d->high = d->high < end ? d->high : end;
    }
    return true;
}

/* The dimension that a sum which is divided walks. */
static bool take_spread(const ls_gemm_phase *gemm, ls_windows *w, const ls_window_spread *s) {
    ls_window_dim *d = NULL;
    int64_t stride = 0, step = 0;
    uint8_t bound = LS_SPEC_MAX_AXES;
    for (int i = 0; i < s->n_axes; i++) {
        ls_window_dim *own = dim_of(w, s->axes[i]);
        bool in_k = false;
        for (int j = 0; j < gemm->k.n; j++) {
            in_k = in_k || gemm->k.axes[j] == s->axes[i];
        }
        if (own && !d) {
            d = own;
            stride = s->strides[i];
        } else if (in_k && bound == LS_SPEC_MAX_AXES) {
            bound = s->axes[i];
            step = s->strides[i];
        } else {
            return false;
        }
    }
    const ls_window_dim *other = bound < LS_SPEC_MAX_AXES ? ls_windows_walked_by(w, bound) : NULL;
    if (!d || stride != 1 || d->spread != 1 || (other && other != d) ||
        (d->stride && (d->stride != stride || d->bound != bound || d->step != step))) {
        return false;
    }
    d->stride = stride;
    d->bound = bound;
    d->step = step;
    d->spread = s->by;
    d->shift = s->shift;
    return true;
}

/* Whether windows share elements. What a program computes for others, as for a matrix whose columns lie one behind another, is a panel as well. */
static bool overlaps(const ls_window_dim *d) {
    return ls_windows_reach(d) >= d->stride;
}

/* Dimensions from the axes of the columns; false where the operand does not fit. */
static bool find_dims(const ls_spec *spec, const ls_gemm_phase *gemm, const ls_contract_side *image,
                      const int *temps, ls_windows *w) {
    if (gemm->n.n < 1 || gemm->n.n > LS_WINDOW_DIMS) {
        return false;
    }
    for (int i = 0; i < gemm->n.n; i++) {
        w->dims[w->n_dims++] = (ls_window_dim){
            .axis = gemm->n.axes[i], .bound = LS_SPEC_MAX_AXES, .low = INT32_MIN, .high = INT32_MAX, .spread = 1};
    }
    for (int t = 0; image->affine && t < image->n_preds; t++) {
        if (!take_pred(spec, gemm, image, t, w)) {
            return false;
        }
    }
    for (int i = 0; i < w->n_spreads; i++) {
        if (!take_spread(gemm, w, &w->spreads[i])) {
            return false;
        }
    }
    if (image->affine) {
        pair_by_strides(spec, gemm, image, w);
    } else if (!ls_windows_of_program(spec, gemm, temps, w)) {
        return false;
    }
    bool window = false;
    for (int i = 0; i < w->n_dims; i++) {
        const ls_window_dim *d = &w->dims[i];
        if (!finish_dim(spec, gemm, image, &w->dims[i], image->free_stride[i])) {
            return false;
        }
        window = window || (image->affine ? d->taps > 1 : overlaps(d));
        if (w->dims[i].spread > 1 && !w->dims[i].extent) {
            return false;
        }
    }
    return window;
}

/* What follows a line is +0 as what the next one begins with is: the same elements serve both. Lines stay as long as their outputs, which
 * close_up draws together. */
static int64_t shared_padding(const ls_window_dim *d) {
    int64_t low = d->low - d->first, high = d->first + d->size - d->high, least = low < high ? low : high;
    int64_t most = d->size - d->extent < MOST_SHARED ? d->size - d->extent : MOST_SHARED;
    return least < 0 ? 0 : least < most ? least : most;
}

/* What a task has of its first inner dimension, and how large its memory is then. */
static int64_t set_band(ls_windows *w, int64_t band) {
    int64_t elements = 1, outputs = 1;
    for (int i = w->outer; i < w->n_dims; i++) {
        ls_window_dim *d = &w->dims[i];
        int64_t extent = i == w->outer ? band : d->extent;
        d->size = d->stride * (extent - 1) + ls_windows_reach(d) + 1;
        d->length = ls_gemm_ceil_div(d->size, d->stride);
        if (i == w->n_dims - 1 && i > w->outer && d->stride == 1) {
            d->length -= shared_padding(d);
        }
        elements *= d->length * d->stride;
        outputs *= i == w->outer ? band : d->length;
    }
    int64_t lanes = w->kernels->lanes, step = w->rows == 8 ? lanes : 2 * lanes; /* ls_gemm_taps_kernel */
    w->band = band;
    w->bands = ls_gemm_ceil_div(w->dims[w->outer].extent, band);
    w->plane = elements;
    w->columns = w->by_lines ? band * w->dims[w->n_dims - 1].extent : outputs;
    w->ld = w->by_lines ? w->columns : outputs > lanes ? ls_gemm_ceil_div(outputs, step) * step : 2 * lanes;
    return (w->planes * w->plane + LS_WINDOW_SLACK + w->rows * w->ld + ls_windows_part_elements(w)) * 4;
}

int64_t ls_windows_images(const ls_spec *spec, const ls_gemm_phase *gemm, const ls_windows *w) {
    int64_t images = 1;
    for (int i = 0; i < gemm->batch.n; i++) {
        int64_t n = fixed(spec, gemm->batch.axes[i]);
        images *= n ? n : 1;
    }
    for (int i = 0; i < w->outer; i++) {
        images *= w->dims[i].extent ? w->dims[i].extent : 1;
    }
    return images;
}

int64_t ls_windows_share(const ls_kernel_binary *binary, const ls_gemm_phase *gemm, ls_windows *w, const int64_t bands[2],
                         const int64_t columns[2]) {
    int64_t threads = binary->device->threads, images = ls_windows_images(&binary->spec, gemm, w), chosen = bands[0], best = INT64_MAX / 33;
    int64_t widest = w->program ? 1 : ls_gemm_ceil_div(w->panels, LEAST_PANELS);
    w->group = w->panels;
    for (int i = 0; i < 2 && !LS_SMALL && threads > 1; i++) {
        int64_t groups = ls_gemm_blocks(w->panels, bands[i] * images, threads, 1, 1);
        groups = groups < widest ? groups : widest;
        int64_t load = columns[i] * ls_gemm_load(w->panels, groups, bands[i] * images, threads);
        if (load * 33 < best * 32) {
            best = load;
            chosen = bands[i];
            w->group = ls_gemm_ceil_div(w->panels, groups);
        }
    }
    return chosen;
}

/* Bands as high as memory near the core allows, and as many as keep the workers busy. */
static bool choose_band(const ls_kernel_binary *binary, const ls_gemm_phase *gemm, ls_windows *w) {
    int64_t l2 = binary->device->cpu.l2_bytes;
    const int64_t part = l2 > SMALL_L2 ? l2 / 4 : l2 * 5 / 8;
    int64_t budget = w->planes == 1 ? SMALL_IMAGE : part, extent = w->dims[w->outer].extent, inner = 1;
    for (int i = w->outer + 1; i < w->n_dims; i++) {
        inner *= w->dims[i].extent;
    }
    int64_t images = ls_windows_images(&binary->spec, gemm, w), threads = binary->device->threads;
    int64_t wanted = threads > 1 ? ls_gemm_blocks(extent, images, threads, LS_TASKS_PER_WORKER, 1) : 1;
    /* Lines that bands share are copied by each of them: two thirds of what they copy, not more. */
    const ls_window_dim *y = &w->dims[w->outer];
    const int64_t few = ls_gemm_ceil_div(ls_windows_reach(y) + 1 - y->stride, 2 * y->stride), least = few < 1 ? 1 : few < extent ? few : extent;
    int64_t highest = extent, bands[2], columns[2];
    while (highest > least && set_band(w, highest) > budget) {
        highest = ls_gemm_ceil_div(highest, 2);
        highest = highest > least ? highest : least;
    }
    int64_t band = highest;
    if (ls_gemm_ceil_div(extent, band) < wanted) { /* but none narrower than a tile, which takes as long as a whole one */
        int64_t even = ls_gemm_ceil_div(extent, wanted), tile = ls_gemm_ceil_div(3 * w->kernels->lanes, inner);
        even = even > tile ? even : tile;
        even = even > least ? even : least;
        band = even < band ? even : band;
    }
    for (int i = 0; i < 2; i++) {
        set_band(w, ls_gemm_ceil_div(extent, ls_gemm_ceil_div(extent, i ? highest : band)));
        bands[i] = w->bands;
        columns[i] = w->ld;
    }
    const int64_t bytes = set_band(w, ls_gemm_ceil_div(extent, ls_windows_share(binary, gemm, w, bands, columns)));
    if (w->band * inner * 3 < w->columns) { /* filters' gradients: windows larger than what they move over */
        return false;
    }
    const int64_t shared = binary->device->cpu.l3_bytes / threads;
    return bytes <= (shared > 2 * l2 ? shared : 2 * l2);
}

/* Of an element of k: where the filter's lies, the shift into the task's copy, and the part that it is for; its place where taps are in lines. */
typedef struct element {
    int64_t filter, at, part, in_lines;
} element;

static element element_of(const ls_spec *spec, const ls_gemm_phase *gemm, const ls_windows *w, int64_t p) {
    const ls_contract_side *filter = &gemm->side[0];
    int64_t plane = 0, planes = 1, coord[LS_WINDOW_DIMS] = {0};
    element e = {0};
    for (int i = gemm->k.n - 1; i >= 0; i--) {
        int64_t extent = fixed(spec, gemm->k.axes[i]), x = p % extent;
        p /= extent;
        e.filter += x * filter->k_stride[i];
        const ls_window_dim *d = ls_windows_walked_by(w, gemm->k.axes[i]);
        if (d) {
            coord[d - w->dims] = x;
        } else {
            plane += x * planes;
            planes *= extent;
        }
    }
    int64_t phase = 0, at = 0, elements = 1;
    e.in_lines = plane;
    for (int i = w->outer; i < w->n_dims; i++) {
        const ls_window_dim *d = &w->dims[i];
        const ls_window_tap tap = ls_windows_tap(d, coord[i]);
        const int64_t u = tap.element - d->first;
        phase = phase * d->stride + u % d->stride;
        at = at * d->length + u / d->stride;
        elements *= d->length;
        e.part = e.part * d->residues + tap.residue;
        e.in_lines = e.in_lines * d->taps + coord[i];
    }
    e.at = plane * w->plane + phase * elements + at;
    return e;
}

/* Of each k: where the filter's element lies, and the shift into the task's copy; part by part. In fast a part has chunks of its own. */
static void write_taps(const ls_spec *spec, const ls_gemm_phase *gemm, ls_windows *w) {
    int64_t to = 0;
    for (int64_t part = 0; part < w->parts; part++) {
        const int64_t begin = to;
        for (int64_t p = 0; p < w->k; p++) {
            const element e = element_of(spec, gemm, w, p);
            w->filter_at[p] = e.filter;
            if (e.part == part) {
                const int64_t at = w->in_lines ? e.in_lines : to;
                w->at[at] = e.at;
                w->packed_at[at] = e.filter;
                to++;
            }
            if (w->part_ends) {
                w->part_ends[part * w->chunks + p / LS_GEMM_CHUNK] = to;
            }
        }
        for (int64_t i = 0, end = begin; i < w->chunks && w->part_ends && spec->math != LS_LOCKED; i++) {
            end = to - end < LS_GEMM_CHUNK ? to : end + LS_GEMM_CHUNK;
            w->part_ends[part * w->chunks + i] = end;
        }
    }
}

/* What panels of so many rows take for so many vectors of columns. By twos there are fewer sums under way than by threes, of four rows few. */
static int64_t panels_cost(const ls_windows *w, int64_t rows, int64_t vectors) {
    int64_t panels = ls_gemm_ceil_div(w->m, rows), twos = (3 - vectors % 3) % 3;
    if (!LS_SMALL && rows == w->kernels->threes && vectors > 1) {
        return panels * 4 * ((2 * rows + 1) * twos + rows * (vectors - 2 * twos));
    }
    return panels * (8 * rows + 3 * (rows == 4)) * ls_gemm_ceil_div(vectors, 2);
}

/* Whether panels of so many rows, if they are full, can store lines where results lie. */
static bool may_end(const ls_windows *w, int64_t rows) {
    return w->kernels->ends && rows == LS_ENDS_ROWS && w->m >= rows;
}

/* Whether lines of outputs are whole vectors that panels of so many rows can take for themselves, and worth the calls. */
static bool may_take_lines(const ls_windows *w, int64_t rows) {
    const ls_window_dim *last = &w->dims[w->n_dims - 1];
    const int64_t lanes = w->kernels->lanes, step = rows == w->kernels->threes ? lanes : 2 * lanes;
    return !LS_SMALL && lanes <= MOST_LINE_LANES && w->k >= (may_end(w, rows) ? 1 : LEAST_LINE_K) && w->n_dims - w->outer == 2 && last->extent >= 2 * lanes &&
           last->extent % step == 0;
}

/* With what it takes to put sums where results lie, if tiles do not end there. */
static int64_t put_cost(const ls_windows *w, int64_t cost) {
    return cost + (w->kernels->ends ? cost * ENDING / w->k : 0);
}

static int64_t lines_cost(const ls_windows *w, int64_t rows) {
    const int64_t vectors = w->dims[w->n_dims - 1].extent / w->kernels->lanes, each = panels_cost(w, rows, vectors);
    int64_t cost;
    if (__builtin_mul_overflow(w->dims[w->outer].extent, each, &cost) || cost > INT64_MAX / (ENDING + 1)) {
        return INT64_MAX;
    }
    return !may_take_lines(w, rows) ? INT64_MAX : may_end(w, rows) ? cost : put_cost(w, cost);
}

static int64_t together_cost(const ls_windows *w, int64_t rows) {
    return put_cost(w, panels_cost(w, rows, ls_gemm_ceil_div(w->columns, w->kernels->lanes)));
}

static int64_t rows_cost(const ls_windows *w, int64_t rows) {
    const int64_t lines = lines_cost(w, rows), together = together_cost(w, rows);
    return lines < together ? lines : together;
}

/* The highest panels, unless lower ones leave clearly fewer rows unused. Sets by_lines. */
static int64_t panel_rows(ls_windows *w) {
    int64_t most = LS_GEMM_MAX_ROWS;
    while (!w->kernels->taps[most]) {
        most--;
    }
    set_band(w, w->dims[w->outer].extent);
    int64_t best = most;
    for (int64_t rows = most - 1; rows >= 1; rows--) {
        bool worth = rows >= 8 || rows >= w->m || (most < 8 && rows >= 4);
        if (w->kernels->taps[rows] && worth && rows_cost(w, rows) * 98 < rows_cost(w, best) * 97) {
            best = rows;
        }
    }
    w->by_lines = lines_cost(w, best) < together_cost(w, best);
    return best;
}

/* By a free axis, without padding. */
static bool walked_alone(const ls_window_dim *d) {
    bool whole = d->extent ? d->high > d->stride * (d->extent - 1) : d->high == INT32_MAX;
    return d->taps == 1 && d->low <= 0 && whole;
}

bool ls_windows_inside(const ls_windows *w) {
    bool inside = true;
    for (const ls_window_dim *d = &w->dims[w->outer]; d < &w->dims[w->n_dims]; d++) {
        inside = inside && d->low <= d->first && d->first + d->stride * (d->extent - 1) + ls_windows_reach(d) < d->high;
    }
    return inside;
}

int64_t ls_windows_even_planes(const ls_windows *w, int64_t i) {
    int64_t n = 1;
    while (i + n < w->planes && w->plane_leaf[i + n] == w->plane_leaf[i] &&
           w->plane_at[i + n] - w->plane_at[i + n - 1] == w->plane_at[i + 1] - w->plane_at[i]) {
        n++;
    }
    return n;
}

bool ls_windows_lie_evenly(const ls_windows *w, int64_t places) {
    const ls_window_dim *y = &w->dims[w->outer], *x = &w->dims[w->n_dims - 1];
    const int64_t step = ls_windows_plane_step(w);
    return w->plane_leaf[0] >= 0 && ls_windows_even_planes(w, 0) == w->planes && y->image_stride >= x->high - x->low && step > 0 && step % places;
}

/* Whether lines are read where images lie: none ends in padding, and all of them are in the second-level cache (which a copy brings them to sooner than
 * tiles that wait for each line). */
static bool needs_no_copy(const ls_kernel_binary *binary, const ls_gemm_phase *gemm, const ls_windows *w) {
    const ls_window_dim *y = &w->dims[w->outer], *x = &w->dims[w->n_dims - 1];
    return !LS_SMALL && w->by_lines && !w->program && w->parts == 1 && y->stride * x->stride * y->spread * x->spread * x->image_stride == 1 && ls_windows_inside(w) &&
           ls_windows_lie_evenly(w, 128) &&
           ls_windows_images(&binary->spec, gemm, w) * w->planes * ls_windows_plane_step(w) * 4 <= binary->device->cpu.l2_bytes;
}

ls_status ls_windows_plan(ls_kernel_binary *binary, ls_gemm_phase *gemm, const int *temps, ls_error *err) {
    const ls_spec *spec = &binary->spec;
    const ls_contract_side *filter = &gemm->side[0];
    const ls_gemm_isa *isa = binary->device->gemm;
    ls_windows w = {.k = 1, .planes = 1, .m = 1, .absent = gemm->side[1].absent};
    ls_window_leaf leaves[LS_WINDOW_LEAVES];
    ls_contract_side loads;
    w.leaves = leaves;
    w.program = !ls_windows_of_loads(spec, gemm, temps, &w, &loads);
    const ls_contract_side *image = w.program ? &gemm->side[1] : &loads;
    if (w.program) {
        w.n_leaves = w.n_spreads = 0;
        if (image->affine) {
            return LS_OK;
        }
    }
    w.kernels = spec->math == LS_LOCKED ? isa->f32 : isa->f32_fast;
    /* Beside an image of f32 a filter has f32 or halves. */
    if (!filter->affine || filter->n_preds || image->dtype != LS_GEMM_F32 ||
        !find_dims(spec, gemm, image, temps, &w)) {
        return LS_OK;
    }
    for (int i = 0; i < gemm->k.n; i++) {
        int64_t extent = fixed(spec, gemm->k.axes[i]);
        w.k *= extent;
        w.planes *= ls_windows_walked_by(&w, gemm->k.axes[i]) ? 1 : extent;
    }
    for (int i = 0; i < gemm->m.n; i++) {
        w.m *= fixed(spec, gemm->m.axes[i]);
    }
    while (w.n_dims - w.outer > 1 && walked_alone(&w.dims[w.outer]) && w.dims[w.outer].spread == 1 &&
           (w.n_dims - w.outer > 2 || !w.dims[w.outer].extent)) {
        w.outer++;
    }
    for (int i = w.outer; i < w.n_dims; i++) {
        if (!w.dims[i].extent) {
            return LS_OK;
        }
    }
    if (!ls_windows_leaves_fit(spec, gemm, &w)) {
        return LS_OK;
    }
    if (w.k < 1 || w.k > MOST_TAPS || w.m < 1) {
        return LS_OK;
    }
    bool runs = ls_runs_fits(&binary->device->cpu, gemm, &w);
    ls_windows_take_apart(&w);
    w.chunks = ls_gemm_ceil_div(w.k, LS_GEMM_CHUNK);
    w.rows = runs ? 8 : panel_rows(&w);
    w.panels = ls_gemm_ceil_div(w.m, w.rows);
    if (!choose_band(binary, gemm, &w)) {
        return LS_OK;
    }
    ls_arena *arena = &binary->arena;
    w.at = LS_ARENA_ARRAY(arena, int64_t, w.k + 1);
    w.filter_at = LS_ARENA_ARRAY(arena, int64_t, w.k);
    w.packed_at = LS_ARENA_ARRAY(arena, int64_t, w.k);
    w.plane_at = LS_ARENA_ARRAY(arena, int64_t, w.planes);
    w.row_at = LS_ARENA_ARRAY(arena, int64_t, w.m);
    w.plane_leaf = LS_ARENA_ARRAY(arena, int8_t, w.planes);
    w.leaves = LS_ARENA_ARRAY(arena, ls_window_leaf, w.n_leaves + 1);
    gemm->windows = LS_ARENA_NEW(arena, ls_windows);
    w.part_ends = w.parts > 1 ? LS_ARENA_ARRAY(arena, int64_t, w.parts * w.chunks) : NULL;
    if (!w.at || !w.filter_at || !w.packed_at || (w.parts > 1 && !w.part_ends) || !w.plane_at || !w.row_at || !w.plane_leaf || !w.leaves || !gemm->windows) {
        return LS_FAIL_MEMORY(err, "a kernel of the CPU");
    }
    memcpy(w.leaves, leaves, sizeof *leaves * (size_t)w.n_leaves);
    if (!w.program) {
        ls_windows_find_planes(spec, gemm, &w);
    }
    w.uncopied = needs_no_copy(binary, gemm, &w);
    if (w.uncopied) {
        w.dims[w.n_dims - 1].length = w.dims[w.outer].image_stride;
        w.plane = ls_windows_plane_step(&w);
    }
    const ls_window_dim *last = &w.dims[w.n_dims - 1];
    w.in_lines = !LS_SMALL && spec->math != LS_LOCKED && !runs && w.kernels->ends && last->taps == 3 && last->stride == 1 && last->step == 1 && w.n_spreads == 0;
    write_taps(spec, gemm, &w);
    for (int64_t r = 0; r < w.m; r++) {
        int64_t left = r;
        w.row_at[r] = 0;
        for (int i = gemm->m.n - 1; i >= 0; i--) {
            int64_t extent = fixed(spec, gemm->m.axes[i]);
            w.row_at[r] += left % extent * filter->free_stride[i];
            left /= extent;
        }
    }
    w.in_place = ls_depthwise_fits(gemm, &w);
    w.puts = !LS_SMALL && isa->moves->put_lines && w.n_dims - w.outer == 2 && gemm->m.n == 1 && w.dims[w.n_dims - 1].extent >= w.kernels->lanes;
    if (runs) {
        LS_TRY(err, ls_runs_plan(binary, gemm, &w, err));
    }
    *gemm->windows = w;
    return LS_OK;
}

void ls_windows_print(ls_text *out, const ls_windows *w) {
    ls_text_printf(out, "    windows: %d rows, %lld taps, %lld planes of", (int)w->rows, (long long)w->k,
                   (long long)w->planes);
    for (int i = w->outer; i < w->n_dims; i++) {
        ls_text_printf(out, i > w->outer ? " x %lld" : " %lld",
                       (long long)(w->dims[i].length * w->dims[i].stride));
    }
    ls_text_printf(out, ", %lld bands", (long long)w->bands);
    if (w->group < w->panels) {
        ls_text_printf(out, ", rows in %lld parts", (long long)ls_gemm_ceil_div(w->panels, w->group));
    }
    if (w->by_lines) {
        ls_text_printf(out, ", line by line");
    }
    if (w->n_leaves > 1) {
        ls_text_printf(out, ", %d tensors joined", w->n_leaves);
    }
    if (w->uncopied) {
        ls_text_printf(out, ", where they lie");
    }
    ls_text_add(out, w->n_spreads ? ", spread\n" : w->in_place ? ", in place\n" : w->runs ? ", in runs\n" : "\n");
}
