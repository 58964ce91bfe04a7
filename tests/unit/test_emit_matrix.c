/* Matrix products by matrix instructions, in the interpreter: on small integers every sum is exact, so that the order that
 * matrix instructions have of their own does not matter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/half.h"
#include "emit/emit.h"
#include "gpu/internal.h"
#include "kir/legal.h"
#include "unit/spec_support.h"

static const ls_emit_caps caps = {.max_threads = 1024,
                                  .max_shared = 200000,
                                  .subgroup = 32,
                                  .n_frags = 2,
                                  .frags = {{LS_F16, 16, 16, 16}, {LS_BF16, 16, 16, 16}},
                                  .frag_words = true};

/* A device that has whole products as well. */
static const ls_emit_caps whole = {.max_threads = 1024,
                                   .max_shared = 200000,
                                   .subgroup = 32,
                                   .n_frags = 2,
                                   .frags = {{LS_F16, 16, 16, 16}, {LS_BF16, 16, 16, 16}},
                                   .frag_words = true,
                                   .products = true};

/* A device whose threads copy what fragments are loaded from, and that has little shared memory. */
static const ls_emit_caps plain = {.max_threads = 1024,
                                   .max_shared = 49152,
                                   .subgroup = 32,
                                   .n_frags = 2,
                                   .frags = {{LS_F16, 16, 16, 16}, {LS_BF16, 16, 16, 16}}};

typedef struct product {
    int batch, m, n, k;
    bool a_turned, b_turned, more; /* stored the other way round; followed by an addition and a maximum */
    ls_dtype dtype;
} product;

static int number(int seed, int i) {
    return (int)((uint32_t)(i * 7 + seed * 13 + i / 11) % 7) - 3;
}

static uint16_t half_of(ls_dtype t, int v) {
    return t == LS_F16 ? ls_f32_to_f16((float)v) : ls_f32_to_bf16((float)v);
}
static float float_of(ls_dtype t, uint16_t v) {
    return t == LS_F16 ? ls_f16_to_f32(v) : ls_bf16_to_f32(v);
}

static ls_tensor *build(bench *b, const product *p) {
    ls_shape a = LS_SHAPE(p->batch, p->a_turned ? p->k : p->m, p->a_turned ? p->m : p->k);
    ls_shape c = LS_SHAPE(p->batch, p->b_turned ? p->n : p->k, p->b_turned ? p->k : p->n);
    ls_tensor *x = ls_input(b->s, "a", p->dtype, a), *y = ls_input(b->s, "b", p->dtype, c), *z;
    x = p->a_turned ? ls_transpose(b->s, x, 1, 2) : x;
    y = p->b_turned ? ls_transpose(b->s, y, 1, 2) : y;
    z = ls_matmul(b->s, x, y);
    return p->more ? ls_relu(b->s, ls_add(b->s, z, ls_input(b->s, "bias", p->dtype, LS_SHAPE(p->n)))) : z;
}

static void ok(const bench *b, ls_status status) {
    if (status != LS_OK) {
        fail_msg("%s", b->err.message);
    }
}

/* The kernel where its first operand begins `base` words into its memory, or as it is. */
static ls_kernel moved(bench *b, const ls_kernel *kernel, int base, int64_t words) {
    ls_kernel out = *kernel;
    int64_t bases[8];
    int32_t alias[8];
    for (int i = 0; i < kernel->n_globals; i++) {
        bases[i] = i == 0 && base ? base : LS_GPU_BASE_NONE;
        alias[i] = i;
    }
    ok(b, ls_gpu_rewrite(&b->arena, kernel, bases, alias, &out, &b->err));
    for (int m = 0; m < out.n_mems && base; m++) {
        if (out.mems[m].space == LS_MEM_GLOBAL && out.mems[m].binding == 0) {
            out.mems[m].count = base + words;
        }
    }
    return out;
}

static void run(bench *b, const product *p, const ls_kernel_list *list, const ls_spec *spec, int base) {
    uint16_t *bytes[4];
    assert_true(spec->n_args <= 4);
    for (int i = 0; i < spec->n_args; i++) {
        bytes[i] = (uint16_t *)ls_arena_alloc(&b->arena, (size_t)spec->args[i].numel * 2 + (size_t)base * 4) +
                   2 * base;
        for (int64_t e = 0; e < spec->args[i].numel; e++) {
            bytes[i][e] = spec->args[i].written ? 0xffff : half_of(p->dtype, number(i, (int)e));
        }
    }
    assert_int_equal(list->n_kernels, 1);
    const ls_emit_kernel *e = &list->kernels[0];
    ls_kernel legal, simple, at_base = e->kernel;
    const ls_legal_param *params;
    ls_interp_buffer buffers[8];
    ok(b, ls_kernel_verify(&b->heap, &e->kernel, &b->err));
    if (base) {
        assert_int_equal(e->bindings[0].number, 0);
        at_base = moved(b, &e->kernel, base, spec->args[0].numel / 2);
        assert_int_equal(at_base.n_products, 0);
    } else if (e->kernel.n_products) { /* renumbered, and otherwise the same */
        at_base = moved(b, &e->kernel, 0, 0);
    }
    ok(b, ls_kernel_verify(&b->heap, &at_base, &b->err));
    ok(b, ls_kernel_legalize(&b->arena, &at_base, LS_KT_ALL, &legal, &params, &b->err));
    ok(b, ls_kernel_simplify(&b->arena, &legal, NULL, &simple, &b->err));
    for (int i = 0; i < simple.n_globals; i++) {
        int64_t numel = spec->args[e->bindings[i].number].numel;
        for (int m = 0; m < simple.n_mems; m++) {
            if (simple.mems[m].space == LS_MEM_GLOBAL && simple.mems[m].binding == i) {
                buffers[i] = (ls_interp_buffer){bytes[e->bindings[i].number], simple.mems[m].dtype == LS_U32 ? numel / 2 : numel,
                                                false};
                if (base && i == 0) {
                    buffers[i] = (ls_interp_buffer){bytes[0] - 2 * base, numel / 2 + base, false};
                }
            }
        }
    }
    const ls_interp_launch launch = {.buffers = buffers, .seed = 5};
    ok(b, ls_kernel_interp(&b->heap, &simple, &launch, &b->err));
    const uint16_t *a = bytes[0], *c = bytes[1], *bias = p->more ? bytes[2] : NULL, *out = bytes[spec->n_args - 1];
    for (int i = 0; i < p->batch * p->m * p->n; i++) {
        int n = i % p->n, m = i / p->n % p->m, at = i / p->n / p->m;
        float sum = 0;
        for (int k = 0; k < p->k; k++) {
            int ia = at * p->m * p->k + (p->a_turned ? k * p->m + m : m * p->k + k);
            int ib = at * p->k * p->n + (p->b_turned ? n * p->k + k : k * p->n + n);
            sum += float_of(p->dtype, a[ia]) * float_of(p->dtype, c[ib]);
        }
        uint16_t expected = p->dtype == LS_F16 ? ls_f32_to_f16(sum) : ls_f32_to_bf16(sum);
        if (p->more) {
            float v = float_of(p->dtype, expected) + float_of(p->dtype, bias[n]);
            expected = p->dtype == LS_F16 ? ls_f32_to_f16(v) : ls_f32_to_bf16(v);
            expected = float_of(p->dtype, expected) > 0 ? expected : 0;
        }
        if (out[i] != expected) {
            fail_msg("element %d: %x, expected %x", i, out[i], expected);
        }
    }
}

static void check(const product *row, const ls_emit_caps *device, int n_products, int base) {
    bench b;
    ls_plan plan;
    ls_spec spec;
    ls_kernel_list list;
    bench_open(&b);
    ls_session_set_math(b.s, LS_FAST);
    ls_tensor *root = build(&b, row);
    bench_plan(&b, &root, 1, 1, &plan);
    assert_int_equal(plan.n_groups, 1);
    bench_spec(&b, &plan.groups[0], &spec);
    if (ls_emit(&b.arena, &spec, device, "matrix", &list, &b.err) != LS_OK) {
        fail_msg("%d x %d x %d: %s", row->m, row->n, row->k, b.err.message);
    }
    assert_int_equal(list.kernels[0].kernel.n_products, n_products);
    run(&b, row, &list, &spec, base);
    bench_close(&b);
}

static void products(void **state) {
    (void)state;
    static const product rows[] = {
        {1, 64, 128, 256, false, false, false, LS_F16}, {1, 64, 64, 64, true, false, false, LS_F16},
        {1, 64, 64, 192, false, true, false, LS_BF16},  {1, 128, 64, 128, true, true, true, LS_BF16},
        {3, 64, 64, 64, false, false, true, LS_F16},   {1, 128, 128, 128, false, false, false, LS_BF16},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check(&rows[i], &caps, 0, 0);
    }
}

/* By fragments of operands that move as words, whole tiles or not. */
static void moved_products(void **state) {
    (void)state;
    static const product rows[] = {
        {1, 64, 128, 96, false, false, false, LS_F16}, {1, 72, 200, 88, false, false, true, LS_BF16},
        {1, 72, 200, 88, true, false, false, LS_F16},  {1, 72, 200, 88, false, true, false, LS_F16},
        {2, 40, 72, 24, true, true, true, LS_BF16},    {110, 8, 72, 16, true, false, false, LS_F16},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check(&rows[i], &plain, 0, 0);
    }
}

/* The tile of a large product: its threads, and halves of rows and columns in shared memory. */
static void tiles(void **state) {
    (void)state;
    static const struct {
        product p;
        int threads, rows, columns;
    } rows[] = {{{1, 4096, 4096, 4096, false, false, false, LS_F16}, 256, 128 * 40, 32 * 264},
                {{1, 4096, 4096, 4096, true, true, false, LS_BF16}, 256, 32 * 136, 256 * 40},
                {{1, 40000, 128, 512, false, false, true, LS_F16}, 256, 256 * 40, 32 * 136},
                {{1, 1408, 1408, 512, false, false, true, LS_F16}, 128, 128 * 40, 32 * 136},
                {{1, 9000, 64, 512, false, false, false, LS_BF16}, 128, 64 * 40, 32 * 72},
                {{1, 512, 512, 512, false, false, false, LS_BF16}, 128, 64 * 40, 32 * 72}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bench b;
        ls_plan plan;
        ls_spec spec;
        ls_kernel_list list;
        bench_open(&b);
        ls_session_set_math(b.s, LS_FAST);
        ls_tensor *root = build(&b, &rows[i].p);
        bench_plan(&b, &root, 1, 1, &plan);
        bench_spec(&b, &plan.groups[0], &spec);
        ok(&b, ls_emit(&b.arena, &spec, &plain, "matrix", &list, &b.err));
        const ls_kernel *k = &list.kernels[0].kernel;
        ok(&b, ls_kernel_verify(&b.heap, k, &b.err));
        int64_t halves[2] = {0, 0};
        for (int m = 0; m < k->n_mems; m++) {
            bool of[2] = {strcmp(k->mems[m].name, "rows") == 0, strcmp(k->mems[m].name, "columns") == 0};
            for (int side = 0; side < 2; side++) {
                halves[side] = of[side] && k->mems[m].dtype == LS_U32 ? 2 * k->mems[m].count : halves[side];
            }
        }
        if (k->workgroup[0] != rows[i].threads || halves[0] != rows[i].rows || halves[1] != rows[i].columns) {
            fail_msg("row %zu: %d threads, %lld and %lld halves", i, (int)k->workgroup[0], (long long)halves[0], (long long)halves[1]);
        }
        bench_close(&b);
    }
}

static void whole_products(void **state) {
    (void)state;
    static const product rows[] = {
        {1, 128, 256, 64, false, false, false, LS_F16}, {1, 256, 128, 64, true, false, false, LS_F16},
        {1, 128, 64, 192, false, true, false, LS_BF16}, {1, 128, 64, 128, true, true, true, LS_BF16},
        {3, 128, 64, 64, false, false, true, LS_F16},   {2, 128, 128, 64, true, true, false, LS_BF16},
        {1, 256, 192, 64, false, false, true, LS_F16},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check(&rows[i], &whole, 1, 0);
    }
    static const product parts[] = {
        /* of tiles, and of a last slab where nothing but zeros lies behind it */
        {1, 65, 136, 64, false, false, false, LS_F16}, {1, 136, 68, 64, true, true, false, LS_F16},
        {2, 72, 136, 128, true, false, true, LS_BF16}, {1, 64, 128, 72, false, false, false, LS_F16},
        {1, 200, 64, 104, true, true, false, LS_F16},  {1, 130, 196, 8, false, true, false, LS_BF16},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        check(&parts[i], &whole, 1, 0);
        check(&parts[i], &whole, 1, 1);
    }
    check(&(product){1, 56, 128, 64, false, false, false, LS_F16}, &whole, 0, 0); /* too few rows */
    check(&(product){2, 128, 128, 72, false, false, false, LS_F16}, &whole, 0,
          0); /* what lies behind a slab is the next matrix */
    check(&(product){1, 128, 64, 64, true, true, false, LS_F16}, &whole, 1,
          3); /* an operand where nobody can bind it */
    check(&(product){2, 128, 64, 128, false, false, true, LS_BF16}, &whole, 1, 1);
}

/* What it cannot do, it says. */
static void reasons(void **state) {
    (void)state;
    static const struct {
        ls_math math;
        ls_dtype dtype;
        int m, k;
        bool computed;
        const char *says;
    } rows[] = {{LS_LOCKED, LS_F16, 64, 64, false, "locked arithmetic"}, {LS_FAST, LS_F32, 64, 64, false, "both f16 or both bf16"},
                {LS_FAST, LS_F16, 60, 64, false, NULL}, /* these are not for whole tiles, but for fragments of any operands */
                {LS_FAST, LS_F16, 64, 40, false, NULL}, {LS_FAST, LS_F16, 64, 33, false, NULL},
                {LS_FAST, LS_F16, 64, 64, true, NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bench b;
        ls_plan plan;
        ls_spec spec;
        ls_emit_strategy all[LS_EMIT_STRATEGIES];
        bench_open(&b);
        ls_session_set_math(b.s, rows[i].math);
        ls_tensor *x = ls_input(b.s, "a", rows[i].dtype, LS_SHAPE(rows[i].m, rows[i].k));
        ls_tensor *y = ls_input(b.s, "b", rows[i].dtype, LS_SHAPE(rows[i].k, 64));
        ls_tensor *root = ls_matmul(b.s, rows[i].computed ? ls_neg(b.s, x) : x, y);
        bench_plan(&b, &root, 1, 1, &plan);
        bench_spec(&b, &plan.groups[plan.n_groups - 1], &spec);
        assert_int_equal(ls_emit_strategies(&b.arena, &spec, &caps, all, &b.err), LS_OK);
        assert_string_equal(all[3].name, "matrix");
        bool right = rows[i].says ? all[3].reason && strstr(all[3].reason, rows[i].says) : !all[3].reason;
        if (!right) {
            fail_msg("row %zu: %s, expected %s", i, all[3].reason ? all[3].reason : "available", rows[i].says ? rows[i].says : "that");
        }
        bench_close(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(moved_products), cmocka_unit_test(tiles),
                                       cmocka_unit_test(whole_products), cmocka_unit_test(reasons)};
    return cmocka_run_group_tests_name("emit_matrix", tests, NULL, NULL);
}
