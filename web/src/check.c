/* Checking a device, piece by piece, so that a page shows each as it comes. */
#include "page.h"
#include "cli/report.h"
#include <stdlib.h>

static const char *const states[] = {"passed", "failed", "skipped"};

static void send_case(void *user, const ls_case_result *r) {
    ls_status *status = user;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "name", r->name);
    cJSON_AddStringToObject(o, "about", r->about);
    cJSON_AddStringToObject(o, "math", page_math_names[r->math]);
    cJSON_AddStringToObject(o, "status", states[r->state]);
    cJSON_AddStringToObject(o, "detail", r->message);
    cJSON_AddNumberToObject(o, "seconds", r->seconds);
    ls_status sent = page_send(o);
    *status = *status == LS_OK ? sent : *status;
}

static ls_status open_device(const char *id, ls_device **out_device) {
    ls_error err = {.code = LS_OK};
    page_begin(NULL);
    ls_status status = ls_device_open(page_context(), id, out_device, &err);
    return status == LS_OK ? LS_OK : page_fail(status, "%s", err.message);
}

/* A device that is refused is an answer, not a failure: the row says why. */
ls_status page_check_certify(const char *id) {
    ls_device *device = NULL;
    ls_error refused = {.code = LS_OK};
    ls_status status = open_device(id, &device);
    if (status != LS_OK) {
        return status;
    }
    status = ls_device_certify(device, &refused);
    if (status != LS_OK && status != LS_ERR_DEVICE) {
        return page_fail(status, "%s", refused.message);
    }
    ls_case_result row = {.name = "certification",
                          .about = "the probe of locked arithmetic",
                          .math = LS_LOCKED,
                          .state = status == LS_OK ? LS_CASE_PASSED : LS_CASE_FAILED,
                          .message = refused.message};
    cJSON *o = report_device(id, ls_device_caps(device), status == LS_OK ? "certified" : "refused");
    status = page_send(o);
    send_case(&status, &row);
    return status;
}

ls_status page_check_case(const char *id, const char *name, const char *plant) {
    ls_device *device = NULL;
    ls_error err = {.code = LS_OK};
    ls_case_totals totals;
    ls_status sent = LS_OK, status = open_device(id, &device);
    if (status != LS_OK) {
        return status;
    }
    status = ls_museum_run(page_context(), device, *name ? name : NULL, *plant ? plant : NULL, send_case, &sent, &totals, &err);
    return status == LS_OK ? sent : page_fail(status, "%s", err.message);
}

ls_status page_check_row(const char *id, int32_t number, const char *math, const char *plant) {
    ls_device *device = NULL;
    ls_error err = {.code = LS_OK};
    ls_conform_options options = {.plant = *plant ? plant : NULL};
    ls_status status = open_device(id, &device);
    if (status != LS_OK) {
        return status;
    }
    if (!page_math(math, &options.math)) {
        return LS_ERR_INVALID;
    }
    ls_row_result *r = malloc(sizeof *r);
    if (!r) {
        return page_fail(LS_ERR_MEMORY, "out of memory for a conformance row");
    }
    status = ls_conform_row(page_context(), device, &options, number, r, &err);
    if (status == LS_OK) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddNumberToObject(o, "number", r->number);
        cJSON_AddStringToObject(o, "name", r->name);
        cJSON_AddStringToObject(o, "math", page_math_names[r->math]);
        cJSON_AddStringToObject(o, "status", states[r->state]);
        cJSON_AddStringToObject(o, "detail", r->message);
        cJSON_AddNumberToObject(o, "elements", (double)r->elements);
        cJSON_AddNumberToObject(o, "blind", (double)r->blind);
        cJSON_AddNumberToObject(o, "seconds", r->seconds);
        status = page_send(o);
    } else {
        page_fail(status, "%s", err.message);
    }
    free(r);
    return status;
}

static void send_function(void *user, const ls_ulp_result *r) {
    ls_status *status = user;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "function", r->function);
    cJSON_AddStringToObject(o, "math", page_math_names[r->math]);
    cJSON_AddNumberToObject(o, "ulps", r->most);
    cJSON_AddNumberToObject(o, "at", r->at);
    cJSON_AddNumberToObject(o, "bound", r->bound);
    cJSON_AddNumberToObject(o, "inputs", (double)r->inputs);
    ls_status sent = page_send(o);
    *status = *status == LS_OK ? sent : *status;
}

ls_status page_check_functions(const char *id) {
    ls_device *device = NULL;
    ls_error err = {.code = LS_OK};
    int beyond = 0;
    ls_status sent = LS_OK, status = open_device(id, &device);
    if (status != LS_OK) {
        return status;
    }
    status = ls_ulps_measure(page_context(), device, send_function, &sent, &beyond, &err);
    return status == LS_OK ? sent : page_fail(status, "%s", err.message);
}
