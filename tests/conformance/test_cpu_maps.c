/* Element-wise operations of the CPU backend against ref: every operation, every dtype, awkward sizes and
 * views. */
#include "conformance/cpu_cases.h"

typedef ls_tensor *(*unary_fn)(ls_session *s, ls_tensor *x);
typedef ls_tensor *(*binary_fn)(ls_session *s, ls_tensor *a, ls_tensor *b);
enum { FLOAT = 1, INTEGER = 2, BOOL = 4, ANY = 7, NUM = 3 };
typedef struct row {
    const char *name;
    int dtypes;
    unary_fn unary;
    binary_fn binary;
} row;
#define U(name, dtypes)                                                                                      \
    { #name, dtypes, ls_##name, NULL }
#define B(name, dtypes)                                                                                      \
    { #name, dtypes, NULL, ls_##name }
static const row rows[] = {
    U(neg, NUM),
    U(abs, NUM),
    U(sign, NUM),
    U(floor, FLOAT),
    U(ceil, FLOAT),
    U(trunc, FLOAT),
    U(rint, FLOAT),
    U(sqrt, FLOAT),
    U(rsqrt, FLOAT),
    U(cbrt, FLOAT),
    U(recip, FLOAT),
    U(exp, FLOAT),
    U(exp2, FLOAT),
    U(expm1, FLOAT),
    U(log, FLOAT),
    U(log2, FLOAT),
    U(log1p, FLOAT),
    U(sin, FLOAT),
    U(cos, FLOAT),
    U(tan, FLOAT),
    U(asin, FLOAT),
    U(acos, FLOAT),
    U(atan, FLOAT),
    U(sinh, FLOAT),
    U(cosh, FLOAT),
    U(tanh, FLOAT),
    U(erf, FLOAT),
    U(erfc, FLOAT),
    U(not, INTEGER | BOOL),
    U(isnan, FLOAT),
    U(isinf, FLOAT),
    U(popcount, INTEGER),
    B(add, NUM),
    B(sub, NUM),
    B(mul, NUM),
    B(div, NUM),
    B(rem, NUM),
    B(pow, FLOAT),
    B(min, ANY),
    B(max, ANY),
    B(and, INTEGER | BOOL),
    B(or, INTEGER | BOOL),
    B(xor, INTEGER | BOOL),
    B(shl, INTEGER),
    B(shr, INTEGER),
    B(eq, ANY),
    B(ne, ANY),
    B(lt, ANY),
    B(le, ANY),
};

static int class_of(ls_dtype d) {
    return d == LS_BOOL ? BOOL : d >= LS_F16 ? FLOAT : INTEGER;
}

typedef struct param {
    const row *row;
    ls_dtype dtype, to;
    int64_t n;
} param;

static int build_map(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    ls_tensor *x = random_tensor(s, rng, p->dtype, LS_SHAPE(p->n));
    roots[0] = p->row->unary ? p->row->unary(s, x)
                             : p->row->binary(s, x, random_tensor(s, rng, p->dtype, LS_SHAPE(p->n)));
    return 1;
}

static void maps(void **state) {
    worlds *all = *state;
    static const int64_t sizes[] = {1, 0, 7, 257, 1031};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (int d = 0; d < LS_DTYPE_COUNT; d++) {
            if (!(rows[r].dtypes & class_of((ls_dtype)d))) {
                continue;
            }
            char what[64];
            snprintf(what, sizeof what, "%s %s", rows[r].name, ls_dtype_name((ls_dtype)d));
            int64_t n = sizes[(r + (size_t)d) % 5];
            check_case(all, build_map, 1 + r * 100 + (size_t)d, &(param){&rows[r], (ls_dtype)d, 0, n}, what,
                       0);
            check_case(all, build_map, 7 + r * 100 + (size_t)d, &(param){&rows[r], (ls_dtype)d, 0, 1031},
                       what, 1);
        }
    }
}

static int build_cast(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const param *p = p_;
    ls_tensor *x = random_tensor(s, rng, p->dtype, LS_SHAPE(p->n));
    roots[0] = ls_cast(s, x, p->to);
    int n = 1;
    if (ls_dtype_size(p->dtype) == ls_dtype_size(p->to) && p->to != LS_BOOL) {
        roots[n++] = ls_bitcast(s, x, p->to);
    }
    return n;
}

static void casts(void **state) {
    worlds *all = *state;
    for (int from = 0; from < LS_DTYPE_COUNT; from++) {
        for (int to = 0; to < LS_DTYPE_COUNT; to++) {
            char what[64];
            snprintf(what, sizeof what, "cast %s to %s", ls_dtype_name((ls_dtype)from),
                     ls_dtype_name((ls_dtype)to));
            check_case(all, build_cast, (uint64_t)(from * 16 + to),
                       &(param){NULL, (ls_dtype)from, (ls_dtype)to, 2077}, what, 1);
        }
    }
}

/* Chains over views: permuted, broadcast, reversed, strided, windowed, padded, joined. */
static int build_views(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    ls_dtype d = *(const ls_dtype *)p_;
    int64_t a = 1 + (int64_t)ls_rng_below(rng, 9), b = 1 + (int64_t)ls_rng_below(rng, 23),
            c = 1 + (int64_t)ls_rng_below(rng, 40);
    ls_tensor *x = random_tensor(s, rng, d, LS_SHAPE(a, b, c)),
              *y = random_tensor(s, rng, d, LS_SHAPE(c, 1, a));
    ls_tensor *row = random_tensor(s, rng, d, LS_SHAPE(c)), *one = random_tensor(s, rng, d, LS_SHAPE(1));
    int order[] = {2, 1, 0};
    ls_tensor *z = ls_max(s, ls_permute(s, y, order), ls_max(s, x, row));
    z = ls_min(s, z, ls_flip(s, x, (int)ls_rng_below(rng, 3)));
    roots[0] = ls_max(s, z, one);
    int64_t lo = (int64_t)ls_rng_below(rng, 4), hi = (int64_t)ls_rng_below(rng, 4),
            in = (int64_t)ls_rng_below(rng, 3);
    ls_pad_spec pads[3] = {{lo, hi, 0}, {hi, -(int64_t)ls_rng_below(rng, 1), in}, {lo + 1, lo, in ? 0 : 1}};
    ls_tensor *padded = ls_pad(s, z, pads, 1.0);
    roots[1] = padded;
    roots[2] = ls_permute(s, ls_pad_absent(s, padded, pads), order);
    int axes[] = {2, 0};
    ls_window_spec windows[2] = {{2, 1 + (int64_t)ls_rng_below(rng, 2), 1}, {1, 2, 1}};
    roots[3] = ls_window(s, padded, 2, axes, windows);
    ls_slice_spec cut[3] = {{0, a, 2}, {b - 1, -1, -1}, {c - 1, -1, -2}};
    ls_tensor *parts[3] = {ls_slice(s, x, cut), NULL, NULL};
    parts[1] = ls_slice(s, z, cut);
    parts[2] = parts[0];
    roots[4] = ls_concat(s, parts, 3, (int)ls_rng_below(rng, 3));
    roots[5] = ls_reshape(s, ls_permute(s, padded, order), LS_SHAPE(-1));
    roots[6] = ls_where(s, ls_lt(s, x, row), x, ls_flip(s, x, 2));
    return 7;
}

static void views(void **state) {
    worlds *all = *state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        ls_dtype d = (ls_dtype)(seed % LS_DTYPE_COUNT);
        check_case(all, build_views, seed, &d, ls_dtype_name(d), seed < 13);
    }
}

/* Channels that are scaled, shifted and joined: rows with values of their own, zeros, and results that are one operand's memory. */
static int build_channels(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    (void)p_;
    int64_t n = draw(rng, 1, 3), h = draw(rng, 1, 30), w = draw(rng, 1, 40), channels = 0;
    ls_tensor *parts[6];
    int count = (int)draw(rng, 1, 6);
    for (int i = 0; i < count; i++) {
        int64_t own = draw(rng, 1, 9);
        parts[i] = random_tensor(s, rng, LS_F32, LS_SHAPE(n, own, h, w));
        channels += own;
    }
    ls_tensor *x = ls_concat(s, parts, count, 1), *row[4];
    for (int i = 0; i < 4; i++) {
        row[i] = random_tensor(s, rng, LS_F32, LS_SHAPE(channels, 1, 1));
    }
    ls_tensor *y = ls_div(s, ls_sub(s, x, row[0]), ls_sqrt(s, ls_add(s, ls_abs(s, row[1]), row[3])));
    roots[0] = ls_relu(s, ls_add(s, ls_mul(s, y, row[2]), row[3]));
    ls_tensor *other = random_tensor(s, rng, LS_F32, LS_SHAPE(n, channels, h, w)), *gate = random_tensor(s, rng, LS_F32, LS_SHAPE(n, channels, 1, 1));
    roots[1] = ls_add(s, ls_mul(s, other, gate), x);
    roots[2] = ls_min(s, ls_sub(s, row[0], other), ls_mul(s, other, other));
    ls_pad_spec pads[4] = {{0, 0, 0}, {draw(rng, 0, 3), draw(rng, 0, 3), 0}, {0, 0, 0}, {0, 0, 0}};
    ls_tensor *padded = ls_pad(s, ls_mul(s, other, row[1]), pads, 0.0);
    roots[3] = ls_add(s, padded, random_tensor(s, rng, LS_F32, LS_SHAPE(1, channels + pads[1].low + pads[1].high, 1, 1)));
    roots[4] = ls_max(s, ls_div(s, other, x), random_tensor(s, rng, LS_F32, LS_SHAPE(w)));
    return 5;
}

static void channels(void **state) {
    for (uint64_t seed = 0; seed < 60; seed++) {
        check_case(*state, build_channels, seed, NULL, "channels", seed < 6);
    }
}

/* Rows long enough to be done in patches. */
static int build_transposed(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    ls_dtype d = *(const ls_dtype *)p_;
    ls_tensor *x = random_tensor(s, rng, d, LS_SHAPE(700, 33)),
              *y = random_tensor(s, rng, d, LS_SHAPE(33, 700));
    ls_tensor *image = random_tensor(s, rng, d, LS_SHAPE(2, 25, 26, 17));
    roots[0] = ls_max(s, ls_permute(s, x, (int[]){1, 0}), y);
    roots[1] = ls_min(s, x, ls_permute(s, y, (int[]){1, 0}));
    roots[2] = ls_reshape(s, ls_permute(s, image, (int[]){0, 3, 1, 2}), LS_SHAPE(-1));
    roots[3] = ls_max(s, ls_permute(s, image, (int[]){0, 2, 3, 1}), random_tensor(s, rng, d, LS_SHAPE(25)));
    return 4;
}

static void transposed(void **state) {
    static const ls_dtype dtypes[] = {LS_F32, LS_F64, LS_F16, LS_I8};
    for (uint64_t i = 0; i < 4; i++) {
        check_case(*state, build_transposed, i, &dtypes[i], "transposed", 1);
    }
}

/* Tensors joined one after another, with planes of several tiles and of less than one. */
static int build_joined(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    static const int64_t sides[] = {3, 14, 29};
    ls_dtype d = *(const ls_dtype *)p_;
    ls_tensor *parts[5], *scale = random_tensor(s, rng, d, LS_SHAPE(70, 1, 1));
    for (int r = 0; r < 3; r++) {
        int64_t h = sides[r], w = sides[r] + 1, channels = 0;
        for (int i = 0; i < 4; i++) {
            int64_t n = 1 + (int64_t)ls_rng_below(rng, 16);
            parts[i] = random_tensor(s, rng, d, LS_SHAPE(n, h, w));
            channels += n;
        }
        parts[1] = ls_max(s, parts[1], parts[1]);
        parts[4] = ls_permute(s, random_tensor(s, rng, d, LS_SHAPE(h, w, 70 - channels)), (int[]){2, 0, 1});
        ls_tensor *x = ls_concat(s, parts, 5, 0);
        roots[2 * r] = ls_min(s, ls_max(s, x, scale), ls_flip(s, x, 2));
        roots[2 * r + 1] = ls_concat(s, (ls_tensor *[]){x, parts[4], parts[0]}, 3, 0);
    }
    return 6;
}

static void joined(void **state) {
    static const ls_dtype dtypes[] = {LS_F32, LS_F64, LS_F16, LS_I8};
    for (uint64_t i = 0; i < 8; i++) {
        check_case(*state, build_joined, i, &dtypes[i % 4], "joined", 1);
    }
}

/* Rows of a few lanes, joined one below the other and side by side, cut from wider ones: the boxes of a detector. */
static int build_boxes(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    ls_dtype d = *(const ls_dtype *)p_;
    int64_t few = draw(rng, 1, 6), wide = few + draw(rng, 0, 3), at = draw(rng, 0, wide - few), n = 0;
    ls_tensor *parts[4], *sides[3];
    for (int i = 0; i < 4; i++) {
        int64_t rows = draw(rng, 1, i ? 90 : 900);
        parts[i] = random_tensor(s, rng, d, LS_SHAPE(rows, wide));
        n += rows;
    }
    ls_tensor *x = ls_narrow(s, ls_concat(s, parts, 4, 0), 1, at, few), *y = random_tensor(s, rng, d, LS_SHAPE(n, few));
    roots[0] = ls_max(s, x, y);
    for (int i = 0; i < 3; i++) {
        sides[i] = random_tensor(s, rng, d, LS_SHAPE(n, draw(rng, 1, 5)));
    }
    roots[1] = ls_concat(s, sides, 3, 1);
    sides[0] = ls_min(s, x, y);
    sides[2] = ls_max(s, ls_flip(s, x, 1), y);
    ls_tensor *all = ls_concat(s, sides, 3, 1);
    roots[2] = ls_max(s, all, ls_concat(s, (ls_tensor *[]){sides[1], y, y}, 3, 1));
    ls_pad_spec pads[2] = {{draw(rng, 0, 40), draw(rng, 0, 40), 0}, {draw(rng, 0, 2), draw(rng, 0, 2), draw(rng, 0, 1)}};
    roots[3] = ls_max(s, ls_pad(s, x, pads, 1.0), ls_pad(s, ls_min(s, x, y), pads, 0.0));
    roots[4] = ls_reshape(s, ls_min(s, all, all), LS_SHAPE(-1));
    return 5;
}

static void boxes(void **state) {
    static const ls_dtype dtypes[] = {LS_F32, LS_I32, LS_F64, LS_F16, LS_F32, LS_U8};
    for (uint64_t seed = 0; seed < 48; seed++) {
        check_case(*state, build_boxes, seed, &dtypes[seed % 6], "boxes", seed < 6);
    }
}

static int build_made(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    int64_t n = *(const int64_t *)p_;
    uint32_t words[2] = {ls_rng_u32(rng), ls_rng_u32(rng)};
    ls_tensor *key = ls_tensor_from(s, LS_U32, LS_SHAPE(2), words);
    roots[0] = ls_random_bits(s, key, LS_SHAPE(n, 3));
    roots[1] = ls_random_uniform(s, key, LS_SHAPE(3, n), LS_F32);
    roots[2] = ls_random_normal(s, key, LS_SHAPE(n), LS_F64);
    roots[3] = ls_iota(s, LS_F16, LS_SHAPE(3, n, 2), 1);
    roots[4] = ls_mul(s, ls_iota(s, LS_I64, LS_SHAPE(n, 5), 0), ls_iota(s, LS_I64, LS_SHAPE(5), 0));
    roots[5] = ls_dropout(s, ls_full(s, LS_F32, LS_SHAPE(n), 3.0), 0.25, key);
    return 6;
}

static void made(void **state) {
    static const int64_t sizes[] = {0, 1, 5, 511, 512, 513, 1537};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_case(*state, build_made, i, &sizes[i], "made", 1);
    }
}

static int build_indexed(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    ls_dtype d = *(const ls_dtype *)p_;
    int64_t rows = 1 + (int64_t)ls_rng_below(rng, 30), n = 1 + (int64_t)ls_rng_below(rng, 700),
            w = 1 + (int64_t)ls_rng_below(rng, 5);
    int32_t *index = calloc((size_t)n, sizeof *index);
    for (int64_t i = 0; i < n; i++) {
        index[i] = (int32_t)ls_rng_below(rng, (uint64_t)rows);
    }
    ls_tensor *at = ls_tensor_from(s, LS_I32, LS_SHAPE(n), index),
              *x = random_tensor(s, rng, d, LS_SHAPE(rows, w));
    free(index);
    roots[0] = ls_gather(s, x, at, 0);
    roots[1] = ls_gather(s, ls_permute(s, x, (int[]){1, 0}), at, 1);
    ls_tensor *updates = random_tensor(s, rng, d, LS_SHAPE(n, w));
    int count = 2;
    for (int kind = LS_SCATTER_SET; kind <= LS_SCATTER_MAX; kind++) {
        if (d != LS_BOOL || kind == LS_SCATTER_SET || kind >= LS_SCATTER_MIN) {
            roots[count++] = ls_scatter(s, x, at, updates, 0, (ls_scatter_kind)kind);
        }
    }
    return count;
}

static void indexed(void **state) {
    for (uint64_t seed = 0; seed < 39; seed++) {
        ls_dtype d = (ls_dtype)(seed % LS_DTYPE_COUNT);
        check_case(*state, build_indexed, seed, &d, ls_dtype_name(d), seed < 13);
    }
}

static void out_of_range_is_reported(void **state) {
    worlds *all = *state;
    int32_t index[3] = {1, 4, 0};
    float x[4] = {1, 2, 3, 4};
    for (int c = 0; c < all->n; c++) {
        world *w = &all->cpu[c];
        ls_tensor *y = ls_gather(w->session, ls_tensor_from(w->session, LS_F32, LS_SHAPE(4), x),
                                 ls_tensor_from(w->session, LS_I32, LS_SHAPE(3), index), 0);
        assert_int_equal(ls_realize(w->session, &y, 1), LS_ERR_RANGE);
        ls_session_clear_error(w->session);
    }
    all->cases++;
}

static int setup(void **state) {
    static worlds all;
    worlds_open(&all);
    *state = &all;
    return 0;
}
static int teardown(void **state) {
    worlds_close(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(maps),
                                       cmocka_unit_test(casts),
                                       cmocka_unit_test(views),
                                       cmocka_unit_test(channels),
                                       cmocka_unit_test(transposed),
                                       cmocka_unit_test(joined),
                                       cmocka_unit_test(boxes),
                                       cmocka_unit_test(made),
                                       cmocka_unit_test(indexed),
                                       cmocka_unit_test(out_of_range_is_reported)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
