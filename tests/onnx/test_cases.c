/* Test cases can fail: ls_model_case_run on folders whose files are wrong in one thing each. */
#define _GNU_SOURCE
#include "support/world.h"
#include "base/alloc.h"
#include "onnx/writer.h"
#include <lockstep/model.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FLOAT = 1, INT32 = 6, INT64 = 7, STRING = 8, FLOAT16 = 10, FLOAT8E4M3FN = 17 };

static char folder[64];

static int setup(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s/lockstep-onnx-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static const char *in_folder(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static const int64_t DIMS[2] = {2, 3};

/* A case of one Identity from x to y, its input given, its output not yet. */
static void begin(int type) {
    small_model m = {.op = "Identity",
                     .opset = 14,
                     .n_in = 1,
                     .n_out = 1,
                     .in = {{"x", type, 2, {2, 3}}},
                     .out = {{"y", type, 2, {2, 3}}}};
    assert_true(write_model(in_folder("model.onnx"), &m));
    mkdir(in_folder("test_data_set_0"), 0777);
    unlink(in_folder("test_data_set_0/output_0.pb"));
}

static void input(int type, const void *x, size_t size) {
    assert_true(write_tensor(in_folder("test_data_set_0/input_0.pb"), type, 2, DIMS, x, size));
}

static void output(int type, const void *y, size_t size) {
    assert_true(write_tensor(in_folder("test_data_set_0/output_0.pb"), type, 2, DIMS, y, size));
}

static ls_model_case run(void) {
    world w = world_open("cpu");
    ls_model_case result;
    world_ok(&w, ls_model_case_run(w.session, folder, &result));
    world_close(&w);
    return result;
}

#define assert_says(result, text)                                                                            \
    do {                                                                                                     \
        if (!strstr((result).detail, text)) {                                                                \
            fail_msg("\"%s\" does not say \"%s\"", (result).detail, text);                                   \
        }                                                                                                    \
    } while (0)

static void test_floats(void **state) {
    (void)state;
    float x[6] = {1, -2, 0.5f, NAN, INFINITY, 0}, y[6];
    begin(FLOAT);
    input(FLOAT, x, sizeof x);
    memcpy(y, x, sizeof y);
    output(FLOAT, y, sizeof y);
    ls_model_case r = run();
    assert_int_equal(r.state, LS_MODEL_PASSED);
    assert_int_equal(r.sets, 1);
    assert_string_equal(r.detail, "");
    assert_int_equal(strlen(r.sha256), 64);
    assert_true(r.worst == 0);
    y[1] = -2.0015f; /* inside the tolerance */
    output(FLOAT, y, sizeof y);
    ls_model_case inside = run();
    assert_int_equal(inside.state, LS_MODEL_PASSED);
    assert_true(inside.worst > 0.7 && inside.worst < 0.8);
    assert_string_equal(inside.sha256, r.sha256); /* of what was computed */
    y[1] = -2.0025f;
    output(FLOAT, y, sizeof y);
    r = run();
    assert_int_equal(r.state, LS_MODEL_FAILED);
    assert_says(r, "output \"y\" element [0,1] is -2, expected -2.002");
    assert_says(r, "1 of 6");
    for (int k = 3; k < 5; k++) { /* where a NaN or an infinity should be */
        memcpy(y, x, sizeof y);
        y[k] = 7;
        output(FLOAT, y, sizeof y);
        assert_int_equal(run().state, LS_MODEL_FAILED);
    }
    memcpy(y, x, sizeof y);
    y[4] = -INFINITY;
    output(FLOAT, y, sizeof y);
    assert_int_equal(run().state, LS_MODEL_FAILED);
    memcpy(y, x, sizeof y);
    y[5] = 1.5e-7f;
    output(FLOAT, y, sizeof y);
    assert_int_equal(run().state, LS_MODEL_FAILED);
}

static void test_exact(void **state) {
    (void)state;
    int64_t x[6] = {1, -2, 9007199254740993, 4, 5, INT64_MIN}, y[6];
    begin(INT64);
    input(INT64, x, sizeof x);
    output(INT64, x, sizeof x);
    assert_int_equal(run().state, LS_MODEL_PASSED);
    memcpy(y, x, sizeof y);
    y[2]--; /* the same as a double */
    output(INT64, y, sizeof y);
    ls_model_case r = run();
    assert_int_equal(r.state, LS_MODEL_FAILED);
    assert_says(r, "element [0,2] is 9007199254740993, expected 9007199254740992");
    /* Bits of float8: any NaN is a NaN, -0 is 0, all else as it is. */
    uint8_t a[6] = {0x7f, 0x80, 1, 2, 3, 4}, b[6] = {0xff, 0, 1, 2, 3, 4};
    begin(FLOAT8E4M3FN);
    input(FLOAT8E4M3FN, a, sizeof a);
    output(FLOAT8E4M3FN, b, sizeof b);
    r = run();
    assert_string_equal(r.detail, "");
    b[5] = 5;
    output(FLOAT8E4M3FN, b, sizeof b);
    assert_int_equal(run().state, LS_MODEL_FAILED);
}

static void test_other_types_and_shapes(void **state) {
    (void)state;
    float x[6] = {0};
    int32_t y[6] = {0};
    begin(FLOAT);
    input(FLOAT, x, sizeof x);
    output(INT32, y, sizeof y);
    ls_model_case r = run();
    assert_int_equal(r.state, LS_MODEL_FAILED);
    assert_says(r, "is of type float, expected int32");
    assert_true(write_tensor(in_folder("test_data_set_0/output_0.pb"), FLOAT, 2, (const int64_t[]){3, 2}, x,
                             sizeof x));
    r = run();
    assert_int_equal(r.state, LS_MODEL_FAILED);
    assert_says(r, "has shape [2,3], expected [3,2]");
}

static void test_broken_folders(void **state) {
    (void)state;
    float x[6] = {0};
    begin(FLOAT);
    input(FLOAT, x, sizeof x);
    ls_model_case r = run(); /* nothing to compare with */
    assert_int_equal(r.state, LS_MODEL_FAILED);
    assert_says(r, "without an output");
    assert_string_equal(r.sha256, "");
    output(FLOAT, x, sizeof x);
    unlink(in_folder("test_data_set_0/input_0.pb"));
    r = run();
    assert_int_equal(r.state, LS_MODEL_FAILED);
    assert_says(r, "\"x\"");
    input(FLOAT, x, sizeof x - 4);
    r = run();
    assert_int_equal(r.state, LS_MODEL_FAILED);
    assert_says(r, "input_0.pb");
    unlink(in_folder("model.onnx"));
    r = run();
    assert_int_equal(r.state, LS_MODEL_FAILED);
    assert_says(r, "model.onnx");
}

static void test_unsupported(void **state) {
    (void)state;
    float x[6] = {0};
    small_model m = {.op = "Frobnicate",
                     .domain = "org.example",
                     .opset = 1,
                     .n_in = 1,
                     .n_out = 1,
                     .in = {{"x", FLOAT, 2, {2, 3}}},
                     .out = {{"y", FLOAT, 2, {2, 3}}}};
    begin(FLOAT);
    assert_true(write_model(in_folder("model.onnx"), &m));
    input(FLOAT, x, sizeof x);
    output(FLOAT, x, sizeof x);
    ls_model_case r = run();
    assert_int_equal(r.state, LS_MODEL_UNSUPPORTED);
    assert_says(r, "Frobnicate");
    assert_says(r, "\"it\"");
    world w = world_open("cpu");
    ls_model *model = NULL;
    ls_model_operator op[2];
    assert_int_equal(ls_model_load(w.context, in_folder("model.onnx"), &model, NULL), LS_OK);
    assert_int_equal(ls_model_operators(model, 2, op), 1);
    assert_string_equal(op[0].name, "Frobnicate");
    assert_string_equal(op[0].domain, "org.example");
    assert_int_equal(op[0].count, 1);
    assert_non_null(op[0].unsupported);
    assert_int_equal(ls_model_get_facts(model).nodes, 1);
    ls_model_release(model);
    world_close(&w);
}

/* What a random operator gives is its own; what is not even of the right shape, type or spread is wrong. */
static void test_random(void **state) {
    (void)state;
    enum { N = 400 };
    float x[N] = {0}, y[N];
    const int64_t dims[2] = {20, 20};
    small_model m = {.op = "RandomUniformLike",
                     .opset = 22,
                     .n_in = 1,
                     .n_out = 1,
                     .in = {{"x", FLOAT, 2, {20, 20}}},
                     .out = {{"y", FLOAT, 2, {20, 20}}}};
    begin(FLOAT);
    assert_true(write_model(in_folder("model.onnx"), &m));
    assert_true(write_tensor(in_folder("test_data_set_0/input_0.pb"), FLOAT, 2, dims, x, sizeof x));
    for (int i = 0; i < N; i++) {
        y[i] = (float)(i * 7 % N) / N;
    }
    assert_true(write_tensor(in_folder("test_data_set_0/output_0.pb"), FLOAT, 2, dims, y, sizeof y));
    ls_model_case r = run();
    assert_int_equal(r.state, LS_MODEL_RANDOM);
    for (int i = 0; i < N; i++) {
        y[i] = y[i] / 2; /* the half of the interval */
    }
    assert_true(write_tensor(in_folder("test_data_set_0/output_0.pb"), FLOAT, 2, dims, y, sizeof y));
    r = run();
    assert_int_equal(r.state, LS_MODEL_FAILED);
    assert_says(r, "distribution");
}

/* Every allocation of a case, failed once (the later ones sampled): no crash, and the case says so or is as ever. */
static void test_memory(void **state) {
    (void)state;
    float x[6] = {1, 2, 3, 4, 5, 6};
    begin(FLOAT);
    input(FLOAT, x, sizeof x);
    output(FLOAT, x, sizeof x);
    int failed = 0, passed = 0;
    for (long k = 0; !passed && k < 100000; k += 1 + k / 50) {
        world w = world_open("cpu");
        ls_heap *heap = ls_context_heap(w.context);
        ls_model_case result = {.state = LS_MODEL_PASSED};
        atomic_store(&heap->fail_after, k);
        ls_status status = ls_model_case_run(w.session, folder, &result);
        bool reached = atomic_load(&heap->fail_after) < 0;
        atomic_store(&heap->fail_after, -1);
        if (status == LS_OK && result.state == LS_MODEL_PASSED) {
            assert_string_equal(result.detail, "");
            passed += !reached;
        } else if (status == LS_OK) {
            assert_int_equal(result.state, LS_MODEL_FAILED);
            assert_says(result, "memory");
            failed++;
        } else {
            assert_int_equal(status, LS_ERR_MEMORY);
        }
        world_close(&w);
    }
    assert_true(failed > 20);
    assert_int_equal(passed, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_other_types_and_shapes),
        cmocka_unit_test(test_broken_folders),
        cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
