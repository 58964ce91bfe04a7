/* Museum case 4h: each barrier of a workgroup reduction and of a tiled product is taken out in turn, and the
 * interpreter's race detector must find it and say where; whole, the kernels are right (unit tests of the
 * interpreter). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "unit/kir_fixture.h"
#include "unit/kir_samples.h"

/* A copy whose instruction `at` is a constant that nothing uses. */
static ls_kernel without(const ls_kernel *k, int32_t at) {
    ls_kernel copy = *k;
    copy.body = ls_arena_copy(&arena, k->body, sizeof *k->body * (size_t)k->n_body);
    assert_non_null(copy.body);
    copy.body[at] = (ls_ins){
        .op = LS_K_CONST, .dtype = LS_I32, .lanes = 1, .src = {LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE}};
    return copy;
}

static int each_barrier(const ls_kernel *k, const ls_interp_launch *launch) {
    int found = 0;
    if (ls_kernel_interp(&heap, k, launch, &err) != LS_OK) {
        fail_msg("%s: %s", k->name, err.message);
    }
    for (int32_t i = 0; i < k->n_body; i++) {
        if (k->body[i].op == LS_K_BARRIER) {
            ls_kernel mutant = without(k, i);
            ls_status status = ls_kernel_interp(&heap, &mutant, launch, &err);
            if (status != LS_ERR_DIFFERS || !strstr(err.message, "race") || !strstr(err.message, k->name) ||
                !strstr(err.message, "thread")) {
                fail_msg("%s without the barrier at %d: %s \"%s\", expected a race", k->name, i,
                         ls_status_name(status), err.message);
            }
            found++;
            ls_error_clear(&err);
        }
    }
    return found;
}

static void reduction(void **state) {
    (void)state;
    static float x[9000], y[3];
    ls_kernel k;
    for (int i = 0; i < 9000; i++) {
        x[i] = (float)(i % 13);
    }
    assert_int_equal(sample_reduce(&arena, 9000, SAMPLE_RIGHT, &k, &err), LS_OK);
    ls_interp_buffer buffers[] = {{x, 9000, false}, {y, 3, true}};
    assert_int_equal(each_barrier(&k, &(ls_interp_launch){buffers, NULL, 0, 0}), 8);
}

static void product(void **state) {
    (void)state;
    static float a[33 * 40], b[40 * 17], c[33 * 17];
    ls_kernel k;
    for (int i = 0; i < 33 * 40; i++) {
        a[i] = (float)(i % 7);
        b[i % (40 * 17)] = (float)(i % 5);
    }
    assert_int_equal(sample_matmul(&arena, 33, 17, 40, SAMPLE_RIGHT, &k, &err), LS_OK);
    ls_interp_buffer buffers[] = {{a, 33 * 40, false}, {b, 40 * 17, false}, {c, 33 * 17, true}};
    assert_int_equal(each_barrier(&k, &(ls_interp_launch){buffers, NULL, 0, 0}), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(reduction, setup, teardown),
                                       cmocka_unit_test_setup_teardown(product, setup, teardown)};
    return cmocka_run_group_tests_name("barriers", tests, NULL, NULL);
}
