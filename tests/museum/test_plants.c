/* A check is worth what it catches: every fault, planted, is found by its own case, with a message that says
 * where. Without it the case passes (test_museum). Also a barrier removed from a kernel's body, which the
 * interpreter finds. */
#include "support/plants.h"
#include <lockstep/check.h>
#include <stdio.h>
#include <string.h>

static int catches(const char *device, bool say) {
    const char *fault, *where;
    int missed = 0;
    for (int i = 0; ls_museum_fault(i, &fault, NULL, &where); i++) {
        world w = world_open(device);
        missed += !plants_caught(&w, fault, where, say);
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
