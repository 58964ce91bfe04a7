/* Many more seeded samples than the unit test: f64 functions and pow, which no sweep can exhaust. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "unit/math_cases.h"

enum { SAMPLES_F64 = 500000, SAMPLES_POW32 = 50000000 };

static void f64_function(void **state) {
#ifdef LS_HAVE_MPFR
    const math_case *c = *state;
    mpfr_t x, y;
    mpfr_inits2(140, x, y, (mpfr_ptr)0);
    ls_rng rng = {.key = ls_rng_key(5, (uint64_t)(c - math_cases))};
    double worst = 0, where = 0;
    for (uint64_t n = 0; n < SAMPLES_F64; n++) {
        double v = math_sample64(n, &rng);
        if (isnan(v) || v == 0) {
            continue; /* the unit test has these */
        }
        mpfr_set_d(x, v, MPFR_RNDN);
        c->exact(y, x, MPFR_RNDN);
        double e = error64(c->f64(v), y);
        if (!(e <= worst)) {
            worst = e;
            where = v;
        }
    }
    print_message("%-6s f64 %.4f of %.4f ulp at %a\n", c->name, worst, c->bound64, where);
    assert_true(worst <= c->bound64);
    mpfr_clears(x, y, (mpfr_ptr)0);
#else
    (void)state;
    print_message("no MPFR in this build\n");
    skip();
#endif
}

static void pow_f32(void **state) {
    (void)state;
    ls_rng rng = {.key = ls_rng_key(5, 100)};
    double worst = 0;
    float wx = 0, wy = 0;
    for (uint64_t n = 0; n < SAMPLES_POW32; n++) {
        float x = fabsf(math_sample32(n, &rng));
        float y = (float)((ls_rng_unit(&rng) * 280 - 150) / log2(x));
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

static void pow_f64(void **state) {
    (void)state;
#ifdef LS_HAVE_MPFR
    mpfr_t x, y, z;
    mpfr_inits2(160, x, y, z, (mpfr_ptr)0);
    ls_rng rng = {.key = ls_rng_key(5, 101)};
    double worst = 0, wx = 0, wy = 0;
    for (uint64_t n = 0; n < SAMPLES_F64; n++) {
        double a = fabs(math_sample64(n, &rng));
        double b = (ls_rng_unit(&rng) * 2100 - 1080) / log2(a);
        double exact = pow(a, b);
        if (isnan(exact) || isinf(exact) || exact == 0) {
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

int main(void) {
    struct CMUnitTest tests[MATH_CASES + 2];
    size_t n = 0;
    for (int k = 0; k < MATH_CASES; k++) {
        tests[n++] = (struct CMUnitTest){
            .name = math_cases[k].name, .test_func = f64_function, .initial_state = (void *)&math_cases[k]};
    }
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(pow_f32);
    tests[n++] = (struct CMUnitTest)cmocka_unit_test(pow_f64);
    return _cmocka_run_group_tests("samples", tests, n, NULL, NULL);
}
