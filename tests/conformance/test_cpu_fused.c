/* Random elementwise expressions, some of whose values are used more than once, on tensors of which some are the same along rows or columns or lie
 * transposed, and reductions and results of them, on `cpu` and on `ref`: for LOCKSTEP_SECONDS (4), from seed 1 on, each on one configuration of
 * `cpu` by turns. A case is its seed: LOCKSTEP_SEED=n begins there, and tries all configurations. */
#include "base/half.h"
#include "conformance/cpu_cases.h"

enum { VALUES = 40, LONGEST = 5000 };

static ls_tensor *operand(ls_session *s, ls_rng *rng, int64_t rows, int64_t columns) {
    switch (ls_rng_below(rng, 6)) {
    case 0:
        return tame_tensor(s, rng, LS_F32, LS_SHAPE(rows, 1));
    case 1:
        return tame_tensor(s, rng, LS_F32, LS_SHAPE(1, columns));
    case 2:
        return ls_transpose(s, tame_tensor(s, rng, LS_F32, LS_SHAPE(columns, rows)), 0, 1);
    case 3: /* rows that lie apart */
        return ls_slice(s, tame_tensor(s, rng, LS_F32, LS_SHAPE(rows, columns + 3)), (const ls_slice_spec[]){{0, rows, 1}, {1, columns + 1, 1}});
    default:
        return chance(rng, 2) ? random_tensor(s, rng, LS_F32, LS_SHAPE(rows, columns)) : tame_tensor(s, rng, LS_F32, LS_SHAPE(rows, columns));
    }
}

static ls_tensor *(*const functions[])(ls_session *, ls_tensor *) = {ls_exp, ls_neg, ls_neg, ls_abs, ls_tanh, ls_sqrt, ls_rint, ls_erf};

static ls_tensor *operation(ls_session *s, ls_rng *rng, ls_tensor *x, ls_tensor *y) {
    switch (ls_rng_below(rng, 12)) {
    case 0:
        return ls_add(s, x, y);
    case 1:
        return ls_sub(s, x, y);
    case 2:
    case 3:
        return ls_mul(s, x, y);
    case 4:
        return ls_div(s, x, y);
    case 5:
        return ls_min(s, x, y);
    case 6:
        return ls_max(s, x, y);
    case 7:
        return ls_mul(s, x, x);
    case 8:
        return functions[ls_rng_below(rng, sizeof functions / sizeof *functions)](s, x);
    case 9: /* of rows, which what follows needs in all of their lanes */
        return ls_sum(s, x, 1, (const int[]){1}, 1);
    case 10:
        return ls_amax(s, x, 1, (const int[]){1}, 1);
    default:
        return ls_amin(s, x, 1, (const int[]){1}, 1);
    }
}

static int build(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    (void)param;
    int64_t rows = draw(rng, 1, chance(rng, 4) ? 3000 : 40), columns = draw(rng, 1, LONGEST / (rows / 8 + 1) + 1);
    int n = (int)draw(rng, 1, 6), end = n + (int)draw(rng, 1, VALUES - 6), n_roots = (int)draw(rng, 1, 3);
    ls_tensor *values[VALUES];
    for (int i = 0; i < n; i++) {
        values[i] = operand(s, rng, rows, columns);
    }
    for (int i = n; i < end; i++) { /* of the last ones more often */
        values[i] = operation(s, rng, values[i - 1 - draw(rng, 0, i - 1)], values[i - 1 - draw(rng, 0, i - 1)]);
    }
    for (int i = 0; i < n_roots; i++) {
        out_roots[i] = values[end - 1 - draw(rng, 0, end - n - 1)];
    }
    return n_roots;
}

static void fused(void **state) {
    seeds at = seeds_from(4);
    do {
        check_case(*state, build, at.seed, NULL, "elementwise", at.chosen);
    } while (seeds_next(&at));
}

/* More steps, kept values, numbers of a row, and operands than one chain takes. */
static int build_large(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    int64_t rows = 5, columns = 300;
    int kind = *(const int *)param;
    ls_tensor *x = tame_tensor(s, rng, LS_F32, LS_SHAPE(rows, columns)), *kept[8];
    for (int i = 0; i < 30; i++) {
        ls_shape shape = kind == 0 ? LS_SHAPE(1) : kind == 1 ? LS_SHAPE(rows, 1) : LS_SHAPE(rows, columns);
        x = (i % 2 ? ls_mul : ls_add)(s, x, tame_tensor(s, rng, LS_F32, shape));
        kept[i % 8] = x;
    }
    for (int i = 0; i < 8 && kind == 3; i++) {
        x = ls_sub(s, x, kept[i]);
    }
    out_roots[0] = x;
    out_roots[1] = ls_sum(s, ls_mul(s, x, x), 1, (const int[]){1}, 0);
    return 2;
}

static void large(void **state) {
    for (int kind = 0; kind < 4; kind++) {
        check_case(*state, build_large, 1, &kind, "large expressions", 1);
    }
}

/* A result that is stored past the caches, its last lanes apart, and beside it one that begins inside of a line. */
static int build_far(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    const int64_t n = (4 << 20) + 21;
    (void)param;
    ls_tensor *x = tame_tensor(s, rng, LS_F32, LS_SHAPE(n));
    out_roots[0] = ls_gelu(s, x);
    out_roots[1] = ls_gelu(s, ls_narrow(s, x, 0, 3, n - 3));
    /* chains that begin with a division, which is done to some lanes at a time; of the second a value is kept */
    ls_tensor *e = ls_erf(s, ls_div(s, x, ls_full(s, LS_F32, LS_SCALAR, 1.4))), *y = ls_div(s, x, ls_full(s, LS_F32, LS_SCALAR, 3));
    out_roots[2] = ls_mul(s, ls_mul(s, x, ls_add(s, e, ls_full(s, LS_F32, LS_SCALAR, 1))), ls_full(s, LS_F32, LS_SCALAR, 0.5));
    out_roots[3] = ls_mul(s, ls_tanh(s, y), y);
    return 4;
}

static void far(void **state) {
    check_case(*state, build_far, 1, NULL, "results past the caches", 1);
}

/* A sigmoid of the graph, and what is one but for a step, a number or a value that is read besides: of elements in memory and of sums of
 * products. */
enum { SIGMOID_STEPS = 5, SIGMOID_KINDS = 14 };
static ls_tensor *nearly_sigmoid(ls_session *s, ls_rng *rng, ls_tensor *x, int kind) {
    ls_tensor *most = ls_full(s, LS_F32, LS_SCALAR, kind == 1 ? 87 : 88), *one = ls_full(s, LS_F32, LS_SCALAR, kind == 2 ? 2 : 1);
    most = kind == 3 ? ls_abs(s, random_tensor(s, rng, LS_F32, LS_SHAPE(1))) : most;
    one = kind == 4 ? ls_abs(s, random_tensor(s, rng, LS_F32, LS_SHAPE(1))) : one;
    ls_tensor *steps[SIGMOID_STEPS];
    steps[0] = (kind == 5 ? ls_abs : ls_neg)(s, x);
    steps[1] = (kind == 6 ? ls_max : ls_min)(s, steps[0], most);
    steps[2] = (kind == 7 ? ls_exp2 : ls_exp)(s, steps[1]);
    steps[3] = (kind == 8 ? ls_max : ls_add)(s, steps[2], one);
    steps[4] = (kind == 9 ? ls_sqrt : ls_recip)(s, steps[3]);
    return kind < 10 ? steps[4] : ls_sub(s, steps[4], steps[kind - 10]);
}

static int build_sigmoids(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    const int kind = *(const int *)param;
    ls_tensor *forty = ls_full(s, LS_F32, LS_SCALAR, 40), *x = ls_mul(s, random_tensor(s, rng, LS_F32, LS_SHAPE(7, 300)), forty);
    ls_tensor *y = ls_mul(s, random_tensor(s, rng, LS_F32, LS_SHAPE(20, 64)), forty);
    out_roots[0] = nearly_sigmoid(s, rng, x, kind);
    out_roots[1] = nearly_sigmoid(s, rng, ls_matmul(s, tame_tensor(s, rng, LS_F32, LS_SHAPE(7, 20)), y), kind);
    return 2;
}

static void sigmoids(void **state) {
    for (int kind = 0; kind < SIGMOID_KINDS; kind++) {
        check_case(*state, build_sigmoids, 1 + (uint64_t)kind, &kind, "sigmoids", 1);
    }
}

/* What is done row after row: folds, their numbers, and one or more results of a row, of special values too. */
typedef struct rows_case {
    int64_t rows, columns;
    int kind;
    bool tame;
} rows_case;

enum { ROW_KINDS = 13 };

static ls_tensor *row_fold(ls_session *s, ls_tensor *(*fold)(ls_session *, ls_tensor *, int, const int *, int), ls_tensor *x) {
    return fold(s, x, 1, (const int[]){1}, 1);
}

/* A leaf, finite and of like size, but for an infinity every `infinite` numbers; now and then a zero of either sign, or a number whose quotients take care. */
static ls_tensor *leaf(ls_session *s, ls_rng *rng, int64_t rows, int64_t columns, int64_t infinite) {
    float *data = calloc((size_t)(rows * columns), sizeof *data);
    for (int64_t i = 0; i < rows * columns; i++) {
        uint64_t r = ls_rng_u64(rng);
        data[i] = (float)((int64_t)(r & 0xffffff) - 0x800000) * 0x1p-21f;
        data[i] *= r >> 24 & 0xfff ? 1.0f : r >> 40 & 1 ? -0.0f : 0x1p-90f;
        data[i] = infinite && i % infinite == infinite - 1 ? __builtin_inff() : data[i];
    }
    ls_tensor *t = ls_tensor_from(s, LS_F32, LS_SHAPE(rows, columns), data);
    free(data);
    return t;
}

static ls_tensor *plain_tensor(ls_session *s, ls_rng *rng, int64_t rows, int64_t columns) {
    return leaf(s, rng, rows, columns, 0);
}

static int build_rows(ls_session *s, ls_rng *rng, const void *param, ls_tensor **out_roots) {
    const rows_case *c = param;
    ls_tensor *x = c->tame ? leaf(s, rng, c->rows, c->columns, c->kind < 7 ? 0 : 3 * c->columns) : random_tensor(s, rng, LS_F32, LS_SHAPE(c->rows, c->columns));
    ls_tensor *w = plain_tensor(s, rng, 1, c->columns), *bias = plain_tensor(s, rng, 1, c->columns), *row = plain_tensor(s, rng, c->rows, 1);
    ls_tensor *mean = ls_mean(s, x, 1, (const int[]){1}, 1), *apart = ls_sub(s, x, mean), *peak = row_fold(s, ls_amax, x);
    ls_tensor *squares = row_fold(s, ls_sum, ls_mul(s, apart, apart));
    switch (c->kind) {
    case 0:
        out_roots[0] = ls_softmax(s, x, 1);
        return 1;
    case 1:
        out_roots[0] = ls_layer_norm(s, x, 1, ls_reshape(s, w, LS_SHAPE(c->columns)), ls_reshape(s, bias, LS_SHAPE(c->columns)), 1e-5);
        return 1;
    case 2: /* a number of each row that is an operand, and a second one */
        out_roots[0] = ls_div(s, ls_mul(s, apart, w), ls_add(s, ls_sqrt(s, squares), row));
        return 1;
    case 3:
        out_roots[0] = ls_sub(s, ls_sub(s, x, peak), ls_log(s, row_fold(s, ls_sum, ls_exp(s, ls_sub(s, x, peak)))));
        return 1;
    case 4: /* a result of a number a row */
        out_roots[0] = ls_div(s, apart, ls_sqrt(s, squares));
        out_roots[1] = ls_add(s, mean, row);
        return 2;
    case 5: /* of a chain, and of a function */
        out_roots[0] = ls_sub(s, row_fold(s, ls_amax, ls_add(s, ls_mul(s, x, w), row)), row_fold(s, ls_sum, ls_abs(s, ls_sub(s, x, row_fold(s, ls_amin, x)))));
        out_roots[1] = ls_mul(s, x, out_roots[0]);
        return 2;
    case 6: /* a division alone: of a norm, from another number than the squares are */
        out_roots[0] = ls_div(s, ls_sub(s, x, peak), ls_sqrt(s, squares));
        return 1;
    case 7: /* by what has nothing to do with the squares, or with what is divided */
    case 8: {
        ls_tensor *other = plain_tensor(s, rng, c->rows, c->columns), *sum = row_fold(s, ls_sum, ls_mul(s, other, other));
        out_roots[0] = ls_div(s, ls_sub(s, x, peak), ls_sqrt(s, sum));
        out_roots[1] = c->kind == 7 ? squares : row_fold(s, ls_sum, ls_mul(s, other, x));
        return 2;
    }
    case 9: /* exponentials that nobody stores */
        out_roots[0] = ls_mean(s, ls_exp(s, ls_sub(s, x, peak)), 1, (const int[]){1}, 1);
        out_roots[1] = ls_mul(s, ls_log(s, row_fold(s, ls_sum, ls_exp(s, ls_sub(s, x, row)))), ls_full(s, LS_F32, LS_SCALAR, 0.5));
        return 2;
    case 10: /* what is divided is computed, and overwritten by the next rows */
        out_roots[0] = ls_layer_norm(s, ls_exp(s, x), 1, NULL, NULL, 1e-5);
        return 1;
    case 11: /* an infinite sum that makes no infinite divisor */
        out_roots[0] = ls_sub(s, x, row);
        squares = row_fold(s, ls_sum, ls_mul(s, out_roots[0], out_roots[0]));
        out_roots[0] = ls_div(s, out_roots[0], ls_add(s, ls_recip(s, squares), ls_full(s, LS_F32, LS_SCALAR, 1)));
        return 1;
    default:
        out_roots[0] = ls_div(s, ls_add(s, x, ls_transpose(s, ls_transpose(s, x, 0, 1), 0, 1)), peak);
        return 1;
    }
}

static void rows_in_turn(void **state) {
    static const int64_t shapes[][2] = {{1, 64}, {70, 65}, {33, 1000}, {5, 4096}, {5, 4097}, {90, 257}, {200, 128}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int kind = 0; kind < 2 * ROW_KINDS; kind++) {
            rows_case c = {shapes[i][0], shapes[i][1], kind / 2, kind % 2};
            check_case(*state, build_rows, i + 1, &c, "rows", 1);
        }
    }
    /* results that go past the caches: of a softmax, of chains with more than a division, and of a division alone */
    for (int kind = 0; kind < 3; kind++) {
        check_case(*state, build_rows, 1, &(rows_case){4096 + kind, 1024, kind == 2 ? 4 : kind, true}, "rows past the caches", 1);
    }
}

/* NaN are canonical. */
static void check_nan(world *w, ls_tensor *t) {
    const size_t bytes = ls_tensor_bytes(w->session, t);
    uint32_t *data = malloc(bytes + 1);
    world_ok(w, ls_realize(w->session, &t, 1));
    world_ok(w, ls_read(w->session, t, data, bytes));
    for (size_t k = 0; k < bytes / 4; k++) {
        assert_true((data[k] & 0x7fffffff) <= 0x7f800000 || data[k] == LS_NAN_F32);
    }
    free(data);
}

/* In fast, within the oracle's bound: divisions are left to the exponentials of the next row there, also from group to group and past the caches. */
static void rows_in_turn_are_bounded(void **state) {
    static const int64_t shapes[][2] = {{1, 64}, {2, 70}, {70, 65}, {33, 1000}, {35, 1024}, {41, 512}, {3, 2048}, {5, 4096}, {90, 257}, {200, 128}};
    worlds *all = *state;
    int at = 0;
    for (size_t i = 0; i <= sizeof shapes / sizeof *shapes; i++) {
        for (int kind = 0; kind < 2 * ROW_KINDS; kind++) {
            const bool far = i == sizeof shapes / sizeof *shapes;
            rows_case c = {far ? 4099 : shapes[i][0], far ? 1024 : shapes[i][1], kind / 2, kind % 2};
            if (far && kind != 1) {
                continue;
            }
            for (int k = far; k < 2; k++) { /* one after another, and the last one */
                const int which = k ? all->n - 1 : at++ % all->n;
                world *w = &all->cpu[which];
                ls_rng rng = {i + 7, 0};
                ls_tensor *roots[2];
                world_ok(w, ls_scope_begin(w->session));
                ls_session_set_math(w->session, LS_FAST);
                int n = build_rows(w->session, &rng, &c, roots);
                check_bound(w, all->names[which], "rows in fast", i, roots, n);
                check_nan(w, roots[0]);
                ls_session_set_math(w->session, LS_LOCKED);
                ls_scope_end(w->session);
            }
        }
    }
}

/* Every second row's exponentials or squares add up to infinity; what is divided beside the next row's is as it would be alone. */
static ls_tensor *build_overflow(ls_session *s, int64_t rows, int64_t columns, int kind, int first) {
    float *data = calloc((size_t)(rows * columns), sizeof *data);
    for (int64_t i = 0; i < rows * columns; i++) {
        const bool over = i / columns % 2 == first, infinite = over && kind & 1 && i % 5 == 0;
        const float far = kind < 2 ? 88 + (float)(i % 7) / 16 : (float)(i % 11 - 5) * 0x1p80f, near = (float)(i % 13 - 6) / 8;
        data[i] = infinite ? __builtin_inff() : over ? far : near;
    }
    ls_tensor *x = ls_tensor_from(s, LS_F32, LS_SHAPE(rows, columns), data), *one = ls_full(s, LS_F32, LS_SCALAR, 1);
    free(data);
    ls_tensor *y = kind < 2 ? ls_exp(s, x) : ls_sub(s, x, row_fold(s, ls_amin, x)), *sum = row_fold(s, ls_sum, kind < 2 ? y : ls_mul(s, y, y));
    return ls_div(s, y, kind & 1 ? ls_add(s, one, ls_div(s, one, sum)) : kind == 2 ? ls_sqrt(s, sum) : sum); /* 1 or more where the sum is infinite */
}

static void rows_that_overflow(void **state) {
    static const int64_t shapes[][2] = {{2, 256}, {3, 512}, {33, 1024}, {35, 70}, {70, 256}, {2, 1024}, {3, 1280}};
    worlds *all = *state;
    for (int i = 0; i < 8 * (int)(sizeof shapes / sizeof *shapes); i++) {
        const int64_t rows = shapes[i / 8][0], columns = shapes[i / 8][1], n = rows * columns;
        const size_t bytes = (size_t)n * sizeof(float);
        const int kind = i / 2 % 4, first = i % 2;
        float *want = malloc(bytes), *got = malloc(bytes);
        ls_session *s = all->ref.session;
        world_ok(&all->ref, ls_scope_begin(s));
        world_ok(&all->ref, ls_read(s, build_overflow(s, rows, columns, kind, first), want, bytes));
        ls_scope_end(s);
        for (int c = 0; c < all->n; c++) {
            s = all->cpu[c].session;
            world_ok(&all->cpu[c], ls_scope_begin(s));
            ls_session_set_math(s, LS_FAST);
            world_ok(&all->cpu[c], ls_read(s, build_overflow(s, rows, columns, kind, first), got, bytes));
            ls_session_set_math(s, LS_LOCKED);
            ls_scope_end(s);
            for (int64_t k = 0; k < n; k++) {
                const float gap = got[k] > want[k] ? got[k] - want[k] : want[k] - got[k], size = want[k] < 0 ? -want[k] : want[k];
                const bool both_nan = got[k] != got[k] && want[k] != want[k] && memcmp(&got[k], &want[k], sizeof *got) == 0;
                if (!(got[k] == want[k] || both_nan || gap <= 1e-5f * size)) {
                    fail_msg("%s: [%d,%d], kind %d, from row %d on: element %d is %g, expected %g", all->names[c], (int)rows, (int)columns, kind,
                             first, (int)k, (double)got[k], (double)want[k]);
                }
            }
        }
        free(want);
        free(got);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(large), cmocka_unit_test(far), cmocka_unit_test(sigmoids),
                                       cmocka_unit_test(rows_in_turn), cmocka_unit_test(rows_in_turn_are_bounded),
                                       cmocka_unit_test(rows_that_overflow), cmocka_unit_test(fused)};
    return cmocka_run_group_tests(tests, worlds_setup, worlds_teardown);
}
