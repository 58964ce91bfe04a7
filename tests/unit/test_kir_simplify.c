/* The KIR simplifier: same results, fewer instructions, an order that does not tell how the body was built. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rng.h"
#include "kir_fixture.h"
#include "kir_samples.h"
#include <stdio.h>

static ls_kernel simplified(const ls_kernel *k) {
    ls_kernel out;
    assert_ok(ls_kernel_verify(&heap, k, &err));
    assert_ok(ls_kernel_simplify(&arena, k, NULL, &out, &err));
    ls_status status = ls_kernel_verify(&heap, &out, &err);
    if (status != LS_OK) {
        ls_text text;
        ls_text_init(&text, &heap);
        ls_kernel_print(&text, &out);
        print_error("%s", text.data);
        ls_text_free(&text);
    }
    assert_ok(status);
    return out;
}

static int count_op(const ls_kernel *k, ls_kop op) {
    int n = 0;
    for (int i = 0; i < k->n_body; i++) {
        n += k->body[i].op == op;
    }
    return n;
}

static void run(const ls_kernel *k, const void *a, int64_t na, const void *b, int64_t nb, void *y, int64_t ny,
                const int64_t *params) {
    ls_interp_buffer buffers[] = {
        {(void *)(uintptr_t)a, na, false}, {(void *)(uintptr_t)b, nb, false}, {y, ny, true}};
    if (!b) {
        buffers[1] = buffers[2];
    }
    ls_interp_launch launch = {buffers, params, 7, 8};
    assert_ok(ls_kernel_interp(&heap, k, &launch, &err));
}

static void fill(float *x, size_t n, uint64_t seed) {
    ls_rng rng = {seed, 0};
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)ls_rng_normal(&rng);
    }
}

static void samples_keep_their_results(void **state) {
    (void)state;
    static float a[10000], b[10000], y[10000], z[10000];
    fill(a, 10000, 1);
    fill(b, 10000, 2);
    ls_kernel k;
    assert_ok(sample_vadd(&arena, 300, SAMPLE_RIGHT, &k, &err));
    ls_kernel s = simplified(&k);
    const int64_t n = 257;
    run(&k, a, 300, b, 300, y, 300, &n);
    run(&s, a, 300, b, 300, z, 300, &n);
    assert_memory_equal(y, z, 257 * sizeof *y);

    static const int64_t sizes[] = {1, 300, 4096, 4097, 10000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_ok(sample_reduce(&arena, sizes[i], SAMPLE_RIGHT, &k, &err));
        s = simplified(&k);
        run(&k, a, sizes[i], NULL, 0, y, (sizes[i] + 4095) / 4096, NULL);
        run(&s, a, sizes[i], NULL, 0, z, (sizes[i] + 4095) / 4096, NULL);
        assert_memory_equal(y, z, (size_t)((sizes[i] + 4095) / 4096) * sizeof *y);
    }

    static const int shapes[][3] = {{1, 1, 1}, {16, 16, 16}, {17, 33, 20}, {40, 20, 64}, {32, 16, 48}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        int sm = shapes[i][0], sn = shapes[i][1], sk = shapes[i][2];
        assert_ok(sample_matmul(&arena, sm, sn, sk, SAMPLE_RIGHT, &k, &err));
        s = simplified(&k);
        run(&k, a, sm * sk, b, sk * sn, y, sm * sn, NULL);
        run(&s, a, sm * sk, b, sk * sn, z, sm * sn, NULL);
        assert_memory_equal(y, z, (size_t)(sm * sn) * sizeof *y);
    }
}

static void unrolls_forwards_and_hoists(void **state) {
    (void)state;
    ls_kernel k;
    assert_ok(sample_matmul(&arena, 32, 32, 64, SAMPLE_RIGHT, &k, &err));
    ls_kernel s = simplified(&k);
    /* tiles divide the shape: no predicate is left; 4 trips over k unrolled, 16 terms each; the sum is one chain */
    assert_int_equal(count_op(&s, LS_K_LOOP), 0);
    assert_int_equal(count_op(&s, LS_K_IF), 0);
    assert_int_equal(count_op(&s, LS_K_LT), 0);
    assert_int_equal(count_op(&s, LS_K_VAR), 0);
    assert_int_equal(count_op(&s, LS_K_BARRIER), 8);
    int float_muls = 0;
    for (int i = 0; i < s.n_body; i++) {
        float_muls += s.body[i].op == LS_K_MUL && s.body[i].dtype == LS_F32;
        assert_true(s.body[i].op != LS_K_LOAD || s.body[i].src[1] == LS_VAL_NONE);
    }
    assert_int_equal(float_muls, 64);

    /* a loop that stays: what no iteration changes stands before it */
    assert_ok(sample_matmul(&arena, 32, 32, 480, SAMPLE_RIGHT, &k, &err));
    s = simplified(&k);
    assert_int_equal(count_op(&s, LS_K_LOOP), 1);
    assert_int_equal(count_op(&s, LS_K_IF), 0);
    bool inside = false;
    for (int i = 0; i < s.n_body; i++) {
        inside = s.body[i].op == LS_K_LOOP ? true : s.body[i].op == LS_K_END_LOOP ? false : inside;
        assert_false(inside && (s.body[i].op == LS_K_CONST || s.body[i].op == LS_K_LOCAL_ID));
    }
    assert_int_equal(count_op(&s, LS_K_SET), 1);
    assert_int_equal(count_op(&s, LS_K_GET), 2);
}

static void settles(void **state) {
    (void)state;
    ls_kernel k;
    assert_ok(sample_matmul(&arena, 17, 33, 100, SAMPLE_RIGHT, &k, &err));
    ls_kernel once = simplified(&k), twice = simplified(&once);
    assert_int_equal(once.n_body, twice.n_body);
    ls_text a, b;
    ls_text_init(&a, &heap);
    ls_text_init(&b, &heap);
    ls_kernel_print(&a, &once);
    ls_kernel_print(&b, &twice);
    assert_string_equal(a.data, b.data);
    ls_text_free(&a);
    ls_text_free(&b);
}

/* y[i] = a*b + c*d of constants of the thread, its parts made in one of two orders. */
static ls_kernel build_in_order(bool swapped) {
    ls_kb kb;
    ls_kb_init(&kb, &arena, "ordered", &err);
    int y = ls_kb_global(&kb, "y", LS_I32, LS_MEM_WRITE, 64);
    ls_kb_workgroup(&kb, 64, 1, 1);
    ls_val i, p, q;
    if (swapped) {
        q = ls_kb_xor(&kb, ls_kb_local_id(&kb, 0), ls_kb_i32(&kb, 9));
        p = ls_kb_shl(&kb, ls_kb_local_id(&kb, 0), ls_kb_i32(&kb, 2));
        i = ls_kb_local_id(&kb, 0);
    } else {
        i = ls_kb_local_id(&kb, 0);
        p = ls_kb_shl(&kb, i, ls_kb_i32(&kb, 2));
        q = ls_kb_xor(&kb, i, ls_kb_i32(&kb, 9));
    }
    ls_kb_mul(&kb, p, p); /* used by nothing */
    ls_kb_store(&kb, y, i, ls_kb_sub(&kb, p, q), LS_VAL_NONE);
    ls_kernel k;
    assert_ok(ls_kb_finish(&kb, &k));
    return simplified(&k);
}

static void building_order_leaves_no_trace(void **state) {
    (void)state;
    ls_kernel a = build_in_order(false), b = build_in_order(true);
    ls_text ta, tb;
    ls_text_init(&ta, &heap);
    ls_text_init(&tb, &heap);
    ls_kernel_print(&ta, &a);
    ls_kernel_print(&tb, &b);
    assert_string_equal(ta.data, tb.data);
    assert_string_equal(ta.data, "kernel ordered\n"
                                 "  workgroup 64 x 1 x 1, grid 1 x 1 x 1, shared 0 bytes\n"
                                 "  global y: i32[64] write\n"
                                 "  %0 = local_id i32.x\n"
                                 "  %1 = const i32 2\n"
                                 "  %2 = shl i32 %0, %1\n"
                                 "  %3 = const i32 9\n"
                                 "  %4 = xor i32 %0, %3\n"
                                 "  %5 = sub i32 %2, %4\n"
                                 "  store y %0, %5\n");
    ls_text_free(&ta);
    ls_text_free(&tb);
}

/* Random bodies: integer and float expressions, ifs, loops, variables; the results must not change. */
typedef struct generator {
    ls_kb kb;
    ls_rng rng;
    ls_val ints[40], floats[40], vars[6];
    int n_ints, n_floats, n_vars;
    int y_int;
} generator;

static uint32_t pick(generator *g, uint32_t n) {
    return (uint32_t)ls_rng_below(&g->rng, n);
}

static void put(generator *g, ls_val *list, int *n, ls_val v) {
    list[*n < 40 ? (*n)++ : (int)pick(g, 40)] = v;
}

static void random_value(generator *g) {
    static const ls_kop int_ops[] = {LS_K_ADD, LS_K_SUB, LS_K_MUL, LS_K_DIV, LS_K_REM, LS_K_MIN, LS_K_MAX,
                                     LS_K_AND, LS_K_OR,  LS_K_XOR, LS_K_SHL, LS_K_SHR, LS_K_ADD, LS_K_MUL};
    static const ls_kop float_ops[] = {LS_K_ADD, LS_K_SUB, LS_K_MUL, LS_K_MIN, LS_K_MAX};
    ls_kb *kb = &g->kb;
    ls_val a = g->ints[pick(g, (uint32_t)g->n_ints)], b = g->ints[pick(g, (uint32_t)g->n_ints)];
    ls_val f = g->floats[pick(g, (uint32_t)g->n_floats)], h = g->floats[pick(g, (uint32_t)g->n_floats)];
    uint32_t kind = pick(g, 10);
    if (kind < 4) {
        put(g, g->ints, &g->n_ints, ls_kb_pure(kb, int_ops[pick(g, 14)], a, b, LS_VAL_NONE, 0));
    } else if (kind < 5) {
        put(g, g->ints, &g->n_ints, ls_kb_i32(kb, (int32_t)pick(g, 7) - 2));
    } else if (kind < 6) {
        put(g, g->ints, &g->n_ints, ls_kb_select(kb, ls_kb_lt(kb, a, b), b, a));
    } else if (kind < 7) {
        put(g, g->ints, &g->n_ints, ls_kb_cast(kb, ls_kb_le(kb, f, h), LS_I32));
    } else if (kind < 9) {
        put(g, g->floats, &g->n_floats, ls_kb_pure(kb, float_ops[pick(g, 5)], f, h, LS_VAL_NONE, 0));
    } else {
        put(g, g->floats, &g->n_floats, ls_kb_cast(kb, a, LS_F32));
    }
}

static void random_block(generator *g, int depth, ls_val index) {
    ls_kb *kb = &g->kb;
    int n_ints = g->n_ints, n_floats = g->n_floats, n_vars = g->n_vars;
    ls_val ints[40], floats[40];
    memcpy(ints, g->ints, sizeof ints);
    memcpy(floats, g->floats, sizeof floats);
    if (index != LS_VAL_NONE) {
        put(g, g->ints, &g->n_ints, index);
    }
    for (int i = 0; i < 12; i++) {
        uint32_t kind = pick(g, 14);
        if (kind < 8) {
            random_value(g);
        } else if (kind == 8 && g->n_vars < 6) {
            g->vars[g->n_vars++] = ls_kb_var(kb, g->ints[pick(g, (uint32_t)g->n_ints)]);
        } else if (kind < 11 && g->n_vars) {
            ls_kb_set(kb, g->vars[pick(g, (uint32_t)g->n_vars)], g->ints[pick(g, (uint32_t)g->n_ints)]);
        } else if (kind < 12 && g->n_vars) {
            put(g, g->ints, &g->n_ints, ls_kb_get(kb, g->vars[pick(g, (uint32_t)g->n_vars)]));
        } else if (kind == 12 && depth < 3) {
            ls_val c =
                ls_kb_lt(kb, g->ints[pick(g, (uint32_t)g->n_ints)], g->ints[pick(g, (uint32_t)g->n_ints)]);
            ls_kb_if(kb, c);
            random_block(g, depth + 1, LS_VAL_NONE);
            if (pick(g, 2)) {
                ls_kb_else(kb);
                random_block(g, depth + 1, LS_VAL_NONE);
            }
            ls_kb_end_if(kb);
        } else if (kind == 13 && depth < 3) {
            ls_val lo = ls_kb_i32(kb, (int32_t)pick(g, 3));
            ls_val hi = pick(g, 2) ? ls_kb_i32(kb, (int32_t)pick(g, 9))
                                   : ls_kb_and(kb, g->ints[pick(g, (uint32_t)g->n_ints)], ls_kb_i32(kb, 3));
            ls_val index =
                ls_kb_loop(kb, lo, hi, ls_kb_i32(kb, 1 + (int32_t)pick(g, 2)), pick(g, 2) ? LS_KF_UNROLL : 0);
            random_block(g, depth + 1, index);
            ls_kb_end_loop(kb);
        }
    }
    /* values of this block are gone after it; what the variables took lives on */
    memcpy(g->ints, ints, sizeof ints);
    memcpy(g->floats, floats, sizeof floats);
    g->n_ints = n_ints;
    g->n_floats = n_floats;
    g->n_vars = n_vars;
}

static void random_bodies_keep_their_results(void **state) {
    (void)state;
    int smaller = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        generator g = {.rng = {seed, 0}};
        ls_kb *kb = &g.kb;
        ls_kb_init(kb, &arena, "random", &err);
        int x = ls_kb_global(kb, "x", LS_F32, LS_MEM_READ, 32),
            y = ls_kb_global(kb, "y", LS_I32, LS_MEM_WRITE, 32 * 8);
        ls_kb_workgroup(kb, 8, 2, 1);
        ls_kb_grid(kb, 0, 2, LS_VAL_NONE, 1);
        ls_val lid =
            ls_kb_add(kb, ls_kb_local_id(kb, 0), ls_kb_mul(kb, ls_kb_local_id(kb, 1), ls_kb_i32(kb, 8)));
        ls_val id = ls_kb_add(kb, ls_kb_mul(kb, ls_kb_group_id(kb, 0), ls_kb_i32(kb, 16)), lid);
        put(&g, g.ints, &g.n_ints, id);
        put(&g, g.ints, &g.n_ints, ls_kb_local_id(kb, 1));
        put(&g, g.ints, &g.n_ints, ls_kb_i32(kb, 3));
        put(&g, g.floats, &g.n_floats, ls_kb_load(kb, x, id, LS_VAL_NONE, LS_VAL_NONE, 1));
        g.vars[g.n_vars++] = ls_kb_var(kb, id);
        g.vars[g.n_vars++] = ls_kb_var(kb, lid);
        random_block(&g, 0, LS_VAL_NONE);
        for (int i = 0; i < 8; i++) {
            ls_val v = i < 2   ? ls_kb_get(kb, g.vars[i])
                       : i < 6 ? g.ints[pick(&g, (uint32_t)g.n_ints)]
                               : ls_kb_bitcast(kb, ls_kb_canon(kb, g.floats[pick(&g, (uint32_t)g.n_floats)]),
                                               LS_I32);
            ls_kb_store(kb, y, ls_kb_add(kb, ls_kb_mul(kb, id, ls_kb_i32(kb, 8)), ls_kb_i32(kb, i)), v,
                        LS_VAL_NONE);
        }
        ls_kernel k;
        assert_ok(ls_kb_finish(kb, &k));
        ls_kernel s = simplified(&k);
        float in[32];
        int32_t a[256], b[256];
        fill(in, 32, seed);
        in[5] = -0.0f;
        in[6] = 1e30f;
        ls_interp_buffer buffers[] = {{in, 32, false}, {a, 256, true}};
        ls_interp_launch launch = {buffers, NULL, 3, 0};
        assert_ok(ls_kernel_interp(&heap, &k, &launch, &err));
        buffers[1].data = b;
        assert_ok(ls_kernel_interp(&heap, &s, &launch, &err));
        if (memcmp(a, b, sizeof a)) {
            print_error("seed %d\n", (int)seed);
        }
        assert_memory_equal(a, b, sizeof a);
        smaller += s.n_body < k.n_body;
        ls_arena_free(&arena);
    }
    assert_true(smaller > 300);
}

static ls_val random_int(generator *g) {
    return g->ints[pick(g, (uint32_t)g->n_ints)];
}

static ls_val random_condition(generator *g, ls_val index, int depth) {
    ls_kb *kb = &g->kb;
    ls_val c = ls_kb_i32(kb, (int32_t)pick(g, 60) - 4), v = pick(g, 3) ? index : random_int(g);
    ls_val left, right;
    switch (pick(g, depth < 2 ? 7 : 4)) {
    case 0:
        return ls_kb_le(kb, c, v);
    case 1:
        return ls_kb_lt(kb, v, random_int(g));
    case 2:
        c = ls_kb_cast(kb, c, LS_U32);
        return ls_kb_lt(kb, ls_kb_cast(kb, v, LS_U32), c);
    case 3:
        return ls_kb_lt(kb, v, c);
    case 4:
        return ls_kb_not(kb, random_condition(g, index, depth + 1));
    case 5:
        left = random_condition(g, index, depth + 1);
        right = random_condition(g, index, depth + 1);
        return ls_kb_or(kb, left, right);
    default:
        left = random_condition(g, index, depth + 1);
        right = random_condition(g, index, depth + 1);
        return ls_kb_and(kb, left, right);
    }
}

/* Random indices under random conditions: what the verifier lets through never leaves its memory. */
static void what_is_proved_holds(void **state) {
    (void)state;
    int proved = 0, refused = 0, wrong = 0;
    for (uint64_t seed = 1; seed <= 6000; seed++) {
        generator g = {.rng = {seed, 0}};
        ls_kb *kb = &g.kb;
        ls_kb_init(kb, &arena, "proof", &err);
        int x = ls_kb_global(kb, "x", LS_I32, LS_MEM_READ, 48);
        ls_kb_workgroup(kb, 8, 4, 1);
        ls_kb_grid(kb, 0, 3, LS_VAL_NONE, 1);
        put(&g, g.ints, &g.n_ints, ls_kb_local_id(kb, 0));
        put(&g, g.ints, &g.n_ints, ls_kb_local_id(kb, 1));
        put(&g, g.ints, &g.n_ints, ls_kb_group_id(kb, 0));
        put(&g, g.ints, &g.n_ints, ls_kb_i32(kb, 5));
        put(&g, g.floats, &g.n_floats, ls_kb_f32(kb, 2.5f));
        g.vars[g.n_vars++] = ls_kb_var(kb, random_int(&g));
        ls_val lo = ls_kb_i32(kb, (int32_t)pick(&g, 9) - 4), hi = ls_kb_i32(kb, (int32_t)pick(&g, 40));
        put(&g, g.ints, &g.n_ints, ls_kb_loop(kb, lo, hi, ls_kb_i32(kb, 1 + (int32_t)pick(&g, 9)), 0));
        put(&g, g.ints, &g.n_ints, ls_kb_get(kb, g.vars[0]));
        for (uint32_t i = 0, n = 2 + pick(&g, 10); i < n; i++) {
            random_value(&g);
        }
        ls_val index = g.ints[g.n_ints - 1];
        ls_kb_set(kb, g.vars[0], random_int(&g));
        bool by_if = pick(&g, 2);
        ls_val condition = random_condition(&g, index, 0), zero = ls_kb_i32(kb, 0);
        if (by_if) {
            ls_kb_if(kb, condition);
            if (pick(&g, 3) == 0) {
                ls_kb_else(kb);
            }
        }
        ls_val last = random_condition(&g, index, 0);
        ls_kb_load(kb, x, index, by_if ? last : condition, zero, 1);
        if (by_if) {
            ls_kb_end_if(kb);
        }
        ls_kb_end_loop(kb);
        ls_kernel k;
        assert_ok(ls_kb_finish(kb, &k));
        bool pass = ls_kernel_verify(&heap, &k, &err) == LS_OK;
        ls_error_clear(&err);
        int32_t data[48] = {0};
        ls_interp_buffer buffer = {data, 48, false};
        ls_interp_launch launch = {&buffer, NULL, 0, 0};
        ls_status status = ls_kernel_interp(&heap, &k, &launch, &err);
        if (pass && status != LS_OK) {
            print_error("seed %d: %s\n", (int)seed, err.message);
            wrong++;
        }
        proved += pass;
        refused += !pass && status != LS_OK;
        ls_error_clear(&err);
        ls_arena_free(&arena);
    }
    assert_int_equal(wrong, 0);
    assert_true(proved > 1000); /* of which many only by their conditions */
    assert_true(refused > 300);
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    int failures = 0;
    for (long n = 0;; n++) {
        ls_kernel k, s;
        assert_ok(sample_matmul(&arena, 17, 33, 20, SAMPLE_RIGHT, &k, &err));
        atomic_store(&heap.fail_after, n);
        ls_status status = ls_kernel_simplify(&arena, &k, NULL, &s, &err);
        bool reached = atomic_load(&heap.fail_after) < 0;
        atomic_store(&heap.fail_after, -1);
        ls_arena_free(&arena);
        assert_int_equal(atomic_load(&heap.used), 0);
        if (!reached) {
            assert_ok(status);
            break;
        }
        assert_int_equal(status, LS_ERR_MEMORY);
        ls_error_clear(&err);
        failures++;
    }
    assert_true(failures > 30);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(samples_keep_their_results),
        TEST(unrolls_forwards_and_hoists),
        TEST(settles),
        TEST(building_order_leaves_no_trace),
        TEST(random_bodies_keep_their_results),
        TEST(what_is_proved_holds),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
