/* lockstep devices: what there is, whether it may claim locked arithmetic, and what of it is done another way than the
 * device does it. */
#include "cli/cli.h"
#include "cli/report.h"
#include <stdio.h>
#include <string.h>

static ls_status print_ulps(ls_context *context, const char *id, cJSON *entry, ls_error *err) {
    ls_device *device;
    int beyond;
    ls_status status = ls_device_open(context, id, &device, err);
    return status == LS_OK ? cli_ulps(context, device, entry, &beyond, err) : status;
}

int cmd_devices(int argc, char **argv) {
    cli_option options[] = {{.name = "ulps", .help = "also measure the errors of each device's elementary functions (slow)"},
                            CLI_JSON_OPTION,
                            {.name = NULL}};
    ls_device_info infos[64];
    ls_context *context = NULL;
    ls_error err = {.code = LS_OK};
    int code, count = 64;
    if (cli_parse(cli_command_of("devices"), options, argc, argv, NULL, 0, &code) < 0) {
        return code;
    }
    ls_status status = cli_context(&context, &err);
    status = status == LS_OK ? ls_device_list(context, infos, &count, &err) : status;
    if (status != LS_OK) {
        if (context) {
            ls_context_destroy(context);
        }
        return cli_fail(status, err.message);
    }
    cJSON *root = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(root, "devices");
    for (int i = 0; i < count && i < 64; i++) {
        const ls_device_info *d = &infos[i];
        printf("%-8s %-10s %s", d->id, report_locked(d), d->caps.name);
        if (d->caps.isa[0]) {
            printf(", %s, %d thread%s", d->caps.isa, d->caps.threads, d->caps.threads == 1 ? "" : "s");
        }
        if (d->caps.driver[0]) {
            printf(", %s", d->caps.driver);
        }
        printf("%s%s\n", d->reason[0] && d->caps.name[0] ? ": " : "", d->reason);
        if (d->caps.uuid[0]) {
            printf("%20sstable id: %.*s:uuid=%s\n", "", (int)strcspn(d->id, ":"), d->id, d->caps.uuid);
        }
        if (d->caps.arithmetic[0]) {
            printf("%20sdone another way: %s\n", "", d->caps.arithmetic);
        }
        cJSON *entry = report_device(d->id, &d->caps, report_locked(d));
        cJSON_AddStringToObject(entry, "reason", d->reason);
        cJSON_AddItemToArray(list, entry);
        if (cli_given(options, "ulps") && d->available && status == LS_OK) {
            status = print_ulps(context, d->id, entry, &err);
        }
    }
    ls_context_destroy(context);
    if (status != LS_OK) {
        cJSON_Delete(root);
        return cli_fail(status, err.message);
    }
    return cli_json(options, root);
}
