/* attention.c in lockstep-cpu.wasm, none of whose networks has an attention: as composites it would have the same bits. */
#include "plan/build.h"

bool ls_attention_find(const ls_planner *p, const ls_plan_node *n, const char **out_reason) {
    (void)p, (void)n;
    *out_reason = NULL;
    return false;
}

void ls_attention_join(const ls_planner *p, const ls_plan_node *n, struct ls_draft *draft) {
    (void)p, (void)n, (void)draft;
}
