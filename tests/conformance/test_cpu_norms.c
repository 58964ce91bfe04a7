/* Norms of rows, which the CPU backend does by a function of their own, and graphs that are all but one. */
#include "conformance/cpu_cases.h"

enum { ALL = 21 }; /* any of the ways may be another, instead of one */

/* Of the ways that a graph is asked for, the one that is not the first; then it is `taken`, where there are as many (0: any). */
static uint64_t deviation, asked;
static int taken, most;

/* One of `n` ways. */
static int way(ls_rng *rng, int n) {
    int other = taken ? taken % n : (int)ls_rng_below(rng, (uint64_t)n);
    bool here = asked++ == deviation;
    most = here ? n : most;
    return here || (deviation == ALL && chance(rng, 5)) ? other : 0;
}

static ls_tensor *number(ls_session *s, double v) {
    return ls_full(s, LS_F32, LS_SCALAR, v);
}

/* Rows of a kind each: of ordinary numbers, large, small, all the same, with NaN or infinities. */
static float *draw_rows(ls_rng *rng, int64_t rows, int64_t n) {
    static const uint32_t special[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x80000000, 0x7f7fffff, 1};
    static const float scales[] = {1, 1e25f, 1e-25f, 1e-41f, 1e38f, 1e15f, 0, 1, 1, 1, 1, 1};
    float *data = calloc((size_t)(rows * n) + 1, sizeof *data);
    uint64_t state = ls_rng_u64(rng);
    for (int64_t i = 0; i < rows * n; i += n) {
        uint64_t kind = ls_rng_below(rng, 12);
        float scale = scales[kind], middle = (float)ls_rng_normal(rng) * 3 * (kind == 6 ? 1 : scale);
        for (int64_t k = i; k < i + n; k++) {
            data[k] = (float)next_number(&state) * scale + middle;
        }
        if (kind > 9) {
            memcpy(data + i + ls_rng_below(rng, (uint64_t)n), &special[ls_rng_below(rng, 7)], sizeof *data);
        }
    }
    return data;
}

static ls_tensor *leaf(ls_session *s, ls_rng *rng, ls_shape shape) {
    int64_t n = shape.dim[shape.rank - 1].offset;
    float *data = draw_rows(rng, numel_of(shape) / n, n);
    ls_tensor *t = ls_tensor_from(s, LS_F32, shape, data);
    free(data);
    return t;
}

/* Numbers of a row each: ordinary, since in fast what is multiplied by them may be divided before. */
static ls_tensor *random_column(ls_session *s, ls_rng *rng, int64_t rows) {
    return tame_tensor(s, rng, LS_F32, LS_SHAPE(rows, 1));
}

static ls_tensor *rows_of(ls_session *s, ls_rng *rng, int64_t rows, int64_t n) {
    ls_shape shape = LS_SHAPE(rows, n);
    switch (way(rng, 12)) {
    case 1:
        return ls_narrow(s, leaf(s, rng, LS_SHAPE(rows, n + 19)), 1, draw(rng, 0, 19), n);
    case 2:
        return ls_flip(s, leaf(s, rng, shape), 0);
    case 3:
        return ls_flip(s, leaf(s, rng, shape), 1);
    case 4:
        return ls_expand(s, leaf(s, rng, LS_SHAPE(1, n)), shape);
    case 5:
        return ls_slice(s, leaf(s, rng, LS_SHAPE(3 * rows, n)), (const ls_slice_spec[]){{1, 3 * rows, 3}, {0, n, 1}});
    case 6:
        return ls_add(s, leaf(s, rng, shape), leaf(s, rng, shape));
    case 7:
        return ls_window(s, leaf(s, rng, LS_SHAPE(3 * rows - 3 + n)), 1, (const int[]){0}, (const ls_window_spec[]){{n, 3, 1}});
    case 8:
        return ls_cast(s, ls_cast(s, leaf(s, rng, shape), LS_F16), LS_F32);
    case 9:
        return ls_permute(s, leaf(s, rng, LS_SHAPE(n, rows)), (const int[]){1, 0});
    case 10:
        return ls_pad(s, leaf(s, rng, LS_SHAPE(rows, n - 3)), (const ls_pad_spec[]){{0, 0, 0}, {1, 2, 0}}, 1.5);
    case 11: /* its result may take its place */
        return ls_sort(s, leaf(s, rng, shape), 0, 0);
    default:
        return leaf(s, rng, shape);
    }
}

/* A mean of rows, or what is like one. */
static ls_tensor *mean_of(ls_session *s, ls_rng *rng, ls_tensor *x, int64_t n) {
    static const int last[] = {1};
    static const double counts[] = {3, -5, 0, -0.0, 1e-40, 1e39, 0.125, 4096, 1, 1e38};
    ls_tensor *sum = ls_sum(s, x, 1, last, 1);
    switch (way(rng, 16)) {
    case 1:
        return ls_mul(s, sum, number(s, 1.0 / (double)n));
    case 2:
        return ls_div(s, sum, number(s, counts[ls_rng_below(rng, 10)]));
    case 3:
        return ls_mul(s, sum, number(s, counts[ls_rng_below(rng, 10)]));
    case 4:
        return ls_mean(s, ls_mul(s, x, x), 1, last, 1);
    case 5:
        return ls_div(s, ls_amax(s, x, 1, last, 1), number(s, (double)n));
    case 6:
        return ls_div(s, number(s, (double)n), sum);
    case 7:
        return ls_mul(s, number(s, 0.0625), sum);
    case 8:
        return ls_div(s, sum, ls_tensor_from(s, LS_F32, LS_SCALAR, &(float){(float)n}));
    case 9:
        return ls_add(s, ls_div(s, sum, number(s, (double)n)), number(s, 0.5));
    case 10:
        return ls_mean(s, ls_abs(s, x), 1, last, 1);
    case 11:
        return ls_div(s, ls_cast(s, ls_cast(s, sum, LS_BF16), LS_F32), number(s, (double)n));
    case 12:
        return ls_div(s, ls_sum(s, x, 2, (const int[]){0, 1}, 1), number(s, (double)n));
    case 13:
        return ls_mean(s, ls_narrow(s, x, 1, 0, n / 2), 1, last, 1);
    case 14:
        return ls_div(s, sum, sum);
    case 15:
        return ls_div(s, ls_amin(s, x, 1, last, 1), number(s, (double)n));
    default:
        return ls_div(s, sum, number(s, (double)n));
    }
}

static int build_norm(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const int *p = p_; /* one deviation, which way, whether it scales; or NULL: any */
    static const int64_t lengths[] = {64,  65,  79,  80,  100, 127,  128,  129,  255,  256,  257,  271, 272, 320,
                                      384, 511, 512, 513, 768, 1000, 1024, 1040, 2047, 4095, 4096, 63,  4097};
    deviation = p ? (uint64_t)p[0] : ls_rng_below(rng, ALL + 1);
    taken = p ? p[1] : 0;
    asked = 0;
    int64_t n = lengths[ls_rng_below(rng, sizeof lengths / sizeof *lengths)], rows = draw(rng, p ? 33 : 1, 70);
    ls_tensor *x = rows_of(s, rng, rows, n), *other = way(rng, 2) ? rows_of(s, rng, rows, n) : x,
              *third = way(rng, 2) ? rows_of(s, rng, rows, n) : x;
    ls_tensor *m = mean_of(s, rng, way(rng, 2) ? rows_of(s, rng, rows, n) : x, n), *m2 = way(rng, 2) ? mean_of(s, rng, third, n) : m, *u,
              *d, *y;
    switch (way(rng, 7)) {
    case 1:
        u = ls_sub(s, m2, other);
        break;
    case 2:
        u = ls_add(s, other, m2);
        break;
    case 3:
        u = other;
        break;
    case 4:
        u = ls_sub(s, other, number(s, 0.5));
        break;
    case 5:
        u = ls_abs(s, ls_sub(s, other, m2));
        break;
    case 6:
        u = ls_mul(s, other, m2);
        break;
    default:
        u = ls_sub(s, other, m2);
    }
    ls_tensor *v = mean_of(s, rng, ls_mul(s, u, way(rng, 2) ? ls_sub(s, third, m) : u), n);
    switch (way(rng, 9)) {
    case 1:
        v = ls_add(s, v, number(s, -0.25));
        break;
    case 2:
        v = ls_add(s, v, number(s, __builtin_nan("")));
        break;
    case 3:
        v = ls_sub(s, number(s, 2), v);
        break;
    case 4:
        v = ls_sub(s, v, number(s, 1e-5));
        break;
    case 5:
        v = ls_add(s, number(s, 1e-3), v);
        break;
    case 6:
        v = ls_add(s, v, random_column(s, rng, rows));
        break;
    case 7:
        v = ls_mul(s, v, number(s, 3));
        break;
    case 8:
        v = ls_add(s, v, m);
        break;
    default:
        v = ls_add(s, v, number(s, 1e-5));
    }
    switch (way(rng, 4)) {
    case 1:
        d = v;
        break;
    case 2:
        d = ls_recip(s, ls_rsqrt(s, v));
        break;
    case 3:
        d = ls_sqrt(s, ls_sqrt(s, v));
        break;
    default:
        d = ls_sqrt(s, v);
    }
    switch (way(rng, 11)) {
    case 1:
        y = ls_div(s, ls_sub(s, m, x), d);
        break;
    case 2:
        y = ls_div(s, ls_add(s, x, m), d);
        break;
    case 3:
        y = ls_mul(s, ls_sub(s, x, m), d);
        break;
    case 4:
        y = ls_div(s, d, ls_sub(s, x, m));
        break;
    case 5:
        y = ls_div(s, ls_sub(s, x, d), m);
        break;
    case 6:
        y = ls_div(s, ls_sub(s, third, m), d);
        break;
    case 7:
        y = ls_div(s, ls_sub(s, x, m2), d);
        break;
    case 8:
        y = ls_div(s, ls_sub(s, x, number(s, 0.5)), d);
        break;
    case 9:
        y = ls_div(s, ls_sub(s, x, ls_add(s, m, number(s, 1))), d);
        break;
    case 10:
        y = ls_div(s, ls_sub(s, x, ls_div(s, ls_sum(s, x, 1, (const int[]){1}, 1), number(s, (double)n - 1))), d);
        break;
    default:
        y = ls_div(s, ls_sub(s, x, m), d);
    }
    ls_tensor *g = leaf(s, rng, LS_SHAPE(n)), *b = leaf(s, rng, LS_SHAPE(n));
    switch (way(rng, 8)) {
    case 1:
        g = random_column(s, rng, rows);
        break;
    case 2:
        b = random_column(s, rng, rows);
        break;
    case 3:
        g = leaf(s, rng, LS_SHAPE(rows, n));
        break;
    case 4:
        b = x;
        break;
    case 5:
        g = x;
        break;
    case 6:
        b = g;
        break;
    case 7:
        g = ls_narrow(s, leaf(s, rng, LS_SHAPE(n + 5)), 0, 5, n);
        break;
    default:
        break;
    }
    int scales = way(rng, 13);
    switch (scales ? scales : p ? p[2] : chance(rng, 2)) {
    case 1:
        y = ls_add(s, ls_mul(s, y, g), b);
        break;
    case 2:
        y = ls_mul(s, y, g);
        break;
    case 3:
        y = ls_add(s, y, b);
        break;
    case 4:
        y = ls_sub(s, ls_mul(s, y, g), b);
        break;
    case 5:
        y = ls_sub(s, b, ls_mul(s, y, g));
        break;
    case 6:
        y = ls_mul(s, ls_add(s, y, b), g);
        break;
    case 7:
        y = ls_add(s, b, ls_mul(s, g, y));
        break;
    case 8:
        y = ls_relu(s, y);
        break;
    case 9:
        y = ls_add(s, ls_mul(s, y, g), x);
        break;
    case 10:
        y = ls_add(s, ls_sub(s, y, g), b);
        break;
    case 11:
        y = ls_add(s, ls_add(s, y, g), b);
        break;
    case 12:
        y = ls_mul(s, ls_mul(s, y, g), b);
        break;
    default:
        break;
    }
    int count = 0;
    switch (way(rng, 6)) {
    case 1:
        y = ls_cast(s, y, LS_F16);
        break;
    case 2:
        y = ls_pad(s, y, (const ls_pad_spec[]){{1, 0, 0}, {2, 3, 0}}, 0.5);
        break;
    case 3:
        y = ls_permute(s, y, (const int[]){1, 0});
        break;
    case 4:
        y = ls_flip(s, y, 0);
        break;
    case 5:
        y = ls_concat(s, (ls_tensor *[]){y, leaf(s, rng, LS_SHAPE(rows, 24))}, 2, 1);
        break;
    default:
        break;
    }
    roots[count++] = y;
    switch (way(rng, 10)) {
    case 1:
        roots[count++] = m;
        break;
    case 2:
        roots[count++] = v, roots[count++] = d;
        break;
    case 3:
        roots[count++] = ls_cast(s, m, LS_F16);
        break;
    case 4:
        roots[count++] = ls_mul(s, ls_add(s, d, number(s, 3)), m);
        break;
    case 5:
        roots[count++] = ls_cast(s, m, LS_I32);
        break;
    case 6:
        roots[count++] = ls_sum(s, x, 1, (const int[]){1}, 0);
        break;
    case 7:
        roots[count++] = ls_relu(s, y);
        break;
    case 8:
        roots[count++] = ls_cast(s, d, LS_F64);
        break;
    case 9:
        roots[count++] = ls_exp(s, m);
        break;
    default:
        break;
    }
    return count;
}

/* Each deviation alone, with and without what scales rows. */
static void all_but_norms(void **state) {
    for (int p[3] = {0, 1, 0}; p[0] < ALL; p[0]++) {
        for (p[1] = 1, most = 2; p[1] < most; p[1]++) {
            for (uint64_t seed = 1; seed < 3; seed++) {
                char what[60];
                p[2] = seed % 2;
                snprintf(what, sizeof what, "all but a norm: %d, %d", p[0], p[1]);
                check_case(*state, build_norm, seed, p, what, 1);
            }
        }
    }
}

static void norms_and_the_like(void **state) {
    for (seeds at = seeds_from(4); seeds_next(&at);) {
        ls_rng rng = {at.seed, 0};
        check_case(*state, build_norm, at.seed, NULL, "a norm of rows", at.chosen);
        if (at.seed % 4 == 0) {
            check_fast(*state, ((worlds *)*state)->n - 1, build_norm, rng, NULL, "a norm of rows in fast", at.seed);
        }
    }
}

/* As they are, and with what they take besides as results. */
enum plain { BARE, SCALED_SHIFTED, WITH_RESULTS, SCALED, SHIFTED, ROOT, ROOT_SCALED, PLAIN_WAYS };
static int build_plain(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const int64_t *p = p_; /* rows, their length, a way */
    const int last[] = {1};
    const bool scales = p[2] == SCALED_SHIFTED || p[2] == WITH_RESULTS || p[2] == SCALED || p[2] == ROOT_SCALED;
    const bool shifts = p[2] == SCALED_SHIFTED || p[2] == WITH_RESULTS || p[2] == SHIFTED;
    ls_tensor *x = leaf(s, rng, LS_SHAPE(p[0], p[1])), *g = leaf(s, rng, LS_SHAPE(p[1])), *b = leaf(s, rng, LS_SHAPE(p[1]));
    roots[0] = p[2] < ROOT ? ls_layer_norm(s, x, 1, scales ? g : NULL, shifts ? b : NULL, 1e-5) : ls_rms_norm(s, x, 1, scales ? g : NULL, 1e-5);
    roots[1] = ls_mean(s, x, 1, last, p[2] == SCALED_SHIFTED);
    roots[2] = ls_variance(s, x, 1, last, p[2] == SCALED_SHIFTED, 0);
    return p[2] == WITH_RESULTS ? 3 : 1;
}

/* Of what is computed first: sums of two tensors, of one and a row, products with a number; normalised, or a softmax. */
static int build_prepared(ls_session *s, ls_rng *rng, const void *p_, ls_tensor **roots) {
    const int64_t *p = p_; /* rows, their length, a way */
    const ls_shape shape = LS_SHAPE(p[0], p[1]);
    ls_tensor *x = leaf(s, rng, shape), *g = leaf(s, rng, LS_SHAPE(p[1])), *b = leaf(s, rng, LS_SHAPE(p[1]));
    switch (ls_rng_below(rng, 4)) {
    case 1:
        x = ls_mul(s, x, number(s, 0.125));
        break;
    case 2:
        x = ls_max(s, ls_add(s, x, g), b);
        break;
    default:
        x = ls_add(s, x, leaf(s, rng, shape));
    }
    const bool bare = p[2] % 2;
    roots[0] = p[2] < 2   ? ls_layer_norm(s, x, 1, bare ? NULL : g, bare ? NULL : b, 1e-5)
               : p[2] < 4 ? ls_rms_norm(s, x, 1, bare ? NULL : g, 1e-5)
               : bare     ? ls_log_softmax(s, x, 1)
                          : ls_softmax(s, x, 1);
    roots[1] = x; /* at times a result, too */
    return 1 + (p[2] == 0 && p[0] == 33);
}

static void norms_of_sums(void **state) {
    static const int64_t lengths[] = {64, 100, 256, 384, 1000, 1024, 2500}, rows[] = {33, 9, 41, 70};
    worlds *all = *state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int64_t how = 0; how < 6; how++) {
            for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
                const int64_t p[] = {rows[k], lengths[i], how};
                const uint64_t seed = 6 * i + (uint64_t)how + 100 * k;
                check_case(all, build_prepared, seed, p, "norms of sums", (i + (size_t)how + k) % 6 == 0);
                check_fast(all, (int)(seed % (uint64_t)all->n), build_prepared, (ls_rng){seed, 0}, p, "norms of sums in fast", seed);
            }
        }
    }
    check_case(all, build_prepared, 3, (int64_t[]){4100, 1024, 0}, "large norms of sums", 1);
    check_case(all, build_prepared, 3, (int64_t[]){4100, 1024, 4}, "a large softmax of sums", 0);
}

static void norms_of_lengths(void **state) {
    static const int64_t lengths[] = {64, 255, 256, 257, 320, 384, 1000, 1024, 4096};
    worlds *all = *state;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int64_t how = 0; how < PLAIN_WAYS; how++) {
            const int64_t p[] = {33, lengths[i], how};
            check_case(all, build_plain, 7 * i, p, "norms", how <= WITH_RESULTS);
            check_fast(all, (int)(i % (size_t)all->n), build_plain, (ls_rng){7 * i, 0}, p, "norms in fast", 7 * i);
        }
    }
    for (int64_t how = 0; how < PLAIN_WAYS; how += how == SCALED_SHIFTED ? ROOT_SCALED - how : 1) { /* results that may go past the caches, and rows that are no whole lines */
        check_case(all, build_plain, 1, (int64_t[]){4100, 1024, how}, "large norms", 1);
        check_case(all, build_plain, 2, (int64_t[]){4200, how ? 1001 : 1040, how}, "large norms", 0);
    }
}

/* Of symbols, which are what a mean divides by then: one program, at several values. */
static void norms_of_symbols(void **state) {
    worlds *all = *state;
    static const int64_t values[][2] = {{40, 1024}, {40, 64}, {33, 257}, {9, 1000}, {1, 65}, {40, 1}, {37, 700}};
    for (int c = 0; c < all->n; c++) {
        world *w = &all->cpu[c];
        ls_error err;
        ls_symbol *rows = ls_symbol_create(w->context, "rows", 40, &err), *n = ls_symbol_create(w->context, "n", 1024, &err);
        for (int which = 1; which < 4; which++) { /* which extents are symbols */
            ls_program *p;
            world_ok(w, ls_scope_begin(w->session));
            ls_dim extents[] = {which & 1 ? ls_dim_symbol(rows, 1, 0) : ls_dim_of(40),
                                which & 2 ? ls_dim_symbol(n, 1, 0) : ls_dim_of(1000)};
            ls_shape shape = {.rank = 2, .dim = {extents[0], extents[1]}}, row = {.rank = 1, .dim = {extents[1]}};
            ls_tensor *in[] = {ls_input(w->session, "x", LS_F32, shape), ls_input(w->session, "g", LS_F32, row),
                               ls_input(w->session, "b", LS_F32, row)};
            ls_tensor *y = ls_layer_norm(w->session, in[0], 1, in[1], in[2], 1e-5);
            world_ok(w, ls_program_compile(w->session, in, 3, &y, 1, &p));
            for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
                const int64_t p0 = which & 1 ? values[i][0] : 40, p1 = which & 2 ? values[i][1] : 1000;
                result want = run_case(&all->ref, build_plain, i, (int64_t[]){p0, p1, SCALED_SHIFTED}, "a norm of symbols");
                ls_rng rng = {i, 0};
                float *data[3], *got = malloc((size_t)(p0 * p1) * sizeof *got);
                for (int k = 0; k < 3; k++) {
                    data[k] = draw_rows(&rng, k ? 1 : p0, p1);
                }
                world_ok(w, ls_symbol_bind(w->session, rows, values[i][0]));
                world_ok(w, ls_symbol_bind(w->session, n, values[i][1]));
                world_ok(w, ls_program_run(p, (const void *const *)data, (void *const[]){got}));
                check_bytes(all->names[c], "a norm of symbols", i, which, got, (size_t)(p0 * p1) * sizeof *got, want.data[0],
                            want.bytes[0]);
                for (int k = 0; k < 3; k++) {
                    free(data[k]);
                }
                free(got);
                free_result(&want);
            }
            ls_program_destroy(p);
            ls_scope_end(w->session);
        }
    }
    all->cases++;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_but_norms), cmocka_unit_test(norms_and_the_like),
                                       cmocka_unit_test(norms_of_lengths), cmocka_unit_test(norms_of_sums),
                                       cmocka_unit_test(norms_of_symbols)};
    return cmocka_run_group_tests(tests, worlds_setup, worlds_teardown);
}
