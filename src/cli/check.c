/* lockstep check: certification of a device, the museum on it, faults planted to see them caught, and the measured errors of its
 * elementary functions. */
#include "cli/cli.h"
#include <stdio.h>
#include <string.h>

static const char *const states[] = {"passed", "failed", "skipped"};
static const char *const kinds[] = {"locked", "fast", "reduced"};

static void print_case(void *user, const ls_case_result *r) {
    cJSON *cases = user, *o = cJSON_CreateObject();
    printf("%-7s  %-6s  %-24s %6.2f s%s%s\n", states[r->state], kinds[r->math], r->name, r->seconds,
           r->message[0] ? "  " : "", r->message);
    fflush(stdout);
    cJSON_AddStringToObject(o, "name", r->name);
    cJSON_AddStringToObject(o, "about", r->about);
    cJSON_AddStringToObject(o, "math", kinds[r->math]);
    cJSON_AddStringToObject(o, "status", states[r->state]);
    cJSON_AddStringToObject(o, "detail", r->message);
    cJSON_AddNumberToObject(o, "seconds", r->seconds);
    cJSON_AddItemToArray(cases, o);
}

static int list_faults(cli_option *options) {
    const char *name, *about, *where;
    cJSON *root = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(root, "faults");
    for (int i = 0; ls_museum_fault(i, &name, &about, &where); i++) {
        cJSON *o = cJSON_CreateObject();
        printf("%-28s %s (caught by %s)\n", name, about, where);
        cJSON_AddStringToObject(o, "name", name);
        cJSON_AddStringToObject(o, "about", about);
        cJSON_AddStringToObject(o, "case", where);
        cJSON_AddItemToArray(list, o);
    }
    return cli_json(options, root);
}

/* The whole check, without a filter or a fault, also measures elementary functions: one more case. */
static ls_status check_functions(ls_context *context, ls_device *device, cli_option *options, cJSON *root, ls_case_totals *totals,
                                 ls_error *err) {
    int beyond = 0;
    if (cli_given(options, "filter") || cli_given(options, "plant")) {
        return LS_OK;
    }
    ls_status status = cli_ulps(context, device, root, &beyond, err);
    totals->passed += status == LS_OK && !beyond;
    totals->failed += beyond > 0;
    return status;
}

/* Certification first, as a case of its own: a device that is refused goes on, so that a report shows what
 * else it gets wrong. */
static int check(ls_context *context, cli_option *options) {
    const char *plant = cli_text(options, "plant", NULL);
    ls_device *device = NULL;
    ls_error err = {.code = LS_OK}, refused = {.code = LS_OK};
    ls_status status = ls_device_open(context, cli_text(options, "device", "cpu"), &device, &err);
    if (status != LS_OK) {
        return cli_fail(status, err.message);
    }
    cJSON *root = cJSON_CreateObject(), *cases = cJSON_CreateArray();
    bool certified = ls_device_certify(device, &refused) == LS_OK;
    ls_case_result first = {.name = "certification",
                            .about = "the probe of locked arithmetic",
                            .math = LS_LOCKED,
                            .state = certified ? LS_CASE_PASSED : LS_CASE_FAILED,
                            .message = refused.message};
    print_case(cases, &first);
    ls_case_totals totals = {0};
    status = ls_museum_run(context, device, cli_text(options, "filter", NULL), plant, print_case, cases,
                           &totals, &err);
    status = status == LS_OK ? check_functions(context, device, options, root, &totals, &err) : status;
    totals.passed += certified;
    totals.failed += !certified;
    cJSON_AddStringToObject(root, "version", ls_version());
    cJSON_AddNumberToObject(root, "contract", LS_CONTRACT_VERSION);
    cJSON_AddItemToObject(root, "device", cli_device_json(ls_device_id(device), ls_device_caps(device), certified));
    cJSON_AddItemToObject(root, "plant", plant ? cJSON_CreateString(plant) : cJSON_CreateNull());
    cJSON_AddNumberToObject(root, "passed", totals.passed);
    cJSON_AddNumberToObject(root, "failed", totals.failed);
    cJSON_AddNumberToObject(root, "skipped", totals.skipped);
    cJSON_AddItemToObject(root, "cases", cases);
    if (status != LS_OK) {
        cJSON_Delete(root);
        return cli_fail(status, err.message);
    }
    printf("%s: %d passed, %d failed, %d skipped\n", ls_device_id(device), totals.passed, totals.failed,
           totals.skipped);
    int code = cli_json(options, root);
    return code == EXIT_FINE && totals.failed ? EXIT_DIFFERS : code;
}

int cmd_check(int argc, char **argv) {
    cli_option options[] = {
        {.name = "device", .value = "ID", .help = "the device; default cpu"},
        {.name = "plant", .value = "FAULT", .help = "plant a fault that a case must catch; list: print them"},
        {.name = "filter", .value = "GLOB", .help = "only the cases whose names fit"},
        CLI_JSON_OPTION,
        {.name = NULL}};
    ls_context *context = NULL;
    ls_error err = {.code = LS_OK};
    int code;
    if (cli_parse(&cli_commands[1], options, argc, argv, NULL, 0, &code) < 0) {
        return code;
    }
    if (strcmp(cli_text(options, "plant", ""), "list") == 0) {
        return list_faults(options);
    }
    if (ls_context_create(NULL, &context, &err) != LS_OK) {
        return cli_fail(err.code, err.message);
    }
    code = check(context, options);
    ls_context_destroy(context);
    return code;
}
