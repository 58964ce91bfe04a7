/* Making and forwarding errors. */
#ifndef LOCKSTEP_BASE_STATUS_H
#define LOCKSTEP_BASE_STATUS_H

#include <lockstep/status.h>

/* Writes the first failure into `err` (NULL is allowed; a record that already holds a failure keeps it, LS_ERR_AGAIN apart) and
 * returns `code`. */
ls_status ls_error_set(ls_error *err, ls_status code, const char *file, int line, const char *fmt, ...)
    LS_PRINTF(5, 6);
/* Appends a source line to the trail and returns `code`. */
ls_status ls_error_forward(ls_error *err, ls_status code, const char *file, int line);

#define LS_FAIL(err, code, ...) ls_error_set((err), (code), __FILE__, __LINE__, __VA_ARGS__)
#define LS_FAIL_MEMORY(err, what) LS_FAIL((err), LS_ERR_MEMORY, "out of memory for %s", (what))

/* Evaluates an ls_status expression; on failure leaves the function with it. */
#define LS_TRY(err, expr)                                                          \
    do {                                                                           \
        ls_status ls_try_ = (expr);                                                \
        if (ls_try_ != LS_OK) {                                                    \
            return ls_error_forward((err), ls_try_, __FILE__, __LINE__);           \
        }                                                                          \
    } while (0)

#endif
