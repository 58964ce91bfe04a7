/* Whole matrix products in PTX: golden text of one, all layouts through the assembler (ptxas, where it is installed), and what
 * is refused. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kir/build.h"
#include "kir/legal.h"
#include "render/render.h"
#include "unit/kir_fixture.h"
#include "unit/ptx_assemble.h"

typedef struct sample {
    int rows, columns, slabs, stages, threads;
    bool a_by_k, b_by_k, in_loop;
    ls_dtype type;
} sample;

static const char GOLDEN[] =
    "  wgmma.fence.sync.aligned;\n"
    "  add.s32 %r63, %r62, 0;\n"
    "  mov.b64 %d5, {%r63, 0x40000040};\n"
    "  add.s32 %r64, %r61, 0;\n"
    "  mov.b64 %d6, {%r64, 0x40000040};\n"
    "  wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%r18, %r19, %r20, %r21, %r22, %r23, %r24, "
    "%r25, %r26, %r27, %r28, %r29, %r30, %r31, %r32, %r33, %r34, %r35, %r36, %r37, %r38, %r39, %r40, "
    "%r41, %r42, %r43, %r44, %r45, %r46, %r47, %r48, %r49}, %d6, %d5, %p2, 1, 1, 0, 1;\n"
    "  add.s32 %r65, %r62, 128;\n"
    "  mov.b64 %d7, {%r65, 0x40000040};\n"
    "  add.s32 %r66, %r61, 2;\n"
    "  mov.b64 %d8, {%r66, 0x40000040};\n"
    "  wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%r18, %r19, %r20, %r21, %r22, %r23, %r24, "
    "%r25, %r26, %r27, %r28, %r29, %r30, %r31, %r32, %r33, %r34, %r35, %r36, %r37, %r38, %r39, %r40, "
    "%r41, %r42, %r43, %r44, %r45, %r46, %r47, %r48, %r49}, %d8, %d7, %p2, 1, 1, 0, 1;\n"
    "  add.s32 %r67, %r62, 256;\n"
    "  mov.b64 %d9, {%r67, 0x40000040};\n"
    "  add.s32 %r68, %r61, 4;\n"
    "  mov.b64 %d10, {%r68, 0x40000040};\n"
    "  wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%r18, %r19, %r20, %r21, %r22, %r23, %r24, "
    "%r25, %r26, %r27, %r28, %r29, %r30, %r31, %r32, %r33, %r34, %r35, %r36, %r37, %r38, %r39, %r40, "
    "%r41, %r42, %r43, %r44, %r45, %r46, %r47, %r48, %r49}, %d10, %d9, %p2, 1, 1, 0, 1;\n"
    "  add.s32 %r69, %r62, 384;\n"
    "  mov.b64 %d11, {%r69, 0x40000040};\n"
    "  add.s32 %r70, %r61, 6;\n"
    "  mov.b64 %d12, {%r70, 0x40000040};\n"
    "  wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%r18, %r19, %r20, %r21, %r22, %r23, %r24, "
    "%r25, %r26, %r27, %r28, %r29, %r30, %r31, %r32, %r33, %r34, %r35, %r36, %r37, %r38, %r39, %r40, "
    "%r41, %r42, %r43, %r44, %r45, %r46, %r47, %r48, %r49}, %d12, %d11, %p2, 1, 1, 0, 1;\n"
    "  wgmma.commit_group.sync.aligned;\n"
    "  wgmma.wait_group.sync.aligned 1;\n";

/* One tile; each thread stores one sum. */
static ls_kernel build(const sample *s) {
    ls_kb kb;
    ls_kernel k;
    int64_t depth = 64 * s->slabs, words_a = s->rows * depth / 2, words_b = s->columns * depth / 2;
    ls_kb_init(&kb, &arena, "product", &err);
    int a = ls_kb_global(&kb, "a", LS_U32, LS_MEM_READ, words_a),
        b = ls_kb_global(&kb, "b", LS_U32, LS_MEM_READ, words_b);
    int c = ls_kb_global(&kb, "c", LS_F32, LS_MEM_WRITE, s->threads);
    int64_t stages = (int64_t)s->stages * (s->rows + s->columns) * 32 + 256,
            room = (int64_t)s->rows * (s->columns + 8);
    int sums = ls_kb_shared(&kb, "sums", LS_F32, stages > room ? stages : room);
    ls_kb_workgroup(&kb, s->threads, 1, 1);
    ls_kb_grid(&kb, 0, 1, LS_VAL_NONE, 1);
    ls_kproduct p = {.type = s->type, .k = depth, .sums = sums, .stride = s->columns + 8};
    p.side[0].mem = a, p.side[0].size = s->rows, p.side[0].by_k = s->a_by_k,
    p.side[0].line = s->a_by_k ? depth : s->rows;
    p.side[1].mem = b, p.side[1].size = s->columns, p.side[1].by_k = s->b_by_k,
    p.side[1].line = s->b_by_k ? depth : s->columns;
    ls_val zero = ls_kb_i32(&kb, 0), t = ls_kb_local_id(&kb, 0);
    if (s->in_loop) {
        ls_val end = ls_kb_i32(&kb, 99), one = ls_kb_i32(&kb, 1);
        ls_kb_loop(&kb, zero, end, one, 0);
    }
    ls_kb_product(&kb, &p, zero, zero);
    ls_kb_barrier(&kb);
    ls_kb_store(
        &kb, c, t,
        ls_kb_load(&kb, sums, ls_kb_rem(&kb, t, ls_kb_i32(&kb, s->columns)), LS_VAL_NONE, LS_VAL_NONE, 1),
        LS_VAL_NONE);
    if (s->in_loop) {
        ls_kb_barrier(&kb);
        ls_kb_end_loop(&kb);
    }
    assert_ok(ls_kb_finish(&kb, &k));
    assert_ok(ls_kernel_verify(&heap, &k, &err));
    return k;
}

static ls_status render(const sample *s, bool arch, ls_text *out_text) {
    ls_kernel k = build(s), legal, simple;
    const ls_legal_param *params;
    assert_ok(ls_kernel_legalize(&arena, &k, LS_KT_ALL, &legal, &params, &err));
    assert_ok(ls_kernel_simplify(&arena, &legal, NULL, &simple, &err));
    ls_text_init(out_text, &heap);
    return ls_render_ptx(out_text, &simple, &(ls_ptx_options){.sm = 90, .isa = 80, .arch = arch}, &err);
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) {
        n++;
    }
    return n;
}

/* Every layout and tile: all of a slab's products in a row, its copies, no local loop over them. */
static void layouts_assemble(void **state) {
    (void)state;
    static const int tiles[][2] = {{128, 256}, {256, 128}, {128, 128}, {128, 64}};
    for (int v = 0; v < 16; v++) {
        sample s = {tiles[v / 4][0], tiles[v / 4][1],         8, 4, 256, v & 1, v & 2,
                    false,           v & 1 ? LS_F16 : LS_BF16};
        ls_text text;
        assert_ok(render(&s, true, &text));
        int boxes = (s.a_by_k ? 1 : s.rows / 64) + (s.b_by_k ? 1 : s.columns / 64);
        assert_int_equal(count(text.data, "wgmma.mma_async"), 4 * s.rows / 128);
        assert_int_equal(count(text.data, "cp.async.bulk.tensor.2d"),
                         5 * boxes); /* four stages ahead, and in the loop */
        assert_int_equal(count(text.data, "mbarrier.init"), 8);
        assert_int_equal(count(text.data, "st.shared.v2.b32"), s.rows * s.columns / 512);
        assert_int_equal(count(text.data, ".param .align 64 .b8 map"), 2);
        assert_non_null(strstr(text.data, ".target sm_90a\n"));
        if (ptx_assembler()) {
            ptx_assembles("product", text.data);
        }
        ls_text_free(&text);
    }
}

static void reads_as_written(void **state) {
    (void)state;
    const sample s = {128, 64, 3, 2, 256, true, false, false, LS_F16};
    ls_text text;
    assert_ok(render(&s, true, &text));
    const char *first = strstr(text.data, "  wgmma.fence"), *last = strstr(text.data, "  setp.gt.s32");
    assert_non_null(first);
    assert_non_null(last);
    char *loop = ls_arena_printf(&arena, "%.*s", (int)(last - first), first);
    if (strcmp(loop, GOLDEN) != 0) { /* cmocka takes the text's % for its own */
        fprintf(stderr, "%s", loop);
        fail();
    }
    ls_text_free(&text);
}

static void maps(void **state) {
    (void)state;
    const sample s = {128, 64, 3, 2, 256, true, false, false, LS_F16};
    ls_kernel k = build(&s);
    ls_ptx_map m[2];
    assert_int_equal(ls_ptx_product_maps(&k, m), 2);
    const ls_ptx_map expected[2] = {{0, 192, 128, 64, 128}, {1, 64, 192, 64, 64}};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(m[i].binding, expected[i].binding);
        assert_int_equal(m[i].line, expected[i].line);
        assert_int_equal(m[i].lines, expected[i].lines);
        assert_int_equal(m[i].box_elements, expected[i].box_elements);
        assert_int_equal(m[i].box_lines, expected[i].box_lines);
    }
}

static void what_has_no_form_is_refused(void **state) {
    (void)state;
    static const sample rows[] = {
        {128, 128, 2, 2, 128, true, true, false, LS_F16}, {64, 128, 2, 2, 256, true, true, false, LS_F16},
        {128, 96, 2, 2, 256, true, true, false, LS_F16},  {128, 64, 2, 1, 256, true, true, false, LS_F16},
        {128, 128, 2, 2, 256, true, true, true, LS_F16},  {128, 128, 2, 2, 256, true, true, false, LS_F16},
    };
    enum { N = sizeof rows / sizeof *rows };
    for (int i = 0; i < N; i++) {
        ls_text text;
        ls_error_clear(&err);
        assert_int_equal(render(&rows[i], i < N - 1, &text),
                         LS_ERR_UNSUPPORTED); /* the last: not for another architecture */
        assert_non_null(strstr(err.message, "product"));
        ls_text_free(&text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_as_written, setup, teardown),
        cmocka_unit_test_setup_teardown(layouts_assemble, setup, teardown),
        cmocka_unit_test_setup_teardown(maps, setup, teardown),
        cmocka_unit_test_setup_teardown(what_has_no_form_is_refused, setup, teardown),
    };
    return cmocka_run_group_tests_name("render_product", tests, NULL, NULL);
}
