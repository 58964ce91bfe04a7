/* Showing that a device is right: comparison of results, and of every kernel of a run, with the two
 * references.
 *
 * `ref` runs kernels in contract order: in locked mode a device must equal it bit for bit. The oracle
 * evaluates the graph in float64 with a rigorous radius: in any mode a device must lie inside it. There are
 * no tolerances to choose.
 * */
#ifndef LOCKSTEP_VERIFY_H
#define LOCKSTEP_VERIFY_H

#include <lockstep/data.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ls_verdict {
    LS_SAME,         /* the same bits */
    LS_WITHIN_BOUND, /* every element inside its bound */
    LS_DIFFERS       /* at least one is not */
} ls_verdict;

/* How far off elements are, in bins. By bits: 0, the same; k, a distance from 2^(k-1) up to 2^k units in the last place (of
 * integers: of 1). By bound: 0, no distance; k, a share of the bound above 2^(k-17) up to 2^(k-16), so that LS_BIN_BOUND is the last
 * inside. The first bin takes what is less, the last but one what is more, the last what has no distance: NaN on one side alone, a
 * bound of 0. */
enum { LS_BINS = 32, LS_BIN_BOUND = 16 };

/* What a comparison found. */
typedef struct ls_report {
    ls_verdict verdict;
    int64_t elements, different; /* compared; not the same bits */
    int64_t outside;             /* outside their bound */
    int64_t blind;               /* whose bound is infinite, or too wide to fail: above 1/1024 of the RMS less the dtype's own rounding */
    int64_t bins[LS_BINS];       /* elements by distance, without those that are blind and not outside */
    double worst_of_bound;       /* largest |a - b| / bound over the elements in `bins`: 0 when all are equal, infinite in the last bin */
    int64_t first_index[LS_MAX_RANK]; /* the first element that differs (outside its bound, if there are bounds) */
    int rank;
    char first_expected[32], first_actual[32]; /* as text that reads back the same */
    char message[512];           /* one line: what differs, where and by how much; empty when LS_SAME */
} ls_report;

/* Compares by bits: every dtype, NaNs canonical. Different dtypes or shapes are LS_DIFFERS with a message. */
LS_API ls_verdict ls_compare(const ls_data *expected, const ls_data *actual, ls_report *out_report);
/* Compares with a float64 value and a radius for each element (of `actual`'s shape). */
LS_API ls_verdict ls_compare_bound(const ls_data *actual, const double *middle, const double *radius, ls_report *out_report);

/* The oracle's value of a tensor of a session, from the values that its leaves have: a middle and a radius
 * for each element. The arrays (of *out_count elements) are released with ls_verify_free. */
LS_API ls_status ls_oracle_value(ls_session *session, ls_tensor *tensor, double **out_middle, double **out_radius,
                                 int64_t *out_count) LS_MUST_USE;
LS_API void ls_verify_free(ls_session *session, void *array);

/* What a kernel reads. */
typedef struct ls_kernel_read {
    int kernel;       /* whose result it is: its place in ls_verification.kernels; -1: no kernel's */
    const char *name; /* of an input; else what ls_session_set_origin said when it was made; "" when nothing did */
    const char *type; /* "f32[1,3,224,224]" */
} ls_kernel_read;

/* A kernel of a verified run. In a loop, or in several graphs, it is one kernel with several launches: counts add up, the worst is told. */
typedef struct ls_kernel_report {
    const char *kernel; /* its name */
    const char *node;   /* the graph operation at its root */
    int number;         /* in execution order, of its first launch */
    int launches;
    const char *operations; /* that it computes, movement apart: "contract add max" */
    const char *type;       /* of its results, as that of what it reads */
    int n_origins;          /* what ls_session_set_origin called them, the root's first */
    const char *const *origins;
    int n_reads;
    const ls_kernel_read *reads;
    ls_report ref;      /* against the reference interpreter, on this kernel's own inputs; locked alone */
    ls_report oracle;   /* against the oracle, on this kernel's own inputs */
    int ref_done;       /* 0: not compared (fast mode) */
} ls_kernel_report;

/* An output of a verified run. */
typedef struct ls_output_report {
    int kernel;       /* that computes it, as in ls_kernel_read */
    ls_report oracle; /* against the oracle from the leaves alone */
} ls_output_report;

typedef struct ls_verification {
    int n_kernels;
    ls_kernel_report *kernels; /* in execution order */
    int n_outputs;
    ls_output_report *outputs; /* in the order of the tensors */
    ls_report end_to_end;      /* the worst of them */
    ls_verdict verdict;        /* of all: the worst */
    double worst_of_bound, blind; /* over all kernels: largest share; share of blind elements */
    int first_divergence;      /* number of the first kernel that is wrong; -1 none */
} ls_verification;

/* Runs the computation of tensors on the session's device with every kernel shadowed, by snapshots: fusion,
 * order and memory are those of an ordinary run. The caller frees the result. */
LS_API ls_status ls_verify(ls_session *session, ls_tensor *const *tensors, int count, ls_verification **out_verification) LS_MUST_USE;
/* Likewise with tensors that `build` makes: what it has to compute on its way (the shapes of some models depend on values) is
 * shadowed too, and goes into the report. It gives `count` tensors of the session, or a status with the session's error set. */
typedef ls_status (*ls_build_fn)(void *user, ls_session *session, ls_tensor **out_tensors);
LS_API ls_status ls_verify_built(ls_session *session, ls_build_fn build, void *user, int count,
                                 ls_verification **out_verification) LS_MUST_USE;
LS_API void ls_verification_free(ls_session *session, ls_verification *verification);

/* For tests: leaves the function through `on_fail` (a statement) when two arrays are not the same bits. */
#define LS_ASSERT_SAME(expected, actual, report, on_fail)                                     \
    do {                                                                                      \
        if (ls_compare((expected), (actual), (report)) != LS_SAME) {                          \
            on_fail;                                                                          \
        }                                                                                     \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
