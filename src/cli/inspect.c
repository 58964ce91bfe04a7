/* lockstep inspect: what a network becomes on its way to a device. */
#include "cli/input.h"
#include "cli/model.h"
#include "cli/picture.h"
#include "cli/sound.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KERNEL_NAME = 64 };

static void write_text(void *user, const char *text, size_t size) {
    fwrite(text, 1, size, user);
}

/* One line a strategy, the kernel's name before the first. */
static void write_strategy(void *user, const char *kernel, const char *device, const char *strategy,
                           ls_strategy_state state, const char *reason) {
    static const char *const states[] = {"available", "not available here", "WRONG"};
    char *last = user;
    if (strcmp(last, kernel) != 0) {
        printf("%s on %s\n", kernel, device);
        snprintf(last, KERNEL_NAME, "%s", kernel);
    }
    printf("  %-10s %s%s%s\n", strategy, states[state], *reason ? ": " : "", reason);
}

static int print_strategies(cli_world *w, ls_tensor *const *inputs, int n_inputs, ls_tensor *const *outputs, int n_outputs) {
    char last[KERNEL_NAME] = "";
    ls_program *program = NULL;
    ls_status status = ls_program_compile(w->session, inputs, n_inputs, outputs, n_outputs, &program);
    status = status == LS_OK ? ls_strategy_list(program, write_strategy, last) : status;
    ls_program_destroy(program);
    return status == LS_OK ? EXIT_FINE
                           : cli_fail(ls_session_error(w->session)->code, ls_session_error(w->session)->message);
}

static int print_parts(cli_world *w, unsigned wanted, bool strategies, ls_tensor *const *inputs, int n_inputs,
                       ls_tensor *const *outputs, int n_outputs) {
    if (wanted && ls_inspect(w->session, outputs, n_outputs, wanted, write_text, stdout) != LS_OK) {
        return cli_fail(ls_session_error(w->session)->code, ls_session_error(w->session)->message);
    }
    return strategies ? print_strategies(w, inputs, n_inputs, outputs, n_outputs) : EXIT_FINE;
}

static int inspect_network(cli_world *w, cli_option *options, const char *name, unsigned wanted, bool strategies) {
    ls_params *params = NULL;
    ls_tensor *x = NULL, *logits = NULL;
    int code;
    ls_data *images = cli_images(w->context, options, &code);
    if (code == EXIT_FINE) {
        x = ls_input(w->session, "images", LS_F32, cli_shape(images));
        code = cli_network(w, name, cli_text(options, "weights", NULL), 1, x, &params, &logits);
    }
    wanted = wanted || strategies ? wanted : LS_INSPECT_GRAPH | LS_INSPECT_GROUPS | LS_INSPECT_SPECS | LS_INSPECT_MEMORY;
    code = code == EXIT_FINE ? print_parts(w, wanted, strategies, &x, 1, &logits, 1) : code;
    ls_params_destroy(params);
    ls_data_release(images);
    return code;
}

/* What the file says; and, when parts are asked for, what it becomes. */
static int inspect_model(cli_world *w, cli_option *options, const char *path, unsigned wanted, bool strategies) {
    cli_model m;
    if (!wanted && !strategies) {
        return cli_describe_model(w, options, path);
    }
    int n = 0, code = cli_model_open(&m, w->context, options, path);
    if (code != EXIT_FINE) {
        return code;
    }
    ls_tensor **inputs = calloc((size_t)m.n_inputs + 1, sizeof *inputs), **outputs = calloc((size_t)m.n_outputs + 1, sizeof *outputs);
    code = inputs && outputs ? cli_model_build(&m, w->session, inputs, &n, outputs) : cli_error(EXIT_USAGE, "out of memory for a model");
    code = code == EXIT_FINE ? print_parts(w, wanted, strategies, inputs, n, outputs, m.n_outputs) : code;
    free(inputs);
    free(outputs);
    cli_model_close(&m);
    return code;
}

int cmd_inspect(int argc, char **argv) {
    cli_option options[] = {
        CLI_INPUT_OPTIONS,
        CLI_BOUND_OPTION,
        CLI_PICTURE_OPTIONS,
        CLI_SOUND_OPTIONS,
        CLI_DEVICE_OPTIONS,
        {.name = "graph", .help = "the simplified graph"},
        {.name = "groups", .help = "which operations share a kernel"},
        {.name = "specs", .help = "what each kernel means"},
        {.name = "kernels", .help = "what the device made of it"},
        {.name = "memory", .help = "where each value lives, and every copy"},
        {.name = "strategies", .help = "how each kernel can be computed, and why not otherwise; slow"},
        CLI_JSON_OPTION,
        {.name = NULL},
    };
    static const struct {
        const char *name;
        unsigned part;
    } parts[] = {{"graph", LS_INSPECT_GRAPH},
                 {"groups", LS_INSPECT_GROUPS},
                 {"specs", LS_INSPECT_SPECS},
                 {"kernels", LS_INSPECT_KERNELS},
                 {"memory", LS_INSPECT_MEMORY}};
    const char *words[1];
    cli_world w;
    int code, n = cli_parse(cli_command_of("inspect"), options, argc, argv, words, 1, &code);
    if (n < 0) {
        return code;
    }
    if (n != 1) {
        return cli_error(EXIT_USAGE, "inspect: expected a network: " CLI_MODEL_USAGE);
    }
    unsigned wanted = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        wanted |= cli_given(options, parts[i].name) ? parts[i].part : 0;
    }
    bool strategies = cli_given(options, "strategies");
    code = cli_open(&w, options, NULL);
    if (code != EXIT_FINE) {
        return code;
    }
    code = cli_is_model(words[0]) ? inspect_model(&w, options, words[0], wanted, strategies)
                                  : inspect_network(&w, options, words[0], wanted, strategies);
    cli_close(&w);
    return code;
}
