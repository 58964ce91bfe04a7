/* A hash map from a structure (compared whole, never by hash alone) to a pointer. One thread at a time. */
#ifndef LOCKSTEP_BASE_MAP_H
#define LOCKSTEP_BASE_MAP_H

#include "base/alloc.h"
#include <stdint.h>

typedef bool (*ls_map_equal)(const void *key, const void *entry_key);

typedef struct ls_map {
    ls_heap *heap;
    ls_map_equal equal;
    struct ls_map_slot *slots;
    size_t len, cap, used;
} ls_map;

void ls_map_init(ls_map *map, ls_heap *heap, ls_map_equal equal);
/* The value stored under an equal key, or NULL. */
void *ls_map_get(const ls_map *map, uint64_t hash, const void *key);
/* Adds a key that is not there. The map keeps the pointers, not copies. False when out of memory. */
bool ls_map_put(ls_map *map, uint64_t hash, const void *key, void *value);
/* Removes an equal key and returns its value, or NULL. */
void *ls_map_remove(ls_map *map, uint64_t hash, const void *key);
/* Iterates: start with *pos = 0; NULL at the end. */
void *ls_map_next(const ls_map *map, size_t *pos);
void ls_map_free(ls_map *map);

/* A good 64-bit hash of bytes, the same on every machine; `seed` chains calls. */
uint64_t ls_hash(const void *data, size_t size, uint64_t seed);
uint64_t ls_hash_u64(uint64_t value, uint64_t seed);

#endif
