/* The disk cache: bytes that a backend or the engine made once and would make again the same (compiled kernels, verdicts,
 * measured choices).
 *
 * It lies in LOCKSTEP_CACHE, else XDG_CACHE_HOME/lockstep, else HOME/.cache/lockstep; LOCKSTEP_CACHE=off turns it off. The
 * folder is its owner's alone (0700), or it is not used. An entry is found by the SHA-256 of all that it depends on, so a
 * key names the device, its driver and what was compiled; the version of the library and of the contract are in every key.
 * An entry carries a checksum: a broken one is removed and counts as missing. Writing is atomic, any number of processes
 * and threads may use one folder, and what cannot be written is simply not kept. Beyond LS_CACHE_CAP bytes the entries that
 * were used least recently go.
 *
 *     ls_cache_key key;
 *     ls_cache_key_begin(&key, "spirv", device);
 *     ls_cache_key_add(&key, words, size);
 *     if (!ls_cache_get(heap, &key, &bytes, &n)) { ...make them...; ls_cache_put(heap, &key, bytes, n); }
 */
#ifndef LOCKSTEP_DEVICE_CACHE_H
#define LOCKSTEP_DEVICE_CACHE_H

#include "base/sha256.h"
#include "device/device.h"

#define LS_CACHE_CAP (UINT64_C(256) << 20)

typedef struct ls_cache_key {
    ls_sha256 sha;
} ls_cache_key;

/* `kind` says what the bytes are. The device's name, driver and backend enter the key; NULL: it depends on no device. */
void ls_cache_key_begin(ls_cache_key *key, const char *kind, const ls_device *device);
void ls_cache_key_add(ls_cache_key *key, const void *data, size_t size); /* lengths count: "ab","c" is not "a","bc" */
void ls_cache_key_text(ls_cache_key *key, const char *text);

/* Whether it has a folder: nothing is kept otherwise. */
bool ls_cache_is_on(void);
/* False when there is no sound entry. The bytes are the heap's (ls_free). The key may be used again. */
bool ls_cache_get(ls_heap *heap, const ls_cache_key *key, void **out_bytes, size_t *out_size);
/* False when it could not be kept, which is no error. */
bool ls_cache_put(ls_heap *heap, const ls_cache_key *key, const void *bytes, size_t size);
/* Removes the least recently used entries until `cap` bytes are left (and what was left behind by processes that died). */
void ls_cache_trim(ls_heap *heap, uint64_t cap);

#endif
