/* Kernels as WGSL: the text of small ones word for word, what the language has no word for, every instruction's form. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kir/build.h"
#include "render/render.h"
#include "unit/kir_fixture.h"
#include "unit/kir_samples.h"

static const ls_wgsl_options plain = {false, false}, all = {true, true};

static char *render(const ls_kernel *kernel, const ls_wgsl_options *options) {
    ls_text text;
    ls_text_init(&text, &heap);
    assert_ok(ls_render_wgsl(&text, kernel, options, &err));
    char *copy = ls_arena_copy(&arena, text.data, text.len + 1);
    ls_text_free(&text);
    return copy;
}

static char *render_simple(const ls_kernel *kernel) {
    ls_kernel simple;
    assert_ok(ls_kernel_simplify(&arena, kernel, NULL, &simple, &err));
    return render(&simple, &plain);
}

/* Constants that WGSL would evaluate itself and refuse, or that no literal says; memory of four lanes; an atomic. */
static void build_awkward(ls_kernel *out) {
    ls_kb kb;
    ls_kb_init(&kb, &arena, "awkward: \"kernel\"\n", &err);
    int n = ls_kb_param(&kb, "n", LS_U32, 0, 100), f = ls_kb_param(&kb, "f", LS_F32, 0, 0), t = ls_kb_param(&kb, "t", LS_BOOL, 0, 1);
    int x = ls_kb_global(&kb, "x", LS_F32, LS_MEM_READ_WRITE, 1000), c = ls_kb_global(&kb, "c", LS_U32, LS_MEM_READ_WRITE, 8);
    int y = ls_kb_global(&kb, "y", LS_I32, LS_MEM_READ_WRITE, 1000);
    ls_kb_global(&kb, "unused", LS_I64, LS_MEM_READ, 10);
    ls_kb_workgroup(&kb, 64, 2, 1);
    ls_kb_grid(&kb, 0, 4, LS_VAL_NONE, 1);
    ls_val four = ls_kb_i32(&kb, 4), i = ls_kb_mul(&kb, ls_kb_local_id(&kb, 0), four), p = ls_kb_get_param(&kb, t);
    ls_val most = ls_kb_i32(&kb, INT32_MAX), least = ls_kb_i32(&kb, INT32_MIN);
    ls_val nan = ls_kb_const_bits(&kb, LS_F32, 0x7fc00000), zero = ls_kb_const_bits(&kb, LS_F32, 0x80000000), tiny = ls_kb_const_bits(&kb, LS_F32, 1);
    ls_val sum = ls_kb_add(&kb, ls_kb_add(&kb, most, ls_kb_i32(&kb, 1)), least);
    ls_val a = ls_kb_select(&kb, p, nan, ls_kb_mul(&kb, zero, ls_kb_get_param(&kb, f)));
    ls_val v = ls_kb_load(&kb, x, i, LS_VAL_NONE, LS_VAL_NONE, 4);
    ls_val w = ls_kb_add(&kb, v, ls_kb_splat(&kb, ls_kb_max(&kb, a, tiny), 4));
    ls_kb_store(&kb, x, i, w, p);
    ls_val count = ls_kb_get_param(&kb, n), old = ls_kb_atomic(&kb, LS_K_ATOMIC_MAX, c, ls_kb_u32(&kb, 2), count, p);
    ls_val again = ls_kb_load(&kb, c, ls_kb_u32(&kb, 3), p, old, 1);
    ls_val pair = ls_kb_load(&kb, y, i, p, ls_kb_splat(&kb, sum, 2), 2);
    ls_val other = ls_kb_cast(&kb, again, LS_I32), one = ls_kb_load(&kb, y, ls_kb_add(&kb, i, ls_kb_i32(&kb, -1)), p, other, 1);
    ls_kb_store(&kb, y, i, ls_kb_mul(&kb, pair, ls_kb_splat(&kb, one, 2)), LS_VAL_NONE);
    ls_val high = ls_kb_umulhi(&kb, again, old);
    ls_kb_store(&kb, c, ls_kb_u32(&kb, 1), high, LS_VAL_NONE);
    assert_ok(ls_kb_finish(&kb, out));
}

static const char vadd_text[] =
    "// vadd\n"
    "@group(0) @binding(0) var<storage, read_write> m0: array<f32>; // a\n"
    "@group(0) @binding(1) var<storage, read_write> m1: array<f32>; // b\n"
    "@group(0) @binding(2) var<storage, read_write> m2: array<f32>; // y\n"
    "@group(0) @binding(3) var<uniform> params: array<vec4<u32>, 1>;\n"
    "@compute @workgroup_size(64, 1, 1)\n"
    "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {\n"
    "    let v0 = i32(group.x);\n"
    "    let v2 = v0 * 64i;\n"
    "    let v3 = i32(local.x);\n"
    "    let v4 = v2 + v3;\n"
    "    let v5 = bitcast<i32>(params[0].x);\n"
    "    let v6 = v4 < v5;\n"
    "    let v8 = select(0.0f, m0[v4], v6);\n"
    "    let v9 = select(0.0f, m1[v4], v6);\n"
    "    let v10 = v8 + v9;\n"
    "    if (v6) {\n"
    "        m2[v4] = v10;\n"
    "    }\n"
    "}\n";

static const char awkward_text[] =
    "// awkward___kernel__\n"
    "@group(0) @binding(0) var<storage, read_write> m0: array<vec4<f32>>; // x\n"
    "@group(0) @binding(1) var<storage, read_write> m1: array<atomic<u32>>; // c\n"
    "@group(0) @binding(2) var<storage, read_write> m2: array<i32>; // y\n"
    "@group(0) @binding(4) var<uniform> params: array<vec4<u32>, 1>;\n"
    "fn umulhi1(a: u32, b: u32) -> u32 {\n"
    "    let m = u32(65535u);\n"
    "    let s = u32(16u);\n"
    "    let al = a & m;\n"
    "    let ah = a >> s;\n"
    "    let bl = b & m;\n"
    "    let bh = b >> s;\n"
    "    let c = al * bh + ((al * bl) >> s);\n"
    "    let d = ah * bl + (c & m);\n"
    "    return ah * bh + (c >> s) + (d >> s);\n"
    "}\n"
    "fn most1(a: f32, b: f32) -> f32 {\n"
    "    let x = bitcast<i32>(a);\n"
    "    let y = bitcast<i32>(b);\n"
    "    let m = i32(2147483647i);\n"
    "    let inf = i32(2139095040i);\n"
    "    let first = (x ^ ((x >> u32(31u)) & m)) > (y ^ ((y >> u32(31u)) & m));\n"
    "    return bitcast<f32>(select(select(select(y, x, first), y, (y & m) > inf), x, (x & m) > inf));\n"
    "}\n"
    "@compute @workgroup_size(64, 2, 1)\n"
    "fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {\n"
    "    let v1 = i32(local.x);\n"
    "    let v2 = v1 * 4i;\n"
    "    let v3 = params[0].z != 0u;\n"
    "    let v4 = 2147483647i;\n"
    "    let b6 = 2143289344u;\n"
    "    let v6 = bitcast<f32>(b6);\n"
    "    let b7 = 2147483648u;\n"
    "    let v7 = bitcast<f32>(b7);\n"
    "    let b8 = 1u;\n"
    "    let v8 = bitcast<f32>(b8);\n"
    "    let v9 = 1i;\n"
    "    let v10 = v4 + v9;\n"
    "    let v11 = v10 + i32(-2147483648);\n"
    "    let v12 = bitcast<f32>(params[0].y);\n"
    "    let v13 = v7 * v12;\n"
    "    let v14 = select(v13, v6, v3);\n"
    "    let v15 = m0[v2 / 4i];\n"
    "    let v16 = most1(v14, v8);\n"
    "    let v17 = vec4<f32>(v16);\n"
    "    let v18 = v15 + v17;\n"
    "    if (v3) {\n"
    "        m0[v2 / 4i] = v18;\n"
    "    }\n"
    "    let v20 = params[0].x;\n"
    "    var v22 = u32();\n"
    "    if (v3) {\n"
    "        v22 = atomicMax(&m1[2u], v20);\n"
    "    }\n"
    "    let v24 = select(v22, atomicLoad(&m1[3u]), v3);\n"
    "    let v25 = vec2<i32>(v11);\n"
    "    let v26 = select(v25, vec2<i32>(m2[v2], m2[v2 + 1i]), v3);\n"
    "    let v27 = i32(v24);\n"
    "    let v29 = v2 + (-1i);\n"
    "    let v30 = select(v27, m2[v29], v3);\n"
    "    let v31 = vec2<i32>(v30);\n"
    "    let v32 = v26 * v31;\n"
    "    m2[v2] = v32.x;\n"
    "    m2[v2 + 1i] = v32.y;\n"
    "    let v34 = umulhi1(v24, v22);\n"
    "    atomicStore(&m1[1u], v34);\n"
    "}\n";

static void golden(void **state) {
    (void)state;
    ls_kernel k;
    assert_ok(sample_vadd(&arena, 1000, SAMPLE_RIGHT, &k, &err));
    assert_string_equal(render_simple(&k), vadd_text);
    build_awkward(&k);
    assert_string_equal(render(&k, &plain), awkward_text);
}

static void loops_and_barriers(void **state) {
    (void)state;
    ls_kernel k;
    assert_ok(sample_reduce(&arena, 9000, SAMPLE_RIGHT, &k, &err));
    const char *text = render(&k, &plain);
    assert_non_null(strstr(text, "var<workgroup> m2: array<f32, 256>; // t\n@compute @workgroup_size(256, 1, 1)\n"));
    assert_non_null(strstr(text, "    var v7 = 0.0f;\n"
                                 "    for (var v11 = 0i; v11 < 4096i; v11 += 256i) {\n"
                                 "        let v12 = v5 + v11;\n"
                                 "        let v13 = v12 < 9000i;\n"
                                 "        let v14 = select(0.0f, m0[v12], v13);\n"
                                 "        let v15 = v7;\n"
                                 "        let v16 = v15 + v14;\n"
                                 "        v7 = v16;\n"
                                 "    }\n"
                                 "    let v19 = v7;\n"
                                 "    m2[v0] = v19;\n"
                                 "    storageBarrier();\n"
                                 "    workgroupBarrier();\n"));
    assert_null(strstr(text, "params"));
}

static void subgroups(void **state) {
    (void)state;
    ls_kb kb;
    ls_kernel k;
    ls_kb_init(&kb, &arena, "lanes", &err);
    int y = ls_kb_global(&kb, "y", LS_I32, LS_MEM_READ_WRITE, 64);
    ls_kb_workgroup(&kb, 64, 1, 1);
    ls_kb_grid(&kb, 0, 1, LS_VAL_NONE, 1);
    ls_val i = ls_kb_local_id(&kb, 0), lane = ls_kb_add(&kb, ls_kb_lane_id(&kb), ls_kb_subgroup_size(&kb));
    ls_val v = ls_kb_shuffle_xor(&kb, ls_kb_shuffle(&kb, i, ls_kb_i32(&kb, 2)), 1);
    v = ls_kb_add(&kb, v, ls_kb_subgroup(&kb, LS_K_SUBGROUP_MAX, lane, 0));
    ls_kb_store(&kb, y, i, v, LS_VAL_NONE);
    assert_ok(ls_kb_finish(&kb, &k));
    const char *text = render(&k, &all);
    assert_non_null(strstr(text, "enable subgroups;\n"));
    assert_non_null(strstr(text, "i32(lane);\n"));
    assert_non_null(strstr(text, "subgroupShuffleXor(v5, 1u);\n"));
    assert_non_null(strstr(text, "subgroupMax(v3);\n"));
    ls_text out;
    ls_text_init(&out, &heap);
    assert_int_equal(ls_render_wgsl(&out, &k, &plain, &err), LS_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "without subgroups"));
    ls_text_free(&out);
}

/* What is not legal is an error, not text that means something else. */
static void refused(void **state) {
    (void)state;
    for (int which = 0; which < 4; which++) {
        ls_kb kb;
        ls_kernel k;
        ls_text out;
        ls_error_clear(&err);
        ls_kb_init(&kb, &arena, "no", &err);
        int y = ls_kb_global(&kb, "y", which == 0 ? LS_I64 : which == 3 ? LS_BOOL : LS_F32, LS_MEM_READ_WRITE, 64);
        ls_kb_workgroup(&kb, 64, 1, 1);
        ls_kb_grid(&kb, 0, 1, LS_VAL_NONE, 1);
        ls_val i = ls_kb_local_id(&kb, 0);
        ls_val v = ls_kb_load(&kb, y, i, LS_VAL_NONE, LS_VAL_NONE, 1);
        if (which == 1) {
            v = ls_kb_cast(&kb, ls_kb_cast(&kb, v, LS_F16), LS_F32);
        } else if (which == 2) {
            v = ls_kb_cast(&kb, ls_kb_subgroup_id(&kb), LS_F32);
        }
        ls_kb_store(&kb, y, i, v, LS_VAL_NONE);
        assert_ok(ls_kb_finish(&kb, &k));
        ls_text_init(&out, &heap);
        assert_int_equal(ls_render_wgsl(&out, &k, &all, &err), LS_ERR_UNSUPPORTED);
        ls_text_free(&out);
    }
}

static void out_of_memory(void **state) {
    (void)state;
    ls_kernel k;
    build_awkward(&k);
    for (long n = 0;; n++) {
        ls_text out;
        ls_error_clear(&err);
        ls_text_init(&out, &heap);
        atomic_store(&heap.fail_after, n);
        ls_status status = ls_render_wgsl(&out, &k, &plain, &err);
        atomic_store(&heap.fail_after, -1);
        ls_text_free(&out);
        if (status == LS_OK) {
            assert_true(n > 4);
            break;
        }
        assert_int_equal(status, LS_ERR_MEMORY);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(golden, setup, teardown),
        cmocka_unit_test_setup_teardown(loops_and_barriers, setup, teardown),
        cmocka_unit_test_setup_teardown(subgroups, setup, teardown),
        cmocka_unit_test_setup_teardown(refused, setup, teardown),
        cmocka_unit_test_setup_teardown(out_of_memory, setup, teardown),
    };
    return cmocka_run_group_tests_name("render_wgsl", tests, NULL, NULL);
}
