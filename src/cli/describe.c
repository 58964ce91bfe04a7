/* lockstep inspect MODEL.onnx: what the file says. */
#include "cli/model.h"
#include <stdio.h>
#include <stdlib.h>

static void print_ports(const ls_model *model, const char *what, int n,
                        ls_model_port (*port)(const ls_model *, int), cJSON *root) {
    cJSON *list = cJSON_AddArrayToObject(root, what);
    printf("%s\n", what);
    for (int i = 0; i < n; i++) {
        ls_model_port p = port(model, i);
        char text[300];
        cli_port_text(&p, text, sizeof text);
        printf("  %s %s%s\n", p.name, text, p.has_default ? " (has a default)" : "");
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "name", p.name);
        cJSON_AddStringToObject(o, "type", p.type);
        if (p.has_default) {
            cJSON_AddTrueToObject(o, "has_default");
        }
        cJSON *shape = p.rank >= 0 ? cJSON_AddArrayToObject(o, "shape") : cJSON_AddNullToObject(o, "shape");
        for (int k = 0; k < p.rank; k++) {
            cJSON_AddItemToArray(shape, p.dims[k] >= 0   ? cJSON_CreateNumber((double)p.dims[k])
                                        : p.dim_names[k] ? cJSON_CreateString(p.dim_names[k])
                                                         : cJSON_CreateNull());
        }
        cJSON_AddItemToArray(list, o);
    }
}

static void print_operators(const ls_model_operator *list, int n, cJSON *root) {
    cJSON *operators = cJSON_AddArrayToObject(root, "operators");
    int missing = 0;
    printf("operators\n");
    for (int i = 0; i < n; i++) {
        const ls_model_operator *p = &list[i];
        const char *domain = *p->domain ? p->domain : "ai.onnx";
        printf("  %5d  %s (%s %d)%s%s%s\n", p->count, p->name, domain, p->version,
               p->function ? ", a function of the model" : "", p->unsupported ? "  NOT SUPPORTED: " : "",
               p->unsupported ? p->unsupported : "");
        missing += p->unsupported != NULL;
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "domain", p->domain);
        cJSON_AddStringToObject(o, "name", p->name);
        cJSON_AddNumberToObject(o, "opset", p->version);
        cJSON_AddNumberToObject(o, "count", p->count);
        cJSON_AddItemToObject(o, "unsupported",
                              p->unsupported ? cJSON_CreateString(p->unsupported) : cJSON_CreateNull());
        cJSON_AddItemToArray(operators, o);
    }
    printf(missing ? "%d operators are not supported\n" : "all operators are supported\n", missing);
}

int cli_describe_model(ls_context *context, const char *path, cli_option *options) {
    ls_model *model = NULL;
    ls_error err = {.code = LS_OK};
    if (ls_model_load(context, path, &model, &err) != LS_OK) {
        return cli_fail(err.code, err.message);
    }
    int room = 64, n = 0;
    ls_model_operator *list = NULL;
    do {
        room *= 2;
        free(list);
        list = calloc((size_t)room, sizeof *list);
        n = list ? ls_model_operators(model, room, list) : 0;
    } while (n > room);
    if (!list) {
        ls_model_release(model);
        return cli_error(EXIT_USAGE, "out of memory for a list of operators");
    }
    cJSON *root = cJSON_CreateObject();
    ls_model_facts f = ls_model_get_facts(model);
    printf("%s: graph \"%s\" by %s%s%s, IR version %lld; %d nodes, %lld parameters\n", path, f.graph,
           *f.producer ? f.producer : "unknown", *f.producer_version ? " " : "", f.producer_version,
           (long long)f.ir_version, f.nodes, (long long)f.parameters);
    cJSON_AddStringToObject(root, "model", path);
    cJSON_AddStringToObject(root, "producer", f.producer);
    cJSON_AddNumberToObject(root, "ir_version", (double)f.ir_version);
    cJSON_AddNumberToObject(root, "nodes", f.nodes);
    cJSON_AddNumberToObject(root, "parameters", (double)f.parameters);
    print_ports(model, "inputs", ls_model_input_count(model), ls_model_input, root);
    print_ports(model, "outputs", ls_model_output_count(model), ls_model_output, root);
    print_operators(list, n, root);
    free(list);
    ls_model_release(model);
    return cli_json(options, root);
}
