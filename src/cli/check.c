/* lockstep check: certification of a device, the museum on it, faults planted to see them caught, conformance rows, and the
 * measured errors of its elementary functions. */
#include "cli/cli.h"
#include "cli/report.h"
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

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

static int list_cases(cli_option *options) {
    const char *name, *about;
    cJSON *root = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(root, "cases");
    for (int i = 0; ls_museum_case(i, &name, &about); i++) {
        cJSON *o = cJSON_CreateObject();
        printf("%-24s %s\n", name, about);
        cJSON_AddStringToObject(o, "name", name);
        cJSON_AddStringToObject(o, "about", about);
        cJSON_AddItemToArray(list, o);
    }
    return cli_json(options, root);
}

static ls_status certify(ls_device *device, cJSON *cases, ls_case_totals *totals, bool *out_certified, ls_error *err) {
    ls_error refused = {.code = LS_OK};
    ls_status status = ls_device_certify(device, &refused);
    *out_certified = status == LS_OK;
    if (status != LS_OK && status != LS_ERR_DEVICE) {
        *err = refused;
        return status;
    }
    ls_case_result result = {.name = "certification",
                             .about = "the probe of locked arithmetic",
                             .math = LS_LOCKED,
                             .state = *out_certified ? LS_CASE_PASSED : LS_CASE_FAILED,
                             .message = refused.message};
    print_case(cases, &result);
    totals->passed += *out_certified;
    totals->failed += !*out_certified;
    return LS_OK;
}

/* The errors of elementary functions, as one case. */
static ls_status check_functions(ls_context *context, ls_device *device, cJSON *root, ls_case_totals *totals, ls_error *err) {
    int beyond = 0;
    ls_status status = cli_ulps(context, device, root, &beyond, err);
    totals->passed += status == LS_OK && !beyond;
    totals->failed += beyond > 0;
    return status;
}

/* A device that is refused goes on, so that a report shows what else it gets wrong. */
static ls_status check_all(ls_context *context, ls_device *device, cli_option *options, int rows, cJSON *root, ls_case_totals *totals,
                           ls_error *err) {
    bool certified;
    const char *filter = cli_text(options, "filter", NULL), *plant = cli_text(options, "plant", NULL);
    cJSON *cases = cJSON_AddArrayToObject(root, "cases");
    ls_case_totals museum = {0};
    ls_status status = certify(device, cases, totals, &certified, err);
    status = status == LS_OK ? ls_museum_run(context, device, filter, plant, print_case, cases, &museum, err) : status;
    totals->passed += museum.passed;
    totals->failed += museum.failed;
    totals->skipped += museum.skipped;
    if (status == LS_OK && ((!filter && !plant) || cli_given(options, "rows"))) {
        status = cli_rows(context, device, plant, rows, certified, root, totals, err);
    }
    return status == LS_OK && !filter && !plant ? check_functions(context, device, root, totals, err) : status;
}

static cJSON *system_json(void) {
    struct utsname u;
    cJSON *o = cJSON_CreateObject();
    if (uname(&u) >= 0) {
        cJSON_AddStringToObject(o, "name", u.sysname);
        cJSON_AddStringToObject(o, "release", u.release);
        cJSON_AddStringToObject(o, "machine", u.machine);
    }
    return o;
}

static int check(ls_context *context, cli_option *options) {
    const char *plant = cli_text(options, "plant", NULL);
    int64_t rows = LS_CONFORM_ROWS, row = -1;
    ls_device *device = NULL;
    ls_error err = {.code = LS_OK};
    ls_case_totals totals = {0};
    if (!cli_int(options, "rows", 0, 1000000, &rows) || !cli_int(options, "row", 0, 1000000, &row)) {
        return EXIT_USAGE;
    }
    ls_status status = ls_device_open(context, cli_text(options, "device", "cpu"), &device, &err);
    if (status != LS_OK) {
        return cli_fail(status, err.message);
    }
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "version", ls_version());
    cJSON_AddNumberToObject(root, "contract", LS_CONTRACT_VERSION);
    cJSON_AddItemToObject(root, "system", system_json());
    cJSON_AddItemToObject(root, "plant", plant ? cJSON_CreateString(plant) : cJSON_CreateNull());
    status = row >= 0 ? cli_row(context, device, plant, (int)row, root, &totals, &err)
                      : check_all(context, device, options, (int)rows, root, &totals, &err);
    if (status != LS_OK) {
        cJSON_Delete(root);
        return cli_fail(status, err.message);
    }
    bool certified = ls_device_certify(device, NULL) == LS_OK;
    cJSON_AddItemToObject(root, "device", report_device(ls_device_id(device), ls_device_caps(device), certified ? "certified" : "refused"));
    cJSON_AddNumberToObject(root, "passed", totals.passed);
    cJSON_AddNumberToObject(root, "failed", totals.failed);
    cJSON_AddNumberToObject(root, "skipped", totals.skipped);
    printf("%s: %d passed, %d failed, %d skipped\n", ls_device_id(device), totals.passed, totals.failed, totals.skipped);
    int code = cli_json(options, root);
    return code == EXIT_FINE && totals.failed ? EXIT_DIFFERS : code;
}

int cmd_check(int argc, char **argv) {
    cli_option options[] = {
        {.name = "device", .value = "ID", .help = "the device; default cpu"},
        {.name = "plant", .value = "FAULT", .help = "plant a fault that a case must catch; list: print them"},
        {.name = "filter", .value = "GLOB", .help = "only the museum's cases whose names fit; list: print them all"},
        {.name = "rows", .value = "N", .help = "conformance rows; default 200, and a quarter of them fast as well; 0: none"},
        {.name = "row", .value = "NUMBER", .help = "only this conformance row"},
        CLI_JSON_OPTION,
        {.name = NULL}};
    ls_context *context = NULL;
    ls_error err = {.code = LS_OK};
    int code;
    if (cli_parse(cli_command_of("check"), options, argc, argv, NULL, 0, &code) < 0) {
        return code;
    }
    if (strcmp(cli_text(options, "plant", ""), "list") == 0) {
        return list_faults(options);
    }
    if (strcmp(cli_text(options, "filter", ""), "list") == 0) {
        return list_cases(options);
    }
    if (cli_given(options, "row") && (cli_given(options, "filter") || cli_given(options, "rows"))) {
        return cli_error(EXIT_USAGE, "check: --row: expected without --%s: it is one row alone", cli_given(options, "filter") ? "filter" : "rows");
    }
    if (cli_context(&context, &err) != LS_OK) {
        return cli_fail(err.code, err.message);
    }
    code = check(context, options);
    ls_context_destroy(context);
    return code;
}
