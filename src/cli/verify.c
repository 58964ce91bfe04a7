/* lockstep verify: every kernel of a network on each device, against the references, on the kernel's own inputs; and the outputs from end
 * to end. */
#include "cli/input.h"
#include "cli/model.h"
#include "cli/picture.h"
#include "cli/report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const verdicts[] = {"same", "within bound", "differs"};

static void print_kernels(const ls_verification *v) {
    printf("  %-4s %-28s %-14s %-14s %-9s %s\n", "", "kernel", "against ref", "of the bound", "blind", "");
    for (int i = 0; i < v->n_kernels; i++) {
        const ls_kernel_report *k = &v->kernels[i];
        const char *ref = !k->ref_done ? "-" : k->ref.verdict == LS_SAME ? "same bits" : "DIFFERS";
        double blind = k->oracle.elements ? 100.0 * (double)k->oracle.blind / (double)k->oracle.elements : 0;
        printf("  %-4d %-28.28s %-14s %-14.4f %7.2f %%", i, k->kernel, ref, k->oracle.worst_of_bound, blind);
        if (k->oracle.verdict == LS_DIFFERS || (k->ref_done && k->ref.verdict == LS_DIFFERS)) {
            printf("  %s: %s", k->node, report_wrong(k)->message);
        }
        printf("\n");
    }
}

static int verify_outputs(cli_world *w, ls_tensor *const *outputs, int n, ls_verification **out_v) {
    ls_status status = ls_verify(w->session, outputs, n, out_v);
    return status == LS_OK ? EXIT_FINE : cli_fail(status, ls_session_error(w->session)->message);
}

static int verify_model(cli_world *w, cli_option *options, const char *path, ls_verification **out_v) {
    cli_model m;
    int code = cli_model_open(&m, w->context, options, path);
    if (code != EXIT_FINE) {
        return code;
    }
    ls_tensor **outputs = calloc((size_t)m.n_outputs + 1, sizeof *outputs);
    code = outputs ? cli_model_build(&m, w->session, NULL, NULL, outputs) : cli_error(EXIT_USAGE, "out of memory for outputs");
    code = code == EXIT_FINE ? verify_outputs(w, outputs, m.n_outputs, out_v) : code;
    free(outputs);
    cli_model_close(&m);
    return code;
}

static int verify_network(cli_world *w, cli_option *options, const char *name, ls_verification **out_v) {
    ls_params *params = NULL;
    ls_tensor *logits = NULL;
    int code;
    ls_data *images = cli_images(w->context, options, &code);
    if (code == EXIT_FINE) {
        code = cli_network(w, name, cli_text(options, "weights", NULL), 1, ls_data_to_tensor(w->session, images), &params, &logits);
    }
    code = code == EXIT_FINE ? verify_outputs(w, &logits, 1, out_v) : code;
    ls_params_destroy(params);
    ls_data_release(images);
    return code;
}

static int verify_device(cli_option *options, const char *model, const char *device, cJSON *list,
                         bool *inout_differs) {
    cli_world w;
    ls_verification *v = NULL;
    int code = cli_open(&w, options, device);
    if (code != EXIT_FINE) {
        return code;
    }
    code = cli_is_model(model) ? verify_model(&w, options, model, &v) : verify_network(&w, options, model, &v);
    if (code == EXIT_FINE) {
        const ls_report *e = &v->end_to_end;
        printf("%s: %s; %d kernels, worst share of the bound %.4f, blind %.2f %%; end to end %.4f of the "
               "bound, blind %.2f %%\n",
               device, verdicts[v->verdict], v->n_kernels, v->worst_of_bound, 100 * v->blind,
               e->worst_of_bound, e->elements ? 100.0 * (double)e->blind / (double)e->elements : 0.0);
        print_kernels(v);
        if (v->end_to_end.verdict == LS_DIFFERS) {
            printf("  end to end: %s\n", v->end_to_end.message);
        }
        *inout_differs |= v->verdict == LS_DIFFERS;
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "id", device);
        cJSON_AddNumberToObject(o, "kernels", v->n_kernels);
        cJSON_AddNumberToObject(o, "worst_of_bound", v->worst_of_bound);
        cJSON_AddNumberToObject(o, "blind", v->blind);
        cJSON_AddStringToObject(o, "verdict", verdicts[v->verdict]);
        cJSON_AddItemToObject(o, "first_divergence", report_divergence(v));
        cJSON_AddItemToArray(list, o);
    }
    ls_verification_free(w.session, v);
    cli_close(&w);
    return code;
}

int cmd_verify(int argc, char **argv) {
    cli_option options[] = {
        CLI_INPUT_OPTIONS,
        CLI_PICTURE_OPTIONS,
        {.name = "devices", .value = "a,b,...", .help = "the devices; default cpu,ref"},
        {.name = "math", .value = "locked|fast|reduced", .help = "the kind of arithmetic; default locked"},
        {.name = "no-fusion", .help = "one kernel an operation"},
        {.name = "strategy",
         .value = "OP=NAME",
         .help = "force a strategy, such as contract=naive; may repeat"},
        {.name = "peer", .value = "COMMAND", .help = "also run COMMAND MODEL INPUTS.npz OUTPUTS.npz, another engine, and say which is wrong"},
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
    cJSON *root = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(root, "devices");
    const char *at = cli_text(options, "devices", "cpu,ref");
    bool differs = false;
    if (!*at) {
        cJSON_Delete(root);
        return cli_error(EXIT_USAGE, "verify: --devices: expected at least one, such as cpu,ref");
    }
    for (code = EXIT_FINE; *at && code == EXIT_FINE;) {
        char device[64];
        size_t length = strcspn(at, ",");
        snprintf(device, sizeof device, "%.*s", length < sizeof device ? (int)length : 63, at);
        code = verify_device(options, words[0], device, list, &differs);
        at += length + (at[length] == ',');
    }
    if (code == EXIT_FINE && cli_given(options, "peer")) {
        code = cli_is_model(words[0]) ? cli_peer(options, words[0], cli_text(options, "peer", ""), root, &differs)
                                      : cli_error(EXIT_USAGE, "verify: --peer: expected an .onnx file, got %s", words[0]);
    }
    if (code != EXIT_FINE) {
        cJSON_Delete(root);
        return code;
    }
    code = cli_json(options, root);
    return code == EXIT_FINE && differs ? EXIT_DIFFERS : code;
}
