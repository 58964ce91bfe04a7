/* Whole networks, trained here and written as ONNX files: loaded back, each gives the network's bits, on `cpu` and on `ref`, for any batch. */
#define _DEFAULT_SOURCE
#include "support/world.h"
#include <lockstep/lockstep.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_MOST = 32, STEPS = 3, BATCHES = 3 };

typedef ls_tensor *(*network_fn)(ls_session *s, ls_params *p, ls_tensor *x);
typedef struct network {
    const char *name;
    network_fn build;
    int rank;                  /* of an example */
    int64_t dims[LS_MAX_RANK]; /* its extents */
    const char *operators;     /* of the file */
    bool slow;                 /* on ref */
    bool loops;                /* which are loaded for one batch each */
} network;

static ls_shape shape_of(ls_dim batch, const network *n) {
    ls_shape shape = {.rank = n->rank + 1, .dim = {batch}};
    for (int i = 0; i < n->rank; i++) {
        shape.dim[i + 1] = ls_dim_of(n->dims[i]);
    }
    return shape;
}

/* Numbers in [-1, 1) that depend on a seed. */
static ls_data *examples_of(world *w, const network *n, int64_t batch, unsigned seed) {
    int64_t dims[LS_MAX_RANK] = {batch}, count = batch;
    for (int i = 0; i < n->rank; i++) {
        count *= dims[i + 1] = n->dims[i];
    }
    float *x = malloc(sizeof *x * (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / 8388608.0f - 1;
    }
    ls_data *data = NULL;
    world_ok(w, ls_data_create(w->context, LS_F32, n->rank + 1, dims, x, &data, NULL));
    free(x);
    return data;
}

/* A few steps, so that every parameter has moved. */
static void train(world *w, const network *n, ls_params *params) {
    ls_session *s = w->session;
    ls_optimizer_options options = {.kind = LS_OPTIM_ADAM};
    ls_optimizer *optimizer = NULL;
    ls_program *program = NULL;
    float loss, before = 0, rate = 0.01f;
    int32_t labels[8];
    ls_tensor *x = ls_input(s, "x", LS_F32, shape_of(ls_dim_of(8), n)),
              *y = ls_input(s, "y", LS_I32, LS_SHAPE(8)), *r = ls_input(s, "rate", LS_F32, LS_SCALAR),
              *inputs[] = {x, y, r};
    ls_tensor *l = ls_cross_entropy(s, n->build(s, params, x), y);
    world_ok(w, l ? ls_optimizer_create(s, params, &options, &optimizer) : LS_ERR_INVALID);
    world_ok(w, ls_optimizer_step(s, optimizer, l, r));
    world_ok(w, ls_program_compile(s, inputs, 3, &l, 1, &program));
    ls_data *images = examples_of(w, n, 8, 5);
    for (int i = 0; i < 8; i++) {
        labels[i] = i % 4;
    }
    for (int i = 0; i < STEPS; i++) {
        world_ok(w, ls_program_run(program, (const void *[]){ls_data_bytes(images), labels, &rate},
                                   (void *[]){&loss}));
        before = i ? before : loss;
    }
    assert_true(loss != before);
    ls_data_release(images);
    ls_program_destroy(program);
    ls_optimizer_destroy(optimizer);
}

static ls_data *written(world *w, const network *n, ls_params *params) {
    ls_error err = {.code = LS_OK};
    ls_data *file = NULL;
    ls_symbol *batch = ls_symbol_create(w->context, "batch", BATCH_MOST, &err);
    ls_named_tensor in = {"x", ls_input(w->session, "x", LS_F32, shape_of(ls_dim_symbol(batch, 1, 0), n))},
                    out = {"y", n->build(w->session, params, in.tensor)};
    if (ls_onnx_encode(w->session, 1, &in, 1, &out, &file, &err) != LS_OK) {
        fail_msg("%s: %s", n->name, err.message);
    }
    const char *folder = getenv("LOCKSTEP_KEEP_EXPORTS"); /* for other engines to run: export.sh */
    if (folder) {
        char path[512];
        const char *colon = strchr(n->name, ':');
        snprintf(path, sizeof path, "%s/%s.onnx", folder, colon ? colon + 1 : n->name);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(ls_data_bytes(file), 1, ls_data_size(file), f), ls_data_size(file));
        assert_int_equal(fclose(f), 0);
    }
    return file;
}

/* The model as it is on a device, beside what the network gave. */
static void compare(const char *device, const network *n, ls_data *file, ls_data *const *in,
                    ls_data *const *expected) {
    world w = world_open_with(device, 1, NULL);
    ls_error err = {.code = LS_OK};
    ls_model *model = NULL;
    ls_runner *runner = NULL;
    ls_data *copy = NULL, *got = NULL;
    ls_report report;
    world_ok(&w, ls_data_create(w.context, LS_U8, 1, ls_data_dims(file), ls_data_bytes(file), &copy, NULL));
    if (ls_model_load_data(w.context, n->name, copy, &model, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    ls_model_operator list[64];
    char text[512] = "";
    int count = ls_model_operators(model, 64, list);
    for (int i = 0; i < count; i++) {
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", list[i].name);
    }
    assert_string_equal(text, n->operators);
    world_ok(&w, ls_runner_create(w.session, model, &runner));
    for (int i = n->slow && strcmp(device, "ref") == 0 ? BATCHES - 1 : 0; i < BATCHES; i++) {
        ls_data *same = NULL;
        world_ok(&w, ls_data_create(w.context, LS_F32, n->rank + 1, ls_data_dims(in[i]), ls_data_bytes(in[i]),
                                    &same, NULL));
        world_ok(&w, ls_runner_run(runner, 1, &(ls_named_data){"x", same}, &got));
        LS_ASSERT_SAME(expected[i], got, &report, fail_msg("%s on %s: %s", n->name, device, report.message));
        ls_data_release(same);
        ls_data_release(got);
    }
    ls_runner_facts facts = ls_runner_get_facts(runner);
    if (strcmp(device, "cpu") == 0 && !n->loops) { /* a program for the first batch, and one for all others */
        assert_int_equal(facts.programs, 2);
        assert_int_equal(facts.symbolic, 1);
    }
    ls_runner_destroy(runner);
    ls_model_release(model);
    ls_data_release(copy);
    world_close(&w);
}

static void round_trip(const network *n) {
    static const int64_t batches[BATCHES] = {5, 3, 1};
    world w = world_open_with("cpu", 1, NULL);
    ls_params *params = NULL;
    ls_data *in[BATCHES], *expected[BATCHES];
    world_ok(&w, ls_params_create(w.session, 3, &params));
    train(&w, n, params);
    ls_data *file = written(&w, n, params);
    for (int i = 0; i < BATCHES; i++) {
        in[i] = examples_of(&w, n, batches[i], 11);
        ls_tensor *y = n->build(w.session, params, ls_data_to_tensor(w.session, in[i]));
        world_ok(&w, ls_data_from_tensor(w.session, y, &expected[i]));
    }
    compare("cpu", n, file, in, expected);
    compare("ref", n, file, in, expected);
    for (int i = 0; i < BATCHES; i++) {
        ls_data_release(in[i]);
        ls_data_release(expected[i]);
    }
    ls_data_release(file);
    ls_params_destroy(params);
    world_close(&w);
}

/* ---- networks ---- */

static ls_tensor *mlp(ls_session *s, ls_params *p, ls_tensor *x) {
    x = ls_gelu(s, ls_nn_linear(s, p, "hidden", x, 24));
    return ls_log_softmax(s, ls_nn_linear(s, p, "out", x, 4), 1);
}

static ls_tensor *small(ls_session *s, ls_params *p, ls_tensor *x) {
    return ls_nn_network(s, p, "mnist:small", x);
}

static ls_tensor *cnn(ls_session *s, ls_params *p, ls_tensor *x) {
    return ls_nn_network(s, p, "mnist:cnn", x);
}

/* [batch, length, width] as [batch, heads, length, width / heads], and back, for any batch. */
static ls_tensor *heads(ls_session *s, ls_tensor *x, int64_t n) {
    ls_shape shape = ls_tensor_shape(x);
    ls_dim width = shape.dim[2];
    shape.rank = 4;
    shape.dim[2] = ls_dim_of(n);
    shape.dim[3] = ls_dim_of(width.offset / n);
    return ls_permute(s, ls_reshape(s, x, shape), (const int[]){0, 2, 1, 3});
}

static ls_tensor *attend(ls_session *s, ls_params *p, ls_tensor *x, int causal) {
    ls_attention_spec spec = {.causal = causal};
    ls_tensor *q = heads(s, ls_nn_linear(s, p, "q", x, 16), 2),
              *k = heads(s, ls_nn_linear(s, p, "k", x, 16), 2),
              *v = heads(s, ls_nn_linear(s, p, "v", x, 16), 2);
    ls_tensor *y = ls_permute(s, ls_attention(s, q, k, v, &spec), (const int[]){0, 2, 1, 3});
    return ls_nn_linear(s, p, "o", ls_reshape(s, y, ls_tensor_shape(x)), 16);
}

static ls_tensor *layer(ls_session *s, ls_params *p, ls_tensor *x, int causal) {
    x = ls_add(s, x, attend(s, p, ls_nn_layer_norm(s, p, "norm1", x), causal));
    ls_tensor *h = ls_gelu(s, ls_nn_linear(s, p, "up", ls_nn_layer_norm(s, p, "norm2", x), 32));
    return ls_add(s, x, ls_nn_linear(s, p, "down", h, 16));
}

static ls_tensor *encoder(ls_session *s, ls_params *p, ls_tensor *x) {
    return ls_nn_linear(s, p, "out", ls_mean(s, layer(s, p, x, 0), 1, (const int[]){1}, 0), 4);
}

static ls_tensor *decoder(ls_session *s, ls_params *p, ls_tensor *x) {
    return ls_nn_linear(s, p, "out", ls_amax(s, layer(s, p, x, 1), 1, (const int[]){1}, 0), 4);
}

static ls_tensor *recurrent(ls_session *s, ls_params *p, ls_tensor *x) {
    ls_tensor *w_x = ls_param(s, p, "w_x", LS_F32, LS_SHAPE(24, 5), LS_INIT_UNIFORM, 5),
              *w_h = ls_param(s, p, "w_h", LS_F32, LS_SHAPE(24, 6), LS_INIT_UNIFORM, 6),
              *bias = ls_param(s, p, "bias", LS_F32, LS_SHAPE(24), LS_INIT_UNIFORM, 6), *last = NULL;
    ls_tensor *zero =
        ls_full(s, LS_F32, (ls_shape){.rank = 2, .dim = {ls_tensor_shape(x).dim[0], ls_dim_of(6)}}, 0);
    ls_lstm(s, ls_permute(s, x, (const int[]){1, 0, 2}), zero, zero, w_x, w_h, bias, &last, NULL);
    return ls_nn_linear(s, p, "out", last, 4);
}

static void test_networks(void **state) {
    (void)state;
    static const network all[] = {
        {.name = "mlp", .build = mlp, .rank = 1, .dims = {12}, .operators = "Gelu Gemm LogSoftmax"},
        {.name = "mnist:small",
         .build = small,
         .rank = 3,
         .dims = {1, 28, 28},
         .operators = "Conv Flatten Gemm MaxPool Relu"},
        {.name = "mnist:cnn",
         .build = cnn,
         .rank = 3,
         .dims = {1, 28, 28},
         .operators = "Conv Flatten Gemm MaxPool Relu",
         .slow = true},
        {.name = "encoder",
         .build = encoder,
         .rank = 2,
         .dims = {7, 16},
         .operators = "Add Gelu Gemm LayerNormalization MatMul Mul ReduceMean Reshape Softmax Transpose"},
        {.name = "decoder",
         .build = decoder,
         .rank = 2,
         .dims = {7, 16},
         .operators = "Add Div Equal Exp Expand Gelu Gemm LayerNormalization LessOrEqual MatMul Mul Range "
                      "ReduceMax ReduceSum "
                      "Reshape Sub Transpose Where"},
        {.name = "recurrent",
         .build = recurrent,
         .rank = 2,
         .dims = {3, 5},
         .operators = "Concat Expand Gemm LSTM Reshape Shape Slice Squeeze Transpose",
         .loops = true}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        round_trip(&all[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_networks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
