/* Autotune on the simulated device: only kernels that were right are timed, the fastest of them is taken, a planted wrong one
 * never is, and the choice is kept. */
#define _GNU_SOURCE
#include "engine/exec.h"
#include "support/world.h"
#include <lockstep/inspect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern const ls_backend ls_backend_sim;

enum { MAX_BINARIES = 64 };
static world w;
static ls_backend table;
static char folder[64], logged[4096];
static struct {
    const ls_kernel_binary *binary;
    char strategy[16];
} made[MAX_BINARIES];
static int n_made, launches;
static char last_compiled[16]; /* by the engine for good: the last compile */
static char wrong[16], slow[16];

static ls_status compile(ls_device *device, const ls_spec *spec, const char *strategy, ls_kernel_binary **out_binary,
                         ls_error *err) {
    ls_arena arena;
    ls_spec copy;
    ls_arena_init(&arena, device->heap);
    ls_status status = ls_spec_copy(&arena, spec, &copy, err);
    if (strategy && strcmp(strategy, wrong) == 0) { /* drops the last element of the contracted axis, say */
        for (int i = 0; status == LS_OK && i < copy.n_values; i++) {
            if (copy.values[i].op == LS_V_CONTRACT) {
                copy.values[i].b = copy.values[i].a;
            }
        }
    }
    status = status == LS_OK ? ls_backend_sim.compile(device, &copy, strategy, out_binary, err) : status;
    ls_arena_free(&arena);
    if (status == LS_OK && n_made < MAX_BINARIES) {
        made[n_made].binary = *out_binary;
        snprintf(made[n_made++].strategy, 16, "%s", strategy ? strategy : "");
        snprintf(last_compiled, sizeof last_compiled, "%s", strategy ? strategy : "");
    }
    return status;
}

static ls_status launch(ls_device *device, ls_kernel_binary *binary, ls_launch *l, ls_error *err) {
    const char *strategy = "";
    for (int i = n_made - 1; i >= 0; i--) {
        if (made[i].binary == binary) {
            strategy = made[i].strategy;
            break;
        }
    }
    launches++;
    if (slow[0] && strcmp(strategy, wrong) != 0) { /* the wrong one is the fastest by far */
        nanosleep(&(struct timespec){0, strcmp(strategy, slow) == 0 ? 150000000 : 4000000}, NULL);
    }
    return ls_backend_sim.launch(device, binary, l, err);
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
    table = ls_backend_sim;
    table.compile = compile;
    table.launch = launch;
    w.device->backend = &table;
    n_made = launches = 0;
    logged[0] = 0;
}

static int setup(void **state) {
    (void)state;
    strcpy(folder, "/tmp/lockstep-tune-XXXXXX");
    assert_non_null(mkdtemp(folder));
    setenv("LOCKSTEP_CACHE", folder, 1);
    setenv("LOCKSTEP_TUNE", "on", 1);
    wrong[0] = slow[0] = 0;
    open_world();
    return 0;
}

static int teardown(void **state) {
    (void)state;
    uint64_t n;
    world_close(&w);
    assert_int_equal(ls_cache_clear(&n, NULL), LS_OK);
    assert_int_equal(rmdir(folder), 0);
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
        assert_string_not_equal(last_compiled, "tiled");
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
    assert_string_equal(last_compiled, "tiled");
    assert_non_null(strstr(logged, "by naive:"));
    assert_non_null(strstr(logged, "by tiled:"));
    int first = launches;
    world_close(&w);
    open_world(); /* the next process: nothing is timed */
    check_product();
    assert_string_equal(last_compiled, "tiled");
    assert_int_equal(launches, 1);
    assert_true(first > 10);
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
    assert_true(l.available >= 2 && l.unavailable >= 1 && l.wrong == 0 && l.unexplained == 0);
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
    assert_int_equal(launches, 1);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_wrong_kernel_is_never_chosen),
        TEST(the_fastest_right_one_is_chosen_and_kept),
        TEST(strategies_are_listed_with_reasons),
        TEST(it_is_off_unless_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
