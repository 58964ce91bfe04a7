/* Open addressing with linear probing. Invariants: cap is a power of two, at least a quarter of the slots is empty
 * (so that probes end), used counts slots that hold an entry or a tombstone. */
#include "base/map.h"

struct ls_map_slot {
    uint64_t hash;
    const void *key; /* NULL: empty; &tombstone: removed */
    void *value;
};

static const char tombstone;

void ls_map_init(ls_map *map, ls_heap *heap, ls_map_equal equal) {
    *map = (ls_map){.heap = heap, .equal = equal};
}

static struct ls_map_slot *slot_find(const ls_map *map, uint64_t hash, const void *key) {
    if (!map->cap) {
        return NULL;
    }
    for (size_t i = (size_t)hash & (map->cap - 1);; i = (i + 1) & (map->cap - 1)) {
        struct ls_map_slot *slot = &map->slots[i];
        if (!slot->key) {
            return NULL;
        }
        if (slot->key != &tombstone && slot->hash == hash && map->equal(key, slot->key)) {
            return slot;
        }
    }
}

void *ls_map_get(const ls_map *map, uint64_t hash, const void *key) {
    struct ls_map_slot *slot = slot_find(map, hash, key);
    return slot ? slot->value : NULL;
}

static void slot_fill(struct ls_map_slot *slots, size_t cap, struct ls_map_slot entry) {
    size_t i = (size_t)entry.hash & (cap - 1);
    while (slots[i].key) {
        i = (i + 1) & (cap - 1);
    }
    slots[i] = entry;
}

/* Rebuilds without tombstones, larger when entries need it. */
static bool map_rebuild(ls_map *map) {
    size_t cap = map->cap ? map->cap : 16, bytes;
    if (map->len >= cap / 2) {
        cap *= 2;
    }
    if (!ls_size_mul(cap, sizeof(struct ls_map_slot), &bytes)) {
        return false;
    }
    struct ls_map_slot *slots = ls_alloc_zeroed(map->heap, bytes);
    if (!slots) {
        return false;
    }
    for (size_t i = 0; i < map->cap; i++) {
        if (map->slots[i].key && map->slots[i].key != &tombstone) {
            slot_fill(slots, cap, map->slots[i]);
        }
    }
    ls_free(map->heap, map->slots);
    map->slots = slots;
    map->cap = cap;
    map->used = map->len;
    return true;
}

bool ls_map_put(ls_map *map, uint64_t hash, const void *key, void *value) {
    if (map->used >= map->cap / 4 * 3 && !map_rebuild(map)) {
        return false;
    }
    slot_fill(map->slots, map->cap, (struct ls_map_slot){hash, key, value});
    map->len++;
    map->used++;
    return true;
}

void *ls_map_remove(ls_map *map, uint64_t hash, const void *key) {
    struct ls_map_slot *slot = slot_find(map, hash, key);
    if (!slot) {
        return NULL;
    }
    void *value = slot->value;
    *slot = (struct ls_map_slot){0, &tombstone, NULL};
    map->len--;
    return value;
}

void *ls_map_next(const ls_map *map, size_t *pos) {
    while (*pos < map->cap) {
        struct ls_map_slot *slot = &map->slots[(*pos)++];
        if (slot->key && slot->key != &tombstone) {
            return slot->value;
        }
    }
    return NULL;
}

void ls_map_free(ls_map *map) {
    ls_free(map->heap, map->slots);
    map->slots = NULL;
    map->len = map->cap = map->used = 0;
}

uint64_t ls_hash_u64(uint64_t value, uint64_t seed) {
    uint64_t h = (seed ^ value) + 0x9e3779b97f4a7c15u;
    h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93u;
    h = (h ^ (h >> 29)) * 0xbf58476d1ce4e5b9u;
    return h ^ (h >> 32);
}

uint64_t ls_hash(const void *data, size_t size, uint64_t seed) {
    const uint8_t *bytes = data;
    uint64_t h = ls_hash_u64(size, seed);
    for (size_t i = 0; i < size; i += 8) {
        uint64_t word = 0; /* little-endian, whatever the machine */
        for (size_t j = 0; j < 8 && i + j < size; j++) {
            word |= (uint64_t)bytes[i + j] << (8 * j);
        }
        h = ls_hash_u64(word, h);
    }
    return h;
}
