/* The text of simplified kernels: what small specs become, word for word. A change here is a change of kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "emit/emit.h"
#include "unit/spec_support.h"

static ls_symbol symbol = {.name = "B", .bound = 6, .index = 0};

static ls_tensor *build(ls_session *s, int which) {
    ls_shape batch = LS_SHAPE(1, 8);
    batch.dim[0] = ls_dim_symbol(&symbol, 1, 0);
    ls_tensor *x = ls_input(s, "x", LS_F16, batch), *y = ls_input(s, "y", LS_F16, LS_SHAPE(8));
    ls_tensor *line = ls_input(s, "line", LS_F32, LS_SHAPE(3, 300)), *w = ls_input(s, "w", LS_F32, LS_SHAPE(300, 2));
    ls_tensor *index = ls_input(s, "index", LS_I64, LS_SHAPE(5));
    switch (which) {
    case 0:
        return ls_add(s, ls_abs(s, x), y);
    case 1:
        return ls_neg(s, ls_sum(s, line, 1, (const int[]){1}, 0));
    case 2:
        return ls_relu(s, ls_matmul(s, line, w));
    default:
        return ls_gather(s, line, index, 1);
    }
}

static const struct {
    const char *name, *text;
} cases[] = {
    {"pointwise",
     "kernel abs_add\n"
     "  workgroup 256 x 1 x 1, grid 1 x 1 x 1, shared 0 bytes\n"
     "  param s0: i64 in [0, 6]\n"
     "  global a0: f16[48] read\n"
     "  global a1: f16[8] read\n"
     "  global a2: f16[48] write\n"
     "  %0 = group_id i32.x\n"
     "  %1 = const i32 256\n"
     "  %2 = mul i32 %0, %1\n"
     "  %3 = local_id i32.x\n"
     "  %4 = add i32 %2, %3\n"
     "  %5 = const i32 48\n"
     "  %6 = lt bool %4, %5\n"
     "  if %6\n"
     "    %8 = const i32 8\n"
     "    %9 = div i32 %4, %8\n"
     "    %10 = param i64 s0\n"
     "    %11 = cast i32 %10\n"
     "    %12 = lt bool %9, %11\n"
     "    %13 = rem i32 %4, %8\n"
     "    if %12\n"
     "      %15 = mul i32 %9, %8\n"
     "      %16 = add i32 %15, %13\n"
     "      %17 = load f16 a0 %16\n"
     "      %18 = load f16 a1 %13\n"
     "      %19 = cast f32 %17\n"
     "      %20 = abs f32 %19\n"
     "      %21 = cast f16 %20\n"
     "      %22 = cast f32 %21\n"
     "      %23 = cast f32 %18\n"
     "      %24 = add f32 %22, %23\n"
     "      %25 = cast f16 %24\n"
     "      %26 = canon f16 %25\n"
     "      store a2 %16, %26\n"
     "    end_if\n"
     "  end_if\n"},
    {"row_sum",
     "kernel sum_neg\n"
     "  workgroup 256 x 1 x 1, grid 3 x 1 x 1, shared 1024 bytes\n"
     "  global a0: f32[900] read\n"
     "  shared sh_f32: f32[256]\n"
     "  global a1: f32[3] write\n"
     "  %0 = const f32 0.0\n"
     "  %1 = var f32 %0\n"
     "  %2 = local_id i32.x\n"
     "  %3 = const i32 300\n"
     "  %4 = const i32 256\n"
     "  %5 = group_id i32.x\n"
     "  %6 = mul i32 %5, %3\n"
     "  %7 = loop i32 %2, %3, %4\n"
     "    %8 = add i32 %6, %7\n"
     "    %9 = load f32 a0 %8\n"
     "    %10 = get f32 %1\n"
     "    %11 = add f32 %10, %9\n"
     "    set %1, %11\n"
     "  end_loop\n"
     "  %14 = get f32 %1\n"
     "  store sh_f32 %2, %14\n"
     "  barrier\n"
     "  %17 = const i32 128\n"
     "  %18 = lt bool %2, %17\n"
     "  if %18\n"
     "    %20 = load f32 sh_f32 %2\n"
     "    %21 = add i32 %2, %17\n"
     "    %22 = load f32 sh_f32 %21\n"
     "    %23 = add f32 %20, %22\n"
     "    store sh_f32 %2, %23\n"
     "  end_if\n"
     "  barrier\n"
     "  %27 = const i32 64\n"
     "  %28 = lt bool %2, %27\n"
     "  if %28\n"
     "    %30 = load f32 sh_f32 %2\n"
     "    %31 = add i32 %2, %27\n"
     "    %32 = load f32 sh_f32 %31\n"
     "    %33 = add f32 %30, %32\n"
     "    store sh_f32 %2, %33\n"
     "  end_if\n"
     "  barrier\n"
     "  %37 = const i32 32\n"
     "  %38 = lt bool %2, %37\n"
     "  if %38\n"
     "    %40 = load f32 sh_f32 %2\n"
     "    %41 = add i32 %2, %37\n"
     "    %42 = load f32 sh_f32 %41\n"
     "    %43 = add f32 %40, %42\n"
     "    store sh_f32 %2, %43\n"
     "  end_if\n"
     "  barrier\n"
     "  %47 = const i32 16\n"
     "  %48 = lt bool %2, %47\n"
     "  if %48\n"
     "    %50 = load f32 sh_f32 %2\n"
     "    %51 = add i32 %2, %47\n"
     "    %52 = load f32 sh_f32 %51\n"
     "    %53 = add f32 %50, %52\n"
     "    store sh_f32 %2, %53\n"
     "  end_if\n"
     "  barrier\n"
     "  %57 = const i32 8\n"
     "  %58 = lt bool %2, %57\n"
     "  if %58\n"
     "    %60 = load f32 sh_f32 %2\n"
     "    %61 = add i32 %2, %57\n"
     "    %62 = load f32 sh_f32 %61\n"
     "    %63 = add f32 %60, %62\n"
     "    store sh_f32 %2, %63\n"
     "  end_if\n"
     "  barrier\n"
     "  %67 = const i32 4\n"
     "  %68 = lt bool %2, %67\n"
     "  if %68\n"
     "    %70 = load f32 sh_f32 %2\n"
     "    %71 = add i32 %2, %67\n"
     "    %72 = load f32 sh_f32 %71\n"
     "    %73 = add f32 %70, %72\n"
     "    store sh_f32 %2, %73\n"
     "  end_if\n"
     "  barrier\n"
     "  %77 = const i32 2\n"
     "  %78 = lt bool %2, %77\n"
     "  if %78\n"
     "    %80 = load f32 sh_f32 %2\n"
     "    %81 = add i32 %2, %77\n"
     "    %82 = load f32 sh_f32 %81\n"
     "    %83 = add f32 %80, %82\n"
     "    store sh_f32 %2, %83\n"
     "  end_if\n"
     "  barrier\n"
     "  %87 = const i32 1\n"
     "  %88 = lt bool %2, %87\n"
     "  if %88\n"
     "    %90 = load f32 sh_f32 %2\n"
     "    %91 = add i32 %2, %87\n"
     "    %92 = load f32 sh_f32 %91\n"
     "    %93 = add f32 %90, %92\n"
     "    store sh_f32 %2, %93\n"
     "  end_if\n"
     "  barrier\n"
     "  %97 = const i32 0\n"
     "  %98 = load f32 sh_f32 %97\n"
     "  barrier\n"
     "  %100 = neg f32 %98\n"
     "  %101 = canon f32 %100\n"
     "  %102 = loop i32 %2, %87, %4\n"
     "    store a1 %5, %101\n"
     "  end_loop\n"},
    {"matmul",
     "kernel contract_max\n"
     "  workgroup 256 x 1 x 1, grid 1 x 1 x 1, shared 0 bytes\n"
     "  global a0: f32[900] read\n"
     "  global a1: f32[600] read\n"
     "  global a2: f32[6] write\n"
     "  %0 = group_id i32.x\n"
     "  %1 = const i32 256\n"
     "  %2 = mul i32 %0, %1\n"
     "  %3 = local_id i32.x\n"
     "  %4 = add i32 %2, %3\n"
     "  %5 = const i32 6\n"
     "  %6 = lt bool %4, %5\n"
     "  if %6\n"
     "    %8 = const f32 0.0\n"
     "    %9 = var f32 %8\n"
     "    %10 = const i32 0\n"
     "    %11 = const i32 300\n"
     "    %12 = const i32 1\n"
     "    %13 = const i32 2\n"
     "    %14 = div i32 %4, %13\n"
     "    %15 = mul i32 %14, %11\n"
     "    %16 = rem i32 %4, %13\n"
     "    %17 = loop i32 %10, %11, %12\n"
     "      %18 = add i32 %15, %17\n"
     "      %19 = load f32 a0 %18\n"
     "      %20 = mul i32 %17, %13\n"
     "      %21 = add i32 %16, %20\n"
     "      %22 = load f32 a1 %21\n"
     "      %23 = get f32 %9\n"
     "      %24 = mul f32 %19, %22\n"
     "      %25 = add f32 %23, %24\n"
     "      set %9, %25\n"
     "    end_loop\n"
     "    %28 = get f32 %9\n"
     "    %29 = mul i32 %14, %13\n"
     "    %30 = add i32 %29, %16\n"
     "    %31 = max f32 %28, %8\n"
     "    %32 = canon f32 %31\n"
     "    store a2 %30, %32\n"
     "  end_if\n"},
    {"gather",
     "kernel gather\n"
     "  workgroup 256 x 1 x 1, grid 1 x 1 x 1, shared 0 bytes\n"
     "  global a1: i64[5] read\n"
     "  global status: u32[1] read write\n"
     "  global a0: f32[900] read\n"
     "  global a2: f32[15] write\n"
     "  %0 = group_id i32.x\n"
     "  %1 = const i32 256\n"
     "  %2 = mul i32 %0, %1\n"
     "  %3 = local_id i32.x\n"
     "  %4 = add i32 %2, %3\n"
     "  %5 = const i32 15\n"
     "  %6 = lt bool %4, %5\n"
     "  if %6\n"
     "    %8 = const i32 5\n"
     "    %9 = rem i32 %4, %8\n"
     "    %10 = load i64 a1 %9\n"
     "    %11 = const i32 0\n"
     "    %12 = const u32 2\n"
     "    %13 = const i64 0\n"
     "    %14 = le bool %13, %10\n"
     "    %15 = const i64 300\n"
     "    %16 = lt bool %10, %15\n"
     "    %17 = and bool %14, %16\n"
     "    %18 = not bool %17\n"
     "    %19 = atomic_max u32 status %11, %12, %18\n"
     "    %20 = div i32 %4, %8\n"
     "    %21 = const i32 300\n"
     "    %22 = mul i32 %20, %21\n"
     "    %23 = cast i64 %22\n"
     "    %24 = add i64 %23, %10\n"
     "    %25 = le bool %13, %24\n"
     "    %26 = const i64 900\n"
     "    %27 = lt bool %24, %26\n"
     "    %28 = and bool %25, %27\n"
     "    %29 = and bool %17, %28\n"
     "    %30 = const f32 nan:0x7fffffff\n"
     "    %31 = const f32 0.0\n"
     "    %32 = select f32 %18, %30, %31\n"
     "    %33 = load f32 a0 %24, %29, %32\n"
     "    %34 = mul i32 %20, %8\n"
     "    %35 = add i32 %34, %9\n"
     "    %36 = canon f32 %33\n"
     "    store a2 %35, %36\n"
     "  end_if\n"},
};

static void kernels_read_as_written(void **state) {
    (void)state;
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        bench b;
        ls_plan plan;
        ls_text text;
        bench_open(&b);
        ls_text_init(&text, &b.heap);
        ls_tensor *root = build(b.s, i);
        bench_plan(&b, &root, 1, 1, &plan);
        for (int j = 0; j < plan.n_groups; j++) {
            ls_spec spec;
            ls_kernel_list list;
            bench_spec(&b, &plan.groups[j], &spec);
            assert_int_equal(ls_emit(&b.arena, &spec, NULL, "naive", &list, &b.err), LS_OK);
            for (int k = 0; k < list.n_kernels; k++) {
                ls_kernel kernel;
                assert_int_equal(ls_kernel_simplify(&b.arena, &list.kernels[k].kernel, NULL, &kernel, &b.err), LS_OK);
                ls_kernel_print(&text, &kernel);
            }
        }
        assert_false(text.failed);
        if (strcmp(text.data, cases[i].text) != 0) {
            fail_msg("%s: expected\n%s\nbut it is\n%s", cases[i].name, cases[i].text, text.data);
        }
        ls_text_free(&text);
        bench_close(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_read_as_written)};
    return cmocka_run_group_tests_name("emit_print", tests, NULL, NULL);
}
