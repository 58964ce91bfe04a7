/* Vetting on the simulated device: right kernels pass whatever they are, a wrong one is named before its first use, verdicts
 * are kept, and only good ones. */
#define _GNU_SOURCE
#include "support/planted.h"
#include <stdlib.h>
#include <string.h>

static world w;
static ls_session *s;
static ls_op from_op, to_op;

/* Another spec than the one asked for: a wrong template. */
static void other_operation(ls_spec *spec, const char *strategy) {
    (void)strategy;
    for (int i = 0; i < spec->n_values; i++) {
        ls_value *v = &spec->values[i];
        if (v->map == from_op && (v->op == LS_V_MAP || v->op == LS_V_REDUCE)) {
            v->map = (uint16_t)to_op;
        }
    }
}

static void open_world(void) {
    w = world_open("sim");
    s = w.session;
    planted_on(w.device);
    planted.fault = other_operation;
}

static int setup(void **state) {
    (void)state;
    planted_cache_open();
    setenv("LOCKSTEP_VET", "on", 1);
    from_op = to_op = LS_OP_ADD;
    open_world();
    return 0;
}

static int teardown(void **state) {
    (void)state;
    world_close(&w);
    planted_cache_close();
    return 0;
}

static ls_tensor *numbers(ls_shape shape) {
    static float data[8192];
    for (int i = 0; i < 8192; i++) {
        data[i] = (float)((i * 37) % 101) * 0.125f - 5;
    }
    return ls_tensor_from(s, LS_F32, shape, data);
}

static ls_tensor *indices(int n) {
    static int32_t at[64];
    for (int i = 0; i < n; i++) {
        at[i] = (i * 5) % 7;
    }
    return ls_tensor_from(s, LS_I32, LS_SHAPE(n), at);
}

static ls_tensor *graph(int which) {
    ls_tensor *x = numbers(LS_SHAPE(13, 37)), *y = numbers(LS_SHAPE(37, 9));
    switch (which) {
    case 0:
        return ls_add(s, ls_mul(s, x, x), x);
    case 1:
        return ls_matmul(s, x, y);
    case 2:
        return ls_softmax(s, x, 1);
    case 3:
        return ls_sum(s, x, 2, (int[]){0, 1}, 0);
    case 4:
        return ls_gather(s, x, indices(11), 0);
    case 5:
        return ls_scatter(s, numbers(LS_SHAPE(8)), indices(20), numbers(LS_SHAPE(20)), 0, LS_SCATTER_ADD);
    case 6:
        return ls_sort(s, x, 0, 0);
    case 7:
        return ls_scan(s, x, LS_SCAN_SUM, 1, 0, 0);
    case 8:
        return ls_cast(s, x, LS_F16);
    case 9:
        return ls_ge(s, x, ls_neg(s, x));
    default:
        return NULL;
    }
}

static void right_kernels_pass(void **state) {
    (void)state;
    for (int i = 0; i < 10; i++) {
        ls_tensor *g = graph(i);
        planted.launches = 0;
        world_ok(&w, ls_realize(s, &g, 1));
        assert_in_range(planted.launches, 3, 30); /* two passes a kernel, and the run itself */
    }
}

static void symbols_are_vetted_below_their_bounds_too(void **state) {
    (void)state;
    ls_error err = {0};
    ls_symbol *batch = ls_symbol_create(w.context, "B", 12, &err);
    assert_non_null(batch);
    world_ok(&w, ls_symbol_bind(s, batch, 5));
    static float data[60];
    ls_shape shape = LS_SHAPE(12, 12);
    shape.dim[0] = ls_dim_symbol(batch, 1, 0);
    ls_tensor *x = ls_tensor_from(s, LS_F32, shape, data), *y = ls_add(s, x, x);
    world_ok(&w, ls_realize(s, &y, 1));
    assert_int_equal(planted.launches, 4);
}

static void a_wrong_kernel_is_named(void **state) {
    (void)state;
    from_op = LS_OP_ADD, to_op = LS_OP_SUB;
    for (int round = 0; round < 2; round++) { /* a bad verdict is not kept */
        ls_tensor *g = graph(0);
        assert_int_equal(ls_realize(s, &g, 1), LS_ERR_DIFFERS);
        const char *message = ls_session_error(s)->message;
        assert_non_null(strstr(message, "sim gets kernel"));
        assert_non_null(strstr(message, "element 0 of argument"));
        assert_non_null(strstr(message, ", ref has "));
        ls_session_clear_error(s);
    }
    setenv("LOCKSTEP_VET", "off", 1);
    ls_tensor *g = graph(0);
    world_ok(&w, ls_realize(s, &g, 1));
}

/* Wrong only where awkward values are: max and min of zeros and NaNs; a large result, of which a sample is compared. */
static void rare_and_large_faults_are_found(void **state) {
    (void)state;
    from_op = LS_OP_MAX, to_op = LS_OP_MIN;
    ls_tensor *big = ls_expand(s, numbers(LS_SHAPE(1, 4096)), LS_SHAPE(700, 4096));
    ls_tensor *g = ls_max(s, big, ls_neg(s, ls_expand(s, numbers(LS_SHAPE(700, 1)), LS_SHAPE(700, 4096))));
    assert_int_equal(ls_realize(s, &g, 1), LS_ERR_DIFFERS);
    ls_session_clear_error(s);
    from_op = LS_OP_FLOOR, to_op = LS_OP_TRUNC;
    g = ls_floor(s, numbers(LS_SHAPE(50)));
    assert_int_equal(ls_realize(s, &g, 1), LS_ERR_DIFFERS);
    ls_session_clear_error(s);
}

static void verdicts_are_kept(void **state) {
    (void)state;
    ls_tensor *g = graph(2);
    world_ok(&w, ls_realize(s, &g, 1));
    int first = planted.launches;
    world_close(&w);
    open_world(); /* as another process would */
    g = graph(2);
    world_ok(&w, ls_realize(s, &g, 1));
    assert_true(planted.launches < first && planted.launches > 0);
    int second = planted.launches;
    world_close(&w);
    open_world();
    setenv("LOCKSTEP_CACHE", "off", 1);
    g = graph(2);
    world_ok(&w, ls_realize(s, &g, 1));
    assert_int_equal(planted.launches, first);
    assert_true(second < first);
    setenv("LOCKSTEP_CACHE", planted.folder, 1);
}

static void fast_kernels_are_not_vetted(void **state) {
    (void)state;
    ls_session_set_math(s, LS_FAST);
    ls_tensor *g = graph(0);
    world_ok(&w, ls_realize(s, &g, 1));
    assert_int_equal(planted.launches, 1);
}

/* Out of memory in the midst of a vet: an error or a verdict, and the device goes on. */
static void each_allocation_may_fail(void **state) {
    (void)state;
    setenv("LOCKSTEP_CACHE", "off", 1);
    bool whole = false;
    for (long n = 0; !whole && n < 20000; n += 1 + n / 30) {
        world_close(&w);
        open_world();
        ls_heap *heap = ls_context_heap(w.context);
        ls_tensor *g = graph(1);
        atomic_store(&heap->fail_after, n);
        ls_status status = ls_realize(s, &g, 1);
        whole = atomic_load(&heap->fail_after) >= 0;
        atomic_store(&heap->fail_after, -1);
        assert_true(status == LS_OK || status == LS_ERR_MEMORY);
        assert_true(!whole || status == LS_OK);
        ls_session_clear_error(s);
        world_ok(&w, ls_realize(s, &g, 1));
    }
    assert_true(whole);
    setenv("LOCKSTEP_CACHE", planted.folder, 1);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(right_kernels_pass),      TEST(symbols_are_vetted_below_their_bounds_too),
        TEST(a_wrong_kernel_is_named), TEST(rare_and_large_faults_are_found),
        TEST(verdicts_are_kept),       TEST(fast_kernels_are_not_vetted),
        TEST(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
