/* The elementary functions built into kernels: the same bits as the scalar ones, as built and simplified. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/half.h"
#include "base/rng.h"
#include "kir/build_math.h"
#include <stdio.h>

enum { N = 2048 };

typedef ls_val (*build_fn)(ls_kb *kb, ls_val x);
#define ROW(name) {#name, ls_kb_math_##name, ls_##name##_f32, ls_##name##_f64},
static const struct {
    const char *name;
    build_fn build;
    float (*f32)(float);
    double (*f64)(double);
} functions[] = {LS_MATH_UNARY(ROW)};

static ls_heap heap;
static ls_arena arena;
static ls_error err;

static void assert_ok(ls_status status) {
    if (status != LS_OK) {
        print_error("%s\n", err.message);
    }
    assert_int_equal(status, LS_OK);
}

static float f32_input(ls_rng *rng, int i) {
    static const float special[] = {0.0f,  -0.0f,   1.0f,   -1.0f, 0.5f,   2.0f,
                                    88.7f, -104.0f, 1e-45f, 1e38f, -1e38f, 1e-38f};
    if (i < 12) {
        return special[i];
    }
    uint32_t bits = i == 12 ? 0x7f800000 : i == 13 ? 0xff800000 : i == 14 ? 0x7fc12345 : ls_rng_u32(rng);
    float f;
    memcpy(&f, &bits, sizeof f);
    return i % 3 ? f : (float)ls_rng_normal(rng) * 4;
}

static double f64_input(ls_rng *rng, int i) {
    if (i < 15) {
        return (double)f32_input(rng, i);
    }
    uint64_t bits = ls_rng_u64(rng);
    double d;
    memcpy(&d, &bits, sizeof d);
    return i % 3 ? d : ls_rng_normal(rng) * 4;
}

/* y = f(x) (or x^y of two inputs) over N elements, run as built and simplified; both results are compared. */
static void run(ls_dtype t, build_fn f, const void *x, const void *x2, void *out) {
    static uint64_t second[N];
    ls_arena_init(&arena, &heap);
    ls_kb kb;
    ls_kb_init(&kb, &arena, "math", &err);
    int mx = ls_kb_global(&kb, "x", t, LS_MEM_READ, N), mx2 = ls_kb_global(&kb, "x2", t, LS_MEM_READ, N);
    int my = ls_kb_global(&kb, "y", t, LS_MEM_WRITE, N);
    ls_kb_workgroup(&kb, 256, 1, 1);
    ls_kb_grid(&kb, 0, N, LS_VAL_NONE, 256);
    ls_val first = ls_kb_mul(&kb, ls_kb_group_id(&kb, 0), ls_kb_i32(&kb, 256));
    ls_val i = ls_kb_add(&kb, first, ls_kb_local_id(&kb, 0));
    ls_val a = ls_kb_load(&kb, mx, i, LS_VAL_NONE, LS_VAL_NONE, 1);
    ls_val y = f ? f(&kb, a) : ls_kb_math_pow(&kb, a, ls_kb_load(&kb, mx2, i, LS_VAL_NONE, LS_VAL_NONE, 1));
    ls_kb_store(&kb, my, i, ls_kb_canon(&kb, y), LS_VAL_NONE);
    ls_kernel k, s;
    assert_ok(ls_kb_finish(&kb, &k));
    assert_ok(ls_kernel_verify(&heap, &k, &err));
    assert_ok(ls_kernel_simplify(&arena, &k, NULL, &s, &err));
    assert_ok(ls_kernel_verify(&heap, &s, &err));
    assert_true(s.n_body < k.n_body);
    ls_interp_buffer buffers[] = {
        {(void *)(uintptr_t)x, N, false}, {(void *)(uintptr_t)x2, N, false}, {out, N, true}};
    ls_interp_launch launch = {buffers, NULL, 0, 0};
    assert_ok(ls_kernel_interp(&heap, &k, &launch, &err));
    buffers[2].data = second;
    assert_ok(ls_kernel_interp(&heap, &s, &launch, &err));
    assert_memory_equal(out, second, N * ls_dtype_size(t));
    ls_arena_free(&arena);
    assert_int_equal(atomic_load(&heap.used), 0);
}

static void in_f32_and_f64(void **state) {
    (void)state;
    static float x[N], x2[N], y[N];
    static double dx[N], dx2[N], dy[N];
    ls_rng rng = {5, 0};
    for (int i = 0; i < N; i++) {
        x[i] = f32_input(&rng, i);
        x2[i] = f32_input(&rng, N - 1 - i);
        dx[i] = f64_input(&rng, i);
        dx2[i] = f64_input(&rng, N - 1 - i);
    }
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        run(LS_F32, functions[f].build, x, x2, y);
        run(LS_F64, functions[f].build, dx, dx2, dy);
        for (int i = 0; i < N; i++) {
            float want = functions[f].f32(x[i]);
            double dwant = functions[f].f64(dx[i]);
            if (memcmp(&want, &y[i], 4) || memcmp(&dwant, &dy[i], 8)) {
                print_error("%s(%a) is %a, not %a; %s(%a) is %a, not %a\n", functions[f].name, (double)x[i],
                            (double)y[i], (double)want, functions[f].name, dx[i], dy[i], dwant);
            }
            assert_memory_equal(&want, &y[i], 4);
            assert_memory_equal(&dwant, &dy[i], 8);
        }
    }
    run(LS_F32, NULL, x, x2, y);
    run(LS_F64, NULL, dx, dx2, dy);
    for (int i = 0; i < N; i++) {
        float want = ls_pow_f32(x[i], x2[i]);
        double dwant = ls_pow_f64(dx[i], dx2[i]);
        assert_memory_equal(&want, &y[i], 4);
        assert_memory_equal(&dwant, &dy[i], 8);
    }
}

static void in_f16_and_bf16(void **state) {
    (void)state;
    static uint16_t x[N], y[N];
    for (int i = 0; i < N; i++) {
        x[i] = (uint16_t)(i * 32 + i / 97);
    }
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        run(LS_F16, functions[f].build, x, x, y);
        for (int i = 0; i < N; i++) {
            assert_int_equal(y[i], ls_f32_to_f16(functions[f].f32(ls_f16_to_f32(x[i]))));
        }
        run(LS_BF16, functions[f].build, x, x, y);
        for (int i = 0; i < N; i++) {
            assert_int_equal(y[i], ls_f32_to_bf16(functions[f].f32(ls_bf16_to_f32(x[i]))));
        }
    }
}

/* What fast arithmetic computes, fused, against the functions of f64: 1.5 ULP, and of halves one rounding more. */
static void fast_forms(void **state) {
    (void)state;
    static float x[N], y[N];
    static uint16_t hx[N], hy[N];
    const build_fn build[] = {ls_kb_fast_exp, ls_kb_fast_erf};
    double (*const exact[])(double) = {ls_exp_f64, ls_erf_f64};
    ls_rng rng = {6, 0};
    for (int i = 0; i < N; i++) {
        x[i] = i < N / 2 ? f32_input(&rng, i) : (float)(ls_rng_normal(&rng) * (i % 2 ? 40 : 1));
        hx[i] = ls_f32_to_f16(x[i]);
    }
    for (int f = 0; f < 2; f++) {
        run(LS_F32, build[f], x, x, y);
        run(LS_F16, build[f], hx, hx, hy);
        for (int i = 0; i < N; i++) {
            double want = exact[f]((double)x[i]), size = want < 0 ? -want : want, ulp = 0x1p-149;
            while (ulp * 0x1p24 <= size && ulp < 0x1p104) {
                ulp *= 2;
            }
            double off = (double)y[i] - want;
            bool right = want != want          ? y[i] != y[i]
                         : size >= 0x1.fffffep127 ? y[i] == (float)want
                                               : off <= 1.5 * ulp && -off <= 1.5 * ulp;
            if (!right) {
                print_error("%d: f(%a) is %a, not %a\n", f, (double)x[i], (double)y[i], want);
            }
            assert_true(right);
            double half = exact[f]((double)ls_f16_to_f32(hx[i])), got = (double)ls_f16_to_f32(hy[i]);
            double rounded = (double)ls_f16_to_f32(ls_f32_to_f16((float)half));
            off = got - rounded;
            size = half < 0 ? -half : half;
            assert_true(half != half ? got != got : got == rounded || (off < 0 ? -off : off) <= size * 0x1p-10 + 0x1p-24);
        }
    }
}

int main(void) {
    ls_heap_init(&heap, NULL, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_f32_and_f64),
        cmocka_unit_test(in_f16_and_bf16),
        cmocka_unit_test(fast_forms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
