/* Packed weights that the CPU backend keeps from launch to launch: the same bits as packing each time, and dropped
 * when the weights are written. */
#include "support/world.h"
#include <string.h>

enum { RUNS = 8, C = 24, SIDE = 9, OUT = C * SIDE * SIDE, WEIGHTS = C * C * 9, K = 40, M = 20, N = 30 };

static float x[C * SIDE * SIDE], w[WEIGHTS], a[M * K], b[K * N];

static void fill(float *to, int n, int seed) {
    for (int i = 0; i < n; i++) {
        to[i] = (float)((i * 37 + seed * 11) % 101 - 50) / 64;
    }
}

/* Runs both products RUNS times; each time they must give the first run's bits. */
static void run(world *at, ls_program *program, float *y, float *z) {
    static float again_y[OUT], again_z[M * N];
    const void *in[] = {x, a};
    for (int i = 0; i < RUNS; i++) {
        void *out[] = {i ? again_y : y, i ? again_z : z};
        world_ok(at, ls_program_run(program, in, out));
        assert_true(!i || (!memcmp(y, again_y, sizeof again_y) && !memcmp(z, again_z, sizeof again_z)));
    }
}

static void weights_are_packed_once(void **state) {
    (void)state;
    world at = world_open("cpu");
    ls_session *s = at.session;
    fill(x, C * SIDE * SIDE, 1);
    fill(w, WEIGHTS, 2);
    fill(a, M * K, 3);
    fill(b, K * N, 4);
    ls_var *vw = ls_var_create(s, "w", LS_F32, LS_SHAPE(C, C, 3, 3), w),
           *vb = ls_var_create(s, "b", LS_F32, LS_SHAPE(K, N), b);
    ls_tensor *in[] = {ls_input(s, "x", LS_F32, LS_SHAPE(1, C, SIDE, SIDE)),
                       ls_input(s, "a", LS_F32, LS_SHAPE(M, K))};
    ls_conv_spec spec = {.spatial = 2, .pad_low = {1, 1}, .pad_high = {1, 1}};
    ls_tensor *out[] = {ls_conv(s, in[0], ls_var_value(s, vw), NULL, &spec),
                        ls_matmul(s, in[1], ls_var_value(s, vb))};
    ls_program *program = NULL;
    world_ok(&at, ls_program_compile(s, in, 2, out, 2, &program));
    static float y[OUT], z[M * N], y2[OUT], z2[M * N];
    run(&at, program, y, z);
    for (int i = 0; i < WEIGHTS; i++) { /* twice the weights: exactly twice the sums */
        w[i] *= 2;
    }
    for (int i = 0; i < K * N; i++) {
        b[i] *= 2;
    }
    world_ok(&at, ls_var_write(s, vw, w, sizeof w));
    world_ok(&at, ls_var_write(s, vb, b, sizeof b));
    run(&at, program, y2, z2);
    for (int i = 0; i < OUT; i++) {
        assert_true(y2[i] == 2 * y[i]);
    }
    for (int i = 0; i < M * N; i++) {
        assert_true(z2[i] == 2 * z[i]);
    }
    w[0] =
        __builtin_inff(); /* of channel 0 and the first tap, which the padding leaves out of the first row and column */
    world_ok(&at, ls_var_write(s, vw, w, sizeof w));
    run(&at, program, y, z);
    assert_true(y[0] == y2[0] && y[SIDE * SIDE] == y2[SIDE * SIDE]);
    assert_true(y[SIDE + 1] - y[SIDE + 1] != 0);
    ls_program_destroy(program);
    ls_var_destroy(vw);
    ls_var_destroy(vb);
    world_close(&at);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_are_packed_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
