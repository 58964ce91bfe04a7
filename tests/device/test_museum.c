/* The museum on a device with threads, LOCKSTEP_DEVICE: every case passes, locked and fast; every fault, planted in its kernels,
 * is caught by its own case, with a message that names device, kernel, node, element, what was expected and what came. */
#define _GNU_SOURCE
#include "base/os.h"
#include "support/world.h"
#include <lockstep/check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct seen {
    int failed, others;
    char message[LS_MESSAGE_MAX];
} seen;

static world w;

static int setup(void **state) {
    const char *id = getenv("LOCKSTEP_DEVICE");
    (void)state;
    setenv("LOCKSTEP_VET", "off", 1); /* every kernel of the museum is compared with `ref` as it runs */
    w = world_open(id && *id ? id : "sim:2");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    world_close(&w);
    return 0;
}

static void say(void *user, const ls_case_result *r) {
    (void)user;
    if (r->seconds > 5 || r->state != LS_CASE_PASSED) {
        printf("  %s %s %s: %s, %.2f s%s%s\n", w.id, r->name, r->math == LS_LOCKED ? "locked" : "fast",
               r->state == LS_CASE_PASSED   ? "passed"
               : r->state == LS_CASE_FAILED ? "FAILED"
                                            : "skipped",
               r->seconds, r->message[0] ? ": " : "", r->message);
        fflush(stdout);
    }
}

static void passes(void **state) {
    (void)state;
    ls_error err = {.code = LS_OK};
    ls_case_totals totals;
    uint64_t begin = ls_os_nanoseconds();
    int cases = 0;
    while (ls_museum_case(cases, NULL, NULL)) {
        cases++;
    }
    assert_true(cases >= 35);
    if (ls_museum_run(w.context, w.device, NULL, NULL, say, NULL, &totals, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    printf("%s (%s): museum: %d passed, %d failed, %d skipped, %.1f s\n", w.id, ls_device_caps(w.device)->name, totals.passed,
           totals.failed, totals.skipped, (double)(ls_os_nanoseconds() - begin) * 1e-9);
    assert_int_equal(totals.failed, 0);
    assert_int_equal(totals.passed + totals.skipped, 2 * cases);
    assert_true(totals.skipped * 10 <= totals.passed);
}

static void note(void *user, const ls_case_result *r) {
    seen *s = user;
    s->failed += r->state == LS_CASE_FAILED;
    s->others += r->state != LS_CASE_FAILED;
    if (r->state == LS_CASE_FAILED) {
        snprintf(s->message, sizeof s->message, "%s", r->message);
    }
}

/* Where no kernel is at fault, none can be named. */
static bool names_no_kernel(const char *fault) {
    return strcmp(fault, "abort") == 0 || strcmp(fault, "bad-parameters-accepted") == 0;
}

static void catches_planted_faults(void **state) {
    (void)state;
    const char *fault, *where;
    int missed = 0, n = 0;
    uint64_t begin = ls_os_nanoseconds();
    for (; ls_museum_fault(n, &fault, NULL, &where); n++) {
        ls_error err = {.code = LS_OK};
        seen s = {0};
        if (ls_museum_run(w.context, w.device, NULL, fault, note, &s, NULL, &err) != LS_OK) {
            fail_msg("%s: %s", fault, err.message);
        }
        bool named = strstr(s.message, w.id) &&
                     (names_no_kernel(fault) || (strstr(s.message, "kernel") && strstr(s.message, "node") &&
                                                 strstr(s.message, "expected") && strstr(s.message, "got")));
        if (!named || s.failed != 2 || s.others != 0) {
            printf("%s %-28s %-24s caught %d of 2%s: %s\n", w.id, fault, where, s.failed, named ? "" : " BUT BADLY NAMED",
                   s.message);
            missed++;
        }
    }
    printf("%s: %d of %d planted faults caught and named, %.1f s\n", w.id, n - missed, n,
           (double)(ls_os_nanoseconds() - begin) * 1e-9);
    assert_true(n > 0);
    assert_int_equal(missed, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(passes, setup, teardown),
                                       cmocka_unit_test_setup_teardown(catches_planted_faults, setup, teardown)};
    return cmocka_run_group_tests_name("device museum", tests, NULL, NULL);
}
