/* The measured errors of a device's elementary functions, as a table and in a report. */
#include "cli/cli.h"
#include <stdio.h>

typedef struct table {
    cJSON *list;
    ls_ulp_result locked; /* of the function whose line is begun; no name: the device is refused */
} table;

static void print_cell(const ls_ulp_result *r) {
    char text[64];
    snprintf(text, sizeof text, "%.2f (%.2f)", r->most, r->bound);
    printf("  %-14s", r->function ? text : "-");
}

static void print_beyond(const ls_ulp_result *r) {
    if (r->function && r->most > r->bound) {
        printf("  %s: beyond its bound at %.9g", r->math == LS_LOCKED ? "locked" : "fast", r->at);
    }
}

/* Locked comes before fast. */
static void add(void *user, const ls_ulp_result *r) {
    table *t = user;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "function", r->function);
    cJSON_AddStringToObject(o, "math", r->math == LS_LOCKED ? "locked" : "fast");
    cJSON_AddNumberToObject(o, "ulps", r->most);
    cJSON_AddNumberToObject(o, "bound", r->bound);
    cJSON_AddNumberToObject(o, "at", r->at);
    cJSON_AddNumberToObject(o, "inputs", (double)r->inputs);
    cJSON_AddItemToArray(t->list, o);
    if (r->math == LS_LOCKED) {
        t->locked = *r;
        return;
    }
    printf("  %-8s", r->function);
    print_cell(&t->locked);
    print_cell(r);
    print_beyond(&t->locked);
    print_beyond(r);
    printf("\n");
    fflush(stdout);
}

ls_status cli_ulps(ls_context *context, ls_device *device, cJSON *root, int *out_beyond, ls_error *err) {
    table t = {.list = cJSON_AddArrayToObject(root, "functions")};
    printf("%s: largest errors seen of f32 functions, in ULPs (bounds)\n  %-8s  %-14s  %s\n", ls_device_id(device), "", "locked", "fast");
    return ls_ulps_measure(context, device, add, &t, out_beyond, err);
}
