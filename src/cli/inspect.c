/* lockstep inspect: what a network becomes on its way to a device. */
#include "cli/input.h"
#include <stdio.h>
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

static int print_strategies(cli_world *w, ls_tensor *x, ls_tensor *logits) {
    char last[KERNEL_NAME] = "";
    ls_program *program = NULL;
    ls_status status = ls_program_compile(w->session, &x, 1, &logits, 1, &program);
    status = status == LS_OK ? ls_strategy_list(program, write_strategy, last) : status;
    ls_program_destroy(program);
    return status == LS_OK ? EXIT_FINE
                           : cli_fail(ls_session_error(w->session)->code, ls_session_error(w->session)->message);
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
        {.name = "strategies", .help = "how each kernel can be computed, and why not otherwise; slow"},
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
    bool strategies = cli_given(options, "strategies");
    wanted = wanted || strategies ? wanted : LS_INSPECT_GRAPH | LS_INSPECT_GROUPS | LS_INSPECT_SPECS | LS_INSPECT_MEMORY;
    code = cli_open(&w, options, NULL);
    if (code != EXIT_FINE) {
        return code;
    }
    ls_params *params = NULL;
    ls_tensor *x = NULL, *logits = NULL;
    ls_data *images = cli_images(w.context, options, &code);
    if (code == EXIT_FINE) {
        x = ls_input(w.session, "images", LS_F32, cli_shape(images));
        code = cli_network(&w, words[0], cli_text(options, "weights", NULL), 1, x, &params, &logits);
    }
    if (code == EXIT_FINE && wanted && ls_inspect(w.session, &logits, 1, wanted, write_text, stdout) != LS_OK) {
        code = cli_fail(ls_session_error(w.session)->code, ls_session_error(w.session)->message);
    }
    code = code == EXIT_FINE && strategies ? print_strategies(&w, x, logits) : code;
    ls_params_destroy(params);
    ls_data_release(images);
    cli_close(&w);
    return code;
}
