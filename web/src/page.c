/* One context, its errors, its devices. */
#include "page.h"
#include "cli/report.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ls_context *context;
static ls_error last;

const char *const page_math_names[] = {"locked", "fast", "reduced", NULL};

ls_context *page_context(void) {
    return context;
}

void page_begin(ls_session *session) {
    ls_error_clear(&last);
    if (session) {
        ls_session_clear_error(session);
    }
}

ls_status page_fail(ls_status status, const char *fmt, ...) {
    va_list args;
    last.code = status;
    va_start(args, fmt);
    vsnprintf(last.message, sizeof last.message, fmt, args);
    va_end(args);
    return status;
}

ls_status page_fail_session(ls_session *session, ls_status status) {
    const ls_error *e = ls_session_error(session);
    return status == LS_ERR_AGAIN ? status : page_fail(e->code == LS_OK ? status : e->code, "%s", e->message);
}

ls_status page_send(cJSON *root) {
    char *text = root ? cJSON_PrintUnformatted(root) : NULL;
    cJSON_Delete(root);
    if (!text) {
        return page_fail(LS_ERR_MEMORY, "out of memory for a report");
    }
    page_report(text, strlen(text));
    cJSON_free(text);
    return LS_OK;
}

static void log_line(void *user, ls_log_level level, const char *line) {
    (void)user;
    page_log((int)level, line, strlen(line));
}

ls_status page_open(void) {
    ls_context_options options = {.log = log_line};
    page_begin(NULL);
    return context ? LS_OK : ls_context_create(&options, &context, &last);
}

void page_close(void) {
    if (context) {
        ls_context_destroy(context);
        context = NULL;
    }
}

void *page_alloc(size_t size) {
    return malloc(size ? size : 1);
}
void page_free(void *ptr) {
    free(ptr);
}
const char *page_message(void) {
    return last.message;
}
const char *page_status_name(int status) {
    return ls_status_name((ls_status)status);
}

double page_memory(void) {
    size_t used = 0, peak;
    if (context) {
        ls_context_memory(context, &used, &peak);
    }
    return (double)used;
}

ls_status page_about(void) {
    const char *name, *about, *where;
    cJSON *root = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(root, "networks");
    page_begin(NULL);
    cJSON_AddStringToObject(root, "version", ls_version());
    cJSON_AddNumberToObject(root, "contract", LS_CONTRACT_VERSION);
    for (const char *const *n = ls_nn_networks(); *n; n++) {
        cJSON_AddItemToArray(list, cJSON_CreateString(*n));
    }
    cJSON_AddNumberToObject(root, "rows", LS_CONFORM_ROWS);
    list = cJSON_AddArrayToObject(root, "cases");
    for (int i = 0; ls_museum_case(i, &name, &about); i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "name", name);
        cJSON_AddStringToObject(o, "about", about);
        cJSON_AddItemToArray(list, o);
    }
    list = cJSON_AddArrayToObject(root, "faults");
    for (int i = 0; ls_museum_fault(i, &name, &about, &where); i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "name", name);
        cJSON_AddStringToObject(o, "about", about);
        cJSON_AddStringToObject(o, "case", where);
        cJSON_AddItemToArray(list, o);
    }
    return page_send(root);
}

ls_status page_devices(void) {
    enum { MOST = 16 };
    int count = MOST;
    page_begin(NULL);
    ls_device_info *infos = calloc(MOST, sizeof *infos);
    if (!infos) {
        return page_fail(LS_ERR_MEMORY, "out of memory for the list of devices");
    }
    ls_status status = ls_device_list(context, infos, &count, &last);
    if (status == LS_OK) {
        cJSON *root = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(root, "devices");
        for (int i = 0; i < count && i < MOST; i++) {
            const ls_device_info *d = &infos[i];
            cJSON *o = report_device(d->id, &d->caps, report_locked(d));
            cJSON_AddBoolToObject(o, "available", d->available);
            cJSON_AddStringToObject(o, "reason", d->reason);
            cJSON_AddItemToArray(list, o);
        }
        status = page_send(root);
    }
    free(infos);
    return status;
}

bool page_math(const char *name, ls_math *out_math) {
    for (int kind = 0; page_math_names[kind]; kind++) {
        if (strcmp(page_math_names[kind], name) == 0) {
            *out_math = (ls_math)kind;
            return true;
        }
    }
    page_fail(LS_ERR_INVALID, "math \"%.32s\": expected locked, fast or reduced", name);
    return false;
}

ls_status page_session(const char *device, const char *math, ls_session **out_session) {
    ls_device *d = NULL;
    ls_math kind;
    if (!page_math(math, &kind)) {
        return LS_ERR_INVALID;
    }
    ls_status status = ls_device_open(context, device, &d, &last);
    status = status == LS_OK && kind == LS_LOCKED ? ls_device_certify(d, &last) : status;
    status = status == LS_OK ? ls_session_create(context, d, out_session, &last) : status;
    if (status == LS_OK) {
        ls_session_set_math(*out_session, kind);
    }
    return status;
}
