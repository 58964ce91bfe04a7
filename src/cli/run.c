/* lockstep run: a network's outputs, their hashes, and how long a run takes. */
#include "cli/input.h"
#include "cli/model.h"
#include "cli/picture.h"
#include "cli/sound.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int fail(cli_world *w) {
    return cli_fail(ls_session_error(w->session)->code, ls_session_error(w->session)->message);
}

/* Runs `repeat` times; the median in *out_ms, what all took is added to *out_seconds. */
static int run_program(cli_world *w, cli_option *options, ls_program *program, const ls_data *images, ls_data *logits,
                       int64_t repeat, double *out_ms, double *out_seconds) {
    double *ms = malloc(sizeof *ms * (size_t)repeat);
    const void *inputs[1] = {ls_data_bytes(images)};
    void *outputs[1] = {(void *)ls_data_bytes(logits)};
    int code = ms ? EXIT_FINE : cli_error(EXIT_USAGE, "out of memory for %lld runs", (long long)repeat);
    ls_program_set_profile(program, cli_given(options, "profile"));
    for (int64_t i = 0; i < repeat && code == EXIT_FINE; i++) {
        double start = cli_now_ms();
        code = ls_program_run(program, inputs, outputs) == LS_OK ? EXIT_FINE : fail(w);
        ms[i] = cli_now_ms() - start;
        *out_seconds += ms[i] * 1e-3;
    }
    if (code == EXIT_FINE) {
        cli_sort(ms, (size_t)repeat);
        *out_ms = ms[repeat / 2];
    }
    free(ms);
    return code;
}

static int report(cli_world *w, cli_option *options, const ls_data *logits, double ms, const ls_program *program,
                  double seconds) {
    char hex[65], path[1024];
    const char *folder = cli_text(options, "output", NULL);
    ls_error err = {.code = LS_OK};
    ls_data_sha256(logits, hex);
    printf("logits f32 [%lld,10]  sha256 %s  median %.3f ms on %s\n", (long long)ls_data_dims(logits)[0], hex,
           ms, ls_device_id(w->device));
    const float *x = ls_data_bytes(logits);
    for (int64_t i = 0; i < ls_data_dims(logits)[0] && i < 10; i++) {
        for (int k = 0; k < 10; k++) {
            printf("%s%.6g", k ? " " : "", (double)x[i * 10 + k]);
        }
        printf("\n");
    }
    if (folder) {
        mkdir(folder, 0777); /* an error shows when the file is written */
        snprintf(path, sizeof path, "%s/logits.npy", folder);
        if (ls_npy_save(w->context, path, logits, &err) != LS_OK) {
            return cli_fail(err.code, err.message);
        }
    }
    cJSON *root = cJSON_CreateObject(), *outputs = cJSON_AddArrayToObject(root, "outputs"),
          *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", "logits");
    cJSON_AddStringToObject(o, "dtype", "f32");
    cJSON *shape = cJSON_AddArrayToObject(o, "shape");
    for (int i = 0; i < 2; i++) {
        cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)ls_data_dims(logits)[i]));
    }
    cJSON_AddStringToObject(o, "sha256", hex);
    cJSON_AddItemToArray(outputs, o);
    cJSON_AddStringToObject(root, "device", ls_device_id(w->device));
    cJSON_AddNumberToObject(root, "median_ms", ms);
    if (cli_given(options, "profile")) {
        int code = cli_profile(program, seconds, root);
        if (code != EXIT_FINE) {
            cJSON_Delete(root);
            return code;
        }
    }
    return cli_json(options, root);
}

static int run_model(cli_world *w, cli_option *options, const char *model, const ls_data *images) {
    int64_t repeat = 1, dims[2] = {ls_data_dims(images)[0], 10};
    double seconds = 0;
    ls_params *params = NULL;
    ls_program *program = NULL;
    ls_data *logits = NULL;
    ls_tensor *x = ls_input(w->session, "images", LS_F32, cli_shape(images)), *y = NULL;
    ls_error err = {.code = LS_OK};
    double ms = 0;
    if (!cli_int(options, "repeat", 1, 1000000, &repeat)) {
        return EXIT_USAGE;
    }
    int code = cli_network(w, model, cli_text(options, "weights", NULL), 1, x, &params, &y);
    if (code == EXIT_FINE && ls_program_compile(w->session, &x, 1, &y, 1, &program) != LS_OK) {
        code = fail(w);
    }
    if (code == EXIT_FINE && ls_data_create(w->context, LS_F32, 2, dims, NULL, &logits, &err) != LS_OK) {
        code = cli_fail(err.code, err.message);
    }
    code = code == EXIT_FINE ? run_program(w, options, program, images, logits, repeat, &ms, &seconds) : code;
    code = code == EXIT_FINE ? report(w, options, logits, ms, program, seconds) : code;
    ls_data_release(logits);
    ls_program_destroy(program);
    ls_params_destroy(params);
    return code;
}

int cmd_run(int argc, char **argv) {
    cli_option options[] = {
        CLI_INPUT_OPTIONS,
        CLI_BOUND_OPTION,
        CLI_DEVICE_OPTIONS,
        CLI_PICTURE_OPTIONS,
        CLI_SOUND_OPTIONS,
        {.name = "top", .value = "K", .help = "also print the K largest of each output's last axis"},
        {.name = "labels", .value = "FILE", .help = "their names, one a line"},
        {.name = "output", .value = "DIR", .help = "write each output as DIR/NAME.npy"},
        {.name = "repeat", .value = "N", .help = "runs, of which the median time is printed; default 1"},
        CLI_PROFILE_OPTION,
        CLI_JSON_OPTION,
        {.name = NULL},
    };
    const char *words[1];
    cli_world w;
    int code, n = cli_parse(cli_command_of("run"), options, argc, argv, words, 1, &code);
    if (n < 0) {
        return code;
    }
    if (n != 1) {
        return cli_error(EXIT_USAGE, "run: expected a network: " CLI_MODEL_USAGE);
    }
    const char *folder = cli_text(options, "output", NULL);
    if (cli_given(options, "labels") && !cli_given(options, "top")) {
        return cli_error(EXIT_USAGE, "run: --labels: expected --top with it, whose lines it names");
    }
    if (cli_given(options, "labels") && !cli_can_read_labels(cli_text(options, "labels", ""))) {
        return EXIT_USAGE;
    }
    if (folder && !cli_can_write("output", folder, true)) {
        return EXIT_USAGE;
    }
    code = cli_open(&w, options, NULL);
    if (code == EXIT_FINE && cli_is_model(words[0])) {
        code = cli_run_model(&w, options, words[0]);
        cli_close(&w);
        return code;
    }
    ls_data *images = code == EXIT_FINE ? cli_images(w.context, options, &code) : NULL;
    code = code == EXIT_FINE ? run_model(&w, options, words[0], images) : code;
    ls_data_release(images);
    cli_close(&w);
    return code;
}
