/* The WebGPU driver on whatever adapter Dawn finds, called as src/gpu calls it: bytes to any place, kernels against the
 * interpreter, errors. Without LOCKSTEP_WEBGPU the drivers that tools/drivers.sh fetches are taken (Dawn over lavapipe 25); skipped
 * where there are none. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "backend/webgpu/webgpu.h"
#include "base/os.h"
#include "kir/build.h"
#include "support/gpu.h"
#include "unit/kir_fixture.h"
#include "unit/kir_samples.h"

static ls_webgpu_host *host;
static ls_webgpu *driver;
static const ls_gpu_api *const api = &ls_webgpu_api;
static const char *reason;

static int open_driver(void **state) {
    setup(state);
    reason = NULL;
    driver = NULL;
    static const char dawn[] = "build/drivers/dawn/libwebgpu_wrapper.so", lavapipe[] = "build/drivers/lavapipe25/lvp_icd.json";
    if (!ls_os_env("LOCKSTEP_WEBGPU") && access(dawn, R_OK) == 0 && access(lavapipe, R_OK) == 0) {
        setenv("LOCKSTEP_WEBGPU", dawn, 1);
        setenv("VK_ICD_FILENAMES", lavapipe, 1);
        setenv("NODEVICE_SELECT", "1", 1); /* a layer of Mesa that asks the desktop */
    }
    if (!ls_os_env("LOCKSTEP_WEBGPU")) {
        reason = "LOCKSTEP_WEBGPU is not set and tools/drivers.sh has not been run";
        return 0;
    }
    if (ls_webgpu_open_host(&heap, 0, &host, &err) != LS_OK) {
        reason = err.message;
        return 0;
    }
    if (ls_webgpu_create(&heap, host, &driver, &err) != LS_OK || ls_webgpu_prepare(driver, &err) != LS_OK) {
        print_error("%s\n", err.message);
        return -1;
    }
    return 0;
}

static int close_driver(void **state) {
    ls_webgpu_close(driver);
    return teardown(state);
}

#define NEED_DRIVER()                                  \
    do {                                               \
        if (reason) {                                  \
            print_message("skipped: %s\n", reason);    \
            skip();                                    \
        }                                              \
    } while (0)

static gpu_under_test under_test(void) {
    return (gpu_under_test){api, driver, &heap, &arena, 0};
}
static void *block(size_t size) {
    const gpu_under_test g = under_test();
    return gpu_block(&g, size);
}
static void same_bits(const ls_kernel *kernel, place *places, const int64_t *params) {
    const gpu_under_test g = under_test();
    gpu_same_bits(&g, kernel, places, params);
}
static float *floats(size_t n) {
    const gpu_under_test g = under_test();
    return gpu_floats(&g, n);
}

/* ---- bytes ---- */

static void bytes_anywhere(void **state) {
    (void)state;
    NEED_DRIVER();
    print_message("adapter: %s (%s)\n", host->name, host->driver);
    const gpu_under_test g = under_test();
    gpu_bytes_anywhere(&g, 40000, 600, 5);
}

/* ---- kernels ---- */

static void samples(void **state) {
    (void)state;
    NEED_DRIVER();
    ls_kernel kernel, simple;
    assert_ok(sample_vadd(&arena, 1000, SAMPLE_RIGHT, &kernel, &err));
    assert_ok(ls_kernel_simplify(&arena, &kernel, NULL, &simple, &err));
    same_bits(&simple, (place[]){{floats(1000), 1000}, {floats(1000), 1000}, {floats(1000), 1000}}, (const int64_t[]){777});
    assert_ok(sample_reduce(&arena, 9000, SAMPLE_RIGHT, &kernel, &err));
    same_bits(&kernel, (place[]){{floats(9000), 9000}, {floats(3), 3}}, NULL);
    assert_ok(ls_kernel_simplify(&arena, &kernel, NULL, &simple, &err));
    same_bits(&simple, (place[]){{floats(9000), 9000}, {floats(3), 3}}, NULL);
    assert_ok(sample_matmul(&arena, 37, 50, 70, SAMPLE_RIGHT, &kernel, &err));
    assert_ok(ls_kernel_simplify(&arena, &kernel, NULL, &simple, &err));
    same_bits(&simple, (place[]){{floats(37 * 70), 37 * 70}, {floats(70 * 50), 70 * 50}, {floats(37 * 50), 37 * 50}}, NULL);
}

/* ---- every instruction that is exact by the language's own promise, on 1, 2 and 4 lanes ---- */

typedef struct row {
    ls_kop op;
    ls_dtype dtype;
    uint32_t and_y, or_y; /* makes the second operand legal */
} row;

#define ANY UINT32_MAX, 0
static const row rows[] = {
    {LS_K_ADD, LS_I32, ANY}, {LS_K_SUB, LS_I32, ANY}, {LS_K_MUL, LS_I32, ANY}, {LS_K_DIV, LS_I32, 0x7fffffff, 1},
    {LS_K_REM, LS_I32, 0x7fffffff, 1}, {LS_K_NEG, LS_I32, ANY}, {LS_K_ABS, LS_I32, ANY}, {LS_K_MIN, LS_I32, ANY},
    {LS_K_MAX, LS_I32, ANY}, {LS_K_POPCOUNT, LS_I32, ANY}, {LS_K_AND, LS_I32, ANY}, {LS_K_OR, LS_I32, ANY},
    {LS_K_XOR, LS_I32, ANY}, {LS_K_NOT, LS_I32, ANY}, {LS_K_SHL, LS_I32, 31, 0}, {LS_K_SHR, LS_I32, 31, 0},
    {LS_K_EQ, LS_I32, 3, 0}, {LS_K_NE, LS_I32, 3, 0}, {LS_K_LT, LS_I32, ANY}, {LS_K_LE, LS_I32, ANY},
    {LS_K_ADD, LS_U32, ANY}, {LS_K_SUB, LS_U32, ANY}, {LS_K_MUL, LS_U32, ANY}, {LS_K_DIV, LS_U32, UINT32_MAX, 1},
    {LS_K_REM, LS_U32, UINT32_MAX, 1}, {LS_K_NEG, LS_U32, ANY}, {LS_K_ABS, LS_U32, ANY}, {LS_K_MIN, LS_U32, ANY},
    {LS_K_MAX, LS_U32, ANY}, {LS_K_UMULHI, LS_U32, ANY}, {LS_K_POPCOUNT, LS_U32, ANY}, {LS_K_AND, LS_U32, ANY},
    {LS_K_OR, LS_U32, ANY}, {LS_K_XOR, LS_U32, ANY}, {LS_K_NOT, LS_U32, ANY}, {LS_K_SHL, LS_U32, 31, 0},
    {LS_K_SHR, LS_U32, 31, 0}, {LS_K_LT, LS_U32, ANY}, {LS_K_LE, LS_U32, ANY},
    {LS_K_ADD, LS_F32, ANY}, {LS_K_SUB, LS_F32, ANY}, {LS_K_MUL, LS_F32, ANY}, {LS_K_NEG, LS_F32, ANY}, {LS_K_ABS, LS_F32, ANY},
    {LS_K_MIN, LS_F32, ANY}, {LS_K_MAX, LS_F32, ANY}, {LS_K_FLOOR, LS_F32, ANY}, {LS_K_CEIL, LS_F32, ANY}, {LS_K_TRUNC, LS_F32, ANY}, {LS_K_RINT, LS_F32, ANY}, {LS_K_EQ, LS_F32, ANY},
    {LS_K_NE, LS_F32, ANY}, {LS_K_LT, LS_F32, ANY}, {LS_K_LE, LS_F32, ANY},
    {LS_K_AND, LS_BOOL, ANY}, {LS_K_OR, LS_BOOL, ANY}, {LS_K_XOR, LS_BOOL, ANY}, {LS_K_NOT, LS_BOOL, ANY}, {LS_K_EQ, LS_BOOL, ANY},
    {LS_K_NE, LS_BOOL, ANY}, {LS_K_LT, LS_BOOL, ANY}, {LS_K_LE, LS_BOOL, ANY},
};

static ls_val splat(ls_kb *kb, uint32_t bits, int lanes) {
    ls_val v = ls_kb_u32(kb, bits);
    return lanes > 1 ? ls_kb_splat(kb, v, lanes) : v;
}

static ls_val operand(ls_kb *kb, ls_val word, ls_dtype dtype, int lanes) {
    if (dtype == LS_BOOL) {
        return ls_kb_ne(kb, ls_kb_and(kb, word, splat(kb, 8, lanes)), splat(kb, 0, lanes));
    }
    if (dtype == LS_F32) { /* magnitudes of 2^-16 to 2^16 */
        word = ls_kb_add(kb, ls_kb_and(kb, word, splat(kb, 0x8f7fffff, lanes)), splat(kb, (127 - 16) << 23, lanes));
    }
    return ls_kb_bitcast(kb, word, dtype);
}

static ls_val word_of(ls_kb *kb, ls_val v) {
    ls_dtype t = (ls_dtype)kb->kernel.body[v].dtype;
    return t == LS_BOOL ? ls_kb_cast(kb, v, LS_U32) : ls_kb_bitcast(kb, v, LS_U32);
}

enum { POINTS = 256 };

static void one_row(const row *r, int lanes) {
    ls_kb kb;
    ls_kernel kernel;
    ls_kb_init(&kb, &arena, ls_kops[r->op].name, &err);
    int x = ls_kb_global(&kb, "x", LS_U32, LS_MEM_READ, POINTS), y = ls_kb_global(&kb, "y", LS_U32, LS_MEM_READ, POINTS);
    int z = ls_kb_global(&kb, "z", LS_U32, LS_MEM_WRITE, 2 * POINTS);
    ls_kb_workgroup(&kb, POINTS / lanes, 1, 1);
    ls_kb_grid(&kb, 0, 1, LS_VAL_NONE, 1);
    ls_val i = ls_kb_mul(&kb, ls_kb_local_id(&kb, 0), ls_kb_i32(&kb, lanes));
    ls_val a = operand(&kb, ls_kb_load(&kb, x, i, LS_VAL_NONE, LS_VAL_NONE, lanes), r->dtype, lanes);
    ls_val word = ls_kb_load(&kb, y, i, LS_VAL_NONE, LS_VAL_NONE, lanes);
    word = ls_kb_or(&kb, ls_kb_and(&kb, word, splat(&kb, r->and_y, lanes)), splat(&kb, r->or_y, lanes));
    ls_val b = operand(&kb, word, r->dtype, lanes), c = ls_kb_pure(&kb, r->op, a, ls_kops[r->op].sources > 1 ? b : LS_VAL_NONE, LS_VAL_NONE, 0);
    ls_kb_store(&kb, z, i, word_of(&kb, c), LS_VAL_NONE);
    ls_val turned = lanes == 4   ? ls_kb_insert(&kb, c, ls_kb_extract(&kb, c, 3), 1)
                    : lanes == 2 ? ls_kb_join(&kb, ls_kb_extract(&kb, c, 1), ls_kb_extract(&kb, c, 0))
                                 : c;
    ls_kb_store(&kb, z, ls_kb_add(&kb, i, ls_kb_i32(&kb, POINTS)), word_of(&kb, turned), LS_VAL_NONE);
    assert_ok(ls_kb_finish(&kb, &kernel));
    uint32_t *in[2], *out = ls_arena_alloc(&arena, 2 * POINTS * 4);
    for (int s = 0; s < 2; s++) {
        in[s] = ls_arena_alloc(&arena, POINTS * 4);
        for (int p = 0; p < POINTS; p++) {
            static const uint32_t special[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x80000001, 0xffff, 0x10000};
            in[s][p] = p < 64 ? special[s ? p / 8 : p % 8] : gpu_random() << 16 ^ gpu_random();
        }
    }
    same_bits(&kernel, (place[]){{in[0], POINTS}, {in[1], POINTS}, {out, 2 * POINTS}}, NULL);
}

static void instructions(void **state) {
    (void)state;
    NEED_DRIVER();
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (int lanes = 1; lanes <= 4; lanes *= 2) {
            one_row(&rows[r], lanes);
        }
    }
}

/* Branches, loops in loops, variables, predicated loads and stores, constants without literals, atomics. */
static void control(void **state) {
    (void)state;
    NEED_DRIVER();
    ls_kb kb;
    ls_kernel kernel;
    ls_kb_init(&kb, &arena, "control", &err);
    int n = ls_kb_param(&kb, "n", LS_I32, 0, 100), f = ls_kb_param(&kb, "f", LS_F32, 0, 0), t = ls_kb_param(&kb, "t", LS_BOOL, 0, 1);
    int extra[3];
    for (int i = 0; i < 3; i++) {
        extra[i] = ls_kb_param(&kb, "extra", LS_U32, 0, 100);
    }
    int x = ls_kb_global(&kb, "x", LS_F32, LS_MEM_READ_WRITE, 100), count = ls_kb_global(&kb, "count", LS_U32, LS_MEM_READ_WRITE, 5);
    int y = ls_kb_global(&kb, "y", LS_F32, LS_MEM_READ_WRITE, 64);
    ls_kb_workgroup(&kb, 32, 1, 1);
    ls_kb_grid(&kb, 0, 2, LS_VAL_NONE, 1);
    ls_val i = ls_kb_add(&kb, ls_kb_local_id(&kb, 0), ls_kb_mul(&kb, ls_kb_group_id(&kb, 0), ls_kb_i32(&kb, 32)));
    ls_val sum = ls_kb_var(&kb, ls_kb_get_param(&kb, f)), zero = ls_kb_i32(&kb, 0), one = ls_kb_i32(&kb, 1);
    ls_val j = ls_kb_loop(&kb, zero, ls_kb_get_param(&kb, n), ls_kb_i32(&kb, 3), 0);
    ls_val k = ls_kb_loop(&kb, ls_kb_sub(&kb, zero, one), i, one, 0);
    ls_kb_if(&kb, ls_kb_lt(&kb, k, j));
    ls_val at = ls_kb_add(&kb, ls_kb_mul(&kb, k, ls_kb_i32(&kb, 2)), j);
    ls_val in = ls_kb_and(&kb, ls_kb_le(&kb, zero, at), ls_kb_lt(&kb, at, ls_kb_i32(&kb, 100)));
    ls_val v = ls_kb_load(&kb, x, at, in, ls_kb_const_bits(&kb, LS_F32, 0x7f800000), 1);
    ls_val is_inf = ls_kb_eq(&kb, ls_kb_bitcast(&kb, v, LS_U32), ls_kb_u32(&kb, 0x7f800000));
    ls_kb_set(&kb, sum, ls_kb_add(&kb, ls_kb_get(&kb, sum), ls_kb_select(&kb, is_inf, ls_kb_f32(&kb, 0.1f), v)));
    ls_kb_else(&kb);
    ls_kb_set(&kb, sum, ls_kb_sub(&kb, ls_kb_get(&kb, sum), ls_kb_f32(&kb, 0.25f)));
    ls_kb_end_if(&kb);
    ls_kb_end_loop(&kb);
    ls_kb_end_loop(&kb);
    ls_val odd = ls_kb_eq(&kb, ls_kb_and(&kb, i, one), one), total = ls_kb_get(&kb, sum);
    ls_kb_store(&kb, y, i, total, ls_kb_or(&kb, odd, ls_kb_get_param(&kb, t)));
    ls_val u = ls_kb_cast(&kb, i, LS_U32);
    for (int e = 0; e < 3; e++) {
        u = ls_kb_add(&kb, ls_kb_mul(&kb, u, ls_kb_u32(&kb, 7)), ls_kb_get_param(&kb, extra[e]));
    }
    static const ls_kop ops[] = {LS_K_ATOMIC_ADD, LS_K_ATOMIC_MIN, LS_K_ATOMIC_MAX, LS_K_ATOMIC_OR};
    for (uint32_t o = 0; o < 4; o++) {
        (void)ls_kb_atomic(&kb, ops[o], count, ls_kb_u32(&kb, o), u, odd);
    }
    assert_ok(ls_kb_finish(&kb, &kernel));
    uint32_t counts[5] = {5, 1000000, 5, 64, 17};
    float start = 0.75f;
    int64_t params[] = {10, 0, 0, 11, 23, 5};
    memcpy(&params[1], &start, 4);
    for (int truth = 0; truth < 2; truth++) {
        params[2] = truth;
        same_bits(&kernel, (place[]){{floats(100), 100}, {counts, 5}, {floats(64), 64}}, params);
    }
}

/* ---- errors ---- */

static void errors_leave_the_device_usable(void **state) {
    (void)state;
    NEED_DRIVER();
    ls_kernel kernel;
    void *p, *b;
    assert_ok(sample_vadd(&arena, 1000, SAMPLE_RIGHT, &kernel, &err));
    const ls_gpu_code bad = {.kernel = &kernel, .name = "bad", .data = "fn main() { let x: f32 = 1i; }", .size = 30, .n_words = 1};
    assert_int_equal(api->build(driver, &bad, &p, &err), LS_ERR_INTERNAL);
    assert_non_null(strstr(err.message, "cannot initialize"));
    ls_error_clear(&err);
    assert_int_equal(api->block_new(driver, SIZE_MAX / 2, &b, &err), LS_ERR_MEMORY);
    ls_error_clear(&err);
    assert_ok(ls_kernel_simplify(&arena, &kernel, NULL, &kernel, &err));
    same_bits(&kernel, (place[]){{floats(1000), 1000}, {floats(1000), 1000}, {floats(1000), 1000}}, (const int64_t[]){1000});
}

/* After the loss of a device every call is an error and none waits. */
static void lost_device(void **state) {
    (void)state;
    NEED_DRIVER();
    void *b = block(4096), *other;
    uint8_t bytes[16] = {0};
    uint64_t ticket;
    int done;
    assert_ok(api->write(driver, b, 3, bytes, 7, &err));
    host->lost = true;
    snprintf(host->message, sizeof host->message, "planted");
    assert_int_equal(api->write(driver, b, 0, bytes, 16, &err), LS_ERR_DEVICE);
    assert_non_null(strstr(err.message, "planted"));
    assert_int_equal(api->read(driver, b, 0, bytes, 16, &err), LS_ERR_DEVICE);
    assert_int_equal(api->block_new(driver, 100, &other, &err), LS_ERR_DEVICE);
    assert_int_equal(api->flush(driver, &ticket, &err), LS_ERR_DEVICE);
    assert_int_equal(api->wait(driver, UINT64_MAX, 1, &done, &err), LS_ERR_DEVICE);
    ls_error_clear(&err);
    api->block_free(driver, b);
}

static void tickets(void **state) {
    (void)state;
    NEED_DRIVER();
    void *b = block(1 << 20);
    uint8_t bytes[100] = {0};
    uint64_t last = 0, ticket;
    int done = 0;
    for (int i = 0; i < 200; i++) { /* more than are kept in flight */
        assert_ok(api->write(driver, b, 1, bytes, sizeof bytes, &err));
        assert_ok(api->flush(driver, &ticket, &err));
        assert_true(ticket > last);
        last = ticket;
    }
    assert_ok(api->wait(driver, last, 1, &done, &err));
    assert_true(done);
    assert_ok(api->flush(driver, &ticket, &err));
    assert_int_equal(ticket, last); /* nothing was recorded */
    assert_ok(api->wait(driver, ticket, 0, &done, &err));
    assert_true(done);
    api->block_free(driver, b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bytes_anywhere, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(samples, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(instructions, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(control, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(errors_leave_the_device_usable, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(lost_device, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(tickets, open_driver, close_driver),
    };
    return cmocka_run_group_tests_name("webgpu", tests, NULL, NULL);
}
