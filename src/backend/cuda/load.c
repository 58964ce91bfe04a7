/* The driver's library and entry points, and what its error codes mean. */
#include "backend/cuda/cuda.h"
#include <string.h>

const ls_cuda_name_table ls_cuda_names = {
#define FN(member, symbol, parameters) .member = #symbol,
    LS_CUDA_FUNCTIONS(FN)
    LS_CUDA_OPTIONAL(FN)
#undef FN
};

/* After these no call on the context works again: faults of a kernel or of the hardware, and a context that is gone. */
static bool is_fatal(ls_cu_result r) {
    static const short codes[] = {3,   4,   46,  101, 201, 214, 218, 220, 226, 227, 700, 702, 709,
                                  710, 714, 715, 716, 717, 718, 719, 721, 800, 999};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (codes[i] == r) {
            return true;
        }
    }
    return false;
}

ls_status ls_cuda_check(ls_cuda *c, ls_cu_result r, const char *call, ls_error *err) {
    const char *name = NULL;
    if (r == LS_CU_OK) {
        return LS_OK;
    }
    if (!c->api.error_name || c->api.error_name(r, &name) != LS_CU_OK || !name) {
        name = "an unknown error";
    }
    if (r == LS_CU_OUT_OF_MEMORY) {
        return LS_FAIL(err, LS_ERR_MEMORY, "%s: %s: %s", c->id, call, name);
    }
    if (is_fatal(r) && !c->lost) {
        ls_error lost = {.code = LS_OK};
        c->lost = true;
        (void)LS_FAIL(&lost, LS_ERR_DEVICE, "%s: %s (%d)", call, name, r);
        memcpy(c->lost_reason, lost.message, sizeof c->lost_reason - 1);
    }
    return LS_FAIL(err, c->lost ? LS_ERR_DEVICE : LS_ERR_INTERNAL, "%s: %s: %s (%d)%s", c->id, call, name, r,
                   c->lost ? "; the device is lost" : "");
}

ls_status ls_cuda_enter(ls_cuda *c, ls_error *err) {
    if (c->lost) {
        return LS_FAIL(err, LS_ERR_DEVICE, "%s was lost: %s", c->id, c->lost_reason);
    }
    return ls_cuda_check(c, c->api.context_push(c->context), "cuCtxPushCurrent_v2", err);
}

void ls_cuda_leave(ls_cuda *c) {
    ls_cu_context own;
    (void)c->api.context_pop(&own);
}

ls_status ls_cuda_load(ls_cuda *c, ls_error *err) {
    const char *chosen = ls_os_env("LOCKSTEP_CUDA"), *reason = "";
    const char *const only[] = {chosen, NULL};
    static const char *const usual[] = {"nvcuda.dll", "libcuda.so.1", NULL};
    c->library = ls_os_library_open(chosen ? only : usual, &reason);
    if (!c->library) {
        return LS_FAIL(err, LS_ERR_DEVICE, "no CUDA driver: %s: install NVIDIA's driver, which has libcuda.so.1", reason);
    }
    const char *missing = NULL;
#define FN(member, symbol, parameters)                           \
    {                                                            \
        void *found = ls_os_library_symbol(c->library, #symbol); \
        memcpy(&c->api.member, &found, sizeof found);            \
        missing = found ? missing : #symbol;                     \
    }
    LS_CUDA_FUNCTIONS(FN)
#undef FN
#define FN(member, symbol, parameters)                           \
    {                                                            \
        void *found = ls_os_library_symbol(c->library, #symbol); \
        memcpy(&c->api.member, &found, sizeof found);            \
    }
    LS_CUDA_OPTIONAL(FN)
#undef FN
    if (missing) {
        ls_os_library_close(c->library); /* nothing of it was called */
        c->library = NULL;
        return LS_FAIL(err, LS_ERR_DEVICE, "%s: the CUDA driver has no %s: update it to version 11.4 or later", c->id, missing);
    }
    return LS_OK;
}
