/* The engine end to end: computing, the cache of compiled graphs, variables. */
#include "unit/engine_support.h"
#include <lockstep/lockstep.h>
#include <string.h>

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
    REFUSED(ls_realize(s, &x, -1), LS_ERR_INVALID, "-1 tensors: expected 0 or more");
    REFUSED(ls_realize(s, NULL, 1), LS_ERR_INVALID, "tensor 0 is NULL");
    ls_session_set_math(s, (ls_math)3);
    REFUSED(ls_realize(s, &x, 1), LS_ERR_INVALID, "math kind 3");
    assert_int_equal(ls_session_math(s), LS_LOCKED);
    ls_program *program;
    REFUSED(ls_program_compile(s, NULL, -1, &x, 1, &program), LS_ERR_INVALID, "-1 inputs and 1 outputs: expected 0 or more");
    REFUSED_NULL(ls_data_to_tensor(s, NULL), "is NULL");
    assert_null(ls_data_to_var(s, "v", NULL));
    assert_int_equal(ls_session_error(s)->code, LS_ERR_INVALID);
    ls_session_clear_error(s);
    ls_tensor *bad = ls_add(s, x, vector(2, a));
    assert_null(bad);
    REFUSED(ls_realize(s, &bad, 1), LS_ERR_SHAPE, "");
    REFUSED(ls_realize(s, &bad, 1), LS_ERR_INVALID, "");
    ls_tensor *input = ls_input(s, "image", LS_F32, LS_SHAPE(3));
    REFUSED(ls_read(s, ls_neg(s, input), out, sizeof out), LS_ERR_INVALID, "image");
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
    float read[3] = {0};
    ls_tensor *g = ls_gather(s, vector(4, a), ls_tensor_from(s, LS_I32, LS_SHAPE(3), index), 0);
    REFUSED(ls_read(s, g, read, sizeof read), LS_ERR_RANGE, "gather"); /* but the value is there */
    assert_memory_equal(read, out, sizeof read);
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
    REFUSED(ls_read(s, reads, out, sizeof out), LS_ERR_INVALID, "weights");
    ls_tensor *again = ls_neg(s, ls_var_value(s, v));
    ls_var_destroy(v);
    REFUSED(ls_read(s, again, out, sizeof out), LS_ERR_INVALID, "");
}

static void forgets_assignments_of_destroyed_variables(void **state) {
    (void)state;
    float two[] = {2, 2}, out[2];
    ls_var *gone = ls_var_create(s, "gone", LS_F32, LS_SHAPE(2), NULL), *stays = ls_var_create(s, "stays", LS_F32, LS_SHAPE(2), NULL);
    ls_tensor *twos = ls_tensor_from(s, LS_F32, LS_SHAPE(2), two);
    for (int way = 0; way < 2; way++) {
        gone = way ? ls_var_create(s, "gone", LS_F32, LS_SHAPE(2), NULL) : gone;
        world_ok(&w, ls_var_assign(s, gone, twos));
        world_ok(&w, ls_var_assign(s, stays, ls_add(s, ls_var_value(s, stays), twos)));
        ls_var_destroy(gone);
        ls_program *p = NULL;
        if (way) {
            world_ok(&w, ls_program_compile(s, NULL, 0, NULL, 0, &p));
            world_ok(&w, ls_program_run(p, NULL, NULL));
        } else {
            world_ok(&w, ls_realize(s, NULL, 0));
        }
        ls_program_destroy(p);
        world_ok(&w, ls_var_read(s, stays, out, sizeof out));
        assert_true(out[0] == 2 + 2 * (float)way && out[1] == out[0]);
    }
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
    REFUSED(ls_var_assign(s, v, ls_full(s, LS_F32, LS_SHAPE(3), 0)), LS_ERR_SHAPE, "");
    REFUSED(ls_var_assign(s, v, ls_full(s, LS_F64, LS_SHAPE(2), 0)), LS_ERR_DTYPE, "");
    REFUSED(ls_var_assign(s, v, NULL), LS_ERR_INVALID, "");
    REFUSED(ls_var_read(s, v, a, 4), LS_ERR_INVALID, "");
    REFUSED(ls_var_write(s, v, a, 4), LS_ERR_INVALID, "");
    REFUSED_NULL(ls_var_create(s, NULL, LS_F32, LS_SCALAR, NULL), "");
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

int main(void) {
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
        TEST(forgets_assignments_of_destroyed_variables),
        TEST(swaps_variables),
        TEST(a_plain_swap_of_three),
        TEST(overwrites_only_where_it_may),
        TEST(refuses_bad_assignments),
        TEST(a_training_step_compiles_once),
    };
    int failed = RUN_ON("ref", tests);
    return failed + RUN_ON("cpu", tests);
}
