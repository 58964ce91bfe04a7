/* lockstep export: a network and its weights as an .onnx file, which is loaded back and must give the network's bits. */
#include "cli/model.h"
#include <lockstep/nn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 28, TRIED = 3, BATCH_MOST = 1 << 20 };

static int fail(const cli_world *w) {
    const ls_error *e = ls_session_error(w->session);
    return cli_fail(e->code, e->message);
}

/* The batch: a symbol, so that the file takes any, or what --dim says. */
static int batch_dim(cli_world *w, cli_option *options, ls_dim *out) {
    const char *text = cli_text(options, "dim", NULL), *equals = text ? strchr(text, '=') : NULL;
    ls_error err = {.code = LS_OK};
    char *end = NULL;
    if (!text) {
        ls_symbol *batch = ls_symbol_create(w->context, "batch", BATCH_MOST, &err);
        *out = ls_dim_symbol(batch, 1, 0);
        return batch ? EXIT_FINE : cli_fail(err.code, err.message);
    }
    errno = 0;
    long long n = equals ? strtoll(equals + 1, &end, 10) : 0;
    if (cli_find(options, "dim")->count > 1 || strncmp(text, "batch=", 6) != 0 || end == equals + 1 || *end ||
        errno || n < 1 || n > BATCH_MOST) {
        return cli_error(EXIT_USAGE, "--dim %s: expected batch=N, once, with N from 1 to %d", text,
                         BATCH_MOST);
    }
    *out = ls_dim_of(n);
    return EXIT_FINE;
}

/* Runs the file on some images, and the network too; whether they are the same bits. */
static int compare(cli_world *w, const char *name, ls_params *params, const char *path, int64_t n,
                   char hash[65]) {
    ls_data *image = NULL, *network = NULL, *logits = NULL;
    ls_model *model = NULL;
    ls_runner *runner = NULL;
    ls_error err = {.code = LS_OK};
    char again[65] = "";
    ls_tensor *x =
        ls_random_normal(w->session, ls_random_key(w->session, 1), LS_SHAPE(n, 1, SIDE, SIDE), LS_F32);
    int code = EXIT_FINE;
    if (ls_data_from_tensor(w->session, x, &image) != LS_OK ||
        ls_data_from_tensor(w->session, ls_nn_network(w->session, params, name, x), &network) != LS_OK) {
        code = fail(w);
    } else if (ls_model_load(w->context, path, &model, &err) != LS_OK) {
        code = cli_fail(err.code, err.message);
    } else if (ls_runner_create(w->session, model, &runner) != LS_OK ||
               ls_runner_run(runner, 1, &(ls_named_data){"images", image}, &logits) != LS_OK) {
        code = fail(w);
    } else {
        ls_data_sha256(network, hash);
        ls_data_sha256(logits, again);
        code =
            strcmp(hash, again) == 0
                ? EXIT_FINE
                : cli_error(EXIT_DIFFERS, "%s: loaded back it gives %s, the network %s", path, again, hash);
    }
    ls_runner_destroy(runner);
    ls_model_release(model);
    ls_data_release(image);
    ls_data_release(network);
    ls_data_release(logits);
    return code;
}

static int report(cli_option *options, const char *name, const char *path, const char *weights,
                  const char *logits) {
    cJSON *root = cJSON_CreateObject();
    printf("%s: %s\nweights %s\nloaded back: the same bits\n", path, name, weights);
    cJSON_AddStringToObject(root, "model", name);
    cJSON_AddStringToObject(root, "file", path);
    cJSON_AddStringToObject(root, "weights_sha256", weights);
    cJSON_AddStringToObject(root, "logits_sha256", logits);
    return cli_json(options, root);
}

static int export_network(cli_world *w, cli_option *options, const char *name, const char *path) {
    ls_params *params = NULL;
    ls_error err = {.code = LS_OK};
    char weights[65], logits[65];
    ls_shape shape = {.rank = 4, .dim = {ls_dim_of(1), ls_dim_of(1), ls_dim_of(SIDE), ls_dim_of(SIDE)}};
    int code = batch_dim(w, options, &shape.dim[0]);
    if (code != EXIT_FINE) {
        return code;
    }
    ls_named_tensor in = {"images", ls_input(w->session, "images", LS_F32, shape)}, out = {"logits", NULL};
    code = cli_network(w, name, cli_text(options, "weights", NULL), 1, in.tensor, &params, &out.tensor);
    if (code == EXIT_FINE && (ls_onnx_save(w->session, path, 1, &in, 1, &out, &err) != LS_OK ||
                              ls_params_sha256(w->session, params, weights, &err) != LS_OK)) {
        code = cli_fail(err.code, err.message);
    }
    int64_t n = cli_given(options, "dim") ? shape.dim[0].offset : TRIED;
    code = code == EXIT_FINE ? compare(w, name, params, path, n, logits) : code;
    code = code == EXIT_FINE ? report(options, name, path, weights, logits) : code;
    ls_params_destroy(params);
    return code;
}

int cmd_export(int argc, char **argv) {
    cli_option options[] = {
        {.name = "output", .value = "FILE", .help = "the .onnx file to write"},
        {.name = "weights",
         .value = "FILE",
         .help = "what `lockstep train --save` wrote; default: the first weights of seed 1"},
        {.name = "dim", .value = "batch=N", .help = "images a run, instead of any number"},
        CLI_DEVICE_OPTIONS,
        CLI_JSON_OPTION,
        {.name = NULL},
    };
    const char *words[1];
    cli_world w;
    int code, n = cli_parse(cli_command_of("export"), options, argc, argv, words, 1, &code);
    if (n < 0) {
        return code;
    }
    const char *path = cli_text(options, "output", NULL);
    if (n != 1 || cli_is_model(words[0])) {
        return cli_error(EXIT_USAGE, "export%s%s: expected a built-in network: mnist:cnn or mnist:small", n ? " " : "", n ? words[0] : "");
    }
    if (!path) {
        return cli_error(EXIT_USAGE, "export: expected --output FILE.onnx");
    }
    if (!cli_is_model(path)) {
        return cli_error(EXIT_USAGE, "--output %s: expected a name that ends in .onnx", path);
    }
    if (!cli_can_write("output", path, false)) {
        return EXIT_USAGE;
    }
    code = cli_open(&w, options, NULL);
    code = code == EXIT_FINE ? export_network(&w, options, words[0], path) : code;
    cli_close(&w);
    return code;
}
