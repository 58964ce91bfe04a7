/* Indices out of range that a device reports when the run has ended: named like those that it reports at once. The device
 * is `ref` behind a table whose launch writes the word that a kernel of a device with threads would write. */
#define _GNU_SOURCE
#include "backend/ref/eval.h"
#include "engine/exec.h"
#include "support/world.h"
#include <stdlib.h>
#include <string.h>

extern const ls_backend ls_backend_ref;
static world w;
static ls_session *s;
static int with_word;

static ls_status launch_deferred(ls_device *device, ls_kernel_binary *binary, ls_launch *launch, ls_error *err) {
    ls_launch inner = *launch;
    inner.status = NULL;
    ls_status status = ls_backend_ref.launch(device, binary, &inner, err);
    if (!launch->status) {
        assert_int_equal(inner.out_of_range, 0); /* only kernels that cannot report go without a word */
        return status;
    }
    uint32_t *word = (uint32_t *)((char *)launch->status->handle + launch->status_offset);
    const ls_spec *spec = &binary->spec;
    with_word++;
    for (int i = 0; inner.out_of_range && i < spec->n_values + spec->n_stores; i++) {
        bool load = i < spec->n_values;
        int check = load ? spec->values[i].check : spec->stores[i - spec->n_values].check;
        uint64_t origin = load ? spec->values[i].origin : spec->stores[i - spec->n_values].origin;
        if (check != LS_SPEC_NONE && origin + 1 == (uint64_t)inner.out_of_range && *word < (uint32_t)i + 1) {
            *word = (uint32_t)i + 1;
        }
    }
    return status;
}

static ls_backend deferred;

static int setup(void **state) {
    (void)state;
    setenv("LOCKSTEP_VET", "off", 1); /* which would run kernels without a word */
    w = world_open("ref");
    s = w.session;
    deferred = ls_backend_ref;
    deferred.launch = launch_deferred;
    w.device->backend = &deferred;
    w.device->defers = true;
    with_word = 0;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    world_close(&w);
    return 0;
}

static ls_tensor *indices(int32_t a, int32_t b, int32_t c) {
    return ls_tensor_from(s, LS_I32, LS_SHAPE(3), (int32_t[]){a, b, c});
}

static ls_tensor *numbers(int64_t n) {
    float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    return ls_tensor_from(s, LS_F32, LS_SHAPE(n), x);
}

static void a_gather_is_named(void **state) {
    (void)state;
    float out[3];
    for (int round = 0; round < 2; round++) { /* a word is cleared between runs */
        ls_tensor *bad = ls_gather(s, numbers(4), indices(1, 7, 0), 0);
        assert_int_equal(ls_realize(s, &bad, 1), LS_ERR_RANGE);
        assert_non_null(strstr(ls_session_error(s)->message, "gather"));
        assert_non_null(strstr(ls_session_error(s)->message, "[4]"));
        ls_session_clear_error(s);
        world_ok(&w, ls_read(s, bad, out, sizeof out));
        assert_true(out[0] == 2 && out[1] != out[1] && out[2] == 1);
        ls_tensor *good = ls_gather(s, numbers(4), indices(1, 3, 0), 0);
        world_ok(&w, ls_read(s, good, out, sizeof out));
        assert_true(out[0] == 2 && out[1] == 4 && out[2] == 1);
    }
    assert_int_equal(with_word, 4);
}

static void a_scatter_is_named(void **state) {
    (void)state;
    ls_tensor *bad = ls_scatter(s, numbers(5), indices(1, -9, 0), numbers(3), 0, LS_SCATTER_SET);
    assert_int_equal(ls_realize(s, &bad, 1), LS_ERR_RANGE);
    assert_non_null(strstr(ls_session_error(s)->message, "scatter"));
    assert_non_null(strstr(ls_session_error(s)->message, "[5]"));
    ls_session_clear_error(s);
}

static ls_status gather_body(ls_session *session, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                             ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)iteration, (void)out_ys;
    out_carry[0] = ls_add(session, carry[0], ls_sum(session, ls_gather(session, ctx, xs[0], 0), 0, NULL, 0));
    return LS_OK;
}

/* One word for all iterations; the first step in order is the one that is named. */
static void a_gather_in_a_loop_is_named(void **state) {
    (void)state;
    float out[1];
    for (int bad = 0; bad < 2; bad++) {
        int32_t at[6] = {0, 1, bad ? 6 : 2, 3, 4, 5};
        ls_tensor *rows = ls_tensor_from(s, LS_I32, LS_SHAPE(3, 2), at), *zero = ls_full(s, LS_F32, LS_SCALAR, 0), *sum;
        world_ok(&w, ls_loop(s, ls_dim_of(3), 1, &zero, 1, &rows, 0, gather_body, numbers(6), &sum, NULL));
        assert_int_equal(ls_realize(s, &sum, 1), bad ? LS_ERR_RANGE : LS_OK);
        if (bad) {
            assert_non_null(strstr(ls_session_error(s)->message, "[6]"));
            ls_session_clear_error(s);
        } else {
            world_ok(&w, ls_read(s, sum, out, sizeof out));
            assert_true(out[0] == 21);
        }
    }
    assert_int_equal(with_word, 6);
}

static void check_mode_reports_it_too(void **state) {
    (void)state;
    ls_context_set_check(w.context, LS_CHECK_ORACLE);
    ls_tensor *bad = ls_gather(s, numbers(4), indices(1, 4, 0), 0);
    assert_int_equal(ls_realize(s, &bad, 1), LS_ERR_RANGE);
    ls_session_clear_error(s);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {TEST(a_gather_is_named), TEST(a_scatter_is_named),
                                       TEST(a_gather_in_a_loop_is_named), TEST(check_mode_reports_it_too)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
