/* A sum that finds damage as fast as memory is read: word i of the data (64 bits) is of lane i % 4, what is left after the last whole 32 bytes is of
 * lane 0, and the sum is the CRC-32C (Castagnoli) of the lanes, in hexadecimal, one after another. */
#ifndef LOCKSTEP_BASE_CRC_H
#define LOCKSTEP_BASE_CRC_H

#include <stdbool.h>
#include <stddef.h>

enum { LS_CRC_HEX = 4 * 8 + 1 };
/* False: not in this build. `portable`, for tests: without the processor's own instructions. */
bool ls_crc_lanes(bool portable, const void *data, size_t size, char out_hex[LS_CRC_HEX]);
bool ls_crc_instructions(void); /* the processor has some for it: nothing is faster */

#endif
