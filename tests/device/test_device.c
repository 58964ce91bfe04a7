/* What every device with threads must do besides the right arithmetic, on LOCKSTEP_DEVICE: be certified, train to the bits that
 * the CPU trains to, keep the bounds of its functions, report indices out of range, survive a lack of memory, exchange with other devices, and have its wrong
 * kernels found before they are used. */
#define _GNU_SOURCE
#include "base/os.h"
#include "engine/exec.h"
#include "support/world.h"
#include <lockstep/check.h>
#include <lockstep/nn.h>
#include <lockstep/optim.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static world w;
static ls_session *s;
static char folder[64];

static const char *device_id(void) {
    const char *id = getenv("LOCKSTEP_DEVICE");
    return id && *id ? id : "sim:2";
}

static int setup(void **state) {
    (void)state;
    strcpy(folder, "/tmp/lockstep-device-XXXXXX");
    assert_non_null(mkdtemp(folder));
    setenv("LOCKSTEP_CACHE", folder, 1);
    w = world_open(device_id());
    s = w.session;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    uint64_t n;
    ls_error err;
    world_close(&w);
    assert_int_equal(ls_cache_clear(&n, &err), LS_OK);
    assert_int_equal(rmdir(folder), 0);
    return 0;
}

static ls_tensor *floats(ls_session *session, int64_t n) {
    float x[64];
    for (int i = 0; i < 64; i++) {
        x[i] = (float)(i + 1);
    }
    return ls_tensor_from(session, LS_F32, LS_SHAPE(n), x);
}

static void is_certified(void **state) {
    (void)state;
    ls_error err = {.code = LS_OK};
    uint64_t begin = ls_os_nanoseconds();
    if (ls_device_certify(w.device, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    const ls_caps *caps = ls_device_caps(w.device);
    printf("%s: %s, %s; certified in %.1f s; done another way: %s\n", w.id, caps->name, caps->driver,
           (double)(ls_os_nanoseconds() - begin) * 1e-9, caps->arithmetic[0] ? caps->arithmetic : "nothing");
    assert_true(caps->name[0]);
    assert_true(caps->dtypes >> LS_F32 & 1);
}

/* The hash of a network's weights after a few steps on a batch. */
static void train(world *on, int steps, char out_hex[65]) {
    ls_session *session = on->session;
    ls_params *params;
    ls_optimizer *optimizer;
    ls_error err = {.code = LS_OK};
    static float images[8 * 784];
    int32_t labels[8];
    for (int i = 0; i < 8 * 784; i++) {
        images[i] = (float)((i * 2654435761u) >> 24) / 255.0f - 0.4f;
    }
    for (int i = 0; i < 8; i++) {
        labels[i] = (i * 7) % 10;
    }
    world_ok(on, ls_params_create(session, 3, &params));
    ls_tensor *x = ls_tensor_from(session, LS_F32, LS_SHAPE(8, 1, 28, 28), images);
    ls_tensor *y = ls_tensor_from(session, LS_I32, LS_SHAPE(8), labels);
    ls_tensor *rate = ls_full(session, LS_F32, LS_SCALAR, 0.01);
    assert_non_null(ls_nn_network(session, params, "mnist:small", x)); /* makes the parameters */
    world_ok(on, ls_optimizer_create(session, params, &(ls_optimizer_options){.kind = LS_OPTIM_ADAM}, &optimizer));
    for (int i = 0; i < steps; i++) {
        ls_tensor *loss = ls_cross_entropy(session, ls_nn_network(session, params, "mnist:small", x), y);
        world_ok(on, ls_optimizer_step(session, optimizer, loss, rate));
        world_ok(on, ls_realize(session, &loss, 1));
    }
    if (ls_params_sha256(session, params, out_hex, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    ls_optimizer_destroy(optimizer);
    ls_params_destroy(params);
}

static void trains_to_the_same_bits(void **state) {
    (void)state;
    char here[65], there[65];
    if (strncmp(w.id, "sim", 3) == 0) {
        skip(); /* the interpreter would take minutes */
    }
    world cpu = world_open("cpu");
    uint64_t begin = ls_os_nanoseconds();
    train(&w, 3, here);
    printf("%s: 3 steps, kernels compiled and vetted: %.1f s\n", w.id, (double)(ls_os_nanoseconds() - begin) * 1e-9);
    train(&cpu, 3, there);
    assert_string_equal(here, there);
    world_close(&cpu);
}

static void names_indices_out_of_range(void **state) {
    (void)state;
    float out[3];
    for (int round = 0; round < 2; round++) { /* what was reported is forgotten */
        ls_tensor *bad = ls_gather(s, floats(s, 4), ls_tensor_from(s, LS_I32, LS_SHAPE(3), (int32_t[]){1, 7, 0}), 0);
        assert_int_equal(ls_realize(s, &bad, 1), LS_ERR_RANGE);
        assert_non_null(strstr(ls_session_error(s)->message, "gather"));
        assert_non_null(strstr(ls_session_error(s)->message, "[4]"));
        ls_session_clear_error(s);
        world_ok(&w, ls_read(s, bad, out, sizeof out));
        assert_true(out[0] == 2 && out[1] != out[1] && out[2] == 1);
        ls_tensor *good = ls_gather(s, floats(s, 4), ls_tensor_from(s, LS_I32, LS_SHAPE(3), (int32_t[]){1, 3, 0}), 0);
        world_ok(&w, ls_read(s, good, out, sizeof out));
        assert_true(out[1] == 4);
    }
    ls_tensor *bad = ls_scatter(s, floats(s, 5), ls_tensor_from(s, LS_I64, LS_SHAPE(2), (int64_t[]){-1, INT64_MAX}), floats(s, 2),
                                0, LS_SCATTER_ADD);
    assert_int_equal(ls_realize(s, &bad, 1), LS_ERR_RANGE);
    assert_non_null(strstr(ls_session_error(s)->message, "scatter"));
    ls_session_clear_error(s);
}

static ls_status body(ls_session *session, void *ctx, ls_tensor *iteration, ls_tensor *const *carry, ls_tensor *const *xs,
                      ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)ctx, (void)iteration;
    out_carry[0] = ls_add(session, ls_mul(session, carry[0], carry[0]), xs[0]);
    out_ys[0] = ls_sub(session, out_carry[0], xs[0]);
    return LS_OK;
}

/* Slices that begin at odd bytes, variables that are read and written at once. */
static void loops_and_variables(void **state) {
    (void)state;
    world ref = world_open("ref");
    uint16_t got[15], want[15];
    float v[2][5];
    world *all[] = {&w, &ref};
    for (int d = 0; d < 2; d++) {
        ls_session *on = all[d]->session;
        ls_tensor *x = ls_cast(on, ls_reshape(on, floats(on, 15), LS_SHAPE(5, 3)), LS_F16);
        ls_tensor *zero = ls_cast(on, ls_full(on, LS_F32, LS_SHAPE(3), 0.25), LS_F16), *carry, *ys;
        world_ok(all[d], ls_loop(on, ls_dim_of(5), 1, &zero, 1, &x, 1, body, NULL, &carry, &ys));
        world_ok(all[d], ls_read(on, ys, d ? want : got, sizeof got));
        ls_var *var = ls_var_create(on, "v", LS_F32, LS_SHAPE(5), NULL);
        for (int step = 0; step < 4; step++) {
            ls_tensor *old = ls_var_value(on, var);
            world_ok(all[d], ls_var_assign(on, var, ls_add(on, ls_flip(on, old, 0), floats(on, 5))));
            world_ok(all[d], ls_realize(on, NULL, 0));
        }
        world_ok(all[d], ls_var_read(on, var, v[d], sizeof v[d]));
    }
    assert_memory_equal(got, want, sizeof got);
    assert_memory_equal(v[0], v[1], sizeof v[0]);
    world_close(&ref);
}

static void exchanges_with_the_host(void **state) {
    (void)state;
    ls_device *cpu;
    ls_error err = {.code = LS_OK};
    float out[3];
    assert_int_equal(ls_device_open(w.context, "cpu", &cpu, &err), LS_OK);
    ls_tensor *x = floats(s, 3), *there = ls_to_device(s, ls_add(s, x, x), cpu);
    ls_tensor *back = ls_to_device(s, ls_mul(s, there, there), w.device);
    world_ok(&w, ls_read(s, ls_add(s, back, x), out, sizeof out));
    assert_true(out[0] == 5 && out[1] == 18 && out[2] == 39);
    assert_null(ls_add(s, x, there)); /* never one of two devices' numbers for the other's */
    assert_int_equal(ls_session_error(s)->code, LS_ERR_DEVICE);
    assert_non_null(strstr(ls_session_error(s)->message, " on cpu"));
    assert_non_null(strstr(ls_session_error(s)->message, ls_device_id(w.device)));
    assert_non_null(strstr(ls_session_error(s)->message, "ls_to_device"));
    ls_session_clear_error(s);
    ls_device *again;
    assert_int_equal(ls_device_open(w.context, device_id(), &again, &err), LS_OK);
    assert_ptr_equal(again, w.device); /* two handles of one device are one device */
}

/* More than any machine has: an error, and the device goes on. */
static void survives_a_lack_of_memory(void **state) {
    (void)state;
    float out[3];
    ls_buffer *buffer = NULL;
    ls_error err = {.code = LS_OK};
    ls_status status = ls_buffer_create(w.device, (size_t)1 << 46, &buffer, &err);
    assert_true(status == LS_ERR_MEMORY || status == LS_ERR_UNSUPPORTED);
    assert_true(err.message[0]);
    world_ok(&w, ls_read(s, ls_neg(s, floats(s, 3)), out, sizeof out));
    assert_true(out[2] == -3);
}

/* ---- vetting ---- */

static ls_backend table;
static const ls_backend *real;
static int launches, wrong;

/* A template that adds where it should subtract. */
static ls_status compile_wrong(ls_device *device, const ls_spec *spec, const char *strategy, ls_kernel_binary **out_binary,
                               ls_error *err) {
    ls_arena arena;
    ls_spec copy;
    ls_arena_init(&arena, device->heap);
    ls_status status = ls_spec_copy(&arena, spec, &copy, err);
    for (int i = 0; status == LS_OK && i < copy.n_values && wrong; i++) {
        if (copy.values[i].op == LS_V_MAP && copy.values[i].map == LS_OP_SUB) {
            copy.values[i].map = LS_OP_ADD;
        }
    }
    status = status == LS_OK ? real->compile(device, &copy, strategy, out_binary, err) : status;
    ls_arena_free(&arena);
    return status;
}

static ls_status launch_counted(ls_device *device, ls_kernel_binary *binary, ls_launch *launch, ls_error *err) {
    launches++;
    return real->launch(device, binary, launch, err);
}

static ls_status subtract(ls_session *session) {
    ls_tensor *x = floats(session, 40), *y = ls_sub(session, ls_mul(session, x, x), x);
    return ls_realize(session, &y, 1);
}

static void finds_a_wrong_kernel_before_it_is_used(void **state) {
    (void)state;
    setenv("LOCKSTEP_VET", "on", 1);
    real = w.device->backend;
    table = *real;
    table.compile = compile_wrong;
    table.launch = launch_counted;
    w.device->backend = &table;
    wrong = 1;
    assert_int_equal(subtract(s), LS_ERR_DIFFERS);
    assert_non_null(strstr(ls_session_error(s)->message, "gets kernel"));
    assert_non_null(strstr(ls_session_error(s)->message, "element"));
    assert_non_null(strstr(ls_session_error(s)->message, ", ref has "));
    ls_session_clear_error(s);
    wrong = launches = 0;
    assert_int_equal(subtract(s), LS_OK);
    int first = launches;
    w.device->backend = real;
    world_close(&w);
    w = world_open(device_id()); /* as the next process does: the verdict is in the disk cache */
    s = w.session;
    w.device->backend = &table;
    launches = 0;
    assert_int_equal(subtract(s), LS_OK);
    assert_int_equal(launches, 1);
    assert_true(first > 1);
    w.device->backend = real;
    unsetenv("LOCKSTEP_VET");
}

static void say_beyond(void *user, const ls_ulp_result *r) {
    (void)user;
    if (!(r->most <= r->bound)) {
        print_error("%s, %s: %.2f ULPs off at %.9g: expected at most %.2f\n", r->function, r->math == LS_FAST ? "fast" : "locked", r->most,
                    r->at, r->bound);
    }
}

/* Each elementary function in both kinds of arithmetic. */
static void functions_keep_their_bounds(void **state) {
    (void)state;
    const char *driver = getenv("LOCKSTEP_DRIVER");
    int beyond = -1;
    ls_error err = {0};
    if (strncmp(device_id(), "sim", 3) == 0 || (driver && strstr(driver, "swiftshader") && !getenv("LOCKSTEP_CONFORM"))) {
        skip(); /* minutes: its interpreter; a quarter or half of one: its compiler */
    }
    assert_int_equal(ls_ulps_measure(w.context, w.device, say_beyond, NULL, &beyond, &err), LS_OK);
    assert_int_equal(beyond, 0);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(is_certified),        TEST(trains_to_the_same_bits), TEST(names_indices_out_of_range),
        TEST(loops_and_variables), TEST(exchanges_with_the_host), TEST(survives_a_lack_of_memory),
        TEST(finds_a_wrong_kernel_before_it_is_used), TEST(functions_keep_their_bounds),
    };
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
