/* Error records: the first failure wins, later ones only lengthen its trail. LS_ERR_AGAIN is none: any failure wins over it. */
#include "base/status.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const status_names[] = {
    [LS_OK] = "ok",
    [LS_ERR_INVALID] = "invalid",
    [LS_ERR_SHAPE] = "shape",
    [LS_ERR_DTYPE] = "dtype",
    [LS_ERR_DEVICE] = "device",
    [LS_ERR_MEMORY] = "memory",
    [LS_ERR_IO] = "io",
    [LS_ERR_FORMAT] = "format",
    [LS_ERR_UNSUPPORTED] = "unsupported",
    [LS_ERR_DIFFERS] = "differs",
    [LS_ERR_RANGE] = "range",
    [LS_ERR_CANCELLED] = "cancelled",
    [LS_ERR_INTERNAL] = "internal",
    [LS_ERR_AGAIN] = "again",
};

const char *ls_status_name(ls_status status) {
    size_t i = (size_t)status;
    return i < sizeof status_names / sizeof *status_names ? status_names[i] : "unknown";
}

void ls_error_clear(ls_error *err) {
    if (err) {
        memset(err, 0, sizeof *err);
    }
}

static void trail_push(ls_error *err, const char *file, int line) {
    if (err->trail_len < LS_TRAIL_MAX) {
        err->trail[err->trail_len].file = file;
        err->trail[err->trail_len].line = line;
        err->trail_len++;
    }
}

ls_status ls_error_set(ls_error *err, ls_status code, const char *file, int line, const char *fmt, ...) {
    if (err && (err->code == LS_OK || err->code == LS_ERR_AGAIN)) {
        ls_error_clear(err);
        err->code = code;
        va_list args;
        va_start(args, fmt);
        vsnprintf(err->message, sizeof err->message, fmt, args);
        va_end(args);
        trail_push(err, file, line);
    }
    return code;
}

ls_status ls_error_memory(ls_error *err, const char *what, const char *file, int line) {
    return ls_error_set(err, LS_ERR_MEMORY, file, line, "out of memory for %s", what);
}

ls_status ls_error_forward(ls_error *err, ls_status code, const char *file, int line) {
    if (err) {
        if (err->code == LS_OK) {
            err->code = code;
        }
        trail_push(err, file, line);
    }
    return code;
}
