/* pages.c in WebAssembly, which has one memory. */
#include "base/pages.h"
#include <stdint.h>

const size_t ls_pages_from = SIZE_MAX;

void *ls_pages_map(size_t size) {
    (void)size;
    return NULL;
}

void ls_pages_unmap(void *memory, size_t size) {
    (void)memory, (void)size;
}

void *ls_pages_placed(void *block, size_t size) {
    (void)size;
    return block;
}
