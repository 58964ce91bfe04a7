/* What a verified run says of each kernel: whose results it reads, what its operations are called, how far off its elements are. */
#include "support/world.h"
#include "engine/session.h"
#include <lockstep/check.h>
#include <string.h>

static const ls_kernel_report *kernel_named(const ls_verification *v, const char *origin) {
    for (int i = 0; i < v->n_kernels; i++) {
        for (int j = 0; j < v->kernels[i].n_origins; j++) {
            if (strcmp(v->kernels[i].origins[j], origin) == 0) {
                return &v->kernels[i];
            }
        }
    }
    fail_msg("no kernel is called %s", origin);
    return NULL;
}

static int read_named(const ls_kernel_report *k, const char *name) {
    int found = 0;
    for (int i = 0; i < k->n_reads; i++) {
        found += strcmp(k->reads[i].name, name) == 0 && k->reads[i].kernel < 0;
    }
    return found;
}

static bool reads_kernel(const ls_verification *v, const ls_kernel_report *k, const ls_kernel_report *from) {
    for (int i = 0; i < k->n_reads; i++) {
        if (k->reads[i].kernel == (int)(from - v->kernels)) {
            return true;
        }
    }
    return false;
}

/* sum over rows of (x w + b), and its softmax; each step has a name. */
static ls_status build(void *user, ls_session *s, ls_tensor **out) {
    float *x = user, w[12] = {1, 2, -1, 0.5f, 3, 0.25f, 1, 1, 2, -2, 0.125f, 1}, b[4] = {0.1f, 0.2f, 0.3f, 0.4f};
    const char *before = ls_session_set_origin(s, "x");
    assert_null(before);
    ls_tensor *input = ls_tensor_from(s, LS_F32, LS_SHAPE(2, 3), x);
    assert_string_equal(ls_session_set_origin(s, "w"), "x");
    ls_tensor *weights = ls_tensor_from(s, LS_F32, LS_SHAPE(3, 4), w);
    (void)ls_session_set_origin(s, "b");
    ls_tensor *bias = ls_tensor_from(s, LS_F32, LS_SHAPE(4), b);
    (void)ls_session_set_origin(s, "product");
    ls_tensor *y = ls_matmul(s, input, weights);
    (void)ls_session_set_origin(s, "shifted");
    y = ls_add(s, y, bias);
    (void)ls_session_set_origin(s, "shares");
    out[0] = ls_softmax(s, y, 1);
    (void)ls_session_set_origin(s, NULL);
    return LS_OK;
}

static void test_names_and_reads(void **state) {
    (void)state;
    static const char *const devices[] = {"cpu", "ref"};
    float x[6] = {1, 2, 3, 4, 5, 6};
    for (int i = 0; i < 2; i++) {
        world w = world_open(devices[i]);
        ls_verification *v = NULL;
        world_ok(&w, ls_verify_built(w.session, build, x, 1, &v));
        const ls_kernel_report *product = kernel_named(v, "product"), *shares = kernel_named(v, "shares");
        assert_true(product != shares && v->n_kernels == 2);
        assert_int_equal(read_named(product, "x"), 1);
        assert_int_equal(read_named(product, "w"), 1);
        assert_string_equal(product->type, "f32[2,4]");
        assert_true(reads_kernel(v, shares, product) && !reads_kernel(v, product, shares));
        assert_string_equal(product->operations, "contract");
        assert_ptr_equal(kernel_named(v, "shifted"), shares); /* fused: the root's name first */
        assert_string_equal(shares->origins[0], "shares");
        assert_int_equal(read_named(shares, "b"), 1);
        assert_non_null(strstr(shares->operations, "exp"));
        assert_int_equal(v->n_outputs, 1);
        assert_int_equal(v->outputs[0].kernel, (int)(shares - v->kernels));
        int64_t all = 0;
        for (int b = 0; b < LS_BINS; b++) {
            all += product->oracle.bins[b];
            assert_true(b <= LS_BIN_BOUND || product->oracle.bins[b] == 0);
        }
        assert_int_equal(all, product->oracle.elements - product->oracle.blind);
        assert_int_equal(product->ref.bins[0], i == 0 ? 8 : 0);
        ls_verification_free(w.session, v);
        world_close(&w);
    }
}

/* Rewriting keeps names, and a build that computes is verified as well. */
static ls_status build_twice(void *user, ls_session *s, ls_tensor **out) {
    float x[4] = {1, 2, 3, 4}, first[4];
    (void)user;
    (void)ls_session_set_origin(s, "early");
    ls_tensor *t = ls_exp(s, ls_mul(s, ls_neg(s, ls_neg(s, ls_tensor_from(s, LS_F32, LS_SHAPE(4), x))), ls_full(s, LS_F32, LS_SCALAR, 0.5)));
    assert_int_equal(ls_read(s, t, first, sizeof first), LS_OK);
    (void)ls_session_set_origin(s, "late");
    out[0] = ls_sum(s, ls_mul(s, t, t), 0, NULL, 0);
    return LS_OK;
}

static void test_built(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_verification *v = NULL;
    world_ok(&w, ls_verify_built(w.session, build_twice, NULL, 1, &v));
    const ls_kernel_report *early = kernel_named(v, "early"), *late = kernel_named(v, "late");
    assert_true(early != late && reads_kernel(v, late, early));
    assert_int_equal(v->verdict, LS_SAME);
    ls_verification_free(w.session, v);
    world_close(&w);
}

static ls_status build_nothing(void *user, ls_session *s, ls_tensor **out) {
    (void)user;
    out[0] = ls_matmul(s, ls_full(s, LS_F32, LS_SHAPE(2, 3), 1), ls_full(s, LS_F32, LS_SHAPE(2, 3), 1));
    return out[0] ? LS_OK : ls_session_error(s)->code;
}

static void test_build_fails(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_verification *v = NULL;
    assert_int_equal(ls_verify_built(w.session, build_nothing, NULL, 1, &v), LS_ERR_SHAPE);
    assert_null(v);
    assert_int_equal(ls_session_error(w.session)->code, LS_ERR_SHAPE);
    world_close(&w);
}

/* The body of a loop is launched many times and told once; it reads what it wrote itself. */
static ls_status twice(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry, ls_tensor *const *xs, ls_tensor **out_carry,
                       ls_tensor **out_ys) {
    (void)ctx, (void)iteration, (void)xs, (void)out_ys;
    out_carry[0] = ls_mul(s, carry[0], ls_full(s, LS_F32, LS_SHAPE(3), 1.5));
    return LS_OK;
}

static void test_loops(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_verification *v = NULL;
    float x[3] = {1, 2, 3};
    ls_tensor *carry = ls_tensor_from(w.session, LS_F32, LS_SHAPE(3), x), *y;
    (void)ls_session_set_origin(w.session, "body");
    world_ok(&w, ls_loop(w.session, ls_dim_of(7), 1, &carry, 0, NULL, 0, twice, NULL, &y, NULL));
    (void)ls_session_set_origin(w.session, "after");
    y = ls_exp(w.session, y);
    world_ok(&w, ls_verify(w.session, &y, 1, &v));
    const ls_kernel_report *body = kernel_named(v, "body"), *after = kernel_named(v, "after");
    assert_int_equal(body->launches, 7);
    assert_int_equal(body->oracle.elements, 21);
    assert_int_equal(after->launches, 1);
    assert_true(reads_kernel(v, after, body));
    ls_verification_free(w.session, v);
    world_close(&w);
}

/* An ordinary run under check names it too. */
static void test_check_names(void **state) {
    (void)state;
    float x[6] = {1, 2, 3, 4, 5, 6};
    world w = world_open("cpu");
    ls_tensor *y = NULL;
    ls_context_set_check(w.context, LS_CHECK_BITS);
    assert_int_equal(ls_device_plant(w.device, "short-depth", NULL), LS_OK);
    assert_int_equal(build(x, w.session, &y), LS_OK);
    assert_int_equal(ls_realize(w.session, &y, 1), LS_ERR_DIFFERS);
    assert_non_null(strstr(ls_session_error(w.session)->message, " of \"product\", against ref: "));
    world_close(&w);
}

static ls_status build_loop(void *user, ls_session *s, ls_tensor **out) {
    static const float x[3] = {1, 2, 3};
    (void)user;
    (void)ls_session_set_origin(s, "loop");
    ls_tensor *carry = ls_tensor_from(s, LS_F32, LS_SHAPE(3), x), *y = NULL;
    ls_status status = ls_loop(s, ls_dim_of(2), 1, &carry, 0, NULL, 0, twice, NULL, &y, NULL);
    (void)ls_session_set_origin(s, "after");
    out[0] = status == LS_OK ? ls_sum(s, ls_exp(s, y), 0, NULL, 0) : NULL;
    return out[0] ? LS_OK : ls_session_error(s)->code;
}

/* Every allocation fails once: an error, nothing kept, and the next verification is whole. */
static void test_out_of_memory(void **state) {
    (void)state;
    world w = world_open("cpu");
    size_t before, after, peak;
    bool more = true;
    int failed = 0;
    for (long n = -1; more; n++) { /* first without a failure: what a device keeps is there then */
        ls_session *s = NULL;
        ls_verification *v = NULL;
        ls_context_memory(w.context, &before, &peak);
        assert_int_equal(ls_session_create(w.context, w.device, &s, NULL), LS_OK);
        atomic_store(&w.context->heap.fail_after, n);
        ls_status status = ls_verify_built(s, build_loop, NULL, 1, &v);
        more = n < 0 || atomic_load(&w.context->heap.fail_after) < 0;
        atomic_store(&w.context->heap.fail_after, -1);
        failed += status == LS_ERR_MEMORY;
        assert_true(status == LS_OK ? v != NULL : v == NULL && ls_session_error(s)->code == status);
        if (v) {
            assert_int_equal(v->verdict, LS_SAME);
            ls_verification_free(s, v);
        }
        ls_session_destroy(s);
        ls_context_memory(w.context, &after, &peak);
        assert_true(n < 0 || after == before);
    }
    assert_true(failed > 100);
    world_close(&w);
}

static ls_data *floats(ls_context *context, int n, const float *x) {
    ls_data *data = NULL;
    assert_int_equal(ls_data_create(context, LS_F32, 1, (const int64_t[]){n}, x, &data, NULL), LS_OK);
    return data;
}

static void test_bins(void **state) {
    (void)state;
    world w = world_open("cpu");
    const uint32_t a_bits[8] = {0x3f800000, 0x3f800000, 0x3f800000, 0x3f800000, 0, 0x80000001, 0x7fc00000, 0x3f800000};
    const uint32_t b_bits[8] = {0x3f800000, 0x3f800001, 0x3f7ffffe, 0x3f800100, 0x80000000, 1, 0x3f800000, 0xbf800000};
    float a[8], b[8];
    memcpy(a, a_bits, sizeof a);
    memcpy(b, b_bits, sizeof b);
    ls_data *x = floats(w.context, 8, a), *y = floats(w.context, 8, b);
    ls_report r;
    assert_int_equal(ls_compare(x, y, &r), LS_DIFFERS);
    assert_int_equal(r.bins[0], 1);
    assert_int_equal(r.bins[1], 2);           /* one up; -0 for +0 */
    assert_int_equal(r.bins[2], 2);           /* two down; the least number for its negative: 3 apart */
    assert_int_equal(r.bins[9], 1);           /* 256 */
    assert_int_equal(r.bins[LS_BINS - 1], 1); /* NaN */
    assert_int_equal(r.bins[LS_BINS - 2], 1); /* -1 for 1 */
    ls_data_release(x);
    ls_data_release(y);
    const float c[8] = {1, 1 + 0x1p-21f, 1 + 0x1p-20f, 1 + 0x1p-19f, 1, 2, 1 + 0x1p-23f, 1};
    const double middle[8] = {1, 1, 1, 1, 1, 1, 1, 1 + 0x1p-60}, radius[8] = {0x1p-20, 0x1p-20, 0x1p-20, 0x1p-20, __builtin_inf(), 0, 0x1p-20, 0x1p-20};
    x = floats(w.context, 8, c);
    assert_int_equal(ls_compare_bound(x, middle, radius, &r), LS_DIFFERS);
    assert_int_equal(r.bins[0], 2);                /* the infinite bound is blind, and in no bin; 2^-60 is lost in the middle */
    assert_int_equal(r.bins[LS_BIN_BOUND], 1);     /* at the bound */
    assert_int_equal(r.bins[LS_BIN_BOUND - 1], 1); /* half of it */
    assert_int_equal(r.bins[LS_BIN_BOUND - 3], 1);
    assert_int_equal(r.bins[LS_BIN_BOUND + 1], 1); /* twice */
    assert_int_equal(r.bins[LS_BINS - 1], 1);      /* a bound of 0 */
    assert_int_equal(r.blind, 1);
    ls_data_release(x);
    world_close(&w);
}

static void test_plant(void **state) {
    (void)state;
    float x[6] = {1, 2, 3, 4, 5, 6};
    for (int i = 0; i < 2; i++) {
        world w = world_open("cpu");
        ls_error err = {.code = LS_OK};
        ls_verification *v = NULL;
        assert_int_equal(ls_device_plant(w.device, "no such", &err), LS_ERR_INVALID);
        assert_non_null(strstr(err.message, "no such"));
        assert_int_equal(ls_device_plant(w.device, "short-depth", &err), LS_OK);
        assert_int_equal(i ? ls_device_plant(w.device, NULL, &err) : LS_OK, LS_OK);
        world_ok(&w, ls_verify_built(w.session, build, x, 1, &v));
        assert_int_equal(v->verdict, i ? LS_SAME : LS_DIFFERS);
        if (i == 0) { /* and what reads the wrong product is right */
            assert_string_equal(v->kernels[v->first_divergence].origins[0], "product");
            assert_int_equal(kernel_named(v, "shares")->ref.verdict, LS_SAME);
            assert_int_equal(kernel_named(v, "product")->oracle.verdict, LS_DIFFERS);
        }
        ls_verification_free(w.session, v);
        world_close(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_reads), cmocka_unit_test(test_built), cmocka_unit_test(test_build_fails),
        cmocka_unit_test(test_loops),           cmocka_unit_test(test_bins),  cmocka_unit_test(test_plant),
        cmocka_unit_test(test_check_names),     cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
