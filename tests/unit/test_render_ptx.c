/* The PTX renderer: golden text, every instruction on every type through the assembler (ptxas, where it is installed), what
 * the text shows of unrolling, vectors and addresses, and division by constants, computed from the text. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kir/legal.h"
#include "render/render.h"
#include "unit/kir_fixture.h"
#include "unit/kir_samples.h"
#include "unit/ptx_assemble.h"

static const ls_ptx_options hopper = {.sm = 90, .isa = 80};

static ls_text rendered(const ls_kernel *kernel) {
    ls_kernel legal, simple;
    const ls_legal_param *params;
    ls_text text;
    assert_ok(ls_kernel_legalize(&arena, kernel, LS_KT_ALL, &legal, &params, &err));
    assert_ok(ls_kernel_simplify(&arena, &legal, NULL, &simple, &err));
    ls_text_init(&text, &heap);
    assert_ok(ls_render_ptx(&text, &simple, &hopper, &err));
    return text;
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) {
        n++;
    }
    return n;
}

static void reads_as_written(void **state) {
    (void)state;
    ls_kernel k;
    assert_ok(sample_vadd(&arena, 1000, SAMPLE_RIGHT, &k, &err));
    ls_text text = rendered(&k);
    const char *expected = ".version 8.0\n.target sm_90\n.address_size 64\n"
                           ".visible .entry main(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .align 4 .b8 words[4])\n"
                           ".reqntid 64, 1, 1\n{\n"
                           "  .reg .pred %p<1>;\n  .reg .b32 %r<8>;\n  .reg .b64 %d<6>;\n"
                           "  ld.param.u64 %d0, [p0];\n  cvta.to.global.u64 %d0, %d0;\n"
                           "  ld.param.u64 %d1, [p1];\n  cvta.to.global.u64 %d1, %d1;\n"
                           "  ld.param.u64 %d2, [p2];\n  cvta.to.global.u64 %d2, %d2;\n"
                           "  mov.u32 %r0, %ctaid.x;\n  mul.lo.s32 %r1, %r0, 64;\n"
                           "  mov.u32 %r2, %tid.x;\n  add.s32 %r3, %r1, %r2;\n"
                           "  mad.wide.s32 %d3, %r3, 4, %d0;\n  mad.wide.s32 %d4, %r3, 4, %d1;\n"
                           "  mad.wide.s32 %d5, %r3, 4, %d2;\n"
                           "  ld.param.b32 %r4, [words+0];\n  setp.lt.s32 %p0, %r3, %r4;\n"
                           "  mov.f32 %r5, 0f00000000;\n  @%p0 ld.global.f32 %r5, [%d3];\n"
                           "  mov.f32 %r6, 0f00000000;\n  @%p0 ld.global.f32 %r6, [%d4];\n"
                           "  add.rn.f32 %r7, %r5, %r6;\n  @%p0 st.global.f32 [%d5], %r7;\n"
                           "  ret;\n}\n";
    assert_string_equal(text.data, expected);
    ls_text_free(&text);
}

static void samples_assemble(void **state) {
    (void)state;
    ls_kernel k;
    if (!ptx_assembler()) {
        print_message("skipped: no ptxas in PATH or /usr/local/cuda/bin\n");
        skip();
    }
    assert_ok(sample_reduce(&arena, 10000, SAMPLE_RIGHT, &k, &err));
    ls_text text = rendered(&k);
    ptx_assembles("reduce", text.data);
    ls_text_free(&text);
    assert_ok(sample_matmul(&arena, 33, 40, 50, SAMPLE_RIGHT, &k, &err));
    text = rendered(&k);
    ptx_assembles("matmul", text.data);
    ls_text_free(&text);
}

/* The product's inner loop is unrolled; its accesses share addresses, with the constant part in the instruction. */
static void addresses_are_folded(void **state) {
    (void)state;
    ls_kernel k;
    assert_ok(sample_matmul(&arena, 33, 40, 160, SAMPLE_RIGHT, &k, &err));
    ls_text text = rendered(&k);
    assert_int_equal(count(text.data, "mul.rn.f32"), 16);
    assert_int_equal(count(text.data, "ld.shared"), 32);
    assert_int_equal(count(text.data, "bra L"), 1);
    assert_int_equal(count(text.data, "mad.lo.s32"), 3); /* one a root: the element stored, its row of a, its column of b */
    assert_non_null(strstr(text.data, "+1088]")); /* b's tile stands 1024 bytes in, its second row 64 more */
    ls_text_free(&text);
}

static void lanes_are_vectors(void **state) {
    (void)state;
    ls_kb kb;
    ls_kernel k;
    ls_kb_init(&kb, &arena, "copy", &err);
    int x = ls_kb_global(&kb, "x", LS_F32, LS_MEM_READ, 1024), y = ls_kb_global(&kb, "y", LS_F64, LS_MEM_WRITE, 1024);
    ls_kb_workgroup(&kb, 256, 1, 1);
    ls_kb_grid(&kb, 0, 1, LS_VAL_NONE, 1);
    ls_val i = ls_kb_mul(&kb, ls_kb_local_id(&kb, 0), ls_kb_i32(&kb, 4));
    ls_val v = ls_kb_load(&kb, x, i, LS_VAL_NONE, LS_VAL_NONE, 4);
    ls_kb_store(&kb, y, i, ls_kb_cast(&kb, v, LS_F64), LS_VAL_NONE);
    assert_ok(ls_kb_finish(&kb, &k));
    ls_text text = rendered(&k);
    assert_int_equal(count(text.data, "ld.global.v4.f32"), 1);
    assert_int_equal(count(text.data, "st.global.v2.f64"), 2); /* 16 bytes at a time */
    assert_int_equal(count(text.data, "+16]"), 1);
    if (ptx_assembler()) {
        ptx_assembles("copy", text.data);
    }
    ls_text_free(&text);
}

/* ---- every instruction ---- */

static const ls_dtype words[] = {LS_I32, LS_U32, LS_F32, LS_I64, LS_U64, LS_F64};
enum { N_WORDS = sizeof words / sizeof *words };

static bool fits(ls_kop op, ls_dtype t) {
    bool is_float = ls_dtype_is_float(t);
    switch (op) {
    case LS_K_FMA:
    case LS_K_SQRT:
    case LS_K_FLOOR:
    case LS_K_CEIL:
    case LS_K_TRUNC:
    case LS_K_RINT:
    case LS_K_CANON:
        return is_float;
    case LS_K_UMULHI:
        return t == LS_U32 || t == LS_U64;
    case LS_K_REM:
    case LS_K_POPCOUNT:
    case LS_K_AND:
    case LS_K_OR:
    case LS_K_XOR:
    case LS_K_NOT:
    case LS_K_SHL:
    case LS_K_SHR:
        return !is_float;
    case LS_K_CAST:
    case LS_K_BITCAST:
    case LS_K_SELECT:
        return false; /* below */
    default:
        return true;
    }
}

/* Every pure instruction, cast and choice of one type, on vectors of two and on a constant. */
static void all_of_type(ls_dtype t, ls_kernel *out) {
    ls_kb kb;
    ls_kb_init(&kb, &arena, "all", &err);
    int x = ls_kb_global(&kb, "x", t, LS_MEM_READ, 1024), y = ls_kb_global(&kb, "y", t, LS_MEM_WRITE, 1 << 20);
    int p = ls_kb_param(&kb, "p", t, 0, 100), z = ls_kb_global(&kb, "z", LS_BOOL, LS_MEM_READ_WRITE, 1 << 20);
    ls_kb_workgroup(&kb, 32, 1, 1);
    ls_kb_grid(&kb, 0, 1, LS_VAL_NONE, 1);
    ls_val i = ls_kb_mul(&kb, ls_kb_local_id(&kb, 0), ls_kb_i32(&kb, 2));
    ls_val v[3] = {ls_kb_load(&kb, x, i, LS_VAL_NONE, LS_VAL_NONE, 2), ls_kb_splat(&kb, ls_kb_get_param(&kb, p), 2), 0};
    v[2] = ls_kb_splat(&kb, ls_kb_const_bits(&kb, t, 7), 2);
    int32_t at = 0;
    for (int op = 0; op < LS_K_COUNT; op++) {
        if (ls_kops[op].kind != LS_KC_PURE || !fits((ls_kop)op, t)) {
            continue;
        }
        for (int second = 1; second < 3; second++) {
            int n = ls_kops[op].sources;
            for (uint32_t flags = 0; flags <= LS_KF_FAST; flags++) {
                ls_val r = ls_kb_pure(&kb, (ls_kop)op, v[0], n > 1 ? v[second] : LS_VAL_NONE, n > 2 ? v[2] : LS_VAL_NONE, flags);
                ls_val to = ls_kb_add(&kb, i, ls_kb_i32(&kb, 64 * ++at));
                ls_kb_store(&kb, op >= LS_K_EQ && op <= LS_K_LE ? z : y, to, r, LS_VAL_NONE);
            }
        }
    }
    for (int from = 0; from < N_WORDS; from++) {
        ls_val r = ls_kb_cast(&kb, ls_kb_cast(&kb, v[0], words[from]), t);
        r = ls_kb_select(&kb, ls_kb_lt(&kb, v[0], v[1]), r, v[2]);
        ls_kb_store(&kb, y, ls_kb_add(&kb, i, ls_kb_i32(&kb, 64 * ++at)), r, LS_VAL_NONE);
    }
    ls_val b = ls_kb_cast(&kb, v[0], LS_BOOL), c = ls_kb_load(&kb, z, i, LS_VAL_NONE, LS_VAL_NONE, 2);
    static const ls_kop bools[] = {LS_K_AND, LS_K_OR, LS_K_XOR, LS_K_EQ, LS_K_NE, LS_K_LT, LS_K_LE};
    for (size_t o = 0; o < sizeof bools / sizeof *bools; o++) {
        b = ls_kb_select(&kb, b, c, ls_kb_not(&kb, ls_kb_pure(&kb, bools[o], b, c, LS_VAL_NONE, 0)));
    }
    ls_kb_store(&kb, z, i, b, LS_VAL_NONE);
    ls_kb_store(&kb, y, i, ls_kb_cast(&kb, b, t), ls_kb_extract(&kb, b, 1));
    assert_ok(ls_kb_finish(&kb, out));
}

static void instructions_assemble(void **state) {
    (void)state;
    for (int t = 0; t < N_WORDS; t++) {
        ls_kernel k;
        all_of_type(words[t], &k);
        ls_text text = rendered(&k);
        assert_true(count(text.data, "\n") > 100);
        if (ptx_assembler()) {
            ptx_assembles(ls_dtype_name(words[t]), text.data);
        }
        ls_text_free(&text);
    }
}

static void threads_together_assemble(void **state) {
    (void)state;
    static const ls_dtype types[] = {LS_I32, LS_U32, LS_F32, LS_I64, LS_U64, LS_F64, LS_U8};
    for (int t = 0; t < 7; t++) {
        ls_kb kb;
        ls_kernel k;
        ls_kb_init(&kb, &arena, "together", &err);
        int y = ls_kb_global(&kb, "y", types[t], LS_MEM_READ_WRITE, 4096), s = ls_kb_shared(&kb, "s", types[t], 20000);
        ls_kb_workgroup(&kb, 16, 4, 2);
        ls_kb_grid(&kb, 0, 1, LS_VAL_NONE, 1);
        ls_val i = ls_kb_add(&kb, ls_kb_mul(&kb, ls_kb_subgroup_id(&kb), ls_kb_i32(&kb, 32)), ls_kb_lane_id(&kb));
        ls_val v = ls_kb_load(&kb, y, i, LS_VAL_NONE, LS_VAL_NONE, 1), zero = ls_kb_const_bits(&kb, types[t], 0);
        if (types[t] != LS_U8) {
            v = ls_kb_subgroup(&kb, LS_K_SUBGROUP_ADD, v, LS_KF_FAST);
            v = ls_kb_subgroup(&kb, LS_K_SUBGROUP_MIN, ls_kb_subgroup(&kb, LS_K_SUBGROUP_MAX, v, 0), 0);
        }
        v = ls_kb_shuffle_xor(&kb, ls_kb_shuffle(&kb, v, ls_kb_rem(&kb, ls_kb_add(&kb, i, ls_kb_i32(&kb, 1)), ls_kb_i32(&kb, 32))), 5);
        ls_kb_store(&kb, s, i, v, LS_VAL_NONE);
        ls_kb_barrier(&kb);
        ls_val some = ls_kb_lt(&kb, i, ls_kb_i32(&kb, 100));
        if (ls_dtype_is_int(types[t]) && types[t] != LS_U8) {
            for (int op = LS_K_ATOMIC_ADD; op <= LS_K_ATOMIC_OR; op++) {
                v = ls_kb_atomic(&kb, (ls_kop)op, op % 2 ? y : s, i, v, op == LS_K_ATOMIC_MIN ? some : LS_VAL_NONE);
            }
        }
        ls_val sum = ls_kb_var(&kb, v), n = ls_kb_loop(&kb, ls_kb_i32(&kb, 0), i, ls_kb_i32(&kb, 3), 0);
        ls_kb_if(&kb, ls_kb_lt(&kb, n, ls_kb_i32(&kb, 9)));
        ls_kb_set(&kb, sum, ls_kb_load(&kb, s, n, some, zero, 1));
        ls_kb_else(&kb);
        ls_kb_set(&kb, sum, ls_kb_load(&kb, s, i, LS_VAL_NONE, LS_VAL_NONE, 1));
        ls_kb_end_if(&kb);
        ls_kb_end_loop(&kb);
        ls_kb_store(&kb, y, i, ls_kb_get(&kb, sum), LS_VAL_NONE);
        assert_ok(ls_kb_finish(&kb, &k));
        ls_text text = rendered(&k);
        assert_int_equal(strstr(text.data, ".extern .shared") != NULL, 20000 * ls_dtype_size(types[t]) > 49152);
        if (ptx_assembler()) {
            ptx_assembles(ls_dtype_name(types[t]), text.data);
        }
        ls_text_free(&text);
    }
}

static void fragments_assemble(void **state) {
    (void)state;
    static const ls_dtype types[] = {LS_F16, LS_BF16, LS_F32};
    for (int v = 0; v < 12; v++) {
        ls_dtype t = types[v % 3];
        bool columns = v / 3 % 2, runtime = v / 6;
        ls_kb kb;
        ls_kernel k;
        ls_kb_init(&kb, &arena, "fragments", &err);
        int a = ls_kb_global(&kb, "a", t, LS_MEM_READ, 4096), b = ls_kb_shared(&kb, "b", t, 4096);
        int c = ls_kb_global(&kb, "c", LS_F32, LS_MEM_WRITE, 4096), p = ls_kb_param(&kb, "stride", LS_I32, 64, 64);
        ls_kb_workgroup(&kb, 32, 1, 1);
        ls_kb_grid(&kb, 0, 1, LS_VAL_NONE, 1);
        ls_val stride = runtime ? ls_kb_get_param(&kb, p) : ls_kb_i32(&kb, 64), at = ls_kb_i32(&kb, 128);
        uint32_t layout = columns ? LS_KF_FRAG_COLS : 0;
        ls_val zero = ls_kb_frag_fill(&kb, ls_kb_f32(&kb, 0), LS_KF_FRAG(LS_FRAG_C, 16, 16, 16));
        ls_val x = ls_kb_frag_load(&kb, a, at, stride, LS_KF_FRAG(LS_FRAG_A, 16, 16, 16) | layout);
        ls_val y = ls_kb_frag_load(&kb, b, at, stride, LS_KF_FRAG(LS_FRAG_B, 16, 16, 16) | layout);
        ls_val sum = ls_kb_var(&kb, zero);
        ls_kb_set(&kb, sum, ls_kb_frag_mma(&kb, x, y, ls_kb_get(&kb, sum)));
        ls_kb_frag_store(&kb, c, at, ls_kb_get(&kb, sum), stride, layout);
        assert_ok(ls_kb_finish(&kb, &k));
        ls_text text = rendered(&k);
        assert_int_equal(count(text.data, "mma.sync"), t == LS_F32 ? 4 : 2);
        if (ptx_assembler()) {
            ptx_assembles("fragments", text.data);
        }
        ls_text_free(&text);
    }
}

/* Four words go straight to shared memory where nobody looks at it before the next barrier. */
static void copies_are_asynchronous(void **state) {
    (void)state;
    for (int look = 0; look < 3; look++) { /* nobody; before the barrier; no barrier follows */
        ls_kb kb;
        ls_kernel k;
        ls_kb_init(&kb, &arena, "copies", &err);
        int x = ls_kb_global(&kb, "x", LS_U32, LS_MEM_READ, 128), y = ls_kb_global(&kb, "y", LS_U32, LS_MEM_WRITE, 128);
        int s = ls_kb_shared(&kb, "s", LS_U32, 128), other = ls_kb_shared(&kb, "other", LS_U32, 128);
        ls_kb_workgroup(&kb, 32, 1, 1);
        ls_kb_grid(&kb, 0, 1, LS_VAL_NONE, 1);
        ls_val i = ls_kb_mul(&kb, ls_kb_local_id(&kb, 0), ls_kb_i32(&kb, 4));
        ls_kb_store(&kb, s, i, ls_kb_load(&kb, x, i, LS_VAL_NONE, LS_VAL_NONE, 4), LS_VAL_NONE);
        ls_kb_store(&kb, other, i, ls_kb_u32(&kb, 1), LS_VAL_NONE);
        ls_val seen = ls_kb_load(&kb, look == 1 ? s : other, i, LS_VAL_NONE, LS_VAL_NONE, 1);
        if (look < 2) {
            ls_kb_barrier(&kb);
        }
        seen = ls_kb_add(&kb, seen, ls_kb_load(&kb, s, i, LS_VAL_NONE, LS_VAL_NONE, 1));
        ls_kb_store(&kb, y, i, seen, LS_VAL_NONE);
        assert_ok(ls_kb_finish(&kb, &k));
        ls_text text = rendered(&k);
        assert_int_equal(count(text.data, "cp.async.cg.shared.global"), look == 0);
        assert_int_equal(count(text.data, "cp.async.wait_all;\n  bar.sync"), look == 0);
        assert_int_equal(count(text.data, "ld.global.v4.u32"), look != 0);
        if (ptx_assembler()) {
            ptx_assembles("copies", text.data);
        }
        ls_text_free(&text);
    }
}

/* Fragments of halves out of words of shared memory, four matrices at a time; the constant part of the place folded. */
static void fragments_by_matrices(void **state) {
    (void)state;
    for (int v = 0; v < 8; v++) {
        bool columns = v & 1, misaligned = v & 2, is_b = v & 4;
        ls_kb kb;
        ls_kernel k;
        ls_kb_init(&kb, &arena, "matrices", &err);
        int s = ls_kb_shared(&kb, "s", LS_U32, 4096), c = ls_kb_global(&kb, "c", LS_F32, LS_MEM_WRITE, 4096);
        ls_kb_workgroup(&kb, 32, 1, 1);
        ls_kb_grid(&kb, 0, 1, LS_VAL_NONE, 1);
        ls_kb_store(&kb, s, ls_kb_local_id(&kb, 0), ls_kb_u32(&kb, 0), LS_VAL_NONE);
        ls_kb_barrier(&kb);
        ls_val at = ls_kb_i32(&kb, misaligned ? 132 : 128), stride = ls_kb_i32(&kb, 72), zero = ls_kb_i32(&kb, 0);
        uint32_t layout = columns ? LS_KF_FRAG_COLS : 0;
        ls_val a = ls_kb_frag_load_as(&kb, s, LS_F16, is_b ? zero : at, stride, LS_KF_FRAG(LS_FRAG_A, 16, 16, 16) | layout);
        ls_val b = ls_kb_frag_load_as(&kb, s, LS_F16, is_b ? at : zero, stride, LS_KF_FRAG(LS_FRAG_B, 16, 16, 16) | layout);
        ls_val sum = ls_kb_frag_fill(&kb, ls_kb_f32(&kb, 0), LS_KF_FRAG(LS_FRAG_C, 16, 16, 16));
        ls_kb_frag_store(&kb, c, zero, ls_kb_frag_mma(&kb, a, b, sum), ls_kb_i32(&kb, 16), 0);
        assert_ok(ls_kb_finish(&kb, &k));
        ls_text text = rendered(&k);
        assert_int_equal(count(text.data, "ldmatrix.sync.aligned.m8n8.x4"), misaligned ? 1 : 2);
        assert_int_equal(count(text.data, ".x4.trans"), !misaligned || columns == is_b);
        assert_int_equal(strstr(text.data, "+256];") != NULL, !misaligned); /* 128 halves */
        if (ptx_assembler()) {
            ptx_assembles("matrices", text.data);
        }
        ls_text_free(&text);
    }
}

/* ---- division by constants ---- */

/* A machine for straight lines of integer PTX: registers %r and %d by number. */
typedef struct machine {
    uint64_t r[64], d[64];
} machine;

static uint64_t *target_of(machine *m, const char *name) {
    return (name[1] == 'r' ? m->r : m->d) + atoi(name + 2);
}

static uint64_t operand_of(machine *m, const char *text) {
    return text[0] == '%' ? *target_of(m, text) : (uint64_t)strtoull(text, NULL, 0);
}

static int64_t extended(uint64_t v, int width) {
    return width == 32 ? (int64_t)(int32_t)v : (int64_t)v;
}

static void step(machine *m, const char *line) {
    char op[32], dst[16], s[3][32] = {"0", "0", "0"};
    int n = sscanf(line, " %31s %15[^,], %31[^,;], %31[^,;], %31[^;];", op, dst, s[0], s[1], s[2]);
    int width = strstr(op, "64") ? 64 : 32;
    bool is_signed = strstr(op, ".s") != NULL;
    uint64_t mask = width == 64 ? ~(uint64_t)0 : 0xffffffff;
    uint64_t a = operand_of(m, s[0]) & mask, b = operand_of(m, s[1]) & mask, c = operand_of(m, s[2]) & mask, v;
    assert_true(n >= 4);
    if (!strncmp(op, "mul.hi", 6)) {
        __int128 wide = is_signed ? (__int128)extended(a, width) * extended(b, width) : 0;
        v = is_signed ? (uint64_t)(wide >> width) : (uint64_t)((unsigned __int128)a * b >> width);
    } else if (!strncmp(op, "mad.lo", 6)) {
        v = a * b + c;
    } else if (!strncmp(op, "add", 3)) {
        v = a + b;
    } else if (!strncmp(op, "sub", 3)) {
        v = a - b;
    } else if (!strncmp(op, "and", 3)) {
        v = a & b;
    } else if (!strncmp(op, "shr", 3)) {
        v = is_signed ? (uint64_t)(extended(a, width) >> b) : a >> b;
    } else {
        fail_msg("an instruction that the machine lacks: %s", line);
        return;
    }
    *target_of(m, dst) = v & mask;
}

static void check_division(ls_kop op, ls_dtype t, uint64_t divisor) {
    ls_kb kb;
    ls_kernel k;
    bool wide = ls_dtype_size(t) == 8;
    ls_kb_init(&kb, &arena, "divide", &err);
    int x = ls_kb_global(&kb, "x", t, LS_MEM_READ, 1), y = ls_kb_global(&kb, "y", t, LS_MEM_WRITE, 1);
    ls_kb_workgroup(&kb, 1, 1, 1);
    ls_kb_grid(&kb, 0, 1, LS_VAL_NONE, 1);
    ls_val zero = ls_kb_i32(&kb, 0), v = ls_kb_load(&kb, x, zero, LS_VAL_NONE, LS_VAL_NONE, 1);
    v = ls_kb_pure(&kb, op, v, ls_kb_const_bits(&kb, t, divisor), LS_VAL_NONE, 0);
    ls_kb_store(&kb, y, zero, v, LS_VAL_NONE);
    assert_ok(ls_kb_finish(&kb, &k));
    ls_text text;
    ls_text_init(&text, &heap);
    assert_ok(ls_render_ptx(&text, &k, &hopper, &err));
    char *first = strchr(strstr(text.data, "ld.global"), '\n') + 1, *last = strstr(first, "  st.global");
    char loaded[16], stored[16];
    assert_int_equal(sscanf(strstr(text.data, "ld.global"), "%*s %15[^,],", loaded), 1);
    assert_int_equal(sscanf(last, " %*s %*[^,], %15[^;];", stored), 1);
    assert_null(strstr(text.data, "div."));
    assert_null(strstr(text.data, "rem."));
    uint64_t numbers[64], random = divisor * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < 64; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        numbers[i] = i < 16 ? divisor * (uint64_t)(i / 3) + (uint64_t)(i % 3) - 1 : i < 48 ? random >> (i % 61) : 0;
    }
    uint64_t top = (uint64_t)1 << (wide ? 63 : 31);
    const uint64_t ends[] = {0, 1, top - 1, top, top + 1, 2 * top - 1, 0 - divisor, 0 - divisor - 1, top - top % divisor,
                             top - top % divisor - 1};
    memcpy(numbers + 48, ends, sizeof ends);
    for (int i = 0; i < 64; i++) {
        machine m = {{0}, {0}};
        const uint64_t s[3] = {ls_kir_wrap(t, numbers[i]), divisor, 0};
        *target_of(&m, loaded) = s[0] & (wide ? ~(uint64_t)0 : 0xffffffff);
        for (char *line = first; line < last; line = strchr(line, '\n') + 1) {
            step(&m, line);
        }
        uint64_t is = ls_kir_wrap(t, *target_of(&m, stored)), expected = ls_kir_eval(op, t, t, s);
        if (is != expected) {
            fail_msg("%s %s of %lld by %lld: %lld, expected %lld\n%s", ls_kops[op].name, ls_dtype_name(t), (long long)s[0],
                     (long long)divisor, (long long)is, (long long)expected, text.data);
        }
    }
    ls_text_free(&text);
}

static void division_by_constants(void **state) {
    (void)state;
    static const ls_dtype types[] = {LS_I32, LS_U32, LS_I64, LS_U64};
    static const uint64_t divisors[] = {2,   3,   4,   5,    6,    7,     9,     10,         11,         12,        13,  25,
                                        28,  48,  60,  64,   100,  125,   196,   255,        256,        257,       625, 641,
                                        784, 900, 999, 1000, 4096, 65535, 65537, 1000003,    0x40000000, 0x7fffffff};
    for (int t = 0; t < 4; t++) {
        for (size_t d = 0; d < sizeof divisors / sizeof *divisors; d++) {
            check_division(LS_K_DIV, types[t], divisors[d]);
            check_division(LS_K_REM, types[t], divisors[d]);
        }
        check_division(LS_K_DIV, types[t], ls_dtype_size(types[t]) == 4 ? 0x7ffffffe : 0x7ffffffffffffffe);
    }
    check_division(LS_K_DIV, LS_U32, 0xfffffff1);
    check_division(LS_K_REM, LS_U64, 0xfffffffffffffff1);
}

static void what_has_no_form_is_refused(void **state) {
    (void)state;
    ls_kb kb;
    ls_kernel k;
    ls_text text;
    ls_text_init(&text, &heap);
    ls_kb_init(&kb, &arena, "halves", &err);
    int x = ls_kb_global(&kb, "x", LS_F16, LS_MEM_READ_WRITE, 1);
    ls_kb_workgroup(&kb, 1, 1, 1);
    ls_val zero = ls_kb_i32(&kb, 0), v = ls_kb_load(&kb, x, zero, LS_VAL_NONE, LS_VAL_NONE, 1);
    ls_kb_store(&kb, x, zero, ls_kb_add(&kb, v, v), LS_VAL_NONE);
    assert_ok(ls_kb_finish(&kb, &k));
    assert_int_equal(ls_render_ptx(&text, &k, &hopper, &err), LS_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "halves"));
    assert_non_null(strstr(err.message, "f16"));
    ls_text_free(&text);
}

static void memory_can_run_out(void **state) {
    (void)state;
    ls_kernel k;
    assert_ok(sample_matmul(&arena, 16, 16, 16, SAMPLE_RIGHT, &k, &err));
    for (long n = 0;; n++) {
        ls_text text;
        ls_error own = {.code = LS_OK};
        ls_text_init(&text, &heap);
        atomic_store(&heap.fail_after, n);
        ls_status status = ls_render_ptx(&text, &k, &hopper, &own);
        atomic_store(&heap.fail_after, -1);
        ls_text_free(&text);
        if (status == LS_OK) {
            assert_true(n > 3);
            return;
        }
        assert_int_equal(status, LS_ERR_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_as_written, setup, teardown),
        cmocka_unit_test_setup_teardown(samples_assemble, setup, teardown),
        cmocka_unit_test_setup_teardown(addresses_are_folded, setup, teardown),
        cmocka_unit_test_setup_teardown(lanes_are_vectors, setup, teardown),
        cmocka_unit_test_setup_teardown(instructions_assemble, setup, teardown),
        cmocka_unit_test_setup_teardown(threads_together_assemble, setup, teardown),
        cmocka_unit_test_setup_teardown(fragments_assemble, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_are_asynchronous, setup, teardown),
        cmocka_unit_test_setup_teardown(fragments_by_matrices, setup, teardown),
        cmocka_unit_test_setup_teardown(division_by_constants, setup, teardown),
        cmocka_unit_test_setup_teardown(what_has_no_form_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_can_run_out, setup, teardown),
    };
    return cmocka_run_group_tests_name("render_ptx", tests, NULL, NULL);
}
