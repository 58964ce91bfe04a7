/* The museum: real failures of neural-network runtimes, each as a case that a device must pass, and faults to
 * plant. The conformance rows: every operation over awkward data. And the measured errors of a device's elementary functions.
 *
 * A case computes something on the device, with every kernel compared with `ref` (locked: bit for bit) and
 * with the oracle (by derived bound), and compares the results with literal values, with another way to
 * compute them, or with the contract's rules evaluated in plain loops. A check is worth as much as what it
 * catches: so each failure of the museum can be planted on purpose, in the kernels that the device is given
 * to compile, and its case must then fail.
 *
 * What says nothing of the device (a run that was cancelled, a device that has not answered yet: LS_ERR_AGAIN) is no failure: the
 * call ends with that status, leaves nothing behind, and may be made again with the same arguments. It then begins
 * anew: `each` hears of everything from the start.
 */
#ifndef LOCKSTEP_CHECK_H
#define LOCKSTEP_CHECK_H

#include <lockstep/device.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ls_case_state { LS_CASE_PASSED, LS_CASE_FAILED, LS_CASE_SKIPPED } ls_case_state;

/* One case in one kind of arithmetic. The texts live until the callback returns, the names for ever. */
typedef struct ls_case_result {
    const char *name;  /* "2-filter-layout" */
    const char *about; /* what once went wrong, and where */
    ls_math math;
    ls_case_state state;
    const char
        *message; /* failed: device, kernel, node, element, expected and got; skipped: why; else empty */
    double seconds;
} ls_case_result;

typedef struct ls_case_totals {
    int passed, failed, skipped;
} ls_case_totals;

typedef void (*ls_case_fn)(void *user, const ls_case_result *result);

/* Runs the museum on a device of the context, locked and fast. `filter` chooses cases by name (* and ? as in
 * a shell; NULL: all; with a fault: its own case). `plant` names a fault to plant, or is NULL. `each` may be
 * NULL. LS_OK when every case ran to an answer, whatever it was: *out_totals counts them. LS_ERR_INVALID for
 * an unknown fault, or a filter that chooses nothing. Nothing else may run in the context meanwhile. */
LS_API ls_status ls_museum_run(ls_context *context, ls_device *device, const char *filter, const char *plant,
                               ls_case_fn each, void *user, ls_case_totals *out_totals,
                               ls_error *err) LS_MUST_USE;

/* Cases and faults, by number from 0; 0 when there is no such number. Any pointer may be NULL. Any thread. */
LS_API int ls_museum_case(int number, const char **out_name, const char **out_about);
/* `out_case` is the case that catches it. */
LS_API int ls_museum_fault(int number, const char **out_name, const char **out_about, const char **out_case);

/* Plants a fault in what a device computes from now on, to see it caught: its kernels are compiled wrongly, the references go by the
 * right ones. NULL: in none. Before anything is compiled; nothing may run in the context meanwhile, nor the museum afterwards. */
LS_API ls_status ls_device_plant(ls_device *device, const char *fault, ls_error *err) LS_MUST_USE;

/* A conformance row: one operation or composite (of some 130) by dtype, size, layout, data, and what stands
 * around it. Its graph and data are the same on every machine. The numbers choose rows so that few of them
 * show many pairs of such properties: 0 to n are the same rows whatever n is, with every operation in the
 * first 200. */
enum { LS_CONFORM_ROWS = 200 };
typedef struct ls_row_result {
    int number;
    char name[96]; /* "matmul f32 n=257 permuted mixed fused" */
    ls_math math;  /* that it was computed in */
    ls_case_state state;
    char message[LS_MESSAGE_MAX]; /* failed: what differs, where and by how much; skipped: why; else empty */
    int64_t elements, blind;      /* compared with the oracle; of these, with a bound too wide to tell */
    double seconds;
} ls_row_result;

typedef struct ls_conform_options {
    ls_math math;      /* LS_LOCKED: by bits and by bound, but fast on a device that is refused; else by bound */
    int rows;          /* of ls_conform_run; 0: LS_CONFORM_ROWS */
    uint64_t seed;     /* others give other rows; 0: those that everybody runs */
    const char *plant; /* a fault to plant meanwhile (then nothing else may run in the context); NULL: none */
    double seconds;    /* after so long ls_conform_run begins no further row, the first apart; 0: no end */
} ls_conform_options;

typedef void (*ls_row_fn)(void *user, const ls_row_result *result);

/* Computes one row on a device of the context: it must lie inside the oracle's bound, and, locked, equal
 * `ref` bit for bit. `options` (NULL: all 0) says the arithmetic and the seed. Skipped: what the device
 * refuses with a reason, a dtype that it lacks, and what is compared by bound alone where more than one
 * element in 100 is blind. LS_OK when there is an answer, whatever it is; else what kept it from coming (out
 * of memory, a lost device, see above). One thread a context. */
LS_API ls_status ls_conform_row(ls_context *context, ls_device *device, const ls_conform_options *options,
                                int number, ls_row_result *out_result, ls_error *err) LS_MUST_USE;

/* Computes rows 0, 1, ... and counts them. `options` and `each` may be NULL. LS_OK when every row came to an
 * answer and at least one was not skipped: LS_ERR_UNSUPPORTED, with a reason, when all were. */
LS_API ls_status ls_conform_run(ls_context *context, ls_device *device, const ls_conform_options *options,
                                ls_row_fn each, void *user, ls_case_totals *out_totals,
                                ls_error *err) LS_MUST_USE;

/* What an elementary function of a device was measured to be off by. */
typedef struct ls_ulp_result {
    const char *function; /* "exp" */
    ls_math math;
    double most;    /* the largest |y - exact| in ULPs of f32 at the exact value; infinite: NaN instead of a number */
    double at;      /* the argument of that (pow: the base) */
    double bound;   /* locked: what docs/elementary.md promises; fast: what bounds are derived from (contract, C25) */
    int64_t inputs; /* arguments whose exact value is a normal number of f32 */
} ls_ulp_result;

typedef void (*ls_ulp_fn)(void *user, const ls_ulp_result *result);

/* Measures each elementary function on a device of the context, over 65,536 arguments of f32 spread evenly over the bit patterns, in
 * locked arithmetic (where the device is certified) and in fast; the exact values are those of f64 on `ref`. *out_beyond counts
 * those beyond their bound. `each` may be NULL. One thread a context. */
LS_API ls_status ls_ulps_measure(ls_context *context, ls_device *device, ls_ulp_fn each, void *user, int *out_beyond,
                                 ls_error *err) LS_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
