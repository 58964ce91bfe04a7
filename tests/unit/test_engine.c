/* The engine end to end on the reference device. */
#include <lockstep/lockstep.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static ls_context *context;
static ls_session *s;

static int setup(void **state) {
    (void)state;
    ls_error err = {LS_OK};
    ls_device *ref;
    assert_int_equal(ls_context_create(NULL, &context, &err), LS_OK);
    assert_int_equal(ls_device_open(context, "ref", &ref, &err), LS_OK);
    assert_int_equal(ls_session_create(context, ref, &s, &err), LS_OK);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    ls_session_destroy(s);
    ls_context_destroy(context);
    return 0;
}

static void adds(void **state) {
    (void)state;
    float a[] = {1, 2, 3}, b[] = {10, 20, 30}, c[3] = {0};
    ls_tensor *x = ls_tensor_from(s, LS_F32, LS_SHAPE(3), a), *y = ls_tensor_from(s, LS_F32, LS_SHAPE(3), b);
    ls_status status = ls_read(s, ls_add(s, x, y), c, sizeof c);
    if (status) fprintf(stderr, "%s\n", ls_session_error(s)->message);
    assert_int_equal(status, LS_OK);
    assert_true(c[0] == 11 && c[1] == 22 && c[2] == 33);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(adds, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
