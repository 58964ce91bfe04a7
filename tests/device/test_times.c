/* Profiles on LOCKSTEP_DEVICE: which clock they are by, that every kernel takes time, that all together take no more than the
 * runs did, and that being looked at changes no bit. Nothing here depends on how fast a machine is. */
#define _GNU_SOURCE
#include "base/os.h"
#include "gpu/gpu.h"
#include "support/world.h"
#include <lockstep/inspect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static world w;
static ls_session *s;

static int setup(void **state) {
    (void)state;
    const char *id = getenv("LOCKSTEP_DEVICE");
    setenv("LOCKSTEP_CACHE", "off", 1);
    w = world_open(id && *id ? id : "sim:2");
    s = w.session;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    world_close(&w);
    return 0;
}

typedef struct sums {
    int kernels;
    uint64_t launches, nanoseconds;
    bool contracts, clocked;
} sums;

static void add(void *user, const ls_kernel_profile *p) {
    sums *all = user;
    const char *clock = strncmp(w.id, "vulkan", 6) == 0   ? "Vulkan timestamps"
                        : strncmp(w.id, "webgpu", 6) == 0 ? "WebGPU timestamps"
                        : strncmp(w.id, "cuda", 4) == 0   ? "CUDA events"
                                                          : "host";
    assert_string_equal(p->clock, clock);
    assert_string_equal(p->device, ls_device_id(w.device));
    assert_true(p->bytes > 0);
    if (strstr(p->kernel, "contract")) {
        assert_true(p->flops == 2.0 * 24 * 20 * 70);
        assert_true(p->launches == 0 || p->strategy[0] || strcmp(clock, "host") == 0);
        all->contracts = true;
    }
    all->kernels++;
    all->launches += p->launches;
    all->nanoseconds += p->nanoseconds;
}

static ls_program *compile(ls_tensor **out_y) {
    static float x[24 * 70];
    ls_program *program;
    for (int i = 0; i < 24 * 70; i++) {
        x[i] = (float)(i % 97) / 97.0f - 0.5f;
    }
    ls_tensor *a = ls_tensor_from(s, LS_F32, LS_SHAPE(24, 70), x), *b = ls_tensor_from(s, LS_F32, LS_SHAPE(70, 20), x);
    ls_tensor *y = ls_softmax(s, ls_matmul(s, a, b), 1);
    *out_y = ls_sum(s, ls_mul(s, y, y), 1, (const int[]){0}, 0);
    world_ok(&w, ls_program_compile(s, NULL, 0, out_y, 1, &program));
    return program;
}

static void profile(void **state) {
    (void)state;
    enum { RUNS = 6 };
    ls_tensor *y;
    float plain[20], timed[20];
    void *out = plain;
    ls_program *program = compile(&y);
    world_ok(&w, ls_program_run(program, NULL, &out));
    sums all = {0};
    ls_program_kernels(program, add, &all);
    assert_true(all.kernels >= 2 && all.contracts);
    assert_true(all.launches == 0 && all.nanoseconds == 0);
    ls_program_set_profile(program, 1);
    out = timed;
    uint64_t begin = ls_os_nanoseconds();
    for (int i = 0; i < RUNS; i++) {
        world_ok(&w, ls_program_run(program, NULL, &out));
    }
    uint64_t wall = ls_os_nanoseconds() - begin;
    assert_memory_equal(plain, timed, sizeof plain);
    ls_program_set_profile(program, 0);
    world_ok(&w, ls_program_run(program, NULL, &out));
    sums seen = {0};
    ls_program_kernels(program, add, &seen);
    assert_int_equal(seen.launches, RUNS * all.kernels);
    printf("%s: %d kernels, %.3f ms of kernels in %.3f ms of runs\n", w.id, seen.kernels, (double)seen.nanoseconds * 1e-6,
           (double)wall * 1e-6);
    assert_true(seen.nanoseconds > 0);
    /* Two clocks are never quite the same: a twentieth, and the granularity of a launch. */
    assert_true(seen.nanoseconds <= wall + wall / 20 + 100000 * seen.launches);
    assert_true(ls_program_get_stats(program).kernel_ns == seen.nanoseconds);
    ls_program_destroy(program);
}

static ls_status body(ls_session *session, void *ctx, ls_tensor *iteration, ls_tensor *const *carry, ls_tensor *const *xs,
                      ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)ctx, (void)iteration, (void)xs, (void)out_ys;
    out_carry[0] = ls_add(session, carry[0], carry[0]);
    return LS_OK;
}

static void add_launches(void *user, const ls_kernel_profile *p) {
    sums *all = user;
    all->launches += p->launches;
    all->nanoseconds += p->nanoseconds;
}

/* One run with more launches than there are timers. */
static void many_launches(void **state) {
    (void)state;
    enum { TRIPS = 2 * LS_GPU_TIMERS + 3 };
    ls_program *program;
    float one[3] = {1, 2, 3};
    ls_tensor *x = ls_tensor_from(s, LS_F32, LS_SHAPE(3), one), *y;
    world_ok(&w, ls_loop(s, ls_dim_of(TRIPS), 1, &x, 0, NULL, 0, body, NULL, &y, NULL));
    world_ok(&w, ls_program_compile(s, NULL, 0, &y, 1, &program));
    ls_program_set_profile(program, 1);
    world_ok(&w, ls_program_run(program, NULL, NULL));
    sums all = {0};
    ls_program_kernels(program, add_launches, &all);
    assert_true(all.launches >= TRIPS);
    assert_true(all.nanoseconds > 0);
    ls_program_destroy(program);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(profile, setup, teardown),
                                       cmocka_unit_test_setup_teardown(many_launches, setup, teardown)};
    return cmocka_run_group_tests_name("times", tests, NULL, NULL);
}
