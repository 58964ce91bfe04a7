/* Sessions of one context on several threads at once: same bits as alone, and nothing for ThreadSanitizer
 * to find. */
#include "base/thread.h"
#include "engine/exec.h"
#include "support/world.h"
#include <pthread.h>
#include <string.h>

enum { THREADS = 3, STEPS = 6 };

typedef struct job {
    ls_context *context;
    ls_device *device;
    ls_var *shared; /* read by all */
    float first[4], last[4];
    ls_status status;
    char message[256];
} job;

static void train(job *j, ls_session *s, ls_symbol *symbol) {
    float data[] = {1, 2, 3, 4, 5, 6, 7, 8};
    ls_var *w = ls_var_create(s, "w", LS_F32, LS_SHAPE(4), NULL);
    ls_shape shape = LS_SHAPE(1, 4);
    shape.dim[0] = ls_dim_symbol(symbol, 1, 0);
    for (int i = 0; w && i < STEPS && ls_session_error(s)->code == LS_OK; i++) {
        if (ls_scope_begin(s) != LS_OK || ls_symbol_bind(s, symbol, 1 + i % 2) != LS_OK) {
            return;
        }
        ls_tensor *x = ls_tensor_from(s, LS_F32, shape, data), *old = ls_var_value(s, w), *gradient = NULL;
        ls_tensor *loss = ls_sum(
            s, ls_exp(s, ls_neg(s, ls_matmul(s, x, ls_mul(s, old, ls_var_value(s, j->shared))))), 0, NULL, 0);
        ls_grad(s, loss, NULL, 1, &old, &gradient);
        ls_var_assign(s, w, ls_sub(s, old, ls_mul(s, gradient, ls_full(s, LS_F32, LS_SCALAR, 0.01))));
        ls_realize(s, &loss, 1);
        ls_var_read(s, w, i == 0 ? j->first : j->last, sizeof j->last);
        ls_scope_end(s);
    }
    ls_var_destroy(w);
}

static void *work(void *arg) {
    job *j = arg;
    ls_error err = {0};
    ls_session *s;
    ls_device *again;
    j->status = ls_device_open(j->context, j->device->id, &again, &err);
    j->status = j->status == LS_OK && again != j->device ? LS_ERR_INTERNAL : j->status;
    ls_symbol *symbol = ls_symbol_create(j->context, "B", 2, &err);
    j->status = j->status == LS_OK && !symbol ? LS_ERR_MEMORY : j->status;
    j->status = j->status == LS_OK ? ls_session_create(j->context, j->device, &s, &err) : j->status;
    if (j->status == LS_OK) {
        train(j, s, symbol);
        j->status = ls_session_error(s)->code;
        memcpy(j->message, ls_session_error(s)->message, sizeof j->message - 1);
        ls_session_destroy(s);
    }
    if (j->status == LS_OK) {
        j->status = ls_device_certify(j->device, &err);
    }
    return NULL;
}

static void run(const char *id) {
    world w = world_open_with(id, 2, NULL);
    const float factors[] = {1, 2, 0.5f, 3};
    ls_var *shared = ls_var_create(w.session, "shared", LS_F32, LS_SHAPE(4), factors);
    job jobs[THREADS + 1] = {0};
    pthread_t threads[THREADS];
    for (int i = 0; i <= THREADS; i++) {
        jobs[i].context = w.context;
        jobs[i].device = w.device;
        jobs[i].shared = shared;
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    work(&jobs[THREADS]); /* alone */
    for (int i = 0; i <= THREADS; i++) {
        if (jobs[i].status != LS_OK) {
            fail_msg("thread %d: %s", i, jobs[i].message);
        }
        assert_memory_equal(jobs[i].first, jobs[THREADS].first, sizeof jobs[i].first);
        assert_memory_equal(jobs[i].last, jobs[THREADS].last, sizeof jobs[i].last);
    }
    assert_true(jobs[0].last[0] != 0 && jobs[0].last[0] != jobs[0].first[0]);
    world_close(&w);
}

static void on_ref(void **state) {
    (void)state;
    run("ref");
}

static void on_cpu(void **state) {
    (void)state;
    run("cpu");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_ref), cmocka_unit_test(on_cpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
