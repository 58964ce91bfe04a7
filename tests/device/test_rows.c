/* The conformance rows on a device with threads, LOCKSTEP_DEVICE: locked results equal `ref` bit for bit, and one row in eight
 * also runs fast and must lie inside the oracle's bound.
 *
 * First the graphs of tests/support/covers.c, one for each template and branch of a launch: what the device has and they did not
 * execute is red in every run.
 *
 * As it is: rows of the covering array of tests/conformance, from a place of this device's own, until LOCKSTEP_SECONDS are
 * over (60). LOCKSTEP_CONFORM=array: all rows of the covering array; sample: random rows of the product until the time is
 * over; full: the product. LOCKSTEP_SHARD=i/n: every n-th of those rows, from the i-th (0 to n-1). LOCKSTEP_ROWS=text: those
 * whose description contains it. A row that the device refuses for a reason counts apart, and the reasons are printed. */
#define _GNU_SOURCE
#include "base/map.h"
#include "base/os.h"
#include "device/device.h"
#include "gpu/gpu.h"
#include "support/covers.h"
#include "support/rows.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_A_CONTEXT = 64, REASONS = 12 };

typedef struct pair {
    ls_context *context;
    ls_device *device, *ref;
    uint32_t launched, possible; /* of emit/cover.def, by contexts that are closed; by any device of this kind */
} pair;

typedef struct tally {
    long run, fast, failed, refused, no_dtype, blind, elements;
    char reasons[REASONS][160];
    long times[REASONS];
    char slowest[256];
    double slowest_s;
} tally;

static const char *device_id(void) {
    const char *id = getenv("LOCKSTEP_DEVICE");
    return id && *id ? id : "sim:2";
}

static void open_pair(pair *p) {
    ls_error err = {.code = LS_OK};
    if (ls_context_create(NULL, &p->context, &err) != LS_OK ||
        ls_device_open(p->context, device_id(), &p->device, &err) != LS_OK ||
        ls_device_open(p->context, "ref", &p->ref, &err) != LS_OK) {
        fail_msg("%s: %s", device_id(), err.message);
    }
}

static void close_pair(pair *p) {
    uint32_t bits;
    ls_gpu_covered(p->device->state, &bits, &p->possible);
    p->launched |= bits;
    ls_context_destroy(p->context);
}

static uint32_t launched(const pair *p) {
    uint32_t bits, possible;
    ls_gpu_covered(p->device->state, &bits, &possible);
    return p->launched | bits;
}

static void complain(tally *t, const row *r, const char *what) {
    char text[256];
    rows_describe(r, text, sizeof text);
    if (t->failed++ < 60) {
        fprintf(stderr, "row {%s}: %s: %s\n", text, device_id(), what);
    }
}

/* Reasons without numbers, so that equal ones meet. */
static void note_refusal(tally *t, const char *message) {
    char plain[160];
    size_t n = 0;
    for (const char *c = message; *c && n + 1 < sizeof plain; c++) {
        if (*c < '0' || *c > '9') {
            plain[n++] = *c;
        } else if (n == 0 || plain[n - 1] != '#') {
            plain[n++] = '#';
        }
    }
    plain[n] = 0;
    t->refused++;
    for (int i = 0; i < REASONS; i++) {
        if (t->times[i] == 0 || strcmp(t->reasons[i], plain) == 0) {
            memcpy(t->reasons[i], plain, n + 1);
            t->times[i]++;
            return;
        }
    }
}

static ls_data *value_of(ls_session *s, const row *r, tally *t, ls_status *out_status) {
    ls_data *data = NULL;
    ls_tensor *tensor = ls_row_build(s, r);
    *out_status = tensor ? ls_data_from_tensor(s, tensor, &data) : ls_session_error(s)->code;
    if (*out_status != LS_OK && *out_status != LS_ERR_UNSUPPORTED) {
        complain(t, r, ls_session_error(s)->message);
    }
    return data;
}

static ls_session *session_on(pair *p, ls_device *device, ls_math math) {
    ls_session *s;
    ls_error err = {.code = LS_OK};
    if (ls_session_create(p->context, device, &s, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    ls_session_set_math(s, math);
    return s;
}

static void run_locked(pair *p, const row *r, tally *t) {
    ls_session *on_device = session_on(p, p->device, LS_LOCKED), *on_ref = session_on(p, p->ref, LS_LOCKED);
    ls_status status;
    ls_data *actual = value_of(on_device, r, t, &status), *expected = NULL;
    ls_report report;
    t->run++;
    if (status == LS_ERR_UNSUPPORTED) {
        note_refusal(t, ls_session_error(on_device)->message);
    } else if (actual) {
        expected = value_of(on_ref, r, t, &status);
        if (expected && ls_compare(expected, actual, &report) != LS_SAME) {
            complain(t, r, report.message);
        }
    }
    ls_data_release(actual);
    ls_data_release(expected);
    ls_session_destroy(on_device);
    ls_session_destroy(on_ref);
}

static void run_fast(pair *p, const row *r, tally *t) {
    ls_session *on_device = session_on(p, p->device, LS_FAST), *on_ref = session_on(p, p->ref, LS_FAST);
    ls_status status;
    ls_data *actual = value_of(on_device, r, t, &status);
    double *middle = NULL, *radius = NULL;
    int64_t n = 0;
    ls_report report;
    t->fast++;
    if (status == LS_ERR_UNSUPPORTED) {
        note_refusal(t, ls_session_error(on_device)->message);
    } else if (actual) {
        ls_tensor *tensor = ls_row_build(on_ref, r);
        if (!tensor || ls_oracle_value(on_ref, tensor, &middle, &radius, &n) != LS_OK) {
            complain(t, r, ls_session_error(on_ref)->message);
        } else {
            if (ls_compare_bound(actual, middle, radius, &report) == LS_DIFFERS) {
                complain(t, r, report.message);
            }
            t->blind += (long)report.blind;
            t->elements += (long)report.elements;
        }
        ls_verify_free(on_ref, middle);
        ls_verify_free(on_ref, radius);
    }
    ls_data_release(actual);
    ls_session_destroy(on_device);
    ls_session_destroy(on_ref);
}

static void run_row(pair *p, const row *r, tally *t) {
    if (!(p->device->caps.dtypes >> r->level[FACTOR_DTYPE] & 1)) {
        t->no_dtype++;
        return;
    }
    uint64_t begin = ls_os_nanoseconds();
    run_locked(p, r, t);
    if (t->run % 8 == 1) {
        run_fast(p, r, t);
    }
    double s = (double)(ls_os_nanoseconds() - begin) * 1e-9;
    if (s > t->slowest_s) {
        t->slowest_s = s;
        rows_describe(r, t->slowest, sizeof t->slowest);
    }
}

/* ---- every template and branch ---- */

/* Locked; and fast, in short runs where locked arithmetic takes another way: a device without subnormals has no tiles then. */
static void run_cover(pair *p, ls_cover cover, ls_math math, tally *t) {
    const ls_gpu_limits *limits = ls_gpu_get_limits(p->device->state);
    ls_session *s[2] = {session_on(p, p->device, math), session_on(p, p->ref, LS_LOCKED)};
    ls_data *data[2] = {NULL, NULL};
    ls_report report = {.message = {0}};
    for (int i = 0; i < 2; i++) {
        ls_tensor *x = covers_build(s[i], cover, limits->n_frags ? limits->frags[0].type : LS_F16);
        if (!x || ls_data_from_tensor(s[i], x, &data[i]) != LS_OK) {
            snprintf(report.message, sizeof report.message, "%.400s", ls_session_error(s[i])->message);
        }
    }
    if (report.message[0] || ls_compare(data[1], data[0], &report) != LS_SAME) {
        fprintf(stderr, "%s, %s: %s: %s\n", ls_cover_text[cover], math == LS_LOCKED ? "locked" : "fast", device_id(), report.message);
        t->failed++;
    }
    for (int i = 0; i < 2; i++) {
        ls_data_release(data[i]);
        ls_session_destroy(s[i]);
    }
}

static void run_covers(pair *p, bool some, tally *t) {
    uint32_t bits, possible;
    ls_gpu_covered(p->device->state, &bits, &possible);
    for (int i = 0; i < LS_COVERS; i++) {
        if (!(possible >> i & 1)) {
            continue;
        }
        uint64_t begin = ls_os_nanoseconds();
        run_cover(p, (ls_cover)i, LS_LOCKED, t);
        double locked = (double)(ls_os_nanoseconds() - begin) * 1e-9;
        if (!some || !(launched(p) >> i & 1)) {
            run_cover(p, (ls_cover)i, LS_FAST, t);
        }
        if (getenv("LOCKSTEP_PRINT")) {
            fprintf(stderr, "%s: %.2f s locked, %.2f s fast%s\n", ls_cover_text[i], locked,
                    (double)(ls_os_nanoseconds() - begin) * 1e-9 - locked, launched(p) >> i & 1 ? "" : ": not executed");
        }
    }
}

/* ---- which rows ---- */

typedef struct choice {
    long index, of, number; /* the shard; rows met so far */
    double seconds;         /* 0: no end */
    uint64_t begin;
    const char *only;
} choice;

static bool over(const choice *c) {
    return c->seconds > 0 && (double)(ls_os_nanoseconds() - c->begin) * 1e-9 > c->seconds;
}

/* Threads and instruction sets are the CPU's: rows that differ in nothing else are one. */
static void take(choice *c, pair *p, const row *r, tally *t) {
    char text[256];
    rows_describe(r, text, sizeof text);
    if (!ls_row_valid(r) || (c->only && !strstr(text, c->only)) || c->number++ % c->of != c->index) {
        return;
    }
    run_row(p, r, t);
    if (t->run % ROWS_A_CONTEXT == ROWS_A_CONTEXT - 1) { /* else kernels pile up */
        close_pair(p);
        open_pair(p);
    }
}

static void run_array(choice *c, pair *p, tally *t, long *out_count) {
    row *list = rows_pairwise(out_count);
    for (long i = *out_count - 1; i > 0; i--) { /* the same shuffle everywhere */
        long j = (long)(ls_hash_u64((uint64_t)i, 5) % (uint64_t)(i + 1));
        row x = list[i];
        list[i] = list[j];
        list[j] = x;
    }
    const char *name = getenv("LOCKSTEP_DRIVER"); /* devices of different drivers begin elsewhere */
    long first = name && c->seconds > 0 ? (long)(ls_hash(name, strlen(name), 1) % (uint64_t)*out_count) : 0;
    for (long i = 0; i < *out_count && (!t->run || !over(c)); i++) {
        take(c, p, &list[(first + i) % *out_count], t);
    }
    free(list);
}

static void run_product(choice *c, pair *p, tally *t) {
    row r = {{0}};
    do {
        if (r.level[FACTOR_THREADS] == 0 && r.level[FACTOR_ISA] == 0) {
            take(c, p, &r, t);
        }
    } while (rows_next(&r) && !over(c));
}

static void run_sample(choice *c, pair *p, tally *t) {
    for (uint64_t n = (uint64_t)c->index * 1000003; !over(c); n++) {
        row r = {{0}};
        for (int f = 0; f < N_FACTORS; f++) {
            r.level[f] = f == FACTOR_THREADS || f == FACTOR_ISA ? 0 : (int)(ls_hash_u64(n, (uint64_t)f) % (uint64_t)rows_levels(f));
        }
        c->number = c->index; /* shards draw other rows */
        take(c, p, &r, t);
    }
}

/* Which templates and branches of launches ran; the number of those that the device has and that did not. */
static int print_cover(uint32_t bits, uint32_t possible) {
    int n = 0, left_out = 0;
    for (int i = 0; i < LS_COVERS; i++) {
        n += bits >> i & 1;
        left_out += possible >> i & ~bits >> i & 1;
    }
    printf("  templates and branches run: %d of %d%s", n, n + left_out, left_out ? "; not run:" : "\n");
    for (int i = 0, more = left_out; i < LS_COVERS; i++) {
        if (possible >> i & ~bits >> i & 1) {
            printf(" %s%s", ls_cover_text[i], --more ? "," : "\n");
        }
    }
    return left_out;
}

static void rows(void **state) {
    (void)state;
    const char *mode = getenv("LOCKSTEP_CONFORM"), *shard = getenv("LOCKSTEP_SHARD"), *seconds = getenv("LOCKSTEP_SECONDS");
    choice c = {.of = 1, .only = getenv("LOCKSTEP_ROWS"), .begin = ls_os_nanoseconds()};
    mode = mode && *mode ? mode : "some";
    bool some = strcmp(mode, "some") == 0, sample = strcmp(mode, "sample") == 0;
    c.seconds = seconds ? atof(seconds) : some || sample ? 60 : 0;
    if (shard && (sscanf(shard, "%ld/%ld", &c.index, &c.of) != 2 || c.of < 1 || c.index < 0 || c.index >= c.of)) {
        fail_msg("LOCKSTEP_SHARD=%s: expected i/n with 0 <= i < n", shard);
    }
    tally t = {0};
    pair p = {0};
    long count = 0, product = rows_product() / rows_levels(FACTOR_THREADS) / rows_levels(FACTOR_ISA);
    setenv("LOCKSTEP_VET", "off", 1); /* the rows are the vet here */
    open_pair(&p);
    if (!c.only && c.index == 0) {
        run_covers(&p, some, &t);
    }
    double covers = (double)(ls_os_nanoseconds() - c.begin) * 1e-9;
    if (some || strcmp(mode, "array") == 0) {
        run_array(&c, &p, &t, &count);
    } else if (sample) {
        run_sample(&c, &p, &t);
    } else if (strcmp(mode, "full") == 0) {
        run_product(&c, &p, &t);
    } else {
        fail_msg("LOCKSTEP_CONFORM=%s: expected array, sample or full", mode);
    }
    printf("%s (%s, %s)\n", device_id(), p.device->caps.name, p.device->caps.driver);
    printf("a graph for each template and branch: %.1f s\n", covers);
    printf("rows run: %ld of %ld in the covering array and %ld in the product; %ld also fast; failed: %ld; refused: %ld; "
           "of a dtype that the device lacks: %ld; blind elements: %ld of %ld; %.1f s\n",
           t.run, count, product, t.fast, t.failed, t.refused, t.no_dtype, t.blind, t.elements,
           (double)(ls_os_nanoseconds() - c.begin) * 1e-9);
    for (int i = 0; i < REASONS && t.times[i]; i++) {
        printf("  refused %ld times: %s\n", t.times[i], t.reasons[i]);
    }
    printf("  slowest row: {%s}, %.2f s\n", t.slowest, t.slowest_s);
    close_pair(&p);
    int left_out = print_cover(p.launched, p.possible);
    assert_true(t.run > 0);
    assert_int_equal(t.failed, 0);
    if (!c.only && c.index == 0) {
        assert_int_equal(left_out, 0);
    }
    assert_true(t.refused * 10 <= t.run); /* a device that refuses everything has shown nothing */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows)};
    return cmocka_run_group_tests_name("device rows", tests, NULL, NULL);
}
