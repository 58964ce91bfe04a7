/* loop.c in lockstep-cpu.wasm: nothing that the module exports makes a loop. */
#include "graph/build.h"

ls_status ls_loop(ls_session *s, ls_dim trip, int n_carry, ls_tensor *const *carry, int n_xs, ls_tensor *const *xs, int n_ys,
                  ls_loop_fn body, void *ctx, ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)trip, (void)n_carry, (void)carry, (void)n_xs, (void)xs, (void)n_ys, (void)body, (void)ctx, (void)out_carry, (void)out_ys;
    LS_NODE_FAIL(s, LS_ERR_UNSUPPORTED, "lockstep-cpu.wasm has no loops");
    return LS_ERR_UNSUPPORTED;
}
