/* Optimisers against plain loops in double, schedules, and a run that is saved and taken up again. */
#define _GNU_SOURCE
#include "support/world.h"
#include <fenv.h>
#include <lockstep/inspect.h>
#include <lockstep/io.h>
#include <lockstep/nn.h>
#include <lockstep/optim.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 6, STEPS = 12 };

/* loss = sum(c * (x - t)^2) / 2 has the gradient c * (x - t). */
static const double curvature[N] = {1, 3, 0.5, 8, 2, 0.125}, target[N] = {1, -2, 0.25, 0, 3, -7};

static void to_float(const double *from, float *to) {
    for (int i = 0; i < N; i++) {
        to[i] = (float)from[i];
    }
}

typedef struct problem {
    world w;
    ls_params *params;
    ls_optimizer *optimizer;
    ls_program *program;
} problem;

static problem problem_open(const char *device, const ls_optimizer_options *options) {
    problem p = {.w = world_open(device)};
    ls_session *s = p.w.session;
    float c[N], t[N];
    to_float(curvature, c);
    to_float(target, t);
    world_ok(&p.w, ls_params_create(s, 2, &p.params));
    ls_tensor *x = ls_param(s, p.params, "x", LS_F32, LS_SHAPE(N), LS_INIT_UNIFORM, 1),
              *half = ls_full(s, LS_F32, LS_SCALAR, 0.5);
    ls_tensor *gap = ls_sub(s, x, ls_tensor_from(s, LS_F32, LS_SHAPE(N), t)),
              *rate = ls_input(s, "rate", LS_F32, LS_SCALAR);
    ls_tensor *terms = ls_mul(s, ls_tensor_from(s, LS_F32, LS_SHAPE(N), c), ls_mul(s, gap, gap));
    ls_tensor *loss = ls_mul(s, half, ls_sum(s, terms, 0, NULL, 0));
    world_ok(&p.w, ls_optimizer_create(s, p.params, options, &p.optimizer));
    world_ok(&p.w, ls_optimizer_step(s, p.optimizer, loss, rate));
    world_ok(&p.w, ls_program_compile(s, &rate, 1, &loss, 1, &p.program));
    return p;
}

static void problem_close(problem *p) {
    ls_program_destroy(p->program);
    ls_optimizer_destroy(p->optimizer);
    ls_params_destroy(p->params);
    world_close(&p->w);
}

static void problem_step(problem *p, double rate) {
    float r = (float)rate, loss;
    const void *in[1] = {&r};
    void *out[1] = {&loss};
    world_ok(&p->w, ls_program_run(p->program, in, out));
}

static void problem_read(problem *p, float *out) {
    world_ok(&p->w, ls_var_read(p->w.session, ls_params_find(p->params, "x"), out, N * sizeof *out));
}

static double power(double x, int n) {
    double y = 1;
    for (int i = 0; i < n; i++) {
        y *= x;
    }
    return y;
}

/* The formulas of the papers, with PyTorch's places for weight decay and clipping. */
static void plain_loop(const ls_optimizer_options *o, double rate, double *x) {
    double m[N] = {0}, v[N] = {0}, b1 = o->beta1 > 0 ? o->beta1 : 0.9, b2 = o->beta2 > 0 ? o->beta2 : 0.999;
    double eps = o->epsilon > 0 ? o->epsilon : 1e-8;
    for (int t = 1; t <= STEPS; t++) {
        double g[N], norm = 0, scale = 1;
        for (int i = 0; i < N; i++) {
            g[i] = curvature[i] * (x[i] - target[i]);
            norm += g[i] * g[i];
        }
        if (o->clip_norm > 0 && __builtin_sqrt(norm) > o->clip_norm) {
            scale = o->clip_norm / (__builtin_sqrt(norm) + 1e-6);
        }
        for (int i = 0; i < N; i++) {
            g[i] *= scale;
            if (o->kind == LS_OPTIM_ADAMW) {
                x[i] -= rate * o->weight_decay * x[i];
            } else {
                g[i] += o->weight_decay * x[i];
            }
            if (o->kind == LS_OPTIM_SGD) {
                m[i] = o->momentum * m[i] + g[i];
                x[i] -= rate * m[i];
            } else {
                m[i] = b1 * m[i] + (1 - b1) * g[i];
                v[i] = b2 * v[i] + (1 - b2) * g[i] * g[i];
                x[i] -=
                    rate * (m[i] / (1 - power(b1, t))) / (__builtin_sqrt(v[i] / (1 - power(b2, t))) + eps);
            }
        }
    }
}

static void test_against_loops(void **state) {
    (void)state;
    static const ls_optimizer_options options[] = {
        {.kind = LS_OPTIM_SGD},
        {.kind = LS_OPTIM_SGD, .momentum = 0.9},
        {.kind = LS_OPTIM_SGD, .momentum = 0.5, .weight_decay = 0.1},
        {.kind = LS_OPTIM_SGD, .clip_norm = 2},
        {.kind = LS_OPTIM_SGD, .clip_norm = 1e6},
        {.kind = LS_OPTIM_SGD, .clip_norm = 2, .weight_decay = 0.1, .momentum = 0.9},
        {.kind = LS_OPTIM_ADAM},
        {.kind = LS_OPTIM_ADAM, .beta1 = 0.8, .beta2 = 0.9, .epsilon = 1e-3},
        {.kind = LS_OPTIM_ADAM, .weight_decay = 0.1, .clip_norm = 1},
        {.kind = LS_OPTIM_ADAMW, .weight_decay = 0.1},
        {.kind = LS_OPTIM_ADAMW},
    };
    for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
        double rate = options[k].kind == LS_OPTIM_SGD ? 0.05 : 0.1, x[N];
        problem p = problem_open("cpu", &options[k]);
        float first[N], got[N], far = 0;
        problem_read(&p, first);
        for (int i = 0; i < N; i++) {
            x[i] = (double)first[i];
        }
        plain_loop(&options[k], rate, x);
        for (int t = 0; t < STEPS; t++) {
            problem_step(&p, rate);
        }
        problem_read(&p, got);
        for (int i = 0; i < N; i++) {
            double gap = (double)got[i] > x[i] ? (double)got[i] - x[i] : x[i] - (double)got[i];
            float moved = got[i] > first[i] ? got[i] - first[i] : first[i] - got[i];
            far = moved > far ? moved : far;
            if (!(gap <= 2e-5)) { /* a dozen steps of f32, values up to 8 */
                fail_msg("optimiser %zu, element %d: %.9g: expected %.9g", k, i, (double)got[i], x[i]);
            }
        }
        assert_true(far > 0.3f); /* it went somewhere */
        problem_close(&p);
    }
}

static void test_refused(void **state) {
    (void)state;
    static const ls_optimizer_options bad[] = {{.momentum = 1},
                                               {.momentum = -0.5},
                                               {.kind = LS_OPTIM_ADAM, .beta1 = 1},
                                               {.kind = LS_OPTIM_ADAM, .beta2 = -0.1},
                                               {.kind = LS_OPTIM_ADAM, .epsilon = -1},
                                               {.weight_decay = -1},
                                               {.clip_norm = -1},
                                               {.clip_norm = __builtin_nan("")}};
    world w = world_open("cpu");
    ls_session *s = w.session;
    ls_params *params = NULL;
    ls_optimizer *o = NULL;
    world_ok(&w, ls_params_create(s, 1, &params));
    ls_tensor *x = ls_param(s, params, "x", LS_F32, LS_SHAPE(2), LS_INIT_ONES, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(ls_optimizer_create(s, params, &bad[i], &o), LS_ERR_INVALID);
        assert_non_null(strstr(ls_session_error(s)->message, "optimiser: momentum"));
        ls_session_clear_error(s);
    }
    world_ok(&w, ls_optimizer_create(s, params, NULL, &o)); /* SGD */
    assert_int_equal(ls_optimizer_state_count(o), 0);
    ls_optimizer_destroy(o);
    world_ok(&w, ls_optimizer_create(s, params, &(ls_optimizer_options){.kind = LS_OPTIM_ADAM}, &o));
    assert_int_equal(ls_optimizer_state_count(o), 3);
    assert_string_equal(ls_var_name(ls_optimizer_state_at(o, 0)), "x.m");
    assert_string_equal(ls_var_name(ls_optimizer_state_at(o, 1)), "x.v");
    assert_string_equal(ls_var_name(ls_optimizer_state_at(o, 2)), "optimizer.step");
    assert_null(ls_optimizer_state_at(o, 3));
    ls_tensor *y = ls_param(s, params, "late", LS_F32, LS_SHAPE(2), LS_INIT_ONES, 0);
    ls_tensor *loss = ls_sum(s, ls_mul(s, x, y), 0, NULL, 0);
    assert_int_equal(ls_optimizer_step(s, o, loss, ls_full(s, LS_F32, LS_SCALAR, 0.1)), LS_ERR_INVALID);
    assert_non_null(strstr(ls_session_error(s)->message, "2 parameters, of which 1"));
    ls_session_clear_error(s);
    ls_optimizer_destroy(o);
    assert_int_equal(ls_optimizer_create(s, params, &(ls_optimizer_options){.kind = (ls_optimizer_kind)3}, &o), LS_ERR_INVALID);
    assert_non_null(strstr(ls_session_error(s)->message, "kind 3"));
    ls_optimizer_destroy(NULL);
    ls_params_destroy(params);
    world_close(&w);
}

/* A step that fails, by its rate or its loss, leaves the state as it was. */
static void test_failed_step_changes_nothing(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_session *s = w.session;
    ls_params *params = NULL;
    ls_optimizer *o = NULL;
    world_ok(&w, ls_params_create(s, 1, &params));
    ls_tensor *x = ls_param(s, params, "x", LS_F32, LS_SHAPE(2), LS_INIT_ONES, 0), *loss = ls_sum(s, ls_mul(s, x, x), 0, NULL, 0);
    ls_tensor *rate = ls_full(s, LS_F32, LS_SCALAR, 0.1);
    world_ok(&w, ls_optimizer_create(s, params, &(ls_optimizer_options){.kind = LS_OPTIM_ADAM}, &o));
    const struct {
        ls_tensor *loss, *rate;
        ls_status code;
        const char *says;
    } bad[] = {{loss, ls_full(s, LS_F64, LS_SCALAR, 0.1), LS_ERR_DTYPE, "the rate is f64"},
               {loss, ls_full(s, LS_F32, LS_SHAPE(2), 0.1), LS_ERR_SHAPE, "of rank 1: expected an f32 scalar"},
               {loss, NULL, LS_ERR_INVALID, "the rate is NULL"},
               {ls_cast(s, loss, LS_I32), rate, LS_ERR_DTYPE, "i32"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(ls_optimizer_step(s, o, bad[i].loss, bad[i].rate), bad[i].code);
        assert_non_null(strstr(ls_session_error(s)->message, bad[i].says));
        ls_session_clear_error(s);
        world_ok(&w, ls_realize(s, NULL, 0));
        for (int k = 0; k < ls_optimizer_state_count(o); k++) {
            float value[2] = {1, 1};
            ls_var *var = ls_optimizer_state_at(o, k);
            world_ok(&w, ls_var_read(s, var, value, ls_var_shape(var).rank ? sizeof value : sizeof *value));
            assert_true(value[0] == 0);
        }
    }
    ls_optimizer_destroy(o);
    ls_params_destroy(params);
    world_close(&w);
}

/* ---- schedules ---- */

static void near(double got, double want) {
    double gap = got > want ? got - want : want - got;
    if (!(gap <= 1e-12)) {
        fail_msg("%.17g: expected %.17g", got, want);
    }
}

static void test_schedules(void **state) {
    (void)state;
    const ls_schedule constant = {.rate = 0.3}, warm = {.rate = 0.3, .warmup = 4};
    const ls_schedule cosine = {.kind = LS_SCHEDULE_COSINE, .rate = 2, .warmup = 10, .steps = 110};
    const ls_schedule step = {.kind = LS_SCHEDULE_STEP, .rate = 1, .every = 5};
    near(ls_schedule_rate(&constant, 0), 0.3);
    near(ls_schedule_rate(&constant, 1000000), 0.3);
    near(ls_schedule_rate(&warm, 0), 0.075);
    near(ls_schedule_rate(&warm, 3), 0.3);
    near(ls_schedule_rate(&warm, 4), 0.3);
    near(ls_schedule_rate(&cosine, 0), 0.2);
    near(ls_schedule_rate(&cosine, 9), 2);
    near(ls_schedule_rate(&cosine, 10), 2);
    near(ls_schedule_rate(&cosine, 35), 1 + 0.70710678118654752); /* 1 + cos(pi/4) */
    near(ls_schedule_rate(&cosine, 60), 1);
    near(ls_schedule_rate(&cosine, 110), 0);
    near(ls_schedule_rate(&cosine, 5000), 0);
    near(ls_schedule_rate(&step, 4), 1);
    near(ls_schedule_rate(&step, 5), 0.1);
    near(ls_schedule_rate(&step, 14), 0.01);
    assert_true(ls_schedule_rate(&step, INT64_MAX) == 0);
    for (int t = 0; t < 120; t++) {
        double plain = ls_schedule_rate(&cosine, t);
        fesetround(FE_UPWARD);
        double upward = ls_schedule_rate(&cosine, t);
        fesetround(FE_TONEAREST);
        assert_true(plain == upward);
    }
}

/* ---- resume ---- */

static int all_vars(problem *p, ls_var **out) {
    int n = ls_params_count(p->params), m = ls_optimizer_state_count(p->optimizer);
    for (int i = 0; i < n + m; i++) {
        out[i] = i < n ? ls_params_at(p->params, i) : ls_optimizer_state_at(p->optimizer, i - n);
    }
    return n + m;
}

/* 10 steps are 5 steps, a file, and 5 steps in another context, on another device. */
static void test_resume(void **state) {
    (void)state;
    char path[] = "/tmp/lockstep-resume-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (int kind = LS_OPTIM_SGD; kind <= LS_OPTIM_ADAMW; kind++) {
        ls_optimizer_options options = {
            .kind = (ls_optimizer_kind)kind, .momentum = 0.9, .weight_decay = 0.01, .clip_norm = 5};
        ls_schedule schedule = {.kind = LS_SCHEDULE_COSINE, .rate = 0.05, .steps = 10};
        problem whole = problem_open("cpu", &options), first = problem_open("cpu", &options),
                second = problem_open("ref", &options);
        for (int t = 0; t < 10; t++) {
            problem_step(&whole, ls_schedule_rate(&schedule, t));
        }
        for (int t = 0; t < 5; t++) {
            problem_step(&first, ls_schedule_rate(&schedule, t));
        }
        ls_var *vars[8];
        ls_error err = {.code = LS_OK};
        ls_archive *a = NULL;
        int n = all_vars(&first, vars);
        assert_int_equal(n, kind == LS_OPTIM_SGD ? 2 : 4);
        assert_int_equal(ls_vars_save(first.w.session, vars, n, 0, NULL, path, &err), LS_OK);
        problem_close(&first);
        assert_int_equal(ls_archive_open(second.w.context, path, &a, &err), LS_OK);
        n = all_vars(&second, vars);
        assert_int_equal(ls_vars_load(second.w.session, vars, n, a, path, &err), LS_OK);
        ls_archive_close(a);
        for (int t = 5; t < 10; t++) {
            problem_step(&second, ls_schedule_rate(&schedule, t));
        }
        float x[N], y[N];
        problem_read(&whole, x);
        problem_read(&second, y);
        assert_memory_equal(x, y, sizeof x);
        problem_close(&whole);
        problem_close(&second);
    }
    unlink(path);
}

static void append(void *user, const char *text, size_t n) {
    strncat(user, text, n);
}

/* The weights of a layer and their moments are replaced by the kernel that computes their gradient, without copies, the same bits. */
static void test_updates_in_place(void **state) {
    (void)state;
    enum { IN = 40, OUT = 30, ROWS = 16 };
    static float x[ROWS * IN];
    static char text[1 << 18];
    char sha[2][65];
    for (int i = 0; i < ROWS * IN; i++) {
        x[i] = (float)((i * 37) % 101 - 50) / 32;
    }
    for (int device = 0; device < 2; device++) {
        world w = world_open(device ? "ref" : "cpu");
        ls_session *s = w.session;
        ls_params *params;
        ls_optimizer *optimizer;
        ls_program *program;
        ls_optimizer_options options = {.kind = LS_OPTIM_ADAM};
        ls_error err = {.code = LS_OK};
        world_ok(&w, ls_params_create(s, 3, &params));
        ls_tensor *in = ls_input(s, "x", LS_F32, LS_SHAPE(ROWS, IN)), *y = ls_nn_linear(s, params, "layer", in, OUT);
        ls_tensor *loss = ls_sum(s, ls_mul(s, y, y), 0, NULL, 0);
        world_ok(&w, ls_optimizer_create(s, params, &options, &optimizer));
        world_ok(&w, ls_optimizer_step(s, optimizer, loss, ls_full(s, LS_F32, LS_SCALAR, 0.01)));
        world_ok(&w, ls_program_compile(s, &in, 1, &loss, 1, &program));
        for (int i = 0; i < 4; i++) {
            float value;
            world_ok(&w, ls_program_run(program, (const void *[]){x}, (void *[]){&value}));
        }
        assert_int_equal(ls_params_sha256(s, params, sha[device], &err), LS_OK);
        text[0] = 0;
        world_ok(&w, ls_program_inspect(program, LS_INSPECT_MEMORY, append, text));
        char copied[32];
        snprintf(copied, sizeof copied, ":%d -> leaf", IN * OUT * 4);
        bool copies = false;
        for (const char *at = text; (at = strstr(at, " copy ")); at++) {
            const char *end = strchr(at, '\n'), *found = strstr(at, copied);
            copies = copies || (found && found < end);
        }
        assert_int_equal(copies, device); /* `ref` copies, which shows that the text is understood */
        ls_program_destroy(program);
        ls_optimizer_destroy(optimizer);
        ls_params_destroy(params);
        world_close(&w);
    }
    assert_string_equal(sha[0], sha[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_loops),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_failed_step_changes_nothing),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_updates_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
