/* The KIR interpreter: right results on right kernels, and each fault that it looks for provoked and named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "kir_fixture.h"
#include "kir_samples.h"
#include <stdio.h>

static void assert_fails(ls_status status, ls_status code, const char *const *parts) {
    assert_int_equal(status, code);
    for (; *parts; parts++) {
        if (!strstr(err.message, *parts)) {
            print_error("'%s' is not in '%s'\n", *parts, err.message);
        }
        assert_non_null(strstr(err.message, *parts));
    }
    ls_error_clear(&err);
}
#define ASSERT_FAILS(status, code, ...)                                                                      \
    assert_fails((status), (code), (const char *const[]){__VA_ARGS__, NULL})

static void fill(float *x, size_t n, uint64_t seed) {
    ls_rng rng = {seed, 0};
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)ls_rng_normal(&rng);
    }
}

static void vadd_adds(void **state) {
    (void)state;
    enum { BOUND = 1000 };
    static float a[BOUND], b[BOUND], y[BOUND];
    ls_kernel k;
    assert_ok(sample_vadd(&arena, BOUND, SAMPLE_RIGHT, &k, &err));
    assert_ok(ls_kernel_verify(&heap, &k, &err));
    fill(a, BOUND, 1);
    fill(b, BOUND, 2);
    static const int64_t sizes[] = {0, 1, 63, 64, 65, 999, 1000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (int i = 0; i < BOUND; i++) {
            y[i] = -77;
        }
        ls_interp_buffer buffers[] = {{a, BOUND, false}, {b, BOUND, false}, {y, BOUND, true}};
        ls_interp_launch launch = {buffers, &sizes[s], s, 0};
        assert_ok(ls_kernel_interp(&heap, &k, &launch, &err));
        for (int i = 0; i < BOUND; i++) {
            assert_true(y[i] == (i < sizes[s] ? a[i] + b[i] : -77));
        }
    }
    const int64_t too_many = 1001;
    ls_interp_buffer buffers[] = {{a, BOUND, false}, {b, BOUND, false}, {y, BOUND, true}};
    ls_interp_launch launch = {buffers, &too_many, 0, 0};
    ASSERT_FAILS(ls_kernel_interp(&heap, &k, &launch, &err), LS_ERR_INVALID, "parameter n is 1001",
                 "0 to 1000");
    const int64_t n = 10;
    launch.params = &n;
    buffers[1].count = 999;
    ASSERT_FAILS(ls_kernel_interp(&heap, &k, &launch, &err), LS_ERR_INVALID, "buffer for b has 999",
                 "expected 1000");
    buffers[1] = (ls_interp_buffer){y, BOUND, false};
    ASSERT_FAILS(ls_kernel_interp(&heap, &k, &launch, &err), LS_ERR_INVALID, "y and b overlap");
}

/* The contract's order, written apart from the kernel. */
static float block_sum(const float *x, int64_t n) {
    float t[256] = {0};
    for (int64_t i = 0; i < n; i++) {
        t[i % 256] += x[i];
    }
    for (int half = 128; half; half /= 2) {
        for (int i = 0; i < half; i++) {
            t[i] += t[i + half];
        }
    }
    return t[0];
}

static void reduce_in_contract_order(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 255, 256, 257, 4095, 4096, 4097, 10000};
    static float x[10000], y[4];
    fill(x, 10000, 3);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        ls_kernel k;
        assert_ok(sample_reduce(&arena, sizes[s], SAMPLE_RIGHT, &k, &err));
        assert_ok(ls_kernel_verify(&heap, &k, &err));
        int64_t groups = (sizes[s] + 4095) / 4096;
        ls_interp_buffer buffers[] = {{x, sizes[s], false}, {y, groups, true}};
        ls_interp_launch launch = {buffers, NULL, s * 5, 8};
        assert_ok(ls_kernel_interp(&heap, &k, &launch, &err));
        for (int64_t g = 0; g < groups; g++) {
            int64_t left = sizes[s] - 4096 * g;
            float want = block_sum(x + 4096 * g, left < 4096 ? left : 4096);
            assert_memory_equal(&want, &y[g], sizeof want);
        }
    }
}

static void check_matmul(int m, int n, int k, uint64_t seed) {
    float *a = malloc(sizeof(float) * (size_t)(m * k)), *b = malloc(sizeof(float) * (size_t)(k * n));
    float *c = malloc(sizeof(float) * (size_t)(m * n));
    ls_kernel kernel;
    assert_ok(sample_matmul(&arena, m, n, k, SAMPLE_RIGHT, &kernel, &err));
    assert_ok(ls_kernel_verify(&heap, &kernel, &err));
    fill(a, (size_t)(m * k), seed);
    fill(b, (size_t)(k * n), seed + 1);
    ls_interp_buffer buffers[] = {{a, m * k, false}, {b, k * n, false}, {c, m * n, true}};
    ls_interp_launch launch = {buffers, NULL, seed, 0};
    assert_ok(ls_kernel_interp(&heap, &kernel, &launch, &err));
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            volatile float sum = 0;
            for (int l = 0; l < k; l++) {
                volatile float p = a[i * k + l] * b[l * n + j];
                sum = sum + p;
            }
            assert_true(c[i * n + j] == sum);
        }
    }
    free(a);
    free(b);
    free(c);
}

static void matmul_multiplies(void **state) {
    (void)state;
    check_matmul(1, 1, 1, 1);
    check_matmul(16, 16, 16, 2);
    check_matmul(17, 33, 20, 3);
    check_matmul(31, 5, 64, 4);
}

/* ---- what the interpreter finds ---- */

static ls_status run_reduce(sample_fault fault, int64_t count) {
    static float x[9000], y[3];
    ls_kernel k;
    assert_ok(sample_reduce(&arena, count, fault, &k, &err));
    fill(x, 9000, 3);
    ls_interp_buffer buffers[] = {{x, count, false}, {y, (count + 4095) / 4096, true}};
    ls_interp_launch launch = {buffers, NULL, 0, 0};
    return ls_kernel_interp(&heap, &k, &launch, &err);
}

static void missing_barriers_are_races(void **state) {
    (void)state;
    assert_ok(run_reduce(SAMPLE_RIGHT, 9000));
    ASSERT_FAILS(run_reduce(SAMPLE_NO_BARRIER, 4096), LS_ERR_DIFFERS, "kernel reduce: instruction %",
                 "(load)", "in thread 0 of workgroup (0, 0, 0)",
                 "race: t[16] was written by thread 16 since the last barrier");
    static float a[512], b[512], c[256];
    fill(a, 512, 1);
    fill(b, 512, 2);
    ls_kernel k;
    assert_ok(sample_matmul(&arena, 16, 16, 32, SAMPLE_NO_BARRIER, &k, &err));
    ls_interp_buffer buffers[] = {{a, 512, false}, {b, 512, false}, {c, 256, true}};
    ls_interp_launch launch = {buffers, NULL, 0, 0};
    ASSERT_FAILS(ls_kernel_interp(&heap, &k, &launch, &err), LS_ERR_DIFFERS, "(store)",
                 "race: ta[0] was read by thread");
}

static void stores_of_two_workgroups_to_one_element(void **state) {
    (void)state;
    assert_ok(run_reduce(SAMPLE_SAME_ELEMENT, 4096)); /* one workgroup */
    ASSERT_FAILS(run_reduce(SAMPLE_SAME_ELEMENT, 5000), LS_ERR_DIFFERS, "(store)", "of workgroup (1, 0, 0)",
                 "y[0] was written by another workgroup");
}

static void reads_of_what_nobody_wrote(void **state) {
    (void)state;
    ASSERT_FAILS(run_reduce(SAMPLE_UNINITIALISED, 4096), LS_ERR_INVALID, "(load)", "in thread 0",
                 "reads t[0], which nothing has written");
    ls_kernel k;
    float a[100] = {0}, b[100] = {0}, y[100];
    assert_ok(sample_vadd(&arena, 100, SAMPLE_RIGHT, &k, &err));
    const int64_t n = 100;
    ls_interp_buffer buffers[] = {{a, 100, false}, {b, 100, true}, {y, 100, true}};
    ls_interp_launch launch = {buffers, &n, 0, 0};
    ASSERT_FAILS(ls_kernel_interp(&heap, &k, &launch, &err), LS_ERR_INVALID,
                 "reads b[0], which nothing has written");
}

static void indices_out_of_bounds(void **state) {
    (void)state;
    ls_kernel k;
    float a[100] = {0}, b[100] = {0}, y[100];
    assert_ok(sample_vadd(&arena, 100, SAMPLE_NO_PREDICATE, &k, &err));
    const int64_t n = 100;
    ls_interp_buffer buffers[] = {{a, 100, false}, {b, 100, false}, {y, 100, true}};
    ls_interp_launch launch = {buffers, &n, 0, 0};
    ASSERT_FAILS(ls_kernel_interp(&heap, &k, &launch, &err), LS_ERR_RANGE, "kernel vadd",
                 "in thread 36 of workgroup (1, 0, 0)", "index 100 is out of bounds: y has 100 elements");
}

static void barriers_that_some_threads_miss(void **state) {
    (void)state;
    ASSERT_FAILS(run_reduce(SAMPLE_LONE_BARRIER, 4096), LS_ERR_INVALID, "(barrier)",
                 "thread 128 does not reach it");
}

/* Memory of every type keeps its values: y = x through a load and a store, bools as 0 and 1. */
static void every_dtype_in_memory(void **state) {
    (void)state;
    for (int t = 0; t < LS_DTYPE_COUNT; t++) {
        ls_kb kb;
        ls_kb_init(&kb, &arena, "copy", &err);
        int x = ls_kb_global(&kb, "x", (ls_dtype)t, LS_MEM_READ, 32),
            y = ls_kb_global(&kb, "y", (ls_dtype)t, LS_MEM_WRITE, 32);
        int s = ls_kb_shared(&kb, "s", (ls_dtype)t, 32);
        ls_kb_workgroup(&kb, 32, 1, 1);
        ls_val lid = ls_kb_local_id(&kb, 0);
        ls_kb_store(&kb, s, lid, ls_kb_load(&kb, x, lid, LS_VAL_NONE, LS_VAL_NONE, 1), LS_VAL_NONE);
        ls_val v = ls_kb_load(&kb, s, lid, LS_VAL_NONE, LS_VAL_NONE, 1);
        if (t == LS_BOOL) {
            v = ls_kb_not(&kb, v);
        } else if (t < LS_F16) {
            v = ls_kb_neg(&kb, ls_kb_neg(&kb, v)); /* through a register of the type's width */
        }
        ls_kb_store(&kb, y, lid, v, LS_VAL_NONE);
        ls_kernel k;
        assert_ok(ls_kb_finish(&kb, &k));
        size_t size = 32 * ls_dtype_size((ls_dtype)t);
        uint8_t in[256], out[256];
        for (int i = 0; i < 256; i++) {
            in[i] = (uint8_t)(t == LS_BOOL ? i % 3 == 0 : i * 37 + t);
        }
        ls_interp_buffer buffers[] = {{in, 32, false}, {out, 32, true}};
        ls_interp_launch launch = {buffers, NULL, 0, 0};
        assert_ok(ls_kernel_interp(&heap, &k, &launch, &err));
        for (size_t i = 0; i < size; i++) {
            assert_int_equal(out[i], t == LS_BOOL ? !in[i] : in[i]);
        }
    }
}

/* Accesses in phases of their own are no races, whatever other phases did with the element. */
static void phases_are_apart(void **state) {
    (void)state;
    ls_kb kb;
    ls_kb_init(&kb, &arena, "phases", &err);
    int x = ls_kb_global(&kb, "x", LS_I32, LS_MEM_READ_WRITE, 2);
    ls_kb_workgroup(&kb, 4, 1, 1);
    ls_val lid = ls_kb_local_id(&kb, 0), zero = ls_kb_i32(&kb, 0);
    ls_val all = ls_kb_load(&kb, x, zero, LS_VAL_NONE, LS_VAL_NONE, 1);
    for (int owner = 0; owner < 3; owner++) {
        ls_kb_barrier(&kb);
        ls_kb_if(&kb, ls_kb_eq(&kb, lid, ls_kb_i32(&kb, owner)));
        ls_val own = ls_kb_load(&kb, x, zero, LS_VAL_NONE, LS_VAL_NONE, 1);
        ls_kb_store(&kb, x, zero, ls_kb_add(&kb, own, ls_kb_add(&kb, all, ls_kb_i32(&kb, 10))), LS_VAL_NONE);
        ls_kb_end_if(&kb);
    }
    ls_kb_barrier(&kb);
    ls_val last = ls_kb_load(&kb, x, zero, LS_VAL_NONE, LS_VAL_NONE, 1);
    ls_kb_store(&kb, x, ls_kb_i32(&kb, 1), last, ls_kb_eq(&kb, lid, zero));
    ls_kernel k;
    assert_ok(ls_kb_finish(&kb, &k));
    assert_ok(ls_kernel_verify(&heap, &k, &err));
    int32_t data[2] = {1, 0};
    ls_interp_buffer buffer = {data, 2, false};
    ls_interp_launch launch = {&buffer, NULL, 0, 0};
    assert_ok(ls_kernel_interp(&heap, &k, &launch, &err));
    assert_int_equal(data[1], 34);
}

static void atomics_and_plain_accesses(void **state) {
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        ls_kb kb;
        ls_kb_init(&kb, &arena, "count", &err);
        int total = ls_kb_global(&kb, "total", LS_U32, LS_MEM_READ_WRITE, 2);
        ls_kb_workgroup(&kb, 32, 1, 1);
        ls_kb_grid(&kb, 0, 5, LS_VAL_NONE, 1);
        ls_val zero = ls_kb_i32(&kb, 0), one = ls_kb_i32(&kb, 1), lid = ls_kb_local_id(&kb, 0);
        ls_kb_atomic(&kb, LS_K_ATOMIC_ADD, total, zero, ls_kb_u32(&kb, 1), LS_VAL_NONE);
        ls_kb_atomic(&kb, LS_K_ATOMIC_MAX, total, one, ls_kb_cast(&kb, lid, LS_U32),
                     ls_kb_lt(&kb, lid, ls_kb_i32(&kb, 20)));
        if (plain) {
            ls_kb_load(&kb, total, zero, LS_VAL_NONE, LS_VAL_NONE, 1);
        }
        ls_kernel k;
        assert_ok(ls_kb_finish(&kb, &k));
        assert_ok(ls_kernel_verify(&heap, &k, &err));
        uint32_t data[2] = {0};
        ls_interp_buffer buffer = {data, 2, false};
        ls_interp_launch launch = {&buffer, NULL, 9, 0};
        ls_status status = ls_kernel_interp(&heap, &k, &launch, &err);
        if (plain) {
            ASSERT_FAILS(status, LS_ERR_DIFFERS, "race: total[0] was written by thread 31");
        } else {
            assert_ok(status);
            assert_int_equal(data[0], 160);
            assert_int_equal(data[1], 19);
        }
    }
}

static void subgroups_lanes_and_divergence(void **state) {
    (void)state;
    ls_kb kb;
    ls_kb_init(&kb, &arena, "lanes", &err);
    int x = ls_kb_global(&kb, "x", LS_I32, LS_MEM_READ, 256),
        y = ls_kb_global(&kb, "y", LS_I32, LS_MEM_WRITE, 256);
    ls_kb_workgroup(&kb, 64, 1, 1);
    ls_val lid = ls_kb_local_id(&kb, 0);
    ls_val at = ls_kb_mul(&kb, lid, ls_kb_i32(&kb, 4));
    ls_val v = ls_kb_load(&kb, x, at, LS_VAL_NONE, LS_VAL_NONE, 4);
    ls_val swapped = ls_kb_shuffle_xor(&kb, ls_kb_extract(&kb, v, 1), 1);
    ls_val sum = ls_kb_subgroup(&kb, LS_K_SUBGROUP_ADD, ls_kb_extract(&kb, v, 2), 0);
    ls_val n = ls_kb_var(&kb, ls_kb_i32(&kb, 0));
    ls_kb_if(&kb, ls_kb_eq(&kb, ls_kb_rem(&kb, lid, ls_kb_i32(&kb, 2)), ls_kb_i32(&kb, 0)));
    ls_val i = ls_kb_loop(&kb, ls_kb_i32(&kb, 0), lid, ls_kb_i32(&kb, 3), 0); /* trips differ by thread */
    ls_kb_set(&kb, n, ls_kb_add(&kb, ls_kb_get(&kb, n), i));
    ls_kb_end_loop(&kb);
    ls_kb_else(&kb);
    ls_kb_set(&kb, n, ls_kb_neg(&kb, lid));
    ls_kb_end_if(&kb);
    ls_val pair = ls_kb_join(&kb, ls_kb_extract(&kb, v, 0), swapped);
    ls_val other = ls_kb_join(&kb, sum, ls_kb_get(&kb, n));
    ls_kb_store(&kb, y, at, ls_kb_join(&kb, pair, other), LS_VAL_NONE);
    ls_kernel k;
    assert_ok(ls_kb_finish(&kb, &k));
    assert_ok(ls_kernel_verify(&heap, &k, &err));
    int32_t in[256], out[256];
    for (int j = 0; j < 256; j++) {
        in[j] = j * j % 101;
    }
    ls_interp_buffer buffers[] = {{in, 256, false}, {out, 256, true}};
    ls_interp_launch launch = {buffers, NULL, 0, 16};
    assert_ok(ls_kernel_interp(&heap, &k, &launch, &err));
    for (int t = 0; t < 64; t++) {
        int total = 0, trips = 0;
        for (int j = t / 16 * 16; j < t / 16 * 16 + 16; j++) {
            total += in[4 * j + 2];
        }
        for (int j = 0; j < t; j += 3) {
            trips += j;
        }
        assert_int_equal(out[4 * t], in[4 * t]);
        assert_int_equal(out[4 * t + 1], in[4 * (t ^ 1) + 1]);
        assert_int_equal(out[4 * t + 2], total);
        assert_int_equal(out[4 * t + 3], t % 2 ? -t : trips);
    }
}

static void fragments_multiply(void **state) {
    (void)state;
    enum { M = 8, N = 4, K = 16 };
    ls_kb kb;
    ls_kb_init(&kb, &arena, "fragments", &err);
    int a = ls_kb_global(&kb, "a", LS_F32, LS_MEM_READ, M * K),
        b = ls_kb_global(&kb, "b", LS_F32, LS_MEM_READ, K * N);
    int c = ls_kb_global(&kb, "c", LS_F32, LS_MEM_WRITE, M * N);
    ls_kb_workgroup(&kb, 32, 1, 1);
    ls_val zero = ls_kb_i32(&kb, 0);
    ls_val fa = ls_kb_frag_load(&kb, a, zero, ls_kb_i32(&kb, K), LS_KF_FRAG(LS_FRAG_A, M, N, K));
    ls_val fb =
        ls_kb_frag_load(&kb, b, zero, ls_kb_i32(&kb, K), LS_KF_FRAG(LS_FRAG_B, M, N, K) | LS_KF_FRAG_COLS);
    ls_val fc = ls_kb_frag_fill(&kb, ls_kb_f32(&kb, 1), LS_KF_FRAG(LS_FRAG_C, M, N, K));
    ls_val sum = ls_kb_var(&kb, fc);
    ls_kb_set(&kb, sum, ls_kb_frag_mma(&kb, fa, fb, ls_kb_get(&kb, sum)));
    ls_kb_frag_store(&kb, c, zero, ls_kb_get(&kb, sum), ls_kb_i32(&kb, N), 0);
    ls_kernel k;
    assert_ok(ls_kb_finish(&kb, &k));
    assert_ok(ls_kernel_verify(&heap, &k, &err));
    float va[M * K], vb[K * N], vc[M * N];
    for (int i = 0; i < M * K; i++) {
        va[i] = (float)(i % 7 - 3);
    }
    for (int i = 0; i < K * N; i++) {
        vb[i] = (float)(i % 5 - 2);
    }
    ls_interp_buffer buffers[] = {{va, M * K, false}, {vb, K * N, false}, {vc, M * N, true}};
    ls_interp_launch launch = {buffers, NULL, 0, 32};
    assert_ok(ls_kernel_interp(&heap, &k, &launch, &err));
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) {
            float want = 1;
            for (int l = 0; l < K; l++) {
                want += va[i * K + l] * vb[j * K + l];
            }
            assert_true(vc[i * N + j] == want);
        }
    }
}

/* Devices take fragments of shared memory from whole 16 bytes alone. */
static void fragments_are_aligned(void **state) {
    (void)state;
    static const int rows[][3] = {{0, 16, true}, {8, 24, true}, {4, 16, false}, {0, 20, false}, {1, 8, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ls_kb kb;
        ls_kernel k;
        uint16_t out[512];
        ls_kb_init(&kb, &arena, "aligned", &err);
        int from = ls_kb_shared(&kb, "from", LS_F16, 512), to = ls_kb_global(&kb, "to", LS_U16, LS_MEM_WRITE, 512);
        ls_kb_workgroup(&kb, 32, 1, 1);
        ls_val t = ls_kb_loop(&kb, ls_kb_local_id(&kb, 0), ls_kb_i32(&kb, 512), ls_kb_i32(&kb, 32), 0);
        ls_kb_store(&kb, from, t, ls_kb_bitcast(&kb, ls_kb_cast(&kb, t, LS_U16), LS_F16), LS_VAL_NONE);
        ls_kb_store(&kb, to, t, ls_kb_cast(&kb, t, LS_U16), LS_VAL_NONE);
        ls_kb_end_loop(&kb);
        ls_kb_barrier(&kb);
        ls_val frag = ls_kb_frag_load(&kb, from, ls_kb_i32(&kb, rows[i][0]), ls_kb_i32(&kb, rows[i][1]), LS_KF_FRAG(LS_FRAG_A, 16, 16, 16));
        ls_kb_barrier(&kb);
        ls_kb_frag_store(&kb, from, ls_kb_i32(&kb, 0), frag, ls_kb_i32(&kb, 16), 0);
        assert_ok(ls_kb_finish(&kb, &k));
        ls_interp_buffer buffers[] = {{out, 512, true}};
        ls_interp_launch launch = {buffers, NULL, 0, 32};
        ls_error_clear(&err);
        ls_status status = ls_kernel_interp(&heap, &k, &launch, &err);
        assert_int_equal(status, rows[i][2] ? LS_OK : LS_ERR_INVALID);
        assert_true(rows[i][2] || strstr(err.message, "multiples of 16 bytes"));
    }
}

/* A product of 4 x 6 x 4 with lines of 8 in A, from half `first` on: thread t stores sum (t / 4, t % 4). */
static ls_status product(int first, int words, bool barrier, bool beyond, float *out) {
    static uint32_t a[32], b[12]; /* 1 in f16 is 0x3c00 */
    ls_kb kb;
    ls_kernel k;
    for (int i = 0; i < 32; i++) {
        a[i] = 0x3c003c00;
        b[i % 12] = i % 2 ? 0x40003c00 : 0x3c004000; /* 2 1 1 2 ... along the columns */
    }
    ls_kb_init(&kb, &arena, "product", &err);
    int x = ls_kb_global(&kb, "a", LS_U32, LS_MEM_READ, words),
        y = ls_kb_global(&kb, "b", LS_U32, LS_MEM_READ, 12);
    int z = ls_kb_global(&kb, "z", LS_F32, LS_MEM_WRITE, 16), sums = ls_kb_shared(&kb, "sums", LS_F32, 30);
    ls_kb_workgroup(&kb, 16, 1, 1);
    const ls_kproduct p = {LS_F16, {{x, 4, 8, true}, {y, 4, 4, false}}, 6, sums, 6};
    ls_val t = ls_kb_local_id(&kb, 0), four = ls_kb_i32(&kb, 4), at = ls_kb_i32(&kb, first),
           zero = ls_kb_i32(&kb, 0);
    ls_kb_product(&kb, &p, at, zero);
    if (barrier) {
        ls_kb_barrier(&kb);
    }
    ls_val row = ls_kb_mul(&kb, ls_kb_div(&kb, t, four), ls_kb_i32(&kb, 6)), column = ls_kb_rem(&kb, t, four);
    ls_val place = beyond ? ls_kb_i32(&kb, 4) : ls_kb_add(&kb, row, column);
    ls_kb_store(&kb, z, t, ls_kb_load(&kb, sums, place, LS_VAL_NONE, LS_VAL_NONE, 1), LS_VAL_NONE);
    assert_ok(ls_kb_finish(&kb, &k));
    ls_interp_buffer buffers[] = {{a, 32, false}, {b, 12, false}, {out, 16, true}};
    LS_TRY(&err, ls_kernel_verify(&heap, &k, &err));
    return ls_kernel_interp(&heap, &k, &(ls_interp_launch){buffers, NULL, 0, 0}, &err);
}

static void whole_products(void **state) {
    (void)state;
    float out[16];
    assert_ok(product(2, 16, true, false, out));
    for (int i = 0; i < 16; i++) {
        assert_true(out[i] == (i % 4 == 0 || i % 4 == 3 ? 12 : 6)); /* columns of 2, 1, 1, 2 */
    }
    ASSERT_FAILS(product(64, 16, true, false, out), LS_ERR_INVALID, "not proved in bounds");
    assert_ok(product(4, 12, true, false, out)); /* four places of a line, and three lines */
    for (int i = 0; i < 16; i++) {
        assert_true(out[i] == (i / 4 == 3 ? 0 : i % 4 == 0 || i % 4 == 3 ? 8 : 4));
    }
    ASSERT_FAILS(product(0, 16, false, false, out), LS_ERR_DIFFERS, "race", "sums");
    ASSERT_FAILS(product(0, 16, true, true, out), LS_ERR_INVALID, "nothing has written", "sums[4]");
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    static float x[5000], y[2];
    int failures = 0;
    for (long n = 0;; n++) {
        atomic_store(&heap.fail_after, n);
        ls_kernel k;
        ls_status status = sample_reduce(&arena, 5000, SAMPLE_RIGHT, &k, &err);
        if (status == LS_OK) {
            status = ls_kernel_verify(&heap, &k, &err);
        }
        if (status == LS_OK) {
            ls_interp_buffer buffers[] = {{x, 5000, false}, {y, 2, true}};
            ls_interp_launch launch = {buffers, NULL, 1, 0};
            status = ls_kernel_interp(&heap, &k, &launch, &err);
        }
        bool reached = atomic_load(&heap.fail_after) < 0;
        ls_arena_free(&arena);
        assert_int_equal(atomic_load(&heap.used), 0);
        if (!reached) {
            assert_int_equal(status, LS_OK);
            break;
        }
        assert_int_equal(status, LS_ERR_MEMORY);
        ls_error_clear(&err);
        failures++;
    }
    assert_true(failures > 15);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(vadd_adds),
        TEST(reduce_in_contract_order),
        TEST(matmul_multiplies),
        TEST(missing_barriers_are_races),
        TEST(stores_of_two_workgroups_to_one_element),
        TEST(reads_of_what_nobody_wrote),
        TEST(indices_out_of_bounds),
        TEST(barriers_that_some_threads_miss),
        TEST(every_dtype_in_memory),
        TEST(phases_are_apart),
        TEST(atomics_and_plain_accesses),
        TEST(subgroups_lanes_and_divergence),
        TEST(fragments_multiply),
        TEST(fragments_are_aligned),
        TEST(whole_products),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
