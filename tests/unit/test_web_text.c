/* Numbers to text and back as modules of pages do it (web/deps): what the C library of this machine gives, byte for byte
 * and bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

double web_strtod(const char *restrict text, char **restrict out_end);
int web_vsnprintf(char *restrict text, size_t room, const char *restrict format, va_list list);
int web_snprintf(char *restrict text, size_t room, const char *restrict format, ...);
int web_sprintf(char *restrict text, const char *restrict format, ...);
#define strtod web_strtod
#define vsnprintf web_vsnprintf
#define snprintf web_snprintf
#define sprintf web_sprintf
#include "../../web/deps/decimal.c"
#include "../../web/deps/printf.c"
#undef strtod
#undef vsnprintf
#undef snprintf
#undef sprintf

static uint64_t state = 88172645463325252u;

static uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static double from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void assert_read(const char *text) {
    char *end, *expected_end;
    double got = web_strtod(text, &end), expected = strtod(text, &expected_end);
    if (memcmp(&got, &expected, sizeof got) != 0 || end != expected_end) {
        fail_msg("%s: %a and %d characters, expected %a and %d", text, got, (int)(end - text), expected,
                 (int)(expected_end - text));
    }
}

#define SAME(format, ...)                                                                                    \
    do {                                                                                                     \
        char got_[600], expected_[600];                                                                      \
        int n_ = web_snprintf(got_, sizeof got_, format, __VA_ARGS__);                                       \
        int m_ = snprintf(expected_, sizeof expected_, format, __VA_ARGS__);                                 \
        assert_string_equal(got_, expected_);                                                                \
        assert_int_equal(n_, m_);                                                                            \
    } while (0)

static void one_double(double x) {
    static const int precisions[] = {0, 1, 3, 6, 9, 15, 17, 25};
    char text[64];
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) {
        SAME("%.*g", precisions[i], x);
        SAME("%.*e", precisions[i], x);
        SAME("%.*f", precisions[i], x);
        snprintf(text, sizeof text, "%.*g", precisions[i], x);
        if (x - x == 0) {
            assert_read(text);
        }
    }
}

static void test_doubles(void **unused) {
    (void)unused;
    static const double special[] = {0,
                                     -0.0,
                                     0.5,
                                     1.5,
                                     2.5,
                                     9.5,
                                     99.5,
                                     0.05,
                                     1,
                                     10,
                                     100,
                                     1e15,
                                     1e16,
                                     1e17,
                                     1e22,
                                     1e23,
                                     123456789,
                                     4.9406564584124654e-324,
                                     2.2250738585072014e-308,
                                     1.7976931348623157e308,
                                     0.1,
                                     1.0 / 3,
                                     9999999.5,
                                     0.00001234,
                                     0.0001234,
                                     1e-5,
                                     9.9999999e-5};
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
        one_double(special[i]);
        one_double(-special[i]);
    }
    one_double(from_bits(UINT64_C(2047) << 52));
    one_double(from_bits(UINT64_C(4095) << 52));
    for (int i = 0; i < 2000; i++) {
        uint64_t bits = next();
        double x = from_bits(bits);
        if (x - x == 0) {
            one_double(x);
        }
        one_double((double)(int64_t)next() / 1024);
        one_double((float)(next() % 1000000) / 1000);
    }
}

/* The middle of two doubles, and what lies beside it in the last digit: ties, and just not. */
static void test_middles(void **unused) {
    (void)unused;
    for (int i = 0; i < 3000; i++) {
        uint64_t bits = next() & INT64_MAX, mantissa;
        int exponent;
        decimal d;
        char text[DECIMAL_MOST + 32];
        bits = i < 100    ? (uint64_t)i
               : i < 200  ? (UINT64_C(1) << 52) + (uint64_t)i - 150
               : i == 200 ? (UINT64_C(2047) << 52) - 1
                          : bits;
        if (bits >> 52 == 2047) {
            continue;
        }
        decimal_split(from_bits(bits), &mantissa, &exponent);
        decimal_of(&d, 2 * mantissa + 1, exponent - 1);
        for (int beside = -1; beside <= 1; beside++) {
            snprintf(text, sizeof text, "0.%.*se%d", d.n, d.digits, d.exponent);
            text[1 + d.n] = (char)(text[1 + d.n] + beside);
            assert_read(text);
        }
        snprintf(text, sizeof text, "0.%.*s00000000000000000000000000000001e%d", d.n < 760 ? d.n : 760,
                 d.digits, d.exponent);
        assert_read(text);
    }
}

static void test_reading(void **unused) {
    (void)unused;
    static const char *const texts[] = {
        "",
        " ",
        "x",
        "-",
        "+",
        ".",
        "-.",
        "e5",
        "1",
        "-1",
        "+1",
        "1.",
        "1.5.",
        ".5.2",
        ".5",
        "-.5",
        "00012",
        "0.000",
        "000.00100",
        "1e",
        "1e+",
        "1e5",
        "1E5",
        "1e-5x",
        "1.5e3.5",
        "1..2",
        " \t12",
        "1e400",
        "-1e400",
        "1e-400",
        "1e99999999",
        "1e-99999999",
        "0e99999999",
        "1797693134862315807937289714053034150799341327100378269361737789804449682927647509466490179775872070"
        "9633028641669288791094655554785194040263065748867150582068190890200070838367627385484581771153176447"
        "5730270069855571366959622842914819860834936475292719074168444365510704342711559699508093042880",
        "9007199254740993",
        "9007199254740992.99999999999999999999",
        "9007199254740993.00000000000000000001",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "0.1e1",
        "123456789012345678901234567890"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_read(texts[i]);
    }
    char text[1200] = "0.5";
    memset(text + 3, '0', 1000); /* more digits than are kept, the last one not 0 */
    text[1003] = '1';
    assert_read(text);
}

static void test_fields(void **unused) {
    (void)unused;
    SAME("%d|%5d|%-5d|%05d|%d|%d", 1, 22, 33, -44, INT32_MIN, INT32_MAX);
    SAME("%lld|%llu|%llx|%zu|%ld", (long long)INT64_MIN, ~0ull, 0xdeadbeefcafeull, (size_t)-1, -5L);
    SAME("%u|%x|%08x|%2x", ~0u, ~0u, 0xab, 0x123);
    SAME("%s|%.3s|%10s|%-10s|%.*s|%*s|%.0s|", "text", "longer", "right", "left", 2, "star", 6, "six", "none");
    SAME("%c%c%%%s", 'a', 'b', "");
    SAME("%10.3f|%-10.3f|%010.3f|%8g|%-12e|%5g", 3.14159, -3.14159, -3.14159, 1e10, 1.0,
         from_bits(UINT64_C(2047) << 52));
    SAME("%5g|%05g", from_bits(UINT64_C(2047) << 52), from_bits(UINT64_C(4095) << 52));
    char few[4] = "###";
    assert_int_equal(web_snprintf(few, sizeof few, "%d", 12345), 5);
    assert_string_equal(few, "123");
    assert_int_equal(web_snprintf(NULL, 0, "%s", "count"), 5);
    char all[16];
    assert_int_equal(web_sprintf(all, "%.2f", 2.0 / 3), 4);
    assert_string_equal(all, "0.67");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_doubles), cmocka_unit_test(test_middles),
                                       cmocka_unit_test(test_reading), cmocka_unit_test(test_fields)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
