/* The engine end to end: symbols, programs, loops. */
#include "unit/engine_support.h"
#include <lockstep/lockstep.h>
#include <string.h>

/* ---- symbols ---- */

static void symbols_change_without_compiling(void **state) {
    (void)state;
    ls_error err = {0};
    ls_symbol *b = ls_symbol_create(w.context, "B", 5, &err);
    assert_non_null(b);
    ls_shape shape = LS_SHAPE(1, 2), wide = LS_SHAPE(2, 1);
    shape.dim[0] = ls_dim_symbol(b, 1, 0);
    wide.dim[1] = ls_dim_symbol(b, 1, 0);
    float data[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    for (int n = 5; n >= 0; n--) {
        float rows[5], columns[2], whole[10];
        world_ok(&w, ls_symbol_bind(s, b, n));
        assert_int_equal(ls_scope_begin(s), LS_OK);
        ls_tensor *x = ls_tensor_from(s, LS_F32, shape, data), *y = ls_tensor_from(s, LS_F32, wide, data);
        ls_tensor *row = ls_sum(s, x, 1, (int[]){1}, 0), *column = ls_sum(s, x, 1, (int[]){0}, 0);
        ls_tensor *all[] = {row, column, ls_transpose(s, y, 0, 1)};
        world_ok(&w, ls_realize(s, all, 3));
        world_ok(&w, ls_read(s, row, rows, sizeof *rows * (size_t)n));
        world_ok(&w, ls_read(s, column, columns, sizeof columns));
        world_ok(&w, ls_read(s, all[2], whole,
                             sizeof *whole * 2 * (size_t)n)); /* [B,2] from [2,B], dense both times */
        for (int i = 0; i < n; i++) {
            assert_true(rows[i] == data[2 * i] + data[2 * i + 1]);
            assert_true(whole[2 * i] == data[i] && whole[2 * i + 1] == data[n + i]);
        }
        assert_true(columns[0] == (float)(n * n) && columns[1] == (float)(n * (n + 1)));
        assert_int_equal(ls_tensor_numel(s, x), 2 * n);
        ls_scope_end(s);
        assert_int_equal(compiles(), 1);
    }
    assert_int_equal(ls_symbol_bind(s, b, 6), LS_ERR_INVALID);
}

static void symbols_of_another_context_are_refused(void **state) {
    (void)state;
    ls_error err = {0};
    world other = world_open("cpu");
    ls_symbol *foreign = ls_symbol_create(other.context, "F", 5, &err);
    ls_shape shape = LS_SHAPE(1, 2);
    shape.dim[0] = ls_dim_symbol(foreign, 1, 0);
    REFUSED(ls_symbol_bind(s, foreign, 3), LS_ERR_INVALID, "symbol F belongs to another context");
    REFUSED_NULL(ls_input(s, "x", LS_F32, shape), "a symbol of this context");
    world_close(&other);
}

/* A crop, a window or an input of an extent below 0 is an error, and neither a kernel nor a copy. */
static void extents_below_zero_are_refused(void **state) {
    (void)state;
    ls_error err;
    ls_symbol *n = ls_symbol_create(w.context, "N", 64, &err);
    ls_shape both = LS_SHAPE(4, 64, 64), less = LS_SHAPE(64);
    both.dim[1] = both.dim[2] = ls_dim_symbol(n, 1, 0);
    less.dim[0] = ls_dim_symbol(n, 1, -5);
    const ls_pad_spec crop[] = {{0, 0, 0}, {0, -8, 0}, {0, -8, 0}}, widen[] = {{0, 0, 0}, {0, 8, 0}, {8, 0, 0}};
    const ls_window_spec window = {9, 1, 1};
    const int axis = 2;
    ls_tensor *x = ls_input(s, "x", LS_F32, both), *cropped = ls_pad(s, x, crop, 0);
    ls_tensor *const all[] = {ls_exp(s, cropped), ls_pad(s, cropped, widen, 0), ls_sum(s, ls_window(s, x, 1, &axis, &window), 0, NULL, 0)};
    static float data[4 * 64 * 64], out[2 * 4 * 64 * 64];
    const void *in = data;
    for (int i = 0; i < 3; i++) {
        ls_program *p;
        void *to = out;
        world_ok(&w, ls_program_compile(s, &x, 1, &all[i], 1, &p));
        world_ok(&w, ls_symbol_bind(s, n, 3)); /* two extents of -5 are 25 elements a plane */
        memset(out, 7, sizeof out);
        REFUSED(ls_program_run(p, &in, &to), LS_ERR_SHAPE, "an extent is -5 where symbol N is 3");
        for (size_t k = 0; k < sizeof out; k++) {
            assert_int_equal(((const char *)out)[k], 7);
        }
        world_ok(&w, ls_symbol_bind(s, n, 8));
        world_ok(&w, ls_program_run(p, &in, &to));
        ls_program_destroy(p);
    }
    world_ok(&w, ls_symbol_bind(s, n, 3));
    REFUSED_NULL(ls_tensor_from(s, LS_F32, less, data), "extent -2");
    assert_int_equal(ls_tensor_numel(s, cropped), 0);
    assert_int_equal(ls_tensor_bytes(s, cropped), 0);
}

static void values_of_other_symbol_values_are_not_used(void **state) {
    (void)state;
    ls_error err = {0};
    ls_symbol *b = ls_symbol_create(w.context, "B", 4, &err);
    ls_shape shape = LS_SHAPE(1);
    shape.dim[0] = ls_dim_symbol(b, 1, 0);
    ls_tensor *n = ls_sum(s, ls_full(s, LS_F32, shape, 1), 0, NULL, 0);
    assert_true(scalar_of(n) == 4);
    world_ok(&w, ls_symbol_bind(s, b, 3));
    assert_true(scalar_of(n) == 3);
    ls_tensor *twice = scaled(n, 2);
    world_ok(&w, ls_symbol_bind(s, b, 2));
    assert_true(scalar_of(twice) == 4);
    float data[] = {1, 2, 3, 4};
    ls_tensor *x = ls_tensor_from(s, LS_F32, shape, data);
    assert_true(scalar_of(ls_sum(s, x, 0, NULL, 0)) == 3);
    world_ok(&w, ls_symbol_bind(s, b, 3));
    ls_tensor *sum = ls_sum(s, ls_neg(s, x), 0, NULL, 0);
    REFUSED(ls_realize(s, &sum, 1), LS_ERR_SHAPE, "");
    world_ok(&w, ls_symbol_bind(s, b, 2));
    assert_true(scalar_of(sum) == -3);
}

/* ---- programs ---- */

static void count_sqrt(void *user, const ls_kernel_profile *kernel) {
    *(int *)user += strstr(kernel->kernel, "sqrt") != NULL;
}

/* What follows from data is computed when the program is compiled; what follows from inputs or variables, or would grow, at each run. */
static void programs_compute_constants_once(void **state) {
    (void)state;
    float variance[] = {3, 8, 15}, in[6] = {2, 3, 4, 4, 6, 8}, out[6], again[6];
    ls_tensor *x = ls_input(s, "x", LS_F32, LS_SHAPE(2, 3)), *v = vector(3, variance);
    ls_tensor *scale = ls_sqrt(s, ls_add(s, v, ls_full(s, LS_F32, LS_SCALAR, 1)));
    ls_tensor *y = ls_div(s, x, scale), *z = ls_add(s, y, ls_sqrt(s, ls_add(s, x, ls_expand(s, v, LS_SHAPE(2, 3)))));
    ls_program *p;
    int kernels = 0;
    const void *ins[] = {in};
    void *outs[] = {out};
    world_ok(&w, ls_program_compile(s, &x, 1, &y, 1, &p));
    ls_program_kernels(p, count_sqrt, &kernels);
    assert_int_equal(kernels, 0);
    world_ok(&w, ls_program_run(p, ins, outs));
    for (int i = 0; i < 6; i++) {
        assert_true(out[i] == in[i] / (float)(2 + i % 3));
    }
    ls_program_destroy(p);
    world_ok(&w, ls_program_compile(s, &x, 1, &z, 1, &p));
    ls_program_kernels(p, count_sqrt, &kernels);
    assert_int_equal(kernels, 1);
    outs[0] = again;
    world_ok(&w, ls_program_run(p, ins, outs));
    ls_program_destroy(p);
    /* Variables may change between runs. */
    ls_var *var = ls_var_create(s, "variance", LS_F32, LS_SHAPE(3), variance);
    ls_tensor *q = ls_div(s, x, ls_sqrt(s, ls_add(s, ls_var_value(s, var), ls_full(s, LS_F32, LS_SCALAR, 1))));
    world_ok(&w, ls_program_compile(s, &x, 1, &q, 1, &p));
    ls_program_kernels(p, count_sqrt, &kernels);
    assert_int_equal(kernels, 2);
    world_ok(&w, ls_program_run(p, ins, outs));
    assert_memory_equal(again, out, sizeof out);
    ls_program_destroy(p);
}

static void count_kernels(void *user, const ls_kernel_profile *kernel) {
    (void)kernel;
    ++*(int *)user;
}

/* How many elements each window of a padded average has follows from nothing else, on the device of what is averaged. */
static void programs_count_windows_once(void **state) {
    (void)state;
    enum { CHANNELS = 64 }; /* so many that each would not count for itself */
    static const float want[9] = {12, 14, 16, 18, 20, 22, 24, 26, 28};
    const ls_conv_spec around = {.spatial = 2, .pad_low = {1, 1}, .pad_high = {1, 1}};
    float in[CHANNELS][9], out[CHANNELS][9];
    for (int i = 0; i < 9 * CHANNELS; i++) {
        in[i / 9][i % 9] = (float)(4 + 4 * (i % 9));
    }
    ls_tensor *x = ls_input(s, "x", LS_F32, LS_SHAPE(1, CHANNELS, 3, 3)), *y = ls_avg_pool(s, x, (int64_t[]){3, 3}, &around, 0);
    const void *ins[] = {in};
    void *outs[] = {out};
    int kernels = 0;
    ls_program *p;
    world_ok(&w, ls_program_compile(s, &x, 1, &y, 1, &p));
    ls_program_kernels(p, count_kernels, &kernels);
    assert_int_equal(kernels, 1);
    world_ok(&w, ls_program_run(p, ins, outs));
    for (int i = 0; i < CHANNELS; i++) {
        assert_memory_equal(out[i], want, sizeof want);
    }
    ls_program_destroy(p);
}

/* What follows from data and grows is looked at once, however often it is read. */
static void searches_for_constants_are_linear(void **state) {
    (void)state;
    int8_t steps[] = {1, 2, 3};
    float in[] = {0.5f, 0.5f, 0.5f}, out[3];
    ls_tensor *x = ls_input(s, "x", LS_F32, LS_SHAPE(3)), *y = ls_cast(s, ls_tensor_from(s, LS_I8, LS_SHAPE(3), steps), LS_F32);
    for (int i = 0; i < 60; i++) { /* as many paths as 2^60 */
        y = ls_mul(s, ls_add(s, y, y), ls_full(s, LS_F32, LS_SCALAR, 0.5));
    }
    y = ls_add(s, x, y);
    ls_program *p;
    world_ok(&w, ls_program_compile(s, &x, 1, &y, 1, &p));
    world_ok(&w, ls_program_run(p, (const void *[]){in}, (void *[]){out}));
    for (int i = 0; i < 3; i++) {
        assert_true(out[i] == (float)(i + 1) + 0.5f);
    }
    ls_program_destroy(p);
}

static void programs_replay(void **state) {
    (void)state;
    float a[] = {1, 2}, out[2], count = 0;
    ls_var *runs = ls_var_create(s, "runs", LS_F32, LS_SCALAR, NULL);
    ls_tensor *x = ls_input(s, "x", LS_F32, LS_SHAPE(2)), *bias = vector(2, a),
              *unused = ls_input(s, "u", LS_F32, LS_SCALAR);
    ls_tensor *y = ls_add(s, ls_mul(s, x, x), bias), *inputs[] = {x, unused}, *outputs[] = {y, bias, y};
    world_ok(&w, ls_var_assign(s, runs, ls_add(s, ls_var_value(s, runs), ls_full(s, LS_F32, LS_SCALAR, 1))));
    ls_program *p;
    world_ok(&w, ls_program_compile(s, inputs, 2, outputs, 3, &p));
    world_ok(&w, ls_realize(s, NULL, 0)); /* the assignment is the program's now */
    world_ok(&w, ls_var_read(s, runs, &count, sizeof count));
    assert_true(count == 0);
    uint64_t compiled = compiles();
    for (int i = 1; i < 5; i++) {
        float in[] = {(float)i, 10}, again[2];
        const void *ins[] = {in, NULL};
        void *outs[] = {out, NULL, again};
        world_ok(&w, ls_program_run(p, ins, outs));
        assert_true(out[0] == (float)(i * i) + 1 && out[1] == 102);
        assert_memory_equal(out, again, sizeof out);
        world_ok(&w, ls_var_read(s, runs, &count, sizeof count));
        assert_true(count == (float)i);
    }
    assert_int_equal(compiles(), compiled);
    assert_int_equal(ls_program_get_stats(p).runs, 4);
    assert_int_equal(ls_program_get_stats(p).launches, 8);
    const void *missing[] = {NULL, NULL};
    REFUSED(ls_program_run(p, missing, NULL), LS_ERR_INVALID, "");
    ls_program_destroy(p);
    /* What is not given must be named. */
    REFUSED(ls_program_compile(s, NULL, 0, &y, 1, &p), LS_ERR_INVALID, "\"x\"");
    assert_null(p);
    ls_tensor *twice[] = {x, x};
    REFUSED(ls_program_compile(s, twice, 2, &y, 1, &p), LS_ERR_INVALID, "");
}

static void programs_take_symbols(void **state) {
    (void)state;
    ls_error err = {0};
    ls_symbol *b = ls_symbol_create(w.context, "B", 4, &err);
    ls_shape shape = LS_SHAPE(2, 1);
    shape.dim[1] = ls_dim_symbol(b, 1, 0);
    ls_tensor *x = ls_input(s, "x", LS_F32, shape), *y = ls_sum(s, x, 1, (int[]){1}, 0);
    ls_program *p;
    world_ok(&w, ls_program_compile(s, &x, 1, &y, 1, &p));
    for (int n = 1; n <= 4; n++) {
        float in[] = {1, 2, 3, 4, 5, 6, 7, 8}, out[2], want[2] = {0, 0};
        for (int i = 0; i < 2 * n; i++) {
            want[i / n] += in[i];
        }
        const void *ins[] = {in};
        void *outs[] = {out};
        world_ok(&w, ls_symbol_bind(s, b, n));
        world_ok(&w, ls_program_run(p, ins, outs));
        assert_true(out[0] == want[0] && out[1] == want[1]);
    }
    assert_int_equal(compiles(), 1);
    ls_program_destroy(p);
}

static void programs_outlive_what_they_hold(void **state) {
    (void)state;
    float a[] = {1, 2}, out[2];
    ls_program *p;
    assert_int_equal(ls_scope_begin(s), LS_OK);
    ls_var *v = ls_var_create(s, "v", LS_F32, LS_SHAPE(2), a);
    ls_tensor *y = ls_add(s, vector(2, a), ls_var_value(s, v));
    world_ok(&w, ls_program_compile(s, NULL, 0, &y, 1, &p));
    ls_scope_end(s);
    ls_var_destroy(v);
    void *outs[] = {out};
    world_ok(&w, ls_program_run(p, NULL, outs));
    assert_true(out[0] == 2 && out[1] == 4);
    ls_program_destroy(p);
}

/* ---- loops ---- */

static ls_status fibonacci(ls_session *session, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                           ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)ctx;
    out_carry[0] = carry[1];
    out_carry[1] = ls_add(session, ls_add(session, carry[0], carry[1]), xs[0]);
    out_ys[0] = carry[0];
    out_ys[1] = ls_mul(session, ls_cast(session, iteration, LS_F32), xs[0]);
    return LS_OK;
}

/* carry * carry + x on another device. */
static ls_status there_and_back(ls_session *session, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                                ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    ls_device *const *devices = ctx; /* here, there */
    (void)iteration;
    ls_tensor *c = ls_to_device(session, ls_neg(session, carry[0]), devices[1]);
    c = ls_mul(session, ls_exp(session, c), c);
    c = ls_to_device(session, ls_neg(session, c), devices[0]);
    out_carry[0] = ls_add(session, ls_abs(session, c), xs[0]);
    out_ys[0] = ls_sub(session, c, xs[0]);
    return LS_OK;
}

static void loops_use_other_devices(void **state) {
    (void)state;
    ls_device *devices[2] = {w.device, NULL};
    ls_error err = {0};
    float xs[15], got[2][5], ys[2][15];
    for (int i = 0; i < 15; i++) {
        xs[i] = (float)i / 16 - 0.4f;
    }
    assert_int_equal(ls_device_open(w.context, "ref", &devices[1], &err), LS_OK);
    for (int alone = 0; alone < 2; alone++) { /* and the same on one device */
        devices[1] = alone ? w.device : devices[1];
        ls_tensor *x = ls_tensor_from(s, LS_F32, LS_SHAPE(3, 5), xs),
                  *carry = ls_full(s, LS_F32, LS_SHAPE(5), 0.25), *out, *y;
        world_ok(&w, ls_loop(s, ls_dim_of(3), 1, &carry, 1, &x, 1, there_and_back, devices, &out, &y));
        world_ok(&w, ls_realize(s, (ls_tensor *[]){out, y}, 2));
        world_ok(&w, ls_read(s, out, got[alone], sizeof got[alone]));
        world_ok(&w, ls_read(s, y, ys[alone], sizeof ys[alone]));
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
    assert_memory_equal(ys[0], ys[1], sizeof ys[0]);
}

static void loops_carry_and_stack(void **state) {
    (void)state;
    ls_error err = {0};
    ls_symbol *n = ls_symbol_create(w.context, "T", 6, &err);
    ls_shape steps = LS_SHAPE(1);
    steps.dim[0] = ls_dim_symbol(n, 1, 0);
    float xs[] = {0, 1, 0, 2, 0, 0};
    for (int trip = 0; trip <= 6; trip++) {
        float a = 1, b = 1, got[2], ys[2][6];
        world_ok(&w, ls_symbol_bind(s, n, trip));
        ls_tensor *carry[] = {ls_full(s, LS_F32, LS_SCALAR, 1), ls_full(s, LS_F32, LS_SCALAR, 1)}, *out[2],
                  *y[2];
        ls_tensor *x = ls_tensor_from(s, LS_F32, steps, xs);
        world_ok(&w, ls_loop(s, ls_dim_symbol(n, 1, 0), 2, carry, 1, &x, 2, fibonacci, NULL, out, y));
        ls_tensor *all[] = {out[0], out[1], y[0], y[1]};
        world_ok(&w, ls_realize(s, all, 4));
        for (int i = 0; i < 2; i++) {
            world_ok(&w, ls_read(s, out[i], &got[i], sizeof got[i]));
            world_ok(&w, ls_read(s, y[i], ys[i], sizeof(float) * (size_t)trip));
        }
        for (int t = 0; t < trip; t++) {
            assert_true(ys[0][t] == a && ys[1][t] == (float)t * xs[t]);
            float next = a + b + xs[t];
            a = b;
            b = next;
        }
        assert_true(got[0] == a && got[1] == b);
        assert_int_equal(compiles(), 1);
    }
}

/* Its states are results of each step, too, two of them the same one. */
static ls_status sums_so_far(ls_session *session, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                             ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)ctx, (void)iteration;
    out_carry[0] = out_carry[1] = out_ys[0] = ls_add(session, ls_sub(session, carry[0], carry[1]), xs[0]);
    out_carry[2] = out_ys[1] = ls_add(session, carry[2], out_ys[0]);
    return LS_OK;
}

static void states_stay_in_slices(void **state) {
    (void)state;
    ls_error err = {0};
    ls_symbol *n = ls_symbol_create(w.context, "steps", 4, &err);
    ls_shape steps = LS_SHAPE(1);
    steps.dim[0] = ls_dim_symbol(n, 1, 0);
    const float xs[] = {1, 2, 4, 8};
    ls_tensor *x = ls_input(s, "x", LS_F32, steps),
              *carry[] = {ls_full(s, LS_F32, LS_SCALAR, 3), ls_full(s, LS_F32, LS_SCALAR, 3),
                          ls_full(s, LS_F32, LS_SCALAR, 5)},
              *out[3], *y[2];
    world_ok(&w, ls_loop(s, ls_dim_symbol(n, 1, 0), 3, carry, 1, &x, 2, sums_so_far, NULL, out, y));
    ls_tensor *all[] = {y[0], y[1], out[1], out[2]};
    for (int roots = 2; roots <= 4; roots += 2) { /* without the last states, and with them */
        ls_program *p;
        world_ok(&w, ls_program_compile(s, &x, 1, all, roots, &p));
        assert_int_equal(ls_program_get_stats(p).copies, 0);
        for (int trip = 0; trip <= 4; trip++) {
            float ys[2][4], last[2] = {0, 0}, sum = 5;
            world_ok(&w, ls_symbol_bind(s, n, trip));
            world_ok(&w,
                     ls_program_run(p, (const void *[]){xs}, (void *[]){ys[0], ys[1], &last[0], &last[1]}));
            for (int t = 0; t < trip; t++) {
                sum += xs[t];
                assert_true(ys[0][t] == xs[t] && ys[1][t] == sum);
            }
            assert_true(roots == 2 || (last[0] == (trip ? xs[trip - 1] : 3) && last[1] == sum));
        }
        ls_program_destroy(p);
    }
}

static ls_status inner_body(ls_session *session, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                            ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)iteration, (void)xs, (void)out_ys;
    out_carry[0] = ls_add(session, ls_mul(session, carry[0], ctx), ls_full(session, LS_F32, LS_SHAPE(3), 1));
    return LS_OK;
}

/* Captures the outer carry and an outside tensor in the inner loop. */
static ls_status outer_body(ls_session *session, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                            ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)iteration, (void)xs;
    ls_tensor *factor = ls_mul(session, ctx, carry[0]);
    ls_status status =
        ls_loop(session, ls_dim_of(2), 1, carry, 0, NULL, 0, inner_body, factor, out_carry, NULL);
    out_ys[0] = ls_sum(session, out_carry[0], 0, NULL, 0);
    return status;
}

static void loops_nest_and_capture(void **state) {
    (void)state;
    float a[] = {1, 2, 3}, half[] = {0.5f, 0.25f, 0.125f}, got[3], sums[4], want[3] = {1, 2, 3}, want_sums[4];
    ls_tensor *carry = vector(3, a), *outside = ls_neg(s, ls_neg(s, vector(3, half))), *out, *ys;
    world_ok(&w, ls_loop(s, ls_dim_of(4), 1, &carry, 0, NULL, 1, outer_body, outside, &out, &ys));
    ls_tensor *all[] = {ys, out};
    world_ok(&w, ls_realize(s, all, 2));
    world_ok(&w, ls_read(s, out, got, sizeof got));
    world_ok(&w, ls_read(s, ys, sums, sizeof sums));
    for (int t = 0; t < 4; t++) {
        want_sums[t] = 0;
        for (int i = 0; i < 3; i++) {
            float factor = half[i] * want[i];
            for (int k = 0; k < 2; k++) {
                want[i] = want[i] * factor + 1;
            }
            want_sums[t] += want[i];
        }
    }
    for (int i = 0; i < 3; i++) {
        assert_true(got[i] == want[i]);
    }
    assert_true(sums[0] == want_sums[0] && sums[3] == want_sums[3]);
}

/* Results that nobody reads, and a loop whose result goes into the variable that it read. */
static void loops_into_variables(void **state) {
    (void)state;
    float a[] = {1, 2, 3}, half[] = {0.5f, 0.5f, 0.5f}, got[3], sums[4];
    ls_var *v = ls_var_create(s, "v", LS_F32, LS_SHAPE(3), a);
    ls_tensor *carry = ls_var_value(s, v), *out, *ys;
    world_ok(&w, ls_loop(s, ls_dim_of(4), 1, &carry, 0, NULL, 1, outer_body, vector(3, half), &out, &ys));
    world_ok(&w, ls_read(s, ys, sums, sizeof sums));
    world_ok(&w, ls_var_assign(s, v, out));
    world_ok(&w, ls_realize(s, NULL, 0));
    world_ok(&w, ls_var_read(s, v, got, sizeof got));
    float sum = 0;
    for (int i = 0; i < 3; i++) {
        sum += got[i];
    }
    assert_true(sum == sums[3]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(symbols_change_without_compiling),
        TEST(extents_below_zero_are_refused),
        TEST(symbols_of_another_context_are_refused),
        TEST(values_of_other_symbol_values_are_not_used),
        TEST(programs_replay),
        TEST(programs_compute_constants_once),
        TEST(programs_count_windows_once),
        TEST(searches_for_constants_are_linear),
        TEST(programs_take_symbols),
        TEST(programs_outlive_what_they_hold),
        TEST(loops_carry_and_stack),
        TEST(loops_use_other_devices),
        TEST(states_stay_in_slices),
        TEST(loops_nest_and_capture),
        TEST(loops_into_variables),
    };
    int failed = RUN_ON("ref", tests);
    return failed + RUN_ON("cpu", tests);
}
