/* Every case of the museum on every device of this build, locked and fast. */
#include "base/alloc.h"
#include "device/device.h"
#include "support/world.h"
#include <lockstep/check.h>
#include <stdio.h>
#include <string.h>

static void note(void *user, const ls_case_result *r) {
    const char *device = user;
    if (r->seconds > 1 || r->state != LS_CASE_PASSED) {
        printf("  %s %s %s: %s, %.2f s%s%s\n", device, r->name, r->math == LS_LOCKED ? "locked" : "fast",
               r->state == LS_CASE_PASSED   ? "passed"
               : r->state == LS_CASE_FAILED ? "FAILED"
                                            : "skipped",
               r->seconds, r->message[0] ? ": " : "", r->message);
    }
}

static void runs(const char *device) {
    world w = world_open(device);
    ls_error err = {.code = LS_OK};
    ls_case_totals totals;
    int cases = 0;
    while (ls_museum_case(cases, NULL, NULL)) {
        cases++;
    }
    assert_true(cases >= 35);
    if (ls_museum_run(w.context, w.device, NULL, NULL, note, (void *)device, &totals, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    printf("%s: %d passed, %d failed, %d skipped\n", device, totals.passed, totals.failed, totals.skipped);
    assert_int_equal(totals.failed, 0);
    assert_int_equal(totals.passed + totals.skipped, 2 * cases);
    assert_true(totals.skipped <= 2); /* 0c alone */
    world_close(&w);
}

static void on_ref(void **state) {
    (void)state;
    runs("ref");
}
static void on_cpu(void **state) {
    (void)state;
    runs("cpu");
}

static void leaves_the_context_as_it_was(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_error err = {.code = LS_OK};
    ls_case_totals totals;
    assert_int_equal(ls_museum_run(w.context, w.device, "3-one-device", "second-operand-dropped", NULL, NULL,
                                   &totals, &err),
                     LS_OK);
    assert_int_equal(totals.failed, 2);
    float a = 1, b = 2, c = 0; /* the same kernel, no longer planted */
    world_ok(&w, ls_read(w.session,
                         ls_add(w.session, ls_tensor_from(w.session, LS_F32, LS_SHAPE(1), &a),
                                ls_tensor_from(w.session, LS_F32, LS_SHAPE(1), &b)),
                         &c, sizeof c));
    assert_true(c == 3);
    world_close(&w);
}

/* Each allocation fails once: an error or a failed case, and everything is given back. */
static void out_of_memory(void **state) {
    (void)state;
    static const char *const cases[] = {"1-swap-dims", "4a-im2col-plane", "3-two-devices"};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        bool whole = false;
        for (long n = 0; !whole && n < 20000; n += 1 + n / 40) {
            world w = world_open("cpu");
            ls_heap *heap = ls_context_heap(w.context);
            ls_error err = {.code = LS_OK};
            ls_case_totals totals = {0};
            atomic_store(&heap->fail_after, n);
            ls_status status = ls_museum_run(w.context, w.device, cases[c], NULL, NULL, NULL, &totals, &err);
            whole = atomic_load(&heap->fail_after) >= 0;
            atomic_store(&heap->fail_after, -1);
            assert_true(status == LS_OK || status == LS_ERR_MEMORY);
            assert_true(!whole || (status == LS_OK && totals.passed == 2));
            world_close(&w);
        }
        assert_true(whole);
    }
}

/* A device that has not answered yet: the call ends with that, no case fails by it, and the call made again ends well. */
static const ls_backend *patient;
static int waits;
static ls_status launch_later(ls_device *device, ls_kernel_binary *binary, ls_launch *launch, ls_error *err) {
    if (waits > 0) {
        waits--;
        return LS_FAIL(err, LS_ERR_AGAIN, "not yet");
    }
    return patient->launch(device, binary, launch, err);
}

static void count_function(void *user, const ls_ulp_result *r) {
    assert_true(r->most <= r->bound);
    ++*(int *)user;
}

static void no_answer_is_no_failure(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_error err = {.code = LS_OK};
    ls_case_totals totals;
    int rounds = 0, beyond = 0, functions = 0;
    assert_int_equal(ls_device_certify(w.device, &err), LS_OK);
    patient = w.device->backend;
    ls_backend late = *patient;
    late.launch = launch_later;
    w.device->backend = &late;
    for (waits = 5; ls_museum_run(w.context, w.device, "1-swap-dims", NULL, NULL, NULL, &totals, &err) != LS_OK; rounds++) {
        assert_int_equal(err.code, LS_ERR_AGAIN);
        assert_non_null(strstr(err.message, "1-swap-dims: cpu: "));
        assert_int_equal(totals.passed + totals.failed + totals.skipped, 0);
        ls_error_clear(&err);
    }
    assert_int_equal(rounds, 3); /* two are met in a round: locked and fast */
    assert_int_equal(totals.passed, 2);
    for (waits = 1, rounds = 0; ls_ulps_measure(w.context, w.device, count_function, &functions, &beyond, &err) != LS_OK; rounds++) {
        assert_int_equal(err.code, LS_ERR_AGAIN);
        assert_int_equal(functions, 0);
        ls_error_clear(&err);
    }
    assert_int_equal(rounds, 1);
    assert_true(functions > 0 && functions % 2 == 0 && beyond == 0);
    w.device->backend = patient;
    world_close(&w);
}

static void wrong_names(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_error err = {.code = LS_OK};
    assert_int_equal(ls_museum_run(w.context, w.device, "no-such-*", NULL, NULL, NULL, NULL, &err),
                     LS_ERR_INVALID);
    assert_non_null(strstr(err.message, "no-such-*"));
    ls_error_clear(&err);
    assert_int_equal(ls_museum_run(w.context, w.device, NULL, "no-such-fault", NULL, NULL, NULL, &err),
                     LS_ERR_INVALID);
    assert_non_null(strstr(err.message, "no-such-fault"));
    ls_error_clear(&err);
    assert_int_equal(ls_museum_run(w.context, NULL, NULL, NULL, NULL, NULL, NULL, &err), LS_ERR_INVALID);
    assert_false(ls_museum_case(-1, NULL, NULL));
    assert_false(ls_museum_fault(-1, NULL, NULL, NULL));
    assert_false(ls_museum_fault(1000, NULL, NULL, NULL));
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_cpu), cmocka_unit_test(on_ref),
                                       cmocka_unit_test(leaves_the_context_as_it_was),
                                       cmocka_unit_test(out_of_memory),
                                       cmocka_unit_test(no_answer_is_no_failure), cmocka_unit_test(wrong_names)};
    return cmocka_run_group_tests_name("museum", tests, NULL, NULL);
}
