/* The Vulkan driver called as src/gpu calls it, on each software driver that tools/drivers.sh lists (or on what
 * VK_ICD_FILENAMES names, or else on the machine's own): bytes to any place, kernels against the interpreter, errors.
 * Skipped where there is no device. A process of its own for each driver. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/vulkan/driver.h"
#include "backend/vulkan/vulkan.h"
#include "base/half.h"
#include "kir/build.h"
#include "support/gpu.h"
#include "unit/kir_fixture.h"
#include "unit/kir_samples.h"
#include <sys/wait.h>
#include <unistd.h>

static ls_device device;
static vk_driver *driver;
static ls_gpu_limits limits;
static const ls_gpu_api *const api = &ls_vk_api;

static int close_driver(void **state) {
    if (driver) {
        ls_vk_close(driver);
        ls_free(&heap, driver);
        driver = NULL;
    }
    return teardown(state);
}

static int open_driver(void **state) {
    setup(state);
    device = (ls_device){.heap = &heap, .backend = &ls_backend_vulkan, .id = "vulkan"};
    driver = ls_alloc_zeroed(&heap, sizeof *driver);
    assert_non_null(driver);
    driver->device = &device;
    driver->heap = &heap;
    if (ls_vk_open(driver, 0, &limits, &err) == LS_OK) {
        return 0;
    }
    print_message("skipped: %s\n", err.message);
    ls_vk_close(driver);
    ls_free(&heap, driver);
    driver = NULL;
    return 0;
}

#define NEED_DRIVER()                                                                                        \
    do {                                                                                                     \
        (void)state;                                                                                         \
        if (!driver) {                                                                                       \
            skip();                                                                                          \
        }                                                                                                    \
    } while (0)

static gpu_under_test under_test(void) {
    return (gpu_under_test){api, driver, &heap, &arena, limits.subgroup};
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

/* Larger than the ring, and with the queue busy in between. */
static void bytes_anywhere(void **state) {
    NEED_DRIVER();
    print_message("%s, %s\n", device.caps.name, device.caps.driver);
    const gpu_under_test g = under_test();
    gpu_bytes_anywhere(&g, 5 << 20, 400, 1);
}

/* The same where host and device do not share memory: everything goes through the ring. */
static void bytes_through_the_ring(void **state) {
    NEED_DRIVER();
    driver->unified = false;
    bytes_anywhere(state);
    size_t size = 3 * LS_VK_STAGING + 12345;
    uint8_t *in = malloc(size), *out = malloc(size);
    void *b = block(size);
    for (size_t i = 0; i < size; i++) {
        in[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    assert_ok(api->write(driver, b, 0, in, size, &err));
    assert_ok(api->read(driver, b, 0, out, size, &err));
    assert_memory_equal(in, out, size);
    api->block_free(driver, b);
    free(in);
    free(out);
}

/* ---- kernels ---- */

static void samples(void **state) {
    NEED_DRIVER();
    ls_kernel kernel, simple;
    assert_ok(sample_vadd(&arena, 1000, SAMPLE_RIGHT, &kernel, &err));
    assert_ok(ls_kernel_simplify(&arena, &kernel, NULL, &simple, &err));
    same_bits(&simple, (place[]){{floats(1000), 1000}, {floats(1000), 1000}, {floats(1000), 1000}},
              (const int64_t[]){777});
    assert_ok(sample_reduce(&arena, 9000, SAMPLE_RIGHT, &kernel, &err));
    same_bits(&kernel, (place[]){{floats(9000), 9000}, {floats(3), 3}}, NULL);
    assert_ok(ls_kernel_simplify(&arena, &kernel, NULL, &simple, &err));
    same_bits(&simple, (place[]){{floats(9000), 9000}, {floats(3), 3}}, NULL);
    assert_ok(sample_matmul(&arena, 37, 50, 70, SAMPLE_RIGHT, &kernel, &err));
    assert_ok(ls_kernel_simplify(&arena, &kernel, NULL, &simple, &err));
    same_bits(&simple,
              (place[]){{floats(37 * 70), 37 * 70}, {floats(70 * 50), 70 * 50}, {floats(37 * 50), 37 * 50}},
              NULL);
}

/* ---- fragments: through shared memory of halves, or of words, put there by one or four at a time ---- */

typedef struct frag_case {
    ls_dtype type;
    bool words;   /* shared memory is seen as words */
    int lanes;    /* of the stores into it */
    bool columns[2];
    bool beside;  /* a lone word of shared memory stands between: fragments must begin at multiples of 16 bytes all the same */
} frag_case;

enum { FRAG_LINE = 24, FRAG_OUT = 20 }; /* strides, which fragments must keep */

static ls_val from_word(ls_kb *kb, ls_val x, const frag_case *c) {
    return c->words ? x : ls_kb_bitcast(kb, x, c->type);
}

static void frag_kernel(const frag_case *c, ls_kernel *out) {
    static const char *const names[2][2] = {{"a", "sa"}, {"b", "sb"}};
    ls_kb kb;
    int threads = limits.subgroup, count = 16 * FRAG_LINE / (c->words ? 2 : 1), global[2], shared[2];
    ls_val none = LS_VAL_NONE, frag[2];
    ls_kb_init(&kb, &arena, "fragments", &err);
    ls_kb_workgroup(&kb, threads, 1, 1);
    for (int i = 0; i < 2; i++) {
        global[i] = ls_kb_global(&kb, names[i][0], c->words ? LS_U32 : LS_U16, LS_MEM_READ, count);
    }
    int result = ls_kb_global(&kb, "c", LS_F32, LS_MEM_WRITE, 256);
    int beside = -1;
    for (int i = 0; i < 2; i++) {
        shared[i] = ls_kb_shared(&kb, names[i][1], c->words ? LS_U32 : c->type, count);
        beside = c->beside && i == 0 ? ls_kb_shared(&kb, "beside", LS_U32, 1) : beside;
    }
    int sums = ls_kb_shared(&kb, "sums", LS_F32, 16 * FRAG_OUT);
    ls_val t = ls_kb_local_id(&kb, 0);
    if (beside >= 0) {
        ls_kb_store(&kb, beside, ls_kb_i32(&kb, 0), ls_kb_u32(&kb, 0), ls_kb_eq(&kb, t, ls_kb_i32(&kb, 0)));
    }
    for (int i = 0; i < 2; i++) {
        ls_val first = ls_kb_mul(&kb, t, ls_kb_i32(&kb, c->lanes));
        ls_val at = ls_kb_loop(&kb, first, ls_kb_i32(&kb, count), ls_kb_i32(&kb, threads * c->lanes), 0);
        ls_val x = ls_kb_load(&kb, global[i], at, none, none, c->lanes);
        ls_kb_store(&kb, shared[i], at, from_word(&kb, x, c), none);
        ls_kb_end_loop(&kb);
    }
    ls_kb_barrier(&kb);
    if (beside >= 0) { /* each thread adds 1, later 1 is added to each sum for each thread */
        (void)ls_kb_atomic(&kb, LS_K_ATOMIC_ADD, beside, ls_kb_i32(&kb, 0), ls_kb_u32(&kb, 1), none);
    }
    for (int i = 0; i < 2; i++) {
        uint32_t flags = LS_KF_FRAG(i ? LS_FRAG_B : LS_FRAG_A, 16, 16, 16) | (c->columns[i] ? LS_KF_FRAG_COLS : 0);
        ls_val zero = ls_kb_i32(&kb, 0), stride = ls_kb_i32(&kb, FRAG_LINE);
        frag[i] = ls_kb_frag_load_as(&kb, shared[i], c->type, zero, stride, flags);
    }
    ls_val sum = ls_kb_frag_fill(&kb, ls_kb_f32(&kb, 1), LS_KF_FRAG(LS_FRAG_C, 16, 16, 16));
    sum = ls_kb_frag_mma(&kb, frag[0], frag[1], sum);
    ls_kb_frag_store(&kb, sums, ls_kb_i32(&kb, 0), sum, ls_kb_i32(&kb, FRAG_OUT), 0);
    ls_kb_barrier(&kb);
    ls_val e = ls_kb_loop(&kb, t, ls_kb_i32(&kb, 64), ls_kb_i32(&kb, threads), 0);
    ls_val row = ls_kb_div(&kb, e, ls_kb_i32(&kb, 4));
    ls_val column = ls_kb_mul(&kb, ls_kb_rem(&kb, e, ls_kb_i32(&kb, 4)), ls_kb_i32(&kb, 4));
    ls_val from = ls_kb_add(&kb, ls_kb_mul(&kb, row, ls_kb_i32(&kb, FRAG_OUT)), column);
    ls_val to = ls_kb_add(&kb, ls_kb_mul(&kb, row, ls_kb_i32(&kb, 16)), column);
    ls_val x = ls_kb_load(&kb, sums, from, none, none, 4);
    if (beside >= 0) {
        ls_val more = ls_kb_cast(&kb, ls_kb_load(&kb, beside, ls_kb_i32(&kb, 0), none, none, 1), LS_F32), parts[4];
        for (int i = 0; i < 4; i++) {
            parts[i] = ls_kb_add(&kb, ls_kb_extract(&kb, x, i), more);
        }
        ls_val low = ls_kb_join(&kb, parts[0], parts[1]), high = ls_kb_join(&kb, parts[2], parts[3]);
        x = ls_kb_join(&kb, low, high);
    }
    ls_kb_store(&kb, result, to, x, none);
    ls_kb_end_loop(&kb);
    assert_ok(ls_kb_finish(&kb, out));
}

static void fragments(void **state) {
    NEED_DRIVER();
    uint16_t halves[2 * 16 * FRAG_LINE];
    int run = 0;
    for (int number = 0; number < 2 * 2 * 2 * 4 * 2; number++) {
        frag_case c = {number & 1 ? LS_BF16 : LS_F16, number & 2, number & 4 ? 4 : 1, {number & 8, number & 16}, number & 32};
        bool here = false;
        ls_kernel kernel, simple;
        for (int i = 0; i < limits.n_frags; i++) {
            const ls_emit_frag *f = &limits.frags[i];
            here = here || (f->type == c.type && f->m == 16 && f->n == 16 && f->k == 16);
        }
        if (!here) {
            continue;
        }
        for (int i = 0; i < 2 * 16 * FRAG_LINE; i++) { /* small integers: every sum is exact */
            float x = (float)((int)gpu_random() % 7 - 3);
            uint16_t f16 = ls_f32_to_f16(x), bf16 = ls_f32_to_bf16(x);
            halves[i] = c.type == LS_F16 ? f16 : bf16;
        }
        frag_kernel(&c, &kernel);
        assert_ok(ls_kernel_verify(&heap, &kernel, &err));
        assert_ok(ls_kernel_simplify(&arena, &kernel, NULL, &simple, &err));
        size_t count = 16 * FRAG_LINE / (c.words ? 2 : 1);
        print_message("%s, %s, by %d, columns %d %d%s\n", ls_dtype_name(c.type), c.words ? "words" : "halves", c.lanes,
                      c.columns[0], c.columns[1], c.beside ? ", a word beside" : "");
        same_bits(&simple, (place[]){{halves, count}, {halves + 16 * FRAG_LINE, count}, {floats(256), 256}}, NULL);
        run++;
    }
    if (!run) {
        print_message("skipped: no matrices of 16 x 16 x 16 halves on this device\n");
        skip();
    }
}

/* ---- every instruction that legal kernels may hold, on 1, 2 and 4 lanes ---- */

enum { POINTS = 128 };

/* Operands for which the instruction is defined on devices: shifts within the width, no division by 0 or of MIN by -1, floats
 * that give no NaN and no subnormal. */
static ls_val operand(ls_kb *kb, ls_val word, ls_dtype t, ls_kop op, bool second) {
    int lanes = kb->kernel.body[word].lanes, bits = ls_dtype_bits(t);
    ls_dtype u = bits == 64 ? LS_U64 : LS_U32;
#define BITS(value)                                                                                          \
    (lanes > 1 ? ls_kb_splat(kb, ls_kb_const_bits(kb, u, (value)), lanes) : ls_kb_const_bits(kb, u, (value)))
    if (t == LS_BOOL) {
        return ls_kb_ne(kb, ls_kb_and(kb, word, BITS(8)), BITS(0));
    }
    if (t == LS_F32) { /* magnitudes of 2^-16 to 2^16 */
        word = ls_kb_add(kb, ls_kb_and(kb, word, BITS(0x8f7fffff)), BITS((127 - 16) << 23));
        word = op == LS_K_SQRT ? ls_kb_and(kb, word, BITS(0x7fffffff)) : word;
    } else if (t == LS_F64) {
        word = ls_kb_and(kb, word, BITS(UINT64_C(0x81efffffffffffff)));
        word = ls_kb_add(kb, word, BITS((UINT64_C(1023) - 16) << 52));
        word = op == LS_K_SQRT ? ls_kb_and(kb, word, BITS(~UINT64_C(0) >> 1)) : word;
    } else if (second && (op == LS_K_SHL || op == LS_K_SHR)) {
        word = ls_kb_and(kb, word, BITS((uint64_t)bits - 1));
    } else if (second && (op == LS_K_DIV || op == LS_K_REM)) {
        uint64_t low = ls_dtype_is_signed(t) ? (UINT64_C(1) << (bits - 1)) - 1
                       : bits == 64          ? UINT64_MAX
                                             : UINT32_MAX;
        word = ls_kb_or(kb, ls_kb_and(kb, word, BITS(low)), BITS(1));
    }
#undef BITS
    return ls_kb_bitcast(kb, word, t);
}

static bool has(ls_kop op, ls_dtype t) {
    ls_kb kb;
    ls_error ignored = {0};
    ls_kb_init(&kb, &arena, "has", &ignored);
    ls_val v = t == LS_BOOL ? ls_kb_const_int(&kb, t, 1) : ls_kb_const_bits(&kb, t, 0);
    int n = ls_kops[op].sources;
    bool rough = (op == LS_K_SQRT || op == LS_K_DIV) && ls_dtype_is_float(t) &&
                 driver->properties.deviceType != VK_TYPE_CPU;
    bool missing = rough || op == LS_K_FMA || op == LS_K_CANON; /* the probe looks at these on each device */
    return !missing &&
           ls_kb_pure(&kb, op, v, n > 1 ? v : LS_VAL_NONE, n > 2 ? v : LS_VAL_NONE, 0) != LS_VAL_NONE;
}

static void one_instruction(ls_kop op, ls_dtype t, int lanes) {
    ls_kb kb;
    ls_kernel kernel;
    ls_kb_init(&kb, &arena, ls_kops[op].name, &err);
    ls_dtype u = ls_dtype_bits(t) == 64 ? LS_U64 : LS_U32;
    int x = ls_kb_global(&kb, "x", u, LS_MEM_READ, POINTS),
        y = ls_kb_global(&kb, "y", u, LS_MEM_READ, POINTS);
    int z = ls_kb_global(&kb, "z", u, LS_MEM_WRITE, 2 * POINTS);
    ls_kb_workgroup(&kb, POINTS / lanes, 1, 1);
    ls_kb_grid(&kb, 0, 1, LS_VAL_NONE, 1);
    ls_val i = ls_kb_mul(&kb, ls_kb_local_id(&kb, 0), ls_kb_i32(&kb, lanes));
    ls_val a = operand(&kb, ls_kb_load(&kb, x, i, LS_VAL_NONE, LS_VAL_NONE, lanes), t, op, false);
    ls_val b = operand(&kb, ls_kb_load(&kb, y, i, LS_VAL_NONE, LS_VAL_NONE, lanes), t, op, true);
    ls_val c = ls_kb_pure(&kb, op, a, ls_kops[op].sources > 1 ? b : LS_VAL_NONE, LS_VAL_NONE, 0);
    ls_val turned = lanes == 4   ? ls_kb_insert(&kb, c, ls_kb_extract(&kb, c, 3), 1)
                    : lanes == 2 ? ls_kb_join(&kb, ls_kb_extract(&kb, c, 1), ls_kb_extract(&kb, c, 0))
                                 : ls_kb_select(&kb, ls_kb_eq(&kb, c, c), c, c);
    for (int r = 0; r < 2; r++) {
        ls_val v = r ? turned : c;
        v = kb.kernel.body[v].dtype == LS_BOOL ? ls_kb_cast(&kb, v, u) : ls_kb_bitcast(&kb, v, u);
        ls_kb_store(&kb, z, ls_kb_add(&kb, i, ls_kb_i32(&kb, r * POINTS)), v, LS_VAL_NONE);
    }
    assert_ok(ls_kb_finish(&kb, &kernel));
    uint64_t in[2][POINTS], out[2 * POINTS] = {0};
    for (int s = 0; s < 2; s++) {
        static const uint32_t special[] = {0,          1,          0x7fffffff, 0x80000000,
                                           0xffffffff, 0x80000001, 0xffff,     0x10000};
        for (int p = 0; p < POINTS; p++) {
            uint64_t high = p < 64 ? special[s ? p % 8 : p / 8] : gpu_random() << 16 ^ gpu_random();
            uint64_t low = p < 64 ? special[s ? p / 8 : p % 8] : gpu_random() << 16 ^ gpu_random();
            if (u == LS_U64) {
                in[s][p] = high << 32 | low;
            } else {
                ((uint32_t *)in[s])[p] = (uint32_t)low;
            }
        }
    }
    same_bits(&kernel, (place[]){{in[0], POINTS}, {in[1], POINTS}, {out, 2 * POINTS}}, NULL);
}

static void instructions(void **state) {
    NEED_DRIVER();
    static const struct {
        ls_dtype dtype;
        uint32_t traits;
    } types[] = {{LS_BOOL, 0},
                 {LS_I32, 0},
                 {LS_U32, 0},
                 {LS_F32, 0},
                 {LS_I64, LS_KT_INT64},
                 {LS_U64, LS_KT_INT64},
                 {LS_F64, LS_KT_FLOAT64}};
    int n = 0;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        for (int op = 0; op < LS_K_COUNT && (limits.traits & types[t].traits) == types[t].traits; op++) {
            bool apart = op == LS_K_CAST || op == LS_K_BITCAST || op == LS_K_SELECT;
            if (ls_kops[op].kind != LS_KC_PURE || apart || !has((ls_kop)op, types[t].dtype)) {
                continue;
            }
            for (int lanes = 1; lanes <= 4; lanes *= 2) {
                one_instruction((ls_kop)op, types[t].dtype, lanes);
                n++;
            }
        }
    }
    print_message("%d instructions\n", n);
    assert_true(n > 100);
}

/* Branches, loops in loops, variables, predicated loads and stores, parameters of every kind, atomics. */
static void control(void **state) {
    NEED_DRIVER();
    ls_kb kb;
    ls_kernel kernel;
    ls_kb_init(&kb, &arena, "control", &err);
    int n = ls_kb_param(&kb, "n", LS_I32, 0, 100), f = ls_kb_param(&kb, "f", LS_F32, 0, 0),
        t = ls_kb_param(&kb, "t", LS_BOOL, 0, 1);
    bool wide = limits.traits & LS_KT_INT64;
    int w = ls_kb_param(&kb, "w", wide ? LS_I64 : LS_I32, -100, 100);
    int x = ls_kb_global(&kb, "x", LS_F32, LS_MEM_READ_WRITE, 100),
        count = ls_kb_global(&kb, "count", LS_U32, LS_MEM_READ_WRITE, 5);
    int y = ls_kb_global(&kb, "y", LS_F32, LS_MEM_READ_WRITE, 64),
        shared = ls_kb_shared(&kb, "s", LS_I32, 40);
    ls_kb_workgroup(&kb, 32, 1, 1);
    ls_kb_grid(&kb, 0, 2, LS_VAL_NONE, 1);
    ls_val local = ls_kb_local_id(&kb, 0), zero = ls_kb_i32(&kb, 0), one = ls_kb_i32(&kb, 1);
    ls_val i = ls_kb_add(&kb, local, ls_kb_mul(&kb, ls_kb_group_id(&kb, 0), ls_kb_i32(&kb, 32)));
    ls_val sum = ls_kb_var(&kb, ls_kb_get_param(&kb, f));
    ls_kb_store(&kb, shared, local, i, LS_VAL_NONE);
    ls_kb_store(&kb, shared, ls_kb_add(&kb, local, ls_kb_i32(&kb, 32)), zero,
                ls_kb_lt(&kb, local, ls_kb_i32(&kb, 8)));
    ls_kb_barrier(&kb);
    ls_val quad =
        ls_kb_load(&kb, shared, ls_kb_and(&kb, local, ls_kb_i32(&kb, 28)), LS_VAL_NONE, LS_VAL_NONE, 4);
    ls_val pair =
        ls_kb_load(&kb, shared, ls_kb_and(&kb, local, ls_kb_i32(&kb, 30)), LS_VAL_NONE, LS_VAL_NONE, 2);
    ls_val bias = ls_kb_mul(&kb, ls_kb_extract(&kb, quad, 2), ls_kb_extract(&kb, pair, 1));
    (void)ls_kb_atomic(&kb, LS_K_ATOMIC_ADD, shared, ls_kb_i32(&kb, 33), i,
                       ls_kb_lt(&kb, local, ls_kb_i32(&kb, 9)));
    ls_kb_barrier(&kb);
    ls_val all = ls_kb_load(&kb, shared, ls_kb_i32(&kb, 33), LS_VAL_NONE, LS_VAL_NONE, 1);
    bias = ls_kb_add(&kb, ls_kb_add(&kb, bias, all), ls_kb_cast(&kb, ls_kb_get_param(&kb, w), LS_I32));
    ls_val j = ls_kb_loop(&kb, zero, ls_kb_get_param(&kb, n), ls_kb_i32(&kb, 3), 0);
    ls_val k = ls_kb_loop(&kb, ls_kb_sub(&kb, zero, one), i, one, LS_KF_UNROLL);
    ls_kb_if(&kb, ls_kb_lt(&kb, k, j));
    ls_val at = ls_kb_add(&kb, ls_kb_mul(&kb, k, ls_kb_i32(&kb, 2)), j);
    ls_val in = ls_kb_and(&kb, ls_kb_le(&kb, zero, at), ls_kb_lt(&kb, at, ls_kb_i32(&kb, 100)));
    ls_val v = ls_kb_load(&kb, x, at, in, ls_kb_const_bits(&kb, LS_F32, 0x7f800000), 1);
    ls_val is_inf = ls_kb_eq(&kb, ls_kb_bitcast(&kb, v, LS_U32), ls_kb_u32(&kb, 0x7f800000));
    ls_kb_set(&kb, sum,
              ls_kb_add(&kb, ls_kb_get(&kb, sum), ls_kb_select(&kb, is_inf, ls_kb_f32(&kb, 0.1f), v)));
    ls_kb_else(&kb);
    ls_kb_set(&kb, sum, ls_kb_sub(&kb, ls_kb_get(&kb, sum), ls_kb_f32(&kb, 0.25f)));
    ls_kb_end_if(&kb);
    ls_kb_end_loop(&kb);
    ls_kb_end_loop(&kb);
    ls_val odd = ls_kb_eq(&kb, ls_kb_and(&kb, i, one), one);
    ls_val total = ls_kb_add(&kb, ls_kb_get(&kb, sum), ls_kb_cast(&kb, bias, LS_F32));
    ls_kb_store(&kb, y, i, total, ls_kb_or(&kb, odd, ls_kb_get_param(&kb, t)));
    static const ls_kop ops[] = {LS_K_ATOMIC_ADD, LS_K_ATOMIC_MIN, LS_K_ATOMIC_MAX, LS_K_ATOMIC_OR};
    for (uint32_t o = 0; o < 4; o++) {
        (void)ls_kb_atomic(&kb, ops[o], count, ls_kb_u32(&kb, o), ls_kb_cast(&kb, i, LS_U32), odd);
    }
    assert_ok(ls_kb_finish(&kb, &kernel));
    uint32_t counts[5] = {5, 1000000, 5, 64, 17};
    float start = 0.75f;
    int64_t params[] = {10, 0, 0, -3};
    memcpy(&params[1], &start, 4);
    for (int truth = 0; truth < 2; truth++) {
        params[2] = truth;
        same_bits(&kernel, (place[]){{floats(100), 100}, {counts, 5}, {floats(64), 64}}, params);
    }
}

/* Bytes and halves in memory: each thread its own, neighbours in one word. */
static void narrow(void **state) {
    NEED_DRIVER();
    static const ls_dtype types[] = {LS_BOOL, LS_U8, LS_I8, LS_U16, LS_I16, LS_F16};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        uint32_t needs = types[t] == LS_F16 ? LS_KT_HALF_CAST : t < 3 ? LS_KT_BYTES : LS_KT_HALVES;
        for (int lanes = 1; lanes <= 4 && limits.traits & needs; lanes *= 2) {
            ls_kb kb;
            ls_kernel kernel;
            ls_kb_init(&kb, &arena, ls_dtype_name(types[t]), &err);
            int x = ls_kb_global(&kb, "x", types[t], LS_MEM_READ, POINTS),
                y = ls_kb_global(&kb, "y", LS_F32, LS_MEM_WRITE, POINTS);
            int z = ls_kb_global(&kb, "z", types[t], LS_MEM_WRITE, POINTS),
                s = ls_kb_shared(&kb, "s", types[t], POINTS);
            ls_kb_workgroup(&kb, POINTS / lanes, 1, 1);
            ls_kb_grid(&kb, 0, 1, LS_VAL_NONE, 1);
            ls_val i = ls_kb_mul(&kb, ls_kb_local_id(&kb, 0), ls_kb_i32(&kb, lanes));
            ls_val some = ls_kb_lt(&kb, i, ls_kb_i32(&kb, 100));
            ls_val other = ls_kb_const_bits(&kb, types[t], 1);
            other = lanes > 1 ? ls_kb_splat(&kb, other, lanes) : other;
            ls_val v = ls_kb_load(&kb, x, i, some, other, lanes), f = ls_kb_cast(&kb, v, LS_F32);
            ls_kb_store(&kb, y, i, f, LS_VAL_NONE);
            ls_kb_store(&kb, s, i, ls_kb_cast(&kb, f, types[t]), LS_VAL_NONE);
            ls_kb_barrier(&kb);
            ls_val back = ls_kb_load(&kb, s, ls_kb_sub(&kb, ls_kb_i32(&kb, POINTS - lanes), i), LS_VAL_NONE,
                                     LS_VAL_NONE, lanes);
            ls_kb_store(&kb, z, i, back, some);
            assert_ok(ls_kb_finish(&kb, &kernel));
            uint16_t in[POINTS], out[POINTS] = {0};
            float as_float[POINTS] = {0};
            for (int p = 0; p < POINTS; p++) {
                uint32_t r = gpu_random();
                in[p] = (uint16_t)(types[t] == LS_BOOL  ? (r & 1) | (r >> 3 & 1) << 8
                                   : types[t] == LS_F16 ? (r & 0x8fff) + 0x3000 /* no NaN, no infinity */
                                                        : r);
            }
            same_bits(&kernel, (place[]){{in, POINTS}, {as_float, POINTS}, {out, POINTS}}, NULL);
        }
    }
}

/* Lanes of a subgroup of pinned size. */
static void subgroups(void **state) {
    NEED_DRIVER();
    if (!limits.subgroup) {
        print_message("skipped: no pinned subgroup size\n");
        skip();
    }
    ls_kb kb;
    ls_kernel kernel;
    ls_kb_init(&kb, &arena, "subgroup", &err);
    int x = ls_kb_global(&kb, "x", LS_U32, LS_MEM_READ, 64),
        y = ls_kb_global(&kb, "y", LS_U32, LS_MEM_WRITE, 64 * 6);
    ls_kb_workgroup(&kb, 64, 1, 1);
    ls_kb_grid(&kb, 0, 1, LS_VAL_NONE, 1);
    ls_val i = ls_kb_local_id(&kb, 0), v = ls_kb_load(&kb, x, i, LS_VAL_NONE, LS_VAL_NONE, 1);
    ls_val results[6] = {
        ls_kb_shuffle(&kb, v, ls_kb_and(&kb, ls_kb_cast(&kb, v, LS_I32), ls_kb_i32(&kb, 3))),
        ls_kb_shuffle_xor(&kb, v, 1),
        ls_kb_subgroup(&kb, LS_K_SUBGROUP_ADD, v, 0),
        ls_kb_subgroup(&kb, LS_K_SUBGROUP_MIN, v, 0),
        ls_kb_cast(&kb, ls_kb_subgroup(&kb, LS_K_SUBGROUP_MAX, ls_kb_cast(&kb, v, LS_I32), 0), LS_U32),
        ls_kb_cast(&kb,
                   ls_kb_add(&kb, ls_kb_lane_id(&kb),
                             ls_kb_add(&kb, ls_kb_subgroup_id(&kb), ls_kb_subgroup_size(&kb))),
                   LS_U32)};
    for (int r = 0; r < 6; r++) {
        ls_kb_store(&kb, y, ls_kb_add(&kb, i, ls_kb_i32(&kb, 64 * r)), results[r], LS_VAL_NONE);
    }
    assert_ok(ls_kb_finish(&kb, &kernel));
    uint32_t in[64], out[64 * 6] = {0};
    for (int p = 0; p < 64; p++) {
        in[p] = gpu_random() << 12 ^ gpu_random();
    }
    same_bits(&kernel, (place[]){{in, 64}, {out, 64 * 6}}, NULL);
}

/* Far more dispatches than a batch holds, each counting on the one before. */
static void long_queue(void **state) {
    NEED_DRIVER();
    enum { N = 1000 };
    ls_kb kb;
    ls_kernel kernel;
    ls_gpu_code code = {.kernel = &kernel, .name = "step", .n_words = 1};
    void *pipeline, *b = block(256);
    ls_kb_init(&kb, &arena, "step", &err);
    int p = ls_kb_param(&kb, "p", LS_U32, 0, N), x = ls_kb_global(&kb, "x", LS_U32, LS_MEM_READ_WRITE, 64);
    ls_kb_workgroup(&kb, 64, 1, 1);
    ls_kb_grid(&kb, 0, 1, LS_VAL_NONE, 1);
    ls_val i = ls_kb_local_id(&kb, 0), v = ls_kb_load(&kb, x, i, LS_VAL_NONE, LS_VAL_NONE, 1);
    ls_kb_store(&kb, x, i, ls_kb_add(&kb, ls_kb_mul(&kb, v, ls_kb_u32(&kb, 3)), ls_kb_get_param(&kb, p)),
                LS_VAL_NONE);
    assert_ok(ls_kb_finish(&kb, &kernel));
    assert_ok(api->render(driver, &arena, &kernel, &code, &err));
    assert_ok(api->build(driver, &code, &pipeline, &err));
    uint32_t model[64], got[64];
    for (uint32_t k = 0; k < 64; k++) {
        model[k] = k;
    }
    assert_ok(api->write(driver, b, 0, model, sizeof model, &err));
    for (uint32_t step = 0; step < N; step++) {
        const ls_gpu_range range = {b, 0, 256};
        const ls_gpu_dispatch d = {.pipeline = pipeline,
                                   .kernel = &kernel,
                                   .bindings = &range,
                                   .words = &step,
                                   .n_words = 1,
                                   .groups = {1, 1, 1}};
        assert_ok(api->dispatch(driver, &d, &err));
        for (uint32_t k = 0; k < 64; k++) {
            model[k] = model[k] * 3 + step;
        }
    }
    api->drop(driver, pipeline); /* waits */
    assert_ok(api->read(driver, b, 0, got, sizeof got, &err));
    assert_memory_equal(got, model, sizeof got);
    api->block_free(driver, b);
}

/* ---- errors ---- */

static void errors_leave_the_device_usable(void **state) {
    NEED_DRIVER();
    ls_kernel kernel, simple;
    void *b;
    assert_int_equal(api->block_new(driver, SIZE_MAX / 2, &b, &err), LS_ERR_MEMORY);
    ls_error_clear(&err);
    assert_ok(sample_vadd(&arena, 1000, SAMPLE_RIGHT, &kernel, &err));
    assert_ok(ls_kernel_simplify(&arena, &kernel, NULL, &simple, &err));
    ls_kernel many = simple;
    ls_gpu_code code = {.kernel = &many, .name = "many"};
    many.n_globals = driver->max_bindings + 1;
    assert_int_equal(api->build(driver, &code, &b, &err), LS_ERR_UNSUPPORTED);
    ls_error_clear(&err);
    atomic_store(&heap.fail_after, 0);
    assert_int_equal(api->block_new(driver, 100, &b, &err), LS_ERR_MEMORY);
    atomic_store(&heap.fail_after, -1);
    ls_error_clear(&err);
    same_bits(&simple, (place[]){{floats(1000), 1000}, {floats(1000), 1000}, {floats(1000), 1000}},
              (const int64_t[]){1000});
}

/* After the loss of a device every call is an error, none waits, and everything can be freed. */
static void lost_device(void **state) {
    NEED_DRIVER();
    void *b = block(4096), *other;
    uint8_t bytes[16] = {0};
    uint64_t ticket;
    int done;
    assert_ok(api->copy(driver, b, 0, b, 1000, 7, &err));
    assert_int_equal(ls_vk_check(driver, VK_ERROR_DEVICE_LOST, "vkQueueSubmit", &err), LS_ERR_DEVICE);
    assert_non_null(strstr(err.message, "vkQueueSubmit"));
    assert_non_null(strstr(err.message, "VK_ERROR_DEVICE_LOST"));
    assert_int_equal(api->write(driver, b, 0, bytes, 16, &err), LS_ERR_DEVICE);
    assert_int_equal(api->read(driver, b, 0, bytes, 16, &err), LS_ERR_DEVICE);
    assert_int_equal(api->copy(driver, b, 0, b, 1000, 7, &err), LS_ERR_DEVICE);
    assert_int_equal(api->block_new(driver, 100, &other, &err), LS_ERR_DEVICE);
    assert_int_equal(api->flush(driver, &ticket, &err), LS_ERR_DEVICE);
    assert_int_equal(api->wait(driver, UINT64_MAX, 1, &done, &err), LS_ERR_DEVICE);
    ls_error_clear(&err);
    api->block_free(driver, b);
}

static void tickets(void **state) {
    NEED_DRIVER();
    void *b = block(1 << 20);
    uint64_t last = 0, ticket;
    int done = 0;
    for (int i = 0; i < 50; i++) { /* more than are kept in flight */
        assert_ok(api->copy(driver, b, 0, b, 1000, 100, &err));
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
    assert_ok(api->copy(driver, b, 0, b, 1000, 100, &err));
    assert_ok(api->flush(driver, &ticket, &err));
    while (!done) {
        assert_ok(api->wait(driver, ticket, 0, &done, &err));
    }
    api->block_free(driver, b);
}

/* What nobody waits for yet may be held back while the device is busy, and is done in its order all the same. */
static void held_back(void **state) {
    NEED_DRIVER();
    enum { CELLS = 400 };
    void *b = block(4 * CELLS);
    uint8_t bytes[4 * CELLS] = {17};
    uint64_t ticket;
    int done = 0;
    assert_ok(api->write(driver, b, 0, bytes, sizeof bytes, &err));
    for (uint32_t i = 0; i + 1 < CELLS; i++) {
        assert_ok(api->copy(driver, b, 4 * (i + 1), b, 4 * i, 4, &err));
        assert_ok(api->flush(driver, NULL, &err));
    }
    assert_ok(api->flush(driver, &ticket, &err));
    assert_ok(api->wait(driver, ticket, 1, &done, &err));
    assert_true(done);
    assert_ok(api->read(driver, b, 0, bytes, sizeof bytes, &err));
    for (int i = 0; i < CELLS; i++) {
        assert_int_equal(bytes[4 * i], 17);
    }
    api->block_free(driver, b);
}

/* One device by number and by UUID, in a context. */
static void by_uuid(void **state) {
    NEED_DRIVER();
    ls_context *context;
    ls_device *one, *same, *none;
    char id[64];
    if (!device.caps.uuid[0]) {
        skip();
    }
    assert_ok(ls_context_create(NULL, &context, &err));
    snprintf(id, sizeof id, "vulkan:uuid=%s", device.caps.uuid);
    assert_ok(ls_device_open(context, id, &one, &err));
    assert_string_equal(ls_device_caps(one)->uuid, device.caps.uuid);
    assert_string_equal(ls_device_id(one), "vulkan");
    assert_ok(ls_device_open(context, "vulkan:0", &same, &err));
    assert_ptr_equal(one, same);
    id[strlen("vulkan:uuid=") + 8] = 0; /* its first digits */
    assert_ok(ls_device_open(context, id, &same, &err));
    assert_ptr_equal(one, same);
    static const char *const wrong[][2] = {{"vulkan:uuid=0123456789", "vulkan:uuid=0123456789: none of the "},
                                           {"vulkan:uuid=12", "4 to 32 hexadecimal digits"},
                                           {"cpu:uuid=0123", "devices of cpu have no UUID"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ls_error_clear(&err);
        assert_int_equal(ls_device_open(context, wrong[i][0], &none, &err), LS_ERR_DEVICE);
        assert_non_null(strstr(err.message, wrong[i][1]));
    }
    ls_context_destroy(context);
}

static void no_such_device(void **state) {
    NEED_DRIVER();
    vk_driver *second = ls_alloc_zeroed(&heap, sizeof *second);
    second->device = &device;
    second->heap = &heap;
    assert_int_equal(ls_vk_open(second, 31, &limits, &err), LS_ERR_DEVICE);
    assert_non_null(strstr(err.message, "vulkan:31: this machine has"));
    ls_vk_close(second);
    ls_free(&heap, second);
}

/* Each allocation of opening fails once; nothing leaks. */
static void opening_fails_cleanly(void **state) {
    NEED_DRIVER();
    for (long after = 0; after < 100; after++) {
        vk_driver *d = ls_alloc_zeroed(&heap, sizeof *d);
        d->device = &device;
        d->heap = &heap;
        ls_error_clear(&err);
        atomic_store(&heap.fail_after, after);
        ls_status status = ls_vk_open(d, 0, &limits, &err);
        atomic_store(&heap.fail_after, -1);
        ls_vk_close(d);
        ls_free(&heap, d);
        if (status == LS_OK) {
            assert_true(after >= 2);
            return;
        }
        assert_int_equal(status, LS_ERR_MEMORY);
    }
    fail_msg("it never succeeds");
}

static int run_all(const char *name) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bytes_anywhere, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(bytes_through_the_ring, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(samples, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(instructions, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(control, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(narrow, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(subgroups, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(fragments, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(long_queue, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(errors_leave_the_device_usable, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(lost_device, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(tickets, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(held_back, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(by_uuid, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(no_such_device, open_driver, close_driver),
        cmocka_unit_test_setup_teardown(opening_fails_cleanly, open_driver, close_driver),
    };
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(void) {
    setenv("LOCKSTEP_CACHE", "off", 0);
    char line[1024], name[64], icd[900];
    int failed = 0, runs = 0;
    FILE *list = getenv("VK_ICD_FILENAMES") ? NULL : popen("sh tools/drivers.sh --list", "r");
    while (list && fgets(line, sizeof line, list)) {
        if (sscanf(line, "vulkan-%63s VK_ICD_FILENAMES=%899s", name, icd) != 2) {
            continue;
        }
        pid_t child = fork();
        if (child == 0) {
            setenv("VK_ICD_FILENAMES", icd, 1);
            exit(run_all(name));
        }
        int code = 0;
        failed |= child < 0 || waitpid(child, &code, 0) != child || code != 0;
        runs++;
    }
    if (list) {
        pclose(list);
    }
    return runs ? failed : run_all("vulkan");
}
