/* Autotune on the simulated device: only kernels that were right are timed, the fastest of them is taken, a planted wrong one
 * never is, and the choice is kept. */
#define _GNU_SOURCE
#include "support/planted.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static world w;
static char logged[16384];
static char wrong[16], slow[16];

/* The strategy `wrong` is of another kernel: a contraction of one operand with itself, another reduction or map. */
static void plant(ls_spec *spec, const char *strategy) {
    bool planted_here = wrong[0] && strcmp(strategy, wrong) == 0;
    for (int i = 0; i < spec->n_values && planted_here; i++) {
        ls_value *v = &spec->values[i];
        if (v->op == LS_V_CONTRACT) {
            v->b = v->a;
        } else if (v->op == LS_V_REDUCE) {
            v->map = LS_OP_AMAX;
        } else if (v->op == LS_V_MAP && v->map == LS_OP_ADD) {
            v->map = LS_OP_SUB;
        }
    }
    for (int i = 0; i < spec->n_stores && planted_here; i++) {
        spec->stores[i].combine = spec->stores[i].combine == LS_STORE_ADD ? LS_STORE_MAX : spec->stores[i].combine;
    }
}

/* The wrong one is the fastest by far. */
static uint64_t takes(const char *strategy) {
    return strcmp(strategy, wrong) == 0 ? 1 : strcmp(strategy, slow) == 0 ? 150000000 : 4000000;
}

static void note(void *user, ls_log_level level, const char *line) {
    (void)user, (void)level;
    strncat(logged, line, sizeof logged - strlen(logged) - 2);
    strcat(logged, "\n");
}

static void open_world(void) {
    ls_error err = {.code = LS_OK};
    ls_context_options options = {.log = note};
    w = (world){.id = "sim"};
    assert_int_equal(ls_context_create(&options, &w.context, &err), LS_OK);
    assert_int_equal(ls_device_open(w.context, "sim", &w.device, &err), LS_OK);
    assert_int_equal(ls_session_create(w.context, w.device, &w.session, &err), LS_OK);
    planted_on(w.device);
    planted.fault = plant;
    planted.takes = takes;
    logged[0] = 0;
}

static int setup(void **state) {
    (void)state;
    planted_cache_open();
    setenv("LOCKSTEP_TUNE", "on", 1);
    wrong[0] = slow[0] = 0;
    open_world();
    return 0;
}

static int teardown(void **state) {
    (void)state;
    world_close(&w);
    planted_cache_close();
    return 0;
}

static ls_tensor *product(ls_session *s) {
    static float a[33 * 40], b[40 * 21];
    for (int i = 0; i < 33 * 40; i++) {
        a[i] = (float)(i % 17) * 0.3f - 2;
        b[i % (40 * 21)] = (float)(i % 13) * 0.7f - 4;
    }
    return ls_matmul(s, ls_tensor_from(s, LS_F32, LS_SHAPE(33, 40), a), ls_tensor_from(s, LS_F32, LS_SHAPE(40, 21), b));
}

static void check_product(void) {
    world ref = world_open("ref");
    float got[33 * 21], want[33 * 21];
    world_ok(&w, ls_read(w.session, product(w.session), got, sizeof got));
    world_ok(&ref, ls_read(ref.session, product(ref.session), want, sizeof want));
    assert_memory_equal(got, want, sizeof got);
    world_close(&ref);
}

static void a_wrong_kernel_is_never_chosen(void **state) {
    (void)state;
    for (int math = 0; math < 2; math++) {
        strcpy(wrong, "tiled");
        strcpy(slow, "none");
        ls_session_set_math(w.session, math ? LS_FAST : LS_LOCKED);
        ls_tensor *p = product(w.session);
        world_ok(&w, ls_realize(w.session, &p, 1));
        assert_string_not_equal(planted.last, "tiled");
        assert_non_null(strstr(logged, "strategy tiled of kernel"));
        assert_non_null(strstr(logged, "quarantined"));
        assert_null(strstr(logged, "by tiled:")); /* it was not even timed */
    }
    ls_session_set_math(w.session, LS_LOCKED);
    check_product();
}

static void the_fastest_right_one_is_chosen_and_kept(void **state) {
    (void)state;
    strcpy(slow, "naive");
    check_product();
    assert_string_equal(planted.last, "tiled");
    assert_non_null(strstr(logged, "by naive:"));
    assert_non_null(strstr(logged, "by tiled:"));
    int first = planted.launches;
    world_close(&w);
    open_world(); /* the next process: nothing is timed */
    check_product();
    assert_string_equal(planted.last, "tiled");
    assert_int_equal(planted.launches, 1);
    assert_true(first > 10);
}

/* Kernels of other kinds: each of their strategies that can be is planted wrong in its turn, and is the fastest then. */
static ls_tensor *of_kind(int kind) {
    ls_session *s = w.session;
    static float x[64 * 96];
    static int32_t at[64];
    for (int i = 0; i < 64 * 96; i++) {
        x[i] = (float)(i % 19) * 0.3f - 2;
        at[i % 64] = i * 7 % 5;
    }
    ls_tensor *t = ls_tensor_from(s, LS_F32, LS_SHAPE(64, 96), x);
    switch (kind) {
    case 0:
        return ls_add(s, t, ls_tensor_from(s, LS_F32, LS_SHAPE(64, 96), x));
    case 1:
        return ls_add(s, ls_permute(s, ls_tensor_from(s, LS_F32, LS_SHAPE(96, 64), x), (int[]){1, 0}), ls_full(s, LS_F32, LS_SCALAR, 3));
    case 2:
        return ls_sum(s, t, 1, (int[]){1}, 0);
    case 3:
        return ls_sum(s, t, 1, (int[]){0}, 0);
    default:
        return ls_scatter(s, ls_tensor_from(s, LS_F32, LS_SHAPE(5, 4), x), ls_tensor_from(s, LS_I32, LS_SHAPE(64), at),
                          ls_tensor_from(s, LS_F32, LS_SHAPE(64, 4), x), 0, LS_SCATTER_ADD);
    }
}

static void every_kind_is_tuned(void **state) {
    (void)state;
    static const char *const names[5][5] = {{"naive", "quad"},
                                            {"naive", "quad", "turn"},
                                            {"naive", "serial", "row"},
                                            {"naive", "serial", "row", "column"},
                                            {"naive", "update", "element"}};
    static float got[64 * 96], want[64 * 96];
    for (int kind = 0; kind < 5; kind++) {
        for (int n = 0; names[kind][n]; n++) {
            char text[64];
            world_close(&w);
            planted_cache_close();
            planted_cache_open();
            open_world();
            strcpy(wrong, names[kind][n]);
            strcpy(slow, "none");
            ls_tensor *t = of_kind(kind);
            size_t size = ls_tensor_bytes(w.session, t);
            world_ok(&w, ls_read(w.session, t, got, size));
            assert_string_not_equal(planted.last, wrong);
            snprintf(text, sizeof text, "strategy %s of kernel", wrong);
            if (!strstr(logged, text)) {
                fail_msg("kind %d: %s was not quarantined:\n%s", kind, wrong, logged);
            }
            setenv("LOCKSTEP_TUNE", "off", 1);
            strcpy(wrong, "none");
            ls_session_set_fusion(w.session, 0); /* a program of its own */
            world_ok(&w, ls_read(w.session, of_kind(kind), want, size));
            assert_memory_equal(got, want, size);
            setenv("LOCKSTEP_TUNE", "on", 1);
        }
    }
}

static void what_was_wrong_is_remembered(void **state) {
    (void)state;
    strcpy(wrong, "tiled");
    check_product();
    world_close(&w);
    open_world();
    check_product();
    assert_non_null(strstr(logged, "strategies that were wrong when it was tuned: !tiled"));
    assert_int_equal(planted.launches, 1);
    assert_string_not_equal(planted.last, "tiled");
}

/* The library that it was chosen from is gone. */
static void a_choice_that_is_gone_is_no_error(void **state) {
    (void)state;
    strcpy(slow, "naive");
    check_product();
    assert_string_equal(planted.last, "tiled");
    world_close(&w);
    open_world();
    planted.refused = "tiled";
    check_product();
    assert_string_equal(planted.last, "");
    assert_non_null(strstr(logged, "cannot be by tiled, as it was tuned: not available here"));
}

typedef struct listed {
    int available, unavailable, wrong, unexplained;
} listed;

static void count(void *user, const char *kernel, const char *device, const char *strategy, ls_strategy_state state,
                  const char *reason) {
    listed *l = user;
    assert_true(kernel[0] && strategy[0]);
    assert_string_equal(device, "sim");
    l->available += state == LS_STRATEGY_AVAILABLE;
    l->unavailable += state == LS_STRATEGY_UNAVAILABLE;
    l->wrong += state == LS_STRATEGY_WRONG;
    l->unexplained += state != LS_STRATEGY_AVAILABLE && !reason[0];
}

static void strategies_are_listed_with_reasons(void **state) {
    (void)state;
    ls_program *program;
    listed l = {0};
    ls_tensor *p = product(w.session);
    world_ok(&w, ls_program_compile(w.session, NULL, 0, &p, 1, &program));
    world_ok(&w, ls_strategy_list(program, count, &l));
    assert_true(l.available >= 2 && l.unavailable >= 2 && l.wrong == 0 && l.unexplained == 0);
    strcpy(wrong, "tiled");
    l = (listed){0};
    world_ok(&w, ls_strategy_list(program, count, &l));
    assert_true(l.wrong == 1 && l.unexplained == 0);
    ls_program_destroy(program);
}

static void it_is_off_unless_asked_for(void **state) {
    (void)state;
    setenv("LOCKSTEP_TUNE", "off", 1);
    check_product();
    assert_int_equal(planted.launches, 1);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_wrong_kernel_is_never_chosen),
        TEST(the_fastest_right_one_is_chosen_and_kept),
        TEST(every_kind_is_tuned),
        TEST(what_was_wrong_is_remembered),
        TEST(a_choice_that_is_gone_is_no_error),
        TEST(strategies_are_listed_with_reasons),
        TEST(it_is_off_unless_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
