/* Products of f32 in reduced arithmetic on the CPU (C28): what bf16 holds is computed exactly; elsewhere operands are rounded where the processor
 * multiplies bf16, in the first launches and when weights are kept packed; numbers that its instruction would lose give the bits of fast. */
#include "backend/cpu/cpuid.h"
#include "base/os.h"
#include "support/world.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { M = 67, N = 83, K = 131, RUNS = 8 };

static float a[M * K], b[N * K], bias[N];

/* RUNS times, each with the same bits of y. */
static void run(world *w, ls_tensor *in, ls_tensor *out, float *y) {
    size_t bytes = ls_tensor_bytes(w->session, out);
    float *again = malloc(bytes);
    ls_program *program = NULL;
    world_ok(w, ls_program_compile(w->session, &in, 1, &out, 1, &program));
    for (int i = 0; i < RUNS; i++) {
        world_ok(w, ls_program_run(program, (const void *[]){a}, (void *[]){i ? again : y}));
        assert_true(!i || !memcmp(y, again, bytes));
    }
    ls_program_destroy(program);
    free(again);
}

/* relu(a b + bias) as a program that RUNS times gives the same bits, over weights that are a variable. */
static void product(ls_math math, int threads, float *y) {
    world w = world_open_with("cpu", threads, NULL);
    ls_session *s = w.session;
    ls_session_set_math(s, math);
    ls_var *weights = ls_var_create(s, "b", LS_F32, LS_SHAPE(N, K), b);
    ls_tensor *in = ls_input(s, "a", LS_F32, LS_SHAPE(M, K));
    ls_tensor *sums = ls_matmul(s, in, ls_transpose(s, ls_var_value(s, weights), 0, 1));
    ls_tensor *out = ls_relu(s, ls_add(s, sums, ls_tensor_from(s, LS_F32, LS_SHAPE(N), bias)));
    run(&w, in, out, y);
    ls_var_destroy(weights);
    world_close(&w);
}

/* A convolution of one element with a bias and a relu: a product whose rows have an addend each. */
static void convolution(ls_math math, float *y) {
    enum { IN = 24, OUT = 40, SIDE = 16 };
    world w = world_open_with("cpu", 2, NULL);
    ls_session *s = w.session;
    ls_session_set_math(s, math);
    ls_var *weights = ls_var_create(s, "w", LS_F32, LS_SHAPE(OUT, IN, 1, 1), b);
    ls_tensor *in = ls_input(s, "x", LS_F32, LS_SHAPE(1, IN, SIDE, SIDE));
    ls_conv_spec spec = {.spatial = 2};
    ls_tensor *out = ls_relu(s, ls_conv(s, in, ls_var_value(s, weights), ls_tensor_from(s, LS_F32, LS_SHAPE(OUT), bias), &spec));
    run(&w, in, out, y);
    ls_var_destroy(weights);
    world_close(&w);
}

static bool rounds(void) {
    ls_cpu cpu;
    ls_cpu_isa isa;
    ls_cpu_detect(&cpu);
    return ls_cpu_isa_choose(&cpu, getenv("LOCKSTEP_ISA"), &isa) == LS_CPU_CHOSEN && isa == LS_CPU_AVX512 &&
           (cpu.bf16_is_fast || (cpu.amx_bf16 && ls_os_use_amx()));
}

static void fill(float scale) {
    for (int i = 0; i < M * K; i++) {
        a[i] = scale * (float)(i * 37 % 17 - 8);
    }
    for (int i = 0; i < N * K; i++) {
        b[i] = (float)(i * 53 % 15 - 7);
    }
    for (int i = 0; i < N; i++) {
        bias[i] = scale * (float)(i % 5 - 2);
    }
}

static void whole_numbers_are_exact(void **state) {
    (void)state;
    static float locked[M * N], reduced[M * N];
    for (int threads = 1; threads <= 3; threads++) {
        fill(0.25f);
        product(LS_LOCKED, threads, locked);
        product(LS_REDUCED, threads, reduced);
        assert_memory_equal(locked, reduced, sizeof locked);
    }
    static float images[2][40 * 16 * 16];
    convolution(LS_LOCKED, images[0]);
    convolution(LS_REDUCED, images[1]);
    assert_memory_equal(images[0], images[1], sizeof images[0]);
}

static void operands_are_rounded(void **state) {
    (void)state;
    static float rounded[M * N], reduced[M * N];
    if (!rounds()) {
        print_message("this processor, or the instruction set asked for, does not multiply bf16\n");
        skip();
    }
    fill(1);
    product(LS_LOCKED, 1, rounded);
    for (int i = 0; i < M * K; i++) {
        a[i] *= 1 + 0x1p-10f; /* what bf16 leaves out */
    }
    for (int i = 0; i < N * K; i++) {
        b[i] *= 1 - 0x1p-11f;
    }
    product(LS_REDUCED, 2, reduced);
    assert_memory_equal(rounded, reduced, sizeof rounded);
}

/* Whether reduced has the bits of fast where one element of an operand's last row is `x`. */
static bool same_as_fast(float x, int place, bool left) {
    static float fast[M * N], reduced[M * N];
    fill(1 + 0x1p-10f);
    *(left ? &a[(M - 1) * K + place] : &b[(N - 1) * K + place]) = x;
    product(LS_FAST, 1 + left, fast);
    product(LS_REDUCED, 1 + left, reduced);
    return memcmp(fast, reduced, sizeof fast) == 0;
}

static void what_would_be_lost_is_computed_as_in_fast(void **state) {
    (void)state;
    static const float lost[] = {0x1p-149f, 0x1p-100f, 0x1.fffffep-59f, 0x1p63f, 0x1p100f, INFINITY, NAN};
    static const float least_and_most[] = {0x1p-58f, 0x1.fffffep62f};
    static const int places[] = {5, 21, K - 1}; /* in a first vector, in a second one, among the last few */
    for (int left = 0; left < 2; left++) {
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < (int)(sizeof lost / sizeof *lost); j++) {
                assert_true(same_as_fast(lost[j], places[i], left));
            }
            for (int j = 0; j < 2; j++) {
                assert_true(!rounds() || !same_as_fast(least_and_most[j], places[i], left));
            }
        }
    }
}

/* Operands whose rows and columns both lie apart: turned round, every second element, one of two. */
static void elements_lie_apart(void **state) {
    (void)state;
    enum { SIDE = 64 };
    static float want[SIDE * SIDE], got[SIDE * SIDE];
    fill(1);
    for (int i = 0; i < 6; i++) {
        for (int kind = LS_LOCKED; kind <= LS_REDUCED; kind += LS_REDUCED - LS_LOCKED) {
            world w = world_open_with("cpu", 1, NULL);
            ls_session *s = w.session;
            ls_session_set_math(s, (ls_math)kind);
            ls_tensor *plain = ls_tensor_from(s, LS_F32, LS_SHAPE(SIDE, SIDE), b), *x = ls_tensor_from(s, LS_F32, LS_SHAPE(SIDE, 2 * SIDE), a);
            x = i / 2 == 0   ? ls_flip(s, ls_narrow(s, x, 1, 3, SIDE), 1)
                : i / 2 == 1 ? ls_slice(s, x, (const ls_slice_spec[]){{0, SIDE, 1}, {0, 2 * SIDE, 2}})
                             : ls_reshape(s, ls_narrow(s, ls_reshape(s, x, LS_SHAPE(SIDE, SIDE, 2)), 2, 1, 1), LS_SHAPE(SIDE, SIDE));
            world_ok(&w, ls_read(s, i % 2 ? ls_matmul(s, plain, x) : ls_matmul(s, x, plain), kind == LS_LOCKED ? want : got, sizeof want));
            world_close(&w);
        }
        assert_memory_equal(got, want, sizeof want);
    }
}

/* All of them far below what the instruction keeps: no sum is flushed. */
static void small_numbers(void **state) {
    (void)state;
    static float locked[M * N], reduced[M * N];
    fill(0x1p-140f);
    product(LS_LOCKED, 1, locked);
    product(LS_REDUCED, 1, reduced);
    assert_memory_equal(locked, reduced, sizeof locked);
    int there = 0;
    for (int i = 0; i < M * N; i++) {
        there += reduced[i] > 0;
    }
    assert_true(there > M * N / 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_exact), cmocka_unit_test(operands_are_rounded),
        cmocka_unit_test(what_would_be_lost_is_computed_as_in_fast), cmocka_unit_test(small_numbers), cmocka_unit_test(elements_lie_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
