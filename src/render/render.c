/* What all renderers agree on: where the parameters of a kernel lie. */
#include "render/render.h"

int32_t ls_render_word(const ls_kernel *kernel, int param) {
    int32_t words = 0;
    for (int p = 0; p < param; p++) {
        words += ls_dtype_bits(kernel->params[p].dtype) > 32 ? 2 : 1;
    }
    return words;
}

int32_t ls_render_words(const ls_kernel *kernel) {
    return ls_render_word(kernel, kernel->n_params);
}
