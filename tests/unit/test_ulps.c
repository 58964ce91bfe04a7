/* The measured errors of elementary functions: within their bounds on the host, and beyond them where a function is wrong. */
#include "support/planted.h"
#include <lockstep/check.h>
#include <string.h>

typedef struct seen {
    int locked, fast, beyond;
    double most_of_exp;
} seen;

static void note(void *user, const ls_ulp_result *r) {
    seen *s = user;
    s->locked += r->math == LS_LOCKED;
    s->fast += r->math == LS_FAST;
    s->beyond += r->most > r->bound;
    assert_in_range(r->inputs, 1000, 65536);
    assert_true(r->most > 0.3); /* nothing here is exact: zero would be a check that sees nothing */
    if (strcmp(r->function, "exp") == 0 && r->math == LS_LOCKED) {
        s->most_of_exp = r->most;
    }
}

static seen measure(world *w) {
    seen s = {0};
    int beyond;
    ls_error err = {.code = LS_OK};
    if (ls_ulps_measure(w->context, w->device, note, &s, &beyond, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(beyond, s.beyond);
    return s;
}

static void within_bounds(void **state) {
    (void)state;
    world w = world_open("cpu");
    seen s = measure(&w);
    assert_int_equal(s.locked, 21);
    assert_int_equal(s.fast, 21);
    assert_int_equal(s.beyond, 0);
    world_close(&w);
}

static void swap(ls_spec *spec, const char *strategy) {
    (void)strategy;
    for (int i = 0; i < spec->n_values; i++) {
        if (spec->values[i].op == LS_V_MAP && spec->values[i].map == LS_OP_EXP) {
            spec->values[i].map = LS_OP_EXP2;
        }
    }
}

static void a_wrong_function_is_seen(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_error err;
    assert_int_equal(ls_device_certify(w.device, &err), LS_OK); /* before it goes wrong */
    planted_on(w.device);
    planted.fault = swap;
    seen s = measure(&w);
    assert_int_equal(s.beyond, 2);
    assert_true(s.most_of_exp > 1000);
    w.device->backend = planted.real;
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(within_bounds), cmocka_unit_test(a_wrong_function_is_seen)};
    return cmocka_run_group_tests_name("ulps", tests, NULL, NULL);
}
