/* Every allocation fails once: no leak, no crash, and the session can be used afterwards. And the host's
 * floating-point state. */
#include "base/numerics.h"
#include "engine/exec.h"
#include "support/world.h"
#include <lockstep/inspect.h>
#include <stdlib.h>
#include <string.h>

static ls_status body(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                      ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)ctx, (void)iteration;
    out_carry[0] = ls_add(s, carry[0], xs[0]);
    out_ys[0] = ls_mul(s, carry[0], xs[0]);
    return LS_OK;
}

static void swallow(void *user, const char *text, size_t size) {
    (void)text;
    *(size_t *)user += size;
}

/* All that a session does, once. What fails first is returned; whatever was made is released. */
static ls_status everything(ls_context *context, ls_device *device, ls_symbol *symbol, float *out) {
    static const float data[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    ls_session *s;
    ls_error err = {0};
    ls_program *p = NULL;
    ls_status status = ls_session_create(context, device, &s, &err);
    if (status != LS_OK) {
        return status;
    }
    ls_shape shape = LS_SHAPE(4, 1);
    shape.dim[1] = ls_dim_symbol(symbol, 1, 0);
    ls_symbol_bind(s, symbol, 2);
    ls_tensor *x = ls_tensor_from(s, LS_F32, shape, data), *w = NULL, *gradient = NULL, *carry = NULL,
              *ys = NULL;
    ls_var *v = ls_var_create(s, "v", LS_F32, LS_SHAPE(4), data);
    ls_tensor *input = ls_input(s, "in", LS_F32, LS_SHAPE(4));
    if (v) {
        w = ls_var_value(s, v);
        ls_tensor *rows = ls_sum(s, x, 1, (int[]){1}, 0),
                  *loss = ls_sum(s, ls_mul(s, rows, ls_exp(s, w)), 0, NULL, 0);
        ls_grad(s, loss, NULL, 1, &w, &gradient);
        ls_loop(s, ls_dim_of(4), 1, &loss, 1, &w, 1, body, NULL, &carry, &ys);
        ls_var_assign(s, v, ls_flip(s, gradient, 0));
        ls_tensor *both[] = {carry, ys};
        ls_realize(s, both, 2);
        ls_read(s, ys, out, 4 * sizeof *out);
        ls_var_assign(s, v, ls_add(s, ls_var_value(s, v), input));
        ls_tensor *result = ls_mul(s, input, ls_var_value(s, v));
        size_t printed = 0;
        ls_inspect(s, &result, 1, LS_INSPECT_ALL, swallow, &printed);
        if (ls_program_compile(s, &input, 1, &result, 1, &p) == LS_OK) {
            const void *ins[] = {data};
            void *outs[] = {out + 4};
            ls_program_run(p, ins, outs);
        }
    }
    ls_program_destroy(p);
    ls_var_destroy(v);
    status = ls_session_error(s)->code;
    ls_session_destroy(s);
    return status;
}

static void each_allocation_fails_once_on(const char *id) {
    ls_error err = {0};
    ls_context *context;
    ls_device *device;
    float expected[8] = {0}, out[8];
    assert_int_equal(ls_context_create(NULL, &context, &err), LS_OK);
    assert_int_equal(ls_device_open(context, id, &device, &err), LS_OK);
    ls_symbol *symbol = ls_symbol_create(context, "N", 3, &err);
    assert_int_equal(everything(context, device, symbol, expected), LS_OK);
    long n = 0, failed = 0;
    for (bool more = true; more; n++) {
        atomic_store(&context->heap.fail_after, n);
        ls_status status = everything(context, device, symbol, out);
        more = atomic_load(&context->heap.fail_after) < 0; /* it was reached */
        failed += status != LS_OK;
        if (more && status != LS_ERR_MEMORY && status != LS_OK) { /* OK: something optional went without */
            fail_msg("allocation %ld: %s", n, ls_status_name(status));
        }
        atomic_store(&context->heap.fail_after, -1);
        if (n % 16 == 0) {
            memset(out, 0, sizeof out);
            assert_int_equal(everything(context, device, symbol, out), LS_OK);
            assert_memory_equal(out, expected, sizeof out);
        }
    }
    assert_true(n > 200);
    assert_true(failed > n * 9 / 10);
    ls_context_destroy(context);
}

static void every_allocation_fails_once(void **state) {
    (void)state;
    each_allocation_fails_once_on("ref");
    each_allocation_fails_once_on("cpu");
}

/* A session goes on after a failure in the midst of its work. */
static void a_session_survives(void **state) {
    (void)state;
    world w = world_open("ref");
    const float data[] = {1, 2, 3, 4};
    ls_var *v = ls_var_create(w.session, "v", LS_F32, LS_SHAPE(4), data);
    for (long n = 0, more = 1; more; n++) {
        assert_int_equal(ls_scope_begin(w.session), LS_OK);
        float sum = 0, now[4];
        atomic_store(&w.context->heap.fail_after, n);
        ls_tensor *old = ls_var_value(w.session, v),
                  *y = ls_sum(w.session, ls_mul(w.session, old, old), 0, NULL, 0);
        ls_status status = ls_read(w.session, y, &sum, sizeof sum);
        more = atomic_load(&w.context->heap.fail_after) < 0;
        atomic_store(&w.context->heap.fail_after, -1);
        assert_true(more ? status == LS_ERR_MEMORY || sum == 30 : status == LS_OK);
        ls_session_clear_error(w.session);
        ls_scope_end(w.session);
        assert_int_equal(ls_scope_begin(w.session), LS_OK);
        y = ls_neg(w.session, ls_var_value(w.session, v));
        world_ok(&w, ls_read(w.session, y, now, sizeof now));
        assert_true(now[0] == -1 && now[3] == -4);
        ls_scope_end(w.session);
        assert_int_equal(ls_session_get_stats(w.session).nodes, 0);
    }
    world_close(&w);
}

/* ---- a caller's allocator, and a limit ---- */

typedef struct counter {
    long blocks, left;
    size_t bytes;
} counter;

static void *counting_alloc(void *user, size_t size, size_t align) {
    counter *c = user;
    if (c->left-- == 0) {
        return NULL;
    }
    c->blocks++;
    c->bytes += size;
    return aligned_alloc(align, size);
}

static void counting_free(void *user, void *ptr, size_t size, size_t align) {
    (void)align;
    counter *c = user;
    c->blocks--;
    c->bytes -= size;
    free(ptr);
}

static void contexts_give_everything_back(void **state) {
    (void)state;
    for (long fail = 0, more = 1; more; fail++) {
        counter c = {0, fail, 0};
        ls_allocator allocator = {counting_alloc, counting_free, &c};
        ls_context_options options = {.allocator = &allocator};
        ls_context *context;
        ls_device *device;
        ls_session *session;
        ls_error err = {0};
        ls_status status = ls_context_create(&options, &context, &err);
        if (status == LS_OK) {
            status = ls_device_open(context, "ref", &device, &err);
            status = status == LS_OK ? ls_session_create(context, device, &session, &err) : status;
            if (status == LS_OK) {
                float one = 1;
                ls_tensor_from(session, LS_F32, LS_SCALAR, &one);
                ls_var_create(session, "v", LS_F32, LS_SCALAR, NULL);
                status = ls_session_error(session)->code;
                ls_session_destroy(session);
            }
            ls_context_destroy(context);
        }
        assert_true(status == LS_OK || status == LS_ERR_MEMORY);
        more = c.left < 0 && status != LS_OK;
        assert_int_equal(c.blocks, 0);
        assert_int_equal(c.bytes, 0);
    }
}

static void a_limit_is_kept(void **state) {
    (void)state;
    ls_context_options options = {.memory_limit = 1 << 20};
    ls_context *context;
    ls_device *device;
    ls_session *session;
    ls_error err = {0};
    size_t used, peak;
    assert_int_equal(ls_context_create(&options, &context, &err), LS_OK);
    assert_int_equal(ls_device_open(context, "ref", &device, &err), LS_OK);
    assert_int_equal(ls_session_create(context, device, &session, &err), LS_OK);
    ls_tensor *big = ls_full(session, LS_F32, LS_SHAPE(1024, 1024), 1);
    assert_int_equal(ls_realize(session, &big, 1), LS_ERR_MEMORY);
    assert_string_equal(ls_session_error(session)->message, "out of memory for a buffer of 4194304 bytes on ref");
    ls_session_clear_error(session);
    ls_tensor *small = ls_full(session, LS_F32, LS_SHAPE(1024), 1);
    assert_int_equal(ls_realize(session, &small, 1), LS_OK);
    ls_context_memory(context, &used, &peak);
    assert_true(used > 4096 && used <= peak && peak <= 1 << 20);
    ls_session_destroy(session);
    ls_context_destroy(context);
}

/* ---- the host's floating-point state ---- */

#if defined(__SSE__)
#include <xmmintrin.h>

static void the_host_does_not_leak_in(void **state) {
    (void)state;
    static const unsigned states[] = {0x1f80, 0x8000 | 0x1f80, 0x0040 | 0x1f80, 0x4000 | 0x1f80,
                                      0x8040 | 0x6000 | 0x1f80};
    uint32_t expected[3] = {0};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        uint32_t bits[3];
        unsigned host = _mm_getcsr();
        world w = world_open("ref");
        _mm_setcsr(states[i]); /* flush to zero, denormals are zero, round up, all of them */
        ls_session *s = w.session;
        const uint32_t in[] = {0x00000003, 0x3eaaaaab, 0x7f000000};
        ls_var *v = ls_var_create(s, "v", LS_F32, LS_SHAPE(3), in);
        ls_tensor *x = ls_tensor_from(s, LS_F32, LS_SHAPE(3), in);
        ls_tensor *y =
            ls_div(s, ls_mul(s, x, ls_full(s, LS_F32, LS_SCALAR, 1.5)), ls_full(s, LS_F32, LS_SCALAR, 3.1));
        ls_status status = ls_var_assign(s, v, ls_add(s, y, ls_mul(s, ls_var_value(s, v), y)));
        status = status == LS_OK ? ls_realize(s, NULL, 0) : status;
        status = status == LS_OK ? ls_var_read(s, v, bits, sizeof bits) : status;
        unsigned after = _mm_getcsr();
        _mm_setcsr(host);
        world_ok(&w, status);
        assert_int_equal(after & ~0x3fu, states[i] & ~0x3fu);
        assert_true(i > 0 || bits[0] != 0);
        if (i == 0) {
            memcpy(expected, bits, sizeof bits);
        }
        assert_memory_equal(bits, expected, sizeof bits);
        world_close(&w);
    }
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_fails_once),
        cmocka_unit_test(a_session_survives),
        cmocka_unit_test(contexts_give_everything_back),
        cmocka_unit_test(a_limit_is_kept),
#if defined(__SSE__)
        cmocka_unit_test(the_host_does_not_leak_in),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
