/* A growing array of any type: LS_ARRAY(int) a = {0}; ls_array_push(heap, &a, 7); a.data[0]; ls_array_free(heap, &a). */
#ifndef LOCKSTEP_BASE_ARRAY_H
#define LOCKSTEP_BASE_ARRAY_H

#include "base/alloc.h"

#define LS_ARRAY(type)   \
    struct {             \
        type *data;      \
        size_t len, cap; \
    }

/* Makes room for `extra` more elements; false when out of memory, with the array as it was. */
bool ls_array_reserve_bytes(ls_heap *heap, void **data, size_t *cap, size_t len, size_t extra, size_t elem);

#define ls_array_reserve(heap, a, extra) \
    ls_array_reserve_bytes((heap), (void **)&(a)->data, &(a)->cap, (a)->len, (extra), sizeof *(a)->data)
#define ls_array_push(heap, a, value) (ls_array_reserve(heap, a, 1) && ((a)->data[(a)->len++] = (value), true))
#define ls_array_free(heap, a) (ls_free((heap), (a)->data), (a)->data = NULL, (a)->len = (a)->cap = 0)

#endif
