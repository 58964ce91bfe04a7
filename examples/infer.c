/* Loads a network's weights from a safetensors file and tells which digit each image shows.
 *
 *     infer WEIGHTS.safetensors IMAGES.npy     images f32 [N,1,28,28], as the network was trained on them
 *
 * Without arguments it first makes both files itself: the weights that seed 1 begins with, and four images. Any
 * network that is saved by `lockstep train mnist --model small --save FILE` does in their place. */
#include <lockstep/lockstep.h>
#include <stdio.h>

static int fail(const char *what, const char *message) {
    fprintf(stderr, "%s: %s\n", what, message);
    return 1;
}

static int make_files(ls_session *s) {
    static float pixels[4 * 784];
    const int64_t dims[4] = {4, 1, 28, 28};
    ls_context *context = ls_session_context(s);
    ls_error err = {.code = LS_OK};
    ls_params *params = NULL;
    ls_data *images = NULL;
    for (int i = 0; i < 4 * 784; i++) {
        pixels[i] = i % 28 == 10 + i / 784 * 3 ? 2.8f : -0.4f; /* a stroke that moves to the right */
    }
    ls_status status = ls_data_create(context, LS_F32, 4, dims, pixels, &images, &err);
    if (status == LS_OK) {
        status = ls_npy_save(context, "images.npy", images, &err);
    }
    if (status == LS_OK) {
        status = ls_params_create(s, 1, &params);
    }
    if (status == LS_OK &&
        ls_nn_network(s, params, "mnist:small", ls_input(s, "x", LS_F32, LS_SHAPE(1, 1, 28, 28)))) {
        status = ls_params_save(s, params, "weights.safetensors", &err);
    }
    ls_params_destroy(params);
    ls_data_release(images);
    return status == LS_OK ? 0 : fail("making the files", err.message);
}

static int classify(ls_session *s, ls_params *params, const char *weights, const ls_data *images) {
    ls_error err = {.code = LS_OK};
    ls_tensor *logits =
        ls_nn_network(s, params, "mnist:small", ls_data_to_tensor(s, images)); /* makes the parameters */
    if (logits && ls_params_load(s, params, weights, &err) != LS_OK) {
        return fail("loading", err.message);
    }
    logits = ls_nn_network(s, params, "mnist:small",
                           ls_data_to_tensor(s, images)); /* with the values just loaded */
    ls_tensor *digits = ls_argmax(s, logits, 1, (const int[]){1}, 0);
    ls_data *found = NULL;
    if (ls_data_from_tensor(s, digits, &found) != LS_OK) {
        return fail("running", ls_session_error(s)->message);
    }
    for (int64_t i = 0; i < ls_data_numel(found); i++) {
        printf("image %d shows a %d\n", (int)i, (int)((const int64_t *)ls_data_bytes(found))[i]);
    }
    ls_data_release(found);
    return 0;
}

int main(int argc, char **argv) {
    const char *weights = argc == 3 ? argv[1] : "weights.safetensors",
               *path = argc == 3 ? argv[2] : "images.npy";
    ls_error err = {.code = LS_OK};
    ls_context *context = NULL;
    ls_session *s = NULL;
    ls_params *params = NULL;
    ls_data *images = NULL;
    int code = 1;
    if (ls_context_create(NULL, &context, &err) != LS_OK ||
        ls_session_create(context, NULL, &s, &err) != LS_OK) {
        return fail("starting", err.message);
    }
    if (argc == 3 || make_files(s) == 0) {
        if (ls_npy_load(context, path, &images, &err) != LS_OK || ls_params_create(s, 1, &params) != LS_OK) {
            fail("reading", err.message);
        } else {
            code = classify(s, params, weights, images);
        }
    }
    ls_params_destroy(params);
    ls_data_release(images);
    ls_session_destroy(s);
    ls_context_destroy(context);
    return code;
}
