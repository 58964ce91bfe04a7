/* lockstep inspect: what a network becomes on its way to a device. */
#include "cli/input.h"
#include <stdio.h>

static void write_text(void *user, const char *text, size_t size) {
    fwrite(text, 1, size, user);
}

int cmd_inspect(int argc, char **argv) {
    cli_option options[] = {
        CLI_INPUT_OPTIONS,
        CLI_DEVICE_OPTIONS,
        {.name = "graph", .help = "the simplified graph"},
        {.name = "groups", .help = "which operations share a kernel"},
        {.name = "specs", .help = "what each kernel means"},
        {.name = "kernels", .help = "what the device made of it"},
        {.name = "memory", .help = "where each value lives, and every copy"},
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
    int code, n = cli_parse(&cli_commands[6], options, argc, argv, words, 1, &code);
    if (n < 0) {
        return code;
    }
    if (n != 1) {
        return cli_error(EXIT_USAGE, "inspect: expected a network: mnist:cnn or mnist:small");
    }
    unsigned wanted = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        wanted |= cli_given(options, parts[i].name) ? parts[i].part : 0;
    }
    wanted = wanted ? wanted : LS_INSPECT_GRAPH | LS_INSPECT_GROUPS | LS_INSPECT_SPECS | LS_INSPECT_MEMORY;
    code = cli_open(&w, options, NULL);
    if (code != EXIT_FINE) {
        return code;
    }
    ls_params *params = NULL;
    ls_tensor *logits = NULL;
    ls_data *images = cli_images(w.context, options, &code);
    if (code == EXIT_FINE) {
        ls_tensor *x = ls_input(w.session, "images", LS_F32, cli_shape(images));
        code = cli_network(&w, words[0], cli_text(options, "weights", NULL), 1, x, &params, &logits);
    }
    if (code == EXIT_FINE && ls_inspect(w.session, &logits, 1, wanted, write_text, stdout) != LS_OK) {
        code = cli_fail(ls_session_error(w.session)->code, ls_session_error(w.session)->message);
    }
    ls_params_destroy(params);
    ls_data_release(images);
    cli_close(&w);
    return code;
}
