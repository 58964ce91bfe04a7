/* One test for each rule of docs/contract.md, on every device. Expected bits are literals, or come from the rule's text evaluated here
 * in plain loops. */
#include "support/world.h"
#include <lockstep/quant.h>
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const devices[] = {"ref", "cpu"};
#define EACH_DEVICE(w) \
    for (size_t d_ = 0; d_ < sizeof devices / sizeof *devices; d_++) \
        for (world w = world_open(devices[d_]); w.session; world_close(&w))

static float f32_of(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}
static uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}
/* Awkward but finite values of mixed magnitude, the same on every run. */
static float *awkward(int64_t n, uint64_t seed) {
    float *x = malloc(sizeof *x * (size_t)(n + 1));
    uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
    for (int64_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)((double)(int64_t)(state >> 11) / 4503599627370496.0 - 1.0) * (i % 7 == 3 ? 1000.0f : 1.0f);
    }
    return x;
}
static ls_tensor *tensor(world *w, const float *x, int64_t n) {
    return ls_tensor_from(w->session, LS_F32, LS_SHAPE(n), x);
}
static void expect_f32(world *w, ls_tensor *t, int64_t n, const float *want) {
    float *got = malloc(sizeof *got * (size_t)(n + 1));
    world_ok(w, ls_read(w->session, t, got, sizeof *got * (size_t)n));
    for (int64_t i = 0; i < n; i++) {
        if (bits_of(got[i]) != bits_of(want[i])) {
            fail_msg("%s: element %lld is %08x (%.9g), expected %08x (%.9g)", w->id, (long long)i, bits_of(got[i]), (double)got[i],
                     bits_of(want[i]), (double)want[i]);
        }
    }
    free(got);
}
static void expect_i64(world *w, ls_tensor *t, int64_t n, const int64_t *want) {
    int64_t got[64];
    world_ok(w, ls_read(w->session, t, got, sizeof *got * (size_t)n));
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(got[i], want[i]);
    }
}

static void c01_kinds_do_not_mix(void **state) {
    (void)state;
    world w = world_open("ref");
    float x[2] = {1, 2};
    ls_tensor *a = tensor(&w, x, 2), *locked = ls_exp(w.session, a);
    ls_session_set_math(w.session, LS_FAST);
    assert_ptr_not_equal(locked, ls_exp(w.session, a));
    ls_session_set_math(w.session, LS_LOCKED);
    assert_ptr_equal(locked, ls_exp(w.session, a));
    world_close(&w);
}

static void c02_threads_and_fusion(void **state) {
    (void)state;
    enum { N = 3000 };
    float *x = awkward(N, 1), *first = NULL;
    for (int threads = 1; threads <= 8; threads += threads == 3 ? 5 : 1) {
        for (int fusion = 0; fusion < 2; fusion++) {
            world w = world_open_with("cpu", threads, NULL);
            ls_session_set_fusion(w.session, fusion);
            ls_tensor *a = ls_reshape(w.session, tensor(&w, x, N), LS_SHAPE(30, 100));
            ls_tensor *y = ls_softmax(w.session, ls_gelu(w.session, ls_matmul(w.session, a, ls_transpose(w.session, a, 0, 1))), 1);
            float *got = malloc(sizeof *got * 900);
            world_ok(&w, ls_read(w.session, y, got, sizeof *got * 900));
            if (first) {
                assert_memory_equal(first, got, sizeof *got * 900);
                free(got);
            } else {
                first = got;
            }
            world_close(&w);
        }
    }
    free(first);
    free(x);
}

static void c03_host_state(void **state) {
    (void)state;
    float x[4] = {f32_of(1), f32_of(0x00400000), 1.0f / 3, 1}, y[4] = {1, 1, 1, 0x1p-24f}, want[4];
    for (int i = 0; i < 4; i++) {
        want[i] = x[i] + (i < 2 ? x[i] : y[i]);
    }
    EACH_DEVICE(w) {
        fesetround(FE_UPWARD);
#if defined(__SSE__)
        unsigned before = __builtin_ia32_stmxcsr();
        __builtin_ia32_ldmxcsr(before | 0x8040); /* flush to zero, denormals are zero */
#endif
        y[0] = x[0], y[1] = x[1];
        ls_tensor *t = ls_add(w.session, tensor(&w, x, 4), tensor(&w, y, 4));
        float got[4];
        ls_status status = ls_read(w.session, t, got, sizeof got);
        int kept = fegetround() == FE_UPWARD;
#if defined(__SSE__)
        kept = kept && (__builtin_ia32_stmxcsr() & 0x8040) == 0x8040;
        __builtin_ia32_ldmxcsr(before);
#endif
        fesetround(FE_TONEAREST);
        assert_int_equal(status, LS_OK);
        assert_true(kept);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(bits_of(got[i]), bits_of(want[i]));
        }
    }
}

static void c04_no_fused_multiply_add(void **state) {
    (void)state;
    /* (1 + 2^-12)^2 - 1 loses 2^-24 when the product is rounded first. */
    float a = 1 + 0x1p-12f, minus = -(1 + 0x1p-11f), zero = 0;
    EACH_DEVICE(w) {
        ls_tensor *x = tensor(&w, &a, 1);
        expect_f32(&w, ls_add(w.session, ls_mul(w.session, x, x), tensor(&w, &minus, 1)), 1, &zero);
        float l[2] = {1, a}, r[2] = {minus, a};
        ls_tensor *dot = ls_matmul(w.session, ls_tensor_from(w.session, LS_F32, LS_SHAPE(1, 2), l),
                                   ls_tensor_from(w.session, LS_F32, LS_SHAPE(2, 1), r));
        expect_f32(&w, dot, 1, &zero);
    }
}

static void c05_each_node_rounds(void **state) {
    (void)state;
    /* In f16, 2048 + 1 rounds to 2048, so adding 1 twice leaves 2048; one rounding at the end would give 2050. */
    uint16_t big = 0x6800, one = 0x3c00, got;
    EACH_DEVICE(w) {
        for (int fusion = 0; fusion < 2; fusion++) {
            ls_session_set_fusion(w.session, fusion);
            ls_tensor *x = ls_tensor_from(w.session, LS_F16, LS_SHAPE(1), &big), *y = ls_tensor_from(w.session, LS_F16, LS_SHAPE(1), &one);
            world_ok(&w, ls_read(w.session, ls_add(w.session, ls_add(w.session, x, y), y), &got, sizeof got));
            assert_int_equal(got, 0x6800);
        }
    }
}

static void c06_division_and_root(void **state) {
    (void)state;
    enum { N = 4096 };
    float *a = awkward(N, 2), *b = awkward(N, 3), *q = malloc(sizeof *q * N), *r = malloc(sizeof *r * N), *s = malloc(sizeof *s * N);
    for (int i = 0; i < N; i++) {
        q[i] = a[i] / b[i];
        s[i] = fabsf(a[i]);
        r[i] = sqrtf(s[i]);
    }
    EACH_DEVICE(w) {
        expect_f32(&w, ls_div(w.session, tensor(&w, a, N), tensor(&w, b, N)), N, q);
        expect_f32(&w, ls_sqrt(w.session, tensor(&w, s, N)), N, r);
    }
    free(a), free(b), free(q), free(r), free(s);
}

static void c08_conversions(void **state) {
    (void)state;
    float x[8] = {1e30f, -1e30f, NAN, 2.9f, -2.9f, 300, -1, 0.5f};
    const int64_t i8[8] = {127, -128, 0, 2, -2, 127, -1, 0}, u8[8] = {255, 0, 0, 2, 0, 255, 0, 0}, truth[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const int32_t wide[3] = {300, -129, 65536 + 7};
    const int64_t narrow[3] = {44, 127, 7};
    const float f[4] = {65519.99f, 65520, 1 + 0x1.8p-11f, 0x1p-25f};
    const uint16_t h[4] = {0x7bff, 0x7c00, 0x3c01, 0};
    const int64_t big = 0x40000001000001; /* f32 must round it once: halfway up and a bit */
    EACH_DEVICE(w) {
        ls_tensor *t = tensor(&w, x, 8);
        expect_i64(&w, ls_cast(w.session, ls_cast(w.session, t, LS_I8), LS_I64), 8, i8);
        expect_i64(&w, ls_cast(w.session, ls_cast(w.session, t, LS_U8), LS_I64), 8, u8);
        expect_i64(&w, ls_cast(w.session, ls_cast(w.session, t, LS_BOOL), LS_I64), 8, truth);
        ls_tensor *i = ls_tensor_from(w.session, LS_I32, LS_SHAPE(3), wide);
        expect_i64(&w, ls_cast(w.session, ls_cast(w.session, i, LS_I8), LS_I64), 3, narrow);
        uint16_t got[4];
        world_ok(&w, ls_read(w.session, ls_cast(w.session, tensor(&w, f, 4), LS_F16), got, sizeof got));
        assert_memory_equal(got, h, sizeof h);
        float rounded = (float)big;
        expect_f32(&w, ls_cast(w.session, ls_tensor_from(w.session, LS_I64, LS_SHAPE(1), &big), LS_F32), 1, &rounded);
    }
}

static void c09_integers(void **state) {
    (void)state;
    const int32_t a[6] = {INT32_MAX, INT32_MIN, 7, -7, INT32_MIN, 5}, b[6] = {1, -1, 0, 2, 1, 40};
    const int64_t sum[6] = {INT32_MIN, INT32_MAX, 7, -5, INT32_MIN + 1, 45};
    const int64_t quotient[6] = {INT32_MAX, INT32_MIN, 0, -3, INT32_MIN, 0}, rest[6] = {0, 0, 0, -1, 0, 5};
    const int64_t left[6] = {-2, 0, 7, -28, 0, 0}, right[6] = {INT32_MAX / 2, -1, 7, -2, INT32_MIN / 2, 0};
    EACH_DEVICE(w) {
        ls_session *s = w.session;
        ls_tensor *x = ls_tensor_from(s, LS_I32, LS_SHAPE(6), a), *y = ls_tensor_from(s, LS_I32, LS_SHAPE(6), b);
        expect_i64(&w, ls_cast(s, ls_add(s, x, y), LS_I64), 6, sum);
        expect_i64(&w, ls_cast(s, ls_div(s, x, y), LS_I64), 6, quotient);
        expect_i64(&w, ls_cast(s, ls_rem(s, x, y), LS_I64), 6, rest);
        expect_i64(&w, ls_cast(s, ls_shl(s, x, y), LS_I64), 6, left);
        expect_i64(&w, ls_cast(s, ls_shr(s, x, y), LS_I64), 6, right);
    }
}

static void c10_extremes_and_zeros(void **state) {
    (void)state;
    float a[5] = {-0.0f, 0.0f, NAN, 1, -0.0f}, b[5] = {0.0f, -0.0f, 1, NAN, -0.0f};
    float high[5] = {0, 0, f32_of(0x7fc00000), f32_of(0x7fc00000), -0.0f};
    float low[5] = {-0.0f, -0.0f, f32_of(0x7fc00000), f32_of(0x7fc00000), -0.0f};
    EACH_DEVICE(w) {
        expect_f32(&w, ls_max(w.session, tensor(&w, a, 5), tensor(&w, b, 5)), 5, high);
        expect_f32(&w, ls_min(w.session, tensor(&w, a, 5), tensor(&w, b, 5)), 5, low);
        float zeros[2] = {-0.0f, 0.0f}, zero = 0;
        int axis = 0;
        expect_f32(&w, ls_amax(w.session, tensor(&w, zeros, 2), 1, &axis, 0), 1, &zero);
        expect_f32(&w, ls_sign(w.session, tensor(&w, zeros, 2)), 2, zeros);
    }
}

static void c11_canonical_nan(void **state) {
    (void)state;
    float odd = f32_of(0xffc12345);
    uint32_t got;
    EACH_DEVICE(w) {
        world_ok(&w, ls_read(w.session, ls_neg(w.session, tensor(&w, &odd, 1)), &got, sizeof got));
        assert_int_equal(got, 0x7fc00000);
        world_ok(&w, ls_read(w.session, ls_bitcast(w.session, tensor(&w, &odd, 1), LS_U32), &got, sizeof got));
        assert_int_equal(got, 0x7fc00000);
    }
}

static void c12_remainder(void **state) {
    (void)state;
    float a[6] = {5.5f, -5.5f, 1e30f, 3, INFINITY, 0x1p-140f}, b[6] = {2, 2, 3, INFINITY, 1, 0x1p-149f}, want[6];
    for (int i = 0; i < 6; i++) {
        want[i] = fmodf(a[i], b[i]);
    }
    want[4] = f32_of(0x7fc00000);
    EACH_DEVICE(w) {
        expect_f32(&w, ls_rem(w.session, tensor(&w, a, 6), tensor(&w, b, 6)), 6, want);
    }
}

/* C13 by its text. */
static float reduction(const float *x, int64_t n) {
    int64_t blocks = (n + 4095) / 4096;
    float *r = malloc(sizeof *r * (size_t)(blocks + 1)), p[256], result;
    for (int64_t b = 0; b < blocks; b++) {
        memset(p, 0, sizeof p);
        for (int64_t i = 0; i < 4096 && b * 4096 + i < n; i++) {
            p[i % 256] += x[b * 4096 + i];
        }
        for (int half = 128; half; half /= 2) {
            for (int i = 0; i < half; i++) {
                p[i] += p[i + half];
            }
        }
        r[b] = p[0];
    }
    result = blocks == 0 ? 0 : blocks == 1 ? r[0] : reduction(r, blocks);
    free(r);
    return result;
}

static void c13_reduction_order(void **state) {
    (void)state;
    const int64_t sizes[] = {0, 1, 2, 255, 256, 257, 511, 4095, 4096, 4097, 8191, 20000, 70001};
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        int64_t n = sizes[k];
        float *x = awkward(n, 5), want = reduction(x, n);
        EACH_DEVICE(w) {
            expect_f32(&w, ls_sum(w.session, tensor(&w, x, n), 0, NULL, 0), 1, &want);
        }
        free(x);
    }
    /* Axes in the declared order: summing [3,5] over (1,0) runs over the transposed elements. */
    float *x = awkward(15 * 40, 6), t[15 * 40];
    for (int i = 0; i < 15; i++) {
        for (int j = 0; j < 40; j++) {
            t[j * 15 + i] = x[i * 40 + j];
        }
    }
    float want = reduction(t, 600);
    int axes[2] = {1, 0};
    EACH_DEVICE(w) {
        expect_f32(&w, ls_sum(w.session, ls_tensor_from(w.session, LS_F32, LS_SHAPE(15, 40), x), 2, axes, 0), 1, &want);
    }
    free(x);
}

static void c14_arg_extremes(void **state) {
    (void)state;
    float a[5] = {1, 3, 3, -2, -2}, b[4] = {1, NAN, 9, NAN};
    const int64_t high = 1, low = 3, nan = 1;
    EACH_DEVICE(w) {
        expect_i64(&w, ls_argmax(w.session, tensor(&w, a, 5), 0, NULL, 0), 1, &high);
        expect_i64(&w, ls_argmin(w.session, tensor(&w, a, 5), 0, NULL, 0), 1, &low);
        expect_i64(&w, ls_argmax(w.session, tensor(&w, b, 4), 0, NULL, 0), 1, &nan);
        expect_i64(&w, ls_argmin(w.session, tensor(&w, b, 4), 0, NULL, 0), 1, &nan);
    }
}

static void c15_contraction_order(void **state) {
    (void)state;
    const int64_t sizes[] = {0, 1, 3, 511, 512, 513, 1024, 1025, 2000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        int64_t n = sizes[s];
        float *a = awkward(n, 7), *b = awkward(n, 8), total = 0;
        for (int64_t c = 0; c < n; c += 512) {
            float chunk = 0;
            for (int64_t k = c; k < n && k < c + 512; k++) {
                float product = a[k] * b[k];
                chunk += product;
            }
            total = c == 0 ? chunk : total + chunk;
        }
        EACH_DEVICE(w) {
            expect_f32(&w, ls_matmul(w.session, tensor(&w, a, n), tensor(&w, b, n)), 1, &total);
        }
        free(a), free(b);
    }
}

static void c16_absent_elements(void **state) {
    (void)state;
    float x[2] = {1, 2}, weights[3] = {INFINITY, 1, 10}, minus[2] = {-1, -2};
    ls_conv_spec spec = {.spatial = 1, .pad_low = {1}, .pad_high = {0}};
    float want[1] = {21}, top[1] = {-1}, zeros[3] = {0, 1, 2};
    int64_t kernel[1] = {3};
    EACH_DEVICE(w) {
        ls_session *s = w.session;
        ls_tensor *y = ls_conv(s, ls_tensor_from(s, LS_F32, LS_SHAPE(1, 1, 2), x), ls_tensor_from(s, LS_F32, LS_SHAPE(1, 1, 3), weights),
                               NULL, &spec);
        expect_f32(&w, y, 1, want); /* the infinite weight meets an absent element */
        expect_f32(&w, ls_max_pool(s, ls_tensor_from(s, LS_F32, LS_SHAPE(1, 1, 2), minus), kernel, &spec), 1, top);
        ls_pad_spec pad = {1, 0, 0};
        expect_f32(&w, ls_add(s, ls_pad_absent(s, tensor(&w, x, 2), &pad), ls_full(s, LS_F32, LS_SHAPE(3), 0)), 3, zeros);
    }
}

static void c17_scan_order(void **state) {
    (void)state;
    enum { N = 1500 };
    float *x = awkward(N, 9), want[N], late[N], totals[3];
    for (int b = 0; b < 3; b++) {
        for (int i = b * 512; i < N && i < b * 512 + 512; i++) {
            want[i] = i == b * 512 ? x[i] : want[i - 1] + x[i];
            totals[b] = want[i];
        }
    }
    totals[1] = totals[0] + totals[1];
    for (int i = 512; i < N; i++) {
        want[i] = totals[i / 512 - 1] + want[i];
    }
    late[0] = 0;
    memcpy(late + 1, want, sizeof late - sizeof *late);
    EACH_DEVICE(w) {
        expect_f32(&w, ls_scan(w.session, tensor(&w, x, N), LS_SCAN_SUM, 0, 0, 0), N, want);
        expect_f32(&w, ls_scan(w.session, tensor(&w, x, N), LS_SCAN_SUM, 0, 1, 0), N, late);
        expect_f32(&w, ls_flip(w.session, ls_scan(w.session, ls_flip(w.session, tensor(&w, x, N), 0), LS_SCAN_SUM, 0, 0, 1), 0), N, want);
    }
    free(x);
}

static void c18_scatter_order(void **state) {
    (void)state;
    float base[3] = {0, 1, 0}, updates[5] = {1e8f, 5, -1e8f, 3, 1};
    int32_t index[5] = {0, 1, 0, 1, 0};
    float sum[3] = {((0 + 1e8f) + -1e8f) + 1, 9, 0}, set[3] = {1, 3, 0};
    EACH_DEVICE(w) {
        ls_session *s = w.session;
        ls_tensor *i = ls_tensor_from(s, LS_I32, LS_SHAPE(5), index);
        expect_f32(&w, ls_scatter(s, tensor(&w, base, 3), i, tensor(&w, updates, 5), 0, LS_SCATTER_ADD), 3, sum);
        expect_f32(&w, ls_scatter(s, tensor(&w, base, 3), i, tensor(&w, updates, 5), 0, LS_SCATTER_SET), 3, set);
    }
}

static void c19_sort(void **state) {
    (void)state;
    float x[7] = {3, NAN, -0.0f, 0.0f, 3, -1, NAN};
    const int64_t up[7] = {5, 2, 3, 0, 4, 1, 6}, down[7] = {0, 4, 2, 3, 5, 1, 6};
    EACH_DEVICE(w) {
        expect_i64(&w, ls_argsort(w.session, tensor(&w, x, 7), 0, 0), 7, up);
        expect_i64(&w, ls_argsort(w.session, tensor(&w, x, 7), 0, 1), 7, down);
    }
}

static void c20_out_of_range(void **state) {
    (void)state;
    float x[3] = {1, 2, 3}, got[2];
    int32_t index[2] = {1, 3};
    EACH_DEVICE(w) {
        ls_tensor *y = ls_gather(w.session, tensor(&w, x, 3), ls_tensor_from(w.session, LS_I32, LS_SHAPE(2), index), 0);
        assert_int_equal(ls_read(w.session, y, got, sizeof got), LS_ERR_RANGE);
        assert_non_null(strstr(ls_session_error(w.session)->message, "gather"));
        ls_session_clear_error(w.session);
    }
}

static void c21_composites(void **state) {
    (void)state;
    enum { R = 3, N = 700 };
    float *x = awkward(R * N, 21);
    EACH_DEVICE(w) {
        ls_session *s = w.session;
        ls_tensor *t = ls_tensor_from(s, LS_F32, LS_SHAPE(R, N), x);
        ls_data *a = NULL, *b = NULL;
        ls_report r;
        const int axis = 1;
        ls_tensor *e = ls_exp(s, ls_sub(s, t, ls_amax(s, t, 1, &axis, 1)));
        ls_tensor *written = ls_div(s, e, ls_sum(s, e, 1, &axis, 1));
        world_ok(&w, ls_data_from_tensor(s, written, &a));
        world_ok(&w, ls_data_from_tensor(s, ls_softmax(s, t, 1), &b));
        assert_int_equal(ls_compare(a, b, &r), LS_SAME);
        ls_data_release(a);
        ls_data_release(b);
        ls_tensor *centred = ls_sub(s, t, ls_mean(s, t, 1, &axis, 1)); /* two passes */
        ls_tensor *n = ls_full(s, LS_F32, LS_SHAPE(R), N);
        world_ok(&w, ls_data_from_tensor(s, ls_div(s, ls_sum(s, ls_mul(s, centred, centred), 1, &axis, 0), n), &a));
        world_ok(&w, ls_data_from_tensor(s, ls_variance(s, t, 1, &axis, 0, 0), &b));
        assert_int_equal(ls_compare(a, b, &r), LS_SAME);
        ls_data_release(a);
        ls_data_release(b);
        /* A masked key's value does not matter, even when it is infinite. */
        float q[2] = {1, 2}, v[4] = {1, 2, INFINITY, -INFINITY}, first[2] = {1, 2}, got[4];
        ls_attention_spec causal = {.causal = 1};
        ls_tensor *k = ls_full(s, LS_F32, LS_SHAPE(1, 1, 2, 1), 1);
        ls_tensor *y = ls_attention(s, ls_tensor_from(s, LS_F32, LS_SHAPE(1, 1, 2, 1), q), k,
                                    ls_where(s, ls_isinf(s, ls_tensor_from(s, LS_F32, LS_SHAPE(1, 1, 2, 2), v)),
                                             ls_full(s, LS_F32, LS_SHAPE(1, 1, 2, 2), 3e38), ls_tensor_from(s, LS_F32, LS_SHAPE(1, 1, 2, 2), v)), &causal);
        world_ok(&w, ls_read(s, y, got, sizeof got));
        assert_memory_equal(got, first, sizeof first);
    }
    free(x);
}

/* f = a*b + a*c + sin(a): the same graph built in two orders has the same gradient bits, and they are the sum in reverse post-order. */
static void c22_gradient_bits(void **state) {
    (void)state;
    float *x = awkward(300, 22);
    EACH_DEVICE(w) {
        ls_session *s = w.session;
        uint32_t bits[2][100];
        for (int order = 0; order < 2; order++) {
            world_ok(&w, ls_scope_begin(s));
            ls_tensor *a = tensor(&w, x, 100), *b = tensor(&w, x + 100, 100), *c = tensor(&w, x + 200, 100), *p, *q, *r, *g;
            if (order) {
                r = ls_sin(s, a), q = ls_mul(s, a, c), p = ls_mul(s, a, b);
            } else {
                p = ls_mul(s, a, b), q = ls_mul(s, a, c), r = ls_sin(s, a);
            }
            world_ok(&w, ls_grad(s, ls_add(s, ls_add(s, p, q), r), NULL, 1, &a, &g));
            world_ok(&w, ls_read(s, g, bits[order], sizeof bits[order]));
            if (order == 0) { /* users of a, last in post-order first: sin, then a*c, then a*b */
                uint32_t want[100];
                world_ok(&w, ls_read(s, ls_add(s, ls_add(s, ls_cos(s, a), c), b), want, sizeof want));
                assert_memory_equal(bits[0], want, sizeof want);
            }
            ls_scope_end(s);
        }
        assert_memory_equal(bits[0], bits[1], sizeof bits[0]);
    }
    free(x);
}

static void c23_rewrites(void **state) {
    (void)state;
    float x[5] = {-0.0f, INFINITY, NAN, f32_of(1), 3}, nan = f32_of(0x7fc00000);
    float plus[5] = {0, INFINITY, nan, f32_of(1), 3}, same[5] = {-0.0f, INFINITY, nan, f32_of(1), 3}, self[5] = {0, nan, nan, 0, 0};
    float none[5] = {-0.0f, nan, nan, 0, 0}, third[5] = {-0.0f, INFINITY, nan, f32_of(1) / 3, 3.0f / 3}, half[5];
    for (int i = 0; i < 5; i++) {
        half[i] = i == 2 ? nan : x[i] / 2;
    }
    EACH_DEVICE(w) {
        ls_session *s = w.session;
        ls_shape five = LS_SHAPE(5);
        ls_tensor *t = tensor(&w, x, 5), *zero = ls_full(s, LS_F32, five, 0);
        expect_f32(&w, ls_add(s, t, zero), 5, plus);
        expect_f32(&w, ls_sub(s, t, zero), 5, same);
        expect_f32(&w, ls_add(s, t, ls_full(s, LS_F32, five, -0.0)), 5, same);
        expect_f32(&w, ls_mul(s, t, ls_full(s, LS_F32, five, 1)), 5, same);
        expect_f32(&w, ls_sub(s, t, t), 5, self);
        expect_f32(&w, ls_mul(s, zero, t), 5, none);
        expect_f32(&w, ls_div(s, t, ls_full(s, LS_F32, five, 3)), 5, third);
        expect_f32(&w, ls_div(s, t, ls_full(s, LS_F32, five, 2)), 5, half);
    }
}

static void c24_random_bits(void **state) {
    (void)state;
    uint32_t key[2] = {0x13198a2e, 0x03707344}, got[3], zero[2] = {0, 0};
    EACH_DEVICE(w) {
        ls_tensor *bits = ls_random_bits(w.session, ls_tensor_from(w.session, LS_U32, LS_SHAPE(2), zero), LS_SHAPE(3));
        world_ok(&w, ls_read(w.session, bits, got, sizeof got));
        assert_int_equal(got[0], 0x6b200159); /* the published answer for key 0, counter 0 */
        ls_tensor *other = ls_random_bits(w.session, ls_tensor_from(w.session, LS_U32, LS_SHAPE(2), key), LS_SHAPE(3));
        uint32_t more[3];
        world_ok(&w, ls_read(w.session, other, more, sizeof more));
        assert_memory_not_equal(got, more, sizeof got);
    }
}

static void c25_fast_bound(void **state) {
    (void)state;
    enum { N = 2000 };
    float *x = awkward(N, 11);
    world w = world_open("cpu");
    ls_session_set_math(w.session, LS_FAST);
    ls_tensor *a = ls_reshape(w.session, tensor(&w, x, N), LS_SHAPE(20, 100));
    ls_tensor *y = ls_gelu(w.session, ls_matmul(w.session, a, ls_transpose(w.session, a, 0, 1)));
    ls_verification *v;
    world_ok(&w, ls_verify(w.session, &y, 1, &v));
    assert_int_not_equal(v->verdict, LS_DIFFERS);
    assert_true(v->n_kernels > 0 && v->worst_of_bound > 0 && v->worst_of_bound <= 1);
    ls_verification_free(w.session, v);
    world_close(&w);
    free(x);
}

static void c26_blind_bounds(void **state) {
    (void)state;
    world w = world_open("ref");
    double middle[3] = {1, 1, 1}, radius[3] = {1e-7, 1e-2, HUGE_VAL};
    float x[3] = {1, 1, 5};
    int64_t dims[1] = {3};
    ls_data *data;
    ls_report r;
    assert_int_equal(ls_data_create(w.context, LS_F32, 1, dims, x, &data, NULL), LS_OK);
    ls_compare_bound(data, middle, radius, &r);
    assert_int_equal(r.blind, 2);
    assert_int_equal(r.verdict, LS_WITHIN_BOUND);
    radius[2] = 1e-2; /* blind or not, outside is outside */
    assert_int_equal(ls_compare_bound(data, middle, radius, &r), LS_DIFFERS);
    ls_data_release(data);
    world_close(&w);
}

/* A quantised product stays inside the radius, which is narrow enough to see a block of 32 of k left out. */
static void c28_reduced_products(void **state) {
    (void)state;
    enum { M = 19, N = 21, K = 256 };
    for (int kind = LS_Q4_0; kind <= LS_Q8_0; kind++) {
        float *x = awkward(M * K, 12), *numbers = awkward(N * K, 13);
        uint8_t bytes[N * K / 32 * 34];
        ls_error err = {.code = LS_OK};
        for (int i = 0; i < M * K; i++) {
            x[i] = (float)((i * 37 + i / 7) % 101 - 50) / 50;
        }
        for (int i = 0; i < N * K; i++) {
            numbers[i] = (float)((i * 53 + i / 11) % 89 - 44) / 44;
        }
        assert_int_equal(ls_quantize((ls_quant)kind, N, K, numbers, bytes, &err), LS_OK);
        world w = world_open("cpu");
        ls_session_set_math(w.session, LS_REDUCED);
        ls_tensor *a = tensor(&w, x, M * K), *b = ls_tensor_from(w.session, LS_U8, LS_SHAPE(N, ls_quant_bytes((ls_quant)kind, K)), bytes);
        ls_tensor *y = ls_linear_q(w.session, ls_reshape(w.session, a, LS_SHAPE(M, K)), b, (ls_quant)kind, NULL);
        ls_verification *v;
        world_ok(&w, ls_verify(w.session, &y, 1, &v));
        assert_int_not_equal(v->verdict, LS_DIFFERS);
        assert_true(v->n_kernels > 0 && v->worst_of_bound <= 1);
        ls_verification_free(w.session, v);
        world_close(&w);
        free(x);
        free(numbers);
    }
}

static void c27_certification(void **state) {
    (void)state;
    EACH_DEVICE(w) {
        ls_error err = {.code = LS_OK};
        if (ls_device_certify(ls_session_device(w.session), &err) != LS_OK) {
            fail_msg("%s: %s", w.id, err.message);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c01_kinds_do_not_mix),   cmocka_unit_test(c02_threads_and_fusion),    cmocka_unit_test(c03_host_state),
        cmocka_unit_test(c04_no_fused_multiply_add), cmocka_unit_test(c05_each_node_rounds),   cmocka_unit_test(c06_division_and_root),
        cmocka_unit_test(c08_conversions),        cmocka_unit_test(c09_integers),              cmocka_unit_test(c10_extremes_and_zeros),
        cmocka_unit_test(c11_canonical_nan),      cmocka_unit_test(c12_remainder),             cmocka_unit_test(c13_reduction_order),
        cmocka_unit_test(c14_arg_extremes),       cmocka_unit_test(c15_contraction_order),     cmocka_unit_test(c16_absent_elements),
        cmocka_unit_test(c17_scan_order),         cmocka_unit_test(c18_scatter_order),         cmocka_unit_test(c19_sort),
        cmocka_unit_test(c20_out_of_range),       cmocka_unit_test(c21_composites),            cmocka_unit_test(c22_gradient_bits),
        cmocka_unit_test(c23_rewrites),           cmocka_unit_test(c24_random_bits),           cmocka_unit_test(c25_fast_bound),
        cmocka_unit_test(c26_blind_bounds),       cmocka_unit_test(c27_certification),     cmocka_unit_test(c28_reduced_products),
    };
    return cmocka_run_group_tests_name("contract", tests, NULL, NULL);
}
