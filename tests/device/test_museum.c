/* The museum on a device with threads, LOCKSTEP_DEVICE: every case passes, locked and fast; every fault, planted in its kernels,
 * is caught by its own case, with a message that names device, kernel, node, element, what was expected and what came.
 *
 * With LOCKSTEP_SECONDS, cases and faults are taken in an order of this driver's own until the time is over, a half for each:
 * the five failures that the museum is named after come first. */
#define _GNU_SOURCE
#include "base/map.h"
#include "base/os.h"
#include "support/plants.h"
#include <lockstep/check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* What each of the five users met. */
static const char *const first_cases[] = {"0-fc1-zeros", "1-swap-dims", "2-filter-layout", "3-one-device", "4a-im2col-plane"};

/* Minutes on a software device: left out below MINUTES of time. */
static const char *const long_cases[] = {"0b-tail-rows", "0c-shared-memory", "1a-permutations", "2a-filter-orders", "2b-weight-gradient"};
enum { MINUTES = 200 };

static double budget(void) {
    const char *seconds = getenv("LOCKSTEP_SECONDS"), *mode = getenv("LOCKSTEP_CONFORM");
    return seconds && !(mode && strcmp(mode, "full") == 0) ? atof(seconds) : 1e9;
}

static bool is_among(const char *name, const char *const *list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (strcmp(name, list[i]) == 0) {
            return true;
        }
    }
    return false;
}
static bool is_first(const char *name) {
    return is_among(name, first_cases, sizeof first_cases / sizeof *first_cases);
}
static bool is_too_long(const char *name) {
    return budget() < MINUTES && is_among(name, long_cases, sizeof long_cases / sizeof *long_cases);
}

/* Number `step` of 0 to n - 1 in this driver's order. */
static int in_order(int step, int n) {
    const char *driver = getenv("LOCKSTEP_DRIVER");
    uint64_t h = driver ? ls_hash(driver, strlen(driver), 3) : 0;
    int stride = 7;
    while (n % stride == 0) {
        stride += 2;
    }
    return (int)((h + (uint64_t)step * (uint64_t)stride) % (uint64_t)n);
}

static double since(uint64_t begin) {
    return (double)(ls_os_nanoseconds() - begin) * 1e-9;
}

static void passes(void **state) {
    (void)state;
    ls_error err = {.code = LS_OK};
    ls_case_totals all = {0};
    uint64_t begin = ls_os_nanoseconds();
    int cases = 0, run = 0;
    while (ls_museum_case(cases, NULL, NULL)) {
        cases++;
    }
    assert_true(cases >= 35);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < cases; i++) {
            const char *name;
            ls_case_totals one = {0};
            (void)ls_museum_case(in_order(i, cases), &name, NULL);
            if (is_first(name) != (pass == 0) || is_too_long(name) || (pass && since(begin) > budget() / 2)) {
                continue;
            }
            if (ls_museum_run(w.context, w.device, name, NULL, say, NULL, &one, &err) != LS_OK) {
                fail_msg("%s: %s", name, err.message);
            }
            all.passed += one.passed;
            all.failed += one.failed;
            all.skipped += one.skipped;
            run++;
        }
    }
    printf("%s (%s): museum: %d of %d cases, %d passed, %d failed, %d skipped, %.1f s\n", w.id, ls_device_caps(w.device)->name,
           run, cases, all.passed, all.failed, all.skipped, since(begin));
    assert_int_equal(all.failed, 0);
    assert_int_equal(all.passed + all.skipped, 2 * run);
    assert_true(all.passed >= 2 && all.skipped <= 2 + all.passed / 10);
}

static void catches_planted_faults(void **state) {
    (void)state;
    const char *fault, *where;
    int missed = 0, faults = 0, run = 0;
    uint64_t begin = ls_os_nanoseconds();
    while (ls_museum_fault(faults, NULL, NULL, NULL)) {
        faults++;
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < faults; i++) {
            (void)ls_museum_fault(in_order(i, faults), &fault, NULL, &where);
            if (is_first(where) != (pass == 0) || is_too_long(where) || (pass && since(begin) > budget() / 2)) {
                continue;
            }
            run++;
            missed += !plants_caught(&w, fault, where, false);
        }
    }
    printf("%s: %d of %d planted faults caught and named (of %d), %.1f s\n", w.id, run - missed, run, faults, since(begin));
    assert_true(run > 0);
    assert_int_equal(missed, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(passes, setup, teardown),
                                       cmocka_unit_test_setup_teardown(catches_planted_faults, setup, teardown)};
    return cmocka_run_group_tests_name("device museum", tests, NULL, NULL);
}
