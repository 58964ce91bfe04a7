/* Growing arrays: capacity doubles, so that pushes are amortised constant time. */
#include "base/array.h"

bool ls_array_reserve_bytes(ls_heap *heap, void **data, size_t *cap, size_t len, size_t extra, size_t elem) {
    size_t need, bytes;
    if (!ls_size_add(len, extra, &need)) {
        return false;
    }
    if (need <= *cap) {
        return true;
    }
    size_t grown = *cap > SIZE_MAX / 2 ? need : *cap * 2;
    grown = grown < 8 ? 8 : grown;
    grown = grown < need ? need : grown;
    if (!ls_size_mul(grown, elem, &bytes)) {
        return false;
    }
    void *moved = ls_realloc(heap, *data, bytes);
    if (!moved) {
        return false;
    }
    *data = moved;
    *cap = grown;
    return true;
}
