/* lockstep inspect: what a network becomes on its way to a device. */
#include "cli/input.h"
#include "cli/model.h"
#include "cli/picture.h"
#include "cli/sound.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KERNEL_NAME = 64 };

/* What is asked for. */
typedef struct request {
    cli_world *w;
    unsigned parts;
    bool strategies, report;
    cJSON *root; /* gets the same as strings, for --json */
} request;
static const struct part {
    const char *name;
    unsigned part;
} parts[] = {{"graph", LS_INSPECT_GRAPH},
             {"groups", LS_INSPECT_GROUPS},
             {"specs", LS_INSPECT_SPECS},
             {"kernels", LS_INSPECT_KERNELS},
             {"memory", LS_INSPECT_MEMORY}};
enum { PARTS = sizeof parts / sizeof *parts };

static void write_text(void *user, const char *text, size_t size) {
    fwrite(text, 1, size, user);
}

static void keep_text(void *user, const char *text, size_t size) {
    char *copy = malloc(size + 1);
    if (copy) {
        memcpy(copy, text, size);
        copy[size] = '\0';
    }
    *(char **)user = copy;
}

typedef struct strategies {
    char last[KERNEL_NAME]; /* the kernel of the line before */
    cJSON *list;
} strategies;

/* One line a strategy, the kernel's name before the first. */
static void write_strategy(void *user, const char *kernel, const char *device, const char *strategy,
                           ls_strategy_state state, const char *reason) {
    static const char *const states[] = {"available", "not available here", "WRONG"};
    strategies *t = user;
    if (strcmp(t->last, kernel) != 0) {
        printf("%s on %s\n", kernel, device);
        snprintf(t->last, KERNEL_NAME, "%s", kernel);
    }
    printf("  %-10s %s%s%s\n", strategy, states[state], *reason ? ": " : "", reason);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "kernel", kernel);
    cJSON_AddStringToObject(o, "device", device);
    cJSON_AddStringToObject(o, "strategy", strategy);
    cJSON_AddStringToObject(o, "state", states[state]);
    cJSON_AddStringToObject(o, "reason", reason);
    cJSON_AddItemToArray(t->list, o);
}

static int fail(const cli_world *w) {
    return cli_fail(ls_session_error(w->session)->code, ls_session_error(w->session)->message);
}

static int print_strategies(const request *r, ls_tensor *const *inputs, int n_inputs, ls_tensor *const *outputs, int n_outputs) {
    strategies t = {.list = cJSON_AddArrayToObject(r->root, "strategies")};
    ls_program *program = NULL;
    ls_status status = ls_program_compile(r->w->session, inputs, n_inputs, outputs, n_outputs, &program);
    status = status == LS_OK ? ls_strategy_list(program, write_strategy, &t) : status;
    ls_program_destroy(program);
    return status == LS_OK ? EXIT_FINE : fail(r->w);
}

static int print_parts(const request *r, ls_tensor *const *inputs, int n_inputs, ls_tensor *const *outputs, int n_outputs) {
    ls_session *s = r->w->session;
    if (r->parts && ls_inspect(s, outputs, n_outputs, r->parts, write_text, stdout) != LS_OK) {
        return fail(r->w);
    }
    for (int i = 0; i < PARTS; i++) {
        char *text = NULL;
        if (r->report && r->parts & parts[i].part) {
            if (ls_inspect(s, outputs, n_outputs, parts[i].part, keep_text, &text) != LS_OK) {
                return fail(r->w);
            }
            cJSON_AddStringToObject(r->root, parts[i].name, text ? text : "");
            free(text);
        }
    }
    return r->strategies ? print_strategies(r, inputs, n_inputs, outputs, n_outputs) : EXIT_FINE;
}

static int inspect_network(request *r, cli_option *options, const char *name) {
    ls_params *params = NULL;
    ls_tensor *x = NULL, *logits = NULL;
    int code;
    ls_data *images = cli_images(r->w->context, options, &code);
    if (code == EXIT_FINE) {
        x = ls_input(r->w->session, "images", LS_F32, cli_shape(images));
        code = cli_network(r->w, name, cli_text(options, "weights", NULL), 1, x, &params, &logits);
    }
    r->parts = r->parts || r->strategies ? r->parts : LS_INSPECT_GRAPH | LS_INSPECT_GROUPS | LS_INSPECT_SPECS | LS_INSPECT_MEMORY;
    code = code == EXIT_FINE ? print_parts(r, &x, 1, &logits, 1) : code;
    ls_params_destroy(params);
    ls_data_release(images);
    return code;
}

/* What a model becomes. */
static int inspect_model(const request *r, cli_option *options, const char *path) {
    cli_model m;
    int n = 0, code = cli_model_open(&m, r->w->context, options, path);
    if (code != EXIT_FINE) {
        return code;
    }
    ls_tensor **inputs = calloc((size_t)m.n_inputs + 1, sizeof *inputs), **outputs = calloc((size_t)m.n_outputs + 1, sizeof *outputs);
    code = inputs && outputs ? cli_model_build(&m, r->w->session, inputs, &n, outputs) : cli_error(EXIT_USAGE, "out of memory for a model");
    code = code == EXIT_FINE ? print_parts(r, inputs, n, outputs, m.n_outputs) : code;
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
    const char *words[1];
    cli_world w;
    int code, n = cli_parse(cli_command_of("inspect"), options, argc, argv, words, 1, &code);
    if (n < 0) {
        return code;
    }
    if (n != 1) {
        return cli_error(EXIT_USAGE, "inspect: expected a network: " CLI_MODEL_USAGE);
    }
    request r = {.w = &w, .strategies = cli_given(options, "strategies"), .report = cli_given(options, "json")};
    for (int i = 0; i < PARTS; i++) {
        r.parts |= cli_given(options, parts[i].name) ? parts[i].part : 0;
    }
    code = cli_open(&w, options, NULL);
    if (code != EXIT_FINE) {
        return code;
    }
    if (cli_is_model(words[0]) && !r.parts && !r.strategies) { /* what the file says */
        code = cli_describe_model(&w, options, words[0]);
        cli_close(&w);
        return code;
    }
    r.root = cJSON_CreateObject();
    cJSON_AddStringToObject(r.root, "model", words[0]);
    cJSON_AddStringToObject(r.root, "device", ls_device_id(w.device));
    code = cli_is_model(words[0]) ? inspect_model(&r, options, words[0]) : inspect_network(&r, options, words[0]);
    cli_close(&w);
    if (code != EXIT_FINE) {
        cJSON_Delete(r.root);
        return code;
    }
    return cli_json(options, r.root);
}
