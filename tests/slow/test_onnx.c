/* ONNX models that take long: one on the reference, and the ONNX project's "light" versions of the image classifiers (their weights are
 * constants) on cpu, on the made-up image of its own runner, i / n. */
#include "onnx/running.h"
#include "io/onnx/case.h"

static void test_residual_block(void **state) {
    (void)state;
    running cpu = start("cpu", RESIDUAL_BLOCK);
    run_residual_block(cpu, start("ref", RESIDUAL_BLOCK));
}

/* Unpacked by tests/onnx/suite.sh, or in $LOCKSTEP_ONNX_TESTS. */
static bool find_light(const char *name, char path[1024]) {
    const char *folders[] = {getenv("LOCKSTEP_ONNX_TESTS"), "build/release/onnx-tests",
                             "build/asan/onnx-tests", "build/clang/onnx-tests"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, 1024, "%s/light/light_%s", folders[i] ? folders[i] : "", name);
        char file[1040];
        snprintf(file, sizeof file, "%s.onnx", path);
        if (folders[i] && access(file, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

static void check_light(const char *path) {
    char file[1040];
    world w = world_open("cpu");
    ls_error err = {.code = LS_OK};
    ls_model *model = NULL;
    ls_runner *runner = NULL;
    ls_data *out = NULL;
    snprintf(file, sizeof file, "%s.onnx", path);
    if (ls_model_load(w.context, file, &model, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    int which = 0;
    while (ls_model_input(model, which).has_default) {
        which++;
        assert_in_range(which, 0, ls_model_input_count(model) - 1);
    }
    ls_model_port in = ls_model_input(model, which), to = ls_model_output(model, 0);
    assert_int_equal(ls_model_output_count(model), 1);
    int64_t n = 1;
    for (int i = 0; i < in.rank; i++) {
        n *= in.dims[i];
    }
    float *x = malloc(sizeof *x * (size_t)n);
    assert_non_null(x);
    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)((double)i / (double)n);
    }
    ls_named_data image = {in.name, array(&w, LS_F32, in.rank, in.dims, x)};
    free(x);
    world_ok(&w, ls_runner_create(w.session, model, &runner));
    world_ok(&w, ls_runner_run(runner, 1, &image, &out));
    ls_case_values values;
    ls_onnx_value *expected, *got;
    ls_case_difference difference = {0};
    ls_case_values_init(&values, w.context);
    snprintf(file, sizeof file, "%s_output_0.pb", path);
    assert_int_equal(ls_case_read(&values, file, &to, &expected, &err), LS_OK);
    assert_int_equal(ls_case_wrap(&values, out, ONNX_FLOAT, &got, &err), LS_OK);
    ls_case_compare(file, expected, got, true, &difference);
    assert_string_equal(difference.text, "");
    ls_case_values_free(&values);
    ls_data_release(out);
    ls_data_release((ls_data *)image.data);
    ls_runner_destroy(runner);
    ls_model_release(model);
    world_close(&w);
}

static void test_light(void **state) {
    (void)state;
    static const char *const names[] = {"squeezenet",  "shufflenet",   "resnet50",
                                        "densenet121", "inception_v1", "inception_v2",
                                        "zfnet512",    "bvlc_alexnet", "vgg19"};
    char path[1024];
    int found = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (find_light(names[i], path)) {
            check_light(path);
            found++;
        }
    }
    if (!found) {
        print_message("no folder \"light\" in LOCKSTEP_ONNX_TESTS, nor unpacked by the test onnx.suite\n");
        skip();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_residual_block), cmocka_unit_test(test_light)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
