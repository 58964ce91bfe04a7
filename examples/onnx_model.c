/* Runs an ONNX model on any device, its inputs from .npy files.
 *
 *     onnx_model DEVICE MODEL.onnx INPUT.npy...     in the order of the model's inputs
 *
 * Prints the SHA-256 of each output: the same on every device. */
#include <lockstep/lockstep.h>
#include <stdio.h>

enum { MOST = 16 };

int main(int argc, char **argv) {
    ls_error err = {.code = LS_OK};
    ls_context *context = NULL;
    ls_device *device = NULL;
    ls_session *session = NULL;
    ls_model *model = NULL;
    ls_runner *runner = NULL;
    ls_named_data inputs[MOST];
    ls_data *outputs[MOST], *array;
    if (argc < 3 || argc - 3 > MOST) {
        fprintf(stderr, "usage: onnx_model DEVICE MODEL.onnx INPUT.npy...   (at most %d)\n", MOST);
        return 2;
    }
    int n = 0, good = ls_context_create(NULL, &context, &err) == LS_OK &&
                      ls_device_open(context, argv[1], &device, &err) == LS_OK &&
                      ls_session_create(context, device, &session, &err) == LS_OK &&
                      ls_model_load(context, argv[2], &model, &err) == LS_OK &&
                      ls_runner_create(session, model, &runner) == LS_OK;
    for (; good && n < argc - 3 && n < ls_model_input_count(model); n += good) {
        good = ls_npy_load(context, argv[n + 3], &array, &err) == LS_OK;
        inputs[n] = (ls_named_data){ls_model_input(model, n).name, array};
    }
    good = good && ls_model_output_count(model) <= MOST && ls_runner_run(runner, n, inputs, outputs) == LS_OK;
    for (int i = 0; good && i < ls_model_output_count(model); i++) {
        char hash[65];
        ls_data_sha256(outputs[i], hash);
        printf("%s  %s\n", hash, ls_model_output(model, i).name);
        ls_data_release(outputs[i]);
    }
    if (!good) { /* what a session does fails in the session, all else where it is called */
        fprintf(stderr, "%s\n", err.code != LS_OK ? err.message : ls_session_error(session)->message);
    }
    while (n > 0) {
        ls_data_release((ls_data *)inputs[--n].data);
    }
    ls_runner_destroy(runner);
    ls_session_destroy(session);
    ls_model_release(model);
    ls_context_destroy(context);
    return good ? 0 : 2;
}
