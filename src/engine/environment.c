/* What a context takes from its options, else from the environment. */
#include "base/os.h"
#include "engine/session.h"
#include <string.h>

enum { THREADS_MOST = 1024 };

/* What the caller says, else LOCKSTEP_THREADS; 0: one a core. */
static ls_status read_threads(int given, int *out_threads, ls_error *err) {
    const char *text = given ? NULL : ls_os_env("LOCKSTEP_THREADS");
    int64_t n = given;
    if (given < 0 || given > THREADS_MOST) {
        return LS_FAIL(err, LS_ERR_INVALID, "threads is %d, expected 0 to %d", given, THREADS_MOST);
    }
    if (text && (!ls_parse_i64(text, &n) || n < 1 || n > THREADS_MOST)) {
        return LS_FAIL(err, LS_ERR_INVALID, "LOCKSTEP_THREADS is \"%.40s\": expected a whole number from 1 to %d", text, THREADS_MOST);
    }
    *out_threads = (int)n;
    return LS_OK;
}

static ls_status read_check(ls_check *out_check, ls_error *err) {
    static const char *const names[] = {[LS_CHECK_NONE] = "none", [LS_CHECK_BITS] = "bits", [LS_CHECK_ORACLE] = "oracle"};
    const char *text = ls_os_env("LOCKSTEP_CHECK");
    int check = text ? LS_CHECK_ORACLE : LS_CHECK_NONE;
    while (check >= 0 && text && strcmp(text, names[check]) != 0) {
        check--;
    }
    if (check < 0) {
        return LS_FAIL(err, LS_ERR_INVALID, "LOCKSTEP_CHECK is \"%.40s\", expected bits, oracle or none", text);
    }
    *out_check = (ls_check)check;
    return LS_OK;
}

/* Which tune.c asks for. */
static ls_status check_tune(ls_error *err) {
    const char *text = ls_os_env("LOCKSTEP_TUNE");
    if (text && strcmp(text, "on") != 0 && strcmp(text, "off") != 0) {
        return LS_FAIL(err, LS_ERR_INVALID, "LOCKSTEP_TUNE is \"%.40s\", expected on or off", text);
    }
    return LS_OK;
}

ls_status ls_environment_read(const ls_context_options *options, int *out_threads, ls_check *out_check, ls_error *err) {
    LS_TRY(err, read_threads(options->threads, out_threads, err));
    LS_TRY(err, check_tune(err));
    return read_check(out_check, err);
}
