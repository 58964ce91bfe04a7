/* Runs the cases of the museum, and what they check with. Invariants: each case has sessions of its own, so
 * that nothing computed earlier stands for what it asks; the context runs in check mode meanwhile, so a
 * result that no kernel stored reads as NaN and never as zero; and the context is left as it was found. */
#include "verify/museum.h"
#include "base/os.h"
#include "base/text.h"
#include <lockstep/verify.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const ls_museum_case_row *const halls[] = {ls_museum_matmul_cases, ls_museum_fusion_cases,
                                                  ls_museum_conv_cases, ls_museum_im2col_cases,
                                                  ls_museum_plain_cases};

static const ls_museum_case_row *case_at(int number) {
    for (size_t h = 0; h < sizeof halls / sizeof *halls && number >= 0; h++) {
        for (const ls_museum_case_row *row = halls[h]; row->name; row++) {
            if (number-- == 0) {
                return row;
            }
        }
    }
    return NULL;
}

int ls_museum_case(int number, const char **out_name, const char **out_about) {
    const ls_museum_case_row *row = case_at(number);
    if (row && out_name) {
        *out_name = row->name;
    }
    if (row && out_about) {
        *out_about = row->about;
    }
    return row != NULL;
}

int ls_museum_fault(int number, const char **out_name, const char **out_about, const char **out_case) {
    int n = 0;
    while (n < number && ls_faults[n].name) {
        n++;
    }
    const ls_fault *f = &ls_faults[n];
    if (number < 0 || !f->name) {
        return 0;
    }
    if (out_name) {
        *out_name = f->name;
    }
    if (out_about) {
        *out_about = f->about;
    }
    if (out_case) {
        *out_case = f->museum_case;
    }
    return 1;
}

/* ---- ways to end ---- */

void ls_museum_fail(ls_museum *m, const char *fmt, ...) {
    if (!ls_museum_over(m)) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(m->message, sizeof m->message, fmt, args);
        va_end(args);
        m->state = LS_CASE_FAILED;
    }
}

void ls_museum_skip(ls_museum *m, const char *fmt, ...) {
    if (!ls_museum_over(m)) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(m->message, sizeof m->message, fmt, args);
        va_end(args);
        m->state = LS_CASE_SKIPPED;
    }
}

static void fail_session(ls_museum *m, const ls_session *s, ls_status status) {
    if (!ls_museum_over(m) && ls_status_is_no_answer(status)) {
        m->status = status;
    }
    ls_museum_fail(m, "%s: %s: %s", m->device->id, ls_status_name(status), ls_session_error(s)->message);
}

bool ls_museum_built(ls_museum *m, ls_session *s, const ls_tensor *t) {
    if (!t || ls_session_error(s)->code != LS_OK) {
        fail_session(m, s, ls_session_error(s)->code);
    }
    return !ls_museum_over(m);
}

/* ---- data ---- */

float *ls_museum_floats(ls_museum *m, int64_t n) {
    float *x = LS_ARENA_ARRAY(&m->arena, float, n + 1);
    if (!x) {
        ls_museum_fail(m, "out of memory for the values of a case");
    }
    return x;
}

float *ls_museum_random(ls_museum *m, int64_t n, uint64_t seed) {
    float *x = ls_museum_floats(m, n);
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int64_t i = 0; x && i < n; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        x[i] = (float)((int64_t)(state >> 40) - (1 << 23)) / (float)(1 << 23);
    }
    return x;
}

ls_tensor *ls_museum_tensor(ls_museum *m, ls_session *s, ls_dtype dtype, ls_shape shape,
                            const float *values) {
    ls_tensor *t = values ? ls_tensor_from(s, LS_F32, shape, values) : NULL;
    t = t && dtype != LS_F32 ? ls_cast(s, t, dtype) : t;
    ls_status status = t && dtype != LS_F32 ? ls_realize(s, &t, 1) : LS_OK; /* a leaf for what follows */
    if (status != LS_OK) {
        fail_session(m, s, status);
        return NULL;
    }
    return values && ls_museum_built(m, s, t) ? t : NULL;
}

ls_tensor *ls_museum_random_tensor(ls_museum *m, ls_session *s, ls_dtype dtype, ls_shape shape,
                                   uint64_t seed) {
    int64_t n = 1;
    for (int i = 0; i < shape.rank; i++) {
        n *= shape.dim[i].offset;
    }
    return ls_museum_tensor(m, s, dtype, shape, ls_museum_random(m, n, seed));
}

ls_session *ls_museum_session(ls_museum *m, ls_device *device, int fusion) {
    ls_session *s = NULL;
    ls_error err = {.code = LS_OK};
    if (ls_session_create(m->context, device, &s, &err) != LS_OK) {
        ls_museum_fail(m, "%s: %s", device->id, err.message);
        return NULL;
    }
    ls_session_set_math(s, m->math);
    ls_session_set_fusion(s, fusion);
    return s;
}

/* ---- checks ---- */

void ls_museum_verify(ls_museum *m, ls_session *s, ls_tensor *const *tensors, int count) {
    ls_verification *v = NULL;
    if (ls_museum_over(m)) {
        return;
    }
    for (int i = 0; i < count; i++) {
        if (!ls_museum_built(m, s, tensors[i])) {
            return;
        }
    }
    ls_status status = ls_verify(s, tensors, count, &v);
    if (status != LS_OK) {
        fail_session(m, s, status);
        return;
    }
    if (v->verdict == LS_DIFFERS && v->first_divergence >= 0) {
        const ls_kernel_report *k = &v->kernels[v->first_divergence];
        bool bits = k->ref_done && k->ref.verdict == LS_DIFFERS;
        ls_museum_fail(m, "%s: kernel %d (%s), node %s, against %s: %s", m->device->id, k->number, k->kernel,
                       k->node, bits ? "ref" : "the oracle", bits ? k->ref.message : k->oracle.message);
    } else if (v->verdict == LS_DIFFERS) {
        ls_museum_fail(m, "%s: every kernel is right, but the result is not: %s", m->device->id,
                       v->end_to_end.message);
    }
    ls_verification_free(s, v);
}

ls_data *ls_museum_read(ls_museum *m, ls_session *s, ls_tensor *t) {
    ls_data *data = NULL;
    if (ls_museum_over(m) || !ls_museum_built(m, s, t)) {
        return NULL;
    }
    m->kernel[0] = 0;
    s->verification = m; /* for note_kernel */
    ls_status status = ls_data_from_tensor(s, t, &data);
    s->verification = NULL;
    if (status != LS_OK) {
        fail_session(m, s, status);
    }
    return data;
}

static void fail_report(ls_museum *m, const char *what, const ls_report *r) {
    ls_museum_fail(m, "%s: %s%s%s: %s", m->device->id, m->kernel, m->kernel[0] ? ", " : "", what, r->message);
}

void ls_museum_equal(ls_museum *m, const char *what, const ls_data *expected, const ls_data *actual) {
    ls_report r;
    if (!ls_museum_over(m) && expected && actual && ls_compare(expected, actual, &r) != LS_SAME) {
        fail_report(m, what, &r);
    }
}

void ls_museum_same(ls_museum *m, const char *what, const ls_data *expected, const ls_data *actual) {
    if (m->math == LS_LOCKED) {
        ls_museum_equal(m, what, expected, actual);
    }
}

void ls_museum_literal(ls_museum *m, ls_session *s, ls_tensor *t, const float *want, int64_t n, double gap) {
    ls_museum_verify(m, s, &t, 1);
    ls_data *data = ls_museum_read(m, s, t);
    if (!data) {
        return;
    }
    double *middle = LS_ARENA_ARRAY(&m->arena, double, n + 1),
           *radius = LS_ARENA_ARRAY(&m->arena, double, n + 1);
    ls_report r;
    if (!middle || !radius || ls_data_numel(data) != n) {
        ls_museum_fail(m, "%s: %lld values, expected %lld", m->device->id, (long long)ls_data_numel(data),
                       (long long)n);
    } else {
        for (int64_t i = 0; i < n; i++) {
            middle[i] = want[i];
            radius[i] = gap;
        }
        if (ls_compare_bound(data, middle, radius, &r) == LS_DIFFERS) {
            fail_report(m, "against the literal values", &r);
        }
    }
    ls_data_release(data);
}

/* Rows of the product by the contract: chunks of 512 of the depth, each serial from +0, their sums added in
 * order. */
static void product_locked(const float *a, const float *b, int64_t rows, int64_t depth, int64_t columns,
                           float *chunk, float *out) {
    for (int64_t i = 0; i < rows; i++) {
        float *c = out + i * columns;
        memset(c, 0, sizeof *c * (size_t)columns);
        for (int64_t begin = 0; begin < depth; begin += 512) {
            int64_t end = begin + 512 < depth ? begin + 512 : depth;
            memset(chunk, 0, sizeof *chunk * (size_t)columns);
            for (int64_t k = begin; k < end; k++) {
                float x = a[i * depth + k];
                const float *row = b + k * columns;
                for (int64_t j = 0; j < columns; j++) {
                    chunk[j] += x * row[j];
                }
            }
            for (int64_t j = 0; j < columns; j++) {
                c[j] += chunk[j];
            }
        }
    }
}

/* In float64, with (depth + 2) * 2^-24 * sum|a b| for the float32 sum and what float64 itself loses. One
 * column in 16, others in each row: the rest has an infinite bound. */
static void product_bound(const float *a, const float *b, int64_t rows, int64_t depth, int64_t columns,
                          double *middle, double *radius) {
    double unit = (double)(depth + 2) * (0x1p-24 + 0x1p-52);
    for (int64_t i = 0; i < rows; i++) {
        double *c = middle + i * columns, *r = radius + i * columns;
        for (int64_t j = 0; j < columns; j++) {
            r[j] = (i + j) % 16 ? __builtin_inf() : 0;
            for (int64_t k = 0; k < depth && r[j] < __builtin_inf(); k++) {
                double p = (double)a[i * depth + k] * (double)b[k * columns + j];
                c[j] += p;
                r[j] += p < 0 ? -p : p;
            }
            r[j] *= unit / (1 - unit);
        }
    }
}

void ls_museum_product(ls_museum *m, ls_tensor *c, const float *a, const float *b, int64_t batch,
                       int64_t rows, int64_t depth, int64_t columns) {
    ls_data *got = a && b ? ls_museum_read(m, m->session, c) : NULL;
    int64_t n = batch * rows * columns;
    ls_report r;
    if (!got) {
        return;
    }
    if (m->math == LS_LOCKED) {
        float *want = ls_museum_floats(m, n), *chunk = ls_museum_floats(m, columns);
        for (int64_t i = 0; i < batch && want && chunk; i++) {
            product_locked(a + i * rows * depth, b + i * depth * columns, rows, depth, columns, chunk,
                           want + i * rows * columns);
        }
        ls_data *expected = NULL;
        ls_error err = {.code = LS_OK};
        if (want && chunk &&
            ls_data_create(m->context, LS_F32, ls_data_rank(got), ls_data_dims(got), want, &expected, &err) ==
                LS_OK) {
            ls_museum_equal(m, "against the contract's rule in plain loops", expected, got);
        } else {
            ls_museum_fail(m, "%s", err.message);
        }
        ls_data_release(expected);
    } else {
        double *middle = LS_ARENA_ARRAY(&m->arena, double, n + 1),
               *radius = LS_ARENA_ARRAY(&m->arena, double, n + 1);
        for (int64_t i = 0; i < batch && middle && radius; i++) {
            product_bound(a + i * rows * depth, b + i * depth * columns, rows, depth, columns,
                          middle + i * rows * columns, radius + i * rows * columns);
        }
        if (!middle || !radius) {
            ls_museum_fail(m, "out of memory for the values of a case");
        } else if (ls_compare_bound(got, middle, radius, &r) == LS_DIFFERS) {
            fail_report(m, "against float64", &r);
        }
    }
    ls_data_release(got);
}

/* ---- the run ---- */

/* Check mode outside of verified runs: only notes what ran, for messages. */
static ls_status note_kernel(const ls_check_event *event, void *state, ls_error *err) {
    (void)state, (void)err;
    ls_museum *m = event->session->verification;
    if (m && event->group->n_roots > 0) {
        const ls_tensor *root = event->group->roots[0];
        snprintf(m->kernel, sizeof m->kernel, "kernel %llu (%s), node %s #%llu",
                 (unsigned long long)event->kernel, event->spec->name, ls_ops[root->op].name,
                 (unsigned long long)root->serial);
    }
    return LS_OK;
}
static const ls_check_hooks note_hooks = {.after = note_kernel};

static bool matches(const char *pattern, const char *text) {
    if (!*pattern || !*text) {
        return *pattern == '*' ? matches(pattern + 1, text) : !*pattern && !*text;
    }
    if (*pattern == '*') {
        return matches(pattern + 1, text) || matches(pattern, text + 1);
    }
    return (*pattern == '?' || *pattern == *text) && matches(pattern + 1, text + 1);
}

static void run_case(ls_museum *m, const ls_museum_case_row *row, ls_math math) {
    m->math = math;
    m->status = LS_OK;
    m->state = LS_CASE_PASSED;
    m->message[0] = m->kernel[0] = 0;
    m->session = ls_museum_session(m, m->device, 1);
    if (m->session) {
        row->run(m);
        ls_session_destroy(m->session);
    }
    ls_arena_free(&m->arena);
}

/* Locked, then fast: told of when both have an answer, so that all is asked at once. */
static ls_status run_both(ls_museum *m, const ls_museum_case_row *row, ls_case_fn each, void *user,
                          ls_case_totals *totals, ls_error *err) {
    ls_status status = LS_OK;
    ls_case_result results[LS_FAST + 1];
    char messages[LS_FAST + 1][LS_MESSAGE_MAX];
    for (int math = LS_LOCKED; math <= LS_FAST; math++) {
        uint64_t begin = ls_os_nanoseconds();
        run_case(m, row, (ls_math)math);
        status = status == LS_OK && m->status != LS_OK
                     ? LS_FAIL(err, m->status, "%s: %.900s", row->name, m->message)
                     : status;
        memcpy(messages[math], m->message, sizeof m->message);
        results[math] = (ls_case_result){.name = row->name,
                                         .about = row->about,
                                         .math = (ls_math)math,
                                         .state = m->state,
                                         .message = messages[math],
                                         .seconds = (double)(ls_os_nanoseconds() - begin) / 1e9};
    }
    for (int math = LS_LOCKED; math <= LS_FAST && status == LS_OK; math++) {
        totals->passed += results[math].state == LS_CASE_PASSED;
        totals->failed += results[math].state == LS_CASE_FAILED;
        totals->skipped += results[math].state == LS_CASE_SKIPPED;
        if (each) {
            each(user, &results[math]);
        }
    }
    return status;
}

ls_status ls_museum_run(ls_context *context, ls_device *device, const char *filter, const char *plant,
                        ls_case_fn each, void *user, ls_case_totals *out_totals, ls_error *err) {
    if (!context || !device || device->context != context) {
        return LS_FAIL(err, LS_ERR_INVALID, "museum: expected a context and a device of it");
    }
    const ls_fault *planted;
    LS_TRY(err, ls_fault_find(plant, &planted, err));
    filter = filter ? filter : plant ? planted->museum_case : "*";
    ls_museum *m = ls_alloc_zeroed(&context->heap, sizeof *m);
    if (!m) {
        return LS_FAIL_MEMORY(err, "the museum");
    }
    m->context = context;
    m->device = device;
    m->fault = planted;
    m->interprets = strcmp(device->id, "ref") == 0;
    ls_arena_init(&m->arena, &context->heap);
    ls_check before = ls_context_check(context);
    const ls_check_hooks *hooks = atomic_load(&context->hooks);
    ls_spec_fault fault = {device, ls_fault_plant, (void *)planted};
    ls_case_totals totals = {0};
    int chosen = 0;
    ls_status status = LS_OK;
    ls_engine_set_check(context, LS_CHECK_BITS, &note_hooks);
    ls_engine_set_fault(context, plant ? &fault : NULL);
    for (int i = 0; case_at(i) && status == LS_OK; i++) {
        if (matches(filter, case_at(i)->name)) {
            chosen++;
            status = run_both(m, case_at(i), each, user, &totals, err);
        }
    }
    ls_engine_set_fault(context, NULL);
    ls_engine_set_check(context, before, hooks);
    ls_free(&context->heap, m);
    if (out_totals) {
        *out_totals = totals;
    }
    return chosen ? status : LS_FAIL(err, LS_ERR_INVALID, "no case is called \"%.80s\"; lockstep check --filter list lists them", filter);
}
