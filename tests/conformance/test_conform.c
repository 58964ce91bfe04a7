/* ls_conform_row and ls_conform_run: which rows they are, what they catch, and what they leave to the caller. */
#include "engine/session.h"
#include "support/world.h"
#include "verify/rows.h"
#include <lockstep/check.h>
#include <stdio.h>
#include <string.h>

typedef struct seen {
    int count, failed, first; /* first: the number of the first failure */
    ls_math math;
    char names[LS_CONFORM_ROWS][LS_ROW_TEXT];
    char message[LS_MESSAGE_MAX]; /* of the first failure */
} seen;

static void note(void *user, const ls_row_result *r) {
    seen *s = user;
    assert_int_equal(r->number, s->count);
    assert_true((r->message[0] == 0) == (r->state == LS_CASE_PASSED));
    s->math = r->math;
    snprintf(s->names[s->count++], LS_ROW_TEXT, "%s", r->name);
    if (r->state == LS_CASE_FAILED && s->failed++ == 0) {
        s->first = r->number;
        snprintf(s->message, sizeof s->message, "%s", r->message);
    }
}

static bool has_subject(const seen *s, const char *subject) {
    for (int i = 0; i < s->count; i++) {
        size_t n = strlen(subject);
        if (strncmp(s->names[i], subject, n) == 0 && s->names[i][n] == ' ') {
            return true;
        }
    }
    return false;
}

static void every_operation_passes(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_error err = {.code = LS_OK};
    ls_case_totals totals;
    seen s = {.count = 0};
    char buf[LS_ROW_LEVEL_TEXT];
    ls_row_result r;
    assert_int_equal(ls_conform_run(w.context, w.device, NULL, note, &s, &totals, &err), LS_OK);
    printf("%d passed, %d failed, %d skipped\n", totals.passed, totals.failed, totals.skipped);
    assert_int_equal(totals.passed, LS_CONFORM_ROWS);
    assert_int_equal(s.count, LS_CONFORM_ROWS);
    assert_int_equal(s.math, LS_LOCKED);
    for (int i = 0; i < ls_row_levels(LS_ROW_SUBJECT); i++) {
        const char *subject = ls_row_level_name(LS_ROW_SUBJECT, i, buf);
        if (!has_subject(&s, subject)) {
            fail_msg("no row has %s", subject);
        }
    }
    for (int i = 0; i < LS_CONFORM_ROWS; i += 61) { /* a row is its number, whatever ran before */
        assert_int_equal(ls_conform_row(w.context, w.device, NULL, i, &r, &err), LS_OK);
        assert_string_equal(r.name, s.names[i]);
        assert_int_equal(r.state, LS_CASE_PASSED);
    }
    ls_conform_options other = {.math = LS_LOCKED, .seed = 7};
    assert_int_equal(ls_conform_row(w.context, w.device, &other, 0, &r, &err), LS_OK);
    assert_string_not_equal(r.name, s.names[0]);
    world_close(&w);
}

/* Pairs of levels in 150 rows: chosen ones show more than as many drawn at random. */
static long covered(bool chosen) {
    int levels[LS_ROW_FACTORS];
    long pairs = 0;
    ls_heap heap;
    ls_covering c;
    ls_heap_init(&heap, NULL, 0);
    for (int f = 0; f < LS_ROW_FACTORS; f++) {
        levels[f] = ls_row_levels(f);
    }
    assert_true(ls_covering_init(&c, &heap, LS_ROW_FACTORS, levels, 5));
    for (int i = 0; i < 150; i++) {
        ls_row row = {{i % levels[LS_ROW_SUBJECT]}};
        do {
            for (int f = 1; f < LS_ROW_FACTORS; f++) {
                row.level[f] = (int)(ls_row_random(&c.state) % (uint64_t)levels[f]);
            }
        } while (!ls_row_valid(&row));
        if (chosen) {
            assert_true(ls_covering_complete(&c, &row, LS_ROW_SUBJECT, LS_ROW_SUBJECT));
            assert_true(ls_row_valid(&row));
        }
        for (int j = 0; j < LS_ROW_FACTORS; j++) {
            for (int k = j + 1; k < LS_ROW_FACTORS; k++) {
                c.seen[(c.first[j] + row.level[j]) * c.total + c.first[k] + row.level[k]] = 1;
                assert_true(ls_covering_has(&c, j, row.level[j], k, row.level[k]));
            }
        }
    }
    for (int i = 0; i < c.total * c.total; i++) {
        pairs += c.seen[i];
    }
    ls_covering_free(&c);
    return pairs;
}

static void rows_cover_pairs(void **state) {
    (void)state;
    long chosen = covered(true), random = covered(false);
    printf("pairs of properties in 150 rows: %ld chosen, %ld at random\n", chosen, random);
    assert_true(chosen > random + random / 20);
}

/* Matrix products that store zeros: rows of products fail, by bits when locked, by bound when fast; others do not. */
static void a_fault_is_caught(void **state) {
    (void)state;
    for (int math = LS_LOCKED; math <= LS_FAST; math++) {
        world w = world_open("cpu");
        ls_error err = {.code = LS_OK};
        ls_conform_options options = {.math = (ls_math)math, .rows = 60, .plant = "zero-matmul"};
        ls_case_totals totals;
        seen s = {.count = 0};
        ls_row_result r;
        assert_int_equal(ls_conform_run(w.context, w.device, &options, note, &s, &totals, &err), LS_OK);
        printf("zero-matmul: %d of %d rows failed, the first: %s\n", totals.failed, s.count, s.message);
        assert_true(totals.failed > 0 && totals.failed < 20 && totals.passed > 20);
        assert_int_equal(s.failed, totals.failed);
        assert_non_null(strstr(s.message, math == LS_LOCKED ? "against ref: " : "against the oracle: "));
        assert_non_null(strstr(s.message, "expected"));
        options.plant = NULL; /* the context is as it was */
        assert_int_equal(ls_conform_row(w.context, w.device, &options, s.first, &r, &err), LS_OK);
        assert_int_equal(r.state, LS_CASE_PASSED);
        options.plant = "no-such-fault";
        assert_int_equal(ls_conform_row(w.context, w.device, &options, 0, &r, &err), LS_ERR_INVALID);
        world_close(&w);
    }
}

static ls_status interrupt(void *user, ls_arena *arena, const ls_spec *spec, ls_spec *out_spec, ls_error *err) {
    (void)arena;
    int *left = user;
    if ((*left)-- > 0) {
        return LS_FAIL(err, LS_ERR_AGAIN, "not yet");
    }
    *out_spec = *spec;
    return LS_OK;
}

/* A status that says nothing of the device comes through, and the same call made again ends well. */
static void no_answer_is_no_failure(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_error err = {.code = LS_OK};
    int left = 0, rounds = 0;
    ls_spec_fault fault = {w.device, interrupt, &left};
    ls_conform_options options = {.math = LS_FAST, .rows = 3};
    ls_case_totals totals = {0};
    ls_row_result r;
    assert_int_equal(ls_device_certify(w.device, &err), LS_OK);
    ls_engine_set_fault(w.context, &fault);
    left = 1;
    assert_int_equal(ls_conform_row(w.context, w.device, &options, 2, &r, &err), LS_ERR_AGAIN);
    assert_non_null(strstr(err.message, "row 2 {"));
    ls_error_clear(&err);
    assert_int_equal(ls_conform_row(w.context, w.device, &options, 2, &r, &err), LS_OK);
    assert_int_equal(r.state, LS_CASE_PASSED);
    left = 4;
    while (ls_conform_run(w.context, w.device, &options, NULL, NULL, &totals, &err) != LS_OK) {
        assert_int_equal(err.code, LS_ERR_AGAIN);
        assert_int_equal(totals.failed, 0);
        assert_true(++rounds < 10);
        ls_error_clear(&err);
    }
    assert_true(rounds > 0);
    assert_int_equal(totals.passed + totals.skipped, 3);
    ls_engine_set_fault(w.context, NULL);
    world_close(&w);
}

static void a_refused_device_computes_fast(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_error err = {.code = LS_OK};
    ls_row_result r;
    w.device->locked = -1;
    assert_int_equal(ls_conform_row(w.context, w.device, NULL, 0, &r, &err), LS_OK);
    assert_int_equal(r.math, LS_FAST);
    assert_true(r.elements > 0);
    world_close(&w);
}

static void skips_say_why(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_error err = {.code = LS_OK};
    ls_conform_options options = {.math = LS_LOCKED, .rows = 10};
    ls_case_totals totals;
    ls_row_result r;
    w.device->caps.dtypes = 0;
    assert_int_equal(ls_conform_row(w.context, w.device, &options, 4, &r, &err), LS_OK);
    assert_int_equal(r.state, LS_CASE_SKIPPED);
    assert_non_null(strstr(r.message, "cpu has no "));
    assert_int_equal(ls_conform_run(w.context, w.device, &options, NULL, NULL, &totals, &err), LS_ERR_UNSUPPORTED);
    assert_int_equal(totals.skipped, 10);
    assert_non_null(strstr(err.message, "no row ran on cpu, 10 skipped, the last because cpu has no "));
    world_close(&w);
}

static void ends_in_time(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_error err = {.code = LS_OK};
    ls_conform_options options = {.math = LS_LOCKED, .seconds = 1e-9};
    ls_case_totals totals;
    assert_int_equal(ls_conform_run(w.context, w.device, &options, NULL, NULL, &totals, &err), LS_OK);
    assert_int_equal(totals.passed, 1);
    world_close(&w);
}

static void wrong_arguments(void **state) {
    (void)state;
    world w = world_open("cpu"), other = world_open("cpu");
    ls_error err = {.code = LS_OK};
    ls_conform_options options = {.rows = -3};
    ls_row_result r;
    assert_int_equal(ls_conform_row(w.context, other.device, NULL, 0, &r, &err), LS_ERR_INVALID);
    ls_error_clear(&err);
    assert_int_equal(ls_conform_row(w.context, w.device, NULL, -1, &r, &err), LS_ERR_INVALID);
    assert_non_null(strstr(err.message, "row -1"));
    ls_error_clear(&err);
    assert_int_equal(ls_conform_run(w.context, w.device, &options, NULL, NULL, NULL, &err), LS_ERR_INVALID);
    assert_non_null(strstr(err.message, "-3 rows"));
    world_close(&w);
    world_close(&other);
}

/* Each allocation fails once: an error, no finding, and everything is given back. */
static void out_of_memory(void **state) {
    (void)state;
    for (int row = 0; row < 9; row += 4) {
        bool whole = false;
        for (long n = 0; !whole && n < 20000; n += 1 + n / 20) {
            world w = world_open("cpu");
            ls_heap *heap = ls_context_heap(w.context);
            ls_error err = {.code = LS_OK};
            ls_row_result r;
            atomic_store(&heap->fail_after, n);
            ls_status status = ls_conform_row(w.context, w.device, NULL, row, &r, &err);
            whole = atomic_load(&heap->fail_after) >= 0;
            atomic_store(&heap->fail_after, -1);
            assert_true(status == (whole ? LS_OK : LS_ERR_MEMORY) || (status == LS_OK && r.state == LS_CASE_PASSED));
            assert_int_equal(status, err.code);
            world_close(&w);
        }
        assert_true(whole);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_passes),         cmocka_unit_test(rows_cover_pairs), cmocka_unit_test(a_fault_is_caught),
        cmocka_unit_test(no_answer_is_no_failure),        cmocka_unit_test(skips_say_why),    cmocka_unit_test(ends_in_time),
        cmocka_unit_test(a_refused_device_computes_fast), cmocka_unit_test(wrong_arguments),  cmocka_unit_test(out_of_memory)};
    return cmocka_run_group_tests_name("conform", tests, NULL, NULL);
}
