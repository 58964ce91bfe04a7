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

extern const uint32_t ls_sha256_constants[64];
bool ls_sha256_instructions(void); /* the processor has some for it */

/* A sum that a processor's vectors compute: word i of the data (32 bits) is of lane i % 16, and the sum is the SHA-256 of the lanes' SHA-256, in
 * hexadecimal, one after another, and of what is left after the last whole 1024 bytes. (sha256_lanes.c) */
enum { LS_SHA256_LANES = 16 };
typedef enum ls_sha256_way { LS_SHA256_BEST, LS_SHA256_AVX2, LS_SHA256_PORTABLE } ls_sha256_way; /* for tests; what is missing is not used */
bool ls_sha256_lanes(ls_sha256_way way, const void *data, size_t size, char out_hex[65]); /* false: not in this build */
bool ls_sha256_lanes_pay(void); /* it is faster here than the plain sum */

#endif
