/* lockstep verify: every kernel of a network on each device, against the references, on the kernel's own inputs; and the outputs from end
 * to end. */
#include "cli/input.h"
#include "cli/model.h"
#include "cli/page.h"
#include "cli/picture.h"
#include "cli/sound.h"
#include "cli/report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double share(int64_t part, int64_t all) {
    return all ? (double)part / (double)all : 0;
}

static bool is_wrong(const ls_kernel_report *k) {
    return report_wrong(k)->verdict == LS_DIFFERS;
}

/* Wrong ones first, in execution order; then by share of the bound. */
static int worst_first(const void *a, const void *b) {
    const ls_kernel_report *x = *(const ls_kernel_report *const *)a, *y = *(const ls_kernel_report *const *)b;
    if (is_wrong(x) || is_wrong(y)) {
        return is_wrong(x) && is_wrong(y) ? (x > y) - (x < y) : is_wrong(x) ? -1 : 1;
    }
    double p = x->oracle.worst_of_bound, q = y->oracle.worst_of_bound;
    return p < q ? 1 : p > q ? -1 : (x > y) - (x < y);
}

/* What a model calls it, else its operation in the graph. */
static const char *name_of(const ls_kernel_report *k) {
    return k->n_origins ? k->origins[0] : k->node;
}

static int print_kernels(const ls_verification *v, int64_t most) {
    const ls_kernel_report **list = malloc(sizeof(void *) * (size_t)(v->n_kernels + 1));
    if (!list) {
        return cli_error(EXIT_USAGE, "out of memory for %d kernels", v->n_kernels);
    }
    for (int i = 0; i < v->n_kernels; i++) {
        list[i] = &v->kernels[i];
    }
    qsort(list, (size_t)v->n_kernels, sizeof *list, worst_first);
    int64_t n = v->n_kernels < most ? v->n_kernels : most;
    if (n) {
        printf("  %-4s %-28s %-28s %-11s %-12s %s\n", "", "kernel", "of", "ref", "of the bound", "blind");
    }
    for (int64_t i = 0; i < n; i++) {
        const ls_kernel_report *k = list[i];
        const char *ref = !k->ref_done ? "-" : k->ref.verdict == LS_SAME ? "same bits" : "DIFFERS";
        char name[32];
        size_t length = strlen(name_of(k)), cut = length > 28 ? length - 25 : 0; /* the end of a path tells */
        snprintf(name, sizeof name, "%s%s", cut ? "..." : "", name_of(k) + cut);
        printf("  %-4d %-28.28s %-28s %-11s %-12.4f %6.2f %%", (int)(k - v->kernels), k->kernel, name, ref, k->oracle.worst_of_bound,
               100 * share(k->oracle.blind, k->oracle.elements));
        if (is_wrong(k)) {
            printf("  %s: %s", k->node, report_wrong(k)->message);
        }
        printf("\n");
    }
    if (n < v->n_kernels) {
        printf("  and %lld kernels that are no worse\n", (long long)(v->n_kernels - n));
    }
    free(list);
    return EXIT_FINE;
}

/* ---- what is verified ---- */

typedef struct subject {
    cli_world w;
    bool is_model;
    cli_model model;   /* else a built-in network: */
    ls_params *params;
    ls_data *images;
    ls_tensor **outputs;
    int n_outputs;
    int code; /* of what printed its message itself */
    ls_verification *v;
} subject;

static ls_status build_model(void *user, ls_session *session, ls_tensor **outputs) {
    subject *s = user;
    s->code = cli_model_build(&s->model, session, NULL, NULL, outputs);
    memcpy(s->outputs, outputs, sizeof *outputs * (size_t)s->n_outputs);
    return s->code == EXIT_FINE ? LS_OK : ls_session_error(session)->code != LS_OK ? ls_session_error(session)->code : LS_ERR_INVALID;
}

static int verified(subject *s, ls_status status) {
    return status == LS_OK           ? EXIT_FINE
           : s->code != EXIT_FINE ? s->code /* its message is printed */
                                     : cli_fail(status, ls_session_error(s->w.session)->message);
}

static const char *output_name(const subject *s, int i) {
    return s->is_model ? ls_model_output(s->model.model, i).name : "logits";
}

static void add_value(cJSON *list, const char *name, const ls_data *data) {
    char type[300], hex[65];
    cJSON *o = cJSON_CreateObject();
    cli_data_text(data, type, sizeof type);
    ls_data_sha256(data, hex);
    cJSON_AddStringToObject(o, "name", name);
    cJSON_AddStringToObject(o, "type", type);
    cJSON_AddStringToObject(o, "sha256", hex);
    cJSON_AddItemToArray(list, o);
}

/* Adds "outputs" to a device's report. */
static int add_outputs(subject *s, cJSON *o) {
    cJSON *list = cJSON_AddArrayToObject(o, "outputs");
    for (int i = 0; i < s->v->n_outputs; i++) {
        ls_data *data = NULL;
        const ls_output_report *r = &s->v->outputs[i];
        ls_status status = ls_data_from_tensor(s->w.session, s->outputs[i], &data);
        if (status != LS_OK) {
            return cli_fail(status, ls_session_error(s->w.session)->message);
        }
        add_value(list, output_name(s, i), data);
        cJSON *output = cJSON_GetArrayItem(list, i);
        cJSON_AddItemToObject(output, "kernel", r->kernel < 0 ? cJSON_CreateNull() : cJSON_CreateNumber(r->kernel));
        cJSON_AddItemToObject(output, "oracle", report_comparison(&r->oracle));
        ls_data_release(data);
    }
    return EXIT_FINE;
}

/* The inputs are the same on every device: once is enough. */
static void add_inputs(const subject *s, cJSON *root) {
    if (cJSON_GetObjectItem(root, "inputs")) {
        return;
    }
    cJSON *list = cJSON_AddArrayToObject(root, "inputs");
    for (int i = 0; i < s->model.n_inputs; i++) {
        if (s->model.values[i]) {
            add_value(list, ls_model_input(s->model.model, i).name, s->model.values[i]);
        }
    }
    if (s->images) {
        add_value(list, "images", s->images);
    }
}

static int report(subject *s, cJSON *root, const char *device, double seconds, int64_t most, bool *inout_differs) {
    const ls_verification *v = s->v;
    const ls_report *e = &v->end_to_end;
    printf("%s: %s; %d kernels, worst share of the bound %.4f, blind %.2f %%; end to end %.4f of the bound, blind %.2f %%\n", device,
           report_verdict(v->verdict), v->n_kernels, v->worst_of_bound, 100 * v->blind, e->worst_of_bound, 100 * share(e->blind, e->elements));
    int code = print_kernels(v, most);
    if (e->verdict == LS_DIFFERS) {
        printf("  end to end: %s\n", e->message);
    }
    *inout_differs |= v->verdict == LS_DIFFERS;
    const ls_caps *caps = ls_device_caps(s->w.device);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "id", device);
    cJSON_AddStringToObject(o, "name", caps->name);
    cJSON_AddStringToObject(o, "driver", caps->driver);
    cJSON_AddNumberToObject(o, "kernels", v->n_kernels);
    cJSON_AddNumberToObject(o, "worst_of_bound", v->worst_of_bound);
    cJSON_AddNumberToObject(o, "blind", v->blind);
    cJSON_AddStringToObject(o, "verdict", report_verdict(v->verdict));
    cJSON_AddItemToObject(o, "first_divergence", report_divergence(v));
    cJSON_AddItemToObject(o, "end_to_end", report_comparison(e));
    cJSON_AddNumberToObject(o, "seconds", seconds);
    cJSON *list = cJSON_AddArrayToObject(o, "by_kernel");
    for (int i = 0; i < v->n_kernels; i++) {
        cJSON_AddItemToArray(list, report_kernel(&v->kernels[i]));
    }
    cJSON_AddItemToArray(cJSON_GetObjectItem(root, "devices"), o);
    return code == EXIT_FINE ? add_outputs(s, o) : code;
}

static int verify_model(subject *s, cli_option *options, const char *path) {
    int code = cli_model_open(&s->model, s->w.context, options, path);
    s->is_model = code == EXIT_FINE;
    s->n_outputs = s->model.n_outputs;
    s->outputs = calloc((size_t)s->n_outputs + 1, sizeof *s->outputs);
    if (code == EXIT_FINE && !s->outputs) {
        code = cli_error(EXIT_USAGE, "out of memory for %d outputs", s->n_outputs);
    }
    return code == EXIT_FINE ? verified(s, ls_verify_built(s->w.session, build_model, s, s->n_outputs, &s->v)) : code;
}

static int verify_network(subject *s, cli_option *options, const char *name) {
    int code;
    s->n_outputs = 1;
    s->outputs = calloc(1, sizeof *s->outputs);
    s->images = s->outputs ? cli_images(s->w.context, options, &code) : NULL;
    if (!s->images) {
        return s->outputs ? code : cli_error(EXIT_USAGE, "out of memory for an output");
    }
    (void)ls_session_set_origin(s->w.session, "images");
    ls_tensor *x = ls_data_to_tensor(s->w.session, s->images);
    (void)ls_session_set_origin(s->w.session, NULL);
    code = cli_network(&s->w, name, cli_text(options, "weights", NULL), 1, x, &s->params, &s->outputs[0]);
    return code == EXIT_FINE ? verified(s, ls_verify(s->w.session, s->outputs, 1, &s->v)) : code;
}

static void close_subject(subject *s) {
    if (s->v) {
        ls_verification_free(s->w.session, s->v);
    }
    if (s->is_model) {
        cli_model_close(&s->model);
    }
    ls_params_destroy(s->params);
    ls_data_release(s->images);
    free(s->outputs);
}

/* In the first device, so that the others show what is right. */
static int plant(subject *s, cli_option *options, const cJSON *root) {
    ls_error err = {.code = LS_OK};
    bool first = cJSON_GetArraySize(cJSON_GetObjectItem(root, "devices")) == 0;
    const char *fault = first ? cli_text(options, "plant", NULL) : NULL;
    return !fault || ls_device_plant(s->w.device, fault, &err) == LS_OK ? EXIT_FINE : cli_fail(err.code, err.message);
}

/* On an open device, called `device`. */
static int verify_device(cli_option *options, const char *model, const cli_world *w, const char *device, int64_t most, cJSON *root,
                         bool *inout_differs) {
    subject s = {.w = *w, .code = EXIT_FINE};
    double begin = cli_now_ms();
    int code = plant(&s, options, root);
    if (code == EXIT_FINE) {
        code = cli_is_model(model) ? verify_model(&s, options, model) : verify_network(&s, options, model);
    }
    if (code == EXIT_FINE) {
        add_inputs(&s, root);
        code = report(&s, root, device, (cli_now_ms() - begin) * 1e-3, most, inout_differs);
    }
    close_subject(&s);
    return code;
}

/* In locked arithmetic outputs are the same bits everywhere. */
static void compare_devices(cJSON *root, bool locked, bool *inout_differs) {
    const cJSON *devices = cJSON_GetObjectItem(root, "devices"), *first = cJSON_GetArrayItem(devices, 0), *d;
    cJSON_ArrayForEach(d, devices) {
        const cJSON *a = cJSON_GetObjectItem(first, "outputs"), *b = cJSON_GetObjectItem(d, "outputs");
        for (int i = 0; locked && i < cJSON_GetArraySize(a); i++) {
            const cJSON *x = cJSON_GetArrayItem(a, i), *y = cJSON_GetArrayItem(b, i);
            const char *hash = cJSON_GetStringValue(cJSON_GetObjectItem(y, "sha256"));
            if (!hash || strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(x, "sha256")), hash) != 0) {
                printf("%s: output %s is not %s's, bit for bit\n", cJSON_GetStringValue(cJSON_GetObjectItem(d, "id")),
                       cJSON_GetStringValue(cJSON_GetObjectItem(x, "name")), cJSON_GetStringValue(cJSON_GetObjectItem(first, "id")));
                *inout_differs = true;
            }
        }
    }
}

static int verify_devices(cli_option *options, const char *model, cJSON *root, bool *inout_differs) {
    const char *at = cli_text(options, "devices", "cpu,ref");
    enum { DEVICES_MOST = 32 };
    char names[DEVICES_MOST][64];
    cli_world worlds[DEVICES_MOST];
    int64_t most = 10;
    int code = EXIT_FINE, n = 0;
    if (!*at || *at == ',' || strstr(at, ",,") || at[strlen(at) - 1] == ',') {
        return cli_error(EXIT_USAGE, "verify: --devices \"%s\": expected at least one name, and commas between several, such as cpu,ref", at);
    }
    if (cli_given(options, "peer") && !cli_is_model(model)) {
        return cli_error(EXIT_USAGE, "verify: --peer: expected an .onnx file, got %s", model);
    }
    if (!cli_int(options, "worst", 0, 1000000, &most)) {
        return EXIT_USAGE;
    }
    while (*at && code == EXIT_FINE) { /* all, before work is done on one */
        size_t length = strcspn(at, ",");
        if (n == DEVICES_MOST) {
            code = cli_error(EXIT_USAGE, "--devices: at most %d", DEVICES_MOST);
            break;
        }
        snprintf(names[n], sizeof names[n], "%.*s", length < sizeof names[n] ? (int)length : 63, at);
        code = cli_open(&worlds[n], options, names[n]);
        n += code == EXIT_FINE;
        at += length + (at[length] == ',');
    }
    for (int i = 0; i < n; i++) {
        code = code == EXIT_FINE ? verify_device(options, model, &worlds[i], names[i], most, root, inout_differs) : code;
        cli_close(&worlds[i]);
    }
    if (code == EXIT_FINE) {
        compare_devices(root, strcmp(cli_text(options, "math", "locked"), "locked") == 0, inout_differs);
    }
    if (code == EXIT_FINE && cli_given(options, "peer")) {
        code = cli_peer(options, model, cli_text(options, "peer", ""), root, inout_differs);
    }
    return code;
}

int cmd_verify(int argc, char **argv) {
    cli_option options[] = {
        CLI_INPUT_OPTIONS,
        CLI_PICTURE_OPTIONS,
        CLI_SOUND_OPTIONS,
        {.name = "devices", .value = "a,b,...", .help = "the devices; default cpu,ref"},
        {.name = "math", .value = "locked|fast|reduced", .help = "the kind of arithmetic; default locked"},
        {.name = "no-fusion", .help = "one kernel an operation"},
        {.name = "strategy",
         .value = "OP=NAME",
         .help = "force a strategy, such as contract=naive; may repeat"},
        {.name = "worst", .value = "N", .help = "kernels to print, the worst first; default 10; blind: the share of elements whose bound is too wide to check them"},
        {.name = "html", .value = "FILE", .help = "also write a page: every kernel, errors, the graph with what is wrong in it"},
        {.name = "peer", .value = "COMMAND", .help = "also run COMMAND MODEL INPUTS.npz OUTPUTS.npz, another engine, and say which is wrong"},
        {.name = "plant", .value = "FAULT", .help = "plant a fault in the first device to see it caught; lockstep check --plant list lists them"},
        CLI_JSON_OPTION,
        {.name = NULL},
    };
    const char *words[1];
    int code, n = cli_parse(cli_command_of("verify"), options, argc, argv, words, 1, &code);
    if (n < 0) {
        return code;
    }
    if (n != 1) {
        return cli_error(EXIT_USAGE, "verify: expected a network: " CLI_MODEL_USAGE);
    }
    bool differs = false;
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "model", words[0]);
    cJSON_AddStringToObject(root, "version", ls_version());
    cJSON_AddNumberToObject(root, "contract", LS_CONTRACT_VERSION);
    cJSON_AddStringToObject(root, "math", cli_text(options, "math", "locked"));
    cJSON_AddBoolToObject(root, "fusion", !cli_given(options, "no-fusion"));
    cJSON_AddItemToObject(root, "plant", cli_given(options, "plant") ? cJSON_CreateString(cli_text(options, "plant", "")) : cJSON_CreateNull());
    cJSON_AddArrayToObject(root, "devices");
    code = verify_devices(options, words[0], root, &differs);
    cJSON_AddStringToObject(root, "verdict", differs ? "differs" : "fine");
    if (code == EXIT_FINE && cli_given(options, "plant") && !differs) {
        printf("%s is planted, and nothing differs: no kernel of this model is wrong by it\n", cli_text(options, "plant", ""));
    }
    if (code == EXIT_FINE && cli_given(options, "html")) {
        code = cli_write_page(cli_text(options, "html", ""), root);
    }
    if (code != EXIT_FINE) {
        cJSON_Delete(root);
        return code;
    }
    code = cli_json(options, root);
    return code == EXIT_FINE && differs ? EXIT_DIFFERS : code;
}
