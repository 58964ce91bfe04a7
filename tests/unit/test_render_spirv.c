/* The SPIR-V renderer: what spirv-val says about every instruction in every type, and that the same kernel gives the same
 * words. Where the build found no SPIRV-Tools the validating tests are skipped (Debian: spirv-tools). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kir_fixture.h"
#include "kir_samples.h"
#include "render/spirv.h"
#include "support/rendered.h"
#include <stdio.h>
#include <unistd.h>

static const ls_spirv_options plain, controls = {.hide_zero = true,
                                                 .rte32 = true,
                                                 .rte16 = true,
                                                 .rte64 = true,
                                                 .denorm_preserve32 = true,
                                                 .denorm_preserve16 = true,
                                                 .denorm_preserve64 = true,
                                                 .nan_preserve32 = true};

static uint32_t *render(const ls_kernel *kernel, const ls_spirv_options *options, size_t *out_n) {
    uint32_t *words;
    assert_ok(ls_render_spirv(&arena, kernel, options, &words, out_n, &err));
    return words;
}

static bool have_validator(void) {
    if (!rendered_spirv_vals()) {
        print_message("skipped: built without SPIRV-Tools (Debian: spirv-tools)\n");
    }
    return rendered_spirv_vals();
}

/* Prints the validator's words, and the kernel, when it is not content. */
static void validate(const ls_kernel *kernel, const ls_spirv_options *options) {
    size_t n;
    uint32_t *words = render(kernel, options, &n);
    char path[64], command[512];
    snprintf(path, sizeof path, "%s/lockstep-spirv-%ld.spv", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
             (long)getpid());
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(words, sizeof *words, n, file), n);
    assert_int_equal(fclose(file), 0);
    snprintf(command, sizeof command, "%s vulkan1.1,vulkan1.2,vulkan1.3 %s", rendered_spirv_vals(), path);
    int code = system(command);
    if (code) {
        ls_text text;
        ls_text_init(&text, &heap);
        ls_kernel_print(&text, kernel);
        print_error("%s\n", text.data);
        ls_text_free(&text);
    }
    assert_int_equal(code, 0);
    remove(path);
}

/* How often an instruction with these operands stands in the words; -1 takes any operand. */
static int count(const uint32_t *words, size_t n, spv_op op, int at, int64_t operand) {
    int found = 0;
    for (size_t i = 5; i < n; i += words[i] >> 16) {
        found +=
            (words[i] & 0xffff) == (uint32_t)op && (at < 0 || words[i + 1 + (size_t)at] == (uint32_t)operand);
    }
    return found;
}

/* ---- samples ---- */

static void samples_are_valid(void **state) {
    (void)state;
    ls_kernel kernel, simple;
    for (int i = 0; i < 3 && have_validator(); i++) {
        assert_ok(i == 0   ? sample_vadd(&arena, 1000, SAMPLE_RIGHT, &kernel, &err)
                  : i == 1 ? sample_reduce(&arena, 10000, SAMPLE_RIGHT, &kernel, &err)
                           : sample_matmul(&arena, 33, 17, 70, SAMPLE_RIGHT, &kernel, &err));
        validate(&kernel, &plain);
        assert_ok(ls_kernel_simplify(&arena, &kernel, NULL, &simple, &err));
        validate(&simple, &controls);
    }
}

static void same_kernel_same_words(void **state) {
    (void)state;
    ls_kernel a, b;
    size_t na, nb;
    assert_ok(sample_matmul(&arena, 33, 17, 70, SAMPLE_RIGHT, &a, &err));
    assert_ok(sample_matmul(&arena, 33, 17, 70, SAMPLE_RIGHT, &b, &err));
    uint32_t *x = render(&a, &plain, &na), *y = render(&b, &plain, &nb);
    assert_int_equal(na, nb);
    assert_memory_equal(x, y, na * sizeof *x);
    assert_int_equal(x[0], 0x07230203);
    assert_int_equal(x[1], 0x00010300);
}

/* Each float product and sum is barred from fusion; the fast ones are not. */
static void exact_floats_are_not_contracted(void **state) {
    (void)state;
    ls_kernel kernel;
    size_t n;
    assert_ok(sample_matmul(&arena, 16, 16, 16, SAMPLE_RIGHT, &kernel, &err));
    uint32_t *words = render(&kernel, &plain, &n);
    int floats = count(words, n, SPV_F_ADD, -1, 0) + count(words, n, SPV_F_MUL, -1, 0);
    assert_int_equal(floats, 2);
    assert_int_equal(count(words, n, SPV_DECORATE, 1, SPV_DECO_NO_CONTRACTION), floats);
    for (int i = 0; i < kernel.n_body; i++) {
        kernel.body[i].flags |= kernel.body[i].dtype == LS_F32 ? LS_KF_FAST : 0;
    }
    words = render(&kernel, &plain, &n);
    assert_int_equal(count(words, n, SPV_DECORATE, 1, SPV_DECO_NO_CONTRACTION), 0);
}

/* A zero that is hidden is no constant, wherever it is used. */
static void zeros_are_hidden(void **state) {
    (void)state;
    ls_kernel kernel;
    size_t n;
    assert_ok(sample_reduce(&arena, 10000, SAMPLE_RIGHT, &kernel, &err));
    for (int hide = 0; hide < 2; hide++) {
        uint32_t *words = render(&kernel, &(ls_spirv_options){.hide_zero = hide}, &n);
        uint32_t f32 = 0;
        int zeros = 0;
        for (size_t i = 5; i < n; i += words[i] >> 16) {
            f32 = words[i] == (3u << 16 | SPV_TYPE_FLOAT) && words[i + 2] == 32 ? words[i + 1] : f32;
            zeros += words[i] == (4u << 16 | SPV_CONSTANT) && words[i + 1] == f32 && words[i + 3] == 0;
        }
        assert_int_equal(zeros, !hide);
    }
}

/* ---- every instruction ---- */

typedef struct build {
    ls_kb kb;
    int out[LS_DTYPE_COUNT][5]; /* a memory for each type and number of lanes */
    ls_val at;
} build;

static void keep(build *b, ls_val value) {
    const ls_ins *ins = &b->kb.kernel.body[value];
    int *out = &b->out[ins->dtype][ins->lanes];
    if (ins->lanes == 1) {
        ls_kb_store(&b->kb, *out, b->at, value, ls_kb_lt(&b->kb, b->at, ls_kb_i32(&b->kb, 32)));
    } else {
        ls_kb_store(&b->kb, *out, ls_kb_mul(&b->kb, b->at, ls_kb_i32(&b->kb, 4)), value, LS_VAL_NONE);
    }
}

static void begin(build *b, const char *name) {
    memset(b, 0, sizeof *b);
    ls_kb_init(&b->kb, &arena, name, &err);
    ls_kb_workgroup(&b->kb, 32, 1, 1);
}

static void pure(build *b, ls_dtype t, int lanes, uint32_t flags) {
    ls_kb *kb = &b->kb;
    ls_val i = lanes == 1 ? b->at : ls_kb_mul(kb, b->at, ls_kb_i32(kb, 4));
    ls_val x = ls_kb_load(kb, b->out[t][lanes], i, LS_VAL_NONE, LS_VAL_NONE, lanes);
    ls_val y = ls_kb_load(kb, b->out[t][lanes], i, LS_VAL_NONE, LS_VAL_NONE, lanes);
    ls_val less = LS_VAL_NONE;
    for (int op = 0; op < LS_K_COUNT; op++) {
        if (ls_kops[op].kind != LS_KC_PURE || op == LS_K_CAST || op == LS_K_BITCAST || op == LS_K_SELECT) {
            continue;
        }
        ls_kb trial = *kb; /* whether the type has the instruction, the rules know */
        ls_error ignored = {0};
        trial.err = &ignored;
        int n = ls_kops[op].sources;
        if (ls_kb_pure(&trial, (ls_kop)op, x, n > 1 ? y : LS_VAL_NONE, n > 2 ? x : LS_VAL_NONE, flags) ==
            LS_VAL_NONE) {
            continue;
        }
        ls_val r = ls_kb_pure(kb, (ls_kop)op, x, n > 1 ? y : LS_VAL_NONE, n > 2 ? x : LS_VAL_NONE, flags);
        less = op == LS_K_LT ? r : less;
        keep(b, r);
    }
    keep(b, ls_kb_select(kb, less, x, y));
    for (int to = 0; to < LS_DTYPE_COUNT; to++) {
        bool narrow = to != LS_BOOL && ls_dtype_bits((ls_dtype)to) < 32 && to != LS_F16;
        if (b->out[to][lanes] && !narrow) {
            keep(b, ls_kb_cast(kb, x, (ls_dtype)to));
            if (ls_dtype_size((ls_dtype)to) == ls_dtype_size(t) && t != LS_BOOL && to != LS_BOOL) {
                keep(b, ls_kb_bitcast(kb, x, (ls_dtype)to));
            }
        }
    }
    if (lanes == 1) {
        ls_val two = ls_kb_join(kb, x, y), four = ls_kb_join(kb, two, ls_kb_splat(kb, x, 2));
        keep(b, two);
        keep(b, ls_kb_insert(kb, four, ls_kb_extract(kb, two, 1), 3));
    }
}

static const ls_dtype register_types[] = {LS_BOOL, LS_I32, LS_U32, LS_F32, LS_I64, LS_U64, LS_F64};

static void every_instruction_is_valid(void **state) {
    (void)state;
    for (size_t t = 0; t < sizeof register_types / sizeof *register_types && have_validator(); t++) {
        for (int lanes = 1; lanes <= 4; lanes *= 2) {
            for (uint32_t flags = 0; flags <= LS_KF_FAST; flags += LS_KF_FAST) {
                build b;
                begin(&b, "pure");
                for (size_t u = 0; u < sizeof register_types / sizeof *register_types; u++) {
                    for (int l = 1; l <= 4; l *= 2) {
                        b.out[register_types[u]][l] =
                            ls_kb_global(&b.kb, "m", register_types[u], LS_MEM_READ_WRITE, 128);
                    }
                }
                b.out[LS_BOOL][1] = b.out[LS_BOOL][1]
                                        ? b.out[LS_BOOL][1]
                                        : ls_kb_global(&b.kb, "b", LS_BOOL, LS_MEM_READ_WRITE, 128);
                b.at = ls_kb_local_id(&b.kb, 0);
                pure(&b, register_types[t], lanes, flags);
                ls_kernel kernel;
                assert_ok(ls_kb_finish(&b.kb, &kernel));
                validate(&kernel, flags ? &plain : &controls);
            }
        }
    }
}

/* Bytes and halves between memory and registers. */
static void narrow_memory_is_valid(void **state) {
    (void)state;
    static const ls_dtype narrow[] = {LS_BOOL, LS_U8, LS_I8, LS_U16, LS_I16, LS_F16, LS_BF16};
    for (size_t t = 0; t < sizeof narrow / sizeof *narrow && have_validator(); t++) {
        for (int space = 0; space < 2; space++) {
            build b;
            begin(&b, "narrow");
            ls_kb *kb = &b.kb;
            int in = space ? ls_kb_shared(kb, "in", narrow[t], 64)
                           : ls_kb_global(kb, "in", narrow[t], LS_MEM_READ_WRITE, 64);
            int out = ls_kb_global(kb, "out", LS_F32, LS_MEM_WRITE, 64);
            ls_val i = ls_kb_local_id(kb, 0), all = ls_kb_lt(kb, i, ls_kb_i32(kb, 9));
            for (int lanes = 1; lanes <= 4; lanes *= 2) {
                ls_val at = ls_kb_mul(kb, i, ls_kb_i32(kb, 4));
                ls_val other = ls_kb_splat(kb, ls_kb_const_bits(kb, narrow[t], 1), lanes);
                ls_val v = ls_kb_load(kb, in, at, all, other, lanes);
                ls_val f = narrow[t] == LS_BF16
                               ? ls_kb_cast(kb, ls_kb_cast(kb, ls_kb_bitcast(kb, v, LS_U16), LS_U32), LS_F32)
                               : ls_kb_cast(kb, v, LS_F32);
                ls_kb_store(kb, out, at, f, all);
                ls_kb_store(kb, in, at, narrow[t] == LS_F16 ? ls_kb_cast(kb, f, LS_F16) : v, all);
            }
            ls_kernel kernel;
            assert_ok(ls_kb_finish(kb, &kernel));
            validate(&kernel, &controls);
        }
    }
}

static void threads_and_parameters_are_valid(void **state) {
    (void)state;
    build b;
    begin(&b, "threads");
    ls_kb *kb = &b.kb;
    static const ls_dtype types[] = {LS_I32, LS_U32,  LS_I64, LS_U64, LS_F32,
                                     LS_F64, LS_BOOL, LS_U8,  LS_I16, LS_F16};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        char name[8];
        snprintf(name, sizeof name, "p%d", (int)t);
        int p = ls_kb_param(kb, name, types[t], 0, types[t] == LS_BOOL ? 1 : 100);
        b.out[types[t]][1] = ls_kb_global(kb, name, types[t], LS_MEM_READ_WRITE, 32);
        b.at = ls_kb_local_id(kb, 0);
        keep(&b, ls_kb_get_param(kb, p));
    }
    ls_val i = ls_kb_local_id(kb, 2), j = ls_kb_add(kb, ls_kb_group_id(kb, 1), ls_kb_subgroup_id(kb));
    keep(&b, ls_kb_add(kb, i, ls_kb_add(kb, j, ls_kb_add(kb, ls_kb_lane_id(kb), ls_kb_subgroup_size(kb)))));
    int shared = ls_kb_shared(kb, "s", LS_U32, 30), counter = ls_kb_shared(kb, "c", LS_I32, 1);
    ls_val u = ls_kb_cast(kb, i, LS_U32), zero = ls_kb_i32(kb, 0), few = ls_kb_lt(kb, b.at, ls_kb_i32(kb, 3));
    for (int op = LS_K_ATOMIC_ADD; op <= LS_K_ATOMIC_OR; op++) {
        keep(&b, ls_kb_atomic(kb, (ls_kop)op, shared, zero, u, few));
        keep(&b, ls_kb_atomic(kb, (ls_kop)op, counter, zero, i, LS_VAL_NONE));
        keep(&b, ls_kb_atomic(kb, (ls_kop)op, b.out[LS_U32][1], zero, u, few));
        keep(&b, ls_kb_atomic(kb, (ls_kop)op, b.out[LS_U64][1], zero, ls_kb_cast(kb, i, LS_U64), few));
    }
    ls_kb_barrier(kb);
    ls_val quad = ls_kb_load(kb, shared, zero, few, ls_kb_splat(kb, u, 4), 4);
    ls_kb_store(kb, shared, ls_kb_mul(kb, b.at, ls_kb_i32(kb, 2)),
                ls_kb_splat(kb, ls_kb_extract(kb, quad, 2), 2), few);
    for (size_t t = 0; t < 6; t++) {
        ls_val v = ls_kb_load(kb, b.out[types[t]][1], b.at, LS_VAL_NONE, LS_VAL_NONE, 1);
        keep(&b, ls_kb_shuffle(kb, v, zero));
        keep(&b, ls_kb_shuffle_xor(kb, v, 3));
        keep(&b, ls_kb_subgroup(kb, LS_K_SUBGROUP_ADD, v, LS_KF_FAST));
        keep(&b, ls_kb_subgroup(kb, LS_K_SUBGROUP_MIN, v, LS_KF_FAST));
        keep(&b, ls_kb_subgroup(kb, LS_K_SUBGROUP_MAX, v, LS_KF_FAST));
    }
    ls_kernel kernel;
    assert_ok(ls_kb_finish(kb, &kernel));
    if (have_validator()) {
        validate(&kernel, &controls);
    }
}

static void control_flow_is_valid(void **state) {
    (void)state;
    build b;
    begin(&b, "control");
    ls_kb *kb = &b.kb;
    int out = ls_kb_global(kb, "out", LS_I64, LS_MEM_READ_WRITE, 64);
    ls_val i = ls_kb_cast(kb, ls_kb_local_id(kb, 0), LS_I64), zero = ls_kb_i64(kb, 0), one = ls_kb_i64(kb, 1);
    ls_val var = ls_kb_var(kb, zero);
    ls_val n = ls_kb_loop(kb, zero, ls_kb_i64(kb, 9), one, 0);
    ls_kb_if(kb, ls_kb_lt(kb, n, i));
    ls_val few = ls_kb_loop(kb, ls_kb_u32(kb, 0), ls_kb_u32(kb, 3), ls_kb_u32(kb, 1), LS_KF_UNROLL);
    ls_val inner = ls_kb_var(kb, ls_kb_cast(kb, few, LS_I64));
    ls_kb_store(kb, out, i, ls_kb_get(kb, inner), ls_kb_lt(kb, i, n));
    ls_kb_set(kb, var, ls_kb_add(kb, ls_kb_get(kb, var), ls_kb_get(kb, inner)));
    ls_kb_end_loop(kb);
    ls_kb_else(kb);
    ls_kb_if(kb, ls_kb_le(kb, i, one));
    ls_kb_store(kb, out, i, n, ls_kb_lt(kb, i, n));
    ls_kb_store(kb, out, ls_kb_add(kb, i, one), n, LS_VAL_NONE);
    ls_kb_end_if(kb);
    ls_kb_end_if(kb);
    ls_kb_end_loop(kb);
    ls_kb_store(kb, out, i, ls_kb_get(kb, var), ls_kb_lt(kb, i, ls_kb_i64(kb, 64)));
    ls_kernel kernel;
    assert_ok(ls_kb_finish(kb, &kernel));
    if (have_validator()) {
        validate(&kernel, &plain);
    }
}

/* Drivers put shared arrays side by side, and fragments must begin at multiples of 16 bytes: so must arrays, whatever stands
 * between them. spirv-val does not know fragments. */
static void shared_arrays_of_fragments_are_whole(void **state) {
    (void)state;
    enum { IDS = 512 };
    uint32_t size[IDS] = {0}, value[IDS] = {0};
    size_t n;
    int arrays = 0, matrices = 0;
    ls_kb kb;
    ls_kernel kernel;
    ls_kb_init(&kb, &arena, "fragments", &err);
    ls_kb_workgroup(&kb, 32, 1, 1);
    int lone = ls_kb_shared(&kb, "lone", LS_U32, 1), halves = ls_kb_shared(&kb, "halves", LS_F16, 16 * 24 + 1);
    int out = ls_kb_shared(&kb, "out", LS_F32, 16 * 20 + 2), flag = ls_kb_shared(&kb, "flag", LS_U32, 5);
    ls_val t = ls_kb_local_id(&kb, 0), zero = ls_kb_i32(&kb, 0);
    ls_kb_store(&kb, halves, t, ls_kb_bitcast(&kb, ls_kb_cast(&kb, t, LS_U16), LS_F16), LS_VAL_NONE);
    ls_kb_store(&kb, flag, zero, ls_kb_u32(&kb, 1), ls_kb_eq(&kb, t, zero));
    (void)ls_kb_atomic(&kb, LS_K_ATOMIC_OR, lone, zero, ls_kb_u32(&kb, 1), LS_VAL_NONE);
    ls_kb_barrier(&kb);
    ls_val part[2], sum = ls_kb_frag_fill(&kb, ls_kb_f32(&kb, 0), LS_KF_FRAG(LS_FRAG_C, 16, 16, 16));
    for (int i = 0; i < 2; i++) {
        part[i] = ls_kb_frag_load(&kb, halves, zero, ls_kb_i32(&kb, 24), LS_KF_FRAG(i ? LS_FRAG_B : LS_FRAG_A, 16, 16, 16));
    }
    ls_kb_frag_store(&kb, out, zero, ls_kb_frag_mma(&kb, part[0], part[1], sum), ls_kb_i32(&kb, 20), 0);
    assert_ok(ls_kb_finish(&kb, &kernel));
    const uint32_t *words = render(&kernel, &(ls_spirv_options){.coop_matrix = true}, &n);
    assert_true(words[3] <= IDS);
    for (size_t i = 5; i < n; i += words[i] >> 16) {
        const uint32_t *w = words + i;
        spv_op op = (spv_op)(w[0] & 0xffff);
        if (op == SPV_TYPE_INT || op == SPV_TYPE_FLOAT) {
            size[w[1]] = w[2] / 8;
        } else if (op == SPV_TYPE_VECTOR) {
            size[w[1]] = size[w[2]] * w[3];
        } else if (op == SPV_CONSTANT) {
            value[w[2]] = w[3];
        } else if (op == SPV_TYPE_ARRAY) {
            assert_int_equal(size[w[2]] * value[w[3]] % 16, 0);
            arrays++;
        }
        matrices += op == SPV_COOP_LOAD || op == SPV_COOP_STORE;
    }
    assert_int_equal(arrays, 4);
    assert_int_equal(matrices, 3);
}

static void limits_are_errors(void **state) {
    (void)state;
    ls_kb kb;
    ls_kernel kernel;
    uint32_t *words;
    size_t n;
    ls_kb_init(&kb, &arena, "halves", &err);
    int in = ls_kb_global(&kb, "in", LS_BF16, LS_MEM_READ, 4),
        out = ls_kb_global(&kb, "out", LS_F32, LS_MEM_WRITE, 4);
    ls_val i = ls_kb_local_id(&kb, 0), v = ls_kb_load(&kb, in, i, LS_VAL_NONE, LS_VAL_NONE, 1);
    ls_kb_store(&kb, out, i, ls_kb_cast(&kb, v, LS_F32), LS_VAL_NONE);
    assert_ok(ls_kb_finish(&kb, &kernel));
    assert_int_equal(ls_render_spirv(&arena, &kernel, NULL, &words, &n, &err), LS_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "bf16"));
    assert_null(words);
}

/* Every allocation fails once: an error, and nothing leaks (teardown). */
static void allocations_fail_cleanly(void **state) {
    (void)state;
    ls_kernel kernel;
    assert_ok(sample_matmul(&arena, 33, 17, 70, SAMPLE_RIGHT, &kernel, &err));
    int failures = 0;
    for (long after = 0; after < 1000; after++) {
        ls_arena own;
        uint32_t *words;
        size_t n;
        ls_arena_init(&own, &heap);
        atomic_store(&heap.fail_after, after);
        ls_error_clear(&err);
        ls_status status = ls_render_spirv(&own, &kernel, NULL, &words, &n, &err);
        atomic_store(&heap.fail_after, -1);
        ls_arena_free(&own);
        if (status == LS_OK) {
            assert_true(failures > 2);
            return;
        }
        assert_int_equal(status, LS_ERR_MEMORY);
        failures++;
    }
    fail_msg("it never succeeds");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(samples_are_valid, setup, teardown),
        cmocka_unit_test_setup_teardown(same_kernel_same_words, setup, teardown),
        cmocka_unit_test_setup_teardown(exact_floats_are_not_contracted, setup, teardown),
        cmocka_unit_test_setup_teardown(zeros_are_hidden, setup, teardown),
        cmocka_unit_test_setup_teardown(every_instruction_is_valid, setup, teardown),
        cmocka_unit_test_setup_teardown(narrow_memory_is_valid, setup, teardown),
        cmocka_unit_test_setup_teardown(threads_and_parameters_are_valid, setup, teardown),
        cmocka_unit_test_setup_teardown(control_flow_is_valid, setup, teardown),
        cmocka_unit_test_setup_teardown(shared_arrays_of_fragments_are_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(limits_are_errors, setup, teardown),
        cmocka_unit_test_setup_teardown(allocations_fail_cleanly, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
