/* ONNX models that take the reference long. */
#include "onnx/running.h"

static void test_residual_block(void **state) {
    (void)state;
    running cpu = start("cpu", RESIDUAL_BLOCK);
    run_residual_block(cpu, start("ref", RESIDUAL_BLOCK));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_residual_block)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
