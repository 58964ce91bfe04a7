/* Parameters, layers and the built-in networks. */
#define _GNU_SOURCE
#include "support/world.h"
#include "base/alloc.h"
#include "base/sha256.h"
#include <fenv.h>
#include <lockstep/io.h>
#include <lockstep/nn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];

static int setup(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "%s/lockstep-nn-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}
static int teardown(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}
static const char *in_folder(const char *name) {
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static ls_params *params_of(world *w, uint64_t seed) {
    ls_params *p = NULL;
    world_ok(w, ls_params_create(w->session, seed, &p));
    return p;
}

static void var_values(world *w, const ls_params *p, const char *name, float *out, int n) {
    ls_var *var = ls_params_find(p, name);
    assert_non_null(var);
    world_ok(w, ls_var_read(w->session, var, out, sizeof *out * (size_t)n));
}

static ls_tensor *param(world *w, ls_params *p, const char *name, int64_t n, ls_init init, int64_t fan_in) {
    return ls_param(w->session, p, name, LS_F32, LS_SHAPE(n), init, fan_in);
}

static void test_first_values(void **state) {
    (void)state;
    enum { N = 4000 };
    static float a[N], b[N], c[N], d[N], up[N];
    world w = world_open("cpu");
    ls_params *p = params_of(&w, 7), *q = params_of(&w, 7), *r = params_of(&w, 8), *upward = params_of(&w, 7);
    assert_non_null(param(&w, p, "x", N, LS_INIT_UNIFORM, 25));
    assert_non_null(param(&w, p, "y", N, LS_INIT_KAIMING, 50));
    assert_non_null(param(&w, q, "y", N, LS_INIT_KAIMING, 50)); /* in another order */
    assert_non_null(param(&w, q, "x", N, LS_INIT_UNIFORM, 25));
    assert_non_null(param(&w, r, "x", N, LS_INIT_UNIFORM, 25));
    var_values(&w, p, "x", a, N);
    var_values(&w, q, "x", b, N);
    var_values(&w, r, "x", c, N);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a); /* another seed */
    double sum = 0, square = 0;
    for (int i = 0; i < N; i++) {
        assert_true(a[i] >= -0.2f && a[i] < 0.2f);
        sum += (double)a[i];
        square += (double)a[i] * (double)a[i];
    }
    assert_true(sum / N < 0.01 && sum / N > -0.01);
    assert_true(square / N > 0.9 * 0.04 / 3 && square / N < 1.1 * 0.04 / 3); /* variance of uniform +-0.2 */
    var_values(&w, p, "y", b, N);
    var_values(&w, q, "y", d, N);
    assert_memory_equal(b, d, sizeof b);
    square = 0;
    for (int i = 0; i < N; i++) {
        square += (double)b[i] * (double)b[i];
    }
    assert_true(square / N > 0.9 * 2 / 50 && square / N < 1.1 * 2 / 50);
    assert_int_equal(fesetround(FE_UPWARD), 0); /* the host's rounding does not leak in */
    ls_tensor *x = param(&w, upward, "x", N, LS_INIT_UNIFORM, 25),
              *y = param(&w, upward, "y", N, LS_INIT_KAIMING, 50);
    assert_int_equal(fegetround(), FE_UPWARD);
    fesetround(FE_TONEAREST);
    assert_true(x && y);
    var_values(&w, upward, "x", up, N);
    assert_memory_equal(a, up, sizeof a);
    var_values(&w, upward, "y", up, N);
    assert_memory_equal(b, up, sizeof b);
    assert_non_null(param(&w, p, "ones", 3, LS_INIT_ONES, 0));
    assert_non_null(param(&w, p, "zeros", 3, LS_INIT_ZEROS, 0));
    var_values(&w, p, "ones", a, 3);
    var_values(&w, p, "zeros", b, 3);
    for (int i = 0; i < 3; i++) {
        assert_true(a[i] == 1 && b[i] == 0);
    }
    assert_int_equal(ls_params_count(p), 4);
    assert_string_equal(ls_var_name(ls_params_at(p, 1)), "y");
    assert_null(ls_params_at(p, 4));
    assert_null(ls_params_find(p, "z"));
    ls_params_destroy(p);
    ls_params_destroy(q);
    ls_params_destroy(r);
    ls_params_destroy(upward);
    world_close(&w);
}

static void refused(world *w, const ls_tensor *made, ls_status status, const char *says) {
    assert_null(made);
    const ls_error *err = ls_session_error(w->session);
    if (err->code != status || !strstr(err->message, says)) {
        fail_msg("%s: \"%s\": expected %s and \"%s\"", ls_status_name(err->code), err->message,
                 ls_status_name(status), says);
    }
    ls_session_clear_error(w->session);
}

static void test_refused(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_params *p = params_of(&w, 1);
    ls_session *s = w.session;
    assert_non_null(param(&w, p, "x", 3, LS_INIT_ONES, 0));
    refused(&w, param(&w, p, "x", 4, LS_INIT_ONES, 0), LS_ERR_SHAPE, "\"x\"");
    refused(&w, ls_param(s, p, "i", LS_I32, LS_SHAPE(3), LS_INIT_ONES, 0), LS_ERR_DTYPE, "\"i\"");
    refused(&w, ls_param(s, p, "huge", LS_F32, LS_SHAPE(INT64_C(1) << 40, INT64_C(1) << 40), LS_INIT_ONES, 0),
            LS_ERR_DTYPE, "\"huge\"");
    ls_tensor *x = ls_full(s, LS_F32, LS_SHAPE(2, 3), 1), *scalar = ls_full(s, LS_F32, LS_SCALAR, 1);
    refused(&w, ls_nn_conv2d(s, p, "c", x, 4, 3, 1, 0), LS_ERR_SHAPE,
            "\"c\": the input has rank 2: expected 4");
    refused(&w, ls_nn_linear(s, p, "l", scalar, 4), LS_ERR_SHAPE,
            "\"l\": the input has rank 0: expected at least 1");
    refused(&w, ls_nn_network(s, p, "mnist:large", x), LS_ERR_INVALID,
            "\"mnist:large\": expected mnist:cnn or mnist:small");
    refused(&w, ls_nn_linear(s, p, "l", NULL, 4), LS_ERR_INVALID, "\"l\": its input is NULL");
    refused(&w, ls_nn_conv2d(s, p, "c", NULL, 4, 3, 1, 0), LS_ERR_INVALID, "\"c\": its input is NULL");
    refused(&w, ls_nn_layer_norm(s, p, "n", NULL), LS_ERR_INVALID, "\"n\": its input is NULL");
    refused(&w, ls_nn_linear(s, p, NULL, x, 4), LS_ERR_INVALID, "its name is NULL");
    refused(&w, ls_nn_linear(s, p, "l", x, -4), LS_ERR_DTYPE, "\"l.weight\": expected f32 and fixed extents of 0 or more");
    refused(&w, ls_nn_conv2d(s, p, "c", ls_full(s, LS_F32, LS_SHAPE(1, 2, 8, 8), 1), 4, -3, 1, 0), LS_ERR_SHAPE,
            "\"c\": kernel -3: expected at least 1");
    assert_null(ls_add(s, NULL, x)); /* the first error stays */
    assert_null(ls_nn_linear(s, p, "l", NULL, 4));
    refused(&w, NULL, LS_ERR_INVALID, "add: operand 0 is NULL");
    ls_params_destroy(p);
    world_close(&w);
}

/* ---- layers, against plain loops ---- */

static void near(double got, double want) {
    double gap = got > want ? got - want : want - got;
    if (!(gap <= 1e-5)) {
        fail_msg("%.9g: expected %.9g", got, want);
    }
}

static void test_layers(void **state) {
    (void)state;
    enum { N = 2, C = 3, H = 5, O = 4, OUT = 3 };
    float x[N * C * H * H], weight[O * C * 9], bias[O], conv[N * O * OUT * OUT], dense[N * O], norm[N * C];
    world w = world_open("cpu");
    ls_session *s = w.session;
    ls_params *p = params_of(&w, 3);
    for (int i = 0; i < N * C * H * H; i++) {
        x[i] = (float)((i * 7 % 23) - 11) / 8;
    }
    ls_tensor *image = ls_tensor_from(s, LS_F32, LS_SHAPE(N, C, H, H), x),
              *row = ls_tensor_from(s, LS_F32, LS_SHAPE(N, C), x);
    world_ok(&w, ls_read(s, ls_nn_conv2d(s, p, "conv", image, O, 3, 2, 1), conv, sizeof conv));
    var_values(&w, p, "conv.weight", weight, O * C * 9);
    var_values(&w, p, "conv.bias", bias, O);
    for (int i = 0; i < N * O * OUT * OUT; i++) {
        int n = i / (O * OUT * OUT), o = i / (OUT * OUT) % O, r = i / OUT % OUT, q = i % OUT;
        double sum = (double)bias[o];
        for (int k = 0; k < C * 9; k++) {
            int y = 2 * r + k / 3 % 3 - 1, z = 2 * q + k % 3 - 1;
            bool inside = y >= 0 && y < H && z >= 0 && z < H;
            sum += inside ? (double)x[((n * C + k / 9) * H + y) * H + z] * (double)weight[o * C * 9 + k] : 0;
        }
        near((double)conv[i], sum);
    }
    world_ok(&w, ls_read(s, ls_nn_linear(s, p, "fc", row, O), dense, sizeof dense));
    var_values(&w, p, "fc.weight", weight, O * C);
    var_values(&w, p, "fc.bias", bias, O);
    for (int i = 0; i < N * O; i++) {
        double sum = (double)bias[i % O];
        for (int k = 0; k < C; k++) {
            sum += (double)x[i / O * C + k] * (double)weight[i % O * C + k];
        }
        near((double)dense[i], sum);
    }
    world_ok(&w, ls_read(s, ls_nn_layer_norm(s, p, "ln", row), norm, sizeof norm));
    for (int n = 0; n < N; n++) {
        double mean = 0, variance = 0;
        for (int k = 0; k < C; k++) {
            mean += (double)x[n * C + k] / C;
        }
        for (int k = 0; k < C; k++) {
            variance += ((double)x[n * C + k] - mean) * ((double)x[n * C + k] - mean) / C;
        }
        for (int k = 0; k < C; k++) {
            double d = (double)norm[n * C + k] * __builtin_sqrt(variance + 1e-5);
            near(d, (double)x[n * C + k] - mean);
        }
    }
    ls_params_destroy(p);
    world_close(&w);
}

static void test_networks(void **state) {
    (void)state;
    static const int64_t sizes[2] = {320 + 18496 + 1179776 + 1290, 80 + 1168 + 25664 + 650};
    world w = world_open("cpu");
    for (int i = 0; i < 2; i++) {
        ls_params *p = params_of(&w, 1);
        const char *name = ls_nn_networks()[i];
        assert_string_equal(name, i ? "mnist:small" : "mnist:cnn");
        ls_tensor *y =
            ls_nn_network(w.session, p, name, ls_input(w.session, "x", LS_F32, LS_SHAPE(5, 1, 28, 28)));
        world_ok(&w, ls_session_error(w.session)->code);
        assert_int_equal(ls_tensor_numel(w.session, y), 50);
        int64_t n = 0;
        for (int k = 0; k < ls_params_count(p); k++) {
            ls_shape shape = ls_var_shape(ls_params_at(p, k));
            int64_t numel = 1;
            for (int d = 0; d < shape.rank; d++) {
                numel *= shape.dim[d].offset;
            }
            n += numel;
        }
        assert_int_equal(ls_params_count(p), 8);
        static const char *const order[] = {"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                            "fc1.weight",   "fc1.bias",   "fc2.weight",   "fc2.bias"};
        for (int k = 0; k < 8; k++) { /* whatever compiler built the library */
            assert_string_equal(ls_var_name(ls_params_at(p, k)), order[k]);
        }
        assert_int_equal(n, sizes[i]);
        ls_params_destroy(p);
    }
    assert_null(ls_nn_networks()[2]);
    world_close(&w);
}

/* ---- files and the hash ---- */

static void two_params(world *w, ls_params *p, int64_t n) {
    assert_non_null(param(w, p, "b.second", n, LS_INIT_UNIFORM, 4));
    assert_non_null(ls_param(w->session, p, "a.first", LS_F32, LS_SHAPE(2, 3), LS_INIT_UNIFORM, 4));
}

static void test_sha256(void **state) {
    (void)state;
    world w = world_open("cpu");
    ls_params *p = params_of(&w, 5);
    two_params(&w, p, 4);
    uint32_t first[6], second[4] = {0x7fc00001, 0xff812345, 0x80000000, 1}; /* NaNs, -0 and a subnormal */
    world_ok(&w, ls_var_read(w.session, ls_params_find(p, "a.first"), first, sizeof first));
    world_ok(&w, ls_var_write(w.session, ls_params_find(p, "b.second"), second, sizeof second));
    char hex[65], want[65];
    ls_error err = {.code = LS_OK};
    assert_int_equal(ls_params_sha256(w.session, p, hex, &err), LS_OK);
    static const uint8_t first_head[] =
        "a.first\0f32\0\2\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0", /* and the literal's NUL */
        second_head[] = "b.second\0f32\0\1\0\0\0\0\0\0\0\4\0\0\0\0\0\0";
    second[0] = second[1] = 0x7fc00000;
    ls_sha256 sha;
    ls_sha256_init(&sha);
    ls_sha256_add(&sha, first_head, sizeof first_head);
    ls_sha256_add(&sha, first, sizeof first);
    ls_sha256_add(&sha, second_head, sizeof second_head);
    ls_sha256_add(&sha, second, sizeof second);
    ls_sha256_hex(&sha, want);
    assert_string_equal(hex, want);
    ls_params_destroy(p);
    world_close(&w);
}

static void load_fails(world *w, ls_params *p, const char *path, ls_status status, const char *says) {
    char before[65], after[65];
    ls_error err = {.code = LS_OK};
    assert_int_equal(ls_params_sha256(w->session, p, before, &err), LS_OK);
    ls_status got = ls_params_load(w->session, p, path, &err);
    if (got != status || !strstr(err.message, says) || !strstr(err.message, path)) {
        fail_msg("%s: \"%s\": expected \"%s\"", ls_status_name(got), err.message, says);
    }
    ls_error_clear(&err);
    assert_int_equal(ls_params_sha256(w->session, p, after, &err), LS_OK);
    assert_string_equal(before, after); /* nothing changed */
}

static void test_save_and_load(void **state) {
    (void)state;
    world w = world_open("cpu"), other = world_open("ref");
    ls_params *p = params_of(&w, 5), *q = params_of(&other, 6), *wide = params_of(&w, 5),
              *one = params_of(&w, 5), *three = params_of(&w, 5);
    ls_error err = {.code = LS_OK};
    char a[65], b[65];
    const char *path = in_folder("p.safetensors");
    two_params(&w, p, 4);
    two_params(&other, q, 4);
    two_params(&w, wide, 5);
    assert_non_null(param(&w, one, "b.second", 4, LS_INIT_UNIFORM, 4));
    two_params(&w, three, 4);
    assert_non_null(param(&w, three, "c.third", 4, LS_INIT_UNIFORM, 4));
    assert_int_equal(ls_params_save(w.session, p, path, &err), LS_OK);
    assert_int_equal(ls_params_sha256(w.session, p, a, &err), LS_OK);
    assert_int_equal(ls_params_sha256(other.session, q, b, &err), LS_OK);
    assert_string_not_equal(a, b);
    assert_int_equal(ls_params_load(other.session, q, path, &err), LS_OK);
    assert_int_equal(ls_params_sha256(other.session, q, b, &err), LS_OK);
    assert_string_equal(a, b);
    ls_params *r = NULL; /* first values from the file: no load after it */
    assert_int_equal(ls_params_open(other.session, path, &r, &err), LS_OK);
    two_params(&other, r, 4);
    assert_null(ls_params_left(r));
    assert_int_equal(ls_params_sha256(other.session, r, b, &err), LS_OK);
    assert_string_equal(a, b);
    ls_params_destroy(r);
    assert_int_equal(ls_params_open(other.session, path, &r, &err), LS_OK);
    assert_string_equal(ls_params_left(r), "a.first"); /* nothing is built */
    assert_null(param(&other, r, "b.second", 5, LS_INIT_UNIFORM, 4));
    assert_non_null(strstr(ls_session_error(other.session)->message, "\"b.second\" is f32[4]: expected f32[5]"));
    ls_session_clear_error(other.session);
    assert_null(param(&other, r, "c.third", 4, LS_INIT_UNIFORM, 4));
    assert_non_null(strstr(ls_session_error(other.session)->message, "no array \"c.third\""));
    ls_session_clear_error(other.session);
    ls_params_destroy(r);
    assert_int_equal(ls_params_open(other.session, in_folder("none"), &r, &err), LS_ERR_IO);
    ls_error_clear(&err);
    r = params_of(&other, 7);
    ls_data *file = NULL;
    two_params(&other, r, 4);
    ls_var *const vars[] = {ls_params_at(p, 0), ls_params_at(p, 1)};
    assert_int_equal(ls_vars_encode(w.session, vars, 2, 0, NULL, &file, &err), LS_OK);
    assert_int_equal(ls_params_load_data(other.session, r, "fetched", file, &err), LS_OK);
    assert_int_equal(ls_params_sha256(other.session, r, b, &err), LS_OK);
    assert_string_equal(a, b);
    assert_int_equal(ls_params_load_data(w.session, wide, "fetched", file, &err), LS_ERR_SHAPE);
    assert_non_null(strstr(err.message, "fetched: \"b.second\""));
    ls_error_clear(&err);
    ls_data_release(file);
    ls_params_destroy(r);
    load_fails(&w, wide, path, LS_ERR_SHAPE, "\"b.second\" is f32[4]: expected f32[5]");
    load_fails(&w, one, path, LS_ERR_FORMAT, "\"a.first\" is no parameter");
    load_fails(&w, three, path, LS_ERR_INVALID, "no array \"c.third\"");
    load_fails(&w, p, in_folder("none"), LS_ERR_IO, "none");
    assert_int_equal(truncate(path, 300), 0);
    load_fails(&w, p, path, LS_ERR_FORMAT, "expected");
    ls_params_destroy(p);
    ls_params_destroy(q);
    ls_params_destroy(wide);
    ls_params_destroy(one);
    ls_params_destroy(three);
    world_close(&w);
    world_close(&other);
}

/* ---- weights that another framework trained ---- */

static ls_tensor *weight(world *w, ls_archive *a, const char *name) {
    ls_data *data = NULL;
    ls_error err = {.code = LS_OK};
    if (ls_archive_get(a, name, &data, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    ls_tensor *x = ls_data_to_tensor(w->session, data);
    ls_data_release(data);
    return x;
}

static ls_tensor *part(world *w, ls_archive *a, const char *layer, const char *name) {
    char full[64];
    snprintf(full, sizeof full, "%s.%s", layer, name);
    return weight(w, a, full);
}

/* Three 3x3 convolutions with ReLU, batch norm, two dense layers, batch norm. */
static ls_tensor *burn_network(world *w, ls_archive *a, ls_tensor *x, int64_t n) {
    static const char *const convs[] = {"conv1", "conv2", "conv3"};
    ls_session *s = w->session;
    ls_conv_spec spec = {.spatial = 2};
    for (int i = 0; i < 3; i++) {
        x = ls_relu(s, ls_conv(s, x, part(w, a, convs[i], "weight"), part(w, a, convs[i], "bias"), &spec));
    }
    x = ls_batch_norm(s, x, part(w, a, "norm1", "running_mean"), part(w, a, "norm1", "running_var"),
                      part(w, a, "norm1", "weight"), part(w, a, "norm1", "bias"), 1e-5);
    x = ls_reshape(s, x, LS_SHAPE(n, 24 * 22 * 22));
    x = ls_relu(s, ls_linear(s, x, part(w, a, "fc1", "weight"), part(w, a, "fc1", "bias")));
    x = ls_linear(s, x, part(w, a, "fc2", "weight"), part(w, a, "fc2", "bias"));
    return ls_batch_norm(s, x, part(w, a, "norm2", "running_mean"), part(w, a, "norm2", "running_var"),
                         part(w, a, "norm2", "weight"), part(w, a, "norm2", "bias"), 1e-5);
}

static int64_t count_right(world *w, ls_program *program, ls_dataset *set, int64_t batch) {
    float *images = malloc(sizeof *images * (size_t)(batch * 784));
    int32_t *labels = malloc(sizeof *labels * (size_t)batch);
    int64_t *best = malloc(sizeof *best * (size_t)batch), right = 0;
    ls_loader *loader = NULL;
    assert_int_equal(ls_loader_create(w->context, set, batch, 0, 1, &loader, NULL), LS_OK);
    for (int64_t b = 0; b < ls_loader_batches(loader); b++) {
        assert_int_equal(ls_loader_get(loader, 0, b, 0.1307f, 0.3081f, images, labels), batch);
        const void *in[1] = {images};
        void *out[1] = {best};
        world_ok(w, ls_program_run(program, in, out));
        for (int64_t i = 0; i < batch; i++) {
            right += best[i] == labels[i];
        }
    }
    ls_loader_destroy(loader);
    free(images);
    free(labels);
    free(best);
    return right;
}

static void test_weights_of_burn(void **state) {
    (void)state;
    enum { BATCH = 250 };
    const char *shared = getenv("LOCKSTEP_SHARED");
    char path[1024];
    snprintf(path, sizeof path, "%s/models/burn-mnist.safetensors", shared ? shared : "../shared");
    if (access(path, R_OK) != 0 || access("build/data/digits/9.json", R_OK) != 0) {
        print_message("skipped: no %s or no build/data/digits\n", path);
        skip();
    }
    world w = world_open("cpu");
    ls_error err = {.code = LS_OK};
    ls_archive *a = NULL;
    ls_dataset train, test;
    assert_int_equal(ls_archive_open(w.context, path, &a, &err), LS_OK);
    assert_int_equal(ls_dataset_digits(w.context, "build/data/digits", &train, &test, &err), LS_OK);
    ls_tensor *x = ls_input(w.session, "images", LS_F32, LS_SHAPE(BATCH, 1, 28, 28));
    ls_tensor *best = ls_argmax(w.session, burn_network(&w, a, x, BATCH), 1, (const int[]){1}, 0);
    ls_program *program = NULL;
    world_ok(&w, ls_program_compile(w.session, &x, 1, &best, 1, &program));
    int64_t right = count_right(&w, program, &train, BATCH) + count_right(&w, program, &test, BATCH);
    print_message("%lld of 10,000 right\n", (long long)right);
    assert_int_equal(right, 9977);
    ls_program_destroy(program);
    ls_archive_close(a);
    ls_dataset_release(&train);
    ls_dataset_release(&test);
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_values),    cmocka_unit_test(test_refused),
        cmocka_unit_test(test_layers),          cmocka_unit_test(test_networks),
        cmocka_unit_test(test_sha256),          cmocka_unit_test(test_save_and_load),
        cmocka_unit_test(test_weights_of_burn),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
