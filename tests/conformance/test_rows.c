/* The conformance rows: `ref` inside the oracle's radius, and `cpu` equal to `ref` bit for bit. On integers every linear operation is
 * exact in every kind of arithmetic, so there the oracle's middle itself must be met. Run as it is: a covering array in which every pair
 * of factor levels stands. With LOCKSTEP_CONFORM=full: every row of the product; LOCKSTEP_SHARD=i/n: every n-th of them, from the i-th (0
 * to n - 1); LOCKSTEP_SECONDS=s: until so long is over. LOCKSTEP_ROWS=text runs the rows whose description contains it. */
#include "support/rows.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct tally {
    long run, failed, blind, elements;
} tally;

static void complain(tally *t, const row *r, const char *who, const char *what) {
    char text[256];
    rows_describe(r, text, sizeof text);
    if (t->failed++ < 400) {
        fprintf(stderr, "row {%s}: %s: %s\n", text, who, what);
    }
}

/* The value of a row on a device; NULL, with a complaint, when there is none. */
static ls_data *value_of(world *w, const row *r, tally *t, ls_tensor **out_tensor) {
    ls_data *data = NULL;
    *out_tensor = ls_row_build(w->session, r);
    if (!*out_tensor || ls_data_from_tensor(w->session, *out_tensor, &data) != LS_OK) {
        complain(t, r, w->id, ls_session_error(w->session)->message);
        return NULL;
    }
    return data;
}

static void run_row(const row *r, tally *t, int with_oracle) {
    world ref = world_open("ref"), cpu = world_open_with("cpu", rows_threads(r), rows_isa(r));
    ls_tensor *on_ref, *on_cpu;
    ls_data *expected = value_of(&ref, r, t, &on_ref), *actual = value_of(&cpu, r, t, &on_cpu);
    ls_report report;
    t->run++;
    if (expected && actual && ls_compare(expected, actual, &report) != LS_SAME) {
        complain(t, r, "cpu against ref", report.message);
    }
    double *middle = NULL, *radius = NULL;
    int64_t n = 0;
    if (expected && with_oracle) {
        world again = world_open("ref"); /* leaves alone have values there, so that the oracle walks the whole graph */
        ls_tensor *tensor = ls_row_build(again.session, r);
        if (!tensor || ls_oracle_value(again.session, tensor, &middle, &radius, &n) != LS_OK) {
            complain(t, r, "oracle", ls_session_error(again.session)->message);
        } else if (ls_compare_bound(expected, middle, radius, &report) == LS_DIFFERS) {
            complain(t, r, "ref against the oracle", report.message);
        }
        t->blind += (long)report.blind;
        t->elements += (long)report.elements;
        ls_verify_free(again.session, middle);
        ls_verify_free(again.session, radius);
        world_close(&again);
    }
    ls_data_release(expected);
    ls_data_release(actual);
    world_close(&ref);
    world_close(&cpu);
}

static void rows(void **state) {
    (void)state;
    const char *mode = getenv("LOCKSTEP_CONFORM"), *only = getenv("LOCKSTEP_ROWS");
    const char *shard = getenv("LOCKSTEP_SHARD"), *seconds = getenv("LOCKSTEP_SECONDS");
    int full = mode && strcmp(mode, "full") == 0;
    long count = 0, index = 0, of = 1, met = 0;
    time_t end = seconds ? time(NULL) + atol(seconds) : 0;
    if (shard && (sscanf(shard, "%ld/%ld", &index, &of) != 2 || of < 1 || index < 0 || index >= of)) {
        fail_msg("LOCKSTEP_SHARD=%s: expected i/n with 0 <= i < n", shard);
    }
    tally t = {0, 0, 0, 0};
    row *list = full ? NULL : rows_pairwise(&count), r = {{0}};
    for (long i = 0; full || i < count; i++) {
        row *at = full ? &r : &list[i];
        char text[256];
        rows_describe(at, text, sizeof text);
        if (ls_row_valid(at) && (!only || strstr(text, only)) && met++ % of == index) {
            run_row(at, &t, 1);
        }
        if (end && time(NULL) > end) {
            break;
        }
        if (full && !rows_next(&r)) {
            break;
        }
    }
    free(list);
    printf("rows run: %ld of %ld in the product; failed: %ld; blind elements: %ld of %ld\n", t.run, rows_product(), t.failed, t.blind,
           t.elements);
    assert_true(t.run > 0);
    assert_int_equal(t.failed, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows)};
    return cmocka_run_group_tests_name("rows", tests, NULL, NULL);
}
