/* Emitted kernels where the conformance rows do not reach: symbols, grids of several axes, rows of several blocks, indices out of
 * range under guards, faults that must be caught, memory that runs out. */
#include "test_emit.h"

static ls_tensor *numbers(ls_session *s, ls_dtype dtype, int64_t rows, int64_t columns) {
    ls_tensor *i = ls_iota(s, LS_I32, LS_SHAPE(rows * columns), 0);
    ls_tensor *x = ls_rem(s, ls_mul(s, i, ls_full(s, LS_I32, LS_SHAPE(rows * columns), 7919)),
                          ls_full(s, LS_I32, LS_SHAPE(rows * columns), 1009));
    x = ls_cast(s, x, dtype);
    if (dtype == LS_F32 || dtype == LS_F64) {
        x = ls_div(s, ls_sub(s, x, ls_full(s, dtype, LS_SHAPE(rows * columns), 500)), ls_full(s, dtype, LS_SHAPE(rows * columns), 300));
    }
    return ls_reshape(s, x, LS_SHAPE(rows, columns));
}

static void realize(world *w, ls_tensor *t) {
    ls_data *data = NULL;
    world_ok(w, t ? ls_data_from_tensor(w->session, t, &data) : ls_session_error(w->session)->code);
    ls_data_release(data);
}

/* Softmax, norms and column sums over one block and several; reductions with different rows in one group; index reductions. */
static ls_tensor *networks(ls_session *s, int64_t rows, int64_t columns) {
    ls_tensor *x = numbers(s, LS_F32, rows, columns);
    ls_tensor *all = ls_sum(s, x, 2, (const int[]){0, 1}, 1);
    ls_tensor *y = ls_add(s, ls_softmax(s, x, 1), ls_layer_norm(s, x, 1, NULL, NULL, 1e-5));
    y = ls_div(s, ls_sub(s, y, ls_amax(s, x, 1, (const int[]){0}, 1)), all);
    ls_tensor *k = ls_add(s, ls_argmax(s, x, 1, (const int[]){1}, 1), ls_argmin(s, x, 1, (const int[]){1}, 1));
    return ls_add(s, y, ls_cast(s, k, LS_F32));
}

static void rows_of_blocks(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{1, 33}, {3, 256}, {2, 300}, {40, 4096}, {2, 4097}, {5, 9000}, {6, 1028}, {9, 512}, {300, 40}, {4200, 17}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int how = 0; how < 4; how++) { /* with and without fusion; with and without subgroups */
            world w = open_checked();
            total.caps.subgroup = how & 2 ? 32 : 0;
            ls_session_set_fusion(w.session, how & 1);
            realize(&w, networks(w.session, sizes[i][0], sizes[i][1]));
            world_close(&w);
            total.caps.subgroup = 0;
        }
    }
    assert_true(total.several > 0 && total.workgroups > 0);
    world w = open_checked(); /* more than 4096 blocks: block results of block results */
    ls_shape line = LS_SHAPE(4096 * 4096 + 5);
    long kernels = total.kernels;
    realize(&w, ls_sum(w.session, ls_mul(w.session, ls_iota(w.session, LS_F32, line, 0), ls_full(w.session, LS_F32, line, 1e-7)), 0, NULL, 0));
    assert_int_equal(total.kernels, kernels + 3); /* blocks, blocks of blocks, the store */
    world_close(&w);
}

/* Columns of several blocks that one workgroup does, with what is computed from the sums. */
static void columns_of_blocks(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{4100, 33}, {8193, 40}};
    static float data[8193 * 40];
    for (int i = 0; i < 8193 * 40; i++) {
        data[i] = (float)(i % 1009 * 7919 % 1009 - 500) / 300;
    }
    for (int i = 0; i < 2; i++) {
        world w = open_checked();
        total.caps.max_threads = 1024;
        total.strategy = "column";
        ls_tensor *x = ls_tensor_from(w.session, LS_F32, LS_SHAPE(sizes[i][0], sizes[i][1]), data);
        long kernels = total.kernels;
        realize(&w, ls_neg(w.session, ls_sum(w.session, x, 1, (const int[]){0}, 0)));
        assert_int_equal(total.kernels, kernels + 1);
        realize(&w, ls_exp(w.session, ls_amax(w.session, x, 1, (const int[]){0}, 0)));
        world_close(&w);
        total.caps.max_threads = 0;
        total.strategy = NULL;
    }
}

/* No more than 2 workgroups on an axis: grids fold into three axes, and what lies beyond the last element does nothing. */
static void folded_grids(void **state) {
    (void)state;
    static const int64_t pointwise[] = {1, 256, 257, 512, 513, 1025, 2047, 2048};
    total.max_groups = 2;
    for (size_t i = 0; i < sizeof pointwise / sizeof *pointwise; i++) {
        world w = open_checked();
        ls_tensor *x = numbers(w.session, LS_F64, pointwise[i], 1);
        realize(&w, ls_add(w.session, ls_exp(w.session, x), x));
        world_close(&w);
    }
    for (int64_t rows = 1; rows <= 8; rows++) {
        world w = open_checked();
        realize(&w, ls_softmax(w.session, numbers(w.session, LS_F32, rows, 50), 1));
        realize(&w, ls_sum(w.session, numbers(w.session, LS_I32, rows, 50), 1, (const int[]){1}, 0));
        world_close(&w);
    }
    long before = total.unsupported;
    world w = open_checked();
    realize(&w, ls_iota(w.session, LS_I32, LS_SHAPE(2049), 0)); /* nine workgroups; there are eight */
    world_close(&w);
    assert_int_equal(total.unsupported, before + 1);
    total.max_groups = 0;
}

/* Scans and sorts of lines of several blocks; blocks of totals. */
static void lines(void **state) {
    (void)state;
    world w = open_checked();
    for (int reverse = 0; reverse < 2; reverse++) {
        for (int exclusive = 0; exclusive < 2; exclusive++) {
            ls_tensor *x = numbers(w.session, LS_F32, 1700, 3);
            realize(&w, ls_scan(w.session, x, LS_SCAN_SUM, 0, exclusive, reverse));
            realize(&w, ls_scan(w.session, x, LS_SCAN_MAX, 0, exclusive, reverse));
        }
        realize(&w, ls_argsort(w.session, numbers(w.session, LS_F32, 3, 700), 1, reverse));
    }
    long specs = total.specs;
    for (int i = 0; i < 2; i++) { /* totals of 513 and of 1025 blocks: two blocks of totals, and three */
        ls_tensor *x = numbers(w.session, LS_F32, 512 * 512 * (i + 1) + 3, 1);
        realize(&w, ls_scan(w.session, x, LS_SCAN_SUM, 0, i, i));
    }
    assert_int_equal(total.specs, specs + 2);
    world_close(&w);
}

/* Reductions over symbols, at values from 0 to the bound, by every template. */
static void symbols(void **state) {
    (void)state;
    enum { BOUND = 4100 };
    static const int64_t values[] = {0, 1, 2, 31, 32, 33, 255, 256, 257, 4095, 4096, 4097, BOUND};
    static float x[2 * BOUND * 3], y[2 * BOUND * 3];
    for (int i = 0; i < 2 * BOUND * 3; i++) {
        x[i] = (float)(i * 7919 % 1009) / 64 - 8;
    }
    for (int64_t bound = 40; bound <= BOUND; bound += BOUND - 40) {
        world w = open_checked();
        ls_session *s = w.session;
        ls_error err = {.code = LS_OK};
        ls_symbol *n = ls_symbol_create(w.context, "N", bound, &err);
        assert_non_null(n);
        ls_shape shape = {.rank = 3, .dim = {ls_dim_of(2), ls_dim_symbol(n, 1, 0), ls_dim_of(3)}};
        ls_tensor *in = ls_input(s, "x", LS_F32, shape), *one = ls_full(s, LS_F32, shape, 1);
        ls_tensor *outs[] = {
            ls_sum(s, in, 1, (const int[]){1}, 0), ls_mean(s, in, 3, (const int[]){2, 1, 0}, 0),
            ls_add(s, in, one), ls_softmax(s, in, 1), ls_sum(s, in, 1, (const int[]){2}, 0),
            ls_matmul(s, ls_transpose(s, in, 1, 2), in),
            ls_sum(s, ls_mul(s, in, ls_sum(s, in, 1, (const int[]){1}, 1)), 1, (const int[]){0}, 0),
        };
        for (size_t i = 0; i < sizeof outs / sizeof *outs; i++) {
            ls_program *program;
            world_ok(&w, outs[i] ? LS_OK : ls_session_error(s)->code);
            world_ok(&w, ls_program_compile(s, &in, 1, &outs[i], 1, &program));
            for (size_t v = 0; v < sizeof values / sizeof *values && values[v] <= bound; v++) {
                world_ok(&w, ls_symbol_bind(s, n, values[v]));
                world_ok(&w, ls_program_run(program, (const void *[]){x}, (void *[]){y}));
            }
            ls_program_destroy(program);
        }
        world_close(&w);
    }
}

/* Gathers out of range: reported where the value is used, not where a guard keeps it out. */
static void out_of_range(void **state) {
    (void)state;
    static const int32_t good[4] = {1, 0, 2, 2}, bad[4] = {1, -1, 2, 3};
    for (int kind = 0; kind < 4; kind++) {
        world w = open_checked();
        ls_session *s = w.session;
        ls_tensor *x = numbers(s, kind == 3 ? LS_I16 : LS_F32, 3, 5);
        ls_tensor *i = ls_tensor_from(s, LS_I32, LS_SHAPE(4), kind == 0 ? good : bad);
        ls_tensor *g = ls_gather(s, x, i, 0);
        if (kind == 2) { /* the rows that are wrong are cropped */
            g = ls_concat(s, (ls_tensor *[]){ls_narrow(s, g, 0, 0, 1), ls_narrow(s, g, 0, 2, 1)}, 2, 0);
        }
        long before = total.reported;
        ls_data *data = NULL;
        ls_status status = g ? ls_data_from_tensor(s, ls_neg(s, g), &data) : LS_ERR_INTERNAL;
        bool reports = kind == 1 || kind == 3;
        assert_int_equal(status, reports ? LS_ERR_RANGE : LS_OK);
        assert_int_equal(total.reported, before + reports);
        ls_data_release(data);
        world_close(&w);
    }
}

/* Scatters whose updates meet, along each axis, by element and (of one index) by update, chosen and naive. */
static void scatters(void **state) {
    (void)state;
    static const int32_t index[6] = {1, 4, 1, 1, 0, 4};
    static const ls_scatter_kind kinds[] = {LS_SCATTER_ADD, LS_SCATTER_SET, LS_SCATTER_MUL, LS_SCATTER_MAX};
    for (int n = 0; n < 2 * 3 * 4 * 2; n++) {
        int axis = n % 3, count = n / 24 ? 1 : 6;
        total.strategy = n / 3 % 2 ? "naive" : NULL;
        world w = open_checked();
        ls_session *s = w.session;
        ls_tensor *x = ls_reshape(s, numbers(s, n % 2 ? LS_F32 : LS_I32, 5 * 6, 7), LS_SHAPE(5, 6, 7));
        ls_shape shape = LS_SHAPE(5, 6, 7);
        shape.dim[axis] = ls_dim_of(count);
        ls_tensor *u = ls_reshape(s, numbers(s, n % 2 ? LS_F32 : LS_I32, 5 * 6 * 7 / (5 + axis) * count, 1), shape);
        realize(&w, ls_scatter(s, x, ls_tensor_from(s, LS_I32, LS_SHAPE(count), index), u, axis, kinds[n / 6 % 4]));
        world_close(&w);
    }
    total.strategy = NULL;
}

/* Halves: two runs of four a thread, along the last axis and along the whole. */
static void halves(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{64, 1024}, {1024, 66}, {66, 1024}, {64, 1026}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        world w = open_checked();
        ls_session *s = w.session;
        ls_tensor *x = ls_cast(s, numbers(s, LS_F32, sizes[i][0], sizes[i][1]), LS_F16);
        world_ok(&w, ls_realize(s, &x, 1));
        ls_tensor *row = ls_narrow(s, x, 0, 3, 1);
        realize(&w, ls_relu(s, ls_add(s, ls_mul(s, x, x), row)));
        world_close(&w);
    }
}

/* Operands that lie across the result. */
static void turned(void **state) {
    (void)state;
    world w = open_checked();
    ls_session *s = w.session;
    static const ls_dtype dtypes[] = {LS_F32, LS_F16, LS_I8, LS_F64};
    for (int n = 0; n < 4; n++) {
        ls_tensor *x = ls_cast(s, numbers(s, LS_F32, 48, 64), dtypes[n]);
        world_ok(&w, ls_realize(s, &x, 1));
        ls_tensor *y = ls_add(s, ls_transpose(s, x, 0, 1), ls_narrow(s, ls_reshape(s, x, LS_SHAPE(64, 48)), 0, 5, 1));
        realize(&w, ls_neg(s, ls_transpose(s, x, 0, 1)));
        realize(&w, ls_mul(s, y, y));
        ls_tensor *z = ls_reshape(s, x, LS_SHAPE(3, 16, 64)); /* and with an axis beside */
        realize(&w, ls_abs(s, ls_transpose(s, z, 1, 2)));
        realize(&w, ls_abs(s, ls_transpose(s, z, 0, 2)));
        realize(&w, ls_neg(s, ls_transpose(s, ls_cast(s, numbers(s, LS_F32, 132, 68), dtypes[n]), 0, 1)));
        realize(&w, ls_neg(s, ls_flip(s, ls_transpose(s, x, 0, 1), 0)));
    }
    world_close(&w);
}

/* ---- faults ---- */

typedef struct fault {
    bool planted, seen; /* the site was there; the check refused the kernels */
    int at, n_sites;    /* which instruction of its kind, and how many there are */
    ls_kop from;
} fault;

/* One instruction of a spec's kernels made another: must not go unnoticed. */
static fault now;
static ls_status faulty_after(const ls_check_event *event, void *state, ls_error *err) {
    snapshot *s = state;
    ls_kernel_list list = {0};
    LS_TRY(err, ls_emit(&s->arena, event->spec, NULL, NULL, &list, err));
    int site = 0;
    for (int i = 0; i < list.n_kernels; i++) {
        ls_kernel *k = &list.kernels[i].kernel;
        LS_TRY(err, ls_kernel_simplify(&s->arena, k, NULL, k, err)); /* a fault in what nothing uses is none */
        for (int32_t at = 0; at < k->n_body; at++) {
            ls_ins *ins = &k->body[at];
            if (ins->op == now.from && site++ == now.at) {
                now.planted = true;
                if (ins->op == LS_K_STORE || ins->op == LS_K_BARRIER) { /* it does nothing */
                    *ins = (ls_ins){LS_K_CONST, LS_BOOL, 1, 0, {LS_VAL_NONE, LS_VAL_NONE, LS_VAL_NONE}, 0};
                } else {
                    ins->op = ins->op == LS_K_ADD ? LS_K_SUB : ins->op == LS_K_MUL ? LS_K_ADD : ins->op == LS_K_LT ? LS_K_LE : LS_K_REM;
                }
            }
        }
    }
    now.n_sites = site;
    if (now.planted) {
        ls_error own = {.code = LS_OK};
        now.seen = compare(event, s, &list, false, &own) != LS_OK;
    }
    drop(event, state);
    return LS_OK;
}

static void faults(void **state) {
    (void)state;
    static const ls_check_hooks faulty = {before, faulty_after, drop};
    static const ls_kop kinds[] = {LS_K_ADD, LS_K_MUL, LS_K_LT, LS_K_DIV, LS_K_STORE, LS_K_BARRIER};
    int planted = 0, survived = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (int model = 0; model < 3; model++) {
            fault f = {.from = kinds[k], .n_sites = 1};
            for (int at = 0; at < f.n_sites && at < 60; at++) {
                now = (fault){.from = kinds[k], .at = at};
                world w = world_open("ref");
                ls_session *s = w.session;
                float data[1800];
                for (int i = 0; i < 1800; i++) {
                    data[i] = (float)(i * 7919 % 1009) / 64 + 1;
                }
                ls_tensor *x = ls_tensor_from(s, LS_F32, LS_SHAPE(3, 600), data);
                ls_tensor *y = model == 0   ? ls_add(s, x, ls_mul(s, x, x))
                               : model == 1 ? ls_sum(s, x, 1, (const int[]){1}, 0)
                                            : ls_matmul(s, x, ls_transpose(s, x, 0, 1));
                ls_engine_set_check(w.context, LS_CHECK_BITS, &faulty);
                realize(&w, y);
                world_close(&w);
                f.n_sites = now.n_sites;
                planted += now.planted;
                if (now.planted && !now.seen) {
                    survived++;
                    printf("survived: model %d, %s %d of %d\n", model, ls_kops[kinds[k]].name, at, now.n_sites);
                }
            }
        }
    }
    printf("faults planted: %d; survived: %d\n", planted, survived);
    assert_true(planted > 60);
    assert_int_equal(survived, 0);
}

/* ---- memory that runs out ---- */

static long failures;
static ls_status hungry_after(const ls_check_event *event, void *state, ls_error *err) {
    (void)err;
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    for (long n = 0;; n++) {
        ls_arena arena;
        ls_arena_init(&arena, &heap);
        ls_kernel_list list;
        ls_error own = {.code = LS_OK};
        heap.fail_after = n;
        ls_status status = ls_emit(&arena, event->spec, NULL, NULL, &list, &own);
        heap.fail_after = -1;
        ls_arena_free(&arena);
        assert_int_equal(heap.used, 0);
        if (status == LS_OK) {
            break;
        }
        assert_int_equal(status, LS_ERR_MEMORY);
        failures++;
    }
    drop(event, state);
    return LS_OK;
}

static void out_of_memory(void **state) {
    (void)state;
    static const ls_check_hooks hungry = {before, hungry_after, drop};
    world w = world_open("ref");
    ls_engine_set_check(w.context, LS_CHECK_BITS, &hungry);
    realize(&w, networks(w.session, 2, 4097));
    ls_tensor *x = numbers(w.session, LS_F32, 3, 5);
    realize(&w, ls_gather(w.session, x, ls_iota(w.session, LS_I32, LS_SHAPE(2), 0), 0));
    realize(&w, ls_scatter(w.session, x, ls_iota(w.session, LS_I32, LS_SHAPE(2), 0), numbers(w.session, LS_F32, 2, 5), 0, LS_SCATTER_ADD));
    realize(&w, ls_scan(w.session, x, LS_SCAN_SUM, 1, 1, 1));
    realize(&w, ls_argsort(w.session, x, 1, 1));
    world_close(&w);
    assert_true(failures > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_blocks), cmocka_unit_test(folded_grids), cmocka_unit_test(lines), cmocka_unit_test(symbols),
        cmocka_unit_test(columns_of_blocks),
        cmocka_unit_test(out_of_range),   cmocka_unit_test(scatters),      cmocka_unit_test(halves),        cmocka_unit_test(turned),
        cmocka_unit_test(faults),       cmocka_unit_test(out_of_memory),
    };
    cmocka_set_test_filter(getenv("LOCKSTEP_TEST"));
    return cmocka_run_group_tests_name("emit_cases", tests, NULL, NULL);
}
