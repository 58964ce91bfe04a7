/* SHA-256 (FIPS 180-4), for the hashes that commands print and files carry. */
#ifndef LOCKSTEP_BASE_SHA256_H
#define LOCKSTEP_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ls_sha256 {
    uint32_t state[8];
    uint64_t length;
    uint8_t block[64];
    bool portable; /* for tests: without the processor's own instructions */
} ls_sha256;

void ls_sha256_init(ls_sha256 *sha);
void ls_sha256_add(ls_sha256 *sha, const void *data, size_t size);
void ls_sha256_hex(ls_sha256 *sha, char out_hex[65]); /* finishes */

#endif
