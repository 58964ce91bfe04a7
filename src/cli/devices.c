/* lockstep devices: what there is, whether it may claim locked arithmetic, and what of it is done another way than the
 * device does it. */
#include "cli/cli.h"
#include <stdio.h>
#include <string.h>

static cJSON *device_json(const ls_device_info *d) {
    cJSON *o = cJSON_CreateObject(), *caps = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "id", d->id);
    cJSON_AddStringToObject(o, "name", d->caps.name);
    cJSON_AddStringToObject(o, "locked", d->available && d->locked > 0 ? "certified" : "refused");
    cJSON_AddStringToObject(o, "reason", d->reason);
    cJSON_AddStringToObject(caps, "isa", d->caps.isa);
    cJSON_AddStringToObject(caps, "driver", d->caps.driver);
    cJSON_AddStringToObject(caps, "uuid", d->caps.uuid);
    cJSON_AddStringToObject(caps, "arithmetic", d->caps.arithmetic);
    cJSON_AddNumberToObject(caps, "threads", d->caps.threads);
    cJSON_AddNumberToObject(caps, "subgroup", d->caps.subgroup);
    cJSON_AddNumberToObject(caps, "shared_bytes", (double)d->caps.shared_bytes);
    cJSON_AddNumberToObject(caps, "memory_bytes", (double)d->caps.memory_bytes);
    cJSON *dtypes = cJSON_AddArrayToObject(caps, "dtypes");
    for (int i = 0; i < LS_DTYPE_COUNT; i++) {
        if (d->caps.dtypes >> i & 1) {
            cJSON_AddItemToArray(dtypes, cJSON_CreateString(ls_dtype_name((ls_dtype)i)));
        }
    }
    cJSON_AddItemToObject(o, "caps", caps);
    return o;
}

int cmd_devices(int argc, char **argv) {
    cli_option options[] = {CLI_JSON_OPTION, {.name = NULL}};
    ls_device_info infos[64];
    ls_context *context = NULL;
    ls_error err = {.code = LS_OK};
    int code, count = 64;
    if (cli_parse(&cli_commands[0], options, argc, argv, NULL, 0, &code) < 0) {
        return code;
    }
    ls_status status = ls_context_create(NULL, &context, &err);
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
        printf("%-8s %-10s %s", d->id,
               !d->available   ? "missing"
               : d->locked > 0 ? "certified"
                               : "refused",
               d->caps.name);
        if (d->caps.isa[0]) {
            printf(", %s, %d thread%s", d->caps.isa, d->caps.threads, d->caps.threads == 1 ? "" : "s");
        }
        if (d->caps.driver[0]) {
            printf(", %s", d->caps.driver);
        }
        printf("%s%s\n", d->reason[0] ? ": " : "", d->reason);
        if (d->caps.uuid[0]) {
            printf("%20sstable id: %.*s:uuid=%s\n", "", (int)strcspn(d->id, ":"), d->id, d->caps.uuid);
        }
        if (d->caps.arithmetic[0]) {
            printf("%20sdone another way: %s\n", "", d->caps.arithmetic);
        }
        cJSON_AddItemToArray(list, device_json(d));
    }
    ls_context_destroy(context);
    return cli_json(options, root);
}
