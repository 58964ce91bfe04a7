/* Sessions on `ref`, then on `cpu`, for tests of the engine. Each test program that includes this is one thread. */
#ifndef LOCKSTEP_TESTS_UNIT_ENGINE_SUPPORT_H
#define LOCKSTEP_TESTS_UNIT_ENGINE_SUPPORT_H

#include "support/world.h"
#include <stdbool.h>
#include <string.h>

static world w;
static ls_session *s;
static const char *device;

static inline int setup(void **state) {
    (void)state;
    w = world_open(device);
    s = w.session;
    return 0;
}

static inline int teardown(void **state) {
    (void)state;
    world_close(&w);
    return 0;
}

static inline ls_tensor *vector(int n, const float *data) {
    return ls_tensor_from(s, LS_F32, LS_SHAPE(n), data);
}

static inline float scalar_of(ls_tensor *x) {
    float y = 0;
    world_ok(&w, ls_read(s, x, &y, sizeof y));
    return y;
}

static inline ls_tensor *scaled(ls_tensor *x, double by) {
    return ls_mul(s, x, ls_full(s, LS_F32, LS_SCALAR, by));
}

static inline uint64_t compiles(void) {
    return ls_session_get_stats(s).compiles;
}

/* A call fails with a code, or returns NULL, and the session says why; then it goes on. */
#define REFUSED(call, error, why)                                        \
    do {                                                                 \
        assert_int_equal(call, error);                                   \
        assert_non_null(strstr(ls_session_error(s)->message, why));      \
        ls_session_clear_error(s);                                       \
    } while (0)
#define REFUSED_NULL(call, why) REFUSED((call) == NULL, true, why)

/* Each test with a session of its own. */
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define RUN_ON(id, tests) (device = (id), cmocka_run_group_tests_name(id, tests, NULL, NULL))

#endif
