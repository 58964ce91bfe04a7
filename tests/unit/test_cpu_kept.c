/* Packed weights that the CPU backend keeps from launch to launch: the same bits as packing each time, and dropped
 * when the weights are written or memory is wanted. */
#include "support/world.h"
#include <stdlib.h>
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

enum { TALL = 32, DEPTH = 30, WIDE = 560 };

/* Rows that whole tiles of eight fit, columns of many panels, whole numbers: all sums are exact, with whichever operands kept. */
static void kept_operands_fit_each_other(void **state) {
    (void)state;
    static float left[TALL * DEPTH], right[DEPTH * WIDE], expected[TALL * WIDE], sums[TALL * WIDE];
    for (int i = 0; i < TALL * DEPTH; i++) {
        left[i] = (float)(i * 7 % 23 - 11);
    }
    for (int i = 0; i < DEPTH * WIDE; i++) {
        right[i] = (float)(i * 5 % 19 - 9);
    }
    for (int i = 0; i < TALL * WIDE; i++) {
        for (int p = 0; p < DEPTH; p++) {
            expected[i] += left[i / WIDE * DEPTH + p] * right[p * WIDE + i % WIDE];
        }
    }
    for (int q = 0; q < 8; q++) {
        world at = world_open("cpu");
        ls_session *s = at.session;
        ls_session_set_math(s, q & 4 ? LS_FAST : LS_LOCKED);
        ls_var *va = ls_var_create(s, "a", LS_F32, LS_SHAPE(TALL, DEPTH), left),
               *vb = ls_var_create(s, "b", LS_F32, LS_SHAPE(DEPTH, WIDE), right);
        ls_tensor *in[2], *of[2] = {ls_var_value(s, va), ls_var_value(s, vb)}, *y;
        const void *data[2];
        int inputs = 0;
        for (int side = 0; side < 2; side++) {
            if (q >> side & 1) {
                data[inputs] = side ? right : left;
                of[side] = in[inputs++] = ls_input(s, side ? "r" : "l", LS_F32, side ? LS_SHAPE(DEPTH, WIDE) : LS_SHAPE(TALL, DEPTH));
            }
        }
        y = ls_matmul(s, of[0], of[1]);
        ls_program *program = NULL;
        world_ok(&at, ls_program_compile(s, in, inputs, &y, 1, &program));
        for (int i = 0; i < RUNS; i++) {
            memset(sums, 0, sizeof sums);
            world_ok(&at, ls_program_run(program, data, (void *[]){sums}));
            assert_memory_equal(sums, expected, sizeof sums);
        }
        ls_program_destroy(program);
        ls_var_destroy(va);
        ls_var_destroy(vb);
        world_close(&at);
    }
}

enum { MOST = 12, ROOM = MOST * MOST * N };

/* What programs over weights with symbols give while two symbols change values. */
static void run_with_symbols(const char *device, float *y, float *z) {
    static float images[MOST * 100];
    world at = world_open(device);
    ls_session *s = at.session;
    ls_error err = {0};
    ls_symbol *p = ls_symbol_create(at.context, "P", MOST, &err), *q = ls_symbol_create(at.context, "Q", MOST, &err);
    ls_dim dp = ls_dim_symbol(p, 1, 0), dq = ls_dim_symbol(q, 1, 0), three = ls_dim_of(3);
    world_ok(&at, ls_symbol_bind(s, p, MOST));
    world_ok(&at, ls_symbol_bind(s, q, MOST));
    fill(a, MOST * MOST * 5, 3);
    fill(w, MOST * 9, 2);
    fill(images, MOST * 100, 5);
    fill(b, 5 * N, 4);
    ls_var *va = ls_var_create(s, "a", LS_F32, (ls_shape){3, {dp, dq, ls_dim_of(5)}}, a),
           *vw = ls_var_create(s, "w", LS_F32, (ls_shape){3, {dp, three, three}}, w),
           *vx = ls_var_create(s, "x", LS_F32, (ls_shape){3, {dp, ls_dim_of(10), ls_dim_of(10)}}, images);
    const int axes[] = {1, 2};
    const ls_window_spec windows[] = {{3, 1, 1}, {3, 1, 1}};
    ls_tensor *in = ls_input(s, "b", LS_F32, LS_SHAPE(5, N));
    ls_tensor *each[] = {ls_window(s, ls_var_value(s, vx), 2, axes, windows), ls_var_value(s, vw)};
    ls_tensor *out[] = {ls_matmul(s, ls_var_value(s, va), in), ls_einsum(s, "pabij,pij->pab", each, 2)};
    ls_program *program = NULL;
    world_ok(&at, ls_program_compile(s, &in, 1, out, 2, &program));
    for (int i = 0; i < 3; i++, y += ROOM, z += MOST * 64) {
        world_ok(&at, ls_symbol_bind(s, p, i == 1 ? 6 : 4)); /* as many rows of `a` in another order; more of `w` */
        world_ok(&at, ls_symbol_bind(s, q, i == 1 ? 4 : 6));
        for (int j = 0; j < RUNS; j++) {
            world_ok(&at, ls_program_run(program, (const void *[]){b}, (void *[]){y, z}));
        }
    }
    ls_program_destroy(program);
    ls_var_destroy(va);
    ls_var_destroy(vw);
    ls_var_destroy(vx);
    world_close(&at);
}

static void weights_with_symbols_follow_them(void **state) {
    (void)state;
    static float y[2][3 * ROOM], z[2][3 * MOST * 64];
    run_with_symbols("ref", y[0], z[0]);
    run_with_symbols("cpu", y[1], z[1]);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_memory_equal(z[0], z[1], sizeof z[0]);
}

/* x W^T and W x for a batch of 1, of 5, and of 1 again, W written in between. */
static void run_batches(const char *device, float *y) {
    world at = world_open(device);
    ls_session *s = at.session;
    ls_error err = {0};
    ls_symbol *rows = ls_symbol_create(at.context, "N", 6, &err);
    fill(b, N * K, 4);
    fill(a, 6 * K, 3);
    world_ok(&at, ls_symbol_bind(s, rows, 6));
    ls_var *v = ls_var_create(s, "w", LS_F32, LS_SHAPE(N, K), b);
    ls_tensor *in = ls_input(s, "x", LS_F32, (ls_shape){2, {ls_dim_symbol(rows, 1, 0), ls_dim_of(K)}});
    ls_tensor *operands[] = {in, ls_var_value(s, v)};
    ls_tensor *out[] = {ls_einsum(s, "bk,nk->bn", operands, 2), ls_einsum(s, "bk,nk->nb", operands, 2)};
    ls_program *program = NULL;
    world_ok(&at, ls_program_compile(s, &in, 1, out, 2, &program));
    for (int i = 0; i < 4; i++) {
        int64_t batch = i == 1 ? 5 : 1;
        world_ok(&at, ls_symbol_bind(s, rows, batch));
        if (i == 3) {
            fill(b, N * K, 7);
            world_ok(&at, ls_var_write(s, v, b, sizeof *b * N * K));
        }
        for (int k = 0; k < RUNS; k++) {
            world_ok(&at, ls_program_run(program, (const void *[]){a}, (void *[]){y, y + batch * N}));
        }
        y += 2 * batch * N;
    }
    ls_program_destroy(program);
    ls_var_destroy(v);
    world_close(&at);
}

static void a_matrix_for_vectors_lies_turned(void **state) {
    (void)state;
    static float y[2][2 * 8 * N];
    run_batches("ref", y[0]);
    run_batches("cpu", y[1]);
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_memory_not_equal(y[0], y[0] + 2 * 7 * N, sizeof *y[0] * N);
}

/* A buffer that fits beside the weights alone still fits when they are packed. */
static void what_is_kept_gives_way(void **state) {
    (void)state;
    enum { SIZE = 512, LIMIT = 8 << 20 };
    ls_error err = {0};
    world at = {.id = "cpu"};
    ls_context_options options = {.threads = 1, .memory_limit = LIMIT};
    assert_int_equal(ls_context_create(&options, &at.context, &err), LS_OK);
    assert_int_equal(ls_device_open(at.context, "cpu", &at.device, &err), LS_OK);
    assert_int_equal(ls_session_create(at.context, at.device, &at.session, &err), LS_OK);
    ls_session *s = at.session;
    float *rows = calloc(SIZE * SIZE, sizeof *rows);
    assert_non_null(rows);
    ls_var *v = ls_var_create(s, "w", LS_F32, LS_SHAPE(SIZE, SIZE), rows), *more = NULL;
    ls_tensor *in = ls_input(s, "x", LS_F32, LS_SHAPE(4, SIZE));
    ls_tensor *operands[] = {in, ls_var_value(s, v)}, *y = ls_einsum(s, "bk,nk->bn", operands, 2); /* not read where it lies */
    ls_program *program = NULL;
    world_ok(&at, ls_program_compile(s, &in, 1, &y, 1, &program));
    size_t before, after;
    world_ok(&at, ls_program_run(program, (const void *[]){rows}, NULL));
    ls_context_memory(at.context, &before, NULL);
    for (int i = 0; i < RUNS; i++) {
        world_ok(&at, ls_program_run(program, (const void *[]){rows}, NULL));
    }
    ls_context_memory(at.context, &after, NULL);
    assert_true(after >= before + SIZE * SIZE * sizeof *rows); /* it is kept */
    int64_t fits = (int64_t)(LIMIT - after + SIZE * SIZE * sizeof *rows / 2) / (int64_t)sizeof *rows;
    more = ls_var_create(s, "more", LS_F32, LS_SHAPE(fits), NULL);
    assert_non_null(more);
    world_ok(&at, ls_program_run(program, (const void *[]){rows}, NULL));
    ls_program_destroy(program);
    ls_var_destroy(v);
    ls_var_destroy(more);
    free(rows);
    world_close(&at);
}

static ls_status multiply(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry, ls_tensor *const *xs,
                          ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)ctx, (void)iteration, (void)out_ys;
    out_carry[0] = ls_matmul(s, xs[0], carry[0]);
    return LS_OK;
}

/* A loop reads its slices at as many places as it has iterations: no memory stays for each of them. */
static void slices_of_loops_leave_little(void **state) {
    (void)state;
    enum { TRIP = 40000 };
    world at = world_open_with("cpu", 1, NULL);
    ls_session *s = at.session;
    float *xs = calloc(TRIP * 4, sizeof *xs), y[4], first[] = {1, 2, 3, 4};
    assert_non_null(xs);
    for (int i = 0; i < TRIP; i++) { /* each exchanges two rows */
        xs[4 * i + 1] = xs[4 * i + 2] = 1;
    }
    ls_tensor *in = ls_input(s, "x", LS_F32, LS_SHAPE(TRIP, 2, 2)), *out;
    ls_tensor *carry = ls_tensor_from(s, LS_F32, LS_SHAPE(2, 2), first);
    world_ok(&at, ls_loop(s, ls_dim_of(TRIP), 1, &carry, 1, &in, 0, multiply, NULL, &out, NULL));
    ls_program *program = NULL;
    size_t before, after;
    world_ok(&at, ls_program_compile(s, &in, 1, &out, 1, &program));
    ls_context_memory(at.context, &before, NULL);
    world_ok(&at, ls_program_run(program, (const void *[]){xs}, (void *[]){y}));
    ls_context_memory(at.context, &after, NULL);
    assert_memory_equal(y, first, sizeof y);
    assert_true(after < before + (1 << 20));
    ls_program_destroy(program);
    free(xs);
    world_close(&at);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_are_packed_once),
                                       cmocka_unit_test(kept_operands_fit_each_other),
                                       cmocka_unit_test(weights_with_symbols_follow_them),
                                       cmocka_unit_test(a_matrix_for_vectors_lies_turned),
                                       cmocka_unit_test(what_is_kept_gives_way),
                                       cmocka_unit_test(slices_of_loops_leave_little)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
