/* The engine end to end: computing, the cache of compiled graphs, variables, symbols, programs, loops,
 * devices, check mode. */
#include "engine/exec.h"
#include "support/world.h"
#include <float.h>
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <string.h>

static world w;
static ls_session *s;

static const char *device = "ref";

static int setup(void **state) {
    (void)state;
    w = world_open(device);
    s = w.session;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    world_close(&w);
    return 0;
}

static ls_tensor *vector(int n, const float *data) {
    return ls_tensor_from(s, LS_F32, LS_SHAPE(n), data);
}

static float scalar_of(ls_tensor *x) {
    float y = 0;
    world_ok(&w, ls_read(s, x, &y, sizeof y));
    return y;
}

static ls_tensor *scaled(ls_tensor *x, double by) {
    return ls_mul(s, x, ls_full(s, LS_F32, LS_SCALAR, by));
}

static uint64_t compiles(void) {
    return ls_session_get_stats(s).compiles;
}

/* ---- computing ---- */

static void computes_and_keeps_values(void **state) {
    (void)state;
    float a[] = {1, 2, 3}, b[] = {10, 20, 30}, c[3];
    ls_tensor *sum = ls_add(s, vector(3, a), vector(3, b)), *twice = scaled(sum, 2);
    world_ok(&w, ls_realize(s, &sum, 1));
    uint64_t kernels = ls_session_get_stats(s).kernels;
    world_ok(&w, ls_read(s, sum, c, sizeof c));
    assert_true(c[0] == 11 && c[1] == 22 && c[2] == 33);
    assert_int_equal(ls_session_get_stats(s).kernels, kernels); /* it has its value */
    world_ok(&w, ls_read(s, twice, c, sizeof c));
    assert_true(c[0] == 22 && c[2] == 66);
    assert_int_equal(ls_session_get_stats(s).kernels, kernels + 1); /* one kernel over the value of sum */
}

static void same_tensor_twice_and_leaves(void **state) {
    (void)state;
    float a[] = {1, 2}, out[2];
    ls_tensor *x = vector(2, a), *y = ls_neg(s, x), *copy = ls_reshape(s, x, LS_SHAPE(1, 2));
    ls_tensor *all[] = {y, x, y, copy, ls_stop_gradient(s, x)};
    world_ok(&w, ls_realize(s, all, 5));
    for (int i = 0; i < 5; i++) {
        world_ok(&w, ls_read(s, all[i], out, sizeof out));
        assert_true(out[0] == (all[i] == y ? -1 : 1) && out[1] == (all[i] == y ? -2 : 2));
    }
}

static void constants_and_empty_tensors(void **state) {
    (void)state;
    float five[2], none;
    int64_t iota[3];
    ls_tensor *c = ls_full(s, LS_F32, LS_SHAPE(2), 5);
    world_ok(&w, ls_realize(s, &c, 1));
    world_ok(&w, ls_read(s, c, five, sizeof five));
    assert_true(five[0] == 5 && five[1] == 5);
    world_ok(&w, ls_read(s, ls_iota(s, LS_I64, LS_SHAPE(3), 0), iota, sizeof iota));
    assert_true(iota[0] == 0 && iota[2] == 2);
    ls_tensor *empty = ls_tensor_from(s, LS_F32, LS_SHAPE(0, 4), NULL);
    world_ok(&w, ls_read(s, ls_neg(s, empty), &none, 0));
    assert_true(scalar_of(ls_sum(s, empty, 0, NULL, 0)) == 0);
}

/* A value with absent elements is not what reductions read: they skip those. */
static void absent_elements_survive_realize(void **state) {
    (void)state;
    float a[] = {-1, -2}, padded[3];
    ls_pad_spec pads[] = {{1, 0, 0}};
    ls_tensor *p = ls_pad_absent(s, vector(2, a), pads);
    world_ok(&w, ls_realize(s, &p, 1));
    world_ok(&w, ls_read(s, p, padded, sizeof padded));
    assert_true(padded[0] == 0 && padded[1] == -1);
    assert_true(scalar_of(ls_amax(s, p, 0, NULL, 0)) == -1);
}

static void reports_errors(void **state) {
    (void)state;
    float a[] = {1, 2, 3}, out[3];
    ls_tensor *x = vector(3, a);
    assert_int_equal(ls_read(s, x, out, 8), LS_ERR_INVALID);
    assert_non_null(strstr(ls_session_error(s)->message, "8 bytes, expected 12"));
    assert_int_equal(ls_realize(s, &x, 1), LS_ERR_INVALID); /* the first error stays */
    ls_session_clear_error(s);
    assert_int_equal(ls_realize(s, &x, -1), LS_ERR_INVALID);
    assert_non_null(strstr(ls_session_error(s)->message, "-1 tensors: expected 0 or more"));
    ls_session_clear_error(s);
    ls_program *program;
    assert_int_equal(ls_program_compile(s, NULL, -1, &x, 1, &program), LS_ERR_INVALID);
    assert_non_null(strstr(ls_session_error(s)->message, "-1 inputs and 1 outputs: expected 0 or more"));
    ls_session_clear_error(s);
    assert_null(ls_data_to_tensor(s, NULL));
    assert_non_null(strstr(ls_session_error(s)->message, "is NULL"));
    ls_session_clear_error(s);
    assert_null(ls_data_to_var(s, "v", NULL));
    assert_int_equal(ls_session_error(s)->code, LS_ERR_INVALID);
    ls_session_clear_error(s);
    ls_tensor *bad = ls_add(s, x, vector(2, a));
    assert_null(bad);
    assert_int_equal(ls_realize(s, &bad, 1), LS_ERR_SHAPE);
    ls_session_clear_error(s);
    assert_int_equal(ls_realize(s, &bad, 1), LS_ERR_INVALID);
    ls_session_clear_error(s);
    ls_tensor *input = ls_input(s, "image", LS_F32, LS_SHAPE(3));
    assert_int_equal(ls_read(s, ls_neg(s, input), out, sizeof out), LS_ERR_INVALID);
    assert_non_null(strstr(ls_session_error(s)->message, "image"));
    ls_session_clear_error(s);
    world_ok(&w, ls_read(s, x, out, sizeof out));
    assert_null(ls_tensor_from(s, LS_F32, LS_SHAPE(3), NULL));
    assert_null(ls_tensor_from(s, LS_DTYPE_COUNT, LS_SHAPE(3), a));
}

static void names_a_gather_out_of_range(void **state) {
    (void)state;
    float a[] = {1, 2, 3, 4}, out[3];
    int32_t index[] = {1, 7, 0};
    for (int round = 0; round < 2; round++) { /* the second time from the cache */
        ls_tensor *g = ls_gather(s, vector(4, a), ls_tensor_from(s, LS_I32, LS_SHAPE(3), index), 0);
        assert_int_equal(ls_realize(s, &g, 1), LS_ERR_RANGE);
        const char *message = ls_session_error(s)->message;
        assert_non_null(strstr(message, "gather"));
        assert_non_null(strstr(message, "[4]"));
        assert_non_null(strstr(message, "[3]"));
        ls_session_clear_error(s);
        world_ok(&w, ls_read(s, g, out, sizeof out));
        assert_true(out[0] == 2 && out[1] != out[1] && out[2] == 1);
    }
}

static void bools_are_normalised(void **state) {
    (void)state;
    uint8_t in[] = {0, 1, 7, 255}, out[4];
    world_ok(&w, ls_read(s, ls_tensor_from(s, LS_BOOL, LS_SHAPE(4), in), out, sizeof out));
    assert_true(out[0] == 0 && out[1] == 1 && out[2] == 1 && out[3] == 1);
}

static void submits(void **state) {
    (void)state;
    float a[] = {1, 2};
    int done = 0;
    ls_ticket ticket;
    ls_var *v = ls_var_create(s, "v", LS_F32, LS_SCALAR, NULL);
    ls_tensor *sum = ls_sum(s, vector(2, a), 0, NULL, 0);
    world_ok(&w, ls_var_assign(s, v, sum));
    world_ok(&w, ls_submit(s, &sum, 1, &ticket));
    world_ok(&w, ls_wait(s, ticket));
    world_ok(&w, ls_poll(s, ticket, &done));
    assert_int_equal(done, 1);
    uint64_t kernels = ls_session_get_stats(s).kernels;
    assert_true(scalar_of(sum) == 3);
    assert_int_equal(ls_session_get_stats(s).kernels, kernels);
    world_ok(&w, ls_var_read(s, v, a, sizeof *a));
    assert_true(a[0] == 3);
}

/* ---- the cache ---- */

static void equal_graphs_compile_once(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        float a[] = {(float)i, 1};
        assert_int_equal(ls_scope_begin(s), LS_OK);
        assert_true(scalar_of(ls_sum(s, scaled(vector(2, a), 3), 0, NULL, 0)) == 3 * (float)i + 3);
        ls_scope_end(s);
        assert_int_equal(compiles(), 1);
    }
    float a[] = {1, 2};
    ls_tensor *x = vector(2, a);
    scalar_of(ls_sum(s, scaled(x, 4), 0, NULL, 0)); /* another constant: another program */
    assert_int_equal(compiles(), 2);
    ls_session_set_fusion(s, 0);
    scalar_of(ls_sum(s, scaled(vector(2, a), 4), 0, NULL, 0));
    assert_int_equal(compiles(), 3);
    ls_session_set_fusion(s, 1);
    /* One leaf twice is not two leaves. */
    scalar_of(ls_sum(s, ls_mul(s, vector(2, a), vector(2, a)), 0, NULL, 0));
    scalar_of(ls_sum(s, ls_mul(s, x, x), 0, NULL, 0));
    assert_int_equal(compiles(), 5);
}

/* A computed tensor is a leaf like any other, and passes do not look below it. */
static void values_are_leaves(void **state) {
    (void)state;
    float a[] = {1, 2, 3, 4, 5, 6}, out[6];
    uint64_t before = 0;
    for (int i = 0; i < 3; i++) {
        ls_tensor *x = ls_tensor_from(s, LS_F32, LS_SHAPE(2, 3), a);
        ls_tensor *t = ls_transpose(s, x, 0, 1);
        world_ok(&w, ls_realize(s, &t, 1));
        ls_tensor *back = ls_neg(s, ls_transpose(s, t, 0, 1)); /* would simplify to -x */
        world_ok(&w, ls_read(s, back, out, sizeof out));
        assert_true(out[0] == -1 && out[1] == -2 && out[5] == -6);
        before = i == 0 ? compiles() : before;
    }
    assert_int_equal(compiles(), before);
}

/* ---- variables ---- */

static void assigns_in_order(void **state) {
    (void)state;
    float a[] = {1, 2}, out[2];
    ls_var *v = ls_var_create(s, "v", LS_F32, LS_SHAPE(2), a);
    ls_tensor *old = ls_var_value(s, v), *sum = ls_sum(s, old, 0, NULL, 0);
    world_ok(&w, ls_var_assign(s, v, ls_add(s, old, old)));
    assert_ptr_not_equal(ls_var_value(s, v), old); /* what was assigned, even before it is computed */
    ls_tensor *both[] = {sum, old};
    world_ok(&w, ls_realize(s, both, 2));
    assert_true(scalar_of(sum) == 3);
    world_ok(&w, ls_read(s, old, out, sizeof out)); /* realized with the assignment: the old value */
    assert_true(out[0] == 1 && out[1] == 2);
    world_ok(&w, ls_var_read(s, v, out, sizeof out));
    assert_true(out[0] == 2 && out[1] == 4);
    world_ok(&w, ls_read(s, ls_var_value(s, v), out, sizeof out));
    assert_true(out[0] == 2 && out[1] == 4);
}

static void stale_variables_are_errors(void **state) {
    (void)state;
    float a[] = {1, 2}, out[2];
    ls_var *v = ls_var_create(s, "weights", LS_F32, LS_SHAPE(2), a);
    ls_tensor *reads = ls_neg(s, ls_var_value(s, v));
    world_ok(&w, ls_var_write(s, v, a, sizeof a));
    assert_int_equal(ls_read(s, reads, out, sizeof out), LS_ERR_INVALID);
    assert_non_null(strstr(ls_session_error(s)->message, "weights"));
    ls_session_clear_error(s);
    ls_tensor *again = ls_neg(s, ls_var_value(s, v));
    ls_var_destroy(v);
    assert_int_equal(ls_read(s, again, out, sizeof out), LS_ERR_INVALID);
    ls_session_clear_error(s);
}

static void swaps_variables(void **state) {
    (void)state;
    float a = 1, b = 2;
    ls_var *x = ls_var_create(s, "x", LS_F32, LS_SCALAR, &a),
           *y = ls_var_create(s, "y", LS_F32, LS_SCALAR, &b);
    for (int i = 0; i < 3; i++) {
        ls_tensor *old_x = ls_var_value(s, x), *old_y = ls_var_value(s, y);
        world_ok(&w, ls_var_assign(s, x, old_y));
        world_ok(&w, ls_var_assign(s, y, ls_add(s, old_x, old_y)));
        world_ok(&w, ls_realize(s, NULL, 0));
    }
    world_ok(&w, ls_var_read(s, x, &a, sizeof a));
    world_ok(&w, ls_var_read(s, y, &b, sizeof b));
    assert_true(a == 5 && b == 8); /* 1 2, 2 3, 3 5, 5 8 */
    assert_int_equal(compiles(), 1);
}

static void a_plain_swap_of_three(void **state) {
    (void)state;
    float v[3] = {1, 2, 3};
    ls_var *vars[3];
    ls_tensor *old[3];
    for (int i = 0; i < 3; i++) {
        vars[i] = ls_var_create(s, "v", LS_F32, LS_SCALAR, &v[i]);
        old[i] = ls_var_value(s, vars[i]);
    }
    for (int i = 0; i < 3; i++) {
        world_ok(&w, ls_var_assign(s, vars[i], old[(i + 1) % 3]));
    }
    world_ok(&w, ls_realize(s, NULL, 0));
    for (int i = 0; i < 3; i++) {
        world_ok(&w, ls_var_read(s, vars[i], &v[i], sizeof v[i]));
    }
    assert_true(v[0] == 2 && v[1] == 3 && v[2] == 1);
}

/* x = reverse(x) must not be done in place; x = x + 1 must. */
static void overwrites_only_where_it_may(void **state) {
    (void)state;
    float a[] = {1, 2, 3, 4}, out[4];
    ls_var *v = ls_var_create(s, "v", LS_F32, LS_SHAPE(4), a);
    ls_tensor *reversed = ls_flip(s, ls_var_value(s, v), 0);
    world_ok(&w, ls_var_assign(s, v, reversed));
    world_ok(&w, ls_realize(s, NULL, 0));
    world_ok(&w, ls_var_read(s, v, out, sizeof out));
    assert_true(out[0] == 4 && out[1] == 3 && out[2] == 2 && out[3] == 1);
    ls_program *p;
    world_ok(&w, ls_var_assign(s, v, ls_add(s, ls_var_value(s, v), ls_full(s, LS_F32, LS_SCALAR, 1))));
    world_ok(&w, ls_program_compile(s, NULL, 0, NULL, 0, &p));
    assert_int_equal(ls_program_get_stats(p).copies, 0);
    assert_int_equal(ls_program_get_stats(p).temporary_bytes, 0);
    world_ok(&w, ls_program_run(p, NULL, NULL));
    world_ok(&w, ls_program_run(p, NULL, NULL));
    world_ok(&w, ls_var_read(s, v, out, sizeof out));
    assert_true(out[0] == 6 && out[3] == 3);
    ls_program_destroy(p);
}

static void refuses_bad_assignments(void **state) {
    (void)state;
    float a[] = {1, 2};
    ls_var *v = ls_var_create(s, "v", LS_F32, LS_SHAPE(2), NULL);
    assert_int_equal(ls_var_assign(s, v, ls_full(s, LS_F32, LS_SHAPE(3), 0)), LS_ERR_SHAPE);
    ls_session_clear_error(s);
    assert_int_equal(ls_var_assign(s, v, ls_full(s, LS_F64, LS_SHAPE(2), 0)), LS_ERR_DTYPE);
    ls_session_clear_error(s);
    assert_int_equal(ls_var_assign(s, v, NULL), LS_ERR_INVALID);
    ls_session_clear_error(s);
    assert_int_equal(ls_var_read(s, v, a, 4), LS_ERR_INVALID);
    ls_session_clear_error(s);
    assert_int_equal(ls_var_write(s, v, a, 4), LS_ERR_INVALID);
    ls_session_clear_error(s);
    assert_null(ls_var_create(s, NULL, LS_F32, LS_SCALAR, NULL));
    ls_session_clear_error(s);
    world_ok(&w, ls_var_read(s, v, a, sizeof a));
    assert_true(a[0] == 0 && a[1] == 0);
}

/* A training step, rebuilt each time: momentum and weights, nothing compiles after the first. */
static void a_training_step_compiles_once(void **state) {
    (void)state;
    float x[] = {1, 2, 3, 4, 5, 6}, t[] = {1, 2}, w0[] = {0, 0, 0}, loss = 0, first = 0;
    ls_var *weights = ls_var_create(s, "w", LS_F32, LS_SHAPE(3), w0),
           *momentum = ls_var_create(s, "m", LS_F32, LS_SHAPE(3), w0);
    for (int step = 0; step < 20; step++) {
        assert_int_equal(ls_scope_begin(s), LS_OK);
        ls_tensor *data = ls_tensor_from(s, LS_F32, LS_SHAPE(2, 3), x), *target = vector(2, t), *g;
        ls_tensor *wv = ls_var_value(s, weights), *mse = ls_mse(s, ls_matmul(s, data, wv), target);
        world_ok(&w, ls_grad(s, mse, NULL, 1, &wv, &g));
        ls_tensor *m = ls_add(s, scaled(ls_var_value(s, momentum), 0.5), g);
        world_ok(&w, ls_var_assign(s, momentum, m));
        world_ok(&w, ls_var_assign(s, weights, ls_sub(s, wv, scaled(m, 0.01))));
        world_ok(&w, ls_realize(s, &mse, 1));
        loss = scalar_of(mse);
        first = step == 0 ? loss : first;
        ls_scope_end(s);
        assert_int_equal(compiles(), 1);
    }
    assert_true(loss < first / 10);
    assert_int_equal(ls_session_get_stats(s).nodes, 0);
}

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
    assert_int_equal(ls_symbol_bind(s, foreign, 3), LS_ERR_INVALID);
    assert_non_null(strstr(ls_session_error(s)->message, "symbol F belongs to another context"));
    ls_session_clear_error(s);
    assert_null(ls_input(s, "x", LS_F32, shape));
    assert_non_null(strstr(ls_session_error(s)->message, "a symbol of this context"));
    ls_session_clear_error(s);
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
        assert_int_equal(ls_program_run(p, &in, &to), LS_ERR_SHAPE);
        assert_non_null(strstr(ls_session_error(s)->message, "an extent is -5 where symbol N is 3"));
        ls_session_clear_error(s);
        for (size_t k = 0; k < sizeof out; k++) {
            assert_int_equal(((const char *)out)[k], 7);
        }
        world_ok(&w, ls_symbol_bind(s, n, 8));
        world_ok(&w, ls_program_run(p, &in, &to));
        ls_program_destroy(p);
    }
    world_ok(&w, ls_symbol_bind(s, n, 3));
    assert_null(ls_tensor_from(s, LS_F32, less, data));
    assert_non_null(strstr(ls_session_error(s)->message, "extent -2"));
    ls_session_clear_error(s);
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
    assert_int_equal(ls_realize(s, &sum, 1), LS_ERR_SHAPE);
    ls_session_clear_error(s);
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
    assert_int_equal(ls_program_run(p, missing, NULL), LS_ERR_INVALID);
    ls_session_clear_error(s);
    ls_program_destroy(p);
    /* What is not given must be named. */
    assert_int_equal(ls_program_compile(s, NULL, 0, &y, 1, &p), LS_ERR_INVALID);
    assert_non_null(strstr(ls_session_error(s)->message, "\"x\""));
    assert_null(p);
    ls_session_clear_error(s);
    ls_tensor *twice[] = {x, x};
    assert_int_equal(ls_program_compile(s, twice, 2, &y, 1, &p), LS_ERR_INVALID);
    ls_session_clear_error(s);
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

/* ---- devices ---- */

static void devices_open_once(void **state) {
    (void)state;
    ls_error err = {0};
    ls_device *ref, *again, *other;
    assert_int_equal(ls_device_open(w.context, device, &again, &err), LS_OK);
    assert_ptr_equal(again, w.device);
    assert_int_equal(ls_device_open(w.context, "ref", &ref, &err), LS_OK);
    assert_int_equal(ls_device_open(w.context, "ref:0", &again, &err), LS_OK);
    assert_ptr_equal(again, ref);
    assert_int_equal(ls_device_open(w.context, "ref:1", &other, &err), LS_ERR_DEVICE);
    ls_error_clear(&err);
    assert_int_equal(ls_device_open(w.context, "warp", &other, &err), LS_ERR_DEVICE);
    assert_non_null(strstr(err.message, "warp"));
    assert_non_null(strstr(err.message, "ref"));
    assert_null(other);
    ls_error_clear(&err);
    ls_context *second;
    ls_session *foreign;
    assert_int_equal(ls_context_create(NULL, &second, &err), LS_OK);
    assert_int_equal(ls_session_create(second, w.device, &foreign, &err), LS_ERR_DEVICE);
    ls_context_destroy(second);
}

static void copies_between_devices(void **state) {
    (void)state;
    ls_error err = {0};
    ls_device *cpu;
    if (strcmp(device, "cpu") == 0) {
        return; /* nothing to copy to */
    }
    assert_int_equal(ls_device_open(w.context, "cpu", &cpu, &err), LS_OK);
    float a[] = {1, 2, 3}, out[3];
    ls_tensor *x = vector(3, a), *there = ls_to_device(s, scaled(x, 2), cpu);
    assert_ptr_equal(ls_tensor_device(there), cpu);
    ls_tensor *back = ls_to_device(s, ls_add(s, there, there), w.device), *sum = ls_add(s, back, x);
    ls_tensor *all[] = {sum, there};
    world_ok(&w, ls_realize(s, all, 2));
    world_ok(&w, ls_read(s, sum, out, sizeof out));
    assert_true(out[0] == 5 && out[1] == 10 && out[2] == 15);
    world_ok(&w, ls_read(s, there, out, sizeof out));
    assert_true(out[0] == 2 && out[2] == 6);
    assert_null(ls_add(s, x, there));
    assert_int_equal(ls_session_error(s)->code, LS_ERR_DEVICE);
    assert_non_null(strstr(ls_session_error(s)->message, "cpu"));
    assert_non_null(strstr(ls_session_error(s)->message, "ref"));
    ls_session_clear_error(s);
    assert_ptr_equal(ls_to_device(s, x, w.device), x);
    ls_tensor *constant = ls_full(s, LS_F32, LS_SHAPE(3), 1);
    world_ok(&w, ls_realize(s, &constant, 1)); /* has its value on ref, and still joins cpu */
    world_ok(&w, ls_read(s, ls_add(s, there, constant), out, sizeof out));
    assert_true(out[0] == 3 && out[2] == 7);
}

static void the_null_device_computes_nothing(void **state) {
    (void)state;
    ls_error err = {0};
    ls_device *null;
    ls_session *ns;
    assert_int_equal(ls_device_open(w.context, "null", &null, &err), LS_OK);
    assert_int_equal(ls_session_create(w.context, null, &ns, &err), LS_OK);
    float a[] = {1, 2}, out[2];
    ls_tensor *x = ls_tensor_from(ns, LS_F32, LS_SHAPE(2), a);
    assert_int_equal(ls_read(ns, x, out, sizeof out), LS_OK);
    assert_true(out[1] == 2);
    assert_int_equal(ls_read(ns, ls_neg(ns, x), out, sizeof out), LS_ERR_UNSUPPORTED);
    assert_int_equal(ls_session_get_stats(ns).compiles, 1);
    ls_session_destroy(ns);
}

static void certifies(void **state) {
    (void)state;
    ls_error err = {0};
    if (ls_device_certify(w.device, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    ls_device_info infos[8];
    int n = 8;
    assert_int_equal(ls_device_list(w.context, infos, &n, &err), LS_OK);
    assert_true(n >= 1 && n <= 8);
    bool ref = false;
    for (int i = 0; i < n; i++) {
        ref = ref || (strcmp(infos[i].id, "ref") == 0 && infos[i].locked == 1);
        if (infos[i].available && infos[i].locked != 1) {
            fail_msg("%s: %s", infos[i].id, infos[i].reason);
        }
    }
    assert_true(ref);
    int room = 1, all = n;
    assert_int_equal(ls_device_list(w.context, infos, &room, &err), LS_OK);
    assert_int_equal(room, all);
}

static void strategies_are_forced(void **state) {
    (void)state;
    float a[64], plain[64], naive[64];
    for (int i = 0; i < 64; i++) {
        a[i] = (float)(i % 11) - 4.7f;
    }
    ls_tensor *x = ls_tensor_from(s, LS_F32, LS_SHAPE(8, 8), a);
    world_ok(&w, ls_read(s, ls_matmul(s, x, x), plain, sizeof plain));
    world_ok(&w, ls_session_set_strategy(s, "contract", "naive"));
    ls_tensor *y = ls_tensor_from(s, LS_F32, LS_SHAPE(8, 8), a);
    world_ok(&w, ls_read(s, ls_matmul(s, y, y), naive, sizeof naive));
    assert_memory_equal(plain, naive, sizeof plain);
    assert_int_equal(compiles(), 2);
    world_ok(&w, ls_session_set_strategy(s, "matmul", "matrix")); /* which the CPU has not */
    ls_tensor *z = ls_tensor_from(s, LS_F32, LS_SHAPE(8, 8), a);
    assert_int_equal(ls_read(s, ls_matmul(s, z, z), naive, sizeof naive), LS_ERR_UNSUPPORTED);
    assert_non_null(strstr(ls_session_error(s)->message, "matrix"));
    ls_session_clear_error(s);
    assert_int_equal(ls_session_set_strategy(s, "contract", "quantum"), LS_ERR_INVALID);
    assert_non_null(
        strstr(ls_session_error(s)->message, "\"quantum\": expected naive, tiled, gemv, matrix or vendor"));
    ls_session_clear_error(s);
    world_ok(&w, ls_session_set_strategy(s, "contract", NULL));
    world_ok(&w, ls_read(s, ls_matmul(s, z, z), naive, sizeof naive));
    assert_int_equal(compiles(), 2);
    assert_int_equal(ls_session_set_strategy(s, "paint", "naive"), LS_ERR_INVALID);
    assert_non_null(strstr(ls_session_error(s)->message, "\"paint\": expected pointwise, reduce, contract"));
    ls_session_clear_error(s);
}

/* ---- check mode ---- */

static int hook_calls[3];
static int fail_at = -1;

static ls_status hook_before(const ls_check_event *event, void **out_state, ls_error *err) {
    (void)err;
    assert_int_equal(event->launch->n_args, event->group->n_reads + event->group->n_roots);
    assert_int_equal(event->spec->n_args, event->launch->n_args);
    hook_calls[0]++;
    *out_state = &hook_calls;
    return LS_OK;
}

static ls_status hook_after(const ls_check_event *event, void *state, ls_error *err) {
    assert_ptr_equal(state, &hook_calls);
    hook_calls[1]++;
    return (int)event->kernel == fail_at
               ? LS_FAIL(err, LS_ERR_DIFFERS, "kernel %s differs", event->spec->name)
               : LS_OK;
}

static void hook_drop(const ls_check_event *event, void *state) {
    (void)event, (void)state;
    hook_calls[2]++;
}

static void check_hooks_see_every_kernel(void **state) {
    (void)state;
    static const ls_check_hooks hooks = {hook_before, hook_after, hook_drop};
    float a[] = {1, 2, 3}, plain[3], checked[3];
    ls_session_set_fusion(s, 0);
    world_ok(&w, ls_read(s, ls_exp(s, scaled(vector(3, a), 0.5)), plain, sizeof plain));
    ls_engine_set_check(w.context, LS_CHECK_BITS, &hooks);
    memset(hook_calls, 0, sizeof hook_calls);
    world_ok(&w, ls_read(s, ls_exp(s, scaled(vector(3, a), 0.5)), checked, sizeof checked));
    assert_memory_equal(plain, checked, sizeof plain);
    assert_int_equal(compiles(), 1); /* the very program that ran unchecked */
    assert_int_equal(hook_calls[0], 2);
    assert_int_equal(hook_calls[1], 2);
    fail_at = 1;
    assert_int_equal(ls_read(s, ls_exp(s, scaled(vector(3, a), 0.5)), checked, sizeof checked),
                     LS_ERR_DIFFERS);
    fail_at = -1;
    ls_session_clear_error(s);
    ls_engine_set_check(w.context, LS_CHECK_NONE, NULL);
}

static void guard_zones_are_watched(void **state) {
    (void)state;
    ls_error err = {0};
    ls_engine_set_check(w.context, LS_CHECK_BITS, NULL);
    ls_buffer *buffer;
    assert_int_equal(ls_buffer_create(w.device, 100, &buffer, &err), LS_OK);
    uint8_t bytes[100];
    assert_int_equal(ls_buffer_download(buffer, 0, bytes, 100, &err), LS_OK);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(bytes[i], LS_POISON);
    }
    assert_int_equal(ls_buffer_fill(buffer, 0, 0, 100, &err), LS_OK);
    assert_int_equal(ls_buffer_check_guards(buffer, "it", &err), LS_OK);
    uint8_t *raw = buffer->handle;
    raw[buffer->base + 100] = 0;
    assert_int_equal(ls_buffer_check_guards(buffer, "it", &err), LS_ERR_DIFFERS);
    raw[buffer->base + 100] = LS_POISON;
    raw[buffer->base - 1] = 0;
    ls_error_clear(&err);
    assert_int_equal(ls_buffer_check_guards(buffer, "it", &err), LS_ERR_DIFFERS);
    ls_error_clear(&err);
    assert_int_equal(ls_buffer_upload(buffer, 99, bytes, 2, &err), LS_ERR_INTERNAL);
    ls_buffer_release(buffer);
    ls_engine_set_check(w.context, LS_CHECK_NONE, NULL);
}

/* ---- inspect ---- */

static void collect_text(void *user, const char *text, size_t size) {
    ls_text_add_n(user, text, size);
}

static void inspects(void **state) {
    (void)state;
    float a[] = {1, 2, 3};
    ls_text text;
    ls_text_init(&text, &w.context->heap);
    ls_tensor *x = ls_input(s, "x", LS_F32, LS_SHAPE(3)), *y = ls_softmax(s, ls_add(s, x, vector(3, a)), 0);
    world_ok(&w, ls_inspect(s, &y, 1, LS_INSPECT_ALL, collect_text, &text));
    assert_non_null(text.data);
    assert_non_null(strstr(text.data, "exp"));
    assert_non_null(strstr(text.data, "step 0"));
    assert_non_null(strstr(text.data, "root"));
    assert_int_equal(ls_session_get_stats(s).kernels, 0);
    ls_text_free(&text);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(computes_and_keeps_values),
        TEST(same_tensor_twice_and_leaves),
        TEST(constants_and_empty_tensors),
        TEST(absent_elements_survive_realize),
        TEST(reports_errors),
        TEST(names_a_gather_out_of_range),
        TEST(bools_are_normalised),
        TEST(submits),
        TEST(equal_graphs_compile_once),
        TEST(values_are_leaves),
        TEST(assigns_in_order),
        TEST(stale_variables_are_errors),
        TEST(swaps_variables),
        TEST(a_plain_swap_of_three),
        TEST(overwrites_only_where_it_may),
        TEST(refuses_bad_assignments),
        TEST(a_training_step_compiles_once),
        TEST(symbols_change_without_compiling),
        TEST(extents_below_zero_are_refused),
        TEST(symbols_of_another_context_are_refused),
        TEST(values_of_other_symbol_values_are_not_used),
        TEST(programs_replay),
        TEST(programs_compute_constants_once),
        TEST(searches_for_constants_are_linear),
        TEST(programs_take_symbols),
        TEST(programs_outlive_what_they_hold),
        TEST(loops_carry_and_stack),
        TEST(loops_use_other_devices),
        TEST(loops_nest_and_capture),
        TEST(loops_into_variables),
        TEST(devices_open_once),
        TEST(copies_between_devices),
        TEST(the_null_device_computes_nothing),
        TEST(certifies),
        TEST(strategies_are_forced),
        TEST(check_hooks_see_every_kernel),
        TEST(guard_zones_are_watched),
        TEST(inspects),
    };
    int failed = cmocka_run_group_tests_name("ref", tests, NULL, NULL);
    device = "cpu";
    failed += cmocka_run_group_tests_name("cpu", tests, NULL, NULL);
    return failed;
}
