/* In place of joined.c where size counts more: a program packs such operands. */
#include "backend/cpu/contract.h"

bool ls_joined_find(const ls_contract_side *side) {
    (void)side;
    return false;
}

void ls_joined_pack(const ls_contract_side_launch *s, int worker, ls_run *run, char *scratch, int64_t batch, int64_t k0, int64_t kc, int64_t i0,
                    int64_t ni, int64_t width, float *panel) {
    (void)s, (void)worker, (void)run, (void)scratch, (void)batch, (void)k0, (void)kc, (void)i0, (void)ni, (void)width, (void)panel;
}
