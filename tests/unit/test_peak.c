/* What the CPU measures of itself: every rate is a number or says by name what is missing, whatever the instruction set. */
#define _GNU_SOURCE /* unsetenv */
#include "support/world.h"
#include <lockstep/lockstep.h>
#include <stdlib.h>
#include <string.h>

static ls_context *context_of(const char *isa, size_t limit) {
    ls_context *context = NULL;
    ls_error err = {.code = LS_OK};
    ls_context_options options = {.threads = 2, .isa = isa, .memory_limit = limit};
    assert_int_equal(ls_context_create(&options, &context, &err), LS_OK);
    return context;
}

static void rates_of(const char *isa, const char *const *missing) {
    ls_context *context = context_of(isa, 0);
    ls_device *cpu = NULL;
    ls_error err = {.code = LS_OK};
    assert_int_equal(ls_device_open(context, "cpu", &cpu, &err), LS_OK);
    for (int rate = 0; rate < LS_RATE_COUNT; rate++) {
        for (int threads = 0; threads <= 2; threads++) {
            double value = -1;
            err = (ls_error){.code = LS_OK};
            ls_status status = ls_device_rate(cpu, (ls_rate)rate, 16384, threads, &value, &err);
            if (status == LS_ERR_UNSUPPORTED) { /* the two that processors differ in may be missing by the processor's name for them */
                assert_true(missing[rate] || rate == LS_RATE_BF16 || rate == LS_RATE_INT8);
                assert_true(strstr(err.message, missing[rate] ? missing[rate] : "AVX512-"));
                assert_true(value == -1);
            } else {
                assert_int_equal(status, LS_OK);
                assert_false(missing[rate]);
                assert_true(value > 0.01 && value < 1e7);
            }
        }
    }
    ls_context_destroy(context);
}

static void scalar_rates(void **state) {
    (void)state;
    rates_of("scalar", (const char *const[LS_RATE_COUNT]){[LS_RATE_BF16] = "no ", [LS_RATE_INT8] = "no ",
                                                          [LS_RATE_STREAM] = "stores past the caches"});
}

static void best_rates(void **state) {
    (void)state;
    const char *none[LS_RATE_COUNT] = {NULL};
#if !defined(__x86_64__)
    none[LS_RATE_BF16] = none[LS_RATE_INT8] = none[LS_RATE_STREAM] = "no ";
#endif
    rates_of(NULL, none);
}

static void names(void **state) {
    (void)state;
    ls_context *context = context_of(NULL, 0);
    ls_device *cpu = NULL, *other = NULL;
    ls_error err = {.code = LS_OK};
    double value;
    assert_int_equal(ls_device_open(context, "cpu", &cpu, &err), LS_OK);
    assert_string_equal(ls_rate_name(LS_RATE_FMA), "fma");
    assert_string_equal(ls_rate_name(LS_RATE_STREAM), "stream");
    assert_null(ls_rate_name(LS_RATE_COUNT));
    assert_int_equal(ls_device_rate(cpu, LS_RATE_COUNT, 0, 0, &value, &err), LS_ERR_INVALID);
    assert_non_null(strstr(err.message, "rate 7"));
    err = (ls_error){.code = LS_OK};
    assert_int_equal(ls_device_open(context, "ref", &other, &err), LS_OK);
    assert_int_equal(ls_device_rate(other, LS_RATE_FMA, 0, 0, &value, &err), LS_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "ref: "));
    ls_context_destroy(context);
}

/* No memory for a copy: an error that says so; a rate in registers needs none. */
static void memory(void **state) {
    (void)state;
    ls_context *context = context_of(NULL, (size_t)8 << 20);
    ls_device *cpu = NULL;
    ls_error err = {.code = LS_OK};
    size_t before, after;
    double value;
    assert_int_equal(ls_device_open(context, "cpu", &cpu, &err), LS_OK);
    ls_context_memory(context, &before, NULL);
    assert_int_equal(ls_device_rate(cpu, LS_RATE_COPY, (size_t)16 << 20, 1, &value, &err), LS_ERR_MEMORY);
    assert_non_null(strstr(err.message, "bandwidth"));
    err = (ls_error){.code = LS_OK};
    assert_int_equal(ls_device_rate(cpu, LS_RATE_READ, (size_t)1 << 20, 1, &value, &err), LS_OK);
    assert_int_equal(ls_device_rate(cpu, LS_RATE_FMA, 0, 1, &value, &err), LS_OK);
    ls_context_memory(context, &after, NULL);
    assert_true(before == after);
    ls_context_destroy(context);
}

int main(void) {
    unsetenv("LOCKSTEP_ISA"); /* without a name, it means the best that there is */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalar_rates),
        cmocka_unit_test(best_rates),
        cmocka_unit_test(names),
        cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
