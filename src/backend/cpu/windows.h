/* Contractions of a filter with windows of an image: internal to windows*.c and sparse.c. */
#ifndef LOCKSTEP_BACKEND_CPU_WINDOWS_H
#define LOCKSTEP_BACKEND_CPU_WINDOWS_H

#include "backend/cpu/contract.h"
#include "backend/cpu/gemm_isa.h"

enum { LS_WINDOW_DIMS = 4, LS_WINDOW_LEAVES = 8, LS_DEPTHWISE_ROOM = 16 << 10, LS_DEPTHWISE_LINES = 8 };
enum { LS_WINDOW_SLACK = 160 }; /* elements behind a task's copy of an image that the last vectors may read */

typedef struct ls_window_dim { /* walked by a free axis f and a bound axis t: u = stride * f + step * t */
    uint8_t axis, bound;       /* free; bound: LS_SPEC_MAX_AXES for none */
    int64_t stride, step;      /* step may be negative */
    int64_t taps, extent;      /* of the axes; extent 0: known at launch, of outer dimensions alone */
    int64_t period;            /* taps so far apart meet the same phase, others another */
    int64_t first;             /* the least u at f = 0, negative with a negative step */
    int64_t low, high;         /* the image has elements for low <= u < high */
    int64_t image_stride;      /* elements of one u, or of `spread` */
    int64_t spread, shift;     /* only where spread divides u + shift are there elements, (u + shift) / spread in memory */
    int64_t outputs;           /* of the free axis */
    int64_t residues;          /* windows_parts.c: outputs residues * q + r of one r are a part; extent is of q then, u = q + element of a tap */
    int64_t tap_step, tap_shift; /* what step was, and with residues shift; else 0 */
    int64_t size, length;      /* u in a task; elements of a phase, size / stride rounded up */
} ls_window_dim;

typedef struct ls_window_leaf { /* a load that some planes of the image are */
    int buffer;
    const ls_value *load, *chooser; /* a plane is the first leaf's whose chooser (NULL: always) has its predicates hold */
    ls_ix_sum sum;                  /* with spread dimensions as if they were not */
} ls_window_leaf;

typedef struct ls_window_spread {
    int32_t ix; /* what is divided: stride * (axes[0] or axes[1]) + ... + shift */
    int n_axes;
    uint8_t axes[2];
    int64_t strides[2], by, shift;
} ls_window_spread;

struct ls_windows {
    int n_dims, outer; /* the outer ones are points of a task, the rest is inside it */
    ls_window_dim dims[LS_WINDOW_DIMS];
    bool absent, program;     /* the image is computed by its side's program */
    int n_leaves, n_spreads;
    ls_window_leaf *leaves;   /* else it is these */
    int8_t *plane_leaf;       /* -1: +0 */
    ls_window_spread spreads[LS_WINDOW_DIMS];
    int64_t k, planes, plane; /* planes: of bound axes that walk no dimension (channels); elements of one */
    int64_t *plane_at;        /* of the image, from where its leaf begins */
    int64_t parts, chunks;    /* of k, by residues of the outputs that they are for; of each */
    int64_t *part_ends;       /* [parts][chunks], in the order of k; NULL: k is one part */
    int64_t *at, *filter_at;  /* of each k: in the task's copy of the image; in the filter */
    int64_t *packed_at;       /* filter_at in the order in which panels have k */
    bool in_lines;            /* each three of them are taps side by side */
    int64_t m, rows, panels;  /* rows of a panel */
    int64_t group;            /* panels of a task */
    int64_t *row_at;          /* of the filter */
    int64_t band, bands;      /* of the first inner dimension */
    int64_t columns, ld;      /* outputs of a task, junk with them; and rounded up to vectors */
    bool by_lines;            /* each line of outputs for itself: no junk */
    bool uncopied;            /* the image is read where it lies, whose lines and planes are so far apart */
    bool puts;                /* lines are vectors or more, which can be stored one by one */
    const ls_gemm_kernels *kernels;
    bool in_place; /* depthwise.c */
    struct ls_runs *runs; /* runs.c; NULL: not so */
    bool finite;          /* as its filter has to be for them: padding is left out */
};
typedef struct ls_windows ls_windows;
typedef struct ls_runs ls_runs;

/* windows.c: the dimension that a bound axis walks, or NULL. */
const ls_window_dim *ls_windows_walked_by(const ls_windows *w, int bound);

/* Bytes that results of planes read in place take until what follows them is computed: some lines at least. */
static inline int64_t ls_depthwise_room(const ls_windows *w) {
    int64_t lines = LS_DEPTHWISE_LINES * w->dims[w->n_dims - 1].extent * 4;
    return lines > LS_DEPTHWISE_ROOM ? lines : LS_DEPTHWISE_ROOM;
}

/* depthwise.c: whether planes can be read where they lie; and all of them, with the filter packed, [batch][k], finite. `memory` is the
 * workers', of `bytes` each, ls_depthwise_room at least. */
bool ls_depthwise_fits(const ls_gemm_phase *gemm, const ls_windows *w);
void ls_depthwise_run(ls_gemm_launch *launch, const float *filter, char *memory, size_t bytes);

/* windows.c: whether no tap of the inner dimensions is beyond the image; how many planes from i on lie evenly apart; whether all do, in one tensor
 * whose lines are apart, too, and not by so many places that too many share those of the nearest cache; how far apart they are then. */
bool ls_windows_inside(const ls_windows *w);
int64_t ls_windows_even_planes(const ls_windows *w, int64_t i);
bool ls_windows_lie_evenly(const ls_windows *w, int64_t places);
static inline int64_t ls_windows_plane_step(const ls_windows *w) {
    return w->planes > 1 ? w->plane_at[1] - w->plane_at[0] : 1;
}
/* Of numbers that may be negative. */
static inline int64_t ls_windows_ceil_div(int64_t x, int64_t y) {
    return x > 0 ? (x + y - 1) / y : -(-x / y);
}
/* How far taps reach, in elements. */
static inline int64_t ls_windows_reach(const ls_window_dim *d) {
    return (d->step < 0 ? -d->step : d->step) * (d->taps - 1);
}
/* windows.c: how many images, each with tasks of its own; as many as are known before launch. */
int64_t ls_windows_images(const ls_spec *spec, const ls_gemm_phase *gemm, const ls_windows *w);
/* windows.c: into how many bands to cut each image, of two numbers with the columns that a band is computed in: the first, or the second
 * where that leaves the workers less to wait for. Sets w->group: where bands are few, rows are cut, too, and each task copies its band for
 * itself (a program would compute it again). */
int64_t ls_windows_share(const ls_kernel_binary *binary, const ls_gemm_phase *gemm, ls_windows *w, const int64_t bands[2],
                         const int64_t columns[2]);
/* windows_run.c: where a leaf's image begins, for coordinates of the batch and of outer dimensions. */
const float *ls_windows_leaf_start(const ls_kernel_run *kernel, const ls_gemm_phase *gemm, const ls_windows *w,
                                   const ls_window_leaf *leaf, const int64_t *coords);

/* windows_parts.c: makes parts of inner dimensions with gaps. Of a tap, which residue it is for, and the element that it reads for q = 0. How
 * many elements a task needs beside its copy and one part's sums; and some rows of all parts, from sums to where results lie. */
typedef struct ls_window_tap {
    int64_t residue, element;
} ls_window_tap;
void ls_windows_take_apart(ls_windows *w);
ls_window_tap ls_windows_tap(const ls_window_dim *d, int64_t tap);
int64_t ls_windows_part_elements(const ls_windows *w);
void ls_windows_part_rows(ls_gemm_launch *launch, int worker, int64_t batch, int64_t point, int64_t band, int64_t lines, int64_t row, int64_t rows, const float *a,
                          const float *image, float *sums);

/* runs.c: whether its dimensions are such; then, its planes known, w->runs, if those are, too, and the rows and panels of the filter. */
bool ls_runs_fits(const ls_cpu *cpu, const ls_gemm_phase *gemm, const ls_windows *w);
ls_status ls_runs_plan(ls_kernel_binary *binary, const ls_gemm_phase *gemm, ls_windows *w, ls_error *err) LS_MUST_USE;
size_t ls_runs_bytes(const ls_windows *w); /* of a worker */
void ls_runs_run(ls_gemm_launch *launch, const float *filter, char *memory, size_t bytes);

/* windows_loads.c, for images that are loads and no more: the image's operand as if it were one affine load, of leaf 0. */
bool ls_windows_of_loads(const ls_spec *spec, const ls_gemm_phase *gemm, const int *temps, ls_windows *w,
                         ls_contract_side *out_side);
/* Once dimensions are known. */
bool ls_windows_leaves_fit(const ls_spec *spec, const ls_gemm_phase *gemm, const ls_windows *w);
void ls_windows_find_planes(const ls_spec *spec, const ls_gemm_phase *gemm, ls_windows *w);

/* windows_program.c, for images that are more than a load: which axes walk a dimension together; false where some
 * index depends on them otherwise. */
bool ls_windows_of_program(const ls_spec *spec, const ls_gemm_phase *gemm, const int *temps, ls_windows *w);
/* Computes a task's part of the image: `band` is the first line of the first inner dimension. */
void ls_windows_compute(const ls_contract_side_launch *side, const ls_windows *w, int worker, int64_t batch,
                        int64_t point, int64_t band, float *image);

#endif
