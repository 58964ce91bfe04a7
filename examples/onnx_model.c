/* Runs an ONNX model on any device, its inputs from .npy files.
 *
 *     onnx_model DEVICE MODEL.onnx INPUT.npy...     in the order of the model's inputs
 *
 * Prints the SHA-256 of each output: the same on every device. */
#include <lockstep/lockstep.h>
#include <stdio.h>

enum { MOST = 16 };

static int fail(const ls_error *err) {
    fprintf(stderr, "%s\n", err->message);
    return 2;
}

int main(int argc, char **argv) {
    ls_error err = {.code = LS_OK};
    ls_context *context;
    ls_device *device;
    ls_session *session;
    ls_model *model;
    ls_runner *runner;
    ls_named_data inputs[MOST];
    ls_data *outputs[MOST], *array;
    if (argc < 3 || ls_context_create(NULL, &context, &err) != LS_OK) {
        return argc < 3 ? 2 : fail(&err);
    }
    if (ls_device_open(context, argv[1], &device, &err) != LS_OK || ls_session_create(context, device, &session, &err) != LS_OK ||
        ls_model_load(context, argv[2], &model, &err) != LS_OK) {
        return fail(&err);
    }
    int n = argc - 3 < ls_model_input_count(model) ? argc - 3 : ls_model_input_count(model);
    for (int i = 0; i < n && i < MOST; i++) {
        if (ls_npy_load(context, argv[i + 3], &array, &err) != LS_OK) {
            return fail(&err);
        }
        inputs[i] = (ls_named_data){ls_model_input(model, i).name, array};
    }
    if (n > MOST || ls_model_output_count(model) > MOST || ls_runner_create(session, model, &runner) != LS_OK ||
        ls_runner_run(runner, n, inputs, outputs) != LS_OK) {
        return fail(ls_session_error(session));
    }
    for (int i = 0; i < ls_model_output_count(model); i++) {
        char hash[65];
        ls_data_sha256(outputs[i], hash);
        printf("%s  %s\n", hash, ls_model_output(model, i).name);
        ls_data_release(outputs[i]);
    }
    for (int i = 0; i < n; i++) {
        ls_data_release((ls_data *)inputs[i].data);
    }
    ls_runner_destroy(runner);
    ls_session_destroy(session);
    ls_model_release(model);
    ls_context_destroy(context);
    return 0;
}
