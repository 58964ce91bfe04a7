/* Trains a network for 30 steps, writes it as an ONNX file for other programs to run, loads that file back, and shows that it computes the same
 * bits.
 *
 *     export_onnx [FILE.onnx]     without one: network.onnx */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <string.h>

enum { POINTS = 64, STEPS = 30, MOST = 1024 };

/* Which of two arms of a spiral is a point on? */
static ls_tensor *network(ls_session *s, ls_params *p, ls_tensor *x) {
    x = ls_gelu(s, ls_nn_linear(s, p, "fc1", x, 32));
    x = ls_nn_layer_norm(s, p, "norm", x);
    return ls_nn_linear(s, p, "fc2", x, 2);
}

static void draw(float x[POINTS][2], int32_t label[POINTS]) {
    for (int i = 0; i < POINTS; i++) {
        float t = (float)(i / 2) / (POINTS / 2), side = i % 2 ? 1.0f : -1.0f;
        x[i][0] = side * t;
        x[i][1] = side * (0.5f - 4 * t * (1 - t));
        label[i] = i % 2;
    }
}

static ls_status train(ls_session *s, ls_params *p, float *out_first, float *out_last) {
    static float points[POINTS][2], rate = 0.01f;
    static int32_t labels[POINTS];
    ls_tensor *x = ls_input(s, "x", LS_F32, LS_SHAPE(POINTS, 2)),
              *y = ls_input(s, "y", LS_I32, LS_SHAPE(POINTS));
    ls_tensor *r = ls_input(s, "rate", LS_F32, LS_SCALAR), *inputs[] = {x, y, r},
              *loss = ls_cross_entropy(s, network(s, p, x), y);
    ls_optimizer_options options = {.kind = LS_OPTIM_ADAM};
    ls_optimizer *optimizer = NULL;
    ls_program *step = NULL;
    draw(points, labels);
    ls_status status = ls_optimizer_create(s, p, &options, &optimizer);
    status = status == LS_OK ? ls_optimizer_step(s, optimizer, loss, r) : status;
    status = status == LS_OK ? ls_program_compile(s, inputs, 3, &loss, 1, &step) : status;
    for (int i = 0; i < STEPS && status == LS_OK; i++) {
        status = ls_program_run(step, (const void *[]){points, labels, &rate},
                                (void *[]){i ? out_last : out_first});
    }
    ls_program_destroy(step);
    ls_optimizer_destroy(optimizer);
    return status;
}

/* Any number of points: the batch is a symbol, and a dimension "batch" of the file. */
static ls_status save(ls_session *s, ls_params *p, const char *path, ls_error *err) {
    ls_symbol *batch = ls_symbol_create(ls_session_context(s), "batch", MOST, err);
    ls_shape shape = {.rank = 2, .dim = {ls_dim_symbol(batch, 1, 0), ls_dim_of(2)}};
    ls_named_tensor x = {"x", ls_input(s, "x", LS_F32, shape)}, logits = {"logits", network(s, p, x.tensor)};
    return ls_onnx_save(s, path, 1, &x, 1, &logits, err);
}

static ls_status run_file(ls_session *s, const char *path, const ls_data *points, char out_hash[65],
                          ls_error *err) {
    ls_model *model = NULL;
    ls_runner *runner = NULL;
    ls_data *logits = NULL;
    ls_status status = ls_model_load(ls_session_context(s), path, &model, err);
    status = status == LS_OK ? ls_runner_create(s, model, &runner) : status;
    status = status == LS_OK ? ls_runner_run(runner, 1, &(ls_named_data){"x", points}, &logits) : status;
    if (status == LS_OK) {
        ls_data_sha256(logits, out_hash);
    }
    ls_data_release(logits);
    ls_runner_destroy(runner);
    ls_model_release(model);
    return status;
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "network.onnx";
    float points[5][2] = {{0.1f, -0.2f}, {0.5f, 0.3f}, {-0.7f, 0.9f}, {0, 0}, {1, 1}}, first = 0, last = 0;
    char ours[65] = "", theirs[65] = "";
    ls_error err = {.code = LS_OK};
    ls_context *context = NULL;
    ls_session *s = NULL;
    ls_params *params = NULL;
    ls_data *data = NULL, *logits = NULL;
    ls_status status = ls_context_create(NULL, &context, &err);
    status = status == LS_OK ? ls_session_create(context, NULL, &s, &err) : status;
    status = status == LS_OK ? ls_params_create(s, 1, &params) : status;
    status = status == LS_OK ? train(s, params, &first, &last) : status;
    status = status == LS_OK ? save(s, params, path, &err) : status;
    status = status == LS_OK
                 ? ls_data_create(context, LS_F32, 2, (const int64_t[]){5, 2}, points, &data, &err)
                 : status;
    status = status == LS_OK ? ls_data_from_tensor(s, network(s, params, ls_data_to_tensor(s, data)), &logits)
                             : status;
    status = status == LS_OK ? run_file(s, path, data, theirs, &err) : status;
    if (status == LS_OK) {
        ls_data_sha256(logits, ours);
        printf("loss %.4f, after %d steps %.4f\nnetwork  %s\n%s  %s\n", (double)first, STEPS, (double)last,
               ours, path, theirs);
    } else {
        fprintf(stderr, "%s\n", err.code != LS_OK || !s ? err.message : ls_session_error(s)->message);
    }
    ls_data_release(data);
    ls_data_release(logits);
    ls_params_destroy(params);
    ls_session_destroy(s);
    ls_context_destroy(context);
    return status == LS_OK && last < first && strcmp(ours, theirs) == 0 ? 0 : 1;
}
