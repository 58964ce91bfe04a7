/* cache.c in the modules of pages, which have no disk: nothing is kept. */
#include "device/cache.h"

void ls_cache_key_begin(ls_cache_key *key, const char *kind, const ls_device *device) {
    (void)key, (void)kind, (void)device;
}

void ls_cache_key_add(ls_cache_key *key, const void *data, size_t size) {
    (void)key, (void)data, (void)size;
}

void ls_cache_key_text(ls_cache_key *key, const char *text) {
    (void)key, (void)text;
}

bool ls_cache_is_on(void) {
    return false;
}

bool ls_cache_get(ls_heap *heap, const ls_cache_key *key, void **out_bytes, size_t *out_size) {
    (void)heap, (void)key;
    *out_bytes = NULL;
    *out_size = 0;
    return false;
}

bool ls_cache_put(ls_heap *heap, const ls_cache_key *key, const void *bytes, size_t size) {
    (void)heap, (void)key, (void)bytes, (void)size;
    return false;
}

void ls_cache_trim(ls_heap *heap, uint64_t cap) {
    (void)heap, (void)cap;
}
