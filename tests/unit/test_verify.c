/* Comparison by bits and by bound, verified runs, and the shadow check of every kernel. */
#define _GNU_SOURCE
#include "support/world.h"
#include "engine/session.h"
#include "spec/mutate.h"
#include <lockstep/optim.h>
#include <stdlib.h>
#include <string.h>

static ls_context *context;

static int setup(void **state) {
    (void)state;
    return ls_context_create(NULL, &context, NULL) == LS_OK ? 0 : -1;
}
static int teardown(void **state) {
    (void)state;
    ls_context_destroy(context);
    return 0;
}

static ls_data *data_of(ls_dtype dtype, int rank, const int64_t *dims, const void *bytes) {
    ls_data *x = NULL;
    assert_int_equal(ls_data_create(context, dtype, rank, dims, bytes, &x, NULL), LS_OK);
    return x;
}

/* ---- by bits ---- */

static void test_compare_bits(void **state) {
    (void)state;
    const int64_t dims[] = {2, 3};
    const uint32_t nan_a[6] = {0x3f800000, 0x7fc00000, 0, 0x80000000, 1, 0x7f800000};
    uint32_t b[6] = {0x3f800000, 0xff812345, 0, 0x80000000, 1, 0x7f800000};
    ls_data *x = data_of(LS_F32, 2, dims, nan_a), *y = data_of(LS_F32, 2, dims, b);
    ls_report r;
    assert_int_equal(ls_compare(x, y, &r), LS_SAME); /* NaNs are canonical */
    assert_int_equal(r.elements, 6);
    assert_int_equal(r.different, 0);
    assert_string_equal(r.message, "");
    ls_data_release(y);
    b[2] = 0x80000000; /* -0 is not +0 */
    b[4] = 0x3dcccccd;
    y = data_of(LS_F32, 2, dims, b);
    assert_int_equal(ls_compare(x, y, &r), LS_DIFFERS);
    assert_int_equal(r.different, 2);
    assert_int_equal(r.first_index[0], 0);
    assert_int_equal(r.first_index[1], 2);
    assert_string_equal(r.message, "2 of 6 elements differ, first at [0,2]: expected 0.0, got -0.0");
    int left = 0;
    LS_ASSERT_SAME(x, y, &r, left++);
    LS_ASSERT_SAME(x, x, &r, left++);
    assert_int_equal(left, 1);
    ls_data_release(x);
    ls_data_release(y);
}

/* Texts read back as the same value. */
static void test_compare_texts(void **state) {
    (void)state;
    const int64_t one[] = {1};
    static const uint64_t u[2] = {UINT64_MAX, UINT64_MAX - 1};
    static const int8_t i[2] = {-128, 127};
    static const int64_t l[2] = {INT64_MIN, INT64_MAX};
    static const uint16_t h[2] = {0x3555, 0x7c00};
    static const double d[2] = {0.1, 4.9406564584124654e-324};
    const struct {
        ls_dtype dtype;
        const void *a, *b;
        const char *expected, *actual;
    } cases[] = {
        {LS_U64, &u[0], &u[1], "18446744073709551615", "18446744073709551614"},
        {LS_I8, &i[0], &i[1], "-128", "127"},
        {LS_I64, &l[0], &l[1], "-9223372036854775808", "9223372036854775807"},
        {LS_F16, &h[0], &h[1], NULL, "inf"},
        {LS_F64, &d[0], &d[1], "0.1", NULL},
        {LS_BOOL, "\1", "\0", "1", "0"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ls_data *x = data_of(cases[k].dtype, 1, one, cases[k].a),
                *y = data_of(cases[k].dtype, 1, one, cases[k].b);
        ls_report r;
        assert_int_equal(ls_compare(x, y, &r), LS_DIFFERS);
        assert_string_equal(r.first_expected, cases[k].expected ? cases[k].expected : r.first_expected);
        assert_string_equal(r.first_actual, cases[k].actual ? cases[k].actual : r.first_actual);
        if (cases[k].dtype == LS_F64) {
            assert_true(strtod(r.first_actual, NULL) == d[1]);
        }
        if (cases[k].dtype == LS_F16) {
            assert_true(strtod(r.first_expected, NULL) == 0.333251953125);
        }
        ls_data_release(x);
        ls_data_release(y);
    }
}

static void test_compare_shapes(void **state) {
    (void)state;
    ls_data *a = data_of(LS_F32, 2, (const int64_t[]){2, 3}, NULL),
            *b = data_of(LS_F32, 2, (const int64_t[]){3, 2}, NULL);
    ls_data *c = data_of(LS_F64, 2, (const int64_t[]){2, 3}, NULL), *d = data_of(LS_F32, 0, NULL, NULL);
    ls_data *e = data_of(LS_F32, 2, (const int64_t[]){0, 3}, NULL);
    ls_report r;
    assert_int_equal(ls_compare(a, b, &r), LS_DIFFERS);
    assert_string_equal(r.message, "expected f32[2,3], got f32[3,2]");
    assert_int_equal(ls_compare(a, c, &r), LS_DIFFERS);
    assert_string_equal(r.message, "expected f32[2,3], got f64[2,3]");
    assert_int_equal(ls_compare(d, a, &r), LS_DIFFERS);
    assert_int_equal(ls_compare(e, e, &r), LS_SAME);
    assert_int_equal(r.elements, 0);
    assert_int_equal(ls_compare(d, d, &r), LS_SAME);
    assert_int_equal(r.elements, 1);
    ls_data_release(a);
    ls_data_release(b);
    ls_data_release(c);
    ls_data_release(d);
    ls_data_release(e);
}

/* ---- by bound ---- */

/* A value exactly at the bound passes, the next one outside does not, on both sides. */
static void test_bound_edges(void **state) {
    (void)state;
    const int64_t dims[] = {4};
    const double middle[4] = {1, 1, -2, 3}, radius[4] = {0x1p-20, 0x1p-20, 0x1p-20, 0x1p-20};
    for (int planted = 0; planted < 4; planted++) {
        for (int side = -1; side <= 1; side += 2) {
            float x[4] = {1, 1, -2, 3};
            ls_report r;
            x[planted] = (float)(middle[planted] + side * 0x1p-20);
            ls_data *inside = data_of(LS_F32, 1, dims, x);
            assert_int_equal(ls_compare_bound(inside, middle, radius, &r), LS_WITHIN_BOUND);
            assert_true(r.worst_of_bound == 1);
            assert_int_equal(r.blind, 0);
            assert_int_equal(r.different, 1);
            ls_data_release(inside);
            uint32_t bits;
            memcpy(&bits, &x[planted], 4);
            bits += (x[planted] > 0) == (side > 0) ? 1u : -1u; /* the next float outwards */
            memcpy(&x[planted], &bits, 4);
            ls_data *outside = data_of(LS_F32, 1, dims, x);
            assert_int_equal(ls_compare_bound(outside, middle, radius, &r), LS_DIFFERS);
            assert_int_equal(r.outside, 1);
            assert_true(r.worst_of_bound > 1 && r.worst_of_bound < 1.5);
            assert_int_equal(r.first_index[0], planted);
            assert_non_null(strstr(r.message, "1 of 4 elements lie outside their bound, first at ["));
            ls_data_release(outside);
        }
    }
}

static void test_bound_specials(void **state) {
    (void)state;
    const double inf = __builtin_inf(), nan = __builtin_nan("");
    const struct {
        float actual;
        double middle, radius;
        ls_verdict verdict;
        int blind;
    } cases[] = {
        {__builtin_nanf(""), nan, 0, LS_WITHIN_BOUND, 0},
        {__builtin_nanf(""), 1, 1e-4, LS_DIFFERS, 0},
        {1, nan, 1e-3, LS_DIFFERS, 0},
        {__builtin_inff(), inf, 0, LS_WITHIN_BOUND, 0},
        {-__builtin_inff(), inf, 0, LS_DIFFERS, 0},
        {3e38f, inf, 0, LS_DIFFERS, 0},
        {7, 1, inf, LS_WITHIN_BOUND, 1},
        {1.5f, 1, 1, LS_WITHIN_BOUND, 1},
        {3, 1, 1, LS_DIFFERS, 1},
        {1, 1, 0.9 / 1024, LS_WITHIN_BOUND, 0},
        {1, 1, 1.1 / 1024, LS_WITHIN_BOUND, 1},
        {0, 0, 0, LS_WITHIN_BOUND, 0},
        {1, 1, 0, LS_WITHIN_BOUND, 0},
        {1.0000001f, 1, 0, LS_DIFFERS, 0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ls_data *x = data_of(LS_F32, 0, NULL, &cases[k].actual);
        ls_report r;
        ls_verdict got = ls_compare_bound(x, &cases[k].middle, &cases[k].radius, &r);
        bool infinite = r.worst_of_bound == inf, last = r.bins[LS_BINS - 1] != 0;
        if (got != cases[k].verdict || r.blind != cases[k].blind || infinite != last || (got == LS_DIFFERS) != (r.worst_of_bound > 1)) {
            fail_msg("case %zu: verdict %d, blind %lld: %s", k, got, (long long)r.blind, r.message);
        }
        ls_data_release(x);
    }
}

/* The share that a bound cannot judge is counted, and never hides a wrong element elsewhere. */
static void test_blind_count(void **state) {
    (void)state;
    enum { N = 100 };
    float x[N];
    double middle[N], radius[N];
    for (int i = 0; i < N; i++) {
        middle[i] = x[i] = (float)(i % 2 ? 1 : -1);
        radius[i] = i < 30 ? 0.5 : 1e-6;
    }
    x[3] = 1.25f; /* blind, inside */
    ls_data *data = data_of(LS_F32, 1, (const int64_t[]){N}, x);
    ls_report r;
    assert_int_equal(ls_compare_bound(data, middle, radius, &r), LS_WITHIN_BOUND);
    assert_int_equal(r.blind, 30);
    assert_int_equal(r.different, 1);
    assert_true(r.worst_of_bound == 0); /* of those that are not blind */
    ls_data_release(data);
    x[60] = -1.00001f;
    data = data_of(LS_F32, 1, (const int64_t[]){N}, x);
    assert_int_equal(ls_compare_bound(data, middle, radius, &r), LS_DIFFERS);
    assert_int_equal(r.first_index[0], 60);
    assert_true(r.worst_of_bound > 9 && r.worst_of_bound < 11);
    ls_data_release(data);
}

/* ---- verified runs ---- */

/* Two dense layers; out[0] the logits, out[1] a sum over them. */
static void net(ls_session *s, ls_tensor **out) {
    float x[5 * 12], w1[9 * 12], w2[4 * 9];
    for (int i = 0; i < 108; i++) {
        x[i % 60] = (float)(i * 13 % 29 - 14) / 8;
        w1[i] = (float)(i * 7 % 31 - 15) / 16;
        w2[i % 36] = (float)(i * 5 % 23 - 11) / 8;
    }
    ls_tensor *h = ls_relu(s, ls_linear(s, ls_tensor_from(s, LS_F32, LS_SHAPE(5, 12), x),
                                        ls_tensor_from(s, LS_F32, LS_SHAPE(9, 12), w1), NULL));
    out[0] = ls_softmax(s, ls_linear(s, h, ls_tensor_from(s, LS_F32, LS_SHAPE(4, 9), w2), NULL), 1);
    out[1] = ls_sum(s, ls_mul(s, out[0], out[0]), 0, NULL, 0);
}

typedef struct plant {
    ls_mutator mutator;
    int hit; /* kernels */
} plant;

/* The first site of a mutator, in the first kernel that has one. */
static ls_status plant_once(void *user, ls_arena *arena, const ls_spec *spec, ls_spec *out_spec,
                            ls_error *err) {
    plant *p = user;
    for (int site = 0; p->hit == 0 && site < ls_mutator_sites(spec, p->mutator); site++) {
        if (ls_mutator_variants(spec, p->mutator, site) > 0) {
            p->hit++;
            return ls_spec_mutate(arena, spec, &(ls_mutation){p->mutator, site, 0}, out_spec, err);
        }
    }
    *out_spec = *spec;
    return LS_OK;
}

static void test_verify_right(void **state) {
    (void)state;
    static const char *const devices[] = {"cpu", "ref"};
    for (int i = 0; i < 4; i++) {
        world w = world_open(devices[i % 2]);
        ls_session_set_fusion(w.session, i < 2);
        ls_tensor *out[2];
        ls_verification *v = NULL;
        net(w.session, out);
        world_ok(&w, ls_verify(w.session, out, 2, &v));
        assert_int_equal(v->verdict, i % 2 ? LS_WITHIN_BOUND : LS_SAME); /* ref is not compared with itself */
        assert_true(v->n_kernels >= 3);
        assert_int_equal(v->first_divergence, -1);
        assert_true(v->worst_of_bound > 0 && v->worst_of_bound <= 1 &&
                    v->end_to_end.verdict == LS_WITHIN_BOUND);
        for (int k = 0; k < v->n_kernels; k++) {
            assert_int_equal(v->kernels[k].ref_done, i % 2 == 0);
            assert_true(v->kernels[k].kernel[0] && v->kernels[k].node[0]);
        }
        ls_verification_free(w.session, v);
        world_close(&w);
    }
}

static const ls_mutator planted[] = {LS_MUTATE_STORE_ZERO, LS_MUTATE_OPCODE, LS_MUTATE_LOAD_SHIFT,
                                     LS_MUTATE_BOUND_SHORT};

static void test_verify_wrong(void **state) {
    (void)state;
    for (size_t k = 0; k < sizeof planted / sizeof *planted; k++) {
        world w = world_open("cpu");
        plant p = {planted[k], 0};
        const ls_spec_fault fault = {w.device, plant_once, &p};
        ls_engine_set_fault(w.context, &fault);
        ls_tensor *out[2];
        ls_verification *v = NULL;
        net(w.session, out);
        world_ok(&w, ls_verify(w.session, out, 2, &v));
        assert_int_equal(p.hit, 1);
        assert_int_equal(v->verdict, LS_DIFFERS);
        assert_true(v->first_divergence >= 0);
        int wrong = 0;
        for (int i = 0; i < v->n_kernels;
             i++) { /* each kernel is judged on its own inputs: only the planted one is wrong */
            wrong += v->kernels[i].ref.verdict == LS_DIFFERS;
        }
        assert_int_equal(wrong, 1);
        const ls_kernel_report *r = &v->kernels[v->first_divergence];
        assert_int_equal(r->ref.verdict, LS_DIFFERS);
        assert_non_null(strstr(r->ref.message, "elements differ, first at ["));
        ls_engine_set_fault(w.context, NULL);
        ls_verification_free(w.session, v);
        world_close(&w);
    }
}

/* Ten steps of training; the hash of the weights and the state. */
static ls_status train(world *w, char hex[65]) {
    ls_session *s = w->session;
    ls_params *params = NULL;
    ls_optimizer *optimizer = NULL;
    ls_program *program = NULL;
    ls_error err = {.code = LS_OK};
    world_ok(w, ls_params_create(s, 4, &params));
    ls_tensor *x = ls_input(s, "x", LS_F32, LS_SHAPE(6, 5)), *y = ls_input(s, "y", LS_I32, LS_SHAPE(6)),
              *in[2] = {x, y};
    ls_tensor *h = ls_relu(s, ls_nn_linear(s, params, "a", x, 8)),
              *loss = ls_cross_entropy(s, ls_nn_linear(s, params, "b", h, 3), y);
    world_ok(w, ls_optimizer_create(s, params, &(ls_optimizer_options){.kind = LS_OPTIM_ADAM}, &optimizer));
    world_ok(w, ls_optimizer_step(s, optimizer, loss, ls_full(s, LS_F32, LS_SCALAR, 0.05)));
    ls_status status = ls_program_compile(s, in, 2, &loss, 1, &program);
    for (int t = 0; t < 10 && status == LS_OK; t++) {
        float images[30];
        int32_t labels[6];
        for (int i = 0; i < 30; i++) {
            images[i] = (float)((i * 11 + t * 7) % 17 - 8) / 8;
            labels[i / 5] = (i / 5 + t) % 3;
        }
        const void *data[2] = {images, labels};
        status = ls_program_run(program, data, (void *[]){NULL});
    }
    if (status == LS_OK) {
        assert_int_equal(ls_params_sha256(s, params, hex, &err), LS_OK);
    }
    ls_program_destroy(program);
    ls_optimizer_destroy(optimizer);
    ls_params_destroy(params);
    return status;
}

static void test_check_changes_nothing(void **state) {
    (void)state;
    static const char *const levels[] = {NULL, "bits", "oracle"};
    char hex[6][65];
    for (int i = 0; i < 6; i++) {
        if (levels[i % 3]) {
            setenv("LOCKSTEP_CHECK", levels[i % 3], 1);
        }
        world w = world_open_with("cpu", 1 + i / 3, NULL);
        unsetenv("LOCKSTEP_CHECK");
        world_ok(&w, train(&w, hex[i]));
        world_close(&w);
        assert_string_equal(hex[i], hex[0]);
    }
}

static void test_check_is_one_of_three(void **state) {
    (void)state;
    ls_context *context;
    ls_error err = {.code = LS_OK};
    setenv("LOCKSTEP_CHECK", "BITS", 1);
    assert_int_equal(ls_context_create(NULL, &context, &err), LS_ERR_INVALID);
    assert_null(context);
    assert_string_equal(err.message, "LOCKSTEP_CHECK is \"BITS\", expected bits, oracle or none");
    setenv("LOCKSTEP_CHECK", "none", 1);
    assert_int_equal(ls_context_create(NULL, &context, NULL), LS_OK);
    ls_context_destroy(context);
    unsetenv("LOCKSTEP_CHECK");
}

static void test_check_finds(void **state) {
    (void)state;
    static const ls_check levels[] = {LS_CHECK_NONE, LS_CHECK_BITS, LS_CHECK_ORACLE};
    char right[65], hex[65];
    world clean = world_open("cpu");
    world_ok(&clean, train(&clean, right));
    world_close(&clean);
    for (size_t k = 0; k < sizeof planted / sizeof *planted; k++) {
        for (int i = 0; i < 3; i++) {
            world w = world_open("cpu");
            plant p = {planted[k], 0};
            const ls_spec_fault fault = {w.device, plant_once, &p};
            ls_context_set_check(w.context, levels[i]);
            ls_engine_set_fault(w.context, &fault);
            ls_status status = train(&w, hex);
            const char *message = ls_session_error(w.session)->message;
            assert_int_equal(p.hit, 1);
            if (i == 0) {
                world_ok(&w, status);
                assert_string_not_equal(hex, right); /* wrong, and nobody says so */
            } else if (status != LS_ERR_DIFFERS || !strstr(message, "cpu: kernel ") ||
                       !strstr(message, ", node ") || !strstr(message, "first at [")) {
                fail_msg("%s: \"%s\"", ls_status_name(status), message);
            }
            ls_engine_set_fault(w.context, NULL);
            world_close(&w);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compare_bits),          cmocka_unit_test(test_compare_texts),
        cmocka_unit_test(test_compare_shapes),        cmocka_unit_test(test_bound_edges),
        cmocka_unit_test(test_bound_specials),        cmocka_unit_test(test_blind_count),
        cmocka_unit_test(test_verify_right),          cmocka_unit_test(test_verify_wrong),
        cmocka_unit_test(test_check_changes_nothing), cmocka_unit_test(test_check_finds),
        cmocka_unit_test(test_check_is_one_of_three),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
