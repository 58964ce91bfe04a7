/* Making and forwarding errors. */
#ifndef LOCKSTEP_BASE_STATUS_H
#define LOCKSTEP_BASE_STATUS_H

#include <lockstep/status.h>

/* The place of a failure. Where nobody sees trails (a page) it is left out, with the code that passes it on. */
#ifdef LS_NO_TRAIL
#define LS_FILE ((const char *)0)
#define LS_LINE 0
#else
#define LS_FILE __FILE__
#define LS_LINE __LINE__
#endif

/* Writes the first failure into `err` (NULL is allowed; a record that already holds a failure keeps it, LS_ERR_AGAIN apart) and
 * returns `code`. */
ls_status ls_error_set(ls_error *err, ls_status code, const char *file, int line, const char *fmt, ...)
    LS_PRINTF(5, 6);
/* "out of memory for ...": a function of its own, because hundreds of places say so. */
ls_status ls_error_memory(ls_error *err, const char *what, const char *file, int line);
/* Appends a source line to the trail and returns `code`. */
ls_status ls_error_forward(ls_error *err, ls_status code, const char *file, int line);

#define LS_FAIL(err, code, ...) ls_error_set((err), (code), LS_FILE, LS_LINE, __VA_ARGS__)
#define LS_FAIL_MEMORY(err, what) ls_error_memory((err), (what), LS_FILE, LS_LINE)
#define LS_FORWARD(err, code) ls_error_forward((err), (code), LS_FILE, LS_LINE)

/* Evaluates an ls_status expression; on failure leaves the function with it. */
#define LS_TRY(err, expr)                                                          \
    do {                                                                           \
        ls_status ls_try_ = (expr);                                                \
        if (ls_try_ != LS_OK) {                                                    \
            return LS_FORWARD((err), ls_try_);                                     \
        }                                                                          \
    } while (0)

#endif
