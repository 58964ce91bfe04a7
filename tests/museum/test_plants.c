/* A check is worth what it catches: every fault, planted, is found by its own case, with a message that says
 * where. Without it the case passes (test_museum). Also a barrier removed from a kernel's body, which the
 * interpreter finds. */
#include "support/world.h"
#include <lockstep/check.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct seen {
    int failed, others;
    char message[LS_MESSAGE_MAX];
} seen;

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

static int catches(const char *device, bool say) {
    const char *fault, *about, *where;
    int missed = 0;
    for (int i = 0; ls_museum_fault(i, &fault, &about, &where); i++) {
        world w = world_open(device);
        ls_error err = {.code = LS_OK};
        seen s = {0};
        if (ls_museum_run(w.context, w.device, NULL, fault, note, &s, NULL, &err) != LS_OK) {
            fail_msg("%s: %s", fault, err.message);
        }
        bool named = strstr(s.message, device) &&
                     (names_no_kernel(fault) || (strstr(s.message, "kernel") && strstr(s.message, "node") &&
                                                 strstr(s.message, "expected") && strstr(s.message, "got")));
        bool expected = s.failed == 2 && s.others == 0;
        if (say || !named || !expected) {
            printf("%s %-28s %-24s caught %d of 2%s: %s\n", device, fault, where, s.failed,
                   named ? "" : " BUT BADLY NAMED", s.message);
        }
        missed += !named || !expected;
        world_close(&w);
    }
    return missed;
}

static void on_cpu(void **state) {
    (void)state;
    assert_int_equal(catches("cpu", true), 0);
}
/* The reference itself is held by the oracle, the contract's rules and literal values. */
static void on_ref(void **state) {
    (void)state;
    assert_int_equal(catches("ref", false), 0);
}

static void each_case_has_a_fault(void **state) {
    (void)state;
    static const char *const without[] = {"0c-shared-memory"}; /* needs a device with shared memory */
    const char *name, *where;
    for (int i = 0; ls_museum_case(i, &name, NULL); i++) {
        bool found = strncmp(name, "row-", 4) == 0 || strcmp(name, without[0]) == 0;
        for (int f = 0; ls_museum_fault(f, NULL, NULL, &where); f++) {
            found |= strcmp(where, name) == 0;
        }
        if (!found) {
            fail_msg("no fault is planted for case %s", name);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_cpu), cmocka_unit_test(on_ref),
                                       cmocka_unit_test(each_case_has_a_fault)};
    return cmocka_run_group_tests_name("plants", tests, NULL, NULL);
}
