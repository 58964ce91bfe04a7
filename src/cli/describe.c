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

/* How many are not supported. */
static int print_operators(const ls_model_operator *list, int n, cJSON *root) {
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
    return missing;
}

static void add_flops(void *user, const ls_kernel_profile *kernel) {
    *(double *)user += kernel->flops;
}

/* Whether the dimensions of --max are symbols of what was compiled. */
static void print_symbols(ls_runner_facts facts, cJSON *root) {
    cJSON_AddBoolToObject(root, "symbolic", facts.symbolic > 0);
    if (facts.symbolic) {
        printf("  it serves all extents up to --max\n");
    } else {
        printf("  it is for these extents alone: %s\n",
               facts.fixed_because ? facts.fixed_because : "what --max bounds does not change");
    }
}

static void print_program(const ls_program *program, cJSON *root) {
    if (!program) {
        printf("  run node by node: shapes depend on values, or nothing on the inputs\n");
        return;
    }
    ls_program_stats stats = ls_program_get_stats(program);
    double flops = 0;
    ls_program_kernels(program, add_flops, &flops);
    printf("  %d kernels, %.4g MFLOP in contractions, %.2f MB of temporaries (%.2f MB if none shared)\n",
           stats.kernels, flops * 1e-6, (double)stats.temporary_bytes * 1e-6,
           (double)stats.separate_bytes * 1e-6);
    cJSON_AddNumberToObject(root, "kernels", stats.kernels);
    cJSON_AddNumberToObject(root, "flops", flops);
    cJSON_AddNumberToObject(root, "temporary_bytes", (double)stats.temporary_bytes);
}

/* What a run on inputs of these shapes takes. */
static void print_work(cli_world *w, cli_option *options, const cli_model *m, ls_runner *runner, cJSON *root) {
    ls_named_data *inputs = calloc((size_t)m->n_inputs + 1, sizeof *inputs);
    int n = inputs ? cli_model_inputs(m, inputs) : 0;
    printf("a run on");
    for (int i = 0; i < n; i++) {
        char text[300];
        cli_data_text(inputs[i].data, text, sizeof text);
        printf("%s %s %s", i ? "," : "", inputs[i].name, text);
    }
    printf("%s\n", n ? "" : " nothing");
    if (inputs && ls_runner_prepare(runner, n, inputs) == LS_OK) {
        print_program(ls_runner_program(runner), root);
        if (cli_given(options, "max")) {
            print_symbols(ls_runner_get_facts(runner), root);
        }
    } else { /* still worth a description: other extents may do */
        printf("  cannot be compiled: %s\n",
               inputs ? ls_session_error(w->session)->message : "out of memory");
    }
    free(inputs);
}

/* Whether the command can make up what is not given. */
static bool takes_arrays(const cli_model *m) {
    for (int i = 0; i < m->n_inputs; i++) {
        ls_model_port port = ls_model_input(m->model, i);
        if (port.dtype == LS_DTYPE_COUNT || port.rank < 0) {
            return false;
        }
    }
    return true;
}

static int describe(cli_world *w, cli_option *options, const char *path, const cli_model *m, ls_runner *runner) {
    int room = 64, n = 0;
    ls_model_operator *list = NULL;
    do {
        room *= 2;
        free(list);
        list = calloc((size_t)room, sizeof *list);
        n = list ? ls_model_operators(m->model, room, list) : 0;
    } while (n > room);
    if (!list) {
        return cli_error(EXIT_USAGE, "out of memory for a list of operators");
    }
    cJSON *root = cJSON_CreateObject();
    ls_model_facts f = ls_model_get_facts(m->model);
    printf("%s: graph \"%s\" by %s%s%s, IR version %lld; %d nodes, %lld parameters\n", path, f.graph,
           *f.producer ? f.producer : "unknown", *f.producer_version ? " " : "", f.producer_version,
           (long long)f.ir_version, f.nodes, (long long)f.parameters);
    cJSON_AddStringToObject(root, "model", path);
    cJSON_AddStringToObject(root, "producer", f.producer);
    cJSON_AddNumberToObject(root, "ir_version", (double)f.ir_version);
    cJSON_AddNumberToObject(root, "nodes", f.nodes);
    cJSON_AddNumberToObject(root, "parameters", (double)f.parameters);
    print_ports(m->model, "inputs", m->n_inputs, ls_model_input, root);
    print_ports(m->model, "outputs", m->n_outputs, ls_model_output, root);
    if (print_operators(list, n, root) == 0 && m->values) {
        print_work(w, options, m, runner, root);
    }
    free(list);
    return cli_json(options, root);
}

int cli_describe_model(cli_world *w, cli_option *options, const char *path) {
    cli_model m;
    int code = cli_model_load(&m, w->context, options, path);
    if (code == EXIT_FINE && takes_arrays(&m)) {
        code = cli_model_make_inputs(&m, w->context, options);
    }
    ls_runner *runner = NULL;
    if (code == EXIT_FINE) {
        ls_status status = ls_runner_create(w->session, m.model, &runner);
        code = status == LS_OK ? cli_model_bounds(&m, options, w->session, runner)
                               : cli_fail(status, ls_session_error(w->session)->message);
    }
    code = code == EXIT_FINE ? describe(w, options, path, &m, runner) : code;
    ls_runner_destroy(runner);
    cli_model_close(&m);
    return code;
}
