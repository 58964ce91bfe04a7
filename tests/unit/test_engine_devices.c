/* The engine end to end: devices, strategies, check mode, what it says of a graph. */
#include "engine/exec.h"
#include "unit/engine_support.h"
#include <lockstep/lockstep.h>
#include <string.h>

/* ---- devices ---- */

static void devices_open_once(void **state) {
    (void)state;
    ls_error err = {0};
    ls_device *ref, *again, *other;
    assert_int_equal(ls_device_open(w.context, device, &again, &err), LS_OK);
    assert_ptr_equal(again, w.device);
    assert_int_equal(ls_device_open(w.context, "ref", &ref, &err), LS_OK);
    assert_int_equal(ls_device_open(w.context, "ref:0", &again, &err), LS_OK);
    assert_ptr_equal(again, ref);
    assert_int_equal(ls_device_open(w.context, "ref:1", &other, &err), LS_ERR_DEVICE);
    ls_error_clear(&err);
    assert_int_equal(ls_device_open(w.context, "warp", &other, &err), LS_ERR_DEVICE);
    assert_non_null(strstr(err.message, "warp"));
    assert_non_null(strstr(err.message, "ref"));
    assert_null(other);
    ls_error_clear(&err);
    ls_context *second;
    ls_session *foreign;
    assert_int_equal(ls_context_create(NULL, &second, &err), LS_OK);
    assert_int_equal(ls_session_create(second, w.device, &foreign, &err), LS_ERR_DEVICE);
    ls_context_destroy(second);
}

static void copies_between_devices(void **state) {
    (void)state;
    ls_error err = {0};
    ls_device *cpu;
    if (strcmp(device, "cpu") == 0) {
        return; /* nothing to copy to */
    }
    assert_int_equal(ls_device_open(w.context, "cpu", &cpu, &err), LS_OK);
    float a[] = {1, 2, 3}, out[3];
    ls_tensor *x = vector(3, a), *there = ls_to_device(s, scaled(x, 2), cpu);
    assert_ptr_equal(ls_tensor_device(there), cpu);
    ls_tensor *back = ls_to_device(s, ls_add(s, there, there), w.device), *sum = ls_add(s, back, x);
    ls_tensor *all[] = {sum, there};
    world_ok(&w, ls_realize(s, all, 2));
    world_ok(&w, ls_read(s, sum, out, sizeof out));
    assert_true(out[0] == 5 && out[1] == 10 && out[2] == 15);
    world_ok(&w, ls_read(s, there, out, sizeof out));
    assert_true(out[0] == 2 && out[2] == 6);
    assert_null(ls_add(s, x, there));
    assert_int_equal(ls_session_error(s)->code, LS_ERR_DEVICE);
    assert_non_null(strstr(ls_session_error(s)->message, "cpu"));
    assert_non_null(strstr(ls_session_error(s)->message, "ref"));
    ls_session_clear_error(s);
    assert_ptr_equal(ls_to_device(s, x, w.device), x);
    ls_tensor *constant = ls_full(s, LS_F32, LS_SHAPE(3), 1);
    world_ok(&w, ls_realize(s, &constant, 1)); /* has its value on ref, and still joins cpu */
    world_ok(&w, ls_read(s, ls_add(s, there, constant), out, sizeof out));
    assert_true(out[0] == 3 && out[2] == 7);
}

static void the_null_device_computes_nothing(void **state) {
    (void)state;
    ls_error err = {0};
    ls_device *null;
    ls_session *ns;
    assert_int_equal(ls_device_open(w.context, "null", &null, &err), LS_OK);
    assert_int_equal(ls_session_create(w.context, null, &ns, &err), LS_OK);
    float a[] = {1, 2}, out[2];
    ls_tensor *x = ls_tensor_from(ns, LS_F32, LS_SHAPE(2), a);
    assert_int_equal(ls_read(ns, x, out, sizeof out), LS_OK);
    assert_true(out[1] == 2);
    assert_int_equal(ls_read(ns, ls_neg(ns, x), out, sizeof out), LS_ERR_UNSUPPORTED);
    assert_int_equal(ls_session_get_stats(ns).compiles, 1);
    ls_session_destroy(ns);
}

static void certifies(void **state) {
    (void)state;
    ls_error err = {0};
    if (ls_device_certify(w.device, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    ls_device_info infos[8];
    int n = 8;
    assert_int_equal(ls_device_list(w.context, infos, &n, &err), LS_OK);
    assert_true(n >= 1 && n <= 8);
    bool ref = false;
    for (int i = 0; i < n; i++) {
        ref = ref || (strcmp(infos[i].id, "ref") == 0 && infos[i].locked == 1);
        if (infos[i].available && infos[i].locked != 1) {
            fail_msg("%s: %s", infos[i].id, infos[i].reason);
        }
    }
    assert_true(ref);
    int room = 1, all = n;
    assert_int_equal(ls_device_list(w.context, infos, &room, &err), LS_OK);
    assert_int_equal(room, all);
}

static void strategies_are_forced(void **state) {
    (void)state;
    float a[64], plain[64], naive[64];
    for (int i = 0; i < 64; i++) {
        a[i] = (float)(i % 11) - 4.7f;
    }
    ls_tensor *x = ls_tensor_from(s, LS_F32, LS_SHAPE(8, 8), a);
    world_ok(&w, ls_read(s, ls_matmul(s, x, x), plain, sizeof plain));
    world_ok(&w, ls_session_set_strategy(s, "contract", "naive"));
    ls_tensor *y = ls_tensor_from(s, LS_F32, LS_SHAPE(8, 8), a);
    world_ok(&w, ls_read(s, ls_matmul(s, y, y), naive, sizeof naive));
    assert_memory_equal(plain, naive, sizeof plain);
    assert_int_equal(compiles(), 2);
    world_ok(&w, ls_session_set_strategy(s, "matmul", "matrix")); /* which the CPU has not */
    ls_tensor *z = ls_tensor_from(s, LS_F32, LS_SHAPE(8, 8), a);
    REFUSED(ls_read(s, ls_matmul(s, z, z), naive, sizeof naive), LS_ERR_UNSUPPORTED, "matrix");
    REFUSED(ls_session_set_strategy(s, "contract", "quantum"), LS_ERR_INVALID,
            "\"quantum\": expected naive, tiled, gemv, matrix or vendor");
    world_ok(&w, ls_session_set_strategy(s, "contract", NULL));
    world_ok(&w, ls_read(s, ls_matmul(s, z, z), naive, sizeof naive));
    assert_int_equal(compiles(), 2);
    REFUSED(ls_session_set_strategy(s, "paint", "naive"), LS_ERR_INVALID, "\"paint\": expected pointwise, reduce, contract");
}

/* ---- check mode ---- */

static int hook_calls[3];
static int fail_at = -1;

static ls_status hook_before(const ls_check_event *event, void **out_state, ls_error *err) {
    (void)err;
    assert_int_equal(event->launch->n_args, event->group->n_reads + event->group->n_roots);
    assert_int_equal(event->spec->n_args, event->launch->n_args);
    hook_calls[0]++;
    *out_state = &hook_calls;
    return LS_OK;
}

static ls_status hook_after(const ls_check_event *event, void *state, ls_error *err) {
    assert_ptr_equal(state, &hook_calls);
    hook_calls[1]++;
    return (int)event->kernel == fail_at
               ? LS_FAIL(err, LS_ERR_DIFFERS, "kernel %s differs", event->spec->name)
               : LS_OK;
}

static void hook_drop(const ls_check_event *event, void *state) {
    (void)event, (void)state;
    hook_calls[2]++;
}

static void check_hooks_see_every_kernel(void **state) {
    (void)state;
    static const ls_check_hooks hooks = {hook_before, hook_after, hook_drop};
    float a[] = {1, 2, 3}, plain[3], checked[3];
    ls_session_set_fusion(s, 0);
    world_ok(&w, ls_read(s, ls_exp(s, scaled(vector(3, a), 0.5)), plain, sizeof plain));
    ls_engine_set_check(w.context, LS_CHECK_BITS, &hooks);
    memset(hook_calls, 0, sizeof hook_calls);
    world_ok(&w, ls_read(s, ls_exp(s, scaled(vector(3, a), 0.5)), checked, sizeof checked));
    assert_memory_equal(plain, checked, sizeof plain);
    assert_int_equal(compiles(), 1); /* the very program that ran unchecked */
    assert_int_equal(hook_calls[0], 2);
    assert_int_equal(hook_calls[1], 2);
    fail_at = 1;
    assert_int_equal(ls_read(s, ls_exp(s, scaled(vector(3, a), 0.5)), checked, sizeof checked),
                     LS_ERR_DIFFERS);
    fail_at = -1;
    ls_session_clear_error(s);
    ls_engine_set_check(w.context, LS_CHECK_NONE, NULL);
}

static void guard_zones_are_watched(void **state) {
    (void)state;
    ls_error err = {0};
    ls_engine_set_check(w.context, LS_CHECK_BITS, NULL);
    ls_buffer *buffer;
    assert_int_equal(ls_buffer_create(w.device, 100, &buffer, &err), LS_OK);
    uint8_t bytes[100];
    assert_int_equal(ls_buffer_download(buffer, 0, bytes, 100, &err), LS_OK);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(bytes[i], LS_POISON);
    }
    assert_int_equal(ls_buffer_fill(buffer, 0, 0, 100, &err), LS_OK);
    assert_int_equal(ls_buffer_check_guards(buffer, "it", &err), LS_OK);
    uint8_t *raw = buffer->handle;
    raw[buffer->base + 100] = 0;
    assert_int_equal(ls_buffer_check_guards(buffer, "it", &err), LS_ERR_DIFFERS);
    raw[buffer->base + 100] = LS_POISON;
    raw[buffer->base - 1] = 0;
    ls_error_clear(&err);
    assert_int_equal(ls_buffer_check_guards(buffer, "it", &err), LS_ERR_DIFFERS);
    ls_error_clear(&err);
    assert_int_equal(ls_buffer_upload(buffer, 99, bytes, 2, &err), LS_ERR_INTERNAL);
    ls_buffer_release(buffer);
    ls_engine_set_check(w.context, LS_CHECK_NONE, NULL);
}

/* ---- inspect ---- */

static void collect_text(void *user, const char *text, size_t size) {
    ls_text_add_n(user, text, size);
}

static void inspects(void **state) {
    (void)state;
    float a[] = {1, 2, 3};
    ls_text text;
    ls_text_init(&text, &w.context->heap);
    ls_tensor *x = ls_input(s, "x", LS_F32, LS_SHAPE(3)), *y = ls_softmax(s, ls_add(s, x, vector(3, a)), 0);
    world_ok(&w, ls_inspect(s, &y, 1, LS_INSPECT_ALL, collect_text, &text));
    assert_non_null(text.data);
    assert_non_null(strstr(text.data, "exp"));
    assert_non_null(strstr(text.data, "step 0"));
    assert_non_null(strstr(text.data, "root"));
    assert_int_equal(ls_session_get_stats(s).kernels, 0);
    ls_text_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(devices_open_once),
        TEST(copies_between_devices),
        TEST(the_null_device_computes_nothing),
        TEST(certifies),
        TEST(strategies_are_forced),
        TEST(check_hooks_see_every_kernel),
        TEST(guard_zones_are_watched),
        TEST(inspects),
    };
    int failed = RUN_ON("ref", tests);
    return failed + RUN_ON("cpu", tests);
}
