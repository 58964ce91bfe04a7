/* KIR: the arithmetic of single instructions against wide integers and the C library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/half.h"
#include "base/rng.h"
#include "kir/build.h"
#include "kir/kir.h"
#include "kir_fixture.h"
#include <math.h>
#include <stdio.h>

static uint64_t eval(ls_kop op, ls_dtype t, ls_dtype st, uint64_t a, uint64_t b, uint64_t c) {
    const uint64_t s[3] = {a, b, c};
    return ls_kir_eval(op, t, st, s);
}

static int64_t wrap8(int64_t v, bool is_signed) {
    v &= 255;
    return is_signed && v > 127 ? v - 256 : v;
}

static void integers_exhaustively_at_8_bits(void **state) {
    (void)state;
    for (int pass = 0; pass < 2; pass++) {
        bool sg = pass;
        ls_dtype t = sg ? LS_I8 : LS_U8;
        for (int64_t a = sg ? -128 : 0; a <= (sg ? 127 : 255); a++) {
            for (int64_t b = sg ? -128 : 0; b <= (sg ? 127 : 255); b++) {
                uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
                int64_t shift = b & 255;
                int64_t quotient = b ? wrap8(a / b, sg) : 0, rest = b ? a % b : 0;
                int64_t right = shift >= 8 ? (a < 0 ? -1 : 0) : a >> shift;
                assert_int_equal((int64_t)eval(LS_K_ADD, t, t, ua, ub, 0), wrap8(a + b, sg));
                assert_int_equal((int64_t)eval(LS_K_SUB, t, t, ua, ub, 0), wrap8(a - b, sg));
                assert_int_equal((int64_t)eval(LS_K_MUL, t, t, ua, ub, 0), wrap8(a * b, sg));
                assert_int_equal((int64_t)eval(LS_K_DIV, t, t, ua, ub, 0), quotient);
                assert_int_equal((int64_t)eval(LS_K_REM, t, t, ua, ub, 0), rest);
                assert_int_equal((int64_t)eval(LS_K_MIN, t, t, ua, ub, 0), a < b ? a : b);
                assert_int_equal((int64_t)eval(LS_K_MAX, t, t, ua, ub, 0), a > b ? a : b);
                assert_int_equal((int64_t)eval(LS_K_SHL, t, t, ua, ub, 0),
                                 shift >= 8 ? 0 : wrap8(a * (1 << shift), sg));
                assert_int_equal((int64_t)eval(LS_K_SHR, t, t, ua, ub, 0), right);
                assert_int_equal((int64_t)eval(LS_K_XOR, t, t, ua, ub, 0), wrap8(a ^ b, sg));
                assert_int_equal(eval(LS_K_LT, LS_BOOL, t, ua, ub, 0), a < b);
                assert_int_equal(eval(LS_K_LE, LS_BOOL, t, ua, ub, 0), a <= b);
                assert_int_equal(eval(LS_K_EQ, LS_BOOL, t, ua, ub, 0), a == b);
                assert_int_equal(eval(LS_K_NE, LS_BOOL, t, ua, ub, 0), a != b);
            }
            assert_int_equal((int64_t)eval(LS_K_NEG, t, t, (uint64_t)a, 0, 0), wrap8(-a, sg));
            assert_int_equal((int64_t)eval(LS_K_ABS, t, t, (uint64_t)a, 0, 0), wrap8(a < 0 ? -a : a, sg));
            assert_int_equal((int64_t)eval(LS_K_NOT, t, t, (uint64_t)a, 0, 0), wrap8(~a, sg));
            assert_int_equal(eval(LS_K_POPCOUNT, t, t, (uint64_t)a, 0, 0),
                             __builtin_popcount((unsigned)a & 255));
        }
    }
    uint64_t min = (uint64_t)INT64_MIN;
    assert_true(eval(LS_K_DIV, LS_I64, LS_I64, min, (uint64_t)-1, 0) == min);
    assert_true(eval(LS_K_REM, LS_I64, LS_I64, min, (uint64_t)-1, 0) == 0);
    assert_true(eval(LS_K_UMULHI, LS_U64, LS_U64, ~(uint64_t)0, ~(uint64_t)0, 0) == ~(uint64_t)0 - 1);
    assert_true(eval(LS_K_UMULHI, LS_U32, LS_U32, 0xffffffff, 0xffffffff, 0) == 0xfffffffe);
    assert_true(eval(LS_K_NOT, LS_BOOL, LS_BOOL, 1, 0, 0) == 0 &&
                eval(LS_K_NOT, LS_BOOL, LS_BOOL, 0, 0, 0) == 1);
}

static uint64_t f32b(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static uint64_t f64b(double d) {
    uint64_t u;
    memcpy(&u, &d, 8);
    return u;
}

static float as_f32(uint64_t v) {
    uint32_t u = (uint32_t)v;
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static double as_f64(uint64_t v) {
    double d;
    memcpy(&d, &v, 8);
    return d;
}

static void same_f64(uint64_t got, double want) {
    assert_true(want != want ? as_f64(got) != as_f64(got) : got == f64b(want));
}

static void same_f32(uint64_t got, float want) {
    assert_true(want != want ? as_f32(got) != as_f32(got) : got == f32b(want));
}

static double some_f64(ls_rng *rng, int i) {
    static const double special[] = {0.0,
                                     -0.0,
                                     1,
                                     -1,
                                     0.5,
                                     1.5,
                                     2.5,
                                     -2.5,
                                     INFINITY,
                                     -INFINITY,
                                     NAN,
                                     0x1p-1074,
                                     -0x1p-1074,
                                     0x1p-1022,
                                     0x1.fffffffffffffp1023,
                                     0x1p52,
                                     0x1p52 + 1,
                                     0x1.8p51,
                                     0.49999999999999994,
                                     4503599627370495.5,
                                     0x1p-149,
                                     0x1.fffffep127,
                                     16777217};
    uint64_t bits = ls_rng_u64(rng);
    uint32_t kind = (uint32_t)(bits >> 60);
    (void)i;
    if (kind < 4) {
        return special[bits % (sizeof special / sizeof *special)];
    }
    if (kind < 8) { /* near one another, for cancellation */
        return ldexp((double)(int64_t)(bits << 8), (int)(bits % 7) - 60);
    }
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

static void floats_against_the_c_library(void **state) {
    (void)state;
    ls_rng rng = {42, 0};
    for (int i = 0; i < 300000; i++) {
        double a = some_f64(&rng, i), b = some_f64(&rng, i), c = some_f64(&rng, i);
        if (i % 3 == 0) { /* the addend all but cancels the product */
            c = -(a * b);
            c = i % 2 ? nextafter(c, INFINITY) : c;
        }
        float fa = (float)a, fb = (float)b, fc = (float)c;
        same_f64(eval(LS_K_FMA, LS_F64, LS_F64, f64b(a), f64b(b), f64b(c)), fma(a, b, c));
        same_f32(eval(LS_K_FMA, LS_F32, LS_F32, f32b(fa), f32b(fb), f32b(fc)), fmaf(fa, fb, fc));
        same_f64(eval(LS_K_FLOOR, LS_F64, LS_F64, f64b(a), 0, 0), floor(a));
        same_f64(eval(LS_K_CEIL, LS_F64, LS_F64, f64b(a), 0, 0), ceil(a));
        same_f64(eval(LS_K_TRUNC, LS_F64, LS_F64, f64b(a), 0, 0), trunc(a));
        same_f64(eval(LS_K_RINT, LS_F64, LS_F64, f64b(a), 0, 0), rint(a));
        same_f32(eval(LS_K_FLOOR, LS_F32, LS_F32, f32b(fa), 0, 0), floorf(fa));
        same_f32(eval(LS_K_RINT, LS_F32, LS_F32, f32b(fa), 0, 0), rintf(fa));
        same_f32(eval(LS_K_SQRT, LS_F32, LS_F32, f32b(fa), 0, 0), sqrtf(fa));
        same_f32(eval(LS_K_CAST, LS_F32, LS_F64, f64b(a), 0, 0), fa);
        if (!isnan(a)) {
            assert_int_equal(eval(LS_K_CAST, LS_F16, LS_F64, f64b(a), 0, 0), ls_f64_to_f16(a));
            assert_int_equal(eval(LS_K_CAST, LS_BF16, LS_F64, f64b(a), 0, 0), ls_f64_to_bf16(a));
        }
        int64_t n = (int64_t)ls_rng_u64(&rng) >> (i % 60);
        same_f64(eval(LS_K_CAST, LS_F64, LS_I64, (uint64_t)n, 0, 0), (double)n);
        same_f32(eval(LS_K_CAST, LS_F32, LS_I64, (uint64_t)n, 0, 0), (float)n);
        same_f32(eval(LS_K_CAST, LS_F32, LS_U64, (uint64_t)n, 0, 0), (float)(uint64_t)n);
    }
    /* i64 to bf16 rounds once: through double it would be a tie, and go the other way */
    int64_t just_above = ((int64_t)0x101 << 54) + 1;
    assert_int_equal(eval(LS_K_CAST, LS_BF16, LS_I64, (uint64_t)just_above, 0, 0), ls_f64_to_bf16(0x1.02p62));
    assert_int_equal(eval(LS_K_CAST, LS_BF16, LS_I64, (uint64_t)(just_above - 1), 0, 0),
                     ls_f64_to_bf16(0x1.00p62));
}

static void special_values_by_the_contract(void **state) {
    (void)state;
    uint64_t nan = LS_NAN_F32, odd_nan = 0xffc12345;
    assert_int_equal(eval(LS_K_MAX, LS_F32, LS_F32, f32b(-0.0f), f32b(0.0f), 0), f32b(0.0f));
    assert_int_equal(eval(LS_K_MAX, LS_F32, LS_F32, f32b(0.0f), f32b(-0.0f), 0), f32b(0.0f));
    assert_int_equal(eval(LS_K_MIN, LS_F32, LS_F32, f32b(0.0f), f32b(-0.0f), 0), f32b(-0.0f));
    assert_true(isnan(as_f32(eval(LS_K_MAX, LS_F32, LS_F32, nan, f32b(3), 0))));
    assert_true(isnan(as_f32(eval(LS_K_MIN, LS_F32, LS_F32, f32b(3), nan, 0))));
    assert_int_equal(eval(LS_K_CANON, LS_F32, LS_F32, odd_nan, 0, 0), LS_NAN_F32);
    assert_int_equal(eval(LS_K_CANON, LS_F16, LS_F16, 0xfe01, 0, 0), LS_NAN_F16);
    assert_int_equal(eval(LS_K_CANON, LS_F32, LS_F32, f32b(-0.0f), 0, 0), f32b(-0.0f));
    assert_int_not_equal(eval(LS_K_ADD, LS_F32, LS_F32, nan, f32b(1), 0),
                         LS_NAN_F32); /* canon is needed, and seen */
    static const float order[] = {-INFINITY, -1, -1e-45f, -0.0f, 0.0f, 1e-45f, 1, INFINITY, NAN};
    for (int i = 0; i < 9; i++) {
        for (int j = 0; j < 9; j++) {
            float a = order[i], b = order[j];
            assert_int_equal(eval(LS_K_LT, LS_BOOL, LS_F32, f32b(a), f32b(b), 0), a < b);
            assert_int_equal(eval(LS_K_LE, LS_BOOL, LS_F32, f32b(a), f32b(b), 0), a <= b);
            assert_int_equal(eval(LS_K_EQ, LS_BOOL, LS_F32, f32b(a), f32b(b), 0), a == b);
            assert_int_equal(eval(LS_K_NE, LS_BOOL, LS_F32, f32b(a), f32b(b), 0), a != b);
            assert_int_equal(eval(LS_K_LE, LS_BOOL, LS_BF16, f32b(a) >> 16, f32b(b) >> 16, 0),
                             ls_bf16_to_f32((uint16_t)(f32b(a) >> 16)) <=
                                 ls_bf16_to_f32((uint16_t)(f32b(b) >> 16)));
        }
    }
    assert_int_equal(eval(LS_K_SELECT, LS_F32, LS_BOOL, 1, odd_nan, 0), odd_nan);
    assert_int_equal(eval(LS_K_BITCAST, LS_U32, LS_F32, odd_nan, 0, 0), odd_nan);
    assert_int_equal(eval(LS_K_BITCAST, LS_I32, LS_U32, 0xffffffff, 0, 0), -1);
    assert_int_equal(eval(LS_K_NEG, LS_F32, LS_F32, f32b(0), 0, 0), f32b(-0.0f));
    static const struct {
        double x;
        ls_dtype to;
        int64_t want;
    } casts[] = {{NAN, LS_I32, 0},
                 {1e30, LS_I32, INT32_MAX},
                 {-1e30, LS_I32, INT32_MIN},
                 {-1.9, LS_I32, -1},
                 {-0.9, LS_U8, 0},
                 {-7, LS_U8, 0},
                 {256, LS_U8, 255},
                 {255.9, LS_U8, 255},
                 {127.99, LS_I8, 127},
                 {-128.9, LS_I8, -128},
                 {200, LS_I8, 127},
                 {-200, LS_I8, -128},
                 {128, LS_I8, 127},
                 {2147483648.0, LS_I32, INT32_MAX},
                 {2147483647.5, LS_I32, INT32_MAX},
                 {-128, LS_I8, -128},
                 {1e19, LS_I64, INT64_MAX},
                 {-INFINITY, LS_I64, INT64_MIN},
                 {1e30, LS_U64, -1},
                 {NAN, LS_U64, 0},
                 {NAN, LS_BOOL, 1},
                 {0.0, LS_BOOL, 0},
                 {-0.0, LS_BOOL, 0},
                 {0.1, LS_BOOL, 1}};
    for (size_t i = 0; i < sizeof casts / sizeof *casts; i++) {
        assert_int_equal((int64_t)eval(LS_K_CAST, casts[i].to, LS_F64, f64b(casts[i].x), 0, 0),
                         casts[i].want);
    }
    assert_int_equal((int64_t)eval(LS_K_CAST, LS_I8, LS_I32, 200, 0, 0), -56);
    assert_int_equal(eval(LS_K_CAST, LS_U32, LS_I32, (uint64_t)-1, 0, 0), 0xffffffff);
    assert_int_equal(eval(LS_K_CAST, LS_F16, LS_I32, 65520, 0, 0), 0x7c00);
    /* f16 arithmetic is that of f32 and one rounding */
    assert_int_equal(eval(LS_K_MUL, LS_F16, LS_F16, 0x7bff, 0x7bff, 0), 0x7c00);
    assert_int_equal(eval(LS_K_ADD, LS_F16, LS_F16, 0x3c00, 0x1000, 0), 0x3c00); /* a tie, to even */
    assert_int_equal(eval(LS_K_ADD, LS_F16, LS_F16, 0x3c00, 0x1001, 0), 0x3c01);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(integers_exhaustively_at_8_bits),
        TEST(floats_against_the_c_library),
        TEST(special_values_by_the_contract),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
