/* Block-quantised weights: the layouts byte by byte, their numbers, products in contract order on every device of this machine and
 * every instruction set, launch after launch (weights are packed once, and anew when they change), gradients, what is refused. */
#include "backend/cpu/cpuid.h"
#include "base/half.h"
#include "base/rng.h"
#include "support/world.h"
#include <lockstep/inspect.h>
#include <lockstep/quant.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void normal(ls_rng *rng, float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        x[i] = (float)ls_rng_normal(rng);
    }
}

/* The number at `k` of a row, straight from the layout. */
static float number_at(ls_quant kind, const uint8_t *row, int64_t k) {
    const uint8_t *block = row + k / 32 * (kind == LS_Q4_0 ? 18 : 34);
    float d = ls_f16_to_f32((uint16_t)(block[0] | block[1] << 8));
    int j = (int)(k % 32);
    int code = kind == LS_Q8_0 ? (int8_t)block[2 + j] : (j < 16 ? block[2 + j] & 15 : block[2 + j - 16] >> 4) - 8;
    return (float)code * d;
}

static void layouts(void **state) {
    (void)state;
    float x[64] = {0};
    uint8_t out[2 * 34];
    ls_error err = {0};
    for (int i = 0; i < 32; i++) {
        x[i] = (float)(i - 16) / 2; /* -8 .. 7.5 */
    }
    assert_int_equal(ls_quant_bytes(LS_Q4_0, 64), 36);
    assert_int_equal(ls_quant_bytes(LS_Q8_0, 64), 68);
    assert_int_equal(ls_quant_bytes(LS_Q8_0, 33), 0);
    assert_int_equal(ls_quant_bytes((ls_quant)7, 32), 0);
    assert_int_equal(ls_quantize(LS_Q4_0, 1, 64, x, out, &err), LS_OK);
    assert_int_equal(out[0] | out[1] << 8, 0x3c00); /* -8 / -8 */
    for (int i = 0; i < 16; i++) {
        int low = (int)(x[i] + 8.5f), high = (int)(x[i + 16] + 8.5f);
        assert_int_equal(out[2 + i], low | (high > 15 ? 15 : high) << 4);
    }
    assert_int_equal(out[18] | out[19], 0); /* zeros */
    assert_int_equal(out[20], 0x88);
    for (int i = 0; i < 32; i++) {
        x[i] = (float)(i * 8 - 127);
    }
    x[0] = 127;
    x[5] = 2.5f;
    x[6] = -2.5f;
    assert_int_equal(ls_quantize(LS_Q8_0, 2, 32, x, out, &err), LS_OK);
    assert_int_equal(out[0] | out[1] << 8, 0x3c00);
    assert_int_equal((int8_t)out[2], 127);
    assert_int_equal((int8_t)out[7], 3); /* half away from zero */
    assert_int_equal((int8_t)out[8], -3);
    x[3] = __builtin_inff();
    assert_int_equal(ls_quantize(LS_Q4_0, 1, 32, x, out, &err), LS_ERR_INVALID);
    assert_non_null(strstr(err.message, "column 3"));
    ls_error_clear(&err);
    x[3] = 1e9f;
    assert_int_equal(ls_quantize(LS_Q4_0, 1, 32, x, out, &err), LS_ERR_INVALID);
    assert_non_null(strstr(err.message, "f16"));
    ls_error_clear(&err);
    assert_int_equal(ls_quantize(LS_Q4_0, 1, 40, x, out, &err), LS_ERR_INVALID);
}

static void round_trip(void **state) {
    (void)state;
    enum { ROWS = 5, K = 96 };
    float x[ROWS * K], y[ROWS * K];
    uint8_t bytes[ROWS * K / 32 * 34];
    ls_rng rng = {3, 0};
    ls_error err = {0};
    normal(&rng, x, ROWS * K);
    const char *ids[] = {"cpu", "ref"};
    for (int i = 0; i < 4; i++) {
        ls_quant kind = i % 2 ? LS_Q8_0 : LS_Q4_0;
        int64_t row = ls_quant_bytes(kind, K);
        world w = world_open(ids[i / 2]);
        assert_int_equal(ls_quantize(kind, ROWS, K, x, bytes, &err), LS_OK);
        ls_tensor *t = ls_dequantize(w.session, ls_tensor_from(w.session, LS_U8, LS_SHAPE(ROWS, row), bytes), kind);
        world_ok(&w, ls_read(w.session, t, y, sizeof y));
        for (int j = 0; j < ROWS * K; j++) {
            float want = number_at(kind, bytes + j / K * row, j % K), most = 0;
            assert_true(y[j] == want);
            for (int k = j / 32 * 32; k < j / 32 * 32 + 32; k++) {
                float size = x[k] < 0 ? -x[k] : x[k];
                most = size > most ? size : most;
            }
            float gap = y[j] < x[j] ? x[j] - y[j] : y[j] - x[j];
            assert_true(gap <= most / (kind == LS_Q4_0 ? 7.9f : 220));
        }
        world_close(&w);
    }
}

/* y = x w^T + bias by the contraction rule. */
static void product_by_loops(ls_quant kind, int64_t m, int64_t n, int64_t k, const float *x, const uint8_t *w, const float *bias,
                             float *y) {
    for (int64_t i = 0; i < m * n; i++) {
        float sum = 0, chunk = 0;
        for (int64_t p = 0; p < k; p++) {
            chunk = chunk + x[i / n * k + p] * number_at(kind, w + i % n * ls_quant_bytes(kind, k), p);
            if (p % 512 == 511 || p == k - 1) {
                sum = p < 512 ? chunk : sum + chunk;
                chunk = 0;
            }
        }
        y[i] = sum + bias[i % n];
    }
}

typedef struct quant_case {
    int64_t m, n, k;
} quant_case;

/* exact: not 0 where all sums are to be whole multiples of it. */
static void check_products(const char *isa, int threads, quant_case c, ls_quant kind, ls_math math, float exact) {
    world w = isa ? world_open_with("cpu", threads, isa) : world_open("ref");
    size_t row = (size_t)ls_quant_bytes(kind, c.k), count = (size_t)(c.m * c.n);
    float *x = malloc((size_t)(c.m * c.k) * 4), *numbers = malloc((size_t)(c.n * c.k) * 4), *bias = malloc((size_t)c.n * 4);
    float *want = malloc(count * 4), *got = malloc(count * 4);
    uint8_t *bytes = malloc(row * (size_t)c.n);
    ls_rng rng = {(uint64_t)(c.m * 131 + c.n), 0};
    ls_error err = {0};
    normal(&rng, x, c.m * c.k);
    normal(&rng, numbers, c.n * c.k);
    normal(&rng, bias, c.n);
    for (int64_t i = 0; exact && i < c.m * c.k; i++) { /* what 8 bits hold: whole numbers, in every block one of 127 */
        x[i] = exact * (i % 32 == 7 ? 127 : (float)((int)ls_rng_below(&rng, 255) - 127));
    }
    for (int64_t i = 0; exact && i < c.n * c.k; i++) { /* and scales of 1: all sums are whole numbers below 2^24 */
        numbers[i] = i % 32 == 3 ? (kind == LS_Q4_0 ? -8 : 127) : (float)((int)ls_rng_below(&rng, 15) - 7);
    }
    for (int64_t i = 0; exact && i < c.n; i++) {
        bias[i] = exact * (float)i;
    }
    assert_int_equal(ls_quantize(kind, c.n, c.k, numbers, bytes, &err), LS_OK);
    product_by_loops(kind, c.m, c.n, c.k, x, bytes, bias, want);
    ls_session *s = w.session;
    ls_session_set_math(s, math);
    ls_tensor *weights = ls_tensor_from(s, LS_U8, LS_SHAPE(c.n, (int64_t)row), bytes), *b = ls_tensor_from(s, LS_F32, LS_SHAPE(c.n), bias);
    ls_tensor *in = ls_input(s, "x", LS_F32, LS_SHAPE(c.m, c.k));
    ls_tensor *y = ls_linear_q(s, in, weights, kind, b);
    ls_program *program;
    world_ok(&w, ls_program_compile(s, &in, 1, &y, 1, &program));
    for (int launch = 0; launch < 8; launch++) {
        const void *in_bytes = x;
        void *out_bytes = got;
        memset(got, 0xff, count * 4);
        world_ok(&w, ls_program_run(program, &in_bytes, &out_bytes));
        for (size_t i = 0; i < count; i++) {
            if (got[i] != want[i]) {
                fail_msg("%s, %d threads, [%d,%d]x%d, kind %d, launch %d: element %d is %.9g, expected %.9g", isa ? isa : "ref", threads,
                         (int)c.m, (int)c.k, (int)c.n, (int)kind, launch, (int)i, (double)got[i], (double)want[i]);
            }
        }
    }
    ls_program_destroy(program);
    free(x), free(numbers), free(bias), free(want), free(got), free(bytes);
    world_close(&w);
}

static void append(void *user, const char *text, size_t size) {
    strncat(user, text, size);
}

/* Weights that come with each run are packed anew when they are others; and the kernel says what it is. */
static void weights_that_change(void **state) {
    (void)state;
    enum { M = 2, N = 20, K = 64, SETS = 3 };
    static char text[1 << 16];
    float x[M * K], numbers[N * K], bias[N] = {0}, want[SETS][M * N], got[M * N];
    uint8_t bytes[SETS][N * 36];
    ls_rng rng = {9, 0};
    ls_error err = {0};
    normal(&rng, x, M * K);
    for (int i = 0; i < SETS; i++) {
        normal(&rng, numbers, N * K);
        assert_int_equal(ls_quantize(LS_Q4_0, N, K, numbers, bytes[i], &err), LS_OK);
        product_by_loops(LS_Q4_0, M, N, K, x, bytes[i], bias, want[i]);
    }
    world w = world_open("cpu");
    ls_session *s = w.session;
    ls_tensor *in[] = {ls_input(s, "x", LS_F32, LS_SHAPE(M, K)), ls_input(s, "w", LS_U8, LS_SHAPE(N, 36))};
    ls_tensor *y = ls_linear_q(s, in[0], in[1], LS_Q4_0, NULL);
    ls_program *program;
    world_ok(&w, ls_program_compile(s, in, 2, &y, 1, &program));
    world_ok(&w, ls_program_inspect(program, LS_INSPECT_KERNELS, append, text));
    assert_non_null(strstr(text, "quantised, kept in 4 or 8 bits"));
    for (int launch = 0; launch < 12; launch++) {
        int set = launch < 4 ? 0 : launch % SETS;
        void *out = got;
        world_ok(&w, ls_program_run(program, (const void *[]){x, bytes[set]}, &out));
        assert_memory_equal(got, want[set], sizeof got);
    }
    ls_program_destroy(program);
    world_close(&w);
}

/* Operands of the form that are no such weights: codes of more than 8 bits, scales for each k; and others that are: f32 scales, zero points, larger blocks, a last block cut short. */
static void other_forms(void **state) {
    (void)state;
    enum { M = 3, N = 18, K = 70, FORMS = 5 };
    float x[M * K], scale[N * K], want, got[M * N];
    int32_t codes[N * K];
    ls_rng rng = {10, 0};
    normal(&rng, x, M * K);
    for (int form = 0; form < FORMS; form++) {
        int block = form == 1 ? 1 : form == 4 ? 64 : 32, blocks = (K + block - 1) / block;
        for (int i = 0; i < N * K; i++) {
            codes[i] = (int)ls_rng_below(&rng, form == 0 ? 1000 : 16);
        }
        normal(&rng, scale, N * blocks);
        world w = world_open("cpu");
        ls_session *s = w.session;
        ls_tensor *in = ls_input(s, "x", LS_F32, LS_SHAPE(M, K)), *q = ls_tensor_from(s, LS_I32, LS_SHAPE(N, K), codes);
        ls_tensor *d = ls_expand(s, ls_unsqueeze(s, ls_tensor_from(s, LS_F32, LS_SHAPE(N, blocks), scale), 2), LS_SHAPE(N, blocks, block));
        d = ls_narrow(s, ls_reshape(s, d, LS_SHAPE(N, blocks * block)), 1, 0, K);
        q = ls_cast(s, q, LS_F32);
        q = form == 3 ? ls_sub(s, q, ls_full(s, LS_F32, LS_SCALAR, 5)) : q;
        ls_tensor *y = ls_linear(s, in, ls_mul(s, q, d), NULL);
        ls_program *program;
        world_ok(&w, ls_program_compile(s, &in, 1, &y, 1, &program));
        for (int launch = 0; launch < 3; launch++) {
            const void *given = x;
            void *out = got;
            world_ok(&w, ls_program_run(program, &given, &out));
            for (int i = 0; i < M * N; i++) {
                want = 0;
                for (int k = 0; k < K; k++) {
                    want += x[i / N * K + k] * ((float)(codes[i % N * K + k] - (form == 3 ? 5 : 0)) * scale[i % N * blocks + k / block]);
                }
                assert_true(got[i] == want);
            }
        }
        ls_program_destroy(program);
        world_close(&w);
    }
}

static const quant_case cases[] = {{1, 16, 32}, {1, 50, 544}, {3, 7, 64}, {1, 33, 1056}, {2, 300, 64}, {13, 40, 576}, {30, 65, 96}, {129, 48, 128}};
enum { CASES = sizeof cases / sizeof *cases };

static void products(void **state) {
    (void)state;
    static const char *const isas[] = {NULL, "scalar", "avx2", "avx512", "neon"};
    ls_cpu cpu;
    ls_cpu_detect(&cpu);
    for (int i = 0; i < 5; i++) {
        bool here = !isas[i];
        for (int isa = 0; isas[i] && isa < LS_CPU_ISA_COUNT; isa++) {
            here = here || (cpu.has[isa] && strcmp(isas[i], ls_cpu_isa_name((ls_cpu_isa)isa)) == 0);
        }
        for (int c = 0; here && c < CASES * 2; c++) {
            ls_quant kind = c % 2 ? LS_Q8_0 : LS_Q4_0;
            if (isas[i] || cases[c / 2].m < 4) { /* ref computes one point at a time */
                check_products(isas[i], 1 + c / 2 % 2, cases[c / 2], kind, LS_LOCKED, 0);
                check_products(isas[i], 1 + c / 2 % 2, cases[c / 2], kind, LS_FAST, 1);
                check_products(isas[i], 1, cases[c / 2], kind, LS_FAST, 0x1p100f); /* codes times x alone must not overflow */
                check_products(isas[i], 1 + c / 2 % 2, cases[c / 2], kind, LS_REDUCED, 1);
            }
        }
    }
}

/* The gradient in x is dy times the dequantised weights, bit for bit. */
static void gradient(void **state) {
    (void)state;
    enum { M = 3, N = 6, K = 64 };
    float x[M * K], numbers[N * K], got[M * K], want[M * K];
    uint8_t bytes[N * 36];
    ls_rng rng = {5, 0};
    ls_error err = {0};
    normal(&rng, x, M * K);
    normal(&rng, numbers, N * K);
    assert_int_equal(ls_quantize(LS_Q4_0, N, K, numbers, bytes, &err), LS_OK);
    world w = world_open("cpu");
    ls_session *s = w.session;
    ls_tensor *t = ls_tensor_from(s, LS_F32, LS_SHAPE(M, K), x), *q = ls_tensor_from(s, LS_U8, LS_SHAPE(N, 36), bytes), *dx;
    ls_tensor *y = ls_linear_q(s, t, q, LS_Q4_0, NULL);
    world_ok(&w, ls_grad(s, ls_sum(s, ls_mul(s, y, y), 0, NULL, 0), NULL, 1, &t, &dx));
    world_ok(&w, ls_read(s, dx, got, sizeof got));
    ls_tensor *full = ls_dequantize(s, q, LS_Q4_0), *dense;
    world_ok(&w, ls_realize(s, &full, 1));
    y = ls_linear(s, t, full, NULL);
    world_ok(&w, ls_grad(s, ls_sum(s, ls_mul(s, y, y), 0, NULL, 0), NULL, 1, &t, &dense));
    world_ok(&w, ls_read(s, dense, want, sizeof want));
    assert_memory_equal(got, want, sizeof got);
    world_close(&w);
}

static void refused(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_session *s = w.session;
    ls_tensor *x = ls_input(s, "x", LS_F32, LS_SHAPE(2, 64)), *q = ls_input(s, "w", LS_U8, LS_SHAPE(3, 36));
    assert_non_null(ls_linear_q(s, x, q, LS_Q4_0, NULL));
    assert_null(ls_linear_q(s, x, q, LS_Q8_0, NULL));
    assert_non_null(strstr(ls_session_error(s)->message, "u8[rows, 68]"));
    world_close(&w);
    w = world_open("cpu");
    assert_null(ls_dequantize(w.session, ls_input(w.session, "w", LS_U8, LS_SHAPE(3, 35)), LS_Q8_0));
    assert_non_null(strstr(ls_session_error(w.session)->message, "u8[3,35]"));
    world_close(&w);
    w = world_open("cpu");
    assert_null(ls_dequantize(w.session, ls_input(w.session, "w", LS_I8, LS_SHAPE(3, 34)), LS_Q8_0));
    world_close(&w);
}

/* Halves are computed in f32 and rounded once. */
static void halves(void **state) {
    (void)state;
    enum { M = 2, N = 5, K = 64 };
    float numbers[N * K], x[M * K], y[M * N], bias[N] = {0};
    uint16_t half[M * K], got[M * N];
    uint8_t bytes[N * 68];
    ls_rng rng = {6, 0};
    ls_error err = {0};
    normal(&rng, numbers, N * K);
    normal(&rng, x, M * K);
    for (int i = 0; i < M * K; i++) {
        half[i] = ls_f32_to_f16(x[i]);
        x[i] = ls_f16_to_f32(half[i]);
    }
    assert_int_equal(ls_quantize(LS_Q8_0, N, K, numbers, bytes, &err), LS_OK);
    product_by_loops(LS_Q8_0, M, N, K, x, bytes, bias, y);
    world w = world_open("cpu");
    ls_tensor *t = ls_tensor_from(w.session, LS_F16, LS_SHAPE(M, K), half);
    ls_tensor *q = ls_tensor_from(w.session, LS_U8, LS_SHAPE(N, 68), bytes);
    world_ok(&w, ls_read(w.session, ls_linear_q(w.session, t, q, LS_Q8_0, NULL), got, sizeof got));
    for (int i = 0; i < M * N; i++) {
        assert_int_equal(got[i], ls_f32_to_f16(y[i]));
    }
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(layouts),  cmocka_unit_test(round_trip), cmocka_unit_test(products), cmocka_unit_test(weights_that_change), cmocka_unit_test(other_forms),
                                       cmocka_unit_test(gradient), cmocka_unit_test(refused),    cmocka_unit_test(halves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
