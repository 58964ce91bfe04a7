/* Conformance rows on a device: against the oracle's bound, and locked against `ref`, bit for bit. Invariant: a row has sessions of its own,
 * so that nothing computed earlier stands for what it asks, and calling again for a row asks the device the same things in the same order. */
#include "base/numerics.h"
#include "base/os.h"
#include "engine/session.h"
#include "verify/museum.h"
#include "verify/rows.h"
#include <stdio.h>

enum { SEED = 2024, MOST_ROWS = 1 << 20 };

/* ---- which rows ---- */

static bool init_covering(ls_covering *c, ls_heap *heap, uint64_t seed) {
    int levels[LS_ROW_FACTORS];
    for (int f = 0; f < LS_ROW_FACTORS; f++) {
        levels[f] = ls_row_levels(f);
    }
    return ls_covering_init(c, heap, LS_ROW_FACTORS, levels, seed ? seed : SEED);
}

/* The next row: each subject in turn, from all over the table. */
static ls_row next_row(ls_covering *c, int number) {
    int subjects = c->levels[LS_ROW_SUBJECT];
    ls_row row = {{0}};
    row.level[LS_ROW_SUBJECT] = (int)((int64_t)number * 37 % subjects);
    while (!ls_covering_complete(c, &row, LS_ROW_SUBJECT, LS_ROW_SUBJECT)) {
    }
    ls_row_quicken(&row);
    return row;
}

/* ---- one row ---- */

typedef struct trial {
    ls_context *context;
    ls_device *device, *ref;
    const ls_row *row;
    ls_row_result *result;
} trial;

static void conclude(trial *t, ls_case_state state, const char *who, const char *what) {
    if (t->result->state == LS_CASE_PASSED) { /* the first finding stays */
        t->result->state = state;
        snprintf(t->result->message, sizeof t->result->message, "%s%s%.900s", who, *who ? ": " : "", what);
    }
}

/* What a failed computation says of the device: LS_OK when it is an answer, else the status, which is the caller's business. */
static ls_status judge(trial *t, const ls_device *device, ls_session *s, ls_status status, ls_error *err) {
    const char *message = ls_session_error(s)->message;
    switch (status) {
    case LS_ERR_UNSUPPORTED:
        conclude(t, LS_CASE_SKIPPED, "", message);
        return LS_OK;
    case LS_ERR_INVALID:
    case LS_ERR_SHAPE:
    case LS_ERR_DTYPE:
    case LS_ERR_DIFFERS:
    case LS_ERR_RANGE:
    case LS_ERR_INTERNAL:
        conclude(t, LS_CASE_FAILED, device->id, message);
        return LS_OK;
    default:
        return LS_FAIL(err, status, "row %d {%s} on %s: %.700s", t->result->number, t->result->name,
                       device->id, message);
    }
}

static ls_status open_session(trial *t, ls_device *device, ls_session **out_session, ls_error *err) {
    LS_TRY(err, ls_session_create(t->context, device, out_session, err));
    ls_session_set_math(*out_session, t->result->math);
    return LS_OK;
}

/* The value of the row; NULL after an answer that is none. */
static ls_status compute(trial *t, ls_device *device, ls_data **out_data, ls_error *err) {
    ls_session *s;
    LS_TRY(err, open_session(t, device, &s, err));
    ls_tensor *tensor = ls_row_build(s, t->row);
    ls_status status = tensor ? ls_data_from_tensor(s, tensor, out_data) : ls_session_error(s)->code;
    status = status == LS_OK ? LS_OK : judge(t, device, s, status, err);
    ls_session_destroy(s);
    return status;
}

static ls_status compare_bits(trial *t, const ls_data *actual, ls_error *err) {
    ls_data *expected = NULL;
    ls_report report;
    LS_TRY(err, compute(t, t->ref, &expected, err));
    if (expected && ls_compare(expected, actual, &report) != LS_SAME) {
        conclude(t, LS_CASE_FAILED, "against ref", report.message);
    }
    ls_data_release(expected);
    return LS_OK;
}

static void compare_bound(trial *t, const ls_data *actual, const double *middle, const double *radius) {
    ls_report report;
    ls_verdict verdict = ls_compare_bound(actual, middle, radius, &report);
    t->result->elements = report.elements;
    t->result->blind = report.blind;
    if (verdict == LS_DIFFERS) {
        conclude(t, LS_CASE_FAILED, "against the oracle", report.message);
    } else if (t->result->math != LS_LOCKED && report.blind * 100 > report.elements) {
        char text[100];
        snprintf(text, sizeof text, "the bound is too wide to tell for %lld of %lld elements",
                 (long long)report.blind, (long long)report.elements);
        conclude(t, LS_CASE_SKIPPED, "", text);
    }
}

/* In a session in which nothing is computed, so that the oracle walks the whole graph. */
static ls_status compare_oracle(trial *t, const ls_data *actual, ls_error *err) {
    ls_session *s;
    double *middle = NULL, *radius = NULL;
    int64_t n;
    LS_TRY(err, open_session(t, t->ref, &s, err));
    ls_tensor *tensor = ls_row_build(s, t->row);
    ls_status status = tensor ? ls_oracle_value(s, tensor, &middle, &radius, &n) : ls_session_error(s)->code;
    if (status != LS_OK) {
        status = judge(t, t->ref, s, status, err);
    } else if (n == ls_data_numel(actual)) { /* of another shape, it differs from ref */
        compare_bound(t, actual, middle, radius);
    } else {
        conclude(t, LS_CASE_FAILED, "against the oracle", "another number of elements");
    }
    ls_verify_free(s, middle);
    ls_verify_free(s, radius);
    ls_session_destroy(s);
    return status;
}

/* The device first: what it has not yet answered is asked again. */
static ls_status run_trial(trial *t, ls_error *err) {
    ls_data *actual = NULL;
    ls_dtype dtype = (ls_dtype)t->row->level[LS_ROW_DTYPE];
    if (!(t->device->caps.dtypes >> dtype & 1)) {
        char text[64];
        snprintf(text, sizeof text, "%s has no %s", t->device->id, ls_dtype_name(dtype));
        conclude(t, LS_CASE_SKIPPED, "", text);
        return LS_OK;
    }
    LS_TRY(err, compute(t, t->device, &actual, err));
    ls_status status = LS_OK;
    if (actual && t->result->math == LS_LOCKED) {
        status = compare_bits(t, actual, err);
    }
    if (actual && status == LS_OK) {
        status = compare_oracle(t, actual, err);
    }
    ls_data_release(actual);
    return status;
}

/* ---- a run ---- */

typedef struct run {
    ls_context *context;
    ls_device *device;
    ls_conform_options options;
    ls_covering covering;
    ls_spec_fault fault;
    ls_numerics numerics;
} run;

/* On success the caller closes it. */
static ls_status open_run(run *r, ls_context *context, ls_device *device, const ls_conform_options *options,
                          ls_error *err) {
    ls_error refused = {.code = LS_OK};
    const ls_fault *planted;
    *r = (run){.context = context, .device = device};
    r->options = options ? *options : r->options;
    if (!context || !device || device->context != context) {
        return LS_FAIL(err, LS_ERR_INVALID, "conformance: expected a context and a device of it");
    }
    LS_TRY(err, ls_fault_find(r->options.plant, &planted, err));
    ls_status status = r->options.math == LS_LOCKED ? ls_device_certify(device, &refused) : LS_OK;
    if (status == LS_ERR_DEVICE) {
        r->options.math = LS_FAST;
    } else if (status != LS_OK) {
        return LS_FAIL(err, status, "%s", refused.message);
    }
    if (!init_covering(&r->covering, &context->heap, r->options.seed)) {
        return LS_FAIL_MEMORY(err, "the conformance rows");
    }
    r->fault = (ls_spec_fault){device, ls_fault_plant, (void *)planted};
    if (planted) {
        ls_engine_set_fault(context, &r->fault);
    }
    r->numerics = ls_numerics_enter();
    return LS_OK;
}

static void close_run(run *r) {
    ls_numerics_leave(r->numerics);
    if (r->options.plant) {
        ls_engine_set_fault(r->context, NULL);
    }
    ls_covering_free(&r->covering);
}

static ls_status run_row(run *r, const ls_row *row, int number, ls_row_result *out, ls_error *err) {
    uint64_t begin = ls_os_nanoseconds();
    trial t = {.context = r->context, .device = r->device, .row = row, .result = out};
    *out = (ls_row_result){.number = number, .math = r->options.math, .state = LS_CASE_PASSED};
    ls_row_describe(row, out->name);
    LS_TRY(err, ls_device_open(r->context, "ref", &t.ref, err));
    LS_TRY(err, run_trial(&t, err));
    out->seconds = (double)(ls_os_nanoseconds() - begin) * 1e-9;
    return LS_OK;
}

ls_status ls_conform_row(ls_context *context, ls_device *device, const ls_conform_options *options,
                         int number, ls_row_result *out_result, ls_error *err) {
    run r;
    ls_row row = {{0}};
    if (number < 0 || number >= MOST_ROWS) {
        return LS_FAIL(err, LS_ERR_INVALID, "conformance: row %d: expected 0 to %d", number, MOST_ROWS - 1);
    }
    LS_TRY(err, open_run(&r, context, device, options, err));
    for (int i = 0; i <= number; i++) {
        row = next_row(&r.covering, i);
    }
    ls_status status = run_row(&r, &row, number, out_result, err);
    close_run(&r);
    return status;
}

ls_status ls_conform_run(ls_context *context, ls_device *device, const ls_conform_options *options,
                         ls_row_fn each, void *user, ls_case_totals *out_totals, ls_error *err) {
    uint64_t begin = ls_os_nanoseconds();
    int rows = options && options->rows ? options->rows : LS_CONFORM_ROWS;
    double seconds = options && options->seconds > 0 ? options->seconds : __builtin_inf();
    run r;
    ls_case_totals totals = {0};
    ls_row_result result = {.state = LS_CASE_PASSED};
    if (rows < 1 || rows > MOST_ROWS) {
        return LS_FAIL(err, LS_ERR_INVALID, "conformance: %d rows: expected 1 to %d", rows, MOST_ROWS);
    }
    LS_TRY(err, open_run(&r, context, device, options, err));
    ls_status status = LS_OK;
    for (int i = 0;
         i < rows && status == LS_OK && (i == 0 || (double)(ls_os_nanoseconds() - begin) * 1e-9 < seconds);
         i++) {
        ls_row row = next_row(&r.covering, i);
        status = run_row(&r, &row, i, &result, err);
        if (status == LS_OK) {
            totals.passed += result.state == LS_CASE_PASSED;
            totals.failed += result.state == LS_CASE_FAILED;
            totals.skipped += result.state == LS_CASE_SKIPPED;
            if (each) {
                each(user, &result);
            }
        }
    }
    close_run(&r);
    if (out_totals) {
        *out_totals = totals;
    }
    if (status == LS_OK && totals.passed + totals.failed == 0) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED,
                       "conformance: no row ran on %s, %d skipped, the last because %.600s", device->id,
                       totals.skipped, result.message);
    }
    return status;
}
