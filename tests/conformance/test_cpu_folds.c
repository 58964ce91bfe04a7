/* Reductions, scans, sorts and row groups of the CPU backend against ref, bit for bit. */
#include "conformance/cpu_cases.h"
#include <math.h>

typedef struct param {
    ls_dtype dtype;
    int64_t a, b, c;
} param;

typedef ls_tensor *(*reduce_fn)(ls_session *s, ls_tensor *x, int count, const int *axes, int keep);
static const reduce_fn reduces[] = {ls_sum, ls_prod, ls_amin, ls_amax, ls_argmin, ls_argmax};

static int build_reduce(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    static const int lists[][3] = {{2}, {1}, {0}, {0, 2}, {1, 2}, {2, 0}, {0, 1, 2}, {0, 1}};
    static const int counts[] = {1, 1, 1, 2, 2, 2, 3, 2};
    uint64_t kind = ls_rng_below(rng, 4);
    ls_tensor *x = kind ? tame_tensor(s, rng, p->dtype, LS_SHAPE(p->a, p->b, p->c))
                        : random_tensor(s, rng, p->dtype, LS_SHAPE(p->a, p->b, p->c));
    int first = p->dtype == LS_BOOL ? 2 : 0;
    for (int i = 0; i < MAX_ROOTS; i++) {
        uint64_t axes = ls_rng_below(rng, 8), op = (uint64_t)first + ls_rng_below(rng, (uint64_t)(6 - first));
        bool arg = op >= 4, empty = false;
        for (int j = 0; j < counts[axes]; j++) {
            empty |= (lists[axes][j] == 0 ? p->a : lists[axes][j] == 1 ? p->b : p->c) == 0;
        }
        op = arg && empty ? 3 : op;
        roots[i] = reduces[op](s, x, counts[axes], lists[axes], (int)ls_rng_below(rng, 2));
    }
    return MAX_ROOTS;
}

static void reductions(void **state) {
    static const param shapes[] = {
        {0, 1, 1, 1},    {0, 2, 3, 5},    {0, 0, 3, 4},    {0, 3, 0, 4},    {0, 5, 7, 0},
        {0, 1, 1, 255},  {0, 1, 1, 256},  {0, 1, 1, 257},  {0, 2, 1, 4095}, {0, 1, 2, 4096},
        {0, 2, 2, 4097}, {0, 4097, 1, 2}, {0, 300, 2, 17}, {0, 17, 40, 13}, {0, 1, 1, 8193},
        {0, 3, 511, 5},  {0, 513, 9, 1},  {0, 2, 700, 9},  {0, 64, 3, 64},  {0, 31, 5, 101},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int d = 0; d < LS_DTYPE_COUNT; d++) {
            param p = shapes[i];
            p.dtype = (ls_dtype)d;
            char what[80];
            snprintf(what, sizeof what, "reduce %s [%lld,%lld,%lld]", ls_dtype_name(p.dtype), (long long)p.a,
                     (long long)p.b, (long long)p.c);
            if (d == LS_F32 || (i + (size_t)d) % 3 == 0) {
                check_case(*state, build_reduce, i * 31 + (uint64_t)d, &p, what, d == LS_F32 && i % 4 == 0);
            }
        }
    }
}

/* More than one level of blocks: 4096 blocks of 4096 is too slow here; 5 blocks in rows and in columns are
 * not. */
static int build_long(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    ls_tensor *x = tame_tensor(s, rng, p->dtype, LS_SHAPE(p->a, p->b));
    roots[0] = ls_sum(s, x, 1, (int[]){0}, 0);
    roots[1] = ls_sum(s, x, 1, (int[]){1}, 0);
    roots[2] = ls_mean(s, ls_mul(s, x, x), 0, NULL, 0);
    return 3;
}
static void long_reductions(void **state) {
    check_case(*state, build_long, 1, &(param){LS_F32, 20011, 3, 0}, "long columns", 1);
    check_case(*state, build_long, 2, &(param){LS_F32, 2, 20011, 0}, "long rows", 1);
    check_case(*state, build_long, 3, &(param){LS_BF16, 9001, 9, 0}, "long bf16", 0);
    check_case(*state, build_long, 4, &(param){LS_F64, 9001, 20, 0}, "long f64", 0);
    check_case(*state, build_long, 5, &(param){LS_F32, 2, 150001, 0}, "rows that threads share", 0);
    check_case(*state, build_long, 6, &(param){LS_BF16, 1, 90001, 0}, "a row of bf16 that threads share", 0);
    check_case(*state, build_long, 7, &(param){LS_F32, 311, 650, 0}, "columns of less than a tile for each thread", 0);
    check_case(*state, build_long, 8, &(param){LS_F32, 3, 16384, 0}, "rows of whole blocks", 1);
}

/* Products of numbers near 1, so that each of a row tells, and extremes of rows of which some have a NaN. */
static int build_products(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const int64_t *p = p_; /* rows, columns, of which one in so many is NaN */
    const int64_t n = p[0] * p[1];
    float *x = malloc(sizeof *x * (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        const float near_one = 1 + ((float)ls_rng_below(rng, 2001) - 1000) / 20000;
        x[i] = chance(rng, 2) ? near_one : -near_one;
        x[i] = p[2] && ls_rng_below(rng, (uint64_t)p[2]) == 0 ? NAN : x[i];
    }
    ls_tensor *t = ls_tensor_from(s, LS_F32, LS_SHAPE(p[0], p[1]), x);
    for (int axis = 0; axis < 2; axis++) {
        for (int op = 1; op < 4; op++) {
            roots[axis * 3 + op - 1] = reduces[op](s, t, 1, &axis, 0);
        }
    }
    free(x);
    return 6;
}
static void products(void **state) {
    static const int64_t cases[][3] = {{9, 256, 0}, {7, 1024, 0}, {7, 1024, 2000}, {40, 512, 1500}, {3, 4096, 9000}, {2, 4352, 0}, {700, 31, 0}, {5000, 18, 0}, {33, 300, 1000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[40];
        snprintf(what, sizeof what, "products, case %zu", i);
        check_case(*state, build_products, 500 + i, cases[i], what, 1);
    }
}

static int build_absent(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    ls_tensor *x = random_tensor(s, rng, p->dtype, LS_SHAPE(p->a, p->b, p->c));
    ls_pad_spec pads[3] = {
        {1, 0, 0}, {2, 1, (int64_t)ls_rng_below(rng, 2)}, {0, 3, (int64_t)ls_rng_below(rng, 3)}};
    ls_tensor *padded = ls_pad_absent(s, x, pads);
    int axes[] = {1, 2};
    ls_window_spec windows[2] = {{3, 2, 1}, {2, 1, 2}};
    ls_tensor *w = ls_window(s, padded, 2, axes, windows); /* [a+1, ob, oc, 3, 2] */
    int taps[] = {3, 4}, first[] = {0}, all[] = {4, 1, 3};
    int from = p->dtype == LS_BOOL ? 2 : 0;
    roots[0] = reduces[from + (int)ls_rng_below(rng, (uint64_t)(6 - from))](s, w, 2, taps, 0);
    roots[1] = ls_amax(s, w, 2, taps, 0);
    roots[2] = reduces[from + (int)ls_rng_below(rng, (uint64_t)(6 - from))](s, padded, 1, first, 0);
    roots[3] = reduces[from + (int)ls_rng_below(rng, (uint64_t)(6 - from))](s, w, 3, all, 0);
    roots[4] = ls_argmin(s, w, 2, taps, 0);
    return 5;
}
static void absent(void **state) {
    for (uint64_t seed = 0; seed < 52; seed++) {
        param p = {(ls_dtype)(seed % LS_DTYPE_COUNT), 1 + (int64_t)(seed % 4), 6 + (int64_t)(seed % 5),
                   7 + (int64_t)(seed * 7 % 30)};
        check_case(*state, build_absent, seed, &p, ls_dtype_name(p.dtype), seed < 13);
    }
}

/* Extremes over windows of planes: strides, dilations, and padding in which whole windows may be. */
static int build_pooling(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    (void)p_;
    ls_tensor *x = random_tensor(s, rng, LS_F32, LS_SHAPE(draw(rng, 1, 3), draw(rng, 1, 30), draw(rng, 1, 40), draw(rng, 1, 80)));
    ls_pad_spec pads[4] = {{0, 0, 0}, {0, 0, 0}};
    ls_window_spec windows[2];
    for (int d = 0; d < 2; d++) {
        int64_t size = draw(rng, 1, 6), dilation = draw(rng, 1, 3), reach = (size - 1) * dilation;
        bool padded = !chance(rng, 3);
        pads[2 + d].low = padded ? draw(rng, 0, 5) : 0;
        pads[2 + d].high = reach + (padded ? draw(rng, 0, 4) : 0);
        windows[d] = (ls_window_spec){size, draw(rng, 1, 4), dilation};
    }
    int axes[] = {2, 3}, back[] = {3, 2}, taps[] = {4, 5}, turned[] = {0, 1, 3, 2};
    ls_tensor *w = ls_window(s, ls_pad_absent(s, x, pads), 2, axes, windows);
    ls_tensor *most = ls_amax(s, w, 2, taps, 0);
    roots[0] = most;
    roots[1] = ls_amin(s, w, 2, taps, 0);
    roots[2] = ls_amax(s, ls_window(s, ls_permute(s, ls_pad_absent(s, x, pads), turned), 2, back, windows), 2, taps, 0);
    roots[3] = ls_add(s, ls_amin(s, ls_window(s, ls_pad(s, x, pads, 0.5), 2, axes, windows), 2, taps, 0), most);
    roots[4] = ls_sum(s, w, 2, taps, 0);
    roots[5] = ls_mul(s, ls_sum(s, ls_window(s, ls_permute(s, ls_pad_absent(s, x, pads), turned), 2, back, windows), 2, taps, 0),
                      ls_full(s, LS_F32, LS_SCALAR, 0.125));
    float zeros[2 * 24 * 40]; /* sums of nothing but -0, which begin at +0 */
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++) {
        zeros[i] = -0.0f;
    }
    roots[6] = ls_sum(s, ls_window(s, ls_pad_absent(s, ls_tensor_from(s, LS_F32, LS_SHAPE(1, 2, 24, 40), zeros), pads), 2, axes, windows), 2, taps, 0);
    return 7;
}
/* Extremes and sums of two by two elements that share nothing: of lines and columns some are left over, and some operands do not lie as their axes. */
static int build_squares(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    (void)p_;
    ls_tensor *x = random_tensor(s, rng, LS_F32, LS_SHAPE(draw(rng, 1, 3), draw(rng, 1, 20), draw(rng, 2, 40), draw(rng, 2, 90)));
    ls_window_spec windows[] = {{2, 2, 1}, {2, 2, 1}};
    int axes[] = {2, 3}, taps[] = {4, 5}, turned[] = {1, 0, 2, 3}, back[] = {0, 1, 3, 2};
    ls_tensor *w = ls_window(s, x, 2, axes, windows);
    roots[0] = ls_amax(s, w, 2, taps, 0);
    roots[1] = ls_neg(s, ls_amin(s, w, 2, taps, 0));
    roots[2] = ls_amin(s, ls_window(s, ls_permute(s, x, turned), 2, axes, windows), 2, taps, 0);
    roots[3] = ls_amax(s, ls_window(s, ls_permute(s, x, back), 2, axes, windows), 2, taps, 0);
    roots[4] = ls_cast(s, ls_argmax(s, w, 2, taps, 0), LS_I32);
    roots[5] = ls_argmin(s, w, 2, taps, 0);
    roots[6] = ls_sum(s, w, 2, taps, 0);
    roots[7] = ls_mul(s, ls_sum(s, ls_window(s, ls_permute(s, x, back), 2, axes, windows), 2, taps, 0), ls_full(s, LS_F32, LS_SCALAR, 0.25));
    return 8;
}

static void squares(void **state) {
    for (uint64_t seed = 0; seed < 40; seed++) {
        check_case(*state, build_squares, 400 + seed, NULL, "squares", seed < 4);
    }
}

/* Gradients of maxima of windows that share nothing, with ties and NaN: places in a window come from coordinates, which recur. */
static int build_pooled_gradient(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const int64_t *p = p_; /* images, planes, windows of two axes, their sizes */
    ls_conv_spec spec = {.spatial = 2, .stride = {p[4], p[5]}};
    ls_shape shape = LS_SHAPE(p[0], p[1], p[2] * p[4], p[3] * p[5]);
    ls_tensor *x = ls_rint(s, random_tensor(s, rng, LS_F32, shape)), *seed = tame_tensor(s, rng, LS_F32, LS_SHAPE(p[0], p[1], p[2], p[3]));
    ls_tensor *y = ls_max_pool(s, ls_relu(s, x), p + 4, &spec), *low = ls_neg(s, ls_max_pool(s, ls_neg(s, x), p + 4, &spec));
    roots[0] = y;
    return ls_grad(s, y, seed, 1, &x, &roots[1]) == LS_OK && ls_grad(s, low, seed, 1, &x, &roots[2]) == LS_OK ? 3 : 1;
}

static void pooled_gradients(void **state) {
    static const int64_t cases[][6] = {{2, 5, 12, 12, 2, 2}, {3, 2, 7, 5, 3, 2}, {1, 3, 2, 40, 2, 3}, {2, 1, 3, 1, 2, 2},
                                       {1, 2, 4, 130, 1, 4}, {4, 3, 6, 8, 2, 1}, {1, 1, 5, 300, 2, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[40];
        snprintf(what, sizeof what, "pooled gradients, case %zu", i);
        check_case(*state, build_pooled_gradient, 300 + i, cases[i], what, i < 2);
    }
}

static void pooling(void **state) {
    for (uint64_t seed = 0; seed < 50; seed++) {
        check_case(*state, build_pooling, seed, NULL, "pooling", seed < 6);
    }
}

static int build_rows(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    ls_tensor *x = tame_tensor(s, rng, p->dtype, LS_SHAPE(p->a, p->b, p->c));
    ls_tensor *g = tame_tensor(s, rng, p->dtype, LS_SHAPE(p->c)),
              *b = tame_tensor(s, rng, p->dtype, LS_SHAPE(p->c));
    roots[0] = ls_softmax(s, x, 2);
    roots[1] = ls_log_softmax(s, x, 1);
    roots[2] = ls_layer_norm(s, x, 2, g, b, 1e-5);
    roots[3] = ls_rms_norm(s, x, 2, g, 1e-5);
    roots[4] = ls_variance(s, x, 2, (int[]){0, 2}, 1, 1);
    roots[5] = ls_softmax(s, ls_gelu(s, x), 0);
    return 6;
}
/* Norms of groups of channels behind maps and before some, of extents that are each other's, and their gradients. */
static int build_groups(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const int64_t *p = p_; /* images, channels, lines, columns, groups */
    ls_tensor *x = tame_tensor(s, rng, LS_F32, LS_SHAPE(p[0], p[1], p[2], p[3])), *gamma = tame_tensor(s, rng, LS_F32, LS_SHAPE(p[1])),
              *beta = tame_tensor(s, rng, LS_F32, LS_SHAPE(p[1])), *operands[] = {x, gamma, beta};
    roots[0] = ls_group_norm(s, ls_mul(s, x, ls_full(s, LS_F32, LS_SCALAR, 1.5)), p[4], gamma, beta, 1e-5);
    roots[1] = ls_add(s, ls_silu(s, ls_group_norm(s, x, p[4], gamma, beta, 1e-5)), x);
    roots[2] = ls_permute(s, ls_group_norm(s, x, p[4], NULL, NULL, 1e-3), (int[]){0, 2, 3, 1});
    ls_tensor *seed = tame_tensor(s, rng, LS_F32, LS_SHAPE(p[0], p[1], p[2], p[3]));
    assert_int_equal(ls_grad(s, roots[1], seed, 3, operands, &roots[3]), LS_OK);
    return 6;
}
static void norms_of_groups(void **state) {
    static const int64_t cases[][5] = {{2, 8, 4, 4, 2}, {3, 6, 5, 7, 3}, {2, 12, 1, 9, 4}, {1, 4, 33, 40, 2}, {2, 64, 8, 8, 8}, {9, 4, 3, 2, 2}, {1, 6, 1, 1, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char what[40];
        snprintf(what, sizeof what, "norms of groups, case %zu", i);
        check_case(*state, build_groups, 600 + i, cases[i], what, 1);
    }
}

static void row_groups(void **state) {
    static const param shapes[] = {{0, 1, 1, 1},   {0, 2, 3, 10},   {0, 5, 4, 257}, {0, 3, 2, 1000},
                                   {0, 2, 37, 65}, {0, 1, 2, 4097}, {0, 40, 3, 12}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int d = LS_F16; d <= LS_F64; d++) {
            param p = shapes[i];
            p.dtype = (ls_dtype)d;
            char what[80];
            snprintf(what, sizeof what, "rows %s [%lld,%lld,%lld]", ls_dtype_name(p.dtype), (long long)p.a,
                     (long long)p.b, (long long)p.c);
            check_case(*state, build_rows, i, &p, what, d == LS_F32);
        }
    }
}

/* Exponentials that are kept for the last phase, in the result's place where that reads them as it stores: once and twice, beside other
 * operands, turned, of another size, and two of them. */
static int build_kept(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    ls_shape shape = LS_SHAPE(p->a, p->b, p->c);
    ls_tensor *x = p->dtype == LS_F64 ? tame_tensor(s, rng, LS_F32, shape) : random_tensor(s, rng, LS_F32, shape), *g = tame_tensor(s, rng, LS_F32, LS_SHAPE(p->c));
    ls_tensor *e[6], *y[6];
    for (int i = 0; i < 6; i++) { /* one kernel each */
        e[i] = ls_exp(s, ls_sub(s, ls_mul(s, x, ls_full(s, LS_F32, LS_SCALAR, 1 + i)), ls_amax(s, x, 1, (int[]){2}, 1)));
        y[i] = ls_div(s, e[i], ls_sum(s, e[i], 1, (int[]){2}, 1));
    }
    roots[0] = ls_mul(s, y[0], g);
    roots[1] = ls_sub(s, y[1], e[1]);
    roots[2] = ls_add(s, ls_mul(s, g, y[2]), ls_mul(s, x, e[2]));
    roots[3] = ls_permute(s, y[3], (int[]){1, 0, 2});
    roots[4] = ls_cast(s, y[4], LS_F16);
    ls_tensor *t = ls_tanh(s, x);
    roots[5] = ls_sub(s, y[5], ls_div(s, t, ls_sum(s, t, 1, (int[]){2}, 1)));
    return 6;
}

static void kept_in_results(void **state) {
    static const param shapes[] = {{LS_F32, 2, 3, 10}, {LS_F64, 5, 4, 257}, {LS_F32, 3, 7, 1000}, {LS_F64, 2, 37, 65}, {LS_F64, 3, 4, 4097}, {LS_F64, 40, 3, 64}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_case(*state, build_kept, 600 + i, &shapes[i], "kept in results", i < 3);
    }
}

static int build_scan(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    ls_tensor *x = tame_tensor(s, rng, p->dtype, LS_SHAPE(p->a, p->b, p->c));
    int n = 0;
    for (int axis = 0; axis < 3; axis++) {
        for (int i = 0; i < 2; i++) {
            roots[n++] = ls_scan(s, x, (ls_scan_kind)ls_rng_below(rng, 4), axis, (int)ls_rng_below(rng, 2),
                                 (int)ls_rng_below(rng, 2));
        }
    }
    return n;
}
/* Over 512 blocks, so that the totals of blocks have blocks of their own: of one column, or of each of eight, together or, as `ref` is quick
 * to do, one after the other. */
static int build_long_scan(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    ls_tensor *x = tame_tensor(s, rng, p->dtype, LS_SHAPE(p->a, p->b)), *together = ls_scan(s, x, LS_SCAN_SUM, 0, 0, 0);
    for (int64_t i = 0; i < p->b; i++) {
        ls_tensor *column = ls_reshape(s, ls_narrow(s, p->c ? together : x, 1, i, 1), LS_SHAPE(p->a));
        roots[i] = p->c ? ls_neg(s, column) : ls_neg(s, ls_scan(s, column, LS_SCAN_SUM, 0, 0, 0));
    }
    return (int)p->b;
}
static void long_scan(void **state) {
    enum { N = 513 * 512 + 7 };
    check_case(*state, build_long_scan, 1, &(param){LS_F32, N, 1, 0}, "long scan", 0);
    worlds *all = *state;
    result want = run_case(&all->ref, build_long_scan, 2, &(param){LS_F32, N, 8, 0}, "long scans");
    for (int c = 0; c < all->n; c++) {
        result got = run_case(&all->cpu[c], build_long_scan, 2, &(param){LS_F32, N, 8, 1}, "long scans side by side");
        for (int i = 0; i < want.n; i++) {
            check_bytes(all->names[c], "long scans side by side", 2, i, got.data[i], got.bytes[i], want.data[i], want.bytes[i]);
        }
        free_result(&got);
    }
    free_result(&want);
}
static int build_sort(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    ls_tensor *x = random_tensor(s, rng, p->dtype, LS_SHAPE(p->a, p->b, p->c));
    int n = 0;
    for (int axis = 0; axis < 3; axis++) {
        roots[n++] = ls_argsort(s, x, axis, (int)ls_rng_below(rng, 2));
    }
    roots[n++] = ls_sort(s, x, 2, 1);
    return n;
}
static void scans_and_sorts(void **state) {
    static const param shapes[] = {{0, 1, 1, 1},   {0, 2, 3, 17},  {0, 1, 3, 511},
                                   {0, 2, 1, 512}, {0, 1, 2, 513}, {0, 1, 1, 1537},
                                   {0, 600, 3, 2}, {0, 0, 3, 2},   {0, 3, 1100, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int d = 0; d < LS_DTYPE_COUNT; d++) {
            param p = shapes[i];
            p.dtype = (ls_dtype)d;
            char what[80];
            snprintf(what, sizeof what, "along %s [%lld,%lld,%lld]", ls_dtype_name(p.dtype), (long long)p.a,
                     (long long)p.b, (long long)p.c);
            if (d != LS_BOOL) {
                check_case(*state, build_scan, i + 50, &p, what, d == LS_F32);
            }
            check_case(*state, build_sort, i + 90, &p, what, d == LS_F16);
        }
    }
}

/* Sums of columns whose elements are runs of memory, evenly apart or not: of axes that lie side by side or apart, in either order, the same along one
 * of them, backwards, and parts of longer rows. */
static int build_columns(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    ls_tensor *t[3];
    int64_t dims[3][3] = {{p->a, p->b, p->c}, {p->a, 1, p->c}, {1, p->b, p->c}};
    for (int k = 0; k < 3; k++) {
        int64_t n = dims[k][0] * dims[k][1] * dims[k][2];
        float *data = calloc((size_t)n, sizeof *data);
        for (int64_t i = 0; i < n; i++) {
            data[i] = (float)((int64_t)ls_rng_below(rng, 20001) - 10000) / 7;
        }
        t[k] = ls_tensor_from(s, LS_F32, LS_SHAPE(dims[k][0], dims[k][1], dims[k][2]), data);
        free(data);
    }
    ls_shape all = LS_SHAPE(p->a, p->b, p->c);
    roots[0] = ls_sum(s, t[0], 1, (const int[]){0}, 0);
    roots[1] = ls_sum(s, t[0], 2, (const int[]){0, 1}, 0);
    roots[2] = ls_sum(s, t[0], 2, (const int[]){1, 0}, 0);
    roots[3] = ls_sum(s, ls_expand(s, t[1], all), 2, (const int[]){0, 1}, 0);
    roots[4] = ls_sum(s, ls_expand(s, t[2], all), 2, (const int[]){0, 1}, 0);
    roots[5] = ls_sum(s, ls_flip(s, t[0], 0), 1, (const int[]){0}, 0);
    roots[6] = ls_sum(s, ls_slice(s, t[0], (const ls_slice_spec[]){{0, p->a, 1}, {0, p->b, 1}, {1, p->c, 1}}), 2, (const int[]){0, 1}, 0);
    return 7;
}

/* Extremes of such columns, and where those of rows are: of numbers that are there more than once, both zeros, and few NaN. */
static int build_extremes(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    const int64_t n = p->a * p->b * p->c, range = 2 + (int64_t)ls_rng_below(rng, 2000);
    float *data = calloc((size_t)n, sizeof *data);
    for (int64_t i = 0; i < n; i++) {
        data[i] = (float)((int64_t)ls_rng_below(rng, (uint32_t)range) - range / 2) * (ls_rng_below(rng, 2) ? 1.0f : -1.0f);
        data[i] = i % 2 && i >= n - p->b * p->c ? (float)range : data[i]; /* of some columns the last one */
        data[i] = ls_rng_below(rng, 3000) ? data[i] : NAN;
    }
    ls_tensor *x = ls_tensor_from(s, LS_F32, LS_SHAPE(p->a, p->b, p->c), data);
    free(data);
    roots[0] = ls_amax(s, x, 1, (const int[]){0}, 0);
    roots[1] = ls_amin(s, x, 2, (const int[]){1, 0}, 0);
    roots[2] = ls_amax(s, ls_flip(s, x, 0), 2, (const int[]){0, 1}, 0);
    roots[3] = ls_argmax(s, x, 1, (const int[]){2}, 0);
    roots[4] = ls_argmin(s, x, 1, (const int[]){2}, 0);
    return 5;
}

static void columns_of_memory(void **state) {
    static const param shapes[] = {{0, 3, 2, 40}, {0, 700, 1, 300}, {0, 40, 110, 35}, {0, 4100, 2, 17}, {0, 260, 3, 1100}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_case(*state, build_columns, i + 1, &shapes[i], "columns", 1);
        check_case(*state, build_extremes, i + 1, &shapes[i], "extremes of columns", 1);
    }
}

/* Sums whose elements lie in runs apart, in any order: long runs are folded where they lie. */
static int build_runs_apart(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    ls_tensor *x = tame_tensor(s, rng, LS_F32, LS_SHAPE(p->a, p->b, p->c));
    roots[0] = ls_sum(s, x, 2, (const int[]){0, 2}, 0);
    roots[1] = ls_amax(s, x, 2, (const int[]){0, 2}, 0);
    return 2;
}

static void runs_apart(void **state) {
    static const param shapes[] = {{0, 3, 2, 300}, {0, 5, 3, 676}, {0, 2, 2, 1500}, {0, 20, 2, 257}, {0, 9, 2, 256}};
    worlds *all = *state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        check_fast_on_all(all, build_runs_apart, (ls_rng){i, 3}, &shapes[i], "runs apart", i);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(columns_of_memory), cmocka_unit_test(runs_apart), cmocka_unit_test(reductions), cmocka_unit_test(long_reductions), cmocka_unit_test(products),
                                       cmocka_unit_test(absent), cmocka_unit_test(pooling), cmocka_unit_test(squares), cmocka_unit_test(pooled_gradients), cmocka_unit_test(row_groups), cmocka_unit_test(norms_of_groups), cmocka_unit_test(kept_in_results), cmocka_unit_test(long_scan),
                                       cmocka_unit_test(scans_and_sorts)};
    return cmocka_run_group_tests(tests, worlds_setup, worlds_teardown);
}
