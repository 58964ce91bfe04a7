/* Runners of one model in sessions of several threads: the same bits as alone, one copy of the weights, and nothing for ThreadSanitizer to
 * find. */
#define _GNU_SOURCE
#include "unit/onnx_bed.h"
#include <pthread.h>

enum { THREADS = 3, RUNS = 4, N = 256 };

/* y = x w + x w^T: one constant is an initialiser, the other follows from it. */
static ls_model *two_products(bed *b) {
    static float w[N * N];
    for (int i = 0; i < N * N; i++) {
        w[i] = (float)(i * 37 % 101) / 50 - 1;
    }
    INPUT(b->g, value("x", tensor_type(ONNX_FLOAT, NULL)));
    PUSH(b->g->initializer, b->g->n_initializer, raw(tensor("w", ONNX_FLOAT, 2, (const int64_t[]){N, N}), w, sizeof w));
    add_node(b->g, "Transpose", "w", "v");
    add_node(b->g, "MatMul", "x w", "a");
    add_node(b->g, "MatMul", "x v", "b");
    add_node(b->g, "Add", "a b", "y");
    OUTPUT(b->g, value("y", NULL));
    return bed_load(b);
}

typedef struct job {
    ls_context *context;
    ls_device *device;
    ls_model *model;
    float y[N];
    ls_status status;
} job;

static ls_status run_once(ls_session *s, ls_runner *runner, float *y) {
    float x[N];
    ls_error err = {.code = LS_OK};
    ls_data *in, *out = NULL;
    for (int i = 0; i < N; i++) {
        x[i] = (float)i / N;
    }
    ls_status status = ls_data_create(ls_session_context(s), LS_F32, 2, (const int64_t[]){1, N}, x, &in, &err);
    if (status == LS_OK) {
        status = ls_runner_run(runner, 1, &(ls_named_data){"x", in}, &out);
        ls_data_release(in);
    }
    if (status == LS_OK) {
        memcpy(y, ls_data_bytes(out), sizeof *y * N);
    }
    ls_data_release(out);
    return status;
}

static void *work(void *arg) {
    job *j = arg;
    ls_error err = {.code = LS_OK};
    ls_session *s = NULL;
    ls_runner *runner = NULL;
    j->status = ls_session_create(j->context, j->device, &s, &err);
    for (int i = 0; i < RUNS && j->status == LS_OK; i++) { /* the last runner of all may go while another is made */
        j->status = ls_runner_create(s, j->model, &runner);
        j->status = j->status == LS_OK ? run_once(s, runner, j->y) : j->status;
        ls_runner_destroy(runner);
        runner = NULL;
    }
    ls_session_destroy(s);
    return NULL;
}

static void on_threads(void **state) {
    (void)state;
    bed b = bed_open(21);
    ls_model *model = two_products(&b);
    job jobs[THREADS + 1];
    pthread_t threads[THREADS];
    for (int i = 0; i <= THREADS; i++) {
        jobs[i] = (job){.context = b.w.context, .device = b.w.device, .model = model};
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    work(&jobs[THREADS]); /* alone */
    for (int i = 0; i <= THREADS; i++) {
        assert_int_equal(jobs[i].status, LS_OK);
        assert_memory_equal(jobs[i].y, jobs[THREADS].y, sizeof jobs[i].y);
    }
    assert_true(jobs[0].y[0] != 0 && jobs[0].y[0] != jobs[0].y[1]);
    ls_model_release(model);
    bed_close(&b);
}

static size_t used(const world *w) {
    size_t now, peak;
    ls_context_memory(w->context, &now, &peak);
    return now;
}

static void shares_weights(void **state) {
    (void)state;
    bed b = bed_open(21);
    ls_model *model = two_products(&b);
    const size_t weight = sizeof(float) * N * N;
    ls_error err = {.code = LS_OK};
    ls_session *sessions[2];
    ls_runner *runners[2];
    float y[2][N];
    job warm = {.context = b.w.context, .device = b.w.device, .model = model};
    work(&warm); /* the device's own memory is there from then on */
    size_t before = used(&b.w), after[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ls_session_create(b.w.context, b.w.device, &sessions[i], &err), LS_OK);
        assert_int_equal(ls_runner_create(sessions[i], model, &runners[i]), LS_OK);
        assert_int_equal(run_once(sessions[i], runners[i], y[i]), LS_OK);
        after[i] = used(&b.w);
    }
    print_message("weights %zu bytes; the first runner takes %zu, the second %zu\n", 2 * weight, after[0] - before, after[1] - after[0]);
    assert_true(after[0] - before >= 2 * weight);
    assert_true(after[1] - after[0] < weight / 4);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    for (int i = 0; i < 2; i++) { /* the second outlives the first */
        assert_int_equal(run_once(sessions[1], runners[1], y[1]), LS_OK);
        assert_memory_equal(y[0], y[1], sizeof y[0]);
        ls_runner_destroy(runners[i]);
        ls_session_destroy(sessions[i]);
    }
    assert_int_equal(used(&b.w), before); /* the last took them along */
    ls_model_release(model);
    bed_close(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_threads), cmocka_unit_test(shares_weights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
