/* The oracle: its radii hold the exact results, are no wider than the roundings that the contract allows, and integers are exact.
 * The judge is quadruple precision (double precision's products and sums of a few thousand terms are exact in it to 2^-100) and, for
 * functions, the C library's long double. */
#include "support/world.h"
#include "base/rng.h"
#include "oracle/oracle.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SIZEOF_FLOAT128__)
__extension__ typedef __float128 quad;
#else
typedef long double quad;
#endif

typedef struct values {
    double *middle, *radius;
    int64_t n;
} values;

static values oracle(world *w, ls_tensor *x) {
    values v;
    if (!x) {
        fail_msg("%s", ls_session_error(w->session)->message);
    }
    world_ok(w, ls_oracle_value(w->session, x, &v.middle, &v.radius, &v.n));
    return v;
}

static void values_free(world *w, values *v) {
    ls_verify_free(w->session, v->middle);
    ls_verify_free(w->session, v->radius);
}

/* |exact - middle| <= radius <= 2 * allowed: what the contract's roundings cost, once for the device and once, in f64, for the oracle
 * itself. A radius that is wider would be right but would find nothing. */
static void contains(const char *what, int64_t i, double middle, double radius, quad exact, double allowed) {
    double most = 2 * allowed * (1 + 1e-12); /* radii are summed in float64, rounded upwards */
    quad gap = exact > (quad)middle ? exact - (quad)middle : (quad)middle - exact;
    if (!(gap <= (quad)radius) || !(radius <= most)) {
        fail_msg("%s, element %lld: middle %.17g, radius %.3g: the exact result is %.3g away; expected a "
                 "radius of at most %.3g",
                 what, (long long)i, middle, radius, (double)gap, most);
    }
}

/* A device's value, by the same bound. */
static void device_inside(world *w, const char *what, ls_tensor *x, const values *v) {
    ls_data *data = NULL;
    ls_report r;
    world_ok(w, ls_data_from_tensor(w->session, x, &data));
    if (ls_compare_bound(data, v->middle, v->radius, &r) == LS_DIFFERS) {
        fail_msg("%s: %s", what, r.message);
    }
    ls_data_release(data);
}

static double random_value(ls_rng *rng, ls_dtype dtype) {
    double x = (ls_rng_unit(rng) * 2 - 1) * (ls_rng_below(rng, 4) ? 1 : 64);
    return ls_value_to_f64(dtype, ls_value_from_f64(dtype, x));
}

/* n values of a dtype as a tensor, and as doubles. */
static ls_tensor *random_tensor(world *w, ls_rng *rng, ls_dtype dtype, ls_shape shape, int64_t n,
                                double *out) {
    size_t size = ls_dtype_size(dtype);
    uint8_t *bytes = malloc(size * (size_t)n + 8);
    for (int64_t i = 0; i < n; i++) {
        out[i] = random_value(rng, dtype);
        uint64_t bits = ls_value_from_f64(dtype, out[i]);
        memcpy(bytes + (size_t)i * size, &bits, size);
    }
    ls_tensor *x = ls_tensor_from(w->session, dtype, shape, bytes);
    free(bytes);
    return x;
}

static const ls_dtype floats[] = {LS_F16, LS_BF16, LS_F32, LS_F64};
static double unit_of(ls_dtype dtype) {
    return dtype == LS_F64 ? 0x1p-53 : dtype == LS_F32 ? 0x1p-24 : dtype == LS_F16 ? 0x1p-11 : 0x1p-8;
}

static void test_contract(void **state) {
    (void)state;
    enum { M = 3, N = 4, K_MOST = 2100 };
    static const int depths[] = {1, 2, 7, 512, 513, 2100};
    static double a[M * K_MOST], b[K_MOST * N];
    world w = world_open("cpu");
    ls_rng rng = {1, 0};
    for (int d = 0; d < 4; d++) {
        for (size_t k = 0; k < sizeof depths / sizeof *depths; k++) {
            int depth = depths[k];
            ls_tensor *x = random_tensor(&w, &rng, floats[d], LS_SHAPE(M, depth), M * depth, a);
            ls_tensor *y = random_tensor(&w, &rng, floats[d], LS_SHAPE(depth, N), depth * N, b);
            ls_tensor *z = ls_matmul(w.session, x, y);
            values v = oracle(&w, z);
            assert_int_equal(v.n, M * N);
            double sum_unit = floats[d] == LS_F64 ? 0x1p-53 : 0x1p-24; /* halves accumulate in f32 */
            for (int i = 0; i < M * N; i++) {
                quad exact = 0;
                double magnitude = 0;
                for (int j = 0; j < depth; j++) {
                    exact += (quad)a[i / N * depth + j] * (quad)b[j * N + i % N];
                    magnitude += fabs(a[i / N * depth + j] * b[j * N + i % N]);
                }
                /* Every term meets at most 512 additions, the chunks' and its own rounding; then one rounding to the dtype. */
                int roundings = (depth < 512 ? depth : 512) + depth / 512 + 4;
                contains(ls_dtype_name(floats[d]), i, v.middle[i], v.radius[i], exact,
                         roundings * sum_unit * magnitude + unit_of(floats[d]) * fabs(v.middle[i]) +
                             ls_smallest(floats[d]));
            }
            device_inside(&w, "matmul", z, &v);
            values_free(&w, &v);
        }
    }
    world_close(&w);
}

static void test_reductions(void **state) {
    (void)state;
    static const int sizes[] = {1, 5, 255, 257, 4097};
    static double a[4097];
    world w = world_open("cpu");
    ls_rng rng = {2, 0};
    for (int d = 0; d < 4; d++) {
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            int n = sizes[k];
            ls_tensor *x = random_tensor(&w, &rng, floats[d], LS_SHAPE(n), n, a),
                      *sum = ls_sum(w.session, x, 0, NULL, 0);
            values v = oracle(&w, sum);
            quad exact = 0;
            double magnitude = 0;
            for (int i = 0; i < n; i++) {
                exact += (quad)a[i];
                magnitude += fabs(a[i]);
            }
            double sum_unit = floats[d] == LS_F64 ? 0x1p-53 : 0x1p-24;
            int roundings = 16 + 8 + (n > 4096) * 9 + 1; /* a partial, the halving, the sum of blocks */
            contains("sum", 0, v.middle[0], v.radius[0], exact,
                     roundings * sum_unit * magnitude + unit_of(floats[d]) * fabs(v.middle[0]) +
                         ls_smallest(floats[d]));
            device_inside(&w, "sum", sum, &v);
            values_free(&w, &v);
            ls_tensor *max = ls_amax(w.session, x, 0, NULL, 0);
            v = oracle(&w, max);
            double best = a[0];
            for (int i = 1; i < n; i++) {
                best = a[i] > best ? a[i] : best;
            }
            assert_true(v.middle[0] == best && v.radius[0] == 0); /* a choice rounds nothing */
            values_free(&w, &v);
        }
    }
    world_close(&w);
}

typedef long double (*judge)(long double);
typedef struct function {
    const char *name;
    ls_tensor *(*build)(ls_session *, ls_tensor *);
    judge exact;
    double units; /* the radius in halves of an ULP, at most */
    double low, high;
} function;

static long double reciprocal_square_root(long double x) {
    return 1 / sqrtl(x);
}

static void test_functions(void **state) {
    (void)state;
    static const function functions[] = {
        {"sqrt", ls_sqrt, sqrtl, 1, 0, 100},   {"exp", ls_exp, expl, 8, -20, 20},
        {"log", ls_log, logl, 8, 1e-3, 1e6},   {"sin", ls_sin, sinl, 8, -50, 50},
        {"cos", ls_cos, cosl, 8, -50, 50},     {"tanh", ls_tanh, tanhl, 8, -5, 5},
        {"erf", ls_erf, erfl, 8, -4, 4},       {"log1p", ls_log1p, log1pl, 8, -0.9, 9},
        {"expm1", ls_expm1, expm1l, 8, -3, 3}, {"rsqrt", ls_rsqrt, reciprocal_square_root, 8, 1e-3, 1e3},
    };
    enum { N = 400 };
    static double x[N];
    world w = world_open("cpu");
    ls_rng rng = {3, 0};
    for (size_t k = 0; k < sizeof functions / sizeof *functions; k++) {
        for (int wide = 0; wide < 2; wide++) {
            const function *f = &functions[k];
            static float narrow[N];
            for (int i = 0; i < N; i++) {
                x[i] = f->low + (f->high - f->low) * ls_rng_unit(&rng);
                narrow[i] = (float)x[i];
                x[i] = wide ? x[i] : (double)narrow[i];
            }
            ls_tensor *in = wide ? ls_tensor_from(w.session, LS_F64, LS_SHAPE(N), x)
                                 : ls_tensor_from(w.session, LS_F32, LS_SHAPE(N), narrow);
            ls_tensor *out = f->build(w.session, in);
            values v = oracle(&w, out);
            for (int i = 0; i < N; i++) {
                long double exact = f->exact((long double)x[i]);
                contains(f->name, i, v.middle[i], v.radius[i], (quad)exact,
                         f->units * (wide ? 0x1p-53 : 0x1p-24) * fabs((double)exact) +
                             ls_smallest(wide ? LS_F64 : LS_F32));
            }
            device_inside(&w, f->name, out, &v);
            values_free(&w, &v);
        }
    }
    world_close(&w);
}

/* A chain whose roundings feed one another: (a*b + c) / (a*a + 1) - c. */
static void test_chain(void **state) {
    (void)state;
    enum { N = 500 };
    static double a[N], b[N], c[N];
    world w = world_open("cpu");
    ls_session *s = w.session;
    ls_rng rng = {4, 0};
    for (int d = 0; d < 4; d++) {
        ls_tensor *x = random_tensor(&w, &rng, floats[d], LS_SHAPE(N), N, a),
                  *y = random_tensor(&w, &rng, floats[d], LS_SHAPE(N), N, b);
        ls_tensor *z = random_tensor(&w, &rng, floats[d], LS_SHAPE(N), N, c),
                  *one = ls_full(s, floats[d], LS_SCALAR, 1);
        ls_tensor *top = ls_add(s, ls_mul(s, x, y), z), *bottom = ls_add(s, ls_mul(s, x, x), one);
        ls_tensor *out = ls_sub(s, ls_div(s, top, bottom), z);
        values v = oracle(&w, out);
        double u = unit_of(floats[d]);
        for (int i = 0; i < N; i++) {
            quad below = (quad)a[i] * (quad)a[i] + 1,
                 exact = ((quad)a[i] * (quad)b[i] + (quad)c[i]) / below - (quad)c[i];
            double size = (fabs(a[i] * b[i]) + fabs(c[i])) / (double)below + fabs(c[i]);
            contains(ls_dtype_name(floats[d]), i, v.middle[i], v.radius[i], exact,
                     7 * u * size + 3 * ls_smallest(floats[d])); /* seven operations */
        }
        device_inside(&w, "chain", out, &v);
        values_free(&w, &v);
    }
    world_close(&w);
}

/* Integers: every result equal to plain loops that wrap, radius 0. */
static void test_integers(void **state) {
    (void)state;
    enum { M = 3, K = 700, N = 2 };
    static int32_t a[M * K], b[K * N];
    static int8_t c[M * K], e[K * N];
    world w = world_open("cpu");
    ls_session *s = w.session;
    ls_rng rng = {5, 0};
    for (int i = 0; i < M * K; i++) {
        a[i] = (int32_t)ls_rng_u32(&rng);
        c[i] = (int8_t)ls_rng_u32(&rng);
    }
    for (int i = 0; i < K * N; i++) {
        b[i] = (int32_t)ls_rng_u32(&rng);
        e[i] = (int8_t)ls_rng_u32(&rng);
    }
    ls_tensor *wraps = ls_matmul(s, ls_tensor_from(s, LS_I32, LS_SHAPE(M, K), a),
                                 ls_tensor_from(s, LS_I32, LS_SHAPE(K, N), b));
    const ls_contract_spec spec = {.n_contract = 1, .contract_a = {1}, .contract_b = {0}};
    ls_tensor *widens = ls_contract(s, ls_tensor_from(s, LS_I8, LS_SHAPE(M, K), c),
                                    ls_tensor_from(s, LS_I8, LS_SHAPE(K, N), e), &spec, LS_I32);
    values v = oracle(&w, wraps), u = oracle(&w, widens);
    int32_t got[2][M * N];
    world_ok(&w, ls_read(s, wraps, got[0], sizeof got[0]));
    world_ok(&w, ls_read(s, widens, got[1], sizeof got[1]));
    for (int i = 0; i < M * N; i++) {
        uint32_t sum = 0;
        int32_t small = 0;
        for (int k = 0; k < K; k++) {
            sum += (uint32_t)a[i / N * K + k] * (uint32_t)b[k * N + i % N];
            small += c[i / N * K + k] * e[k * N + i % N];
        }
        assert_true(v.middle[i] == (double)(int32_t)sum && v.radius[i] == 0);
        assert_true(u.middle[i] == (double)small && u.radius[i] == 0);
        assert_int_equal(got[0][i], (int32_t)sum);
        assert_int_equal(got[1][i], small);
    }
    values_free(&w, &v);
    values_free(&w, &u);
    world_close(&w);
}

/* A product of floats that loses one term of K = 2048 is told from a right one. */
static void test_dropped_term(void **state) {
    (void)state;
    enum { M = 8, N = 8, K = 2048 };
    static double a[M * K], b[K * N];
    world w = world_open("cpu");
    ls_rng rng = {6, 0};
    ls_tensor *x = random_tensor(&w, &rng, LS_F32, LS_SHAPE(M, K), M * K, a),
              *y = random_tensor(&w, &rng, LS_F32, LS_SHAPE(K, N), K * N, b);
    ls_tensor *z = ls_matmul(w.session, x, y);
    values v = oracle(&w, z);
    float got[M * N];
    world_ok(&w, ls_read(w.session, z, got, sizeof got));
    for (int i = 0; i < M * N; i++) {
        got[i] -= (float)(a[i / N * K + K - 1] * b[(K - 1) * N + i % N]);
    }
    ls_data *wrong = NULL;
    ls_report r;
    assert_int_equal(ls_data_create(w.context, LS_F32, 2, (const int64_t[]){M, N}, got, &wrong, NULL), LS_OK);
    assert_int_equal(ls_compare_bound(wrong, v.middle, v.radius, &r), LS_DIFFERS);
    print_message("%lld of %d elements without their last term are outside\n", (long long)r.outside, M * N);
    assert_true(r.outside >= M * N / 8);
    ls_data_release(wrong);
    values_free(&w, &v);
    world_close(&w);
}

/* What follows from a comparison inside a radius is undecided; what is clear of it is exact. */
static void test_decisions(void **state) {
    (void)state;
    static const float a[] = {1, 1, 0x1.000002p0f, 5}, b[] = {3, 3, 3, 3};
    static const float third[] = {0.33333334f, 0.25f, 0.33333334f, 0.5f};
    world w = world_open("cpu");
    ls_session *s = w.session;
    ls_tensor *quotient =
        ls_div(s, ls_tensor_from(s, LS_F32, LS_SHAPE(4), a), ls_tensor_from(s, LS_F32, LS_SHAPE(4), b));
    values v = oracle(&w, ls_lt(s, ls_tensor_from(s, LS_F32, LS_SHAPE(4), third), quotient));
    assert_true(v.radius[0] > 0);
    assert_true(v.radius[1] == 0 && v.middle[1] == 1);
    assert_true(v.radius[3] == 0 && v.middle[3] == 1);
    values_free(&w, &v);
    world_close(&w);
}

/* What may have overflowed may be NaN after it: no function brings it back into a bound. */
static void test_overflow(void **state) {
    (void)state;
    static const float most[] = {0x1.fffffep127f}, three[] = {3};
    world w = world_open("cpu");
    ls_session *s = w.session;
    ls_tensor *x = ls_tensor_from(s, LS_F32, LS_SHAPE(1), most), *y = ls_tensor_from(s, LS_F32, LS_SHAPE(1), three);
    ls_tensor *edge = ls_mul(s, ls_div(s, x, y), y);
    ls_tensor *after[] = {edge, ls_sign(s, edge), ls_floor(s, edge), ls_sin(s, edge), ls_cos(s, edge), ls_tanh(s, edge), ls_max(s, edge, y)};
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        values v = oracle(&w, after[i]);
        assert_true(isinf(v.radius[0]));
        values_free(&w, &v);
    }
    world_close(&w);
}

/* Beside an infinity, partial sums that overflow to one of the other sign make NaN; those that cannot leave it as it is. */
static void test_overflow_beside_infinity(void **state) {
    (void)state;
    static const float sums[][4] = {{3e38f, -INFINITY, 3e38f, 1}, {3e37f, -INFINITY, 3e37f, 1}, {INFINITY, -INFINITY, 3e38f, 3e38f}};
    world w = world_open("cpu");
    for (int i = 0; i < 3; i++) {
        ls_tensor *x = ls_tensor_from(w.session, LS_F32, LS_SHAPE(4), sums[i]), *y = ls_sum(w.session, x, 1, (const int[]){0}, 0);
        values v = oracle(&w, y);
        assert_true(i == 0 ? isinf(v.radius[0]) : v.radius[0] == 0);
        device_inside(&w, "a sum beside an infinity", y, &v);
        values_free(&w, &v);
    }
    world_close(&w);
}

/* A remainder whose quotient is no whole number of float64: by long division where operands are exact, else below the divisor. */
static void test_far_remainders(void **state) {
    (void)state;
    static const float a[] = {1, -1, 3.3e38f, 0x1p100f, 5, -7}, b[] = {1e-40f, 1e-20f, 0x1p-149f, 3, 0x1p-149f, 2};
    world w = world_open("cpu");
    ls_session *s = w.session;
    ls_tensor *x = ls_tensor_from(s, LS_F32, LS_SHAPE(6), a), *y = ls_tensor_from(s, LS_F32, LS_SHAPE(6), b), *z = ls_rem(s, x, y);
    values v = oracle(&w, z);
    for (int i = 0; i < 6; i++) {
        assert_true(v.radius[i] == 0 && v.middle[i] == fmod((double)a[i], (double)b[i]));
    }
    device_inside(&w, "a remainder", z, &v);
    values_free(&w, &v);
    z = ls_rem(s, ls_mul(s, ls_div(s, x, ls_full(s, LS_F32, LS_SCALAR, 3)), ls_full(s, LS_F32, LS_SCALAR, 3)), y);
    v = oracle(&w, z);
    device_inside(&w, "a remainder of what was rounded", z, &v);
    values_free(&w, &v);
    world_close(&w);
}

/* Zeros have the signs of the contract: what divides by one tells. */
static void test_signs_of_zeros(void **state) {
    (void)state;
    static const double inf = INFINITY;
    world w = world_open("cpu");
    ls_session *s = w.session;
    ls_tensor *one = ls_full(s, LS_F32, LS_SHAPE(2), 1), *both = ls_tensor_from(s, LS_F32, LS_SHAPE(2), (const float[]){-0.0f, 0.0f}),
              *turned = ls_tensor_from(s, LS_F32, LS_SHAPE(2), (const float[]){0.0f, -0.0f});
    const int axis = 0;
    const struct {
        ls_tensor *x;
        double first, second;
    } cases[] = {
        {ls_abs(s, both), inf, inf},
        {ls_neg(s, both), inf, -inf},
        {ls_max(s, both, turned), inf, inf},
        {ls_min(s, both, turned), -inf, -inf},
        {ls_expand(s, ls_amax(s, both, 1, &axis, 1), LS_SHAPE(2)), inf, inf},
        {ls_expand(s, ls_amax(s, turned, 1, &axis, 1), LS_SHAPE(2)), inf, inf},
        {ls_expand(s, ls_amin(s, both, 1, &axis, 1), LS_SHAPE(2)), -inf, -inf},
        {ls_expand(s, ls_amin(s, turned, 1, &axis, 1), LS_SHAPE(2)), -inf, -inf},
        {ls_scan(s, turned, LS_SCAN_MIN, 0, 0, 0), inf, -inf},
        {ls_rem(s, both, one), -inf, inf},
        {ls_sign(s, both), -inf, inf},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_tensor *y = ls_div(s, one, cases[i].x);
        values v = oracle(&w, y);
        if (v.middle[0] != cases[i].first || v.middle[1] != cases[i].second || v.radius[0] != 0 || v.radius[1] != 0) {
            fail_msg("case %zu: %g and %g", i, v.middle[0], v.middle[1]);
        }
        device_inside(&w, "1 over a zero", y, &v);
        values_free(&w, &v);
    }
    world_close(&w);
}

/* Of a shape that values of symbols make negative there are no values: said of a node and of a loop alike. */
static ls_status same_again(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry, ls_tensor *const *xs, ls_tensor **out_carry,
                            ls_tensor **out_ys) {
    (void)s, (void)ctx, (void)iteration, (void)xs;
    out_carry[0] = out_ys[0] = carry[0];
    return LS_OK;
}

static void test_negative_extents(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_session *s = w.session;
    ls_error err;
    ls_symbol *n = ls_symbol_create(w.context, "n", 64, &err);
    ls_shape both = LS_SHAPE(64, 64);
    both.dim[0] = both.dim[1] = ls_dim_symbol(n, 1, 0);
    const ls_pad_spec crop[] = {{-8, 0, 0}, {0, -8, 0}};
    ls_tensor *all[4] = {ls_pad(s, ls_iota(s, LS_F32, both, 0), crop, 0)}, *one = ls_full(s, LS_F32, LS_SHAPE(3), 1);
    world_ok(&w, ls_loop(s, ls_dim_symbol(n, 1, -8), 1, &one, 0, NULL, 1, same_again, NULL, &all[1], &all[2]));
    world_ok(&w, ls_loop(s, ls_dim_of(2), 1, &all[0], 0, NULL, 1, same_again, NULL, &one, &all[3]));
    world_ok(&w, ls_symbol_bind(s, n, 3));
    for (int i = 0; i < 4; i++) {
        values v;
        assert_int_equal(ls_oracle_value(s, all[i], &v.middle, &v.radius, &v.n), LS_ERR_SHAPE);
        assert_non_null(strstr(ls_session_error(s)->message, "an extent is -5"));
        ls_session_clear_error(s);
    }
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contract),  cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_functions), cmocka_unit_test(test_chain),
        cmocka_unit_test(test_integers),  cmocka_unit_test(test_dropped_term),
        cmocka_unit_test(test_decisions), cmocka_unit_test(test_overflow), cmocka_unit_test(test_overflow_beside_infinity),
        cmocka_unit_test(test_far_remainders), cmocka_unit_test(test_signs_of_zeros),
        cmocka_unit_test(test_negative_extents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
