/* environment.c in the modules of pages, which have no environment and one thread. */
#include "engine/session.h"

ls_status ls_environment_read(const ls_context_options *options, int *out_threads, ls_check *out_check, ls_error *err) {
    (void)err;
    *out_threads = options->threads;
    *out_check = LS_CHECK_NONE;
    return LS_OK;
}
