/* What our tests use of cmocka, for WebAssembly, whose C library has no setjmp: a failed check prints and ends the program with 1. */
#ifndef LOCKSTEP_TESTS_WEB_CMOCKA_H
#define LOCKSTEP_TESTS_WEB_CMOCKA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*CMUnitTestFunction)(void **state);
typedef int (*CMFixtureFunction)(void **state);
struct CMUnitTest {
    const char *name;
    CMUnitTestFunction test_func;
    CMFixtureFunction setup_func, teardown_func;
    void *initial_state;
};

#define cmocka_unit_test(f) {#f, f, NULL, NULL, NULL}
#define cmocka_unit_test_setup(f, setup) {#f, f, setup, NULL, NULL}
#define cmocka_unit_test_teardown(f, teardown) {#f, f, NULL, teardown, NULL}
#define cmocka_unit_test_setup_teardown(f, setup, teardown) {#f, f, setup, teardown, NULL}
#define cmocka_run_group_tests(tests, setup, teardown) cmocka_run_group_tests_name(#tests, tests, setup, teardown)
#define cmocka_run_group_tests_name(name, tests, setup, teardown) \
    shim_run(name, tests, sizeof(tests) / sizeof(tests)[0], setup, teardown)

#define print_message(...) printf(__VA_ARGS__)
#define print_error(...) fprintf(stderr, __VA_ARGS__)

/* Tests of what is not here. */
static const struct {
    const char *name, *why;
} shim_skipped[] = {
    {"floats_against_the_c_library", "its fma gives +0 for a negative product that underflows, plus +0"},
    {"test_idx", "an array beyond 32 bits is refused by its extents, not by what the file has"},
    {"test_full_disk", "files have no limit of size"},
};

static const char *shim_filter;
__attribute__((unused)) static void cmocka_set_test_filter(const char *pattern) {
    shim_filter = pattern;
}

/* `*` stands for any text, `?` for one character. */
static bool shim_matches(const char *pattern, const char *name) {
    if (*pattern == '*') {
        return shim_matches(pattern + 1, name) || (*name && shim_matches(pattern, name + 1));
    }
    return *pattern ? *name && (*pattern == '?' || *pattern == *name) && shim_matches(pattern + 1, name + 1) : !*name;
}

static const char *shim_skip_of(const char *name) {
    for (size_t i = 0; i < sizeof shim_skipped / sizeof *shim_skipped; i++) {
        if (strcmp(shim_skipped[i].name, name) == 0) {
            return shim_skipped[i].why;
        }
    }
    return NULL;
}

static void shim_fixture(const char *name, const char *what, CMFixtureFunction f, void **state) {
    if (f && f(state)) {
        fprintf(stderr, "%s: %s failed\n", name, what);
        exit(1);
    }
}

__attribute__((unused)) static int shim_run(const char *group, const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup,
                    CMFixtureFunction teardown) {
    void *shared = NULL;
    size_t run = 0;
    shim_fixture(group, "setup", setup, &shared);
    for (size_t i = 0; i < n; i++) {
        if (shim_filter && !shim_matches(shim_filter, tests[i].name)) {
            continue;
        }
        const char *why = shim_skip_of(tests[i].name);
        if (why) {
            printf("[  SKIPPED ] %s: %s\n", tests[i].name, why);
            continue;
        }
        void *own = tests[i].initial_state ? tests[i].initial_state : shared;
        printf("[ RUN      ] %s\n", tests[i].name);
        fflush(stdout);
        shim_fixture(tests[i].name, "setup", tests[i].setup_func, &own);
        tests[i].test_func(&own);
        shim_fixture(tests[i].name, "teardown", tests[i].teardown_func, &own);
        run++;
    }
    shim_fixture(group, "teardown", teardown, &shared);
    if (run == 0) {
        fprintf(stderr, "%s: no test was run\n", group);
        return 1;
    }
    printf("[  PASSED  ] %zu tests\n", run);
    return 0;
}

/* Returns from the test itself: a helper cannot skip. */
#define skip()                     \
    do {                           \
        printf("[  SKIPPED ]\n"); \
        return;                    \
    } while (0)

#define shim_fail(...)                                                 \
    do {                                                               \
        fprintf(stderr, __VA_ARGS__);                                  \
        fprintf(stderr, "\n%s:%d: error: failed\n", __FILE__, __LINE__); \
        exit(1);                                                       \
    } while (0)
#define fail_msg(...) shim_fail(__VA_ARGS__)
#define fail() shim_fail("fail()")
#define assert_true(c) ((c) ? (void)0 : shim_expect(#c, __FILE__, __LINE__))
#define assert_false(c) ((c) ? shim_expect("not " #c, __FILE__, __LINE__) : (void)0)
#define assert_non_null(p) ((p) ? (void)0 : shim_expect(#p " is not NULL", __FILE__, __LINE__))
#define assert_null(p) ((p) ? shim_expect(#p " is NULL", __FILE__, __LINE__) : (void)0)
#define assert_ptr_equal(a, b) ((const void *)(a) == (const void *)(b) ? (void)0 : shim_expect(#a " is " #b, __FILE__, __LINE__))
#define assert_ptr_not_equal(a, b) \
    ((const void *)(a) != (const void *)(b) ? (void)0 : shim_expect(#a " is not " #b, __FILE__, __LINE__))
#define assert_int_equal(a, b) shim_integers((uint64_t)(a), (uint64_t)(b), true, #a " == " #b, __FILE__, __LINE__)
#define assert_int_not_equal(a, b) shim_integers((uint64_t)(a), (uint64_t)(b), false, #a " != " #b, __FILE__, __LINE__)
#define assert_in_range(v, lo, hi) shim_range((uint64_t)(v), (uint64_t)(lo), (uint64_t)(hi), #v, __FILE__, __LINE__)
#define assert_string_equal(a, b) shim_strings(a, b, true, __FILE__, __LINE__)
#define assert_string_not_equal(a, b) shim_strings(a, b, false, __FILE__, __LINE__)
#define assert_memory_equal(a, b, n) shim_memory(a, b, n, true, __FILE__, __LINE__)
#define assert_memory_not_equal(a, b, n) shim_memory(a, b, n, false, __FILE__, __LINE__)

__attribute__((noreturn, unused)) static void shim_expect(const char *what, const char *file, int line) {
    fprintf(stderr, "%s:%d: error: expected %s\n", file, line, what);
    exit(1);
}

__attribute__((unused)) static void shim_integers(uint64_t a, uint64_t b, bool equal, const char *what, const char *file, int line) {
    if ((a == b) != equal) {
        fprintf(stderr, "%llu (%#llx), %llu (%#llx)\n", (unsigned long long)a, (unsigned long long)a, (unsigned long long)b,
                (unsigned long long)b);
        shim_expect(what, file, line);
    }
}

__attribute__((unused)) static void shim_range(uint64_t v, uint64_t lo, uint64_t hi, const char *what, const char *file, int line) {
    if (v < lo || v > hi) {
        fprintf(stderr, "%llu is not in %llu to %llu\n", (unsigned long long)v, (unsigned long long)lo, (unsigned long long)hi);
        shim_expect(what, file, line);
    }
}

__attribute__((unused)) static void shim_strings(const char *a, const char *b, bool equal, const char *file, int line) {
    if ((strcmp(a, b) == 0) != equal) {
        fprintf(stderr, "\"%s\"\n\"%s\"\n", a, b);
        shim_expect(equal ? "equal strings" : "different strings", file, line);
    }
}

__attribute__((unused)) static void shim_memory(const void *a, const void *b, size_t n, bool equal, const char *file, int line) {
    const unsigned char *x = a, *y = b;
    for (size_t i = 0; equal && i < n; i++) {
        if (x[i] != y[i]) {
            fprintf(stderr, "byte %zu of %zu is %#x, not %#x\n", i, n, x[i], y[i]);
            break;
        }
    }
    if ((memcmp(a, b, n) == 0) != equal) {
        shim_expect(equal ? "equal bytes" : "different bytes", file, line);
    }
}

#endif
