/* WebGPU as in a page: nothing may be waited for, calls give LS_ERR_AGAIN and are made again. Each result must be the bits that
 * the same device gives to a program that waits. */
#define _POSIX_C_SOURCE 200809L
#include "support/world.h"
#include <lockstep/check.h>
#include <lockstep/nn.h>
#include <lockstep/optim.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 8, STEPS = 4, MOST = 2000 };
static int rounds;

/* A call, until it has an answer. Each attempt gives the device its work anew: a slow one needs time, not attempts. */
#define ANSWER(call)                                                                                         \
    do {                                                                                                     \
        ls_status answer_;                                                                                   \
        for (int n_ = 0; (answer_ = (call)) == LS_ERR_AGAIN; n_++) {                                         \
            assert_true(n_ < MOST);                                                                          \
            rounds++;                                                                                        \
            nanosleep(&(struct timespec){.tv_nsec = 1000000L << (n_ < 8 ? n_ : 8)}, NULL);                   \
        }                                                                                                    \
        last = answer_;                                                                                      \
    } while (0)
static ls_status last;

typedef struct page {
    ls_context *context;
    ls_device *device;
    ls_error err;
} page;

static page page_open(int late) {
    page p = {.err = {.code = LS_OK}};
    if (late) {
        setenv("LOCKSTEP_WEBGPU_LATE", "1", 1);
    } else {
        unsetenv("LOCKSTEP_WEBGPU_LATE");
    }
    setenv("LOCKSTEP_CACHE", "off", 1);
    assert_int_equal(ls_context_create(NULL, &p.context, &p.err), LS_OK);
    rounds = 0;
    ANSWER(ls_device_open(p.context, "webgpu", &p.device, &p.err));
    if (last != LS_OK) {
        fail_msg("%s", p.err.message);
    }
    assert_true(late ? rounds > 0 : rounds == 0);
    return p;
}

static void digits(float *images, int32_t *labels, int seed) {
    for (int i = 0; i < BATCH * 784; i++) {
        images[i] = (float)((i * 31 + seed * 17 + i / 57) % 256) / 256;
    }
    for (int i = 0; i < BATCH; i++) {
        labels[i] = (i * 3 + seed) % 10;
    }
}

/* Some steps of training, with everything that a page does in between; the SHA-256 of the weights. */
static void train(page *p, char sha256[65], float losses[STEPS]) {
    ls_session *s;
    ls_params *params;
    ls_optimizer *optimizer;
    ls_program *step;
    float images[BATCH * 784], rate = 0.05f;
    int32_t labels[BATCH];
    ls_error *err = &p->err;
    ANSWER(ls_session_create(p->context, p->device, &s, err));
    ls_tensor *x = ls_input(s, "images", LS_F32, LS_SHAPE(BATCH, 1, 28, 28)),
              *y = ls_input(s, "labels", LS_I32, LS_SHAPE(BATCH)),
              *r = ls_input(s, "rate", LS_F32, LS_SCALAR), *inputs[3] = {x, y, r};
    assert_int_equal(ls_params_create(s, 3, &params), LS_OK);
    ls_tensor *loss = ls_cross_entropy(s, ls_nn_network(s, params, "mnist:small", x), y);
    assert_int_equal(
        ls_optimizer_create(s, params, &(ls_optimizer_options){.kind = LS_OPTIM_ADAM}, &optimizer), LS_OK);
    assert_int_equal(ls_optimizer_step(s, optimizer, loss, r), LS_OK);
    ANSWER(ls_program_compile(s, inputs, 3, &loss, 1, &step));
    if (last != LS_OK) {
        fail_msg("%s", ls_session_error(s)->message);
    }
    for (int i = 0; i < STEPS; i++) {
        digits(images, labels, i);
        const void *in[3] = {images, labels, &rate};
        void *out[1] = {&losses[i]};
        ANSWER(ls_program_run(step, in, out));
        if (last != LS_OK) {
            fail_msg("%s", ls_session_error(s)->message);
        }
    }
    ANSWER(ls_params_sha256(s, params, sha256, err));
    assert_int_equal(last, LS_OK);
    assert_int_equal(ls_session_error(s)->code, LS_OK); /* LS_ERR_AGAIN is no failure */
    ls_program_destroy(step);
    ls_optimizer_destroy(optimizer);
    ls_params_destroy(params);
    ls_session_destroy(s);
}

static void training(void **state) {
    (void)state;
    char waits[65], late[65];
    float a[STEPS], b[STEPS];
    page p = page_open(0);
    train(&p, waits, a);
    assert_int_equal(rounds, 0);
    ls_context_destroy(p.context);
    p = page_open(1);
    int opening = rounds;
    train(&p, late, b);
    printf("opened in %d rounds, trained %d steps in %d\n", opening, STEPS, rounds - opening);
    assert_string_equal(waits, late);
    assert_memory_equal(a, b, sizeof a);
    assert_true(b[STEPS - 1] < b[0] || b[0] != b[1]);
    ls_context_destroy(p.context);
}

static void certification(void **state) {
    (void)state;
    page p = page_open(0);
    ls_status waits = ls_device_certify(p.device, &p.err);
    char arithmetic[sizeof ls_device_caps(p.device)->arithmetic];
    memcpy(arithmetic, ls_device_caps(p.device)->arithmetic, sizeof arithmetic);
    ls_context_destroy(p.context);
    p = page_open(1);
    ls_error_clear(&p.err);
    ANSWER(ls_device_certify(p.device, &p.err));
    printf("certified in %d rounds: %s %s\n", rounds, ls_status_name(last), p.err.message);
    assert_int_equal(last, waits);
    assert_string_equal(arithmetic, ls_device_caps(p.device)->arithmetic);
    ls_context_destroy(p.context);
}

static void submit_and_poll(void **state) {
    (void)state;
    const float x[] = {1, 2, 3, 4};
    float y[4];
    page p = page_open(1);
    ls_session *s;
    ls_ticket ticket;
    int done = 0, polls = 0;
    ANSWER(ls_session_create(p.context, p.device, &s, &p.err));
    ls_tensor *t = ls_mul(s, ls_tensor_from(s, LS_F32, LS_SHAPE(4), x), ls_full(s, LS_F32, LS_SHAPE(4), 3));
    ANSWER(ls_submit(s, &t, 1, &ticket));
    assert_int_equal(last, LS_OK);
    for (; !done && polls < MOST; polls++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        assert_int_equal(ls_poll(s, ticket, &done), LS_OK);
    }
    assert_true(done);
    ANSWER(ls_read(s, t, y, sizeof y));
    for (int i = 0; i < 4; i++) {
        assert_true(y[i] == 3 * x[i]);
    }
    ls_session_destroy(s);
    ls_context_destroy(p.context);
}

/* An index out of range is told, once, and not to whom it does not belong. */
static void reports(void **state) {
    (void)state;
    const float x[] = {1, 2, 3};
    const int64_t good[] = {2, 0}, bad[] = {1, 7};
    float y[2];
    page p = page_open(1);
    ls_session *s;
    ls_program *program;
    ANSWER(ls_session_create(p.context, p.device, &s, &p.err));
    ls_tensor *i = ls_input(s, "i", LS_I64, LS_SHAPE(2)),
              *t = ls_gather(s, ls_tensor_from(s, LS_F32, LS_SHAPE(3), x), i, 0);
    ANSWER(ls_program_compile(s, &i, 1, &t, 1, &program));
    assert_int_equal(last, LS_OK);
    for (int turn = 0; turn < 3; turn++) {
        const void *in[1] = {turn == 1 ? bad : good};
        void *out[1] = {y};
        ANSWER(ls_program_run(program, in, out));
        assert_int_equal(last, turn == 1 ? LS_ERR_RANGE : LS_OK);
        assert_true(turn == 1 ? y[0] == 2 && y[1] != y[1] : y[0] == 3 && y[1] == 1);
        ls_session_clear_error(s);
    }
    ls_program_destroy(program);
    ls_session_destroy(s);
    ls_context_destroy(p.context);
}

/* Each kernel is compared once, with graphs that report and with lengths below their bounds. */
static void verification(void **state) {
    (void)state;
    const int64_t index[] = {2, 0, 1};
    float x[12];
    page p = page_open(1);
    ls_session *s;
    ls_verification *v = NULL;
    ls_symbol *n = ls_symbol_create(p.context, "n", 4, &p.err);
    for (int i = 0; i < 12; i++) {
        x[i] = (float)i / 7;
    }
    ANSWER(ls_session_create(p.context, p.device, &s, &p.err));
    assert_int_equal(ls_symbol_bind(s, n, 3), LS_OK);
    ls_shape shape = {2, {ls_dim_symbol(n, 1, 0), ls_dim_of(4)}};
    ls_tensor *t = ls_tensor_from(s, LS_F32, shape, x), *i = ls_tensor_from(s, LS_I64, LS_SHAPE(3), index);
    t = ls_gather(s, ls_sum(s, ls_exp(s, t), 1, (const int[]){0}, 0), i, 0);
    for (int turn = 0; turn < 2; turn++) { /* the second finds it computed */
        ANSWER(ls_verify(s, &t, 1, &v));
        if (last != LS_OK) {
            fail_msg("%s", ls_session_error(s)->message);
        }
        assert_true(v->verdict != LS_DIFFERS && v->end_to_end.elements == 3);
        assert_true(turn ? v->n_kernels == 0 : v->n_kernels > 0 && v->verdict == LS_SAME);
        ls_verification_free(s, v);
    }
    ls_session_destroy(s);
    ls_context_destroy(p.context);
}

static void each(void *user, const ls_case_result *result) {
    (void)user;
    if (result->state == LS_CASE_FAILED) {
        printf("%s: %s\n", result->name, result->message);
    }
}

/* Checked runs read around every kernel. */
static void museum(void **state) {
    (void)state;
    page p = page_open(1);
    ls_case_totals totals;
    for (int plant = 0; plant < 2; plant++) {
        ls_error_clear(&p.err);
        ANSWER(ls_museum_run(p.context, p.device, plant ? NULL : "0a-*", plant ? "zero-matmul" : NULL, each,
                             NULL, &totals, &p.err));
        if (last != LS_OK) {
            fail_msg("%s", p.err.message);
        }
        printf("museum: %s: %d passed, %d failed after %d rounds\n", plant ? "planted" : "", totals.passed,
               totals.failed, rounds);
        assert_true(plant ? totals.failed > 0 : totals.failed == 0 && totals.passed > 0);
    }
    ls_context_destroy(p.context);
}

int main(void) {
    const char *device = getenv("LOCKSTEP_DEVICE");
    if (!device || strcmp(device, "webgpu") != 0) {
        printf("skipped: for WebGPU alone\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training), cmocka_unit_test(certification), cmocka_unit_test(submit_and_poll),
        cmocka_unit_test(reports),  cmocka_unit_test(verification),  cmocka_unit_test(museum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
