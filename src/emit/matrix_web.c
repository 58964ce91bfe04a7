/* matrix.c and fragment.c in the modules of pages: WebGPU has no matrix instructions. */
#include "emit/contract.h"

static const char none[] = "matrix instructions are not in this build";

const char *ls_lower_matrix(ls_lower *l, int32_t first, int32_t count, bool dry) {
    (void)l, (void)first, (void)count, (void)dry;
    return none;
}

const char *ls_product_fragments(ls_product *p, bool forced, bool dry) {
    (void)p, (void)forced, (void)dry;
    return none;
}
