/* Models whose weights are parameters: which initialisers they are, that training changes them and a written file has them. */
#define _GNU_SOURCE
#include "onnx_bed.h"
#include <lockstep/nn.h>
#include <lockstep/optim.h>

/* ---- which initialisers ---- */

static void init(bed *b, Onnx__TensorProto *t) {
    PUSH(b->g->initializer, b->g->n_initializer, t);
}

/* x[2,4]: normalised, shifted, scaled by one number, limited, to a power, times w as it is transposed. */
static ls_model *roles(bed *b) {
    static const float x[8] = {1, -2, 3, 0.5f, 2, 2, -1, 0.25f};
    feed(b, "x", ONNX_FLOAT, LS_SHAPE(2, 4), x);
    for (int i = 0; i < 5; i++) {
        init(b, floats((const char *[]){"gamma", "beta", "mean", "variance", "shift"}[i], 4));
    }
    for (int i = 0; i < 5; i++) {
        init(b, floats((const char *[]){"factor", "least", "most", "exponent", "bias"}[i], 1));
    }
    for (int i = 1; i < 4; i++) { /* Clip's limits are scalars */
        b->g->initializer[4 + i + 1]->n_dims = 0;
    }
    b->g->initializer[7]->float_data[0] = 100;
    b->g->initializer[8]->float_data[0] = 1;
    init(b, tensor("w", ONNX_FLOAT, 2, (const int64_t[]){1, 4}));
    for (int i = 0; i < 4; i++) {
        Onnx__TensorProto *w = b->g->initializer[10];
        PUSH(w->float_data, w->n_float_data, (float)i - 1.5f);
    }
    add_node(b->g, "BatchNormalization", "x gamma beta mean variance", "n");
    add_node(b->g, "Add", "n shift", "a");
    add_node(b->g, "Mul", "a factor", "m");
    add_node(b->g, "Clip", "m least most", "c");
    add_node(b->g, "Pow", "c exponent", "p");
    add_node(b->g, "Transpose", "w", "wt");
    add_node(b->g, "Gemm", "p wt bias", "y");
    OUTPUT(b->g, value("y", NULL));
    return bed_load(b);
}

static void assert_names(const ls_params *p, int n, const char *const *expected) {
    for (int i = 0; i < n; i++) {
        if (!ls_params_find(p, expected[i])) {
            fail_msg("%s is no parameter", expected[i]);
        }
    }
    assert_int_equal(ls_params_count(p), n);
}

static int only_w(void *user, const char *name) {
    ++*(int *)user;
    return strcmp(name, "w") == 0;
}

static void weights_are_parameters_and_settings_are_not(void **state) {
    (void)state;
    bed b = bed_open(21);
    ls_model *model = roles(&b);
    ls_session *s = b.w.session;
    ls_params *all, *one;
    ls_tensor *y, *again, *plain;
    int asked = 0;
    world_ok(&b.w, ls_params_create(s, 1, &all));
    world_ok(&b.w, ls_params_create(s, 1, &one));
    world_ok(&b.w, ls_model_build_params(s, model, all, NULL, NULL, 1, b.in, 1, &y));
    assert_names(all, 5, (const char *[]){"gamma", "beta", "shift", "bias", "w"});
    world_ok(&b.w, ls_model_build_params(s, model, all, NULL, NULL, 1, b.in, 1, &again));
    assert_int_equal(ls_params_count(all), 5);
    world_ok(&b.w, ls_model_build_params(s, model, one, only_w, &asked, 1, b.in, 1, &again));
    assert_names(one, 1, (const char *[]){"w"});
    assert_int_equal(asked, 5);
    /* the same bits as with constants; and w is differentiated through its transposition */
    world_ok(&b.w, ls_model_build(s, model, 1, b.in, 1, &plain));
    float got[2], want[2], gradient[4];
    world_ok(&b.w, ls_read(s, y, got, sizeof got));
    world_ok(&b.w, ls_read(s, plain, want, sizeof want));
    assert_memory_equal(got, want, sizeof got);
    ls_tensor *w = ls_var_value(s, ls_params_find(all, "w")), *g;
    world_ok(&b.w, ls_grad(s, ls_sum(s, y, 2, (const int[]){0, 1}, 0), NULL, 1, &w, &g));
    world_ok(&b.w, ls_read(s, g, gradient, sizeof gradient));
    for (int i = 0; i < 4; i++) {
        assert_true(gradient[i] > 0);
    }
    ls_params_destroy(all);
    ls_params_destroy(one);
    ls_model_release(model);
    bed_close(&b);
}

/* Quantised weights stay as they are, and so do their scales; the bias beside them is trained. */
static void scales_of_codes_are_settings(void **state) {
    (void)state;
    static const float x[64] = {1, -2, 3};
    static const uint8_t codes[2 * 2 * 16] = {0x19, 0x28};
    bed b = bed_open(21);
    ls_params *params;
    ls_tensor *y;
    feed(&b, "x", ONNX_FLOAT, LS_SHAPE(1, 64), x);
    PUSH(b.m->opset_import, b.m->n_opset_import, opset("com.microsoft", 1));
    init(&b, raw(tensor("codes", ONNX_UINT8, 3, (const int64_t[]){2, 2, 16}), codes, sizeof codes));
    init(&b, floats("scales", 4));
    init(&b, floats("bias", 2));
    Onnx__NodeProto *n = add_node(b.g, "MatMulNBits", "x codes scales - - bias", "y");
    n->domain = (char *)"com.microsoft";
    const char *const names[] = {"K", "N", "block_size"};
    for (int i = 0; i < 3; i++) {
        attribute(n, names[i], ATTR(INT))->i = (int64_t[]){64, 2, 32}[i];
    }
    OUTPUT(b.g, value("y", NULL));
    ls_model *model = bed_load(&b);
    world_ok(&b.w, ls_params_create(b.w.session, 1, &params));
    world_ok(&b.w, ls_model_build_params(b.w.session, model, params, NULL, NULL, 1, b.in, 1, &y));
    assert_names(params, 1, (const char *[]){"bias"});
    ls_params_destroy(params);
    ls_model_release(model);
    bed_close(&b);
}

static void another_networks_parameters_are_refused(void **state) {
    (void)state;
    bed b = bed_open(21);
    ls_model *model = roles(&b);
    ls_params *params;
    ls_tensor *y;
    world_ok(&b.w, ls_params_create(b.w.session, 1, &params));
    assert_non_null(ls_param(b.w.session, params, "w", LS_F32, LS_SHAPE(3, 3), LS_INIT_ONES, 1));
    assert_int_equal(ls_model_build_params(b.w.session, model, params, NULL, NULL, 1, b.in, 1, &y), LS_ERR_SHAPE);
    assert_non_null(strstr(ls_session_error(b.w.session)->message, "parameter \"w\": it exists with another dtype or shape"));
    ls_session_clear_error(b.w.session);
    ls_params_destroy(params);
    ls_model_release(model);
    bed_close(&b);
}

/* ---- training ---- */

enum { BATCH = 8, STEPS = 25 };

typedef struct batch {
    float images[BATCH * 28 * 28];
    int32_t labels[BATCH];
} batch;

static void draw(batch *b) {
    for (int i = 0; i < BATCH * 28 * 28; i++) {
        b->images[i] = (float)((i * 31 + i / 784 * 17) % 97) / 97;
    }
    for (int i = 0; i < BATCH; i++) {
        b->labels[i] = i % 10;
    }
}

static ls_model *open_file(world *w, ls_data *file) {
    ls_model *model = NULL;
    ls_error err = {.code = LS_OK};
    if (ls_model_load_data(w->context, "network.onnx", file, &model, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
    ls_data_release(file);
    return model;
}

/* mnist:small as a file's bytes, with seed 1's weights. */
static ls_model *small(world *w) {
    ls_params *params;
    ls_data *file;
    ls_error err = {.code = LS_OK};
    world_ok(w, ls_params_create(w->session, 1, &params));
    ls_named_tensor x = {"x", ls_input(w->session, "x", LS_F32, LS_SHAPE(BATCH, 1, 28, 28))};
    ls_named_tensor y = {"logits", ls_nn_network(w->session, params, "mnist:small", x.tensor)};
    world_ok(w, ls_onnx_encode(w->session, 1, &x, 1, &y, &file, &err));
    ls_params_destroy(params);
    return open_file(w, file);
}

static void hash_of(world *w, ls_model *model, ls_tensor *x, char out[65]) {
    ls_tensor *y;
    ls_data *data;
    world_ok(w, ls_model_build(w->session, model, 1, &x, 1, &y));
    world_ok(w, ls_data_from_tensor(w->session, y, &data));
    ls_data_sha256(data, out);
    ls_data_release(data);
}

static void train(world *w, ls_model *model, ls_params *params, const batch *data, float *out_first, float *out_last) {
    ls_session *s = w->session;
    ls_tensor *x = ls_input(s, "x", LS_F32, LS_SHAPE(BATCH, 1, 28, 28)), *labels = ls_input(s, "labels", LS_I32, LS_SHAPE(BATCH)), *y;
    ls_optimizer *optimizer;
    ls_program *program;
    world_ok(w, ls_model_build_params(s, model, params, NULL, NULL, 1, &x, 1, &y));
    ls_tensor *loss = ls_cross_entropy(s, y, labels);
    world_ok(w, ls_optimizer_create(s, params, &(ls_optimizer_options){.kind = LS_OPTIM_ADAM}, &optimizer));
    world_ok(w, ls_optimizer_step(s, optimizer, loss, ls_full(s, LS_F32, LS_SCALAR, 0.002)));
    world_ok(w, ls_program_compile(s, (ls_tensor *[]){x, labels}, 2, &loss, 1, &program));
    for (int i = 0; i < STEPS; i++) {
        world_ok(w, ls_program_run(program, (const void *[]){data->images, data->labels}, (void *[]){i ? out_last : out_first}));
    }
    ls_program_destroy(program);
    ls_optimizer_destroy(optimizer);
}

static void a_loaded_network_learns_and_is_written(void **state) {
    (void)state;
    static batch data;
    world w = world_open("cpu");
    ls_session *s = w.session;
    ls_model *model = small(&w), *trained;
    ls_params *params;
    ls_data *file, *direct;
    ls_error err = {.code = LS_OK};
    float first, last;
    char before[65], after[65], loaded[65];
    draw(&data);
    ls_tensor *x = ls_tensor_from(s, LS_F32, LS_SHAPE(BATCH, 1, 28, 28), data.images), *y;
    hash_of(&w, model, x, before);
    world_ok(&w, ls_params_create(s, 7, &params)); /* its seed decides nothing here */
    train(&w, model, params, &data, &first, &last);
    assert_int_equal(ls_params_count(params), 8);
    if (!(last < first / 2)) {
        fail_msg("the loss goes from %g to %g", (double)first, (double)last);
    }
    /* the parameters' bits, a file written with them, and what the model was */
    world_ok(&w, ls_model_build_params(s, model, params, NULL, NULL, 1, &x, 1, &y));
    world_ok(&w, ls_data_from_tensor(s, y, &direct));
    ls_data_sha256(direct, after);
    ls_named_tensor in = {"x", ls_input(s, "x", LS_F32, LS_SHAPE(BATCH, 1, 28, 28))}, out = {"logits", NULL};
    world_ok(&w, ls_model_build_params(s, model, params, NULL, NULL, 1, &in.tensor, 1, &out.tensor));
    world_ok(&w, ls_onnx_encode(s, 1, &in, 1, &out, &file, &err));
    trained = open_file(&w, file);
    hash_of(&w, trained, x, loaded);
    assert_string_equal(loaded, after);
    assert_string_not_equal(loaded, before);
    hash_of(&w, model, x, loaded);
    assert_string_equal(loaded, before);
    ls_data_release(direct);
    ls_params_destroy(params);
    ls_model_release(trained);
    ls_model_release(model);
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_parameters_and_settings_are_not),
        cmocka_unit_test(scales_of_codes_are_settings),
        cmocka_unit_test(another_networks_parameters_are_refused),
        cmocka_unit_test(a_loaded_network_learns_and_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
