/* Sums of products by labels, determinants, integer powers and remainders, log-sum-exp and activations:
 * against their definitions written as loops, and derivatives against finite differences. */
#include "support/world.h"
#include "base/rng.h"
#include <lockstep/status.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

static ls_tensor *must(world *w, ls_tensor *x) {
    world_ok(w, x ? LS_OK : ls_session_error(w->session)->code);
    assert_non_null(x);
    return x;
}

static int64_t numel(ls_shape shape) {
    int64_t n = 1;
    for (int i = 0; i < shape.rank; i++) {
        n *= shape.dim[i].offset;
    }
    return n;
}

static void assert_close(const char *what, int64_t at, double got, double want, double tolerance) {
    bool same = want != want ? got != got : got == want || fabs(got - want) <= tolerance * (1 + fabs(want));
    if (!same) {
        fail_msg("%s: element %d is %.17g, expected %.17g", what, (int)at, got, want);
    }
}

/* ---- einsum ---- */

typedef struct einsum_case {
    const char *equation;
    int count;
    ls_shape shapes[3];
    const char *terms[3], *result; /* the same with an axis of "..." as digits, and "->" written out */
    ls_shape want;
} einsum_case;

/* Adds the product at one assignment of all labels; extents of 1 stay at 0. */
static void einsum_by_loops(const einsum_case *c, double *const *data, double *out) {
    int64_t extent[128] = {0}, at[128] = {0};
    char labels[32];
    int n = 0;
    for (int i = 0; i < c->count; i++) {
        for (int j = 0; c->terms[i][j]; j++) {
            int label = (unsigned char)c->terms[i][j];
            int64_t d = c->shapes[i].dim[j].offset;
            if (!extent[label]) {
                labels[n++] = (char)label;
            }
            extent[label] = d > extent[label] ? d : extent[label];
        }
    }
    memset(out, 0, sizeof *out * (size_t)numel(c->want));
    for (;;) {
        double product = 1;
        for (int i = 0; i < c->count; i++) {
            int64_t offset = 0;
            for (int j = 0; c->terms[i][j]; j++) {
                int64_t d = c->shapes[i].dim[j].offset;
                offset = offset * d + (d == 1 ? 0 : at[(unsigned char)c->terms[i][j]]);
            }
            product *= data[i][offset];
        }
        int64_t offset = 0;
        for (int j = 0; c->result[j]; j++) {
            offset = offset * extent[(unsigned char)c->result[j]] + at[(unsigned char)c->result[j]];
        }
        out[offset] += product;
        int k = n - 1;
        for (; k >= 0 && ++at[(unsigned char)labels[k]] == extent[(unsigned char)labels[k]]; k--) {
            at[(unsigned char)labels[k]] = 0;
        }
        if (k < 0) {
            return;
        }
    }
}

static void einsum_is_its_definition(void **state) {
    (void)state;
    const einsum_case cases[] = {
        {"ij,jk->ik", 2, {LS_SHAPE(3, 4), LS_SHAPE(4, 5)}, {"ij", "jk"}, "ik", LS_SHAPE(3, 5)},
        {" i j , jk ", 2, {LS_SHAPE(3, 4), LS_SHAPE(4, 5)}, {"ij", "jk"}, "ik", LS_SHAPE(3, 5)},
        {"ba", 1, {LS_SHAPE(3, 4)}, {"ba"}, "ab", LS_SHAPE(4, 3)},
        {"ij->", 1, {LS_SHAPE(3, 4)}, {"ij"}, "", LS_SCALAR},
        {"ii->i", 1, {LS_SHAPE(4, 4)}, {"ii"}, "i", LS_SHAPE(4)},
        {"ii", 1, {LS_SHAPE(4, 4)}, {"ii"}, "", LS_SCALAR},
        {"iji,i->ji", 2, {LS_SHAPE(3, 2, 3), LS_SHAPE(3)}, {"iji", "i"}, "ji", LS_SHAPE(2, 3)},
        {"iii->i", 1, {LS_SHAPE(3, 3, 3)}, {"iii"}, "i", LS_SHAPE(3)},
        {"i,i", 2, {LS_SHAPE(7), LS_SHAPE(7)}, {"i", "i"}, "", LS_SCALAR},
        {"i,j->ji", 2, {LS_SHAPE(3), LS_SHAPE(4)}, {"i", "j"}, "ji", LS_SHAPE(4, 3)},
        {"bij,bjk->bik", 2, {LS_SHAPE(2, 3, 4), LS_SHAPE(2, 4, 5)}, {"bij", "bjk"}, "bik", LS_SHAPE(2, 3, 5)},
        {"bij,bjk->bik", 2, {LS_SHAPE(1, 3, 4), LS_SHAPE(2, 4, 5)}, {"bij", "bjk"}, "bik", LS_SHAPE(2, 3, 5)},
        {"...ij,...jk->...ik",
         2,
         {LS_SHAPE(2, 3, 4), LS_SHAPE(6, 2, 4, 5)},
         {"1ij", "01jk"},
         "01ik",
         LS_SHAPE(6, 2, 3, 5)},
        {"...ij,...jk",
         2,
         {LS_SHAPE(2, 1, 3, 4), LS_SHAPE(3, 4, 5)},
         {"01ij", "1jk"},
         "01ik",
         LS_SHAPE(2, 3, 3, 5)},
        {"...ii->...i", 1, {LS_SHAPE(2, 3, 3)}, {"0ii"}, "0i", LS_SHAPE(2, 3)},
        {"ij,jk,kl->il",
         3,
         {LS_SHAPE(2, 3), LS_SHAPE(3, 4), LS_SHAPE(4, 5)},
         {"ij", "jk", "kl"},
         "il",
         LS_SHAPE(2, 5)},
        {"ij,jk,ik->j",
         3,
         {LS_SHAPE(2, 3), LS_SHAPE(3, 4), LS_SHAPE(2, 4)},
         {"ij", "jk", "ik"},
         "j",
         LS_SHAPE(3)},
        {"bhwij,bhwjk->bhwik",
         2,
         {LS_SHAPE(2, 1, 3, 2, 2), LS_SHAPE(2, 2, 3, 2, 2)},
         {"bhwij", "bhwjk"},
         "bhwik",
         LS_SHAPE(2, 2, 3, 2, 2)},
        {"Ab,bA->bA", 2, {LS_SHAPE(3, 4), LS_SHAPE(4, 3)}, {"Ab", "bA"}, "bA", LS_SHAPE(4, 3)},
        {"bA,A", 2, {LS_SHAPE(4, 3), LS_SHAPE(3)}, {"bA", "A"}, "b", LS_SHAPE(4)},
        {"ij,kl->ki", 2, {LS_SHAPE(3, 4), LS_SHAPE(2, 5)}, {"ij", "kl"}, "ki", LS_SHAPE(2, 3)},
    };
    world w = world_open("cpu");
    ls_session *s = w.session;
    ls_rng rng = {3, 0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const einsum_case *c = &cases[i];
        static double data[3][256], want[512], got[512];
        ls_tensor *xs[3];
        world_ok(&w, ls_scope_begin(s));
        for (int k = 0; k < c->count; k++) {
            for (int j = 0; j < 256; j++) {
                data[k][j] = (double)ls_rng_below(&rng, 9) - 4;
            }
            xs[k] = ls_tensor_from(s, LS_F64, c->shapes[k], data[k]);
        }
        einsum_by_loops(c, (double *[]){data[0], data[1], data[2]}, want);
        ls_tensor *y = must(&w, ls_einsum(s, c->equation, xs, c->count));
        ls_shape shape = ls_tensor_shape(y);
        assert_int_equal(shape.rank, c->want.rank);
        for (int k = 0; k < shape.rank; k++) {
            assert_int_equal(shape.dim[k].offset, c->want.dim[k].offset);
        }
        world_ok(&w, ls_read(s, y, got, sizeof *got * (size_t)numel(shape)));
        for (int64_t k = 0; k < numel(shape); k++) {
            assert_close(c->equation, k, got[k], want[k], 0);
        }
        ls_scope_end(s);
    }
    world_close(&w);
}

static void einsum_names_what_is_wrong(void **state) {
    (void)state;
    static const char *const wrong[] = {"ij,jk->iz", "ij",         "ij,jk,kl", "ij,j->i",  "i.j,jk->ik",
                                        "ij,jk->ii", "ij,jk->i>",  "i1,jk",    "ij,jk-ik", "ij,jk>ik",
                                        "...ijk,jk", "ij,jk->ik,", "..ij,jk"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        world w = world_open("cpu");
        static const double data[12];
        ls_tensor *xs[] = {ls_tensor_from(w.session, LS_F64, LS_SHAPE(3, 4), data),
                           ls_tensor_from(w.session, LS_F64, LS_SHAPE(4, 3), data)};
        if (ls_einsum(w.session, wrong[i], xs, 2)) {
            fail_msg("\"%s\" was taken", wrong[i]);
        }
        const ls_error *err = ls_session_error(w.session);
        assert_int_equal(err->code, LS_ERR_INVALID);
        assert_non_null(strstr(err->message, wrong[i]));
        world_close(&w);
    }
}

/* ---- det ---- */

static double det_by_minors(const double *a, int n, int stride) {
    double minor[25], sum = 0;
    if (n == 0) {
        return 1;
    }
    for (int j = 0; j < n; j++) {
        for (int r = 1; r < n; r++) {
            for (int c = 0, k = 0; c < n; c++) {
                if (c != j) {
                    minor[(r - 1) * (n - 1) + k++] = a[r * stride + c];
                }
            }
        }
        sum += (j % 2 ? -1 : 1) * a[j] * det_by_minors(minor, n - 1, n - 1);
    }
    return sum;
}

static void det_is_its_definition(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_session *s = w.session;
    ls_rng rng = {5, 0};
    for (int n = 0; n <= 5; n++) {
        double data[4 * 25] = {0}, got[4];
        for (int i = 0; i < 4 * n * n; i++) {
            data[i] = (double)ls_rng_below(&rng, 5) - 2; /* zeros: pivots must be looked for */
        }
        for (int i = 0; i < n; i++) {
            data[n * n + i] = 0; /* the second matrix is singular */
        }
        ls_tensor *y = must(&w, ls_det(s, ls_tensor_from(s, LS_F64, LS_SHAPE(2, 2, n, n), data)));
        assert_int_equal(ls_tensor_shape(y).rank, 2);
        world_ok(&w, ls_read(s, y, got, sizeof got));
        for (int i = 0; i < 4; i++) {
            assert_close("det", i, got[i], det_by_minors(data + i * n * n, n, n), 1e-12);
        }
        assert_true(n == 0 || got[1] == 0);
    }
    world_close(&w);
}

/* ---- integers ---- */

static void integer_powers_and_remainders(void **state) {
    (void)state;
    static const int32_t a[] = {0, 1, -1, 2, -2, 3, 7, -7, 46341, INT32_MIN, INT32_MAX, 10};
    static const int64_t e[] = {0, 1, 2, 3, 5, 31, 32, 33, -1, -2, -3, 4294967297};
    static const int32_t b[] = {1, -1, 3, -3, 2, -2, 5, -5, 10, -10, 7, INT32_MIN};
    enum { N = 12 };
    world w = world_open("cpu");
    ls_session *s = w.session;
    int32_t power[N * N], rest[N * N];
    double real[N * N], da[N], db[N];
    for (int i = 0; i < N; i++) {
        da[i] = a[i] * 0.75;
        db[i] = b[i] * 0.5;
    }
    ls_tensor *x = ls_tensor_from(s, LS_I32, LS_SHAPE(N, 1), a);
    ls_tensor *p = must(&w, ls_pow_int(s, x, ls_tensor_from(s, LS_I64, LS_SHAPE(N), e)));
    ls_tensor *m = must(&w, ls_mod(s, x, ls_tensor_from(s, LS_I32, LS_SHAPE(N), b)));
    ls_tensor *f = must(&w, ls_mod(s, ls_tensor_from(s, LS_F64, LS_SHAPE(N, 1), da),
                                   ls_tensor_from(s, LS_F64, LS_SHAPE(N), db)));
    world_ok(&w, ls_read(s, p, power, sizeof power));
    world_ok(&w, ls_read(s, m, rest, sizeof rest));
    world_ok(&w, ls_read(s, f, real, sizeof real));
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            uint32_t want = 1, square = (uint32_t)a[i];
            for (uint64_t k = (uint64_t)e[j]; k; k >>= 1, square *= square) {
                want *= k & 1 ? square : 1;
            }
            if (e[j] < 0 && a[i] != 1 && a[i] != -1) {
                want = 0;
            }
            if (power[i * N + j] != (int32_t)want) {
                fail_msg("%d ^ %lld is %d, expected %d", a[i], (long long)e[j], power[i * N + j],
                         (int32_t)want);
            }
            int64_t r = (int64_t)a[i] % b[j];
            r += r && (r < 0) != (b[j] < 0) ? b[j] : 0;
            assert_int_equal(rest[i * N + j], (int32_t)r);
            double q = fmod(da[i], db[j]);
            q += q != 0 && (q < 0) != (db[j] < 0) ? db[j] : 0;
            assert_close("mod", i * N + j, real[i * N + j], q, 0);
        }
    }
    world_close(&w);
}

/* ---- functions of one number ---- */

static double softplus(double x) {
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}
static double mish(double x) {
    return x * tanh(softplus(x));
}
static double elu(double x) {
    return x > 0 ? x : 1.5 * expm1(x);
}
static double leaky(double x) {
    return x < 0 ? 0.25 * x : x;
}
static ls_tensor *make_elu(ls_session *s, ls_tensor *x) {
    return ls_elu(s, x, 1.5);
}
static ls_tensor *make_leaky(ls_session *s, ls_tensor *x) {
    return ls_leaky_relu(s, x, 0.25);
}

static const struct function {
    const char *name;
    ls_tensor *(*make)(ls_session *s, ls_tensor *x);
    double (*want)(double x);
    double low, high; /* where it is defined */
} functions[] = {
    {"softplus", ls_softplus, softplus, -HUGE_VAL, HUGE_VAL},
    {"mish", ls_mish, mish, -1e300, HUGE_VAL},
    {"elu", make_elu, elu, -HUGE_VAL, HUGE_VAL},
    {"leaky_relu", make_leaky, leaky, -HUGE_VAL, HUGE_VAL},
    {"asinh", ls_asinh, asinh, -HUGE_VAL, HUGE_VAL},
    {"acosh", ls_acosh, acosh, 1, HUGE_VAL},
    {"atanh", ls_atanh, atanh, -1, 1},
};

static const double points[] = {0,    1e-30, 1e-8, 1e-3, 0.3, 0.7, 0.999, 1,    1.0001, 1.5,     3,
                                20.5, 29.5,  35.5, 60,   500, 1e5, 1e12,  3e19, 1e30,   HUGE_VAL};
enum { POINTS = sizeof points / sizeof *points };

static void functions_are_their_definitions(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_session *s = w.session;
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        double x[2 * POINTS], got[2 * POINTS], slope[2 * POINTS];
        float narrow[2 * POINTS], single[2 * POINTS];
        int64_t n = 0;
        for (int i = 0; i < 2 * POINTS; i++) {
            double v = i % 2 ? -points[i / 2] : points[i / 2];
            if (v >= functions[f].low && v <= functions[f].high) {
                narrow[n] = (float)v;
                x[n++] = v;
            }
        }
        world_ok(&w, ls_scope_begin(s));
        ls_tensor *in = ls_tensor_from(s, LS_F64, LS_SHAPE(n), x), *grad;
        ls_tensor *y = must(&w, functions[f].make(s, in));
        ls_tensor *z = must(&w, functions[f].make(s, ls_tensor_from(s, LS_F32, LS_SHAPE(n), narrow)));
        world_ok(&w, ls_grad(s, y, NULL, 1, &in, &grad));
        world_ok(&w, ls_read(s, y, got, sizeof *got * (size_t)n));
        world_ok(&w, ls_read(s, z, single, sizeof *single * (size_t)n));
        world_ok(&w, ls_read(s, grad, slope, sizeof *slope * (size_t)n));
        for (int64_t i = 0; i < n; i++) {
            double want = functions[f].want(x[i]), h = 1e-6 * (fabs(x[i]) > 1 ? fabs(x[i]) : 1);
            assert_close(functions[f].name, i, got[i], want, 1e-14);
            assert_close(functions[f].name, i, (double)single[i], functions[f].want((double)narrow[i]), 3e-7);
            double room = 500 * h; /* differences are good only away from an edge */
            bool inside =
                x[i] - room > functions[f].low && x[i] + room < functions[f].high && fabs(x[i]) < 1e200;
            if (inside &&
                (fabs(x[i]) > 2 * h || f > 3 || f < 2)) { /* elu and leaky_relu have a corner at 0 */
                double want_slope = (functions[f].want(x[i] + h) - functions[f].want(x[i] - h)) / (2 * h);
                assert_close(functions[f].name, i, slope[i], want_slope, 1e-6);
            }
        }
        ls_scope_end(s);
    }
    world_close(&w);
}

/* ---- log-sum-exp, and derivatives of what sums ---- */

static void logsumexp_of_extremes(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_session *s = w.session;
    const float inf = HUGE_VALF, x[5][2] = {{1, 2}, {1000, 1001}, {-inf, -inf}, {inf, 3}, {-1000, -inf}};
    float got[5], none[3];
    int axis = 1;
    ls_tensor *y = must(&w, ls_logsumexp(s, ls_tensor_from(s, LS_F32, LS_SHAPE(5, 2), x), 1, &axis, 0));
    ls_tensor *z = must(&w, ls_logsumexp(s, ls_tensor_from(s, LS_F32, LS_SHAPE(3, 0), x), 1, &axis, 1));
    world_ok(&w, ls_read(s, y, got, sizeof got));
    world_ok(&w, ls_read(s, z, none, sizeof none));
    const double want[] = {2 + log1p(exp(-1)), 1001 + log1p(exp(-1)), -HUGE_VAL, HUGE_VAL, -1000};
    for (int i = 0; i < 5; i++) {
        assert_close("logsumexp", i, (double)got[i], want[i], 1e-7);
        assert_true(i > 2 || none[i] == -inf);
    }
    world_close(&w);
}

static ls_tensor *of_det(ls_session *s, ls_tensor *x) {
    return ls_det(s, x);
}
static ls_tensor *of_einsum(ls_session *s, ls_tensor *x) {
    ls_tensor *xs[] = {x, x, x};
    return ls_einsum(s, "bij,bkj,bkk->bi", xs, 3);
}
static ls_tensor *of_logsumexp(ls_session *s, ls_tensor *x) {
    return ls_logsumexp(s, x, 2, (int[]){2, 0}, 0);
}

static void derivatives_match_differences(void **state) {
    (void)state;
    static const struct {
        const char *name;
        ls_tensor *(*make)(ls_session *s, ls_tensor *x);
    } models[] = {{"det", of_det}, {"einsum", of_einsum}, {"logsumexp", of_logsumexp}};
    enum { N = 2 * 3 * 3 };
    world w = world_open("ref");
    ls_session *s = w.session;
    ls_rng rng = {9, 0};
    double x[N], grad[N], value[2];
    for (int i = 0; i < N; i++) {
        x[i] = ls_rng_normal(&rng);
    }
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        ls_tensor *in = ls_tensor_from(s, LS_F64, LS_SHAPE(2, 3, 3), x), *g;
        world_ok(&w, ls_grad(s, must(&w, models[m].make(s, in)), NULL, 1, &in, &g));
        world_ok(&w, ls_read(s, g, grad, sizeof grad));
        for (int i = 0; i < N; i++) {
            double old = x[i], h = 1e-6;
            for (int side = 0; side < 2; side++) {
                x[i] = old + (side ? h : -h);
                ls_tensor *y = must(&w, models[m].make(s, ls_tensor_from(s, LS_F64, LS_SHAPE(2, 3, 3), x)));
                world_ok(&w, ls_read(s, ls_sum(s, y, 0, NULL, 0), &value[side], sizeof value[side]));
            }
            x[i] = old;
            assert_close(models[m].name, i, grad[i], (value[1] - value[0]) / (2 * h), 1e-7);
        }
    }
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(einsum_is_its_definition),        cmocka_unit_test(einsum_names_what_is_wrong),
        cmocka_unit_test(det_is_its_definition),           cmocka_unit_test(integer_powers_and_remainders),
        cmocka_unit_test(functions_are_their_definitions), cmocka_unit_test(logsumexp_of_extremes),
        cmocka_unit_test(derivatives_match_differences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
