/* The elementary functions, scalar form: special values, and errors against better references. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "math_cases.h"

enum { SAMPLES32 = 1000000, SAMPLES64 = 20000 };

static void check32(const math_case *c, float x, double *worst, float *where) {
    double e = error32(c->f32(x), c->reference(x));
    if (!(e <= *worst)) {
        *worst = e;
        *where = x;
    }
}

static void f32_is_within_its_bound(void **state) {
    (void)state;
    for (int k = 0; k < MATH_CASES; k++) {
        const math_case *c = &math_cases[k];
        ls_rng rng = {.key = ls_rng_key(1, (uint64_t)k)};
        double worst = 0;
        float where = 0;
        for (uint64_t n = 0; n < SAMPLES32; n++) {
            check32(c, math_sample32(n, &rng), &worst, &where);
        }
        for (uint32_t h = 0; h < 65536; h++) {
            check32(c, ls_f16_to_f32((uint16_t)h), &worst, &where);
            check32(c, ls_bf16_to_f32((uint16_t)h), &worst, &where);
        }
        print_message("%-6s f32 %.4f of %.4f ulp at %a\n", c->name, worst, c->bound32, where);
        assert_true(worst <= c->bound32);
    }
}

/* f16 and bf16 functions are the f32 function and one rounding: over all 65,536 inputs, the error in ulps
 * of the half format stays within a half and the f32 error, 2^-13 (2^-16) of its ulps. */
static void halves_are_within_a_half_ulp(void **state) {
    (void)state;
    for (int k = 0; k < MATH_CASES; k++) {
        const math_case *c = &math_cases[k];
        double worst16 = 0, worstb = 0;
        for (uint32_t h = 0; h < 65536; h++) {
            float x = ls_f16_to_f32((uint16_t)h), xb = ls_bf16_to_f32((uint16_t)h);
            double y = c->reference(x), yb = c->reference(xb);
            uint16_t r = ls_f32_to_f16(c->f32(x)), rb = ls_f32_to_bf16(c->f32(xb));
            float got = ls_f16_to_f32(r), gotb = ls_bf16_to_f32(rb);
            if (isnan(y)) {
                assert_int_equal(r, LS_NAN_F16);
            } else if (isinf(got) || fabs(y) >= 65520) {
                assert_true(isinf(got) && fabs(y) > 65519.9 && !signbit(got) == !signbit(y));
            } else {
                int e = -100;
                if (y != 0) {
                    frexp(y, &e);
                }
                double d = ldexp(fabs(got - y), -(e - 11 < -24 ? -24 : e - 11));
                worst16 = d > worst16 ? d : worst16;
                assert_true(!signbit(got) == !signbit(y));
            }
            if (isnan(yb)) {
                assert_int_equal(rb, LS_NAN_BF16);
            } else if (isinf(gotb) || fabs(yb) >= 0x1.ffp127) {
                assert_true(isinf(gotb) && fabs(yb) > 0x1.fefffep127 && !signbit(gotb) == !signbit(yb));
            } else {
                int e = -1000;
                if (yb != 0) {
                    frexp(yb, &e);
                }
                double d = ldexp(fabs(gotb - yb), -(e - 8 < -133 ? -133 : e - 8));
                worstb = d > worstb ? d : worstb;
                assert_true(!signbit(gotb) == !signbit(yb));
            }
        }
        print_message("%-6s f16 %.5f bf16 %.5f ulp\n", c->name, worst16, worstb);
        assert_true(worst16 <= 0.5 + 0x1p-13 * c->bound32);
        assert_true(worstb <= 0.5 + 0x1p-16 * c->bound32);
    }
}

static void pow_f32_is_within_its_bound(void **state) {
    (void)state;
    ls_rng rng = {.key = ls_rng_key(1, 100)};
    double worst = 0;
    float wx = 0, wy = 0;
    for (uint64_t n = 0; n < SAMPLES32; n++) {
        float x = math_sample32(n, &rng), y = math_sample32(n * 7919 % SAMPLES32, &rng);
        if (n % 4 == 3) { /* a result that neither overflows nor underflows, most often */
            x = fabsf(x);
            double l = log2(x);
            y = (float)((ls_rng_unit(&rng) * 280 - 150) / l);
        }
        double e = error32(ls_pow_f32(x, y), pow(x, y));
        if (!(e <= worst)) {
            worst = e;
            wx = x;
            wy = y;
        }
    }
    print_message("pow    f32 %.4f of %.4f ulp at %a, %a\n", worst, MATH_POW_BOUND32, wx, wy);
    assert_true(worst <= MATH_POW_BOUND32);
}

static void f64_is_within_its_bound(void **state) {
    (void)state;
#ifdef LS_HAVE_MPFR
    mpfr_t x, y;
    mpfr_inits2(140, x, y, (mpfr_ptr)0);
    for (int k = 0; k < MATH_CASES; k++) {
        const math_case *c = &math_cases[k];
        ls_rng rng = {.key = ls_rng_key(2, (uint64_t)k)};
        double worst = 0, where = 0;
        for (uint64_t n = 0; n < SAMPLES64; n++) {
            double v = math_sample64(n, &rng);
            mpfr_set_d(x, v, MPFR_RNDN);
            if (isnan(v) || (v == 0 && !strcmp(c->name, "cos"))) {
                mpfr_set_d(y, c->reference(v), MPFR_RNDN);
            } else {
                c->exact(y, x, MPFR_RNDN);
            }
            double e = error64(c->f64(v), y);
            if (!(e <= worst)) {
                worst = e;
                where = v;
            }
        }
        print_message("%-6s f64 %.4f of %.4f ulp at %a\n", c->name, worst, c->bound64, where);
        assert_true(worst <= c->bound64);
    }
    mpfr_clears(x, y, (mpfr_ptr)0);
#else
    print_message("no MPFR in this build\n");
    skip();
#endif
}

static void pow_f64_is_within_its_bound(void **state) {
    (void)state;
#ifdef LS_HAVE_MPFR
    mpfr_t x, y, z;
    mpfr_inits2(160, x, y, z, (mpfr_ptr)0);
    ls_rng rng = {.key = ls_rng_key(2, 100)};
    double worst = 0, wx = 0, wy = 0;
    for (uint64_t n = 0; n < SAMPLES64; n++) {
        double a = math_sample64(n, &rng), b = math_sample64(n * 7919 % SAMPLES64, &rng);
        if (n % 4 != 0) {
            a = fabs(a);
            b = (ls_rng_unit(&rng) * 2100 - 1080) / log2(a);
        }
        double exact = pow(a, b);
        if (isnan(exact) || isinf(exact) || exact == 0) { /* the class, which the C library knows */
            double got = ls_pow_f64(a, b);
            assert_true(isnan(exact) ? bits_of_double(got) == LS_NAN_F64
                                     : bits_of_double(got) == bits_of_double(exact));
            continue;
        }
        mpfr_set_d(x, a, MPFR_RNDN);
        mpfr_set_d(y, b, MPFR_RNDN);
        mpfr_pow(z, x, y, MPFR_RNDN);
        double e = error64(ls_pow_f64(a, b), z);
        if (!(e <= worst)) {
            worst = e;
            wx = a;
            wy = b;
        }
    }
    print_message("pow    f64 %.4f of %.4f ulp at %a, %a\n", worst, MATH_POW_BOUND64, wx, wy);
    assert_true(worst <= MATH_POW_BOUND64);
    mpfr_clears(x, y, z, (mpfr_ptr)0);
#else
    print_message("no MPFR in this build\n");
    skip();
#endif
}

/* Values that Annex F of C17 fixes exactly, the same for both formats. */
static void special_values(void **state) {
    (void)state;
    const double inf = HUGE_VAL, nan = NAN;
    /* clang-format off */
    static const struct {
        const char *name;
        double x, y;
    } rows[] = {
        {"exp", 0, 1}, {"exp", -0.0, 1}, {"exp", INFINITY, INFINITY}, {"exp", -INFINITY, 0},
        {"exp", 1e4, INFINITY}, {"exp", -1e4, 0}, {"exp2", 0, 1}, {"exp2", 10, 1024}, {"exp2", -3, 0.125},
        {"exp2", -149, 0x1p-149}, {"exp2", INFINITY, INFINITY}, {"exp2", -INFINITY, 0}, {"expm1", 0, 0},
        {"expm1", -0.0, -0.0}, {"expm1", INFINITY, INFINITY}, {"expm1", -INFINITY, -1}, {"log", 1, 0},
        {"log", 0, -INFINITY}, {"log", -0.0, -INFINITY}, {"log", INFINITY, INFINITY}, {"log", -1, NAN},
        {"log", -INFINITY, NAN}, {"log2", 1, 0}, {"log2", 8, 3}, {"log2", 0x1p-149, -149},
        {"log2", 0, -INFINITY}, {"log2", -2, NAN}, {"log2", INFINITY, INFINITY}, {"log1p", 0, 0},
        {"log1p", -0.0, -0.0}, {"log1p", -1, -INFINITY}, {"log1p", -2, NAN}, {"log1p", INFINITY, INFINITY},
        {"log1p", -INFINITY, NAN}, {"sin", 0, 0}, {"sin", -0.0, -0.0}, {"sin", INFINITY, NAN},
        {"sin", -INFINITY, NAN}, {"cos", 0, 1}, {"cos", -0.0, 1}, {"cos", INFINITY, NAN},
        {"cos", -INFINITY, NAN}, {"tan", 0, 0}, {"tan", -0.0, -0.0}, {"tan", INFINITY, NAN},
        {"tan", -INFINITY, NAN}, {"asin", 0, 0}, {"asin", -0.0, -0.0}, {"asin", 1.5, NAN},
        {"asin", -INFINITY, NAN}, {"acos", 1, 0}, {"acos", 1.5, NAN}, {"acos", -1.5, NAN},
        {"acos", INFINITY, NAN}, {"atan", 0, 0}, {"atan", -0.0, -0.0}, {"sinh", 0, 0}, {"sinh", -0.0, -0.0},
        {"sinh", INFINITY, INFINITY}, {"sinh", -INFINITY, -INFINITY}, {"cosh", 0, 1}, {"cosh", -0.0, 1},
        {"cosh", INFINITY, INFINITY}, {"cosh", -INFINITY, INFINITY}, {"tanh", 0, 0}, {"tanh", -0.0, -0.0},
        {"tanh", INFINITY, 1}, {"tanh", -INFINITY, -1}, {"erf", 0, 0}, {"erf", -0.0, -0.0},
        {"erf", INFINITY, 1}, {"erf", -INFINITY, -1}, {"erfc", 0, 1}, {"erfc", INFINITY, 0},
        {"erfc", -INFINITY, 2}, {"sqrt", 4, 2}, {"sqrt", -0.0, -0.0}, {"sqrt", -1, NAN},
        {"sqrt", INFINITY, INFINITY}, {"rsqrt", 4, 0.5}, {"rsqrt", 0, INFINITY}, {"rsqrt", -0.0, -INFINITY},
        {"rsqrt", -1, NAN}, {"rsqrt", INFINITY, 0}, {"cbrt", 27, 3}, {"cbrt", -8, -2}, {"cbrt", -0.0, -0.0},
        {"cbrt", INFINITY, INFINITY}, {"cbrt", -INFINITY, -INFINITY}, {"cbrt", 0x1p-147, 0x1p-49},
        {"floor", -0.0, -0.0}, {"floor", -0.5, -1}, {"floor", 2.5, 2}, {"floor", INFINITY, INFINITY},
        {"ceil", -0.5, -0.0}, {"ceil", 0.5, 1}, {"ceil", -2.5, -2}, {"ceil", -INFINITY, -INFINITY},
        {"trunc", -0.5, -0.0}, {"trunc", 2.75, 2}, {"trunc", -2.75, -2}, {"trunc", INFINITY, INFINITY},
        {"rint", 0.5, 0}, {"rint", -0.5, -0.0}, {"rint", 1.5, 2}, {"rint", 2.5, 2}, {"rint", -3.5, -4},
        {"rint", 8388607.5, 8388608}
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const math_case *c = NULL;
        for (int k = 0; k < MATH_CASES; k++) {
            if (!strcmp(math_cases[k].name, rows[i].name)) {
                c = &math_cases[k];
            }
        }
        assert_non_null(c);
        float y32 = c->f32((float)rows[i].x);
        double y64 = c->f64(rows[i].x);
        uint32_t want32 = isnan(rows[i].y) ? LS_NAN_F32 : bits_of((float)rows[i].y);
        uint64_t want64 = isnan(rows[i].y) ? LS_NAN_F64 : bits_of_double(rows[i].y);
        if (bits_of(y32) != want32 || bits_of_double(y64) != want64) {
            fail_msg("%s(%g) is %a in f32 and %a in f64, not %g", c->name, rows[i].x, y32, y64, rows[i].y);
        }
    }
    for (int k = 0; k < MATH_CASES; k++) { /* any NaN gives the canonical one */
        assert_int_equal(bits_of(math_cases[k].f32(float_of(0xffc12345u))), LS_NAN_F32);
        assert_int_equal(bits_of(math_cases[k].f32(float_of(0x7f800001u))), LS_NAN_F32);
        assert_true(bits_of_double(math_cases[k].f64(double_of(0xfff8000000012345u))) == LS_NAN_F64);
    }
    /* clang-format off */
    const struct {
        double x, y, z;
    } powers[] = {
        {2, 10, 1024}, {2, -149, 0x1p-149}, {-2, 3, -8}, {-2, 2, 4}, {-2, 0.5, nan}, {0, 0, 1}, {nan, 0, 1},
        {1, nan, 1}, {1, inf, 1}, {-1, inf, 1}, {-1, -inf, 1}, {nan, 1, nan}, {2, nan, nan}, {0, 3, 0},
        {-0.0, 3, -0.0}, {-0.0, 2, 0}, {0, -1, inf}, {-0.0, -1, -inf}, {-0.0, -2, inf}, {0.5, inf, 0},
        {0.5, -inf, inf}, {2, inf, inf}, {2, -inf, 0}, {0, inf, 0}, {0, -inf, inf}, {inf, 2, inf},
        {inf, -2, 0}, {-inf, 3, -inf}, {-inf, 2, inf}, {-inf, -3, -0.0}, {-inf, 0.5, inf}, {-inf, -2, 0},
        {9, 0.5, 3}, {3, 4, 81}, {10, 5, 100000}, {-1, 16777216, 1}, {-1, 16777215, -1}, {inf, nan, nan},
        {-0.5, inf, 0}, {-2, -inf, 0}, {-3, 5, -243}, {0.25, -1.5, 8}, {-0.0, 0.5, 0}, {-0.0, -0.5, inf},
        {5, 1, 5}, {-2, 0x1p60, inf}, {0x1p-149, 1, 0x1p-149}
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof powers / sizeof *powers; i++) {
        float y32 = ls_pow_f32((float)powers[i].x, (float)powers[i].y);
        double y64 = ls_pow_f64(powers[i].x, powers[i].y);
        uint32_t want32 = isnan(powers[i].z) ? LS_NAN_F32 : bits_of((float)powers[i].z);
        uint64_t want64 = isnan(powers[i].z) ? LS_NAN_F64 : bits_of_double(powers[i].z);
        int wide = powers[i].y == 0x1p60; /* overflows in both */
        if (bits_of(y32) != want32 || (bits_of_double(y64) != want64 && !wide)) {
            fail_msg("pow(%g, %g) is %a in f32 and %a in f64, not %g", powers[i].x, powers[i].y, y32, y64,
                     powers[i].z);
        }
    }
}

/* FNV-1a over the results, 32 or 64 bits at a time: f32 over all f16 values and samples, f64 over samples. */
static void hash(uint64_t *h, uint64_t bits) {
    *h = (*h ^ bits) * 0x100000001b3u;
}

static uint64_t golden_hash(int k) {
    enum { SAMPLES = 16384 };
    ls_rng rng = {.key = ls_rng_key(6, (uint64_t)k)};
    uint64_t h = 0xcbf29ce484222325u;
    for (uint32_t i = 0; k < MATH_CASES && i < 65536; i++) {
        hash(&h, bits_of(math_cases[k].f32(ls_f16_to_f32((uint16_t)i))));
    }
    for (uint64_t n = 0; n < SAMPLES; n++) {
        float x = math_sample32(n, &rng), y = math_sample32(n * 7919 % SAMPLES, &rng);
        double a = math_sample64(n, &rng), b = math_sample64(n * 7919 % SAMPLES, &rng);
        hash(&h, bits_of(k < MATH_CASES ? math_cases[k].f32(x) : ls_pow_f32(x, y)));
        hash(&h, bits_of_double(k < MATH_CASES ? math_cases[k].f64(a) : ls_pow_f64(a, b)));
    }
    return h;
}

/* The locked bits. A change here is a change of the contract. */
static void bits_are_golden(void **state) {
    (void)state;
    static const uint64_t golden[MATH_CASES + 1] = {
        0x83ca33ea30fca9e8u, 0xa3eb9f579274c01cu, 0xfef9d128130020c0u, 0xcfa126bf89844bf0u,
        0x07793b6c208e6004u, 0x03640220659bdfc8u, 0xbd6213d1d49ce601u, 0xb41e0359d91f15d2u,
        0xf5211803b9c7ff95u, 0x912add239aff4619u, 0x71ff73896672b99fu, 0xdb863c918c45941bu,
        0xf9bfa58be51ddd5au, 0xf3b8db0e788386abu, 0xa8d4785d6ac4c9f2u, 0xe32be7a9f165a7adu,
        0x5bcf4582c1a4a5d6u, 0x20ae343d1af990a1u, 0x0a77c9e956c95dd9u, 0xc5cde5bfdeeb9259u,
        0xb3bfe05c408b0e41u, 0x73ff215732276ca0u, 0x79956477a4b1088cu, 0x11054d8815853340u,
        0x155cdcbda5b29a02u};
    for (int k = 0; k <= MATH_CASES; k++) {
        uint64_t h = golden_hash(k);
        if (h != golden[k]) {
            fail_msg("%s: 0x%016llx", k < MATH_CASES ? math_cases[k].name : "pow", (unsigned long long)h);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(special_values),
        cmocka_unit_test(bits_are_golden),
        cmocka_unit_test(f32_is_within_its_bound),
        cmocka_unit_test(halves_are_within_a_half_ulp),
        cmocka_unit_test(pow_f32_is_within_its_bound),
        cmocka_unit_test(f64_is_within_its_bound),
        cmocka_unit_test(pow_f64_is_within_its_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
